"""The Lab that is used where none is named: one per process, made when it is first needed."""

from __future__ import annotations

import threading

from jevlaya_lab.lab.lab import Lab
from jevlaya_lab.system_one.errors import InvalidInput

__all__ = ["check_lab", "current_lab", "default_lab", "set_default_lab"]

_lock = threading.Lock()
_default: Lab | None = None


def default_lab() -> Lab:
    """The Lab of the accessor and of the magics, where they are given no other.

    The first use makes it, ``Lab()``: a router with the embedded checkpoint.
    """
    global _default
    with _lock:
        if _default is None:
            _default = Lab()
        return _default


def current_lab() -> Lab | None:
    """The same if it was made already; nothing is made."""
    return _default


def set_default_lab(lab: Lab | None) -> None:
    """Use this Lab from now on; ``None`` lets the next use make a new one.

    Raises:
        InvalidInput: It is no Lab.
    """
    global _default
    if lab is not None:
        check_lab(lab)
    with _lock:
        _default = lab


def check_lab(lab: object) -> Lab:
    """The same object, if it is a Lab.

    Raises:
        InvalidInput: It is something else; the message says how to make one of it.
    """
    if not isinstance(lab, Lab):
        remedy = "; write Lab(...) around it" if hasattr(lab, "predict_batch") else ""
        raise InvalidInput(f"a Lab belongs here, got a {type(lab).__name__}{remedy}")
    return lab
