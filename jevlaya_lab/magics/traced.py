"""``%%jevlaya trace``: the code of a cell is run as a cell of its own, and recorded meanwhile.

The line with the magic becomes the first statement of the cell, and the recording ends with the
cell. So the last expression is shown, ``await`` works at the top level in every frontend, errors
point to the right line, and a cell that raises leaves its trace.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from IPython.core.error import UsageError
from IPython.core.inputtransformer2 import cell_magic

from jevlaya_lab.frames import Trace
from jevlaya_lab.lab.lab import Lab
from jevlaya_lab.tracing.overhearing import Overhearing

__all__ = ["BEGIN", "TracedCells", "begin_traced_cell"]

BEGIN: Final = "_begin_trace"
"""The command that the first line becomes; no one writes it by hand."""

_FIRST_LINE: Final = re.compile(r"%%jevlaya[ \t]+trace(?:[ \t]+(?P<options>\S[^\n]*?))?[ \t]*\n?\Z")


def begin_traced_cell(lines: list[str]) -> list[str]:
    """An input transformer: makes ``%%jevlaya trace …`` the first statement of its cell."""
    found = _FIRST_LINE.match(lines[0]) if lines else None
    if found is None:
        return lines
    options, body = found["options"] or "", lines[1:]
    if {"-h", "--help"} & set(options.split()):
        return [
            "get_ipython().run_line_magic('jevlaya', 'trace -h')\n"
        ]  # help in place of the cell
    # The cell may be one of another cell magic, which is then looked for no more.
    first = next((i for i, line in enumerate(body) if line.strip()), 0)
    return [
        f"get_ipython().run_line_magic('jevlaya', {f'{BEGIN} {options}'.strip()!r})\n",
        *body[:first],
        *cell_magic(body[first:]),
    ]


# A terminal then goes on asking for lines, as below any other cell magic, until one is blank.
begin_traced_cell.__dict__["has_side_effects"] = True


class TracedCells:
    """The recordings of traced cells of one shell, which may be nested.

    Args:
        shell: The shell.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._open: list[_Cell] = []

    def install(self) -> None:
        """Listen to the shell."""
        # The list itself is kept by the transformer manager.
        self._shell.input_transformer_manager.cleanup_transforms.append(begin_traced_cell)
        self._shell.events.register("pre_execute", self._begun)
        self._shell.events.register("post_execute", self._ended)

    def uninstall(self) -> None:
        """Let go of the shell; what is recorded now ends."""
        while self._open:
            self._open.pop().close()
        transforms = self._shell.input_transformer_manager.cleanup_transforms
        if begin_traced_cell in transforms:
            transforms.remove(begin_traced_cell)
        for event, listener in (("pre_execute", self._begun), ("post_execute", self._ended)):
            self._shell.events.unregister(event, listener)

    def begin(self, lab: Lab, done: Callable[[Trace], None]) -> None:
        """Record the rest of the cell that is running; then call a function with its trace."""
        self._open.append(_Cell(lab, done))

    def run(self, code: str, lab: Lab, done: Callable[[Trace], None]) -> None:
        """Run code as a cell and record it, for callers that hand over the code itself.

        Raises:
            UsageError: The code awaits while a loop is running, which only a cell can.
        """
        cell = _Cell(lab, done)
        try:
            if self._shell.should_run_async(
                code, transformed_cell=self._shell.transform_cell(code)
            ):
                _refuse_inside_a_loop()
            self._shell.run_cell(code)  # it shows errors itself
        finally:
            cell.close()

    def _begun(self) -> None:
        for cell in self._open:
            cell.depth += 1

    def _ended(self) -> None:
        """A cell is over: the traced one, or one that it ran itself."""
        while self._open and self._open[-1].depth == 0:
            self._open.pop().close()
        for cell in self._open:
            cell.depth -= 1


class _Cell:
    """One traced cell; ``depth`` counts the cells that run inside of it."""

    def __init__(self, lab: Lab, done: Callable[[Trace], None]) -> None:
        self.depth = 0
        self._lab = lab
        self._done = done
        self._overhearing = Overhearing(lab.recorder)
        self._overhearing.start()

    def close(self) -> None:
        self._overhearing.stop()
        self._done(self._overhearing.trace)


def _refuse_inside_a_loop() -> None:
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UsageError("this cell awaits; put %%jevlaya trace on its very first line")
