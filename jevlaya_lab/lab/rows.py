"""The rows of one call of the Lab: what is asked, and what came of it so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from jevlaya_lab.lab.asking import Outcome
from jevlaya_lab.lab.inputs import same_states
from jevlaya_lab.system_one.questions import Question

__all__ = ["Rows"]


class Rows:
    """States on an index; equal ones are asked once.

    Args:
        states: One per row.
        index: Of the data.
        questions: What is asked.
        by_name: Options that go with each row, one value per row.
        of_call: Options of the call.
        wrong: The errors of rows that cannot be asked about.
        errors: ``raise`` or ``coerce``.

    Attributes:
        found: What came of those that were asked, by their place among these.
    """

    def __init__(
        self,
        states: list[Any],
        index: pd.Index,
        questions: Sequence[Question],
        by_name: Mapping[str, list[Any]],
        of_call: Mapping[str, Any],
        wrong: Mapping[int, Exception],
        errors: str,
    ) -> None:
        self.index = index
        self.questions = questions
        self.of_call = of_call
        self.errors = errors
        self.found: dict[int, Outcome] = {}
        self._states = states
        self._by_name = by_name
        self._wrong = wrong
        self._asked: list[int] = []  # the rows that are asked
        self._place: dict[int, int] = {}  # of every row that is fine, among those

    def merge_equal(self, dedupe: bool) -> None:
        """Choose the rows to ask: of equal ones only the first."""
        fine = [i for i in range(len(self._states)) if i not in self._wrong]
        first = fine
        if dedupe:
            options = [[values[i] for i in fine] for values in self._by_name.values()]
            same = same_states([self._states[i] for i in fine], options)
            first = [fine[k] for k in same]
        for i, one in zip(fine, first, strict=True):
            if one == i:
                self._place[i] = len(self._asked)
                self._asked.append(i)
            else:
                self._place[i] = self._place[one]

    @property
    def to_ask(self) -> list[Any]:
        """The states to ask about."""
        return [self._states[i] for i in self._asked]

    def options_of(self, place: int) -> dict[str, Any]:
        """The options of a row that is asked; those that are missing are left out."""
        row = self._asked[place]
        values = {name: each[row] for name, each in self._by_name.items()}
        return {name: value for name, value in values.items() if value is not None}

    def outcomes(self) -> tuple[list[int], list[Outcome]]:
        """The rows that are done, and what came of them."""
        done: list[int] = []
        found: list[Outcome] = []
        for i in range(len(self._states)):
            outcome = self._wrong.get(i) or self.found.get(self._place.get(i, -1))
            if outcome is not None:
                done.append(i)
                found.append(outcome)
        return done, found
