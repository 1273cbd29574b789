"""Whether answers follow what the options mean, or where they stand and what they are called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import pandas as pd

from jevlaya_lab.contrib_hooks.option_order import OptionOrderProbe
from jevlaya_lab.contrib_hooks.verdicts import answer_of, figure, shift, verdict
from jevlaya_lab.experiments.catalogue import experiment
from jevlaya_lab.experiments.options import Option
from jevlaya_lab.experiments.renaming import RENAMINGS, renamed
from jevlaya_lab.experiments.result import Claim, ExperimentResult
from jevlaya_lab.experiments.steps import Progress, steps
from jevlaya_lab.experiments.tables import COUNT, FLAG, NUMBER, TEXT, table
from jevlaya_lab.experiments.texts import (
    describe_questions,
    describe_states,
    given_or_tickets,
    questions_about_tickets,
)
from jevlaya_lab.experiments.whom import ask, asked_of, describe
from jevlaya_lab.system_one.events import BaseHook
from jevlaya_lab.views.charts import bar_chart, stack
from jevlaya_lab.views.layout import Layout

__all__ = ["OptionOrderResult", "run"]

ORDER: Final = "order"
_PER_STEP: Final = 6
_LAST_DIGITS: Final = 1e-3
_DTYPES: Final[dict[str, Any]] = {
    "state": COUNT,
    "model": TEXT,
    "question": TEXT,
    "type": pd.CategoricalDtype(["choice", "score", "noul"]),
    "change": pd.CategoricalDtype([ORDER, *RENAMINGS]),
    "n_asked": COUNT,
    "answer": TEXT,
    "others": TEXT,
    "agreement": NUMBER,
    "stable": FLAG,
    "shift": NUMBER,
}


@dataclass(frozen=True, kw_only=True)
class OptionOrderResult(ExperimentResult):
    """How each answer fared when its options stood elsewhere or had other names.

    ``frame`` has one row per state, question and ``change`` (``order``, or a renaming): how many
    variants were asked, the ``answer`` as first given, ``others`` that came up, the share of
    variants that gave the same one (``agreement``, ``stable`` where all did), and the ``shift``:
    how far the probability of that answer moved at most, or the score on its own scale.
    """

    def by_question(self) -> pd.DataFrame:
        """One row per question and change: mean ``agreement``, ``stable`` share, ``max_shift``."""
        groups = self.frame.groupby(["question", "change"], observed=True, sort=False)
        found: pd.DataFrame = groups.agg(
            n=("state", "size"),
            agreement=("agreement", "mean"),
            stable=("stable", "mean"),
            max_shift=("shift", "max"),
        ).reset_index()
        return found

    def layout(self) -> Layout:
        """Agreement and largest shift by question."""
        rows = self.by_question()
        common: dict[str, Any] = {"x": "question", "by": "change", "x_label": ""}
        return stack(
            bar_chart(
                rows.assign(percent=(rows["agreement"] * 100).round()),
                y="percent",
                title="Same answer under other orders and names",
                y_label="agreement, %",
                **common,
            ),
            bar_chart(
                rows,
                y="max_shift",
                title="Largest shift",
                y_label="probability, or levels of a score",
                **common,
            ),
            title=f"Options on {self.parameters['agent']}",
        )


@experiment("Other orders and other names of the options")
def run(
    agent: Any = None,
    *,
    n: Annotated[int, Option("Tickets asked about.", low=1, high=64)] = 12,
    n_orders: Annotated[int, Option("Other orders per question, at most.", low=1, high=50)] = 3,
    renamings: Annotated[
        Sequence[str], Option("Other names for the options.", choices=RENAMINGS)
    ] = RENAMINGS,
    least: Annotated[
        float, Option("Share of answers that must stay for a claim to hold.", low=0, high=1)
    ] = 0.95,
    tolerance: Annotated[
        float, Option("How far an order may move a probability.", low=0, high=1)
    ] = 0.01,
    states: Any = None,
    questions: Any = None,
    seed: Annotated[int, Option("Of the tickets and the orders.")] = 0,
    progress: Progress = True,
) -> OptionOrderResult:
    """Ask every question again with its options in other orders and under other names.

    Orders are asked by :class:`~jevlaya_lab.OptionOrderProbe` as a hook of each call; renamed
    questions are calls of their own.

    Args:
        agent: An agent or a router; ``None`` makes a ``Router()``.
        n: See the options, as for those below.
        n_orders: See the options.
        renamings: See the options.
        least: See the options.
        tolerance: See the options.
        states: States of your own instead of tickets; all of them are asked about.
        questions: Questions of your own.
        seed: See the options.
        progress: Whether to show a bar, or a function that is told.

    Returns:
        The result.
    """
    target = asked_of(agent, "option_order")
    asked = questions_about_tickets() if questions is None else questions
    texts = given_or_tickets(states, n, seed)
    variants = {name: renamed(asked, name) for name in dict.fromkeys(renamings)}
    rows: list[dict[str, Any]] = []
    n_failed = n_moved = 0
    for start in steps(range(0, len(texts), _PER_STEP), progress, lambda i: f"states from {i}"):
        part = texts[start : start + _PER_STEP]
        probe, look = OptionOrderProbe(n_orders, seed=seed), _States()
        plain = ask(target, part, asked)
        probed = ask(target, part, asked, hooks=[look, probe])
        n_failed += probe.n_failed
        n_moved += sum(map(_moved, plain, probed))
        places = look.places(part)
        for report in probe.reports:
            at = places[report.run_id][report.state]
            rows.append(
                {
                    "state": start + at,
                    "model": report.model,
                    "question": str(report.question),
                    "type": report.type,
                    "change": ORDER,
                    "n_asked": report.n_orders,
                    "answer": str(report.answer),
                    "others": ", ".join(map(str, report.others)),
                    "agreement": report.agreement,
                    "stable": report.stable,
                    "shift": report.spread,
                }
            )
        for name, (other, names) in variants.items():
            if other:
                found = ask(target, part, other)
                rows += _renamed_rows(name, start, plain, found, names)
    frame = table(rows, _DTYPES).sort_values(["state", "question", "change"], ignore_index=True)
    return OptionOrderResult(
        name="option_order",
        hypothesis="Answers follow what the options mean, not their order or their names.",
        claims=_claims(frame, [*variants], least, tolerance, n_failed, n_moved, len(texts)),
        frame=frame,
        parameters={
            "agent": describe(agent),
            "n": n,
            "n_orders": n_orders,
            "renamings": list(renamings),
            "least": least,
            "tolerance": tolerance,
            "states": describe_states(states),
            "questions": describe_questions(questions),
        },
        seed=seed,
    )


def _moved(plain: Mapping[str, Any], probed: Mapping[str, Any]) -> bool:
    """Whether two results differ by more than the last digits of a computation."""
    ids = list(plain["answers"])
    if ids != list(probed["answers"]):
        return True
    for qid in ids:
        one, two = answer_of(plain, qid), answer_of(probed, qid)
        given = verdict(one)
        was, now = figure(one, given), figure(two, given)
        if given != verdict(two) or (was is None) != (now is None):
            return True
        if was is not None and now is not None and abs(was - now) > _LAST_DIGITS:
            return True
    return False


class _States(BaseHook):
    """Notes which states each run was about, since the requests of a router end in reverse."""

    def __init__(self) -> None:
        self._runs: dict[str, list[Any]] = {}

    def on_predict_start(self, ctx: Any) -> None:
        self._runs[ctx.run_id] = list(ctx.states)

    def places(self, states: Sequence[Any]) -> dict[str, list[int]]:
        """By run, where its states stand; of equal ones each place once, in order."""
        left = list(enumerate(states))
        found: dict[str, list[int]] = {}
        for run_id, own in self._runs.items():
            for state in own:
                at = next((i for i, (_, each) in enumerate(left) if each == state), 0)
                found.setdefault(run_id, []).append(left.pop(at)[0])
        return found


def _renamed_rows(
    name: str,
    start: int,
    plain: list[Any],
    found: list[Any],
    names: Mapping[Any, Mapping[Any, Any]],
) -> list[dict[str, Any]]:
    """What became of each answer under one renaming; ``names`` leads back to the own names."""
    rows = []
    for i, (before, after) in enumerate(zip(plain, found, strict=True)):
        for qid, back in names.items():
            one, two = answer_of(before, qid), answer_of(after, qid)
            if one.get("type") == "choice":
                two = {
                    **two,
                    "choice": back.get(two.get("choice")),
                    "probabilities": {
                        back.get(label): p for label, p in (two.get("probabilities") or {}).items()
                    },
                }
            given, other = verdict(one), verdict(two)
            if given is None:
                continue
            rows.append(
                {
                    "state": start + i,
                    "model": (before.get("routing") or {}).get("model") or before.get("model"),
                    "question": str(qid),
                    "type": one.get("type"),
                    "change": name,
                    "n_asked": 1,
                    "answer": str(given),
                    "others": "" if other == given else str(other),
                    "agreement": float(other == given),
                    "stable": other == given,
                    "shift": shift(one, two),
                }
            )
    return rows


def _claims(
    frame: pd.DataFrame,
    renamings: Sequence[str],
    least: float,
    tolerance: float,
    n_failed: int,
    n_moved: int,
    n: int,
) -> tuple[Claim, ...]:
    claims = [
        Claim(
            "Asking again leaves the answers of the call as they were.",
            n_moved == 0,
            f"{n_moved} of {n} results differ with the probe among the hooks.",
        )
    ]
    failed = f" {n_failed} probes failed." if n_failed else ""
    for change in [ORDER, *renamings]:
        rows = frame[frame["change"] == change]
        what = "in any order of its options" if change == ORDER else f"with {change} for names"
        text = f"At least {least:.0%} of answers are the same {what}."
        if rows.empty or (n_failed and change == ORDER):
            claims.append(Claim(text, None, f"Nothing could be asked so.{failed}"))
            continue
        worst = rows.groupby("question")["stable"].mean().sort_values()
        seen = ", ".join(f"{qid} {share:.0%}" for qid, share in worst.items())
        claims.append(Claim(text, bool(rows["stable"].mean() >= least), f"Stable: {seen}."))
    order = frame[frame["change"] == ORDER]
    text = f"No order moves a probability or a score by more than {tolerance:g}."
    largest = order["shift"].max()
    held = None if order.empty or n_failed else bool(largest <= tolerance)
    seen = f"Largest shift {largest:.2g} over {int(order['n_asked'].sum())} orders.{failed}"
    claims.append(Claim(text, held, seen if not order.empty else f"No order was asked.{failed}"))
    return tuple(claims)
