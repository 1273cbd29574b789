"""The picture of a router's batch: brackets, shared calls, and the order of ends (L-19 to L-27)."""

from __future__ import annotations

from drawn import check
from traced import ENGLISH, GERMAN, Hit, InstantRouter, Noisy, asked, attached

from jevlaya_lab import Lab
from jevlaya_lab.views.lifecycle import lifecycle_layout


def batch_of(lab, *texts):
    trace = asked(lab, *texts)
    return lifecycle_layout(trace, trace.calls["call_id"].iloc[-1])


def mixed(*texts):
    texts = texts or (ENGLISH, GERMAN, f"{ENGLISH} cached", ENGLISH, GERMAN)
    return batch_of(attached([Hit(), Noisy()]), *texts)


def test_there_is_a_bracket_per_checkpoint_in_order_of_first_appearance():
    """L-20."""
    layout = mixed()
    check(layout)
    assert layout.title == "Lifecycle of a batch: 5 requests, 2 checkpoints"
    assert [frame.label for frame in layout.rects("nested")] == [
        "1. checkpoint english: 3 requests",
        "2. checkpoint multilingual: 2 requests",
    ]
    assert len(layout.lines("accent")) == 2  # from the first start to the last end


def test_all_start_before_any_ends_and_they_end_in_reverse():
    """L-22, L-26."""
    layout = mixed()
    start, end = layout.box("1.start"), layout.box("1.end")
    assert start.title == "on_predict_start of #1, #3, #4"
    assert end.title == "on_predict_end of #4, #3, #1, last one first"
    assert start.y < layout.box("1.pass1").y < end.y < layout.box("2.start").y
    (brace, _) = layout.lines("accent")
    assert start.y < brace.points[0][1] < start.y + start.height
    assert end.y < brace.points[-1][1] < end.y + end.height


def test_how_many_requests_share_a_call_of_the_agent_is_written():
    """L-23."""
    layout = mixed()
    assert layout.box("1.skip").title == "ctx.skip: 1 request"
    assert layout.box("1.pass1").title.endswith("ONE call that 2 requests share")
    assert "1 forward pass over 2 rows" in layout.box("1.pass1").lines[1]
    assert "one call of the agent for 2 requests" in layout.alt
    assert "1 answered by a hook" in layout.alt
    shared = {row[0]: row[5] for row in layout.tables[0].rows}
    assert shared == {"#1": "2", "#2": "2", "#3": "–", "#4": "2", "#5": "2"}


def test_routing_comes_first_and_says_why_for_whom():
    """L-19."""
    lines = mixed().box("route").lines
    assert lines[0] == "#1, #3, #4 → english: the text is English"
    assert lines[1].startswith("#2, #5 → multilingual: the text reads as 'de'")
    assert lines[-1].startswith("1. Noisy (installed) · ×5")


def test_hooks_are_summed_up_over_requests():
    lines = mixed().box("1.start").lines
    assert lines[0].startswith("1. Hit (installed) · ×3")
    assert lines[0].endswith("changed results ×1")
    assert lines[1].endswith("changed max_len ×3")


def test_a_group_that_fails_ends_all_of_its_requests():
    """L-27."""
    failing = {"forward": RuntimeError("out of memory")}
    layout = batch_of(attached([Noisy()], failing), ENGLISH, ENGLISH)
    check(layout)
    assert layout.box("1.pass1").status == "failed"
    assert layout.box("1.pass1").lines == ("broke in forward: RuntimeError",)
    assert layout.box("1.error").title == "on_error of #2, #1, last one first"
    assert layout.box("return").title == "raises RuntimeError"
    assert layout.alt.endswith("Failed with RuntimeError.")


def test_two_hundred_requests_fit():
    layout = mixed(*([ENGLISH, GERMAN] * 100))
    check(layout)
    assert layout.height < 1500
    assert "and 92 more" in layout.box("1.start").title
    assert layout.tables[0].title.endswith("(the first 60 of 200)")


def test_loads_and_evictions_stand_in_the_bracket_that_they_were_for():
    """L-31."""
    layout = batch_of(Lab(InstantRouter(max_loaded=1)), ENGLISH, GERMAN)
    check(layout)
    (first,) = layout.box("1.load").lines
    assert first.startswith("loaded english, built in")
    evicted, loaded = layout.box("2.load").lines
    assert evicted.startswith("evicted english, released in")
    assert loaded.startswith("loaded multilingual, built in")
