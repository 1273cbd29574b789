"""Charts of any frame as layouts: lines, bars, a heat map; and pictures one under the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import pandas as pd

from jevlaya_lab.system_one.errors import InvalidInput
from jevlaya_lab.views.columns import Column, Series, category, numbers, series_of
from jevlaya_lab.views.furniture import (
    MARGIN,
    TEXT,
    Key,
    heading,
    legend,
    no_data,
    note_lines,
    rows_table,
    x_axis,
    y_axis,
)  # fmt: skip
from jevlaya_lab.views.layout import WIDTH, Area, Label, Layout, Line, Mark, Piece, Rect, Table
from jevlaya_lab.views.moving import moved
from jevlaya_lab.views.scales import Scale, by_category, linear, logarithmic, name_of
from jevlaya_lab.views.text import cut, number, shortened, text_width
from jevlaya_lab.views.themes import N_SERIES

__all__ = ["bar_chart", "heat_chart", "line_chart", "stack"]

_PLOT: Final = 260.0
_EMPTY: Final = 90.0
_MARKED: Final = 40
"""Points of a line up to which each one has its mark; of longer lines some have."""

_SAID: Final = 6
"""Series, and cells, that the text of a chart goes into."""


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
        keys = [Key(s.name, _role(i), "line", i) for i, s in enumerate(series)]
        found, top = legend(keys, top - 4)
        pieces += found
    ys = [v for s in series for p in s.points for v in (p.y, p.low, p.high) if v is not None]
    top += 22
    bottom = top + _PLOT
    up = logarithmic(ys, bottom, top) if log_y else linear(ys, bottom, top)
    left = _left(up)
    if not ys:
        bottom = top + _EMPTY
        pieces += no_data(left, top, WIDTH - MARGIN - left, _EMPTY)
    else:
        xs = [p.x for s in series for p in s.points]
        across = _across(xs, categories, left, WIDTH - MARGIN, log_x)
        pieces += y_axis(up, left, WIDTH - MARGIN)
        pieces += x_axis(across, bottom, top)
        for i, each in enumerate(series):
            pieces += _line(each, i, across, up)
    pieces.append(Line(((left, bottom), (WIDTH - MARGIN, bottom)), "axis"))
    x_name, y_name = x_label or str(x), y_label or str(y)
    pieces += _axis_names(x_name, y_name, left, top, bottom)
    found, end = note_lines(" ".join([note, *lost]), bottom + 46)
    said = _lines_said(series, x_name, y_name, by, categories)
    return Layout(
        WIDTH,
        end + 8,
        title,
        subtitle,
        alt or _alt(title, "Line chart", said, [subtitle, note, *lost]),
        pieces=(*pieces, *found),
        tables=(_table(frame, [by, x, y, low, high]),),
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
        keys = [Key(name_of(g), _role(i), "field", i) for i, g in enumerate(groups.labels)]
        found, top = legend(keys, top - 4)
        pieces += found
    x_name, y_name = x_label or str(x), y_label or str(y)
    draw = _bars_across if horizontal else _bars_up
    found, end = draw(bars, names.labels, len(groups.labels), top + 22, x_name, y_name)
    pieces += found
    found, end = note_lines(" ".join([note, *values.lost]), end)
    said = _bars_said(bars, names.labels, groups.labels, x_name, y_name, by)
    return Layout(
        WIDTH,
        end + 8,
        title,
        subtitle,
        alt or _alt(title, "Bar chart", said, [subtitle, note, *values.lost]),
        pieces=(*pieces, *found),
        tables=(_table(frame, [x, by, y]),),
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
    found, end, written = _fields(cells, across.labels, down.labels, top + 22, x_name, y_name)
    pieces += found
    lost = list(values.lost)
    if not written:
        lost.append("The numbers do not fit into the fields; they are in the table.")
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
        alt or _alt(title, "Heat map", said if known else ["no data"], [subtitle, note, *lost]),
        pieces=(*pieces, *found),
        tables=(_table(frame, [y, x, value]),),
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


def _role(i: int) -> str:
    return f"series-{i % N_SERIES}"


def _left(scale: Scale) -> float:
    return MARGIN + 12 + max((text_width(text, TEXT) for _, text in scale.ticks), default=0.0)


def _across(
    xs: Sequence[float], categories: Sequence[Any] | None, start: float, end: float, log: bool
) -> Scale:
    if categories is not None:
        return by_category(categories, start, end)
    return logarithmic(xs, start, end) if log else linear(xs, start, end, pad=0.03)


def _axis_names(x: str, y: str, left: float, top: float, bottom: float) -> list[Piece]:
    middle = (left + WIDTH - MARGIN) / 2
    return [
        Label(MARGIN, top - 18, cut(y, 500, TEXT), "quiet", TEXT, bold=True),
        Label(middle, bottom + 34, cut(x, 600, TEXT), "quiet", TEXT, "middle", bold=True),
    ]


def _line(each: Series, i: int, across: Scale, up: Scale) -> list[Piece]:
    pieces: list[Piece] = []
    for stretch in each.stretches():
        band = [
            (across(p.x), up(p.low), up(p.high))
            for p in stretch
            if p.low is not None and p.high is not None
        ]
        if len(band) > 1:
            edge = [(at, low) for at, low, _ in band] + [(at, high) for at, _, high in band[::-1]]
            pieces.append(Area(tuple(edge), _role(i), each.name))
        elif band:
            at, low, high = band[0]
            pieces.append(Line(((at, low), (at, high)), _role(i), 0, 1.2, label="band"))
    for stretch in each.stretches():
        points = tuple((across(p.x), up(p.y)) for p in stretch if p.y is not None)
        if len(points) > 1:
            pieces.append(Line(points, _role(i), i, 2.0, label=each.name))
    known = [(across(p.x), up(p.y)) for p in each.points if p.y is not None]
    every = max(1, -(-len(known) // _MARKED))
    for place, (at, y) in enumerate(known):
        if place % every == 0 or place == len(known) - 1:
            pieces.append(Mark(at, y, _role(i), i, label=each.name))
    return pieces


def _bars_up(
    bars: dict[tuple[int, int], float | None],
    labels: Sequence[Any],
    n_groups: int,
    top: float,
    x_name: str,
    y_name: str,
) -> tuple[list[Piece], float]:
    values = [value for value in bars.values() if value is not None]
    bottom = top + _PLOT
    below = any(value < 0 for value in values)
    up = linear(values, bottom - (16 if below else 0), top + 8, zero=True, pad=0.06)
    left = _left(up)
    pieces: list[Piece] = []
    if not values:
        bottom = top + _EMPTY
        pieces += no_data(left, top, WIDTH - MARGIN - left, _EMPTY)
    else:
        across = by_category(labels, left, WIDTH - MARGIN)
        pieces += y_axis(up, left, WIDTH - MARGIN)
        pieces += x_axis(across, bottom)
        thick = min(56.0, across.step * 0.8 / n_groups)
        zero = up(0.0)
        for (place, group), value in sorted(bars.items()):
            x = across(place) + (group - n_groups / 2) * thick
            at = zero if value is None else up(value)
            name = f"{name_of(labels[place])}/{group}"
            if value is not None:
                pieces.append(
                    Rect(x, min(at, zero), thick, abs(at - zero), _role(group), group, label=name)
                )
            if text_width(number(value), TEXT) <= thick + (6 if n_groups == 1 else 0):
                down = value is not None and value < 0
                y = at + (9 if down else -8)
                pieces.append(Label(x + thick / 2, y, number(value), "ink", TEXT, "middle"))
        pieces.append(Line(((left, zero), (WIDTH - MARGIN, zero)), "axis"))
    pieces += _axis_names(x_name, y_name, left, top, bottom)
    return pieces, bottom + 46


def _bars_across(
    bars: dict[tuple[int, int], float | None],
    labels: Sequence[Any],
    n_groups: int,
    top: float,
    x_name: str,
    y_name: str,
) -> tuple[list[Piece], float]:
    values = [value for value in bars.values() if value is not None]
    thick = max(3.0, min(22.0, 700 / max(1, len(labels) * n_groups)))
    bottom = top + max(_PLOT / 4, len(labels) * (n_groups * thick + 8))
    names = [cut(name_of(label), 300, TEXT) for label in labels]
    left = MARGIN + 12 + max((text_width(name, TEXT) for name in names), default=0.0)
    pieces: list[Piece] = []
    if not values:
        pieces += no_data(left, top, WIDTH - MARGIN - left, bottom - top)
    else:
        right = WIDTH - MARGIN - 30
        longest = max((text_width(number(value), TEXT) for value in values if value < 0), default=0)
        over = linear(values, left + longest, right, zero=True, pad=0.03)
        down = by_category(labels, top, bottom)
        pieces += x_axis(over, bottom, top)
        zero = over(0.0)
        every = max(1, -(-14 // max(1, int(down.step))))
        for place, name in enumerate(names):
            if place % every == 0:
                pieces.append(Label(left - 8, down(place), name, "ink", TEXT, "right"))
        for (place, group), value in sorted(bars.items()):
            y = down(place) + (group - n_groups / 2) * thick
            at = zero if value is None else over(value)
            name = f"{name_of(labels[place])}/{group}"
            if value is not None:
                pieces.append(
                    Rect(min(at, zero), y, abs(at - zero), thick, _role(group), group, label=name)
                )
            if thick >= TEXT:
                minus = value is not None and value < 0
                x, anchor = (at - 5, "right") if minus else (at + 5, "left")
                pieces.append(
                    Label(x, y + thick / 2, number(value), "ink", TEXT, anchor)  # type: ignore[arg-type]
                )
        pieces.append(Line(((zero, top), (zero, bottom)), "axis"))
    pieces += _axis_names(y_name, x_name, left, top, bottom)
    return pieces, bottom + 46


def _fields(
    cells: dict[tuple[int, int], float | None],
    across: Sequence[Any],
    down: Sequence[Any],
    top: float,
    x_name: str,
    y_name: str,
) -> tuple[list[Piece], float, bool]:
    values = [value for value in cells.values() if value is not None]
    names = [cut(name_of(label), 220, TEXT) for label in down]
    left = MARGIN + 12 + max((text_width(name, TEXT) for name in names), default=0.0)
    if not values:
        pieces = no_data(left, top, WIDTH - MARGIN - left, _EMPTY)
        pieces += _axis_names(x_name, y_name, left, top, top + _EMPTY)
        return pieces, top + _EMPTY + 46, True
    width = min(96.0, (WIDTH - MARGIN - left) / len(across))
    height = max(5.0, min(32.0, 900 / len(down)))
    low, high = min(values), max(values)
    sizes = [TEXT, 10.5, 9.5]
    widest = max(map(number, values), key=len)
    fitting = [s for s in sizes if text_width(widest, s) <= width - 4 and s + 2 <= height]
    bottom, right = top + height * len(down), left + width * len(across)
    columns, rows = by_category(across, left, right), by_category(down, top, bottom)
    pieces = []
    for (i, j), value in sorted(cells.items()):
        x, y = columns(i) - width / 2, rows(j) - height / 2
        if value is None:
            pieces.append(Rect(x, y, width, height, "panel"))
            if fitting:
                pieces.append(Label(columns(i), rows(j), "–", "quiet", fitting[0], "middle"))
            continue
        shade = (value - low) / (high - low) if high > low else 0.5
        pieces.append(Rect(x, y, width, height, "heat", shade=shade, label=number(value)))
        if fitting:
            pieces.append(
                Label(
                    columns(i), rows(j), number(value), "on-heat", fitting[0], "middle", shade=shade
                )
            )
    every = max(1, -(-14 // max(1, int(height))))
    pieces += [
        Label(left - 8, rows(j), name, "ink", TEXT, "right")
        for j, name in enumerate(names)
        if j % every == 0
    ]
    pieces += x_axis(columns, bottom)
    pieces += [
        Label(MARGIN, top - 18, cut(f"{y_name} (down)", 420, TEXT), "quiet", TEXT, bold=True),
        Label(
            (left + right) / 2, bottom + 34, cut(x_name, 500, TEXT), "quiet", TEXT, "middle", True
        ),
    ]
    return pieces + _scale_bar(low, high, top - 24), bottom + 46, bool(fitting)


def _scale_bar(low: float, high: float, y: float) -> list[Piece]:
    """Which shade is which number, at the upper right."""
    right = WIDTH - MARGIN - text_width(number(high), TEXT) - 6
    pieces: list[Piece] = [
        Rect(right - 100 + i * 20, y, 20, 11, "heat", shade=i / 4) for i in range(5)
    ]
    pieces.append(Label(right - 106, y + 6, number(low), "quiet", TEXT, "right"))
    pieces.append(Label(right + 6, y + 6, number(high), "quiet", TEXT))
    return pieces


def _alt(title: str, kind: str, said: Sequence[str], more: Sequence[str]) -> str:
    sentences = [title, f"{kind}: {'; '.join(said)}", *more]
    return " ".join(
        text if text.endswith((".", "!", "?")) else f"{text}." for text in sentences if text
    )


def _lines_said(
    series: Sequence[Series], x: str, y: str, by: str | None, categories: Sequence[Any] | None
) -> list[str]:
    def at(value: float) -> str:
        return name_of(categories[int(value)]) if categories is not None else number(value)

    said = []
    for each in series[:_SAID]:
        known = [(p.x, p.y) for p in each.points if p.y is not None]
        name = f"{by} {each.name}: " if by is not None else ""
        if not known:
            said.append(f"{name}no values")
            continue
        first, last = known[0], known[-1]
        least, most = min(known, key=lambda p: p[1]), max(known, key=lambda p: p[1])
        said.append(
            f"{name}{len(known)} points, {y} {number(first[1])} at {x} {at(first[0])}, "
            f"{number(last[1])} at {at(last[0])}, lowest {number(least[1])} at {at(least[0])}, "
            f"highest {number(most[1])} at {at(most[0])}"
        )
    if len(series) > _SAID:
        said.append(f"and {len(series) - _SAID} more lines")
    return said or ["no data"]


def _bars_said(
    bars: dict[tuple[int, int], float | None],
    labels: Sequence[Any],
    groups: Sequence[Any],
    x: str,
    y: str,
    by: str | None,
) -> list[str]:
    said = []
    for group, name in enumerate(groups):
        own = {place: v for (place, g), v in sorted(bars.items()) if g == group and v is not None}
        prefix = f"{by} {name_of(name)}: " if by is not None else ""
        if not own:
            said.append(f"{prefix}no data")
            continue
        each = shortened([f"{name_of(labels[i])} {number(v)}" for i, v in own.items()], 8)
        least, most = min(own, key=lambda i: own[i]), max(own, key=lambda i: own[i])
        said.append(
            f"{prefix}{y} by {x}: {each}; lowest {number(own[least])} ({name_of(labels[least])}), "
            f"highest {number(own[most])} ({name_of(labels[most])})"
        )
    if len(said) > _SAID:
        said[_SAID:] = [f"and {len(said) - _SAID} more groups"]
    return said or ["no data"]


def _table(frame: pd.DataFrame, columns: Sequence[str | None]) -> Table:
    names = list(dict.fromkeys(name for name in columns if name is not None))
    rows = (
        [name_of(cell) if not isinstance(cell, float) else number(cell) for cell in row]
        for row in frame[names].itertuples(index=False, name=None)
    )
    return rows_table([str(name) for name in names], rows, len(frame))
