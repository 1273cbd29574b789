"""The heads of the bi-encoder: vectors of states, instructions and options in, option logits out.

Notation in shapes: ``B`` states, ``T`` tokens, ``N`` options (all options of all questions, one
after the other), ``d`` the encoder's width. What belongs to options is ``[N, ...]`` where every
state is asked the same, or ``[B, N, ...]`` where each has options of its own (as in training).

Of the other options of a question only their mean counts, so their order moves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["HEAD_KINDS", "Asked", "Head", "States", "build_head"]

_CHOICE_SCALE: Final = 20.0
_NOUL_SCALE: Final = 10.0
_NOUL_BIAS: Final = -3.0
_NOUL: Final = 2


@dataclass(slots=True)
class States:
    """What the frozen encoder says about some states.

    Attributes:
        pooled: Mean over the tokens, of length 1, float32 ``[B, d]``.
        tokens: The encoder's last hidden states, float32 ``[B, T, d]``.
        mask: Which tokens mean something, bool ``[B, T]``.
    """

    pooled: Tensor
    tokens: Tensor
    mask: Tensor

    def __getitem__(self, part: slice) -> States:
        return States(self.pooled[part], self.tokens[part], self.mask[part])


@dataclass(slots=True)
class Asked:
    """The options to judge; every field is ``[N, ...]`` or ``[B, N, ...]``.

    Attributes:
        instructions: Pooled vector of each option's instructions, float32 ``[..., N, d]``.
        options: Pooled vector of each option's text, float32 ``[..., N, d]``.
        types: choice 0, score 1, noul 2; int64 ``[..., N]``.
        places: Where a score's level stands, from -1 (lowest) to 1 (highest); for a noul -1 is
            *false* and 1 is *true*; 0 for the options of a choice; float32 ``[..., N]``.
        centres: Mean vector of all options of the same question, float32 ``[..., N, d]``.
    """

    instructions: Tensor
    options: Tensor
    types: Tensor
    places: Tensor
    centres: Tensor


class _CrossAttention(nn.Module):
    """One pre-norm layer: the queries read the state's tokens, then a feed-forward part."""

    def __init__(self, width: int, heads: int, feed_forward: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_queries = nn.LayerNorm(width)
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)
        self.norm_feed = nn.LayerNorm(width)
        self.feed = nn.Linear(width, feed_forward)
        self.back = nn.Linear(feed_forward, width)

    def forward(self, queries: Tensor, tokens: Tensor, mask: Tensor) -> Tensor:
        """Update queries ``[1 or B, N, d]`` from tokens ``[B, T, d]``; gives ``[B, N, d]``."""
        size = tokens.shape[0]
        query = self._split(self.query(self.norm_queries(queries))).expand(size, -1, -1, -1)
        key, value = (self._split(part) for part in self.key_value(tokens).chunk(2, dim=-1))
        read = F.scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None, None, :])
        queries = queries + self.out(read.transpose(1, 2).flatten(2))
        fed: Tensor = self.back(F.gelu(self.feed(self.norm_feed(queries))))
        return queries + fed

    def _split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)


class _TokenReader(nn.Module):
    """Queries made of instructions, option and type attend to the tokens of the state."""

    def __init__(self, width: int, layers: int, heads: int, feed_forward: int) -> None:
        super().__init__()
        self.from_instructions = nn.Linear(width, width, bias=False)
        self.from_option = nn.Linear(width, width, bias=False)
        self.from_both = nn.Linear(width, width, bias=False)
        self.types = nn.Embedding(3, width)
        self.place = nn.Embedding(3, width)
        self.norm_tokens = nn.LayerNorm(width)
        self.layers = nn.ModuleList(
            _CrossAttention(width, heads, feed_forward) for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)

    def forward(self, states: States, asked: Asked) -> Tensor:
        """What each option's query has read in each state, ``[B, N, d]``."""
        root = asked.options.shape[-1] ** 0.5
        instructions, options = asked.instructions * root, asked.options * root
        queries = (
            self.from_instructions(instructions)
            + self.from_option(options)
            + self.from_both(instructions * options)
            + self.types(asked.types)
            + asked.places[..., None] * self.place(asked.types)
        )
        if queries.dim() == 2:
            queries = queries[None]
        tokens = self.norm_tokens(states.tokens)
        for layer in self.layers:
            queries = layer(queries, tokens, states.mask)
        read: Tensor = self.norm(queries)
        return read


class Head(nn.Module):
    """Cosine of state and option, corrected by a small network that starts at nothing.

    Of a choice or score the cosine is taken between state and option text, after what states of
    such a question have in common was taken off the state: a linear map of the options' mean,
    fitted at the start of training. Of a noul it is taken between state and instructions, and
    counts half for *true* and half against *false*.

    Args:
        width: The encoder's width ``d``.
        hidden: Hidden units of the network on the pooled vectors.
        layers: Cross-attention layers over the state's tokens; 0 leaves the pooled vectors only.
        heads: Attention heads of each layer.
        feed_forward: Hidden units of each layer's feed-forward part.
        dropout: Share of hidden units dropped in training.
    """

    def __init__(
        self,
        width: int,
        hidden: int = 256,
        *,
        layers: int = 0,
        heads: int = 6,
        feed_forward: int = 512,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.state_map = nn.Linear(width, width, bias=False)
        self.option_map = nn.Linear(width, width, bias=False)
        self.centre_map = nn.Linear(width, width)
        for each in (self.state_map, self.option_map, self.centre_map):
            nn.init.zeros_(each.weight)
        nn.init.zeros_(self.centre_map.bias)
        scales = torch.tensor([_CHOICE_SCALE, _CHOICE_SCALE, _NOUL_SCALE])
        self.log_scale = nn.Parameter(scales.log())
        self.noul_bias = nn.Parameter(torch.tensor(_NOUL_BIAS))
        self.product = nn.Linear(width, hidden)
        self.difference = nn.Linear(width, hidden, bias=False)
        self.asked_product = nn.Linear(width, hidden, bias=False)
        self.state_asked = nn.Linear(width, hidden, bias=False)
        self.types = nn.Embedding(3, hidden)
        self.place = nn.Embedding(3, hidden)
        self.reader = _TokenReader(width, layers, heads, feed_forward) if layers else None
        self.read = nn.Linear(width, hidden, bias=False) if layers else None
        self.dropout = nn.Dropout(dropout)
        self.out = nn.Linear(hidden, 1, bias=False)
        nn.init.zeros_(self.out.weight)

    def forward(self, states: States, asked: Asked) -> Tensor:
        """Judge every option for every state.

        Args:
            states: ``B`` states.
            asked: ``N`` options, shared by the states or one set for each.

        Returns:
            Logits, float32 ``[B, N]``.
        """
        return self.cosine(states, asked) + self.correction(states, asked)

    def cosine(self, states: States, asked: Asked) -> Tensor:
        """The scaled cosine term ``[B, N]``."""
        noul = asked.types == _NOUL
        against = torch.where(noul[..., None], asked.instructions, asked.options)
        # Added to the vector itself, so that weight decay pulls towards the plain cosine.
        state = states.pooled + self.state_map(states.pooled)
        option = F.normalize(against + self.option_map(against), dim=-1)
        common = self.centre_map(asked.centres).masked_fill(noul[..., None], 0.0)
        cosine = (F.normalize(state[:, None] - common, dim=-1) * option).sum(-1)
        scale = self.log_scale.exp()[asked.types]
        sign = torch.where(noul, asked.places / 2, torch.ones_like(asked.places))
        return sign * (scale * cosine + noul * self.noul_bias)

    def correction(self, states: States, asked: Asked) -> Tensor:
        """What the network adds ``[B, N]``; 0 everywhere until it is trained."""
        width = asked.options.shape[-1]
        state = states.pooled[:, None, :]
        # Entries of a vector of length 1 are about 1/sqrt(d): bring products back to about 1.
        hidden = (
            self.product(state * asked.options * width)
            + self.difference((state - asked.options).abs() * width**0.5)
            + self.state_asked(state * asked.instructions * width)
            + self.asked_product(asked.instructions * asked.options * width)
            + self.types(asked.types)
            + asked.places[..., None] * self.place(asked.types)
        )
        if self.reader is not None and self.read is not None:
            hidden = hidden + self.read(self.reader(states, asked))
        out: Tensor = self.out(self.dropout(F.gelu(hidden)))
        return out[..., 0]


HEAD_KINDS: Final[Mapping[str, Mapping[str, int]]] = {
    "pooled": {"hidden": 256},
    "tokens": {"hidden": 256, "layers": 2, "heads": 6, "feed_forward": 512},
}
"""The kinds of head by their name in the config, with the sizes each is described by."""


def build_head(config: Mapping[str, Any]) -> Head:
    """Build an untrained head.

    Args:
        config: ``kind`` (one of :data:`HEAD_KINDS`), ``width``, and the sizes of that kind where
            they differ from the usual ones.

    Returns:
        A head whose logits are the scaled cosines.

    Raises:
        ValueError: An unknown kind or size.
    """
    sizes = dict(config)
    kind = str(sizes.pop("kind", None))
    if kind not in HEAD_KINDS:
        raise ValueError(f"unknown head kind {kind!r}; known are {', '.join(HEAD_KINDS)}")
    width = sizes.pop("width", None)
    unknown = sorted(set(sizes) - set(HEAD_KINDS[kind]))
    numbers = [width, *sizes.values()]
    if unknown or not all(isinstance(n, int) and n > 0 for n in numbers):
        raise ValueError(
            f"a head of kind {kind!r} is described by width and {', '.join(HEAD_KINDS[kind])}, "
            f"all positive integers; got {dict(config)}"
        )
    return Head(width, **{**HEAD_KINDS[kind], **sizes})
