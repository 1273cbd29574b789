"""What all widgets here have: controls, a picture beneath them that a saved notebook keeps, errors.

The picture is an ordinary PNG output of the cell, replaced in place while the controls are used: a
page without a kernel shows the last one, and no page shows it twice.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import ipywidgets
from IPython.display import display

from jevlaya_lab.markup import Markup, text
from jevlaya_lab.views.furniture import heading
from jevlaya_lab.views.layout import WIDTH, Layout
from jevlaya_lab.views.picture import Picture

__all__ = ["Shown", "error_text", "label", "notice"]


class Shown:
    """Controls with a picture beneath.

    Args:
        controls: The widget with all controls.
        picture: The first picture.
        summary: One line that says what this is, for pages without widgets.

    Attributes:
        box: The controls.
        picture: The picture that is shown now.
    """

    def __init__(self, controls: Any, picture: Picture, summary: str) -> None:
        self.box = controls
        self.picture = picture
        self._summary = summary
        # Of the cells that show it; a cell that is executed again leaves a dead one behind.
        self._outputs: deque[Any] = deque(maxlen=4)

    def show(self, picture: Picture) -> None:
        """Replace the picture, wherever it is displayed."""
        self.picture = picture
        for output in list(self._outputs):
            output.update(picture)

    def _ipython_display_(self) -> None:
        # For pages without widgets: one line, instead of the names of all controls.
        display({**self.box._repr_mimebundle_(), "text/plain": f"<{self._summary}>"}, raw=True)
        output = display(self.picture, display_id=True)
        if output is not None:  # there is none outside of IPython
            self._outputs.append(output)

    def __repr__(self) -> str:
        return f"<{self._summary}>"


def notice(title: str, words: str) -> Picture:
    """A picture that only says something: there is nothing to draw yet."""
    pieces, height = heading(title, words)
    return Picture(Layout(WIDTH, height, title, words, f"{title}. {words}", pieces=tuple(pieces)))


def error_text(error: BaseException) -> Markup:
    """An error as a line of text, with its type; it can be read without colours."""
    try:
        words = " ".join(str(error).split())
    except Exception:  # an error of the user's own making
        words = "its text cannot be read"
    return Markup(f"<b>{text(type(error).__name__)}</b>: {text(words, 2000)}")


def label(words: str) -> ipywidgets.HTML:
    """A quiet heading over a control."""
    return ipywidgets.HTML(Markup(f"<b>{text(words)}</b>"))
