"""A bounded memory of vectors in compartments, searched exactly; the least used goes first."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np

from jevlaya_lab.embedding.identity import EmbeddingIdentity
from jevlaya_lab.embedding.near import unit
from jevlaya_lab.embedding.texts import Matrix

__all__ = ["Nearest", "Neighbour"]


class Neighbour(NamedTuple):
    """What is nearest to a vector: where it is, how near, and what was kept with it."""

    slot: int
    similarity: float
    value: Any


class Nearest:
    """Vectors of one identity with a value each; not guarded against threads.

    Args:
        capacity: How many it holds, over all compartments.
        identity: Of the vectors.

    Attributes:
        identity: As given.
        evictions: How many had to go for others.
    """

    def __init__(self, capacity: int, identity: EmbeddingIdentity) -> None:
        self.identity = identity
        self.evictions = 0
        self._capacity = capacity
        self._vectors = np.zeros((min(capacity, 64), identity.dimension or 0), np.float32)
        self._values: dict[int, Any] = {}
        self._slots: dict[bytes, list[int]] = {}
        self._used: OrderedDict[int, bytes] = OrderedDict()  # the least recently used first

    def find(self, compartment: bytes, vectors: Matrix) -> list[Neighbour | None]:
        """For each vector the nearest one of a compartment; ``None`` where that is empty."""
        slots = self._slots.get(compartment)
        if not slots:
            return [None] * len(vectors)
        similar = unit(vectors) @ self._vectors[slots].T
        best = similar.argmax(axis=1)
        return [
            Neighbour(slots[at], float(row[at]), self._values[slots[at]])
            for at, row in zip(best, similar, strict=True)
        ]

    def touch(self, slots: list[int]) -> None:
        """Count some as just used."""
        for slot in slots:
            self._used.move_to_end(slot)

    def add(self, compartment: bytes, vector: Matrix, value: Any) -> None:
        """Keep a vector [dimension]; where the memory is full, the least used one goes."""
        if len(self._used) >= self._capacity:
            slot, of = self._used.popitem(last=False)
            self._slots[of].remove(slot)
            if not self._slots[of]:
                del self._slots[of]
            self.evictions += 1
        else:
            slot = len(self._used)
            if slot >= len(self._vectors):
                more = min(self._capacity, 2 * len(self._vectors)) - len(self._vectors)
                room = np.zeros((more, self._vectors.shape[1]), np.float32)
                self._vectors = np.concatenate([self._vectors, room])
        self._vectors[slot] = unit(vector[None])[0]
        self._values[slot] = value
        self._slots.setdefault(compartment, []).append(slot)
        self._used[slot] = compartment

    def __len__(self) -> int:
        return len(self._used)
