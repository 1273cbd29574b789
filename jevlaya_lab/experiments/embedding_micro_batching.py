"""What sharing a pass gives to single texts that wait anyway, by the number of callers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
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
from jevlaya_lab.views.charts import bar_chart, stack
from jevlaya_lab.views.layout import Layout

__all__ = ["MicroBatchingResult", "run"]

MODES: Final = ("alone", "shared")


@dataclass(frozen=True, kw_only=True)
class MicroBatchingResult(ExperimentResult):
    """Passes and throughput by callers.

    The frame has one row per number of callers, mode and round: ``n_callers``, ``mode`` (``alone``
    or ``shared`` passes), ``round``, ``n_texts``, ``n_passes``, ``texts_per_s``, ``p50_ms`` and
    ``p99_ms`` of a call, ``largest_difference`` from the vectors of the first measurement.
    """

    def layout(self) -> Layout:
        """Texts per second and per pass, by callers."""
        frame = self.frame.assign(per_pass=self.frame["n_texts"] / self.frame["n_passes"])
        by = ["n_callers", "mode"]
        shown = frame.groupby(by, sort=False)[["texts_per_s", "per_pass"]].median().reset_index()
        shown["n_callers"] = shown["n_callers"].astype(str)
        common: dict[str, Any] = {"x": "n_callers", "by": "mode", "x_label": "callers at once"}
        return stack(
            bar_chart(
                shown, y="texts_per_s", title="Throughput", y_label="texts per second", **common
            ),
            bar_chart(shown, y="per_pass", title="Sharing", y_label="texts per pass", **common),
            title="Micro-batching of single texts",
        )


@experiment("Micro-batching of single texts")
def run(
    agent: Any = None,
    *,
    model: Any = None,
    n_callers: Annotated[Sequence[int], Option("Callers at once.", low=1, high=500)] = (1, 8, 32),
    n_calls: Annotated[int, Option("Calls of each, one after the other.", low=1, high=500)] = 2,
    rounds: Annotated[int, Option("How often each is measured.", low=1, high=50)] = 3,
    seed: Annotated[int, Option("Which texts.", low=0)] = 0,
    progress: Progress = True,
) -> MicroBatchingResult:
    """Let callers embed single texts, each waiting for its last one; passes alone and shared.

    Args:
        agent: Not asked; embedding needs none.
        model: What embeds, as ``BoundedLocalEmbedding`` takes it; ``None`` for the embedded one.
        n_callers: Callers at once.
        n_calls: Calls of each.
        rounds: Rounds; all variants take turns.
        seed: Which texts.
        progress: See :data:`Progress`.
    """
    loaded = tools.build(model)
    watches = {mode: tools.Encodes() for mode in MODES}
    strategies = {
        mode: BoundedLocalEmbedding(
            tools.Watched(loaded, watches[mode]),
            name=tools.model_name(model),
            micro_batching=mode == "shared",
            tokens_per_pass=TOKENS_PER_PASS.get(loaded.facts.device),
        )
        for mode in MODES
    }
    some = tools.texts(max(n_callers) * n_calls, seed)
    rows: list[dict[str, Any]] = []
    first: dict[int, Any] = {}

    async def measure(n: int, mode: str, i: int) -> None:
        strategy, watch = strategies[mode], watches[mode]
        took: list[float] = []
        vectors: list[Any] = [None] * (n * n_calls)

        async def caller(k: int) -> None:
            for j in range(k * n_calls, (k + 1) * n_calls):
                began = time.perf_counter()
                vectors[j] = (await strategy.embed([some[j]]))[0]
                took.append((time.perf_counter() - began) * 1e3)

        passes = watch.n_encodes
        began = time.perf_counter()
        await asyncio.gather(*(caller(k) for k in range(n)))
        elapsed = time.perf_counter() - began
        matrix = np.stack(vectors)
        rows.append(
            {
                "n_callers": n,
                "mode": mode,
                "round": i,
                "n_texts": n * n_calls,
                "n_passes": watch.n_encodes - passes,
                "texts_per_s": n * n_calls / elapsed,
                "p50_ms": float(np.quantile(took, 0.5)),
                "p99_ms": float(np.quantile(took, 0.99)),
                "largest_difference": float(np.abs(first.setdefault(n, matrix) - matrix).max()),
            }
        )

    try:
        for strategy in strategies.values():
            tools.run_alone(strategy.preload())
        plan = [(n, mode, i) for i in range(rounds) for n in n_callers for mode in MODES]
        for n, mode, i in steps(plan, progress, lambda step: f"{step[0]} callers, {step[1]}"):
            tools.run_alone(measure(n, mode, i))
    finally:
        for strategy in strategies.values():
            tools.run_alone(strategy.aclose())
    frame = pd.DataFrame(rows).astype({"mode": "string"})
    return MicroBatchingResult(
        name="embedding_micro_batching",
        hypothesis="Texts that wait anyway share passes, a single caller waits for nobody, and the "
        "vectors stay the same.",
        claims=_claims(frame),
        frame=frame,
        parameters={
            "model": tools.model_name(model),
            "n_callers": list(n_callers),
            "n_calls": n_calls,
            "rounds": rounds,
        },
        seed=seed,
    )


def _claims(frame: pd.DataFrame) -> tuple[Claim, ...]:
    alone, shared = (frame[frame["mode"] == mode] for mode in MODES)
    passes = shared.groupby("n_callers")[["n_passes", "n_texts"]].max()
    many, single = passes[passes.index > 1], passes[passes.index == 1]
    difference = frame["largest_difference"].max()
    rate = frame.groupby(["n_callers", "mode"])["texts_per_s"].median().unstack("mode")
    gain = rate["shared"] / rate["alone"]
    said = ", ".join(
        f"{n} callers: {row.n_texts} in {row.n_passes}" for n, row in passes.iterrows()
    )
    return (
        Claim(
            "Unless asked for, each text has a pass of its own.",
            bool((alone["n_passes"] == alone["n_texts"]).all()),
            f"{int(alone['n_texts'].sum())} texts, {int(alone['n_passes'].sum())} passes.",
            "E-13",
        ),
        Claim(
            "Texts of several callers share passes.",
            None if many.empty else bool((many["n_passes"] < many["n_texts"]).all()),
            f"Texts in passes: {said}.",
            "E-13",
        ),
        Claim(
            "A single caller waits for nobody: as many passes as texts.",
            None if single.empty else bool((single["n_passes"] == single["n_texts"]).all()),
            "There was none." if single.empty else f"{int(single['n_passes'].iloc[0])} passes.",
            "E-13",
        ),
        Claim(
            "Sharing changes nothing in the vectors beyond rounding.",
            bool(difference < 1e-4),
            f"Largest difference of a number: {difference:.1e}. Texts per second, shared against "
            f"alone: {', '.join(f'{n} callers {each:.2f} ×' for n, each in gain.items())}.",
            "E-5",
        ),
    )
