"""How many encodes at once help: throughput, latency, memory, and too many threads."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import pandas as pd

from jevlaya_lab.embedding.local import BoundedLocalEmbedding
from jevlaya_lab.experiments import embedding_tools as tools
from jevlaya_lab.experiments.catalogue import experiment
from jevlaya_lab.experiments.options import Option
from jevlaya_lab.experiments.result import Claim, ExperimentResult
from jevlaya_lab.experiments.steps import Progress, steps
from jevlaya_lab.system_one.devices import usable_cores
from jevlaya_lab.views.charts import bar_chart, stack
from jevlaya_lab.views.layout import Layout

__all__ = ["ConcurrencyResult", "run"]

SHARED: Final = "shared out"
ALL: Final = "all cores each"


@dataclass(frozen=True, kw_only=True)
class ConcurrencyResult(ExperimentResult):
    """Throughput and latency by concurrency.

    The frame has one row per round: ``concurrency``, ``torch_threads`` (``shared out`` or ``all
    cores each``), ``round``, ``texts_per_s``, ``p50_ms`` and ``p99_ms`` of the calls,
    ``peak_running``, ``memory_mb`` (growth of the process since before the model was loaded;
    missing where the system does not say), ``largest_difference`` from the first vectors.
    """

    def layout(self) -> Layout:
        """Texts per second and the slowest calls, per concurrency and torch threads."""
        shown = (
            self.frame.groupby(["concurrency", "torch_threads"], sort=False)[
                ["texts_per_s", "p99_ms"]
            ]
            .median()
            .reset_index()
        )
        shown["concurrency"] = shown["concurrency"].astype(str)
        chart: dict[str, Any] = {"x": "concurrency", "by": "torch_threads"}
        cores = self.parameters["n_cores"]
        return stack(
            bar_chart(
                shown,
                y="texts_per_s",
                title="Throughput",
                subtitle=f"{cores} cores, torch threads {SHARED} or {ALL}",
                x_label="encodes at once",
                y_label="texts per second",
                **chart,
            ),
            bar_chart(
                shown,
                y="p99_ms",
                title="Slowest calls",
                x_label="encodes at once",
                y_label="p99 of a call, ms",
                **chart,
            ),
            title="How many encodes at once",
        )


@experiment("How many encodes at once")
def run(
    agent: Any = None,
    *,
    model: Any = None,
    concurrency: Annotated[Sequence[int], Option("Encodes at once.", low=1, high=64)] = (1, 2, 4),
    n_callers: Annotated[int, Option("Callers, each one text at a time.", low=1, high=500)] = 8,
    n_calls: Annotated[int, Option("Calls of each caller.", low=1, high=1000)] = 3,
    rounds: Annotated[int, Option("How often each is measured.", low=1, high=50)] = 3,
    seed: Annotated[int, Option("Which texts.", low=0)] = 0,
    progress: Progress = True,
) -> ConcurrencyResult:
    """Let callers embed one text at a time, with more and more encodes at once.

    Each concurrency is measured twice: with torch's threads shared out between the encodes, and
    with all cores' threads for each (oversubscribed).

    Args:
        agent: Not asked; embedding needs none.
        model: What embeds, as ``BoundedLocalEmbedding`` takes it; ``None`` for the embedded one.
        concurrency: Values of ``local_embedding_concurrency``.
        n_callers: Callers at the same time.
        n_calls: Calls of each, one after the other.
        rounds: Rounds; all variants take turns.
        seed: Which texts.
        progress: See :data:`Progress`.

    Raises:
        InvalidOption: The model is one object, and several encodes at once were asked for.
    """
    tools.needs_replicas(model, concurrency)
    n_cores = usable_cores()
    some = tools.texts(n_callers * n_calls, seed)
    base_mb = _memory_mb()
    variants = [(n, kind) for n in concurrency for kind in (SHARED, ALL)]
    strategies = {
        (n, kind): BoundedLocalEmbedding(
            "embedded" if model is None else model,
            local_embedding_concurrency=n,
            torch_threads=None if kind == SHARED else n_cores,
        )
        for n, kind in variants
    }
    rows: list[dict[str, Any]] = []
    first: list[Any] = []

    async def measure(n: int, kind: str, i: int) -> None:
        strategy = strategies[n, kind]
        took: list[float] = []
        vectors: list[Any] = [None] * len(some)

        async def caller(k: int) -> None:
            for j in range(k * n_calls, (k + 1) * n_calls):
                began = time.perf_counter()
                vectors[j] = (await strategy.embed([some[j]]))[0]
                took.append((time.perf_counter() - began) * 1e3)

        began = time.perf_counter()
        with _Sampled(strategy) as seen:
            await asyncio.gather(*(caller(k) for k in range(n_callers)))
        elapsed = time.perf_counter() - began
        matrix = np.stack(vectors)
        if not first:
            first.append(matrix)
        memory = _memory_mb()
        rows.append(
            {
                "concurrency": n,
                "torch_threads": kind,
                "round": i,
                "texts_per_s": len(some) / elapsed,
                "p50_ms": float(np.quantile(took, 0.5)),
                "p99_ms": float(np.quantile(took, 0.99)),
                "peak_running": seen.peak,
                "memory_mb": None if memory is None or base_mb is None else memory - base_mb,
                "largest_difference": float(np.abs(matrix - first[0]).max()),
            }
        )

    try:
        for strategy in strategies.values():
            tools.run_alone(strategy.preload())
            tools.run_alone(strategy.embed(some[:n_callers]))  # torch's threads begin here
        plan = [(n, kind, i) for i in range(rounds) for n, kind in variants]
        named = steps(plan, progress, lambda step: f"{step[0]} at once, threads {step[1]}")
        for n, kind, i in named:
            tools.run_alone(measure(n, kind, i))
    finally:
        for strategy in strategies.values():
            tools.run_alone(strategy.aclose())
    frame = pd.DataFrame(rows).astype({"torch_threads": "string", "memory_mb": "float64"})
    return ConcurrencyResult(
        name="embedding_concurrency",
        hypothesis="The limit holds, the vectors stay the same, and more encodes at once than "
        "cores gain no throughput.",
        claims=_claims(frame, n_cores),
        frame=frame,
        parameters={
            "model": tools.model_name(model),
            "concurrency": list(concurrency),
            "n_callers": n_callers,
            "n_calls": n_calls,
            "rounds": rounds,
            "n_cores": n_cores,
        },
        seed=seed,
    )


def _claims(frame: pd.DataFrame, n_cores: int) -> tuple[Claim, ...]:
    over = frame[frame["peak_running"] > frame["concurrency"]]
    difference = frame["largest_difference"].max()
    rate: Any = frame.groupby(["concurrency", "torch_threads"], sort=False)["texts_per_s"]
    within = [values for (n, _), values in rate if n <= n_cores]
    beyond = [values for (n, _), values in rate if n > n_cores]
    held = None
    if within and beyond:
        best = max(within, key=lambda values: float(values.median()))
        if all(values.max() < best.median() for values in beyond):
            held = True
        elif any(values.min() > max(each.max() for each in within) for values in beyond):
            held = False  # each of its rounds is faster than every round within
    rates = ", ".join(f"{n} ({kind}): {v.median():.0f}" for (n, kind), v in rate)
    peaks = frame.groupby("concurrency")["peak_running"].max()
    return (
        Claim(
            "Never more encodes at once than the limit.",
            over.empty,
            "Most seen at once: "
            + ", ".join(f"{peak} of {n}" for n, peak in peaks.items())
            + " (looked at every millisecond).",
            "E-2",
        ),
        Claim(
            "The vectors do not depend on it.",
            bool(difference < 1e-4),
            f"Largest difference of a number: {difference:.1e}.",
            "E-5",
        ),
        Claim(
            f"More encodes at once than the {n_cores} cores are not faster.",
            held,
            f"Texts per second, median, by encodes at once: {rates}."
            + (" The rounds overlap." if within and beyond and held is None else ""),
        ),
    )


class _Sampled:
    """Looks every millisecond, from a thread, how many encodes run."""

    def __init__(self, strategy: BoundedLocalEmbedding) -> None:
        self._strategy = strategy
        self._over = threading.Event()
        self.peak = 0
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> _Sampled:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(0.001):
            for sample in self._strategy.metrics.samples():
                if sample.metric == "concurrency_inflight":
                    self.peak = max(self.peak, int(sample.value))


def _memory_mb() -> float | None:
    """Memory of this process, where Linux says it."""
    if not sys.platform.startswith("linux"):
        return None
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
