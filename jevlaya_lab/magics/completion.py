"""The tab key in a line of ``%jevlaya``."""

from __future__ import annotations

import argparse
import glob
from collections.abc import Iterable, Mapping
from typing import Any, Final

import pandas as pd

from jevlaya_lab.experiments import NAMES
from jevlaya_lab.frames import Trace
from jevlaya_lab.lab.lab import Lab
from jevlaya_lab.magics.commands import CELL_COMMANDS, COMMANDS, parser_of
from jevlaya_lab.magics.session import Session
from jevlaya_lab.system_one.errors import InvalidOption
from jevlaya_lab.system_one.events import EVENTS

__all__ = ["Completion"]

_MAGICS: Final = ("%jevlaya", "%%jevlaya")


class Completion:
    """Commands, options, and what may follow an option: variables of its kind, checkpoints, files.

    Args:
        session: Knows the variables and the Lab.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def install(self) -> None:
        """Answer the tab key of the shell."""
        for magic in _MAGICS:
            self._session.shell.set_hook("complete_command", self.complete, str_key=magic)

    def uninstall(self) -> None:
        """Answer no more."""
        known = self._session.shell.strdispatchers["complete_command"].strs
        for magic in _MAGICS:
            known.pop(magic, None)

    def complete(self, _: Any, event: Any) -> list[str]:
        """What may stand where the cursor is.

        Args:
            event: IPython's, with ``command``, ``symbol`` and ``text_until_cursor``.
        """
        words = event.text_until_cursor.split()
        if event.text_until_cursor[-1:].isspace() or not words:
            words.append("")
        if len(words) <= 2:
            return list(COMMANDS if event.command == "%jevlaya" else CELL_COMMANDS)
        command = COMMANDS.get(words[1])
        if command is None:
            return []
        before, here = words[-2], words[-1]
        if words[1] == "experiment" and len(words) == 3 and not here.startswith("-"):
            return list(NAMES)
        try:
            actions = parser_of(command, words[2:])._actions
        except InvalidOption:  # no such experiment
            return []
        options = {text: each for each in actions for text in each.option_strings}
        action = options.get(before)
        if action is not None and action.nargs != 0:
            return self._values(action, here)
        if here.startswith("-"):
            return list(options)
        if words[1] == "examine":
            return self._hooks()
        if words[1] in ("load", "unload"):
            return self._checkpoints(resident=words[1] == "unload")
        if words[1] == "export":
            return glob.glob(f"{glob.escape(here)}*")
        return []

    def _values(self, action: argparse.Action, here: str) -> list[str]:
        """What may follow an option."""
        if action.choices is not None:
            return [str(each) for each in action.choices]
        name = action.dest
        if name == "model":
            return self._checkpoints()
        if name == "questions":
            questions = [each for each in self._variables(Mapping) if self._asks(each)]
            return [*questions, *glob.glob(f"{glob.escape(here)}*.json")]
        kinds: dict[str, Any] = {
            "lab": Lab,
            "trace": Trace,
            "data": (pd.DataFrame, pd.Series, list, tuple, str, dict),
            "out": object,
        }
        return self._variables(kinds[name]) if name in kinds else []

    def _variables(self, kind: Any) -> list[str]:
        hidden = self._session.shell.user_ns_hidden
        return [
            name
            for name, value in self._session.variables.items()
            if isinstance(value, kind) and name not in hidden and not name.startswith("_")
        ]

    def _hooks(self) -> list[str]:
        """Variables that hold hooks, and classes of them."""
        return [
            name
            for name in self._variables(object)
            if any(hasattr(self._session.variables[name], event) for event in EVENTS)
        ]

    def _asks(self, name: str) -> bool:
        """Whether a dict holds questions."""
        values = list(self._session.variables[name].values())
        return bool(values) and all(isinstance(v, Mapping) and "type" in v for v in values)

    def _checkpoints(self, resident: bool = False) -> list[str]:
        """The names that the router knows; no Lab is made for the sake of the tab key."""
        from jevlaya_lab.lab import default
        from jevlaya_lab.system_one.registry import BUILT_IN

        name = self._session.lab_name
        lab = default.current_lab() if name is None else self._session.variables.get(name)
        router = getattr(lab, "agent", None)
        known: Iterable[str] = getattr(router, "loaded" if resident else "registered", ())
        return list(known) if lab is not None else [] if resident else list(BUILT_IN)
