"""Question definitions: what is accepted, what is refused, and when."""

from __future__ import annotations

import copy
import json
import pickle
from types import MappingProxyType
from typing import Any

import pytest
from fakes import Recorder, RecordingNetwork, make_agent
from hypothesis import given
from hypothesis import strategies as st

from jevlaya_lab.system_one.errors import InvalidInput, InvalidQuestion, JevlayaError
from jevlaya_lab.system_one.questions import Choice, Noul, Question, Score, prepare, render


def choice(**parts: Any) -> dict[str, Any]:
    return {"type": "choice", "instructions": "Which?", "criteria": ["a", "b"], **parts}


def score(**parts: Any) -> dict[str, Any]:
    return {"type": "score", "instructions": "How much?", "criteria": ["low", "high"], **parts}


def noul(**parts: Any) -> dict[str, Any]:
    return {"type": "noul", "instructions": "Is it so?", **parts}


def without(definition: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in definition.items() if name != key}


CYCLE: list[Any] = []
CYCLE.append(CYCLE)

# What is wrong, by name: the definition, a pattern for the problem and one for the remedy.
WRONG: dict[str, tuple[Any, str, str]] = {
    "no dict": ("Which?", "definition is a str", "give a dict"),
    "no definition": (None, "definition is missing", "give a dict"),
    "a list": ([choice()], "definition is a list", "give a dict"),
    "no type": (without(choice(), "type"), "unknown type None", 'use "choice", "score" or "noul"'),
    "unknown type": (choice(type="multi"), "unknown type 'multi'", 'use "choice"'),
    "type in capitals": (choice(type="Choice"), "unknown type 'Choice'", 'use "choice"'),
    "unhashable type": (choice(type=["choice"]), r"unknown type \['choice'\]", 'use "choice"'),
    "misspelt key": (choice(criterai=["a"]), "unknown key 'criterai'", "did you mean 'criteria'"),
    "misspelt instructions": (
        {"type": "noul", "instruction": "Is it?"},
        "unknown key 'instruction'",
        "did you mean 'instructions'",
    ),
    "no instructions": (without(noul(), "instructions"), "no instructions", "say under"),
    "instructions are null": (noul(instructions=None), "no instructions", "say under"),
    "instructions are empty": (noul(instructions=""), "no instructions", "say under"),
    "instructions are an empty list": (noul(instructions=[]), "no instructions", "say under"),
    "instructions are blank": (noul(instructions=" \n\t"), "instructions are blank", "say under"),
    "instructions are a bool": (noul(instructions=True), "instructions are a bool", "give text"),
    "instructions are bytes": (noul(instructions=b"Is?"), "instructions are a bytes", "give text"),
    "instructions are no JSON": (noul(instructions=[{1}]), "cannot be written as JSON", "plain"),
    "instructions in a cycle": (noul(instructions=CYCLE), "cannot be written as JSON", "plain"),
    "instructions hold half a character": (
        noul(instructions="Is \ud800 it?"),
        "instructions cannot be written as JSON text",
        "give text",
    ),
    "no options": (
        without(choice(), "criteria"),
        "criteria of a choice are missing",
        "give a dict",
    ),
    "options are a string": (
        choice(criteria="ab"),
        "criteria of a choice are a str",
        "give a dict",
    ),
    "options are a number": (choice(criteria=7), "of a choice are an int", "give a dict"),
    "options are a set": (choice(criteria={"a"}), "criteria of a choice are a set", "give a dict"),
    "options are an empty list": (choice(criteria=[]), "without options", "at least one label"),
    "options are an empty dict": (choice(criteria={}), "without options", "at least one label"),
    "empty label": (choice(criteria=["a", ""]), "label 1 is empty", "give every option a name"),
    "blank label": (choice(criteria={" ": "x"}), "label 0 is empty", "give every option a name"),
    "null label": (choice(criteria=["a", None]), "label 1 is null", "give every option a string"),
    "null label in a dict": (choice(criteria={None: "x"}), "label 0 is null", "give every option"),
    "unhashable label": (choice(criteria=["a", ["b"]]), "label 1 is a list", "give a string"),
    "dict as a label": (choice(criteria=[{"a": 1}]), "label 0 is a dict", "its description"),
    "tuple as a label": (choice(criteria=[("a", "b")]), "label 0 is a tuple", "give a string"),
    "label is not a number": (choice(criteria=[float("nan"), 1]), "label 0 is nan", "finite"),
    "infinite label": (choice(criteria=[float("-inf"), 1]), "label 0 is -inf", "finite"),
    "label is half a character": (
        choice(criteria=["a", "\ud800"]),
        "label 1 cannot be written",
        "give text",
    ),
    "same label twice": (
        choice(criteria=["a", "b", "a"]),
        r"label 2 \('a'\) repeats label 0",
        "own",
    ),
    "1 and True": (choice(criteria=[1, True]), r"label 1 \(True\) repeats label 0", "are one key"),
    "1 and 1.0": (choice(criteria=[1, 1.0]), r"label 1 \(1.0\) repeats label 0", "are one key"),
    "0.0 and False": (choice(criteria=["x", 0.0, False]), "repeats label 1", "are one key"),
    "1 and '1'": (
        choice(criteria=[1, "1"]),
        r"label 1 \('1'\) repeats label 0",
        "a text of its own",
    ),
    "True and 'True'": (
        choice(criteria={"True": 0, True: 1}),
        "repeats label 0",
        "a text of its own",
    ),
    "description is no JSON": (
        choice(criteria={"a": {1, 2}}),
        "option 'a' cannot be written",
        "plain",
    ),
    "labels on a choice": (choice(labels={"true": "y"}), "labels' is for noul", "name the options"),
    "no levels": (without(score(), "criteria"), "criteria of a score are missing", "give a list"),
    "levels in a dict": (
        score(criteria={"0": "low"}),
        "criteria of a score are a dict",
        "give a list",
    ),
    "levels are a string": (score(criteria="low"), "criteria of a score are a str", "give a list"),
    "levels are empty": (score(criteria=[]), "without levels", "at least one level"),
    "empty level": (score(criteria=["low", ""]), "level 1 has no description", "describe every"),
    "blank level": (score(criteria=[" ", "high"]), "level 0 has no description", "describe every"),
    "null level": (score(criteria=["low", None]), "level 1 has no description", "describe every"),
    "level is no JSON": (score(criteria=[object()]), "level 0 cannot be written", "plain JSON"),
    "labels on a score": (score(labels={"true": "y"}), "labels' is for noul", "name the options"),
    "noul criteria in a list": (
        noul(criteria=["no"]),
        "criteria of a noul are a list",
        "give a dict",
    ),
    "noul criteria are a string": (
        noul(criteria="x"),
        "criteria of a noul are a str",
        "leave it out",
    ),
    "wrong criterion": (
        noul(criteria={"yes": "x"}),
        "no criterion 'yes'",
        "keyed 'true' and 'false'",
    ),
    "number as a criterion": (
        noul(criteria={1: "x"}),
        "no criterion 1",
        "keyed 'true' and 'false'",
    ),
    "criterion twice": (
        noul(criteria={True: "x", "true": "y"}),
        "'true' is given twice",
        "keep one",
    ),
    "criterion is no JSON": (
        noul(criteria={"true": {1}}),
        "criterion 'true' cannot be",
        "plain JSON",
    ),
    "labels are a list": (noul(labels=["no", "yes"]), "bad labels", "two different words"),
    "labels are the keys": (noul(labels=["false", "true"]), "bad labels", "two different words"),
    "one label": (noul(labels={"true": "yes"}), "bad labels", "two different words"),
    "three labels": (noul(labels={"true": "y", "false": "n", "x": "?"}), "bad labels", "two diff"),
    "label words are equal": (noul(labels={"true": "x", "false": "x "}), "bad labels", "two diff"),
    "label word is blank": (
        noul(labels={"true": " ", "false": "n"}),
        "bad labels",
        "two different",
    ),
    "label word is no word": (noul(labels={"true": 1, "false": 0}), "bad labels", "two different"),
    "label word is half a character": (
        noul(labels={"true": "\ud800", "false": "n"}),
        "a label cannot be written",
        "give text",
    ),
    "order too short": (
        choice(option_order=[0]),
        r"not a permutation of range\(2\)",
        "exactly once",
    ),
    "order too long": (choice(option_order=[0, 1, 2]), "not a permutation", "exactly once"),
    "order twice the same": (score(option_order=[0, 0]), "not a permutation", "exactly once"),
    "order from 1": (noul(option_order=[1, 2]), "not a permutation", "exactly once"),
    "order of bools": (noul(option_order=[False, True]), "not a permutation", "exactly once"),
    "order of floats": (choice(option_order=[0.0, 1.0]), "not a permutation", "exactly once"),
    "order of labels": (choice(option_order=["b", "a"]), "not a permutation", "exactly once"),
    "order is a string": (choice(option_order="ba"), "not a permutation", "exactly once"),
    "order is a number": (choice(option_order=1), "not a permutation", "exactly once"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_malformed_definition_is_refused_before_the_network_sees_it(case: str) -> None:
    """L-6: the message names question, problem and remedy; nothing was prepared or encoded."""
    definition, problem, remedy = WRONG[case]
    network, hook = RecordingNetwork(), Recorder()
    questions = {"good": noul(), "the bad one": definition}

    with pytest.raises(InvalidQuestion, match=problem) as caught:
        make_agent(network, hooks=hook).predict("a", questions)

    message = str(caught.value)
    assert "'the bad one'" in message
    assert "'good'" not in message
    assert remedy in message.partition("; ")[2]
    assert network.steps == []
    assert hook.log == ["hook.start", "hook.error", "hook.end"]


def test_a_refused_question_is_a_value_error_of_this_package() -> None:
    with pytest.raises(InvalidQuestion) as caught:
        prepare({"q": {}})

    for kind in (ValueError, InvalidInput, JevlayaError):
        assert isinstance(caught.value, kind)


@pytest.mark.parametrize(
    "wrong",
    ["Is it so?", [noul()], [("q", noul())], None, 7, {"q"}],
    ids=["str", "list", "pairs", "None", "int", "set"],
)
def test_questions_are_a_dict(wrong: Any) -> None:
    """L-6: anything else is refused before the network sees it."""
    network = RecordingNetwork()

    with pytest.raises(InvalidQuestion, match=r"must be a dict of question id -> .*; write \{"):
        make_agent(network).predict("a", wrong)

    assert network.steps == []


@pytest.mark.parametrize("wrong", ["", "  ", None, True, 1.5, ("a", "b"), b"q"])
def test_a_question_id_is_text_or_a_whole_number(wrong: Any) -> None:
    """L-6: it becomes the key of the answer."""
    network = RecordingNetwork()

    with pytest.raises(InvalidQuestion, match=r"question id .*: must be a non-empty string or an"):
        make_agent(network).predict("a", {"good": noul(), wrong: noul()})

    assert network.steps == []


def test_an_unknown_key_that_resembles_none_is_let_through() -> None:
    """Definitions may carry notes of their owner, as in laya."""
    (question,) = prepare({"q": noul(owner="team-7", note=["x"])})

    assert question.id == "q"


# --- what is accepted ------------------------------------------------------------------------


def test_a_choice_is_read_in_the_callers_order() -> None:
    (question,) = prepare(
        {"q": choice(criteria={"b": "second", "a": None, 3: "", True: {"k": [1]}})}
    )

    assert question == Question(
        id="q",
        type="choice",
        instructions="Which?",
        keys=("b", "a", 3, True),
        labels=("b", "a", "3", "True"),
        descriptions=("second", None, None, '{"k": [1]}'),
    )
    assert question.option_texts == ("b: second", "a", "3", 'True: {"k": [1]}')
    assert (question.n_options, question.type_id) == (4, 0)


def test_labels_may_come_as_a_list() -> None:
    (question,) = prepare({"q": choice(criteria=("x", 2.5, False))})

    assert question.keys == ("x", 2.5, False)
    assert question.option_texts == ("x", "2.5", "False")


def test_a_score_is_read_as_numbered_levels() -> None:
    (question,) = prepare({7: score(criteria=["low", ["a", "b"], 3])})

    assert (question.id, question.type_id) == (7, 1)
    assert question.keys == question.labels == ("0", "1", "2")
    assert question.descriptions == ("low", '["a", "b"]', "3")
    assert question.option_texts == ("level 0: low", 'level 1: ["a", "b"]', "level 2: 3")


def test_a_noul_is_always_false_then_true() -> None:
    (question,) = prepare({"q": noul()})

    assert (question.keys, question.type_id) == (("false", "true"), 2)
    assert question.option_texts == (
        "false: no, the statement does not hold",
        "true: yes, the statement holds",
    )


@pytest.mark.parametrize("yes", ["true", "True", True])
def test_criteria_and_labels_of_a_noul_word_its_two_answers(yes: Any) -> None:
    (question,) = prepare(
        {"q": noul(criteria={yes: "it burns"}, labels={"true": " yes ", "false": "no"})}
    )

    assert question.keys == ("false", "true")
    assert question.option_texts == ("no: no, the statement does not hold", "yes: it burns")


def test_option_order_is_kept_beside_the_callers_order() -> None:
    (question,) = prepare({"q": choice(criteria=["a", "b", "c"], option_order=(2, 0, 1))})

    assert question.keys == ("a", "b", "c")
    assert question.option_order == (2, 0, 1)


def test_instructions_may_be_structured() -> None:
    (question,) = prepare({"q": noul(instructions={"rule": "größer", "n": 3})})

    assert question.instructions == '{"rule": "größer", "n": 3}'


@pytest.mark.parametrize(
    ("value", "text"),
    [("as is ", "as is "), (1.5, "1.5"), (None, "null"), ({"ä": [True]}, '{"ä": [true]}')],
)
def test_values_are_rendered_as_one_line_of_json(value: Any, text: str) -> None:
    assert render(value) == text


def test_definitions_may_be_any_mapping() -> None:
    frozen = MappingProxyType(choice(criteria=MappingProxyType({"a": "x", "b": "y"})))

    assert prepare(MappingProxyType({"q": frozen})) == prepare(
        {"q": choice(criteria={"a": "x", "b": "y"})}
    )


def test_no_questions_are_no_error() -> None:
    """L-36: there is nothing to judge."""
    assert prepare({}) == ()


labels = st.lists(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip)
    | st.integers()
    | st.booleans(),
    min_size=1,
    max_size=12,
    unique_by=str,
).filter(lambda found: len({*found}) == len(found))


@given(labels, st.randoms())
def test_whatever_is_accepted_keeps_its_keys_and_order(found: list[Any], random: Any) -> None:
    order = list(range(len(found)))
    random.shuffle(order)

    (question,) = prepare({"q": choice(criteria=found, option_order=order)})

    assert list(question.keys) == found
    assert [type(key) for key in question.keys] == [type(key) for key in found]
    assert list(question.labels) == [str(label) for label in found]
    assert question.option_order == tuple(order)


# --- the typed classes -----------------------------------------------------------------------

TYPED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (Choice("Which?", ["a", "b"]), choice()),
    (
        Choice("Which?", {"a": None, "b": "x"}, option_order=[1, 0]),
        choice(criteria={"a": None, "b": "x"}, option_order=[1, 0]),
    ),
    (Score("How much?", ["low", "high"]), score()),
    (Score("How much?", ["low", "high"], option_order=[1, 0]), score(option_order=[1, 0])),
    (Noul("Is it so?"), noul()),
    (
        Noul("Is it so?", {"true": "x"}, labels={"true": "y", "false": "n"}, option_order=[1, 0]),
        noul(criteria={"true": "x"}, labels={"true": "y", "false": "n"}, option_order=[1, 0]),
    ),
]


@pytest.mark.parametrize(("typed", "plain"), TYPED)
def test_a_typed_question_is_a_plain_dict(typed: dict[str, Any], plain: dict[str, Any]) -> None:
    assert isinstance(typed, dict)
    assert typed == plain
    assert prepare({"q": typed}) == prepare({"q": plain})
    assert json.loads(json.dumps(typed)) == plain


@pytest.mark.parametrize("typed", [typed for typed, _ in TYPED])
def test_a_typed_question_can_be_copied_and_pickled(typed: dict[str, Any]) -> None:
    for twin in (copy.copy(typed), copy.deepcopy(typed), pickle.loads(pickle.dumps(typed))):
        assert twin == typed
        assert type(twin) is type(typed)


def test_a_typed_question_shows_what_it_asks() -> None:
    assert repr(Choice("Which?", ["a", "b"])) == (
        "Choice(instructions='Which?', criteria=['a', 'b'])"
    )


@pytest.mark.parametrize(
    ("build", "problem"),
    [
        (lambda: Choice("", ["a"]), "no instructions"),
        (lambda: Choice("Which?", []), "without options"),
        (lambda: Choice("Which?", [1, True]), "repeats label 0"),
        (lambda: Choice("Which?", ["a", "b"], option_order=[1]), "not a permutation"),
        (lambda: Choice("Which?", None), "criteria of a choice are missing"),
        (lambda: Score("How?", {"0": "low"}), "criteria of a score are a dict"),
        (lambda: Score("How?", [""]), "level 0 has no description"),
        (lambda: Noul(" "), "instructions are blank"),
        (lambda: Noul("Is?", {"yes": "x"}), "no criterion 'yes'"),
        (lambda: Noul("Is?", labels={"true": "x"}), "bad labels"),
    ],
)
def test_a_typed_question_is_judged_when_it_is_built(build: Any, problem: str) -> None:
    with pytest.raises(InvalidQuestion, match=rf"^this question: .*{problem}.*; "):
        build()


def test_a_typed_question_that_was_changed_is_judged_again() -> None:
    """L-6: what counts is what the call is given."""
    question = Choice("Which?", ["a", "b"])
    question["criteria"].append("a")

    with pytest.raises(InvalidQuestion, match=r"'q': label 2 .* repeats label 0"):
        make_agent().predict("a", {"q": question})
