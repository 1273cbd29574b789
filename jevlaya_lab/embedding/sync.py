"""Calling async code from anywhere: a script, a notebook, inside of a running loop.

The work runs on one private loop in a thread of its own; nothing is patched, and no loop is entered
twice.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from jevlaya_lab.system_one.errors import InvalidOption

__all__ = ["run_sync"]

T = TypeVar("T")

_LOOK_SECONDS: Final = 0.25
"""How often a waiting thread looks up: on Windows a wait is not interrupted before its end."""

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_thread: threading.Thread | None = None


def run_sync(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the private loop and wait for it.

    An interrupt (Ctrl-C, *Kernel → Interrupt*) cancels the work and is raised at once.

    Raises:
        InvalidOption: It is called on the private loop itself, which would wait for ever.
        BaseException: Whatever the work raises.
    """
    loop = _private_loop()
    if threading.current_thread() is _thread:
        work.close()
        raise InvalidOption(
            "a synchronous call from within the private loop would wait for itself; await the "
            "asynchronous one"
        )
    future = asyncio.run_coroutine_threadsafe(work, loop)
    done = threading.Event()
    future.add_done_callback(lambda _: done.set())
    try:
        while not done.wait(_LOOK_SECONDS):
            continue
    except BaseException:
        future.cancel()  # and so the task on the private loop
        raise
    return future.result()


def _private_loop() -> asyncio.AbstractEventLoop:
    global _loop, _thread
    with _lock:
        # A forked child has the loop object but not its thread.
        if _loop is None or _thread is None or not _thread.is_alive():
            _loop = asyncio.new_event_loop()
            _thread = threading.Thread(
                target=_loop.run_forever, name="jevlaya-embedding-loop", daemon=True
            )
            _thread.start()
        return _loop
