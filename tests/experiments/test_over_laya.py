"""The experiments on hooks, eviction, concurrency and failures over the objects of ``laya``."""

from __future__ import annotations

import warnings

import laya
import laya.agent
import laya.hooks
import pytest
from benches import Idle, claim, stop_at
from tiny import make_checkpoint

from jevlaya_lab.experiments import ExperimentStopped, find

QUICK = {
    "hook_order": {"installed": 1, "per_call": 1},
    "eviction": {"n_requests": 12, "max_loaded": [1, 2], "pattern": "bursty"},
    "concurrency": {"threads": [2], "requests": 3},
    "failure": {"n_requests": 3},
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("checkpoints")
    return {
        name: str(make_checkpoint(root / name, seed=i))
        for i, name in enumerate(("english", "multilingual", "papers"))
    }


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.fixture
def router(folders):
    return laya.Router(folders, device="cpu", default="english", hooks=[Idle()])


@pytest.fixture
def agent(folders):
    return laya.agent.Agent(folders["english"], device="cpu", hooks=[Idle()])


def facts(target):
    return (
        *(list(target.hooks), target.hooks_concurrent, getattr(target, "loaded", None)),
        *(dict(getattr(target, "models", {})), sorted(vars(target)), laya.hooks.default_hooks()),
    )


@pytest.mark.parametrize("name", QUICK)
def test_a_router_of_laya_keeps_the_rules_and_stays_as_it_is(name, router):
    router.load("english")
    before = facts(router)
    result = find(name).run(router, **QUICK[name], progress=False)

    assert facts(router) == before
    assert result.parameters["agent"] == "laya.Router"
    broken = [each for each in result.claims if each.held is False]
    # There a failing on_evict hook keeps all from hearing of the load.
    assert [each.text.split()[:6] for each in broken] == (
        [["A", "hook", "that", "fails", "at", "on_evict"]] if name == "hook_order" else []
    )


@pytest.mark.parametrize("name", [each for each in QUICK if each != "eviction"])
def test_an_agent_of_laya_keeps_the_rules_and_stays_as_it_is(name, agent):
    before = facts(agent)
    result = find(name).run(agent, **QUICK[name], progress=False)

    assert facts(agent) == before
    assert all(each.held is not False for each in result.claims)
    assert any(each.held for each in result.claims)


@pytest.mark.parametrize("name", QUICK)
def test_a_stopped_experiment_leaves_laya_as_it_was(name, router):
    before = facts(router)
    with pytest.raises(ExperimentStopped):
        find(name).run(router, **QUICK[name], progress=stop_at(1))
    assert facts(router) == before


def test_another_order_of_evictions_in_laya_is_found_out(router, monkeypatch):
    def touch(self, key):
        with self._lock:
            if key not in self._order:
                self._order.append(key)

    monkeypatch.setattr(laya.Router, "_touch", touch)
    result = find("eviction").run(
        router, pattern="zipf", n_requests=20, max_loaded=[2], progress=False
    )
    assert claim(result, "L-32", "least recently used").held is False


def test_what_needs_a_hub_is_left_out(router):
    result = find("eviction").run(router, **QUICK["eviction"], progress=False)
    assert result.parameters["names"] == ["english", "multilingual", "papers"]
