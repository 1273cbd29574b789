"""Seeing what the agents do inside a call: their runs, and each pass through their networks.

Agents of this package say so in ``ctx.timings`` (L-41). Those of ``laya`` do not, so their network
itself is listened to: a torch module calls whoever asks for it.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from jevlaya_lab.contrib_hooks.runs import scope_of
from jevlaya_lab.lab.asking import is_router
from jevlaya_lab.system_one.events import BaseHook
from jevlaya_lab.system_one.hooks import HookRegistry

__all__ = ["AgentRun", "Pass", "Watch", "totals"]

_CURRENT: Final[ContextVar[Watch | None]] = ContextVar("jevlaya_experiment_watch", default=None)


class Pass(NamedTuple):
    """States through a network, once; ``elapsed_ms`` is ``None`` where it is not known."""

    n_rows: int
    n_tokens: int
    n_padding: int
    elapsed_ms: float | None = None


def totals(passes: Collection[Pass]) -> dict[str, int]:
    """How many ``passes`` these are, and their ``rows``, ``tokens`` and ``padding``."""
    return {
        "passes": len(passes),
        "rows": sum(each.n_rows for each in passes),
        "tokens": sum(each.n_tokens for each in passes),
        "padding": sum(each.n_padding for each in passes),
    }


@dataclass
class AgentRun:
    """What one run of an agent was asked, as its start hooks left it, and its passes."""

    model: str
    states: list[Any]
    questions: Any
    max_len: int | None
    head_max_len: int | None
    passes: list[Pass] = field(default_factory=list)

    @property
    def n_passes(self) -> int:
        """Forward passes over states."""
        return len(self.passes)


class Watch:
    """A ``with`` block in which the calls of this context to one agent or router are seen.

    What others ask of the same objects meanwhile is not. When the block ends, however it does, the
    hooks are gone that it had put into them.

    Args:
        target: The agent or router.

    Attributes:
        runs: The runs of agents, in the order in which they began; without those that a hook began
            inside of another.
        unseen: Kinds of agents that answered and whose passes cannot be seen.
    """

    def __init__(self, target: Any) -> None:
        self._target = target
        self.runs: list[AgentRun] = []
        self.unseen: set[str] = set()
        self._undo: list[Any] = []
        self._heard: list[Any] = []
        self._open: list[tuple[Any, AgentRun]] = []
        self._token: Token[Watch | None] | None = None

    @property
    def n_passes(self) -> int | None:
        """Forward passes over states; ``None`` where not all of them can be seen."""
        return None if self.unseen else sum(run.n_passes for run in self.runs)

    def __enter__(self) -> Watch:
        self._token = _CURRENT.set(self)
        try:
            if is_router(self._target):
                self._install(self._target, _OfRouter(self))
            else:
                self._hear(self._target)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        while self._undo:
            self._undo.pop()()
        self._heard.clear()
        if self._token is not None:
            _CURRENT.reset(self._token)
            self._token = None

    def _install(self, owner: Any, hook: Any) -> None:
        owner.add_hook(hook)
        self._undo.append(lambda: owner.remove_hook(hook))

    def _hear(self, agent: Any) -> None:
        if any(known is agent for known in self._heard):
            return
        self._heard.append(agent)
        if not (hasattr(agent, "add_hook") and hasattr(agent, "remove_hook")):
            self.unseen.add(type(agent).__name__)
            return
        self._install(agent, _OfAgent(self))
        if isinstance(agent, HookRegistry):
            return
        network: Any = getattr(agent, "model", None)
        if not hasattr(network, "register_forward_hook"):
            self.unseen.add(type(agent).__name__)
            return
        pre = network.register_forward_pre_hook(self._before)
        self._undo.append(pre.remove)
        post = network.register_forward_hook(self._after)
        self._undo.append(post.remove)

    def _before(self, network: Any, inputs: Any) -> None:
        if _CURRENT.get() is self:
            self._began = time.perf_counter()

    def _after(self, network: Any, inputs: Any, output: Any) -> None:
        if _CURRENT.get() is not self or not self._open:
            return
        elapsed_ms = (time.perf_counter() - self._began) * 1e3
        mask = inputs[1]  # ids, attention mask, …
        n_rows, n_tokens = int(mask.shape[0]), int(mask.sum())
        self._open[-1][1].passes.append(Pass(n_rows, n_tokens, mask.numel() - n_tokens, elapsed_ms))

    def _start(self, ctx: Any) -> None:
        if _CURRENT.get() is not self:
            return
        run = AgentRun(
            str(getattr(ctx, "model", None) or ""),
            list(ctx.states) if isinstance(ctx.states, (list, tuple)) else [],
            ctx.questions,
            ctx.max_len,
            ctx.head_max_len,
        )
        if not self._open:  # what a hook asks meanwhile is no part of the call
            self.runs.append(run)
        self._open.append((ctx, run))

    def _end(self, ctx: Any) -> None:
        run = next((run for known, run in self._open if known is ctx), None)
        if run is None:
            return
        self._open = [pair for pair in self._open if pair[0] is not ctx]
        timings = getattr(ctx, "timings", None)
        run.passes += [
            Pass(each.n_rows, each.n_tokens, each.n_padding, each.elapsed_ms)
            for each in (timings.forwards if timings is not None else ())
            if each.kind == "states"
        ]


class _OfAgent(BaseHook):
    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def on_predict_start(self, ctx: Any) -> None:
        self._watch._start(ctx)

    def on_predict_end(self, ctx: Any) -> None:
        self._watch._end(ctx)


class _OfRouter(BaseHook):
    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def on_predict_start(self, ctx: Any) -> None:
        if scope_of(ctx) == "router" and _CURRENT.get() is self._watch and ctx.agent is not None:
            self._watch._hear(ctx.agent)
