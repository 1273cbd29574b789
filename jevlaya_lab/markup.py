"""HTML for notebooks out of plain values: whatever is not :class:`Markup` made here is escaped.

Only inline styles that follow the notebook's own colours, so that light and dark ones can be read
and nothing is fetched; what a site strips away leaves a plain table.
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

__all__ = [
    "Markup",
    "card",
    "details",
    "facts",
    "figure",
    "join",
    "listed",
    "note",
    "page",
    "readable",
    "safely",
    "svg_description",
    "table",
    "text",
]

_LINE: Final = "1px solid rgba(128,128,128,.35)"
_CARD: Final = (
    f"border:{_LINE};border-radius:6px;padding:8px 12px;margin:4px 0;max-width:64em;"
    "overflow-x:auto;color:inherit;background:transparent"
)
_CELL: Final = (
    f"text-align:left;vertical-align:top;padding:2px 14px 2px 0;border:0;border-bottom:{_LINE};"
    "color:inherit;background:transparent;white-space:pre-wrap;max-width:40em"
)
_UNREADABLE: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Characters that a page or a notebook's file cannot hold."""


class Markup(str):
    """HTML that is put into a page as it is."""

    __slots__ = ()


def text(value: Any, limit: int = 200) -> Markup:
    """A value as text: escaped, shortened, and apart from what stands around it.

    Args:
        value: Anything; ``None`` shows as a dash, Markup stays as it is.
        limit: Characters after which an ellipsis follows.
    """
    if isinstance(value, Markup):
        return value
    if value is None:
        return Markup("–")
    shown = value if isinstance(value, str) else _written(value)
    if len(shown) > limit:
        shown = shown[: limit - 1] + "…"
    shown = shown.replace("\r\n", "\n").replace("\r", "\n")
    # In an element of its own, right-to-left text does not turn round the text beside it.
    return Markup(f"<bdi>{html.escape(_UNREADABLE.sub('�', shown))}</bdi>")


def card(kind: str, title: Any, *parts: Markup) -> Markup:
    """The frame around what one object shows.

    Args:
        kind: Name of its class.
        title: Its own name, or ``None``.
        *parts: What stands in it.
    """
    named = "" if title is None else f" {text(title)}"
    inner = "".join(parts)
    # The classes keep MathJax from reading dollar signs as formulas.
    return Markup(
        f'<div class="jevlaya tex2jax_ignore mathjax_ignore" style="{_CARD}">'
        f"<div><b>{text(kind)}</b>{named}</div>{inner}</div>"
    )


def facts(pairs: Iterable[tuple[str, Any]]) -> Markup:
    """A table of names and values; pairs without a value are left out."""
    rows = "".join(
        f'<tr><th scope="row" style="{_CELL};font-weight:normal;opacity:.75">{text(name)}</th>'
        f'<td style="{_CELL}">{text(value)}</td></tr>'
        for name, value in pairs
        if value is not None
    )
    return Markup(f'<table style="border-collapse:collapse;margin:6px 0">{rows}</table>')


def table(headers: Sequence[Any], rows: Iterable[Sequence[Any]]) -> Markup:
    """A table with a head; empty where there are no rows."""
    body = "".join(
        "<tr>" + "".join(f'<td style="{_CELL}">{text(cell)}</td>' for cell in row) + "</tr>"
        for row in rows
    )
    if not body:
        return Markup("")
    head = "".join(f'<th scope="col" style="{_CELL}">{text(name)}</th>' for name in headers)
    return Markup(
        f'<table style="border-collapse:collapse;margin:6px 0"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table>"
    )


def note(value: Any) -> Markup:
    """A line of quiet text."""
    return Markup(f'<div style="opacity:.75;margin:2px 0">{text(value, 400)}</div>')


def details(summary: Any, *parts: Markup) -> Markup:
    """Something that opens when it is clicked."""
    inner = f"<summary>{text(summary)}</summary>{''.join(parts)}"
    return Markup(f'<details style="margin:4px 0">{inner}</details>')


def figure(
    images: Sequence[bytes],
    alt: str,
    width: float,
    height: float,
    tables: Iterable[tuple[str, Sequence[str], Iterable[Sequence[Any]]]] = (),
) -> Markup:
    """A picture within the page itself, with its text and its facts as tables to open.

    Args:
        images: One PNG, or a light one and a dark one, of which the reader's setting takes one.
        alt: What the picture shows, in words.
        width: Pixels across, where there is room for them.
        height: Pixels down.
        tables: Each with a title, headers and rows.
    """
    light, *dark = (f"data:image/png;base64,{base64.b64encode(i).decode()}" for i in images)
    sources = "".join(
        f'<source media="(prefers-color-scheme: dark)" srcset="{each}">' for each in dark
    )
    image = (
        f'<picture>{sources}<img src="{light}" alt="{_attribute(alt)}" width="{width:.0f}" '
        f'height="{height:.0f}" style="max-width:100%;height:auto"></picture>'
    )
    facts_of = "".join(
        details(title or "The same as a table", table(headers, rows))
        for title, headers, rows in tables
    )
    words = details("The picture in words", _whole(alt))
    return Markup(
        '<figure class="jevlaya tex2jax_ignore mathjax_ignore" style="margin:4px 0;color:inherit">'
        f"{image}<figcaption>{words}{facts_of}</figcaption></figure>"
    )


def page(title: str, body: str) -> Markup:
    """A whole page around HTML that was made here, in the reader's own light or dark."""
    return Markup(
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{_attribute(title)}</title></head>"
        '<body style="font-family:sans-serif;max-width:64em;margin:1em auto;padding:0 1em">'
        f"{body}</body></html>\n"
    )


def svg_description(title: str, alt: str) -> tuple[Markup, Markup]:
    """What tells readers of an SVG what it shows: attributes of its root, and what stands first."""
    inside = f"<title>{_attribute(title)}</title>\n <desc>{_attribute(alt)}</desc>"
    return Markup(f'role="img" aria-label="{_attribute(alt)}"'), Markup(inside)


def _attribute(value: str) -> Markup:
    """Text for an attribute, or alone in an element, whole and in one line."""
    return Markup(html.escape(readable(value)))


def readable(value: str) -> str:
    """Plain text in one line, without what a page or a notebook's file cannot hold."""
    return _UNREADABLE.sub("�", " ".join(value.split()))


def _whole(value: str) -> Markup:
    """A paragraph of quiet text, whole."""
    return Markup(f'<div style="opacity:.75;margin:2px 0">{text(value, len(value) + 1)}</div>')


def listed(values: Iterable[Any], nothing: str = "none") -> Markup:
    """Values in a line, or a word for none."""
    return Markup(", ".join(text(value, 60) for value in values) or text(nothing))


def join(*parts: Any) -> Markup:
    """Parts side by side."""
    return Markup("".join(text(part) for part in parts))


def safely(shown: Any, build: Callable[[Any], Markup]) -> str:
    """The HTML of an object, or its text form where making that fails."""
    try:
        return str(build(shown))
    except Exception:
        return f"<pre>{text(shown, 2000)}</pre>"


def _written(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    try:
        return repr(value) if isinstance(value, (dict, list, tuple)) else str(value)
    except Exception:
        return f"<{type(value).__name__}>"
