"""The order of events: of one agent call, and of several runs that share their work."""

from __future__ import annotations

import asyncio
import itertools
import signal
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import (
    PATIENCE,
    QUESTIONS,
    SKIPPED,
    Recorder,
    RecordingNetwork,
    context_chain,
    fails_with,
    make_agent,
    promptly,
)
from hypothesis import given
from hypothesis import strategies as st

from jevlaya_lab.system_one import lifecycle
from jevlaya_lab.system_one.agent import Agent
from jevlaya_lab.system_one.call_tree import current_call
from jevlaya_lab.system_one.context import PredictContext
from jevlaya_lab.system_one.errors import InvalidState
from jevlaya_lab.system_one.hooks import ActiveHooks, HookRegistry
from jevlaya_lab.system_one.models.instant import InstantNetwork

# --- the agent -------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["predict", "system_one"])
def test_a_single_state_is_a_batch_of_one(method: str) -> None:
    """L-1: predict and system_one are predict_batch([state], …)[0]."""
    hook = Recorder()
    agent = make_agent(hooks=hook)
    options = {"max_len": 8, "head_max_len": 9, "min_confidence": 0.1}

    one = getattr(agent, method)({"a": 1}, QUESTIONS, **options)

    assert one == agent.predict_batch([{"a": 1}], QUESTIONS, **options)[0]
    assert hook.contexts[0].states == [{"a": 1}]
    assert (hook.contexts[0].max_len, hook.contexts[0].head_max_len) == (8, 9)


@pytest.mark.parametrize("method", ["predict", "system_one"])
def test_predict_batch_is_the_only_implementation(method: str) -> None:
    """L-1: what a subclass makes of predict_batch is what the single-state methods give."""

    class Constant(Agent):
        def predict_batch(self, states: Any, questions: Any, *_: Any, **__: Any) -> Any:
            return [(states, questions)]

    agent = Constant("test", network=InstantNetwork())

    assert getattr(agent, method)("a", QUESTIONS) == (["a"], QUESTIONS)


@pytest.mark.parametrize("method", ["predict", "system_one"])
def test_single_state_methods_run_every_kind_of_hook(method: str) -> None:
    """L-1: the single-state methods inherit every hook."""
    log: list[str] = []
    agent = make_agent(hooks=Recorder(log, "installed"))

    getattr(agent, method)(
        "a",
        QUESTIONS,
        hooks=Recorder(log, "call"),
        on_predict_start=lambda ctx: log.append("function.start"),
        on_predict_end=lambda ctx: log.append("function.end"),
    )

    assert log == [
        *("installed.start", "call.start", "function.start"),
        *("installed.end", "call.end", "function.end"),
    ]


def test_the_context_says_what_the_call_is_about() -> None:
    """L-3: the context is built with states, questions, the model's name and the agent."""
    hook = Recorder()
    agent, states = make_agent(), ["a", "b"]

    agent.predict_batch(states, QUESTIONS, hooks=hook)

    ctx = hook.contexts[0]
    assert ctx.states is states
    assert ctx.questions is QUESTIONS
    assert (ctx.model, ctx.agent) == ("test", agent)
    assert (ctx.router, ctx.decision) == (None, None)


def test_a_start_hook_rewrites_states_and_questions() -> None:
    """L-4: what is asked is what the start hooks left."""
    network = RecordingNetwork()

    def rewrite(ctx: PredictContext) -> None:
        ctx.states = ["redacted", "added"]
        ctx.questions = {"other": {"type": "score", "instructions": "How?", "criteria": ["x"]}}

    results = make_agent(network).predict_batch(["secret"], QUESTIONS, on_predict_start=rewrite)

    assert network.steps[:3] == ["prepare", "encode redacted", "encode added"]
    assert [list(result["answers"]) for result in results] == [["other"], ["other"]]


def test_a_start_hook_sets_the_budgets() -> None:
    """L-4: ctx.max_len and ctx.head_max_len override what the call gave."""
    network = RecordingNetwork()

    def shrink(ctx: PredictContext) -> None:
        assert (ctx.max_len, ctx.head_max_len) == (100, 50)
        ctx.max_len, ctx.head_max_len = 30, 20

    make_agent(network).predict(
        "a", QUESTIONS, max_len=100, head_max_len=50, on_predict_start=shrink
    )

    assert (network.budgets[0].max_len, network.budgets[0].head_max_len) == (30, 20)


def test_a_start_hook_that_raises_aborts_the_call() -> None:
    """L-4: neither the hooks behind it nor the network run, and its error comes out."""
    log: list[str] = []
    network, refusal = RecordingNetwork(), PermissionError("over budget")
    hooks = [Recorder(log, "A", start=fails_with(refusal)), Recorder(log, "B")]

    with pytest.raises(PermissionError) as caught:
        make_agent(network).predict("a", QUESTIONS, hooks=hooks)

    assert caught.value is refusal
    assert log == ["A.start", "A.error", "B.error", "A.end", "B.end"]
    assert network.steps == []


def test_a_skipped_call_never_reaches_the_network() -> None:
    """L-5: after skip neither tokenisation nor a forward pass; the results are the skipped ones."""
    log: list[str] = []
    network = RecordingNetwork()
    hooks = [Recorder(log, "A", start=lambda ctx: ctx.skip([SKIPPED])), Recorder(log, "B")]

    result = make_agent(network).predict("a", QUESTIONS, hooks=hooks)

    assert result is SKIPPED
    assert network.steps == []
    assert log == ["A.start", "B.start", "A.end", "B.end"]
    assert hooks[0].contexts[0].skipped


def test_a_skipped_call_is_not_judged() -> None:
    """L-5: what would be refused on the way to the network may be answered by a hook."""
    skip = Recorder(start=lambda ctx: ctx.skip([SKIPPED]))

    assert make_agent().predict(None, {"q": {"type": "?"}}, hooks=skip, max_len=-1) is SKIPPED


def test_skipping_with_no_results_at_all_is_a_skip() -> None:
    """L-5: an empty list is a result, not a miss."""
    network = RecordingNetwork()
    hook = Recorder(start=lambda ctx: setattr(ctx, "results", []))

    assert make_agent(network).predict_batch(["a"], QUESTIONS, hooks=hook) == []
    assert network.steps == []


def test_results_appear_between_the_start_and_the_end_hooks() -> None:
    """L-6: ctx.results is set once the answers are decoded, before the end hooks."""
    seen: list[Any] = []
    network = RecordingNetwork()
    hook = Recorder(
        start=lambda ctx: seen.append(ctx.results),
        end=lambda ctx: seen.append((list(network.steps), ctx.results)),
    )

    results = make_agent(network).predict_batch(["a"], QUESTIONS, hooks=hook)

    assert seen == [None, (["prepare", "encode a", "collate 1", "forward 1"], results)]


def test_states_are_judged_as_the_hooks_left_them() -> None:
    """L-6: a hook may make a list of what is none; without it the call fails."""
    agent = make_agent()

    def wrap(ctx: PredictContext) -> None:
        ctx.states = [ctx.states]

    assert len(agent.predict_batch("a", QUESTIONS, on_predict_start=wrap)) == 1
    with pytest.raises(InvalidState):
        agent.predict_batch("a", QUESTIONS)


class _Odd(BaseException):
    """No Exception, as KeyboardInterrupt is none."""


ERRORS = [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit, _Odd]


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("step", ["prepare", "encode", "collate", "forward"])
def test_a_failure_of_any_step_runs_on_error(step: str, error: type[BaseException]) -> None:
    """L-7: it sets ctx.error, runs on_error, and the same exception comes out."""
    failure, seen = error("broken"), []
    hook = Recorder(error=lambda ctx: seen.append(ctx.error))
    agent = make_agent(RecordingNetwork(failing={step: failure}), hooks=hook)

    with pytest.raises(error) as caught:
        agent.predict("a", QUESTIONS)

    assert caught.value is failure
    assert seen == [failure]
    assert hook.log == ["hook.start", "hook.error", "hook.end"]


@pytest.mark.parametrize("error", ERRORS)
def test_a_failing_start_hook_runs_on_error(error: type[BaseException]) -> None:
    """L-7: a start hook's failure, KeyboardInterrupt included, counts like any other."""
    failure = error("broken")
    hook = Recorder(start=fails_with(failure))

    with pytest.raises(error) as caught:
        make_agent(hooks=hook).predict("a", QUESTIONS)

    assert caught.value is failure
    assert [ctx.error for ctx in hook.contexts[1:]] == [failure, failure]


def test_an_interrupt_from_the_keyboard_ends_the_run_properly() -> None:
    """L-7: a real Ctrl-C during the forward pass reaches on_error and on_predict_end."""
    network, hook = RecordingNetwork(), Recorder()
    network.pauses["a"] = lambda: signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        make_agent(network, hooks=hook).predict("a", QUESTIONS)

    assert hook.log == ["hook.start", "hook.error", "hook.end"]


def test_end_hooks_see_time_and_usage() -> None:
    """L-8: elapsed_ms and usage, summed over the results, are set before on_predict_end."""
    seen: list[Any] = []
    hook = Recorder(
        start=lambda ctx: seen.append((ctx.elapsed_ms, ctx.usage)),
        end=lambda ctx: seen.append((ctx.elapsed_ms, ctx.usage)),
    )

    make_agent(hooks=hook).predict_batch(["a b c", "a"], QUESTIONS)

    (before, unused), (elapsed, usage) = seen
    assert (before, unused) == (None, None)
    assert elapsed > 0
    # Three words of the first state, one of the second, and three of the question for each.
    assert usage == {"input_tokens": 10, "output_tokens": 0}


def test_usage_of_a_skipped_call_is_that_of_its_results() -> None:
    """L-8: usage is the sum over the results, whoever supplied them."""
    hook = Recorder(start=lambda ctx: ctx.skip([SKIPPED, SKIPPED]))

    make_agent(hooks=hook).predict_batch(["a", "b"], QUESTIONS)

    assert hook.contexts[0].usage == {"input_tokens": 10, "output_tokens": 4}


def test_there_is_no_usage_without_results() -> None:
    """L-8: for [] and for a call that failed, usage stays None; the end hooks run all the same."""
    hook = Recorder()
    agent = make_agent(hooks=hook)

    agent.predict_batch([], QUESTIONS)
    with pytest.raises(InvalidState):
        agent.predict_batch([None], QUESTIONS)

    assert hook.log == ["hook.start", "hook.end", "hook.start", "hook.error", "hook.end"]
    assert [ctx.usage for ctx in hook.contexts] == [None] * 5
    assert all(ctx.elapsed_ms > 0 for ctx in hook.contexts)


def test_time_is_measured_from_the_start_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """L-8: elapsed_ms is the time since ctx.started_at, that of on_error included."""
    clock = SimpleNamespace(now=100.0, perf_counter=lambda: clock.now)
    monkeypatch.setattr(lifecycle, "time", clock)

    def pass_time(seconds: float) -> Callable[[PredictContext], None]:
        def wait(_: PredictContext) -> None:
            clock.now += seconds

        return wait

    ctx = PredictContext([], {}, started_at=100.0)
    hook = Recorder(start=pass_time(1.0), error=pass_time(0.25))
    seen: list[float | None] = []
    hook_of_end = Recorder(end=lambda ctx: seen.append(ctx.elapsed_ms))

    def work(_: Any) -> None:
        clock.now += 2.0
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011
        lifecycle.run([ctx], HookRegistry([hook, hook_of_end]).active_hooks(), work)

    assert seen == [3250.0]


@pytest.mark.parametrize(
    "results",
    [
        7,
        [{"usage": {"input_tokens": float("nan"), "output_tokens": float("inf")}}],
        [{"usage": "many"}, "no result", None],
    ],
    ids=["no list", "no numbers", "no results"],
)
def test_end_hooks_run_whatever_a_hook_left_as_results(results: Any) -> None:
    """L-8: on_predict_end runs always, also where no usage can be summed."""
    hook = Recorder(start=lambda ctx: setattr(ctx, "results", results))

    assert make_agent(hooks=hook).predict_batch(["a"], QUESTIONS) is results
    assert hook.log == ["hook.start", "hook.end"]


def test_one_context_goes_through_start_error_and_end() -> None:
    """L-9: it is one and the same object, and the end hook can read its error."""
    failure = ValueError("broken")
    hook = Recorder()

    with pytest.raises(ValueError, match="broken"):
        make_agent(RecordingNetwork(failing={"forward": failure}), hooks=hook).predict(
            "a", QUESTIONS
        )

    start, error, end = hook.contexts
    assert start is error is end
    assert end.error is failure


def test_every_call_has_a_run_id_of_its_own() -> None:
    """L-9: run_id tells the runs apart."""
    hook = Recorder()
    agent = make_agent(hooks=hook)

    agent.predict("a", QUESTIONS)
    agent.predict("a", QUESTIONS)

    first, first_end, second, second_end = (ctx.run_id for ctx in hook.contexts)
    assert first == first_end != second == second_end


@pytest.mark.parametrize("left", [[{"mine": 1}], [], "anything", None])
def test_a_call_returns_what_the_end_hooks_left(left: Any) -> None:
    """L-10: whatever stands in ctx.results at the end."""

    def rewrite(ctx: PredictContext) -> None:
        ctx.results = left

    assert make_agent().predict_batch(["a"], QUESTIONS, on_predict_end=rewrite) is left


def test_end_hooks_see_what_earlier_ones_left() -> None:
    """L-10: they rewrite one after the other."""
    first = Recorder(end=lambda ctx: ctx.results.append("first"))
    second = Recorder(end=lambda ctx: ctx.results.append("second"))

    results = make_agent().predict_batch(["a"], QUESTIONS, hooks=[first, second])

    assert results[1:] == ["first", "second"]


@pytest.mark.parametrize(
    ("states", "questions", "n_results"), [([], QUESTIONS, 0), (["a", "b"], {}, 2), ([], {}, 0)]
)
def test_empty_input_runs_the_hooks_and_nothing_else(
    states: list[str], questions: dict[str, Any], n_results: int
) -> None:
    """L-36: empty payloads, no tokenisation, no forward pass, start and end hooks."""
    network, hook = RecordingNetwork(), Recorder()

    results = make_agent(network, hooks=hook).predict_batch(states, questions)

    empty = {"model": "test", "answers": {}, "usage": {"input_tokens": 0, "output_tokens": 0}}
    assert results == [empty] * n_results
    assert network.steps == []
    assert hook.log == ["hook.start", "hook.end"]


def test_one_state_without_questions_gets_one_empty_payload() -> None:
    """L-36: system_one(state, {}) gives a single empty answer payload."""
    assert make_agent().system_one("a", {}) == {
        "model": "test",
        "answers": {},
        "usage": {"input_tokens": 0, "output_tokens": 0},
    }


def test_empty_payloads_are_not_shared() -> None:
    """L-36: one payload per state, so that an end hook may write into it."""
    first, second = make_agent().predict_batch(["a", "b"], {})

    assert first is not second
    assert first["usage"] is not second["usage"]


def test_end_hooks_run_in_the_order_of_start_hooks() -> None:
    """L-37: installed before per-call, list order, event by event, the ends not reversed."""
    log: list[str] = []
    a, b, c = (Recorder(log, name) for name in "ABC")

    make_agent(hooks=[a, b]).predict("a", QUESTIONS, hooks=[c])

    assert log == ["A.start", "B.start", "C.start", "A.end", "B.end", "C.end"]


def test_error_hooks_run_in_the_same_order() -> None:
    """L-37: for one event every hook, before the next event."""
    log: list[str] = []
    hooks = [Recorder(log, name) for name in "AB"]
    network = RecordingNetwork(failing={"forward": ValueError("broken")})

    with pytest.raises(ValueError, match="broken"):
        make_agent(network).predict("a", QUESTIONS, hooks=hooks)

    assert log == ["A.start", "B.start", "A.error", "B.error", "A.end", "B.end"]


@pytest.mark.parametrize("broken", ["error", "end"])
def test_a_failing_hook_does_not_hide_the_failure(broken: str) -> None:
    """L-44: the first failure comes out; the hook's own is behind it in the traceback."""
    failure, later = ValueError("first"), OSError("later")
    hook = Recorder(**{broken: fails_with(later)})

    with pytest.raises(ValueError, match="first") as caught:
        make_agent(RecordingNetwork(failing={"forward": failure}), hooks=hook).predict(
            "a", QUESTIONS
        )

    assert caught.value is failure
    assert context_chain(failure) == [later]
    assert hook.log == ["hook.start", "hook.error", "hook.end"]


def test_an_interrupt_in_an_error_hook_does_not_hide_the_failure() -> None:
    """L-44: not even KeyboardInterrupt in on_error replaces what failed first."""
    failure = ValueError("first")
    hook = Recorder(error=fails_with(KeyboardInterrupt()), end=fails_with(SystemExit()))

    with pytest.raises(ValueError, match="first"):
        make_agent(RecordingNetwork(failing={"forward": failure}), hooks=hook).predict(
            "a", QUESTIONS
        )

    assert hook.log == ["hook.start", "hook.error", "hook.end"]


def test_a_hook_that_raises_the_failure_itself_makes_no_ring() -> None:
    """L-44: `raise ctx.error`, plain or from another error, leaves a chain that ends."""
    failure = ValueError("first")

    def again(ctx: PredictContext) -> None:
        assert ctx.error is not None
        raise ctx.error

    def wrapped(ctx: PredictContext) -> None:
        try:
            again(ctx)
        except ValueError as exc:
            raise OSError("wrapped") from exc

    hooks = [Recorder(error=again, end=wrapped)]

    with pytest.raises(ValueError, match="first"):
        make_agent(RecordingNetwork(failing={"forward": failure}), hooks=hooks).predict(
            "a", QUESTIONS
        )

    assert [str(error) for error in context_chain(failure)] == ["wrapped"]


@given(
    first=st.integers(0, 5),
    raised=st.lists(st.integers(0, 5), max_size=8),
    on_threads=st.booleans(),
    links=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=5),
)
def test_errors_that_refer_to_each_other_make_no_ring(
    first: int, raised: list[int], on_threads: bool, links: list[tuple[int, int]]
) -> None:
    """L-44: hooks that raise any of some related errors leave a chain that ends."""
    errors = [ValueError(str(i)) for i in range(6)]
    for later, earlier in links:
        if later > earlier:  # a chain that ends, as Python makes them
            errors[later].__context__ = errors[earlier]
    todo = iter(raised)

    def fail(_: PredictContext) -> None:
        i = next(todo, None)
        if i is not None:
            raise errors[i]

    hook = Recorder(error=fail, end=fail)

    def work(_: Any) -> None:
        raise errors[first]

    # On a thread of its own Python does not link a hook's error to the failure.
    active = HookRegistry(hook, hooks_timeout=PATIENCE if on_threads else None).active_hooks()
    with pytest.raises(ValueError, match=f"^{first}$") as caught:
        lifecycle.run(_group(3), active, work)

    chain = [caught.value, *context_chain(caught.value)]
    if len(set(raised)) == len(raised):  # raised twice, an error loses what was behind it
        assert {str(error) for error in chain} >= {str(i) for i in raised[:6]}


def test_the_callers_own_exception_is_left_alone() -> None:
    """L-44: an error that the caller was already handling gets nothing chained onto it."""
    handled, failure, later = KeyError("handled"), ValueError("first"), OSError("later")
    hook = Recorder(error=fails_with(later))
    agent = make_agent(RecordingNetwork(failing={"forward": failure}), hooks=hook)

    try:
        raise handled
    except KeyError:
        with pytest.raises(ValueError, match="first"):
            agent.predict("a", QUESTIONS)

    assert handled.__context__ is None
    assert later in context_chain(failure)


@pytest.mark.parametrize("event", ["start", "error", "end"])
@pytest.mark.parametrize(("is_async", "timeout"), [(False, None), (False, PATIENCE), (True, None)])
def test_a_hooks_error_keeps_what_it_was_raised_from(
    event: str, is_async: bool, timeout: float | None
) -> None:
    """L-44: the traceback shows what the hook was handling, also where the caller handles more."""
    cause, raised = LookupError("cause"), OSError("raised")

    def fail(_: PredictContext) -> None:
        try:
            raise cause
        except LookupError:
            raise raised  # noqa: B904  # the implicit link is what is tested

    async def fail_async(ctx: PredictContext) -> None:
        fail(ctx)

    hook = Recorder(**{event: fail_async if is_async else fail})
    network = RecordingNetwork(failing={"forward": ValueError("first")} if event == "error" else {})
    agent = make_agent(network, hooks=hook, hooks_timeout=timeout)

    try:
        raise KeyError("handled by the caller")
    except KeyError:
        with pytest.raises(ValueError if event == "error" else OSError) as caught:
            agent.predict("a", QUESTIONS)

    chain = [caught.value, *context_chain(caught.value)]
    assert raised in chain
    assert chain[chain.index(raised) + 1] is cause


# --- the call tree ---------------------------------------------------------------------------


def _call_back(hook: Any, ctx: PredictContext) -> None:
    """Ask the same agent once more, from the outermost run only."""
    if ctx.parent_run_id is None:
        ctx.agent.predict("inner", QUESTIONS, hooks=hook)


class _Nesting(Recorder):
    """Calls its agent again from one event."""

    def __init__(self, event: str, log: list[str] | None = None) -> None:
        super().__init__(log, **{event: lambda ctx: _call_back(self, ctx)})


class _AsyncNesting(Recorder):
    """The same from coroutines; ``block`` calls without awaiting."""

    def __init__(self, event: str, *, block: bool) -> None:
        async def nest(ctx: PredictContext) -> None:
            if block:
                _call_back(self, ctx)
            else:
                await asyncio.to_thread(_call_back, self, ctx)

        super().__init__(**{event: nest})


NESTING_HOOKS = {
    "inline": (_Nesting, None),
    "timeout": (_Nesting, PATIENCE),
    "async": (lambda event: _AsyncNesting(event, block=True), None),
    "async, in a thread": (lambda event: _AsyncNesting(event, block=False), None),
    "async, timeout": (lambda event: _AsyncNesting(event, block=True), PATIENCE),
}


@pytest.mark.parametrize("event", ["start", "end"])
@pytest.mark.parametrize("way", NESTING_HOOKS)
def test_a_call_from_a_hook_is_part_of_the_same_call(way: str, event: str) -> None:
    """L-40: it shares the call_id, and its parent is the run of the hook that made it."""
    make, timeout = NESTING_HOOKS[way]
    hook = make(event)

    promptly(lambda: make_agent(hooks_timeout=timeout).predict("a", QUESTIONS, hooks=hook))

    outer, inner = dict.fromkeys(hook.contexts)
    assert outer.call_id
    assert inner.call_id == outer.call_id
    assert (outer.parent_run_id, inner.parent_run_id) == (None, outer.run_id)
    assert inner.run_id != outer.run_id


def test_a_call_from_an_error_hook_is_part_of_the_same_call() -> None:
    """L-40: also while the run fails."""
    hook = _Nesting("error")
    agent = make_agent()

    with pytest.raises(InvalidState):
        agent.predict(None, QUESTIONS, hooks=hook)

    outer, inner = dict.fromkeys(hook.contexts)
    assert (inner.call_id, inner.parent_run_id) == (outer.call_id, outer.run_id)


def test_a_call_from_inside_the_work_is_part_of_the_same_call() -> None:
    """L-40: what the work calls has the run as its parent."""
    hook, network = Recorder(), RecordingNetwork()
    agent = make_agent(network, hooks=hook)
    network.pauses["outer"] = lambda: make_agent(hooks=hook).predict("inner", QUESTIONS)

    agent.predict("outer", QUESTIONS)

    outer, inner = dict.fromkeys(hook.contexts)
    assert (inner.call_id, inner.parent_run_id) == (outer.call_id, outer.run_id)


def test_parents_go_down_level_by_level() -> None:
    """L-40: the parent is the run that made the call, not the outermost one."""
    seen: list[PredictContext] = []

    def descend(ctx: PredictContext) -> None:
        seen.append(ctx)
        if len(seen) < 4:
            ctx.agent.predict("a", QUESTIONS, on_predict_start=descend)

    make_agent().predict("a", QUESTIONS, on_predict_start=descend)

    assert [ctx.parent_run_id for ctx in seen] == [None, *(ctx.run_id for ctx in seen[:3])]
    assert len({ctx.call_id for ctx in seen}) == 1


def test_calls_in_a_row_are_calls_of_their_own() -> None:
    """L-40: nothing of a finished call, failed or not, is left behind."""
    hook = Recorder()
    agent = make_agent(hooks=hook)

    agent.predict("a", QUESTIONS)
    with pytest.raises(InvalidState):
        agent.predict(None, QUESTIONS)
    agent.predict("a", QUESTIONS)

    runs = list(dict.fromkeys(hook.contexts))
    assert len({ctx.call_id for ctx in runs}) == 3
    assert [ctx.parent_run_id for ctx in runs] == [None] * 3
    assert current_call() is None


def test_current_call_tells_a_hook_where_it_is() -> None:
    """L-40: inside a hook it names the call and the run."""
    seen: list[Any] = []
    hook = Recorder(start=lambda ctx: seen.append((current_call(), ctx)))

    make_agent().predict("a", QUESTIONS, hooks=hook)

    ((scope, ctx),) = seen
    assert scope[:2] == (ctx.call_id, ctx.run_id)


# --- several runs that share their work ------------------------------------------------------


def _group(n: int) -> list[PredictContext]:
    return [PredictContext([f"s{i}"], QUESTIONS) for i in range(n)]


def _active(*hooks: Any) -> ActiveHooks:
    return HookRegistry(list(hooks)).active_hooks()


class _GroupLog(Recorder):
    """Also tells of which run each event was, as in ``start s0``."""

    @property
    def events(self) -> list[str]:
        return [
            f"{entry.partition('.')[2]} {ctx.states[0]}"
            for entry, ctx in zip(self.log, self.contexts, strict=True)
        ]


def _answer(contexts: Any) -> None:
    for ctx in contexts:
        if ctx.results is None:
            ctx.results = [SKIPPED]


def _for(state: str, action: Callable[[PredictContext], Any]) -> Callable[[PredictContext], Any]:
    """An action for the run of one state only."""
    return lambda ctx: action(ctx) if ctx.states == [state] else None


def test_all_runs_start_before_any_ends() -> None:
    """L-22: all start hooks of a group run before its work, and that before any end hook."""
    hook = _GroupLog()
    log = hook.log

    def work(contexts: Any) -> None:
        assert log == ["hook.start"] * 3
        assert [ctx.states for ctx in contexts] == [["s0"], ["s1"], ["s2"]]
        _answer(contexts)

    lifecycle.run(_group(3), _active(hook), work)

    assert hook.events[:3] == ["start s0", "start s1", "start s2"]
    assert sorted(hook.events[3:]) == ["end s0", "end s1", "end s2"]


def test_each_run_gets_all_its_hooks_before_the_next_one_starts() -> None:
    """L-37: run by run, and for each run hook by hook."""
    log: list[str] = []
    hooks = [
        Recorder(
            log,
            name,
            start=lambda ctx: log.append(ctx.states[0]),
            end=lambda ctx: log.append(ctx.states[0]),
        )
        for name in "AB"
    ]

    lifecycle.run(_group(2), _active(*hooks), _answer)

    assert log == [
        *("A.start", "s0", "B.start", "s0", "A.start", "s1", "B.start", "s1"),
        *("A.end", "s1", "B.end", "s1", "A.end", "s0", "B.end", "s0"),
    ]


def test_a_context_is_drawn_just_before_its_start_hooks() -> None:
    """L-21: each run is built when its turn comes, so that its clock starts there."""
    hook = Recorder()

    def drawn() -> Iterator[PredictContext]:
        for ctx in _group(2):
            hook.log.append("drawn")
            yield ctx

    lifecycle.run(drawn(), _active(hook), _answer)

    assert hook.log[:4] == ["drawn", "hook.start", "drawn", "hook.start"]


def test_runs_end_in_reverse_order() -> None:
    """L-26: the last to start is the first to end."""
    hook = _GroupLog()

    lifecycle.run(_group(3), _active(hook), _answer)

    assert hook.events[3:] == ["end s2", "end s1", "end s0"]


def test_set_and_reset_of_a_context_variable_nest() -> None:
    """L-26: what a start hook sets and the end hook resets is back to what it was."""
    variable: ContextVar[str] = ContextVar("variable", default="before")
    tokens: dict[str, Any] = {}

    def enter(ctx: PredictContext) -> None:
        tokens[ctx.run_id] = variable.set(ctx.states[0])

    def leave(ctx: PredictContext) -> None:
        assert variable.get() == ctx.states[0]
        variable.reset(tokens[ctx.run_id])

    lifecycle.run(_group(3), _active(Recorder(start=enter, end=leave)), _answer)

    assert variable.get() == "before"


def test_a_failure_of_the_work_reaches_every_run_in_reverse_order() -> None:
    """L-27: ctx.error, then on_error, then on_predict_end, run by run, then the same exception."""
    failure = ValueError("broken")
    hook = _GroupLog()
    group = _group(3)

    def work(_: Any) -> None:
        raise failure

    with pytest.raises(ValueError, match="broken") as caught:
        lifecycle.run(group, _active(hook), work)

    assert caught.value is failure
    assert hook.events[3:] == [f"{event} s{i}" for i in (2, 1, 0) for event in ("error", "end")]
    assert [ctx.error for ctx in group] == [failure] * 3


def test_every_run_knows_the_failure_before_the_first_error_hook() -> None:
    """L-27: an error hook of one run can see that the others failed as well."""
    group, seen = _group(3), []
    hook = Recorder(error=lambda _: seen.append([ctx.error for ctx in group]))
    failure = ValueError("broken")

    def work(_: Any) -> None:
        raise failure

    with pytest.raises(ValueError, match="broken"):
        lifecycle.run(group, _active(hook), work)

    assert seen[0] == [failure] * 3


def test_skipped_and_answered_runs_fail_with_the_group() -> None:
    """L-27: cache hits and runs that were already inferred are told of the failure too."""
    hook = _GroupLog(start=_for("s0", lambda ctx: ctx.skip([SKIPPED])))
    group = _group(3)

    def work(contexts: Any) -> None:
        _answer(contexts[:2])
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        lifecycle.run(group, _active(hook), work)

    assert hook.events[3:] == [f"{event} s{i}" for i in (2, 1, 0) for event in ("error", "end")]
    assert [str(ctx.error) for ctx in group] == ["broken"] * 3
    assert [ctx.skipped for ctx in group] == [True, False, False]
    assert [ctx.usage is None for ctx in group] == [False, False, True]


def test_a_run_counts_as_started_before_its_first_hook() -> None:
    """L-27: the run whose start hook fails ends as well; those that never started do not."""
    failure = ValueError("broken")
    hook = _GroupLog(start=_for("s1", fails_with(failure)))
    group = _group(3)

    with pytest.raises(ValueError, match="broken"):
        lifecycle.run(group, _active(hook), _answer)

    assert hook.events == ["start s0", "start s1", "error s1", "end s1", "error s0", "end s0"]
    assert [ctx.error for ctx in group] == [failure, failure, None]


def test_a_failure_while_contexts_are_drawn_ends_those_that_started() -> None:
    """L-27: whatever fails on the way, what started gets its end."""

    def drawn() -> Iterator[PredictContext]:
        yield PredictContext(["s0"], QUESTIONS)
        raise ValueError("broken")

    hook = _GroupLog()

    with pytest.raises(ValueError, match="broken"):
        lifecycle.run(drawn(), _active(hook), _answer)

    assert hook.events == ["start s0", "error s0", "end s0"]


def test_every_run_ends_once_even_if_end_hooks_fail() -> None:
    """L-28: each gets exactly one end; the first error is raised after all have run."""
    first, later = ValueError("first"), OSError("later")
    group = _group(3)
    hook = _GroupLog(
        end=lambda ctx: (
            fails_with({"s2": first, "s1": later}.get(ctx.states[0], first))(ctx)
            if ctx.states != ["s0"]
            else None
        )
    )

    with pytest.raises(ValueError, match="first") as caught:
        lifecycle.run(group, _active(hook), _answer)

    assert caught.value is first
    assert hook.events[3:] == ["end s2", "end s1", "end s0"]
    assert context_chain(first) == [later]
    assert [ctx.error for ctx in group] == [None] * 3


def test_later_errors_stay_in_the_traceback_where_the_caller_handles_another() -> None:
    """L-28: raising the first anew does not cost those behind it."""
    errors = {"s1": ValueError("first"), "s0": OSError("later")}
    hook = Recorder(end=lambda ctx: fails_with(errors[ctx.states[0]])(ctx))

    try:
        raise KeyError("handled by the caller")
    except KeyError:
        with pytest.raises(ValueError, match="first"):
            lifecycle.run(_group(2), _active(hook), _answer)

    assert errors["s0"] in context_chain(errors["s1"])


def test_an_interrupt_in_an_end_hook_does_not_stop_the_other_ends() -> None:
    """L-28: KeyboardInterrupt too is raised after all have ended."""
    hook = _GroupLog(end=_for("s2", fails_with(KeyboardInterrupt())))

    with pytest.raises(KeyboardInterrupt):
        lifecycle.run(_group(3), _active(hook), _answer)

    assert hook.events[3:] == ["end s2", "end s1", "end s0"]


@given(
    broken=st.sets(
        st.tuples(st.sampled_from(["start", "error", "end"]), st.integers(0, 3)), max_size=6
    ),
    work_fails=st.booleans(),
    n=st.integers(0, 4),
)
def test_ends_pair_with_starts_whatever_fails(
    broken: set[tuple[str, int]], work_fails: bool, n: int
) -> None:
    """L-28: each started run ends once, in reverse order, whichever hooks and work fail."""

    def act(event: str) -> Callable[[PredictContext], None]:
        def maybe_fail(ctx: PredictContext) -> None:
            if (event, int(ctx.states[0][1:])) in broken:
                raise ValueError(f"{event} {ctx.states[0]}")

        return maybe_fail

    hook = _GroupLog(start=act("start"), error=act("error"), end=act("end"))

    def work(contexts: Any) -> None:
        _answer(contexts)
        if work_fails:
            raise ValueError("work")

    failure: str | None = None
    try:
        lifecycle.run(_group(n), _active(hook), work)
    except ValueError as exc:
        failure = str(exc)

    of = {kind: [e[-2:] for e in hook.events if e.startswith(kind)] for kind in ("start", "end")}
    assert of["end"] == of["start"][::-1]
    expected = [f"start s{i}" for i in range(n) if ("start", i) in broken][:1]
    expected += ["work"] if work_fails else []
    expected += [f"end s{i}" for i in reversed(range(n)) if ("end", i) in broken]
    assert failure == (expected[0] if expected else None)


def test_usage_is_that_of_each_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """L-25: usage is set once per run, from its own results."""
    summed: list[Any] = []
    real = lifecycle.aggregate_usage
    monkeypatch.setattr(
        lifecycle, "aggregate_usage", lambda results: summed.append(results) or real(results)
    )
    group = _group(2)

    def work(contexts: Any) -> None:
        for i, ctx in enumerate(contexts):
            ctx.results = [{"usage": {"input_tokens": i + 1, "output_tokens": 0}}]

    lifecycle.run(group, _active(), work)

    assert [ctx.usage["input_tokens"] for ctx in group if ctx.usage] == [1, 2]
    assert len(summed) == 2


def test_the_hooks_of_other_runs_are_not_counted_as_a_runs_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """L-26: the run that ends last does not pay for the end hooks of those before it."""
    clock = SimpleNamespace(now=0.0, perf_counter=lambda: clock.now)
    monkeypatch.setattr(lifecycle, "time", clock)
    group = [PredictContext([f"s{i}"], {}, started_at=0.0) for i in range(2)]

    def pass_time(_: PredictContext) -> None:
        clock.now += 1.0

    lifecycle.run(group, _active(Recorder(start=pass_time, end=pass_time)), _answer)

    assert [ctx.elapsed_ms for ctx in group] == [2000.0, 2000.0]


def test_runs_of_a_group_share_a_call() -> None:
    """L-40: one call_id, an own run_id each, and calls from a hook hang under their run."""
    hook = _Nesting("start")
    agent = make_agent()
    group = [PredictContext([f"s{i}"], QUESTIONS, agent=agent) for i in range(2)]

    lifecycle.run(group, _active(hook), _answer)

    runs = list(dict.fromkeys(hook.contexts))
    assert len(runs) == 4
    assert len({ctx.call_id for ctx in runs}) == 1
    assert [ctx.parent_run_id for ctx in runs] == [
        *(None, group[0].run_id),
        *(None, group[1].run_id),
    ]


def test_the_work_of_a_group_belongs_to_the_call_and_to_no_single_run() -> None:
    """L-40: several runs share it, so none of them is the parent."""
    seen: list[Any] = []

    lifecycle.run(_group(2), _active(), lambda _: seen.append(current_call()))
    lifecycle.run(_group(1), _active(), lambda _: seen.append(current_call()))

    assert [scope.run_id is None for scope in seen] == [True, False]
    assert all(scope.call_id for scope in seen)


def test_a_group_without_runs_is_no_failure() -> None:
    """L-36: nothing starts and nothing ends."""
    hook, calls = Recorder(), itertools.count()

    lifecycle.run([], _active(hook), lambda contexts: next(calls) and None)

    assert hook.log == []
    assert next(calls) == 1
