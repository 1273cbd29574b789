"""Hooks that write down what they see, in one order for all of them, and fail where told to."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from jevlaya_lab.system_one.errors import JevlayaError
from jevlaya_lab.system_one.events import EVENTS

__all__ = ["ORIGINS", "InjectedFault", "Seen", "Tape", "Witness", "installed"]

ORIGINS: Final = ("default", "installed", "call")


class InjectedFault(JevlayaError):
    """A failure that an experiment makes on purpose."""


class Seen(NamedTuple):
    """One event at one hook.

    Attributes:
        seq: Place in the order of all that was seen, from 0.
        event: Such as ``on_predict_start``.
        hook: Name of the hook.
        origin: List of the hook: ``default``, ``installed`` or ``call``.
        position: Its place among the hooks of the call, from 0.
        request: Number of the request, from 0; ``None`` where the event is of none.
        model: The checkpoint that the context names.
        run: Place of its context among all contexts seen, from 0.
        error: Type of ``ctx.error``.
        is_fault: Whether ``ctx.error`` is the very exception that was injected first.
        raised: Whether this hook raised here.
    """

    seq: int
    event: str
    hook: str
    origin: str
    position: int
    request: int | None
    model: str | None
    run: int
    error: str | None
    is_fault: bool
    raised: bool


class Tape:
    """What the hooks of a call saw, from whichever threads.

    Args:
        states: The states that are asked about; their places are the numbers of requests.

    Attributes:
        seen: Event by event, in order.
        faults: What was raised on purpose, in order.
    """

    def __init__(self, states: Sequence[Any]) -> None:
        self.seen: list[Seen] = []
        self.faults: list[BaseException] = []
        self._states = list(states)
        self._runs: list[Any] = []
        self._lock = threading.Lock()

    def fault(self, text: str) -> BaseException:
        """A failure to raise, noted as one that was made on purpose."""
        error = InjectedFault(text)
        with self._lock:
            self.faults.append(error)
        return error

    @property
    def first_fault(self) -> BaseException | None:
        """What was raised on purpose first; ``None`` where nothing was."""
        return self.faults[0] if self.faults else None

    def request_of(self, ctx: Any) -> int | None:
        """Number of the request that a context is of."""
        states = ctx.states if isinstance(ctx.states, (list, tuple)) else []
        return next((i for i, each in enumerate(self._states) if [each] == list(states)), None)

    def note(self, event: str, ctx: Any, hook: Witness, raised: bool) -> None:
        """Write one event down."""
        decision = ctx.decision if isinstance(ctx.decision, dict) else {}
        with self._lock:
            run = next((i for i, each in enumerate(self._runs) if each is ctx), None)
            if run is None:
                run = len(self._runs)
                self._runs.append(ctx)
            self.seen.append(
                Seen(
                    len(self.seen),
                    event,
                    hook.name,
                    hook.origin,
                    hook.position,
                    self.request_of(ctx),
                    ctx.model or decision.get("model"),
                    run,
                    None if ctx.error is None else type(ctx.error).__name__,
                    bool(self.faults) and ctx.error is self.first_fault,
                    raised,
                )
            )


class Witness:
    """A hook for all events that notes each one.

    Args:
        tape: What it writes into.
        name: Of the hook.
        origin: The list that it is in.
        position: Its place among the hooks of the call.
        target: The agent or router whose events it notes; those of others pass it by.
        raises: Pairs ``(event, request)`` at which it fails; a request of ``None`` is any.
    """

    def __init__(
        self,
        tape: Tape,
        name: str,
        origin: str,
        position: int,
        target: Any,
        raises: Collection[tuple[str, int | None]] = (),
    ) -> None:
        self.tape = tape
        self.name = name
        self.origin = origin
        self.position = position
        self.raises = frozenset(raises)
        self._target = target

    def hear(self, event: str, ctx: Any) -> None:
        """Note an event, and fail if it is one to fail at."""
        if ctx.router is not self._target and ctx.agent is not self._target:
            return
        fails = not self.raises.isdisjoint([(event, None), (event, self.tape.request_of(ctx))])
        self.tape.note(event, ctx, self, fails)
        if fails:
            raise self.tape.fault(f"{event} of hook {self.name}")


def _method(event: str) -> Any:
    def listen(self: Witness, ctx: Any) -> None:
        self.hear(event, ctx)

    listen.__name__ = event
    return listen


for _event in EVENTS:
    setattr(Witness, _event, _method(_event))


@contextmanager
def installed(target: Any, hooks: Sequence[Any]) -> Iterator[None]:
    """Hooks of an agent or router for the time of the block."""
    target.add_hook(hooks)
    try:
        yield
    finally:
        for hook in hooks:
            target.remove_hook(hook)
