"""What a picture is made of, as data, in pixels with y growing downwards. Tests read these.

Every piece has a ``role``: what it stands for. A theme gives each role its colours, and no role
differs from another one in colour alone: shapes, dashes, hatches and text say the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

__all__ = [
    "WIDTH",
    "Area",
    "Arrow",
    "Bar",
    "Box",
    "Label",
    "Layout",
    "Line",
    "Mark",
    "Piece",
    "Rect",
    "Status",
    "Table",
]

WIDTH: Final = 880.0
"""Of a picture: what a notebook shows without scaling it down."""

Status = Literal["done", "skipped", "failed"]
"""``done`` happened, ``skipped`` did not happen in this run, ``failed`` is where it broke."""

Anchor = Literal["left", "middle", "right"]


@dataclass(frozen=True, slots=True)
class Box:
    """A step: a title and lines of text at (x, y), its top left corner."""

    id: str
    x: float
    y: float
    width: float
    height: float
    title: str
    lines: tuple[str, ...] = ()
    status: Status = "done"


@dataclass(frozen=True, slots=True)
class Arrow:
    """From one box to another; ``status`` says whether that way was taken.

    ``at`` is the x of an arrow downwards; ``None`` takes the middle of the narrower box.
    """

    source: str
    target: str
    status: Status = "done"
    label: str = ""
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Bar:
    """A piece of the time bar: where it lies, its label and its milliseconds."""

    x: float
    y: float
    width: float
    height: float
    label: str
    ms: float
    role: str = "rest"
    hatch: int = 0


@dataclass(frozen=True, slots=True)
class Rect:
    """A filled rectangle.

    Attributes:
        hatch: Which pattern lies over it; 0 is none.
        shade: From 0 to 1, of the role ``heat``: how dark.
        label: What it stands for, in words; it is not written.
    """

    x: float
    y: float
    width: float
    height: float
    role: str = "panel"
    hatch: int = 0
    radius: float = 0.0
    shade: float = 0.0
    label: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A line through points; ``dash`` is which pattern, 0 is none."""

    points: tuple[tuple[float, float], ...]
    role: str = "axis"
    dash: int = 0
    width: float = 1.2
    arrow: bool = False
    label: str = ""


@dataclass(frozen=True, slots=True)
class Area:
    """A see-through surface with straight edges, such as the band around a line."""

    points: tuple[tuple[float, float], ...]
    role: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class Label:
    """Text whose middle line is at y. ``size`` is the height of the font in pixels.

    ``shade`` is that of the ``heat`` on which it stands, for the role ``on-heat``.
    """

    x: float
    y: float
    text: str
    role: str = "ink"
    size: float = 12.0
    anchor: Anchor = "left"
    bold: bool = False
    upright: bool = False
    shade: float = 0.0


@dataclass(frozen=True, slots=True)
class Mark:
    """A point with a shape, by its number."""

    x: float
    y: float
    role: str
    shape: int = 0
    size: float = 7.0
    label: str = ""


Piece = Rect | Line | Area | Label | Mark


@dataclass(frozen=True, slots=True)
class Table:
    """The facts of a picture as text, which a page shows beside it."""

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""


@dataclass(frozen=True, slots=True)
class Layout:
    """A whole picture: size in pixels, title, pieces, and the same said in words (``alt``).

    ``pieces`` are drawn in their order, behind the arrows, boxes and bars.
    """

    width: float
    height: float
    title: str
    subtitle: str
    alt: str
    boxes: tuple[Box, ...] = ()
    arrows: tuple[Arrow, ...] = ()
    bars: tuple[Bar, ...] = field(default=())
    bar_caption: str = ""
    pieces: tuple[Piece, ...] = ()
    tables: tuple[Table, ...] = ()

    def box(self, box_id: str) -> Box:
        """The box with that id.

        Raises:
            KeyError: There is none.
        """
        for box in self.boxes:
            if box.id == box_id:
                return box
        raise KeyError(box_id)

    @property
    def texts(self) -> list[str]:
        """What is written in the picture outside of boxes, in order."""
        return [piece.text for piece in self.pieces if isinstance(piece, Label)]

    def rects(self, role: str) -> list[Rect]:
        """Its rectangles of one role."""
        return [each for each in self.pieces if isinstance(each, Rect) and each.role == role]

    def lines(self, role: str) -> list[Line]:
        """Its lines of one role."""
        return [each for each in self.pieces if isinstance(each, Line) and each.role == role]

    def marks(self, role: str) -> list[Mark]:
        """Its marks of one role."""
        return [each for each in self.pieces if isinstance(each, Mark) and each.role == role]
