"""Traces as files and back: CSV with a schema, and Parquet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pandas as pd

from jevlaya_lab.frames.cells import read_text, write_text
from jevlaya_lab.frames.csv_files import checked_target, write_frames
from jevlaya_lab.frames.csv_reading import read_frames, read_schema
from jevlaya_lab.frames.schema import FRAMES, SCHEMA_VERSION
from jevlaya_lab.frames.trace import Trace
from jevlaya_lab.system_one.errors import FileInvalid, FileMissing
from jevlaya_lab.system_one.extras import require
from jevlaya_lab.system_one.files import whole_files

__all__ = [
    "checked_target",
    "read_trace_csv",
    "read_trace_parquet",
    "write_trace_csv",
    "write_trace_parquet",
]


def _paths(target: Path) -> dict[str, Path]:
    """``trace.csv`` for the runs, ``trace.calls.csv`` and ``trace.events.csv``."""
    return {
        name: target if name == "runs" else target.with_name(f"{target.stem}.{name}{target.suffix}")
        for name in FRAMES
    }


def write_trace_csv(trace: Trace, path: Any, *, escape_formulas: bool = True) -> Path:
    """See :meth:`Trace.to_csv`."""
    target = checked_target(path)
    write_frames(
        "trace",
        {name: (each, getattr(trace, name)) for name, each in _paths(target).items()},
        target,
        seed=trace.seed,
        escape_formulas=escape_formulas,
        n_dropped=trace.n_dropped,
    )
    return target


def read_trace_csv(path: Any, *, verify: bool = True) -> Trace:
    """Read what :meth:`Trace.to_csv` wrote, exactly as it was.

    Args:
        path: The file of the runs; the others must be beside it.
        verify: Refuse files that have changed since they were written.

    Raises:
        FileMissing: One of the four files is not there.
        FileInvalid: One of them is damaged, of another kind or version, or not of the same trace.
    """
    target = Path(path).expanduser()
    paths = _paths(target)
    if not target.is_file():
        raise FileMissing(f"there is no file {str(target)!r}")
    if not paths["events"].is_file() or not paths["calls"].is_file():
        read_schema("trace", target)  # whatever else is wrong with it is said first
    frames, schema = read_frames("trace", paths, target, verify=verify)
    for name, frame in frames.items():
        _check_columns(frame, name, paths[name])
    return _trace(frames, schema)


_META: Final = b"jevlaya_lab"


def write_trace_parquet(trace: Trace, path: Any) -> Path:
    """See :meth:`Trace.to_parquet`."""
    arrow = require("pyarrow", "parquet", "to_parquet")
    parquet = require("pyarrow.parquet", "parquet", "to_parquet")
    target = checked_target(path)
    facts = {
        "format": "jevlaya_lab trace",
        "schema_version": SCHEMA_VERSION,
        "seed": trace.seed,
        "n_dropped": trace.n_dropped,
    }
    paths = _paths(target)
    tables = {name: _to_arrow(getattr(trace, name), name, facts, arrow) for name in paths}
    with whole_files(list(paths.values()), binary=True) as files:
        for table, file in zip(tables.values(), files, strict=True):
            parquet.write_table(table, file)
    return target


def read_trace_parquet(path: Any) -> Trace:
    """Read what :meth:`Trace.to_parquet` wrote, exactly as it was.

    Args:
        path: The file of the runs; those of the calls and events must be beside it.

    Raises:
        FileMissing: One of the three files is not there.
        FileInvalid: One of them is damaged, or of another kind or version.
        MissingExtra: ``pyarrow`` is not installed.
    """
    arrow = require("pyarrow", "parquet", "read_trace_parquet")
    parquet = require("pyarrow.parquet", "parquet", "read_trace_parquet")
    target = Path(path).expanduser()
    frames: dict[str, pd.DataFrame] = {}
    facts: dict[str, Any] = {}
    for name, each in _paths(target).items():
        if not each.is_file():
            raise FileMissing(f"there is no file {str(each)!r}")
        try:
            table = parquet.read_table(each)
            facts = json.loads((table.schema.metadata or {})[_META])
        except (arrow.ArrowException, OSError) as error:
            raise FileInvalid(
                f"{str(each)!r} is no whole Parquet file ({error}); write it again"
            ) from error
        except (KeyError, ValueError):
            raise FileInvalid(f"{str(each)!r} is no file of a trace") from None
        if facts.get("schema_version") != SCHEMA_VERSION:
            raise FileInvalid(
                f"{str(each)!r} has schema version {facts.get('schema_version')}, and this version "
                f"of jevlaya_lab reads {SCHEMA_VERSION}"
            )
        if facts.get("frame") != name:
            raise FileInvalid(f"{str(each)!r} holds {facts.get('frame')}, not {name}")
        frames[name] = _from_arrow(table, name)
        _check_columns(frames[name], name, each)
    return _trace(frames, facts)


def _trace(frames: dict[str, pd.DataFrame], facts: dict[str, Any]) -> Trace:
    return Trace(
        frames["runs"],
        frames["events"],
        n_dropped=facts.get("n_dropped", 0),
        seed=facts.get("seed"),
        _calls=frames["calls"],
    )


def _check_columns(frame: pd.DataFrame, name: str, path: Path) -> None:
    dtypes = FRAMES[name]
    if list(frame.columns) != list(dtypes) or any(
        frame[column].dtype != dtype for column, dtype in dtypes.items()
    ):
        raise FileInvalid(f"{str(path)!r} has not the columns of a trace's {name}")


def _to_arrow(frame: pd.DataFrame, name: str, facts: dict[str, Any], arrow: Any) -> Any:
    """As a table whose texts are escaped where Arrow could not hold them: lone surrogates."""
    arrays = []
    for column, dtype in FRAMES[name].items():
        series = frame[column]
        if isinstance(dtype, pd.StringDtype):
            texts = [None if t is pd.NA else write_text(t, False) for t in series.array]
            arrays.append(arrow.array(texts, arrow.string()))
        else:
            arrays.append(arrow.Array.from_pandas(series))
    meta = {_META: json.dumps({**facts, "frame": name}).encode()}
    return arrow.table(arrays, names=list(FRAMES[name])).replace_schema_metadata(meta)


def _from_arrow(table: Any, name: str) -> pd.DataFrame:
    columns = {}
    for column, dtype in FRAMES[name].items():
        if column not in table.column_names:
            continue
        values = table.column(column)
        if isinstance(dtype, pd.StringDtype):
            texts = [None if t is None else read_text(t) for t in values.to_pylist()]
            columns[column] = pd.array(texts, dtype=dtype)
        elif isinstance(dtype, (pd.Int64Dtype, pd.BooleanDtype)):
            columns[column] = pd.array(values.to_pylist(), dtype=dtype)
        else:
            columns[column] = values.to_pandas().astype(dtype).array
    frame: pd.DataFrame = pd.DataFrame(columns)
    return frame
