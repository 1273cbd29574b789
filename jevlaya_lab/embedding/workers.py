"""Threads for blocking work, and the ways back from them to a caller's loop.

``concurrent.futures`` joins its threads when the interpreter ends, so that a script interrupted
during a long encode would not end before it. These are daemon threads that end when idle.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import Empty, SimpleQueue
from typing import Any, Final, ParamSpec, TypeVar

__all__ = ["Workers", "in_thread", "post", "wait_for"]

P = ParamSpec("P")
T = TypeVar("T")

_IDLE_SECONDS: Final = 30.0


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


def _settle(future: Future[T], call: Callable[[], T]) -> None:
    try:
        result = call()
    except BaseException as exc:  # a thread has nobody else to tell
        future.set_exception(exc)
    else:
        future.set_result(result)
