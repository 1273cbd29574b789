"""A vector store in memory: NumPy, exact, and one file where it shall last."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np

from jevlaya_lab.embedding.errors import StoreError
from jevlaya_lab.embedding.identity import EmbeddingIdentity, Embeddings, require_same
from jevlaya_lab.embedding.stores.base import (
    Hit,
    check_filter,
    check_keys,
    check_rows,
    check_vectors,
    where_of,
)
from jevlaya_lab.embedding.stores.table import FORMAT, Table, described, read
from jevlaya_lab.system_one.encoding import check_count
from jevlaya_lab.system_one.errors import FileMissing
from jevlaya_lab.system_one.files import whole_file

__all__ = ["InMemoryVectorStore"]

T = TypeVar("T")

_INLINE: Final = 2_000_000
"""Numbers up to which work is shorter than the beat of a heart, and so stays on the loop."""


class InMemoryVectorStore:
    """Vectors in one NumPy matrix, searched exactly; for some hundred thousand of them.

    Every change copies the matrix: store many rows at a time. It may be used from many threads and
    event loops. What takes long runs in a thread, so that the loop lives.

    Args:
        identity: Of the vectors that it shall hold: ``generator.identity``, after ``preload()``.
        path: A file (``.npz``) that :meth:`flush` writes; what is in it already is read back, with
            what a migration had staged.

    Raises:
        IdentityMismatch: The file holds vectors of another identity, or the dimension of the
            identity is not known yet.
        FileInvalid: The file is damaged or another kind.

    Source: rule E-10.
    """

    def __init__(
        self, identity: EmbeddingIdentity, path: str | os.PathLike[str] | None = None
    ) -> None:
        identity.fingerprint  # noqa: B018  raises where the dimension is unknown
        self._lock = threading.Lock()
        self._staged: Table | None = None
        self.path = None if path is None else Path(path)
        self._name = "the store in memory" if self.path is None else f"the store {self.path}"
        self._table = Table.empty(identity)
        if self.path is not None and self.path.exists():
            self._table, self._staged = read(self.path)
            require_same(self._table.identity, identity, f"used with {self._name}")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> InMemoryVectorStore:
        """The store of a file, whatever its identity; for a migration, say.

        Raises:
            FileMissing: There is no such file.
            FileInvalid: It is damaged or another kind.
        """
        if not Path(path).exists():
            raise FileMissing(f"{path} is not there; make a store with InMemoryVectorStore(...)")
        return cls(read(Path(path))[0].identity, path)

    @property
    def identity(self) -> EmbeddingIdentity:
        """What the vectors are that it holds now."""
        return self._table.identity

    async def upsert(
        self,
        keys: Sequence[str],
        vectors: Embeddings,
        texts: Sequence[str],
        metadata: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """See :meth:`VectorStore.upsert`."""

        def work() -> None:
            with self._lock:
                rows = check_rows(self.identity, self._name, keys, vectors, texts, metadata)
                said = [json.loads(one) for one in rows.metadata]
                self._table = self._table.with_rows(rows.keys, rows.vectors, rows.texts, said)

        await self._aside(work, vectors)

    async def search(
        self, queries: Embeddings, k: int = 10, *, filter: Mapping[str, Any] | None = None
    ) -> list[list[Hit]]:
        """See :meth:`VectorStore.search`."""
        wanted = check_filter(filter)
        number = check_count("k", k) or 10
        table = self._table
        matrix = check_vectors(table.identity, self._name, queries, "compared", directed=True)
        if len(matrix) * table.vectors.size <= _INLINE:
            return table.nearest(matrix, number, wanted)
        return await asyncio.to_thread(table.nearest, matrix, number, wanted)

    async def delete(self, keys: Sequence[str]) -> int:
        """See :meth:`VectorStore.delete`."""
        gone = set(check_keys(keys))

        def work() -> int:
            with self._lock:
                left = [key for key in self._table.rows if key not in gone]
                n_gone = len(self._table.rows) - len(left)
                if n_gone:
                    self._table = self._table.only(left)
                return n_gone

        return await self._aside(work)

    async def count(self) -> int:
        """How many vectors it holds."""
        return len(self._table.rows)

    async def flush(self) -> None:
        """Write the file of ``path``, if there is one, as a whole or not at all."""
        if self.path is not None:
            await asyncio.to_thread(self.save)

    def save(self, path: str | os.PathLike[str] | None = None) -> None:
        """Write all of it, and what is staged, into one file that takes its place as a whole.

        Args:
            path: Where; ``None`` for the store's own.

        Raises:
            StoreError: Neither is given.
        """
        target = self.path if path is None else Path(path)
        if target is None:
            raise StoreError(
                "this store has no file; give one: save('vectors.npz')",
                where_of(self.identity, self._name),
            )
        with self._lock:
            tables = {"": self._table, "staged_": self._staged}
        arrays: dict[str, Any] = {"format": np.array(FORMAT)}
        for prefix, table in tables.items():
            if table is not None:
                arrays[f"{prefix}vectors"] = table.vectors
                arrays[f"{prefix}rows"] = np.frombuffer(described(table), np.uint8)
        with whole_file(target, binary=True) as file:
            np.savez(file, **arrays)

    async def aclose(self) -> None:
        """Nothing is open."""

    async def begin_staging(self, identity: EmbeddingIdentity) -> None:
        """See :meth:`VectorStore.begin_staging`."""
        with self._lock:
            if self._staged is None:
                identity.fingerprint  # noqa: B018
                self._staged = Table.empty(identity)
            elif self._staged.identity.fingerprint != identity.fingerprint:
                raise StoreError(
                    f"vectors of {self._staged.identity.model!r} are staged in {self._name}, and "
                    f"those of {identity.model!r} cannot be as well; finish that migration, or "
                    "await store.drop_staged()",
                    where_of(identity, self._name),
                )

    async def unstaged(self) -> list[str]:
        """See :meth:`VectorStore.unstaged`."""

        def work() -> list[str]:
            with self._lock:
                return self._missing()

        return await self._aside(work)

    async def texts_of(self, keys: Sequence[str]) -> dict[str, str]:
        """See :meth:`VectorStore.texts_of`."""
        table = self._table
        return {key: table.texts[table.rows[key]] for key in keys if key in table.rows}

    async def stage(self, keys: Sequence[str], vectors: Embeddings, texts: Sequence[str]) -> None:
        """See :meth:`VectorStore.stage`."""

        def work() -> None:
            with self._lock:
                staged = self._being_staged()
                rows = check_rows(staged.identity, self._name, keys, vectors, texts, None)
                blank: list[dict[str, Any]] = [{}] * len(rows.keys)
                self._staged = staged.with_rows(rows.keys, rows.vectors, rows.texts, blank)

        await self._aside(work, vectors)

    async def switch(self) -> bool:
        """See :meth:`VectorStore.switch`."""

        def work() -> bool:
            with self._lock:
                staged = self._being_staged()
                if self._missing():
                    return False
                fresh = staged.only(list(self._table.rows))
                fresh.metadata = self._table.metadata
                self._table, self._staged = fresh, None
                return True

        return await self._aside(work)

    async def drop_staged(self) -> None:
        """See :meth:`VectorStore.drop_staged`."""
        with self._lock:
            self._staged = None

    async def _aside(self, work: Callable[[], T], coming: Embeddings | None = None) -> T:
        """Change the tables: small ones here, large ones in a thread, so that the loop lives."""
        size = self._table.vectors.size + getattr(getattr(coming, "vectors", None), "size", 0)
        return work() if size <= _INLINE else await asyncio.to_thread(work)

    def _being_staged(self) -> Table:
        if self._staged is None:
            raise StoreError(
                "nothing is being staged; begin with begin_staging(identity)",
                where_of(self.identity, self._name),
            )
        return self._staged

    def _missing(self) -> list[str]:
        table, staged = self._table, self._being_staged()
        return [
            key
            for key, i in table.rows.items()
            if (at := staged.rows.get(key)) is None or staged.texts[at] != table.texts[i]
        ]

    def __len__(self) -> int:
        return len(self._table.rows)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"InMemoryVectorStore({len(self)} of {self.identity.model!r}, path={self.path})"
