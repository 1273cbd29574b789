"""What is counted and timed, in all the forms in which it is handed out."""

from __future__ import annotations

import asyncio
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from embedding_fakes import FakeModel, run, until
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from jevlaya_lab.embedding import (
    BoundedLocalEmbedding,
    EmbeddingGenerator,
    prometheus_registry,
    prometheus_text,
)
from jevlaya_lab.embedding.errors import EncodeFailed, EncodeTimeout, QueueFull, Where
from jevlaya_lab.embedding.metrics import (
    BUCKETS_MS,
    HELP,
    Metrics,
    gpu_memory_bytes,
    gpu_utilisation_percent,
)

SEED = (
    "queue_wait_ms",
    "encode_ms",
    "concurrency_inflight",
    "semaphore_waiters",
    "model_load_ms",
    "error_total",
    "timeout_total",
)
"""The metrics that the seed asks for."""


def test_the_metrics_of_the_seed_are_all_there() -> None:
    """E-11: of every provider, before and after its first call."""
    for generator in (
        EmbeddingGenerator("hashing"),
        EmbeddingGenerator(BoundedLocalEmbedding(FakeModel())),
        EmbeddingGenerator("remote", "m", api_key="", base_url="http://127.0.0.1:9/v1"),
    ):
        assert set(SEED) <= set(generator.metrics.snapshot())
        assert set(generator.metrics.snapshot()) - {"provider", "model"} <= set(HELP)


def test_gauges_show_what_runs_and_what_waits_now() -> None:
    """E-11: concurrency_inflight and semaphore_waiters."""
    model = FakeModel()

    async def scenario() -> None:
        strategy = BoundedLocalEmbedding(model)
        await strategy.preload()
        model.hold()
        calls = [asyncio.ensure_future(strategy.embed(["text"])) for _ in range(4)]
        await until(lambda: model.running == 1 and strategy._lane.waiting == 3)
        during = strategy.metrics.snapshot()
        assert (during["concurrency_inflight"], during["semaphore_waiters"]) == (1, 3)
        model.gate.set()
        await asyncio.gather(*calls)
        after = strategy.metrics.snapshot()
        assert (after["concurrency_inflight"], after["semaphore_waiters"]) == (0, 0)

    run(scenario())


def test_waiting_and_encoding_are_timed_apart() -> None:
    """E-11: whether most of the time goes into the queue or into the model."""
    model = FakeModel()

    async def scenario() -> dict[str, Any]:
        strategy = BoundedLocalEmbedding(model)
        await strategy.preload()
        model.hold()
        calls = [asyncio.ensure_future(strategy.embed(["text"])) for _ in range(2)]
        await until(lambda: model.running == 1 and strategy._lane.waiting == 1)
        await asyncio.sleep(0.05)  # the time that is measured
        model.gate.set()
        await asyncio.gather(*calls)
        return strategy.metrics.snapshot()

    snapshot = run(scenario())

    assert snapshot["queue_wait_ms"]["count"] == snapshot["encode_ms"]["count"] == 2
    assert snapshot["queue_wait_ms"]["max"] >= 50  # the second call's
    assert snapshot["encode_ms"]["max"] >= 50  # the first call's
    assert snapshot["encode_ms"]["p50"] is not None
    assert snapshot["model_load_ms"]["count"] == 1
    assert snapshot["texts_total"] == 2


def test_failures_are_counted_by_kind() -> None:
    """E-11: error_total and timeout_total."""
    model = FakeModel()
    model.failing = {"bad": RuntimeError()}

    async def scenario() -> dict[str, Any]:
        strategy = BoundedLocalEmbedding(model, encode_timeout=0.3, max_queue=0)
        await strategy.preload()
        for _ in range(3):
            with pytest.raises(EncodeFailed):
                await strategy.embed(["bad"])
        model.hold()
        with pytest.raises(EncodeTimeout):
            await strategy.embed(["slow"])
        with pytest.raises(QueueFull):
            await strategy.embed(["full"])
        model.gate.set()
        return strategy.metrics.snapshot()

    snapshot = run(scenario())

    assert snapshot["error_total"] == {"EncodeFailed": 3, "EncodeTimeout": 1, "QueueFull": 1}
    assert snapshot["timeout_total"] == {"EncodeTimeout": 1}


def filled() -> Metrics:
    metrics = Metrics(Where("remote:host", 'a "quoted" \\ model\nname', "network"))
    for milliseconds in (0.05, 3.0, 3.0, 250.0, 1e9):
        metrics.observe("encode_ms", milliseconds)
    metrics.count("texts_total", 7)
    metrics.error(QueueFull("full"))
    metrics.error(EncodeTimeout("late"))
    metrics.gauge("semaphore_waiters", lambda: 2)
    metrics.gauge("gpu_memory_bytes", lambda: None)
    return metrics


def test_records_are_plain_rows() -> None:
    """E-11: what a table is made of; nothing here imports pandas."""
    rows = filled().records()

    assert {tuple(row) for row in rows} == {("provider", "model", "metric", "label", "value")}
    found = {(row["metric"], row["label"]): row["value"] for row in rows}
    assert found["encode_ms", "count"] == 5
    assert found["encode_ms", "p50"] == 3.0
    assert found["error_total", "QueueFull"] == 1
    assert found["queue_wait_ms", "mean"] is None
    assert found["texts_total", None] == 7
    assert ("gpu_memory_bytes", None) not in found


def parsed(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_prometheus_reads_the_text() -> None:
    """E-11: by the parser of its own client, labels escaped, buckets cumulative."""
    other = Metrics(Where("hashing", "h", "event loop"))

    found = parsed(prometheus_text(filled(), other))

    labels = (("model", 'a "quoted" \\ model\nname'), ("provider", "remote:host"))
    prefix = "jevlaya_embedding_"
    assert found[prefix + "texts_total", labels] == 7
    assert found[prefix + "error_total", (("error", "QueueFull"), *labels)] == 1
    assert found[prefix + "timeout_total", (("error", "EncodeTimeout"), *labels)] == 1
    assert found[prefix + "semaphore_waiters", labels] == 2
    assert found[prefix + "encode_ms_count", labels] == 5
    assert found[prefix + "encode_ms_sum", labels] == pytest.approx(256.05 + 1e9)
    buckets = [
        found[prefix + "encode_ms_bucket", (("le", str(float(end))), *labels)] for end in BUCKETS_MS
    ]
    assert buckets == sorted(buckets)
    assert buckets[0] == 1
    assert buckets[-1] == 4
    assert found[prefix + "encode_ms_bucket", (("le", "+Inf"), *labels)] == 5
    assert found[prefix + "texts_total", (("model", "h"), ("provider", "hashing"))] == 0


def test_the_registry_says_the_same_and_is_its_own() -> None:
    """E-11: metrics of prometheus_client, not in the process-wide registry, read at the scrape."""
    metrics = filled()
    registry = prometheus_registry(metrics)
    metrics.count("texts_total", 1)

    found = parsed(generate_latest(registry).decode())

    assert found == parsed(prometheus_text(metrics))


def test_many_threads_lose_no_count() -> None:
    """E-11: counters are exact."""
    metrics = Metrics(Where("p", "m", "cpu"))

    def count() -> None:
        for _ in range(5000):
            metrics.count("texts_total")
            metrics.observe("encode_ms", 1.0)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    snapshot = metrics.snapshot()
    assert (snapshot["texts_total"], snapshot["encode_ms"]["count"]) == (20_000, 20_000)
    assert snapshot["encode_ms"]["mean"] == 1.0


def test_a_gpu_is_asked_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """E-11: memory and utilisation; left out on a CPU, and where the driver does not tell."""

    def silent(device: str) -> int:
        raise ModuleNotFoundError("pynvml does not seem to be installed")

    cuda = SimpleNamespace(memory_allocated=lambda device: 123, utilization=lambda device: 45)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))

    assert gpu_memory_bytes("cuda:0") == 123.0
    assert gpu_utilisation_percent("cuda:0") == 45.0
    assert gpu_memory_bytes("cpu") is None
    assert gpu_utilisation_percent("cpu") is None
    cuda.utilization = silent
    assert gpu_utilisation_percent("cuda:0") is None
