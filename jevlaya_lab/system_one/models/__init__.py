"""The networks behind one protocol: states and questions in, option logits out.

The Agent runs every network through the same four steps,
``encode_state → collate → forward → decode``; a network decides what a row is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from jevlaya_lab.system_one.context import ForwardPass
from jevlaya_lab.system_one.questions import Question

__all__ = ["Batch", "Budget", "EncodedState", "Logits", "Network", "Prepared"]


@dataclass(frozen=True, slots=True)
class Budget:
    """Token budgets of one call: the whole input's, and the question part's."""

    max_len: int
    head_max_len: int


@dataclass(slots=True)
class Prepared:
    """What a network keeps of the questions while one call runs.

    Attributes:
        questions: The questions asked, in order.
        budget: The token budgets of this call.
        data: The network's own: token ids of heads, or embeddings.
        input_tokens: Tokens of questions and options that every state of the call is charged for.
        collapsed: ``{question id: {"total", "distinct", "tokens_per_option"}}`` of the questions
            whose options can no longer be told apart; the last is ``None`` where the budget did
            not cut them.
        forwards: Forward passes that preparing took (embedding texts that were not kept).
    """

    questions: tuple[Question, ...]
    budget: Budget
    data: Any
    input_tokens: int = 0
    collapsed: dict[Any, dict[str, int | None]] = field(default_factory=dict)
    forwards: list[ForwardPass] = field(default_factory=list)


@dataclass(slots=True)
class EncodedState:
    """One state as token rows.

    Attributes:
        rows: One list of token ids per row (one row per state, or one per state and question).
        input_tokens: What ``usage`` reports for this state, questions and options included.
        state_tokens: Tokens of the state before the cut.
        state_tokens_dropped: Tokens of it that the budget cut off (the worst of its rows).
        truncated_questions: Ids of the questions that did not see the whole state.
        data: Anything else that the network needs per state, such as marker positions.
    """

    rows: Sequence[Sequence[int]]
    input_tokens: int
    state_tokens: int
    state_tokens_dropped: int = 0
    truncated_questions: tuple[Any, ...] = ()
    data: Any = None

    @property
    def longest(self) -> int:
        """Tokens of the longest row: what sorting by length sorts by."""
        return max(map(len, self.rows), default=0)


@dataclass(slots=True)
class Batch:
    """Rows padded to one length, ready for one forward pass, with what the padding cost."""

    data: Any
    n_states: int
    n_rows: int
    n_tokens: int
    n_padding: int


@dataclass(slots=True)
class Logits:
    """What one forward pass said.

    Attributes:
        options: ``options[state][question]`` is a float32 array ``[n_options]`` in the caller's
            order of options.
        act: ``act[state][question]`` is the probability that acting on the answer is worth it;
            ``None`` for a network without such a head.
    """

    options: list[list[npt.NDArray[np.float32]]]
    act: list[list[float]] | None = None


class Network(Protocol):
    """What the Agent needs of a network. All methods may be called from several threads at once."""

    architecture: str
    max_len: int
    head_max_len: int

    def prepare(self, questions: tuple[Question, ...], budget: Budget) -> Prepared:
        """Tokenise the questions once per call, and embed or look up what can be kept."""
        ...

    def room(self, questions: tuple[Question, ...], budget: Budget) -> int:
        """Tokens of a state that every one of the questions sees; runs no forward pass."""
        ...

    def token_spans(self, text: str) -> list[tuple[int, int]]:
        """Where each token of a state stands in its text: start and end, in characters.

        As many as ``encode_state`` counts as ``state_tokens``. Tokens that are parts of one
        character have that character as their span.
        """
        ...

    def encode_state(self, text: str, *, keep_end: bool, prepared: Prepared) -> EncodedState:
        """Turn a state's text into token rows; ``keep_end`` keeps its end where it is too long."""
        ...

    def collate(self, states: Sequence[EncodedState], prepared: Prepared) -> Batch:
        """Pad the rows of some states into one batch."""
        ...

    def forward(self, batch: Batch, prepared: Prepared) -> Logits:
        """Run the network once over a batch."""
        ...

    def on_cpu(self) -> Network:
        """The same network on the CPU, for a state that does not fit elsewhere; itself if there."""
        ...

    def info(self) -> Mapping[str, Any]:
        """Facts for people: number of parameters, encoder, device."""
        ...
