"""How often a cache by meaning would be right, measured on texts whose answers are known."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Final

import numpy as np

from jevlaya_lab.embedding.generator import EmbeddingGenerator
from jevlaya_lab.embedding.near import check_threshold, unit
from jevlaya_lab.system_one.errors import InvalidInput

__all__ = ["false_hits"]

THRESHOLDS: Final = (0.80, 0.85, 0.90, 0.95, 0.97, 0.99)
_BLOCK: Final = 1024


def false_hits(
    texts: Sequence[str],
    answers: Sequence[Hashable],
    embedding: EmbeddingGenerator,
    *,
    thresholds: Sequence[float] = THRESHOLDS,
) -> list[dict[str, Any]]:
    """Play texts in their order through a :class:`SemanticCache`, and count what it would serve.

    Each text is compared with those before it that would have been stored: the ones that were no
    hits themselves. A hit gives the answer of the nearest one; it is false where that is not the
    text's own. So ``answers`` should be what your question decides (an intent, a team), not an id
    of the text. The cache is taken to be large enough.

    Args:
        texts: In the order in which they would come; shuffle them if they are sorted by answer.
        answers: What is right for each.
        embedding: Embeds them.
        thresholds: Cosines to try.

    Returns:
        One row per threshold, for ``pandas.DataFrame``: ``threshold``, ``n``; ``hits`` and
        ``hit_rate`` (of all texts); ``false_hits`` and ``false_hit_rate`` (of the hits; ``None``
        without any); ``wrong_rate``: false hits of all texts.

    Raises:
        InvalidInput: There are not as many answers as texts, or none of them.
        EmbeddingError: Embedding failed.
    """
    for threshold in thresholds:
        check_threshold(threshold)
    said, right = list(texts), list(answers)
    if not said or len(said) != len(right):
        raise InvalidInput(f"{len(said)} texts and {len(right)} answers: one for each is due")
    vectors = unit(embedding.generate_batch_sync(said))
    numbers = {answer: i for i, answer in enumerate(dict.fromkeys(right))}
    codes = np.array([numbers[answer] for answer in right])
    return [_played(vectors, codes, threshold) for threshold in thresholds]


def _played(vectors: Any, codes: Any, threshold: float) -> dict[str, Any]:
    n = len(vectors)
    stored = np.zeros(n, bool)
    n_hits = n_false = 0
    for start in range(0, n, _BLOCK):
        block = vectors[start : start + _BLOCK]
        before = np.flatnonzero(stored[:start])
        earlier = block @ vectors[before].T
        within = block @ block.T
        for i in range(len(block)):
            here = np.flatnonzero(stored[start : start + i])
            near = np.concatenate([earlier[i], within[i, here]])
            if len(near) and near.max() >= threshold:
                at = np.concatenate([before, here + start])[near.argmax()]
                n_hits += 1
                n_false += bool(codes[at] != codes[start + i])
            else:
                stored[start + i] = True
    return {
        "threshold": threshold,
        "n": n,
        "hits": n_hits,
        "hit_rate": n_hits / n,
        "false_hits": n_false,
        "false_hit_rate": n_false / n_hits if n_hits else None,
        "wrong_rate": n_false / n,
    }
