"""The situations that a hook is put into, with real agents and routers that answer at once."""

from __future__ import annotations

import asyncio
import copy
import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from jevlaya_lab.experiments.watching import InjectedFault
from jevlaya_lab.system_one.agent import Agent
from jevlaya_lab.system_one.language import detect
from jevlaya_lab.system_one.models import EncodedState, Prepared
from jevlaya_lab.system_one.models.instant import InstantNetwork
from jevlaya_lab.system_one.router import Router

__all__ = ["SITUATIONS", "Caller", "Given", "Situation", "agent", "changed", "router"]

_FAULT: Final = "xyzzy"
_WORDS: Final = (
    *("refund", "parcel", "invoice", "broken", "card", "late", "help", "login", "agent", "screen"),
    *("yesterday", "twice", "never", "please", "order", "billing", "number", "window", "train"),
)
_QUESTIONS: Final[dict[str, Any]] = {
    "refund": {"type": "noul", "instructions": "The customer asks for a refund."},
    "team": {
        "type": "choice",
        "instructions": "Which team should answer?",
        "criteria": ["billing", "technical support", "shipping"],
    },
}


class Caller:
    """Who makes the calls.

    Args:
        seed: Of the texts.
        questions: What is asked; two questions about tickets where ``None``.

    Raises:
        InvalidInput: The questions are none.
    """

    def __init__(self, seed: int = 0, questions: Mapping[str, Any] | None = None) -> None:
        self._seed = seed
        self._questions = _QUESTIONS if questions is None else questions
        agent([]).predict_batch([], self._questions)
        for number in range(15):  # the first of all calls reads tables; no hook is to blame for it
            detect(self.text(number))

    def text(self, number: int) -> str:
        """The state of a number: no two are the same; with capitals and an address to change."""
        first, second, *words = random.Random(f"{self._seed} {number}").choices(_WORDS, k=8)
        return f"{first.title()} {second.upper()} {' '.join(words)} {number}, Jo@Example.org"

    def questions(self) -> dict[str, Any]:
        """What is asked, in objects that nobody else has."""
        return copy.deepcopy(dict(self._questions))

    def given(self, first: int = 0) -> Given:
        """What is handed in, with texts from that number on."""
        return Given([self.text(first + i) for i in range(15)], self.questions())


class Given:
    """What a caller hands in; made afresh for each situation.

    Args:
        texts: Fifteen of them.
        questions: What is asked.
    """

    def __init__(self, texts: list[str], questions: dict[str, Any]) -> None:
        self.text = texts[0]
        self.states: list[Any] = texts[1:4]
        self.object = {"subject": texts[4], "lines": [texts[5], {"amount": 12}]}
        self.conversation = [
            {"role": "user", "content": texts[6]},
            {"role": "assistant", "content": texts[7]},
        ]
        self.faulty = f"{texts[8]} {_FAULT}"
        self.questions = questions
        self.requests = self._requests(texts[9:13])
        self.faulty_requests = self._requests([texts[13], self.faulty, texts[14]])

    def _requests(self, states: list[str]) -> list[dict[str, Any]]:
        # One dict of questions for all, as most callers write it.
        return [
            {"state": state, "questions": self.questions, "model": name}
            for state, name in zip(
                states, ("english", "english", "english", "multilingual"), strict=False
            )
        ]


class _Network(InstantNetwork):
    """Fails at states that hold a certain word."""

    def encode_state(self, text: str, *, keep_end: bool, prepared: Prepared) -> EncodedState:
        if _FAULT in text:
            raise InjectedFault("made on purpose, in encode")
        return super().encode_state(text, keep_end=keep_end, prepared=prepared)


class _Router(Router):
    def _build(self, name: str, source: Any) -> Agent:
        return Agent(name, network=_Network())


def agent(hooks: list[Any], **options: Any) -> Agent:
    """An agent that answers at once."""
    return Agent("instant", network=_Network(), hooks=hooks, **options)


def router(hooks: list[Any], **options: Any) -> Router:
    """A router over such agents; nothing is loaded yet."""
    return _Router(hooks=hooks, **options)


class _Refuses:
    def on_predict_start(self, ctx: Any) -> None:
        raise InjectedFault("refused on purpose, by another hook")


class _Answers:
    def on_predict_start(self, ctx: Any) -> None:
        ctx.skip(
            [
                {
                    "model": "another hook",
                    "answers": {},
                    "usage": {"input_tokens": 0, "output_tokens": 0},
                }
                for _ in ctx.states
            ]
        )


class Situation(NamedTuple):
    """One thing that a caller does.

    Attributes:
        name: In words, to be read behind "in".
        play: Does it, with a hook installed.
        is_batch: Whether several runs are open at once.
    """

    name: str
    play: Callable[[Any, Given], Any]
    is_batch: bool = False


def _load_and_evict(hook: Any, given: Given) -> None:
    pool = router([hook], max_loaded=1)
    pool.load("english")
    pool.load("multilingual")
    pool.unload()


def _one_at_a_time(hook: Any, given: Given) -> None:
    agent([hook], hooks_concurrent=False).predict(given.text, given.questions)
    pool = router([hook], hooks_concurrent=False)
    pool.predict(given.text, given.questions)
    pool.unload()


def _in_a_loop(hook: Any, given: Given) -> None:
    async def main() -> None:
        agent([hook]).predict(given.text, given.questions)

    asyncio.run(main())


def _failing(play: Callable[[Any, Given], Any]) -> Callable[[Any, Given], Any]:
    def run(hook: Any, given: Given) -> None:
        with suppress(InjectedFault):
            play(hook, given)

    return run


SITUATIONS: Final = (
    Situation("a single call", lambda h, g: agent([h]).predict(g.text, g.questions)),
    Situation("several states", lambda h, g: agent([h]).predict_batch(g.states, g.questions)),
    Situation("an empty list of states", lambda h, g: agent([h]).predict_batch([], g.questions)),
    Situation("no questions", lambda h, g: agent([h]).predict_batch(g.states, {})),
    Situation("a JSON object", lambda h, g: agent([h]).predict(g.object, g.questions)),
    Situation("a conversation", lambda h, g: agent([h]).predict(g.conversation, g.questions)),
    Situation(
        "a long state",
        lambda h, g: agent([h]).predict_long(" ".join(g.states), g.questions, window=10),
    ),
    Situation("a failing run", _failing(lambda h, g: agent([h]).predict(g.faulty, g.questions))),
    Situation(
        "a run that another hook refuses",
        _failing(lambda h, g: agent([h, _Refuses()]).predict(g.text, g.questions)),
    ),
    Situation(
        "a run that another hook answers",
        lambda h, g: agent([_Answers(), h]).predict_batch(g.states, g.questions),
    ),
    Situation("a running loop", _in_a_loop),
    Situation("a routed request", lambda h, g: router([h]).predict(g.text, g.questions)),
    Situation("a batch", lambda h, g: router([h]).predict_batch(g.requests), is_batch=True),
    Situation(
        "a failing batch",
        _failing(lambda h, g: router([h]).predict_batch(g.faulty_requests)),
        is_batch=True,
    ),
    Situation("a route alone", lambda h, g: router([h]).route(g.text, g.questions)),
    Situation("loads and evictions", _load_and_evict),
    Situation("hooks_concurrent=False", _one_at_a_time),
)
"""In the order in which they are played."""


def changed(before: Mapping[str, Any], after: Given) -> list[str]:
    """What of a caller's own things is another than it was."""
    names = {
        "states": "the list of states",
        "object": "a JSON object that is a state",
        "conversation": "a conversation that is a state",
        "questions": "the questions",
        "requests": "the requests of a batch",
        "faulty_requests": "the requests of a batch",
    }
    found = [text for name, text in names.items() if vars(after)[name] != before[name]]
    return list(dict.fromkeys(found))
