"""Frames of measurements with the dtypes of the traces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import pandas as pd

__all__ = ["COUNT", "FLAG", "NUMBER", "TEXT", "levels", "table"]

TEXT: Final = pd.StringDtype("python")
COUNT: Final = pd.Int64Dtype()
FLAG: Final = pd.BooleanDtype()
NUMBER: Final = "float64"


def levels(values: Sequence[str]) -> pd.CategoricalDtype:
    """A category with these values, in this order."""
    return pd.CategoricalDtype(list(values), ordered=True)


def table(
    rows: Iterable[Sequence[Any] | Mapping[str, Any]], dtypes: Mapping[str, Any]
) -> pd.DataFrame:
    """Rows as a frame with these columns and dtypes, also where there are none.

    Args:
        rows: Of each its cells in the order of the columns, or by their names; of the latter what
            is left out is missing.
        dtypes: By the name of the column.
    """
    cells = [
        [row.get(name) for name in dtypes] if isinstance(row, Mapping) else row for row in rows
    ]
    found: pd.DataFrame = pd.DataFrame(cells, columns=list(dtypes), dtype=object)
    typed: pd.DataFrame = found.astype(dict(dtypes))
    return typed
