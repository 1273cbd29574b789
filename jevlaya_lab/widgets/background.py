"""Work that a widget starts: in a thread of its own, so that the kernel goes on answering."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

__all__ = ["Latest", "Worker"]


class Worker:
    """Runs one piece of work at a time; the next one is refused until it has ended.

    Args:
        failed: Called with what the work raised, in its thread.
        ended: Called after each piece of work, however it ended.
    """

    def __init__(
        self, failed: Callable[[BaseException], Any], ended: Callable[[], Any] = lambda: None
    ) -> None:
        self._failed = failed
        self._ended = ended
        self._lock = threading.Lock()
        self._idle = threading.Event()  # an interrupted join would take its thread for ended
        self._idle.set()
        self._stopping = threading.Event()

    @property
    def busy(self) -> bool:
        """Whether something is running."""
        return not self._idle.is_set()

    @property
    def stopping(self) -> bool:
        """Whether the work was asked to stop."""
        return self._stopping.is_set()

    def start(self, work: Callable[[], Any], name: str) -> bool:
        """Begin, unless something is running.

        Returns:
            Whether it began.
        """
        with self._lock:
            if self.busy:
                return False
            self._stopping.clear()
            thread = threading.Thread(target=self._run, args=(work,), name=name, daemon=True)
            self._idle.clear()
            try:
                thread.start()
            except RuntimeError:  # there can be no more threads
                self._idle.set()
                raise
            return True

    def stop(self) -> None:
        """Ask the work to stop at its next step; it has to look at :attr:`stopping`."""
        self._stopping.set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until nothing is running.

        Args:
            timeout: Seconds; ``None`` waits as long as it takes.

        Returns:
            Whether nothing is running now.
        """
        return self._idle.wait(timeout)

    def _run(self, work: Callable[[], Any]) -> None:
        try:
            work()
        except BaseException as error:  # shown by the widget; the thread has no other listener
            self._failed(error)
        finally:
            try:
                self._ended()
            finally:
                self._idle.set()


class Latest:
    """Runs the newest of what is handed in; what is older and has not begun is dropped.

    Args:
        failed: Called with what a piece of work raised, in its thread.
    """

    def __init__(self, failed: Callable[[BaseException], Any]) -> None:
        self._failed = failed
        self._condition = threading.Condition()
        self._next: Callable[[], Any] | None = None
        self._running = False

    def submit(self, work: Callable[[], Any]) -> None:
        """Do this next, in place of what has not begun."""
        with self._condition:
            self._next = work
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="jevlaya-widget", daemon=True).start()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all is done.

        Args:
            timeout: Seconds; ``None`` waits as long as it takes.

        Returns:
            Whether all is done.
        """
        with self._condition:
            return self._condition.wait_for(lambda: not self._running, timeout)

    def _run(self) -> None:
        while True:
            with self._condition:
                work, self._next = self._next, None
                if work is None:
                    self._running = False
                    self._condition.notify_all()
                    return
            try:
                work()
            except BaseException as error:  # shown by the widget; the thread has no other listener
                self._failed(error)
