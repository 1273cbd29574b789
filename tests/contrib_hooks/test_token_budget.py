"""TokenBudgetGuard: refusing and cutting, per call and per minute, before anything is computed."""

from __future__ import annotations

import warnings
from contextlib import suppress

import laya
import pytest
from fakes import (
    QUESTIONS,
    SKIPPED,
    Recorder,
    RecordingNetwork,
    StubAgent,
    make_agent,
    start_thread,
)
from tiny import make_checkpoint

from jevlaya_lab import Router
from jevlaya_lab.contrib_hooks import BudgetExceeded, TokenBudgetGuard
from jevlaya_lab.system_one.errors import InvalidOption, InvalidState


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


def guarded(*limits, **options):
    network, guard, seen = RecordingNetwork(), TokenBudgetGuard(*limits, **options), Recorder()
    return make_agent(network, hooks=[guard, seen]), network, guard, seen


def test_a_call_over_the_budget_is_refused_before_anything_is_computed():
    agent, network, guard, _ = guarded(3)
    agent.predict("a b c", QUESTIONS)
    network.steps.clear()
    with pytest.raises(BudgetExceeded, match="'test' would read 4 tokens in 2 states") as caught:
        agent.predict_batch(["a b", "c d"], QUESTIONS)

    assert network.steps == []
    assert (caught.value.asked, caught.value.limit, caught.value.unit) == (4, 3, "tokens")
    assert caught.value.retry_after is None
    assert guard.counts == {"passed": 1, "trimmed": 0, "refused": 1}


def test_characters_of_json_states_are_counted_as_the_network_reads_them():
    agent, *_ = guarded(8, unit="characters")
    agent.predict({"a": 1}, QUESTIONS)
    with pytest.raises(BudgetExceeded, match="9 characters in 1 state, over its budget of 8"):
        agent.predict({"a": 12}, QUESTIONS)


def test_texts_are_cut_evenly_and_short_ones_stay_whole():
    agent, _, guard, seen = guarded(8, over="trim")
    states = ["a b c d e f g h i", "x y", "1 2 3 4"]
    agent.predict_batch(states, QUESTIONS)

    assert [text.split() for text in seen.contexts[0].states] == [
        ["a", "b", "c"],
        ["x", "y"],
        ["1", "2", "3"],
    ]
    assert states[0] == "a b c d e f g h i"
    assert guard.counts["trimmed"] == 1


def test_of_a_conversation_the_last_turns_stay():
    agent, _, _, seen = guarded(40, unit="characters", over="trim")
    turns = [{"user": "one"}, {"agent": "two"}, {"user": "three"}]
    agent.predict(turns, QUESTIONS)

    assert seen.contexts[0].states == [turns[1:]]
    assert len(turns) == 3


@pytest.mark.parametrize("state", [{"text": "a b c d"}, [{"user": "a b c d"}], "ab"])
def test_what_cannot_be_cut_is_refused(state):
    agent, *_ = guarded(1, over="trim", unit="tokens", count=len)
    with pytest.raises(BudgetExceeded) if state != "ab" else warnings.catch_warnings():
        agent.predict(state, QUESTIONS)


def test_texts_of_which_nothing_is_left_are_refused():
    agent, *_ = guarded(2, over="trim")
    with pytest.raises(BudgetExceeded, match=r"state \d \(str\) cannot be cut to fit"):
        agent.predict_batch(["a b", "c", "d"], QUESTIONS)


def test_a_minute_has_a_budget_and_the_error_says_when_there_is_room():
    clock = Clock()
    agent, _, guard, _ = guarded(None, 5, clock=clock)
    agent.predict("a b", QUESTIONS)
    clock.now += 10
    agent.predict("a b c", QUESTIONS)
    clock.now += 10
    with pytest.raises(BudgetExceeded, match="5 of 5 spent in the last minute") as caught:
        agent.predict("a b", QUESTIONS)
    assert caught.value.retry_after == pytest.approx(40)
    clock.now += 40
    agent.predict("a b", QUESTIONS)
    with pytest.raises(BudgetExceeded, match="not fit into an empty minute") as caught:
        agent.predict("a b c d e f", QUESTIONS)

    assert caught.value.retry_after is None
    assert guard.counts == {"passed": 3, "trimmed": 0, "refused": 2}


def test_what_is_cut_costs_a_minute_only_what_is_left():
    agent, _, guard, _ = guarded(2, 4, over="trim", clock=Clock())
    for _ in range(2):
        agent.predict("a b c d e", QUESTIONS)
    with pytest.raises(BudgetExceeded):
        agent.predict("a", QUESTIONS)

    assert guard.counts == {"passed": 0, "trimmed": 2, "refused": 1}


def test_what_a_hook_answered_costs_nothing():
    guard = TokenBudgetGuard(1)
    agent = make_agent(hooks=[Recorder(start=lambda ctx: ctx.skip([SKIPPED])), guard])

    assert agent.predict("a b c", QUESTIONS) == SKIPPED


def test_threads_share_one_minute():
    guard = TokenBudgetGuard(per_minute=40, clock=Clock())
    agent = make_agent(hooks=[guard], hooks_concurrent=False)

    def ask():
        for _ in range(20):
            with suppress(BudgetExceeded):
                agent.predict("a b", QUESTIONS)

    threads = [start_thread(ask) for _ in range(4)]
    for thread in threads:
        thread.join(60)

    assert guard.counts == {"passed": 20, "trimmed": 0, "refused": 60}


@pytest.mark.parametrize("make", [Router, laya.Router])
def test_routers_of_both_makes(make):
    guard, stub = TokenBudgetGuard(4, unit="characters"), StubAgent()
    router = make(hooks=[guard], hooks_concurrent=False)
    router.attach("english", stub)
    router.predict("abcd", QUESTIONS, model="english")
    with pytest.raises(BudgetExceeded):
        router.predict("abcde", QUESTIONS, model="english")

    assert len(stub.calls) == 1
    with pytest.raises(InvalidState, match="tokenizer of a StubAgent; give count="):
        router.predict("a", QUESTIONS, model="english", hooks=[TokenBudgetGuard(4)])


def test_an_agent_of_laya_counts_with_its_own_tokenizer(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        agent = laya.Agent(str(make_checkpoint(tmp_path / "one")), device="cpu")
        guard, seen = TokenBudgetGuard(4, over="trim"), Recorder()
        result = agent.predict("one two three four five", QUESTIONS, hooks=[guard, seen])

    assert result["usage"]["state_tokens"] == 4
    assert seen.contexts[0].states[0].split() == ["one", "two", "three", "four"]


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({}, "needs a limit"),
        ({"per_call": 0}, "per_call"),
        ({"per_call": 1, "unit": "words"}, "unit"),
        ({"per_call": 1, "over": "cut"}, "over"),
    ],
)
def test_bad_options_are_refused(arguments, match):
    with pytest.raises(InvalidOption, match=match):
        TokenBudgetGuard(**arguments)
