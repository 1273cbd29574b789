"""What each hook did to a context, noted cheaply and worked out when somebody asks (L-41a).

While hooks run only references are noted (about a third of a microsecond each); which fields a hook
changed is found when :meth:`HookLog.calls` is read.
"""

from __future__ import annotations

from operator import attrgetter, is_
from typing import Any, Final, NamedTuple

__all__ = ["HookCall", "HookLog", "snapshot"]

_WATCHED: Final = ("states", "questions", "results", "decision")
"""Fields whose items are compared as well, one level deep."""

_FIELDS: Final = (*_WATCHED, "model", "max_len", "head_max_len", "usage")
_fields_of: Final = attrgetter(*_FIELDS)

Snapshot = tuple[Any, ...]


class HookCall(NamedTuple):
    """One hook method that ran for one event.

    Attributes:
        event: Such as ``on_predict_start``.
        hook: The hook's class, or the function's name where a plain callable was given.
        position: Its place among the active hooks of the call, from 0.
        origin: ``default`` (process-wide), ``installed`` or ``call``.
        at_ms: Milliseconds from the run's start until the hook began.
        elapsed_ms: Milliseconds that it took.
        changed: Context fields that it changed: assigned anew, or whose items it replaced in place
            (``ctx.states[0] = …``). A change deeper inside an item is not seen.
        error: What it raised, as ``Type: message``; ``None`` where it returned.
    """

    event: str
    hook: str
    position: int
    origin: str
    at_ms: float
    elapsed_ms: float
    changed: tuple[str, ...]
    error: str | None


def snapshot(ctx: Any) -> Snapshot:
    """The fields of a context that a hook may change, and the items of lists and dicts in them."""
    fields = _fields_of(ctx)
    states, questions, results, decision = fields[:4]
    return (
        fields,
        tuple(states) if type(states) is list else None,
        (*questions, *questions.values()) if isinstance(questions, dict) else None,
        tuple(results) if type(results) is list else None,
        (*decision, *decision.values()) if isinstance(decision, dict) else None,
    )


def _changed(before: Snapshot, after: Snapshot) -> tuple[str, ...]:
    found = []
    for i, name in enumerate(_FIELDS):
        changed = before[0][i] is not after[0][i]
        if not changed and i < len(_WATCHED):
            old, new = before[1 + i] or (), after[1 + i] or ()
            changed = len(old) != len(new) or not all(map(is_, old, new))
        if changed:
            found.append(name)
    return tuple(found)


class HookLog:
    """The hook calls of one run, in order."""

    __slots__ = ("_notes",)

    def __init__(self) -> None:
        self._notes: list[tuple[Any, ...]] = []

    def note(
        self,
        event: str,
        hook: str,
        position: int,
        origin: str,
        began: float,
        ended: float,
        before: Snapshot,
        after: Snapshot,
        error: BaseException | None,
    ) -> None:
        """Note one call; ``began`` and ``ended`` are readings of ``time.perf_counter()``."""
        # The text, not the exception: its traceback would keep agent and router alive.
        text = None if error is None else f"{type(error).__name__}: {error}"
        self._notes.append((event, hook, position, origin, began, ended, before, after, text))

    def calls(self, started_at: float) -> list[HookCall]:
        """The calls so far, with times relative to ``started_at``."""
        return [
            HookCall(
                event,
                hook,
                position,
                origin,
                (began - started_at) * 1e3,
                (ended - began) * 1e3,
                _changed(before, after),
                text,
            )
            for event, hook, position, origin, began, ended, before, after, text in self._notes
        ]
