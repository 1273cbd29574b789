"""An option-order probe: does an answer stay when the options are shown in another order?"""

from __future__ import annotations

import itertools
import random
import threading
import warnings
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from jevlaya_lab.contrib_hooks.runs import checkpoint_of, is_long
from jevlaya_lab.contrib_hooks.verdicts import answer_of, figure, verdict
from jevlaya_lab.system_one.asking import ask_many
from jevlaya_lab.system_one.encoding import check_count
from jevlaya_lab.system_one.events import BaseHook

__all__ = ["OptionOrderProbe", "OrderReport"]

_PROBING: Final[ContextVar[bool]] = ContextVar("jevlaya_option_order_probe", default=False)


@dataclass(frozen=True)
class OrderReport:
    """How one answer fared under other orders of its options.

    Attributes:
        run_id: The run that was probed.
        model: The checkpoint.
        state: Number of the state in the run.
        question: The question's id.
        type: ``choice``, ``score`` or ``noul``.
        answer: What was answered: the label, the rounded level, or whether it is so.
        n_orders: Other orders that were asked.
        agreement: Share of them that gave the same answer.
        spread: Highest minus lowest figure over all orders, the first included: of the probability
            of the answer given, of the score, or of the probability of yes. 0 where there is none.
        others: Other answers, and how often each came.
    """

    run_id: str
    model: str
    state: int
    question: Any
    type: str
    answer: Any
    n_orders: int
    agreement: float
    spread: float
    others: Mapping[Any, int]

    @property
    def stable(self) -> bool:
        """Whether no other order gave another answer."""
        return self.agreement == 1.0


class OptionOrderProbe(BaseHook):
    """Asks each question again with its options in other orders, and reports what changes.

    It asks when a run has ended well, by ``option_order``, the agent of the run, with the states,
    questions and budgets that the start hooks left; the answer stays as it was. Its own calls are
    not probed, and go past a Router. Other hooks that are installed in the *agent* see them as
    calls of their own. Each order costs as much as the call itself; see ``every``. Runs of
    ``predict_long`` are left alone, and so are runs that a hook answered, where the context says so
    (that of ``laya`` does not).

    A checkpoint whose options do not see each other (the embedded one; a parallel layout) is stable
    by construction. Temperatures by language are not used, so there the spread is that of the
    others. Over ``laya`` with both ``hooks_concurrent=False`` and a ``hooks_timeout`` a hook cannot
    call back; the probe then fails with a warning.

    Args:
        n_orders: Other orders per question, at most; where there are no more, all are asked.
        every: Probe every n-th run.
        seed: Which orders are drawn; the same ones for the same question.
        keep: Reports that are kept, the newest.

    Attributes:
        n_failed: Probes that failed; each gave a ``RuntimeWarning``, and no call failed with it.

    Raises:
        InvalidOption: A number is out of range.
    """

    def __init__(
        self, n_orders: int = 3, *, every: int = 1, seed: int = 0, keep: int = 1000
    ) -> None:
        self.n_orders = check_count("n_orders", n_orders) or 1
        self.every = check_count("every", every) or 1
        self.seed = seed
        self.n_failed = self._n_runs = 0
        self._reports: deque[OrderReport] = deque(maxlen=check_count("keep", keep))
        self._lock = threading.Lock()

    def on_predict_end(self, ctx: Any) -> None:
        """Ask again, and note what changed."""
        if _PROBING.get() or ctx.error is not None or getattr(ctx, "skipped", False):
            return
        if not isinstance(ctx.results, (list, tuple)) or not ctx.results or is_long(ctx):
            return
        with self._lock:
            self._n_runs += 1
            if (self._n_runs - 1) % self.every:
                return
        token = _PROBING.set(True)
        try:
            found = self._probe(ctx)
        except Exception as exc:
            with self._lock:
                self.n_failed += 1
            warnings.warn(
                f"OptionOrderProbe: asking {checkpoint_of(ctx)!r} again failed: {exc}",
                RuntimeWarning,
                stacklevel=2,
            )
            return
        finally:
            _PROBING.reset(token)
        with self._lock:
            self._reports.extend(found)

    @property
    def reports(self) -> list[OrderReport]:
        """The newest reports, oldest first."""
        with self._lock:
            return list(self._reports)

    def summary(self) -> list[dict[str, Any]]:
        """One plain dict per checkpoint and question, over the reports that are kept."""
        groups: dict[Any, list[OrderReport]] = {}
        for report in self.reports:
            groups.setdefault((report.model, report.question, report.type), []).append(report)
        return [
            {
                "model": model,
                "question": question,
                "type": kind,
                "n_answers": len(group),
                "stability": sum(report.stable for report in group) / len(group),
                "agreement": sum(report.agreement for report in group) / len(group),
                "max_spread": max(report.spread for report in group),
            }
            for (model, question, kind), group in groups.items()
        ]

    def clear(self) -> None:
        """Forget the reports."""
        with self._lock:
            self._reports.clear()

    def __repr__(self) -> str:
        return f"OptionOrderProbe(n_orders={self.n_orders}, reports={len(self._reports)})"

    def _probe(self, ctx: Any) -> list[OrderReport]:
        orders = {
            qid: found
            for qid, definition in ctx.questions.items()
            if (found := self._orders(qid, definition))
        }
        budgets = {
            name: getattr(ctx, name)
            for name in ("max_len", "head_max_len")
            if getattr(ctx, name) is not None
        }
        asked: dict[Any, list[list[Any]]] = {qid: [] for qid in orders}
        for turn in range(max(map(len, orders.values()), default=0)):
            questions = {
                qid: {**ctx.questions[qid], "option_order": list(found[turn])}
                for qid, found in orders.items()
                if turn < len(found)
            }
            results = ask_many(ctx.agent, list(ctx.states), questions, budgets)
            for qid in questions:
                asked[qid].append([answer_of(result, qid) for result in results])
        return [
            report
            for qid, turns in asked.items()
            for i, result in enumerate(ctx.results)
            if (report := _report(ctx, i, qid, answer_of(result, qid), [turn[i] for turn in turns]))
        ]

    def _orders(self, qid: Any, definition: Any) -> list[tuple[int, ...]]:
        """Orders in which the question was not asked."""
        n_options = _n_options(definition)
        own = tuple(definition.get("option_order") or range(n_options))
        dice = random.Random(f"{self.seed} {qid} {n_options}")
        if n_options <= 5:
            every = [order for order in itertools.permutations(range(n_options)) if order != own]
            return dice.sample(every, min(self.n_orders, len(every)))
        drawn: dict[tuple[int, ...], None] = {}
        while len(drawn) < min(self.n_orders, 500):
            order = tuple(dice.sample(range(n_options), n_options))
            if order != own:
                drawn[order] = None
        return list(drawn)


def _n_options(definition: Any) -> int:
    if not isinstance(definition, (dict, Mapping)):
        return 0
    if definition.get("type") == "noul":
        return 2
    criteria = definition.get("criteria")
    return len(criteria) if isinstance(criteria, (Sequence, Mapping)) else 0


def _report(
    ctx: Any, i: int, qid: Any, answer: Mapping[str, Any], others: Sequence[Mapping[str, Any]]
) -> OrderReport | None:
    given = verdict(answer)
    if given is None:  # a hook took the answer, or made something else of it
        return None
    verdicts = [verdict(other) for other in others]
    figures = [found for each in (answer, *others) if (found := figure(each, given)) is not None]
    return OrderReport(
        run_id=ctx.run_id,
        model=checkpoint_of(ctx),
        state=i,
        question=qid,
        type=str(answer.get("type")),
        answer=given,
        n_orders=len(others),
        agreement=sum(other == given for other in verdicts) / len(others),
        spread=max(figures) - min(figures) if figures else 0.0,
        others=dict(Counter(other for other in verdicts if other != given)),
    )
