"""Lab: the thin wrapper around an agent or a router. States and questions in, DataFrames out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pandas as pd
from tqdm.auto import tqdm

from jevlaya_lab.frames import Trace
from jevlaya_lab.frames.decisions import decisions_frame
from jevlaya_lab.lab.accessor import register
from jevlaya_lab.lab.asking import Asker, check_target, in_chunks, is_router
from jevlaya_lab.lab.experimenting import Experimenting
from jevlaya_lab.lab.inputs import StateColumns, by_row, check_each, read_states
from jevlaya_lab.lab.interactive import Interactive
from jevlaya_lab.lab.judging import Judging
from jevlaya_lab.lab.naming import of_row
from jevlaya_lab.lab.pictures import Pictures
from jevlaya_lab.lab.results import Shape, result_frames
from jevlaya_lab.lab.rows import Rows, read_rows
from jevlaya_lab.lab.shortlist import OptionVectors, Shortlisting
from jevlaya_lab.lab.showing import lab_html
from jevlaya_lab.markup import safely
from jevlaya_lab.system_one.encoding import check_count
from jevlaya_lab.system_one.errors import InvalidInput, InvalidOption
from jevlaya_lab.system_one.hooks import CallableArg, HookArg
from jevlaya_lab.system_one.questions import Questions
from jevlaya_lab.system_one.router import Router
from jevlaya_lab.tracing.capture import Redact
from jevlaya_lab.tracing.listening import Listening
from jevlaya_lab.tracing.recorder import TraceRecorder

__all__ = ["Lab"]


class Lab(Judging, Shortlisting, Pictures, Experimenting, Interactive):
    """Ask an agent or a router about tables of states, and see what happened.

    Args:
        agent: Whom to ask: an agent or a router, of this package or ``laya``'s; ``None`` makes a
            ``Router()``, which answers with the embedded checkpoint.
        capacity: How many runs the trace keeps.
        capture: What the trace keeps of states: ``"none"``, ``"hash"`` or ``"text"``.
        redact: A function from text to text, applied before any text is kept.

    Attributes:
        agent: The agent or router.
        recorder: The hook that records; it runs last in every call of this Lab.
        answers: The frame of the last call that answered; ``None`` before the first.
        last: The same, or what was finished of a call that was interrupted or failed.
        routing: Of a router: the decisions behind ``last``, on the same index.
    """

    def __init__(
        self,
        agent: Any = None,
        *,
        capacity: int = 100_000,
        capture: str = "none",
        redact: Redact | None = None,
    ) -> None:
        if agent is not None:
            check_target(agent)
        register()  # the accessor of Series and DataFrames
        self.recorder = TraceRecorder(capacity, capture=capture, redact=redact)
        self.agent = Router() if agent is None else agent
        self._options = OptionVectors()
        self.answers: pd.DataFrame | None = None
        self.last: pd.DataFrame | None = None
        self.routing: pd.DataFrame | None = None

    def predict(
        self,
        data: Any,
        questions: Questions,
        *,
        state: StateColumns = None,
        layout: str = "wide",
        detail: bool = False,
        errors: str = "raise",
        dedupe: bool = True,
        chunk_size: int = 32,
        hooks: HookArg = None,
        on_predict_start: CallableArg = None,
        on_predict_end: CallableArg = None,
        progress: bool = True,
        **options: Any,
    ) -> pd.DataFrame:
        """Ask the same typed questions about every row.

        Where the call is interrupted or fails, the rows that were done are in :attr:`last`.

        Args:
            data: A DataFrame, a Series, a list of states, or one state as text or a dict.
            questions: ``{id: definition}``, plain dicts or ``Choice``, ``Score``, ``Noul``.
            state: For a DataFrame: the column that holds the states, several columns (each state
                is then a JSON object of them), or a function of the row.
            layout: ``"wide"``: one row per state. ``"long"``: one per state and question.
            detail: Add confidences and the probability of every option, and of a router's
                decisions ``routing_model``, ``routing_language``, ``routing_reason`` and the rest.
            errors: ``"raise"``, or ``"coerce"``: a row that fails has missing answers and its error
                in the column ``error``; no other row is lost.
            dedupe: Ask about equal states once.
            chunk_size: States per call of ``predict_batch``.
            hooks: Hooks for these calls.
            on_predict_start: Functions to run as start hooks after those.
            on_predict_end: Functions to run as end hooks after those.
            progress: Show a progress bar where there is more than one chunk.
            **options: Passed to ``predict_batch``. Of a router, ``model``, ``task``, ``lang``,
                ``lang_guess``, ``max_len`` and ``head_max_len`` go into each request; a Series on
                the index of the data gives each row its own.

        Returns:
            Wide: one row per state on the index of ``data``, a ``category`` per choice, a
            ``float64`` per score (expected level) and per noul (probability of yes). Long: see
            :func:`jevlaya_lab.frames.long_answers_frame`.

        Raises:
            InvalidInput: A question, the data or an option is not usable; nothing was asked then.
            InvalidResult: The hooks left something else than one result with all answers per state.
            BaseException: What the calls raised.
        """
        shape = Shape(layout, detail, errors, is_router(self.agent))
        rows = read_rows(self.agent, data, questions, state, shape, options)
        size = check_count("chunk_size", chunk_size) or 1
        hook_args = _hooks(hooks, on_predict_start, on_predict_end)
        asker = self._asker(questions, rows, hook_args)
        rows.merge_equal(dedupe)
        if errors == "coerce":
            asker.check_options()
        states, n = rows.to_ask, len(rows.to_ask)
        with self._keeping(rows, shape, asker) as kept, _bar(n, progress and n > size) as bar:
            for chunk in in_chunks(n, size, states, rows.options_of):
                if errors == "coerce":
                    for i, outcome in asker.outcomes(chunk):
                        rows.found[i] = outcome
                else:
                    rows.found.update(enumerate(asker.ask(chunk), chunk.first))
                bar.update(len(chunk.states))
        return self._answered(kept)

    def predict_long(
        self,
        data: Any,
        questions: Questions,
        *,
        state: StateColumns = None,
        layout: str = "wide",
        detail: bool = False,
        errors: str = "raise",
        dedupe: bool = True,
        window: int | None = None,
        stride: int | None = None,
        batch_size: int | None = None,
        hooks: HookArg = None,
        on_predict_start: CallableArg = None,
        on_predict_end: CallableArg = None,
        progress: bool = True,
        **options: Any,
    ) -> pd.DataFrame:
        """Ask about states that may be longer than the window, see ``Agent.predict_long``.

        Args:
            data: See :meth:`predict`, as for all that is not named here.
            questions: See :meth:`predict`.
            state: See :meth:`predict`.
            layout: See :meth:`predict`.
            detail: See :meth:`predict`; adds where each answer was found, ``<id>__char_start`` and
                ``<id>__char_end``, and ``n_windows``.
            errors: See :meth:`predict`.
            dedupe: See :meth:`predict`.
            window: State tokens of a window.
            stride: State tokens from one window's start to the next one's.
            batch_size: Windows per forward pass.
            hooks: See :meth:`predict`.
            on_predict_start: See :meth:`predict`.
            on_predict_end: See :meth:`predict`.
            progress: See :meth:`predict`.
            **options: Passed to ``predict_long``; a Series gives each row its own.

        Returns:
            As :meth:`predict`.

        Raises:
            InvalidInput: As :meth:`predict`, or the agent cannot read long states.
        """
        if not hasattr(self.agent, "predict_long"):
            raise InvalidInput(
                f"{type(self.agent).__name__} has no predict_long; use predict, which reads as "
                "much of a state as fits"
            )
        given = {"window": window, "stride": stride, "batch_size": batch_size}
        options |= {n: check_count(n, each) for n, each in given.items() if each is not None}
        if window is not None and stride is not None and stride > window:
            raise InvalidOption(
                f"stride ({stride}) is larger than window ({window}): what lies between two "
                "windows would not be read; make it at most a window"
            )
        shape = Shape(layout, detail, errors, is_router(self.agent), spans=True)
        rows = read_rows(self.agent, data, questions, state, shape, options, every=True)
        hook_args = _hooks(hooks, on_predict_start, on_predict_end)
        asker = self._asker(questions, rows, hook_args)
        rows.merge_equal(dedupe)
        if errors == "coerce":
            asker.check_options()
        states, n = rows.to_ask, len(rows.to_ask)
        ask = asker.ask_long if errors == "raise" else asker.outcome_long
        with self._keeping(rows, shape, asker) as kept, _bar(n, progress and n > 1) as bar:
            for i, each in enumerate(states):
                rows.found[i] = ask(i, each)
                bar.update()
        return self._answered(kept)

    def route(
        self,
        data: Any,
        questions: Questions | None = None,
        *,
        state: StateColumns = None,
        explain: bool = False,
        hooks: HookArg = None,
        **options: Any,
    ) -> pd.DataFrame:
        """Where a router would send every row, and why; nothing is loaded.

        Args:
            data: See :meth:`predict`.
            questions: What would be asked; only workflows are recognised by it.
            state: See :meth:`predict`.
            explain: Add what the detector saw: ``scripts`` (shares as JSON), ``n_letters`` and its
                own ``detector`` sentence.
            hooks: Hooks for these calls; ``on_route`` may replace decisions.
            **options: ``model``, ``task``, ``lang``, ``lang_guess``; a Series gives each row its
                own.

        Returns:
            One row per state on the index of ``data``, see
            :func:`jevlaya_lab.frames.decisions.decisions_frame`.

        Raises:
            InvalidInput: This Lab asks an agent, or the data or a hint is not usable.
        """
        if not is_router(self.agent):
            raise InvalidInput(
                "this Lab asks an agent, which routes nothing; make it of a router: Lab(Router())"
            )
        states, index = read_states(data, state)
        for wrong in check_each(states, index).values():
            raise wrong
        columns = {name: by_row(name, each, index) for name, each in options.items()}
        requests = [
            {
                "state": each,
                "questions": questions or {},
                **{name: values[i] for name, values in columns.items()},
            }
            for i, each in enumerate(states)
        ]
        listening = Listening(self.recorder, self.agent, "route_batch", hooks)
        try:
            with listening:
                decisions = self.agent.route_batch(
                    requests, hooks=listening.hooks["hooks"], explain=explain
                )
        except Exception as exc:
            named = of_row(exc, index.__getitem__)
            if named is exc:
                raise
            raise named from exc
        self.routing = decisions_frame(decisions, index, explain=explain)
        return self.routing

    @property
    def trace(self) -> Trace:
        """All runs recorded since the Lab was made or :meth:`clear` was called."""
        return self.recorder.trace

    def clear(self) -> None:
        """Forget the trace and the last answers."""
        self.recorder.clear()
        self.answers = self.last = self.routing = None

    def _asker(self, questions: Questions, rows: Rows, hooks: Mapping[str, Any]) -> Asker:
        return Asker(self.agent, self.recorder, questions, rows, hooks)

    @contextmanager
    def _keeping(self, rows: Rows, shape: Shape, asker: Asker) -> Iterator[list[pd.DataFrame]]:
        """Make the frames of the rows that are done when the block ends, however it does.

        The list gets this call's own frame: other threads may set the attributes meanwhile.
        """
        kept: list[pd.DataFrame] = []
        try:
            yield kept
        finally:
            index, outcomes = rows.outcomes()
            answers, self.routing = result_frames(
                outcomes, rows.questions, index, shape, asker.temperatures
            )
            self.last = answers
            kept.append(answers)

    def _answered(self, kept: list[pd.DataFrame]) -> pd.DataFrame:
        (self.answers,) = kept
        return kept[0]

    def _repr_html_(self) -> str:
        return safely(self, lab_html)

    def __repr__(self) -> str:
        return f"Lab({self.agent!r}, {self.recorder!r})"


def _bar(n: int, shown: bool) -> Any:
    return tqdm(total=n, unit="state", disable=not shown)


def _hooks(hooks: Any, on_predict_start: Any, on_predict_end: Any) -> dict[str, Any]:
    return {
        "hooks": hooks,
        "on_predict_start": on_predict_start,
        "on_predict_end": on_predict_end,
    }
