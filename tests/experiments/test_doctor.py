"""The doctor of hooks: finds each fault in a hook that has it, and none in its twin."""

from __future__ import annotations

import os
import random
import sys
import threading
from pathlib import Path

import pytest

from experiments import faulty_hooks as faulty
from fakes import make_agent, promptly
from jevlaya_lab import contrib_hooks
from jevlaya_lab.experiments.doctor import CHECKS, Examination, examine
from jevlaya_lab.system_one.errors import InvalidInput, InvalidOption

PAIRS = [
    ("threads", faulty.LosesCounts, faulty.CountsUnderALock),
    ("threads", faulty.LosesCountsInADict, faulty.CountsUnderALock),
    ("threads", faulty.LosesItems, faulty.Appends),
    ("threads", faulty.RaisesInThreads, faulty.Appends),
    ("mixes runs", faulty.MixesRuns, faulty.KeepsRunsApart),
    ("changes inputs", faulty.ChangesQuestions, faulty.AssignsQuestions),
    ("changes inputs", faulty.ChangesObjects, faulty.CopiesObjects),
    ("batch cache", faulty.CacheByLastKey, faulty.CacheByRun),
    ("leaves entries", faulty.LeavesEntriesOfFailures, faulty.ClosesAll),
    ("leaves entries", faulty.LeavesEveryEntry, faulty.KeepsRunsApart),
    ("leaves entries", faulty.LeavesItsCount, faulty.ClosesAll),
    ("sets and leaves", faulty.LeavesTheEnvironment, faulty.RestoresTheEnvironment),
    ("sets and leaves", faulty.DrawsFromTheSharedGenerator, faulty.DrawsFromItsOwn),
    ("sets and leaves", faulty.LeavesAContextVariable, faulty.Quick),
    ("slow", faulty.Slow, faulty.Quick),
    ("raises", faulty.RaisesWithoutResults, faulty.LooksAtResults),
    ("raises", faulty.RaisesOnLoad, faulty.Quick),
    ("keeps contexts", faulty.KeepsContexts, faulty.KeepsAFewContexts),
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
KNOWN_ELSEWHERE = {
    # The twin of one fault may have another one by its nature.
    faulty.RestoresTheEnvironment: set(),
    faulty.Awaits: {"slow"},
}


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

    assert found <= KNOWN_ELSEWHERE.get(twin, set())


def test_every_check_is_covered():
    assert {check for check, _, _ in PAIRS} == set(CHECKS)
