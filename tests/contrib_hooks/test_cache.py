"""ExactCache over agents and routers of this package and of laya."""

from __future__ import annotations

import asyncio
import copy
import random
import threading
import warnings
from typing import Any

import laya
import pytest
from fakes import (
    QUESTIONS,
    Recorder,
    RecordingNetwork,
    StubAgent,
    make_agent,
    promptly,
    start_thread,
)
from tiny import make_checkpoint

from jevlaya_lab import Router
from jevlaya_lab.contrib_hooks import ExactCache
from jevlaya_lab.system_one.calibration import Calibration
from jevlaya_lab.system_one.errors import InvalidOption

CHOICE = {"t": {"type": "choice", "instructions": "Which?", "criteria": ["aa", "bb"]}}
TURNED = {"t": {"type": "choice", "instructions": "Which?", "criteria": ["bb", "aa"]}}


def forwards(network: RecordingNetwork) -> int:
    return sum(step.startswith("forward") for step in network.steps)


def cached_agent(**options: Any) -> tuple[Any, RecordingNetwork, ExactCache]:
    network, cache = RecordingNetwork(), ExactCache()
    return make_agent(network, hooks=[cache], **options), network, cache


@pytest.mark.parametrize("together", [True, False])
def test_the_second_call_is_a_hit_and_computes_nothing(together):
    agent, network, cache = cached_agent(hooks_concurrent=together)
    plain = make_agent().predict("a b", CHOICE)

    assert [agent.predict("a b", CHOICE) for _ in range(3)] == [plain] * 3
    assert forwards(network) == 1
    assert cache.stats[:4] == (2, 1, 1, 0)
    assert cache.stats.hit_rate == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a b", CHOICE, {}), ("a c", CHOICE, {})),
        (("a b", CHOICE, {}), ("a b", TURNED, {})),
        (("a b", CHOICE, {}), ("a b", CHOICE, {"max_len": 20})),
        (("a b", CHOICE, {}), ("a b", CHOICE, {"head_max_len": 20})),
        (({"a": 1}, CHOICE, {}), ({"a": 1.0}, CHOICE, {})),
        (({"a": 1}, CHOICE, {}), ({"a": True}, CHOICE, {})),
        (({"a": 1, "b": 2}, CHOICE, {}), ({"b": 2, "a": 1}, CHOICE, {})),
        (('{"a": 1}', CHOICE, {}), ({"a": 1}, CHOICE, {})),
        ((["ab", "c"], CHOICE, {}), (["a", "bc"], CHOICE, {})),
        ((0.0, CHOICE, {}), (-0.0, CHOICE, {})),
    ],
)
def test_what_differs_is_never_a_hit(one, other):
    agent, _, cache = cached_agent()
    for state, questions, options in (one, other):
        agent.predict(state, questions, **options)

    assert cache.stats.hits == 0
    assert cache.stats.entries == 2


def test_a_batch_is_a_call_of_its_own():
    agent, network, cache = cached_agent()
    one = agent.predict_batch(["a", "b"], QUESTIONS)
    again = agent.predict_batch(["a", "b"], QUESTIONS)
    agent.predict_batch(["b", "a"], QUESTIONS)

    assert again == one
    assert len(again) == 2
    assert cache.stats.hits == 1
    assert forwards(network) == 2


def test_another_agent_never_gets_an_answer():
    cache = ExactCache()
    for _ in range(5):  # each may get the address of the one before
        make_agent(hooks=[cache]).predict("a", QUESTIONS)

    assert cache.stats.hits == 0
    assert len(cache._tokens._known) <= 4  # numbers of agents that are gone are forgotten


def test_new_temperatures_and_a_new_network_are_noticed():
    agent, _, cache = cached_agent()
    agent.predict("a", QUESTIONS)
    agent.calibration = Calibration(temperature=(2.0, 2.0, 2.0))
    agent.predict("a", QUESTIONS)
    agent.network = RecordingNetwork()
    agent.predict("a", QUESTIONS)

    assert cache.stats.hits == 0


def test_an_agent_with_temperatures_by_language_is_left_alone():
    agent, _, cache = cached_agent(lang_temperatures={"de": {"temperature": [2.0, 2.0, 2.0]}})
    plain = agent.predict("a a", CHOICE)

    assert agent.predict("a a", CHOICE, lang="de") != plain
    assert cache.stats.bypassed == {"language": 2}


def test_results_are_copies():
    agent, _, _ = cached_agent()
    first = agent.predict("a", QUESTIONS)
    kept = copy.deepcopy(first)
    for _ in range(2):
        got = agent.predict("a", QUESTIONS)
        assert got == kept
        got["answers"]["q"]["noul"] = "changed"
    first["answers"].clear()

    assert agent.predict("a", QUESTIONS) == kept


def test_marks_of_one_call_do_not_reach_another():
    agent, _, cache = cached_agent()
    plain = make_agent().predict("a", QUESTIONS)
    marked = agent.predict("a", QUESTIONS, min_confidence=0.9)

    assert "abstention" in marked["answers"]["q"]
    assert agent.predict("a", QUESTIONS) == plain
    assert agent.predict("a", QUESTIONS, min_confidence=0.9) == marked
    assert cache.stats.hits == 2


def test_a_failed_run_stores_nothing():
    network = RecordingNetwork(failing={"forward": LookupError("no")})
    cache = ExactCache()
    agent = make_agent(network, hooks=[cache])
    with pytest.raises(LookupError):
        agent.predict("a", QUESTIONS)
    network.failing.clear()
    agent.predict("a", QUESTIONS)

    assert cache.stats[:3] == (0, 2, 1)
    assert len(cache._asking) == 0


def test_it_holds_what_fits_and_drops_the_least_recently_used():
    cache = ExactCache(2)
    agent = make_agent(hooks=[cache])
    for state in ("a", "b", "a", "c", "a", "b"):
        agent.predict(state, QUESTIONS)

    assert len(cache) == 2
    assert cache.stats.hits == 2
    assert cache.stats.evictions == 2
    cache.clear()
    assert len(cache) == 0


def test_a_long_state_is_left_alone():
    agent, _, cache = cached_agent()
    text = " ".join("ab" * 200)
    plain = make_agent().predict_long(text, QUESTIONS, window=64)
    agent.predict(text, QUESTIONS)

    assert agent.predict_long(text, QUESTIONS, window=64) == plain
    assert cache.stats.bypassed == {"predict_long": 1}


def test_what_a_hook_behind_rewrites_is_not_stored():
    cache = ExactCache()
    rewrite = Recorder(start=lambda ctx: setattr(ctx, "states", ["b"]))
    agent = make_agent(hooks=[cache, rewrite])
    agent.predict("a", QUESTIONS)

    assert cache.stats.changed == 1
    assert len(cache) == 0


def test_an_answer_of_a_hook_ahead_stays():
    cache = ExactCache()
    given = {"model": "x", "answers": {}, "usage": {}}
    ahead = Recorder(start=lambda ctx: ctx.skip([given]))
    agent = make_agent(hooks=[ahead, cache])

    assert agent.predict("a", QUESTIONS) == given
    assert cache.stats.bypassed == {"answered": 1}
    assert len(cache) == 0


def test_values_that_are_not_plain_are_left_to_the_agent():
    agent, _, cache = cached_agent()
    ring: list[Any] = []
    ring.append(ring)
    for state in (object(), ring):
        with pytest.raises(TypeError, match="cannot be written as JSON"):
            agent.predict(state, QUESTIONS)

    assert cache.stats.bypassed == {"value": 1, "nesting": 1}


def test_results_that_cannot_be_copied_are_passed_on():
    cache = ExactCache()
    lock = threading.Lock()
    ahead = Recorder(end=lambda ctx: ctx.results[0].update(lock=lock))
    agent = make_agent(hooks=[ahead, cache])

    assert agent.predict("a", QUESTIONS)["lock"] is lock
    assert cache.stats.bypassed == {"copy": 1}


def test_a_capacity_of_nothing_is_refused():
    with pytest.raises(InvalidOption, match="capacity"):
        ExactCache(0)


# --- routers -----------------------------------------------------------------------------------


def router_with(cache: Any, network: RecordingNetwork, **options: Any) -> Router:
    router = Router(hooks=[cache], **options)
    router.attach("english", make_agent(network))
    router.attach("multilingual", make_agent(network))
    return router


def test_a_router_in_a_batch_computes_duplicates_and_later_calls_are_hits():
    """L-22: all start hooks run before any end hook; L-16: the routing is this call's own."""
    cache, network = ExactCache(), RecordingNetwork()
    router = router_with(cache, network)
    asked = {"state": "a b", "questions": CHOICE, "model": "english"}
    results = router.predict_batch([asked, dict(asked), {**asked, "model": "multilingual"}])

    assert results[0]["answers"] == results[1]["answers"]
    assert cache.stats[:2] == (0, 3)
    assert cache.stats.duplicates == 1
    assert cache.stats.entries == 2
    hit = router.predict("a b", CHOICE)
    assert cache.stats.hits == 1
    assert hit["answers"] == results[0]["answers"]
    assert hit["routing"]["reason"] != results[0]["routing"]["reason"]


def test_one_cache_for_a_router_and_its_agents_keeps_them_apart():
    cache = ExactCache()
    router = Router(hooks=[cache])
    agent = make_agent(hooks=[cache])
    router.attach("english", agent)
    first = router.predict("a", QUESTIONS, model="english")
    own = agent.predict("a", QUESTIONS)

    assert "routing" in first
    assert "routing" not in own
    assert cache.stats.hits == 1


def test_threads_get_only_their_own_answers():
    cache = ExactCache(8)
    agents = [make_agent(hooks=[cache]) for _ in range(2)]
    plain = make_agent()
    texts = [f"{'a' * n} b" for n in range(16)]
    wanted = {text: plain.predict(text, CHOICE) for text in texts}
    wrong: list[str] = []

    def ask(seed: int) -> None:
        dice = random.Random(seed)
        for _ in range(100):
            text = dice.choice(texts)
            if agents[seed % 2].predict(text, CHOICE) != wanted[text]:
                wrong.append(text)

    threads = [start_thread(ask, seed) for seed in range(6)]
    for thread in threads:
        thread.join(60)
    stats = cache.stats

    assert wrong == []
    assert stats.hits + stats.misses == 600
    assert stats.hits > 0
    assert stats.entries <= 8


def test_it_works_inside_a_running_loop():
    agent, _, cache = cached_agent()

    async def ask() -> None:
        await asyncio.gather(*(asyncio.to_thread(agent.predict, "a", QUESTIONS) for _ in range(4)))
        agent.predict("a", QUESTIONS)

    promptly(lambda: asyncio.run(ask()))
    assert cache.stats.hits >= 1


# --- laya --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def laya_agent(tmp_path_factory):
    folder = make_checkpoint(tmp_path_factory.mktemp("cache") / "one")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return laya.Agent(str(folder), device="cpu")


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="laya")
        warnings.filterwarnings("ignore", module="torch")
        yield


def test_an_agent_of_laya_is_served(laya_agent):
    cache = ExactCache()
    calls = [
        lambda **o: laya_agent.predict("a text", CHOICE, **o),
        lambda **o: laya_agent.predict_batch(["a text", "b text"], CHOICE, **o),
        lambda **o: laya_agent.predict("a text", TURNED, **o),
    ]
    for call in calls:
        plain = call()
        assert [call(hooks=[cache]) for _ in range(2)] == [plain] * 2
    assert cache.stats[:3] == (3, 3, 3)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", [2.0] * 3),
        ("temperature_by_options", {"c": 2.0}),
        ("binning_map", {"c": []}),
    ],
)
def test_new_temperatures_of_laya_are_noticed(laya_agent, monkeypatch, name, value):
    cache = ExactCache()
    laya_agent.predict("a text", QUESTIONS, hooks=[cache])
    monkeypatch.setattr(laya_agent, name, value)
    laya_agent.predict("a text", QUESTIONS, hooks=[cache])

    assert cache.stats[:2] == (0, 2)


def test_long_states_of_laya_are_left_alone(laya_agent):
    cache = ExactCache()
    text = "word and other words " * 60
    plain = laya_agent.predict_long(text, CHOICE)
    laya_agent.predict(text, CHOICE, hooks=[cache])
    router = laya.Router(hooks=[cache])
    router.attach("english", laya_agent)
    router.predict(text, CHOICE, model="english")
    for _ in range(2):
        assert laya_agent.predict_long(text, CHOICE, hooks=[cache]) == plain
        assert laya_agent.predict_long("short", CHOICE, hooks=[cache])["usage"]["windows"] == 1
        routed = router.predict_long(text, CHOICE, model="english")
        assert routed["answers"] == plain["answers"]
    assert cache.stats.bypassed == {"predict_long": 6}


def test_a_router_of_laya_is_served(laya_agent):
    cache = ExactCache()
    router = laya.Router(hooks=[cache], hooks_concurrent=False)
    router.attach("english", laya_agent)
    asked = {"state": "a text", "questions": CHOICE, "model": "english"}
    first = router.predict_batch([asked, dict(asked)])
    again = router.predict("a text", CHOICE, model="english")

    assert cache.stats.duplicates == 1
    assert cache.stats.hits == 1
    assert again["answers"] == first[0]["answers"]
    assert again["routing"]["model"] == "english"


def test_under_layas_timeout_it_stands_aside(laya_agent):
    cache = ExactCache()
    for _ in range(2):
        laya_agent.predict("a text", CHOICE, hooks=[cache], hooks_timeout=20)

    assert cache.stats.bypassed == {"caller": 2}


def test_an_agent_of_another_make_is_served_where_it_says_it_has_no_languages():
    cache = ExactCache()
    router = Router(hooks=[cache])
    stub = StubAgent()
    router.attach("english", stub)
    for _ in range(2):
        router.predict("a", QUESTIONS, model="english")

    assert len(stub.calls) == 1
