"""Results as typed DataFrames, on the index of the data that was asked about."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from jevlaya_lab.system_one.errors import InvalidQuestion, InvalidResult
from jevlaya_lab.system_one.questions import Question

__all__ = ["answer_columns", "answers_frame", "check_results", "long_answers_frame"]


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


def answer_columns(
    questions: Sequence[Question], detail: bool, *, errors: bool = False
) -> list[Any]:
    """Names of the columns that answers get, in order; ``error`` is one where errors are kept.

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
    if errors:
        names.append("error")
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
    spans: bool = False,
) -> pd.DataFrame:
    """Results as one row per state, on the given index.

    Args:
        results: One result per row of ``index``; answers that it does not have are missing.
        questions: The questions asked, in order.
        index: The index of the data that was asked about.
        detail: Add ``<id>__confidence``, ``<id>__answer_confidence`` and ``<id>__p_<option>``.
        spans: Add ``<id>__char_start`` and ``<id>__char_end``, the part of a long state that
            decided, and ``n_windows``.

    Returns:
        A column per question under its own id: ``category`` for a choice, ``float64`` for a score
        and a noul (the probability of yes).
    """
    columns: dict[Any, Any] = {}
    for question in questions:
        answers = [_answer(result, question) for result in results]
        values = [answer.get(question.type) for answer in answers]
        if question.type == "choice":
            columns[question.id] = pd.Categorical(values, categories=list(question.keys))
        else:
            columns[question.id] = _floats(values)
        if detail:
            # A hook's own results may leave these out; they are missing then.
            for name in ("confidence", "answer_confidence"):
                columns[f"{question.id}__{name}"] = _floats([a.get(name) for a in answers])
            for key in question.keys if question.type != "noul" else ():
                columns[f"{question.id}__p_{key}"] = _floats(
                    [(answer.get("probabilities") or {}).get(key) for answer in answers]
                )
        if spans:
            for name in ("char_start", "char_end"):
                found = [(answer.get("window") or {}).get(name) for answer in answers]
                columns[f"{question.id}__{name}"] = pd.array(found, dtype="Int64")
    if spans:
        windows = [(result.get("usage") or {}).get("windows") for result in results]
        columns["n_windows"] = pd.array(windows, dtype="Int64")
    frame: pd.DataFrame = pd.DataFrame(columns, index=index)
    return frame


def long_answers_frame(
    results: Sequence[Mapping[str, Any]],
    questions: Sequence[Question],
    index: pd.Index,
    *,
    detail: bool = False,
) -> pd.DataFrame:
    """Results as one row per state and question; each state's index is repeated.

    Args:
        results: One result per row of ``index``; answers that it does not have are missing.
        questions: The questions asked, in order.
        index: The index of the data that was asked about.
        detail: Add ``probabilities``, a JSON object by option.

    Returns:
        ``question`` (category), ``type`` (category), ``choice`` (string), ``score`` (expected
        level), ``noul`` (probability of yes), of which one is there, ``confidence`` and
        ``answer_confidence``.
    """
    answers = [
        (question, _answer(result, question)) for result in results for question in questions
    ]
    ids = [question.id for question in questions]
    columns: dict[str, Any] = {
        "question": pd.Categorical([q.id for q, _ in answers], categories=ids),
        "type": pd.Categorical([q.type for q, _ in answers], ["choice", "score", "noul"]),
        "choice": pd.array(
            [None if (c := a.get("choice")) is None else str(c) for _, a in answers],
            dtype="string",
        ),
    }
    for name in ("score", "noul", "confidence", "answer_confidence"):
        columns[name] = _floats([answer.get(name) for _, answer in answers])
    if detail:
        found = [answer.get("probabilities") for _, answer in answers]
        columns["probabilities"] = pd.array(
            [None if p is None else json.dumps(p, ensure_ascii=False) for p in found],
            dtype="string",
        )
    frame: pd.DataFrame = pd.DataFrame(columns, index=index.repeat(len(questions)))
    return frame


def _answer(result: Mapping[str, Any], question: Question) -> Mapping[str, Any]:
    answer = (result.get("answers") or {}).get(question.id)
    return answer if isinstance(answer, Mapping) else {}


def _floats(values: Sequence[Any]) -> Any:
    return pd.Series(values, dtype="float64").to_numpy()
