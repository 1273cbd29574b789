"""How long it takes to lay out and to draw a trace of many runs.

    python benchmarks/pictures.py            # 100, 1,000 and 10,000 runs
    python benchmarks/pictures.py --rounds 9

Medians over rounds. The trace is made up: runs of four threads and three checkpoints at random
times, with a load or an eviction now and then. ``layout`` is the pure function, ``PNG`` and ``SVG``
the writers, a PNG with twice the pixels of the layout.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

from jevlaya_lab.frames import Trace
from jevlaya_lab.tracing.records import EventRecord, Record, RunRecord
from jevlaya_lab.views.distributions import distributions_layout
from jevlaya_lab.views.layout import Layout
from jevlaya_lab.views.picture import Picture
from jevlaya_lab.views.residency import residency_layout
from jevlaya_lab.views.timeline import timeline_layout

MODELS = ("english", "multilingual", "typed-decisions")


def made_up(n: int, seed: int = 1) -> Trace:
    """A trace of ``n`` runs with two events each."""
    chance = random.Random(seed)
    records = []
    began = 0.0
    for i in range(n):
        began += chance.expovariate(1 / 0.006)
        kind = chance.choices(("router", "agent", "load", "evict"), (48, 50, 1, 1))[0]
        facts: dict[str, Any] = dict.fromkeys(RunRecord._fields)
        facts |= {
            "run_id": f"{i:032x}",
            "call_id": f"{i // 4:032x}",
            "scope": kind,
            "entry": "predict_batch" if kind in ("router", "agent") else kind,
            "model": chance.choice(MODELS),
            "n_states": 1,
            "n_questions": 3,
            "began": began,
            "wall": began,
            "elapsed_ms": chance.lognormvariate(2.5, 0.8),
            "thread": f"worker-{chance.randrange(4)}",
            "captured": "none",
            "skipped": chance.random() < 0.05,
            "padded_tokens": chance.randrange(50),
            "forward_tokens": 60,
        }
        events = tuple(
            EventRecord(
                name, hook, 0 if hook else None, "call" if hook else None, at, 0.1, (), None
            )
            for name, at in (("on_predict_start", 0.1), ("on_predict_end", 5.0))
            for hook in (None, "Hook")
        )
        records.append(Record(RunRecord(**facts), events))
    return Trace.from_records(records)


def median_of(work: Callable[[], Any], rounds: int) -> float:
    taken = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    layouts: dict[str, Callable[[Trace], Layout]] = {
        "timeline": timeline_layout,
        "residency": residency_layout,
        "distributions": distributions_layout,
    }
    print("| picture | runs | pieces | layout | PNG | SVG |\n|---|---:|---:|---:|---:|---:|")
    for n in (100, 1_000, 10_000):
        trace = made_up(n)
        for name, make in layouts.items():
            layout = make(trace)
            picture = Picture(layout)
            seconds = [
                median_of(lambda make=make, trace=trace: make(trace), rounds),
                median_of(picture.to_png, rounds),
                median_of(picture.to_svg, rounds),
            ]
            told = " | ".join(f"{each:.2f} s" for each in seconds)
            print(f"| {name} | {n:,} | {len(layout.pieces):,} | {told} |", flush=True)


if __name__ == "__main__":
    main()
