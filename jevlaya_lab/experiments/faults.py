"""Faults at the stages of a run: agents that fail when told to, and are whole again afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from jevlaya_lab.experiments.targets import agent_twin
from jevlaya_lab.experiments.watching import Tape
from jevlaya_lab.system_one.hooks import HookRegistry
from jevlaya_lab.system_one.models import Batch, EncodedState, Logits, Prepared

__all__ = ["STEPS", "Fault", "faulty_twin"]

STEPS: Final = ("encode", "forward", "decode")
"""The stages inside an agent where a fault can be made."""

_METHODS: Final = {"encode": "_encode_state", "forward": "_forward", "decode": "_decode_answers"}
"""Of ``laya.Agent``: the methods that are these steps."""


class Fault:
    """A failure that waits to happen.

    Args:
        step: One of :data:`STEPS`.

    Attributes:
        tape: What notes that it happened; while there is none it does not happen.
    """

    def __init__(self, step: str) -> None:
        self.step = step
        self.tape: Tape | None = None

    def strike(self, step: str) -> None:
        """Fail, if this is the step and the time has come."""
        if self.tape is not None and step == self.step:
            raise self.tape.fault(f"made on purpose, in {step}")


def faulty_twin(agent: Any, fault: Fault) -> Any | None:
    """A twin of an agent in which the fault may happen; ``None`` where it cannot be made."""
    twin = agent_twin(agent)
    if isinstance(twin, HookRegistry) and hasattr(twin, "network"):
        twin.network = _FaultyNetwork(agent.network, fault)
        return twin
    name = _METHODS[fault.step]
    method = getattr(twin, name, None)
    if method is None:
        return None
    setattr(twin, name, _failing(method, fault))  # of this twin alone, not of its class
    return twin


def _failing(method: Callable[..., Any], fault: Fault) -> Callable[..., Any]:
    def step(*args: Any, **kwargs: Any) -> Any:
        fault.strike(fault.step)
        return method(*args, **kwargs)

    return step


class _FaultyNetwork:
    """A network that passes everything on to another one, and fails at one step."""

    def __init__(self, network: Any, fault: Fault) -> None:
        self._network = network
        self._fault = fault

    def __getattr__(self, name: str) -> Any:
        return getattr(self._network, name)

    def encode_state(self, text: str, *, keep_end: bool, prepared: Prepared) -> EncodedState:
        self._fault.strike("encode")
        found: EncodedState = self._network.encode_state(text, keep_end=keep_end, prepared=prepared)
        return found

    def forward(self, batch: Batch, prepared: Prepared) -> Logits:
        self._fault.strike("forward")
        found: Logits = self._network.forward(batch, prepared)
        return Logits(_Unreadable(found.options, self._fault), found.act)


class _Unreadable(list[Any]):
    """Logits that fail when they are decoded."""

    def __init__(self, options: Sequence[Any], fault: Fault) -> None:
        super().__init__(options)
        self._fault = fault

    def __getitem__(self, place: Any) -> Any:
        self._fault.strike("decode")
        return super().__getitem__(place)
