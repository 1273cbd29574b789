"""The timeline as data: lanes, marks, and a number of pieces that does not grow with the runs."""

from __future__ import annotations

import random

import pandas as pd
import pytest
from drawn import check
from traced import ENGLISH, GERMAN, Hit, as_of_laya, asked, attached, evicting

from jevlaya_lab.frames import Trace
from jevlaya_lab.system_one.errors import InvalidInput
from jevlaya_lab.tracing.records import Record, RunRecord
from jevlaya_lab.views.lanes import RIGHT
from jevlaya_lab.views.timeline import timeline_layout


def made_up(n, step=0.01, **facts):
    """Runs of 5 ms, one each ``step`` seconds."""
    chance = random.Random(0)
    records = []
    for i in range(n):
        values = {**dict.fromkeys(RunRecord._fields), "scope": "agent", "model": "m", "thread": "t"}
        values |= {"run_id": f"{i:032x}", "captured": "none", "elapsed_ms": 5.0}
        values |= {"began": i * step, "wall": i * step}
        values |= {
            name: chance.choice(each) if isinstance(each, list) else each
            for name, each in facts.items()
        }
        records.append(Record(RunRecord(**values), ()))
    return Trace.from_records(records)


def labelled(layout, label):
    return [p for p in layout.pieces if getattr(p, "label", "") == label]


def test_there_is_a_lane_per_thread_scope_and_checkpoint():
    layout = timeline_layout(asked(attached([Hit()]), ENGLISH, GERMAN, f"{ENGLISH} cached"))
    check(layout)
    assert len(labelled(layout, "lane")) == 4
    assert {"MainThread", "router · english", "agent · ml-net"} <= set(layout.texts)
    assert len(labelled(layout, "run")) == 5  # three requests, two calls of agents
    assert len(labelled(layout, "hook")) == 1
    assert layout.subtitle.startswith("5 runs of 1 thread in ")
    assert [row[3] for row in layout.tables[0].rows] == ["2", "1", "1", "1"]


def test_lengths_are_times_and_overlapping_runs_lie_on_levels():
    layout = timeline_layout(made_up(10, step=0.002))
    check(layout)
    runs = labelled(layout, "run")
    assert {round(run.width) for run in runs} == {round((RIGHT - 218) * 5 / 23)}
    for i, a in enumerate(runs):
        for b in runs[i + 1 :]:
            assert a.y != b.y or a.x + a.width <= b.x + 0.01


def test_loads_and_evictions_are_marks():
    layout = timeline_layout(evicting())
    check(layout)
    assert [len(labelled(layout, what)) for what in ("load", "evict", "building")] == [3, 2, 3]
    assert "3 loads, 2 evictions" in layout.subtitle


def test_very_many_runs_are_drawn_together_and_that_is_said():
    few, many = made_up(300), made_up(10_000)
    assert len(labelled(timeline_layout(few), "run")) == 300
    layout = timeline_layout(many)
    check(layout)
    assert not labelled(layout, "run")
    assert "Drawn together: a field is" in layout.subtitle
    assert "Drawn together" in layout.alt
    assert len(layout.pieces) < 400
    # Half of the time somebody is busy, everywhere the same.
    fields = labelled(layout, "field")
    heights = sorted(field.height for field in fields)
    assert heights[5] == pytest.approx(heights[-5], abs=1.5)


def test_the_number_of_pieces_is_bounded_for_any_trace():
    trace = made_up(
        20_000,
        scope=["agent", "router", "load", "evict"],
        model=[f"model {i}" for i in range(30)],
        thread=[f"thread {i}" for i in range(30)],
        skipped=[True, False],
        error_type=["RuntimeError", None],
    )
    layout = timeline_layout(trace)
    check(layout)
    assert len(layout.pieces) < 12_000
    assert len(labelled(layout, "lane")) == 20
    assert "lanes with the fewest runs are drawn as one" in layout.alt


def test_long_times_without_any_run_are_cut_out_and_that_is_written():
    trace = made_up(3, step=3600.0)
    layout = timeline_layout(trace)
    check(layout)
    assert len(labelled(layout, "cut")) == 2
    assert {"60 min", "2 h"} <= set(layout.texts)
    assert "cut out" in layout.alt
    assert all(run.width > 100 for run in labelled(layout, "run"))


def test_what_is_not_known_of_runs_is_no_obstacle():
    trace = asked(attached(), ENGLISH, GERMAN)
    bare = as_of_laya(trace)
    bare.runs[["end_ms", "elapsed_ms"]] = float("nan")
    bare.runs["model"] = pd.NA
    layout = timeline_layout(bare)
    check(layout)
    assert "unknown thread" in layout.texts
    empty = timeline_layout(trace.where(scope="none"))
    check(empty)
    assert "no data" in empty.texts
    with pytest.raises(InvalidInput, match="takes a trace, got a NoneType"):
        timeline_layout(None)
