"""Checkpoints in laya's format: loading, and what a user sees of each of many broken ones."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from fakes import PATIENCE, start_thread
from safetensors.torch import load_file, save_file
from tiny import make_checkpoint

from jevlaya_lab import Agent
from jevlaya_lab.system_one.errors import CheckpointError, CheckpointInvalid, CheckpointNotFound

QUESTION = {"q": {"type": "choice", "instructions": "Which?", "criteria": ["a", "b"]}}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("whole") / "checkpoint")


@pytest.fixture
def folder(tmp_path: Path, whole: Path) -> Path:
    """A copy that a test may break."""
    for path in whole.rglob("*"):
        if path.is_file():
            target = tmp_path / "c" / path.relative_to(whole)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    return tmp_path / "c"


def config(**changes: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "rl_agent_config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return change


def weights(change: Callable[[dict[str, torch.Tensor]], Any]) -> Callable[[Path], None]:
    def rewrite(folder: Path) -> None:
        tensors = {k: v.clone() for k, v in load_file(folder / "model.safetensors").items()}
        change(tensors)
        save_file(tensors, folder / "model.safetensors")

    return rewrite


def content(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def rewrite(folder: Path) -> None:
        path = folder / name
        path.write_bytes(change(path.read_bytes()))

    return rewrite


def without(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def encoder(**changes: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "encoder" / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return change


def pickled(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(tensors, folder / "pytorch_model.bin")


BROKEN: dict[str, tuple[Callable[[Path], Any], type[CheckpointError], str]] = {
    "no config": (without("rl_agent_config.json"), CheckpointNotFound, "is no checkpoint folder"),
    "no weights": (
        without("model.safetensors"),
        CheckpointNotFound,
        "model.safetensors is missing",
    ),
    "only pickled weights": (pickled, CheckpointNotFound, "model.safetensors is missing"),
    "no encoder config": (
        without("encoder/config.json"),
        CheckpointNotFound,
        "encoder/config.json",
    ),
    "no tokenizer": (
        without("tokenizer/tokenizer.json"),
        CheckpointNotFound,
        "tokenizer.json is m",
    ),
    "config is no JSON": (
        content("rl_agent_config.json", lambda _: b"{'single': quotes}"),
        CheckpointInvalid,
        "rl_agent_config.json is no JSON",
    ),
    "config is a list": (
        content("rl_agent_config.json", lambda _: b"[]"),
        CheckpointInvalid,
        "holds a list where an object belongs",
    ),
    "config is not UTF-8": (
        content("rl_agent_config.json", lambda _: b"\xff\xfe{}"),
        CheckpointInvalid,
        "rl_agent_config.json is no JSON",
    ),
    "unknown architecture": (
        config(architecture="decoder"),
        CheckpointInvalid,
        "'decoder' is not known",
    ),
    "two temperatures": (
        config(temperature=[1.0, 2.0]),
        CheckpointInvalid,
        "temperature must be a list of three numbers",
    ),
    "temperature as text": (config(temperature="abc"), CheckpointInvalid, "list of three numbers"),
    "buckets as a list": (
        config(temperature_by_options=[1.0]),
        CheckpointInvalid,
        "temperature_by_options must map buckets",
    ),
    "negative max_len": (config(max_len=-5), CheckpointInvalid, "max_len must be a whole number"),
    "head_layers as text": (
        config(head_layers="2"),
        CheckpointInvalid,
        "head_layers must be a who",
    ),
    "unknown layout": (
        config(option_layout="circular"),
        CheckpointInvalid,
        "option_layout must be one of sequential, parallel, got 'circular'",
    ),
    "unknown precision": (config(amp_dtype="int4"), CheckpointInvalid, "amp_dtype must be one of"),
    "act_costs as a list": (config(act_costs=[0.1]), CheckpointInvalid, "act_costs must be an obj"),
    "parallel layout for a BERT": (
        config(option_layout="parallel"),
        CheckpointInvalid,
        "parallel.*needs an encoder with masks for each kind of layer",
    ),
    "weights cut short": (
        content("model.safetensors", lambda raw: raw[: len(raw) // 2]),
        CheckpointInvalid,
        r"model.safetensors is damaged",
    ),
    "weights padded": (
        content("model.safetensors", lambda raw: raw + b"\0" * 64),
        CheckpointInvalid,
        "model.safetensors is damaged",
    ),
    "weights are something else": (
        content("model.safetensors", lambda _: b"<html>not found</html>"),
        CheckpointInvalid,
        "model.safetensors is damaged",
    ),
    "empty weights file": (
        content("model.safetensors", lambda _: b""),
        CheckpointInvalid,
        "model.safetensors is damaged",
    ),
    "a weight is missing": (
        weights(lambda tensors: tensors.pop("scorer.1.weight")),
        CheckpointInvalid,
        "missing weights: scorer.1.weight",
    ),
    "a weight has another shape": (
        weights(lambda tensors: tensors.update({"type_emb.weight": torch.zeros(4, 64)})),
        CheckpointInvalid,
        r"type_emb.weight is \[4, 64\], the config asks for \[3, 64\]",
    ),
    "a weight is left over": (
        weights(lambda tensors: tensors.update({"extra.weight": torch.zeros(1)})),
        CheckpointInvalid,
        "that this network does not have: extra.weight",
    ),
    "config asks for more layers": (config(head_layers=3), CheckpointInvalid, "missing weights"),
    "encoder of another width": (encoder(hidden_size=96), CheckpointInvalid, "another shape"),
    "encoder of an unknown kind": (
        encoder(model_type="not-a-model"),
        CheckpointInvalid,
        "describes no encoder that transformers can build",
    ),
    "encoder asks for code of its own": (
        encoder(model_type="custom", auto_map={"AutoConfig": "evil.Config", "AutoModel": "evil.M"}),
        CheckpointInvalid,
        "asks for code of its own, which is never run here",
    ),
    "tokenizer is no JSON": (
        content("tokenizer/tokenizer.json", lambda _: b"{}"),
        CheckpointInvalid,
        "is no tokenizer",
    ),
    "tokenizer without a mask token": (
        content(
            "tokenizer/tokenizer_config.json",
            lambda raw: json.dumps({**json.loads(raw), "mask_token": "[NO]"}).encode(),
        ),
        CheckpointInvalid,
        r"the tokenizer has no mask_token '\[NO\]'",
    ),
    "altered after it was pinned": (
        config(sha256={"model.safetensors": "0" * 64}),
        CheckpointInvalid,
        "model.safetensors is damaged or was altered",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_checkpoint_says_what_is_wrong(folder: Path, case: str) -> None:
    break_it, kind, message = BROKEN[case]
    break_it(folder)

    with pytest.raises(kind, match=message) as caught:
        Agent(folder, device="cpu")

    assert str(folder) in str(caught.value), "the message names the checkpoint"


def test_a_whole_one_loads_and_answers(whole: Path) -> None:
    agent = Agent(whole, device="cpu")

    result = agent.predict("some text", QUESTION)

    assert result["answers"]["q"]["choice"] in ("a", "b")
    assert 0 < result["answers"]["q"]["action"]["act_probability"] < 1
    assert "cross_encoder" in repr(agent)


def test_pins_are_checked_before_a_byte_is_parsed(folder: Path) -> None:
    (folder / "rl_agent_config.json").write_bytes(b"not JSON at all")

    with pytest.raises(CheckpointInvalid, match=r"rl_agent_config.json is damaged or was altered"):
        Agent(folder, expected_sha256={"rl_agent_config.json": "0" * 64})


def test_right_pins_of_the_caller_let_it_load(whole: Path) -> None:
    digest = hashlib.sha256((whole / "model.safetensors").read_bytes()).hexdigest()

    assert Agent(whole, expected_sha256={"model.safetensors": digest.upper()}).network


def test_half_precision_on_disk_is_float32_on_a_cpu(folder: Path) -> None:
    before = Agent(folder, device="cpu").predict("some text", QUESTION)["answers"]["q"]
    halve = weights(lambda tensors: tensors.update({k: v.half() for k, v in tensors.items()}))
    halve(folder)
    agent = Agent(folder, device="cpu")

    answer = agent.predict("some text", QUESTION)["answers"]["q"]

    assert {p.dtype for p in agent.network.model.parameters()} == {torch.float32}  # type: ignore[attr-defined]
    assert answer["answer_confidence"] == pytest.approx(before["answer_confidence"], abs=5e-3)


def test_loading_leaves_the_initialisation_of_other_modules_alone(
    whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither while a checkpoint is loaded in another thread, nor after two loads at a time."""
    inside, go = threading.Barrier(3), threading.Event()
    build = transformers.AutoModel.from_config

    def wait(*args: Any, **kwargs: Any) -> Any:
        inside.wait(PATIENCE)
        assert go.wait(PATIENCE)
        return build(*args, **kwargs)

    def made() -> float:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            return float(torch.nn.Linear(8, 8).weight.detach().abs().sum())

    before = made()
    monkeypatch.setattr(transformers.AutoModel, "from_config", wait)
    threads = [start_thread(lambda: Agent(whole, device="cpu")) for _ in range(2)]
    inside.wait(PATIENCE)
    meanwhile = made()
    go.set()
    for thread in threads:
        thread.join(PATIENCE)

    assert meanwhile == before
    assert made() == before


def test_no_random_number_is_drawn_for_weights_that_are_about_to_be_read(whole: Path) -> None:
    """For 400 million weights that takes seconds, and their memory a second time."""
    state = torch.random.get_rng_state()

    Agent(whole, device="cpu")

    assert torch.equal(torch.random.get_rng_state(), state)
    torch.nn.Linear(2, 2)
    assert not torch.equal(torch.random.get_rng_state(), state)


def test_weights_without_the_unused_temperature_buffer_load(folder: Path) -> None:
    weights(lambda tensors: tensors.pop("temperature"))(folder)

    assert Agent(folder, device="cpu").predict("a", QUESTION)


def test_a_sub_folder_is_the_checkpoint(folder: Path) -> None:
    outer = folder.parent / "outer"
    outer.mkdir()
    folder.rename(outer / "inner")

    assert Agent(outer, subfolder="inner").predict("a", QUESTION)
    with pytest.raises(CheckpointNotFound, match="no sub-folder 'other'"):
        Agent(outer, subfolder="other")


def test_an_unreadable_tokenizer_config_is_not_needed(folder: Path) -> None:
    """What other versions of transformers cannot read plays no part, and no file is changed."""
    path = folder / "tokenizer" / "tokenizer_config.json"
    strange = {**json.loads(path.read_text()), "tokenizer_class": "TokenizersBackend"}
    path.write_text(json.dumps({**strange, "extra_special_tokens": ["<a>", "<b>"]}))
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}

    assert Agent(folder, device="cpu").predict("a", QUESTION)

    assert {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()} == before


def test_building_leaves_the_random_numbers_alone(whole: Path) -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)

    Agent(whole, device="cpu")

    assert torch.equal(torch.rand(3), expected)


def test_a_wrong_calibration_is_said_before_the_weights_are_read(folder: Path) -> None:
    content("model.safetensors", lambda _: b"")(folder)

    with pytest.raises(CheckpointNotFound, match=r"calibration file .*none.json"):
        Agent(folder, calibration=folder / "none.json")
    with pytest.raises(CheckpointInvalid, match=r"lang_temperatures\['de'\]: must be an object"):
        Agent(folder, lang_temperatures={"de": 2.0})


def test_a_source_that_is_nothing_names_the_three_that_work() -> None:
    with pytest.raises(
        CheckpointNotFound, match=r"no such folder; pass the folder.*hub.*'embedded'"
    ):
        Agent("/no/such/folder")
