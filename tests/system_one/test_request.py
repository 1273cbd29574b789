"""Bad requests are refused before anything is routed or loaded, by their number."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest
from fakes import QUESTIONS, RouterRecorder, StubRouter

from jevlaya_lab.system_one.errors import (
    InvalidOption,
    InvalidQuestion,
    InvalidRequest,
    InvalidState,
    UnknownCheckpoint,
)
from jevlaya_lab.system_one.router import Router

GOOD = {"state": "s", "questions": QUESTIONS}


@pytest.mark.parametrize(
    ("requests", "error", "message"),
    [
        ("text", InvalidRequest, "takes a list of requests.*got a str"),
        (None, InvalidRequest, "got a NoneType"),
        (7, InvalidRequest, "got a int"),
        (GOOD, InvalidRequest, r"got one dict; write \[request\]"),
        ([GOOD, "text"], InvalidRequest, "request 1: a request is a dict.*got str"),
        ([{"questions": QUESTIONS}], InvalidRequest, "request 0: it has no 'state'"),
        (
            [GOOD, {"state": "s", "question": {}}],
            InvalidRequest,
            "request 1: it has no 'questions'",
        ),
        ([{**GOOD, "state": None}], InvalidState, "request 0: the state is None"),
        ([{**GOOD, "questions": None}], InvalidQuestion, "request 0: .*got None"),
        ([{**GOOD, "questions": ["q"]}], InvalidQuestion, "request 0: .*got a list"),
        (
            [{**GOOD, "modle": "english"}],
            InvalidRequest,
            "request 0: .*'modle'; did you mean 'model'",
        ),
        (
            [GOOD, {**GOOD, "model": "englich"}],
            UnknownCheckpoint,
            "request 1: no checkpoint 'englich'.*did you mean 'english'",
        ),
        ([{**GOOD, "task": "nothing"}], UnknownCheckpoint, "request 0: no checkpoint 'nothing'"),
        ([{**GOOD, "model": 7}], UnknownCheckpoint, "request 0: a checkpoint's name is text"),
        ([{**GOOD, "max_len": "long"}], InvalidOption, "request 0: max_len must be a whole number"),
        ([{**GOOD, "max_len": 7}], InvalidOption, "request 0: max_len .*at least 8, got 7"),
        ([{**GOOD, "head_max_len": True}], InvalidOption, "request 0: head_max_len"),
        ([{**GOOD, "lang": 7}], InvalidOption, "request 0: lang must be a language code"),
        ([{**GOOD, "lang_guess": 7}], InvalidOption, "request 0: lang_guess is a language code"),
    ],
)
def test_a_bad_request_is_refused_by_its_number(
    requests: Any, error: type[Exception], message: str
) -> None:
    log: list[str] = []
    router = StubRouter(log, hooks=RouterRecorder(log))

    for call in (router.predict_batch, router.route_batch):
        with pytest.raises(error, match=message):
            call(requests)

    assert log == []
    assert router.loaded == []


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"state": None}, InvalidState, "^the state is None"),
        ({"questions": None}, InvalidQuestion, "^questions must be a dict.*got None"),
        ({"model": "nobody"}, UnknownCheckpoint, "^no checkpoint 'nobody'"),
        ({"max_len": 0}, InvalidOption, "^max_len"),
        ({"min_confidence": 2}, InvalidOption, "min_confidence"),
        ({"lang_guess": 3}, InvalidOption, "lang_guess"),
        ({"hooks_timeout": -1}, InvalidOption, "hooks_timeout"),
    ],
)
def test_predict_refuses_the_same(
    arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    log: list[str] = []
    router = StubRouter(log, hooks=RouterRecorder(log))

    with pytest.raises(error, match=message):
        router.predict(**{"state": "s", "questions": QUESTIONS} | arguments)

    assert log == []


def test_options_of_a_batch_are_checked_first() -> None:
    log: list[str] = []
    router = StubRouter(log, hooks=RouterRecorder(log))

    for bad in ({"batch_size": 0}, {"min_confidence": "high"}):
        with pytest.raises(InvalidOption):
            router.predict_batch([GOOD], **bad)

    assert log == []


def test_other_keys_are_left_alone_and_any_iterable_of_mappings_will_do() -> None:
    router = StubRouter()
    requests = (MappingProxyType({**GOOD, "id": i, "meta": {"a": 1}}) for i in range(2))

    assert [r["answers"]["of"] for r in router.predict_batch(requests)] == ["s", "s"]


def test_a_question_that_no_hook_could_mend_is_refused_before_the_checkpoint_is_built() -> None:
    bad = {"q": {"type": "chioce", "instructions": "x"}}
    log: list[str] = []
    router = StubRouter(log)

    with pytest.raises(InvalidQuestion, match=r"^question 'q'"):
        router.predict("s", bad)
    with pytest.raises(InvalidQuestion, match=r"^request 1: question 'q'"):
        router.predict_batch([GOOD, {"state": "s", "questions": bad}])
    with pytest.raises(InvalidState, match=r"^request 0: state 0"):
        router.predict_batch([{"state": {1, 2}, "questions": QUESTIONS}])
    assert log == []

    def mend(ctx: Any) -> None:
        ctx.questions = QUESTIONS

    router.predict("s", bad, on_predict_start=mend)
    assert log == ["build english", "english.system_one"]


@pytest.mark.parametrize("value", [0, -1, 1.5, True, None, "2"])
def test_max_loaded_is_a_whole_number_of_at_least_one(value: Any) -> None:
    with pytest.raises(InvalidOption, match="max_loaded"):
        Router(max_loaded=value)
    router = Router()
    with pytest.raises(InvalidOption, match="max_loaded"):
        router.max_loaded = value
    assert router.max_loaded == 2
