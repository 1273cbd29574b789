"""laya's network: state and question are read together, one row for each pair.

The row layout, the parameter names and the numbers are those of the checkpoints published for
``laya`` 0.4.15, so that both packages give the same answers from the same folder.
"""

from __future__ import annotations

import contextlib
import copy
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn

from jevlaya_lab.system_one.errors import InvalidOption, InvalidQuestion
from jevlaya_lab.system_one.models import Batch, Budget, EncodedState, Logits, Prepared
from jevlaya_lab.system_one.models.bert import unset_embedding
from jevlaya_lab.system_one.models.tokens import Tokens
from jevlaya_lab.system_one.questions import Question

__all__ = ["CrossEncoder", "DecisionModel"]

_OPTION_TOKENS: Final = 48
_LEAST_INSTRUCTION_TOKENS: Final = 16
_NO_OPTION: Final = -1e4


class DecisionModel(nn.Module):
    """Encoder, a few Transformer layers over its output, and two scorers.

    Args:
        encoder: A Hugging Face encoder whose output has ``last_hidden_state`` [rows, tokens, d].
        head_layers: Pre-norm Transformer layers behind it.
        n_act: Actions that the second scorer tells apart.
    """

    def __init__(self, encoder: nn.Module, head_layers: int, n_act: int) -> None:
        super().__init__()
        width = int(encoder.config.hidden_size)  # type: ignore[union-attr, arg-type]
        self.encoder = encoder
        self.head: nn.TransformerEncoder | None = None
        if head_layers:
            layer = nn.TransformerEncoderLayer(
                width, max(1, width // 64), 4 * width, 0.1, batch_first=True, norm_first=True
            )
            self.head = nn.TransformerEncoder(layer, head_layers, enable_nested_tensor=False)
        self.type_emb = unset_embedding(3, width)
        self.scorer = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, width), nn.GELU(), nn.Linear(width, 1)
        )
        self.act_head = nn.Sequential(nn.Linear(width + 4, 256), nn.GELU(), nn.Linear(256, n_act))
        self.register_buffer("temperature", torch.ones(3))

    def forward(self, batch: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Score every option of every row.

        Args:
            batch: ``ids`` and ``mask`` [rows, tokens], ``markers`` and ``marked`` [rows, options],
                ``types`` [rows]; in the parallel layout also ``positions`` and ``slots``
                [rows, tokens].

        Returns:
            Option logits [rows, options] in slot order, −1e4 where a row has no such option, and
            act logits [rows, n_act].
        """
        mask = batch["mask"]
        if "slots" in batch:
            window = getattr(self.encoder.config, "sliding_window", None)
            hidden = self.encoder(
                input_ids=batch["ids"],
                attention_mask=_parallel_masks(mask, batch["positions"], batch["slots"], window),
                position_ids=batch["positions"],
            ).last_hidden_state
        else:
            hidden = self.encoder(input_ids=batch["ids"], attention_mask=mask).last_hidden_state
        hidden = hidden + self.type_emb(batch["types"])[:, None, :]
        if self.head is not None:
            for layer in self.head.layers:
                hidden = layer(hidden, src_key_padding_mask=~mask.bool())
        at = batch["markers"][:, :, None].expand(-1, -1, hidden.shape[-1])
        logits = self.scorer(torch.gather(hidden, 1, at)).squeeze(-1).float()
        logits = logits.masked_fill(~batch["marked"], _NO_OPTION)
        figures = torch.cat([hidden[:, 0].float(), _spread(logits, batch["marked"])], dim=-1)
        if not torch.is_autocast_enabled(hidden.device.type):
            figures = figures.to(hidden.dtype)
        return logits, self.act_head(figures).float()


def _spread(logits: Tensor, marked: Tensor) -> Tensor:
    """What the act head knows of the options: top, lead over the second, entropy, how many."""
    p = logits.softmax(-1)
    n_options = marked.sum(-1).clamp(min=2).float()
    entropy = -(p * p.clamp_min(1e-9).log()).sum(-1) / n_options.log()
    top = p.topk(min(2, p.shape[-1]), -1).values
    second = top[:, 1] if top.shape[-1] > 1 else torch.zeros_like(top[:, 0])
    return torch.stack([top[:, 0], top[:, 0] - second, entropy, n_options / 255.0], -1)


def _parallel_masks(
    mask: Tensor, positions: Tensor, slots: Tensor, window: int | None
) -> dict[str, Tensor]:
    """Who may look at whom where options do not see each other: [rows, 1, query, key] each."""
    of, to = slots[:, :, None], slots[:, None, :]
    allowed = mask.bool()[:, None, :] & ~((of > 0) & (to > 0) & (of != to))
    masks = {"full_attention": allowed[:, None]}
    if window is not None:
        near = (positions[:, :, None] - positions[:, None, :]).abs() <= window
        masks["sliding_attention"] = (allowed & near)[:, None]
    return masks


@dataclass(frozen=True, slots=True)
class _Head:
    """The question part of a row: ``[CLS] instructions [SEP] [MASK] option … [SEP]``."""

    ids: list[int]
    markers: list[int]


def _left_for_state(head: _Head, budget: Budget) -> int:
    """State tokens that fit behind a question part, in front of the closing [SEP]."""
    return max(0, budget.max_len - len(head.ids) - 1)


class CrossEncoder:
    """A decision model with its tokenizer, answering the runtime's questions.

    Args:
        model: The network.
        tokens: Its tokenizer.
        config: The checkpoint's config.
        device: Where to run it.
    """

    architecture = "cross_encoder"

    def __init__(
        self,
        model: DecisionModel,
        tokens: Tokens,
        config: Mapping[str, Any],
        device: torch.device | str = "cpu",
    ) -> None:
        self.device = torch.device(device)
        self.model = model.eval().to(self.device)
        self.tokens = tokens
        self.max_len = int(config.get("max_len", 512))
        self.head_max_len = int(config.get("head_max_len", 192))
        self.parallel = config.get("option_layout", "sequential") == "parallel"
        self.amp_dtype = _amp_dtype(config.get("amp_dtype"), self.device)
        self._config = dict(config)
        self._twin: CrossEncoder | None = None
        self._twin_lock = threading.Lock()
        self._positions = getattr(model.encoder.config, "max_position_embeddings", None)

    def prepare(self, questions: tuple[Question, ...], budget: Budget) -> Prepared:
        """Tokenise the question part of every row once.

        Raises:
            InvalidQuestion: The markers of a question's options do not fit into ``max_len``.
            InvalidOption: ``max_len`` is beyond what the encoder can read.
        """
        if self._positions is not None and budget.max_len > self._positions:
            raise InvalidOption(
                f"max_len={budget.max_len} is beyond the {self._positions} tokens that this "
                "encoder can read"
            )
        prepared = Prepared(questions, budget, [])
        for question in questions:
            head = self._head(question, budget, prepared)
            fits = sum(marker < budget.max_len for marker in head.markers)
            if fits < question.n_options:
                raise InvalidQuestion(
                    f"question {question.id!r}: only {fits} of its {question.n_options} options "
                    f"fit into max_len={budget.max_len} with head_max_len={budget.head_max_len}; "
                    "raise max_len, lower head_max_len, or ask with fewer options"
                )
            prepared.data.append(head)
        return prepared

    def _head(self, question: Question, budget: Budget, prepared: Prepared) -> _Head:
        t = self.tokens
        texts = question.option_texts
        order = question.option_order or range(len(texts))
        options = [[t.mask_id, *t.encode(" " + texts[i])[:_OPTION_TOKENS]] for i in order]
        room = budget.head_max_len - sum(map(len, options))
        cut = None
        if room < _LEAST_INSTRUCTION_TOKENS:
            cut = max(4, (budget.head_max_len - _LEAST_INSTRUCTION_TOKENS) // len(options))
            options = [option[:cut] for option in options]
            room = budget.head_max_len - sum(map(len, options))
        distinct = len(set(map(tuple, options)))
        if distinct < len(options):
            prepared.collapsed[question.id] = {
                "total": len(options),
                "distinct": distinct,
                "tokens_per_option": cut,
            }
        instructions = t.encode(f"{question.type} question: {question.instructions}")
        ids = [t.cls_id, *instructions[: max(8, room)], t.sep_id]
        markers = []
        for option in options:
            markers.append(len(ids))
            ids += option
        return _Head([*ids, t.sep_id], markers)

    def room(self, questions: tuple[Question, ...], budget: Budget) -> int:
        """What the longest question part leaves of ``max_len``.

        Raises:
            InvalidQuestion: As :meth:`prepare`.
            InvalidOption: As :meth:`prepare`.
        """
        heads = self.prepare(questions, budget).data
        return min((_left_for_state(head, budget) for head in heads), default=budget.max_len)

    def token_spans(self, text: str) -> list[tuple[int, int]]:
        """Where each token of a state stands in its text."""
        return self.tokens.spans(text)

    def encode_state(self, text: str, *, keep_end: bool, prepared: Prepared) -> EncodedState:
        """One row per question; each gets as much of the state as its question part leaves."""
        state = self.tokens.encode(text)
        rows: list[list[int]] = []
        dropped: list[int] = []
        for head in prepared.data:
            room = _left_for_state(head, prepared.budget)
            kept = state[max(0, len(state) - room) :] if keep_end else state[:room]
            rows.append([*head.ids, *kept, self.tokens.sep_id][: prepared.budget.max_len])
            dropped.append(len(state) - len(kept))
        return EncodedState(
            rows=rows,
            input_tokens=sum(map(len, rows)),
            state_tokens=len(state),
            state_tokens_dropped=max(dropped),
            truncated_questions=tuple(
                q.id for q, n in zip(prepared.questions, dropped, strict=True) if n
            ),
        )

    def collate(self, states: Sequence[EncodedState], prepared: Prepared) -> Batch:
        """Pad all rows of all states to the longest, and their markers to the most options."""
        heads: list[_Head] = prepared.data
        rows = [row for state in states for row in state.rows]
        length = max(map(len, rows))
        width = max(len(head.markers) for head in heads)
        ids = np.full((len(rows), length), self.tokens.pad_id, dtype=np.int64)
        mask = np.zeros((len(rows), length), dtype=np.int64)
        for i, row in enumerate(rows):
            ids[i, : len(row)] = row
            mask[i, : len(row)] = 1
        markers = np.zeros((len(heads), width), dtype=np.int64)
        marked = np.zeros((len(heads), width), dtype=bool)
        for i, head in enumerate(heads):
            markers[i, : len(head.markers)] = head.markers
            marked[i, : len(head.markers)] = True
        types = np.array([q.type_id for q in prepared.questions], dtype=np.int64)
        data = {
            "ids": ids,
            "mask": mask,
            "markers": np.tile(markers, (len(states), 1)),
            "marked": np.tile(marked, (len(states), 1)),
            "types": np.tile(types, len(states)),
        }
        if self.parallel:
            data["positions"], data["slots"] = _parallel_layout(rows, heads, length)
        n_tokens = int(mask.sum())
        tensors = {name: torch.from_numpy(array) for name, array in data.items()}
        return Batch(tensors, len(states), len(rows), n_tokens, mask.size - n_tokens)

    def forward(self, batch: Batch, prepared: Prepared) -> Logits:
        """Run all rows through the network once; float32 on a CPU, autocast elsewhere."""
        amp = (
            torch.autocast(self.device.type, dtype=self.amp_dtype)
            if self.amp_dtype is not None
            else contextlib.nullcontext()
        )
        with torch.inference_mode(), amp:
            logits, act = self.model({k: v.to(self.device) for k, v in batch.data.items()})
        options = logits.cpu().numpy()
        acts = act.softmax(-1)[:, 0].cpu().tolist()
        n = len(prepared.questions)
        return Logits(
            [
                [
                    _in_callers_order(options[s * n + i, : q.n_options], q)
                    for i, q in enumerate(prepared.questions)
                ]
                for s in range(batch.n_states)
            ],
            [acts[s * n : (s + 1) * n] for s in range(batch.n_states)],
        )

    def on_cpu(self) -> CrossEncoder:
        """A copy on the CPU, made once; itself where it is there already."""
        if self.device.type == "cpu":
            return self
        with self._twin_lock:
            if self._twin is None:
                model = copy.deepcopy(self.model).to("cpu")
                self._twin = CrossEncoder(model, self.tokens, self._config, "cpu")
            return self._twin

    def info(self) -> Mapping[str, Any]:
        """Facts for people: parameters, encoder, layout, device."""
        return {
            "architecture": self.architecture,
            "encoder": self._config.get("encoder"),
            "option_layout": "parallel" if self.parallel else "sequential",
            "n_parameters": sum(p.numel() for p in self.model.parameters()),
            "device": str(self.device),
        }


def _amp_dtype(name: Any, device: torch.device) -> torch.dtype | None:
    """What to compute in: nothing but float32 on a CPU, where half precision gains nothing."""
    if device.type == "cpu" or name in ("fp32", "float32"):
        return None
    if device.type == "cuda" and torch.cuda.get_device_capability(device)[0] < 8:
        return torch.float16  # older cards have no bfloat16 arithmetic
    return torch.bfloat16 if name in ("bf16", "bfloat16") else torch.float16


def _in_callers_order(slots: Any, question: Question) -> Any:
    if question.option_order is None:
        return slots
    options = np.empty_like(slots)
    options[list(question.option_order)] = slots
    return options


def _parallel_layout(
    rows: Sequence[Sequence[int]], heads: Sequence[_Head], length: int
) -> tuple[Any, Any]:
    """Position and slot of each token: options share positions, the rest goes on behind them.

    Slot 0 is what all share (instructions, state, padding), slot s + 1 the tokens of option s.
    """
    positions = np.zeros((len(rows), length), dtype=np.int64)
    slots = np.zeros((len(rows), length), dtype=np.int64)
    for i, row in enumerate(rows):
        head = heads[i % len(heads)]
        first, end = head.markers[0], len(head.ids) - 1
        spans = list(zip(head.markers, [*head.markers[1:], end], strict=True))
        laid = list(range(first))
        numbers = [0] * first
        for s, (start, stop) in enumerate(spans):
            laid += range(first, first + stop - start)
            numbers += [s + 1] * (stop - start)
        behind = first + max(stop - start for start, stop in spans)
        laid += range(behind, behind + max(0, len(row) - len(laid)))
        n = len(row)
        positions[i, :n] = laid[:n]
        slots[i, : min(n, len(numbers))] = numbers[:n]
    return positions, slots
