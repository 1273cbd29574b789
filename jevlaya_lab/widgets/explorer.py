"""The explorer: filter the runs of a trace, choose one, see its lifecycle, hooks and answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import ipywidgets
import pandas as pd

from jevlaya_lab.frames import Trace
from jevlaya_lab.frames.build import outermost
from jevlaya_lab.lab.lab import Lab
from jevlaya_lab.markup import Markup, facts, join, note, table
from jevlaya_lab.system_one.errors import InvalidInput, InvalidOption
from jevlaya_lab.views.picture import Picture
from jevlaya_lab.widgets.background import Latest
from jevlaya_lab.widgets.shown import Shown, error_text, label, notice

__all__ = ["Explorer"]

LISTED: Final = 300
"""Runs in the list; more are found by the filters."""

_EMPTY: Final = notice(
    "No run is chosen", "Ask the Lab something, press Refresh, and choose a run in the list."
)
_WHICH: Final = {
    "asked for": "what somebody asked: not the runs inside of others",
    "agent": "runs of agents",
    "router": "runs of routers",
    "load": "loads of checkpoints",
    "evict": "evictions",
    "all": "every run",
}
_ORDERS: Final = ("latest first", "slowest first")
_OUTCOMES: Final[dict[str, Callable[[pd.DataFrame], Any]]] = {
    "any": lambda runs: pd.Series(True, index=runs.index),
    "computed": lambda runs: runs["error_type"].isna() & ~runs["skipped"].fillna(False),
    "skipped": lambda runs: runs["skipped"].fillna(False),
    "failed": lambda runs: runs["error_type"].notna(),
}


class Explorer(Shown):
    """See the runs of a Lab; made by :meth:`jevlaya_lab.Lab.explorer`.

    Args:
        lab: The Lab.
    """

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._trace = lab.trace
        self._which = ipywidgets.ToggleButtons(
            options=list(_WHICH),
            tooltips=list(_WHICH.values()),
            style={"button_width": "auto"},
        )
        self._outcome = ipywidgets.ToggleButtons(
            options=list(_OUTCOMES), style={"button_width": "auto"}
        )
        self._order = ipywidgets.ToggleButtons(
            options=list(_ORDERS), style={"button_width": "auto"}
        )
        self._checkpoint = ipywidgets.Combobox(placeholder="any checkpoint", continuous_update=True)
        self._search = ipywidgets.Text(
            placeholder="part of an id, a reason, an error, a hook's name", continuous_update=True
        )
        self._runs = ipywidgets.Select(rows=9, layout=ipywidgets.Layout(width="98%"))
        self._refresh = ipywidgets.Button(
            description="Refresh", icon="refresh", tooltip="read the trace of the Lab again"
        )
        self._back = ipywidgets.Button(description="Previous", tooltip="the run above")
        self._forth = ipywidgets.Button(description="Next", tooltip="the run below")
        self._said = ipywidgets.HTML()
        self._facts = ipywidgets.HTML()
        self._latest = Latest(self._failed)
        for each in (self._which, self._outcome, self._order, self._checkpoint, self._search):
            each.observe(lambda _: self._fill(), "value")
        self._runs.observe(lambda _: self._choose(), "value")
        self._refresh.on_click(lambda _: self._latest.submit(self._read))
        self._back.on_click(lambda _: self._step(-1))
        self._forth.on_click(lambda _: self._step(1))
        super().__init__(
            self._controls(), _EMPTY, "Explorer of runs: its controls need a running kernel"
        )
        self.refresh()

    def refresh(self) -> None:
        """Read the Lab's trace again; the run that is chosen stays so where it is still there."""
        self._read()
        self.wait()

    def _read(self) -> None:
        self._trace = self._lab.trace
        self._checkpoint.options = sorted(self._trace.runs["model"].dropna().unique())
        self._fill()

    def filter(
        self,
        *,
        which: str | None = None,
        outcome: str | None = None,
        order: str | None = None,
        checkpoint: str | None = None,
        search: str | None = None,
    ) -> None:
        """Set filters as the controls do.

        Args:
            which: ``"asked for"``, a scope, or ``"all"``.
            outcome: ``"any"``, ``"computed"``, ``"skipped"`` or ``"failed"``.
            order: ``"latest first"`` or ``"slowest first"``.
            checkpoint: A name or the beginning of it; empty for any.
            search: Text that stands in an id, a reason, an error or a hook's name.

        Raises:
            InvalidOption: There is no such value.
        """
        for name, given, known in (
            ("which", which, _WHICH),
            ("outcome", outcome, _OUTCOMES),
            ("order", order, _ORDERS),
        ):
            if given is not None and given not in known:
                raise InvalidOption(f"{name}={given!r} is not known; there are {', '.join(known)}")
        for control, value in (
            (self._which, which),
            (self._outcome, outcome),
            (self._order, order),
            (self._checkpoint, checkpoint),
            (self._search, search),
        ):
            if value is not None:
                control.value = value

    @property
    def run_ids(self) -> list[str]:
        """The runs in the list, from top to bottom."""
        return [value for _, value in self._runs.options]

    @property
    def run_id(self) -> str | None:
        """The run that is chosen."""
        value: str | None = self._runs.value
        return value

    @run_id.setter
    def run_id(self, value: str) -> None:
        found = [each for each in self.run_ids if isinstance(value, str) and each.startswith(value)]
        if len(found) != 1:
            raise InvalidInput(
                f"{len(found)} runs in the list have an id that begins with {value!r}; see "
                "explorer.run_ids, and the filters"
            )
        self._runs.value = found[0]

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the picture is that of the chosen run.

        Args:
            timeout: Seconds.

        Returns:
            Whether it is.
        """
        return self._latest.wait(timeout)

    # --- the list ----------------------------------------------------------------------------

    def _fill(self) -> None:
        runs = _chosen(self._trace, self._which.value)
        runs = runs[_OUTCOMES[self._outcome.value](runs).astype(bool)]
        if name := self._checkpoint.value.strip():
            runs = runs[runs["model"].fillna("").str.startswith(name)]
        if words := self._search.value.strip().casefold():
            runs = runs[_mentions(self._trace, runs, words)]
        by = "elapsed_ms" if self._order.value == "slowest first" else "start_ms"
        runs = runs.sort_values(by, ascending=False, kind="stable", na_position="last")
        before = self.run_id
        shown = runs.head(LISTED)
        self._runs.options = [(_line(run), run.run_id) for run in shown.itertuples(index=False)]
        more = f", the first {LISTED} are listed" if len(runs) > LISTED else ""
        self._said.value = note(f"{len(runs)} of {len(self._trace.runs)} runs{more}")
        ids = self.run_ids
        chosen = before if before in ids else (ids[0] if ids else None)
        if chosen != self.run_id:
            self._runs.value = chosen
        if not ids:
            self._facts.value = ""
            self._latest.submit(lambda: self.show(_EMPTY))

    def _step(self, by: int) -> None:
        ids = self.run_ids
        if ids:
            at = ids.index(self.run_id) + by if self.run_id in ids else 0
            self._runs.value = ids[min(max(at, 0), len(ids) - 1)]

    # --- the chosen run ----------------------------------------------------------------------

    def _choose(self) -> None:
        run_id = self.run_id
        if run_id is not None:
            trace = self._trace
            self._latest.submit(lambda: self._draw(trace, run_id))

    def _draw(self, trace: Trace, run_id: str) -> None:
        from jevlaya_lab.views.lifecycle import lifecycle_layout

        run = trace.runs[trace.runs["run_id"] == run_id].iloc[0]
        self._facts.value = run_html(trace, run)
        self.show(Picture(lifecycle_layout(trace, run_id)))

    def _failed(self, error: BaseException) -> None:
        self._said.value = error_text(error)

    def _controls(self) -> Any:
        row = ipywidgets.HBox
        wrap = ipywidgets.Layout(flex_flow="row wrap")
        return ipywidgets.VBox(
            [
                row([label("runs"), self._which], layout=wrap),
                row([label("outcome"), self._outcome, label("order"), self._order], layout=wrap),
                row([self._checkpoint, self._search, self._refresh], layout=wrap),
                self._runs,
                row([self._back, self._forth, self._said]),
                self._facts,
            ]
        )


def run_html(trace: Trace, run: Any) -> Markup:
    """One run as tables: what it was, its hooks in order, its answers where they were kept."""
    plain = {key: None if pd.isna(value) else value for key, value in run.items()}
    events = trace.events[
        (trace.events["run_id"] == plain["run_id"]) & trace.events["hook"].notna()
    ]
    hooks = [
        [
            *(row.event, _position(row.position), row.hook, _plain(row.origin)),
            *(_number(row.duration_ms), _plain(row.changed), _plain(row.error_type)),
        ]
        for row in events.itertuples(index=False)
    ]
    error = [plain["error_type"], plain["error_message"]]
    return join(
        facts(
            [
                ("run", plain["run_id"]),
                ("entry", plain["entry"]),
                ("checkpoint", plain["model"]),
                ("routed", plain["routing_reason"]),
                ("took", f"{_number(plain['elapsed_ms'])} ms"),
                ("input tokens", plain["input_tokens"]),
                ("error", ": ".join(str(each) for each in error if each is not None) or None),
            ]
        ),
        table(["event", "place", "hook", "origin", "ms", "changed", "error"], hooks),
        _answers(plain),
    )


def _answers(run: dict[str, Any]) -> Markup:
    if run["error_type"] is not None or (run["captured"] == "text" and run["results"] is None):
        return note("This run has no answers.")
    if run["results"] is None:
        return note("States and answers are kept with Lab(…, capture='text') only.")
    if run["captured"] != "text":
        return note("Of states and answers only fingerprints are kept; text: capture='text'.")
    results = json.loads(run["results"])
    rows = [
        [i, question, *_answer(answer)]
        for i, result in enumerate(results if isinstance(results, list) else [])
        if isinstance(result, dict)
        for question, answer in (result.get("answers") or {}).items()
    ]
    if not rows:
        return note("This run has no answers.")
    more = note(f"the first 20 of {len(rows)} answers") if len(rows) > 20 else Markup("")
    return join(table(["state", "question", "answer", "probabilities"], rows[:20]), more)


def _answer(answer: Any) -> tuple[Any, Any]:
    """What was answered, and how likely each option was."""
    if not isinstance(answer, dict):
        return answer, None
    shares = answer.get("probabilities")
    likely = shares.items() if isinstance(shares, dict) else ()
    return (
        answer.get(str(answer.get("type")), answer),
        "   ".join(f"{name}: {share:.3f}" for name, share in likely) or None,
    )


def _chosen(trace: Trace, which: str) -> pd.DataFrame:
    if which == "asked for":
        return outermost(trace.runs)
    return trace.runs if which == "all" else trace.runs[trace.runs["scope"] == which]


def _mentions(trace: Trace, runs: pd.DataFrame, words: str) -> pd.Series[bool]:
    """Which runs have these words in one of their texts, or in a hook's name."""
    hooks = trace.events["hook"].fillna("").str.casefold().str.contains(words, regex=False)
    found = runs["run_id"].isin(trace.events.loc[hooks.astype(bool), "run_id"])
    for name in ("run_id", "call_id", "routing_reason", "error_type", "error_message", "thread"):
        texts = runs[name].fillna("").str.casefold()
        found |= texts.str.contains(words, regex=False).astype(bool)
    return found


def _line(run: Any) -> str:
    """A run as a line of the list."""
    parts = [
        f"{_number(run.elapsed_ms):>8} ms",
        f"{_plain(run.scope) or '?'} {_plain(run.model) or ''}".strip(),
        f"{_plain(run.n_states) if _plain(run.n_states) is not None else '?'} state(s)",
    ]
    if _plain(run.skipped):
        parts.append("skipped")
    if (error := _plain(run.error_type)) is not None:
        parts.append(f"failed: {error}")
    parts.append(str(run.run_id)[:8])
    return " · ".join(parts)


def _plain(value: Any) -> Any:
    return None if pd.isna(value) else value


def _position(value: Any) -> int | None:
    return None if pd.isna(value) else int(value) + 1


def _number(value: Any) -> str:
    return "?" if value is None or pd.isna(value) else f"{value:.2f}"
