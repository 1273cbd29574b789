"""The experiments of a Lab: on the agent or router that it asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jevlaya_lab.experiments.result import ExperimentResult

__all__ = ["Experimenting"]


class Experimenting:
    """The part of a Lab that runs experiments."""

    agent: Any

    def experiment(self, name: str, **parameters: Any) -> ExperimentResult:
        """Run an experiment on this Lab's agent or router, which comes out as it was.

        The runs of an experiment are not part of the trace.

        Args:
            name: One of :data:`jevlaya_lab.experiments.NAMES`, such as ``"eviction"``.
            **parameters: Of that experiment, and ``progress``; see ``docs/experiments.md``.

        Returns:
            Its result: ``frame``, ``summary()``, ``figure()``, ``to_csv(path)``.

        Raises:
            InvalidInput: There is no such experiment or parameter, or it cannot be run on this.
            ExperimentStopped: A ``progress`` function said so.
        """
        from jevlaya_lab.experiments import find

        return find(name).run(self.agent, **parameters)
