"""Answers against the truth."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from fakes import make_agent
from hypothesis import given
from hypothesis import strategies as st

from jevlaya_lab import Agent, Choice, Lab, Noul, Score, calibration, confusion
from jevlaya_lab.system_one.errors import InvalidInput, InvalidOption
from jevlaya_lab.system_one.models.instant import InstantNetwork


def category(values, labels):
    return pd.Series(pd.Categorical(values, categories=labels))


TEAM = category(["a", "b", "a", None, "b"], ["a", "b", "c"])


def test_a_confusion_table_counts_answers_per_true_value():
    table = confusion(TEAM, ["a", "a", "b", "b", None])
    assert table.index.name == "truth"
    assert table.columns.name == "answer"
    assert table.loc["a"].tolist() == [1, 1, 0]
    assert table.loc["b"].tolist() == [1, 0, 0]
    assert table.loc["c"].tolist() == [0, 0, 0]
    assert table.dtypes.astype(str).tolist() == ["Int64"] * 3
    assert table.to_numpy().sum() == 3


def test_true_values_that_are_no_option_stand_at_the_end():
    table = confusion(TEAM, pd.Series(["x", "a", "a", "a", "a"]))
    assert table.index.tolist() == ["a", "b", "c", "x"]
    assert table.loc["x"].tolist() == [1, 0, 0]


def test_labels_need_not_be_text():
    answers = category([1, 2, True], [1, 2])
    table = confusion(answers, [1, 1, 2])
    assert table.loc[1].tolist() == [1, 1]
    assert confusion(pd.Series([0, 1]), [0, 0]).loc[0].tolist() == [1, 1]


def test_the_question_is_found_in_frames():
    answers = pd.DataFrame({"team": TEAM, "sure": 0.5})
    truth = pd.DataFrame({"team": ["a"] * 5})
    assert confusion(answers, truth)["a"]["a"] == 2
    assert confusion(answers, truth["team"], "team")["a"]["a"] == 2
    two = answers.assign(other=TEAM)
    with pytest.raises(InvalidInput, match=r"2 choices; say which with question=, of \['team'"):
        confusion(two, truth)
    assert confusion(two, truth["team"], question="other")["a"]["a"] == 2


def test_rows_are_matched_by_index():
    truth = pd.Series(["a", "b"], index=["y", "x"])
    answers = pd.Series(pd.Categorical(["b", "a"]), index=["x", "y"])
    assert np.diag(confusion(answers, truth)).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("answers", "truth", "message"),
    [
        (TEAM, ["a"], "5 answers and 1 true values"),
        (TEAM, pd.Series(["a"] * 5, index=range(1, 6)), "different indexes"),
        (TEAM, pd.DataFrame({"x": [1]}), "the true values have no column None"),
        (pd.DataFrame({"team": TEAM}), pd.DataFrame({"x": [1] * 5}), "have no column 'team'"),
        ([1, 2], [1, 2], "the answers are a list; pass an answers frame"),
    ],
)
def test_what_does_not_fit_is_refused(answers, truth, message):
    with pytest.raises(InvalidInput, match=message):
        confusion(answers, truth)


# --- calibration --------------------------------------------------------------------------------


def noul_frame(values):
    return pd.DataFrame({"sure": np.array(values, dtype=float)})


def test_a_perfectly_calibrated_noul_has_no_error():
    stated = [0.25] * 4 + [0.75] * 4
    truth = [True, False, False, False, True, True, True, False]
    found = calibration(noul_frame(stated), truth, "sure")
    (row,) = found.summary.itertuples()
    assert (row.question, row.kind, row.n) == ("sure", "noul", 8)
    assert row.ece == pytest.approx(0.0)
    assert row.brier == pytest.approx(0.1875)
    assert row.accuracy == 0.75
    table = found.reliability.dropna(subset="accuracy")
    assert table["confidence"].tolist() == pytest.approx([0.25, 0.75])
    assert table["accuracy"].tolist() == pytest.approx([0.25, 0.75])
    assert table["n"].tolist() == [4, 4]
    assert len(found.reliability) == 10


def test_an_overconfident_noul_shows_it():
    found = calibration(noul_frame([1.0, 1.0, 0.0, 0.0]), [1, 0, 0, 1], "sure", n_bins=2)
    (row,) = found.summary.itertuples()
    assert row.ece == pytest.approx(0.5)
    assert row.brier == pytest.approx(0.5)
    assert found.reliability["gap"].tolist() == pytest.approx([0.5, -0.5])


def choice_frame():
    p = np.array([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [np.nan] * 3])
    frame = pd.DataFrame(
        {"team": pd.Categorical(["a", "a", "b", None], categories=["a", "b", "c"])}
    )
    for i, label in enumerate("abc"):
        frame[f"team__p_{label}"] = p[:, i]
    return frame, p


def test_of_a_choice_the_highest_probability_counts():
    frame, p = choice_frame()
    found = calibration(frame, pd.DataFrame({"team": ["a", "b", "b", "c"]}))
    (row,) = found.summary.itertuples()
    assert (row.kind, row.n) == ("choice", 3)
    assert row.accuracy == pytest.approx(2 / 3)
    assert row.confidence == pytest.approx((0.7 + 0.6 + 0.8) / 3)
    hits = np.array([[1, 0, 0], [0, 1, 0], [0, 1, 0]])
    assert row.brier == pytest.approx(((p[:3] - hits) ** 2).sum(axis=1).mean())
    assert row.ece == pytest.approx((0.3 + 0.6 + 0.2) / 3)


def test_a_true_value_that_is_no_option_is_a_miss():
    frame, _ = choice_frame()
    found = calibration(frame, ["x", None, None, None], "team").summary
    assert found["accuracy"].item() == 0
    assert found["brier"].item() == pytest.approx(0.49 + 0.04 + 0.01 + 1)


def test_all_questions_that_the_truth_knows_are_taken():
    lab = Lab(Agent("instant", network=InstantNetwork()))
    answers = lab.predict(
        ["a", "bb", "ccc", "d"],
        {
            "team": Choice("Which?", ["a", "b"]),
            "level": Score("How much?", ["low", "mid", "high"]),
            "sure": Noul("Sure?"),
            "other": Noul("Other?"),
        },
        detail=True,
    )
    truth = pd.DataFrame({"team": ["a", "b"] * 2, "level": [0, 1, 2, 1], "sure": [True, False] * 2})
    found = calibration(answers, truth, n_bins=5)
    assert found.summary[["question", "kind"]].values.tolist() == [
        ["team", "choice"], ["level", "score"], ["sure", "noul"],
    ]  # fmt: skip
    assert found.summary["ece"].between(0, 1).all()
    assert len(found.reliability) == 15
    assert found.reliability.groupby("question")["n"].sum().tolist() == [4, 4, 4]


@given(
    st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=40),
    st.integers(1, 12),
)
def test_every_row_falls_into_one_bin_and_the_error_is_bounded(rows, n_bins):
    found = calibration(
        noul_frame([p for p, _ in rows]), [y for _, y in rows], "sure", n_bins=n_bins
    )
    table = found.reliability
    assert table["n"].sum() == len(rows)
    filled = table[table["n"] > 0]
    assert (filled["confidence"] <= filled["high"] + 1e-12).all()
    assert (filled["confidence"] >= filled["low"] - 1e-12).all()
    overall = abs(np.mean([p for p, _ in rows]) - np.mean([y for _, y in rows]))
    assert overall - 1e-9 <= found.summary["ece"].item() <= 1


def test_without_rows_the_figures_are_missing():
    found = calibration(noul_frame([np.nan]), [True], "sure")
    assert found.summary["n"].item() == 0
    assert found.summary[["accuracy", "ece", "brier"]].isna().all(axis=None)
    assert found.reliability["n"].sum() == 0


@pytest.mark.parametrize(
    ("answers", "truth", "options", "message"),
    [
        (TEAM, [1] * 5, {}, "takes an answers frame made with detail=True"),
        (noul_frame([0.5]), [1], {}, "say which question the true values are of"),
        (noul_frame([0.5]), pd.DataFrame({"x": [1]}), {}, "no question has a column in both"),
        (noul_frame([0.5]), [1], {"question": "x"}, "the answers have no column 'x'"),
        (noul_frame([1.7]), [1], {"question": "sure"}, "no probabilities beside it.*detail=True"),
        (noul_frame([0.5]), [2], {"question": "sure"}, "are not all true or false"),
        *(
            (noul_frame([0.5]), [value], {"question": "sure"}, f"at index 0 stands {value!r}")
            for value in ("yes", "True", "1", 0.5, b"1")
        ),
        *(
            (noul_frame([0.5]), truth, {"question": "sure"}, "true values are a frame, a Series")
            for truth in (5, None, "x", {0: True}, {True}, iter([True]))
        ),
        (noul_frame([0.5]), [([1],)], {"question": "sure"}, "true value at index 0 is a tuple"),
        (noul_frame([0.5]), [[1]], {"question": "sure"}, "true value at index 0 is a list"),
        (noul_frame([0.5]), [1], {"question": ["sure"]}, r"the answers have no column \['sure'\]"),
        (TEAM.to_frame("t"), [{}] * 5, {"question": "t"}, "true value at index 0 is a dict"),
        (
            noul_frame([0.5]),
            pd.DataFrame([[1, 0]], columns=["sure", "sure"]),
            {},
            "more than one column 'sure'",
        ),
        (pd.DataFrame({"q": ["a"]}), [1], {"question": "q"}, "answers to 'q' are no numbers"),
        (pd.DataFrame({"t": TEAM}), ["a"] * 5, {"question": "t"}, "no column 't__p_a'; ask with"),
        (noul_frame([0.5]), [1, 0], {"question": "sure"}, "1 answers and 2 true values"),
        (noul_frame([0.5]), [1], {"question": "sure", "n_bins": 0}, "n_bins must be a positive"),
    ],
)
def test_what_cannot_be_measured_is_refused(answers, truth, options, message):
    with pytest.raises((InvalidInput, InvalidOption), match=message):
        calibration(answers, truth, **options)


@pytest.mark.parametrize("truth", [5, None, "ab", {"a"}, {0: "a"}, [[1]] * 5, pd.Series([{}] * 5)])
def test_true_values_that_are_no_column_are_refused(truth):
    with pytest.raises(InvalidInput, match="true value"):
        confusion(TEAM, truth)


@pytest.mark.parametrize("truth", [["yes", "no"], [True, "True"], [0, "0"]])
def test_text_beside_a_noul_is_refused_when_it_is_fitted_too(truth):
    lab = Lab(make_agent())
    answers = lab.predict(["a", "b"], {"sure": Noul("Is it?")}, detail=True)
    with pytest.raises(InvalidInput, match="true values of 'sure' are not all true or false"):
        lab.fit_calibration(answers, pd.Series(truth, name="sure"))


@pytest.mark.parametrize("other", ["s__p_x", "s__p_3", "s__p_", "n__p_0", "n__p_x"])
def test_ids_that_begin_like_the_details_of_another_question_confuse_nothing(other):
    questions = {"s": Score("How much?", ["a", "b", "c"]), "n": Noul("Is it?")}
    lab = Lab(make_agent())
    alone = lab.predict(list("abcd"), questions, detail=True)
    truth = pd.DataFrame({"s": [0, 1, 2, 1], "n": [True, False, True, False]})
    for extra in (Noul("Is it?"), Choice("Which?", ["x", "y"]), Score("How?", ["x", "y"])):
        both = lab.predict(list("abcd"), {**questions, other: extra}, detail=True)
        for name in truth:
            pd.testing.assert_frame_equal(
                calibration(both, truth[name]).summary, calibration(alone, truth[name]).summary
            )


def test_true_values_that_are_spelt_otherwise_are_refused():
    answers = Lab(make_agent()).predict(
        ["a", "b"], {"team": Choice("?", ["billing", "shipping"])}, detail=True
    )
    with pytest.raises(InvalidInput, match="'Billing' should be 'billing'"):
        calibration(answers, pd.Series(["Billing", "Shipping"], name="team"))
    some = calibration(answers, pd.Series(["billing", "other"], name="team"))
    assert some.summary["n"].tolist() == [2]
