"""The experiment on concurrency: a hook without a lock is caught, and so is a lock that is none."""

from __future__ import annotations

import contextlib
import itertools
import signal
import threading
import time

import pandas as pd
import pytest
from benches import a_router, build_at_once, claim, facts, stop_at, threads_of_experiments
from fakes import make_agent, promptly

from jevlaya_lab import Router
from jevlaya_lab.experiments import ExperimentStopped, crowds
from jevlaya_lab.experiments.concurrency import run
from jevlaya_lab.frames import read_csv
from jevlaya_lab.system_one.agent import Agent
from jevlaya_lab.system_one.calling import ChainLock


@pytest.fixture(autouse=True)
def _built(monkeypatch):
    build_at_once(monkeypatch)


def quickly(target, **options):
    return promptly(lambda: run(target, **{"threads": [1, 3], "requests": 4} | options))


@pytest.mark.parametrize("make", [a_router, make_agent])
def test_updates_are_lost_at_once_and_none_one_at_a_time(make):
    result = quickly(make(), progress=False)

    frame = result.frame.set_index(["threads", "hooks_concurrent"])
    assert result.held is True
    assert frame.loc[(3, True), "lost_updates"] >= 1
    assert frame.loc[(3, True), "max_hooks_at_once"] >= 2
    assert frame.loc[(3, False), "lost_updates"] == 0
    assert frame["requests"].tolist() == [4, 4, 12, 12]
    assert (frame["counted"] + frame["lost_updates"] == frame["requests"]).all()
    assert frame.loc[(3, False), "max_hooks_at_once"] == 1
    assert frame["mixed_up"].sum() == frame["failed"].sum() == 0
    assert (frame["p95_ms"] >= frame["p50_ms"]).all()


def test_of_one_thread_nothing_can_be_told():
    result = quickly(make_agent(), threads=[1], progress=False)
    assert result.held is None
    assert claim(result, "L-39").held is None
    assert claim(result, "L-38", "loses updates").held is None


def test_threads_that_never_met_tell_nothing_about_losses(monkeypatch):
    """A machine that runs one thread after the other is no proof of anything."""
    hold = ChainLock()
    method = crowds.UnsafeCounter.on_predict_start

    def alone(self, ctx):
        with hold.hold():
            method(self, ctx)

    monkeypatch.setattr(crowds, "PATIENCE", 0.01)
    monkeypatch.setattr(crowds.UnsafeCounter, "on_predict_start", alone)
    monkeypatch.setattr(crowds.UnsafeCounter, "on_predict_end", lambda self, ctx: None)
    result = quickly(make_agent(), progress=False)
    assert claim(result, "L-38", "loses updates").held is None
    assert "Not all threads met" in claim(result, "L-38", "loses updates").evidence


# --- a runtime that breaks a rule is found out -------------------------------------------------


def test_a_lock_that_locks_nothing(monkeypatch):
    monkeypatch.setattr(ChainLock, "hold", lambda self: contextlib.nullcontext())
    result = quickly(make_agent(), progress=False)
    assert result.held is False
    assert claim(result, "L-39").held is False


def test_a_context_with_the_state_of_another_request(monkeypatch):
    run_of = Router._run_of

    def mixed(self, *args):
        ctx = run_of(self, *args)
        if "thread 2" in ctx.states[0]:
            ctx.states = ["thread 1, first request"]
        return ctx

    monkeypatch.setattr(Router, "_run_of", mixed)
    result = quickly(a_router(), progress=False)
    assert claim(result, "L-38", "sees the states").held is False
    assert result.frame["mixed_up"].tolist() == [0, 0, 4, 4]


def test_results_that_go_to_another_caller(monkeypatch):
    predict, kept = Agent.predict, []

    def late(self, state, questions, **options):
        kept.append(predict(self, state, questions, **options))
        return kept[max(0, len(kept) - 2)]

    monkeypatch.setattr(Agent, "predict", late)
    result = quickly(make_agent(), threads=[1], progress=False)
    assert claim(result, "L-38", "sees the states").held is False


def test_requests_that_fail_are_counted(monkeypatch):
    predict = Agent.predict

    def sometimes(self, state, questions, **options):
        if state == "thread 0, request 2":
            raise LookupError(state)
        return predict(self, state, questions, **options)

    monkeypatch.setattr(Agent, "predict", sometimes)
    result = quickly(make_agent(), progress=False)
    assert claim(result, "L-38", "answered").held is False
    assert result.frame["failed"].tolist() == [1, 1, 1, 1]


# --- what is given stays as it is ----------------------------------------------------------------


@pytest.mark.parametrize("step", [None, 0, 2])
def test_nothing_stays_behind(step):
    router, agent = a_router(), make_agent()
    before, network = facts(router), agent.network
    for target in (router, agent):
        with contextlib.nullcontext() if step is None else pytest.raises(ExperimentStopped):
            quickly(target, progress=False if step is None else stop_at(step))
    assert facts(router) == before
    assert (agent.hooks, agent.network, agent.hooks_concurrent) == ([], network, True)
    assert threads_of_experiments() == []


@pytest.mark.skipif(
    not hasattr(signal, "pthread_kill"), reason="a thread cannot be sent an interrupt here"
)
def test_an_interrupt_of_the_one_who_waits_ends_all_threads(monkeypatch):
    """As Ctrl-C in a notebook: it comes while the main thread waits for the others."""
    agent = make_agent()
    predict = Agent.predict
    asked, done = itertools.count(), []

    def interrupting(self, state, *args, **kwargs):
        next(asked)
        if state == "thread 0, request 20":  # of the thread that is waited for first
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            time.sleep(0.3)  # what has begun is finished, and waited for
            done.append(state)
        return predict(self, state, *args, **kwargs)

    monkeypatch.setattr(Agent, "predict", interrupting)
    with pytest.raises(KeyboardInterrupt):
        run(agent, threads=[4], requests=10_000, progress=False)
    assert threads_of_experiments() == []
    assert agent.hooks == []
    assert done == ["thread 0, request 20"]
    assert next(asked) < 1000


def test_the_picture_and_the_files(tmp_path):
    result = quickly(make_agent(), progress=False)
    assert "Updates that a hook without a lock loses" in result.layout().alt
    pd.testing.assert_frame_equal(read_csv(result.to_csv(tmp_path / "a.csv")), result.frame)
