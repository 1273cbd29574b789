"""What is lost when something fails: the bad row and no other, and never what was finished."""

from __future__ import annotations

import json
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import torch
from fakes import make_agent
from tiny import make_checkpoint

from jevlaya_lab import Agent, BaseHook, Choice, Lab, Noul, Router
from jevlaya_lab.system_one.errors import (
    InvalidHook,
    InvalidInput,
    InvalidResult,
    InvalidState,
    UnknownCheckpoint,
)

QUESTIONS = {"team": Choice("Which team?", ["alpha", "beta"]), "sure": Noul("Is it sure?")}


class Fussy(BaseHook):
    """Raises for one state."""

    def __init__(self, event="on_predict_start", state="bad", error=ValueError):
        self.seen = []

        def check(ctx):
            self.seen.append(list(ctx.states))
            if state in ctx.states:
                raise error(f"{state} is not to be asked")

        setattr(self, event, check)


@pytest.fixture
def lab():
    return Lab(make_agent())


def routed():
    router = Router()
    router.attach("english", make_agent())
    return Lab(router)


def lost(answers):
    """The rows with an error, which are those without an answer."""
    assert answers["error"].notna().equals(answers["team"].isna())
    assert answers["sure"].isna().equals(answers["team"].isna())
    return answers.index[answers["error"].notna()].tolist()


@pytest.mark.parametrize("make", [lambda: Lab(make_agent()), routed])
@pytest.mark.parametrize("bad", [None, float("nan"), pd.NA, {"b": {1, 2}}, {("a",): 1}])
def test_a_state_that_cannot_be_asked_costs_its_row(make, bad):
    lab = make()
    answers = lab.predict(["a", bad, "b"], QUESTIONS, errors="coerce")
    assert lost(answers) == [1]
    assert answers["error"][1].startswith("InvalidState: ")
    assert answers["team"].tolist()[::2] == ["alpha", "beta"]
    with pytest.raises(InvalidInput):
        lab.predict(["a", bad, "b"], QUESTIONS)


@pytest.mark.parametrize(
    ("make", "event"),
    [
        (lambda: Lab(make_agent()), "on_predict_start"),
        (lambda: Lab(make_agent()), "on_predict_end"),
        (routed, "on_predict_start"),
        (routed, "on_predict_end"),
        (routed, "on_route"),
    ],
)
@pytest.mark.parametrize("error", [ValueError, InvalidInput])
def test_a_hook_that_raises_for_a_state_costs_its_row(make, event, error):
    lab = make()
    index = list("rstuvwx")
    states = pd.Series(["a", "b", "c", "bad", "e", "bad", "f"], index=index)
    hook = Fussy(event, error=error)
    answers = lab.predict(
        states, QUESTIONS, errors="coerce", chunk_size=4, progress=False, hooks=hook
    )
    assert lost(answers) == ["u", "w"]
    assert answers["error"]["u"] == f"{error.__name__}: bad is not to be asked"
    assert lab.last is answers
    assert lab.answers is answers
    assert lab.agent.hooks == []


def test_long_errors_are_beside_every_question_of_their_row(lab):
    answers = lab.predict(["a", None], QUESTIONS, errors="coerce", layout="long", detail=True)
    assert answers["error"].notna().tolist() == [False, False, True, True]
    assert answers.index.tolist() == [0, 0, 1, 1]


def test_results_that_a_hook_spoilt_cost_their_rows(lab):
    def spoil(ctx):
        ctx.results = [{} if s == "b" else r for s, r in zip(ctx.states, ctx.results, strict=True)]

    answers = lab.predict(["a", "b", "c"], QUESTIONS, errors="coerce", on_predict_end=spoil)
    assert lost(answers) == [1]
    assert answers["error"][1].startswith("InvalidResult: the result has no choice")


def spoilt(change, state="b"):
    """An end hook that changes the answers of one state."""

    def spoil(ctx):
        for each, result in zip(ctx.states, ctx.results, strict=True):
            if each == state:
                change(result["answers"])

    return spoil


ODD = [
    lambda a: a["sure"].update(noul="yes"),
    lambda a: a["sure"].update(noul="0.5"),
    lambda a: a["sure"].update(noul=[1]),
    lambda a: a["sure"].update(noul=np.array([1.0])),
    lambda a: a["sure"].update(noul=10**400),
    lambda a: a["sure"].update(confidence="high"),
    lambda a: a["team"].update(answer_confidence={}),
    lambda a: a["team"].update(choice=["alpha"]),
    lambda a: a["team"].update(choice=np.array(["alpha", "beta"])),
    lambda a: a["team"].update(probabilities=[0.5, 0.5]),
    lambda a: a["team"].update(probabilities={"alpha": "much", "beta": 0.5}),
    lambda a: a["team"].update(probabilities={"alpha": 0.5, "beta": 0.5, "more": {1}}),
]


@pytest.mark.parametrize("layout", ["wide", "long"])
@pytest.mark.parametrize("change", ODD)
def test_a_value_of_another_kind_costs_its_row_and_no_other(lab, change, layout):
    answers = lab.predict(
        list("abc"), QUESTIONS, errors="coerce", detail=True, on_predict_end=spoilt(change)
    )
    assert lost(answers) == [1]
    assert answers["error"][1].startswith("InvalidResult: the result has ")
    with pytest.raises(InvalidResult, match="the result at index 1 has "):
        lab.predict(
            list("abc"),
            QUESTIONS,
            layout=layout,
            detail=True,
            chunk_size=1,
            progress=False,
            on_predict_end=spoilt(change),
        )
    assert lab.last.index.unique().tolist() == [0]


@pytest.mark.parametrize("window", [{"char_start": "0"}, {"char_end": 1.5}, [0, 1]])
def test_a_window_of_another_kind_costs_its_row(lab, window):
    spoil = spoilt(lambda answers: answers["sure"].update(window=window))
    answers = lab.predict_long(
        list("abc"), QUESTIONS, errors="coerce", detail=True, progress=False, on_predict_end=spoil
    )
    assert lost(answers) == [1]


def test_numbers_of_other_libraries_are_numbers_and_missing_ones_are_missing(lab):
    def change(answers):
        answers["sure"].update(noul=np.float32(0.25), confidence=Decimal("0.5"))
        answers["team"].update(
            confidence=None, probabilities={"alpha": np.array(0.25), "beta": torch.tensor(0.75)}
        )

    options = {"detail": True, "on_predict_end": spoilt(change)}
    row = lab.predict(list("abc"), QUESTIONS, **options).loc[1]
    assert row[["sure", "sure__confidence", "team__p_alpha", "team__p_beta"]].tolist() == [
        *(0.25, 0.5, 0.25, 0.75)
    ]
    assert pd.isna(row["team__confidence"])
    long = lab.predict(list("abc"), QUESTIONS, layout="long", **options)
    assert json.loads(long["probabilities"][1].iloc[0]) == {"alpha": 0.25, "beta": 0.75}


@pytest.mark.parametrize("make", [lambda: Lab(make_agent()), routed])
def test_an_error_names_the_row_of_the_data(make):
    lab = make()
    states = pd.Series(["a", "a", "b", "c", "bad"], index=list("vwxyz"))
    drop = spoilt(dict.clear, state="bad")
    options = {"chunk_size": 2, "progress": False}
    with pytest.raises(InvalidResult, match=r"^the result at index 'z' has no choice"):
        lab.predict(states, QUESTIONS, on_predict_end=drop, **options)

    def odd(ctx):
        ctx.states = [{1, 2} if state == "bad" else state for state in ctx.states]

    with pytest.raises(InvalidState, match=r"^index 'z': the state .*cannot be written as JSON"):
        lab.predict(states, QUESTIONS, on_predict_start=odd, **options)
    answers = lab.predict(
        [*states, "bad"], QUESTIONS, on_predict_start=odd, errors="coerce", **options
    )
    assert lost(answers) == [4, 5]
    # The second of the two was not asked itself: a number in both would be wrong for one.
    assert answers["error"][4].startswith("InvalidState: the state (set) cannot be written")
    assert answers["error"][4] == answers["error"][5]


def test_an_unknown_checkpoint_of_a_row_is_said_by_its_index_label():
    lab, states = routed(), pd.Series(["a", "b"], index=["x", "y"])
    models = pd.Series(["english", "nosuch"], index=["x", "y"])
    for method in (lab.predict, lab.route):
        with pytest.raises(UnknownCheckpoint, match=r"^index 'y': "):
            method(states, QUESTIONS, model=models)
    answers = lab.predict(states, QUESTIONS, model=models, errors="coerce")
    assert not answers["error"]["y"].startswith("UnknownCheckpoint: request")


MANY = {"team": Choice("Which team?", [f"team {i}" for i in range(200)])}


@pytest.mark.parametrize("way", ["agent", "long", "model", "max_len"])
def test_questions_that_do_not_fit_raise_at_once(tmp_path, way):
    agent = Agent(make_checkpoint(tmp_path / "c"), device="cpu")
    lab, options, questions = Lab(agent), {}, MANY
    if way == "model":
        router = Router()
        router.attach("english", agent)
        lab, options = Lab(router), {"model": "english"}
    if way == "max_len":
        options, questions = {"max_len": 1000}, QUESTIONS
    if way == "long":
        lab.predict_long(["a"], QUESTIONS, progress=False)
        lab.clear()
        method = lab.predict_long
    else:
        method = lab.predict
    with pytest.raises(InvalidInput):
        method(list("abcdefgh"), questions, errors="coerce", progress=False, **options)
    runs = lab.trace.runs
    assert (runs["scope"] == "agent").sum() <= 1  # predict_long refuses it before a run


def test_questions_that_a_hook_spoils_for_a_state_cost_its_row(tmp_path):
    lab = Lab(Agent(make_checkpoint(tmp_path / "c"), device="cpu"))

    def spoil(ctx):
        if "bad" in ctx.states:
            ctx.questions = MANY

    answers = lab.predict(["a", "bad", "b"], QUESTIONS, errors="coerce", on_predict_start=spoil)
    assert lost(answers) == [1]


def test_a_checkpoint_that_cannot_be_loaded_costs_the_rows_that_need_it(tmp_path):
    router = Router({"gone": str(tmp_path / "nowhere")})
    router.attach("english", make_agent())
    lab = Lab(router)
    models = pd.Series(["english", "gone", "nosuch", "english", "gone"])
    answers = lab.predict(list("abcde"), QUESTIONS, model=models, errors="coerce", detail=True)
    assert lost(answers) == [1, 2, 4]
    assert "checkpoint 'gone'" in answers["error"][1]
    assert answers["error"][2].startswith("UnknownCheckpoint")
    assert answers["routing_model"].isna().tolist() == [False, True, True, False, True]
    assert lab.routing["model"].isna().tolist() == [False, True, True, False, True]


def test_when_no_row_can_be_answered_each_says_why(lab):
    answers = lab.predict([None, None], QUESTIONS, errors="coerce")
    assert lost(answers) == [0, 1]
    assert str(answers["team"].dtype) == "category"
    assert lab.trace.runs.empty


@pytest.mark.parametrize("make", [lambda: Lab(make_agent()), routed])
@pytest.mark.parametrize(
    ("questions", "options"),
    [
        ({"q": {"type": "chioce", "instructions": "?"}}, {}),
        (QUESTIONS, {"batch_size": 0}),
        (QUESTIONS, {"min_confidence": 7}),
        (QUESTIONS, {"max_len": 3}),
        (QUESTIONS, {"head_max_len": "many"}),
        (QUESTIONS, {"lang": 7}),
        (QUESTIONS, {"no_such_option": 1}),
        (QUESTIONS, {"hooks": Fussy}),
        (QUESTIONS, {"hooks": 7}),
        (QUESTIONS, {"on_predict_start": "text"}),
        (QUESTIONS, {"hooks_timeout": -1}),
    ],
)
def test_what_is_wrong_for_all_rows_raises_also_when_coercing(make, questions, options):
    lab = make()
    hook = Fussy(state="none")
    lab.agent.add_hook(hook)
    with pytest.raises((InvalidInput, TypeError)):
        lab.predict(["a", "b", "c"], questions, errors="coerce", **options)
    assert len(hook.seen) <= 1  # at once: not row by row


@pytest.mark.parametrize("options", [{"model": "nosuch"}, {"task": "nosuch"}, {"lang_guess": 7}])
def test_hints_of_a_router_that_are_wrong_for_all_rows_raise_at_once(options):
    lab = routed()
    with pytest.raises(InvalidInput):
        lab.predict(["a", "b"], QUESTIONS, errors="coerce", **options)
    assert lab.trace.runs.empty
    assert lab.last is None


def test_options_by_row_cost_the_rows_that_they_are_wrong_for():
    answers = routed().predict(
        list("abc"), QUESTIONS, errors="coerce", model="english", max_len=pd.Series([64, 3, None])
    )
    assert lost(answers) == [1]


def test_a_hook_that_no_list_of_hooks_takes_is_refused_before_anything_is_asked(lab):
    with pytest.raises(InvalidHook, match="is no hook"):
        lab.predict(["a"], QUESTIONS, hooks=[7])
    assert lab.trace.runs.empty


# --- interruption -------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [lambda: Lab(make_agent()), routed])
@pytest.mark.parametrize("errors", ["raise", "coerce"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupted_call_leaves_what_was_finished(make, errors, error):
    lab = make()
    whole = lab.predict(["z"], QUESTIONS)
    states = pd.Series(["a", "b", "a", "c", "bad", "d"], index=list("uvwxyz"))
    with pytest.raises(error):
        lab.predict(
            states,
            QUESTIONS,
            chunk_size=2,
            progress=False,
            errors=errors,
            detail=True,
            hooks=Fussy(error=error),
        )
    # u, v were the first chunk, w is the same as u; x shared its chunk with the one that failed.
    assert lab.last.index.tolist() == ["u", "v", "w"]
    assert lab.last["team"].tolist() == ["alpha", "beta", "alpha"]
    assert lab.last["team__p_alpha"].notna().all()
    assert lab.answers is whole
    assert lab.agent.hooks == []
    again = lab.predict(states, QUESTIONS, chunk_size=2, progress=False)
    assert lab.last is again
    assert len(again) == 6


def test_a_failed_call_leaves_what_was_finished_too(lab):
    with pytest.raises(ValueError, match="not to be asked"):
        lab.predict(["a", "bad", "c"], QUESTIONS, chunk_size=1, progress=False, hooks=Fussy())
    assert lab.last.index.tolist() == [0]
    assert lab.answers is None


def test_an_interrupted_reading_of_long_states_leaves_what_was_finished(lab):
    with pytest.raises(KeyboardInterrupt):
        lab.predict_long(
            ["a", "b", "bad", "c"],
            QUESTIONS,
            progress=False,
            hooks=Fussy(error=KeyboardInterrupt),
            errors="coerce",
        )
    assert lab.last.index.tolist() == [0, 1]


def test_rows_done_before_an_interruption_are_kept_while_a_chunk_is_asked_in_halves(lab):
    calls = []

    def fussy(ctx):
        calls.append(list(ctx.states))
        if "bad" in ctx.states:
            raise ValueError("bad")
        if calls[-1] == ["d"]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lab.predict(["a", "b", "bad", "d"], QUESTIONS, errors="coerce", on_predict_start=fussy)
    assert calls == [["a", "b", "bad", "d"], ["a", "b"], ["bad", "d"], ["bad"], ["d"]]
    assert lost(lab.last) == [2]
    assert lab.last.index.tolist() == [0, 1, 2]


def test_an_agent_that_fails_inside_costs_its_rows(tmp_path):
    """The network itself raises here, not a hook."""
    agent = Agent(make_checkpoint(tmp_path / "c"), device="cpu")
    real = agent.network.forward

    def broken(batch, prepared):
        if batch.n_states > 1:
            raise ArithmeticError("too many")
        return real(batch, prepared)

    agent.network.forward = broken
    answers = Lab(agent).predict(["a", "b", "c"], QUESTIONS, errors="coerce")
    assert answers["error"].isna().all()
