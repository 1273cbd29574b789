"""Threads for blocking work, and the ways back from them to a caller's loop.

``concurrent.futures`` joins its threads when the interpreter ends, so that a script interrupted
during a long encode would not end before it. These are daemon threads that end when idle. Native
code in such a thread aborts the process when it comes back to an interpreter that has ended, so the
end waits for a moment: until the forward passes under way are done, but no longer than that.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import Empty, SimpleQueue
from typing import Any, Final, ParamSpec, TypeVar

__all__ = ["Workers", "in_thread", "is_ending", "post", "wait_for"]

P = ParamSpec("P")
T = TypeVar("T")

_IDLE_SECONDS: Final = 30.0

END_SECONDS: Final = 3.0
"""How long the interpreter's end waits for the calls under way."""

_ending: Final = threading.Event()
_under_way: Final[set[int]] = set()
"""Idents of the threads that are in a call."""


class Workers(Executor):
    """At most ``n`` daemon threads that run what is submitted, in order.

    Args:
        n: Threads.
        name: What they are called, with a number behind it.
        idle_seconds: How long a thread waits for work before it ends.
    """

    def __init__(self, n: int, name: str, idle_seconds: float = _IDLE_SECONDS) -> None:
        self._n = n
        self._name = name
        self._idle_seconds = idle_seconds
        self._lock = threading.Lock()
        self._queue: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._idle = 0
        self._threads: set[threading.Thread] = set()
        self._closed = False
        self._started = 0

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have a call made by the next free thread.

        Raises:
            RuntimeError: ``shutdown`` was called.
        """
        future: Future[T] = Future()

        def run() -> None:
            if future.set_running_or_notify_cancel():
                _settle(future, lambda: fn(*args, **kwargs))

        with self._lock:
            if self._closed:
                raise RuntimeError("these workers were shut down")
            self._queue.put(run)
            if self._idle:
                self._idle -= 1  # it is claimed: whoever waits longest takes the call
            elif len(self._threads) < self._n:
                self._started += 1
                thread = threading.Thread(
                    target=self._work, name=f"{self._name}-{self._started}", daemon=True
                )
                self._threads.add(thread)
                thread.start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no further calls; threads end when nothing is left. Never waits for them."""
        with self._lock:
            self._closed = True
            for _ in range(self._idle):
                self._queue.put(lambda: None)
            self._idle = 0

    @property
    def n_threads(self) -> int:
        """Threads alive now."""
        return len(self._threads)

    def _work(self) -> None:
        while True:
            try:
                call = self._queue.get_nowait()
            except Empty:
                with self._lock:
                    if self._queue.empty():
                        if self._closed:
                            self._threads.discard(threading.current_thread())
                            return
                        self._idle += 1
                    else:
                        continue
                try:
                    call = self._queue.get(timeout=self._idle_seconds)
                except Empty:
                    with self._lock:
                        if self._idle:  # not claimed meanwhile
                            self._idle -= 1
                            self._threads.discard(threading.current_thread())
                            return
                    continue
            if _ending.is_set():
                return
            call()
            del call  # what it holds must not live for as long as this thread is idle


def in_thread(call: Callable[[], T], name: str) -> Future[T]:
    """Run a call on a daemon thread of its own; its future cannot be cancelled."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()
    threading.Thread(target=_settle, args=(future, call), name=name, daemon=True).start()
    return future


def post(loop: asyncio.AbstractEventLoop, call: Callable[..., Any], *args: Any) -> None:
    """Have a loop make a call, from any thread; on a closed loop there is nobody to tell."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(call, *args)


async def wait_for(future: Future[T], seconds: float | None = None) -> T:
    """Await a future of threads without ever cancelling it.

    Raises:
        asyncio.TimeoutError: It took longer.
    """
    loop = asyncio.get_running_loop()
    done = asyncio.Event()
    future.add_done_callback(lambda _: post(loop, done.set))
    waiting = asyncio.ensure_future(done.wait())
    try:
        await asyncio.wait({waiting}, timeout=seconds)
    finally:
        waiting.cancel()
    if not future.done():
        raise asyncio.TimeoutError
    return future.result()


def is_ending() -> bool:
    """Whether the interpreter ends, so that work in steps should stop after the current one."""
    return _ending.is_set()


def _settle(future: Future[T], call: Callable[[], T]) -> None:
    me = threading.get_ident()
    _under_way.add(me)
    try:
        result = call()
    except BaseException as exc:  # a thread has nobody else to tell
        future.set_exception(exc)
    else:
        future.set_result(result)
    finally:
        _under_way.discard(me)


@atexit.register
def _end() -> None:
    _ending.set()
    deadline = time.monotonic() + END_SECONDS
    while _under_way and time.monotonic() < deadline:
        time.sleep(0.005)  # nothing can be awaited any more
