"""How the Lab asks: chunk by chunk, an agent or a router, and around a row that fails."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from jevlaya_lab.frames import check_results
from jevlaya_lab.system_one.errors import InvalidInput, InvalidOption
from jevlaya_lab.system_one.hooks import entries
from jevlaya_lab.system_one.questions import Question, Questions
from jevlaya_lab.system_one.request import Request, check_request
from jevlaya_lab.system_one.router import Router
from jevlaya_lab.system_one.routing import Hints
from jevlaya_lab.tracing.listening import Listening
from jevlaya_lab.tracing.recorder import TraceRecorder
from jevlaya_lab.tracing.temperatures import Temperatures

__all__ = [
    "OF_A_REQUEST",
    "Asker",
    "Chunk",
    "Outcome",
    "check_options",
    "check_target",
    "in_chunks",
    "is_router",
]

OF_A_REQUEST: Final = ("model", "task", "lang", "lang_guess", "max_len", "head_max_len")
"""Options that a Router takes with each request."""

Outcome = dict[str, Any] | Exception


class Chunk(NamedTuple):
    """Rows that are asked together: states, and for a router the options of each."""

    first: int
    states: list[Any]
    options: list[dict[str, Any]]


_OF_THE_LAB: Final = ("state", "layout", "detail", "errors", "dedupe", "chunk_size", "progress")


def check_options(
    target: Any, method: str, options: Mapping[str, Any], of_row: Sequence[str]
) -> None:
    """Refuse options that whoever is asked does not take, before anything is asked.

    Raises:
        InvalidOption: Naming the option and the nearest one that there is.
    """
    try:
        parameters = inspect.signature(getattr(target, method)).parameters.values()
    except (TypeError, ValueError):
        return
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return
    known = {p.name for p in parameters} - {"states", "state", "questions", "requests"}
    for name in options:
        if name in known or name in of_row:
            continue
        near = difflib.get_close_matches(name, [*known, *of_row, *_OF_THE_LAB], n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise InvalidOption(
            f"there is no option {name!r}: {hint}{type(target).__name__}.{method} takes "
            f"{', '.join(sorted({*known, *of_row} - _HOOK_ARGUMENTS))}"
        )


_HOOK_ARGUMENTS: Final = frozenset(
    {"hooks", "on_predict_start", "on_predict_end", "hooks_raise", "hooks_timeout"}
)


def is_router(target: Any) -> bool:
    """Whether it takes requests, as our Router and ``laya``'s do."""
    return hasattr(target, "route_batch")


def check_target(target: Any) -> Any:
    """The agent or router itself.

    Raises:
        InvalidInput: It is none.
    """
    if isinstance(target, type) or not hasattr(target, "predict_batch"):
        raise InvalidInput(
            f"Lab takes an agent or a router, an object with predict_batch; got {target!r}. For "
            "a checkpoint write Lab(Agent(...))"
        )
    return target


class Asker:
    """Asks one target the same questions about chunks of rows, and records each call.

    Args:
        target: An agent or a router.
        recorder: Notes what happens.
        questions: What is asked, as it is passed on.
        prepared: The same, checked.
        hooks: The caller's ``hooks``, ``on_predict_start`` and ``on_predict_end``.
        options: Options of the call itself.

    Attributes:
        temperatures: By checkpoint (``""`` for an agent), those that answered.

    Raises:
        InvalidHook: A hook is none.
    """

    def __init__(
        self,
        target: Any,
        recorder: TraceRecorder,
        questions: Questions,
        prepared: Sequence[Question],
        hooks: Mapping[str, Any],
        options: Mapping[str, Any],
    ) -> None:
        entries("call", **hooks)  # a wrong one is wrong for every row
        self.temperatures: dict[str, Temperatures] = {}
        self._target = target
        self._recorder = recorder
        self._questions = questions
        self._prepared = prepared
        self._hooks = hooks
        self._options = options
        self._heard = False  # whether any run of the last call began

    def ask(self, chunk: Chunk) -> list[dict[str, Any]]:
        """One result per row of the chunk.

        Raises:
            InvalidResult: The hooks left something else.
            BaseException: What the call raised.
        """
        with self._listening("predict_batch") as listening:
            if is_router(self._target):
                requests = [
                    {"state": state, "questions": self._questions, **options}
                    for state, options in zip(chunk.states, chunk.options, strict=True)
                ]
                found = self._target.predict_batch(requests, **self._options, **listening.hooks)
            else:
                found = self._target.predict_batch(
                    chunk.states, self._questions, **self._options, **listening.hooks
                )
        check_results(found, len(chunk.states), self._prepared, chunk.first)
        return list(found)

    def check_options(self, shared: Mapping[str, Any]) -> None:
        """Refuse options that are wrong for every row, before any row is asked.

        Args:
            shared: The options of requests that are the same for all rows.

        Raises:
            Exception: What the router says of them.
        """
        if not is_router(self._target):
            return  # an agent takes all options with the call, and refuses them there
        get = shared.get
        if isinstance(self._target, Router):
            hints = Hints(get("model"), get("task"), get("lang"), get("lang_guess"))
            check_request(Request("", {}, hints, get("max_len"), get("head_max_len")))
            if hints.task is not None:
                self._target.resolve(hints.task)
        if get("model") is not None:
            self._target.resolve(get("model"))
        # Nothing is asked, so no hook runs (L-36).
        self._target.predict_batch([], **self._options)

    def ask_long(self, state: Any, options: Mapping[str, Any]) -> dict[str, Any]:
        """The result about one state that may be longer than the window."""
        with self._listening("predict_long") as listening:
            result = self._target.predict_long(
                state, self._questions, **options, **self._options, **listening.hooks
            )
        check_results([result], 1, self._prepared)
        return dict(result)

    def outcome_long(
        self, state: Any, options: Mapping[str, Any], errors: str, alike: bool
    ) -> Outcome:
        """The same, or with ``errors="coerce"`` the error of that row alone.

        ``alike`` says that all rows have the same options.
        """
        try:
            return self.ask_long(state, options)
        except Exception as exc:
            if errors != "coerce" or (alike and self._is_of_every_row(exc)):
                raise
            return exc

    def outcomes(self, chunk: Chunk) -> Iterator[tuple[int, Outcome]]:
        """Row by row a result, or the error of that row alone.

        A chunk that fails is asked again in halves, so that a bad row takes none with it; hooks see
        these calls as well.

        Raises:
            Exception: What no row is to blame for.
        """
        try:
            results: Sequence[Outcome] = self.ask(chunk)
        except Exception as exc:
            if self._is_of_every_row(exc):
                raise
            if len(chunk.states) > 1:
                yield from self._halves(chunk)
                return
            results = [exc]
        yield from enumerate(results, chunk.first)

    def _halves(self, chunk: Chunk) -> Iterator[tuple[int, Outcome]]:
        first, states, options = chunk
        middle = len(states) // 2
        yield from self.outcomes(Chunk(first, states[:middle], options[:middle]))
        yield from self.outcomes(Chunk(first + middle, states[middle:], options[middle:]))

    def _is_of_every_row(self, error: Exception) -> bool:
        """Whether an agent refused the call's options, which are the same for all rows."""
        if is_router(self._target):
            return False
        return isinstance(error, InvalidOption) or (
            not self._heard and hasattr(self._target, "add_hook")
        )

    @contextmanager
    def _listening(self, entry: str) -> Iterator[Listening]:
        listening = Listening(self._recorder, self._target, entry, **self._hooks)
        try:
            with listening:
                yield listening
        finally:
            self._heard = listening.heard
            self.temperatures |= listening.temperatures


def in_chunks(
    n: int, size: int, states: Sequence[Any], options: Callable[[int], dict[str, Any]]
) -> Iterator[Chunk]:
    """Successive chunks of ``n`` rows."""
    for first in range(0, n, size):
        rows = range(first, min(first + size, n))
        yield Chunk(first, [states[i] for i in rows], [options(i) for i in rows])
