"""The reliability diagram: stated probabilities against how often they came true, with counts."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd

from jevlaya_lab.analysis import Calibration
from jevlaya_lab.system_one.errors import InvalidInput
from jevlaya_lab.views.calls import Row, facts_of
from jevlaya_lab.views.furniture import MARGIN, TEXT, Key, heading, legend, no_data, note_lines
from jevlaya_lab.views.layout import WIDTH, Label, Layout, Line, Mark, Piece, Rect, Table
from jevlaya_lab.views.scales import Scale, linear
from jevlaya_lab.views.steps import counted
from jevlaya_lab.views.text import cut, number, shortened

__all__ = ["reliability_layout"]

_SIDE: Final = 300.0
_COUNTS: Final = 62.0
_PANEL: Final = 416.0
_QUESTIONS: Final = 8


def reliability_layout(found: Calibration) -> Layout:
    """Lay out what :func:`jevlaya_lab.analysis.calibration` found.

    Args:
        found: Its summary and its table of bins.

    Returns:
        A panel per question: where answers were as often right as they said, points lie on the
        diagonal; below it they promised too much. Under each how many answers a bin holds.

    Raises:
        InvalidInput: It is something else.
    """
    if not isinstance(found, Calibration):
        raise InvalidInput(
            f"a reliability diagram is drawn of what calibration() returns, got a "
            f"{type(found).__name__}"
        )
    questions = facts_of(found.summary)
    title = "Reliability: stated probability against the share that came true"
    n = sum(int(each["n"] or 0) for each in questions)
    subtitle = f"{counted(len(questions), 'question')}, {counted(n, 'answer')} with a true value"
    pieces, y = heading(title, subtitle)
    keys = [
        Key("what bins say and how often it came true", "series-0", "line", 0),
        Key("perfectly calibrated", "axis", "line", 1),
        Key("gap", "series-4", "field", 0),
    ]
    signs, y = legend(keys[:1], y - 4)
    pieces += signs
    y -= 18
    pieces += _more_keys(y)
    y += 24
    bins = found.reliability
    shown = questions[:_QUESTIONS]
    for i, each in enumerate(shown):
        x = MARGIN + (i % 2) * _PANEL
        top = y + (i // 2) * (_SIDE + _COUNTS + 100)
        own = facts_of(bins[bins["question"] == each["question"]])
        pieces += _panel(each, own, x, top)
    rows = -(-max(1, len(shown)) // 2)
    y += rows * (_SIDE + _COUNTS + 100)
    if not questions:
        pieces += no_data(MARGIN, y - 420, WIDTH - 2 * MARGIN, 90)
        y -= 330
    notes = []
    if len(questions) > len(shown):
        notes.append(f"And {len(questions) - len(shown)} more questions.")
    small = sum(1 for each in facts_of(bins) if each["n"] is not None and 0 < each["n"] < 10)
    if small:
        notes.append(
            f"{counted(small, 'bin')} of fewer than 10 answers, whose share is a rough one."
        )
    found_notes, end = note_lines(" ".join(notes), y - 14)
    said = [_said(each) for each in questions]
    alt = f"{title}. {subtitle}. {shortened(said, 6, '; ') or 'No data'}. {' '.join(notes)}".strip()
    return Layout(
        WIDTH,
        end + 8,
        title,
        subtitle,
        alt,
        pieces=(*pieces, *found_notes),
        tables=(_summary(questions), _bins(bins)),
    )


def _more_keys(y: float) -> list[Piece]:
    x = 360.0
    return [
        Line(((x, y), (x + 34, y)), "axis", 1, 1.4),
        Label(x + 40, y, "as often true as stated", size=TEXT),
        Line(((x + 220, y - 7), (x + 220, y + 7)), "alarm", 2, 2.0),
        Label(x + 230, y, "gap", size=TEXT),
        Rect(x + 290, y - 7, 20, 14, "series-5", 1),
        Label(x + 316, y, "answers in the bin", size=TEXT),
    ]


def _panel(question: Row, bins: list[Row], x: float, y: float) -> list[Piece]:
    left, right = x + 44, x + 44 + _SIDE + 20
    bottom = y + 40 + _SIDE
    across = linear([0.0, 1.0], left, right, zero=True, pad=0.0)
    up = linear([0.0, 1.0], bottom, bottom - _SIDE, zero=True, pad=0.0)
    name = f"{question['question']} ({question['kind']})"
    facts = (
        f"n {number(question['n'])} · right {number(question['accuracy'])} · stated "
        f"{number(question['confidence'])} · ECE {number(question['ece'])} · Brier "
        f"{number(question['brier'])}"
    )
    pieces: list[Piece] = [
        Label(x, y + 4, cut(name, _PANEL - 24, 13.0, True), size=13.0, bold=True),
        Label(x, y + 22, cut(facts, _PANEL - 24, TEXT), "quiet", TEXT),
        Rect(left, bottom - _SIDE, right - left, _SIDE, "panel"),
    ]
    for value, text in up.ticks:
        pieces.append(Line(((left, up(value)), (right, up(value))), "grid", width=1.0))
        pieces.append(Label(left - 6, up(value), text, "quiet", TEXT, "right"))
    pieces.append(Line(((left, bottom), (right, bottom - _SIDE)), "axis", 1, 1.4, label="diagonal"))
    known = [
        b for b in bins if b["n"] and b["confidence"] is not None and b["accuracy"] is not None
    ]
    if not known:
        below = left + 0.7 * (right - left)  # the diagonal
        pieces.append(Label(below, bottom - _SIDE / 4, "no data", "quiet", 14.0, "middle"))
    points = tuple((across(b["confidence"]), up(b["accuracy"])) for b in known)
    for (at, place), b in zip(points, known, strict=True):
        ideal = up(b["confidence"])
        pieces.append(
            Line(((at, place), (at, ideal)), "alarm", 2, 2.0, label=f"gap {number(b['gap'])}")
        )
    if len(points) > 1:
        pieces.append(Line(points, "series-0", 0, 2.0, label="reliability"))
    pieces += [Mark(at, place, "series-0", 0, 8.0, "bin") for at, place in points]
    pieces += _counts(bins, across, bottom)
    for value, text in across.ticks:
        pieces.append(Label(across(value), bottom + _COUNTS + 12, text, "quiet", TEXT, "middle"))
    pieces.append(
        Label(
            (left + right) / 2, bottom + _COUNTS + 30, "stated probability", "quiet", TEXT, "middle"
        )
    )
    return pieces


def _counts(bins: list[Row], across: Scale, top: float) -> list[Piece]:
    """How many answers each bin holds, as bars that hang from the diagram, with their numbers."""
    most = max((int(b["n"] or 0) for b in bins), default=0)
    pieces: list[Piece] = [Line(((across.start, top), (across.end, top)), "axis")]
    for b in bins:
        n = int(b["n"] or 0)
        if not n:
            continue
        left, right = across(b["low"]), across(b["high"])
        tall = max(2.0, (_COUNTS - 22) * n / most)
        pieces.append(Rect(left + 1, top, right - left - 2, tall, "series-5", 1, label=f"{n}"))
        pieces.append(Label((left + right) / 2, top + tall + 8, number(n), "ink", 10.5, "middle"))
    return pieces


def _said(each: Row) -> str:
    return (
        f"{each['question']}: {number(each['n'])} answers, {number(each['accuracy'])} right, said "
        f"{number(each['confidence'])} on average, expected calibration error {number(each['ece'])}"
    )


def _summary(questions: list[Row]) -> Table:
    names = ("question", "kind", "n", "accuracy", "confidence", "ece", "brier")
    return Table(
        names, tuple(tuple(_cell(q[name]) for name in names) for q in questions), "Summary"
    )


def _bins(bins: pd.DataFrame) -> Table:
    names = ("question", "low", "high", "n", "confidence", "accuracy", "gap")
    rows = [tuple(_cell(row[name]) for name in names) for row in facts_of(bins) if row["n"]]
    return Table(names, tuple(rows[:100]), "The bins as a table")


def _cell(value: Any) -> str:
    return number(value) if value is None or isinstance(value, (int, float)) else str(value)
