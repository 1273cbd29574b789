"""Eviction policies on a sequence of requests, without any model: how many loads each one needs.

Pure functions. The Router's own policy is measured by the experiment ``eviction``; these say what
it should have done, and how little could have been done by somebody who knows the future.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["POLICIES", "Run", "belady", "fifo", "lfu", "lru"]


@dataclass(frozen=True, slots=True)
class Run:
    """What a policy did on a sequence.

    Attributes:
        loaded: Per request whether it had to be loaded.
        evicted: Per request what went for it, or ``None``.
    """

    loaded: tuple[bool, ...]
    evicted: tuple[Hashable | None, ...]

    @property
    def loads(self) -> int:
        """How often something was loaded."""
        return sum(self.loaded)

    @property
    def evictions(self) -> int:
        """How often something had to go."""
        return sum(each is not None for each in self.evicted)


Victim = Callable[[Sequence[Hashable], int], Hashable]
"""Which of the residents goes, when the request of that number needs room."""


def lru(requests: Sequence[Hashable], room: int) -> Run:
    """The one that was not asked for for longest goes."""
    return _simulated(requests, room, lambda held, now: min(held, key=_last(requests, now)))


def fifo(requests: Sequence[Hashable], room: int) -> Run:
    """The one that was loaded first goes."""
    return _simulated(requests, room, lambda held, now: held[0])


def lfu(requests: Sequence[Hashable], room: int) -> Run:
    """The one that was asked for least often so far goes; of several, the least recent one.

    Requests count from the beginning of the sequence, also those before a former eviction.
    """

    def victim(held: Sequence[Hashable], now: int) -> Hashable:
        asked, last = Counter(requests[:now]), _last(requests, now)
        return min(held, key=lambda name: (asked[name], last(name)))

    return _simulated(requests, room, victim)


def belady(requests: Sequence[Hashable], room: int) -> Run:
    """The one that is needed again latest goes: nobody can do with fewer loads.

    Source: L. A. Belady, "A study of replacement algorithms for a virtual-storage computer",
    IBM Systems Journal 5 (1966), algorithm MIN.
    """

    def victim(held: Sequence[Hashable], now: int) -> Hashable:
        def next_use(name: Hashable) -> int:
            ahead = (i for i in range(now, len(requests)) if requests[i] == name)
            return next(ahead, len(requests))

        return max(held, key=next_use)

    return _simulated(requests, room, victim)


POLICIES: Final[Mapping[str, Callable[[Sequence[Hashable], int], Run]]] = {
    "lru": lru,
    "fifo": fifo,
    "lfu": lfu,
    "belady": belady,
}
"""By name; ``belady`` needs to know the future."""


def _last(requests: Sequence[Hashable], now: int) -> Callable[[Hashable], int]:
    """When a name was asked for the last time before ``now``."""
    last = {name: i for i, name in enumerate(requests[:now])}
    return lambda name: last[name]


def _simulated(requests: Sequence[Hashable], room: int, victim: Victim) -> Run:
    held: list[Hashable] = []  # in the order of their loads
    loaded: list[bool] = []
    evicted: list[Hashable | None] = []
    for now, name in enumerate(requests):
        missing = name not in held
        gone = victim(held, now) if missing and len(held) >= room else None
        if gone is not None:
            held.remove(gone)
        if missing:
            held.append(name)
        loaded.append(missing)
        evicted.append(gone)
    return Run(tuple(loaded), tuple(evicted))
