"""Latency metrics: how long runs took, by checkpoint and entry, in bounded memory."""

from __future__ import annotations

import bisect
import itertools
import math
import threading
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from jevlaya_lab.contrib_hooks.runs import checkpoint_of, entry_of, scope_of
from jevlaya_lab.system_one.encoding import check_count
from jevlaya_lab.system_one.errors import InvalidOption
from jevlaya_lab.system_one.events import BaseHook

__all__ = ["BUCKETS_MS", "LatencyMetrics"]

BUCKETS_MS: Final = (0.1, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 3e4)
"""Upper ends of the histogram's buckets, milliseconds."""

_OTHER: Final = "(other)"
_PREFIX: Final = "jevlaya_run_"
_HELP: Final = {
    "ms": ("histogram", "Milliseconds from the start of a run to its end hooks."),
    "errors_total": ("counter", "Runs that failed."),
    "skipped_total": ("counter", "Runs that a start hook answered."),
    "states_total": ("counter", "States of runs that did not fail."),
}


class _Series:
    """What runs of one kind added up to."""

    def __init__(self, n_buckets: int) -> None:
        self.buckets = [0] * (n_buckets + 1)
        self.sum = 0.0
        self.least, self.most = math.inf, 0.0
        self.errors = self.skipped = self.states = 0


class _Labels(NamedTuple):
    checkpoint: str
    scope: str
    entry: str


class LatencyMetrics(BaseHook):
    """A histogram of ``ctx.elapsed_ms`` for each checkpoint, scope and entry.

    Failed runs are counted and timed with the others. An entry is the method that was called; of
    ``laya``, which does not say, it is empty. A hit of a cache is quick and counts as a run; see
    ``skipped`` for how many there were (not known of ``laya``).

    Args:
        buckets: Upper ends of the buckets in milliseconds, rising.
        max_series: Combinations that are kept apart; what comes later is added up as ``(other)``.

    Raises:
        InvalidOption: The buckets are not rising positive numbers.
    """

    def __init__(self, buckets: Sequence[float] = BUCKETS_MS, max_series: int = 200) -> None:
        ends = tuple(float(end) for end in buckets)
        rising = all(a < b for a, b in itertools.pairwise(ends))
        if not ends or not rising or ends[0] <= 0 or not math.isfinite(ends[-1]):
            raise InvalidOption(
                f"LatencyMetrics: buckets must be rising positive milliseconds, got {buckets!r}"
            )
        self.buckets = ends
        self._max_series = check_count("max_series", max_series) or 1
        self._series: dict[_Labels, _Series] = {}
        self._lock = threading.Lock()

    def on_predict_end(self, ctx: Any) -> None:
        """Take the run's time in."""
        elapsed = ctx.elapsed_ms
        if not isinstance(elapsed, (int, float)) or not math.isfinite(elapsed):
            return
        labels = _Labels(checkpoint_of(ctx), scope_of(ctx), entry_of(ctx))
        n_states = len(ctx.states) if isinstance(ctx.states, (list, tuple)) else 0
        with self._lock:
            series = self._of(labels)
            series.buckets[bisect.bisect_left(self.buckets, elapsed)] += 1
            series.sum += elapsed
            series.least, series.most = min(series.least, elapsed), max(series.most, elapsed)
            if ctx.error is not None:
                series.errors += 1
                return
            series.states += n_states
            series.skipped += bool(getattr(ctx, "skipped", False))

    def records(self) -> list[dict[str, Any]]:
        """One plain dict for each combination, such as a DataFrame takes.

        Quantiles are upper bounds: the end of the bucket in which the run stands, and never more
        than the slowest run.
        """
        with self._lock:
            return [
                {
                    **labels._asdict(),
                    "n_runs": sum(series.buckets),
                    "n_errors": series.errors,
                    "n_skipped": series.skipped,
                    "n_states": series.states,
                    "mean_ms": series.sum / sum(series.buckets),
                    "min_ms": series.least,
                    "p50_ms": self._quantile(series, 0.5),
                    "p95_ms": self._quantile(series, 0.95),
                    "p99_ms": self._quantile(series, 0.99),
                    "max_ms": series.most,
                }
                for labels, series in self._series.items()
            ]

    def prometheus_text(self) -> str:
        """The same in Prometheus' text format; needs no package."""
        lines: list[str] = []
        with self._lock:
            for name, (kind, text) in _HELP.items():
                lines += [f"# HELP {_PREFIX}{name} {text}", f"# TYPE {_PREFIX}{name} {kind}"]
                for labels, series in self._series.items():
                    lines += self._points(name, labels, series)
        return "\n".join([*lines, ""])

    def clear(self) -> None:
        """Begin anew."""
        with self._lock:
            self._series.clear()

    def __repr__(self) -> str:
        with self._lock:
            n_runs = sum(sum(series.buckets) for series in self._series.values())
            return f"LatencyMetrics({n_runs} runs, {len(self._series)} series)"

    def _of(self, labels: _Labels) -> _Series:
        if labels not in self._series and len(self._series) >= self._max_series:
            labels = _Labels(_OTHER, _OTHER, _OTHER)
        if labels not in self._series:
            self._series[labels] = _Series(len(self.buckets))
        return self._series[labels]

    def _quantile(self, series: _Series, share: float) -> float:
        wanted, so_far = share * sum(series.buckets), 0
        for end, n in zip(self.buckets, series.buckets, strict=False):
            so_far += n
            if so_far >= wanted:
                return min(end, series.most)
        return series.most

    def _points(self, name: str, labels: _Labels, series: _Series) -> list[str]:
        shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels._asdict().items())
        full = _PREFIX + name
        if name != "ms":
            value = getattr(series, name.removesuffix("_total"))
            return [f"{full}{{{shown}}} {float(value)!r}"]
        lines, so_far = [], 0
        for end, n in zip((*map(repr, self.buckets), "+Inf"), series.buckets, strict=True):
            so_far += n
            lines.append(f'{full}_bucket{{{shown},le="{end}"}} {float(so_far)!r}')
        return [
            *lines,
            f"{full}_count{{{shown}}} {float(so_far)!r}",
            f"{full}_sum{{{shown}}} {series.sum!r}",
        ]


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
