"""Which checkpoints were resident when, as far as a trace says, and which one goes next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from jevlaya_lab.frames import Trace
from jevlaya_lab.system_one.errors import InvalidInput
from jevlaya_lab.views.furniture import (
    MARGIN,
    Key,
    heading,
    legend,
    no_data,
    note_lines,
    rows_table,
)
from jevlaya_lab.views.layout import WIDTH, Label, Layout, Line, Mark, Piece, Rect, Table
from jevlaya_lab.views.steps import counted
from jevlaya_lab.views.text import cut, shortened
from jevlaya_lab.views.time_axis import TimeAxis, clock, time_axis
from jevlaya_lab.views.uses import Residency, Stay, residency_of

__all__ = ["residency_layout"]

_LEFT: Final = 190.0
_RIGHT: Final = WIDTH - MARGIN - 92
_ROW: Final = 34.0
_ROWS: Final = 24
_STAYS: Final = 80
"""Stays of a checkpoint, and uses, that are drawn one by one."""

_INFERRED: Final = (
    "Inferred: a checkpoint that answers or goes without a recorded load was there before the "
    "trace began, or was attached; when it came is not known."
)
_OPEN: Final = (
    "Bars that reach the right end had no recorded eviction; nothing after their last sign says "
    "that they are still there."
)


def residency_layout(trace: Trace) -> Layout:
    """Lay out when which checkpoint was resident.

    A trace records loads, evictions and requests, not what is resident: a checkpoint that answers
    without a recorded load is drawn as inferred, from its first sign on.

    Args:
        trace: A trace in which a router took part.

    Returns:
        A row per checkpoint: bars where it was resident, marks for loads, evictions and requests,
        and at the right its place in the order of last use.

    Raises:
        InvalidInput: It is no trace.
    """
    if not isinstance(trace, Trace):
        raise InvalidInput(f"residency_layout takes a trace, got a {type(trace).__name__}")
    found = residency_of(trace.runs)
    title = "Residency of checkpoints"
    if not found.stays:
        subtitle = "no loads, evictions or requests of a router were recorded"
        pieces, y = heading(title, subtitle)
        pieces += no_data(MARGIN, y, WIDTH - 2 * MARGIN, 90)
        return Layout(
            WIDTH, y + 110, title, subtitle, f"{title}: {subtitle}.", pieces=tuple(pieces)
        )
    stays = [stay for each in found.stays.values() for stay in each]
    n_loads = sum(not stay.inferred for stay in stays)
    n_evicted = sum(step.what == "evicted" for step in found.steps)
    subtitle = (
        f"{counted(len(found.stays), 'checkpoint')}, {counted(n_loads, 'load')}, "
        f"{counted(n_evicted, 'eviction')}; {counted(found.n_uses, 'request')}, of which "
        f"{found.n_hits} found their checkpoint resident; at most {_most(stays)} resident at once"
    )
    pieces, y = heading(title, subtitle)
    found_keys, y = legend(_keys(stays, n_evicted), y - 4)
    pieces += found_keys
    axis = _axis(trace, stays)
    pieces.append(Label(_RIGHT + 10, y + 4, "order of use", "quiet", 11.0, bold=True))
    top = y = y + 16
    rows: list[Piece] = []
    shown = list(found.stays.items())[:_ROWS]
    for model, own in shown:
        rows += _row(model, own, axis, y, found.order)
        y += _ROW
    pieces += [*axis.draw(top, y), *rows, Line(((_LEFT, y), (_RIGHT, y)), "axis")]
    notes = [_INFERRED] * any(stay.inferred for stay in stays)
    notes += [_OPEN] * any(stay.end is None for stay in stays)
    if len(found.stays) > len(shown):
        notes.insert(0, f"And {len(found.stays) - len(shown)} more checkpoints.")
    against = [step for step in found.steps if step.least_recent is False]
    if against:
        notes.append(
            f"{counted(len(against), 'eviction')} took another one than the least recently used: "
            "unload, a policy of its own, several routers, or uses that are not in the trace."
        )
    end_notes, end = note_lines(" ".join(notes), y + 26)
    said = [_said(model, own) for model, own in shown]
    order = ", ".join(found.order) or "none"
    alt = (
        f"{title}. {subtitle}. {shortened(said, 6, '; ')}. Resident in the end as far as the trace "
        f"says, the least recently used first: {order}. {' '.join(notes)}"
    ).strip()
    return Layout(
        WIDTH,
        end + 10,
        title,
        subtitle,
        alt,
        pieces=(*pieces, *end_notes),
        tables=(_table(found, axis.start),),
    )


def _keys(stays: Sequence[Stay], n_evicted: int) -> list[Key]:
    keys = [Key("resident", "series-0"), Key("request", "ink", "mark", 0)]
    if any(stay.inferred for stay in stays):
        keys.insert(1, Key("resident (inferred)", "series-5", "field", 1))
    if any(not stay.inferred for stay in stays):
        keys += [Key("building", "rest", "field", 3), Key("load done", "accent", "mark", 2)]
    if n_evicted:
        keys.append(Key("eviction", "alarm", "mark", 6))
    return keys


def _axis(trace: Trace, stays: Sequence[Stay]) -> TimeAxis:
    runs = trace.runs[trace.runs["scope"].isin(["router", "load", "evict"])]
    start = runs["start_ms"].to_numpy(dtype=float)
    end = runs["end_ms"].fillna(runs["start_ms"]).to_numpy(dtype=float)
    known = ~np.isnan(start)
    return time_axis(start[known], np.fmax(end, start)[known], _LEFT, _RIGHT)


def _row(
    model: str, stays: Sequence[Stay], axis: TimeAxis, y: float, order: Sequence[str]
) -> list[Piece]:
    middle = y + _ROW / 2
    pieces: list[Piece] = [
        Label(_LEFT - 10, middle, cut(model, _LEFT - MARGIN - 14, 12.0), size=12.0, anchor="right"),
        Line(((MARGIN, y), (WIDTH - MARGIN, y)), "grid", width=1.0),
    ]
    for stay in _joined(stays):
        left = float(axis(stay.start))
        right = _RIGHT if stay.end is None else float(axis(stay.end))
        if stay.built_from is not None:
            built = float(axis(stay.built_from))
            pieces.append(
                Rect(built, y + 10, max(1.0, left - built), 14, "rest", 3, label="building")
            )
        role, hatch = ("series-5", 1) if stay.inferred else ("series-0", 0)
        word = "inferred" if stay.inferred else "resident"
        pieces.append(Rect(left, y + 7, max(2.0, right - left), 20, role, hatch, label=word))
    for stay in _joined(stays):
        pieces += [Mark(x, middle, "ink", 0, 6.0, "use") for x in _thinned(axis, stay.uses)]
        if not stay.inferred:
            pieces.append(Mark(float(axis(stay.start)), middle, "accent", 2, 10.0, "load"))
        if stay.end is not None:
            pieces.append(Mark(float(axis(stay.end)), middle, "alarm", 6, 10.0, "evict"))
    if model in order:
        place = order.index(model) + 1
        text = f"{place}." + (" (next to go)" if place == 1 and len(order) > 1 else "")
    else:
        text = "not resident"
    pieces.append(Label(_RIGHT + 10, middle, text, "ink", 11.0))
    return pieces


def _joined(stays: Sequence[Stay]) -> Sequence[Stay]:
    """The stays that are drawn: of very many evenly chosen ones."""
    every = -(-len(stays) // _STAYS)
    return stays[::every] if every > 1 else stays


def _thinned(axis: TimeAxis, moments: Sequence[float]) -> list[float]:
    """Places of uses, at most one in four pixels."""
    if not moments:
        return []
    places = np.unique(np.round(axis(np.array(moments)) / 4.0)) * 4.0
    return [float(x) for x in places]


def _most(stays: Sequence[Stay]) -> int:
    """How many checkpoints were resident at the same time."""
    changes = [(stay.start, 1) for stay in stays]
    changes += [(stay.end, -1) for stay in stays if stay.end is not None]
    now = most = 0
    for _, change in sorted(changes):
        now += change
        most = max(most, now)
    return most


def _said(model: str, stays: Sequence[Stay]) -> str:
    uses = sum(len(stay.uses) for stay in stays)
    loads = sum(not stay.inferred for stay in stays)
    gone = sum(stay.end is not None for stay in stays)
    there = ", there already at its first sign" if stays[0].inferred else ""
    evicted = counted(gone, "eviction")
    return f"{model}: {counted(loads, 'load')}, {counted(uses, 'request')}, {evicted}{there}"


def _table(found: Residency, start: float) -> Table:
    words = {True: "yes", False: "no", None: ""}
    rows = (
        (
            clock(step.at - start),
            step.what,
            step.model,
            ", ".join(step.resident) or "none",
            words[step.least_recent],
        )
        for step in found.steps
    )
    headers = (
        "at",
        "what",
        "checkpoint",
        "resident then, next to go first",
        "was the least recent",
    )
    return rows_table(headers, rows, len(found.steps), "Loads and evictions as a table")
