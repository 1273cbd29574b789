"""TraceRecorder: what it notes, that it is bounded, and that it keeps nothing alive."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest

from jevlaya_lab import Agent, BaseHook, Noul, TraceRecorder
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


def test_a_run_is_noted_with_its_ids_counts_and_times():
    """L-40, L-41: the trace carries the call tree and the step times."""
    recorder = TraceRecorder()
    instant(hooks=recorder).predict_batch(["a b c", "d"], QUESTIONS)
    ((run,), events) = recorder.records()
    assert (run.entry, run.scope, run.model) == ("predict_batch", "agent", "instant")
    assert (run.n_states, run.n_questions, run.n_rows, run.n_forwards) == (2, 1, 2, 1)
    assert (run.input_tokens, run.padded_tokens) == (10, 2)
    assert len(run.run_id) == len(run.call_id) == 32
    assert run.run_id != run.call_id
    assert run.parent_run_id is None
    assert 0 < run.encode_ms + run.collate_ms + run.forward_ms + run.decode_ms <= run.elapsed_ms
    assert run.end_ms == pytest.approx(run.start_ms + run.elapsed_ms)
    assert (run.skipped, run.error_type) == (False, None)
    assert events == []


def test_hooks_are_noted_in_order_with_origin_and_changes():
    """L-41a: who ran, where it came from, and which fields it changed."""
    recorder = TraceRecorder()
    instant(hooks=[Shout(), recorder]).predict_batch(
        ["a"], QUESTIONS, on_predict_start=lambda ctx: ctx.skip([{"usage": {}}])
    )
    ((run,), events) = recorder.records()
    assert [(e.hook.rpartition(".")[2], e.position, e.origin, e.changed) for e in events] == [
        ("Shout", 0, "installed", ("states",)),
        ("<lambda>", 2, "call", ("results",)),
    ]
    assert [e.seq for e in events] == [0, 1]
    assert run.skipped
    assert run.forward_ms is None
    assert all(run.start_ms <= e.at_ms <= run.end_ms for e in events)


def test_a_failed_run_is_noted_with_its_error():
    recorder = TraceRecorder()
    with pytest.raises(ValueError, match="no instructions"):
        instant(hooks=recorder).predict_batch(["a"], {"q": {"type": "noul"}})
    ((run,), _) = recorder.records()
    assert run.error_type == "InvalidQuestion"
    assert "no instructions" in run.error_message


def test_a_hook_that_raises_is_noted_with_its_error():
    recorder = TraceRecorder()
    with pytest.warns(RuntimeWarning, match=r"Broken.on_predict_end failed.*lost"):
        instant(hooks=[Broken(), recorder], hooks_raise=False).predict("a", QUESTIONS)
    (_, (event,)) = recorder.records()
    assert (event.event, event.error_type) == ("on_predict_end", "LookupError")


def test_the_ring_is_bounded_and_says_what_it_dropped():
    recorder = TraceRecorder(capacity=3)
    agent = instant(hooks=recorder)
    for i in range(5):
        agent.predict(f"state {i}", QUESTIONS)
    runs, _ = recorder.records()
    assert len(runs) == 3
    assert recorder.n_dropped == 2
    recorder.clear()
    assert recorder.records() == ([], [])
    assert recorder.n_dropped == 0


@pytest.mark.parametrize("capacity", [0, -1, 1.5, True, None])
def test_a_capacity_that_is_no_count_is_refused(capacity):
    with pytest.raises(InvalidOption, match="capacity must be a positive whole number"):
        TraceRecorder(capacity=capacity)


def test_nothing_of_an_agent_is_kept_alive():
    """L-41a: neither the context nor the agent, or an eviction would free nothing."""
    recorder = TraceRecorder()
    agent = instant(hooks=[Shout(), recorder])
    network = weakref.ref(agent.network)
    agent.predict("secret state", QUESTIONS)
    del agent
    gc.collect()
    assert network() is None
    assert "secret" not in repr(recorder.records()).lower()


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
    runs, _ = recorder.records()
    assert len({run.run_id for run in runs}) == 400
    assert {run.thread for run in runs} == {thread.name for thread in threads}
