"""OpenTelemetry: the right parents, times, kinds, status and attribute names."""

from __future__ import annotations

import contextlib

import pytest
from opentelemetry import trace as api
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv.attributes import error_attributes

from jevlaya_lab import Agent, BaseHook, Noul, PredictContext, TraceRecorder
from jevlaya_lab.frames import Trace
from jevlaya_lab.system_one.errors import InvalidOption
from jevlaya_lab.system_one.models.instant import InstantNetwork

QUESTIONS = {"q": Noul("Is it so?")}


class Nested(BaseHook):
    def __init__(self, agent):
        self.agent = agent

    def on_predict_start(self, ctx):
        self.agent.predict("inside", QUESTIONS)


class Broken(BaseHook):
    def on_predict_start(self, ctx):
        raise LookupError("half a pair \ud800")


@pytest.fixture
def exported():
    """Exports a trace into memory; gives the number of spans and the spans in start order."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))

    def export(trace: Trace):
        n_spans = trace.to_otel(provider)
        return n_spans, exporter.get_finished_spans()

    yield export
    provider.shutdown()


def recorded(*hooks, **options) -> TraceRecorder:
    recorder = TraceRecorder(**options)
    agent = Agent("outer", network=InstantNetwork(), hooks=[*hooks, recorder])
    with contextlib.suppress(LookupError):
        agent.predict_batch(["a", "b"], QUESTIONS)
    return recorder


def parent_of(span, spans):
    if span.parent is None:
        return None
    (parent,) = (s for s in spans if s.context.span_id == span.parent.span_id)
    return parent


def test_a_call_is_one_tree_of_runs_and_hooks(exported):
    recorder = TraceRecorder()
    inner = Agent("inner", network=InstantNetwork(), hooks=recorder)
    outer = Agent("outer", network=InstantNetwork(), hooks=[Nested(inner), recorder])
    for _ in range(2):
        outer.predict("a", QUESTIONS)
    n_spans, spans = exported(recorder.trace)
    assert n_spans == len(spans) == 2 * 4
    tree = {
        span.name: None if span.parent is None else parent_of(span, spans).name for span in spans
    }
    assert tree == {
        "call predict_batch": None,
        "predict outer": "call predict_batch",
        "predict inner": "predict outer",
        "hook Nested": "predict outer",
    }
    assert len({span.context.trace_id for span in spans}) == 2
    assert {span.kind for span in spans} == {api.SpanKind.INTERNAL}
    assert {span.status.status_code for span in spans} == {api.StatusCode.UNSET}
    assert {span.instrumentation_scope.name for span in spans} == {"jevlaya_lab"}


def test_runs_carry_the_names_of_the_semantic_conventions(exported):
    trace = recorded().trace
    _, spans = exported(trace)
    (span,) = (span for span in spans if span.name == "predict outer")
    run = trace.runs.iloc[0]
    found = dict(span.attributes)
    assert {key: found[key] for key in found if key.startswith("gen_ai.")} == {
        gen_ai_attributes.GEN_AI_OPERATION_NAME: "predict",
        gen_ai_attributes.GEN_AI_PROVIDER_NAME: "jevlaya_lab",
        gen_ai_attributes.GEN_AI_REQUEST_MODEL: "outer",
        gen_ai_attributes.GEN_AI_USAGE_INPUT_TOKENS: run["input_tokens"],
        gen_ai_attributes.GEN_AI_USAGE_OUTPUT_TOKENS: run["output_tokens"],
    }
    assert found["jevlaya.run_id"] == run["run_id"]
    assert found["jevlaya.n_states"] == 2
    assert found["jevlaya.forward_ms"] == run["forward_ms"]
    assert "jevlaya.routing_model" not in found


def test_times_are_those_of_the_trace(exported):
    trace = recorded(BaseHook()).trace
    _, spans = exported(trace)
    run = trace.runs.iloc[0]
    (span,) = (span for span in spans if span.name == "predict outer")
    assert span.start_time == pytest.approx(run["started_at"].value * 1.0, abs=2000)
    assert span.end_time - span.start_time == pytest.approx(run["elapsed_ms"] * 1e6, abs=2)


def test_a_failure_has_a_status_and_an_exception(exported):
    """The type alone: the message may hold text of states."""
    trace = recorded(Broken(), capture="text").trace
    trace.runs["error_message"] = "a secret"
    _, spans = exported(trace)
    failed = {span.name.split(" ")[0]: span for span in spans}
    assert set(failed) == {"call", "predict", "hook"}
    for span in failed.values():
        assert span.status.status_code is api.StatusCode.ERROR
        assert span.attributes[error_attributes.ERROR_TYPE] == "LookupError"
        (event,) = span.events
        assert event.name == "exception"
        assert dict(event.attributes) == {"exception.type": "LookupError"}
        assert event.timestamp == span.end_time
        assert span.status.description == "LookupError"
        assert "secret" not in span.to_json()


def test_a_failure_that_was_caught_inside_a_call_is_not_the_calls(exported):
    class Try(BaseHook):
        def on_predict_start(self, ctx):
            with contextlib.suppress(LookupError):
                inner.predict("inside", QUESTIONS)

    recorder = TraceRecorder()
    inner = Agent("inner", network=InstantNetwork(), hooks=[Broken(), recorder])
    Agent("outer", network=InstantNetwork(), hooks=[Try(), recorder]).predict("a", QUESTIONS)
    _, spans = exported(recorder.trace)
    failed = {s.name for s in spans if s.status.status_code is api.StatusCode.ERROR}
    assert failed == {"predict inner", "hook Broken"}


def test_routing_and_loading_are_spans_of_the_call_but_no_model_calls(exported):
    recorder = TraceRecorder()
    for scope in ("route", "load"):
        ctx = PredictContext([], {}, scope=scope, model="english", call_id="c", entry="load")
        ctx.elapsed_ms = 2.0
        getattr(recorder, f"on_{scope}")(ctx)
    n_spans, spans = exported(recorder.trace)
    assert n_spans == 3
    by_name = {span.name: span for span in spans}
    assert set(by_name) == {"call load", "route english", "load english"}
    for name in ("route english", "load english"):
        assert parent_of(by_name[name], spans).name == "call load"
        assert not [key for key in by_name[name].attributes if key.startswith("gen_ai.")]


def test_runs_whose_parent_was_dropped_hang_on_the_call(exported):
    recorder = TraceRecorder()
    inner = Agent("inner", network=InstantNetwork(), hooks=recorder)
    Agent("outer", network=InstantNetwork(), hooks=[Nested(inner), recorder]).predict(
        "a", QUESTIONS
    )
    _, spans = exported(recorder.trace.where(model="inner"))
    assert {s.name: s.parent and parent_of(s, spans).name for s in spans} == {
        "call predict_batch": None,
        "predict inner": "call predict_batch",
    }


def test_runs_of_no_known_call_are_trees_of_their_own(exported):
    """As over laya's objects, which have no call_id."""
    trace = recorded().trace
    trace.runs["call_id"] = trace.runs["call_id"].mask(trace.runs["call_id"].notna())
    n_spans, spans = exported(trace)
    assert n_spans == 1
    assert spans[0].parent is None


def test_a_span_under_way_is_no_parent_of_what_is_over(exported):
    trace = recorded().trace
    with TracerProvider().get_tracer("other").start_as_current_span("now"):
        _, spans = exported(trace)
    assert [span.name for span in spans if span.parent is None] == ["call predict_batch"]


def test_without_a_configured_sdk_it_says_that_spans_would_go_nowhere():
    with pytest.raises(InvalidOption, match="no OpenTelemetry SDK is configured"):
        recorded().trace.to_otel()


def test_an_empty_trace_makes_no_spans(exported):
    assert exported(Trace.from_records()) == (0, ())
