"""JSON that gives back what went in: tuples, keys that are no text, NaN and infinities included.

What plain JSON cannot say is written as ``{"$": kind, "v": value}``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["dumps", "loads"]

Other = Callable[[Any], "tuple[str, Any] | None"]


def dumps(value: Any, other: Other | None = None, **options: Any) -> str:
    """Write a value as ASCII JSON.

    Args:
        value: Text, numbers, booleans, ``None``, and lists, tuples and dicts of them.
        other: For values that are none of these: gives a kind and a plain value, or ``None``.
        **options: Passed to ``json.dumps``.

    Raises:
        TypeError: A value that is none of these, by its type.
    """
    return json.dumps(_plain(value, other), ensure_ascii=True, allow_nan=False, **options)


def loads(text: str, kinds: Mapping[str, Callable[[Any], Any]] | None = None) -> Any:
    """Read what :func:`dumps` wrote.

    Args:
        text: The JSON.
        kinds: For each kind that ``other`` gave: makes the value from the plain one.

    Raises:
        ValueError: It is no JSON, or has a kind that is not known.
    """
    return _value(json.loads(text), {**_KINDS, **(kinds or {})})


_KINDS: dict[str, Callable[[Any], Any]] = {"float": float, "tuple": tuple, "dict": dict}


def _plain(value: Any, other: Other | None) -> Any:
    kind = type(value)
    if value is None or kind in (str, bool, int):
        return value
    if kind is float:
        return value if math.isfinite(value) else {"$": "float", "v": repr(value)}
    if kind is list:
        return [_plain(each, other) for each in value]
    if kind is tuple:
        return {"$": "tuple", "v": [_plain(each, other) for each in value]}
    if isinstance(value, dict):
        if "$" not in value and all(type(key) is str for key in value):
            return {key: _plain(each, other) for key, each in value.items()}
        pairs = [[_plain(key, other), _plain(each, other)] for key, each in value.items()]
        return {"$": "dict", "v": pairs}
    found = other(value) if other is not None else None
    if found is not None:
        return {"$": found[0], "v": found[1]}
    for base in (str, int, float):  # a subclass, such as a numpy float or an enumeration of text
        if isinstance(value, base):
            return _plain(base(value) if base is not str else str.__str__(value), other)
    raise TypeError(f"a {kind.__name__} cannot be written as JSON")


def _value(plain: Any, kinds: Mapping[str, Callable[[Any], Any]]) -> Any:
    if isinstance(plain, list):
        return [_value(each, kinds) for each in plain]
    if isinstance(plain, dict):
        if "$" not in plain:
            return {key: _value(each, kinds) for key, each in plain.items()}
        kind = plain["$"]
        if kind not in kinds or "v" not in plain:
            raise ValueError(f"{kind!r} is no kind of value that is known here")
        return kinds[kind](_value(plain["v"], kinds))
    return plain
