"""The lab: states and questions in, DataFrames and traces out."""

from jevlaya_lab.lab.lab import Lab

__all__ = ["Lab"]
