"""TraceRecorder: a hook like any other that keeps what the runs did."""

from __future__ import annotations

import itertools
import threading
import time
import weakref
from collections import deque

from jevlaya_lab.system_one.context import PredictContext
from jevlaya_lab.system_one.errors import InvalidOption
from jevlaya_lab.tracing.records import EventRecord, RunRecord, read_context

__all__ = ["TraceRecorder"]


class TraceRecorder:
    """Keeps the facts of the last runs: ids, times, token counts, hooks, errors. No state text.

    Install it like any hook; the Lab does so for each of its calls. It notes a run when its own
    ``on_predict_end`` runs, so put it last to see the end hooks of the others as well. It may be
    used from many threads.

    Args:
        capacity: How many runs are kept; older ones are dropped and counted.

    Raises:
        InvalidOption: ``capacity`` is not a positive whole number.
    """

    def __init__(self, capacity: int = 100_000) -> None:
        if isinstance(capacity, bool) or not isinstance(capacity, int) or capacity < 1:
            raise InvalidOption(f"capacity must be a positive whole number, got {capacity!r}")
        self.capacity = capacity
        self._lock = threading.Lock()
        self._clock = time.perf_counter()
        self._kept: deque[tuple[RunRecord, list[EventRecord]]] = deque(maxlen=capacity)
        self._n_seen = 0
        self._seq = itertools.count()
        self._noted: weakref.WeakSet[PredictContext] = weakref.WeakSet()
        # Which thread began a run that has not been noted yet; it keeps no run alive.
        self._open: weakref.WeakKeyDictionary[PredictContext, int] = weakref.WeakKeyDictionary()

    def on_predict_start(self, ctx: PredictContext) -> None:
        """Remember that the run began."""
        with self._lock:
            self._open[ctx] = threading.get_ident()

    def on_predict_end(self, ctx: PredictContext) -> None:
        """Note the run; a second time, where it is in two lists of hooks, changes nothing."""
        with self._lock:
            if ctx in self._noted:
                return
            self._noted.add(ctx)
        run = read_context(ctx, self._clock)
        own = type(self).__qualname__
        calls = [call for call in ctx.hook_calls if call.hook.partition(".")[0] != own]
        with self._lock:
            events = [
                EventRecord(
                    seq=next(self._seq),
                    at_ms=run.start_ms + call.at_ms,
                    run_id=ctx.run_id,
                    call_id=ctx.call_id,
                    checkpoint=ctx.model,
                    event=call.event,
                    hook=call.hook,
                    position=call.position,
                    origin=call.origin,
                    duration_ms=call.elapsed_ms,
                    changed=call.changed,
                    error_type=call.error.partition(":")[0] if call.error else None,
                )
                for call in calls
            ]
            self._open.pop(ctx, None)
            self._kept.append((run, events))
            self._n_seen += 1

    def settle(self) -> None:
        """Note runs of this thread that ended without this hook, since one ahead of it raised.

        Call it while that exception is handled; the Lab does so. Runs that still go on are left.
        """
        here = threading.get_ident()
        with self._lock:
            missed = [ctx for ctx, thread in self._open.items() if thread == here]
        for ctx in missed:
            if ctx.elapsed_ms is not None:
                self.on_predict_end(ctx)

    @property
    def n_dropped(self) -> int:
        """How many runs were noted and are no longer kept."""
        with self._lock:
            return self._n_seen - len(self._kept)

    def records(self) -> tuple[list[RunRecord], list[EventRecord]]:
        """The runs that are kept, in the order in which they ended, and their hook events."""
        with self._lock:
            kept = list(self._kept)
        return [run for run, _ in kept], [event for _, events in kept for event in events]

    def clear(self) -> None:
        """Forget everything; the clock starts again at 0."""
        with self._lock:
            self._kept.clear()
            self._n_seen = 0
            self._clock = time.perf_counter()
            self._seq = itertools.count()

    def __repr__(self) -> str:
        return f"TraceRecorder({len(self._kept)} runs kept, {self.n_dropped} dropped)"
