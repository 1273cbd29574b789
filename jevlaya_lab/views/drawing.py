"""A layout drawn by matplotlib: no pyplot, no settings of the process, texts as they stand."""

from __future__ import annotations

import unicodedata
from functools import lru_cache, singledispatch
from typing import TYPE_CHECKING, Any, Final

from jevlaya_lab.views.boxes import drawn
from jevlaya_lab.views.layout import Area, Label, Layout, Line, Mark, Rect
from jevlaya_lab.views.themes import DASHES, HATCHES, MARKS, Theme

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["DPI", "figure_of"]

DPI: Final = 100
_POINT: Final = 72 / DPI
"""Points of a pixel."""

_FALLBACKS: Final = (
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "Noto Sans JP",
    "WenQuanYi Zen Hei",
    "Hiragino Sans",
    "Yu Gothic",
    "Microsoft YaHei",
    "Malgun Gothic",
    "Noto Sans Devanagari",
    "Noto Sans Thai",
)
"""Fonts for scripts that the first one does not have, where they are installed."""


def figure_of(layout: Layout, theme: Theme) -> Figure:
    """The figure of a layout, one unit of its axes to a pixel."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(layout.width / DPI, layout.height / DPI), facecolor=theme.surface)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, layout.width)
    axes.set_ylim(layout.height, 0)
    axes.axis("off")
    for order, piece in enumerate(drawn(layout)):
        _draw(piece, axes, theme, order)
    return figure


@singledispatch
def _draw(piece: Any, axes: Any, theme: Theme, order: int) -> None:
    raise TypeError(f"a {type(piece).__name__} is no piece of a picture")


@_draw.register
def _(piece: Rect, axes: Any, theme: Theme, order: int) -> None:
    from matplotlib.patches import FancyBboxPatch, Rectangle

    style = theme.style(piece.role)
    look: dict[str, Any] = {
        "facecolor": _heat(theme, piece.shade) if piece.role == "heat" else style.fill,
        "edgecolor": theme.surface if piece.role == "heat" else style.edge,
        "linewidth": style.width,
        "linestyle": "--" if style.dashed else "-",
        "zorder": order,
    }
    if piece.hatch:
        look["hatch"] = HATCHES[piece.hatch % len(HATCHES)]
    if piece.radius:
        corner = min(piece.radius, piece.width / 2, piece.height / 2)
        axes.add_artist(
            FancyBboxPatch(
                (piece.x, piece.y),
                piece.width,
                piece.height,
                boxstyle=f"round,pad=0,rounding_size={corner}",
                **look,
            )
        )
    else:
        axes.add_artist(Rectangle((piece.x, piece.y), piece.width, piece.height, **look))


@_draw.register
def _(piece: Line, axes: Any, theme: Theme, order: int) -> None:
    from matplotlib.lines import Line2D

    colour = theme.style(piece.role).fill
    dash: Any = DASHES[piece.dash % len(DASHES)]
    if piece.arrow:
        axes.annotate(
            "",
            xy=piece.points[-1],
            xytext=piece.points[-2],
            arrowprops={
                "arrowstyle": "-|>",
                "color": colour,
                "linewidth": piece.width,
                "linestyle": dash,
                "shrinkA": 0,
                "shrinkB": 0,
            },
            zorder=order,
        )
    points = piece.points[:-1] if piece.arrow else piece.points
    if len(points) > 1:
        x, y = zip(*points, strict=True)
        axes.add_artist(
            Line2D(
                x,
                y,
                color=colour,
                linewidth=piece.width,
                linestyle=dash,
                solid_joinstyle="round",
                zorder=order,
            )
        )


@_draw.register
def _(piece: Area, axes: Any, theme: Theme, order: int) -> None:
    from matplotlib.patches import Polygon

    colour = theme.style(piece.role).fill
    axes.add_artist(
        Polygon(piece.points, facecolor=colour, alpha=theme.band, linewidth=0, zorder=order)
    )


@_draw.register
def _(piece: Mark, axes: Any, theme: Theme, order: int) -> None:
    from matplotlib.lines import Line2D

    style = theme.style(piece.role)
    axes.add_artist(
        Line2D(
            [piece.x],
            [piece.y],
            linestyle="",
            marker=MARKS[piece.shape % len(MARKS)],
            markersize=piece.size * _POINT,
            markerfacecolor=style.fill,
            markeredgecolor=theme.surface,
            markeredgewidth=0.6,
            zorder=order,
        )
    )


@_draw.register
def _(piece: Label, axes: Any, theme: Theme, order: int) -> None:
    if piece.role == "on-heat":
        red, green, blue = _heat(theme, piece.shade)
        light = 0.299 * red + 0.587 * green + 0.114 * blue > 0.55
        colour = "#000000" if light else "#ffffff"
    else:
        colour = theme.style(piece.role).fill
    axes.text(
        piece.x,
        piece.y,
        _written(piece.text),
        parse_math=False,  # a dollar sign starts no formula
        fontsize=piece.size * _POINT,
        fontweight="bold" if piece.bold else "normal",
        fontfamily=list(_families()),
        color=colour,
        ha={"left": "left", "middle": "center", "right": "right"}[piece.anchor],
        va="center_baseline",
        rotation=90 if piece.upright else 0,
        rotation_mode="default",
        zorder=order,
    )


def _heat(theme: Theme, shade: float) -> tuple[float, float, float]:
    low, high = theme.heat
    red, green, blue = (a + (b - a) * shade for a, b in zip(low, high, strict=True))
    return red, green, blue


def _written(text: str) -> str:
    """The text as the font can show it: in one line, with a sign for what it does not have."""
    text = unicodedata.normalize("NFC", text)
    return "".join(
        each if ord(each) < 127 and each >= " " else " " if each.isspace() else _known(each)
        for each in text
    )


@lru_cache(maxsize=1)
def _families() -> tuple[str, ...]:
    """The font that comes with matplotlib, then those of this machine for other scripts."""
    from matplotlib.font_manager import fontManager

    installed = {font.name for font in fontManager.ttflist}
    return ("DejaVu Sans", *(name for name in _FALLBACKS if name in installed))


@lru_cache(maxsize=4096)
def _known(character: str) -> str:
    from matplotlib.font_manager import findfont, get_font

    kind = unicodedata.category(character)
    if kind in ("Cc", "Cf", "Cs"):
        return "" if kind == "Cf" else "�"
    code = ord(character)
    there = any(get_font(findfont(name)).get_char_index(code) for name in _families())
    return character if there else "�"
