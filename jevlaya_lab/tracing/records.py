"""The facts that a trace keeps of a run and of each hook that ran in it. Plain values only."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from jevlaya_lab.system_one.context import Timings
from jevlaya_lab.system_one.hook_log import HookCall, error_text
from jevlaya_lab.tracing.capture import NOTHING, Captured

__all__ = [
    "EventRecord",
    "Record",
    "RunRecord",
    "message_of",
    "read_context",
    "read_events",
    "states_of",
    "thread_of",
]


class EventRecord(NamedTuple):
    """One event of a run (``hook`` is ``None``), or one hook that ran for it.

    ``at_ms`` counts from the run's start, ``duration_ms`` is the hook's own time, or that of all
    hooks of the event; both in milliseconds. ``changed`` names context fields that the hook
    changed.
    """

    event: str
    hook: str | None
    position: int | None
    origin: str | None
    at_ms: float
    duration_ms: float | None
    changed: tuple[str, ...] | None
    error_type: str | None


class RunRecord(NamedTuple):
    """One run, from the context that its hooks saw. Times are milliseconds, counts are whole.

    ``began`` is a reading of ``time.perf_counter()``, ``wall`` of ``time.time()`` for the same
    moment. What the context does not say is ``None``.
    """

    run_id: str | None
    call_id: str | None
    parent_run_id: str | None
    entry: str | None
    scope: str | None
    model: str | None
    n_states: int | None
    n_questions: int | None
    began: float
    wall: float
    elapsed_ms: float | None
    encode_ms: float | None
    collate_ms: float | None
    forward_ms: float | None
    decode_ms: float | None
    n_forwards: int | None
    n_rows: int | None
    input_tokens: int | None
    output_tokens: int | None
    forward_tokens: int | None
    padded_tokens: int | None
    max_len: int | None
    head_max_len: int | None
    routing_model: str | None
    routing_reason: str | None
    routing_stand_in: bool | None
    skipped: bool | None
    error_type: str | None
    error_message: str | None
    failed_step: str | None
    thread: str | None
    captured: str
    states: str | None
    questions: str | None
    results: str | None


class Record(NamedTuple):
    """A run with its events in order."""

    run: RunRecord
    events: tuple[EventRecord, ...]


_NO_STEPS = (None,) * 8


def read_context(
    ctx: Any,
    scope: str | None,
    skipped: bool | None,
    message: str | None,
    captured: Captured = NOTHING,
) -> RunRecord:
    """Read a run's facts off its context, ours or ``laya``'s.

    Args:
        ctx: The context at the end of its run, or at its only event.
        scope: Which kind of run it is, where the context itself does not say so.
        skipped: Whether a hook answered, where the context itself does not say so.
        message: The text of the error, as far as it may be kept.
        captured: What is kept of states, questions and results.

    Returns:
        Plain values; nothing of it keeps the context, the agent or a state alive.
    """
    fact = ctx.__dict__.get  # a missing field is a missing fact
    began = ctx.started_at
    timings, usage, skip = fact("timings"), ctx.usage, fact("skipped", skipped)
    if not isinstance(timings, Timings):
        timings = None
        steps: tuple[Any, ...] = _NO_STEPS
    else:
        forwards = timings.forwards
        steps = (
            timings.encode_ms,
            timings.collate_ms,
            timings.forward_ms,
            timings.decode_ms,
            len(forwards),
            sum([f.n_rows for f in forwards if f.kind == "states"]),
            sum([f.n_tokens for f in forwards]),
            sum([f.n_padding for f in forwards]),
        )
    known = isinstance(usage, Mapping)
    error = ctx.error
    facts = (
        _text(ctx.run_id),
        _text(fact("call_id")),
        _text(fact("parent_run_id")),
        _text(fact("entry")) or None,
        _text(scope),
        _text(ctx.model),
        _count(ctx.states),
        _count(ctx.questions),
        began,
        time.time() - (time.perf_counter() - began),
        _milliseconds(ctx.elapsed_ms),
        *steps[:6],
        _whole(usage.get("input_tokens")) if known else None,
        _whole(usage.get("output_tokens")) if known else None,
        *steps[6:],
        _whole(ctx.max_len),
        _whole(ctx.head_max_len),
        *_decision(ctx.decision),
        skip if isinstance(skip, bool) else None,
        type(error).__name__ if error is not None else None,
        message,
        timings.step if timings is not None else None,
        _text(fact("thread")),
        *captured,
    )
    return RunRecord._make(facts)


def read_events(
    ctx: Any, own: tuple[str, ...], sightings: Iterable[tuple[str, float]]
) -> tuple[EventRecord, ...]:
    """The events of a run and the hooks that ran in them, in order.

    Args:
        ctx: The context, ours or ``laya``'s.
        own: Names of the recorder's class and its bases: its own calls are left out.
        sightings: The events that the recorder saw itself, with ``time.perf_counter()``.
    """
    log = getattr(ctx, "hook_log", None)
    began = ctx.started_at
    if log is None:  # laya says nothing of its hooks
        return tuple(
            EventRecord(event, None, None, None, (at - began) * 1e3, None, None, None)
            for event, at in sightings
        )
    prefixes = tuple(name + "." for name in own)
    calls = log.calls(began)
    others = [c for c in calls if c.hook not in own and not c.hook.startswith(prefixes)]
    # Among those that ran: the recorder's own places are not counted.
    place = {p: i for i, p in enumerate(sorted({call.position for call in others}))}
    first: dict[str, float] = {}
    by_event: dict[str, list[HookCall]] = {}
    for call in calls:
        first.setdefault(call.event, call.at_ms)
        by_event.setdefault(call.event, [])
    for call in others:
        by_event[call.event].append(call)
    for event, at in sightings:
        first.setdefault(event, (at - began) * 1e3)
    found: list[EventRecord] = []
    for event, at in first.items():
        ran = by_event.get(event, ())
        spent = ran[-1].at_ms + ran[-1].elapsed_ms - ran[0].at_ms if ran else 0.0
        found.append(EventRecord(event, None, None, None, at, spent, None, None))
        for call in ran:
            _, hook, position, origin, at_ms, elapsed_ms, changed, error = call
            kind = None if error is None else error.partition(":")[0]
            found.append(
                EventRecord(event, hook, place[position], origin, at_ms, elapsed_ms, changed, kind)
            )
    return tuple(found)


def message_of(error: BaseException) -> str:
    """The text of an exception, with plain line ends."""
    return "\n".join(error_text(error).partition(": ")[2].splitlines())


def thread_of(ctx: Any) -> Any:
    """The thread that made a call, also where its hooks run on threads of their own.

    Names alone do not say it, several threads may have one; where that cannot be told, the name.
    """
    here, name = threading.current_thread(), getattr(ctx, "thread", None)
    if name is None or name == here.name:
        return here
    alike = [thread for thread in threading.enumerate() if thread.name == name]
    return alike[0] if len(alike) == 1 else name


def states_of(ctx: Any) -> list[Any]:
    """The states that a context holds, and those that it held before and after each hook."""
    log = getattr(ctx, "hook_log", None)
    return [ctx.states, *([] if log is None else log.states())]


def _decision(decision: Any) -> tuple[str | None, str | None, bool | None]:
    if decision is None:
        return None, None, None
    get = decision.get if isinstance(decision, Mapping) else _vars_of(decision).get
    stand_in = get("stand_in")
    return (
        _text(get("model")),
        _text(get("reason")),
        bool(stand_in) if isinstance(stand_in, (bool, str, int)) else None,
    )


def _vars_of(value: Any) -> Mapping[str, Any]:
    """The attributes of an object that a hook may have put anywhere; none for a plain value."""
    return getattr(value, "__dict__", {})


def _text(value: Any) -> str | None:
    """A name as a trace can hold it; what a hook put there may be anything."""
    if value is None or type(value) is str:
        return value
    return str.__str__(value) if isinstance(value, str) else f"<{type(value).__name__}>"


def _milliseconds(value: Any) -> float | None:
    return value if isinstance(value, float) and math.isfinite(value) else None


def _whole(value: Any) -> int | None:
    """A count as a trace can hold it; what a hook put there may be anything."""
    whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
    return value if whole else None


def _count(value: Any) -> int | None:
    return len(value) if isinstance(value, (list, tuple, dict)) else None
