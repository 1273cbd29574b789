"""Load time and peak memory of a checkpoint in laya's format, beside laya, in turns.

    python benchmarks/loading.py [FOLDER]

Without a folder a MiniLM-size checkpoint with a random head is made. Every load has a process of
its own, which imports torch and transformers first; only what comes after is measured.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

_CHILD = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
import torch, transformers
from transformers import AutoConfig, AutoModel, AutoTokenizer
if sys.argv[1] == "laya":
    from laya.agent import Agent
else:
    from jevlaya_lab import Agent

def peak(reset=False):
    # Of this process alone: what getrusage gives is inherited from the parent.
    if reset:
        open("/proc/self/clear_refs", "w").write("5")
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024

before = peak(reset=True)
began = time.perf_counter()
agent = Agent(sys.argv[2], device="cpu")
took = time.perf_counter() - began
loaded = peak()
agent.system_one("a short state", {"q": {"type": "noul", "instructions": "Is it so?"}})
print(json.dumps({"s": took, "load_mb": loaded - before, "answer_mb": peak() - before}))
"""


def measure(package: str, folder: Path) -> dict[str, float]:
    """One load in a fresh process."""
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, package, str(folder)],
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    rounds = 7
    with tempfile.TemporaryDirectory() as scratch:
        if len(sys.argv) > 1:
            folder = Path(sys.argv[1])
        else:
            sys.path.insert(0, str(ROOT / "tests"))
            from tiny import make_checkpoint

            folder = make_checkpoint(Path(scratch) / "minilm", "minilm")
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 2**20
        found: dict[str, list[dict[str, float]]] = {"laya": [], "jevlaya_lab": []}
        for i in range(rounds):
            for package in ("laya", "jevlaya_lab") if i % 2 else ("jevlaya_lab", "laya"):
                found[package].append(measure(package, folder))
    print(f"{folder.name}, {size:.0f} MB, {rounds} loads each: median (least to most)\n")
    print(f"{'':14} {'load, s':>24} {'peak growth, MB':>26} {'with one answer, MB':>26}")
    for package, runs in found.items():
        cells = []
        for key in ("s", "load_mb", "answer_mb"):
            values = sorted(run[key] for run in runs)
            digits = 2 if key == "s" else 0
            cells.append(
                f"{statistics.median(values):.{digits}f} "
                f"({values[0]:.{digits}f} to {values[-1]:.{digits}f})"
            )
        print(f"{package:14} {cells[0]:>24} {cells[1]:>26} {cells[2]:>26}")


if __name__ == "__main__":
    main()
