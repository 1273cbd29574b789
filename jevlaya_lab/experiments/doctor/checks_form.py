"""What can be told without a call: names and signatures of the methods."""

from __future__ import annotations

import inspect
from typing import Any

from jevlaya_lab.experiments.doctor.checks_visits import shown
from jevlaya_lab.experiments.doctor.names import meant
from jevlaya_lab.experiments.doctor.patients import own_classes
from jevlaya_lab.experiments.doctor.probe import listens_to
from jevlaya_lab.experiments.doctor.report import FOUND, OK, Finding

__all__ = ["form"]


def form(hook: Any) -> Finding:
    """Whether methods are misspelt, or cannot take a context."""
    found = []
    own = {name for kind in own_classes(hook) for name in vars(kind)} | set(
        getattr(hook, "__dict__", ())
    )
    for name in sorted(own):
        event = meant(name)
        static = inspect.getattr_static(hook, name, None)
        if event is not None and (callable(static) or isinstance(static, (staticmethod,
                                                                         classmethod))):
            found.append(f"{name} is no event and never runs; did you mean {event}?")
    heard = listens_to(hook)
    for event in heard:
        method = getattr(hook, event, None)
        if not callable(method):
            found.append(f"{event} is a {type(method).__name__}, no method")
            continue
        try:
            signature = inspect.signature(method)
        except (TypeError, ValueError):
            continue  # what it takes is not known
        try:
            signature.bind(object())
        except TypeError as error:
            found.append(f"{event}{signature} cannot be called with the context alone: {error}")
    if found:
        return Finding("form", FOUND, shown(found) + ("" if found[-1].endswith("?") else "."))
    if not heard:
        return Finding("form", FOUND, "It listens to no event: no method of it ever runs.")
    return Finding("form", OK, f"It listens to {', '.join(heard)}.")
