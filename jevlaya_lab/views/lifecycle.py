"""The lifecycle diagram of one agent run: the way it took, with what every hook did and cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pandas as pd

from jevlaya_lab.views.furniture import heading
from jevlaya_lab.views.layout import Arrow, Bar, Box, Layout, Status

__all__ = ["lifecycle_layout"]

WIDTH: Final = 880.0
_MARGIN: Final = 24.0
_LINE: Final = 17.0
_TITLE: Final = 26.0
_GAP: Final = 30.0
_WIDE: Final = WIDTH - 2 * _MARGIN
_CHARACTERS: Final = 118
"""Characters of a line that fit into a box of full width."""


def lifecycle_layout(run: pd.Series[Any], events: pd.DataFrame) -> Layout:
    """Lay out the lifecycle of one run.

    Args:
        run: A row of ``trace.runs``.
        events: The rows of ``trace.events`` that belong to it.

    Returns:
        Boxes from the call to its return, top to bottom. Steps that this run did not take are there
        as well, with the status ``skipped``.
    """
    facts = {str(key): _plain(value) for key, value in run.items()}
    failed = facts["error_type"] is not None
    skipped = bool(facts["skipped"])
    inferred = facts["forward_ms"] is not None
    boxes: list[Box] = []
    y = 78.0

    def add(box_id: str, title: str, lines: Sequence[str], status: Status = "done") -> Box:
        nonlocal y
        box = _box(box_id, _MARGIN, y, _WIDE, title, lines, status)
        boxes.append(box)
        y += box.height + _GAP
        return box

    start_lines, start_failed = _hook_lines(events, "on_predict_start")
    end_lines, end_failed = _hook_lines(events, "on_predict_end")
    error_lines, error_failed = _hook_lines(events, "on_error")
    add("call", f"{facts['entry'] or 'call'}(…)", [_asked(facts)])
    add(
        "start",
        "on_predict_start",
        start_lines or ["no hook listens"],
        "failed" if start_failed else "done",
    )
    y = _work(boxes, y, facts, skipped=skipped, broke=failed and not start_failed)
    # Under the middle steps: the ways past it, from the skip and from decode, stay free.
    encode, forward = (next(b for b in boxes if b.id == step) for step in ("encode", "forward"))
    error = (facts["error_type"], facts["error_message"])
    boxes.append(
        _box(
            "error",
            encode.x,
            y,
            forward.x + forward.width - encode.x,
            "on_error",
            [": ".join(str(each) for each in error if each is not None), *error_lines]
            if failed
            else ["nothing failed"],
            ("failed" if error_failed else "done") if failed else "skipped",
        )
    )
    y += boxes[-1].height + _GAP
    add(
        "end",
        "on_predict_end",
        [
            _spent(facts) + (", taken before these hooks ran" if end_lines else ""),
            *(end_lines or ["no hook listens"]),
        ],
        "failed" if end_failed else "done",
    )
    add(
        "return",
        f"raises {facts['error_type']}" if failed else "returns the results",
        [],
        "failed" if failed else "done",
    )
    bars, caption, y = _time_bar(facts, events, y - _GAP + 34.0)
    title = f"Lifecycle of one run: {facts['scope']} {facts['model'] or ''}".rstrip()
    subtitle = (
        f"run {str(facts['run_id'])[:8]} · started {facts['started_at']:%Y-%m-%d %H:%M:%S} UTC"
    )
    way = (
        f"failed with {facts['error_type']}"
        if failed
        else "answered by a hook, nothing was computed"
        if skipped
        else "computed by the network"
        if inferred
        else _passed_on(facts)
    )
    alt = (
        f"{title}. {_asked(facts)}; {way}. {_spent(facts)}. "
        f"Start hooks: {'; '.join(start_lines) or 'none'}. "
        f"End hooks: {'; '.join(end_lines) or 'none'}."
    )
    return Layout(
        width=WIDTH,
        height=y,
        title=title,
        subtitle=subtitle,
        alt=alt,
        boxes=tuple(boxes),
        pieces=tuple(heading(title, subtitle)[0]),
        arrows=_arrows(
            boxes,
            skipped=skipped,
            failed=failed,
            start_failed=start_failed,
            otherwise=_passed_on(facts),
        ),
        bars=bars,
        bar_caption=caption,
    )


def _passed_on(facts: dict[str, Any]) -> str:
    """Why a run that was not skipped has no steps of its own."""
    if facts["scope"] in ("route", "load", "evict"):
        return f"a {facts['scope']}, no prediction"
    if not facts["n_questions"] or not facts["n_states"]:
        return "empty: nothing was asked"
    if facts["scope"] == "router":
        return "answered by the agent, whose run has the steps"
    return "answered; its steps are not known"


def _work(
    boxes: list[Box], y: float, facts: dict[str, Any], *, skipped: bool, broke: bool
) -> float:
    """The two ways between start and end: the hook's answer, or the four steps."""
    gap = 14.0
    skip_width = 170.0
    step_width = (_WIDE - skip_width - 4 * gap) / 4
    ways: list[tuple[str, str, list[str], Status]] = [
        (
            "skip",
            "ctx.skip(results)",
            ["a start hook answered" if skipped else "no hook answered"],
            "done" if skipped else "skipped",
        )
    ]
    status = _step_status(facts, broke)
    details = {
        "encode": ["states → token rows"],
        "collate": [_number(facts["n_rows"], "row"), _number(facts["padded_tokens"], "pad token")],
        "forward": [_number(facts["n_forwards"], "pass", "passes")],
        "decode": ["logits → answers"],
    }
    for step, lines in details.items():
        if facts[f"{step}_ms"] is None:
            lines = ["broke here"] if status[step] == "failed" else []
        elif status[step] == "failed":
            lines = ["broke here"]
        elif status[step] == "done":
            lines = [_ms(facts[f"{step}_ms"]), *lines]
        else:
            lines = []
        ways.append((step, step, lines, status[step]))
    n_lines = max(len(lines) for _, _, lines, _ in ways)
    x = _MARGIN
    for box_id, title, lines, state in ways:
        width = skip_width if box_id == "skip" else step_width
        boxes.append(_box(box_id, x, y, width, title, lines, state, n_lines=n_lines))
        x += width + gap
    return y + boxes[-1].height + _GAP


_STEPS: Final = ("encode", "collate", "forward", "decode")


def _step_status(facts: dict[str, Any], broke: bool) -> dict[str, Status]:
    """Which steps ran, and which one broke. The checks ahead of them count as part of encode."""
    ran: Status = "done" if facts["forward_ms"] is not None else "skipped"
    status = dict.fromkeys(_STEPS, ran)
    if broke and (facts["failed_step"] is not None or ran == "skipped"):
        at = _STEPS.index(facts["failed_step"] or "encode")
        status.update(dict.fromkeys(_STEPS[at:], "skipped"), **{_STEPS[at]: "failed"})
    return status


def _box(
    box_id: str,
    x: float,
    y: float,
    width: float,
    title: str,
    lines: Sequence[str],
    status: Status,
    n_lines: int = 0,
) -> Box:
    fit = max(8, int(_CHARACTERS * (width - 16.0) / _WIDE))
    lines = [" ".join(line.split()) for line in lines]
    shown = tuple(line if len(line) <= fit else line[: fit - 1] + "…" for line in lines)
    height = _TITLE + max(len(shown), n_lines) * _LINE + (8.0 if shown or n_lines else 0.0)
    return Box(box_id, x, y, width, height, title, shown, status)


def _arrows(
    boxes: Sequence[Box], *, skipped: bool, failed: bool, start_failed: bool, otherwise: str
) -> tuple[Arrow, ...]:
    status = {box.id: box.status for box in boxes}

    def taken(condition: bool) -> Status:
        return "done" if condition else "skipped"

    computed = status["encode"] != "skipped"
    broken = next((step for step in _STEPS if status[step] == "failed"), None)
    arrows = [
        Arrow("call", "start"),
        Arrow("start", "skip", taken(skipped)),
        Arrow("start", "encode", taken(computed)),
        Arrow("encode", "collate", taken(status["collate"] != "skipped")),
        Arrow("collate", "forward", taken(status["forward"] != "skipped")),
        Arrow("forward", "decode", taken(status["decode"] != "skipped")),
        Arrow("skip", "end", taken(skipped and not failed)),
        Arrow("decode", "end", taken(computed and not failed)),
        Arrow("error", "end", taken(failed)),
        Arrow("end", "return"),
    ]
    if not failed and not skipped and not computed:
        arrows.append(Arrow("start", "end", "done", otherwise))
    if start_failed:
        arrows.append(Arrow("start", "error"))
    elif failed:
        arrows.append(Arrow(broken if broken not in (None, "decode") else "forward", "error"))
    return tuple(arrows)


def _hook_lines(events: pd.DataFrame, event: str) -> tuple[list[str], bool]:
    rows = events[(events["event"] == event) & events["hook"].notna()]
    lines, failed = [], False
    for row in rows.itertuples(index=False):
        error = _plain(row.error_type)
        failed = failed or error is not None
        changed = _plain(row.changed)
        lines.append(
            f"{int(row.position) + 1}. {row.hook} ({row.origin})  {_ms(row.duration_ms)}"
            + (f"  changed {changed}" if changed else "")
            + (f"  raised {error}" if error else "")
        )
    return lines, failed


def _time_bar(
    facts: dict[str, Any], events: pd.DataFrame, y: float
) -> tuple[tuple[Bar, ...], str, float]:
    total = facts["elapsed_ms"] or 0.0
    if total <= 0:
        return (), "", y
    # End hooks run after elapsed_ms was taken, and on_error is part of none of these.
    before_end = events[(events["event"] == "on_predict_start") & events["hook"].notna()]
    parts = [
        (step, facts[f"{step}_ms"] or 0.0) for step in ("encode", "collate", "forward", "decode")
    ]
    parts.append(("start hooks", float(before_end["duration_ms"].sum())))
    parts.append(("other", max(0.0, total - sum(ms for _, ms in parts))))
    scale = _WIDE / max(total, sum(ms for _, ms in parts))
    bars: list[Bar] = []
    x = _MARGIN
    for label, ms in parts:
        if ms > 0:
            bars.append(Bar(x, y, ms * scale, 26.0, label, ms))
            x += ms * scale
    caption = "Where the time went:  " + "   ".join(
        f"{label} {_ms(ms)} ({ms / total:.0%})" for label, ms in parts if ms > 0
    )
    return tuple(bars), caption, y + 26.0 + 34.0


def _asked(facts: dict[str, Any]) -> str:
    return f"{_number(facts['n_states'], 'state')} × {_number(facts['n_questions'], 'question')}"


def _spent(facts: dict[str, Any]) -> str:
    text = f"elapsed {_ms(facts['elapsed_ms'] or 0.0)}"
    if facts["input_tokens"] is not None:
        text += f", {int(facts['input_tokens'])} input tokens"
    return text


def _number(value: Any, noun: str, plural: str | None = None) -> str:
    if value is None:
        return f"? {noun}s"
    return f"{int(value)} {noun if value == 1 else plural or noun + 's'}"


def _ms(value: float) -> str:
    """Milliseconds with about three digits that mean something."""
    return f"{value:.0f} ms" if value >= 100 else f"{value:.{1 if value >= 10 else 2}f} ms"


def _plain(value: Any) -> Any:
    return None if value is pd.NA or value is pd.NaT or value != value else value
