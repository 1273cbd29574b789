"""Eviction: what a Router loads on a sequence of requests, beside what other policies would.

The requests ask no question, so a run costs its loads and nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import pandas as pd

from jevlaya_lab.experiments.catalogue import experiment
from jevlaya_lab.experiments.eviction_claims import Step, claims
from jevlaya_lab.experiments.options import Option
from jevlaya_lab.experiments.policies import POLICIES, Run
from jevlaya_lab.experiments.result import ExperimentResult
from jevlaya_lab.experiments.sequences import LANGUAGES, PATTERNS, languages, sequence
from jevlaya_lab.experiments.steps import Progress, steps
from jevlaya_lab.experiments.tables import COUNT, FLAG, NUMBER, TEXT, levels, table
from jevlaya_lab.experiments.targets import check_target, described, fresh_router, loadable
from jevlaya_lab.system_one.errors import InvalidInput
from jevlaya_lab.views.charts import bar_chart, stack
from jevlaya_lab.views.layout import Layout

__all__ = ["EvictionResult", "run"]

_POLICIES: Final = ("router", *POLICIES)
_FRAME: Final = {
    "pattern": levels(PATTERNS),
    "max_loaded": COUNT,
    "policy": levels(_POLICIES),
    "requests": COUNT,
    "checkpoints": COUNT,
    "loads": COUNT,
    "evictions": COUNT,
    "hit_rate": NUMBER,
    "loading_ms": NUMBER,
    "measured": FLAG,
}
_REQUESTS: Final = {
    "max_loaded": COUNT,
    "request": COUNT,
    "language": TEXT,
    "checkpoint": TEXT,
    "loaded": FLAG,
    "evicted": TEXT,
    "loading_ms": NUMBER,
    "resident": COUNT,
}
_STAND_INS: Final = ("english", "multilingual", *(code for code in LANGUAGES if code != "en"))
"""Names where no router is given: as if frequent languages had checkpoints of their own."""


@dataclass(frozen=True, kw_only=True, repr=False)
class EvictionResult(ExperimentResult):
    """What was loaded and evicted.

    ``frame`` has a row per ``max_loaded`` and policy: ``router`` is what was measured, the others
    are computed on the same sequence; their ``loading_ms`` is their number of loads times the
    measured mean.

    Attributes:
        requests: A row per ``max_loaded`` and request: what the Router did.
    """

    requests: pd.DataFrame

    def layout(self) -> Layout:
        """Loads and the time lost to them over ``max_loaded``, a bar per policy."""
        shown = self.frame.sort_values("max_loaded", kind="stable")
        shown = shown.assign(
            seconds=shown["loading_ms"] / 1e3, max_loaded=shown["max_loaded"].astype(str)
        )
        facts = self.parameters
        says = f"{facts['pattern']}, {facts['n_requests']} requests, seed {self.seed}"
        loads = bar_chart(
            shown,
            x="max_loaded",
            y="loads",
            by="policy",
            title="Loads",
            subtitle=says,
            x_label="max_loaded: checkpoints that may be resident",
            y_label="loads",
            note="router: measured. The others: computed on the same requests; belady knows the "
            "future, so nobody needs fewer.",
        )
        seconds = bar_chart(
            shown,
            x="max_loaded",
            y="seconds",
            by="policy",
            title="Time lost to loading",
            subtitle=says,
            x_label="max_loaded: checkpoints that may be resident",
            y_label="seconds",
        )
        return stack(loads, seconds, title="Eviction: the Router beside other policies")


class _Listener:
    """A hook that notes what is loaded and evicted for the request at hand."""

    def __init__(self) -> None:
        self.step = Step()

    def on_route(self, ctx: Any) -> None:
        self.step.routed_at = time.perf_counter()

    def on_evict(self, ctx: Any) -> None:
        self.step.evicted.append(ctx.model)
        self.step.events.append("on_evict")

    def on_load(self, ctx: Any) -> None:
        self.step.loading_ms = (time.perf_counter() - self.step.routed_at) * 1e3
        self.step.loaded.append(ctx.model)
        self.step.events.append("on_load")

    def on_predict_start(self, ctx: Any) -> None:
        self.step.checkpoint = ctx.model


@experiment("Eviction: loads of the Router beside the best possible")
def run(
    agent: Any = None,
    *,
    pattern: Annotated[
        str, Option("In which order checkpoints are asked for.", choices=PATTERNS)
    ] = "languages",
    max_loaded: Annotated[
        Sequence[int], Option("How many checkpoints may be resident.", low=1, high=64)
    ] = (1, 2, 3),
    n_requests: Annotated[int, Option("Requests per run.", low=2, high=10_000)] = 40,
    checkpoints: Annotated[
        int, Option("How many checkpoints are asked for, at most.", low=2, high=len(_STAND_INS))
    ] = 5,
    seed: Annotated[int, Option("Of the sequence.", low=0)] = 0,
    progress: Progress = True,
) -> EvictionResult:
    """Ask a fresh Router for checkpoints in a certain order and see what it loads and evicts.

    Args:
        agent: A Router whose checkpoints to use, of this package or ``laya``'s; it is not asked
            itself. ``None``: the embedded checkpoint under ``checkpoints`` names.
        pattern: ``languages``: requests come in the languages of the demo tickets; routing decides,
            and a language that has a checkpoint of its own name goes there. The others are
            described at :func:`jevlaya_lab.experiments.sequences.sequence`.
        max_loaded: How many checkpoints may be resident; each is a run of its own.
        n_requests: Requests per run.
        checkpoints: How many checkpoints are asked for; of a given Router as many as can be loaded
            from this machine.
        seed: Of the sequence.
        progress: See :data:`jevlaya_lab.experiments.steps.Progress`; a step is a request.

    Raises:
        InvalidInput: What was given is no Router, or knows fewer than two checkpoints that are on
            this machine.
        ExperimentStopped: ``progress`` said so; nothing stays loaded.
    """
    check_target(agent, router="eviction is about the checkpoints of a Router")
    known, sources = _names(agent, checkpoints)
    asked = (
        [(code, code if code in known else None) for code in languages(n_requests, seed)]
        if pattern == "languages"
        else [(None, name) for name in sequence(pattern, known, n_requests, seed)]
    )
    _check_routes(agent, known, asked)
    sizes = tuple(dict.fromkeys(max_loaded))
    measured: dict[int, list[Step]] = {size: [] for size in sizes}
    todo = [(size, i) for size in sizes for i in range(n_requests)]
    walk = steps(todo, progress, lambda each: f"max_loaded={each[0]}, request {each[1]}")
    for size in sizes:
        measured[size] = _one_run(agent, size, sources, asked, walk)
    next(walk, None)  # says that all is done
    runs = {size: _policies(measured[size], size) for size in sizes}
    rows = [row for size in sizes for row in _rows(pattern, size, measured[size], runs[size])]
    return EvictionResult(
        name="eviction",
        hypothesis="The Router evicts the least recently used checkpoint, and nothing else.",
        claims=tuple(claims(measured, runs)),
        frame=table(rows, _FRAME),
        parameters={
            "agent": described(agent),
            "pattern": pattern,
            "max_loaded": list(sizes),
            "n_requests": n_requests,
            "checkpoints": checkpoints,
            "names": list(known),
        },
        seed=seed,
        requests=table(_request_rows(measured, asked), _REQUESTS),
    )


def _names(router: Any, at_most: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names to ask for, and those of them to register as further stand-ins."""
    if router is None:
        names = _STAND_INS[:at_most]
        return names, names[2:]
    names = loadable(fresh_router(router))
    if len(names) < 2:
        raise InvalidInput(
            "eviction needs a Router that knows at least two checkpoints on this machine; this one "
            f"knows {', '.join(names) or 'none'}. Register some: router.register(name, folder)"
        )
    return names[:at_most], ()


def _check_routes(
    router: Any, known: Sequence[str], asked: Sequence[tuple[str | None, str | None]]
) -> None:
    """See that routing sends no language to a checkpoint that is not on this machine."""
    if router is None:
        return
    fresh = fresh_router(router)
    for code in dict.fromkeys(code for code, name in asked if name is None):
        chosen = fresh.resolve(fresh.route("request", {}, lang=code)["model"])
        if chosen not in known:
            raise InvalidInput(
                f"the Router sends {code!r} to {chosen!r}, which is not among the checkpoints on "
                f"this machine that are asked for ({', '.join(known)}); register it, raise "
                "checkpoints, or choose another pattern"
            )


def _one_run(
    given: Any,
    size: int,
    stand_ins: Sequence[str],
    asked: Sequence[tuple[str | None, str | None]],
    walk: Iterator[tuple[int, int]],
) -> list[Step]:
    router, listener = fresh_router(given, max_loaded=size), _Listener()
    for stand_in in stand_ins:
        router.register(stand_in, "embedded")
    found = []
    try:
        for i, (code, name) in enumerate(asked):
            next(walk)
            listener.step = Step()
            hints: dict[str, Any] = {"lang": code} if name is None else {"model": name}
            router.add_hook(listener)
            try:
                router.predict(f"request {i}", {}, **hints)
            finally:
                router.remove_hook(listener)
            listener.step.resident = len(router.loaded)
            found.append(listener.step)
    finally:
        router.unload()
    return found


def _policies(measured: Sequence[Step], size: int) -> dict[str, Run]:
    names = [step.checkpoint for step in measured]
    return {policy: simulate(names, size) for policy, simulate in POLICIES.items()}


def _rows(
    pattern: str, size: int, measured: Sequence[Step], runs: dict[str, Run]
) -> Iterator[tuple[Any, ...]]:
    n = len(measured)
    names = len({step.checkpoint for step in measured})
    loads = sum(len(step.loaded) for step in measured)
    spent = sum(step.loading_ms for step in measured)
    mean = spent / loads if loads else 0.0
    hits = sum(not step.loaded for step in measured)
    gone = sum(len(step.evicted) for step in measured)
    yield pattern, size, "router", n, names, loads, gone, hits / n, spent, True
    for policy, each in runs.items():
        cost = each.loads * mean
        yield (
            *(pattern, size, policy, n, names, each.loads, each.evictions),
            *((n - each.loads) / n, cost, False),
        )


def _request_rows(
    measured: dict[int, list[Step]], asked: Sequence[tuple[str | None, str | None]]
) -> Iterator[tuple[Any, ...]]:
    for size, found in measured.items():
        for i, step in enumerate(found):
            gone = ", ".join(step.evicted) or None
            cost = step.loading_ms if step.loaded else 0.0
            yield (
                *(size, i, asked[i][0], step.checkpoint, bool(step.loaded)),
                *(gone, cost, step.resident),
            )
