"""Temperatures and figures."""

from __future__ import annotations

import numpy as np
import pytest

from jevlaya_lab.training.calibration import (
    area_under_curve,
    calibration_error,
    fit_temperature,
    probabilities,
)


def drawn(temperature: float, n: int = 4000) -> tuple[list[np.ndarray], list[list[float]]]:
    rng = np.random.default_rng(0)
    logits = [(3 * rng.normal(size=size)).astype(np.float32) for size in rng.integers(2, 9, size=n)]
    targets = []
    for row in logits:
        right = rng.choice(len(row), p=probabilities(row, temperature))
        targets.append([float(i == right) for i in range(len(row))])
    return logits, targets


@pytest.mark.parametrize("temperature", [0.7, 1.0, 2.5])
def test_the_temperature_that_made_the_answers_is_found(temperature: float) -> None:
    assert fit_temperature(*drawn(temperature)) == pytest.approx(temperature, rel=0.1)


def test_temperatures_stay_within_bounds() -> None:
    sure = [np.array([0.1, 0.0], np.float32)] * 5
    assert fit_temperature(sure, [[1.0, 0.0]] * 5) == 0.5
    wrong = [np.array([9.0, 0.0], np.float32)] * 5
    assert fit_temperature(wrong, [[0.0, 1.0]] * 5) == 5.0


def test_calibration_error_is_the_gap_between_confidence_and_accuracy() -> None:
    assert calibration_error(np.full(10, 0.8), np.repeat([1.0, 0.0], [8, 2])) == pytest.approx(0)
    assert calibration_error(np.full(10, 1.0), np.repeat([1.0, 0.0], [8, 2])) == pytest.approx(0.2)


def test_area_under_curve_counts_ordered_pairs() -> None:
    true = np.array([0.0, 1.0, 0.0, 1.0])
    assert area_under_curve(np.array([0.1, 0.9, 0.2, 0.8]), true) == 1
    assert area_under_curve(np.array([0.1, 0.9, 0.85, 0.8]), true) == 0.75
    assert area_under_curve(np.zeros(4), true) == 0.5
