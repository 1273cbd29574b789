"""What the Lab notes: each run once, with all that a router does, and hooks that are gone after."""

from __future__ import annotations

import gc
import threading
import weakref

import pandas as pd
import pytest
from fakes import make_agent, promptly, start_thread

from jevlaya_lab import Agent, BaseHook, Choice, Lab, Noul, Router, TraceRecorder
from jevlaya_lab.system_one.errors import CheckpointNotFound, InvalidInput
from jevlaya_lab.system_one.models.instant import InstantNetwork
from jevlaya_lab.tracing.overhearing import Overhearing

QUESTIONS = {"team": Choice("Which team?", ["alpha", "beta"]), "sure": Noul("Is it sure?")}


class InstantRouter(Router):
    """Builds agents that answer at once."""

    def _build(self, name, source):
        return Agent(name, network=InstantNetwork())


@pytest.fixture
def lab():
    return Lab(InstantRouter(max_loaded=1))


def two_models(n):
    return pd.Series(["english", "multilingual"] * n)[:n].reset_index(drop=True)


def test_a_call_of_a_router_is_one_tree(lab):
    lab.predict(list("abc"), QUESTIONS, model=two_models(3), progress=False)
    runs = lab.trace.runs
    assert runs["scope"].value_counts().to_dict() == {
        "route": 3, "router": 3, "load": 2, "agent": 2, "evict": 1,
    }  # fmt: skip
    assert runs["call_id"].nunique() == 1
    (call,) = lab.trace.calls.itertuples()
    assert (call.n_requests, call.n_loads, call.n_evictions, call.n_errors) == (3, 2, 1, 0)
    # One request alone is the parent of the agent's run; a pass that two share belongs to neither.
    agents = runs[runs["scope"] == "agent"].set_index("model")
    routers = runs[runs["scope"] == "router"].set_index("model")
    assert agents["parent_run_id"]["multilingual"] == routers["run_id"]["multilingual"]
    assert agents["parent_run_id"].isna()["english"]


def test_a_cell_that_runs_again_doubles_no_hook_and_no_row(lab):
    counts = []
    for _ in range(3):
        lab.clear()
        lab.predict(["a", "b"], QUESTIONS, model="english")
        counts.append((len(lab.trace.runs), len(lab.trace.events)))
        assert lab.agent.hooks == []
        assert lab.agent.load("english").hooks == []
    # Only the first one loads.
    assert counts[1] == counts[2] == (counts[0][0] - 1, counts[0][1] - 1)


def test_two_labs_of_one_router_note_their_own_calls_only(lab):
    other = Lab(lab.agent)
    lab.predict(["a"], QUESTIONS, model="english")
    other.predict(["a", "b"], QUESTIONS, model="english")
    assert lab.trace.where(scope="router").runs["n_states"].sum() == 1
    assert other.trace.where(scope="router").runs["n_states"].sum() == 2
    assert other.trace.calls["n_loads"].tolist() == [0]
    assert lab.agent.hooks == []


def test_a_lab_inside_a_hook_notes_its_own_call_and_the_outer_one_its_own(lab):
    inner = Lab(lab.agent)

    def ask(ctx):
        if ctx.states == ["a"]:
            inner.predict(["inner"], QUESTIONS, model="english")

    lab.predict(["a"], QUESTIONS, model="english", on_predict_start=ask)
    for each in (lab, inner):
        assert each.trace.where(scope="router").runs["n_states"].tolist() == [1]
        assert each.trace.where(scope="agent").runs["n_states"].tolist() == [1]


def test_what_a_hook_asks_of_the_router_is_in_the_tree(lab):
    def ask(ctx):
        if ctx.states == ["a"]:
            ctx.router.predict("inner", QUESTIONS, model="english")

    lab.predict(["a"], QUESTIONS, model="english", on_predict_start=ask)
    routers = lab.trace.where(scope="router").runs.set_index("entry")
    assert routers.loc["predict", "parent_run_id"] == routers.loc["predict_batch", "run_id"]
    assert lab.trace.calls["n_requests"].tolist() == [1]


def test_what_a_hook_asks_of_the_agent_is_in_the_tree():
    lab = Lab(make_agent())

    def ask(ctx):
        if ctx.states == ["a"]:
            ctx.agent.predict("inner", QUESTIONS)

    lab.predict(["a"], QUESTIONS, on_predict_start=ask)
    outer, inner = lab.trace.runs.itertuples()
    assert inner.parent_run_id == outer.run_id
    assert inner.call_id == outer.call_id
    assert lab.trace.calls["n_requests"].tolist() == [1]
    assert lab.agent.hooks == []


def test_others_who_use_the_router_meanwhile_are_not_noted(lab):
    def meanwhile(_):
        promptly(lab.agent.predict, "other", QUESTIONS, "english")

    # The thread of `promptly` has a copy of the context; a fresh one is somebody else's.
    def fresh(_):
        done = threading.Thread(target=lab.agent.predict, args=("x", QUESTIONS, "english"))
        done.start()
        done.join()

    lab.predict(["a"], QUESTIONS, model="english", on_predict_start=fresh)
    assert len(lab.trace.where(scope="router").runs) == 1
    lab.clear()
    lab.predict(["a"], QUESTIONS, model="english", on_predict_start=meanwhile)
    assert len(lab.trace.where(scope="router").runs) == 2


class Broken(BaseHook):
    """Raises at one event."""

    def __init__(self, event, error=LookupError):
        def fail(ctx):
            raise error(event)

        setattr(self, event, fail)


@pytest.mark.parametrize("event", ["on_route", "on_load", "on_predict_start", "on_predict_end"])
@pytest.mark.parametrize("error", [LookupError, KeyboardInterrupt])
@pytest.mark.parametrize("installed", [True, False])
def test_after_a_failure_only_the_users_own_hooks_are_left(lab, event, error, installed):
    hook = Broken(event, error)
    if event == "on_load" and not installed:
        lab.predict(["a"], QUESTIONS, model="english", hooks=hook)  # L-13: does not hear of it
        assert len(lab.trace.where(scope="load").runs) == 1
        return
    if installed:
        lab.agent.add_hook(hook)
    with pytest.raises(error):
        lab.predict(["a"], QUESTIONS, model="english", hooks=None if installed else hook)
    assert lab.agent.hooks == ([hook] if installed else [])
    lab.agent.remove_hook(hook)
    agent = lab.agent.load("english")
    assert agent.hooks == []
    failed = lab.trace.runs["error_type"].dropna()
    assert len(failed) == (0 if event == "on_predict_end" else 1)  # there the run itself is done
    assert set(lab.trace.calls["entry"]) == {"predict_batch"}


def test_a_run_that_breaks_at_its_start_and_at_its_end_is_noted(lab):
    class Twice(BaseHook):
        def on_predict_start(self, ctx):
            raise LookupError("start")

        def on_predict_end(self, ctx):
            raise LookupError("end")

    with pytest.raises(LookupError, match="start"):
        lab.predict(["a"], QUESTIONS, model="english", hooks=Twice())
    (run,) = lab.trace.where(scope="router").runs.itertuples()
    assert run.error_type == "LookupError"


def test_a_failing_agent_is_left_without_hooks():
    agent = make_agent()
    lab = Lab(agent)
    with pytest.raises(LookupError):
        lab.predict(["a"], QUESTIONS, hooks=Broken("on_predict_start"))
    assert agent.hooks == []
    assert lab.trace.runs["error_type"].tolist() == ["LookupError"]


def test_threads_may_call_one_lab_at_once(lab):
    """Each gets its own frame, and every run is noted once."""
    lab.agent.max_loaded = 2
    barrier, frames = threading.Barrier(6), {}

    def call(k):
        barrier.wait(20)
        for i in range(8):
            states = [f"a {k}", f"b {i}"]
            frames[k, i] = lab.predict(
                pd.Series(states, index=[k, i]), QUESTIONS, model=["english", "multilingual"][k % 2]
            )

    threads = [start_thread(call, k) for k in range(6)]
    for thread in threads:
        thread.join(60)
    assert len(frames) == 48
    for (k, i), frame in frames.items():
        assert frame.index.tolist() == [k, i]
        assert frame["team"].tolist() == ["alpha", "beta"]
    trace = lab.trace
    assert len(trace.calls) == 48
    assert trace.calls["n_requests"].tolist() == [2] * 48
    assert len(trace.where(scope="agent").runs) == 48
    assert trace.runs["run_id"].is_unique
    assert lab.agent.hooks == []
    assert [lab.agent.load(name).hooks for name in lab.agent.loaded] == [[], []]
    assert any(lab.answers is frame for frame in frames.values())


def test_an_evicted_agent_is_freed_while_the_call_goes_on(lab):
    agents, alive = [], []

    def watch(ctx):
        if ctx.model == "english":
            agents.append(weakref.ref(ctx.agent))
        else:
            gc.collect()
            alive.append(agents[0]() is not None)

    lab.predict(["a", "b"], QUESTIONS, model=two_models(2), on_predict_start=watch)
    assert alive == [False]


def test_attributes_say_what_the_last_call_gave():
    lab = Lab(make_agent())
    assert lab.answers is lab.last is lab.routing is None
    answers = lab.predict(["a"], QUESTIONS)
    assert lab.answers is lab.last is answers
    assert lab.routing is None
    assert isinstance(lab.recorder, TraceRecorder)
    assert len(lab.trace.runs) == 1
    lab.clear()
    assert lab.answers is lab.last is lab.routing is None
    assert lab.trace.runs.empty


# --- routing ------------------------------------------------------------------------------------


def test_route_says_where_rows_would_go_and_loads_nothing(lab):
    data = pd.DataFrame(
        {"text": ["Where is my parcel today?", "Wo ist denn mein Paket geblieben?"]},
        index=["x", "y"],
    )
    routing = lab.route(data, state="text")
    assert routing.index.tolist() == ["x", "y"]
    assert routing["model"].tolist() == ["english", "multilingual"]
    assert routing["language"].tolist() == ["en", "de"]
    assert routing["stand_in"].dtype == "boolean"
    assert lab.agent.loaded == []
    assert lab.routing is routing
    assert lab.trace.runs["scope"].tolist() == ["route"] * 2
    assert lab.trace.calls["entry"].tolist() == ["route"]
    assert lab.agent.hooks == []


def test_route_explains_itself(lab):
    plain = lab.route(["Where is my parcel?", ""])
    explained = lab.route(["Where is my parcel?", ""], explain=True)
    assert list(explained.columns) == [*plain.columns, "scripts", "n_letters", "detector"]
    assert explained["n_letters"].tolist()[0] == 15
    assert "latin" in explained["scripts"][0].lower()
    assert explained["detector"].notna()[0]
    hinted = lab.route(["a", "b"], model=pd.Series(["english", None]), lang="de", explain=True)
    assert hinted["model"].tolist() == ["english", "multilingual"]
    assert hinted["scripts"].isna()[0]


def test_hooks_may_change_where_rows_go(lab):
    class Elsewhere(BaseHook):
        def on_route(self, ctx):
            ctx.decision = {"model": "multilingual", "reason": "because"}

    routing = lab.route(["a"], hooks=Elsewhere())
    assert routing["model"].tolist() == ["multilingual"]
    assert routing["language"].isna().all()
    (hook,) = lab.trace.events.dropna(subset="hook").itertuples()
    assert hook.hook.endswith("Elsewhere")
    assert hook.changed == "decision"


def test_route_of_nothing_and_of_no_router(lab):
    assert lab.route([]).empty
    with pytest.raises(InvalidInput, match="this Lab asks an agent, which routes nothing"):
        Lab(make_agent()).route(["a"])
    with pytest.raises(InvalidInput, match="state at index 0 is missing"):
        lab.route([None])


@pytest.mark.parametrize("errors", ["raise", "coerce"])
def test_a_call_that_fails_before_its_first_run_is_in_the_trace(errors, tmp_path):
    lab = Lab(Router({"gone": str(tmp_path / "nowhere")}, default="gone"))
    if errors == "raise":
        with pytest.raises(CheckpointNotFound):
            lab.predict("secret", QUESTIONS, model="gone")
    else:
        assert (
            lab.predict("secret", QUESTIONS, model="gone", errors="coerce")["error"].notna().all()
        )
    (call,) = lab.trace.calls.itertuples()
    assert (call.entry, call.n_requests, call.n_errors) == ("predict_batch", 1, 1)
    (failed,) = lab.trace.where(scope="router").runs.itertuples()
    assert failed.error_type == "CheckpointNotFound"
    assert "nowhere" in failed.error_message
    assert failed.call_id == call.call_id
    assert pd.isna(failed.n_states)
    assert lab.trace.where(scope="router").events.empty
    assert lab.lifecycle().layout.box("error").lines[0].startswith("CheckpointNotFound")
    assert lab.trace.to_chrome(tmp_path / "t.json").is_file()


def test_a_failed_route_is_in_the_trace(lab):
    with pytest.raises(LookupError):
        lab.route(["a"], hooks=Broken("on_route"))
    (call,) = lab.trace.calls.itertuples()
    assert (call.entry, call.n_errors) == ("route_batch", 1)
    assert lab.trace.runs["scope"].tolist() == ["route"]


def test_a_traced_cell_has_the_lab_calls_that_failed_before_a_run(lab):
    cell = Overhearing(TraceRecorder())
    cell.start()
    for where in (lab, Lab(lab.agent)):
        with pytest.raises(LookupError):
            where.predict(["a"], QUESTIONS, model="english", hooks=Broken("on_route"))
    cell.stop()
    assert cell.trace.where(scope="router").runs["error_type"].tolist() == ["LookupError"] * 2
