"""What each hook did to a context, noted cheaply and worked out when somebody asks (L-41a).

While hooks run only references are noted, which takes well under a microsecond; which fields a hook
changed is found when :meth:`HookLog.calls` is read.
"""

from __future__ import annotations

from operator import attrgetter, is_
from typing import Any, Final, NamedTuple

__all__ = ["HookCall", "HookLog", "error_text", "snapshot"]

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


def error_text(error: BaseException) -> str:
    """``Type: message``, also of an exception whose message cannot be made or is no valid text."""
    try:
        message = str(error)
    except Exception as exc:
        message = f"<its text raised {type(exc).__name__}>"
    return f"{type(error).__name__}: {message}".encode("utf-8", "replace").decode()


def snapshot(ctx: Any) -> Snapshot:
    """The fields of a context that a hook may change, and the items of lists and dicts in them."""
    fields = _fields_of(ctx)
    states, questions, results, decision = fields[:4]
    return (
        fields,
        states.copy() if type(states) is list else None,
        questions.copy() if type(questions) is dict else None,
        results.copy() if type(results) is list else None,
        decision.copy() if isinstance(decision, dict) else None,
    )


def _changed(before: Snapshot, after: Snapshot) -> tuple[str, ...]:
    # Most hooks change nothing, and recorders ask about each one.
    if all(map(is_, before[0], after[0])) and all(map(_same_items, before[1:], after[1:])):
        return ()
    found = []
    for i, name in enumerate(_FIELDS):
        changed = before[0][i] is not after[0][i]
        if not changed and i < len(_WATCHED):
            changed = not _same_items(before[1 + i], after[1 + i])
        if changed:
            found.append(name)
    return tuple(found)


def _same_items(old: Any, new: Any) -> bool:
    if old is new:  # which two copies are only where there was nothing to copy
        return True
    if old is None or new is None:
        return False
    if len(old) != len(new) or not all(map(is_, old, new)):
        return False
    return not isinstance(old, dict) or all(map(is_, old.values(), new.values()))


class HookLog(list[Any]):
    """Notes of the hook calls of one run, in order.

    Each is ``(event, entry, position, began, ended, before, after, error)``: ``entry`` has the
    hook's ``name`` and ``origin``, ``began`` and ``ended`` are readings of ``time.perf_counter()``,
    ``before`` and ``after`` are snapshots, and ``error`` is a text (the exception's traceback would
    keep agent and router alive).
    """

    def left_by(self, event: str) -> tuple[Any, Any, str | None] | None:
        """The states and questions as the last hook of an event left them, and what it raised."""
        for noted, _, _, _, _, _, after, error in reversed(self):
            if noted == event:
                fields, states, questions = after[:3]
                return (
                    fields[0] if states is None else states,
                    fields[1] if questions is None else questions,
                    error,
                )
        return None

    def states(self) -> list[Any]:
        """The states as they were before and after each hook call."""
        found = [snap for note in self for snap in note[5:7]]
        return [snap[0][0] if snap[1] is None else snap[1] for snap in found]

    def calls(self, started_at: float) -> list[HookCall]:
        """The calls so far, with times relative to ``started_at``."""
        return [
            HookCall(
                event,
                entry.name,
                position,
                entry.origin,
                (began - started_at) * 1e3,
                (ended - began) * 1e3,
                _changed(before, after),
                error,
            )
            for event, entry, position, began, ended, before, after, error in self
        ]
