"""The scene of the experiment ``failure``: a batch over three checkpoints, of which one fails."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from jevlaya_lab.experiments.faults import STEPS, Fault, faulty_twin
from jevlaya_lab.experiments.targets import agent_twin, fresh_router, is_router, one_agent
from jevlaya_lab.experiments.watching import Seen, Tape, Witness, installed
from jevlaya_lab.experiments.whom import ask

__all__ = ["FIRST_HOOK", "GROUPS", "STAGES", "Accident", "Asked", "Scene"]

STAGES: Final = ("load", "start", *STEPS, "end")
"""Where a fault is made, in the order in which a batch comes there."""

GROUPS: Final = ("first", "second", "third")
"""The checkpoints of the batch; the second one fails."""

_QUESTIONS: Final = {"q": {"type": "noul", "instructions": "Does the customer ask for a refund?"}}
FIRST_HOOK: Final = "installed 1"


class Asked(NamedTuple):
    """A request of the batch, or the one run of an agent, which has no number."""

    number: int | None
    model: str | None


@dataclass(frozen=True, slots=True)
class Accident:
    """What was seen of a fault at one stage.

    Attributes:
        stage: One of :data:`STAGES`.
        made: Whether a fault could be made there.
        asked: The requests, in order.
        seen: What the hooks heard in the call that failed.
        seen_after: What they heard of the same call without the fault.
        outcome: What the failing call raised.
        fault: What was raised on purpose first.
        answered_after: Numbers of the requests that were answered afterwards.
        loaded: What the router held before the failing call, and after it.
        tried_again: Of a load: whether a second one was tried, and failed as well.
    """

    stage: str
    made: bool
    asked: tuple[Asked, ...] = ()
    seen: tuple[Seen, ...] = ()
    seen_after: tuple[Seen, ...] = ()
    outcome: BaseException | None = None
    fault: BaseException | None = None
    answered_after: frozenset[int | None] = frozenset()
    loaded: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    tried_again: bool | None = None

    def heard_of(self, asked: Asked) -> list[Seen]:
        """What the first hook, which hears everything, heard of a request in the failing call."""
        return [one for one in self.seen if one.hook == FIRST_HOOK and one.request == asked.number]

    def of_group(self, name: str) -> list[Asked]:
        """The requests of a checkpoint."""
        return [asked for asked in self.asked if asked.model == name]


class Scene:
    """Makes accidents, each on twins and routers of its own.

    Args:
        given: What the user gave.
        n_requests: Requests of the batch; of an agent states.
    """

    def __init__(self, given: Any, n_requests: int) -> None:
        self._given = given
        self._routed = is_router(given)
        self._states = [f"I was charged twice, case {i}." for i in range(n_requests)]
        self._agent: Any = None
        self._exits = ExitStack()

    def __enter__(self) -> Scene:
        self._agent = self._exits.enter_context(one_agent(self._given))
        return self

    def __exit__(self, *_: object) -> None:
        self._agent = None
        self._exits.close()

    def accident(self, stage: str) -> Accident:
        """Let the batch fail at a stage, then send it again."""
        fault = Fault(stage)
        twin = faulty_twin(self._agent, fault) if stage in STEPS else agent_twin(self._agent)
        if twin is None or (stage == "load" and not self._routed):
            return Accident(stage, False)
        if not self._routed:
            return self._of_agent(stage, twin, fault)
        with self._router(stage, twin) as router:
            return self._of_router(stage, router, twin, fault)

    def _of_agent(self, stage: str, twin: Any, fault: Fault) -> Accident:
        asked = (Asked(None, None),)
        tape, outcome, _ = self._call(twin, asked, fault, stage)
        after, _, answered = self._call(twin, asked)
        return Accident(
            stage,
            True,
            asked,
            tuple(tape.seen),
            tuple(after.seen),
            outcome,
            tape.first_fault,
            answered,
        )

    def _of_router(self, stage: str, router: Any, twin: Any, fault: Fault) -> Accident:
        asked = tuple(Asked(i, GROUPS[i % len(GROUPS)]) for i in range(len(self._states)))
        before = tuple(sorted(router.loaded))
        tape, outcome, _ = self._call(router, asked, fault, stage)
        loaded = (before, tuple(sorted(router.loaded)))
        again = None
        if stage == "load":
            again = _fails_likewise(router, outcome)
            router.attach(GROUPS[1], twin)
        after, _, answered = self._call(router, asked)
        return Accident(
            *(stage, True, asked, tuple(tape.seen), tuple(after.seen), outcome, tape.first_fault),
            *(answered, loaded, again),
        )

    @contextmanager
    def _router(self, stage: str, twin: Any) -> Iterator[Any]:
        router = fresh_router(self._given, max_loaded=len(GROUPS))
        with tempfile.TemporaryDirectory() as nothing_in_it:
            try:
                for name in GROUPS:
                    if name != GROUPS[1]:
                        router.attach(name, agent_twin(self._agent))
                    elif stage == "load":
                        router.register(name, nothing_in_it)
                    else:
                        router.attach(name, twin)
                yield router
            finally:
                router.unload()

    def _call(
        self, target: Any, asked: tuple[Asked, ...], fault: Fault | None = None, stage: str = ""
    ) -> tuple[Tape, BaseException | None, frozenset[int | None]]:
        tape = Tape(self._states)
        number = next((a.number for a in reversed(asked) if a.model == GROUPS[1]), None)
        at = {"start": "on_predict_start", "end": "on_predict_end"}.get(stage)
        raises = [(at, number)] if at is not None else []
        own = [
            Witness(tape, f"installed {i + 1}", "installed", i, target, raises if i == 0 else ())
            for i in range(2)
        ]
        last = Witness(tape, "call 1", "call", 2, target)
        models = [each.model for each in asked] if self._routed else None
        if fault is not None:
            fault.tape = tape
        try:
            with self._listening_inside(target, tape), installed(target, own):
                results = ask(target, self._states, _QUESTIONS, models=models, hooks=[last])
        except Exception as error:
            # Without its traceback, which would hold the agents.
            return tape, error.with_traceback(None), frozenset()
        finally:
            if fault is not None:
                fault.tape = None
        answered = [
            one.number
            for i, one in enumerate(asked)
            if all("q" in each["answers"] for each in (results[i : i + 1] or [{"answers": {}}]))
        ]
        return tape, None, frozenset(answered)

    @contextmanager
    def _listening_inside(self, target: Any, tape: Tape) -> Iterator[None]:
        """A hook in each agent of a router."""
        with ExitStack() as hooks:
            for name in target.loaded if self._routed else ():
                agent = target.load(name)
                hook = Witness(tape, f"agent {name}", "installed", 0, agent)
                hooks.enter_context(installed(agent, [hook]))
            yield


def _fails_likewise(router: Any, outcome: BaseException | None) -> bool:
    """Whether loading is tried again, and fails as it did before."""
    try:
        router.load(GROUPS[1])
    except Exception as error:
        return type(error) is type(outcome)
    return False
