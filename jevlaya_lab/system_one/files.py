"""Writing a file so that it is there as a whole, or as it was before."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

__all__ = ["whole_file"]


@contextmanager
def whole_file(path: str | os.PathLike[str], *, binary: bool = False) -> Iterator[Any]:
    """Open a temporary file beside ``path`` that takes its place when the block ends well.

    Args:
        path: Where the file shall be; missing folders are made.
        binary: Whether it takes bytes; text is UTF-8 and its line ends are left alone.

    Yields:
        The open file.
    """
    target = Path(path).expanduser()
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}-", dir=target.parent)
    try:
        opened: IO[Any] = (
            os.fdopen(handle, "wb")
            if binary
            else os.fdopen(handle, "w", encoding="utf-8", newline="")
        )
        with opened:
            yield opened
        os.chmod(name, 0o644)
        os.replace(name, target)
    except BaseException:
        with suppress(FileNotFoundError):  # an interrupt after the file took its place
            os.unlink(name)
        raise
