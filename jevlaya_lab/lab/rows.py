"""The rows of one call of the Lab: what is asked, and what came of it so far."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from jevlaya_lab.lab.asking import OF_A_REQUEST, Outcome, check_options, is_router
from jevlaya_lab.lab.inputs import StateColumns, by_row, check_each, read_states, same_states
from jevlaya_lab.lab.results import Shape, check_columns
from jevlaya_lab.system_one.errors import InvalidOption
from jevlaya_lab.system_one.questions import Question, Questions, prepare

__all__ = ["Rows", "read_rows"]


class Rows:
    """States on an index; equal ones are asked once.

    Args:
        states: One per row.
        index: Of the data.
        questions: What is asked.
        by_name: Options that go with each row, one value per row.
        shared: Those of them that are the same for all rows.
        of_call: Options of the call.
        wrong: The errors of rows that cannot be asked about.

    Attributes:
        index: As given, like the next three.
        questions: What is asked.
        shared: Options of rows that are the same for all of them.
        of_call: Options of the call.
        varying: Names of options that each row has its own of.
        found: What came of those that were asked, by their place among these.
    """

    def __init__(
        self,
        states: list[Any],
        index: pd.Index,
        questions: tuple[Question, ...],
        by_name: Mapping[str, list[Any]],
        shared: Mapping[str, Any],
        of_call: Mapping[str, Any],
        wrong: Mapping[int, Exception],
    ) -> None:
        self.index = index
        self.questions = questions
        self.shared = shared
        self.of_call = of_call
        self.varying = frozenset(by_name) - frozenset(shared)
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

    def label_of(self, place: int) -> Any:
        """The index label of a row that is asked; of equal rows the first one's."""
        return self.index[self._asked[place]]

    def outcomes(self) -> tuple[pd.Index, list[Outcome]]:
        """What came of the rows that are done, and their index."""
        done: list[int] = []
        found: list[Outcome] = []
        for i in range(len(self._states)):
            outcome = self._wrong.get(i) or self.found.get(self._place.get(i, -1))
            if outcome is not None:
                done.append(i)
                found.append(outcome)
        # A choice of all rows would be another kind of index: no range, no frequency.
        return self.index if len(done) == len(self.index) else self.index[done], found


def read_rows(
    target: Any,
    data: Any,
    questions: Questions,
    state: StateColumns,
    shape: Shape,
    options: Mapping[str, Any],
    *,
    every: bool = False,
) -> Rows:
    """Read and check all that a call of the Lab was given.

    Args:
        target: The agent or router.
        data: See :func:`read_states`.
        questions: What is asked.
        state: See :func:`read_states`.
        shape: What the answers shall look like.
        options: Further options of the call.
        every: Whether each of the options goes with a row, not with the call.

    Raises:
        InvalidInput: Something of it is not usable.
    """
    for name, value, known in (
        ("layout", shape.layout, ("wide", "long")),
        ("errors", shape.errors, ("raise", "coerce")),
    ):
        if value not in known:
            raise InvalidOption(f"{name} is {' or '.join(map(repr, known))}, got {value!r}")
    prepared = prepare(questions)
    check_columns(prepared, shape)
    states, index = read_states(data, state)
    wrong = check_each(states, index)
    if shape.errors == "raise":
        for each in wrong.values():
            raise each
    of_row = OF_A_REQUEST if is_router(target) else ()
    given = {name: each for name, each in options.items() if every or name in of_row}
    by_name = {name: by_row(name, each, index) for name, each in given.items()}
    shared = {name: each for name, each in given.items() if not isinstance(each, pd.Series)}
    of_call = {name: each for name, each in options.items() if name not in given}
    check_options(target, "predict_long" if every else "predict_batch", options, of_row)
    return Rows(states, index, prepared, by_name, shared, of_call, wrong)
