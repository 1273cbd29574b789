"""Where the head's ``centre_map`` starts: what states have in common, told from the options asked.

Texts about banking lie close together, whatever they want; what they share says nothing about which
of some banking labels is right. A ridge regression learns, on random subsets of the training sets'
labels, to tell the mean of the states from the mean of the labels. Half of that is taken off.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor

from jevlaya_lab.system_one.models.heads import Head
from jevlaya_lab.training.encodings import Encodings
from jevlaya_lab.training.examples import LabelledSet

__all__ = ["start_centre_map"]

_SHARE: Final = 0.5
_RIDGE: Final = 1.0
_SIZES: Final = (3, 5, 8, 12, 20, 30)
_ROWS_OF_A_SET: Final = 4000
_SUBSETS_PER_LABEL: Final = 12
_NEAR: Final = 0.6


def start_centre_map(
    head: Head, sets: Sequence[LabelledSet], encodings: Encodings, rng: random.Random
) -> None:
    """Fit the map and put it into the head.

    Args:
        head: Its ``centre_map`` is overwritten.
        sets: Labelled training sets.
        encodings: Where the encodings of labels are, and where those of the rows are added.
        rng: Draws rows and subsets of labels.
    """
    options: list[Tensor] = []
    states: list[Tensor] = []
    for source in sets:
        rows = rng.sample(source.rows, min(_ROWS_OF_A_SET, len(source.rows)))
        encodings.add([row.text for row in rows] + list(source.labels))
        texts = encodings.states([row.text for row in rows]).pooled
        labels = encodings.states(list(source.labels)).pooled
        means = _means(texts, [row.label for row in rows], source.labels)
        for _ in range(_SUBSETS_PER_LABEL * len(source.labels)):
            subset = _subset(labels, rng)
            options.append(labels[subset].mean(0))
            states.append(means[subset].mean(0))
    x = torch.cat([torch.stack(options), torch.ones(len(options), 1)], dim=1)
    solution = torch.linalg.solve(
        x.T @ x + _RIDGE * torch.eye(x.shape[1]), x.T @ torch.stack(states)
    )
    with torch.no_grad():
        head.centre_map.weight.copy_(_SHARE * solution[:-1].T)
        head.centre_map.bias.copy_(_SHARE * solution[-1])


def _means(texts: Tensor, labels: Sequence[str], names: Sequence[str]) -> Tensor:
    """The mean vector of each label's texts ``[labels, d]``; of all texts where it has none."""
    of = {name: [i for i, label in enumerate(labels) if label == name] for name in names}
    overall = texts.mean(0)
    return torch.stack([texts[of[name]].mean(0) if of[name] else overall for name in names])


def _subset(labels: Tensor, rng: random.Random) -> list[int]:
    """Some labels: any, or such as lie close together."""
    n = labels.shape[0]
    size = min(n, rng.choice(_SIZES))
    if rng.random() >= _NEAR:
        return rng.sample(range(n), size)
    around = labels @ labels[rng.randrange(n)]
    return rng.sample(around.topk(min(n, 2 * size)).indices.tolist(), size)
