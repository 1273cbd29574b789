"""What takes several runs to tell: what is mixed up, what stays, what is kept alive."""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

from jevlaya_lab.experiments.doctor.checks_visits import shown
from jevlaya_lab.experiments.doctor.patients import attributes, totals
from jevlaya_lab.experiments.doctor.probe import Note, Probe
from jevlaya_lab.experiments.doctor.report import FOUND, NOT_ASKED, OK, UNKNOWN, Finding
from jevlaya_lab.experiments.doctor.situations import SITUATIONS, Caller, agent, router

__all__ = ["batch_cache", "contexts", "entries"]

_ROUNDS: Final = 3
_OTHERS: Final = (
    "a failing run",
    "a run that another hook refuses",
    "a run that another hook answers",
    "an empty list of states",
    "a batch",
    "a failing batch",
)


def entries(hook: Any, caller: Caller) -> Finding:
    """Whether what a start adds is gone after the end, in runs that go well and in others."""
    watch = _Entries(hook)
    probe = Probe(hook, watch)
    opened: set[str] = set()
    plays = {each.name: each.play for each in SITUATIONS}
    for i in range(_ROUNDS):
        for good in (plays["a single call"], plays["a routed request"]):
            before = watch.totals()
            good(probe, caller.given(100 * i))
            after = watch.totals()
            rose = {p for p, n in watch.at_start.items() if n > before.get(p, 0)}
            opened |= {path for path in rose if after.get(path, 0) == before.get(path, 0)}
    left: list[str] = []
    for name in _OTHERS:
        before = watch.totals()
        for i in range(_ROUNDS):
            with suppress(Exception):  # what is raised is another check's
                plays[name](probe, caller.given(100 * i))
        after = watch.totals()
        stay = [path for path in sorted(opened) if after.get(path, 0) > before.get(path, 0)]
        if stay:
            after = watch.totals(thorough=True)
        left += [
            f"{path} is {after[path]}, it was {before.get(path, 0)} (after {_ROUNDS} times {name})"
            for path in stay
            if after.get(path, 0) > before.get(path, 0)
        ]
    left += [f"{name} holds entries of {n} runs that are over" for name, n in watch.kept().items()]
    if left:
        return Finding("leaves entries", FOUND, f"{shown(left, most=6)}.")
    if not opened and not watch.is_keyed:
        return Finding("leaves entries", NOT_ASKED, "it keeps nothing from a start to its end.")
    names = ", ".join(sorted(opened)) or "entries by run"
    return Finding("leaves entries", OK, f"{names}: as before, after each kind of run.")


class _Entries:
    """Notes what stands in a hook after its start hooks."""

    def __init__(self, hook: Any) -> None:
        self._hook = hook
        self._keyed: list[tuple[str, Callable[[], Any]]] = []
        self.at_start: dict[str, int] = {}

    def __call__(self, ctx: Any, event: str, when: str) -> None:
        if (event, when) != ("on_predict_start", "after"):
            return
        self.at_start = totals(self._hook)
        for name, value in attributes(self._hook).items():
            if not isinstance(value, (dict, set)):
                continue
            number = id(ctx)
            if ctx.run_id in value:
                self._keyed.append((name, partial(str, ctx.run_id)))
            elif number in value:
                self._keyed.append((name, partial(int, number)))
            elif ctx in value:
                self._keyed.append((name, weakref.ref(ctx)))

    @property
    def is_keyed(self) -> bool:
        """Whether it keeps something by run."""
        return bool(self._keyed)

    def totals(self, thorough: bool = False) -> dict[str, int]:
        """What the hook holds now, without what only waits to be collected."""
        gc.collect(2 if thorough else 1)
        return totals(self._hook)

    def kept(self) -> dict[str, int]:
        """By attribute, how many runs that are over have an entry there."""
        found: dict[str, int] = {}
        for name, of in self._keyed:
            key = of()
            if key is not None and key in getattr(self._hook, name, ()):
                found[name] = found.get(name, 0) + 1
        return found


def batch_cache(hook: Any, caller: Caller) -> Finding:
    """Whether a hook that answers runs itself gives the same answers in and after a batch."""
    given = caller.given()
    probe = Probe(hook)
    pool = router([probe])

    def loop(numbers: list[int]) -> tuple[list[Any], int]:
        began = probe.n_skipped
        found = [pool.predict(caller.text(n), given.questions) for n in numbers]
        return [each.get("answers") for each in found], probe.n_skipped - began

    _, in_a_loop = loop([101, 102, 101, 103, 102])
    if not in_a_loop:
        return Finding("batch cache", NOT_ASKED, "it answers no run itself.")
    numbers = [201, 202, 201, 203, 202]  # the first and the last one differ
    began = probe.n_skipped
    batch = pool.predict_batch(
        [{"state": caller.text(n), "questions": given.questions} for n in numbers]
    )
    in_a_batch = probe.n_skipped - began
    after, _ = loop(numbers)
    others = sum(a.get("answers") != b for a, b in zip(batch, after, strict=True))
    hits = f"of 5 requests, 2 of them repeated: hits in a loop {in_a_loop}, in a batch {in_a_batch}"
    if others:
        return Finding(
            "batch cache",
            FOUND,
            f"Asked again after a batch, {others} of {len(numbers)} requests got other answers "
            f"than in it ({hits}).",
        )
    return Finding("batch cache", OK, f"The answers are the same; {hits} (as L-22 has it).")


def contexts(hook: Any, caller: Caller, timeout_s: float) -> tuple[Finding, list[Note]]:
    """Whether contexts of runs that are over stay alive; and what was noted, for the times."""
    probe = Probe(hook)
    given = caller.given()
    one, pool = agent([probe]), router([probe])
    deadline = time.monotonic() + timeout_s / 2
    counts: list[tuple[int, int]] = []
    for n_rounds in (30, 90):
        for _ in range(n_rounds):
            one.predict(given.text, given.questions)
            pool.predict(given.text, given.questions)
            # An exception that is kept holds its traceback, and that the context.
            with suppress(Exception):
                one.predict(given.faulty, given.questions)
            if time.monotonic() > deadline and len(probe.runs) >= 10 * (1 + len(counts)):
                break
        if any(run() is not None for run in probe.runs):
            gc.collect()
        alive = sum(run() is not None for run in probe.runs)
        counts.append((len(probe.runs), alive))
    (n_first, first), (n_all, alive) = counts
    evidence = f"Alive of {n_first} contexts: {first}; of {n_all}: {alive}."
    grows = alive - first > 0.25 * (n_all - n_first)
    return Finding("keeps contexts", FOUND if grows else OK, evidence), probe.notes


def unknown(check: str, error: str) -> Finding:
    """A check that did not come to its end."""
    return Finding(check, UNKNOWN, f"The runs it takes did not come to their end: {error}.")
