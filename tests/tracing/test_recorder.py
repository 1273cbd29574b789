"""TraceRecorder: what it notes, that it is bounded, and that it keeps nothing alive."""

from __future__ import annotations

import gc
import threading
import time
import weakref

import pytest
from fakes import fails_with, promptly

from jevlaya_lab import Agent, BaseHook, Noul, PredictContext, TraceRecorder
from jevlaya_lab.system_one.errors import InvalidOption
from jevlaya_lab.system_one.models.instant import InstantNetwork

QUESTIONS = {"q": Noul("Is it so?")}


class Shout(BaseHook):
    def on_predict_start(self, ctx):
        ctx.states = [state.upper() for state in ctx.states]


class Broken(BaseHook):
    def on_predict_end(self, ctx):
        raise LookupError("lost")


def instant(**options):
    return Agent("instant", network=InstantNetwork(), **options)


def hooks_of(record):
    return [event for event in record.events if event.hook is not None]


def test_a_run_is_noted_with_its_ids_counts_and_times():
    """L-40, L-41: the trace carries the call tree and the step times."""
    recorder = TraceRecorder()
    before = time.time()
    instant(hooks=recorder).predict_batch(["a b c", "d"], QUESTIONS, max_len=64)
    ((run, events),) = recorder.records()
    assert (run.entry, run.scope, run.model) == ("predict_batch", "agent", "instant")
    assert (run.n_states, run.n_questions, run.n_rows, run.n_forwards) == (2, 1, 2, 1)
    assert (run.input_tokens, run.forward_tokens, run.padded_tokens) == (10, 4, 2)
    assert (run.max_len, run.head_max_len) == (64, None)
    assert len(run.run_id) == len(run.call_id) == 32
    assert run.run_id != run.call_id
    assert run.parent_run_id is None
    assert 0 < run.encode_ms + run.collate_ms + run.forward_ms + run.decode_ms <= run.elapsed_ms
    assert before - 0.01 <= run.wall <= time.time()
    assert run.thread == threading.current_thread().name
    assert (run.skipped, run.error_type) == (False, None)
    assert [(event.event, event.hook) for event in events] == [
        ("on_predict_start", None),
        ("on_predict_end", None),
    ]


def test_hooks_are_noted_in_order_with_origin_and_changes():
    """L-41a: who ran, where it came from, and which fields it changed."""
    recorder = TraceRecorder()
    instant(hooks=[Shout(), recorder]).predict_batch(
        ["a"], QUESTIONS, on_predict_start=lambda ctx: ctx.skip([{"usage": {}}])
    )
    (record,) = recorder.records()
    found = hooks_of(record)
    assert [(e.hook.rpartition(".")[2], e.position, e.origin, e.changed) for e in found] == [
        ("Shout", 0, "installed", ("states",)),
        ("<lambda>", 1, "call", ("results",)),
    ]
    assert record.run.skipped
    assert record.run.forward_ms is None
    assert all(0 <= event.at_ms <= record.run.elapsed_ms for event in record.events[:3])
    start = record.events[0]
    assert (start.event, start.hook) == ("on_predict_start", None)
    assert start.duration_ms >= sum(event.duration_ms for event in found)


def test_an_event_that_a_hook_stopped_is_noted_as_well():
    """The recorder's own start hook never ran, and its end hook did."""
    recorder = TraceRecorder()

    class Stop(BaseHook):
        def on_predict_start(self, ctx):
            raise LookupError("stop")

    with pytest.raises(LookupError):
        instant(hooks=[Stop(), recorder]).predict("a", QUESTIONS)
    (record,) = recorder.records()
    assert [
        (e.event, e.hook and e.hook.rpartition(".")[2], e.error_type) for e in record.events
    ] == [
        ("on_predict_start", None, None),
        ("on_predict_start", "Stop", "LookupError"),
        ("on_error", None, None),
        ("on_predict_end", None, None),
    ]


def test_the_calls_of_a_subclass_are_left_out_as_well():
    class Mine(TraceRecorder):
        def on_predict_start(self, ctx):
            super().on_predict_start(ctx)

    recorder = Mine()
    agent = instant(hooks=recorder)
    agent.predict("a", QUESTIONS, on_predict_end=recorder.on_predict_end)
    (record,) = recorder.records()
    assert hooks_of(record) == []


def test_a_failed_run_is_noted_with_its_error():
    recorder = TraceRecorder()
    with pytest.raises(ValueError, match="no instructions"):
        instant(hooks=recorder).predict_batch(["a"], {"q": {"type": "noul"}})
    ((run, events),) = recorder.records()
    assert run.error_type == "InvalidQuestion"
    assert "no instructions" in run.error_message
    assert [event.event for event in events] == ["on_predict_start", "on_error", "on_predict_end"]


def test_a_hook_that_raises_is_noted_with_its_error():
    recorder = TraceRecorder()
    with pytest.warns(RuntimeWarning, match=r"Broken.on_predict_end failed.*lost"):
        instant(hooks=[Broken(), recorder], hooks_raise=False).predict("a", QUESTIONS)
    (event,) = hooks_of(recorder.records()[0])
    assert (event.event, event.error_type) == ("on_predict_end", "LookupError")


@pytest.mark.parametrize("scope", ["route", "load", "evict"])
def test_events_of_a_router_are_runs_of_their_own(scope):
    """L-30, L-40: each comes with a context of its own, and nothing follows it."""
    recorder = TraceRecorder()
    ctx = PredictContext(
        ["a"] if scope == "route" else [],
        {},
        model="english",
        scope=scope,
        call_id="c",
        parent_run_id="p",
        decision={"model": "english", "reason": "script", "stand_in": True},
    )
    ctx.elapsed_ms = 2.5
    getattr(recorder, f"on_{scope}")(ctx)
    getattr(recorder, f"on_{scope}")(ctx)  # in two lists of hooks
    ((run, events),) = recorder.records()
    assert (run.scope, run.model, run.elapsed_ms) == (scope, "english", 2.5)
    assert (run.call_id, run.parent_run_id) == ("c", "p")
    assert (run.routing_model, run.routing_reason) == ("english", "script")
    assert run.routing_stand_in is True
    assert [event.event for event in events] == [f"on_{scope}"]
    assert recorder.n_missed == 0


def test_the_ring_is_bounded_and_says_what_it_dropped():
    recorder = TraceRecorder(capacity=3)
    agent = instant(hooks=recorder)
    for i in range(5):
        agent.predict(f"state {i}", QUESTIONS)
    assert len(recorder.records()) == 3
    assert recorder.n_dropped == recorder.trace.n_dropped == 2
    assert repr(recorder) == "TraceRecorder(3 runs kept, 2 dropped)"
    recorder.clear()
    assert recorder.records() == []
    assert recorder.n_dropped == 0
    agent.predict("after", QUESTIONS)
    assert len(recorder.records()) == 1


def test_the_clock_starts_again_when_the_trace_is_cleared():
    recorder = TraceRecorder()
    instant(hooks=recorder).predict("a", QUESTIONS)
    first = recorder.trace.runs["start_ms"].item()
    recorder.clear()
    instant(hooks=recorder).predict("a", QUESTIONS)
    assert 0 < recorder.trace.runs["start_ms"].item() < first + 1e4
    assert recorder.trace.runs["start_ms"].item() < 1e4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(({"capacity": n}, "capacity must be a positive whole") for n in (0, -1, 1.5, True, None)),
        ({"capture": "all"}, "capture must be 'none', 'hash' or 'text', got 'all'"),
        ({"redact": "x"}, "redact takes a function from text to text"),
        ({"hash_key": "x"}, "hash_key must be at most 64 bytes"),
    ],
)
def test_an_option_that_is_not_usable_is_refused(options, message):
    with pytest.raises(InvalidOption, match=message):
        TraceRecorder(**options)


# --- scopes ----------------------------------------------------------------------------------


def test_a_scope_holds_what_was_noted_inside_it_and_stays_readable():
    recorder = TraceRecorder(capacity=4)
    agent = instant(hooks=recorder)
    agent.predict("before", QUESTIONS)
    with recorder.scope() as cell:
        agent.predict("one", QUESTIONS)
        assert len(cell.records()) == 1
        with recorder.scope() as inner:
            agent.predict("two", QUESTIONS)
        agent.predict("three", QUESTIONS)
    ids = [record.run.run_id for record in recorder.records()][1:]
    for i in range(9):  # the ring forgets them, the scope does not
        agent.predict(f"later {i}", QUESTIONS)
    assert [record.run.run_id for record in cell.records()] == ids
    assert [record.run.run_id for record in inner.records()] == ids[1:2]
    assert cell.trace.runs["run_id"].tolist() == ids
    assert cell.n_dropped == 0


def test_a_scope_that_is_left_by_an_exception_can_be_read():
    recorder = TraceRecorder()
    with pytest.raises(LookupError), recorder.scope() as cell:
        instant(hooks=[recorder, Broken()]).predict("a", QUESTIONS)
    assert cell.trace.runs["n_states"].tolist() == [1]


def test_runs_that_go_on_while_the_trace_is_cleared_are_forgotten_as_well():
    recorder = TraceRecorder(capture="text")

    class Clear(BaseHook):
        def on_predict_start(self, ctx):
            recorder.clear()

    agent = instant(hooks=[recorder])
    with recorder.scope() as cell:
        agent.predict("secret", QUESTIONS, hooks=Clear())
    assert recorder.records() == cell.records() == []
    assert (recorder.n_missed, recorder.n_dropped, cell.n_dropped) == (0, 0, 0)
    agent.predict("after", QUESTIONS)
    assert recorder.trace.runs["start_ms"].item() > 0


def test_a_scope_says_what_the_ring_dropped_and_survives_clear():
    recorder = TraceRecorder(capacity=2)
    agent = instant(hooks=recorder)
    agent.predict("before", QUESTIONS)
    with recorder.scope() as cell:
        for i in range(5):
            agent.predict(f"{i}", QUESTIONS)
        assert (len(cell.records()), cell.n_dropped) == (2, 3)
        recorder.clear()
        agent.predict("last", QUESTIONS)
    assert (len(cell.records()), cell.n_dropped) == (1, 0)
    assert cell.trace.n_dropped == 0


# --- nothing is kept alive, nothing is missed silently ------------------------------------------


def test_nothing_of_an_agent_or_a_context_is_kept_alive():
    """L-41a: neither the context nor the agent, or an eviction would free nothing."""
    recorder = TraceRecorder(capture="text")
    contexts = []
    agent = instant(hooks=[Shout(), recorder])
    network = weakref.ref(agent.network)
    agent.predict("state", QUESTIONS, on_predict_end=lambda ctx: contexts.append(weakref.ref(ctx)))
    failing = instant(hooks=[recorder])
    with pytest.raises(LookupError):
        failing.predict("state", QUESTIONS, on_predict_start=fails_with(LookupError("no")))
    other = weakref.ref(failing.network)
    del agent, failing
    gc.collect()
    assert network() is None
    assert other() is None
    assert contexts[0]() is None
    assert len(recorder.records()) == 2


def test_runs_whose_end_it_never_saw_are_counted():
    recorder = TraceRecorder()
    agent = instant(hooks=[Broken(), recorder])
    with pytest.raises(LookupError):
        agent.predict("a", QUESTIONS)
    gc.collect()
    assert recorder.records() == []
    assert recorder.n_missed == 1
    assert "1 missed" in repr(recorder)


def test_a_run_that_goes_on_is_not_missed():
    recorder, seen = TraceRecorder(), []
    instant(hooks=recorder).predict(
        "a", QUESTIONS, on_predict_start=lambda ctx: seen.append(recorder.n_missed)
    )
    assert seen == [0]
    assert recorder.n_missed == 0


def test_runs_of_many_threads_are_all_noted():
    """L-38: one recorder may serve many threads."""
    recorder = TraceRecorder()
    agent = instant(hooks=recorder)

    def ask():
        for _ in range(50):
            agent.predict("a", QUESTIONS)

    threads = [threading.Thread(target=ask, name=f"asker-{i}") for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    runs = [record.run for record in recorder.records()]
    assert len({run.run_id for run in runs}) == 400
    assert {run.thread for run in runs} == {thread.name for thread in threads}


def test_reading_while_others_record_is_safe():
    recorder = TraceRecorder(capacity=50)
    agent = instant(hooks=recorder)
    stop = threading.Event()

    def ask():
        while not stop.is_set():
            agent.predict("a", QUESTIONS)

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(30):
            trace = promptly(lambda: recorder.trace)
            assert len(trace.runs) <= 50
            assert set(trace.events["run_id"]) == set(trace.runs["run_id"])
            recorder.clear()
    finally:
        stop.set()
    for thread in threads:
        thread.join()
