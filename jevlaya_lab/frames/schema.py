"""The columns of a trace's three frames, in order, with their dtypes. docs/traces.md explains them.

Text is always of pandas' ``string`` kind over Python objects: Arrow's own texts cannot hold a lone
surrogate, which a state or a hook's name may.
"""

from __future__ import annotations

from typing import Any, Final

import pandas as pd

from jevlaya_lab.tracing.capture import CAPTURED

__all__ = ["CALLS", "EVENTS", "FRAMES", "RUNS", "SCHEMA_VERSION"]

SCHEMA_VERSION: Final = 1
"""Of the columns and of the files; a change of either makes it another one."""

_TEXT: Final = pd.StringDtype("python")
_COUNT: Final = pd.Int64Dtype()
_FLAG: Final = pd.BooleanDtype()
_MS: Final = "float64"
_TIME: Final = pd.DatetimeTZDtype("us", "UTC")

RUNS: Final[dict[str, Any]] = {
    "run_id": _TEXT,
    "call_id": _TEXT,
    "parent_run_id": _TEXT,
    "entry": _TEXT,
    "scope": _TEXT,
    "model": _TEXT,
    "n_states": _COUNT,
    "n_questions": _COUNT,
    "started_at": _TIME,
    "start_ms": _MS,
    "end_ms": _MS,
    "elapsed_ms": _MS,
    "encode_ms": _MS,
    "collate_ms": _MS,
    "forward_ms": _MS,
    "decode_ms": _MS,
    "n_forwards": _COUNT,
    "n_rows": _COUNT,
    "input_tokens": _COUNT,
    "output_tokens": _COUNT,
    "forward_tokens": _COUNT,
    "padded_tokens": _COUNT,
    "max_len": _COUNT,
    "head_max_len": _COUNT,
    "routing_model": _TEXT,
    "routing_reason": _TEXT,
    "routing_stand_in": _FLAG,
    "skipped": _FLAG,
    "error_type": _TEXT,
    "error_message": _TEXT,
    "failed_step": _TEXT,
    "thread": _TEXT,
    "captured": pd.CategoricalDtype(list(CAPTURED)),
    "states": _TEXT,
    "questions": _TEXT,
    "results": _TEXT,
}

CALLS: Final[dict[str, Any]] = {
    "call_id": _TEXT,
    "entry": _TEXT,
    "started_at": _TIME,
    "elapsed_ms": _MS,
    "n_requests": _COUNT,
    "n_runs": _COUNT,
    "n_loads": _COUNT,
    "n_evictions": _COUNT,
    "n_skipped": _COUNT,
    "n_errors": _COUNT,
    "input_tokens": _COUNT,
}

EVENTS: Final[dict[str, Any]] = {
    "seq": _COUNT,
    "at_ms": _MS,
    "run_id": _TEXT,
    "call_id": _TEXT,
    "checkpoint": _TEXT,
    "event": pd.CategoricalDtype(
        ["on_route", "on_evict", "on_load", "on_predict_start", "on_error", "on_predict_end"],
        ordered=True,
    ),
    "hook": _TEXT,
    "position": _COUNT,
    "origin": pd.CategoricalDtype(["default", "installed", "call"], ordered=True),
    "duration_ms": _MS,
    "changed": _TEXT,
    "error_type": _TEXT,
}

FRAMES: Final[dict[str, dict[str, Any]]] = {"runs": RUNS, "calls": CALLS, "events": EVENTS}
