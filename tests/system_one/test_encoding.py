"""States as text, and encoded states in batches."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jevlaya_lab.system_one.encoding import (
    TOKENS_PER_FORWARD,
    check_count,
    check_states,
    chunks,
    state_text,
)
from jevlaya_lab.system_one.errors import InvalidOption, InvalidState

sizes = st.lists(
    st.tuples(st.integers(0, 600), st.integers(1, 20)),
    max_size=60,
)
batch_sizes = st.none() | st.integers(1, 20)


def split(
    found: list[tuple[int, int]], batch_size: int | None, sort_by_length: bool
) -> list[list[int]]:
    lengths, rows = [length for length, _ in found], [n for _, n in found]
    return list(chunks(lengths, rows, batch_size, sort_by_length))


@given(sizes, batch_sizes, st.booleans())
def test_every_state_is_in_exactly_one_chunk(
    found: list[tuple[int, int]], batch_size: int | None, sort_by_length: bool
) -> None:
    """L-6: and no chunk is empty."""
    result = split(found, batch_size, sort_by_length)

    assert sorted(i for chunk in result for i in chunk) == list(range(len(found)))
    assert all(result)


@given(sizes, st.integers(1, 20), st.booleans())
def test_batch_size_alone_decides_where_it_is_given(
    found: list[tuple[int, int]], batch_size: int, sort_by_length: bool
) -> None:
    """L-6: every chunk but the last has exactly that many states."""
    counts = [len(chunk) for chunk in split(found, batch_size, sort_by_length)]

    assert all(count == batch_size for count in counts[:-1])
    assert len(counts) == -(-len(found) // batch_size)


@given(sizes, st.booleans())
def test_chunks_keep_to_the_token_budget_and_fill_it(
    found: list[tuple[int, int]], sort_by_length: bool
) -> None:
    """L-6: only a state that is too large by itself exceeds it; the next one would not have fit."""

    def cost(chunk: list[int]) -> int:
        return max(found[i][0] for i in chunk) * sum(found[i][1] for i in chunk)

    result = split(found, None, sort_by_length)

    assert all(cost(chunk) <= TOKENS_PER_FORWARD or len(chunk) == 1 for chunk in result)
    for chunk, following in itertools.pairwise(result):
        assert cost([*chunk, following[0]]) > TOKENS_PER_FORWARD


@given(sizes, batch_sizes)
def test_without_sorting_the_order_is_kept(
    found: list[tuple[int, int]], batch_size: int | None
) -> None:
    """L-6: chunk after chunk."""
    assert [i for chunk in split(found, batch_size, False) for i in chunk] == list(
        range(len(found))
    )


@given(sizes, batch_sizes)
def test_sorting_goes_from_short_to_long(
    found: list[tuple[int, int]], batch_size: int | None
) -> None:
    """L-6: states of equal length keep their order."""
    order = [i for chunk in split(found, batch_size, True) for i in chunk]

    assert order == sorted(order, key=lambda i: (found[i][0], i))


def test_a_state_that_exceeds_the_budget_goes_alone() -> None:
    huge = TOKENS_PER_FORWARD + 1

    assert split([(10, 1), (huge, 1), (10, 1)], None, False) == [[0], [1], [2]]


def test_the_budget_counts_padding() -> None:
    """Two rows of half the budget fit; a third row, however short, is padded to their width."""
    half = TOKENS_PER_FORWARD // 2

    assert split([(half, 1), (half, 1), (1, 1)], None, False) == [[0, 1], [2]]


def test_nothing_makes_no_chunks() -> None:
    assert split([], None, True) == []


def test_the_text_of_states() -> None:
    assert check_states(["a", {"k": "ü"}, [1, None], 2.5, False, ""]) == [
        *("a", '{"k": "ü"}', "[1, null]", "2.5", "false", ""),
    ]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text("aü🙂 "),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner, max_size=3),
    max_leaves=8,
)


# A number that is none is refused by itself, see test_agent.py.
NO_STATE = (None, math.inf, -math.inf)


@given(json_values.filter(lambda value: value not in NO_STATE and not isinstance(value, str)))
def test_structured_states_can_be_read_back(value: Any) -> None:
    assert json.loads(state_text(value)) == value


@given(st.text(st.characters()))
def test_text_is_taken_as_it_is_or_refused(text: str) -> None:
    """Only half of a surrogate pair is no text."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        with pytest.raises(InvalidState, match="state 3 holds half of a surrogate pair"):
            state_text(text, 3)
    else:
        assert state_text(text, 3) == text


def test_the_remedy_for_half_a_surrogate_pair_works() -> None:
    text = "a\ud83d\ude42b\ud800"
    with pytest.raises(InvalidState) as caught:
        state_text(text)

    assert "text.encode('utf-16', 'surrogatepass').decode('utf-16', 'replace')" in str(caught.value)
    assert state_text(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")) == "a🙂b�"


@pytest.mark.parametrize(("value", "number"), [(None, None), (3, 3), (np.int64(5), 5), (1, 1)])
def test_a_count_is_a_whole_number_or_nothing(value: Any, number: int | None) -> None:
    found = check_count("n", value)

    assert found == number
    assert type(found) in (int, type(None))


@pytest.mark.parametrize("wrong", [0, -1, True, False, 1.0, "1", np.float64(2), []])
def test_anything_else_is_refused_by_name(wrong: Any) -> None:
    with pytest.raises(InvalidOption, match="n_things must be a whole number of at least 1, got"):
        check_count("n_things", wrong)


def test_a_count_has_a_least_value() -> None:
    assert check_count("n", 8, least=8) == 8
    with pytest.raises(InvalidOption, match="at least 8, got 7"):
        check_count("n", 7, least=8)
