"""The reliability diagram as data: points, gaps, counts."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from drawn import check

from jevlaya_lab import calibration
from jevlaya_lab.system_one.errors import InvalidInput
from jevlaya_lab.views.layout import Mark
from jevlaya_lab.views.reliability import reliability_layout


def found_of(n_questions=1, n=100):
    """Nouls that say 0.25 and come true half of the time, and 0.75 always."""
    stated = np.where(np.arange(n) % 2, 0.25, 0.75)
    true = np.where(np.arange(n) % 2, np.arange(n) % 4 == 1, True).astype(bool)
    names = [f"question {i}" for i in range(n_questions)]
    answers = pd.DataFrame({name: stated for name in names})
    return calibration(answers, pd.DataFrame({name: true for name in names}))


def test_points_lie_where_what_was_stated_meets_what_came_true():
    layout = reliability_layout(found_of())
    check(layout)
    first, second = [p for p in layout.pieces if isinstance(p, Mark) and p.label == "bin"]
    (diagonal,) = [line for line in layout.lines("axis") if line.label == "diagonal"]
    (left, bottom), (right, top) = diagonal.points
    assert (first.x - left) / (right - left) == pytest.approx(0.25)
    assert (bottom - first.y) / (bottom - top) == pytest.approx(0.5)
    assert (second.x - left) / (right - left) == pytest.approx(0.75)
    assert second.y == pytest.approx(top)


def test_gaps_and_counts_are_drawn():
    layout = reliability_layout(found_of())
    gaps = [line.label for line in layout.lines("alarm") if line.label.startswith("gap")]
    assert len(gaps) == 2
    counts = [bar.label for bar in layout.rects("series-5") if bar.label]
    assert counts == ["50", "50"]
    assert layout.texts.count("50") == 2
    assert "question 0: 100 answers, 0.75 right, said 0.5 on average" in layout.alt


def test_small_bins_are_called_rough():
    assert "2 bins of fewer than 10 answers" in reliability_layout(found_of(n=10)).alt
    assert "fewer than" not in reliability_layout(found_of()).alt


@pytest.mark.parametrize("n_questions", [2, 3, 12])
def test_several_questions_stand_side_by_side(n_questions):
    layout = reliability_layout(found_of(n_questions))
    check(layout)
    diagonals = [line for line in layout.lines("axis") if line.label == "diagonal"]
    assert len(diagonals) == min(8, n_questions)
    assert ("And 4 more questions." in layout.alt) is (n_questions == 12)


def test_without_answers_there_is_no_data():
    layout = reliability_layout(found_of(n=0))
    check(layout)
    assert "no data" in layout.texts


def test_the_table_of_bins_alone_is_not_enough():
    with pytest.raises(InvalidInput, match=r"what calibration\(\) returns, got a DataFrame"):
        reliability_layout(found_of().reliability)
