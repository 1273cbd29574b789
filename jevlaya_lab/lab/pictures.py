"""What a Lab draws of its trace. Drawing is loaded with the first picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jevlaya_lab.frames import Trace

if TYPE_CHECKING:
    import pandas as pd

    from jevlaya_lab.analysis import Calibration
    from jevlaya_lab.views.picture import Picture

__all__ = ["Pictures"]


class Pictures:
    """The pictures of a Lab; ``jevlaya_lab.views`` draws the same from any trace."""

    answers: pd.DataFrame | None

    if TYPE_CHECKING:

        @property
        def trace(self) -> Trace:
            """What is drawn."""

        def calibration(self, truth: Any, question: Any, *, n_bins: int) -> Calibration:
            """What a reliability diagram is drawn of."""

    def lifecycle(self, run_id: str | None = None) -> Picture:
        """The lifecycle diagram of one run, or of a router's batch.

        Args:
            run_id: The id of a run or of a call, or the beginning of one; ``None`` is the last
                run that was asked for: of a router its own, not its agent's. The id of a call
                with several requests draws them all, one bracket per checkpoint.

        Raises:
            InvalidInput: Nothing was recorded, or not exactly one run or call has that id.
        """
        from jevlaya_lab.views.lifecycle import lifecycle_layout
        from jevlaya_lab.views.picture import Picture

        return Picture(lifecycle_layout(self.trace, run_id))

    def timeline(self) -> Picture:
        """When which run went on, a lane per thread, scope and checkpoint; loads and evictions.

        Of more than 300 runs each lane shows how many were open at once; the subtitle says so.
        """
        from jevlaya_lab.views.picture import Picture
        from jevlaya_lab.views.timeline import timeline_layout

        return Picture(timeline_layout(self.trace))

    def residency(self) -> Picture:
        """Which of a router's checkpoints were resident when, as far as the trace says."""
        from jevlaya_lab.views.picture import Picture
        from jevlaya_lab.views.residency import residency_layout

        return Picture(residency_layout(self.trace))

    def hook_order(self, call_id: str | None = None) -> Picture:
        """In which order the events of one call reached its hooks, and what lies inside of what.

        Args:
            call_id: The id of a call, or of a run in it, or its beginning; ``None`` is the last
                call.

        Raises:
            InvalidInput: Nothing was recorded, or not exactly one call has that id.
        """
        from jevlaya_lab.views.hook_order import hook_order_layout
        from jevlaya_lab.views.picture import Picture

        return Picture(hook_order_layout(self.trace, call_id))

    def distributions(self) -> Picture:
        """How long runs took, the share of padding, and the confidence of the last answers.

        The last part needs answers in the wide layout made with ``detail=True``.
        """
        from jevlaya_lab.views.distributions import distributions_layout
        from jevlaya_lab.views.picture import Picture

        return Picture(distributions_layout(self.trace, self.answers))

    def reliability(self, truth: Any, question: Any = None, *, n_bins: int = 10) -> Picture:
        """The reliability diagram of the last answers: :meth:`calibration` as a picture.

        Args:
            truth: The true values, see :meth:`calibration`.
            question: Which question; ``None`` takes every one that ``truth`` has a column for.
            n_bins: Bins of equal width between 0 and 1.

        Raises:
            InvalidInput: As :meth:`calibration`.
        """
        from jevlaya_lab.views.picture import Picture
        from jevlaya_lab.views.reliability import reliability_layout

        return Picture(reliability_layout(self.calibration(truth, question, n_bins=n_bins)))
