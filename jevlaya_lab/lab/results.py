"""From the outcomes of rows to the frames that a call of the Lab gives back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import pandas as pd

from jevlaya_lab.frames import answer_columns, answers_frame, long_answers_frame
from jevlaya_lab.frames.decisions import decisions_frame
from jevlaya_lab.system_one.errors import InvalidQuestion
from jevlaya_lab.system_one.questions import Question

__all__ = ["ATTRS", "ROUTING", "Shape", "check_columns", "result_frames"]

ROUTING: Final = "routing_"
"""In front of the columns that say how a row was routed."""

ATTRS: Final = "jevlaya_temperatures"
"""Under this name ``answers.attrs`` holds the temperatures by checkpoint that answered."""


class Shape(NamedTuple):
    """What the answers of a call shall look like.

    ``routed`` says that a router answers, ``spans`` that long states were asked about.
    """

    layout: str
    detail: bool
    errors: str
    routed: bool
    spans: bool = False


def check_columns(questions: Sequence[Question], shape: Shape) -> None:
    """See that no two columns of the answers would have one name.

    Raises:
        InvalidQuestion: They would.
    """
    if shape.layout == "long":
        return
    names = answer_columns(questions, shape.detail, errors=shape.errors == "coerce")
    if shape.detail and shape.routed:
        names += list(decisions_frame([], pd.RangeIndex(0), ROUTING).columns)
    if shape.detail and shape.spans:
        names += [f"{q.id}__char_{end}" for q in questions for end in ("start", "end")]
        names.append("n_windows")
    for name in names:
        if names.count(name) > 1:
            raise InvalidQuestion(
                f"two columns of the answers would be named {name!r}; give the questions ids that "
                "do not run into each other's details or those of the routing"
            )


def result_frames(
    outcomes: Sequence[Mapping[str, Any] | Exception],
    questions: Sequence[Question],
    index: pd.Index,
    shape: Shape,
    temperatures: Mapping[str, Any],
) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    """The answers of rows, and of a router the decisions behind them.

    Args:
        outcomes: Of each row of ``index`` a result or an error.
        questions: What was asked.
        index: Of the rows.
        shape: What the answers shall look like.
        temperatures: By checkpoint, those that answered; kept in ``attrs``.
    """
    results = [{} if isinstance(each, Exception) else each for each in outcomes]
    problems = [_text(each) if isinstance(each, Exception) else None for each in outcomes]
    decisions = [result.get("routing") for result in results]
    if shape.layout == "long":
        answers = long_answers_frame(results, questions, index, detail=shape.detail)
        n = len(questions)
        decisions_shown = [each for each in decisions for _ in range(n)]
        problems = [each for each in problems for _ in range(n)]
    else:
        spans = shape.spans and shape.detail
        answers = answers_frame(results, questions, index, detail=shape.detail, spans=spans)
        decisions_shown = decisions
    if shape.routed and shape.detail:
        shown = decisions_frame(decisions_shown, answers.index, ROUTING)
        for name in shown.columns:
            answers[name] = shown[name].array
    if shape.errors == "coerce":
        answers["error"] = pd.array(problems, dtype="string")
    if temperatures:
        answers.attrs[ATTRS] = dict(temperatures)
    return answers, decisions_frame(decisions, index) if shape.routed else None


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
