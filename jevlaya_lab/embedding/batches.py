"""How texts are put together: sorted by length, in batches of bounded size, some at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

__all__ = ["gather_bounded", "in_order_batches", "padded_batches"]

T = TypeVar("T")

_NEVER_RAGGED: Final = 32
_LEAST_FILLED: Final = 0.6


def padded_batches(lengths: Sequence[int], budget: int, most: int) -> Iterator[list[int]]:
    """Indices of texts of similar length, so that little is padding.

    Args:
        lengths: Length of each text.
        budget: How much ``texts times longest text`` may be in a batch.
        most: Texts in a batch.

    Yields:
        Indices, each once, longest texts first, so that memory that lasts for the first batch
        lasts for all; at least one per batch.
    """
    batch: list[int] = []
    longest = 0
    for i in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        full = len(batch) >= most or (len(batch) + 1) * longest > budget
        # A pass costs about as much as some tens of tokens: below that, padding is cheaper.
        ragged = longest > _NEVER_RAGGED and lengths[i] < longest * _LEAST_FILLED
        if batch and (full or ragged):
            yield batch
            batch = []
        if not batch:
            longest = max(1, lengths[i])
        batch.append(i)
    if batch:
        yield batch


def in_order_batches(sizes: Sequence[int], budget: int, most: int) -> Iterator[list[int]]:
    """Indices in their order, in runs of at most ``most`` and of a sum of at most ``budget``.

    Yields:
        Indices, each once; one that is larger than the budget is alone.
    """
    batch: list[int] = []
    total = 0
    for i, size in enumerate(sizes):
        if batch and (len(batch) >= most or total + size > budget):
            yield batch
            batch, total = [], 0
        batch.append(i)
        total += size
    if batch:
        yield batch


async def gather_bounded(calls: Sequence[Callable[[], Awaitable[T]]], limit: int) -> list[T]:
    """The results of some calls in order, at most ``limit`` under way at once.

    The first failure, or a cancellation, cancels the others and is raised when they have ended.
    """
    if len(calls) == 1:
        return [await calls[0]()]
    results: list[Any] = [None] * len(calls)
    left = iter(enumerate(calls))

    async def take_turns() -> None:
        for i, call in left:
            results[i] = await call()

    tasks = [asyncio.ensure_future(take_turns()) for _ in range(min(limit, len(calls)))]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
    return results
