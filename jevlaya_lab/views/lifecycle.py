"""The lifecycle diagram of one run or call: the way it took, what every hook did and cost."""

from __future__ import annotations

from typing import Final

from jevlaya_lab.frames import Trace
from jevlaya_lab.system_one.errors import InvalidInput
from jevlaya_lab.views.batch import batch_layout
from jevlaya_lab.views.calls import Bracket, Call, Row, call_of, find, short
from jevlaya_lab.views.flow import Flow
from jevlaya_lab.views.furniture import MARGIN, heading
from jevlaya_lab.views.hook_text import hook_lines, listening, raised
from jevlaya_lab.views.layout import WIDTH, Layout, Status, Table
from jevlaya_lab.views.routed import load_lines, route_lines
from jevlaya_lab.views.steps import agent_boxes, counted, end_box, outcome, passed_on, spent, way
from jevlaya_lab.views.time_bar import time_bar

__all__ = ["lifecycle_layout"]

_WIDE: Final = WIDTH - 2 * MARGIN


def lifecycle_layout(trace: Trace, run_id: str | None = None) -> Layout:
    """Lay out the lifecycle of one run, or of a router's batch.

    Args:
        trace: The trace.
        run_id: The id of a run, or of a call, or the beginning of one; ``None`` is the last run
            that was asked for: of a router its own, not its agent's. The id of a call with
            several requests gives all of them, one bracket per checkpoint.

    Returns:
        Boxes from the call to its return, top to bottom; of a router's run its agent's run stands
        in a frame of its own inside. Steps that a run did not take are there as well, with the
        status ``skipped``.

    Raises:
        InvalidInput: Nothing was recorded, or not exactly one run or call has that id.
    """
    if not isinstance(trace, Trace):
        raise InvalidInput(f"lifecycle_layout takes a trace, got a {type(trace).__name__}")
    run, whole = find(trace, run_id)
    call = call_of(trace, run)
    if whole and sum(len(bracket.runs) for bracket in call.brackets) > 1:
        return batch_layout(call)
    return _run_layout(run, call)


def _run_layout(run: Row, call: Call) -> Layout:
    events = call.events.get(run["run_id"], [])
    title = f"Lifecycle of one run: {run['scope'] or 'run'} {run['model'] or ''}".rstrip()
    subtitle = _subtitle(run, call)
    pieces, y = heading(title, subtitle)
    flow = Flow(MARGIN, y, _WIDE)
    bracket = call.bracket(run) if run["scope"] == "router" else None
    asked = _asked(run)
    inside = call.inside.get(run["run_id"], 0)
    inside -= sum(p["parent_run_id"] == run["run_id"] for p in bracket.passes) if bracket else 0
    more = [f"{counted(inside, 'more run')} inside, asked by hooks or the agent"] if inside else []
    flow.add("call", f"{run['entry'] or 'call'}(…)", [asked, *more])
    before = "call"
    shared = 0
    if bracket is not None:
        before = _before_start(flow, run, call, bracket)
        flow.arrow(before, "start")
        shared = _router_boxes(flow, run, call, bracket)
    elif run["scope"] in ("route", "load", "evict"):
        _one_event(flow, run, events)
    else:
        flow.arrow(before, "start")
        agent_boxes(flow, run, events)
    flow.arrow("end", "return")
    flow.add("return", *outcome(run["error_type"], listening(events, "on_predict_end")))
    passes = bracket.passes_of(run) if bracket else []
    timed = passes[0] if len(passes) == 1 else run
    together = 0 if bracket is None else len(bracket.runs)
    bars, keys, y = time_bar(run, timed, events, flow.y - 4, shared, together)
    said = [f"{asked}; {way(run, shared)}", spent(run)]
    said += [f"routed to {run['routing_model']}: {run['routing_reason']}"] * bool(
        run["routing_reason"]
    )
    start, end = listening(events, "on_predict_start"), listening(events, "on_predict_end")
    said.append(f"Start hooks: {'; '.join(hook_lines(start)) or 'none'}")
    said.append(f"End hooks: {'; '.join(hook_lines(end)) or 'none'}")
    return Layout(
        WIDTH,
        y,
        title,
        subtitle,
        ". ".join([title, *said]) + ".",
        boxes=tuple(flow.boxes),
        arrows=tuple(flow.arrows),
        bars=bars,
        pieces=(*pieces, *flow.pieces, *keys),
        tables=(boxes_table(flow),),
    )


def boxes_table(flow: Flow) -> Table:
    """The boxes of a diagram as text."""
    words = {"done": "", "skipped": "not taken", "failed": "failed"}
    rows = [(box.title, words[box.status], "; ".join(box.lines)) for box in flow.boxes]
    return Table(("step", "", "what"), tuple(rows), "The steps as a table")


def _asked(run: Row) -> str:
    if run["scope"] in ("load", "evict"):
        return f"checkpoint {run['model'] or '?'}"
    text = f"{counted(run['n_states'], 'state')} × {counted(run['n_questions'], 'question')}"
    budgets = [
        f"{name} {run[name]}" for name in ("max_len", "head_max_len") if run[name] is not None
    ]
    return f"{text}, in the end with {', '.join(budgets)}" if budgets else text


def _subtitle(run: Row, call: Call) -> str:
    parts = [f"run {short(run['run_id'])}"]
    requests = [r["run_id"] for b in call.brackets for r in b.runs]
    if len(requests) > 1 and run["run_id"] in requests:
        parts.append(f"one of {len(requests)} requests of call {short(run['call_id'])}")
    if run["started_at"] is not None:
        parts.append(f"started {run['started_at']:%Y-%m-%d %H:%M:%S} UTC")
    if run["thread"]:
        parts.append(str(run["thread"]))
    return " · ".join(parts)


def _before_start(flow: Flow, run: Row, call: Call, bracket: Bracket) -> str:
    """Routing and loading, which come ahead of a router's run; the id of the last box."""
    route = call.route(run)
    lines = [f"→ {run['routing_model'] or run['model'] or '?'}"]
    if run["routing_reason"]:
        lines[0] += f": {run['routing_reason']}"
    lines += route_lines([route] if route else [], call.events)
    flow.arrow("call", "route")
    flow.add("route", "route: the policy, then on_route", lines)
    lines, failed = load_lines(bracket, call)
    flow.arrow("route", "load")
    flow.add("load", f"load {bracket.model or ''}".rstrip(), lines, "failed" if failed else "done")
    return "load"


def _router_boxes(flow: Flow, run: Row, call: Call, bracket: Bracket) -> int:
    """A router's run with its agent's inside; how many requests shared the pass, 0 for one."""
    events = call.events.get(run["run_id"], [])
    start, error = listening(events, "on_predict_start"), listening(events, "on_error")
    failed, skipped = run["error_type"] is not None, bool(run["skipped"])
    start_failed = raised(start)
    flow.add(
        "start",
        "on_predict_start",
        hook_lines(start) or ["no hook listens"],
        "failed" if start_failed else "done",
    )
    passes = bracket.passes_of(run)
    shared = max([int(p["n_states"] or 0) for p in passes], default=0) if passes else 0
    shared = shared if shared > 1 else 0
    top = flow.y
    hit: tuple[str, str, list[str], Status] = (
        "skip",
        "ctx.skip(results)",
        ["a start hook answered" if skipped else "no hook answered"],
        "done" if skipped else "skipped",
    )
    (box,) = flow.row([hit], [160.0])
    flow.y, left = top, flow.x + box.width + 18
    flow.arrow("start", "skip", "done" if skipped else "skipped")
    flow.arrow("skip", "end", "done" if skipped and not failed else "skipped")
    inner = "agent"
    if len(passes) == 1:
        agent = passes[0]
        name = f"inside: agent {agent['model'] or ''} {agent['entry'] or 'call'}".rstrip()
        note = f"run {short(agent['run_id'])}, with the agent's own hooks"
        if shared:
            note = f"ONE call for {shared} requests of this batch"
            if agent["n_forwards"] is not None:
                passes_of_it = counted(agent["n_forwards"], "forward pass", "forward passes")
                note += f", {passes_of_it} for all of them"
        with flow.frame(f"{name}(…)", x=left, note=note):
            agent_boxes(flow, agent, call.events.get(agent["run_id"], []), "agent.")
            at = flow.aside
        flow.arrow("start", "agent.start", at=at)
        inner = "agent.end"
    else:
        flow.row(
            [("agent", "the agent's call", _unknown(run, passes), _state(run, passes))],
            [flow.x + flow.width - left],
            left,
        )
        flow.arrow("start", "agent", "skipped" if skipped or start_failed else "done")
    flow.y = max(flow.y, top + box.height + 26)
    if failed:
        what = ": ".join(each for each in (run["error_type"], run["error_message"]) if each)
        flow.row(
            [
                (
                    "error",
                    "on_error",
                    [what, *hook_lines(error)],
                    "failed" if raised(error) else "done",
                )
            ],
            [flow.x + flow.width - left],
            left,
        )
        flow.arrow("start" if start_failed else inner, "error")
        flow.arrow("error", "end")
    else:
        flow.arrow(inner, "end", "skipped" if skipped else "done")
    end_box(flow, run, events)
    return shared


def _state(run: Row, passes: list[Row]) -> Status:
    if run["error_type"] is not None and not passes:
        return "failed"
    return "skipped" if run["skipped"] else "done"


def _unknown(run: Row, passes: list[Row]) -> list[str]:
    """What is said where there is not exactly one agent's run to show."""
    if run["skipped"]:
        return ["not made"]
    if run["error_type"] is not None and not passes:
        return ["not made, or broke: no run of it was recorded"]
    if passes:
        each = ", ".join(str(p["n_states"] or "?") for p in passes)
        return [
            f"one of {len(passes)} calls, for {each} requests each;",
            "which one it was, the trace does not say",
        ]
    if not run["n_questions"]:
        return [passed_on(run)]
    return ["answered; no run of the agent was recorded, its steps are not known"]


def _one_event(flow: Flow, run: Row, events: list[Row]) -> None:
    """A route, a load or an eviction: one event."""
    event = f"on_{run['scope']}"
    rows = listening(events, event)
    lines = [spent(run)]
    if run["routing_reason"]:
        lines.insert(0, f"→ {run['routing_model'] or '?'}: {run['routing_reason']}")
    lines += hook_lines(rows) or ["no hook listens"]
    flow.arrow("call", "end")
    flow.add("end", event, lines, "failed" if raised(rows) else "done")
