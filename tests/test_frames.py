"""Frames: fixed columns and dtypes, and files that are there as a whole or not at all."""

from __future__ import annotations

import os

import pandas as pd
import pytest

from jevlaya_lab import Agent, Lab, Noul
from jevlaya_lab.frames import Trace, write_csv
from jevlaya_lab.system_one.models.instant import InstantNetwork


def recorded() -> Trace:
    lab = Lab(Agent("instant", network=InstantNetwork()))
    lab.predict(["a", "b c"], {"q": Noul("Is it?")}, on_predict_start=lambda ctx: None)
    return lab.trace


def test_a_trace_has_the_same_columns_and_types_when_empty():
    empty, full = Trace.from_records([], []), recorded()
    for name in ("runs", "events"):
        pd.testing.assert_series_equal(getattr(empty, name).dtypes, getattr(full, name).dtypes)
    runs = full.runs.dtypes.astype(str)
    assert runs["run_id"].startswith("string")
    assert (runs["n_states"], runs["forward_ms"], runs["skipped"]) == (
        "Int64",
        "float64",
        "boolean",
    )
    assert str(full.runs["started_at"].dt.tz) == "UTC"


def test_what_does_not_exist_is_missing_and_not_made_up():
    runs = recorded().runs
    assert runs["parent_run_id"].isna().all()
    assert runs["routing_model"].isna().all()
    assert runs["error_type"].isna().all()


def test_runs_and_events_are_written_side_by_side(tmp_path):
    trace = recorded()
    path = trace.to_csv(tmp_path / "new" / "trace.csv")
    runs = pd.read_csv(path, dtype={"run_id": str})
    events = pd.read_csv(tmp_path / "new" / "trace.events.csv")
    assert runs["run_id"].tolist() == trace.runs["run_id"].tolist()
    assert runs["input_tokens"].tolist() == trace.runs["input_tokens"].tolist()
    assert events["hook"].tolist() == trace.events["hook"].tolist()


def test_a_failure_while_writing_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    write_csv(pd.DataFrame({"a": [1]}), path)

    def broken(self, file, **_):
        file.write("a\nhalf")
        raise OSError("disk full")

    monkeypatch.setattr(pd.DataFrame, "to_csv", broken)
    with pytest.raises(OSError, match="disk full"):
        write_csv(pd.DataFrame({"a": [2]}), path)
    assert path.read_text() == "a\n1\n"
    assert os.listdir(tmp_path) == ["t.csv"]
