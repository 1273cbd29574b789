"""The states that are written in a cell: text, JSON lines or CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import pandas as pd
from IPython.core.error import UsageError

__all__ = ["FORMATS", "CellStates", "read_cell"]

FORMATS: Final = ("text", "jsonl", "csv")
_STATE_COLUMNS: Final = ("state", "text")


class CellStates(NamedTuple):
    """What was read, in the form that a Lab takes.

    Attributes:
        data: A Series of states, or a DataFrame of text.
        state: Of a DataFrame the column or columns that are the state.
        said: What was guessed, in a sentence; ``None`` where nothing was.
    """

    data: Any
    state: Any
    said: str | None


def read_cell(cell: str, form: str | None, columns: Sequence[str]) -> CellStates:
    """Read the states of a cell.

    Args:
        cell: Its text.
        form: ``text``: one state per line that is not blank. ``jsonl``: one JSON value per line.
            ``csv``: a table with a head. ``None`` guesses.
        columns: Of a table: the columns that make the state. Where none is named, ``state`` or
            ``text`` is taken, or the only column, or else all.

    Raises:
        UsageError: The cell cannot be read as that; the message names the line.
    """
    guessed = form is None
    lines = [line for _, line in _numbered(cell)]
    if not lines:
        raise UsageError("the cell holds no states; write one per line below %%jevlaya")
    if form is None:
        form = "csv" if columns else _guess(cell, lines)
    said = None
    if form == "csv":
        data = _read_csv(cell)
        state: Any = _state_columns(data, columns)
        what = f"CSV, {len(data)} rows, the state is {_named(state)}"
        if guessed or not columns:
            said = f"read as {what}"
    else:
        if columns:
            raise UsageError(f"-s names columns of a table; the cell is read as {form}")
        state = None
        if form == "jsonl":
            states = [_from_json(line, number) for number, line in _numbered(cell)]
        else:
            states = [line.strip() for line in lines]
        data = pd.Series(states, dtype=object)
        if guessed:
            kind = "JSON, one state" if form == "jsonl" else "text, one state"
            said = f"read as {kind} per line: {len(lines)}"
    if guessed and said is not None:
        others = " or ".join(f"-f {each}" for each in FORMATS if each != form)
        said += f" ({others} reads it otherwise)"
    return CellStates(data, state, said)


def _guess(cell: str, lines: Sequence[str]) -> str:
    try:
        for line in lines:
            if not isinstance(json.loads(line), (dict, list, str)):
                break
        else:
            return "jsonl"
    except (ValueError, RecursionError):
        pass
    try:
        rows = _rows(cell)
    except UsageError:
        return "text"
    # A head looks like names, not like a sentence with commas and blanks in it.
    head = bool(rows) and all(name.isidentifier() for name in rows[0])
    even = len(rows) > 1 and {len(row) for row in rows} == {len(rows[0])}
    wide = bool(rows) and (len(rows[0]) > 1 or rows[0][0].strip() in _STATE_COLUMNS)
    return "csv" if head and even and wide else "text"


def _numbered(cell: str) -> list[tuple[int, str]]:
    """Lines that are not blank, with their numbers in the whole cell.

    Only line feeds part them: other breaks, such as U+2028 in JSON, belong to a state.
    """
    lines = cell.replace("\r\n", "\n").split("\n")
    return [(i, line) for i, line in enumerate(lines, 2) if line.strip()]


def _from_json(line: str, number: int) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"line {number} of the cell is no JSON: {error}") from None


def _rows(cell: str) -> list[list[str]]:
    """A table, by whichever of comma, semicolon and tab parts its head the most.

    Raises:
        UsageError: A quote is not closed, or something follows one within its cell.
    """
    cell = cell.replace("\r\n", "\n")
    text = cell.strip("\n")
    begin = 2 + len(cell) - len(cell.lstrip("\n"))
    first = text.partition("\n")[0]
    mark = max(",;\t", key=first.count)
    # Strictly: else an open quote would take in all the rows below it.
    reader = csv.reader(io.StringIO(text, newline="\n"), delimiter=mark, strict=True)
    rows, done = [], 0
    try:
        for row in reader:
            done = reader.line_num
            if row:
                rows.append(row)
    except csv.Error as error:
        raise UsageError(
            f"the row that begins on line {begin + done} of the cell cannot be read ({error}); "
            'quotes go around a whole cell, and inside of it stand twice: "say ""hi"""'
        ) from None
    return rows


def _read_csv(cell: str) -> pd.DataFrame:
    rows = _rows(cell)
    if len(rows) < 2:
        raise UsageError("a table in a cell has a line with the names of its columns, then rows")
    head = [name.strip() for name in rows[0]]
    if len(set(head)) < len(head):
        raise UsageError(f"two columns of the table have the same name: {', '.join(head)}")
    for number, row in enumerate(rows[1:], 1):
        if len(row) != len(head):
            raise UsageError(
                f"row {number} of the table has {len(row)} cells, the head has {len(head)}; put "
                "quotes around cells that hold the separator"
            )
    # As it is written: "NA" and "007" are text.
    table: pd.DataFrame = pd.DataFrame(rows[1:], columns=head, dtype=object)
    return table


def _state_columns(data: pd.DataFrame, columns: Sequence[str]) -> Any:
    names = [str(name) for name in data.columns]
    for name in columns:
        if name not in names:
            raise UsageError(f"-s {name}: the table has no such column; it has {', '.join(names)}")
    if columns:
        return columns[0] if len(columns) == 1 else list(columns)
    usual = [name for name in _STATE_COLUMNS if name in names]
    if usual or len(names) == 1:
        return (usual or names)[0]
    return names


def _named(state: Any) -> str:
    return f"column {state}" if isinstance(state, str) else f"columns {', '.join(state)}"
