"""All training sets together: what is drawn from which, and what is kept back for calibration.

Of every sixth label of the large label sets nothing is trained on. The test rows of those labels
stand in for labels that a user makes up, so temperatures are fitted on them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from jevlaya_lab.training import examples as make
from jevlaya_lab.training.data import SETS, Row, labels_of, read_rows, require, training_sets
from jevlaya_lab.training.encodings import Encodings
from jevlaya_lab.training.examples import Example, LabelledSet
from jevlaya_lab.training.wordings import PAIRS, RETRIEVE, SCALES, STATEMENTS

__all__ = ["Corpus", "nearest_labels"]

_LABELLED: Final = (
    "clinc150",
    "bitext_customer_support",
    "sib200_english_topics",
    "goemotions",
    "xed_english_emotions",
)
_RESERVED_EVERY: Final = 6
_LARGE: Final = 20
_NOT_A_LABEL: Final = frozenset(("out of scope", "neutral"))
_NLUPP: Final = "nlupp_intent_yesno"
_NLUPP_ASKS: Final = "Is the intent to "

_SHARES: Final[Mapping[tuple[str, str], float]] = {
    ("choice", "clinc150"): 0.17,
    ("choice", "bitext_customer_support"): 0.04,
    ("choice", _NLUPP): 0.06,
    ("choice", "sib200_english_topics"): 0.02,
    ("choice", "goemotions"): 0.05,
    ("choice", "xed_english_emotions"): 0.03,
    ("same_meaning", "clinc150"): 0.06,
    ("same_meaning", "bitext_customer_support"): 0.02,
    ("retrieve", "qnli_dev"): 0.02,
    ("retrieve", "boolq"): 0.02,
    ("retrieve", "fever_dev_pairs"): 0.02,
    ("retrieve", "perspectrum_stance"): 0.02,
    ("statement_choice", "sms_spam"): 0.01,
    ("statement_choice", "spamassassin_email"): 0.01,
    ("statement_choice", "query_wellformedness"): 0.01,
    ("statement_choice", "emobank_valence"): 0.02,
    ("statement_choice", "emobank_arousal"): 0.01,
    ("statement_choice", "goemotions"): 0.02,
    ("label_noul", "clinc150"): 0.08,
    ("label_noul", "bitext_customer_support"): 0.02,
    ("label_noul", "sib200_english_topics"): 0.01,
    ("label_noul", "goemotions"): 0.02,
    ("label_noul", "xed_english_emotions"): 0.02,
    ("statement_noul", "sms_spam"): 0.01,
    ("statement_noul", "spamassassin_email"): 0.01,
    ("statement_noul", "query_wellformedness"): 0.02,
    ("statement_noul", "emobank_valence"): 0.02,
    ("statement_noul", "emobank_arousal"): 0.01,
    ("statement_noul", "goemotions"): 0.02,
    ("pair_noul", _NLUPP): 0.04,
    ("pair_noul", "boolq"): 0.01,
    ("pair_noul", "qnli_dev"): 0.02,
    ("pair_noul", "fever_dev_pairs"): 0.03,
    ("pair_noul", "perspectrum_stance"): 0.02,
    ("score", "emobank_valence"): 0.05,
    ("score", "emobank_arousal"): 0.04,
    ("score", "complex_word_difficulty"): 0.05,
    ("score", "gitbugs_hadoop_priority"): 0.02,
}
"""Of what the training examples are made, by maker and set."""

Draw = Callable[[random.Random], Example | None]


def nearest_labels(labels: Sequence[str], encodings: Encodings) -> dict[str, list[str]]:
    """For each label the others, by cosine of their vectors, nearest first."""
    encodings.add(labels)
    ids = [encodings.text_id(label) for label in labels]
    vectors = encodings.vectors()[ids].numpy()
    order = np.argsort(-(vectors @ vectors.T), axis=1, kind="stable")
    return {label: [labels[j] for j in order[i] if j != i] for i, label in enumerate(labels)}


class Corpus:
    """The training sets, read and ready to draw examples from.

    Args:
        data: Folder of the sets.
        encodings: Gives the labels' vectors, for hard negatives.
        seed: Which rows are used where a set is not used whole.

    Raises:
        InputMissing: A set or ``labels.json`` is not there.
    """

    def __init__(self, data: Path, encodings: Encodings, seed: int) -> None:
        require(data, training_sets())
        self.n_rows: dict[str, int] = {}
        self._train: dict[str, list[Row]] = {}
        self._test: dict[str, list[Row]] = {}
        for name in training_sets():
            rows = list(read_rows(data, name))
            train = [row for row in rows if not row.test]
            limit = SETS[name].n_train or len(train)
            train = random.Random(f"{seed} {name}").sample(train, min(limit, len(train)))
            self._train[name] = train
            self._test[name] = [row for row in rows if row.test]
            self.n_rows[name] = len(train)
        self._scales = {name: labels_of(data, name) for name in SCALES}
        self._seen: dict[str, LabelledSet] = {}
        self._unseen: dict[str, LabelledSet] = {}
        for name in _LABELLED:
            labels = [label for label in labels_of(data, name) if label not in _NOT_A_LABEL]
            reserved = labels[::_RESERVED_EVERY] if len(labels) >= _LARGE else []
            seen = [label for label in labels if label not in reserved]
            self._seen[name] = self._labelled(name, self._train[name], seen, encodings)
            self._unseen[name] = self._labelled(
                name, self._test[name], reserved or labels, encodings
            )
        self._seen[_NLUPP] = self._nlupp(encodings)

    @property
    def labelled_sets(self) -> list[LabelledSet]:
        """The labelled training sets, with the labels that are trained on."""
        return list(self._seen.values())

    def draw(self, rng: random.Random, n_examples: int) -> list[Example]:
        """Draw training examples by the shares, in random order."""
        total = sum(_SHARES.values())
        found: list[Example] = []
        for (maker, name), share in _SHARES.items():
            draw = self._maker(maker, name, self._train[name], self._seen.get(name))
            found += _take(rng, draw, round(n_examples * share / total))
        rng.shuffle(found)
        return found

    def calibration(self, rng: random.Random, n_each: int) -> list[Example]:
        """Draw examples from test rows, as much like a user's own questions as the sets allow.

        Choices are between plain labels that were not trained on (where a set has labels to spare)
        or between two statements; what was made up to vary the training is left out.
        """
        found: list[Example] = []
        for maker, name in _SHARES:
            source = self._unseen.get(name)
            if maker in ("same_meaning", "retrieve") or (maker == "choice" and source is None):
                continue
            draw = self._maker(maker, name, self._test[name], source)
            if maker == "choice" and source is not None:
                draw = partial(_plain_choice, source=source)
            # Only one set has enough labels left over for long lists of options.
            n = 4 * n_each if (maker, name) == ("choice", "clinc150") else n_each
            found += _take(rng, draw, n)
        return found

    def unseen_intents(self, rng: random.Random, n_rows: int, n_options: int) -> list[Example]:
        """Choices among CLINC150 labels that were not trained on: what a setting is judged by."""
        source = self._unseen["clinc150"]
        rows = rng.sample(source.rows, min(n_rows, len(source.rows)))
        return [make.choice(rng, source, row, n_options) for row in rows]

    def _maker(self, maker: str, name: str, rows: list[Row], source: LabelledSet | None) -> Draw:
        if maker in ("choice", "same_meaning", "label_noul"):
            assert source is not None
            function = {
                "choice": make.choice,
                "same_meaning": make.same_meaning,
                "label_noul": make.label_noul,
            }[maker]
            return lambda rng: function(rng, source, _row_of(rng, source))
        if maker == "retrieve":
            assert name in RETRIEVE
            return lambda rng: make.retrieve(rng, name, rng.choice(rows), rows)
        if maker == "score":
            labels = self._scales[name]
            return lambda rng: make.score(rng, name, rng.choice(rows), labels)
        assert name in (PAIRS if maker == "pair_noul" else STATEMENTS)
        by_name = {
            "pair_noul": make.pair_noul,
            "statement_noul": make.statement_noul,
            "statement_choice": make.statement_choice,
        }[maker]
        return lambda rng: by_name(rng, name, rng.choice(rows))

    @staticmethod
    def _labelled(
        name: str, rows: list[Row], labels: list[str], encodings: Encodings
    ) -> LabelledSet:
        nearest = nearest_labels(labels, encodings)
        return LabelledSet(name, SETS[name].kind, rows, tuple(labels), nearest)

    def _nlupp(self, encodings: Encodings) -> LabelledSet:
        """NLU++ read the other way round: which of the questions would be answered with yes?"""
        rows = [
            Row(row.text, "", row.other.removeprefix(_NLUPP_ASKS).rstrip("?"), None, row.test)
            for row in self._train[_NLUPP]
            if row.label == "yes" and row.other.startswith(_NLUPP_ASKS)
        ]
        also: dict[str, set[str]] = {}
        for row in rows:
            also.setdefault(row.text, set()).add(row.label)
        labels = sorted({row.label for row in rows})
        return LabelledSet(
            _NLUPP,
            "intent",
            rows,
            tuple(labels),
            nearest_labels(labels, encodings),
            {text: frozenset(true) for text, true in also.items()},
        )


def _plain_choice(rng: random.Random, source: LabelledSet) -> Example:
    n_options = make.option_count(rng, len(source.labels))
    return make.choice(rng, source, _row_of(rng, source), n_options)


def _row_of(rng: random.Random, source: LabelledSet) -> Row:
    """A row of a label drawn first, so that rare labels are asked for as often as common ones."""
    label = rng.choice(source.labels)
    return rng.choice(source.by_label[label] or source.rows)


def _take(rng: random.Random, draw: Draw, n: int) -> list[Example]:
    """Draw until there are ``n``; a draw may find that its row fits no question."""
    found: list[Example] = []
    while len(found) < n:
        example = draw(rng)
        if example is not None:
            found.append(example)
    return found
