"""The same checkpoint, states and questions through laya 0.4.15 and through this package.

Run it for a table per kind of network: python tests/parity.py
"""

from __future__ import annotations

import itertools
import tempfile
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tiny import KINDS, make_checkpoint

TURN = {"role": "user", "content": "The printer on the third floor is broken again. "}
STATES: list[Any] = [
    "Where is my parcel?",
    "",
    "word " * 40,
    "A long story without an end, told by someone with much time. " * 40,
    {"customer": "Ada", "items": [1, 2.5, None, True], "note": "müde 😀"},
    [TURN | {"turn": i} for i in range(30)],
    [],
    "the [MASK] token and [SEP] and [CLS] inside a text",
    "Где моя посылка? 私の荷物はどこですか。 أين طردي؟",
    "🙂🙃 🚚📦",
    7,
]
QUESTIONS: dict[str, Any] = {
    "team": {
        "type": "choice",
        "instructions": "Which team should take this?",
        "criteria": {"billing": "money and invoices", "technical": None, "shipping": ""},
    },
    "listed": {"type": "choice", "instructions": "Which?", "criteria": ["yes", "no", 3, True]},
    "one": {"type": "choice", "instructions": "Is there a choice?", "criteria": ["only this"]},
    "ordered": {
        "type": "choice",
        "instructions": "Which, in another order?",
        "criteria": ["first", "second", "third"],
        "option_order": [2, 0, 1],
    },
    "urgency": {
        "type": "score",
        "instructions": {"ask": "How urgent?", "scale": ["low", "high"]},
        "criteria": ["it can wait", "soon", {"when": "now", "why": "outage"}, "yesterday"],
    },
    "churn": {"type": "noul", "instructions": "The customer wants to leave [MASK]."},
    "worded": {
        "type": "noul",
        "instructions": "Is it so?",
        "criteria": {"true": "it is", "false": {"reason": "it is not"}},
        "labels": {"true": "A", "false": "B"},
        "option_order": [1, 0],
    },
    "long": {
        "type": "choice",
        "instructions": "Read this carefully before you answer. " * 20,
        "criteria": {"a": "a long description of an option. " * 15, "b": "short"},
    },
}
MANY: dict[str, Any] = {
    "sixty": {
        "type": "choice",
        "instructions": "Which of these many?",
        "criteria": [f"option number {i} of a long list" for i in range(60)],
    }
}
BUDGETS: list[dict[str, int]] = [{}, {"max_len": 96, "head_max_len": 32}, {"head_max_len": 100}]


@dataclass
class Compared:
    """What came out of a comparison."""

    rows: int = 0
    largest: float = 0.0
    differences: list[str] = field(default_factory=list)

    def add(self, where: str, ours: Any, theirs: Any) -> None:
        """Compare two values, floats by their difference, all else for equality."""
        if isinstance(ours, dict) and isinstance(theirs, dict) and set(ours) == set(theirs):
            for key in ours:
                self.add(f"{where}.{key}", ours[key], theirs[key])
        elif isinstance(ours, float) and isinstance(theirs, float):
            self.largest = max(self.largest, abs(ours - theirs))
        elif ours != theirs:
            self.differences.append(f"{where}: {ours!r} here, {theirs!r} in laya")


def compare(folder: Path, *, quick: bool = False) -> Compared:
    """Ask both packages everything above, from one checkpoint folder.

    Args:
        folder: The checkpoint.
        quick: Leave out single states, a language and some budgets.
    """
    import laya.agent

    from jevlaya_lab import Agent

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what laya warns about is its own
        theirs = laya.agent.Agent(str(folder), device="cpu")
    ours = Agent(folder, device="cpu")
    found = Compared()
    cases: list[tuple[list[Any], dict[str, Any], dict[str, int]]] = [
        (STATES, QUESTIONS, budget) for budget in (BUDGETS[1:] if quick else BUDGETS)
    ]
    cases.append((STATES[:4], MANY, {"max_len": 420}))
    if not quick:
        cases += [([state], QUESTIONS, {}) for state in STATES]
        cases.append((STATES, MANY, {"max_len": 512, "head_max_len": 400}))
    for (states, questions, budget), lang in itertools.product(
        cases, (None,) if quick else (None, "de")
    ):
        given = {**budget, **({"lang": lang} if lang else {})}
        mine = ours.predict_batch(states, questions, **given)
        other = theirs.predict_batch(states, questions, **given)
        for i, (a, b) in enumerate(zip(mine, other, strict=True)):
            found.rows += len(a["answers"])
            found.add(f"state {i} {given} answers", a["answers"], b["answers"])
            found.add(f"state {i} {given} usage", a["usage"], b["usage"])
    return found


def main() -> None:
    """Print a table."""
    print(f"{'kind':18} {'answers compared':>18} {'largest difference':>20} {'unequal':>9}")
    with tempfile.TemporaryDirectory() as scratch:
        for kind in KINDS:
            found = compare(make_checkpoint(Path(scratch) / kind, kind, max_len=256))
            print(f"{kind:18} {found.rows:>18} {found.largest:>20.5f} {len(found.differences):>9}")
            for difference in found.differences[:5]:
                print("   ", difference)


if __name__ == "__main__":
    main()
