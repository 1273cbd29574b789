"""What a Lab shows of itself in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jevlaya_lab.frames import Trace
from jevlaya_lab.frames.showing import answers_table, runs_table
from jevlaya_lab.markup import Markup, card, details, note, text

if TYPE_CHECKING:
    from jevlaya_lab.lab.lab import Lab

__all__ = ["lab_html"]


def lab_html(lab: Lab) -> Markup:
    """Whom it asks, the last answers, and the last runs of its trace."""
    records = lab.recorder.records()
    last = Trace.from_records(records[-8:])
    parts = [_of_target(lab.agent)]
    if lab.last is not None:
        parts.append(details(f"last answers: {len(lab.last)} rows", answers_table(lab.last)))
    counts = f"{len(records)} runs recorded"
    if dropped := lab.recorder.n_dropped:
        counts += f", {dropped} dropped"
    parts.append(details(counts, runs_table(last.runs)) if records else note(counts))
    return card("Lab", None, *parts)


def _of_target(target: Any) -> Markup:
    """An agent or router as it shows itself; ``laya``'s have no HTML of their own."""
    shown = getattr(target, "_repr_html_", None)
    known = type(target).__module__.partition(".")[0] == "jevlaya_lab"
    return Markup(shown()) if known and callable(shown) else text(repr(target), 400)
