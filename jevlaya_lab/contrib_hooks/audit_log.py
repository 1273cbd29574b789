"""An audit log: one line of JSON for every run, in a file that only grows."""

from __future__ import annotations

import itertools
import json
import os
import threading
import warnings
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final

from jevlaya_lab.contrib_hooks.runs import checkpoint_of, entry_of, scope_of
from jevlaya_lab.system_one.encoding import check_count
from jevlaya_lab.system_one.errors import InvalidOption
from jevlaya_lab.system_one.events import BaseHook

__all__ = ["AuditLog"]

_VALUES: Final = {"choice": "choice", "score": "score", "noul": "noul"}


class AuditLog(BaseHook):
    """Writes who was asked what and what came out, when the run ends; failed runs as well.

    Each line is one JSON object: ``time`` (UTC), ``run_id``, ``call_id``, ``parent_run_id``,
    ``scope``, ``entry``, ``model``, ``n_states``, ``questions`` (their ids), ``skipped``,
    ``elapsed_ms``, ``usage``, ``routing`` (model and reason), ``error`` (its type), and, where
    wanted, ``answers``, ``states`` and ``message``. What ``laya`` does not say is ``null``.

    A line is whole, also with many threads, and with other processes that append to the same file
    on a local disk: it is one write to the end of the file. The file is readable for its owner
    alone. End hooks run in order, and one that raises keeps those behind it from running: install
    the log first to have a line of every run, or last to have results as the caller gets them.

    Args:
        path: The file; missing folders are made.
        answers: Whether the answers are written, without their probabilities.
        text: Whether states, and the message of an error, are written; both may hold what people
            wrote.
        max_bytes: Size from which on the file is put aside as ``<name>.1``, the one before as
            ``<name>.2``, and so on. ``None``: never, and the file grows without bound. Only one
            process may write to a log that rotates.
        keep: How many files are kept aside.
        fsync: Whether each line is on the disk before the call returns; takes milliseconds.
        failures: ``raise``: a line that cannot be written fails the call with the ``OSError``, so
            that nothing is answered without a record. ``warn``: it is counted in ``n_lost``, with
            a ``RuntimeWarning``.

    Attributes:
        path: The file.
        n_written: Lines written.
        n_lost: Lines that could not be written.

    Raises:
        InvalidOption: An argument is outside what it takes.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        answers: bool = True,
        text: bool = False,
        max_bytes: int | None = None,
        keep: int = 5,
        fsync: bool = False,
        failures: str = "raise",
    ) -> None:
        if failures not in ("raise", "warn"):
            raise InvalidOption(f"AuditLog: failures is 'raise' or 'warn', got {failures!r}")
        self.path = Path(path).expanduser()
        self.n_written = self.n_lost = 0
        self._answers, self._text = bool(answers), bool(text)
        self._max_bytes = check_count("max_bytes", max_bytes)
        self._keep = check_count("keep", keep) or 1
        self._fsync, self._failures = bool(fsync), failures
        self._file: int | None = None
        self._lock = threading.Lock()

    def on_predict_end(self, ctx: Any) -> None:
        """Write the run's line."""
        entry = self._entry(ctx)
        try:
            data = json.dumps(entry, ensure_ascii=False, default=_shown)
        except (TypeError, ValueError, RecursionError):  # a ring, or keys that JSON has not
            entry["states"] = [_shown(state) for state in entry.get("states", ())]
            data = json.dumps(entry, ensure_ascii=False, default=_shown)
        line = f"{data}\n".encode("utf-8", "backslashreplace")
        try:
            with self._lock:
                self._write(line)
                self.n_written += 1
        except OSError as exc:
            with self._lock:
                self.n_lost += 1
                self._close()
            if self._failures == "raise":
                raise
            warnings.warn(
                f"AuditLog: a line could not be written to {self.path}: {exc}",
                RuntimeWarning,
                stacklevel=2,
            )

    def close(self) -> None:
        """Close the file; the next run opens it again."""
        with self._lock:
            self._close()

    def __enter__(self) -> AuditLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_file", None) is not None:
            self._close()

    def __repr__(self) -> str:
        return f"AuditLog({str(self.path)!r}, written={self.n_written}, lost={self.n_lost})"

    def _entry(self, ctx: Any) -> dict[str, Any]:
        states, results = _listed(ctx.states), _listed(ctx.results)
        decision = ctx.decision if isinstance(ctx.decision, (dict, Mapping)) else {}
        entry = {
            "time": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
            "run_id": ctx.run_id,
            "call_id": getattr(ctx, "call_id", None),
            "parent_run_id": getattr(ctx, "parent_run_id", None),
            "scope": scope_of(ctx),
            "entry": entry_of(ctx) or None,
            "model": checkpoint_of(ctx) or None,
            "n_states": len(states),
            "questions": [str(qid) for qid in _listed(ctx.questions)],
            "skipped": getattr(ctx, "skipped", None),
            "elapsed_ms": None if ctx.elapsed_ms is None else round(ctx.elapsed_ms, 3),
            "usage": dict(ctx.usage) if isinstance(ctx.usage, (dict, Mapping)) else None,
            "routing": {key: decision.get(key) for key in ("model", "reason")}
            if decision
            else None,
            "error": None if ctx.error is None else type(ctx.error).__name__,
        }
        if self._answers:
            entry["answers"] = [_answers(result) for result in results]
        if self._text:
            entry["states"] = states
            entry["message"] = None if ctx.error is None else str(ctx.error)
        return entry

    def _write(self, line: bytes) -> None:
        file = self._opened()
        size = os.fstat(file).st_size
        if self._max_bytes is not None and size and size + len(line) > self._max_bytes:
            self._rotate()
            file, size = self._opened(), 0
        done = 0
        try:
            while done < len(line):  # once, but for a disk that is full
                done += os.write(file, line[done:])
            if self._fsync:
                os.fsync(file)
        except OSError:
            if done > 0:
                with suppress(OSError):
                    os.ftruncate(file, size)  # no half of a line stays
            raise

    def _opened(self) -> int:
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
            self._file = os.open(self.path, flags | getattr(os, "O_BINARY", 0), 0o600)
            size = os.fstat(self._file).st_size
            if size:
                os.lseek(self._file, size - 1, os.SEEK_SET)
                if os.read(self._file, 1) != b"\n":  # a crash in the middle of a line
                    os.write(self._file, b"\n")
        return self._file

    def _rotate(self) -> None:
        self._close()
        names = [self.path, *(Path(f"{self.path}.{i}") for i in range(1, self._keep + 1))]
        for old, new in reversed(list(itertools.pairwise(names))):
            if old.exists():
                os.replace(old, new)

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):
                os.close(file)


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple, dict, Mapping)) else []


def _answers(result: Any) -> Any:
    answers = result.get("answers") if isinstance(result, (dict, Mapping)) else None
    if not isinstance(answers, (dict, Mapping)):
        return None
    found = {}
    for qid, answer in answers.items():
        known = isinstance(answer, (dict, Mapping))
        name = _VALUES.get(str(answer.get("type"))) if known else None
        found[str(qid)] = answer.get(name) if name is not None else None
    return found


def _shown(value: Any) -> str:
    return f"<{type(value).__name__}>"
