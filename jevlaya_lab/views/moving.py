"""A layout further down, as a part of a larger one."""

from __future__ import annotations

from dataclasses import replace

from jevlaya_lab.views.layout import Area, Layout, Line, Piece

__all__ = ["moved"]


def moved(layout: Layout, down: float, prefix: str = "") -> Layout:
    """The layout ``down`` pixels further down, with ``prefix`` before the ids of its boxes."""
    return replace(
        layout,
        pieces=tuple(_moved(piece, down) for piece in layout.pieces),
        boxes=tuple(replace(box, y=box.y + down, id=prefix + box.id) for box in layout.boxes),
        arrows=tuple(
            replace(arrow, source=prefix + arrow.source, target=prefix + arrow.target)
            for arrow in layout.arrows
        ),
        bars=tuple(replace(bar, y=bar.y + down) for bar in layout.bars),
    )


def _moved(piece: Piece, down: float) -> Piece:
    if isinstance(piece, (Line, Area)):
        return replace(piece, points=tuple((x, y + down) for x, y in piece.points))
    return replace(piece, y=piece.y + down)
