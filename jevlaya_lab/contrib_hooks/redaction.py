"""Redaction: personal data is taken out of the states before anything reads them."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from jevlaya_lab.contrib_hooks.patterns import PATTERNS, Pattern
from jevlaya_lab.system_one.errors import InvalidOption, InvalidState
from jevlaya_lab.system_one.events import BaseHook

__all__ = ["Redaction"]

Own = str | re.Pattern[str] | Pattern


class Redaction(BaseHook):
    """Replaces e-mail addresses, card numbers, phone numbers and the like by their kind.

    Text, and every text inside JSON objects and conversations, is searched; so are whole numbers,
    since a card number may be one. Keys of objects stay as they are. The caller's objects are never
    changed, and a run in which nothing is found keeps its states.

    What is found is what the patterns describe, and no more: names and addresses need others. Card
    numbers must pass the Luhn check and account numbers (IBAN) their country's length and check
    digits. A Router has seen the state when it chose a checkpoint, and an agent's ``predict_long``
    has cut it into windows, where a number may stand at an edge; over a Router the hook gets it
    whole. Install it ahead of the hooks that keep or write down anything.

    Args:
        kinds: Which of ``email``, ``iban``, ``card``, ``phone`` and ``ip`` to look for, in this
            order; all where ``None``.
        patterns: Your own, by kind: a regular expression, or a :class:`Pattern` with a check of its
            own. They are looked for first.
        placeholder: What stands in their place: a text in which ``{kind}`` is replaced, or a
            function of the kind and the text that was found.

    Raises:
        InvalidOption: A kind is unknown, or a pattern cannot be read or matches the empty text.
    """

    def __init__(
        self,
        kinds: Iterable[str] | None = None,
        patterns: Mapping[str, Own] | None = None,
        placeholder: str | Callable[[str, str], str] = "[{kind}]",
    ) -> None:
        wanted = list(PATTERNS) if kinds is None else [kinds] if isinstance(kinds, str) else kinds
        own = [_pattern(kind, given) for kind, given in (patterns or {}).items()]
        self.patterns = (*own, *map(_known, wanted))
        self._placeholder = placeholder
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    @property
    def counts(self) -> dict[str, int]:
        """How many were replaced so far, by kind."""
        with self._lock:
            return dict(self._counts)

    def on_predict_start(self, ctx: Any) -> None:
        """Replace in all states of the run."""
        if not isinstance(ctx.states, (list, tuple)):
            return  # the agent says what is wrong with them
        found: Counter[str] = Counter()
        states = [self._state(i, state, found) for i, state in enumerate(ctx.states)]
        if found:
            ctx.states = states
            with self._lock:
                self._counts.update(found)

    def redact(self, value: Any) -> Any:
        """A copy of a text, or of anything that is a state, with all of it replaced."""
        return self._cleaned(value, Counter())

    def __repr__(self) -> str:
        return f"Redaction({', '.join(pattern.kind for pattern in self.patterns)})"

    def _state(self, i: int, state: Any, found: Counter[str]) -> Any:
        try:
            return self._cleaned(state, found)
        except RecursionError:
            raise InvalidState(
                f"state {i} is nested too deep to be redacted, or holds itself; make it flatter"
            ) from None

    def _cleaned(self, value: Any, found: Counter[str]) -> Any:
        if isinstance(value, str):
            return self._text(value, found)
        if isinstance(value, (dict, Mapping)):
            return {key: self._cleaned(item, found) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._cleaned(item, found) for item in value]
        if isinstance(value, int) and not isinstance(value, bool):
            text = self._text(str(value), found)
            return value if text == str(value) else text
        return value

    def _text(self, text: str, found: Counter[str]) -> str:
        for pattern in self.patterns:
            parts, done = [], 0
            for match in pattern.regex.finditer(text):
                for start, end in pattern.spans(match):
                    parts += [text[done:start], self._shown(pattern.kind, text[start:end])]
                    done = end
                    found[pattern.kind] += 1
            if parts:
                text = "".join([*parts, text[done:]])
        return text

    def _shown(self, kind: str, text: str) -> str:
        if isinstance(self._placeholder, str):
            return self._placeholder.replace("{kind}", kind)
        return self._placeholder(kind, text)


def _known(kind: str) -> Pattern:
    if kind not in PATTERNS:
        raise InvalidOption(
            f"Redaction knows no kind {kind!r}, only {', '.join(PATTERNS)}; give a pattern of your "
            f"own as patterns={{{kind!r}: r'...'}}"
        )
    return PATTERNS[kind]


def _pattern(kind: str, given: Own) -> Pattern:
    if isinstance(given, Pattern):
        return given
    try:
        regex = re.compile(given)
    except (re.error, TypeError) as exc:
        raise InvalidOption(
            f"pattern {kind!r} of Redaction is no regular expression: {exc}"
        ) from None
    if regex.match("") is not None and regex.fullmatch("") is not None:
        raise InvalidOption(
            f"pattern {kind!r} of Redaction matches the empty text, which is everywhere; make it "
            "ask for at least one character"
        )
    return Pattern(kind, regex)
