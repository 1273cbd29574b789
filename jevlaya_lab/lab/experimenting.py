"""The experiments of a Lab: on the agent or router that it asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jevlaya_lab.experiments.doctor import Examination
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

    def examine(self, hook: Any, **options: Any) -> Examination:
        """Put a hook of yours through calls, batches, failures and threads, and report.

        Nothing of this Lab is asked, and the hook is not installed: the calls are those of agents
        and routers that answer at once.

        Args:
            hook: A hook, a class of hooks, or a function without arguments that makes one.
            **options: See :func:`jevlaya_lab.experiments.doctor.examine`: ``questions``,
                ``timeout_s``, ``slow_ms``, ``seed``, ``progress``.

        Returns:
            A row per check in ``frame``; ``summary()``, ``figure()``, ``to_csv(path)``.

        Raises:
            InvalidInput: It is no hook, or an option is none.
            ExperimentStopped: A ``progress`` function said so.
        """
        from jevlaya_lab.experiments.doctor import examine

        return examine(hook, **options)
