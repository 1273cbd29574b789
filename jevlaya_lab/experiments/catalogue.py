"""The experiments by name, and what every one of them has: checked parameters."""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, ParamSpec, TypeVar

from jevlaya_lab.experiments.embedding_tools import check_model
from jevlaya_lab.experiments.options import Parameter, checked, parameters_of
from jevlaya_lab.experiments.result import ExperimentResult
from jevlaya_lab.experiments.texts import check_hook, check_questions, check_states
from jevlaya_lab.experiments.whom import as_it_was
from jevlaya_lab.system_one.errors import InvalidInput, InvalidOption

__all__ = ["NAMES", "Experiment", "experiment", "find"]

P = ParamSpec("P")
R = TypeVar("R", bound=ExperimentResult)

_GIVEN: Final[dict[str, Callable[[Any], Any]]] = {
    "states": check_states,
    "questions": check_questions,
    "cache": check_hook,
    "model": check_model,
}
"""Objects that some experiments take beside their parameters, and how each is checked."""

NAMES: Final = (
    "hook_order",
    "eviction",
    "caching",
    "batching",
    "concurrency",
    "option_order",
    "budget",
    "failure",
    "embedding_heartbeat",
    "embedding_concurrency",
    "embedding_cold_start",
    "embedding_timeouts",
    "embedding_hashing",
    "embedding_micro_batching",
)
"""All experiments; each is the function ``run`` of the module of that name."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment as magics and panels see it.

    Attributes:
        name: As in :data:`NAMES`.
        title: In a few words.
        run: ``run(agent=None, *, progress=True, **parameters)``.
        parameters: What it takes, in the order of its signature.
        takes: Which of ``states``, ``questions``, ``cache`` and ``model`` it takes as well:
            objects, which nobody types.
    """

    name: str
    title: str
    run: Callable[..., ExperimentResult]
    parameters: tuple[Parameter, ...]
    takes: tuple[str, ...] = ()


def experiment(title: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a function an experiment: its parameters are checked before anything is done.

    Args:
        title: In a few words, for menus.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        parameters = parameters_of(function)
        takes = tuple(name for name in _GIVEN if name in inspect.signature(function).parameters)

        @functools.wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            agent = kwargs.pop("agent", None) if not args else args[0]
            progress = kwargs.pop("progress", True)
            if len(args) > 1:
                raise InvalidOption("parameters of an experiment are given by name")
            if agent is not None:
                _check_agent(agent)
            given = {name: _GIVEN[name](kwargs.pop(name, None)) for name in takes}
            values = checked(parameters, kwargs)
            with as_it_was(agent):
                return function(agent, progress=progress, **given, **values)  # type: ignore[arg-type]

        name = function.__module__.rpartition(".")[2]
        run.__dict__["experiment"] = Experiment(name, title, run, parameters, takes)
        return run

    return decorate


def _check_agent(agent: Any) -> None:
    if isinstance(agent, type) or not hasattr(agent, "predict_batch"):
        raise InvalidInput(
            f"an experiment takes an agent or a router, an object with predict_batch; got {agent!r}"
        )


def find(name: str) -> Experiment:
    """The experiment of that name.

    Raises:
        InvalidOption: There is none.
    """
    if name not in NAMES:
        near = difflib.get_close_matches(str(name), NAMES, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise InvalidOption(f"there is no experiment {name!r}{hint}; there are {', '.join(NAMES)}")
    module = importlib.import_module(f"{__package__}.{name}")
    found: Experiment = module.run.experiment
    return found
