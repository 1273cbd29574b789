"""The same questions with other names for their options, that mean the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from jevlaya_lab.system_one.questions import prepare

__all__ = ["RENAMINGS", "renamed"]

_NAMES: Final[dict[str, Callable[[int], str]]] = {
    "letters": lambda i: chr(ord("A") + i) if i < 26 else f"A{i}",
    "numbers": lambda i: str(i + 1),
}
RENAMINGS: Final = tuple(_NAMES)
"""``letters`` and ``numbers``: options are called A, B, C or 1, 2, 3, and their old name moves into
the description; levels of a score get them in front."""


def renamed(
    questions: Mapping[Any, Any], renaming: str
) -> tuple[dict[Any, Any], dict[Any, dict[Any, Any]]]:
    """Questions with other names for their options.

    Args:
        questions: Definitions; a ``noul`` is left out, since its answers have no names to change.
        renaming: One of :data:`RENAMINGS`.

    Returns:
        The new definitions, and for each its own names by the new ones (of a score by nothing:
        levels are told by their place).
    """
    name_of = _NAMES[renaming]
    found: dict[Any, Any] = {}
    back: dict[Any, dict[Any, Any]] = {}
    for question in prepare(questions):
        names = [name_of(i) for i in range(len(question.labels))]
        pairs = zip(question.labels, question.descriptions, strict=True)
        if question.type == "noul":
            continue
        criteria: Any = [label if not text else f"{label}: {text}" for label, text in pairs]
        if question.type == "score":
            levels = zip(names, question.descriptions, strict=True)
            criteria, names_back = [f"{name}: {text}" for name, text in levels], {}
        else:
            criteria = dict(zip(names, criteria, strict=True))
            names_back = dict(zip(names, question.keys, strict=True))
        found[question.id] = {**questions[question.id], "criteria": criteria}
        back[question.id] = names_back
    return found, back
