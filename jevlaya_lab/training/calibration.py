"""Temperatures, and the figures that say how good and how honest probabilities are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = [
    "area_under_curve",
    "calibration_error",
    "fit_temperature",
    "probabilities",
]

Array = npt.NDArray[np.float64]
LOWEST, HIGHEST = 0.5, 5.0
_N_STEPS: Final = 231


def probabilities(logits: npt.NDArray[np.float32], temperature: float) -> Array:
    """Softmax of logits ``[n_options]`` over a temperature."""
    scaled = logits.astype(np.float64) / temperature
    raised = np.exp(scaled - scaled.max())
    return np.asarray(raised / raised.sum())


def fit_temperature(
    logits: Sequence[npt.NDArray[np.float32]], targets: Sequence[Sequence[float]]
) -> float:
    """The temperature within [0.5, 5] at which the targets are least surprising.

    Args:
        logits: One array ``[n_options]`` per example.
        targets: The probabilities that its options should get.
    """
    n_options = max(map(len, logits))
    padded = np.full((len(logits), n_options), -np.inf)
    wanted = np.zeros((len(logits), n_options))
    for i, (row, target) in enumerate(zip(logits, targets, strict=True)):
        padded[i, : len(row)] = row
        wanted[i, : len(row)] = target
    finite = np.where(np.isfinite(padded), padded, 0.0)

    def surprise(temperature: float) -> float:
        highest = padded.max(1, keepdims=True) / temperature
        total = np.log(np.exp(padded / temperature - highest).sum(1)) + highest[:, 0]
        return float((total - (wanted * finite).sum(1) / temperature).mean())

    steps = np.exp(np.linspace(np.log(LOWEST), np.log(HIGHEST), _N_STEPS))
    return round(float(min(steps, key=surprise)), 3)


def calibration_error(confidence: Array, correct: Array, n_bins: int = 15) -> float:
    """Expected calibration error: mean gap between confidence and accuracy over equal bins.

    Args:
        confidence: Highest probability of each answer, ``[n]``.
        correct: 1 where the answer was right, ``[n]``.
        n_bins: Bins of equal width from 0 to 1.
    """
    at = np.minimum((confidence * n_bins).astype(int), n_bins - 1)
    gaps = [
        abs(confidence[at == b].mean() - correct[at == b].mean()) * (at == b).mean()
        for b in range(n_bins)
        if (at == b).any()
    ]
    return float(sum(gaps))


def area_under_curve(score: Array, true: Array) -> float:
    """How often a true case scores above a false one, ties counting half."""
    order = np.argsort(score, kind="stable")
    _, at, counts = np.unique(score[order], return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks = np.empty(len(score))
    ranks[order] = (last - (counts - 1) / 2)[at]
    n_true = true.sum()
    n_false = len(true) - n_true
    return float((ranks[true == 1].sum() - n_true * (n_true + 1) / 2) / (n_true * n_false))
