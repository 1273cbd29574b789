"""What recording costs, and how fast a large trace becomes DataFrames and files.

    python benchmarks/tracing.py            # all four tables
    python benchmarks/tracing.py overhead   # only recording, around agents that answer at once

``overhead`` and ``predict`` let all variants take turns in one process and give the median over
rounds and, as spread, the 25th and 75th percentile. ``frames`` and ``files`` run each in a fresh
process, whose peak memory they show (the whole process: Python, pandas, and the records
themselves).
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lifecycle import QUESTIONS, STATE, AnswersAtOnce, NoOp, interleaved, table

from jevlaya_lab import Agent, TraceRecorder
from jevlaya_lab.system_one.models.instant import InstantNetwork

EVENTS = 1_000_000


def overhead(rounds: int) -> None:
    """The difference that a recorder makes, per event that reaches hooks (start and end)."""
    taken, names = {}, []
    for n in (0, 1, 10):
        names.append(f"Agent.predict, {n} no-op hooks")
        taken[names[-1]] = ready(n)
        for capture in ("none", "hash", "text"):
            what = "and recorder" if capture == "none" else f"and recorder, capture={capture!r}"
            taken[f"  {what} ({n})"] = ready(n, TraceRecorder(1000, capture=capture))
    seconds = interleaved(taken, rounds, 500)
    table("Recording around work that is done at once", seconds, "µs", names[0])
    print(f"\n{'cost of recording':44} {'per run':>10} {'per event':>12}")
    keys = list(seconds)
    for i, n in enumerate((0, 1, 10)):
        plain, *others = keys[4 * i : 4 * i + 4]
        for key in others:
            spent = (statistics.median(seconds[key]) - statistics.median(seconds[plain])) * 1e6
            print(f"{f'{n} hooks{key}':44} {spent:>7.1f} µs {spent / 2:>9.1f} µs")


def ready(n_hooks: int, *recorder: TraceRecorder) -> Callable[[], Any]:
    agent = AnswersAtOnce(
        "ready", network=InstantNetwork(), hooks=[*(NoOp() for _ in range(n_hooks)), *recorder]
    )
    return lambda: agent.predict("x", QUESTIONS)


def predict(rounds: int) -> None:
    plain, recorded = Agent(), Agent(hooks=TraceRecorder(1000))
    variants = {
        "Agent.predict": lambda: plain.predict(STATE, QUESTIONS),
        "Agent.predict, recorded": lambda: recorded.predict(STATE, QUESTIONS),
    }
    taken = interleaved(variants, rounds, 4)
    table("One state, three questions, embedded checkpoint", taken, "ms", "Agent.predict")


def frames(rounds: int) -> None:
    title = f"{EVENTS:,} events become DataFrames"
    print(f"\n{title}\n\n{'':44} {'median':>10} {'25 %':>9} {'75 %':>9} {'peak memory':>14}")
    for n_hooks in (4, 0):
        n_runs = EVENTS // (2 * (n_hooks + 1))
        found = [alone("frames", n_hooks) for _ in range(max(3, rounds // 8))]
        seconds = [each["seconds"] for each in found]
        low, median, high = statistics.quantiles(seconds, n=4)
        peak = max(each["peak_mb"] for each in found)
        name = f"{n_runs:,} runs with {n_hooks} hooks each"
        print(f"{name:44} {median:>8.2f} s {low:>9.2f} {high:>9.2f} {peak:>11.0f} MB")


def files(_: int) -> None:
    found = alone("files", 4)
    print(
        f"\n{EVENTS:,} events as files, once each\n\n{'':20} {'write':>9} {'read':>9} {'size':>9}"
    )
    for name, (write, read, size) in found["formats"].items():
        shown = f"{read:>7.1f} s" if read is not None else f"{'':>9}"
        print(f"{name:20} {write:>7.1f} s {shown} {size / 1e6:>6.0f} MB")


def alone(what: str, n_hooks: int) -> dict[str, Any]:
    """What a fresh process measures."""
    command = [sys.executable, __file__, "--alone", what, str(n_hooks)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def measure_alone(what: str, n_hooks: int) -> dict[str, Any]:
    n_runs = EVENTS // (2 * (n_hooks + 1))
    recorder = TraceRecorder(n_runs)
    call = ready(n_hooks, recorder)
    for _ in range(n_runs):
        call()
    import pandas  # noqa: F401  its import is not what is measured

    began = time.perf_counter()
    trace = recorder.trace
    seconds = time.perf_counter() - began
    assert len(trace.events) == EVENTS
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if what == "frames":
        return {"seconds": seconds, "peak_mb": peak}
    return {"formats": measure_files(trace)}


def measure_files(trace: Any) -> dict[str, tuple[float, float | None, int]]:
    from jevlaya_lab import read_trace_csv, read_trace_parquet

    found = {}
    for name, write, read in (
        ("trace.csv", trace.to_csv, read_trace_csv),
        ("trace.parquet", trace.to_parquet, read_trace_parquet),
        ("trace.json (Chrome)", trace.to_chrome, None),
    ):
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            path = write(Path(folder, name.partition(" ")[0]))
            wrote = time.perf_counter() - began
            size = sum(file.stat().st_size for file in Path(folder).iterdir())
            began = time.perf_counter()
            if read is not None:
                read(path)
            took = time.perf_counter() - began if read is not None else None
            found[name] = (wrote, took, size)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("tables", nargs="*", default=["overhead", "predict", "frames", "files"])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--alone", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        what, n_hooks = options.alone
        print(json.dumps(measure_alone(what, int(n_hooks))))
        return
    tables = {"overhead": overhead, "predict": predict, "frames": frames, "files": files}
    for name in options.tables:
        tables[name](options.rounds)


if __name__ == "__main__":
    main()
