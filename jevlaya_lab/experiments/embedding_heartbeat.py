"""Whether the event loop lives while texts are embedded: inline, in a thread, bounded."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final

import numpy as np
import pandas as pd

from jevlaya_lab.embedding.local import TOKENS_PER_PASS, BoundedLocalEmbedding
from jevlaya_lab.experiments import embedding_tools as tools
from jevlaya_lab.experiments.catalogue import experiment
from jevlaya_lab.experiments.options import Option
from jevlaya_lab.experiments.result import Claim, ExperimentResult
from jevlaya_lab.experiments.steps import Progress, steps
from jevlaya_lab.views.charts import bar_chart
from jevlaya_lab.views.layout import Layout

__all__ = ["HeartbeatResult", "run"]

MODES: Final = ("inline", "to_thread", "bounded list", "bounded calls")


@dataclass(frozen=True, kw_only=True)
class HeartbeatResult(ExperimentResult):
    """How late a heart on the loop beats.

    The frame has one row per mode and round: ``mode``, ``round``, ``elapsed_ms`` of the work,
    ``n_beats`` meanwhile, ``p50_late_ms``, ``p99_late_ms`` and ``max_late_ms``, and
    ``on_loop_thread``: whether an encode ran in the loop's own thread.
    """

    def layout(self) -> Layout:
        """The latest beat of each mode, median over the rounds, with quantiles beside it."""
        long = self.frame.melt(
            id_vars="mode",
            value_vars=["p50_late_ms", "p99_late_ms", "max_late_ms"],
            var_name="beat",
            value_name="late_ms",
        )
        shown = long.groupby(["mode", "beat"], sort=False)["late_ms"].median().reset_index()
        shown["beat"] = shown["beat"].str.replace("_late_ms", "")
        return bar_chart(
            shown,
            x="mode",
            y="late_ms",
            by="beat",
            title="How late the event loop is while texts are embedded",
            subtitle=f"{self.parameters['n_texts']} texts, a beat every "
            f"{self.parameters['every_ms']:g} ms, median of {self.parameters['rounds']} rounds",
            x_label="how they are embedded",
            y_label="late, ms",
        )


@experiment("Heartbeat of the loop while embedding")
def run(
    agent: Any = None,
    *,
    model: Any = None,
    n_texts: Annotated[int, Option("How many texts are embedded.", low=1, high=2000)] = 16,
    every_ms: Annotated[float, Option("Milliseconds between two beats.", low=1, high=1000)] = 5.0,
    rounds: Annotated[int, Option("How often each mode is measured.", low=1, high=50)] = 3,
    seed: Annotated[int, Option("Which texts.", low=0)] = 0,
    progress: Progress = True,
) -> HeartbeatResult:
    """Embed the same texts in four ways, while a heart beats on the loop.

    ``inline`` calls ``encode`` in a coroutine; ``to_thread`` in asyncio's default threads;
    ``bounded list`` awaits a :class:`BoundedLocalEmbedding` once, ``bounded calls`` once per text.

    Args:
        agent: Not asked; embedding needs none.
        model: What embeds, as ``BoundedLocalEmbedding`` takes it; ``None`` for the embedded one.
        n_texts: How many texts.
        every_ms: Milliseconds between beats.
        rounds: Rounds; the modes take turns.
        seed: Which texts.
        progress: See :data:`Progress`.
    """
    watch = tools.Encodes()
    loaded = tools.build(model)
    watched = tools.Watched(loaded, watch)
    some = tools.texts(n_texts, seed)
    bounded = BoundedLocalEmbedding(
        watched,
        name=tools.model_name(model),
        tokens_per_pass=TOKENS_PER_PASS.get(loaded.facts.device),
    )

    async def inline() -> None:
        watched.encode(some)

    async def calls() -> None:
        await asyncio.gather(*(bounded.embed([text]) for text in some))

    work: dict[str, Callable[[], Awaitable[Any]]] = {
        "inline": inline,
        "to_thread": lambda: asyncio.to_thread(watched.encode, some),
        "bounded list": lambda: bounded.embed(some),
        "bounded calls": calls,
    }
    rows: list[dict[str, Any]] = []

    async def measure(mode: str, i: int) -> None:
        watch.threads.clear()
        async with tools.Heart.beating(every_ms) as heart:
            began = time.perf_counter()
            await work[mode]()
            elapsed = (time.perf_counter() - began) * 1e3
            n_beats = len(heart.late_ms)
        late = heart.late_ms
        rows.append(
            {
                "mode": mode,
                "round": i,
                "elapsed_ms": elapsed,
                "n_beats": n_beats,
                "p50_late_ms": float(np.quantile(late, 0.5)),
                "p99_late_ms": float(np.quantile(late, 0.99)),
                "max_late_ms": max(late),
                "on_loop_thread": threading.get_ident() in watch.threads,
            }
        )

    try:
        tools.run_alone(bounded.preload())
        plan = [(mode, i) for i in range(rounds) for mode in MODES]
        for mode, i in steps(plan, progress, lambda step: f"{step[0]}, round {step[1] + 1}"):
            tools.run_alone(measure(mode, i))
    finally:
        tools.run_alone(bounded.aclose())
    frame = pd.DataFrame(rows).astype({"mode": "string", "on_loop_thread": bool})
    return HeartbeatResult(
        name="embedding_heartbeat",
        hypothesis="Only an encode that is called inline holds up the event loop.",
        claims=_claims(frame),
        frame=frame,
        parameters={
            "model": tools.model_name(model),
            "n_texts": n_texts,
            "every_ms": every_ms,
            "rounds": rounds,
        },
        seed=seed,
    )


def _claims(frame: pd.DataFrame) -> tuple[Claim, ...]:
    on_loop = frame.groupby("mode")["on_loop_thread"].any()
    latest = frame.groupby("mode")["max_late_ms"].median()
    inline = frame[frame["mode"] == "inline"]
    share = float((inline["max_late_ms"] / inline["elapsed_ms"]).median())
    away = [mode for mode in MODES if mode != "inline"]
    # A beat that is due at the end of the work is late by nearly all of it.
    return (
        Claim(
            "Bounded encodes run on other threads than the loop's.",
            not on_loop[["bounded list", "bounded calls"]].any(),
            ", ".join(f"{mode}: {'loop' if on_loop[mode] else 'another'}" for mode in MODES),
            "E-1",
        ),
        Claim(
            "Inline, the loop stands still for as long as the encode takes.",
            bool(share > 0.5) and bool((inline["n_beats"] <= 1).all()),
            f"The latest beat was late by {share:.0%} of the work; "
            f"{int(inline['n_beats'].max())} beats came during it.",
        ),
        Claim(
            "Otherwise it goes on: the latest beat comes sooner than half of that.",
            bool((latest[away] < latest["inline"] / 2).all()),
            "Latest beat, median: "
            + ", ".join(f"{mode} {latest[mode]:.1f} ms" for mode in MODES)
            + ".",
            "E-1",
        ),
    )
