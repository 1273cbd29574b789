"""Results as typed DataFrames, on the index of the data that was asked about."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from jevlaya_lab.system_one.errors import InvalidQuestion, InvalidResult
from jevlaya_lab.system_one.questions import Question

__all__ = ["answer_columns", "answers_frame", "check_results", "long_answers_frame"]


def check_results(
    results: Any, n_states: int, questions: Sequence[Question], labels: Sequence[Any] | None = None
) -> None:
    """See that there is one result with all answers for each state, whatever hooks did.

    Every value that goes into a frame is of the kind that its column holds: an option of a choice,
    a number for scores, nouls, confidences and probabilities, whole numbers for the window. Numbers
    may be missing or ``None``, but for the answer itself, which has to be there.

    Args:
        results: What ``predict_batch`` gave.
        n_states: How many states it was given.
        questions: What was asked.
        labels: Of the states, for messages; ``None`` names none.

    Raises:
        InvalidResult: Naming the state and the question that has no answer of its type.
    """
    if not isinstance(results, (list, tuple)) or len(results) != n_states:
        what = f"{len(results)} results" if isinstance(results, (list, tuple)) else repr(results)
        raise InvalidResult(
            f"{n_states} states gave {what}: a hook changed their number; each row needs one "
            "result, so a hook may change states and results but not how many"
        )
    for i, result in enumerate(results):
        problem = _problem(result, questions)
        if problem is not None:
            place = "" if labels is None else f" at index {labels[i]!r}"
            raise InvalidResult(f"the result{place} has {problem}")


def _problem(result: Any, questions: Sequence[Question]) -> str | None:
    """What a result has instead of what a frame needs."""
    if not isinstance(result, Mapping):
        result = {}
    answers = result.get("answers")
    for question in questions:
        answer = answers.get(question.id) if isinstance(answers, Mapping) else None
        if not isinstance(answer, Mapping) or not _is_answer(answer, question):
            return (
                f"no {question.type} answer for question {question.id!r}, a hook left {answer!r}; "
                f"a result looks like {{'answers': {{{question.id!r}: {{'type': "
                f"{question.type!r}, {question.type!r}: …}}}}}}"
            )
        for name in ("confidence", "answer_confidence"):
            if not _is_number(answer.get(name)):
                return _no_number(name, question.id, answer[name])
        for name, check in (("probabilities", _is_number), ("window", _is_count)):
            part = answer.get(name)
            if part is None:
                continue
            if not isinstance(part, Mapping):
                return (
                    f"something else than a dict as {name} of question {question.id!r}: a hook "
                    f"left {part!r}"
                )
            checked = part if name == "probabilities" else ("char_start", "char_end")
            for key in checked:
                if not check(part.get(key)):
                    return _no_number(f"{name}[{key!r}]", question.id, part[key])
    usage = result.get("usage")
    if isinstance(usage, Mapping) and not _is_count(usage.get("windows")):
        return f"a usage whose windows are no whole number: {usage['windows']!r}"
    return None


def _no_number(name: str, qid: Any, value: Any) -> str:
    return f"a {name} of question {qid!r} that is no number: a hook left {value!r}"


def _is_answer(answer: Mapping[str, Any], question: Question) -> bool:
    if question.type not in answer:
        return False
    value = answer[question.type]
    if question.type != "choice":
        return _is_number(value)
    try:
        return value in question.keys
    except (TypeError, ValueError):  # an array, say, which is equal to nothing at once
        return False


def _is_number(value: Any) -> bool:
    """Whether it is missing or a single number, of Python, numpy or another library."""
    if type(value) is float or _is_missing(value):
        return True
    if not hasattr(value, "__float__") or np.ndim(value) != 0:
        return False
    try:
        float(value)
    except Exception:  # too large, or a number in name only
        return False
    return True


def _is_count(value: Any) -> bool:
    return _is_missing(value) or (_is_number(value) and float(value).is_integer())


def _is_missing(value: Any) -> bool:
    return value is None or value is pd.NA


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
                columns[f"{question.id}__{name}"] = _counts(found)
    if spans:
        usages = [result.get("usage") for result in results]
        columns["n_windows"] = _counts(
            [each.get("windows") if isinstance(each, Mapping) else None for each in usages]
        )
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
            [None if p is None else _probabilities_text(p) for p in found], dtype="string"
        )
    frame: pd.DataFrame = pd.DataFrame(columns, index=index.repeat(len(questions)))
    return frame


def _answer(result: Mapping[str, Any], question: Question) -> Mapping[str, Any]:
    answer = (result.get("answers") or {}).get(question.id)
    return answer if isinstance(answer, Mapping) else {}


def _floats(values: Sequence[Any]) -> Any:
    return np.array(
        [np.nan if _is_missing(value) else float(value) for value in values], dtype=np.float64
    )


def _counts(values: Sequence[Any]) -> Any:
    return pd.array([None if _is_missing(value) else int(value) for value in values], dtype="Int64")


def _probabilities_text(probabilities: Mapping[Any, Any]) -> str:
    numbers = {
        key if isinstance(key, (str, int, float, type(None))) else str(key): (
            None if _is_missing(value) else float(value)
        )
        for key, value in probabilities.items()
    }
    return json.dumps(numbers, ensure_ascii=False)
