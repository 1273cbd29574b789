"""What the frozen encoder says about many texts, computed once and kept on disk.

States are kept token by token, instructions and options as pooled vectors. One file per kind holds
float16 rows; an index beside it says which text stands where, so that a changed choice of rows only
costs the texts that are new.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional as F

from jevlaya_lab.system_one.models.bert import Bert
from jevlaya_lab.system_one.models.heads import States
from jevlaya_lab.system_one.models.sentence_encoder import pad, read_states

__all__ = ["Encodings"]

_LOG = logging.getLogger(__name__)
_TOKENS_PER_PASS = 4096


class Encodings:
    """Token states of states, and vectors of texts, from one encoder.

    Args:
        encoder: The frozen encoder, float32.
        tokenizer: Its tokenizer, without truncation or padding.
        key: What identifies the encoder's weights, such as their sha256.
        cut: Most tokens of one text, [CLS] and [SEP] included.
        cache: Folder to keep the encodings in; None keeps them in memory only.
    """

    def __init__(
        self, encoder: Bert, tokenizer: Tokenizer, key: str, cut: int, cache: Path | None
    ) -> None:
        self._encoder = encoder
        self._tokenizer = tokenizer
        self._width = encoder.width
        self._cut = cut
        tag = hashlib.sha256(f"{key} {cut}".encode()).hexdigest()[:12]
        self._file = None if cache is None else cache / f"encodings-{tag}.f16"
        self._index_file = None if cache is None else cache / f"encodings-{tag}.json"
        self._spans: dict[str, tuple[int, int]] = {}
        self._rows: npt.NDArray[np.float16] = np.zeros((0, self._width), np.float16)
        self._ids: dict[str, int] = {}
        self._vectors: list[npt.NDArray[np.float16]] = []
        if self._file and self._index_file and self._index_file.is_file():
            self._spans = {
                text: (start, n)
                for text, start, n in json.loads(self._index_file.read_text(encoding="utf-8"))
            }
            self._open(self._file)

    def add(self, texts: Iterable[str]) -> None:
        """Encode those of the texts that are not there yet."""
        missing = [text for text in dict.fromkeys(texts) if text not in self._spans]
        if not missing:
            return
        rows = [
            ids if len(ids) <= self._cut else [*ids[: self._cut - 1], ids[-1]]
            for ids in (encoding.ids for encoding in self._tokenizer.encode_batch(missing))
        ]
        order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
        n_tokens, began, said = sum(map(len, rows)), time.monotonic(), time.monotonic()
        _LOG.info("encoding %d texts, %d tokens", len(rows), n_tokens)
        at, done, start = len(self._rows), 0, 0
        parts: list[npt.NDArray[np.float16]] = []
        while start < len(order):
            part = order[start : start + max(1, _TOKENS_PER_PASS // len(rows[order[start]]))]
            ids, mask = pad([rows[i] for i in part], 0, torch.device("cpu"))
            with torch.inference_mode():
                tokens = read_states(self._encoder, ids, mask).tokens
            parts.append(tokens[mask].half().numpy())
            for i in part:
                self._spans[missing[i]] = (at + done, len(rows[i]))
                done += len(rows[i])
            start += len(part)
            if time.monotonic() - said > 30:
                said = time.monotonic()
                rate = done / (said - began)
                _LOG.info("  %d %% at %.0f tokens/s", 100 * done / n_tokens, rate)
        self._append(np.concatenate(parts))
        _LOG.info("encoded in %.0f s", time.monotonic() - began)

    def states(self, texts: Sequence[str]) -> States:
        """Token states of some texts, padded to the longest; all of them were added before."""
        spans = [self._spans[text] for text in texts]
        longest = max(n for _, n in spans)
        tokens = np.zeros((len(spans), longest, self._width), np.float32)
        mask = np.zeros((len(spans), longest), np.bool_)
        for i, (start, n) in enumerate(spans):
            tokens[i, :n] = self._rows[start : start + n]
            mask[i, :n] = True
        mean = tokens.sum(1) / mask.sum(1, keepdims=True, dtype=np.float32)
        pooled = F.normalize(torch.from_numpy(mean), dim=-1)
        return States(pooled, torch.from_numpy(tokens), torch.from_numpy(mask))

    def text_id(self, text: str) -> int:
        """The row of a text in :meth:`vectors`; it was added before."""
        known = self._ids.get(text)
        if known is None:
            start, n = self._spans[text]
            mean = self._rows[start : start + n].astype(np.float32).mean(0)
            known = self._ids[text] = len(self._vectors)
            self._vectors.append((mean / np.linalg.norm(mean)).astype(np.float16))
        return known

    def vectors(self) -> Tensor:
        """Vectors of length 1 by the numbers of :meth:`text_id`, float32 ``[texts, d]``."""
        return torch.from_numpy(np.stack(self._vectors).astype(np.float32))

    def n_tokens(self, text: str) -> int:
        """Tokens of an added text after the cut."""
        return self._spans[text][1]

    def _append(self, rows: npt.NDArray[np.float16]) -> None:
        if self._file is None or self._index_file is None:
            self._rows = np.concatenate([self._rows, rows])
            return
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("r+b" if self._file.exists() else "wb") as out:
            # Rows that the index does not know are left over from a run that was stopped.
            out.truncate(len(self._rows) * self._width * 2)
            out.seek(0, 2)
            rows.tofile(out)
        index = [[text, start, n] for text, (start, n) in self._spans.items()]
        fresh = self._index_file.with_suffix(".new")
        fresh.write_text(json.dumps(index, ensure_ascii=False), encoding="utf-8")
        fresh.replace(self._index_file)
        self._open(self._file)

    def _open(self, file: Path) -> None:
        n_rows = max(start + n for start, n in self._spans.values())
        self._rows = np.memmap(file, np.float16, "r", shape=(n_rows, self._width))
