"""Embedding on this machine: blocking compute in a few threads, the event loop left alone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any, Final, Literal

import numpy as np

from jevlaya_lab.embedding import metrics as gpu
from jevlaya_lab.embedding.batches import gather_bounded, padded_batches
from jevlaya_lab.embedding.errors import (
    EmbeddingError,
    ModelLoadTimeout,
    Where,
)
from jevlaya_lab.embedding.identity import EmbeddingIdentity
from jevlaya_lab.embedding.jobs import Limits
from jevlaya_lab.embedding.lane import Lane
from jevlaya_lab.embedding.loading import Loader, State
from jevlaya_lab.embedding.local_sources import Source, find_source
from jevlaya_lab.embedding.local_work import LocalWork
from jevlaya_lab.embedding.strategy import EmbeddingStrategy, Explanation
from jevlaya_lab.embedding.texts import Matrix, as_matrix, check_finite, check_shape
from jevlaya_lab.embedding.workers import Workers, wait_for
from jevlaya_lab.system_one.devices import usable_cores
from jevlaya_lab.system_one.encoding import check_count
from jevlaya_lab.system_one.errors import InvalidOption

__all__ = ["TOKENS_PER_PASS", "BoundedLocalEmbedding"]

TOKENS_PER_PASS: Final = {"cpu": 1024, "object": 4096}
"""Padded tokens of one forward pass, by device: on a CPU small ones fit its caches."""

_ELSEWHERE: Final = 8192

TOKENS_PER_JOB: Final = 16_384
"""About as many tokens go to a thread at once, so that a long list lets short calls in between."""

_TEXTS_PER_JOB: Final = 512
_CHARS_PER_TOKEN: Final = 4
_MERGED: Final = 64


class BoundedLocalEmbedding(EmbeddingStrategy):
    """Embeds with a model in this process, at most ``local_embedding_concurrency`` at once.

    Args:
        model: ``"embedded"`` for the all-MiniLM-L6-v2 that comes with the package; ``org/name`` or
            a folder for sentence-transformers; an Agent whose encoder is to be shared; an object
            with ``encode(texts)``; or a function that makes one.
        local_embedding_concurrency: Encodes at once. Each has a replica of the model, which shares
            its weights and has a tokenizer of its own.
        max_queue: Calls that may wait; further ones are refused at once.
        permit_timeout: Seconds that a call may wait for a permit.
        queue_timeout: Seconds that it may then wait for a thread of the executor.
        encode_timeout: Seconds that its encode may take; a long list is encoded in parts, each with
            these limits of its own.
        load_timeout: Seconds that it may wait for the model to be loaded.
        preload: Whether to begin loading now; ``await preload()`` waits for it and raises if it
            fails.
        micro_batching: Whether single texts that wait may share a forward pass. The first one is
            dispatched at once; nothing ever waits on purpose.
        torch_threads: Threads of torch per encode; ``None`` shares out the usable cores.
        executor: Where encodes run; ``None`` for threads of its own.
        tokens_per_pass: Padded tokens of one forward pass, within which nothing can stop; ``None``
            for 1,024 on a CPU, and more elsewhere.
        dimension: What the model's dimension must be; ``None`` to take what it has.
        name: What the model is called in its identity.
        revision: Its commit, digest or version.
        device: ``None`` for the best there is.
        dtype: ``float32``, or half precision for a sentence-transformers model on a GPU.
        prompt: Put before each text.
        token: Access token for the Hub.
        empty: See :class:`EmbeddingStrategy`.

    Raises:
        InvalidOption: An argument is outside what it takes.

    Source: rules E-1 to E-5, E-8, E-12 and E-13.
    """

    def __init__(
        self,
        model: Any = "embedded",
        *,
        local_embedding_concurrency: int = 1,
        max_queue: int = 256,
        permit_timeout: float | None = 30.0,
        queue_timeout: float | None = 10.0,
        encode_timeout: float | None = 120.0,
        load_timeout: float | None = 600.0,
        preload: bool = False,
        micro_batching: bool = False,
        torch_threads: int | None = None,
        executor: Executor | None = None,
        tokens_per_pass: int | None = None,
        dimension: int | None = None,
        name: str | None = None,
        revision: str | None = None,
        device: str | None = None,
        dtype: str = "float32",
        prompt: str | None = None,
        token: str | None = None,
        empty: Literal["reject", "zero"] = "reject",
    ) -> None:
        concurrency = _count("local_embedding_concurrency", local_embedding_concurrency)
        self._source: Source = find_source(
            model,
            name=name,
            revision=revision,
            device=device,
            dtype=dtype,
            prompt=prompt,
            token=token,
        )
        if concurrency > 1 and not self._source.replicable:
            raise InvalidOption(
                f"local_embedding_concurrency={concurrency}, but one object encodes one batch at a "
                "time: pass a function that makes such objects (one that gives the same object "
                "says that threads may share it)"
            )
        facts = self._facts = self._source.facts
        super().__init__(Where("local_transformer", facts.model, facts.device), empty)
        self._dimension = check_count("dimension", dimension)
        self._budget = check_count("tokens_per_pass", tokens_per_pass)
        self._micro_batching = micro_batching
        self._torch_threads = check_count("torch_threads", torch_threads) or max(
            1, usable_cores() // concurrency
        )
        self._own_threads = executor is None
        limits = Limits(
            concurrency,
            _count("max_queue", max_queue, least=0),
            _seconds("load_timeout", load_timeout),
            _seconds("permit_timeout", permit_timeout),
            _seconds("queue_timeout", queue_timeout),
            _seconds("encode_timeout", encode_timeout),
        )
        self._executor = executor or Workers(concurrency, "jevlaya-embedding")
        self._lane: Lane[Sequence[str]] = Lane(
            limits,
            self._executor,
            self._where,
            on_gated=lambda: self._loader.begin(),
            merge=_MERGED,
        )
        self._loader: Loader[LocalWork] = Loader(
            self._build, self._where, on_ready=self._lane.open, on_failed=self._failed
        )
        self.metrics.gauge("concurrency_inflight", lambda: self._lane.running)
        self.metrics.gauge("semaphore_waiters", lambda: self._lane.waiting)
        self.metrics.gauge("gpu_memory_bytes", lambda: gpu.gpu_memory_bytes(self._where.resource))
        self.metrics.gauge(
            "gpu_utilisation_percent", lambda: gpu.gpu_utilisation_percent(self._where.resource)
        )
        if preload:
            self._loader.begin()

    @property
    def identity(self) -> EmbeddingIdentity:
        """What its vectors are; of most models all of it is known only when they are loaded."""
        facts = self._facts
        return EmbeddingIdentity(
            provider="local_transformer",
            model=facts.model,
            revision=facts.revision,
            dimension=self._dimension,
            pooling=facts.pooling,
            prompt=facts.prompt,
            max_length=facts.max_length,
            normalised=facts.normalised,
        )

    @property
    def state(self) -> State:
        """``unloaded``, ``loading``, ``ready`` or ``failed``."""
        return self._loader.state

    @property
    def limits(self) -> Limits:
        """The bounds in force."""
        return self._lane.limits

    async def preload(self) -> None:
        """Load and warm up the model now, also after failures; one load for all who ask.

        Raises:
            ModelLoadFailed: It cannot be loaded.
            EmbeddingClosed: It was closed.
        """
        self._check_open()
        limit = self._lane.limits.load_timeout
        try:
            await wait_for(self._loader.begin(force=True), limit)
        except asyncio.TimeoutError:
            raise ModelLoadTimeout(
                f"load_timeout={limit:g} s passed while the model was loading", self._where
            ) from None

    async def aclose(self) -> None:
        """Refuse further calls, fail those that wait, and let go of the model.

        What runs is finished first, in its thread.
        """
        await super().aclose()
        self._lane.close()
        if self._own_threads:
            self._executor.shutdown(wait=False)

    def explain(self) -> Explanation:
        """Where a call would run, and why."""
        limits = self._lane.limits
        threads = "its own threads" if self._own_threads else "the executor that was given"
        state = self._loader.state
        return Explanation(
            provider="local_transformer",
            model=self._facts.model,
            runs="thread",
            resource=self._where.resource,
            state=state if state != "unloaded" else "unloaded: the first call loads the model",
            why=(
                f"Encoding is synchronous compute, so it runs in {threads}, and a call only "
                f"awaits it ({self._source.kind} model)."
            ),
            limits={
                "local_embedding_concurrency": limits.concurrency,
                "max_queue": limits.max_queue,
                "permit_timeout": limits.permit_timeout,
                "queue_timeout": limits.queue_timeout,
                "encode_timeout": limits.encode_timeout,
                "load_timeout": limits.load_timeout,
                "torch_threads": self._torch_threads,
                "micro_batching": self._micro_batching,
            },
        )

    async def _vectors(self, texts: Sequence[str]) -> Matrix:
        with self._lane.place():
            if len(texts) == 1:
                found: Matrix = await self._lane.run(texts, mergeable=self._micro_batching)
                return found
            most = self._facts.max_length or 512
            lengths = [min(len(text) // _CHARS_PER_TOKEN + 1, most) for text in texts]
            parts = list(padded_batches(lengths, TOKENS_PER_JOB, _TEXTS_PER_JOB))
            vectors = await gather_bounded(
                [self._part(texts, part) for part in parts], self._lane.limits.concurrency
            )
        for one in vectors:
            check_shape(one, len(one), vectors[0].shape[1], self._where)
        matrix = np.empty((len(texts), vectors[0].shape[1]), np.float32)
        for part, one in zip(parts, vectors, strict=True):
            matrix[part] = one
        return matrix

    def _part(self, texts: Sequence[str], part: list[int]) -> Callable[[], Any]:
        async def embed() -> Matrix:
            try:
                found: Matrix = await self._lane.run([texts[i] for i in part])
            except EmbeddingError as exc:
                if exc.positions:
                    raise exc.moved(part) from exc.__cause__
                raise
            return found

        return embed

    # --- in the loader's thread ------------------------------------------------------------------

    def _build(self) -> LocalWork:
        """Load the model as often as it may work at once, and see that each one does."""
        began = time.perf_counter()
        model = self._source.build()
        replicas = [model]
        replicas += [model.replica() for _ in range(self._lane.limits.concurrency - 1)]
        for replica in replicas:
            warm = as_matrix(replica.encode(replica.read(["warm up"])), 1, self._where)
            check_shape(warm, 1, self._dimension, self._where)
            check_finite(warm, self._where)
        self._dimension = warm.shape[1]
        self._facts = model.facts
        self._where = self._lane.where = replace(self._where, resource=model.facts.device)
        self.metrics.observe("model_load_ms", (time.perf_counter() - began) * 1e3)
        torch_threads = (
            self._torch_threads if self._own_threads and model.facts.uses_torch else None
        )
        budget = self._budget or TOKENS_PER_PASS.get(model.facts.device, _ELSEWHERE)
        return LocalWork(replicas, self._where, self.metrics, budget, torch_threads)

    def _failed(self) -> None:
        self._lane.fail_waiting(self._loader.error)


def _count(name: str, value: Any, *, least: int = 1) -> int:
    number = check_count(name, value, least=least)
    if number is None:
        raise InvalidOption(f"{name} must be a whole number of at least {least}, got None")
    return number


def _seconds(name: str, value: float | None) -> float | None:
    if value is not None and not (isinstance(value, (int, float)) and value > 0):
        raise InvalidOption(f"{name} must be seconds above 0, or None for no limit, got {value!r}")
    return value
