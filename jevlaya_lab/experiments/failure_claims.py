"""What the experiment ``failure`` claims, judged from what its hooks heard."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from jevlaya_lab.experiments.failure_cases import FIRST_HOOK, GROUPS, Accident, Asked
from jevlaya_lab.experiments.faults import STEPS
from jevlaya_lab.experiments.result import Claim

__all__ = ["claims"]

_FIRST, _SECOND, _THIRD = GROUPS
_AFTER_START: Final = ("start", *STEPS)
"""Stages whose failure is that of the whole checkpoint."""


def claims(accidents: Sequence[Accident], *, routed: bool) -> Iterator[Claim]:
    """All claims.

    Args:
        accidents: What was seen, stage by stage.
        routed: Whether a router was asked; what is about routers cannot be told of an agent.
    """
    made = [each for each in accidents if each.made]
    of_router = made if routed else []
    inside = [each for each in made if each.stage in STEPS]
    loads = [each for each in made if each.stage == "load"]
    yield _claim(
        "The call raises the failure itself.",
        made,
        lambda each: (
            each.outcome is not None and (each.stage == "load" or each.outcome is each.fault)
        ),
        "L-7",
    )
    yield _claim(
        "Every request that had started hears on_error with that failure, then its end; the last "
        "one first.",
        [each for each in made if each.stage in _AFTER_START],
        _all_hear,
        "L-27" if routed else "L-8",
    )
    yield _claim(
        "Every started request gets exactly one end from every hook that did not fail before.",
        made,
        _one_end_each,
        "L-28",
    )
    yield _claim(
        "Requests of a checkpoint that was done keep their end, and hear of no error.",
        of_router,
        lambda each: all(
            _events(each, asked) == ["on_predict_start", "on_predict_end"]
            for asked in each.of_group(_FIRST)
        ),
        "L-29",
        _AGENT,
    )
    yield _claim(
        "Requests of the checkpoints behind it are not started.",
        of_router,
        lambda each: not any(_events(each, asked) for asked in each.of_group(_THIRD)),
        "L-20",
        _AGENT,
    )
    yield _claim(
        "A start hook that fails keeps the agent from being asked.",
        [each for each in of_router if each.stage == "start"],
        lambda each: not any(one.hook == f"agent {_SECOND}" for one in each.seen),
        "L-4",
        _AGENT,
    )
    yield _claim(
        "The agent's own hooks hear of a failure in its steps, and then their end.",
        inside if routed else [],
        lambda each: (
            [(one.event, one.is_fault) for one in each.seen if one.hook == f"agent {_SECOND}"]
            == [("on_predict_start", False), ("on_error", True), ("on_predict_end", True)]
        ),
        "L-15",
        _AGENT,
    )
    yield _claim(
        "A load that fails starts no request of its checkpoint.",
        loads,
        lambda each: not any(_events(each, asked) for asked in each.of_group(_SECOND)),
        "L-21",
        _AGENT,
    )
    yield _claim(
        "A load that failed is tried again by the next one.",
        loads,
        lambda each: each.tried_again is True,
        "L-35",
        _AGENT,
    )
    yield _claim(
        "The router holds the same checkpoints after the failure as before it.",
        of_router,
        lambda each: each.loaded[0] == each.loaded[1],
        "",
        _AGENT,
    )
    yield _claim(
        "The same call without the fault is answered as a whole, and no hook hears of an error.",
        made,
        lambda each: (
            each.answered_after == {asked.number for asked in each.asked}
            and all(one.error is None for one in each.seen_after)
        ),
        "",
    )
    for each in accidents:
        if not each.made and (routed or each.stage != "load"):
            yield Claim(
                f"A failure in {each.stage} is heard as well.",
                None,
                "In an agent of this make no fault can be made there.",
                "L-7",
            )


_AGENT: Final = "An agent's batch is one run, and it loads nothing"


def _claim(
    text: str,
    accidents: Sequence[Accident],
    holds: Callable[[Accident], bool],
    rule: str,
    otherwise: str = "No such stage",
) -> Claim:
    """A claim that is to hold at each of some stages."""
    if not accidents:
        return Claim(text, None, f"{otherwise}.", rule)
    not_so = [each.stage for each in accidents if not holds(each)]
    stages = ", ".join(each.stage for each in accidents)
    seen = f"Stages: {stages}" + (f"; not at {', '.join(not_so)}" if not_so else "")
    return Claim(text, not not_so, f"{seen}.", rule)


def _events(each: Accident, asked: Asked) -> list[str]:
    """What was heard of a request from its start on."""
    return [one.event for one in each.heard_of(asked) if one.event != "on_route"]


def _of_group(each: Accident) -> list[tuple[str, int, bool]]:
    """Events of the failing group at the first hook, which hears them all: with their runs."""
    numbers = {asked.number for asked in each.of_group(_SECOND)} or {None}
    return [
        (one.event, one.run, one.is_fault)
        for one in each.seen
        if one.hook == FIRST_HOOK and one.request in numbers and one.event != "on_route"
    ]


def _all_hear(each: Accident) -> bool:
    found = _of_group(each)
    started = [run for event, run, _ in found if event == "on_predict_start"]
    told = [
        (event, run, True) for run in reversed(started) for event in ("on_error", "on_predict_end")
    ]
    return bool(started) and found[len(started) :] == told


def _one_end_each(each: Accident) -> bool:
    """The first hook hears every end once; no other hears one twice."""
    for hook in dict.fromkeys(one.hook for one in each.seen):
        starts, ends = (
            Counter(one.run for one in each.seen if one.hook == hook and one.event == event)
            for event in ("on_predict_start", "on_predict_end")
        )
        if max(ends.values(), default=0) > 1 or (hook == FIRST_HOOK and starts != ends):
            return False
    return bool(each.seen)
