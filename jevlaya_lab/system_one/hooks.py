"""Hooks: what one is, the lists they are kept in, and how an event reaches them.

A hook is an object with any of the methods of :class:`Hook`. For each event every active hook that
has the method runs, in order: process-wide, installed, per-call (L-2, L-37, L-42).
"""

from __future__ import annotations

import math
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from jevlaya_lab.system_one.calling import ChainLock, call_method
from jevlaya_lab.system_one.context import PredictContext
from jevlaya_lab.system_one.errors import InvalidHook, InvalidOption
from jevlaya_lab.system_one.hook_log import snapshot

__all__ = [
    "EVENTS",
    "ActiveHooks",
    "BaseHook",
    "Hook",
    "HookArg",
    "HookRegistry",
    "add_default_hook",
    "clear_default_hooks",
    "default_hooks",
    "set_default_hooks",
]

EVENTS: Final = (
    "on_predict_start",
    "on_predict_end",
    "on_route",
    "on_load",
    "on_evict",
    "on_error",
)


class Hook(Protocol):
    """The events a hook may listen to; implement any subset, as plain or ``async`` methods."""

    def on_predict_start(self, ctx: PredictContext) -> Any:
        """Before anything is computed: may rewrite states, questions or budgets, skip, or raise."""

    def on_predict_end(self, ctx: PredictContext) -> Any:
        """Last, on every path: may read and rewrite the results."""

    def on_route(self, ctx: PredictContext) -> Any:
        """After the Router decided, before it loads: may replace ``ctx.decision``."""

    def on_load(self, ctx: PredictContext) -> Any:
        """A checkpoint was built."""

    def on_evict(self, ctx: PredictContext) -> Any:
        """A checkpoint was released."""

    def on_error(self, ctx: PredictContext) -> Any:
        """The run failed with ``ctx.error``; ``on_predict_end`` follows."""


class BaseHook:
    """A hook that does nothing: subclass it and override the events you need."""

    def on_predict_start(self, ctx: PredictContext) -> Any:
        """See :class:`Hook`."""

    def on_predict_end(self, ctx: PredictContext) -> Any:
        """See :class:`Hook`."""

    def on_route(self, ctx: PredictContext) -> Any:
        """See :class:`Hook`."""

    def on_load(self, ctx: PredictContext) -> Any:
        """See :class:`Hook`."""

    def on_evict(self, ctx: PredictContext) -> Any:
        """See :class:`Hook`."""

    def on_error(self, ctx: PredictContext) -> Any:
        """See :class:`Hook`."""


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


class Entry(NamedTuple):
    """A hook in a list: the object, the name that traces show, and where it came from."""

    hook: Any
    name: str
    origin: str


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
    found = [_entry(origin, hook) for hook in _listed(hooks)]
    for event, functions in (
        ("on_predict_start", on_predict_start),
        ("on_predict_end", on_predict_end),
    ):
        for function in _listed(functions):
            hook = _Function(event, function)
            name = getattr(function, "__qualname__", None) or type(function).__qualname__
            found.append(Entry(hook, name, origin))
    return tuple(found)


def _listed(value: Any) -> Sequence[Any]:
    if value is None:
        return ()
    return value if isinstance(value, (list, tuple)) else (value,)


def _entry(origin: str, hook: Any) -> Entry:
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
    if all(method is None for _, method in methods):
        shown = repr(hook) if callable(hook) else f"a {type(hook).__name__}"
        remedy = (
            "pass a plain function as on_predict_start= or on_predict_end="
            if callable(hook)
            else "pass an object with at least one of the methods " + ", ".join(EVENTS)
        )
        raise InvalidHook(f"{shown} is no hook: it has no event method; {remedy}")
    return Entry(hook, type(hook).__qualname__, origin)


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


def clear_default_hooks() -> None:
    """Remove all process-wide hooks."""
    set_default_hooks()


def check_timeout(value: Any) -> float | None:
    """A ``hooks_timeout`` as seconds, or ``None`` for no limit.

    Raises:
        InvalidOption: It is not a positive finite number.
    """
    if value is None:
        return None
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value <= 0:
        raise InvalidOption(
            f"hooks_timeout must be a positive number of seconds or None, got {value!r}"
        )
    return float(value)


class ActiveHooks:
    """The hooks of one call in their order, with the policy by which they run."""

    __slots__ = ("entries", "lock", "raise_errors", "timeout")

    def __init__(
        self,
        active: tuple[Entry, ...],
        *,
        raise_errors: bool = True,
        timeout: float | None = None,
        lock: ChainLock | None = None,
    ) -> None:
        self.entries = active
        self.raise_errors = raise_errors
        self.timeout = timeout
        self.lock = lock

    def dispatch(self, event: str, ctx: PredictContext) -> None:
        """Run ``event`` on every hook that implements it, one after the other (L-37).

        Raises:
            BaseException: What a hook raised; the hooks after it do not run this event. With
                ``raise_errors=False`` an ``Exception`` becomes a ``RuntimeWarning`` instead.
        """
        before = None
        for position, (hook, name, origin) in enumerate(self.entries):
            method = getattr(hook, event, None)
            if method is None or getattr(method, "__func__", None) is _NO_OPS[event]:
                continue
            if before is None:
                before = snapshot(ctx)
            error: BaseException | None = None
            began = time.perf_counter()
            try:
                if self.lock is None:
                    call_method(method, ctx, self.timeout)
                else:
                    with self.lock.hold():
                        began = time.perf_counter()
                        call_method(method, ctx, self.timeout)
            except BaseException as exc:
                error = exc
            ended = time.perf_counter()
            after = snapshot(ctx)
            ctx.hook_log.note(event, name, position, origin, began, ended, before, after, error)
            before = after
            if error is not None:
                self._failed(name, event, error)

    def _failed(self, name: str, event: str, error: BaseException) -> None:
        if self.raise_errors or not isinstance(error, Exception):
            raise error
        warnings.warn(
            f"hook {name}.{event} failed and was passed over: {type(error).__name__}: {error}",
            RuntimeWarning,
            stacklevel=2,
        )


_NO_OPS: Final = {event: getattr(BaseHook, event) for event in EVENTS}

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
        found = entries("installed", [hook for each in hooks for hook in _listed(each)])
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
        return ActiveHooks(
            _defaults + self._installed + entries("call", hooks, on_predict_start, on_predict_end),
            raise_errors=self.hooks_raise if hooks_raise is None else bool(hooks_raise),
            timeout=self.hooks_timeout if hooks_timeout is None else check_timeout(hooks_timeout),
            lock=None if self.hooks_concurrent else self._chain_lock,
        )


def _is(entry: Entry, hook: Any) -> bool:
    return entry.hook is hook or getattr(entry.hook, "function", None) is hook
