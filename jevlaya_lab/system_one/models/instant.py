"""A network without weights that answers at once: for measuring the lifecycle and trying out hooks.

>>> from jevlaya_lab.system_one.agent import Agent
>>> agent = Agent("instant", network=InstantNetwork())
>>> agent.predict("a b c", {"q": {"type": "noul", "instructions": "Is it so?"}})["usage"]
{'input_tokens': 6, 'output_tokens': 0, 'state_tokens': 3, 'state_tokens_dropped': 0, \
'truncated': False, 'truncated_questions': []}
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jevlaya_lab.system_one.models import Batch, Budget, EncodedState, Logits, Prepared
from jevlaya_lab.system_one.questions import Question

__all__ = ["InstantNetwork"]


class InstantNetwork:
    """Words are tokens; an option's logit is how often its first letter occurs in the state.

    Answers are deterministic, depend on the state and on nothing else, and mean nothing.
    """

    architecture = "instant"
    max_len = 256
    head_max_len = 64

    def prepare(self, questions: tuple[Question, ...], budget: Budget) -> Prepared:
        """Keep the first letter of every option."""
        letters = [[text[:1].lower() for text in q.labels] for q in questions]
        n_tokens = sum(len(q.instructions.split()) for q in questions)
        return Prepared(questions, budget, letters, input_tokens=n_tokens)

    def room(self, questions: tuple[Question, ...], budget: Budget) -> int:
        """All of ``max_len``: questions take nothing of it."""
        return budget.max_len

    def token_spans(self, text: str) -> list[tuple[int, int]]:
        """Where each word stands."""
        return [word.span() for word in re.finditer(r"\S+", text)]

    def encode_state(self, text: str, *, keep_end: bool, prepared: Prepared) -> EncodedState:
        """One row: the code point of each word's first letter."""
        words = text.lower().split()
        room = prepared.budget.max_len
        kept = words[-room:] if keep_end else words[:room]
        dropped = len(words) - len(kept)
        return EncodedState(
            rows=[[ord(word[0]) for word in kept]],
            input_tokens=len(kept) + prepared.input_tokens,
            state_tokens=len(words),
            state_tokens_dropped=dropped,
            truncated_questions=tuple(q.id for q in prepared.questions) if dropped else (),
            data=text.lower(),
        )

    def collate(self, states: Sequence[EncodedState], prepared: Prepared) -> Batch:
        """Count the rows; there is nothing to pad."""
        lengths = [state.longest for state in states]
        padded = max(lengths) * len(lengths)
        return Batch(
            [state.data for state in states],
            n_states=len(states),
            n_rows=len(states),
            n_tokens=sum(lengths),
            n_padding=padded - sum(lengths),
        )

    def forward(self, batch: Batch, prepared: Prepared) -> Logits:
        """Count letters."""
        return Logits(
            [
                [
                    np.array([text.count(letter) for letter in letters], dtype=np.float32)
                    for letters in prepared.data
                ]
                for text in batch.data
            ]
        )

    def on_cpu(self) -> InstantNetwork:
        """Itself."""
        return self

    def info(self) -> Mapping[str, Any]:
        """Name of the network."""
        return {"architecture": self.architecture}
