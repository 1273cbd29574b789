"""How often the right option is among those that a shortlist would keep.

    python benchmarks/shortlist.py                      # the tickets and departments of the project
    python benchmarks/shortlist.py FILE.jsonl.gz        # lines of {"text": …, "label": …}

Options are the bare labels, embedded like the texts; no agent is asked. What it takes in time is
in ``benchmarks/embedding.py shortlist``.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

import numpy as np
from semantic_cache import labelled, tickets

from jevlaya_lab import EmbeddingGenerator

KEEP = (1, 2, 3, 5, 10, 20, 40)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--split", help="only lines with this split")
    parser.add_argument("--without", help="leave out the texts with this label")
    parser.add_argument("--most", type=int, default=3000, help="texts that are drawn")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    pairs = tickets() if args.file is None else labelled(args.file, args.split)
    pairs = [(text, label) for text, label in pairs if label != args.without]
    labels = sorted({label for _, label in pairs})
    random.Random(args.seed).shuffle(pairs)
    pairs = pairs[: args.most]
    embedding = EmbeddingGenerator()
    texts = embedding.embed_sync([text for text, _ in pairs])
    similar = texts.similarity(embedding.embed_sync(labels))
    right = np.array([labels.index(label) for _, label in pairs])
    ranks = (similar > similar[np.arange(len(pairs)), right][:, None]).sum(axis=1) + 1
    name = "tickets of the project" if args.file is None else args.file.name
    print(f"\n{name}: {len(pairs)} texts, {len(labels)} options, {embedding.identity.model}\n")
    for keep in KEEP:
        if keep < len(labels):
            print(f"the right one among the {keep:2} nearest: {(ranks <= keep).mean():6.1%}")


if __name__ == "__main__":
    main()
