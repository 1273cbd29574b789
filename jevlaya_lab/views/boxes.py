"""Boxes, arrows and the time bar of a layout as plain pieces, from back to front."""

from __future__ import annotations

from jevlaya_lab.views.layout import Arrow, Bar, Box, Label, Layout, Line, Piece, Rect
from jevlaya_lab.views.text import text_width

__all__ = ["LINE", "TITLE", "drawn"]

TITLE = 26.0
"""Height of a box with its title alone."""

LINE = 17.0
"""Height of each line of text in it."""


def drawn(layout: Layout) -> list[Piece]:
    """Everything that is drawn, as plain pieces from back to front."""
    found = list(layout.pieces)
    for arrow in layout.arrows:
        found += _arrow(layout, arrow)
    for box in layout.boxes:
        found += _box(box)
    for bar in layout.bars:
        found += _bar(bar)
    if layout.bars and layout.bar_caption:
        first = layout.bars[0]
        found.append(Label(first.x, first.y + first.height + 16, layout.bar_caption, size=11.0))
    return found


def _box(box: Box) -> list[Piece]:
    role = "faded" if box.status == "skipped" else "ink"
    return [
        Rect(box.x, box.y, box.width, box.height, box.status, radius=5.0, label=box.id),
        Label(box.x + 9, box.y + 14, box.title, role, 13.0, bold=True),
        *(
            Label(box.x + 9, box.y + 34 + i * LINE, line, role, 12.0)
            for i, line in enumerate(box.lines)
        ),
    ]


def _arrow(layout: Layout, arrow: Arrow) -> list[Piece]:
    source, target = layout.box(arrow.source), layout.box(arrow.target)
    if source.y == target.y:
        start = (source.x + source.width, source.y + source.height / 2)
        end = (target.x, target.y + target.height / 2)
    else:
        narrow = source if source.width < target.width else target
        x = narrow.x + narrow.width / 2 if arrow.at is None else arrow.at
        start, end = (x, source.y + source.height), (x, target.y)
    taken = arrow.status == "done"
    role, dash, width = ("ink", 0, 1.4) if taken else ("faded", 1, 1.0)
    found: list[Piece] = [Line((start, end), role, dash, width, arrow=True, label=arrow.label)]
    if arrow.label and taken:
        found.append(
            Label((start[0] + end[0]) / 2 + 6, (start[1] + end[1]) / 2, arrow.label, "quiet", 11.5)
        )
    return found


def _bar(bar: Bar) -> list[Piece]:
    found: list[Piece] = [
        Rect(bar.x, bar.y, bar.width, bar.height, bar.role, bar.hatch, label=bar.label)
    ]
    if not bar.hatch and bar.width > text_width(bar.label, 12.0) + 8:
        found.append(
            Label(
                bar.x + bar.width / 2,
                bar.y + bar.height / 2,
                bar.label,
                "on-fill",
                12.0,
                "middle",
            )
        )
    return found
