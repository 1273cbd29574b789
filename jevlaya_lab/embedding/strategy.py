"""What all providers have in common: one call, judged at both ends and counted."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from jevlaya_lab.embedding.errors import EmbeddingClosed, EmbeddingError, Where
from jevlaya_lab.embedding.identity import EmbeddingIdentity
from jevlaya_lab.embedding.metrics import Metrics
from jevlaya_lab.embedding.texts import (
    Matrix,
    check_finite,
    check_shape,
    check_texts,
    refuse_empty,
)
from jevlaya_lab.system_one.errors import InvalidOption

__all__ = ["EmbeddingStrategy", "Explanation"]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Where a call would run, and why.

    Attributes:
        provider: Which kind of provider.
        model: Its model.
        runs: ``async network I/O``, ``thread`` or ``inline``.
        resource: What it takes: ``network``, ``cpu``, ``cuda:0``, ``event loop``.
        state: ``ready``, or what the first call has to wait for.
        why: One or two sentences.
        limits: The bounds in force, by name.
    """

    provider: str
    model: str
    runs: str
    resource: str
    state: str
    why: str
    limits: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    def __str__(self) -> str:
        limits = ", ".join(f"{name}={value}" for name, value in self.limits.items())
        return (
            f"{self.provider} {self.model!r} runs as {self.runs} on {self.resource} "
            f"({self.state}). {self.why} Limits: {limits or 'none'}."
        )


class EmbeddingStrategy(ABC):
    """One way to embed. A subclass says how in ``_vectors``; the rest is done here.

    Args:
        where: What it is, for errors and metrics.
        empty: ``"reject"`` refuses empty texts with their positions; ``"zero"`` gives a vector of
            zeros for them.

    Attributes:
        metrics: What was counted and timed.
    """

    def __init__(self, where: Where, empty: Literal["reject", "zero"] = "reject") -> None:
        if empty not in ("reject", "zero"):
            raise InvalidOption(f"empty must be 'reject' or 'zero', got {empty!r}")
        self._where = where
        self._empty = empty
        self._closed = False
        self.metrics = Metrics(where)

    @property
    @abstractmethod
    def identity(self) -> EmbeddingIdentity:
        """What its vectors are; the dimension may be unknown before the first answer."""

    @abstractmethod
    async def _vectors(self, texts: Sequence[str]) -> Matrix:
        """Vectors of some texts, none of them empty, at least one."""

    @abstractmethod
    def explain(self) -> Explanation:
        """Where a call would run, and why."""

    async def preload(self) -> None:
        """Do now what the first call would have to wait for."""
        await self.embed(["warm up"])

    async def aclose(self) -> None:
        """Let go of what it holds; calls after that are refused."""
        self._closed = True

    async def embed(self, texts: Sequence[str]) -> Matrix:
        """The vectors of some texts.

        Args:
            texts: The texts.

        Returns:
            float32 [n, dimension], in their order. For no texts [0, dimension], with 0 for a
            dimension that is not known yet.

        Raises:
            InvalidText: Something is no text, or empty; nothing was embedded.
            EmbeddingError: It failed; which error says at what.
        """
        try:
            self._check_open()
            checked, empty = check_texts(texts, self._where)
            if self._empty == "reject":
                refuse_empty(empty, self._where)
            vectors = await self._embed_all(checked, empty)
        except EmbeddingError as exc:
            self.metrics.error(exc)
            raise
        except asyncio.CancelledError:
            self.metrics.count("cancelled_total")
            raise
        self.metrics.count("texts_total", len(checked))
        return vectors

    def _check_open(self) -> None:
        if self._closed:
            raise EmbeddingClosed("it was closed; make a new one", self._where)

    async def _embed_all(self, texts: list[str], empty: list[int]) -> Matrix:
        if empty:
            blank = set(empty)
            full = [i for i in range(len(texts)) if i not in blank]
        else:
            full = list(range(len(texts)))
        if not full:
            return np.zeros((len(texts), self.identity.dimension or 0), np.float32)
        try:
            found = await self._vectors(texts if not empty else [texts[i] for i in full])
            check_shape(found, len(full), self.identity.dimension, self._where)
            check_finite(found, self._where)
        except EmbeddingError as exc:
            if empty and exc.positions:
                raise exc.moved(full) from exc
            raise
        if not empty:
            return found
        vectors = np.zeros((len(texts), found.shape[1]), np.float32)
        vectors[full] = found
        return vectors

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._where})"
