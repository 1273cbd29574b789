"""The events of a run, what a hook is, and the base class that does nothing."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, Protocol

from jevlaya_lab.system_one.context import PredictContext

__all__ = ["EVENTS", "BaseHook", "Entry", "Hook"]

EVENTS: Final = (
    "on_predict_start",
    "on_predict_end",
    "on_route",
    "on_load",
    "on_evict",
    "on_error",
)


class Hook(Protocol):
    """The events a hook may listen to; implement any subset, as plain or ``async`` methods."""

    def on_predict_start(self, ctx: PredictContext) -> Any:
        """Before anything is computed: may rewrite states, questions or budgets, skip, or raise."""

    def on_predict_end(self, ctx: PredictContext) -> Any:
        """Last, on every path: may read and rewrite the results."""

    def on_route(self, ctx: PredictContext) -> Any:
        """After the Router decided, before it loads: may replace ``ctx.decision``."""

    def on_load(self, ctx: PredictContext) -> Any:
        """A checkpoint was built."""

    def on_evict(self, ctx: PredictContext) -> Any:
        """A checkpoint was released."""

    def on_error(self, ctx: PredictContext) -> Any:
        """The run failed with ``ctx.error``; ``on_predict_end`` follows."""


class BaseHook:
    """A hook that does nothing: subclass it and override the events you need."""

    def on_predict_start(self, ctx: PredictContext) -> Any:
        """See :class:`Hook`."""

    def on_predict_end(self, ctx: PredictContext) -> Any:
        """See :class:`Hook`."""

    def on_route(self, ctx: PredictContext) -> Any:
        """See :class:`Hook`."""

    def on_load(self, ctx: PredictContext) -> Any:
        """See :class:`Hook`."""

    def on_evict(self, ctx: PredictContext) -> Any:
        """See :class:`Hook`."""

    def on_error(self, ctx: PredictContext) -> Any:
        """See :class:`Hook`."""


class Entry(NamedTuple):
    """A hook in a list: the object, the name that traces show, and where it came from."""

    hook: Any
    name: str
    origin: str
