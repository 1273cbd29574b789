"""One situation with one hook, on a thread of its own, so that one that hangs stops nothing."""

from __future__ import annotations

import contextvars
import copy
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from jevlaya_lab.experiments.doctor.ambient import Ambient
from jevlaya_lab.experiments.doctor.patients import Patients
from jevlaya_lab.experiments.doctor.probe import Note, Probe, in_words
from jevlaya_lab.experiments.doctor.situations import Caller, Situation, changed

__all__ = ["Hung", "Outcome", "Visit", "guarded", "visit"]

T = TypeVar("T")


class Hung(Exception):
    """It was not back in time; its thread may still be there."""


@dataclass
class Outcome(Generic[T]):
    """What came of a function on another thread.

    Attributes:
        value: What it gave back.
        error: What it raised, as text.
        is_hung: Whether it was not back in time.
    """

    value: T | None = None
    error: str = ""
    is_hung: bool = False


def guarded(function: Callable[[], T], timeout_s: float) -> Outcome[T]:
    """Call a function on a daemon thread, and wait for it no longer than that."""
    outcome: Outcome[T] = Outcome(is_hung=True)
    done = threading.Event()
    context = contextvars.copy_context()

    def run() -> None:
        found: Outcome[T] = Outcome()
        try:
            found.value = context.run(function)
        except BaseException as error:  # of whatever kind: it is reported
            found.error = in_words(error)
        outcome.value, outcome.error = found.value, found.error
        outcome.is_hung = False
        done.set()

    threading.Thread(target=run, name="jevlaya-doctor", daemon=True).start()
    if not done.wait(timeout_s):
        return Outcome(is_hung=True)
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
        is_hung: Whether it was not back in time.
    """

    situation: str
    is_batch: bool
    notes: tuple[Note, ...]
    complaints: tuple[str, ...]
    changed: tuple[str, ...]
    ambient: tuple[str, ...]
    error: str
    is_hung: bool


def visit(patients: Patients, situation: Situation, caller: Caller, timeout_s: float) -> Visit:
    """Play a situation with a hook of its own."""
    probe = Probe(patients.hook())
    given = caller.given()
    before = copy.deepcopy(vars(given))
    ambient: list[str] = []

    def play() -> None:
        was = Ambient()
        try:
            situation.play(probe, given)
        finally:
            ambient.extend(was.changes())
            was.restore()

    outcome = guarded(play, timeout_s)
    return Visit(
        situation=situation.name,
        is_batch=situation.is_batch,
        notes=tuple(probe.notes),
        complaints=tuple(dict.fromkeys(probe.complaints)),
        changed=tuple(changed(before, given)),
        ambient=tuple(ambient),
        error=outcome.error,
        is_hung=outcome.is_hung,
    )
