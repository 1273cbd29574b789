"""Metrics for Prometheus: as text in its exposition format, or as a registry of its client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from jevlaya_lab.embedding.errors import MissingExtra
from jevlaya_lab.embedding.metrics import BUCKETS_MS, HELP, Distribution, Metrics, Sample

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

__all__ = ["prometheus_registry", "prometheus_text"]

_PREFIX: Final = "jevlaya_embedding_"


def prometheus_text(*metrics: Metrics) -> str:
    """The metrics of some providers in Prometheus' text format; needs no package.

    Args:
        metrics: Of one provider each; every sample is labelled with provider and model.
    """
    lines: list[str] = []
    for name, kind, samples in _families(metrics):
        lines.append(f"# HELP {_PREFIX}{name} {HELP[name]}")
        lines.append(f"# TYPE {_PREFIX}{name} {kind}")
        for sample in samples:
            lines.extend(_lines(sample))
    return "\n".join([*lines, ""])


def prometheus_registry(*metrics: Metrics) -> CollectorRegistry:
    """A registry of ``prometheus_client`` of their own, which reads the metrics at each scrape.

    Raises:
        MissingExtra: ``prometheus_client`` is not installed.
    """
    try:
        from prometheus_client import CollectorRegistry
    except ImportError as exc:
        raise MissingExtra(
            "a Prometheus registry needs a package that is not installed: "
            "pip install 'jevlaya_lab[prometheus]' (prometheus_text needs none)"
        ) from exc
    registry = CollectorRegistry()
    registry.register(_Collector(metrics))
    return registry


class _Collector:
    """What a registry asks at each scrape."""

    def __init__(self, metrics: tuple[Metrics, ...]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Any]:
        """One family per metric."""
        from prometheus_client.core import Metric

        for name, kind, samples in _families(self._metrics):
            base = _PREFIX + (name.removesuffix("_total") if kind == "counter" else name)
            family = Metric(base, HELP[name], kind)
            for sample in samples:
                for full, labels, value in _points(sample):
                    family.add_sample(full, labels, value)
            yield family


def _families(metrics: tuple[Metrics, ...]) -> Iterator[tuple[str, str, list[Sample]]]:
    found: dict[str, list[Sample]] = {}
    for one in metrics:
        for sample in one.samples():
            found.setdefault(sample.metric, []).append(sample)
    for name, samples in found.items():
        yield name, samples[0].kind, samples


def _points(sample: Sample) -> Iterator[tuple[str, dict[str, str], float]]:
    name = _PREFIX + sample.metric
    if sample.kind != "histogram":
        yield name, sample.labels, float(sample.value)
        return
    timed: Distribution = sample.value
    so_far = 0
    for end, n in zip((*BUCKETS_MS, float("inf")), timed.buckets, strict=True):
        so_far += n
        yield f"{name}_bucket", {**sample.labels, "le": _number(end)}, float(so_far)
    yield f"{name}_count", sample.labels, float(timed.count)
    yield f"{name}_sum", sample.labels, timed.sum


def _lines(sample: Sample) -> Iterator[str]:
    for name, labels, value in _points(sample):
        shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        yield f"{name}{{{shown}}} {_number(value)}"


def _number(value: float) -> str:
    return "+Inf" if value == float("inf") else repr(float(value))


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
