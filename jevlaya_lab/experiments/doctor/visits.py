"""One situation with one hook, on a thread of its own, so that one that hangs stops nothing."""

from __future__ import annotations

import contextvars
import copy
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from jevlaya_lab.experiments.doctor.ambient import Ambient
from jevlaya_lab.experiments.doctor.patients import Patients
from jevlaya_lab.experiments.doctor.probe import Note, Probe, said
from jevlaya_lab.experiments.doctor.shared import Shared
from jevlaya_lab.experiments.doctor.situations import Caller, Situation, changed

__all__ = ["Outcome", "Visit", "guarded", "visit"]

T = TypeVar("T")
_LOOKS: Final = 10


@dataclass
class Outcome(Generic[T]):
    """What came of a function on another thread.

    Attributes:
        value: What it gave back.
        error: What it raised, as text.
        is_hung: Whether it was not back in time, and that is the function's doing.
        is_late: Whether it was not back in time although the hook was at nothing for that long.
    """

    value: T | None = None
    error: str = ""
    is_hung: bool = False
    is_late: bool = False


def guarded(
    function: Callable[[], T],
    timeout_s: float,
    open_since: Callable[[], float | None] | None = None,
) -> Outcome[T]:
    """Call a function on a daemon thread, and wait for it no longer than that.

    Args:
        function: What is called.
        timeout_s: How long.
        open_since: When the hook began with what it is at. Only a hook that is seen at the same
            thing all that long hangs; where it is at nothing the machine is slow, and is given
            ten times as long.
    """
    outcome: Outcome[T] = Outcome(is_hung=True)
    done = threading.Event()
    context = contextvars.copy_context()

    def run() -> None:
        found: Outcome[T] = Outcome()
        try:
            found.value = context.run(function)
        except BaseException as error:  # of whatever kind: it is reported
            found.error = said(error)
        outcome.value, outcome.error = found.value, found.error
        outcome.is_hung = False
        done.set()

    threading.Thread(target=run, name="jevlaya-doctor", daemon=True).start()
    if open_since is None:
        return outcome if done.wait(timeout_s) else Outcome(is_hung=True)
    latest = time.monotonic() + 10 * timeout_s
    was, n_seen = None, 0
    while not done.wait(timeout_s / _LOOKS):
        # Counted in looks: a process that gets no turn for a while does not look either.
        since = open_since()
        n_seen = n_seen + 1 if since is not None and since == was else 0
        was = since
        if n_seen >= _LOOKS:
            return Outcome(is_hung=True)
        if time.monotonic() >= latest:
            return Outcome(is_late=True)
    return outcome


@dataclass(frozen=True)
class Visit:
    """What came of one situation.

    Attributes:
        situation: Its name.
        is_batch: Whether several runs were open at once.
        notes: What the hook did.
        complaints: What was missing in results.
        changed: What of the caller's own things was changed in place.
        ambient: What of the process was left otherwise than it was.
        error: What the call raised, although nothing but the hook could be the reason.
        is_hung: Whether it was not back in time, and the hook was at work all the while.
        is_late: Whether it was not back in time, and the hook was at nothing for that long.
    """

    situation: str
    is_batch: bool
    notes: tuple[Note, ...]
    complaints: tuple[str, ...]
    changed: tuple[str, ...]
    ambient: tuple[str, ...]
    error: str
    is_hung: bool
    is_late: bool

    @property
    def is_back(self) -> bool:
        """Whether it came back."""
        return not self.is_hung and not self.is_late


def visit(
    patients: Patients, situation: Situation, caller: Caller, timeout_s: float, shared: Shared
) -> Visit:
    """Play a situation with a hook of its own."""
    probes: list[Probe] = []
    given = caller.given()
    before = copy.deepcopy(vars(given))
    ambient: list[str] = []

    def play() -> None:
        hook = patients.hook()  # here: some hooks are of the thread that makes them
        watch = shared.watch(hook, situation.name)
        probes.append(Probe(hook, watch))
        was = Ambient()
        try:
            situation.play(probes[0], given)
        finally:
            ambient.extend(was.changes())
            ambient.extend(watch.left())
            was.restore()

    outcome = guarded(play, timeout_s, lambda: probes[0].open_since if probes else None)
    return Visit(
        situation=situation.name,
        is_batch=situation.is_batch,
        notes=tuple(note for each in probes for note in each.notes),
        complaints=tuple(dict.fromkeys(text for each in probes for text in each.complaints)),
        changed=tuple(changed(before, given)),
        ambient=tuple(ambient),
        error=outcome.error,
        is_hung=outcome.is_hung,
        is_late=outcome.is_late,
    )
