"""What the lifecycle and its hooks cost. All variants take turns in one process.

    python benchmarks/lifecycle.py            # all three tables
    python benchmarks/lifecycle.py overhead   # only the lifecycle, around no work at all

The tables give the median over rounds and, as spread, the 25th and 75th percentile.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

from jevlaya_lab import Agent, Choice, Noul, Score
from jevlaya_lab.system_one.context import Timings
from jevlaya_lab.system_one.encoding import check_states
from jevlaya_lab.system_one.models.instant import InstantNetwork
from jevlaya_lab.system_one.questions import prepare

STATE = (
    "Hello, I was charged twice for the annual plan this month and the invoice shows two payments "
    "on the same day. Please refund one of them before Friday, since our books close then. I have "
    "already written once and got no answer, which is disappointing after four years with you."
)
QUESTIONS: dict[str, Any] = {
    "department": Choice("Which team?", ["billing", "technical support", "sales", "shipping"]),
    "urgency": Score("How urgent is it?", ["it can wait", "normal", "urgent", "emergency"]),
    "churn_risk": Noul("The customer wants to leave."),
}


class NoOp:
    """A hook that does nothing at the start and at the end."""

    def on_predict_start(self, ctx: Any) -> None:
        """Do nothing."""

    def on_predict_end(self, ctx: Any) -> None:
        """Do nothing."""


def interleaved(
    variants: Mapping[str, Callable[[], Any]], rounds: int, repeats: int
) -> dict[str, list[float]]:
    """Seconds per call of each variant in each round; the order rotates from round to round."""
    names = list(variants)
    taken: dict[str, list[float]] = {name: [] for name in names}
    for name in names:
        variants[name]()
    for i in range(rounds):
        for name in names[i % len(names) :] + names[: i % len(names)]:
            call = variants[name]
            began = time.perf_counter()
            for _ in range(repeats):
                call()
            taken[name].append((time.perf_counter() - began) / repeats)
    return taken


def table(title: str, taken: dict[str, list[float]], unit: str, base: str) -> None:
    scale = {"µs": 1e6, "ms": 1e3}[unit]
    print(f"\n{title}\n")
    print(f"{'':44} {'median':>10} {'25 %':>9} {'75 %':>9} {'ratio':>7}")
    reference = statistics.median(taken[base])
    for name, seconds in taken.items():
        low, _, high = statistics.quantiles(seconds, n=4)
        median = statistics.median(seconds)
        print(
            f"{name:44} {median * scale:>7.2f} {unit} {low * scale:>9.2f} {high * scale:>9.2f} "
            f"{median / reference:>6.3f}x"
        )


def direct(agent: Agent, state: str, questions: Any) -> Any:
    """The same work without the lifecycle: checks, encode, collate, forward, decode."""
    texts = check_states([state])
    timings = Timings()
    prepared = agent._prepare(prepare(questions), agent._budget_of(None, None), timings)
    encoded = agent._encode_state(texts[0], False, prepared)
    logits = agent._forward(agent.collate([encoded], prepared), prepared, timings)
    return agent._decode_answers(logits, 0, encoded, prepared)


class AnswersAtOnce(Agent):
    """An agent whose work is to hand out a ready result, so that only the lifecycle remains."""

    RESULT: dict[str, Any] = {  # noqa: RUF012
        "model": "ready",
        "answers": {},
        "usage": {"input_tokens": 1, "output_tokens": 0},
    }

    def _infer(self, *_: Any) -> list[dict[str, Any]]:
        return [self.RESULT]


def overhead(rounds: int) -> None:
    agents = {
        n: AnswersAtOnce("ready", network=InstantNetwork(), hooks=[NoOp() for _ in range(n)])
        for n in (0, 1, 10)
    }
    variants: dict[str, Callable[[], Any]] = {
        f"Agent.predict, {n} no-op hooks": lambda agent=agent: agent.predict("x", QUESTIONS)
        for n, agent in agents.items()
    }
    variants.update(_laya_routers())
    taken = interleaved(variants, rounds, 2000)
    names = list(taken)
    table("The lifecycle around work that is done at once", taken, "µs", names[0])
    medians = [statistics.median(taken[name]) for name in names]
    for who, (one, ten) in {"here": (1, 2), "laya": (4, 5)}.items():
        if ten < len(medians):
            each = (medians[ten] - medians[one]) / 9 * 1e6
            print(f"each further no-op hook, {who}: {each:.2f} µs a call")


def _laya_routers() -> dict[str, Callable[[], Any]]:
    """Laya's Router around an object that answers at once; it routes as well, by a given name."""
    try:
        from laya import Router
    except ImportError:
        return {}

    class Ready:
        hooks = ()

        def system_one(self, *_: Any, **__: Any) -> dict[str, Any]:
            return dict(AnswersAtOnce.RESULT)

    routers = {}
    for n in (0, 1, 10):
        routers[n] = Router(hooks=[NoOp() for _ in range(n)])
        routers[n].attach("english", Ready())
    return {
        f"laya Router.predict, {n} no-op hooks": lambda router=router: router.predict(
            "x", QUESTIONS, model="english"
        )
        for n, router in routers.items()
    }


def predict(rounds: int) -> None:
    agents = {n: Agent(hooks=[NoOp() for _ in range(n)]) for n in (0, 1, 10)}
    plain = agents[0]
    variants: dict[str, Callable[[], Any]] = {
        "encode + forward + decode, called directly": lambda: direct(plain, STATE, QUESTIONS)
    }
    for n, agent in agents.items():
        variants[f"Agent.predict, {n} no-op hooks"] = lambda agent=agent: agent.predict(
            STATE, QUESTIONS
        )
    taken = interleaved(variants, rounds, 4)
    table("One state, three questions, embedded checkpoint", taken, "ms", next(iter(variants)))


def questions(rounds: int) -> None:
    agent = Agent()
    states = [f"{i}: {STATE}" for i in range(16)]
    options = ["billing", "technical support", "sales", "shipping", "account access"]

    def ask(n: int) -> dict[str, Any]:
        return {f"q{i}": Choice(f"Which team, asked in way {i}?", options) for i in range(n)}

    variants = {
        f"16 states, {n} questions of 5 options": lambda asked=asked: agent.predict_batch(
            states, asked
        )
        for n, asked in ((n, ask(n)) for n in (1, 3, 10))
    }
    table("More questions about the same states", interleaved(variants, rounds, 1), "ms",
          next(iter(variants)))  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("tables", nargs="*", default=["overhead", "predict", "questions"])
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    for name in options.tables:
        {"overhead": overhead, "predict": predict, "questions": questions}[name](options.rounds)


if __name__ == "__main__":
    main()
