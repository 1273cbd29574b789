"""Which resident checkpoint goes first: one small piece that can be replaced (L-32)."""

from __future__ import annotations

from typing import Protocol

__all__ = ["EvictionPolicy", "LeastRecentlyUsed"]


class EvictionPolicy(Protocol):
    """Which resident checkpoint goes first. Called under the pool's lock: keep it quick."""

    def used(self, name: str) -> None:
        """The checkpoint was built, attached or asked for."""

    def removed(self, name: str) -> None:
        """The checkpoint is no longer resident."""

    def order(self) -> list[str]:
        """The resident names; the first one is evicted next."""


class LeastRecentlyUsed:
    """The one that was not asked for for longest goes first (L-32)."""

    def __init__(self) -> None:
        self._names: dict[str, None] = {}

    def used(self, name: str) -> None:
        """Move the name to the end."""
        self._names.pop(name, None)
        self._names[name] = None

    def removed(self, name: str) -> None:
        """Forget the name."""
        self._names.pop(name, None)

    def order(self) -> list[str]:
        """Oldest use first."""
        return list(self._names)
