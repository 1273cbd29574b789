"""From option logits to typed answers: temperature, probabilities, the two confidences, the gate.

Two figures are called confidence, and neither is another project's:

- ``confidence``: ``1 - H(p) / log(k)`` for a choice or a score (1.0 where k < 2), ``max(p)`` for a
  noul. It says how peaked the whole distribution is. It is not calibrated.
- ``answer_confidence``: ``max(p)`` for every type. This is what temperatures are fitted on, so of
  the answers at 0.8 about 80 % should be right; ``min_confidence`` is compared with it.

A threshold tuned on one of them, or on another package's figure, does not carry over to the other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sized
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from jevlaya_lab.system_one.calibration import BUCKETS, Calibration, bucket
from jevlaya_lab.system_one.errors import InvalidOption, NonFiniteLogits
from jevlaya_lab.system_one.questions import Question

__all__ = [
    "apply_min_confidence",
    "check_min_confidence",
    "decode_answer",
    "empty_result",
]

Thresholds = float | dict[str, float] | None


def decode_answer(
    question: Question,
    logits: npt.NDArray[np.float32],
    calibration: Calibration,
    act: float | None = None,
    lang: str | None = None,
) -> dict[str, Any]:
    """Turn the logits of one question into its typed answer.

    Args:
        question: What was asked.
        logits: ``[n_options]`` in the caller's order of options.
        calibration: The temperatures.
        act: Probability that acting is worth it, where the network has such a head.
        lang: Code of the state's language, for a calibration that has temperatures for it.

    Returns:
        The answer payload of ``laya``; numbers are rounded to 4 places.

    Raises:
        NonFiniteLogits: A logit is NaN or infinite.
    """
    if not np.isfinite(logits).all():
        raise NonFiniteLogits(
            f"question {question.id!r}: the network gave {logits.tolist()} for its options; the "
            "checkpoint's weights are damaged, or its half precision overflowed (try device='cpu')"
        )
    scaled = logits.astype(np.float64) / calibration.temperature_of(question, lang)
    weights = np.exp(scaled - scaled.max())
    p = weights / weights.sum()
    top = min(1.0, float(p.max()))
    common = {
        "answer_confidence": round(calibration.confidence_of(question, top, lang), 4),
        "action": {"act_probability": None if act is None else round(act, 4)},
    }
    if question.type == "noul":
        yes = float(p[1])
        return {
            "type": "noul",
            "noul": round(yes, 4),
            "confidence": round(max(yes, 1.0 - yes), 4),
            **common,
        }
    rounded = [round(float(value), 4) for value in p]
    probabilities = dict(zip(question.keys, rounded, strict=True))
    if question.type == "choice":
        return {
            "type": "choice",
            "choice": question.keys[int(p.argmax())],
            "probabilities": probabilities,
            "confidence": round(_peakedness(p), 4),
            **common,
        }
    return {
        "type": "score",
        "score": round(float(np.arange(len(p)) @ p), 4),
        "legend": dict(zip(question.keys, question.descriptions, strict=True)),
        "probabilities": probabilities,
        "confidence": round(_peakedness(p), 4),
        **common,
    }


def _peakedness(p: npt.NDArray[np.float64]) -> float:
    if len(p) < 2:
        return 1.0
    entropy = -float((p * np.log(np.clip(p, 1e-12, 1.0))).sum())
    return min(1.0, max(0.0, 1.0 - entropy / math.log(len(p))))


def empty_result(model: str) -> dict[str, Any]:
    """The payload of a state that was asked nothing (L-36)."""
    return {"model": model, "answers": {}, "usage": {"input_tokens": 0, "output_tokens": 0}}


def check_min_confidence(value: Any) -> Thresholds:
    """A threshold, or thresholds by bucket (with an optional ``default``), or ``None``.

    Raises:
        InvalidOption: A threshold outside [0, 1], or a key that is no bucket.
    """
    if value is None:
        return None
    if not isinstance(value, Mapping):
        return _threshold(value)
    unknown = [key for key in value if key not in BUCKETS and key != "default"]
    if unknown or not value:
        raise InvalidOption(
            f"min_confidence has {'no bucket ' + repr(unknown[0]) if unknown else 'no entries'}; "
            "use buckets such as 'choice:3-5' (sizes 2, 3-5, 6-10, 11+), or 'default'"
        )
    return {str(key): _threshold(each) for key, each in value.items()}


def _threshold(value: Any) -> float:
    number = not isinstance(value, bool) and isinstance(value, Real)
    if not number or not 0 <= float(value) <= 1:
        raise InvalidOption(f"min_confidence must lie in [0, 1], got {value!r}")
    return float(value)


def apply_min_confidence(results: Any, thresholds: Thresholds) -> Any:
    """Mark each answer as ``passed``, ``abstained`` or ``unevaluated``; nothing else changes.

    Args:
        results: Results, also ones that a hook supplied; what is no answer is left alone.
        thresholds: What :func:`check_min_confidence` gave.

    Returns:
        ``results`` itself without thresholds; else a list of copies as deep as the marks go, since
        results from a cache belong to the cache.
    """
    if thresholds is None or not isinstance(results, (list, tuple)):
        return results
    return [_gated(result, thresholds) for result in results]


def _gated(result: Any, thresholds: float | dict[str, float]) -> Any:
    answers = result.get("answers") if isinstance(result, dict) else None
    if not isinstance(answers, dict):
        return result
    marked = {qid: dict(a) if isinstance(a, dict) else a for qid, a in answers.items()}
    for answer in marked.values():
        if isinstance(answer, dict):
            _gate(answer, thresholds)
    return {**result, "answers": marked}


def _gate(answer: dict[str, Any], thresholds: float | dict[str, float]) -> None:
    if isinstance(thresholds, dict):
        listed = answer.get("probabilities")
        n_options = len(listed) if isinstance(listed, Sized) and len(listed) else 2
        key = bucket(str(answer.get("type")), n_options)
        threshold = thresholds.get(key, thresholds.get("default", 0.0))
    else:
        threshold = thresholds
    figures = (answer.get("answer_confidence"), answer.get("confidence"))
    known = [
        float(x)
        for x in figures
        if isinstance(x, Real) and not isinstance(x, bool) and math.isfinite(x)
    ]
    answer.pop("low_confidence", None)
    if not known:
        answer["abstention"] = "unevaluated"
    elif known[0] < threshold:
        answer["low_confidence"] = True
        answer["abstention"] = "abstained"
    else:
        answer["abstention"] = "passed"
    answer["abstention_threshold"] = threshold
