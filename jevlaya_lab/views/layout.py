"""What a picture is made of, as data: boxes, arrows and bars in pixels. Tests read these."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

__all__ = ["Arrow", "Bar", "Box", "Layout", "Status"]

Status = Literal["done", "skipped", "failed"]
"""``done`` happened, ``skipped`` did not happen in this run, ``failed`` is where it broke."""


@dataclass(frozen=True, slots=True)
class Box:
    """A step: a title and lines of text at (x, y), its top left corner, y growing downwards."""

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
    """From one box to another; ``status`` says whether that way was taken."""

    source: str
    target: str
    status: Status = "done"
    label: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """A piece of the time bar: where it lies, its label and its milliseconds."""

    x: float
    y: float
    width: float
    height: float
    label: str
    ms: float


@dataclass(frozen=True, slots=True)
class Layout:
    """A whole picture: size in pixels, title, pieces, and the same said in words (``alt``)."""

    width: float
    height: float
    title: str
    subtitle: str
    alt: str
    boxes: tuple[Box, ...] = ()
    arrows: tuple[Arrow, ...] = ()
    bars: tuple[Bar, ...] = field(default=())
    bar_caption: str = ""

    def box(self, box_id: str) -> Box:
        """The box with that id.

        Raises:
            KeyError: There is none.
        """
        for box in self.boxes:
            if box.id == box_id:
                return box
        raise KeyError(box_id)
