"""A hook to examine: made afresh for each situation, so that none sees what another left."""

from __future__ import annotations

import copy
import inspect
import sys
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Mapping
from typing import Any, Final

from jevlaya_lab.experiments.doctor.names import meant
from jevlaya_lab.system_one.errors import InvalidInput
from jevlaya_lab.system_one.events import EVENTS

__all__ = ["Patients", "attributes", "is_plain", "own_classes", "slots_of", "totals"]

_LOCKS: Final = {type(threading.Lock()): threading.Lock, type(threading.RLock()): threading.RLock}
_HOLDERS: Final = (list, tuple, dict, set, deque)
_DEPTH: Final = 4


class Patients:
    """Makes the hooks of an examination.

    Args:
        given: A hook, a class of hooks, or a function without arguments that makes one.

    Attributes:
        name: Of the hook's class.
        way: How hooks are made: ``made anew``, ``copies`` or ``itself``.

    Raises:
        InvalidInput: It is none of these.
    """

    def __init__(self, given: Any) -> None:
        self._given = given
        self._makes = isinstance(given, type) or (callable(given) and not _is_hook(given))
        first = self._made() if self._makes else given
        if not _is_hook(first):
            raise InvalidInput(_no_hook(first, "what it makes" if self._makes else "it"))
        self.name = type(first).__qualname__
        if self._makes:
            self.way = "itself" if self._made() is first else "made anew"
        else:
            self.way = "itself" if _copy(given) is None else "copies"

    @property
    def maker(self) -> Any:
        """What makes the hooks; ``None`` where one was given."""
        return self._given if self._makes else None

    def hook(self) -> Any:
        """The hook of the next situation."""
        if self._makes:
            return self._made()
        found = _copy(self._given) if self.way == "copies" else None
        return self._given if found is None else found

    def _made(self) -> Any:
        try:
            inspect.signature(self._given).bind()
        except TypeError as error:
            name = getattr(self._given, "__name__", repr(self._given))
            raise InvalidInput(
                f"{name} cannot be called without arguments ({error}); give an instance, or a "
                f"function that makes one, such as lambda: {name}(...)"
            ) from None
        except ValueError:  # of some built-in callables the signature is not known
            pass
        return self._given()


def own_classes(hook: Any) -> list[type]:
    """The classes that a hook is made of, without those of this package's runtime."""
    return [
        kind
        for kind in type(hook).__mro__
        if kind is not object and kind.__module__ != "jevlaya_lab.system_one.events"
    ]


def totals(hook: Any) -> dict[str, int]:
    """What a hook has counted and collected: whole numbers, and lengths of what holds entries.

    Keys are the paths of attributes, such as ``counts`` and ``len(seen)``.
    """
    found: Counter[str] = Counter()
    _add(found, "", hook, _DEPTH)
    return dict(found)


def attributes(value: Any) -> dict[str, Any]:
    """The attributes that an object has of its own, in its dict or in slots."""
    try:
        found = object.__getattribute__(value, "__dict__")  # a __getattr__ could answer anything
    except Exception:  # it has none, or does not show it
        found = None
    own = dict(found) if isinstance(found, Mapping) else {}
    return own | {name: getattr(value, name) for name in slots_of(value) if hasattr(value, name)}


def slots_of(value: Any) -> list[str]:
    """The names of an object's slots, set or not."""
    found: list[str] = []
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        found += (slots,) if isinstance(slots, str) else slots
    return [name for name in found if name not in ("__dict__", "__weakref__")]


def _add(found: Counter[str], path: str, value: Any, depth: int) -> None:
    if isinstance(value, bool):
        return
    if isinstance(value, int):
        found[path] += value
        return
    if isinstance(value, threading.local):
        return  # what is in it is this thread's alone
    if depth == 0 or isinstance(value, (str, bytes, float, type)) or value is None:
        return
    if hasattr(type(value), "__len__") and path:
        try:
            found[f"len({path})"] += len(value)
        except Exception:  # an object of the user's whose length cannot be told
            return
    if isinstance(value, (dict, OrderedDict)):
        for item in list(value.values()):
            _add(found, f"{path}[...]", item, depth - 1)
    elif not isinstance(value, (list, tuple, set, frozenset, deque)) and is_plain(value):
        for name, item in attributes(value).items():
            _add(found, f"{path}.{name}" if path else name, item, depth - 1)


def is_plain(value: Any) -> bool:
    """Whether an object's attributes are its holder's own business: it is no agent or context."""
    module = type(value).__module__
    root = module.partition(".")[0]
    return root not in sys.stdlib_module_names - {"__main__"} and not module.startswith(
        ("jevlaya_lab.system_one", "laya", "torch")
    )


def _is_hook(value: Any) -> bool:
    return not isinstance(value, type) and any(
        inspect.getattr_static(value, event, None) is not None for event in EVENTS
    )


def _no_hook(value: Any, subject: str) -> str:
    text = (
        "examine() takes a hook, a class of hooks, or a function without arguments that makes "
        f"one; {subject} is a {type(value).__name__} with none of the methods " + ", ".join(EVENTS)
    )
    misspelt = [(name, found) for name in dir(value) if (found := meant(name)) is not None]
    if misspelt:
        text += "; " + ", ".join(f"did you mean {right} by {wrong}?" for wrong, right in misspelt)
    return text


def _copy(hook: Any) -> Any | None:
    """A deep copy with locks of its own; ``None`` where there can be none."""
    if any("__del__" in kind.__dict__ for kind in type(hook).__mro__):
        return None  # a copy that dies would close what the hook still needs
    memo: dict[int, Any] = {}
    _fresh_locks(hook, memo, _DEPTH)
    try:
        return copy.deepcopy(hook, memo)
    except Exception:  # whatever a user's attributes raise when they are copied
        return None


def _fresh_locks(value: Any, memo: dict[int, Any], depth: int) -> None:
    make = _LOCKS.get(type(value))
    if make is not None:
        memo[id(value)] = make()
        return
    if depth == 0:
        return
    if isinstance(value, _HOLDERS):
        for item in list(value.values() if isinstance(value, dict) else value)[:1000]:
            _fresh_locks(item, memo, depth - 1)
    elif is_plain(value):
        for item in attributes(value).values():
            _fresh_locks(item, memo, depth - 1)
