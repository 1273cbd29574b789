"""The doctor of hooks finds each fault in a hook that has it, and none in its twin."""

from __future__ import annotations

import dataclasses
import os
import queue
import random
import re
import runpy
import threading
import time
import types
from contextvars import ContextVar
from pathlib import Path

import pytest
from experiments import faulty_hooks as faulty
from fakes import QUESTIONS, make_agent, promptly

from jevlaya_lab import BaseHook, InlineHashingEmbedding, Lab, contrib_hooks, default_hooks
from jevlaya_lab.experiments.doctor import CHECKS, Examination, examine, situations
from jevlaya_lab.experiments.doctor.visits import guarded
from jevlaya_lab.frames import read_csv
from jevlaya_lab.system_one import language
from jevlaya_lab.system_one.errors import InvalidInput, InvalidOption

PAIRS = [
    ("threads", faulty.LosesCounts, faulty.CountsUnderALock),
    ("threads", faulty.LosesCountsInADict, faulty.CountsUnderALock),
    ("threads", faulty.LosesItems, faulty.Appends),
    ("threads", faulty.RaisesInThreads, faulty.Appends),
    ("mixes runs", faulty.MixesRuns, faulty.KeepsRunsApart),
    ("changes inputs", faulty.ChangesQuestions, faulty.AssignsQuestions),
    ("changes inputs", faulty.ChangesObjects, faulty.CopiesObjects),
    ("changes inputs", faulty.LowersInPlace, faulty.Lowers),
    ("batch cache", faulty.CacheByLastKey, faulty.CacheByRun),
    ("leaves entries", faulty.LeavesEntriesOfFailures, faulty.ClosesAll),
    ("leaves entries", faulty.LeavesEveryEntry, faulty.KeepsRunsApart),
    ("leaves entries", faulty.LeavesItsCount, faulty.ClosesAll),
    ("sets and leaves", faulty.LeavesTheEnvironment, faulty.RestoresTheEnvironment),
    ("sets and leaves", faulty.DrawsFromTheSharedGenerator, faulty.DrawsFromItsOwn),
    ("sets and leaves", faulty.LeavesAContextVariable, faulty.Quick),
    ("sets and leaves", faulty.LeavesASetting, faulty.RestoresASetting),
    ("sets and leaves", faulty.LeavesAGlobal, faulty.CountsInGlobals),
    ("slow", faulty.Slow, faulty.Quick),
    ("raises", faulty.RaisesWithoutResults, faulty.LooksAtResults),
    ("raises", faulty.RaisesOnLoad, faulty.Quick),
    ("keeps contexts", faulty.KeepsContexts, faulty.KeepsAFewContexts),
    ("keeps contexts", faulty.KeepsErrors, faulty.KeepsWordsOfErrors),
    ("threads", faulty.LosesCounts, faulty.Peak),
    ("calls back", faulty.CallsBackUnderALock, faulty.CallsBackUnderAnRLock),
    ("calls back", faulty.CallsBackFromAThread, faulty.CallsBackFromAThreadOfItsChain),
    ("calls back", faulty.HangsOnLoad, faulty.Quick),
    ("blocks the loop", faulty.BlocksTheLoop, faulty.Awaits),
    ("form", faulty.Misspelt, faulty.TakesMoreWhereGiven),
    ("form", faulty.TakesTooMuch, faulty.TakesMoreWhereGiven),
    ("form", faulty.ForgetsTheContext, faulty.TakesMoreWhereGiven),
    ("form", faulty.Yields, faulty.TakesMoreWhereGiven),
    ("results", faulty.LosesUsage, faulty.AddsToResults),
    ("results", faulty.SkipsWithoutModel, faulty.AddsToResults),
]
ALSO = {faulty.Awaits: {"slow"}}
"""What a twin has by its nature."""


def examined(hook, **options) -> Examination:
    options = {"progress": False, "timeout_s": 1.0, **options}
    return promptly(lambda: examine(hook, **options))


def evidence(result: Examination, check: str) -> str:
    return result.frame.set_index("check").loc[check, "evidence"]


@pytest.mark.parametrize(
    ("check", "kind"), [(c, k) for c, k, _ in PAIRS], ids=[f"{k.__name__}" for _, k, _ in PAIRS]
)
def test_a_fault_is_found(check, kind):
    assert check in examined(kind).found


@pytest.mark.parametrize(
    "twin", list(dict.fromkeys(t for _, _, t in PAIRS)), ids=lambda kind: kind.__name__
)
def test_a_twin_without_the_fault_is_well(twin):
    found = set(examined(twin, timeout_s=5.0).found)

    assert found == ALSO.get(twin, set())


def test_every_check_is_covered():
    assert {check for check, _, _ in PAIRS} == set(CHECKS)


def test_lost_counts_are_found_each_time_and_locked_ones_never():
    from jevlaya_lab.experiments.doctor.checks_threads import threads
    from jevlaya_lab.experiments.doctor.patients import Patients
    from jevlaya_lab.experiments.doctor.situations import Caller

    def verdicts(kind):
        return {threads(Patients(kind), Caller(seed), 20).verdict for seed in range(20)}

    assert verdicts(faulty.LosesCounts) == {"found"}
    assert verdicts(faulty.LosesCountsInADict) == {"found"}
    assert verdicts(faulty.CountsUnderALock) == {"ok"}
    assert verdicts(faulty.CacheByRun) == {"ok"}


def ready_made(folder: Path) -> dict:
    examples = Path(__file__).parents[2] / "examples" / "hooks"
    cache, redact = (runpy.run_path(str(examples / name)) for name in ("cache.py", "redact.py"))
    return {
        "ExactCache": contrib_hooks.ExactCache,
        "Redaction": contrib_hooks.Redaction,
        "AuditLog": lambda: contrib_hooks.AuditLog(folder / "audit.jsonl"),
        "LatencyMetrics": contrib_hooks.LatencyMetrics,
        "TokenBudgetGuard": lambda: contrib_hooks.TokenBudgetGuard(500),
        "OptionOrderProbe": contrib_hooks.OptionOrderProbe,
        "SemanticCache": lambda: contrib_hooks.SemanticCache(InlineHashingEmbedding()),
        "Cache": cache["Cache"],
        "Redact": redact["Redact"],
        "Flag": redact["Flag"],
    }


def test_all_ready_made_hooks_are_in_good_health(tmp_path):
    hooks = ready_made(tmp_path)
    kinds = {n for n in contrib_hooks.__all__ if hasattr(getattr(contrib_hooks, n), "on_error")}
    assert kinds <= set(hooks)

    for name, hook in hooks.items():
        result = examined(hook, timeout_s=10.0, slow_ms=50.0)
        assert (name, result.found, result.held) == (name, (), True)


def test_an_instance_is_copied_with_its_locks():
    cache = contrib_hooks.ExactCache()

    result = examined(cache, timeout_s=10.0, slow_ms=50.0)

    assert result.parameters["made"] == "copies"
    assert result.found == ()
    assert cache.stats.misses == 0


def test_an_instance_that_cannot_be_copied_is_used_itself(tmp_path):
    log = contrib_hooks.AuditLog(tmp_path / "audit.jsonl")

    result = examined(log, timeout_s=10.0, slow_ms=50.0)

    assert result.parameters["made"] == "itself"
    assert "AuditLog (itself)" in result.summary()
    assert result.found == ()
    assert log.n_written > 0


def test_the_result_is_one_of_an_experiment(tmp_path):
    result = examined(faulty.LosesCounts)

    assert isinstance(result, Examination)
    assert result.hypothesis == "The hook keeps the rules."
    assert result.held is False
    assert result.found == ("threads",)
    assert list(result.frame) == ["check", "rule", "verdict", "evidence", "remedy"]
    assert list(result.frame["check"]) == list(CHECKS)
    assert len(result.claims) == len(CHECKS)
    row = result.frame.set_index("check").loc["threads"]
    assert row["verdict"] == "found"
    assert "n: +" in row["evidence"]
    assert "+24 in one" in row["evidence"]
    assert "Lock" in row["remedy"]
    first, hook, claim, *_ = result.summary().splitlines()
    assert first == "examine: The hook keeps the rules. It did not hold."
    assert hook == "  hook: LosesCounts (made anew)"
    assert claim.startswith("    DID NOT HOLD  L-38: ")
    assert read_csv(result.to_csv(tmp_path / "found.csv")).equals(result.frame)
    assert "Examination of LosesCounts" in result.figure().alt


@pytest.mark.parametrize(
    ("kind", "check", "text"),
    [
        (faulty.MixesRuns, "mixes runs", "began is set at the start of each run"),
        (faulty.ChangesQuestions, "changes inputs", "The questions (in a single call;"),
        (faulty.CacheByRun, "batch cache", "hits in a loop 2, in a batch 0"),
        (faulty.CacheByLastKey, "batch cache", "of 5 requests got other answers"),
        (faulty.LeavesItsCount, "leaves entries", "running is 3, it was 0 (after 3 times a fail"),
        (faulty.LeavesEveryEntry, "leaves entries", "open holds entries of 39 runs that are over"),
        (
            faulty.LeavesTheEnvironment,
            "sets and leaves",
            "Not put back: os.environ (in a batch; a failing batch",
        ),
        (
            faulty.LeavesASetting,
            "sets and leaves",
            "SETTINGS['mode'] (in a batch; a failing batch).",
        ),
        (faulty.RaisesOnLoad, "raises", "on_load IndexError: list index out of range (in a rout"),
        (faulty.RaisesOnLoad, "raises", "loads and evictions"),
        (faulty.KeepsContexts, "keeps contexts", "Alive of 90 contexts: 90; of 360: 360."),
        (faulty.Misspelt, "form", "on_predict_begin is no event and never runs; did you mean on_p"),
        (faulty.TakesTooMuch, "form", "on_predict_start(ctx, more) cannot be called with the c"),
        (faulty.Yields, "form", "on_predict_end is a generator function"),
        (faulty.LosesUsage, "results", "A result has no 'usage' (in a single call;"),
        (faulty.Appends, "slow", "Medians: on_predict_start"),
        (faulty.Quick, "blocks the loop", "no async method ran"),
        (faulty.Quick, "threads", "24 calls in 6 threads; nothing of its own is counted."),
        (faulty.CountsUnderALock, "threads", "; all of its 4 totals are as in one thread."),
        (faulty.Quick, "mixes runs", "No start sets a value of its run."),
    ],
)
def test_the_evidence_says_what_was_seen(kind, check, text):
    assert text in evidence(examined(kind), check)


def test_what_does_not_apply_holds_and_says_so():
    result = examined(faulty.Quick)

    verdicts = result.frame.set_index("check")["verdict"]
    assert verdicts["blocks the loop"] == "does not apply"
    claim = result.claims[list(CHECKS).index("blocks the loop")]
    assert (claim.held, claim.evidence) == (True, "Does not apply: no async method ran.")


def test_shared_things_are_found_in_cells_objects_and_modules_and_put_back():
    class Options:
        def __init__(self):
            self.depth = 0

    options, here, level = Options(), types.ModuleType("here"), 1
    names: list[str] = ["a"]
    here.MODE = "as it was"

    class Sets(BaseHook):
        def on_predict_start(self, ctx):
            nonlocal level
            self.before = options.depth, here.MODE, level, list(names)
            options.depth, here.MODE, level = 7, "mine", 2
            names.append("b")

        def on_predict_end(self, ctx):
            nonlocal level
            options.depth, here.MODE, level, names[:] = self.before

    told = evidence(examined(Sets), "sets and leaves")

    for path in ("here.MODE", "level", "names", "options.depth"):
        assert f"{path} (in a batch; a failing batch)" in told
    assert (options.depth, here.MODE, level, names) == (0, "as it was", 1, ["a"])


def test_a_slow_machine_is_no_hook_that_hangs(monkeypatch):
    class Nothing:
        def on_predict_start(self, ctx):
            pass

    def slowly(make):
        def made(*args, **options):
            time.sleep(0.15)
            return make(*args, **options)

        return made

    monkeypatch.setattr(situations, "agent", slowly(situations.agent))
    monkeypatch.setattr(situations, "router", slowly(situations.router))

    result = examined(Nothing, timeout_s=0.05)

    claim = result.claims[list(CHECKS).index("calls back")]
    assert claim.held is not False
    assert "raises" not in result.found


def test_only_what_a_hook_is_at_all_the_while_counts_as_hanging():
    def late():
        time.sleep(0.5)

    assert guarded(late, 0.02, lambda: None).is_late
    assert not guarded(late, 0.02, lambda: None).is_hung
    assert not guarded(late, 0.02, time.monotonic).is_hung
    assert guarded(late, 0.02, lambda: 1.0).is_hung


def test_what_hangs_is_told_by_situation_and_the_rest_is_still_examined():
    result = examined(faulty.CallsBackFromAThread)

    assert "hooks_concurrent=False" in evidence(result, "calls back")
    assert result.found == ("calls back",)


def test_a_hook_that_hangs_everywhere_is_given_up():
    class Hangs:
        def on_predict_start(self, ctx):
            threading.Event().wait()

    result = examined(Hangs, timeout_s=0.2)

    verdicts = result.frame.set_index("check")["verdict"]
    assert verdicts["calls back"] == "found"
    assert verdicts["threads"] == "cannot be told"
    assert result.held is False


def test_a_refusal_by_an_error_of_the_package_may_be_meant():
    class Refuses:
        def on_predict_start(self, ctx):
            if isinstance(ctx.states[0:1] and ctx.states[0], dict):
                raise InvalidInput("no objects here")

    row = examined(Refuses).frame.set_index("check").loc["raises"]

    assert row["verdict"] == "cannot be told"
    assert "no objects here (in a JSON object)" in row["evidence"]


def test_what_chance_does_is_no_finding():
    class Samples(BaseHook):
        def __init__(self):
            self.kept = []
            self._dice = random.Random()

        def on_predict_end(self, ctx):
            if self._dice.random() < 0.5:
                self.kept.append(ctx.run_id)

    class WorksAQueueOff(BaseHook):
        def __init__(self):
            self.done = []
            self._queue = queue.Queue()
            threading.Thread(target=self._work, daemon=True).start()

        def _work(self):
            while True:
                self.done.append(self._queue.get())

        def on_predict_end(self, ctx):
            self._queue.put(ctx.run_id)

    for _ in range(3):
        assert examined(Samples).found == ()
        assert examined(WorksAQueueOff).found == ()


def test_answers_that_get_mixed_in_threads_are_told():
    class OneSeat(BaseHook):
        """What it answers is what the last start has put down."""

        def on_predict_start(self, ctx):
            self.seat = ctx.states[:1]
            usage = {"input_tokens": 0, "output_tokens": 0}
            ctx.skip([{"model": "m", "answers": {"is": self.seat}, "usage": usage}])

    assert "states get other answers than in one thread" in evidence(examined(OneSeat), "threads")


def test_a_connection_of_one_thread_is_told():
    class Connected(BaseHook):
        def __init__(self):
            self.of = threading.get_ident()

        def on_predict_end(self, ctx):
            if threading.get_ident() != self.of:
                raise RuntimeError(f"made in thread {self.of}, this is {threading.get_ident()}")

    result = examined(Connected)

    assert result.found == ("threads",)
    assert "24 of 24 calls raise in threads" in evidence(result, "threads")
    assert "made in thread ..., this is ..." in evidence(result, "threads")


def test_frozen_hooks_and_failing_properties():
    @dataclasses.dataclass(frozen=True)
    class Frozen:
        seen: list = dataclasses.field(default_factory=list)

        def on_predict_end(self, ctx):
            self.seen.append(ctx.run_id)

    class Fails:
        @property
        def on_predict_end(self):
            raise ValueError("not now")

    assert examined(Frozen).held is True
    assert {"form", "raises"} <= set(examined(Fails).found)
    assert "an event cannot be read: ValueError: not now" in evidence(examined(Fails), "form")


def test_a_hook_may_be_examined_with_its_own_questions():
    class Reads(BaseHook):
        def on_predict_end(self, ctx):
            for result in ctx.results or []:
                if result["answers"]:
                    result["answers"]["q"]["noul"]

    assert "raises" in examined(Reads).found
    assert examined(Reads, questions=QUESTIONS).found == ()
    with pytest.raises(InvalidInput):
        examine(Reads, questions={"q": {"type": "nope"}})


def test_nothing_stays_behind():
    environ, dice, hooks = dict(os.environ), random.getstate(), default_hooks()

    examined(faulty.LeavesTheEnvironment)
    examined(faulty.DrawsFromTheSharedGenerator)

    assert dict(os.environ) == environ
    assert random.getstate() == dice
    assert default_hooks() == hooks


def test_hooks_without_a_dict_and_with_foreign_attributes():
    class Slots:
        __slots__ = ("n",)

        def __init__(self):
            self.n = 0

        def on_predict_end(self, ctx):
            self.n += 1

    class Frozen(BaseHook):
        def __init__(self):
            self.agent = make_agent()
            self.words = {"a": [1, 2], "b": {"c": 3}}

        def on_predict_start(self, ctx):
            self.agent.predict("inside", QUESTIONS)

    assert examined(Slots).found == ("threads",)
    assert examined(Frozen, slow_ms=50.0).found == ()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (42, "it is a int with none of the methods on_predict_start"),
        (object, "what it makes is a object with none"),
        (lambda ctx: None, "cannot be called without arguments"),
        (contrib_hooks.AuditLog, "such as lambda: AuditLog(...)"),
        (
            type("H", (), {"on_predict_begin": print})(),
            "did you mean on_predict_start by on_predic",
        ),
    ],
)
def test_what_is_no_hook_is_refused(given, text):
    with pytest.raises(InvalidInput, match=re.escape(text)):
        examine(given)


@pytest.mark.parametrize("option", [{"timeout_s": 0}, {"slow_ms": "1"}, {"timeout_s": True}])
def test_limits_are_positive_numbers(option):
    with pytest.raises(InvalidOption, match="must be a positive number"):
        examine(faulty.Quick, **option)


def test_a_lab_examines_without_asking_anything():
    lab = Lab(make_agent())

    result = lab.examine(faulty.Quick(), progress=False, slow_ms=50.0)

    assert result.held is True
    assert len(lab.trace.runs) == 0


class MixesRunsInASlot:
    __slots__ = ("opened", "run")

    def __init__(self):
        self.opened = {}

    def on_predict_start(self, ctx):
        self.run = ctx.run_id
        self.opened[ctx.run_id] = True

    def on_predict_end(self, ctx):
        self.opened.pop(self.run, None)


class AnswersForEveryName:
    __slots__ = ("count",)

    def __getattr__(self, name):
        return lambda *_: None

    def on_predict_start(self, ctx):
        self.count = 1


class HidesItsDict:
    @property
    def __dict__(self):
        raise LookupError("not shown")

    def on_predict_start(self, ctx):
        pass


def test_slots_are_watched_as_other_attributes_are():
    result = examined(MixesRunsInASlot)

    assert "run is set at the start of each run" in evidence(result, "mixes runs")
    assert {"mixes runs", "leaves entries"} <= set(result.found)


@pytest.mark.parametrize("hook", [AnswersForEveryName, AnswersForEveryName(), HidesItsDict()])
def test_a_hook_whose_attributes_cannot_be_listed_is_examined(hook):
    result = examined(hook)

    assert result.found == ()
    assert result.held is True, result.summary()


def test_what_would_end_a_thread_is_told():
    class ExitsInThreads(BaseHook):
        def on_predict_end(self, ctx):
            if re.fullmatch(r"jevlaya-doctor-\d+", threading.current_thread().name):
                raise SystemExit(3)

    result = examined(ExitsInThreads)

    assert "24 of 24 calls raise in threads, such as SystemExit: 3" in evidence(result, "threads")


def test_what_a_thread_keeps_for_itself_is_not_lost():
    class CountsByThread(BaseHook):
        def __init__(self):
            self.own = threading.local()

        def on_predict_start(self, ctx):
            self.own.n = getattr(self.own, "n", 0) + 1

    assert examined(CountsByThread).found == ()


def test_a_context_variable_that_has_its_value_again_is_no_finding():
    stack = ContextVar("stack", default=())

    class Stacks(BaseHook):
        def on_predict_start(self, ctx):
            stack.set((*stack.get(), ctx.run_id))

        def on_predict_end(self, ctx):
            stack.set(stack.get()[:-1])

    assert examined(Stacks).found == ()
    stack.set(("mine", "other"))
    assert examined(Stacks).found == ()


def test_what_the_first_call_of_all_loads_is_no_hang(monkeypatch):
    load = language._load

    def slowly(script):
        time.sleep(1.5)
        return load(script)

    monkeypatch.setattr(language, "_models", {})
    monkeypatch.setattr(language, "_load", slowly)

    assert "calls back" not in examined(faulty.Quick).found
