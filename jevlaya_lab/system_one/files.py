"""Writing files so that they are there as a whole, or as they were before."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

__all__ = ["whole_file", "whole_files"]


@contextmanager
def whole_file(path: str | os.PathLike[str], *, binary: bool = False) -> Iterator[Any]:
    """Open a temporary file beside ``path`` that takes its place when the block ends well.

    Args:
        path: Where the file shall be; missing folders are made.
        binary: Whether it takes bytes; text is UTF-8 and its line ends are left alone.

    Yields:
        The open file.
    """
    with whole_files([path], binary=binary) as (file,):
        yield file


@contextmanager
def whole_files(
    paths: Sequence[str | os.PathLike[str]], *, binary: bool = False
) -> Iterator[list[Any]]:
    """The same for several files that belong together: all take their places, or none does.

    Only a crash of the process between two renames leaves some new and some old. A file that was
    there keeps its permissions, a new one gets those that the process gives its files (the umask).

    Args:
        paths: Where the files shall be; missing folders are made.
        binary: Whether they take bytes; text is UTF-8 and its line ends are left alone.

    Yields:
        The open files, in order.
    """
    targets = [Path(path).expanduser() for path in paths]
    temporary: list[str] = []
    try:
        with ExitStack() as stack:
            opened = []
            for target in targets:
                handle, name = _beside(target)
                temporary.append(name)
                file = (
                    os.fdopen(handle, "wb")
                    if binary
                    else os.fdopen(handle, "w", encoding="utf-8", newline="")
                )
                opened.append(stack.enter_context(file))
            yield opened
        _take_places(temporary, targets)
    finally:
        for name in temporary:  # they are still there where something failed
            with suppress(FileNotFoundError):
                os.unlink(name)


_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


def _beside(target: Path) -> tuple[int, str]:
    """A new file beside another one, as readable as that one, or as the process makes its files."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = _mode_of(target)
        while True:
            name = str(target.with_name(f".{target.name}-{secrets.token_hex(4)}"))
            try:
                handle = os.open(name, _FLAGS, 0o666 if mode is None else mode & 0o600)
            except FileExistsError:
                continue
            if mode is not None:
                os.chmod(name, mode)
            return handle, name
    except OSError as exc:  # named by the file that was asked for, not by the one beside it
        raise type(exc)(exc.errno, exc.strerror, str(target)) from exc


def _mode_of(target: Path) -> int | None:
    try:
        return stat.S_IMODE(target.stat().st_mode) & 0o777
    except FileNotFoundError:
        return None


def _take_places(temporary: Sequence[str], targets: Sequence[Path]) -> None:
    if len(targets) == 1:
        os.replace(temporary[0], targets[0])
        return
    with tempfile.TemporaryDirectory(prefix=".old-", dir=targets[0].parent) as folder:
        kept = [Path(folder, str(i)) for i in range(len(targets))]
        for target, old in zip(targets, kept, strict=True):
            if target.exists():
                _second_name(target, old)
        n_placed = 0
        try:
            for name, target in zip(temporary, targets, strict=True):
                n_placed += 1  # ahead of the rename: an interrupt may come right after it
                os.replace(name, target)
        except BaseException:
            for target, old in list(zip(targets, kept, strict=True))[:n_placed]:
                if old.exists():
                    os.replace(old, target)
                elif target.is_file():
                    target.unlink()
            raise


def _second_name(target: Path, old: Path) -> None:
    try:
        os.link(target, old)
    except OSError:  # a file system without hard links, or a folder
        shutil.copy2(target, old)
