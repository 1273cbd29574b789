"""Hook order: which hook hears which event when, also where one of them fails.

The requests ask no question, so nothing but the hooks takes time; the cases are in
:mod:`~jevlaya_lab.experiments.hook_cases`, the claims in
:mod:`~jevlaya_lab.experiments.hook_claims`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final

import pandas as pd

from jevlaya_lab.experiments.catalogue import experiment
from jevlaya_lab.experiments.hook_cases import Bench, Case, Observed, all_cases
from jevlaya_lab.experiments.hook_claims import claims
from jevlaya_lab.experiments.options import Option
from jevlaya_lab.experiments.result import ExperimentResult
from jevlaya_lab.experiments.steps import Progress, steps
from jevlaya_lab.experiments.tables import COUNT, FLAG, TEXT, levels, table
from jevlaya_lab.experiments.targets import check_target, described, is_router
from jevlaya_lab.experiments.watching import ORIGINS
from jevlaya_lab.frames import Trace
from jevlaya_lab.views.charts import heat_chart, stack
from jevlaya_lab.views.hook_order import hook_order_layout
from jevlaya_lab.views.layout import Layout

__all__ = ["HookOrderResult", "run"]

_FRAME: Final = {
    "case": TEXT,
    "hooks_concurrent": FLAG,
    "seq": COUNT,
    "event": levels(
        ("on_route", "on_evict", "on_load", "on_predict_start", "on_error", "on_predict_end")
    ),
    "hook": TEXT,
    "origin": levels(ORIGINS),
    "position": COUNT,
    "request": COUNT,
    "model": TEXT,
    "error_type": TEXT,
    "raised": FLAG,
}


@dataclass(frozen=True, kw_only=True, repr=False)
class HookOrderResult(ExperimentResult):
    """What the hooks heard: ``frame`` has a row per event and hook, in the order in which it was.

    ``case`` is ``lists``, ``none added``, ``pairs``, or such as ``on_error fails at 2``: the hook
    at place 2 raises there. ``request`` is the number of the request, ``error_type`` the type of
    ``ctx.error``, and ``raised`` whether this hook raised.

    Attributes:
        trace: Of one more batch in which no hook fails.
    """

    trace: Trace

    def layout(self) -> Layout:
        """The order of events of one batch, and how often each was heard, case by case."""
        shown = self.frame[~self.frame["hooks_concurrent"]]
        counts = shown.groupby(["case", "event"], observed=True, sort=False).size()
        frame = counts.rename("heard").reset_index()
        facts = self.parameters
        heat = heat_chart(
            frame,
            x="event",
            y="case",
            value="heard",
            title="What was heard where a hook fails",
            subtitle=f"{facts['n_requests']} requests, {facts['n_hooks']} hooks, one at a time",
            note="Number of calls of hooks. A hook that fails keeps those behind it from that "
            "event, and no request from its end.",
        )
        return stack(hook_order_layout(self.trace), heat, title="Hook order")


@experiment("Hook order: who hears what when, also when a hook fails")
def run(
    agent: Any = None,
    *,
    installed: Annotated[int, Option("Hooks that are installed.", low=1, high=4)] = 2,
    per_call: Annotated[int, Option("Hooks that go with the call.", low=1, high=4)] = 2,
    defaults: Annotated[bool, Option("Whether a process-wide hook is there as well.")] = True,
    n_requests: Annotated[int, Option("Requests of a batch.", low=2, high=32)] = 3,
    seed: Annotated[int, Option("Nothing is random here.", low=0)] = 0,
    progress: Progress = True,
) -> HookOrderResult:
    """Send one batch per case, and write down every event at every hook.

    Args:
        agent: An Agent or a Router, of this package or ``laya``'s; a fresh one of its make is
            asked. ``None``: a Router over the embedded checkpoints. An agent has no routes, loads,
            nor batches of requests: what is about these cannot be told then.
        installed: Hooks that are installed.
        per_call: Hooks that go with the call.
        defaults: Whether a process-wide hook is there as well; it is deaf to other calls.
        n_requests: Requests of a batch; of an agent states.
        seed: Kept with the result; nothing is random here.
        progress: See :data:`jevlaya_lab.experiments.steps.Progress`; a step is a case.

    Raises:
        InvalidInput: What was given is neither, or has no checkpoint on this machine.
        ExperimentStopped: ``progress`` said so; no hook stays installed.
    """
    check_target(agent)
    routed, numbers = is_router(agent), (int(defaults), installed, per_call)
    observed: list[Observed] = []
    with Bench(agent, *numbers, n_requests) as bench:
        cases = all_cases(*numbers, routed=routed, loads=bench.loads)
        observed.extend(bench.observe(case) for case in steps(cases, progress, _called))
        trace = bench.recorded()
    return HookOrderResult(
        name="hook_order",
        hypothesis="Hooks run list by list and in order, ends nest, and no failure of a hook "
        "keeps a request from its end.",
        claims=tuple(claims(observed, routed=routed)),
        frame=_frame(observed),
        parameters={
            "agent": described(agent),
            "installed": installed,
            "per_call": per_call,
            "defaults": defaults,
            "n_requests": n_requests,
            "n_hooks": sum(numbers),
        },
        seed=seed,
        trace=trace,
    )


def _called(case: Case) -> str:
    return f"{case.name}, hooks_concurrent={case.hooks_concurrent}"


def _frame(observed: list[Observed]) -> pd.DataFrame:
    rows = (
        (
            *(each.case.name, each.case.hooks_concurrent, one.seq, one.event, one.hook),
            *(one.origin, one.position, one.request, one.model, one.error, one.raised),
        )
        for each in observed
        for one in each.seen
    )
    return table(rows, _FRAME)
