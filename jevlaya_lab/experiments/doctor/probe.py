"""What stands around a hook while it is examined, and notes what it does."""

from __future__ import annotations

import inspect
import itertools
import re
import time
import weakref
from collections.abc import Callable, Generator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from jevlaya_lab.system_one.errors import JevlayaError
from jevlaya_lab.system_one.events import EVENTS, BaseHook

__all__ = ["Note", "Probe", "listens_to", "said"]

KEYS: Final = ("model", "answers", "usage")
"""What every result has."""


class Note(NamedTuple):
    """One call of one method of a hook.

    Attributes:
        event: Such as ``on_load``.
        ms: How long it took.
        error: What it raised, as text; empty where nothing.
        refused: Whether it raised an error of this package, as a guard does on purpose.
        step_ms: Of an ``async`` method the longest stretch without an ``await``; else ``None``.
    """

    event: str
    ms: float
    error: str
    refused: bool
    step_ms: float | None


def listens_to(hook: Any) -> list[str]:
    """The events that a hook does something for."""
    found = []
    for event in EVENTS:
        method = inspect.getattr_static(hook, event, None)
        if method is not None and method is not getattr(BaseHook, event):
            found.append(event)
    return found


class Probe:
    """A hook around another one: it hands every event on, and notes it.

    Args:
        hook: The hook inside.
        around: Called before and after each event with the context, the event and a word,
            ``"before"`` or ``"after"``.

    Attributes:
        notes: Of each call of a method.
        complaints: What is missing in the results that its end hook left.
        runs: All contexts seen; they are not kept alive.
        n_skipped: Runs that the hook answered.
    """

    def __init__(self, hook: Any, around: Callable[[Any, str, str], Any] = lambda *_: None) -> None:
        self.hook = hook
        self.notes: list[Note] = []
        self.complaints: list[str] = []
        self.runs: list[weakref.ref[Any]] = []
        self.n_skipped = 0
        self._open: dict[int, float] = {}
        self._marks = itertools.count()
        self._around = around
        heard = listens_to(hook)
        for event in {*heard, "on_predict_start", "on_predict_end"}:
            setattr(self, event, partial(self._hear, event, event in heard))

    @property
    def open_since(self) -> float | None:
        """When the oldest event began that is still at work, by ``time.monotonic()``."""
        return min(list(self._open.values()), default=None)

    def _hear(self, event: str, listens: bool, ctx: Any) -> Any:
        had = ctx.results is not None
        if event == "on_predict_start":
            self.runs.append(weakref.ref(ctx))
        self._around(ctx, event, "before")
        result: Any = None
        began = time.perf_counter()
        mark = next(self._marks)
        self._open[mark] = time.monotonic()
        try:
            if listens:
                result = getattr(self.hook, event)(ctx)
        except BaseException as error:
            self._open.pop(mark, None)
            self._note(event, began, error)
            self._finish(ctx, event, had)
            raise
        if _to_await(result):
            return _Awaited(result, partial(self._awaited, ctx, event, had, began, mark))
        self._open.pop(mark, None)
        if listens:
            self._note(event, began)
        self._finish(ctx, event, had)
        return None

    def _awaited(
        self,
        ctx: Any,
        event: str,
        had: bool,
        began: float,
        mark: int,
        step_ms: float,
        error: BaseException | None,
    ) -> None:
        self._open.pop(mark, None)
        self._note(event, began, error, step_ms)
        self._finish(ctx, event, had)

    def _note(
        self,
        event: str,
        began: float,
        error: BaseException | None = None,
        step_ms: float | None = None,
    ) -> None:
        ms = (time.perf_counter() - began) * 1e3
        text = "" if error is None else said(error)
        self.notes.append(Note(event, ms, text, isinstance(error, JevlayaError), step_ms))

    def _finish(self, ctx: Any, event: str, had: bool) -> None:
        self._around(ctx, event, "after")
        if event == "on_predict_start" and not had and ctx.results is not None:
            self.n_skipped += 1
        if event == "on_predict_end" and had and ctx.error is None:
            self.complaints += _complaints(ctx)


def said(error: BaseException) -> str:
    """An error as text, without the numbers of threads and objects, which differ each time."""
    text = re.sub(r"0x[0-9a-f]{6,}|\d{9,}", "...", str(error))
    return f"{type(error).__name__}: {text}".rstrip(": ")


def _complaints(ctx: Any) -> list[str]:
    if not isinstance(ctx.results, (list, tuple)):
        return [f"the results are {type(ctx.results).__name__}, no list"]
    found = []
    if isinstance(ctx.states, (list, tuple)) and len(ctx.results) != len(ctx.states):
        found.append(f"{len(ctx.results)} results for {len(ctx.states)} states")
    for result in ctx.results:
        if not isinstance(result, Mapping):
            found.append(f"a result is {type(result).__name__}, no dict")
        else:
            found += [f"a result has no {key!r}" for key in KEYS if key not in result]
    return found


def _to_await(result: Any) -> bool:
    return result is not None and inspect.isawaitable(result)


class _Awaited:
    """An awaitable that says how long each of its steps held up the loop."""

    def __init__(self, inner: Any, finish: Callable[[float, BaseException | None], None]) -> None:
        self._inner = inner
        self._finish = finish

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = self._inner.__await__()
        longest, error = 0.0, None
        value: Any = None
        failure: BaseException | None = None
        try:
            while True:
                began = time.perf_counter()
                try:
                    if failure is not None:
                        given = steps.throw(failure)
                    else:
                        given = next(steps) if value is None else steps.send(value)
                except StopIteration as end:
                    return end.value
                finally:
                    longest = max(longest, (time.perf_counter() - began) * 1e3)
                value = failure = None
                try:
                    value = yield given
                except BaseException as exc:  # thrown into it by the loop: a cancellation
                    failure = exc
        except BaseException as exc:
            error = exc
            raise
        finally:
            self._finish(longest, error)
