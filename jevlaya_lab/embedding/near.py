"""Groups of vectors that are near each other, without a matrix of all pairs."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from jevlaya_lab.embedding.identity import Embeddings
from jevlaya_lab.embedding.texts import Matrix
from jevlaya_lab.system_one.errors import InvalidOption

__all__ = ["check_threshold", "near_groups", "unit"]

_TILE: Final = 2048
"""Rows and columns of the largest matrix of similarities: 16 MB."""

_ROUNDING: Final = 1e-6
"""What float32 may take from the cosine of two vectors that are equal."""


def near_groups(
    embeddings: Embeddings, threshold: float, *, tile: int = _TILE
) -> npt.NDArray[np.intp]:
    """For each vector the first one of its group.

    Two vectors are in one group where their cosine is at least the threshold, or where a chain of
    such pairs leads from one to the other. So the order plays no part, and the ends of a chain may
    be less alike than the threshold.

    Args:
        embeddings: The vectors, [n, dimension].
        threshold: Cosine, above 0, at most 1.
        tile: Similarities are computed in squares of this many rows.

    Returns:
        Positions [n], each at most its own.
    """
    check_threshold(threshold)
    vectors = unit(embeddings.vectors)
    parents = np.arange(len(vectors))
    starts = range(0, len(vectors), tile)
    for top in starts:
        for left in starts[top // tile :]:
            alike = vectors[top : top + tile] @ vectors[left : left + tile].T
            rows, columns = np.nonzero(alike >= threshold - _ROUNDING)
            _join(parents, rows + top, columns + left)
    return parents


def _join(parents: npt.NDArray[Any], a: npt.NDArray[Any], b: npt.NDArray[Any]) -> None:
    """Make one group of those of each pair; ``parents`` holds the first of each group."""
    while True:
        one, other = parents[a], parents[b]
        apart = one != other
        if not apart.any():
            return
        a, b, one, other = a[apart], b[apart], one[apart], other[apart]
        # Later ones hang on earlier ones, so no ring can come of it.
        np.minimum.at(parents, np.maximum(one, other), np.minimum(one, other))
        while not np.array_equal(above := parents[parents], parents):
            parents[:] = above


def check_threshold(threshold: Any) -> float:
    """A cosine above 0, at most 1.

    Raises:
        InvalidOption: It is something else.
    """
    if (
        isinstance(threshold, bool)
        or not isinstance(threshold, (int, float))
        or not 0 < threshold <= 1
    ):
        raise InvalidOption(f"threshold is a cosine above 0 and at most 1, got {threshold!r}")
    return float(threshold)


def unit(vectors: Matrix) -> Matrix:
    """The same directions with length 1; zeros stay zeros."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    found: Matrix = (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    return found
