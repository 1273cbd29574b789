"""A trace as a timeline in Chrome's Trace Event Format, which Perfetto opens.

The format: "Trace Event Format", the Chromium project. Complete events (``ph: X``) with ``ts`` and
``dur`` in microseconds; on one track they may nest but not overlap in part, so a span that would do
so goes to a further track of the same thread.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from jevlaya_lab.system_one.files import whole_file

__all__ = ["chrome_trace", "write_chrome"]

Row = Mapping[str, Any]

_ENCODE: Final = json.JSONEncoder(allow_nan=False).encode
_PID: Final = 1
_UNKNOWN: Final = "unknown thread"
_FACTS: Final = (
    "run_id", "call_id", "parent_run_id", "entry", "model", "n_states", "n_questions", "encode_ms",
    "collate_ms", "forward_ms", "decode_ms", "n_forwards", "n_rows", "input_tokens",
    "output_tokens", "padded_tokens", "routing_model", "routing_reason", "routing_stand_in",
    "skipped", "error_type", "error_message",
)  # fmt: skip


class _Span(NamedTuple):
    """``start`` and ``end`` in nanoseconds; no end is known of an instant."""

    start: int
    end: int | None
    name: str
    category: str
    facts: dict[str, Any]


def write_chrome(runs: Iterable[Row], events: Iterable[Row], path: str | os.PathLike[str]) -> None:
    """Write the timeline as JSON; the file is there as a whole, or as it was before."""
    trace = chrome_trace(runs, events)
    with whole_file(path) as file:
        file.write(
            f'{{"displayTimeUnit": {json.dumps(trace["displayTimeUnit"])}, "traceEvents": [\n'
        )
        # One event a line; in one piece, json.dump would take six times as long.
        file.write(",\n".join(map(_ENCODE, trace["traceEvents"])))
        file.write("\n]}\n")


def chrome_trace(runs: Iterable[Row], events: Iterable[Row]) -> dict[str, Any]:
    """The timeline as the JSON object that the format describes.

    Args:
        runs: Rows of ``trace.runs`` with ``None`` for missing.
        events: Rows of ``trace.events`` likewise.

    Returns:
        ``traceEvents`` with a span per run, per hook and per event, on one track per thread.
    """
    threads: dict[str, list[_Span]] = {}
    of_run: dict[Any, list[_Span]] = {}
    for run in runs:
        spans = threads.setdefault(run["thread"] or _UNKNOWN, [])
        of_run[run["run_id"]] = spans
        name = " ".join(str(part) for part in (run["scope"] or "run", run["model"]) if part)
        facts = {key: run[key] for key in _FACTS if run.get(key) is not None}
        spans.append(_span(run["start_ms"], run["elapsed_ms"], name, run["scope"] or "run", facts))
    for event in events:
        known = of_run.get(event["run_id"])
        spans = threads.setdefault(_UNKNOWN, []) if known is None else known
        hook = event["hook"]
        if hook is None:
            name, category = str(event["event"]), "event"
        else:
            name, category = f"{hook} · {event['event']}", "hook"
        keys = ("run_id", "position", "origin", "changed", "error_type")
        facts = {key: event[key] for key in keys if event[key] is not None}
        spans.append(_span(event["at_ms"], event["duration_ms"], name, category, facts))
    found: list[dict[str, Any]] = [_meta("process_name", 0, name="jevlaya_lab")]
    tid = 0
    for thread, spans in threads.items():
        for i, lane in enumerate(_lanes(spans)):
            tid += 1
            found.append(
                _meta("thread_name", tid, name=thread if i == 0 else f"{thread} ({i + 1})")
            )
            found.append(_meta("thread_sort_index", tid, sort_index=tid))
            found += [_event(span, tid) for span in lane]
    return {"traceEvents": found, "displayTimeUnit": "ms"}


def _span(
    start_ms: float, elapsed_ms: float | None, name: str, category: str, facts: dict[str, Any]
) -> _Span:
    start = round(start_ms * 1e6)
    end = None if elapsed_ms is None else round((start_ms + elapsed_ms) * 1e6)
    return _Span(start, end, name, category, facts)


def _lanes(spans: Iterable[_Span]) -> list[list[_Span]]:
    """Spread spans over tracks on which each pair is nested or apart."""
    lanes: list[tuple[list[_Span], list[int]]] = []
    for span in sorted(spans, key=_outer_first):
        end = span.start if span.end is None else span.end
        for _, ends in lanes:
            while ends and ends[-1] <= span.start:
                ends.pop()
        fitting = (each for each in lanes if not each[1] or end <= each[1][-1])
        found = next(fitting, None)
        if found is None:
            found = ([], [])
            lanes.append(found)
        lane, ends = found
        lane.append(span)
        if end > span.start:
            ends.append(end)
    return [lane for lane, _ in lanes]


_DEPTH: Final = {"event": 1, "hook": 2}


def _outer_first(span: _Span) -> tuple[int, int, int]:
    end = span.start if span.end is None else span.end
    return span.start, -end, _DEPTH.get(span.category, 0)


def _event(span: _Span, tid: int) -> dict[str, Any]:
    event: dict[str, Any] = {
        "name": span.name,
        "cat": span.category,
        "ph": "i" if span.end is None else "X",
        "ts": span.start / 1e3,
        "pid": _PID,
        "tid": tid,
        "args": span.facts,
    }
    if span.end is None:
        event["s"] = "t"
    else:
        event["dur"] = (span.end - span.start) / 1e3
    return event


def _meta(kind: str, tid: int, **facts: Any) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "ts": 0, "pid": _PID, "tid": tid, "args": facts}
