"""Whom an experiment asks: an agent or a router, of this package or of ``laya``, all in one way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import metadata
from typing import Any

from jevlaya_lab.lab.asking import is_router
from jevlaya_lab.system_one.errors import InvalidInput
from jevlaya_lab.system_one.router import Router

__all__ = ["as_it_was", "ask", "asked_of", "describe"]


def asked_of(agent: Any, name: str) -> Any:
    """The agent or router that was given, or a ``Router()`` where none was.

    Raises:
        InvalidInput: Hooks cannot be put into it, which the experiment of that name needs.
    """
    target = Router() if agent is None else agent
    if not (hasattr(target, "add_hook") and hasattr(target, "remove_hook")):
        raise InvalidInput(
            f"{name} watches with hooks, and {type(target).__name__} takes none; give an Agent or "
            "a Router of this package or of laya, or attach this one to a Router"
        )
    return target


@contextmanager
def as_it_was(target: Any) -> Iterator[None]:
    """A router that is asked itself: nothing it holds is evicted meanwhile, and nothing is added.

    For the time of the block there is room for all checkpoints that it knows. An attached agent
    that was evicted could not be built again.

    Args:
        target: What was given; an agent, and ``None``, are left alone.
    """
    if not all(hasattr(target, name) for name in ("loaded", "models", "max_loaded", "unload")):
        yield
        return
    held, room = list(target.loaded), target.max_loaded
    target.max_loaded = max(room, len({*held, *target.models}))
    try:
        yield
    finally:
        for name in [each for each in target.loaded if each not in held]:
            target.unload(name)
        for name in held:  # the least recent one first, so that their order is as before
            target.load(name)
        target.max_loaded = room


def ask(
    target: Any,
    states: Sequence[Any],
    questions: Mapping[Any, Any],
    *,
    models: Sequence[str | None] | None = None,
    of_request: Mapping[str, Any] | None = None,
    **options: Any,
) -> list[dict[str, Any]]:
    """One batch: of an agent one run, of a router one request per state.

    Args:
        target: The agent or router.
        states: What about.
        questions: What is asked.
        models: For each state the checkpoint that a router is told; ``None`` lets it decide.
        of_request: Options that a router takes with each request, such as budgets.
        **options: Those of the call.
    """
    extra = of_request or {}
    if not is_router(target):
        found: list[dict[str, Any]] = target.predict_batch(
            list(states), questions, **extra, **options
        )
        return found
    told = [None] * len(states) if models is None else models
    requests = [
        {
            "state": state,
            "questions": questions,
            **({} if name is None else {"model": name}),
            **extra,
        }
        for state, name in zip(states, told, strict=True)
    ]
    found = target.predict_batch(requests, **options)
    return found


def describe(agent: Any) -> str:
    """What an experiment ran on, as a parameter that is kept."""
    if agent is None:
        return "Router() with the embedded checkpoint"
    kind = type(agent)
    name = getattr(agent, "model_id", None)
    of = f" of {name}" if isinstance(name, str) else ""
    package = kind.__module__.partition(".")[0]
    found = f"{package}.{kind.__qualname__}{of}"
    if package == __name__.partition(".")[0]:
        return found
    try:
        return f"{found}, version {metadata.version(package)}"
    except metadata.PackageNotFoundError:
        return found
