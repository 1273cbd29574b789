"""Embedding by an OpenAI-compatible service: native async I/O, and one owner of retries."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from jevlaya_lab.embedding.batches import gather_bounded, in_order_batches
from jevlaya_lab.embedding.errors import EmbeddingError, RemoteRejected, Where
from jevlaya_lab.embedding.identity import EmbeddingIdentity
from jevlaya_lab.embedding.rate_limit import RateLimit
from jevlaya_lab.embedding.remote_http import Endpoint
from jevlaya_lab.embedding.remote_reply import as_request
from jevlaya_lab.embedding.remote_request import Pace, Requester, estimated_tokens
from jevlaya_lab.embedding.strategy import EmbeddingStrategy, Explanation
from jevlaya_lab.embedding.texts import Matrix, check_shape, not_finite
from jevlaya_lab.system_one.encoding import check_count
from jevlaya_lab.system_one.errors import InvalidOption

__all__ = ["AsyncRemoteEmbedding"]


class AsyncRemoteEmbedding(EmbeddingStrategy):
    """Embeds through ``POST {base_url}/embeddings``, on the caller's own event loop.

    Args:
        model: The model's name at the service.
        base_url: ``None`` for ``OPENAI_BASE_URL`` or https://api.openai.com/v1.
        api_key: ``None`` for ``OPENAI_API_KEY``; ``""`` for no key.
        deadline: Seconds for a whole call, retries and waiting included.
        attempt_timeout: Seconds for one request.
        connect_timeout: Seconds for a connection.
        max_retries: How often one request is sent again.
        backoff: Seconds before the first retry; doubled each time, with jitter.
        max_backoff: Longest such pause; a ``Retry-After`` is honoured beyond it.
        max_batch_texts: Texts per request.
        max_batch_tokens: Tokens per request, estimated at 3 bytes each.
        max_concurrent_requests: Requests at once of one call, and connections of one loop.
        requests_per_minute: ``None`` for no limit.
        tokens_per_minute: ``None`` for no limit.
        encoding_format: ``"float"``, ``"base64"`` (smaller and quicker to read, but some gateways
            fail on it) or ``None`` to leave it out. Replies of either form are read.
        dimensions: Sent as ``dimensions``, for models that can shorten their vectors.
        dimension: What the vectors' dimension must be; ``None`` to take that of the first reply.
        prompt: Put before each text.
        name: The service's name in the identity; ``None`` for the host. Give one name to two
            gateways only if the same model stands behind both.
        revision: Version of the model, if the service tells one.
        normalised: Whether the service gives vectors of length 1, if known.
        headers: Sent along.
        empty: See :class:`EmbeddingStrategy`.

    Raises:
        InvalidOption: An argument is outside what it takes.
        MissingExtra: httpx is not installed.

    Source: rules E-6 and E-6a.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        deadline: float = 60.0,
        attempt_timeout: float = 30.0,
        connect_timeout: float = 5.0,
        max_retries: int = 5,
        backoff: float = 0.5,
        max_backoff: float = 8.0,
        max_batch_texts: int = 128,
        max_batch_tokens: int = 100_000,
        max_concurrent_requests: int = 8,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        encoding_format: Literal["float", "base64"] | None = "float",
        dimensions: int | None = None,
        dimension: int | None = None,
        prompt: str = "",
        name: str | None = None,
        revision: str | None = None,
        normalised: bool | None = None,
        headers: Mapping[str, str] | None = None,
        empty: Literal["reject", "zero"] = "reject",
    ) -> None:
        if not isinstance(model, str) or not model:
            raise InvalidOption(f"model must be the model's name at the service, got {model!r}")
        if encoding_format not in ("float", "base64", None):
            raise InvalidOption(
                f"encoding_format must be 'float', 'base64' or None, got {encoding_format!r}"
            )
        self._most_texts = check_count("max_batch_texts", max_batch_texts) or 1
        self._most_tokens = check_count("max_batch_tokens", max_batch_tokens) or 1
        self._most_requests = check_count("max_concurrent_requests", max_concurrent_requests) or 1
        self._endpoint = Endpoint(
            base_url or os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1",
            os.environ.get("OPENAI_API_KEY") if api_key is None else api_key,
            headers or {},
            connect_timeout,
            self._most_requests,
        )
        super().__init__(Where(f"remote:{name or self._endpoint.host}", model, "network"), empty)
        self._model = model
        self._pace = Pace(
            deadline=deadline,
            attempt_timeout=attempt_timeout,
            max_retries=check_count("max_retries", max_retries, least=0) or 0,
            backoff=backoff,
            max_backoff=max_backoff,
        )
        self._dimensions = check_count("dimensions", dimensions)
        self._dimension = check_count("dimension", dimension) or self._dimensions
        self._prompt = prompt
        self._revision = revision
        self._normalised = normalised
        self._requester = Requester(
            self._endpoint,
            self._pace,
            self._where,
            self.metrics,
            RateLimit("requests_per_minute", requests_per_minute),
            RateLimit("tokens_per_minute", tokens_per_minute),
            lambda texts: as_request(model, texts, encoding_format, self._dimensions),
        )
        self.metrics.gauge("concurrency_inflight", lambda: self._requester.in_flight)

    @property
    def identity(self) -> EmbeddingIdentity:
        """What its vectors are; the dimension may be unknown before the first reply."""
        return EmbeddingIdentity(
            provider=self._where.provider,
            model=self._model,
            revision=self._revision,
            dimension=self._dimension,
            prompt=self._prompt,
            normalised=self._normalised,
        )

    async def aclose(self) -> None:
        """Close the connections; calls after that are refused."""
        await super().aclose()
        await self._endpoint.aclose()

    def explain(self) -> Explanation:
        """Where a call would run, and why."""
        return Explanation(
            provider=self._where.provider,
            model=self._model,
            runs="async network I/O",
            resource="network",
            state="ready" if self._dimension else "ready: the first reply tells the dimension",
            why=(
                "The service computes and a call only waits for its socket, so it is awaited on "
                "the caller's event loop, without any thread or local permit."
            ),
            limits={
                "deadline": self._pace.deadline,
                "attempt_timeout": self._pace.attempt_timeout,
                "max_retries": self._pace.max_retries,
                "max_batch_texts": self._most_texts,
                "max_batch_tokens": self._most_tokens,
                "max_concurrent_requests": self._most_requests,
            },
        )

    async def _vectors(self, texts: Sequence[str]) -> Matrix:
        deadline = time.monotonic() + self._pace.deadline
        sent = [self._prompt + text for text in texts] if self._prompt else list(texts)
        sizes = [estimated_tokens(text) for text in sent]
        batches = list(in_order_batches(sizes, self._most_tokens, self._most_texts))
        parts = await gather_bounded(
            [self._batch(sent, batch, deadline) for batch in batches], self._most_requests
        )
        for part in parts:
            check_shape(part, len(part), self._dimension or parts[0].shape[1], self._where)
        self._dimension = self._dimension or parts[0].shape[1]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _batch(self, texts: Sequence[str], batch: list[int], deadline: float) -> Callable[[], Any]:
        async def embed() -> Matrix:
            try:
                return await self._split([texts[i] for i in batch], deadline)
            except EmbeddingError as exc:
                if exc.positions:
                    raise exc.moved(batch) from exc.__cause__
                raise

        return embed

    async def _split(self, texts: Sequence[str], deadline: float) -> Matrix:
        """One request, or two for half of the texts each where the whole is refused."""
        try:
            vectors = await self._requester.request(texts, deadline)
        except RemoteRejected as exc:
            if not exc.about_texts:
                raise
            if len(texts) == 1:
                raise RemoteRejected(exc.message, exc.where, positions=[0]) from exc
        else:
            for i in not_finite(vectors):
                if len(texts) > 1:
                    vectors[i] = (await self._alone(texts, i, deadline))[0]
            return vectors
        return await self._halves(texts, deadline)

    async def _alone(self, texts: Sequence[str], i: int, deadline: float) -> Matrix:
        try:
            return await self._split([texts[i]], deadline)
        except EmbeddingError as exc:
            if exc.positions:
                raise exc.moved([i]) from exc.__cause__
            raise

    async def _halves(self, texts: Sequence[str], deadline: float) -> Matrix:
        middle = len(texts) // 2
        first = await self._split(texts[:middle], deadline)
        try:
            return np.concatenate([first, await self._split(texts[middle:], deadline)])
        except EmbeddingError as exc:
            if exc.positions:
                raise exc.moved(range(middle, len(texts))) from exc.__cause__
            raise
