"""Threads that ask at once, and a hook among them that is not thread-safe, on purpose."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from jevlaya_lab.experiments.targets import ATTACHED

__all__ = ["Clash", "Crowd", "UnsafeCounter"]

PATIENCE: Final = 0.5
"""Seconds that the first thread in the hook waits for a second one."""

_MARK: Final = "asked_about"


class UnsafeCounter:
    """A hook that counts runs by reading, pausing and writing: two at once count as one.

    It also checks that what it is shown belongs to the request of its thread. Hooks run on the
    thread of the call here.

    Args:
        n_threads: How many threads there are; one alone does not wait for others.

    Attributes:
        count: The runs that were counted.
        most_at_once: Most calls of this hook that ran at the same time.
        mixed_up: States of the requests where something of another one was seen.
    """

    def __init__(self, n_threads: int) -> None:
        self.count = 0
        self.most_at_once = 0
        self.mixed_up: set[str] = set()
        self.asking = threading.local()
        self._waits = n_threads > 1
        self._inside = 0
        self._change = threading.Condition()

    def on_predict_start(self, ctx: Any) -> None:
        """Count one run, without a lock."""
        with self._noted():
            self._check(ctx)
            read = self.count
            self._meet()
            time.sleep(0)  # lets another thread run between the read and the write
            self.count = read + 1

    def on_predict_end(self, ctx: Any) -> None:
        """Leave a mark in the results, by which the caller knows them."""
        with self._noted():
            self._check(ctx)
            if ctx.results:
                ctx.results[0][_MARK] = self.asking.state
            time.sleep(0)

    def _check(self, ctx: Any) -> None:
        if ctx.states != [self.asking.state] or getattr(self.asking, "ctx", ctx) is not ctx:
            self.mixed_up.add(self.asking.state)
        self.asking.ctx = ctx

    @contextmanager
    def _noted(self) -> Iterator[None]:
        with self._change:
            self._inside += 1
            self.most_at_once = max(self.most_at_once, self._inside)
            self._change.notify_all()
        try:
            yield
        finally:
            with self._change:
                self._inside -= 1

    def _meet(self) -> None:
        """Wait once for a second thread to be in here as well, for a moment at most."""
        with self._change:
            if self._waits:
                self._change.wait_for(lambda: self.most_at_once > 1, PATIENCE)
                self._waits = False


@dataclass
class Clash:
    """What came of a crowd.

    Attributes:
        asked: Requests that were made.
        counted: Of these, those that the counter knows of.
        most_at_once: Most calls of the hook at the same time.
        mixed_up: Requests that saw something of another one.
        failed: Requests that were not answered.
        elapsed_s: Seconds from the first timed request to the last one's answer.
        latencies_ms: Milliseconds of each timed request.
    """

    asked: int = 0
    counted: int = 0
    most_at_once: int = 0
    mixed_up: int = 0
    failed: int = 0
    elapsed_s: float = 0.0
    latencies_ms: list[float] = field(default_factory=list)


class Crowd:
    """Threads that each make some requests, the first of them all at once.

    Args:
        target: The agent or router, with no other hooks.
        routed: Whether it is a router, with its agent under ``ATTACHED``.
        counter: The hook.
        n_threads: How many threads.
        requests: Requests of each.
    """

    def __init__(
        self, target: Any, routed: bool, counter: UnsafeCounter, n_threads: int, requests: int
    ) -> None:
        self._target = target
        self._options = {"model": ATTACHED} if routed else {}
        self._counter = counter
        self._n_threads = n_threads
        self._requests = requests
        self._stopped = threading.Event()
        self._met = threading.Barrier(n_threads)
        self._lock = threading.Lock()
        self._spans: list[tuple[float, float]] = []
        self._failed: list[str] = []
        self._asked = 0
        self._over = [threading.Event() for _ in range(n_threads)]

    def run(self) -> Clash:
        """Let them run to their end; whatever interrupts, none of them runs on."""
        threads = [
            threading.Thread(target=self._ask_all, args=(i,), daemon=True, name=f"experiment-{i}")
            for i in range(self._n_threads)
        ]
        self._target.add_hook(self._counter)
        n_started = 0
        try:
            for thread in threads:
                thread.start()
                n_started += 1
            self._wait(threads[:n_started])
        except BaseException:
            self._stopped.set()
            self._met.abort()
            raise
        finally:
            self._wait(threads[:n_started])
            self._target.remove_hook(self._counter)
        return Clash(
            asked=self._asked,
            counted=self._counter.count,
            most_at_once=self._counter.most_at_once,
            mixed_up=len(self._counter.mixed_up),
            failed=len(self._failed),
            elapsed_s=max(b for _, b in self._spans) - min(a for a, _ in self._spans)
            if self._spans
            else 0.0,
            latencies_ms=[(b - a) * 1e3 for a, b in self._spans],
        )

    def _wait(self, started: Sequence[threading.Thread]) -> None:
        """Until those threads are over; an interrupted join takes its thread for ended."""
        for thread, over in zip(started, self._over, strict=False):
            while not over.wait(0.2):
                pass
            thread.join()

    def _ask_all(self, thread: int) -> None:
        try:
            self._requests_of(thread)
        finally:
            self._over[thread].set()

    def _requests_of(self, thread: int) -> None:
        try:
            self._met.wait()
            self._ask(f"thread {thread}, first request")
            self._met.wait()  # the times below are of threads that do not wait for each other
        except threading.BrokenBarrierError:
            return
        for i in range(1, self._requests):
            if self._stopped.is_set():
                return
            began = time.perf_counter()
            self._ask(f"thread {thread}, request {i}")
            ended = time.perf_counter()
            with self._lock:
                self._spans.append((began, ended))

    def _ask(self, state: str) -> None:
        asking = self._counter.asking
        asking.state = state
        asking.__dict__.pop("ctx", None)
        with self._lock:
            self._asked += 1
        try:
            result = self._target.predict(state, {}, **self._options)
        except Exception:
            with self._lock:
                self._failed.append(state)
            return
        if result.get(_MARK) != state:
            self._counter.mixed_up.add(state)
