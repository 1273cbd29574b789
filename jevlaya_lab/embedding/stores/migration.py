"""Moving a vector store to another model: all texts embedded again, then one switch."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

from jevlaya_lab.embedding.errors import EmbeddingError, StoreError
from jevlaya_lab.embedding.generator import EmbeddingGenerator
from jevlaya_lab.embedding.identity import EmbeddingIdentity
from jevlaya_lab.embedding.stores.base import VectorStore, where_of
from jevlaya_lab.embedding.strategy import EmbeddingStrategy
from jevlaya_lab.system_one.encoding import check_count

__all__ = ["Migration", "migrate"]

Progress = Callable[[int, int], object]
_FLUSH_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Migration:
    """What a migration did.

    Attributes:
        before: The identity of the vectors before.
        after: That of those that are searched now.
        embedded: Texts that this call embedded.
        resumed: Texts that an earlier, interrupted call had embedded.
        seconds: How long this call took.
    """

    before: EmbeddingIdentity
    after: EmbeddingIdentity
    embedded: int
    resumed: int
    seconds: float


async def migrate(
    store: VectorStore,
    embedding: EmbeddingGenerator | EmbeddingStrategy,
    *,
    batch_size: int = 64,
    progress: bool | Progress = True,
    flush_seconds: float = _FLUSH_SECONDS,
) -> Migration:
    """Embed all texts of a store with another model, then switch to the new vectors at once.

    Until the switch every search is answered from the old vectors. What is done is staged in the
    store, so a migration that was interrupted goes on where it was when it is called again; texts
    that were stored or changed meanwhile are embedded before the switch. Two migrations of one
    store at once do the work twice, but no harm.

    Args:
        store: The store.
        embedding: Embeds with the model to come.
        batch_size: Texts that are embedded and staged together.
        progress: ``True`` for a bar, or a function of how many are done and how many there are,
            called after each batch.
        flush_seconds: How often a store with a file writes what is staged.

    Raises:
        StoreError: A text cannot be embedded with this model (its key is named, what was done
            stays), or a migration to a third model is under way.
        EmbeddingError: Embedding failed; call again to go on.

    Source: rule E-10.
    """
    began = time.monotonic()
    if isinstance(embedding, EmbeddingStrategy):
        embedding = EmbeddingGenerator(embedding)
    size = check_count("batch_size", batch_size) or 64
    await embedding.preload()
    before, after = store.identity, embedding.identity
    if before.fingerprint == after.fingerprint:
        return Migration(before, after, 0, 0, 0.0)
    await store.begin_staging(after)
    embedded, resumed = 0, -1
    with closing(_Reporter(progress)) as reporter:
        while True:
            keys = await store.unstaged()
            if resumed < 0:
                resumed = max(0, await store.count() - len(keys))
            total = resumed + embedded + len(keys)
            flushed = time.monotonic()
            for i in range(0, len(keys), size):
                embedded += await _stage(store, embedding, keys[i : i + size])
                reporter(resumed + embedded, total)
                if time.monotonic() - flushed >= flush_seconds:
                    await store.flush()
                    flushed = time.monotonic()
            if await store.switch():
                break
    await store.flush()
    return Migration(before, after, embedded, resumed, time.monotonic() - began)


async def _stage(store: VectorStore, embedding: EmbeddingGenerator, keys: list[str]) -> int:
    """Embed and stage what is under some keys; says how many still were there."""
    texts = await store.texts_of(keys)
    if not texts:
        return 0
    names = list(texts)
    try:
        vectors = await embedding.embed(list(texts.values()))
    except EmbeddingError as exc:
        if not exc.positions:
            raise
        wrong = [names[i] for i in exc.positions][:5]
        raise StoreError(
            f"the texts under {wrong} cannot be embedded with {embedding.identity.model!r} "
            f"({exc.message}); change or delete them and migrate again: what is done stays",
            where_of(embedding.identity, "migration"),
            positions=exc.positions,
        ) from exc
    await store.stage(names, vectors, list(texts.values()))
    return len(names)


class _Reporter:
    """Tells a function, or a bar, or nobody."""

    def __init__(self, progress: bool | Progress) -> None:
        self._tell = progress if callable(progress) else None
        self._bar: Any = None
        self._shown = progress is True

    def __call__(self, done: int, total: int) -> None:
        if self._tell is not None:
            self._tell(done, total)
        elif self._shown:
            if self._bar is None:
                from tqdm.auto import tqdm

                self._bar = tqdm(total=total, unit="text", desc="migrate")
            self._bar.total, self._bar.n = total, done
            self._bar.refresh()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
