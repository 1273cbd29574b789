"""What experiments ask about: the built-in texts, and states and questions that are given."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import pytest

from jevlaya_lab import Choice
from jevlaya_lab.experiments import ExperimentResult
from jevlaya_lab.experiments.catalogue import experiment
from jevlaya_lab.experiments.options import Option
from jevlaya_lab.experiments.texts import (
    N_TICKETS,
    describe_questions,
    describe_states,
    questions_about_tickets,
    tickets,
)
from jevlaya_lab.system_one.errors import (
    InvalidHook,
    InvalidInput,
    InvalidOption,
    InvalidQuestion,
    InvalidState,
)
from jevlaya_lab.system_one.questions import prepare
from jevlaya_lab.views.layout import Layout

DATA = Path(__file__).resolve().parents[2] / "data" / "support_tickets.csv"


@dataclass(frozen=True, kw_only=True)
class Given(ExperimentResult):
    states: Any
    questions: Any

    def layout(self) -> Layout:
        return Layout(1, 1, "", "", "")


@experiment("What is given")
def run(
    agent: Any = None,
    *,
    states: Any = None,
    questions: Any = None,
    cache: Any = None,
    n: Annotated[int, Option("How many.", low=1)] = 3,
    progress: bool = True,
) -> Given:
    return Given(
        name="given",
        hypothesis="",
        claims=(),
        frame=pd.DataFrame(),
        parameters={"n": n},
        seed=0,
        states=states,
        questions=questions,
    )


def test_the_tickets_are_those_of_the_project_in_fifteen_languages():
    kept = {(row["language"], row["text"]) for _, row in pd.read_csv(DATA).iterrows()}
    found = tickets()

    assert len({each.text for each in found}) == N_TICKETS
    assert {tuple(each) for each in found} <= kept
    assert Counter(each.language for each in found)["en"] == 36
    assert len({each.language for each in found}) == 15


def test_the_seed_decides_which_tickets_and_in_which_order():
    assert tickets(9, seed=1) == tickets(9, seed=1)
    assert tickets(9, seed=1) != tickets(9, seed=2)
    assert {each.language for each in tickets(5, language="en")} == {"en"}
    with pytest.raises(InvalidOption, match="there are 2 tickets to choose from, 3 were asked"):
        tickets(3, language="de")


def test_the_questions_are_of_every_type_and_new_each_time():
    assert {each.type for each in prepare(questions_about_tickets())} == {"choice", "score", "noul"}
    assert questions_about_tickets()["churn"] is not questions_about_tickets()["churn"]


def test_states_are_read_as_the_lab_reads_them_and_are_no_parameters():
    series = pd.Series(["one", "two"], index=["a", "b"])
    result = run(states=series, questions={"q": Choice("Which?", ["a", "b"])}, progress=False)

    assert result.states == ["one", "two"]
    assert list(result.questions) == ["q"]
    assert [each.name for each in run.experiment.parameters] == ["n"]
    assert run.experiment.takes == ("states", "questions", "cache")
    assert run(progress=False).states is None


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"states": []}, InvalidState, "states is empty"),
        ({"states": ["a", None]}, InvalidState, "the state at index 1 is missing"),
        ({"states": 5}, InvalidState, "the data is a int"),
        ({"states": pd.DataFrame({"a": [1]})}, InvalidState, "of a DataFrame pass one column"),
        ({"questions": {}}, InvalidOption, "questions is empty"),
        ({"questions": {"q": {"type": "chioce"}}}, InvalidQuestion, "q"),
        ({"cache": 5}, InvalidHook, "a int is no hook"),
        ({"agent": object}, InvalidInput, "an experiment takes an agent or a router"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_anything_runs(given, error, said):
    with pytest.raises(error, match=said):
        run(progress=False, **given)


def test_what_is_kept_of_states_is_no_text_and_tells_others_apart():
    assert "secret" not in describe_states(["secret"])
    assert describe_states(["secret"]) != describe_states(["other"])
    assert describe_states(None) == "built-in tickets"
    assert "Which?" in describe_questions({"q": Choice("Which?", ["a", "b"])})
