"""What the Router lets go of is really gone: the agent is dead and its memory given back."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tiny import make_checkpoint
from transformers import BertConfig

MIB = 2**20
LARGE = BertConfig(
    vocab_size=30522,
    hidden_size=768,
    num_hidden_layers=4,
    num_attention_heads=12,
    intermediate_size=3072,
)

BEFORE = """
import gc, json, os, sys, warnings, weakref
from jevlaya_lab.system_one.router import Router

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

tiny, one, two = sys.argv[1:]
QUESTIONS = {"q": {"type": "noul", "instructions": "Is it so?"}}
router = Router(
    {"english": tiny, "multilingual": one, "typed-decisions": two}, device="cpu", max_loaded=1
)
router.predict("warm up", QUESTIONS, model="english")
router.unload()
"""

RELEASE = """
def loaded(name):
    router.predict("a", QUESTIONS, model=name)
    return weakref.ref(router.load(name))

found = []
for let_go in (
    lambda: router.unload("multilingual"),
    lambda: router.unload(),
    lambda: router.load("english"),
    lambda: router.register("multilingual", two),
    lambda: router.__exit__(None, None, None),
):
    base = resident()
    agent = loaded("multilingual")
    full = resident()
    let_go()
    dead = agent() is None
    router.unload()  # the tiny one, if it was loaded to evict the other
    found.append({"dead": dead, "grown": full - base, "kept": resident() - base})
    router.register("multilingual", one)
print(json.dumps(found))
"""

BATCH = """
refs, found, base = {}, [], resident()

class Watch:
    def on_load(self, ctx):
        refs[ctx.model] = weakref.ref(ctx.agent)
        self.note("load", ctx)

    def on_evict(self, ctx):
        self.note("evict", ctx)

    def on_predict_start(self, ctx):
        self.note("start", ctx)

    def on_predict_end(self, ctx):
        self.note("end", ctx)

    def note(self, event, ctx):
        alive = [name for name, agent in refs.items() if agent() is not None]
        found.append({"event": event, "model": ctx.model, "alive": alive,
                      "grown": resident() - base})

router.add_hook(Watch())
requests = [{"state": f"state {i}", "questions": QUESTIONS, "model": name}
            for i, name in enumerate(["multilingual", "typed-decisions"] * 2)]
results = router.predict_batch(requests)
assert [each["routing"]["model"] for each in results] == [each["model"] for each in requests]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A tiny checkpoint and two of about 200 MB."""
    root = tmp_path_factory.mktemp("checkpoints")
    one = make_checkpoint(root / "one", shape=LARGE)
    return [make_checkpoint(root / "tiny"), one, Path(shutil.copytree(one, root / "two"))]


def in_a_process(script: str, folders: list[Path]) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BEFORE + script, *map(str, folders)],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


needs_proc = pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="memory is read from /proc"
)


@needs_proc
@pytest.mark.slow
def test_nine_tenths_of_what_a_checkpoint_took_are_given_back(folders: list[Path]) -> None:
    """L-30, L-33: by unload, by an eviction, by another source, and at the end of a with block."""
    found = in_a_process(RELEASE, folders)

    assert len(found) == 5
    for each in found:
        assert each["dead"]
        assert each["grown"] > 150 * MIB
        assert each["kept"] <= 0.1 * each["grown"]


@needs_proc
@pytest.mark.slow
def test_a_batch_frees_a_checkpoint_before_the_next_one_answers(folders: list[Path]) -> None:
    """L-21, L-31: with room for one, no more than one is there from on_evict on."""
    found = in_a_process(BATCH, folders)

    seen = [(each["event"], each["model"]) for each in found]
    of_one = ("load", "start", "start", "end", "end")
    assert seen == [
        *[(event, "multilingual") for event in of_one],
        ("evict", "multilingual"),
        *[(event, "typed-decisions") for event in of_one],
    ]
    alive = [each["alive"] for each in found]
    assert alive[:5] == [["multilingual"]] * 5
    assert alive[5] == [], "the first one is gone when on_evict says so"
    assert alive[6:] == [["typed-decisions"]] * 5
    first, between, second = (found[i]["grown"] for i in (4, 5, 10))
    assert first > 150 * MIB
    assert max(between, second) <= 1.1 * first
