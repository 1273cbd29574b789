"""Examples as tensors: batches for the head, and the head's logits for many examples."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from jevlaya_lab.system_one.models.bi_encoder import places
from jevlaya_lab.system_one.models.heads import Asked, Head, States
from jevlaya_lab.training.encodings import Encodings
from jevlaya_lab.training.examples import Example

__all__ = ["ExampleBatch", "add_texts", "batches", "logits_of"]

_TYPES = ("choice", "score", "noul")
_SORTED_TOGETHER = 64


@dataclass(slots=True)
class ExampleBatch:
    """Some examples for one step.

    Attributes:
        states: Their states.
        asked: Their options, ``[B, N, ...]``, padded to the longest list.
        target: Probability that each option should get, float32 ``[B, N]``; 0 where padded.
        mask: Which options there are, bool ``[B, N]``.
        types: choice 0, score 1, noul 2, int64 ``[B]``.
    """

    states: States
    asked: Asked
    target: Tensor
    mask: Tensor
    types: Tensor


def add_texts(examples: Sequence[Example], encodings: Encodings) -> None:
    """Encode every text of the examples that was not encoded before."""
    encodings.add(
        text
        for example in examples
        for text in (example.state, example.instructions, *example.options)
    )


def collate(examples: Sequence[Example], encodings: Encodings, vectors: Tensor) -> ExampleBatch:
    """Pad some examples into one batch; ``vectors`` are those of the encodings' text ids."""
    n_options = max(len(example.options) for example in examples)
    shape = (len(examples), n_options)
    options = np.zeros(shape, np.int64)
    stands = np.zeros(shape, np.float32)
    target = np.zeros(shape, np.float32)
    mask = np.zeros(shape, np.bool_)
    for i, example in enumerate(examples):
        n = len(example.options)
        options[i, :n] = [encodings.text_id(text) for text in example.options]
        stands[i, :n] = places(_TYPES[example.type], n)
        target[i, :n] = example.target
        mask[i, :n] = True
    present = torch.from_numpy(mask)
    shown = vectors[torch.from_numpy(options)] * present[..., None]
    centres = shown.sum(1, keepdim=True) / present.sum(1)[:, None, None]
    instructions = torch.tensor([encodings.text_id(example.instructions) for example in examples])
    types = torch.tensor([example.type for example in examples])
    return ExampleBatch(
        states=encodings.states([example.state for example in examples]),
        asked=Asked(
            instructions=vectors[instructions][:, None].expand(-1, n_options, -1),
            options=shown,
            types=types[:, None].expand(-1, n_options),
            places=torch.from_numpy(stands),
            centres=centres.expand(-1, n_options, -1),
        ),
        target=torch.from_numpy(target),
        mask=present,
        types=types,
    )


def batches(
    examples: Sequence[Example], encodings: Encodings, size: int, rng: random.Random
) -> Iterator[ExampleBatch]:
    """Batches of examples with about as many options and tokens, in random order."""
    vectors = _vectors(examples, encodings)
    order = list(range(len(examples)))
    rng.shuffle(order)
    parts: list[list[int]] = []
    for start in range(0, len(order), size * _SORTED_TOGETHER):
        near = sorted(
            order[start : start + size * _SORTED_TOGETHER],
            key=lambda i: (len(examples[i].options), encodings.n_tokens(examples[i].state)),
        )
        parts += [near[at : at + size] for at in range(0, len(near), size)]
    rng.shuffle(parts)
    for part in parts:
        yield collate([examples[i] for i in part], encodings, vectors)


def logits_of(
    head: Head, examples: Sequence[Example], encodings: Encodings, size: int = 64
) -> list[npt.NDArray[np.float32]]:
    """The head's logits ``[n_options]`` for each example, in order."""
    vectors = _vectors(examples, encodings)
    order = sorted(
        range(len(examples)),
        key=lambda i: (len(examples[i].options), encodings.n_tokens(examples[i].state)),
    )
    found: list[npt.NDArray[np.float32]] = [np.zeros(0, np.float32)] * len(examples)
    head.eval()
    for start in range(0, len(order), size):
        part = order[start : start + size]
        batch = collate([examples[i] for i in part], encodings, vectors)
        with torch.inference_mode():
            logits = head(batch.states, batch.asked).numpy()
        for i, row in zip(part, logits, strict=True):
            found[i] = row[: len(examples[i].options)]
    return found


def _vectors(examples: Sequence[Example], encodings: Encodings) -> Tensor:
    for example in examples:
        for text in (example.instructions, *example.options):
            encodings.text_id(text)
    return encodings.vectors()
