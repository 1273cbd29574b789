"""What can be told without a call: names and signatures of the methods."""

from __future__ import annotations

import inspect
from typing import Any

from jevlaya_lab.experiments.doctor.checks_visits import shown
from jevlaya_lab.experiments.doctor.names import meant
from jevlaya_lab.experiments.doctor.patients import attributes, own_classes
from jevlaya_lab.experiments.doctor.probe import listens_to, said
from jevlaya_lab.experiments.doctor.report import FOUND, OK, Finding
from jevlaya_lab.system_one.errors import InvalidHook
from jevlaya_lab.system_one.hooks import entries

__all__ = ["form"]


def form(hook: Any) -> Finding:
    """Whether methods are misspelt, or cannot take a context."""
    found = []
    own = {name for kind in own_classes(hook) for name in vars(kind)} | set(attributes(hook))
    for name in sorted(own):
        event = meant(name)
        static = inspect.getattr_static(hook, name, None)
        if event is not None and (
            callable(static) or isinstance(static, (staticmethod, classmethod))
        ):
            found.append(f"{name} is no event and never runs; did you mean {event}?")
    heard = listens_to(hook)
    try:
        entries("examined", hook)
    except InvalidHook as error:
        found.append(str(error))
    except Exception as error:  # a property that fails
        found.append(f"an event cannot be read: {said(error)}")
        heard = []
    for event in heard:
        method = getattr(hook, event, None)
        try:
            signature = inspect.signature(method) if callable(method) else None
        except (TypeError, ValueError):
            continue  # what it takes is not known
        try:
            if signature is not None:
                signature.bind(object())
        except TypeError as error:
            takes = ", ".join(signature.parameters) if signature is not None else ""
            found.append(f"{event}({takes}) cannot be called with the context alone: {error}")
    if found:
        return Finding("form", FOUND, shown(found) + ("" if found[-1].endswith("?") else "."))
    if not listens_to(hook):
        return Finding("form", FOUND, "It listens to no event: no method of it ever runs.")
    return Finding("form", OK, f"It listens to {', '.join(heard)}.")
