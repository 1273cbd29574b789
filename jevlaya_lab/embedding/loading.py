"""Loading a model once, whoever asks for it, from however many threads and loops (E-4)."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, Generic, Literal, TypeVar

from jevlaya_lab.embedding.errors import ModelLoadFailed, Where
from jevlaya_lab.embedding.workers import in_thread

__all__ = ["Loader", "State"]

T = TypeVar("T")

State = Literal["unloaded", "loading", "ready", "failed"]

ATTEMPTS: Final = 5
"""Failures in a row after which only ``begin(force=True)`` tries again."""

_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 60.0


class Loader(Generic[T]):
    """Builds one thing on a thread of its own; what failed leaves nothing behind but its error.

    Args:
        build: Makes it; may take long, may fail.
        where: For error messages.
        on_ready: Called in that thread with what was built, when it counts as ready.
        on_failed: Called in that thread after a failure.
        clock: Seconds that only go forward.
    """

    def __init__(
        self,
        build: Callable[[], T],
        where: Where,
        *,
        on_ready: Callable[[T], Any],
        on_failed: Callable[[], Any],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._build = build
        self._where = where
        self._on_ready = on_ready
        self._on_failed = on_failed
        self._clock = clock
        self._lock = threading.Lock()
        self._state: State = "unloaded"
        self._attempt: Future[None] | None = None
        self._cause: BaseException | None = None
        self._failures = 0
        self._again_at = 0.0

    @property
    def state(self) -> State:
        """``unloaded``, ``loading``, ``ready`` or ``failed``."""
        return self._state

    def begin(self, *, force: bool = False) -> Future[None]:
        """See to it that it is loaded or being loaded.

        Args:
            force: Whether to try again now after a failure, however often it failed.

        Returns:
            The future of the attempt, shared by all who ask meanwhile.

        Raises:
            ModelLoadFailed: It failed lately, and the time for another attempt has not come.
        """
        with self._lock:
            if self._attempt is not None and self._state in ("loading", "ready"):
                return self._attempt
            wait = self._again_at - self._clock()
            given_up = self._failures >= ATTEMPTS
            if self._state == "failed" and not force and (given_up or wait > 0):
                raise self._error(None if given_up else wait)
            self._state = "loading"
            self._attempt = in_thread(self._load, "jevlaya-embedding-load")
            return self._attempt

    def error(self) -> ModelLoadFailed:
        """An exception for the last failure, a new one for each who waited."""
        with self._lock:
            return self._error(
                None if self._failures >= ATTEMPTS else self._again_at - self._clock()
            )

    def _error(self, wait: float | None) -> ModelLoadFailed:
        cause = self._cause
        what = f"{type(cause).__name__}: {cause}" if cause is not None else "unknown"
        when = (
            f"it failed {self._failures} times and is tried again only by preload()"
            if wait is None
            else f"a call tries again from {max(0.0, wait):.1f} s on"
        )
        error = ModelLoadFailed(
            f"the model could not be loaded ({what}); {when}",
            self._where,
            retry_after=None if wait is None else max(0.0, wait),
        )
        error.__cause__ = cause
        return error

    def _load(self) -> None:
        try:
            built = self._build()
        except BaseException as exc:  # also SystemExit of foreign code: this thread is ours
            traceback.clear_frames(exc.__traceback__)  # or it would keep what is half made
            with self._lock:
                self._failures += 1
                pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (self._failures - 1))
                self._again_at = self._clock() + pause
                self._cause = exc
                self._state = "failed"
            self._on_failed()
            raise self.error() from exc
        with self._lock:
            self._failures = 0
            self._cause = None
            self._state = "ready"
        self._on_ready(built)
