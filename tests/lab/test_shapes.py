"""Every shape of data comes back on its own index, asked once where it is the same, unchanged."""

from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import pytest
from fakes import make_agent
from hypothesis import given
from hypothesis import strategies as st

from jevlaya_lab import Choice, Lab, Noul, Router, Score
from jevlaya_lab.system_one.errors import InvalidInput, InvalidOption, InvalidQuestion

QUESTIONS = {
    "team": Choice("Which team?", ["alpha", "beta"]),
    "level": Score("How much?", ["low", "mid", "high"]),
    "sure": Noul("Is it sure?"),
}
TEXTS = ["aab", "abb", "aab"]
INDEXES = {
    "range": pd.RangeIndex(3),
    "steps": pd.RangeIndex(10, 4, -2),
    "duplicates": pd.Index(["x", "y", "x"], name="key"),
    "multi": pd.MultiIndex.from_tuples([("a", 1), ("b", 2), ("a", 1)], names=["k", None]),
    "category": pd.CategoricalIndex(["u", "v", "u"], categories=["w", "v", "u"], ordered=True),
    "dates": pd.date_range("2026-11-30", periods=3, freq="D", tz="Europe/Berlin", name="day"),
    "intervals": pd.interval_range(0, 3),
    "missing": pd.Index([1.5, np.nan, np.nan]),
}


@pytest.fixture
def lab():
    return Lab(make_agent())


class Seen:
    """A hook that keeps the states it saw."""

    def __init__(self):
        self.states = []

    def on_predict_start(self, ctx):
        self.states += ctx.states


@pytest.mark.parametrize("kind", INDEXES)
@pytest.mark.parametrize("layout", ["wide", "long"])
def test_the_same_index_comes_back(lab, kind, layout):
    index = INDEXES[kind]
    data = pd.DataFrame({"text": TEXTS, "other": [1, 2, 3]}, index=index)
    before = data.copy(deep=True)
    for given_data, state in ((data, "text"), (data["text"], None)):
        answers = lab.predict(given_data, QUESTIONS, state=state, layout=layout, chunk_size=2)
        expected = index.repeat(3) if layout == "long" else index
        pd.testing.assert_index_equal(answers.index, expected, exact=True)
    if layout == "wide":
        assert answers["team"].tolist() == ["alpha", "beta", "alpha"]
        assert getattr(answers.index, "freq", None) == getattr(index, "freq", None)
    pd.testing.assert_frame_equal(data, before)


@pytest.mark.parametrize("kind", INDEXES)
def test_without_rows_the_columns_and_the_kind_of_index_are_there(lab, kind):
    index = INDEXES[kind][:0]
    answers = lab.predict(pd.Series([], index=index, dtype=object), QUESTIONS, detail=True)
    full = lab.predict(["a"], QUESTIONS, detail=True)
    pd.testing.assert_index_equal(answers.index, index, exact=True)
    pd.testing.assert_series_equal(answers.dtypes, full.dtypes)


def test_states_are_never_changed(lab):
    states = [{"a": [1, {"b": 2}]}, ["turn", "turn"], "text"]
    before = copy.deepcopy(states)
    lab.predict(states, QUESTIONS, errors="coerce", detail=True)
    assert states == before


def test_one_state_gives_one_row(lab):
    for state in ("text", {"a": 1}, ["text"], ("text",), np.array(["text"])):
        answers = lab.predict(state, QUESTIONS)
        assert answers.index.equals(pd.RangeIndex(1))


def test_columns_of_any_kind_become_states(lab):
    seen = Seen()
    data = pd.DataFrame(
        {
            "c": pd.Categorical(["u", None]),
            "s": pd.array(["v", pd.NA], dtype="string"),
            "i": pd.array([1, pd.NA], dtype="Int64"),
            "d": pd.to_datetime(["2026-11-30", None]),
        }
    )
    lab.predict(data, QUESTIONS, state=list(data.columns), hooks=seen)
    assert seen.states == [
        {"c": "u", "s": "v", "i": 1, "d": "2026-11-30T00:00:00"},
        {"c": None, "s": None, "i": None, "d": None},
    ]


# --- long layout and detail ---------------------------------------------------------------------


def test_the_long_layout_has_one_row_per_state_and_question(lab):
    wide = lab.predict(TEXTS, QUESTIONS, detail=True)
    long = lab.predict(TEXTS, QUESTIONS, layout="long", detail=True)
    assert long.index.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert long["question"].tolist() == list(QUESTIONS) * 3
    assert long["type"].tolist() == ["choice", "score", "noul"] * 3
    assert long.loc[long["question"] == "team", "choice"].tolist() == wide["team"].tolist()
    assert long.loc[long["question"] == "level", "score"].tolist() == wide["level"].tolist()
    assert long.loc[long["question"] == "sure", "noul"].tolist() == wide["sure"].tolist()
    confidences = long.loc[long["question"] == "team", "answer_confidence"].tolist()
    assert confidences == wide["team__answer_confidence"].tolist()
    assert lab.answers is long


def test_detail_of_a_router_shows_the_routing_in_both_layouts():
    router = Router()
    router.attach("english", make_agent())
    router.attach("multilingual", make_agent())
    lab = Lab(router)
    models = pd.Series(["english", "multilingual", "english"])
    for layout, repeat in (("wide", 1), ("long", 3)):
        answers = lab.predict(TEXTS, QUESTIONS, model=models, detail=True, layout=layout)
        assert answers["routing_model"].tolist() == models.repeat(repeat).tolist()
        assert answers["routing_stand_in"].dtype == "boolean"
        assert lab.routing["model"].tolist() == models.tolist()
    plain = lab.predict(TEXTS, QUESTIONS, model=models)
    assert list(plain.columns) == list(QUESTIONS)


def test_a_question_named_like_a_column_of_the_routing_is_refused():
    router = Router()
    router.attach("english", make_agent())
    questions = {"routing_model": Noul("?")}
    with pytest.raises(InvalidQuestion, match=r"two columns .* 'routing_model'"):
        Lab(router).predict(["a"], questions, detail=True, model="english")
    assert len(Lab(router).predict(["a"], questions, model="english")) == 1


def test_ids_that_run_together_are_fine_where_they_are_no_columns(lab):
    questions = {"a": Noul("?"), "a__confidence": Noul("?")}
    assert len(lab.predict(["a"], questions, detail=True, layout="long")) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layout": "tall"}, "layout is 'wide' or 'long', got 'tall'"),
        ({"errors": "ignore"}, "errors is 'raise' or 'coerce', got 'ignore'"),
    ],
)
def test_unknown_words_are_refused(lab, options, message):
    with pytest.raises(InvalidOption, match=message):
        lab.predict(["a"], QUESTIONS, **options)


# --- equal states -------------------------------------------------------------------------------


def test_equal_states_are_asked_once(lab):
    seen = Seen()
    states = ["a", "b", "a", {"k": 1}, {"k": 1}, ["a"], "a"]
    answers = lab.predict(states, QUESTIONS, hooks=seen)
    assert seen.states == ["a", "b", {"k": 1}, ["a"]]
    each = lab.predict(states, QUESTIONS, dedupe=False)
    pd.testing.assert_frame_equal(answers, each)
    assert lab.trace.runs["n_states"].tolist() == [4, 7]


def test_a_list_and_a_dict_are_not_the_text_that_they_read_as(lab):
    from jevlaya_lab.system_one.encoding import state_text

    seen = Seen()
    states = [["a", "b"], state_text(["a", "b"]), {"a": 1}, state_text({"a": 1})]
    lab.predict(states, QUESTIONS, hooks=seen)
    assert seen.states == states


def test_rows_of_other_options_are_other_rows():
    router = Router()
    for name in ("english", "multilingual"):
        router.attach(name, make_agent())
    lab, seen = Lab(router), Seen()
    index = pd.Index(["x", "y", "x", "z"])
    models = pd.Series(["english", "multilingual", "english", None], index=index)
    answers = lab.predict(
        pd.Series(["a"] * 4, index=index), QUESTIONS, model=models, detail=True, hooks=seen
    )
    assert seen.states == ["a"] * 3
    assert answers["routing_model"].iloc[:3].tolist() == ["english", "multilingual", "english"]
    with pytest.raises(InvalidInput, match=r"model= is a Series on another index .* \(3 and 4"):
        lab.predict(["a"] * 4, QUESTIONS, model=models.iloc[:3])


@given(st.lists(st.sampled_from(["a", "b", "ab", "", "c"]), max_size=12), st.integers(1, 5))
def test_asking_once_and_chunks_change_no_answer(states, size):
    lab = Lab(make_agent())
    plain = lab.predict(states, QUESTIONS, dedupe=False, chunk_size=100, detail=True)
    once = lab.predict(states, QUESTIONS, chunk_size=size, detail=True, progress=False)
    coerced = lab.predict(
        states, QUESTIONS, chunk_size=size, detail=True, progress=False, errors="coerce"
    )
    pd.testing.assert_frame_equal(plain, once)
    pd.testing.assert_frame_equal(plain, coerced.drop(columns="error"))
    assert coerced["error"].isna().all()


# --- long states --------------------------------------------------------------------------------


def test_long_states_are_read_in_windows(lab):
    states = ["a " * 600 + "b", "a", "a"]
    answers = lab.predict_long(states, QUESTIONS, detail=True, window=100)
    assert answers["n_windows"].tolist()[1:] == [1, 1]
    assert answers["n_windows"].iloc[0] > 5
    assert answers["team__char_start"].iloc[0] >= 0
    assert lab.answers is answers
    assert lab.trace.runs["entry"].tolist() == ["predict_long"] * 2
    assert lab.trace.runs["n_states"].max() > 5
    assert lab.trace.calls["n_requests"].tolist() == [1, 1]


def test_each_long_state_may_have_its_own_options_and_errors():
    lab = Lab(make_agent())
    answers = lab.predict_long(
        ["a b", None, "b b b"],
        QUESTIONS,
        max_len=pd.Series([256, 256, 3]),
        errors="coerce",
        progress=False,
    )
    assert answers["team"].tolist()[0] == "alpha"
    assert answers["error"].isna().tolist() == [True, False, False]
    assert "max_len" in answers["error"].iloc[2]


@pytest.mark.parametrize(
    "options", [{"window": 0}, {"stride": -1}, {"window": 64, "stride": 65}, {"max_len": 3}]
)
@pytest.mark.parametrize("errors", ["raise", "coerce"])
def test_windows_that_are_no_windows_are_refused(lab, options, errors):
    with pytest.raises(InvalidOption):
        lab.predict_long(["a", "b"], QUESTIONS, errors=errors, **options)


def test_an_agent_that_cannot_read_long_states_says_so():
    class Short:
        def predict_batch(self, states, questions, **_):
            raise AssertionError

    with pytest.raises(InvalidInput, match="Short has no predict_long; use predict"):
        Lab(Short()).predict_long(["a"], QUESTIONS)
