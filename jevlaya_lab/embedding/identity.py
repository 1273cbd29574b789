"""What makes two vectors comparable, and vectors that carry it with them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from jevlaya_lab.embedding.errors import IdentityMismatch, Where

__all__ = ["EmbeddingIdentity", "Embeddings", "require_same"]


@dataclass(frozen=True, slots=True)
class EmbeddingIdentity:
    """The contract of a vector: where it was computed plays no part, what it means does (E-10).

    Attributes:
        provider: ``remote:host``, ``local_transformer`` or ``hashing``.
        model: The model's name.
        revision: Commit, digest or version; ``None`` where nothing says it.
        dimension: Components of a vector; ``None`` until a model that has to tell has told.
        dtype: Of the vectors handed out.
        pooling: How token states became one vector; ``None`` where the provider keeps it to itself.
        prompt: Text put before each text.
        max_length: Tokens (hashing: none) beyond which a text is cut; ``None`` for no limit known.
        normalised: Whether vectors have length 1; ``None`` where nothing says it.
    """

    provider: str
    model: str
    revision: str | None = None
    dimension: int | None = None
    dtype: str = "float32"
    pooling: str | None = None
    prompt: str = ""
    max_length: int | None = None
    normalised: bool | None = None

    @property
    def fingerprint(self) -> str:
        """32 hex digits that differ whenever any field differs.

        Raises:
            IdentityMismatch: The dimension is not known yet.
        """
        if self.dimension is None:
            raise IdentityMismatch(
                "the dimension is not known before the model has answered once; await preload() "
                "(or give dimension=) before vectors are stored",
                self._where,
            )
        text = json.dumps(asdict(self), sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def cache_key(self, text: str) -> str:
        """A key for a text's vector that no other identity's vector can have."""
        return hashlib.sha256(f"{self.fingerprint}\0{text}".encode()).hexdigest()

    @property
    def _where(self) -> Where:
        return Where(self.provider, self.model, "stored vectors")


def require_same(
    stored: EmbeddingIdentity, current: EmbeddingIdentity, what: str = "compared"
) -> None:
    """Refuse to mix vectors of two identities.

    Args:
        stored: The identity of the vectors that are there.
        current: That of the vectors that come.
        what: What would have been done with them, as a participle.

    Raises:
        IdentityMismatch: They differ; the message says in what, and which migration is due.
    """
    if stored.fingerprint == current.fingerprint:
        return
    differences = ", ".join(
        f"{f.name} {getattr(stored, f.name)!r} became {getattr(current, f.name)!r}"
        for f in fields(EmbeddingIdentity)
        if getattr(stored, f.name) != getattr(current, f.name)
    )
    raise IdentityMismatch(
        f"these vectors cannot be {what}: {differences}. This is a migration of data, not a "
        f"setting: embed all stored texts again with {current.model!r}, then switch",
        current._where,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Embeddings:
    """Vectors with the identity that says what they may be compared with.

    Attributes:
        vectors: float32 [n, dimension].
        identity: What they are.
    """

    vectors: npt.NDArray[np.float32]
    identity: EmbeddingIdentity

    def __len__(self) -> int:
        return len(self.vectors)

    def similarity(self, other: Embeddings) -> npt.NDArray[np.float32]:
        """Cosine similarities [n, m] to other vectors.

        Raises:
            IdentityMismatch: The others are of another identity.
        """
        require_same(self.identity, other.identity, "compared")
        found: npt.NDArray[np.float32] = _unit(self.vectors) @ _unit(other.vectors).T
        return found

    def joined(self, other: Embeddings) -> Embeddings:
        """These vectors, then the others.

        Raises:
            IdentityMismatch: The others are of another identity.
        """
        require_same(self.identity, other.identity, "stored together")
        return Embeddings(np.concatenate([self.vectors, other.vectors]), self.identity)


def _unit(vectors: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)
