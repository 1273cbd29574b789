"""What runs in the threads of a local provider: one protocol over anything that encodes text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from jevlaya_lab.system_one.errors import InvalidOption

__all__ = ["Facts", "LocalModel", "ObjectModel", "Row"]


@dataclass(frozen=True, slots=True)
class Facts:
    """What a model says of itself; see ``EmbeddingIdentity``."""

    model: str
    revision: str | None = None
    pooling: str | None = None
    prompt: str = ""
    max_length: int | None = None
    normalised: bool | None = None
    device: str = "cpu"
    uses_torch: bool = False


@dataclass(slots=True)
class Row:
    """A text as a model reads it.

    Attributes:
        text: The text.
        n_tokens: Tokens that the model reads of it, for sorting; an estimate where it cannot tell.
        was_cut: Whether the model reads only its beginning.
        ids: Token ids, where the model keeps them.
    """

    text: str
    n_tokens: int
    was_cut: bool = False
    ids: Sequence[int] = ()


class LocalModel(Protocol):
    """A model that one thread at a time uses."""

    facts: Facts

    def read(self, texts: Sequence[str]) -> list[Row]:
        """Tokenise some texts."""
        ...

    def encode(self, rows: Sequence[Row]) -> Any:
        """One pass over some rows: vectors [n, d] in any form that becomes an array."""
        ...

    def encode_exactly(self, row: Row) -> Any:
        """One row alone, in float32: the vectors [1, d]."""
        ...

    def replica(self) -> LocalModel:
        """Another one for another thread: the same weights in memory, a tokenizer of its own."""
        ...


class ObjectModel:
    """Any object with ``encode(list of texts)``.

    Args:
        model: The object.
        facts: What is known of it.
        build: Makes another such object; ``None`` where there is only this one.
    """

    def __init__(self, model: Any, facts: Facts, build: Callable[[], Any] | None = None) -> None:
        if not callable(getattr(model, "encode", None)):
            raise InvalidOption(
                f"a {type(model).__name__} has no method encode(texts), which a local model needs"
            )
        self.facts = facts
        self._model = model
        self._build = build

    def read(self, texts: Sequence[str]) -> list[Row]:
        """Rows with lengths in characters: such an object does not show its tokens."""
        return [Row(self.facts.prompt + text, len(text) // 4 + 1) for text in texts]

    def encode(self, rows: Sequence[Row]) -> Any:
        """What the object gives."""
        return self._model.encode([row.text for row in rows])

    def encode_exactly(self, row: Row) -> Any:
        """The same for one row; its precision is the object's own affair."""
        return self._model.encode([row.text])

    def replica(self) -> ObjectModel:
        """Another object from the factory.

        Raises:
            InvalidOption: There is no factory.
        """
        if self._build is None:
            raise InvalidOption(
                "one object encodes one batch at a time; for more at once pass a function that "
                "makes such objects (one that gives the same object says that threads may share it)"
            )
        return ObjectModel(self._build(), self.facts, self._build)
