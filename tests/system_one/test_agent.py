"""Agent: the four steps between the hooks, budgets, states, payloads, threads."""

from __future__ import annotations

import gc
import json
import sys
import threading
import weakref
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fakes import PATIENCE, QUESTIONS, SKIPPED, Recorder, RecordingNetwork, make_agent, start_thread
from hypothesis import given
from hypothesis import strategies as st

import jevlaya_lab.system_one.context as context_module
from jevlaya_lab.system_one.agent import Agent
from jevlaya_lab.system_one.context import ForwardPass, PredictContext
from jevlaya_lab.system_one.encoding import LOOK_AHEAD
from jevlaya_lab.system_one.errors import (
    CheckpointNotFound,
    InvalidOption,
    InvalidResult,
    InvalidState,
)
from jevlaya_lab.system_one.models import Batch, Budget, Logits, Prepared
from jevlaya_lab.system_one.models.instant import InstantNetwork
from jevlaya_lab.system_one.questions import Choice, Noul, Question, Score

ASKED: dict[str, Any] = {
    "team": Choice("Which team is it for?", ["billing", "shipping"]),
    "anger": Score("How angry?", ["calm", "angry", "furious"]),
    "spam": Noul("Is it spam?"),
}

# --- the steps -------------------------------------------------------------------------------


def test_each_chunk_is_encoded_collated_and_run_before_the_next() -> None:
    """L-6: with batch_size the steps follow each other chunk by chunk, then comes decoding."""
    network = RecordingNetwork()

    make_agent(network).predict_batch(list("abcde"), QUESTIONS, batch_size=2)

    assert network.steps == [
        *("prepare", "encode a", "encode b", "collate 2", "forward 2"),
        *("encode c", "encode d", "collate 2", "forward 2"),
        *("encode e", "collate 1", "forward 1"),
    ]


def test_without_batch_size_short_states_share_one_pass() -> None:
    """L-6: a pass is filled up to its token budget."""
    network = RecordingNetwork()

    make_agent(network).predict_batch(["a", "b", "c"], QUESTIONS)

    assert network.steps == [
        *("prepare", "encode a", "encode b", "encode c", "collate 3", "forward 3"),
    ]


def test_many_states_are_encoded_a_window_at_a_time() -> None:
    """L-6: so that a long list is never tokenised as a whole before the first forward pass."""
    network = RecordingNetwork()

    results = make_agent(network).predict_batch(["a"] * (LOOK_AHEAD + 1), QUESTIONS)

    steps = [step for step in network.steps if not step.startswith("encode")]
    assert steps == [
        *("prepare", f"collate {LOOK_AHEAD}", f"forward {LOOK_AHEAD}", "collate 1", "forward 1"),
    ]
    assert len(results) == LOOK_AHEAD + 1


def test_questions_are_prepared_once_per_call() -> None:
    """L-6: however many chunks there are."""
    network = RecordingNetwork()

    make_agent(network).predict_batch(list("abcd"), ASKED, batch_size=1)

    assert network.steps.count("prepare") == 1
    assert [question.id for question in network.questions[0]] == ["team", "anger", "spam"]


def test_sort_by_length_puts_similar_states_together_and_keeps_their_order() -> None:
    """L-6: passes go from short to long; results come in the order of the states."""
    network = RecordingNetwork()
    states = ["t t t t", "t", "t t t", "t t"]

    results = make_agent(network).predict_batch(
        states, QUESTIONS, batch_size=2, sort_by_length=True
    )

    assert [r["usage"]["state_tokens"] for r in results] == [4, 1, 3, 2]
    assert network.steps[:5] == ["prepare", *(f"encode {state}" for state in states)]
    plain = make_agent().predict_batch(states, QUESTIONS, batch_size=1)
    assert results == plain


def test_sort_by_length_saves_padding() -> None:
    """L-41: which the padding counts of the passes show."""
    states = ["a"] * 3 + ["a " * 50] * 3
    states = [states[i] for i in (0, 3, 1, 4, 2, 5)]

    def padding(sort_by_length: bool) -> int:
        hook = Recorder()
        make_agent(hooks=hook).predict_batch(
            states, QUESTIONS, batch_size=3, sort_by_length=sort_by_length
        )
        return sum(forward.n_padding for forward in hook.contexts[0].timings.forwards)

    assert padding(True) == 0 < padding(False)


@given(
    states=st.lists(st.text("abtfy ", max_size=12), max_size=12),
    batch_size=st.none() | st.integers(1, 5),
    sort_by_length=st.none() | st.booleans(),
)
def test_answers_do_not_depend_on_how_states_are_batched(
    states: list[str], batch_size: int | None, sort_by_length: bool | None
) -> None:
    """L-1: a batch gives what its states give one by one."""
    agent = make_agent()

    together = agent.predict_batch(
        states, ASKED, batch_size=batch_size, sort_by_length=sort_by_length
    )

    assert together == [agent.predict(state, ASKED) for state in states]


# --- budgets and options ---------------------------------------------------------------------


def test_budgets_are_the_networks_unless_the_call_says_otherwise() -> None:
    """L-4: each of the two by itself."""
    network = RecordingNetwork()
    agent = make_agent(network)

    agent.predict("a", QUESTIONS)
    agent.predict("a", QUESTIONS, max_len=10)
    agent.predict("a", QUESTIONS, head_max_len=20)

    assert network.budgets == [Budget(256, 64), Budget(10, 64), Budget(256, 20)]


def test_a_budget_cuts_the_state_and_usage_says_so() -> None:
    result = make_agent().predict(" ".join("abcdefghij"), ASKED, max_len=8)

    assert result["usage"] == {
        "input_tokens": 18,
        "output_tokens": 0,
        "state_tokens": 10,
        "state_tokens_dropped": 2,
        "truncated": True,
        "truncated_questions": ["team", "anger", "spam"],
    }


@pytest.mark.parametrize("name", ["max_len", "head_max_len"])
@pytest.mark.parametrize("wrong", [0, 7, -1, True, 8.0, "64"])
def test_a_budget_is_a_whole_number_of_at_least_8(name: str, wrong: Any) -> None:
    """L-4: from the call and from a hook alike, before anything is tokenised."""
    network, hook = RecordingNetwork(), Recorder()
    agent = make_agent(network, hooks=hook)
    message = f"{name} must be a whole number of at least 8, got {wrong!r}"

    with pytest.raises(InvalidOption, match=message):
        agent.predict("a", QUESTIONS, **{name: wrong})
    with pytest.raises(InvalidOption, match=message):
        agent.predict("a", QUESTIONS, on_predict_start=lambda ctx: setattr(ctx, name, wrong))

    assert network.steps == []
    assert hook.log == ["hook.start", "hook.error", "hook.end"] * 2


def test_numbers_may_be_numpy_integers() -> None:
    network = RecordingNetwork()

    make_agent(network).predict_batch(
        ["a", "b"], QUESTIONS, batch_size=np.int64(1), max_len=np.int32(9)
    )

    assert network.budgets == [Budget(9, 64)]
    assert network.steps.count("forward 1") == 2


@pytest.mark.parametrize("wrong", [0, -1, True, 1.5, "2"])
def test_batch_size_is_a_positive_whole_number(wrong: Any) -> None:
    """An argument of the call itself is refused before the call begins."""
    hook = Recorder()

    with pytest.raises(InvalidOption, match="batch_size must be a whole number of at least 1"):
        make_agent(hooks=hook).predict_batch(["a"], QUESTIONS, batch_size=wrong)

    assert hook.log == []


def test_min_confidence_marks_each_answer() -> None:
    # "b" occurs three times and "s" never: softmax([3, 0]) is 0.9526 and 0.0474.
    results = make_agent().predict_batch(["bbb", ""], {"team": ASKED["team"]}, min_confidence=0.9)

    sure, unsure = (result["answers"]["team"] for result in results)
    assert sure["answer_confidence"] == 0.9526
    assert (sure["abstention"], sure["abstention_threshold"]) == ("passed", 0.9)
    assert "low_confidence" not in sure
    assert unsure["answer_confidence"] == 0.5
    assert (unsure["abstention"], unsure["low_confidence"]) == ("abstained", True)


def test_min_confidence_marks_skipped_results_before_the_end_hooks_see_them() -> None:
    """L-5: the gate is the caller's, whoever supplied the answers."""
    cached = {"answers": {"q": {"type": "noul", "noul": 0.4, "confidence": 0.6}}}
    seen: list[str] = []

    make_agent().predict(
        "a",
        QUESTIONS,
        min_confidence=0.7,
        on_predict_start=lambda ctx: ctx.skip([cached]),
        on_predict_end=lambda ctx: seen.append(ctx.results[0]["answers"]["q"]["abstention"]),
    )

    assert seen == ["abstained"]


def test_min_confidence_leaves_a_caches_own_result_alone() -> None:
    """L-38: what one call asked for does not show in what another one gets from a cache."""
    cached = {"answers": {"q": {"type": "noul", "noul": 0.4, "confidence": 0.6}}}
    agent = make_agent(on_predict_start=lambda ctx: ctx.skip([cached]))

    agent.predict("a", QUESTIONS, min_confidence=0.7)

    assert agent.predict("a", QUESTIONS)["answers"]["q"] == {
        "type": "noul",
        "noul": 0.4,
        "confidence": 0.6,
    }


@pytest.mark.parametrize("wrong", [-0.1, 1.1, float("nan"), True, "0.5", {}, {"choice:3": 0.5}])
def test_min_confidence_is_refused_before_the_call_begins(wrong: Any) -> None:
    hook = Recorder()

    with pytest.raises(InvalidOption, match="min_confidence"):
        make_agent(hooks=hook).predict("a", QUESTIONS, min_confidence=wrong)

    assert hook.log == []


# --- states ----------------------------------------------------------------------------------

BAD_STATES: dict[str, tuple[Any, str]] = {
    "one string": ("text", "takes a list of states, got one string; .* use predict"),
    "bytes": (b"text", "takes a list of states, got one string; .* use predict"),
    "a dict": ({"text": "a"}, "takes a list of states, got a dict; .* use predict"),
    "None": (None, "takes a list of states, got a NoneType; .* use predict"),
    "a generator": ((text for text in "ab"), r"got a generator; .* pass list\(states\)"),
    "one that is None": (["a", None], "state 1 is None; .* pass text, a JSON object or a list"),
    "one that is no JSON": (["a", {"when": {1, 2}}], r"state 1 \(dict\) cannot be written as JSON"),
    "one with keys that are none": ([{(1, 2): "a"}], r"state 0 \(dict\) cannot be written"),
    "bytes in the list": ([b"a"], r"state 0 \(bytes\) cannot be written as JSON.*pass text"),
    "half a character": (
        ["a\ud800"],
        "state 0 holds half of a surrogate pair at position 1.*repair",
    ),
    "half a character inside": (["a", {"t": "\udfff"}], "state 1 holds half of a surrogate pair"),
}


@pytest.mark.parametrize("case", BAD_STATES)
def test_bad_states_are_refused_before_the_network_sees_any(case: str) -> None:
    """L-6: the message names the state and what to pass; hooks are told."""
    states, message = BAD_STATES[case]
    network, hook = RecordingNetwork(), Recorder()

    with pytest.raises(InvalidState, match=message) as caught:
        make_agent(network, hooks=hook).predict_batch(states, QUESTIONS)

    assert isinstance(caught.value, TypeError)
    assert network.steps == []
    assert hook.log == ["hook.start", "hook.error", "hook.end"]


def test_a_state_that_contains_itself_is_refused() -> None:
    """L-6: like anything else that JSON cannot say."""
    ring: list[Any] = []
    ring.append(ring)

    with pytest.raises(InvalidState, match=r"state 0 .* cannot be written as JSON"):
        make_agent().predict(ring, QUESTIONS)


def test_states_are_text_objects_or_conversations() -> None:
    network = RecordingNetwork()
    states = ["Grüße 🙂", {"größe": 3}, [{"role": "user", "text": "ja"}], "", 7, ("a",)]

    make_agent(network).predict_batch(states, QUESTIONS, batch_size=6)

    assert [step[len("encode ") :] for step in network.steps if step.startswith("encode")] == [
        "Grüße 🙂",
        '{"größe": 3}',
        '[{"role": "user", "text": "ja"}]',
        "",
        "7",
        '["a"]',
    ]


def test_a_conversation_keeps_its_end_and_anything_else_its_start() -> None:
    kept: list[tuple[str, bool]] = []

    class Network(InstantNetwork):
        def encode_state(self, text: str, *, keep_end: bool, prepared: Prepared) -> Any:
            kept.append((text[:1], keep_end))
            return super().encode_state(text, keep_end=keep_end, prepared=prepared)

    make_agent(Network()).predict_batch(["a", {"b": 1}, ["c"], ("d",)], QUESTIONS)

    assert kept == [("a", False), ("{", False), ("[", True), ("[", True)]


def test_states_may_come_as_a_tuple() -> None:
    assert len(make_agent().predict_batch(("a", "b"), QUESTIONS)) == 2


def test_the_callers_states_and_questions_are_left_as_they_were() -> None:
    """L-38: a call without hooks changes neither."""
    states, questions = ["a", {"b": [1]}], json.loads(json.dumps(ASKED))
    before = json.dumps([states, questions])

    make_agent().predict_batch(states, questions, batch_size=1, min_confidence=0.5)

    assert json.dumps([states, questions]) == before


# --- results ---------------------------------------------------------------------------------


def test_the_payload_is_that_of_laya() -> None:
    result = make_agent().predict("billing is calm, false alarm", ASKED)

    assert list(result) == ["model", "answers", "usage"]
    assert result["model"] == "test"
    assert list(result["answers"]) == ["team", "anger", "spam"]
    team, anger, spam = result["answers"].values()
    assert list(team) == [
        *("type", "choice", "probabilities", "confidence", "answer_confidence", "action"),
    ]
    assert list(anger) == [
        *("type", "score", "legend", "probabilities", "confidence", "answer_confidence", "action"),
    ]
    assert list(spam) == ["type", "noul", "confidence", "answer_confidence", "action"]
    assert anger["legend"] == {"0": "calm", "1": "angry", "2": "furious"}
    assert [a["action"] for a in (team, anger, spam)] == [{"act_probability": None}] * 3
    assert result["usage"] == {
        "input_tokens": 15,
        "output_tokens": 0,
        "state_tokens": 5,
        "state_tokens_dropped": 0,
        "truncated": False,
        "truncated_questions": [],
    }
    assert json.loads(json.dumps(result)) == result


def test_answers_are_keyed_by_the_callers_ids_and_labels() -> None:
    answers = make_agent().predict("x", {7: Choice("Which?", [1, 2.5, False])})["answers"]

    assert list(answers[7]["probabilities"]) == [1, 2.5, False]
    assert answers[7]["choice"] == 1
    assert answers[7]["choice"] is not True


def test_an_act_head_gives_the_probability_that_acting_is_worth_it() -> None:
    class Acting(InstantNetwork):
        def forward(self, batch: Batch, prepared: Prepared) -> Logits:
            n = len(prepared.questions)
            acts = [[0.123456 + i for i in range(n)] for _ in range(batch.n_states)]
            return Logits(super().forward(batch, prepared).options, acts)

    questions = {"a": ASKED["spam"], "b": ASKED["spam"]}
    answers = make_agent(Acting()).predict("x", questions)["answers"]

    assert [a["action"]["act_probability"] for a in answers.values()] == [0.1235, 1.1235]


def test_options_that_collapsed_are_reported_in_each_result() -> None:
    found = {"team": {"total": 58, "distinct": 40, "tokens_per_option": 4}}

    class Cutting(InstantNetwork):
        def prepare(self, questions: tuple[Question, ...], budget: Budget) -> Prepared:
            prepared = super().prepare(questions, budget)
            prepared.collapsed = found
            return prepared

    first, second = make_agent(Cutting()).predict_batch(["a", "b"], ASKED)

    assert first["usage"]["options"] == second["usage"]["options"] == found
    assert first["usage"]["options"] is not second["usage"]["options"]


def test_temperatures_come_from_the_config() -> None:
    config = {"temperature": [1.0, 1.0, 1.0], "temperature_by_options": {"choice:2": 3.0}}
    agent = Agent("test", network=InstantNetwork(), config=config)

    answer = agent.predict("bbb", {"team": ASKED["team"]})["answers"]["team"]

    assert answer["answer_confidence"] == 0.7311  # softmax([1, 0])
    assert agent.config == config
    assert agent.config is not config


def test_end_hooks_may_rewrite_a_single_result() -> None:
    """L-10: predict gives the first of what they left."""

    def rewrite(ctx: PredictContext) -> None:
        ctx.results = [{"answers": "mine"}, {"answers": "more"}]

    assert make_agent().predict("a", QUESTIONS, on_predict_end=rewrite) == {"answers": "mine"}


def test_end_hooks_may_leave_a_tuple() -> None:
    """L-10: it has a first result as a list has."""

    def freeze(ctx: PredictContext) -> None:
        assert ctx.results is not None
        ctx.results = tuple(ctx.results)  # type: ignore[assignment]

    assert "q" in make_agent().predict("a", QUESTIONS, on_predict_end=freeze)["answers"]


@pytest.mark.parametrize("left", [None, [], (), {"answers": {}}, "text"])
def test_a_single_result_needs_something_to_be_taken_from(left: Any) -> None:
    """L-10: where hooks left no list with a result, predict says so."""

    def rewrite(ctx: PredictContext) -> None:
        ctx.results = left

    with pytest.raises(InvalidResult, match=r"the hooks left .* where a list with one result"):
        make_agent().predict("a", QUESTIONS, on_predict_end=rewrite)


# --- timings ---------------------------------------------------------------------------------


def test_timings_hold_each_step_and_each_pass() -> None:
    """L-41: milliseconds of the four steps, and what each forward pass held."""
    hook = Recorder()

    make_agent(hooks=hook).predict_batch(["a b c", "a", "a b"], QUESTIONS, batch_size=2)

    timings = hook.contexts[0].timings
    assert [(f.kind, f.n_rows, f.n_tokens, f.n_padding) for f in timings.forwards] == [
        ("states", 2, 4, 2),
        ("states", 1, 2, 0),
    ]
    spent = (timings.encode_ms, timings.collate_ms, timings.forward_ms, timings.decode_ms)
    assert all(ms > 0 for ms in spent)
    assert sum(spent) <= hook.contexts[0].elapsed_ms
    assert sum(f.elapsed_ms for f in timings.forwards) <= timings.forward_ms


@pytest.mark.parametrize("step", ["prepare", "encode", "collate", "forward", "decode"])
def test_time_goes_to_the_step_that_took_it(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """L-41: a second in one step is a second in its figure and in no other."""
    clock = SimpleNamespace(now=0.0, perf_counter=lambda: clock.now)
    monkeypatch.setattr(context_module, "time", clock)

    def pass_time(name: str) -> None:
        clock.now += 1.0 if name == step else 0.0

    class Network(RecordingNetwork):
        def _step(self, name: str, detail: Any = None) -> None:
            pass_time(name)

    agent, hook = make_agent(Network()), Recorder()
    decode = agent._decode_answers
    monkeypatch.setattr(agent, "_decode_answers", lambda *a: pass_time("decode") or decode(*a))

    agent.predict("a", QUESTIONS, hooks=hook)

    timings = hook.contexts[0].timings
    spent = {s: getattr(timings, f"{s}_ms") for s in ("encode", "collate", "forward", "decode")}
    assert {s: ms for s, ms in spent.items() if ms} == {
        "encode" if step == "prepare" else step: 1000.0
    }


def test_passes_for_questions_count_as_forward_passes() -> None:
    """L-41: embedding instructions and options is forward time, not encoding time."""
    network, hook = RecordingNetwork(), Recorder()
    network.preparing = [ForwardPass("questions", 3, 12, 1, 1000.0)]

    make_agent(network, hooks=hook).predict("a", QUESTIONS)

    timings = hook.contexts[0].timings
    assert [forward.kind for forward in timings.forwards] == ["questions", "states"]
    assert timings.forward_ms > 1000.0 > timings.encode_ms


@pytest.mark.parametrize("call", ["skipped", "empty", "refused"])
def test_a_call_that_ran_no_network_has_no_timings(call: str) -> None:
    """L-41: None, rather than zeros."""
    hook = Recorder(start=lambda ctx: ctx.skip([SKIPPED]) if call == "skipped" else None)
    agent = make_agent(hooks=hook)

    if call == "refused":
        with pytest.raises(InvalidState):
            agent.predict(None, QUESTIONS)
    else:
        agent.predict("a", {} if call == "empty" else QUESTIONS)

    assert hook.contexts[0].timings is None


@pytest.mark.parametrize("step", ["prepare", "encode", "collate", "forward"])
def test_a_failed_run_says_in_which_step(step: str) -> None:
    """L-41: its timings keep the name of the step."""
    hook = Recorder()
    network = RecordingNetwork(failing={step: MemoryError()})

    with pytest.raises(MemoryError):
        make_agent(network, hooks=hook).predict("a", QUESTIONS)

    assert hook.contexts[0].timings.step == ("encode" if step == "prepare" else step)


# --- many threads ----------------------------------------------------------------------------


@pytest.fixture
def _threads_take_turns_often() -> Iterator[None]:
    """Lets Python switch between threads as often as it can."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.usefixtures("_threads_take_turns_often")
def test_calls_from_many_threads_do_not_mix() -> None:
    """L-38: every call has its own context, answers and usage; only hooks are shared."""
    n_threads, n_calls = 8, 25
    barrier, lock = threading.Barrier(n_threads), threading.Lock()
    ended: list[PredictContext] = []
    wrong: list[str] = []

    class Check:
        def on_predict_start(self, ctx: PredictContext) -> None:
            ctx.mine = ctx.states[0]  # type: ignore[attr-defined]
            ctx.questions = {**ctx.questions, ctx.states[0]: ASKED["spam"]}

        def on_predict_end(self, ctx: PredictContext) -> None:
            with lock:
                ended.append(ctx)
                if ctx.mine != ctx.states[0]:  # type: ignore[attr-defined]
                    wrong.append("an attribute of another call")

    agent = make_agent(hooks=Check())

    def ask(i: int) -> None:
        barrier.wait()
        for j in range(n_calls):
            words = 1 + (i + j) % 5
            text = " ".join([f"t{i}"] * words)
            result = agent.predict(text, QUESTIONS)
            if list(result["answers"]) != ["q", text]:
                wrong.append(f"answers {list(result['answers'])} for {text!r}")
            if result["usage"]["state_tokens"] != words:
                wrong.append(f"usage {result['usage']} for {text!r}")

    threads = [start_thread(ask, i) for i in range(n_threads)]
    for thread in threads:
        thread.join(PATIENCE)

    assert wrong == []
    assert len({id(ctx) for ctx in ended}) == n_threads * n_calls
    assert len({ctx.run_id for ctx in ended}) == n_threads * n_calls
    assert len({ctx.call_id for ctx in ended}) == n_threads * n_calls
    assert {ctx.parent_run_id for ctx in ended} == {None}
    assert all(ctx.usage["input_tokens"] == _usage(ctx) for ctx in ended if ctx.usage)
    assert list(QUESTIONS) == ["q"]


def _usage(ctx: PredictContext) -> int:
    assert ctx.results is not None
    return sum(result["usage"]["input_tokens"] for result in ctx.results)


def test_a_finished_call_leaves_nothing_behind() -> None:
    """L-38: neither its context nor its states are kept by the agent."""

    class Text(str):
        """A string that can be watched."""

    gone: list[weakref.ref[Any]] = []
    agent = make_agent(hooks=Recorder())

    def ask() -> None:
        state = Text("a")
        gone.append(weakref.ref(state))
        agent.predict(state, QUESTIONS, on_predict_end=lambda ctx: gone.append(weakref.ref(ctx)))

    ask()
    agent.remove_hook(agent.hooks[0])
    gc.collect()

    assert len(gone) == 2
    assert [ref() for ref in gone] == [None, None]


def test_a_call_that_fails_in_one_thread_leaves_the_others_alone() -> None:
    """L-38: an error belongs to its own call."""
    both_inside, failure = threading.Barrier(2), ValueError("broken")
    network, hook = RecordingNetwork(), Recorder()
    outcome: dict[str, Any] = {}

    def fail() -> None:
        both_inside.wait(PATIENCE)
        raise failure

    network.pauses = {"good": lambda: both_inside.wait(PATIENCE), "bad": fail}
    agent = make_agent(network, hooks=hook)

    def ask(text: str) -> None:
        try:
            outcome[text] = agent.predict(text, QUESTIONS)["model"]
        except ValueError as exc:
            outcome[text] = exc

    threads = [start_thread(ask, text) for text in ("good", "bad")]
    for thread in threads:
        thread.join(PATIENCE)

    assert outcome == {"good": "test", "bad": failure}
    assert {ctx.states[0]: ctx.error for ctx in hook.contexts} == {"good": None, "bad": failure}


# --- checkpoints -----------------------------------------------------------------------------


def test_an_agent_for_a_folder_that_is_not_there() -> None:
    with pytest.raises(CheckpointNotFound, match="no such folder"):
        Agent("/nowhere/at/all")


def test_a_network_takes_the_place_of_a_checkpoint() -> None:
    network = InstantNetwork()

    agent = Agent("only/a/name", network=network)

    assert (agent.model_id, agent.network) == ("only/a/name", network)
    assert agent.predict("a", QUESTIONS)["model"] == "only/a/name"


def test_the_agent_shows_the_temperatures_of_languages() -> None:
    agent = make_agent(lang_temperatures={"de-AT": {"temperature": [2.0, 1.0, 1.0]}})

    assert list(agent.lang_temperatures) == ["de"]
    assert agent.lang_temperatures["de"].temperature == (2.0, 1.0, 1.0)
    assert dict(make_agent().lang_temperatures) == {}
    with pytest.raises(TypeError):
        agent.lang_temperatures["en"] = agent.calibration  # type: ignore[index]
    with pytest.raises(AttributeError):
        agent.lang_temperatures = {}  # type: ignore[misc]


@pytest.mark.parametrize("wrong", [5, b"de", ["de"]])
def test_a_language_that_is_no_code_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidOption, match="lang must be a language code"):
        make_agent().predict("a", QUESTIONS, lang=wrong)


@pytest.mark.parametrize("state", [float("nan"), float("inf")])
def test_a_state_that_is_no_number_is_refused(state: float) -> None:
    with pytest.raises(InvalidState, match="as missing values often are"):
        make_agent().predict(state, QUESTIONS)
