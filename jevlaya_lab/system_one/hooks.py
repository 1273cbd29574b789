"""The lists that hooks are kept in: process-wide, installed, per call, in this order.

A hook is an object with any of the methods of :class:`Hook`. What is put into a list is checked
here (L-2, L-37, L-42).
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from inspect import getattr_static
from types import FunctionType
from typing import Any, Final, TypeVar
from weakref import WeakSet

from jevlaya_lab.system_one.call_tree import current_call
from jevlaya_lab.system_one.calling import ChainLock
from jevlaya_lab.system_one.context import PredictContext
from jevlaya_lab.system_one.dispatch import ActiveHooks
from jevlaya_lab.system_one.errors import InvalidHook, InvalidOption
from jevlaya_lab.system_one.events import EVENTS, BaseHook, Entry, Hook

__all__ = [
    "EVENTS",
    "ActiveHooks",
    "BaseHook",
    "CallableArg",
    "Hook",
    "HookArg",
    "HookRegistry",
    "add_default_hook",
    "add_listener",
    "clear_default_hooks",
    "default_hooks",
    "entries",
    "listed",
    "remove_default_hook",
    "remove_listener",
    "set_default_hooks",
]

PredictCallable = Callable[[PredictContext], Any]
HookArg = Any
"""One hook, a list or tuple of hooks, or ``None``."""
CallableArg = PredictCallable | Sequence[PredictCallable] | None


class _Function:
    """A plain callable given as ``on_predict_start=`` or ``on_predict_end=``, as a hook."""

    def __init__(self, event: str, function: PredictCallable) -> None:
        if not callable(function) or isinstance(function, type):
            raise InvalidHook(f"{event}= takes a function of the context, got {function!r}")
        setattr(self, event, function)
        self.function = function


def entries(
    origin: str,
    hooks: HookArg = None,
    on_predict_start: CallableArg = None,
    on_predict_end: CallableArg = None,
) -> tuple[Entry, ...]:
    """Check hooks and bring the three ways to give them into one ordered tuple.

    Raises:
        InvalidHook: An entry is a class, a bare callable, or has none of the event methods.
    """
    if hooks is None and on_predict_start is None and on_predict_end is None:
        return ()
    found = [_entry(origin, hook) for hook in listed(hooks)]
    for event, functions in (
        ("on_predict_start", on_predict_start),
        ("on_predict_end", on_predict_end),
    ):
        for function in listed(functions):
            hook = _Function(event, function)
            name = getattr(function, "__qualname__", None) or type(function).__qualname__
            found.append(Entry(hook, name, origin))
    return tuple(found)


def listed(value: Any) -> Sequence[Any]:
    """One thing, several of them, or ``None``, as a sequence."""
    if value is None:
        return ()
    return value if isinstance(value, (list, tuple)) else (value,)


def _entry(origin: str, hook: Any) -> Entry:
    kind = type(hook)
    if kind not in _checked or not _NAMES.isdisjoint(_own_names(hook)):
        _check(hook)
        if all(type(getattr_static(kind, event, None)) in _PLAIN for event in EVENTS):
            _checked.add(kind)
    return Entry(hook, kind.__qualname__, origin)


def _own_names(hook: Any) -> Iterable[str]:
    """The names in a hook's own dict; a ``__getattr__`` that answers for all names has no say."""
    try:
        found: Iterable[str] = object.__getattribute__(hook, "__dict__")
    except Exception:  # it has none, or does not show it
        return ()
    return found


def _check(hook: Any) -> None:
    """Refuse what is no hook.

    Raises:
        InvalidHook: It is a class or a bare callable, or its events are none.
    """
    if isinstance(hook, type):
        raise InvalidHook(
            f"hooks take instances, got the class {hook.__name__}; pass {hook.__name__}() instead"
        )
    methods = [(event, getattr(hook, event, None)) for event in EVENTS]
    for event, method in methods:
        if method is not None and not callable(method):
            raise InvalidHook(
                f"hook {type(hook).__name__}: {event} is a {type(method).__name__}; "
                "an event must be a method that takes the context"
            )
    for event, method in methods:
        if inspect.isgeneratorfunction(method) or inspect.isasyncgenfunction(method):
            raise InvalidHook(
                f"hook {type(hook).__name__}: {event} is a generator function, which would never "
                "run; write it without yield"
            )
    if all(method is None for _, method in methods):
        shown = repr(hook) if callable(hook) else f"a {type(hook).__name__}"
        remedy = (
            "pass a plain function as on_predict_start= or on_predict_end="
            if callable(hook)
            else "pass an object with at least one of the methods " + ", ".join(EVENTS)
        )
        raise InvalidHook(f"{shown} is no hook: it has no event method; {remedy}")


_NAMES: Final = frozenset(EVENTS)
_PLAIN: Final = (FunctionType, type(None))
_checked: Final[WeakSet[type]] = WeakSet()
"""Classes of hooks that were found good, and whose events are plain methods."""

_defaults: tuple[Entry, ...] = ()
_defaults_lock: Final = threading.Lock()


def default_hooks() -> list[Any]:
    """The process-wide hooks, in order; a copy."""
    return [entry.hook for entry in _defaults]


def set_default_hooks(
    hooks: HookArg = None,
    on_predict_start: CallableArg = None,
    on_predict_end: CallableArg = None,
) -> None:
    """Replace the process-wide hooks, which run ahead of the installed ones (L-42)."""
    global _defaults
    found = entries("default", hooks, on_predict_start, on_predict_end)
    with _defaults_lock:
        _defaults = found


def add_default_hook(hook: HookArg) -> None:
    """Append one hook, or several, to the process-wide ones."""
    global _defaults
    found = entries("default", hook)
    with _defaults_lock:
        _defaults = (*_defaults, *found)


def remove_default_hook(hook: Any) -> bool:
    """Remove a process-wide hook, wherever this very object stands; says whether it did."""
    global _defaults
    with _defaults_lock:
        kept = tuple(entry for entry in _defaults if not _is(entry, hook))
        removed = len(kept) < len(_defaults)
        _defaults = kept
    return removed


def clear_default_hooks() -> None:
    """Remove all process-wide hooks."""
    set_default_hooks()


_listeners: tuple[Entry, ...] = ()


def add_listener(hook: Any) -> None:
    """Let a hook of this package hear every call, behind the process-wide hooks.

    It is none of these: whoever lists, replaces or clears them neither sees nor removes it.
    """
    global _listeners
    found = entries("default", hook)
    with _defaults_lock:
        _listeners = (*_listeners, *found)


def remove_listener(hook: Any) -> None:
    """Remove what :func:`add_listener` added."""
    global _listeners
    with _defaults_lock:
        _listeners = tuple(entry for entry in _listeners if entry.hook is not hook)


def check_timeout(value: Any) -> float | None:
    """A ``hooks_timeout`` as seconds, or ``None`` for no limit.

    Raises:
        InvalidOption: It is not a positive finite number.
    """
    if value is None:
        return None
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not 0 < value <= threading.TIMEOUT_MAX:
        raise InvalidOption(
            f"hooks_timeout must be a positive number of seconds or None, got {value!r}"
        )
    return float(value)


Self = TypeVar("Self", bound="HookRegistry")


class HookRegistry:
    """A list of installed hooks that may be changed while calls run; a call keeps its snapshot.

    Args:
        hooks: One hook or a list of them.
        on_predict_start: One function or a list, run as start hooks after ``hooks``.
        on_predict_end: The same for the end.
        hooks_raise: ``False`` turns a hook's ``Exception`` into a ``RuntimeWarning``.
        hooks_concurrent: ``False`` runs one hook at a time across threads.
        hooks_timeout: Seconds that one hook call may take; ``None`` for no limit.
    """

    def __init__(
        self,
        hooks: HookArg = None,
        on_predict_start: CallableArg = None,
        on_predict_end: CallableArg = None,
        hooks_raise: bool = True,
        hooks_concurrent: bool = True,
        hooks_timeout: float | None = None,
    ) -> None:
        self._installed = entries("installed", hooks, on_predict_start, on_predict_end)
        self._installed_lock = threading.Lock()
        self._chain_lock = ChainLock()
        self.hooks_raise = bool(hooks_raise)
        self.hooks_concurrent = bool(hooks_concurrent)
        self.hooks_timeout = check_timeout(hooks_timeout)

    @property
    def hooks(self) -> list[Any]:
        """The installed hooks, in order; a copy."""
        return [entry.hook for entry in self._installed]

    def add_hook(self: Self, hook: HookArg) -> Self:
        """Install one hook, or several, behind those that are there; returns self."""
        found = entries("installed", hook)
        with self._installed_lock:
            self._installed = (*self._installed, *found)
        return self

    def remove_hook(self, hook: Any) -> bool:
        """Remove a hook, wherever this very object is installed; says whether it was."""
        with self._installed_lock:
            kept = tuple(entry for entry in self._installed if not _is(entry, hook))
            removed = len(kept) < len(self._installed)
            self._installed = kept
        return removed

    @contextmanager
    def hooks_installed(self: Self, *hooks: HookArg) -> Iterator[Self]:
        """Install hooks for a ``with`` block; on leaving it just these are taken out again.

        Each argument is one hook or a list of them. A hook that was installed before stays, and so
        does one that was added inside the block.
        """
        found = entries("installed", [hook for each in hooks for hook in listed(each)])
        with self._installed_lock:
            self._installed = (*self._installed, *found)
        try:
            yield self
        finally:
            with self._installed_lock:
                kept = list(self._installed)
                for entry in found:
                    # From the end: the block's own copy stands behind an earlier one.
                    for i in reversed(range(len(kept))):
                        if kept[i] is entry:
                            del kept[i]
                            break
                self._installed = tuple(kept)

    def active_hooks(
        self,
        hooks: HookArg = None,
        on_predict_start: CallableArg = None,
        on_predict_end: CallableArg = None,
        hooks_raise: bool | None = None,
        hooks_timeout: float | None = None,
    ) -> ActiveHooks:
        """The hooks of one call: process-wide, installed, then these; per-call policy wins.

        Raises:
            InvalidHook: A per-call entry is no hook.
            InvalidOption: ``hooks_timeout`` is not a positive number.
        """
        defaults = _defaults + _listeners
        if defaults and (call := current_call()) is not None and call.defaults_ran:
            defaults = ()
        return ActiveHooks(
            defaults + self._installed + entries("call", hooks, on_predict_start, on_predict_end),
            raise_errors=self.hooks_raise if hooks_raise is None else bool(hooks_raise),
            timeout=self.hooks_timeout if hooks_timeout is None else check_timeout(hooks_timeout),
            lock=None if self.hooks_concurrent else self._chain_lock,
        )


def _is(entry: Entry, hook: Any) -> bool:
    # Equal, not identical: each read of a bound method gives a new object.
    function = entry.hook.function if isinstance(entry.hook, _Function) else None
    return entry.hook is hook or (function is not None and function == hook)
