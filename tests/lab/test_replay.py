"""Replay: the requests of a trace asked again, of another agent, router or hook list."""

from __future__ import annotations

import warnings

import laya
import laya.agent
import pandas as pd
import pytest
from fakes import make_agent
from tiny import make_checkpoint

from jevlaya_lab import Agent, BaseHook, Choice, Lab, Noul, Router, Score, TraceRecorder
from jevlaya_lab.frames import read_trace_csv, read_trace_parquet
from jevlaya_lab.lab.replay import ANSWERS, TIMINGS
from jevlaya_lab.system_one.errors import InvalidHook, InvalidInput, InvalidOption

QUESTIONS = {
    "team": Choice("Which team?", {"a": "alpha", "b": "beta", 7: "none"}),
    "level": Score("How much?", ["low", "mid", "high"]),
    "sure": Noul("Is it sure?"),
}
STATES = ["aab", {"b": "bb"}, ["a turn", "b turn"]]


def recorded(agent=None, **options):
    lab = Lab(agent or make_agent(), capture="text")
    lab.predict(STATES, QUESTIONS, **options)
    return lab


def routed(**agents):
    router = Router()
    for name, agent in agents.items():
        router.attach(name, agent)
    return router


class Mask(BaseHook):
    def on_predict_start(self, ctx):
        ctx.states = ["bbb" for _ in ctx.states]


def typed(replay):
    for frame, dtypes in ((replay.answers, ANSWERS), (replay.timings, TIMINGS)):
        assert (
            frame.dtypes.to_dict()
            == pd.DataFrame({}, columns=list(dtypes)).astype(dtypes).dtypes.to_dict()
        )
    return replay


def test_the_same_agent_changes_nothing():
    lab = recorded()
    rows = len(lab.trace.runs)
    replay = typed(lab.replay(lab.trace))
    answers = replay.answers
    assert answers["state"].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert answers["question"].tolist() == list(QUESTIONS) * 3
    assert not answers["changed"].any()
    assert answers["before"].tolist()[:1] == [lab.answers["team"][0]]
    assert answers["before"].tolist() == answers["after"].tolist()
    assert answers["confidence_before"].tolist() == answers["confidence_after"].tolist()
    assert answers["answer_confidence_after"].notna().all()
    (run,) = replay.timings.itertuples()
    assert run.run_id == lab.trace.runs["run_id"][0]
    assert run.elapsed_ms_before == lab.trace.runs["elapsed_ms"][0]
    assert run.forward_ms_after > 0
    assert pd.isna(run.error_after)
    assert len(lab.trace.runs) == rows
    assert lab.agent.hooks == []
    assert len(replay.trace.runs) == 1
    assert replay.summary().startswith("1 run asked again, 0 failed. 0 of 9 answers changed.")


def test_a_list_of_hooks_changes_answers():
    lab = recorded()
    answers_before = lab.answers
    replay = lab.replay(lab.trace, hooks=[Mask()])
    changed = replay.answers.set_index(["state", "question"])["changed"]
    assert changed[0, "team"]
    assert not changed[1, "team"]
    after = replay.answers.loc[replay.answers["question"] == "team", "after"]
    assert after.tolist() == ["b"] * 3
    assert "team 2 of 3" in replay.summary() or "team 1 of 3" in replay.summary()
    assert lab.answers is answers_before
    assert lab.replay(lab.trace, hooks=[Mask()], tolerance=100.0).answers["changed"].sum() <= 2


def test_hooks_of_then_are_part_of_what_was_recorded():
    """The recorder runs last: it keeps what the network was given."""
    lab = recorded(hooks=[Mask()])
    replay = lab.replay(lab.trace)
    assert not replay.answers["changed"].any()
    assert set(replay.answers.loc[replay.answers["question"] == "team", "after"]) == {"b"}


@pytest.mark.parametrize("reader", ["csv", "parquet"])
def test_a_trace_from_a_file_works_as_well(tmp_path, reader):
    lab = recorded()
    if reader == "csv":
        trace = read_trace_csv(lab.trace.to_csv(tmp_path / "t.csv"))
    else:
        trace = read_trace_parquet(lab.trace.to_parquet(tmp_path / "t.parquet"))
    live, back = lab.replay(lab.trace), lab.replay(trace, Lab(make_agent()))
    pd.testing.assert_frame_equal(live.answers, back.answers)


def test_of_a_routers_call_only_the_requests_are_asked_again():
    router = routed(english=make_agent(), multilingual=make_agent())
    lab = recorded(router, model=pd.Series(["english", "multilingual", "english"]))
    assert set(lab.trace.runs["scope"]) == {"route", "router", "agent"}
    for other in (None, make_agent(), Lab(make_agent())):
        replay = typed(lab.replay(lab.trace, other, progress=False))
        assert replay.timings["scope"].tolist() == ["router"] * 3
        assert sorted(replay.timings["model_before"]) == ["english", "english", "multilingual"]
        assert not replay.answers["changed"].any()
        assert replay.timings["forward_ms_after"].notna().all()
        # A pass that two requests shared belongs to neither.
        assert replay.timings["forward_ms_before"].notna().sum() == 1


def test_an_agents_trace_may_be_asked_of_a_router():
    lab = recorded()
    replay = lab.replay(lab.trace, routed(english=make_agent(), multilingual=make_agent()))
    assert not replay.answers["changed"].any()
    (run,) = replay.timings.itertuples()
    assert run.model_before == "test"
    assert run.model_after in ("english", "multilingual")
    assert "nother checkpoint answered 1 run" in replay.summary()


def test_what_a_router_was_told_it_is_told_again_where_it_knows_the_name():
    lab = Lab(routed(english=make_agent(), other=make_agent()), capture="text")
    lab.predict(["a"], QUESTIONS, model="other")
    lab.predict(["b"], QUESTIONS, lang="en")
    same = lab.replay(lab.trace)
    assert same.timings["model_after"].tolist() == ["other", "english"]
    elsewhere = lab.replay(lab.trace, routed(english=make_agent(), multilingual=make_agent()))
    assert elsewhere.timings["error_after"].isna().all()
    assert "other" not in elsewhere.timings["model_after"].tolist()


def test_long_states_are_asked_as_they_were():
    router = routed(english=make_agent())
    for agent, scope in ((make_agent(), "agent"), (router, "router")):
        lab = Lab(agent, capture="text")
        options = {"model": "english"} if scope == "router" else {}
        lab.predict_long(["a " * 600 + "b"], QUESTIONS, **options)
        replay = lab.replay(lab.trace)
        assert replay.timings["scope"].tolist() == [scope]
        assert replay.timings["entry"].tolist() == ["predict_long"]
        assert not replay.answers["changed"].any()
        assert replay.timings["error_after"].isna().all()


def test_token_budgets_are_kept():
    lab = Lab(make_agent(), capture="text")
    lab.predict(["a b b"], QUESTIONS, max_len=8, head_max_len=16)
    replay = lab.replay(lab.trace)
    assert replay.trace.runs[["max_len", "head_max_len"]].iloc[0].tolist() == [8, 16]


def test_what_a_hook_asked_is_not_asked_again_by_itself():
    lab = Lab(routed(english=make_agent()), capture="text")

    def ask(ctx):
        if ctx.entry == "predict_batch":
            ctx.router.predict("inner", QUESTIONS, model="english")

    lab.predict(["a"], QUESTIONS, model="english", on_predict_start=ask)
    assert len(lab.trace.where(scope="router").runs) == 2
    assert lab.replay(lab.trace).timings["entry"].tolist() == ["predict_batch"]


class Fail(BaseHook):
    def __init__(self, word):
        self.word = word

    def on_predict_start(self, ctx):
        if self.word in ctx.states:
            raise LookupError(f"no {self.word}")


def test_errors_of_single_runs_are_kept():
    lab = Lab(make_agent(), capture="text")
    lab.predict(["a", "bad", "c"], QUESTIONS, chunk_size=1, progress=False)
    replay = typed(lab.replay(lab.trace, hooks=Fail("bad"), progress=False))
    assert replay.timings["error_after"].tolist() == [pd.NA, "LookupError: no bad", pd.NA]
    assert replay.timings["elapsed_ms_after"].notna().all()
    missed = replay.answers[replay.answers["state"].notna() & replay.answers["after"].isna()]
    assert len(missed) == 3
    assert missed["changed"].all()
    assert missed["confidence_after"].isna().all()
    assert replay.summary().startswith("3 runs asked again, 1 failed. 3 of 9 answers changed")
    with pytest.raises(KeyboardInterrupt):
        lab.replay(lab.trace, hooks=type("Stop", (), {"on_predict_start": _stop})())


def _stop(self, ctx):
    raise KeyboardInterrupt


def test_a_run_that_failed_then_is_asked_again_where_its_text_is_known():
    agent = make_agent()
    lab = Lab(agent, capture="text")
    real, agent.network.forward = agent.network.forward, None
    with pytest.raises(TypeError):
        lab.predict(["a"], QUESTIONS)
    agent.network.forward = real
    with pytest.raises(LookupError):
        lab.predict(["bad"], QUESTIONS, hooks=Fail("bad"))  # before the recorder's own start
    replay = lab.replay(lab.trace)
    assert replay.timings["error_before"].tolist() == ["TypeError"]
    assert replay.answers["before"].isna().all()
    assert replay.answers["after"].notna().all()
    assert replay.answers["changed"].all()
    assert replay.n_left_out == 1
    assert "1 left out, since their text was not kept" in replay.summary()


@pytest.mark.parametrize("capture", ["none", "hash"])
def test_a_trace_without_text_says_how_to_record_one(capture):
    lab = Lab(make_agent(), capture=capture)
    lab.predict(["a"], QUESTIONS)
    with pytest.raises(InvalidInput, match=r'none of its 1 requests; .*capture="text"'):
        lab.replay(lab.trace)
    lab.clear()
    with pytest.raises(InvalidInput, match="none of its 0 requests"):
        lab.replay(lab.trace)


class Give(BaseHook):
    """Answers by itself."""

    def __init__(self, **values):
        self.values = values

    def on_predict_end(self, ctx):
        for result in ctx.results:
            for name, value in self.values.items():
                result["answers"][name][result["answers"][name]["type"]] = value


@pytest.mark.parametrize(
    ("name", "before", "after", "changed"),
    [
        ("sure", 1, 1.0004, False),
        ("sure", 1.0004, 1, False),
        ("sure", True, 1.0004, False),
        ("sure", 1, 0.9, True),
        ("level", 2, 2.0004, False),
        ("level", 2, 1, True),
        ("sure", None, 1, True),
        ("team", "a", "b", True),
    ],
)
def test_a_number_is_a_number_whoever_gave_it(name, before, after, changed):
    lab = recorded(hooks=Give(**{name: before}))
    answers = lab.replay(lab.trace, hooks=Give(**{name: after})).answers
    assert answers.loc[answers["question"] == name, "changed"].tolist() == [changed] * 3


def test_labels_that_are_numbers_have_no_tolerance():
    lab = Lab(make_agent(), capture="text")
    lab.predict(["a"], {"n": Choice("Which?", [1, 2])}, hooks=Give(n=1))
    replay = lab.replay(lab.trace, hooks=Give(n=2), tolerance=5)
    assert replay.answers["changed"].tolist() == [True]


@pytest.mark.parametrize("column", ["states", "questions", "results"])
@pytest.mark.parametrize("damage", ["[", "", '{"$": "what", "v": 1}', "[" * 100_000])
def test_a_damaged_cell_is_refused_before_anything_is_asked(column, damage):
    lab = recorded()
    lab.predict(["b"], QUESTIONS)
    trace, seen = lab.trace, []
    trace.runs.loc[1, column] = damage
    run_id = trace.runs["run_id"][1]
    with pytest.raises(InvalidInput, match=f"the {column} of run '{run_id}' cannot be read"):
        lab.replay(
            trace, hooks=type("See", (), {"on_predict_start": lambda _, c: seen.append(c)})()
        )
    assert not seen


def test_cells_of_another_shape_are_refused():
    lab = recorded()
    trace = lab.trace
    trace.runs.loc[0, "states"] = '{"a": 1}'
    with pytest.raises(InvalidInput, match="are no list and dict, but a dict and a dict"):
        lab.replay(trace)


def test_what_cannot_be_replayed_is_refused():
    lab = recorded()
    with pytest.raises(InvalidInput, match=r"replay takes a trace, such as lab\.trace.*a Lab"):
        lab.replay(lab)
    with pytest.raises(InvalidInput, match="an object with predict_batch"):
        lab.replay(lab.trace, [Mask()])
    with pytest.raises(InvalidOption, match="tolerance"):
        lab.replay(lab.trace, tolerance=-1)
    with pytest.raises(InvalidHook):
        lab.replay(lab.trace, hooks=7)


def test_part_of_a_trace_can_be_chosen():
    lab = Lab(make_agent(), capture="text")
    lab.predict(["a", "b"], QUESTIONS, chunk_size=1, progress=False)
    second = lab.trace.runs["run_id"][1]
    replay = lab.replay(lab.trace.where(run_id=second))
    assert replay.timings["run_id"].tolist() == [second]


def test_against_layas_objects_and_from_a_recorder_on_them(tmp_path):
    folder = str(make_checkpoint(tmp_path / "c"))
    questions = {name: dict(QUESTIONS[name]) for name in ("level", "sure")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = laya.agent.Agent(folder, device="cpu")
        router = laya.Router({"english": folder}, device="cpu", default="english")
        ours = Lab(Agent(folder, device="cpu"), capture="text")
        ours.predict(["one text", "another"], questions)
        for other in (theirs, router):
            replay = typed(ours.replay(ours.trace, other, tolerance=0.01))
            assert not replay.answers["changed"].any()
            assert replay.timings["elapsed_ms_after"].notna().all()
            assert replay.timings["forward_ms_after"].isna().all()
        recorder = TraceRecorder(capture="text")
        theirs.predict_batch(["one text"], questions, hooks=[recorder])
        replay = ours.replay(recorder.trace, tolerance=0.01)
    assert not replay.answers["changed"].any()
    assert replay.timings["forward_ms_before"].isna().all()
    assert replay.timings["forward_ms_after"].notna().all()
    assert list(theirs.hooks) == []
