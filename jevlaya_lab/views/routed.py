"""Routing and loading in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jevlaya_lab.views.calls import Bracket, Call, Row
from jevlaya_lab.views.hook_text import hook_lines, listening, raised, summed_lines
from jevlaya_lab.views.text import milliseconds

__all__ = ["load_lines", "route_lines"]


def route_lines(routes: Sequence[Row], events: Mapping[str, list[Row]]) -> list[str]:
    """How long routing took, and the hooks that listened to it."""
    if not routes:
        return []
    known = [each["elapsed_ms"] for each in routes if each["elapsed_ms"] is not None]
    lines = [f"decided in {milliseconds(sum(known))}"] if known else []
    groups = [listening(events.get(each["run_id"], []), "on_route") for each in routes]
    if len(routes) == 1:
        return lines + hook_lines(groups[0], 4)
    return lines + summed_lines(groups, 4)


def load_lines(bracket: Bracket, call: Call) -> tuple[list[str], bool]:
    """What became resident and what had to go, in the order in which hooks saw it; and a failure.

    Of one load, on_evict runs before on_load, though the new one is built first.
    """
    events = call.events
    loads = [each for each in bracket.loads if each["scope"] == "load"]
    evicted = [each for each in bracket.loads if each["scope"] == "evict"]
    broke = [each for each in bracket.loads if each["error_type"] is not None]
    lines, failed = [], bool(broke)
    for each in evicted:
        lines.append(f"evicted {each['model'] or '?'}{_took('released', each)}")
        rows = listening(events.get(each["run_id"], []), "on_evict")
        lines += [f"on_evict  {line}" for line in hook_lines(rows, 4)]
        failed = failed or raised(rows)
    for each in loads:
        lines.append(f"loaded {each['model'] or '?'}{_took('built', each)}")
        rows = listening(events.get(each["run_id"], []), "on_load")
        lines += [f"on_load  {line}" for line in hook_lines(rows, 4)]
        failed = failed or raised(rows)
    lines += [f"failed: {each['error_type']}" for each in broke]
    if call.call_id is None:
        lines.append("not known: the trace does not say what belongs to this call")
    elif not bracket.loads:
        lines.append("no load or eviction was recorded: resident already, as far as that says")
    return lines, failed


def _took(verb: str, run: Row) -> str:
    return "" if run["elapsed_ms"] is None else f", {verb} in {milliseconds(run['elapsed_ms'])}"
