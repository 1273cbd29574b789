"""LatencyMetrics: what is counted, as records and for Prometheus, in bounded memory."""

from __future__ import annotations

from types import SimpleNamespace

import laya
import pytest
from fakes import (
    QUESTIONS,
    SKIPPED,
    RecordingNetwork,
    StubAgent,
    make_agent,
    start_thread,
)
from prometheus_client.parser import text_string_to_metric_families

from jevlaya_lab import Router
from jevlaya_lab.contrib_hooks import LatencyMetrics
from jevlaya_lab.system_one.errors import InvalidOption


def run(elapsed, model="m", **more):
    facts = {"error": None, "states": ["a"], "router": None, "entry": "predict_batch", **more}
    return SimpleNamespace(elapsed_ms=elapsed, model=model, **facts)


def test_the_times_become_a_histogram():
    metrics = LatencyMetrics([1, 10, 100])
    for elapsed in (0.5, 1.0, 5.0, 50.0, 500.0):
        metrics.on_predict_end(run(elapsed))
    (record,) = metrics.records()

    assert record["n_runs"] == 5
    assert record["mean_ms"] == pytest.approx(111.3)
    assert (record["min_ms"], record["max_ms"]) == (0.5, 500.0)
    assert (record["p50_ms"], record["p95_ms"]) == (10.0, 500.0)
    families = {f.name: f for f in text_string_to_metric_families(metrics.prometheus_text())}
    points = {(s.name, s.labels.get("le")): s.value for s in families["jevlaya_run_ms"].samples}
    ends = ("1.0", "10.0", "100.0", "+Inf")
    assert [points["jevlaya_run_ms_bucket", end] for end in ends] == [2, 3, 4, 5]
    assert points["jevlaya_run_ms_sum", None] == pytest.approx(556.5)
    assert points["jevlaya_run_ms_count", None] == 5


def test_errors_skips_and_states_are_counted():
    metrics = LatencyMetrics()
    network = RecordingNetwork()
    agent = make_agent(network, hooks=[metrics])
    agent.predict_batch(["a", "b"], QUESTIONS)
    agent.predict("a", QUESTIONS, on_predict_start=lambda ctx: ctx.skip([SKIPPED]))
    agent.predict_long("a", QUESTIONS)
    network.failing["forward"] = LookupError("no")
    with pytest.raises(LookupError):
        agent.predict("a", QUESTIONS)
    found = {record["entry"]: record for record in metrics.records()}

    batch = found["predict_batch"]
    counts = [batch[name] for name in ("n_runs", "n_errors", "n_skipped", "n_states")]
    assert counts == [3, 1, 1, 3]
    assert found["predict_long"]["n_runs"] == 1
    assert 'jevlaya_run_errors_total{checkpoint="test",scope="agent",' in metrics.prometheus_text()
    metrics.clear()
    assert metrics.records() == []


def test_memory_is_bounded():
    metrics = LatencyMetrics(max_series=3)
    for i in range(50):
        metrics.on_predict_end(run(1.0, model=f"m{i}"))
    found = {record["checkpoint"]: record["n_runs"] for record in metrics.records()}

    assert found == {"m0": 1, "m1": 1, "m2": 1, "(other)": 47}


def test_names_are_escaped():
    metrics = LatencyMetrics()
    metrics.on_predict_end(run(1.0, model='a"b\\c\nd'))
    (family, *_) = text_string_to_metric_families(metrics.prometheus_text())

    assert family.samples[0].labels["checkpoint"] == 'a"b\\c\nd'


@pytest.mark.parametrize("make", [Router, laya.Router])
@pytest.mark.parametrize("together", [True, False])
def test_routers_of_both_makes_in_threads(make, together):
    metrics = LatencyMetrics()
    router = make(hooks=[metrics], hooks_concurrent=together)
    router.attach("english", StubAgent())

    def ask():
        for _ in range(25):
            router.predict("a", QUESTIONS, model="english")

    threads = [start_thread(ask) for _ in range(4)]
    for thread in threads:
        thread.join(60)
    (record,) = metrics.records()

    assert record["n_runs"] == record["n_states"] == 100
    assert (record["checkpoint"], record["scope"]) == ("english", "router")
    assert record["entry"] == ("predict" if make is Router else "")


def test_a_run_that_has_no_time_is_passed_over():
    metrics = LatencyMetrics()
    metrics.on_predict_end(run(None))

    assert metrics.records() == []


@pytest.mark.parametrize("buckets", [[], [0, 1], [2, 1], [1, float("inf")]])
def test_buckets_must_rise(buckets):
    with pytest.raises(InvalidOption, match="rising"):
        LatencyMetrics(buckets)
