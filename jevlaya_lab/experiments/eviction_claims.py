"""What the experiment ``eviction`` claims, judged from what the Router loaded and evicted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from jevlaya_lab.experiments.policies import Run
from jevlaya_lab.experiments.result import Claim

__all__ = ["Step", "claims"]


@dataclass
class Step:
    """One request as the Router took it.

    Attributes:
        checkpoint: The checkpoint that answered.
        loaded: What was loaded for it.
        evicted: What went for it, in order.
        events: ``on_evict`` and ``on_load``, in the order in which they came.
        routed_at: Reading of ``time.perf_counter()`` when it was decided where it goes.
        loading_ms: Milliseconds from there until the checkpoint was loaded.
        resident: How many checkpoints were resident afterwards.
    """

    checkpoint: str = ""
    loaded: list[str] = field(default_factory=list)
    evicted: list[str] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    routed_at: float = 0.0
    loading_ms: float = 0.0
    resident: int = 0


def claims(
    measured: Mapping[int, Sequence[Step]], runs: Mapping[int, Mapping[str, Run]]
) -> Iterator[Claim]:
    """All claims.

    Args:
        measured: By ``max_loaded``: what the Router did, request by request.
        runs: By ``max_loaded`` and name of the policy: what that one would have done.
    """
    differ = [
        (size, i)
        for size, found in measured.items()
        for i, step in enumerate(found)
        if (step.loaded, step.evicted) != _expected(step.checkpoint, runs[size]["lru"], i)
    ]
    n = sum(map(len, measured.values()))
    where = "; first difference at max_loaded={}, request {}".format(*differ[0]) if differ else ""
    yield Claim(
        "Request by request, the Router loads and evicts what least recently used says.",
        not differ,
        f"{n - len(differ)} of {n} requests as computed{where}.",
        "L-32",
    )
    over = [step for size, found in measured.items() for step in found if step.resident > size]
    yield Claim(
        "Never more than max_loaded are resident after a request.",
        not over,
        f"Too many after {len(over)} of {n} requests.",
        "L-32",
    )
    both = [s.events for found in measured.values() for s in found if len(s.events) > 1]
    early = [events for events in both if events[-1] != "on_load" or "on_load" in events[:-1]]
    yield Claim(
        "Where one request evicts and loads, on_evict comes before on_load.",
        not early if both else None,
        f"{len(both) - len(early)} of {len(both)} such requests.",
        "L-31",
    )
    counts = {s: sum(len(step.loaded) for step in found) for s, found in measured.items()}
    beaten = [
        f"{policy} at max_loaded={size}"
        for size, by_policy in runs.items()
        for policy, loads in [
            ("router", counts[size]),
            *((name, each.loads) for name, each in by_policy.items()),
        ]
        if loads < by_policy["belady"].loads
    ]
    best = {size: by_policy["belady"].loads for size, by_policy in runs.items()}
    yield Claim(
        "Nobody needs fewer loads than Belady's policy, which knows the future.",
        not beaten,
        (f"Fewer: {', '.join(beaten)}. " if beaten else "")
        + "Loads of the Router and the fewest possible: "
        + ", ".join(f"{counts[s]} and {best[s]} with max_loaded={s}" for s in counts)
        + ".",
    )
    in_order = [counts[size] for size in sorted(counts)]
    yield Claim(
        "With more room the Router never loads more.",
        None if len(in_order) < 2 else in_order == sorted(in_order, reverse=True),
        f"Loads: {', '.join(map(str, in_order))}.",
    )


def _expected(name: str, lru: Run, i: int) -> tuple[list[str], list[str]]:
    gone = lru.evicted[i]
    return [name] if lru.loaded[i] else [], [] if gone is None else [str(gone)]
