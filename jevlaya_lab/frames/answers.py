"""Results as typed DataFrames, on the index of the data that was asked about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from jevlaya_lab.system_one.errors import InvalidQuestion, InvalidResult
from jevlaya_lab.system_one.questions import Question

__all__ = ["answer_columns", "answers_frame", "check_results"]


def check_results(
    results: Any, n_states: int, questions: Sequence[Question], first: int = 0
) -> None:
    """See that there is one result with all answers for each state, whatever hooks did.

    Args:
        results: What ``predict_batch`` gave.
        n_states: How many states it was given.
        questions: What was asked.
        first: Number of the first state, for messages.

    Raises:
        InvalidResult: Naming the state and the question that has no answer of its type.
    """
    if not isinstance(results, (list, tuple)) or len(results) != n_states:
        what = f"{len(results)} results" if isinstance(results, (list, tuple)) else repr(results)
        raise InvalidResult(
            f"{n_states} states from number {first} on gave {what}: a hook changed their number; "
            "each row needs one result, so a hook may change states and results but not how many"
        )
    for i, result in enumerate(results, first):
        answers = result.get("answers") if isinstance(result, Mapping) else None
        for question in questions:
            answer = answers.get(question.id) if isinstance(answers, Mapping) else None
            given = isinstance(answer, Mapping) and question.type in answer
            if not given or (
                question.type == "choice" and answer["choice"] not in question.keys  # type: ignore[index]
            ):
                raise InvalidResult(
                    f"the result of state {i} has no {question.type} answer for question "
                    f"{question.id!r}, a hook left {answer!r}; a result looks like "
                    f"{{'answers': {{{question.id!r}: {{'type': {question.type!r}, "
                    f"{question.type!r}: …}}}}}}"
                )


def answer_columns(questions: Sequence[Question], detail: bool) -> list[Any]:
    """Names of the columns that answers get, in order.

    Raises:
        InvalidQuestion: Two columns would have one name.
    """
    names: list[Any] = []
    for question in questions:
        names.append(question.id)
        if detail:
            keys = question.keys if question.type != "noul" else ()
            parts = ["confidence", "answer_confidence", *(f"p_{key}" for key in keys)]
            names += [f"{question.id}__{part}" for part in parts]
    for name in names:
        if names.count(name) > 1:
            raise InvalidQuestion(
                f"two columns of the answers would be named {name!r}; give the questions ids that "
                "do not run into each other's details"
            )
    return names


def answers_frame(
    results: Sequence[Mapping[str, Any]],
    questions: Sequence[Question],
    index: pd.Index,
    *,
    detail: bool = False,
) -> pd.DataFrame:
    """Results as one row per state, on the given index.

    Args:
        results: One result per row of ``index``.
        questions: The questions asked, in order.
        index: The index of the data that was asked about.
        detail: Add ``<id>__confidence``, ``<id>__answer_confidence`` and ``<id>__p_<option>``.

    Returns:
        A column per question under its own id: ``category`` for a choice, ``float64`` for a score
        and a noul (the probability of yes).
    """
    columns: dict[Any, Any] = {}
    for question in questions:
        answers = [result["answers"][question.id] for result in results]
        values = [answer[question.type] for answer in answers]
        if question.type == "choice":
            columns[question.id] = pd.Categorical(values, categories=list(question.keys))
        else:
            columns[question.id] = pd.Series(values, dtype="float64").to_numpy()
        if detail:
            # A hook's own results may leave these out; they are missing then.
            for name in ("confidence", "answer_confidence"):
                columns[f"{question.id}__{name}"] = [answer.get(name) for answer in answers]
            for key in question.keys if question.type != "noul" else ():
                columns[f"{question.id}__p_{key}"] = [
                    (answer.get("probabilities") or {}).get(key) for answer in answers
                ]
    frame: pd.DataFrame = pd.DataFrame(columns, index=index)
    return frame
