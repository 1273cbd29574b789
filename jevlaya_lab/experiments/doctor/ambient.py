"""What belongs to the whole process, or to the caller: read before and after, and put back."""

from __future__ import annotations

import contextvars
import gc
import locale
import logging
import os
import random
import socket
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Final

__all__ = ["Ambient"]


class Ambient:
    """The state of the process as it is when this is made, of this thread and its context."""

    def __init__(self) -> None:
        self._was = {name: _read(read) for name, (read, _) in _probes().items()}
        self._variables = _variables()

    def changes(self) -> list[str]:
        """What is another now, in words."""
        found = [
            name
            for name, (read, _) in _probes().items()
            if name in self._was and not _same(self._was[name], _read(read))
        ]
        now = _variables()
        found += [
            f"context variable {variable.name!r}"
            for variable in {*now, *self._variables}
            if not _same(_value(variable, now), _value(variable, self._variables))
        ]
        return sorted(found)

    def restore(self) -> None:
        """Put back what can be put back."""
        for name, (read, write) in _probes().items():
            if name in self._was and not _same(self._was[name], _read(read)):
                write(self._was[name])


_GONE: Final = object()
_Probe = tuple[Callable[[], Any], Callable[[Any], Any]]


def _probes() -> dict[str, _Probe]:
    """By name, how to read and to write; modules that are not in use are left alone."""
    found: dict[str, _Probe] = {
        "os.environ": (lambda: dict(os.environ), _set_environ),
        "working directory": (os.getcwd, os.chdir),
        "random's generator": (random.getstate, random.setstate),
        "warnings.filters": (lambda: list(warnings.filters), _set_filters),
        "locale": (
            lambda: locale.setlocale(locale.LC_ALL),
            lambda was: locale.setlocale(locale.LC_ALL, was),
        ),
        "logging levels": (_levels, _set_levels),
        "recursion limit": (sys.getrecursionlimit, sys.setrecursionlimit),
        "switch interval": (sys.getswitchinterval, sys.setswitchinterval),
        "sys.path": (lambda: list(sys.path), _set_path),
        "sys.stdout": (lambda: id(sys.stdout), lambda _: None),
        "garbage collection": (gc.isenabled, lambda was: gc.enable() if was else gc.disable()),
        "socket timeout": (socket.getdefaulttimeout, socket.setdefaulttimeout),
    }
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        found["numpy's generator"] = (
            lambda: [
                part.tolist() if hasattr(part, "tolist") else part
                for part in numpy.random.get_state()
            ],
            lambda was: numpy.random.set_state(tuple(was)),
        )
        found["numpy's error handling"] = (numpy.geterr, lambda was: numpy.seterr(**was))
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "get_rng_state"):
        found["torch's generator"] = (
            lambda: torch.get_rng_state().tolist(),
            lambda was: torch.set_rng_state(torch.tensor(was, dtype=torch.uint8)),
        )
        found["torch's default dtype"] = (torch.get_default_dtype, torch.set_default_dtype)
        found["torch's grad mode"] = (torch.is_grad_enabled, torch.set_grad_enabled)
        found["torch's threads"] = (torch.get_num_threads, torch.set_num_threads)
    return found


def _read(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except Exception:  # such as a working directory that is gone
        return _GONE


def _same(a: Any, b: Any) -> bool:
    try:
        return a is b or bool(a == b)
    except Exception:  # arrays and the like
        return False


def _value(variable: contextvars.ContextVar[Any], values: Mapping[Any, Any]) -> Any:
    """What a variable gives where these are set: its default where it is not among them."""
    if variable in values:
        return values[variable]
    try:
        return contextvars.Context().run(variable.get)
    except LookupError:
        return _GONE


def _variables() -> dict[contextvars.ContextVar[Any], Any]:
    return dict(contextvars.copy_context().items())


def _set_environ(was: dict[str, str]) -> None:
    for name in set(os.environ) - set(was):
        del os.environ[name]
    os.environ.update(was)


def _set_filters(was: list[Any]) -> None:
    warnings.filters[:] = was  # type: ignore[index]  # a list, whatever typeshed says


def _set_path(was: list[str]) -> None:
    sys.path[:] = was


def _loggers() -> dict[str, logging.Logger]:
    known = logging.Logger.manager.loggerDict
    named = {name: each for name, each in list(known.items()) if isinstance(each, logging.Logger)}
    return {"": logging.getLogger(), **named}


def _levels() -> dict[str, int]:
    found = {name: each.level for name, each in _loggers().items() if each.level}
    return {**found, "disabled below": logging.root.manager.disable}


def _set_levels(was: dict[str, int]) -> None:
    logging.disable(was["disabled below"])
    for name, each in _loggers().items():
        each.setLevel(was.get(name, 0))
