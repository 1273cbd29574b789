"""A timeline of many runs: a lane per thread and checkpoint, loads and evictions as marks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pandas as pd

from jevlaya_lab.frames import Trace
from jevlaya_lab.system_one.errors import InvalidInput
from jevlaya_lab.views.furniture import MARGIN, Key, heading, legend, no_data, note_lines
from jevlaya_lab.views.lanes import (
    BIN,
    LEFT,
    NAMED,
    RIGHT,
    ROLES,
    Lane,
    lanes_of,
    load_marks,
    most_open,
    one_by_one,
    open_at_once,
    run_marks,
)
from jevlaya_lab.views.layout import WIDTH, Label, Layout, Line, Piece, Rect, Table
from jevlaya_lab.views.steps import counted
from jevlaya_lab.views.text import cut, milliseconds, number, shortened
from jevlaya_lab.views.time_axis import TimeAxis, clock, time_axis

__all__ = ["timeline_layout"]

_EACH: Final = 300
"""Runs up to which each is drawn by itself."""

_DEPTH: Final = 6
"""Runs one over the other in a lane."""


def timeline_layout(trace: Trace) -> Layout:
    """Lay out when which run went on.

    Up to 300 runs are drawn one by one. Of more, each lane shows how many were open at once, in
    fields of 5 pixels; the subtitle says so.

    Args:
        trace: The trace.

    Returns:
        A lane per thread, scope and checkpoint; per thread its loads and evictions above them.
        Long times without any run are cut out.

    Raises:
        InvalidInput: It is no trace.
    """
    if not isinstance(trace, Trace):
        raise InvalidInput(f"timeline_layout takes a trace, got a {type(trace).__name__}")
    runs = _known(trace.runs)
    title = "Timeline"
    if runs.empty:
        pieces, y = heading(title, "no runs were recorded")
        pieces += no_data(MARGIN, y, WIDTH - 2 * MARGIN, 90)
        return Layout(
            WIDTH, y + 110, title, "", f"{title}. No runs were recorded.", pieces=tuple(pieces)
        )
    lanes, merged = lanes_of(runs)
    axis = time_axis(runs["start_ms"].to_numpy(), runs["end_ms"].to_numpy(), LEFT, RIGHT)
    asked = runs["scope"].isin(["agent", "router"])
    together = int(asked.sum()) > _EACH or any(
        lane.depths.max(initial=0) >= _DEPTH for lane in lanes
    )
    most = most_open(lanes, axis) or 1.0
    n_loads, n_evictions = (int((runs["scope"] == s).sum()) for s in ("load", "evict"))
    threads = list(dict.fromkeys(runs["thread"]))
    span = clock(float(runs["end_ms"].max() - runs["start_ms"].min()))
    subtitle = (
        f"{counted(int(asked.sum()), 'run')} of {counted(len(threads), 'thread')} in {span}, "
        f"{counted(n_loads, 'load')}, {counted(n_evictions, 'eviction')}"
    )
    if together:
        subtitle += (
            f". Drawn together: a field is {clock(axis.per_pixel * BIN)} wide, its height is how "
            f"many runs of the lane were open on average (full height: {number(most)})"
        )
    if trace.n_dropped:
        subtitle += f". {counted(trace.n_dropped, 'older run')} no longer kept"
    pieces, y = heading(title, subtitle)
    keys = [
        Key(scope, role, "field", 0 if together else hatch)
        for scope, (role, hatch) in ROLES.items()
        if (runs["scope"] == scope).any()
    ]
    if n_loads:
        loads = runs[runs["scope"] == "load"]
        built = [Key("building", "rest", "field", 3)]
        keys += built * bool((loads["end_ms"] > loads["start_ms"]).any())
        keys.append(Key("load done", "accent", "mark", 2))
    if n_evictions:
        keys.append(Key("eviction", "ink", "mark", 6))
    if (runs["error_type"].notna() & asked).any():
        keys.append(Key("failed", "alarm", "mark", 3))
    if runs["skipped"].any():
        keys.append(Key("answered by a hook", "series-5", "mark", 1))
    found, y = legend(keys, y - 4)
    pieces += found
    top = y = y + (18 if axis.cuts else 8)
    rows: list[Piece] = []
    for thread in threads:
        found, y = _thread(
            thread, [lane for lane in lanes if lane.thread == thread], runs, axis, y, together, most
        )
        rows += found
    pieces += [*axis.draw(top, y), *rows, Line(((LEFT, y), (RIGHT, y)), "axis")]
    notes = ["Times without any run are cut out, with how long they were."] * bool(axis.cuts)
    notes += [merged] * bool(merged)
    found, end = note_lines(" ".join(notes), y + 26)
    table = _table(lanes)
    said = shortened(
        [f"{row[0]} {row[1]} {row[2]}: {row[3]} runs, {row[4]} in all" for row in table.rows],
        6,
        "; ",
    )
    alt = f"{title}. {subtitle}. Lanes: {said or 'none'}. {' '.join(notes)}".strip()
    return Layout(WIDTH, end + 10, title, subtitle, alt, pieces=(*pieces, *found), tables=(table,))


def _known(runs: pd.DataFrame) -> pd.DataFrame:
    """What is drawn of runs: no missing text, an end for each, calls of ``route`` left out."""
    kept = runs[runs["start_ms"].notna() & runs["scope"].isin(["agent", "router", "load", "evict"])]
    end = kept["end_ms"].fillna(kept["start_ms"])
    known: pd.DataFrame = pd.DataFrame(
        {
            "scope": kept["scope"].astype(object),
            "thread": kept["thread"].fillna("unknown thread").astype(object),
            "model": kept["model"].fillna("?").astype(object),
            "start_ms": kept["start_ms"].astype(float),
            "end_ms": end.astype(float),
            "error_type": kept["error_type"],
            "skipped": kept["skipped"].fillna(False).astype(bool),
        }
    )
    return known


def _thread(
    thread: str,
    lanes: Sequence[Lane],
    runs: pd.DataFrame,
    axis: TimeAxis,
    y: float,
    together: bool,
    most: float,
) -> tuple[list[Piece], float]:
    pieces: list[Piece] = [
        Line(((MARGIN, y), (RIGHT, y)), "grid", width=1.0),
        Label(MARGIN, y + 14, cut(thread, RIGHT - MARGIN, 12.0, True), bold=True),
    ]
    y += 28
    own = runs[(runs["thread"] == thread) & runs["scope"].isin(["load", "evict"])]
    if not own.empty:
        named = len(own) <= NAMED
        y += 10 if named else 0
        pieces += load_marks(own, axis, y + 6, named)
        pieces.append(Label(LEFT - 8, y + 6, "loads, evictions", "ink", 11.5, "right"))
        y += 18
    for lane in lanes:
        levels = 1 if together else int(lane.depths.max(initial=0)) + 1
        height = 26.0 if together else max(16.0, 11.0 * levels)
        scope = "" if lane.scope == "other" else f"{lane.scope} · "
        name = cut(f"{scope}{lane.model}", LEFT - MARGIN - 20, 11.5)
        pieces.append(Label(LEFT - 8, y + height / 2, name, "ink", 11.5, "right"))
        pieces.append(Rect(LEFT, y, RIGHT - LEFT, height, "panel", label="lane"))
        draw = open_at_once if together else one_by_one
        pieces += draw(lane, axis, y, height, most)
        pieces += run_marks(lane, axis, y, height)
        y += height + 6
    return pieces, y + 4


def _table(lanes: Sequence[Lane]) -> Table:
    rows = []
    for lane in lanes:
        spent = lane.end - lane.start
        rows.append(
            (
                lane.thread,
                lane.scope,
                lane.model,
                number(len(spent)),
                milliseconds(float(spent.sum())),
                milliseconds(float(np.median(spent))),
                number(int(lane.skipped.sum())),
                number(int(lane.failed.sum())),
            )
        )
    headers = ("thread", "scope", "checkpoint", "runs", "in all", "median", "by a hook", "failed")
    return Table(headers, tuple(rows), "The lanes as a table")
