"""CheckpointPool: residency, single-flight builds, eviction, and what waits for what."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from fakes import PATIENCE, promptly, start_thread

from jevlaya_lab.system_one.errors import InvalidOption, UnknownCheckpoint
from jevlaya_lab.system_one.eviction import LeastRecentlyUsed
from jevlaya_lab.system_one.pool import CheckpointPool, _Build

SOURCES = {"a": "source a", "b": "source b", "c": "source c"}


class Built:
    """What a build makes."""

    def __init__(self, name: str, source: Any) -> None:
        self.name = name
        self.source = source


class Builder:
    """Builds, counts, and does first what it was told for a name: wait, fail, call back."""

    def __init__(self, **first: Callable[[], Any]) -> None:
        self.first = first
        self.names: list[str] = []

    def __call__(self, name: str, source: Any) -> Built:
        self.names.append(name)
        if name in self.first:
            self.first[name]()
        return Built(name, source)


class Gate:
    """A build that tells when it began, and goes on when it is let."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.entered = threading.Event()
        self.open = threading.Event()
        self.error = error

    def __call__(self) -> None:
        self.entered.set()
        assert self.open.wait(PATIENCE)
        if self.error is not None:
            raise self.error


def make(builder: Builder | None = None, **options: Any) -> CheckpointPool:
    return CheckpointPool(builder or Builder(), SOURCES, **options)


def outcomes(function: Callable[[], Any], n: int) -> tuple[list[threading.Thread], list[Any]]:
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(function())
        except BaseException as exc:
            found.append(exc)

    return [start_thread(run) for _ in range(n)], found


def test_a_checkpoint_is_built_once_and_then_resident() -> None:
    """L-13: load gives the resident agent, or builds it."""
    builder = Builder()
    pool = make(builder)

    first, second = pool.load("a"), pool.load(" A ")

    assert first.agent is second.agent
    assert (first.built, second.built) == (True, False)
    assert first.agent.source == "source a"
    assert builder.names == ["a"]
    assert second.elapsed_ms == 0


def test_the_least_recently_used_one_goes_first() -> None:
    """L-32: when max_loaded is exceeded."""
    pool = make(max_loaded=2)
    pool.load("a")
    pool.load("b")
    pool.load("a")

    loaded = pool.load("c")

    assert loaded.evicted == ("b",)
    assert pool.loaded == ["a", "c"]


def test_another_policy_may_be_given() -> None:
    class MostRecentlyUsed(LeastRecentlyUsed):
        def order(self) -> list[str]:
            return super().order()[::-1]

    pool = make(max_loaded=2, policy=MostRecentlyUsed())
    for name in "abc":
        pool.load(name)

    assert set(pool.loaded) == {"a", "c"}


def test_an_evicted_agent_is_really_let_go() -> None:
    """L-30: nothing in the pool keeps what was released alive."""
    pool = make(max_loaded=1)
    agent = weakref.ref(pool.load("a").agent)

    pool.load("b")

    gc.collect()
    assert agent() is None


def test_concurrent_loads_build_once() -> None:
    """L-35: all who ask while it is built get the same agent."""
    gate = Gate()
    builder = Builder(a=gate)
    pool = make(builder)
    threads, found = outcomes(lambda: pool.load("a"), 8)
    assert gate.entered.wait(PATIENCE)

    gate.open.set()
    for thread in threads:
        thread.join(PATIENCE)

    assert builder.names == ["a"]
    assert len({id(loaded.agent) for loaded in found}) == 1
    assert sorted(loaded.built for loaded in found) == [False] * 7 + [True]


def test_a_build_holds_up_nobody_else() -> None:
    """L-30: other checkpoints load, and loaded answers, while a slow one is built."""
    gate = Gate()
    pool = make(Builder(a=gate))
    threads, _ = outcomes(lambda: pool.load("a"), 1)
    assert gate.entered.wait(PATIENCE)

    assert promptly(lambda: pool.load("b")).built
    assert promptly(lambda: pool.loaded) == ["b"]
    assert promptly(pool.unload, "b") == ["b"]

    gate.open.set()
    threads[0].join(PATIENCE)
    assert pool.loaded == ["a"]


@pytest.mark.parametrize("error", [OSError("no disk"), KeyboardInterrupt()])
def test_a_failed_build_reaches_every_waiter_and_leaves_nothing(error: BaseException) -> None:
    gate = Gate(error)
    builder = Builder(a=gate)
    pool = make(builder)
    threads, found = outcomes(lambda: pool.load("a"), 4)
    assert gate.entered.wait(PATIENCE)

    gate.open.set()
    for thread in threads:
        thread.join(PATIENCE)

    assert found
    assert all(each is error for each in found)
    assert pool.loaded == []
    builder.first.clear()
    assert pool.load("a").built, "the next load tries again"


def test_unloading_waits_for_a_build_of_the_same_name() -> None:
    """L-33: what a build under way makes is unloaded as well."""
    gate = Gate()
    pool = make(Builder(a=gate))
    loading, _ = outcomes(lambda: pool.load("a"), 1)
    assert gate.entered.wait(PATIENCE)
    unloading, freed = outcomes(lambda: pool.unload("a"), 1)

    gate.open.set()
    for thread in (*loading, *unloading):
        thread.join(PATIENCE)

    assert freed == [["a"]]
    assert pool.loaded == []


def test_a_name_that_is_attached_during_its_build_wins() -> None:
    gate = Gate()
    pool = make(Builder(a=gate))
    threads, found = outcomes(lambda: pool.load("a"), 2)
    assert gate.entered.wait(PATIENCE)
    mine = Built("a", "mine")
    pool.attach("a", mine)

    gate.open.set()
    for thread in threads:
        thread.join(PATIENCE)

    assert [loaded.agent for loaded in found] == [mine, mine]
    assert not any(loaded.built for loaded in found)
    assert pool.load("a").agent is mine


def test_a_source_that_is_replaced_during_a_build_is_what_the_next_load_gets() -> None:
    gate = Gate()
    pool = make(Builder(a=gate))
    threads, found = outcomes(lambda: pool.load("a"), 1)
    assert gate.entered.wait(PATIENCE)
    replacing, _ = outcomes(lambda: pool.register("a", "new source"), 1)
    while pool.registered["a"] != "new source":
        replacing[0].join(0.001)

    gate.open.set()
    for thread in (*threads, *replacing):
        thread.join(PATIENCE)

    assert found[0].agent.source == "source a"
    assert pool.load("a").agent.source == "new source"


def test_attach_and_preload_raise_max_loaded() -> None:
    """L-34: what is resident always fits."""
    pool = make(max_loaded=1)
    pool.load("a")

    assert pool.attach("mine", Built("mine", None)) == ("mine", False)
    assert (pool.max_loaded, pool.loaded) == (2, ["a", "mine"])
    assert [pool.load(name).name for name in pool.make_room()] == ["a", "b", "c"]
    assert (pool.max_loaded, len(pool.loaded)) == (4, 4)
    assert pool.set_max_loaded(2) == ["mine", "a"]


def test_an_attached_agent_without_a_source_cannot_come_back() -> None:
    pool = make()
    pool.attach("mine", Built("mine", None))
    assert pool.registered["mine"] is None

    pool.unload("mine")

    with pytest.raises(
        UnknownCheckpoint, match="checkpoint 'mine' was attached without a source and is gone"
    ):
        pool.load("mine")


def test_registering_and_unregistering() -> None:
    pool = make()
    assert pool.register("Papers", "folder") == ("papers", [])
    pool.load("papers")
    assert pool.register("papers", "folder") == ("papers", []), "the same source changes nothing"
    assert pool.register("papers", "other") == ("papers", ["papers"])
    pool.load("papers")
    assert pool.unregister("papers") == ["papers"]
    pool.attach("mine", Built("mine", None))
    assert pool.register("mine", "folder") == ("mine", ["mine"]), "the agent was of another source"
    assert pool.load("mine").agent.source == "folder"
    with pytest.raises(UnknownCheckpoint):
        pool.load("papers")


def test_a_build_may_end_while_an_unload_looks_for_builds() -> None:
    """They end without the lock, so that no interrupt keeps one from ending."""
    pool = make()
    pool.load("a")
    under_way = {name: _Build() for name in SOURCES}
    pool._builds.update(under_way)

    class Ending(set[str]):
        def __contains__(self, name: object) -> bool:
            pool._builds.pop(str(name), None)
            return False

    assert pool._drop(Ending()) == []
    assert pool._builds == {}


def test_aliases_stand_for_registered_names_only() -> None:
    pool = CheckpointPool(Builder(), {"english": 1, "ml": 2})
    assert pool.resolve("EN") == "english"
    assert pool.resolve("ml") == "ml", "a registered name goes before an alias"
    with pytest.raises(UnknownCheckpoint, match="no checkpoint 'typed' is registered"):
        pool.resolve("typed")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("englisch", "did you mean 'english'"),
        ("zzz", "registered are english$"),
        (None, "a checkpoint's name is text such as 'english', got None"),
        ("  ", "a checkpoint's name is text"),
        (7, "got 7"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(name: Any, message: str) -> None:
    with pytest.raises(UnknownCheckpoint, match=message):
        CheckpointPool(Builder(), {"english": 1}).load(name)


@pytest.mark.parametrize("value", [0, -1, 1.5, True, None, "2"])
def test_max_loaded_is_a_whole_number_of_at_least_one(value: Any) -> None:
    with pytest.raises(InvalidOption, match="max_loaded must be a whole number of at least 1"):
        make(max_loaded=value)
    with pytest.raises(InvalidOption, match="max_loaded must be"):
        make().set_max_loaded(value)


def test_a_build_that_asks_for_itself_is_refused_instead_of_waiting_for_ever() -> None:
    builder = Builder()
    pool = make(builder)
    builder.first["a"] = lambda: pool.load("a")
    builder.first["b"] = lambda: pool.unload("b")

    with pytest.raises(InvalidOption, match="asks for this very checkpoint"):
        promptly(pool.load, "a")
    with pytest.raises(InvalidOption, match="cannot unload the checkpoint that it is building"):
        promptly(pool.load, "b")


def test_a_storm_of_loads_keeps_the_bound_and_never_builds_a_resident_one() -> None:
    """L-32, L-35: 16 threads over 3 names with room for one."""
    building: set[str] = set()
    wrong: list[str] = []
    guard = threading.Lock()

    def build(name: str, source: Any) -> Built:
        with guard:
            if name in building:
                wrong.append(f"{name} is built twice at once")
            building.add(name)
        with guard:
            building.discard(name)
        return Built(name, source)

    pool = CheckpointPool(build, SOURCES, max_loaded=1)

    def ask(seed: int) -> None:
        for i in range(12):
            name = "abc"[(seed + i * i) % 3]
            if pool.load(name).agent.name != name:
                wrong.append(f"asked for {name}")
            if len(pool.loaded) > 1:
                wrong.append("more than one resident")

    threads = [start_thread(ask, seed) for seed in range(16)]
    for thread in threads:
        thread.join(PATIENCE)

    assert wrong == []
