"""One scenario through a Lab over laya's objects and over ours: the same frames, the same tree."""

from __future__ import annotations

import warnings

import laya
import laya.agent
import pandas as pd
import pytest
from fakes import start_thread
from tiny import make_checkpoint

from jevlaya_lab import Agent, BaseHook, Choice, Lab, Noul, Router, Score
from jevlaya_lab.frames import read_trace_csv

QUESTIONS = {
    "team": Choice("Which team?", ["alpha", "beta", "gamma"]),
    "level": Score("How much?", ["low", "mid", "high"]),
    "sure": Noul("Is it sure?"),
}
STATES = ["one text", "skip me", "another text", "rewrite me", "a fifth text"]
NAMES = ["english", "multilingual", "english", "multilingual", "english"]
CACHED = {
    "team": {"type": "choice", "choice": "beta"},
    "level": {"type": "score", "score": 1.0},
    "sure": {"type": "noul", "noul": 0.5},
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("checkpoints")
    return {
        "english": str(make_checkpoint(root / "one", seed=1)),
        "multilingual": str(make_checkpoint(root / "two", seed=2)),
    }


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class Watch:
    """Listens to everything and does nothing."""

    def on_route(self, ctx):
        pass

    def on_load(self, ctx):
        pass

    def on_evict(self, ctx):
        pass

    def on_predict_start(self, ctx):
        pass

    def on_error(self, ctx):
        pass

    def on_predict_end(self, ctx):
        pass


class Change:
    """Answers one state itself, rewrites another, and fails at a third."""

    def on_predict_start(self, ctx):
        if ctx.states == ["skip me"]:
            ctx.skip([{"model": "cache", "answers": CACHED, "usage": {"input_tokens": 5}}])
        if ctx.states == ["rewrite me"]:
            ctx.states = ["rewritten"]
        if ctx.states == ["fail"]:
            raise LookupError("a hook said no")


class Slow:
    """An asynchronous hook."""

    async def on_predict_end(self, ctx):
        pass


def quiet(base):
    """A hook that inherits the events it does not care for."""

    class Quiet(base):
        def on_predict_end(self, ctx):
            ctx.results = list(ctx.results or [])

    return Quiet()


def named(events):
    """Local classes are called by where they stand; the name is what matters."""
    return events["hook"].str.replace(r".*\.(?=[^.]+$)", "", regex=True).fillna("")


def tree(runs):
    """Each run by its call, scope, entry and checkpoint, with its parent's scope and checkpoint."""
    by_id = runs.set_index("run_id")
    calls = {each: i for i, each in enumerate(runs["call_id"].unique())}
    found = []
    for run in runs.itertuples():
        parent = None
        if not pd.isna(run.parent_run_id):
            above = by_id.loc[run.parent_run_id]
            parent = (above["scope"], above["model"])
            assert above["call_id"] == run.call_id
        model = None if pd.isna(run.model) else run.model
        found.append((calls[run.call_id], run.scope, run.entry, model, parent))
    return sorted(found, key=repr)


def scenario(kind, folders):
    """Two checkpoints of which one fits, hooks of both origins, a skip, a failure, a long state."""
    base = {"laya": laya.BaseHook, "ours": BaseHook}[kind]
    make = {"laya": laya.Router, "ours": Router}[kind]
    router = make(folders, device="cpu", max_loaded=1, hooks=[Watch()], default="english")
    router.load("english").add_hook(quiet(base))
    lab = Lab(router)
    answers = lab.predict(
        STATES,
        QUESTIONS,
        model=pd.Series(NAMES),
        hooks=[Change(), quiet(base), Slow()],
        on_predict_start=[lambda ctx: None],
        on_predict_end=lambda ctx: None,
        detail=True,
    )
    with pytest.raises(LookupError):
        lab.predict(["fine", "fail"], QUESTIONS, model="english", hooks=Change())
    routing = lab.route(["one text", "two"], lang="en")
    long = lab.predict_long("a few words " * 80, QUESTIONS, model="english", detail=True)
    return lab, answers, routing, long


@pytest.fixture(scope="module")
def both(folders):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {kind: scenario(kind, folders) for kind in ("laya", "ours")}


def test_frames_have_the_same_columns_and_dtypes(both):
    theirs, ours = both["laya"][0].trace, both["ours"][0].trace
    for name in ("runs", "events", "calls"):
        pd.testing.assert_series_equal(getattr(theirs, name).dtypes, getattr(ours, name).dtypes)


def test_events_come_in_the_same_order_by_the_same_hooks_of_the_same_origin(both):
    frames = []
    for kind in ("laya", "ours"):
        events = both[kind][0].trace.events
        shown = {"hook": named(events), "position": events["position"]}
        for name in ("event", "origin", "checkpoint", "changed", "error_type"):
            shown[name] = events[name].astype("string").fillna("")
        frames.append(pd.DataFrame(shown))
    pd.testing.assert_frame_equal(*frames)
    assert set(frames[0]["hook"]) == {"", "Watch", "Change", "Quiet", "Slow", "<lambda>"}
    assert {"on_load", "on_evict", "on_error"} <= set(frames[0]["event"])


def test_the_trees_are_the_same(both):
    theirs, ours = (tree(both[kind][0].trace.runs) for kind in ("laya", "ours"))
    assert theirs == ours
    assert {entry[1] for entry in ours} == {"route", "load", "evict", "router", "agent"}
    assert any(entry[4] for entry in ours)


def test_calls_sum_up_to_the_same(both):
    counts = ["entry", "n_requests", "n_runs", "n_loads", "n_evictions", "n_skipped", "n_errors"]
    theirs, ours = (both[kind][0].trace.calls[[*counts, "input_tokens"]] for kind in both)
    pd.testing.assert_frame_equal(theirs, ours)
    assert ours["n_skipped"].sum() == 1
    assert ours["n_evictions"].sum() >= 2


def test_runs_say_the_same_of_requests_tokens_decisions_and_errors(both):
    names = [
        "scope", "entry", "model", "n_states", "n_questions", "input_tokens", "output_tokens",
        "routing_model", "error_type", "error_message", "skipped",
    ]  # fmt: skip
    frames = []
    for kind in ("laya", "ours"):
        runs = both[kind][0].trace.runs
        asked = runs[runs["scope"].isin(["agent", "router"])][names].reset_index(drop=True)
        asked["skipped"] = asked["skipped"].fillna(False)
        asked.loc[asked["scope"] == "agent", "model"] = ""  # laya says a folder, as we do
        frames.append(asked)
    pd.testing.assert_frame_equal(*frames)


def test_ours_fills_the_timings_as_well(both):
    theirs, ours = both["laya"][0].trace, both["ours"][0].trace
    steps = ["encode_ms", "collate_ms", "forward_ms", "decode_ms"]
    assert theirs.runs[steps].isna().all(axis=None)
    agents = ours.where(scope="agent").runs
    assert agents[[*steps, "elapsed_ms", "n_forwards"]].notna().all(axis=None)
    assert ours.where(scope=["load", "route"]).runs["elapsed_ms"].notna().all()
    for trace in (theirs, ours):
        asked = trace.where(scope=["agent", "router"]).runs
        assert asked["elapsed_ms"].notna().all()
        assert trace.events.dropna(subset="hook")["duration_ms"].notna().all()


def test_answers_and_decisions_are_the_same(both):
    for i in (1, 3):
        theirs, ours = (both[kind][i] for kind in ("laya", "ours"))
        assert list(theirs.columns) == list(ours.columns)
        pd.testing.assert_series_equal(theirs.dtypes, ours.dtypes)
        # How each words a reason, and where in a state each sees a window begin, is its own.
        own = [c for c in theirs if c.startswith("routing_") or "__char_" in c]
        pd.testing.assert_frame_equal(theirs.drop(columns=own), ours.drop(columns=own), atol=2e-3)
    theirs, ours = both["laya"][2], both["ours"][2]
    assert theirs["model"].tolist() == ours["model"].tolist() == ["english"] * 2
    pd.testing.assert_series_equal(theirs.dtypes, ours.dtypes)
    answers = both["ours"][1]
    assert answers["team"][1] == "beta"
    for kind in both:
        assert both[kind][1]["routing_model"].tolist() == NAMES


def test_hooks_are_as_they_were(both):
    for kind in ("laya", "ours"):
        router = both[kind][0].agent
        assert [type(hook) for hook in router.hooks] == [Watch]
        for name in router.loaded:
            assert list(router.load(name).hooks) == []


def test_such_a_trace_can_be_written_and_read(both, tmp_path):
    trace = both["laya"][0].trace
    back = read_trace_csv(trace.to_csv(tmp_path / "t.csv"))
    for name in ("runs", "events", "calls"):
        pd.testing.assert_frame_equal(getattr(back, name), getattr(trace, name))
    assert trace.to_chrome(tmp_path / "t.json").is_file()


@pytest.mark.parametrize("kind", ["laya", "ours"])
def test_an_agent_alone(folders, kind):
    make = {"laya": laya.agent.Agent, "ours": Agent}[kind]
    hook = Watch()
    agent = make(folders["english"], device="cpu", hooks=[hook])
    lab = Lab(agent)
    answers = lab.predict(["a", "b", "a"], QUESTIONS, hooks=Slow(), on_predict_end=lambda ctx: None)
    assert answers["team"].notna().all()
    with pytest.raises(LookupError):
        lab.predict(["fail"], QUESTIONS, hooks=Change())
    assert list(agent.hooks) == [hook]
    trace = lab.trace
    assert trace.runs["scope"].tolist() == ["agent"] * 2
    assert trace.runs["entry"].tolist() == ["predict_batch"] * 2
    assert trace.runs["call_id"].nunique() == 2
    assert trace.runs["error_type"].tolist() == [pd.NA, "LookupError"]
    shown = trace.events[["event", "origin", "position"]].assign(hook=named(trace.events))
    assert shown.astype("string").fillna("-").agg(" ".join, axis=1).tolist() == [
        "on_predict_start - - ",
        "on_predict_start installed 0 Watch",
        "on_predict_end - - ",
        "on_predict_end installed 0 Watch",
        "on_predict_end call 1 Slow",
        "on_predict_end call 2 <lambda>",
        "on_predict_start - - ",
        "on_predict_start installed 0 Watch",
        "on_predict_start call 1 Change",
        "on_error - - ",
        "on_error installed 0 Watch",
        "on_predict_end - - ",
        "on_predict_end installed 0 Watch",
    ]


class Ask(BaseHook):
    """Asks by the same Lab in an event of a run about ``outer``."""

    def __init__(self, event):
        setattr(self, event, self.ask)

    def ask(self, ctx):
        if list(ctx.states) == ["outer"]:
            self.lab.predict("inner", QUESTIONS, **self.options)


@pytest.mark.parametrize("kind", ["laya", "ours"])
@pytest.mark.parametrize("scope", ["agent", "router"])
@pytest.mark.parametrize("installed", [True, False])
@pytest.mark.parametrize("event", ["on_predict_start", "on_predict_end"])
def test_what_a_hook_asks_by_the_lab_is_a_part_of_its_run(folders, kind, scope, installed, event):
    hook = Ask(event)
    if scope == "agent":
        target = {"laya": laya.agent.Agent, "ours": Agent}[kind](folders["english"], device="cpu")
    else:
        target = {"laya": laya.Router, "ours": Router}[kind](folders, device="cpu")
    if installed:
        target.add_hook(hook)
    lab = hook.lab = Lab(target)
    hook.options = {} if scope == "agent" else {"model": "english"}
    lab.predict("outer", QUESTIONS, hooks=None if installed else hook, **hook.options)
    outer, inner = lab.trace.where(scope=scope).runs.itertuples()
    assert inner.parent_run_id == outer.run_id
    assert inner.call_id == outer.call_id
    assert lab.trace.calls["n_requests"].tolist() == [1]


def test_under_a_timeout_laya_runs_hooks_on_another_thread_and_all_is_noted(folders):
    router = laya.Router(folders, device="cpu", default="english", hooks_timeout=30)
    lab = Lab(router)
    lab.predict(["a", "b"], QUESTIONS, model="english", hooks=Watch())
    scopes = lab.trace.runs["scope"].tolist()
    assert scopes == ["route", "route", "load", "router", "router", "agent"]
    assert lab.trace.calls["n_requests"].tolist() == [2]


def test_threads_may_call_one_lab_over_layas_router_at_once(folders):
    hook = Watch()
    router = laya.Router(folders, device="cpu", default="english", hooks=[hook])
    for name in folders:
        router.load(name)
    lab, frames = Lab(router), {}

    def call(k):
        for i in range(3):
            states = pd.Series([f"{k} {i}", "b"], index=[k, i])
            frames[k, i] = lab.predict(states, QUESTIONS, model=NAMES[k % 2])

    threads = [start_thread(call, k) for k in range(4)]
    for thread in threads:
        thread.join(60)
    assert {key: frame.index.tolist() for key, frame in frames.items()} == {
        (k, i): [k, i] for k in range(4) for i in range(3)
    }
    trace = lab.trace
    assert trace.calls["n_requests"].tolist() == [2] * 12
    assert trace.runs["scope"].value_counts().to_dict() == {"route": 24, "router": 24, "agent": 12}
    assert trace.runs["call_id"].notna().all()
    assert router.hooks == [hook]
    assert [list(router.load(name).hooks) for name in folders] == [[], []]


def test_what_laya_refuses_is_refused(folders):
    lab = Lab(laya.agent.Agent(folders["english"], device="cpu"))

    class NoMethod:
        on_predict_start = 7

    for hooks in (NoMethod(), Watch, 7, object()):
        with pytest.raises(TypeError):
            lab.predict(["a"], QUESTIONS, hooks=hooks)
    with pytest.raises((TypeError, ValueError)):
        lab.predict(["a", "b"], QUESTIONS, errors="coerce", no_such_option=1)
    assert lab.trace.runs.empty
