"""Typed frames as CSV files with one schema file beside them, from which they can be read exactly.

The schema says what a CSV cannot: dtypes, categories, index, and a checksum of each file. It is
written last, so files that do not belong together are noticed when they are read.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import platform
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import pandas as pd
from pandas.tseries.frequencies import to_offset

from jevlaya_lab import __version__
from jevlaya_lab.frames.cells import MISSING, describe, encode, write_text
from jevlaya_lab.frames.schema import SCHEMA_VERSION
from jevlaya_lab.system_one.errors import InvalidOption
from jevlaya_lab.system_one.files import whole_files
from jevlaya_lab.tracing import exact_json

__all__ = ["checked_target", "schema_path", "write_csv", "write_frames"]

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
    if freq is not None and not _is_freq(freq, getattr(axis, "freq", None)):
        raise InvalidOption(
            f"{what} has the frequency {freq!r} with a calendar or options of its own, which these "
            "files cannot hold; set index.freq = None first"
        )
    return {"kind": kind, "levels": levels, "freq": freq}, header, columns


def _is_freq(name: str, freq: Any) -> bool:
    """Whether a frequency is the one that its name stands for."""
    try:
        return bool(to_offset(name) == freq)
    except (ValueError, TypeError):
        return False


def _header_cell(label: Any, escape_formulas: bool) -> str:
    return write_text(label if isinstance(label, str) else str(label), escape_formulas)
