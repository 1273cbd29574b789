"""See what a System One decision model does: lifecycle, hooks, timings and answers, in Jupyter.

Importing this package loads neither torch nor pandas; each name below is loaded at its first use.
Where pandas is loaded already, its Series and DataFrames get the accessor ``jevlaya``.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jevlaya_lab.analysis import calibration, confusion
    from jevlaya_lab.contrib_hooks.audit_log import AuditLog
    from jevlaya_lab.contrib_hooks.cache import ExactCache
    from jevlaya_lab.contrib_hooks.false_hits import false_hits
    from jevlaya_lab.contrib_hooks.latency import LatencyMetrics
    from jevlaya_lab.contrib_hooks.option_order import OptionOrderProbe
    from jevlaya_lab.contrib_hooks.redaction import Redaction
    from jevlaya_lab.contrib_hooks.semantic_cache import SemanticCache
    from jevlaya_lab.contrib_hooks.token_budget import TokenBudgetGuard
    from jevlaya_lab.embedding.errors import EmbeddingError
    from jevlaya_lab.embedding.generator import EmbeddingGenerator
    from jevlaya_lab.embedding.hashing import InlineHashingEmbedding
    from jevlaya_lab.embedding.identity import EmbeddingIdentity
    from jevlaya_lab.embedding.local import BoundedLocalEmbedding
    from jevlaya_lab.embedding.remote import AsyncRemoteEmbedding
    from jevlaya_lab.embedding.stores.base import VectorStore
    from jevlaya_lab.embedding.stores.memory import InMemoryVectorStore
    from jevlaya_lab.embedding.stores.migration import migrate
    from jevlaya_lab.embedding.stores.postgres import PgVectorStore
    from jevlaya_lab.frames.trace import Trace
    from jevlaya_lab.frames.trace_files import read_trace_csv, read_trace_parquet
    from jevlaya_lab.lab.default import default_lab, set_default_lab
    from jevlaya_lab.lab.lab import Lab
    from jevlaya_lab.lab.vectors import near_duplicates
    from jevlaya_lab.system_one.agent import Agent
    from jevlaya_lab.system_one.context import PredictContext
    from jevlaya_lab.system_one.errors import JevlayaError
    from jevlaya_lab.system_one.events import BaseHook, Hook
    from jevlaya_lab.system_one.hooks import (
        add_default_hook,
        clear_default_hooks,
        default_hooks,
        remove_default_hook,
        set_default_hooks,
    )
    from jevlaya_lab.system_one.questions import Choice, Noul, Score
    from jevlaya_lab.system_one.router import Router
    from jevlaya_lab.system_one.routing import RouteDecision
    from jevlaya_lab.tracing.recorder import TraceRecorder

__version__ = "0.1.0.dev0"

_HOMES = {
    "Agent": "system_one.agent",
    "AsyncRemoteEmbedding": "embedding.remote",
    "AuditLog": "contrib_hooks.audit_log",
    "BaseHook": "system_one.events",
    "BoundedLocalEmbedding": "embedding.local",
    "Choice": "system_one.questions",
    "EmbeddingError": "embedding.errors",
    "EmbeddingGenerator": "embedding.generator",
    "EmbeddingIdentity": "embedding.identity",
    "ExactCache": "contrib_hooks.cache",
    "Hook": "system_one.events",
    "InMemoryVectorStore": "embedding.stores.memory",
    "InlineHashingEmbedding": "embedding.hashing",
    "JevlayaError": "system_one.errors",
    "Lab": "lab.lab",
    "LatencyMetrics": "contrib_hooks.latency",
    "Noul": "system_one.questions",
    "OptionOrderProbe": "contrib_hooks.option_order",
    "PgVectorStore": "embedding.stores.postgres",
    "PredictContext": "system_one.context",
    "Redaction": "contrib_hooks.redaction",
    "RouteDecision": "system_one.routing",
    "Router": "system_one.router",
    "Score": "system_one.questions",
    "SemanticCache": "contrib_hooks.semantic_cache",
    "TokenBudgetGuard": "contrib_hooks.token_budget",
    "Trace": "frames.trace",
    "TraceRecorder": "tracing.recorder",
    "VectorStore": "embedding.stores.base",
    "add_default_hook": "system_one.hooks",
    "calibration": "analysis",
    "clear_default_hooks": "system_one.hooks",
    "confusion": "analysis",
    "default_hooks": "system_one.hooks",
    "default_lab": "lab.default",
    "false_hits": "contrib_hooks.false_hits",
    "migrate": "embedding.stores.migration",
    "near_duplicates": "lab.vectors",
    "read_trace_csv": "frames.trace_files",
    "read_trace_parquet": "frames.trace_files",
    "remove_default_hook": "system_one.hooks",
    "set_default_hooks": "system_one.hooks",
    "set_default_lab": "lab.default",
}

__all__ = [
    "Agent",
    "AsyncRemoteEmbedding",
    "AuditLog",
    "BaseHook",
    "BoundedLocalEmbedding",
    "Choice",
    "EmbeddingError",
    "EmbeddingGenerator",
    "EmbeddingIdentity",
    "ExactCache",
    "Hook",
    "InMemoryVectorStore",
    "InlineHashingEmbedding",
    "JevlayaError",
    "Lab",
    "LatencyMetrics",
    "Noul",
    "OptionOrderProbe",
    "PgVectorStore",
    "PredictContext",
    "Redaction",
    "RouteDecision",
    "Router",
    "Score",
    "SemanticCache",
    "TokenBudgetGuard",
    "Trace",
    "TraceRecorder",
    "VectorStore",
    "__version__",
    "add_default_hook",
    "calibration",
    "clear_default_hooks",
    "confusion",
    "default_hooks",
    "default_lab",
    "false_hits",
    "migrate",
    "near_duplicates",
    "read_trace_csv",
    "read_trace_parquet",
    "remove_default_hook",
    "set_default_hooks",
    "set_default_lab",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load_ipython_extension(shell: Any) -> None:
    """Called by ``%load_ext jevlaya_lab``: brings ``%jevlaya``, ``%%jevlaya`` and the accessor."""
    importlib.import_module(f"{__name__}.magics").load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Called by ``%unload_ext jevlaya_lab``: takes the magics away again."""
    importlib.import_module(f"{__name__}.magics").unload(shell)


# A pandas that is only now being imported has no Series yet.
if hasattr(sys.modules.get("pandas"), "Series"):
    importlib.import_module(f"{__name__}.lab.accessor").register()
