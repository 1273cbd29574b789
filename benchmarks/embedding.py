"""What bounding costs, what it keeps free, and what hashing, micro-batching, shortlists give.

    python benchmarks/embedding.py              # all tables
    python benchmarks/embedding.py heartbeat    # batches, query, hashing, micro, shortlist

All variants of a table take turns in one process. Tables give the median over rounds and, as
spread, the 25th and 75th percentile.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from jevlaya_lab.embedding import BoundedLocalEmbedding, EmbeddingGenerator, InlineHashingEmbedding
from jevlaya_lab.embedding.local_sources import EMBEDDED

TICKETS = Path(__file__).resolve().parent.parent / "data" / "support_tickets.csv"
QUERY = "I was charged twice, please refund one of the two payments."
Call = Callable[[], Awaitable[Any]]


def ticket_texts(*, english_only: bool = False) -> list[str]:
    """The texts of the made-up tickets, three fifths of them English."""
    with TICKETS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [row["text"] for row in rows if row["language"] == "en" or not english_only]


def direct_model() -> Any:
    """sentence-transformers itself, on the embedded weights."""
    warnings.simplefilter("ignore")
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(EMBEDDED), device="cpu")


async def interleaved(
    variants: Mapping[str, Call], rounds: int, repeats: int = 1
) -> dict[str, list[float]]:
    """Seconds per call of each variant in each round; the order rotates from round to round."""
    names = list(variants)
    taken: dict[str, list[float]] = {name: [] for name in names}
    for name in names:
        await variants[name]()
    for i in range(rounds):
        for name in names[i % len(names) :] + names[: i % len(names)]:
            began = time.perf_counter()
            for _ in range(repeats):
                await variants[name]()
            taken[name].append((time.perf_counter() - began) / repeats)
    return taken


def spread(values: Sequence[float], scale: float = 1.0, digits: int = 1) -> str:
    """``median (25 % to 75 %)``."""
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle * scale:.{digits}f} ({low * scale:.{digits}f} to {high * scale:.{digits}f})"


def ratios(base: Sequence[float], other: Sequence[float]) -> str:
    """How many times as fast, round by round."""
    return spread([b / o for b, o in zip(base, other, strict=True)], digits=3) + "x"


async def batches(rounds: int) -> None:
    model = direct_model()
    same = BoundedLocalEmbedding(model)
    embedded = BoundedLocalEmbedding(device="cpu")
    await asyncio.gather(same.preload(), embedded.preload())
    for title, texts in {
        "English tickets": ticket_texts(english_only=True),
        "tickets in many languages": ticket_texts(),
    }.items():

        async def direct(texts: list[str] = texts) -> None:
            model.encode(texts)

        taken = await interleaved(
            {
                "encode, called directly": direct,
                "bounded, the same model": lambda texts=texts: same.embed(texts),
                "bounded, embedded encoder": lambda texts=texts: embedded.embed(texts),
            },
            rounds,
        )
        print(f"\nBatches: {len(texts)} {title}, {rounds} rounds\n")
        base = taken["encode, called directly"]
        for name, seconds in taken.items():
            rate = spread([len(texts) / s for s in seconds])
            print(f"{name:28} texts/s {rate:30} speed {ratios(base, seconds)}")


async def query(rounds: int) -> None:
    class Instant:
        vector = np.zeros((1, 384), np.float32)

        def encode(self, texts: list[str]) -> Any:
            return self.vector

    instant = BoundedLocalEmbedding(Instant())
    generator = EmbeddingGenerator(instant)
    hop = Instant()
    await instant.preload()

    async def inline() -> None:
        hop.encode([QUERY])

    async def twin() -> None:
        generator.generate_sync(QUERY)

    taken = await interleaved(
        {
            "inline": inline,
            "asyncio.to_thread": lambda: asyncio.to_thread(hop.encode, [QUERY]),
            "await generate": lambda: generator.generate(QUERY),
            "generate_sync": twin,
        },
        rounds,
        200,
    )
    print(f"\nOne short query around an encode that takes no time, {rounds} rounds of 200\n")
    for name, seconds in taken.items():
        print(f"{name:28} µs {spread(seconds, 1e6)}")

    real = BoundedLocalEmbedding(device="cpu")
    await real.preload()
    model = real._lane._work._replicas[0]  # type: ignore[attr-defined]

    async def direct() -> None:
        model.encode(model.read([QUERY]))

    taken = await interleaved(
        {"the same model, inline": direct, "await": lambda: real.embed([QUERY])}, rounds, 20
    )
    print(f"\nOne short query, embedded encoder, {rounds} rounds of 20\n")
    for name, seconds in taken.items():
        print(f"{name:28} ms {spread(seconds, 1e3, 2)}")


async def gaps_during(work: Call, every: float = 0.005) -> list[float]:
    """How late each beat of a heart came, in seconds, while some work was done."""
    late: list[float] = []

    async def beat() -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + every
            await asyncio.sleep(every)
            late.append(loop.time() - due)

    heart = asyncio.ensure_future(beat())
    await asyncio.sleep(2 * every)
    late.clear()
    await work()
    await asyncio.sleep(2 * every)
    heart.cancel()
    return late


async def heartbeat(rounds: int) -> None:
    texts = ticket_texts()[::2]
    model = direct_model()
    bounded = BoundedLocalEmbedding(device="cpu")
    hashing = InlineHashingEmbedding()
    await bounded.preload()

    async def inline() -> None:
        model.encode(texts)

    async def storm() -> None:
        await asyncio.gather(*(bounded.embed([text]) for text in texts))

    variants: dict[str, Call] = {
        "encode inline": inline,
        "asyncio.to_thread(encode)": lambda: asyncio.to_thread(model.encode, texts),
        "bounded, one list": lambda: bounded.embed(texts),
        "bounded, a call per text": storm,
        "hashing inline, one list": lambda: hashing.embed(texts * 20),
        "hashing inline, 1 MB text": lambda: hashing.embed(["word " * 200_000]),
    }
    found: dict[str, list[list[float]]] = {name: [] for name in variants}
    for work in variants.values():
        await work()
    for _ in range(rounds):
        for name, work in variants.items():
            found[name].append(await gaps_during(work))
    print(f"\nHow late a heart beats that is due every 5 ms, {rounds} rounds; ms\n")
    print(f"{'':28} {'p99 of a round':28} {'latest of a round':28}")
    for name, runs in found.items():
        p99 = [float(np.quantile(gaps, 0.99)) for gaps in runs]
        most = [max(gaps) for gaps in runs]
        print(f"{name:28} {spread(p99, 1e3):28} {spread(most, 1e3):28}")


async def hashing(rounds: int) -> None:
    strategy = InlineHashingEmbedding()
    words = " ".join(ticket_texts()).split()
    print(f"\nHashing, {rounds} rounds: inline, and through a thread\n")
    print(f"{'words per text':16} {'texts/s':28} {'inline, µs':26} {'in a thread, µs':26}")
    for n in (5, 50, 500, 5000):
        texts = [" ".join(words[i : i + n]) for i in range(0, len(words) - n, max(1, n // 2))]
        texts = (texts or [" ".join((words * 5)[:n])])[:200]

        def in_thread(texts: list[str] = texts) -> Any:
            return asyncio.run(strategy.embed(texts[:1]))

        taken = await interleaved(
            {
                "list": lambda texts=texts: strategy.embed(texts),
                "inline": lambda texts=texts: strategy.embed(texts[:1]),
                "thread": lambda in_thread=in_thread: asyncio.to_thread(in_thread),
            },
            rounds,
            3,
        )
        rate = spread([len(texts) / s for s in taken["list"]], digits=0)
        inline, thread = spread(taken["inline"], 1e6, 0), spread(taken["thread"], 1e6, 0)
        print(f"{n:<16} {rate:28} {inline:26} {thread:26}")


async def micro(rounds: int) -> None:
    texts = ticket_texts()
    strategies = {
        "alone": BoundedLocalEmbedding(device="cpu"),
        "micro-batched": BoundedLocalEmbedding(device="cpu", micro_batching=True),
    }
    for strategy in strategies.values():
        await strategy.preload()
    print(f"\nSingle texts of callers that each wait for their last one, {rounds} rounds\n")
    for n in (1, 8, 32):

        async def callers(strategy: BoundedLocalEmbedding, n: int = n) -> None:
            async def caller(i: int) -> None:
                for k in range(4):
                    await strategy.embed([texts[(i * 4 + k) % len(texts)]])

            await asyncio.gather(*(caller(i) for i in range(n)))

        taken = await interleaved(
            {name: lambda s=s: callers(s) for name, s in strategies.items()}, rounds
        )
        for name, seconds in taken.items():
            rate = spread([4 * n / s for s in seconds])
            print(f"{n:3} callers, {name:14} texts/s {rate:30} {ratios(taken['alone'], seconds)}")


def encode_in_process(texts: list[str]) -> Any:
    """In a process of the pool: its own copy of the model, one torch thread."""
    global _in_process
    if _in_process is None:
        _in_process = EmbeddingGenerator(device="cpu", torch_threads=1)
    return _in_process.generate_batch_sync(texts)


_in_process: EmbeddingGenerator | None = None


def resident_mb(pids: Sequence[int]) -> float:
    """Memory of some processes that they share with nobody, MB; Linux only."""
    found = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Private"):
                found += int(line.split()[1])
    return found / 1024


async def processes(rounds: int) -> None:
    texts = ticket_texts(english_only=True)
    n = len(os.sched_getaffinity(0))
    loop = asyncio.get_running_loop()
    before = resident_mb([os.getpid()])
    threads = BoundedLocalEmbedding(device="cpu")
    replicas = BoundedLocalEmbedding(device="cpu", local_embedding_concurrency=n)
    await threads.preload()
    await threads.embed(texts)
    here = resident_mb([os.getpid()]) - before
    await replicas.preload()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(n, mp_context=context) as pool:

        async def in_pool() -> None:
            parts = [texts[i::n] for i in range(n)]
            await asyncio.gather(
                *(loop.run_in_executor(pool, encode_in_process, part) for part in parts)
            )

        async def in_threads() -> None:
            await asyncio.gather(*(replicas.embed(texts[i::n]) for i in range(n)))

        began = time.perf_counter()
        await in_pool()
        first = time.perf_counter() - began
        taken = await interleaved(
            {
                "one encode, all cores": lambda: threads.embed(texts),
                f"{n} threads, a core each": in_threads,
                f"{n} processes, a core each": in_pool,
            },
            rounds,
        )
        there = resident_mb([one for one in pool._processes])
    print(f"\n{len(texts)} English tickets on {n} cores, {rounds} rounds\n")
    base = next(iter(taken.values()))
    for name, seconds in taken.items():
        rate = spread([len(texts) / s for s in seconds])
        print(f"{name:28} texts/s {rate:28} speed {ratios(base, seconds)}")
    print(f"the model in threads takes {here:.0f} MB; the {n} processes {there:.0f} MB, and their")
    print(f"first call {first:.1f} s")


def cross_encoder(folder: Path) -> Any:
    """An agent of laya's kind with the weights of MiniLM under a random head: real times only."""
    sys.path.insert(0, str(TICKETS.parent.parent / "tests"))
    from tiny import make_checkpoint

    from jevlaya_lab import Agent

    return Agent(
        str(make_checkpoint(folder, "minilm", max_len=512, head_max_len=400)), device="cpu"
    )


async def shortlist(rounds: int) -> None:
    from jevlaya_lab import Agent, Choice, Lab

    warnings.simplefilter("ignore")
    options = [f"a request about topic number {i}" for i in range(500)]
    texts = ticket_texts(english_only=True)[:4]
    question = Choice("What is it about?", options)
    with tempfile.TemporaryDirectory() as scratch:
        cross, bi = Lab(cross_encoder(Path(scratch) / "minilm")), Lab(Agent())

        def short(lab: Lab, **how: Any) -> Call:
            async def ask() -> None:
                lab.shortlist(texts, question, progress=False, **how)

            return ask

        async def every() -> None:
            bi.predict(texts, {"q": question}, progress=False)

        tables = {
            "a cross-encoder (127 options fit at once)": {
                "all, in groups of 100": short(cross, keep=100, method="tournament"),
                "all, in groups of 20": short(cross, keep=20, method="tournament"),
                "the 20 nearest": short(cross, keep=20),
            },
            "the embedded bi-encoder, which keeps what it read of options": {
                "all at once": every,
                "the 20 nearest": short(bi, keep=20),
            },
        }
        for title, variants in tables.items():
            taken = await interleaved(variants, rounds)
            print(f"\n{len(texts)} tickets, {len(options)} options, {title}, {rounds} rounds\n")
            base = next(iter(taken.values()))
            for name, seconds in taken.items():
                print(f"{name:24} s {spread(seconds, digits=2):26} speed {ratios(base, seconds)}")


TABLES: dict[str, Callable[[int], Any]] = {
    "batches": batches,
    "query": query,
    "heartbeat": heartbeat,
    "hashing": hashing,
    "micro": micro,
    "shortlist": shortlist,
    "processes": processes,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", help=f"some of {', '.join(TABLES)}; all by default")
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    for name in args.tables or TABLES:
        asyncio.run(TABLES[name](args.rounds))


if __name__ == "__main__":
    main()
