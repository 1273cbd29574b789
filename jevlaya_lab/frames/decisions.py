"""Routing decisions as a typed DataFrame."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pandas as pd

__all__ = ["decisions_frame"]

_DTYPES: Final[dict[str, Any]] = {
    "model": "string",
    "reason": "string",
    "language": "string",
    "second_language": "string",
    "script": "string",
    "confidence": "float64",
    "repo": "string",
    "workflow": "string",
    "stand_in": "boolean",
}


_EXPLAINED: Final[dict[str, Any]] = {
    "scripts": "string",
    "n_letters": "Int64",
    "detector": "string",
}


def decisions_frame(
    decisions: Sequence[Any], index: pd.Index, prefix: str = "", *, explain: bool = False
) -> pd.DataFrame:
    """One row per decision; what a decision does not say is missing.

    Args:
        decisions: Decisions as dicts, ours or ``laya``'s; anything else gives an empty row.
        index: The index of the data that was routed.
        prefix: Put in front of the columns' names.
        explain: Add ``scripts`` (shares as JSON), ``n_letters`` and ``detector``, its sentence.

    Returns:
        ``model``, ``reason``, ``language`` and ``second_language`` (codes that the detector saw),
        ``script``, ``confidence`` (of the language, 0 to 1), ``repo``, ``workflow``, ``stand_in``.
    """
    rows = [_row(decision) for decision in decisions]
    dtypes = _DTYPES | _EXPLAINED if explain else _DTYPES
    columns = {
        prefix + name: pd.Series([row.get(name) for row in rows], index=index, dtype=dtype)
        for name, dtype in dtypes.items()
    }
    frame: pd.DataFrame = pd.DataFrame(columns, index=index)
    return frame


def _row(decision: Any) -> dict[str, Any]:
    if not isinstance(decision, Mapping):
        return {}
    detection = decision.get("detection")
    seen = detection if isinstance(detection, Mapping) else {}
    row = {
        "model": decision.get("model"),
        "reason": decision.get("reason"),
        "language": seen.get("language"),
        "second_language": seen.get("second"),
        "script": seen.get("script"),
        "repo": decision.get("repo"),
        "workflow": decision.get("workflow"),
    }
    found: dict[str, Any] = {k: v if isinstance(v, str) else None for k, v in row.items()}
    stand_in, confidence = decision.get("stand_in"), seen.get("confidence")
    found["stand_in"] = stand_in if isinstance(stand_in, bool) else None
    found["confidence"] = confidence if isinstance(confidence, (int, float)) else None
    scripts, n_letters = seen.get("scripts"), seen.get("n_letters")
    found["scripts"] = json.dumps(scripts) if isinstance(scripts, Mapping) else None
    found["n_letters"] = n_letters if isinstance(n_letters, int) else None
    found["detector"] = seen.get("reason") if isinstance(seen.get("reason"), str) else None
    return found
