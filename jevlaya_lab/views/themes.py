"""Colours of the roles, light and dark; dashes, hatches and marks, so that grey print works too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from jevlaya_lab.system_one.errors import InvalidOption

__all__ = [
    "DASHES", "HATCHES", "MARKS", "N_SERIES", "THEMES", "Style", "Theme", "ThemeName", "theme_of",
]  # fmt: skip

ThemeName = Literal["light", "dark"]

DASHES: Final = (
    "solid", (0, (6, 2.5)), (0, (1.5, 1.8)), (0, (7, 2, 1.5, 2)), (0, (11, 3)),
    (0, (4, 1.5, 1.2, 1.5, 1.2, 1.5)), (0, (3, 5)),
)  # fmt: skip
"""Line styles of matplotlib, by number."""

HATCHES: Final = ("", "///", "...", "\\\\\\", "xxx", "---", "ooo", "|||")
"""Patterns of matplotlib, by number."""

MARKS: Final = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")
"""Markers of matplotlib, by number."""


@dataclass(frozen=True, slots=True)
class Style:
    """How a role is drawn: fill, edge, the edge's width, and whether it is dashed."""

    fill: str
    edge: str
    width: float = 1.0
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Theme:
    """The colours of one theme.

    Attributes:
        surface: Behind everything.
        styles: By role. A role that is not there is drawn as ``rest``.
        heat: The lightest and the darkest colour of a scale, as red, green and blue from 0 to 1.
        band: Opacity of areas.
    """

    surface: str
    styles: Mapping[str, Style]
    heat: tuple[tuple[float, float, float], tuple[float, float, float]]
    band: float

    def style(self, role: str) -> Style:
        """How a role is drawn."""
        return self.styles.get(role) or self.styles["rest"]


N_SERIES: Final = 7
"""Colours of series; the next ones begin again, with another dash, mark and hatch."""


def _theme(
    surface: str,
    ink: str,
    quiet: str,
    axis: str,
    grid: str,
    series: tuple[str, ...],
    boxes: dict[str, Style],
    heat: tuple[tuple[float, float, float], tuple[float, float, float]],
    band: float,
) -> Theme:
    flat = {"ink": ink, "quiet": quiet, "axis": axis, "grid": grid, "surface": surface}
    styles = {name: Style(colour, colour) for name, colour in flat.items()}
    # The edge of a surface is what lies behind it: it keeps neighbours apart and draws the hatch.
    styles |= {f"series-{i}": Style(colour, surface, 0.8) for i, colour in enumerate(series)}
    styles |= boxes
    return Theme(surface, styles, heat, band)


# Okabe and Ito's colours, which colour-blind people can tell apart, from dark to light in turn.
LIGHT: Final = _theme(
    "#ffffff", "#1b1b1b", "#555555", "#8a8a8a", "#e0e0e0",
    ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#4d4d4d"),
    {
        "done": Style("#e8f1fa", "#0b5394", 1.2),
        "skipped": Style("#f7f7f7", "#b0b0b0", 1.0, dashed=True),
        "failed": Style("#fbe3d6", "#b3400a", 2.0),
        "nested": Style("#f3f3ee", "#77776b", 1.0),
        "panel": Style("#f6f6f6", "#d5d5d5", 0.8),
        "faded": Style("#767676", "#b8b8b8"),
        "on-fill": Style("#000000", "#000000"),
        "on-dark": Style("#ffffff", "#ffffff"),
        "alarm": Style("#b3400a", "#b3400a", 1.6),
        "accent": Style("#0b5394", "#0b5394", 1.4),
        "rest": Style("#d9d9d9", "#ffffff", 0.8),
        "yellow": Style("#f0e442", "#ffffff", 0.8),
    },
    ((0.95, 0.97, 0.99), (0.03, 0.25, 0.45)),
    0.2,
)  # fmt: skip
DARK: Final = _theme(
    "#14171c", "#ececec", "#b3b8c0", "#7f8792", "#343941",
    ("#56b4e9", "#e69f00", "#2fc598", "#dd97bf", "#e8743b", "#3d8fd1", "#c9c9c9"),
    {
        "done": Style("#1b2f42", "#7cc0ef", 1.2),
        "skipped": Style("#191c21", "#5a616b", 1.0, dashed=True),
        "failed": Style("#4a2414", "#ff9a66", 2.0),
        "nested": Style("#1e2127", "#8b8f7f", 1.0),
        "panel": Style("#1c2026", "#3c424b", 0.8),
        "faded": Style("#8d949e", "#565d66"),
        "on-fill": Style("#000000", "#000000"),
        "on-dark": Style("#ffffff", "#ffffff"),
        "alarm": Style("#ff9a66", "#ff9a66", 1.6),
        "accent": Style("#7cc0ef", "#7cc0ef", 1.4),
        "rest": Style("#868c95", "#14171c", 0.8),
        "yellow": Style("#f0e442", "#14171c", 0.8),
    },
    ((0.12, 0.15, 0.19), (0.60, 0.84, 0.97)),
    0.28,
)  # fmt: skip

THEMES: Final[Mapping[str, Theme]] = {"light": LIGHT, "dark": DARK}


def theme_of(name: str) -> Theme:
    """The theme of that name.

    Raises:
        InvalidOption: There is none.
    """
    if not isinstance(name, str) or name not in THEMES:
        raise InvalidOption(f"theme is {' or '.join(map(repr, THEMES))}, got {name!r}")
    return THEMES[name]
