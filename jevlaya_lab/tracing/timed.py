"""Hooks of ``laya`` objects, timed: there a run does not say which hook ran and how long it took.

A stand-in runs the hook as it is and notes into ``ctx.hook_log`` what dispatch notes here.
"""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final
from weakref import WeakKeyDictionary

from jevlaya_lab.system_one.call_tree import CallScope, enter, leave
from jevlaya_lab.system_one.events import EVENTS, BaseHook, Entry
from jevlaya_lab.system_one.hook_log import HookLog, error_text, snapshot

__all__ = ["time_installed", "timed_function", "timed_hook", "untime_installed"]

ScopeOf = Callable[[Any, str], CallScope | None]
"""Gives, for a context and an event, the run inside which a hook runs."""

_lock: Final = threading.Lock()
_users: Final[WeakKeyDictionary[Any, int]] = WeakKeyDictionary()


class _Timed:
    """A hook that runs another one's methods and notes them."""

    def __init__(self, hook: Any, position: int, origin: str, scope_of: ScopeOf) -> None:
        self.hook = hook
        self._scope_of = scope_of
        self._entry = Entry(hook, type(hook).__qualname__, origin)
        self._position = position

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.hook, name)
        if name not in EVENTS or not callable(method) or _does_nothing(method, name):
            return method
        return _noting(method, name, self._entry, self._position, self._scope_of)


def timed_hook(hook: Any, position: int, origin: str, scope_of: ScopeOf) -> Any:
    """A stand-in for a hook; it is called by the hook's own name in warnings."""
    return type(type(hook).__name__, (_Timed,), {})(hook, position, origin, scope_of)


def timed_function(
    function: Callable[[Any], Any], event: str, position: int, scope_of: ScopeOf
) -> Any:
    """The same for a function that is given to one call."""
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return _noting(function, event, Entry(function, name, "call"), position, scope_of)


def time_installed(owner: Any, scope_of: ScopeOf) -> None:
    """Put stand-ins for the installed hooks of a ``laya`` object, until as many calls end it."""
    with _lock:
        _users[owner] = _users.get(owner, 0) + 1
        if _users[owner] == 1:
            hooks: Sequence[Any] = owner.hooks
            owner.hooks = [
                timed_hook(hook, i, "installed", scope_of) for i, hook in enumerate(hooks)
            ]


def untime_installed(owner: Any) -> None:
    """Put the hooks back; those that were added meanwhile stay."""
    with _lock:
        _users[owner] -= 1
        if not _users[owner]:
            del _users[owner]
            owner.hooks = [h.hook if isinstance(h, _Timed) else h for h in owner.hooks]


def _does_nothing(method: Any, event: str) -> bool:
    """Whether a hook merely inherits an event from a base class that does nothing."""
    function = getattr(method, "__func__", None)
    if function is getattr(BaseHook, event):
        return True
    return getattr(function, "__qualname__", "") == f"BaseHook.{event}"


@contextmanager
def _within(scope: CallScope | None) -> Iterator[None]:
    token = None if scope is None else enter(scope)
    try:
        yield
    finally:
        if token is not None:
            leave(token)


def _noting(
    method: Callable[[Any], Any], event: str, entry: Entry, position: int, scope_of: ScopeOf
) -> Any:
    def run(ctx: Any) -> Any:
        scope = scope_of(ctx, event)
        log = ctx.__dict__.setdefault("hook_log", HookLog())
        before, began = snapshot(ctx), time.perf_counter()

        def note(error: BaseException | None) -> None:
            ended = time.perf_counter()
            text = None if error is None else error_text(error)
            log.append((event, entry, position, began, ended, before, snapshot(ctx), text))

        try:
            with _within(scope):
                result = method(ctx)
        except BaseException as exc:
            note(exc)
            raise
        if not inspect.isawaitable(result):
            note(None)
            return result

        async def finish() -> Any:
            try:
                with _within(scope):
                    found = await result
            except BaseException as exc:
                note(exc)
                raise
            note(None)
            return found

        return finish()

    return run
