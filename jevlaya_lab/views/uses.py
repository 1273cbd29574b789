"""Which checkpoints were resident when, read off the runs of a trace; what that leaves open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pandas as pd

from jevlaya_lab.views.calls import Row, facts_of

__all__ = ["Residency", "Stay", "Step", "residency_of"]


@dataclass
class Stay:
    """A time during which a checkpoint was resident.

    Attributes:
        model: The checkpoint.
        start: From when on; of one that was there before its first sign, that sign.
        end: Until when; ``None`` where nothing says that it went.
        built_from: When its load began; ``None`` where no load was recorded.
        uses: When requests went to it.
    """

    model: str
    start: float
    end: float | None = None
    built_from: float | None = None
    uses: list[float] = field(default_factory=list)

    @property
    def inferred(self) -> bool:
        """Whether no load says when it came: it was there already, or was attached."""
        return self.built_from is None


@dataclass(frozen=True)
class Step:
    """A load, an eviction, or the sign of one that was there already.

    Attributes:
        at: When.
        what: ``loaded``, ``evicted`` or ``there already``.
        model: The checkpoint.
        resident: Who was resident then, the least recently used one first.
        least_recent: Of an eviction, whether it was the least recently used one.
    """

    at: float
    what: str
    model: str
    resident: tuple[str, ...]
    least_recent: bool | None = None


@dataclass
class Residency:
    """All stays and steps of a trace, in order.

    Attributes:
        stays: Per checkpoint its stays, checkpoints in order of appearance.
        steps: What happened.
        order: Who is resident in the end, the least recently used one first.
        n_uses: Requests that went to a checkpoint.
        n_hits: Those that found it resident.
    """

    stays: dict[str, list[Stay]]
    steps: list[Step]
    order: list[str]
    n_uses: int
    n_hits: int


def residency_of(runs: pd.DataFrame) -> Residency:
    """Follow loads, evictions and requests in their order.

    A load counts from its end, when the checkpoint is there; an eviction from its start. A request
    is one router's run; those that begin before their checkpoint's load has ended waited for it.

    Args:
        runs: ``trace.runs``.
    """
    rows = facts_of(
        runs[runs["scope"].isin(["router", "load", "evict"]) & runs["start_ms"].notna()]
    )
    signs = sorted((_sign(row) for row in rows if _counts(row)), key=lambda each: each[:2])
    found = Residency({}, [], [], 0, 0)
    fresh: set[str] = set()
    for at, _, row in signs:
        model = row["model"] or "?"
        open_stay = _open(found.stays.get(model, []))
        if row["scope"] == "load":
            if open_stay is not None:  # its eviction was not recorded, or another router's
                open_stay.end = row["start_ms"]
            found.stays.setdefault(model, []).append(Stay(model, at, None, row["start_ms"]))
            _used(found.order, model)
            fresh.add(model)
            found.steps.append(Step(at, "loaded", model, tuple(found.order)))
            continue
        if open_stay is None:
            open_stay = Stay(model, at)
            found.stays.setdefault(model, []).append(open_stay)
            if row["scope"] == "evict":
                found.order.insert(0, model)
            else:
                _used(found.order, model)
            found.steps.append(Step(at, "there already", model, tuple(found.order)))
        if row["scope"] == "evict":
            open_stay.end = at
            # What was built for this eviction's load is the most recently used one.
            first = next(iter(found.order), None) == model
            found.order.remove(model)
            fresh.discard(model)
            found.steps.append(Step(at, "evicted", model, tuple(found.order), first))
        else:
            found.n_uses += 1
            found.n_hits += model not in fresh
            fresh.discard(model)
            open_stay.uses.append(at)
            _used(found.order, model)
    return found


def _counts(row: Row) -> bool:
    """A load that failed made nothing resident; a call without a run loaded nothing itself."""
    if row["scope"] == "load":
        return row["error_type"] is None or row["end_ms"] is not None
    return row["scope"] == "evict" or row["n_states"] is not None


def _sign(row: Row) -> tuple[float, int, Row]:
    """When it counts; of what counts at the same moment, a load comes before its eviction."""
    late = row["end_ms"] if row["scope"] == "load" and row["end_ms"] is not None else None
    at = float(row["start_ms"] if late is None else late)
    return at, ("load", "evict", "router").index(row["scope"]), row


def _open(stays: Sequence[Stay]) -> Stay | None:
    return stays[-1] if stays and stays[-1].end is None else None


def _used(order: list[str], model: str) -> None:
    if model in order:
        order.remove(model)
    order.append(model)
