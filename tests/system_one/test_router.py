"""Router.predict and route: the order of events, and what each of them carries."""

from __future__ import annotations

from typing import Any

import pytest
from fakes import (
    QUESTIONS,
    SKIPPED,
    Recorder,
    RouterRecorder,
    StubAgent,
    StubRouter,
    context_chain,
    fails_with,
    make_agent,
)

from jevlaya_lab.system_one.agent import Agent
from jevlaya_lab.system_one.context import PredictContext
from jevlaya_lab.system_one.errors import InvalidResult, InvalidState, UnknownCheckpoint
from jevlaya_lab.system_one.hooks import clear_default_hooks, set_default_hooks
from jevlaya_lab.system_one.router import Router
from jevlaya_lab.system_one.routing import RouteDecision

ENGLISH = "I was charged twice and would like to have my money back."
GERMAN = "Mein Konto wurde zweimal belastet, und ich möchte mein Geld zurück."


def sets(**values: Any) -> Any:
    """An action that assigns fields of the context."""

    def act(ctx: PredictContext) -> None:
        for name, value in values.items():
            setattr(ctx, name, value)

    return act


def test_the_order_of_predict() -> None:
    """L-11: route, load, start, the agent, end."""
    log: list[str] = []
    router = StubRouter(log, hooks=RouterRecorder(log, "in"))

    router.predict(ENGLISH, QUESTIONS, hooks=RouterRecorder(log, "call"))

    assert log == [
        *("in.route", "call.route"),
        *("build english", "in.load english"),
        *("in.start", "call.start"),
        "english.system_one",
        *("in.end", "call.end"),
    ]


def test_a_route_hook_decides_what_is_loaded() -> None:
    """L-11: a decision replaced in on_route spares the load of the other checkpoint."""
    log: list[str] = []
    hook = RouterRecorder(log, route=sets(decision={"model": "ml"}))
    router = StubRouter(log)

    result = router.predict(ENGLISH, QUESTIONS, hooks=hook)

    assert "build english" not in log
    assert router.loaded == ["multilingual"]
    assert result["routing"] == {"model": "ml"}


def test_route_lets_the_hooks_replace_the_decision_and_loads_nothing() -> None:
    """L-12: on_route sees the decision of the policy; what the last hook leaves is returned."""
    seen: list[Any] = []
    pinned = {"model": "typed", "why": "pinned"}

    def pin(ctx: PredictContext) -> None:
        seen.append((ctx.decision, ctx.states, ctx.questions, ctx.router))
        ctx.decision = pinned

    router = StubRouter(hooks=RouterRecorder(route=pin))

    assert router.route(GERMAN, QUESTIONS) is pinned
    ((decision, states, questions, its_router),) = seen
    assert isinstance(decision, RouteDecision)
    assert decision.model == "multilingual"
    assert (states, questions, its_router) == ([GERMAN], QUESTIONS, router)
    assert router.log == []


@pytest.mark.parametrize("left", [None, "multilingual", {}, {"repo": "x"}])
def test_a_route_hook_that_leaves_no_decision_is_named(left: Any) -> None:
    """L-12: whatever a hook leaves must name a checkpoint."""
    router = StubRouter()
    hook = RouterRecorder(route=sets(decision=left))

    with pytest.raises(InvalidResult, match="on_route hooks left"):
        router.predict(ENGLISH, QUESTIONS, hooks=hook)
    ok = {"state": ENGLISH, "questions": QUESTIONS}
    spoil = sets(decision=left)
    second = RouterRecorder(route=lambda ctx: spoil(ctx) if ctx.states == [GERMAN] else None)
    with pytest.raises(InvalidResult, match="request 1: the on_route hooks left"):
        router.predict_batch([ok, {**ok, "state": GERMAN}], hooks=second)
    assert router.log == []


def test_a_route_hook_that_names_an_unknown_checkpoint_is_told_so() -> None:
    """L-12, L-20: the name is resolved before anything is loaded."""
    router = StubRouter()
    hook = RouterRecorder(route=sets(decision={"model": "nobody"}))

    with pytest.raises(UnknownCheckpoint, match=r"^no checkpoint 'nobody'"):
        router.predict(ENGLISH, QUESTIONS, hooks=hook)
    with pytest.raises(UnknownCheckpoint, match=r"^request 0: no checkpoint 'nobody'"):
        router.predict_batch([{"state": "s", "questions": QUESTIONS}], hooks=hook)
    assert router.log == []


def test_load_builds_once_and_announces_to_installed_hooks_only() -> None:
    """L-13: on_load and on_evict reach default and installed hooks; per-call ones see the rest."""
    log: list[str] = []
    router = StubRouter(log, hooks=RouterRecorder(log, "in"), max_loaded=1)
    set_default_hooks(RouterRecorder(log, "all"))
    try:
        router.predict(ENGLISH, QUESTIONS)
        log.clear()
        router.predict(GERMAN, QUESTIONS, hooks=RouterRecorder(log, "call"))
        router.predict(GERMAN, QUESTIONS)
    finally:
        clear_default_hooks()

    first = log[: log.index("all.start")]
    assert first == [
        *("all.route", "in.route", "call.route"),
        "build multilingual",
        *("all.evict english", "in.evict english"),
        *("all.load multilingual", "in.load multilingual"),
    ]
    assert log.count("build multilingual") == log.count("in.load multilingual") == 1


def test_the_context_of_a_prediction() -> None:
    """L-14: states, questions, decision, model, agent, router, and the budgets of the call."""
    hook = RouterRecorder()
    router = StubRouter()

    router.predict(GERMAN, QUESTIONS, hooks=hook, max_len=64, head_max_len=32)

    _, start, end = hook.contexts
    assert start is end
    assert (start.states, start.questions) == ([GERMAN], QUESTIONS)
    assert start.questions is QUESTIONS
    assert start.decision.model == start.model == "multilingual"
    assert start.agent is router.stubs[0]
    assert start.router is router
    assert (start.max_len, start.head_max_len) == (64, 32)
    assert (start.scope, start.entry) == ("router", "predict")


def test_the_agent_gets_what_the_start_hooks_left() -> None:
    """L-15: system_one of the first state, with the budgets of the context where they are set."""
    other = {"other": QUESTIONS["q"]}
    router = StubRouter()

    router.predict(ENGLISH, QUESTIONS)
    router.predict(
        ENGLISH,
        QUESTIONS,
        max_len=99,
        on_predict_start=sets(states=["new"], questions=other, max_len=50, head_max_len=20),
    )

    plain, changed = router.stubs[0].calls
    assert plain == ("system_one", [ENGLISH], QUESTIONS, {})
    assert changed == ("system_one", ["new"], other, {"max_len": 50, "head_max_len": 20})


def test_the_agents_own_hooks_run_as_well_and_the_routers_are_not_passed_on() -> None:
    """L-15: the Router's hooks wrap the whole call, the agent's run inside of it."""
    log: list[str] = []
    router = Router(hooks=Recorder(log, "router"))
    router.attach("english", make_agent(hooks=Recorder(log, "agent")))

    router.predict(ENGLISH, QUESTIONS)

    assert log == ["router.start", "agent.start", "agent.end", "router.end"]


def test_the_result_carries_the_decision() -> None:
    """L-15: result["routing"] is the decision, over whatever the agent put there."""
    router = StubRouter()
    hook = Recorder()

    result = router.predict(GERMAN, QUESTIONS, hooks=hook)

    assert result["routing"] == hook.contexts[0].decision == router.route(GERMAN, QUESTIONS)
    assert result["answers"] == {"of": GERMAN}


def test_a_skip_keeps_the_routing_of_the_cache_or_gets_one() -> None:
    """L-16: each skipped result gets routing by setdefault."""
    router = StubRouter()
    kept = {**SKIPPED, "routing": {"model": "long ago"}}

    fresh = router.predict(ENGLISH, QUESTIONS, on_predict_start=lambda c: c.skip([dict(SKIPPED)]))
    cached = router.predict(ENGLISH, QUESTIONS, on_predict_start=lambda c: c.skip([kept]))

    assert fresh["routing"]["model"] == "english"
    assert cached is kept
    assert cached["routing"] == {"model": "long ago"}
    assert router.stubs[0].calls == []


def test_a_failing_agent_runs_error_and_end_and_reraises() -> None:
    """L-17: as L-7 and L-8."""
    failure = RuntimeError("broken")
    log: list[str] = []
    hook = Recorder(log)
    router = StubRouter()
    stub = StubAgent()

    def fail(*_: Any, **__: Any) -> Any:
        raise failure

    stub.system_one = fail  # type: ignore[method-assign]
    router.attach("english", stub)

    with pytest.raises(RuntimeError) as caught:
        router.predict(ENGLISH, QUESTIONS, model="english", hooks=hook)

    assert caught.value is failure
    assert log == ["hook.start", "hook.error", "hook.end"]
    ctx = hook.contexts[0]
    assert ctx.error is failure
    assert ctx.elapsed_ms is not None
    assert ctx.usage is None


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt(), SystemExit(2)])
def test_an_interrupt_counts_as_a_failure(interrupt: BaseException) -> None:
    """L-17: KeyboardInterrupt included."""
    log: list[str] = []
    router = StubRouter()

    with pytest.raises(type(interrupt)):
        router.predict(ENGLISH, QUESTIONS, hooks=Recorder(log, start=fails_with(interrupt)))

    assert log == ["hook.start", "hook.error", "hook.end"]


def test_predict_returns_what_the_end_hooks_left() -> None:
    """L-17: ctx.results[0]; usage is that of the results before the end hooks."""
    router = StubRouter()
    hook = Recorder(end=lambda ctx: ctx.results.__setitem__(0, "changed"))

    assert router.predict(ENGLISH, QUESTIONS, hooks=hook) == "changed"
    assert hook.contexts[-1].usage == {"input_tokens": 1, "output_tokens": 0}


@pytest.mark.parametrize("left", [[], None, "text"])
def test_end_hooks_that_leave_no_result_are_named(left: Any) -> None:
    """L-17: a call has to return one result."""
    router = StubRouter()
    request = {"state": "s", "questions": QUESTIONS}

    with pytest.raises(InvalidResult, match="where a list with one result belongs"):
        router.predict("s", QUESTIONS, on_predict_end=sets(results=left))
    with pytest.raises(InvalidResult, match="where a list with one result belongs"):
        router.predict_batch([request], on_predict_end=sets(results=left))


@pytest.mark.parametrize("left", [[], ["a", "b"], None, "text"])
def test_start_hooks_that_leave_no_single_state_are_named(left: Any) -> None:
    router = StubRouter()
    request = {"state": "s", "questions": QUESTIONS}

    with pytest.raises(InvalidState, match="the one state of the request"):
        router.predict("s", QUESTIONS, on_predict_start=sets(states=left))
    with pytest.raises(InvalidState, match="the one state of the request"):
        router.predict_batch([request], on_predict_start=sets(states=left))


def test_a_failing_route_or_load_runs_no_error_hook() -> None:
    """L-11: the context is built after route and load, so there is no run to fail yet."""
    log: list[str] = []
    failure = RuntimeError("no disk")
    router = StubRouter(log, {"english": lambda: (_ for _ in ()).throw(failure)})

    with pytest.raises(RuntimeError, match="no disk"):
        router.predict(ENGLISH, QUESTIONS, hooks=RouterRecorder(log))
    assert log == ["hook.route", "build english"]

    log.clear()
    bad = RouterRecorder(log, route=fails_with(failure))
    with pytest.raises(RuntimeError, match="no disk"):
        router.predict(GERMAN, QUESTIONS, hooks=bad)
    assert log == ["hook.route"]


def test_a_failing_end_hook_does_not_hide_the_first_failure() -> None:
    """L-44: in a router's run as in an agent's."""
    first, second = RuntimeError("first"), RuntimeError("second")
    hook = Recorder(start=fails_with(first), end=fails_with(second))

    with pytest.raises(RuntimeError) as caught:
        StubRouter().predict(ENGLISH, QUESTIONS, hooks=hook)

    assert caught.value is first
    assert second in context_chain(first)


def test_default_hooks_run_once_per_call() -> None:
    """L-42: the agent inside a router call does not run the process-wide hooks again."""
    log: list[str] = []
    agent_hook = Recorder(log, "agent")
    router = Router()
    router.attach("english", make_agent(hooks=agent_hook))
    other = make_agent()
    set_default_hooks(Recorder(log, "all"))
    try:
        router.predict(ENGLISH, QUESTIONS)
        assert log == ["all.start", "agent.start", "agent.end", "all.end"]

        log.clear()
        router.predict_batch([{"state": ENGLISH, "questions": QUESTIONS}] * 2)
        assert log == [
            *("all.start", "all.start", "agent.start", "agent.end", "all.end", "all.end")
        ]

        log.clear()  # a call that a hook makes is another call
        agent_hook._actions["start"] = lambda _: other.predict(ENGLISH, QUESTIONS)
        router.predict(ENGLISH, QUESTIONS)
        assert log == [
            *("all.start", "agent.start", "all.start", "all.end", "agent.end", "all.end")
        ]
    finally:
        clear_default_hooks()


def test_hooks_raise_and_timeout_of_a_call_hold_for_routing_as_well() -> None:
    """L-42: the policy of the call covers on_route."""
    router = StubRouter()
    hook = RouterRecorder(route=fails_with(RuntimeError("odd")))

    with pytest.warns(RuntimeWarning, match=r"RouterRecorder.on_route failed.*odd"):
        result = router.predict(ENGLISH, QUESTIONS, hooks=hook, hooks_raise=False)

    assert result["routing"]["model"] == "english"


def test_async_hooks_of_a_router() -> None:
    """L-43: every event may be async."""
    log: list[str] = []

    class Slow:
        async def on_route(self, ctx: PredictContext) -> None:
            log.append("route")
            ctx.decision = {"model": "typed"}

        async def on_load(self, ctx: PredictContext) -> None:
            log.append(f"load {ctx.model}")

        async def on_predict_start(self, ctx: PredictContext) -> None:
            log.append("start")

    StubRouter(hooks=Slow()).predict(ENGLISH, QUESTIONS)

    assert log == ["route", "load typed-decisions", "start"]


def test_min_confidence_marks_answers_before_the_end_hooks_see_them() -> None:
    router = Router()
    router.attach("english", make_agent())
    seen: list[Any] = []
    hook = Recorder(end=lambda ctx: seen.append(ctx.results[0]["answers"]["q"]["abstention"]))

    alone = router.predict(ENGLISH, QUESTIONS, min_confidence=1.0, hooks=hook)
    (together,) = router.predict_batch(
        [{"state": ENGLISH, "questions": QUESTIONS}], min_confidence=1.0, hooks=hook
    )

    assert seen == ["abstained", "abstained"]
    assert alone["answers"] == together["answers"]


def test_the_router_is_a_context_manager_that_frees_what_it_loaded() -> None:
    """L-33: leaving the block unloads all."""
    log: list[str] = []
    with StubRouter(hooks=RouterRecorder(log)) as router:
        router.predict(ENGLISH, QUESTIONS)
        assert router.loaded == ["english"]

    assert router.loaded == []
    assert log[-1] == "hook.evict english"


def test_system_one_and_predict_many_are_other_names() -> None:
    assert Router.system_one is Router.predict
    assert Router.predict_many is Router.predict_batch


def test_the_embedded_checkpoint_answers_under_all_three_names() -> None:
    with Router(max_loaded=3) as router:
        found = [
            router.predict(ENGLISH, QUESTIONS, model=name)
            for name in ("english", "multilingual", "typed-decisions")
        ]
        alone = Agent().predict(ENGLISH, QUESTIONS)

    assert all(result["answers"] == alone["answers"] for result in found)
    assert all(result["routing"]["stand_in"] is True for result in found)
    assert {result["model"] for result in found} == {"embedded"}


def test_what_a_router_shows_of_itself() -> None:
    router = StubRouter(hooks=Recorder())
    router.load("ml")

    assert repr(router).startswith(
        "Router(loaded=['multilingual'], max_loaded=2, default='english', hooks=[<fakes.Recorder"
    )
