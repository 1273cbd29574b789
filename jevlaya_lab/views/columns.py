"""Columns of a frame as a chart needs them: checked, as plain numbers and as categories."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from jevlaya_lab.system_one.errors import InvalidInput
from jevlaya_lab.views.scales import name_of

__all__ = ["Column", "Numbers", "Point", "Series", "category", "numbers", "series_of"]


@dataclass(frozen=True)
class Column:
    """A column of categories: its different values in order, and which one each row has."""

    labels: list[Any]
    codes: list[int]


@dataclass(frozen=True)
class Numbers:
    """A column of numbers with ``None`` for missing; ``lost`` says what could not be kept."""

    found: list[float | None]
    lost: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a line, with the band around it where there is one."""

    x: float
    y: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Series:
    """The points of one line in order of x."""

    name: str
    points: list[Point]

    def stretches(self) -> Iterator[list[Point]]:
        """Points without a missing one between them."""
        stretch: list[Point] = []
        for point in self.points:
            if point.y is None:
                if stretch:
                    yield stretch
                stretch = []
            else:
                stretch.append(point)
        if stretch:
            yield stretch


def numbers(frame: pd.DataFrame, name: str, *, log: bool = False) -> Numbers:
    """A column as numbers; infinite ones count as missing, and with ``log`` those up to zero.

    Raises:
        InvalidInput: There is no such column, or something in it is no number.
    """
    column = _column(frame, name)
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(object)
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        raise InvalidInput(f"column {name!r} holds times; a chart needs numbers there")
    if pd.api.types.is_timedelta64_dtype(column.dtype):
        raise InvalidInput(
            f"column {name!r} holds durations; give numbers, such as .dt.total_seconds()"
        )
    try:
        values = pd.to_numeric(column).to_numpy(dtype=float, na_value=math.nan)
    except (TypeError, ValueError) as exc:
        raise InvalidInput(f"column {name!r} holds something that is no number: {exc}") from exc
    lost = []
    infinite = int((values == math.inf).sum() + (values == -math.inf).sum())
    if infinite:
        lost.append(f"{infinite} infinite values of {name} are not drawn.")
    below = int((values <= 0).sum()) if log else 0
    if below:
        lost.append(f"{below} values of {name} that are not above zero have no place on this axis.")
    return Numbers(
        [float(v) if math.isfinite(v) and not (log and v <= 0) else None for v in values], lost
    )


def category(frame: pd.DataFrame, name: str) -> Column:
    """A column as categories: in their order, else in that of first appearance.

    Raises:
        InvalidInput: There is no such column.
    """
    column = _column(frame, name)
    keys = [name_of(value) for value in column.tolist()]
    first: dict[str, Any] = {}
    if isinstance(column.dtype, pd.CategoricalDtype):
        used = set(keys)
        first = {name_of(c): c for c in column.dtype.categories if name_of(c) in used}
    for key, value in zip(keys, column.tolist(), strict=True):
        first.setdefault(key, value)
    place = {key: i for i, key in enumerate(first)}
    return Column(list(first.values()), [place[key] for key in keys])


def series_of(
    frame: pd.DataFrame,
    x: str,
    y: str,
    by: str | None,
    low: str | None,
    high: str | None,
    *,
    log_x: bool,
    log_y: bool,
) -> tuple[list[Series], list[Any] | None, list[str]]:
    """The lines of a frame, the categories across (``None`` for numbers), and what was left out.

    Raises:
        InvalidInput: A column is missing or holds no numbers.
    """
    values = numbers(frame, y, log=log_y)
    lost = list(values.lost)
    categories: list[Any] | None = None
    if _is_number(_column(frame, x)):
        given = numbers(frame, x, log=log_x)
        places, lost = given.found, lost + given.lost
    elif log_x:
        raise InvalidInput(f"column {x!r} holds no numbers, so that log_x=True has no meaning")
    else:
        across = category(frame, x)
        categories, places = across.labels, [float(code) for code in across.codes]
    nothing: list[float | None] = [None] * len(frame)
    lows = nothing if low is None else numbers(frame, low, log=log_y).found
    highs = nothing if high is None else numbers(frame, high, log=log_y).found
    groups = Column([""], [0] * len(frame)) if by is None else category(frame, by)
    points: list[list[Point]] = [[] for _ in groups.labels]
    without = 0
    for group, at, value, a, b in zip(groups.codes, places, values.found, lows, highs, strict=True):
        if at is None:
            without += 1
            continue
        banded = a is not None and b is not None
        points[group].append(Point(at, value, a if banded else None, b if banded else None))
    if without:
        lost.append(f"{without} rows without {x} are not drawn.")
    for each in points:
        each.sort(key=lambda point: point.x)
    names = [name_of(label) for label in groups.labels]
    series = [Series(name, each) for name, each in zip(names, points, strict=True)]
    return (series if len(frame) else []), categories, lost


def _is_number(column: pd.Series[Any]) -> bool:
    dtype = column.dtype
    if pd.api.types.is_bool_dtype(dtype) or isinstance(dtype, pd.CategoricalDtype):
        return False
    if pd.api.types.is_numeric_dtype(dtype):
        return True
    known = column.dropna()
    return bool(len(known)) and all(
        isinstance(value, (int, float)) and not isinstance(value, bool) for value in known
    )


def _column(frame: pd.DataFrame, name: Any) -> pd.Series[Any]:
    if not isinstance(frame, pd.DataFrame):
        raise InvalidInput(f"a chart is drawn from a DataFrame, got a {type(frame).__name__}")
    known = list(frame.columns)
    if known.count(name) != 1:
        raise InvalidInput(
            f"the frame has {known.count(name)} columns {name!r}; its columns are {known}"
        )
    column: pd.Series[Any] = frame[name]
    return column
