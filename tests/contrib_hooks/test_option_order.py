"""OptionOrderProbe: what it asks, what it reports, and that it neither recurses nor changes."""

from __future__ import annotations

import asyncio
import warnings
from typing import Any

import laya
import pytest
from fakes import QUESTIONS, SKIPPED, Recorder, RecordingNetwork, make_agent, promptly, start_thread
from tiny import make_checkpoint

from jevlaya_lab import Router
from jevlaya_lab.contrib_hooks import OptionOrderProbe
from jevlaya_lab.system_one.errors import InvalidOption

CHOICE: dict[str, Any] = {
    "t": {"type": "choice", "instructions": "Which?", "criteria": ["aa", "bb", "cc"]}
}
MIXED = {
    **CHOICE,
    "s": {"type": "score", "instructions": "How?", "criteria": ["low", "mid", "high"]},
    **QUESTIONS,
}


class FirstWins(RecordingNetwork):
    """Prefers whatever stands in the first slot, by ``strength``."""

    def __init__(self, strength: float = 9.0) -> None:
        super().__init__()
        self.strength = strength

    def forward(self, batch, prepared):
        logits = super().forward(batch, prepared)
        for state in logits.options:
            for question, row in zip(prepared.questions, state, strict=True):
                order = question.option_order or range(len(row))
                row[order[0]] += self.strength
        return logits


def probed(network=None, **options):
    probe = OptionOrderProbe(**options)
    return make_agent(network or RecordingNetwork(), hooks=[probe]), probe


@pytest.mark.parametrize("together", [True, False])
def test_a_network_that_does_not_mind_is_stable_and_the_answer_stays(together):
    probe = OptionOrderProbe()
    agent = make_agent(hooks=[probe], hooks_concurrent=together)
    plain = make_agent().predict_batch(["a a b", "c"], MIXED)

    assert agent.predict_batch(["a a b", "c"], MIXED) == plain
    assert [(r.state, r.question) for r in probe.reports] == [
        (i, qid) for qid in ("t", "s", "q") for i in (0, 1)
    ]
    assert all(r.stable and r.spread == 0 for r in probe.reports)
    assert [r.n_orders for r in probe.reports] == [3, 3, 3, 3, 1, 1]
    assert probe.reports[0].answer == "aa"


def test_a_network_that_prefers_the_first_slot_is_found_out():
    agent, probe = probed(FirstWins(), n_orders=5)
    result = agent.predict("a", MIXED)
    by_id = {report.question: report for report in probe.reports}

    assert result["answers"]["t"]["choice"] == "aa"
    choice = by_id["t"]
    assert not choice.stable
    assert choice.n_orders == 5
    assert choice.agreement == pytest.approx(1 / 5)
    assert choice.others == {"bb": 2, "cc": 2}
    assert choice.spread > 0.9
    assert by_id["q"].agreement == 0.0
    assert by_id["s"].spread > 1
    (first, *_) = probe.summary()
    assert (first["question"], first["n_answers"], first["stability"]) == ("t", 1, 0.0)
    probe.clear()
    assert probe.summary() == []


def test_orders_are_new_and_the_same_for_the_same_seed():
    seen = []
    for seed in (1, 1, 2):
        network = RecordingNetwork()
        agent, _ = probed(network, n_orders=4, seed=seed)
        questions = {"t": {**CHOICE["t"], "criteria": list("abcdefgh")}}
        agent.predict("a", questions)
        seen.append([q.option_order for (q,) in network.questions])
    orders = seen[0][1:]

    assert seen[0] == seen[1] != seen[2]
    assert len(set(orders)) == 4
    assert tuple(range(8)) not in orders


def test_the_questions_own_order_is_not_asked_again():
    network = RecordingNetwork()
    agent, _ = probed(network)
    agent.predict("a", {"q": {**QUESTIONS["q"], "option_order": [1, 0]}})

    assert [q.option_order for (q,) in network.questions] == [(1, 0), (0, 1)]


def test_it_asks_what_the_start_hooks_left_and_with_their_budgets():
    network = RecordingNetwork()
    agent, _ = probed(network)

    def start(ctx):
        ctx.states, ctx.max_len = ["changed"], 20

    agent.predict("a", QUESTIONS, on_predict_start=start)

    assert [step for step in network.steps if "encode" in step] == ["encode changed"] * 2
    assert {budget.max_len for budget in network.budgets} == {20}


def test_only_every_nth_run_is_probed_and_only_so_many_reports_kept():
    agent, probe = probed(every=3, keep=2)
    for _ in range(7):
        agent.predict("a", QUESTIONS)

    assert len(probe.reports) == 2
    assert probe._n_runs == 7


def test_what_is_left_alone():
    network = RecordingNetwork()
    agent, probe = probed(network)
    agent.predict("a", QUESTIONS, on_predict_start=lambda ctx: ctx.skip([SKIPPED]))
    agent.predict_long("a b " * 200, QUESTIONS, window=64)
    agent.predict("a", {})
    agent.predict("a", {"t": {**CHOICE["t"], "criteria": ["only"]}})
    agent.predict_batch([], QUESTIONS)
    network.failing["forward"] = LookupError("no")
    with pytest.raises(LookupError):
        agent.predict("a", QUESTIONS)

    assert probe.reports == []
    assert probe.n_failed == 0


def test_a_probe_that_fails_is_a_warning():
    network = RecordingNetwork()
    agent, probe = probed(network)
    fail = Recorder(end=lambda ctx: network.failing.update(forward=LookupError("no")))
    agent = make_agent(network, hooks=[fail, probe])
    with pytest.warns(RuntimeWarning, match="asking 'test' again failed: no"):
        assert "q" in agent.predict("a", QUESTIONS)["answers"]

    assert probe.n_failed == 1


def test_a_router_is_passed_by():
    probe, seen = OptionOrderProbe(5), Recorder()
    router = Router(hooks=[probe, seen])
    network = FirstWins()
    router.attach("english", make_agent(network))
    asked = {"state": "a", "questions": CHOICE, "model": "english"}
    router.predict_batch([asked, asked])

    assert [report.agreement for report in probe.reports] == [1 / 5, 1 / 5]
    assert seen.log == ["hook.start"] * 2 + ["hook.end"] * 2


def test_threads_and_a_running_loop():
    agent, probe = probed(FirstWins())

    def ask():
        for _ in range(10):
            agent.predict("a", QUESTIONS)

    threads = [start_thread(ask) for _ in range(4)]
    for thread in threads:
        thread.join(60)

    async def one():
        agent.predict("a", QUESTIONS)

    promptly(lambda: asyncio.run(one()))
    assert len(probe.reports) == 41


@pytest.mark.parametrize("options", [{}, {"hooks_timeout": 20}, {"hooks_concurrent": False}])
def test_hooks_that_run_elsewhere_do_not_recurse(options):
    probe = OptionOrderProbe()
    agent = make_agent(hooks=[probe], **options)
    promptly(agent.predict, "a", MIXED)

    assert len(probe.reports) == 3


def test_objects_of_laya(tmp_path):
    probe = OptionOrderProbe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = str(make_checkpoint(tmp_path / "one"))
        plain = laya.Agent(folder, device="cpu")
        agent = laya.Agent(folder, device="cpu", hooks=[probe], hooks_concurrent=False)
        assert agent.predict("a text", MIXED) == plain.predict("a text", MIXED)
        assert agent.predict_batch(["a", "b"], CHOICE) == plain.predict_batch(["a", "b"], CHOICE)
        agent.predict_long("word and word " * 100, CHOICE)
        agent.predict("a text", QUESTIONS, hooks_timeout=None)
        router = laya.Router(hooks=[probe])
        router.attach("english", plain)
        router.predict("a text", CHOICE, model="english")

    assert probe.n_failed == 0
    assert [report.question for report in probe.reports] == ["t", "s", "q", "t", "t", "q", "t"]
    assert {report.n_orders for report in probe.reports} == {1, 3}


@pytest.mark.parametrize("arguments", [{"n_orders": 0}, {"every": 0}, {"keep": 0}])
def test_bad_options_are_refused(arguments):
    with pytest.raises(InvalidOption):
        OptionOrderProbe(**arguments)
