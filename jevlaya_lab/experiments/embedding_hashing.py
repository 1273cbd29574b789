"""Whether hashing should run inline: a thread's hop against the work itself, by length."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import numpy as np
import pandas as pd

from jevlaya_lab.embedding.hashing import InlineHashingEmbedding
from jevlaya_lab.experiments import embedding_tools as tools
from jevlaya_lab.experiments.catalogue import experiment
from jevlaya_lab.experiments.options import Option
from jevlaya_lab.experiments.result import Claim, ExperimentResult
from jevlaya_lab.experiments.steps import Progress, steps
from jevlaya_lab.views.charts import line_chart, stack
from jevlaya_lab.views.layout import Layout

__all__ = ["HashingResult", "run"]

MODES: Final = ("inline", "in a thread")


@dataclass(frozen=True, kw_only=True)
class HashingResult(ExperimentResult):
    """Microseconds per text, by length.

    The frame has one row per length, mode and round: ``n_words``, ``mode``, ``round``,
    ``us_per_text``, ``max_late_ms`` (how late the loop's latest beat was meanwhile), ``same``
    (whether the vectors were those of the first round).
    """

    def layout(self) -> Layout:
        """Microseconds and the loop's latest beat over the length of a text."""
        by = ["n_words", "mode"]
        shown = (
            self.frame.groupby(by, sort=False)[["us_per_text", "max_late_ms"]]
            .median()
            .reset_index()
        )
        common: dict[str, Any] = {"x": "n_words", "by": "mode", "log_x": True, "log_y": True}
        return stack(
            line_chart(
                shown,
                y="us_per_text",
                title="One text",
                subtitle=f"median of {self.parameters['rounds']} rounds",
                x_label="words",
                y_label="µs per text",
                **common,
            ),
            line_chart(
                shown,
                y="max_late_ms",
                title="The event loop meanwhile",
                x_label="words",
                y_label="latest beat, ms late",
                **common,
            ),
            title="Hashing: inline, or in a thread",
        )


@experiment("Hashing: inline, or in a thread")
def run(
    agent: Any = None,
    *,
    n_words: Annotated[Sequence[int], Option("Words of a text.", low=1, high=1_000_000)] = (
        5,
        50,
        500,
        20_000,
    ),
    n_texts: Annotated[int, Option("Texts per measurement.", low=1, high=1000)] = 5,
    rounds: Annotated[int, Option("How often each is measured.", low=1, high=50)] = 3,
    seed: Annotated[int, Option("Which words.", low=0)] = 0,
    progress: Progress = True,
) -> HashingResult:
    """Hash texts one by one, inline as the provider does, and through asyncio's threads.

    Args:
        agent: Not asked; embedding needs none.
        n_words: Lengths of texts, in words.
        n_texts: Texts of each length.
        rounds: Rounds; the modes take turns.
        seed: Which words.
        progress: See :data:`Progress`.
    """
    hashing = InlineHashingEmbedding()
    words = " ".join(tools.texts(64, seed)).split()
    rows: list[dict[str, Any]] = []
    first: dict[int, Any] = {}

    def in_thread(text: str) -> Any:
        return asyncio.run(hashing.embed([text]))

    async def measure(n: int, mode: str, i: int) -> None:
        some = [" ".join(words[(k * 7 + j) % len(words)] for j in range(n)) for k in range(n_texts)]
        found = []
        async with tools.Heart.beating(2.0) as heart:
            began = time.perf_counter()
            for text in some:
                if mode == "inline":
                    found.append(await hashing.embed([text]))
                else:
                    found.append(await asyncio.to_thread(in_thread, text))
                await asyncio.sleep(0)
            elapsed = time.perf_counter() - began
        matrix = np.vstack(found)
        rows.append(
            {
                "n_words": n,
                "mode": mode,
                "round": i,
                "us_per_text": elapsed / n_texts * 1e6,
                "max_late_ms": max(heart.late_ms),
                "same": bool(np.array_equal(first.setdefault(n, matrix), matrix)),
            }
        )

    plan = [(n, mode, i) for i in range(rounds) for n in n_words for mode in MODES]
    for n, mode, i in steps(plan, progress, lambda step: f"{step[0]} words, {step[1]}"):
        tools.run_alone(measure(n, mode, i))
    frame = pd.DataFrame(rows).astype({"mode": "string"})
    return HashingResult(
        name="embedding_hashing",
        hypothesis="For short texts the hop to a thread costs more than hashing, and long ones "
        "leave the loop its turns inline as well.",
        claims=_claims(frame),
        frame=frame,
        parameters={"n_words": list(n_words), "n_texts": n_texts, "rounds": rounds},
        seed=seed,
    )


def _claims(frame: pd.DataFrame) -> tuple[Claim, ...]:
    cost = frame.groupby(["n_words", "mode"])["us_per_text"].median().unstack("mode")
    shortest = cost.index.min()
    ratio = cost["in a thread"] / cost["inline"]
    late = frame[frame["mode"] == "inline"].groupby("n_words")["max_late_ms"].median()
    longest = late.index.max()
    takes_ms = float(cost.loc[longest, "inline"]) / 1e3
    return (
        Claim(
            "Where it runs changes nothing in the vectors.",
            bool(frame["same"].all()),
            f"{int(frame['same'].sum())} of {len(frame)} measurements gave the same vectors.",
            "E-7",
        ),
        Claim(
            "A short text is cheaper inline.",
            bool(ratio[shortest] > 1),
            "A thread costs "
            + ", ".join(f"{each:.1f} times as much at {n} words" for n, each in ratio.items())
            + ".",
            "E-7",
        ),
        Claim(
            "Long texts are hashed in slices: the loop gets its turn before they are done.",
            # Where the longest text takes no time, nothing can be told of slices.
            None if takes_ms < 20 else bool(late[longest] < takes_ms / 2),
            f"{longest} words take {takes_ms:.1f} ms; the latest beat was {late[longest]:.1f} ms "
            "late.",
            "E-7",
        ),
        Claim(
            "The costs grow with the length.",
            None if len(cost) < 2 else bool(cost["inline"].is_monotonic_increasing),
            f"Inline, µs: {', '.join(f'{n}: {us:.0f}' for n, us in cost['inline'].items())}.",
        ),
    )
