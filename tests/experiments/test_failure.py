"""The experiment on failures: what it sees at each stage, and a runtime that breaks a rule."""

from __future__ import annotations

import contextlib

import pandas as pd
import pytest
from benches import a_router, build_at_once, claim, facts, stop_at
from fakes import make_agent

from jevlaya_lab import Router
from jevlaya_lab.experiments import ExperimentStopped
from jevlaya_lab.experiments.failure import run
from jevlaya_lab.experiments.failure_cases import STAGES
from jevlaya_lab.experiments.faults import Fault, faulty_twin
from jevlaya_lab.experiments.watching import InjectedFault, Tape
from jevlaya_lab.frames import read_csv
from jevlaya_lab.system_one import lifecycle
from jevlaya_lab.system_one.agent import Agent
from jevlaya_lab.system_one.calling import raise_again


@pytest.fixture(autouse=True)
def built(monkeypatch):
    return build_at_once(monkeypatch)


def on_router(**options):
    return run(a_router(), progress=False, **options)


def test_each_stage_reaches_its_own_checkpoint_and_no_other():
    result = on_router()

    assert result.held is True
    assert all(each.held for each in result.claims)
    counts = result.outcomes.groupby(["stage", "model"], observed=True)[
        ["starts", "errors", "ends"]
    ].sum()
    for stage in STAGES:
        assert counts.loc[(stage, "first")].tolist() == [2, 0, 2]
        assert counts.loc[(stage, "third")].tolist() == [0, 0, 0]
    assert counts.xs("second", level="model").to_numpy().tolist() == [
        [0, 0, 0],  # a load that fails
        [2, 2, 2],
        [2, 2, 2],
        [2, 2, 2],
        [2, 2, 2],
        [2, 0, 2],  # an end hook that fails
    ]
    assert result.outcomes["answered_afterwards"].all()


def test_the_frame_says_what_every_hook_saw():
    frame = on_router().frame

    forward = frame.query("stage == 'forward' and call == 'failing' and request == 1")
    errors = forward[forward["event"] == "on_error"]
    assert errors["hook"].tolist() == ["installed 1", "installed 2", "call 1"]
    assert errors["error_type"].tolist() == ["InjectedFault"] * 3
    assert errors["is_fault"].all()
    inside = frame.query("stage == 'decode' and call == 'failing' and hook == 'agent second'")
    assert inside["event"].tolist() == ["on_predict_start", "on_error", "on_predict_end"]
    start = frame.query("stage == 'start' and call == 'failing' and raised")
    assert start[["hook", "event", "request"]].to_numpy().tolist() == [
        ["installed 1", "on_predict_start", 4]
    ]
    after = frame[frame["call"] == "afterwards"]
    assert after["error_type"].isna().all()
    assert after["stage"].nunique() == len(STAGES)


def test_of_an_agent_loads_and_groups_cannot_be_told():
    result = run(make_agent(), progress=False)

    assert result.held is None
    told = {each.rule: each.held for each in result.claims if each.rule}
    assert told["L-7"] is told["L-8"] is told["L-28"] is True
    assert told["L-29"] is told["L-20"] is told["L-35"] is None
    assert "load" not in set(result.outcomes["stage"])


def test_where_a_fault_cannot_be_made_it_cannot_be_told(monkeypatch):
    make = faulty_twin
    monkeypatch.setattr(
        "jevlaya_lab.experiments.failure_cases.faulty_twin",
        lambda agent, fault: None if fault.step == "decode" else make(agent, fault),
    )
    result = on_router()
    assert result.held is None
    assert claim(result, "L-7", "in decode").held is None
    assert "decode" not in set(result.outcomes["stage"])


@pytest.mark.parametrize("step", ["encode", "forward", "decode"])
def test_a_twin_fails_where_it_is_told_to_and_the_agent_never(step):
    agent = make_agent()
    fault = Fault(step)
    twin = faulty_twin(agent, fault)
    question = {"q": {"type": "noul", "instructions": "?"}}
    whole = agent.predict("x y", question)
    assert twin.predict("x y", question) == whole
    fault.tape = Tape([])
    steps = []
    twin.add_hook(type("H", (), {"on_error": lambda _, c: steps.append(c.timings.step)})())
    with pytest.raises(InjectedFault, match=f"in {step}"):
        twin.predict("x y", question)
    assert steps == [step]
    assert agent.predict("x y", question) == whole
    assert agent.hooks == []


# --- a runtime that breaks a rule is found out -------------------------------------------------


def test_only_the_request_that_failed_is_told(monkeypatch):
    finish = lifecycle._finish

    def last_only(started, hooks, failure):
        if failure is None or len(started) < 2:
            return finish(started, hooks, failure)
        finish(started[-1:], hooks, failure)
        return finish(started[:-1], hooks, None)

    monkeypatch.setattr(lifecycle, "_finish", last_only)
    result = on_router()
    assert result.held is False
    assert claim(result, "L-27").held is False
    assert "start, encode, forward, decode; not at" in claim(result, "L-27").evidence


def test_ends_are_left_out(monkeypatch):
    finish = lifecycle._finish
    monkeypatch.setattr(
        lifecycle, "_finish", lambda s, h, f: finish(s, h, f) if f is None else None
    )
    assert claim(on_router(), "L-28").held is False


def test_another_exception_is_raised(monkeypatch):
    monkeypatch.setattr(
        Router,
        "predict_batch",
        _wrapping(Router.predict_batch, lambda error: RuntimeError(str(error))),
    )
    assert claim(on_router(), "L-7").held is False


def test_the_failure_is_swallowed(monkeypatch):
    def quiet(contexts, hooks, work):
        with contextlib.suppress(InjectedFault):
            run_all(contexts, hooks, work)

    run_all = lifecycle.run
    monkeypatch.setattr(lifecycle, "run", quiet)
    assert claim(on_router(), "L-7").held is False


def test_all_start_before_the_first_checkpoint_is_done(monkeypatch):
    """A batch in one bracket: the finished checkpoint then hears of the failure as well."""
    answer_group, finish = Router._answer_group, lifecycle._finish
    started = []

    def all_of_the_call(contexts, hooks, failure):
        started.extend(contexts)
        return finish(contexts if failure is None else list(started), hooks, failure)

    def group(self, name, *args):
        if name == "first":
            started.clear()
        return answer_group(self, name, *args)

    monkeypatch.setattr(Router, "_answer_group", group)
    monkeypatch.setattr(lifecycle, "_finish", all_of_the_call)
    assert claim(on_router(), "L-29").held is False


def test_a_failed_load_that_is_remembered(monkeypatch):
    load = Router.load
    broken = {}

    def once(self, name):
        if id(self) in broken and name == "second" and name not in self.loaded:
            return None
        try:
            return load(self, name)
        except FileNotFoundError as error:
            broken[id(self)] = self, error
            raise

    monkeypatch.setattr(Router, "load", once)
    result = on_router()
    assert claim(result, "L-35").held is False


def test_a_router_that_drops_a_checkpoint_at_a_failure(monkeypatch):
    predict_batch = Router.predict_batch

    def dropping(self, *args, **kwargs):
        try:
            return predict_batch(self, *args, **kwargs)
        except Exception as error:
            self.unload("third")
            raise_again(error)

    monkeypatch.setattr(Router, "predict_batch", dropping)
    result = on_router()
    assert claim(result, "", "holds the same").held is False


def _wrapping(method, other):
    def wrapped(self, *args, **kwargs):
        try:
            return method(self, *args, **kwargs)
        except Exception as error:
            raise other(error) from error

    return wrapped


# --- what is given stays as it is ----------------------------------------------------------------


@pytest.mark.parametrize("progress", [False, stop_at(0), stop_at(3)])
def test_nothing_stays_behind(progress):
    router, agent = a_router(), make_agent()
    before, network = facts(router), agent.network
    for target in (router, agent):
        with pytest.raises(ExperimentStopped) if progress else contextlib.nullcontext():
            run(target, progress=progress)
    assert facts(router) == before
    assert (agent.hooks, agent.network, type(agent)) == ([], network, Agent)
    assert "second" not in router.registered


def test_the_picture_and_the_files(tmp_path):
    result = on_router()
    assert "started" in result.layout().alt
    pd.testing.assert_frame_equal(read_csv(result.to_csv(tmp_path / "a.csv")), result.frame)
