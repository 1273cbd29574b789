"""An exact-match cache: a call that was asked the same before is answered from memory."""

from __future__ import annotations

import copy
import threading
from collections import Counter, OrderedDict
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from jevlaya_lab.contrib_hooks.keys import Tokens, Unkeyable, key_of
from jevlaya_lab.system_one.encoding import check_count
from jevlaya_lab.system_one.events import BaseHook

__all__ = ["CacheStats", "ExactCache", "has_results", "neutral"]

_MARKS: Final = ("abstention", "abstention_threshold", "low_confidence")


class CacheStats(NamedTuple):
    """What a cache did so far.

    Attributes:
        hits: Calls answered from memory.
        misses: Calls that it looked up in vain.
        stored: Calls that it took in.
        evictions: Entries that had to go for others.
        duplicates: Misses on what another run was asking at that moment: in another thread, or in
            the same batch of a Router, whose start hooks all run before any end hook (L-22).
        changed: Calls not taken in because a hook behind the cache rewrote what was asked.
        bypassed: Calls that it left alone, by reason: ``predict_long``, ``caller`` (``laya`` ran
            the hook where it cannot be seen whether this is a ``predict_long``), ``language`` (the
            agent has temperatures by language), ``agent`` (it cannot be told from others),
            ``value`` and ``nesting`` (a state or question that is no plain value), ``answered``
            (a hook ahead had answered), ``copy`` (results that cannot be copied).
        entries: What it holds.
    """

    hits: int
    misses: int
    stored: int
    evictions: int
    duplicates: int
    changed: int
    bypassed: dict[str, int]
    entries: int

    @property
    def hit_rate(self) -> float:
        """Hits among all calls that were looked up; 0 where there were none."""
        asked = self.hits + self.misses
        return self.hits / asked if asked else 0.0


class ExactCache(BaseHook):
    """Answers from memory what the same agent was asked before; may be shared by many threads.

    The key is a digest of the states, the questions in their order, the token budgets, the agent
    itself, its network and its temperatures; no text of a state is kept. Another agent's answer is
    never served, also not that of an evicted checkpoint that was built again. Results are copied on
    the way in and out. A failed run stores nothing.

    A start hook looks up and an end hook stores, so a duplicate inside one checkpoint's group of a
    Router's batch is computed again (L-22); across calls it is a hit. A hit of a Router gets the
    ``routing`` of its own call. ``predict_long`` is left alone: its end hooks see windows.

    Install it behind hooks that rewrite states (redaction) and ahead of hooks that rewrite
    results. Of ``laya`` every call is served but those under its ``hooks_timeout``. Weights that
    are trained in place are not noticed: call :meth:`clear`.

    Args:
        capacity: Entries that it holds; the one that was used least recently goes first.

    Raises:
        InvalidOption: ``capacity`` is no positive whole number.
    """

    def __init__(self, capacity: int = 1024) -> None:
        self.capacity = check_count("capacity", capacity) or 1024
        self._kept: OrderedDict[bytes, list[Any]] = OrderedDict()
        self._asking: WeakKeyDictionary[Any, bytes] = WeakKeyDictionary()
        self._tokens = Tokens()
        self._counts: Counter[str] = Counter()
        self._bypassed: Counter[str] = Counter()
        self._lock = threading.Lock()

    def on_predict_start(self, ctx: Any) -> None:
        """Answer the run where it is known."""
        try:
            key = key_of(ctx, self._tokens)
        except Unkeyable as reason:
            with self._lock:
                self._bypassed[str(reason)] += 1
            return
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                self._counts["misses"] += 1
                self._counts["duplicates"] += key in self._asking.values()
                self._asking[ctx] = key
                return
            self._kept.move_to_end(key)
            self._counts["hits"] += 1
        ctx.skip(copy.deepcopy(found))  # entries are replaced, never changed

    def on_predict_end(self, ctx: Any) -> None:
        """Take in what the run gave."""
        with self._lock:
            key = self._asking.pop(ctx, None)
        if key is None or not has_results(ctx, len(ctx.states)):
            return
        try:
            same = key_of(ctx, self._tokens, ended=True) == key
            taken = [neutral(copy.deepcopy(result)) for result in ctx.results] if same else []
        except Unkeyable:
            same = False
        except Exception:  # results that hooks put objects into
            with self._lock:
                self._bypassed["copy"] += 1
            return
        with self._lock:
            if not same:
                self._counts["changed"] += 1
                return
            self._kept[key] = taken
            self._kept.move_to_end(key)
            self._counts["stored"] += 1
            while len(self._kept) > self.capacity:
                self._kept.popitem(last=False)
                self._counts["evictions"] += 1

    @property
    def stats(self) -> CacheStats:
        """What it did so far."""
        with self._lock:
            counts = self._counts
            return CacheStats(
                hits=counts["hits"],
                misses=counts["misses"],
                stored=counts["stored"],
                evictions=counts["evictions"],
                duplicates=counts["duplicates"],
                changed=counts["changed"],
                bypassed=dict(self._bypassed),
                entries=len(self._kept),
            )

    def clear(self) -> None:
        """Forget all entries; what it counted stays."""
        with self._lock:
            self._kept.clear()
            self._asking.clear()  # a run that began before may have read old weights

    def __len__(self) -> int:
        return len(self._kept)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        stats = self.stats
        return (
            f"ExactCache({stats.entries} of {self.capacity}, "
            f"hits={stats.hits}, misses={stats.misses})"
        )


def has_results(ctx: Any, n: int) -> bool:
    """Whether a run that ended computed something to keep: no error, no skip, ``n`` results."""
    if ctx.error is not None or getattr(ctx, "skipped", False):
        return False
    return isinstance(ctx.results, (list, tuple)) and len(ctx.results) == n


def neutral(result: Any) -> Any:
    """Without what belongs to one call: its routing, and the marks of its ``min_confidence``."""
    if not isinstance(result, dict):
        return result
    result.pop("routing", None)
    answers = result.get("answers")
    for answer in answers.values() if isinstance(answers, Mapping) else ():
        if isinstance(answer, dict):
            for mark in _MARKS:
                answer.pop(mark, None)
    return result
