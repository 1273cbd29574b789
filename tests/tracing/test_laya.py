"""The recorder as a hook of laya's own agents and routers, without the Lab."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import laya
import pandas as pd
import pytest
from tiny import make_checkpoint

from jevlaya_lab import Agent, TraceRecorder
from jevlaya_lab.frames import read_trace_csv

QUESTIONS: dict[str, Any] = {"q": {"type": "noul", "instructions": "Is it so?"}}


class Ready:
    """An agent that answers at once."""

    hooks = ()

    def system_one(self, *_: Any, **__: Any) -> dict[str, Any]:
        return {"model": "ready", "answers": {}, "usage": {"input_tokens": 3, "output_tokens": 1}}


class Failing(Ready):
    def system_one(self, *_: Any, **__: Any) -> dict[str, Any]:
        raise LookupError("no answer")


@pytest.fixture
def routed():
    """A laya Router that went through a route, an answer, a failure and an eviction."""
    recorder = TraceRecorder(capture="text")
    router = laya.Router(hooks=[recorder])
    router.attach("english", Ready())
    router.predict("one text", QUESTIONS, model="english")
    router.attach("english", Failing())
    with pytest.raises(LookupError):
        router.predict("one text", QUESTIONS, model="english")
    router.unload("english")
    return recorder


def test_a_router_of_laya_gives_the_same_frames_with_gaps_where_it_says_nothing(routed):
    trace = routed.trace
    runs = trace.runs
    assert runs["scope"].tolist() == ["route", "router", "route", "router", "evict"]
    for name in ("call_id", "parent_run_id", "entry", "thread", "encode_ms", "n_forwards"):
        assert runs[name].isna().all(), name
    assert trace.calls.empty
    answered = trace.where(scope="router").runs
    assert answered["model"].tolist() == ["english"] * 2
    assert answered["routing_model"].tolist() == ["english"] * 2
    assert answered["routing_stand_in"].isna().all()
    assert answered["input_tokens"].tolist() == [3, pd.NA]
    assert answered["error_type"].tolist() == [pd.NA, "LookupError"]
    assert answered["elapsed_ms"].notna().all()
    assert answered["skipped"].isna().all()
    assert answered["states"].tolist() == ['["one text"]'] * 2
    alone = trace.where(scope=["route", "evict"]).runs
    assert alone[["elapsed_ms", "end_ms"]].isna().all(axis=None)
    assert alone["captured"].tolist() == ["none"] * 3


def test_events_are_those_that_the_recorder_was_called_for(routed):
    events = routed.trace.events
    assert events["event"].tolist() == [
        "on_route", "on_predict_start", "on_predict_end",
        "on_route", "on_predict_start", "on_error", "on_predict_end",
        "on_evict",
    ]  # fmt: skip
    assert events["at_ms"].is_monotonic_increasing
    for name in ("hook", "position", "origin", "duration_ms", "changed"):
        assert events[name].isna().all(), name


def test_such_a_trace_can_be_written_and_read(routed, tmp_path):
    trace = routed.trace
    back = read_trace_csv(trace.to_csv(tmp_path / "t.csv"))
    pd.testing.assert_frame_equal(back.runs, trace.runs)
    pd.testing.assert_frame_equal(back.events, trace.events)
    assert trace.to_chrome(tmp_path / "t.json").is_file()


def test_a_hook_that_answers_is_seen_where_it_runs_ahead_of_the_recorder():
    class Cache(laya.BaseHook):
        def on_predict_start(self, ctx: Any) -> None:
            ctx.skip([{"answers": {}, "usage": {"input_tokens": 5}}])

    recorder = TraceRecorder()
    router = laya.Router(hooks=[Cache(), recorder])
    router.attach("english", Ready())
    router.predict("one text", QUESTIONS, model="english")
    (run,) = recorder.trace.where(scope="router").runs.itertuples()
    assert run.skipped
    assert run.input_tokens == 5


def test_an_agent_of_laya_and_ours_give_frames_of_the_same_kind(tmp_path: Path):
    folder = make_checkpoint(tmp_path / "c")
    import laya.agent

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs_agent = laya.agent.Agent(str(folder), device="cpu")
    theirs, ours = TraceRecorder(), TraceRecorder()
    for agent, recorder in ((theirs_agent, theirs), (Agent(folder, device="cpu"), ours)):
        agent.predict_batch(["one text", "another"], QUESTIONS, hooks=[recorder])
    for name in ("runs", "events", "calls"):
        first, second = getattr(theirs.trace, name), getattr(ours.trace, name)
        pd.testing.assert_series_equal(first.dtypes, second.dtypes)
    assert theirs.trace.events["event"].tolist() == ours.trace.events["event"].tolist()
    both = ["scope", "n_states", "n_questions", "input_tokens", "output_tokens"]
    pd.testing.assert_frame_equal(theirs.trace.runs[both], ours.trace.runs[both])
    assert theirs.trace.runs["forward_ms"].isna().all()
    assert ours.trace.runs["forward_ms"].notna().all()
