"""Where in the tree of calls the current code runs: which outermost call, inside which run (L-40).

It is kept in a context variable, so that it follows a hook to the thread or loop that runs it.
"""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import Final, NamedTuple

from jevlaya_lab.system_one.context import new_id

__all__ = ["CallScope", "OneCall", "current_call", "enter", "leave"]


class CallScope(NamedTuple):
    """The call and the run that the current code is part of.

    ``defaults_ran`` says that the process-wide hooks have run for what is asked here (L-42).
    """

    call_id: str
    run_id: str | None
    defaults_ran: bool = False


_SCOPE: Final[ContextVar[CallScope | None]] = ContextVar("jevlaya_call", default=None)

current_call: Final = _SCOPE.get
"""Gives the current :class:`CallScope`; ``None`` outside of any call."""

enter: Final = _SCOPE.set
"""Makes a :class:`CallScope` the current one; gives what :data:`leave` takes."""

leave: Final = _SCOPE.reset
"""Goes back to the scope before."""


class OneCall:
    """What happens in the ``with`` block is one call, or a part of the call around it."""

    __slots__ = ("_token",)

    _token: Token[CallScope | None] | None

    def __enter__(self) -> None:
        outermost = current_call() is None
        self._token = enter(CallScope(new_id(), None)) if outermost else None

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            leave(self._token)
