"""Errors about one row of the data, which runtimes name by its number in what they were given."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from jevlaya_lab.system_one import errors
from jevlaya_lab.system_one.errors import InvalidInput

__all__ = ["of_row"]

_NUMBERED: Final = re.compile(r"(?:request (?P<request>\d+): )?(?:state (?P<state>\d+)(?= ))?")


def of_row(error: Exception, label: Callable[[int], Any] | None) -> Exception:
    """The same error, naming the row of the data instead of a request or a state of one call.

    Args:
        error: What a call raised; one that names no row is given back as it is.
        label: The index label of a row, by its number in that call; ``None`` names no row.
    """
    if not isinstance(error, InvalidInput) or type(error).__module__ != errors.__name__:
        return error
    text = str(error)
    found = _NUMBERED.match(text)
    # Inside a request there is one state, so that its own number says nothing.
    number = None if found is None else found["request"] or found["state"]
    if found is None or number is None:
        return error
    rest = ("the state" if found["state"] else "") + text[found.end() :]
    if label is not None:
        with suppress(IndexError):  # hooks made more states than there are rows
            rest = f"index {label(int(number))!r}: {rest}"
    return type(error)(rest)
