"""Typed questions: what may be asked.

A question is a plain dict, as in ``laya``, or one of the small classes here, which *are* such dicts
and check themselves when they are built:

>>> Choice("Which team?", ["billing", "shipping"])["type"]
'choice'

``prepare`` turns a whole ``{id: definition}`` dict into :class:`Question` values, which is what the
networks read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jevlaya_lab.system_one.definitions import (
    QUESTION_TYPES,
    Question,
    check_definition,
    kind_of,
    render,
)
from jevlaya_lab.system_one.errors import InvalidQuestion

__all__ = [
    "QUESTION_TYPES",
    "Choice",
    "Noul",
    "Question",
    "Questions",
    "Score",
    "prepare",
    "render",
]

Questions = Mapping[Any, Mapping[str, Any]]


class _TypedQuestion(dict[str, Any]):
    """A question definition that was checked when it was built; a plain dict otherwise."""

    def __init__(self, definition: dict[str, Any]) -> None:
        super().__init__({key: value for key, value in definition.items() if value is not None})
        check_definition("<unnamed>", self)

    def __repr__(self) -> str:
        inner = ", ".join(f"{key}={value!r}" for key, value in self.items() if key != "type")
        return f"{type(self).__name__}({inner})"


class Choice(_TypedQuestion):
    """Pick one of the options.

    Args:
        instructions: What is asked.
        criteria: ``{label: description}``, or a list of labels. A description may be ``None``.
        option_order: A permutation of ``range(len(criteria))``: which option stands in which slot.

    Raises:
        InvalidQuestion: The definition cannot be answered; the message says why.
    """

    def __init__(
        self,
        instructions: Any,
        criteria: Mapping[Any, Any] | Sequence[Any],
        *,
        option_order: Sequence[int] | None = None,
    ) -> None:
        super().__init__(
            {
                "type": "choice",
                "instructions": instructions,
                "criteria": criteria,
                "option_order": option_order,
            }
        )


class Score(_TypedQuestion):
    """Place the state on ordered levels; the answer is the expected level, 0 to ``len - 1``.

    Args:
        instructions: What is asked.
        criteria: The description of each level, lowest first.
        option_order: A permutation of the levels, as in :class:`Choice`.

    Raises:
        InvalidQuestion: The definition cannot be answered; the message says why.
    """

    def __init__(
        self,
        instructions: Any,
        criteria: Sequence[Any],
        *,
        option_order: Sequence[int] | None = None,
    ) -> None:
        super().__init__(
            {
                "type": "score",
                "instructions": instructions,
                "criteria": criteria,
                "option_order": option_order,
            }
        )


class Noul(_TypedQuestion):
    """Is it so? The answer is the probability of yes.

    Args:
        instructions: The question or statement.
        criteria: Optional descriptions of the two answers, keyed ``true`` / ``false``.
        labels: Optional words for them, ``{"false": ..., "true": ...}``; the answer stays P(true).
        option_order: ``[0, 1]`` or ``[1, 0]``: whether *false* or *true* is shown first.

    Raises:
        InvalidQuestion: The definition cannot be answered; the message says why.
    """

    def __init__(
        self,
        instructions: Any,
        criteria: Mapping[Any, Any] | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        option_order: Sequence[int] | None = None,
    ) -> None:
        super().__init__(
            {
                "type": "noul",
                "instructions": instructions,
                "criteria": criteria,
                "labels": labels,
                "option_order": option_order,
            }
        )


def prepare(questions: Questions) -> tuple[Question, ...]:
    """Check every definition and bring it into the form that the networks read.

    Args:
        questions: ``{id: definition}``; ids are non-empty strings or integers.

    Returns:
        One :class:`Question` per entry, in the dict's order.

    Raises:
        InvalidQuestion: Naming the question's id, what was wrong and what to do.
    """
    if not isinstance(questions, Mapping):
        raise InvalidQuestion(
            f"questions must be a dict of question id -> definition, got {kind_of(questions)}; "
            'write {"my_question": {...}} even for a single one'
        )
    return tuple(check_definition(qid, definition) for qid, definition in questions.items())
