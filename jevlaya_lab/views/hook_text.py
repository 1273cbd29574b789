"""Hooks in words: each in its place, with its milliseconds and what it changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jevlaya_lab.views.calls import Row
from jevlaya_lab.views.text import milliseconds

__all__ = ["MOST", "hook_lines", "listening", "raised", "summed_lines"]

MOST = 8
"""Lines of hooks up to which each has one."""

_LONG = 56
"""Characters of a hook's name."""


def listening(events: Iterable[Row], event: str) -> list[Row]:
    """The rows of the hooks that ran for an event, in order."""
    return [row for row in events if row["event"] == event and row["hook"] is not None]


def raised(rows: Iterable[Row]) -> bool:
    """Whether one of these hooks raised."""
    return any(row["error_type"] is not None for row in rows)


def hook_lines(rows: Sequence[Row], most: int = MOST) -> list[str]:
    """A line for each hook that ran, numbered by its place; of many hooks the first ones.

    Args:
        rows: Rows of events with a hook.
        most: Lines that there may be.
    """
    shown = list(rows) if len(rows) <= most else list(rows)[: most - 1]
    lines = [_line(row) for row in shown]
    rest = rows[len(shown) :]
    if rest:
        spent = milliseconds(sum(row["duration_ms"] or 0.0 for row in rest))
        lines.append(f"and {len(rest)} more, {spent} in all{_notable(rest)}")
    return lines


def summed_lines(groups: Sequence[Sequence[Row]], most: int = MOST) -> list[str]:
    """A line for each hook that ran in several runs, with how often and how long in all.

    Args:
        groups: Per run the rows of its hooks for one event.
        most: Lines that there may be.
    """
    found: dict[tuple[str, str], list[Row]] = {}
    for rows in groups:
        for row in rows:
            found.setdefault((row["hook"], row["origin"] or "?"), []).append(row)
    ordered = sorted(found.items(), key=lambda each: each[1][0]["position"] or 0)
    lines = []
    shown = ordered if len(ordered) <= most else ordered[: most - 1]
    for place, ((hook, origin), rows) in enumerate(shown):
        spent = milliseconds(sum(row["duration_ms"] or 0.0 for row in rows))
        lines.append(
            f"{place + 1}. {_name(hook)} ({origin}) · ×{len(rows)} · {spent} in all{_notable(rows)}"
        )
    if len(ordered) > len(shown):
        lines.append(f"and {len(ordered) - len(shown)} more hooks")
    return lines


def _line(row: Row) -> str:
    place = "" if row["position"] is None else f"{row['position'] + 1}. "
    origin = "" if row["origin"] is None else f" ({row['origin']})"
    spent = "" if row["duration_ms"] is None else f" · {milliseconds(row['duration_ms'])}"
    changed = f" · changed {', '.join(row['changed'].split())}" if row["changed"] else ""
    error = f" · raised {row['error_type']}" if row["error_type"] else ""
    return f"{place}{_name(row['hook'])}{origin}{spent}{changed}{error}"


def _name(hook: str) -> str:
    """A hook's name, without the middle of a very long one."""
    return hook if len(hook) <= _LONG else f"{hook[: _LONG - 15]}…{hook[-14:]}"


def _notable(rows: Sequence[Row]) -> str:
    changes: dict[str, int] = {}
    errors: dict[str, int] = {}
    for row in rows:
        for name in (row["changed"] or "").split():
            changes[name] = changes.get(name, 0) + 1
        if row["error_type"]:
            errors[row["error_type"]] = errors.get(row["error_type"], 0) + 1
    said = ""
    if changes:
        said += " · changed " + ", ".join(f"{name} ×{n}" for name, n in changes.items())
    if errors:
        said += " · raised " + ", ".join(f"{name} ×{n}" for name, n in errors.items())
    return said
