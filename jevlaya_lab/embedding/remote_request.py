"""One request until it succeeds, fails for good, or its time is up: the one owner of retries."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from jevlaya_lab.embedding.errors import (
    EmbeddingError,
    RateLimited,
    RemoteTimeout,
    RemoteUnavailable,
    Where,
)
from jevlaya_lab.embedding.metrics import Metrics
from jevlaya_lab.embedding.rate_limit import RateLimit
from jevlaya_lab.embedding.remote_http import Endpoint, within
from jevlaya_lab.embedding.remote_reply import failure, message_of, read_vectors
from jevlaya_lab.embedding.texts import Matrix
from jevlaya_lab.system_one.errors import InvalidOption

__all__ = ["Pace", "Requester", "estimated_tokens"]

_BYTES_PER_TOKEN: Final = 3
"""On the safe side for English (about 4) and Chinese (about 3)."""

_PASSING: Final = (RateLimited, RemoteUnavailable, RemoteTimeout)
"""Failures after which the same request may succeed."""


def estimated_tokens(text: str) -> int:
    """Tokens that a text may have; only its service knows how many."""
    size = len(text) if text.isascii() else len(text.encode("utf-8"))
    return size // _BYTES_PER_TOKEN + 1


@dataclass(frozen=True, slots=True)
class Pace:
    """How long and how often it is tried; seconds. See ``AsyncRemoteEmbedding``.

    Raises:
        InvalidOption: One of them is not above 0.
    """

    deadline: float
    attempt_timeout: float
    max_retries: int
    backoff: float
    max_backoff: float

    def __post_init__(self) -> None:
        for name in ("deadline", "attempt_timeout", "backoff", "max_backoff"):
            if not (value := getattr(self, name)) > 0:
                raise InvalidOption(f"{name} must be seconds above 0, got {value!r}")

    def pause(self, retries: int, error: EmbeddingError) -> float:
        """Seconds before the next attempt: what the service asks for, or backoff with jitter."""
        if error.retry_after is not None:
            return error.retry_after
        longest: float = min(self.max_backoff, self.backoff * 2.0 ** min(retries, 30))
        return longest * random.uniform(0.5, 1.0)


class Requester:
    """Sends requests.

    Args:
        endpoint: Where to.
        pace: How often and how long.
        where: For error messages.
        metrics: Where requests are counted.
        requests: Limits requests per minute.
        tokens: Limits tokens per minute.
        body: Makes the body of a request for some texts.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        pace: Pace,
        where: Where,
        metrics: Metrics,
        requests: RateLimit,
        tokens: RateLimit,
        body: Callable[[Sequence[str]], bytes],
    ) -> None:
        self._endpoint = endpoint
        self._pace = pace
        self._where = where
        self._metrics = metrics
        self._requests = requests
        self._tokens = tokens
        self._body = body
        self.in_flight = 0

    async def request(self, texts: Sequence[str], deadline: float) -> Matrix:
        """The vectors [n, d] of some texts, by one request that is sent again where that may help.

        Args:
            texts: As many as one request may hold.
            deadline: In ``time.monotonic()``.

        Raises:
            EmbeddingError: It failed for good, or the time is up.
        """
        body = self._body(texts)
        n_tokens = sum(map(estimated_tokens, texts))
        retries = 0
        while True:
            await self._take_turn(n_tokens, deadline)
            try:
                return await self._attempt(body, len(texts), deadline)
            except _PASSING as exc:
                if retries >= self._pace.max_retries:
                    raise
                pause = self._pace.pause(retries, exc)
                if time.monotonic() + pause >= deadline:
                    raise self._too_late(exc, pause) from exc
            await asyncio.sleep(pause)
            retries += 1
            self._metrics.count("retries_total")

    def _too_late(self, error: EmbeddingError, pause: float) -> EmbeddingError:
        return type(error)(
            f"{error.message}; another attempt, in {pause:.1f} s, would come after the deadline "
            f"of {self._pace.deadline:g} s",
            error.where,
            retry_after=error.retry_after,
        )

    async def _take_turn(self, n_tokens: int, deadline: float) -> None:
        began = time.perf_counter()
        for limit, units in ((self._requests, 1), (self._tokens, n_tokens)):
            if late := await limit.take(units, deadline):
                raise RateLimited(
                    f"by {limit.name} this request has to wait until {late:.1f} s after the "
                    f"deadline of {self._pace.deadline:g} s",
                    self._where,
                    retry_after=late,
                )
        self._metrics.observe("queue_wait_ms", (time.perf_counter() - began) * 1e3)

    async def _attempt(self, body: bytes, n: int, deadline: float) -> Matrix:
        import httpx

        seconds = max(0.0, min(self._pace.attempt_timeout, deadline - time.monotonic()))
        began = time.perf_counter()
        self.in_flight += 1
        try:
            reply = await within(self._endpoint.post(body), seconds)
        except (asyncio.TimeoutError, httpx.TimeoutException) as exc:
            raise RemoteTimeout(
                f"no whole reply after {time.perf_counter() - began:.3g} s (attempt_timeout="
                f"{self._pace.attempt_timeout:g}, deadline={self._pace.deadline:g})",
                self._where,
            ) from exc
        except httpx.RequestError as exc:
            what = f"{type(exc).__name__}: {self._endpoint.scrubbed(str(exc))}"
            raise RemoteUnavailable(f"the connection failed ({what})", self._where) from exc
        finally:
            self.in_flight -= 1
            self._metrics.observe("encode_ms", (time.perf_counter() - began) * 1e3)
        if reply.status != 200:
            raise failure(reply, self._endpoint.scrubbed(message_of(reply)), self._where)
        return read_vectors(reply, n, self._where)
