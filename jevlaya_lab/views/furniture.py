"""What all pictures share: heading, legend, axes, note, and the text table beside a picture."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from jevlaya_lab.views.layout import WIDTH, Anchor, Label, Line, Mark, Piece, Rect, Table
from jevlaya_lab.views.scales import Scale
from jevlaya_lab.views.text import cut, text_width, wrapped

__all__ = [
    "MARGIN", "TEXT", "Key", "heading", "legend", "no_data", "note_lines", "rows_table", "x_axis",
    "y_axis",
]  # fmt: skip

MARGIN: Final = 24.0
TEXT: Final = 11.5
"""Height of small text: ticks, legends, notes. Nothing is smaller but numbers inside of cells."""

_TABLE_ROWS: Final = 60


def heading(title: str, subtitle: str = "", width: float = WIDTH) -> tuple[list[Piece], float]:
    """Title and subtitle in lines that fit.

    Returns:
        The pieces, and the y below them.
    """
    pieces: list[Piece] = []
    y = 10.0
    room = width - 2 * MARGIN
    for line in wrapped(title, room, 17.0, bold=True, most=2):
        y += 20
        pieces.append(Label(MARGIN, y, line, size=17.0, bold=True))
    for line in wrapped(subtitle, room, 12.5, most=4):
        y += 19
        pieces.append(Label(MARGIN, y + 2, line, role="quiet", size=12.5))
    return pieces, y + 20


def note_lines(text: str, y: float, width: float = WIDTH) -> tuple[list[Piece], float]:
    """A note below a picture, and the y below it."""
    pieces: list[Piece] = []
    for line in wrapped(text, width - 2 * MARGIN, TEXT, most=6):
        pieces.append(Label(MARGIN, y + 8, line, role="quiet", size=TEXT))
        y += 17
    return pieces, y


@dataclass(frozen=True, slots=True)
class Key:
    """An entry of a legend.

    Attributes:
        text: What the sign means.
        role: Role of the sign.
        kind: A line with its mark, a filled field, or a mark alone.
        number: Which dash and mark, or which hatch.
        dash: Where the dash has another number than the mark.
    """

    text: str
    role: str
    kind: Literal["line", "field", "mark"] = "field"
    number: int = 0
    dash: int | None = None


def legend(
    keys: Sequence[Key], y: float, x: float = MARGIN, width: float = WIDTH
) -> tuple[list[Piece], float]:
    """Signs with their meaning, in as many rows as they need, and the y below them."""
    if not keys:
        return [], y
    pieces: list[Piece] = []
    at, y = x, y + 8
    for key in keys:
        text = cut(key.text, 360, TEXT)
        sign = 34.0 if key.kind == "line" else 20.0
        needed = sign + 6 + text_width(text, TEXT) + 20
        if at > x and at + needed - 20 > width - MARGIN:
            at, y = x, y + 19
        if key.kind == "line":
            dash = key.number if key.dash is None else key.dash
            pieces.append(Line(((at, y), (at + 34, y)), key.role, dash, 2.0))
            pieces.append(Mark(at + 17, y, key.role, key.number))
        elif key.kind == "field":
            pieces.append(Rect(at, y - 7, 20, 14, key.role, key.number))
        else:
            pieces.append(Mark(at + 10, y, key.role, key.number, 9.0))
        pieces.append(Label(at + sign + 6, y, text, size=TEXT))
        at += needed
    return pieces, y + 18


def y_axis(scale: Scale, left: float, right: float) -> list[Piece]:
    """Lines across the plot at the ticks, with their values left of it."""
    pieces: list[Piece] = []
    for value, text in scale.ticks:
        at = scale(value)
        if not scale.categories:
            pieces.append(Line(((left, at), (right, at)), "grid", width=1.0))
        pieces.append(Label(left - 8, at, text, "quiet", TEXT, "right"))
    return pieces


def x_axis(scale: Scale, y: float, top: float | None = None) -> list[Piece]:
    """Ticks below the plot, fewer where their texts would touch; lines up to ``top`` if given."""
    pieces: list[Piece] = []
    room = scale.step if scale.categories else 150.0
    texts = [cut(text, max(room - 8, 60), TEXT) for _, text in scale.ticks]
    anchors: list[Anchor] = ["middle"] * len(texts)
    last = float("-inf")
    for (value, _), text, anchor in zip(scale.ticks, texts, anchors, strict=True):
        at, half = scale(value), text_width(text, TEXT) / 2
        if not scale.categories and top is not None:
            pieces.append(Line(((at, y), (at, top)), "grid", width=1.0))
        pieces.append(Line(((at, y), (at, y + 4)), "axis", width=1.0))
        if at - half < last + 8:
            continue
        last = at + half
        pieces.append(Label(at, y + 14, text, "quiet", TEXT, anchor))
    return pieces


def no_data(x: float, y: float, width: float, height: float) -> list[Piece]:
    """What stands where there is nothing to draw."""
    return [
        Rect(x, y, width, height, "panel"),
        Label(x + width / 2, y + height / 2, "no data", "quiet", 14.0, "middle"),
    ]


def rows_table(
    headers: Sequence[str], rows: Iterable[Sequence[Any]], n: int, title: str = ""
) -> Table:
    """A table of the first rows, which says how many there are in all.

    Args:
        headers: Names of the columns.
        rows: The rows, as text; no more than needed are drawn.
        n: How many there are.
        title: What the rows are.
    """
    shown = tuple(
        tuple(str(cell) for cell in row) for row, _ in zip(rows, range(_TABLE_ROWS), strict=False)
    )
    if n > len(shown):
        title = f"{title} (the first {len(shown)} of {n:,} rows)".strip()
    return Table(tuple(headers), shown, title)
