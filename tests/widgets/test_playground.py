"""The playground: what the controls say is asked, in the background, and refused in words."""

from __future__ import annotations

import threading

import pytest
from fakes import PATIENCE, Recorder, make_agent

from jevlaya_lab import Choice, Lab, Noul, Router, Score
from jevlaya_lab.system_one.errors import InvalidHook, InvalidQuestion, InvalidState


@pytest.fixture
def lab():
    return Lab(make_agent(), capture="text")


def ask(playground):
    assert playground.run()
    assert playground.wait(PATIENCE)
    return playground


def test_the_first_state_and_questions_can_be_asked_at_once(lab):
    playground = ask(lab.playground())

    assert playground.answers["question"].tolist() == ["team", "urgency", "refund"]
    assert "Lifecycle" in playground.picture.alt
    assert "billing" in playground._table.value
    assert len(lab.trace.runs) == 1


def test_edited_state_and_questions_are_what_is_asked(lab):
    playground = lab.playground("first", {"q": Choice("Which?", ["a", "b"])})
    playground.state = {"subject": "late", "n": 3}
    row = playground.questions_form._rows[0]
    row.name.value, row.instructions.value = "kind", "What kind?"
    row.options.value = "red: warm\n\nblue\n"
    playground.questions_form.add("sure", {"type": "noul", "instructions": "Is it so?"})
    ask(playground)
    kept = lab.trace.runs.iloc[-1]

    assert kept["states"] == '[{"subject": "late", "n": 3}]'
    assert playground.questions_form.questions == {
        "kind": {
            "type": "choice",
            "instructions": "What kind?",
            "criteria": {"red": "warm", "blue": None},
        },
        "sure": {"type": "noul", "instructions": "Is it so?"},
    }
    assert playground.answers["question"].tolist() == ["kind", "sure"]


def test_questions_that_are_not_touched_stay_as_they_were(lab):
    questions = {
        "c": Choice("?", {"a: b": "colon", "c": None}, option_order=[1, 0]),
        "s": Score("?", ["low", "high"]),
        "n": Noul("?", {"true": "so", "false": "not so"}, labels={"true": "y", "false": "n"}),
    }
    form = lab.playground(questions=questions).questions_form

    assert form.questions == questions
    form._rows[2].instructions.value = "Sure?"
    assert form.questions["n"]["labels"] == {"true": "y", "false": "n"}


def test_changing_the_type_reads_the_options_anew(lab):
    form = lab.playground(questions={"q": Score("?", ["low", "high"])}).questions_form
    form._rows[0].kind.value = "choice"
    assert form.questions["q"]["criteria"] == {"low": None, "high": None}
    form._rows[0].kind.value = "noul"
    assert form._rows[0].options.disabled
    assert form.questions["q"] == {"type": "noul", "instructions": "?"}


def test_adding_and_removing_questions(lab):
    form = lab.playground(questions={"question_1": Noul("?")}).questions_form
    add = form.box.children[1]
    add.click()
    assert [row.name.value for row in form._rows] == ["question_1", "question_2"]
    form._remove(form._rows[0])
    add.click()
    assert [row.name.value for row in form._rows] == ["question_2", "question_1"]
    assert len(form._list.children) == 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda p: setattr(p._state, "value", "  "), "the state is empty"),
        (lambda p: p._as_json.set_trait("value", True), "the state is not JSON"),
        (lambda p: p.questions_form._rows[0].name.set_trait("value", "u"), "two questions"),
        (lambda p: p.questions_form._rows[0].name.set_trait("value", " "), "question id"),
        (lambda p: p.questions_form._rows[0].options.set_trait("value", "a\na"), "twice"),
        (lambda p: p.questions_form._rows[0].options.set_trait("value", ""), "without options"),
        (lambda p: p.questions_form._rows.clear(), "there is no question"),
    ],
)
def test_what_cannot_be_asked_is_said_and_nothing_is_asked(lab, change, said):
    questions = {"q": Choice("?", ["a", "b"]), "u": Noul("?")}
    playground = lab.playground("a state", questions)
    change(playground)

    assert not playground.run()
    assert said in playground._said.value
    assert lab.trace.runs.empty
    assert playground.picture.layout.texts[0] == "Nothing was asked"


def test_after_a_refusal_nothing_of_the_call_before_is_left(lab):
    playground = ask(lab.playground())
    playground._state.value = ""
    playground.run()

    assert playground.answers is None
    assert playground._table.value == ""
    assert "Lifecycle" not in playground.picture.alt


def test_the_first_state_may_be_a_dict_or_a_conversation(lab):
    for state in ({"a": 1}, [{"role": "user", "content": "hi"}]):
        playground = ask(lab.playground(state))
        assert playground.state == state
        assert playground.answers is not None
    with pytest.raises(InvalidState, match="cannot be written as JSON"):
        lab.playground({"a": object()})


def test_bad_arguments_are_refused_when_it_is_made(lab):
    with pytest.raises(InvalidQuestion, match="unknown type"):
        lab.playground(questions={"q": {"type": "chocie", "instructions": "?"}})
    with pytest.raises(InvalidHook):
        lab.playground(hooks=[object()])


def test_picked_hooks_run_in_the_order_of_the_list(lab):
    log: list[str] = []

    class First(Recorder):
        pass

    class Second(Recorder):
        pass

    playground = lab.playground(hooks=[First(log, "first"), Second(log, "second")])
    form = playground.hooks_form
    assert form.order[:2] == ["First", "Second"]
    ask(playground)
    assert log == ["first.start", "second.start", "first.end", "second.end"]
    log.clear()
    form.move("Second", -1)
    form.pick("LatencyMetrics")
    ask(playground)
    assert log == ["second.start", "first.start", "second.end", "first.end"]
    assert "LatencyMetrics" in playground.picture.alt
    form.pick("First", False)
    log.clear()
    ask(playground)
    assert log == ["second.start", "second.end"]
    assert lab.agent.hooks == [] or list(lab.agent.hooks) == []


def test_the_first_and_the_last_hook_cannot_leave_the_list(lab):
    form = lab.playground().hooks_form
    names = form.order
    form.move(names[0], -1)
    form.move(names[-1], 5)
    assert form.order == names
    assert [row.up.disabled for row in form._rows] == [True, False, False]
    assert [row.down.disabled for row in form._rows] == [False, False, True]


def test_an_error_of_a_hook_is_shown_as_text_with_its_lifecycle(lab):
    def boom(ctx):
        raise ValueError("<img src=x>")

    playground = ask(lab.playground(hooks=Recorder(start=boom)))

    assert "ValueError" in playground._said.value
    assert "<img" not in playground._said.value
    assert "ValueError" in playground.picture.alt
    assert playground.answers is None
    assert not playground._run.disabled


def test_it_runs_beside_the_caller_and_can_be_left(lab):
    gate, began = threading.Event(), threading.Event()
    hook = Recorder(start=lambda ctx: (began.set(), gate.wait(PATIENCE)))
    playground = lab.playground("one", hooks=hook)
    assert playground.run()
    first = playground._worker
    assert began.wait(PATIENCE)
    assert playground._run.disabled
    assert not playground.run()
    before = playground.picture
    playground._stop.click()
    assert "left" in playground._said.value
    assert not playground._run.disabled
    gate.set()
    assert first.wait(PATIENCE)
    assert playground.answers is None
    assert playground.picture is before
    assert "left" in playground._said.value
    ask(playground)
    assert playground.answers is not None


def test_the_checkpoint_of_a_router_can_be_chosen():
    router = Router()
    router.attach("mine", make_agent())
    lab = Lab(router)
    playground = lab.playground()
    assert playground._model.options[0] == "by itself"
    assert "mine" in playground._model.options
    playground._model.value = "mine"
    ask(playground)
    assert lab.trace.runs["routing_model"].dropna().unique().tolist() == ["mine"]


def test_an_error_whose_text_cannot_be_read_is_shown_by_its_type(lab):
    class Silent(Exception):
        def __str__(self):
            raise LookupError("no words")

    class Fails:
        def on_predict_start(self, ctx):
            raise Silent

    playground = ask(lab.playground(hooks=[Fails()]))

    assert "Silent" in playground._said.value
    assert playground.answers is None
