"""A cache by meaning: a state that says nearly what another one said gets that one's answer."""

from __future__ import annotations

import copy
import threading
from collections import Counter
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from jevlaya_lab.contrib_hooks.cache import has_results, neutral
from jevlaya_lab.contrib_hooks.keys import Tokens, Unkeyable, digest, key_of
from jevlaya_lab.contrib_hooks.nearest import Nearest
from jevlaya_lab.embedding.errors import IdentityMismatch
from jevlaya_lab.embedding.generator import EmbeddingGenerator
from jevlaya_lab.embedding.identity import Embeddings, require_same
from jevlaya_lab.embedding.near import check_threshold
from jevlaya_lab.embedding.strategy import EmbeddingStrategy
from jevlaya_lab.system_one.encoding import check_count, state_text
from jevlaya_lab.system_one.errors import InvalidOption, InvalidState
from jevlaya_lab.system_one.events import BaseHook

__all__ = ["SemanticCache", "SemanticStats"]

_NEAR: Final = 0.05
"""How far below the threshold a similarity counts as a near miss."""


class SemanticStats(NamedTuple):
    """What a semantic cache did so far.

    Attributes:
        hits: Calls answered from memory: every state of theirs had a neighbour.
        misses: Calls that it looked up in vain.
        near_misses: Those of them whose least similar state was less than 0.05 below the threshold.
        stored: States that it took in.
        evictions: Entries that had to go for others.
        changed: Calls not taken in because a hook behind the cache rewrote what was asked.
        bypassed: Calls that it left alone, by reason: those of :class:`CacheStats`, and ``blank``
            (a state without text).
        similarity: Mean similarity of the hits, of each the least of its states; ``None`` before
            the first.
        entries: What it holds.
    """

    hits: int
    misses: int
    near_misses: int
    stored: int
    evictions: int
    changed: int
    bypassed: dict[str, int]
    similarity: float | None
    entries: int

    @property
    def hit_rate(self) -> float:
        """Hits among all calls that were looked up; 0 where there were none."""
        asked = self.hits + self.misses
        return self.hits / asked if asked else 0.0


class _Asking(NamedTuple):
    """A run that is being asked: where its answers belong, its states, their vectors."""

    compartment: bytes
    states: bytes
    vectors: Embeddings


class SemanticCache(BaseHook):
    """Answers a state with what the same agent answered a state of nearly the same meaning.

    **It may serve wrong answers**: near in meaning is not the same, and ``false_hits`` of this
    package measures how often that is so, for your texts and each threshold. The questions, their
    options, the token budgets, the agent, its network and its temperatures must be the same as
    well, exactly; only the state may differ.

    Vectors of two models are never compared (E-10): when those that come are of another identity
    than those that are kept, the call is refused until :meth:`clear` is called. It may be shared by
    threads, and embeds by the synchronous twin, on a loop of its own, so that it works inside of a
    running loop too. No text is kept, but results and vectors are.

    A call with several states is answered if each has a neighbour. Over a Router each request is a
    call; of an agent's batches few are hits. ``predict_long`` is left alone.

    Install it behind :class:`ExactCache`, which is quicker, and behind hooks that rewrite states.

    Args:
        embedding: An ``EmbeddingGenerator``.
        threshold: The least cosine of a hit; above 0, at most 1.
        capacity: States that it holds; the one that was used least recently goes first.

    Attributes:
        embedding: As given; another one may be set.

    Raises:
        InvalidOption: An argument is outside what it takes.
    """

    def __init__(
        self, embedding: EmbeddingGenerator, threshold: float = 0.95, capacity: int = 1024
    ) -> None:
        if isinstance(embedding, EmbeddingStrategy):
            embedding = EmbeddingGenerator(embedding)
        if not isinstance(embedding, EmbeddingGenerator):
            raise InvalidOption(f"embedding is an EmbeddingGenerator, got {embedding!r}")
        self.embedding = embedding
        self._threshold = check_threshold(threshold)
        self.capacity = check_count("capacity", capacity) or 1024
        self._kept: Nearest | None = None
        self._asking: WeakKeyDictionary[Any, _Asking] = WeakKeyDictionary()
        self._tokens = Tokens()
        self._counts: Counter[str] = Counter()
        self._bypassed: Counter[str] = Counter()
        self._evictions = 0
        self._similarity = 0.0
        self._lock = threading.Lock()

    @property
    def threshold(self) -> float:
        """The least cosine of a hit; may be set at any time."""
        return self._threshold

    @threshold.setter
    def threshold(self, threshold: float) -> None:
        self._threshold = check_threshold(threshold)

    def on_predict_start(self, ctx: Any) -> None:
        """Answer the run where all its states have a neighbour."""
        try:
            compartment = key_of(ctx, self._tokens, states=False)
            asked = digest(list(ctx.states))
            texts = _texts(ctx.states)
        except Unkeyable as reason:
            with self._lock:
                self._bypassed[str(reason)] += 1
            return
        vectors = self.embedding.embed_sync(texts)  # not under the lock: it may take long
        with self._lock:
            kept = self._of(vectors)
            found = kept.find(compartment, vectors.vectors)
            least = min((-1.0 if one is None else one.similarity for one in found), default=-1.0)
            if not found or least < self.threshold:
                self._counts["misses"] += 1
                self._counts["near"] += bool(found) and least >= self.threshold - _NEAR
                self._asking[ctx] = _Asking(compartment, asked, vectors)
                return
            neighbours = [one for one in found if one is not None]
            kept.touch([one.slot for one in neighbours])
            self._counts["hits"] += 1
            self._similarity += least
        ctx.skip([copy.deepcopy(one.value) for one in neighbours])  # replaced, never changed

    def on_predict_end(self, ctx: Any) -> None:
        """Take in what the run gave."""
        with self._lock:
            asking = self._asking.pop(ctx, None)
        if asking is None or not has_results(ctx, len(asking.vectors)):
            return
        try:
            same = digest(list(ctx.states)) == asking.states
            same = same and key_of(ctx, self._tokens, states=False, ended=True) == asking[0]
            taken = [neutral(copy.deepcopy(result)) for result in ctx.results] if same else []
        except Unkeyable:
            same = False
        except Exception:  # results that hooks put objects into
            with self._lock:
                self._bypassed["copy"] += 1
            return
        with self._lock:
            if not same:
                self._counts["changed"] += 1
                return
            kept = self._of(asking.vectors)
            for vector, result in zip(asking.vectors.vectors, taken, strict=True):
                if vector.any():  # zeros have no direction
                    kept.add(asking.compartment, vector, result)
                    self._counts["stored"] += 1

    def _of(self, vectors: Embeddings) -> Nearest:
        """The entries, which must be of the identity of some vectors."""
        if self._kept is None:
            self._kept = Nearest(self.capacity, vectors.identity)
        try:
            require_same(self._kept.identity, vectors.identity, "compared in this semantic cache")
        except IdentityMismatch as exc:
            raise IdentityMismatch(
                f"{exc.message.partition('. This is')[0]}. Its {len(self._kept)} entries are of "
                "the old model: call clear() on the cache, or make one for each model",
                exc.where,
            ) from None
        return self._kept

    @property
    def stats(self) -> SemanticStats:
        """What it did so far."""
        with self._lock:
            counts, kept = self._counts, self._kept
            return SemanticStats(
                hits=counts["hits"],
                misses=counts["misses"],
                near_misses=counts["near"],
                stored=counts["stored"],
                evictions=self._evictions + (0 if kept is None else kept.evictions),
                changed=counts["changed"],
                bypassed=dict(self._bypassed),
                similarity=self._similarity / counts["hits"] if counts["hits"] else None,
                entries=0 if kept is None else len(kept),
            )

    def clear(self) -> None:
        """Forget all entries and the model they were made with; what it counted stays."""
        with self._lock:
            self._evictions += 0 if self._kept is None else self._kept.evictions
            self._kept = None
            self._asking.clear()

    def __len__(self) -> int:
        kept = self._kept
        return 0 if kept is None else len(kept)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        stats = self.stats
        return (
            f"SemanticCache({stats.entries} of {self.capacity}, threshold={self.threshold:g}, "
            f"hits={stats.hits}, misses={stats.misses})"
        )


def _texts(states: Any) -> list[str]:
    """The texts of some states.

    Raises:
        Unkeyable: One has none.
    """
    try:
        texts = [state_text(state, i) for i, state in enumerate(states)]
    except InvalidState:
        raise Unkeyable("value") from None  # the agent says what is wrong with it
    if not all(text.strip() for text in texts):
        raise Unkeyable("blank")
    return texts
