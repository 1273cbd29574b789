"""The bi-encoder, with the checkpoint that comes with the package."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file

from jevlaya_lab.system_one.checkpoint import EMBEDDED, read_checkpoint
from jevlaya_lab.system_one.errors import CheckpointInvalid, CheckpointNotFound, InvalidOption
from jevlaya_lab.system_one.models import Budget, Prepared
from jevlaya_lab.system_one.models.bi_encoder import BiEncoder
from jevlaya_lab.system_one.models.heads import HEAD_KINDS, build_head
from jevlaya_lab.system_one.questions import prepare

pytestmark = pytest.mark.checkpoint

BUDGET = Budget(max_len=256, head_max_len=64)
QUESTIONS: dict[str, dict[str, Any]] = {
    "topic": {
        "type": "choice",
        "instructions": "What does the customer want?",
        "criteria": {"refund": "money back", "lost card": None, "new address": None},
    },
    "mood": {
        "type": "score",
        "instructions": "How angry is the writer?",
        "criteria": ["calm", "annoyed", "furious"],
    },
    "card": {"type": "noul", "instructions": "Is the message about a bank card?"},
}
STATES = [
    "My card is gone",
    "I would like my money back for the shoes that I bought from you in the spring, please. " * 3,
    "",
    "We moved to Oslo, please send the letters there from now on.",
]


@pytest.fixture(scope="module")
def loaded() -> BiEncoder:
    checkpoint = read_checkpoint("embedded")
    return BiEncoder.from_folder(checkpoint.folder, checkpoint.config, "cpu")


@pytest.fixture
def fresh(loaded: BiEncoder) -> Callable[..., BiEncoder]:
    """Networks that share the weights of ``loaded`` and keep texts of their own."""

    def build(**changes: Any) -> BiEncoder:
        head = changes.pop("head", loaded.head)
        return BiEncoder(loaded.encoder, loaded.tokenizer, head, loaded.config, **changes)

    return build


def ask(
    network: BiEncoder,
    states: Sequence[str],
    questions: dict[str, dict[str, Any]] = QUESTIONS,
    budget: Budget = BUDGET,
) -> list[list[NDArray[np.float32]]]:
    prepared = network.prepare(prepare(questions), budget)
    encoded = [network.encode_state(s, keep_end=False, prepared=prepared) for s in states]
    return network.forward(network.collate(encoded, prepared), prepared).options


def test_gives_one_float32_logit_per_option_and_no_act(loaded: BiEncoder) -> None:
    prepared = loaded.prepare(prepare(QUESTIONS), BUDGET)
    encoded = [loaded.encode_state(s, keep_end=False, prepared=prepared) for s in STATES]
    logits = loaded.forward(loaded.collate(encoded, prepared), prepared)
    assert [[row.shape for row in state] for state in logits.options] == [[(3,), (3,), (2,)]] * 4
    assert all(row.dtype == np.float32 for state in logits.options for row in state)
    assert logits.act is None


def test_answers_what_is_plain(loaded: BiEncoder) -> None:
    texts = ["I lost my credit card, please block it", "I have moved, here is my new address"]
    lost, moved = ask(loaded, texts)
    assert (lost[0].argmax(), moved[0].argmax()) == (1, 2)
    assert lost[2][1] - lost[2][0] > moved[2][1] - moved[2][0]


def test_padding_changes_no_result(loaded: BiEncoder) -> None:
    together = ask(loaded, STATES)
    for state, row in zip(STATES, together, strict=True):
        [alone] = ask(loaded, [state])
        for a, b in zip(alone, row, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-5)


def test_further_questions_change_no_result(loaded: BiEncoder) -> None:
    together = ask(loaded, STATES[:1])[0]
    for number, (key, question) in enumerate(QUESTIONS.items()):
        [[alone]] = ask(loaded, STATES[:1], {key: question})
        np.testing.assert_allclose(alone, together[number], atol=1e-5)


def test_option_order_changes_no_option(loaded: BiEncoder) -> None:
    labels = ["refund", "lost card", "new address", "opening hours", "complaint"]
    ask_labels = {"type": "choice", "instructions": "What is it about?"}
    [[forwards]] = ask(loaded, STATES[:1], {"q": {**ask_labels, "criteria": labels}})
    [[backwards]] = ask(loaded, STATES[:1], {"q": {**ask_labels, "criteria": labels[::-1]}})
    np.testing.assert_allclose(forwards, backwards[::-1], atol=1e-5)
    order = {"option_order": [3, 1, 4, 0, 2]}
    [[shown]] = ask(loaded, STATES[:1], {"q": {**ask_labels, "criteria": labels, **order}})
    np.testing.assert_allclose(forwards, shown, atol=1e-5)


def test_many_states_are_judged_in_parts_without_a_difference(
    loaded: BiEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = ask(loaded, STATES)
    monkeypatch.setattr("jevlaya_lab.system_one.models.bi_encoder._PAIRS_PER_CALL", 8)
    for a, b in zip(whole, ask(loaded, STATES), strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_allclose(x, y, atol=1e-5)


def test_no_questions_and_no_states_are_fine(loaded: BiEncoder) -> None:
    assert ask(loaded, STATES[:2], {}) == [[], []]
    assert ask(loaded, []) == []


def test_counts_do_not_depend_on_what_is_kept(fresh: Callable[..., BiEncoder]) -> None:
    network = fresh()
    first = network.prepare(prepare(QUESTIONS), BUDGET)
    second = network.prepare(prepare(QUESTIONS), BUDGET)
    assert first.forwards
    assert not second.forwards
    assert first.input_tokens == second.input_tokens > 0
    texts = ["What does the customer want?", "refund: money back", "lost card", "new address"]
    only_choice = network.prepare(prepare({"topic": QUESTIONS["topic"]}), BUDGET)
    assert only_choice.input_tokens == sum(len(network.tokenizer.encode(t).ids) for t in texts)


def test_passes_for_questions_are_reported_with_their_padding(
    fresh: Callable[..., BiEncoder],
) -> None:
    [forward] = fresh().prepare(prepare({"topic": QUESTIONS["topic"]}), BUDGET).forwards
    assert (forward.kind, forward.n_rows) == ("questions", 4)
    assert forward.n_padding > 0
    assert (forward.n_tokens + forward.n_padding) % 4 == 0
    assert forward.elapsed_ms > 0


def test_what_is_kept_is_bounded_and_the_last_used_stay(fresh: Callable[..., BiEncoder]) -> None:
    network = fresh(kept_texts=4)
    topic = {"topic": QUESTIONS["topic"]}
    network.prepare(prepare(topic), BUDGET)
    network.prepare(
        prepare({"q": {"type": "choice", "instructions": "Which?", "criteria": ["a"]}}), BUDGET
    )
    assert network.info()["n_kept_texts"] == 4
    [forward] = network.prepare(prepare(topic), BUDGET).forwards
    assert forward.n_rows == 2


def test_a_call_with_more_texts_than_are_kept_works(fresh: Callable[..., BiEncoder]) -> None:
    [[few, *_]] = ask(fresh(kept_texts=1), STATES[:1])
    [[many, *_]] = ask(fresh(), STATES[:1])
    np.testing.assert_allclose(few, many, atol=1e-5)


def test_another_budget_embeds_anew(fresh: Callable[..., BiEncoder]) -> None:
    network = fresh()
    network.prepare(prepare(QUESTIONS), BUDGET)
    assert network.prepare(prepare(QUESTIONS), Budget(256, 32)).forwards


def test_threads_get_the_same_answers(fresh: Callable[..., BiEncoder]) -> None:
    network = fresh(kept_texts=6)
    expected = ask(network, STATES)
    budgets = [BUDGET, Budget(256, 64), Budget(128, 64), Budget(200, 64)]
    found: dict[int, list[list[NDArray[np.float32]]]] = {}
    start = threading.Barrier(len(budgets))

    def work(number: int, budget: Budget) -> None:
        start.wait()
        for _ in range(3):
            found[number] = ask(network, STATES, budget=budget)

    threads = [threading.Thread(target=work, args=each) for each in enumerate(budgets)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [0, 1, 2, 3]
    for answers in found.values():
        for a, b in zip(answers, expected, strict=True):
            for x, y in zip(a, b, strict=True):
                np.testing.assert_allclose(x, y, atol=1e-5)
    assert network.info()["n_kept_texts"] <= 6


def _encode(network: BiEncoder, text: str, budget: Budget, keep_end: bool) -> tuple[Any, Prepared]:
    prepared = network.prepare(prepare(QUESTIONS), budget)
    return network.encode_state(text, keep_end=keep_end, prepared=prepared), prepared


def test_a_long_state_keeps_its_start_or_its_end(loaded: BiEncoder) -> None:
    ids = loaded.tokenizer.encode("one two three four five six seven eight").ids
    budget = Budget(5, 64)
    text = "one two three four five six seven eight"
    start, prepared = _encode(loaded, text, budget, keep_end=False)
    end, _ = _encode(loaded, text, budget, keep_end=True)
    assert list(start.rows[0]) == [ids[0], *ids[1:4], ids[-1]]
    assert list(end.rows[0]) == [ids[0], *ids[6:9], ids[-1]]
    for state in (start, end):
        assert (state.state_tokens, state.state_tokens_dropped) == (8, 5)
        assert state.truncated_questions == ("topic", "mood", "card")
        assert state.input_tokens == 5 + prepared.input_tokens


def test_a_state_that_just_fits_is_whole(loaded: BiEncoder) -> None:
    state, _ = _encode(loaded, "one two three", Budget(5, 64), keep_end=False)
    assert (state.state_tokens, state.state_tokens_dropped) == (3, 0)
    assert state.truncated_questions == ()


def test_an_empty_state_has_no_tokens_and_finite_logits(loaded: BiEncoder) -> None:
    state, _ = _encode(loaded, "", BUDGET, keep_end=False)
    assert (len(state.rows[0]), state.state_tokens) == (2, 0)
    assert all(np.isfinite(row).all() for row in ask(loaded, [""])[0])


def test_options_that_the_cut_makes_equal_are_reported(loaded: BiEncoder) -> None:
    labels = ["the very same long start one", "the very same long start two", "other"]
    questions = {
        "q": {"type": "choice", "instructions": "Which?", "criteria": labels},
        "ok": {"type": "choice", "instructions": "Which?", "criteria": ["a", "b"]},
    }
    cut = loaded.prepare(prepare(questions), Budget(256, 6)).collapsed
    assert cut == {"q": {"total": 3, "distinct": 2, "tokens_per_option": 4}}
    assert loaded.prepare(prepare(questions), BUDGET).collapsed == {}


def test_options_that_read_the_same_are_reported_without_a_budget_to_raise(
    loaded: BiEncoder,
) -> None:
    questions = {"q": {"type": "choice", "instructions": "Which?", "criteria": ["Card", "card"]}}
    collapsed = loaded.prepare(prepare(questions), BUDGET).collapsed
    assert collapsed == {"q": {"total": 2, "distinct": 1, "tokens_per_option": None}}


@pytest.mark.parametrize("budget", [Budget(513, 64), Budget(256, 2), Budget(0, 64)])
def test_a_budget_the_encoder_cannot_keep_is_refused(loaded: BiEncoder, budget: Budget) -> None:
    with pytest.raises(InvalidOption, match="3 to 512"):
        loaded.prepare(prepare(QUESTIONS), budget)


@pytest.mark.parametrize("kind", sorted(HEAD_KINDS))
def test_an_untrained_head_is_the_cosine(fresh: Callable[..., BiEncoder], kind: str) -> None:
    network = fresh(head=build_head({"kind": kind, "width": 384}))
    labels = ["refund", "lost card", "new address"]
    questions = {"q": {"type": "choice", "instructions": "What?", "criteria": labels}}
    [[logits]] = ask(network, STATES[:1], questions)
    prepared = network.prepare(
        prepare({"q": {"type": "choice", "instructions": STATES[0], "criteria": labels}}), BUDGET
    )
    asked = prepared.data.asked
    cosine = (asked.options @ asked.instructions[0]).numpy()
    np.testing.assert_allclose(logits, 20 * cosine, atol=1e-4)


def test_the_stored_encoder_is_a_sentence_transformer(loaded: BiEncoder) -> None:
    library = pytest.importorskip("sentence_transformers")
    model = library.SentenceTransformer(str(EMBEDDED / "encoder"), device="cpu")
    texts = ["My card is gone", "a longer text with some more words in it", ""]
    questions = {"q": {"type": "choice", "instructions": "x", "criteria": texts[:2]}}
    ours = loaded.prepare(prepare(questions), BUDGET).data.asked.options.numpy()
    theirs = model.encode(texts[:2])
    assert theirs.dtype == np.float32
    np.testing.assert_allclose(ours, theirs, atol=1e-3)


def test_the_checkpoint_holds_half_precision_and_loads_as_single(loaded: BiEncoder) -> None:
    stored = load_file(EMBEDDED / "encoder" / "model.safetensors")
    assert {t.dtype for t in stored.values() if t.is_floating_point()} == {torch.float16}
    assert {p.dtype for p in loaded.encoder.parameters()} == {torch.float32}
    assert loaded.info()["n_head_parameters"] <= 3_500_000


def test_missing_and_unfitting_files_are_named(tmp_path: Path, loaded: BiEncoder) -> None:
    with pytest.raises(CheckpointNotFound, match=r"encoder/config\.json"):
        BiEncoder.from_folder(tmp_path, loaded.config)
    (tmp_path / "encoder").symlink_to(EMBEDDED / "encoder")
    (tmp_path / "head.safetensors").write_bytes(b"no tensors")
    with pytest.raises(CheckpointInvalid, match=r"head.safetensors is damaged"):
        BiEncoder.from_folder(tmp_path, loaded.config)
    save_file({"out.weight": torch.zeros(1, 1)}, tmp_path / "head.safetensors")
    with pytest.raises(CheckpointInvalid, match=r"out.weight is \[1, 1\], the config asks for"):
        BiEncoder.from_folder(tmp_path, loaded.config)
    with pytest.raises(CheckpointInvalid, match="'head'"):
        BiEncoder.from_folder(tmp_path, {"max_len": 256})
    config = {**loaded.config, "head": {"kind": "unheard of", "width": 384}}
    with pytest.raises(CheckpointInvalid, match="unheard of"):
        BiEncoder.from_folder(tmp_path, config)


def test_a_special_token_inside_of_a_text_is_text(loaded: BiEncoder) -> None:
    """Whoever writes "[SEP]" ends nothing: the row holds the network's own special tokens only."""
    prepared = loaded.prepare(prepare(QUESTIONS), BUDGET)

    (row,) = loaded.encode_state(
        "one [SEP] two [CLS] [PAD]", keep_end=False, prepared=prepared
    ).rows

    specials = {loaded.tokenizer.token_to_id(name) for name in ("[CLS]", "[SEP]", "[PAD]")}
    assert [token for token in row if token in specials] == [row[0], row[-1]]


def test_a_network_on_the_cpu_is_its_own_twin(loaded: BiEncoder) -> None:
    assert loaded.on_cpu() is loaded
