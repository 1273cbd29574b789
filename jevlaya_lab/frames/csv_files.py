"""Typed frames as CSV files with one schema file beside them, read back exactly as they were.

The schema says what a CSV cannot: dtypes, categories, index, and a checksum of each file. It is
written last, so files that do not belong together are noticed when they are read.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import platform
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import pandas as pd

from jevlaya_lab import __version__
from jevlaya_lab.frames.cells import MISSING, decode, decode_index, describe, encode, write_text
from jevlaya_lab.frames.schema import SCHEMA_VERSION
from jevlaya_lab.system_one.errors import FileInvalid, FileMissing, InvalidOption
from jevlaya_lab.system_one.files import whole_files
from jevlaya_lab.tracing import exact_json

__all__ = ["checked_target", "read_csv", "read_frames", "schema_path", "write_csv", "write_frames"]

Schema = dict[str, Any]


def write_csv(
    frame: pd.DataFrame,
    path: str | os.PathLike[str],
    *,
    index: bool = True,
    escape_formulas: bool = True,
) -> Path:
    """Write a frame as UTF-8 CSV, with its schema beside it; :func:`read_csv` gives it back.

    ``out/answers.csv`` gets ``out/answers.schema.json``. Both are there as a whole, or as they were
    before. Missing values are ``<NA>``.

    Args:
        frame: What to write: any index; text, numbers, flags, times, categories, plain objects.
        path: Where; missing folders are made.
        index: Whether the index is written as well. A plain row number takes no column.
        escape_formulas: Put an apostrophe before text that a spreadsheet would run.

    Returns:
        The path.

    Raises:
        InvalidOption: A column that these files cannot hold.
    """
    target = checked_target(path)
    kept = frame if index else frame.reset_index(drop=True)
    write_frames("frame", {"frame": (target, kept)}, target, escape_formulas=escape_formulas)
    return target


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


def checked_target(path: str | os.PathLike[str]) -> Path:
    """The path as a file that may be written.

    Raises:
        InvalidOption: It is a folder.
    """
    target = Path(path).expanduser()
    if target.is_dir():
        raise InvalidOption(f"{str(target)!r} is a folder; give the name of a file in it")
    return target


def schema_path(target: Path) -> Path:
    """Where the schema of ``answers.csv`` stands: ``answers.schema.json``."""
    return target.with_suffix(".schema.json")


# --- writing -------------------------------------------------------------------------------------


def write_frames(
    kind: str,
    frames: Mapping[str, tuple[Path, pd.DataFrame]],
    main: Path,
    *,
    seed: int | None = None,
    escape_formulas: bool = True,
    **facts: Any,
) -> None:
    """Write frames that belong together, and their schema beside ``main``: all of them or none."""
    # Everything that may be refused is refused before a file is opened.
    tables = {name: _table(frame, escape_formulas) for name, (_, frame) in frames.items()}
    schema: Schema = {
        "format": f"jevlaya_lab {kind}",
        "schema_version": SCHEMA_VERSION,
        "missing": MISSING,
        "seed": seed,
        **facts,
        "packages": _packages(),
        "frames": {},
    }
    paths = [path for path, _ in frames.values()]
    with whole_files([*paths, schema_path(main)], binary=True) as files:
        for (name, (header, columns, spec)), file in zip(tables.items(), files, strict=False):
            summed = _Summed(file)
            writer = csv.writer(summed, lineterminator="\n")
            writer.writerow(header)
            writer.writerows(
                zip(*columns, strict=True) if columns else ([] for _ in range(spec["n_rows"]))
            )
            schema["frames"][name] = {
                "n_bytes": summed.n_bytes,
                "sha256": summed.sum.hexdigest(),
                **spec,
            }
        files[-1].write(json.dumps(schema, indent=1, allow_nan=False).encode("ascii") + b"\n")


class _Summed:
    """Takes text for a binary file and sums it up on the way."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.sum = hashlib.sha256()
        self.n_bytes = 0

    def write(self, text: str) -> None:
        data = text.encode("utf-8")
        self.sum.update(data)
        self.n_bytes += len(data)
        self._file.write(data)


def _packages() -> dict[str, str]:
    versions = {"python": platform.python_version(), "jevlaya_lab": __version__}
    return versions | {name: metadata.version(name) for name in ("pandas", "numpy")}


def _table(
    frame: pd.DataFrame, escape_formulas: bool
) -> tuple[list[str], list[list[str]], dict[str, Any]]:
    index, header, columns = _axis(frame.index, "the index", escape_formulas)
    labels, _, label_cells = _axis(frame.columns, "the column names", escape_formulas)
    if label_cells:
        labels["values"] = label_cells
    cells = []
    for i, label in enumerate(frame.columns):
        series, what = frame.iloc[:, i], f"column {label!r}"
        spec = describe(series, what, escape_formulas)
        cells.append({"name": str(label).encode("utf-8", "replace").decode(), **spec})
        columns.append(encode(series, spec, what, escape_formulas))
        header.append(_header_cell(label, escape_formulas))
    return header, columns, {
        "n_rows": len(frame), "index": index, "labels": labels, "columns": cells,
    }  # fmt: skip


def _axis(
    axis: pd.Index[Any], what: str, escape_formulas: bool
) -> tuple[dict[str, Any], list[str], list[list[str]]]:
    """What has to be known of an index, and its levels as columns of cells."""
    if isinstance(axis, pd.RangeIndex):
        name = exact_json.dumps(axis.name)
        spec = {"start": axis.start, "stop": axis.stop, "step": axis.step, "name": name}
        return {"kind": "range", **spec}, [], []
    levels, header, columns = [], [], []
    for i, label in enumerate(axis.names):
        values = axis.get_level_values(i)
        spec = describe(values, what, escape_formulas)
        columns.append(encode(values, spec, what, escape_formulas))
        levels.append({"name": exact_json.dumps(label), **spec})
        header.append(_header_cell(f"index_{i}" if label is None else label, escape_formulas))
    kind = "multi" if isinstance(axis, pd.MultiIndex) else "plain"
    freq = getattr(axis, "freqstr", None)
    return {"kind": kind, "levels": levels, "freq": freq}, header, columns


def _header_cell(label: Any, escape_formulas: bool) -> str:
    return write_text(label if isinstance(label, str) else str(label), escape_formulas)


# --- reading -------------------------------------------------------------------------------------


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
        except (ValueError, KeyError, TypeError, OverflowError, IndexError, csv.Error) as error:
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
        remedy = f"; read it with {reader[form]}" if form in reader else ""
        raise FileInvalid(f"{str(main)!r} is a {form!r}, not a {kind}{remedy}")
    if version != SCHEMA_VERSION:
        raise FileInvalid(
            f"{str(main)!r} has schema version {version}, and this version of jevlaya_lab reads "
            f"{SCHEMA_VERSION}; it was written by jevlaya_lab "
            f"{schema.get('packages', {}).get('jevlaya_lab', '?')}: read it with that one"
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
    try:
        return decode(cells, dict(spec))
    except (ValueError, KeyError, OverflowError) as error:
        raise ValueError(f"column {spec.get('name')!r}: {error}") from error


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
