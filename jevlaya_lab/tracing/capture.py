"""What a trace keeps of states, questions and results: nothing, fingerprints, or redacted text."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from jevlaya_lab.system_one.errors import InvalidOption, JevlayaError
from jevlaya_lab.tracing import exact_json

__all__ = ["CAPTURED", "NOTHING", "Capture", "Captured", "Redact"]

Redact = Callable[[str], str]
"""Takes a piece of text, gives what may be kept of it."""

CAPTURED: Final = ("none", "hash", "text", "lost")

_SCHEMA_WORDS: Final = frozenset(
    [
        "type", "choice", "score", "noul", "instructions", "criteria", "labels", "option_order",
        "true", "false", "model", "answers", "usage", "input_tokens", "output_tokens",
        "probabilities", "confidence", "answer_confidence", "routing",
    ]
)  # fmt: skip
"""Words of definitions and results, which say nothing of a state and are never redacted."""

_SHORTEST: Final = 4
"""Characters from which on a state's text is looked for in messages."""


class Captured(NamedTuple):
    """What is kept of one run: how, and three JSON texts."""

    captured: str
    states: str | None
    questions: str | None
    results: str | None


NOTHING: Final = Captured("none", None, None, None)
_LOST: Final = Captured("lost", None, None, None)


class Capture:
    """Turns states, questions and results into what may be kept of them.

    Args:
        mode: ``none``, ``hash`` (a keyed fingerprint per state) or ``text`` (JSON).
        redact: Applied to each text, key and number (as text) before anything is kept. Where it
            raises, gives something else than text, or makes two keys of a dict equal, the text is
            lost and the run is marked so.
        hash_key: Key of the fingerprints; ``None`` makes a random one, so that nobody can find a
            short text by trying many.

    Raises:
        InvalidOption: A value that is none of these.
    """

    def __init__(
        self, mode: str = "none", redact: Redact | None = None, hash_key: bytes | None = None
    ) -> None:
        if mode not in CAPTURED[:3]:
            raise InvalidOption(f"capture must be 'none', 'hash' or 'text', got {mode!r}")
        if redact is not None and (not callable(redact) or isinstance(redact, type)):
            raise InvalidOption(f"redact takes a function from text to text, got {redact!r}")
        if hash_key is not None and (not isinstance(hash_key, bytes) or len(hash_key) > 64):
            raise InvalidOption(f"hash_key must be at most 64 bytes, got {hash_key!r}")
        self.mode = mode
        self.n_lost = 0
        self._redact = redact
        self._key = os.urandom(16) if hash_key is None else hash_key

    def asked(self, states: Any, questions: Any) -> Captured:
        """What is kept of states and questions."""
        if self.mode == "none":
            return NOTHING
        try:
            states, questions = self._clean(states), self._clean(questions)
            if self.mode == "text":
                return Captured("text", exact_json.dumps(states), exact_json.dumps(questions), None)
            listed = states if isinstance(states, list) else [states]
            return Captured(
                "hash", json.dumps([self._hash(s) for s in listed]), self._hash(questions), None
            )
        except Exception as error:
            return self._lose(error)

    def answered(self, captured: Captured, results: Any) -> Captured:
        """The same with the results, where text is kept."""
        if captured.captured != "text" or results is None:
            return captured
        try:
            return captured._replace(results=exact_json.dumps(self._clean(results)))
        except Exception as error:
            return self._lose(error)

    def message(
        self, error: BaseException, text: str, states: Any, *, released: bool = False
    ) -> str | None:
        """What is kept of an error's message.

        Where no text is kept, only what this package itself says: what hooks and others write into
        a message can be any part of a state, in any form.

        Args:
            error: The error.
            text: Its message.
            states: The states that it may quote, in lists of any depth.
            released: Whether the text of all runs that it ended is kept.
        """
        try:
            if not released:
                if not _is_own(error):
                    return None
                pieces = {p for p in _pieces(states) if len(p) >= _SHORTEST}
                for piece in sorted(pieces, key=len, reverse=True):
                    for form in _forms(piece):
                        text = text.replace(form, "[state]")
            return text if self._redact is None else self._redacted(text)
        except Exception as failure:
            self._lose(failure)
            return None

    def _lose(self, error: Exception) -> Captured:
        self.n_lost += 1
        if self.n_lost == 1:
            # Without the exception's message and cause, which may hold the text.
            warnings.warn(
                f"the text of a run was not kept, since redacting or writing it raised "
                f"{type(error).__name__}; such runs are marked captured='lost' in the trace",
                RuntimeWarning,
                stacklevel=4,
            )
        return _LOST

    def _hash(self, value: Any) -> str:
        # As states are told apart when they are asked: by kind, and with their keys in order.
        text = f"text {value}" if isinstance(value, str) else f"json {exact_json.dumps(value)}"
        data = text.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(data, digest_size=16, key=self._key).hexdigest()

    def _clean(self, value: Any) -> Any:
        """A copy of plain lists, dicts and values, with all text and numbers in it redacted."""
        if isinstance(value, str):
            return (
                value if self._redact is None or value in _SCHEMA_WORDS else self._redacted(value)
            )
        if isinstance(value, dict):
            kept = {self._clean(key): self._clean(each) for key, each in value.items()}
            if len(kept) < len(value):
                raise ValueError("redact made two keys equal")
            return kept
        if isinstance(value, (list, tuple)):
            return [self._clean(each) for each in value]
        if self._redact is None or value is None or isinstance(value, bool):
            return value
        text = str(value)  # a number may be a card's
        redacted = self._redacted(text)
        return value if redacted == text else redacted

    def _redacted(self, text: str) -> str:
        assert self._redact is not None
        kept = self._redact(text)
        if not isinstance(kept, str):
            raise TypeError("redact gave no text")
        return kept


def _is_own(error: BaseException) -> bool:
    """Whether an error is of this package, and raised in its own code."""
    if not isinstance(error, JevlayaError):
        return False
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    module = "" if step is None else str(step.tb_frame.f_globals.get("__name__"))
    return f"{module}.".startswith(f"{__name__.partition('.')[0]}.")


def _pieces(value: Any) -> Iterator[str]:
    """All texts, keys and numbers in a value, as text."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _pieces(key)
            yield from _pieces(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _pieces(each)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield str(value)


def _forms(piece: str) -> list[str]:
    """How a text stands in a message: as it is, and inside the quotes of Python or JSON, or both.

    The longest comes first, since a shorter one may be a part of it.
    """
    plain = [piece, "\n".join(piece.splitlines())]  # messages are kept with plain line ends
    plain += [
        repr(piece)[1:-1],
        json.dumps(piece)[1:-1],
        json.dumps(piece, ensure_ascii=False)[1:-1],
    ]
    both = "'\""  # Python escapes the apostrophes of a text that has quotes of both kinds
    quoted = [form for each in plain for form in (repr(each)[1:-1], repr(both + each)[4:-1])]
    return sorted({*plain, *quoted}, key=len, reverse=True)
