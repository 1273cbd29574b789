"""Agents of other makes: laya's, and objects that do not know the newer arguments."""

from __future__ import annotations

from typing import Any

import laya
import pytest
from fakes import QUESTIONS, StubRouter
from tiny import make_checkpoint

from jevlaya_lab.system_one.errors import InvalidOption, InvalidResult
from jevlaya_lab.system_one.router import Router

GERMAN = "Mein Konto wurde zweimal belastet, und ich möchte mein Geld zurück."


def _result(state: Any) -> dict[str, Any]:
    return {"answers": {"of": state}, "usage": {}}


class Old:
    """Knows nothing but states and questions."""

    def system_one(self, state: Any, questions: Any) -> dict[str, Any]:
        return _result(state)

    def predict_batch(self, states: Any, questions: Any) -> list[dict[str, Any]]:
        return [_result(state) for state in states]


class OnlyOne:
    def system_one(self, state: Any, questions: Any, max_len: Any = None) -> dict[str, Any]:
        return {**_result(state), "max_len": max_len}


class OnlyMany:
    def predict_batch(self, states: Any, questions: Any, **options: Any) -> list[dict[str, Any]]:
        return [{**_result(state), **options} for state in states]


class Strict:
    """Counts ``lang`` among what it takes, and has no temperatures attribute."""

    def __init__(self) -> None:
        self.langs: list[Any] = []

    def system_one(self, state: Any, questions: Any, *, lang: Any = None) -> dict[str, Any]:
        self.langs.append(lang)
        return _result(state)


def with_agent(agent: Any) -> Router:
    router = StubRouter(default="mine", models={"mine": "folder"})
    router.attach("mine", agent)
    return router


@pytest.mark.parametrize("agent", [Old(), OnlyOne(), OnlyMany()])
def test_any_object_with_one_of_the_two_methods_answers(agent: Any) -> None:
    router = with_agent(agent)
    requests = [{"state": s, "questions": QUESTIONS, "model": "mine"} for s in "ab"]

    assert router.predict("s", QUESTIONS, model="mine")["answers"] == {"of": "s"}
    found = router.predict_batch(requests, batch_size=1, sort_by_length=True)
    assert [result["answers"]["of"] for result in found] == ["a", "b"]


def test_a_budget_that_an_agent_does_not_take_is_refused_and_not_dropped() -> None:
    router = with_agent(Old())

    with pytest.raises(InvalidOption, match=r"Old.system_one takes no max_len; leave it out"):
        router.predict("s", QUESTIONS, model="mine", max_len=64)
    with pytest.raises(InvalidOption, match=r"Old.predict_batch takes no head_max_len"):
        router.predict_batch(
            [{"state": "s", "questions": QUESTIONS, "model": "mine", "head_max_len": 64}]
        )
    assert with_agent(OnlyOne()).predict("s", QUESTIONS, model="mine", max_len=64)["max_len"] == 64


def test_a_language_is_passed_where_it_can_matter() -> None:
    strict = Strict()
    router = with_agent(strict)
    router.predict(GERMAN, QUESTIONS, lang="de", model="mine")
    router.predict(GERMAN, QUESTIONS, model="mine")
    with_agent(Old()).predict(GERMAN, QUESTIONS, lang="de", model="mine")

    assert strict.langs == ["de", None]


@pytest.mark.parametrize("result", [None, [], "text"])
def test_what_is_no_result_is_refused_with_the_agents_name(result: Any) -> None:
    agent = Old()
    agent.system_one = lambda state, questions: result  # type: ignore[method-assign]
    agent.predict_batch = lambda states, questions: [result]  # type: ignore[method-assign]
    router = with_agent(agent)

    with pytest.raises(InvalidResult, match=r"Old gave .* where a result belongs"):
        router.predict("s", QUESTIONS, model="mine")
    with pytest.raises(InvalidResult, match=r"Old gave .* where a result belongs"):
        router.predict_batch([{"state": "s", "questions": QUESTIONS, "model": "mine"}])


def test_an_agent_without_predict_long_is_named() -> None:
    with pytest.raises(InvalidOption, match="Old has no predict_long"):
        with_agent(Old()).predict_long("s", QUESTIONS, model="mine")


def test_layas_own_agent_is_attached_and_answers_like_ours(tmp_path: Any) -> None:
    folder = make_checkpoint(tmp_path / "c")
    theirs, ours = Router(), Router({"english": folder})
    theirs.attach("english", laya.Agent(str(folder), device="cpu"))
    requests = [
        {"state": f"state {i}", "questions": QUESTIONS, "model": "english", "max_len": 64 + i % 2}
        for i in range(4)
    ]

    for one, other in zip(
        theirs.predict_batch(requests, batch_size=2, sort_by_length=True),
        ours.predict_batch(requests),
        strict=True,
    ):
        assert one["answers"]["q"]["noul"] == pytest.approx(other["answers"]["q"]["noul"], abs=2e-4)
    long = "word " * 400
    assert (
        theirs.predict_long(long, QUESTIONS, model="english", window=40)["usage"]["windows"]
        == ours.predict_long(long, QUESTIONS, model="english", window=40)["usage"]["windows"]
        > 3
    )


def test_router_predict_long_routes_and_reads_in_windows(tmp_path: Any) -> None:
    """L-15: the agent's predict_long stands where its system_one stands in predict."""
    router = Router({"english": make_checkpoint(tmp_path / "c")})
    text = "I would like to know where my parcel is, please. " * 30

    result = router.predict_long(text, QUESTIONS, window=50, stride=25, batch_size=4)
    agent = router.load("english")
    alone = agent.predict_long(text, QUESTIONS, window=50, stride=25)

    assert result["routing"]["model"] == "english"
    assert result["answers"] == alone["answers"]
    window = result["answers"]["q"]["window"]
    assert text[window["char_start"] : window["char_end"]].strip()
    assert result["usage"]["windows"] == window["count"] > 1


def test_hooks_of_router_predict_long_see_the_state_as_it_was_given(tmp_path: Any) -> None:
    """L-14: one run with one state; a skip answers it."""
    router = StubRouter()
    seen: list[Any] = []

    def start(ctx: Any) -> None:
        seen.append((ctx.states, ctx.entry, ctx.scope))
        ctx.skip([{"answers": {}}])

    result = router.predict_long("long " * 999, QUESTIONS, on_predict_start=start)

    assert seen == [(["long " * 999], "predict_long", "router")]
    assert result["routing"]["model"] == "english"
    for bad in ({"window": 0}, {"stride": "x"}, {"batch_size": -1}, {"aggregate": "mean"}):
        with pytest.raises(InvalidOption, match=next(iter(bad))):
            router.predict_long("s", QUESTIONS, **bad)


def test_a_language_that_names_none_leaves_the_detected_one(tmp_path: Any) -> None:
    """L-23: as for routing, ``und``, ``C`` and blanks say nothing."""
    router = Router(
        {"multilingual": make_checkpoint(tmp_path / "c")},
        agent_kwargs={"lang_temperatures": {"de": {"temperature": [5.0, 5.0, 5.0]}}},
    )
    plain = router.predict(GERMAN, QUESTIONS)["answers"]

    for lang in ("und", "C", "  "):
        assert router.predict(GERMAN, QUESTIONS, lang=lang)["answers"] == plain
    assert router.predict(GERMAN, QUESTIONS, lang="fr")["answers"] != plain


def test_the_agents_own_result_is_left_as_it_was() -> None:
    """L-18: an agent, or a cache of its hooks, may keep what it gave."""

    class Keeps(Old):
        kept = _result("x")

        def system_one(self, state: Any, questions: Any) -> dict[str, Any]:
            return self.kept

        def predict_batch(self, states: Any, questions: Any) -> list[dict[str, Any]]:
            return [self.kept for _ in states]

    router = StubRouter()
    router.attach("english", Keeps())
    hints: list[dict[str, Any]] = [{"model": "english"}, {"lang": "en"}]
    requests = [{"state": "x", "questions": QUESTIONS, **hint} for hint in hints]

    first, second = router.predict_batch(requests)
    router.predict("x", QUESTIONS, lang="en")

    assert first["routing"]["reason"] == "explicit model='english'"
    assert second["routing"]["reason"] == "explicit lang='en'"
    assert "routing" not in Keeps.kept


def test_an_asynchronous_agent_is_named_as_such() -> None:
    class Slow:
        async def system_one(self, state: Any, questions: Any) -> dict[str, Any]:
            return _result(state)

        async def predict_batch(self, states: Any, questions: Any) -> list[dict[str, Any]]:
            return [_result(state) for state in states]

    router = with_agent(Slow())
    with pytest.raises(InvalidResult, match="the methods of Slow are asynchronous"):
        router.predict("s", QUESTIONS, model="mine")
    with pytest.raises(InvalidResult, match="the methods of Slow are asynchronous"):
        router.predict_batch([{"state": "s", "questions": QUESTIONS, "model": "mine"}])
