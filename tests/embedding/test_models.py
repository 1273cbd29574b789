"""Real models: the embedded encoder, sentence-transformers, and weights that are shared."""

from __future__ import annotations

import asyncio
import hashlib
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from embedding_fakes import run, until

from jevlaya_lab import Agent, EmbeddingGenerator
from jevlaya_lab.embedding import BoundedLocalEmbedding
from jevlaya_lab.embedding.embedded_model import EmbeddedModel
from jevlaya_lab.embedding.errors import ModelLoadFailed
from jevlaya_lab.embedding.local_models import Row
from jevlaya_lab.embedding.local_sources import EMBEDDED, EMBEDDED_REVISION
from jevlaya_lab.embedding.sentence_transformer import SentenceTransformerModel

pytestmark = pytest.mark.checkpoint

TEXTS = [
    "I was charged twice, please send the money back.",
    "short",
    "A longer text about the weather, which was fine for most of the week. " * 4,
    "naïve 日本語 😀",
    "the end of it all " * 200,
    "x",
]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of sentence-transformers and what it loads
        yield


@pytest.fixture(scope="module")
def direct() -> Any:
    """sentence-transformers itself, on the same files."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from sentence_transformers import SentenceTransformer

        return SentenceTransformer(str(EMBEDDED), device="cpu")


@pytest.fixture(scope="module")
def expected(direct: Any) -> Any:
    return direct.encode(TEXTS)


def model_of(strategy: BoundedLocalEmbedding) -> Any:
    return strategy._lane._work._replicas[0]  # type: ignore[attr-defined]


def test_the_embedded_encoder_serves_offline_by_default(
    expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E-5: the numbers are those of sentence-transformers on the same weights, called directly."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    with EmbeddingGenerator(device="cpu") as generator:
        vectors = generator.generate_batch_sync(TEXTS)
        np.testing.assert_allclose(generator.generate_sync(TEXTS[0]), expected[0], atol=1e-5)

    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_many_texts_come_back_in_order(direct: Any) -> None:
    """E-5: sorted by length inside, in the caller's order outside."""
    # Characters and tokens order them differently, so that they are sorted twice.
    texts = [f"{'many words ' * (i % 7)}{'日本語' * (i % 4)}number {i}" for i in range(150)]

    with EmbeddingGenerator(device="cpu", tokens_per_pass=256) as generator:
        vectors = generator.generate_batch_sync(texts)

    np.testing.assert_allclose(vectors, direct.encode(texts), atol=1e-5)


def test_what_the_identity_says_of_the_embedded_encoder_is_so() -> None:
    """E-10: known before it is loaded, but for nothing; the revision is the file's digest."""
    generator = EmbeddingGenerator(device="cpu")
    before = generator.identity
    generator.preload_sync()
    after = generator.identity
    generator.close()

    digest = hashlib.sha256((EMBEDDED / "model.safetensors").read_bytes()).hexdigest()
    assert f"sha256:{digest[:16]}" == EMBEDDED_REVISION
    assert (after.dimension, after.max_length, after.pooling) == (384, 256, "mean")
    assert (before.model, before.revision) == (after.model, after.revision)


@pytest.mark.parametrize("model", ["embedded", str(EMBEDDED)])
def test_truncation_is_counted(model: str) -> None:
    """E-12: how many texts the model read only the beginning of."""
    with EmbeddingGenerator("local_transformer", model, device="cpu") as generator:
        generator.generate_batch_sync(TEXTS)
        generator.generate_sync("word " * 300)
        generator.generate_sync("word " * 200)

        assert generator.metrics.snapshot()["truncated_total"] == 2


def test_an_agent_and_a_generator_share_the_weights(expected: Any) -> None:
    """E-2: one copy in memory, one tokenizer each; and the same identity as the default's."""
    agent = Agent(device="cpu")

    with EmbeddingGenerator("local_transformer", agent, local_embedding_concurrency=2) as generator:
        vectors = generator.generate_batch_sync(TEXTS)
        work = generator.strategy._lane._work  # type: ignore[attr-defined]
        identity = generator.identity

    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    replicas: list[EmbeddedModel] = work._replicas
    assert len(replicas) == 2
    assert all(replica.encoder is agent.network.encoder for replica in replicas)
    tokenizers = [agent.network.tokenizer, *(replica._tokenizer for replica in replicas)]
    assert len({id(tokenizer) for tokenizer in tokenizers}) == 3
    default = EmbeddingGenerator(device="cpu")
    default.preload_sync()
    assert identity.fingerprint == default.identity.fingerprint
    default.close()


def test_agent_and_generator_at_once_disturb_neither(expected: Any) -> None:
    """E-2: answers and vectors are what each gives alone."""
    agent = Agent(device="cpu")
    question = {"q": {"type": "noul", "instructions": "Does the customer ask for money?"}}
    alone = agent.predict_batch(TEXTS, question)
    found: list[Any] = []
    with EmbeddingGenerator("local_transformer", agent) as generator:
        generator.preload_sync()
        thread = threading.Thread(
            target=lambda: found.extend(agent.predict_batch(TEXTS, question) for _ in range(3))
        )
        thread.start()
        for _ in range(3):
            vectors = generator.generate_batch_sync(TEXTS)
            np.testing.assert_allclose(vectors, expected, atol=1e-5)
        thread.join()

    for answers in found:
        for one, other in zip(answers, alone, strict=True):
            assert one["answers"]["q"]["noul"] == pytest.approx(other["answers"]["q"]["noul"])


def test_any_sentence_transformers_model_by_folder(expected: Any, direct: Any) -> None:
    """E-5, E-10: with its own facts in the identity, and one thread at a time per replica."""
    with EmbeddingGenerator(
        "local_transformer", str(EMBEDDED), device="cpu", local_embedding_concurrency=2
    ) as generator:
        np.testing.assert_allclose(generator.generate_batch_sync(TEXTS), expected, atol=1e-5)
        work = generator.strategy._lane._work  # type: ignore[attr-defined]
        identity = generator.identity

    one, two = (replica._model for replica in work._replicas)
    assert one.tokenizer is not two.tokenizer
    shared = dict(two.named_parameters())
    assert all(p.data_ptr() == shared[name].data_ptr() for name, p in one.named_parameters())
    assert (identity.pooling, identity.normalised, identity.max_length) == ("mean", True, 256)
    assert identity.revision == EMBEDDED_REVISION


def test_a_model_object_of_the_caller_is_left_alone(expected: Any, direct: Any) -> None:
    """E-2: its weights are shared, its tokenizer is not."""
    strategy = BoundedLocalEmbedding(direct, name="mine", revision="1")

    np.testing.assert_allclose(run(strategy.embed(TEXTS)), expected, atol=1e-5)

    inner = model_of(strategy)._model
    assert inner is not direct
    assert inner.tokenizer is not direct.tokenizer
    assert next(inner.parameters()).data_ptr() == next(direct.parameters()).data_ptr()
    assert (strategy.identity.model, strategy.identity.revision) == ("mine", "1")


def test_a_prompt_is_part_of_text_and_identity(direct: Any) -> None:
    """E-10: for the embedded encoder and for sentence-transformers alike."""
    prompt = "query: "
    expected = direct.encode([prompt + text for text in TEXTS[:2]])
    for model in ("embedded", str(EMBEDDED)):
        with EmbeddingGenerator(
            "local_transformer", model, device="cpu", prompt=prompt
        ) as generator:
            vectors = generator.generate_batch_sync(TEXTS[:2])
            assert generator.identity.prompt == prompt
        np.testing.assert_allclose(vectors, expected, atol=1e-5)


def test_a_name_that_is_not_there_is_a_load_failure(tmp_path: Path) -> None:
    """E-9: and not an empty result."""
    generator = EmbeddingGenerator("local_transformer", str(tmp_path), device="cpu")

    with pytest.raises(ModelLoadFailed) as caught:
        generator.generate_sync("text")
    assert caught.value.__cause__ is not None


def test_a_name_goes_to_the_hub_as_ever(direct: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """E-5: name, revision, token and device are handed on, and a checkpoint's code is not run."""
    asked: dict[str, Any] = {}

    def load(name: str, **options: Any) -> Any:
        asked.update(options, name=name)
        return direct

    monkeypatch.setattr("sentence_transformers.SentenceTransformer", load)
    options = {"revision": "v2", "token": "hf_secret", "device": "cpu"}
    generator = EmbeddingGenerator("local_transformer", "org/model", **options)
    generator.preload_sync()
    shown = f"{generator!r} {generator.explain()} {generator.identity}"
    generator.close()

    assert asked == {**options, "name": "org/model", "trust_remote_code": False}
    assert (generator.identity.model, generator.identity.revision) == ("org/model", "v2")
    assert "hf_secret" not in shown


def test_half_precision_on_a_cpu(direct: Any, expected: Any, tmp_path: Path) -> None:
    """E-12: a file in half precision is upcast, an object in half precision is refused."""
    import copy

    half = copy.deepcopy(direct).half()
    half.save(str(tmp_path / "half"))
    refused = EmbeddingGenerator("local_transformer", half)
    with pytest.raises(ModelLoadFailed, match="float16 weights on a CPU"):
        refused.generate_sync("text")

    strategy = BoundedLocalEmbedding(str(tmp_path / "half"), device="cpu")
    np.testing.assert_allclose(run(strategy.embed(TEXTS)), expected, atol=2e-3)
    assert {p.dtype for p in model_of(strategy)._model.parameters()} == {torch.float32}


def test_a_row_is_computed_again_in_float32(direct: Any, expected: Any) -> None:
    """E-12: by a copy that is made at the first need, where the model itself has less."""
    model = SentenceTransformerModel(direct, name="m", revision=None, prompt=None)
    model._exact = None  # as it is for weights in half precision

    vector = model.encode_exactly(Row(TEXTS[0], 12))

    np.testing.assert_allclose(vector.numpy()[0], expected[0], atol=1e-5)
    assert model._exact is not direct
    assert next(model._exact.parameters()).dtype == torch.float32


def test_torch_threads_are_set_for_encodes_and_nobody_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """E-2: explicit threads per encode; the caller's threads and later ones keep theirs."""
    seen: list[int] = []
    encode = EmbeddedModel.encode

    def noted(self: EmbeddedModel, rows: Any) -> Any:
        seen.append(torch.get_num_threads())
        return encode(self, rows)

    monkeypatch.setattr(EmbeddedModel, "encode", noted)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with EmbeddingGenerator(device="cpu", torch_threads=1) as generator:
            generator.preload_sync()
            seen.clear()
            generator.generate_sync("text")
            generator.generate_sync("text")
        later: list[int] = []
        thread = threading.Thread(target=lambda: later.append(torch.get_num_threads()))
        thread.start()
        thread.join()
        assert seen == [1, 1]
        assert (torch.get_num_threads(), later) == (2, [2])
    finally:
        torch.set_num_threads(before)


def test_cancelling_a_long_list_frees_the_model_soon() -> None:
    """E-8: after the forward pass under way, not after the list."""

    async def scenario() -> int:
        strategy = BoundedLocalEmbedding(device="cpu", tokens_per_pass=512)
        await strategy.preload()
        call = asyncio.ensure_future(strategy.embed(["many words of a text " * 10] * 2000))
        await until(lambda: strategy._lane.running == 1)
        call.cancel()
        await asyncio.wait({call})
        await until(lambda: strategy._lane.free == 1)
        await strategy.aclose()
        return strategy.metrics.snapshot()["encode_ms"]["count"]

    assert run(scenario()) == 1
