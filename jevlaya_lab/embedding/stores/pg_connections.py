"""Connections to PostgreSQL: a few per event loop, reused, and closed with their owner or loop."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jevlaya_lab.embedding.errors import StoreError
from jevlaya_lab.system_one.extras import require

if TYPE_CHECKING:
    from psycopg import AsyncConnection

__all__ = ["Connections"]

_FEATURE = "PgVectorStore"


@dataclass(slots=True)
class _Pool:
    """The connections of one loop."""

    room: asyncio.Semaphore
    idle: list[AsyncConnection[Any]] = field(default_factory=list)


class Connections:
    """Hands out connections that know vectors, each to one task at a time.

    Args:
        dsn: Where, as libpq reads it; a password in it is never shown.
        most: How many at once per event loop.
    """

    def __init__(self, dsn: str, most: int) -> None:
        self._psycopg = require("psycopg", "pgvector", _FEATURE)
        self._register = require("pgvector.psycopg", "pgvector", _FEATURE).register_vector_async
        self._dsn = dsn
        self._most = most
        self._lock = threading.Lock()
        self._pools: dict[asyncio.AbstractEventLoop, _Pool] = {}
        weakref.finalize(self, _close_all, self._pools).atexit = False

    @asynccontextmanager
    async def use(self) -> AsyncIterator[AsyncConnection[Any]]:
        """A connection in a transaction, which is undone where the block fails.

        Raises:
            StoreError: The server cannot be reached, fails, or has no vector extension.
        """
        pool = self._pool()
        async with pool.room:
            connection = pool.idle.pop() if pool.idle else await self._connect()
            try:
                async with connection.transaction():
                    yield connection
            except self._psycopg.Error as exc:
                raise StoreError(
                    f"PostgreSQL failed ({type(exc).__name__}: {exc}); nothing of this call was "
                    "stored"
                ) from exc
            finally:
                if connection.info.transaction_status == 0:  # idle: nothing is under way in it
                    pool.idle.append(connection)
                else:
                    connection.pgconn.finish()

    async def aclose(self) -> None:
        """Close the connections that are idle; one in use is closed when its owner is dropped."""
        with self._lock:
            _close_all(self._pools)

    def _pool(self) -> _Pool:
        loop = asyncio.get_running_loop()
        with self._lock:
            gone = {one: self._pools.pop(one) for one in list(self._pools) if one.is_closed()}
            _close_all(gone)
            return self._pools.setdefault(loop, _Pool(asyncio.Semaphore(self._most)))

    async def _connect(self) -> AsyncConnection[Any]:
        try:
            connection: AsyncConnection[Any] = await self._psycopg.AsyncConnection.connect(
                self._dsn, autocommit=True
            )
        except self._psycopg.OperationalError as exc:
            raise StoreError(f"PostgreSQL cannot be reached: {exc}; see that the server runs and "
                             "that the dsn is right") from exc  # fmt: skip
        try:
            await self._see_to_extension(connection)
            await self._register(connection)
        except BaseException:
            connection.pgconn.finish()
            raise
        return connection

    async def _see_to_extension(self, connection: AsyncConnection[Any]) -> None:
        found = await connection.execute("SELECT 1 FROM pg_extension WHERE extname = 'vector'")
        if await found.fetchone():
            return
        try:
            async with connection.transaction():  # two at once would trip over each other
                await connection.execute("SELECT pg_advisory_xact_lock(hashtext('jevlaya vector'))")
                await connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        except self._psycopg.Error as exc:
            raise StoreError(
                f"the database has no extension 'vector', and it cannot be made here ({exc}); "
                "install pgvector on the server and run CREATE EXTENSION vector as its owner"
            ) from exc


def _close_all(pools: dict[asyncio.AbstractEventLoop, _Pool]) -> None:
    for pool in pools.values():
        while pool.idle:
            connection = pool.idle.pop()
            connection.pgconn.finish()  # as its close(), which would have to be awaited
