"""The explorer: filters, the list, the chosen run with its picture, facts and answers."""

from __future__ import annotations

import threading

import pytest
from fakes import PATIENCE, make_agent

from jevlaya_lab import Choice, Lab, Router
from jevlaya_lab.system_one.errors import InvalidInput, InvalidOption
from jevlaya_lab.widgets import explorer as module

QUESTIONS = {"team": Choice("Which team?", ["alpha", "beta"])}


class Mark:
    """A hook with a name to look for."""

    def on_predict_start(self, ctx):
        ctx.marked = True


def skip(ctx):
    ctx.skip([{"model": "memory", "answers": {}, "usage": {}} for _ in ctx.states])


def fail(ctx):
    raise ValueError("no such luck <b>")


@pytest.fixture
def lab():
    lab = Lab(make_agent(), capture="text")
    lab.predict(["plain <i>text</i>"], QUESTIONS, hooks=Mark())
    with pytest.raises(ValueError, match="luck"):
        lab.predict(["failing"], QUESTIONS, on_predict_start=fail)
    lab.agent.predict("skipped", QUESTIONS, hooks=[lab.recorder], on_predict_start=skip)
    lab.predict(["last"], QUESTIONS)
    return lab


def shown(explorer):
    assert explorer.wait(PATIENCE)
    return explorer.picture.alt


def test_it_opens_on_the_last_run(lab):
    explorer = lab.explorer()

    assert explorer.run_ids == lab.trace.runs["run_id"].tolist()[::-1]
    assert explorer.run_id == lab.trace.runs["run_id"].iloc[-1]
    assert "computed by the network" in shown(explorer)
    assert "4 of 4 runs" in explorer._said.value


@pytest.mark.parametrize(
    ("filters", "rows"),
    [
        ({"outcome": "failed"}, [1]),
        ({"outcome": "skipped"}, [2]),
        ({"outcome": "computed"}, [3, 0]),
        ({"search": "mark"}, [0]),
        ({"search": "NO SUCH LUCK"}, []),  # messages quote states, and are not kept
        ({"search": "valueerror"}, [1]),
        ({"checkpoint": "te"}, [3, 2, 1, 0]),
        ({"checkpoint": "other"}, []),
        ({"which": "router"}, []),
        ({"which": "agent", "outcome": "failed"}, [1]),
    ],
)
def test_filters_choose_runs(lab, filters, rows):
    explorer = lab.explorer()
    explorer.filter(**filters)

    assert explorer.run_ids == [lab.trace.runs["run_id"].iloc[i] for i in rows]
    if rows:
        assert explorer.run_id == explorer.run_ids[0]
    else:
        assert shown(explorer).startswith("No run is chosen.")


def test_slowest_first_is_sorted_by_time(lab):
    explorer = lab.explorer()
    explorer.filter(order="slowest first")
    by_time = lab.trace.runs.sort_values("elapsed_ms", ascending=False)

    assert explorer.run_ids == by_time["run_id"].tolist()


def test_choosing_a_run_changes_picture_and_facts(lab):
    explorer = lab.explorer()
    before = shown(explorer)
    explorer.run_id = lab.trace.runs["run_id"].iloc[1]
    after = shown(explorer)

    assert "ValueError" in after
    assert "ValueError" not in before
    assert "fail" in explorer._facts.value
    assert "This run has no answers" in explorer._facts.value
    assert "<b>" not in explorer._facts.value.replace("<bdi>", "")


def test_the_run_says_its_hooks_and_answers(lab):
    explorer = lab.explorer()
    explorer.run_id = lab.trace.runs["run_id"].iloc[0]
    shown(explorer)

    for part in ("Mark", "on_predict_start", "team", "alpha"):
        assert part in explorer._facts.value


def test_without_captured_text_it_says_how_to_get_answers():
    lab = Lab(make_agent())
    lab.predict(["x"], QUESTIONS)
    explorer = lab.explorer()
    shown(explorer)

    assert "capture=&#x27;text&#x27;" in explorer._facts.value


def test_previous_and_next_walk_the_list_and_stay_in_it(lab):
    explorer = lab.explorer()
    ids = explorer.run_ids
    for button, expected in (
        (explorer._back, 0),
        (explorer._forth, 1),
        (explorer._forth, 2),
        (explorer._forth, 3),
        (explorer._forth, 3),
        (explorer._back, 2),
    ):
        button.click()
        assert explorer.run_id == ids[expected]


def test_refresh_brings_new_runs_and_keeps_the_chosen_one(lab):
    explorer = lab.explorer()
    explorer.run_id = chosen = explorer.run_ids[2]
    lab.predict(["new"], QUESTIONS)
    assert len(explorer.run_ids) == 4
    explorer._refresh.click()
    shown(explorer)

    assert len(explorer.run_ids) == 5
    assert explorer.run_id == chosen


def test_a_run_that_is_forgotten_meanwhile_can_still_be_looked_at(lab):
    explorer = lab.explorer()
    lab.clear()
    explorer._forth.click()

    assert "Lifecycle" in shown(explorer)
    explorer._refresh.click()
    assert shown(explorer).startswith("No run is chosen.")


def test_nothing_recorded(capsys):
    explorer = Lab(make_agent()).explorer()
    for button in (explorer._back, explorer._forth, explorer._refresh):
        button.click()

    assert shown(explorer).startswith("No run is chosen.")
    assert "0 of 0 runs" in explorer._said.value
    assert capsys.readouterr().err == ""


def test_a_long_list_is_cut_and_says_so(monkeypatch, lab):
    monkeypatch.setattr(module, "LISTED", 2)
    explorer = lab.explorer()

    assert len(explorer.run_ids) == 2
    assert "4 of 4 runs, the first 2 are listed" in explorer._said.value


def test_of_a_router_the_runs_that_were_asked_for_are_listed_first():
    router = Router()
    router.attach("english", make_agent())
    lab = Lab(router)
    lab.predict(["one", "two"], QUESTIONS, model="english")
    explorer = lab.explorer()
    scopes = lab.trace.runs.set_index("run_id")["scope"]

    assert set(scopes[explorer.run_ids]) == {"router"}
    explorer.filter(which="all")
    assert set(scopes[explorer.run_ids]) >= {"router", "agent"}
    for run_id in explorer.run_ids:
        explorer.run_id = run_id
        assert "Lifecycle" in shown(explorer)


def test_an_error_of_drawing_is_shown_as_text(monkeypatch, lab):
    explorer = lab.explorer()

    def broken(*args):
        raise RuntimeError("paint <script> is out")

    monkeypatch.setattr("jevlaya_lab.views.lifecycle.lifecycle_layout", broken)
    explorer._forth.click()
    explorer.wait(PATIENCE)

    assert "RuntimeError" in explorer._said.value
    assert "<script>" not in explorer._said.value


def test_drawing_does_not_hold_the_caller_up(monkeypatch, lab):
    gate = threading.Event()
    explorer = lab.explorer()
    real = module.Picture

    def slow(layout):
        gate.wait(PATIENCE)
        return real(layout)

    monkeypatch.setattr(module, "Picture", slow)
    explorer._forth.click()  # returns at once, or this test hangs until the gate gives up
    assert not explorer.wait(0.01)
    gate.set()
    assert explorer.wait(PATIENCE)


@pytest.mark.parametrize(
    ("filters", "said"),
    [
        ({"outcome": "nope"}, "outcome='nope' is not known; there are any, computed"),
        ({"order": "fast"}, "order='fast' is not known; there are latest first, slowest first"),
        ({"which": "runs"}, "which='runs' is not known; there are asked for, agent"),
    ],
)
def test_a_filter_that_is_not_known_is_refused_with_what_there_is(lab, filters, said):
    explorer = lab.explorer()
    before = explorer.run_ids
    with pytest.raises(InvalidOption, match=said):
        explorer.filter(search="x", **filters)
    assert explorer.run_ids == before


def test_a_run_is_chosen_by_the_beginning_of_its_id(lab):
    explorer = lab.explorer()
    wanted = explorer.run_ids[2]
    explorer.run_id = wanted[:8]
    assert explorer.run_id == wanted
    for wrong in ("zzz", "", 7):
        with pytest.raises(InvalidInput, match="an id that begins with"):
            explorer.run_id = wrong
    assert explorer.run_id == wanted


def test_what_is_forgotten_is_no_longer_shown_after_a_refresh(lab):
    explorer = lab.explorer()
    lab.clear()
    explorer.refresh()

    assert explorer.run_id is None
    assert explorer.picture.alt.startswith("No run is chosen.")
    assert "No run is chosen" in explorer.picture.layout.texts
