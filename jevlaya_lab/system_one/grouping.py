"""Which requests of a batch can share forward passes: those that ask the same in the same way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from jevlaya_lab.system_one.context import PredictContext

__all__ = ["Group", "group"]


class Group(NamedTuple):
    """Runs that share forward passes, in input order."""

    questions: Any
    lang: str | None
    budgets: dict[str, int]
    runs: list[PredictContext]


def group(
    runs: Sequence[tuple[PredictContext, str | None]],
    budgets_of: Callable[[PredictContext], dict[str, int]],
) -> list[Group]:
    """Put runs together by questions, token budgets and language, in order of appearance (L-23).

    Args:
        runs: Each run as the start hooks left it, with the language that chooses its temperatures.
        budgets_of: Gives the token budgets that are set for a run.

    Returns:
        Groups whose members one ``predict_batch`` may answer.
    """
    groups: dict[Any, Group] = {}
    signatures: dict[int, Any] = {}  # of each questions object; the runs keep them alive
    for ctx, lang in runs:
        questions, budgets = ctx.questions, budgets_of(ctx)
        known = signatures.get(id(questions))
        if known is None:
            known = signatures[id(questions)] = _signature_of(questions)
        key = (known, *budgets.items(), lang)
        if key not in groups:
            groups[key] = Group(questions, lang, budgets, [])
        groups[key].runs.append(ctx)
    return list(groups.values())


def _signature_of(questions: Any) -> Any:
    try:
        return signature(questions)
    except RecursionError:  # a ring: whoever reads it will say so
        return ("ring", id(questions))


def signature(value: Any) -> Any:
    """A hashable value, equal for two definitions only if they ask the same in the same order.

    Order counts in dicts as well, since options are told apart by their place; ``1``, ``1.0`` and
    ``True`` differ, since they read differently. What is no plain value equals only itself.
    """
    kind = type(value)
    if kind is str:
        return value
    if isinstance(value, (dict, Mapping)):
        return ("{}", *[(signature(k), signature(v)) for k, v in value.items()])
    if kind in (list, tuple):
        return ("[]", *map(signature, value))
    if value is None or isinstance(value, (str, int, float)):
        return (kind, value)
    return (kind, id(value))
