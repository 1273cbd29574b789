"""Judging question definitions: what one must hold, and what it becomes.

This is the only place where a definition is judged, and it is judged before anything is tokenised.
Every refusal names the question's id, what was wrong and the remedy.
"""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from jevlaya_lab.system_one.errors import InvalidQuestion

__all__ = ["QUESTION_TYPES", "Question", "QuestionType", "check_definition", "kind_of", "render"]

QuestionType = Literal["choice", "score", "noul"]

QUESTION_TYPES: Final[tuple[QuestionType, ...]] = ("choice", "score", "noul")
"""In the order of the network's type ids: choice 0, score 1, noul 2."""

NOUL_LABELS: Final = {"false": "false", "true": "true"}
NOUL_DESCRIPTIONS: Final = {
    "false": "no, the statement does not hold",
    "true": "yes, the statement holds",
}
_KEYS: Final = frozenset({"type", "instructions", "criteria", "labels", "option_order"})


@dataclass(frozen=True, slots=True)
class Question:
    """One checked question, in the form that the networks and the decoder read.

    Attributes:
        id: The caller's key for it.
        type: ``choice``, ``score`` or ``noul``.
        instructions: What is asked, as text.
        keys: The answer keys in the caller's order: labels, level numbers as text, or
            ``("false", "true")``.
        labels: The text of each option's name, in the same order.
        descriptions: The text that explains each option; ``None`` where there is none.
        option_order: Slot ``s`` of the input shows option ``option_order[s]``; ``None`` means the
            caller's order.
    """

    id: Any
    type: QuestionType
    instructions: str
    keys: tuple[Any, ...]
    labels: tuple[str, ...]
    descriptions: tuple[str | None, ...]
    option_order: tuple[int, ...] | None = None

    @property
    def n_options(self) -> int:
        """How many options there are to tell apart."""
        return len(self.keys)

    @property
    def type_id(self) -> int:
        """The network's number for the type: choice 0, score 1, noul 2."""
        return QUESTION_TYPES.index(self.type)

    @property
    def option_texts(self) -> tuple[str, ...]:
        """The options as ``laya``'s row shows them, in the caller's order."""
        if self.type == "score":
            return tuple(f"level {i}: {text}" for i, text in enumerate(self.descriptions))
        return tuple(
            label if text is None else f"{label}: {text}"
            for label, text in zip(self.labels, self.descriptions, strict=True)
        )


def render(value: Any) -> str:
    """Text of one user value: strings as they are, anything else as one line of JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))


def check_definition(qid: Any, definition: Any) -> Question:
    """Check one definition and bring it into the form that the networks read.

    Raises:
        InvalidQuestion: Naming the question's id, what was wrong and what to do.
    """
    if isinstance(qid, bool) or not isinstance(qid, (str, int)) or not str(qid).strip():
        raise InvalidQuestion(
            f"question id {qid!r}: must be a non-empty string or an integer; "
            "it becomes the key of the answer"
        )
    if not isinstance(definition, Mapping):
        raise _wrong(
            qid,
            f"the definition is {kind_of(definition)}",
            'give a dict such as {"type": "noul", "instructions": "..."}, or a Choice or the like',
        )
    kind = definition.get("type")
    if not isinstance(kind, str) or kind not in QUESTION_TYPES:
        raise _wrong(qid, f"unknown type {kind!r}", 'use "choice", "score" or "noul"')
    for key in definition:
        meant = key not in _KEYS and difflib.get_close_matches(str(key), _KEYS, n=1, cutoff=0.8)
        if meant:
            raise _wrong(qid, f"unknown key {key!r}", f"did you mean {meant[0]!r}?")
    if "labels" in definition and kind != "noul":
        raise _wrong(
            qid,
            f"'labels' is for noul questions, and this one is a {kind}",
            "name the options of a choice by the keys of 'criteria'",
        )
    instructions = _instructions(qid, definition)
    criteria = definition.get("criteria")
    read = {"choice": _choice_options, "score": _score_options, "noul": _noul_options}[kind]
    keys, labels, descriptions = read(qid, criteria, definition)
    return Question(
        id=qid,
        type=kind,
        instructions=instructions,
        keys=keys,
        labels=labels,
        descriptions=descriptions,
        option_order=_option_order(qid, definition.get("option_order"), len(keys)),
    )


_Options = tuple[tuple[Any, ...], tuple[str, ...], tuple[str | None, ...]]


def _choice_options(qid: Any, criteria: Any, _: Mapping[str, Any]) -> _Options:
    if not isinstance(criteria, (Mapping, list, tuple)):
        raise _wrong(
            qid,
            f"the criteria of a choice are {kind_of(criteria)}",
            "give a dict of label -> description, or a list of labels",
        )
    if not criteria:
        raise _wrong(qid, "a choice without options", "give at least one label in 'criteria'")
    described = dict(criteria) if isinstance(criteria, Mapping) else None
    first: dict[Any, int] = {}
    shown: dict[str, int] = {}
    for i, label in enumerate(criteria):
        if label is None:
            raise _wrong(qid, f"label {i} is null", "give every option a string, number or bool")
        if not isinstance(label, (str, int, float)):
            raise _wrong(
                qid,
                f"label {i} is {kind_of(label)}",
                "a label is the answer's key and its text: give a string, number or bool, and put "
                "longer structures into its description",
            )
        if not (_description(qid, f"label {i}", str(label)) or "").strip():
            raise _wrong(qid, f"label {i} is empty", "give every option a name")
        if isinstance(label, float) and not math.isfinite(label):
            raise _wrong(qid, f"label {i} is {label!r}", "give a finite number or a string")
        if label in first or str(label) in shown:
            other = first.get(label, shown.get(str(label)))
            raise _wrong(
                qid,
                f"label {i} ({label!r}) repeats label {other}",
                "every option needs a key and a text of its own (1, 1.0 and True are one key)",
            )
        first[label] = i
        shown[str(label)] = i
    keys = tuple(criteria)
    descriptions = tuple(
        _description(qid, f"option {key!r}", described[key]) if described is not None else None
        for key in keys
    )
    return keys, tuple(str(key) for key in keys), descriptions


def _score_options(qid: Any, criteria: Any, _: Mapping[str, Any]) -> _Options:
    if not isinstance(criteria, (list, tuple)):
        raise _wrong(
            qid,
            f"the criteria of a score are {kind_of(criteria)}",
            "give a list with the description of each level, lowest first",
        )
    if not criteria:
        raise _wrong(qid, "a score without levels", "give at least one level in 'criteria'")
    texts: list[str | None] = []
    for i, level in enumerate(criteria):
        text = _description(qid, f"level {i}", level)
        if text is None or not text.strip():
            raise _wrong(qid, f"level {i} has no description", "describe every level, lowest first")
        texts.append(text)
    keys = tuple(str(i) for i in range(len(criteria)))
    return keys, keys, tuple(texts)


def _noul_options(qid: Any, criteria: Any, definition: Mapping[str, Any]) -> _Options:
    if criteria is not None and not isinstance(criteria, Mapping):
        raise _wrong(
            qid,
            f"the criteria of a noul are {kind_of(criteria)}",
            "give a dict with descriptions under 'true' and 'false', or leave it out",
        )
    given: dict[str, Any] = {}
    for key, value in (criteria or {}).items():
        name = str(key).lower()
        if name not in NOUL_LABELS:
            raise _wrong(
                qid,
                f"a noul has no criterion {key!r}",
                "its criteria are keyed 'true' and 'false'; to word the two answers differently "
                "set 'labels'",
            )
        if name in given:
            raise _wrong(qid, f"criterion {name!r} is given twice", "keep one of the two")
        given[name] = value
    labels = _noul_labels(qid, definition.get("labels"))
    descriptions = tuple(
        _description(qid, f"criterion {name!r}", given.get(name)) or NOUL_DESCRIPTIONS[name]
        for name in NOUL_LABELS
    )
    return tuple(NOUL_LABELS), labels, descriptions


def _noul_labels(qid: Any, labels: Any) -> tuple[str, ...]:
    if labels is None:
        return tuple(NOUL_LABELS.values())
    words = (
        [labels.get(name) for name in NOUL_LABELS]
        if isinstance(labels, Mapping) and set(labels) == set(NOUL_LABELS)
        else []
    )
    texts = [word.strip() for word in words if isinstance(word, str) and word.strip()]
    if len(texts) != 2 or texts[0] == texts[1]:
        raise _wrong(
            qid,
            f"bad labels {labels!r}",
            "give two different words, {'false': ..., 'true': ...}",
        )
    return tuple(_description(qid, "a label", text) or text for text in texts)


def _instructions(qid: Any, definition: Mapping[str, Any]) -> str:
    value = definition.get("instructions")
    if value is None or (isinstance(value, (str, list, tuple, dict)) and not value):
        raise _wrong(qid, "no instructions", "say under 'instructions' what should be answered")
    if isinstance(value, bool) or not isinstance(value, (str, int, float, list, tuple, Mapping)):
        raise _wrong(
            qid, f"the instructions are {kind_of(value)}", "give text, or a JSON list or object"
        )
    text = _description(qid, "the instructions", value) or ""
    if not text.strip():
        raise _wrong(
            qid, "the instructions are blank", "say under 'instructions' what should be answered"
        )
    return text


def _description(qid: Any, what: str, value: Any) -> str | None:
    if value is None or (isinstance(value, str) and value == ""):
        return None
    try:
        text = render(value)
        text.encode("utf-8")
    except (TypeError, ValueError, RecursionError) as exc:
        raise _wrong(
            qid, f"{what} cannot be written as JSON text ({exc})", "give text or plain JSON values"
        ) from exc
    return text


def _option_order(qid: Any, order: Any, n_options: int) -> tuple[int, ...] | None:
    if order is None:
        return None
    numbers = isinstance(order, (list, tuple)) and all(
        isinstance(i, int) and not isinstance(i, bool) for i in order
    )
    if not numbers or sorted(order) != list(range(n_options)):
        raise _wrong(
            qid,
            f"option_order {order!r} is not a permutation of range({n_options})",
            "name every option's number exactly once",
        )
    return tuple(order)


def _wrong(qid: Any, what: str, remedy: str) -> InvalidQuestion:
    name = "this question" if qid == "<unnamed>" else f"question {qid!r}"
    return InvalidQuestion(f"{name}: {what}; {remedy}")


def kind_of(value: Any) -> str:
    """The type of a value in words, for messages."""
    if value is None:
        return "missing"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
