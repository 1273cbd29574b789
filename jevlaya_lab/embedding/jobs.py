"""A piece of blocking work on its way: where it is, and how long it may be there."""

from __future__ import annotations

import asyncio
import enum
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from jevlaya_lab.embedding.errors import (
    EmbeddingError,
    EncodeTimeout,
    ExecutorQueueTimeout,
    ModelLoadTimeout,
    PermitTimeout,
    Where,
)

__all__ = ["Job", "Limits", "Phase", "too_late"]

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
    """One job of a call. Its phase changes only under the lock of its lane.

    Attributes:
        payload: What the work is about.
        mergeable: Whether it may share one piece of work with others.
        abandoned: Whether nobody waits for it any more; work may stop where that is seen.
        queue_wait_ms: Milliseconds until its work began; 0 before.
        loop: The event loop of its caller.
        outcome: What the caller awaits.
        phase: Where it is.
        born: When it came; in ``time.monotonic()`` as all moments here.
        since: When its phase began.
        handle: Its place in the executor's queue, as soon as it has one.
        timer: What looks after its limits.
    """

    __slots__ = (
        "abandoned", "born", "handle", "loop", "mergeable", "outcome", "payload", "phase",
        "queue_wait_ms", "since", "timer",
    )  # fmt: skip

    def __init__(self, payload: T, mergeable: bool, phase: Phase, now: float) -> None:
        self.payload = payload
        self.mergeable = mergeable
        self.abandoned = False
        self.queue_wait_ms = 0.0
        self.loop = asyncio.get_running_loop()
        self.outcome: asyncio.Future[Any] = self.loop.create_future()
        self.phase = phase
        self.born = self.since = now
        self.handle: Future[None] | None = None
        self.timer: asyncio.TimerHandle | None = None

    def settle(self, result: Any) -> None:
        """Give the caller a result or an exception; called on its loop."""
        if self.abandoned or self.outcome.done():
            return
        if isinstance(result, BaseException):
            self.outcome.set_exception(result)
        else:
            self.outcome.set_result(result)


def too_late(phase: Phase, limit: float, where: Where) -> EmbeddingError:
    """The error for a job that was in a phase for longer than its limit."""
    kind, message = _EXPIRED[phase]
    return kind(message.format(limit), where)
