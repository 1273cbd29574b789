"""The tables of one store in PostgreSQL: its row among all stores, its lock, its statements."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from jevlaya_lab.embedding.identity import EmbeddingIdentity

if TYPE_CHECKING:
    from psycopg import AsyncConnection
    from psycopg.sql import Composed

__all__ = ["State", "Tables", "written"]

_STORES: Final = "jevlaya_vector_stores"
"""The table of all stores of a schema: their identities, and which table holds their vectors."""


class State(NamedTuple):
    """A store as the database has it: identities and numbers of its tables."""

    identity: EmbeddingIdentity
    generation: int
    staged: EmbeddingIdentity | None


class Tables:
    """Knows where the rows of a store are.

    Args:
        schema: Of the tables; judged already, like the next one.
        name: Of the store.
    """

    def __init__(self, schema: str, name: str) -> None:
        self._schema = schema
        self._name = name

    async def lock(self, connection: AsyncConnection[Any], alone: bool) -> None:
        """Keep the store from being switched until the transaction ends, or keep all others out."""
        kind = "pg_advisory_xact_lock" if alone else "pg_advisory_xact_lock_shared"
        # Two statements: a transaction that waited must read what the other one has written.
        await connection.execute(
            f"SELECT {kind}(hashtextextended(%s, 0))",
            [f"{_STORES}.{self._schema}.{self._name}"],
        )

    async def state(self, connection: AsyncConnection[Any]) -> State | None:
        """What the database says of the store; ``None`` where there is none."""
        answer = await connection.execute(
            self.sql("SELECT identity, generation, staged FROM {stores} WHERE name = %s"),
            [self._name],
        )
        row = await answer.fetchone()
        if row is None:
            return None
        identity, generation, staged = row
        return State(
            EmbeddingIdentity(**identity),
            generation,
            None if staged is None else EmbeddingIdentity(**staged),
        )

    async def make_stores(self, connection: AsyncConnection[Any]) -> None:
        """Make the table of all stores, where it is not there."""
        await connection.execute("SELECT pg_advisory_xact_lock(hashtext('jevlaya stores'))")
        await connection.execute(
            self.sql(
                "CREATE TABLE IF NOT EXISTS {stores} (name text PRIMARY KEY, identity jsonb NOT "
                "NULL, generation integer NOT NULL, staged jsonb)"
            )
        )

    async def make_table(
        self, connection: AsyncConnection[Any], generation: int, identity: EmbeddingIdentity
    ) -> None:
        """Make the table of one generation."""
        identity.fingerprint  # noqa: B018  raises where the dimension is unknown
        await connection.execute(
            self.sql(
                'CREATE TABLE {table} (key text COLLATE "C" PRIMARY KEY, vector vector({size}) NOT '
                "NULL, text text NOT NULL, metadata jsonb NOT NULL)",
                generation,
                size=identity.dimension,
            )
        )

    def sql(self, text: str, generation: int = 0, size: int | None = None) -> Composed:
        """A statement with the names of tables quoted, and nothing else put into it."""
        from psycopg import sql

        def table(name: str) -> Any:
            return sql.Identifier(self._schema, name)

        return sql.SQL(text).format(  # texts of this package only
            stores=table(_STORES),
            table=table(f"{self._name}_v{generation}"),
            next=table(f"{self._name}_v{generation + 1}"),
            size=sql.Literal(size),
        )


def written(identity: EmbeddingIdentity) -> str:
    """An identity as JSON."""
    return json.dumps(asdict(identity))
