"""Overhearing: which calls belong to a block of code, and that nothing of them is lost."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest
from fakes import QUESTIONS, Recorder, RecordingNetwork, make_agent, promptly

from jevlaya_lab import (
    Router,
    TraceRecorder,
    add_default_hook,
    clear_default_hooks,
    default_hooks,
    set_default_hooks,
)
from jevlaya_lab.tracing.overhearing import Overhearing


@pytest.fixture
def recorder():
    return TraceRecorder(capture="text")


@pytest.fixture
def overhear(recorder):
    """Runs a function and gives the trace of what it asked."""

    def run(function):
        hearing = Overhearing(recorder)
        hearing.start()
        try:
            function()
        finally:
            hearing.stop()
        return hearing.trace

    return run


def states(trace):
    return trace.runs["states"].dropna().tolist()


def test_calls_of_any_agent_are_heard_with_all_their_hooks(overhear):
    hook = Recorder()
    agent = make_agent(hooks=hook)
    trace = overhear(lambda: agent.predict("a", QUESTIONS, on_predict_end=lambda ctx: None))
    assert trace.runs["elapsed_ms"].notna().all()
    hooks = trace.events.dropna(subset="hook")
    assert hooks["event"].tolist() == ["on_predict_start", "on_predict_end", "on_predict_end"]
    assert default_hooks() == []
    assert agent.hooks == [hook]


def test_a_router_is_heard_with_its_routes_and_its_agents(overhear):
    router, agent = Router(), make_agent()
    router.attach("english", agent)
    trace = overhear(lambda: router.predict("Please help me with this.", QUESTIONS))
    assert trace.runs["scope"].tolist() == ["route", "router", "agent"]
    assert trace.runs["call_id"].nunique() == 1
    by_scope = trace.runs.set_index("scope")
    assert by_scope.loc["agent", "parent_run_id"] == by_scope.loc["router", "run_id"]
    assert by_scope.loc["agent", "forward_ms"] >= 0
    assert agent.hooks == []


def test_what_is_kept_of_states_is_what_the_hooks_left(overhear):
    def mask(ctx):
        ctx.states = ["[card]" for _ in ctx.states]

    agent = make_agent(on_predict_start=mask)
    assert states(overhear(lambda: agent.predict("4111", QUESTIONS))) == ['["[card]"]']


def mask(ctx):
    ctx.states = ["[card]" for _ in ctx.states]


def fail(ctx):
    raise LookupError("quota")


def unmask(ctx):
    ctx.states = ["4111" for _ in ctx.states]


def test_text_that_a_failed_hook_kept_others_from_masking_is_not_kept(overhear):
    agent = make_agent(on_predict_start=mask)

    def block():
        for functions in ([fail, mask], fail):
            with pytest.raises(LookupError):
                agent.predict("4111", QUESTIONS, on_predict_start=functions)

    trace = overhear(block)
    assert trace.runs["captured"].tolist() == ["none", "none"]
    assert states(trace) == []


def test_a_hook_that_was_passed_over_kept_no_other_from_masking(overhear):
    agent = make_agent()
    functions = [fail, mask]

    def block():
        agent.predict("4111", QUESTIONS, on_predict_start=functions, hooks_raise=False)

    with pytest.warns(RuntimeWarning, match="passed over"):
        assert states(overhear(block)) == ['["[card]"]']


@pytest.mark.parametrize("fails", [False, True])
def test_text_that_a_hook_puts_back_at_the_end_is_not_kept(overhear, fails):
    hook = Recorder(start=mask, end=unmask, error=unmask)
    failing = {"prepare": ValueError("broken")} if fails else {}
    agent = make_agent(RecordingNetwork(failing=failing), hooks=hook)
    add_default_hook(hook)  # ahead of what listens

    def block():
        with pytest.raises(ValueError, match="broken") if fails else contextlib.nullcontext():
            agent.predict("4111", QUESTIONS)

    assert states(overhear(block)) == ['["[card]"]']


def test_a_lab_call_keeps_what_its_own_recorder_saw(recorder, overhear):
    hook = Recorder(start=mask, end=unmask)
    agent = make_agent(hooks=hook)
    trace = overhear(lambda: agent.predict("4111", QUESTIONS, hooks=recorder))
    assert states(trace) == ['["[card]"]']


def test_threads_that_the_block_starts_belong_to_it_and_others_do_not(overhear):
    agent, go, done = make_agent(), threading.Event(), threading.Event()

    def elsewhere():
        go.wait(20)
        agent.predict("elsewhere", QUESTIONS)
        done.set()

    other = threading.Thread(target=elsewhere, daemon=True)
    other.start()

    def block():
        go.set()
        assert done.wait(20)
        mine = threading.Thread(target=agent.predict, args=("mine", QUESTIONS))
        mine.start()
        mine.join()
        asyncio.run(asyncio.to_thread(agent.predict, "also mine", QUESTIONS))

    trace = promptly(overhear, block)
    other.join(20)
    assert states(trace) == ['["mine"]', '["also mine"]']


@pytest.mark.parametrize("timeout", [None, 20])
def test_threads_are_told_apart_also_where_they_share_a_name(overhear, timeout):
    agent, go = make_agent(hooks_timeout=timeout), threading.Event()

    def elsewhere():
        go.wait(20)
        agent.predict("elsewhere", QUESTIONS)

    other = threading.Thread(target=elsewhere, name="worker", daemon=True)
    other.start()

    def block():
        mine = threading.Thread(
            target=make_agent().predict, args=("mine", QUESTIONS), name="worker", daemon=True
        )
        mine.start()
        mine.join(20)
        go.set()
        other.join(20)

    assert states(promptly(overhear, block)) == ['["mine"]']


def test_a_block_may_replace_the_process_wide_hooks(overhear):
    """What listens is none of them."""
    agent, hook = make_agent(), Recorder()

    def block():
        assert default_hooks() == []
        set_default_hooks(hook)
        agent.predict("a", QUESTIONS)
        clear_default_hooks()
        agent.predict("b", QUESTIONS)
        set_default_hooks(default_hooks())

    trace = overhear(block)
    assert states(trace) == ['["a"]', '["b"]']
    assert trace.events["hook"].dropna().unique().tolist() == ["Recorder"]
    agent.predict("after", QUESTIONS)
    assert len(hook.contexts) == 2


def test_a_task_that_goes_on_beside_the_block_is_not_heard(overhear):
    agent = make_agent()

    async def beside(ready):
        await ready.wait()
        agent.predict("beside", QUESTIONS)

    async def main():
        ready = asyncio.Event()
        task = asyncio.create_task(beside(ready))
        await asyncio.sleep(0)
        hearing = Overhearing(TraceRecorder(capture="text"))
        hearing.start()
        ready.set()
        await task
        agent.predict("here", QUESTIONS)
        await asyncio.create_task(asyncio.to_thread(agent.predict, "task", QUESTIONS))
        hearing.stop()
        return hearing.trace

    assert states(asyncio.run(main())) == ['["here"]', '["task"]']


def test_failures_are_heard_also_where_a_hook_ahead_raises(overhear):
    class Broken:
        def on_predict_end(self, ctx):
            raise LookupError("lost")

    add_default_hook(Broken())
    agent = make_agent()

    def block():
        with pytest.raises(LookupError):
            agent.predict("a", QUESTIONS)

    trace = overhear(block)
    assert len(trace.runs) == 1
    assert trace.events["error_type"].dropna().tolist() == ["LookupError"]


def test_blocks_may_be_nested(recorder, overhear):
    agent, inner = make_agent(), []

    def block():
        agent.predict("outer", QUESTIONS)
        inner.append(overhear(lambda: agent.predict("inner", QUESTIONS)))
        agent.predict("after", QUESTIONS)

    trace = overhear(block)
    assert states(trace) == ['["outer"]', '["inner"]', '["after"]']
    assert states(inner[0]) == ['["inner"]']
    assert len(recorder.trace.runs) == 3


def test_a_long_block_keeps_no_contexts(recorder):
    agent, hearing = make_agent(), Overhearing(recorder)
    hearing.start()
    for _ in range(50):
        agent.predict("a", QUESTIONS)
    assert sum(len(contexts) for contexts in hearing._open.values()) == 1
    hearing.stop()
    assert len(hearing.trace.runs) == 50


def test_a_full_recorder_says_what_it_dropped():
    agent, hearing = make_agent(), Overhearing(TraceRecorder(2))
    hearing.start()
    for _ in range(5):
        agent.predict("a", QUESTIONS)
    hearing.stop()
    assert (len(hearing.trace.runs), hearing.trace.n_dropped) == (2, 3)


def test_a_block_that_clears_the_recorder_forgets_what_went_before(recorder, overhear):
    agent = make_agent()

    def block():
        agent.predict("before", QUESTIONS)
        recorder.clear()

    trace = overhear(block)
    assert (len(trace.runs), trace.n_dropped) == (0, 0)
    assert recorder.records() == []
