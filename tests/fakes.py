"""Stand-ins for tests: hooks and networks that write down what happens; a guard against hangs."""

from __future__ import annotations

import contextvars
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

from jevlaya_lab.system_one.agent import Agent
from jevlaya_lab.system_one.context import ForwardPass, PredictContext
from jevlaya_lab.system_one.models import Batch, Budget, EncodedState, Logits, Prepared
from jevlaya_lab.system_one.models.instant import InstantNetwork
from jevlaya_lab.system_one.questions import Question
from jevlaya_lab.system_one.router import Router

PATIENCE = float(os.environ.get("TEST_PATIENCE", "20"))
"""Seconds after which something that should happen at once counts as hanging."""

QUESTIONS: dict[str, Any] = {"q": {"type": "noul", "instructions": "Is it so?"}}
"""One question that every network answers."""

SKIPPED: dict[str, Any] = {
    "model": "cache",
    "answers": {},
    "usage": {"input_tokens": 5, "output_tokens": 2},
}
"""A result such as a cache supplies."""

Action = Callable[[PredictContext], Any] | None


class Recorder:
    """A hook that writes ``name.event`` into a log for each event, and then does what it was given.

    Args:
        log: The list to write into; a fresh one where none is given.
        name: What it calls itself in the log.
        start: Done in ``on_predict_start``, with the context.
        end: Done in ``on_predict_end``.
        error: Done in ``on_error``.
        route: Done in ``on_route``, by a ``RouterRecorder``; like the next two.
        load: Done in ``on_load``.
        evict: Done in ``on_evict``.
    """

    def __init__(
        self,
        log: list[str] | None = None,
        name: str = "hook",
        *,
        start: Action = None,
        end: Action = None,
        error: Action = None,
        route: Action = None,
        load: Action = None,
        evict: Action = None,
    ) -> None:
        self.log = [] if log is None else log
        self.name = name
        self.contexts: list[PredictContext] = []
        self._actions = {
            **{"start": start, "end": end, "error": error},
            **{"route": route, "load": load, "evict": evict},
        }

    def on_predict_start(self, ctx: PredictContext) -> Any:
        return self._note("start", ctx)

    def on_predict_end(self, ctx: PredictContext) -> Any:
        return self._note("end", ctx)

    def on_error(self, ctx: PredictContext) -> Any:
        return self._note("error", ctx)

    def _note(self, event: str, ctx: PredictContext, detail: str = "") -> Any:
        self.log.append(f"{self.name}.{event}{detail}")
        self.contexts.append(ctx)
        action = self._actions[event]
        return action(ctx) if action is not None else None


class RouterRecorder(Recorder):
    """The same for the events of a Router as well; a log entry names the checkpoint of a load."""

    def on_route(self, ctx: PredictContext) -> Any:
        return self._note("route", ctx)

    def on_load(self, ctx: PredictContext) -> Any:
        return self._note("load", ctx, f" {ctx.model}")

    def on_evict(self, ctx: PredictContext) -> Any:
        return self._note("evict", ctx, f" {ctx.model}")


class RecordingNetwork(InstantNetwork):
    """Writes each step into ``steps``; a step named in ``failing`` raises its exception instead.

    ``pauses`` maps the text of a state to what is called while that state is in its forward pass.
    """

    def __init__(
        self, steps: list[str] | None = None, failing: dict[str, BaseException] | None = None
    ) -> None:
        self.steps = [] if steps is None else steps
        self.failing = failing or {}
        self.pauses: dict[str, Callable[[], Any]] = {}
        self.budgets: list[Budget] = []
        self.questions: list[tuple[Question, ...]] = []
        self.preparing: list[ForwardPass] = []

    def prepare(self, questions: tuple[Question, ...], budget: Budget) -> Prepared:
        self._step("prepare")
        self.budgets.append(budget)
        self.questions.append(questions)
        prepared = super().prepare(questions, budget)
        prepared.forwards.extend(self.preparing)
        return prepared

    def encode_state(self, text: str, *, keep_end: bool, prepared: Prepared) -> EncodedState:
        self._step("encode", text)
        return super().encode_state(text, keep_end=keep_end, prepared=prepared)

    def collate(self, states: Sequence[EncodedState], prepared: Prepared) -> Batch:
        self._step("collate", len(states))
        return super().collate(states, prepared)

    def forward(self, batch: Batch, prepared: Prepared) -> Logits:
        self._step("forward", batch.n_states)
        for text in batch.data:
            self.pauses.get(text, lambda: None)()
        return super().forward(batch, prepared)

    def _step(self, name: str, detail: Any = None) -> None:
        self.steps.append(name if detail is None else f"{name} {detail}")
        if name in self.failing:
            raise self.failing[name]


class Meeting:
    """Tells whether two threads are in the same place at once.

    ``arrive`` waits for a second thread for as long as it takes a prompt one to come.
    """

    def __init__(self, patience: float = 0.25) -> None:
        self._barrier = threading.Barrier(2)
        self._patience = patience
        self.met = False

    def arrive(self, *_: Any) -> None:
        try:
            self._barrier.wait(self._patience)
            self.met = True
        except threading.BrokenBarrierError:
            # Later arrivals are alone as well and need not wait again.
            pass


class StubAgent:
    """An agent-like object that answers at once with the state it was asked about, and counts.

    Each call is noted in ``calls`` as ``(method, states, questions, options)``.
    """

    lang_temperatures: dict[str, Any] | None = None

    def __init__(self, name: str = "stub", log: list[str] | None = None) -> None:
        self.name = name
        self.log = [] if log is None else log
        self.calls: list[tuple[str, list[Any], Any, dict[str, Any]]] = []

    def system_one(self, state: Any, questions: Any, **options: Any) -> dict[str, Any]:
        return self._answer("system_one", [state], questions, options)[0]

    def predict_batch(
        self, states: list[Any], questions: Any, **options: Any
    ) -> list[dict[str, Any]]:
        return self._answer("predict_batch", states, questions, options)

    def _answer(
        self, method: str, states: list[Any], questions: Any, options: dict[str, Any]
    ) -> list[dict[str, Any]]:
        self.log.append(f"{self.name}.{method}")
        self.calls.append((method, list(states), questions, options))
        usage = {"input_tokens": 1, "output_tokens": 0}
        return [{"model": self.name, "answers": {"of": s}, "usage": dict(usage)} for s in states]


class StubRouter(Router):
    """A Router that builds stubs; ``log`` gets what is built and asked, ``first`` is called before.

    Args:
        log: The list to write into.
        first: By name, what a build does first: wait, fail, call back.
        **options: Of the Router.
    """

    def __init__(
        self,
        log: list[str] | None = None,
        first: dict[str, Callable[[], Any]] | None = None,
        **options: Any,
    ) -> None:
        self.log = [] if log is None else log
        self.first = first or {}
        self.stubs: list[StubAgent] = []
        super().__init__(**options)

    def _build(self, name: str, source: Any) -> Any:
        self.log.append(f"build {name}")
        self.first.get(name, lambda: None)()
        stub = StubAgent(name, self.log)
        self.stubs.append(stub)
        return stub


def make_agent(network: InstantNetwork | None = None, **options: Any) -> Agent:
    """An agent that answers at once."""
    return Agent("test", network=network or InstantNetwork(), **options)


def fails_with(error: BaseException) -> Callable[[PredictContext], None]:
    """An action for a hook that raises this very exception."""

    def fail(_: PredictContext) -> None:
        raise error

    return fail


def start_thread(function: Callable[..., Any], *args: Any) -> threading.Thread:
    """Run a function on a daemon thread, in a copy of the current context variables."""
    run = contextvars.copy_context().run
    thread = threading.Thread(target=run, args=(function, *args), daemon=True)
    thread.start()
    return thread


def promptly(function: Callable[..., Any], *args: Any) -> Any:
    """The result of a call that must not hang; what it raises is raised here."""
    outcome: list[tuple[Any, BaseException | None]] = []

    def run() -> None:
        try:
            outcome.append((function(*args), None))
        except BaseException as exc:
            outcome.append((None, exc))

    start_thread(run).join(PATIENCE)
    assert outcome, f"still not back after {PATIENCE:g} s"
    result, error = outcome[0]
    if error is not None:
        raise error
    return result


def context_chain(error: BaseException) -> list[BaseException]:
    """The exceptions that a traceback shows before this one; fails on a ring."""
    found: list[BaseException] = [error]
    while (link := found[-1].__context__) is not None:
        assert all(link is not known for known in found), "the chain of exceptions is a ring"
        found.append(link)
    return found[1:]
