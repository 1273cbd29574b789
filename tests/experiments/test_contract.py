"""What the experiments on caching, batching, order and budgets have in common."""

from __future__ import annotations

import warnings
from contextvars import Context

import laya
import laya.agent
import pandas as pd
import pytest
from experiment_fakes import claim, routed
from fakes import StubAgent, make_agent, promptly
from tiny import make_checkpoint

from jevlaya_lab import Agent, Choice, Noul, OptionOrderProbe, Router
from jevlaya_lab.experiments import ExperimentStopped, find
from jevlaya_lab.frames import read_csv
from jevlaya_lab.system_one.errors import (
    InvalidInput,
    InvalidOption,
    InvalidQuestion,
    InvalidResult,
)
from jevlaya_lab.views.layout import Layout

QUICK = {
    "caching": {"n": 2},
    "batching": {"n": 4, "repeats": 1, "batch_sizes": (1, 2)},
    "option_order": {"n": 3, "n_orders": 2},
    "budget": {"n": 3, "max_lens": (64, 96), "head_max_lens": (24, 48)},
}
NAMES = tuple(QUICK)
COMPUTED = {
    "caching": {"n": 1},
    "batching": {"n": 3, "repeats": 1, "batch_sizes": (1, 2)},
    "option_order": {"n": 1, "n_orders": 2},
    "budget": {"n": 2, "max_lens": (64, 96), "head_max_lens": (24, 48)},
}
"""Fewer states, where a real network reads them."""


class Watch:
    """A hook that was there before."""

    def on_predict_start(self, ctx):
        pass


def run(name, agent=None, **options):
    return find(name).run(agent, **{**QUICK[name], "progress": False, **options})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(make_checkpoint(tmp_path_factory.mktemp("checkpoints") / "one", seed=1))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("make", [routed, make_agent])
def test_what_was_given_keeps_its_hooks(name, make):
    agent, hook = make(), Watch()
    agent.add_hook(hook)
    result = run(name, agent)

    assert list(agent.hooks) == [hook]
    for each in getattr(agent, "loaded", ()):
        assert list(agent.load(each).hooks) == []
    assert result.claims
    assert len(result.frame)


@pytest.mark.parametrize("name", NAMES)
def test_it_can_be_stopped_before_every_step_and_leaves_nothing_behind(name):
    told = []
    run(name, routed(), progress=lambda done, total, step: told.append((done, total)))
    total = told[0][1]
    assert told == [(i, total) for i in range(total + 1)]

    for last in range(total + 1):
        router = routed()

        def stop(done, total, step, last=last):
            if done == last:
                raise ExperimentStopped("enough")

        with pytest.raises(ExperimentStopped):
            run(name, router, progress=stop)
        assert list(router.hooks) == []
        for each in router.loaded:
            assert list(router.load(each).hooks) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_call_that_fails_leaves_nothing_behind(name):
    class Fails:
        def on_predict_start(self, ctx):
            raise LookupError("no")

    agent, hook = make_agent(), Fails()
    agent.add_hook(hook)
    with pytest.raises(LookupError):
        run(name, agent)

    assert list(agent.hooks) == [hook]


@pytest.mark.parametrize("name", NAMES)
def test_the_result_can_be_written_read_drawn_and_put_into_words(name, tmp_path):
    result = run(name, routed(), seed=3)
    path = result.to_csv(tmp_path / "frame.csv")

    pd.testing.assert_frame_equal(read_csv(path), result.frame)
    assert isinstance(result.layout(), Layout)
    assert result.name == name
    assert result.summary().startswith(f"{name}: ")
    assert all(each.text in result.summary() for each in result.claims)
    assert (result.seed, result.parameters["n"]) == (3, QUICK[name]["n"])
    assert result.parameters["agent"] == "jevlaya_lab.Router"
    assert set(find(name).run.experiment.takes) >= {"states", "questions"}
    wanted = {each.name for each in find(name).parameters} - {"seed"}
    assert wanted <= set(result.parameters)


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_asks_the_same(name):
    def counts(seed):
        frame = run(name, routed(), seed=seed).frame
        return frame.drop(columns=[c for c in frame if c == "ms" or "ms_" in c or "per_s" in c])

    pd.testing.assert_frame_equal(counts(5), counts(5))


@pytest.mark.parametrize("name", NAMES)
def test_states_and_questions_may_be_given_and_their_text_is_not_kept(name):
    states = pd.Series(["alpha secret", "beta " * 9, {"text": "gamma"}, ["a", "b"]])
    questions = {7: Choice("Which?", ["alpha", "beta"]), "sure": Noul("Sure?")}
    result = run(name, routed(), states=states, questions=questions)

    assert "secret" not in repr(result.parameters)
    assert result.parameters["states"].startswith("4 given")
    if "question" in result.frame:
        assert set(result.frame["question"]) <= {"7", "sure"}


@pytest.mark.parametrize("name", NAMES)
def test_what_cannot_be_used_is_refused_before_anything_is_asked(name):
    stub = StubAgent()
    with pytest.raises(InvalidInput, match=f"{name} watches with hooks"):
        run(name, stub)
    assert stub.calls == []
    with pytest.raises(InvalidInput, match="an experiment takes an agent or a router"):
        run(name, "english")
    with pytest.raises(InvalidQuestion):
        run(name, make_agent(), questions={"q": {"type": "choice"}})
    with pytest.raises(InvalidOption, match="n=0"):
        run(name, make_agent(), n=0)


@pytest.mark.parametrize("name", NAMES)
def test_it_runs_over_laya_and_sees_what_ours_shows(name, folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = laya.agent.Agent(folder, device="cpu")
        router = laya.Router({"english": folder, "multilingual": folder}, device="cpu")
        hook = Watch()
        router.hooks.append(hook)
        found = run(name, theirs, **COMPUTED[name])
        ours = run(name, Agent(folder), **COMPUTED[name])
        of_router = run(name, router, **COMPUTED[name])
    counted = [
        c for c in ("passes", "rows", "tokens", "padding", "computed", "n_truncated", "tokens_kept",
                    "skipped", "outcome", "ctx_tokens")
        if c in found.frame
    ]  # fmt: skip

    assert theirs.hooks == []
    assert not theirs.model._forward_hooks
    assert not theirs.model._forward_pre_hooks
    assert router.hooks == [hook]
    assert found.frame[counted].equals(ours.frame[counted])
    assert [each.held for each in found.claims] == [each.held for each in ours.claims]
    rules = [each for each in of_router.claims if each.rule]
    assert all(each.held is not False for each in rules), of_router.summary()


@pytest.mark.checkpoint
@pytest.mark.parametrize("name", NAMES)
def test_its_hypothesis_about_the_runtime_holds_on_the_embedded_checkpoint(name):
    result = run(name, **COMPUTED[name])

    assert all(each.held is not False for each in result.claims if each.rule), result.summary()
    assert result.parameters["agent"] == "Router() with the embedded checkpoint"


def test_passes_of_calls_that_hooks_make_meanwhile_are_not_counted():
    agent = make_agent()
    agent.add_hook(OptionOrderProbe(2))
    result = run("batching", agent, n=6)

    assert all(each.held for each in result.claims if each.rule), result.summary()
    sizes = result.frame[result.frame["part"] == "size"]
    assert set(sizes["rows"]) == {6}


def test_of_what_others_ask_at_the_same_time_nothing_is_counted():
    """Another thread asks the router's agent between two start hooks of the experiment's call."""
    agent, questions = make_agent(), {"q": Noul("Sure?")}
    others = []

    class Elsewhere:
        def on_predict_start(self, ctx):
            ask = Context().run  # of a thread that has nothing to do with this call
            others.append(promptly(lambda: ask(agent.predict, "b", questions)))

    router = Router(hooks=[Elsewhere()])
    for each in ("english", "multilingual"):
        router.attach(each, agent)
    result = run("batching", router, states=["alpha", "beta"], questions=questions)
    sizes = result.frame[result.frame["part"] == "size"]

    assert len(others) > 2
    assert set(sizes["rows"]) == {2}
    assert all(each.held for each in result.claims if each.rule), result.summary()


@pytest.mark.parametrize("name", ["caching", "option_order"])
def test_agents_that_say_little_behind_a_router_make_no_claim_true(name):
    router = Router()
    for each in ("english", "multilingual"):
        router.attach(each, StubAgent())
    result = run(name, router)

    assert isinstance(result.layout(), Layout)
    unknown = {"caching": "Nothing is computed", "option_order": "in any order"}[name]
    assert claim(result, unknown).held is None


def test_budget_says_what_it_needs_of_results():
    router = Router()
    for each in ("english", "multilingual"):
        router.attach(each, StubAgent())
    with pytest.raises(InvalidResult, match="budget reads from the usage of each result"):
        run("budget", router)


def test_what_it_ran_on_is_named_with_its_version(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = laya.agent.Agent(folder, device="cpu")
        result = run("option_order", theirs, **COMPUTED["option_order"])

    assert result.parameters["agent"].startswith("laya.Agent")
    assert result.parameters["agent"].endswith("version 0.4.15")


@pytest.mark.checkpoint
@pytest.mark.parametrize("name", ["batching", "budget", "caching", "option_order"])
def test_attached_agents_of_a_full_router_stay_and_nothing_else_does(name):
    router = Router(max_loaded=1)
    agents = {each: make_agent() for each in ("mine", "english")}
    for each, agent in agents.items():
        router.attach(each, agent)
    router.load("mine")
    before = list(router.loaded)
    small = {"budget": {"max_lens": [8], "head_max_lens": [8]}, "batching": {"batch_sizes": [1]}}
    find(name).run(router, n=2, progress=False, **small.get(name, {}))

    assert list(router.loaded) == before
    assert router.max_loaded == 2
    assert all(router.load(each) is agent for each, agent in agents.items())
