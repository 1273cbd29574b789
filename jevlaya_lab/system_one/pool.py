"""CheckpointPool: which checkpoints are resident, and who builds, evicts or waits.

Locks live in this room only. Its invariants:

- ``_lock`` guards the tables below and is never held while a checkpoint is built, while a build is
  waited for, or while anybody else's code runs.
- A name is resident (in ``_agents``), being built (in ``_builds``), or neither; it is in both only
  for a moment at the end of a build, or while an agent is attached during one.
- There is at most one build of a name at a time; whoever asks meanwhile gets its outcome.
- Only the thread that entered a build takes it out again, whatever happened; this one step needs
  no lock, so that no interrupt can keep it from happening.
- After every change at most ``max_loaded`` names are resident. An agent that somebody still uses
  lives on until they let go of it.
"""

from __future__ import annotations

import difflib
import gc
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from jevlaya_lab.system_one.calling import raise_again
from jevlaya_lab.system_one.encoding import check_count
from jevlaya_lab.system_one.errors import InvalidOption, UnknownCheckpoint
from jevlaya_lab.system_one.eviction import EvictionPolicy, LeastRecentlyUsed

__all__ = ["ALIASES", "CheckpointPool", "Loaded"]

ALIASES: Final[Mapping[str, str]] = {
    "en": "english",
    "laya": "english",
    "default": "english",
    "ml": "multilingual",
    "multi": "multilingual",
    "laya-multilingual": "multilingual",
    "typed": "typed-decisions",
    "typed_decisions": "typed-decisions",
    "decisions": "typed-decisions",
    "laya-typed-decisions": "typed-decisions",
}
"""What people type, and the name that it stands for. A registered name goes before an alias."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a load did.

    Attributes:
        name: The resolved name.
        agent: The agent.
        built: Whether this very call built it; a call that waited for another's build did not.
        evicted: Names that had to go for it, in order.
        began: Reading of ``time.perf_counter()`` when the build began.
        elapsed_ms: Milliseconds of the build; 0 where nothing was built.
        evicting_ms: Milliseconds that it took to give the memory of the evicted ones back.
    """

    name: str
    agent: Any
    built: bool = False
    evicted: tuple[str, ...] = ()
    began: float = 0.0
    elapsed_ms: float = 0.0
    evicting_ms: float = 0.0


@dataclass(slots=True)
class _Build:
    """A build under way, and its outcome for those who wait."""

    thread: int = field(default_factory=threading.get_ident)
    done: threading.Event = field(default_factory=threading.Event)
    agent: Any = None
    error: BaseException | None = None


class CheckpointPool:
    """Registered checkpoints, at most ``max_loaded`` of them resident.

    Args:
        build: Makes the agent of a name from its source; may take long, may fail.
        sources: What is registered from the start, by name; anything that ``build`` understands.
        max_loaded: How many may be resident.
        aliases: Other names for registered ones.
        policy: Which one is evicted first.

    Raises:
        InvalidOption: ``max_loaded`` is no whole number of at least 1.
    """

    def __init__(
        self,
        build: Callable[[str, Any], Any],
        sources: Mapping[str, Any] | None = None,
        *,
        max_loaded: int = 2,
        aliases: Mapping[str, str] = ALIASES,
        policy: EvictionPolicy | None = None,
    ) -> None:
        self._build = build
        self._aliases = dict(aliases)
        self._policy: EvictionPolicy = LeastRecentlyUsed() if policy is None else policy
        self._lock = threading.Lock()
        self._max_loaded = _least_one(max_loaded)
        self._sources: dict[str, Any] = {}
        self._agents: dict[str, Any] = {}
        self._builds: dict[str, _Build] = {}
        self._attached: dict[str, None] = {}  # names whose agent came from outside
        for name, source in (sources or {}).items():
            self._sources[canonical(name)] = source

    def resolve(self, name: Any) -> str:
        """The registered name that a name or alias stands for.

        Raises:
            UnknownCheckpoint: It stands for none; the message names the nearest.
        """
        if type(name) is str and (name in self._sources or name in self._attached):
            return name
        key = canonical(name)
        with self._lock:
            known = dict.fromkeys([*self._sources, *self._attached])
        if key in known:
            return key
        meant = self._aliases.get(key)
        if meant in known:
            return meant
        near = difflib.get_close_matches(key, [*known, *self._aliases], n=3)
        hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
        names = ", ".join(known) or "none"
        raise UnknownCheckpoint(
            f"no checkpoint {name!r} is registered; {hint}registered are {names}"
        )

    def load(self, name: str) -> Loaded:
        """The agent of a name: resident, or built now; one build for all who ask at once (L-35).

        Raises:
            UnknownCheckpoint: No such name.
            BaseException: The build failed; all who waited get the same, and the next load tries
                again.
        """
        key = self.resolve(name)
        resident = self._resident(key)
        if resident is not None:
            return resident
        build = _Build()
        try:
            with self._lock:
                if key in self._agents:  # since then
                    self._policy.used(key)
                    return Loaded(key, self._agents[key])
                source = self._sources.get(key)
                if source is None and key not in self._builds:
                    raise UnknownCheckpoint(
                        f"checkpoint {key!r} was attached without a source and is gone; attach it "
                        "again, or register a source for it"
                    )
                under_way = self._builds.setdefault(key, build)
            if under_way is build:
                return self._built(key, source, build)
        except BaseException as exc:
            build.error = exc
            raise
        finally:
            # Without the lock, and done here alone: whatever interrupts, nobody waits for ever.
            if self._builds.get(key) is build:
                del self._builds[key]
            build.done.set()
        if under_way.thread == threading.get_ident():
            raise InvalidOption(f"the build of checkpoint {key!r} asks for this very checkpoint")
        under_way.done.wait()
        if under_way.error is not None:
            raise_again(under_way.error)
        with self._lock:
            if self._agents.get(key) is under_way.agent:
                self._policy.used(key)
        return Loaded(key, under_way.agent)

    def _resident(self, key: str) -> Loaded | None:
        with self._lock:
            if key not in self._agents:
                return None
            self._policy.used(key)
            return Loaded(key, self._agents[key])

    def _built(self, key: str, source: Any, build: _Build) -> Loaded:
        began = time.perf_counter()
        evicted: list[str] = []
        agent = self._build(key, source)
        elapsed_ms = (time.perf_counter() - began) * 1e3
        with self._lock:
            built = key not in self._agents
            if not built:  # attached meanwhile: that one wins
                agent = self._agents[key]
                self._policy.used(key)
            elif self._sources.get(key) is source:  # still what the name stands for
                self._policy.used(key)
                self._agents[key] = agent
                self._attached.pop(key, None)
                evicted = self._evict(keep=key)
        build.agent = agent
        released = time.perf_counter()
        if evicted:
            release_memory()
        evicting_ms = (time.perf_counter() - released) * 1e3 if evicted else 0.0
        if not built:
            elapsed_ms = 0.0
        return Loaded(key, agent, built, tuple(evicted), began, elapsed_ms, evicting_ms)

    def attach(self, name: str, agent: Any) -> tuple[str, bool]:
        """Make an agent that exists resident under a name; raises ``max_loaded`` to fit (L-34).

        Returns:
            The name under which it can be asked for, and whether another agent had to go for it.
        """
        try:
            key = self.resolve(name)
        except UnknownCheckpoint:
            key = canonical(name)
        with self._lock:
            replaced = self._agents.get(key, agent) is not agent
            self._policy.used(key)
            self._attached[key] = None  # the name stays known when the agent is gone
            self._agents[key] = agent
            self._max_loaded = max(self._max_loaded, len(self._agents))
        if replaced:
            release_memory()
        return key, replaced

    def make_room(self, names: Iterable[str] | None = None) -> list[str]:
        """Raise ``max_loaded`` so that these, or all with a source, fit beside the others (L-34).

        Returns:
            Their names, each once, for :meth:`load`.
        """
        with self._lock:
            wanted = list(self._sources)
        if names is not None:
            wanted = list(dict.fromkeys(self.resolve(name) for name in names))
        with self._lock:
            self._max_loaded = max(self._max_loaded, len({*wanted, *self._agents}))
        return wanted

    def unload(self, name: str | None = None) -> list[str]:
        """Let go of a checkpoint, or of all; a build of it under way is waited for (L-33).

        Returns:
            The names that were resident, in the order in which they would have been evicted.
        """
        keys = None if name is None else {self.resolve(name)}
        freed = self._drop(keys)
        if freed:
            release_memory()
        return freed

    def _drop(self, keys: set[str] | None) -> list[str]:
        while True:
            with self._lock:
                under_way = list(self._builds.items())  # in one step: they end without the lock
                builds = [b for k, b in under_way if keys is None or k in keys]
                if not builds:
                    freed = [k for k in self._order() if keys is None or k in keys]
                    for key in freed:
                        self._remove(key)
                    return freed
            for build in builds:
                if build.thread == threading.get_ident():
                    raise InvalidOption("a build cannot unload the checkpoint that it is building")
                build.done.wait()

    def register(self, name: str, source: Any) -> tuple[str, list[str]]:
        """Add a checkpoint, or give a name another source; an agent of the old one is let go.

        Returns:
            The name, and the names that were evicted for it.
        """
        key = canonical(name)
        if source is None:
            raise InvalidOption(
                f"checkpoint {name!r} needs a source: a folder or org/name on a hub"
            )
        with self._lock:
            known = key in self._sources or key in self._attached
            replaced = known and self._sources.get(key) != source
            self._sources[key] = source
        return key, self.unload(key) if replaced else []

    def unregister(self, name: str) -> list[str]:
        """Remove a checkpoint with its agent; who uses that agent may go on.

        Returns:
            The names that were evicted for it.
        """
        key = self.resolve(name)
        with self._lock:
            self._sources.pop(key, None)
            self._attached.pop(key, None)
        freed = self._drop({key})
        if freed:
            release_memory()
        return freed

    @property
    def registered(self) -> dict[str, Any]:
        """Sources by name; ``None`` for a name that only has an attached agent."""
        with self._lock:
            return {**dict.fromkeys(self._attached), **self._sources}

    def limit(self, value: int) -> None:
        """Take ``max_loaded`` back to a value, or to what is resident where that is more."""
        with self._lock:
            self._max_loaded = max(value, len(self._agents))

    def is_loaded(self, key: str) -> bool:
        """Whether the checkpoint of a resolved name is resident."""
        return key in self._agents

    def source_of(self, key: str) -> Any:
        """Where the agent of a resolved name comes from; ``None`` for one that was attached."""
        if key in self._attached and key in self._agents:
            return None
        return self._sources.get(key)

    @property
    def loaded(self) -> list[str]:
        """The resident names; the first one would be evicted next."""
        with self._lock:
            return self._order()

    @property
    def max_loaded(self) -> int:
        """How many may be resident."""
        with self._lock:
            return self._max_loaded

    def set_max_loaded(self, value: int) -> list[str]:
        """Change how many may be resident; gives the names that had to go."""
        least = _least_one(value)
        with self._lock:
            self._max_loaded = least
            evicted = self._evict()
        if evicted:
            release_memory()
        return evicted

    def _evict(self, keep: str | None = None) -> list[str]:
        evicted = []
        while len(self._agents) > self._max_loaded:
            victim = next(name for name in self._order() if name != keep)
            self._remove(victim)
            evicted.append(victim)
        return evicted

    def _order(self) -> list[str]:
        """The policy's order of what is really resident, also where an interrupt came between."""
        order = [key for key in self._policy.order() if key in self._agents]
        return [*(key for key in self._agents if key not in order), *order]

    def _remove(self, key: str) -> None:
        self._agents.pop(key, None)
        self._policy.removed(key)

    def __repr__(self) -> str:
        return f"CheckpointPool(loaded={self.loaded}, max_loaded={self.max_loaded})"


def canonical(name: Any) -> str:
    """A name as it is kept: without blanks around it, in lower case.

    Raises:
        UnknownCheckpoint: It is no text, or blank.
    """
    if not isinstance(name, str) or not name.strip():
        raise UnknownCheckpoint(f"a checkpoint's name is text such as 'english', got {name!r}")
    return name.strip().lower()


def release_memory() -> None:
    """Give back what evicted agents held: cycles are collected and device caches emptied."""
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is None:
        return
    for kind in ("cuda", "xpu", "mps"):
        backend = getattr(torch, kind, None)
        if backend is not None and getattr(backend, "is_available", lambda: False)():
            backend.empty_cache()


def _least_one(value: Any) -> int:
    number = check_count("max_loaded", value)
    if number is None:
        raise InvalidOption("max_loaded must be a whole number of at least 1, got None")
    return number
