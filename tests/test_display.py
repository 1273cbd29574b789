"""What objects show of themselves in a notebook: short text, and HTML in which nothing can run."""

from __future__ import annotations

import re

import pandas as pd
import pytest
from fakes import make_agent

from jevlaya_lab import Agent, Choice, Lab, RouteDecision, Router
from jevlaya_lab.markup import Markup, card, facts, safely, table, text
from jevlaya_lab.system_one.models.instant import InstantNetwork

ATTACKS = (
    "<script>ran('script')</script>",
    "<img src=x onerror=\"ran('img')\">",
    "\"><svg onload=ran('svg')>",
    "' onmouseover='ran(1)' x='",
    "<iframe srcdoc=\"<script>parent.ran('iframe')</script>\"></iframe>",
    "</td></table></div><script>ran('closed')</script>",
    "<a href=javascript:ran('link')>x</a><style>*{display:none}</style>",
    "<base href=https://example.org/><link rel=stylesheet href=https://example.org/x.css>",
)


class Named(InstantNetwork):
    """A network that says dangerous things of itself."""

    def __init__(self, name: str) -> None:
        self.name = name

    def info(self):
        return {"architecture": self.name, "encoder": self.name, "device": self.name}


def shown_objects(evil: str) -> dict[str, object]:
    """One object of each kind, with the same text wherever a user's text can be."""
    hook = type(evil, (), {"on_predict_start": lambda self, ctx: None})()
    agent = Agent(evil, network=Named(evil), hooks=hook)
    router = Router(hooks=hook)
    router.attach("english", Agent("x", network=InstantNetwork()))
    router.register("mine", f"folder/{evil}", description=evil)
    lab = Lab(agent, capture="text")
    labels = {evil: evil, "other": "o"}
    lab.predict([evil], {evil: Choice(evil, labels)}, detail=True)

    def fail(ctx):
        raise ValueError(evil)

    with pytest.raises(ValueError, match=r"."):
        lab.predict([evil], {"q": Choice("?", labels)}, on_predict_start=fail)
    decision = RouteDecision(
        model=evil, repo=evil, reason=evil, detection={evil: evil}, workflow=evil, stand_in=True
    )
    return {
        "agent": agent,
        "router": router,
        "lab": lab,
        "trace": lab.trace,
        "decision": decision,
        "fallback": Broken(evil),
    }


class Broken:
    """An object whose HTML cannot be made."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name

    def _repr_html_(self) -> str:
        return safely(self, lambda _: Markup(1 / 0))


def tags(html: str) -> set[str]:
    return set(re.findall(r"<(\w+)", html))


@pytest.mark.parametrize("evil", ATTACKS)
def test_only_tags_of_our_own_are_in_the_html(evil):
    for name, shown in shown_objects(evil).items():
        html = shown._repr_html_()
        own = {"div", "b", "bdi", "table", "thead", "tbody", "tr", "th", "td", "details", "summary"}
        assert tags(html) <= (own if name != "fallback" else {"pre", "bdi"}), name
        assert "http" not in re.sub("https://example.org", "", html), name
        html.encode()


def test_every_object_says_what_matters():
    lab = Lab(make_agent())
    lab.predict(["a", "b"], {"team": Choice("?", ["alpha", "beta"])})
    html = lab._repr_html_()
    for part in ("Agent", "instant", "last answers: 2 rows", "alpha", "1 runs recorded"):
        assert part in html
    assert repr(lab) == (
        "Lab(Agent('test', instant, hooks=[]), TraceRecorder(1 runs kept, 0 dropped))"
    )
    router = Router()
    html = router._repr_html_()
    for part in ("english", "multilingual", "typed-decisions", "0 of at most 2", "stand-in"):
        assert part in html
    decision = router.route("Wo bleibt mein Paket, ich warte schon seit drei Wochen?")
    assert "multilingual" in decision._repr_html_()
    assert "detector" in decision._repr_html_()
    assert "<script" not in RouteDecision()._repr_html_()
    assert "nothing was recorded" in Lab(make_agent()).trace._repr_html_()


def test_a_long_trace_shows_its_end():
    lab = Lab(make_agent())
    lab.predict([f"a{i}" for i in range(20)], {"q": Choice("?", ["x"])}, chunk_size=1)
    html = lab.trace._repr_html_()
    assert "20 calls, 20 runs, 40 events" in html
    assert "the last 8 of 20 runs" in html
    assert "the first 5 of 20 rows" in lab._repr_html_()


def test_a_lab_around_something_else_shows_its_text():
    class Foreign:
        def predict_batch(self, states, questions, **_):
            return []

        def __repr__(self):
            return "<b>mine</b>"

        def _repr_html_(self):
            return "<script>ran('foreign')</script>"

    html = Lab(Foreign())._repr_html_()
    assert "&lt;b&gt;mine" in html
    assert "<script" not in html


def test_texts_that_a_notebook_file_cannot_hold_are_replaced():
    shown = text("a\ud800b\x00c\r\nd")
    assert shown == "<bdi>a�b�c\nd</bdi>"
    assert text("x" * 300, 10) == f"<bdi>{'x' * 9}…</bdi>"
    assert text(None) == "–"

    class Mute:
        def __str__(self):
            raise RuntimeError

    assert text(Mute()) == "<bdi>&lt;Mute&gt;</bdi>"
    assert "mathjax_ignore" in card("Agent", "$5 and $6$")
    assert table(["a"], []) == ""
    assert facts([("a", None)]).count("<tr>") == 0


def test_frames_of_odd_shapes_are_shown():
    lab = Lab(make_agent())
    index = pd.MultiIndex.from_tuples([("<b>", 1)])
    lab.predict(pd.Series(["a"], index=index), {})
    assert "&lt;b&gt;" in lab._repr_html_()
    lab.predict([], {"q": Choice("?", ["x"])})
    assert "last answers: 0 rows" in lab._repr_html_()
