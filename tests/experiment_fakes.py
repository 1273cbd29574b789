"""Routers and agents for experiments that answer at once."""

from __future__ import annotations

from typing import Any

from fakes import make_agent

from jevlaya_lab import Router
from jevlaya_lab.experiments import Claim, ExperimentResult
from jevlaya_lab.system_one.models.instant import InstantNetwork


class InstantRouter(Router):
    """Builds agents that answer at once, under all names."""

    def _build(self, name: str, source: Any) -> Any:
        return make_agent()


def routed(network: InstantNetwork | None = None) -> Router:
    """A router whose checkpoints are resident and answer at once, all with this network."""
    router = Router()
    for name in ("english", "multilingual"):
        router.attach(name, make_agent(network))
    return router


def claim(result: ExperimentResult, words: str) -> Claim:
    """The claim whose text holds these words."""
    found = [each for each in result.claims if words in each.text]
    assert len(found) == 1, [each.text for each in result.claims]
    return found[0]
