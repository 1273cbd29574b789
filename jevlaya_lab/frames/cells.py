"""Columns as cells of text and back, exactly: what a CSV file cannot say itself is in a spec.

A text stands in its cell as it is, except that an apostrophe goes before it where it would read as
something else: before the missing token, an empty text, an apostrophe, and what a spreadsheet would
run as a formula. A text that a CSV reader could break (NUL, carriage return, byte order mark, lone
surrogates) is written as a JSON string behind an apostrophe.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import numpy as np
import pandas as pd
from pandas.api import types

from jevlaya_lab.system_one.errors import InvalidOption
from jevlaya_lab.tracing import exact_json

__all__ = ["MISSING", "decode", "decode_index", "describe", "encode", "read_text", "write_text"]

MISSING: Final = "<NA>"
"""The cell of a missing value; a text of this kind is escaped. Plain pandas knows it as well."""

Spec = dict[str, Any]

_BREAKS: Final = re.compile("[\0\r\ufeff\ud800-\udfff]")
_TIME: Final = re.compile(r"[+-]?\d+-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?")
_FORMULA: Final = ("=", "+", "-", "@", "\t")


def write_text(text: str, escape_formulas: bool = True) -> str:
    """A text as a cell."""
    if _BREAKS.search(text):
        return "'" + exact_json.dumps(text)
    if not text or text[0] == "'" or text == MISSING:
        return "'" + text
    return "'" + text if escape_formulas and text[0] in _FORMULA else text


def read_text(cell: str) -> str:
    """The text of a cell that :func:`write_text` made."""
    if cell[:1] != "'":
        return cell
    if cell[:2] == "'\"":
        text = exact_json.loads(cell[1:])
        if not isinstance(text, str):
            raise ValueError("no JSON text")
        return text
    return cell[1:]


def describe(values: Any, what: str, escape_formulas: bool = True) -> Spec:
    """What has to be known of a column beside its cells.

    Args:
        values: A Series or an Index.
        what: How messages call it.
        escape_formulas: As the cells are going to be written.

    Raises:
        InvalidOption: A kind of column that cannot be written.
    """
    dtype = values.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        labels = dtype.categories
        spec = describe(labels, f"the categories of {what}")
        names = encode(labels, spec, what, escape_formulas)
        return {
            "kind": "category",
            "ordered": bool(dtype.ordered),
            "categories": {**spec, "values": names},
        }
    if isinstance(dtype, pd.StringDtype):
        missing = "NA" if dtype.na_value is pd.NA else "NaN"
        return {"kind": "text", "storage": dtype.storage, "missing": missing}
    if types.is_object_dtype(dtype):
        return {"kind": "object"}
    if types.is_datetime64_any_dtype(dtype) and str(dtype).startswith("datetime64["):
        if isinstance(dtype, pd.DatetimeTZDtype) and not _is_found_by_name(dtype):
            raise InvalidOption(
                f"{what} has the time zone {dtype.tz!r}, which its name {str(dtype.tz)!r} does not "
                "give back; change it first with .tz_convert to a named zone such as "
                "'Europe/Berlin', or to 'UTC'"
            )
        return {"kind": "time", "dtype": str(dtype)}
    for kind, fits in (
        ("flag", types.is_bool_dtype),
        ("whole", types.is_integer_dtype),
        ("number", lambda d: types.is_float_dtype(d) and d.itemsize <= 8),
        ("span", types.is_timedelta64_dtype),
    ):
        if (isinstance(dtype, np.dtype) or str(dtype) in _NULLABLE) and fits(dtype):
            return {"kind": kind, "dtype": str(dtype)}
    raise InvalidOption(
        f"{what} is a {dtype}, which these files cannot hold; change it first, for example with "
        ".astype('string')"
    )


def _is_found_by_name(dtype: pd.DatetimeTZDtype) -> bool:
    """Whether a time zone is the one that its name stands for, here and on any machine."""
    zone = dtype.tz
    try:
        found = _decode_time([], {"dtype": str(dtype)}).tz
    except Exception:  # zones come from several packages, each with errors of its own
        return False
    # Not only by the names: a fixed offset may be called as it likes.
    moments = [datetime(2026, month, 1) for month in (1, 7)]
    return (
        not type(zone).__module__.startswith("dateutil")  # its tzlocal is another one elsewhere
        and str(found) == str(zone)
        and [found.utcoffset(m) for m in moments] == [zone.utcoffset(m) for m in moments]
    )


_NULLABLE: Final = frozenset(
    ["boolean", "Float32", "Float64"]
    + [f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)]
)


def encode(values: Any, spec: Spec, what: str, escape_formulas: bool = True) -> list[str]:
    """The cells of a column, given what :func:`describe` said of it."""
    kind = spec["kind"]
    if kind == "category":
        names = spec["categories"]["values"]
        codes = pd.Categorical(values).codes.tolist()
        return [MISSING if code < 0 else names[code] for code in codes]
    if kind == "time":
        stamps = pd.DatetimeIndex(values)
        zone = "Z" if stamps.tz is not None else ""
        plain = stamps.tz_convert("UTC").tz_localize(None) if zone else stamps
        cells = np.datetime_as_string(plain.to_numpy(), unit=plain.unit).tolist()
        return [MISSING if cell == "NaT" else cell + zone for cell in cells]
    if kind == "span":
        spans = pd.TimedeltaIndex(values)
        counts = spans.asi8.tolist()
        return [MISSING if no else str(n) for n, no in zip(counts, spans.isna(), strict=True)]
    plain_values = values.astype(object).tolist()
    if kind == "object":
        return [_object_cell(value, what) for value in plain_values]
    if kind == "text":
        known: dict[Any, str] = {}
        cells = []
        for value in plain_values:
            if not isinstance(value, str):
                cells.append(MISSING)
                continue
            cell = known.get(value)
            if cell is None:
                cell = known[value] = write_text(value, escape_formulas)
            cells.append(cell)
        return cells
    if kind == "number":
        nan = MISSING if spec["dtype"][0] == "f" else "NaN"
        return [MISSING if v is pd.NA else nan if v != v else repr(float(v)) for v in plain_values]
    return [MISSING if value is pd.NA else str(value) for value in plain_values]


def decode(cells: Sequence[str], spec: Spec) -> Any:
    """The array of a column from its cells.

    Raises:
        ValueError: A cell or the spec does not fit.
    """
    return _DECODERS[spec["kind"]](cells, spec)


def decode_index(cells: Sequence[str], spec: Spec, name: Any = None) -> pd.Index[Any]:
    """The same as an index."""
    array = decode(cells, spec)
    if spec["kind"] == "object":  # of plain objects pandas would guess a dtype
        plain: pd.Index[Any] = pd.Index(array, dtype=object, name=name, tupleize_cols=False)
        return plain
    index: pd.Index[Any] = pd.Index(array, name=name)
    return index


def _decode_category(cells: Sequence[str], spec: Spec) -> Any:
    names = spec["categories"]["values"]
    labels = decode_index(names, spec["categories"])
    place = {name: i for i, name in enumerate(names)}
    place[MISSING] = -1
    strange = next((cell for cell in cells if cell not in place), None)
    if strange is not None:
        raise ValueError(f"{strange!r} is no category")
    dtype = pd.CategoricalDtype(labels, ordered=spec["ordered"])
    return pd.Categorical.from_codes([place[cell] for cell in cells], dtype=dtype)


def _decode_time(cells: Sequence[str], spec: Spec) -> Any:
    unit, _, zone = spec["dtype"][len("datetime64[") : -1].partition(", ")
    plain = ["NaT" if cell == MISSING else cell.removesuffix("Z") for cell in cells]
    strange = next((text for text in plain if text != "NaT" and not _TIME.fullmatch(text)), None)
    if strange is not None:
        raise ValueError(f"{strange!r} is no time in UTC such as 2026-11-30T22:28:46Z")
    stamps = pd.DatetimeIndex(np.array(plain, dtype=f"M8[{unit}]"))
    return stamps.tz_localize("UTC").tz_convert(zone) if zone else stamps


def _decode_span(cells: Sequence[str], spec: Spec) -> Any:
    lowest = np.iinfo(np.int64).min  # which is how numpy writes a missing one
    counts = [lowest if cell == MISSING else int(cell) for cell in cells]
    return pd.TimedeltaIndex(np.array(counts, dtype=np.int64).view(spec["dtype"]))


def _decode_object(cells: Sequence[str], spec: Spec) -> Any:
    values = np.empty(len(cells), dtype=object)
    for i, cell in enumerate(cells):
        values[i] = exact_json.loads(cell, _READ_OTHER)
    return pd.Series(values, dtype=object).array


def _decode_text(cells: Sequence[str], spec: Spec) -> Any:
    values = [None if cell == MISSING else read_text(cell) for cell in cells]
    options = {} if spec["missing"] == "NA" else {"na_value": np.nan}
    try:
        dtype = pd.StringDtype(spec["storage"], **options)
    except ImportError:  # written where pyarrow was installed, and read where it is not
        dtype = pd.StringDtype("python", **options)
    return pd.array(values, dtype=dtype)


def _decode_number(cells: Sequence[str], spec: Spec) -> Any:
    values = [np.nan if cell == MISSING else float(cell) for cell in cells]
    dtype = spec["dtype"]
    if dtype[0] == "f":
        return np.array(values, dtype=dtype)
    missing = np.array([cell == MISSING for cell in cells], dtype=bool)
    return pd.arrays.FloatingArray(np.array(values, dtype=dtype.lower()), missing)


def _decode_whole(cells: Sequence[str], spec: Spec) -> Any:
    values = [None if cell == MISSING else int(cell) for cell in cells]
    if spec["dtype"][0] in "iu":
        return np.array(values, dtype=spec["dtype"])
    missing = np.array([value is None for value in values], dtype=bool)
    plain = np.array([value or 0 for value in values], dtype=spec["dtype"].lower())
    return pd.arrays.IntegerArray(plain, missing)


def _decode_flag(cells: Sequence[str], spec: Spec) -> Any:
    values = [_FLAGS[cell] for cell in cells]
    return np.array(values, dtype=bool) if spec["dtype"] == "bool" else pd.array(values, "boolean")


_FLAGS: Final = {"True": True, "False": False, MISSING: None}
_DECODERS: Final[Mapping[str, Callable[[Sequence[str], Spec], Any]]] = {
    "category": _decode_category,
    "time": _decode_time,
    "span": _decode_span,
    "object": _decode_object,
    "text": _decode_text,
    "number": _decode_number,
    "whole": _decode_whole,
    "flag": _decode_flag,
}


def _object_cell(value: Any, what: str) -> str:
    try:
        return exact_json.dumps(value, _other)
    except TypeError as error:
        raise InvalidOption(
            f"{what} holds what these files cannot hold ({error}); write it as text first"
        ) from None


def _other(value: Any) -> tuple[str, Any] | None:
    if value is pd.NA:
        return "NA", None
    if value is pd.NaT:
        return "NaT", None
    if isinstance(value, pd.Timestamp):
        index = pd.DatetimeIndex([value])
        spec = describe(index, "a time")
        return "time", [encode(index, spec, "a time")[0], spec["dtype"]]
    if isinstance(value, (np.bool_, np.integer)):
        return type(value).__name__, value.item()
    return None


_READ_OTHER: Final[Mapping[str, Callable[[Any], Any]]] = {
    "NA": lambda _: pd.NA,
    "NaT": lambda _: pd.NaT,
    "time": lambda v: _decode_time([v[0]], {"dtype": v[1]})[0],
    **{
        np.dtype(name).type.__name__: np.dtype(name).type
        for name in ("bool", *(f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)))
    },
}
