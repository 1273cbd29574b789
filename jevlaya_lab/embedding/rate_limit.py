"""Requests and tokens per minute, kept by waiting."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Final

from jevlaya_lab.system_one.errors import InvalidOption

__all__ = ["RateLimit"]

_BURST_SECONDS: Final = 1.0
"""How much of the allowance may be used at once after a pause."""


class RateLimit:
    """Lets so many units pass per minute; callers take their turn in order, on any loop.

    Args:
        name: The option that sets it.
        per_minute: Units per minute; ``None`` for no limit.

    Raises:
        InvalidOption: The limit is not above 0.
    """

    def __init__(self, name: str, per_minute: float | None) -> None:
        if per_minute is not None and not per_minute > 0:
            raise InvalidOption(f"{name} must be above 0, or None for no limit, got {per_minute!r}")
        self.name = name
        self._seconds_each = None if per_minute is None else 60.0 / per_minute
        self._lock = threading.Lock()
        self._free_at = 0.0

    async def take(self, units: float, deadline: float) -> float:
        """Wait until some units may pass.

        Args:
            units: How many.
            deadline: In ``time.monotonic()``; a turn after it is not waited for.

        Returns:
            0, or how many seconds too late the turn would have been; nothing was taken then.
        """
        if self._seconds_each is None:
            return 0.0
        cost = units * self._seconds_each
        now = time.monotonic()
        with self._lock:
            turn = max(self._free_at, now - _BURST_SECONDS)
            if turn > deadline:
                return turn - deadline
            self._free_at = turn + cost
        try:
            await asyncio.sleep(max(0.0, turn - now))
        except asyncio.CancelledError:
            with self._lock:
                self._free_at -= cost
            raise
        return 0.0
