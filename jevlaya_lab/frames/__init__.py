"""Results and traces as typed DataFrames; files both ways."""

from jevlaya_lab.frames.answers import (
    answer_columns,
    answers_frame,
    check_results,
    long_answers_frame,
)
from jevlaya_lab.frames.csv_files import write_csv
from jevlaya_lab.frames.csv_reading import read_csv
from jevlaya_lab.frames.trace import Trace
from jevlaya_lab.frames.trace_files import read_trace_csv, read_trace_parquet

__all__ = [
    "Trace",
    "answer_columns",
    "answers_frame",
    "check_results",
    "long_answers_frame",
    "read_csv",
    "read_trace_csv",
    "read_trace_parquet",
    "write_csv",
]
