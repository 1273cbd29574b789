"""What a provider counted and timed, as plain values, as records, and as Prometheus text."""

from __future__ import annotations

import bisect
import math
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from jevlaya_lab.embedding.errors import EmbeddingError, Where

__all__ = ["BUCKETS_MS", "Distribution", "Metrics", "Sample"]

BUCKETS_MS: Final = (0.1, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 3e4, 1e5)
"""Upper ends of the histogram's buckets, milliseconds."""

_RECENT: Final = 2048

HELP: Final = {
    "queue_wait_ms": "Milliseconds between a call and the start of its work.",
    "encode_ms": "Milliseconds of the work: a forward pass or more, a request, a hash.",
    "model_load_ms": "Milliseconds of loading and warming up a model.",
    "concurrency_inflight": "Encodes, or requests, running now.",
    "semaphore_waiters": "Calls waiting for a permit now.",
    "error_total": "Failed calls by error.",
    "timeout_total": "Calls that ran out of time, by what they were waiting for.",
    "cancelled_total": "Calls given up by their caller.",
    "texts_total": "Texts embedded.",
    "truncated_total": "Texts that the model read only the beginning of.",
    "retries_total": "Requests sent again.",
    "gpu_memory_bytes": "Memory of the GPU that this process's tensors take.",
    "gpu_utilisation_percent": "Share of the last second in which the GPU was busy.",
}
"""Each metric, and what it is."""


class Sample(NamedTuple):
    """One number: which metric, its labels, its kind (counter, gauge, histogram) and value."""

    metric: str
    kind: str
    labels: dict[str, str]
    value: Any


class Distribution:
    """Milliseconds seen so far: totals and buckets of all, quantiles of the last 2,048."""

    def __init__(self) -> None:
        self.count = 0
        self.sum = 0.0
        self.most = 0.0
        self.buckets = [0] * (len(BUCKETS_MS) + 1)
        self._recent: deque[float] = deque(maxlen=_RECENT)

    def add(self, value: float) -> None:
        """Take a value in."""
        self.count += 1
        self.sum += value
        self.most = max(self.most, value)
        self.buckets[bisect.bisect_left(BUCKETS_MS, value)] += 1
        self._recent.append(value)

    def summary(self) -> dict[str, float | int | None]:
        """Count, mean, p50, p99 and maximum; ``None`` where nothing was seen."""
        ordered = sorted(self._recent)
        return {
            "count": self.count,
            "mean": self.sum / self.count if self.count else None,
            "p50": _quantile(ordered, 0.5),
            "p99": _quantile(ordered, 0.99),
            "max": self.most if self.count else None,
        }


class Metrics:
    """Counters, gauges and distributions of one provider; safe to use from several threads.

    Args:
        where: The provider, whose name and model label every number.
    """

    def __init__(self, where: Where) -> None:
        self.where = where
        self._lock = threading.Lock()
        self._timed = {
            name: Distribution() for name in ("queue_wait_ms", "encode_ms", "model_load_ms")
        }
        self._counted: dict[str, int] = dict.fromkeys(
            ("cancelled_total", "texts_total", "truncated_total", "retries_total"), 0
        )
        self._errors: dict[str, int] = {}
        self._timeouts: dict[str, int] = {}
        self._gauges: dict[str, Callable[[], float | None]] = {
            "concurrency_inflight": lambda: 0,
            "semaphore_waiters": lambda: 0,
        }

    def observe(self, name: str, milliseconds: float) -> None:
        """Add to ``queue_wait_ms``, ``encode_ms`` or ``model_load_ms``."""
        with self._lock:
            self._timed[name].add(milliseconds)

    def count(self, name: str, n: int = 1) -> None:
        """Add to a counter."""
        with self._lock:
            self._counted[name] += n

    def error(self, error: EmbeddingError) -> None:
        """Count a failed call, and its timeout if it was one."""
        kind = type(error).__name__
        with self._lock:
            self._errors[kind] = self._errors.get(kind, 0) + 1
            if isinstance(error, TimeoutError):
                self._timeouts[kind] = self._timeouts.get(kind, 0) + 1

    def gauge(self, name: str, read: Callable[[], float | None]) -> None:
        """Have a gauge read by a function at every snapshot; ``None`` leaves it out."""
        self._gauges[name] = read

    def snapshot(self) -> dict[str, Any]:
        """Everything as plain values, by name; ``error_total`` and ``timeout_total`` by kind."""
        with self._lock:
            found: dict[str, Any] = {
                "provider": self.where.provider,
                "model": self.where.model,
                **{name: timed.summary() for name, timed in self._timed.items()},
                **self._counted,
                "error_total": dict(self._errors),
                "timeout_total": dict(self._timeouts),
            }
        found.update({name: value for name, value in self._read_gauges()})
        return found

    def records(self) -> list[dict[str, Any]]:
        """One plain record per number, for a table: provider, model, metric, label, value."""
        flat: list[dict[str, Any]] = []
        for metric, value in self.snapshot().items():
            if metric in ("provider", "model"):
                continue
            for label, number in value.items() if isinstance(value, dict) else [(None, value)]:
                flat.append(
                    {
                        "provider": self.where.provider,
                        "model": self.where.model,
                        "metric": metric,
                        "label": label,
                        "value": None if number is None else float(number),
                    }
                )
        return flat

    def samples(self) -> list[Sample]:
        """All numbers with kind and labels; a histogram's value is its ``Distribution``."""
        labels = {"provider": self.where.provider, "model": self.where.model}
        with self._lock:
            found = [Sample(k, "histogram", labels, _copy(v)) for k, v in self._timed.items()]
            found += [Sample(k, "counter", labels, v) for k, v in self._counted.items()]
            for metric, by_kind in (
                ("error_total", self._errors),
                ("timeout_total", self._timeouts),
            ):
                found += [
                    Sample(metric, "counter", {**labels, "error": kind}, n)
                    for kind, n in by_kind.items()
                ]
        found += [Sample(name, "gauge", labels, value) for name, value in self._read_gauges()]
        return found

    def _read_gauges(self) -> Iterator[tuple[str, float]]:
        for name, read in self._gauges.items():
            value = read()
            if value is not None:
                yield name, value


def gpu_memory_bytes(device: str) -> float | None:
    """Bytes that this process's tensors take on a CUDA device; ``None`` where there is none."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not device.startswith("cuda"):
        return None
    return float(torch.cuda.memory_allocated(device))


def gpu_utilisation_percent(device: str) -> float | None:
    """How busy a CUDA device is; ``None`` where there is none, or nothing that tells."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not device.startswith("cuda"):
        return None
    try:
        return float(torch.cuda.utilization(device))
    except (ImportError, RuntimeError):  # nvidia-ml-py is not installed, or the driver is silent
        return None


def _copy(timed: Distribution) -> Distribution:
    copied = Distribution()
    copied.count, copied.sum, copied.most = timed.count, timed.sum, timed.most
    copied.buckets = list(timed.buckets)
    return copied


def _quantile(ordered: list[float], share: float) -> float | None:
    return ordered[min(len(ordered) - 1, math.floor(share * len(ordered)))] if ordered else None
