"""The Router under many threads: nothing hangs, leaks, ends twice, or outgrows ``max_loaded``."""

from __future__ import annotations

import gc
import random
import sys
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from fakes import PATIENCE, QUESTIONS, start_thread
from tiny import make_checkpoint

from jevlaya_lab.system_one import pool
from jevlaya_lab.system_one.context import PredictContext
from jevlaya_lab.system_one.router import Router

NAMES = ("english", "multilingual", "typed-decisions", "extra")


class NoDisk(OSError):
    """The build failure that the tests inject."""


class Instant:
    """Answers at once with the text of each state, and is counted for as long as it lives."""

    def __init__(self, name: str) -> None:
        self.name = name

    def system_one(self, state: Any, questions: Any) -> dict[str, Any]:
        return self.predict_batch([state], questions)[0]

    def predict_batch(self, states: Sequence[Any], questions: Any) -> list[dict[str, Any]]:
        return [
            {
                "answers": {"echo": state, "by": self.name},
                "usage": {"input_tokens": len(state), "output_tokens": 0},
            }
            for state in states
        ]


class Builds:
    """Stands in for ``Router._build``: quick, failing now and then, two of a name never at once."""

    def __init__(self, wrong: list[str], build: Callable[[str, Any], Any], failing: float) -> None:
        self.wrong = wrong
        self.build = build
        self.failing = failing
        self.alive: weakref.WeakSet[Any] = weakref.WeakSet()
        self.failures = 0
        self.built = 0
        self._under_way: set[str] = set()
        self._guard = threading.Lock()
        self._draw = random.Random(5)

    def __call__(self, name: str, source: Any) -> Any:
        with self._guard:
            if name in self._under_way:
                self.wrong.append(f"{name} is built twice at once")
            self._under_way.add(name)
            fails = self._draw.random() < self.failing
            self.failures += fails
        try:
            if fails:
                raise NoDisk(name)
            agent = self.build(name, source)
        finally:
            with self._guard:
                self._under_way.discard(name)
        with self._guard:
            self.built += 1
            self.alive.add(agent)
        return agent


class Ledger:
    """A hook that keeps a book of every run, and finds what does not belong to it."""

    def __init__(self, wrong: list[str]) -> None:
        self.wrong = wrong
        self.events: dict[str, list[str]] = {}
        self.seen: dict[str, tuple[Any, Any]] = {}

    def on_predict_start(self, ctx: PredictContext) -> None:
        if ctx.run_id in self.events:
            self.wrong.append("a run started twice")
        if ctx.results is not None or ctx.error is not None:
            self.wrong.append("a run started with another's results")
        self.events[ctx.run_id] = ["start"]
        self.seen[ctx.run_id] = (ctx.states[0], ctx.model)
        if "rewrite" in ctx.states[0]:
            ctx.states = [ctx.states[0] + " again"]
        if "fail" in ctx.states[0]:
            raise NoDisk("as asked")

    def on_error(self, ctx: PredictContext) -> None:
        self.events[ctx.run_id].append("error")

    def on_predict_end(self, ctx: PredictContext) -> None:
        self.events[ctx.run_id].append("end")
        if ("error" in self.events[ctx.run_id]) != (ctx.error is not None):
            self.wrong.append("on_error belongs to runs that failed, and to all of them")
        state, model = self.seen[ctx.run_id]
        if not ctx.states[0].startswith(state) or ctx.model != model:
            self.wrong.append(f"{state!r} became {ctx.states[0]!r}")
        if ctx.error is None and ctx.results[0]["routing"]["model"] != model:  # type: ignore[index]
            self.wrong.append("another's routing")

    def check(self) -> None:
        orders = Counter(tuple(events) for events in self.events.values())
        assert set(orders) <= {("start", "end"), ("start", "error", "end")}
        assert orders["start", "end"]


class Passing:
    """A hook that is installed and removed all the time; a pair of its events may be torn apart."""

    def on_predict_start(self, ctx: PredictContext) -> None:
        """See the run."""

    def on_evict(self, ctx: PredictContext) -> None:
        """See the eviction."""


class Caller:
    """One thread: random calls, each of which checks what it got."""

    def __init__(self, number: int, router: Router, wrong: list[str], failing: float) -> None:
        self.failing = failing
        self.number = number
        self.router = router
        self.wrong = wrong
        self.draw = random.Random(number)
        self.done: Counter[str] = Counter()
        self.refused: Counter[type] = Counter()

    def run(self, calls: int, kinds: Sequence[str]) -> None:
        for i in range(calls):
            kind = self.draw.choice(kinds)
            try:
                getattr(self, kind)(f"{self.number}/{i}")
            except NoDisk as exc:
                self.refused[type(exc)] += 1
            except BaseException as exc:
                self.wrong.append(f"{kind}: {exc!r}")
            self.done[kind] += 1
            self.look()

    def look(self) -> None:
        """The pool's invariant, read under its lock since others go on."""
        held = self.router._pool
        with held._lock:
            if len(held._agents) > held._max_loaded or set(held._policy.order()) != {*held._agents}:
                self.wrong.append(f"resident: {list(held._agents)}, allowed: {held._max_loaded}")

    def request(self, text: str) -> dict[str, Any]:
        chance = self.draw.random()
        word = "fail" if chance < self.failing else "rewrite" if chance < 0.4 else "as it is"
        name = self.draw.choice(NAMES)
        return {"state": f"{text} {word}", "questions": QUESTIONS, "model": name}

    def predict(self, text: str) -> None:
        request = self.request(text)
        self.check(request, self.router.predict(**request))

    def predict_batch(self, text: str) -> None:
        requests = [self.request(f"{text}.{k}") for k in range(4)]
        results = self.router.predict_batch(requests)
        for request, result in zip(requests, results, strict=True):
            self.check(request, result)

    def check(self, request: dict[str, Any], result: dict[str, Any]) -> None:
        state = request["state"]
        echo = state + " again" if "rewrite" in state else state
        if result["routing"]["model"] != request["model"]:
            self.wrong.append(f"{request['model']} was asked, {result['routing']} answered")
        if result["answers"].get("echo", echo) != echo:
            self.wrong.append(f"{echo!r} was asked, {result['answers']} answered")
        if result["answers"].get("by", request["model"]) != request["model"]:
            self.wrong.append(f"{request['model']} was asked, {result['answers']} answered")

    def route(self, text: str) -> None:
        request = self.request(text)
        if self.router.route(**request)["model"] != request["model"]:
            self.wrong.append("routed to another")

    def load(self, _: str) -> None:
        name = self.draw.choice(NAMES)
        agent = self.router.load(name)
        if getattr(agent, "name", name) != name:
            self.wrong.append(f"{name} was loaded, {agent.name} came")

    def unload(self, _: str) -> None:
        self.router.unload(self.draw.choice((*NAMES, None)))

    def attach(self, _: str) -> None:
        name = self.draw.choice(NAMES)
        self.router.attach(name, Instant(name))
        self.router.max_loaded = 1

    def preload(self, _: str) -> None:
        try:
            self.router.preload(self.draw.sample(NAMES, 2))
        finally:
            self.router.max_loaded = 1

    def hooks(self, _: str) -> None:
        with self.router.hooks_installed(Passing()):
            self.router.route("a", QUESTIONS, model=self.draw.choice(NAMES))


def together(callers: Sequence[Caller], calls: int, kinds: Sequence[str]) -> None:
    """Let all run at once; fails where one does not come back in time."""
    deadline = time.monotonic() + 2 * PATIENCE
    threads = [start_thread(caller.run, calls, kinds) for caller in callers]
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"


MIXED = ("predict", "predict", "predict_batch", "route", "load", "unload", "attach", "preload")


@pytest.fixture(autouse=True)
def _more_switches(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Threads take turns often; collecting the garbage of a whole test session would take long."""
    monkeypatch.setattr(pool, "release_memory", lambda: None)
    interval, threads = sys.getswitchinterval(), torch.get_num_threads()
    sys.setswitchinterval(2e-5)
    torch.set_num_threads(1)
    yield
    sys.setswitchinterval(interval)
    torch.set_num_threads(threads)


@pytest.fixture
def wrong() -> list[str]:
    """What threads find; an assert of theirs would be lost."""
    return []


def make_router(
    monkeypatch: pytest.MonkeyPatch, builds: Builds, models: Mapping[str, Any] | None = None
) -> Router:
    """A router that builds with these."""
    with monkeypatch.context() as patch:
        patch.setattr(Router, "_build", lambda _, name, source: builds(name, source))
        return Router(models or {"extra": "anywhere"}, device="cpu", max_loaded=1)


def stress(
    router: Router, wrong: list[str], n: int, calls: int, kinds: Sequence[str], failing: float
) -> Counter[type]:
    """Let threads make calls, see that all came back in order, and give what was refused."""
    ledger = Ledger(wrong)
    router.add_hook(ledger)
    before = router.hooks
    callers = [Caller(number, router, wrong, failing) for number in range(n)]
    together(callers, calls, (*kinds, "hooks"))
    assert wrong == []
    ledger.check()
    assert sum(caller.done.total() for caller in callers) == n * calls
    assert router.hooks == before, "whoever installed a hook took it out again"
    return sum((caller.refused for caller in callers), Counter())


def test_sixteen_threads_of_mixed_calls(monkeypatch: pytest.MonkeyPatch, wrong: list[str]) -> None:
    """L-28, L-30, L-35, L-38: all come back, one end a run, everybody gets what was asked."""
    builds = Builds(wrong, lambda name, _: Instant(name), failing=0.1)
    router = make_router(monkeypatch, builds)

    refused = stress(router, wrong, 16, 200, MIXED, failing=0.05)

    assert builds.failures
    assert refused[NoDisk] >= builds.failures
    assert router.max_loaded == 1
    assert len(router.loaded) <= 1
    gc.collect()  # failed runs and their tracebacks hold each other
    assert {agent.name for agent in builds.alive} <= set(router.loaded)


def test_no_more_agents_live_than_are_resident_or_in_use(
    monkeypatch: pytest.MonkeyPatch, wrong: list[str]
) -> None:
    """L-32: one resident at most, and one in the hands of each thread, at every event."""
    builds = Builds(wrong, lambda name, _: Instant(name), failing=0.0)
    router = make_router(monkeypatch, builds)
    threads, most = 3, 0

    class Count:
        def on_predict_start(self, ctx: PredictContext) -> None:
            nonlocal most
            most = max(most, len(builds.alive))  # a set of them would keep them alive
            if len(router.loaded) > 1:
                wrong.append(f"resident: {router.loaded}")

        on_load = on_evict = on_predict_end = on_predict_start

    router.add_hook(Count())
    kinds = ("predict", "predict_batch", "load", "unload", "route")
    stress(router, wrong, threads, 400, kinds, failing=0.0)

    assert builds.built > 100
    assert 1 <= most <= threads + 1
    router.unload()
    assert list(builds.alive) == []


def test_two_threads_with_real_checkpoints(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wrong: list[str]
) -> None:
    """The same with agents that are built and asked for real."""
    folders = {name: make_checkpoint(tmp_path / name, seed=i) for i, name in enumerate(NAMES)}
    makes = Router(folders, device="cpu")
    builds = Builds(wrong, makes._build, failing=0.1)
    router = make_router(monkeypatch, builds, folders)

    kinds = ("predict", "predict_batch", "load", "unload")
    refused = stress(router, wrong, 2, 50, kinds, failing=0.05)

    assert builds.failures
    assert refused[NoDisk] >= builds.failures
    assert len(router.loaded) <= 1
    router.unload()
    gc.collect()
    assert list(builds.alive) == []
