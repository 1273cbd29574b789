"""Bounded blocking work: so many at once, so many waiting, each wait with its own limit.

A permit belongs to the *work*, not to the coroutine that waits for it: it is taken when a job goes
to the executor and comes back when its thread is done. A semaphore around ``to_thread`` gives it
back when the caller gives up, while the thread runs on, and so lets more run than the limit.

No step needs the caller's event loop, so a loop that stops or is closed keeps no permit.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from typing import Any, Generic, TypeVar

from jevlaya_lab.embedding.errors import (
    EmbeddingClosed,
    EmbeddingError,
    QueueFull,
    Where,
)
from jevlaya_lab.embedding.jobs import Job, Limits, Phase, too_late
from jevlaya_lab.embedding.workers import post

__all__ = ["Lane"]

T = TypeVar("T")


def _no_work(jobs: Sequence[Job[Any]]) -> Sequence[Any]:
    raise AssertionError("no job goes before the gate is open")


class Lane(Generic[T]):
    """Runs jobs on an executor within limits; may be used from many threads and loops.

    Args:
        limits: The bounds.
        executor: Where work runs.
        where: For error messages.
        on_gated: Called after a job was queued while the gate is closed; may raise.
        merge: How many jobs one piece of work may take together.
    """

    def __init__(
        self,
        limits: Limits,
        executor: Executor,
        where: Where,
        *,
        on_gated: Callable[[], object],
        merge: int = 1,
    ) -> None:
        self.limits = limits
        self._work: Callable[[Sequence[Job[T]]], Sequence[Any]] = _no_work
        self._executor = executor
        self.where = where
        self._on_gated = on_gated
        self._merge = merge
        self._lock = threading.Lock()
        self._waiting: OrderedDict[Job[T], None] = OrderedDict()
        self._free = limits.concurrency
        self._calls = 0
        self._strays = 0
        self._running = 0
        self._peak = 0
        self._open = False
        self._closed = False

    @property
    def running(self) -> int:
        """Pieces of work in a thread now."""
        return self._running

    @property
    def peak(self) -> int:
        """The most that ever ran at once."""
        return self._peak

    @property
    def free(self) -> int:
        """Permits that nobody holds."""
        return self._free

    @property
    def waiting(self) -> int:
        """Jobs without a permit."""
        return len(self._waiting)

    @contextlib.contextmanager
    def place(self) -> Iterator[None]:
        """Hold one of the ``concurrency + max_queue`` places while a call runs its jobs.

        A job that its caller gave up keeps its call's place until its thread is done.

        Raises:
            QueueFull: All places are taken.
            EmbeddingClosed: The lane was closed.
        """
        limits = self.limits
        with self._lock:
            if self._closed:
                raise self._closed_error()
            taken = self._calls + self._strays
            if taken >= limits.concurrency + limits.max_queue:
                raise QueueFull(
                    f"{limits.concurrency} calls may run, {limits.max_queue} may wait (max_queue), "
                    f"and {taken} are there; try later, call less often, or hand over lists",
                    self.where,
                )
            self._calls += 1
        try:
            yield
        finally:
            with self._lock:
                self._calls -= 1

    async def run(self, payload: T, *, mergeable: bool = False) -> Any:
        """Have a job done, and wait for it; call it in a ``place``.

        Args:
            payload: What the work is about.
            mergeable: Whether other such jobs may be done together with it.

        Returns:
            What the work gave for it.

        Raises:
            EmbeddingClosed: The lane was closed.
            LocalTimeout: A wait was longer than its limit.
            BaseException: What the work gave as the job's exception.
        """
        job = self._admit(payload, mergeable)
        try:
            if job.phase is Phase.GATED:
                self._on_gated()
            self._dispatch()
            self._watch(job)
            return await job.outcome
        finally:  # also when the caller is cancelled, or dropped together with its loop
            if job.timer is not None:
                job.timer.cancel()
            self._give_up(job)

    def open(self, work: Callable[[Sequence[Job[T]]], Sequence[Any]]) -> None:
        """Let the jobs go that wait for the model; their wait for a permit begins now.

        Args:
            work: Does some jobs (more than one only where they may share), in a thread, and gives
                one result or exception for each; it may leave early what is ``abandoned``.
        """
        now = time.monotonic()
        with self._lock:
            if self._closed:
                return
            self._work = work
            self._open = True
            for job in self._waiting:
                job.phase, job.since = Phase.WAITING, now
        self._dispatch()

    def fail_waiting(self, error: Callable[[], EmbeddingError]) -> None:
        """Give every job that waits for the model or a permit an error of its own."""
        with self._lock:
            failed = list(self._waiting)
            self._waiting.clear()
            for job in failed:
                job.phase = Phase.OVER
        for job in failed:
            post(job.loop, job.settle, error())

    def close(self) -> None:
        """Refuse further jobs and fail those that wait; what runs is finished, then let go."""
        with self._lock:
            self._closed = True
            self._work = self._refuse
        self.fail_waiting(self._closed_error)

    def _refuse(self, jobs: Sequence[Job[T]]) -> Sequence[Any]:
        return [self._closed_error() for _ in jobs]

    def _closed_error(self) -> EmbeddingClosed:
        return EmbeddingClosed("it was closed; make a new one", self.where)

    def _admit(self, payload: T, mergeable: bool) -> Job[T]:
        with self._lock:
            if self._closed:
                raise self._closed_error()
            phase = Phase.WAITING if self._open else Phase.GATED
            job = Job(payload, mergeable, phase, time.monotonic())
            self._waiting[job] = None
            return job

    def _dispatch(self) -> None:
        """Hand out permits while there are any."""
        while True:
            with self._lock:
                if not (self._open and self._free and self._waiting):
                    return
                job, _ = self._waiting.popitem(last=False)
                self._free -= 1
                job.phase, job.since = Phase.PERMITTED, time.monotonic()
            try:
                handle = self._executor.submit(self._run, job)
            except RuntimeError as exc:
                with self._lock:
                    self._free += 1
                    self._strays -= job.abandoned
                    job.phase = Phase.OVER
                error = self._closed_error()
                error.__cause__ = exc
                post(job.loop, job.settle, error)
                continue
            with self._lock:
                job.handle = handle
                if job.phase is Phase.OVER and handle.cancel():  # given up in between
                    self._strays -= 1
                    self._free += 1

    def _run(self, job: Job[T]) -> None:
        """In a thread: do the job, and those that may share its work."""
        group = self._begin(job)
        if group:
            try:
                results = self._work(group)
            except BaseException as exc:  # the thread belongs to the executor, not to the job
                results = [exc] * len(group)
            with self._lock:
                self._running -= 1
                self._free += 1
                for done in group:
                    done.phase = Phase.OVER
                    self._strays -= done.abandoned
            for done, result in zip(group, results, strict=True):
                post(done.loop, done.settle, result)
        self._dispatch()

    def _begin(self, job: Job[T]) -> list[Job[T]]:
        now = time.monotonic()
        with self._lock:
            if job.phase is not Phase.PERMITTED:
                # Given up before its handle was known; if that came too late to be cancelled, the
                # permit comes back here, and only here.
                self._strays -= 1
                self._free += 1
                return []
            group = [job]
            if job.mergeable:
                others = (other for other in self._waiting if other.mergeable)
                group += itertools.islice(others, self._merge - 1)
            for member in group:
                self._waiting.pop(member, None)
                member.phase, member.since = Phase.RUNNING, now
                member.queue_wait_ms = (now - member.born) * 1e3
            self._running += 1
            self._peak = max(self._peak, self._running)
            return group

    def _give_up(self, job: Job[T], only: Phase | None = None) -> bool:
        """Nobody waits for the job any more; says whether it was in the phase asked for."""
        with self._lock:
            phase = job.phase
            if job.abandoned or (only is not None and phase is not only):
                return False
            job.abandoned = True
            freed = False
            if phase in (Phase.GATED, Phase.WAITING):
                self._waiting.pop(job, None)
                job.phase = Phase.OVER
            elif phase is Phase.PERMITTED:
                job.phase = Phase.OVER
                freed = job.handle is not None and job.handle.cancel()
                self._free += freed
                self._strays += not freed
            elif phase is Phase.RUNNING:
                self._strays += 1
        if freed:
            self._dispatch()
        return True

    def _watch(self, job: Job[T]) -> None:
        """Set a timer for the earliest moment at which the job may have waited too long."""
        if (left := self._left(job)) is not None:
            job.timer = job.loop.call_later(left, self._check, job)

    def _left(self, job: Job[T]) -> float | None:
        with self._lock:
            phase, since = job.phase, job.since
        waits = [
            limit - (time.monotonic() - since if at is phase else 0.0)
            for at in Phase
            if phase <= at < Phase.OVER and (limit := self.limits.of(at)) is not None
        ]
        return max(0.0, min(waits)) if waits else None

    def _check(self, job: Job[T]) -> None:
        with self._lock:
            phase, since = job.phase, job.since
        if phase is Phase.OVER or job.outcome.done():
            return
        limit = self.limits.of(phase)
        late = limit is not None and time.monotonic() - since >= limit
        if limit is None or not late or not self._give_up(job, only=phase):
            self._watch(job)
        else:
            job.outcome.set_exception(too_late(phase, limit, self.where))
