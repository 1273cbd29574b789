"""One call as a tree of plain facts: routes, loads, the requests of each checkpoint, their passes.

Everything is read off a trace. What a trace does not say (over ``laya``'s objects, or in a file of
old) is missing here as well: a run without a call is a call of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pandas as pd

from jevlaya_lab.frames import Trace
from jevlaya_lab.frames.build import outermost
from jevlaya_lab.system_one.errors import InvalidInput
from jevlaya_lab.views.text import plain

__all__ = ["Bracket", "Call", "Row", "call_of", "facts_of", "find", "short"]

Row = dict[str, Any]
"""A row of a frame with ``None`` for missing."""


@dataclass
class Bracket:
    """The requests of one checkpoint in one call of a router: all start before any ends.

    Attributes:
        model: The checkpoint.
        runs: The router's runs in order of their start.
        loads: Runs of scope load and evict that came just before.
        passes: The agent's runs that answered, each maybe for several requests.
    """

    model: str | None
    runs: list[Row] = field(default_factory=list)
    loads: list[Row] = field(default_factory=list)
    passes: list[Row] = field(default_factory=list)

    @property
    def start(self) -> float:
        """When the first request began."""
        return float(self.runs[0]["start_ms"])

    @property
    def end(self) -> float:
        """When the last one had ended, as far as that is known."""
        return max(float(r["end_ms"] or r["start_ms"]) for r in self.runs)

    @property
    def asked(self) -> list[Row]:
        """The requests that went to the agent: those that no hook answered."""
        return [run for run in self.runs if not run["skipped"]]

    def passes_of(self, run: Row) -> list[Row]:
        """The agent's runs that may have answered this request.

        One: it did. Several: requests with the same questions and budgets shared one, and which
        of these it was cannot be told.
        """
        if run["skipped"]:
            return []
        inside = [p for p in self.passes if p["parent_run_id"] == run["run_id"]]
        if inside or len(self.passes) <= 1:
            return inside or self.passes
        alike = [p for p in self.passes if _budget(p) == _budget(run)]
        return alike or self.passes


@dataclass
class Call:
    """An outermost call, or the part of it at one depth.

    Attributes:
        call_id: Its id, where it is known.
        routes: Runs of scope route in order.
        brackets: The requests, by checkpoint.
        events: The rows of ``trace.events`` of all its runs, by run.
        inside: How many runs were asked inside of a run, by its id: hooks that ask, or the agent.
    """

    call_id: str | None
    routes: list[Row]
    brackets: list[Bracket]
    events: dict[str, list[Row]]
    inside: dict[str, int]

    def bracket(self, run: Row) -> Bracket | None:
        """The bracket that a router's run is in."""
        return self._bracket_of.get(run["run_id"])

    def route(self, run: Row) -> Row | None:
        """The route of a router's run, where the trace says which one that was."""
        return self._route_of.get(run["run_id"])

    @cached_property
    def _bracket_of(self) -> dict[Any, Bracket]:
        return {run["run_id"]: bracket for bracket in self.brackets for run in bracket.runs}

    @cached_property
    def _route_of(self) -> dict[Any, Row]:
        """Within one decision routes and requests are in the same order (L-19, L-21)."""
        decided: dict[Any, list[Row]] = {}
        for route in self.routes:
            decided.setdefault(route["routing_model"], []).append(route)
        wanted: dict[Any, list[Row]] = {}
        for bracket in self.brackets:
            for run in bracket.runs:
                wanted.setdefault(run["routing_model"], []).append(run)
        return {
            run["run_id"]: route
            for model, runs in wanted.items()
            if len(decided.get(model, ())) == len(runs)
            for run, route in zip(runs, decided[model], strict=True)
        }


def short(identity: Any) -> str:
    """The beginning of an id, which is enough to find it again."""
    return "?" if identity is None else str(identity)[:8]


def facts_of(frame: pd.DataFrame) -> list[Row]:
    """The rows of a frame with ``None`` for missing."""
    names = [str(name) for name in frame.columns]
    return [
        dict(zip(names, map(plain, row), strict=True))
        for row in frame.itertuples(index=False, name=None)
    ]


def find(trace: Trace, wanted: str | None) -> tuple[Row, bool]:
    """The run that is meant, and whether its whole call is.

    Args:
        trace: The trace.
        wanted: The id of a run or of a call, or the beginning of one; ``None`` is the last run
            that was asked for: of a router its own, not its agent's.

    Raises:
        InvalidInput: Nothing was recorded, or not exactly one run or call has that id.
    """
    runs = trace.runs
    if runs.empty:
        raise InvalidInput("nothing was recorded yet; call predict first")
    if wanted is None:
        asked = outermost(runs)
        return facts_of((runs if asked.empty else asked).iloc[[-1]])[0], False
    if not isinstance(wanted, str):
        raise InvalidInput(f"run_id is the text of an id or its beginning, got {wanted!r}")
    chosen = runs[runs["run_id"].str.startswith(wanted).fillna(False).astype(bool)]
    if len(chosen) == 1:
        return facts_of(chosen)[0], False
    of_call = runs[runs["call_id"].str.startswith(wanted).fillna(False).astype(bool)]
    if chosen.empty and of_call["call_id"].nunique() == 1:
        asked = outermost(of_call)
        rows = facts_of(of_call.iloc[[0]] if asked.empty else asked)
        return rows[0], len(rows) > 1
    n_calls = of_call["call_id"].nunique()
    raise InvalidInput(
        f"{len(chosen)} recorded runs have an id that begins with {wanted!r}"
        + (f", and {n_calls} calls" if n_calls else "")
        + "; see lab.trace.runs"
    )


def call_of(trace: Trace, run: Row) -> Call:
    """The call that a run belongs to, as far as it is on the same depth as this run.

    Args:
        trace: The trace.
        run: A row of its runs.
    """
    runs = trace.runs
    known = run["call_id"] is not None
    own = facts_of(runs[runs["call_id"] == run["call_id"]]) if known else [dict(run)]
    for each in own:  # without a time all began at once, in the order of their rows
        each["start_ms"] = 0.0 if each["start_ms"] is None else each["start_ms"]
    ids = {each["run_id"] for each in own}
    events: dict[str, list[Row]] = {}
    of_these = trace.events["run_id"].isin(ids) & trace.events["event"].notna()
    for row in facts_of(trace.events[of_these]):
        events.setdefault(row["run_id"], []).append(row)
    inside: dict[str, int] = {}
    for each in own:
        if each["parent_run_id"] is not None and each["scope"] in ("agent", "router"):
            inside[each["parent_run_id"]] = inside.get(each["parent_run_id"], 0) + 1
    beside = [each for each in own if each["parent_run_id"] == run["parent_run_id"]]
    brackets = _brackets(_of(beside, "router"))
    for i, bracket in enumerate(brackets):
        before = brackets[i - 1].end if i else float("-inf")
        bracket.loads = [
            each
            for each in _of(beside, "load", "evict")
            if before <= each["start_ms"] <= bracket.start
        ]
        bracket.passes = _passes(bracket, own)
    return Call(run["call_id"], _of(beside, "route"), brackets, events, inside)


def _of(rows: Iterable[Row], *scopes: str) -> list[Row]:
    return [row for row in rows if row["scope"] in scopes]


def _brackets(requests: Sequence[Row]) -> list[Bracket]:
    """Those of one checkpoint that were open at the same time, in order of their first one.

    A call of ``predict`` inside the same hook has brackets of its own, each with one request.
    """
    brackets: list[Bracket] = []
    for run in requests:
        last = brackets[-1] if brackets else None
        if last is not None and last.model == run["model"] and run["start_ms"] <= last.end:
            last.runs.append(run)
        else:
            brackets.append(Bracket(run["model"], [run]))
    return brackets


def _passes(bracket: Bracket, own: Sequence[Row]) -> list[Row]:
    """The agent's runs between the last start hook and the first end hook of a bracket."""
    ids = {run["run_id"] for run in bracket.runs}
    parents = {run["parent_run_id"] for run in bracket.runs} | ids
    latest = max(run["start_ms"] for run in bracket.runs)
    end = bracket.end
    found = [
        each
        for each in _of(own, "agent")
        if each["parent_run_id"] in parents and latest <= each["start_ms"] <= end
    ]
    # What start hooks asked lies ahead of the pass, and does not answer the request.
    wanted = len(bracket.asked)
    while len(found) > 1 and sum(each["n_states"] or 0 for each in found) > wanted:
        found.pop(0)
    return found


def _budget(run: Row) -> tuple[Any, ...]:
    return run["n_questions"], run["max_len"], run["head_max_len"]
