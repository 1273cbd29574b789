"""Sequences of requests: in which order checkpoints are asked for."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Final

__all__ = ["LANGUAGES", "PATTERNS", "languages", "sequence"]

LANGUAGES: Final[Mapping[str, int]] = {
    "en": 121,
    **dict.fromkeys(("de", "es", "fr"), 6),
    **dict.fromkeys(("ar", "hi", "it", "ja", "ko", "nl", "pl", "pt", "ru", "tr", "zh"), 5),
}
"""Tickets by language in ``data/support_tickets.csv`` (194 tickets): the mix that is drawn from."""

PATTERNS: Final = ("languages", "round-robin", "bursty", "zipf")

_BURST: Final = 5
"""Mean length of a burst, in requests."""


def languages(n: int, seed: int) -> list[str]:
    """Languages of ``n`` requests, drawn from :data:`LANGUAGES`."""
    draw = random.Random(seed)
    return draw.choices(list(LANGUAGES), weights=list(LANGUAGES.values()), k=n)


def sequence(pattern: str, names: Sequence[str], n: int, seed: int) -> list[str]:
    """Which checkpoint each of ``n`` requests asks for.

    Args:
        pattern: ``round-robin``: one after the other, the worst there is for LRU.  ``bursty``: some
            requests for one, then for another (lengths geometric, of mean 5).  ``zipf``: each for
            itself, the k-th name with a weight of 1/k.
        names: The checkpoints.
        n: How many requests.
        seed: Of the random numbers.
    """
    draw = random.Random(seed)
    if pattern == "round-robin":
        return [names[i % len(names)] for i in range(n)]
    if pattern == "zipf":
        return draw.choices(names, weights=[1 / (k + 1) for k in range(len(names))], k=n)
    found: list[str] = []
    while len(found) < n:
        others = [name for name in names if not found or name != found[-1]]
        found.append(draw.choice(others))
        while len(found) < n and draw.random() < 1 - 1 / _BURST:
            found.append(found[-1])
    return found
