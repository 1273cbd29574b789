"""What is lost when something fails: the bad row and no other, and never what was finished."""

from __future__ import annotations

import pandas as pd
import pytest
from fakes import make_agent
from tiny import make_checkpoint

from jevlaya_lab import Agent, BaseHook, Choice, Lab, Noul, Router
from jevlaya_lab.system_one.errors import InvalidHook, InvalidInput

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
    assert answers["error"][1].startswith("InvalidResult: the result of state 1 has no choice")


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
