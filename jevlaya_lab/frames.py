"""Results and traces as typed DataFrames, and traces as files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

import pandas as pd

from jevlaya_lab.system_one.errors import InvalidOption, InvalidQuestion, InvalidResult
from jevlaya_lab.system_one.files import whole_file
from jevlaya_lab.system_one.hooks import EVENTS
from jevlaya_lab.system_one.questions import Question
from jevlaya_lab.tracing.records import EventRecord, RunRecord

__all__ = ["Trace", "answers_frame", "write_csv"]

_TEXT: Final = "string"
_COUNT: Final = "Int64"
_MS: Final = "float64"

_RUN_DTYPES: Final[dict[str, Any]] = {
    **{
        name: _TEXT
        for name in (
            "run_id", "call_id", "parent_run_id", "entry", "scope", "model", "routing_model",
            "routing_reason", "error_type", "error_message", "failed_step", "thread",
        )
    },
    **{
        name: _COUNT
        for name in (
            "n_states", "n_questions", "n_forwards", "n_rows", "input_tokens", "output_tokens",
            "padded_tokens",
        )
    },
    **{
        name: _MS
        for name in (
            "start_ms", "end_ms", "elapsed_ms", "encode_ms", "collate_ms", "forward_ms",
            "decode_ms",
        )
    },
    "started_at": pd.DatetimeTZDtype("us", "UTC"),
    "skipped": "boolean",
}  # fmt: skip

_EVENT_DTYPES: Final[dict[str, Any]] = {
    "seq": _COUNT,
    "at_ms": _MS,
    "run_id": _TEXT,
    "call_id": _TEXT,
    "checkpoint": _TEXT,
    "event": pd.CategoricalDtype(list(EVENTS), ordered=False),
    "hook": _TEXT,
    "position": _COUNT,
    "origin": pd.CategoricalDtype(["default", "installed", "call"], ordered=True),
    "duration_ms": _MS,
    "changed": _TEXT,
    "error_type": _TEXT,
}


@dataclass(frozen=True)
class Trace:
    """What was recorded, as two frames with fixed columns and dtypes, also when empty.

    Attributes:
        runs: One row per run, in the order in which they ended.
        events: One row per hook that ran for an event.
        n_dropped: Runs that were recorded and no longer kept.
    """

    runs: pd.DataFrame
    events: pd.DataFrame
    n_dropped: int = 0

    @classmethod
    def from_records(
        cls, runs: Sequence[RunRecord], events: Sequence[EventRecord], n_dropped: int = 0
    ) -> Trace:
        """Build the frames from what a recorder kept."""
        return cls(
            _typed(RunRecord, runs, _RUN_DTYPES),
            _typed(EventRecord, events, _EVENT_DTYPES),
            n_dropped,
        )

    def to_csv(self, path: str | os.PathLike[str]) -> Path:
        """Write the runs to ``path`` and the events beside it (``trace.events.csv``).

        Returns:
            The path of the runs.
        """
        target = write_csv(self.runs, path)
        write_csv(self.events, target.with_suffix(f".events{target.suffix}"))
        return target

    def __repr__(self) -> str:
        dropped = f", {self.n_dropped} dropped" if self.n_dropped else ""
        return f"Trace({len(self.runs)} runs, {len(self.events)} hook events{dropped})"


def _typed(record: type, rows: Sequence[Any], dtypes: Mapping[str, Any]) -> pd.DataFrame:
    names = [field.name for field in fields(record)]
    columns = {
        name: pd.Series([_cell(getattr(row, name)) for row in rows], dtype=dtypes[name])
        for name in names
    }
    frame: pd.DataFrame = pd.DataFrame(columns, columns=names)
    return frame


def _cell(value: Any) -> Any:
    return " ".join(value) if isinstance(value, tuple) else value


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


def write_csv(frame: pd.DataFrame, path: str | os.PathLike[str], *, index: bool = False) -> Path:
    """Write a frame as UTF-8 CSV: the file is there as a whole, or as it was before.

    Args:
        frame: What to write.
        path: Where; missing folders are made.
        index: Whether the index is written as well.

    Returns:
        The path.
    """
    target = Path(path).expanduser()
    if target.is_dir():
        raise InvalidOption(f"{str(target)!r} is a folder; give the name of a file in it")
    with whole_file(target) as file:
        frame.to_csv(file, index=index, lineterminator="\n")
    return target
