"""A BERT encoder made of torch's own Transformer layers.

The embedded checkpoint is loaded without importing transformers, whose modelling code takes longer
to import than these weights take to load. A BERT layer is ``torch.nn.TransformerEncoderLayer`` with
the norm behind each part and the exact GELU; only the names of the weights differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch
from torch import Tensor, nn

from jevlaya_lab.system_one.errors import CheckpointInvalid

__all__ = ["Bert", "unset_embedding"]

_EXPECTED: Final = {
    "model_type": "bert",
    "hidden_act": "gelu",
    "position_embedding_type": "absolute",
}
_LAYER_NAMES: Final = {
    "attention.output.dense": "self_attn.out_proj",
    "attention.output.LayerNorm": "norm1",
    "intermediate.dense": "linear1",
    "output.dense": "linear2",
    "output.LayerNorm": "norm2",
}


def unset_embedding(n: int, width: int) -> nn.Embedding:
    """An embedding whose weights are to be loaded.

    Drawing random ones on the meta device imports torch's compiler, which takes a second.
    """
    build: Any = nn.Embedding.from_pretrained
    embedding: nn.Embedding = build(torch.zeros(n, width))
    return embedding


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
            nn.TransformerEncoderLayer(
                width,
                int(config["num_attention_heads"]),
                int(config["intermediate_size"]),
                dropout=0.0,
                activation="gelu",
                layer_norm_eps=eps,
                batch_first=True,
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
        padding = None if bool(mask.all()) else ~mask
        for layer in self.layers:
            hidden = layer(hidden, src_key_padding_mask=padding)
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
                    found[f"layers.{i}.self_attn.in_proj_{kind}"] = torch.cat(
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
