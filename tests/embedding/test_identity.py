"""The contract of a vector, and what is refused because of it."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from embedding_fakes import run

from jevlaya_lab.embedding import EmbeddingGenerator, EmbeddingIdentity, Embeddings, require_same
from jevlaya_lab.embedding.errors import IdentityMismatch

BASE = EmbeddingIdentity(
    provider="local_transformer",
    model="org/small",
    revision="abc",
    dimension=384,
    dtype="float32",
    pooling="mean",
    prompt="",
    max_length=256,
    normalised=True,
)
CHANGES: dict[str, Any] = {
    "provider": "remote:api.example.org",
    "model": "org/large",
    "revision": "abd",
    "dimension": 768,
    "dtype": "float16",
    "pooling": "cls",
    "prompt": "query: ",
    "max_length": 512,
    "normalised": False,
}


def test_every_field_is_part_of_the_contract() -> None:
    """E-10: the list of fields, and that a change of any of them is tried below."""
    assert set(CHANGES) == {field.name for field in dataclasses.fields(EmbeddingIdentity)}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_any_field_is_another_identity(name: str) -> None:
    """E-10: another fingerprint, other cache keys, and an error that names the migration."""
    other = dataclasses.replace(BASE, **{name: CHANGES[name]})

    assert other.fingerprint != BASE.fingerprint
    assert other.cache_key("text") != BASE.cache_key("text")
    with pytest.raises(IdentityMismatch, match="embed all stored texts again") as caught:
        require_same(BASE, other)
    assert f"{name} {getattr(BASE, name)!r} became {CHANGES[name]!r}" in str(caught.value)


def test_the_same_contract_is_the_same_wherever_it_was_made() -> None:
    """E-10: a fingerprint that is kept on disk stays valid."""
    assert dataclasses.replace(BASE).fingerprint == BASE.fingerprint
    assert BASE.fingerprint == "0e782924a94b580b8fc711bdc257d0e8"
    require_same(BASE, dataclasses.replace(BASE))


def test_an_unknown_dimension_has_no_fingerprint() -> None:
    """E-10: vectors cannot be stored under half a contract."""
    unknown = dataclasses.replace(BASE, dimension=None)

    with pytest.raises(IdentityMismatch, match="preload"):
        _ = unknown.fingerprint


def test_vectors_of_different_identities_are_neither_compared_nor_joined() -> None:
    """E-10: also where their dimensions happen to agree."""
    texts = ["one", "two"]
    small = EmbeddingGenerator("hashing", 64)
    other = EmbeddingGenerator("hashing", 64, word_ngrams=1)
    mine, theirs = run(small.embed(texts)), run(other.embed(texts))

    assert mine.vectors.shape == theirs.vectors.shape
    with pytest.raises(IdentityMismatch, match="cannot be compared"):
        mine.similarity(theirs)
    with pytest.raises(IdentityMismatch, match="cannot be stored together"):
        mine.joined(theirs)


def test_vectors_of_one_identity_are() -> None:
    """E-10: cosine similarity, whatever the lengths of the vectors."""
    a = Embeddings(np.array([[3.0, 0.0], [0.0, 0.0]], np.float32), BASE)
    b = Embeddings(np.array([[2.0, 0.0], [0.0, 5.0], [1.0, 1.0]], np.float32), BASE)

    np.testing.assert_allclose(a.similarity(b), [[1, 0, 0.5**0.5], [0, 0, 0]], rtol=1e-6)
    assert len(a.joined(b)) == 5
