"""Experiments of a Lab: on what it asks, and not in its trace."""

from __future__ import annotations

import pytest
from fakes import make_agent

from jevlaya_lab import Lab, Router
from jevlaya_lab.experiments import find
from jevlaya_lab.system_one.errors import InvalidOption


def test_an_experiment_of_a_lab_runs_on_its_agent():
    lab = Lab(make_agent())
    result = lab.experiment("failure", n_requests=3, progress=False)

    same = find("failure").run(lab.agent, n_requests=3, progress=False)
    assert result.frame.equals(same.frame)
    assert result.parameters == same.parameters
    assert result.parameters["agent"] == "jevlaya_lab.Agent('test')"
    assert lab.trace.runs.empty
    assert lab.agent.hooks == []


def test_unknown_names_are_answered_with_what_there_is():
    lab = Lab(Router())
    with pytest.raises(InvalidOption, match="did you mean 'eviction'"):
        lab.experiment("evictions")
    with pytest.raises(InvalidOption, match="there is no parameter 'max_load'"):
        lab.experiment("eviction", max_load=1)
    assert lab.agent.loaded == []
