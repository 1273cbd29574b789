"""Training itself, on a handful of texts and the encoder that comes with the package."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch

from jevlaya_lab.system_one.checkpoint import EMBEDDED, read_checkpoint
from jevlaya_lab.system_one.models import Budget
from jevlaya_lab.system_one.models.bi_encoder import BiEncoder
from jevlaya_lab.system_one.models.heads import HEAD_KINDS, build_head
from jevlaya_lab.system_one.questions import prepare
from jevlaya_lab.training.batches import add_texts, batches, logits_of
from jevlaya_lab.training.data import SETS
from jevlaya_lab.training.encodings import Encodings
from jevlaya_lab.training.examples import Example
from jevlaya_lab.training.recipe import Settings, fit_temperatures, loss_of, train_head

pytestmark = pytest.mark.checkpoint

TOPICS = ("cooking", "sailing", "taxes")
EXAMPLES = [
    Example(f"{word} number {i}", 0, "What is it?", TOPICS, tuple(float(j == k) for j in range(3)))
    for i in range(4)
    for k, word in enumerate(("keel", "invoice", "soup"))
] + [
    Example("a loud shout", 1, "How loud?", ("silent", "loud"), (0.0, 1.0)),
    Example("soup", 2, "Is it about food?", ("false: no", "true: yes"), (0.0, 1.0)),
]


@pytest.fixture(scope="module")
def network() -> BiEncoder:
    checkpoint = read_checkpoint("embedded")
    return BiEncoder.from_folder(checkpoint.folder, checkpoint.config)


@pytest.fixture(scope="module")
def encodings(network: BiEncoder) -> Encodings:
    made = Encodings(network.encoder, network.tokenizer, "test", 32, None)
    add_texts(EXAMPLES, made)
    return made


@pytest.mark.parametrize("kind", sorted(HEAD_KINDS))
def test_training_lowers_the_loss_and_a_seed_repeats_it(kind: str, encodings: Encodings) -> None:
    settings = Settings(batch_size=8)

    def run() -> list[float]:
        torch.manual_seed(5)
        head = build_head({"kind": kind, "width": 384})
        return train_head(head, [EXAMPLES] * 8, encodings, settings)

    losses = run()
    assert losses[-1] < losses[0] / 2
    assert run() == pytest.approx(losses, rel=1e-3)


def test_padding_options_get_no_share_of_the_loss(encodings: Encodings) -> None:
    head = build_head({"kind": "pooled", "width": 384})
    [batch] = batches(EXAMPLES, encodings, 99, random.Random(0))
    logits = head(batch.states, batch.asked)
    assert not batch.mask.all()
    changed = torch.where(batch.mask, logits, torch.full_like(logits, 50.0))
    assert loss_of(changed, batch).item() == pytest.approx(loss_of(logits, batch).item(), rel=1e-5)


def test_score_questions_pay_for_distance(encodings: Encodings) -> None:
    levels = ("none", "little", "much")
    near_far = [Example("soup", 1, "How much?", levels, (1.0, 0.0, 0.0))]
    add_texts(near_far, encodings)
    [batch] = batches(near_far, encodings, 9, random.Random(0))
    near = loss_of(torch.tensor([[0.0, 2.0, 0.0]]), batch)
    far = loss_of(torch.tensor([[0.0, 0.0, 2.0]]), batch)
    assert far > near


def test_training_and_runtime_see_the_same_logits(network: BiEncoder, encodings: Encodings) -> None:
    trained = logits_of(network.head, EXAMPLES[:3], encodings)
    questions = {"q": {"type": "choice", "instructions": "What is it?", "criteria": list(TOPICS)}}
    prepared = network.prepare(prepare(questions), Budget(256, 64))
    states = [
        network.encode_state(example.state, keep_end=False, prepared=prepared)
        for example in EXAMPLES[:3]
    ]
    served = network.forward(network.collate(states, prepared), prepared).options
    for a, [b] in zip(trained, served, strict=True):
        np.testing.assert_allclose(a, b, atol=0.02)


def test_encodings_survive_on_disk(network: BiEncoder, tmp_path: Path) -> None:
    def texts() -> Encodings:
        return Encodings(network.encoder, network.tokenizer, "key", 32, tmp_path)

    first = texts()
    first.add(["one text", "another, longer text"])
    first.add(["a third"])
    again = texts()
    again.add(["a third", "one text"])
    names = ["a third", "one text", "another, longer text"]
    np.testing.assert_array_equal(first.states(names).tokens, again.states(names).tokens)
    assert sum(file.stat().st_size for file in tmp_path.glob("*.f16")) == 2 * 384 * sum(
        again.n_tokens(name) for name in names
    )


def test_temperatures_are_fitted_by_type_and_bucket(encodings: Encodings) -> None:
    head = build_head({"kind": "pooled", "width": 384})
    temperature, by_options = fit_temperatures(head, EXAMPLES * 30, encodings)
    assert len(temperature) == 3
    assert all(0.5 <= t <= 5 for t in temperature)
    assert set(by_options) == {"choice:3-5"}


def test_the_embedded_checkpoint_says_how_it_was_made() -> None:
    config = read_checkpoint("embedded").config
    assert set(config["training"]["rows"]) < set(SETS)
    assert all(0.5 <= t <= 5 for t in config["temperature_by_options"].values())
    card = (EMBEDDED / "README.md").read_text(encoding="utf-8")
    for name in SETS:
        assert f"| {name} |" in card
    assert "held-out question" in card
