"""Names of methods that look as if an event was meant."""

from __future__ import annotations

import difflib
from typing import Final

from jevlaya_lab.system_one.events import EVENTS

__all__ = ["meant"]

_WORDS: Final = {
    "begin": "start",
    "began": "start",
    "before": "start",
    "started": "start",
    "after": "end",
    "ended": "end",
    "done": "end",
    "finish": "end",
    "stop": "end",
    "complete": "end",
    "failure": "error",
    "fail": "error",
    "exception": "error",
    "unload": "evict",
    "routed": "route",
    "loaded": "load",
    "evicted": "evict",
}


def meant(name: str) -> str | None:
    """The event that a name seems to mean; ``None`` for an event itself and for other names."""
    if name in EVENTS or name.startswith("_"):
        return None
    if not name.lower().startswith("on"):
        return None
    words = [_WORDS.get(word, word) for word in name.lower().removeprefix("on").split("_")]
    rest = "".join(words)
    for event in EVENTS:
        short = event.removeprefix("on_")
        if rest in {short.replace("_", ""), short.removeprefix("predict_")}:
            return event
    close = difflib.get_close_matches(name, EVENTS, n=1, cutoff=0.8)
    return close[0] if close else None
