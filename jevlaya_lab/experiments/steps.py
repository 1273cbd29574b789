"""How a long experiment says how far it is, and how it is stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from tqdm.auto import tqdm

from jevlaya_lab.system_one.errors import JevlayaError

__all__ = ["ExperimentStopped", "Progress", "Report", "steps"]

T = TypeVar("T")


class ExperimentStopped(JevlayaError):
    """An experiment was stopped between two of its steps, by whoever follows its progress."""


class Report(Protocol):
    """Called before each step and after the last one; may raise :class:`ExperimentStopped`."""

    def __call__(self, done: int, total: int, step: str, /) -> None:
        """``done`` of ``total`` steps are finished; ``step`` names the next one."""


Progress = bool | Report
"""``True`` shows a bar, ``False`` nothing, a function is called."""


def steps(items: Sequence[T], progress: Progress, name: Callable[[T], str] = str) -> Iterator[T]:
    """Go through the steps of an experiment, saying how far it is.

    Args:
        items: What the steps are about.
        progress: See :data:`Progress`.
        name: What a step is called.
    """
    if not callable(progress):
        yield from tqdm(items, unit="step", disable=not progress, leave=False)
        return
    for i, item in enumerate(items):
        progress(i, len(items), name(item))
        yield item
    progress(len(items), len(items), "")
