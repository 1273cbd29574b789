"""What can be told from the situations, each played once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jevlaya_lab.experiments.doctor.report import FOUND, NOT_ASKED, OK, UNKNOWN, Finding
from jevlaya_lab.experiments.doctor.visits import Visit

__all__ = ["blocks", "calls_back", "inputs", "leaves", "raises", "results", "shown"]


def shown(things: Iterable[str], most: int = 4) -> str:
    """Some things in a row, and how many more there are."""
    named = list(dict.fromkeys(things))
    more = f"; and {len(named) - most} more" if len(named) > most else ""
    return "; ".join(named[:most]) + more


def raises(visits: Sequence[Visit]) -> Finding:
    """Whether a method raised, and where."""
    seen: dict[str, list[str]] = {}
    refused = False
    for each in visits:
        errors = [note for note in each.notes if note.error]
        for note in errors:
            seen.setdefault(f"{note.event} {note.error}", []).append(each.situation)
            refused = refused or note.refused
        if each.error and not errors:
            seen.setdefault(f"the call fails with {each.error}", []).append(each.situation)
    if not seen:
        n_calls = sum(len(each.notes) for each in visits)
        return Finding(
            "raises", OK, f"{n_calls} events in {len(visits)} situations, and none raised."
        )
    evidence = shown(f"{what} (in {shown(where)})" for what, where in seen.items()) + "."
    own = any(note.error and not note.refused for each in visits for note in each.notes)
    fails = any(each.error and not any(n.error for n in each.notes) for each in visits)
    if refused and not own and not fails:
        return Finding("raises", UNKNOWN, f"On purpose? {evidence}")
    return Finding("raises", FOUND, evidence)


def calls_back(visits: Sequence[Visit], timeout_s: float) -> Finding:
    """Whether a call hung."""
    hung = [each.situation for each in visits if each.is_hung]
    if hung:
        return Finding(
            "calls back", FOUND, f"Not back after {timeout_s:g} s: {shown(hung, most=8)}."
        )
    late = [each.situation for each in visits if each.is_late]
    if late:
        return Finding(
            "calls back",
            UNKNOWN,
            f"Not back after {10 * timeout_s:g} s, and the hook was at nothing for long: "
            f"{shown(late, most=8)}.",
        )
    return Finding("calls back", OK, f"{len(visits)} situations came back.")


def inputs(visits: Sequence[Visit]) -> Finding:
    """Whether the caller's own objects were changed."""
    return _listed(
        "changes inputs",
        [(each.situation, each.changed) for each in visits],
        "states, questions and requests are equal to copies made before",
    )


def leaves(visits: Sequence[Visit]) -> Finding:
    """Whether something of the process stayed changed."""
    return _listed(
        "sets and leaves",
        [(each.situation, each.ambient) for each in visits if each.is_back],
        "environment, generators, levels, filters and the caller's context are as before",
        "not put back: ",
    )


def results(visits: Sequence[Visit]) -> Finding:
    """Whether results came out whole."""
    return _listed(
        "results",
        [(each.situation, each.complaints) for each in visits],
        "results are whole after the end hook",
    )


def _listed(
    check: str, seen: Sequence[tuple[str, Sequence[str]]], good: str, lead: str = ""
) -> Finding:
    if not seen:
        return Finding(check, UNKNOWN, "No situation came back.")
    where: dict[str, list[str]] = {}
    for situation, things in seen:
        for thing in things:
            where.setdefault(thing, []).append(situation)
    if not where:
        return Finding(check, OK, f"In {len(seen)} situations {good}.")
    things = shown(f"{thing} (in {shown(places, most=3)})" for thing, places in where.items())
    found = f"{lead}{things}"
    return Finding(check, FOUND, f"{found[:1].upper()}{found[1:]}.")


def blocks(visits: Sequence[Visit], most_ms: float) -> Finding:
    """Whether an async method held up the loop; a single stretch may be the machine's doing."""
    steps: dict[str, list[float]] = {}
    for each in visits:
        for note in each.notes:
            if note.step_ms is not None:
                steps.setdefault(note.event, []).append(note.step_ms)
    if not steps:
        return Finding("blocks the loop", NOT_ASKED, "no async method ran.")
    held = {event: sorted(found)[len(found) // 2] for event, found in steps.items()}
    text = shown((f"{event} {ms:.1f} ms" for event, ms in held.items()), most=6)
    verdict = FOUND if max(held.values()) > most_ms else OK
    return Finding(
        "blocks the loop",
        verdict,
        f"Longest stretch without an await, median: {text}; {most_ms:g} ms are allowed.",
    )
