"""The held-out table: label sets and statements that no training step has seen.

Plain cosine is the baseline: of a choice between state and label text, of a yes/no question between
state and instructions.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from jevlaya_lab.system_one.calibration import Calibration, bucket
from jevlaya_lab.system_one.checkpoint import read_checkpoint
from jevlaya_lab.system_one.models.bi_encoder import BiEncoder
from jevlaya_lab.system_one.models.heads import Head
from jevlaya_lab.system_one.questions import QUESTION_TYPES
from jevlaya_lab.training import examples as make
from jevlaya_lab.training.batches import add_texts, logits_of
from jevlaya_lab.training.calibration import area_under_curve, calibration_error, probabilities
from jevlaya_lab.training.corpus import nearest_labels
from jevlaya_lab.training.data import HELD_OUT, SETS, Row, labels_of, read_rows, require
from jevlaya_lab.training.encodings import Encodings
from jevlaya_lab.training.examples import Example, LabelledSet
from jevlaya_lab.training.wordings import NOUL_OPTIONS

__all__ = ["Figures", "evaluate", "figures_of", "table"]

_N_ROWS: Final = 1500
_SEED: Final = 20
_INTENT: Final = "What does the user want?"

_CHOICES: Final = (
    ("banking77", _INTENT, 20),
    ("home_assistant_intents_english", _INTENT, 20),
    ("banking77", _INTENT, 5),
    ("banking77", _INTENT, 77),
    ("snips", _INTENT, 20),
    ("davidson_offensive_tweets", "What kind of language is this?", 20),
)


@dataclass(frozen=True, slots=True)
class Figures:
    """One line of the table.

    Attributes:
        name: What was asked.
        n_rows: Rows that were asked about.
        n_options: Options of each question.
        cosine: The baseline's accuracy (choices) or area under the curve (yes/no).
        accuracy: Share of right answers.
        error: Expected calibration error over 15 bins of the highest probability.
        auc: Area under the curve; None for choices.
    """

    name: str
    n_rows: int
    n_options: int
    cosine: float
    accuracy: float
    error: float
    auc: float | None = None


def evaluate(checkpoint: Path | str, data: Path) -> list[Figures]:
    """Measure a checkpoint on the held-out sets.

    Args:
        checkpoint: Its folder, or ``"embedded"``.
        data: Folder of the sets.

    Raises:
        InputMissing: A held-out set is not there.
        CheckpointError: The checkpoint cannot be used.
    """
    require(data, HELD_OUT)
    found = read_checkpoint(checkpoint)
    network = BiEncoder.from_folder(found.folder, found.config, "cpu")
    encodings = Encodings(network.encoder, network.tokenizer, "", network.max_len, None)
    calibration = Calibration.from_config(found.config)
    figures = []
    for name, examples in _questions(data, encodings):
        add_texts(examples, encodings)
        figures.append(figures_of(name, network.head, examples, encodings, calibration))
    return figures


def figures_of(
    name: str,
    head: Head,
    examples: Sequence[Example],
    encodings: Encodings,
    calibration: Calibration,
) -> Figures:
    """Measure a head on examples of one type whose texts are encoded."""
    shares = [
        probabilities(row, _temperature(calibration, example))
        for row, example in zip(logits_of(head, examples, encodings), examples, strict=True)
    ]
    true = np.array([np.argmax(example.target) for example in examples])
    chosen = np.array([share.argmax() for share in shares])
    right = (chosen == true).astype(np.float64)
    confidence = np.array([share.max() for share in shares])
    n_options = len(examples[0].options)
    accuracy, error = float(right.mean()), calibration_error(confidence, right)
    cosines = _cosines(examples, encodings)
    if examples[0].type != make.NOUL_TYPE:
        plain = np.mean([row.argmax() == t for row, t in zip(cosines, true, strict=True)])
        return Figures(name, len(examples), n_options, float(plain), accuracy, error)
    yes = true.astype(np.float64)
    plain_auc = area_under_curve(np.array([row[0] for row in cosines]), yes)
    auc = area_under_curve(np.array([share[1] for share in shares]), yes)
    return Figures(name, len(examples), n_options, plain_auc, accuracy, error, auc)


def table(figures: Sequence[Figures]) -> str:
    """The figures as a Markdown table."""
    lines = [
        "| held-out question | rows | options | plain cosine | accuracy | ECE | AUC |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for each in figures:
        baseline = f"{each.cosine:.3f}" + ("" if each.auc is None else " (AUC)")
        auc = "" if each.auc is None else f"{each.auc:.3f}"
        lines.append(
            f"| {each.name} | {each.n_rows} | {each.n_options} | {baseline} "
            f"| {each.accuracy:.3f} | {each.error:.3f} | {auc} |"
        )
    return "\n".join(lines)


def _questions(data: Path, encodings: Encodings) -> list[tuple[str, list[Example]]]:
    asked: list[tuple[str, list[Example]]] = []
    for name, instructions, n_options in _CHOICES:
        asked.append((f"choice: {name}", _choices(data, name, instructions, n_options)))
    labels = labels_of(data, "banking77")
    source = LabelledSet(
        "banking77",
        SETS["banking77"].kind,
        _rows(data, "banking77"),
        labels,
        nearest_labels(labels, encodings),
    )
    rng = random.Random(f"{_SEED} noul")
    by_label = [make.label_noul(rng, source, row) for row in source.rows]
    asked.append(("yes/no: banking77, is it about X?", by_label))
    claims = [
        Example(
            row.text,
            make.NOUL_TYPE,
            "The statement is true.",
            NOUL_OPTIONS[0],
            (float(row.label == "false"), float(row.label == "true")),
        )
        for row in _rows(data, "creak_claims")
    ]
    asked.append(("yes/no: creak_claims, is it true?", claims))
    return asked


def _choices(data: Path, name: str, instructions: str, n_options: int) -> list[Example]:
    """Each row asked with options of its own: the true label and others by chance."""
    rng = random.Random(f"{_SEED} {name} {n_options}")
    labels = labels_of(data, name)
    examples = []
    for row in _rows(data, name):
        wrong = [label for label in labels if label != row.label]
        options = [row.label, *rng.sample(wrong, min(n_options - 1, len(wrong)))]
        rng.shuffle(options)
        target = tuple(float(option == row.label) for option in options)
        examples.append(Example(row.text, make.CHOICE_TYPE, instructions, tuple(options), target))
    return examples


def _rows(data: Path, name: str) -> list[Row]:
    """1,500 rows by chance, of the test split where that has enough, else of all."""
    rows = list(read_rows(data, name))
    test = [row for row in rows if row.test]
    pool = test if len(test) >= _N_ROWS else rows
    return random.Random(f"{_SEED} {name}").sample(pool, min(_N_ROWS, len(pool)))


def _cosines(examples: Sequence[Example], encodings: Encodings) -> list[npt.NDArray[np.float32]]:
    """Cosine of each state to its options, of a noul to the instructions alone."""
    ids = [
        (
            encodings.text_id(example.state),
            [
                encodings.text_id(text)
                for text in (
                    [example.instructions] if example.type == make.NOUL_TYPE else example.options
                )
            ],
        )
        for example in examples
    ]
    vectors = encodings.vectors().numpy()
    return [vectors[options] @ vectors[state] for state, options in ids]


def _temperature(calibration: Calibration, example: Example) -> float:
    key = bucket(QUESTION_TYPES[example.type], len(example.options))
    return calibration.by_options.get(key, calibration.temperature[example.type])
