"""The magic itself: finds the command, reads its options, and turns errors into one line."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Callable
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand
from IPython.display import display
from IPython.utils.process import arg_split

from jevlaya_lab.frames import Trace
from jevlaya_lab.magics.commands import CELL_COMMANDS, COMMANDS, frame_of, parser_of, purpose
from jevlaya_lab.magics.completion import Completion
from jevlaya_lab.magics.session import Session
from jevlaya_lab.magics.traced import BEGIN, TracedCells
from jevlaya_lab.system_one.errors import JevlayaError

__all__ = ["JevlayaMagics"]


@magics_class
class JevlayaMagics(Magics):  # type: ignore[misc]  # IPython is not typed here
    """``%jevlaya`` and ``%%jevlaya`` in one shell."""

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self.session = Session(shell)
        self._traced = TracedCells(shell)
        self._completion = Completion(self.session)

    def install(self) -> None:
        """Bring all that belongs to the magics into the shell."""
        self.shell.register_magics(self)
        self._traced.install()
        self._completion.install()

    def uninstall(self) -> None:
        """Take all of it out again."""
        self._completion.uninstall()
        self._traced.uninstall()
        manager = self.shell.magics_manager
        for kind in ("line", "cell"):
            manager.magics[kind].pop("jevlaya", None)
        manager.registry.pop(type(self).__name__, None)

    # Without expansion: braces and dollar signs belong to the states.
    @no_var_expand  # type: ignore[untyped-decorator]
    @line_cell_magic  # type: ignore[untyped-decorator]
    def jevlaya(self, line: str, cell: str | None = None) -> Any:
        """See the end of this module."""
        try:
            return self._run(line, cell)
        except (JevlayaError, OSError, UnicodeError) as error:
            text = " ".join(str(error).split()) or type(error).__name__
            raise UsageError(text) from error

    def _run(self, line: str, cell: str | None) -> Any:
        words = _words(line)
        name, words = (words[0], words[1:]) if words else ("status", [])
        if name in ("-h", "--help"):
            print(_help())
            return None
        if name == BEGIN:
            return self._begin_trace(words)
        if name not in COMMANDS:
            near = difflib.get_close_matches(name, COMMANDS, n=1)
            hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(COMMANDS)}"
            raise UsageError(f"%jevlaya has no command {name!r}{hint}")
        if cell is not None and name not in CELL_COMMANDS:
            raise UsageError(
                f"{name} takes no cell; write %jevlaya {name} with one % "
                f"(with a cell there are {', '.join(CELL_COMMANDS)})"
            )
        args = self._options(name, words)
        if args is None:
            return None
        if name == "trace" and cell is not None:
            lab, done = self._tracing(args)
            self._traced.run(cell, lab, done)
            return None
        return self._given(COMMANDS[name](self.session, args, cell), args)

    def _options(self, name: str, words: list[str]) -> argparse.Namespace | None:
        """The options of a command; ``None`` where its help was asked for."""
        parser = parser_of(COMMANDS[name], words)
        if {"-h", "--help"} & set(words):
            print(parser.format_help())
            return None
        args: argparse.Namespace = parser.parse_intermixed_args(words)
        self.session.check_name(getattr(args, "out", None))
        return args

    def _begin_trace(self, words: list[str]) -> None:
        """What the first line of a ``%%jevlaya trace`` cell became."""
        args = self._options("trace", words)
        if args is not None:
            self._traced.begin(*self._tracing(args))

    def _tracing(self, args: argparse.Namespace) -> tuple[Any, Callable[[Trace], None]]:
        lab = self.session.lab(args.lab)
        if args.clear:
            lab.clear()

        def done(trace: Trace) -> None:
            found = self._given(frame_of(trace, args.frame), args)
            if found is not None:
                display(found)

        return lab, done

    def _given(self, result: Any, args: argparse.Namespace) -> Any:
        """The result to show; nothing where it was assigned to a variable."""
        out = getattr(args, "out", None)
        if out is None:
            return result
        self.session.assign(out, result)
        return None


def _words(line: str) -> list[str]:
    try:
        words = arg_split(line)
    except ValueError as error:
        raise UsageError(
            f"{error}; a lone quote mark stands between two of the other kind"
        ) from None
    return [
        word[1:-1] if len(word) > 1 and word[0] == word[-1] and word[0] in "'\"" else word
        for word in words
    ]


def _help() -> str:
    lines = [f"  {name:<11}{purpose(command)}" for name, command in COMMANDS.items()]
    cells = ", ".join(f"%%jevlaya {name}" for name in CELL_COMMANDS)
    return "\n".join(
        [
            "Ask a System One model, see where it routes, record and draw what it does.",
            "",
            *lines,
            "",
            f"Cell magics: {cells}.",
            "",
            *(command.__doc__ or "" for command in COMMANDS.values()),
        ]
    )


JevlayaMagics.jevlaya.__doc__ = _help()
