"""What a Lab draws of its trace. Drawing is loaded with the first picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jevlaya_lab.frames import Trace

if TYPE_CHECKING:
    from jevlaya_lab.views.picture import Picture

__all__ = ["Pictures"]


class Pictures:
    """The pictures of a Lab; ``jevlaya_lab.views`` draws the same from any trace."""

    trace: Any

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

        return Picture(lifecycle_layout(_trace_of(self), run_id))


def _trace_of(lab: Any) -> Trace:
    found: Trace = lab.trace
    return found
