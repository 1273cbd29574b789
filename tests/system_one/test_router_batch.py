"""Router.predict_batch: checkpoint by checkpoint, shared passes, one lifecycle per request."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import pytest
from fakes import QUESTIONS, SKIPPED, Recorder, RouterRecorder, StubAgent, StubRouter, fails_with
from tiny import make_checkpoint

from jevlaya_lab.system_one import lifecycle
from jevlaya_lab.system_one.agent import Agent
from jevlaya_lab.system_one.context import PredictContext
from jevlaya_lab.system_one.errors import InvalidInput, InvalidOption, InvalidResult
from jevlaya_lab.system_one.router import Router

ENGLISH = "I was charged twice and would like to have my money back."
GERMAN = "Mein Konto wurde zweimal belastet, und ich möchte mein Geld zurück."
FRENCH = "Mon compte a été débité deux fois, je voudrais un remboursement."

CHOICE = {"c": {"type": "choice", "instructions": "x", "criteria": ["a", "b"]}}
TURNED = {"c": {"type": "choice", "instructions": "x", "criteria": ["b", "a"]}}


def ask(state: str, model: str | None = "english", **more: Any) -> dict[str, Any]:
    return {"state": state, "questions": QUESTIONS, "model": model, **more}


class Named(RouterRecorder):
    """Writes the state behind each event, so that a log shows which request it was."""

    def _note(self, event: str, ctx: PredictContext, detail: str = "") -> Any:
        return super()._note(event, ctx, detail or f" {ctx.states[0]}")


@pytest.fixture(scope="module")
def router(tmp_path_factory: pytest.TempPathFactory) -> Router:
    """A Router over two small cross-encoders; one has temperatures by language."""
    folder = tmp_path_factory.mktemp("checkpoints")
    names = ("english", "multilingual")
    models = {n: make_checkpoint(folder / n, seed=i) for i, n in enumerate(names)}
    return Router(
        models,
        agent_kwargs={"lang_temperatures": {"de": {"temperature": [4.0, 3.0, 2.0]}}},
        max_loaded=3,
    )


def test_each_result_is_what_predict_gives_for_that_request(router: Router) -> None:
    """L-18: input order, own budgets, schemas and language, whatever shares a pass."""
    requests = [
        {"state": GERMAN, "questions": CHOICE},
        {"state": ENGLISH, "questions": CHOICE},
        {"state": GERMAN, "questions": TURNED, "max_len": 40},
        {"state": FRENCH, "questions": {**QUESTIONS, **CHOICE}},
        {"state": {"text": GERMAN}, "questions": CHOICE, "lang": "en"},
        {"state": ENGLISH, "questions": CHOICE, "model": "ml", "lang": "de"},
        {"state": GERMAN, "questions": CHOICE, "head_max_len": 16},
        {"state": GERMAN, "questions": CHOICE},
        {"state": "ok", "questions": CHOICE, "lang_guess": lambda state: "fr"},
    ]

    together = router.predict_batch(requests)
    alone = [router.predict(**request) for request in requests]

    for one, other in zip(together, alone, strict=True):
        assert one["routing"] == other["routing"]
        assert one["usage"] == other["usage"]
        for qid, answer in other["answers"].items():
            for key, value in answer.items():
                given = one["answers"][qid][key]
                numbers = isinstance(value, (float, dict)) and key != "legend"
                assert given == pytest.approx(value, abs=2e-4) if numbers else given == value
    assert together[0]["answers"] != together[1]["answers"]


def test_every_request_is_routed_first_and_nothing_is_loaded_yet() -> None:
    """L-19: on_route once per request, in input order."""
    log: list[str] = []
    router = StubRouter(log, hooks=Named(log))

    router.predict_batch([ask("a"), ask("b", "ml"), ask("c")])

    assert log[:3] == ["hook.route a", "hook.route b", "hook.route c"]
    assert log[3] == "build english"


def test_route_batch_gives_the_decisions_in_order_and_explains() -> None:
    """L-19: the same as route for each, without a load."""
    router = StubRouter()
    requests = [
        {"state": state, "questions": QUESTIONS} for state in (GERMAN, ENGLISH, "ok", FRENCH)
    ]

    decisions = router.route_batch(requests, explain=True)

    assert [d.model for d in decisions] == ["multilingual", "english", "english", "multilingual"]
    assert decisions == [router.route(**request, explain=True) for request in requests]
    assert router.log == []
    assert router.route_batch([]) == []


def test_checkpoints_follow_each_other_in_order_of_first_appearance() -> None:
    """L-20: one group per checkpoint; an alias that a hook set shares it."""
    log: list[str] = []

    def pin(ctx: PredictContext) -> None:
        if ctx.states == ["c"]:
            ctx.decision = {"model": "ml"}

    hook = RouterRecorder(route=pin)
    router = StubRouter(log, hooks=hook)
    results = router.predict_batch(
        [ask("a", "multilingual"), ask("b"), ask("c"), ask("d", "typed"), ask("e")]
    )

    built = [entry for entry in log if entry.startswith("build")]
    assert built == ["build multilingual", "build english", "build typed-decisions"]
    assert [calls[1] for stub in router.stubs for calls in stub.calls] == [
        *(["a", "c"], ["b", "e"], ["d"])
    ]
    assert [r["answers"]["of"] for r in results] == ["a", "b", "c", "d", "e"]
    models = {c.states[0]: c.model for c in hook.contexts if c.scope == "router"}
    assert models == {
        "a": "multilingual",
        "b": "english",
        "c": "multilingual",
        "d": "typed-decisions",
        "e": "english",
    }


def test_each_request_has_a_context_of_its_own_seeded_with_its_budget() -> None:
    """L-21: own run_id, states, questions, decision, budgets; a start hook overrides them."""

    def widen(ctx: PredictContext) -> None:
        if ctx.states == ["b"]:
            ctx.max_len = 77

    hook = Recorder(start=widen)
    router = StubRouter()
    router.predict_batch([ask("a", max_len=50), ask("b", max_len=50), ask("c")], hooks=hook)

    contexts = hook.contexts[:3]
    assert len({ctx.run_id for ctx in contexts}) == 3
    assert [ctx.states for ctx in contexts] == [["a"], ["b"], ["c"]]
    assert [ctx.max_len for ctx in contexts] == [50, 77, None]
    assert all(ctx.agent is router.stubs[0] and ctx.router is router for ctx in contexts)
    assert all(ctx.decision.model == ctx.model == "english" for ctx in contexts)
    assert all(ctx.elapsed_ms is not None for ctx in contexts)
    assert {(ctx.scope, ctx.entry) for ctx in contexts} == {("router", "predict_batch")}
    assert [(c[1], c[3]) for c in router.stubs[0].calls] == [
        (["a"], {"max_len": 50}),
        (["b"], {"max_len": 77}),
        (["c"], {}),
    ]


def test_all_start_hooks_of_a_checkpoint_run_before_its_end_hooks() -> None:
    """L-22, L-26: and the ends come in reverse order."""
    log: list[str] = []
    hook = Named(log)
    StubRouter().predict_batch([ask("a"), ask("x", "ml"), ask("b")], hooks=hook)

    assert log[3:] == [
        *("hook.start a", "hook.start b", "hook.end b", "hook.end a"),
        *("hook.start x", "hook.end x"),
    ]


def test_a_cache_cannot_serve_a_duplicate_of_the_same_group_but_of_the_next_call() -> None:
    """L-22: what an end hook stores comes too late for the group that it is in."""
    cache: dict[str, Any] = {}

    def look(ctx: PredictContext) -> None:
        if ctx.states[0] in cache:
            ctx.skip([cache[ctx.states[0]]])

    def store(ctx: PredictContext) -> None:
        cache[ctx.states[0]] = ctx.results[0]  # type: ignore[index]

    router = StubRouter(hooks=Recorder(start=look, end=store))
    router.predict_batch([ask("same"), ask("same"), ask("same", "ml")])
    router.predict_batch([ask("same")])

    assert [call[1] for call in router.stubs[0].calls] == [["same", "same"]]
    assert [stub.calls for stub in router.stubs[1:]] == [[]]  # of the other checkpoint: a hit


def test_what_is_left_is_grouped_by_questions_budgets_and_order_of_options() -> None:
    """L-23: one predict_batch per (questions, max_len, head_max_len)."""
    router = StubRouter()
    router.predict_batch(
        [
            {"state": "a", "questions": CHOICE, "model": "english"},
            {"state": "b", "questions": TURNED, "model": "english"},
            {"state": "c", "questions": {"c": dict(CHOICE["c"])}, "model": "english"},
            {"state": "d", "questions": CHOICE, "model": "english", "max_len": 64},
            {"state": "e", "questions": CHOICE, "model": "english", "head_max_len": 64},
            {"state": "f", "questions": CHOICE, "model": "english", "max_len": 64},
            {"state": "g", "questions": CHOICE, "model": "english"},
        ],
        batch_size=5,
        sort_by_length=True,
    )

    given = {"batch_size": 5, "sort_by_length": True}
    assert [(call[1], call[3]) for call in router.stubs[0].calls] == [
        (["a", "c", "g"], given),
        (["b"], given),
        (["d", "f"], {**given, "max_len": 64}),
        (["e"], {**given, "head_max_len": 64}),
    ]
    assert all(call[0] == "predict_batch" for call in router.stubs[0].calls)


def test_languages_split_a_group_only_where_the_agent_has_temperatures_for_them() -> None:
    """L-23: by language where the agent has per-language temperatures."""
    requests = [
        {"state": state, "questions": QUESTIONS, "model": "ml", "lang": lang}
        for state, lang in (("a", "de"), ("b", "fr"), ("c", "de"))
    ]
    router = StubRouter()
    router.predict_batch(requests)
    (stub,) = router.stubs
    assert [call[1] for call in stub.calls] == [["a", "b", "c"]]

    stub.calls.clear()
    stub.lang_temperatures = {"de": {"temperature": [1, 1, 1]}}
    router.predict_batch(requests)
    assert [(call[1], call[3]) for call in stub.calls] == [
        (["a", "c"], {"lang": "de"}),
        (["b"], {"lang": "fr"}),
    ]

    stub.calls.clear()  # explicit model=: nothing is detected; otherwise the detected one counts
    router.predict_batch([{"state": s, "questions": QUESTIONS} for s in (GERMAN, FRENCH, GERMAN)])
    assert [(len(call[1]), call[3]) for call in stub.calls] == [
        (2, {"lang": "de"}),
        (1, {"lang": "fr"}),
    ]


def test_assigning_changes_one_request_and_changing_in_place_all_that_share() -> None:
    """L-24: new states, questions or budgets are the request's own; a shared dict is shared."""

    def act(ctx: PredictContext) -> None:
        if ctx.states == ["b"]:
            ctx.states, ctx.questions = ["B"], CHOICE
        if ctx.states == ["c"]:
            ctx.questions["late"] = QUESTIONS["q"]

    shared: dict[str, Any] = dict(QUESTIONS)
    requests = [{"state": s, "questions": shared, "model": "english"} for s in "abc"]
    router = StubRouter()
    router.predict_batch(requests, on_predict_start=act)

    assert [(call[1], list(call[2])) for call in router.stubs[0].calls] == [
        (["a", "c"], ["q", "late"]),
        (["B"], ["c"]),
    ]
    assert list(shared) == ["q", "late"]
    assert [request["state"] for request in requests] == ["a", "b", "c"]


def test_usage_is_set_once_per_request() -> None:
    """L-25: before the end hooks, of hits as well; an end hook's own figure stays."""
    seen: list[Any] = []

    def start(ctx: PredictContext) -> None:
        if ctx.states == ["b"]:
            ctx.skip([dict(SKIPPED)])

    def end(ctx: PredictContext) -> None:
        seen.append((ctx.states[0], dict(ctx.usage or {})))
        ctx.usage = {"mine": 1}

    hook = Recorder(start=start, end=end)
    StubRouter().predict_batch([ask("a"), ask("b")], hooks=hook)

    assert seen == [
        ("b", {"input_tokens": 5, "output_tokens": 2}),
        ("a", {"input_tokens": 1, "output_tokens": 0}),
    ]
    assert all(ctx.usage == {"mine": 1} for ctx in hook.contexts)


def test_start_and_end_nest_like_brackets() -> None:
    """L-26: what a start hook sets and an end hook resets comes back to what it was."""
    variable: ContextVar[str] = ContextVar("variable", default="outside")
    tokens: dict[str, Any] = {}
    found: list[str] = []

    def start(ctx: PredictContext) -> None:
        tokens[ctx.run_id] = variable.set(ctx.states[0])

    def end(ctx: PredictContext) -> None:
        found.append(variable.get())
        variable.reset(tokens[ctx.run_id])

    hook = Recorder(start=start, end=end)
    StubRouter().predict_batch([ask("a"), ask("b"), ask("c")], hooks=hook)

    assert found == ["c", "b", "a"]
    assert variable.get() == "outside"


def test_a_failing_group_fails_every_started_request_of_it() -> None:
    """L-27: hits and answered ones included, in reverse order; those not started hear nothing."""
    failure = RuntimeError("of d")
    log: list[str] = []

    def start(ctx: PredictContext) -> None:
        if ctx.states == ["a"]:
            ctx.skip([dict(SKIPPED)])
        if ctx.states == ["d"]:
            raise failure

    hook = Named(log, start=start)
    router = StubRouter()
    with pytest.raises(RuntimeError) as caught:
        router.predict_batch([ask(s) for s in "abde"], hooks=hook)

    assert caught.value is failure
    assert log[4:] == [
        *("hook.start a", "hook.start b", "hook.start d"),
        *("hook.error d", "hook.end d", "hook.error b", "hook.end b", "hook.error a", "hook.end a"),
    ]
    assert all(ctx.error is failure for ctx in hook.contexts[4:])
    assert router.stubs[0].calls == []


def test_a_failing_pass_fails_the_requests_that_were_answered_before_it() -> None:
    """L-27: already inferred ones included."""
    router = StubRouter()
    stub = StubAgent()
    answer = stub._answer

    def fail_on_choice(method: str, states: Any, questions: Any, options: Any) -> Any:
        if "c" in questions:
            raise RuntimeError("no choices")
        return answer(method, states, questions, options)

    stub._answer = fail_on_choice  # type: ignore[method-assign]
    router.attach("english", stub)
    hook = Recorder()
    with pytest.raises(RuntimeError, match="no choices"):
        router.predict_batch([ask("a"), {**ask("b"), "questions": CHOICE}], hooks=hook)

    assert hook.log == [
        *("hook.start", "hook.start"),
        *("hook.error", "hook.end", "hook.error", "hook.end"),
    ]
    assert [str(ctx.error) for ctx in hook.contexts[2:]] == ["no choices"] * 4
    assert [ctx.results is None for ctx in hook.contexts[:2]] == [False, True]


def test_every_started_request_gets_its_one_end_even_if_anothers_raises() -> None:
    """L-28: the first error of an end hook is raised after all have run."""
    log: list[str] = []

    def end(ctx: PredictContext) -> None:
        if ctx.states[0] in "bc":
            raise RuntimeError(f"end of {ctx.states[0]}")

    with pytest.raises(RuntimeError, match="end of c"):
        StubRouter().predict_batch([ask(s) for s in "abcd"], hooks=Named(log, end=end))

    assert log[8:] == ["hook.end d", "hook.end c", "hook.end b", "hook.end a"]


def test_groups_that_were_done_keep_their_ends() -> None:
    """L-29: they get no error, and their checkpoints' requests are not run again."""
    router = StubRouter(first={"multilingual": lambda: (_ for _ in ()).throw(OSError("no disk"))})
    hook = Recorder()

    with pytest.raises(OSError, match="no disk"):
        router.predict_batch([ask("a"), ask("b", "ml")], hooks=hook)

    assert hook.log == ["hook.start", "hook.end"]
    assert hook.contexts[0].error is None
    assert router.loaded == ["english"]


def test_an_empty_batch_gives_an_empty_list_and_no_hook_runs() -> None:
    """L-36: there is no request for which a hook could run."""
    hook = RouterRecorder()

    assert StubRouter(hooks=hook).predict_batch([]) == []
    assert hook.log == []


def test_requests_without_questions_get_empty_answers_and_their_hooks(router: Router) -> None:
    """L-36: start and end hooks run all the same."""
    hook = Recorder()
    found = router.predict_batch([{"state": "s", "questions": {}}] * 2, hooks=hook)

    assert [result["answers"] for result in found] == [{}, {}]
    assert hook.log == ["hook.start", "hook.start", "hook.end", "hook.end"]


def test_a_checkpoint_of_a_finished_group_can_be_evicted_for_the_next() -> None:
    """L-32: one slot is enough for a batch over three checkpoints."""
    log: list[str] = []
    router = StubRouter(log, max_loaded=1, hooks=RouterRecorder(log))

    found = router.predict_batch([ask("a"), ask("b", "ml"), ask("c", "typed"), ask("d")])

    assert [r["answers"]["of"] for r in found] == ["a", "b", "c", "d"]
    assert router.loaded == ["typed-decisions"]
    assert [entry for entry in log if "evict" in entry or "load" in entry] == [
        *("hook.load english", "hook.evict english", "hook.load multilingual"),
        *("hook.evict multilingual", "hook.load typed-decisions"),
    ]


def test_an_agent_that_gives_another_number_of_results_is_named() -> None:
    router = StubRouter()
    stub = StubAgent()
    stub.predict_batch = lambda states, questions, **_: []  # type: ignore[method-assign, assignment]
    router.attach("english", stub)

    with pytest.raises(InvalidResult, match=r"StubAgent.predict_batch gave 0 results for 2 states"):
        router.predict_batch([ask("a"), ask("b")])


def test_a_budget_that_a_hook_sets_is_checked_before_anything_is_asked() -> None:
    def start(ctx: PredictContext) -> None:
        ctx.max_len = 0 if ctx.states == ["b"] else 99

    router = StubRouter()
    with pytest.raises(InvalidOption, match="max_len must be a whole number of at least 8, got 0"):
        router.predict_batch([ask("a"), ask("b")], on_predict_start=start)

    assert router.stubs[0].calls == []


def test_real_agents_share_the_forward_passes_of_a_group(tmp_path: Any) -> None:
    """L-23: one pass for all requests that ask the same."""
    router = Router({"english": make_checkpoint(tmp_path / "c")})
    seen: list[Any] = []
    agent: Agent = router.load("english")
    agent.add_hook(Recorder(end=lambda ctx: seen.append((len(ctx.states), ctx.timings))))

    router.predict_batch([ask(f"state {i}") for i in range(6)])

    ((n_states, timings),) = seen
    assert n_states == 6
    assert len(timings.forwards) == 1


def test_fails_with_reaches_the_caller_unchanged_from_a_batch() -> None:
    """L-7: the same exception object."""
    failure = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt) as caught:
        StubRouter().predict_batch([ask("a")], hooks=Recorder(start=fails_with(failure)))

    assert caught.value is failure


def test_bad_input_is_named_by_its_request_also_where_the_agent_finds_it(router: Router) -> None:
    bad: dict[str, Any] = {"q": {"type": "riddle", "instructions": "x"}}
    ring: dict[str, Any] = {"q": {"type": "noul", "instructions": []}}
    ring["q"]["instructions"].append(ring["q"]["instructions"])
    router.preload(["english"])

    for request, message in (
        ({"state": float("nan"), "questions": QUESTIONS}, "request 3: state 0 is nan"),
        ({"state": "d", "questions": bad}, "request 3: question 'q'"),
        ({"state": "d", "questions": ring}, "request 3: question 'q'"),
    ):
        batch = [*[ask(s) for s in "abc"], {**request, "model": "english"}]
        with pytest.raises(InvalidInput, match=message):
            router.predict_batch(batch)
    with pytest.raises(InvalidResult, match="where a list with one result belongs"):
        router.predict_batch([ask("a")], on_predict_start=lambda ctx: setattr(ctx, "results", 5))


def test_an_interrupt_between_two_ends_keeps_none_from_ending(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """L-28: whatever comes between."""
    log: list[str] = []
    real, calls = lifecycle.aggregate_usage, iter([0, 1, 2])

    def interrupted(results: Any) -> Any:
        if next(calls) == 1:
            raise KeyboardInterrupt
        return real(results)

    monkeypatch.setattr(lifecycle, "aggregate_usage", interrupted)
    with pytest.raises(KeyboardInterrupt):
        StubRouter().predict_batch([ask(s) for s in "abc"], hooks=Named(log))

    assert log[6:] == ["hook.end c", "hook.end b", "hook.end a"]
