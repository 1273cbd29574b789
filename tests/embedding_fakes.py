"""Stand-ins for tests of the embedding room: models that can be held, counted and broken."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from fakes import PATIENCE

T = TypeVar("T")


def run(work: Awaitable[T]) -> T:
    """The result of a coroutine, on a new event loop, or a failure if it hangs."""

    async def guarded() -> T:
        return await asyncio.wait_for(work, PATIENCE)

    return asyncio.run(guarded())


async def until(condition: Callable[[], Any]) -> None:
    """Let the loop run until something holds; the test's own guard ends it if it never does."""
    while not condition():
        await asyncio.sleep(0.001)


def vector_of(text: str, dimension: int = 4) -> np.ndarray[Any, np.dtype[np.float32]]:
    """A vector that tells which text it is of."""
    numbers = [float(len(text)), *(float(ord(c)) for c in text[: dimension - 1])]
    return np.array((numbers + [0.0] * dimension)[:dimension], np.float32)


class FakeModel:
    """A model whose ``encode`` writes down what happens, and can be held back or made to fail.

    Attributes:
        calls: The texts of each encode.
        threads: Idents of the threads that encoded.
        running: Encodes at work now.
        peak: The most that were at work at once.
        entered: Set whenever an encode begins.
        gate: An encode ends only while this is set; set from the start.
        failing: Raised by an encode that has this text in it.
        spoilt: Texts whose vector is NaN as long as other texts are in the batch.
        hopeless: Texts whose vector is NaN in any case.
    """

    def __init__(self, dimension: int = 4) -> None:
        self.dimension = dimension
        self.calls: list[list[str]] = []
        self.threads: list[int] = []
        self.running = 0
        self.peak = 0
        self.entered = threading.Event()
        self.gate = threading.Event()
        self.gate.set()
        self.failing: dict[str, BaseException] = {}
        self.spoilt: set[str] = set()
        self.hopeless: set[str] = set()
        self._lock = threading.Lock()

    def hold(self) -> None:
        """Keep the encodes that begin from now on."""
        self.entered.clear()
        self.gate.clear()

    def encode(self, texts: Sequence[str]) -> Any:
        if list(texts) != ["warm up"]:
            self._work(texts)
        matrix = np.stack([vector_of(text, self.dimension) for text in texts])
        for i, text in enumerate(texts):
            if text in self.hopeless or (text in self.spoilt and len(texts) > 1):
                matrix[i, 1] = np.nan
        return matrix

    def _work(self, texts: Sequence[str]) -> None:
        with self._lock:
            self.calls.append(list(texts))
            self.threads.append(threading.get_ident())
            self.running += 1
            self.peak = max(self.peak, self.running)
        self.entered.set()
        try:
            if not self.gate.wait(PATIENCE):
                raise AssertionError("nobody let this encode go on")
            for text in texts:
                if text in self.failing:
                    raise self.failing[text]
        finally:
            with self._lock:
                self.running -= 1


class Heartbeat:
    """A task that beats every few milliseconds, and the longest gap between two beats.

    ``async with Heartbeat() as heart: ...; heart.longest_ms``
    """

    def __init__(self, every: float = 0.005) -> None:
        self.every = every
        self.beats: list[float] = []

    @property
    def longest_ms(self) -> float:
        return max(b - a for a, b in zip(self.beats, self.beats[1:], strict=False)) * 1e3

    async def __aenter__(self) -> Heartbeat:
        self._task = asyncio.ensure_future(self._beat())
        await until(lambda: len(self.beats) > 1)
        return self

    async def __aexit__(self, *_: object) -> None:
        n = len(self.beats)
        await until(lambda: len(self.beats) > n)
        self._task.cancel()

    async def _beat(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self.beats.append(loop.time())
            await asyncio.sleep(self.every)
