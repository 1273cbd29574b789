"""Groups of near vectors: the same as by comparing all pairs, whatever the blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jevlaya_lab.embedding import EmbeddingIdentity, Embeddings
from jevlaya_lab.embedding.near import near_groups
from jevlaya_lab.system_one.errors import InvalidOption

PLANE = EmbeddingIdentity("made up", "plane", dimension=2)


def at_angles(degrees: Any) -> Embeddings:
    turns = np.deg2rad(np.asarray(degrees, float))
    vectors = np.stack([np.cos(turns), np.sin(turns)], axis=1).reshape(-1, 2)
    return Embeddings(vectors.astype(np.float32), PLANE)


def by_all_pairs(degrees: list[int], most: float) -> list[int]:
    """The first of each one's group, by following all pairs again and again."""
    first = list(range(len(degrees)))
    changed = True
    while changed:
        changed = False
        for i, a in enumerate(degrees):
            for j, b in enumerate(degrees):
                apart = abs(a - b) % 360
                if min(apart, 360 - apart) <= most and first[j] < first[i]:
                    first[i] = first[j]
                    changed = True
    return first


@given(st.lists(st.integers(0, 71).map(lambda n: 5 * n), max_size=40), st.integers(1, 50))
def test_groups_are_those_of_all_pairs_whatever_the_blocks(degrees: list[int], tile: int) -> None:
    found = near_groups(at_angles(degrees), float(np.cos(np.deg2rad(12))), tile=tile)

    assert found.tolist() == by_all_pairs(degrees, 12)


def test_a_chain_is_one_group_though_its_ends_are_far_apart() -> None:
    found = near_groups(at_angles([80, 0, 10, 20, 30, 40, 50, 60, 70, 200]), 0.98, tile=3)

    assert found.tolist() == [0] * 9 + [9]


def test_equal_vectors_are_near_at_the_highest_threshold() -> None:
    vectors = np.random.default_rng(0).normal(size=(50, 384)).astype(np.float32)
    identity = EmbeddingIdentity("made up", "space", dimension=384)

    found = near_groups(Embeddings(np.concatenate([vectors, 3 * vectors]), identity), 1.0, tile=7)

    assert found.tolist() == list(range(50)) * 2


def test_no_matrix_of_all_pairs_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is held at once is a tile, and the pairs in it."""
    sizes = []
    nonzero = np.nonzero

    def watched(mask: Any) -> Any:
        sizes.append(mask.size)
        return nonzero(mask)

    monkeypatch.setattr(np, "nonzero", watched)
    near_groups(at_angles(np.arange(1000) % 360), 0.999, tile=100)

    assert max(sizes) == 100 * 100
    assert len(sizes) == 55


def test_nothing_has_no_groups_and_zeros_are_near_to_nobody() -> None:
    nothing = Embeddings(np.zeros((0, 0), np.float32), PLANE)
    zeros = Embeddings(np.zeros((3, 2), np.float32), PLANE)

    assert near_groups(nothing, 0.5).tolist() == []
    assert near_groups(zeros, 0.5).tolist() == [0, 1, 2]


@pytest.mark.parametrize("threshold", [0, -0.5, 1.01, float("nan"), True, "0.9", None])
def test_a_threshold_that_is_none(threshold: Any) -> None:
    with pytest.raises(InvalidOption, match="cosine above 0 and at most 1"):
        near_groups(at_angles([0]), threshold)
