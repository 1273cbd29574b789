"""In which order the events of a call reached its hooks: rows of runs, columns of events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from jevlaya_lab.frames import Trace
from jevlaya_lab.system_one.errors import InvalidInput
from jevlaya_lab.views.calls import Call, Row, call_of, facts_of, find, short
from jevlaya_lab.views.furniture import (
    MARGIN,
    Key,
    heading,
    legend,
    no_data,
    note_lines,
    rows_table,
)
from jevlaya_lab.views.layout import WIDTH, Label, Layout, Line, Piece, Rect, Table
from jevlaya_lab.views.steps import counted
from jevlaya_lab.views.text import cut, shortened, text_width

__all__ = ["hook_order_layout"]

_LEFT: Final = 262.0
_HEIGHT: Final = 24.0
_COLUMN: Final = 30.0
_FIRST, _LAST = 4, 3
"""Requests of a long batch that are shown: the first ones and the last ones."""

_EVENTS: Final = {
    "on_route": ("route", "r", "series-3"),
    "on_evict": ("evict", "v", "rest"),
    "on_load": ("load", "l", "series-5"),
    "on_predict_start": ("start", "s", "series-2"),
    "on_error": ("error", "x", "series-4"),
    "on_predict_end": ("end", "e", "series-1"),
}
"""What is written above a column of an event, the letter where there is no room, and its role."""


class _Event(NamedTuple):
    """An event of a run: its place in the call, and the hooks that ran, in order."""

    place: int
    name: str
    run_id: str
    hooks: tuple[Row, ...]


def hook_order_layout(trace: Trace, call_id: str | None = None) -> Layout:
    """Lay out the order of a call's events.

    Args:
        trace: The trace.
        call_id: The id of a call, or of a run in it, or its beginning; ``None`` is the last call.

    Returns:
        Rows in the order in which things began, columns numbered in the order of events; a bar
        from each run's start to its end, so that what lies inside of what can be seen. Of more
        than 7 requests the first 4 and the last 3.

    Raises:
        InvalidInput: Nothing was recorded, or not exactly one call has that id.
    """
    if not isinstance(trace, Trace):
        raise InvalidInput(f"hook_order_layout takes a trace, got a {type(trace).__name__}")
    run, _ = find(trace, call_id)
    call = call_of(trace, run)
    runs = _runs(trace, run)
    events = _ordered(call)
    title = "Order of events and hooks"
    n_hooks = sum(len(event.hooks) for event in events)
    subtitle = (
        f"call {short(run['call_id'] or run['run_id'])}: {counted(len(events), 'event')}, "
        f"{counted(n_hooks, 'call')} of hooks; left to right in the order in which they happened"
    )
    pieces, y = heading(title, subtitle)
    if not events:
        pieces += no_data(MARGIN, y, WIDTH - 2 * MARGIN, 90)
        alt = f"{title}. No events were recorded for this call."
        return Layout(WIDTH, y + 110, title, subtitle, alt, pieces=tuple(pieces))
    shown, hidden = _shown(runs, call)
    ids = {each["run_id"] for each in shown}
    columns = [event for event in events if event.run_id in ids]
    keys = [
        Key(f"{letter} = {name}", role)
        for event, (name, letter, role) in _EVENTS.items()
        if any(each.name == event for each in columns)
    ]
    found, y = legend(keys, y - 4)
    pieces += found
    found, y = _grid(shown, columns, call, runs, y + 6)
    pieces += found
    orders = _orders(events)
    notes = [
        f"And {counted(hidden, 'more run')} between those, with the numbers that are left out."
    ]
    notes = notes * bool(hidden) + ["The hooks of each event, in their order:"]
    found, y = note_lines(" ".join(notes), y + 8)
    pieces += found
    for text in orders or ["no hook ran: a trace's recorder is left out of it"]:
        pieces.append(
            Label(MARGIN + 12, y + 8, cut(text, WIDTH - 2 * MARGIN - 12, 11.5), size=11.5)
        )
        y += 17
    ended = [each for each in events if each.name == "on_predict_end"]
    began = [each for each in events if each.name == "on_predict_start"]
    alt = (
        f"{title}. {subtitle}. Starts: {_sequence(began, runs)}. Ends: {_sequence(ended, runs)}. "
        f"{' '.join(f'{each}.' for each in orders) or 'No hook ran.'}"
    )
    return Layout(
        WIDTH, y + 12, title, subtitle, alt, pieces=tuple(pieces), tables=(_table(events, runs),)
    )


def _runs(trace: Trace, run: Row) -> list[Row]:
    """All runs of the call in the order in which they began."""
    if run["call_id"] is None:
        return [run]
    return facts_of(trace.runs[trace.runs["call_id"] == run["call_id"]])


def _ordered(call: Call) -> list[_Event]:
    """All events of a call with their hooks, numbered in the order in which they happened."""
    found: list[tuple[float, str, str, list[Row]]] = []
    for run_id, rows in call.events.items():
        own: dict[str, list[Row]] = {}
        for row in rows:
            own.setdefault(row["event"], []).append(row)
        for name, each in own.items():
            at = min(row["at_ms"] or 0.0 for row in each)
            found.append((at, name, run_id, each))
    found.sort(key=lambda each: each[0])
    return [
        _Event(i + 1, name, run_id, _hooks(rows)) for i, (_, name, run_id, rows) in enumerate(found)
    ]


def _hooks(rows: Sequence[Row]) -> tuple[Row, ...]:
    ran = [row for row in rows if row["hook"] is not None]
    return tuple(sorted(ran, key=lambda row: row["seq"] or 0))


def _shown(runs: Sequence[Row], call: Call) -> tuple[list[Row], int]:
    """The rows of the picture and how many runs have none."""
    known = [run for run in runs if run["run_id"] in call.events]
    requests = [run for run in known if run["scope"] == "router"]
    if len(requests) > _FIRST + _LAST:
        chosen = {id(run) for run in [*requests[:_FIRST], *requests[-_LAST:]]}
        asked = {run["run_id"] for run in requests if id(run) in chosen}
        routes = [
            route["run_id"]
            for run in requests
            if run["run_id"] in asked
            if (route := call.route(run)) is not None
        ]
        rest = [r for r in known if r["scope"] not in ("router", "route")][:6]
        kept = asked | set(routes) | {r["run_id"] for r in rest}
        shown = [run for run in known if run["run_id"] in kept]
    else:
        shown = known[:24]
    return shown, len(known) - len(shown)


def _grid(
    shown: Sequence[Row], columns: Sequence[_Event], call: Call, runs: Sequence[Row], y: float
) -> tuple[list[Piece], float]:
    width = min(_COLUMN, (WIDTH - MARGIN - _LEFT) / max(1, len(columns)))
    x = {event.place: _LEFT + i * width for i, event in enumerate(columns)}
    names = _names(runs)
    rows = _rows(shown, call)
    top, bottom = y + 18, y + 18 + _HEIGHT * len(rows)
    pieces: list[Piece] = [
        Rect(_LEFT + i * width, top, width, bottom - top, "panel", label="column")
        for i in range(0, len(columns), 2)
    ]
    for event in columns:
        word, letter, _ = _EVENTS.get(event.name, (event.name, "?", "rest"))
        head = word if width >= _COLUMN else letter
        pieces.append(Label(x[event.place] + width / 2, y + 8, head, "quiet", 10.0, "middle"))
    for i, ids in enumerate(rows):
        own = [event for event in columns if event.run_id in ids]
        middle = top + (i + 0.5) * _HEIGHT
        name = cut(names[ids[-1]], _LEFT - MARGIN - 8, 11.5)
        pieces.append(Label(_LEFT - 8, middle, name, "ink", 11.5, "right"))
        span = [e for e in own if e.name in ("on_predict_start", "on_predict_end")]
        if len(span) > 1:
            ends = ((x[span[0].place] + width / 2, middle), (x[span[-1].place] + width / 2, middle))
            pieces.append(Line(ends, "ink", 0, 2.2, label=name))
        for event in own:
            pieces += _cell(event, x[event.place], middle, width)
    return pieces, bottom


def _cell(event: _Event, x: float, middle: float, width: float) -> list[Piece]:
    word, _, role = _EVENTS.get(event.name, (event.name, "?", "rest"))
    gap, y = min(2.0, width / 8), middle - _HEIGHT / 2
    pieces: list[Piece] = [
        Rect(x + gap, y + 2, width - 2 * gap, _HEIGHT - 4, role, 0, 3.0, label=word)
    ]
    text = str(event.place)
    size = 10.0 if text_width(text, 10.0, True) <= width - gap else 8.5
    if text_width(text, size) <= width:
        pieces.append(Label(x + width / 2, middle, text, "on-fill", size, "middle", size > 9))
    if any(row["error_type"] for row in event.hooks):
        under = y + _HEIGHT - 1
        pieces.append(Line(((x, under), (x + width, under)), "alarm", 0, 3.0, label="raised"))
    return pieces


def _rows(shown: Sequence[Row], call: Call) -> list[list[str]]:
    """The runs of each row: a request shares one with its route."""
    routes = {}
    for run in shown:
        if run["scope"] == "router" and (route := call.route(run)) is not None:
            routes[run["run_id"]] = route["run_id"]
    taken = set(routes.values())
    return [
        [routes[run["run_id"]], run["run_id"]] if run["run_id"] in routes else [run["run_id"]]
        for run in shown
        if run["run_id"] not in taken
    ]


def _names(runs: Sequence[Row]) -> dict[str, str]:
    """What a row is called: requests are numbered in the order in which they start."""
    names, n = {}, 0
    for run in runs:
        text = f"{run['scope'] or 'run'} {run['model'] or run['routing_model'] or ''}".rstrip()
        if run["scope"] == "router":
            n += 1
            text = f"request {n} · {run['model'] or '?'}"
        elif run["scope"] == "agent" and (run["n_states"] or 0) > 1:
            text += f" · {run['n_states']} in one call"
        names[run["run_id"]] = text
    return names


def _orders(events: Sequence[_Event]) -> list[str]:
    """Per event the hooks in their order, with how often it was that order."""
    found: dict[str, dict[tuple[str, ...], int]] = {}
    for event in events:
        if event.hooks:
            hooks = tuple(_hook(row) for row in event.hooks)
            counts = found.setdefault(event.name, {})
            counts[hooks] = counts.get(hooks, 0) + 1
    lines = []
    for name in _EVENTS:
        ordered = sorted(found.get(name, {}).items(), key=lambda each: -each[1])
        for hooks, n in ordered[:3]:
            numbered = [f"{i + 1}. {hook}" for i, hook in enumerate(hooks)]
            lines.append(f"{name} ×{n}:  {shortened(numbered, 8, '  ')}")
        if len(ordered) > 3:
            lines.append(f"{name}: and {len(ordered) - 3} more orders")
    return lines


def _hook(row: Row) -> str:
    text = f"{row['hook']} ({row['origin']})" if row["origin"] else str(row["hook"])
    return f"{text} raised {row['error_type']}" if row["error_type"] else text


def _sequence(events: Sequence[_Event], runs: Sequence[Row]) -> str:
    names = _names(runs)
    return shortened([names.get(event.run_id, "?") for event in events], 12) or "none"


def _table(events: Sequence[_Event], runs: Sequence[Row]) -> Table:
    names = _names(runs)
    rows = (
        (str(e.place), e.name, names.get(e.run_id, "?"), ", ".join(map(_hook, e.hooks)) or "none")
        for e in events
    )
    return rows_table(
        ("number", "event", "of", "hooks"), rows, len(events), "The events as a table"
    )
