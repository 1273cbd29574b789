"""What a trace keeps of text: nothing by default, fingerprints, or redacted text."""

from __future__ import annotations

import contextlib
import copy
import json
import re
import warnings

import pytest
from fakes import RecordingNetwork

from jevlaya_lab import Agent, BaseHook, Choice, Noul, TraceRecorder
from jevlaya_lab.lab.inputs import same_states
from jevlaya_lab.system_one.context import PredictContext
from jevlaya_lab.system_one.errors import InvalidInput, InvalidOption, InvalidResult
from jevlaya_lab.system_one.hooks import HookRegistry
from jevlaya_lab.system_one.lifecycle import run
from jevlaya_lab.system_one.models.instant import InstantNetwork
from jevlaya_lab.tracing import exact_json
from jevlaya_lab.tracing.capture import Capture

QUESTIONS = {"q": Noul("Is it so?")}
CARD = re.compile(r"\d{4} ?\d{4} ?\d{4} ?\d{4}")


def traced(states, questions=QUESTIONS, hooks=(), network=None, **options):
    recorder = TraceRecorder(**options)
    agent = Agent("instant", network=network or InstantNetwork(), hooks=[*hooks, recorder])
    with contextlib.suppress(LookupError, InvalidInput):
        agent.predict_batch(states, questions)
    return recorder


def mask(text):
    return CARD.sub("[card]", text)


def kept(recorder):
    ((run, _),) = recorder.records()
    return run.captured, run.states, run.questions, run.results


def test_no_text_is_kept_unless_asked_for():
    recorder = traced(["a secret state"], {"q": Noul("a secret question")})
    assert kept(recorder) == ("none", None, None, None)
    assert "secret" not in repr(recorder.records())


def test_fingerprints_tell_equal_states_from_others():
    asked = ["one", "two", {"b": 1, "a": [2]}, {"a": [2], "b": 1}, '{"b": 1, "a": [2]}', ["one"]]
    recorder = traced([*asked, *copy.deepcopy(asked)], capture="hash")
    captured, states, questions, results = kept(recorder)
    prints = json.loads(states)
    first = prints[0]
    assert captured == "hash"
    assert prints[: len(asked)] == prints[len(asked) :]
    assert len(set(prints)) == len(asked) == len(set(same_states(asked, [])))
    assert len(first) == len(questions) == 32
    assert results is None
    assert "'one'" not in repr(recorder.records())


def test_fingerprints_of_two_recorders_differ_unless_they_share_a_key():
    """A short text could be found by trying many, if everyone used the same key."""
    assert kept(traced(["one"], capture="hash"))[1] != kept(traced(["one"], capture="hash"))[1]
    options = {"capture": "hash", "hash_key": b"ours"}
    assert kept(traced(["one"], **options)) == kept(traced(["one"], **options))


def test_text_is_kept_so_that_the_call_can_be_made_again():
    questions = {1: Choice("Which?", {"a": None, "b": "x"}), "é": Noul("So?")}
    states = ["text \x00é", {"n": 1.5, "deep": [True, None]}, ["turn", "turn"]]
    recorder = traced(states, questions, capture="text")
    ((run, _),) = recorder.records()
    assert run.captured == "text"
    assert exact_json.loads(run.states) == states
    assert exact_json.loads(run.questions) == questions
    assert list(exact_json.loads(run.results)[0]["answers"]) == [1, "é"]
    assert run.states.isascii()


def test_the_recorder_keeps_what_the_hooks_ahead_of_it_left():
    class Redact(BaseHook):
        def on_predict_start(self, ctx):
            ctx.states = [mask(state) for state in ctx.states]

    recorder = traced(["card 4111 1111 1111 1111"], hooks=[Redact()], capture="text")
    assert kept(recorder)[1] == '["card [card]"]'


def test_text_that_a_failed_hook_did_not_get_to_is_not_kept():
    class Fail(BaseHook):
        def on_predict_start(self, ctx):
            raise LookupError("no")

    recorder = traced(["card 4111 1111 1111 1111"], hooks=[Fail()], capture="text")
    assert kept(recorder) == ("none", None, None, None)
    recorder = traced(["card 4111 1111 1111 1111"], hooks=[Quote(str)], capture="text")
    assert recorder.records()[0].run.error_message is None


@pytest.mark.parametrize("capture", ["hash", "text"])
def test_redaction_comes_before_anything_is_kept(capture):
    numbers = {"4111 1111 1111 1111": "5500 0000 0000 0004", "n": 4111111111111111, "t": [True]}
    questions = {"q": Choice("Is it 4111 1111 1111 1111?", ["4111 1111 1111 1111", "no"])}
    recorder = traced([numbers], questions, capture=capture, redact=mask, hash_key=b"k")
    same = traced(
        [{"[card]": "[card]", "n": "[card]", "t": [True]}],
        {"q": Choice("Is it [card]?", ["[card]", "no"])},
        capture=capture,
        hash_key=b"k",
    )
    assert kept(recorder)[1:3] == kept(same)[1:3]
    assert "1111" not in "".join(filter(None, kept(recorder)))


def failing(text):
    raise ValueError(f"could not redact {text}")


@pytest.mark.parametrize("redact", [failing, lambda text: None, lambda text: text.encode()])
@pytest.mark.parametrize("capture", ["hash", "text"])
def test_a_redaction_that_fails_loses_the_text_and_says_so(capture, redact):
    recorder = TraceRecorder(capture=capture, redact=redact)
    agent = Agent("instant", network=InstantNetwork(), hooks=recorder)
    with pytest.warns(RuntimeWarning, match="text of a run was not kept") as caught:
        result = agent.predict("a secret state", QUESTIONS)
    agent.predict("a secret state", QUESTIONS)  # says it no second time
    assert len(caught) == 1
    assert "secret" not in str(caught[0].message)
    assert result["answers"]["q"]["type"] == "noul"
    assert [run.captured for run, _ in recorder.records()] == ["lost", "lost"]
    assert "secret" not in repr(recorder.records())
    assert recorder.n_lost == 2
    assert "2 lost" in repr(recorder)


@pytest.mark.parametrize("capture", ["hash", "text"])
@pytest.mark.parametrize("number", ["5500 0000 0000 0004", 5500000000000004])
def test_a_redaction_that_makes_two_keys_equal_loses_the_text(capture, number):
    """One of the two values would be gone without a sign."""
    state = {"deep": [{"4111 1111 1111 1111": 1, number: 2}]}
    with pytest.warns(RuntimeWarning, match="redacting or writing it raised ValueError"):
        recorder = traced([state], capture=capture, redact=mask)
    assert kept(recorder) == ("lost", None, None, None)
    assert recorder.n_lost == 1


def test_results_that_cannot_be_redacted_take_the_states_with_them():
    class Leave(BaseHook):
        def on_predict_end(self, ctx):
            ctx.results = [{"answers": {"q": {"type": "noul", "noul": 0.5, "note": {"set"}}}}]

    with pytest.warns(RuntimeWarning, match="writing it raised TypeError"):
        recorder = traced(["a state"], hooks=[Leave()], capture="text")
    assert kept(recorder) == ("lost", None, None, None)


class Quote(BaseHook):
    def __init__(self, form, raises=LookupError):
        self.form = form
        self.raises = raises

    def on_predict_start(self, ctx):
        raise self.raises(f"cannot read {self.form(ctx.states[0])} at all")


def in_other_words(text):
    return f"{text[:9]} ..."


@pytest.mark.parametrize("form", [str, repr, json.dumps, in_other_words])
@pytest.mark.parametrize("raises", [LookupError, InvalidResult])
@pytest.mark.parametrize("capture", ["none", "hash"])
def test_of_an_error_of_others_only_the_type_is_noted(form, raises, capture):
    """What a hook writes can be any part of a state: a key, a number, the first words."""
    ((run, _),) = traced(["my secret"], hooks=[Quote(form, raises)], capture=capture).records()
    assert (run.error_type, run.error_message) == (raises.__name__, None)
    assert Capture().message(InvalidOption("never raised"), "never raised", []) is None


class Wrong(BaseHook):
    """Makes the package raise an error of its own that names what it is given."""

    def __init__(self, form, states=None):
        self.form = form
        self.states = states

    def on_predict_start(self, ctx):
        text = self.form(ctx.states[0])
        if self.states is not None:
            ctx.states = self.states
        Capture(text)


SECRETS = [
    "my secret",
    'say "secret"\nand é',
    ["a turn", {"k": "secret"}],
    {"secret": 1.25},
    {"secret": {"deep secret": [12345678]}},
]


@pytest.mark.parametrize(
    "form", [str, repr, json.dumps, lambda state: json.dumps(state, ensure_ascii=False)]
)
@pytest.mark.parametrize("state", SECRETS)
@pytest.mark.parametrize("later", [None, ["masked"]])
def test_an_error_of_ours_that_quotes_a_state_is_noted_without_it(form, state, later):
    ((run, _),) = traced([state], hooks=[Wrong(form, later)]).records()
    assert run.error_type == "InvalidOption"
    assert "capture must be" in run.error_message
    assert "[state]" in run.error_message
    assert "secret" not in run.error_message
    assert "1.25" not in run.error_message
    assert "12345678" not in run.error_message


def test_an_error_that_quotes_a_state_of_another_run_is_noted_without_it():
    """L-27: runs that share their work fail together, with the error of one of them."""
    recorder = TraceRecorder()
    hooks = HookRegistry(hooks=[recorder]).active_hooks()

    def work(contexts):
        Capture(contexts[0].states[0])

    with pytest.raises(InvalidOption):
        run([PredictContext([f"secret {i}"], QUESTIONS) for i in range(3)], hooks, work)
    messages = [record.run.error_message for record in recorder.records()]
    assert messages == ["capture must be 'none', 'hash' or 'text', got '[state]'"] * 3


def test_an_error_message_is_redacted_as_well():
    network = RecordingNetwork(failing={"prepare": LookupError("card 4111 1111 1111 1111 fails")})
    ((run, _),) = traced(["x"], network=network, redact=mask, capture="text").records()
    assert run.error_message == "card [card] fails"
    ((run, _),) = traced(["x"], network=network, redact=mask).records()
    assert (run.error_type, run.error_message) == ("LookupError", None)
    ours = Wrong(lambda state: "4111 1111 1111 1111")
    ((run, _),) = traced(["x"], hooks=[ours], redact=mask).records()
    assert run.error_message.endswith("got '[card]'")
    with pytest.warns(RuntimeWarning, match="redacting or writing it raised ValueError"):
        recorder = traced(["x"], hooks=[ours], redact=failing)
    assert recorder.records()[0].run.error_message is None


def test_without_text_to_keep_a_redaction_never_runs():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert kept(traced(["a state"], redact=failing)) == ("none", None, None, None)
