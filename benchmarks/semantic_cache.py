"""How often a cache by meaning would answer, and how often wrongly, by threshold.

    python benchmarks/semantic_cache.py                      # the tickets of the project
    python benchmarks/semantic_cache.py FILE.jsonl.gz        # lines of {"text": …, "label": …}

Texts come in a random order (``--seed``); each is compared with those before it, as
``jevlaya_lab.false_hits`` says. Labels are the right answers, so a hit is false where its
neighbour has another one.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import random
import time
from pathlib import Path

from jevlaya_lab import EmbeddingGenerator, false_hits

TICKETS = Path(__file__).resolve().parent.parent / "data" / "support_tickets.csv"
THRESHOLDS = (0.50, 0.60, 0.70, 0.75, 0.80, 0.85, 0.90, 0.95, 0.97, 0.99)


def tickets() -> list[tuple[str, str]]:
    """The English tickets and their departments; made up, and no two say the same."""
    with TICKETS.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["language"] == "en"]
    return [(row["text"], row["department"]) for row in rows]


def labelled(path: Path, split: str | None) -> list[tuple[str, str]]:
    """Texts and labels of a file of JSON lines."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return [(row["text"], row["label"]) for row in rows if split in (None, row.get("split"))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--split", help="only lines with this split")
    parser.add_argument("--most", type=int, default=3000, help="texts that are drawn")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    pairs = tickets() if args.file is None else labelled(args.file, args.split)
    random.Random(args.seed).shuffle(pairs)
    pairs = pairs[: args.most]
    began = time.perf_counter()
    embedding = EmbeddingGenerator()
    texts, labels = [text for text, _ in pairs], [label for _, label in pairs]
    rows = false_hits(texts, labels, embedding, thresholds=THRESHOLDS)
    name = "tickets of the project" if args.file is None else args.file.name
    print(f"\n{name}: {len(pairs)} texts, {len(set(labels))} answers, {embedding.identity.model}")
    print(f"\n{'threshold':10} {'hits':>14} {'of these false':>16} {'wrong of all':>14}")
    for row in rows:
        false = row["false_hit_rate"]
        print(
            f"{row['threshold']:<10} {row['hits']:6} ({row['hit_rate']:5.1%}) "
            f"{row['false_hits']:6} ({'—' if false is None else format(false, '.1%'):>5}) "
            f"{row['wrong_rate']:13.2%}"
        )
    print(f"\n{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
