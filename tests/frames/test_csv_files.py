"""CSV and back: the same index, columns, dtypes and values, whatever is in them."""

from __future__ import annotations

import csv
import json
import math
import os
import tempfile
from datetime import timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import dateutil.tz
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from jevlaya_lab import Agent, Choice, Lab, Noul, Score
from jevlaya_lab.frames import read_csv, write_csv
from jevlaya_lab.frames.cells import MISSING, read_text, write_text
from jevlaya_lab.system_one import files
from jevlaya_lab.system_one.errors import FileError, FileInvalid, FileMissing, InvalidOption
from jevlaya_lab.system_one.models.instant import InstantNetwork

HOSTILE = [
    "NA", "None", "", "nan", "null", "<NA>", "'<NA>", "'", "''", '"', '"a"', "'\"a\"", "1e5",
    "00012", "1234567890123456789012345678901234567890", "True", "-1", "a,b", "a\nb", "a\rb", "\r",
    "a\r\nb", "\n", " ", "\t", "\ud800", "x\udfff\ud800y", "\x00", "a\x00b", "🙂", "👨\u200d👩",
    "שלום", "\u202eabc", "=1+1", "+1", "@SUM(A1)", "-2+3", "\t=1", "'=1", "\ufeffbom", "\x85\u2028",
    "{}", "[1]", "\\", "\x1a",
]  # fmt: skip

texts = st.sampled_from(HOSTILE) | st.text(st.characters(codec=None, exclude_categories=()))
missing_texts = texts | st.none()
int64s = st.integers(-(2**63), 2**63 - 1)
stamps = st.integers(-(2**62), 2**62)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(texts | st.integers(), inner, max_size=3)
        | st.tuples(inner, inner)
    ),
    max_leaves=6,
)


def roundtrip(frame: pd.DataFrame, **options) -> pd.DataFrame:
    with tempfile.TemporaryDirectory() as folder:
        return read_csv(write_csv(frame, Path(folder, "f.csv"), **options))


def check(frame: pd.DataFrame, **options) -> None:
    back = roundtrip(frame, **options)
    pd.testing.assert_frame_equal(back, frame, check_exact=True, check_freq=True)
    assert [type(label) for label in back.columns] == [type(label) for label in frame.columns]


def column(draw, kind: str, n: int):
    def values(strategy):
        return draw(st.lists(strategy, min_size=n, max_size=n))

    if kind == "text":
        return pd.array(values(missing_texts), dtype=pd.StringDtype("python"))
    if kind == "str":
        valid = st.text(st.characters(exclude_categories=["Cs"]))
        return pd.array(values(valid | st.none()), dtype="str")
    if kind == "Int64":
        return pd.array(values(int64s | st.none()), dtype="Int64")
    if kind == "uint64":
        return np.array(values(st.integers(0, 2**64 - 1)), dtype="uint64")
    if kind == "float64":
        return np.array(values(st.floats()), dtype="float64")
    if kind == "float32":
        return np.array(values(st.floats(width=32)), dtype="float32")
    if kind == "Float64":
        return pd.array(values(st.floats(allow_nan=False) | st.none()), dtype="Float64")
    if kind == "boolean":
        return pd.array(values(st.booleans() | st.none()), dtype="boolean")
    if kind == "bool":
        return np.array(values(st.booleans()), dtype=bool)
    if kind == "category":
        labels = draw(st.lists(texts, unique=True, min_size=1, max_size=4))
        codes = values(st.integers(-1, len(labels) - 1))
        categories = pd.Index(labels, dtype=object)
        ordered = draw(st.booleans())
        return pd.Categorical.from_codes(codes, categories=categories, ordered=ordered)
    if kind == "mixed category":
        labels = [1, "1", 2.5, "2.5", False, "False", ("a", 1), 10**30]
        codes = values(st.integers(-1, len(labels) - 1))
        index = pd.Index(labels, dtype=object, tupleize_cols=False)
        return pd.Categorical.from_codes(codes, categories=index)
    if kind == "object":
        array = np.empty(n, dtype=object)
        for i, value in enumerate(values(plain)):
            array[i] = value
        return array
    if kind == "span":
        return pd.TimedeltaIndex(np.array(values(stamps), dtype="m8[us]")).array
    unit, zone = kind.split(" ")
    low, high = (-(2**62), 2**62) if unit == "ns" else (-(2**53), 2**53)
    found = np.array(values(st.integers(low, high) | st.just(np.iinfo("int64").min)))
    index = pd.DatetimeIndex(found.astype("int64").view(f"M8[{unit}]"))
    return (index if zone == "naive" else index.tz_localize("UTC").tz_convert(zone)).array


KINDS = [
    "text", "str", "Int64", "uint64", "float64", "float32", "Float64", "boolean", "bool",
    "category", "mixed category", "object", "span", "ns naive", "us UTC", "us Europe/Berlin",
    "ms Asia/Kolkata", "ns America/St_Johns", "s UTC+05:30",
]  # fmt: skip


@st.composite
def hostile_frames(draw) -> pd.DataFrame:
    n = draw(st.integers(0, 4))
    kinds = draw(st.lists(st.sampled_from(KINDS), max_size=4))
    labels = draw(st.lists(texts | st.integers(0, 9), min_size=len(kinds), max_size=len(kinds)))
    frame = pd.DataFrame({i: column(draw, kind, n) for i, kind in enumerate(kinds)})
    # Two indexes of categories with lone surrogates are more than pandas itself can compare.
    index_kinds = draw(
        st.lists(st.sampled_from(KINDS).filter(lambda kind: "category" not in kind), max_size=2)
    )
    if index_kinds:
        arrays = [pd.Index(column(draw, kind, n)) for kind in index_kinds]
        names = [draw(missing_texts) for _ in index_kinds]
        if len(arrays) == 1:
            frame.index = arrays[0].rename(names[0])
        elif "object" not in index_kinds:  # of which not all can be factorized
            frame.index = pd.MultiIndex.from_arrays(arrays, names=names)
    if not index_kinds or len(frame.index) != n:
        frame = frame.set_axis(pd.RangeIndex(3, 3 + 2 * n, 2), axis=0)
    frame.columns = pd.Index(labels, dtype=object)
    return frame


@settings(
    max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(hostile_frames(), st.booleans())
def test_every_frame_comes_back_as_it_was(frame, escape_formulas):
    check(frame, escape_formulas=escape_formulas)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15)
@given(st.data())
def test_every_kind_of_column_comes_back_as_it_was(kind, data):
    check(pd.DataFrame({"a": column(data.draw, kind, 6)}))


@given(texts, st.booleans())
def test_every_text_comes_back_as_it_was(text, escape_formulas):
    cell = write_text(text, escape_formulas)
    assert read_text(cell) == text
    assert cell not in ("", MISSING)
    assert not set(cell) & {"\0", "\r"}
    cell.encode("utf-8")
    if escape_formulas:
        assert cell[0] not in "=+-@\t\r"


@example(HOSTILE)
@given(st.lists(texts))
def test_nothing_in_a_text_is_taken_for_missing_or_a_number(values):
    frame = pd.DataFrame({"a": pd.array([*values, None], dtype=pd.StringDtype("python"))})
    assert roundtrip(frame)["a"].tolist() == [*values, pd.NA]


def test_what_plain_pandas_would_change_is_kept():
    frame = pd.DataFrame(
        {
            "id": pd.array(["1e5", "12e456", "007"], dtype="string"),
            "word": pd.array(["NA", "None", None], dtype="string"),
            "count": pd.array([2**62 + 1, None, 3], dtype="Int64"),
            "flag": pd.array([True, None, False], dtype="boolean"),
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        path = write_csv(frame, Path(folder, "f.csv"))
        guessed = pd.read_csv(path)
        pd.testing.assert_frame_equal(read_csv(path), frame)
    assert guessed["id"].tolist() == [1e5, math.inf, 7.0]
    assert guessed["word"].isna().all()
    assert guessed["flag"].dtype == object


def test_object_columns_keep_kinds_that_json_does_not_have():
    values = [
        None, float("nan"), math.inf, -math.inf, pd.NA, pd.NaT, np.int8(3), np.bool_(True), 10**40,
        ("a", [1]), {"$": 1}, {1: {"a": None}}, "x", pd.Timestamp("2026-03-29 02:30", tz="UTC"),
        pd.Timestamp("2026-03-29 03:30:00.123456789", tz="Europe/Berlin"),
    ]  # fmt: skip
    array = np.empty(len(values), dtype=object)
    array[:] = values
    back = roundtrip(pd.DataFrame({"a": array}))["a"].tolist()
    assert [type(value) for value in back] == [type(value) for value in values]
    assert repr(back) == repr(values)


def test_indexes_of_all_kinds_come_back():
    stamps = pd.date_range("2026-01-01", periods=3, freq="D", tz="Europe/Berlin", name="when")
    for index in (
        pd.RangeIndex(3, name="row"),
        pd.Index(["b", "a", "b"], name="=cmd"),
        stamps,
        pd.CategoricalIndex(["x", None, "x"], categories=["y", "x"], ordered=True),
        pd.MultiIndex.from_tuples([("a", 1), ("a", 1), ("b", 2)], names=["k", None]),
    ):
        check(pd.DataFrame({"v": [1.5, np.nan, -np.inf]}, index=index))
    check(pd.DataFrame({("a", 1): [1], ("b", 2): [2]}))
    check(pd.DataFrame([[1, 2]]))
    check(pd.DataFrame())
    check(pd.DataFrame(index=["a", "b"]))


def test_without_its_index_a_frame_is_numbered_anew(tmp_path):
    frame = pd.DataFrame({"v": [1, 2]}, index=["a", "b"])
    back = read_csv(write_csv(frame, tmp_path / "f.csv", index=False))
    pd.testing.assert_frame_equal(back, frame.reset_index(drop=True))


def test_answers_come_back_with_their_categories(tmp_path):
    """Labels need not be text, and a missing answer stays one."""
    lab = Lab(Agent("instant", network=InstantNetwork()))
    data = pd.Series(["aa", "b", "c"], index=["x", "y", "x"])
    questions = {
        "team": Choice("Which?", ["=SUM(A1)", "NA"]),
        "number": Choice("Which?", [1, 2, True])
        if _takes_numbers()
        else Choice("Which?", ["1", "2"]),
        "level": Score("How much?", ["low", "high"]),
        "sure": Noul("Sure?"),
    }
    answers = lab.predict(data, questions, detail=True)
    answers.iloc[1, 0] = None
    back = read_csv(write_csv(answers, tmp_path / "answers.csv"))
    pd.testing.assert_frame_equal(back, answers)
    assert list(back["number"].cat.categories) == list(answers["number"].cat.categories)


def _takes_numbers() -> bool:
    try:
        Choice("Which?", [1, 2, True])
    except ValueError:
        return False
    return True


def test_other_readers_see_a_plain_csv(tmp_path):
    frame = pd.DataFrame({"a": ["x", "=1", None], "n": pd.array([1, None, 3], dtype="Int64")})
    path = write_csv(frame, tmp_path / "new" / "f.csv")
    assert path.read_text() == "a,n\nx,1\n'=1,<NA>\n<NA>,3\n"
    assert pd.read_csv(path)["n"].isna().tolist() == [False, True, False]
    schema = json.loads((tmp_path / "new" / "f.schema.json").read_text())
    assert schema["format"] == "jevlaya_lab frame"
    assert {"python", "jevlaya_lab", "pandas", "numpy"} == set(schema["packages"])
    assert sorted(os.listdir(path.parent)) == ["f.csv", "f.schema.json"]


def test_a_long_cell_is_no_hindrance_and_the_limit_of_the_process_stays(tmp_path):
    before = csv.field_size_limit()
    frame = pd.DataFrame({"a": ["x" * (before + 1)]})
    pd.testing.assert_frame_equal(read_csv(write_csv(frame, tmp_path / "f.csv")), frame)
    assert csv.field_size_limit() == before


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (pd.array([pd.Period("2026-01")]), r"column 'a' is a period\[M\].*astype\('string'\)"),
        (np.array([1j]), "column 'a' is a complex128"),
        (pd.Series([{1, 2}]), "column 'a' holds what.*a set cannot be written.*as text first"),
    ],
)
def test_a_column_that_cannot_be_kept_exactly_is_refused(tmp_path, values, message):
    with pytest.raises(InvalidOption, match=message):
        write_csv(pd.DataFrame({"a": values}), tmp_path / "f.csv")
    assert os.listdir(tmp_path) == []


# --- files that are not as they should be -------------------------------------------------------


@pytest.fixture
def written(tmp_path):
    return write_csv(pd.DataFrame({"a": ["x", "y"], "n": [1, 2]}), tmp_path / "f.csv")


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(InvalidOption, match="is a folder; give the name of a file in it"):
        write_csv(pd.DataFrame(), tmp_path)


def test_a_missing_file_or_schema_is_named(written):
    with pytest.raises(FileMissing, match=r"there is no file '.*nowhere\.csv'"):
        read_csv(written.with_name("nowhere.csv"))
    (written.parent / "f.schema.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"f\.schema\.json' is missing.*pandas.read_csv"):
        read_csv(written)


def test_a_file_that_is_cut_short_is_refused(written):
    data = written.read_bytes()
    written.write_bytes(data[:-3])
    with pytest.raises(
        FileInvalid, match=rf"f\.csv' is cut short \({len(data) - 3} of {len(data)} "
    ):
        read_csv(written)
    with pytest.raises(FileInvalid, match="does not fit its schema"):
        read_csv(written, verify=False)


def test_an_edited_file_is_refused_unless_that_was_the_purpose(written):
    written.write_text(written.read_text().replace("x", "z"))
    with pytest.raises(FileInvalid, match=r"has changed since it was written.*verify=False"):
        read_csv(written)
    assert read_csv(written, verify=False)["a"].tolist() == ["z", "y"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,n\nx,1\ny,two\n", r"column 'n': .*'two'"),
        ("a,n\nx,1\n", "it has 1 rows of 2 cells where 2 of 2 belong"),
        ("a,n\nx,1\ny\n", "where 2 of 2 belong"),
        ('a,n\nx,1\n"y', "does not fit its schema"),
        ("", "it has 0 rows|does not fit"),
    ],
)
def test_an_edit_that_does_not_fit_the_schema_is_refused(written, text, message):
    written.write_text(text)
    with pytest.raises(FileInvalid, match=message):
        read_csv(written, verify=False)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("{", "is no schema of these files"),
        ("[1]", "is no schema of these files"),
        ("{}", "is no schema of these files"),
        ('{"format": "other", "schema_version": 1, "frames": {}}', "is a 'other', not a frame"),
        (
            '{"format": "jevlaya_lab trace", "schema_version": 1, "frames": {}}',
            "read it with read_trace_csv",
        ),
        (
            '{"format": "jevlaya_lab frame", "schema_version": 99, "frames": {}}',
            "schema version 99, and this version of jevlaya_lab reads 1",
        ),
        ('{"format": "jevlaya_lab frame", "schema_version": 1, "frames": {}}', "says nothing of"),
    ],
)
def test_a_schema_of_another_kind_or_version_is_refused(written, schema, message):
    (written.parent / "f.schema.json").write_text(schema)
    with pytest.raises(FileInvalid, match=message):
        read_csv(written)


def test_a_schema_that_was_tampered_with_gives_no_other_kind_of_error(tmp_path):
    frame = pd.DataFrame(
        {
            "text": pd.array(["x", None], dtype="string"),
            "label": pd.Categorical([1, "1"]),
            "time": pd.date_range("2026-01-01", periods=2, tz="Europe/Berlin"),
            "count": pd.array([1, None], dtype="Int64"),
            "number": pd.array([1.5, None], dtype="Float64"),
        },
        index=pd.MultiIndex.from_tuples([("a", 1), ("b", 2)]),
    )
    path = write_csv(frame, tmp_path / "f.csv")
    file = tmp_path / "f.schema.json"
    whole = file.read_text()
    n_refused = 0
    for number in range(len(list(_places(json.loads(whole))))):
        for junk in (None, 1, "x", [], {}, True):
            schema = json.loads(whole)
            parent, key = list(_places(schema))[number]
            parent[key] = junk
            file.write_text(json.dumps(schema))
            try:
                read_csv(path, verify=False)
            except FileError:
                n_refused += 1
    assert n_refused > 100


def _places(value):
    """Every place in a JSON value that something else may be put into."""
    if isinstance(value, (dict, list)):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])


def test_an_edited_time_has_to_be_in_utc(tmp_path):
    frame = pd.DataFrame({"t": pd.to_datetime(["2026-01-01T00:00:00Z"])})
    path = write_csv(frame, tmp_path / "f.csv")
    path.write_text(path.read_text().replace("Z", "+01:00"))
    with pytest.raises(FileInvalid, match=r"column 't': .*\+01:00' is no time in UTC such as"):
        read_csv(path, verify=False)


# --- as a whole or not at all -------------------------------------------------------------------


def test_a_failure_while_writing_leaves_the_old_files(written, monkeypatch):
    before = {name: (written.parent / name).read_bytes() for name in os.listdir(written.parent)}

    class Full:
        def __init__(self, file, **_):
            self.file = file

        def writerow(self, row):
            self.file.write("half")

        def writerows(self, rows):
            raise OSError("disk full")

    monkeypatch.setattr(csv, "writer", Full)
    with pytest.raises(OSError, match="disk full"):
        write_csv(pd.DataFrame({"a": [2]}), written)
    assert {
        name: (written.parent / name).read_bytes() for name in os.listdir(written.parent)
    } == before


@pytest.mark.parametrize("failing", [0, 1])
@pytest.mark.parametrize("links", [True, False])
def test_a_failure_between_the_renames_brings_the_old_files_back(
    written, monkeypatch, failing, links
):
    before = {name: (written.parent / name).read_bytes() for name in os.listdir(written.parent)}
    replace, calls = os.replace, []

    def replacing(source, target):
        calls.append(target)
        if len(calls) == failing + 1:
            raise KeyboardInterrupt
        replace(source, target)

    def no_links(*_):
        raise OSError("no hard links here")

    monkeypatch.setattr(files.os, "replace", replacing)
    if not links:
        monkeypatch.setattr(files.os, "link", no_links)
    with pytest.raises(KeyboardInterrupt):
        write_csv(pd.DataFrame({"a": [2]}), written)
    assert {
        name: (written.parent / name).read_bytes() for name in os.listdir(written.parent)
    } == before


def test_a_crash_between_the_renames_is_noticed(written):
    """Nothing can undo a rename after the process is gone, so reading has to see it."""
    schema = written.with_name("f.schema.json").read_bytes()
    write_csv(pd.DataFrame({"a": ["p", "q"], "n": [3, 4]}), written)
    written.with_name("f.schema.json").write_bytes(schema)
    with pytest.raises(FileError, match="belongs to another schema"):
        read_csv(written)


ZONES = [
    timezone(timedelta(hours=1), "X"),
    timezone(timedelta(hours=1), "Europe/Berlin"),
    timezone(timedelta(hours=1), "UTC"),
    timezone(timedelta(seconds=3723)),
    dateutil.tz.gettz("Europe/Berlin"),
    dateutil.tz.tzoffset("A", 3600),
    dateutil.tz.tzlocal(),
]


@pytest.mark.parametrize("zone", ZONES, ids=repr)
def test_times_in_a_zone_that_has_no_name_of_its_own_are_refused(tmp_path, zone):
    times = pd.DatetimeIndex(["2026-01-01"]).tz_localize("UTC").tz_convert(zone)
    for frame in (
        pd.DataFrame({"t": times}),
        pd.DataFrame(index=times),
        pd.DataFrame(columns=times),
        pd.DataFrame({"t": pd.Categorical(times)}),
        pd.DataFrame({"t": [times[0], "text"]}),
    ):
        with pytest.raises(InvalidOption, match="time zone"):
            write_csv(frame, tmp_path / "t.csv")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("zone", ["UTC", timezone.utc, ZoneInfo("UTC"), "+01:00", "-05:30"])
def test_times_in_a_zone_with_a_name_come_back(zone):
    index = pd.date_range("2026-01-01", periods=2, freq="h", tz="UTC").tz_convert(zone)
    frame = pd.DataFrame({"t": index}, index=index)
    check(frame)


@pytest.mark.parametrize(
    "freq",
    [
        pd.offsets.CustomBusinessDay(holidays=["2026-01-02"]),
        pd.offsets.CustomBusinessDay(weekmask="Mon Tue"),
        pd.offsets.BusinessHour(start="10:00"),
        pd.offsets.DateOffset(days=2),
    ],
    ids=repr,
)
def test_an_index_whose_frequency_is_more_than_its_name_is_refused(tmp_path, freq):
    frame = pd.DataFrame(index=pd.date_range("2026-01-01", periods=3, freq=freq))
    with pytest.raises(InvalidOption, match="frequency"):
        write_csv(frame, tmp_path / "t.csv")
    frame.index.freq = None
    check(frame)


@pytest.mark.parametrize("freq", ["B", "W-TUE", "2h", "QE-FEB", "C", "15min", "bh"])
def test_an_index_with_a_frequency_comes_back(freq):
    check(pd.DataFrame(index=pd.date_range("2026-01-01", periods=3, freq=freq)))
