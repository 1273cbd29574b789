"""From a recorder's plain records to typed frames, column by column, and from runs to calls."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from jevlaya_lab.frames.schema import CALLS, EVENTS, RUNS
from jevlaya_lab.tracing.records import EventRecord, Record, RunRecord

__all__ = ["calls_frame", "events_frame", "outermost", "runs_frame"]

Objects = npt.NDArray[np.object_]
Floats = npt.NDArray[np.float64]


def runs_frame(records: Sequence[Record], clock: float) -> pd.DataFrame:
    """One row per run, in the order in which they started.

    Args:
        records: What a recorder kept.
        clock: The reading of ``time.perf_counter()`` that counts as millisecond 0.
    """
    found = _columns(map(_RUN_OF, records), RunRecord._fields)
    start = (_floats(found.pop("began")) - clock) * 1e3
    elapsed = _floats(found["elapsed_ms"])
    wall = _floats(found.pop("wall"))
    columns = {name: _column(values, RUNS[name]) for name, values in found.items()}
    columns["start_ms"] = start
    columns["end_ms"] = start + elapsed  # missing where the run's end is not known
    columns["started_at"] = pd.DatetimeIndex(
        np.round(wall * 1e6).astype("int64").view("M8[us]"), tz="UTC"
    )
    # What starts together is nested: the longer one is outside.
    order = np.lexsort((-np.nan_to_num(columns["end_ms"], nan=np.inf), start))
    return _ordered(columns, RUNS, order)


def events_frame(records: Sequence[Record], clock: float) -> pd.DataFrame:
    """One row per event and one per hook that ran for it, in the order in which they began."""
    events = list(map(_EVENTS_OF, records))
    runs = _columns(
        map(_RUN_OF, records), RunRecord._fields, {"began", "run_id", "call_id", "model"}
    )
    found = _columns(chain.from_iterable(events), EventRecord._fields)
    counts = np.fromiter(map(len, events), dtype=np.int64, count=len(events))
    began = _floats(runs["began"])
    columns = {
        name: _column(found[name], EVENTS[name])
        for name in ("event", "hook", "position", "origin", "duration_ms", "error_type")
    }
    columns["at_ms"] = _floats(found["at_ms"]) + np.repeat((began - clock) * 1e3, counts)
    joined = {changed: " ".join(changed) if changed else None for changed in set(found["changed"])}
    columns["changed"] = _column(list(map(joined.__getitem__, found["changed"])), EVENTS["changed"])
    for name, of_run in (("run_id", "run_id"), ("call_id", "call_id"), ("checkpoint", "model")):
        columns[name] = _column(runs[of_run], EVENTS[name]).repeat(counts)
    columns["seq"] = np.zeros(len(found["event"]), dtype=np.int64)
    order = np.argsort(columns["at_ms"], kind="stable")
    frame = _ordered(columns, EVENTS, order)
    frame["seq"] = pd.array(np.arange(len(frame)), dtype=EVENTS["seq"])
    return frame


def calls_frame(runs: pd.DataFrame) -> pd.DataFrame:
    """One row per outermost call, from the runs that share a ``call_id``.

    Requests and tokens are those of the outermost runs: of the router's where one took part, since
    the agent's runs inside answer the same requests.
    """
    known = runs[runs["call_id"].notna()]
    top = outermost(known)
    # A call that failed before its first run says itself not how many states it had.
    counting = top.loc[top["n_states"].notna(), "call_id"]
    routes = known[(known["scope"] == "route") & ~known["call_id"].isin(counting)]
    counted = pd.concat([top, routes])
    # A run of predict_long is about one state; what it counts are the windows.
    asked = counted["n_states"].mask(counted["entry"].eq("predict_long").fillna(False), 1)

    grouped = known.groupby("call_id", sort=False)
    calls = pd.DataFrame(
        {
            "entry": counted.groupby("call_id", sort=False)["entry"].first(),
            "n_requests": asked.groupby(counted["call_id"], sort=False).sum(min_count=1),
            "input_tokens": counted.groupby("call_id", sort=False)["input_tokens"].sum(min_count=1),
        },
        index=pd.Index(known["call_id"].unique(), dtype=CALLS["call_id"], name="call_id"),
    )
    calls["entry"] = calls["entry"].fillna(grouped["entry"].first())
    calls["started_at"] = grouped["started_at"].first()
    calls["elapsed_ms"] = grouped["end_ms"].max() - grouped["start_ms"].min()
    calls["n_runs"] = grouped.size()
    for name, hits in (
        ("n_loads", known["scope"] == "load"),
        ("n_evictions", known["scope"] == "evict"),
        ("n_skipped", known["skipped"].fillna(False)),
        ("n_errors", known["error_type"].notna()),
    ):
        calls[name] = hits.astype("int64").groupby(known["call_id"], sort=False).sum()
    calls = calls.reset_index()
    frame: pd.DataFrame = pd.DataFrame(
        {name: calls[name].astype(dtype) for name, dtype in CALLS.items()}, columns=list(CALLS)
    )
    return frame


def outermost(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs that somebody asked for: not what was asked inside of another run, nor by a router.

    A run whose call is not known counts as asked for.
    """
    asking = runs[runs["scope"].isin(["agent", "router"])]
    top = asking[~asking["parent_run_id"].isin(asking["run_id"])]
    routed = top.loc[top["scope"] == "router", "call_id"].dropna()
    found: pd.DataFrame = top[(top["scope"] == "router") | ~top["call_id"].isin(routed)]
    return found


_RUN_OF, _EVENTS_OF = map(itemgetter, range(2))


def _columns(
    rows: Iterable[Sequence[Any]], names: Sequence[str], wanted: Collection[str] | None = None
) -> dict[str, list[Any]]:
    listed = list(rows)  # zip(*rows) takes three times as long for a million rows
    return {
        name: list(map(itemgetter(i), listed))
        for i, name in enumerate(names)
        if wanted is None or name in wanted
    }


def _ordered(
    columns: Mapping[str, Any], dtypes: Mapping[str, Any], order: npt.NDArray[np.intp]
) -> pd.DataFrame:
    in_order = bool((np.diff(order) == 1).all())
    frame: pd.DataFrame = pd.DataFrame(
        {name: columns[name] if in_order else columns[name][order] for name in dtypes}, copy=False
    )
    return frame


def _column(values: list[Any], dtype: Any) -> Any:
    """Plain values, with ``None`` for missing, as an array of a trace's dtype."""
    if len(values) > 1 and values.count(values[0]) == len(values):
        return _column(values[:1], dtype).repeat(len(values))
    if isinstance(dtype, pd.CategoricalDtype):
        place: dict[Any, int] = {label: i for i, label in enumerate(dtype.categories)}
        place[None] = -1
        codes = np.fromiter(map(place.__getitem__, values), dtype=np.int8, count=len(values))
        return pd.Categorical.from_codes(codes, dtype=dtype)
    if dtype == "float64":
        return _floats(values)
    if isinstance(dtype, pd.StringDtype):
        return pd.array(values, dtype=dtype)
    objects = _objects(values)
    missing = np.array([value is None for value in values], dtype=bool)
    filler: Any = 0 if isinstance(dtype, pd.Int64Dtype) else False
    objects[missing] = filler
    if isinstance(dtype, pd.Int64Dtype):
        return pd.arrays.IntegerArray(objects.astype(np.int64), missing)
    return pd.arrays.BooleanArray(objects.astype(bool), missing)


def _objects(values: list[Any]) -> Objects:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _floats(values: Sequence[Any]) -> Floats:
    return np.array(values, dtype=np.float64)  # None becomes NaN
