"""``%jevlaya experiment``: its options are the parameters of the experiment that is named."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pandas as pd
from IPython.core.error import UsageError
from IPython.core.magic_arguments import MagicArgumentParser

from jevlaya_lab.experiments import NAMES, ExperimentResult, find
from jevlaya_lab.experiments.catalogue import Experiment
from jevlaya_lab.experiments.options import Parameter
from jevlaya_lab.magics.session import Session, file_path

__all__ = ["Experiments", "add_saving", "paths_to_save", "save"]

_PURPOSE: Final = "Run an experiment on the lifecycle; without a name: which ones there are."
_MORE: Final = (
    "It runs on the agent or router of the Lab of --lab, or of `config --lab`; without either on "
    "the embedded checkpoints. `%jevlaya experiment NAME -h` shows the options of one."
)
_PICTURES: Final = (".png", ".svg", ".html")


class Experiments:
    """The command; its parser depends on what is written behind it."""

    def __init__(self) -> None:
        self.parser = self._parser("jevlaya experiment", f"{_PURPOSE}\n\n{_MORE}")
        self.parser.add_argument("name", nargs="?", metavar="NAME", help=", ".join(NAMES))
        self._common(self.parser)
        self.__doc__ = self.parser.format_help()

    def parser_for(self, words: Sequence[str]) -> Any:
        """The parser of a line, by the name of the experiment in front.

        Raises:
            InvalidOption: There is no experiment of that name.
        """
        if not words or words[0].startswith("-"):
            return self.parser
        found = find(words[0])
        parser = self._parser(f"jevlaya experiment {found.name}", found.title)
        parser.add_argument("name", help=argparse.SUPPRESS)  # stands in front already
        for parameter in found.parameters:
            _add(parser, parameter)
        self._common(parser)
        return parser

    def __call__(
        self, session: Session, args: argparse.Namespace, cell: str | None
    ) -> pd.DataFrame | ExperimentResult:
        """The result, or the list of experiments."""
        if args.name is None:
            if args.save:
                raise UsageError("--save goes with the name of an experiment")
            listed = [(each.name, each.title) for each in map(find, NAMES)]
            names: pd.DataFrame = pd.DataFrame(listed, columns=["name", "title"])
            return names
        paths = paths_to_save(args)
        named = args.lab is not None or session.lab_name is not None
        agent = session.lab(args.lab).agent if named else None
        found = find(args.name)
        result: ExperimentResult = found.run(agent, **_given(found, args))
        save(result, paths)
        return result

    @staticmethod
    def _parser(prog: str, description: str) -> Any:
        return MagicArgumentParser(prog, description=description)

    @staticmethod
    def _common(parser: Any) -> None:
        add_saving(parser)
        parser.add_argument(
            "--lab", metavar="NAME", help="Variable of the Lab whose agent or router to use."
        )


def add_saving(parser: Any) -> None:
    """The options ``--save`` and ``-o``."""
    parser.add_argument(
        "--save",
        metavar="PATH",
        action="append",
        default=[],
        help="Write it as well: .csv the frame, .png, .svg or .html the picture.",
    )
    parser.add_argument(
        "-o",
        "--out",
        metavar="NAME",
        help="Assign the result to this variable instead of showing it.",
    )


def paths_to_save(args: argparse.Namespace) -> list[Path]:
    """Where to write the result.

    Raises:
        UsageError: A name says nothing of how to write it.
    """
    paths = [file_path(path) for path in args.save]
    for path in paths:
        if path.suffix.lower() not in (".csv", *_PICTURES):
            raise UsageError(f"--save {path}: the name ends in .csv, {', '.join(_PICTURES)}")
    return paths


def save(result: ExperimentResult, paths: Sequence[Path]) -> None:
    """Write a result, as frame or picture."""
    for path in paths:
        if path.suffix.lower() == ".csv":
            result.to_csv(path)
        else:
            result.figure().save(path)


def _add(parser: Any, parameter: Parameter) -> None:
    """An option for a parameter; what is not given is left to the experiment."""
    option = parameter.option
    value = parameter.default
    shown = " ".join(map(str, value)) if parameter.many else str(value)
    facts = [f"default {shown}"]
    if option.low is not None or option.high is not None:
        low = "" if option.low is None else f"from {option.low:g}"
        high = "" if option.high is None else f"to {option.high:g}"
        facts.append(f"{low} {high}".strip())
    help_text = f"{option.help} ({'; '.join(facts)})".replace("%", "%%")
    kind: dict[str, Any] = {"action": argparse.BooleanOptionalAction}
    if parameter.kind is not bool:
        kind = {"type": parameter.kind, "metavar": parameter.kind.__name__.upper()}
        if option.choices:
            kind |= {"choices": option.choices, "metavar": "{" + ",".join(option.choices) + "}"}
        if parameter.many:
            kind["nargs"] = "+"
    parser.add_argument(
        f"--{parameter.name.replace('_', '-')}",
        dest=parameter.name,
        default=argparse.SUPPRESS,
        help=help_text,
        **kind,
    )


def _given(found: Experiment, args: argparse.Namespace) -> dict[str, Any]:
    names = [each.name for each in found.parameters]
    return {name: getattr(args, name) for name in names if hasattr(args, name)}
