"""The commands of ``%jevlaya``: each takes the session and its options, and gives an object."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import pandas as pd
from IPython.core.error import UsageError
from IPython.core.magic_arguments import argument, magic_arguments

from jevlaya_lab.frames import Trace, write_csv
from jevlaya_lab.lab.asking import is_router
from jevlaya_lab.lab.lab import Lab
from jevlaya_lab.magics.examining import Examine
from jevlaya_lab.magics.experiments import Experiments
from jevlaya_lab.magics.session import Session, file_path
from jevlaya_lab.magics.states import FORMATS, read_cell

__all__ = ["CELL_COMMANDS", "COMMANDS", "Command", "frame_of", "parser_of", "purpose"]


class Command(Protocol):
    """A command; ``parser`` and ``__doc__`` come from ``magic_arguments``."""

    parser: Any
    __doc__: str | None

    def __call__(self, session: Session, args: argparse.Namespace, cell: str | None) -> Any:
        """Do it; a ``cell`` is there for a cell magic only."""


def _command(*options: Any) -> Callable[[Any], Command]:
    """Give a function its options; its help is then its docstring."""

    def decorate(function: Any) -> Command:
        name = function.__name__
        # Backwards, since decorators apply from the last to the first.
        for option in reversed(options):
            function = option(function)
        found: Command = magic_arguments(f"jevlaya {name}")(function)
        return found

    return decorate


PICTURES: Final = ("lifecycle", "order", "timeline", "residency", "distributions")
"""What %jevlaya diagram draws."""

_OUT: Final = argument(
    "-o", "--out", metavar="NAME", help="Assign the result to this variable instead of showing it."
)
_LAB: Final = argument("--lab", metavar="NAME", help="Variable of the Lab, for this once.")
_DATA: Final = (
    argument("text", nargs="*", metavar="TEXT", help="One state, where there is no cell."),
    argument("-d", "--data", metavar="NAME", help="A variable that holds the states."),
    argument(
        "-s",
        "--state",
        metavar="COLUMN",
        action="append",
        default=[],
        help="Column of a table that is the state; may be given several times.",
    ),
    argument(
        "-f",
        "--format",
        choices=FORMATS,
        metavar="FORMAT",
        help="How the cell is written: text, jsonl or csv; guessed where it is not said.",
    ),
    argument("-m", "--model", metavar="NAME", help="The checkpoint to ask (of a router)."),
    argument("--task", metavar="NAME", help="The same by task (of a router)."),
    argument("--lang", metavar="CODE", help="Language of the states, such as de."),
)


@_command(
    _LAB,
    _OUT,
)
def status(session: Session, args: argparse.Namespace, cell: str | None) -> Lab:
    """Show the Lab in use: whom it asks, resident checkpoints, last answers, last runs."""
    return session.lab(args.lab)


@_command(
    argument("-q", "--questions", required=True, metavar="NAME", help="A variable or a JSON file."),
    *_DATA,
    argument(
        "--layout", choices=("wide", "long"), default="wide", help="One row per state, or more."
    ),
    argument("--detail", action="store_true", help="Add confidences and probabilities."),
    argument(
        "--coerce", action="store_true", help="A row that fails gets an error, no other is lost."
    ),
    argument("--windows", action="store_true", help="Read long states in windows: predict_long."),
    argument("--join", action="store_true", help="Put the data before the answers."),
    _LAB,
    _OUT,
)
def ask(session: Session, args: argparse.Namespace, cell: str | None) -> pd.DataFrame:
    """Ask typed questions about states; the result is a DataFrame.

    The states are TEXT, the variable of -d, or what is written in the cell below %%jevlaya ask.
    """
    lab = session.lab(args.lab)
    questions = session.questions(args.questions)
    data, options = _data(session, args, cell)
    options |= _hints(lab, args)
    method = lab.predict_long if args.windows else lab.predict
    answers = method(
        data,
        questions,
        layout=args.layout,
        detail=args.detail,
        errors="coerce" if args.coerce else "raise",
        **options,
    )
    return _joined(data, answers, args) if args.join else answers


@_command(
    argument("-q", "--questions", metavar="NAME", help="Questions, by which workflows are known."),
    *_DATA,
    argument("--explain", action="store_true", help="Add what the language detector saw."),
    _LAB,
    _OUT,
)
def route(session: Session, args: argparse.Namespace, cell: str | None) -> pd.DataFrame:
    """Where the router would send each state, and why; nothing is loaded."""
    lab = session.lab(args.lab)
    questions = None if args.questions is None else session.questions(args.questions)
    data, options = _data(session, args, cell)
    return lab.route(
        data, questions, explain=args.explain, **options, **_hints(lab, args, routing=True)
    )


@_command(
    argument(
        "--frame", choices=("runs", "calls", "events", "summary"), help="One frame of the trace."
    ),
    argument("--clear", action="store_true", help="Forget what was recorded and the last answers."),
    _LAB,
    _OUT,
)
def trace(session: Session, args: argparse.Namespace, cell: str | None) -> Any:
    """What was recorded since the last --clear. As %%jevlaya trace: records the code of the cell.

    Of a cell, everything that it asks of agents and routers of this package is recorded, also
    where it raises; --frame and -o say what becomes of it.
    """
    lab = session.lab(args.lab)
    if args.clear:
        lab.clear()
        return None
    return frame_of(lab.trace, args.frame)


def frame_of(found: Trace, name: str | None) -> Any:
    """A trace, or one frame of it."""
    if name is None:
        return found
    return found.summary() if name == "summary" else getattr(found, name)


@_command(
    argument("path", help="trace.csv, trace.parquet, timeline.json (opens in Perfetto), run.png."),
    argument(
        "-t", "--trace", metavar="NAME", help="A variable with a trace, instead of the Lab's."
    ),
    argument("--answers", action="store_true", help="Write the last answers instead, as CSV."),
    _LAB,
    _OUT,
)
def export(session: Session, args: argparse.Namespace, cell: str | None) -> Path:
    """Write the trace to a file; the end of its name says which kind of file."""
    lab = session.lab(args.lab)
    path = file_path(args.path)
    kind = path.suffix.lower()
    if args.answers:
        if args.trace is not None:
            raise UsageError("--answers and -t exclude each other")
        if kind != ".csv":
            raise UsageError(
                f"answers are written as CSV; give a name that ends in .csv, not {path}"
            )
        if lab.last is None:
            raise UsageError("there are no answers yet; ask something first")
        write_csv(lab.last, path, index=True)
        return path
    found = lab.trace if args.trace is None else session.variable(args.trace, "-t")
    if not isinstance(found, Trace):
        raise UsageError(f"-t {args.trace}: a trace belongs here, got a {type(found).__name__}")
    writers: dict[str, Callable[[Path], Path]] = {
        ".csv": found.to_csv,
        ".parquet": found.to_parquet,
        ".json": found.to_chrome,
    }
    if kind == ".png" and args.trace is None:
        return lab.lifecycle().save(path)
    if kind not in writers:
        raise UsageError(f"{path}: the name ends in .csv, .parquet or .json, or without -t in .png")
    return writers[kind](path)


@_command(
    argument(
        "run",
        nargs="?",
        metavar="ID",
        help="Beginning of the id of a run or a call; else the last run (lifecycle, order).",
    ),
    argument("-k", "--kind", choices=PICTURES, default="lifecycle", help="Which picture."),
    argument("--save", metavar="PATH", help="Write it as well: a name in .png, .svg or .html."),
    _LAB,
    _OUT,
)
def diagram(session: Session, args: argparse.Namespace, cell: str | None) -> Any:
    """The trace as a picture: the lifecycle of a run or call, or one of the other kinds.

    lifecycle: hooks in their places, steps, where the time went. order: the events of a call.
    timeline, residency, distributions: of the whole trace.
    """
    lab = session.lab(args.lab)
    of_one: dict[str, Callable[[str | None], Any]] = {
        "lifecycle": lab.lifecycle,
        "order": lab.hook_order,
    }
    if args.kind in of_one:
        picture = of_one[args.kind](args.run)
    elif args.run is not None:
        raise UsageError(f"--kind {args.kind} is of the whole trace; leave {args.run!r} out")
    else:
        picture = getattr(lab, args.kind)()
    if args.save is not None:
        picture.save(file_path(args.save))
    return picture


@_command(
    argument(
        "names", nargs="*", metavar="CHECKPOINT", help="Names; without any, all that are known."
    ),
    argument("--source", metavar="PLACE", help="Register one name first: a folder, or org/name."),
    _LAB,
    _OUT,
)
def load(session: Session, args: argparse.Namespace, cell: str | None) -> Any:
    """Load checkpoints into the router; shows the router."""
    router = _router(session.lab(args.lab), "load")
    if args.source is not None:
        if len(args.names) != 1:
            raise UsageError("--source goes with one name")
        file_path(args.source)
        before = router.models
        name = router.register(args.names[0], args.source)
        try:
            router.load(name)
        except BaseException:  # nothing that cannot be loaded stays behind
            if before.get(name) is not None:
                router.register(name, before[name])
            else:
                router.unregister(name)
            raise
        return router
    router.preload([router.resolve(name) for name in args.names] or None)
    return router


@_command(
    argument("names", nargs="*", metavar="CHECKPOINT", help="Names; without any, all of them."),
    _LAB,
    _OUT,
)
def unload(session: Session, args: argparse.Namespace, cell: str | None) -> Any:
    """Let the router go of checkpoints, which frees their memory; shows the router."""
    router = _router(session.lab(args.lab), "unload")
    names = [router.resolve(name) for name in args.names]
    for name in names or [None]:
        router.unload(name)
    return router


@_command(
    argument(
        "--lab", metavar="NAME", help="The variable of the Lab that the magics use from now on."
    ),
    argument("--default", action="store_true", help="Go back to the default Lab."),
    _OUT,
)
def config(session: Session, args: argparse.Namespace, cell: str | None) -> dict[str, Any]:
    """Set and show which Lab the magics use: a variable's, or the default one of the process."""
    if args.default and args.lab is not None:
        raise UsageError("--default and --lab exclude each other")
    if args.lab is not None:
        session.lab(args.lab)
        session.lab_name = args.lab
    if args.default:
        session.lab_name = None
    lab = session.lab()
    return {
        "lab": session.lab_name or "the default Lab",
        "agent": lab.agent,
        "recorder": lab.recorder,
    }


COMMANDS: Final[Mapping[str, Command]] = {
    **{
        each.parser.prog.split()[-1]: each
        for each in (status, ask, route, trace, export, diagram, load, unload, config)
    },
    "experiment": Experiments(),
    "examine": Examine(),
}
"""By name, in the order of the help."""

CELL_COMMANDS: Final = ("ask", "route", "trace")
"""Those that also are cell magics."""


def parser_of(command: Command, words: Sequence[str]) -> Any:
    """What reads the options of a command; an experiment has options of its own.

    Raises:
        InvalidOption: The words name an experiment that there is not.
    """
    return command.parser_for(words) if isinstance(command, Experiments) else command.parser


def purpose(command: Command) -> str:
    """The first sentence of what a command does."""
    return str(command.parser.description).strip().partition("\n")[0]


def _data(
    session: Session, args: argparse.Namespace, cell: str | None
) -> tuple[Any, dict[str, Any]]:
    """The states, and the argument ``state`` where it is needed."""
    ways = {"text": bool(args.text), "-d": args.data is not None, "a cell": cell is not None}
    given = [name for name, is_given in ways.items() if is_given]
    if len(given) != 1:
        found = " and ".join(given) or "none of them"
        raise UsageError(f"states come as text, by -d, or from a cell below %%jevlaya; got {found}")
    if cell is not None:
        read = read_cell(cell, args.format, args.state)
        if read.said is not None:
            print(read.said)
        return read.data, {"state": read.state}
    if args.format is not None:
        raise UsageError("-f says how a cell is written; there is none")
    if args.data is None:
        if args.state:
            raise UsageError("-s names columns of a table; the state is text")
        return " ".join(args.text), {}
    data = session.variable(args.data, "-d")
    if not args.state:
        return data, {}
    return data, {"state": args.state[0] if len(args.state) == 1 else args.state}


def _hints(lab: Lab, args: argparse.Namespace, routing: bool = False) -> dict[str, Any]:
    """The options about checkpoints that were given, as far as the Lab's agent takes them."""
    given = {"model": args.model, "task": args.task, "lang": args.lang}
    found = {name: value for name, value in given.items() if value is not None}
    if not is_router(lab.agent) and not routing:
        for name in ("model", "task"):
            if name in found:
                raise UsageError(
                    f"--{name} chooses a checkpoint of a router; this Lab asks an agent"
                )
    return found


def _joined(data: Any, answers: pd.DataFrame, args: argparse.Namespace) -> pd.DataFrame:
    if args.layout == "long":
        raise UsageError("--join goes with one row per state, not with --layout long")
    if isinstance(data, pd.DataFrame):
        shown = data
    else:
        states = data if isinstance(data, (list, tuple, pd.Series)) else [data]
        shown = pd.DataFrame({"state": list(states)}, index=answers.index)
    both = [str(name) for name in answers.columns if name in shown.columns]
    if both:
        raise UsageError(f"--join: data and answers both have a column {both[0]!r}")
    return pd.concat([shown, answers], axis=1)


def _router(lab: Lab, command: str) -> Any:
    if not hasattr(lab.agent, "preload"):
        raise UsageError(f"{command} goes with a router; this Lab asks an agent")
    return lab.agent
