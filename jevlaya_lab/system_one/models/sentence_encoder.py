"""The frozen sentence encoder: its weights, its tokenizer, and one pass through it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional as F

from jevlaya_lab.system_one.models.bert import Bert
from jevlaya_lab.system_one.models.heads import States
from jevlaya_lab.system_one.models.loading import fill, load_weights

__all__ = ["load_encoder", "load_tokenizer", "pad", "read_states"]


def pad(rows: Sequence[Sequence[int]], pad_id: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Token rows as one int64 matrix ``[rows, longest]``, and a bool mask of what is no padding."""
    longest = max(map(len, rows), default=0)
    ids = torch.full((len(rows), longest), pad_id, dtype=torch.long)
    mask = torch.zeros((len(rows), longest), dtype=torch.bool)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = torch.tensor(row, dtype=torch.long)
        mask[i, : len(row)] = True
    return ids.to(device), mask.to(device)


def read_states(encoder: nn.Module, ids: Tensor, mask: Tensor) -> States:
    """One pass of the encoder: token states, and their mean brought to length 1."""
    tokens: Tensor = encoder(ids, mask)
    weight = mask[..., None].to(tokens.dtype)
    mean = (tokens * weight).sum(1) / weight.sum(1).clamp(min=1.0)
    return States(F.normalize(mean, dim=-1), tokens, mask)


def load_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer of an encoder folder, without the truncation and padding that its file sets."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True  # "[SEP]" inside of a text is text
    return tokenizer


def load_encoder(folder: Path) -> Bert:
    """The encoder of a folder in sentence-transformers' layout, float32 on the CPU, frozen.

    Raises:
        CheckpointInvalid: It is no BERT, or its weights do not fit its config.
    """
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    weights = load_weights(folder / "model.safetensors")
    with torch.device("meta"):
        encoder = Bert(config)
    fill(encoder, Bert.rename(weights), folder)
    encoder.train(False)
    return encoder
