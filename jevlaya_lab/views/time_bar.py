"""Where the time of a run went, as a bar of its parts."""

from __future__ import annotations

from typing import Final

from jevlaya_lab.views.calls import Row
from jevlaya_lab.views.furniture import MARGIN, Key, legend
from jevlaya_lab.views.hook_text import listening
from jevlaya_lab.views.layout import WIDTH, Bar, Label, Piece
from jevlaya_lab.views.steps import STEPS
from jevlaya_lab.views.text import milliseconds

__all__ = ["time_bar"]

_PARTS: Final = {
    "encode": ("series-5", 2),
    "collate": ("series-0", 1),
    "forward": ("yellow", 0),
    "decode": ("series-2", 4),
    "start hooks": ("series-3", 3),
    "other": ("rest", 0),
}
"""Role and hatch of each part; neighbours also differ in lightness."""


def time_bar(
    run: Row, timed: Row, events: list[Row], y: float, shared: int = 0, together: int = 0
) -> tuple[tuple[Bar, ...], list[Piece], float]:
    """The bar, its legend, and the y below them.

    Args:
        run: The run whose time it is.
        timed: The run that has its steps: itself, or its agent's.
        events: The rows of events of the run.
        y: Where it begins.
        shared: How many requests the steps were for, where there were several.
        together: How many requests its checkpoint answered in this call.
    """
    total = run["elapsed_ms"] or 0.0
    if total <= 0 or run["scope"] not in ("agent", "router"):
        return (), [], y + 8
    # End hooks run after elapsed_ms was taken, and on_error is part of none of these.
    start = listening(events, "on_predict_start")
    parts = {step: timed[f"{step}_ms"] or 0.0 for step in STEPS}
    parts["start hooks"] = sum(row["duration_ms"] or 0.0 for row in start)
    parts["other"] = max(0.0, total - sum(parts.values()))
    parts = {name: ms for name, ms in parts.items() if ms > 0}
    scale = (WIDTH - 2 * MARGIN) / sum(parts.values())
    bars, x = [], MARGIN
    for name, ms in parts.items():
        role, hatch = _PARTS[name]
        bars.append(Bar(x, y + 22, ms * scale, 26.0, name, ms, role, hatch))
        x += ms * scale
    keys = [
        Key(
            f"{name} {milliseconds(ms)} ({ms / total:.0%})", _PARTS[name][0], number=_PARTS[name][1]
        )
        for name, ms in parts.items()
    ]
    title = "Where the time went"
    if together > 1:
        title += f", from its start until the {together} requests of its checkpoint were answered"
    if shared and timed["forward_ms"] is not None:
        title += f" (steps: of the call that {shared} shared)"
    pieces: list[Piece] = [Label(MARGIN, y + 8, title, "quiet", 11.5, bold=True)]
    signs, end = legend(keys, y + 54)
    return tuple(bars), pieces + signs, end + 4
