"""How one hook method is called: inline, under a timeout, awaited, or one at a time.

``hooks`` builds its dispatch on :func:`call_method`, :func:`finish_call` and :class:`ChainLock`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import inspect
import threading
import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Final, NoReturn

from jevlaya_lab.system_one.errors import HookTimeout

__all__ = ["ChainLock", "call_method", "finish_call", "raise_again", "run_awaitable"]


def call_method(method: Callable[[Any], Any], ctx: Any, timeout: float | None) -> None:
    """Call a hook method, await what it returns if that is awaitable, all within the timeout.

    Args:
        method: The bound method.
        ctx: The context handed to it.
        timeout: Seconds; ``None`` calls it inline on this thread.

    Raises:
        HookTimeout: It took longer. A coroutine is cancelled; a thread runs on to its end.
        BaseException: Whatever the method raised, unchanged.
    """
    if timeout is None:
        finish_call(method(ctx))
        return
    deadline = time.monotonic() + timeout
    if inspect.iscoroutinefunction(method):
        result = method(ctx)
    else:
        result = _call_on_thread(method, ctx, timeout)
    if inspect.isawaitable(result):
        try:
            run_awaitable(result, timeout=max(0.0, deadline - time.monotonic()))
        except _Expired:
            raise _overrun(method, timeout) from None


def finish_call(result: Any) -> None:
    """Await what a hook method returned, where it returned something to await (L-43)."""
    if result is not None and inspect.isawaitable(result):
        run_awaitable(result)


def raise_again(error: BaseException) -> NoReturn:
    """Raise a kept exception as it was: it stays linked to what it was first raised from.

    A plain ``raise error`` would link it to whatever the current code is handling instead.
    """
    context = error.__context__
    try:
        raise error
    finally:
        error.__context__ = context


def _overrun(method: Callable[[Any], Any], timeout: float) -> HookTimeout:
    name = getattr(method, "__qualname__", None) or repr(method)
    return HookTimeout(f"hook {name} did not return within hooks_timeout={timeout:g} s")


def _call_on_thread(method: Callable[[Any], Any], ctx: Any, timeout: float) -> Any:
    outcome: list[tuple[Any, BaseException | None]] = []
    # The caller's context variables hold its request id and span, and the locks of its chain.
    context = contextvars.copy_context()

    def run() -> None:
        try:
            outcome.append((context.run(method, ctx), None))
        except BaseException as exc:  # handed to the caller below
            outcome.append((None, exc))

    thread = threading.Thread(target=run, daemon=True, name="jevlaya-hook-timeout")
    thread.start()
    thread.join(timeout)
    if not outcome:
        raise _overrun(method, timeout)
    result, error = outcome[0]
    if error is not None:
        raise_again(error)
    return result


class _Expired(Exception):
    """The time for an awaitable was up; never leaves this module."""


class _PrivateLoop:
    """An event loop on a daemon thread of its own, started at its first use."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            # A forked child inherits the loop object but not its thread.
            if self._loop is None or self._thread is None or not self._thread.is_alive():
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, daemon=True, name=self._name
                )
                self._thread.start()
            return self._loop


_LOOPS: Final[list[_PrivateLoop]] = [_PrivateLoop("jevlaya-hooks")]
_LOOPS_LOCK: Final = threading.Lock()
PATIENCE: Final = 1.0
"""Seconds in which a private loop must begin with a hook before the next loop takes over."""
_LEVEL: Final[ContextVar[int]] = ContextVar("jevlaya_async_hook_level", default=0)


def _private_loop(level: int) -> asyncio.AbstractEventLoop:
    """The private loop; inside of an async hook the next one.

    An async hook may call back into its agent without awaiting, and so hold up the loop that it
    runs on. The async hooks of that inner call would wait for ever for a loop that waits for them,
    so each such level of a call chain has a loop of its own.
    """
    with _LOOPS_LOCK:
        while level >= len(_LOOPS):
            _LOOPS.append(_PrivateLoop(f"jevlaya-hooks-{len(_LOOPS)}"))
        return _LOOPS[level].loop()


def run_awaitable(awaitable: Awaitable[Any], timeout: float | None = None) -> Any:
    """Run an awaitable to its end on the private loop and wait for it (L-43, L-43a).

    It works whether or not the calling thread runs a loop of its own, and keeps the caller's
    context variables. An interrupt of the waiting thread cancels the awaitable. A loop that does
    not begin with it within ``PATIENCE`` seconds is held up by some hook that blocks it; the next
    loop takes over then, so that a hook cannot stop those of other calls.
    """
    errand = _Errand(awaitable, _LEVEL.get())
    deadline = None if timeout is None else time.monotonic() + timeout
    patience = PATIENCE if timeout is None else min(PATIENCE, timeout / 2)
    # An interrupt may come anywhere in here, also before there is a future to cancel.
    try:
        while True:
            future = errand.hand_out()
            try:
                result, error = _result(future, deadline, patience)
            except concurrent.futures.TimeoutError:
                if errand.take_back():
                    if deadline is None or time.monotonic() < deadline:
                        continue
                    raise
                result, error = _result(future, deadline)
            break
    except BaseException as exc:
        errand.give_up()
        if isinstance(exc, concurrent.futures.TimeoutError):
            raise _Expired from None
        raise
    if error is not None:
        raise_again(error)
    return result


def _result(
    future: concurrent.futures.Future[Any], deadline: float | None, at_most: float | None = None
) -> Any:
    left = None if deadline is None else max(0.0, deadline - time.monotonic())
    waits = [seconds for seconds in (left, at_most) if seconds is not None]
    return future.result(min(waits, default=None))


class _Errand:
    """An awaitable on its way: given to one loop after the other until one begins with it."""

    def __init__(self, awaitable: Awaitable[Any], level: int) -> None:
        self._awaitable = awaitable
        self._level = level
        self._lock = threading.Lock()
        self._begun = False
        self._over = False
        self._loop = _private_loop(level)
        self._task: asyncio.Task[Any] | None = None

    def hand_out(self) -> concurrent.futures.Future[Any]:
        """Give it to the current loop; the future is of ``(result, error)``."""
        return asyncio.run_coroutine_threadsafe(self._run(self._level), self._loop)

    def take_back(self) -> bool:
        """Turn to the next loop, unless the current one has begun; says whether it had not."""
        with self._lock:
            if not self._begun:
                self._level += 1
                self._loop = _private_loop(self._level)
            return not self._begun

    def give_up(self) -> None:
        """Cancel it, or see to it that it is not begun any more."""
        with self._lock:
            self._over = True
            if self._task is not None:
                self._loop.call_soon_threadsafe(self._task.cancel)
            elif inspect.iscoroutine(self._awaitable):
                self._awaitable.close()  # one that was never begun is complained about

    async def _run(self, level: int) -> tuple[Any, BaseException | None]:
        with self._lock:
            if self._over or level != self._level:
                return None, None  # nobody waits for this one any more
            self._begun = True
            self._task = asyncio.current_task()
        _LEVEL.set(level + 1)  # this task's own copy of the caller's context
        # Exceptions travel as values: a Future cannot carry KeyboardInterrupt or SystemExit
        # without stopping the loop that others use as well.
        try:
            return await self._awaitable, None
        except BaseException as exc:
            if self._over:
                raise
            return None, exc  # also a CancelledError of the hook's own


_HELD: ContextVar[tuple[_Hold, ...]] = ContextVar("jevlaya_held_hook_locks", default=())


class ChainLock:
    """A lock that is re-entrant along the call chain, not the thread (L-39).

    A hook under ``hooks_timeout``, or an async one, runs on another thread and may call back into
    the agent that called it. Its chain is known by a context variable, which both paths copy.
    A chain that was given up (its timeout passed) no longer counts as holding the lock; two
    threads of one chain take turns.
    """

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def hold(self) -> _Hold:
        """A context manager that holds the lock."""
        return _Hold(self)


class _Hold:
    """One hold of a ChainLock; holds further down the same chain queue on its ``inner`` lock."""

    __slots__ = ("_taken", "_token", "active", "inner", "of")

    def __init__(self, of: ChainLock) -> None:
        self.of = of
        self.active = False
        self.inner = threading.Lock()

    def __enter__(self) -> None:
        held = _HELD.get()
        outer = next((h for h in reversed(held) if h.of is self.of and h.active), None)
        self._taken = self.of._lock if outer is None else outer.inner
        self._taken.acquire()
        self.active = True
        self._token = _HELD.set((*held, self))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.active = False
        _HELD.reset(self._token)
        self._taken.release()
