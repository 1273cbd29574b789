"""A trained head as a checkpoint folder: encoder, head, config and model card."""

from __future__ import annotations

import hashlib
import json
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import load_file, save

from jevlaya_lab.system_one.checkpoint import write_checkpoint
from jevlaya_lab.system_one.models.heads import HEAD_KINDS
from jevlaya_lab.training.card import card
from jevlaya_lab.training.data import HELD_OUT
from jevlaya_lab.training.evaluation import Figures, evaluate
from jevlaya_lab.training.recipe import Settings, Trained, base_encoder

__all__ = ["write"]

_ENCODER_FILES: Final = (
    "1_Pooling/config.json",
    "README.md",
    "config_sentence_transformers.json",
    "modules.json",
    "sentence_bert_config.json",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
)
_PINNED: Final = ("encoder/model.safetensors", "encoder/tokenizer.json", "head.safetensors")
_MAX_LEN, _HEAD_MAX_LEN = 256, 64


def write(folder: Path, trained: Trained, settings: Settings, data: Path) -> list[Figures]:
    """Write a checkpoint, measure it as it lies there, and put the figures into its card.

    Args:
        folder: Where it shall lie; an older one there is replaced as a whole.
        trained: The head and its temperatures.
        settings: How it was trained.
        data: Folder of the sets, for the held-out table.

    Returns:
        The held-out figures.
    """
    files = {f"encoder/{name}": content for name, content in _encoder_files(base_encoder()).items()}
    weights = {
        name: tensor.half().contiguous() for name, tensor in trained.head.state_dict().items()
    }
    files["head.safetensors"] = save(weights, {"format": "pt"})
    config = _config(trained, settings)
    config["sha256"] = {name: hashlib.sha256(files[name]).hexdigest() for name in _PINNED}
    files["rl_agent_config.json"] = _json(config)
    files["README.md"] = card(config, []).encode()
    write_checkpoint(folder, files)
    figures = evaluate(folder, data)
    files["README.md"] = card(config, figures).encode()
    write_checkpoint(folder, files)
    return figures


def _encoder_files(base: Path) -> dict[str, bytes]:
    """The published encoder in sentence-transformers layout, its weights in half precision."""
    files = {name: (base / name).read_bytes() for name in _ENCODER_FILES}
    weights = {
        name: tensor.half() if tensor.is_floating_point() else tensor
        for name, tensor in load_file(base / "model.safetensors").items()
    }
    files["model.safetensors"] = save(weights, {"format": "pt"})
    config = json.loads((base / "config.json").read_text(encoding="utf-8"))
    # Half precision is for the disk: on a CPU it is slow, so whoever loads this shall widen it.
    config["torch_dtype"] = "float32"
    files["config.json"] = _json(config)
    return files


def _config(trained: Trained, settings: Settings) -> dict[str, Any]:
    return {
        "architecture": "bi_encoder",
        "name": "embedded",
        "encoder": "sentence-transformers/all-MiniLM-L6-v2",
        "max_len": _MAX_LEN,
        "head_max_len": _HEAD_MAX_LEN,
        "head": {**HEAD_KINDS[settings.head["kind"]], **settings.head},
        "temperature": trained.temperature,
        "temperature_by_options": trained.temperature_by_options,
        "training": {
            "seed": settings.seed,
            "epochs": settings.epochs,
            "examples_per_epoch": settings.examples_per_epoch,
            "rows": trained.n_rows,
            "held_out": list(HELD_OUT),
            "versions": {
                "torch": torch.__version__.partition("+")[0],
                "transformers": version("transformers"),
                "tokenizers": version("tokenizers"),
            },
        },
    }


def _json(value: Any) -> bytes:
    return (json.dumps(value, ensure_ascii=False, indent=2) + "\n").encode()
