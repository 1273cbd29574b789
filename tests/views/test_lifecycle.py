"""The lifecycle diagram as data: which way is drawn as taken, and what the boxes say."""

from __future__ import annotations

import contextlib

import pytest
from drawn import check
from fakes import QUESTIONS as ONE
from fakes import RecordingNetwork
from traced import ENGLISH, GERMAN, Hit, Noisy, as_of_laya, asked, attached, evicting, runs_of

from jevlaya_lab import Agent, BaseHook, Choice, Lab, Noul, TraceRecorder
from jevlaya_lab.frames import read_trace_csv
from jevlaya_lab.system_one.errors import InvalidInput
from jevlaya_lab.system_one.models.instant import InstantNetwork
from jevlaya_lab.views.lifecycle import lifecycle_layout

QUESTIONS = {"team": Choice("Which team?", ["alpha", "beta"]), "sure": Noul("Is it sure?")}


class Shout(BaseHook):
    def on_predict_start(self, ctx):
        ctx.states = [state.upper() for state in ctx.states]


class Answer(BaseHook):
    def on_predict_start(self, ctx):
        ctx.skip([{"model": "x", "answers": {}, "usage": {"input_tokens": 1}} for _ in ctx.states])


class Broken(BaseHook):
    def on_predict_start(self, ctx):
        raise LookupError("no such thing")


class BrokenEnd(BaseHook):
    def on_predict_end(self, ctx):
        raise LookupError("no such thing")


class BrokenNetwork(InstantNetwork):
    def __init__(self, step):
        self.step = step

    def encode_state(self, *args, **kwargs):
        return self.do("encode", super().encode_state, *args, **kwargs)

    def collate(self, *args):
        return self.do("collate", super().collate, *args)

    def forward(self, *args):
        return self.do("forward", super().forward, *args)

    def do(self, step, work, *args, **kwargs):
        if step == self.step:
            raise RuntimeError("out of order")
        return work(*args, **kwargs)


def layout_of(states=("a", "b"), questions=QUESTIONS, network=None, capture="none", **options):
    agent = Agent("instant", network=network or InstantNetwork(), **options)
    lab = Lab(agent, capture=capture)
    with contextlib.suppress(LookupError, RuntimeError):  # a failed run is drawn as well
        lab.agent.predict_batch(list(states), questions, hooks=lab.recorder)
    return lab.lifecycle().layout


def taken(layout):
    return {(arrow.source, arrow.target) for arrow in layout.arrows if arrow.status == "done"}


def statuses(layout):
    return {box.id: box.status for box in layout.boxes}


def test_a_computed_run_takes_the_four_steps():
    layout = layout_of(hooks=[Shout()])
    assert taken(layout) == {
        ("call", "start"),
        ("start", "encode"),
        ("encode", "collate"),
        ("collate", "forward"),
        ("forward", "decode"),
        ("decode", "end"),
        ("end", "return"),
    }
    assert statuses(layout)["skip"] == statuses(layout)["error"] == "skipped"
    (line,) = layout.box("start").lines
    assert line.startswith("1. Shout (installed)")
    assert line.endswith("changed states")
    assert layout.box("call").lines == ("2 states × 2 questions",)


def test_a_skipped_run_takes_the_hooks_way():
    layout = layout_of(hooks=[Answer()])
    assert ("skip", "end") in taken(layout)
    assert ("start", "encode") not in taken(layout)
    assert {statuses(layout)[step] for step in ("encode", "collate", "forward", "decode")} == {
        "skipped"
    }
    assert "answered by a hook" in layout.alt


def test_an_error_is_shown_with_its_message_where_that_is_kept():
    network = RecordingNetwork(failing={"prepare": LookupError("no such thing")})
    for capture, shown in (("none", "LookupError"), ("text", "LookupError: no such thing")):
        assert layout_of(network=network, capture=capture).box("error").lines[0] == shown


def test_a_start_hook_that_raises_leads_to_on_error():
    layout = layout_of(hooks=[Broken()])
    assert {("start", "error"), ("error", "end")} <= taken(layout)
    assert statuses(layout)["start"] == statuses(layout)["return"] == "failed"
    assert layout.box("error").lines[0] == "LookupError"
    assert "raised LookupError" in layout.box("start").lines[0]


@pytest.mark.parametrize("step", ["encode", "collate", "forward"])
def test_a_failure_in_a_step_is_drawn_there(step):
    layout = layout_of(network=BrokenNetwork(step))
    found = statuses(layout)
    assert found[step] == "failed"
    order = ["encode", "collate", "forward", "decode"]
    assert [found[s] for s in order[: order.index(step)]] == ["done"] * order.index(step)
    assert {found[s] for s in order[order.index(step) + 1 :]} == {"skipped"}
    assert (step, "error") in taken(layout)


def test_a_refused_question_is_drawn_ahead_of_the_steps():
    lab = Lab(Agent("instant", network=InstantNetwork()))
    with pytest.raises(ValueError, match="unknown type"):
        lab.agent.predict_batch(["a"], {"q": {"type": "no"}}, hooks=lab.recorder)
    layout = lab.lifecycle().layout
    assert statuses(layout)["encode"] == "failed"
    assert ("encode", "error") in taken(layout)


def test_an_empty_call_takes_neither_way():
    layout = layout_of(questions={})
    assert ("start", "end") in taken(layout)
    assert layout.box("end").lines[0] == "empty: nothing was asked"
    assert "nothing was asked" in layout.alt
    (way,) = [a for a in layout.arrows if (a.source, a.target) == ("start", "end")]
    assert not any(box.x < way.at < box.x + box.width for box in layout.boxes[2:7])


def test_everything_lies_inside_the_picture_and_nothing_overlaps():
    layout = layout_of(hooks=[Shout(), Shout(), Shout()])
    check(layout)
    for box in layout.boxes:
        assert box.x >= 0
        assert box.x + box.width <= layout.width
        assert box.y + box.height <= layout.height
    for i, a in enumerate(layout.boxes):
        for b in layout.boxes[i + 1 :]:
            apart = (
                a.x + a.width <= b.x
                or b.x + b.width <= a.x
                or a.y + a.height <= b.y
                or b.y + b.height <= a.y
            )
            assert apart, (a.id, b.id)


def test_the_time_bar_adds_up_to_the_elapsed_time():
    layout = layout_of()
    assert {bar.label for bar in layout.bars} >= {"encode", "forward", "decode", "other"}
    run_ms = sum(bar.ms for bar in layout.bars)
    assert sum(bar.width for bar in layout.bars) == pytest.approx(layout.width - 48)
    assert f"{run_ms:.2f}"[:3] in layout.alt


# --- a router's run --------------------------------------------------------------------------


def lines_in(layout, box_id):
    return " | ".join(layout.box(box_id).lines)


def test_a_router_run_shows_its_route_its_load_and_the_run_inside():
    trace = asked(attached([Noisy()], own=[Noisy()]), ENGLISH)
    layout = lifecycle_layout(trace)
    check(layout)
    assert "→ english: the text is English" in lines_in(layout, "route")
    assert "1. Noisy (installed)" in lines_in(layout, "route")
    assert lines_in(layout, "load").startswith("no load or eviction was recorded: resident")
    assert "changed max_len" in lines_in(layout, "start")
    assert {"agent.start", "agent.encode", "agent.forward", "agent.end"} <= set(statuses(layout))
    assert "1 pass" in lines_in(layout, "agent.forward")
    assert {("start", "agent.start"), ("agent.end", "end")} <= taken(layout)
    assert ("start", "skip") not in taken(layout)
    (frame,) = layout.rects("nested")
    assert frame.label.startswith("inside: agent en-net")
    for box_id in ("agent.start", "agent.decode", "agent.end"):
        box = layout.box(box_id)
        assert frame.x < box.x
        assert box.x + box.width < frame.x + frame.width
        assert frame.y < box.y
        assert box.y + box.height < frame.y + frame.height


def test_a_load_and_what_had_to_go_are_told_in_the_order_that_hooks_see():
    trace = evicting()
    ids = runs_of(trace, scope="router")
    first, second = (lifecycle_layout(trace, each) for each in ids[:2])
    assert lines_in(first, "load").startswith("loaded english, built in")
    told = second.box("load").lines
    assert [line.split(",")[0].split(" (")[0] for line in told] == [
        "evicted english",
        "on_evict 1. Noisy",
        "loaded multilingual",
        "on_load 1. Noisy",
    ]
    assert "resident already" in lines_in(lifecycle_layout(trace, ids[3]), "load")


def test_how_many_requests_shared_the_pass_is_said():
    trace = asked(attached([Hit()]), ENGLISH, f"{ENGLISH} cached", ENGLISH, ENGLISH, GERMAN)
    english = runs_of(trace, scope="router", model="english")
    layout = lifecycle_layout(trace, english[0])
    check(layout)
    assert any(text.startswith("ONE call for 3 requests of this batch") for text in layout.texts)
    assert "one of 5 requests of call" in layout.subtitle
    assert "answered by the agent in one call for 3 requests" in layout.alt
    alone = lifecycle_layout(trace, runs_of(trace, scope="router", model="multilingual")[0])
    assert not any("ONE call" in text for text in alone.texts)
    hit = lifecycle_layout(trace, english[1])
    assert ("skip", "end") in taken(hit)
    assert statuses(hit)["agent"] == "skipped"
    assert "answered by a hook" in hit.alt


def test_which_of_several_passes_it_was_is_not_made_up():
    recorder = TraceRecorder()
    router = attached(own=[recorder]).agent
    others = {"q": Noul("Something else?")}
    requests = [{"state": ENGLISH, "questions": questions} for questions in (ONE, others) * 2]
    router.predict_batch(requests, hooks=recorder)
    layout = lifecycle_layout(recorder.trace)
    assert "one of 2 calls, for 2, 2 requests each" in lines_in(layout, "agent")
    assert "the trace does not say" in lines_in(layout, "agent")


def test_a_failure_inside_goes_through_both_on_error():
    failing = {"forward": RuntimeError("out of memory")}
    trace = asked(attached([Noisy()], failing, own=[Noisy()]), ENGLISH, ENGLISH)
    layout = lifecycle_layout(trace)
    check(layout)
    assert statuses(layout)["agent.forward"] == "failed"
    assert {("agent.forward", "agent.error"), ("agent.end", "error"), ("error", "end")} <= taken(
        layout
    )
    assert "1. Noisy (installed)" in lines_in(layout, "error")
    assert layout.box("return").title == "raises RuntimeError"


def test_an_end_hook_that_raises_is_what_the_call_ends_with():
    layout = lifecycle_layout(asked(attached([BrokenEnd()]), ENGLISH))
    assert layout.box("return").title == "raises the end hook's LookupError"
    assert "hooks_raise=False" in layout.box("return").lines[0]


def test_many_hooks_and_long_names_are_shortened_and_counted():
    class AHookWithAVeryLongNameThatSaysEverythingThatItDoesAndThenSomeMoreOfIt(Shout):
        pass

    long = AHookWithAVeryLongNameThatSaysEverythingThatItDoesAndThenSomeMoreOfIt()
    layout = layout_of(hooks=[long, *(Shout() for _ in range(20))])
    check(layout)
    lines = layout.box("start").lines
    assert len(lines) == 8
    assert "…" in lines[0]
    assert lines[0].endswith("changed states")
    assert lines[-1].startswith("and 14 more, ")
    assert lines[-1].endswith("changed states ×14")


@pytest.mark.parametrize("scope", ["route", "load", "evict"])
def test_a_route_a_load_and_an_eviction_have_one_event(scope):
    trace = evicting()
    layout = lifecycle_layout(trace, runs_of(trace, scope=scope)[0])
    check(layout)
    assert set(statuses(layout)) == {"call", "end", "return"}
    assert layout.box("end").title == f"on_{scope}"
    assert "1. Noisy (installed)" in lines_in(layout, "end")
    assert not layout.bars


def test_the_id_of_a_call_with_one_request_is_that_request():
    trace = asked(attached(), ENGLISH)
    (run,) = runs_of(trace, scope="router")
    assert lifecycle_layout(trace, trace.calls["call_id"].iloc[0]) == lifecycle_layout(trace, run)


def test_a_trace_over_laya_and_one_from_a_file_are_drawn_as_well(tmp_path):
    trace = asked(attached([Noisy()]), ENGLISH, ENGLISH, GERMAN)
    back = read_trace_csv(trace.to_csv(tmp_path / "trace.csv"))
    for run in [*trace.runs["run_id"], *trace.calls["call_id"]]:
        assert lifecycle_layout(back, run) == lifecycle_layout(trace, run)
    bare = as_of_laya(trace)
    for run in bare.runs["run_id"]:
        check(lifecycle_layout(bare, run))
    layout = lifecycle_layout(bare, runs_of(trace, scope="router")[0])
    assert "no run of the agent was recorded" in lines_in(layout, "agent")
    assert "the trace does not say" in lines_in(layout, "load")


def test_what_is_no_trace_is_refused():
    with pytest.raises(InvalidInput, match="takes a trace, got a DataFrame"):
        lifecycle_layout(attached().trace.runs)
