"""What experiments ask about where nothing is given: made-up support tickets, and four questions.

The tickets are 64 of those in the project's ``data/support_tickets.csv``: 36 in English, two in
each of 14 other languages, from 30 to 800 characters. No real customer is behind any of them.
"""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Sequence
from hashlib import sha256
from importlib import resources
from typing import Any, Final, NamedTuple

import pandas as pd

from jevlaya_lab.lab.inputs import check_each, read_states
from jevlaya_lab.system_one.encoding import state_text
from jevlaya_lab.system_one.errors import InvalidOption, InvalidState
from jevlaya_lab.system_one.hooks import entries
from jevlaya_lab.system_one.questions import Choice, Noul, Score, prepare
from jevlaya_lab.tracing import exact_json

__all__ = [
    "N_TICKETS",
    "Ticket",
    "check_hook",
    "check_questions",
    "check_states",
    "describe_questions",
    "describe_states",
    "given_or_tickets",
    "questions_about_tickets",
    "tickets",
]

N_TICKETS: Final = 64


class Ticket(NamedTuple):
    """A support ticket: the code of its language, and what it says."""

    language: str
    text: str


@functools.cache
def _all() -> tuple[Ticket, ...]:
    file = resources.files("jevlaya_lab.experiments").joinpath("tickets.jsonl")
    lines = file.read_text(encoding="utf-8").splitlines()
    return tuple(Ticket(**json.loads(line)) for line in lines)


def tickets(n: int = N_TICKETS, *, seed: int = 0, language: str | None = None) -> list[Ticket]:
    """Some of the built-in tickets, in random order.

    Args:
        n: How many; not more than there are.
        seed: Which, and in which order.
        language: Only those in one language, by its code.

    Raises:
        InvalidOption: There are fewer.
    """
    found = [each for each in _all() if language in (None, each.language)]
    if not 0 <= n <= len(found):
        raise InvalidOption(f"there are {len(found)} tickets to choose from, {n} were asked for")
    return random.Random(seed).sample(found, n)


def given_or_tickets(states: list[Any] | None, n: int, seed: int) -> list[Any]:
    """The states that were given, or where none were the texts of so many tickets."""
    return [each.text for each in tickets(n, seed=seed)] if states is None else list(states)


def questions_about_tickets() -> dict[str, Any]:
    """Four questions, of every type: a new dict each time."""
    return {
        "department": Choice(
            "Which department should handle this ticket?",
            {
                "billing": "invoices, charges, refunds, payment methods",
                "technical support": "bugs, crashes, errors, slow or broken features",
                "account access": "login, password, locked or hijacked accounts, permissions",
                "shipping": "deliveries, tracking, damaged or missing parcels",
                "sales": "prices, plans, quotes, upgrades, questions before buying",
            },
        ),
        "wish": Choice("What does the customer want?", ["an answer", "a repair", "money back"]),
        "urgency": Score(
            "How urgent is this ticket?",
            ["it can wait", "an answer in the coming days", "today", "this very moment"],
        ),
        "churn": Noul("The customer is about to leave."),
    }


def check_states(states: Any) -> list[Any] | None:
    """States that were given, as a list, checked as the Lab checks them; ``None`` for none given.

    Raises:
        InvalidState: They are of no kind that holds states, one of them is missing or no state, or
            there are none.
    """
    if states is None:
        return None
    if isinstance(states, pd.DataFrame):
        raise InvalidState("states takes a list or a Series; of a DataFrame pass one column of it")
    found, index = read_states(states, None)
    for wrong in check_each(found, index).values():
        raise wrong
    if not found:
        raise InvalidState("states is empty; give at least one, or leave it out")
    return found


def check_questions(questions: Any) -> dict[Any, Any] | None:
    """Questions that were given, as a dict of their own; ``None`` for none given.

    Raises:
        InvalidQuestion: One of them cannot be answered.
        InvalidOption: There are none.
    """
    if questions is None:
        return None
    if not prepare(questions):
        raise InvalidOption("questions is empty; give at least one, or leave it out")
    return {qid: questions[qid] for qid in questions}


def check_hook(hook: Any) -> Any:
    """A hook that was given, or ``None``.

    Raises:
        InvalidHook: It is none.
    """
    if hook is not None:
        entries("call", hooks=hook)
    return hook


def describe_states(states: Sequence[Any] | None) -> str:
    """States as a parameter that is kept: how many, and a fingerprint, but no text."""
    if states is None:
        return "built-in tickets"
    text = "\x00".join(state_text(state, i) for i, state in enumerate(states))
    return f"{len(states)} given, sha256 {sha256(text.encode()).hexdigest()[:16]}"


def describe_questions(questions: dict[Any, Any] | None) -> str:
    """Questions as a parameter that is kept: as JSON."""
    return "about tickets" if questions is None else exact_json.dumps(questions)
