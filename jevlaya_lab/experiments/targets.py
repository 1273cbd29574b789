"""What experiments run on: twins of the given agent or router, so that it comes out as it was.

A twin shares what is loaded and has hooks and locks of its own. A fresh router knows the same
checkpoints and holds none of them.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from jevlaya_lab.system_one.agent import Agent
from jevlaya_lab.system_one.errors import InvalidInput
from jevlaya_lab.system_one.hooks import HookRegistry
from jevlaya_lab.system_one.router import Router

__all__ = [
    "ATTACHED",
    "agent_twin",
    "check_target",
    "described",
    "fresh_router",
    "is_router",
    "loadable",
    "one_agent",
]

ATTACHED: Final = "experiment"
"""Name under which a twin is attached to a fresh router."""

_OF_A_ROUTER: Final = ("route", "load", "unload", "attach", "register", "add_hook", "remove_hook")
_OF_AN_AGENT: Final = ("predict_batch", "add_hook", "remove_hook")


def is_router(target: Any) -> bool:
    """Whether it routes, as against an agent; ``None`` stands for a router."""
    return target is None or hasattr(target, "route")


def check_target(target: Any, *, router: str = "") -> None:
    """See that an experiment can be run on this, before anything is loaded.

    Args:
        target: What the user gave; ``None`` is always good.
        router: Why it must be a router; empty where an agent will do.

    Raises:
        InvalidInput: It is neither an agent nor a router with hooks, or no router.
    """
    if target is None:
        return
    if router and not is_router(target):
        raise InvalidInput(
            f"{router}; got a {type(target).__name__}. Give a Router, or no agent at all for the "
            "embedded checkpoints"
        )
    wanted = _OF_A_ROUTER if is_router(target) else _OF_AN_AGENT
    missing = [name for name in wanted if not hasattr(target, name)]
    if missing or isinstance(target, type):
        raise InvalidInput(
            f"an experiment runs on an Agent or a Router, of this package or of laya; got "
            f"{target!r}" + (f", which has no {missing[0]}" if missing else "")
        )


def described(target: Any) -> str:
    """On what an experiment ran, in a word or two, for its parameters."""
    if target is None:
        return "the embedded checkpoints"
    name = f"{type(target).__module__.partition('.')[0]}.{type(target).__name__}"
    model = getattr(target, "model_id", None)
    return f"{name}({str(model)!r})" if model is not None else name


def agent_twin(agent: Any, *, hooks_concurrent: bool = True) -> Any:
    """An agent with the same network and settings, and without hooks.

    Raises:
        InvalidInput: It is of a make that keeps its hooks in a way that is not known.
    """
    twin = copy.copy(agent)
    if isinstance(twin, HookRegistry):
        HookRegistry.__init__(twin, hooks_concurrent=hooks_concurrent)
    elif hasattr(twin, "_hooks_lock") and hasattr(twin, "_hooks_mutex"):  # laya's
        twin.hooks = []
        twin.hooks_raise, twin.hooks_timeout = True, None
        twin.hooks_concurrent = hooks_concurrent
        twin._hooks_lock = None if hooks_concurrent else threading.RLock()
        twin._hooks_mutex = threading.Lock()
    else:
        raise InvalidInput(
            f"a {type(agent).__name__} has no hooks of a known kind; this experiment runs on "
            "agents of this package and of laya"
        )
    return twin


def fresh_router(router: Any, **options: Any) -> Any:
    """A router of the same make that knows the same checkpoints and holds none of them.

    Args:
        router: The given one, ``None`` for the embedded checkpoints.
        **options: For the new one: ``max_loaded``, ``hooks_concurrent``.

    Raises:
        InvalidInput: It is of a make that cannot be made again.
    """
    if router is None:
        return Router(**options)
    try:
        sources = {name: each for name, each in router.models.items() if each is not None}
        kept: dict[str, Any] = {
            name: getattr(router, name)
            for name in ("device", "token", "revision", "auto_task_detection", "lang_guess")
        }
        for name in ("revisions", "sha256_digests"):
            given = getattr(router, name) or {}
            kept[name] = {key: each for key, each in given.items() if key in sources}
        kept["agent_kwargs"] = dict(router.agent_kwargs or {})
        if router.default in sources:
            kept["default"] = router.default
        # A subclass may take other arguments than the Router that it is made of.
        make = Router if isinstance(router, Router) else type(router)
        return make(models=sources, **kept, **options)
    except (AttributeError, TypeError) as error:
        raise InvalidInput(
            f"a {type(router).__name__} cannot be made again with the same checkpoints ({error}); "
            "this experiment runs on Routers of this package and of laya"
        ) from error


def loadable(router: Any) -> tuple[str, ...]:
    """Names of checkpoints that can be loaded here and now: without a hub."""
    return tuple(name for name, source in router.models.items() if _is_local(source))


def _is_local(source: Any) -> bool:
    if isinstance(source, (tuple, list)):
        source = source[0] if source else None
    place = getattr(source, "repo", source)
    return isinstance(place, str) and (place == "embedded" or Path(place).is_dir())


@contextmanager
def one_agent(target: Any) -> Iterator[Any]:
    """An agent to make twins of: the given one, or one of the router's checkpoints.

    What is resident is taken first; else a checkpoint is loaded for the time of the block, into a
    router of its own.

    Raises:
        InvalidInput: The router holds no agent and knows no checkpoint that is here.
    """
    if not is_router(target):
        yield target
        return
    held = [] if target is None else list(target.loaded)
    if held:
        # From the least recent one on, so that their order stays.
        yield [target.load(name) for name in held][-1]
        return
    with_sources = fresh_router(target, max_loaded=1)
    names = loadable(with_sources)
    if not names:
        raise InvalidInput(
            "the router holds no checkpoint, and knows none that is on this machine; load one "
            "first: router.load(name)"
        )
    try:
        yield Agent() if target is None else with_sources.load(names[0])
    finally:
        with_sources.unload()
