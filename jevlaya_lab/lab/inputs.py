"""What a user hands to the Lab, as a list of states on an index."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import date, time
from typing import Any

import numpy as np
import pandas as pd

from jevlaya_lab.system_one.encoding import state_text
from jevlaya_lab.system_one.errors import InvalidInput, InvalidState

__all__ = ["StateColumns", "by_row", "check_each", "read_states", "same_states"]

StateColumns = Hashable | Sequence[Hashable] | Callable[[Any], Any] | None


def read_states(data: Any, state: StateColumns) -> tuple[list[Any], pd.Index]:
    """The states of some data as a list, and the index that the answers get.

    Args:
        data: A DataFrame, a Series, a list of states, an array of texts, or one state.
        state: For a DataFrame: the column that holds the states, several columns (each state is
            then a JSON object of them), or a function of the row.

    Returns:
        States, where a missing one is ``None``, and an index of the same length.

    Raises:
        InvalidInput: The columns are not there, or not named.
        InvalidState: The data is of no kind that holds states.
    """
    if isinstance(data, pd.DataFrame):
        return _frame_states(data, state), data.index
    if state is not None:
        raise InvalidInput(
            f"state= names columns of a DataFrame; this data is a {type(data).__name__}"
        )
    if isinstance(data, pd.Series):
        return [_json_value(value) for value in data.tolist()], data.index
    if isinstance(data, np.ndarray) and data.ndim == 1:
        data = data.tolist()
    if isinstance(data, (list, tuple)):
        return _none_for_missing(list(data)), pd.RangeIndex(len(data))
    if isinstance(data, (str, dict)):
        return [data], pd.RangeIndex(1)
    raise InvalidState(
        f"the data is a {type(data).__name__}; pass a DataFrame, a Series, a list of states, "
        "text or a dict"
    )


def check_each(states: Sequence[Any], index: pd.Index) -> dict[int, InvalidState]:
    """What is wrong with each state that cannot be asked about, by its position."""
    wrong: dict[int, InvalidState] = {}
    for i, (state, label) in enumerate(zip(states, index, strict=True)):
        if state is None:
            wrong[i] = InvalidState(
                f"the state at index {label!r} is missing; fill it or drop the row first"
            )
            continue
        try:
            state_text(state, i)
        except InvalidState as exc:
            what = str(exc).removeprefix(f"state {i}")
            wrong[i] = InvalidState(f"the state at index {label!r}{what}")
    return wrong


def by_row(name: str, value: Any, index: pd.Index) -> list[Any]:
    """An option of a request as one value per row: a Series gives each row its own.

    Raises:
        InvalidInput: A Series of another length or index.
    """
    if not isinstance(value, pd.Series):
        return [value] * len(index)
    if len(value) != len(index) or not value.index.equals(index):
        raise InvalidInput(
            f"{name}= is a Series on another index than the data ({len(value)} and {len(index)} "
            f"rows); give it the same index, or one {name} for all rows"
        )
    # Whole numbers beside missing ones are floats in pandas.
    return [
        int(each) if isinstance(each, float) and each.is_integer() else each
        for each in _none_for_missing(value.tolist())
    ]


def same_states(states: Sequence[Any], options: Sequence[Sequence[Any]]) -> list[int]:
    """For each state the position of the first one that asks the same.

    Args:
        states: States that can be asked about.
        options: Lists of options by row; rows of different options are different.
    """
    first: dict[Any, int] = {}
    found = []
    for i, (state, *rest) in enumerate(zip(states, *options, strict=True)):
        # A list keeps its end where it is too long, so it differs from the text that it reads as.
        kind = "list" if isinstance(state, (list, tuple)) else isinstance(state, str)
        key = (kind, state_text(state, i), *map(_hashable, rest))
        found.append(first.setdefault(key, i))
    return found


def _hashable(value: Any) -> Any:
    return value if isinstance(value, (str, int, float, type(None))) else id(value)


def _frame_states(data: pd.DataFrame, state: StateColumns) -> list[Any]:
    if state is None:
        raise InvalidInput(
            "state= is missing: name the column that holds the states, several columns, or give a "
            f"function of the row; the columns are {list(data.columns)}"
        )
    if callable(state):
        return _none_for_missing([state(row) for _, row in data.iterrows()])
    # A name may be a number, or a tuple where columns have several levels.
    alone = isinstance(state, str) or (_is_name(state) and state in data.columns)
    names = [state] if alone else list(state) if isinstance(state, (list, tuple)) else [state]
    if not names:
        raise InvalidInput(f"state= names no column; the columns are {list(data.columns)}")
    columns = [_column(data, name) for name in names]
    if alone:
        return columns[0]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _column(data: pd.DataFrame, name: Any) -> list[Any]:
    columns: list[Any] = list(data.columns)
    if not _is_name(name):
        raise InvalidInput(
            f"state= takes a column, a list of columns or a function of the row, got "
            f"{name!r}; the columns are {columns}"
        )
    if columns.count(name) > 1:
        raise InvalidInput(f"the data has more than one column {name!r}; rename one of them")
    if name not in data.columns:
        raise InvalidInput(f"the data has no column {name!r}; its columns are {columns}")
    found = data[name]
    if not isinstance(found, pd.Series):  # one level of several
        raise InvalidInput(
            f"{name!r} stands for several columns; name one of {list(data.columns)} in full"
        )
    return [_json_value(value) for value in found.tolist()]


def _is_name(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _json_value(value: Any) -> Any:
    """A cell as JSON takes it: missing becomes null, dates and times become ISO text."""
    if _missing(value):
        return None
    if isinstance(value, Mapping):
        return {key: _json_value(each) for key, each in value.items()}
    return value.isoformat() if isinstance(value, (date, time)) else value


def _missing(value: Any) -> bool:
    return (
        value is None
        or value is pd.NA
        or value is pd.NaT
        or (isinstance(value, float) and value != value)
    )


def _none_for_missing(values: list[Any]) -> list[Any]:
    return [None if _missing(value) else value for value in values]
