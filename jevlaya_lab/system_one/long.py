"""States longer than a network's window: where to cut them, and which window's answer to take.

Pure functions. Positions in tokens count the tokens of the whole state; positions in characters
count those of its text, which for a state that is no string is its JSON.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Final

from jevlaya_lab.system_one.decoding import empty_result
from jevlaya_lab.system_one.errors import InvalidOption, InvalidResult
from jevlaya_lab.system_one.models import Budget

__all__ = [
    "Scored",
    "Window",
    "check_skipped",
    "choose_window",
    "merge",
    "merge_usage",
    "plan_windows",
]

_LEAST_WINDOW: Final = 64
_HEAD_MARGIN: Final = 8


@dataclass(frozen=True, slots=True)
class Window:
    """A piece of a state's text; ``text[char_start:char_end]`` is what the network reads."""

    token_start: int
    token_end: int
    char_start: int
    char_end: int


@dataclass(frozen=True, slots=True)
class Scored:
    """What became of a scan behind its start hooks.

    Attributes:
        n_results: Results that the network gave; ``None`` where a start hook answered instead.
        kinds: Types of the questions asked, by id.
        own_ids: Ids that the caller asked; others were added by a start hook.
        windows: The windows behind the results; empty where there is none to report.
    """

    n_results: int | None
    kinds: Mapping[Any, str]
    own_ids: frozenset[Any]
    windows: Sequence[Window] = ()


def choose_window(
    window: int | None, stride: int | None, room: int, budget: Budget
) -> tuple[int, int]:
    """Tokens of a window, and tokens from one window's start to the next one's.

    Args:
        window: As asked for; ``None``: ``max(64, max_len - head_max_len - 8)``. Either is cut to
            the room, the former with a ``RuntimeWarning``.
        stride: As asked for; ``None``: half a window.
        room: State tokens that the questions leave, at least 1.
        budget: The budgets of the call.

    Raises:
        InvalidOption: The stride is larger than the window.

    Source: the defaults are those of ``laya`` 0.4.15.
    """
    usual = max(_LEAST_WINDOW, budget.max_len - budget.head_max_len - _HEAD_MARGIN)
    size = min(usual if window is None else window, room)
    if window is not None and window > size:
        warnings.warn(
            f"predict_long: window={window} is more than the {room} state tokens that these "
            f"questions leave of max_len={budget.max_len}; windows of {size} tokens are read",
            RuntimeWarning,
            stacklevel=4,  # the caller of predict_long
        )
    step = max(1, size // 2) if stride is None else stride
    if step > size:
        raise InvalidOption(
            f"stride={step} is more than a window of {size} tokens, so {step - size} tokens "
            f"between two windows would be read by nobody; give a stride of at most {size}"
        )
    return size, step


def plan_windows(
    text: str,
    spans: Sequence[tuple[int, int]],
    size: int,
    step: int,
    room: int,
    count: Callable[[str], int],
) -> tuple[Window, ...]:
    """Cut a text into windows that together hold every token, and every character.

    A window also holds what stands between its first token and the token in front of it. Token
    ``i`` starts a window where ``i`` is a multiple of ``step``, as in ``laya``, until a window has
    to be shortened: a piece that is tokenised by itself may have more tokens than it had as a part
    of the text (a word or a character was cut), and those must fit as well.

    Args:
        text: The state's text.
        spans: Where its tokens stand in it, at least one.
        size: Tokens of a window.
        step: Tokens from one window's start to the next one's, at most ``size``.
        room: Tokens that a window may have when tokenised by itself.
        count: How many tokens a text has.

    Raises:
        InvalidOption: Not even the tokens of one character fit.
    """
    n_tokens = len(spans)
    begins, finishes = _edges(text, spans)
    windows: list[Window] = []
    first = 0
    while True:
        last = min(first + size, n_tokens)
        while (excess := count(text[begins[first] : finishes[last - 1]]) - room) > 0:
            if last - first == 1:
                raise InvalidOption(
                    f"{text[begins[first] : finishes[first]]!r} at character {begins[first]} of "
                    f"the state takes {room + excess} tokens by itself, and the questions leave "
                    f"{room}; raise max_len, or ask with fewer or shorter options"
                )
            last = max(first + 1, last - excess)
        windows.append(Window(first, last, begins[first], finishes[last - 1]))
        if last == n_tokens:
            return tuple(windows)
        first = min(first + step, last)


def _edges(text: str, spans: Sequence[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """For each token, where a window begins that starts with it, and where one ends."""
    begins, finishes = [0], [spans[0][1]]
    for start, end in spans[1:]:
        behind = finishes[-1]
        # The parts of one character have one span: both windows get all of it.
        begins.append(min(behind, start) if end > start else behind)
        finishes.append(max(behind, end))
    finishes[-1] = len(text)
    return begins, finishes


def check_skipped(results: Any) -> None:
    """Refuse results of a start hook that are not one result for the whole state.

    Raises:
        InvalidResult: They are none, several, or no list.
    """
    if not isinstance(results, (list, tuple)) or len(results) != 1:
        listed = isinstance(results, (list, tuple))
        raise InvalidResult(
            f"predict_long: a start hook answered with {len(results) if listed else results!r}"
            f"{' results' if listed else ''}; ctx.skip() takes a list with one result here, which "
            "stands for the whole state"
        )


def merge(results: Any, scored: Scored, model: str) -> dict[str, Any]:
    """Make one result of the results of all windows.

    Args:
        results: What the end hooks left.
        scored: How these results came about.
        model: Name of the checkpoint.

    Returns:
        A new result; those given are not changed.

    Raises:
        InvalidResult: Hooks left other results than the call needs.
    """
    if not isinstance(results, (list, tuple)):
        raise _unfit(f"{results!r} where a list of results belongs")
    n = scored.n_results
    if n is None:
        if not results:
            raise InvalidResult(
                f"predict_long: the hooks left {results!r} where one result for the whole state "
                "belongs"
            )
        return _with_count(results[0], 0)
    if len(results) != n:
        raise _unfit(f"{len(results)} results for {n} windows")
    n_scored = n if scored.kinds else 0
    if n == 1:
        return _with_count(results[0], n_scored)
    if not results:
        warnings.warn(
            "predict_long: a start hook left no states, so there are no answers",
            RuntimeWarning,
            stacklevel=3,
        )
        return _with_count(empty_result(model), 0)
    for i, result in enumerate(results):
        if not isinstance(result, Mapping) or not isinstance(result.get("answers"), Mapping):
            raise _unfit(f"{result!r} as the result of window {i}")
    usages = [result.get("usage") for result in results]
    return {
        "model": results[0].get("model", model),
        "answers": _best_answers([result["answers"] for result in results], scored),
        "usage": {**merge_usage(usages), "windows": n_scored},
    }


def _best_answers(per_window: Sequence[Mapping[Any, Any]], scored: Scored) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    n = len(per_window)
    for qid, kind in scored.kinds.items():
        missing = sum(qid not in answers for answers in per_window)
        if missing == n and qid not in scored.own_ids:
            continue  # asked by a start hook, which took the answers for itself
        if missing:
            raise _unfit(f"no answer to question {qid!r} in {missing} of {n} windows")
        figure = "noul" if kind == "noul" else "answer_confidence"
        figures = [_figure(qid, i, answers[qid], figure) for i, answers in enumerate(per_window)]
        best = figures.index(max(figures))
        found[qid] = dict(per_window[best][qid])
        if scored.windows:
            window = scored.windows[best]
            found[qid]["window"] = {
                "index": best,
                "token_start": window.token_start,
                "token_end": window.token_end,
                "count": n,
                "char_start": window.char_start,
                "char_end": window.char_end,
            }
    return found


def _figure(qid: Any, index: int, answer: Any, name: str) -> float:
    value = answer.get(name) if isinstance(answer, Mapping) else None
    if isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    raise _unfit(f"no number as {name!r} of question {qid!r} in window {index}")


def merge_usage(usages: Sequence[Any]) -> dict[str, Any]:
    """One usage for several windows.

    Numbers are added up, so tokens that stand in two windows count twice. Of booleans
    (``truncated``) one that is true is enough; dicts are merged; lists (``truncated_questions``)
    are joined, each entry once. Of anything else the last one stays.
    """
    total: dict[Any, Any] = {}
    for usage in usages:
        for key, value in usage.items() if isinstance(usage, Mapping) else ():
            total[key] = _added(total[key], value) if key in total else _added(None, value)
    return total


def _added(before: Any, value: Any) -> Any:
    if isinstance(value, bool):
        return value or (isinstance(before, bool) and before)
    if isinstance(value, (int, float)):
        known = isinstance(before, (int, float)) and not isinstance(before, bool)
        return before + value if known else value
    if isinstance(value, Mapping):
        return {**before, **value} if isinstance(before, Mapping) else dict(value)
    if isinstance(value, (list, tuple)):
        known_items = list(before) if isinstance(before, list) else []
        return known_items + [item for item in value if item not in known_items]
    return value


def _with_count(result: Any, n_windows: int) -> dict[str, Any]:
    """A copy of a result that says how many windows were scored."""
    if isinstance(result, Mapping):
        usage = result.get("usage")
        given = usage if isinstance(usage, Mapping) else {}
        return {**result, "usage": {**given, "windows": n_windows}}
    left: dict[str, Any] = result  # a hook may leave anything (L-10)
    return left


def _unfit(what: str) -> InvalidResult:
    return InvalidResult(
        f"predict_long: the hooks left {what}; an end hook gets one result for each window, in "
        "the order of ctx.states, and may change them but not how many"
    )
