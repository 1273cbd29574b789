"""predict_long: where a long state is cut, which window answers, and what hooks see of it."""

from __future__ import annotations

import itertools
import json
import random
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fakes import QUESTIONS, SKIPPED, Recorder, RecordingNetwork, fails_with, make_agent
from hypothesis import given
from hypothesis import strategies as st
from tiny import KINDS, make_checkpoint
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

from jevlaya_lab import Agent
from jevlaya_lab.system_one.checkpoint import EMBEDDED
from jevlaya_lab.system_one.context import PredictContext
from jevlaya_lab.system_one.errors import (
    InvalidOption,
    InvalidQuestion,
    InvalidResult,
    InvalidState,
)
from jevlaya_lab.system_one.long import (
    Scored,
    Window,
    choose_window,
    merge,
    merge_usage,
    plan_windows,
)
from jevlaya_lab.system_one.models import Budget
from jevlaya_lab.system_one.models.sentence_encoder import load_tokenizer
from jevlaya_lab.system_one.models.tokens import Tokens
from jevlaya_lab.system_one.questions import Choice, Noul, Score, prepare

ASKED: dict[str, Any] = {
    "team": Choice("Which team is it for?", ["billing", "shipping"]),
    "anger": Score("How angry?", ["calm", "angry", "furious"]),
    "spam": Noul("Is it spam?"),
}
SMALL: dict[str, Any] = {"max_len": 12}
"""Room for 12 words in the instant network."""

# --- how wide, how far apart -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("window", "stride", "room", "budget", "chosen"),
    [
        (None, None, 400, Budget(512, 192), (312, 156)),
        (None, None, 100, Budget(512, 192), (100, 50)),
        (None, None, 400, Budget(512, 480), (64, 32)),
        (50, None, 100, Budget(512, 192), (50, 25)),
        (50, 50, 100, Budget(512, 192), (50, 50)),
        (1, None, 100, Budget(512, 192), (1, 1)),
        (100, 7, 100, Budget(512, 192), (100, 7)),
    ],
)
def test_window_and_stride(
    window: int | None, stride: int | None, room: int, budget: Budget, chosen: tuple[int, int]
) -> None:
    assert choose_window(window, stride, room, budget) == chosen


def test_a_window_wider_than_the_room_is_cut_to_it_with_a_warning() -> None:
    with pytest.warns(RuntimeWarning, match=r"window=101 is more than the 100 .* max_len=512"):
        assert choose_window(101, None, 100, Budget(512, 192)) == (100, 50)


def test_a_stride_that_leaves_gaps_is_refused() -> None:
    with pytest.raises(InvalidOption, match=r"stride=51 .* 50 tokens.* 1 tokens .* at most 50"):
        choose_window(50, 51, 100, Budget(512, 192))


# --- where to cut ----------------------------------------------------------------------------


def byte_level() -> Tokenizer:
    """Every byte is a token, so that all but plain letters are split between tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


TOKENIZERS = {"words": load_tokenizer(EMBEDDED / "encoder"), "bytes": byte_level()}
TEXTS = st.lists(
    st.sampled_from(
        [
            "unbelievable",
            "cats",
            " ",
            "  \n",
            "é",
            "e\u0301",
            "🙂",
            "👩‍🚀",
            "日本",
            "ß",
            "İ",
            "\x00",
            "[MASK]",
        ]
    ),
    min_size=1,
    max_size=40,
).map("".join)


@pytest.mark.parametrize("kind", TOKENIZERS)
@given(text=TEXTS, size=st.integers(1, 30), step=st.integers(1, 30), slack=st.integers(0, 3))
def test_every_token_and_every_character_is_in_a_window(
    kind: str, text: str, size: int, step: int, slack: int
) -> None:
    tokenizer = TOKENIZERS[kind]

    def count(part: str) -> int:
        return len(tokenizer.encode(part, add_special_tokens=False).ids)

    spans = tokenizer.encode(text, add_special_tokens=False).offsets
    step, room = min(step, size), size + slack
    if not spans:
        return
    try:
        windows = plan_windows(text, spans, size, step, room, count)
    except InvalidOption:
        # The part of a character or of a word may be more tokens by itself than there is room for.
        ends = [0, *itertools.accumulate((end for _, end in spans), max)]
        alone = [text[min(a, b) : e] for a, (b, e) in zip(ends, spans, strict=False)]
        assert max(map(count, alone)) > room
        return

    assert {i for w in windows for i in range(w.token_start, w.token_end)} == set(range(len(spans)))
    assert {i for w in windows for i in range(w.char_start, w.char_end)} == set(range(len(text)))
    assert all(count(text[w.char_start : w.char_end]) <= room for w in windows)
    assert all(
        w.char_start <= start and end <= w.char_end
        for w in windows
        for start, end in spans[w.token_start : w.token_end]
    )
    starts = [w.token_start for w in windows]
    assert starts == sorted(set(starts))


def words(text: str) -> list[tuple[int, int]]:
    return RecordingNetwork().token_spans(text)


def count_words(text: str) -> int:
    return len(text.split())


def test_windows_start_at_multiples_of_the_stride_and_end_with_the_text() -> None:
    text = " a b c d e f g "

    windows = plan_windows(text, words(text), 4, 2, 4, count_words)

    assert [(w.token_start, w.token_end) for w in windows] == [(0, 4), (2, 6), (4, 7)]
    assert [text[w.char_start : w.char_end] for w in windows] == [" a b c d", " c d e f", " e f g "]


def test_a_window_is_shortened_until_its_own_tokens_fit() -> None:
    """And the next one starts at its end at the latest, so that nothing is lost."""
    text = "abcdefgh"
    spans = [(i, i + 1) for i in range(8)]

    windows = plan_windows(text, spans, 4, 4, 4, lambda part: len(part) + (part[0] == "e"))

    assert [text[w.char_start : w.char_end] for w in windows] == ["abcd", "efg", "h"]


def test_a_character_is_never_split_between_windows() -> None:
    tokenizer = TOKENIZERS["bytes"]
    text = "🙂🙃"
    spans = tokenizer.encode(text, add_special_tokens=False).offsets
    assert len(spans) == 8

    windows = plan_windows(text, spans, 3, 2, 8, lambda part: len(tokenizer.encode(part).ids))

    pieces = [text[w.char_start : w.char_end] for w in windows]
    assert set("".join(pieces)) == set(text)
    assert [(w.token_start, w.token_end) for w in windows] == [(0, 3), (2, 5), (4, 7), (6, 8)]
    assert pieces == ["🙂", "🙂🙃", "🙃", "🙃"]


def test_a_character_for_which_there_is_no_room_is_named() -> None:
    tokenizer = TOKENIZERS["bytes"]
    text = "a🙂"
    spans = tokenizer.encode(text, add_special_tokens=False).offsets

    with pytest.raises(
        InvalidOption, match=r"'🙂' at character 1 .* 4 tokens .* leave 3; raise max"
    ):
        plan_windows(text, spans, 3, 1, 3, lambda part: len(tokenizer.encode(part).ids))


@given(parts=st.lists(st.sampled_from(["[MASK]", "ab", " ", "[SEP]", "unbelievable", "é"])))
def test_spans_of_a_text_with_the_mask_token_in_it(parts: list[str]) -> None:
    """The cross-encoder reads a space there; positions are those of the text as it was given."""
    tokens, text = Tokens(EMBEDDED / "encoder"), "".join(parts)

    spans = tokens.spans(text)

    assert len(spans) == len(tokens.encode(text))
    pieces = [text[start:end] for start, end in spans]
    assert "".join(pieces) == text.replace("[MASK]", "").replace(" ", "")


# --- which window answers --------------------------------------------------------------------

WINDOWS = (Window(0, 4, 0, 10), Window(2, 6, 5, 15))


def scored(*, n: int | None = 2, own: str = "q", **kinds: str) -> Scored:
    return Scored(n, kinds or {"q": "noul"}, frozenset(own), WINDOWS)


def noul(p: float, **more: Any) -> dict[str, Any]:
    answer = {"type": "noul", "noul": p, "answer_confidence": max(p, 1 - p), **more}
    return {"model": "m", "answers": {"q": answer}, "usage": {"input_tokens": 3}}


def test_the_highest_probability_of_yes_decides_a_noul() -> None:
    """Although the other window is surer of its no."""
    merged = merge([noul(0.01), noul(0.6, own=1)], scored(), "name")

    assert merged["answers"]["q"] == {
        "type": "noul",
        "noul": 0.6,
        "answer_confidence": 0.6,
        "own": 1,
        "window": {
            "index": 1,
            "token_start": 2,
            "token_end": 6,
            "count": 2,
            "char_start": 5,
            "char_end": 15,
        },
    }
    assert merged["usage"] == {"input_tokens": 6, "windows": 2}
    assert merged["model"] == "m"


@pytest.mark.parametrize("kind", ["choice", "score"])
def test_the_surest_window_decides_a_choice_and_a_score(kind: str) -> None:
    results = [
        {"answers": {"q": {"answer_confidence": c, "confidence": 1 - c}}} for c in (0.4, 0.9)
    ]

    assert merge(results, scored(q=kind), "name")["answers"]["q"]["window"]["index"] == 1


def test_of_equal_windows_the_first_decides() -> None:
    merged = merge([noul(0.6), noul(0.6)], scored(), "name")

    assert merged["answers"]["q"]["window"]["index"] == 0


def test_merging_changes_none_of_the_results() -> None:
    results = [noul(0.2), noul(0.6)]
    before = json.dumps(results)

    merge(results, scored(), "name")

    assert json.dumps(results) == before


@pytest.mark.parametrize(
    ("results", "message"),
    [
        (None, "None where a list of results"),
        ([noul(0.5)], "1 results for 2 windows"),
        ([noul(0.5), {"answers": None}], "as the result of window 1"),
        ([noul(0.5), {"answers": {}}], "no answer to question 'q' in 1 of 2 windows"),
        ([{"answers": {}}] * 2, "no answer to question 'q' in 2 of 2 windows"),
        ([noul(0.5), noul(float("nan"))], "no number as 'noul' of question 'q' in window 1"),
        ([noul(0.5), {"answers": {"q": "yes"}}], "no number as 'noul' of question 'q' in window 1"),
    ],
)
def test_results_that_cannot_be_merged_are_refused(results: Any, message: str) -> None:
    with pytest.raises(InvalidResult, match=message):
        merge(results, scored(), "name")


def test_a_question_that_a_start_hook_added_may_be_taken_away_again() -> None:
    merged = merge([noul(0.2), noul(0.6)], scored(q="noul", probe="choice"), "name")

    assert list(merged["answers"]) == ["q"]


def test_usage_is_added_up() -> None:
    first = {"n": 1, "x": 0.5, "cut": False, "ids": ["a"], "options": {"a": 1}, "odd": None}
    second = {"n": 2, "x": 1.0, "cut": True, "ids": ["b", "a"], "options": {"b": 2}, "new": 7}

    assert merge_usage([first, second, {"cut": False}, None, {}]) == {
        "n": 3,
        "x": 1.5,
        "cut": True,
        "ids": ["a", "b"],
        "options": {"a": 1, "b": 2},
        "odd": None,
        "new": 7,
    }
    assert first["options"] == {"a": 1}


@pytest.mark.parametrize(("before", "after"), [(None, 3), ("x", 3), (3, "x"), (True, 3), ([1], {})])
def test_usage_that_changes_its_kind_takes_the_last(before: Any, after: Any) -> None:
    assert merge_usage([{"k": before}, {"k": after}]) == {"k": after}


# --- the agent -------------------------------------------------------------------------------


def test_all_windows_are_asked_in_one_run() -> None:
    network, hook = RecordingNetwork(), Recorder()
    text = " ".join("abcdefghij")

    result = make_agent(network, hooks=hook).predict_long(text, ASKED, window=4, max_len=8)

    assert hook.log == ["hook.start", "hook.end"]
    ctx = hook.contexts[0]
    assert ctx is hook.contexts[1]
    assert ctx.entry == "predict_long"
    assert ctx.states == ["a b c d", " c d e f", " e f g h", " g h i j"]
    assert [step for step in network.steps if step.startswith("forward")] == ["forward 4"]
    assert len(ctx.results) == 4
    assert result["usage"]["windows"] == 4
    assert result["usage"]["state_tokens"] == 16
    assert result["usage"]["truncated"] is False
    assert ctx.usage["input_tokens"] == result["usage"]["input_tokens"]


def test_batch_size_bounds_the_windows_of_a_pass() -> None:
    network = RecordingNetwork()

    make_agent(network).predict_long(" ".join("abcdefgh"), ASKED, 4, 2, batch_size=2, max_len=8)

    assert [step for step in network.steps if step.startswith("forward")] == [
        "forward 2",
        "forward 1",
    ]


@given(
    text=st.text("abx \n", max_size=80),
    window=st.none() | st.integers(1, 12),
    stride=st.none() | st.integers(1, 12),
)
def test_nothing_of_a_state_is_lost(text: str, window: int | None, stride: int | None) -> None:
    stride = None if stride is None else min(stride, window or 12)
    numbers = itertools.count()
    numbered = re.sub("[abx]+", lambda _: f"w{next(numbers)}", text)
    hook = Recorder()

    result = make_agent(hooks=hook).predict_long(numbered, ASKED, window, stride, **SMALL)

    read = hook.contexts[0].states
    assert {word for piece in read for word in piece.split()} == set(numbered.split())
    assert all(piece in numbered for piece in read)
    usage = result["usage"]
    assert usage["windows"] == len(read)
    assert (usage["state_tokens_dropped"], usage["truncated"]) == (0, False)


def test_the_very_span_can_be_cut_out_of_a_text() -> None:
    hook = Recorder()
    text = "a " * 30 + "b b b b" + " c" * 30

    answer = make_agent(hooks=hook).predict_long(text, ASKED, window=6, **SMALL)["answers"]["team"]

    window = answer["window"]
    span = text[window["char_start"] : window["char_end"]]
    assert span == hook.contexts[0].states[window["index"]]
    assert span.split() == text.split()[window["token_start"] : window["token_end"]]
    assert "b b b b" in span
    assert answer["choice"] == "billing"
    assert window["count"] == len(hook.contexts[0].states)


def test_a_state_that_is_no_text_is_cut_as_json() -> None:
    state = [{"role": "user", "text": f"größe {i}"} for i in range(20)]
    hook = Recorder()

    answers = make_agent(hooks=hook).predict_long(state, ASKED, **SMALL)["answers"]

    window = answers["team"]["window"]
    text = json.dumps(state, ensure_ascii=False)
    assert (
        text[window["char_start"] : window["char_end"]]
        == (hook.contexts[0].states[window["index"]])
    )


@pytest.mark.parametrize("state", ["a b c", "", {"b": [1]}, ["c", "d"], " ".join("a" * 12)])
def test_a_state_that_fits_is_asked_as_an_ordinary_one(state: Any) -> None:
    agent, hook = make_agent(), Recorder()

    result = agent.predict_long(state, ASKED, hooks=hook, **SMALL)

    plain = agent.predict(state, ASKED, **SMALL)
    assert result["answers"] == plain["answers"]
    assert result["usage"] == {**plain["usage"], "windows": 1}
    assert hook.contexts[0].states == [state]


def test_an_explicit_window_decides_what_fits() -> None:
    agent = make_agent()

    assert agent.predict_long("a b c", ASKED, window=3)["usage"]["windows"] == 1
    assert agent.predict_long("a b c", ASKED, window=2)["usage"]["windows"] == 2


@pytest.mark.parametrize("state", ["a b c", "a " * 500])
def test_without_questions_nothing_is_scored(state: str) -> None:
    network, agent = RecordingNetwork(), make_agent()

    result = make_agent(network).predict_long(state, {})

    assert result == {
        "model": "test",
        "answers": {},
        "usage": {"input_tokens": 0, "output_tokens": 0, "windows": 0},
    }
    assert network.steps == []
    assert agent.predict(state, {})["answers"] == {}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"aggregate": "mean"}, "aggregate must be 'auto', .* got 'mean'"),
        ({"window": 0}, "window must be a whole number of at least 1, got 0"),
        ({"stride": True}, "stride must be a whole number of at least 1, got True"),
        ({"window": 4, "stride": 5}, "stride=5 .* a window of 4 tokens"),
        ({"batch_size": 0}, "batch_size must be"),
        ({"max_len": 1}, "max_len must be"),
        ({"min_confidence": 2}, "min_confidence must lie"),
        ({"lang": 5}, "lang must be a language code"),
    ],
)
def test_a_wrong_argument_is_refused_before_any_work(changed: Any, message: str) -> None:
    network, hook = RecordingNetwork(), Recorder()

    with pytest.raises(InvalidOption, match=message):
        make_agent(network, hooks=hook).predict_long("a b c", ASKED, **changed)

    assert (hook.log, network.steps) == ([], [])


def test_wrong_questions_and_states_are_refused_before_any_work() -> None:
    hook = Recorder()
    agent = make_agent(hooks=hook)

    with pytest.raises(InvalidQuestion, match="questions must be a dict"):
        agent.predict_long("a", ["q"])  # type: ignore[arg-type]
    with pytest.raises(InvalidState, match="is None"):
        agent.predict_long(None, ASKED)
    assert hook.log == []


def test_the_warning_names_the_callers_line() -> None:
    with pytest.warns(RuntimeWarning, match="window=99 is more than the 12") as caught:
        make_agent().predict_long("a " * 30, ASKED, window=99, **SMALL)

    assert caught[0].filename == __file__


def test_a_threshold_is_compared_with_the_deciding_window() -> None:
    answers = make_agent().predict_long(
        "a " * 20 + "b b b t t t", ASKED, window=6, min_confidence=0.9, **SMALL
    )["answers"]

    assert {qid: answer["abstention"] for qid, answer in answers.items()} == {
        "team": "passed",
        "anger": "abstained",
        "spam": "passed",
    }
    assert answers["team"]["abstention_threshold"] == 0.9


def test_a_language_changes_the_figures_of_the_windows() -> None:
    agent = make_agent(lang_temperatures={"de": {"temperature": [5.0, 5.0, 5.0]}})
    ask: Callable[..., Any] = agent.predict_long

    flat, sharp = (ask("b " * 30, ASKED, lang=lang, **SMALL)["answers"] for lang in ("de", None))

    assert flat["team"]["answer_confidence"] < sharp["team"]["answer_confidence"]


# --- hooks -----------------------------------------------------------------------------------

LONG = " ".join(f"a{i}" for i in range(40))


def test_a_skip_answers_the_whole_state() -> None:
    network = RecordingNetwork()
    given = {**SKIPPED, "note": "kept"}
    agent = make_agent(network, hooks=Recorder(start=lambda ctx: ctx.skip([given])))

    result = agent.predict_long(LONG, ASKED, **SMALL)

    assert result == {**given, "usage": {**SKIPPED["usage"], "windows": 0}}
    assert network.steps == []
    assert "windows" not in SKIPPED["usage"]


@pytest.mark.parametrize("state", ["a", LONG])
@pytest.mark.parametrize("left", [[], [SKIPPED] * 2, {"a": 1}, 5])
def test_a_skip_needs_one_result_for_the_whole_state(state: str, left: Any) -> None:
    hook = Recorder(start=lambda ctx: setattr(ctx, "results", left))

    with pytest.raises(InvalidResult, match="one result here, which stands for the whole state"):
        make_agent(hooks=hook).predict_long(state, ASKED, **SMALL)

    assert hook.log == ["hook.start", "hook.error", "hook.end"]


def test_states_that_a_start_hook_wrote_are_merged_without_a_window() -> None:
    def rewrite(ctx: PredictContext) -> None:
        ctx.states = ["c c c", "s s s s"]

    result = make_agent(on_predict_start=rewrite).predict_long(LONG, ASKED, **SMALL)

    assert result["usage"]["windows"] == 2
    assert result["answers"]["team"]["choice"] == "shipping"
    assert all("window" not in answer for answer in result["answers"].values())


def test_a_list_of_states_that_was_changed_in_place_counts_as_written_anew() -> None:
    result = make_agent(on_predict_start=lambda ctx: ctx.states.append("f")).predict_long(
        LONG, ASKED, **SMALL
    )

    assert "window" not in result["answers"]["team"]


def test_what_a_start_hook_wrote_too_long_is_reported_as_cut() -> None:
    def rewrite(ctx: PredictContext) -> None:
        ctx.states = ["a " * 15, "b"]

    usage = make_agent(on_predict_start=rewrite).predict_long(LONG, ASKED, **SMALL)["usage"]

    assert usage["truncated"] is True
    assert usage["state_tokens_dropped"] == 3
    assert usage["truncated_questions"] == ["team", "anger", "spam"]


def test_a_start_hook_that_leaves_no_states_leaves_no_answers() -> None:
    def rewrite(ctx: PredictContext) -> None:
        ctx.states = []

    with pytest.warns(RuntimeWarning, match="left no states"):
        result = make_agent(on_predict_start=rewrite).predict_long(LONG, ASKED, **SMALL)

    assert (result["answers"], result["usage"]["windows"]) == ({}, 0)


@pytest.mark.parametrize(("state", "n", "longest"), [("a " * 11, 1, 11), (LONG, 6, 12)])
def test_budgets_that_would_cut_the_windows_again_are_refused(
    state: str, n: int, longest: int
) -> None:
    """Before the forward pass, with the numbers."""
    network = RecordingNetwork()

    def shrink(ctx: PredictContext) -> None:
        ctx.max_len = 10

    agent = make_agent(network, on_predict_start=shrink)
    message = rf"max_len=10, .* room for 10 .* longest of {n} texts has {longest};"
    with pytest.raises(InvalidOption, match=message):
        agent.predict_long(state, ASKED, **SMALL)

    assert network.steps == []


def test_budgets_that_still_fit_are_taken() -> None:
    def shrink(ctx: PredictContext) -> None:
        ctx.max_len = 10

    result = make_agent(on_predict_start=shrink).predict_long(LONG, ASKED, window=10, **SMALL)

    assert result["answers"]["team"]["window"]["count"] == 7


def test_a_start_hook_may_add_questions() -> None:
    def add(ctx: PredictContext) -> None:
        ctx.questions = {**ctx.questions, "more": ASKED["spam"]}

    answers = make_agent(on_predict_start=add).predict_long(LONG, ASKED, **SMALL)["answers"]

    assert list(answers) == ["team", "anger", "spam", "more"]
    assert "window" in answers["more"]


def test_a_start_hook_that_takes_all_questions_leaves_no_answers() -> None:
    def empty(ctx: PredictContext) -> None:
        ctx.questions = {}

    result = make_agent(on_predict_start=empty).predict_long(LONG, ASKED, **SMALL)

    assert (result["answers"], result["usage"]["windows"]) == ({}, 0)


def test_end_hooks_get_one_result_per_window_before_they_are_merged() -> None:
    def end(ctx: PredictContext) -> None:
        assert len(ctx.results) == len(ctx.states)
        ctx.results[2]["answers"]["team"]["answer_confidence"] = 2.0
        ctx.results[2]["answers"]["team"]["note"] = "mine"

    answer = make_agent(on_predict_end=end).predict_long(LONG, ASKED, **SMALL)["answers"]["team"]

    assert (answer["window"]["index"], answer["note"]) == (2, "mine")


@pytest.mark.parametrize("left", [None, [], [SKIPPED]])
def test_end_hooks_must_leave_a_result_per_window(left: Any) -> None:
    def end(ctx: PredictContext) -> None:
        ctx.results = left

    with pytest.raises(InvalidResult, match="predict_long: the hooks left"):
        make_agent(on_predict_end=end).predict_long(LONG, ASKED, **SMALL)


def test_a_failing_start_hook_fails_the_call_once() -> None:
    failure, network = ValueError("broken"), RecordingNetwork()
    hook = Recorder(start=fails_with(failure))

    with pytest.raises(ValueError, match="broken") as caught:
        make_agent(network, hooks=hook).predict_long(LONG, ASKED, **SMALL)

    assert caught.value is failure
    assert hook.log == ["hook.start", "hook.error", "hook.end"]
    assert network.steps == []


def test_a_failing_network_reaches_the_hooks() -> None:
    failure, hook = MemoryError(), Recorder()
    network = RecordingNetwork(failing={"forward": failure})

    with pytest.raises(MemoryError):
        make_agent(network, hooks=hook).predict_long(LONG, ASKED, **SMALL)

    assert hook.log == ["hook.start", "hook.error", "hook.end"]
    assert hook.contexts[0].error is failure


def test_the_callers_state_and_questions_are_left_as_they_were() -> None:
    state, questions = [{"text": LONG}], json.loads(json.dumps(ASKED))
    before = json.dumps([state, questions])

    make_agent().predict_long(state, questions, min_confidence=0.5, **SMALL)

    assert json.dumps([state, questions]) == before


# --- cross-encoders, beside laya -------------------------------------------------------------

TICKET: dict[str, Any] = {
    "team": Choice("Which team?", {"billing": "money", "technical": "errors", "sales": None}),
    "mood": Score("How angry is the customer?", ["calm", "annoyed", "furious"]),
    "sure": Noul("Is it sure?"),
}
_WORDS = ("the", "customer", "wrote", "that", "a", "printer", "is", "broken", "again", "twice")


def plain_text(n_words: int, seed: int = 1) -> str:
    """Words that are one token each wherever the text is cut."""
    draw = random.Random(seed)
    return " ".join(draw.choice(_WORDS) for _ in range(n_words))


@pytest.mark.parametrize("kind", KINDS)
def test_windows_and_answers_are_those_of_laya(tmp_path: Path, kind: str) -> None:
    import laya.agent

    folder = make_checkpoint(tmp_path / kind, kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = laya.agent.Agent(str(folder), device="cpu")
    ours, text = Agent(folder, device="cpu"), plain_text(400)
    deciding = set()

    for options in ({}, {"window": 30}, {"window": 40, "stride": 40}, {"window": 500}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mine = ours.predict_long(text, TICKET, **options)
            other = theirs.predict_long(text, TICKET, **options)
        assert mine["usage"] == other["usage"]
        for qid, answer in mine["answers"].items():
            window, expected = answer.pop("window"), other["answers"][qid].pop("window")
            spans = {"char_start": window["char_start"], "char_end": window["char_end"]}
            assert window == {**expected, **spans}
            piece = text[window["char_start"] : window["char_end"]]
            assert piece.split() == text.split()[window["token_start"] : window["token_end"]]
            deciding.add(window["index"])
            assert answer.get("choice") == other["answers"][qid].get("choice")
            for figure in ("answer_confidence", "confidence"):
                assert answer[figure] == pytest.approx(other["answers"][qid][figure], abs=1e-3)

    assert len(deciding) > 3, "or the comparison would say little"


def test_a_cross_encoder_reads_every_token_also_where_words_are_cut(tmp_path: Path) -> None:
    """Pieces of words may be more tokens by themselves; laya cuts what is too much."""
    agent, hook = Agent(make_checkpoint(tmp_path / "c"), device="cpu"), Recorder()
    text = "antidisestablishmentarianism 🙂 überhäufig [MASK] 日本語 " * 40

    for window in (None, 31, 7):
        result = agent.predict_long(text, TICKET, window, hooks=hook)
        assert result["usage"]["truncated"] is False
        assert result["usage"]["state_tokens_dropped"] == 0
        for answer in result["answers"].values():
            span = answer["window"]
            piece = text[span["char_start"] : span["char_end"]]
            assert piece == hook.contexts[-1].states[span["index"]]


def test_the_tightest_question_decides_how_much_room_there_is(tmp_path: Path) -> None:
    agent = Agent(make_checkpoint(tmp_path / "c", max_len=512), device="cpu")
    many = Choice("Which?", [f"option {i}" for i in range(20)])
    budget = Budget(512, 192)
    rooms = [agent.network.room(prepare({"q": q}), budget) for q in (TICKET["sure"], many)]
    assert rooms[0] > rooms[1] > 0

    assert agent.network.room(prepare({"sure": TICKET["sure"], "many": many}), budget) == rooms[1]
    state = plain_text(rooms[1])
    usage = agent.predict_batch([state, state + " the"], {"q": many}, max_len=512, head_max_len=192)
    assert [result["usage"]["truncated"] for result in usage] == [False, True]


def test_questions_that_leave_no_room_are_refused(tmp_path: Path) -> None:
    agent = Agent(make_checkpoint(tmp_path / "c"), device="cpu")
    many = {"q": Choice("Which?", [f"option {i}" for i in range(30)])}
    room = agent.network.room(prepare(many), Budget(256, 64))
    too_small = 256 - room

    with pytest.raises(
        InvalidOption, match=f"no room for the state in max_len={too_small} .* raise"
    ):
        agent.predict_long(plain_text(50), many, max_len=too_small)
    assert agent.predict_long("", many, max_len=too_small)["usage"]["windows"] == 1


def test_more_options_than_the_windows_were_cut_for_are_refused(tmp_path: Path) -> None:
    agent = Agent(make_checkpoint(tmp_path / "c", max_len=256), device="cpu")

    def widen(ctx: PredictContext) -> None:
        ctx.questions["q"]["criteria"] = [f"option {i}" for i in range(50)]

    asked = {"q": {"type": "choice", "instructions": "Which?", "criteria": ["a", "b"]}}
    hook = Recorder()
    with pytest.raises(InvalidOption, match=r"room for \d+ state tokens, and the longest of"):
        agent.predict_long(plain_text(400), asked, hooks=hook, on_predict_start=widen)
    assert hook.contexts[0].timings is None, "no forward pass was made"


# --- the embedded checkpoint -----------------------------------------------------------------

FILLER = (
    "The weather was mild and the streets were quiet. We walked along the river, talked about "
    "books, and had coffee in a small place near the bridge. "
)
NEEDLE = "My credit card was stolen yesterday, please block the card at once. "


@pytest.mark.checkpoint
def test_a_needle_is_found_in_its_window() -> None:
    agent = Agent(device="cpu")
    text = FILLER * 30 + NEEDLE + FILLER * 20
    asked = {
        "card": Noul("Is the message about a bank card?"),
        "topic": Choice(
            "What does the customer report?",
            ["a stolen bank card", "a late parcel", "a wrong invoice"],
        ),
    }

    result = agent.predict_long(text, asked, window=48)

    card = result["answers"]["card"]
    place = text.index(NEEDLE)
    for found in (card["window"], result["answers"]["topic"]["window"]):
        assert found["char_start"] < place + len(NEEDLE)
        assert found["char_end"] > place
    assert result["answers"]["topic"]["choice"] == "a stolen bank card"
    assert card["noul"] > agent.predict(text, asked)["answers"]["card"]["noul"] + 0.2
    assert result["usage"]["truncated"] is False
    assert result["usage"]["windows"] == card["window"]["count"] > 40


@pytest.mark.checkpoint
def test_the_embedded_networks_room_is_what_predict_reads_whole() -> None:
    agent = Agent(device="cpu")
    room = agent.network.room(prepare(QUESTIONS), Budget(256, 64))

    results = agent.predict_batch(["the " * room, "the " * (room + 1)], QUESTIONS, max_len=256)

    assert [result["usage"]["state_tokens_dropped"] for result in results] == [0, 1]
    assert len(agent.network.token_spans("the " * room)) == room
    with pytest.raises(InvalidOption, match="outside what this encoder can read"):
        agent.predict_long("a", QUESTIONS, max_len=100_000)
