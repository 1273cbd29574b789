"""A vector store in PostgreSQL with the extension pgvector."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

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
from jevlaya_lab.embedding.stores.pg_connections import Connections
from jevlaya_lab.embedding.stores.pg_tables import State, Tables, written
from jevlaya_lab.system_one.encoding import check_count
from jevlaya_lab.system_one.errors import InvalidOption

if TYPE_CHECKING:
    from psycopg import AsyncConnection

__all__ = ["PgVectorStore"]

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,39}")


class PgVectorStore:
    """Vectors in a table of PostgreSQL, searched exactly; made with :meth:`open`.

    The identity stands in the database and is compared under a lock in every transaction, so a
    process that still embeds with the old model is refused after another one has migrated the
    store. Connections belong to event loops; the store may be used from many.

    Source: rule E-10.
    """

    def __init__(self, connections: Connections, schema: str, name: str) -> None:
        self._connections = connections
        self._tables = Tables(schema, name)
        self._sql = self._tables.sql
        self.name = name
        self._title = f"the store {schema}.{name}"
        self._known: EmbeddingIdentity | None = None

    @classmethod
    async def open(
        cls,
        dsn: str,
        name: str,
        identity: EmbeddingIdentity | None = None,
        *,
        schema: str = "public",
        connections: int = 4,
    ) -> PgVectorStore:
        """Open a store, or make it.

        Args:
            dsn: The database, as libpq reads it: ``postgresql://user@host/db``.
            name: Of the store: small letters, digits and ``_``, at most 40.
            identity: Of the vectors that it shall hold; ``None`` takes the store as it is.
            schema: Where its tables are; it must exist.
            connections: How many at once per event loop.

        Raises:
            MissingExtra: psycopg or pgvector is not installed.
            InvalidOption: The name or schema is none.
            StoreError: The database cannot be used, or there is no such store and no identity.
            IdentityMismatch: The store holds vectors of another identity.
        """
        for what, given in (("name", name), ("schema", schema)):
            if not isinstance(given, str) or not _NAME.fullmatch(given):
                raise InvalidOption(
                    f"{what} is small letters, digits and _, begins with a letter and has at most "
                    f"40 of them; got {given!r}"
                )
        store = cls(Connections(dsn, check_count("connections", connections) or 4), schema, name)
        try:
            await store._found(identity)
        except BaseException:
            await store.aclose()
            raise
        return store

    @property
    def identity(self) -> EmbeddingIdentity:
        """What the vectors were that it held when it was last asked."""
        assert self._known is not None  # open() has set it
        return self._known

    async def upsert(
        self,
        keys: Sequence[str],
        vectors: Embeddings,
        texts: Sequence[str],
        metadata: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """See :meth:`VectorStore.upsert`."""
        async with self._locked() as (connection, state):
            rows = check_rows(state.identity, self._title, keys, vectors, texts, metadata)
            statement = self._sql(
                "INSERT INTO {table} (key, vector, text, metadata) VALUES (%s, %s, %s, %s::jsonb) "
                "ON CONFLICT (key) DO UPDATE SET vector = excluded.vector, text = excluded.text, "
                "metadata = excluded.metadata",
                state.generation,
            )
            async with connection.cursor() as cursor:
                await cursor.executemany(statement, list(zip(*rows, strict=True)))

    async def search(
        self, queries: Embeddings, k: int = 10, *, filter: Mapping[str, Any] | None = None
    ) -> list[list[Hit]]:
        """See :meth:`VectorStore.search`."""
        wanted = json.dumps(check_filter(filter))
        number = check_count("k", k) or 10
        async with self._locked() as (connection, state):
            matrix = check_vectors(state.identity, self._title, queries, "compared", directed=True)
            statement = self._sql(
                "SELECT key, 1 - (vector <=> %(query)s), text, metadata FROM {table} "
                "WHERE metadata @> %(wanted)s::jsonb "
                "ORDER BY vector <=> %(query)s, key LIMIT %(k)s",
                state.generation,
            )
            found = []
            for query in matrix:
                answer = await connection.execute(
                    statement, {"query": query, "wanted": wanted, "k": number}
                )
                found.append([Hit(*row) for row in await answer.fetchall()])
            return found

    async def delete(self, keys: Sequence[str]) -> int:
        """See :meth:`VectorStore.delete`."""
        names = check_keys(keys)
        async with self._locked() as (connection, state):
            statement = self._sql("DELETE FROM {table} WHERE key = ANY(%s)", state.generation)
            return (await connection.execute(statement, [names])).rowcount

    async def count(self) -> int:
        """How many vectors it holds."""
        async with self._locked() as (connection, state):
            answer = await connection.execute(
                self._sql("SELECT count(*) FROM {table}", state.generation)
            )
            return int((await answer.fetchall())[0][0])

    async def flush(self) -> None:
        """Nothing is to be done: what the database has taken in, it keeps."""

    async def aclose(self) -> None:
        """Close the connections; a later call would open new ones."""
        await self._connections.aclose()

    async def begin_staging(self, identity: EmbeddingIdentity) -> None:
        """See :meth:`VectorStore.begin_staging`."""
        async with self._locked(alone=True) as (connection, state):
            if state.staged is not None:
                if state.staged.fingerprint != identity.fingerprint:
                    raise StoreError(
                        f"vectors of {state.staged.model!r} are staged in {self._title}, and those "
                        f"of {identity.model!r} cannot be as well; finish that migration, or await "
                        "store.drop_staged()",
                        where_of(identity, self._title),
                    )
                return
            await self._tables.make_table(connection, state.generation + 1, identity)
            await connection.execute(
                self._sql("UPDATE {stores} SET staged = %s WHERE name = %s"),
                [written(identity), self.name],
            )

    async def unstaged(self) -> list[str]:
        """See :meth:`VectorStore.unstaged`."""
        async with self._locked() as (connection, state):
            return await self._missing(connection, state)

    async def texts_of(self, keys: Sequence[str]) -> dict[str, str]:
        """See :meth:`VectorStore.texts_of`."""
        async with self._locked() as (connection, state):
            answer = await connection.execute(
                self._sql("SELECT key, text FROM {table} WHERE key = ANY(%s)", state.generation),
                [check_keys(keys)],
            )
            found = dict(await answer.fetchall())
        return {key: found[key] for key in keys if key in found}

    async def stage(self, keys: Sequence[str], vectors: Embeddings, texts: Sequence[str]) -> None:
        """See :meth:`VectorStore.stage`."""
        async with self._locked() as (connection, state):
            staged = self._being_staged(state)
            rows = check_rows(staged, self._title, keys, vectors, texts, None)
            statement = self._sql(
                "INSERT INTO {table} (key, vector, text, metadata) VALUES (%s, %s, %s, %s::jsonb) "
                "ON CONFLICT (key) DO UPDATE SET vector = excluded.vector, text = excluded.text",
                state.generation + 1,
            )
            async with connection.cursor() as cursor:
                await cursor.executemany(statement, list(zip(*rows, strict=True)))

    async def switch(self) -> bool:
        """See :meth:`VectorStore.switch`. Waits for the searches under way, and they for it."""
        async with self._locked(alone=True) as (connection, state):
            staged = self._being_staged(state)
            if await self._missing(connection, state):
                return False
            old, new = state.generation, state.generation + 1
            for statement in (
                "DELETE FROM {next} s WHERE NOT EXISTS (SELECT FROM {table} c WHERE c.key = s.key)",
                "UPDATE {next} s SET metadata = c.metadata FROM {table} c "
                "WHERE c.key = s.key AND c.metadata <> s.metadata",
                "DROP TABLE {table}",
            ):
                await connection.execute(self._sql(statement, old))
            await connection.execute(
                self._sql(
                    "UPDATE {stores} SET identity = %s, generation = %s, staged = NULL "
                    "WHERE name = %s"
                ),
                [written(staged), new, self.name],
            )
        self._known = staged
        return True

    async def drop_staged(self) -> None:
        """See :meth:`VectorStore.drop_staged`."""
        async with self._locked(alone=True) as (connection, state):
            await connection.execute(self._sql("DROP TABLE IF EXISTS {next}", state.generation))
            await connection.execute(
                self._sql("UPDATE {stores} SET staged = NULL WHERE name = %s"), [self.name]
            )

    @asynccontextmanager
    async def _locked(
        self, *, alone: bool = False
    ) -> AsyncIterator[tuple[AsyncConnection[Any], State]]:
        """A transaction in which no other one switches the store; ``alone``: nor uses it."""
        async with self._connections.use() as connection:
            await self._tables.lock(connection, alone)
            state = await self._tables.state(connection)
            if state is None:
                raise StoreError(f"{self._title} is gone; open it again with an identity")
            self._known = state.identity
            yield connection, state

    async def _found(self, identity: EmbeddingIdentity | None) -> None:
        async with self._connections.use() as connection:
            await self._tables.lock(connection, alone=True)
            await self._tables.make_stores(connection)
            state = await self._tables.state(connection)
            if state is not None:
                if identity is not None:
                    require_same(state.identity, identity, f"used with {self._title}")
                self._known = state.identity
                return
            if identity is None:
                raise StoreError(
                    f"{self._title} is not there; give the identity of the vectors that it shall "
                    "hold, generator.identity after preload()"
                )
            await self._tables.make_table(connection, 1, identity)
            await connection.execute(
                self._sql("INSERT INTO {stores} (name, identity, generation) VALUES (%s, %s, 1)"),
                [self.name, written(identity)],
            )
            self._known = identity

    async def _missing(self, connection: AsyncConnection[Any], state: State) -> list[str]:
        self._being_staged(state)
        answer = await connection.execute(
            self._sql(
                "SELECT c.key FROM {table} c LEFT JOIN {next} s ON s.key = c.key "
                "WHERE s.key IS NULL OR s.text <> c.text ORDER BY c.key",
                state.generation,
            )
        )
        return [key for (key,) in await answer.fetchall()]

    def _being_staged(self, state: State) -> EmbeddingIdentity:
        if state.staged is None:
            raise StoreError(
                "nothing is being staged; begin with begin_staging(identity)",
                where_of(state.identity, self._title),
            )
        return state.staged

    def __repr__(self) -> str:
        model = None if self._known is None else self._known.model
        return f"PgVectorStore({self._title}, {model!r})"
