"""``%jevlaya examine``: the doctor of hooks."""

from __future__ import annotations

import argparse
from typing import Any

from IPython.core.magic_arguments import MagicArgumentParser

from jevlaya_lab.experiments.doctor import Examination, examine
from jevlaya_lab.magics.experiments import add_saving, paths_to_save, save
from jevlaya_lab.magics.session import Session

__all__ = ["Examine"]


class Examine:
    """The command."""

    def __init__(self) -> None:
        self.parser: Any = MagicArgumentParser(
            "jevlaya examine",
            description="Put a hook through calls, batches, failures and threads, and report.",
        )
        self.parser.add_argument(
            "hook", metavar="NAME", help="Variable that holds the hook, its class, or a function."
        )
        self.parser.add_argument(
            "-q", "--questions", metavar="NAME", help="A variable or JSON file: what is asked."
        )
        for name, default, text in (
            ("--timeout", 5.0, "Seconds after which a situation counts as hanging."),
            ("--slow", 1.0, "Milliseconds from which on an event counts as slow."),
        ):
            self.parser.add_argument(
                name, type=float, metavar="NUMBER", default=default, help=f"{text} ({default:g})"
            )
        self.parser.add_argument(
            "--seed", type=int, metavar="INT", default=0, help="Of the texts. (0)"
        )
        add_saving(self.parser)
        self.__doc__ = self.parser.format_help()

    def __call__(self, session: Session, args: argparse.Namespace, cell: str | None) -> Examination:
        """What was found."""
        paths = paths_to_save(args)
        result = examine(
            session.variable(args.hook, "examine"),
            questions=None if args.questions is None else session.questions(args.questions),
            timeout_s=args.timeout,
            slow_ms=args.slow,
            seed=args.seed,
        )
        save(result, paths)
        return result
