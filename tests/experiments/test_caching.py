"""Caching: what is served from memory, and that each claim notices when the runtime breaks it."""

from __future__ import annotations

import copy

import pytest
from experiment_fakes import InstantRouter, claim, routed
from fakes import make_agent

from jevlaya_lab import Choice, Router
from jevlaya_lab.contrib_hooks import ExactCache
from jevlaya_lab.experiments import caching, whom
from jevlaya_lab.system_one import answering
from jevlaya_lab.system_one import router as router_module
from jevlaya_lab.system_one.errors import InvalidInput


class TextCache:
    """Knows a state by its text alone, and keeps the results as they are."""

    def __init__(self):
        self.kept = {}

    def on_predict_start(self, ctx):
        ctx.skip(copy.deepcopy(self.kept.get(str(ctx.states))))

    def on_predict_end(self, ctx):
        self.kept[str(ctx.states)] = copy.deepcopy(ctx.results)


class Never:
    """Serves nothing."""

    def on_predict_start(self, ctx):
        pass


@pytest.fixture
def own(monkeypatch):
    """``agent=None``, with checkpoints that answer at once."""
    monkeypatch.setattr(whom, "Router", InstantRouter)


def run(agent=None, **options):
    return caching.run(agent, **{"n": 4, "progress": False, **options})


def test_everything_that_an_earlier_call_asked_is_a_hit_and_costs_no_pass(own):
    result = run(copies=3)
    counts = result.frame.groupby(["round", "outcome"], observed=True).size().to_dict()

    assert counts == {
        ("loop", "miss"): 4,
        ("loop", "hit"): 8,
        ("loop again", "hit"): 12,
        ("batch", "miss"): 4,
        ("batch", "duplicate"): 8,
        ("batch again", "hit"): 12,
        ("rebuilt", "miss"): 4,
        ("rebuilt", "hit"): 8,
    }
    assert result.held is True
    hits = result.frame[result.frame["outcome"] == "hit"]
    assert not hits["computed"].any()
    assert (hits["call_passes"] == 0).all()
    assert set(result.frame["text"]) == set(range(8))


def test_a_hit_of_a_second_call_has_another_decision_and_shows_that_one(own):
    frame = run().frame
    again = frame[frame["round"] == "loop again"]
    first = frame[frame["round"] == "loop"].drop_duplicates("text").set_index("text")

    assert (again["routing_reason"] == again["decision_reason"]).all()
    assert (again["decision_reason"] != again["text"].map(first["decision_reason"])).all()


def test_a_runtime_that_ends_each_request_before_the_next_breaks_the_claim_on_duplicates(
    own, monkeypatch
):
    def one_by_one(self, requests, **options):
        return [self.predict(**request, **options) for request in requests]

    monkeypatch.setattr(InstantRouter, "predict_batch", one_by_one)
    found = claim(run(), "A duplicate inside")

    assert (found.rule, found.held) == ("L-22", False)
    assert found.evidence == "0 of 4 duplicates computed again."


def test_a_runtime_that_computes_beside_a_hit_breaks_the_claim(own, monkeypatch):
    honest = router_module.answer_alone

    def compute_all_the_same(ctx, *rest):
        kept, ctx.results = ctx.results, None
        honest(ctx, *rest)
        ctx.results = kept or ctx.results

    monkeypatch.setattr(router_module, "answer_alone", compute_all_the_same)
    found = claim(run(), "Nothing is computed")

    assert (found.rule, found.held) == ("L-5", False)


def test_a_runtime_that_gives_a_hit_another_routing_breaks_the_claim(own, monkeypatch):
    def wrong(ctx, decision):
        for each in ctx.results:
            each["routing"] = {"model": "elsewhere"}

    monkeypatch.setattr(answering, "_keep_routing", wrong)
    result = run()

    assert claim(result, "gets the routing of its call").held is False
    assert claim(result, "not of the one that was stored").held is False


def test_a_cache_that_keeps_routing_and_knows_no_agents_is_told_so(own):
    result = run(cache=TextCache())

    assert claim(result, "What an earlier call had asked").held is True
    assert claim(result, "gets the routing of its call").held is True  # L-16 lets it keep its own
    assert claim(result, "not of the one that was stored").held is False
    assert claim(result, "evicted and built again").held is False
    assert result.parameters["cache"] == "TextCache"


def test_a_cache_that_serves_nothing_breaks_the_first_claim_and_leaves_others_open(own):
    result = run(cache=Never())

    assert claim(result, "What an earlier call had asked").held is False
    assert claim(result, "Nothing is computed").held is None


def test_what_is_computed_for_a_duplicate_is_not_held_against_the_hit_before_it():
    class FirstOnly:
        """Answers the first request of each text, and no other."""

        def __init__(self):
            self.seen = set()

        def on_predict_start(self, ctx):
            if ctx.states[0] not in self.seen:
                self.seen.add(ctx.states[0])
                ctx.skip([{"model": "made up", "answers": {}, "usage": {}}])

    result = run(routed(), cache=FirstOnly())
    batch = result.frame[result.frame["round"] == "batch"]

    assert batch.groupby("outcome", observed=True)["computed"].unique().map(list).to_dict() == {
        "hit": [False],
        "duplicate": [True],
    }
    assert claim(result, "Nothing is computed").held is True


def test_a_full_cache_forgets():
    result = run(routed(), capacity=1)

    assert claim(result, "What an earlier call had asked").held is False


def test_an_agents_batch_is_one_entry_and_what_only_a_router_does_cannot_be_told():
    result = run(make_agent())
    batch = result.frame[result.frame["round"] == "batch again"]

    assert batch["skipped"].all()
    assert claim(result, "What an earlier call had asked").held is True
    for words in ("A duplicate inside", "gets the routing", "evicted and built again"):
        assert claim(result, words).held is None
    assert result.frame["own_routing"].isna().all()


def test_a_given_router_keeps_its_checkpoints():
    router = routed()
    before = {name: router.load(name) for name in router.loaded}
    result = run(router)

    assert {name: router.load(name) for name in router.loaded} == before
    assert claim(result, "evicted and built again").held is None
    assert set(result.frame["round"]) == {"loop", "loop again", "batch", "batch again"}


def test_states_of_ones_own_are_asked_and_equal_ones_counted_once():
    result = run(routed(), states=["one", "two", "one"], questions={"q": Choice("?", ["a", "b"])})

    assert set(result.frame["text"]) == {0, 1}
    with pytest.raises(InvalidInput, match="at least two different states"):
        run(routed(), states=["one", "one"])


def test_calls_that_the_cache_leaves_alone_are_named():
    router = Router()
    router.attach("english", make_agent(lang_temperatures={"de": {"temperature": [1, 1, 1]}}))
    found = claim(run(router, states=["one", "two"]), "What an earlier call had asked")

    assert found.held is False
    assert "The cache left calls alone: {'language'" in found.evidence


def test_the_exact_cache_is_the_callers_to_read(own):
    cache = ExactCache()
    result = run(cache=cache)

    assert cache.stats.hits == (result.frame["outcome"] == "hit").sum()
    assert cache.stats.duplicates == (result.frame["outcome"] == "duplicate").sum()


def test_what_is_evicted_between_two_calls_is_no_miss_of_the_cache(monkeypatch):
    router = InstantRouter(max_loaded=1)
    # Room for all is made for the time of an experiment; here there is none.
    monkeypatch.setattr(InstantRouter, "max_loaded", property(lambda self: 1, lambda *_: None))
    result = caching.run(router, n=2, progress=False)
    frame = result.frame
    later = frame[frame["round"].isin(["loop again", "batch again"])]

    assert not later["skipped"].all()  # of agents that were built anew meanwhile
    assert claim(result, "What an earlier call had asked").held is not False
