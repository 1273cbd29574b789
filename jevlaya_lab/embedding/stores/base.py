"""What every vector store does, and the judgement of what goes into one."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

import numpy as np

from jevlaya_lab.embedding.errors import (
    DimensionMismatch,
    IdentityMismatch,
    NonFiniteVector,
    Where,
)
from jevlaya_lab.embedding.identity import EmbeddingIdentity, Embeddings, require_same
from jevlaya_lab.embedding.texts import Matrix, not_finite
from jevlaya_lab.system_one.errors import InvalidInput

__all__ = [
    "Hit",
    "Rows",
    "VectorStore",
    "check_filter",
    "check_keys",
    "check_rows",
    "check_vectors",
    "where_of",
]

_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Hit:
    """One find of a search.

    Attributes:
        key: Under which it was stored.
        similarity: Cosine, -1 to 1.
        text: The text that the vector is of.
        metadata: What was stored beside it.
    """

    key: str
    similarity: float
    text: str
    metadata: Mapping[str, Any]


@runtime_checkable
class VectorStore(Protocol):
    """Vectors of one identity with their texts; never of two (E-10).

    The texts are kept because a change of the model needs them: :func:`migrate` embeds them again
    beside the old vectors, and switches when all are done. The methods from ``begin_staging`` on
    are its tools.
    """

    @property
    def identity(self) -> EmbeddingIdentity:
        """What the vectors are that it holds now."""

    async def upsert(
        self,
        keys: Sequence[str],
        vectors: Embeddings,
        texts: Sequence[str],
        metadata: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Store vectors under keys; what was there under a key is replaced. All or nothing.

        Raises:
            IdentityMismatch: The vectors are of another identity than those in the store.
            DimensionMismatch: Their components are not as many as their identity says.
            NonFiniteVector: One is NaN, infinite or all zeros, which has no direction.
            InvalidInput: Keys, texts or metadata do not fit.
        """

    async def search(
        self, queries: Embeddings, k: int = 10, *, filter: Mapping[str, Any] | None = None
    ) -> list[list[Hit]]:
        """The ``k`` nearest by cosine for each query, nearest first, equal ones by key; exact.

        Args:
            queries: Vectors of the store's identity.
            k: How many at most.
            filter: Only rows whose metadata have these values, of the same JSON type.

        Raises:
            IdentityMismatch: The queries are of another identity.
        """

    async def delete(self, keys: Sequence[str]) -> int:
        """Remove what is under these keys, and say how many there were."""

    async def count(self) -> int:
        """How many vectors it holds."""

    async def flush(self) -> None:
        """Make what was done so far outlive this process, where the store has a place for it."""

    async def aclose(self) -> None:
        """Let go of what it holds open."""

    async def begin_staging(self, identity: EmbeddingIdentity) -> None:
        """Make room for vectors of another identity, or go on with what was staged of it.

        Raises:
            StoreError: Vectors of a third identity are staged already.
        """

    async def unstaged(self) -> list[str]:
        """Keys whose text, as it is now, has no staged vector yet."""

    async def texts_of(self, keys: Sequence[str]) -> dict[str, str]:
        """Texts by key; keys that are gone are left out."""

    async def stage(self, keys: Sequence[str], vectors: Embeddings, texts: Sequence[str]) -> None:
        """Keep vectors of the new identity beside the old ones, where no search sees them."""

    async def switch(self) -> bool:
        """Take the staged vectors for the old ones, at once; ``False`` if some are missing."""

    async def drop_staged(self) -> None:
        """Give up what was staged."""


class Rows(NamedTuple):
    """What is to be stored, judged: one key, vector, text and JSON object per row."""

    keys: list[str]
    vectors: Matrix
    texts: list[str]
    metadata: list[str]


def where_of(identity: EmbeddingIdentity, store: str) -> Where:
    """For errors: whose vectors, and in which store."""
    return Where(identity.provider, identity.model, store)


def check_rows(
    identity: EmbeddingIdentity,
    store: str,
    keys: Sequence[str],
    vectors: Embeddings,
    texts: Sequence[str],
    metadata: Sequence[Mapping[str, Any]] | None,
) -> Rows:
    """See that rows may be stored together with vectors of an identity.

    Raises:
        EmbeddingError: A vector does not fit; see :meth:`VectorStore.upsert`.
        InvalidInput: Keys, texts or metadata do not.
    """
    found = check_vectors(identity, store, vectors, "stored together", directed=True)
    names = check_keys(keys)
    if len(set(names)) != len(names):
        twice = [key for key in dict.fromkeys(names) if names.count(key) > 1][:_SHOWN]
        raise InvalidInput(f"keys stand more than once in one call: {twice}; keep one of each")
    said = list(texts)
    more: list[Any] = [{}] * len(names) if metadata is None else list(metadata)
    if not len(names) == len(found) == len(said) == len(more):
        raise InvalidInput(
            f"{len(names)} keys, {len(found)} vectors, {len(said)} texts and {len(more)} metadata: "
            "one of each per row is due"
        )
    for key, text in zip(names, said, strict=True):
        if not _is_text(text):
            raise InvalidInput(
                f"the text of {key!r} cannot be stored: {text!r:.80}; it must be text without "
                "NUL characters and halves of surrogate pairs"
            )
    return Rows(names, found, said, [_json(key, one) for key, one in zip(names, more, strict=True)])


def check_vectors(
    identity: EmbeddingIdentity,
    store: str,
    vectors: Embeddings,
    what: str,
    *,
    directed: bool = False,
) -> Matrix:
    """The matrix [n, dimension] of vectors that a store may be given.

    Raises:
        IdentityMismatch: They are of another identity.
        DimensionMismatch: They have another shape.
        NonFiniteVector: Some are NaN or infinite, or all zeros where a direction is needed.
    """
    where = where_of(identity, store)
    if not isinstance(vectors, Embeddings):
        raise IdentityMismatch(
            f"a {type(vectors).__name__} does not say which model its numbers come from; pass "
            "what generator.embed(texts) gives",
            where,
        )
    require_same(identity, vectors.identity, f"{what} in {store}")
    found = vectors.vectors
    if not isinstance(found, np.ndarray) or found.ndim != 2 or found.shape[1] != identity.dimension:
        raise DimensionMismatch(
            f"vectors of shape {list(getattr(found, 'shape', ()))} where [n, {identity.dimension}] "
            "is due; embed the texts with the model that the identity names",
            where,
        )
    if wrong := not_finite(found):
        raise NonFiniteVector(
            f"vectors {wrong[:_SHOWN]} hold NaN or infinity; embed these texts again or leave them "
            "out",
            where,
            positions=wrong,
        )
    if directed and (zeros := [int(i) for i in np.flatnonzero(~found.any(axis=1))]):
        raise NonFiniteVector(
            f"vectors {zeros[:_SHOWN]} are all zeros, which point nowhere (an empty text?); leave "
            "them out",
            where,
            positions=zeros,
        )
    return found


def check_keys(keys: Sequence[str]) -> list[str]:
    """Keys as a list.

    Raises:
        InvalidInput: It is no list of texts, or one of them cannot be a key.
    """
    if isinstance(keys, (str, bytes)):
        raise InvalidInput(f"keys is a list of texts, got the one text {keys!r}; write [{keys!r}]")
    names = list(keys)
    for key in names:
        if not _is_text(key) or not key:
            raise InvalidInput(
                f"{key!r} cannot be a key: a key is a text, not empty, without NUL characters"
            )
    return names


def check_filter(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """A filter of a search: names of metadata with the plain value that each must have.

    Raises:
        InvalidInput: It is something else.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidInput(f"filter is a dict of metadata, got a {type(given).__name__}")
    for name, value in given.items():
        if not _is_text(name) or not (
            value is None or isinstance(value, (bool, int, float)) or _is_text(value)
        ):
            raise InvalidInput(
                f"filter {name!r}: {value!r} is no plain value; text, numbers, booleans and None "
                "can be looked for"
            )
        if isinstance(value, float) and not math.isfinite(value):
            raise InvalidInput(f"filter {name!r}: {value} is no number in JSON; leave it out")
    return dict(given)


def _is_text(value: Any) -> bool:
    if not isinstance(value, str) or "\0" in value:
        return False
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _json(key: str, metadata: Any) -> str:
    problem = "it is no dict"
    if isinstance(metadata, Mapping):
        try:
            text = json.dumps(dict(metadata), allow_nan=False)
            if all(map(_is_text, _texts_in(json.loads(text)))):
                return text
            problem = "NUL characters and halves of surrogate pairs cannot be stored"
        except (TypeError, ValueError, RecursionError) as exc:
            problem = str(exc)
    raise InvalidInput(f"the metadata of {key!r} cannot be stored as JSON: {problem}")


def _texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, one in value.items():
            yield name
            yield from _texts_in(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts_in(one)
