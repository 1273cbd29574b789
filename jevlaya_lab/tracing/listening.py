"""Recording one call of an agent or router, ours or ``laya``'s, with all that it does inside.

The recorder is a hook like any other. What hooks of one call do not hear by themselves, loads,
evictions and the runs of a router's agents, is heard by hooks that are installed for the time of
the call and stay silent for everybody else's.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Final

from jevlaya_lab.system_one.call_tree import CallScope, OneCall, current_call
from jevlaya_lab.system_one.context import PredictContext
from jevlaya_lab.system_one.events import EVENTS
from jevlaya_lab.system_one.hook_log import HookLog
from jevlaya_lab.system_one.hooks import HookRegistry, listed
from jevlaya_lab.tracing.overhearing import Overhearing
from jevlaya_lab.tracing.recorder import TraceRecorder
from jevlaya_lab.tracing.temperatures import Temperatures, temperatures_of
from jevlaya_lab.tracing.timed import (
    time_installed,
    timed_function,
    timed_hook,
    untime_installed,
)

__all__ = ["Listening"]

_CURRENT: Final[ContextVar[Listening | None]] = ContextVar("jevlaya_listening", default=None)


class Listening:
    """A ``with`` block around one call; pass ``**listening.hooks`` on to it.

    Args:
        recorder: What notes the runs.
        target: The agent or router that is called.
        entry: The method that is called, for objects whose contexts do not say it.
        hooks: Hooks of the caller for this call.
        on_predict_start: Functions of the caller.
        on_predict_end: Functions of the caller.

    Attributes:
        hooks: The arguments of hooks for the call, the recorder's behind the caller's.
        heard: Whether any run of the call began.
        temperatures: By checkpoint (``""`` where an agent is called), those that answered.
    """

    def __init__(
        self,
        recorder: TraceRecorder,
        target: Any,
        entry: str,
        hooks: Any = None,
        on_predict_start: Any = None,
        on_predict_end: Any = None,
    ) -> None:
        self._foreign = not isinstance(target, HookRegistry)
        block = Overhearing.current() if self._foreign else None
        self.recorder: Any = recorder if block is None else _Both(recorder, block)
        self._recorder = recorder
        self._began = time.perf_counter()
        self._target = target
        self._entry = entry
        self._scope = "router" if hasattr(target, "route") else "agent"
        self._outer: str | None = None
        self.heard = False
        self.temperatures: dict[str, Temperatures] = {}
        # Agents are not held: a checkpoint that is evicted meanwhile shall be freed.
        self._installed: list[tuple[Callable[[], Any], Any]] = []
        self._timed: list[Callable[[], Any]] = []
        self._open: list[str] = []  # router runs that began and did not end
        self._call = OneCall()
        self._token: Token[Listening | None] | None = None
        given = list(listed(hooks))
        starts, ends = list(listed(on_predict_start)), list(listed(on_predict_end))
        if self._foreign:
            first = len(getattr(target, "hooks", ()))
            n = first + len(given)
            given = [
                hook if _is_no_hook(hook) else timed_hook(hook, first + i, "call", _scope_of)
                for i, hook in enumerate(given)
            ]
            starts = [
                timed_function(f, "on_predict_start", n + i, _scope_of)
                for i, f in enumerate(starts)
            ]
            n += len(starts)
            ends = [
                timed_function(f, "on_predict_end", n + i, _scope_of) for i, f in enumerate(ends)
            ]
        # As functions the recorder's methods come last, behind those of the caller.
        self.hooks = {
            "hooks": [*given, _OfCall(self)],
            "on_predict_start": [*starts, _method(self._start)],
            "on_predict_end": [*ends, _method(self._end)],
        }

    def __enter__(self) -> Listening:
        self._began = time.perf_counter()
        self._call.__enter__()
        call = current_call()
        self._outer = None if call is None else call.run_id
        self._token = _CURRENT.set(self)
        if self._foreign:
            self._time(self._target)
        self._install(self._target, _OfTarget(self))
        if self._scope == "agent":
            self._read_temperatures("", self._target)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for find, hook in self._installed:
            if (owner := find()) is not None:
                owner.remove_hook(hook)
        for find in self._timed:
            if (owner := find()) is not None:
                untime_installed(owner)
        if error is not None:
            self.recorder.settle()  # a failed end hook kept the recorder from noting the run
            self._note_failure(error)
        if self._token is not None:
            _CURRENT.reset(self._token)
        self._call.__exit__()

    def _note_failure(self, error: BaseException) -> None:
        """A call that failed without a run that says so: in routing, or while loading."""
        call = current_call()
        if call is None or self._recorder.has_failed(call.call_id, error, self._began):
            return
        ctx = PredictContext(
            None,
            None,
            scope="route" if self._entry.startswith("route") else self._scope,
            entry=self._entry,
            call_id=call.call_id,
            parent_run_id=self._outer,
            started_at=self._began,
            elapsed_ms=(time.perf_counter() - self._began) * 1e3,
            error=error,
        )
        block = Overhearing.current()
        (self._recorder if block is None else _Both(self._recorder, block)).fail(ctx)

    def _start(self, ctx: Any) -> None:
        self.heard = True
        self._tag(ctx, self._scope, self._entry)
        self.recorder.on_predict_start(ctx)
        if ctx.agent is not None and ctx.agent is not self._target:
            self._open.append(ctx.run_id)
            self._hear(ctx.agent)
            decision = ctx.decision
            name = decision.get("model") if isinstance(decision, Mapping) else ctx.model
            if isinstance(name, str) and name not in self.temperatures:
                self._read_temperatures(name, ctx.agent)

    def _end(self, ctx: Any) -> None:
        self.heard = True
        if ctx.run_id in self._open:
            self._open.remove(ctx.run_id)
        self.recorder.on_predict_end(ctx)

    def _hear(self, agent: Any) -> None:
        """Listen to the runs of a router's agent, once."""
        if any(find() is agent for find, _ in self._installed):
            return
        if not isinstance(agent, HookRegistry):
            self._time(agent)
        self._install(agent, _OfAgent(self))

    def _install(self, owner: Any, hook: Any) -> None:
        if hasattr(owner, "add_hook") and hasattr(owner, "remove_hook"):
            owner.add_hook(hook)
            self._installed.append((_loosely(owner), hook))

    def _time(self, owner: Any) -> None:
        if isinstance(getattr(owner, "hooks", None), list):
            time_installed(owner, _scope_of)
            self._timed.append(_loosely(owner))

    def _read_temperatures(self, name: str, agent: Any) -> None:
        found = temperatures_of(agent)
        if found is not None:
            self.temperatures[name] = found

    def _entry_of(self, scope: str) -> str:
        """The method whose lifecycle a run of ``laya`` within this call is."""
        if scope in ("agent", "router"):
            if scope == self._scope or self._entry == "predict_long":
                return self._entry
            return "predict_batch"
        return scope

    def _tag(self, ctx: Any, scope: str, entry: str) -> None:
        """Say of a context of ``laya`` where in the call tree it belongs."""
        if "call_id" in ctx.__dict__:
            return
        call = current_call()
        inside = self._open if scope == "agent" and self._scope == "router" else []
        ctx.call_id = None if call is None else call.call_id
        ctx.parent_run_id = inside[0] if len(inside) == 1 else None
        if ctx.parent_run_id is None and call is not None:
            ctx.parent_run_id = call.run_id
        ctx.scope, ctx.entry = scope, entry
        ctx.thread = threading.current_thread().name
        ctx.__dict__.setdefault("hook_log", HookLog())


def _scope_of(ctx: Any, event: str) -> CallScope | None:
    """Where a call belongs that a hook over ``laya`` makes: inside of the hook's own run."""
    listening = _CURRENT.get()
    if listening is None:
        return None
    scope = _ONE_EVENT.get(event) or ("agent" if ctx.router is None else "router")
    listening._tag(ctx, scope, listening._entry_of(scope))
    return None if ctx.call_id is None else CallScope(ctx.call_id, ctx.run_id)


_ONE_EVENT: Final = {"on_route": "route", "on_load": "load", "on_evict": "evict"}


class _Both:
    """A recorder, and that of a block of code that hears nothing of ``laya`` by itself."""

    def __init__(self, recorder: TraceRecorder, block: Overhearing) -> None:
        self._recorder = recorder
        self._block = block

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._recorder, name)
        also = getattr(self._block.recorder, name)

        def both(*contexts: Any) -> None:
            for ctx in contexts:
                self._block.count_in(ctx)
            method(*contexts)
            if self._block.recorder is not self._recorder:
                also(*contexts)

        return both


class _Adapter:
    """A hook of a listening; it is silent outside of the call that is listened to."""

    def __init__(self, listening: Listening) -> None:
        self._listening = listening

    def _heard(self, ctx: Any, scope: str, entry: str) -> TraceRecorder | None:
        if _CURRENT.get() is not self._listening:
            return None
        self._listening._tag(ctx, scope, entry)
        recorder: TraceRecorder = self._listening.recorder
        return recorder


class _OfCall(_Adapter):
    """Goes with the call itself: its routes and its failures."""

    def on_route(self, ctx: Any) -> None:
        if recorder := self._heard(ctx, "route", "route"):
            recorder.on_route(ctx)

    def on_error(self, ctx: Any) -> None:
        if recorder := self._heard(ctx, self._listening._scope, self._listening._entry):
            self._listening.heard = True
            recorder.on_error(ctx)


class _OfTarget(_Adapter):
    """Is installed on what is called: loads and evictions, and what hooks ask of it meanwhile."""

    def on_load(self, ctx: Any) -> None:
        if recorder := self._heard(ctx, "load", "load"):
            recorder.on_load(ctx)

    def on_evict(self, ctx: Any) -> None:
        if recorder := self._heard(ctx, "evict", "evict"):
            recorder.on_evict(ctx)

    def on_route(self, ctx: Any) -> None:
        if recorder := self._of_a_hook(ctx):
            recorder.on_route(ctx)

    def on_predict_start(self, ctx: Any) -> None:
        if recorder := self._of_a_hook(ctx):
            recorder.on_predict_start(ctx)
            self._listening._hear(ctx.agent)

    def on_error(self, ctx: Any) -> None:
        if recorder := self._of_a_hook(ctx):
            recorder.on_error(ctx)

    def on_predict_end(self, ctx: Any) -> None:
        if recorder := self._of_a_hook(ctx):
            recorder.on_predict_end(ctx)

    def _of_a_hook(self, ctx: Any) -> TraceRecorder | None:
        """The recorder, for what a hook asks of the target; the call itself is heard elsewhere."""
        listening = self._listening
        parent = ctx.__dict__.get("parent_run_id")
        nested = "timings" in ctx.__dict__ and parent != listening._outer
        recorder: TraceRecorder = listening.recorder
        return recorder if nested and _CURRENT.get() is listening else None


class _OfAgent(_Adapter):
    """Is installed on a router's agent: its runs."""

    def on_predict_start(self, ctx: Any) -> None:
        if recorder := self._of_agent(ctx):
            recorder.on_predict_start(ctx)

    def on_error(self, ctx: Any) -> None:
        if recorder := self._of_agent(ctx):
            recorder.on_error(ctx)

    def on_predict_end(self, ctx: Any) -> None:
        if recorder := self._of_agent(ctx):
            recorder.on_predict_end(ctx)

    def _of_agent(self, ctx: Any) -> TraceRecorder | None:
        return self._heard(ctx, "agent", self._listening._entry_of("agent"))


# The recorder leaves its own calls out of a trace, by this name.
for _adapter in (_OfCall, _OfTarget, _OfAgent):
    _adapter.__qualname__ = TraceRecorder.__qualname__


def _method(method: Any) -> Any:
    def heard(ctx: Any) -> None:
        method(ctx)

    heard.__qualname__ = f"{TraceRecorder.__qualname__}.{method.__name__}"
    return heard


def _is_no_hook(hook: Any) -> bool:
    """What the object itself shall refuse, in its own words."""
    return isinstance(hook, type) or not any(hasattr(hook, event) for event in EVENTS)


def _loosely(owner: Any) -> Callable[[], Any]:
    """A function that gives the object for as long as somebody else holds it."""
    try:
        return weakref.ref(owner)
    except TypeError:  # its class has no room for weak references
        return lambda: owner
