"""A laid out picture and its writers: PNG, SVG and HTML."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path
from typing import Any, Final

from jevlaya_lab.markup import figure, page, readable, svg_description
from jevlaya_lab.system_one.errors import InvalidInput, InvalidOption
from jevlaya_lab.system_one.files import whole_file
from jevlaya_lab.views.drawing import DPI, figure_of
from jevlaya_lab.views.layout import Layout
from jevlaya_lab.views.themes import THEMES, theme_of

__all__ = ["Picture"]

_COLOURS: Final = 128
"""Of a PNG: all of a theme's, with the shades between them at the edges of letters."""

_MOST_PIXELS: Final = 30_000
"""Of a side: what readers of PNG can be relied on to take."""


class Picture:
    """A picture that a notebook shows as PNG, with its description as plain text.

    Every writer has the description: PNG in its metadata, SVG as ``title`` and ``desc``, HTML as
    the alternative text, with the facts as tables below.

    Args:
        layout: What to draw.
    """

    def __init__(self, layout: Layout) -> None:
        if not isinstance(layout, Layout):
            raise InvalidInput(f"a Picture is made of a Layout, got a {type(layout).__name__}")
        self.layout = layout

    @property
    def alt(self) -> str:
        """The picture in words."""
        return readable(self.layout.alt)

    def to_png(self, scale: float = 2.0, theme: str = "light") -> bytes:
        """Draw it as PNG, on a background of its own.

        Args:
            scale: Pixels of the file per pixel of the layout; 2 is sharp on most screens. A
                picture that would be higher than 30,000 pixels is drawn smaller.
            theme: ``light`` or ``dark``.

        Returns:
            The bytes of a PNG file.

        Raises:
            InvalidOption: The scale is no positive number, or there is no such theme.
        """
        if isinstance(scale, bool) or not isinstance(scale, (int, float)) or not 0 < scale <= 20:
            raise InvalidOption(f"scale is a number above 0 and up to 20, got {scale!r}")
        look = theme_of(theme)
        scale = min(scale, _MOST_PIXELS / max(self.layout.width, self.layout.height))
        buffer = io.BytesIO()
        figure_of(self.layout, look).savefig(buffer, format="png", dpi=DPI * scale)
        title = readable(self.layout.title)
        return _small(buffer, DPI * scale, Title=title, Description=self.alt)

    def to_svg(self, theme: str = "light") -> str:
        """Draw it as SVG; texts are outlines, so that it looks the same everywhere.

        Args:
            theme: ``light`` or ``dark``.

        Returns:
            The text of an SVG file, with a title and a description.

        Raises:
            InvalidOption: There is no such theme.
        """
        look = theme_of(theme)
        buffer = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure_of(self.layout, look).savefig(buffer, format="svg", metadata=nothing)
        return _described(buffer.getvalue(), self.layout)

    def to_html(self, theme: str = "auto") -> str:
        """A piece of HTML that needs nothing else: the picture, its text, its facts as tables.

        Args:
            theme: ``auto`` holds both pictures, of which a page shows the one that fits its
                reader; ``light`` or ``dark`` holds that one.

        Raises:
            InvalidOption: There is no such theme.
        """
        if theme != "auto":
            if theme not in THEMES:
                raise InvalidOption(f"theme is 'auto', 'light' or 'dark', got {theme!r}")
            images = [self.to_png(theme=theme)]
        else:
            images = [self.to_png(), self.to_png(theme="dark")]
        tables = [(table.title, table.headers, table.rows) for table in self.layout.tables]
        return str(figure(images, self.alt, self.layout.width, self.layout.height, tables))

    def save(self, path: str | os.PathLike[str], theme: str | None = None) -> Path:
        """Write it to ``path``, whose end says what is written; missing folders are made.

        Args:
            path: A name that ends in ``.png``, ``.svg`` or ``.html``.
            theme: ``light`` or ``dark``; left out, HTML has both and the others are light.

        Returns:
            The path.

        Raises:
            InvalidOption: The name ends in something else, or there is no such theme.
        """
        kind = Path(path).suffix.lower()
        if kind == ".png":
            image = self.to_png(theme=theme or "light")
            with whole_file(path, binary=True) as file:
                file.write(image)
        elif kind in (".svg", ".html"):
            text = (
                self.to_svg(theme or "light")
                if kind == ".svg"
                else page(self.layout.title, self.to_html(theme or "auto"))
            )
            with whole_file(path) as file:
                file.write(text)
        else:
            raise InvalidOption(
                "pictures are written as PNG, SVG and HTML; give a name that ends in .png, .svg or "
                f".html, not {str(path)!r}"
            )
        return Path(path)

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        size = {"width": int(self.layout.width), "height": int(self.layout.height)}
        return {"image/png": self.to_png(), "text/plain": self.alt}, {"image/png": size}

    def __repr__(self) -> str:
        return f"<Picture: {self.alt}>"


def _small(image: io.BytesIO, dpi: float, **texts: str) -> bytes:
    """A PNG with a palette, a third of the size: saved notebooks hold many of them."""
    from PIL import Image, PngImagePlugin

    info = PngImagePlugin.PngInfo()
    for name, text in texts.items():
        info.add_itxt(name, text)
    few = (
        Image.open(image)
        .convert("RGB")
        .quantize(_COLOURS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    )
    written = io.BytesIO()
    few.save(written, format="png", optimize=True, dpi=(dpi, dpi), pnginfo=info)
    return written.getvalue()


def _described(svg: str, layout: Layout) -> str:
    """An SVG of matplotlib's in pixels, with its title and description first."""
    _, opened, drawing = re.split(r"(<svg [^>]*>)", svg, maxsplit=1)
    size = f'width="{layout.width:.0f}" height="{layout.height:.0f}"'
    opened = re.sub(r'width="[^"]*" height="[^"]*"', size, opened, count=1)
    attributes, inside = svg_description(layout.title, layout.alt)
    drawing = re.sub(r"<metadata>.*?</metadata>\s*", "", drawing, count=1, flags=re.S)
    head = '<?xml version="1.0" encoding="utf-8"?>'
    return f"{head}\n{opened[:-1]} {attributes}>\n {inside}{drawing}"
