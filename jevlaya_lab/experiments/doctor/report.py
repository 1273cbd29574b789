"""What an examination found: check by check, with what was seen and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import pandas as pd

from jevlaya_lab.experiments.result import Claim, ExperimentResult
from jevlaya_lab.experiments.tables import NUMBER, TEXT, levels, table
from jevlaya_lab.system_one.events import EVENTS
from jevlaya_lab.views.charts import bar_chart
from jevlaya_lab.views.layout import Layout

__all__ = ["CHECKS", "VERDICTS", "Examination", "Finding"]

OK: Final = "ok"
FOUND: Final = "found"
UNKNOWN: Final = "cannot be told"
NOT_ASKED: Final = "does not apply"
VERDICTS: Final = (OK, FOUND, UNKNOWN, NOT_ASKED)


class Check(NamedTuple):
    """One thing that is looked at.

    Attributes:
        rule: The rule of ``docs/lifecycle.md`` that it is about, or empty.
        text: What is expected of the hook, as a sentence.
        remedy: What to do where it is not so.
    """

    rule: str
    text: str
    remedy: str


CHECKS: Final = {
    "form": Check(
        "L-2",
        "Its methods are events and take the context.",
        "Give the method the name of an event, and one argument, the context.",
    ),
    "raises": Check(
        "L-7",
        "It raises in no situation.",
        "A hook that raises ends the call. Look at ctx.error, and whether ctx.results is None, "
        "before you read them; expect any kind of state, and none at all.",
    ),
    "calls back": Check(
        "L-39",
        "Every call comes back.",
        "Hold no lock while you call the agent or the router, or make it an RLock. With "
        "hooks_concurrent=False start no thread that calls back and wait for it: only a copy of "
        "your context (contextvars.copy_context().run) may enter.",
    ),
    "threads": Check(
        "L-38",
        "In many threads it counts and collects what it does in one.",
        "Put a threading.Lock around what reads and writes an attribute of the hook; self.n += 1 "
        "does both.",
    ),
    "mixes runs": Check(
        "L-22",
        "What it notes at the start of a run it reads again at the end of that run.",
        "Keep what belongs to one run under its context, in a weakref.WeakKeyDictionary, or on "
        "the context. An attribute of the hook is shared by all runs that are open.",
    ),
    "leaves entries": Check(
        "L-28",
        "What it opens at a start it closes at the end, also of runs that fail.",
        "Take the entry out first thing in on_predict_end, before you look at ctx.error. It comes "
        "once for each start.",
    ),
    "changes inputs": Check(
        "L-24",
        "It leaves what the caller handed in as it was.",
        "Assign new objects: ctx.states = [...], ctx.questions = {...}. Copy before you change.",
    ),
    "batch cache": Check(
        "L-22",
        "What it answers from memory is the same in a batch as in a loop.",
        "All start hooks of a group run before its first end hook. Keep the key of each run under "
        "its context.",
    ),
    "sets and leaves": Check(
        "L-26",
        "What it sets in the process it puts back.",
        "Requests of a batch end in reverse order: keep what was there on a stack, or per "
        "context, and put it back in on_predict_end. Draw from a random.Random of your own.",
    ),
    "results": Check(
        "L-10",
        "Results keep model, answers and usage, one result per state.",
        "Add keys to the results, or build new ones as {**result, ...}; give skip() whole results.",
    ),
    "keeps contexts": Check(
        "L-9",
        "It keeps no contexts of runs that are over.",
        "Keep what you need of a context, not the context: it holds states, results and the "
        "agent. A weakref.WeakKeyDictionary lets go of it, a deque(maxlen=...) keeps a few.",
    ),
    "slow": Check(
        "",
        "It is quick.",
        "The call waits for its hooks. Do what takes long on a thread of your own, or once.",
    ),
    "blocks the loop": Check(
        "L-43a",
        "Its async methods do not hold up the loop.",
        "All async hooks share one loop. Await (asyncio.sleep, an async client), or hand what "
        "blocks to asyncio.to_thread; or write a plain method.",
    ),
}
"""By name, in the order of the report."""


class Finding(NamedTuple):
    """The outcome of one check.

    Attributes:
        check: Its name, a key of :data:`CHECKS`.
        verdict: One of :data:`VERDICTS`.
        evidence: What was seen.
    """

    check: str
    verdict: str
    evidence: str

    @property
    def claim(self) -> Claim:
        """It as a claim; what does not apply holds."""
        expected = CHECKS[self.check]
        held = {FOUND: False, UNKNOWN: None}.get(self.verdict, True)
        evidence = self.evidence
        if self.verdict == NOT_ASKED:
            evidence = f"Does not apply: {evidence}"
        elif self.verdict == FOUND:
            evidence = f"{evidence} -> {expected.remedy}"
        return Claim(expected.text, held, evidence, expected.rule)


_FRAME: Final = {
    "check": levels(list(CHECKS)),
    "rule": TEXT,
    "verdict": levels(VERDICTS),
    "evidence": TEXT,
    "remedy": TEXT,
}
_TIMES: Final = {"event": levels(EVENTS), "median_ms": NUMBER}


@dataclass(frozen=True, kw_only=True, repr=False)
class Examination(ExperimentResult):
    """``frame`` has a row per check: what it is, the rule, the verdict, what was seen, a remedy.

    A verdict is ``ok``, ``found``, ``cannot be told`` or ``does not apply``; only what was found
    has a remedy.

    Attributes:
        times: Median milliseconds by event, of the events that the hook listens to.
    """

    times: pd.DataFrame

    @property
    def found(self) -> tuple[str, ...]:
        """Names of the checks that found something."""
        rows = self.frame[self.frame["verdict"] == FOUND]
        return tuple(str(name) for name in rows["check"])

    def layout(self) -> Layout:
        """How long each event of the hook took."""
        facts = self.parameters
        return bar_chart(
            self.times,
            x="event",
            y="median_ms",
            title=f"Examination of {facts['hook']}: time in each event",
            subtitle=f"medians over agents and routers that answer at once; hook: {facts['made']}",
            x_label="event",
            y_label="milliseconds",
            horizontal=True,
        )

    def summary(self) -> str:
        """It in words: what was found comes first."""
        ranks = {False: 0, None: 1, True: 2}
        claims = sorted(self.claims, key=lambda claim: ranks[claim.held])
        first, _, _ = super().summary().partition("\n")
        how = f"  hook: {self.parameters['hook']} ({self.parameters['made']})"
        return "\n".join([first, how, *(f"  {claim}" for claim in claims)])


def frame_of(findings: Sequence[Finding]) -> pd.DataFrame:
    """A row per finding."""
    return table(
        (
            (
                *(each.check, CHECKS[each.check].rule, each.verdict, each.evidence),
                CHECKS[each.check].remedy if each.verdict == FOUND else "",
            )
            for each in findings
        ),
        _FRAME,
    )


def times_of(medians: Iterable[tuple[str, float]]) -> pd.DataFrame:
    """A row per event."""
    return table(medians, _TIMES)
