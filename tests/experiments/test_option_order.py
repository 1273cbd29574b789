"""Option order: stability is what was seen under other orders and names."""

from __future__ import annotations

import numpy as np
from experiment_fakes import claim, routed
from fakes import make_agent

from jevlaya_lab import Choice, Noul, OptionOrderProbe, Score
from jevlaya_lab.experiments import option_order
from jevlaya_lab.experiments.renaming import renamed
from jevlaya_lab.system_one.models.instant import InstantNetwork

QUESTIONS = {
    "team": Choice("Which?", {"apples": "red ones", "pears": None, "plums": "blue ones"}),
    "mood": Score("How?", ["low", "mid", "high"]),
    "sure": Noul("Is it so?"),
}
STATES = ["apples and pears", "plums plums", "a pear", "apples and pears"]


class BySlot(InstantNetwork):
    """Answers with the option that stands in the first slot."""

    def forward(self, batch, prepared):
        def values(question):
            first = (question.option_order or (0,))[0]
            return np.eye(question.n_options, dtype=np.float32)[first] * 9

        logits = super().forward(batch, prepared)
        logits.options = [[values(q) for q in prepared.questions] for _ in logits.options]
        return logits


class ByPlace(InstantNetwork):
    """Answers with the last option as the caller wrote them, whatever it is called."""

    def forward(self, batch, prepared):
        logits = super().forward(batch, prepared)
        logits.options = [
            [np.arange(q.n_options, dtype=np.float32) for q in prepared.questions]
            for _ in logits.options
        ]
        return logits


def run(agent=None, **options):
    given = {"states": STATES, "questions": QUESTIONS, "progress": False, **options}
    return option_order.run(agent, **given)


def test_an_answer_that_follows_the_meaning_is_stable():
    for agent in (make_agent(ByPlace()), routed(ByPlace())):
        result = run(agent, n_orders=5)

        assert result.held is True
        assert result.frame["stable"].all()
        asked = result.frame[result.frame["change"] == "order"]
        by = asked.set_index(["state", "question"])["n_asked"].unstack().iloc[0].to_dict()
        assert by == {"team": 5, "mood": 5, "sure": 1}  # of 6, 6 and 2 orders its own is one


def test_an_answer_that_follows_the_order_is_found_out_by_question():
    result = run(make_agent(BySlot()), n_orders=5)
    rows = result.by_question().set_index(["question", "change"])

    assert claim(result, "in any order").held is False
    assert claim(result, "No order moves").held is False
    assert rows.loc[("team", "order"), "stable"] == 0
    assert rows.loc[("sure", "order"), "agreement"] == 0
    assert rows.loc[("team", "letters"), "stable"] == 1
    assert claim(result, "with letters").held is True


def test_an_answer_that_follows_the_name_is_found_out():
    result = run(make_agent())  # counts the first letters of the names
    rows = result.by_question().set_index(["question", "change"])

    assert claim(result, "in any order").held is True
    assert claim(result, "with letters").held is False
    assert rows.loc[("team", "letters"), "stable"] < 1
    row = result.frame.query("state == 1 and question == 'team' and change == 'letters'").iloc[0]
    assert row["answer"] in ("pears", "plums")
    assert row["others"] == "apples"  # by its own name, not by its letter


def test_least_and_tolerance_decide_what_holds():
    strict = run(make_agent())
    lenient = run(make_agent(), least=0.0)

    assert claim(strict, "with letters").held is False
    assert claim(lenient, "with letters").held is True
    assert claim(run(make_agent(BySlot()), tolerance=1.0), "No order moves").held is False  # scores


def test_rows_belong_to_their_states_also_where_a_router_ends_in_reverse_and_states_are_equal():
    texts = ["apples", "plums plums", "pears pears pears", "apples"]
    alone = run(make_agent(), states=texts).frame
    together = run(routed(), states=texts).frame

    keep = ["state", "question", "change", "answer", "others"]
    assert together[keep].equals(alone[keep])
    assert len(alone) == 4 * (3 + 2 + 2)


def test_a_probe_that_changes_the_answers_is_found_out(monkeypatch):
    honest = OptionOrderProbe.on_predict_end

    def meddle(self, ctx):
        honest(self, ctx)
        for result in ctx.results:
            result["answers"] = {**result["answers"], "more": {}}

    monkeypatch.setattr(OptionOrderProbe, "on_predict_end", meddle)

    assert claim(run(make_agent()), "leaves the answers").held is False


def test_renamed_questions_mean_the_same():
    found, back = renamed(QUESTIONS, "letters")

    assert found["team"]["criteria"] == {
        "A": "apples: red ones",
        "B": "pears",
        "C": "plums: blue ones",
    }
    assert back["team"] == {"A": "apples", "B": "pears", "C": "plums"}
    assert found["mood"]["criteria"] == ["A: low", "B: mid", "C: high"]
    assert "sure" not in found
    numbered, _ = renamed({"q": Choice("Which?", [True, 3])}, "numbers")
    assert list(numbered["q"]["criteria"]) == ["1", "2"]
