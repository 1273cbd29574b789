"""Any sentence-transformers model as a local model."""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from jevlaya_lab.embedding.local_models import Facts, Row
from jevlaya_lab.system_one.errors import InvalidOption

__all__ = ["SentenceTransformerModel", "load"]


def load(
    where: str,
    *,
    name: str,
    revision: str | None,
    device: str | None,
    dtype: str,
    prompt: str | None,
    token: str | None,
) -> SentenceTransformerModel:
    """Load a model by name or folder; the Hub, its cache and its offline mode work as ever.

    Args:
        where: ``org/name`` on the Hub, or a folder.
        name: What it is called in its identity.
        revision: Branch, tag or commit.
        device: ``None`` for the best there is.
        dtype: ``float32``, ``float16`` or ``bfloat16``; the last two not on a CPU.
        prompt: Put before each text; ``None`` for the model's own default.
        token: Access token for the Hub.

    Raises:
        InvalidOption: Half precision on a CPU.
    """
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(
        where, device=device, revision=revision, token=token, trust_remote_code=False
    )
    on_cpu = model.device.type == "cpu"
    if on_cpu and dtype != "float32":
        raise InvalidOption(f"{dtype} on a CPU is slow and loses digits; use float32, or a GPU")
    model = model.to(getattr(torch, dtype))  # also upcasts a file that is stored in half precision
    return SentenceTransformerModel(
        model, name=name, revision=revision or _revision(where), prompt=prompt
    )


class SentenceTransformerModel:
    """A ``SentenceTransformer`` that one thread at a time uses.

    Args:
        model: The model.
        name: What it is called.
        revision: Its commit or digest, if known.
        prompt: Put before each text; ``None`` for the model's own default.

    Raises:
        InvalidOption: It has half precision and is on a CPU.
    """

    def __init__(self, model: Any, *, name: str, revision: str | None, prompt: str | None) -> None:
        dtype = next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)
        if model.device.type == "cpu" and dtype in (torch.float16, torch.bfloat16):
            raise InvalidOption(
                f"{name!r} has {str(dtype).removeprefix('torch.')} weights on a CPU, which is slow "
                "and loses digits; call its float() first, or put it on a GPU"
            )
        if prompt is None and model.default_prompt_name:
            prompt = model.prompts[model.default_prompt_name]
        self._model = model
        self._exact: Any = model if dtype in (torch.float32, torch.float64) else None
        modules = list(model)
        self.facts = Facts(
            model=name,
            revision=revision,
            pooling=_pooling(modules),
            prompt=prompt or "",
            max_length=model.max_seq_length,
            normalised=any(type(module).__name__ == "Normalize" for module in modules),
            device=str(model.device),
            uses_torch=True,
        )

    def read(self, texts: Sequence[str]) -> list[Row]:
        """Lengths in tokens, from the model's own tokenizer where it has one."""
        prompt, most = self.facts.prompt, self.facts.max_length
        if len(texts) == 1 and texts[0].isascii():
            # No tokenizer makes more tokens than bytes, so that most single texts need no look.
            longest = len(texts[0]) + len(prompt.encode()) + 2
            if most is None or longest <= most:
                return [Row(texts[0], longest)]
        tokenizer = getattr(self._model, "tokenizer", None)
        if not callable(tokenizer):
            return [Row(text, len(text) // 4 + 1) for text in texts]
        found = tokenizer(
            [prompt + text for text in texts],
            truncation=False,
            padding=False,
            return_attention_mask=False,
            verbose=False,
        )
        lengths = [len(ids) for ids in found["input_ids"]]
        return [
            Row(text, n if most is None else min(n, most), most is not None and n > most)
            for text, n in zip(texts, lengths, strict=True)
        ]

    def encode(self, rows: Sequence[Row]) -> Any:
        """One pass over some rows: an array [n, d]."""
        return self._encode(self._model, rows)

    def encode_exactly(self, row: Row) -> Any:
        """One row alone, by a float32 copy of the model that is made at the first need."""
        if self._exact is None:
            self._exact = copy.deepcopy(self._model).float()
        return self._encode(self._exact, [row])

    def replica(self) -> SentenceTransformerModel:
        """The same weights under another model with a tokenizer of its own."""
        shared = {id(t): t for t in (*self._model.parameters(), *self._model.buffers())}
        return SentenceTransformerModel(
            copy.deepcopy(self._model, shared),
            name=self.facts.model,
            revision=self.facts.revision,
            prompt=self.facts.prompt,
        )

    def _encode(self, model: Any, rows: Sequence[Row]) -> Any:
        return model.encode(
            [row.text for row in rows],
            prompt=self.facts.prompt,
            batch_size=len(rows),
            show_progress_bar=False,
            convert_to_tensor=True,  # bfloat16 has no NumPy form
        )


def _pooling(modules: Sequence[Any]) -> str | None:
    for module in modules:
        mode = getattr(module, "pooling_mode", None)
        if isinstance(mode, str):
            return mode
        if hasattr(module, "get_pooling_mode_str"):
            return str(module.get_pooling_mode_str())
    return None


def _revision(where: str) -> str | None:
    """The commit of a model in the Hub's cache, or the digest of a folder's weights."""
    folder = Path(where)
    if folder.is_dir():
        weights = folder / "model.safetensors"
        if not weights.is_file():
            return None
        return f"sha256:{hashlib.sha256(weights.read_bytes()).hexdigest()[:16]}"
    from huggingface_hub import try_to_load_from_cache

    repo = where if "/" in where else f"sentence-transformers/{where}"
    cached = try_to_load_from_cache(repo, "modules.json")
    found = re.search(r"snapshots[/\\]([0-9a-f]{40})", str(cached))
    return found[1] if found else None
