"""Charts in words and as tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pandas as pd

from jevlaya_lab.views.columns import Series
from jevlaya_lab.views.furniture import (
    rows_table,
)
from jevlaya_lab.views.layout import (
    Table,
)
from jevlaya_lab.views.scales import name_of
from jevlaya_lab.views.text import number, shortened

__all__ = ["alt_of", "bars_said", "lines_said", "table_of"]

_SAID: Final = 6
"""Series that the text of a chart goes into."""


def alt_of(title: str, kind: str, said: Sequence[str], more: Sequence[str]) -> str:
    """The text of a chart: its title, what it shows, and what else is said in it."""
    sentences = [title, f"{kind}: {'; '.join(said)}", *more]
    return " ".join(
        text if text.endswith((".", "!", "?")) else f"{text}." for text in sentences if text
    )


def lines_said(
    series: Sequence[Series], x: str, y: str, by: str | None, categories: Sequence[Any] | None
) -> list[str]:
    """Per line its first and last value, the lowest and the highest one."""

    def at(value: float) -> str:
        return name_of(categories[int(value)]) if categories is not None else number(value)

    said = []
    for each in series[:_SAID]:
        known = [(p.x, p.y) for p in each.points if p.y is not None]
        name = f"{by} {each.name}: " if by is not None else ""
        if not known:
            said.append(f"{name}no values")
            continue
        missing = len(each.points) - len(known)
        gaps = f" ({missing} missing)" if missing else ""
        first, last = known[0], known[-1]
        least, most = min(known, key=lambda p: p[1]), max(known, key=lambda p: p[1])
        said.append(
            f"{name}{len(known)} points{gaps}, {y} {number(first[1])} at {x} {at(first[0])}, "
            f"{number(last[1])} at {at(last[0])}, lowest {number(least[1])} at {at(least[0])}, "
            f"highest {number(most[1])} at {at(most[0])}"
        )
    if len(series) > _SAID:
        said.append(f"and {len(series) - _SAID} more lines")
    return said or ["no data"]


def bars_said(
    bars: dict[tuple[int, int], float | None],
    labels: Sequence[Any],
    groups: Sequence[Any],
    x: str,
    y: str,
    by: str | None,
) -> list[str]:
    """Per group the first values, the lowest and the highest one."""
    said = []
    for group, name in enumerate(groups):
        own = {place: v for (place, g), v in sorted(bars.items()) if g == group and v is not None}
        prefix = f"{by} {name_of(name)}: " if by is not None else ""
        if not own:
            said.append(f"{prefix}no data")
            continue
        each = shortened([f"{name_of(labels[i])} {number(v)}" for i, v in own.items()], 8)
        least, most = min(own, key=lambda i: own[i]), max(own, key=lambda i: own[i])
        said.append(
            f"{prefix}{y} by {x}: {each}; lowest {number(own[least])} ({name_of(labels[least])}), "
            f"highest {number(own[most])} ({name_of(labels[most])})"
        )
    if len(said) > _SAID:
        said[_SAID:] = [f"and {len(said) - _SAID} more groups"]
    return said or ["no data"]


def table_of(frame: pd.DataFrame, columns: Sequence[str | None]) -> Table:
    """The columns that a chart is drawn of, as text."""
    names = list(dict.fromkeys(name for name in columns if name is not None))
    rows = (
        [name_of(cell) if not isinstance(cell, float) else number(cell) for cell in row]
        for row in frame[names].itertuples(index=False, name=None)
    )
    return rows_table([str(name) for name in names], rows, len(frame))
