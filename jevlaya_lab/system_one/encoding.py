"""States as text, and encoded states as batches of bounded size."""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Iterator, Sequence
from typing import Any, Final

from jevlaya_lab.system_one.errors import InvalidOption, InvalidState

__all__ = ["check_count", "check_lang", "check_states", "chunks", "state_text"]

TOKENS_PER_FORWARD: Final = 8192
"""Padded tokens that one forward pass holds at most where the caller gives no ``batch_size``."""

LOOK_AHEAD: Final = 1024
"""States that are tokenised ahead so that they can be sorted by length."""


def check_states(states: Any) -> list[str]:
    """The text of every state, or an error that names the one that has none.

    Args:
        states: A list or tuple of states: text, JSON objects, or conversations (lists of turns).

    Returns:
        One string per state.

    Raises:
        InvalidState: ``states`` is no list, or a state is ``None`` or cannot be written as JSON.
    """
    if isinstance(states, (str, bytes)) or not isinstance(states, (list, tuple)):
        what = "one string" if isinstance(states, (str, bytes)) else f"a {type(states).__name__}"
        raise InvalidState(
            f"predict_batch takes a list of states, got {what}; for a single state use "
            "predict(state, questions), for another collection pass list(states)"
        )
    return [state_text(state, i) for i, state in enumerate(states)]


def state_text(state: Any, index: int = 0) -> str:
    """One state as text: strings as they are, anything else as one line of JSON.

    Raises:
        InvalidState: Naming the state's index, what is wrong and what to do.
    """
    if isinstance(state, str):
        text = state
    elif state is None:
        raise InvalidState(
            f"state {index} is None; a decision needs something to be about: pass text, a JSON "
            "object or a list of turns (an empty string is allowed)"
        )
    elif isinstance(state, float) and not math.isfinite(state):
        raise InvalidState(
            f"state {index} is {state}, as missing values often are; fill it or leave it out"
        )
    else:
        try:
            text = json.dumps(state, ensure_ascii=False)
        except (TypeError, ValueError, RecursionError) as exc:
            raise InvalidState(
                f"state {index} ({type(state).__name__}) cannot be written as JSON: {exc}; "
                "pass text, or plain JSON values (dates and arrays as strings and lists)"
            ) from exc
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as exc:
        raise InvalidState(
            f"state {index} holds half of a surrogate pair at position {exc.start}, which is no "
            "text; repair it with text.encode('utf-16', 'surrogatepass').decode('utf-16', "
            "'replace')"
        ) from exc
    return text


def chunks(
    lengths: Sequence[int], rows: Sequence[int], batch_size: int | None, sort_by_length: bool
) -> Iterator[list[int]]:
    """Split encoded states into the index lists of successive forward passes.

    Args:
        lengths: Tokens of each state's longest row.
        rows: Rows of each state.
        batch_size: States per pass; ``None`` fills each pass up to ``TOKENS_PER_FORWARD``.
        sort_by_length: Put states of similar length together, which saves padding.

    Yields:
        Indices into ``lengths``, each exactly once, at least one per pass.
    """
    order = list(range(len(lengths)))
    if sort_by_length:
        order.sort(key=lengths.__getitem__)
    chunk: list[int] = []
    longest = n_rows = 0
    for i in order:
        width, height = max(longest, lengths[i]), n_rows + rows[i]
        full = (
            len(chunk) >= batch_size
            if batch_size is not None
            else width * height > TOKENS_PER_FORWARD
        )
        if chunk and full:
            yield chunk
            chunk, width, height = [], lengths[i], rows[i]
        chunk.append(i)
        longest, n_rows = width, height
    if chunk:
        yield chunk


def check_count(name: str, value: Any, *, least: int = 1) -> int | None:
    """An optional whole number of at least ``least``.

    Raises:
        InvalidOption: It is something else; the message names the argument.
    """
    if value is None:
        return None
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or number < least:
        raise InvalidOption(f"{name} must be a whole number of at least {least}, got {value!r}")
    return number


def check_lang(lang: Any) -> None:
    """A language code, or ``None``.

    Raises:
        InvalidOption: It is no string.
    """
    if lang is not None and not isinstance(lang, str):
        raise InvalidOption(f"lang must be a language code such as 'de', got {lang!r}")
