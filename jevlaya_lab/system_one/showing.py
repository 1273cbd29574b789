"""What agents, routers and routing decisions show of themselves in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jevlaya_lab.markup import Markup, card, details, facts, listed, table

__all__ = ["agent_html", "decision_html", "router_html"]


def agent_html(agent: Any) -> Markup:
    """An :class:`~jevlaya_lab.Agent`: its network, its hooks, what happened to its memory."""
    known: Mapping[str, Any] = agent.network.info()
    temperature = agent.calibration.temperature
    n_parameters = known.get("n_parameters")
    return card(
        "Agent",
        agent.model_id,
        facts(
            [
                ("network", known.get("architecture")),
                ("encoder", known.get("encoder")),
                ("device", known.get("device")),
                ("parameters", f"{n_parameters:,}" if isinstance(n_parameters, int) else None),
                ("hooks", hook_names(agent.hooks)),
                ("temperatures", ", ".join(f"{value:g}" for value in temperature)),
                ("languages", listed(agent.lang_temperatures) if agent.lang_temperatures else None),
                ("passes split for memory", agent.memory_split_count or None),
                ("states answered on the CPU", agent.cpu_fallback_count or None),
                ("last reason for that", agent.last_fallback_reason),
            ]
        ),
    )


def router_html(router: Any) -> Markup:
    """A :class:`~jevlaya_lab.Router`: the checkpoints that it knows, and which are resident."""
    loaded = list(router.loaded)
    rows = [
        (
            name,
            "resident" if name in loaded else "–",
            "attached agent" if each["source"] is None else each["source"],
            "stand-in" if each["stand_in"] else "",
            each["description"] or "",
        )
        for name, each in router.registered.items()
    ]
    return card(
        "Router",
        None,
        facts(
            [
                ("resident", f"{len(loaded)} of at most {router.max_loaded}"),
                ("next to go", loaded[0] if len(loaded) == router.max_loaded else None),
                ("default", router.default),
                ("hooks", hook_names(router.hooks)),
            ]
        ),
        table(("checkpoint", "memory", "source", "", "what it is"), rows),
    )


def decision_html(decision: Mapping[str, Any]) -> Markup:
    """A :class:`~jevlaya_lab.RouteDecision`: where to, why, and what the detector saw."""
    detection = decision.get("detection")
    seen = facts(detection.items()) if isinstance(detection, Mapping) else None
    return card(
        "RouteDecision",
        decision.get("model"),
        facts(
            [
                ("reason", decision.get("reason")),
                ("source", decision.get("repo")),
                ("workflow", decision.get("workflow")),
                ("stand-in", "yes" if decision.get("stand_in") else None),
            ]
        ),
        Markup("") if seen is None else details("what the detector saw", seen),
    )


def hook_names(hooks: Iterable[Any]) -> Markup:
    """The classes of hooks in the order in which they run."""
    return listed(_name(hook) for hook in hooks)


def _name(hook: Any) -> str:
    function = getattr(hook, "function", None)
    return str(getattr(function, "__qualname__", None) or type(hook).__qualname__)
