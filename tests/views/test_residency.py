"""Residency as data: stays, hits, the order of last use, and what is inferred (L-31 to L-34)."""

from __future__ import annotations

import pytest
from drawn import check
from fakes import QUESTIONS
from traced import ENGLISH, GERMAN, InstantRouter, asked, attached, evicting

from jevlaya_lab import Agent, Lab, TraceRecorder
from jevlaya_lab.system_one.errors import InvalidInput
from jevlaya_lab.system_one.models.instant import InstantNetwork
from jevlaya_lab.views.residency import residency_layout
from jevlaya_lab.views.uses import residency_of


def labelled(layout, label):
    return [p for p in layout.pieces if getattr(p, "label", "") == label]


def test_stays_last_from_the_end_of_a_load_to_the_eviction():
    """L-31: what is built counts from the end of its load, what goes to its eviction."""
    trace = evicting()
    found = residency_of(trace.runs)
    assert [(s.what, s.model) for s in found.steps] == [
        ("loaded", "english"),
        ("loaded", "multilingual"),
        ("evicted", "english"),
        ("loaded", "english"),
        ("evicted", "multilingual"),
    ]
    assert [len(stay.uses) for stay in found.stays["english"]] == [1, 2]
    assert (found.n_uses, found.n_hits) == (4, 1)
    assert found.order == ["english"]
    assert not any(stay.inferred for stays in found.stays.values() for stay in stays)


def test_bars_and_marks_of_it():
    layout = residency_layout(evicting())
    check(layout)
    assert [len(labelled(layout, what)) for what in ("resident", "load", "evict")] == [3, 3, 2]
    assert "4 requests, of which 1 found their checkpoint resident" in layout.subtitle
    assert {"1.", "not resident"} <= set(layout.texts)
    assert "Inferred" not in layout.alt


def test_the_least_recently_used_one_is_next_to_go():
    """L-32."""
    lab = Lab(InstantRouter(max_loaded=2))
    for model in ("english", "multilingual", "english", "typed-decisions"):
        lab.predict("x", QUESTIONS, model=model)
    found = residency_of(lab.trace.runs)
    (evicted,) = [step for step in found.steps if step.what == "evicted"]
    assert (evicted.model, evicted.least_recent) == ("multilingual", True)
    assert found.order == lab.agent.loaded == ["english", "typed-decisions"]
    layout = residency_layout(lab.trace)
    check(layout)
    assert {"1. (next to go)", "2."} <= set(layout.texts)


def test_an_eviction_of_another_one_is_noticed():
    """L-33: unload takes whom it is told."""
    recorder = TraceRecorder()
    router = InstantRouter(max_loaded=2, hooks=[recorder])
    for model in ("english", "multilingual"):
        router.predict("x", QUESTIONS, model=model)
    router.unload("multilingual")
    layout = residency_layout(recorder.trace)
    check(layout)
    assert "1 eviction took another one than the least recently used" in layout.alt


def test_what_was_there_before_is_inferred_and_that_is_said():
    """L-34: attach runs no on_load."""
    layout = residency_layout(asked(attached(), ENGLISH, GERMAN))
    check(layout)
    assert len(labelled(layout, "inferred")) == 2
    assert not labelled(layout, "load")
    assert "was there before the trace began, or was attached" in layout.alt
    assert "resident (inferred)" in layout.texts


def test_without_a_router_there_is_nothing_to_show():
    lab = Lab(Agent("alone", network=InstantNetwork()))
    lab.predict("x", QUESTIONS)
    layout = residency_layout(lab.trace)
    check(layout)
    assert "no data" in layout.texts
    with pytest.raises(InvalidInput, match="takes a trace, got a Lab"):
        residency_layout(lab)
