"""The experiments on embedding: what they claim is what they saw, and a broken bound is seen."""

from __future__ import annotations

import _thread
import asyncio
import threading
import time

import numpy as np
import pytest
from fakes import PATIENCE

from jevlaya_lab.embedding.hashing import InlineHashingEmbedding
from jevlaya_lab.embedding.lane import Lane
from jevlaya_lab.embedding.local import BoundedLocalEmbedding
from jevlaya_lab.experiments import ExperimentStopped, embedding_tools, find
from jevlaya_lab.system_one.errors import InvalidOption


class Model:
    """A model that takes a while, in any number of threads."""

    def __init__(self, ms: float = 2.0) -> None:
        self.ms = ms

    def encode(self, texts):
        time.sleep(self.ms / 1e3 * (len(texts) + 1))
        return np.array([[len(text), 1.0, 2.0] for text in texts], np.float32)


def claims(result):
    return {claim.text: claim.held for claim in result.claims}


def held_by_rule(result, rule):
    return [claim.held for claim in result.claims if claim.rule == rule]


def run(name, **parameters):
    return find(f"embedding_{name}").run(progress=False, **parameters)


# --- heartbeat -----------------------------------------------------------------------------------


def test_only_inline_holds_the_loop_up():
    result = run("heartbeat", model=Model(20), n_texts=4, rounds=2)

    assert result.held
    assert result.frame["mode"].tolist() == [
        *("inline", "to_thread", "bounded list", "bounded calls") * 2
    ]
    inline = result.frame[result.frame["mode"] == "inline"]
    assert (inline["max_late_ms"] > 50).all()
    assert inline["on_loop_thread"].all()


def test_a_provider_that_encodes_on_the_loop_is_found_out(monkeypatch):
    async def inline(self, job, mergeable=False):
        return np.asarray(model.encode(list(job)))

    model = None
    original = BoundedLocalEmbedding.__init__

    def keep(self, given, **options):
        nonlocal model
        model = given
        original(self, given, **options)

    monkeypatch.setattr(BoundedLocalEmbedding, "__init__", keep)
    monkeypatch.setattr(Lane, "run", inline)
    result = run("heartbeat", model=Model(20), n_texts=4, rounds=1)

    assert result.held is False
    assert held_by_rule(result, "E-1") == [False, False]


# --- concurrency ---------------------------------------------------------------------------------


def test_the_sweep_has_a_row_per_variant_and_round():
    result = run("concurrency", model=Model, concurrency=[1, 3], n_callers=4, n_calls=2, rounds=2)

    assert held_by_rule(result, "E-2") == [True]
    assert held_by_rule(result, "E-5") == [True]
    assert len(result.frame) == 2 * 2 * 2
    assert set(result.frame["concurrency"]) == {1, 3}
    assert (result.frame["p99_ms"] >= result.frame["p50_ms"]).all()


def test_more_encodes_than_the_limit_are_found_out(monkeypatch):
    real = BoundedLocalEmbedding.__init__

    def generous(self, model, **options):
        options["local_embedding_concurrency"] += 2
        real(self, model, **options)

    monkeypatch.setattr(BoundedLocalEmbedding, "__init__", generous)
    made = lambda: Model(10)  # noqa: E731
    result = run("concurrency", model=made, concurrency=[1], n_callers=6, n_calls=2, rounds=1)

    assert held_by_rule(result, "E-2") == [False]


def test_one_object_cannot_encode_several_at_once():
    with pytest.raises(InvalidOption, match="one object"):
        run("concurrency", model=Model(), concurrency=[1, 2])


# --- cold start ----------------------------------------------------------------------------------


def slow_to_load():
    time.sleep(0.1)
    return Model(1)


def test_lazy_callers_wait_for_one_load_and_preloaded_ones_do_not():
    result = run("cold_start", model=slow_to_load, n_callers=3, rounds=2)

    assert result.held
    assert set(result.frame["n_built"]) == {1}
    first = result.frame[result.frame["wave"] == "first"].groupby("mode")["ms"].min()
    assert first["lazy"] > 100


def test_a_preload_that_loads_nothing_is_found_out(monkeypatch):
    async def nothing(self):
        return None

    seconds = iter([0, 0.05, 0.2])  # of what is not measured, of the lazy one, of the other

    def load():
        time.sleep(next(seconds))
        return Model(1)

    monkeypatch.setattr(BoundedLocalEmbedding, "preload", nothing)
    result = run("cold_start", model=load, n_callers=2, rounds=1)

    assert claims(result)["Preloaded: no first call waits for the load."] is False


# --- timeouts ------------------------------------------------------------------------------------


def test_after_a_storm_everything_is_back():
    result = run("timeouts", n_callers=60, encode_ms=3, permit_timeout_ms=60)

    assert result.held
    assert len(result.outcomes) == 60
    assert set(result.outcomes["outcome"]) == {"answered", "cancelled", "PermitTimeout"}
    assert result.frame["running"].max() <= 2
    assert result.frame["n_ended"].is_monotonic_increasing
    assert [t for t in threading.enumerate() if t.name == "jevlaya-experiment"] == []


def test_with_nobody_impatient_that_claim_cannot_be_told():
    result = run("timeouts", n_callers=4, encode_ms=0, share_impatient=0.0)

    assert result.held is None
    assert held_by_rule(result, "E-8") == [None]
    assert set(result.outcomes["outcome"]) == {"answered"}


def test_a_broken_limit_is_found_out(monkeypatch):
    real = BoundedLocalEmbedding.__init__

    def generous(self, model, **options):
        options["local_embedding_concurrency"] += 3
        real(self, model, **options)

    monkeypatch.setattr(BoundedLocalEmbedding, "__init__", generous)
    result = run("timeouts", n_callers=30, limit=1, encode_ms=5)

    assert held_by_rule(result, "E-2")[0] is False
    assert result.held is False


# --- hashing -------------------------------------------------------------------------------------


def test_short_texts_are_cheaper_inline():
    result = run("hashing", n_words=[5, 200], n_texts=3, rounds=2)

    assert claims(result)["A short text is cheaper inline."] is True
    assert held_by_rule(result, "E-7")[0] is True
    assert len(result.frame) == 2 * 2 * 2


def test_hashing_in_one_piece_is_found_out(monkeypatch):
    async def blocking(self, texts):
        time.sleep(0.05)
        return np.ones((len(texts), 4), np.float32)

    monkeypatch.setattr(InlineHashingEmbedding, "embed", blocking)
    result = run("hashing", n_words=[5], n_texts=2, rounds=1)

    assert held_by_rule(result, "E-7")[2] is False


# --- micro-batching ------------------------------------------------------------------------------


def test_waiting_texts_share_passes():
    result = run("micro_batching", model=Model(2), n_callers=[1, 6], n_calls=2, rounds=1)

    assert result.held
    shared = result.frame[(result.frame["mode"] == "shared") & (result.frame["n_callers"] == 6)]
    assert shared["n_passes"].item() < shared["n_texts"].item()


def test_passes_that_are_not_shared_are_found_out(monkeypatch):
    real = BoundedLocalEmbedding.__init__

    def alone(self, model, **options):
        real(self, model, **{**options, "micro_batching": False})

    monkeypatch.setattr(BoundedLocalEmbedding, "__init__", alone)
    result = run("micro_batching", model=Model(1), n_callers=[4], n_calls=1, rounds=1)

    assert claims(result)["Texts of several callers share passes."] is False


# --- all of them ---------------------------------------------------------------------------------

QUICK = {
    "heartbeat": {"model": Model(1), "n_texts": 2, "rounds": 1},
    "concurrency": {"model": Model, "concurrency": [1], "n_callers": 2, "n_calls": 1, "rounds": 1},
    "cold_start": {"model": Model, "n_callers": 2, "rounds": 1},
    "timeouts": {"n_callers": 5, "encode_ms": 1},
    "hashing": {"n_words": [5], "n_texts": 1, "rounds": 1},
    "micro_batching": {"model": Model(1), "n_callers": [2], "n_calls": 1, "rounds": 1},
}


@pytest.mark.parametrize("name", QUICK)
def test_each_draws_writes_and_says_what_it_ran_with(name, tmp_path):
    result = run(name, seed=3, **QUICK[name])
    path = result.to_csv(tmp_path / "result.csv")

    assert result.seed == 3
    assert path.with_suffix(".schema.json").is_file()
    assert result.figure().to_png()[:4] == b"\x89PNG"
    assert len(result.summary().splitlines()) == 1 + len(result.claims)
    for key, value in QUICK[name].items():
        if key != "model":
            assert result.parameters[key] == value


@pytest.mark.parametrize("name", QUICK)
def test_each_can_be_stopped_and_leaves_no_thread(name):
    def stop(done, total, step):
        raise ExperimentStopped("enough")

    before = set(threading.enumerate())
    with pytest.raises(ExperimentStopped):
        find(f"embedding_{name}").run(progress=stop, **QUICK[name])
    until = time.monotonic() + PATIENCE
    while (left := set(threading.enumerate()) - before) and time.monotonic() < until:
        time.sleep(0.01)
    assert left == set()


@pytest.mark.parametrize("name", ["heartbeat", "concurrency", "cold_start", "micro_batching"])
def test_what_is_no_model_is_refused(name):
    with pytest.raises(InvalidOption, match="is no model"):
        run(name, model=object())


def test_they_run_inside_of_a_running_loop():
    async def main():
        return run("hashing", **QUICK["hashing"])

    assert asyncio.run(main()).name == "embedding_hashing"


def test_a_loop_of_its_own_gives_back_what_happens():
    async def fail():
        raise KeyError("x")

    assert embedding_tools.run_alone(asyncio.sleep(0, 7)) == 7
    with pytest.raises(KeyError, match="x"):
        embedding_tools.run_alone(fail())


def test_an_interrupt_waits_for_the_thread_and_leaves_no_task():
    ended = []

    async def aside():
        try:
            await asyncio.sleep(PATIENCE)
        finally:
            ended.append("aside")

    async def work():
        task = asyncio.ensure_future(aside())
        threading.Timer(0.3, _thread.interrupt_main).start()
        try:
            await asyncio.sleep(PATIENCE)
        finally:
            time.sleep(0.5)  # as long as something native that cannot be cancelled
            ended.append("work")
        await task

    with pytest.raises(KeyboardInterrupt):
        embedding_tools.run_alone(work())

    assert ended == ["work", "aside"]
