"""What a hook can tell about the run that it is in, for contexts of this package and of ``laya``.

A context of ``laya`` 0.4.15 names neither the method that was called nor its place in the tree.
"""

from __future__ import annotations

import sys
from typing import Any, Final

__all__ = ["checkpoint_of", "entry_of", "is_long", "scope_of"]

_CALLS: Final = frozenset({"predict", "predict_batch", "system_one"})
_BETWEEN: Final = frozenset({"laya", "torch", "contextlib", "functools"})


def scope_of(ctx: Any) -> str:
    """``router`` for a request to a Router, ``agent`` for an agent's own run."""
    scope = getattr(ctx, "scope", None)
    if isinstance(scope, str) and scope:
        return scope
    return "agent" if getattr(ctx, "router", None) is None else "router"


def entry_of(ctx: Any) -> str:
    """The method that was called; ``""`` where the context does not say."""
    entry = getattr(ctx, "entry", None)
    return entry if isinstance(entry, str) else ""


def checkpoint_of(ctx: Any) -> str:
    """The checkpoint's name; ``""`` where there is none yet."""
    model = getattr(ctx, "model", None)
    return "" if model is None else str(model)


def is_long(ctx: Any) -> bool | None:
    """Whether the run is a ``predict_long``; ``None`` where that cannot be known.

    ``laya`` does not say so in the context, so the calling functions are looked at. They are out of
    sight under its ``hooks_timeout``, which runs a hook on a thread of its own.
    """
    if entry_of(ctx):
        return entry_of(ctx) == "predict_long"
    called = False
    frame = sys._getframe(1)
    while True:
        module = str(frame.f_globals.get("__name__", ""))
        name = frame.f_code.co_name
        if module.startswith("laya."):
            if name == "predict_long":
                return True
            called = called or name in _CALLS
        elif called and module.partition(".")[0] not in _BETWEEN:
            return False  # whoever called laya; what called them is another call
        if frame.f_back is None:
            return False if called else None
        frame = frame.f_back
