"""The facts that a trace keeps of a run and of each hook that ran in it. Plain values only."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from jevlaya_lab.system_one.context import PredictContext
from jevlaya_lab.system_one.hook_log import error_text

__all__ = ["EventRecord", "RunRecord", "read_context"]

# Both clocks read once: a run's wall-clock time is worked out from its monotonic reading.
_EPOCH_MONOTONIC = time.perf_counter()
_EPOCH_WALL = datetime.now(timezone.utc)


@dataclass(frozen=True, slots=True)
class EventRecord:
    """One hook that ran for one event.

    ``at_ms`` is on the recorder's clock, ``duration_ms`` the hook's own time, both in
    milliseconds; ``changed`` names the context fields that the hook changed.
    """

    seq: int
    at_ms: float
    run_id: str
    call_id: str | None
    checkpoint: str | None
    event: str
    hook: str
    position: int
    origin: str
    duration_ms: float
    changed: tuple[str, ...]
    error_type: str | None


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run, from the context that its hooks saw. Times are milliseconds, counts are whole."""

    run_id: str
    entry: str
    model: str | None
    n_states: int | None
    n_questions: int | None
    elapsed_ms: float | None
    encode_ms: float | None
    collate_ms: float | None
    forward_ms: float | None
    decode_ms: float | None
    n_forwards: int | None
    n_rows: int | None
    input_tokens: int | None
    output_tokens: int | None
    padded_tokens: int | None
    skipped: bool
    error_type: str | None
    error_message: str | None
    failed_step: str | None
    started_at: datetime
    start_ms: float
    end_ms: float
    scope: str
    call_id: str | None
    parent_run_id: str | None
    routing_model: str | None
    routing_reason: str | None
    thread: str


def read_context(ctx: PredictContext, clock: float) -> RunRecord:
    """Read a finished run's facts off its context.

    Args:
        ctx: The context at its end hooks.
        clock: The reading of ``time.perf_counter()`` that counts as millisecond 0.

    Returns:
        Plain values; nothing of it keeps the context, the agent or a state alive.
    """
    start_ms = (ctx.started_at - clock) * 1e3
    elapsed_ms = ctx.elapsed_ms
    timings = ctx.timings
    states = [f for f in timings.forwards if f.kind == "states"] if timings else []
    usage = ctx.usage if isinstance(ctx.usage, Mapping) else {}
    decision = ctx.decision if isinstance(ctx.decision, dict) else {}
    return RunRecord(
        run_id=ctx.run_id,
        call_id=ctx.call_id,
        parent_run_id=ctx.parent_run_id,
        entry=ctx.entry,
        scope=ctx.scope,
        model=ctx.model,
        n_states=_count(ctx.states),
        n_questions=_count(ctx.questions),
        started_at=_EPOCH_WALL + timedelta(seconds=ctx.started_at - _EPOCH_MONOTONIC),
        start_ms=start_ms,
        end_ms=start_ms + (elapsed_ms or 0.0),
        elapsed_ms=elapsed_ms,
        encode_ms=timings.encode_ms if timings else None,
        collate_ms=timings.collate_ms if timings else None,
        forward_ms=timings.forward_ms if timings else None,
        decode_ms=timings.decode_ms if timings else None,
        n_forwards=len(timings.forwards) if timings else None,
        n_rows=sum(f.n_rows for f in states) if timings else None,
        input_tokens=_whole(usage.get("input_tokens")),
        output_tokens=_whole(usage.get("output_tokens")),
        padded_tokens=sum(f.n_padding for f in timings.forwards) if timings else None,
        routing_model=decision.get("model"),
        routing_reason=decision.get("reason"),
        skipped=ctx.skipped,
        error_type=type(ctx.error).__name__ if ctx.error is not None else None,
        error_message=_message(ctx.error) if ctx.error is not None else None,
        failed_step=timings.step if timings else None,
        thread=ctx.thread,
    )


def _whole(value: Any) -> int | None:
    """A token count as a trace can hold it; what a hook put there may be anything."""
    whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
    return value if whole else None


def _message(error: BaseException) -> str:
    """The text of an exception, with plain line ends: a lone CR would split a CSV's row."""
    return "\n".join(error_text(error).partition(": ")[2].splitlines())


def _count(value: Any) -> int | None:
    return len(value) if isinstance(value, (list, tuple, dict)) else None
