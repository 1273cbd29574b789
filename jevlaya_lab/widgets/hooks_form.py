"""Hooks as controls: which of them run, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets

from jevlaya_lab.markup import note

__all__ = ["HooksForm", "ready_made"]


def ready_made() -> list[Any]:
    """Fresh ready-made hooks that keep nothing outside of memory."""
    from jevlaya_lab.contrib_hooks import ExactCache, LatencyMetrics, Redaction

    return [Redaction(), ExactCache(), LatencyMetrics()]


class HooksForm:
    """Pick hooks and put them in order.

    Args:
        hooks: All that can be picked, in their first order.
        picked: How many of the first ones are picked at the start.

    Attributes:
        box: The widget.
    """

    def __init__(self, hooks: Sequence[Any], picked: int = 0) -> None:
        self._rows = [_Row(hook, i < picked, self._move) for i, hook in enumerate(hooks)]
        self._list = ipywidgets.VBox()
        self.box = ipywidgets.VBox(
            [ipywidgets.HTML(note("They run from top to bottom, at the end as at the start.")),
             self._list]
        )  # fmt: skip
        self._place()

    @property
    def hooks(self) -> list[Any]:
        """Those that are picked, in their order."""
        return [row.hook for row in self._rows if row.picked.value]

    @property
    def order(self) -> list[str]:
        """The names of all hooks, from top to bottom."""
        return [row.picked.description for row in self._rows]

    def pick(self, name: str, picked: bool = True) -> None:
        """Pick a hook by its name, or leave it out."""
        self._row(name).picked.value = picked

    def move(self, name: str, by: int) -> None:
        """Move a hook up (negative) or down by so many places."""
        self._move(self._row(name), by)

    def _row(self, name: str) -> _Row:
        return next(row for row in self._rows if row.picked.description == name)

    def _move(self, row: _Row, by: int) -> None:
        at = self._rows.index(row)
        self._rows.insert(min(max(at + by, 0), len(self._rows) - 1), self._rows.pop(at))
        self._place()

    def _place(self) -> None:
        for i, row in enumerate(self._rows):
            row.up.disabled, row.down.disabled = i == 0, i == len(self._rows) - 1
        self._list.children = [row.box for row in self._rows]


class _Row:
    """The controls of one hook."""

    def __init__(self, hook: Any, picked: bool, move: Callable[[_Row, int], None]) -> None:
        name = type(hook).__name__
        self.hook = hook
        self.picked = ipywidgets.Checkbox(
            picked, description=name, indent=False, layout=ipywidgets.Layout(width="16em")
        )
        narrow = ipywidgets.Layout(width="5em")
        self.up = ipywidgets.Button(description="Up", tooltip=f"{name} earlier", layout=narrow)
        self.down = ipywidgets.Button(description="Down", tooltip=f"{name} later", layout=narrow)
        self.up.on_click(lambda _: move(self, -1))
        self.down.on_click(lambda _: move(self, 1))
        self.box = ipywidgets.HBox([self.picked, self.up, self.down])
