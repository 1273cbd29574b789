"""What goes in and what comes out: texts and vectors, judged before anything is done with them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from jevlaya_lab.embedding.errors import (
    DimensionMismatch,
    EncodeFailed,
    InvalidText,
    NonFiniteVector,
    Where,
)

__all__ = [
    "Matrix",
    "as_matrix",
    "check_finite",
    "check_shape",
    "check_texts",
    "not_finite",
    "refuse_empty",
]

Matrix = npt.NDArray[np.float32]
"""Vectors [n, dimension], float32, in the order of the texts."""

_SHOWN: Final = 8


def check_texts(texts: Any, where: Where) -> tuple[list[str], list[int]]:
    """The texts as a list, and the positions of those that are empty or blank.

    Raises:
        InvalidText: It is no collection of texts, or holds something that is none.
    """
    if isinstance(texts, (str, bytes)) or not isinstance(texts, Iterable):
        what = "one string" if isinstance(texts, (str, bytes)) else f"a {type(texts).__name__}"
        raise InvalidText(
            f"generate_batch takes a list of texts, got {what}; use generate(text) for one", where
        )
    texts = list(texts)
    wrong = [i for i, text in enumerate(texts) if not isinstance(text, str)]
    if wrong:
        kind = type(texts[wrong[0]]).__name__
        raise InvalidText(
            f"{_named(wrong)} no text (the first is {kind}); convert or leave out what is missing",
            where,
            positions=wrong,
        )
    wrong = [i for i, text in enumerate(texts) if not text.isascii() and _has_half_pair(text)]
    if wrong:
        raise InvalidText(
            f"{_named(wrong)} no Unicode text, since a surrogate pair in it is cut in half; repair "
            "it with text.encode('utf-16', 'surrogatepass').decode('utf-16', 'replace')",
            where,
            positions=wrong,
        )
    return texts, [i for i, text in enumerate(texts) if not text or text.isspace()]


def refuse_empty(empty: Sequence[int], where: Where) -> None:
    """Raise for texts that are empty or blank.

    Raises:
        InvalidText: There are some; names their positions.
    """
    if empty:
        raise InvalidText(
            f"{_named(empty)} empty; an empty text has no meaning to embed: leave it out, or pass "
            "empty='zero' for a vector of zeros",
            where,
            positions=empty,
        )


def as_matrix(raw: Any, n: int, where: Where) -> Matrix:
    """What a model gave as a float32 matrix with one row for each of ``n`` texts.

    Raises:
        EncodeFailed: It is no numbers.
        DimensionMismatch: It has another shape.
    """
    if hasattr(raw, "detach"):
        raw = raw.detach().float().cpu()
    elif isinstance(raw, (list, tuple)) and raw and hasattr(raw[0], "detach"):
        raw = [row.detach().float().cpu().numpy() for row in raw]
    try:
        matrix = np.asarray(raw, dtype=np.float32)
    except (TypeError, ValueError) as exc:
        raise EncodeFailed(
            f"the model gave a {type(raw).__name__} that is no matrix of numbers: {exc}", where
        ) from exc
    if matrix.ndim != 2 or len(matrix) != n:
        raise DimensionMismatch(
            f"the model gave an array of shape {list(matrix.shape)} for {n} texts; "
            f"[{n}, dimension] is due",
            where,
        )
    return np.ascontiguousarray(matrix)


def check_shape(matrix: Matrix, n: int, dimension: int | None, where: Where) -> None:
    """Refuse vectors that break the contract of count and dimension.

    Raises:
        DimensionMismatch: Another number of vectors or components.
    """
    if not isinstance(matrix, np.ndarray) or matrix.ndim != 2 or len(matrix) != n:
        shape = list(getattr(matrix, "shape", ()))
        raise DimensionMismatch(f"shape {shape} for {n} texts; [{n}, dimension] is due", where)
    if dimension is not None and matrix.shape[1] != dimension:
        raise DimensionMismatch(
            f"vectors of {matrix.shape[1]} components where the contract says {dimension}; this is "
            "another model or setting, and vectors stored before do not fit: embed them again",
            where,
        )


def not_finite(matrix: Matrix) -> list[int]:
    """Rows that hold NaN or infinity."""
    # The sum is not finite where a number is not; overflow only costs the closer look.
    if np.isfinite(matrix.sum(dtype=np.float64)):
        return []
    return [int(i) for i in np.flatnonzero(~np.isfinite(matrix).all(axis=1))]


def check_finite(matrix: Matrix, where: Where) -> None:
    """Refuse vectors with NaN or infinity.

    Raises:
        NonFiniteVector: Names their positions.
    """
    if wrong := not_finite(matrix):
        raise NonFiniteVector(
            f"{_named(wrong)} given a vector with NaN or infinity, also when embedded alone; "
            "leave out the text or use another model or precision",
            where,
            positions=wrong,
        )


def _named(positions: Sequence[int]) -> str:
    shown = ", ".join(map(str, positions[:_SHOWN]))
    more = f" and {len(positions) - _SHOWN} more" if len(positions) > _SHOWN else ""
    return f"text {shown} is" if len(positions) == 1 else f"texts {shown}{more} are"


def _has_half_pair(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False
