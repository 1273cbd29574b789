"""EmbeddingGenerator: one asynchronous face for every provider, and its synchronous twins."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from jevlaya_lab.embedding.hashing import InlineHashingEmbedding
from jevlaya_lab.embedding.identity import EmbeddingIdentity, Embeddings
from jevlaya_lab.embedding.local import BoundedLocalEmbedding
from jevlaya_lab.embedding.metrics import Metrics
from jevlaya_lab.embedding.remote import AsyncRemoteEmbedding
from jevlaya_lab.embedding.strategy import EmbeddingStrategy, Explanation
from jevlaya_lab.embedding.sync import run_sync
from jevlaya_lab.embedding.texts import Matrix
from jevlaya_lab.system_one.errors import InvalidOption

__all__ = ["EmbeddingGenerator"]

_PROVIDERS: Final[dict[str, type[EmbeddingStrategy]]] = {
    "hashing": InlineHashingEmbedding,
    "local_transformer": BoundedLocalEmbedding,
    "remote": AsyncRemoteEmbedding,
}


class EmbeddingGenerator:
    """Texts to vectors, by a provider that runs as its resource asks for.

    Awaiting it says nothing about where the work runs; ``explain()`` does. It may be used from many
    threads and event loops at once.

    Args:
        provider: ``"local_transformer"`` (threads), ``"remote"`` (async I/O), ``"hashing"``
            (inline; never used unless named), or a strategy object.
        *args: For the provider, such as its model.
        **options: For the provider: see :class:`BoundedLocalEmbedding`,
            :class:`AsyncRemoteEmbedding` and :class:`InlineHashingEmbedding`.

    Attributes:
        strategy: The provider at work.

    Raises:
        InvalidOption: There is no such provider, or an option is not one of its.
    """

    def __init__(
        self, provider: str | EmbeddingStrategy = "local_transformer", *args: Any, **options: Any
    ) -> None:
        if isinstance(provider, EmbeddingStrategy):
            if args or options:
                raise InvalidOption("a strategy object has its options already; give none here")
            self.strategy = provider
            return
        if not isinstance(provider, str) or provider not in _PROVIDERS:
            raise InvalidOption(
                f"provider must be one of {', '.join(sorted(_PROVIDERS))}, or an "
                f"EmbeddingStrategy; got {provider!r}"
            )
        kind = _PROVIDERS[provider]
        try:
            inspect.signature(kind).bind(*args, **options)
        except TypeError as exc:
            raise InvalidOption(f"provider {provider!r}: {exc}") from exc
        self.strategy = kind(*args, **options)

    async def generate(self, text: str) -> npt.NDArray[np.float32]:
        """The vector of one text: float32 [dimension].

        Raises:
            InvalidText: It is no text, or empty.
            EmbeddingError: It failed; which error says at what.
        """
        vector: npt.NDArray[np.float32] = (await self.strategy.embed([text]))[0]
        return vector

    async def generate_batch(self, texts: Sequence[str]) -> Matrix:
        """The vectors of some texts: float32 [n, dimension], in their order.

        Raises:
            InvalidText: Something is no text, or empty; names the positions.
            EmbeddingError: It failed; which error says at what.
        """
        return await self.strategy.embed(texts)

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        """The same, with the identity that keeps them from being mixed with others."""
        vectors = await self.strategy.embed(texts)
        return Embeddings(vectors, self.identity)

    async def preload(self) -> None:
        """Do now what the first call would have to wait for: load and warm up, or connect."""
        await self.strategy.preload()

    async def aclose(self) -> None:
        """Let go of threads, connections and the model; later calls are refused."""
        await self.strategy.aclose()

    def generate_sync(self, text: str) -> npt.NDArray[np.float32]:
        """:meth:`generate` without ``await``; also where a loop is running, which it holds up."""
        return run_sync(self.generate(text))

    def generate_batch_sync(self, texts: Sequence[str]) -> Matrix:
        """:meth:`generate_batch` without ``await``; also where a loop is running."""
        return run_sync(self.generate_batch(texts))

    def embed_sync(self, texts: Sequence[str]) -> Embeddings:
        """:meth:`embed` without ``await``; also where a loop is running."""
        return run_sync(self.embed(texts))

    def preload_sync(self) -> None:
        """:meth:`preload` without ``await``; also where a loop is running."""
        run_sync(self.preload())

    def close(self) -> None:
        """:meth:`aclose` without ``await``; also where a loop is running."""
        run_sync(self.aclose())

    @property
    def identity(self) -> EmbeddingIdentity:
        """What the vectors are, for stores and caches."""
        return self.strategy.identity

    @property
    def metrics(self) -> Metrics:
        """What was counted and timed."""
        return self.strategy.metrics

    def explain(self) -> Explanation:
        """Where a call would run, and why."""
        return self.strategy.explain()

    async def __aenter__(self) -> EmbeddingGenerator:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __enter__(self) -> EmbeddingGenerator:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"EmbeddingGenerator({self.strategy!r})"
