"""Asking each row one choice, among options of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from jevlaya_lab.lab.asking import OF_A_REQUEST, Asker, check_options, in_chunks, is_router
from jevlaya_lab.lab.inputs import StateColumns, by_row, check_each, read_states, same_states
from jevlaya_lab.lab.results import Shape
from jevlaya_lab.lab.rows import read_rows
from jevlaya_lab.system_one.definitions import check_definition
from jevlaya_lab.system_one.errors import InvalidInput, InvalidQuestion
from jevlaya_lab.system_one.hooks import entries
from jevlaya_lab.tracing.recorder import TraceRecorder

__all__ = ["Answered", "ManyOptions", "Outcomes"]

_ID: Final = "answer"


class Answered(NamedTuple):
    """One answer: which option (by its place among all), and how sure.

    ``likeliest`` are the options that were asked about, the likeliest first.
    """

    option: int | None
    confidence: float
    answer_confidence: float
    likeliest: list[int]


Outcomes = dict[int, Answered | Exception]
"""By place of the row."""


class ManyOptions:
    """One choice about rows of states; read and judged when it is made, before anything is asked.

    Args:
        agent: Who is asked.
        recorder: Notes what happens.
        question: A choice, or ``{id: choice}``.
        data: See ``Lab.predict``.
        state: See ``Lab.predict``.
        coerce: Whether rows that fail keep their error, instead of ending the call.
        dedupe: Whether equal states are asked once.
        chunk_size: States per call.
        hooks: The caller's.
        options: Of ``predict_batch``.

    Attributes:
        states: One per row.
        index: Of the rows.
        labels: Of the options.
        coerce: As given.
        place_of: For each row the row that is asked in its stead: of equal ones the first.
        to_ask: The rows that are asked.
        wrong: By row, why it has no answer.
        n_asked: By row, how many options it was asked about so far.

    Raises:
        InvalidInput: Something of it is not usable.
    """

    def __init__(
        self,
        agent: Any,
        recorder: TraceRecorder,
        question: Any,
        data: Any,
        state: StateColumns,
        *,
        coerce: bool,
        dedupe: bool,
        chunk_size: int,
        hooks: Mapping[str, Any],
        options: Mapping[str, Any],
    ) -> None:
        self._agent, self._recorder = agent, recorder
        self._qid, self._definition = _one_choice(question)
        checked = check_definition(self._qid, self._definition)
        self.labels = list(checked.keys)
        self.option_texts = [
            label if said is None else f"{label}: {said}"
            for label, said in zip(checked.labels, checked.descriptions, strict=True)
        ]
        entries("call", **hooks)
        self._hooks = hooks
        self.states, self.index = read_states(data, state)
        self.coerce = coerce
        self._chunk_size = chunk_size
        self.wrong: dict[int, Exception] = dict(check_each(self.states, self.index))
        if self.wrong and not coerce:
            raise self.wrong[min(self.wrong)]
        of_row = OF_A_REQUEST if is_router(agent) else ()
        check_options(agent, "predict_batch", options, of_row)
        self._shared = {n: v for n, v in options.items() if not isinstance(v, pd.Series)}
        self._varying = {
            n: by_row(n, v, self.index) for n, v in options.items() if n not in self._shared
        }
        if self._varying and not is_router(agent):
            name = next(iter(self._varying))
            raise InvalidInput(
                f"{name}= is a Series, and an agent takes one {name} for all rows; ask a Router"
            )
        self.place_of = self._first_ones(dedupe)
        self.to_ask = [i for i, at in enumerate(self.place_of) if i == at and i not in self.wrong]
        self.n_asked: dict[int, int] = {}

    def asked(self, wanted: Mapping[int, Sequence[int]]) -> Iterator[Outcomes]:
        """Ask some rows, each about some of the options; rows of the same options go together.

        Yields:
            The answers of some of them, as they come.
        """
        alike: dict[tuple[int, ...], list[int]] = {}
        for place, options in wanted.items():
            alike.setdefault(tuple(options), []).append(place)
        shape = Shape("wide", False, "coerce" if self.coerce else "raise", is_router(self._agent))
        for options, places in alike.items():
            index = self.index[places]
            varying = {
                name: pd.Series([values[i] for i in places], index=index, dtype=object)
                for name, values in self._varying.items()
            }
            states = pd.Series([self.states[i] for i in places], index=index, dtype=object)
            asking = {self._qid: {**self._definition, "criteria": self._some(options)}}
            rows = read_rows(
                self._agent, states, asking, None, shape, {**self._shared, **varying}
            )  # fmt: skip
            asker = Asker(self._agent, self._recorder, asking, rows, self._hooks)
            rows.merge_equal(False)
            if self.coerce:
                asker.check_options()
            n = len(places)
            for chunk in in_chunks(n, self._chunk_size, rows.to_ask, rows.options_of):
                found: Any = asker.outcomes(chunk) if self.coerce else None
                if found is None:
                    found = enumerate(asker.ask(chunk), chunk.first)
                outcomes: Outcomes = {}
                for i, outcome in found:
                    place = places[i]
                    self.n_asked[place] = self.n_asked.get(place, 0) + len(options)
                    outcomes[place] = self._read(outcome, options)
                yield outcomes

    def _read(self, outcome: Any, options: Sequence[int]) -> Answered | Exception:
        if isinstance(outcome, Exception):
            return outcome
        answer = outcome["answers"].get(self._qid) or {}
        choice = answer.get("choice")
        # A hook may have left the answer open.
        option = None if choice is None or choice is pd.NA else self.labels.index(choice)
        p = answer.get("probabilities") or {}
        likeliest = sorted(options, key=lambda i: (-_number(p.get(self.labels[i]), 0.0), i))
        return Answered(
            option,
            _number(answer.get("confidence"), np.nan),
            _number(answer.get("answer_confidence"), np.nan),
            likeliest,
        )

    def _some(self, options: Sequence[int]) -> Any:
        criteria = self._definition["criteria"]
        labels = [self.labels[i] for i in options]
        return {key: criteria[key] for key in labels} if isinstance(criteria, Mapping) else labels

    def _first_ones(self, dedupe: bool) -> list[int]:
        places = list(range(len(self.states)))
        if dedupe:
            fine = [i for i in places if i not in self.wrong]
            varying = [[values[i] for i in fine] for values in self._varying.values()]
            same = same_states([self.states[i] for i in fine], varying)
            for i, first in zip(fine, same, strict=True):
                places[i] = fine[first]
        return places


def _one_choice(question: Any) -> tuple[Any, Mapping[str, Any]]:
    """The id and the definition of the one choice that is asked.

    Raises:
        InvalidQuestion: It is something else.
    """
    if isinstance(question, Mapping) and "type" not in question:
        if len(question) != 1:
            raise InvalidQuestion(
                f"a shortlist is made for one question, got {len(question)}; call it for each"
            )
        ((qid, definition),) = question.items()
    else:
        qid, definition = _ID, question
    checked = check_definition(qid, definition)
    if checked.type != "choice":
        raise InvalidQuestion(
            f"question {qid!r} is a {checked.type}, and a shortlist is of the options of a choice; "
            "use predict"
        )
    if checked.option_order is not None:
        raise InvalidQuestion(
            f"question {qid!r}: an option_order says nothing about a part of the options; leave it "
            "out"
        )
    return qid, definition


def _number(value: Any, otherwise: float) -> float:
    return otherwise if value is None or value is pd.NA else float(value)
