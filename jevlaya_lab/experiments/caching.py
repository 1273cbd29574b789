"""What a cache that skips can serve: in loops, in batches, and after a checkpoint was rebuilt."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Annotated, Any, Final, NamedTuple

import pandas as pd

from jevlaya_lab.contrib_hooks.cache import ExactCache
from jevlaya_lab.experiments.cached_calls import Asked, CachedCalls, key_of
from jevlaya_lab.experiments.catalogue import experiment
from jevlaya_lab.experiments.options import Option
from jevlaya_lab.experiments.result import Claim, ExperimentResult
from jevlaya_lab.experiments.steps import Progress, steps
from jevlaya_lab.experiments.tables import COUNT, FLAG, NUMBER, TEXT, levels, table
from jevlaya_lab.experiments.texts import (
    describe_questions,
    describe_states,
    questions_about_tickets,
    tickets,
)
from jevlaya_lab.experiments.whom import asked_of, describe
from jevlaya_lab.lab.asking import is_router
from jevlaya_lab.lab.inputs import same_states
from jevlaya_lab.system_one.errors import InvalidInput
from jevlaya_lab.views.charts import bar_chart
from jevlaya_lab.views.layout import Layout

__all__ = ["CachingResult", "run"]

ROUNDS: Final = ("loop", "loop again", "batch", "batch again", "rebuilt")
OUTCOMES: Final = ("hit", "duplicate", "miss")
_DTYPES: Final[dict[str, Any]] = {
    "round": levels(ROUNDS),
    "request": COUNT,
    "text": COUNT,
    "outcome": pd.CategoricalDtype(list(OUTCOMES)),
    "skipped": FLAG,
    "computed": FLAG,
    "call": COUNT,
    "call_passes": COUNT,
    "agent": COUNT,
    "decision_model": TEXT,
    "decision_reason": TEXT,
    "routing_model": TEXT,
    "routing_reason": TEXT,
    "brought_routing": FLAG,
    "own_routing": FLAG,
    "ms": NUMBER,
}


@dataclass(frozen=True, kw_only=True)
class CachingResult(ExperimentResult):
    """What became of each request under a cache.

    ``frame`` has one row per request: its ``round``, its place in it (``request``), which ``text``
    it asked about, the ``outcome`` (``hit``: a hook answered; ``duplicate``: computed although the
    same was asked earlier in this call; ``miss``), whether the network was asked for it
    (``computed``), the number of its ``call`` and that call's forward passes, which ``agent``
    object answered (numbered), the decision of its own call against the ``routing`` of the result,
    whether the cache had ``brought_routing`` along, and the run's milliseconds.
    """

    def layout(self) -> Layout:
        """Requests by round and outcome."""
        counts = self.frame.groupby(["round", "outcome"], observed=True).size()
        return bar_chart(
            counts.rename("requests").reset_index(),
            x="round",
            y="requests",
            by="outcome",
            title="A cache in loops and in batches",
            subtitle=f"{len(self.frame)} requests on {self.parameters['agent']}",
            x_label="",
            y_label="requests",
            note="duplicate: computed again, although the same call had asked it already",
        )


@experiment("A cache in loops, in batches and after eviction")
def run(
    agent: Any = None,
    *,
    n: Annotated[int, Option("Different texts in a round.", low=1, high=32)] = 6,
    copies: Annotated[int, Option("How often a round asks about each.", low=2, high=8)] = 2,
    capacity: Annotated[int, Option("Entries of the cache; the oldest goes first.", low=1)] = 1024,
    states: Any = None,
    questions: Any = None,
    cache: Any = None,
    seed: Annotated[int, Option("Of the texts and their order.")] = 0,
    progress: Progress = True,
) -> CachingResult:
    """Ask everything several times with a cache among the hooks, and see what it can serve.

    One half of the texts is asked in a loop of single calls, then again; the other half in one
    batch, then again. The second time a router is told the checkpoint, so that its decision is
    another one. At last, where no router was given, all checkpoints are unloaded and built again.

    Args:
        agent: An agent or a router; ``None`` makes a ``Router()``.
        n: See the options, as for those below.
        copies: See the options.
        capacity: See the options.
        states: Texts of your own, at least two different ones, instead of tickets.
        questions: Questions of your own.
        cache: A hook of your own that answers by ``ctx.skip``, instead of an ``ExactCache``.
        seed: See the options.
        progress: Whether to show a bar, or a function that is told.

    Returns:
        The result.
    """
    first, second = _halves(states, n, seed)
    asked = questions_about_tickets() if questions is None else questions
    target = asked_of(agent, "caching")
    hook = ExactCache(capacity) if cache is None else cache
    calls = CachedCalls(target, asked, hook)
    dice = random.Random(seed)
    looped, batched = (
        dice.sample(texts * copies, len(texts) * copies) for texts in (first, second)
    )
    plan = [_Step("loop", [i]) for i in range(len(looped))]
    plan += [_Step("loop again", [i]) for i in range(len(looped))]
    plan += [_Step(name, list(range(len(batched)))) for name in ("batch", "batch again")]
    if agent is None:
        plan += [_Step("rebuilt", [i]) for i in range(len(looped))]
    rows: list[dict[str, Any]] = []
    models: dict[str, Any] = {}
    for number, step in enumerate(steps(plan, progress, lambda each: each.round)):
        if step.round == "rebuilt" and step.requests == [0]:
            target.unload()
        texts = batched if step.round.startswith("batch") else looped
        states_of_call = [texts[i] for i in step.requests]
        told = [
            models.get(key_of(s)) if step.round.endswith("again") else None for s in states_of_call
        ]
        found = calls.ask(states_of_call, told, batch=step.round.startswith("batch"))
        for i, state, each in zip(step.requests, states_of_call, found, strict=True):
            models.setdefault(key_of(state), each.decision.get("model"))
            rows.append(_row(step.round, i, number, each))
    numbers = {key: i for i, key in enumerate(map(key_of, [*first, *second]))}
    frame = table(({**row, "text": numbers[row["text"]]} for row in rows), _DTYPES)
    return CachingResult(
        name="caching",
        hypothesis="A cache by skip serves what an earlier call was asked, and nothing else.",
        claims=_claims(frame, is_router(target), agent is None, _bypassed(hook)),
        frame=frame,
        parameters={
            "agent": describe(agent),
            "n": n,
            "copies": copies,
            "capacity": capacity,
            "states": describe_states(states),
            "questions": describe_questions(questions),
            "cache": type(hook).__qualname__,
        },
        seed=seed,
    )


class _Step(NamedTuple):
    round: str
    requests: list[int]


def _halves(states: Any, n: int, seed: int) -> tuple[list[Any], list[Any]]:
    if states is None:
        found: list[Any] = [each.text for each in tickets(2 * n, seed=seed)]
    else:
        found = [states[i] for i in sorted(set(same_states(states, [])))]
        if len(found) < 2:
            raise InvalidInput("caching needs at least two different states: one to ask in a loop")
    middle = len(found) // 2
    return found[:middle], found[middle:]


def _row(name: str, request: int, call: int, asked: Asked) -> dict[str, Any]:
    routed = bool(asked.decision)
    return {
        "round": name,
        "request": request,
        "text": asked.key,
        "outcome": asked.outcome,
        "skipped": asked.skipped,
        "computed": asked.computed,
        "call": call,
        "call_passes": asked.n_passes,
        "agent": asked.agent,
        "decision_model": asked.decision.get("model"),
        "decision_reason": asked.decision.get("reason"),
        "routing_model": asked.routing.get("model"),
        "routing_reason": asked.routing.get("reason"),
        "brought_routing": asked.brought if routed and asked.skipped else None,
        "own_routing": dict(asked.routing) == dict(asked.decision) if routed else None,
        "ms": asked.ms,
    }


def _bypassed(cache: Any) -> str:
    """What the cache says of calls that it left alone, if it is one that says so."""
    found = getattr(getattr(cache, "stats", None), "bypassed", None)
    return f" The cache left calls alone: {found}." if found else ""


def _claims(frame: pd.DataFrame, routed: bool, rebuilt: bool, bypassed: str) -> tuple[Claim, ...]:
    """What was expected of a cache, each against the rows that can tell."""
    hits = frame[frame["outcome"] == "hit"]
    return (
        _across_calls(frame, bypassed),
        _all(
            "L-5",
            "Nothing is computed for a hit.",
            ~hits["computed"],
            "hits without a forward pass of their own",
        ),
        _duplicates(frame, routed),
        _kept_routing(hits, routed),
        _own_routing(frame, hits, routed),
        _rebuilt(frame, rebuilt),
    )


def _all(rule: str, text: str, good: Any, what: str, more: str = "") -> Claim:
    """A claim about every one of some rows; none of them, or unknown ones, cannot tell."""
    if len(good) == 0:
        return Claim(text, None, f"No {what} here.", rule)
    n, known = int(good.sum()), int(good.notna().sum())
    held = False if n < known else True if known == len(good) else None
    unseen = f"; {len(good) - known} cannot be seen" if known < len(good) else ""
    return Claim(text, held, f"{n} of {len(good)} {what}{unseen}.{more}", rule)


def _across_calls(frame: pd.DataFrame, bypassed: str) -> Claim:
    earlier = (frame["round"] == "loop") & frame.duplicated(["round", "text"])
    again = earlier | frame["round"].isin(["loop again", "batch again"])
    # A checkpoint that was evicted meanwhile is another agent, whose answers are its own.
    first = frame.groupby(["text", "agent"], dropna=False)["call"].transform("min")
    asked_before = frame[again & (frame["call"] > first)]
    return _all(
        "L-22",
        "What an earlier call had asked is a hit.",
        asked_before["skipped"],
        "requests that an earlier call had asked were hits",
        bypassed,
    )


def _duplicates(frame: pd.DataFrame, routed: bool) -> Claim:
    text = "A duplicate inside one checkpoint's group of a batch is computed again."
    if not routed:
        return Claim(text, None, "A batch of an agent is one run: one entry of the cache.", "L-22")
    batch = frame[frame["round"] == "batch"]
    again = batch[batch.duplicated(["text", "decision_model"])]
    return _all("L-22", text, ~again["skipped"] & again["computed"], "duplicates computed again")


def _kept_routing(hits: pd.DataFrame, routed: bool) -> Claim:
    text = "A hit gets the routing of its call, unless the cache brought one along."
    if not routed:
        return Claim(text, None, "An agent routes nothing.", "L-16")
    return _all("L-16", text, hits["own_routing"] | hits["brought_routing"], "hits")


def _own_routing(frame: pd.DataFrame, hits: pd.DataFrame, routed: bool) -> Claim:
    text = "A hit's routing is that of its own call, not of the one that was stored."
    if not routed:
        return Claim(text, None, "An agent routes nothing.")
    stored = frame.drop_duplicates("text").set_index("text")["decision_reason"]
    other = int((hits["text"].map(stored) != hits["decision_reason"]).sum())
    more = f" Of these hits {other} had another decision than the request that was stored."
    return _all("", text, hits["own_routing"], "hits", more)


def _rebuilt(frame: pd.DataFrame, rebuilt: bool) -> Claim:
    text = "A checkpoint that was evicted and built again is asked anew."
    if not rebuilt:
        return Claim(text, None, "What was given is not unloaded; run it without an agent.")
    rows = frame[frame["round"] == "rebuilt"]
    firsts = rows.drop_duplicates("text")
    before = set(frame.loc[frame["round"] != "rebuilt", "agent"])
    new = firsts[~firsts["agent"].isin(before)]
    return _all("", text, ~new["skipped"], "first requests to an agent that was built anew missed")
