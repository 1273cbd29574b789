"""How wide text is, without a font at hand; and text cut to a width or into lines."""

from __future__ import annotations

import math
import unicodedata
from typing import Any, Final

import pandas as pd

__all__ = ["cut", "milliseconds", "number", "plain", "shortened", "text_width", "wrapped"]

# Hundredths of the font's height, for the printable ASCII characters of DejaVu Sans.
_ASCII: Final = (
    32, 40, 46, 84, 64, 95, 78, 27, 39, 39, 50, 84, 32, 36, 32, 34, 64, 64, 64, 64, 64, 64, 64, 64,
    64, 64, 34, 34, 84, 84, 84, 53, 100, 68, 69, 70, 77, 63, 58, 77, 75, 29, 29, 66, 56, 86, 75,
    79, 60, 79, 69, 63, 61, 73, 68, 99, 69, 61, 69, 39, 34, 39, 84, 50, 50, 61, 63, 55, 63, 62, 35,
    63, 63, 28, 28, 58, 28, 97, 63, 61, 63, 63, 41, 52, 39, 63, 59, 82, 59, 59, 52, 64, 34, 64, 84,
)  # fmt: skip
_OTHERS: Final = {"·": 32, "–": 50, "…": 100, "—": 100}
_BOLD: Final = 1.11
_ROUNDED: Final = 1.03
"""Glyphs are put on whole pixels, which makes lines a little wider."""


def text_width(text: str, size: float, bold: bool = False) -> float:
    """About how many pixels wide a text is.

    Args:
        text: One line.
        size: Height of the font in pixels.
        bold: Whether it is bold.
    """
    total = sum(map(_hundredths, text))
    return total / 100 * size * _ROUNDED * (_BOLD if bold else 1.0)


def cut(text: str, width: float, size: float, bold: bool = False) -> str:
    """The text in one line, with an ellipsis where it is wider than ``width`` pixels."""
    text = " ".join(text.split())
    if text_width(text, size, bold) <= width:
        return text
    scale = size / 100 * _ROUNDED * (_BOLD if bold else 1.0)
    room, end = width - _hundredths("…") * scale, 0
    for character in text:
        room -= _hundredths(character) * scale
        if room < 0:
            break
        end += 1
    return text[:end].rstrip() + "…"


def wrapped(text: str, width: float, size: float, bold: bool = False, most: int = 3) -> list[str]:
    """The text in lines of at most ``width`` pixels; what ``most`` lines do not hold is cut."""
    lines: list[str] = []
    words = text.split()
    while words and len(lines) < most - 1:
        n = 1
        while n < len(words) and text_width(" ".join(words[: n + 1]), size, bold) <= width:
            n += 1
        lines.append(cut(" ".join(words[:n]), width, size, bold))
        words = words[n:]
    if words:
        lines.append(cut(" ".join(words), width, size, bold))
    return lines


def shortened(values: list[str], most: int, joint: str = ", ") -> str:
    """The first values in a row, and how many more there are."""
    more = len(values) - most
    return joint.join(values) if more <= 1 else f"{joint.join(values[:most])} and {more} more"


def number(value: Any) -> str:
    """A number with about three digits that mean something; missing ones are a dash."""
    value = plain(value)
    if value is None:
        return "–"
    value = float(value)
    if not math.isfinite(value):
        return "∞" if value > 0 else "−∞"
    size = abs(value)
    if size >= 1e15 or 0 < size < 1e-3:
        return f"{value:.2g}"
    if size >= 1000 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.{1 if size >= 100 else 2 if size >= 1 else 3}f}".rstrip("0").rstrip(".")


def milliseconds(value: float) -> str:
    """Milliseconds with about three digits that mean something; long times in seconds."""
    if value >= 10_000:
        return f"{value / 1000:,.1f} s"
    if 0 < value < 0.005:
        return "<0.01 ms"
    return f"{value:,.0f} ms" if value >= 100 else f"{value:.{1 if value >= 10 else 2}f} ms"


def plain(value: Any) -> Any:
    """A cell's value, with ``None`` for missing."""
    return None if value is pd.NA or value is pd.NaT or value != value else value


def _hundredths(character: str) -> int:
    code = ord(character)
    if 32 <= code < 127:
        return _ASCII[code - 32]
    if character in _OTHERS:
        return _OTHERS[character]
    if unicodedata.east_asian_width(character) in "WF":
        return 100
    return 0 if unicodedata.combining(character) else 84 if code >= 0x2000 else 66
