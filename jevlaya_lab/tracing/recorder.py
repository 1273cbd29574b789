"""TraceRecorder: a hook like any other that keeps what the runs did."""

from __future__ import annotations

import math
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from jevlaya_lab.system_one.errors import InvalidOption
from jevlaya_lab.tracing.capture import NOTHING, Capture, Captured, Redact
from jevlaya_lab.tracing.records import (
    Record,
    message_of,
    read_context,
    read_events,
    states_of,
    thread_of,
)

if TYPE_CHECKING:
    from jevlaya_lab.frames import Trace

__all__ = ["Recording", "TraceRecorder"]


class _Seen:
    """What the recorder saw of a context so far."""

    __slots__ = ("captured", "noted", "released", "sightings", "skipped", "started", "thread")

    def __init__(self, thread: int) -> None:
        self.sightings: list[tuple[str, float]] = []
        self.captured: Captured = NOTHING
        self.thread = thread
        self.skipped: bool | None = None
        self.started = False
        self.noted = False
        self.released = False  # whether its text is kept, also once it is noted

    def keep(self, captured: Captured) -> None:
        self.captured = captured
        self.released = captured.captured == "text"


class Recording:
    """What a recorder noted during a ``with`` block; it can be read inside and after it."""

    def __init__(self, recorder: TraceRecorder) -> None:
        self._recorder = recorder
        self._first = recorder._n_noted
        self._done: tuple[list[Record], int, float] | None = None

    def _read(self) -> tuple[list[Record], int, float]:
        return self._done or self._recorder._since(self._first)

    def _close(self) -> None:
        self._done = self._read()

    @property
    def n_dropped(self) -> int:
        """How many of the block's runs are no longer kept."""
        return self._read()[1]

    def records(self) -> list[Record]:
        """The runs with their events, in the order in which they ended."""
        return self._read()[0]

    @property
    def trace(self) -> Trace:
        """The same as typed DataFrames."""
        from jevlaya_lab.frames import Trace

        records, n_dropped, clock = self._read()
        return Trace.from_records(records, clock=clock, n_dropped=n_dropped)

    def __repr__(self) -> str:
        return f"Recording({len(self.records())} runs, {self.n_dropped} dropped)"


class TraceRecorder:
    """Keeps the facts of the last runs: ids, times, token counts, hooks, errors. No state text.

    Install it like any hook, on agents and routers of this package or of ``laya``; the Lab does so
    for each of its calls. It notes a run when its own ``on_predict_end`` runs, and keeps states as
    they are when its own ``on_predict_start`` runs, so put it last: it then sees the hooks of the
    others, and text as they left it. It may be used from many threads.

    Args:
        capacity: How many runs are kept; older ones are dropped and counted.
        capture: ``none``; ``hash`` keeps a fingerprint of each state; ``text`` keeps states,
            questions and results as JSON.
        redact: A function from text to text, applied before anything is kept. Where it fails, the
            text is lost.
        hash_key: Key of the fingerprints, so that those of two recorders can be compared; random
            where it is not given.

    Raises:
        InvalidOption: One of these is not usable.
    """

    def __init__(
        self,
        capacity: int = 100_000,
        *,
        capture: str = "none",
        redact: Redact | None = None,
        hash_key: bytes | None = None,
    ) -> None:
        if isinstance(capacity, bool) or not isinstance(capacity, int) or capacity < 1:
            raise InvalidOption(f"capacity must be a positive whole number, got {capacity!r}")
        self.capacity = capacity
        self._capture = Capture(capture, redact, hash_key)
        self._names = tuple(c.__qualname__ for c in type(self).__mro__ if c is not object)
        self._lock = threading.Lock()
        self._clock = time.perf_counter()
        self._kept: deque[Record] = deque(maxlen=capacity)
        self._n_noted = 0  # since the recorder was made, so that open scopes survive clear()
        self._n_cleared = 0
        self._cleared_at = -math.inf
        self._n_started = 0
        self._n_ended = 0
        # It keeps no context alive, and a context nothing of the recorder's.
        self._seen: weakref.WeakKeyDictionary[Any, _Seen] = weakref.WeakKeyDictionary()

    # --- as a hook ---------------------------------------------------------------------------

    def on_predict_start(self, ctx: Any) -> None:
        """Remember that the run began, and what was asked as far as that is kept."""
        seen = self._look(ctx, "on_predict_start")
        self._begin(seen)
        seen.skipped = True if ctx.results is not None else None
        seen.keep(self._capture.asked(ctx.states, ctx.questions))

    def on_error(self, ctx: Any) -> None:
        """Remember when it failed."""
        self._look(ctx, "on_error")

    def on_predict_end(self, ctx: Any) -> None:
        """Note the run; a second time, where it is in two lists of hooks, changes nothing."""
        self._note(ctx, "on_predict_end", None)

    def on_route(self, ctx: Any) -> None:
        """Note the routing decision as a run of its own."""
        self._note(ctx, "on_route", "route")

    def on_load(self, ctx: Any) -> None:
        """Note that a checkpoint was built."""
        self._note(ctx, "on_load", "load")

    def on_evict(self, ctx: Any) -> None:
        """Note that a checkpoint was released."""
        self._note(ctx, "on_evict", "evict")

    def settle(self) -> None:
        """Note runs of this thread that ended without this hook, since one ahead of it raised.

        Call it while that exception is handled; the Lab does so. Runs that still go on are left.
        """
        here = id(threading.current_thread())
        with self._lock:
            missed = [
                ctx
                for ctx, seen in self._seen.items()
                if seen.sightings and not seen.noted and seen.thread == here
            ]
        for ctx in missed:
            if ctx.elapsed_ms is not None:
                self._note(ctx, None, None)

    def fail(self, ctx: Any) -> None:
        """Note a call that failed before any run of it began, or one that its hooks missed."""
        self._note(ctx, None, None)

    def has_failed(self, call_id: str, error: BaseException, since: float) -> bool:
        """Whether a run of a call, begun since then, or a hook of it shows this type of error."""
        kind = type(error).__name__
        with self._lock:
            kept = list(self._kept)
        return any(
            run.call_id == call_id
            and run.began >= since
            and (run.error_type == kind or any(event.error_type == kind for event in events))
            for run, events in reversed(kept)
        )

    def overhear(self, ctx: Any, states: Any, questions: Any) -> None:
        """Remember what was asked of a run whose start hooks ran without this one, once."""
        seen = self._of(ctx)
        if self._begin(seen):
            seen.keep(self._capture.asked(states, questions))

    def _begin(self, seen: _Seen) -> bool:
        with self._lock:
            first = not seen.started
            seen.started = True
            self._n_started += first
        return first

    def _look(self, ctx: Any, event: str) -> _Seen:
        seen = self._of(ctx)
        seen.sightings.append((event, time.perf_counter()))
        return seen

    def _of(self, ctx: Any) -> _Seen:
        seen = self._seen.get(ctx)
        if seen is None:
            thread = thread_of(ctx)
            with self._lock:
                seen = self._seen.setdefault(ctx, _Seen(id(thread)))
        return seen

    def _note(self, ctx: Any, event: str | None, scope: str | None) -> None:
        seen = self._look(ctx, event) if event is not None else self._of(ctx)
        with self._lock:
            if seen.noted:
                return
            seen.noted = True
        events = read_events(ctx, self._names, seen.sightings)
        if scope is None:
            scope = getattr(ctx, "scope", None) or ("agent" if ctx.router is None else "router")
        message = None
        if ctx.error is not None:
            with self._lock:  # runs that share their work fail together, with one error (L-27)
                failed = [pair for pair in self._seen.items() if pair[0].error is ctx.error]
            message = self._capture.message(
                ctx.error,
                message_of(ctx.error),
                [states_of(other) for other, _ in failed],
                released=all(seen.released for _, seen in failed),
            )
        captured = self._capture.answered(seen.captured, ctx.results)
        run = read_context(ctx, scope, seen.skipped, message, captured)
        seen.captured = NOTHING
        with self._lock:
            self._n_ended += seen.started
            if ctx.started_at >= self._cleared_at:
                self._kept.append(Record(run, events))
                self._n_noted += 1

    # --- reading -----------------------------------------------------------------------------

    @property
    def clock(self) -> float:
        """The reading of ``time.perf_counter()`` that is millisecond 0 of a trace."""
        return self._clock

    @property
    def cleared_at(self) -> float:
        """When :meth:`clear` was called last, as the clock; what began before it is not kept."""
        return self._cleared_at

    @property
    def n_dropped(self) -> int:
        """How many runs were noted since :meth:`clear` and are no longer kept."""
        return self._since(0)[1]

    @property
    def n_missed(self) -> int:
        """How many runs began and are over without being noted: a hook ahead of this one raised."""
        with self._lock:
            going_on = sum(seen.started and not seen.noted for seen in self._seen.values())
            return self._n_started - self._n_ended - going_on

    @property
    def n_lost(self) -> int:
        """How often text was to be kept and was lost, since redacting or writing it failed."""
        return self._capture.n_lost

    def records(self) -> list[Record]:
        """The runs that are kept with their events, in the order in which they ended."""
        return self._since(0)[0]

    @property
    def trace(self) -> Trace:
        """The same as typed DataFrames, in the order in which they started."""
        from jevlaya_lab.frames import Trace

        records, n_dropped, clock = self._since(0)
        return Trace.from_records(records, clock=clock, n_dropped=n_dropped)

    @contextmanager
    def scope(self) -> Iterator[Recording]:
        """Keep apart what is noted inside a ``with`` block, by any thread.

        Scopes may be nested, and what they hold can be read after an exception as well::

            with recorder.scope() as cell:
                agent.predict(...)
            cell.trace
        """
        recording = Recording(self)
        try:
            yield recording
        finally:
            recording._close()

    def _since(self, number: int) -> tuple[list[Record], int, float]:
        """The records from a running number on, how many of them are gone, and the clock."""
        with self._lock:
            first = max(number, self._n_cleared)
            wanted = self._n_noted - first
            kept = list(self._kept)
            clock = self._clock
        kept = kept[max(0, len(kept) - wanted) :]
        return kept, wanted - len(kept), clock

    def clear(self) -> None:
        """Forget everything, runs that go on as well; the clock starts again at 0."""
        with self._lock:
            self._kept.clear()
            self._n_cleared = self._n_noted
            self._clock = self._cleared_at = time.perf_counter()

    def __repr__(self) -> str:
        records, n_dropped, _ = self._since(0)
        facts = [f"{len(records)} runs kept", f"{n_dropped} dropped"]
        facts += [
            f"{n} {what}" for n, what in ((self.n_missed, "missed"), (self.n_lost, "lost")) if n
        ]
        return f"TraceRecorder({', '.join(facts)})"
