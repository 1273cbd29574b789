"""The bi-encoder: the state is read once, questions and options are embedded once and kept.

A frozen sentence encoder gives one vector per instruction and per option text, which are kept, and
the token states of each state. A small head (:mod:`heads`) compares them, so that further questions
cost next to nothing. Its figures stand in the model card beside the weights.
"""

from __future__ import annotations

import copy
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from jevlaya_lab.system_one.context import ForwardPass
from jevlaya_lab.system_one.errors import CheckpointInvalid, CheckpointNotFound, InvalidOption
from jevlaya_lab.system_one.models import Batch, Budget, EncodedState, Logits, Prepared
from jevlaya_lab.system_one.models.bert import Bert
from jevlaya_lab.system_one.models.heads import Asked, Head, build_head
from jevlaya_lab.system_one.models.loading import fill, load_weights
from jevlaya_lab.system_one.models.sentence_encoder import (
    load_encoder,
    load_tokenizer,
    pad,
    read_states,
)
from jevlaya_lab.system_one.questions import Question

__all__ = ["BiEncoder", "option_texts", "places"]

_KEPT_TEXTS: Final = 4096
_ROWS_PER_PASS: Final = 64
_PAIRS_PER_CALL: Final = 16_384
_SPECIALS: Final = 2
_LEAST_TOKENS: Final = 3


def option_texts(question: Question) -> tuple[str, ...]:
    """The texts of a question's options as this network embeds them, in the caller's order."""
    if question.type == "score":
        return tuple(text or "" for text in question.descriptions)
    return question.option_texts


def places(question_type: str, n_options: int) -> list[float]:
    """Where each option stands: levels from -1 to 1, *false* -1, *true* 1, a choice's options 0."""
    if question_type == "choice" or n_options < 2:
        return [0.0] * n_options
    return [2 * i / (n_options - 1) - 1 for i in range(n_options)]


@dataclass(frozen=True, slots=True)
class _Text:
    """A kept instruction or option text: its token ids after the cut, and its vector ``[d]``."""

    ids: tuple[int, ...]
    was_cut: bool
    vector: Tensor


class _Kept:
    """The texts embedded last, at most ``limit`` of them; safe to use from several threads."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock = threading.Lock()
        self._texts: OrderedDict[tuple[str, int], _Text] = OrderedDict()

    def find(self, texts: Iterable[str], cut: int) -> dict[str, _Text]:
        """Those of the texts that are kept; they count as used last."""
        found: dict[str, _Text] = {}
        with self._lock:
            for text in texts:
                kept = self._texts.get((text, cut))
                if kept is not None:
                    self._texts.move_to_end((text, cut))
                    found[text] = kept
        return found

    def keep(self, texts: Mapping[str, _Text], cut: int) -> None:
        """Keep these, and let go of what was not used for longest."""
        with self._lock:
            for text, kept in texts.items():
                self._texts[text, cut] = kept
                self._texts.move_to_end((text, cut))
            while len(self._texts) > self.limit:
                self._texts.popitem(last=False)

    def __len__(self) -> int:
        return len(self._texts)


@dataclass(slots=True)
class _Questions:
    """What ``forward`` needs of the questions: all options in a row, and where each one ends."""

    asked: Asked
    ends: list[int]


class BiEncoder:
    """A frozen encoder and a head, answering the runtime's questions.

    Args:
        encoder: The sentence encoder.
        tokenizer: Its tokenizer. It is never given truncation or padding state, so that threads
            can share it: rows are cut here.
        head: The trained head.
        config: The checkpoint's ``rl_agent_config.json``.
        device: Where encoder and head are.
        kept_texts: How many instruction and option texts are kept embedded.
    """

    architecture = "bi_encoder"

    def __init__(
        self,
        encoder: Bert,
        tokenizer: Tokenizer,
        head: Head,
        config: Mapping[str, Any],
        device: torch.device | str = "cpu",
        *,
        kept_texts: int = _KEPT_TEXTS,
    ) -> None:
        self.device = torch.device(device)
        self.encoder = encoder.eval().to(self.device)
        self.head = head.eval().to(self.device)
        self.tokenizer = tokenizer
        self.config = dict(config)
        self.max_len: int = self.config["max_len"]
        self.head_max_len: int = self.config["head_max_len"]
        self._positions = encoder.n_positions
        self._pad_id = encoder.pad_id
        self._twin: BiEncoder | None = None
        self._twin_lock = threading.Lock()
        self._kept = _Kept(kept_texts)

    @classmethod
    def from_folder(
        cls, folder: Path, config: Mapping[str, Any], device: torch.device | str = "cpu"
    ) -> BiEncoder:
        """Load a checkpoint folder; nothing is downloaded.

        Args:
            folder: Holds ``encoder/`` and ``head.safetensors``.
            config: What its ``rl_agent_config.json`` says.
            device: Where to put the weights; they are float32 whatever the files hold.

        Raises:
            CheckpointNotFound: A file is missing.
            CheckpointInvalid: The files do not fit the config or each other.
        """
        folder = Path(folder)
        for name in ("encoder/config.json", "encoder/model.safetensors", "head.safetensors"):
            if not (folder / name).is_file():
                raise CheckpointNotFound(
                    f"{folder} has no {name}, which a bi-encoder checkpoint needs; "
                    "copy the whole folder again"
                )
        try:
            head = build_head(config["head"])
            fill(head, load_weights(folder / "head.safetensors"), folder)
            encoder = load_encoder(folder / "encoder")
            return cls(encoder, load_tokenizer(folder / "encoder"), head, config, device)
        except KeyError as exc:
            raise CheckpointInvalid(
                f"the config of {folder} has no {exc}; it is needed for a bi-encoder"
            ) from exc
        except CheckpointInvalid:
            raise
        except (RuntimeError, ValueError, TypeError) as exc:
            raise CheckpointInvalid(f"the files of {folder} do not fit its config: {exc}") from exc

    def prepare(self, questions: tuple[Question, ...], budget: Budget) -> Prepared:
        """Embed the instruction and option texts that are not kept from earlier calls.

        Args:
            questions: The checked questions.
            budget: ``max_len`` tokens of a state and ``head_max_len`` tokens of one instruction or
                option text, [CLS] and [SEP] included.

        Raises:
            InvalidOption: A budget is below 3 tokens or beyond the encoder's positions.
        """
        self._check(budget)
        rendered = [(question.instructions, option_texts(question)) for question in questions]
        wanted = dict.fromkeys(
            text for instructions, options in rendered for text in (instructions, *options)
        )
        texts, forwards = self._embed(list(wanted), budget.head_max_len)
        prepared = Prepared(questions, budget, None, forwards=forwards)
        instructions_of: list[Tensor] = []
        options_of: list[Tensor] = []
        centres_of: list[Tensor] = []
        types: list[int] = []
        places_of: list[float] = []
        ends: list[int] = []
        for question, (instructions, options) in zip(questions, rendered, strict=True):
            ids = [texts[option].ids for option in options]
            prepared.input_tokens += len(texts[instructions].ids) + sum(map(len, ids))
            if len(set(ids)) < len(ids):
                cut = any(texts[option].was_cut for option in options)
                prepared.collapsed[question.id] = {
                    "total": len(ids),
                    "distinct": len(set(ids)),
                    "tokens_per_option": budget.head_max_len - _SPECIALS if cut else None,
                }
            instructions_of += [texts[instructions].vector] * len(options)
            shown = [texts[option].vector for option in options]
            options_of += shown
            centres_of += [torch.stack(shown).mean(0)] * len(shown)
            types += [question.type_id] * len(options)
            places_of += places(question.type, len(options))
            ends.append(len(types))
        if types:
            asked = Asked(
                torch.stack(instructions_of),
                torch.stack(options_of),
                torch.tensor(types, device=self.device),
                torch.tensor(places_of, device=self.device),
                torch.stack(centres_of),
            )
            prepared.data = _Questions(asked, ends)
        return prepared

    def room(self, questions: tuple[Question, ...], budget: Budget) -> int:
        """``max_len`` without [CLS] and [SEP]: questions take nothing of it.

        Raises:
            InvalidOption: A budget is below 3 tokens or beyond the encoder's positions.
        """
        self._check(budget)
        return budget.max_len - _SPECIALS

    def token_spans(self, text: str) -> list[tuple[int, int]]:
        """Where each token of a state stands in its text."""
        spans: list[tuple[int, int]] = self.tokenizer.encode(text, add_special_tokens=False).offsets
        return spans

    def encode_state(self, text: str, *, keep_end: bool, prepared: Prepared) -> EncodedState:
        """Tokenise a state once and cut it to the budget, keeping its start or its end."""
        ids = self.tokenizer.encode(text).ids
        inner = ids[1:-1]
        room = prepared.budget.max_len - _SPECIALS
        dropped = max(0, len(inner) - room)
        if dropped:
            inner = inner[-room:] if keep_end else inner[:room]
        row = [ids[0], *inner, ids[-1]]
        return EncodedState(
            rows=[row],
            input_tokens=len(row) + prepared.input_tokens,
            state_tokens=len(inner) + dropped,
            state_tokens_dropped=dropped,
            truncated_questions=tuple(q.id for q in prepared.questions) if dropped else (),
        )

    def collate(self, states: Sequence[EncodedState], prepared: Prepared) -> Batch:
        """Pad one row per state to the longest of them."""
        rows = [state.rows[0] for state in states]
        ids, mask = pad(rows, self._pad_id, self.device)
        n_tokens = sum(map(len, rows))
        return Batch((ids, mask), len(states), len(rows), n_tokens, ids.numel() - n_tokens)

    def forward(self, batch: Batch, prepared: Prepared) -> Logits:
        """Encode the states once and judge all options of all questions together."""
        if prepared.data is None or not batch.n_states:
            empty = np.zeros(0, dtype=np.float32)
            return Logits([[empty for _ in prepared.questions] for _ in range(batch.n_states)])
        asked, ends = prepared.data.asked, prepared.data.ends
        step = max(1, _PAIRS_PER_CALL // ends[-1])
        with torch.inference_mode():
            states = read_states(self.encoder, *batch.data)
            parts = [
                self.head(states[start : start + step], asked)
                for start in range(0, batch.n_states, step)
            ]
        logits = torch.cat(parts).float().cpu().numpy()
        return Logits([np.split(row, ends[:-1]) for row in logits])

    def on_cpu(self) -> BiEncoder:
        """A copy on the CPU, made once; itself where it is there already."""
        if self.device.type == "cpu":
            return self
        with self._twin_lock:
            if self._twin is None:
                encoder, head = copy.deepcopy(self.encoder), copy.deepcopy(self.head)
                self._twin = BiEncoder(encoder, self.tokenizer, head, self.config)
            return self._twin

    def info(self) -> Mapping[str, Any]:
        """Facts for people: parameters of encoder and head, which encoder, device, texts kept."""
        return {
            "architecture": self.architecture,
            "encoder": self.config.get("encoder"),
            "head": dict(self.config["head"]),
            "n_parameters": sum(p.numel() for p in self.encoder.parameters())
            + sum(p.numel() for p in self.head.parameters()),
            "n_head_parameters": sum(p.numel() for p in self.head.parameters()),
            "device": str(self.device),
            "n_kept_texts": len(self._kept),
        }

    def _check(self, budget: Budget) -> None:
        for name, tokens in (("max_len", budget.max_len), ("head_max_len", budget.head_max_len)):
            if not _LEAST_TOKENS <= tokens <= self._positions:
                raise InvalidOption(
                    f"{name}={tokens} is outside what this encoder can read; "
                    f"give {_LEAST_TOKENS} to {self._positions} tokens"
                )

    def _embed(self, texts: Sequence[str], cut: int) -> tuple[dict[str, _Text], list[ForwardPass]]:
        found = self._kept.find(texts, cut)
        missing = [text for text in texts if text not in found]
        if not missing:
            return found, []
        whole = [encoding.ids for encoding in self.tokenizer.encode_batch(missing)]
        rows = [ids if len(ids) <= cut else [*ids[: cut - 1], ids[-1]] for ids in whole]
        order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
        forwards: list[ForwardPass] = []
        fresh: dict[str, _Text] = {}
        for start in range(0, len(order), _ROWS_PER_PASS):
            part = order[start : start + _ROWS_PER_PASS]
            began = time.perf_counter()
            ids, mask = pad([rows[i] for i in part], self._pad_id, self.device)
            with torch.inference_mode():
                vectors = read_states(self.encoder, ids, mask).pooled
            elapsed_ms = (time.perf_counter() - began) * 1000
            n_tokens = sum(len(rows[i]) for i in part)
            forwards.append(
                ForwardPass("questions", len(part), n_tokens, ids.numel() - n_tokens, elapsed_ms)
            )
            for i, vector in zip(part, vectors, strict=True):
                # A clone: a view would keep the whole pass alive for as long as one of its rows.
                fresh[missing[i]] = _Text(tuple(rows[i]), len(whole[i]) > cut, vector.clone())
        self._kept.keep(fresh, cut)
        return {**found, **fresh}, forwards
