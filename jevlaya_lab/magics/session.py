"""What the magics of one shell share: which Lab they ask, and the user's variables."""

from __future__ import annotations

import json
import keyword
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from IPython.core.error import UsageError

from jevlaya_lab.lab.default import default_lab
from jevlaya_lab.lab.lab import Lab

__all__ = ["Session", "file_path"]


class Session:
    """The state of the magics in one shell.

    Args:
        shell: The shell.

    Attributes:
        lab_name: The variable that holds the Lab; ``None`` for the default Lab.
    """

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.lab_name: str | None = None

    @property
    def variables(self) -> dict[str, Any]:
        """The user's variables."""
        found: dict[str, Any] = self.shell.user_ns
        return found

    def lab(self, name: str | None = None) -> Lab:
        """The Lab that a variable holds now; of no name the session's.

        Raises:
            UsageError: There is no such variable, or it holds something else.
        """
        name = self.lab_name if name is None else name
        if name is None:
            return default_lab()
        found = self.variable(name, "--lab")
        if not isinstance(found, Lab):
            remedy = f"; write {name} = Lab({name})" if hasattr(found, "predict_batch") else ""
            raise UsageError(f"{name} is a {type(found).__name__}, not a Lab{remedy}")
        return found

    def variable(self, name: str, option: str) -> Any:
        """The value of a variable.

        Raises:
            UsageError: There is none of that name.
        """
        if name not in self.variables:
            raise UsageError(f"{option} {name}: there is no variable {name!r}")
        return self.variables[name]

    def questions(self, name: str) -> Mapping[Any, Any]:
        """Questions out of a variable, or else out of a JSON file.

        Raises:
            UsageError: There is neither, or it holds no dict of questions.
        """
        if name in self.variables:
            found = self.variables[name]
        else:
            path = file_path(name)
            if not path.is_file():
                raise UsageError(f"-q {name}: there is no variable and no JSON file of that name")
            try:
                found = json.loads(path.read_text(encoding="utf-8"))
            except (ValueError, RecursionError) as error:
                raise UsageError(f"-q {name}: the file is no JSON in UTF-8: {error}") from None
        if not isinstance(found, Mapping):
            raise UsageError(
                f"-q {name}: questions are a dict of id -> definition, got a {type(found).__name__}"
            )
        return found

    def check_name(self, name: str | None) -> None:
        """See that a result can be assigned to this, before anything is asked.

        Raises:
            UsageError: It is no name of a variable.
        """
        if name is not None and (not name.isidentifier() or keyword.iskeyword(name)):
            raise UsageError(f"-o {name}: this is no name of a variable")

    def assign(self, name: str, value: Any) -> None:
        """Set a variable of the user's."""
        self.shell.push({name: value})


def file_path(name: str) -> Path:
    """The path that somebody wrote.

    Raises:
        UsageError: No file can have that name.
    """
    if "\0" in name:
        raise UsageError(f"{name!r}: a name of a file holds no NUL character")
    try:
        return Path(name).expanduser()
    except RuntimeError as error:  # a ~ of nobody
        raise UsageError(f"{name}: {error}") from None
