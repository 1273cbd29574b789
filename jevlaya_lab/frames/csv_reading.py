"""Reading CSV files and their schema back into the frames that they were."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import pandas as pd

from jevlaya_lab.frames.cells import decode, decode_index
from jevlaya_lab.frames.csv_files import schema_path
from jevlaya_lab.frames.schema import SCHEMA_VERSION
from jevlaya_lab.system_one.errors import FileInvalid, FileMissing
from jevlaya_lab.tracing import exact_json

__all__ = ["read_csv", "read_frames", "read_schema"]

Schema = dict[str, Any]

_UNFIT: Final = (LookupError, ValueError, TypeError, AttributeError, OverflowError, csv.Error)
"""What cells and schemas raise that are not as they were written."""


def read_csv(path: str | os.PathLike[str], *, verify: bool = True) -> pd.DataFrame:
    """Read what :func:`write_csv` wrote, with the same index, columns, dtypes and values.

    Args:
        path: The CSV file; its schema must be beside it.
        verify: Refuse a file that has changed since it was written.

    Raises:
        FileMissing: The file or its schema is not there.
        FileInvalid: One of them is damaged, or of another kind or version.
    """
    target = Path(path).expanduser()
    frames, _ = read_frames("frame", {"frame": target}, target, verify=verify)
    return frames["frame"]


def read_frames(
    kind: str, paths: Mapping[str, Path], main: Path, *, verify: bool = True
) -> tuple[dict[str, pd.DataFrame], Schema]:
    """Read frames that were written together, and their schema.

    Raises:
        FileMissing: One of the files is not there.
        FileInvalid: One of them is damaged, or of another kind or version.
    """
    for path in paths.values():
        if not path.is_file():
            raise FileMissing(f"there is no file {str(path)!r}")
    schema = read_schema(kind, main)
    frames = {}
    for name, path in paths.items():
        spec = schema["frames"].get(name)
        if not isinstance(spec, dict):
            raise FileInvalid(f"{str(schema_path(main))!r} says nothing of {str(path)!r}")
        data = path.read_bytes()
        if verify:
            _check_sum(path, data, spec)
        try:
            frames[name] = _frame(_rows(data), spec)
        except _UNFIT as error:
            raise FileInvalid(
                f"{str(path)!r} does not fit its schema: {error}; write it again"
            ) from error
    return frames, schema


def read_schema(kind: str, main: Path) -> Schema:
    """The schema beside a file, checked to be of this kind and version."""
    path = schema_path(main)
    try:
        schema = json.loads(path.read_bytes())
        form, version = schema["format"], schema["schema_version"]
        frames = schema["frames"]
    except FileNotFoundError:
        whole = _owner(main)
        raise FileMissing(
            f"{str(main)!r} is a part of the trace {str(whole)!r}; read that one"
            if whole is not None
            else f"{str(path)!r} is missing: it holds the dtypes of {str(main)!r} and is written "
            "with it; copy it along, or use pandas.read_csv, which guesses them"
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise FileInvalid(
            f"{str(path)!r} is no schema of these files ({type(error).__name__}); write them again"
        ) from error
    if form != f"jevlaya_lab {kind}" or not isinstance(frames, dict):
        reader = {"jevlaya_lab trace": "read_trace_csv", "jevlaya_lab frame": "read_csv"}
        remedy = f"; read it with {reader[form]}" if str(form) in reader else ""
        raise FileInvalid(f"{str(main)!r} is a {form!r}, not a {kind}{remedy}")
    if version != SCHEMA_VERSION:
        raise FileInvalid(
            f"{str(main)!r} has schema version {version}, and this version of jevlaya_lab reads "
            f"{SCHEMA_VERSION}; read it with the version that wrote it: {schema.get('packages')}"
        )
    return dict(schema)


def _owner(main: Path) -> Path | None:
    """The trace that ``trace.events.csv`` or ``trace.calls.csv`` belongs to, if it is one."""
    stem, _, part = main.stem.rpartition(".")
    whole = main.with_name(stem + main.suffix)
    return whole if part in ("events", "calls") and schema_path(whole).is_file() else None


def _check_sum(path: Path, data: bytes, spec: Mapping[str, Any]) -> None:
    if hashlib.sha256(data).hexdigest() == spec.get("sha256"):
        return
    size = spec.get("n_bytes")
    if isinstance(size, int) and len(data) < size:
        what = f"is cut short ({len(data)} of {size} bytes), or belongs to another schema"
    else:
        what = "has changed since it was written, or belongs to another schema"
    raise FileInvalid(
        f"{str(path)!r} {what}; write it again, or read it with verify=False if it was edited on "
        "purpose"
    )


_FIELD_LOCK: Final = threading.Lock()


def _rows(data: bytes) -> list[list[str]]:
    text = io.StringIO(data.decode("utf-8"), newline="")
    with _FIELD_LOCK:  # the limit is one for the whole process
        before = csv.field_size_limit(sys.maxsize if sys.maxsize < 2**32 else 2**31 - 1)
        try:
            return list(csv.reader(text, strict=True))
        finally:
            csv.field_size_limit(before)


def _frame(rows: Sequence[list[str]], spec: Mapping[str, Any]) -> pd.DataFrame:
    index_spec, column_specs = spec["index"], spec["columns"]
    levels = index_spec.get("levels", [])
    width, n_rows = len(levels) + len(column_specs), spec["n_rows"]
    body = rows[1:]
    if len(body) != n_rows or any(len(row) != width for row in rows):
        found = f"{len(body)} rows of {max((len(row) for row in rows), default=0)} cells"
        raise ValueError(f"it has {found} where {n_rows} of {width} belong")
    # zip(*body) takes three times as long for a million rows
    cells = [list(map(itemgetter(i), body)) for i in range(width)]
    index = _read_axis(index_spec, cells[: len(levels)])
    arrays = list(map(_read_column, column_specs, cells[len(levels) :]))
    labels = spec["labels"]
    if labels["kind"] != "range" and not labels.get("values"):
        labels = {**labels, "values": [[] for _ in labels["levels"]]}
    frame: pd.DataFrame = pd.DataFrame(dict(enumerate(arrays)), index=index, copy=False)
    frame.columns = _read_axis(labels, labels.get("values", ()))
    return frame


def _read_column(spec: Mapping[str, Any], cells: Sequence[str]) -> Any:
    name = spec["name"]
    try:
        return decode(cells, dict(spec))
    except _UNFIT as error:
        raise ValueError(f"column {name!r}: {type(error).__name__}: {error}") from error


def _read_axis(spec: Mapping[str, Any], cells: Iterable[Sequence[str]]) -> pd.Index[Any]:
    if spec["kind"] == "range":
        name = exact_json.loads(spec["name"])
        numbers: pd.Index[Any] = pd.RangeIndex(spec["start"], spec["stop"], spec["step"], name=name)
        return numbers
    levels = [
        decode_index(each, level, exact_json.loads(level["name"]))
        for level, each in zip(spec["levels"], cells, strict=True)
    ]
    if spec["kind"] == "multi":
        several: pd.Index[Any] = pd.MultiIndex.from_arrays(levels)
        return several
    (index,) = levels
    if spec["freq"] is not None and isinstance(index, (pd.DatetimeIndex, pd.TimedeltaIndex)):
        index = type(index)(index, freq=spec["freq"])
    return index
