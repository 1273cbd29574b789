"""Milliseconds across a picture, with long times in which nothing ran cut out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from jevlaya_lab.views.furniture import TEXT
from jevlaya_lab.views.layout import Label, Line, Piece, Rect
from jevlaya_lab.views.scales import linear
from jevlaya_lab.views.text import text_width

__all__ = ["TimeAxis", "clock", "time_axis"]

Floats = npt.NDArray[np.float64]

_CUT: Final = 30.0
"""Pixels that a cut takes."""

_MOST: Final = 6


@dataclass(frozen=True)
class TimeAxis:
    """Where moments lie; ``knots`` are moments and ``pixels`` their places, in order.

    Attributes:
        knots: Moments in milliseconds on the trace's clock.
        pixels: Where they lie.
        cuts: Pairs of moments between which nothing ran.
    """

    knots: Floats
    pixels: Floats
    cuts: tuple[tuple[float, float], ...] = ()

    def __call__(self, moments: Any) -> Any:
        """Pixels of moments, one or many."""
        return np.interp(moments, self.knots, self.pixels)

    @property
    def start(self) -> float:
        """The first moment."""
        return float(self.knots[0])

    @property
    def per_pixel(self) -> float:
        """Milliseconds of a pixel outside of cuts."""
        spans, widths = np.diff(self.knots), np.diff(self.pixels)
        longest = int(np.argmax(widths))
        return float(spans[longest] / max(widths[longest], 1e-9))

    def draw(self, top: float, bottom: float) -> list[Piece]:
        """Ticks below the plot, and the cuts as fields across it."""
        pieces: list[Piece] = []
        free = float("-inf")
        for a, b in self.cuts:
            left, right = float(self(a)), float(self(b))
            pieces.append(Rect(left, top, right - left, bottom - top, "skipped", label="cut"))
            text, middle = clock(b - a), (left + right) / 2
            half = text_width(text, 10.5) / 2
            if middle - half > free:
                pieces.append(Label(middle, top - 7, text, "quiet", 10.5, "middle"))
                free = middle + half + 4
        last = float("-inf")
        for moment, text in self._ticks():
            at, half = float(self(moment)), text_width(text, TEXT) / 2
            pieces.append(Line(((at, bottom), (at, bottom + 4)), "axis", width=1.0))
            if at - half < last + 10:
                continue
            last = at + half
            pieces.append(Label(at, bottom + 14, text, "quiet", TEXT, "middle"))
        return pieces

    def _ticks(self) -> list[tuple[float, str]]:
        if self.cuts:
            moments = [self.start, *(b for _, b in self.cuts)]
            return [(moment, clock(moment - self.start)) for moment in moments]
        scale = linear([0.0, float(self.knots[-1]) - self.start], 0.0, 800.0, zero=True, pad=0.0)
        unit, name = (1000.0, "s") if scale.high >= 10_000 else (1.0, "ms")
        return [
            (self.start + value, f"{value / unit:,.10g} {name}")
            for value, _ in scale.ticks
            if value <= scale.high
        ]


def time_axis(start: Floats, end: Floats, left: float, right: float) -> TimeAxis:
    """An axis that holds all spans.

    Args:
        start: When each begins, in milliseconds.
        end: When each ends.
        left: Pixel of the first moment.
        right: Pixel of the last one.
    """
    first, last = float(start.min()), float(max(end.max(), start.max()))
    if last <= first:
        last = first + 1.0
    order = np.argsort(start)
    reached = np.maximum.accumulate(end[order])
    before, after = reached[:-1], start[order][1:]
    gaps = after - before
    busy = last - first - float(gaps[gaps > 0].sum())
    long = np.flatnonzero(gaps > max(0.15 * (last - first), 0.5 * busy))
    long = np.sort(long[np.argsort(-gaps[long])][:_MOST])
    cuts = tuple((float(before[i]), float(after[i])) for i in long)
    idle = sum(b - a for a, b in cuts)
    scale = (right - left - _CUT * len(cuts)) / max(last - first - idle, 1e-9)
    knots, pixels = [first], [left]
    for a, b in cuts:
        pixels.append(pixels[-1] + (a - knots[-1]) * scale)
        pixels.append(pixels[-1] + _CUT)
        knots += [a, b]
    return TimeAxis(np.array([*knots, last]), np.array([*pixels, right]), cuts)


def clock(ms: float) -> str:
    """A span of time with its unit, in about three digits."""
    for unit, name in ((3_600_000.0, "h"), (60_000.0, "min"), (1000.0, "s")):
        if ms >= 2 * unit or (name == "s" and ms >= 1000):
            return f"{ms / unit:.3g} {name}"
    return f"{ms:.3g} ms"
