"""See what a System One decision model does: lifecycle, hooks, timings and answers, in Jupyter.

Importing this package loads neither torch nor pandas; each name below is loaded at its first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jevlaya_lab.embedding.errors import EmbeddingError
    from jevlaya_lab.embedding.generator import EmbeddingGenerator
    from jevlaya_lab.embedding.hashing import InlineHashingEmbedding
    from jevlaya_lab.embedding.identity import EmbeddingIdentity
    from jevlaya_lab.embedding.local import BoundedLocalEmbedding
    from jevlaya_lab.embedding.remote import AsyncRemoteEmbedding
    from jevlaya_lab.lab import Lab
    from jevlaya_lab.system_one.agent import Agent
    from jevlaya_lab.system_one.context import PredictContext
    from jevlaya_lab.system_one.errors import JevlayaError
    from jevlaya_lab.system_one.events import BaseHook, Hook
    from jevlaya_lab.system_one.hooks import (
        add_default_hook,
        clear_default_hooks,
        default_hooks,
        set_default_hooks,
    )
    from jevlaya_lab.system_one.questions import Choice, Noul, Score
    from jevlaya_lab.tracing.recorder import TraceRecorder

__version__ = "0.1.0.dev0"

_HOMES = {
    "Agent": "system_one.agent",
    "AsyncRemoteEmbedding": "embedding.remote",
    "BaseHook": "system_one.events",
    "BoundedLocalEmbedding": "embedding.local",
    "Choice": "system_one.questions",
    "EmbeddingError": "embedding.errors",
    "EmbeddingGenerator": "embedding.generator",
    "EmbeddingIdentity": "embedding.identity",
    "Hook": "system_one.events",
    "InlineHashingEmbedding": "embedding.hashing",
    "JevlayaError": "system_one.errors",
    "Lab": "lab",
    "Noul": "system_one.questions",
    "PredictContext": "system_one.context",
    "Score": "system_one.questions",
    "TraceRecorder": "tracing.recorder",
    "add_default_hook": "system_one.hooks",
    "clear_default_hooks": "system_one.hooks",
    "default_hooks": "system_one.hooks",
    "set_default_hooks": "system_one.hooks",
}

__all__ = [
    "Agent",
    "AsyncRemoteEmbedding",
    "BaseHook",
    "BoundedLocalEmbedding",
    "Choice",
    "EmbeddingError",
    "EmbeddingGenerator",
    "EmbeddingIdentity",
    "Hook",
    "InlineHashingEmbedding",
    "JevlayaError",
    "Lab",
    "Noul",
    "PredictContext",
    "Score",
    "TraceRecorder",
    "__version__",
    "add_default_hook",
    "clear_default_hooks",
    "default_hooks",
    "set_default_hooks",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
