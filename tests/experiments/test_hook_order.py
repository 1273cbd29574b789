"""The experiment on hook order: what it sees, and that it sees a runtime that breaks a rule."""

from __future__ import annotations

import contextlib

import pandas as pd
import pytest
from benches import Idle, a_router, build_at_once, claim, facts, stop_at
from fakes import make_agent

from jevlaya_lab import Router
from jevlaya_lab.experiments import ExperimentStopped
from jevlaya_lab.experiments.hook_order import run
from jevlaya_lab.frames import read_csv
from jevlaya_lab.system_one import lifecycle
from jevlaya_lab.system_one.calling import raise_again
from jevlaya_lab.system_one.dispatch import ActiveHooks
from jevlaya_lab.system_one.errors import InvalidInput
from jevlaya_lab.system_one.hooks import HookRegistry, default_hooks, set_default_hooks


@pytest.fixture(autouse=True)
def built(monkeypatch):
    return build_at_once(monkeypatch)


def on_router(**options):
    return run(a_router(), progress=False, **options)


def test_every_place_and_every_event_is_tried_with_and_without_a_lock():
    result = on_router()

    cases = result.frame.groupby("hooks_concurrent")["case"].unique()
    assert cases[True].tolist() == cases[False].tolist()
    failing = [case for case in cases[True] if " fails at " in case]
    places = {event: sum(case.startswith(event) for case in failing) for event in (
        "on_predict_start", "on_predict_end", "on_error", "on_route", "on_load", "on_evict"
    )}  # fmt: skip
    # Hooks of the call hear of no load: there a process-wide and two installed ones are.
    assert list(places.values()) == [5, 5, 5, 5, 3, 3]
    assert result.held is True
    assert [each.rule for each in result.claims].count("L-37") == 2


def test_the_frame_says_who_heard_what_when():
    frame = on_router(installed=1, per_call=1, n_requests=2).frame

    lists = frame.query("case == 'lists' and not hooks_concurrent")
    one_by_one = list(zip(lists["event"], lists["request"], lists["hook"], strict=True))
    hooks = ["default 1", "installed 1", "call 1"]
    passes = [("on_route", 0), ("on_route", 1), ("on_predict_start", 0), ("on_predict_start", 1),
              ("on_predict_end", 1), ("on_predict_end", 0)]  # fmt: skip
    assert one_by_one == [(*each, hook) for each in passes for hook in hooks]
    failed = frame.query("case == 'on_predict_end fails at 1' and not hooks_concurrent")
    ends = failed[failed["event"] == "on_predict_end"]
    assert ends["hook"].tolist() == ["default 1", "installed 1", *hooks]
    assert ends["raised"].tolist() == [False, True, False, False, False]
    assert frame["position"].dtype == pd.Int64Dtype()
    assert list(frame["origin"].cat.categories) == ["default", "installed", "call"]


def test_of_an_agent_routes_and_batches_cannot_be_told():
    result = run(make_agent(), progress=False)

    assert result.held is None
    told = {each.rule: each.held for each in result.claims}
    assert told["L-26"] is told["L-11"] is told["L-31"] is None
    assert told["L-37"] is told["L-2"] is told["L-8"] is told["L-28"] is told["L-39"] is True


def test_without_a_second_checkpoint_here_loads_cannot_be_told():
    router = Router("hub")
    with pytest.raises(InvalidInput, match="holds no checkpoint, and knows none that is on this"):
        run(router, progress=False)
    router.attach("english", make_agent())
    result = run(router, progress=False)
    assert result.held is None
    assert claim(result, "L-31").held is None
    assert claim(result, "L-26").held is True


def test_an_error_where_nothing_was_to_fail_is_no_result(monkeypatch):
    def broken(self, *args, **kwargs):
        raise LookupError("out of order")

    router = a_router()
    before = facts(router)
    monkeypatch.setattr(Router, "predict_batch", broken)
    with pytest.raises(LookupError, match="out of order"):
        run(router, progress=False)
    assert facts(router) == before


# --- a runtime that breaks a rule is found out -------------------------------------------------


def test_ends_in_input_order_break_nesting(monkeypatch):
    monkeypatch.setattr(lifecycle, "reversed", iter, raising=False)
    result = on_router()

    assert result.held is False
    assert claim(result, "L-26").held is False
    assert claim(result, "L-27").held is False
    assert claim(result, "L-28").held is True
    assert "DID NOT HOLD  L-26" in result.summary()


def test_an_end_hook_that_keeps_others_from_their_end(monkeypatch):
    attempt = lifecycle._attempt

    def strict(hooks, event, ctx):
        error = attempt(hooks, event, ctx)
        strict.over = strict.over and event == "on_predict_end"
        if error is not None and event == "on_predict_end":
            strict.over = True
        return error

    strict.over = False
    end = lifecycle._end

    def ended(ctx, hooks, failure, stopped):
        return None if strict.over else end(ctx, hooks, failure, stopped)

    monkeypatch.setattr(lifecycle, "_attempt", strict)
    monkeypatch.setattr(lifecycle, "_end", ended)
    result = on_router()
    assert claim(result, "L-28").held is False


def reordered(monkeypatch, order, when):
    dispatch = ActiveHooks.dispatch

    def otherwise(self, event, ctx):
        entries = order(self.entries) if when(self, event) else self.entries
        other = ActiveHooks(entries, raise_errors=self.raise_errors, lock=self.lock)
        dispatch(other, event, ctx)

    monkeypatch.setattr(ActiveHooks, "dispatch", otherwise)


def test_end_hooks_in_reverse(monkeypatch):
    reordered(monkeypatch, lambda e: e[::-1], lambda self, event: event == "on_predict_end")
    result = on_router()
    assert claim(result, "L-37", "same order").held is False
    assert claim(result, "L-37", "Process-wide").held is False


def test_hooks_of_the_call_before_the_installed_ones(monkeypatch):
    reordered(
        monkeypatch,
        lambda entries: tuple(sorted(entries, key=lambda e: e.origin)),
        lambda self, event: True,
    )
    assert claim(on_router(), "L-37", "Process-wide").held is False


def test_another_order_under_the_lock(monkeypatch):
    reordered(monkeypatch, lambda e: e[::-1], lambda self, event: self.lock is not None)
    assert claim(on_router(), "L-39").held is False


def test_an_empty_list_that_adds_something(monkeypatch):
    active = HookRegistry.active_hooks

    def more(self, hooks=None, *args, **kwargs):
        return active(self, None if hooks is None else (hooks or self.hooks), *args, **kwargs)

    monkeypatch.setattr(HookRegistry, "active_hooks", more)
    assert claim(on_router(), "L-2").held is False


def test_hooks_behind_a_failing_one_that_run_all_the_same(monkeypatch):
    def dispatch(self, event, ctx):
        first = None
        for entry in self.entries:
            first = _attempt(getattr(entry.hook, event, lambda ctx: None), ctx) or first
        if first is not None:
            raise_again(first)

    monkeypatch.setattr(ActiveHooks, "dispatch", dispatch)
    assert claim(on_router(), "L-4").held is False


def _attempt(method, ctx):
    try:
        method(ctx)
    except Exception as error:
        return error
    return None


def test_another_exception_than_the_hooks_own(monkeypatch):
    predict_batch = Router.predict_batch

    def wrapped(self, *args, **kwargs):
        try:
            return predict_batch(self, *args, **kwargs)
        except Exception as error:
            raise RuntimeError("something failed") from error

    monkeypatch.setattr(Router, "predict_batch", wrapped)
    assert claim(on_router(), "L-7").held is False


def test_a_load_that_is_told_before_the_eviction_for_it(monkeypatch):
    announce = Router._announce
    monkeypatch.setattr(Router, "_announce", lambda self, all_: announce(self, list(all_)[::-1]))
    assert claim(on_router(), "L-31").held is False


def test_a_failing_route_that_starts_requests(monkeypatch):
    announce = lifecycle.announce

    def lenient(event, ctx, hooks):
        error = announce(event, ctx, hooks)
        return None if event == "on_route" else error

    monkeypatch.setattr(lifecycle, "announce", lenient)
    assert claim(on_router(), "L-11").held is False


# --- what is given stays as it is ----------------------------------------------------------------


@pytest.mark.parametrize("progress", [False, stop_at(0), stop_at(30)])
def test_no_hook_stays_anywhere(progress):
    mine, router, agent = Idle(), a_router(), make_agent(hooks=[Idle()])
    set_default_hooks(mine)
    before, network, hooks = facts(router), agent.network, agent.hooks

    for target in (router, agent):
        with pytest.raises(ExperimentStopped) if progress else contextlib.nullcontext():
            run(target, progress=progress)

    assert facts(router) == before
    assert (agent.hooks, agent.network) == (hooks, network)
    assert default_hooks() == [mine]


def test_other_calls_of_the_process_are_left_alone(monkeypatch):
    """The process-wide hook of the experiment is deaf to them, also where it is to fail."""
    other, answers = make_agent(), []
    predict_batch = Router.predict_batch

    def busy(self, *args, **kwargs):
        answers.append(other.predict("a state of somebody else", {}))
        return predict_batch(self, *args, **kwargs)

    monkeypatch.setattr(Router, "predict_batch", busy)
    result = on_router()
    assert len(answers) > 50
    assert result.held is True
    assert not result.frame["model"].eq("test").any()


def test_what_is_neither_agent_nor_router_is_refused():
    class Answers:
        def predict_batch(self, states, questions):
            return []

    with pytest.raises(InvalidInput, match="has no add_hook"):
        run(Answers(), progress=False)


def test_the_picture_and_the_files(tmp_path):
    result = on_router()
    said = " ".join(result.layout().alt.split())
    assert "1. default 1 (default) 2. installed 1 (installed)" in said
    assert "on_predict_start fails at 0" in str(result.layout().tables or result.layout().alt)
    pd.testing.assert_frame_equal(read_csv(result.to_csv(tmp_path / "a.csv")), result.frame)
