"""Budgets: what is cut changes answers, and each claim notices when the runtime breaks it."""

from __future__ import annotations

import numpy as np
import pytest
from experiment_fakes import claim, routed
from fakes import make_agent

from jevlaya_lab import Choice
from jevlaya_lab.experiments import budget
from jevlaya_lab.system_one.context import PredictContext
from jevlaya_lab.system_one.errors import InvalidOption
from jevlaya_lab.system_one.inference import FourSteps
from jevlaya_lab.system_one.models.instant import InstantNetwork

WORDS = "alpha beta gamma delta"
STATES = [" ".join(WORDS.split() * n) for n in (1, 4, 12)]  # 4, 16 and 48 tokens
QUESTIONS = {"q": Choice("Which?", ["alpha", "beta", "zeta"])}


class ReadsWhatIsLeft(InstantNetwork):
    """Counts letters in the words that the budget left, and tells options by their first token.

    Args:
        least: The smallest ``max_len`` that it takes.
        apart: Whether options that were cut to the same text get logits of their own.
    """

    def __init__(self, least=8, apart=False):
        self.least, self.apart = least, apart

    def prepare(self, questions, budget):
        if budget.max_len < self.least:
            raise InvalidOption(f"max_len must be at least {self.least}")
        prepared = super().prepare(questions, budget)
        if budget.head_max_len < 16:
            prepared.collapsed["q"] = {"total": 3, "distinct": 1, "tokens_per_option": 1}
        return prepared

    def forward(self, batch, prepared):
        logits = super().forward(batch, prepared)
        for state in logits.options:
            for i, values in enumerate(state):
                values += prepared.budget.max_len % 7 * np.arange(len(values)) * self.apart
                if prepared.collapsed and not self.apart:
                    state[i] = np.zeros_like(values)
        return logits


def run(agent=None, **options):
    given = {"max_lens": (8, 32), "head_max_lens": (8, 32), "progress": False, **options}
    return budget.run(agent, states=STATES, questions=QUESTIONS, **given)


@pytest.mark.parametrize("agent", [routed, make_agent])
def test_what_is_cut_is_counted(agent):
    result = run(agent())
    frame = result.frame.set_index(["budget", "tokens_allowed"])

    assert frame.loc[("max_len", 8), "n_truncated"] == 2
    assert frame.loc[("max_len", 32), "n_truncated"] == 1
    assert frame.loc[("max_len", 8), "tokens_kept"] == 4 + 8 + 8
    assert frame.loc[("by hook", 8), "tokens_kept"] == 4 + 8 + 8
    assert frame.loc[("max_len", 32), "state_tokens"] == 68
    assert frame.loc[("head_max_len", 8), "n_truncated"] == 0
    for words in (
        "carry its budget",
        "beyond its budget",
        "that a start hook sets",
        "cuts no more",
    ):
        assert claim(result, words).held is True


def test_a_runtime_that_reads_more_than_the_budget_breaks_the_claim(monkeypatch):
    honest = FourSteps._budget_of
    monkeypatch.setattr(FourSteps, "_budget_of", lambda self, *_: honest(self, None, None))

    assert claim(run(make_agent()), "beyond its budget").held is False


def test_a_runtime_that_loses_the_budget_of_a_request_breaks_the_claim(monkeypatch):
    honest = PredictContext.__init__

    def forgetful(self, *args, **options):
        if options.get("router") is not None:
            options |= {"max_len": None, "head_max_len": None}
        honest(self, *args, **options)

    monkeypatch.setattr(PredictContext, "__init__", forgetful)
    found = claim(run(routed()), "carry its budget")

    assert (found.rule, found.held) == ("L-21", False)


def test_a_runtime_that_takes_no_budget_of_a_hook_breaks_the_claim(monkeypatch):
    def assign(self, name, value):
        if name != "max_len" or "hook_log" not in self.__dict__:
            object.__setattr__(self, name, value)

    monkeypatch.setattr(PredictContext, "__setattr__", assign, raising=False)
    found = claim(run(routed()), "that a start hook sets")

    assert (found.rule, found.held) == ("L-21", False)


def test_whole_states_that_change_their_answers_break_the_claim():
    assert claim(run(make_agent()), "not cut keeps").held is True
    found = claim(run(make_agent(ReadsWhatIsLeft(apart=True))), "not cut keeps")

    assert found.held is False


def test_options_that_became_the_same_are_told_apart_or_not():
    same = run(make_agent(ReadsWhatIsLeft()))
    row = same.frame.set_index(["budget", "tokens_allowed"]).loc[("head_max_len", 8)]

    assert (row["options"], row["options_distinct"], row["most_probabilities"]) == (3, 1, 1)
    assert claim(same, "cut to the same text").held is True
    apart = run(make_agent(ReadsWhatIsLeft(apart=True)))
    assert claim(apart, "cut to the same text").held is False
    assert claim(run(make_agent()), "cut to the same text").held is None


def test_a_budget_that_is_refused_is_a_row_with_its_error_and_the_hook_sets_the_next():
    result = run(make_agent(ReadsWhatIsLeft(least=16)), max_lens=(8, 16, 32))
    refused = result.frame[result.frame["error"].notna()]

    assert refused["tokens_allowed"].tolist() == [8]
    assert refused["error"].iloc[0].startswith("InvalidOption: max_len must be at least 16")
    assert result.frame.loc[result.frame["budget"] == "by hook", "tokens_allowed"].tolist() == [16]
    assert "max_len=8 was refused" in claim(result, "cuts no more").evidence


def test_what_is_wrong_with_every_budget_is_raised():
    with pytest.raises(InvalidOption, match="at least 300"):
        run(make_agent(ReadsWhatIsLeft(least=300)))
