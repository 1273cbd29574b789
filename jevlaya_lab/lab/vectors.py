"""Columns of states as vectors, and the near duplicates among them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from jevlaya_lab.embedding.errors import EmbeddingError, InvalidText, MissingExtra
from jevlaya_lab.embedding.generator import EmbeddingGenerator
from jevlaya_lab.embedding.identity import Embeddings
from jevlaya_lab.embedding.local_sources import EMBEDDED
from jevlaya_lab.embedding.near import check_threshold, near_groups
from jevlaya_lab.embedding.strategy import EmbeddingStrategy
from jevlaya_lab.lab.inputs import StateColumns, check_each, read_states
from jevlaya_lab.system_one.encoding import state_text
from jevlaya_lab.system_one.errors import InvalidOption

__all__ = ["IDENTITY", "check_embedding", "embed_frame", "embed_states", "near_duplicates"]

IDENTITY: Final = "jevlaya_embedding"
"""Under this name ``attrs`` of a frame of vectors holds the fields of their identity."""

_lock = threading.Lock()
_default: EmbeddingGenerator | None = None


def check_embedding(embedding: Any) -> EmbeddingGenerator:
    """Who embeds; ``None`` is the embedded encoder, one for the whole process. Nothing is loaded.

    Raises:
        InvalidOption: It is something else.
        MissingExtra: The embedded encoder is not there.
    """
    global _default
    if isinstance(embedding, EmbeddingGenerator):
        return embedding
    if isinstance(embedding, EmbeddingStrategy):
        return EmbeddingGenerator(embedding)
    if embedding is not None:
        raise InvalidOption(
            f"embedding is an EmbeddingGenerator, got {embedding!r}; write "
            "EmbeddingGenerator('local_transformer', model) around a model"
        )
    if not (EMBEDDED / "model.safetensors").exists():
        raise MissingExtra(
            f"the embedded encoder is not in {EMBEDDED}: install it again with "
            "pip install --force-reinstall --no-deps jevlaya_lab, or pass embedding="
        )
    with _lock:
        if _default is None:
            _default = EmbeddingGenerator()
        return _default


class Embedded(NamedTuple):
    """Vectors of the rows that have one.

    ``place`` says of each row which vector is its own, -1 for none; ``wrong`` why it has none.
    """

    vectors: Embeddings
    place: list[int]
    wrong: dict[int, Exception]


def embed_states(
    states: Sequence[Any], index: pd.Index, embedding: EmbeddingGenerator, *, coerce: bool
) -> Embedded:
    """Embed each different state once; also where an event loop is running.

    Args:
        states: Text or JSON values; ``None`` where one is missing.
        index: Their labels, for errors.
        embedding: Who embeds.
        coerce: Whether states that cannot be embedded are left out instead of raised.

    Raises:
        InvalidState: One is missing, no text and no JSON.
        InvalidText: One is blank.
        EmbeddingError: Embedding failed.
    """
    wrong: dict[int, Exception] = dict(check_each(states, index))
    texts: dict[str, int] = {}
    place = []
    for i, state in enumerate(states):
        text = "" if i in wrong else state_text(state, i)
        if i not in wrong and (not text or text.isspace()):
            wrong[i] = InvalidText(
                f"the state at index {index[i]!r} is blank, which has no meaning to embed; fill "
                "it, drop the row, or pass errors='coerce'"
            )
        place.append(-1 if i in wrong else texts.setdefault(text, len(texts)))
    if wrong and not coerce:
        raise wrong[min(wrong)]
    try:
        vectors = embedding.embed_sync(list(texts))
    except EmbeddingError as exc:
        if not exc.positions:
            raise
        labels = [index[place.index(at)] for at in exc.positions]
        raise type(exc)(
            f"the states at index {labels[:5]!r}: {exc.message}", exc.where, positions=exc.positions
        ) from exc
    return Embedded(vectors, place, wrong)


def embed_frame(
    data: Any, embedding: Any = None, *, state: StateColumns = None, errors: str = "raise"
) -> pd.DataFrame:
    """The vectors of states as a frame: one row per state, one ``float32`` column per component.

    Args:
        data: See ``Lab.predict``.
        embedding: An ``EmbeddingGenerator``; ``None`` for the embedded all-MiniLM-L6-v2.
        state: For a DataFrame: what of a row is its state.
        errors: ``"raise"``, or ``"coerce"``: missing and blank states get a row of NaN.

    Returns:
        Columns ``e0000``, ``e0001``, … on the index of the data; ``attrs["jevlaya_embedding"]``
        holds the identity, fingerprint included.

    Raises:
        InvalidInput: The data or an option is not usable.
        EmbeddingError: Embedding failed.
    """
    if errors not in ("raise", "coerce"):
        raise InvalidOption(f"errors is 'raise' or 'coerce', got {errors!r}")
    generator = check_embedding(embedding)
    states, index = read_states(data, state)
    if len(states) and generator.identity.dimension is None:
        generator.preload_sync()  # all rows may be missing, and the columns are due all the same
    found = embed_states(states, index, generator, coerce=errors == "coerce")
    identity = found.vectors.identity
    matrix = np.full((len(states), identity.dimension or 0), np.nan, np.float32)
    rows = [i for i, at in enumerate(found.place) if at >= 0]
    matrix[rows] = found.vectors.vectors[[found.place[i] for i in rows]]
    frame: pd.DataFrame = pd.DataFrame(
        matrix, index=index, columns=[f"e{i:04}" for i in range(matrix.shape[1])]
    )
    if identity.dimension is not None:
        frame.attrs[IDENTITY] = {**asdict(identity), "fingerprint": identity.fingerprint}
    return frame


def near_duplicates(
    data: Any, threshold: float = 0.9, *, state: StateColumns = None, embedding: Any = None
) -> pd.Series[Any]:
    """Which states say nearly the same: the number of each one's group.

    Two states are in one group where the cosine of their vectors is at least the threshold, or
    where a chain of such pairs joins them; equal texts always are. The order of rows plays no part
    in who is together. Similarities are computed in blocks: 50,000 rows take a few hundred MB.

    Args:
        data: See ``Lab.predict``.
        threshold: Cosine, above 0, at most 1. What it means depends on the model.
        state: For a DataFrame: what of a row is its state.
        embedding: An ``EmbeddingGenerator``; ``None`` for the embedded all-MiniLM-L6-v2.

    Returns:
        An ``Int64`` Series named ``group`` on the index of the data: 0, 1, … in the order in which
        the groups first appear; missing and blank states have none (``<NA>``).

    Raises:
        InvalidInput: The data or the threshold is not usable.
        EmbeddingError: Embedding failed.
    """
    check_threshold(threshold)
    generator = check_embedding(embedding)
    states, index = read_states(data, state)
    unreadable = check_each(states, index)
    for i, problem in unreadable.items():
        if states[i] is not None:
            raise problem
    found = embed_states(states, index, generator, coerce=True)
    first = near_groups(found.vectors, threshold)
    numbers: dict[int, int] = {}
    groups = [
        None if at < 0 else numbers.setdefault(int(first[at]), len(numbers)) for at in found.place
    ]
    found_groups: pd.Series[Any] = pd.Series(
        pd.array(groups, dtype="Int64"), index=index, name="group"
    )
    return found_groups
