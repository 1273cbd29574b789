"""Agents and routers for tests of experiments: they answer and load at once."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from fakes import make_agent

from jevlaya_lab import Router
from jevlaya_lab.experiments import Claim, ExperimentResult, ExperimentStopped
from jevlaya_lab.system_one.hooks import default_hooks
from jevlaya_lab.system_one.residency import Residency


class Idle:
    """A hook of the user's."""

    def on_predict_start(self, ctx: Any) -> None:
        pass


def build_at_once(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let routers build agents without weights; gives the list of the names that are built."""
    built: list[str] = []

    def build(self: Any, name: str, source: Any) -> Any:
        if source.repo != "embedded":
            raise FileNotFoundError(source.repo)
        built.append(name)
        return make_agent()

    monkeypatch.setattr(Residency, "_build", build)
    return built


def a_router() -> Router:
    """A router of the user's: a hook is installed, and one checkpoint resident."""
    router = Router(hooks=[Idle()], max_loaded=2)
    router.attach("english", make_agent(hooks=[Idle()]))
    return router


def facts(router: Any) -> Any:
    """What must not change in what the user gave."""
    agents = [router.load(name) for name in router.loaded]
    return (
        *(router.hooks, router.loaded, agents, router.max_loaded, router.models, router.default),
        *(router.hooks_concurrent, [(a.hooks, a.network, a.hooks_concurrent) for a in agents]),
        default_hooks(),
    )


def claim(result: ExperimentResult, rule: str, text: str = "") -> Claim:
    """The one claim about a rule whose text holds these words."""
    (found,) = [each for each in result.claims if each.rule == rule and text in each.text]
    return found


def stop_at(step: int) -> Any:
    """A progress function that stops an experiment before a step."""

    def progress(done: int, total: int, name: str) -> None:
        assert done < total
        if done == step:
            raise ExperimentStopped(f"stopped before {name}")

    return progress


def threads_of_experiments() -> list[threading.Thread]:
    """The threads that an experiment started and that still run."""
    return [each for each in threading.enumerate() if each.name.startswith("experiment")]
