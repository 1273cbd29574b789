"""What people wrote in a state: its text values, without code, addresses, ids and numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

__all__ = ["PIECE", "pieces_of", "read_values"]

PIECES: Final = 16
"""Pieces of a state that are judged; longer ones are put together value by value."""

PIECE: Final = 160
"""Characters of a piece that are judged: more changes hardly a verdict and costs time."""

VALUES: Final = 64
"""Values of an object that are judged for language, the longest ones first."""

_URL: Final = re.compile(r"(?:https?://|www\.)[^\s<>\"']+", re.IGNORECASE)
_FENCE: Final = re.compile(r"```.*?(?:```|\Z)|`[^`\n]{1,200}`", re.DOTALL)
_CODE_LINE: Final = re.compile(
    r"^[ \t]*(?:(?:def|class|import|from|return|function|const|let|var|public|private|static"
    r"|#include|SELECT|INSERT|UPDATE|DELETE|Traceback|Caused by:)\b(?=.*[(){}=;*,:\"']|[ \t]+\w+$)"
    r"|at [\w$.]+\(|File \"|(?P<sign>[\w.]+(?:\[\w*\])?[ \t]*[-+]?=[^\n]|[{}()\[\];])).*$"
    r"|^\w*(?:Error|Exception)\b:.*$|\bTraceback \(most recent call last\):",
    re.MULTILINE,
)
_ENDED_LINE: Final = re.compile(r"^.*(?P<sign>[;{}])[ \t]*$", re.MULTILINE)
# Runs of printable ASCII that are no word: identifiers, paths, addresses, markup, numbers. A run
# is tried from its first character only, so that a long one costs linear time.
_TOKEN: Final = re.compile(
    r"(?<![!-~])[!-~]*(?:[0-9_\\{}<>=|@#$%^*~\[\]]|[a-z][A-Z]|\w\.\w|\w\(|::|\w/\w+/|--)[!-~]*"
    r"|(?<![!-~])/[!-~]+"
)
# Each pattern that every text is searched with begins with one set, which ``re`` scans for fast.
_NOISE: Final = re.compile(
    r"[0-9_\\{}<>=|@#$%^*~\[\]`;/(.A-Z-](?:(?<=[0-9_\\{}<>=|@#$%^*~\[\]`;/(])|(?<=\.)\w|(?<=-)-"
    r"|(?<=[a-z][A-Z]))"
)
_SENTENCE: Final = re.compile(r"[.!?…;:。！？।؟\n](?:(?<=[。！？।؟\n])|\s)\s*")


def read_values(state: Any) -> list[str]:
    """The values of a state that hold prose; one-word ones only where there are no others."""
    values = [value for value in map(_prose, _texts(state)) if value]
    if len(values) > 1:
        values = [value for value in values if not _is_one_word(value)] or values
    return values


def _texts(state: Any) -> Iterator[str]:
    """The text values of a state in order, those of JSON in a string included."""
    if isinstance(state, str):
        state = _parsed(state)
    if isinstance(state, str):
        yield state
        return
    stack, seen = [state], set()
    while stack:
        value = stack.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, (Mapping, list, tuple)) and id(value) not in seen:
            seen.add(id(value))
            stack.extend(reversed(list(value.values() if isinstance(value, Mapping) else value)))


def _parsed(text: str) -> Any:
    """A text, or what it holds where it is JSON, or JSON line by line."""
    inner = text.lstrip("\ufeff \t\r\n")
    if inner[:1] not in ("{", "["):
        return text
    try:
        return json.loads(inner)
    except (ValueError, RecursionError):
        pass  # not JSON as a whole
    lines = [line for line in inner.splitlines() if line.strip()]
    try:
        return [json.loads(line) for line in lines] if len(lines) > 1 else text
    except (ValueError, RecursionError):
        return text


def _without_code(match: re.Match[str]) -> str:
    """Nothing for a line of code; the line where its words make it prose in brackets or so."""
    line = match[0]
    if match["sign"] is None:
        return " "
    if not line.isascii() and sum(map(str.isalpha, line)) >= 4:
        return line
    words = line.split()
    plain = sum(len(word) > 1 and word.strip("()[]{};:,.!?\"'").isalpha() for word in words)
    return line if plain >= (4 if "=" in line else 3) and plain * 2 >= len(words) else " "


def _prose(text: str) -> str:
    """The text without what is no prose in it."""
    if "\xa0" in text:
        text = text.replace("\xa0", " ")
    if _NOISE.search(text):
        if "`" in text:
            text = _FENCE.sub(" ", text)
        if "//" in text or "." in text:
            text = _URL.sub(" ", text)
        text = _CODE_LINE.sub(_without_code, text)
        text = _ENDED_LINE.sub(_without_code, text)
        text = _TOKEN.sub(" ", text)
    return text.strip()


def _is_one_word(value: str) -> bool:
    return value.isascii() and len(value.split(None, 1)) == 1


def pieces_of(values: list[str]) -> Iterator[str]:
    """Sentences of the values; those of a long value are put together."""
    if len(values) > VALUES:
        values = sorted(values, key=len, reverse=True)[:VALUES]
    room = max(2, PIECES // len(values))
    for value in values:
        sentences = [part for part in _SENTENCE.split(value) if len(part) > 1]
        if len(sentences) > room:
            # What is put together should not be one word over and over, which is no language.
            sentences = list(dict.fromkeys(sentences))
        step = -(-len(sentences) // room)
        for i in range(0, len(sentences), step or 1):
            yield " ".join(sentences[i : i + step])[:PIECE]
