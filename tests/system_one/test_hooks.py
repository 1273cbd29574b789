"""Hook lists, what is accepted into them, and what is noted of every hook that ran."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import QUESTIONS, SKIPPED, Recorder, RecordingNetwork, fails_with, make_agent, promptly

import jevlaya_lab.system_one.dispatch as dispatch_module
from jevlaya_lab.system_one.context import HookCall, PredictContext
from jevlaya_lab.system_one.errors import HookTimeout, InvalidHook, InvalidOption
from jevlaya_lab.system_one.hooks import (
    EVENTS,
    BaseHook,
    HookRegistry,
    add_default_hook,
    clear_default_hooks,
    default_hooks,
    remove_default_hook,
    set_default_hooks,
)


def _nothing(_: PredictContext) -> None:
    """A function that could be a start or end hook."""


# --- which hooks run, in which order ---------------------------------------------------------


@pytest.mark.parametrize("nothing", [None, [], ()])
def test_none_and_empty_lists_add_nothing(nothing: Any) -> None:
    """L-2: None and [] stand for no hooks, in every place that takes hooks."""
    hook = Recorder()
    agent = make_agent(hooks=nothing, on_predict_start=nothing, on_predict_end=nothing)

    agent.add_hook(nothing).add_hook(hook)
    agent.predict("a", QUESTIONS, hooks=nothing, on_predict_start=nothing, on_predict_end=nothing)

    assert agent.hooks == [hook]
    assert hook.log == ["hook.start", "hook.end"]


def test_active_hooks_are_the_installed_ones_then_those_of_the_call() -> None:
    """L-2: installed first; a call's hooks are gone with the call."""
    log: list[str] = []
    agent = make_agent(hooks=[Recorder(log, "installed")])

    agent.predict("a", QUESTIONS, hooks=[Recorder(log, "call")])
    agent.predict("a", QUESTIONS)

    assert log == [
        *("installed.start", "call.start", "installed.end", "call.end"),
        *("installed.start", "installed.end"),
    ]


def test_one_hook_needs_no_list() -> None:
    """L-2: a single hook, a list and a tuple are the same."""
    log: list[str] = []
    agent = make_agent(hooks=Recorder(log, "A"))

    agent.predict("a", QUESTIONS, hooks=(Recorder(log, "B"),))

    assert log == ["A.start", "B.start", "A.end", "B.end"]


def test_functions_run_after_hook_objects() -> None:
    """L-37: within one origin hooks, then start functions, then end functions, each in order."""
    log: list[str] = []

    def note(text: str) -> Callable[[PredictContext], None]:
        return lambda _: log.append(text)

    agent = make_agent(
        hooks=Recorder(log, "A"),
        on_predict_start=[note("B.start"), note("C.start")],
        on_predict_end=[note("B.end")],
    )

    agent.predict("a", QUESTIONS, on_predict_start=note("D.start"), on_predict_end=note("D.end"))

    assert log == ["A.start", "B.start", "C.start", "D.start", "A.end", "B.end", "D.end"]


def test_a_hook_given_twice_runs_twice() -> None:
    """L-37: a list is run as it stands."""
    hook = Recorder()

    make_agent(hooks=[hook, hook]).predict("a", QUESTIONS, hooks=hook)

    assert hook.log == ["hook.start"] * 3 + ["hook.end"] * 3


def test_hooks_implement_any_subset_of_events() -> None:
    """L-37: a hook runs for the events it has; the others pass it by."""
    log: list[str] = []

    class OnlyEnd:
        def on_predict_end(self, ctx: PredictContext) -> None:
            log.append("end")

    make_agent(hooks=[OnlyEnd(), BaseHook()]).predict("a", QUESTIONS)

    assert log == ["end"]


def test_an_event_method_that_is_none_is_no_event_method() -> None:
    """L-37: an event may be switched off by None."""

    class Off(Recorder):
        on_predict_start = None  # type: ignore[assignment]

    hook = Off()
    make_agent(hooks=hook).predict("a", QUESTIONS)

    assert hook.log == ["hook.end"]


# --- what is refused -------------------------------------------------------------------------


class _NoMethod:
    """No hook at all."""


class _NoCallable:
    on_predict_start = "later"


REFUSED = {
    "a class": (Recorder, r"got the class Recorder; pass Recorder\(\) instead"),
    "a function": (_nothing, r"_nothing.* no hook.*on_predict_start= or on_predict_end="),
    "a lambda": (lambda ctx: None, r"lambda.* no hook.*on_predict_start= or on_predict_end="),
    "no event method": (_NoMethod(), r"a _NoMethod is no hook.*at least one of the methods on_"),
    "an attribute": (_NoCallable(), r"_NoCallable: on_predict_start is a str.*must be a method"),
    "a string": ("on_predict_start", r"a str is no hook"),
    "a list in a list": ([[Recorder()]], r"a list is no hook"),
    "one among good ones": ([Recorder(), 7], r"a int is no hook|an int is no hook"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize(
    "give",
    [
        lambda hook: make_agent(hooks=hook),
        lambda hook: make_agent().add_hook(hook),
        lambda hook: make_agent().hooks_installed(hook).__enter__(),
        lambda hook: make_agent().predict("a", QUESTIONS, hooks=hook),
        set_default_hooks,
        add_default_hook,
    ],
    ids=["constructor", "add_hook", "hooks_installed", "call", "set_default", "add_default"],
)
def test_what_is_no_hook_is_refused(case: str, give: Callable[[Any], Any]) -> None:
    """L-2: wherever hooks are taken, with what it is and what to pass instead."""
    wrong, message = REFUSED[case]

    with pytest.raises(InvalidHook, match=message) as caught:
        give(wrong)

    assert isinstance(caught.value, TypeError)
    assert default_hooks() == []


@pytest.mark.parametrize("event", ["on_predict_start", "on_predict_end"])
@pytest.mark.parametrize("wrong", [7, "x", Recorder, Recorder(), [_nothing, None]])
def test_what_is_no_function_is_refused_as_one(event: str, wrong: Any) -> None:
    """L-2: on_predict_start= and on_predict_end= take functions of the context."""
    with pytest.raises(InvalidHook, match=f"{event}= takes a function"):
        make_agent(**{event: wrong})


def test_a_refused_hook_leaves_the_list_as_it_was() -> None:
    """L-2: a list is taken as a whole or not at all, and no hook of the call runs."""
    hook, other = Recorder(), Recorder()
    agent = make_agent(hooks=hook)

    with pytest.raises(InvalidHook):
        agent.add_hook([other, 7])
    with pytest.raises(InvalidHook):
        agent.predict("a", QUESTIONS, hooks=[other, 7])

    assert agent.hooks == [hook]
    assert hook.log == other.log == []


# --- changing the list -----------------------------------------------------------------------


def test_add_hook_appends_and_returns_the_agent() -> None:
    a, b, c = Recorder(), Recorder(), Recorder()
    agent = make_agent(hooks=a)

    assert agent.add_hook([b]).add_hook(c) is agent
    assert agent.hooks == [a, b, c]


def test_the_list_of_hooks_is_a_copy() -> None:
    agent = make_agent(hooks=Recorder())

    agent.hooks.clear()

    assert len(agent.hooks) == 1


def test_remove_hook_takes_every_copy_of_that_object_and_nothing_else() -> None:
    class Equal(Recorder):
        """Equal to each other, as data classes are."""

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Equal)

        __hash__ = None  # type: ignore[assignment]

    hook, twin = Equal(), Equal()
    agent = make_agent(hooks=[hook, twin, hook])

    assert agent.remove_hook(hook) is True
    assert len(agent.hooks) == 1
    assert agent.hooks[0] is twin
    assert agent.remove_hook(hook) is False


def test_functions_can_be_removed_too() -> None:
    class Audit:
        calls = 0

        def note(self, ctx: PredictContext) -> None:
            self.calls += 1

    audit = Audit()
    agent = make_agent(on_predict_start=[_nothing, audit.note])

    assert agent.remove_hook(audit.note) is True
    assert agent.remove_hook(_nothing) is True
    agent.predict("a", QUESTIONS)

    assert (agent.hooks, audit.calls) == ([], 0)


@pytest.mark.parametrize("wrong", [None, 7, _nothing, Recorder()])
def test_removing_what_is_not_there_removes_nothing(wrong: Any) -> None:
    hook = Recorder()
    hook.function = _nothing  # type: ignore[attr-defined]  # an attribute of a user's own hook
    agent = make_agent(hooks=hook, on_predict_end=lambda ctx: None)

    assert agent.remove_hook(wrong) is False
    assert len(agent.hooks) == 2


def test_hooks_installed_lasts_as_long_as_the_block() -> None:
    a, b, c = Recorder(), Recorder(), Recorder()
    agent = make_agent(hooks=a)

    with agent.hooks_installed([b], c) as inside:
        assert inside is agent
        assert agent.hooks == [a, b, c]
    assert agent.hooks == [a]


def test_hooks_installed_ends_with_an_exception_as_well() -> None:
    agent = make_agent()

    with pytest.raises(KeyboardInterrupt), agent.hooks_installed(Recorder()):
        raise KeyboardInterrupt

    assert agent.hooks == []


def test_overlapping_blocks_take_out_their_own_hooks_only() -> None:
    a, b = Recorder(), Recorder()
    agent = make_agent()
    first, second = agent.hooks_installed(a), agent.hooks_installed(b)

    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert agent.hooks == [b]
    second.__exit__(None, None, None)
    assert agent.hooks == []


def test_a_hook_that_was_installed_before_the_block_stays() -> None:
    hook, other, late = Recorder(), Recorder(), Recorder()
    agent = make_agent(hooks=[hook, other])

    with agent.hooks_installed(hook):
        agent.add_hook(late)
        assert agent.hooks == [hook, other, hook, late]
    assert agent.hooks == [hook, other, late]


def test_overlapping_blocks_with_the_same_hook_take_one_copy_each() -> None:
    hook, between = Recorder(), Recorder()
    agent = make_agent()
    first, second = agent.hooks_installed(hook), agent.hooks_installed(hook)

    first.__enter__()
    agent.add_hook(between)
    second.__enter__()
    first.__exit__(None, None, None)
    assert agent.hooks == [between, hook]
    second.__exit__(None, None, None)
    assert agent.hooks == [between]


def test_a_hook_that_was_removed_inside_the_block_stays_removed() -> None:
    hook = Recorder()
    agent = make_agent()

    with agent.hooks_installed(hook):
        agent.remove_hook(hook)
    assert agent.hooks == []


def test_a_call_keeps_the_list_with_which_it_began() -> None:
    """L-38: hooks added or removed while a call runs count from the next call on."""
    log: list[str] = []
    late = Recorder(log, "late")

    def change(ctx: PredictContext) -> None:
        ctx.agent.remove_hook(first)
        ctx.agent.add_hook(late)

    first = Recorder(log, "first", start=change)
    agent = make_agent(hooks=[first, Recorder(log, "second")])

    agent.predict("a", QUESTIONS)
    assert log == ["first.start", "second.start", "first.end", "second.end"]

    log.clear()
    agent.predict("a", QUESTIONS)
    assert log == ["second.start", "late.start", "second.end", "late.end"]


def test_the_list_may_be_changed_from_many_threads() -> None:
    """L-38: no hook is lost or left while others come and go and calls run."""
    agent = make_agent()
    barrier = threading.Barrier(4)

    def come_and_go() -> None:
        barrier.wait()
        for _ in range(50):
            with agent.hooks_installed(Recorder()):
                agent.predict("a", QUESTIONS)
        agent.add_hook(Recorder())

    threads = [threading.Thread(target=come_and_go) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(agent.hooks) == 4


# --- process-wide hooks ----------------------------------------------------------------------


def test_process_wide_hooks_run_ahead_of_all_others() -> None:
    """L-42: in every agent, also in those that were made before, once per call."""
    log: list[str] = []
    agent = make_agent(hooks=Recorder(log, "installed"))
    set_default_hooks(Recorder(log, "default"))

    agent.predict("a", QUESTIONS, hooks=Recorder(log, "call"))
    make_agent().predict("a", QUESTIONS)

    assert log == [
        *("default.start", "installed.start", "call.start"),
        *("default.end", "installed.end", "call.end"),
        *("default.start", "default.end"),
    ]
    assert len(agent.hooks) == 1


def test_process_wide_hooks_are_set_added_and_cleared() -> None:
    """L-42: set replaces, add appends, default_hooks is a copy."""
    a, b, c = Recorder(), Recorder(), Recorder()

    set_default_hooks(a)
    set_default_hooks([b])
    add_default_hook(c)
    default_hooks().clear()
    assert default_hooks() == [b, c]

    clear_default_hooks()
    assert default_hooks() == []


def test_process_wide_functions() -> None:
    """L-42: set_default_hooks takes functions as an agent does."""
    log: list[str] = []
    set_default_hooks(
        Recorder(log, "A"),
        on_predict_start=lambda _: log.append("function.start"),
        on_predict_end=lambda _: log.append("function.end"),
    )

    make_agent().predict("a", QUESTIONS)

    assert log == ["A.start", "function.start", "A.end", "function.end"]


def test_refused_process_wide_hooks_leave_the_old_ones() -> None:
    """L-42: a list is taken as a whole or not at all."""
    hook = Recorder()
    set_default_hooks(hook)

    with pytest.raises(InvalidHook):
        set_default_hooks([Recorder(), 7])
    with pytest.raises(InvalidHook):
        add_default_hook([Recorder(), 7])

    assert default_hooks() == [hook]


# --- the policy ------------------------------------------------------------------------------


def _broken(event: str) -> Recorder:
    return Recorder(name="broken", **{event: fails_with(ValueError("no disk"))})


@pytest.mark.parametrize("event", ["start", "end"])
def test_hooks_raise_false_turns_an_error_into_a_warning(event: str) -> None:
    """L-42: the hooks behind it run, the call gives its results."""
    hook = Recorder()
    agent = make_agent(hooks=[_broken(event), hook], hooks_raise=False)

    with pytest.warns(RuntimeWarning, match=rf"Recorder.on_predict_{event}.*ValueError: no disk"):
        result = agent.predict("a", QUESTIONS)

    assert "q" in result["answers"]
    assert hook.log == ["hook.start", "hook.end"]
    assert hook.contexts[0].error is None


def test_hooks_raise_false_holds_for_error_hooks() -> None:
    """L-42: the failure of the call comes out, that of the hook is a warning."""
    agent = make_agent(
        RecordingNetwork(failing={"forward": KeyError("first")}),
        hooks=_broken("error"),
        hooks_raise=False,
    )

    with pytest.warns(RuntimeWarning, match="no disk"), pytest.raises(KeyError, match="first"):
        agent.predict("a", QUESTIONS)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_hooks_raise_false_does_not_swallow_an_interrupt(error: type[BaseException]) -> None:
    """L-42: only an Exception becomes a warning."""
    hook = Recorder(start=fails_with(error()))

    with pytest.raises(error):
        make_agent(hooks=hook, hooks_raise=False).predict("a", QUESTIONS)


def test_a_call_overrides_hooks_raise() -> None:
    """L-42: both ways, for that call."""
    agent = make_agent(hooks=_broken("start"))

    with pytest.warns(RuntimeWarning, match="no disk"):
        agent.predict("a", QUESTIONS, hooks_raise=False)
    with pytest.raises(ValueError, match="no disk"):
        agent.predict("a", QUESTIONS)

    agent.hooks_raise = False
    with pytest.raises(ValueError, match="no disk"):
        agent.predict("a", QUESTIONS, hooks_raise=True)


@pytest.mark.parametrize("where", ["agent", "call"])
def test_hooks_timeout_bounds_each_hook_call(where: str) -> None:
    """L-42: a hook that takes longer fails the call with HookTimeout."""
    done = threading.Event()
    options = {"hooks_timeout": 0.02}
    agent = make_agent(**(options if where == "agent" else {}))

    with pytest.raises(HookTimeout, match=r"hooks_timeout=0\.02 s") as caught:
        agent.predict(
            "a",
            QUESTIONS,
            on_predict_start=lambda _: done.wait(10),
            **(options if where == "call" else {}),
        )

    done.set()
    assert isinstance(caught.value, TimeoutError)


def test_a_timeout_is_an_error_that_hooks_raise_false_passes_over() -> None:
    """L-42: the hooks behind the slow one run."""
    done, hook = threading.Event(), Recorder()
    slow = Recorder(start=lambda _: done.wait(10))

    with pytest.warns(RuntimeWarning, match="HookTimeout"):
        make_agent(hooks=[slow, hook], hooks_raise=False, hooks_timeout=0.02).predict(
            "a", QUESTIONS
        )

    done.set()
    assert hook.log == ["hook.start", "hook.end"]


@pytest.mark.parametrize("wrong", [0, -1, float("nan"), float("inf"), True, "1"])
def test_a_hooks_timeout_is_a_positive_number(wrong: Any) -> None:
    """L-42: anything else is refused where it enters."""
    message = "hooks_timeout must be a positive number of seconds or None, got"

    with pytest.raises(InvalidOption, match=message):
        make_agent(hooks_timeout=wrong)
    with pytest.raises(InvalidOption, match=message):
        make_agent().predict("a", QUESTIONS, hooks_timeout=wrong)


# --- what is noted of every hook -------------------------------------------------------------


def test_every_hook_method_that_ran_is_noted() -> None:
    """L-41a: event, hook, position and origin, in the order in which they ran."""
    set_default_hooks(Recorder())

    class OnlyEnd:
        def on_predict_end(self, ctx: PredictContext) -> None:
            pass

    hook = Recorder()
    make_agent(hooks=[BaseHook(), OnlyEnd()]).predict(
        "a", QUESTIONS, hooks=hook, on_predict_start=_nothing
    )

    assert [call[:4] for call in hook.contexts[0].hook_calls] == [
        ("on_predict_start", "Recorder", 0, "default"),
        ("on_predict_start", "Recorder", 3, "call"),
        ("on_predict_start", "_nothing", 4, "call"),
        ("on_predict_end", "Recorder", 0, "default"),
        (
            "on_predict_end",
            "test_every_hook_method_that_ran_is_noted.<locals>.OnlyEnd",
            2,
            "installed",
        ),
        ("on_predict_end", "Recorder", 3, "call"),
    ]


CHANGES: dict[str, tuple[Callable[[PredictContext], Any], tuple[str, ...]]] = {
    "nothing": (lambda ctx: None, ()),
    "only read": (lambda ctx: (ctx.states[0], ctx.questions["q"]), ()),
    "an attribute of its own": (lambda ctx: setattr(ctx, "mine", 1), ()),
    "states": (lambda ctx: setattr(ctx, "states", ["new"]), ("states",)),
    "a state in place": (lambda ctx: ctx.states.__setitem__(0, "new"), ("states",)),
    "a state more": (lambda ctx: ctx.states.append("new"), ("states",)),
    "questions": (lambda ctx: setattr(ctx, "questions", dict(ctx.questions)), ("questions",)),
    "a question in place": (
        lambda ctx: ctx.questions.__setitem__("q", dict(QUESTIONS["q"])),
        ("questions",),
    ),
    "a question more": (
        lambda ctx: ctx.questions.__setitem__("r", QUESTIONS["q"]),
        ("questions",),
    ),
    "a question's id": (
        lambda ctx: ctx.questions.__setitem__("r", ctx.questions.pop("q")),
        ("questions",),
    ),
    "results": (lambda ctx: ctx.skip([SKIPPED]), ("results",)),
    "budgets": (
        lambda ctx: (setattr(ctx, "max_len", 9), setattr(ctx, "head_max_len", 9)),
        ("max_len", "head_max_len"),
    ),
    "several": (
        lambda ctx: (setattr(ctx, "model", "m"), setattr(ctx, "decision", {"model": "m"})),
        ("decision", "model"),
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_fields_that_a_hook_changed_are_noted(change: str) -> None:
    """L-41a: for each hook what it changed itself, assigned or one level in place."""
    act, fields = CHANGES[change]
    hook = Recorder()

    make_agent(hooks=[BaseHook(), Recorder(start=act), hook]).predict_batch(["a"], dict(QUESTIONS))

    calls = hook.contexts[0].hook_calls
    assert [call.changed for call in calls] == [fields, (), (), ()]


def test_changes_to_results_by_an_end_hook_are_noted() -> None:
    """L-41a: also where it replaces an item of the list."""
    hook = Recorder(end=lambda ctx: ctx.results.__setitem__(0, SKIPPED))

    make_agent(hooks=[Recorder(), hook]).predict("a", QUESTIONS)

    assert [call.changed for call in hook.contexts[0].hook_calls] == [(), (), (), ("results",)]


def test_changes_to_a_decision_are_noted() -> None:
    """L-41a: a routing hook may replace a part of it in place."""
    ctx = PredictContext(["a"], QUESTIONS, decision={"model": "english", "reason": "script"})
    hooks = [
        Recorder(start=lambda ctx: ctx.decision["model"]),
        Recorder(start=lambda ctx: ctx.decision.update(model="multilingual")),
    ]

    HookRegistry(hooks).active_hooks().dispatch("on_predict_start", ctx)

    assert [call.changed for call in ctx.hook_calls] == [(), ("decision",)]


@pytest.mark.parametrize("states", ["text", ("a", "b"), {"a": 1}, None])
def test_states_that_are_no_list_are_watched_as_a_whole(states: Any) -> None:
    """L-41a: whatever a caller gives, until a hook makes a list of it."""
    ctx = PredictContext(states, questions=None)
    hooks = [BaseHook(), Recorder(), Recorder(start=lambda ctx: setattr(ctx, "states", ["a"]))]

    HookRegistry(hooks).active_hooks().dispatch("on_predict_start", ctx)

    assert [call.changed for call in ctx.hook_calls] == [(), ("states",)]


def test_a_change_is_noted_when_the_hook_failed_after_it() -> None:
    """L-41a: what it had changed before it raised stands."""

    def change(ctx: PredictContext) -> None:
        ctx.states = []
        raise ValueError("no disk")

    hook = Recorder()
    with pytest.raises(ValueError, match="no disk"):
        make_agent(hooks=[Recorder(start=change), hook]).predict("a", QUESTIONS)

    first = hook.contexts[0].hook_calls[0]
    assert (first.changed, first.error) == (("states",), "ValueError: no disk")


def test_times_of_hooks_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """L-41a: when each began, from the run's start, and how long it took."""
    clock = SimpleNamespace(now=50.0, perf_counter=lambda: clock.now)
    monkeypatch.setattr(dispatch_module, "time", clock)

    def pass_time(_: PredictContext) -> None:
        clock.now += 0.5

    ctx = PredictContext([], {}, started_at=49.0)
    active = HookRegistry([Recorder(start=pass_time), Recorder(start=pass_time)]).active_hooks()
    active.dispatch("on_predict_start", ctx)

    assert [(call.at_ms, call.elapsed_ms) for call in ctx.hook_calls] == [(1e3, 500), (1500, 500)]


def test_waiting_for_another_hook_is_not_a_hooks_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """L-41a: with hooks_concurrent=False its time begins when its turn has come."""
    clock = SimpleNamespace(now=50.0, perf_counter=lambda: clock.now)
    monkeypatch.setattr(dispatch_module, "time", clock)
    active = HookRegistry([Recorder()], hooks_concurrent=False).active_hooks()
    hold = type(active.lock).hold  # type: ignore[arg-type]

    def wait_and_hold(lock: Any) -> Any:
        clock.now += 7.0
        return hold(lock)

    monkeypatch.setattr(type(active.lock), "hold", wait_and_hold)
    ctx = PredictContext([], {}, started_at=50.0)
    active.dispatch("on_predict_start", ctx)

    assert [(call.at_ms, call.elapsed_ms) for call in ctx.hook_calls] == [(7e3, 0)]


@pytest.mark.parametrize("raised", [ValueError("no disk"), KeyboardInterrupt()])
def test_errors_of_hooks_are_noted(raised: BaseException) -> None:
    """L-41a: what a hook raised, as text; None where it returned."""
    hook = Recorder()

    with pytest.raises(type(raised)):
        make_agent(hooks=[Recorder(start=fails_with(raised)), hook]).predict("a", QUESTIONS)

    calls = hook.contexts[0].hook_calls
    assert [call.error for call in calls] == [f"{type(raised).__name__}: {raised}"] + [None] * 4
    assert calls[0].event == "on_predict_start"


def test_errors_that_were_passed_over_are_noted() -> None:
    """L-41a: with hooks_raise=False the note is what is left of them."""
    hook = Recorder()

    with pytest.warns(RuntimeWarning, match="no disk"):
        make_agent(hooks=[_broken("start"), hook], hooks_raise=False).predict("a", QUESTIONS)

    assert hook.contexts[0].hook_calls[0].error == "ValueError: no disk"


def test_the_notes_keep_no_exception_alive() -> None:
    """L-41a: an exception's traceback holds agent and router, so only its text is kept."""

    class Heavy(Exception):
        pass

    hook = Recorder()
    raised: list[weakref.ref[Heavy]] = []

    def fail(_: PredictContext) -> None:
        error = Heavy("big")
        raised.append(weakref.ref(error))
        raise error

    with pytest.warns(RuntimeWarning, match="big"):
        make_agent(hooks=[Recorder(start=fail), hook], hooks_raise=False).predict("a", QUESTIONS)

    gc.collect()
    calls = hook.contexts[0].hook_calls
    assert calls[0].error == "Heavy: big"
    assert raised[0]() is None


def test_what_was_noted_keeps_neither_agent_nor_context_alive() -> None:
    """L-41a: whoever keeps hook_calls lets go of everything else."""
    kept: list[HookCall] = []
    gone: list[weakref.ref[Any]] = []

    def read(ctx: PredictContext) -> None:
        kept.extend(ctx.hook_calls)
        gone.extend([weakref.ref(ctx), weakref.ref(ctx.agent), weakref.ref(ctx.agent.network)])

    make_agent(RecordingNetwork(), hooks=[Recorder(), Recorder(end=read)]).predict("a", QUESTIONS)
    gc.collect()

    assert [call.event for call in kept] == [EVENTS[0], EVENTS[0], EVENTS[1]]
    assert [ref() for ref in gone] == [None] * 3


def test_the_hooks_of_a_nested_call_are_noted_on_its_own_context() -> None:
    """L-41a: each run has its own notes."""

    def nest(ctx: PredictContext) -> None:
        if ctx.parent_run_id is None:
            ctx.agent.predict("b", QUESTIONS)

    hook = Recorder(start=nest)
    promptly(lambda: make_agent(hooks=hook).predict("a", QUESTIONS))

    assert [len(ctx.hook_calls) for ctx in dict.fromkeys(hook.contexts)] == [2, 2]


def test_an_agent_shows_its_name_and_its_hooks() -> None:
    class Audit(BaseHook):
        def __repr__(self) -> str:
            return "Audit()"

    shown = repr(make_agent(hooks=[Audit()]))

    assert shown.startswith("Agent('test'")
    assert "hooks=[Audit()]" in shown


# --- hooks that cannot work ------------------------------------------------------------------


def test_a_method_with_a_yield_is_refused() -> None:
    class Plain:
        def on_predict_start(self, ctx: PredictContext) -> Any:
            yield

    class Async:
        async def on_predict_end(self, ctx: PredictContext) -> Any:
            yield

    for hook in (Plain(), Async()):
        with pytest.raises(InvalidHook, match="is a generator function, which would never run"):
            make_agent(hooks=hook)


def test_an_exception_whose_text_cannot_be_made_comes_out_all_the_same() -> None:
    """L-7, L-42: the same exception, or a warning, whatever its __str__ does."""

    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("str broke")

    agent = make_agent(on_predict_start=fails_with(Mute()))

    with pytest.raises(Mute):
        agent.predict("a", QUESTIONS)
    with pytest.warns(RuntimeWarning, match="Mute: <its text raised RuntimeError>"):
        agent.predict("a", QUESTIONS, hooks_raise=False)


def test_a_timeout_beyond_what_threads_take_is_refused() -> None:
    with pytest.raises(InvalidOption, match="hooks_timeout must be a positive number"):
        make_agent(hooks_timeout=1e12)


def test_a_property_that_fails_is_a_hook_that_fails() -> None:
    """L-42: noted, raised, or turned into a warning, as if the method itself had failed."""

    class Moody:
        ready = True

        @property
        def on_predict_start(self) -> Any:
            if not self.ready:
                raise OSError("not now")
            return lambda ctx: None

    hook = Moody()
    agent = make_agent(hooks=hook)
    hook.ready = False
    seen: list[PredictContext] = []

    with pytest.raises(OSError, match="not now"):
        agent.predict("a", QUESTIONS, on_predict_end=seen.append)
    with pytest.warns(RuntimeWarning, match="Moody.on_predict_start failed .*not now"):
        agent.predict("a", QUESTIONS, hooks_raise=False)

    assert seen[0].hook_calls[0].error == "OSError: not now"


def test_a_process_wide_hook_is_removed_wherever_it_stands() -> None:
    first, second = Recorder(), Recorder()
    set_default_hooks([first, second, first], on_predict_end=print)

    assert remove_default_hook(first)
    assert not remove_default_hook(first)
    assert remove_default_hook(print)
    assert default_hooks() == [second]


def test_a_hook_that_answers_for_every_name_is_installed_more_than_once():
    class Answers:
        __slots__ = ()

        def __getattr__(self, name):
            return lambda *_: None

        def on_predict_start(self, ctx):
            pass

    for _ in range(2):
        make_agent(hooks=[Answers()]).predict("s", QUESTIONS)
