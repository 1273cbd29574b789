"""What an agent's run did between its start hooks and its end hooks, as boxes."""

from __future__ import annotations

from typing import Final

from jevlaya_lab.views.calls import Row
from jevlaya_lab.views.flow import Flow
from jevlaya_lab.views.hook_text import hook_lines, listening, raised
from jevlaya_lab.views.layout import Status
from jevlaya_lab.views.text import milliseconds, number

__all__ = ["STEPS", "agent_boxes", "counted", "end_box", "outcome", "passed_on", "spent", "way"]

STEPS: Final = ("encode", "collate", "forward", "decode")
_GAP: Final = 14.0


def agent_boxes(flow: Flow, run: Row, events: list[Row], prefix: str = "") -> None:
    """Start hooks, the way that was taken, on_error and end hooks of one agent's run.

    Args:
        flow: Where they are added.
        run: A row of runs.
        events: The rows of events of this run.
        prefix: Before the ids of the boxes.
    """
    start = listening(events, "on_predict_start")
    error = listening(events, "on_error")
    failed = run["error_type"] is not None
    start_failed = raised(start)
    flow.add(
        f"{prefix}start",
        "on_predict_start",
        hook_lines(start) or ["no hook listens"],
        "failed" if start_failed else "done",
    )
    status = _step_status(run, failed and not start_failed)
    _ways(flow, run, status, prefix)
    # Under the middle steps: the ways past it, from the skip and from decode, stay free.
    at = {box.id: box for box in flow.boxes}
    encode, forward = at[f"{prefix}encode"], at[f"{prefix}forward"]
    if failed or not prefix:
        what = ": ".join(each for each in (run["error_type"], run["error_message"]) if each)
        flow.row(
            [
                (
                    f"{prefix}error",
                    "on_error",
                    [what, *hook_lines(error)] if failed else ["nothing failed"],
                    ("failed" if raised(error) else "done") if failed else "skipped",
                )
            ],
            [forward.x + forward.width - encode.x],
            encode.x,
        )
    neither = not failed and not run["skipped"] and status["encode"] == "skipped"
    end_box(flow, run, events, prefix, passed_on(run) if neither else None)
    _arrows(flow, run, status, prefix, failed=failed, start_failed=start_failed)


def end_box(
    flow: Flow, run: Row, events: list[Row], prefix: str = "", first: str | None = None
) -> None:
    """The end hooks, and what the run had cost by then; ``first`` is said ahead of that."""
    end = listening(events, "on_predict_end")
    lines = hook_lines(end)
    flow.add(
        f"{prefix}end",
        "on_predict_end",
        [
            *([first] if first else []),
            spent(run) + (", taken before these hooks ran" if lines else ""),
            *(lines or ["no hook listens"]),
        ],
        "failed" if raised(end) else "done",
    )


def way(run: Row, shared: int = 0) -> str:
    """Which way a run took, in words.

    Args:
        run: A row of runs.
        shared: How many requests the pass was for, where there were several.
    """
    if run["error_type"] is not None:
        return f"failed with {run['error_type']}"
    if run["skipped"]:
        return "answered by a hook, nothing was computed"
    if shared > 1:
        return f"answered by the agent in one call for {shared} requests"
    return "computed by the network" if run["forward_ms"] is not None else passed_on(run)


def passed_on(run: Row) -> str:
    """Why a run that was not skipped has no steps of its own."""
    if run["scope"] in ("route", "load", "evict"):
        return f"a {run['scope']}, no prediction"
    if not run["n_questions"] or not run["n_states"]:
        return "empty: nothing was asked"
    if run["scope"] == "router":
        return "answered by the agent, whose run has the steps"
    return "answered; its steps are not known"


def outcome(error: str | None, end: list[Row]) -> tuple[str, list[str], Status]:
    """How a call ended: title, lines and status of its last box.

    Args:
        error: The type of what it failed with.
        end: The rows of its end hooks.
    """
    if error is not None:
        return f"raises {error}", [], "failed"
    late = next((row["error_type"] for row in end if row["error_type"] is not None), None)
    if late is None:
        return "returns the results", [], "done"
    lines = ["with hooks_raise=False it is a warning, and the results are returned"]
    return f"raises the end hook's {late}", lines, "failed"


def spent(run: Row) -> str:
    """What a run cost."""
    known = run["elapsed_ms"]
    text = "elapsed time not known" if known is None else f"elapsed {milliseconds(known)}"
    if run["input_tokens"] is not None:
        text += f", {number(run['input_tokens'])} input tokens"
    if run["output_tokens"]:
        text += f", {number(run['output_tokens'])} output tokens"
    return text


def counted(value: float | None, noun: str, plural: str | None = None) -> str:
    """A number with its noun; a question mark where it is not known."""
    if value is None:
        return f"? {plural or noun + 's'}"
    return f"{number(value)} {noun if value == 1 else plural or noun + 's'}"


def _step_status(run: Row, broke: bool) -> dict[str, Status]:
    """Which steps ran, and which one broke. The checks ahead of them count as part of encode."""
    ran: Status = "done" if run["forward_ms"] is not None else "skipped"
    status = dict.fromkeys(STEPS, ran)
    if broke and (run["failed_step"] is not None or ran == "skipped"):
        at = STEPS.index(run["failed_step"]) if run["failed_step"] in STEPS else 0
        status.update(dict.fromkeys(STEPS[at:], "skipped"), **{STEPS[at]: "failed"})
    return status


def _ways(flow: Flow, run: Row, status: dict[str, Status], prefix: str) -> None:
    """The two ways between start and end: the hook's answer, or the four steps."""
    skipped = bool(run["skipped"])
    wide = flow.width > 700
    first = 170.0 if wide else 140.0
    width = (flow.width - first - 4 * _GAP) / 4
    boxes: list[tuple[str, str, list[str], Status]] = [
        (
            f"{prefix}skip",
            "ctx.skip(results)" if wide else "ctx.skip",
            ["a start hook answered" if skipped else "no hook answered"],
            "done" if skipped else "skipped",
        )
    ]
    passed = status["forward"] != "failed"  # rows are counted when they have gone through
    padding = counted(run["padded_tokens"], "pad token")
    details = {
        "encode": ["states → token rows" if wide else "→ token rows"],
        "collate": [counted(run["n_rows"], "row"), padding] if passed else [],
        "forward": [counted(run["n_forwards"], "pass", "passes")],
        "decode": ["logits → answers" if wide else "→ answers"],
    }
    for step, lines in details.items():
        if status[step] == "failed":
            lines = ["broke here"]
        elif status[step] == "done" and run[f"{step}_ms"] is not None:
            lines = [milliseconds(run[f"{step}_ms"]), *lines]
        else:
            lines = []
        boxes.append((f"{prefix}{step}", step, lines, status[step]))
    flow.row(boxes, [first, *[width] * 4], gap=_GAP)


def _arrows(
    flow: Flow,
    run: Row,
    status: dict[str, Status],
    prefix: str,
    *,
    failed: bool,
    start_failed: bool,
) -> None:
    def arrow(source: str, target: str, taken: bool, at: float | None = None) -> None:
        flow.arrow(prefix + source, prefix + target, "done" if taken else "skipped", at=at)

    skipped = bool(run["skipped"])
    computed = status["encode"] != "skipped"
    broken = next((step for step in STEPS if status[step] == "failed"), None)
    arrow("start", "skip", skipped)
    arrow("start", "encode", computed)
    arrow("encode", "collate", status["collate"] != "skipped")
    arrow("collate", "forward", status["forward"] != "skipped")
    arrow("forward", "decode", status["decode"] != "skipped")
    arrow("skip", "end", skipped and not failed)
    arrow("decode", "end", computed and not failed)
    if failed or not prefix:
        arrow("error", "end", failed)
    if not failed and not skipped and not computed:
        (encode,) = (box for box in flow.boxes if box.id == f"{prefix}encode")
        arrow("start", "end", True, encode.x - _GAP / 2)  # between the two ways
    if start_failed:
        arrow("start", "error", True)
    elif failed:
        arrow(broken if broken not in (None, "decode") else "forward", "error", True)
