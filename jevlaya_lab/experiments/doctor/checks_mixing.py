"""Whether a hook mixes runs up: an attribute that a start set is another run's at the end."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from jevlaya_lab.experiments.doctor.checks_visits import shown
from jevlaya_lab.experiments.doctor.patients import slots_of
from jevlaya_lab.experiments.doctor.probe import Probe
from jevlaya_lab.experiments.doctor.report import FOUND, OK, UNKNOWN, Finding
from jevlaya_lab.experiments.doctor.situations import Caller, router

__all__ = ["mixing"]


def mixing(hook: Any, caller: Caller) -> Finding:
    """Whether runs of one batch read attributes that other runs have set."""
    log = _Log()
    kind = type(hook)
    try:
        watched = _watched(kind, log, frozenset(slots_of(hook)))
        object.__setattr__(hook, "__class__", watched)  # also where it is frozen
    except Exception as error:  # a layout or a metaclass that does not let itself be extended
        return Finding("mixes runs", UNKNOWN, f"Its attributes cannot be watched: {error}.")
    try:
        pool = router([Probe(hook, log.around)])
        pool.predict_batch(caller.given().requests)
    finally:
        log.current = None
        object.__setattr__(hook, "__class__", kind)
    if not log.mixed:
        n = log.n_written
        text = f"Values set at starts of a batch: {n}; none is read by another run"
        return Finding("mixes runs", OK, f"{text if n else 'No start sets a value of its run'}.")
    found = (
        f"{name} is set at the start of each run and read later; {n} of 4 runs of a batch read "
        "the value of another"
        for name, n in log.mixed.items()
    )
    return Finding("mixes runs", FOUND, f"{shown(found)}.")


class _Log:
    """What was written and read in which run.

    A value is a run's own where its start sets the attribute without having read it: a counter
    reads before it writes.
    """

    def __init__(self) -> None:
        self.current: tuple[int, str] | None = None
        self.n_written = 0
        self.mixed: dict[str, int] = {}
        self._read: set[str] = set()
        self._written: dict[int, dict[str, Any]] = {}
        self._kept: list[Any] = []
        self._told: set[tuple[int, str]] = set()

    def around(self, ctx: Any, event: str, when: str) -> None:
        """Note in whose run the hook is."""
        self._kept.append(ctx)  # so that no other gets its id
        self.current = (id(ctx), event) if when == "before" else None
        self._read.clear()

    def read(self, name: str, value: Any) -> None:
        """An attribute is read."""
        if self.current is None:
            return
        self._read.add(name)
        run, event = self.current
        own = self._written.get(run, {})
        if event == "on_predict_start" or name not in own or (run, name) in self._told:
            return
        if value is not own[name] and not _equal(value, own[name]):
            self._told.add((run, name))
            self.mixed[name] = self.mixed.get(name, 0) + 1

    def wrote(self, name: str, value: Any) -> None:
        """An attribute is set."""
        if self.current is None:
            return
        run, event = self.current
        own = self._written.setdefault(run, {})
        if name in own:
            own[name] = value
        elif event == "on_predict_start" and name not in self._read:
            own[name] = value
            self.n_written += 1


def _equal(a: Any, b: Any) -> bool:
    try:
        return bool(a == b)
    except Exception:  # arrays and the like
        return False


def _watched(kind: Any, log: _Log, slots: frozenset[str]) -> Any:
    """A subclass whose attributes are watched."""

    def __getattribute__(self: Any, name: str) -> Any:
        value = kind.__getattribute__(self, name)
        if name in slots:
            log.read(name, value)
        elif not name.startswith("__"):
            with suppress(Exception):  # where there are slots alone, or it does not show them
                if name in object.__getattribute__(self, "__dict__"):
                    log.read(name, value)
        return value

    def __setattr__(self: Any, name: str, value: Any) -> None:
        kind.__setattr__(self, name, value)
        log.wrote(name, value)

    return type(kind)(
        kind.__name__,
        (kind,),
        {
            "__slots__": (),
            "__module__": kind.__module__,
            "__qualname__": kind.__qualname__,
            "__getattribute__": __getattribute__,
            "__setattr__": __setattr__,
        },
    )
