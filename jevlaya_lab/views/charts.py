"""Charts of any frame as layouts: lines, bars, a heat map; and pictures one under the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from jevlaya_lab.system_one.errors import InvalidInput
from jevlaya_lab.views.chart_words import alt_of, bars_said, lines_said, table_of
from jevlaya_lab.views.columns import Column, category, numbers, series_of
from jevlaya_lab.views.fields import fields_of
from jevlaya_lab.views.furniture import (
    MARGIN,
    Key,
    heading,
    legend,
    no_data,
    note_lines,
    x_axis,
    y_axis,
)  # fmt: skip
from jevlaya_lab.views.layout import WIDTH, Layout, Line
from jevlaya_lab.views.moving import moved
from jevlaya_lab.views.plots import (
    EMPTY,
    PLOT,
    axis_names,
    bars_across,
    bars_up,
    line_pieces,
    role_of,
    room_left,
)
from jevlaya_lab.views.scales import Scale, by_category, linear, logarithmic, name_of
from jevlaya_lab.views.text import number

__all__ = ["bar_chart", "heat_chart", "line_chart", "stack"]


def line_chart(
    frame: pd.DataFrame,
    *,
    x: str,
    y: str,
    by: str | None = None,
    low: str | None = None,
    high: str | None = None,
    title: str,
    subtitle: str = "",
    x_label: str | None = None,
    y_label: str | None = None,
    log_x: bool = False,
    log_y: bool = False,
    note: str = "",
    alt: str = "",
) -> Layout:
    """Lines over numbers or categories, one per value of ``by``.

    Args:
        frame: One row per point. A line breaks where ``y`` is missing.
        x: Its column across. Text, booleans and categories stand side by side, in order of the
            categories or of first appearance; everything else is a number.
        y: Its column of numbers.
        by: Its column that says which line a point belongs to; lines differ in colour, dash and
            mark.
        low: Its column of lower ends of a band around the line; goes with ``high``.
        high: Its column of upper ends.
        title: What the chart shows.
        subtitle: How it came about.
        x_label: Written below; the column's name where it is not given.
        y_label: Written above the axis; the column's name where it is not given.
        log_x: Powers of ten across; what is not above zero is left out, which is said.
        log_y: The same upwards.
        note: Written below the chart.
        alt: The chart in words; made from the data where it is not given.

    Raises:
        InvalidInput: A column is missing or holds no numbers.
    """
    if (low is None) != (high is None):
        raise InvalidInput("a band has two ends: give both low= and high=, or neither")
    series, categories, lost = series_of(frame, x, y, by, low, high, log_x=log_x, log_y=log_y)
    pieces, top = heading(title, subtitle)
    if by is not None or len(series) > 1:
        keys = [Key(s.name, role_of(i), "line", i) for i, s in enumerate(series)]
        found, top = legend(keys, top - 4)
        pieces += found
    ys = [v for s in series for p in s.points for v in (p.y, p.low, p.high) if v is not None]
    top += 22
    bottom = top + PLOT
    up = logarithmic(ys, bottom, top) if log_y else linear(ys, bottom, top)
    left = room_left(up)
    if all(p.y is None for s in series for p in s.points):
        bottom = top + EMPTY
        pieces += no_data(left, top, WIDTH - MARGIN - left, EMPTY)
    else:
        xs = [p.x for s in series for p in s.points]
        across = _across(xs, categories, left, WIDTH - MARGIN, log_x)
        pieces += y_axis(up, left, WIDTH - MARGIN)
        pieces += x_axis(across, bottom, top)
        for i, each in enumerate(series):
            pieces += line_pieces(each, i, across, up)
    pieces.append(Line(((left, bottom), (WIDTH - MARGIN, bottom)), "axis"))
    x_name, y_name = x_label or str(x), y_label or str(y)
    pieces += axis_names(x_name, y_name, left, top, bottom)
    found, end = note_lines(" ".join([note, *lost]), bottom + 46)
    said = lines_said(series, x_name, y_name, by, categories)
    return Layout(
        WIDTH,
        end + 8,
        title,
        subtitle,
        alt or alt_of(title, "Line chart", said, [subtitle, note, *lost]),
        pieces=(*pieces, *found),
        tables=(table_of(frame, [by, x, y, low, high]),),
    )


def bar_chart(
    frame: pd.DataFrame,
    *,
    x: str,
    y: str,
    by: str | None = None,
    title: str,
    subtitle: str = "",
    x_label: str | None = None,
    y_label: str | None = None,
    horizontal: bool = False,
    note: str = "",
    alt: str = "",
) -> Layout:
    """Bars from zero, grouped by ``x``, with their values written on them where they fit.

    Args:
        frame: One row per bar.
        x: Its column of categories.
        y: Its column of numbers; a bar whose number is missing shows a dash.
        by: Its column that says which bar of a category it is; these differ in colour and hatch.
        title: What the chart shows.
        subtitle: How it came about.
        x_label: The name of the categories; the column's where it is not given.
        y_label: The name of the numbers; the column's where it is not given.
        horizontal: Bars to the right, which leaves more room for names.
        note: Written below the chart.
        alt: The chart in words; made from the data where it is not given.

    Raises:
        InvalidInput: A column is missing, holds no numbers, or two rows are of one bar.
    """
    values, names = numbers(frame, y), category(frame, x)
    groups = Column([""], [0] * len(frame)) if by is None else category(frame, by)
    bars: dict[tuple[int, int], float | None] = {}
    for place, group, value in zip(names.codes, groups.codes, values.found, strict=True):
        if (place, group) in bars:
            which = f"{x}={name_of(names.labels[place])!r}"
            which += f", {by}={name_of(groups.labels[group])!r}" if by is not None else ""
            raise InvalidInput(
                f"two rows of the frame are of the same bar, {which}; sum them up first, such as "
                "by frame.groupby(...).mean()"
            )
        bars[place, group] = value
    pieces, top = heading(title, subtitle)
    if by is not None:
        keys = [Key(name_of(g), role_of(i), "field", i) for i, g in enumerate(groups.labels)]
        found, top = legend(keys, top - 4)
        pieces += found
    x_name, y_name = x_label or str(x), y_label or str(y)
    draw = bars_across if horizontal else bars_up
    found, end = draw(bars, names.labels, len(groups.labels), top + 22, x_name, y_name)
    pieces += found
    found, end = note_lines(" ".join([note, *values.lost]), end)
    said = bars_said(bars, names.labels, groups.labels, x_name, y_name, by)
    return Layout(
        WIDTH,
        end + 8,
        title,
        subtitle,
        alt or alt_of(title, "Bar chart", said, [subtitle, note, *values.lost]),
        pieces=(*pieces, *found),
        tables=(table_of(frame, [x, by, y]),),
    )


def heat_chart(
    frame: pd.DataFrame,
    *,
    x: str,
    y: str,
    value: str,
    title: str,
    subtitle: str = "",
    x_label: str | None = None,
    y_label: str | None = None,
    note: str = "",
    alt: str = "",
) -> Layout:
    """A field per pair of categories, darker for higher numbers, with the number written in it.

    Args:
        frame: One row per field; pairs that are not there stay empty.
        x: Its column of categories across.
        y: Its column of categories down.
        value: Its column of numbers.
        title: What the chart shows.
        subtitle: How it came about.
        x_label: The name of the categories across; the column's where it is not given.
        y_label: The name of those down; the column's where it is not given.
        note: Written below the chart.
        alt: The chart in words; made from the data where it is not given.

    Raises:
        InvalidInput: A column is missing, holds no numbers, or two rows are of one field.
    """
    values, across, down = numbers(frame, value), category(frame, x), category(frame, y)
    cells: dict[tuple[int, int], float | None] = {}
    for i, j, found_value in zip(across.codes, down.codes, values.found, strict=True):
        if (i, j) in cells:
            raise InvalidInput(
                f"two rows of the frame are of the same field, {x}={name_of(across.labels[i])!r}, "
                f"{y}={name_of(down.labels[j])!r}; sum them up first, such as by "
                "frame.groupby(...).mean()"
            )
        cells[i, j] = found_value
    pieces, top = heading(title, subtitle)
    x_name, y_name = x_label or str(x), y_label or str(y)
    found, end, written = fields_of(cells, across.labels, down.labels, top + 22, x_name, y_name)
    pieces += found
    lost = list(values.lost)
    if not written:
        lost.append("The numbers do not fit into the fields.")
    found, end = note_lines(" ".join([note, *lost]), end)
    known = {key: v for key, v in cells.items() if v is not None}
    said = [f"{len(across.labels)} values of {x_name} across, {len(down.labels)} of {y_name} down"]
    if known:
        for word, pick in (("lowest", min), ("highest", max)):
            i, j = pick(known, key=lambda key: known[key])
            said.append(
                f"{word} {value} {number(known[i, j])} at {x_name} {name_of(across.labels[i])}, "
                f"{y_name} {name_of(down.labels[j])}"
            )
    return Layout(
        WIDTH,
        end + 8,
        title,
        subtitle,
        alt or alt_of(title, "Heat map", said if known else ["no data"], [subtitle, note, *lost]),
        pieces=(*pieces, *found),
        tables=(table_of(frame, [y, x, value]),),
    )


def stack(*layouts: Layout, title: str, subtitle: str = "") -> Layout:
    """Pictures one under the other in one.

    Args:
        *layouts: From top to bottom; each keeps its own title.
        title: What they show together.
        subtitle: How they came about.
    """
    for each in layouts:
        if not isinstance(each, Layout):
            raise InvalidInput(f"stack takes layouts, got a {type(each).__name__}")
    pieces, y = heading(title, subtitle)
    parts: list[Layout] = []
    for i, each in enumerate(layouts):
        if i:
            pieces.append(Line(((MARGIN, y + 6), (WIDTH - MARGIN, y + 6)), "grid", width=1.0))
        parts.append(moved(each, y, f"{i + 1}:"))
        y += each.height + (12 if i else 0)
    if not parts:
        pieces += no_data(MARGIN, y, WIDTH - 2 * MARGIN, 80)
        y += 100
    return Layout(
        max((each.width for each in parts), default=WIDTH),
        y,
        title,
        subtitle,
        " ".join(
            [f"{title}. {len(parts)} pictures, one under the other.", *(p.alt for p in parts)]
        ),
        boxes=tuple(box for each in parts for box in each.boxes),
        arrows=tuple(arrow for each in parts for arrow in each.arrows),
        bars=tuple(bar for each in parts for bar in each.bars),
        pieces=(*pieces, *(piece for each in parts for piece in each.pieces)),
        tables=tuple(
            replace(table, title=": ".join(t for t in (each.title, table.title) if t))
            for each in parts
            for table in each.tables
        ),
    )


def _across(
    xs: Sequence[float], categories: Sequence[Any] | None, start: float, end: float, log: bool
) -> Scale:
    if categories is not None:
        return by_category(categories, start, end)
    return logarithmic(xs, start, end) if log else linear(xs, start, end, pad=0.03)
