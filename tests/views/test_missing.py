"""Every picture of a trace is drawn whatever column of it is missing."""

from __future__ import annotations

import dataclasses

import pandas as pd
import pytest
from drawn import check
from traced import ENGLISH, GERMAN, Hit, Noisy, asked, attached, evicting

from jevlaya_lab.frames.schema import EVENTS, RUNS
from jevlaya_lab.views.distributions import distributions_layout
from jevlaya_lab.views.hook_order import hook_order_layout
from jevlaya_lab.views.lifecycle import lifecycle_layout
from jevlaya_lab.views.residency import residency_layout
from jevlaya_lab.views.timeline import timeline_layout


@pytest.fixture(scope="module")
def traces():
    failing = {"forward": RuntimeError("out of memory")}
    return [
        asked(attached([Hit(), Noisy()]), ENGLISH, GERMAN, f"{ENGLISH} cached", ENGLISH),
        asked(attached([Noisy()], failing), ENGLISH, ENGLISH),
        evicting(),
    ]


def without(trace, frame, column):
    changed = getattr(trace, frame).copy()
    changed[column] = pd.Series(None, index=changed.index, dtype=changed[column].dtype)
    return dataclasses.replace(trace, **{frame: changed}, _calls=None)


def all_of(trace):
    runs = trace.runs[trace.runs["run_id"].notna()]
    one_of_each = runs.groupby("scope", dropna=False)["run_id"].last()
    wanted = [None, *one_of_each, *trace.runs["call_id"].dropna().unique()[:1]]
    for each in wanted:
        yield lifecycle_layout(trace, each)
        yield hook_order_layout(trace, each)
    for draw in (timeline_layout, residency_layout, distributions_layout):
        yield draw(trace)


@pytest.mark.parametrize(
    ("frame", "column"),
    [("runs", name) for name in RUNS] + [("events", name) for name in EVENTS],
)
def test_a_column_may_be_missing(traces, frame, column):
    for trace in traces:
        for layout in all_of(without(trace, frame, column)):
            check(layout)
            assert layout.alt
            assert "nan" not in layout.alt.lower().split()
            assert "None" not in " ".join(layout.texts).split()
