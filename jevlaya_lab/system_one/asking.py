"""How a Router asks the object that answers: our Agent, ``laya.Agent``, or anything like them.

Such an object has ``system_one`` or ``predict_batch``, and may not know the newer arguments.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from jevlaya_lab.system_one.errors import InvalidInput, InvalidOption, InvalidResult
from jevlaya_lab.system_one.routing import is_english_code

__all__ = ["ask_long", "ask_many", "ask_one", "check_agent", "language_for"]

_UNKNOWN: Final = object()
_DISPENSABLE: Final = frozenset({"lang", "sort_by_length", "batch_size"})
"""Arguments that change no answer, or choose a temperature that such an object does not have."""


def check_agent(agent: Any) -> None:
    """Refuse what cannot answer.

    Raises:
        InvalidInput: It is a class, or has neither ``system_one`` nor ``predict_batch``.
    """
    if isinstance(agent, type):
        raise InvalidInput(f"attach takes an agent, got the class {agent.__name__}; make one first")
    if hasattr(agent, "route_batch"):
        raise InvalidInput(
            f"attach takes an agent, got a router: {agent!r}; attach its agents, one by one"
        )
    if not any(callable(getattr(agent, n, None)) for n in ("system_one", "predict_batch")):
        raise InvalidInput(
            f"attach takes an agent: an object with system_one or predict_batch; got {agent!r}"
        )


def language_for(agent: Any, said: str | None, detected: str | None) -> str | None:
    """The language to ask in; ``None`` where it would change no answer.

    Args:
        agent: Who answers. One with ``lang_temperatures`` uses a language only if there are some;
            one without that attribute gets what the caller said.
        said: The language that the caller named.
        detected: The language that routing saw.
    """
    temperatures: Any = getattr(agent, "lang_temperatures", _UNKNOWN)
    if said is not None and is_english_code(said) is None:
        said = None  # it names no language
    if temperatures is _UNKNOWN:
        return said
    return None if temperatures is None or not len(temperatures) else said or detected


def ask_one(agent: Any, state: Any, questions: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """One state's result.

    Args:
        agent: Who answers.
        state: What about.
        questions: What is asked.
        options: Arguments that are set; those that the agent does not take and that change no
            answer are left out.

    Raises:
        InvalidOption: The agent does not take a token budget.
        InvalidResult: What it gave is no result.
    """
    ask = getattr(agent, "system_one", None)
    if not callable(ask):
        return ask_many(agent, [state], questions, options)[0]
    return _checked(agent, ask(state, questions, **_taken(agent, ask, options)))


def ask_many(
    agent: Any, states: Sequence[Any], questions: Any, options: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """The results of several states that are asked the same, one for each.

    Raises:
        InvalidOption: The agent does not take a token budget.
        InvalidResult: The agent gave another number of results, or something else.
    """
    ask = getattr(agent, "predict_batch", None)
    if not callable(ask):
        return [ask_one(agent, state, questions, options) for state in states]
    results = ask(list(states), questions, **_taken(agent, ask, options))
    if not isinstance(results, (list, tuple)) or len(results) != len(states):
        _refuse_awaitable(agent, results)
        given = len(results) if isinstance(results, (list, tuple)) else repr(results)
        raise InvalidResult(
            f"{type(agent).__name__}.predict_batch gave {given} results for {len(states)} states; "
            "it must give one for each, in order"
        )
    return [_checked(agent, result) for result in results]


def ask_long(agent: Any, state: Any, questions: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """One result about a state that may be longer than the network's window.

    Raises:
        InvalidOption: The agent cannot do that, or does not take an argument.
    """
    ask = getattr(agent, "predict_long", None)
    if not callable(ask):
        raise InvalidOption(
            f"{type(agent).__name__} has no predict_long, so a long state cannot be read in "
            "windows; use predict, or attach an agent that has it"
        )
    return _checked(agent, ask(state, questions, **_taken(agent, ask, options)))


def _taken(agent: Any, ask: Callable[..., Any], options: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options that a callable takes by name."""
    if not options:
        return options
    try:
        parameters = inspect.signature(ask).parameters.values()
    except (TypeError, ValueError):  # built in another language: let it speak for itself
        return options
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return options
    names = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    foreign = [name for name in options if name not in names]
    for name in foreign:
        if name not in _DISPENSABLE:
            raise InvalidOption(
                f"{type(agent).__name__}.{getattr(ask, '__name__', 'predict')} takes no {name}; "
                "leave it out, or attach an agent that takes it"
            )
    return {name: value for name, value in options.items() if name in names} if foreign else options


def _refuse_awaitable(agent: Any, result: Any) -> None:
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise InvalidResult(
            f"the methods of {type(agent).__name__} are asynchronous; attach an agent whose "
            "methods give their results, for instance with asyncio.run inside"
        )


def _checked(agent: Any, result: Any) -> dict[str, Any]:
    if not isinstance(result, dict):
        _refuse_awaitable(agent, result)
        raise InvalidResult(
            f"{type(agent).__name__} gave {result!r} where a result belongs: a dict with 'answers'"
        )
    return result
