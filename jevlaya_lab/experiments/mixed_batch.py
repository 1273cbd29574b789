"""A batch of requests that ask alike and not: which of them the agent was asked about together."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from jevlaya_lab.experiments.passes import Watch, totals
from jevlaya_lab.lab.asking import is_router
from jevlaya_lab.system_one.asking import language_for
from jevlaya_lab.system_one.encoding import state_text
from jevlaya_lab.system_one.events import BaseHook
from jevlaya_lab.system_one.router import Router
from jevlaya_lab.tracing import exact_json

__all__ = ["mixed_batch"]

_TURNS = 2


def mixed_batch(
    target: Any,
    texts: Sequence[Any],
    questions: Mapping[Any, Any],
    budgets: Mapping[str, int],
    model: str,
) -> list[dict[str, Any]]:
    """Ask one batch of all kinds, each twice, in turns.

    Args:
        target: A router, or an agent, which then answers inside a ``Router`` made around it.
        texts: States; where there are too few they are used again, with a number before them.
        questions: What most requests ask.
        budgets: ``max_len`` and ``head_max_len`` of the requests that have their own.
        model: The checkpoint that all requests go to.

    Returns:
        For each kind a row: its ``setting``, ``n_states``, what it ``asks`` (a number, equal where
        questions, budgets, checkpoint and language are), the numbers of the agent's ``runs`` that
        answered it, and the passes of these.
    """
    router = target
    if not is_router(target):
        router = Router()
        router.attach(model, target)
        budgets = {name: each for name, each in budgets.items() if _takes(target, name)}
    kinds = _kinds(questions, budgets)
    requests = []
    for number, options in enumerate([*kinds.values()] * _TURNS):
        # Every state is one of its own, so that a run shows which requests it holds.
        text = f"{number}. {state_text(texts[number % len(texts)])}"
        requests.append({"state": text, "questions": questions, "model": model, **options})
    look = _Asks()
    with Watch(router) as watch:
        router.predict_batch(requests, hooks=look)
    asks = {key: number for number, key in enumerate(dict.fromkeys(look.keys.values()))}
    rows = []
    for i, name in enumerate(kinds):
        states = {requests[i + turn * len(kinds)]["state"] for turn in range(_TURNS)}
        runs = [k for k, run in enumerate(watch.runs) if not states.isdisjoint(run.states)]
        row = {
            "part": "mixed",
            "setting": name,
            "n_states": len(states),
            "asks": " ".join(sorted({str(asks[look.keys[state]]) for state in states})),
            "runs": " ".join(map(str, runs)),
        }
        if watch.n_passes is not None:
            row |= totals([each for k in runs for each in watch.runs[k].passes])
        rows.append(row)
    return rows


def _takes(agent: Any, name: str) -> bool:
    parameters = inspect.signature(agent.predict_batch).parameters
    return name in parameters or any(each.kind is each.VAR_KEYWORD for each in parameters.values())


def _kinds(questions: Mapping[Any, Any], budgets: Mapping[str, int]) -> dict[str, dict[str, Any]]:
    """By name, what is other about the requests of a kind."""
    kinds: dict[str, dict[str, Any]] = {
        "as the others": {},
        "a copy of the questions": {
            "questions": {qid: dict(each) for qid, each in questions.items()}
        },
        "questions in another order": {"questions": dict(reversed(list(questions.items())))},
        "options in another order": {"questions": _reordered(questions)},
        **{f"{name}={value}": {name: value} for name, value in budgets.items()},
    }
    return kinds


def _reordered(questions: Mapping[Any, Any]) -> dict[Any, Any]:
    """The same with the options of every choice written the other way round."""
    found = {}
    for qid, each in questions.items():
        listed = each.get("criteria")
        if each.get("type") == "choice" and "option_order" not in each:
            turned: Any = (
                dict(reversed(list(listed.items())))
                if isinstance(listed, Mapping)
                else list(reversed(list(listed or [])))
            )
            found[qid] = {**each, "criteria": turned}
        else:
            found[qid] = dict(each)
    return found


class _Asks(BaseHook):
    """Notes what each request asks, as the hooks before it left it."""

    def __init__(self) -> None:
        self.keys: dict[Any, tuple[Any, ...]] = {}

    def on_predict_start(self, ctx: Any) -> None:
        detection = (ctx.decision or {}).get("detection") or {}
        self.keys[ctx.states[0]] = (
            ctx.model,
            exact_json.dumps(ctx.questions),
            ctx.max_len,
            ctx.head_max_len,
            language_for(ctx.agent, None, detection.get("language")),
        )
