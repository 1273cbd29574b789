"""The table behind a store in memory: rows that do not change, searched and written as a whole."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from jevlaya_lab.embedding.identity import EmbeddingIdentity
from jevlaya_lab.embedding.near import unit
from jevlaya_lab.embedding.stores.base import Hit
from jevlaya_lab.embedding.texts import Matrix
from jevlaya_lab.system_one.errors import FileInvalid

__all__ = ["FORMAT", "Table", "described", "read"]

FORMAT: Final = "jevlaya-vectors/1"


@dataclass(slots=True)
class Table:
    """Vectors of one identity. A change makes a new table, so searches need no lock."""

    identity: EmbeddingIdentity
    vectors: Matrix
    rows: dict[str, int] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)
    metadata: list[dict[str, Any]] = field(default_factory=list)
    lengths: Matrix | None = None

    @classmethod
    def empty(cls, identity: EmbeddingIdentity) -> Table:
        """A table without rows."""
        return cls(identity, np.zeros((0, identity.dimension or 0), np.float32))

    def with_rows(
        self, keys: Sequence[str], vectors: Matrix, texts: Sequence[str], metadata: Sequence[Any]
    ) -> Table:
        """A table with these rows as well; those under the same keys are replaced."""
        rows, said, more = dict(self.rows), list(self.texts), list(self.metadata)
        for key, text, one in zip(keys, texts, metadata, strict=True):
            at = rows.setdefault(key, len(rows))
            said[at : at + 1], more[at : at + 1] = [text], [one]
        matrix = np.empty((len(rows), self.vectors.shape[1]), np.float32)
        matrix[: len(self.vectors)] = self.vectors
        matrix[[rows[key] for key in keys]] = vectors
        return Table(self.identity, matrix, rows, said, more)

    def only(self, keys: Sequence[str]) -> Table:
        """A table of some of its rows, in this order."""
        at = [self.rows[key] for key in keys]
        return Table(
            self.identity,
            self.vectors[at],
            {key: i for i, key in enumerate(keys)},
            [self.texts[i] for i in at],
            [self.metadata[i] for i in at],
        )

    def nearest(self, queries: Matrix, k: int, wanted: Mapping[str, Any]) -> list[list[Hit]]:
        """For each query the ``k`` nearest rows whose metadata fit."""
        keys = list(self.rows)
        fit = [i for i, one in enumerate(self.metadata) if _fits(one, wanted)]
        vectors = self.vectors if len(fit) == len(keys) else self.vectors[fit]
        if self.lengths is None:
            self.lengths = np.linalg.norm(self.vectors, axis=1)
        lengths = self.lengths if len(fit) == len(keys) else self.lengths[fit]
        # No zeros are stored, and none are looked for.
        similar = (unit(queries) @ vectors.T) / lengths
        found = []
        for row in similar:
            # All that are as near as the k-th one, so that the keys decide between equals.
            least = np.partition(row, len(row) - k)[len(row) - k] if k < len(row) else -np.inf
            near = sorted((-row[j], keys[fit[j]], fit[j]) for j in np.flatnonzero(row >= least))
            found.append(
                [
                    Hit(key, float(-minus), self.texts[i], dict(self.metadata[i]))
                    for minus, key, i in near[:k]
                ]
            )
        return found


def _fits(metadata: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(name in metadata and _same(metadata[name], one) for name, one in wanted.items())


def _same(stored: Any, value: Any) -> bool:
    """Equal as JSON: a boolean is no number there."""
    return isinstance(stored, bool) == isinstance(value, bool) and bool(stored == value)


def described(table: Table) -> bytes:
    """Its rows without the vectors, as JSON."""
    return json.dumps(
        {
            "identity": asdict(table.identity),
            "keys": list(table.rows),
            "texts": table.texts,
            "metadata": table.metadata,
        }
    ).encode()


def read(path: Path) -> tuple[Table, Table | None]:
    """The table of a file, and the one that was being staged.

    Raises:
        FileInvalid: The file is damaged, or another kind.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            if str(arrays["format"]) != FORMAT:
                raise ValueError(f"its format is {arrays['format']}, {FORMAT} is due")
            current = _table_of(arrays, "")
            return current, _table_of(arrays, "staged_") if "staged_rows" in arrays else None
    except (
        ValueError,
        KeyError,
        TypeError,
        EOFError,
        IsADirectoryError,
        zipfile.BadZipFile,
    ) as exc:
        raise FileInvalid(
            f"{path} is no file of a vector store, or damaged ({exc}); make it anew from the texts"
        ) from exc


def _table_of(arrays: Any, prefix: str) -> Table:
    said = json.loads(arrays[f"{prefix}rows"].tobytes())
    identity, vectors = EmbeddingIdentity(**said["identity"]), arrays[f"{prefix}vectors"]
    keys = said["keys"]
    shape = (len(keys), identity.dimension)
    if vectors.shape != shape or not len(said["texts"]) == len(said["metadata"]) == len(keys):
        raise ValueError(f"vectors of shape {vectors.shape} for {shape}")
    if not np.isfinite(vectors).all():
        raise ValueError("its vectors hold NaN or infinity")
    if not all(isinstance(key, str) for key in keys) or len(set(keys)) < len(keys):
        raise ValueError("its keys are not texts, each once")
    rows = {key: i for i, key in enumerate(keys)}
    return Table(identity, vectors, rows, said["texts"], said["metadata"])
