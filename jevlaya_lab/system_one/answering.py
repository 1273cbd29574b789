"""The work of a Router between start hooks and end hooks: asking the agent, adding the routing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from jevlaya_lab.system_one.asking import ask_many, language_for
from jevlaya_lab.system_one.context import PredictContext
from jevlaya_lab.system_one.encoding import check_count
from jevlaya_lab.system_one.errors import InvalidResult, InvalidState
from jevlaya_lab.system_one.grouping import group
from jevlaya_lab.system_one.request import Request

__all__ = ["Asked", "answer_alone", "answer_together", "only_result"]


class Asked(NamedTuple):
    """A request and the decision that it got."""

    request: Request
    decision: Mapping[str, Any]


def answer_alone(
    ctx: PredictContext,
    asked: Asked,
    agent: Any,
    ask: Callable[[Any, Any, Any, Mapping[str, Any]], dict[str, Any]],
    options: Mapping[str, Any],
) -> None:
    """Set ``ctx.results`` of one request: what the agent says, or what a hook supplied (L-15)."""
    if ctx.results is not None:
        _keep_routing(ctx, asked.decision)
        return
    arguments = {**options, **_budgets(ctx)}
    lang = _language(agent, asked)
    if lang is not None:
        arguments["lang"] = lang
    result = ask(agent, _only_state(ctx), ctx.questions, arguments)
    result["routing"] = dict(asked.decision)
    ctx.results = [result]


def answer_together(
    runs: Sequence[PredictContext],
    asked: Sequence[Asked],
    agent: Any,
    options: Mapping[str, Any],
) -> None:
    """The same for the requests of one checkpoint, which share passes where they can (L-23)."""
    left, decisions = [], {}
    for ctx, each in zip(runs, asked, strict=True):
        if ctx.results is not None:
            _keep_routing(ctx, each.decision)
        else:
            left.append((ctx, _language(agent, each)))
            decisions[ctx] = each.decision
    for questions, lang, budgets, members in group(left, _budgets):
        arguments = {**options, **budgets}
        if lang is not None:
            arguments["lang"] = lang
        states = [_only_state(ctx) for ctx in members]
        results = ask_many(agent, states, questions, arguments)
        for ctx, result in zip(members, results, strict=True):
            result["routing"] = dict(decisions[ctx])
            ctx.results = [result]


def only_result(ctx: PredictContext) -> Any:
    """The one result of a request, as the end hooks left it.

    Raises:
        InvalidResult: They left something else than a list with one.
    """
    results = ctx.results
    if not isinstance(results, (list, tuple)) or not results:
        raise InvalidResult(f"the hooks left {results!r} where a list with one result belongs")
    return results[0]


def _budgets(ctx: PredictContext) -> dict[str, int]:
    """The token budgets that are set, by the request or by a start hook."""
    if ctx.max_len is None and ctx.head_max_len is None:
        return {}
    checked = {
        "max_len": check_count("max_len", ctx.max_len, least=8),
        "head_max_len": check_count("head_max_len", ctx.head_max_len, least=8),
    }
    return {name: value for name, value in checked.items() if value is not None}


def _language(agent: Any, asked: Asked) -> str | None:
    detection = asked.decision.get("detection")
    detected = detection.get("language") if isinstance(detection, (dict, Mapping)) else None
    return language_for(agent, asked.request.hints.lang, detected)


def _only_state(ctx: PredictContext) -> Any:
    states = ctx.states
    if not isinstance(states, (list, tuple)) or len(states) != 1:
        raise InvalidState(
            f"the start hooks left {states!r} where a list with the one state of the request "
            "belongs; assign ctx.states = [state]"
        )
    return states[0]


def _keep_routing(ctx: PredictContext, decision: Mapping[str, Any]) -> None:
    for result in ctx.results or ():
        if isinstance(result, dict):
            result.setdefault("routing", dict(decision))  # L-16: a cached one is kept
