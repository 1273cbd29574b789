"""Answers against the truth: confusion tables, and how far stated confidences can be trusted.

Pure functions of frames that ``Lab.predict`` gives and of columns of true values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from jevlaya_lab.system_one.errors import InvalidInput, InvalidOption

__all__ = [
    "Calibration",
    "Stated",
    "calibration",
    "came_true",
    "confusion",
    "expected_error",
    "stated",
    "stated_confidence",
]


class Calibration(NamedTuple):
    """How well stated probabilities fit what came true.

    Attributes:
        summary: One row per question: ``question``, ``kind`` (choice, score, noul), ``n``,
            ``accuracy``, ``confidence`` (mean), ``ece`` (expected calibration error: mean distance
            of stated and true share, weighted by bin) and ``brier`` (mean squared error of the
            probabilities, summed over options; of a noul, of the probability of yes).
        reliability: One row per question and bin: ``question``, ``low``, ``high`` (a bin holds its
            upper end), ``n``, ``confidence`` (mean stated), ``accuracy`` (true share), ``gap``.
    """

    summary: pd.DataFrame
    reliability: pd.DataFrame


def _named(question: Any, answers: Any, truth: Any) -> Any:
    """The question that is asked for, or whose name the true values bear."""
    name = truth.name if isinstance(truth, pd.Series) else None
    known = isinstance(answers, pd.DataFrame) and name is not None and name in answers.columns
    return name if question is None and known else question


def confusion(
    answers: pd.DataFrame | pd.Series[Any],
    truth: pd.DataFrame | pd.Series[Any] | Sequence[Any],
    question: Any = None,
) -> pd.DataFrame:
    """How often each true value got each answer.

    Args:
        answers: An answers frame, or its column. A noul counts as yes from 0.5 on, a score as the
            nearest level.
        truth: The true values: a frame with the question's column, or a column in the same order.
        question: Which question; may be left out where ``truth`` is a Series of its name, or where
            the frame has only one choice.

    Returns:
        Counts (``Int64``), true values down, answers across, both in the order of the categories,
        with true values that are no category after them. Rows without an answer or without a true
        value are not counted.

    Raises:
        InvalidInput: The two do not fit, or it is not clear which question is meant.
    """
    question = _named(question, answers, truth)
    if question is None and isinstance(answers, pd.DataFrame):
        choices = [name for name in answers if isinstance(answers[name].dtype, pd.CategoricalDtype)]
        if len(choices) != 1:
            raise InvalidInput(
                f"the answers have {len(choices)} choices; say which with question=, of "
                f"{list(answers.columns)}"
            )
        (question,) = choices
    given, true = _columns(answers, truth, question)
    known = given.notna() & true.notna()
    given, true = given[known], true[known]
    if pd.api.types.is_float_dtype(given.dtype):
        # A noul's probability as yes or no, an expected level as the nearest one.
        yes = all(isinstance(value, (bool, np.bool_)) for value in true)
        given = given >= 0.5 if yes else given.round().astype("int64")
    if isinstance(given.dtype, pd.CategoricalDtype):
        labels = list(given.cat.categories)
    else:
        labels = given.unique().tolist()
        with suppress(TypeError):  # of several kinds: as they come
            labels = sorted(labels)
    others = [value for value in dict.fromkeys(true.tolist()) if value not in labels]
    rows = pd.Index([*labels, *others], name="truth", tupleize_cols=False)
    columns = pd.Index(labels, name="answer", tupleize_cols=False)
    place = {label: i for i, label in enumerate(rows)}
    counts = np.zeros((len(rows), len(columns)), dtype=np.int64)
    np.add.at(counts, ([place[value] for value in true], [place[value] for value in given]), 1)
    table: pd.DataFrame = pd.DataFrame(counts, index=rows, columns=columns).astype("Int64")
    return table


def calibration(
    answers: pd.DataFrame,
    truth: pd.DataFrame | pd.Series[Any] | Sequence[Any],
    question: Any = None,
    *,
    n_bins: int = 10,
) -> Calibration:
    """How far the probabilities of answers can be trusted.

    Of a choice and a score the highest probability is compared with how often its option was
    right; of a noul the probability of yes with how often it was yes. Rows without a true value,
    or without probabilities, are left out.

    Args:
        answers: An answers frame made with ``detail=True``.
        truth: The true values: a frame with the questions' columns, or one column. Of a score they
            are level numbers, of a noul booleans or 0 and 1.
        question: Which question; ``None`` takes every one that ``truth`` has a column for.
        n_bins: Bins of equal width between 0 and 1.

    Raises:
        InvalidInput: The two do not fit, true values are spelt otherwise than the options, or the
            probabilities are not there.
    """
    if isinstance(n_bins, bool) or not isinstance(n_bins, int) or n_bins < 1:
        raise InvalidOption(f"n_bins must be a positive whole number, got {n_bins!r}")
    if not isinstance(answers, pd.DataFrame):
        raise InvalidInput("calibration takes an answers frame made with detail=True")
    question = _named(question, answers, truth)
    if question is not None:
        questions = [question]
    elif isinstance(truth, pd.DataFrame):
        questions = [name for name in answers if name in truth.columns]
    else:
        raise InvalidInput(
            "say which question the true values are of: name the Series, or give question="
        )
    if not questions:
        raise InvalidInput(
            f"no question has a column in both: the answers have {list(answers.columns)}, the true "
            f"values {list(getattr(truth, 'columns', []))}"
        )
    summaries, tables = [], []
    for name in questions:
        found = stated(answers, truth, name)
        if len(found.p) and (found.target < 0).all():
            _check_spelling(name, found.options, truth)
        confidence, right, n = found.confidence, found.right, len(found.p)
        table = _reliability(confidence, right, n_bins)
        hit = (confidence >= 0.5) == right if found.kind == "noul" else right
        summaries.append(
            {
                "question": name,
                "kind": found.kind,
                "n": n,
                "accuracy": float(hit.mean()) if n else np.nan,
                "confidence": float(confidence.mean()) if n else np.nan,
                "ece": expected_error(confidence, right, n_bins),
                "brier": _brier(found),
            }
        )
        table.insert(0, "question", pd.Series([name] * n_bins, dtype=object))
        tables.append(table)
    summary = pd.DataFrame(summaries).astype({"n": "Int64"})
    return Calibration(summary, pd.concat(tables, ignore_index=True))


def _check_spelling(name: Any, options: Sequence[Any], truth: Any) -> None:
    """Refuse true values of which none is an option, where one nearly is.

    Raises:
        InvalidInput: Which one, and what it should be.
    """
    column = truth[name] if isinstance(truth, pd.DataFrame) else truth
    plain = {str(option).strip().casefold(): option for option in options}
    for value in column:
        meant = plain.get(str(value).strip().casefold())
        if meant is not None:
            raise InvalidInput(
                f"question {name!r}: no true value is one of its options; {value!r} should be "
                f"{meant!r}"
            )


_RESERVED: Final = "__p_"


class Stated(NamedTuple):
    """The labelled answers to one question that have probabilities.

    Attributes:
        kind: ``choice``, ``score`` or ``noul``.
        p: Probabilities ``[n, n_options]``; of a noul no and yes.
        target: The place of the true option, ``[n]``; -1 where it is none of them.
        rows: Where in the answers each stands, ``[n]``.
        options: Labels, level numbers, or ``False`` and ``True``.
    """

    kind: str
    p: np.ndarray[Any, Any]
    target: np.ndarray[Any, Any]
    rows: np.ndarray[Any, Any]
    options: list[Any]

    @property
    def confidence(self) -> np.ndarray[Any, Any]:
        """The probability that is judged: of yes, or the highest."""
        return stated_confidence(self.kind, self.p)

    @property
    def right(self) -> np.ndarray[Any, Any]:
        """1 where what was judged came true, else 0."""
        return came_true(self.kind, self.p, self.target)


def stated_confidence(kind: str, p: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Of a noul the probability of yes, of the others the highest, from ``[n, n_options]``."""
    if not len(p):
        return np.zeros(0)
    return np.asarray(p[:, 1] if kind == "noul" else p.max(axis=1))


def came_true(
    kind: str, p: np.ndarray[Any, Any], target: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """Whether it was yes, or the highest option was the true one, as 0 and 1."""
    if not len(p):
        return np.zeros(0)
    return np.asarray((target == (1 if kind == "noul" else p.argmax(axis=1))).astype(float))


def expected_error(
    stated: np.ndarray[Any, Any], right: np.ndarray[Any, Any], n_bins: int = 10
) -> float:
    """Expected calibration error: mean distance of stated and true share, weighted by bin."""
    table = _reliability(stated, right, n_bins)
    weights = table["n"].to_numpy(dtype=float)
    gaps = table["gap"].abs().fillna(0.0).to_numpy()
    return float((weights * gaps).sum() / weights.sum()) if len(stated) else float("nan")


def stated(answers: pd.DataFrame, truth: Any, name: Any) -> Stated:
    """The probabilities of a question's answers beside its true values.

    Args:
        answers: An answers frame made with ``detail=True``.
        truth: The true values, see :func:`calibration`.
        name: The question.

    Raises:
        InvalidInput: The two do not fit, or the probabilities are not there.
    """
    given, true = _columns(answers, truth, name)
    prefix = f"{name}{_RESERVED}"
    if isinstance(given.dtype, pd.CategoricalDtype):
        kind, labels = "choice", list(given.cat.categories)
    elif n_levels := _n_levels(answers, prefix):
        kind, labels = "score", list(range(n_levels))
    else:
        return _stated_noul(given, true, name)
    wanted = [f"{prefix}{label}" for label in labels]
    missing = [column for column in wanted if column not in answers]
    if missing:
        raise InvalidInput(f"the answers have no column {missing[0]!r}; ask with detail=True")
    p = _numbers(answers[wanted], name)
    known = ~np.isnan(p).any(axis=1) & true.notna().to_numpy()
    place = {label: i for i, label in enumerate(labels)}
    target = np.array([place.get(value, -1) for value in true[known]], dtype=int)
    return Stated(kind, p[known], target, np.flatnonzero(known), labels)


def _numbers(columns: pd.DataFrame | pd.Series[Any], name: Any) -> np.ndarray[Any, Any]:
    try:
        return columns.to_numpy(dtype=float, na_value=np.nan)
    except (TypeError, ValueError) as exc:
        raise InvalidInput(f"the answers to {name!r} are no numbers: {exc}") from exc


def _n_levels(answers: pd.DataFrame, prefix: str) -> int:
    """How many levels of a score have probabilities here.

    The columns of another question may begin in the same way, or even have the name of a level's;
    that one has confidences of its own.
    """
    n = 0
    while (column := f"{prefix}{n}") in answers and f"{column}__confidence" not in answers:
        n += 1
    return n


def _stated_noul(given: pd.Series[Any], true: pd.Series[Any], name: Any) -> Stated:
    known = (given.notna() & true.notna()).to_numpy()
    yes = _numbers(given, name)[known]
    if ((yes < 0) | (yes > 1)).any():
        raise InvalidInput(
            f"question {name!r} has no probabilities beside it; ask with detail=True"
        )
    for label, value in true[known].items():
        if isinstance(value, str) or value not in (0, 1):
            raise InvalidInput(
                f"the true values of {name!r} are not all true or false (or 0 and 1): at index "
                f"{label!r} stands {value!r}"
            )
    right = true[known].to_numpy(dtype=float)
    p = np.column_stack([1.0 - yes, yes])
    return Stated("noul", p, right.astype(int), np.flatnonzero(known), [False, True])


def _brier(found: Stated) -> float:
    kind, p, target = found[:3]
    if not len(p):
        return float("nan")
    if kind == "noul":
        return float(((p[:, 1] - target) ** 2).mean())
    hits = np.zeros_like(p)
    inside = np.flatnonzero(target >= 0)
    hits[inside, target[inside]] = 1.0
    # A true value that is no option leaves every probability wrong, and is one more miss.
    return float((((p - hits) ** 2).sum(axis=1) + (target < 0)).mean())


def _reliability(
    stated: np.ndarray[Any, Any], right: np.ndarray[Any, Any], n_bins: int
) -> pd.DataFrame:
    edges = np.linspace(0.0, 1.0, n_bins + 1)
    # Upper ends belong to their bin, and 0 to the first one.
    bins = np.clip(np.searchsorted(edges, stated, side="left") - 1, 0, n_bins - 1)
    n = np.bincount(bins, minlength=n_bins)
    with np.errstate(invalid="ignore", divide="ignore"):
        confidence = np.bincount(bins, weights=stated, minlength=n_bins) / n
        accuracy = np.bincount(bins, weights=right, minlength=n_bins) / n
    table: pd.DataFrame = pd.DataFrame(
        {
            "low": edges[:-1],
            "high": edges[1:],
            "n": pd.array(n, dtype="Int64"),
            "confidence": confidence,
            "accuracy": accuracy,
            "gap": accuracy - confidence,
        }
    )
    return table


def _columns(answers: Any, truth: Any, name: Any) -> tuple[pd.Series[Any], pd.Series[Any]]:
    """An answer column and its true values, row by row."""
    given = (
        answers[_column_of(answers, name, "answers")]
        if isinstance(answers, pd.DataFrame)
        else answers
    )
    if not isinstance(given, pd.Series):
        raise InvalidInput(f"the answers are a {type(given).__name__}; pass an answers frame")
    if isinstance(truth, pd.DataFrame):
        true = truth[_column_of(truth, given.name if name is None else name, "true values")]
        if not isinstance(true, pd.Series):
            raise InvalidInput(f"the true values have more than one column {true.columns[0]!r}")
    elif isinstance(truth, pd.Series):
        true = truth
    elif not pd.api.types.is_list_like(truth) or isinstance(truth, (Mapping, Set, Iterator)):
        raise InvalidInput(
            f"true values are a frame, a Series or a list, got a {type(truth).__name__}"
        )
    elif len(truth) != len(given):
        raise InvalidInput(f"there are {len(given)} answers and {len(truth)} true values")
    else:
        true = pd.Series(list(truth), index=given.index, dtype=object)
    if not true.index.equals(given.index):
        # Answers may be a part of what is labelled.
        unique = true.index.is_unique and given.index.is_unique
        if not (unique and given.index.isin(true.index).all()):
            raise InvalidInput(
                f"the answers and the true values have different indexes ({len(given)} and "
                f"{len(true)} rows); bring them into one order"
            )
        true = true.reindex(given.index)
    true = true.astype(object)
    for what, values in (("answer", given), ("true value", true)):
        for label, value in values.items() if values.dtype == object else ():
            if not _is_label(value):
                raise InvalidInput(
                    f"the {what} at index {label!r} is a {type(value).__name__}; it has to be a "
                    "label, a number or a boolean"
                )
    return given, true


def _is_label(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _column_of(frame: pd.DataFrame, name: Any, what: str) -> Any:
    if not _is_label(name) or name not in frame.columns:
        raise InvalidInput(f"the {what} have no column {name!r}; they have {list(frame.columns)}")
    return name
