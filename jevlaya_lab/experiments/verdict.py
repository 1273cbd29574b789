"""What an experiment found, written below its picture: a saved page shows both together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from jevlaya_lab.views.furniture import MARGIN
from jevlaya_lab.views.layout import Label, Layout, Line, Piece, Rect, Table
from jevlaya_lab.views.text import wrapped

__all__ = ["WORDS", "with_verdict"]

WORDS: Final = {True: "held", False: "did not hold", None: "cannot be told"}
"""Outcomes of claims and hypotheses as people read them."""

_ROLES: Final = {True: "done", False: "failed", None: "skipped"}
_SIZE: Final = 12.5
_LINE: Final = 17.0
_BADGE: Final = 104.0


def with_verdict(
    layout: Layout, hypothesis: str, held: bool | None, claims: Sequence[Any]
) -> Layout:
    """A picture with its hypothesis and claims below.

    Args:
        layout: The picture.
        hypothesis: What was to be tested.
        held: Its outcome.
        claims: Its parts, each with ``text``, ``held``, ``evidence`` and ``rule``.
    """
    right = layout.width - MARGIN
    y = layout.height + 4
    pieces: list[Piece] = [Line(((MARGIN, y), (right, y)), "grid", width=1.0)]
    y += 20
    room = right - MARGIN
    for line in wrapped(f"Hypothesis ({WORDS[held]}): {hypothesis}", room, _SIZE, True, most=4):
        pieces.append(Label(MARGIN, y, line, size=_SIZE, bold=True))
        y += _LINE
    for claim in claims:
        y += 8
        left = MARGIN + _BADGE + 10
        rule = f"{claim.rule}: " if claim.rule else ""
        pieces += [
            Rect(MARGIN, y - 9, _BADGE, 18, _ROLES[claim.held], radius=4, label=WORDS[claim.held]),
            Label(MARGIN + _BADGE / 2, y, WORDS[claim.held], size=11.5, anchor="middle"),
        ]
        for role, text, most in (("ink", rule + claim.text, 3), ("quiet", claim.evidence, 4)):
            for line in wrapped(text, right - left, _SIZE, most=most):
                pieces.append(Label(left, y, line, role=role, size=_SIZE))
                y += _LINE
    said = "; ".join(f"{WORDS[claim.held]}: {claim.text} {claim.evidence}" for claim in claims)
    rows = tuple((c.rule, c.text, WORDS[c.held], c.evidence) for c in claims)
    return replace(
        layout,
        height=y + 10,
        pieces=(*layout.pieces, *pieces),
        alt=f"{layout.alt} Hypothesis: {hypothesis} It {WORDS[held]}. {said}",
        tables=(Table(("rule", "expected", "outcome", "seen"), rows, "Claims"), *layout.tables),
    )
