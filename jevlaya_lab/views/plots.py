"""The plots of charts: lines, bars upwards and to the right, fields; with their axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from jevlaya_lab.views.columns import Series
from jevlaya_lab.views.furniture import (
    MARGIN,
    TEXT,
    no_data,
    x_axis,
    y_axis,
)
from jevlaya_lab.views.layout import (
    WIDTH,
    Area,
    Label,
    Line,
    Mark,
    Piece,
    Rect,
)
from jevlaya_lab.views.scales import Scale, by_category, linear, name_of
from jevlaya_lab.views.text import cut, number, text_width
from jevlaya_lab.views.themes import N_SERIES

__all__ = [
    "EMPTY",
    "PLOT",
    "axis_names",
    "bars_across",
    "bars_up",
    "line_pieces",
    "role_of",
    "room_left",
]

PLOT: Final = 260.0
"""Height of a plot."""

EMPTY: Final = 90.0
"""Height of one without data."""

_MARKED: Final = 40
"""Points of a line up to which each one has its mark; of longer lines some have."""


def role_of(i: int) -> str:
    """The role of the series of that number."""
    return f"series-{i % N_SERIES}"


def room_left(scale: Scale) -> float:
    """Where a plot begins, so that the values of its axis fit left of it."""
    return MARGIN + 12 + max((text_width(text, TEXT) for _, text in scale.ticks), default=0.0)


def axis_names(x: str, y: str, left: float, top: float, bottom: float) -> list[Piece]:
    """What the axes are called, below the plot and above its left edge."""
    middle = (left + WIDTH - MARGIN) / 2
    return [
        Label(MARGIN, top - 18, cut(y, 500, TEXT), "quiet", TEXT, bold=True),
        Label(middle, bottom + 34, cut(x, 600, TEXT), "quiet", TEXT, "middle", bold=True),
    ]


def line_pieces(each: Series, i: int, across: Scale, up: Scale) -> list[Piece]:
    """A line with its band and its marks."""
    pieces: list[Piece] = []
    for stretch in each.stretches():
        band = [
            (across(p.x), up(p.low), up(p.high))
            for p in stretch
            if p.low is not None and p.high is not None
        ]
        if len(band) > 1:
            edge = [(at, low) for at, low, _ in band] + [(at, high) for at, _, high in band[::-1]]
            pieces.append(Area(tuple(edge), role_of(i), each.name))
        elif band:
            at, low, high = band[0]
            pieces.append(Line(((at, low), (at, high)), role_of(i), 0, 1.2, label="band"))
    for stretch in each.stretches():
        points = tuple((across(p.x), up(p.y)) for p in stretch if p.y is not None)
        if len(points) > 1:
            pieces.append(Line(points, role_of(i), i, 2.0, label=each.name))
    known = [(across(p.x), up(p.y)) for p in each.points if p.y is not None]
    every = max(1, -(-len(known) // _MARKED))
    for place, (at, y) in enumerate(known):
        if place % every == 0 or place == len(known) - 1:
            pieces.append(Mark(at, y, role_of(i), i, label=each.name))
    return pieces


def bars_up(
    bars: dict[tuple[int, int], float | None],
    labels: Sequence[Any],
    n_groups: int,
    top: float,
    x_name: str,
    y_name: str,
) -> tuple[list[Piece], float]:
    """Bars upwards, and the y below them; ``bars`` by number of category and of group."""
    values = [value for value in bars.values() if value is not None]
    bottom = top + PLOT
    below = any(value < 0 for value in values)
    up = linear(values, bottom - (16 if below else 0), top + 8, zero=True, pad=0.06)
    left = room_left(up)
    pieces: list[Piece] = []
    if not values:
        bottom = top + EMPTY
        pieces += no_data(left, top, WIDTH - MARGIN - left, EMPTY)
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
                    Rect(x, min(at, zero), thick, abs(at - zero), role_of(group), group, label=name)
                )
            if text_width(number(value), TEXT) <= thick + (6 if n_groups == 1 else 0):
                down = value is not None and value < 0
                y = at + (9 if down else -8)
                pieces.append(Label(x + thick / 2, y, number(value), "ink", TEXT, "middle"))
        pieces.append(Line(((left, zero), (WIDTH - MARGIN, zero)), "axis"))
    pieces += axis_names(x_name, y_name, left, top, bottom)
    return pieces, bottom + 46


def bars_across(
    bars: dict[tuple[int, int], float | None],
    labels: Sequence[Any],
    n_groups: int,
    top: float,
    x_name: str,
    y_name: str,
) -> tuple[list[Piece], float]:
    """Bars to the right, and the y below them; ``bars`` as in :func:`bars_up`."""
    values = [value for value in bars.values() if value is not None]
    thick = max(3.0, min(22.0, 700 / max(1, len(labels) * n_groups)))
    bottom = top + max(PLOT / 4, len(labels) * (n_groups * thick + 8))
    names = [cut(name_of(label), 300, TEXT) for label in labels]
    left = MARGIN + 12 + max((text_width(name, TEXT) for name in names), default=0.0)
    pieces: list[Piece] = []
    if not values:
        pieces += no_data(left, top, WIDTH - MARGIN - left, bottom - top)
    else:
        room = {sign: [0.0] for sign in (False, True)}
        for known in values:
            room[known < 0].append(text_width(number(known), TEXT) + 6)
        start, right = left + max(room[True]), WIDTH - MARGIN - max(room[False])
        over = linear(values, start, right, zero=True, pad=0.03)
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
                    Rect(min(at, zero), y, abs(at - zero), thick, role_of(group), group, label=name)
                )
            if thick >= TEXT:
                minus = value is not None and value < 0
                x, anchor = (at - 5, "right") if minus else (at + 5, "left")
                pieces.append(
                    Label(x, y + thick / 2, number(value), "ink", TEXT, anchor)  # type: ignore[arg-type]
                )
        pieces.append(Line(((zero, top), (zero, bottom)), "axis"))
    pieces += axis_names(y_name, x_name, left, top, bottom)
    return pieces, bottom + 46
