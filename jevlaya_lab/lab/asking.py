"""How the Lab asks: chunk by chunk, an agent or a router, and around a row that fails."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from jevlaya_lab.frames import check_results
from jevlaya_lab.lab.naming import of_row
from jevlaya_lab.system_one.agent import Agent
from jevlaya_lab.system_one.encoding import check_count
from jevlaya_lab.system_one.errors import InvalidInput, InvalidOption, InvalidQuestion
from jevlaya_lab.system_one.hooks import entries
from jevlaya_lab.system_one.models import Budget
from jevlaya_lab.system_one.questions import Questions
from jevlaya_lab.system_one.request import Request, check_request
from jevlaya_lab.system_one.router import Router
from jevlaya_lab.system_one.routing import Hints
from jevlaya_lab.tracing.listening import Listening
from jevlaya_lab.tracing.recorder import TraceRecorder
from jevlaya_lab.tracing.temperatures import Temperatures

if TYPE_CHECKING:
    from jevlaya_lab.lab.rows import Rows

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
        rows: What is asked about, with all options.
        hooks: The caller's ``hooks``, ``on_predict_start`` and ``on_predict_end``.

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
        rows: Rows,
        hooks: Mapping[str, Any],
    ) -> None:
        entries("call", **hooks)  # a wrong one is wrong for every row
        self.temperatures: dict[str, Temperatures] = {}
        self._target = target
        self._recorder = recorder
        self._questions = questions
        self._rows = rows
        self._hooks = hooks
        self._options = rows.of_call
        self._heard = False  # whether any run of the last call began

    def ask(self, chunk: Chunk) -> list[dict[str, Any]]:
        """One result per row of the chunk.

        Raises:
            InvalidResult: The hooks left something else.
            BaseException: What the call raised; bad input names the row by its index label.
        """
        labels = [self._rows.label_of(chunk.first + i) for i in range(len(chunk.states))]
        return self._ask(chunk, labels)

    def _ask(self, chunk: Chunk, labels: list[Any] | None) -> list[dict[str, Any]]:
        """The same; without labels an error names no row, since it stands in one."""
        with self._listening("predict_batch", labels) as listening:
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
        check_results(found, len(chunk.states), self._rows.questions, labels)
        return list(found)

    def check_options(self) -> None:
        """Refuse options that are wrong for every row, before any row is asked.

        Raises:
            Exception: What the router says of them.
        """
        if not is_router(self._target):
            return  # an agent takes all options with the call, and refuses them there
        get = self._rows.shared.get
        if isinstance(self._target, Router):
            hints = Hints(get("model"), get("task"), get("lang"), get("lang_guess"))
            check_request(Request("", {}, hints, get("max_len"), get("head_max_len")))
            if hints.task is not None:
                self._target.resolve(hints.task)
        if get("model") is not None:
            self._target.resolve(get("model"))
        # Nothing is asked, so no hook runs (L-36).
        self._target.predict_batch([], **self._options)

    def ask_long(self, place: int, state: Any, *, named: bool = True) -> dict[str, Any]:
        """The result about one state that may be longer than the window."""
        labels = [self._rows.label_of(place)] if named else None
        options = self._rows.options_of(place)
        with self._listening("predict_long", labels) as listening:
            result = self._target.predict_long(
                state, self._questions, **options, **self._options, **listening.hooks
            )
        check_results([result], 1, self._rows.questions, labels)
        return dict(result)

    def outcome_long(self, place: int, state: Any) -> Outcome:
        """The same, or the error of that row alone.

        Raises:
            Exception: What no row is to blame for.
        """
        try:
            return self.ask_long(place, state, named=False)
        except Exception as exc:
            if not self._rows.varying and self._is_of_every_row(exc):
                raise
            if self._is_beyond_the_questions(exc):
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
            results: Sequence[Outcome] = self._ask(chunk, None)
        except Exception as exc:
            if self._is_of_every_row(exc) or self._is_beyond_the_questions(exc):
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

    def _is_beyond_the_questions(self, error: Exception) -> bool:
        """Whether the one agent that answers all rows cannot be asked these questions at all.

        It is asked itself: a hook may raise the same for a row, or have changed the questions.
        """
        if not isinstance(error, (InvalidQuestion, InvalidOption)):
            return False
        options = {**self._rows.shared, **self._options}
        agent = self._target
        if isinstance(agent, Router):
            name = options.get("model") or options.get("task")
            if name is None or agent.resolve(name) not in agent.loaded:
                return False
            agent = agent.load(agent.resolve(name))
        if not isinstance(agent, Agent) or self._rows.varying & _DECIDING:
            return False
        network = agent.network
        max_len, head_max_len = (
            check_count(name, options.get(name)) or getattr(network, name)
            for name in ("max_len", "head_max_len")
        )
        try:
            network.prepare(self._rows.questions, Budget(max_len, head_max_len))
        except (InvalidQuestion, InvalidOption):
            return True
        except Exception:  # not what the row failed of
            return False
        return False

    @contextmanager
    def _listening(self, entry: str, labels: list[Any] | None) -> Iterator[Listening]:
        listening = Listening(self._recorder, self._target, entry, **self._hooks)
        try:
            with listening:
                yield listening
        except Exception as exc:
            named = of_row(exc, None if labels is None else labels.__getitem__)
            if named is exc:
                raise
            raise named from exc
        finally:
            self._heard = listening.heard
            self.temperatures |= listening.temperatures


_DECIDING: Final = frozenset({"model", "task", "max_len", "head_max_len"})
"""Options that decide whether questions fit."""


def in_chunks(
    n: int, size: int, states: Sequence[Any], options: Callable[[int], dict[str, Any]]
) -> Iterator[Chunk]:
    """Successive chunks of ``n`` rows."""
    for first in range(0, n, size):
        rows = range(first, min(first + size, n))
        yield Chunk(first, [states[i] for i in rows], [options(i) for i in rows])
