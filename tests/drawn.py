"""Where the pieces of a layout lie: nothing outside of the picture, no text over other text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from jevlaya_lab.views.boxes import drawn
from jevlaya_lab.views.layout import Area, Label, Layout, Line, Mark
from jevlaya_lab.views.text import text_width


class Extent(NamedTuple):
    """What a piece takes: left, top, right and bottom in pixels."""

    left: float
    top: float
    right: float
    bottom: float
    what: str


def extents(layout: Layout) -> Iterator[Extent]:
    for piece in drawn(layout):
        if isinstance(piece, Label):
            yield of_label(piece)
        elif isinstance(piece, (Line, Area)):
            x, y = zip(*piece.points, strict=True)
            yield Extent(min(x), min(y), max(x), max(y), repr(piece))
        elif isinstance(piece, Mark):
            yield Extent(piece.x, piece.y, piece.x, piece.y, repr(piece))
        else:
            yield Extent(
                piece.x, piece.y, piece.x + piece.width, piece.y + piece.height, repr(piece)
            )


def of_label(label: Label) -> Extent:
    width = text_width(label.text, label.size, label.bold)
    left = label.x - {"left": 0.0, "middle": width / 2, "right": width}[label.anchor]
    half = label.size * 0.45
    return Extent(left, label.y - half, left + width, label.y + half, label.text)


def check(layout: Layout) -> None:
    """All lies inside, and texts lie apart."""
    for each in extents(layout):
        assert each.left >= -1, each
        assert each.right <= layout.width + 1, each
        assert each.top >= 0, each
        assert each.bottom <= layout.height, each
    texts = sorted(of_label(p) for p in drawn(layout) if isinstance(p, Label))
    for i, a in enumerate(texts):
        for b in texts[i + 1 :]:
            if b.left >= a.right - 0.5:
                break
            assert b.top >= a.bottom - 0.5 or b.bottom <= a.top + 0.5, (a, b)
