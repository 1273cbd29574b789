"""What the Router costs, beside laya's. All variants take turns in one process.

    python benchmarks/router.py                  # all tables
    python benchmarks/router.py batch --rounds 9 # one of them: predict, route, batch, hooks

The agents answer at once, so that only routing, residency and the lifecycle remain; the same ones
are attached to both routers. The tables give the median over rounds and, in brackets, the 25th and
75th percentile; the ratio is here / laya, below 1 where this package is quicker.
"""

from __future__ import annotations

import argparse
import csv
import statistics
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import laya
from lifecycle import AnswersAtOnce, NoOp, interleaved

from jevlaya_lab.system_one.models.instant import InstantNetwork
from jevlaya_lab.system_one.router import Router

TICKETS = Path(__file__).resolve().parent.parent / "data" / "support_tickets.csv"
NAMES = ("english", "multilingual", "typed-decisions")
QUESTIONS: dict[str, Any] = {"q": {"type": "noul", "instructions": "Is it so?"}}
Row = tuple[str, int, Callable[[Any], Callable[[], Any]]]


class Instant:
    """An agent-like object that answers at once."""

    lang_temperatures = None

    def system_one(
        self, state: Any, questions: Any, lang: Any = None, max_len: Any = None
    ) -> dict[str, Any]:
        """One empty result."""
        return {"answers": {}, "usage": {"input_tokens": 3, "output_tokens": 0}}

    def predict_batch(
        self, states: Sequence[Any], questions: Any, batch_size: Any = None, lang: Any = None
    ) -> list[dict[str, Any]]:
        """One empty result per state."""
        return [{"answers": {}, "usage": {"input_tokens": 3, "output_tokens": 0}} for _ in states]


def routers(**options: Any) -> dict[str, Any]:
    """A router of each package around the same agents."""
    made: dict[str, Any] = {"here": Router(**options), "laya": laya.Router(**options)}
    for name in NAMES:
        agent = Instant()
        for router in made.values():
            router.attach(name, agent)
    return made


def compare(title: str, rows: Sequence[Row], rounds: int, pairs: Sequence[Any] = ()) -> None:
    """Time each row on both routers and print a table.

    Args:
        title: Above the table.
        rows: What it is called, how many states one call answers, and what makes the call.
        rounds: How often each one takes its turn.
        pairs: The two routers of each row; fresh ones where none are given.
    """
    taken: dict[str, list[float]] = {}
    for (label, n, call), both in zip(rows, pairs or [routers()] * len(rows), strict=True):
        variants = {f"{who} {label}": call(router) for who, router in both.items()}
        taken |= interleaved(variants, rounds, max(1, 2000 // n))
    print(f"\n{title}\n")
    print(f"{'µs per request':40} {'here':>24} {'laya':>24} {'ratio':>7}")
    for label, n, _ in rows:
        medians, shown = [], []
        for who in ("here", "laya"):
            micro = [seconds * 1e6 / n for seconds in taken[f"{who} {label}"]]
            low, median, high = statistics.quantiles(micro, n=4)
            medians.append(median)
            shown.append(f"{median:.2f} [{low:.2f} {high:.2f}]")
        print(f"{label:40} {shown[0]:>24} {shown[1]:>24} {medians[0] / medians[1]:>6.2f}x")


def texts() -> list[str]:
    """The texts of the support tickets, in many languages."""
    with TICKETS.open(encoding="utf-8", newline="") as file:
        return [row["text"] for row in csv.DictReader(file)]


def predict(rounds: int) -> None:
    states = texts()
    agent = Instant()
    ready = AnswersAtOnce("ready", network=InstantNetwork())
    around = Router()
    around.attach("english", ready)
    rows: list[Row] = [
        ("Router.predict, model=", 1, lambda r: lambda: r.predict("x", QUESTIONS, model="english")),
        ("Router.predict, lang=", 1, lambda r: lambda: r.predict("x", QUESTIONS, lang="de")),
        (
            "Router.predict, detection",
            len(states),
            lambda r: lambda: [r.predict(state, QUESTIONS) for state in states],
        ),
    ]
    compare("One request at a time", rows, rounds)
    alone: dict[str, Callable[[], Any]] = {
        "the agent-like object, asked directly": lambda: agent.system_one("x", QUESTIONS),
        "Agent.predict (here)": lambda: ready.predict("x", QUESTIONS),
        "Router.predict around it (here)": lambda: around.predict("x", QUESTIONS, model="english"),
    }
    print()
    for name, seconds in interleaved(alone, rounds, 2000).items():
        low, median, high = (1e6 * each for each in statistics.quantiles(seconds, n=4))
        print(f"{name:40} {f'{median:.2f} [{low:.2f} {high:.2f}]':>24}")


def route(rounds: int) -> None:
    requests = [{"state": text, "questions": QUESTIONS} for text in texts()]
    named = [{**request, "model": "english"} for request in requests]
    n = len(requests)
    rows: list[Row] = [
        (f"route_batch, {n} tickets, detection", n, lambda r: lambda: r.route_batch(requests)),
        (f"route_batch, {n} tickets, model=", n, lambda r: lambda: r.route_batch(named)),
    ]
    compare("Routing alone", rows, rounds)


def batch(rounds: int) -> None:
    states = islice(cycle(texts()), 1000)
    requests = [
        {"state": state, "questions": QUESTIONS, "model": NAMES[i % 3]}
        for i, state in enumerate(states)
    ]
    detected = [{"state": each["state"], "questions": dict(QUESTIONS)} for each in requests]

    def loop(router: Any, asked: Sequence[dict[str, Any]]) -> Callable[[], Any]:
        return lambda: [router.predict(**request) for request in asked]

    rows: list[Row] = [
        ("predict_batch of 1,000, model=", 1000, lambda r: lambda: r.predict_batch(requests)),
        ("a loop of predict, model=", 1000, lambda r: loop(r, requests)),
        ("predict_batch of 1,000, detection", 1000, lambda r: lambda: r.predict_batch(detected)),
        ("a loop of predict, detection", 1000, lambda r: loop(r, detected)),
    ]
    compare("1,000 requests over 3 checkpoints", rows, rounds)


def hooks(rounds: int) -> None:
    counts = (0, 1, 10)
    rows: list[Row] = [
        (
            f"Router.predict, {n} no-op hooks",
            1,
            lambda r: lambda: r.predict("x", QUESTIONS, model="english"),
        )
        for n in counts
    ]
    pairs = [routers(hooks=[NoOp() for _ in range(n)]) for n in counts]
    compare("The lifecycle around work that is done at once", rows, rounds, pairs)


def main() -> None:
    tables = {"predict": predict, "route": route, "batch": batch, "hooks": hooks}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("tables", nargs="*", default=list(tables))
    parser.add_argument("--rounds", type=int, default=21)
    options = parser.parse_args()
    for name in options.tables:
        tables[name](options.rounds)


if __name__ == "__main__":
    main()
