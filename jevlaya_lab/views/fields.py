"""The plot of a heat map: a field per pair of categories with its number in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jevlaya_lab.views.furniture import (
    MARGIN,
    TEXT,
    no_data,
    x_axis,
)
from jevlaya_lab.views.layout import (
    WIDTH,
    Label,
    Piece,
    Rect,
)
from jevlaya_lab.views.plots import EMPTY, axis_names
from jevlaya_lab.views.scales import by_category, name_of
from jevlaya_lab.views.text import cut, number, text_width

__all__ = ["fields_of"]


def fields_of(
    cells: dict[tuple[int, int], float | None],
    across: Sequence[Any],
    down: Sequence[Any],
    top: float,
    x_name: str,
    y_name: str,
) -> tuple[list[Piece], float, bool]:
    """The fields, the y below them, and whether the numbers fit into them."""
    values = [value for value in cells.values() if value is not None]
    names = [cut(name_of(label), 220, TEXT) for label in down]
    left = MARGIN + 12 + max((text_width(name, TEXT) for name in names), default=0.0)
    if not values:
        pieces = no_data(left, top, WIDTH - MARGIN - left, EMPTY)
        pieces += axis_names(x_name, y_name, left, top, top + EMPTY)
        return pieces, top + EMPTY + 46, True
    label = max(text_width(name_of(each), TEXT) for each in across) + 16
    width = min(max(96.0, min(label, 180.0)), (WIDTH - MARGIN - left) / len(across))
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
