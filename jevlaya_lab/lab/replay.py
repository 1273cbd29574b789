"""Replay: the requests of a trace, asked again of somebody else, and what changed."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from tqdm.auto import tqdm

from jevlaya_lab.frames import Trace
from jevlaya_lab.frames.build import outermost
from jevlaya_lab.lab.asking import is_router
from jevlaya_lab.system_one.errors import InvalidInput, InvalidOption, InvalidResult
from jevlaya_lab.system_one.hooks import HookArg, entries
from jevlaya_lab.tracing import exact_json
from jevlaya_lab.tracing.listening import Listening
from jevlaya_lab.tracing.recorder import TraceRecorder
from jevlaya_lab.tracing.records import RunRecord

__all__ = ["Replay", "replay"]

_STEPS: Final = ("encode_ms", "collate_ms", "forward_ms", "decode_ms")
_TEXT: Final = pd.StringDtype("python")
_SAID: Final = re.compile(r"explicit (model|task|lang)='([^']+)'")
_FIGURES: Final = ("confidence", "answer_confidence")

ANSWERS: Final[dict[str, Any]] = {
    "run_id": _TEXT,
    "state": "Int64",
    "question": "object",
    "type": _TEXT,
    "before": "object",
    "after": "object",
    "changed": "bool",
    **{f"{figure}_{when}": "float64" for figure in _FIGURES for when in ("before", "after")},
}
TIMINGS: Final[dict[str, Any]] = {
    "run_id": _TEXT,
    "entry": _TEXT,
    "scope": _TEXT,
    "n_states": "Int64",
    "model_before": _TEXT,
    "model_after": _TEXT,
    **{
        f"{name}_{when}": "float64"
        for name in ("elapsed_ms", *_STEPS)
        for when in ("before", "after")
    },
    "error_before": _TEXT,
    "error_after": _TEXT,
}


@dataclass(frozen=True, eq=False, repr=False)
class Replay:
    """What came of asking a trace's requests again.

    Attributes:
        answers: One row per state and question, in the order of the trace: ``run_id`` (of the
            trace), ``state`` (its number in the run), ``question``, ``type``; ``before`` and
            ``after``, a label, an expected level or a probability of yes; ``changed``;
            ``confidence`` and ``answer_confidence``, ``_before`` and ``_after``.
        timings: One row per run: ``run_id``, ``entry``, ``scope``, ``n_states``; the checkpoint,
            ``elapsed_ms``, the steps, and the error, ``_before`` and ``_after``. Milliseconds; the
            steps of a router's run are those of its agent.
        trace: What was recorded while asking again.
        n_left_out: Runs that could not be asked again, since their text was not kept.
    """

    answers: pd.DataFrame
    timings: pd.DataFrame
    trace: Trace
    n_left_out: int = 0

    def summary(self) -> str:
        """The same in a few sentences."""
        timings, answers = self.timings, self.answers
        n, failed = len(timings), int(timings["error_after"].notna().sum())
        facts = [f"{_many(n, 'run')} asked again, {failed} failed"]
        if self.n_left_out:
            facts[0] += f", {self.n_left_out} left out, since their text was not kept"
        n_changed = int(answers["changed"].sum())
        fact = f"{n_changed} of {_many(len(answers), 'answer')} changed"
        if n_changed:
            by_id = answers.groupby("question", sort=False)["changed"].agg(["sum", "size"])
            by_id = by_id[by_id["sum"] > 0]
            fact += ": " + ", ".join(f"{q} {s} of {k}" for q, s, k in by_id.itertuples())
        facts.append(fact)
        models = timings[["model_before", "model_after"]].dropna()
        moved = int((models["model_before"] != models["model_after"]).sum())
        if moved:
            facts.append(f"another checkpoint answered {_many(moved, 'run')}")
        for name, what in (("elapsed_ms", "median run"), ("forward_ms", "in the network")):
            pair = timings[[f"{name}_before", f"{name}_after"]].dropna()
            if len(pair):
                before, after = pair.median()
                facts.append(f"{what} {before:.2f} ms before, {after:.2f} ms now")
        return ". ".join(fact[:1].upper() + fact[1:] for fact in facts) + "."

    def __repr__(self) -> str:
        return f"Replay({self.summary()})"


def replay(trace: Trace, target: Any, hooks: HookArg, progress: bool, tolerance: float) -> Replay:
    """Ask the outermost requests of a trace again, see :meth:`jevlaya_lab.Lab.replay`."""
    if not isinstance(trace, Trace):
        raise InvalidInput(
            f"replay takes a trace, such as lab.trace or read_trace_csv(path); got a "
            f"{type(trace).__name__}"
        )
    number = isinstance(tolerance, (int, float)) and not isinstance(tolerance, bool)
    if not number or not 0 <= tolerance < math.inf:
        raise InvalidOption(f"tolerance must be a number of at least 0, got {tolerance!r}")
    entries("call", hooks)
    asked = outermost(trace.runs)
    kept = asked[asked["captured"] == "text"]
    if kept.empty:
        raise InvalidInput(
            f"the trace holds the text of none of its {len(asked)} requests; record with "
            'Lab(agent, capture="text") or TraceRecorder(capture="text"), then replay that trace'
        )
    recorder = TraceRecorder()
    answers: list[dict[str, Any]] = []
    timings: list[dict[str, Any]] = []
    steps = _steps_by_run(trace.runs)
    # All are read before any is asked.
    runs = [(run, *_recorded(run)) for run in _rows(kept)]
    bar = tqdm(runs, unit="run", disable=not progress or len(kept) < 2)
    for run, states, questions, old in bar:
        new = _ask(target, recorder, run, states, questions, hooks)
        timings.append(_timing(run, steps.get(run["run_id"], {}), new))
        answers += _compared(run["run_id"], questions, len(states), old, new.results, tolerance)
    return Replay(
        _typed(answers, ANSWERS), _typed(timings, TIMINGS), recorder.trace, len(asked) - len(kept)
    )


def _recorded(run: Mapping[str, Any]) -> tuple[list[Any], Mapping[Any, Any], Any]:
    """States, questions and results of a run."""
    states, questions, results = (_read(run, name) for name in ("states", "questions", "results"))
    if not isinstance(states, (list, tuple)) or not isinstance(questions, Mapping):
        raise InvalidInput(
            f"the states and questions of run {run['run_id']!r} are no list and dict, but a "
            f"{type(states).__name__} and a {type(questions).__name__}; leave that run out"
        )
    return list(states), questions, results


def _read(run: Mapping[str, Any], name: str) -> Any:
    try:
        return None if run[name] is None else exact_json.loads(run[name])
    except (ValueError, TypeError, RecursionError) as exc:
        raise InvalidInput(
            f"the {name} of run {run['run_id']!r} cannot be read: {exc}; leave that run out"
        ) from exc


class _Again(NamedTuple):
    """What came of one run that was asked again."""

    results: Any
    error: str | None
    runs: list[RunRecord]


def _ask(
    target: Any,
    recorder: TraceRecorder,
    run: Mapping[str, Any],
    states: list[Any],
    questions: Any,
    hooks: HookArg,
) -> _Again:
    budgets = {n: int(run[n]) for n in ("max_len", "head_max_len") if run[n] is not None}
    hints = _hints(target, run)
    # The states of an agent's own predict_long are its windows already.
    long = run["entry"] == "predict_long" and run["scope"] == "router" and len(states) == 1
    long = long and hasattr(target, "predict_long")
    listening = Listening(recorder, target, "predict_long" if long else "predict_batch", hooks)
    results, error = None, None
    with recorder.scope() as noted:
        try:
            with listening:
                if long:
                    given = [target.predict_long(states[0], questions, **hints, **listening.hooks)]
                elif is_router(target):
                    common = {"questions": questions, **budgets, **hints}
                    requests = [{"state": state, **common} for state in states]
                    given = target.predict_batch(requests, **listening.hooks)
                else:
                    given = target.predict_batch(states, questions, **budgets, **listening.hooks)
            if not isinstance(given, (list, tuple)) or len(given) != len(states):
                raise InvalidResult(f"{len(states)} states gave {given!r:.60}")
            results = given
        except Exception as exc:
            error = f"{type(exc).__name__}: {exc}"
    return _Again(results, error, [record.run for record in noted.records()])


def _hints(target: Any, run: Mapping[str, Any]) -> dict[str, str]:
    """What the caller had told the router, as far as its reason says so word for word."""
    found = _SAID.match(run["routing_reason"] or "")
    if found is None or not is_router(target):
        return {}
    name, value = found.groups()
    if name != "lang":
        try:
            target.resolve(value)
        except Exception:  # this router knows no such checkpoint, so it may choose
            return {}
    return {name: value}


def _timing(
    run: Mapping[str, Any], steps: Mapping[str, float | None], new: _Again
) -> dict[str, Any]:
    routed = [each for each in new.runs if each.scope == "router" and each.parent_run_id is None]
    agents = [each for each in new.runs if each.scope == "agent"]
    top = routed or [each for each in agents if each.parent_run_id is None]
    found: dict[str, Any] = {name: run[name] for name in ("run_id", "entry", "scope", "n_states")}
    found |= {
        "model_before": run["model"],
        "model_after": top[0].model if top else None,
        "error_before": run["error_type"],
        "error_after": new.error,
        "elapsed_ms_before": run["elapsed_ms"],
        "elapsed_ms_after": _sum([each.elapsed_ms for each in top]),
    }
    for name in _STEPS:
        found[f"{name}_before"] = steps.get(name)
        found[f"{name}_after"] = _sum([getattr(each, name) for each in agents])
    return found


def _steps_by_run(runs: pd.DataFrame) -> dict[Any, dict[str, float | None]]:
    """The steps of each run: its own, or of a router's run those of the agent's inside it."""
    found: dict[Any, dict[str, float | None]] = {}
    for run in _rows(runs[["run_id", "parent_run_id", "scope", *_STEPS]]):
        if run["scope"] == "agent":
            steps = {name: run[name] for name in _STEPS}
            found[run["run_id"]] = steps
            if run["parent_run_id"] is not None:
                above = found.setdefault(run["parent_run_id"], dict.fromkeys(_STEPS))
                for name in _STEPS:
                    above[name] = _sum([above[name], steps[name]])
    return found


def _compared(
    run_id: Any, questions: Any, n: int, old: Any, new: Any, tolerance: float
) -> list[dict[str, Any]]:
    rows = []
    for i in range(n):
        for qid, definition in questions.items():
            kind = str(definition.get("type")) if isinstance(definition, Mapping) else ""
            first, second = _answer(old, i, qid), _answer(new, i, qid)
            before, after = first.get(kind), second.get(kind)
            changed = _differ(kind, before, after, tolerance)
            row = {
                "run_id": run_id, "state": i, "question": qid, "type": kind,
                "before": before, "after": after, "changed": changed,
            }  # fmt: skip
            for figure in _FIGURES:
                row[f"{figure}_before"] = _number(first.get(figure))
                row[f"{figure}_after"] = _number(second.get(figure))
            rows.append(row)
    return rows


def _answer(results: Any, i: int, qid: Any) -> Mapping[str, Any]:
    result = results[i] if isinstance(results, (list, tuple)) and i < len(results) else None
    answers = result.get("answers") if isinstance(result, Mapping) else None
    answer = answers.get(qid) if isinstance(answers, Mapping) else None
    return answer if isinstance(answer, Mapping) else {}


def _differ(kind: str, before: Any, after: Any, tolerance: float) -> bool:
    if kind != "choice":  # whose labels may be numbers
        first, second = (
            _number(int(value) if isinstance(value, bool) else value) for value in (before, after)
        )
        if first is not None and second is not None:
            return abs(first - second) > tolerance
    try:
        return bool(before != after)
    except ValueError:  # an array of a hook's
        return True


def _number(value: Any) -> float | None:
    if not isinstance(value, (int, float, np.number)) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (OverflowError, TypeError):  # too large, or complex
        return None
    return number if math.isfinite(number) else None


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows as plain dicts, with ``None`` for missing."""
    found: list[dict[str, Any]] = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return found


def _typed(rows: Sequence[Mapping[str, Any]], dtypes: Mapping[str, Any]) -> pd.DataFrame:
    frame: pd.DataFrame = pd.DataFrame(
        {
            name: pd.Series([row[name] for row in rows], dtype=dtype)
            for name, dtype in dtypes.items()
        }
    )
    return frame


def _many(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"
