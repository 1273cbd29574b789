"""Latency, padding and confidence as data."""

from __future__ import annotations

from itertools import pairwise

import pandas as pd
import pytest
from drawn import check
from fakes import QUESTIONS
from traced import ENGLISH, GERMAN, asked, attached

from jevlaya_lab.system_one.errors import InvalidInput
from jevlaya_lab.views.distributions import (
    confidence_layout,
    distributions_layout,
    latency_layout,
    padding_layout,
)


def with_values(trace, **columns):
    """The trace with other values of its agent's runs."""
    which = trace.runs["scope"] == "agent"
    for name, values in columns.items():
        trace.runs.loc[which, name] = values
    return trace


def test_latency_is_the_share_of_runs_that_took_at_most_so_long():
    trace = asked(attached(), *([ENGLISH] * 4), GERMAN)
    which = trace.runs["scope"] == "router"
    trace.runs.loc[which & (trace.runs["model"] == "english"), "elapsed_ms"] = [1.0, 10, 100, 1000]
    layout = latency_layout(trace)
    check(layout)
    (line,) = [each for each in layout.lines("series-0") if each.label]
    assert line.label == "router · english (n=4)"
    xs, ys = zip(*line.points, strict=True)
    assert [b - a for a, b in pairwise(xs)] == pytest.approx([xs[1] - xs[0]] * 3)
    steps = [a - b for a, b in pairwise(ys)]
    assert steps == pytest.approx([steps[0]] * 3)  # a quarter of the runs each
    assert "router · english: half within 55.0 ms" in layout.alt


def test_padding_is_counted_in_tenths_and_over_all_tokens():
    trace = asked(attached(), ENGLISH, GERMAN)
    trace = with_values(trace, padded_tokens=[25, 0], forward_tokens=[75, 100])
    layout = padding_layout(trace)
    check(layout)
    bars = {bar.label.split("/")[0]: bar.height for bar in layout.rects("series-0") if bar.label}
    assert {name for name, height in bars.items() if height} == {"0.0–0.1", "0.2–0.3"}
    assert layout.subtitle == "2 runs of agents, 12.5% of all their tokens"


def test_confidences_are_those_of_answers_with_detail():
    answers = pd.DataFrame(
        {"q": [1.0, 0.0, 1.0], "q__answer_confidence": [0.55, 1.0, None], "other": ["a"] * 3}
    )
    layout = confidence_layout(answers)
    check(layout)
    bars = {bar.label.split("/")[0]: bar.height for bar in layout.rects("series-0") if bar.label}
    assert {name for name, height in bars.items() if height} == {"0.5–0.6", "0.9–1.0"}
    assert "q: mean 0.775" in layout.subtitle
    assert "q (n=2)" in layout.texts
    assert "detail=True" in confidence_layout(answers[["q"]]).subtitle


def test_all_three_stand_one_under_the_other():
    lab = attached()
    answers = lab.predict([ENGLISH, GERMAN], QUESTIONS, detail=True, progress=False)
    layout = distributions_layout(lab.trace, answers)
    check(layout)
    assert [table.title.split(":")[0] for table in layout.tables] == [
        "Latency",
        "Padding",
        "Confidence of the answers",
    ]
    nothing = distributions_layout(lab.trace.where(scope="none"))
    check(nothing)
    assert nothing.texts.count("no data") == 3


def test_other_things_are_refused():
    with pytest.raises(InvalidInput, match="drawn of a trace, got a Lab"):
        latency_layout(attached())
    with pytest.raises(InvalidInput, match="answers are a DataFrame, got a list"):
        confidence_layout([1])
