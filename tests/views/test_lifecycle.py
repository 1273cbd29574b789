"""The lifecycle diagram as data: which way is drawn as taken, and what the boxes say."""

from __future__ import annotations

import contextlib
import io

import pytest
from fakes import RecordingNetwork
from PIL import Image

from jevlaya_lab import Agent, BaseHook, Choice, Lab, Noul
from jevlaya_lab.system_one.models.instant import InstantNetwork
from jevlaya_lab.views.picture import Picture

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
    assert "nothing was asked" in layout.alt


def test_everything_lies_inside_the_picture_and_nothing_overlaps():
    layout = layout_of(hooks=[Shout(), Shout(), Shout()])
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


def test_a_picture_is_written_as_png_svg_or_html(tmp_path):
    with pytest.raises(ValueError, match=r"ends in .png, .svg or .html, not .*x\.gif"):
        Picture(layout_of()).save(tmp_path / "x.gif")


def test_the_picture_is_a_png_with_its_description(tmp_path):
    picture = Picture(layout_of())
    path = picture.save(tmp_path / "deep" / "lifecycle.png")
    image = Image.open(path)
    assert image.format == "PNG"
    assert image.width == 2 * picture.layout.width
    assert image.text["Description"] == picture.alt
    data, _ = picture._repr_mimebundle_()
    assert Image.open(io.BytesIO(data["image/png"])).size == image.size
    assert data["text/plain"] == picture.alt
