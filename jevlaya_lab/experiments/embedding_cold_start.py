"""Who pays for loading: the first callers of a lazy provider, or nobody after a preload."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Annotated, Any, Final

import pandas as pd

from jevlaya_lab.embedding.local import BoundedLocalEmbedding
from jevlaya_lab.experiments import embedding_tools as tools
from jevlaya_lab.experiments.catalogue import experiment
from jevlaya_lab.experiments.options import Option
from jevlaya_lab.experiments.result import Claim, ExperimentResult
from jevlaya_lab.experiments.steps import Progress, steps
from jevlaya_lab.views.charts import bar_chart
from jevlaya_lab.views.layout import Layout

__all__ = ["ColdStartResult", "run"]

MODES: Final = ("lazy", "preload")


@dataclass(frozen=True, kw_only=True)
class ColdStartResult(ExperimentResult):
    """How long first and later calls take.

    The frame has one row per mode, round and call: ``mode``, ``round``, ``wave`` (``first`` for
    the callers that come at once at the beginning, ``later`` for those after them), ``caller``,
    ``ms``; and of the round ``n_built`` models made and ``load_ms`` of loading.
    """

    def layout(self) -> Layout:
        """Median milliseconds of first and later calls, lazy and preloaded."""
        shown = self.frame.groupby(["mode", "wave"], sort=False)["ms"].median().reset_index()
        return bar_chart(
            shown,
            x="mode",
            y="ms",
            by="wave",
            title="Cold start against preload",
            subtitle=f"{self.parameters['n_callers']} callers at once, median of "
            f"{self.parameters['rounds']} rounds; the load itself took "
            f"{self.frame.loc[self.frame['mode'] == 'lazy', 'load_ms'].median():.0f} ms",
            x_label="provider",
            y_label="a call, ms",
        )


@experiment("Cold start against preload")
def run(
    agent: Any = None,
    *,
    model: Any = None,
    n_callers: Annotated[int, Option("Callers that come at once.", low=1, high=500)] = 4,
    rounds: Annotated[int, Option("How often each mode is measured.", low=1, high=50)] = 3,
    seed: Annotated[int, Option("Which texts.", low=0)] = 0,
    progress: Progress = True,
) -> ColdStartResult:
    """Make a provider anew, let callers come at once, and then once more.

    Args:
        agent: Not asked; embedding needs none.
        model: What embeds, as ``BoundedLocalEmbedding`` takes it; ``None`` for the embedded one.
            One object is loaded already; a function that makes one shows what loading costs.
        n_callers: Callers at once.
        rounds: Rounds; the modes take turns.
        seed: Which texts.
        progress: See :data:`Progress`.
    """
    some = tools.texts(n_callers, seed)
    rows: list[dict[str, Any]] = []

    async def measure(mode: str, i: int) -> None:
        watch = tools.Encodes()

        def make() -> tools.Watched:
            watch.built += 1
            return tools.Watched(tools.build(model), watch)

        strategy = BoundedLocalEmbedding(make, name=tools.model_name(model))

        async def call(caller: int, wave: str) -> dict[str, Any]:
            began = time.perf_counter()
            await strategy.embed([some[caller]])
            ms = (time.perf_counter() - began) * 1e3
            return {"mode": mode, "round": i, "wave": wave, "caller": caller, "ms": ms}

        try:
            if mode == "preload":
                await strategy.preload()
            found: list[dict[str, Any]] = []
            for wave in ("first", "later"):
                found += await asyncio.gather(*(call(c, wave) for c in range(n_callers)))
            load_ms = strategy.metrics.snapshot()["model_load_ms"]["max"]
        finally:
            await strategy.aclose()
        rows.extend({**row, "n_built": watch.built, "load_ms": load_ms} for row in found)

    plan = [(mode, i) for i in range(rounds) for mode in MODES]
    # What is loaded only once per process, such as torch, is nobody's cold start here.
    tools.run_alone(measure("preload", -1))
    rows.clear()
    for mode, i in steps(plan, progress, lambda step: f"{step[0]}, round {step[1] + 1}"):
        tools.run_alone(measure(mode, i))
    frame = pd.DataFrame(rows).astype({"mode": "string", "wave": "string"})
    return ColdStartResult(
        name="embedding_cold_start",
        hypothesis="A lazy provider makes its first callers wait for one load; a preloaded one "
        "makes nobody wait.",
        claims=_claims(frame),
        frame=frame,
        parameters={
            "model": tools.model_name(model),
            "n_callers": n_callers,
            "rounds": rounds,
        },
        seed=seed,
    )


def _claims(frame: pd.DataFrame) -> tuple[Claim, ...]:
    built = frame.groupby(["mode", "round"])["n_built"].max()
    first = frame[frame["wave"] == "first"].groupby(["mode", "round"])
    quickest = first["ms"].min()
    load = frame.groupby(["mode", "round"])["load_ms"].max()
    waited = (quickest["lazy"] >= 0.9 * load["lazy"]).all()
    median = frame.groupby(["mode", "wave"])["ms"].median()
    return (
        Claim(
            "However many callers come at once, one model is built.",
            bool((built == 1).all()),
            f"Models built per round: {sorted(set(built))}.",
            "E-4",
        ),
        Claim(
            "Lazy: each of the first callers waits for the load.",
            bool(waited),
            f"The load took {load['lazy'].median():.0f} ms, the quickest first call "
            f"{quickest['lazy'].median():.0f} ms (medians).",
            "E-4",
        ),
        Claim(
            "Preloaded: no first call waits for the load.",
            bool(quickest["preload"].median() < quickest["lazy"].median()),
            f"The quickest first call took {quickest['preload'].median():.0f} ms instead of "
            f"{quickest['lazy'].median():.0f}; the median of all first calls "
            f"{median['preload', 'first']:.0f} ms, of later ones "
            f"{median['preload', 'later']:.0f} ms.",
        ),
    )
