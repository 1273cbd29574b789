"""Hooks written for laya 0.4.15 run here unchanged."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tiny import make_checkpoint

from jevlaya_lab import Agent
from jevlaya_lab.system_one.models.instant import InstantNetwork

QUESTIONS: dict[str, Any] = {
    "team": {
        "type": "choice",
        "instructions": "Which team?",
        "criteria": {"billing": "money", "technical": "errors", "sales": None},
    },
    "sure": {"type": "noul", "instructions": "Is it sure?"},
}


@pytest.mark.parametrize("concurrent", [True, False])
def test_layas_own_probe_of_option_order_works(tmp_path: Path, concurrent: bool) -> None:
    """It rewrites the questions at the start and the results at the end, by run_id."""
    from laya.hooks import OptionStabilityHook

    hook = OptionStabilityHook(accept=0.5, escalate=0.1)
    agent = Agent(
        make_checkpoint(tmp_path / "c"), device="cpu", hooks=hook, hooks_concurrent=concurrent
    )
    plain = agent.network

    results = agent.predict_batch(["one text", "another one"], QUESTIONS)

    for result in results:
        assert list(result["answers"]) == ["team", "sure"]
        probe = result["answers"]["team"]["reliability"]
        assert probe["n_variants"] > 3
        assert 0 <= probe["soft_stability"] <= 1
    alone = Agent("plain", network=plain, config=agent.config).predict("one text", QUESTIONS)
    assert results[0]["answers"]["team"]["choice"] == alone["answers"]["team"]["choice"]


def test_subclasses_of_layas_base_hook_and_its_async_wrapper_run() -> None:
    from laya import AsyncHook, BaseHook

    log: list[str] = []

    class Plain(BaseHook):
        def on_predict_start(self, ctx: Any) -> None:
            log.append(f"start {ctx.states} {ctx.model} {ctx.decision}")

        def on_predict_end(self, ctx: Any) -> None:
            log.append(f"end {ctx.usage['input_tokens']} {ctx.elapsed_ms > 0} {ctx.error}")

    class Remote(BaseHook):
        async def on_predict_end(self, ctx: Any) -> None:
            await asyncio.sleep(0)
            log.append("shipped")

    agent = Agent("instant", network=InstantNetwork(), hooks=[Plain(), AsyncHook(Remote())])

    agent.predict("a b", QUESTIONS)

    assert log == ["start ['a b'] instant None", "end 7 True None", "shipped"]


def test_a_context_has_every_field_that_layas_has() -> None:
    from dataclasses import fields

    from laya.hooks import PredictContext as Theirs

    from jevlaya_lab import PredictContext as Ours

    theirs = [field.name for field in fields(Theirs)]
    assert [field.name for field in fields(Ours)][: len(theirs)] == theirs
