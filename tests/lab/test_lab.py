"""Lab: which data it takes, what comes back, and what is refused before anything is asked."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from jevlaya_lab import Agent, BaseHook, Choice, Lab, Noul, Score
from jevlaya_lab.system_one.errors import InvalidInput, InvalidOption, InvalidState
from jevlaya_lab.system_one.models.instant import InstantNetwork

QUESTIONS = {
    "team": Choice("Which team?", ["alpha", "beta"]),
    "level": Score("How much?", ["low", "mid", "high"]),
    "sure": Noul("Is it sure?"),
}


@pytest.fixture
def lab():
    return Lab(Agent("instant", network=InstantNetwork()))


def test_answers_come_on_the_same_index_in_the_right_types(lab):
    data = pd.DataFrame({"text": ["bbb", "aaa", "b"]}, index=["x", "y", "x"])
    before = data.copy()
    answers = lab.predict(data, QUESTIONS, state="text")
    assert list(answers.columns) == ["team", "level", "sure"]
    assert list(answers.index) == ["x", "y", "x"]
    assert answers["team"].tolist() == ["beta", "alpha", "beta"]
    assert list(answers["team"].cat.categories) == ["alpha", "beta"]
    assert not answers["team"].cat.ordered
    assert answers.dtypes[["level", "sure"]].tolist() == [np.dtype("float64")] * 2
    pd.testing.assert_frame_equal(data, before)
    assert lab.answers is answers


def test_a_multi_index_and_a_series_keep_their_index(lab):
    index = pd.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["k", "n"])
    answers = lab.predict(pd.Series(["aa", "bb"], index=index), QUESTIONS)
    pd.testing.assert_index_equal(answers.index, index)


def test_lists_single_states_and_nothing_at_all(lab):
    assert len(lab.predict(["a", {"b": 1}, ["turn one", "turn two"]], QUESTIONS)) == 3
    assert len(lab.predict("a", QUESTIONS)) == 1
    assert len(lab.predict({"a": 1}, QUESTIONS)) == 1
    empty = lab.predict([], QUESTIONS)
    assert empty.empty
    assert list(empty.columns) == list(QUESTIONS)
    assert str(empty["team"].dtype) == "category"


def test_detail_adds_confidences_and_probabilities(lab):
    answers = lab.predict(["aab"], QUESTIONS, detail=True)
    row = answers.iloc[0]
    assert row["team__p_alpha"] + row["team__p_beta"] == pytest.approx(1, abs=1e-3)
    assert row["team__answer_confidence"] == max(row["team__p_alpha"], row["team__p_beta"])
    assert {"level__p_0", "level__p_2", "sure__confidence"} <= set(answers.columns)


def test_several_columns_and_a_function_make_states(lab):
    seen = []
    data = pd.DataFrame({"a": ["x", None], "n": [1, 2], "other": [0, 0]})
    lab.predict(
        data, QUESTIONS, state=["a", "n"], on_predict_start=lambda ctx: seen.extend(ctx.states)
    )
    assert seen == [{"a": "x", "n": 1}, {"a": None, "n": 2}]
    seen.clear()
    lab.predict(
        data,
        QUESTIONS,
        state=lambda row: f"{row['n']}!",
        on_predict_start=lambda ctx: seen.extend(ctx.states),
    )
    assert seen == ["1!", "2!"]


def test_each_chunk_is_a_run_of_the_trace(lab):
    lab.predict(list("abcdefg"), QUESTIONS, chunk_size=3, progress=False)
    assert lab.trace.runs["n_states"].tolist() == [3, 3, 1]
    lab.clear()
    assert lab.trace.runs.empty
    assert lab.answers is None


def test_hooks_of_a_call_run_before_the_recorder(lab):
    class Later(BaseHook):
        def on_predict_end(self, ctx):
            ctx.results = list(ctx.results)

    lab.predict(["a"], QUESTIONS, hooks=Later())
    hooks = lab.trace.events.dropna(subset="hook")
    assert hooks["hook"].str.endswith("Later").tolist() == [True]
    assert hooks["changed"].tolist() == ["results"]


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (pd.DataFrame({"t": ["a"]}), {}, "state= is missing.*columns are"),
        (pd.DataFrame({"t": ["a"]}), {"state": "text"}, "no column 'text'"),
        (pd.DataFrame({"t": ["a"]}), {"state": ["t", "u"]}, "no column 'u'"),
        (pd.DataFrame({"t": ["a"]}), {"state": []}, "names no column"),
        (pd.DataFrame({"t": ["a"]}), {"state": ()}, "names no column"),
        (pd.DataFrame({"t": ["a"]}), {"state": {"t"}}, "takes a column, a list of columns or"),
        (pd.DataFrame({"t": ["a"]}), {"state": {"t": 1}}, "takes a column, a list of columns or"),
        (pd.DataFrame({"t": ["a"]}), {"state": [["t"]]}, "takes a column, a list of columns or"),
        (pd.DataFrame({("t", "u"): ["a"]}), {"state": "t"}, "'t' stands for several columns"),
        (pd.DataFrame({("t", "u"): ["a"]}), {"state": ["t"]}, "'t' stands for several columns"),
        (pd.DataFrame({("t", "u"): ["a"]}), {"state": "x"}, "has no column 'x'"),
        (pd.DataFrame([["a", "b"]], columns=["t", "t"]), {"state": "t"}, "more than one column"),
        (["a"], {"state": "t"}, "names columns of a DataFrame; this data is a list"),
        (pd.Series(["a", None], index=["x", "y"]), {}, "state at index 'y' is missing"),
        (pd.Series(["a", float("nan")]), {}, "state at index 1 is missing"),
        (["a", None], {}, "state at index 1 is missing"),
        (["a", float("nan")], {}, "state at index 1 is missing"),
        (7, {}, "the data is a int"),
        (["a"], {"chunk_size": 0}, "chunk_size must be a whole number"),
        (["a", {"b": {1, 2}}], {}, r"state at index 1 \(dict\) cannot be written as JSON"),
    ],
)
def test_bad_data_is_refused_before_anything_is_asked(lab, data, options, message):
    with pytest.raises(InvalidInput, match=message):
        lab.predict(data, QUESTIONS, **options)
    assert lab.trace.runs.empty


def test_a_bad_question_is_refused_before_anything_is_asked(lab):
    with pytest.raises(InvalidInput, match="question 'q': unknown type"):
        lab.predict(["a"], {"q": {"type": "chioce", "instructions": "?"}})
    assert lab.trace.runs.empty


class Leave(BaseHook):
    """Leaves results of its own."""

    def __init__(self, results):
        self.results = results

    def on_predict_end(self, ctx):
        ctx.results = self.results(ctx.results)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda results: results[:1], r"3 states gave 1 results: a hook changed"),
        (lambda results: None, "gave None"),
        (lambda results: [{}] * 3, "result at index 0 has no choice answer for question 'team'"),
        (lambda results: [*results[:2], {"answers": {}}], "result at index 2 has no choice"),
        (
            lambda results: [{"answers": {"team": {"type": "choice", "choice": "gamma"}}}] * 3,
            "a hook left .*'gamma'",
        ),
    ],
)
def test_results_that_fit_no_row_are_refused(lab, change, message):
    with pytest.raises(InvalidInput, match=message):
        lab.predict(["a", "b", "c"], QUESTIONS, hooks=Leave(change), detail=True)


def test_a_start_hook_that_drops_states_is_refused(lab):
    class Drop(BaseHook):
        def on_predict_start(self, ctx):
            ctx.states = ctx.states[1:]

    with pytest.raises(InvalidInput, match="4 states gave 3 results"):
        lab.predict(list("abcdefgh"), QUESTIONS, chunk_size=4, progress=False, hooks=Drop())


def test_a_run_whose_end_hook_raises_is_in_the_trace(lab):
    class Broken(BaseHook):
        def on_predict_end(self, ctx):
            raise LookupError("lost")

    lab.predict(["good"], QUESTIONS)
    with pytest.raises(LookupError):
        lab.predict(["x", "y"], QUESTIONS, hooks=Broken())

    assert lab.trace.runs["n_states"].tolist() == [1, 2]
    assert lab.trace.events["error_type"].dropna().tolist() == ["LookupError"]
    assert lab.lifecycle().layout.box("end").status == "failed"


def test_dates_and_missing_cells_of_several_columns_become_json(lab):
    seen = []
    data = pd.DataFrame({"when": pd.to_datetime(["2026-11-30", None]), "n": [1.5, None]})
    lab.predict(
        data, QUESTIONS, state=["when", "n"], on_predict_start=lambda ctx: seen.extend(ctx.states)
    )
    assert seen == [{"when": "2026-11-30T00:00:00", "n": 1.5}, {"when": None, "n": None}]


def test_an_array_of_texts_is_taken(lab):
    assert len(lab.predict(np.array(["a", "b"]), QUESTIONS)) == 2


@pytest.mark.parametrize("agent", ["embedded", 7, Agent])
def test_what_is_no_agent_is_refused(agent):
    with pytest.raises(InvalidInput, match=r"write Lab\(Agent\(\.\.\.\)\)"):
        Lab(agent)


def test_the_lifecycle_picture_is_of_the_run_asked_for(lab):
    with pytest.raises(InvalidInput, match="nothing was recorded yet"):
        lab.lifecycle()
    lab.predict(["a", "b"], QUESTIONS, chunk_size=1, progress=False)
    first, last = lab.trace.runs["run_id"]
    assert last[:8] in lab.lifecycle().layout.subtitle
    assert first[:8] in lab.lifecycle(first[:12]).layout.subtitle
    with pytest.raises(InvalidInput, match="run_id is the text of an id"):
        lab.lifecycle(0)
    with pytest.raises(InvalidInput, match="0 recorded runs have an id that begins with 'zz'"):
        lab.lifecycle("zz")


def test_errors_are_of_the_kinds_that_their_names_say():
    assert issubclass(InvalidState, TypeError)
    assert issubclass(InvalidOption, ValueError)


@pytest.mark.parametrize(
    "questions",
    [
        {"a": Noul("?"), "a__confidence": Noul("?")},
        {1: Noul("?"), "1": Noul("?")},
        {"a": Choice("?", ["x"]), "a__p_x": Noul("?")},
    ],
)
def test_columns_that_would_have_one_name_are_refused(lab, questions):
    with pytest.raises(InvalidInput, match="two columns of the answers would be named"):
        lab.predict(["a"], questions, detail=True)
    assert lab.trace.runs.empty
    assert len(lab.predict(["a"], questions).columns) == 2


def test_columns_may_have_numbers_and_levels_for_names(lab):
    assert len(lab.predict(pd.DataFrame([["x", "y"]]), QUESTIONS, state=0)) == 1
    levels = pd.DataFrame([["x", "y"]], columns=pd.MultiIndex.from_tuples([("a", 1), ("a", 2)]))
    assert len(lab.predict(levels, QUESTIONS, state=("a", 1))) == 1
    twice = pd.DataFrame([["x", "y"]], columns=["a", "a"])
    for state in ("a", ["a"]):
        with pytest.raises(InvalidInput, match="more than one column 'a'"):
            lab.predict(twice, QUESTIONS, state=state)


def test_a_function_that_gives_nothing_is_refused(lab):
    data = pd.DataFrame({"t": ["a", None]})
    with pytest.raises(InvalidState, match="state at index 1 is missing"):
        lab.predict(data, QUESTIONS, state=lambda row: row["t"])


def test_functions_and_collecting_hooks_run_ahead_of_the_recorder(lab):
    class Collector(list):
        def on_predict_end(self, ctx):
            self.append(ctx.run_id)

    collector = Collector()
    lab.predict(["a"], QUESTIONS, hooks=[collector], on_predict_end=lambda ctx: None)
    assert len(collector) == 1
    assert lab.trace.events["hook"].notna().sum() == 2


def test_a_recorder_in_two_lists_notes_each_run_once(lab):
    lab.agent.add_hook(lab.recorder)
    lab.predict(["a"], QUESTIONS)
    assert len(lab.trace.runs) == 1


@pytest.mark.parametrize(
    "usage", [{"input_tokens": 1.5}, [1], {"input_tokens": 10**400}, {"input_tokens": True}]
)
def test_odd_usage_of_a_hook_leaves_the_trace_readable(lab, usage):
    def odd(ctx):
        ctx.usage = usage

    lab.predict(["a"], QUESTIONS, on_predict_end=odd)
    assert lab.trace.runs["input_tokens"].isna().all()


def test_the_thread_in_the_trace_is_the_callers_also_under_a_timeout():
    lab = Lab(Agent("instant", network=InstantNetwork(), hooks_timeout=5))
    lab.predict(["a"], QUESTIONS)
    assert lab.trace.runs["thread"].tolist() == ["MainThread"]


def test_texts_that_files_and_pictures_choke_on_are_survived(lab, tmp_path):
    def fail(ctx):
        raise ValueError("cost $5_{ and $6 \r 20% \ud800 <b>")

    with pytest.raises(ValueError, match="cost"):
        lab.predict(["a"], QUESTIONS, on_predict_start=fail)
    path = lab.trace.to_csv(tmp_path / "t.csv")
    assert len(pd.read_csv(path)) == 1
    assert lab.lifecycle().to_png().startswith(b"\x89PNG")
    with pytest.raises(InvalidOption, match="is a folder; give the name of a file in it"):
        lab.trace.to_csv(tmp_path)
