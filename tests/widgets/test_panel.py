"""The panel of an experiment: its controls are the parameters, it runs and can be stopped."""

from __future__ import annotations

import threading

import pandas as pd
import pytest
from fakes import PATIENCE, make_agent
from IPython.core.interactiveshell import InteractiveShell

from jevlaya_lab import Lab, Router
from jevlaya_lab.experiments import NAMES, find
from jevlaya_lab.system_one.errors import InvalidOption
from jevlaya_lab.widgets.panel import Panel


@pytest.fixture
def panel():
    """A quick experiment."""
    panel = Lab(make_agent()).panel("embedding_timeouts")
    panel.controls["n_callers"].value = 5
    panel.controls["encode_ms"].value = 1.0
    return panel


def test_it_runs_with_what_the_controls_say_and_shows_what_came_out(panel):
    panel.controls["share_impatient"].value = 0.0
    assert panel.run()
    assert panel.wait(PATIENCE)

    assert panel.result.parameters["n_callers"] == 5
    assert panel.result.parameters["share_impatient"] == 0.0
    assert "A storm" in panel.picture.alt
    assert "done" in panel._said.value
    assert f"frame of {len(panel.result.frame)} rows" in panel._outcome.value
    assert (panel._run.disabled, panel._stop.disabled) == (False, True)
    assert panel._bar.value == panel._bar.max == 1


def test_the_same_is_shown_as_code_and_as_a_magic(panel):
    call = panel._call.value

    assert "lab.experiment(&quot;embedding_timeouts&quot;, n_callers=5, encode_ms=1.0)" in call
    assert "%jevlaya experiment embedding_timeouts --n-callers 5 --encode-ms 1.0" in call


@pytest.mark.parametrize("name", NAMES)
def test_the_controls_begin_with_the_defaults(name):
    panel = Panel(name, None)
    defaults = {each.name: each.check(each.default) for each in find(name).parameters}

    assert panel.values == defaults
    assert panel._call.value.count("=") == panel._call.value.count("style=")  # nothing is changed


def test_several_values_are_written_with_spaces_or_commas():
    panel = Panel("embedding_hashing", None)
    for words in ("5 50", "5, 50", " 5,50 "):
        panel.controls["n_words"].value = words
        assert panel.values["n_words"] == (5, 50)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("5 x", "numbers with spaces between them"),
        ("", "n_words is empty"),
        ("0", "n_words=0 is not between"),
    ],
)
def test_values_that_do_not_fit_are_said_and_nothing_runs(words, said):
    panel = Panel("embedding_hashing", None)
    panel.controls["n_words"].value = words

    assert said in panel._call.value
    assert not panel.run()
    assert said in panel._said.value
    assert panel.result is None
    with pytest.raises(InvalidOption):
        _ = panel.values


def test_an_unknown_experiment_is_refused():
    with pytest.raises(InvalidOption, match="did you mean 'eviction'"):
        Lab(make_agent()).panel("evictions")


@pytest.fixture
def held(monkeypatch, panel):
    """The panel with an experiment of three steps, of which the second waits."""
    gate, began = threading.Event(), threading.Event()

    def run(agent, progress, **values):
        progress(0, 3, "first")
        began.set()
        gate.wait(PATIENCE)
        progress(1, 3, "second")
        progress(2, 3, "third")
        raise AssertionError("was not stopped")

    monkeypatch.setattr(panel, "experiment", _with(panel.experiment, run))
    return panel, gate, began


def _with(experiment, run):
    return type(experiment)(experiment.name, experiment.title, run, experiment.parameters)


def test_it_is_stopped_at_its_next_step(held):
    panel, gate, began = held
    assert panel.run()
    assert began.wait(PATIENCE)
    assert "step 1 of 3: first" in panel._said.value
    assert not panel.run()
    panel._stop.click()
    assert "stopping after this step" in panel._said.value
    gate.set()
    assert panel.wait(PATIENCE)
    assert "was stopped after 1 of 3 steps" in panel._said.value
    assert (panel._run.disabled, panel._stop.disabled) == (False, True)
    assert panel.result is None


def test_an_error_is_shown_as_text(monkeypatch, panel):
    def run(agent, progress, **values):
        raise RuntimeError("out of <b>luck</b>")

    monkeypatch.setattr(panel, "experiment", _with(panel.experiment, run))
    panel.run()
    panel.wait(PATIENCE)

    assert "RuntimeError" in panel._said.value
    assert "<b>luck" not in panel._said.value


@pytest.mark.checkpoint
def test_panel_magic_and_method_give_the_same_frame():
    lab = Lab(Router(max_loaded=1))
    shell = InteractiveShell()
    shell.push({"lab": lab})
    shell.run_cell("%load_ext jevlaya_lab").raise_error()
    line = "%jevlaya experiment eviction --max-loaded 1 2 3 --n-requests 6 --seed 4 --lab lab -o m"
    shell.run_cell(line).raise_error()
    panel = lab.panel("eviction")
    panel.controls["max_loaded"].value = "1 2 3"
    panel.controls["n_requests"].value = 6
    panel.controls["seed"].value = 4
    panel.run()
    panel.wait(10 * PATIENCE)
    method = lab.experiment("eviction", max_loaded=(1, 2, 3), n_requests=6, seed=4, progress=False)

    counts = [name for name in method.frame if not name.endswith("_ms")]
    assert len(counts) > 6
    for other in (shell.user_ns["m"], panel.result):
        pd.testing.assert_frame_equal(other.frame[counts], method.frame[counts])
        assert other.parameters == method.parameters
