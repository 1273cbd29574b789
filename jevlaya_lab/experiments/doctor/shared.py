"""What a hook shares with the rest of the program: globals and cells that its code names.

A hook may set such a thing at the start and put it back at the end. Whether it does so in a batch
as well is told by comparing: what is put back after a single call must be back after each of the
other situations. What is left otherwise by a single call, as a counter is, is kept on purpose.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import CellType, CodeType, FunctionType, ModuleType, SimpleNamespace
from typing import Any, Final, NamedTuple

from jevlaya_lab.experiments.doctor.patients import attributes, is_plain, own_classes

__all__ = ["Shared", "Watch"]

_SINGLE: Final = ("a single call", "a routed request")
_MOST_FUNCTIONS: Final = 200
_MOST_ITEMS: Final = 500
_DEPTH: Final = 2
_SETTLING: Final = 30
_GONE: Final = object()
_PLAIN: Final = (bool, int, float, complex, str, bytes, type(None))


class Shared:
    """What is known of it over the situations of one examination.

    Args:
        maker: The function that makes the hooks, or anything else.
    """

    def __init__(self, maker: Any) -> None:
        self._maker = maker
        self._put_back: set[str] = set()
        self._left: set[str] = set()
        self._first: Watch | None = None

    def watch(self, hook: Any, situation: str) -> Watch:
        """Look at it from now on, to the end of a situation."""
        found = Watch(_roots(hook, self._maker), self, situation in _SINGLE)
        self._first = self._first or found
        return found

    def restore(self) -> None:
        """Put back, as it was at first, what a single call puts back."""
        if self._first is not None:
            self._first.restore(self.known)

    @property
    def known(self) -> set[str]:
        """What a single call has set and put back."""
        return self._put_back - self._left

    def learn(self, put_back: set[str], left: set[str]) -> None:
        """Note what a single call has done."""
        self._put_back |= put_back
        self._left |= left


class Watch:
    """One situation; give it to a probe, to be called around each event."""

    def __init__(self, roots: list[_Place], shared: Shared, is_single: bool) -> None:
        self._roots = roots
        self._shared = shared
        self._is_single = is_single
        self._set: dict[str, list[Any]] = {}
        self._was = self._now()

    def __call__(self, ctx: Any, event: str, when: str) -> None:
        """Note what is set after a start."""
        if when == "before" or event == "on_predict_end" or not self._was:
            return
        now = self._now()
        for path in self._others(now):
            self._set.setdefault(path, []).append(_print(now, path))

    def left(self) -> list[str]:
        """What is not put back, although it is after a single call; it is put back now."""
        now = self._now()
        if self._is_single:
            others = self._others(now)
            self._shared.learn(set(self._set) - others, others)
            return []
        for _ in range(_SETTLING):  # a thread of the hook's may be at it
            found = self._faults(now)
            if not found:
                return []
            time.sleep(0.01)
            now = self._now()
        found = self._faults(now)
        self.restore(set(found))
        return [path for path in found if not path.startswith("len(")] or found

    def restore(self, paths: set[str]) -> None:
        """Put back, of these, what is otherwise than it was."""
        now = self._now()
        for path in sorted(self._others(now) & paths):
            seen = self._was[path] if path in self._was else now[path]
            with suppress(Exception):  # an object of the user's that does not let itself be set
                (seen.restore if path in self._was else seen.remove)()

    def _faults(self, now: dict[str, _Seen]) -> list[str]:
        others = self._others(now) & self._shared.known
        return sorted(p for p in others if _print(now, p) in self._set.get(p, ()))

    def _others(self, now: dict[str, _Seen]) -> set[str]:
        paths = {*now, *self._was}
        return {path for path in paths if _print(now, path) != _print(self._was, path)}

    def _now(self) -> dict[str, _Seen]:
        found: dict[str, _Seen] = {}
        for each in self._roots:
            with suppress(Exception):  # an object of the user's that does not let itself be read
                _add(found, each, each.read(), _DEPTH)
        return found


class _Place(NamedTuple):
    """Where a value stands.

    Attributes:
        path: In words, such as ``settings['mode']``.
        read: Gives the value.
        write: Puts another there.
        clear: Takes it away.
    """

    path: str
    read: Callable[[], Any]
    write: Callable[[Any], Any]
    clear: Callable[[], Any]


class _Seen:
    """A value at a place, as it is now.

    Attributes:
        print: What is equal as long as it is the same.
    """

    def __init__(self, place: _Place, value: Any) -> None:
        self._place = place
        self._value = value  # kept, so that no other object gets its id
        self._items = list(value) if type(value) in (list, set, deque) else None
        self.print = _printed(value, _DEPTH)

    def restore(self) -> None:
        """Put it back."""
        if self._items is not None:
            self._value.clear()
            (self._value.update if isinstance(self._value, set) else self._value.extend)(
                self._items
            )
        self._place.write(self._value)

    def remove(self) -> None:
        """Take away what was not there."""
        self._place.clear()


def _print(seen: dict[str, _Seen], path: str) -> Any:
    return seen[path].print if path in seen else _GONE


def _printed(value: Any, depth: int) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return kind.__name__, repr(value)
    if depth and kind in (list, tuple, deque) and len(value) <= _MOST_ITEMS:
        return kind.__name__, id(value), tuple(_printed(each, depth - 1) for each in list(value))
    if depth and kind in (set, frozenset) and len(value) <= _MOST_ITEMS:
        return kind.__name__, id(value), frozenset(_printed(e, depth - 1) for e in list(value))
    return kind.__name__, id(value)


def _add(found: dict[str, _Seen], place: _Place, value: Any, depth: int) -> None:
    found[place.path] = _Seen(place, value)
    if not depth:
        return
    path = place.path
    if isinstance(value, dict):
        length = _Place(f"len({path})", lambda: len(value), _nothing, _nothing)
        found[length.path] = _Seen(length, len(value))
        if len(value) <= _MOST_ITEMS:
            for key, item in list(value.items()):
                if type(key) in _PLAIN:
                    _add(found, _item(f"{path}[{key!r}]", value, key), item, depth - 1)
    elif isinstance(value, SimpleNamespace) or (
        not isinstance(value, (type, ModuleType, FunctionType, *_PLAIN)) and is_plain(value)
    ):
        for name, item in attributes(value).items():
            _add(found, _attribute(f"{path}.{name}", value, name), item, depth - 1)


def _nothing(*_: Any) -> None:
    return None


def _item(path: str, holder: dict[Any, Any], key: Any) -> _Place:
    def write(value: Any) -> None:
        holder[key] = value

    return _Place(path, lambda: holder[key], write, lambda: holder.pop(key, None))


def _attribute(path: str, holder: Any, name: str) -> _Place:
    return _Place(
        path,
        lambda: vars(holder)[name],
        lambda value: setattr(holder, name, value),
        lambda: delattr(holder, name),
    )


def _cell(name: str, cell: CellType) -> _Place:
    def write(value: Any) -> None:
        cell.cell_contents = value

    return _Place(name, lambda: cell.cell_contents, write, _nothing)


def _roots(hook: Any, maker: Any) -> list[_Place]:
    """The places that the code of a hook and of what makes it names."""
    waiting: list[FunctionType] = list(_functions(maker))
    for kind in own_classes(hook):
        for member in vars(kind).values():
            waiting += _functions(member)
    for value in attributes(hook).values():
        waiting += _functions(value)
    found: dict[tuple[int, str], _Place] = {}
    done: set[int] = set()
    kinds: dict[str, Any] = {kind.__name__: kind for kind in own_classes(hook)}
    names: set[str] = set()
    while waiting and len(done) < _MOST_FUNCTIONS:
        function = waiting.pop(0)
        if id(function) in done or not _is_users(function.__module__):
            continue
        done.add(id(function))
        named = set(_names(function.__code__))
        names |= named
        held: list[tuple[int, _Place, Any]] = [
            (id(function.__globals__), _item(name, function.__globals__, name), value)
            for name in sorted(named)
            if (value := function.__globals__.get(name, _GONE)) is not _GONE
        ]
        for name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=False
        ):
            with suppress(ValueError):  # nothing in it yet
                held.append((id(cell), _cell(name, cell), cell.cell_contents))
        for owner, place, value in held:
            inside = list(_functions(value))
            if inside:
                waiting += inside
            elif isinstance(value, ModuleType) or (
                isinstance(value, type) and _is_users(value.__module__)
            ):
                kinds[place.path] = value
            elif value is not hook:
                found[owner, place.path] = place
    for path, holder in kinds.items():
        for name in sorted(names & set(vars(holder))):
            value = vars(holder)[name]
            if not name.startswith("__") and not isinstance(
                value, (ModuleType, property, staticmethod, classmethod)
            ):
                found[id(holder), name] = _attribute(f"{path}.{name}", holder, name)
    return list({place.path: place for place in found.values()}.values())


def _is_users(module: str | None) -> bool:
    root = (module or "").partition(".")[0]
    return root not in sys.stdlib_module_names - {"__main__"} and not (module or "").startswith(
        ("jevlaya_lab.system_one", "laya", "torch", "numpy", "pandas")
    )


def _functions(member: Any) -> Iterator[FunctionType]:
    for each in (member, *(getattr(member, name, None) for name in ("fget", "fset"))):
        function = getattr(each, "__func__", each)
        function = getattr(function, "__wrapped__", function)
        if isinstance(function, FunctionType):
            yield function


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _names(each)
