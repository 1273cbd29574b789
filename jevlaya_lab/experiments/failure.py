"""Failure: a fault at each stage of a batch, what every hook saw, and what works afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final

import pandas as pd

from jevlaya_lab.experiments.catalogue import experiment
from jevlaya_lab.experiments.failure_cases import STAGES, Accident, Scene
from jevlaya_lab.experiments.failure_claims import claims
from jevlaya_lab.experiments.options import Option
from jevlaya_lab.experiments.result import ExperimentResult
from jevlaya_lab.experiments.steps import Progress, steps
from jevlaya_lab.experiments.tables import COUNT, FLAG, TEXT, levels, table
from jevlaya_lab.experiments.targets import check_target, described, is_router
from jevlaya_lab.views.charts import bar_chart
from jevlaya_lab.views.layout import Layout

__all__ = ["FailureResult", "run"]

_FRAME: Final = {
    "stage": levels(STAGES),
    "call": levels(("failing", "afterwards")),
    "seq": COUNT,
    "event": levels(
        ("on_route", "on_evict", "on_load", "on_predict_start", "on_error", "on_predict_end")
    ),
    "hook": TEXT,
    "model": TEXT,
    "request": COUNT,
    "error_type": TEXT,
    "is_fault": FLAG,
    "raised": FLAG,
}
_OUTCOMES: Final = {
    "stage": levels(STAGES),
    "model": TEXT,
    "request": COUNT,
    "starts": COUNT,
    "errors": COUNT,
    "ends": COUNT,
    "answered_afterwards": FLAG,
}


@dataclass(frozen=True, kw_only=True, repr=False)
class FailureResult(ExperimentResult):
    """``frame`` has a row per event and hook, in the order in which it was.

    ``error_type`` is the type of ``ctx.error``; ``is_fault`` says whether it is the very exception
    that the call raised.

    Attributes:
        outcomes: A row per stage and request: how often the first hook heard its start, its
            error and its end in the call that failed, and whether the same call was answered afterwards.
    """

    outcomes: pd.DataFrame

    def layout(self) -> Layout:
        """How many requests started, heard the failure and ended, by stage."""
        names = {"starts": "started", "errors": "heard the failure", "ends": "ended"}
        shown = self.outcomes.melt(
            id_vars=["stage"], value_vars=list(names), var_name="event", value_name="requests"
        )
        shown["event"] = shown["event"].map(names)
        frame = shown.groupby(["stage", "event"], observed=True, sort=False)["requests"].sum()
        facts = self.parameters
        return bar_chart(
            frame.reset_index(),
            x="stage",
            y="requests",
            by="event",
            title="Failure: what a fault at each stage does to a batch",
            subtitle=f"{facts['n_requests']} requests, {facts['groups']} checkpoints, the fault in "
            f"the second one; on {facts['agent']}"
            if facts["groups"]
            else f"one run of {facts['n_requests']} states on {facts['agent']}",
            x_label="where the fault is",
            y_label="requests" if facts["groups"] else "runs",
        )


@experiment("Failure: a fault at each stage, and what every hook saw of it")
def run(
    agent: Any = None,
    *,
    n_requests: Annotated[
        int, Option("Requests of a batch; a third goes to each checkpoint.", low=3, high=60)
    ] = 6,
    seed: Annotated[int, Option("Nothing is random here.", low=0)] = 0,
    progress: Progress = True,
) -> FailureResult:
    """Send a batch per stage whose middle part fails there, then the same batch whole.

    Args:
        agent: An Agent or a Router, of this package or ``laya``'s. Twins of its agent fail, under
            three names in a fresh router; the given one is whole all the time. ``None``: a Router
            over the embedded checkpoint. An agent has one run per batch and loads nothing.
        n_requests: Requests of a batch; of an agent states.
        seed: Kept with the result; nothing is random here.
        progress: See :data:`jevlaya_lab.experiments.steps.Progress`; a step is a stage.

    Raises:
        InvalidInput: What was given is neither, or has no checkpoint on this machine.
        ExperimentStopped: ``progress`` said so; nothing stays loaded.
    """
    check_target(agent)
    routed = is_router(agent)
    accidents: list[Accident] = []
    with Scene(agent, n_requests) as scene:
        accidents.extend(scene.accident(stage) for stage in steps(STAGES, progress))
    return FailureResult(
        name="failure",
        hypothesis="A failure reaches every started request and its hooks, touches no other, and "
        "leaves nothing behind.",
        claims=tuple(claims(accidents, routed=routed)),
        frame=_frame(accidents),
        parameters={
            "agent": described(agent),
            "n_requests": n_requests,
            "groups": 3 if routed else 0,
        },
        seed=seed,
        outcomes=_outcomes(accidents),
    )


def _frame(accidents: list[Accident]) -> pd.DataFrame:
    rows = (
        (
            *(each.stage, call, one.seq, one.event, one.hook, one.model, one.request),
            *(one.error, one.is_fault, one.raised),
        )
        for each in accidents
        for call, seen in (("failing", each.seen), ("afterwards", each.seen_after))
        for one in seen
    )
    return table(rows, _FRAME)


def _outcomes(accidents: list[Accident]) -> pd.DataFrame:
    rows = (
        (
            *(each.stage, asked.model, asked.number),
            *(
                sum(one.event == event for one in each.heard_of(asked))
                for event in ("on_predict_start", "on_error", "on_predict_end")
            ),
            asked.number in each.answered_after,
        )
        for each in accidents
        if each.made
        for asked in each.asked
    )
    return table(rows, _OUTCOMES)
