"""Small checkpoints in laya's format, made by the tests: random weights, but decided answers."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from transformers import AutoModel, BertConfig, ModernBertConfig

from jevlaya_lab.system_one.checkpoint import EMBEDDED, write_checkpoint
from jevlaya_lab.system_one.models.cross_encoder import DecisionModel
from jevlaya_lab.system_one.models.loading import decision_model_files

KINDS = ("bert", "modern", "modern-parallel", "minilm")
_WORDS = 30522

_CONFIG: dict[str, Any] = {
    "encoder": "made-by-tests",
    "head_layers": 2,
    "act_costs": {"wait": 0.1, "ask": 0.2},
    "max_len": 128,
    "head_max_len": 64,
    "temperature": [1.2, 0.9, 1.1],
    "temperature_by_options": {"choice:3-5": 1.5, "score:3-5": 0.8},
    "amp_dtype": "bf16",
}


def encoder_config(kind: str) -> Any:
    """The Hugging Face config of a kind's encoder."""
    if kind == "bert":
        return BertConfig(
            vocab_size=_WORDS,
            hidden_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=128,
        )
    if kind == "minilm":
        return BertConfig.from_json_file(str(EMBEDDED / "encoder" / "config.json"))
    return ModernBertConfig(
        vocab_size=_WORDS,
        hidden_size=64,
        num_hidden_layers=4,
        num_attention_heads=2,
        intermediate_size=96,
        global_attn_every_n_layers=2,
        local_attention=16,
        pad_token_id=0,
        cls_token_id=101,
        sep_token_id=102,
        bos_token_id=101,
        eos_token_id=102,
    )


def make_checkpoint(
    folder: Path, kind: str = "bert", *, seed: int = 0, shape: Any = None, **config: Any
) -> Path:
    """Write a checkpoint folder.

    Args:
        folder: Where.
        kind: One of ``KINDS``; ``minilm`` has the real encoder's weights under a random head.
        seed: Of the random weights.
        shape: Another config of the encoder than the kind's.
        **config: Goes over the usual config.

    Returns:
        The folder.
    """
    settings = {**_CONFIG, **config}
    if kind == "modern-parallel":
        settings["option_layout"] = "parallel"
    shape = encoder_config(kind) if shape is None else shape
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder = AutoModel.from_config(shape)
        model = DecisionModel(encoder, settings["head_layers"], len(settings["act_costs"]) + 1)
        for weight in model.parameters():
            weight.data += 0.05 * torch.randn_like(weight)
        # Random scorers give every option the same logit to two places; these do not.
        model.scorer[3].weight.data *= 12
        model.act_head[2].weight.data *= 4
    if kind == "minilm":
        real = load_file(EMBEDDED / "encoder" / "model.safetensors")
        encoder.load_state_dict({k: v.float() for k, v in real.items()}, strict=False)
    names = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
    with tempfile.TemporaryDirectory() as tokenizer:
        for name in names:
            shutil.copy(EMBEDDED / "encoder" / name, tokenizer)
        return write_checkpoint(folder, decision_model_files(model, Path(tokenizer), settings))
