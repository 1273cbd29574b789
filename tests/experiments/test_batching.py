"""Batching: counts are exact, and each claim notices when the runtime breaks it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from experiment_fakes import claim, routed
from fakes import RecordingNetwork, StubAgent, make_agent

from jevlaya_lab import Noul, Router
from jevlaya_lab.experiments import batching
from jevlaya_lab.system_one import answering, inference
from jevlaya_lab.system_one.context import ForwardPass
from jevlaya_lab.system_one.errors import InvalidInput
from jevlaya_lab.system_one.models.instant import InstantNetwork

STATES = ["word " * n for n in (9, 1, 8, 2, 7, 3, 6)]


def run(agent=None, **options):
    given = {"n": 12, "batch_sizes": (1, 3, 0), "repeats": 1, "progress": False, **options}
    return batching.run(agent, **given)


class WithTheBatch(InstantNetwork):
    """Answers by how many share the pass."""

    def forward(self, batch, prepared):
        logits = super().forward(batch, prepared)
        for state in logits.options:
            for values in state:
                values[0] += 5 * batch.n_states
        return logits


def test_passes_rows_and_padding_are_those_of_the_batch_size():
    result = run(make_agent(), states=STATES)
    sizes = result.frame[result.frame["part"] == "size"].set_index(["batch_size", "sorting"])

    assert sizes["passes"].to_dict() == {
        (1, "off"): 7, (1, "runtime"): 7,
        (3, "off"): 3, (3, "runtime"): 3,
        (0, "off"): 1, (0, "runtime"): 1,
    }  # fmt: skip
    assert set(sizes["rows"]) == {7}
    assert set(sizes["tokens"]) == {sum(len(state.split()) for state in STATES)}
    assert sizes.loc[(3, "runtime"), "padding"] == (3 - 1 + 3 - 2) + (8 - 6 + 8 - 7)
    assert sizes.loc[(0, "off"), "padding_share"] == pytest.approx(1 - 36 / 63)
    assert sizes.loc[(3, "off"), "largest_pass"] == 3
    assert claim(result, "forward passes, rounded up").held is True
    assert claim(result, "Sorted by length").held is True


def test_of_a_router_each_checkpoints_share_is_counted_by_itself():
    result = run(routed())
    row = result.frame[result.frame["batch_size"] == 3].iloc[0]

    assert row["runs"] == "0 1"
    assert claim(result, "forward passes, rounded up").held is True


def test_passes_that_embed_questions_are_no_passes_over_states():
    network = RecordingNetwork()
    network.preparing = [ForwardPass("questions", 5, 50, 0, 1.0)]
    result = run(make_agent(network), states=STATES)

    assert set(result.frame.loc[result.frame["part"] == "size", "rows"]) == {7}
    assert claim(result, "forward passes, rounded up").held is True


def test_a_runtime_that_ignores_the_batch_size_breaks_the_claim(monkeypatch):
    honest = inference.chunks
    monkeypatch.setattr(
        inference, "chunks", lambda lengths, rows, size, by_length: honest(lengths, rows, 2, False)
    )
    result = run(make_agent(), states=STATES)
    found = claim(result, "forward passes, rounded up")

    assert (found.rule, found.held) == ("L-6", False)
    assert "(not 7)" in found.evidence
    assert claim(result, "Sorted by length").held is False


def test_a_runtime_that_reads_a_state_twice_breaks_the_claim(monkeypatch):
    honest = inference.chunks

    def twice(lengths, rows, size, by_length):
        found = list(honest(lengths, rows, size, by_length))
        return [*found, found[0]] if size == 3 else found

    monkeypatch.setattr(inference, "chunks", twice)
    result = run(make_agent(), states=STATES)

    assert claim(result, "padding alone").held is False
    assert claim(result, "forward passes, rounded up").held is False


def test_answers_that_depend_on_the_batch_break_the_claim():
    found = claim(run(make_agent(WithTheBatch()), states=STATES), "The batch decides no answer")

    assert (found.rule, found.held) == ("L-18", False)


def test_requests_share_a_call_only_where_they_ask_alike():
    result = run(routed())
    mixed = result.frame[result.frame["part"] == "mixed"].set_index("setting")

    assert mixed["runs"].to_dict() == {
        "as the others": "0",
        "a copy of the questions": "0",
        "questions in another order": "1",
        "options in another order": "2",
        "max_len=96": "3",
        "head_max_len=32": "4",
    }
    assert (claim(result, "share a call").rule, claim(result, "share a call").held) == (
        "L-23",
        True,
    )


@pytest.mark.parametrize("break_it", ["together", "apart"])
def test_a_runtime_that_groups_otherwise_breaks_the_claim(monkeypatch, break_it):
    honest = answering.group

    def group(runs, budgets_of):
        if break_it == "apart":
            return [one for run in runs for one in honest([run], budgets_of)]
        found = honest(runs, budgets_of)
        for other in found[1:]:
            found[0].runs.extend(other.runs)
        return found[:1]

    monkeypatch.setattr(answering, "group", group)

    assert claim(run(routed()), "share a call").held is False


def test_an_agents_mixture_goes_through_a_router_around_it_and_changes_nothing_of_it():
    agent = make_agent()
    result = run(agent)

    assert claim(result, "share a call").held is True
    assert list(agent.hooks) == []


def test_input_is_sorted_before_where_there_is_no_switch():
    class Plain:
        """An agent-like object without ``sort_by_length``."""

        def __init__(self):
            self.agent = make_agent()
            self.add_hook, self.remove_hook = self.agent.add_hook, self.agent.remove_hook

        def predict_batch(self, states, questions, batch_size=None, hooks=None):
            return self.agent.predict_batch(
                states, questions, batch_size, hooks=hooks, sort_by_length=False
            )

    states = ["billing " * 9, "tech", "shipping " * 5, "sales sales", "account " * 7]
    result = run(Plain(), states=states)
    sizes = result.frame[result.frame["part"] == "size"]

    assert set(sizes["sorting"]) == {"off", "before"}
    assert claim(result, "The batch decides no answer").held is True
    assert claim(result, "forward passes, rounded up").held is None  # its network is not seen


def test_passes_that_cannot_be_seen_are_not_guessed():
    router = Router()
    for name in ("english", "multilingual"):
        router.attach(name, StubAgent())
    result = run(router, questions={"of": Noul("Is it so?")})

    assert result.frame["passes"].isna().all()
    for words in ("forward passes, rounded up", "padding alone", "Sorted by length"):
        assert claim(result, words).held is None


def test_time_is_not_judged_of_too_few_repeats():
    found = claim(run(make_agent()), "more states per second")

    assert found.held is None
    assert "three repeats" in found.evidence


def test_times_that_overlap_are_not_judged():
    frame = run(make_agent(), batch_sizes=(1, 3)).frame
    sizes = frame[frame["part"] == "size"].assign(n_repeats=3)
    apart = np.where(sizes["batch_size"] == 3, 1.0, 5.0)

    def held(low, high):
        told = sizes.assign(ms_low=low, ms_high=high)
        rest = frame[frame["part"] == "mixed"]
        claims = batching.claims_about(pd.concat([told, rest]))
        return next(each.held for each in claims if "per second" in each.text)

    assert held(apart, apart + 1) is True
    assert held(apart, apart + 9) is None
    assert held(-apart, -apart + 1) is False


def test_what_takes_no_hooks_is_refused_before_it_is_asked():
    stub = StubAgent()
    with pytest.raises(InvalidInput, match="batching watches with hooks, and StubAgent takes none"):
        run(stub)
    assert stub.calls == []
