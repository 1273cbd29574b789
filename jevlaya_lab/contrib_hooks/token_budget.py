"""A token budget: calls that would read too much are refused, or cut, before they are computed."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, Final

from jevlaya_lab.contrib_hooks.runs import checkpoint_of
from jevlaya_lab.system_one.encoding import check_count, state_text
from jevlaya_lab.system_one.errors import InvalidInput, InvalidOption, InvalidState
from jevlaya_lab.system_one.events import BaseHook

__all__ = ["BudgetExceeded", "TokenBudgetGuard"]

_MINUTE: Final = 60.0


class BudgetExceeded(InvalidInput, ValueError):
    """A call over its budget; nothing was computed for it.

    Attributes:
        asked: What the call would have read.
        limit: What it may read.
        unit: ``tokens`` or ``characters``.
        retry_after: Seconds until the minute's budget has room; ``None`` for one that never will.
    """

    def __init__(
        self, message: str, asked: int, limit: int, unit: str, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.asked, self.limit, self.unit = asked, limit, unit
        self.retry_after = retry_after


class TokenBudgetGuard(BaseHook):
    """Bounds how much of states a call, and all calls of a minute together, may read.

    Counted are the states of a run, as JSON where they are no text: questions are not. A state
    that the network cuts by itself counts in full. Of ``predict_long`` an agent's hook sees the
    overlapping windows and counts each; over a Router it sees the state. A run that a hook ahead
    answered costs nothing. What a minute holds is counted when a run starts, also if it then fails,
    and refused runs cost nothing.

    With ``hooks_raise=False`` a refusal is only a warning and the call goes on; and a Router has
    loaded the checkpoint already.

    Args:
        per_call: Limit of one run; of a batch that is one call to an agent, or one request to a
            Router.
        per_minute: Limit of any 60 seconds, over all that the hook is installed in.
        unit: ``tokens`` of the agent's own tokenizer, or ``characters``.
        over: ``refuse`` raises ``BudgetExceeded``. ``trim`` cuts what one run has over its limit:
            texts at their end, evenly so that short ones stay whole; of conversations the first
            turns. An object is never cut, nor is anything to fit into a minute: these are refused.
        count: A function that gives a text's tokens, for agents whose tokenizer is not known.
        clock: Seconds, for tests.

    Attributes:
        counts: How many runs ``passed``, were ``trimmed`` and ``refused``.

    Raises:
        InvalidOption: An argument is outside what it takes, or both limits are missing.
    """

    def __init__(
        self,
        per_call: int | None = None,
        per_minute: int | None = None,
        *,
        unit: str = "tokens",
        over: str = "refuse",
        count: Callable[[str], int] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if unit not in ("tokens", "characters"):
            raise InvalidOption(f"TokenBudgetGuard: unit is 'tokens' or 'characters', got {unit!r}")
        if over not in ("refuse", "trim"):
            raise InvalidOption(f"TokenBudgetGuard: over is 'refuse' or 'trim', got {over!r}")
        self.per_call = check_count("per_call", per_call)
        self.per_minute = check_count("per_minute", per_minute)
        if self.per_call is None and self.per_minute is None:
            raise InvalidOption("TokenBudgetGuard needs a limit: per_call=, per_minute= or both")
        self.unit, self.over = unit, over
        self._count, self._clock = count, clock
        self._spent: deque[tuple[float, int]] = deque()
        self._in_minute = 0
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    @property
    def counts(self) -> dict[str, int]:
        """How many runs passed, were trimmed and were refused."""
        with self._lock:
            return {name: self._counts[name] for name in ("passed", "trimmed", "refused")}

    def on_predict_start(self, ctx: Any) -> None:
        """Let the run pass, cut it, or refuse it."""
        if ctx.results is not None or not isinstance(ctx.states, (list, tuple)):
            return
        size = self._size(ctx)
        states, trimmed = list(ctx.states), False
        sizes = [size(state_text(state, i)) for i, state in enumerate(states)]
        try:
            if self.per_call is not None and sum(sizes) > self.per_call:
                if self.over == "refuse":
                    raise self._too_much(ctx, sum(sizes))
                self._trim(ctx, states, sizes, size)
                trimmed = True
            if self.per_minute is not None:
                self._spend(ctx, sum(sizes))
        except BudgetExceeded:
            with self._lock:
                self._counts["refused"] += 1
            raise
        with self._lock:
            self._counts["trimmed" if trimmed else "passed"] += 1
        if trimmed:
            ctx.states = states

    def __repr__(self) -> str:
        return (
            f"TokenBudgetGuard(per_call={self.per_call}, per_minute={self.per_minute}, "
            f"unit={self.unit!r}, over={self.over!r})"
        )

    def _size(self, ctx: Any) -> Callable[[str], int]:
        if self.unit == "characters":
            return len
        return self._count or _counter(ctx.agent)

    def _too_much(self, ctx: Any, asked: int, why: str = "") -> BudgetExceeded:
        n, limit = len(ctx.states), self.per_call or 0
        return BudgetExceeded(
            f"a call to {checkpoint_of(ctx)!r} would read {asked:,} {self.unit} in {n} "
            f"state{'s' * (n != 1)}, over its budget of {limit:,}{why}; shorten the states, ask "
            "about fewer at once, or raise per_call",
            asked,
            limit,
            self.unit,
        )

    def _trim(
        self, ctx: Any, states: list[Any], sizes: list[int], size: Callable[[str], int]
    ) -> None:
        """Cut the longest states to one common length, so that all fit together."""
        asked, room = sum(sizes), self.per_call or 0
        for place, i in enumerate(sorted(range(len(sizes)), key=sizes.__getitem__)):
            share = room // (len(sizes) - place)
            if sizes[i] > share:
                states[i] = _shortened(states[i], share, size)
                if states[i] is None:
                    why = f", and state {i} ({type(ctx.states[i]).__name__}) cannot be cut to fit"
                    raise self._too_much(ctx, asked, why)
                sizes[i] = size(state_text(states[i]))
            room -= sizes[i]

    def _spend(self, ctx: Any, asked: int) -> None:
        limit = self.per_minute or 0
        with self._lock:
            now = self._clock()
            while self._spent and now - self._spent[0][0] >= _MINUTE:
                self._in_minute -= self._spent.popleft()[1]
            over = self._in_minute + asked - limit
            if over <= 0:
                if asked:
                    self._spent.append((now, asked))
                    self._in_minute += asked
                return
            wait = None
            for at, spent in self._spent if asked <= limit else ():
                over -= spent
                if over <= 0:
                    wait = at + _MINUTE - now
                    break
            spent_now = self._in_minute
        advice = (
            f"try again in {wait:.1f} s"
            if wait is not None
            else "it would not fit into an empty minute either: shorten the states"
        )
        raise BudgetExceeded(
            f"a call to {checkpoint_of(ctx)!r} would read {asked:,} {self.unit}, with "
            f"{spent_now:,} of {limit:,} spent in the last minute; {advice}, or raise per_minute",
            asked,
            limit,
            self.unit,
            wait,
        )


def _shortened(state: Any, room: int, size: Callable[[str], int]) -> Any:
    """A text or a conversation that fits; ``None`` where there is none."""
    if isinstance(state, str):
        least, most = 0, len(state)
        while least < most:  # the longest beginning that fits
            middle = (least + most + 1) // 2
            if size(state[:middle]) <= room:
                least = middle
            else:
                most = middle - 1
        return state[:least] if least else None
    if isinstance(state, (list, tuple)):
        turns = list(state)
        while len(turns) > 1:
            del turns[0]
            if size(state_text(turns)) <= room:
                return turns
    return None


def _counter(agent: Any) -> Callable[[str], int]:
    """How many tokens a text has for an agent of this package or of ``laya``.

    Raises:
        InvalidState: Its tokenizer is not known.
    """
    spans = getattr(getattr(agent, "network", None), "token_spans", None)
    if callable(spans):
        return lambda text: len(spans(text))
    tokenizer = getattr(agent, "tok", None)
    if callable(tokenizer):
        # laya changes the truncation of this very tokenizer, under a lock that encode_text takes.
        ask: Any = getattr(sys.modules.get("laya.common"), "encode_text", _encoded)
        return lambda text: len(ask(tokenizer, text, add_special_tokens=False)["input_ids"])
    raise InvalidState(
        f"TokenBudgetGuard does not know the tokenizer of a {type(agent).__name__}; give "
        "count=, a function that gives a text's tokens, or unit='characters'"
    )


def _encoded(tokenizer: Any, text: str, **options: Any) -> Any:
    return tokenizer(text, **options)
