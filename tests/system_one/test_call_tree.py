"""The call tree of a Router: which call and which run everything belongs to."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from fakes import QUESTIONS, StubRouter, make_agent, promptly

from jevlaya_lab.system_one.call_tree import current_call
from jevlaya_lab.system_one.context import PredictContext
from jevlaya_lab.system_one.router import Router

GERMAN = "Mein Konto wurde zweimal belastet, und ich möchte mein Geld zurück."


class Tree:
    """Collects every context by scope, from a Router and the agents in it."""

    def __init__(self) -> None:
        self.contexts: list[PredictContext] = []

    def note(self, ctx: PredictContext) -> None:
        if all(ctx is not known for known in self.contexts):
            self.contexts.append(ctx)

    on_route = on_load = on_evict = on_predict_end = note

    def of(self, scope: str) -> list[PredictContext]:
        return [ctx for ctx in self.contexts if ctx.scope == scope]


def router_with(tree: Any, **options: Any) -> Router:
    """A Router whose checkpoints are agents that answer at once and have the same hook."""

    class Instant(StubRouter):
        def _build(self, name: str, source: Any) -> Any:
            return make_agent(hooks=tree)

    return Instant(hooks=tree, **options)


def test_everything_of_a_prediction_is_one_call() -> None:
    """L-40: route, evict, load, the router's run and the agent's run share its id."""
    tree = Tree()
    router = router_with(tree, max_loaded=1)
    router.load("english")
    tree.contexts.clear()

    router.predict(GERMAN, QUESTIONS)

    assert [ctx.scope for ctx in tree.contexts] == ["route", "evict", "load", "agent", "router"]
    assert len({ctx.call_id for ctx in tree.contexts}) == 1
    (route,), (evict,), (load,) = tree.of("route"), tree.of("evict"), tree.of("load")
    (agent,), (run,) = tree.of("agent"), tree.of("router")
    assert route.parent_run_id is evict.parent_run_id is load.parent_run_id is None
    assert run.parent_run_id is None
    assert agent.parent_run_id == run.run_id
    assert len({ctx.run_id for ctx in tree.contexts}) == 5
    assert (evict.model, load.model) == ("english", "multilingual")
    assert current_call() is None


def test_routes_loads_and_evictions_carry_their_own_time() -> None:
    """L-40: elapsed_ms is set when their hooks run, and lies inside of the call."""
    tree = Tree()
    router = router_with(tree, max_loaded=1)
    router.predict(GERMAN, QUESTIONS)
    router.predict("Good morning, how are you doing today?", QUESTIONS)

    for scope in ("route", "load", "evict"):
        for ctx in tree.of(scope):
            assert ctx.elapsed_ms is not None
            assert 0 <= ctx.elapsed_ms < 60_000
            assert ctx.entry == scope
    first = tree.contexts[0].started_at
    assert all(ctx.started_at >= first for ctx in tree.contexts)
    load, evict = tree.of("load")[-1], tree.of("evict")[-1]
    assert evict.started_at >= load.started_at + load.elapsed_ms / 1e3 - 1e-6


def test_a_batch_is_one_call_and_shared_passes_belong_to_none_of_its_requests() -> None:
    """L-40: one request's agent run is under it; that of several is beside them."""
    tree = Tree()
    router = router_with(tree)
    requests = [{"state": s, "questions": QUESTIONS, "model": m} for s, m in
                (("a", "english"), ("b", "english"), ("c", "ml"))]  # fmt: skip
    router.predict_batch(requests)

    assert len({ctx.call_id for ctx in tree.contexts}) == 1
    shared, single = tree.of("agent")
    by_state = {ctx.states[0]: ctx for ctx in tree.of("router")}
    assert shared.parent_run_id is None
    assert len(shared.states) == 2
    assert single.parent_run_id == by_state["c"].run_id
    assert len(tree.of("route")) == 3


def test_two_calls_have_two_ids() -> None:
    """L-40: the outermost entry point opens the call."""
    tree = Tree()
    router = router_with(tree)
    router.predict(GERMAN, QUESTIONS)
    router.predict(GERMAN, QUESTIONS)
    router.route(GERMAN)
    router.unload()

    ids = [ctx.call_id for ctx in tree.contexts]
    assert len(set(ids)) == 4
    assert None not in ids


@pytest.mark.parametrize("options", [{}, {"hooks_timeout": 30.0}, {"hooks_concurrent": False}])
def test_what_a_hook_asks_of_the_router_is_part_of_its_run(options: dict[str, Any]) -> None:
    """L-40: also on the threads of hooks_timeout, and for every event."""
    tree = Tree()
    asked: dict[str, str] = {}

    class Nosy(Tree):
        def on_predict_start(self, ctx: PredictContext) -> None:
            if ctx.scope == "router" and ctx.states == ["outer"]:
                asked["start"] = ctx.run_id
                router.predict("from start", QUESTIONS, model="typed")

        def on_load(self, ctx: PredictContext) -> None:
            if ctx.model == "english":
                asked["load"] = ctx.run_id
                router.route("from load", model="typed")

        def on_route(self, ctx: PredictContext) -> None:
            if ctx.states == ["outer"]:
                asked["route"] = ctx.run_id
                router.predict("from route", QUESTIONS, model="typed")

    router = router_with(tree, max_loaded=3, **options)
    router.add_hook(Nosy())
    promptly(router.predict, "outer", QUESTIONS, "english")

    assert len({ctx.call_id for ctx in tree.contexts}) == 1
    runs = {ctx.states[0]: ctx for ctx in tree.of("router")}
    assert runs["from start"].parent_run_id == asked["start"] == runs["outer"].run_id
    assert runs["from route"].parent_run_id == asked["route"]
    routed = next(ctx for ctx in tree.of("route") if ctx.states == ["from load"])
    assert routed.parent_run_id == asked["load"]


def test_an_async_hook_that_asks_from_another_thread_is_still_under_its_run() -> None:
    """L-40, L-43a: the private loop and asyncio.to_thread carry the call along."""
    tree = Tree()

    class Asks:
        async def on_predict_start(self, ctx: PredictContext) -> None:
            if ctx.states == ["outer"]:
                await asyncio.to_thread(router.predict, "inner", QUESTIONS, "ml")

    router = router_with(tree)
    router.add_hook(Asks())
    promptly(router.predict, "outer", QUESTIONS, "english")

    runs = {ctx.states[0]: ctx for ctx in tree.of("router")}
    assert runs["inner"].call_id == runs["outer"].call_id
    assert runs["inner"].parent_run_id == runs["outer"].run_id


def test_a_failed_call_leaves_no_call_behind() -> None:
    """L-40: whatever failed, the next call is one of its own."""
    router = StubRouter(first={"english": lambda: 1 / 0})

    with pytest.raises(ZeroDivisionError):
        router.predict("s", QUESTIONS)
    assert current_call() is None


def test_a_route_inside_a_router_call_knows_nothing_of_the_run_that_follows() -> None:
    """L-12: the route's context is its own, with run_id, states and decision."""
    tree = Tree()
    router = router_with(tree)
    router.predict(GERMAN, QUESTIONS)

    (route,), (run,) = tree.of("route"), tree.of("router")
    assert route.run_id != run.run_id
    assert route.decision == run.decision
    assert (route.model, route.agent, route.results) == (None, None, None)
