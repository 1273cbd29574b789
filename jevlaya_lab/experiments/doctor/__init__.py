"""The doctor of hooks: puts one through the situations of a run and says what it found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jevlaya_lab.experiments.doctor.ambient import Ambient
from jevlaya_lab.experiments.doctor.course import Course
from jevlaya_lab.experiments.doctor.patients import Patients
from jevlaya_lab.experiments.doctor.report import (
    CHECKS,
    Examination,
    Finding,
    frame_of,
    times_of,
)
from jevlaya_lab.experiments.doctor.situations import Caller
from jevlaya_lab.experiments.steps import Progress, steps
from jevlaya_lab.system_one.errors import InvalidOption

__all__ = ["CHECKS", "Examination", "Finding", "examine"]


def examine(
    hook: Any,
    *,
    questions: Mapping[str, Any] | None = None,
    seed: int = 0,
    progress: Progress = True,
    timeout_s: float = 5.0,
    slow_ms: float = 1.0,
) -> Examination:
    """Put a hook through single calls, batches, failures, threads and the like, and report.

    The calls are real ones, of agents and routers of this package over networks that answer at
    once; the hook is installed nowhere else. Each part gets a hook of its own: made anew from a
    class or a function, copied from an instance. An instance that cannot be copied is used itself,
    and keeps what it counted; ``parameters["made"]`` says so.

    Args:
        hook: A hook, a class of hooks that takes no arguments, or a function that makes one.
        questions: What is asked, for a hook that reads the answers of certain questions.
        seed: Of the texts.
        progress: See :data:`jevlaya_lab.experiments.steps.Progress`.
        timeout_s: Seconds after which a situation counts as hanging; its thread is left behind.
        slow_ms: Median milliseconds from which on an event counts as slow; five times as much
            without an ``await`` holds up the loop.

    Raises:
        InvalidInput: It is no hook, and makes none; or the questions are none.
        InvalidOption: A limit is no positive number.
        ExperimentStopped: ``progress`` said so.
    """
    for name, value in (("timeout_s", timeout_s), ("slow_ms", slow_ms)):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e6:
            raise InvalidOption(f"{name} must be a positive number, got {value!r}")
    course = Course(Patients(hook), Caller(seed, questions), timeout_s, slow_ms)
    was = Ambient()
    try:
        for _, part in steps(course.parts(), progress, lambda step: step[0]):
            part()
    finally:
        was.restore()
    findings = course.findings()
    return Examination(
        name="examine",
        hypothesis="The hook keeps the rules.",
        claims=tuple(each.claim for each in findings),
        frame=frame_of(findings),
        parameters={
            "agent": "agents and routers that answer at once",
            "hook": course.patients.name,
            "made": course.patients.way,
            "timeout_s": timeout_s,
            "slow_ms": slow_ms,
        },
        seed=seed,
        times=times_of(course.medians()),
    )
