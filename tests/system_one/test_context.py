"""PredictContext: skipping, usage, identity."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from fakes import QUESTIONS, SKIPPED, Recorder, make_agent
from hypothesis import given
from hypothesis import strategies as st

import jevlaya_lab.system_one.context as context_module
from jevlaya_lab.system_one.context import PredictContext, Timings, aggregate_usage, new_id
from jevlaya_lab.system_one.errors import InvalidResult


@pytest.mark.parametrize("results", [[SKIPPED, SKIPPED], [SKIPPED], (SKIPPED, SKIPPED)])
def test_skip_takes_one_result_per_state_or_one_for_all(results: Any) -> None:
    """L-4: as laya does; the list is the context's own."""
    ctx = PredictContext(["a", "b"], QUESTIONS)

    ctx.skip(results)

    assert ctx.results == list(results)
    assert ctx.results is not results


@pytest.mark.parametrize("n", [0, 3])
def test_skip_refuses_another_number_of_results(n: int) -> None:
    """L-4: with both numbers in the message."""
    ctx = PredictContext(["a", "b"], QUESTIONS)

    with pytest.raises(InvalidResult, match=rf"per state \(2 here\) .* got {n}"):
        ctx.skip([SKIPPED] * n)

    assert ctx.results is None


@pytest.mark.parametrize("wrong", [SKIPPED, "ab", 7, iter([SKIPPED])])
def test_skip_refuses_what_is_no_list(wrong: Any) -> None:
    """L-4: a single result belongs into a list."""
    ctx = PredictContext(["a", "b"], QUESTIONS)

    with pytest.raises(InvalidResult, match=r"takes a list of results.*into a list"):
        ctx.skip(wrong)

    assert ctx.results is None


def test_an_empty_call_is_skipped_with_an_empty_list() -> None:
    """L-4: no states, no results."""
    ctx = PredictContext([], QUESTIONS)

    ctx.skip([])

    assert ctx.results == []


def test_skip_does_not_count_where_states_are_no_list() -> None:
    """L-4: a later hook may still make a list of them."""
    ctx = PredictContext("one text", QUESTIONS)

    ctx.skip([SKIPPED] * 3)

    assert ctx.results == [SKIPPED] * 3


def test_skip_with_none_is_a_miss() -> None:
    """L-4: ctx.skip(cache.get(key)) leaves the call as it is."""
    hook = Recorder(start=lambda ctx: ctx.skip(None))

    result = make_agent(hooks=hook).predict("a", QUESTIONS)

    assert "q" in result["answers"]
    assert hook.contexts[0].skipped is False


def test_a_miss_does_not_undo_the_hit_of_another_hook() -> None:
    """L-4: of two caches the one that has the answer gives it."""
    hit = Recorder(start=lambda ctx: ctx.skip([SKIPPED]))
    miss = Recorder(start=lambda ctx: ctx.skip(None))

    assert make_agent(hooks=[hit, miss]).predict("a", QUESTIONS) is SKIPPED


def test_a_skip_that_does_not_fit_fails_in_the_hook() -> None:
    """L-4: so hooks_raise decides, and the call goes on to the network where it is False."""
    skip = Recorder(start=lambda ctx: ctx.skip([]))

    with pytest.raises(InvalidResult):
        make_agent(hooks=skip).predict("a", QUESTIONS)
    with pytest.warns(RuntimeWarning, match="one result per state"):
        result = make_agent(hooks=skip, hooks_raise=False).predict("a", QUESTIONS)

    assert "q" in result["answers"]


def test_contexts_are_never_equal_and_can_be_kept_in_a_set() -> None:
    first, second = PredictContext([], {}), PredictContext([], {})

    assert first != second
    assert len({first, second, first}) == 2


def test_a_hook_may_put_attributes_of_its_own_on_a_context() -> None:
    ctx = PredictContext([], {})

    ctx.span = "mine"  # type: ignore[attr-defined]

    assert ctx.span == "mine"  # type: ignore[attr-defined]


def test_ids_are_32_hexadecimal_digits_and_differ() -> None:
    """L-9: a run's id is its own."""
    ids = {new_id() for _ in range(100)}

    assert len(ids) == 100
    assert all(len(each) == 32 and int(each, 16) >= 0 for each in ids)


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({}, "agent run {id} model='m' states=2 running"),
        ({"elapsed_ms": 1.26}, "agent run {id} model='m' states=2 1.3 ms"),
        ({"error": KeyError("k"), "elapsed_ms": 1.0}, "failed with KeyError"),
        ({"states": "a secret"}, "states=? running"),
    ],
)
def test_a_context_shows_where_it_stands(fields: dict[str, Any], shown: str) -> None:
    ctx = PredictContext(**{"states": ["a", "b"], "questions": {}, "model": "m", **fields})

    assert shown.format(id=ctx.run_id[:8]) in repr(ctx)
    assert "secret" not in repr(ctx)


def test_usage_is_summed_over_the_results() -> None:
    """L-8: the two token counts, and nothing else of a result's usage."""
    results = [
        {"usage": {"input_tokens": 3, "output_tokens": 1, "state_tokens": 9}},
        {"usage": {"input_tokens": 4}},
        {"answers": {}},
        {"usage": None},
        {"usage": {"input_tokens": "many", "output_tokens": None}},
        "no result",
    ]

    assert aggregate_usage(results) == {"input_tokens": 7, "output_tokens": 1}


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6))))
def test_usage_of_parts_adds_up(counts: list[tuple[int, int]]) -> None:
    """L-8: however a batch is cut, the sums are those of the whole."""
    results = [{"usage": {"input_tokens": i, "output_tokens": o}} for i, o in counts]
    middle = len(results) // 2
    parts = [aggregate_usage(results[:middle]), aggregate_usage(results[middle:])]

    assert aggregate_usage(results) == {
        key: sum(part[key] for part in parts) for key in ("input_tokens", "output_tokens")
    }


def test_the_time_of_a_step_is_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """L-41: each block counts for its own step."""
    clock = SimpleNamespace(now=0.0, perf_counter=lambda: clock.now)
    monkeypatch.setattr(context_module, "time", clock)
    timings = Timings()

    for step, seconds in [("encode", 1.0), ("forward", 2.0), ("encode", 0.5)]:
        with timings.during(step):
            assert timings.step == step
            clock.now += seconds

    assert (timings.encode_ms, timings.forward_ms) == (1500.0, 2000.0)
    assert (timings.collate_ms, timings.decode_ms) == (0.0, 0.0)
    assert timings.step is None


def test_a_step_that_failed_keeps_its_name() -> None:
    """L-41: where a run stopped can be read off it."""
    timings = Timings()

    with pytest.raises(KeyboardInterrupt), timings.during("collate"):
        raise KeyboardInterrupt

    assert timings.step == "collate"
