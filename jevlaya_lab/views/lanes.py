"""The lanes of a timeline: runs one by one, or how many were open at once; marks for the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from jevlaya_lab.views.furniture import MARGIN
from jevlaya_lab.views.layout import WIDTH, Label, Mark, Piece, Rect
from jevlaya_lab.views.text import cut
from jevlaya_lab.views.time_axis import Floats, TimeAxis

__all__ = [
    "BIN",
    "LEFT",
    "NAMED",
    "RIGHT",
    "ROLES",
    "Lane",
    "lanes_of",
    "load_marks",
    "most_open",
    "one_by_one",
    "open_at_once",
    "run_marks",
]

LEFT: Final = 218.0
RIGHT: Final = WIDTH - MARGIN - 8
BIN: Final = 5.0
"""Pixels of a field where runs are drawn together."""

ROLES: Final = {"router": ("series-0", 0), "agent": ("series-1", 1), "other": ("rest", 0)}

_LANES: Final = 20
_MARKS: Final = 60
"""Marks of one kind in a lane."""

NAMED: Final = 8
"""Loads and evictions up to which each load's checkpoint is written beside it."""


@dataclass
class Lane:
    """The runs of one thread, scope and checkpoint."""

    thread: str
    scope: str
    model: str
    start: Floats
    end: Floats
    failed: npt.NDArray[np.bool_]
    skipped: npt.NDArray[np.bool_]

    @property
    def depths(self) -> npt.NDArray[np.int64]:
        """On which level each run lies, so that none covers another one."""
        free: list[float] = []
        found = np.zeros(len(self.start), dtype=np.int64)
        for i in np.lexsort((-self.end, self.start)):
            level = next((n for n, end in enumerate(free) if end <= self.start[i]), len(free))
            if level == len(free):
                free.append(0.0)
            free[level] = self.end[i]
            found[i] = level
        return found


def lanes_of(runs: pd.DataFrame) -> tuple[list[Lane], str]:
    """The lanes in order of their first run, and what is to be said of those drawn as one.

    Args:
        runs: Runs with a thread, a checkpoint, a start and an end each.
    """
    asked = runs[runs["scope"].isin(["agent", "router"])]
    groups = list(asked.groupby(["thread", "scope", "model"], sort=False))
    merged = ""
    if len(groups) > _LANES:
        # The quietest ones share a lane, whatever their thread and checkpoint.
        rest = sorted(groups, key=lambda each: len(each[1]))[: len(groups) - _LANES + 1]
        names = {key for key, _ in rest}
        groups = [each for each in groups if each[0] not in names]
        merged = f"The {len(rest)} lanes with the fewest runs are drawn as one."
        joined = pd.concat([frame for _, frame in rest])
        groups.append(((rest[0][0][0], "other", f"{len(rest)} more lanes"), joined))
    lanes = [
        Lane(
            str(thread),
            str(scope),
            str(model),
            frame["start_ms"].to_numpy(),
            frame["end_ms"].to_numpy(),
            frame["error_type"].notna().to_numpy(),
            frame["skipped"].to_numpy(),
        )
        for (thread, scope, model), frame in groups
    ]
    return lanes, merged


def one_by_one(lane: Lane, axis: TimeAxis, y: float, height: float, most: float) -> list[Piece]:
    """A bar for each run of a lane."""
    depths = lane.depths
    each = height / (int(depths.max(initial=0)) + 1)
    role, hatch = ROLES.get(lane.scope, ROLES["other"])
    left, right = axis(lane.start), axis(lane.end)
    return [
        Rect(
            float(a),
            y + d * each + 1,
            max(1.5, float(b - a)),
            each - 2,
            role,
            hatch,
            label="run",
        )
        for a, b, d in zip(left, right, depths, strict=True)
    ]


def open_at_once(lane: Lane, axis: TimeAxis, y: float, height: float, most: float) -> list[Piece]:
    """Fields whose height is how many runs of a lane were open in them on average."""
    role, _ = ROLES.get(lane.scope, ROLES["other"])
    edges, mean, began = _fields(lane, axis)
    pieces: list[Piece] = []
    for left, value, n in zip(edges, mean, began, strict=False):
        if value > 1e-9 or n:
            tall = max(2.0, min(1.0, value / most) * (height - 2))
            pieces.append(Rect(float(left), y + height - 1 - tall, BIN, tall, role, label="field"))
    return pieces


def most_open(lanes: Sequence[Lane], axis: TimeAxis) -> float:
    """The highest average of a field."""
    return max((float(_fields(lane, axis)[1].max(initial=0.0)) for lane in lanes), default=0.0)


def _fields(lane: Lane, axis: TimeAxis) -> tuple[Floats, Floats, npt.NDArray[np.int64]]:
    """Left edges of fields, how many runs were open in each on average, and how many began."""
    edges = np.arange(LEFT, RIGHT + BIN, BIN)
    moments = np.interp(edges, axis.pixels, axis.knots)
    # Time spent in runs up to each moment: that since their start less that since their end.
    done = _since(lane.start, moments) - _since(lane.end, moments)
    spans = np.diff(moments)
    mean = np.divide(np.diff(done), spans, out=np.zeros(len(spans)), where=spans > 1e-12)
    return edges[:-1], mean, np.histogram(lane.start, moments)[0]


def _since(points: Floats, moments: Floats) -> Floats:
    """The sum over points of the time since each, at each moment."""
    ordered = np.sort(points)
    sums = np.concatenate([[0.0], np.cumsum(ordered)])
    n = np.searchsorted(ordered, moments)
    found: Floats = moments * n - sums[n]
    return found


def run_marks(lane: Lane, axis: TimeAxis, y: float, height: float) -> list[Piece]:
    """What stands out among the runs of a lane: those that a hook answered, those that failed."""
    pieces: list[Piece] = []
    for which, role, shape in ((lane.skipped, "series-5", 1), (lane.failed, "alarm", 3)):
        at = lane.end if role == "alarm" else lane.start
        word = "failed" if role == "alarm" else "hook"
        pieces += [
            Mark(x, y + height / 2, role, shape, 7.0, word) for x in _thinned(axis(at[which]))
        ]
    return pieces


def load_marks(own: pd.DataFrame, axis: TimeAxis, y: float, named: bool) -> list[Piece]:
    """Loads, as long as they took, and evictions."""
    pieces: list[Piece] = []
    for scope, role, shape in (("load", "accent", 2), ("evict", "ink", 6)):
        rows = own[own["scope"] == scope]
        starts, ends = axis(rows["start_ms"].to_numpy()), axis(rows["end_ms"].to_numpy())
        if scope == "load" and len(rows) <= _MARKS:
            pieces += [
                Rect(float(a), y - 5, max(1.0, float(b - a)), 10, "rest", 3, label="building")
                for a, b in zip(starts, ends, strict=True)
            ]
        places = _thinned(ends if scope == "load" else starts)
        pieces += [Mark(x, y, role, shape, 9.0, scope) for x in places]
    if named:
        pieces += _names(own, axis, y)
    return pieces


def _names(own: pd.DataFrame, axis: TimeAxis, y: float) -> list[Piece]:
    """The checkpoints of loads inside of their building time, where they fit."""
    pieces: list[Piece] = []
    for row in own[own["scope"] == "load"].itertuples(index=False):
        left, right = float(axis(row.start_ms)), float(axis(row.end_ms))
        if right - left > 46:
            text = cut(str(row.model), right - left - 12, 10.5)
            pieces.append(Label((left + right) / 2 - 3, y - 12, text, "quiet", 10.5, "middle"))
    return pieces


def _thinned(places: Floats) -> list[float]:
    """Places of marks, at most one in a few pixels."""
    if len(places) <= _MARKS // 4:
        return [float(x) for x in places]
    step = (RIGHT - LEFT) / _MARKS
    return [float(x) for x in np.unique(np.round((places - LEFT) / step)) * step + LEFT]
