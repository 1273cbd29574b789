"""Trace: what was recorded, as three typed frames, and the files that it is written to."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from jevlaya_lab.frames.build import calls_frame, events_frame, runs_frame
from jevlaya_lab.frames.schema import RUNS
from jevlaya_lab.frames.showing import trace_html
from jevlaya_lab.markup import safely
from jevlaya_lab.system_one.errors import InvalidInput, InvalidOption
from jevlaya_lab.tracing.records import Record

__all__ = ["Trace"]


@dataclass(frozen=True, eq=False, repr=False)
class Trace:
    """What was recorded, as three frames with fixed columns and dtypes, also when empty.

    ``docs/traces.md`` lists every column with its unit.

    Attributes:
        runs: One row per run, in the order in which they started.
        events: One row per event of a run (``hook`` is missing there), and one per hook that ran.
        n_dropped: Runs that were recorded and no longer kept.
        seed: The seed of the experiment that was traced, where there is one.
    """

    runs: pd.DataFrame
    events: pd.DataFrame
    n_dropped: int = 0
    seed: int | None = None
    _calls: pd.DataFrame | None = None

    @cached_property
    def calls(self) -> pd.DataFrame:
        """One row per outermost call; made from ``runs`` at the first use."""
        return calls_frame(self.runs) if self._calls is None else self._calls

    @classmethod
    def from_records(
        cls, records: Sequence[Record] = (), *, clock: float = 0.0, n_dropped: int = 0
    ) -> Trace:
        """Build the frames from what a recorder kept.

        Args:
            records: Runs with their events, in any order.
            clock: The reading of ``time.perf_counter()`` that counts as millisecond 0.
            n_dropped: Runs that were recorded and no longer kept.
        """
        return cls(runs_frame(records, clock), events_frame(records, clock), n_dropped=n_dropped)

    # --- choosing and summing up -------------------------------------------------------------

    def where(
        self, keep: Callable[[pd.DataFrame], Any] | pd.Series[bool] | None = None, /, **values: Any
    ) -> Trace:
        """The part of the trace whose runs fit all conditions, with their events and calls.

        A call stays as it was, also where some of its runs do not fit.

        Args:
            keep: A boolean Series over ``runs``, or a function of ``runs`` that gives one.
            **values: For a column of ``runs``: the value wanted, a list of values, or ``None`` for
                missing ones.

        Raises:
            InvalidOption: There is no such column.
        """
        chosen = pd.Series(True, index=self.runs.index)
        if keep is not None:
            mask = keep(self.runs) if callable(keep) else keep
            chosen &= pd.Series(mask, index=self.runs.index).astype("boolean").fillna(False)
        for name, wanted in values.items():
            if name not in RUNS:
                raise InvalidOption(f"runs have no column {name!r}; they have {', '.join(RUNS)}")
            column = self.runs[name]
            if wanted is None:
                chosen &= column.isna()
            else:
                listed = wanted if isinstance(wanted, (list, tuple, set)) else [wanted]
                chosen &= column.isin(list(listed)).fillna(False).astype(bool)
        runs = self.runs[chosen.astype(bool)]
        events = self.events[self.events["run_id"].isin(runs["run_id"])]
        calls = self.calls[self.calls["call_id"].isin(runs["call_id"].dropna())]
        return replace(
            self,
            runs=runs.reset_index(drop=True),
            events=events.reset_index(drop=True),
            _calls=calls.reset_index(drop=True),
        )

    def summary(self) -> pd.DataFrame:
        """Per scope, checkpoint and entry: how many runs, how long, where the time went.

        See :func:`jevlaya_lab.frames.summary.summary`.
        """
        from jevlaya_lab.frames.summary import summary

        return summary(self.runs)

    def compare(self, other: Trace) -> pd.DataFrame:
        """The summaries of two traces side by side, one row per figure.

        See :func:`jevlaya_lab.frames.summary.compare`.
        """
        from jevlaya_lab.frames.summary import compare

        if not isinstance(other, Trace):
            raise InvalidInput(f"compare takes another trace, got a {type(other).__name__}")
        return compare(self.runs, other.runs)

    # --- files -------------------------------------------------------------------------------

    def to_csv(self, path: str | os.PathLike[str], *, escape_formulas: bool = True) -> Path:
        """Write the runs to ``path``, and beside it the calls, the events and the schema.

        ``out/trace.csv`` gets ``trace.calls.csv``, ``trace.events.csv`` and ``trace.schema.json``.
        All four are there as a whole, or as they were before. :func:`read_trace_csv` reads them.

        Args:
            path: Where; missing folders are made.
            escape_formulas: Put an apostrophe before text that a spreadsheet would run.

        Returns:
            The path of the runs.
        """
        from jevlaya_lab.frames.trace_files import write_trace_csv

        return write_trace_csv(self, path, escape_formulas=escape_formulas)

    def to_parquet(self, path: str | os.PathLike[str]) -> Path:
        """Write the runs to ``path``, and beside it the calls and the events, as Parquet.

        Needs the extra ``parquet``. :func:`read_trace_parquet` reads them.

        Returns:
            The path of the runs.
        """
        from jevlaya_lab.frames.trace_files import write_trace_parquet

        return write_trace_parquet(self, path)

    def to_chrome(self, path: str | os.PathLike[str]) -> Path:
        """Write a timeline in Chrome's Trace Event Format, which https://ui.perfetto.dev opens.

        Returns:
            The path.
        """
        from jevlaya_lab.frames.trace_files import checked_target
        from jevlaya_lab.tracing.chrome import write_chrome

        target = checked_target(path)
        write_chrome(_rows(self.runs), _rows(self.events), target)
        return target

    def to_otel(self, tracer_provider: Any = None) -> int:
        """Export the runs as OpenTelemetry spans. Needs the extra ``otel``.

        Args:
            tracer_provider: The SDK's; ``None`` takes the one that is configured for the process.

        Returns:
            How many spans were made.

        Raises:
            InvalidOption: None was given and none is configured.
        """
        from jevlaya_lab.tracing.otel import export

        calls = _rows(self.calls)
        return export(calls, _rows(self.runs), _rows(self.events), tracer_provider)

    def _repr_html_(self) -> str:
        return safely(self, trace_html)

    def __repr__(self) -> str:
        facts = [
            f"{self.runs['call_id'].nunique()} calls",
            f"{len(self.runs)} runs",
            f"{len(self.events)} events",
        ]
        if self.n_dropped:
            facts.append(f"{self.n_dropped} dropped")
        return f"Trace({', '.join(facts)})"


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows as plain dicts, with ``None`` for missing."""
    columns = []
    for name in frame.columns:
        values = frame[name].astype(object)
        columns.append(values.where(frame[name].notna(), None).tolist())
    names = list(frame.columns)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
