"""One request to a Router, checked before anything is routed or loaded."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from jevlaya_lab.system_one.encoding import check_count
from jevlaya_lab.system_one.errors import (
    InvalidInput,
    InvalidOption,
    InvalidQuestion,
    InvalidRequest,
    InvalidState,
)
from jevlaya_lab.system_one.routing import Hints

__all__ = ["Request", "check_request", "numbered", "read_requests"]

_KEYS: Final = (
    *("state", "questions", "model", "task", "lang", "lang_guess", "max_len", "head_max_len"),
)
_LEAST_BUDGET: Final = 8


class Request(NamedTuple):
    """What is decided about, what is asked, and what the caller says about it."""

    state: Any
    questions: Mapping[Any, Any]
    hints: Hints = Hints()
    max_len: int | None = None
    head_max_len: int | None = None


def check_request(request: Request) -> Request:
    """The request, with its budgets as plain integers.

    Raises:
        InvalidState: The state is ``None``.
        InvalidQuestion: ``questions`` is no dict.
        InvalidOption: A budget is no whole number of at least 8, or a hint is of a wrong kind.
    """
    state, questions, hints, max_len, head_max_len = request
    if state is None:
        raise InvalidState(
            "the state is None; a decision needs something to be about: pass text, a JSON object "
            "or a list of turns (an empty string is allowed)"
        )
    if not isinstance(questions, (dict, Mapping)):
        raise InvalidQuestion(
            "questions must be a dict of question id -> definition, "
            f"got {'None' if questions is None else 'a ' + type(questions).__name__}"
        )
    if hints.lang is not None and not isinstance(hints.lang, str):
        raise InvalidOption(f"lang must be a language code such as 'de', got {hints.lang!r}")
    guess = hints.lang_guess
    if guess is not None and not isinstance(guess, str) and not callable(guess):
        raise InvalidOption(
            f"lang_guess is a language code or a function of the state, got {guess!r}"
        )
    if max_len is None and head_max_len is None:
        return request
    return request._replace(
        max_len=check_count("max_len", max_len, least=_LEAST_BUDGET),
        head_max_len=check_count("head_max_len", head_max_len, least=_LEAST_BUDGET),
    )


def read_requests(requests: Any) -> list[Request]:
    """Check a whole batch; the first bad request is named by its number.

    Args:
        requests: A list of dicts with ``state``, ``questions`` and optionally the keys of hints and
            budgets. Other keys are left alone, unless one is surely misspelt.

    Raises:
        InvalidInput: ``InvalidRequest``, or the kind of what is wrong inside of one.
    """
    if isinstance(requests, Mapping):
        raise InvalidRequest(
            "predict_batch takes a list of requests, got one dict; write [request], or use "
            "predict(state, questions)"
        )
    if isinstance(requests, (str, bytes)) or not isinstance(requests, Iterable):
        raise InvalidRequest(
            "predict_batch takes a list of requests, each a dict with 'state' and 'questions'; "
            f"got a {type(requests).__name__}"
        )
    return [_read(i, raw) for i, raw in enumerate(requests)]


def numbered(i: int, error: InvalidInput) -> InvalidInput:
    """The same error, saying which request of a batch it is about (counted from 0)."""
    return type(error)(f"request {i}: {error}")


def _read(i: int, raw: Any) -> Request:
    try:
        return check_request(_as_request(raw))
    except InvalidInput as exc:
        raise numbered(i, exc) from None


def _as_request(raw: Any) -> Request:
    if not isinstance(raw, (dict, Mapping)):
        raise InvalidRequest(
            f"a request is a dict with 'state' and 'questions', got {type(raw).__name__}"
        )
    for key in ("state", "questions"):
        if key not in raw:
            raise InvalidRequest(f"it has no {key!r}; its keys are {list(raw)}")
    if len(raw) > 2:
        _check_spelling(raw)
    return Request(
        raw["state"],
        raw["questions"],
        Hints(raw.get("model"), raw.get("task"), raw.get("lang"), raw.get("lang_guess")),
        raw.get("max_len"),
        raw.get("head_max_len"),
    )


def _check_spelling(raw: Mapping[Any, Any]) -> None:
    for key in raw:
        if key in _KEYS or not isinstance(key, str):
            continue
        near = difflib.get_close_matches(key, _KEYS, n=1, cutoff=0.8)
        if near and near[0] not in raw:
            raise InvalidRequest(f"it has the key {key!r}; did you mean {near[0]!r}?")
