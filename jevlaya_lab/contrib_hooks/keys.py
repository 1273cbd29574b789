"""Keys of a cache: digests that are equal only where the same is asked in the same way."""

from __future__ import annotations

import hashlib
import itertools
import threading
import weakref
from collections.abc import Mapping
from typing import Any, Final

from jevlaya_lab.contrib_hooks.runs import checkpoint_of, is_long, scope_of

__all__ = ["Tokens", "Unkeyable", "digest", "key_of", "settings_of"]

_PLAIN: Final = (str, int, float, bool, type(None))
_SETTINGS: Final = (
    *("calibration", "temperature", "temperature_by_options", "binning_map"),
    *("max_len", "head_max_len"),
)


class Unkeyable(Exception):
    """A call that cannot be told apart from others for certain; says why in one word."""


def digest(value: Any) -> bytes:
    """16 bytes that stand for a plain value: text, numbers, lists, dicts, nested at will.

    The order of a dict's items counts, since options are told apart by their place; so does the
    type, since ``1``, ``1.0`` and ``True`` read differently.

    Raises:
        Unkeyable: Something in it is no plain value, or it is nested too deep.
    """
    found = hashlib.blake2b(digest_size=16)
    try:
        _feed(found, value)
    except RecursionError:
        raise Unkeyable("nesting") from None
    return found.digest()


def _feed(found: Any, value: Any) -> None:
    kind = type(value)
    if kind in _PLAIN:
        text = value if kind is str else repr(value)
        data = text.encode("utf-8", "surrogatepass")
        found.update(b"%b %d:" % (kind.__name__.encode(), len(data)))
        found.update(data)
    elif isinstance(value, (dict, Mapping)):
        found.update(b"{%d:" % len(value))
        for key, item in value.items():
            _feed(found, key)
            _feed(found, item)
    elif kind in (list, tuple):
        found.update(b"[%d:" % len(value))
        for item in value:
            _feed(found, item)
    elif kind is bytes:
        found.update(b"bytes %d:" % len(value))
        found.update(value)
    else:
        raise Unkeyable("value")


class Tokens:
    """A number for each object, never given to another one, also after it is gone."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._next = itertools.count()
        self._lock = threading.Lock()

    def of(self, thing: Any) -> int:
        """The number of an object.

        Raises:
            Unkeyable: It cannot be referred to weakly, so that another could take its place.
        """
        with self._lock:
            known = self._known.get(id(thing))
            if known is not None and known[0]() is thing:
                return known[1]
            try:
                reference = weakref.ref(thing)
            except TypeError:
                raise Unkeyable("agent") from None
            for key in [key for key, (ref, _) in self._known.items() if ref() is None]:
                del self._known[key]
            number = next(self._next)
            self._known[id(thing)] = (reference, number)
            return number


def settings_of(agent: Any, tokens: Tokens) -> list[Any]:
    """What decides, beside the question, what an agent answers: itself, its network, temperatures.

    Raises:
        Unkeyable: It has temperatures by language, or may have: a hook does not see which language
            a call is in.
    """
    languages: Any = getattr(agent, "lang_temperatures", agent)
    if languages is agent or (languages is not None and len(languages)):
        raise Unkeyable("language")
    networks = [getattr(agent, name, None) for name in ("network", "model")]
    config = getattr(agent, "cfg", None) or getattr(agent, "config", None) or {}
    return [
        tokens.of(agent),
        [None if net is None or isinstance(net, str) else tokens.of(net) for net in networks],
        [repr(getattr(agent, name, None)) for name in _SETTINGS],
        repr(list(config.items())) if isinstance(config, (dict, Mapping)) else None,
    ]


def key_of(ctx: Any, tokens: Tokens, *, states: bool = True, ended: bool = False) -> bytes:
    """The digest of what a run asks, of whom, and within which budgets.

    Args:
        ctx: Its context.
        tokens: Numbers of agents.
        states: Whether its states are part of the key.
        ended: Whether it is over; one that is not must not be answered yet.

    Raises:
        Unkeyable: It cannot be told apart for certain, or a cache should leave it alone.
    """
    if not ended:
        if ctx.results is not None:
            raise Unkeyable("answered")
        long = is_long(ctx)
        if long is not False:
            raise Unkeyable("predict_long" if long else "caller")
    if not isinstance(ctx.states, (list, tuple)):
        raise Unkeyable("value")  # the agent says what is wrong with them
    return digest(
        [
            scope_of(ctx),
            checkpoint_of(ctx),
            settings_of(ctx.agent, tokens),
            list(ctx.states) if states else [],
            ctx.questions,
            [repr(ctx.max_len), repr(ctx.head_max_len)],
        ]
    )
