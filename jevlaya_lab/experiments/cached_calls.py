"""Calls with a cache among their hooks, and what became of each request."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jevlaya_lab.contrib_hooks.keys import Tokens, Unkeyable
from jevlaya_lab.experiments.passes import Watch
from jevlaya_lab.experiments.whom import ask
from jevlaya_lab.lab.asking import is_router
from jevlaya_lab.system_one.encoding import state_text
from jevlaya_lab.system_one.events import BaseHook

__all__ = ["Asked", "CachedCalls", "key_of"]


def key_of(state: Any) -> str:
    """Equal for two states of which the same is asked."""
    return f"{type(state).__name__} {state_text(state)}"


@dataclass
class Asked:
    """One request, and what was seen of it.

    Attributes:
        key: Of its state.
        repeated: Whether the same call had asked it already.
        skipped: Whether a hook had answered when all start hooks had run.
        brought: Whether that answer had a ``routing`` then.
        computed: Whether an agent's network was asked; ``None`` where that cannot be seen.
        n_passes: Forward passes of the call; ``None`` where they cannot be seen.
        agent: The number of the agent object that its context named.
        decision: What its context said of the routing; empty for an agent's run.
        routing: What the result says of it.
        ms: Milliseconds of its run.
    """

    key: str
    repeated: bool
    skipped: bool = False
    brought: bool = False
    computed: bool | None = None
    n_passes: int | None = None
    agent: int | None = None
    decision: Mapping[str, Any] = field(default_factory=dict)
    routing: Mapping[str, Any] = field(default_factory=dict)
    ms: float | None = None

    @property
    def outcome(self) -> str:
        """``hit``, ``duplicate`` or ``miss``."""
        return "hit" if self.skipped else "duplicate" if self.repeated else "miss"


class CachedCalls:
    """Asks one target with a cache, between two hooks that look on.

    Args:
        target: The agent or router; nothing stays installed on it.
        questions: What is asked.
        cache: The hook.
    """

    def __init__(self, target: Any, questions: Mapping[Any, Any], cache: Any) -> None:
        self._target = target
        self._questions = questions
        self._cache = cache
        self._agents = Tokens()

    def ask(self, states: Sequence[Any], told: Sequence[Any], *, batch: bool) -> list[Asked]:
        """One call: about several states where it is a ``batch``, and else about one.

        Args:
            states: What about.
            told: For each, the checkpoint that a router is told; ``None`` lets it decide.
            batch: Whether to call ``predict_batch`` or ``predict``.
        """
        seen: list[Asked] = []
        for key in map(key_of, states):
            seen.append(Asked(key, any(key == other.key for other in seen)))
        look = _Look(seen, self._agents)
        hooks = [_Front(look), self._cache, _Behind(look)]
        with Watch(self._target) as watch:
            results = self._call(states, told, batch, hooks)
        read = Counter(key_of(state) for run in watch.runs if run.n_passes for state in run.states)
        # Those that no hook answered come first: only what is left over was computed beside a hit.
        for each in sorted(seen, key=lambda one: one.skipped):
            each.n_passes = watch.n_passes
            if watch.n_passes is not None:
                each.computed = read[each.key] > 0
                read[each.key] -= 1
        for each, result in zip(seen, results, strict=True):
            routing = result.get("routing") if isinstance(result, Mapping) else None
            each.routing = dict(routing) if isinstance(routing, Mapping) else {}
        return seen

    def _call(
        self, states: Sequence[Any], told: Sequence[Any], batch: bool, hooks: list[Any]
    ) -> list[Any]:
        if batch:
            return ask(self._target, states, self._questions, models=told, hooks=hooks)
        hint = {"model": told[0]} if told[0] is not None and is_router(self._target) else {}
        return [self._target.predict(states[0], self._questions, hooks=hooks, **hint)]


class _Look:
    """Which context is about which requests: single states are told by what they say, in order."""

    def __init__(self, seen: list[Asked], agents: Tokens) -> None:
        self._agents = agents
        self._all = seen
        self._waiting: dict[str, deque[Asked]] = {}
        for each in seen:
            self._waiting.setdefault(each.key, deque()).append(each)
        self._of: dict[Any, list[Asked]] = {}

    def begin(self, ctx: Any) -> None:
        states = ctx.states if isinstance(ctx.states, (list, tuple)) else []
        if ctx.router is None or len(self._all) == 1:
            self._of[ctx.run_id] = self._all
            return
        found = self._waiting.get(key_of(states[0])) if len(states) == 1 else None
        if not found:  # a hook that is installed ahead of these rewrote it
            found = next((each for each in self._waiting.values() if each), None)
        self._of[ctx.run_id] = [found.popleft()] if found else []

    def answered(self, ctx: Any) -> None:
        results = ctx.results
        brought = isinstance(results, (list, tuple)) and any(
            isinstance(each, Mapping) and "routing" in each for each in results
        )
        for each in self._of.get(ctx.run_id, []):
            each.skipped, each.brought = results is not None, brought
            each.decision = dict(ctx.decision) if isinstance(ctx.decision, Mapping) else {}
            try:
                each.agent = self._agents.of(ctx.agent)
            except Unkeyable:
                each.agent = None

    def end(self, ctx: Any) -> None:
        for each in self._of.get(ctx.run_id, []):
            each.ms = ctx.elapsed_ms


class _Front(BaseHook):
    """Ahead of the cache."""

    def __init__(self, look: _Look) -> None:
        self._look = look

    def on_predict_start(self, ctx: Any) -> None:
        self._look.begin(ctx)


class _Behind(BaseHook):
    """Behind the cache."""

    def __init__(self, look: _Look) -> None:
        self._look = look

    def on_predict_start(self, ctx: Any) -> None:
        self._look.answered(ctx)

    def on_predict_end(self, ctx: Any) -> None:
        self._look.end(ctx)
