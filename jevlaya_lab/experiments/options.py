"""Parameters of experiments: written once in the signature, where magics and panels read them.

A parameter is annotated as ``Annotated[int, Option("What it is", low=1, high=64)]``, or with
``Sequence[int]`` where it takes several values.
"""

from __future__ import annotations

import difflib
import inspect
import math
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jevlaya_lab.system_one.errors import InvalidOption

__all__ = ["Option", "Parameter", "checked", "parameters_of"]

_NOT_OPTIONS: Final = ("agent", "progress", "states", "questions", "cache", "model")
"""Parameters that nobody types: objects, which those that take them check by themselves."""


@dataclass(frozen=True, slots=True)
class Option:
    """What an annotation says of a parameter.

    Args:
        help: One sentence.
        low: Smallest number allowed, also of each of several.
        high: Largest number allowed.
        choices: Texts that are allowed.
    """

    help: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of an experiment.

    Attributes:
        name: As in the signature.
        kind: ``int``, ``float``, ``bool`` or ``str``.
        many: Whether it takes several values.
        default: Its default.
        option: What its annotation says.
    """

    name: str
    kind: type
    many: bool
    default: Any
    option: Option

    def check(self, value: Any) -> Any:
        """The value as the experiment takes it: of several values a tuple.

        Raises:
            InvalidOption: It is of another kind, out of range, or not among the choices.
        """
        if not self.many:
            return self._one(value)
        if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
            raise InvalidOption(
                f"{self.name} takes several values, such as {list(self.default)!r}; got {value!r}"
            )
        values = tuple(self._one(each) for each in value)
        if not values:
            raise InvalidOption(f"{self.name} is empty; give at least one value")
        return values

    def _one(self, value: Any) -> Any:
        fits = isinstance(value, self.kind) or (self.kind is float and isinstance(value, int))
        if not fits or (isinstance(value, bool) and self.kind is not bool):
            raise InvalidOption(
                f"{self.name}: {self.kind.__name__} expected, got {value!r}"
                + (" (in a list of values)" if self.many else "")
            )
        if self.option.choices and value not in self.option.choices:
            near = difflib.get_close_matches(str(value), self.option.choices, n=1)
            raise InvalidOption(
                f"{self.name}={value!r} is not known"
                + (f"; did you mean {near[0]!r}?" if near else "")
                + f"; there are {', '.join(self.option.choices)}"
            )
        low, high = self.option.low, self.option.high
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            if not math.isfinite(value):
                raise InvalidOption(f"{self.name}={value!r} is not a finite number")
            if (low is not None and value < low) or (high is not None and value > high):
                raise InvalidOption(f"{self.name}={value!r} is not {_range(low, high)}")
        return float(value) if self.kind is float else value


def _range(low: float | None, high: float | None) -> str:
    if low is not None and high is not None:
        return f"between {low:g} and {high:g}"
    return f"at least {low:g}" if low is not None else f"at most {high:g}"


def parameters_of(function: Callable[..., Any]) -> tuple[Parameter, ...]:
    """The parameters of an experiment, in the order of its signature.

    Raises:
        TypeError: One of them has no default, no :class:`Option`, or a kind that is not known.
    """
    hints = typing.get_type_hints(function, include_extras=True)
    found = []
    for name, each in inspect.signature(function).parameters.items():
        if name in _NOT_OPTIONS:
            continue
        hint, *marks = typing.get_args(hints[name]) or (hints[name],)
        option = next((mark for mark in marks if isinstance(mark, Option)), None)
        many = typing.get_origin(hint) is not None and issubclass(typing.get_origin(hint), Sequence)
        kind = typing.get_args(hint)[0] if many else hint
        if option is None or kind not in (int, float, bool, str) or each.default is each.empty:
            raise TypeError(f"{function.__module__}: {name} has no default or no Option")
        found.append(Parameter(name, kind, many, each.default, option))
    return tuple(found)


def checked(parameters: Iterable[Parameter], given: Mapping[str, Any]) -> dict[str, Any]:
    """All parameters with their values, given or default.

    Raises:
        InvalidOption: A name that is not known, or a value that does not fit.
    """
    known = {each.name: each for each in parameters}
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise InvalidOption(
                f"there is no parameter {name!r}{hint}; there are {', '.join(known)}"
            )
    return {name: each.check(given.get(name, each.default)) for name, each in known.items()}
