"""What the experiment ``hook_order`` claims, judged from what its hooks heard."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from jevlaya_lab.experiments.hook_cases import LOADING, Observed
from jevlaya_lab.experiments.result import Claim
from jevlaya_lab.experiments.watching import Seen

__all__ = ["claims"]

_TWO_CHECKPOINTS: Final = "It takes a router that knows two checkpoints on this machine"


def claims(observed: Sequence[Observed], *, routed: bool) -> Iterator[Claim]:
    """All claims.

    Args:
        observed: What was seen, case by case.
        routed: Whether a router was asked; what is about routers cannot be told of an agent.
    """
    calm = [each for each in observed if not each.case.event]
    failing = [each for each in observed if each.case.event]
    of = {event: [o for o in failing if o.case.event == event] for event in _events(failing)}
    broken = [*of.get("on_predict_start", []), *of.get("on_error", [])]
    yield _claim(
        "Process-wide hooks run first, then the installed, then those of the call, in the order "
        "of each list; every hook hears an event before the next event begins.",
        observed,
        _in_order,
        "L-37",
    )
    yield _claim(
        "None and [] as hooks of a call add nothing.",
        [each for each in calm if each.case.name == "none added"],
        _adds_nothing,
        "L-2",
    )
    yield _claim(
        "End hooks run in the same order as start hooks.",
        [each for each in calm if each.case.name == "lists"],
        _same_way,
        "L-37",
    )
    yield _claim(
        "Requests of a batch end in reverse order, so that what a start sets and its end resets "
        "nests.",
        calm if routed else [],
        _nests,
        "L-26",
        "An agent's batch is one run",
    )
    yield _claim(
        "A hook that fails keeps the hooks behind it from that event, and no other hook.",
        failing,
        _stops_there,
        "L-4",
    )
    yield _claim(
        "The call raises the first failure, also where an on_error hook fails after it.",
        failing,
        lambda each: each.first_fault is not None and each.outcome is each.first_fault,
        "L-7",
    )
    yield _claim(
        "After a failure each started run hears on_error with that very failure, then its end, "
        "the last one first.",
        broken,
        _all_hear,
        "L-27" if routed else "L-8",
    )
    yield _claim(
        "Every started run gets exactly one end, also where the end of another fails.",
        observed,
        _one_end_each,
        "L-28",
    )
    yield _claim(
        "A hook that fails at on_route keeps anything from being started.",
        of.get("on_route", []),
        lambda each: {one.event for one in each.seen} == {"on_route"},
        "L-11",
        "An agent routes nothing",
    )
    yield _claim(
        "Where one request evicts and loads, on_evict comes before on_load.",
        of.get("on_load", []),
        _evicts_first,
        "L-31",
        _TWO_CHECKPOINTS,
    )
    yield _claim(
        "A hook that fails at on_evict keeps nobody from hearing that the other one was loaded.",
        of.get("on_evict", []),
        _evicts_first,
        "",
        _TWO_CHECKPOINTS,
    )
    yield _same_both_ways(observed)


def _events(observed: Sequence[Observed]) -> list[str]:
    return list(dict.fromkeys(each.case.event for each in observed))


def _claim(
    text: str,
    observed: Sequence[Observed],
    holds: Callable[[Observed], bool],
    rule: str,
    otherwise: str = "No such case",
) -> Claim:
    """A claim that is to hold in each of some cases."""
    if not observed:
        return Claim(text, None, f"{otherwise}.", rule)
    not_so = [each.case for each in observed if not holds(each)]
    seen = f"In {len(observed) - len(not_so)} of {len(observed)} cases"
    if not_so:
        seen += f"; not in {not_so[0].name!r} with hooks_concurrent={not_so[0].hooks_concurrent}"
    return Claim(text, not not_so, f"{seen}.", rule)


def _in_order(each: Observed) -> bool:
    """Every event whose hooks all returned reached all of them, in order."""
    n = sum(each.n_listed) + (each.case.name == "pairs")
    calm = [found for found in each.passes if not any(one.raised for one in found)]
    return bool(each.seen) and all(
        _positions(found)
        == list(
            range(
                each.n_lasting if found[0].event in LOADING or each.case.name == "none added" else n
            )
        )
        for found in calm
    )


def _positions(found: Sequence[Seen]) -> list[int]:
    return [one.position for one in found]


def _adds_nothing(each: Observed) -> bool:
    what = [(one.event, one.position) for one in each.seen]
    half = len(what) // 2
    return each.outcome is None and bool(what) and what[:half] == what[half:]


def _same_way(each: Observed) -> bool:
    ways = [
        {tuple(_positions(found)) for found in each.passes if found[0].event == event}
        for event in ("on_predict_start", "on_predict_end")
    ]
    return len(ways[0]) == 1 and ways[0] == ways[1]


def _runs(each: Observed, event: str) -> list[int]:
    return [found[0].run for found in each.passes if found[0].event == event]


def _nests(each: Observed) -> bool:
    starts, ends = _runs(each, "on_predict_start"), _runs(each, "on_predict_end")
    if each.case.name == "none added":  # two calls
        half = len(starts) // 2
        return ends == [*reversed(starts[:half]), *reversed(starts[half:])]
    return bool(starts) and ends == starts[::-1] and all(each.nested)


def _stops_there(each: Observed) -> bool:
    hurt = [found for found in each.passes if any(one.raised for one in found)]
    return bool(hurt) and all(
        _positions(found) == list(range(len(found)))
        and [one.raised for one in found] == [False] * (len(found) - 1) + [True]
        for found in hurt
    )


def _all_hear(each: Observed) -> bool:
    started = _runs(each, "on_predict_start")
    after = [(found[0].event, found[0].run) for found in each.passes][len(started) :]
    after = [(event, run) for event, run in after if event in ("on_error", "on_predict_end")]
    told = [(e, run) for run in reversed(started) for e in ("on_error", "on_predict_end")]
    late = [one for one in each.seen if one.event in ("on_error", "on_predict_end")]
    return bool(started) and after == told and all(one.is_fault for one in late)


def _one_end_each(each: Observed) -> bool:
    return Counter(_runs(each, "on_predict_start")) == Counter(_runs(each, "on_predict_end"))


def _evicts_first(each: Observed) -> bool:
    events = [found[0].event for found in each.passes]
    return [event for event in events if event in LOADING] == list(LOADING)


def _same_both_ways(observed: Sequence[Observed]) -> Claim:
    ways: dict[str, list[list[Any]]] = {}
    for each in observed:
        what = [(s.event, s.position, s.request, s.error, s.raised) for s in each.seen]
        ways.setdefault(each.case.name, []).append(what)
    differ = [name for name, found in ways.items() if any(what != found[0] for what in found)]
    return Claim(
        "Hooks one at a time (hooks_concurrent=False) hear the same in the same order.",
        not differ,
        f"In {len(ways) - len(differ)} of {len(ways)} cases"
        + (f"; not in {differ[0]!r}." if differ else "."),
        "L-39",
    )
