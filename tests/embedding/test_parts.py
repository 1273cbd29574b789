"""The small parts: batches, threads, bounded gathering, rates."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future

import pytest
from embedding_fakes import run, until
from fakes import PATIENCE
from hypothesis import given
from hypothesis import strategies as st

from jevlaya_lab.embedding.batches import gather_bounded, in_order_batches, padded_batches
from jevlaya_lab.embedding.rate_limit import RateLimit
from jevlaya_lab.embedding.workers import Workers, in_thread, wait_for

LENGTHS = st.lists(st.integers(0, 300), max_size=60)


@given(LENGTHS, st.integers(1, 1000), st.integers(1, 20))
def test_padded_batches_hold_each_text_once_within_the_budget(
    lengths: list[int], budget: int, most: int
) -> None:
    """E-2: what one pass takes is bounded."""
    batches = list(padded_batches(lengths, budget, most))

    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        assert 1 <= len(batch) <= most
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= budget
    longest = [max(lengths[i] for i in batch) for batch in batches]
    assert longest == sorted(longest, reverse=True)


def test_short_texts_are_not_padded_to_a_long_one() -> None:
    assert list(padded_batches([5, 200, 6, 190], 4096, 64)) == [[1, 3], [2, 0]]


@given(LENGTHS, st.integers(1, 1000), st.integers(1, 20))
def test_batches_in_order_keep_it(sizes: list[int], budget: int, most: int) -> None:
    """E-6: requests hold what a service takes."""
    batches = list(in_order_batches(sizes, budget, most))

    assert [i for batch in batches for i in batch] == list(range(len(sizes)))
    for batch in batches:
        assert 1 <= len(batch) <= most
        assert len(batch) == 1 or sum(sizes[i] for i in batch) <= budget


def test_gathering_is_bounded_and_keeps_the_order() -> None:
    """E-2: at most so many under way."""
    running = peak = 0

    async def call(i: int) -> int:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        await asyncio.sleep(0)
        running -= 1
        return i

    calls = [lambda i=i: call(i) for i in range(20)]

    assert run(gather_bounded(calls, 3)) == list(range(20))
    assert peak == 3


def test_the_first_failure_ends_the_others() -> None:
    """E-8: nothing goes on behind the caller's back."""
    ended: list[int] = []

    async def call(i: int) -> None:
        if i == 2:
            raise ValueError("two")
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(i)

    with pytest.raises(ValueError, match="two"):
        run(gather_bounded([lambda i=i: call(i) for i in range(5)], 3))
    assert sorted(ended) == [0, 1]


def test_workers_run_in_order_on_as_many_threads_as_needed() -> None:
    """E-2: the executor itself is bounded; threads that are idle for long end."""
    workers = Workers(2, "test-worker", idle_seconds=0.05)
    gate = threading.Event()
    names: list[str] = []

    def work(i: int) -> int:
        names.append(threading.current_thread().name)
        assert gate.wait(PATIENCE)
        return i

    futures = [workers.submit(work, i) for i in range(6)]
    assert workers.n_threads == 2
    assert futures[5].cancel()
    gate.set()
    assert [future.result(PATIENCE) for future in futures[:5]] == [0, 1, 2, 3, 4]
    assert set(names) == {"test-worker-1", "test-worker-2"}
    run(until(lambda: workers.n_threads == 0))
    assert workers.submit(work, 9).result(PATIENCE) == 9
    workers.shutdown()
    run(until(lambda: workers.n_threads == 0))
    with pytest.raises(RuntimeError, match="shut down"):
        workers.submit(work, 1)


def test_idle_workers_take_what_comes_for_ever() -> None:
    """E-2: also where a thread goes idle at the very moment at which work comes."""
    workers = Workers(3, "test-worker", idle_seconds=0.001)

    for i in range(2000):
        assert workers.submit(lambda i=i: i).result(PATIENCE) == i
        if i % 50 == 0:
            time.sleep(0.001)  # as long as it takes a thread to give up waiting
    workers.shutdown()


def test_a_thread_hands_on_whatever_is_raised() -> None:
    """E-9: even what would end a thread."""

    def fail() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        in_thread(fail, "test").result(PATIENCE)


def test_waiting_for_a_thread_does_not_cancel_it() -> None:
    """E-8: a load goes on for the others when one caller gives up."""
    future: Future[int] = Future()

    async def scenario() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await wait_for(future, 0.01)
        waiting = asyncio.ensure_future(wait_for(future))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        future.set_result(3)
        assert await wait_for(future) == 3

    run(scenario())


def test_a_turn_that_is_not_taken_goes_to_the_next() -> None:
    """E-6: a cancelled wait gives its share of the rate back."""

    async def scenario() -> None:
        limit = RateLimit("requests_per_minute", 60)
        far = time.monotonic() + 3600
        while await limit.take(1, time.monotonic()) == 0.0:
            continue
        free_at = limit._free_at
        waiting = asyncio.ensure_future(limit.take(30, far))
        await asyncio.sleep(0)
        assert limit._free_at == pytest.approx(free_at + 30)
        waiting.cancel()
        await asyncio.wait({waiting})
        assert limit._free_at == pytest.approx(free_at)
        assert await limit.take(1, time.monotonic()) > 0

    run(scenario())
