"""Lab: the thin wrapper around an agent or a router. States and questions in, DataFrames out."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from datetime import date, time
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd
from tqdm.auto import tqdm

from jevlaya_lab.frames import Trace, answer_columns, answers_frame, check_results
from jevlaya_lab.frames.decisions import decisions_frame
from jevlaya_lab.system_one.encoding import check_count, check_states
from jevlaya_lab.system_one.errors import InvalidInput, InvalidState
from jevlaya_lab.system_one.hooks import CallableArg, HookArg
from jevlaya_lab.system_one.questions import Questions, prepare
from jevlaya_lab.system_one.router import Router
from jevlaya_lab.tracing.recorder import TraceRecorder

if TYPE_CHECKING:
    from jevlaya_lab.views.picture import Picture

__all__ = ["Lab"]

StateColumns = Hashable | Sequence[Hashable] | Callable[[Any], Any] | None


_OF_A_REQUEST: Final = ("model", "task", "lang", "lang_guess", "max_len", "head_max_len")
"""Options that a Router takes with each request."""


class Lab:
    """Ask an agent or a router about tables of states, and see what happened.

    Args:
        agent: Whom to ask: an agent or a router; ``None`` makes a ``Router()``, which answers with
            the embedded checkpoint.
        capacity: How many runs the trace keeps.

    Attributes:
        agent: The agent or router.
        recorder: The hook that records; it runs last in every call of this Lab.
        answers: The frame of the last ``predict``; ``None`` before the first.
        routing: For a router: the decisions of the last ``predict``, on the same index.
    """

    def __init__(self, agent: Any = None, *, capacity: int = 100_000) -> None:
        if agent is not None and (isinstance(agent, type) or not hasattr(agent, "predict_batch")):
            raise InvalidInput(
                f"Lab takes an agent or a router, an object with predict_batch; got {agent!r}. For "
                "a checkpoint write Lab(Agent(...))"
            )
        self.recorder = TraceRecorder(capacity)
        self.agent = Router() if agent is None else agent
        self.answers: pd.DataFrame | None = None
        self.routing: pd.DataFrame | None = None

    def predict(
        self,
        data: Any,
        questions: Questions,
        *,
        state: StateColumns = None,
        detail: bool = False,
        chunk_size: int = 32,
        hooks: HookArg = None,
        on_predict_start: CallableArg = None,
        on_predict_end: CallableArg = None,
        progress: bool = True,
        **options: Any,
    ) -> pd.DataFrame:
        """Ask the same typed questions about every row.

        Args:
            data: A DataFrame, a Series, a list of states, or one state as text or a dict.
            questions: ``{id: definition}``, plain dicts or ``Choice``, ``Score``, ``Noul``.
            state: For a DataFrame: the column that holds the states, several columns (each state
                is then a JSON object of them), or a function of the row.
            detail: Add confidences and the probability of every option, and of a router's
                decisions ``routing_model``, ``routing_language``, ``routing_reason`` and the rest.
            chunk_size: States per call of ``predict_batch``; each call is one run of the trace.
            hooks: Hooks for these calls.
            on_predict_start: Functions to run as start hooks after those.
            on_predict_end: Functions to run as end hooks after those.
            progress: Show a progress bar where there is more than one chunk.
            **options: Passed to ``predict_batch``, or put into each request of a router.

        Returns:
            One row per state on the index of ``data``: a ``category`` per choice, a ``float64`` per
            score (expected level) and per noul (probability of yes).

        Raises:
            InvalidInput: A question, the data or an option is not usable; nothing was asked then.
            InvalidResult: The hooks left something else than one result with all answers per state.
        """
        prepared = prepare(questions)
        answer_columns(prepared, detail)
        states, index = _read_states(data, state)
        check_states(states)
        size = check_count("chunk_size", chunk_size) or len(states) or 1
        # As functions the recorder's methods come last, behind those of the caller.
        starts_with = [*_listed(on_predict_start), self.recorder.on_predict_start]
        ends_with = [*_listed(on_predict_end), self.recorder.on_predict_end]
        results: list[dict[str, Any]] = []
        starts = range(0, len(states), size)
        for first in tqdm(starts, unit="chunk", disable=not progress or len(starts) < 2):
            chunk = states[first : first + size]
            try:
                found = self._ask(
                    chunk,
                    questions,
                    options,
                    hooks=hooks,
                    on_predict_start=starts_with,
                    on_predict_end=ends_with,
                )
            except BaseException:
                self.recorder.settle()  # a failed end hook kept the recorder from noting the run
                raise
            check_results(found, len(chunk), prepared, first)
            results += found
        self.answers = answers_frame(results, prepared, index, detail=detail)
        self.routing = None
        if hasattr(self.agent, "route_batch"):
            decisions = [result.get("routing") for result in results]
            self.routing = decisions_frame(decisions, index)
            if detail:
                shown = decisions_frame(decisions, index, prefix="routing_")
                self.answers = pd.concat([self.answers, shown], axis=1)
        return self.answers

    def _ask(
        self, states: list[Any], questions: Questions, options: dict[str, Any], **hooks: Any
    ) -> Any:
        if not hasattr(self.agent, "route_batch"):
            return self.agent.predict_batch(states, questions, **options, **hooks)
        own = {name: each for name, each in options.items() if name in _OF_A_REQUEST}
        rest = {name: each for name, each in options.items() if name not in _OF_A_REQUEST}
        requests = [{"state": state, "questions": questions, **own} for state in states]
        return self.agent.predict_batch(requests, **rest, **hooks)

    @property
    def trace(self) -> Trace:
        """All runs recorded since the Lab was made or :meth:`clear` was called."""
        return self.recorder.trace

    def lifecycle(self, run_id: str | None = None) -> Picture:
        """The lifecycle diagram of one run.

        Args:
            run_id: Which run, by its id or the beginning of it; ``None`` is the last one.

        Raises:
            InvalidInput: Nothing was recorded, or no run has that id.
        """
        from jevlaya_lab.views.lifecycle import lifecycle_layout
        from jevlaya_lab.views.picture import Picture

        trace = self.trace
        if trace.runs.empty:
            raise InvalidInput("nothing was recorded yet; call predict first")
        chosen = trace.runs.iloc[[-1]]
        if run_id is not None:
            if not isinstance(run_id, str):
                raise InvalidInput(f"run_id is the text of an id or its beginning, got {run_id!r}")
            chosen = trace.runs[trace.runs["run_id"].str.startswith(run_id)]
            if len(chosen) != 1:
                raise InvalidInput(
                    f"{len(chosen)} recorded runs have an id that begins with {run_id!r}; "
                    "see lab.trace.runs"
                )
        run = chosen.iloc[0]
        events = trace.events[trace.events["run_id"] == run["run_id"]]
        return Picture(lifecycle_layout(run, events))

    def clear(self) -> None:
        """Forget the trace and the last answers."""
        self.recorder.clear()
        self.answers = None

    def __repr__(self) -> str:
        return f"Lab({self.agent!r}, {self.trace!r})"


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _read_states(data: Any, state: StateColumns) -> tuple[list[Any], pd.Index]:
    """The states of some data as a list, and the index that the answers get."""
    if isinstance(data, pd.DataFrame):
        return _frame_states(data, state), data.index
    if state is not None:
        raise InvalidInput(
            f"state= names columns of a DataFrame; this data is a {type(data).__name__}"
        )
    if isinstance(data, pd.Series):
        return _present(data.tolist(), data.index), data.index
    if isinstance(data, np.ndarray) and data.ndim == 1:
        data = data.tolist()
    if isinstance(data, (list, tuple)):
        index = pd.RangeIndex(len(data))
        return _present(list(data), index), index
    if isinstance(data, (str, dict)):
        return [data], pd.RangeIndex(1)
    raise InvalidState(
        f"the data is a {type(data).__name__}; pass a DataFrame, a Series, a list of states, "
        "text or a dict"
    )


def _frame_states(data: pd.DataFrame, state: StateColumns) -> list[Any]:
    if state is None:
        raise InvalidInput(
            "state= is missing: name the column that holds the states, several columns, or give a "
            f"function of the row; the columns are {list(data.columns)}"
        )
    if callable(state):
        return _present([state(row) for _, row in data.iterrows()], data.index)
    # A name may be a number, or a tuple where columns have several levels.
    alone = isinstance(state, str) or (isinstance(state, Hashable) and state in data.columns)
    names = [state] if alone else list(state) if isinstance(state, (list, tuple)) else [state]
    columns: list[Any] = list(data.columns)
    twice = [name for name in names if columns.count(name) > 1]
    if twice:
        raise InvalidInput(f"the data has more than one column {twice[0]!r}; rename one of them")
    missing = [name for name in names if name not in data.columns]
    if missing:
        raise InvalidInput(
            f"the data has no column {missing[0]!r}; its columns are {list(data.columns)}"
        )
    if alone:
        return _present(data[state].tolist(), data.index)
    cells = [[_json_value(value) for value in data[name].tolist()] for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*cells, strict=True)]


def _json_value(value: Any) -> Any:
    """A cell as JSON takes it: missing becomes null, dates and times become ISO text."""
    if _missing(value):
        return None
    return value.isoformat() if isinstance(value, (date, time)) else value


def _missing(value: Any) -> bool:
    return (
        value is None
        or value is pd.NA
        or value is pd.NaT
        or (isinstance(value, float) and value != value)
    )


def _present(values: list[Any], index: pd.Index) -> list[Any]:
    for label, value in zip(index, values, strict=True):
        if _missing(value):
            raise InvalidState(
                f"the state at index {label!r} is missing; fill it or drop the row first"
            )
    return values
