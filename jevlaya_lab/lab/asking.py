"""How the Lab asks: chunk by chunk, an agent or a router, and around a row that fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from jevlaya_lab.frames import check_results
from jevlaya_lab.system_one.questions import Question, Questions
from jevlaya_lab.tracing.listening import Listening
from jevlaya_lab.tracing.recorder import TraceRecorder

__all__ = ["OF_A_REQUEST", "Asker", "Chunk", "Outcome", "in_chunks", "is_router"]

OF_A_REQUEST: Final = ("model", "task", "lang", "lang_guess", "max_len", "head_max_len")
"""Options that a Router takes with each request."""

Outcome = dict[str, Any] | Exception


class Chunk(NamedTuple):
    """Rows that are asked together: states, and for a router the options of each."""

    first: int
    states: list[Any]
    options: list[dict[str, Any]]


def is_router(target: Any) -> bool:
    """Whether it takes requests, as our Router and ``laya``'s do."""
    return hasattr(target, "route_batch")


class Asker:
    """Asks one target the same questions about chunks of rows, and records each call.

    Args:
        target: An agent or a router.
        recorder: Notes what happens.
        questions: What is asked, as it is passed on.
        prepared: The same, checked.
        hooks: The caller's ``hooks``, ``on_predict_start`` and ``on_predict_end``.
        options: Options of the call itself.
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
        self._target = target
        self._recorder = recorder
        self._questions = questions
        self._prepared = prepared
        self._hooks = hooks
        self._options = options

    def ask(self, chunk: Chunk) -> list[dict[str, Any]]:
        """One result per row of the chunk.

        Raises:
            InvalidResult: The hooks left something else.
            BaseException: What the call raised.
        """
        listening = self._listening("predict_batch")
        with listening:
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

    def ask_long(self, state: Any, options: Mapping[str, Any]) -> dict[str, Any]:
        """The result about one state that may be longer than the window."""
        listening = self._listening("predict_long")
        with listening:
            result = self._target.predict_long(
                state, self._questions, **options, **self._options, **listening.hooks
            )
        check_results([result], 1, self._prepared)
        return dict(result)

    def outcome_long(self, state: Any, options: Mapping[str, Any], errors: str) -> Outcome:
        """The same, or with ``errors="coerce"`` the error."""
        try:
            return self.ask_long(state, options)
        except Exception as exc:
            if errors != "coerce":
                raise
            return exc

    def outcomes(self, chunk: Chunk) -> Iterator[tuple[int, Outcome]]:
        """Row by row a result, or the error of that row alone.

        A chunk that fails is asked again in halves, so that a bad row takes none with it; hooks see
        these calls as well.
        """
        try:
            results: Sequence[Outcome] = self.ask(chunk)
        except Exception as exc:
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

    def _listening(self, entry: str) -> Listening:
        return Listening(self._recorder, self._target, entry, **self._hooks)


def in_chunks(
    n: int, size: int, states: Sequence[Any], options: Callable[[int], dict[str, Any]]
) -> Iterator[Chunk]:
    """Successive chunks of ``n`` rows."""
    for first in range(0, n, size):
        rows = range(first, min(first + size, n))
        yield Chunk(first, [states[i] for i in rows], [options(i) for i in rows])
