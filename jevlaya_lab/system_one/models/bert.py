"""A BERT encoder in plain torch.

The embedded checkpoint is loaded without importing transformers, whose modelling code takes longer
to import than these weights take to load. (``torch.nn.TransformerEncoderLayer`` computes the same,
but with padding its fast path took 1.3 times as long on rows of 200 tokens, measured on two cores.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from jevlaya_lab.system_one.errors import CheckpointInvalid

__all__ = ["Bert", "unset_embedding"]

_EXPECTED: Final = {
    "model_type": "bert",
    "hidden_act": "gelu",
    "position_embedding_type": "absolute",
}
_LAYER_NAMES: Final = {
    "attention.output.dense": "attended",
    "attention.output.LayerNorm": "norm_attended",
    "intermediate.dense": "wide",
    "output.dense": "narrow",
    "output.LayerNorm": "norm",
}


def unset_embedding(n: int, width: int) -> nn.Embedding:
    """An embedding whose weights are to be loaded.

    Drawing random ones on the meta device imports torch's compiler, which takes a second.
    """
    build: Any = nn.Embedding.from_pretrained
    embedding: nn.Embedding = build(torch.zeros(n, width))
    return embedding


class _Layer(nn.Module):
    """Self-attention and a feed-forward part, each added to its input and normalised after."""

    def __init__(self, width: int, heads: int, feed_forward: int, eps: float) -> None:
        super().__init__()
        self.heads = heads
        self.query_key_value = nn.Linear(width, 3 * width)
        self.attended = nn.Linear(width, width)
        self.norm_attended = nn.LayerNorm(width, eps=eps)
        self.wide = nn.Linear(width, feed_forward)
        self.narrow = nn.Linear(feed_forward, width)
        self.norm = nn.LayerNorm(width, eps=eps)

    def forward(self, hidden: Tensor, allowed: Tensor | None) -> Tensor:
        rows, tokens, width = hidden.shape
        parts = self.query_key_value(hidden).view(rows, tokens, 3, self.heads, -1)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=allowed)
        mixed = self.attended(mixed.transpose(1, 2).reshape(rows, tokens, width))
        hidden = self.norm_attended(hidden + mixed)
        out: Tensor = self.norm(hidden + self.narrow(F.gelu(self.wide(hidden))))
        return out


class Bert(nn.Module):
    """Token ids to token states.

    Args:
        config: A Hugging Face ``config.json`` of a BERT.

    Raises:
        CheckpointInvalid: The config is of another kind of encoder.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        for key, value in _EXPECTED.items():
            if config.get(key, value) != value:
                raise CheckpointInvalid(
                    f"the encoder has {key}={config[key]!r}; this network reads {value!r} only"
                )
        width = int(config["hidden_size"])
        eps = float(config.get("layer_norm_eps", 1e-12))
        self.width = width
        self.n_positions = int(config["max_position_embeddings"])
        self.pad_id = int(config.get("pad_token_id") or 0)
        self.words = unset_embedding(int(config["vocab_size"]), width)
        self.positions = unset_embedding(self.n_positions, width)
        self.segments = unset_embedding(int(config.get("type_vocab_size", 2)), width)
        self.norm = nn.LayerNorm(width, eps=eps)
        self.layers = nn.ModuleList(
            _Layer(
                width,
                int(config["num_attention_heads"]),
                int(config["intermediate_size"]),
                eps,
            )
            for _ in range(int(config["num_hidden_layers"]))
        )

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Read some rows.

        Args:
            ids: Token ids [rows, tokens], int64.
            mask: True where a token is no padding [rows, tokens].

        Returns:
            Token states [rows, tokens, d]; those of padding mean nothing.
        """
        at = torch.arange(ids.shape[1], device=ids.device)
        hidden: Tensor = self.norm(self.words(ids) + self.positions(at) + self.segments.weight[0])
        allowed = None if bool(mask.all()) else mask[:, None, None, :]
        for layer in self.layers:
            hidden = layer(hidden, allowed)
        return hidden

    @staticmethod
    def rename(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Weights under this module's names, from those of a Hugging Face ``BertModel``.

        Raises:
            CheckpointInvalid: A weight of a layer is missing.
        """
        renamed = {
            "words.weight": "embeddings.word_embeddings.weight",
            "positions.weight": "embeddings.position_embeddings.weight",
            "segments.weight": "embeddings.token_type_embeddings.weight",
            "norm.weight": "embeddings.LayerNorm.weight",
            "norm.bias": "embeddings.LayerNorm.bias",
        }
        n_layers = 1 + max(
            (int(name.split(".")[2]) for name in weights if name.startswith("encoder.layer.")),
            default=-1,
        )
        try:
            found = {ours: weights[theirs] for ours, theirs in renamed.items()}
            for i in range(n_layers):
                theirs = f"encoder.layer.{i}."
                for kind in ("weight", "bias"):
                    found[f"layers.{i}.query_key_value.{kind}"] = torch.cat(
                        [
                            weights[f"{theirs}attention.self.{part}.{kind}"]
                            for part in ("query", "key", "value")
                        ]
                    )
                    for name, ours in _LAYER_NAMES.items():
                        found[f"layers.{i}.{ours}.{kind}"] = weights[f"{theirs}{name}.{kind}"]
        except KeyError as exc:
            raise CheckpointInvalid(f"the encoder's weights lack {exc}") from exc
        return found
