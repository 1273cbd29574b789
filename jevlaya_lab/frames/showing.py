"""What a trace and a frame of answers show of themselves in a notebook."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from jevlaya_lab.markup import Markup, card, note, table

if TYPE_CHECKING:
    from jevlaya_lab.frames.trace import Trace

__all__ = ["answers_table", "runs_table", "trace_html"]

_LAST: Final = 8


def trace_html(trace: Trace) -> Markup:
    """How much there is, and the last runs."""
    runs = trace.runs
    n_calls = runs["call_id"].nunique()
    counts = f"{n_calls} calls, {len(runs)} runs, {len(trace.events)} events"
    if trace.n_dropped:
        counts += f", {trace.n_dropped} runs dropped"
    return card("Trace", counts, runs_table(runs))


def runs_table(runs: pd.DataFrame) -> Markup:
    """The last runs, one a row."""
    if runs.empty:
        return note("nothing was recorded")
    last = runs.tail(_LAST)
    with_states = bool((last["captured"] == "text").any())
    rows = []
    for run in last.to_dict("records"):
        error = _plain(run["error_type"])
        message = _plain(run["error_message"])
        row = [
            _plain(run["scope"]),
            _plain(run["entry"]),
            _plain(run["model"]),
            _plain(run["n_states"]),
            _ms(run["elapsed_ms"]),
            _ms(run["forward_ms"]),
            f"{error}: {message}"
            if error and message
            else error or ("skipped" if _plain(run["skipped"]) else _plain(run["routing_reason"])),
        ]
        rows.append([*row, _states(run["states"])] if with_states else row)
    heads = ["scope", "entry", "checkpoint", "states", "ms", "network ms", "remark"]
    found = table([*heads, "what was asked about"] if with_states else heads, rows)
    if len(runs) > len(last):
        found = Markup(found + note(f"the last {len(last)} of {len(runs)} runs"))
    return found


def answers_table(answers: pd.DataFrame, n_rows: int = 5) -> Markup:
    """The first rows of a frame with their index."""
    shown = answers.head(n_rows)
    heads = ["", *(str(name) for name in shown.columns)]
    columns = [shown.iloc[:, i].tolist() for i in range(shown.shape[1])]
    cells = zip(*columns, strict=True) if columns else [()] * len(shown)
    rows = [[str(label), *map(_plain, row)] for label, row in zip(shown.index, cells, strict=True)]
    found = table(heads, rows)
    if len(answers) > len(shown):
        found = Markup(found + note(f"the first {len(shown)} of {len(answers)} rows"))
    return found


def _plain(value: Any) -> Any:
    return None if pd.api.types.is_scalar(value) and pd.isna(value) else value


def _states(value: Any) -> str | None:
    """Captured states, which are a JSON list, as people read them."""
    if pd.isna(value):
        return None
    try:
        states = json.loads(value)
    except ValueError:
        return str(value)
    listed = states if isinstance(states, list) else [states]
    return " · ".join(each if isinstance(each, str) else repr(each) for each in listed)


def _ms(value: Any) -> str | None:
    return None if pd.isna(value) else f"{value:.1f}"
