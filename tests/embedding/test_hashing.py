"""Hashed n-grams: the same everywhere, inline, and never holding up the loop for long."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest
from embedding_fakes import Heartbeat, run
from hypothesis import given
from hypothesis import strategies as st

from jevlaya_lab.embedding import EmbeddingGenerator, InlineHashingEmbedding
from jevlaya_lab.embedding.hashing import SLICE, features
from jevlaya_lab.system_one.errors import InvalidOption

GOLDEN = "Refund my order, please: naïve 日本語 😀"
COUNTS = (
    "0 -1 2 0 0 0 0 1 1 -1 0 0 0 0 0 0 3 1 -1 0 2 -1 -2 0 1 1 -1 0 -1 0 -1 0 "
    "1 -1 -1 -1 0 1 1 0 0 0 0 0 -2 0 1 0 -2 0 -1 -3 -1 -1 1 -1 0 0 0 2 -1 1 0 0"
)
"""The sums in the 64 buckets of that text, before they are brought to length 1."""


def embed(*texts: str, **options: Any) -> Any:
    return run(InlineHashingEmbedding(**options).embed(texts))


def test_it_hashes_character_and_word_ngrams() -> None:
    """E-7: the features themselves, by hand."""
    assert list(features("Ab  CD", (3, 3), 2)) == [
        *("w:ab", "c: ab", "c:ab "),
        *("w:cd", "w:ab cd", "c: cd", "c:cd "),
    ]


def test_vectors_are_the_same_across_processes_and_platforms() -> None:
    """E-7: whatever the hash seed; and they are what they were when this was written."""
    program = (
        "from jevlaya_lab.embedding import EmbeddingGenerator\n"
        f"v = EmbeddingGenerator('hashing', 64).generate_sync({GOLDEN!r})\n"
        "print(v.tobytes().hex())"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    here = embed(GOLDEN, dimension=64)[0]

    assert found == {here.tobytes().hex()}
    counts = np.rint(here / np.abs(here[here != 0]).min()).astype(int)
    assert " ".join(map(str, counts)) == COUNTS


def test_equal_after_normalisation_is_equal() -> None:
    """E-7: Unicode forms, case and blanks play no part; other words do."""
    one, two, three = embed("Ｃａｆé  au lait", "cafe\u0301 AU\tlait", "tea with milk")

    np.testing.assert_array_equal(one, two)
    assert one @ three < 0.5


def test_similar_spelling_is_near() -> None:
    """E-7: a typing error moves a text less than another subject does."""
    base, typo, other = embed(
        "please refund my last order", "please refnd my last order", "where is the nearest shop"
    )

    assert base @ typo > 0.6 > 0.3 > base @ other


@given(st.lists(st.text(min_size=1, max_size=60).filter(lambda t: not t.isspace()), max_size=6))
def test_every_text_has_a_vector_of_length_one(texts: list[str]) -> None:
    """E-7: also where the few features of a text cancel each other."""
    texts = [text.encode("utf-8", "ignore").decode() for text in texts]
    texts = [text for text in texts if text and not text.isspace()]

    vectors = embed(*texts, dimension=8)

    assert vectors.shape == (len(texts), 8)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)


def test_features_that_cancel_leave_a_vector_all_the_same() -> None:
    """E-7: found by search; in one bucket of one, two features of opposite sign."""
    texts = [f"{a}{b}" for a in "abcdefgh" for b in "abcdefgh"]

    vectors = embed(*texts, dimension=1)

    assert set(np.abs(vectors[:, 0])) == {1.0}


def test_it_runs_inline() -> None:
    """E-7: on the loop's own thread, and starts none."""
    before = threading.active_count()
    explained = EmbeddingGenerator("hashing").explain()

    embed("some text")

    assert threading.active_count() == before
    assert (explained.runs, explained.resource) == ("inline", "event loop")


@pytest.mark.parametrize("texts", [["word " * 100_000], ["x" * 500_000], ["a few words"] * 10_000])
def test_long_input_is_sliced(texts: list[str]) -> None:
    """E-7: the heartbeat goes on, whether it is one long text or many short ones."""

    async def scenario() -> tuple[float, float]:
        strategy = InlineHashingEmbedding()
        began = time.perf_counter()
        async with Heartbeat(0.001) as heart:
            await strategy.embed(texts)
        return heart.longest_ms, (time.perf_counter() - began) * 1e3

    longest_ms, took_ms = run(scenario())

    assert took_ms > 100
    assert longest_ms < 100
    assert longest_ms < took_ms / 3


def test_slicing_changes_nothing() -> None:
    """E-7, E-5: a text of several slices has the vector of its features."""
    text = " ".join(f"word{i}" for i in range(SLICE))
    vector = embed(text, dimension=32)[0]
    halves = embed(*[text] * 3, "short", text, dimension=32)

    for row in (0, 1, 2, 4):
        np.testing.assert_array_equal(halves[row], vector)


def test_cancelling_stops_it_at_the_next_slice() -> None:
    """E-8: it needs no thread to be stopped."""

    async def scenario() -> None:
        call = asyncio.ensure_future(InlineHashingEmbedding().embed(["word " * 10_000_000]))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    run(scenario())


@pytest.mark.parametrize(
    "options",
    [
        {"dimension": 0},
        {"char_ngrams": (0, 2)},
        {"char_ngrams": (4, 3)},
        {"char_ngrams": (4, 5), "word_ngrams": 0},
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption):
        InlineHashingEmbedding(**options)
