"""The widgets of a Lab, made on demand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from jevlaya_lab.lab.lab import Lab
    from jevlaya_lab.widgets.explorer import Explorer
    from jevlaya_lab.widgets.panel import Panel
    from jevlaya_lab.widgets.playground import Playground

__all__ = ["Interactive"]


class Interactive:
    """Mixin of :class:`jevlaya_lab.Lab`: its explorer, playground and panels."""

    agent: Any

    def explorer(self) -> Explorer:
        """Filter the recorded runs, choose one, see its lifecycle, hooks and answers.

        Returns:
            Controls with a picture beneath; make it the last line of a cell.
        """
        from jevlaya_lab.widgets.explorer import Explorer

        return Explorer(cast("Lab", self))

    def playground(
        self,
        state: Any = None,
        questions: Mapping[str, Any] | None = None,
        hooks: Any = None,
    ) -> Playground:
        """Write a state, edit questions, pick hooks and their order, run, see the lifecycle.

        Args:
            state: The first state: text, a dict or a conversation.
            questions: The first questions; ``None`` for three of a help desk.
            hooks: Hooks to pick from, beside the ready-made ones; picked at the start.

        Raises:
            InvalidInput: A question or a hook is none.
        """
        from jevlaya_lab.widgets.playground import Playground

        return Playground(cast("Lab", self), state, questions, hooks)

    def panel(self, experiment: str) -> Panel:
        """The control panel of an experiment, on this Lab's agent or router.

        Args:
            experiment: Its name, see ``jevlaya_lab.experiments.NAMES``.

        Raises:
            InvalidOption: There is no such experiment.
        """
        from jevlaya_lab.widgets.panel import Panel

        return Panel(experiment, self.agent)
