"""Which model ``model=`` means, and a function that builds it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from jevlaya_lab.embedding.local_models import Facts, LocalModel, ObjectModel
from jevlaya_lab.system_one.errors import InvalidOption

__all__ = ["EMBEDDED", "Source", "find_source"]

EMBEDDED: Final = Path(__file__).resolve().parent.parent / "checkpoints" / "embedded" / "encoder"
"""Folder of the encoder that comes with the package."""

EMBEDDED_NAME: Final = "sentence-transformers/all-MiniLM-L6-v2"
EMBEDDED_REVISION: Final = "sha256:553c9ff2a4d96801"
"""Digest of the encoder's weights file; a test compares it with the file."""

_DTYPES: Final = ("float32", "float16", "bfloat16")


@dataclass(frozen=True, slots=True)
class Source:
    """A model that is not loaded yet.

    Attributes:
        facts: What is known of it before.
        kind: For people: ``embedded``, ``agent``, ``sentence-transformers`` or ``object``.
        build: Loads it; called in a thread.
        replicable: Whether there can be more than one at work.
    """

    facts: Facts
    kind: str
    build: Callable[[], LocalModel]
    replicable: bool = True


def find_source(
    model: Any,
    *,
    name: str | None,
    revision: str | None,
    device: str | None,
    dtype: str,
    prompt: str | None,
    token: str | None,
) -> Source:
    """Tell what a model is given as; nothing is loaded.

    Args:
        model: ``"embedded"``; ``org/name`` or a folder for sentence-transformers; an Agent with a
            bi-encoder; an object with ``encode``; or a function (or class) that makes one.
        name: What it is called in its identity.
        revision: Its commit, digest or version.
        device: For models that are loaded here; ``None`` for the best there is.
        dtype: For sentence-transformers models.
        prompt: Put before each text.
        token: For the Hub.

    Raises:
        InvalidOption: It is none of these, or an option does not go with it.
    """
    if dtype not in _DTYPES:
        raise InvalidOption(f"dtype must be one of {', '.join(_DTYPES)}, got {dtype!r}")
    if isinstance(model, str) and model == "embedded":
        if dtype != "float32":
            raise InvalidOption("the embedded encoder runs in float32; leave dtype out")
        return _embedded(device, prompt or "")
    if isinstance(model, (str, os.PathLike)):
        if device is not None and device.startswith("cpu") and dtype != "float32":
            raise InvalidOption(f"{dtype} on a CPU is slow and loses digits; use float32, or a GPU")
        where = os.fspath(model)
        facts = Facts(name or where, revision, prompt=prompt or "", device=device or "auto")
        return Source(
            facts,
            "sentence-transformers",
            lambda: _load(where, name or where, revision, device, dtype, prompt, token),
        )
    if hasattr(getattr(getattr(model, "network", None), "encoder", None), "n_positions"):
        return _of_agent(model, name, revision, prompt or "")
    return _of_object(model, name, revision, prompt)


def _embedded(device: str | None, prompt: str) -> Source:
    def build() -> LocalModel:
        from jevlaya_lab.embedding.embedded_model import EmbeddedModel
        from jevlaya_lab.system_one.devices import choose_device

        return EmbeddedModel.from_folder(
            EMBEDDED,
            name=EMBEDDED_NAME,
            revision=EMBEDDED_REVISION,
            prompt=prompt,
            device=choose_device(device),
        )

    facts = Facts(
        EMBEDDED_NAME, EMBEDDED_REVISION, "mean", prompt, 256, True, device or "auto", True
    )
    return Source(facts, "embedded", build)


def _of_agent(agent: Any, name: str | None, revision: str | None, prompt: str) -> Source:
    embedded = getattr(agent, "model_id", None) == "embedded"
    name = name or (EMBEDDED_NAME if embedded else str(getattr(agent, "model_id", "agent")))
    revision = revision or (EMBEDDED_REVISION if embedded else None)

    def build() -> LocalModel:
        from jevlaya_lab.embedding.embedded_model import EmbeddedModel

        return EmbeddedModel.of_agent(agent, name=name, revision=revision, prompt=prompt)

    facts = Facts(
        name, revision, "mean", prompt, 256, True, str(agent.network.device), uses_torch=True
    )
    return Source(facts, "agent", build)


def _load(
    where: str,
    name: str,
    revision: str | None,
    device: str | None,
    dtype: str,
    prompt: str | None,
    token: str | None,
) -> LocalModel:
    from jevlaya_lab.embedding import sentence_transformer

    model = sentence_transformer.load(
        where, revision=revision, device=device, dtype=dtype, prompt=prompt, token=token, name=name
    )
    return model


def _of_object(model: Any, name: str | None, revision: str | None, prompt: str | None) -> Source:
    if not isinstance(model, type) and callable(getattr(model, "encode", None)):
        label = name or type(model).__name__
        facts = Facts(label, revision, prompt=prompt or "", device="object")
        if type(model).__module__.startswith("sentence_transformers."):
            return Source(facts, "sentence-transformers", lambda: _given(model, facts, prompt))
        return Source(facts, "object", lambda: ObjectModel(model, facts), replicable=False)
    if callable(model):
        facts = Facts(
            name or str(getattr(model, "__name__", type(model).__name__)),
            revision,
            prompt=prompt or "",
            device="object",
        )
        return Source(facts, "object", lambda: _made(model, facts, prompt))
    raise InvalidOption(
        f"model={model!r} is no model: pass 'embedded', a name or folder for "
        "sentence-transformers, an Agent, an object with encode(texts), or a function that makes "
        "one"
    )


def _made(build: Callable[[], Any], facts: Facts, prompt: str | None) -> LocalModel:
    made = build()
    if type(made).__module__.startswith("sentence_transformers."):
        return _given(made, facts, prompt)
    return ObjectModel(made, facts, build)


def _given(model: Any, facts: Facts, prompt: str | None) -> LocalModel:
    from jevlaya_lab.embedding.sentence_transformer import SentenceTransformerModel

    given = SentenceTransformerModel(
        model, name=facts.model, revision=facts.revision, prompt=prompt
    )
    return given.replica()  # its owner may go on using it: the tokenizer must not be shared
