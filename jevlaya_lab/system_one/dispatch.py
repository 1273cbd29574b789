"""How an event reaches the hooks of a call: one after the other, each noted."""

from __future__ import annotations

import time
import warnings
from functools import partial
from typing import Final

from jevlaya_lab.system_one.calling import ChainLock, call_method, finish_call, raise_again
from jevlaya_lab.system_one.context import PredictContext
from jevlaya_lab.system_one.events import EVENTS, BaseHook, Entry
from jevlaya_lab.system_one.hook_log import error_text, snapshot

__all__ = ["ActiveHooks"]


class ActiveHooks:
    """The hooks of one call in their order, with the policy by which they run."""

    __slots__ = ("entries", "lock", "raise_errors", "timeout")

    def __init__(
        self,
        active: tuple[Entry, ...],
        *,
        raise_errors: bool = True,
        timeout: float | None = None,
        lock: ChainLock | None = None,
    ) -> None:
        self.entries = active
        self.raise_errors = raise_errors
        self.timeout = timeout
        self.lock = lock

    def listens(self, event: str) -> bool:
        """Whether any of the hooks does something for an event."""
        return any(
            getattr(type(entry.hook), event, None) is not _NO_OPS[event]
            and getattr(entry.hook, event, None) is not None
            for entry in self.entries
        )

    def dispatch(self, event: str, ctx: PredictContext) -> None:
        """Run ``event`` on every hook that implements it, one after the other (L-37).

        Raises:
            BaseException: What a hook raised; the hooks after it do not run this event. With
                ``raise_errors=False`` an ``Exception`` becomes a ``RuntimeWarning`` instead.
        """
        before = None
        now, note = time.perf_counter, ctx.hook_log.append
        no_op, plain = _NO_OPS[event], self.timeout is None and self.lock is None
        for position, entry in enumerate(self.entries):
            try:
                method = getattr(entry[0], event, None)
            except Exception as error:  # a property that fails is a hook that fails
                method = partial(_raise, error)
            if method is None or getattr(method, "__func__", None) is no_op:
                continue
            if before is None:
                before = snapshot(ctx)
            text: str | None = None
            began = now()
            try:
                if plain:
                    result = method(ctx)
                    if result is not None:
                        finish_call(result)
                elif self.lock is None:
                    call_method(method, ctx, self.timeout)
                else:
                    with self.lock.hold():
                        began = now()
                        call_method(method, ctx, self.timeout)
            except BaseException as error:
                text = error_text(error)
                if self.raise_errors or not isinstance(error, Exception):
                    raise
                warnings.warn(
                    f"hook {entry.name}.{event} failed and was passed over: {text}",
                    RuntimeWarning,
                    stacklevel=2,
                )
            finally:
                ended = now()
                after = snapshot(ctx)
                note((event, entry, position, began, ended, before, after, text))
                before = after


def _raise(error: Exception, _: PredictContext) -> None:
    raise_again(error)


_NO_OPS: Final = {event: getattr(BaseHook, event) for event in EVENTS}
