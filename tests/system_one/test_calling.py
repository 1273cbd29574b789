"""How one hook method is called: inline, under a timeout, awaited, or one at a time."""

from __future__ import annotations

import asyncio
import functools
import signal
import threading
from collections.abc import Awaitable, Callable, Generator
from contextvars import ContextVar, copy_context
from typing import Any

import pytest
from fakes import (
    PATIENCE,
    QUESTIONS,
    Meeting,
    Recorder,
    RecordingNetwork,
    fails_with,
    make_agent,
    promptly,
    start_thread,
)

import jevlaya_lab.system_one.dispatch as dispatch_module
from jevlaya_lab.system_one import calling
from jevlaya_lab.system_one.calling import ChainLock, call_method, run_awaitable
from jevlaya_lab.system_one.context import PredictContext
from jevlaya_lab.system_one.errors import HookTimeout

LONG = 2 * PATIENCE
"""A timeout, in seconds, that no test here reaches."""

WAYS = {
    "inline": (False, None),
    "timeout": (False, LONG),
    "async": (True, None),
    "async, timeout": (True, LONG),
}
"""The ways in which a hook is called: whether it is async, and its timeout."""

every_way = pytest.mark.parametrize(("is_async", "timeout"), WAYS.values(), ids=WAYS)


def _method(is_async: bool, action: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The action as a hook method, plain or as a coroutine function."""
    if not is_async:
        return action

    async def method(ctx: Any) -> None:
        action(ctx)

    return method


class _Hook:
    """A start hook with this action, and an end hook that only writes into the log."""

    def __init__(
        self, is_async: bool, action: Callable[[PredictContext], Any], log: list[str] | None = None
    ) -> None:
        self.log = [] if log is None else log
        self.on_predict_start = _method(is_async, action)
        self.on_predict_end = _method(is_async, lambda ctx: self.log.append("end"))


# --- one at a time, along the chain ----------------------------------------------------------


def _nesting(depth: int) -> tuple[Callable[[PredictContext], None], list[int]]:
    """An action that calls the same agent again, down to a depth, and the levels it saw."""
    levels: list[int] = []

    def nest(ctx: PredictContext) -> None:
        levels.append(len(levels))
        if len(levels) < depth:
            ctx.agent.predict("inner", QUESTIONS)

    return nest, levels


@every_way
@pytest.mark.parametrize("concurrent", [True, False])
def test_a_hook_calls_back_into_its_agent(
    is_async: bool, timeout: float | None, concurrent: bool
) -> None:
    """L-39: however it is called, a hook can call the agent that called it, several levels deep."""
    nest, levels = _nesting(4)
    hook = _Hook(is_async, nest)
    agent = make_agent(hooks=hook, hooks_concurrent=concurrent, hooks_timeout=timeout)

    promptly(agent.predict, "outer", QUESTIONS)

    assert levels == [0, 1, 2, 3]
    assert hook.log == ["end"] * 4


@pytest.mark.parametrize("concurrent", [True, False])
def test_an_async_hook_calls_back_from_a_worker_thread(concurrent: bool) -> None:
    """L-39: asyncio.to_thread, which leaves the loop free, works as well as a plain call."""

    class Hook(Recorder):
        async def on_predict_start(self, ctx: PredictContext) -> None:
            self.log.append("start")
            if ctx.parent_run_id is None:
                await asyncio.to_thread(ctx.agent.predict, "inner", QUESTIONS)

    hook = Hook()
    agent = make_agent(hooks=hook, hooks_concurrent=concurrent)

    promptly(agent.predict, "outer", QUESTIONS)

    assert hook.log == ["start", "start", "hook.end", "hook.end"]


@pytest.mark.parametrize("concurrent", [True, False])
@pytest.mark.parametrize("timeout", [None, LONG])
def test_an_async_hook_calls_back_where_the_other_hooks_are_async(
    timeout: float | None, concurrent: bool
) -> None:
    """L-39: the inner call's async hooks do not wait for the loop that waits for them."""
    log: list[str] = []

    class Outer(Recorder):
        async def on_predict_start(self, ctx: PredictContext) -> None:
            if ctx.parent_run_id is None:
                ctx.agent.predict("inner", QUESTIONS)

    class Other:
        async def on_predict_start(self, ctx: PredictContext) -> None:
            await asyncio.sleep(0)
            log.append(ctx.states[0])

    agent = make_agent(hooks=[Outer(), Other()], hooks_concurrent=concurrent, hooks_timeout=timeout)

    promptly(agent.predict, "outer", QUESTIONS)

    assert log == ["inner", "outer"]


def test_async_and_timed_hooks_call_back_in_turn() -> None:
    """L-39: an async hook, a plain one on a timeout's thread, an async one: the chain counts."""
    log: list[str] = []

    def descend(name: str, ctx: PredictContext) -> None:
        log.append(name)
        if len(log) < 5:
            ctx.agent.predict("inner", QUESTIONS)

    class Plain:
        def on_predict_start(self, ctx: PredictContext) -> None:
            if len(log) in (1, 3):
                descend("plain", ctx)

    class Async:
        async def on_predict_start(self, ctx: PredictContext) -> None:
            if len(log) in (0, 2, 4):
                descend("async", ctx)

    promptly(
        lambda: make_agent(hooks=[Plain(), Async()], hooks_timeout=1.0).predict("a", QUESTIONS),
    )

    assert log == ["async", "plain", "async", "plain", "async"]


def test_an_async_hook_waits_for_a_thread_that_calls_back() -> None:
    """L-39: the chain is known by its context variables, not by the thread that calls."""
    came_back: list[bool] = []

    async def start(ctx: PredictContext) -> None:
        if ctx.parent_run_id is None:
            thread = start_thread(ctx.agent.predict, "inner", QUESTIONS)
            thread.join(1.0)
            came_back.append(not thread.is_alive())

    promptly(make_agent(on_predict_start=start).predict, "outer", QUESTIONS)

    assert came_back == [True]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calling, "PATIENCE", 0.02)


@pytest.mark.usefixtures("impatient")
def test_a_loop_that_a_hook_blocks_does_not_hold_up_other_calls() -> None:
    """L-39: an async hook that blocks its loop keeps no other call's async hook from running."""
    blocked, release, ran = threading.Event(), threading.Event(), threading.Event()

    async def block(_: PredictContext) -> None:
        blocked.set()
        release.wait(LONG)

    async def run(_: PredictContext) -> None:
        ran.set()

    blocker = start_thread(lambda: make_agent(on_predict_start=block).predict("a", QUESTIONS))
    assert blocked.wait(LONG)
    try:
        promptly(lambda: make_agent(on_predict_start=run).predict("a", QUESTIONS))
        assert ran.is_set()
    finally:
        release.set()
        blocker.join(LONG)


@pytest.mark.usefixtures("impatient")
def test_two_agents_whose_hooks_take_turns_do_not_wait_for_each_other() -> None:
    """L-39: a loop held up by one chain, a lock held by another that waits for this loop."""
    inside, called = threading.Event(), threading.Event()
    log: list[str] = []

    async def of_y(ctx: PredictContext) -> None:
        log.append(f"y {ctx.states[0]}")

    class Wait:
        def on_predict_start(self, ctx: PredictContext) -> None:
            if ctx.states == ["direct"]:
                inside.set()
                assert called.wait(LONG)

    y = make_agent(hooks=[Wait(), _AsyncStart(of_y)], hooks_concurrent=False)

    async def of_x(_: PredictContext) -> None:
        called.set()
        y.predict("from x", QUESTIONS)

    x = make_agent(hooks=_AsyncStart(of_x), hooks_concurrent=False)
    direct = start_thread(y.predict, "direct", QUESTIONS)
    assert inside.wait(LONG)

    promptly(lambda: x.predict("a", QUESTIONS))

    direct.join(LONG)
    assert sorted(log) == ["y direct", "y from x"]


class _AsyncStart:
    def __init__(self, action: Callable[[PredictContext], Awaitable[None]]) -> None:
        self.on_predict_start = action


@every_way
def test_one_hook_at_a_time(is_async: bool, timeout: float | None) -> None:
    """L-39: with hooks_concurrent=False hooks of two threads never run at once."""
    meeting = Meeting()
    agent = make_agent(
        hooks=_Hook(is_async, meeting.arrive), hooks_concurrent=False, hooks_timeout=timeout
    )

    threads = [start_thread(agent.predict, "a", QUESTIONS) for _ in range(2)]
    for thread in threads:
        thread.join(PATIENCE)

    assert not meeting.met


@pytest.mark.parametrize("timeout", [None, LONG])
def test_hooks_of_several_threads_run_at_once_by_default(timeout: float | None) -> None:
    """L-38: two hooks can wait for each other."""
    meeting = Meeting(PATIENCE)
    agent = make_agent(hooks=_Hook(False, meeting.arrive), hooks_timeout=timeout)

    threads = [start_thread(agent.predict, "a", QUESTIONS) for _ in range(2)]
    for thread in threads:
        thread.join(PATIENCE)

    assert meeting.met


def test_calls_interleave_between_their_hooks() -> None:
    """L-39: hook calls are serialised, not whole calls."""
    in_forward, other_is_done = threading.Event(), threading.Event()
    network = RecordingNetwork()
    network.pauses["slow"] = lambda: (in_forward.set(), other_is_done.wait(PATIENCE))
    hook = Recorder()
    agent = make_agent(network, hooks=hook, hooks_concurrent=False)

    slow = start_thread(agent.predict, "slow", QUESTIONS)
    assert in_forward.wait(PATIENCE)
    promptly(agent.predict, "quick", QUESTIONS)
    other_is_done.set()
    slow.join(PATIENCE)

    assert [ctx.states[0] for ctx in hook.contexts] == ["slow", "quick", "quick", "slow"]


def test_each_agent_has_a_lock_of_its_own() -> None:
    """L-39: hooks of another agent do not wait."""
    meeting = Meeting(PATIENCE)
    agents = [
        make_agent(hooks=_Hook(False, meeting.arrive), hooks_concurrent=False) for _ in range(2)
    ]

    threads = [start_thread(agent.predict, "a", QUESTIONS) for agent in agents]
    for thread in threads:
        thread.join(PATIENCE)

    assert meeting.met


def test_a_hook_calls_another_agent_and_that_one_calls_back() -> None:
    """L-39: the chain holds both locks and comes back into the first."""
    log: list[str] = []

    def through(ctx: PredictContext) -> None:
        log.append(ctx.states[0])
        if len(log) < 5:
            (second if ctx.agent is first else first).predict(f"{len(log)}", QUESTIONS)

    first = make_agent(on_predict_start=through, hooks_concurrent=False)
    second = make_agent(on_predict_start=through, hooks_concurrent=False)

    promptly(first.predict, "0", QUESTIONS)

    assert log == ["0", "1", "2", "3", "4"]


@every_way
def test_a_failing_hook_gives_the_lock_back(is_async: bool, timeout: float | None) -> None:
    """L-39: the next call, from another thread, gets it."""
    failure = ValueError("broken")
    agent = make_agent(hooks_concurrent=False, hooks_timeout=timeout)

    with pytest.raises(ValueError, match="broken"):
        agent.predict("a", QUESTIONS, hooks=_Hook(is_async, fails_with(failure)))

    hook = _Hook(False, lambda _: None)
    promptly(lambda: agent.predict("a", QUESTIONS, hooks=hook))
    assert hook.log == ["end"]


def test_two_threads_of_one_chain_take_turns() -> None:
    """L-39: a hook that calls back from two threads at once gets one hook at a time."""
    meeting = Meeting()

    def nest(ctx: PredictContext) -> None:
        if ctx.parent_run_id is not None:
            meeting.arrive()
            return
        threads = [start_thread(ctx.agent.predict, "inner", QUESTIONS) for _ in range(2)]
        for thread in threads:
            thread.join(PATIENCE)

    hook = _Hook(False, nest)
    agent = make_agent(hooks=hook, hooks_concurrent=False)

    promptly(agent.predict, "outer", QUESTIONS)

    assert hook.log == ["end"] * 3
    assert not meeting.met


def test_an_async_hook_that_overran_gives_the_lock_back() -> None:
    """L-39: it was cancelled, and the next call's hooks run."""
    never, hook = asyncio.Event(), _Hook(True, lambda _: None)

    async def slow(_: PredictContext) -> None:
        await never.wait()

    agent = make_agent(hooks_concurrent=False)
    with pytest.raises(HookTimeout):
        agent.predict("a", QUESTIONS, on_predict_start=slow, hooks_timeout=0.02)

    promptly(lambda: agent.predict("a", QUESTIONS, hooks=hook))
    assert hook.log == ["end"]


class _Abandoned:
    """Overruns its timeout in the first call, and calls its agent again when it is let go."""

    def __init__(self) -> None:
        self.let_go, self.done, self.inner_began = (threading.Event() for _ in range(3))
        self.meeting = Meeting()

    def on_predict_start(self, ctx: PredictContext) -> None:
        if ctx.states == ["first"]:
            self.let_go.wait(PATIENCE)
            ctx.agent.predict("late", QUESTIONS, hooks_timeout=LONG)
            self.done.set()
        elif ctx.states == ["late"]:
            self.inner_began.set()
            self.meeting.arrive()
        elif ctx.states == ["second"]:
            self.let_go.set()
            self.meeting.arrive()


def test_a_chain_that_was_given_up_no_longer_holds_the_lock() -> None:
    """L-39: a hook that overran its timeout and calls back waits like any other thread."""
    hook = _Abandoned()
    agent = make_agent(hooks=hook, hooks_concurrent=False)

    with pytest.raises(HookTimeout):
        agent.predict("first", QUESTIONS, hooks_timeout=0.02)
    promptly(agent.predict, "second", QUESTIONS)

    assert hook.done.wait(PATIENCE)
    assert hook.inner_began.is_set()
    assert not hook.meeting.met


def test_a_lock_is_free_after_its_last_hold() -> None:
    """L-39: nested holds leave nothing behind, for this chain or for another."""
    lock = ChainLock()

    def hold() -> None:
        with lock.hold(), lock.hold(), lock.hold():
            pass

    hold()
    promptly(hold)
    with lock.hold():
        promptly(hold)
    promptly(hold)


def test_a_call_leaves_the_callers_context_variables_as_they_were() -> None:
    """L-39: a long-lived thread does not collect the holds of its calls."""
    agent = make_agent(hooks=_Hook(False, lambda _: None), hooks_concurrent=False)

    def variables() -> dict[Any, Any]:
        return {variable: value for variable, value in copy_context().items() if value}

    before = variables()
    agent.predict("a", QUESTIONS)

    assert variables() == before


# --- async -----------------------------------------------------------------------------------


@pytest.mark.parametrize("timeout", [None, LONG])
def test_an_async_hook_is_awaited_before_the_next_hook(timeout: float | None) -> None:
    """L-43: the next hook, and the work, see what it did after its last await."""
    seen: list[Any] = []

    class Slow:
        async def on_predict_start(self, ctx: PredictContext) -> None:
            for _ in range(3):
                await asyncio.sleep(0)
            ctx.states = ["rewritten"]

    hooks = [Slow(), Recorder(start=lambda ctx: seen.append(ctx.states))]

    make_agent(hooks=hooks, hooks_timeout=timeout).predict("a", QUESTIONS)

    assert seen == [["rewritten"]]


@pytest.mark.parametrize("timeout", [None, LONG])
def test_every_event_may_be_async(timeout: float | None) -> None:
    """L-43: start, error and end."""
    log: list[str] = []

    class Hook:
        async def on_predict_start(self, ctx: PredictContext) -> None:
            log.append("start")

        async def on_error(self, ctx: PredictContext) -> None:
            log.append(f"error {ctx.error}")

        async def on_predict_end(self, ctx: PredictContext) -> None:
            log.append("end")

    network = RecordingNetwork(failing={"forward": ValueError("broken")})
    with pytest.raises(ValueError, match="broken"):
        make_agent(network, hooks=Hook(), hooks_timeout=timeout).predict("a", QUESTIONS)

    assert log == ["start", "error broken", "end"]


@pytest.mark.parametrize("timeout", [None, LONG])
def test_async_hooks_run_where_a_loop_is_running_already(timeout: float | None) -> None:
    """L-43: a blocking call inside a coroutine, as in a notebook."""
    log: list[str] = []

    async def start(ctx: PredictContext) -> None:
        await asyncio.sleep(0)
        log.append("start")

    async def cell() -> Any:
        return make_agent(hooks_timeout=timeout).predict("a", QUESTIONS, on_predict_start=start)

    result = promptly(asyncio.run, cell())

    assert log == ["start"]
    assert "q" in result["answers"]


@pytest.mark.parametrize("timeout", [None, LONG])
def test_async_hooks_never_run_on_the_callers_loop(timeout: float | None) -> None:
    """L-43a: they share one private loop on a thread of its own, with or without a loop here."""
    loops: list[Any] = []

    async def start(ctx: PredictContext) -> None:
        loops.append((asyncio.get_running_loop(), threading.current_thread()))

    def ask() -> None:
        make_agent(hooks_timeout=timeout).predict("a", QUESTIONS, on_predict_start=start)

    async def cell() -> Any:
        ask()
        return asyncio.get_running_loop(), threading.current_thread()

    callers_loop, callers_thread = asyncio.run(cell())
    ask()
    promptly(ask)

    assert len(set(loops)) == 1
    assert loops[0][0] is not callers_loop
    assert loops[0][1] not in (callers_thread, threading.current_thread())
    assert loops[0][1].daemon


def test_the_callers_loop_is_left_as_it_was() -> None:
    """L-43a: what waits on it goes on afterwards."""
    log: list[str] = []

    async def start(ctx: PredictContext) -> None:
        log.append("hook")

    async def other() -> None:
        log.append("other")

    async def cell() -> None:
        task = asyncio.ensure_future(other())
        make_agent().predict("a", QUESTIONS, on_predict_start=start)
        await task

    asyncio.run(cell())

    assert log == ["hook", "other"]


class _CallableObject:
    """Has an async __call__, which no inspection of a function sees."""

    def __init__(self, log: list[str]) -> None:
        self.log = log

    async def __call__(self, ctx: Any) -> None:
        await asyncio.sleep(0)
        self.log.append("done")


def _returns_a_coroutine(log: list[str]) -> Callable[[Any], Awaitable[None]]:
    return lambda ctx: _CallableObject(log)(ctx)


def _partial(log: list[str]) -> Callable[[Any], Awaitable[None]]:
    async def method(note: list[str], ctx: Any) -> None:
        note.append("done")

    return functools.partial(method, log)


@pytest.mark.parametrize("timeout", [None, LONG])
@pytest.mark.parametrize("make", [_CallableObject, _returns_a_coroutine, _partial])
def test_whatever_is_awaitable_is_awaited(make: Any, timeout: float | None) -> None:
    """L-43: also what a plain function or an object returns."""
    log: list[str] = []

    call_method(make(log), None, timeout)

    assert log == ["done"]


def test_what_was_awaited_is_not_closed() -> None:
    """L-43: an awaitable may be something that lives on, such as a pool of connections."""

    class Pool:
        is_open = True

        def __await__(self) -> Generator[Any, None, None]:
            return asyncio.sleep(0).__await__()

        def close(self) -> None:
            self.is_open = False

    pool = Pool()
    call_method(lambda _: pool, None, None)

    assert pool.is_open


@pytest.mark.parametrize("timeout", [None, LONG])
@pytest.mark.parametrize("result", [None, 0, "text", [1]])
def test_what_a_hook_returns_otherwise_is_ignored(result: Any, timeout: float | None) -> None:
    call_method(lambda ctx: result, None, timeout)


def test_many_threads_share_the_private_loop() -> None:
    """L-43a: their async hooks run side by side on it."""
    both_in = asyncio.Event()
    inside: list[str] = []

    async def start(ctx: PredictContext) -> None:
        inside.append(ctx.states[0])
        if len(inside) == 2:
            both_in.set()
        await both_in.wait()

    agent = make_agent(on_predict_start=start)
    threads = [start_thread(agent.predict, text, QUESTIONS) for text in "ab"]
    for thread in threads:
        thread.join(PATIENCE)

    assert sorted(inside) == ["a", "b"]
    assert not any(thread.is_alive() for thread in threads)


# --- errors, interrupts, timeouts ------------------------------------------------------------


@every_way
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, TimeoutError])
def test_what_a_hook_raises_comes_out_unchanged(
    is_async: bool, timeout: float | None, error: type[BaseException]
) -> None:
    """L-7: the very exception, whichever way the hook was called, and the next hook runs."""
    failure = error("broken")

    with pytest.raises(error) as caught:
        call_method(_method(is_async, fails_with(failure)), None, timeout)

    assert caught.value is failure
    log: list[str] = []
    promptly(call_method, _CallableObject(log), None, timeout)
    assert log == ["done"]


def test_a_keyboard_interrupt_stops_waiting_for_an_async_hook() -> None:
    """L-7: Ctrl-C comes out at once and cancels the coroutine."""
    cancelled, never = threading.Event(), asyncio.Event()

    async def wait(_: Any) -> None:
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        try:
            await never.wait()
        finally:
            cancelled.set()

    with pytest.raises(KeyboardInterrupt):
        call_method(wait, None, None)

    assert cancelled.wait(PATIENCE)


def test_a_timeout_names_the_hook_and_the_limit() -> None:
    """L-42: in the message of HookTimeout."""
    done = threading.Event()

    class Slow:
        def on_predict_start(self, ctx: Any) -> None:
            done.wait(PATIENCE)

    with pytest.raises(HookTimeout, match=r"Slow\.on_predict_start .* hooks_timeout=0\.02 s"):
        call_method(Slow().on_predict_start, None, 0.02)

    done.set()


def test_a_coroutine_that_takes_too_long_is_cancelled() -> None:
    """L-42: unlike a thread, a coroutine can be stopped."""
    cancelled, never = threading.Event(), asyncio.Event()

    async def slow(_: Any) -> None:
        try:
            await never.wait()
        finally:
            cancelled.set()

    with pytest.raises(HookTimeout, match=r"slow .* hooks_timeout=0\.02 s"):
        call_method(slow, None, 0.02)

    assert cancelled.wait(PATIENCE)


def test_the_timeout_covers_the_call_and_what_it_returns() -> None:
    """L-42: an awaitable that a plain method returns has what is left of the time."""
    never = asyncio.Event()

    def slow(_: Any) -> Awaitable[Any]:
        return never.wait()

    with pytest.raises(HookTimeout, match="hooks_timeout=0"):
        promptly(call_method, slow, None, 0.02)


def test_a_timeout_bounds_each_hook_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """L-42: every hook has the whole time; what earlier ones took does not count."""
    limits: list[float | None] = []
    monkeypatch.setattr(
        dispatch_module, "call_method", lambda method, ctx, timeout: limits.append(timeout)
    )

    make_agent(hooks=[Recorder(), Recorder()], hooks_timeout=0.5).predict("a", QUESTIONS)

    assert limits == [0.5] * 4


def test_a_hook_that_overran_does_not_fail_the_call_later() -> None:
    """L-42: what it raises after its time was up reaches nobody."""
    let_go, raised = threading.Event(), threading.Event()

    def slow(_: Any) -> None:
        let_go.wait(PATIENCE)
        raised.set()
        raise ValueError("too late")

    agent = make_agent(hooks_raise=False, hooks_timeout=0.02)
    with pytest.warns(RuntimeWarning, match="HookTimeout"):
        result = agent.predict("a", QUESTIONS, on_predict_start=slow)

    let_go.set()
    assert raised.wait(PATIENCE)
    assert "q" in result["answers"]


# --- context variables -----------------------------------------------------------------------

_REQUEST: ContextVar[str] = ContextVar("request", default="none")


@every_way
def test_a_hook_sees_the_callers_context_variables(is_async: bool, timeout: float | None) -> None:
    """L-39: a request id or span that the caller set is there, on whichever thread."""
    seen: list[str] = []
    token = _REQUEST.set("r-17")
    try:
        call_method(_method(is_async, lambda _: seen.append(_REQUEST.get())), None, timeout)
    finally:
        _REQUEST.reset(token)

    assert seen == ["r-17"]


def test_context_variables_of_calls_do_not_mix() -> None:
    """L-38: each thread's hooks see its own, also on the loop that they share."""
    seen: set[tuple[str, str]] = set()
    barrier = threading.Barrier(4)

    async def start(ctx: PredictContext) -> None:
        await asyncio.sleep(0)
        seen.add((ctx.states[0], _REQUEST.get()))

    agent = make_agent(on_predict_start=start)

    def ask(name: str) -> None:
        _REQUEST.set(name)
        barrier.wait(PATIENCE)
        for _ in range(20):
            agent.predict(name, QUESTIONS)

    threads = [start_thread(ask, name) for name in "abcd"]
    for thread in threads:
        thread.join(PATIENCE)

    assert seen == {(name, name) for name in "abcd"}


def test_run_awaitable_gives_the_result() -> None:
    """L-43: it is also what other code awaits with."""

    async def answer() -> int:
        return 42

    assert run_awaitable(answer()) == 42


def test_a_cancellation_of_a_hooks_own_comes_out_as_it_is() -> None:
    """L-7: not as the exception of that name which `except Exception` catches."""

    async def cancel(_: Any) -> None:
        raise asyncio.CancelledError("by the hook")

    agent = make_agent(on_predict_start=cancel, hooks_raise=False)

    with pytest.raises(asyncio.CancelledError, match="by the hook"):
        agent.predict("a", QUESTIONS)
