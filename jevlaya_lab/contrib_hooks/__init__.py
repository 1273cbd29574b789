"""Ready-made hooks, for agents and routers of this package and of ``laya``.

None of them is known to the runtime: each is what anybody could write with the events of
:class:`~jevlaya_lab.system_one.events.Hook`.
"""

from __future__ import annotations

from jevlaya_lab.contrib_hooks.audit_log import AuditLog
from jevlaya_lab.contrib_hooks.cache import ExactCache
from jevlaya_lab.contrib_hooks.false_hits import false_hits
from jevlaya_lab.contrib_hooks.latency import LatencyMetrics
from jevlaya_lab.contrib_hooks.option_order import OptionOrderProbe
from jevlaya_lab.contrib_hooks.patterns import Pattern
from jevlaya_lab.contrib_hooks.redaction import Redaction
from jevlaya_lab.contrib_hooks.semantic_cache import SemanticCache
from jevlaya_lab.contrib_hooks.token_budget import BudgetExceeded, TokenBudgetGuard

__all__ = [
    "AuditLog",
    "BudgetExceeded",
    "ExactCache",
    "LatencyMetrics",
    "OptionOrderProbe",
    "Pattern",
    "Redaction",
    "SemanticCache",
    "TokenBudgetGuard",
    "false_hits",
]
