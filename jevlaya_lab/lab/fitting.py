"""Temperatures fitted on a user's own labelled answers, by checkpoint and bucket of options."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from jevlaya_lab.analysis import Stated, came_true, expected_error, stated, stated_confidence
from jevlaya_lab.lab.asking import is_router
from jevlaya_lab.lab.results import ATTRS, ROUTING
from jevlaya_lab.system_one.calibration import TEMPERATURE_RANGE, Calibration, bucket
from jevlaya_lab.system_one.errors import InvalidInput
from jevlaya_lab.system_one.questions import QUESTION_TYPES
from jevlaya_lab.tracing.temperatures import Temperatures, temperatures_of

__all__ = ["LEAST", "fit_calibration"]

LEAST: Final = 20
"""Labelled answers of a bucket below which nothing is fitted."""

_FOLDS: Final = 5
_SMALLEST: Final = 5e-5
"""Half of the last place of a probability: what is rounded to 0 counts as this."""

_HALVINGS: Final = 20
_TOO_FEW: Final = "too few: "
_DTYPES: Final[dict[str, Any]] = {
    "checkpoint": "string",
    "bucket": "string",
    "n": "Int64",
    **dict.fromkeys(
        (
            *("temperature_before", "temperature", "log_loss_before", "log_loss"),
            *("ece_before", "ece"),
        ),
        "float64",
    ),
    "applied": "boolean",
    "note": "string",
}

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


class _Bucket(NamedTuple):
    """Labelled answers of one checkpoint with alike questions.

    ``logits`` are ``[n, n_options]``, padded with ``-inf``, as far as probabilities tell them;
    ``states`` says by number which state each is about.
    """

    kind: str
    before: float
    logits: Array
    target: Integers
    states: Integers


def fit_calibration(target: Any, answers: Any, truth: Any, apply: bool) -> pd.DataFrame:
    """Fit temperatures and use them, see :meth:`jevlaya_lab.Lab.fit_calibration`."""
    found = _labelled(answers, truth)
    rows: list[dict[str, Any]] = []
    states = _states(answers)
    for checkpoint in _checkpoints(target, answers):
        buckets = _buckets(found, checkpoint, states)
        fitted = {name: _report(checkpoint.name, name, each) for name, each in buckets.items()}
        chosen = {name: row["temperature"] for name, row in fitted.items() if not row["note"]}
        if chosen:
            note = "apply=False" if not apply else _install(checkpoint.agent, chosen)
            for name in chosen:
                fitted[name] |= {"applied": not note, "note": note}
        rows += fitted.values()
    report: pd.DataFrame = pd.DataFrame(rows, columns=list(_DTYPES)).astype(_DTYPES)
    report["note"] = report["note"].replace("", pd.NA)
    if report["temperature"].isna().all():
        counts = ", ".join(
            f"{row['checkpoint']} {row['bucket']}: {row['note'].removeprefix(_TOO_FEW)}"
            for row in rows
        )
        raise InvalidInput(
            f"too few labelled answers to fit a temperature ({counts or 'none'}); a checkpoint's "
            f"bucket of options needs at least {LEAST}, about at least {_FOLDS} different states "
            "(rows with the same probabilities count as one)"
        )
    return report


# --- what there is to fit on --------------------------------------------------------------------


def _labelled(answers: Any, truth: Any) -> dict[Any, Stated]:
    """By question, the answers that have a true value."""
    if not isinstance(answers, pd.DataFrame) or not isinstance(truth, (pd.DataFrame, pd.Series)):
        raise InvalidInput(
            "fit_calibration takes an answers frame made with detail=True, and true values as a "
            "frame with the questions' columns or a named Series, on the same index"
        )
    labelled = truth.to_frame() if isinstance(truth, pd.Series) else truth
    questions = [name for name in answers if name in labelled.columns]
    if not questions:
        raise InvalidInput(
            f"no question has a column in both: the answers have {list(answers.columns)}, the true "
            f"values {list(labelled.columns)}"
        )
    found = {}
    for name in questions:
        if f"{name}__confidence" not in answers:
            raise InvalidInput(f"question {name!r} has no probabilities; ask with detail=True")
        found[name] = each = stated(answers, labelled, name)
        for row in each.rows[each.target < 0]:
            raise InvalidInput(
                f"the true value of question {name!r} at index {answers.index[row]!r} is none of "
                f"its options {each.options}"
            )
    return found


class _Checkpoint(NamedTuple):
    """Who answered which rows, with which temperatures; ``agent`` is ``None`` where it is gone."""

    name: str
    agent: Any
    rows: npt.NDArray[np.bool_]
    temperatures: Temperatures


def _checkpoints(target: Any, answers: pd.DataFrame) -> list[_Checkpoint]:
    noted = answers.attrs.get(ATTRS) or {}
    if not is_router(target):
        rows = np.ones(len(answers), dtype=bool)
        return [_checkpoint("agent", target, rows, noted.get(""))]
    column = f"{ROUTING}model"
    if column not in answers:
        raise InvalidInput(
            f"the answers have no column {column!r}, which says who answered; ask this router with "
            "detail=True"
        )
    resident = list(target.loaded)
    known = {_resolved(target, name): each for name, each in noted.items()}
    routed = answers[column].map(lambda name: _resolved(target, name), na_action="ignore")
    found: list[_Checkpoint] = []
    for name in routed.dropna().unique():
        agent = target.load(name) if name in resident else None
        rows = routed.eq(name).fillna(False).to_numpy(dtype=bool)
        same = [i for i, each in enumerate(found) if agent is not None and each.agent is agent]
        if same:  # one agent under two names has one set of temperatures
            other = found[same[0]]
            found[same[0]] = other._replace(name=f"{other.name}, {name}", rows=other.rows | rows)
        else:
            found.append(_checkpoint(name, agent, rows, known.get(name)))
    return found


def _resolved(router: Any, name: Any) -> str:
    try:
        return str(router.resolve(name))
    except Exception:  # no longer registered
        return str(name)


def _checkpoint(name: str, agent: Any, rows: Any, noted: Temperatures | None) -> _Checkpoint:
    temperatures = noted or (None if agent is None else temperatures_of(agent))
    if temperatures is None:
        raise InvalidInput(
            f"the temperatures that {name!r} answered with are not known: the answers do not say "
            "them, and no agent that does is resident; ask again, and fit on those answers"
        )
    if temperatures["languages"]:
        raise InvalidInput(
            f"{name!r} has temperatures of languages {temperatures['languages']}, and the answers "
            "do not say which of them were used; fit with an agent without lang_temperatures"
        )
    return _Checkpoint(name, agent, rows, temperatures)


def _buckets(
    found: Mapping[Any, Stated], checkpoint: _Checkpoint, states: Integers
) -> dict[str, _Bucket]:
    parts: dict[str, list[_Bucket]] = {}
    for each in found.values():
        here = checkpoint.rows[each.rows]
        if not here.any():
            continue
        name = bucket(each.kind, len(each.options))
        by_type = checkpoint.temperatures["temperature"][QUESTION_TYPES.index(each.kind)]
        before = checkpoint.temperatures["temperature_by_options"].get(name, by_type)
        logits = before * np.log(np.clip(each.p[here], _SMALLEST, None))
        part = _Bucket(each.kind, before, logits, each.target[here], states[each.rows[here]])
        parts.setdefault(name, []).append(part)
    return {name: _joined(each) for name, each in parts.items()}


def _states(answers: pd.DataFrame) -> Integers:
    """By row the number of its state, as far as answers tell states apart.

    A frame of answers does not hold its states; but equal states have equal answers, so rows that
    agree in every figure of every question are taken as one.
    """
    questions = [name for name in answers if f"{name}__confidence" in answers]
    figures = [
        column
        for column in answers
        if any(
            column == name
            or column in (f"{name}__confidence", f"{name}__answer_confidence")
            or str(column).startswith(f"{name}__p_")
            for name in questions
        )
    ]
    keys = pd.util.hash_pandas_object(answers[figures], index=False).to_numpy()
    return np.asarray(np.unique(keys, return_inverse=True)[1], dtype=np.int64)


def _joined(parts: Sequence[_Bucket]) -> _Bucket:
    width = max(part.logits.shape[1] for part in parts)
    padded = [
        np.pad(p.logits, ((0, 0), (0, width - p.logits.shape[1])), constant_values=-np.inf)
        for p in parts
    ]
    target, states = (np.concatenate([getattr(p, n) for p in parts]) for n in ("target", "states"))
    return parts[0]._replace(logits=np.concatenate(padded), target=target, states=states)


# --- fitting ------------------------------------------------------------------------------------


def _report(checkpoint: str, name: str, each: _Bucket) -> dict[str, Any]:
    n, states = len(each.target), np.unique(each.states)
    row: dict[str, Any] = dict.fromkeys(_DTYPES)
    row |= {"checkpoint": checkpoint, "bucket": name, "n": n, "applied": False, "note": ""}
    row["temperature_before"] = each.before
    row["log_loss_before"], row["ece_before"] = _figures(each, _probabilities(each, each.before))
    if n < LEAST or len(states) < _FOLDS:
        row["note"] = f"{_TOO_FEW}{n} of {LEAST} labelled answers, {len(states)} of {_FOLDS} states"
        return row
    row["temperature"] = _fitted(each, np.ones(n, dtype=bool))
    # What is known of one state is never fitted on and judged at once.
    order = np.random.default_rng(0).permutation(states)
    fold = np.empty(n, dtype=int)
    for k in range(_FOLDS):
        fold[np.isin(each.states, order[k::_FOLDS])] = k
    p = np.empty_like(each.logits)
    for k in range(_FOLDS):
        p[fold == k] = _probabilities(each, _fitted(each, fold != k))[fold == k]
    row["log_loss"], row["ece"] = _figures(each, p)
    if row["log_loss"] >= row["log_loss_before"]:
        row["note"] = "no better on answers that it was not fitted on"
    return row


def _probabilities(each: _Bucket, temperature: float) -> Array:
    scaled = each.logits / temperature
    raised = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


def _losses(each: _Bucket, p: Array) -> Array:
    return np.asarray(-np.log(np.clip(p[np.arange(len(p)), each.target], 1e-12, None)))


def _fitted(each: _Bucket, chosen: npt.NDArray[np.bool_]) -> float:
    """The temperature at which the true options of the chosen answers surprise least.

    The mean log loss is convex in the inverse temperature; its slope there is what the options
    would have on average, less what the true ones have.
    """
    part = each._replace(logits=each.logits[chosen], target=each.target[chosen])
    known = np.where(np.isfinite(part.logits), part.logits, 0.0)
    true = known[np.arange(len(known)), part.target].mean()
    low, high = (1 / t for t in reversed(TEMPERATURE_RANGE))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        average = (_probabilities(part, 1 / middle) * known).sum(axis=1).mean()
        low, high = (low, middle) if average > true else (middle, high)
    return round(float(np.clip(2 / (low + high), *TEMPERATURE_RANGE)), 3)


def _figures(each: _Bucket, p: Array) -> tuple[float, float]:
    """Log loss, and the expected calibration error."""
    shown = stated_confidence(each.kind, p)
    right = came_true(each.kind, p, each.target)
    return float(_losses(each, p).mean()), expected_error(shown, right)


# --- using them ---------------------------------------------------------------------------------


def _install(agent: Any, temperatures: Mapping[str, float]) -> str:
    """Let an agent use temperatures of buckets; gives the reason where that cannot be done.

    A histogram of ``answer_confidence`` for such a bucket goes, as it belonged to the former one.
    """
    if agent is None:
        return "the checkpoint is not resident"
    calibration = getattr(agent, "calibration", None)
    if isinstance(calibration, Calibration):
        kept = {k: v for k, v in (calibration.binning or {}).items() if k not in temperatures}
        by_options = {**calibration.by_options, **temperatures}
        agent.calibration = replace(calibration, by_options=by_options, binning=kept or None)
        return ""
    if not (hasattr(agent, "save_calibration") and hasattr(agent, "load_calibration")):
        return f"{type(agent).__name__} takes no temperatures"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "calibration.json"
        agent.save_calibration(str(path))
        payload = json.loads(path.read_text(encoding="utf-8"))
        payload["temperature_by_options"] |= temperatures
        for name in temperatures:
            (payload.get("binning_map") or {}).pop(name, None)
        path.write_text(json.dumps(payload), encoding="utf-8")
        agent.load_calibration(str(path))
    return ""
