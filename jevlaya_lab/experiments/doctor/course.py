"""The course of an examination: the situations one by one, then what takes several runs."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from typing import Final

from jevlaya_lab.experiments.doctor import checks_runs, checks_visits
from jevlaya_lab.experiments.doctor.checks_form import form
from jevlaya_lab.experiments.doctor.checks_mixing import mixing
from jevlaya_lab.experiments.doctor.checks_threads import threads
from jevlaya_lab.experiments.doctor.patients import Patients
from jevlaya_lab.experiments.doctor.probe import Note
from jevlaya_lab.experiments.doctor.report import CHECKS, FOUND, NOT_ASKED, OK, Finding
from jevlaya_lab.experiments.doctor.shared import Shared
from jevlaya_lab.experiments.doctor.situations import SITUATIONS, Caller, Situation
from jevlaya_lab.experiments.doctor.visits import Outcome, Visit, guarded, visit
from jevlaya_lab.system_one.events import EVENTS

__all__ = ["Course"]

_MOST_HANGS: Final = 3
_NEEDS: Final = {
    "threads": ("a single call",),
    "mixes runs": ("a batch",),
    "leaves entries": ("a single call", "a routed request", "a batch", "a failing batch"),
    "batch cache": ("a routed request", "a batch"),
    "keeps contexts": ("a single call", "a routed request"),
}
"""What must have come back before a check is made that does it many times."""


class Course:
    """One examination.

    Args:
        patients: Makes the hooks.
        caller: Makes the calls.
        timeout_s: See :func:`jevlaya_lab.experiments.doctor.examine`.
        slow_ms: See there.
    """

    def __init__(
        self, patients: Patients, caller: Caller, timeout_s: float, slow_ms: float
    ) -> None:
        self.patients = patients
        self._caller = caller
        self._timeout_s = timeout_s
        self._slow_ms = slow_ms
        self._shared = Shared(patients.maker)
        self._visits: list[Visit] = []
        self._findings: dict[str, Finding] = {}
        self._notes: list[Note] = []

    def parts(self) -> list[tuple[str, Callable[[], None]]]:
        """Its steps, each with a name."""
        hook, caller, limit = self.patients.hook, self._caller, self._timeout_s
        checks: dict[str, Callable[[], Finding]] = {
            "form": lambda: form(hook()),
            "threads": lambda: threads(self.patients, caller, 4 * limit),
            "mixes runs": lambda: mixing(hook(), caller),
            "leaves entries": lambda: checks_runs.entries(hook(), caller),
            "batch cache": lambda: checks_runs.batch_cache(hook(), caller),
            "keeps contexts": self._contexts,
        }
        return [
            *((each.name, partial(self._visit, each)) for each in SITUATIONS),
            *((name, partial(self._check, name, check)) for name, check in checks.items()),
        ]

    def findings(self) -> list[Finding]:
        """One per check, in the order of the report."""
        visits = self._visits
        found = [
            *self._findings.values(),
            checks_visits.raises(visits),
            checks_visits.calls_back(visits, self._timeout_s),
            checks_visits.inputs(visits),
            checks_visits.leaves(visits),
            checks_visits.results(visits),
            checks_visits.blocks(visits, 5 * self._slow_ms),
            self._slow(),
        ]
        return sorted(found, key=lambda each: list(CHECKS).index(each.check))

    def medians(self) -> list[tuple[str, float]]:
        """Median milliseconds of each event that the hook listens to and that came."""
        notes = [*self._notes, *(note for each in self._visits for note in each.notes)]
        times = {e: [note.ms for note in notes if note.event == e] for e in EVENTS}
        return [(event, statistics.median(found)) for event, found in times.items() if found]

    def _visit(self, situation: Situation) -> None:
        if sum(not each.is_back for each in self._visits) < _MOST_HANGS:
            self._visits.append(
                visit(self.patients, situation, self._caller, self._timeout_s, self._shared)
            )

    def _check(self, name: str, check: Callable[[], Finding]) -> None:
        back = {each.situation for each in self._visits if each.is_back}
        missing = [each for each in _NEEDS.get(name, ()) if each not in back]
        if missing:
            self._findings[name] = checks_runs.unknown(name, f"{missing[0]} does not come back")
            return
        outcome: Outcome[Finding] = guarded(check, 10 * self._timeout_s)
        self._shared.restore()
        if outcome.value is not None:
            self._findings[name] = outcome.value
        else:
            error = "they hang" if outcome.is_hung else outcome.error
            self._findings[name] = checks_runs.unknown(name, error)

    def _contexts(self) -> Finding:
        finding, self._notes = checks_runs.contexts(
            self.patients.hook(), self._caller, self._timeout_s
        )
        return finding

    def _slow(self) -> Finding:
        medians = self.medians()
        if not medians:
            return Finding("slow", NOT_ASKED, "no event of it ran.")
        text = "; ".join(f"{event} {ms:.2g} ms" for event, ms in medians)
        slow = max(ms for _, ms in medians) > self._slow_ms
        return Finding(
            "slow", FOUND if slow else OK, f"Medians: {text}; {self._slow_ms:g} ms are allowed."
        )
