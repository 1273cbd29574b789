"""The order of a call's events as data: numbers, nesting, and the hooks of each."""

from __future__ import annotations

from itertools import pairwise

import pytest
from drawn import check
from fakes import QUESTIONS
from traced import ENGLISH, GERMAN, Noisy, as_of_laya, asked, attached

from jevlaya_lab import Agent, BaseHook, Lab
from jevlaya_lab.system_one.errors import InvalidInput
from jevlaya_lab.system_one.models.instant import InstantNetwork
from jevlaya_lab.views.hook_order import hook_order_layout


class Second(BaseHook):
    def on_predict_start(self, ctx): ...

    def on_predict_end(self, ctx): ...


class BrokenEnd(BaseHook):
    def on_predict_end(self, ctx):
        raise LookupError("no such thing")


def spans(layout):
    """From where to where each row is open."""
    return [line.points for line in layout.lines("ink") if line.label]


def test_requests_of_a_batch_are_nested():
    """L-22, L-26: all start before any ends, and they end in reverse."""
    layout = hook_order_layout(asked(attached([Noisy()]), ENGLISH, ENGLISH, ENGLISH))
    check(layout)
    opened = sorted((a[0], b[0]) for a, b in spans(layout))
    assert len(opened) == 4  # three requests, and in them the agent's call
    for (a, b), (c, d) in pairwise(opened):
        assert a < c < d < b
    assert layout.alt.index("request 1 · english, request 2") < layout.alt.index(
        "request 3 · english, request 2 · english, request 1"
    )


def test_events_are_numbered_as_they_happened():
    layout = hook_order_layout(asked(attached(), ENGLISH, GERMAN))
    numbers = [label.text for label in layout.pieces if getattr(label, "role", "") == "on-fill"]
    assert sorted(map(int, numbers)) == list(range(1, 11))
    x = {label.text: label.x for label in layout.pieces if getattr(label, "role", "") == "on-fill"}
    assert [x[str(i)] for i in range(1, 11)] == sorted(x.values())


def test_the_hooks_of_each_event_are_listed_in_their_order():
    """L-37: installed before per call, and the same order at the end."""
    lab = attached([Noisy(), Second()])
    lab.predict([ENGLISH, ENGLISH], QUESTIONS, hooks=Second(), dedupe=False)
    texts = hook_order_layout(lab.trace).texts
    order = "1. Noisy (installed) 2. Second (installed) 3. Second (call)"
    assert f"on_predict_start ×2: {order}" in texts
    assert f"on_predict_end ×2: {order}" in texts


def test_a_hook_that_raised_is_marked_and_named():
    layout = hook_order_layout(asked(attached([BrokenEnd()]), ENGLISH))
    check(layout)
    assert len(layout.lines("alarm")) == 1
    assert "BrokenEnd (installed) raised LookupError" in layout.alt


def test_of_very_many_requests_the_first_and_the_last_are_shown():
    layout = hook_order_layout(asked(attached([Noisy()]), *([ENGLISH] * 200)))
    check(layout)
    shown = [text for text in layout.texts if text.startswith("request ")]
    assert shown == [f"request {i} · english" for i in (1, 2, 3, 4, 198, 199, 200)]
    assert any("more runs between those" in text for text in layout.texts)
    numbers = {label.text for label in layout.pieces if getattr(label, "role", "") == "on-fill"}
    assert "602" in numbers  # the numbers are those of the whole call


def test_the_call_is_chosen_by_its_id():
    lab = Lab(Agent("alone", network=InstantNetwork()))
    with pytest.raises(InvalidInput, match="nothing was recorded yet"):
        hook_order_layout(lab.trace)
    lab.predict(["a", "b"], QUESTIONS, chunk_size=1, progress=False)
    first, last = lab.trace.calls["call_id"]
    assert f"call {last[:8]}" in hook_order_layout(lab.trace).subtitle
    assert f"call {first[:8]}" in hook_order_layout(lab.trace, first[:10]).subtitle
    with pytest.raises(InvalidInput, match="0 recorded runs have an id that begins with 'zz'"):
        hook_order_layout(lab.trace, "zz")
    with pytest.raises(InvalidInput, match="takes a trace"):
        hook_order_layout(lab)


def test_a_trace_over_laya_has_events_without_hooks():
    trace = as_of_laya(asked(attached([Noisy()]), ENGLISH))
    for run in trace.runs["run_id"]:
        layout = hook_order_layout(trace, run)
        check(layout)
        assert "No hook ran." in layout.alt
