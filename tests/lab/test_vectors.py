"""Columns of states as vectors, and the near duplicates among them."""

from __future__ import annotations

import asyncio

import numpy as np
import pandas as pd
import pytest
from embedding_fakes import FakeModel

from jevlaya_lab import EmbeddingGenerator, InlineHashingEmbedding, near_duplicates
from jevlaya_lab.embedding.errors import EncodeFailed, InvalidText, MissingExtra, NonFiniteVector
from jevlaya_lab.lab import vectors
from jevlaya_lab.lab.accessor import register
from jevlaya_lab.system_one.errors import InvalidInput, InvalidOption, InvalidState

register()

HASHING = EmbeddingGenerator("hashing", 32)
ODD = pd.MultiIndex.from_tuples([("a", 1), ("b", 2), ("a", 1), ("c", 3)], names=["x", "y"])


def test_a_column_becomes_float32_columns_on_the_same_index():
    texts = pd.Series(["one", "two", "one", {"b": [1, "two"]}], index=ODD, name="text")
    frame = texts.jevlaya.embed(HASHING)

    assert frame.index.equals(ODD)
    assert frame.index.names == ["x", "y"]
    assert frame.columns.tolist() == [f"e{i:04}" for i in range(32)]
    assert set(frame.dtypes) == {np.dtype("float32")}
    json = HASHING.generate_sync('{"b": [1, "two"]}')
    assert np.array_equal(frame.to_numpy()[3], json)
    assert np.array_equal(frame.to_numpy()[0], HASHING.generate_sync("one"))
    assert frame.attrs["jevlaya_embedding"]["fingerprint"] == HASHING.identity.fingerprint
    assert texts.tolist()[3] == {"b": [1, "two"]}


def test_equal_states_are_embedded_once():
    model = FakeModel()
    pd.Series(["a", "b", "a", "a"]).jevlaya.embed(EmbeddingGenerator("local_transformer", model))

    assert sorted(text for call in model.calls for text in call) == ["a", "b"]


def test_missing_and_blank_states_are_named_or_get_no_vector():
    texts = pd.Series(["a", None, "b", " "], index=list("wxyz"))
    with pytest.raises(InvalidState, match="index 'x' is missing"):
        texts.jevlaya.embed(HASHING)
    with pytest.raises(InvalidText, match="index 'z' is blank"):
        texts.drop("x").jevlaya.embed(HASHING)
    frame = texts.jevlaya.embed(HASHING, errors="coerce")
    assert frame.isna().all(axis=1).tolist() == [False, True, False, True]
    assert frame.isna().any(axis=1).tolist() == [False, True, False, True]
    assert np.array_equal(frame.loc["y"], HASHING.generate_sync("b"))


def test_rows_that_are_all_missing_or_none_have_the_columns_all_the_same():
    generator = EmbeddingGenerator("local_transformer", FakeModel(4))
    missing = pd.Series([None, None]).jevlaya.embed(generator, errors="coerce")
    assert missing.shape == (2, 4)
    assert missing.isna().all(axis=None)
    assert pd.Series([], dtype=object).jevlaya.embed(HASHING).shape == (0, 32)


def test_a_frame_says_what_its_states_are():
    frame = pd.DataFrame({"a": ["x", "y"], "b": [1, 2]}, index=[5, 7])
    assert frame.jevlaya.embed(HASHING, state="a").index.tolist() == [5, 7]
    with pytest.raises(InvalidInput, match="state= is missing"):
        frame.jevlaya.embed(HASHING)
    both = frame.jevlaya.near_duplicates(1.0, state=["a", "b"], embedding=HASHING)
    assert both.tolist() == [0, 1]


def test_it_works_where_a_loop_is_running():
    async def cell():
        texts = pd.Series(["a b c", "a b c"])
        return texts.jevlaya.embed(HASHING), texts.jevlaya.near_duplicates(embedding=HASHING)

    frame, groups = asyncio.run(cell())
    assert frame.shape == (2, 32)
    assert groups.tolist() == [0, 0]


def test_failures_are_named_by_their_label_also_when_coercing():
    model = FakeModel()
    model.hopeless.add("bad")
    generator = EmbeddingGenerator("local_transformer", model)
    with pytest.raises(NonFiniteVector, match=r"at index \['y'\]"):
        pd.Series(["a", "bad"], index=["x", "y"]).jevlaya.embed(generator, errors="coerce")
    model.failing["c"] = RuntimeError("no")
    with pytest.raises(EncodeFailed, match="no"):
        pd.Series(["c"]).jevlaya.embed(generator, errors="coerce")


def test_options_that_are_none():
    texts = pd.Series(["a"])
    with pytest.raises(InvalidOption, match="'raise' or 'coerce'"):
        texts.jevlaya.embed(HASHING, errors="ignore")
    with pytest.raises(InvalidOption, match=r"EmbeddingGenerator\('local_transformer', model\)"):
        texts.jevlaya.embed(FakeModel())
    assert texts.jevlaya.embed(InlineHashingEmbedding(16)).shape == (1, 16)


def test_without_the_embedded_weights_the_error_has_the_install_line(monkeypatch, tmp_path):
    monkeypatch.setattr(vectors, "EMBEDDED", tmp_path)
    with pytest.raises(MissingExtra, match=r"pip install --force-reinstall --no-deps jevlaya_lab"):
        pd.Series(["a"]).jevlaya.embed()
    assert pd.Series(["a"]).jevlaya.embed(HASHING).shape == (1, 32)


def test_near_duplicates_are_groups_on_the_same_index():
    texts = pd.Series(
        ["Where is my parcel?", None, "Refund me now", "where is my  parcel", "", "Refund me now!"],
        index=["u", "v", "w", "u", "x", "y"],
    )
    groups = texts.jevlaya.near_duplicates(0.7, embedding=HASHING)

    assert groups.name == "group"
    assert groups.dtype == "Int64"
    assert groups.index.tolist() == ["u", "v", "w", "u", "x", "y"]
    assert groups.isna().tolist() == [False, True, False, False, True, False]
    assert groups.dropna().tolist() == [0, 1, 0, 1]
    pd.testing.assert_series_equal(groups, near_duplicates(texts, 0.7, embedding=HASHING))
    empty = near_duplicates(texts.iloc[:0], embedding=HASHING)
    assert empty.dtype == "Int64"


def test_the_order_of_rows_plays_no_part_in_who_is_together():
    rng = np.random.default_rng(3)
    words = ["refund", "parcel", "invoice", "login", "please", "now", "again"]
    texts = pd.Series([" ".join(rng.choice(words, 4)) for _ in range(80)])
    pairs = set()
    for seed in range(3):
        mixed = texts.sample(frac=1, random_state=seed)
        groups = mixed.jevlaya.near_duplicates(0.85, embedding=HASHING).sort_index()
        pairs.add(tuple(map(tuple, (groups.values[:, None] == groups.values[None, :]).tolist())))
    assert len(pairs) == 1
    assert 1 < groups.nunique() < 80


def test_what_is_no_state_is_refused_before_anything_is_embedded():
    model = FakeModel()
    generator = EmbeddingGenerator("local_transformer", model)
    with pytest.raises(InvalidState, match="index 1"):
        near_duplicates(["a", {1, 2}], embedding=generator)
    with pytest.raises(InvalidOption, match="threshold"):
        near_duplicates(["a"], 2, embedding=generator)
    assert model.calls == []


@pytest.mark.checkpoint
def test_the_embedded_encoder_is_shared_and_sees_meaning():
    texts = pd.Series(["Where is my parcel?", "I would like my money back.", "Where's my parcel?"])
    frame = texts.jevlaya.embed()
    assert frame.shape == (3, 384)
    groups = texts.jevlaya.near_duplicates(0.9)
    assert groups.tolist() == [0, 1, 0]
    assert vectors.check_embedding(None) is vectors.check_embedding(None)
