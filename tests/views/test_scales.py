"""Scales: round ticks that say exactly where they stand."""

from __future__ import annotations

import random
import re

import pytest

from jevlaya_lab.views.scales import by_category, linear, logarithmic

UNITS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


def value_of(text):
    number, unit = re.fullmatch(r"([-\d.,e+]+)([kMGT]?)", text).groups()
    return float(number.replace(",", "")) * UNITS[unit]


def test_ticks_say_where_they_stand_whatever_the_range():
    chance = random.Random(0)
    for _ in range(500):
        low = chance.uniform(-1, 1) * 10 ** chance.uniform(-3, 9)
        values = [low, low + 10 ** chance.uniform(-3, 9)]
        for scale in (linear(values, 400, 0), linear(values, 0, 800, zero=True)):
            assert len(scale.ticks) >= 2
            assert scale.low <= min(values)
            assert scale.high >= max(values)
            step = scale.ticks[1][0] - scale.ticks[0][0]
            for tick, text in scale.ticks:
                assert value_of(text) == pytest.approx(tick, abs=step * 1e-3)
        assert len({text for _, text in scale.ticks}) == len(scale.ticks)


def test_ticks_of_powers_say_where_they_stand():
    chance = random.Random(1)
    for _ in range(300):
        low = 10 ** chance.uniform(-6, 9)
        scale = logarithmic([low, low * 10 ** chance.uniform(0, 8)], 0, 800)
        assert len(scale.ticks) >= 2
        for tick, text in scale.ticks:
            assert value_of(text) == pytest.approx(tick, rel=0.02)
            assert -1e-6 <= scale(tick) <= 800 + 1e-6


def test_equal_values_and_no_values_have_a_scale():
    for values in ([], [0.0], [5.0, 5.0], [-3.0]):
        for zero in (False, True):
            scale = linear(values, 0, 100, zero=zero)
            assert all(0 <= scale(value) <= 100 for value in values)
    assert logarithmic([], 0, 100)(10.0) <= 100


def test_categories_share_the_axis_evenly():
    scale = by_category(["a", None, 2.5, ""], 0, 100)
    assert [scale(i) for i in range(4)] == [12.5, 37.5, 62.5, 87.5]
    assert [text for _, text in scale.ticks] == ["a", "(missing)", "2.5", "(empty)"]
