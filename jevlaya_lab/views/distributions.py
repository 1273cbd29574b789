"""How long runs took, how much of their passes was padding, and how sure the answers are."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

import numpy as np
import pandas as pd

from jevlaya_lab.frames import Trace
from jevlaya_lab.system_one.errors import InvalidInput
from jevlaya_lab.views.charts import bar_chart, line_chart, stack
from jevlaya_lab.views.layout import Layout
from jevlaya_lab.views.steps import counted
from jevlaya_lab.views.text import milliseconds, number

__all__ = ["confidence_layout", "distributions_layout", "latency_layout", "padding_layout"]

_POINTS: Final = 120
"""Points of a curve of shares."""

_GROUPS: Final = 8
_BINS: Final = 10
_CONFIDENCE: Final = "__answer_confidence"


def distributions_layout(trace: Trace, answers: pd.DataFrame | None = None) -> Layout:
    """Lay out latency, padding and confidence one under the other.

    Args:
        trace: The trace.
        answers: Answers in the wide layout with ``detail=True``, for their confidence; without
            them that part says that there is no data.

    Raises:
        InvalidInput: It is no trace, or no frame.
    """
    parts = [latency_layout(trace), padding_layout(trace), confidence_layout(answers)]
    return stack(*parts, title="Distributions")


def latency_layout(trace: Trace) -> Layout:
    """The share of runs that took at most so long, a line per scope and checkpoint.

    Of more than 8 the ones with most runs. Half of the runs are left of 0.5.
    """
    runs = _runs_of(trace)
    known = runs[runs["scope"].isin(["agent", "router"]) & runs["elapsed_ms"].notna()]
    names = known["scope"].astype(object) + " · " + known["model"].fillna("?").astype(object)
    sizes = names.value_counts()
    rows: list[dict[str, Any]] = []
    said = []
    for name in sizes.index[:_GROUPS]:
        values = np.sort(known.loc[names == name, "elapsed_ms"].to_numpy(dtype=float))
        shares = np.arange(1, len(values) + 1) / len(values)
        some = np.unique(
            np.linspace(0, len(values) - 1, min(_POINTS, len(values))).round().astype(int)
        )
        label = f"{name} (n={len(values):,})"
        rows += [{"ms": values[i], "share": shares[i], "run": label} for i in some]
        p50, p95 = np.percentile(values, [50, 95])
        said.append(f"{name}: half within {milliseconds(p50)}, 95 % within {milliseconds(p95)}")
    note = ""
    if len(sizes) > _GROUPS:
        note = f"And {len(sizes) - _GROUPS} more checkpoints with fewer runs."
    frame = pd.DataFrame(rows, columns=["ms", "share", "run"])
    positive = bool(len(frame)) and bool((frame["ms"] > 0).all())
    return line_chart(
        frame,
        x="ms",
        y="share",
        by="run",
        title="Latency: share of runs that took at most so long",
        subtitle="; ".join(said[:3]) + (f" and {len(said) - 3} more" if len(said) > 3 else ""),
        x_label="elapsed_ms (logarithmic)" if positive else "elapsed_ms",
        y_label="share of runs",
        log_x=positive,
        note=note,
        alt=f"Latency by scope and checkpoint. {'; '.join(said)}. {note}".strip()
        if said
        else "Latency. No data: no run with a known time was recorded.",
    )


def padding_layout(trace: Trace) -> Layout:
    """How many agents' runs had which share of padding: padded / (padded + forward tokens)."""
    runs = _runs_of(trace)
    known = runs[
        (runs["scope"] == "agent") & runs["padded_tokens"].notna() & runs["forward_tokens"].notna()
    ]
    padded = known["padded_tokens"].to_numpy(dtype=float)
    total = padded + known["forward_tokens"].to_numpy(dtype=float)
    shares = padded[total > 0] / total[total > 0]
    whole = float(padded.sum() / total.sum()) if total.sum() > 0 else 0.0
    return bar_chart(
        _histogram(shares),
        x="share",
        y="runs",
        title="Padding: share of the tokens in forward passes that only fill up",
        subtitle=f"{counted(len(shares), 'run')} of agents, {whole:.1%} of all their tokens"
        if len(shares)
        else "",
        x_label="padded_tokens / (padded_tokens + forward_tokens)",
        y_label="number of runs",
    )


def confidence_layout(answers: pd.DataFrame | None) -> Layout:
    """How many answers had which ``answer_confidence``, a bar per question.

    Args:
        answers: Answers in the wide layout with ``detail=True``.

    Raises:
        InvalidInput: It is no frame.
    """
    if answers is not None and not isinstance(answers, pd.DataFrame):
        raise InvalidInput(f"answers are a DataFrame, got a {type(answers).__name__}")
    found = (
        []
        if answers is None
        else [
            (str(name)[: -len(_CONFIDENCE)], answers[name])
            for name in answers.columns
            if isinstance(name, str) and name.endswith(_CONFIDENCE)
        ]
    )
    parts, said = [], []
    for question, column in found[:_GROUPS]:
        values = column.to_numpy(dtype=float, na_value=np.nan)
        values = values[~np.isnan(values)]
        parts.append(_histogram(values).assign(question=f"{question} (n={len(values):,})"))
        if len(values):
            said.append(f"{question}: mean {number(values.mean())}")
    empty = pd.DataFrame({"share": [], "runs": [], "question": []})
    subtitle = "; ".join(said[:4])
    if not found:
        subtitle = "ask with detail=True to have confidences"
    return bar_chart(
        pd.concat(parts) if parts else empty,
        x="share",
        y="runs",
        by="question",
        title="Confidence of the answers",
        subtitle=subtitle,
        x_label="answer_confidence",
        y_label="number of answers",
        note=f"And {len(found) - _GROUPS} more questions." if len(found) > _GROUPS else "",
    )


def _histogram(values: Any) -> pd.DataFrame:
    """How many of the shares are in each tenth; the last one holds 1."""
    counts, edges = np.histogram(np.asarray(values, dtype=float), bins=_BINS, range=(0.0, 1.0))
    names = [f"{a:.1f}–{b:.1f}" for a, b in pairwise(edges)]
    frame: pd.DataFrame = pd.DataFrame(
        {"share": names, "runs": counts if len(values) else [None] * _BINS}
    )
    return frame


def _runs_of(trace: Any) -> pd.DataFrame:
    if not isinstance(trace, Trace):
        raise InvalidInput(f"distributions are drawn of a trace, got a {type(trace).__name__}")
    return trace.runs
