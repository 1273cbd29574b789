"""A storm of callers that give up: what becomes of permits, threads and those who still wait."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import numpy as np
import pandas as pd

from jevlaya_lab.embedding.errors import EmbeddingError
from jevlaya_lab.embedding.local import BoundedLocalEmbedding
from jevlaya_lab.experiments import embedding_tools as tools
from jevlaya_lab.experiments.catalogue import experiment
from jevlaya_lab.experiments.options import Option
from jevlaya_lab.experiments.result import Claim, ExperimentResult
from jevlaya_lab.experiments.steps import Progress, steps
from jevlaya_lab.views.charts import bar_chart, line_chart, stack
from jevlaya_lab.views.layout import Layout

__all__ = ["TimeoutsResult", "run"]

_SERIES: Final = ("running", "waiting", "threads")
_GIVE_UP_LATE_MS: Final = 250.0


@dataclass(frozen=True, kw_only=True)
class TimeoutsResult(ExperimentResult):
    """The storm over time.

    The frame has one row per look: ``t_ms``, ``running`` encodes as the model itself counts them,
    ``waiting`` calls, ``threads`` of the provider, ``n_ended`` calls.

    Attributes:
        outcomes: One row per caller: ``outcome`` (``answered``, ``cancelled``, or the error's
            name), ``patience_ms`` (missing where it waits for ever) and ``ms`` until it was free.
    """

    outcomes: pd.DataFrame

    def layout(self) -> Layout:
        """Permits, waiting calls and threads over time, and how the callers ended."""
        long = self.frame.melt(
            id_vars="t_ms", value_vars=list(_SERIES), var_name="what", value_name="n"
        )
        counts = self.outcomes["outcome"].value_counts().rename_axis("outcome").reset_index()
        parameters = self.parameters
        return stack(
            line_chart(
                long[long["what"] != "waiting"],
                x="t_ms",
                y="n",
                by="what",
                title="Encodes that run, and threads",
                subtitle=f"{parameters['n_callers']} callers, at most {parameters['limit']} "
                f"encodes at once of {parameters['encode_ms']:g} ms each",
                x_label="ms since the storm began",
                y_label="how many",
            ),
            line_chart(
                long[long["what"] == "waiting"],
                x="t_ms",
                y="n",
                title="Calls that wait",
                x_label="ms since the storm began",
                y_label="how many",
            ),
            bar_chart(
                counts,
                x="outcome",
                y="count",
                title="How the callers ended",
                x_label="outcome",
                y_label="callers",
            ),
            title="A storm of timeouts and cancellations",
        )


class _Slow:
    """A model that takes its time, as blocking code does, and is counted."""

    def __init__(self, watch: tools.Encodes, ms: float) -> None:
        self._watch, self._seconds = watch, ms / 1e3

    def encode(self, texts: Sequence[str]) -> Any:
        with self._watch.encode():
            if list(texts) != ["warm up"]:
                time.sleep(self._seconds)
            return np.ones((len(texts), 4), np.float32)


@experiment("A storm of timeouts and cancellations")
def run(
    agent: Any = None,
    *,
    n_callers: Annotated[int, Option("Callers at once.", low=1, high=5000)] = 200,
    limit: Annotated[int, Option("Encodes at once.", low=1, high=64)] = 2,
    encode_ms: Annotated[float, Option("Milliseconds of an encode.", low=0, high=1000)] = 10.0,
    encode_timeout_ms: Annotated[
        float, Option("The provider's limit for an encode, ms.", low=1, high=60000)
    ] = 60.0,
    permit_timeout_ms: Annotated[
        float, Option("The provider's limit for waiting, ms.", low=1, high=60000)
    ] = 400.0,
    share_impatient: Annotated[
        float, Option("Share of callers that give up by themselves.", low=0, high=1)
    ] = 0.3,
    seed: Annotated[int, Option("Who gives up, and when.", low=0)] = 0,
    progress: Progress = True,
) -> TimeoutsResult:
    """Let many callers embed at once; some give up, others run into the provider's limits.

    The model sleeps instead of computing, so that how long an encode takes is a parameter.

    Args:
        agent: Not asked; embedding needs none.
        n_callers: Callers, all at once.
        limit: ``local_embedding_concurrency``.
        encode_ms: Milliseconds of one encode.
        encode_timeout_ms: ``encode_timeout``, in milliseconds.
        permit_timeout_ms: ``permit_timeout``, in milliseconds.
        share_impatient: Share of callers that are cancelled after a random while.
        seed: Who, and after which while.
        progress: See :data:`Progress`.
    """
    watch = tools.Encodes()
    storm = _Storm(watch, n_callers, limit, encode_ms, encode_timeout_ms, permit_timeout_ms)
    chance = random.Random(seed)
    longest = permit_timeout_ms + encode_timeout_ms
    patience = [
        chance.uniform(1.0, longest / 2) if chance.random() < share_impatient else None
        for _ in range(n_callers)
    ]
    for _ in steps(("the storm",), progress):
        tools.run_alone(storm.run(patience))
    frame, outcomes = pd.DataFrame(storm.looks), pd.DataFrame(storm.outcomes)
    outcomes["outcome"] = outcomes["outcome"].astype("string")
    outcomes["patience_ms"] = outcomes["patience_ms"].astype("float64")
    return TimeoutsResult(
        name="embedding_timeouts",
        hypothesis="Whoever gives up is free at once, the limit holds throughout, and every permit "
        "comes back.",
        claims=_claims(storm, frame, outcomes),
        frame=frame,
        outcomes=outcomes,
        parameters={
            "n_callers": n_callers,
            "limit": limit,
            "encode_ms": encode_ms,
            "encode_timeout_ms": encode_timeout_ms,
            "permit_timeout_ms": permit_timeout_ms,
            "share_impatient": share_impatient,
        },
        seed=seed,
    )


class _Storm:
    """The callers, the provider, and whoever looks on."""

    def __init__(
        self,
        watch: tools.Encodes,
        n_callers: int,
        limit: int,
        encode_ms: float,
        encode_timeout_ms: float,
        permit_timeout_ms: float,
    ) -> None:
        self.watch = watch
        self.limit = limit
        self.looks: list[dict[str, Any]] = []
        self.outcomes: list[dict[str, Any]] = []
        self.still_running = -1
        self.afterwards = ""
        self._threads = {thread.ident for thread in threading.enumerate()}
        self.strategy = BoundedLocalEmbedding(
            lambda: _Slow(watch, encode_ms),
            local_embedding_concurrency=limit,
            max_queue=n_callers + 1,
            encode_timeout=encode_timeout_ms / 1e3,
            permit_timeout=permit_timeout_ms / 1e3,
        )

    async def run(self, patience: Sequence[float | None]) -> None:
        try:
            await self.strategy.preload()
            began = time.perf_counter()
            looking = asyncio.ensure_future(self._look(began))
            await asyncio.gather(*(self._caller(i, ms) for i, ms in enumerate(patience)))
            # An encode that nobody waits for any more is finished by its thread, and then counted.
            until = time.perf_counter() + 5.0
            while self.watch.running and time.perf_counter() < until:
                await asyncio.sleep(0.002)
            await asyncio.sleep(0.01)
            looking.cancel()
            self.still_running = self.watch.running
            try:
                await self.strategy.embed(["after the storm"])
                self.afterwards = "answered"
            except EmbeddingError as error:
                self.afterwards = type(error).__name__
            self._note(began)
        finally:
            await self.strategy.aclose()

    async def _caller(self, i: int, patience_ms: float | None) -> None:
        began = time.perf_counter()
        task = asyncio.ensure_future(self.strategy.embed([f"text {i}"]))
        if patience_ms is not None:
            asyncio.get_running_loop().call_later(patience_ms / 1e3, task.cancel)
        try:
            await task
            outcome = "answered"
        except asyncio.CancelledError:
            outcome = "cancelled"
        except EmbeddingError as error:
            outcome = type(error).__name__
        ms = (time.perf_counter() - began) * 1e3
        self.outcomes.append({"outcome": outcome, "patience_ms": patience_ms, "ms": ms})

    async def _look(self, began: float) -> None:
        while True:
            self._note(began)
            await asyncio.sleep(0.002)

    def _note(self, began: float) -> None:
        gauges = {sample.metric: sample.value for sample in self.strategy.metrics.samples()}
        threads = [
            thread
            for thread in threading.enumerate()
            if thread.ident not in self._threads and thread.name.startswith("jevlaya-embedding")
        ]
        self.looks.append(
            {
                "t_ms": (time.perf_counter() - began) * 1e3,
                "running": self.watch.running,
                "waiting": int(gauges["semaphore_waiters"]),
                "threads": len(threads),
                "n_ended": len(self.outcomes),
            }
        )


def _claims(storm: _Storm, frame: pd.DataFrame, outcomes: pd.DataFrame) -> tuple[Claim, ...]:
    cancelled = outcomes[outcomes["outcome"] == "cancelled"]
    late = (cancelled["ms"] - cancelled["patience_ms"]).max()
    counts = outcomes["outcome"].value_counts()
    last = frame.iloc[-1]
    return (
        Claim(
            "Never more encodes at once than the limit.",
            storm.watch.peak <= storm.limit,
            f"Most at once: {storm.watch.peak} of {storm.limit}, in {storm.watch.n_encodes} "
            "encodes, as the model counted.",
            "E-2",
        ),
        Claim(
            "When it is over every permit is back, and the next call is answered.",
            storm.still_running == 0 and storm.afterwards == "answered" and last["waiting"] == 0,
            f"Running {storm.still_running}, waiting {int(last['waiting'])}; a call afterwards: "
            f"{storm.afterwards}.",
            "E-2",
        ),
        Claim(
            "Whoever gives up is free at once.",
            None if cancelled.empty else bool(late < _GIVE_UP_LATE_MS),
            "Nobody gave up."
            if cancelled.empty
            else f"The last of {len(cancelled)} was free {late:.1f} ms after giving up.",
            "E-8",
        ),
        Claim(
            "Every caller ends, with an answer or with an error that says at what.",
            len(outcomes) == len(storm.outcomes) and "EmbeddingError" not in counts,
            ", ".join(f"{name}: {n}" for name, n in counts.items()) + ".",
            "E-3",
        ),
        Claim(
            "The storm makes no threads beyond the limit and the one that loads.",
            bool(frame["threads"].max() <= storm.limit + 1),
            f"Most threads of the provider: {frame['threads'].max()}.",
            "E-3",
        ),
    )
