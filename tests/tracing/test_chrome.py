"""The timeline in Chrome's Trace Event Format: what the format's description asks for.

The description: "Trace Event Format" of the Chromium project, which Perfetto's importer follows.
"""

from __future__ import annotations

import json
import math
import threading
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jevlaya_lab import Agent, BaseHook, Noul, TraceRecorder
from jevlaya_lab.frames import Trace
from jevlaya_lab.system_one.models.instant import InstantNetwork
from jevlaya_lab.tracing.chrome import chrome_trace

QUESTIONS = {"q": Noul("Is it so?")}


class Nested(BaseHook):
    def __init__(self, agent):
        self.agent = agent

    def on_predict_start(self, ctx):
        self.agent.predict("inside", QUESTIONS)


def recorded() -> Trace:
    recorder = TraceRecorder()
    inner = Agent("inner", network=InstantNetwork(), hooks=recorder)
    outer = Agent("outer", network=InstantNetwork(), hooks=[Nested(inner), recorder])
    outer.predict("a", QUESTIONS)
    thread = threading.Thread(target=outer.predict, args=("b", QUESTIONS), name="worker <1>")
    thread.start()
    thread.join()
    return recorder.trace


def check_format(trace: dict) -> None:
    """The rules of the format, for the kinds of event that are used."""
    assert set(trace) >= {"traceEvents"}
    assert trace["displayTimeUnit"] in ("ms", "ns")
    named, open_spans = set(), defaultdict(list)
    for event in trace["traceEvents"]:
        assert isinstance(event["name"], str)
        assert type(event["pid"]) is int
        assert type(event["tid"]) is int
        assert isinstance(event["args"], dict)
        assert event["ph"] in "XiM"
        assert math.isfinite(event["ts"])
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name", "thread_sort_index")
            field = "sort_index" if event["name"] == "thread_sort_index" else "name"
            assert list(event["args"]) == [field]
            if event["name"] == "thread_name":
                named.add(event["tid"])
            continue
        assert isinstance(event["cat"], str)
        if event["ph"] == "i":
            assert event["s"] in ("g", "p", "t")
        else:
            assert event["dur"] >= 0
            open_spans[event["tid"]].append(event)
    assert set(open_spans) <= named
    for spans in open_spans.values():
        check_nesting(spans)


def check_nesting(spans: list[dict]) -> None:
    """Any two spans of a track are apart, or one is inside the other. In whole nanoseconds."""
    stack: list[int] = []
    ordered = [(round(s["ts"] * 1e3), round(s["dur"] * 1e3)) for s in spans]
    for start, duration in sorted(ordered, key=lambda s: (s[0], -s[1])):
        while stack and stack[-1] <= start:
            stack.pop()
        assert not stack or start + duration <= stack[-1]
        if duration:
            stack.append(start + duration)


def test_a_trace_is_written_as_the_format_asks(tmp_path):
    trace = recorded()
    path = trace.to_chrome(tmp_path / "new" / "trace.json")
    found = json.loads(path.read_text())
    check_format(found)
    spans = [event for event in found["traceEvents"] if event["ph"] == "X"]
    runs = [span for span in spans if span["cat"] == "agent"]
    assert [span["name"] for span in runs].count("agent outer") == 2
    assert {span["args"]["run_id"] for span in runs} == set(trace.runs["run_id"])
    names = {e["args"]["name"] for e in found["traceEvents"] if e["name"] == "thread_name"}
    assert names == {threading.current_thread().name, "worker <1>"}
    first = trace.runs.iloc[0]
    span = next(s for s in runs if s["args"]["run_id"] == first["run_id"])
    assert span["ts"] == pytest.approx(first["start_ms"] * 1e3, abs=2e-3)
    assert span["dur"] == pytest.approx(first["elapsed_ms"] * 1e3, abs=2e-3)


def test_a_hook_is_drawn_inside_its_run_and_what_it_calls_inside_the_hook():
    trace = recorded()
    found = chrome_trace(_rows(trace.runs), _rows(trace.events))["traceEvents"]
    spans = {(e["name"], e["tid"]): e for e in found if e["ph"] == "X"}
    tid = next(e["tid"] for e in found if e["ph"] == "X")
    outer, inner = spans["agent outer", tid], spans["agent inner", tid]
    (hook,) = (e for (name, t), e in spans.items() if t == tid and e["cat"] == "hook")
    for outside, inside in ((outer, hook), (hook, inner)):
        assert outside["ts"] <= inside["ts"]
        assert inside["ts"] + inside["dur"] <= outside["ts"] + outside["dur"] + 1e-3


def test_what_has_no_end_is_an_instant_and_no_thread_is_made_up():
    run = dict.fromkeys(("thread", "elapsed_ms", "model"), None)
    run |= {"run_id": "r", "scope": "load", "start_ms": 1.0}
    found = chrome_trace([run], [])
    check_format(found)
    assert [e["args"]["name"] for e in found["traceEvents"] if e["name"] == "thread_name"] == [
        "unknown thread"
    ]
    assert [e["ph"] for e in found["traceEvents"] if e["name"] == "load"] == ["i"]


def test_an_empty_trace_is_a_valid_file(tmp_path):
    check_format(json.loads(Trace.from_records().to_chrome(tmp_path / "t.json").read_text()))


times = st.integers(0, 40).map(lambda n: n / 7) | st.floats(0, 1e9)


@given(
    st.lists(st.tuples(times, times | st.none(), st.sampled_from(["a", "b", None])), max_size=12),
    st.lists(st.tuples(st.integers(0, 12), times, times | st.none()), max_size=12),
)
def test_spans_that_overlap_in_part_get_tracks_of_their_own(runs, events):
    run_rows = [
        {"run_id": i, "scope": "agent", "model": None, "thread": thread, "start_ms": start,
         "elapsed_ms": elapsed}
        for i, (start, elapsed, thread) in enumerate(runs)
    ]  # fmt: skip
    event_rows = [
        {"run_id": i, "event": "on_error", "hook": "h", "position": 1, "origin": "call",
         "changed": None, "error_type": None, "at_ms": at, "duration_ms": duration}
        for i, at, duration in events
    ]  # fmt: skip
    found = chrome_trace(run_rows, event_rows)
    check_format(json.loads(json.dumps(found, allow_nan=False)))
    shown = [event for event in found["traceEvents"] if event["ph"] != "M"]
    assert len(shown) == len(runs) + len(events)


def _rows(frame):
    return [
        {key: None if value != value or value is None else value for key, value in row.items()}
        for row in frame.astype(object).where(frame.notna(), None).to_dict("records")
    ]
