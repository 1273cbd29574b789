"""Embedding: one asynchronous capability; inside, each provider runs by the resource it uses."""

from jevlaya_lab.embedding.errors import EmbeddingError
from jevlaya_lab.embedding.generator import EmbeddingGenerator
from jevlaya_lab.embedding.hashing import InlineHashingEmbedding
from jevlaya_lab.embedding.identity import EmbeddingIdentity, Embeddings, require_same
from jevlaya_lab.embedding.local import BoundedLocalEmbedding
from jevlaya_lab.embedding.prometheus import prometheus_registry, prometheus_text
from jevlaya_lab.embedding.remote import AsyncRemoteEmbedding
from jevlaya_lab.embedding.strategy import EmbeddingStrategy

__all__ = [
    "AsyncRemoteEmbedding",
    "BoundedLocalEmbedding",
    "EmbeddingError",
    "EmbeddingGenerator",
    "EmbeddingIdentity",
    "EmbeddingStrategy",
    "Embeddings",
    "InlineHashingEmbedding",
    "prometheus_registry",
    "prometheus_text",
    "require_same",
]
