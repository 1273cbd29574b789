"""Hooks with one fault each, and twins of them without it."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import os
import random
import threading
import time
from collections import deque
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

from jevlaya_lab.system_one.events import BaseHook


class LosesCounts(BaseHook):
    def __init__(self) -> None:
        self.n = 0

    def on_predict_end(self, ctx: Any) -> None:
        self.n += 1


class LosesCountsInADict(BaseHook):
    def __init__(self) -> None:
        self.by_model: dict[str, int] = {}

    def on_predict_end(self, ctx: Any) -> None:
        self.by_model[ctx.model] = self.by_model.get(ctx.model, 0) + 1


class LosesItems(BaseHook):
    def __init__(self) -> None:
        self.seen: list[str] = []

    def on_predict_start(self, ctx: Any) -> None:
        self.seen = [*self.seen, ctx.run_id]


class RaisesInThreads(BaseHook):
    """Pops what another thread may have popped."""

    def __init__(self) -> None:
        self.open: dict[str, int] = {}

    def on_predict_start(self, ctx: Any) -> None:
        self.open["run"] = 1

    def on_predict_end(self, ctx: Any) -> None:
        if "run" in self.open:
            del self.open["run"]


class CountsUnderALock(BaseHook):
    def __init__(self) -> None:
        self.n = 0
        self.by_model: dict[str, int] = {}
        self.seen: list[str] = []
        self._lock = threading.Lock()

    def on_predict_end(self, ctx: Any) -> None:
        with self._lock:
            self.n += 1
            self.by_model[ctx.model] = self.by_model.get(ctx.model, 0) + 1
            self.seen = [*self.seen, ctx.run_id]


class Appends(BaseHook):
    """What is one step of the interpreter needs no lock."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def on_predict_start(self, ctx: Any) -> None:
        self.seen.append(ctx.run_id)


class MixesRuns(BaseHook):
    def __init__(self) -> None:
        self.times: deque[float] = deque(maxlen=10)

    def on_predict_start(self, ctx: Any) -> None:
        self.began = time.perf_counter()

    def on_predict_end(self, ctx: Any) -> None:
        self.times.append(time.perf_counter() - self.began)


class KeepsRunsApart(BaseHook):
    def __init__(self) -> None:
        self.times: deque[float] = deque(maxlen=10)
        self._began: WeakKeyDictionary[Any, float] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def on_predict_start(self, ctx: Any) -> None:
        with self._lock:
            self._began[ctx] = time.perf_counter()

    def on_predict_end(self, ctx: Any) -> None:
        with self._lock:
            self.times.append(time.perf_counter() - self._began.pop(ctx))


class ChangesQuestions(BaseHook):
    def on_predict_start(self, ctx: Any) -> None:
        ctx.questions["extra"] = {"type": "noul", "instructions": "Is it urgent?"}


class AssignsQuestions(BaseHook):
    def on_predict_start(self, ctx: Any) -> None:
        ctx.questions = {
            **ctx.questions,
            "extra": {"type": "noul", "instructions": "Is it urgent?"},
        }


class ChangesObjects(BaseHook):
    def on_predict_start(self, ctx: Any) -> None:
        for state in ctx.states:
            if isinstance(state, dict):
                state["seen"] = True


class CopiesObjects(BaseHook):
    def on_predict_start(self, ctx: Any) -> None:
        ctx.states = [{**s, "seen": True} if isinstance(s, dict) else s for s in ctx.states]


class CacheByLastKey(BaseHook):
    """Stores under the key of whichever run began last."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}
        self.key = ""

    def on_predict_start(self, ctx: Any) -> None:
        self.key = repr((ctx.states, ctx.questions))
        ctx.skip(copy.deepcopy(self.kept.get(self.key)))

    def on_predict_end(self, ctx: Any) -> None:
        if ctx.error is None:
            self.kept[self.key] = copy.deepcopy(ctx.results)


class CacheByRun(BaseHook):
    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}
        self._keys: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def on_predict_start(self, ctx: Any) -> None:
        key = repr((ctx.states, ctx.questions))
        with self._lock:
            self._keys[ctx] = key
            found = self.kept.get(key)
        ctx.skip(copy.deepcopy(found))

    def on_predict_end(self, ctx: Any) -> None:
        with self._lock:
            if ctx.error is None:
                self.kept[self._keys[ctx]] = copy.deepcopy(ctx.results)


class LeavesEntriesOfFailures(BaseHook):
    def __init__(self) -> None:
        self.open: dict[str, float] = {}
        self.lock = threading.Lock()

    def on_predict_start(self, ctx: Any) -> None:
        with self.lock:
            self.open[ctx.run_id] = 1.0

    def on_predict_end(self, ctx: Any) -> None:
        if ctx.error is not None:
            return
        with self.lock:
            del self.open[ctx.run_id]


class LeavesEveryEntry(BaseHook):
    def __init__(self) -> None:
        self.open: dict[str, float] = {}

    def on_predict_start(self, ctx: Any) -> None:
        self.open[ctx.run_id] = 1.0


class LeavesItsCount(BaseHook):
    def __init__(self) -> None:
        self.running = 0
        self.lock = threading.Lock()

    def on_predict_start(self, ctx: Any) -> None:
        with self.lock:
            self.running += 1

    def on_predict_end(self, ctx: Any) -> None:
        if ctx.results:
            with self.lock:
                self.running -= 1


class ClosesAll(BaseHook):
    def __init__(self) -> None:
        self.open: dict[str, float] = {}
        self.running = 0
        self.errors: list[str] = []
        self.lock = threading.Lock()

    def on_predict_start(self, ctx: Any) -> None:
        with self.lock:
            self.open[ctx.run_id] = 1.0
            self.running += 1

    def on_predict_end(self, ctx: Any) -> None:
        with self.lock:
            del self.open[ctx.run_id]
            self.running -= 1
            if ctx.error is not None:
                self.errors.append(str(ctx.error))


class LeavesTheEnvironment(BaseHook):
    """Puts back what was there before the last start; in a batch that is its own value."""

    def on_predict_start(self, ctx: Any) -> None:
        self.was = os.environ.get("DOCTOR_TEST")
        os.environ["DOCTOR_TEST"] = ctx.run_id

    def on_predict_end(self, ctx: Any) -> None:
        if self.was is None:
            os.environ.pop("DOCTOR_TEST", None)
        else:
            os.environ["DOCTOR_TEST"] = self.was


class RestoresTheEnvironment(BaseHook):
    def __init__(self) -> None:
        self._was: list[str | None] = []

    def on_predict_start(self, ctx: Any) -> None:
        self._was.append(os.environ.get("DOCTOR_TEST"))
        os.environ["DOCTOR_TEST"] = ctx.run_id

    def on_predict_end(self, ctx: Any) -> None:
        was = self._was.pop()
        if was is None:
            os.environ.pop("DOCTOR_TEST", None)
        else:
            os.environ["DOCTOR_TEST"] = was


class DrawsFromTheSharedGenerator(BaseHook):
    def on_predict_end(self, ctx: Any) -> None:
        random.random()


class DrawsFromItsOwn(BaseHook):
    def __init__(self) -> None:
        self._dice = random.Random(1)

    def on_predict_end(self, ctx: Any) -> None:
        self._dice.random()


REQUEST: contextvars.ContextVar[str] = contextvars.ContextVar("REQUEST")


class LeavesAContextVariable(BaseHook):
    def on_predict_start(self, ctx: Any) -> None:
        REQUEST.set(ctx.run_id)


SETTINGS = {"mode": "as it was"}
COUNTS: dict[str, int] = {}
LEVEL = 0
N_RUNS = 0
SEEN: list[str] = []


class LeavesASetting(BaseHook):
    """One attribute for all runs: in a batch the last start finds what the first one has set."""

    def on_predict_start(self, ctx: Any) -> None:
        self.before, SETTINGS["mode"] = SETTINGS["mode"], "mine"

    def on_predict_end(self, ctx: Any) -> None:
        SETTINGS["mode"] = self.before


class RestoresASetting(BaseHook):
    def __init__(self) -> None:
        self._before: WeakKeyDictionary[Any, str] = WeakKeyDictionary()

    def on_predict_start(self, ctx: Any) -> None:
        self._before[ctx], SETTINGS["mode"] = SETTINGS["mode"], "mine"

    def on_predict_end(self, ctx: Any) -> None:
        SETTINGS["mode"] = self._before.pop(ctx)


class LeavesAGlobal(BaseHook):
    def on_predict_start(self, ctx: Any) -> None:
        global LEVEL
        self.before, LEVEL = LEVEL, 10

    def on_predict_end(self, ctx: Any) -> None:
        global LEVEL
        LEVEL = self.before


class CountsInGlobals(BaseHook):
    """What only grows is meant to stay."""

    def on_predict_start(self, ctx: Any) -> None:
        global N_RUNS
        N_RUNS += 1
        SEEN.append(ctx.run_id)

    def on_predict_end(self, ctx: Any) -> None:
        COUNTS[ctx.run_id] = len(SEEN)


class Slow(BaseHook):
    def on_predict_end(self, ctx: Any) -> None:
        time.sleep(0.003)


class Quick(BaseHook):
    def on_predict_end(self, ctx: Any) -> None:
        pass


class RaisesWithoutResults(BaseHook):
    def on_predict_end(self, ctx: Any) -> None:
        len(ctx.results)


class LooksAtResults(BaseHook):
    def on_predict_end(self, ctx: Any) -> None:
        len(ctx.results or [])


class RaisesOnLoad(BaseHook):
    def on_load(self, ctx: Any) -> None:
        ctx.states[0].lower()


class KeepsContexts(BaseHook):
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def on_predict_end(self, ctx: Any) -> None:
        self.seen.append(ctx)


class KeepsAFewContexts(BaseHook):
    def __init__(self) -> None:
        self.seen: deque[Any] = deque(maxlen=5)

    def on_predict_end(self, ctx: Any) -> None:
        self.seen.append(ctx)


class CallsBackUnderALock(BaseHook):
    make_lock: Any = threading.Lock

    def __init__(self) -> None:
        self._lock = self.make_lock()

    def on_predict_start(self, ctx: Any) -> None:
        with self._lock:
            if ctx.parent_run_id is None and ctx.agent is not None and ctx.router is None:
                ctx.agent.predict("inside", {})


class CallsBackUnderAnRLock(CallsBackUnderALock):
    make_lock = threading.RLock


def _ask(agent: Any) -> None:
    with suppress(Exception):  # another hook may refuse it
        agent.predict("inside", {})


class CallsBackFromAThread(BaseHook):
    """The thread knows nothing of the call that it belongs to."""

    def __init__(self) -> None:
        self._busy = False

    def on_predict_start(self, ctx: Any) -> None:
        if self._busy or ctx.router is not None:
            return
        self._busy = True
        try:
            self.ask(ctx)
        finally:
            self._busy = False

    def ask(self, ctx: Any) -> None:
        thread = threading.Thread(target=_ask, args=(ctx.agent,), daemon=True)
        thread.start()
        thread.join()


class CallsBackFromAThreadOfItsChain(CallsBackFromAThread):
    def ask(self, ctx: Any) -> None:
        run = contextvars.copy_context().run
        thread = threading.Thread(target=run, args=(_ask, ctx.agent), daemon=True)
        thread.start()
        thread.join()


class HangsOnLoad(BaseHook):
    def on_load(self, ctx: Any) -> None:
        threading.Event().wait()


class BlocksTheLoop(BaseHook):
    async def on_predict_end(self, ctx: Any) -> None:
        time.sleep(0.02)


class Awaits(BaseHook):
    async def on_predict_end(self, ctx: Any) -> None:
        await asyncio.sleep(0.02)


class Misspelt(BaseHook):
    def on_predict_begin(self, ctx: Any) -> None:
        pass

    def on_predict_end(self, ctx: Any) -> None:
        pass


class TakesTooMuch:
    def on_predict_start(self, ctx: Any, more: Any) -> None:
        pass


class ForgetsTheContext:
    def on_error(self) -> None:
        pass


class Yields:
    def on_predict_end(self, ctx: Any) -> Any:
        yield ctx


class TakesMoreWhereGiven:
    def on_predict_start(self, ctx: Any, more: Any = None) -> None:
        pass

    def on_click(self) -> None:
        pass


class LosesUsage(BaseHook):
    def on_predict_end(self, ctx: Any) -> None:
        ctx.results = [{"model": r["model"], "answers": r["answers"]} for r in ctx.results or []]


class SkipsWithoutModel(BaseHook):
    def on_predict_start(self, ctx: Any) -> None:
        ctx.skip([{"answers": {}, "usage": {}} for _ in ctx.states])


class AddsToResults(BaseHook):
    def on_predict_end(self, ctx: Any) -> None:
        ctx.results = [{**r, "flag": True} for r in ctx.results or []]


class LowersInPlace(BaseHook):
    """Writes into the caller's own list."""

    def on_predict_start(self, ctx):
        for i, state in enumerate(ctx.states):
            if isinstance(state, str):
                ctx.states[i] = state.lower()


class Lowers(BaseHook):
    """Assigns a list of its own."""

    def on_predict_start(self, ctx):
        ctx.states = [s.lower() if isinstance(s, str) else s for s in ctx.states]


class KeepsErrors(BaseHook):
    """An exception holds its traceback, and that the context."""

    def __init__(self):
        self.errors = []

    def on_error(self, ctx):
        self.errors.append(ctx.error)


class KeepsWordsOfErrors(BaseHook):
    """Text holds nothing."""

    def __init__(self):
        self.errors = []

    def on_error(self, ctx):
        self.errors.append(str(ctx.error))


class Peak(BaseHook):
    """Its highest number rises with threads, as it should."""

    def __init__(self):
        self.now = self.peak = 0
        self._lock = threading.Lock()

    def on_predict_start(self, ctx):
        with self._lock:
            self.now += 1
            self.peak = max(self.peak, self.now)
            ctx.counted = True

    def on_predict_end(self, ctx):
        if getattr(ctx, "counted", False):
            with self._lock:
                self.now -= 1
