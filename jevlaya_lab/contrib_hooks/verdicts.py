"""Answers as what was decided and how sure: what comparisons of two answers look at."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

__all__ = ["answer_of", "figure", "shift", "verdict"]


def answer_of(result: Any, qid: Any) -> Mapping[str, Any]:
    """A question's answer in a result; empty where there is none."""
    answers = result.get("answers") if isinstance(result, (dict, Mapping)) else None
    answer = answers.get(qid) if isinstance(answers, (dict, Mapping)) else None
    return answer if isinstance(answer, (dict, Mapping)) else {}


def verdict(answer: Mapping[str, Any]) -> Any:
    """What was decided: the label, the rounded level, or whether it is so; ``None`` for nothing."""
    kind = answer.get("type")
    value = answer.get(str(kind))
    if kind == "choice":
        return value
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return value >= 0.5 if kind == "noul" else math.floor(value + 0.5)


def figure(answer: Mapping[str, Any], given: Any) -> float | None:
    """The number behind it: the probability of the label given, the score, or that of yes."""
    kind = answer.get("type")
    if kind == "choice":
        listed = answer.get("probabilities")
        value = listed.get(given) if isinstance(listed, (dict, Mapping)) else None
    else:
        value = answer.get(str(kind))
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None


def shift(one: Mapping[str, Any], other: Mapping[str, Any]) -> float | None:
    """How far the figure of what the one decided has moved; ``None`` where either has none."""
    given = verdict(one)
    was, now = figure(one, given), figure(other, given)
    return abs(was - now) if was is not None and now is not None else None
