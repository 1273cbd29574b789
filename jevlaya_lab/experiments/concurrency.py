"""Concurrency: a hook that is not thread-safe, called by many threads, with and without a lock.

The requests ask no question: what is measured are hooks and the runtime around them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Final

import numpy as np

from jevlaya_lab.experiments.catalogue import experiment
from jevlaya_lab.experiments.crowds import Clash, Crowd, UnsafeCounter
from jevlaya_lab.experiments.options import Option
from jevlaya_lab.experiments.result import Claim, ExperimentResult
from jevlaya_lab.experiments.steps import Progress, steps
from jevlaya_lab.experiments.tables import COUNT, FLAG, NUMBER, table
from jevlaya_lab.experiments.targets import (
    ATTACHED,
    agent_twin,
    check_target,
    described,
    fresh_router,
    is_router,
    one_agent,
)
from jevlaya_lab.views.charts import bar_chart, line_chart, stack
from jevlaya_lab.views.layout import Layout

__all__ = ["ConcurrencyResult", "run"]

_FRAME: Final = {
    "threads": COUNT,
    "hooks_concurrent": FLAG,
    "requests": COUNT,
    "counted": COUNT,
    "lost_updates": COUNT,
    "max_hooks_at_once": COUNT,
    "mixed_up": COUNT,
    "failed": COUNT,
    "elapsed_s": NUMBER,
    "per_second": NUMBER,
    "p50_ms": NUMBER,
    "p95_ms": NUMBER,
}


@dataclass(frozen=True, kw_only=True, repr=False)
class ConcurrencyResult(ExperimentResult):
    """``frame`` has a row per number of threads and ``hooks_concurrent``.

    ``lost_updates`` are requests that the hook did not count, ``mixed_up`` those where a hook or
    the caller saw something of another request. Times are of the requests after the first one of
    each thread, which is where the threads meet.
    """

    def layout(self) -> Layout:
        """Updates that were lost, and requests per second, over the number of threads."""
        names = {True: "hooks at once", False: "one hook at a time"}
        shown = self.frame.assign(hooks=self.frame["hooks_concurrent"].map(names))
        says = f"{self.parameters['requests']} requests per thread on {self.parameters['agent']}"
        lost = bar_chart(
            shown.assign(threads=shown["threads"].astype(str)),
            x="threads",
            y="lost_updates",
            by="hooks",
            title="Updates that a hook without a lock loses",
            subtitle=says,
            x_label="threads",
            y_label="lost updates",
        )
        speed = line_chart(
            shown,
            x="threads",
            y="per_second",
            by="hooks",
            title="Requests per second",
            subtitle=says,
            x_label="threads",
            y_label="requests per second",
            note="No question is asked: this is the time of the runtime and the hook alone.",
        )
        return stack(lost, speed, title="Concurrency: hooks at once and one at a time")


@experiment("Concurrency: hooks of many threads, at once and one at a time")
def run(
    agent: Any = None,
    *,
    threads: Annotated[Sequence[int], Option("Threads that ask.", low=1, high=64)] = (1, 2, 4, 8),
    requests: Annotated[int, Option("Requests of each thread.", low=2, high=10_000)] = 50,
    seed: Annotated[int, Option("Nothing is random here.", low=0)] = 0,
    progress: Progress = True,
) -> ConcurrencyResult:
    """Let threads ask at once while a counter without a lock counts in a hook.

    The first request of each thread waits in the hook, between reading the count and writing it,
    until another thread is there as well; where hooks run one at a time none can come, and it goes
    on after a moment. So the loss does not depend on luck.

    Args:
        agent: An Agent or a Router, of this package or ``laya``'s; a twin of it is asked.
            ``None``: a Router over the embedded checkpoint.
        threads: Numbers of threads.
        requests: Requests of each thread.
        seed: Kept with the result; nothing is random here.
        progress: See :data:`jevlaya_lab.experiments.steps.Progress`.

    Raises:
        InvalidInput: What was given is neither, or has no checkpoint on this machine.
        ExperimentStopped: ``progress`` said so; no thread runs on.
    """
    check_target(agent)
    todo = [(n, concurrent) for n in dict.fromkeys(threads) for concurrent in (False, True)]
    clashes: list[Clash] = []
    with one_agent(agent) as answering:
        for n, concurrent in steps(todo, progress, _called):
            with _target(agent, answering, concurrent) as target:
                counter = UnsafeCounter(n)
                clashes.append(Crowd(target, is_router(agent), counter, n, requests).run())
    return ConcurrencyResult(
        name="concurrency",
        hypothesis="Calls from many threads never mix, and hooks_concurrent=False keeps a hook "
        "without a lock from losing updates.",
        claims=tuple(_claims(todo, clashes)),
        frame=table(map(_row, todo, clashes), _FRAME),
        parameters={
            "agent": described(agent),
            "threads": list(dict.fromkeys(threads)),
            "requests": requests,
        },
        seed=seed,
    )


def _called(each: tuple[int, bool]) -> str:
    return f"{each[0]} threads, hooks_concurrent={each[1]}"


@contextmanager
def _target(given: Any, agent: Any, concurrent: bool) -> Iterator[Any]:
    if not is_router(given):
        yield agent_twin(agent, hooks_concurrent=concurrent)
        return
    router = fresh_router(given, hooks_concurrent=concurrent)
    router.attach(ATTACHED, agent_twin(agent))
    try:
        yield router
    finally:
        router.unload()


def _row(what: tuple[int, bool], clash: Clash) -> tuple[Any, ...]:
    n, concurrent = what
    latencies = clash.latencies_ms or [float("nan")]
    return (
        *(n, concurrent, clash.asked, clash.counted, clash.asked - clash.counted),
        *(clash.most_at_once, clash.mixed_up, clash.failed, clash.elapsed_s),
        len(clash.latencies_ms) / clash.elapsed_s if clash.elapsed_s else float("nan"),
        *np.percentile(latencies, (50, 95)),
    )


def _claims(todo: Sequence[tuple[int, bool]], clashes: Sequence[Clash]) -> Iterator[Claim]:
    both = list(zip(todo, clashes, strict=True))
    several = [(n, clash) for (n, concurrent), clash in both if not concurrent and n > 1]
    worst = max((clash.most_at_once for _, clash in several), default=0)
    lost = sum(clash.asked - clash.counted for _, clash in several)
    yield Claim(
        "With hooks_concurrent=False one hook runs at a time, and a hook without a lock loses "
        "nothing.",
        worst <= 1 and lost == 0 if several else None,
        f"At most {worst} at once, {lost} of {sum(c.asked for _, c in several)} updates lost."
        if several
        else "One thread alone.",
        "L-39",
    )
    free = [(n, clash) for (n, concurrent), clash in both if concurrent and n > 1]
    met = [(n, clash) for n, clash in free if clash.most_at_once > 1]
    losses = [f"{c.asked - c.counted} of {c.asked} with {n} threads" for n, c in free]
    yield Claim(
        "With hooks_concurrent=True hooks of several threads run at once, and a hook without a "
        "lock loses updates.",
        all(c.counted < c.asked for _, c in met) if met and len(met) == len(free) else None,
        (f"Lost: {', '.join(losses)}." if losses else "One thread alone.")
        + ("" if len(met) == len(free) else " Not all threads met in a hook."),
        "L-38",
    )
    mixed, asked = sum(c.mixed_up for c in clashes), sum(c.asked for c in clashes)
    yield Claim(
        "Every hook and every caller sees the states and results of its own request alone.",
        mixed == 0,
        f"{mixed} of {asked} requests saw something of another.",
        "L-38",
    )
    failed = sum(c.failed for c in clashes)
    yield Claim(
        "Every request is answered.", failed == 0, f"{asked - failed} of {asked} were.", "L-38"
    )
