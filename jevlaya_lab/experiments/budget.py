"""What token budgets cost in answers: states that are cut, and options that become the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, NamedTuple

import pandas as pd

from jevlaya_lab.contrib_hooks.verdicts import answer_of, shift, verdict
from jevlaya_lab.experiments.budget_claims import claims_about
from jevlaya_lab.experiments.catalogue import experiment
from jevlaya_lab.experiments.options import Option
from jevlaya_lab.experiments.result import ExperimentResult
from jevlaya_lab.experiments.steps import Progress, steps
from jevlaya_lab.experiments.tables import COUNT, NUMBER, TEXT, table
from jevlaya_lab.experiments.texts import (
    describe_questions,
    describe_states,
    given_or_tickets,
    questions_about_tickets,
)
from jevlaya_lab.experiments.whom import ask, asked_of, describe
from jevlaya_lab.lab.asking import is_router
from jevlaya_lab.system_one.errors import InvalidResult, JevlayaError
from jevlaya_lab.system_one.events import BaseHook
from jevlaya_lab.system_one.questions import Choice
from jevlaya_lab.views.charts import line_chart, stack
from jevlaya_lab.views.layout import Layout

__all__ = ["BudgetResult", "run"]

_KINDS: Final = ("full", "max_len", "head_max_len", "by hook")
_DTYPES: Final[dict[str, Any]] = {
    "budget": pd.CategoricalDtype(list(_KINDS)),
    "tokens_allowed": COUNT,
    "question": TEXT,
    "type": pd.CategoricalDtype(["choice", "score", "noul"]),
    "n_states": COUNT,
    "n_truncated": COUNT,
    "n_seen_cut": COUNT,
    "options": COUNT,
    "options_distinct": COUNT,
    "most_probabilities": COUNT,
    "agreement": NUMBER,
    "agreement_whole": NUMBER,
    "mean_shift": NUMBER,
    "max_shift": NUMBER,
    "max_shift_whole": NUMBER,
    "state_tokens": COUNT,
    "tokens_kept": COUNT,
    "most_kept": COUNT,
    "input_tokens": COUNT,
    "ctx_tokens": COUNT,
    "error": TEXT,
}


@dataclass(frozen=True, kw_only=True)
class BudgetResult(ExperimentResult):
    """Answers under smaller budgets against those of the checkpoint's own.

    ``frame`` has one row per budget (``max_len``, ``head_max_len``, or ``by hook``: the smallest
    ``max_len`` that was taken, set by a start hook) with its ``tokens_allowed``, and question:
    states that were cut (``n_truncated``; ``n_seen_cut`` for this question), ``options`` and how
    many of their texts were still distinct (``options_distinct``), the most different probabilities
    that any answer had (``most_probabilities``), the share of answers that are those of the full
    budget (``agreement``, and ``agreement_whole`` over states that were not cut), how far the
    probability of that answer moved, or the score (``mean_shift``, ``max_shift``,
    ``max_shift_whole``), tokens of all states (``state_tokens``), those that were read
    (``tokens_kept``, ``most_kept`` of one state) and ``input_tokens`` as charged, the budget that
    the contexts named (``ctx_tokens``), and the ``error`` where it was refused.
    """

    def layout(self) -> Layout:
        """Agreement by either budget, a line per question."""
        fine = self.frame[self.frame["error"].isna()]
        charts = []
        for kind, title in (("max_len", "States cut"), ("head_max_len", "Questions cut")):
            part = fine[fine["budget"].isin([kind, "full"])].sort_values("tokens_allowed")
            sizes = ["full" if pd.isna(size) else str(size) for size in part["tokens_allowed"]]
            charts.append(
                line_chart(
                    part.assign(percent=part["agreement"] * 100, size=sizes),
                    x="size",
                    y="percent",
                    by="question",
                    title=title,
                    x_label=f"{kind}, tokens",
                    y_label="same answer as in full, %",
                )
            )
        return stack(*charts, title=f"Smaller budgets on {self.parameters['agent']}")


@experiment("Token budgets against answers")
def run(
    agent: Any = None,
    *,
    n: Annotated[int, Option("Tickets asked about.", low=1, high=64)] = 24,
    max_lens: Annotated[
        Sequence[int], Option("Budgets of a state, in tokens.", low=8, high=65536)
    ] = (16, 32, 64, 128),
    head_max_lens: Annotated[
        Sequence[int], Option("Budgets of a question, in tokens.", low=8, high=65536)
    ] = (8, 12, 16, 32),
    states: Any = None,
    questions: Any = None,
    seed: Annotated[int, Option("Of the tickets.")] = 0,
    progress: Progress = True,
) -> BudgetResult:
    """Ask about the same states under budgets of several sizes, and compare with the full one.

    Budgets are arguments of the call, of a router's request. A budget that the network refuses is a
    row with its error.

    Args:
        agent: An agent or a router; ``None`` makes a ``Router()``.
        n: See the options, as for those below.
        max_lens: See the options.
        head_max_lens: See the options.
        states: States of your own instead of tickets; all of them are asked about.
        questions: Questions of your own.
        seed: See the options.
        progress: Whether to show a bar, or a function that is told.

    Returns:
        The result.
    """
    target = asked_of(agent, "budget")
    asked = {**questions_about_tickets(), **_ALIKE} if questions is None else questions
    texts = given_or_tickets(states, n, seed)
    sizes = sorted(set(max_lens)), sorted(set(head_max_lens))
    plan = [_Budget("full", None)]
    plan += [_Budget("max_len", size) for size in sizes[0]]
    plan += [_Budget("head_max_len", size) for size in sizes[1]]
    plan += [_Budget("by hook", sizes[0][0])]
    rows: list[dict[str, Any]] = []
    full: list[Any] = []
    taken: list[int] = []
    for planned in steps(plan, progress, str):
        budget = planned
        if planned.kind == "by hook" and taken:
            budget = _Budget("by hook", taken[0])  # the smallest one that was not refused
        found = _answers(target, texts, asked, budget)
        if budget.kind == "max_len" and found.error is None:
            taken.append(budget.size or 0)
        full = full or found.results
        rows += _rows(budget, found, full, asked)
    frame = table(rows, _DTYPES)
    return BudgetResult(
        name="budget",
        hypothesis="A budget changes the answers about what it cuts, and no others.",
        claims=claims_about(frame, is_router(target)),
        frame=frame,
        parameters={
            "agent": describe(agent),
            "n": n,
            "max_lens": list(max_lens),
            "head_max_lens": list(head_max_lens),
            "states": describe_states(states),
            "questions": describe_questions(questions),
        },
        seed=seed,
    )


_COUNTED: Final = {
    *("input_tokens", "state_tokens", "state_tokens_dropped", "truncated", "truncated_questions")
}
_ALIKE: Final[dict[str, Any]] = {
    "handover": Choice(
        "Whom should the ticket be handed over to?",
        [
            "hand it over to the colleagues who look after everything to do with " + topic
            for topic in ("invoices", "parcels", "passwords", "defects")
        ],
    )
}
"""A question whose options begin alike: the first that a small budget makes the same."""


class _Budget(NamedTuple):
    kind: str
    size: int | None

    def __str__(self) -> str:
        return self.kind if self.size is None else f"{self.kind} {self.size}"


class _Answers(NamedTuple):
    results: list[Any]
    ctx_tokens: set[int | None]
    error: Exception | None = None


class _Sees(BaseHook):
    """Sets a budget where it has one, and notes what the context says of budgets."""

    def __init__(self, budget: _Budget) -> None:
        self._budget = budget
        self.tokens: set[int | None] = set()

    def on_predict_start(self, ctx: Any) -> None:
        if self._budget.kind == "by hook":
            ctx.max_len = self._budget.size
        name = "head_max_len" if self._budget.kind == "head_max_len" else "max_len"
        self.tokens.add(getattr(ctx, name))


def _answers(target: Any, texts: list[Any], questions: Any, budget: _Budget) -> _Answers:
    look = _Sees(budget)
    told = {budget.kind: budget.size} if budget.kind in ("max_len", "head_max_len") else {}
    try:
        results = ask(target, texts, questions, of_request=told, hooks=look)
    except (JevlayaError, ValueError) as exc:  # what laya refuses is a ValueError
        if budget.size is None:
            raise
        return _Answers([], look.tokens, exc)
    return _Answers(results, look.tokens)


def _rows(
    budget: _Budget, found: _Answers, full: list[Any], questions: Mapping[Any, Any]
) -> list[dict[str, Any]]:
    """One row per question."""
    usages = [_usage(result) for result in found.results]
    kept = [each["state_tokens"] - each["state_tokens_dropped"] for each in usages]
    of_call = {
        "budget": budget.kind,
        "tokens_allowed": budget.size,
        "n_states": len(usages),
        "n_truncated": sum(each["truncated"] for each in usages),
        "state_tokens": sum(each["state_tokens"] for each in usages),
        "tokens_kept": sum(kept),
        "most_kept": max(kept, default=None),
        "input_tokens": sum(each["input_tokens"] for each in usages),
        "ctx_tokens": next(iter(found.ctx_tokens)) if len(found.ctx_tokens) == 1 else None,
        "error": None if found.error is None else f"{type(found.error).__name__}: {found.error}",
    }
    rows = []
    for qid, definition in questions.items():
        pairs = [
            (answer_of(a, qid), answer_of(b, qid))
            for a, b in zip(full, found.results, strict=False)
        ]
        cut = [qid in usage["truncated_questions"] for usage in usages]
        same = [verdict(a) == verdict(b) for a, b in pairs]
        shifts = [shift(a, b) or 0.0 for a, b in pairs]
        whole = [i for i, each in enumerate(cut) if not each]
        collapsed = [each.get("options", {}).get(qid) for each in usages]
        worst = min((each for each in collapsed if each), key=_distinct, default=None)
        n_options = max((len(b.get("probabilities") or ()) for _, b in pairs), default=0)
        rows.append(
            {
                **of_call,
                "question": str(qid),
                "type": definition.get("type"),
                "n_seen_cut": sum(cut),
                "options": (worst["total"] if worst else n_options) or None,
                "options_distinct": (worst["distinct"] if worst else n_options) or None,
                "most_probabilities": max(
                    (len(set((b.get("probabilities") or {}).values())) for _, b in pairs),
                    default=None,
                ),
                "agreement": _mean(same),
                "agreement_whole": _mean([same[i] for i in whole]),
                "mean_shift": _mean(shifts),
                "max_shift": max(shifts, default=None),
                "max_shift_whole": max((shifts[i] for i in whole), default=None),
            }
        )
    return rows


def _usage(result: Mapping[str, Any]) -> Mapping[str, Any]:
    usage = result.get("usage")
    if not isinstance(usage, Mapping) or not set(usage) >= _COUNTED:
        wanted = ", ".join(sorted(_COUNTED))
        raise InvalidResult(
            f"budget reads from the usage of each result what was cut ({wanted}), which is missing "
            f"in {usage!r}; ask an agent that says so"
        )
    return usage


def _distinct(collapsed: Mapping[str, int]) -> int:
    return collapsed["distinct"]


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
