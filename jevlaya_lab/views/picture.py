"""A laid out picture and its writer: PNG, drawn by matplotlib without any global state."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from jevlaya_lab.system_one.errors import InvalidOption
from jevlaya_lab.system_one.files import whole_file
from jevlaya_lab.views.layout import Bar, Box, Layout

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Picture"]

_DPI: Final = 100
_INK: Final = "#1b1b1b"
_PALE: Final = "#8a8a8a"
# Fill and edge per status; statuses also differ in line style and text, so grey print works.
_FILL: Final = {"done": "#e8f1fa", "skipped": "#f6f6f6", "failed": "#fbe3d6"}
_EDGE: Final = {"done": "#0b5394", "skipped": "#b5b5b5", "failed": "#b3400a"}
# Okabe and Ito's colour-blind safe colours, ordered so that neighbours differ in lightness.
_BARS: Final = {
    "encode": "#56b4e9",
    "collate": "#0072b2",
    "forward": "#f0e442",
    "decode": "#009e73",
    "start hooks": "#cc79a7",
    "other": "#dddddd",
}


class Picture:
    """A picture that a notebook shows as PNG, with its description as plain text.

    Args:
        layout: What to draw.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    @property
    def alt(self) -> str:
        """The picture in words."""
        return self.layout.alt

    def to_png(self, scale: float = 2.0) -> bytes:
        """Draw it.

        Args:
            scale: Pixels of the file per pixel of the layout; 2 is sharp on most screens.

        Returns:
            The bytes of a PNG file.
        """
        buffer = io.BytesIO()
        self._figure().savefig(
            buffer, format="png", dpi=_DPI * scale, metadata={"Description": self.alt}
        )
        return buffer.getvalue()

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the PNG to ``path``; missing folders are made.

        Returns:
            The path.

        Raises:
            InvalidOption: The name does not end in ``.png``.
        """
        if Path(path).suffix.lower() != ".png":
            raise InvalidOption(
                f"pictures are written as PNG; give a name that ends in .png, not {str(path)!r}"
            )
        image = self.to_png()
        with whole_file(path, binary=True) as file:
            file.write(image)
        return Path(path)

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        size = {"width": int(self.layout.width), "height": int(self.layout.height)}
        return {"image/png": self.to_png(), "text/plain": self.alt}, {"image/png": size}

    def __repr__(self) -> str:
        return f"<Picture: {self.alt}>"

    def _figure(self) -> Figure:
        from matplotlib.figure import Figure

        layout = self.layout
        figure = Figure(figsize=(layout.width / _DPI, layout.height / _DPI), facecolor="white")
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_xlim(0, layout.width)
        axes.set_ylim(layout.height, 0)
        axes.axis("off")
        _text(axes, 24, 28, layout.title, fontsize=13, weight="bold", color=_INK)
        _text(axes, 24, 52, layout.subtitle, fontsize=9, color="#555555")
        for arrow in layout.arrows:
            _draw_arrow(axes, layout, arrow)
        for box in layout.boxes:
            _draw_box(axes, box)
        for bar in layout.bars:
            _draw_bar(axes, bar)
        if layout.bars:
            last = layout.bars[0]
            _text(
                axes,
                last.x,
                last.y + last.height + 16,
                layout.bar_caption,
                fontsize=7.1,
                color=_INK,
            )
        return figure


def _text(axes: Any, x: float, y: float, text: str, **style: Any) -> None:
    """Text as it is written: a dollar sign starts no formula."""
    axes.text(x, y, text, parse_math=False, va="center", **style)


def _draw_box(axes: Any, box: Box) -> None:
    from matplotlib.patches import FancyBboxPatch

    quiet = box.status == "skipped"
    axes.add_patch(
        FancyBboxPatch(
            (box.x, box.y),
            box.width,
            box.height,
            boxstyle="round,pad=0,rounding_size=5",
            facecolor=_FILL[box.status],
            edgecolor=_EDGE[box.status],
            linewidth=2.0 if box.status == "failed" else 1.2,
            linestyle="--" if quiet else "-",
            zorder=2,
        )
    )
    colour = _PALE if quiet else _INK
    _text(
        axes,
        box.x + 9,
        box.y + 14,
        box.title,
        fontsize=9.5,
        weight="bold",
        color=colour,
        zorder=3,
    )
    for i, line in enumerate(box.lines):
        _text(axes, box.x + 9, box.y + 34 + i * 17, line, fontsize=8.5, color=colour, zorder=3)


def _draw_arrow(axes: Any, layout: Layout, arrow: Any) -> None:
    source, target = layout.box(arrow.source), layout.box(arrow.target)
    if source.y == target.y:
        start = (source.x + source.width, source.y + source.height / 2)
        end = (target.x, target.y + target.height / 2)
    else:
        narrow = source if source.width < target.width else target
        x = narrow.x + narrow.width / 2
        start, end = (x, source.y + source.height), (x, target.y)
    taken = arrow.status == "done"
    axes.annotate(
        "",
        xy=end,
        xytext=start,
        arrowprops={
            "arrowstyle": "-|>",
            "color": _INK if taken else "#c4c4c4",
            "linewidth": 1.4 if taken else 1.0,
            "linestyle": "-" if taken else "--",
            "shrinkA": 0,
            "shrinkB": 0,
        },
        zorder=1,
    )
    if arrow.label and taken:
        _text(
            axes,
            (start[0] + end[0]) / 2 + 6,
            (start[1] + end[1]) / 2,
            arrow.label,
            fontsize=8,
            color="#555555",
        )


def _draw_bar(axes: Any, bar: Bar) -> None:
    from matplotlib.patches import Rectangle

    axes.add_patch(
        Rectangle(
            (bar.x, bar.y),
            bar.width,
            bar.height,
            facecolor=_BARS.get(bar.label, "#dddddd"),
            edgecolor="white",
            linewidth=0.8,
            zorder=2,
        )
    )
    if bar.width > 8.0 * len(bar.label) + 8:
        _text(
            axes,
            bar.x + bar.width / 2,
            bar.y + bar.height / 2,
            bar.label,
            fontsize=8.5,
            color="#000000",
            ha="center",
            zorder=3,
        )
