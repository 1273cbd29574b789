"""What decides how many forward passes a batch takes, and how much of them is padding."""

from __future__ import annotations

import inspect
import itertools
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, NamedTuple

import pandas as pd

from jevlaya_lab.contrib_hooks.verdicts import answer_of, shift, verdict
from jevlaya_lab.experiments.batching_claims import claims_about
from jevlaya_lab.experiments.catalogue import experiment
from jevlaya_lab.experiments.mixed_batch import mixed_batch
from jevlaya_lab.experiments.options import Option
from jevlaya_lab.experiments.passes import Watch, totals
from jevlaya_lab.experiments.result import ExperimentResult
from jevlaya_lab.experiments.steps import Progress, steps
from jevlaya_lab.experiments.tables import COUNT, NUMBER, TEXT, table
from jevlaya_lab.experiments.texts import (
    describe_questions,
    describe_states,
    given_or_tickets,
    questions_about_tickets,
)
from jevlaya_lab.experiments.whom import ask, asked_of, describe
from jevlaya_lab.system_one.encoding import state_text
from jevlaya_lab.views.charts import line_chart, stack
from jevlaya_lab.views.layout import Layout

__all__ = ["BatchingResult", "run"]

OWN_FILLING: Final = 0
"""As a batch size: whatever the runtime does when it is given none."""

_DTYPES: Final[dict[str, Any]] = {
    "part": pd.CategoricalDtype(["size", "mixed"]),
    "setting": TEXT,
    "batch_size": COUNT,
    "sorting": pd.CategoricalDtype(["off", "runtime", "before"]),
    "n_states": COUNT,
    "asks": TEXT,
    "runs": TEXT,
    "passes": COUNT,
    "expected_passes": COUNT,
    "largest_pass": COUNT,
    "rows": COUNT,
    "tokens": COUNT,
    "padding": COUNT,
    "padding_share": NUMBER,
    "max_shift": NUMBER,
    "n_changed": COUNT,
    "n_repeats": COUNT,
    "ms": NUMBER,
    "ms_low": NUMBER,
    "ms_high": NUMBER,
    "states_per_s": NUMBER,
    "states_per_s_low": NUMBER,
    "states_per_s_high": NUMBER,
}


@dataclass(frozen=True, kw_only=True)
class BatchingResult(ExperimentResult):
    """Forward passes, padding and time by batch size and sorting, and what shares a pass.

    Rows of ``part="size"`` are settings: ``batch_size`` (0: the runtime fills passes by itself),
    ``sorting`` (``off``; ``runtime``: by ``sort_by_length``; ``before``: the input was sorted,
    since there is no such switch), the ``passes`` seen and those ``expected`` of this size, states
    in the ``largest_pass``, ``rows``, ``tokens`` and ``padding`` of all passes, and how far answers
    are from those of the first setting (``max_shift`` of a probability or a score, ``n_changed``
    answers). Times are milliseconds: the median of ``n_repeats`` calls, with the fastest and the
    slowest.

    Rows of ``part="mixed"`` are kinds of requests in one batch of a router; ``asks`` is a number,
    equal where questions, budgets, checkpoint and language are, and ``runs`` numbers the agent's
    calls that answered them.
    """

    def layout(self) -> Layout:
        """Padding and throughput by batch size."""
        sizes = self.frame[self.frame["part"] == "size"]
        named = sizes.assign(
            size=[str(size) if size else "own" for size in sizes["batch_size"]],
            sorted=["unsorted" if each == "off" else "sorted" for each in sizes["sorting"]],
            percent=sizes["padding_share"] * 100,
        )
        common: dict[str, Any] = {"x": "size", "by": "sorted", "x_label": "states per pass"}
        note = (
            "own: as the runtime fills them. " if (sizes["batch_size"] == OWN_FILLING).any() else ""
        )
        n = int(sizes["n_states"].max())
        return stack(
            line_chart(
                named, y="percent", title="Padding", y_label="padding, % of all tokens", **common
            ),
            line_chart(
                named,
                y="states_per_s",
                low="states_per_s_low",
                high="states_per_s_high",
                title="Throughput",
                y_label="states per second",
                note=f"{note}Medians of the repeats, from the slowest to the fastest.",
                **common,
            ),
            title=f"Batches of {n} states on {self.parameters['agent']}",
        )


@experiment("Batch size, sorting by length, and what shares a pass")
def run(
    agent: Any = None,
    *,
    n: Annotated[int, Option("Tickets in the batch.", low=2, high=64)] = 16,
    batch_sizes: Annotated[
        Sequence[int],
        Option("States per forward pass; 0: as the runtime fills them.", low=0, high=4096),
    ] = (1, 2, 4, OWN_FILLING),
    repeats: Annotated[int, Option("Timed calls of each setting.", low=1, high=50)] = 3,
    max_len: Annotated[int, Option("Budget of the request that has its own.", low=8)] = 96,
    head_max_len: Annotated[int, Option("Question budget of another one.", low=8)] = 32,
    states: Any = None,
    questions: Any = None,
    seed: Annotated[int, Option("Of the tickets and of the order of all states.")] = 0,
    progress: Progress = True,
) -> BatchingResult:
    """Ask about the same states in batches of several sizes, unsorted and sorted, then a mixture.

    The settings take turns, so that a slow moment of the machine hits all of them. The mixture goes
    through the router, or where an agent is given through a ``Router`` made around it.

    Args:
        agent: An agent or a router; ``None`` makes a ``Router()``.
        n: See the options, as for those below.
        batch_sizes: See the options.
        repeats: See the options.
        max_len: See the options.
        head_max_len: See the options.
        states: States of your own instead of tickets; all of them are asked about.
        questions: Questions of your own.
        seed: See the options.
        progress: Whether to show a bar, or a function that is told.

    Returns:
        The result.
    """
    target = asked_of(agent, "batching")
    asked = questions_about_tickets() if questions is None else questions
    texts = given_or_tickets(states, n, seed)
    random.Random(seed).shuffle(texts)
    switch = "sort_by_length" in inspect.signature(target.predict_batch).parameters
    settings = [
        _Setting(size, sorting)
        for size in dict.fromkeys(batch_sizes)
        for sorting in ("off", "runtime" if switch else "before")
    ]
    measured: dict[_Setting, list[_Call]] = {setting: [] for setting in settings}
    plan: list[_Setting | None] = [*settings * repeats, None]
    warm = ask(target, texts, asked)  # loads what is to be loaded, and embeds the questions
    model = (warm[0].get("routing") or {}).get("model") or "english"
    mixed: list[dict[str, Any]] = []
    for setting in steps(plan, progress, _name):
        if setting is None:
            budgets = {"max_len": max_len, "head_max_len": head_max_len}
            mixed = mixed_batch(target, texts, asked, budgets, model)
        else:
            measured[setting].append(_call(target, texts, asked, setting))
    first = measured[settings[0]][0]
    rows = [_row(setting, calls, first.results, asked) for setting, calls in measured.items()]
    frame = table([*rows, *mixed], _DTYPES)
    return BatchingResult(
        name="batching",
        hypothesis=(
            "The batch size decides how many passes there are and how fast, sorting how much is "
            "padded; answers stay, and only what is asked alike shares a pass."
        ),
        claims=claims_about(frame),
        frame=frame,
        parameters={
            "agent": describe(agent),
            "n": n,
            "batch_sizes": list(batch_sizes),
            "repeats": repeats,
            "max_len": max_len,
            "head_max_len": head_max_len,
            "states": describe_states(states),
            "questions": describe_questions(questions),
        },
        seed=seed,
    )


class _Setting(NamedTuple):
    size: int
    sorting: str


class _Call(NamedTuple):
    """One timed call: its results in the order of the states, and what was seen."""

    results: list[Any]
    ms: float
    watch: Watch


def _name(setting: _Setting | None) -> str:
    if setting is None:
        return "a mixed batch"
    size = f"batches of {setting.size}" if setting.size else "filled by the runtime"
    return f"{size}, sorting {setting.sorting}"


def _call(target: Any, texts: list[Any], questions: Any, setting: _Setting) -> _Call:
    order = list(range(len(texts)))
    options: dict[str, Any] = {}
    if setting.sorting == "before":
        order.sort(key=lambda i: len(state_text(texts[i])))
    elif "sort_by_length" in inspect.signature(target.predict_batch).parameters:
        options["sort_by_length"] = setting.sorting == "runtime"
    if setting.size != OWN_FILLING:
        options["batch_size"] = setting.size
    with Watch(target) as watch:
        began = time.perf_counter()
        results = ask(target, [texts[i] for i in order], questions, **options)
        ms = (time.perf_counter() - began) * 1e3
    at = dict(zip(order, results, strict=True))
    return _Call([at[i] for i in range(len(texts))], ms, watch)


def _row(setting: _Setting, calls: list[_Call], first: list[Any], questions: Any) -> dict[str, Any]:
    runs, seen = calls[0].watch.runs, calls[0].watch.n_passes is not None
    passes = [each for run in runs for each in run.passes]
    total, n_states = totals(passes), sum(len(run.states) for run in runs)
    shown: dict[str, Any] = {}
    if seen and n_states and total["rows"]:
        shown = {
            **total,
            "largest_pass": max(each.n_rows for each in passes) * n_states // total["rows"],
            "padding_share": total["padding"] / max(1, total["tokens"] + total["padding"]),
        }
        if setting.size != OWN_FILLING:
            shown["expected_passes"] = sum(-(-len(run.states) // setting.size) for run in runs)
    n, times = len(first), sorted(call.ms for call in calls)
    median = statistics.median(times)
    return {
        "part": "size",
        "setting": _name(setting),
        "batch_size": setting.size,
        "sorting": setting.sorting,
        "n_states": n,
        "runs": " ".join(map(str, range(len(runs)))),
        **shown,
        **_differences(first, calls[0].results, questions),
        "n_repeats": len(times),
        "ms": median,
        "ms_low": times[0],
        "ms_high": times[-1],
        "states_per_s": n / median * 1e3,
        "states_per_s_low": n / times[-1] * 1e3,
        "states_per_s_high": n / times[0] * 1e3,
    }


def _differences(first: list[Any], other: list[Any], questions: Any) -> dict[str, Any]:
    """How far answers are from those of the first setting."""
    largest, n_changed = 0.0, 0
    for (a, b), qid in itertools.product(zip(first, other, strict=True), questions):
        one, two = answer_of(a, qid), answer_of(b, qid)
        n_changed += verdict(two) != verdict(one)
        largest = max(largest, shift(one, two) or 0.0)
    return {"max_shift": largest, "n_changed": n_changed}
