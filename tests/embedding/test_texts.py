"""What is refused before any work, and the tree of errors."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from embedding_fakes import FakeModel, run

from jevlaya_lab.embedding import (
    BoundedLocalEmbedding,
    EmbeddingError,
    EmbeddingGenerator,
    InlineHashingEmbedding,
    errors,
)
from jevlaya_lab.embedding.errors import InvalidText, NonFiniteVector, RateLimited, Where
from jevlaya_lab.embedding.texts import not_finite
from jevlaya_lab.system_one.errors import InvalidInput, InvalidOption, JevlayaError


@pytest.mark.parametrize("empty", ["", " ", "\n\t\u3000"])
def test_empty_texts_are_refused_with_their_positions(empty: str) -> None:
    """E-12: by default, before anything is embedded."""
    model = FakeModel()
    strategy = BoundedLocalEmbedding(model)

    with pytest.raises(InvalidText, match="texts 1, 3 are empty") as caught:
        run(strategy.embed(["a", empty, "b", empty]))

    assert caught.value.positions == (1, 3)
    assert strategy.state == "unloaded"


def test_empty_texts_may_be_zeros() -> None:
    """E-12: on request; and positions in errors stay those of the caller."""
    model = FakeModel()
    strategy = BoundedLocalEmbedding(model, empty="zero")

    vectors = run(strategy.embed(["", "ab", " ", "c"]))
    np.testing.assert_array_equal(vectors[[0, 2]], np.zeros((2, 4)))
    np.testing.assert_array_equal(vectors[[1, 3]], model.encode(["ab", "c"]))
    assert run(strategy.embed(["", ""])).tolist() == [[0.0] * 4] * 2

    model.hopeless = {"c"}
    with pytest.raises(NonFiniteVector) as caught:
        run(strategy.embed(["", "ab", " ", "c"]))
    assert caught.value.positions == (3,)
    with pytest.raises(InvalidOption):
        InlineHashingEmbedding(empty="ignore")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("texts", "positions", "says"),
    [
        ("one string", (), "use generate"),
        (b"bytes", (), "use generate"),
        (7, (), "a int"),
        (["a", None, "b", 3.5], (1, 3), "texts 1, 3 are no text (the first is NoneType)"),
        (["ok", "half \ud83d"], (1,), "text 1 is no Unicode text"),
        ([""] * 20, tuple(range(20)), "0, 1, 2, 3, 4, 5, 6, 7 and 12 more are empty"),
    ],
)
def test_what_is_no_text_is_named(texts: Any, positions: tuple[int, ...], says: str) -> None:
    """E-9: invalid input is an error of its own, with positions."""
    with pytest.raises(InvalidText) as caught:
        run(InlineHashingEmbedding().embed(texts))

    assert caught.value.positions == positions
    assert says in str(caught.value)
    assert isinstance(caught.value, InvalidInput)


def test_no_texts_give_no_vectors() -> None:
    """E-5: the dimension is there where it is known."""
    assert run(EmbeddingGenerator("hashing", 16).generate_batch([])).shape == (0, 16)
    assert run(EmbeddingGenerator().generate_batch([])).shape == (0, 0)


def test_any_collection_of_texts_will_do() -> None:
    """E-5: also one that can be read only once."""
    texts = ["one", "two"]
    hashing = InlineHashingEmbedding()

    expected = run(hashing.embed(texts))

    np.testing.assert_array_equal(run(hashing.embed(text for text in texts)), expected)  # type: ignore[arg-type]
    np.testing.assert_array_equal(run(hashing.embed(tuple(texts))), expected)


def test_not_finite_finds_all_and_only_those() -> None:
    """E-12: also where finite numbers add up to infinity in float32."""
    matrix = np.full((5, 3), 3e38, np.float32)
    assert not_finite(matrix) == []
    matrix[1, 2], matrix[3, 0], matrix[4, 1] = np.nan, np.inf, -np.inf
    assert not_finite(matrix) == [1, 3, 4]


def tree() -> list[type[EmbeddingError]]:
    found = [getattr(errors, name) for name in errors.__all__]
    return [one for one in found if isinstance(one, type) and issubclass(one, EmbeddingError)]


def test_all_errors_are_one_tree() -> None:
    """E-9: drawn in the docstring, each with its name."""
    defined = [one for one in vars(errors).values() if isinstance(one, type)]
    assert {one for one in defined if issubclass(one, EmbeddingError)} == set(tree())
    for kind in tree():
        assert issubclass(kind, JevlayaError)
        assert f" {kind.__name__} " in f" {errors.__doc__} ".replace("\n", " "), kind


@pytest.mark.parametrize("kind", tree())
def test_every_error_tells_what_failed_and_travels(kind: type[EmbeddingError]) -> None:
    """E-9: provider, model and resource, also after a journey between processes."""
    error = kind("it broke", Where("p", "m", "cpu"), positions=[2, 4], retry_after=1.5)

    for one in (error, pickle.loads(pickle.dumps(error))):
        assert type(one) is kind
        assert str(one) == "p 'm' (cpu): it broke"
        assert (one.provider, one.model, one.resource) == ("p", "m", "cpu")
        assert (one.positions, one.retry_after) == ((2, 4), 1.5)


def test_timeouts_and_connection_failures_are_the_built_in_ones_as_well() -> None:
    """E-9: code that knows nothing of this package catches them."""
    for kind in (
        errors.PermitTimeout,
        errors.ExecutorQueueTimeout,
        errors.EncodeTimeout,
        errors.ModelLoadTimeout,
        errors.RemoteTimeout,
    ):
        assert issubclass(kind, TimeoutError)
    assert issubclass(errors.RemoteUnavailable, ConnectionError)
    assert not issubclass(RateLimited, TimeoutError)
