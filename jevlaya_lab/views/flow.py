"""Boxes one below the other, with frames around some of them and arrows between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from jevlaya_lab.views.boxes import LINE, TITLE
from jevlaya_lab.views.layout import Arrow, Box, Label, Line, Piece, Rect, Status
from jevlaya_lab.views.text import cut

__all__ = ["Flow"]

GAP = 26.0
"""Between two boxes, room for an arrow."""

_PAD = 14.0


class Flow:
    """A column of boxes that grows downwards.

    Args:
        x: Left edge.
        y: Where the first box begins.
        width: From the left edge to the right one.

    Attributes:
        boxes: The boxes so far.
        arrows: The arrows so far.
        pieces: Frames and their headings, which lie behind the boxes.
        y: Where the next box begins.
    """

    def __init__(self, x: float, y: float, width: float) -> None:
        self.x, self.y, self.width = x, y, width
        self.boxes: list[Box] = []
        self.arrows: list[Arrow] = []
        self.pieces: list[Piece] = []

    def add(
        self, box_id: str, title: str, lines: Sequence[str] = (), status: Status = "done"
    ) -> Box:
        """A box of full width."""
        return self.row([(box_id, title, list(lines), status)], [self.width])[0]

    def row(
        self,
        boxes: Sequence[tuple[str, str, list[str], Status]],
        widths: Sequence[float],
        x: float | None = None,
        gap: float = 14.0,
    ) -> list[Box]:
        """Boxes side by side, all of the same height.

        Args:
            boxes: Id, title, lines and status of each.
            widths: Their widths.
            x: Left edge of the first one.
            gap: Between two.
        """
        n_lines = max(len(lines) for _, _, lines, _ in boxes)
        height = TITLE + n_lines * LINE + (8.0 if n_lines else 2.0)
        at = self.x if x is None else x
        found = []
        for (box_id, title, lines, status), width in zip(boxes, widths, strict=True):
            fitting = tuple(cut(line, width - 16, 12.0) for line in lines)
            shown = cut(title, width - 16, 13.0, bold=True)
            found.append(Box(box_id, at, self.y, width, height, shown, fitting, status))
            at += width + gap
        self.boxes += found
        self.y += height + GAP
        return found

    def arrow(
        self,
        source: str,
        target: str,
        status: Status = "done",
        label: str = "",
        at: float | None = None,
    ) -> None:
        """An arrow between two boxes; ``at`` is its x where it is not in the middle."""
        self.arrows.append(Arrow(source, target, status, label, at))

    @property
    def aside(self) -> float:
        """An x near the right edge, where an arrow crosses no heading of a frame."""
        return self.x + self.width - 44

    @contextmanager
    def frame(
        self, title: str, role: str = "nested", x: float | None = None, note: str = ""
    ) -> Iterator[None]:
        """A frame around the boxes that are added inside of the block, which are narrower.

        Args:
            title: Written at its upper left.
            role: How it is drawn.
            x: Its left edge; it reaches to the right one.
            note: A second, quiet line.
        """
        left = self.x if x is None else x
        before = self.x, self.width
        top, place = self.y, len(self.pieces)
        width = self.x + self.width - left
        head: list[Piece] = [
            Label(
                left + _PAD,
                top + 16,
                cut(title, width - 2 * _PAD, 12.5, True),
                bold=True,
                size=12.5,
            )
        ]
        self.y = top + 32
        if note:
            text = cut(note, width - 2 * _PAD, 11.5)
            head.append(Label(left + _PAD, top + 34, text, "quiet", 11.5))
            self.y += 18
        self.x, self.width = left + _PAD, width - 2 * _PAD
        try:
            yield
        finally:
            self.x, self.width = before
            bottom = self.y - GAP + _PAD
            outline = Rect(left, top, width, bottom - top, role, radius=7.0, label=title)
            self.pieces[place:place] = [outline, *head]
            self.y = bottom + GAP

    def brace(self, x: float, top: float, bottom: float, text: str) -> None:
        """A bracket that joins what begins at ``top`` and ends at ``bottom``."""
        self.pieces.append(
            Line(
                ((x + 7, top), (x, top), (x, bottom), (x + 7, bottom)), "accent", 0, 2.0, label=text
            )
        )
