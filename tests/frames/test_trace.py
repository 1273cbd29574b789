"""The three frames of a trace: fixed columns and dtypes, the call tree, and what is missing."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

import jevlaya_lab
from jevlaya_lab import Agent, BaseHook, Lab, Noul, PredictContext, TraceRecorder
from jevlaya_lab.frames import Trace
from jevlaya_lab.frames.schema import CALLS, EVENTS, FRAMES, RUNS
from jevlaya_lab.system_one.errors import InvalidInput, InvalidOption
from jevlaya_lab.system_one.models.instant import InstantNetwork

QUESTIONS = {"q": Noul("Is it?")}


def recorded() -> Trace:
    lab = Lab(Agent("instant", network=InstantNetwork()))
    lab.predict(["a", "b c"], QUESTIONS, on_predict_start=lambda ctx: None)
    return lab.trace


def note(recorder, scope, **facts):
    """Let a recorder see a run as a Router's lifecycle would show it."""
    states = ["x"] if scope in ("router", "route") else []
    ctx = PredictContext(facts.pop("states", states), {"q": {}}, scope=scope)
    for name, value in facts.items():
        setattr(ctx, name, value)
    if scope in ("agent", "router"):
        recorder.on_predict_start(ctx)
        ctx.skipped = ctx.results is not None
        recorder.on_predict_end(ctx)
    else:
        getattr(recorder, f"on_{scope}")(ctx)
    return ctx


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_has_the_same_columns_and_types_when_empty(name):
    for trace in (Trace.from_records(), recorded(), recorded().where(scope="nothing")):
        frame = getattr(trace, name)
        assert list(frame.columns) == list(FRAMES[name])
        assert all(frame[column].dtype == dtype for column, dtype in FRAMES[name].items())
        assert isinstance(frame.index, pd.RangeIndex)


def test_the_columns_are_of_the_kinds_that_the_contract_names():
    assert all(
        str(RUNS[name]) == "string" for name in ("run_id", "call_id", "parent_run_id", "model")
    )
    assert {str(RUNS[name]) for name in RUNS if name.startswith("n_")} == {"Int64"}
    assert {str(CALLS[name]) for name in CALLS if name.startswith("n_")} == {"Int64"}
    assert {str(RUNS[name]) for name in RUNS if name.endswith("_ms")} == {"float64"}
    assert str(RUNS["started_at"]) == str(CALLS["started_at"]) == "datetime64[us, UTC]"
    assert str(RUNS["skipped"]) == str(RUNS["routing_stand_in"]) == "boolean"
    assert EVENTS["event"].ordered
    assert EVENTS["origin"].ordered


@pytest.mark.parametrize("name", FRAMES)
def test_every_column_is_explained(name):
    text = (Path(jevlaya_lab.__file__).parents[1] / "docs" / "traces.md").read_text(
        encoding="utf-8"
    )
    section = text.split(f"### `trace.{name}`")[1].split("\n#")[0]
    cells = " ".join(line.split("|")[1] for line in section.splitlines() if line.startswith("|"))
    assert re.findall(r"`(\w+)`", cells) == [column for column in FRAMES[name]]


def test_what_does_not_exist_is_missing_and_not_made_up():
    runs = recorded().runs
    for name in ("parent_run_id", "routing_model", "routing_stand_in", "error_type", "states"):
        assert runs[name].isna().all()


def test_runs_and_events_are_in_the_order_in_which_they_started():
    class Ask(BaseHook):
        """Calls another agent from inside a run, whose run so ends first."""

        def on_predict_start(self, ctx):
            inner.predict("inside", QUESTIONS)

    recorder = TraceRecorder()
    inner = Agent("inner", network=InstantNetwork(), hooks=recorder)
    Agent("outer", network=InstantNetwork(), hooks=[Ask(), recorder]).predict("a", QUESTIONS)
    trace = recorder.trace
    assert [record.run.model for record in recorder.records()] == ["inner", "outer"]
    assert trace.runs["model"].tolist() == ["outer", "inner"]
    assert trace.runs["parent_run_id"].tolist() == [pd.NA, trace.runs["run_id"][0]]
    assert trace.runs["start_ms"].is_monotonic_increasing
    assert trace.events["at_ms"].is_monotonic_increasing
    assert trace.events["seq"].tolist() == list(range(len(trace.events)))
    assert [
        (row.checkpoint, row.event, None if row.hook is pd.NA else row.hook.rpartition(".")[2])
        for row in trace.events.itertuples()
    ] == [
        ("outer", "on_predict_start", None),
        ("outer", "on_predict_start", "Ask"),
        ("inner", "on_predict_start", None),
        ("inner", "on_predict_end", None),
        ("outer", "on_predict_end", None),
    ]
    (call,) = trace.calls.itertuples()
    assert (call.n_runs, call.n_requests, call.entry) == (2, 1, "predict_batch")
    assert call.input_tokens == trace.runs["input_tokens"][0]
    assert call.elapsed_ms == pytest.approx(trace.runs["elapsed_ms"][0])


def test_times_fit_together():
    trace = recorded()
    run = trace.runs.iloc[0]
    assert run["end_ms"] == pytest.approx(run["start_ms"] + run["elapsed_ms"])
    assert abs((pd.Timestamp.now("UTC") - run["started_at"]).total_seconds()) < 60
    hook = trace.events.dropna(subset="hook").iloc[0]
    assert run["start_ms"] <= hook["at_ms"] <= run["end_ms"]
    assert hook["origin"] == "call"


def test_calls_count_each_request_once_though_two_runs_answer_it():
    """L-40: a router's batch: its runs hold the requests, the shared agent run their work."""
    recorder = TraceRecorder()
    call = {"call_id": "c1"}
    note(recorder, "route", **call, elapsed_ms=1.0, entry="route")
    note(recorder, "evict", **call, elapsed_ms=0.1, model="old")
    note(recorder, "load", **call, elapsed_ms=50.0, model="english")
    usage = {"input_tokens": 7, "output_tokens": 0}
    note(recorder, "agent", **call, states=["x", "y"], elapsed_ms=2.0, entry="predict_batch",
         usage={"input_tokens": 14, "output_tokens": 0})  # fmt: skip
    error = LookupError("no")
    for results in (None, [{}]):
        note(recorder, "router", **call, elapsed_ms=3.0, entry="predict_batch", usage=usage,
             results=results, error=error)  # fmt: skip
    note(recorder, "route", call_id="c2", elapsed_ms=1.0, entry="route")
    note(recorder, "route", elapsed_ms=1.0)  # a run that belongs to no call that is known
    calls = recorder.trace.calls
    assert calls["call_id"].tolist() == ["c1", "c2"]
    assert calls.iloc[0][["entry", "n_requests", "n_runs", "n_loads", "n_evictions"]].tolist() == [
        "predict_batch", 2, 6, 1, 1,
    ]  # fmt: skip
    assert calls.iloc[0][["n_skipped", "n_errors", "input_tokens"]].tolist() == [1, 2, 14]
    assert calls.iloc[1][["entry", "n_requests", "n_runs"]].tolist() == ["route", 1, 1]
    assert pd.isna(calls.iloc[1]["input_tokens"])


def test_values_of_a_hook_that_fit_no_column_leave_the_trace_readable():
    recorder = TraceRecorder()
    note(recorder, "agent", model=7, entry=None, usage={"input_tokens": 10**30}, max_len="64",
         decision=["a"], results=5)  # fmt: skip
    note(recorder, "agent", elapsed_ms=float("inf"), timings=5)
    note(recorder, "route", decision={"model": ["x"], "reason": 1, "stand_in": []})
    runs = recorder.trace.runs
    assert runs["model"].tolist() == ["<int>", pd.NA, pd.NA]
    assert runs[["input_tokens", "max_len", "elapsed_ms"]].isna().all(axis=None)
    assert runs["routing_model"].tolist() == [pd.NA, pd.NA, "<list>"]
    assert runs["skipped"].tolist() == [True, False, False]


# --- choosing -----------------------------------------------------------------------------------


@pytest.fixture
def trace():
    lab = Lab(Agent("instant", network=InstantNetwork()))
    lab.predict(list("abcde"), QUESTIONS, chunk_size=2, progress=False)
    lab.predict(["a"], QUESTIONS, on_predict_start=lambda ctx: ctx.skip([_answer()]))
    return lab.trace


def _answer():
    return {"answers": {"q": {"type": "noul", "noul": 0.5}}}


def test_a_part_of_a_trace_is_chosen_by_columns_of_runs(trace):
    assert trace.where(n_states=2).runs["n_states"].tolist() == [2, 2]
    assert len(trace.where(n_states=[1, 2]).runs) == 4
    assert len(trace.where(skipped=True, model="instant").runs) == 1
    assert len(trace.where(error_type=None).runs) == 4
    assert len(trace.where(routing_model="x").runs) == 0
    assert len(trace.where(lambda runs: runs["n_states"] > 1).runs) == 2
    assert len(trace.where(trace.runs["forward_ms"] >= 0).runs) == 3
    assert len(trace.where(trace.runs["routing_stand_in"]).runs) == 0
    part = trace.where(skipped=True)
    assert set(part.events["run_id"]) == set(part.runs["run_id"])
    assert part.calls["call_id"].tolist() == part.runs["call_id"].tolist()
    pd.testing.assert_frame_equal(trace.where().events, trace.events)
    with pytest.raises(
        InvalidOption, match="runs have no column 'modle'; they have run_id, call_id"
    ):
        trace.where(modle="x")


def test_comparing_takes_a_trace(trace):
    with pytest.raises(InvalidInput, match="compare takes another trace, got a DataFrame"):
        trace.compare(trace.runs)


def test_its_text_says_how_much_there_is(trace):
    assert repr(trace) == "Trace(4 calls, 4 runs, 9 events)"
