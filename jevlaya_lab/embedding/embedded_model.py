"""The embedded all-MiniLM-L6-v2 as a local model: offline, and without sentence-transformers.

The network is the one that a bi-encoder Agent reads states with, so both can use one copy of the
weights.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import torch
from tokenizers import Tokenizer

from jevlaya_lab.embedding.local_models import Facts, Row
from jevlaya_lab.system_one.models.bert import Bert
from jevlaya_lab.system_one.models.sentence_encoder import (
    load_encoder,
    load_tokenizer,
    pad,
    read_states,
)

__all__ = ["EmbeddedModel"]

_MAX_LENGTH: Final = 256
"""Tokens that all-MiniLM-L6-v2 reads, though it has more positions."""


class EmbeddedModel:
    """A BERT with mean pooling, brought to length 1.

    Args:
        encoder: The network; several of these may share it, since it keeps no state.
        tokenizer: Its tokenizer, without truncation and padding.
        facts: What it is.
    """

    def __init__(self, encoder: Bert, tokenizer: Tokenizer, facts: Facts) -> None:
        self.facts = facts
        self.encoder = encoder
        self._tokenizer = tokenizer
        self._device = torch.device(facts.device)
        self._cut = min(facts.max_length or encoder.n_positions, encoder.n_positions)

    @classmethod
    def from_folder(
        cls, folder: Path, *, name: str, revision: str, prompt: str, device: torch.device
    ) -> EmbeddedModel:
        """Load the weights of a folder in sentence-transformers' layout."""
        settings = json.loads((folder / "sentence_bert_config.json").read_text(encoding="utf-8"))
        facts = Facts(
            model=name,
            revision=revision,
            pooling="mean",
            prompt=prompt,
            max_length=int(settings["max_seq_length"]),
            normalised=True,
            device=str(device),
            uses_torch=True,
        )
        return cls(load_encoder(folder).to(device), load_tokenizer(folder), facts)

    @classmethod
    def of_agent(cls, agent: Any, *, name: str, revision: str | None, prompt: str) -> EmbeddedModel:
        """Use the weights that a bi-encoder Agent has in memory, on the Agent's device."""
        network = agent.network
        facts = Facts(
            model=name,
            revision=revision or _digest(network.encoder),
            pooling="mean",
            prompt=prompt,
            max_length=min(_MAX_LENGTH, network.encoder.n_positions),
            normalised=True,
            device=str(network.device),
            uses_torch=True,
        )
        return cls(network.encoder, _copy(network.tokenizer), facts)

    def read(self, texts: Sequence[str]) -> list[Row]:
        """Token ids of each text, cut to what the network reads."""
        prompt = self.facts.prompt
        whole = self._tokenizer.encode_batch([prompt + text for text in texts])
        rows = []
        for text, encoding in zip(texts, whole, strict=True):
            ids = encoding.ids
            was_cut = len(ids) > self._cut
            if was_cut:
                ids = [*ids[: self._cut - 1], ids[-1]]
            rows.append(Row(text, len(ids), was_cut, ids))
        return rows

    def encode(self, rows: Sequence[Row]) -> Any:
        """One forward pass: a tensor [n, 384]."""
        ids, mask = pad([row.ids for row in rows], self.encoder.pad_id, self._device)
        with torch.inference_mode():
            return read_states(self.encoder, ids, mask).pooled

    def encode_exactly(self, row: Row) -> Any:
        """One row alone; the weights are float32 in any case."""
        return self.encode([row])

    def replica(self) -> EmbeddedModel:
        """The same network with a copy of the tokenizer."""
        return EmbeddedModel(self.encoder, _copy(self._tokenizer), self.facts)


def _copy(tokenizer: Tokenizer) -> Tokenizer:
    copied = Tokenizer.from_str(tokenizer.to_str())
    copied.encode_special_tokens = tokenizer.encode_special_tokens
    return copied


def _digest(encoder: Bert) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(encoder.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.cpu().contiguous().numpy().tobytes())
    return f"weights:{digest.hexdigest()[:16]}"
