"""Traces summed up: how many runs, how long they took, and where the time and the tokens went."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd

from jevlaya_lab.frames.schema import RUNS

__all__ = ["compare", "summary"]

_KEYS: Final = ("scope", "model", "entry")
_STEPS: Final = ("encode_ms", "collate_ms", "forward_ms", "decode_ms")
_SUMS: Final = ("input_tokens", "output_tokens", "forward_tokens", "padded_tokens")
_COUNTS: Final = ("n_runs", "n_states", *_SUMS)


def summary(runs: pd.DataFrame) -> pd.DataFrame:
    """One row per scope, checkpoint and entry of the runs.

    Args:
        runs: ``trace.runs``.

    Returns:
        The columns ``scope``, ``model``, ``entry``; ``n_runs``, ``n_states`` (sum);
        ``p50_ms``, ``p95_ms``, ``p99_ms`` of ``elapsed_ms`` (interpolated), ``total_ms`` (its sum);
        ``encode_ms`` to ``decode_ms`` and ``other_ms``, which add up to the total of the runs whose
        steps are known; token sums; ``padding_share`` of all tokens that went through the network;
        ``skip_rate`` and ``error_rate``, shares of the runs.
    """
    grouped = runs.groupby(list(_KEYS), dropna=False, sort=True)
    elapsed = grouped["elapsed_ms"]
    found = pd.DataFrame({"n_runs": grouped.size(), "n_states": grouped["n_states"].sum()})
    for share in (50, 95, 99):
        found[f"p{share}_ms"] = elapsed.quantile(share / 100)
    found["total_ms"] = elapsed.sum(min_count=1)
    for step in _STEPS:
        found[step] = grouped[step].sum(min_count=1)
    known = runs["elapsed_ms"].where(runs["forward_ms"].notna())
    of_known = known.groupby([runs[key] for key in _KEYS], dropna=False).sum(min_count=1)
    found["other_ms"] = (of_known - found[list(_STEPS)].sum(axis=1)).clip(lower=0.0)
    for name in _SUMS:
        found[name] = grouped[name].sum(min_count=1)
    padded = found["padded_tokens"].astype("float64")
    found["padding_share"] = padded / (padded + found["forward_tokens"].astype("float64"))
    for name, hits in (("skip_rate", runs["skipped"]), ("error_rate", runs["error_type"].notna())):
        shares = hits.astype("Float64").groupby([runs[key] for key in _KEYS], dropna=False).mean()
        found[name] = shares.astype("float64")
    found = found.reset_index()
    dtypes: dict[str, Any] = {
        name: RUNS[name] if name in _KEYS else RUNS["n_states"] if name in _COUNTS else "float64"
        for name in found.columns
    }
    typed: pd.DataFrame = found.astype(dtypes)
    return typed


def compare(runs: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """Two summaries side by side, one row per scope, checkpoint, entry and figure.

    Args:
        runs: ``trace.runs`` of the first trace.
        other: Those of the second.

    Returns:
        The columns ``scope``, ``model``, ``entry``, ``figure`` (a column of :func:`summary`),
        ``first``, ``second``, ``change`` (second minus first) and ``ratio`` (second over first).
        What only one of them has is missing in the other.
    """
    keys = list(_KEYS)
    first, second = summary(runs), summary(other)
    figures = [name for name in first.columns if name not in keys]
    long = []
    for frame, name in ((first, "first"), (second, "second")):
        frame[figures] = frame[figures].astype("float64")
        long.append(frame.melt(keys, figures, var_name="figure", value_name=name))
    joined = long[0].merge(long[1], on=[*keys, "figure"], how="outer")
    joined["figure"] = pd.Categorical(joined["figure"], categories=figures, ordered=True)
    joined = joined.sort_values([*keys, "figure"], ignore_index=True)
    joined["change"] = joined["second"] - joined["first"]
    joined["ratio"] = joined["second"] / joined["first"].where(joined["first"] != 0)
    typed: pd.DataFrame = joined.astype({key: RUNS[key] for key in keys})
    return typed
