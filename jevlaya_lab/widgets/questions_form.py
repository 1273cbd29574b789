"""Questions as controls: one row each, with its id, type, instructions and options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import ipywidgets

from jevlaya_lab.system_one.definitions import QUESTION_TYPES
from jevlaya_lab.system_one.errors import InvalidQuestion
from jevlaya_lab.system_one.questions import prepare
from jevlaya_lab.widgets.shown import label

__all__ = ["QuestionsForm"]

_HINTS = {
    "choice": "one option per line: label, or label: what it means",
    "score": "one level per line, the lowest first",
    "noul": "nothing here: the question is a statement that holds or does not",
}


class QuestionsForm:
    """Edit questions.

    Args:
        questions: The first ones; anything that ``predict`` takes.

    Attributes:
        box: The widget.

    Raises:
        InvalidQuestion: One of them cannot be answered.
    """

    def __init__(self, questions: Mapping[Any, Any]) -> None:
        prepare(questions)
        self._rows: list[_Row] = []
        self._list = ipywidgets.VBox()
        add = ipywidgets.Button(description="Add a question", icon="plus")
        add.on_click(lambda _: self.add(self._free_name(), {"type": "noul"}))
        self.box = ipywidgets.VBox([self._list, add])
        for name, definition in questions.items():
            self.add(name, definition)

    def add(self, name: Any, definition: Mapping[str, Any]) -> None:
        """Put a question below the others."""
        self._rows.append(_Row(str(name), definition, self._remove))
        self._list.children = [row.box for row in self._rows]

    @property
    def questions(self) -> dict[str, dict[str, Any]]:
        """What the rows say, as plain definitions.

        Raises:
            InvalidQuestion: Two have the same id, there is none, or one cannot be answered.
        """
        found: dict[str, dict[str, Any]] = {}
        for row in self._rows:
            name = row.name.value.strip()
            if name in found:
                raise InvalidQuestion(f"two questions have the id {name!r}; give each its own")
            found[name] = row.definition
        if not found:
            raise InvalidQuestion("there is no question; add one")
        prepare(found)
        return found

    def _free_name(self) -> str:
        taken = {row.name.value.strip() for row in self._rows}
        names = (f"question_{i}" for i in range(1, len(taken) + 2))
        return next(name for name in names if name not in taken)

    def _remove(self, row: _Row) -> None:
        self._rows.remove(row)
        self._list.children = [each.box for each in self._rows]


class _Row:
    """The controls of one question."""

    def __init__(
        self, name: str, definition: Mapping[str, Any], remove: Callable[[_Row], None]
    ) -> None:
        kind = definition["type"]
        self._before = dict(definition)
        wide = ipywidgets.Layout(width="98%")
        self.name = ipywidgets.Text(name, layout=ipywidgets.Layout(width="14em"))
        self.kind = ipywidgets.ToggleButtons(
            options=list(QUESTION_TYPES), value=kind, style={"button_width": "auto"}
        )
        self.instructions = ipywidgets.Text(
            str(definition.get("instructions") or ""), placeholder="what is asked", layout=wide
        )
        self.options = ipywidgets.Textarea(
            _written(definition.get("criteria")) if kind != "noul" else "", rows=3, layout=wide
        )
        gone = ipywidgets.Button(description="Remove", tooltip=f"remove {name}")
        gone.on_click(lambda _: remove(self))
        self._written = (kind, self.options.value)
        self.kind.observe(lambda _: self._hint(), "value")
        self._hint()
        self.box = ipywidgets.VBox(
            [
                ipywidgets.HBox(
                    [label("id"), self.name, self.kind, gone],
                    layout=ipywidgets.Layout(flex_flow="row wrap"),
                ),
                self.instructions,
                self.options,
            ]
        )

    @property
    def definition(self) -> dict[str, Any]:
        """What the controls say; what they do not show stays while type and options stay."""
        kind, words = self.kind.value, self.options.value
        instructions = self.instructions.value.strip()
        if (kind, words) == self._written:
            return {**self._before, "instructions": instructions}
        found: dict[str, Any] = {"type": kind, "instructions": instructions}
        if kind != "noul":
            lines = [line.strip() for line in words.splitlines() if line.strip()]
            found["criteria"] = lines if kind == "score" else self._options(lines)
        return found

    def _options(self, lines: list[str]) -> dict[str, str | None]:
        found: dict[str, str | None] = {}
        for line in lines:
            name, _, meaning = line.partition(":")
            if name.strip() in found:
                raise InvalidQuestion(
                    f"question {self.name.value!r} has the option {name.strip()!r} twice; "
                    "give each its own name"
                )
            found[name.strip()] = meaning.strip() or None
        return found

    def _hint(self) -> None:
        self.options.placeholder = _HINTS[self.kind.value]
        self.options.disabled = self.kind.value == "noul"


def _written(criteria: Any) -> str:
    if isinstance(criteria, Mapping):
        return "\n".join(
            str(name) if meaning is None else f"{name}: {meaning}"
            for name, meaning in criteria.items()
        )
    return "\n".join(str(each) for each in criteria or ())
