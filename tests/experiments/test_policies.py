"""The pure eviction policies: against known sequences, and against all there is."""

from __future__ import annotations

import csv
import itertools
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jevlaya_lab.experiments.policies import POLICIES, belady, fifo, lfu, lru
from jevlaya_lab.experiments.sequences import LANGUAGES, PATTERNS, languages, sequence

ANOMALY = (1, 2, 3, 4, 1, 2, 5, 1, 2, 3, 4, 5)

sequences = st.lists(st.sampled_from("abcd"), max_size=8)
rooms = st.integers(min_value=1, max_value=4)


def fewest_loads(requests, room):
    """By trying every victim at every step."""
    states = {frozenset(): 0}
    for name in requests:
        after = {}
        for held, loads in states.items():
            if name in held:
                ways = [(held, loads)]
            elif len(held) < room:
                ways = [(held | {name}, loads + 1)]
            else:
                ways = [((held - {gone}) | {name}, loads + 1) for gone in held]
            for state, n in ways:
                after[state] = min(n, after.get(state, n))
        states = after
    return min(states.values())


@given(sequences, rooms)
def test_nobody_needs_fewer_loads_than_belady(requests, room):
    assert belady(requests, room).loads == fewest_loads(requests, room)


@given(sequences, rooms)
def test_every_policy_keeps_to_its_room_and_says_what_it_did(requests, room):
    for policy in POLICIES.values():
        run, held = policy(requests, room), set()
        for name, loaded, gone in zip(requests, run.loaded, run.evicted, strict=True):
            assert loaded == (name not in held)
            if gone is not None:
                assert loaded
                assert len(held) == room
                held.remove(gone)
            held.add(name)
            assert len(held) <= room
        assert run.loads - run.evictions == len(held)


@given(sequences)
def test_with_more_room_lru_never_loads_more(requests):
    loads = [lru(requests, room).loads for room in (1, 2, 3, 4)]
    assert loads == sorted(loads, reverse=True)


def test_fifo_loads_more_with_more_room_on_beladys_sequence():
    assert [fifo(ANOMALY, room).loads for room in (3, 4)] == [9, 10]
    assert [lru(ANOMALY, room).loads for room in (3, 4)] == [10, 8]
    assert [belady(ANOMALY, room).loads for room in (3, 4)] == [7, 6]


def test_lru_evicts_what_was_not_asked_for_for_longest():
    assert lru("abac", 2).evicted == (None, None, None, "b")
    assert fifo("abac", 2).evicted == (None, None, None, "a")


def test_lfu_evicts_what_was_asked_for_least_and_of_several_the_least_recent():
    assert lfu("aabc", 2).evicted[-1] == "b"
    assert lfu("aabbc", 2).evicted[-1] == "a"
    assert lfu("abac" + "b", 2).evicted[-1] == "c"


def test_round_robin_is_the_worst_there_is_for_lru():
    requests = sequence("round-robin", ["a", "b", "c"], 12, seed=0)
    assert requests == list("abc" * 4)
    assert lru(requests, 2).loads == 12
    assert belady(requests, 2).loads < 8


@pytest.mark.parametrize("pattern", [each for each in PATTERNS if each != "languages"])
def test_a_sequence_has_its_length_and_depends_on_the_seed_alone(pattern):
    names = ["a", "b", "c", "d"]
    one, again = (sequence(pattern, names, 200, seed=3) for _ in range(2))
    assert one == again
    assert len(one) == 200
    assert set(one) == set(names)


def test_bursts_are_long_and_zipf_prefers_the_first_names():
    names = ["a", "b", "c", "d"]
    bursts = [len(list(run)) for _, run in itertools.groupby(sequence("bursty", names, 4000, 1))]
    assert 4 < sum(bursts) / len(bursts) < 6
    zipf = sequence("zipf", names, 4000, 1)
    counts = [zipf.count(name) for name in names]
    assert counts == sorted(counts, reverse=True)
    assert 1.7 < counts[0] / counts[1] < 2.3


def test_the_mix_of_languages_is_that_of_the_demo_tickets():
    path = Path(__file__).parents[2] / "data" / "support_tickets.csv"
    with path.open(encoding="utf-8", newline="") as file:
        counted = Counter(row["language"] for row in csv.DictReader(file))
    assert dict(LANGUAGES) == counted
    assert set(languages(500, seed=0)) == set(LANGUAGES)
