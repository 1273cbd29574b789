"""PredictContext: the one object that a run hands to every hook, and the facts it carries."""

from __future__ import annotations

import math
import os
import random
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from jevlaya_lab.system_one.errors import InvalidResult
from jevlaya_lab.system_one.hook_log import HookCall, HookLog

__all__ = ["ForwardPass", "HookCall", "PredictContext", "Timings", "aggregate_usage", "new_id"]


# Cheaper than asking the system each time; a forked process draws numbers of its own.
_random: Final = random.Random()  # ids, no secrets
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_random.seed)


def new_id() -> str:
    """A fresh id for a run or a call: 32 hexadecimal digits."""
    return f"{_random.getrandbits(128):032x}"


@dataclass(frozen=True, slots=True)
class ForwardPass:
    """One pass through the network: what went in, and how long it took.

    Attributes:
        kind: ``states``, or ``questions`` where instructions and options had to be embedded.
        n_rows: Rows in the batch.
        n_tokens: Tokens that mean something.
        n_padding: Tokens added so that all rows are equally long.
        elapsed_ms: Milliseconds.
    """

    kind: str
    n_rows: int
    n_tokens: int
    n_padding: int
    elapsed_ms: float


@dataclass(slots=True)
class Timings:
    """Where an agent run spent its time, in milliseconds, and what each pass held (L-41).

    ``step`` is the one that is going on: ``encode``, ``collate``, ``forward`` or ``decode``. A run
    that failed in one of them keeps its name there; otherwise it is ``None``.
    """

    encode_ms: float = 0.0
    collate_ms: float = 0.0
    forward_ms: float = 0.0
    decode_ms: float = 0.0
    forwards: list[ForwardPass] = field(default_factory=list)
    step: str | None = None

    @contextmanager
    def during(self, step: str) -> Iterator[None]:
        """Name the step that a block is, and add its time to ``<step>_ms`` when it ends well."""
        self.step = step
        began = time.perf_counter()
        yield
        name = f"{step}_ms"
        setattr(self, name, getattr(self, name) + (time.perf_counter() - began) * 1e3)
        self.step = None


@dataclass(eq=False)
class PredictContext:
    """State of one run, shared by all its hooks, from start over error to end.

    Two contexts are never equal, and a context is hashable by identity. Fields down to ``error``
    are those of ``laya``; the rest are this project's (L-40 to L-41a). A hook may put attributes
    of its own on it.

    Attributes:
        states: What is decided about; a start hook may assign or change it.
        questions: ``{id: definition}``; a start hook may assign a new dict. Changing it in place
            reaches everyone who shares the dict, the caller included.
        run_id: Joins everything that belongs to this run.
        results: One result per state, once there are any; an end hook may change them.
        decision: The Router's decision; ``None`` in an agent's own run.
        model: Name of the checkpoint.
        agent: The agent that answers.
        router: The router, where one is involved.
        max_len: Token budget of this call; ``None`` means the checkpoint's.
        head_max_len: Token budget of the question part; ``None`` means the checkpoint's.
        usage: Token counts summed over the results; ``None`` where there are none.
        started_at: ``time.perf_counter()`` when the context was made.
        elapsed_ms: Milliseconds from then to just before the end hooks.
        error: The exception that ended the run.
        call_id: Joins all runs under one outermost call.
        parent_run_id: The run inside which this one was started.
        entry: The method whose lifecycle this is; of an agent ``predict_batch``, which ``predict``
            calls, or ``predict_long``.
        scope: ``agent``, ``router``, ``route``, ``load`` or ``evict``.
        skipped: Whether a start hook supplied the results.
        timings: Set by an agent that ran its network.
        thread: Name of the thread that made the call.
        hook_log: Notes of what each hook did; read ``hook_calls``.
    """

    states: Any
    questions: Any
    run_id: str = field(default_factory=new_id)
    results: list[dict[str, Any]] | None = None
    decision: Any = None
    model: str | None = None
    agent: Any = None
    router: Any = None
    max_len: int | None = None
    head_max_len: int | None = None
    usage: dict[str, int] | None = None
    started_at: float = field(default_factory=time.perf_counter)
    elapsed_ms: float | None = None
    error: BaseException | None = None
    call_id: str | None = None
    parent_run_id: str | None = None
    entry: str = ""
    scope: str = "agent"
    skipped: bool = False
    timings: Timings | None = None
    thread: str = field(default_factory=lambda: threading.current_thread().name)
    hook_log: HookLog = field(default_factory=HookLog, repr=False)

    @property
    def hook_calls(self) -> list[HookCall]:
        """Every hook method that ran so far, in order (L-41a)."""
        return self.hook_log.calls(self.started_at)

    def skip(self, results: list[dict[str, Any]] | None) -> None:
        """Answer the call from a start hook: nothing is tokenised, end hooks still run.

        Args:
            results: One result per state in ``states``, in that order, or a single one that
                stands for the whole call. ``None`` leaves the call as it is, so that
                ``ctx.skip(cache.get(key))`` does the right thing on a miss.

        Raises:
            InvalidResult: The number of results fits neither, or they are no list.
        """
        if results is not None:
            if not isinstance(results, (list, tuple)):
                raise InvalidResult(
                    f"ctx.skip() takes a list of results, got {type(results).__name__}; "
                    "put a single result into a list"
                )
            states = self.states
            if isinstance(states, (list, tuple)) and len(results) not in (1, len(states)):
                raise InvalidResult(
                    f"ctx.skip() takes one result per state ({len(states)} here) or one for the "
                    f"whole call, got {len(results)}"
                )
            self.results = list(results)

    def __repr__(self) -> str:
        n_states = len(self.states) if isinstance(self.states, (list, tuple)) else "?"
        state = (
            f"failed with {type(self.error).__name__}"
            if self.error is not None
            else "running"
            if self.elapsed_ms is None
            else f"{self.elapsed_ms:.1f} ms"
        )
        return (
            f"<PredictContext {self.scope} run {self.run_id[:8]} model={self.model!r} "
            f"states={n_states} {state}>"
        )


def aggregate_usage(results: Sequence[Any]) -> dict[str, int]:
    """Sum ``input_tokens`` and ``output_tokens`` over results; no usage counts as 0."""
    total = {"input_tokens": 0, "output_tokens": 0}
    for result in results:
        usage = result.get("usage") if isinstance(result, Mapping) else None
        if isinstance(usage, Mapping):
            for key in total:
                value = usage.get(key)
                if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
                    total[key] += int(value)
    return total
