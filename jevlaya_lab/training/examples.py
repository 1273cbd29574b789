"""Training examples: a state, a question about it, its options, and what the answer should be.

Everything is drawn from a :class:`random.Random`, so that one seed gives the same examples.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from jevlaya_lab.training.data import Row
from jevlaya_lab.training.wordings import (
    ANY_CHOICE,
    CHOICE,
    DESCRIPTIONS,
    LABEL_STATEMENTS,
    NOUL_OPTIONS,
    PAIRS,
    RETRIEVE,
    SAME_MEANING,
    SCALES,
    STATEMENTS,
    Statements,
)

__all__ = [
    "Example",
    "LabelledSet",
    "choice",
    "label_noul",
    "option_count",
    "pair_noul",
    "retrieve",
    "same_meaning",
    "score",
    "statement_choice",
    "statement_noul",
]

CHOICE_TYPE, SCORE_TYPE, NOUL_TYPE = range(3)
MOST_OPTIONS: Final = 60


@dataclass(frozen=True, slots=True)
class Example:
    """One question about one state.

    Attributes:
        state: The text to decide about.
        type: choice 0, score 1, noul 2.
        instructions: What is asked.
        options: Texts of the options; of a noul *false* then *true*.
        target: Probability that each option should get.
    """

    state: str
    type: int
    instructions: str
    options: tuple[str, ...]
    target: tuple[float, ...]


@dataclass(slots=True)
class LabelledSet:
    """Rows with one label each, and which labels are close to each other.

    Attributes:
        name: Name of the set.
        kind: Its kind, which picks the wordings.
        rows: The rows; those with a label that is not in ``labels`` are left out.
        labels: The labels that may be options.
        nearest: For each label the others, nearest first.
        also: Labels that hold for a text beside the row's own, where a text has several.
    """

    name: str
    kind: str
    rows: list[Row]
    labels: tuple[str, ...]
    nearest: Mapping[str, Sequence[str]]
    also: Mapping[str, frozenset[str]] = field(default_factory=dict)
    by_label: dict[str, list[Row]] = field(init=False)

    def __post_init__(self) -> None:
        self.by_label = {label: [] for label in self.labels}
        for row in self.rows:
            if row.label in self.by_label:
                self.by_label[row.label].append(row)
        self.rows = [row for rows in self.by_label.values() for row in rows]


def option_count(rng: random.Random, most: int) -> int:
    """How many options a choice gets: 2 to ``most``, small counts more often."""
    return min(most, int(2 * (MOST_OPTIONS / 2 + 0.5) ** rng.random()))


def _others(rng: random.Random, source: LabelledSet, row: Row, n: int) -> list[str]:
    """Labels that do not hold for the row: up to half of them among the nearest ones."""
    true = source.also.get(row.text, frozenset((row.label,)))
    wrong = [label for label in source.nearest[row.label] if label not in true]
    n_hard = rng.randint(0, (n + 1) // 2)
    near = wrong[: 2 * n_hard]
    hard = rng.sample(near, min(n_hard, len(near)))
    rest = [label for label in wrong if label not in hard]
    return [*hard, *rng.sample(rest, min(n - len(hard), len(rest)))]


def _one_of(
    options: list[str], true: str, rng: random.Random
) -> tuple[tuple[str, ...], tuple[float, ...]]:
    order = list(dict.fromkeys(options))
    rng.shuffle(order)
    return tuple(order), tuple(float(option == true) for option in order)


def choice(
    rng: random.Random, source: LabelledSet, row: Row, n_options: int | None = None
) -> Example:
    """Pick the row's label among others; now and then the options carry descriptions.

    Args:
        rng: Where chance comes from.
        source: The set.
        row: One of its rows.
        n_options: How many options; drawn if not given.
    """
    n = min(n_options or option_count(rng, len(source.labels)), len(source.labels))
    labels = [row.label, *_others(rng, source, row, n - 1)]
    asking = rng.choice(ANY_CHOICE if rng.random() < 0.2 else CHOICE[source.kind])
    style = rng.random()
    if n_options is not None or style < 0.65:
        shown = {label: label for label in labels}
    elif style < 0.8:
        template = rng.choice(DESCRIPTIONS[source.kind])
        shown = {label: f"{label}: {template.format(label=label)}" for label in labels}
    else:
        shown = {label: f"{label}: {_instance(rng, source, label, row)}" for label in labels}
        if style > 0.93:
            shown = {
                label: f"{chr(65 + i % 26)}{i // 26 or ''}: {text.partition(': ')[2]}"
                for i, (label, text) in enumerate(shown.items())
            }
    options, target = _one_of([shown[label] for label in labels], shown[row.label], rng)
    return Example(row.text, CHOICE_TYPE, asking, options, target)


def _instance(rng: random.Random, source: LabelledSet, label: str, but: Row) -> str:
    """A row of the label as its description; few of them, so that they are encoded once."""
    rows = [row for row in source.by_label[label][:4] if row is not but]
    return f"such as {rng.choice(rows).text}" if rows else label


def same_meaning(rng: random.Random, source: LabelledSet, row: Row) -> Example:
    """Pick the text with the row's label among texts with other labels."""
    n = option_count(rng, min(20, len(source.labels)))
    labels = [row.label, *_others(rng, source, row, n - 1)]
    texts = [_instance(rng, source, label, row).removeprefix("such as ") for label in labels]
    options, target = _one_of(texts, texts[0], rng)
    return Example(row.text, CHOICE_TYPE, rng.choice(SAME_MEANING), options, target)


def retrieve(rng: random.Random, name: str, row: Row, rows: Sequence[Row]) -> Example:
    """Pick the pair's second text among those of other rows: options of a whole sentence."""
    n = option_count(rng, 20)
    drawn = rng.sample(rows, min(n - 1, len(rows)))
    options = [row.other, *(other.other for other in drawn if other.text != row.text)]
    texts, target = _one_of(options, row.other, rng)
    return Example(row.text, CHOICE_TYPE, rng.choice(RETRIEVE[name]), texts, target)


def _noul(rng: random.Random, row: Row, instructions: str, p_true: float) -> Example:
    options = NOUL_OPTIONS[0] if rng.random() < 0.7 else rng.choice(NOUL_OPTIONS[1:])
    return Example(row.text, NOUL_TYPE, instructions, options, (1.0 - p_true, p_true))


def label_noul(rng: random.Random, source: LabelledSet, row: Row) -> Example:
    """Is it this label? Half the time it is; if not, half the time it is a near one."""
    true = rng.random() < 0.5
    label = row.label
    if not true:
        near = source.nearest[label]
        label = rng.choice(near[:3] if rng.random() < 0.5 else near)
    statement = rng.choice(LABEL_STATEMENTS[source.kind]).format(label=label)
    return _noul(rng, row, statement, float(true))


def _statement(
    rng: random.Random, statements: Statements, row: Row, other: str = ""
) -> tuple[str, float] | None:
    """A wording and the probability that it holds; None where the row's label says neither."""
    if row.label not in statements.true and row.label not in statements.false:
        return None
    holds = float(row.label in statements.true)
    if row.score is not None and 0 <= row.score <= 1:
        holds = row.score
    deny = bool(statements.denying) and rng.random() < 0.5
    wording = rng.choice(statements.denying if deny else statements.affirming)
    return wording.format(other=other), 1.0 - holds if deny else holds


def statement_noul(rng: random.Random, name: str, row: Row) -> Example | None:
    """A statement about the set's own subject (spam, sentiment, ...), affirmed or denied."""
    found = _statement(rng, STATEMENTS[name], row)
    return None if found is None else _noul(rng, row, *found)


def statement_choice(rng: random.Random, name: str, row: Row) -> Example | None:
    """The same as a choice of two."""
    statements = STATEMENTS[name]
    if row.label not in statements.true and row.label not in statements.false:
        return None
    low, high = rng.choice(statements.options)
    true = high if row.label in statements.true else low
    options, target = _one_of([low, high], true, rng)
    return Example(row.text, CHOICE_TYPE, rng.choice(ANY_CHOICE), options, target)


def pair_noul(rng: random.Random, name: str, row: Row) -> Example | None:
    """Does the text support, answer or agree with the second one?"""
    found = _statement(rng, PAIRS[name], row, row.other)
    return None if found is None else _noul(rng, row, *found)


def score(rng: random.Random, name: str, row: Row, labels: Sequence[str]) -> Example | None:
    """Place the row on its scale, or on a part of it; None where the row is not on that part."""
    scale = SCALES[name]
    kept = list(range(len(labels)))
    if rng.random() < 0.3:
        kept = sorted(rng.sample(kept, rng.randint(2, len(kept) - 1)))
    level = labels.index(row.label)
    if level not in kept:
        return None
    names = rng.choice(scale.levels)
    return Example(
        row.text,
        SCORE_TYPE,
        rng.choice(scale.asking).format(other=row.other),
        tuple(names[i] for i in kept),
        tuple(float(i == level) for i in kept),
    )
