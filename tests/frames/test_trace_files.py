"""Traces as files: exact both ways, whole or not at all, and clear about what is wrong."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jevlaya_lab import Agent, BaseHook, Lab, Noul, TraceRecorder
from jevlaya_lab.frames import Trace, read_csv, read_trace_csv, read_trace_parquet, write_csv
from jevlaya_lab.frames.schema import FRAMES
from jevlaya_lab.system_one.errors import FileInvalid, FileMissing, InvalidOption, MissingExtra
from jevlaya_lab.system_one.models.instant import InstantNetwork

FILES = ["trace.calls.csv", "trace.csv", "trace.events.csv", "trace.schema.json"]


def recorded() -> Trace:
    recorder = TraceRecorder(capacity=2, capture="text")
    agent = Agent("=instant", network=InstantNetwork(), hooks=[BaseHook(), recorder])
    for text in ("a", "NA", "=1+1\r\n\x00"):
        agent.predict(text, {"q": Noul("Is it?")}, on_predict_start=lambda ctx: None)
    return replace(recorder.trace, seed=7)


def same(back: Trace, trace: Trace) -> None:
    for name in FRAMES:
        pd.testing.assert_frame_equal(
            getattr(back, name), getattr(trace, name), check_exact=True, obj=name
        )
    assert (back.n_dropped, back.seed) == (trace.n_dropped, trace.seed)


texts = st.sampled_from(
    ["NA", "", "1e5", "=1", "\ud800", "\x00", "\r", "'", "<NA>", "שלום"]
) | st.text(st.characters(codec=None, exclude_categories=()))


def values_of(dtype):
    if isinstance(dtype, pd.StringDtype):
        return texts | st.none()
    if isinstance(dtype, pd.CategoricalDtype):
        return st.sampled_from(list(dtype.categories)) | st.none()
    if isinstance(dtype, pd.Int64Dtype):
        return st.integers(-(2**63), 2**63 - 1) | st.none()
    if isinstance(dtype, pd.BooleanDtype):
        return st.booleans() | st.none()
    if dtype == "float64":
        return st.floats()
    return st.datetimes(pd.Timestamp(1, 1, 1), pd.Timestamp(9999, 12, 31)) | st.none()


@st.composite
def traces(draw) -> Trace:
    frames = {}
    for name, dtypes in FRAMES.items():
        n = draw(st.integers(0, 3))
        frames[name] = pd.DataFrame(
            {
                column: pd.Series(
                    draw(st.lists(values_of(dtype), min_size=n, max_size=n)),
                    dtype="datetime64[us]" if isinstance(dtype, pd.DatetimeTZDtype) else dtype,
                )
                for column, dtype in dtypes.items()
            }
        )
        for column, dtype in dtypes.items():
            if isinstance(dtype, pd.DatetimeTZDtype):
                frames[name][column] = frames[name][column].dt.tz_localize("UTC")
    return Trace(
        frames["runs"],
        frames["events"],
        n_dropped=draw(st.integers(0, 9)),
        seed=draw(st.none() | st.integers()),
        _calls=frames["calls"],
    )


@settings(max_examples=60)
@given(traces())
def test_every_trace_comes_back_from_csv_as_it_was(tmp_path_factory, trace):
    path = trace.to_csv(tmp_path_factory.mktemp("csv") / "t.csv")
    same(read_trace_csv(path), trace)


@settings(max_examples=60)
@given(traces())
def test_every_trace_comes_back_from_parquet_as_it_was(tmp_path_factory, trace):
    path = trace.to_parquet(tmp_path_factory.mktemp("parquet") / "t.parquet")
    same(read_trace_parquet(path), trace)


def test_the_four_files_stand_side_by_side(tmp_path):
    trace = recorded()
    path = trace.to_csv(tmp_path / "new" / "trace.csv")
    assert path == tmp_path / "new" / "trace.csv"
    assert sorted(os.listdir(path.parent)) == FILES
    same(read_trace_csv(path), trace)
    same(read_trace_csv(str(path)), trace)
    schema = json.loads((path.parent / "trace.schema.json").read_text())
    assert (schema["format"], schema["schema_version"]) == ("jevlaya_lab trace", 1)
    assert (schema["seed"], schema["n_dropped"]) == (7, 1)
    dtypes = {column["name"]: column for column in schema["frames"]["runs"]["columns"]}
    assert dtypes["n_states"]["dtype"] == "Int64"
    assert (
        pd.read_csv(path, dtype={"run_id": str})["run_id"].tolist() == trace.runs["run_id"].tolist()
    )


def test_an_empty_trace_comes_back_with_its_columns(tmp_path):
    same(read_trace_csv(Trace.from_records().to_csv(tmp_path / "t.csv")), Trace.from_records())
    path = Trace.from_records().to_parquet(tmp_path / "t.parquet")
    same(read_trace_parquet(path), Trace.from_records())


def test_a_frame_of_a_trace_can_be_written_alone(tmp_path):
    events = recorded().events
    pd.testing.assert_frame_equal(read_csv(write_csv(events, tmp_path / "e.csv")), events)


def test_what_a_trace_of_the_lab_does_not_know_stays_missing(tmp_path):
    lab = Lab(Agent("instant", network=InstantNetwork()))
    lab.predict(["a"], {"q": Noul("Is it?")})
    back = read_trace_csv(lab.trace.to_csv(tmp_path / "t.csv"))
    assert back.runs["routing_model"].isna().all()
    assert np.isnan(back.events["duration_ms"]).sum() == 0


# --- files that are not as they should be -------------------------------------------------------


@pytest.fixture
def path(tmp_path):
    return recorded().to_csv(tmp_path / "trace.csv")


@pytest.mark.parametrize("name", FILES)
def test_each_missing_file_is_named(path, name):
    (path.parent / name).unlink()
    with pytest.raises(FileMissing, match=name.replace(".", r"\.")):
        read_trace_csv(path)


@pytest.mark.parametrize("name", FILES[:3])
def test_each_truncated_file_is_named(path, name):
    file = path.parent / name
    file.write_bytes(file.read_bytes()[:-2])
    with pytest.raises(FileInvalid, match=rf"{name}' is cut short"):
        read_trace_csv(path)


def test_files_of_two_traces_are_not_mixed(path, tmp_path):
    other = recorded().to_csv(tmp_path / "other.csv")
    (path.parent / "trace.events.csv").write_bytes((tmp_path / "other.events.csv").read_bytes())
    assert other.is_file()
    with pytest.raises(FileInvalid, match=r"trace\.events\.csv' .*belongs to another"):
        read_trace_csv(path)


def test_the_wrong_file_is_said_to_be_wrong(path, tmp_path):
    for part in ("events", "calls"):
        with pytest.raises(FileMissing, match=r"is a part of the trace '.*trace\.csv'; read that"):
            read_trace_csv(path.parent / f"trace.{part}.csv")
        with pytest.raises(FileMissing, match="is a part of the trace"):
            read_csv(path.parent / f"trace.{part}.csv")
    with pytest.raises(FileInvalid, match="read it with read_trace_csv"):
        read_csv(path)
    answers = write_csv(pd.DataFrame({"a": [1]}), tmp_path / "answers.csv")
    with pytest.raises(FileInvalid, match="read it with read_csv"):
        read_trace_csv(answers)
    with pytest.raises(FileMissing, match=r"there is no file .*nowhere\.csv"):
        read_trace_csv(tmp_path / "nowhere.csv")


def test_a_schema_of_another_version_is_refused(path):
    file = path.parent / "trace.schema.json"
    file.write_text(file.read_text().replace('"schema_version": 1', '"schema_version": 2'))
    with pytest.raises(
        FileInvalid, match="schema version 2, and this version of jevlaya_lab reads 1"
    ):
        read_trace_csv(path)


def test_a_schema_that_lacks_columns_is_refused(path, tmp_path):
    broken = recorded()
    broken = replace(broken, runs=broken.runs.drop(columns="model"))
    with pytest.raises(FileInvalid, match="has not the columns of a trace's runs"):
        read_trace_csv(broken.to_csv(tmp_path / "b.csv"))


def test_a_failure_leaves_all_four_files_as_they_were(path, monkeypatch):
    before = {name: (path.parent / name).read_bytes() for name in FILES}
    replacing, calls = os.replace, []

    def fail_at_the_third(source, target):
        calls.append(target)
        if len(calls) == 3:
            raise OSError("disk gone")
        replacing(source, target)

    monkeypatch.setattr(os, "replace", fail_at_the_third)
    with pytest.raises(OSError, match="disk gone"):
        recorded().to_csv(path)
    assert sorted(os.listdir(path.parent)) == FILES
    assert {name: (path.parent / name).read_bytes() for name in FILES} == before


def test_a_folder_is_no_file(tmp_path):
    for write in (Trace.to_csv, Trace.to_parquet, Trace.to_chrome):
        with pytest.raises(InvalidOption, match="is a folder; give the name of a file in it"):
            write(recorded(), tmp_path)


# --- Parquet ------------------------------------------------------------------------------------


def test_parquet_says_what_is_wrong(tmp_path):
    path = recorded().to_parquet(tmp_path / "t.parquet")
    assert sorted(os.listdir(tmp_path)) == ["t.calls.parquet", "t.events.parquet", "t.parquet"]
    events = tmp_path / "t.events.parquet"
    data = events.read_bytes()
    events.write_bytes(data[:-20])
    with pytest.raises(FileInvalid, match=r"t\.events\.parquet' is no whole Parquet file"):
        read_trace_parquet(path)
    events.write_bytes(path.read_bytes())
    with pytest.raises(FileInvalid, match=r"t\.events\.parquet' holds runs, not events"):
        read_trace_parquet(path)
    events.unlink()
    with pytest.raises(FileMissing, match=r"no file '.*t\.events\.parquet'"):
        read_trace_parquet(path)
    pd.DataFrame({"a": [1]}).to_parquet(path)
    with pytest.raises(FileInvalid, match="is no file of a trace"):
        read_trace_parquet(path)


def test_other_readers_see_plain_parquet(tmp_path):
    trace = recorded()
    plain = pd.read_parquet(trace.to_parquet(tmp_path / "t.parquet"))
    assert plain["model"].tolist() == ["=instant"] * 2
    assert plain["n_states"].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("module", "use", "extra"),
    [
        ("pyarrow", lambda path: recorded().to_parquet(path), "parquet"),
        ("pyarrow", read_trace_parquet, "parquet"),
        ("opentelemetry.trace", lambda path: recorded().to_otel(), "otel"),
    ],
)
def test_a_missing_package_is_answered_with_the_line_that_installs_it(
    tmp_path, monkeypatch, module, use, extra
):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=rf'pip install "jevlaya_lab\[{extra}\]"'):
        use(tmp_path / "t.parquet")
