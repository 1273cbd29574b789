"""The cases of the experiment ``hook_order``: where a hook fails, and the bench they run on."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar, Token, copy_context
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from jevlaya_lab.experiments.targets import (
    ATTACHED,
    agent_twin,
    fresh_router,
    is_router,
    loadable,
    one_agent,
)
from jevlaya_lab.experiments.watching import ORIGINS, Seen, Tape, Witness, installed
from jevlaya_lab.experiments.whom import ask
from jevlaya_lab.frames import Trace
from jevlaya_lab.system_one import hooks as own_hooks
from jevlaya_lab.system_one.hooks import HookRegistry
from jevlaya_lab.tracing.listening import Listening
from jevlaya_lab.tracing.recorder import TraceRecorder

__all__ = ["LOADING", "Bench", "Case", "Observed", "all_cases"]

LOADING: Final = ("on_evict", "on_load")

_BEFORE: Final[ContextVar[str]] = ContextVar("jevlaya_experiment_pair", default="outside")


@dataclass(frozen=True, slots=True)
class Case:
    """One thing to see.

    Attributes:
        name: As in the frame.
        event: The event at which a hook fails; empty where none does.
        position: Place of the hook that fails.
        hooks_concurrent: Of the agent or router.
    """

    name: str
    event: str = ""
    position: int = -1
    hooks_concurrent: bool = False


@dataclass(frozen=True, slots=True)
class Observed:
    """What was seen of a case.

    Attributes:
        case: The case.
        seen: Every event at every hook, in order.
        n_listed: Hooks in each list: process-wide, installed, per call.
        outcome: What the call raised, ``None`` where it answered.
        first_fault: What was raised on purpose first.
        nested: Of pairs that set and reset: whether each end found what its own start had set.

    ``passes`` are the events one by one, each with all hooks that heard it.
    """

    case: Case
    seen: tuple[Seen, ...]
    n_listed: tuple[int, int, int]
    outcome: BaseException | None
    first_fault: BaseException | None
    nested: tuple[bool, ...] = ()

    @property
    def passes(self) -> list[list[Seen]]:
        """Events of runs, each with the hooks that heard it without another between them."""
        return [list(each) for _, each in groupby(self.seen, lambda one: (one.event, one.run))]

    @property
    def n_lasting(self) -> int:
        """Hooks that are there for every call."""
        return self.n_listed[0] + self.n_listed[1]


def all_cases(
    defaults: int, installed: int, per_call: int, *, routed: bool, loads: bool
) -> list[Case]:
    """All cases: the plain ones, and a failing hook in every place at every event."""
    found = []
    n_lasting, n = defaults + installed, defaults + installed + per_call
    places = {
        "on_predict_start": n,
        "on_predict_end": n,
        "on_error": n,
        **({"on_route": n} if routed else {}),
        **(dict.fromkeys(LOADING, n_lasting) if loads else {}),
    }
    for concurrent in (False, True):
        plain = ("lists", "none added", "pairs")
        found += [Case(name, hooks_concurrent=concurrent) for name in plain]
        for event, n_places in places.items():
            for place in range(n_places):
                found.append(Case(f"{event} fails at {place}", event, place, concurrent))
    return found


class _Pair(Witness):
    """A hook whose start sets a context variable, and whose end resets it."""

    def __init__(self, tape: Tape, position: int, target: Any) -> None:
        super().__init__(tape, "pair", "call", position, target)
        self.nested: list[bool] = []
        self._tokens: dict[str, tuple[str, Token[str]]] = {}

    def hear(self, event: str, ctx: Any) -> None:
        """Set or reset; a reset finds its own value, or another's, where pairs do not nest."""
        super().hear(event, ctx)
        if event == "on_predict_start":
            self._tokens[ctx.run_id] = (ctx.run_id, _BEFORE.set(ctx.run_id))
        elif event == "on_predict_end" and ctx.run_id in self._tokens:
            mine, token = self._tokens.pop(ctx.run_id)
            self.nested.append(_BEFORE.get() == mine)
            _BEFORE.reset(token)


class Bench:
    """Fresh agents or routers, one per ``hooks_concurrent``, with hooks for one case at a time.

    Args:
        given: What the user gave.
        defaults: Number of process-wide hooks.
        installed: Number of installed ones.
        per_call: Number of those that go with the call.
        n_requests: Requests of a batch.

    Attributes:
        loads: Whether loads can be seen: the router knows two checkpoints on this machine.
    """

    def __init__(
        self, given: Any, defaults: int, installed: int, per_call: int, n_requests: int
    ) -> None:
        self._given = given
        self._routed = is_router(given)
        self._numbers = (defaults, installed, per_call)
        self._states = [f"request {i} of an experiment" for i in range(n_requests)]
        self._names = loadable(fresh_router(given))[:2] if self._routed else ()
        self.loads = len(self._names) == 2
        self._targets: dict[tuple[bool, bool], Any] = {}
        self._exits = ExitStack()

    def __enter__(self) -> Bench:
        try:
            agent = self._exits.enter_context(one_agent(self._given))
            for concurrent in (False, True):
                self._make(agent, concurrent)
        except BaseException:
            self._exits.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._exits.close()
        self._targets.clear()

    def _make(self, agent: Any, concurrent: bool) -> None:
        if not self._routed:
            self._targets[concurrent, False] = agent_twin(agent, hooks_concurrent=concurrent)
            return
        for loading in (False, True) if self.loads else (False,):
            router = fresh_router(self._given, max_loaded=1, hooks_concurrent=concurrent)
            self._exits.callback(router.unload)
            if not loading:
                router.attach(ATTACHED, agent_twin(agent))
            self._targets[concurrent, loading] = router

    def observe(self, case: Case) -> Observed:
        """Run a case; no hook of it stays behind."""
        loading = case.event in LOADING
        target = self._targets[case.hooks_concurrent, loading]
        name = self._to_load(target) if loading else ATTACHED
        tape = Tape(self._states)
        lasting, own, per_call = self._hooks(case, tape, target)
        pair = _Pair(tape, sum(self._numbers), target)
        given: tuple[Any, ...] = (per_call,)
        if case.name == "pairs":
            given = ([*per_call, pair],)
        elif case.name == "none added":
            given = (None, [])
        outcome: BaseException | None = None
        with _process_wide(target, lasting), installed(target, own):
            try:
                for hooks in given:
                    copy_context().run(self._ask, target, name, hooks)
            except Exception as error:
                outcome = error.with_traceback(None)  # which would hold the target
        if outcome is not None and not case.event:
            raise outcome  # nothing was to fail here
        return Observed(
            *(case, tuple(tape.seen), self._numbers, outcome, tape.first_fault),
            tuple(pair.nested),
        )

    def recorded(self) -> Trace:
        """One batch with all hooks in peace, as a trace: what its picture is made of."""
        target = self._targets[False, False]
        tape, recorder = Tape(self._states), TraceRecorder()
        lasting, own, per_call = self._hooks(Case("lists"), tape, target)
        for hook in (*lasting, *own, *per_call):
            hook.__class__ = type(hook.name, (Witness,), {})  # traces name hooks by their class
        with (
            _process_wide(target, lasting),
            installed(target, own),
            Listening(recorder, target, "predict_batch", per_call) as listening,
        ):
            self._ask(target, ATTACHED, **listening.hooks)
        return recorder.trace

    def _to_load(self, router: Any) -> str:
        """A checkpoint that is not resident, while another one is."""
        if not router.loaded:
            router.load(self._names[0])
        return next(name for name in self._names if name not in router.loaded)

    def _hooks(self, case: Case, tape: Tape, target: Any) -> list[list[Witness]]:
        n, last = sum(self._numbers), len(self._states) - 1
        places = iter(range(n))
        found: list[list[Witness]] = []
        for origin, size in zip(ORIGINS, self._numbers, strict=True):
            found.append([])
            for i in range(size):
                place = next(places)
                raises: list[tuple[str, int | None]] = []
                if place == case.position:
                    one = self._routed and case.event not in (*LOADING, "on_error")
                    raises.append((case.event, 1 if one else None))
                if case.event == "on_error" and place == n - 1:
                    # Something has to fail before an on_error hook can.
                    raises.append(("on_predict_start", last if self._routed else None))
                found[-1].append(Witness(tape, f"{origin} {i + 1}", origin, place, target, raises))
        return found

    def _ask(self, target: Any, name: str, hooks: Any, **functions: Any) -> None:
        models = [name] * len(self._states)
        ask(target, self._states, {}, models=models, hooks=hooks, **functions)


@contextmanager
def _process_wide(target: Any, hooks: Sequence[Any]) -> Iterator[None]:
    """Process-wide hooks of whichever package the target is of."""
    if isinstance(target, HookRegistry):
        own_hooks.add_default_hook(hooks)
        try:
            yield
        finally:
            for hook in hooks:
                own_hooks.remove_default_hook(hook)
        return
    theirs = importlib.import_module("laya.hooks")
    theirs.add_default_hook(hooks)
    try:
        yield
    finally:
        kept = [each for each in theirs.default_hooks() if not any(each is hook for hook in hooks)]
        theirs.set_default_hooks(kept)
