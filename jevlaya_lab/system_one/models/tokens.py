"""A checkpoint's tokenizer, without any state that calls could change."""

from __future__ import annotations

import bisect
import itertools
import json
from pathlib import Path
from typing import Any, Final

from tokenizers import Tokenizer

from jevlaya_lab.system_one.errors import CheckpointInvalid

__all__ = ["Tokens"]

_SPECIALS: Final = ("cls_token", "sep_token", "pad_token", "mask_token")


class Tokens:
    """Text to token ids; truncation and padding are never switched on, so threads may share it.

    Only ``tokenizer.json`` and the names of the special tokens are read. What else a
    ``tokenizer_config.json`` says, which differs between versions of transformers, plays no part.

    Args:
        folder: Holds ``tokenizer.json`` and ``tokenizer_config.json`` (or
            ``special_tokens_map.json``).

    Raises:
        CheckpointInvalid: A file cannot be read, or a special token is missing.
    """

    def __init__(self, folder: Path) -> None:
        try:
            self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception as exc:  # tokenizers raises bare Exception
            raise CheckpointInvalid(f"{folder / 'tokenizer.json'} is no tokenizer: {exc}") from exc
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        names = _special_names(folder)
        ids = {key: self._id(folder, key, names.get(key)) for key in _SPECIALS}
        self.cls_id, self.sep_id = ids["cls_token"], ids["sep_token"]
        self.pad_id, self.mask_id = ids["pad_token"], ids["mask_token"]
        self._mask_text = names["mask_token"]

    def encode(self, text: str) -> list[int]:
        """Ids of a text without special tokens around it; the mask token in it becomes a space."""
        clean = text.replace(self._mask_text, " ")
        ids: list[int] = self._tokenizer.encode(clean, add_special_tokens=False).ids
        return ids

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where each token of :meth:`encode` stands: start and end in characters of the text."""
        parts = text.split(self._mask_text)
        found = self._tokenizer.encode(" ".join(parts), add_special_tokens=False).offsets
        if len(parts) == 1:
            return list(found)
        # Each mask text became one space, so what stands behind it has moved to the left.
        spaces = list(
            itertools.accumulate((len(part) + 1 for part in parts[1:-1]), initial=len(parts[0]))
        )
        moved = len(self._mask_text) - 1
        return [
            (
                start + moved * bisect.bisect_left(spaces, start),
                end + moved * bisect.bisect_left(spaces, end),
            )
            for start, end in found
        ]

    def _id(self, folder: Path, key: str, name: str | None) -> int:
        found = self._tokenizer.token_to_id(name) if name else None
        if found is None:
            raise CheckpointInvalid(
                f"{folder}: the tokenizer has no {key}"
                + (f" {name!r}" if name else "; tokenizer_config.json does not name it")
            )
        return int(found)


def _special_names(folder: Path) -> dict[str, str]:
    names: dict[str, str] = {}
    for file in ("special_tokens_map.json", "tokenizer_config.json"):
        path = folder / file
        if not path.is_file():
            continue
        try:
            found: Any = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as exc:
            raise CheckpointInvalid(f"{path} is no JSON: {exc}") from exc
        for key in _SPECIALS:
            value = found.get(key) if isinstance(found, dict) else None
            text = value.get("content") if isinstance(value, dict) else value
            if isinstance(text, str):
                names[key] = text
    return names
