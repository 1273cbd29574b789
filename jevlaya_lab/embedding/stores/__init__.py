"""Vector stores: vectors of one identity, kept, searched, and moved to another model as a whole."""

from jevlaya_lab.embedding.stores.base import Hit, VectorStore
from jevlaya_lab.embedding.stores.memory import InMemoryVectorStore
from jevlaya_lab.embedding.stores.migration import Migration, migrate
from jevlaya_lab.embedding.stores.postgres import PgVectorStore

__all__ = ["Hit", "InMemoryVectorStore", "Migration", "PgVectorStore", "VectorStore", "migrate"]
