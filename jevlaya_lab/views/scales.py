"""From values to pixels: linear, logarithmic and by category, with ticks at round values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jevlaya_lab.views.text import plain

__all__ = ["Scale", "by_category", "linear", "logarithmic", "tick_text"]


@dataclass(frozen=True)
class Scale:
    """Where values lie on an axis.

    Attributes:
        low: The value at ``start``.
        high: The value at ``end``.
        start: Pixel of ``low``.
        end: Pixel of ``high``; smaller than ``start`` where the axis points upwards.
        ticks: Values with what is written at them.
        log: Whether equal distances are equal ratios.
        categories: What the whole numbers stand for, where the axis is one of categories.
    """

    low: float
    high: float
    start: float
    end: float
    ticks: tuple[tuple[float, str], ...]
    log: bool = False
    categories: tuple[Any, ...] = ()

    def __call__(self, value: float) -> float:
        """The pixel of a value; of a category its number."""
        low, high = self.low, self.high
        if self.log:
            value, low, high = math.log10(value), math.log10(low), math.log10(high)
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    @property
    def step(self) -> float:
        """Pixels between two categories."""
        return abs(self.end - self.start) / max(1, len(self.categories))


def linear(
    values: Sequence[float], start: float, end: float, *, zero: bool = False, pad: float = 0.04
) -> Scale:
    """A scale that holds all values.

    Args:
        values: Finite numbers; none at all give 0 to 1.
        start: Pixel of the low end.
        end: Pixel of the high end.
        zero: Begin or end at zero where that lies outside.
        pad: Room at either end that is no zero, as a share of the whole.
    """
    low, high = (min(values), max(values)) if len(values) else (0.0, 1.0)
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if low == high:
        room = abs(low) * 0.1 or 1.0
        low, high = low - (0 if zero and low == 0 else room), high + room
    room = (high - low) * pad
    low, high = (
        (low if zero and low == 0 else low - room),
        (high if zero and high == 0 else high + room),
    )
    step = _round_step((high - low) / max(2, min(8, abs(end - start) / 60)))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    ticks = tuple((i * step, tick_text(i * step, step)) for i in range(first, last + 1))
    return Scale(low, high, start, end, ticks)


def logarithmic(values: Sequence[float], start: float, end: float) -> Scale:
    """A scale of powers of ten that holds all values, which are greater than zero."""
    low, high = (min(values), max(values)) if len(values) else (1.0, 10.0)
    room = max(0.04 * math.log10(high / low), 0.08)
    low, high = low * 10**-room, high * 10**room
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    many = -(-len(decades) // 9)
    found = [10.0**i for i in decades if i % many == 0 and low <= 10.0**i <= high]
    if len(found) < 3:
        found = [m * 10.0**i for i in decades for m in (1, 2, 5) if low <= m * 10.0**i <= high]
    ticks = tuple((value, tick_text(value, value)) for value in found)
    if len(found) < 2:  # less than an octave or so
        ticks = linear([low, high], start, end, pad=0.0).ticks
    return Scale(low, high, start, end, ticks, log=True)


def by_category(labels: Sequence[Any], start: float, end: float) -> Scale:
    """A scale with one place per label, each in the middle of its share."""
    names = tuple((float(i), name_of(label)) for i, label in enumerate(labels))
    return Scale(-0.5, max(1, len(names)) - 0.5, start, end, names, categories=tuple(labels))


def name_of(value: Any) -> str:
    """A category as text; a missing one says so."""
    value = plain(value) if not isinstance(value, (list, tuple, dict, set)) else value
    if value is None:
        return "(missing)"
    if isinstance(value, float):
        return f"{value:g}"
    return " ".join(str(value).split()) or "(empty)"


def tick_text(value: float, step: float) -> str:
    """A tick's number, with the decimals that tell it from the next one."""
    size = abs(value)
    if size < step * 1e-6:
        return "0"
    for unit, name in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if size >= unit and (size >= 1e5 or step >= unit):
            return tick_text(value / unit, step / unit) + name if size < 1e15 else f"{value:.1e}"
    if size < 1e-4:
        return f"{value:.4g}"
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    if abs(step * 10**decimals - round(step * 10**decimals)) > 1e-6:  # steps of 0.25
        decimals += 1
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text and decimals > 2 else text


def _round_step(raw: float) -> float:
    power = 10.0 ** math.floor(math.log10(raw))
    return next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * (1 - 1e-9))
