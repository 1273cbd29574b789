"""Vectors from hashed n-grams: no model, no download, the same on every machine (E-7)."""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
import unicodedata
from collections import deque
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from jevlaya_lab.embedding.errors import Where
from jevlaya_lab.embedding.identity import EmbeddingIdentity
from jevlaya_lab.embedding.strategy import EmbeddingStrategy, Explanation
from jevlaya_lab.embedding.texts import Matrix
from jevlaya_lab.system_one.encoding import check_count
from jevlaya_lab.system_one.errors import InvalidOption

__all__ = ["InlineHashingEmbedding", "features"]

VERSION: Final = "1"
"""Changes whenever a text's vector does."""

SLICE: Final = 2048
"""Features that are hashed before the event loop gets its turn: at most some milliseconds."""

_KEPT: Final = 1 << 16
_WORD: Final = re.compile(r"\S{1,4096}")


def features(text: str, char_ngrams: tuple[int, int], word_ngrams: int) -> Iterator[str]:
    """The n-grams of a text, word by word, after NFKC normalisation and case folding.

    It is lazy, so that a text of any length can be hashed in slices.

    Args:
        text: The text.
        char_ngrams: Shortest and longest run of characters within a word, whose ends count as
            one blank each.
        word_ngrams: Longest run of words.

    Yields:
        ``c:`` or ``w:`` and the n-gram.
    """
    last: deque[str] = deque(maxlen=max(1, word_ngrams))
    for found in _WORD.finditer(text):
        for word in unicodedata.normalize("NFKC", found[0]).casefold().split():
            last.append(word)
            for n in range(1, min(word_ngrams, len(last)) + 1):
                yield "w:" + " ".join(islice(last, len(last) - n, None))
            padded = f" {word} "
            for n in range(char_ngrams[0], char_ngrams[1] + 1):
                for i in range(len(padded) - n + 1):
                    yield "c:" + padded[i : i + n]


@lru_cache(maxsize=_KEPT)
def _hash(feature: str) -> int:
    return int.from_bytes(hashlib.sha256(feature.encode("utf-8")).digest()[:8], "little")


class InlineHashingEmbedding(EmbeddingStrategy):
    """Signed hashing of character and word n-grams; similar spelling, not similar meaning.

    It runs on the event loop, in slices after each of which the loop gets its turn: a hop to a
    thread costs more than most texts take. ``benchmarks/embedding.py`` measures both.

    Args:
        dimension: Components of a vector.
        char_ngrams: Shortest and longest run of characters.
        word_ngrams: Longest run of words; 0 for none.
        empty: See :class:`EmbeddingStrategy`.

    Raises:
        InvalidOption: An argument is out of range.
    """

    def __init__(
        self,
        dimension: int = 512,
        *,
        char_ngrams: tuple[int, int] = (3, 4),
        word_ngrams: int = 2,
        empty: Literal["reject", "zero"] = "reject",
    ) -> None:
        self._dimension = check_count("dimension", dimension) or 512
        self._chars = char_ngrams
        self._words = check_count("word_ngrams", word_ngrams, least=0) or 0
        if not 1 <= char_ngrams[0] <= char_ngrams[1] <= 3 and self._words == 0:
            raise InvalidOption("without word n-grams, char_ngrams must begin with 1, 2 or 3")
        if not 1 <= char_ngrams[0] <= char_ngrams[1]:
            raise InvalidOption(f"char_ngrams must be (shortest, longest), got {char_ngrams!r}")
        name = f"sha256-c{char_ngrams[0]}-{char_ngrams[1]}-w{self._words}"
        super().__init__(Where("hashing", name, "event loop"), empty)

    @property
    def identity(self) -> EmbeddingIdentity:
        """What its vectors are; known at once."""
        return EmbeddingIdentity(
            provider="hashing",
            model=self._where.model,
            revision=VERSION,
            dimension=self._dimension,
            pooling="sum",
            normalised=True,
        )

    def explain(self) -> Explanation:
        """Where a call would run, and why."""
        return Explanation(
            provider="hashing",
            model=self._where.model,
            runs="inline",
            resource=self._where.resource,
            state="ready",
            why=(
                "Hashing a short text takes less than the hop to a thread; long ones are sliced, "
                "and the loop gets its turn after each slice."
            ),
            limits={"features_per_slice": SLICE},
        )

    async def preload(self) -> None:
        """Nothing has to be loaded."""

    async def _vectors(self, texts: Sequence[str]) -> Matrix:
        began = time.perf_counter()
        self.metrics.observe("queue_wait_ms", 0.0)
        vectors = np.zeros((len(texts), self._dimension), np.float32)
        room = SLICE
        for i, text in enumerate(texts):
            sums = np.zeros(self._dimension)
            found = features(text, self._chars, self._words)
            while hashes := [_hash(feature) for feature in islice(found, room)]:
                self._add(sums, hashes)
                room -= len(hashes)
                if room <= 0:
                    await asyncio.sleep(0)
                    room = SLICE
            if not sums.any():  # its few features cancel each other
                self._add(sums, [_hash("t:" + text) >> 1])
            vectors[i] = sums / np.linalg.norm(sums)
        self.metrics.observe("encode_ms", (time.perf_counter() - began) * 1e3)
        return vectors

    def _add(self, sums: npt.NDArray[np.float64], hashes: list[int]) -> None:
        """Add each feature to its bucket; the sums are whole numbers, so order plays no part."""
        values = np.array(hashes, dtype=np.uint64)
        signs = 1.0 - 2.0 * (values >> np.uint64(63)).astype(np.float64)
        buckets = (values % np.uint64(self._dimension)).astype(np.intp)
        sums += np.bincount(buckets, weights=signs, minlength=self._dimension)
