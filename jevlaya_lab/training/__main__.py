"""The command line: ``train`` makes a checkpoint, ``evaluate`` prints the held-out table."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from jevlaya_lab.system_one.errors import CheckpointError
from jevlaya_lab.training.data import InputMissing

__all__ = ["main"]

_HEADS: Final = ("tokens", "pooled")
_DATA: Final = Path("../shared/training-data")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m jevlaya_lab.training",
        description="Train the embedded decision model, or measure a checkpoint on held-out sets.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    train = commands.add_parser("train", help="train a head and write a checkpoint folder")
    train.add_argument("--out", type=Path, required=True, help="folder of the new checkpoint")
    train.add_argument("--seed", type=int, default=0, help="decides everything that is drawn")
    train.add_argument("--head", choices=_HEADS, default="tokens", help="kind of head")
    train.add_argument("--epochs", type=int, default=2, help="passes over newly drawn examples")
    train.add_argument(
        "--examples", type=int, default=60_000, metavar="N", help="examples of one pass"
    )
    train.add_argument(
        "--cache", type=Path, help="folder that keeps encodings between runs (default: none)"
    )
    evaluate = commands.add_parser("evaluate", help="print the held-out table")
    evaluate.add_argument(
        "--checkpoint", default="embedded", help="its folder, or 'embedded' (default)"
    )
    for command in (train, evaluate):
        command.add_argument(
            "--data", type=Path, default=_DATA, help=f"folder of the sets (default: {_DATA})"
        )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit status: 0, or 2 where something needed is missing."""
    asked = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        if asked.command == "train":
            _train(asked)
        else:
            _evaluate(asked)
    except (InputMissing, CheckpointError) as exc:
        print(f"error: {exc}", file=sys.stderr)
        return 2
    return 0


def _train(asked: argparse.Namespace) -> None:
    # Loaded here: a wrong path shall be told before torch has been imported.
    from jevlaya_lab.training.data import SETS, require

    require(asked.data, tuple(SETS))
    from jevlaya_lab.training.evaluation import table
    from jevlaya_lab.training.recipe import Settings, train
    from jevlaya_lab.training.writing import write

    began = time.monotonic()
    settings = Settings(
        seed=asked.seed,
        head={"kind": asked.head, "width": 384},
        epochs=asked.epochs,
        examples_per_epoch=asked.examples,
    )
    trained = train(asked.data, settings, asked.cache)
    print(table(write(asked.out, trained, settings, asked.data)))
    logging.info("all in all %.0f s", time.monotonic() - began)


def _evaluate(asked: argparse.Namespace) -> None:
    from jevlaya_lab.training.data import HELD_OUT, require

    require(asked.data, HELD_OUT)
    from jevlaya_lab.training.evaluation import evaluate, table

    print(table(evaluate(asked.checkpoint, asked.data)))


if __name__ == "__main__":
    raise SystemExit(main())
