"""The lab: states and questions in, DataFrames and traces out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jevlaya_lab.lab.lab import Lab

__all__ = ["Lab"]


def __getattr__(name: str) -> Any:
    # Late, so that the accessor of DataFrames is there without all that a Lab needs.
    if name != "Lab":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from jevlaya_lab.lab.lab import Lab

    return Lab
