"""Bounded blocking work: so many at once, so many waiting, each wait with its own limit.

A permit belongs to the *work*, not to the coroutine that waits for it: it is taken when a job goes
to the executor and comes back when its thread is done. A semaphore around ``to_thread`` gives it
back when the caller gives up, while the thread runs on, and so lets more run than the limit.

No step needs the caller's event loop, so a loop that stops or is closed keeps no permit.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import itertools
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from jevlaya_lab.embedding.errors import (
    EmbeddingClosed,
    EmbeddingError,
    EncodeTimeout,
    ExecutorQueueTimeout,
    ModelLoadTimeout,
    PermitTimeout,
    QueueFull,
    Where,
)
from jevlaya_lab.embedding.workers import post

__all__ = ["Job", "Lane", "Limits", "Phase"]

T = TypeVar("T")


class Phase(enum.IntEnum):
    """Where a job is, in order."""

    GATED = 0
    """Waiting for the model to be loaded."""
    WAITING = 1
    """Waiting for a permit."""
    PERMITTED = 2
    """With a permit, in the executor's queue."""
    RUNNING = 3
    """In a thread."""
    OVER = 4
    """Done, or given up before it ran."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much may run and wait, and for how long (seconds; ``None`` for no limit)."""

    concurrency: int
    max_queue: int
    load_timeout: float | None
    permit_timeout: float | None
    queue_timeout: float | None
    encode_timeout: float | None

    def of(self, phase: Phase) -> float | None:
        """How long a job may be in a phase."""
        return (
            self.load_timeout,
            self.permit_timeout,
            self.queue_timeout,
            self.encode_timeout,
        )[phase]


_EXPIRED: Final[dict[Phase, tuple[type[EmbeddingError], str]]] = {
    Phase.GATED: (ModelLoadTimeout, "load_timeout={:g} s passed while the model was loading"),
    Phase.WAITING: (
        PermitTimeout,
        "permit_timeout={:g} s passed while waiting for a permit; call less often, allow more at "
        "once (local_embedding_concurrency), or wait longer",
    ),
    Phase.PERMITTED: (
        ExecutorQueueTimeout,
        "queue_timeout={:g} s passed in the executor's queue; something else keeps its threads "
        "busy: give the embedding an executor of its own",
    ),
    Phase.RUNNING: (
        EncodeTimeout,
        "encode_timeout={:g} s passed while the model was at work; its thread finishes the forward "
        "pass under way, and its permit comes back then",
    ),
}


class Job(Generic[T]):
    """One call on its way.

    Attributes:
        payload: What the work is about.
        mergeable: Whether it may share one piece of work with others.
        abandoned: Whether nobody waits for it any more; work may stop where that is seen.
        queue_wait_ms: Milliseconds until its work began; 0 before.
    """

    __slots__ = (
        "_born", "_handle", "_loop", "_outcome", "_phase", "_since", "_timer", "abandoned",
        "mergeable", "payload", "queue_wait_ms",
    )  # fmt: skip

    def __init__(self, payload: T, mergeable: bool, phase: Phase, now: float) -> None:
        self.payload = payload
        self.mergeable = mergeable
        self.abandoned = False
        self.queue_wait_ms = 0.0
        self._loop = asyncio.get_running_loop()
        self._outcome: asyncio.Future[Any] = self._loop.create_future()
        self._phase = phase
        self._born = self._since = now
        self._handle: Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def _settle(self, result: Any) -> None:
        if self.abandoned or self._outcome.done():
            return
        if isinstance(result, BaseException):
            self._outcome.set_exception(result)
        else:
            self._outcome.set_result(result)


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
            if job._phase is Phase.GATED:
                self._on_gated()
            self._dispatch()
            self._watch(job)
            return await job._outcome
        finally:  # also when the caller is cancelled, or dropped together with its loop
            if job._timer is not None:
                job._timer.cancel()
            self._give_up(job)

    def open(self, work: Callable[[Sequence[Job[T]]], Sequence[Any]]) -> None:
        """Let the jobs go that wait for the model; their wait for a permit begins now.

        Args:
            work: Does some jobs (more than one only where they may share), in a thread, and gives
                one result or exception for each; it may leave early what is ``abandoned``.
        """
        now = time.monotonic()
        with self._lock:
            self._work = work
            self._open = True
            for job in self._waiting:
                job._phase, job._since = Phase.WAITING, now
        self._dispatch()

    def fail_waiting(self, error: Callable[[], EmbeddingError]) -> None:
        """Give every job that waits for the model or a permit an error of its own."""
        with self._lock:
            failed = list(self._waiting)
            self._waiting.clear()
            for job in failed:
                job._phase = Phase.OVER
        for job in failed:
            post(job._loop, job._settle, error())

    def close(self) -> None:
        """Refuse further jobs and fail those that wait; what runs is finished."""
        with self._lock:
            self._closed = True
        self.fail_waiting(self._closed_error)

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
                job._phase, job._since = Phase.PERMITTED, time.monotonic()
            try:
                handle = self._executor.submit(self._run, job)
            except RuntimeError as exc:
                with self._lock:
                    self._free += 1
                    job._phase = Phase.OVER
                error = self._closed_error()
                error.__cause__ = exc
                post(job._loop, job._settle, error)
                continue
            with self._lock:
                job._handle = handle
                if job._phase is Phase.OVER and handle.cancel():  # given up in between
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
                    done._phase = Phase.OVER
                    self._strays -= done.abandoned
            for done, result in zip(group, results, strict=True):
                post(done._loop, done._settle, result)
        self._dispatch()

    def _begin(self, job: Job[T]) -> list[Job[T]]:
        now = time.monotonic()
        with self._lock:
            if job._phase is not Phase.PERMITTED:
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
                member._phase, member._since = Phase.RUNNING, now
                member.queue_wait_ms = (now - member._born) * 1e3
            self._running += 1
            self._peak = max(self._peak, self._running)
            return group

    def _give_up(self, job: Job[T], only: Phase | None = None) -> bool:
        """Nobody waits for the job any more; says whether it was in the phase asked for."""
        with self._lock:
            phase = job._phase
            if job.abandoned or (only is not None and phase is not only):
                return False
            job.abandoned = True
            freed = False
            if phase in (Phase.GATED, Phase.WAITING):
                self._waiting.pop(job, None)
                job._phase = Phase.OVER
            elif phase is Phase.PERMITTED:
                job._phase = Phase.OVER
                freed = job._handle is not None and job._handle.cancel()
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
            job._timer = job._loop.call_later(left, self._check, job)

    def _left(self, job: Job[T]) -> float | None:
        with self._lock:
            phase, since = job._phase, job._since
        waits = [
            limit - (time.monotonic() - since if at is phase else 0.0)
            for at in Phase
            if phase <= at < Phase.OVER and (limit := self.limits.of(at)) is not None
        ]
        return max(0.0, min(waits)) if waits else None

    def _check(self, job: Job[T]) -> None:
        with self._lock:
            phase, since = job._phase, job._since
        if phase is Phase.OVER or job._outcome.done():
            return
        limit = self.limits.of(phase)
        late = limit is not None and time.monotonic() - since >= limit
        if not late or not self._give_up(job, only=phase):
            self._watch(job)
            return
        kind, message = _EXPIRED[phase]
        if not job._outcome.done():
            job._outcome.set_exception(kind(message.format(limit), self.where))
