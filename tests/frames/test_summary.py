"""Traces summed up and compared."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from jevlaya_lab import Agent, BaseHook, Lab, Noul, TraceRecorder
from jevlaya_lab.frames import Trace
from jevlaya_lab.frames.schema import RUNS
from jevlaya_lab.system_one.models.instant import InstantNetwork

QUESTIONS = {"q": Noul("Is it?")}


def runs_of(*rows) -> Trace:
    columns = {
        name: pd.Series([row.get(name) for row in rows], dtype=dtype)
        for name, dtype in RUNS.items()
    }
    return Trace(pd.DataFrame(columns), Trace.from_records().events)


BASE = {"scope": "agent", "model": "m", "entry": "predict_batch", "n_states": 2, "skipped": False}
STEPS = {"encode_ms": 1.0, "collate_ms": 0.5, "forward_ms": 6.0, "decode_ms": 0.5}
TOKENS = {"input_tokens": 20, "output_tokens": 2, "forward_tokens": 30, "padded_tokens": 10}


def test_the_summary_says_how_long_and_where_the_time_went():
    trace = runs_of(
        *({**BASE, **STEPS, **TOKENS, "elapsed_ms": float(ms)} for ms in (10, 20, 30)),
        {**BASE, "elapsed_ms": 1.0, "skipped": True, "input_tokens": 5},
        {**BASE, "elapsed_ms": 2.0, "error_type": "LookupError", "skipped": None},
        {**BASE, "model": "other", "scope": "load", "entry": None, "elapsed_ms": 100.0}
        | {"skipped": None},
    )
    found = trace.summary()
    assert found[["scope", "model", "entry"]].values.tolist() == [
        ["agent", "m", "predict_batch"], ["load", "other", pd.NA],
    ]  # fmt: skip
    row = found.iloc[0]
    assert (row["n_runs"], row["n_states"]) == (5, 10)
    assert row["p50_ms"] == 10
    assert row["p95_ms"] == pytest.approx(np.percentile([10, 20, 30, 1, 2], 95))
    assert row["p99_ms"] == pytest.approx(np.percentile([10, 20, 30, 1, 2], 99))
    assert row["total_ms"] == 63
    assert (row["encode_ms"], row["forward_ms"], row["other_ms"]) == (3, 18, 60 - 24)
    assert (row["input_tokens"], row["output_tokens"]) == (65, 6)
    assert row["padding_share"] == pytest.approx(30 / 120)
    assert row["skip_rate"] == pytest.approx(1 / 4)
    assert row["error_rate"] == pytest.approx(1 / 5)
    load = found.iloc[1]
    assert load["p50_ms"] == 100
    assert load[["forward_ms", "other_ms", "padding_share", "skip_rate"]].isna().all()
    assert load["input_tokens"] is pd.NA


def test_the_summary_of_a_real_trace_adds_up():
    class Wait(BaseHook):
        def on_predict_start(self, ctx):
            sum(range(1000))

    lab = Lab(Agent("instant", network=InstantNetwork()))
    lab.predict(["a b", "c"] * 4, QUESTIONS, chunk_size=2, progress=False, hooks=Wait())
    row = lab.trace.summary().iloc[0]
    parts = row[["encode_ms", "collate_ms", "forward_ms", "decode_ms", "other_ms"]]
    assert parts.sum() == pytest.approx(row["total_ms"])
    assert row["total_ms"] == pytest.approx(lab.trace.runs["elapsed_ms"].sum())


def test_an_empty_trace_has_an_empty_summary_with_the_same_columns():
    empty, full = Trace.from_records().summary(), runs_of(BASE).summary()
    assert empty.empty
    pd.testing.assert_series_equal(empty.dtypes, full.dtypes)
    assert Trace.from_records().compare(Trace.from_records()).empty


def test_two_traces_are_compared_figure_by_figure():
    first = runs_of({**BASE, **STEPS, "elapsed_ms": 10.0})
    second = runs_of(
        {**BASE, **STEPS, "elapsed_ms": 5.0},
        {**BASE, "model": "new", "elapsed_ms": 1.0},
    )
    found = first.compare(second)
    assert list(found.columns) == [
        "scope", "model", "entry", "figure", "first", "second", "change", "ratio",
    ]  # fmt: skip
    rows = found.set_index(["model", "figure"])
    assert rows.loc[("m", "p50_ms"), ["first", "second", "change", "ratio"]].tolist() == [
        10, 5, -5, 0.5,
    ]  # fmt: skip
    assert pd.isna(rows.loc[("new", "p50_ms"), "first"])
    assert rows.loc[("new", "p50_ms"), "second"] == 1
    assert pd.isna(rows.loc[("m", "skip_rate"), "ratio"])
    figures = found.loc[found["model"] == "m", "figure"].tolist()
    assert figures == [name for name in first.summary().columns if name not in found.columns]


def test_the_same_trace_compared_with_itself_shows_no_change():
    recorder = TraceRecorder()
    Agent("instant", network=InstantNetwork(), hooks=recorder).predict_batch(["a"], QUESTIONS)
    found = recorder.trace.compare(recorder.trace)
    assert (found["change"].dropna() == 0).all()
    assert found["change"].notna().sum() > 10
