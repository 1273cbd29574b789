"""The experiment on eviction: what it measures, and that it sees a Router that evicts otherwise."""

from __future__ import annotations

import pandas as pd
import pytest
from benches import a_router, build_at_once, claim, facts, stop_at
from fakes import make_agent

from jevlaya_lab import Agent, Router
from jevlaya_lab.experiments import ExperimentStopped
from jevlaya_lab.experiments.eviction import run
from jevlaya_lab.experiments.policies import POLICIES
from jevlaya_lab.frames import read_csv
from jevlaya_lab.system_one.errors import InvalidInput
from jevlaya_lab.system_one.eviction import LeastRecentlyUsed
from jevlaya_lab.system_one.pool import CheckpointPool

SMALL = {"pattern": "zipf", "n_requests": 30, "max_loaded": [1, 2, 3], "seed": 1, "progress": False}


@pytest.fixture(autouse=True)
def built(monkeypatch):
    return build_at_once(monkeypatch)


def test_the_frame_has_what_was_measured_beside_what_was_computed(built):
    result = run(**SMALL)

    frame, requests = result.frame, result.requests
    assert result.held is True
    assert len(frame) == 3 * (1 + len(POLICIES))
    assert frame["max_loaded"].dtype == pd.Int64Dtype()
    assert list(frame["policy"].cat.categories) == ["router", *POLICIES]
    measured = frame[frame["policy"] == "router"].set_index("max_loaded")
    assert measured["loads"].sum() == len(built) == requests["loaded"].sum()
    for size, of_one in requests.groupby("max_loaded"):
        names = of_one["checkpoint"].tolist()
        for policy, compute in POLICIES.items():
            of_policy = frame[(frame["max_loaded"] == size) & (frame["policy"] == policy)]
            (row,) = of_policy.to_dict("records")
            computed = compute(names, int(size))
            assert (row["loads"], row["evictions"]) == (computed.loads, computed.evictions)
            assert row["hit_rate"] == pytest.approx(1 - computed.loads / 30)
        assert measured.loc[size, "evictions"] == of_one["evicted"].notna().sum()
        assert (of_one["loading_ms"] > 0).tolist() == of_one["loaded"].tolist()
    assert result.parameters["names"] == ["english", "multilingual", "de", "es", "fr"]
    assert result.seed == 1


def test_equal_seeds_give_equal_counts_and_others_others():
    times = ["loading_ms"]
    one, again, other = (run(**SMALL | {"seed": s}).requests.drop(columns=times) for s in (1, 1, 2))
    pd.testing.assert_frame_equal(one, again)
    assert one["checkpoint"].tolist() != other["checkpoint"].tolist()


def test_languages_go_where_the_router_sends_them():
    result = run(**SMALL | {"pattern": "languages", "n_requests": 200, "max_loaded": [2]})

    sent = result.requests.groupby("language")["checkpoint"].unique()
    assert sent["en"].tolist() == ["english"]
    assert sent["de"].tolist() == ["de"]
    assert sent["ko"].tolist() == ["multilingual"]


def test_a_router_that_evicts_the_oldest_load_is_found_out(monkeypatch):
    def used(self, name):
        self._names.setdefault(name)

    monkeypatch.setattr(LeastRecentlyUsed, "used", used)
    result = run(**SMALL)

    assert result.held is False
    found = claim(result, "L-32", "least recently used")
    assert found.held is False
    assert "first difference at max_loaded=2" in found.evidence
    assert claim(result, "", "Belady").held is True


def test_a_router_that_holds_too_many_is_found_out(monkeypatch):
    monkeypatch.setattr(CheckpointPool, "_evict", lambda self, keep=None: [])
    result = run(**SMALL)

    assert claim(result, "L-32", "max_loaded").held is False
    assert claim(result, "L-31").held is None
    assert claim(result, "", "Belady").held is False  # with too little loading for its room


def test_events_in_the_wrong_order_are_found_out(monkeypatch):
    def announce(self, loaded):
        ctx = self._context("load", loaded.name, loaded.began, loaded.elapsed_ms)
        gone = [self._context("evict", name, 0.0, 0.0) for name in loaded.evicted]
        self._announce([ctx, *gone])

    monkeypatch.setattr(Router, "_announce_load", announce)
    assert claim(run(**SMALL), "L-31").held is False


def test_a_given_router_lends_its_checkpoints_and_stays_as_it_is(built, tmp_path):
    router = a_router()
    router.register("papers", "embedded")
    router.register("far", "org/on-a-hub")
    before = facts(router)

    result = run(router, **SMALL)

    assert facts(router) == before
    assert result.parameters["names"] == ["english", "multilingual", "typed-decisions", "papers"]
    assert result.held is True


def test_a_stopped_experiment_leaves_nothing_loaded(built):
    router, pools = a_router(), []
    before = facts(router)
    init = CheckpointPool.__init__

    def kept(self, *args, **kwargs):
        init(self, *args, **kwargs)
        pools.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CheckpointPool, "__init__", kept)
        with pytest.raises(ExperimentStopped):
            run(router, **SMALL | {"progress": stop_at(20)})
    assert facts(router) == before
    assert 0 < len(built) < 20
    assert [pool.loaded for pool in pools] == [[]] * len(pools)


def test_progress_hears_every_request_and_the_end():
    heard = []
    run(**SMALL | {"progress": lambda *said: heard.append(said)})
    assert heard[0] == (0, 90, "max_loaded=1, request 0")
    assert heard[-1] == (90, 90, "")
    assert [done for done, _, _ in heard] == list(range(91))


@pytest.mark.parametrize("wrong", [make_agent(), Router({}).load])
def test_what_is_no_router_is_refused(wrong, built):
    with pytest.raises(InvalidInput, match=r"Router|predict_batch"):
        run(wrong, **SMALL)
    assert built == []


def test_a_router_that_cannot_load_here_is_refused_before_anything_is_loaded(built):
    router = Router("hub")
    with pytest.raises(InvalidInput, match="at least two checkpoints on this machine; this one"):
        run(router, **SMALL)
    router.register("english", "embedded")
    router.register("papers", "embedded")
    run(router, **SMALL)
    built.clear()
    with pytest.raises(InvalidInput, match=r"sends '..' to 'multilingual'"):
        run(router, **SMALL | {"pattern": "languages"})
    assert built == []


def test_the_picture_has_a_line_per_policy_and_the_files_hold_all(tmp_path):
    result = run(**SMALL)

    layout = result.layout()
    assert "zipf, 30 requests, seed 1" in layout.alt
    assert all(policy in layout.alt for policy in ("router", *POLICIES))
    pd.testing.assert_frame_equal(read_csv(result.to_csv(tmp_path / "a.csv")), result.frame)
    assert "L-32" in result.summary()


@pytest.mark.checkpoint
def test_real_loads_take_time():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Router, "_build", lambda self, name, source: Agent(source.repo))
        result = run(pattern="round-robin", n_requests=3, max_loaded=[1], progress=False)
    assert result.frame["loads"].tolist() == [3] * 5
    assert (result.requests["loading_ms"] > 1).all()
