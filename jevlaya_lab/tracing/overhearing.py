"""Recording whatever a block of code asks of any agent or router of this package.

A process-wide hook hears each call, and the runs of a router's agents are heard by a hook that is
installed on these for the time of the block. Both only take down which contexts they saw; a run is
noted when it is over for all its hooks, although the process-wide ones run first.
"""

from __future__ import annotations

import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from jevlaya_lab.system_one.hooks import HookRegistry, add_listener, remove_listener
from jevlaya_lab.tracing.recorder import Recording, TraceRecorder
from jevlaya_lab.tracing.records import Record, thread_of

if TYPE_CHECKING:
    from jevlaya_lab.frames import Trace

__all__ = ["Overhearing"]

_CURRENT: Final[ContextVar[Overhearing | None]] = ContextVar("jevlaya_overhearing", default=None)


class Overhearing:
    """From :meth:`start` to :meth:`stop`, notes the calls of this block of code.

    To the block belong calls in its own context, which follows ``await``, tasks and
    ``asyncio.to_thread``, and those of threads that began after it did. Threads that were there
    before, and tasks that go on beside it, are somebody else's.

    Args:
        recorder: What notes the runs, beside all that it notes otherwise.
    """

    def __init__(self, recorder: TraceRecorder) -> None:
        self._recorder = recorder
        self._hook = _Ear(self)
        self._scope = recorder.scope()
        self._recording: Recording | None = None
        self._outer: Overhearing | None = None
        self._elsewhere: WeakSet[threading.Thread] = WeakSet()
        self._lock = threading.Lock()
        self._agents: list[HookRegistry] = []
        self._open: dict[Any, dict[Any, str]] = {}  # by thread: contexts, with their last event
        self._heard: dict[str, float] = {}  # ids of runs, with when they began

    def start(self) -> None:
        """Begin; the code that follows in this context is the block."""
        self._recording = self._scope.__enter__()
        self._elsewhere = WeakSet(threading.enumerate())
        self._outer = _CURRENT.get()
        _CURRENT.set(self)
        add_listener(self._hook)

    def stop(self) -> None:
        """End; it may be called from another context than :meth:`start`."""
        remove_listener(self._hook)
        with self._lock:
            agents, self._agents = self._agents, []
            left, self._open = self._open, {}
        for agent in agents:
            agent.remove_hook(self._hook)
        for contexts in left.values():
            self._note(contexts)
        self._scope.__exit__(None, None, None)
        if _CURRENT.get() is self:
            _CURRENT.set(self._outer)

    def records(self) -> list[Record]:
        """The runs of the block, without what others had noted by the same recorder meanwhile."""
        noted = [] if self._recording is None else self._recording.records()
        return [each for each in noted if each.run.run_id in self._heard]

    @property
    def trace(self) -> Trace:
        """The same as typed DataFrames, in the order in which they started."""
        from jevlaya_lab.frames import Trace

        records = self.records()
        clock, cleared = self._recorder.clock, self._recorder.cleared_at
        n_kept = sum(began >= cleared for began in self._heard.values())
        return Trace.from_records(records, clock=clock, n_dropped=n_kept - len(records))

    def hear(self, ctx: Any, event: str) -> None:
        """Take down that a context had an event."""
        thread = thread_of(ctx)
        if not self._is_here() and self._is_elsewhere(thread):
            return
        agent = ctx.agent
        with self._lock:
            contexts = self._open.setdefault(thread, {})
            done = [c for c in contexts if c.call_id != ctx.call_id and c.elapsed_ms is not None]
            over = {c: contexts.pop(c) for c in done}
            contexts[ctx] = event
            new = (
                event == "on_predict_start"
                and ctx.scope == "router"
                and isinstance(agent, HookRegistry)
                and not any(known is agent for known in self._agents)
            )
            if new:
                self._agents.append(agent)
        if new:
            agent.add_hook(self._hook)
        if event in ("on_error", "on_predict_end"):
            self._keep_asked(ctx)  # ahead of hooks that put back what they had masked
        self._note(over)

    def _keep_asked(self, ctx: Any) -> None:
        """What is kept of the states is what the start hooks of all others left of them.

        Where one of them failed, those behind it, which may have masked something, did not run.
        """
        left = ctx.hook_log.left_by("on_predict_start")
        if left is None:
            return
        states, questions, failed = left
        if ctx.error is not None:
            # An interrupt may come between two hooks, which none of them has to show for it.
            cut = not isinstance(ctx.error, Exception) and ctx.results is None
            if failed or (cut and ctx.timings is None):
                return
        self._recorder.overhear(ctx, states, questions)

    @property
    def recorder(self) -> TraceRecorder:
        """What notes the runs."""
        return self._recorder

    def count_in(self, ctx: Any) -> None:
        """Let the block have a run of ``laya``, which its own hooks cannot hear."""
        self._heard[ctx.run_id] = ctx.started_at

    @staticmethod
    def current() -> Overhearing | None:
        """The one whose block the current code is part of."""
        return _CURRENT.get()

    def _is_here(self) -> bool:
        """Whether the current code is part of the block, or of a block inside of it."""
        here = _CURRENT.get()
        while here is not None and here is not self:
            here = here._outer
        return here is self

    def _is_elsewhere(self, thread: Any) -> bool:
        """Whether a thread was there before the block; of a mere name, whether one of that name."""
        if isinstance(thread, str):
            return any(each.name == thread for each in self._elsewhere)
        return thread in self._elsewhere

    def _note(self, contexts: dict[Any, str]) -> None:
        """Hand over runs of which no hook is still to come."""
        for ctx, event in contexts.items():
            if ctx.elapsed_ms is None:
                continue  # still going on
            self._heard[ctx.run_id] = ctx.started_at
            # A hook ahead of this one may have kept it from hearing the end.
            once = ctx.scope in ("route", "load", "evict")
            if not once:
                self._keep_asked(ctx)
            getattr(self._recorder, event if once else "on_predict_end")(ctx)


class _Ear:
    """The hook itself."""

    def __init__(self, overhearing: Overhearing) -> None:
        self._overhearing = overhearing

    def on_predict_start(self, ctx: Any) -> None:
        self._overhearing.hear(ctx, "on_predict_start")

    def on_predict_end(self, ctx: Any) -> None:
        self._overhearing.hear(ctx, "on_predict_end")

    def on_error(self, ctx: Any) -> None:
        self._overhearing.hear(ctx, "on_error")

    def on_route(self, ctx: Any) -> None:
        self._overhearing.hear(ctx, "on_route")

    def on_load(self, ctx: Any) -> None:
        self._overhearing.hear(ctx, "on_load")

    def on_evict(self, ctx: Any) -> None:
        self._overhearing.hear(ctx, "on_evict")


# The recorder leaves its own calls out of a trace, by this name.
_Ear.__qualname__ = TraceRecorder.__qualname__
