"""Residency: the checkpoints that a Router knows and holds, and the events of their life.

The :class:`CheckpointPool` decides who is resident; here agents are built from their sources, and
hooks hear of it, always after the pool has let go of its lock (L-30).
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

from jevlaya_lab.system_one import lifecycle
from jevlaya_lab.system_one.agent import Agent
from jevlaya_lab.system_one.asking import check_agent
from jevlaya_lab.system_one.call_tree import OneCall
from jevlaya_lab.system_one.calling import raise_again
from jevlaya_lab.system_one.context import PredictContext
from jevlaya_lab.system_one.errors import CheckpointError, InvalidOption
from jevlaya_lab.system_one.eviction import EvictionPolicy
from jevlaya_lab.system_one.hooks import CallableArg, HookArg, HookRegistry
from jevlaya_lab.system_one.pool import ALIASES, CheckpointPool, Loaded
from jevlaya_lab.system_one.registry import (
    BUILT_IN,
    Source,
    as_source,
    check_name,
    starting_sources,
)

__all__ = ["Residency"]

_OWN_ARGUMENTS: Final = frozenset(
    {
        *("model_id_or_path", "device", "token", "subfolder", "revision", "network", "config"),
        *("hooks", "on_predict_start", "on_predict_end"),
        *("hooks_raise", "hooks_concurrent", "hooks_timeout"),
    }
)
"""Arguments of Agent that a Router sets itself, or that make no sense for all checkpoints."""

Self = TypeVar("Self", bound="Residency")


class Residency(HookRegistry):
    """Registered checkpoints of which some are resident; see :class:`Router` for the arguments."""

    def __init__(
        self,
        models: Any,
        *,
        device: Any,
        token: str | None,
        revision: str | None,
        revisions: Mapping[str, str | None] | None,
        sha256_digests: Mapping[str, Mapping[str, str] | None] | None,
        agent_kwargs: Mapping[str, Any] | None,
        max_loaded: int,
        policy: EvictionPolicy | None,
        default: str | None,
        standalone_repos: bool,
        hooks: HookArg,
        on_predict_start: CallableArg,
        on_predict_end: CallableArg,
        hooks_raise: bool,
        hooks_concurrent: bool,
        hooks_timeout: float | None,
    ) -> None:
        super().__init__(
            hooks, on_predict_start, on_predict_end, hooks_raise, hooks_concurrent, hooks_timeout
        )
        sources, usual = starting_sources(models, standalone_repos)
        named = self._by_key(sources)
        self._pool = CheckpointPool(self._build, named, max_loaded=max_loaded, policy=policy)
        self.device = device
        self.token = token
        self.revision = revision
        self.revisions = {self.resolve(name): each for name, each in (revisions or {}).items()}
        self.sha256_digests = {
            self.resolve(name): digests for name, digests in (sha256_digests or {}).items()
        }
        self.agent_kwargs = _checked_kwargs(agent_kwargs)
        self.default = usual if default is None else default

    @property
    def default(self) -> str:
        """The checkpoint for states of which nothing can be told; may be set to any known name."""
        return self._default

    @default.setter
    def default(self, name: str) -> None:
        self._default = self.resolve(name)

    def resolve(self, name: Any) -> str:
        """The registered name that a name or an alias (``"ml"``) stands for.

        Raises:
            UnknownCheckpoint: It stands for none; the message names the nearest.
        """
        return self._pool.resolve(name)

    def load(self, name: str) -> Any:
        """The agent of a checkpoint: the resident one, or one that is built now (L-13).

        Hooks hear ``on_evict`` of each checkpoint that had to go, then ``on_load`` (L-31); the
        per-call hooks of a prediction do not.

        Raises:
            UnknownCheckpoint: No such name.
            CheckpointError: It cannot be fetched or read; the message names the ways out.
        """
        loaded = self._pool.load(name)
        if loaded.built:
            self._announce_load(loaded)
        return loaded.agent

    def attach(self, name: str, agent: Any) -> Any:
        """Let an agent that exists answer under a name, beside or instead of a registered one.

        ``max_loaded`` is raised where it would not fit (L-34); ``on_load`` does not run, since
        nothing was built. An agent that it replaces is let go, with ``on_evict``.

        Args:
            name: A known name, an alias, or a new one.
            agent: Ours, ``laya``'s, or any object with ``system_one`` or ``predict_batch``.

        Returns:
            The agent.
        """
        check_agent(agent)
        began = time.perf_counter()
        key, replaced = self._pool.attach(self._key(name), agent)
        if replaced:
            self._announce_evictions([key], began)
        return agent

    def preload(self: Self, names: Iterable[str] | None = None) -> Self:
        """Load these, or all with a source; ``max_loaded`` is raised so that none goes (L-34)."""
        if isinstance(names, str):
            names = [names]
        before = self.max_loaded
        try:
            for name in self._pool.make_room(names):
                self.load(name)
        except BaseException:
            self._pool.limit(before)
            raise
        return self

    def unload(self, name: str | None = None) -> None:
        """Let go of a checkpoint, or of all; a build of it under way is waited for (L-33)."""
        began = time.perf_counter()
        self._announce_evictions(self._pool.unload(name), began)

    def register(self, name: str, source: Any, description: str | None = None) -> str:
        """Add a checkpoint, or give a name another source; nothing is built yet.

        An agent of the former source is let go, with ``on_evict``.

        Args:
            name: Letters, digits, ``.``, ``_`` and ``-``.
            source: A folder, ``org/name`` on a hub, or a pair ``(repo, subfolder)``.
            description: Free text for whoever reads :attr:`registered`.

        Returns:
            The name as it is kept.
        """
        began = time.perf_counter()
        key, freed = self._pool.register(self._key(name), as_source(name, source, description))
        self._announce_evictions(freed, began)
        return key

    def unregister(self, name: str) -> None:
        """Remove a checkpoint with its agent; calls that hold the agent go on.

        Raises:
            InvalidOption: Routing needs the name; give it another source with ``register``.
        """
        key = self.resolve(name)
        if key in BUILT_IN or key == self.default:
            which = "one that routing chooses" if key in BUILT_IN else "the default"
            raise InvalidOption(
                f"checkpoint {key!r} is {which} and cannot be unregistered; give it another source "
                f"with register({key!r}, …), or free its memory with unload({key!r})"
            )
        began = time.perf_counter()
        self._announce_evictions(self._pool.unregister(key), began)
        self.revisions.pop(key, None)
        self.sha256_digests.pop(key, None)

    @property
    def registered(self) -> dict[str, dict[str, Any]]:
        """By name: ``source`` (``None`` for an attached agent), ``description``, ``stand_in``."""
        return {
            name: {
                "source": None if source is None else str(source),
                "description": None if source is None else source.description,
                "stand_in": (at := self._pool.source_of(name)) is not None and at.stand_in,
            }
            for name, source in self._pool.registered.items()
        }

    @property
    def models(self) -> dict[str, Source | None]:
        """The sources by name; a copy."""
        return self._pool.registered

    @property
    def loaded(self) -> list[str]:
        """The resident names; the first one would be evicted next."""
        return self._pool.loaded

    @property
    def max_loaded(self) -> int:
        """How many checkpoints may be resident; lowering it evicts at once."""
        return self._pool.max_loaded

    @max_loaded.setter
    def max_loaded(self, value: int) -> None:
        began = time.perf_counter()
        self._announce_evictions(self._pool.set_max_loaded(value), began)

    @classmethod
    def _by_key(cls, sources: Mapping[str, Source]) -> dict[str, Source]:
        given: dict[str, str] = {}
        named: dict[str, Source] = {}
        for name, source in sources.items():
            key = cls._key(name)
            if key in given and name != given[key] and not named[key].stand_in:
                raise InvalidOption(f"models names {key!r} twice: as {given[key]!r} and {name!r}")
            given[key], named[key] = name, source
        return named

    @staticmethod
    def _key(name: Any) -> str:
        key = check_name(name)
        return ALIASES.get(key, key)

    def _build(self, name: str, source: Source) -> Agent:
        options = dict(self.agent_kwargs)
        digests = {**(options.pop("expected_sha256", None) or {})}
        digests |= self.sha256_digests.get(name) or {}
        try:
            return Agent(
                source.repo,
                self.device,
                token=self.token,
                subfolder=source.subfolder,
                revision=self.revisions.get(name) or self.revision,
                expected_sha256=digests or None,
                **options,
            )
        except CheckpointError as exc:
            raise type(exc)(
                f"checkpoint {name!r} ({source}) cannot be loaded: {exc}. "
                f"Ways out: router.register({name!r}, 'folder of a checkpoint'), "
                f"router.attach({name!r}, agent), Router(default=…), or lang='en' for a request "
                "that the English checkpoint may answer."
            ) from exc

    def _announce_load(self, loaded: Loaded) -> None:
        ended = loaded.began + loaded.elapsed_ms / 1e3
        gone = [self._context("evict", n, ended, loaded.evicting_ms) for n in loaded.evicted]
        ctx = self._context("load", loaded.name, loaded.began, loaded.elapsed_ms)
        ctx.agent = loaded.agent
        self._announce([*gone, ctx])

    def _announce_evictions(self, names: Iterable[str], began: float) -> None:
        elapsed_ms = (time.perf_counter() - began) * 1e3
        self._announce([self._context("evict", name, began, elapsed_ms) for name in names])

    def _announce(self, contexts: Iterable[PredictContext]) -> None:
        """Run the event of each; the first error is raised after all have run, as in L-28."""
        hooks = self.active_hooks()
        first: BaseException | None = None
        if not hooks.entries:
            return
        with OneCall():
            for ctx in contexts:
                error = lifecycle.announce(f"on_{ctx.scope}", ctx, hooks)
                first = error if first is None else first
        if first is not None:
            raise_again(first)

    def _context(self, scope: str, name: str, began: float, elapsed_ms: float) -> PredictContext:
        return PredictContext(
            states=[],
            questions={},
            model=name,
            router=self,
            started_at=began,
            elapsed_ms=elapsed_ms,
            scope=scope,
            entry=scope,
        )


def _checked_kwargs(agent_kwargs: Mapping[str, Any] | None) -> dict[str, Any]:
    given = dict(agent_kwargs or {})
    known = set(inspect.signature(Agent.__init__).parameters) - {"self"}
    for name in given:
        if name in _OWN_ARGUMENTS:
            raise InvalidOption(
                f"agent_kwargs cannot hold {name!r}: the Router sets it for each checkpoint, or "
                "takes it itself (hooks of an agent: attach an agent that has them)"
            )
        if name not in known:
            raise InvalidOption(
                f"agent_kwargs holds {name!r}, which Agent does not take; it takes "
                f"{sorted(known - _OWN_ARGUMENTS)}"
            )
    return given
