"""The routing policy: which hint decides, and what the decision says."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest

from jevlaya_lab.system_one.errors import InvalidOption, UnknownCheckpoint
from jevlaya_lab.system_one.registry import Source
from jevlaya_lab.system_one.routing import (
    WORKFLOWS,
    Hints,
    Policy,
    RouteDecision,
    decide,
    is_english_code,
    workflow_of,
)

ENGLISH = "I was charged twice and would like to have my money back, please."
GERMAN = "Mein Konto wurde zweimal belastet, und ich möchte mein Geld zurück."
TICKET = {key: {"type": "noul", "instructions": "x"} for key in WORKFLOWS["customer_service"]}

SOURCES = {
    "english": Source("org/laya"),
    "multilingual": Source("org/laya", "multilingual"),
    "typed-decisions": Source("folder"),
}
ALIASES = {"ml": "multilingual", "typed_decisions": "typed-decisions"}


def _resolve(name: Any) -> str:
    key = ALIASES.get(name, name)
    if key not in SOURCES:
        raise UnknownCheckpoint(f"no checkpoint {name!r}")
    return str(key)


def route(state: Any, questions: Any = None, **given: Any) -> RouteDecision:
    settings = {key: given.pop(key) for key in list(given) if key in Policy._fields}
    hints = Hints(**given)
    policy = Policy(
        **{"resolve": _resolve, "source_of": SOURCES.get, "default": "english"} | settings
    )
    return decide(state, questions or {}, hints, policy)


def installed(state: Any, guess: Any, **given: Any) -> RouteDecision:
    policy = Policy(_resolve, SOURCES.get, "english", lang_guess=guess)
    return decide(state, {}, Hints(**given), policy)


@pytest.mark.parametrize(
    ("given", "model", "reason"),
    [
        ({"model": "ml", "task": "english", "lang": "en"}, "multilingual", "explicit model='ml'"),
        (
            {"task": "typed_decisions", "lang": "en"},
            "typed-decisions",
            "explicit task='typed_decisions'",
        ),
        (
            {"auto_task_detection": True, "lang": "en", "questions": TICKET},
            "typed-decisions",
            "the question ids are those of the 'customer_service' workflow",
        ),
        ({"lang": "en-GB", "lang_guess": "de"}, "english", "explicit lang='en-GB'"),
        ({"lang": "fr", "lang_guess": "en"}, "multilingual", "explicit lang='fr'"),
        ({"lang_guess": "en"}, "english", "lang_guess says 'en'"),
        ({"lang_guess": lambda state: "de"}, "multilingual", "lang_guess says 'de'"),
        ({"lang": "und", "lang_guess": lambda state: None}, "multilingual", "reads as 'de'"),
    ],
)
def test_the_first_hint_that_says_something_decides(
    given: dict[str, Any], model: str, reason: str
) -> None:
    """L-12: model, task, workflow, lang, lang_guess, then what the state is written in."""
    decision = route(GERMAN, **given)

    assert decision.model == model
    assert reason in decision.reason


def test_an_installed_guess_comes_after_that_of_the_call_and_before_the_detection() -> None:
    assert installed(GERMAN, "en").model == "english"
    assert installed(GERMAN, "en", lang_guess="de").model == "multilingual"
    assert installed(GERMAN, lambda state: "en" if state == GERMAN else None).model == "english"
    assert installed(GERMAN, "").model == "multilingual"
    assert "the Router's lang_guess says 'en'" in installed(GERMAN, "en").reason


def test_a_guess_is_not_asked_where_something_before_it_decides() -> None:
    def guess(_: Any) -> str:
        raise AssertionError("was asked")

    assert route(GERMAN, model="ml", lang_guess=guess).model == "multilingual"
    assert route(GERMAN, lang="en", lang_guess=guess).model == "english"


@pytest.mark.parametrize(
    ("state", "model", "reason"),
    [
        (ENGLISH, "english", "the text is English"),
        (GERMAN, "multilingual", "the text reads as 'de', not English"),
        ({"message": GERMAN, "id": "A-17"}, "multilingual", "reads as 'de'"),
        ([{"role": "user", "content": ENGLISH}], "english", "the text is English"),
        ("返金をお願いします。二重に請求されました。", "multilingual", "Hiragana"),
        ("Σας παρακαλώ να μου επιστρέψετε τα χρήματα.", "multilingual", "100 % of the letters"),
        (f"{ENGLISH} {GERMAN}", "multilingual", "a part of the text is English, a part reads as"),
        ("", "english", "there is no text to tell a language by; using the default, 'english'"),
        ("12345 ✓", "english", "no text to tell a language by"),
        ("ok", "english", "the language cannot be told; using the default, 'english'"),
    ],
)
def test_the_text_decides(state: Any, model: str, reason: str) -> None:
    decision = route(state)

    assert decision.model == model
    assert reason in decision.reason


def test_what_cannot_be_told_goes_to_the_default() -> None:
    assert route("ok", default="multilingual").model == "multilingual"


def test_a_workflow_is_named_but_decides_only_where_that_is_switched_on() -> None:
    quiet = route(ENGLISH, questions=TICKET)

    assert (quiet.model, quiet.workflow) == ("english", "customer_service")
    assert workflow_of({**TICKET, "more": {}}) is None
    assert workflow_of({}) is None
    assert all(workflow_of(dict.fromkeys(ids)) == name for name, ids in WORKFLOWS.items())


@pytest.mark.parametrize(
    ("code", "english"),
    [
        *((code, True) for code in ("en", "EN", " en-US ", "en_US.UTF-8", "eng", "English")),
        *((code, False) for code in ("de", "zh-Hant", "pt_BR.UTF-8", "enm")),
        *((code, None) for code in ("", "  ", "C", "C.UTF-8", "POSIX", "und", "zxx", None)),
    ],
)
def test_codes_that_name_no_language_say_nothing(code: str | None, english: bool | None) -> None:
    assert is_english_code(code) is english


@pytest.mark.parametrize("guess", [lambda state: 7, lambda state: b"de"])
def test_a_guess_of_a_wrong_kind_is_refused(guess: Any) -> None:
    with pytest.raises(InvalidOption, match="lang_guess takes a language code"):
        route(ENGLISH, lang_guess=guess)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(UnknownCheckpoint):
        route(ENGLISH, model="nobody")


def test_the_decision_says_what_was_seen() -> None:
    plain = route(GERMAN).detection
    policy = Policy(_resolve, SOURCES.get, "english")
    explained = decide(GERMAN, {}, Hints(), policy, explain=True).detection

    assert plain is not None
    assert explained is not None
    assert (plain["script"], plain["language"], plain["is_english"]) == ("latin", "de", False)
    assert plain["language_undecided"] is False
    assert "scripts" not in plain
    assert explained["scripts"] == {"Latin": 1.0}
    assert explained["n_letters"] == sum(map(str.isalpha, GERMAN))
    assert explained["reason"]
    assert plain.items() <= explained.items()
    assert route(GERMAN, lang="de").detection is None


def test_a_stand_in_says_so() -> None:
    policy = Policy(_resolve, lambda name: Source("embedded", stand_in=True), "english")
    decision = decide(GERMAN, {}, Hints(), policy)

    assert decision.stand_in is True
    assert "stand-in answers, its weights are English-trained" in decision.reason
    assert route(GERMAN).stand_in is False
    assert "stand-in" not in route(GERMAN).reason


def test_a_decision_is_a_dict_that_can_be_read_by_attribute() -> None:
    decision = route(GERMAN)

    assert decision["model"] == decision.model == "multilingual"
    assert decision.repo == "org/laya/multilingual"
    assert json.loads(json.dumps(decision)) == decision
    assert pickle.loads(pickle.dumps(decision)) == copy.deepcopy(decision) == decision
    assert repr(decision).startswith("RouteDecision(model='multilingual', reason=\"the text reads")
    with pytest.raises(AttributeError, match="has no 'modle'"):
        _ = decision.modle


def test_an_attached_agent_has_no_repo() -> None:
    policy = Policy(lambda name: str(name), lambda name: None, "english")
    decision = decide(GERMAN, {}, Hints(model="mine"), policy)

    assert (decision.repo, decision.stand_in) == (None, False)


def test_the_same_input_gives_the_same_decision() -> None:
    assert route(GERMAN) == route(GERMAN)


@pytest.mark.parametrize(
    "state",
    [
        f"(Weitergeleitet) {GERMAN}",
        "[URGENT] Ich warte seit Wochen auf mein Paket.",
        f"{GERMAN[:-1]};",
        f"Betreff={GERMAN}",
        "(Вопрос) Где мой заказ?",
        "[图片] 我的订单在哪里？",
        f'  {{"text": "{GERMAN}"}}',
        f'\ufeff{{"text": "{GERMAN}"}}',
        f'{{"text": "{GERMAN}"}}\n{{"text": "{GERMAN}"}}',
        GERMAN.replace(" ", "\xa0"),
    ],
)
def test_prose_in_brackets_or_json_by_lines_is_read(state: str) -> None:
    assert route(state).model == "multilingual"


@pytest.mark.parametrize(
    "code", ["x = foo(bar);", "});", "{", "total = price * quantity", "[1, 2, 3]", "foo(a, b) {"]
)
def test_code_says_nothing_of_a_language(code: str) -> None:
    assert "no text to tell a language by" in route(code).reason


def test_a_key_can_be_set_by_attribute_and_a_copy_stays_a_decision() -> None:
    decision = route(GERMAN)
    decision.model = "english"

    assert decision["model"] == decision.copy().model == "english"
