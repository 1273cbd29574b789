"""The lifecycle of a router's batch: one bracket per checkpoint, all starts before all ends."""

from __future__ import annotations

from collections.abc import Sequence

from jevlaya_lab.views.calls import Bracket, Call, Row, short
from jevlaya_lab.views.flow import Flow
from jevlaya_lab.views.furniture import MARGIN, heading
from jevlaya_lab.views.hook_text import listening, raised, summed_lines
from jevlaya_lab.views.layout import WIDTH, Layout, Status, Table
from jevlaya_lab.views.routed import load_lines, route_lines
from jevlaya_lab.views.steps import STEPS, counted, outcome
from jevlaya_lab.views.text import milliseconds, number, shortened

__all__ = ["batch_layout"]

_REASONS = 5
_PASSES = 6


def batch_layout(call: Call) -> Layout:
    """Lay out the call of a router with several requests.

    Args:
        call: The call.

    Returns:
        Per checkpoint a frame, in the order in which they were worked on; in it the load, all
        start hooks, each agent's call with the number of requests that shared it, all end hooks.
    """
    requests = [run for bracket in call.brackets for run in bracket.runs]
    first = min(requests, key=lambda run: run["start_ms"])
    numbers = _numbers(call)
    failed = next((run for run in requests if run["error_type"] is not None), None)
    hits = sum(bool(run["skipped"]) for run in requests)
    title = f"Lifecycle of a batch: {counted(len(requests), 'request')}, "
    title += counted(len(call.brackets), "checkpoint")
    start = min(each["start_ms"] for each in [*call.routes, *requests])
    ends = [run["end_ms"] for run in requests if run["end_ms"] is not None]
    subtitle = f"call {short(call.call_id)}"
    if ends:
        subtitle += f" · {milliseconds(max(ends) - start)} from the first route to the last answer"
    if first["started_at"] is not None:
        subtitle += f" · started {first['started_at']:%Y-%m-%d %H:%M:%S} UTC"
    pieces, y = heading(title, subtitle)
    flow = Flow(MARGIN, y, WIDTH - 2 * MARGIN)
    flow.add("call", f"{first['entry'] or 'predict_batch'}(…)", [counted(len(requests), "request")])
    flow.add("route", "route each request, in input order; nothing is loaded yet", _routes(call))
    flow.arrow("call", "route")
    before = "route"
    said = []
    for i, bracket in enumerate(call.brackets):
        before = _bracket(flow, call, bracket, f"{i + 1}.", before, numbers)
        said.append(_said(bracket))
    flow.arrow(before, "return")
    ends_of = [
        row
        for run in requests
        for row in listening(call.events.get(run["run_id"], []), "on_predict_end")
    ]
    ended = outcome(failed["error_type"] if failed else None, ends_of)
    flow.add("return", *ended)
    alt = f"{title}. {'. '.join(said)}. {hits} answered by a hook."
    if failed:
        alt += f" Failed with {failed['error_type']}."
    return Layout(
        WIDTH,
        flow.y - 8,
        title,
        subtitle,
        alt,
        boxes=tuple(flow.boxes),
        arrows=tuple(flow.arrows),
        pieces=(*pieces, *flow.pieces),
        tables=(_table(requests, numbers, call),),
    )


def _bracket(
    flow: Flow, call: Call, bracket: Bracket, name: str, before: str, numbers: dict[str, int]
) -> str:
    """One checkpoint's requests; the id of the last box."""
    own = [call.events.get(run["run_id"], []) for run in bracket.runs]
    start = [listening(events, "on_predict_start") for events in own]
    error = [listening(events, "on_error") for events in own]
    end = [listening(events, "on_predict_end") for events in own]
    failed = next((run for run in bracket.runs if run["error_type"] is not None), None)
    ids = [f"#{numbers[run['run_id']]}" for run in bracket.runs]
    title = f"{name[:-1]}. checkpoint {bracket.model or '?'}: {counted(len(ids), 'request')}"
    with flow.frame(title, note="all of its start hooks run before any of its end hooks"):
        lines, broke = load_lines(bracket, call)
        flow.add(f"{name}load", "load", lines, "failed" if broke else "done")
        flow.arrow(before, f"{name}load", at=flow.aside)
        flow.x, flow.width = flow.x + 16, flow.width - 16
        top = flow.y
        flow.add(
            f"{name}start",
            f"on_predict_start of {shortened(ids, 8)}",
            summed_lines(start) or ["no hook listens"],
            "failed" if any(map(raised, start)) else "done",
        )
        flow.arrow(f"{name}load", f"{name}start")
        last = _work(flow, call, bracket, name)
        if failed is not None:
            what = ": ".join(
                each for each in (failed["error_type"], failed["error_message"]) if each
            )
            flow.add(
                f"{name}error",
                f"on_error of {shortened(ids[::-1], 8)}, last one first",
                [what, *summed_lines(error)],
                "failed" if any(map(raised, error)) else "done",
            )
            for each in last:
                flow.arrow(each, f"{name}error")
            last = [f"{name}error"]
        flow.add(
            f"{name}end",
            f"on_predict_end of {shortened(ids[::-1], 8)}, last one first",
            summed_lines(end) or ["no hook listens"],
            "failed" if any(map(raised, end)) else "done",
        )
        for each in last:
            flow.arrow(each, f"{name}end")
        flow.brace(flow.x - 14, top + 13, flow.y - 26 - 13, title)
        flow.x, flow.width = flow.x - 16, flow.width + 16
    return f"{name}end"


def _work(flow: Flow, call: Call, bracket: Bracket, name: str) -> list[str]:
    """What hooks answered and the agent's calls, one below the other; the ids of the boxes."""
    hits = len(bracket.runs) - len(bracket.asked)
    found = []
    boxes: list[tuple[str, str, list[str], Status]] = []
    if hits:
        boxes.append(
            (
                f"{name}skip",
                f"ctx.skip: {counted(hits, 'request')}",
                ["answered by start hooks, not computed"],
                "done",
            )
        )
    for i, run in enumerate(bracket.passes[:_PASSES]):
        boxes.append((f"{name}pass{i + 1}", *_pass(run)))
    rest = bracket.passes[_PASSES:]
    if rest:
        n = sum(run["n_states"] or 0 for run in rest)
        boxes.append(
            (
                f"{name}more",
                f"and {len(rest)} more calls of the agent",
                [f"for {counted(n, 'request')}"],
                "done",
            )
        )
    if not bracket.passes and bracket.asked:
        broke = bracket.runs[0]["error_type"] is not None
        boxes.append(
            (
                f"{name}agent",
                "the agent's call",
                ["no run of the agent was recorded"],
                "failed" if broke else "done",
            )
        )
    top = flow.y
    for box in boxes:
        flow.row([box], [flow.width - 40], flow.x + 20)
        flow.y -= 16
        found.append(box[0])
    if found:
        flow.y += 16
        flow.arrow(f"{name}start", found[0])
    assert flow.y >= top
    return found[-1:] or [f"{name}start"]


def _pass(run: Row) -> tuple[str, list[str], Status]:
    n = run["n_states"]
    title = f"agent {run['model'] or ''} {run['entry'] or 'call'}(…): "
    title += f"ONE call that {n} requests share" if n and n > 1 else "one request"
    if run["error_type"] is not None:
        where = f" in {run['failed_step']}" if run["failed_step"] else ""
        return title, [f"broke{where}: {run['error_type']}"], "failed"
    if run["skipped"]:
        return title, ["a hook of the agent answered, nothing was computed"], "done"
    if run["forward_ms"] is None:
        return title, ["its steps are not known"], "done"
    steps = " → ".join(
        f"{step} {milliseconds(run[f'{step}_ms'])}"
        for step in STEPS
        if run[f"{step}_ms"] is not None
    )
    counts = f"{counted(run['n_forwards'], 'forward pass', 'forward passes')} over "
    counts += f"{counted(run['n_rows'], 'row')}, {counted(run['padded_tokens'], 'pad token')}, "
    counts += f"{number(run['input_tokens'])} input tokens"
    return title, [steps, counts], "done"


def _routes(call: Call) -> list[str]:
    decided: dict[tuple[str, str], list[int]] = {}
    for i, route in enumerate(call.routes):
        key = (route["routing_model"] or "?", route["routing_reason"] or "no reason given")
        decided.setdefault(key, []).append(i + 1)
    ordered = list(decided.items())
    lines = []
    for (model, reason), places in ordered[:_REASONS]:
        which = shortened([f"#{i}" for i in places], 6)
        lines.append(f"{which} → {model}: {reason}")
    if len(ordered) > _REASONS:
        n = sum(len(places) for _, places in ordered[_REASONS:])
        lines.append(f"and {n} more requests with {len(ordered) - _REASONS} more reasons")
    return lines + route_lines(call.routes, call.events) or ["no route was recorded"]


def _numbers(call: Call) -> dict[str, int]:
    """The place of each request in the batch, where its route is known, else in order of start."""
    places = {route["run_id"]: i + 1 for i, route in enumerate(call.routes)}
    runs: Sequence[Row] = [run for bracket in call.brackets for run in bracket.runs]
    routes = [call.route(run) for run in runs]
    if all(route is not None for route in routes):
        return {
            run["run_id"]: places[route["run_id"]]
            for run, route in zip(runs, routes, strict=True)
            if route is not None
        }
    return {run["run_id"]: i + 1 for i, run in enumerate(runs)}


def _said(bracket: Bracket) -> str:
    loads = [f"{each['scope']} {each['model']}" for each in bracket.loads]
    calls = [
        f"one call of the agent for {counted(p['n_states'], 'request')}" for p in bracket.passes
    ]
    parts = [*loads, f"{counted(len(bracket.runs), 'request')} started", *calls]
    return f"Checkpoint {bracket.model or '?'}: {shortened(parts, 6)}, then all ended in reverse"


def _table(requests: Sequence[Row], numbers: dict[str, int], call: Call) -> Table:
    rows = []
    for run in sorted(requests, key=lambda each: numbers[each["run_id"]])[:60]:
        bracket = call.bracket(run)
        passes = bracket.passes_of(run) if bracket else []
        shared = number(passes[0]["n_states"]) if len(passes) == 1 else "–"
        way = "hook" if run["skipped"] else run["error_type"] or "agent"
        rows.append(
            (
                f"#{numbers[run['run_id']]}",
                short(run["run_id"]),
                run["model"] or "?",
                run["routing_reason"] or "–",
                way,
                shared,
                "–" if run["elapsed_ms"] is None else milliseconds(run["elapsed_ms"]),
            )
        )
    headers = ("request", "run", "checkpoint", "reason", "answered by", "shared by", "elapsed")
    title = "The requests as a table"
    if len(requests) > len(rows):
        title += f" (the first {len(rows)} of {len(requests)})"
    return Table(headers, tuple(rows), title)
