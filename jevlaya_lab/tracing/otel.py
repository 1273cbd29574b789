"""A trace as OpenTelemetry spans, through the SDK that the user configured.

One tree per call: the call, its runs, the hooks in them. Runs that computed or passed on answers
carry the ``gen_ai.*`` attributes of the OpenTelemetry semantic conventions for generative AI; what
these have no name for is called ``jevlaya.*``. Spans are ``INTERNAL``, as the conventions have it
for a model in the same process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from jevlaya_lab.system_one.errors import InvalidOption
from jevlaya_lab.system_one.extras import require

__all__ = ["export"]

Row = Mapping[str, Any]

_OPERATION: Final = "predict"
"""None of the well-known operations (chat, embeddings, …) is what a decision model does."""
_PROVIDER: Final = "jevlaya_lab"

_GEN_AI: Final = {
    "model": "gen_ai.request.model",
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
}
_OWN: Final = (
    "run_id", "call_id", "entry", "scope", "n_states", "n_questions", "encode_ms", "collate_ms",
    "forward_ms", "decode_ms", "n_forwards", "n_rows", "forward_tokens", "padded_tokens", "max_len",
    "head_max_len", "routing_model", "routing_reason", "routing_stand_in", "skipped", "failed_step",
    "thread",
)  # fmt: skip
_OF_CALL: Final = (
    "call_id", "entry", "n_requests", "n_runs", "n_loads", "n_evictions", "n_skipped", "n_errors",
)  # fmt: skip


def export(
    calls: Sequence[Row], runs: Sequence[Row], events: Sequence[Row], tracer_provider: Any = None
) -> int:
    """Make the spans of a trace.

    Args:
        calls: Rows of ``trace.calls`` with ``None`` for missing.
        runs: Rows of ``trace.runs`` likewise, in start order.
        events: Rows of ``trace.events`` likewise.
        tracer_provider: The SDK's; ``None`` takes the one configured for the process.

    Returns:
        How many spans were made.

    Raises:
        InvalidOption: None was given and none is configured.
        MissingExtra: OpenTelemetry is not installed.
    """
    api = require("opentelemetry.trace", "otel", "to_otel")
    if tracer_provider is None:
        tracer_provider = api.get_tracer_provider()
        if isinstance(tracer_provider, (api.ProxyTracerProvider, api.NoOpTracerProvider)):
            raise InvalidOption(
                "no OpenTelemetry SDK is configured, so the spans would go nowhere; call "
                "opentelemetry.trace.set_tracer_provider(...) first, or pass tracer_provider="
            )
    if not runs:
        return 0
    maker = _Maker(api, tracer_provider.get_tracer("jevlaya_lab"), runs[0])
    for call in calls:
        within = maker.of_call(call["call_id"], runs)
        if within:
            maker.call(call, within)
    for run in runs:
        maker.run(run)
    for event in events:
        if event["hook"] is not None and event["duration_ms"] is not None:
            maker.hook(event)
    return maker.n_spans


class _Maker:
    """Makes spans and remembers those that others go under."""

    def __init__(self, api: Any, tracer: Any, first: Row) -> None:
        self._api = api
        self._tracer = tracer
        # All times are laid out on the monotonic clock, from one reading of the wall clock.
        self._zero = _nanoseconds(first["started_at"]) - round(first["start_ms"] * 1e6)
        self._calls: dict[Any, Any] = {}
        self._runs: dict[Any, Any] = {}
        self._by_call: dict[Any, list[Row]] | None = None
        self.n_spans = 0

    def of_call(self, call_id: Any, runs: Sequence[Row]) -> list[Row]:
        if self._by_call is None:
            self._by_call = {}
            for run in runs:
                self._by_call.setdefault(run["call_id"], []).append(run)
        return self._by_call.get(call_id, [])

    def call(self, call: Row, runs: Sequence[Row]) -> None:
        start = min(run["start_ms"] for run in runs)
        attributes = {f"jevlaya.{key}": call[key] for key in _OF_CALL if call[key] is not None}
        # A run inside another one may fail and be caught there.
        ids = {run["run_id"] for run in runs}
        outermost = (run for run in runs if run["parent_run_id"] not in ids)
        failed = next((run for run in outermost if run["error_type"] is not None), None)
        self._calls[call["call_id"]] = self._span(
            f"call {call['entry'] or ''}".rstrip(),
            start,
            call["elapsed_ms"],
            attributes,
            None,
            failed,
        )

    def run(self, run: Row) -> None:
        attributes = {f"jevlaya.{key}": run[key] for key in _OWN if run[key] is not None}
        name = " ".join(part for part in (run["scope"], run["model"]) if part) or "run"
        if run["scope"] in ("agent", "router"):
            attributes["gen_ai.operation.name"] = _OPERATION
            attributes["gen_ai.provider.name"] = _PROVIDER
            name = " ".join(part for part in (_OPERATION, run["model"]) if part)
            for key, attribute in _GEN_AI.items():
                if run[key] is not None:
                    attributes[attribute] = run[key]
        parent = self._runs.get(run["parent_run_id"], self._calls.get(run["call_id"]))
        self._runs[run["run_id"]] = self._span(
            name, run["start_ms"], run["elapsed_ms"], attributes, parent, run
        )

    def hook(self, event: Row) -> None:
        keys = ("position", "origin", "changed", "run_id", "call_id")
        attributes = {f"jevlaya.{key}": event[key] for key in keys if event[key] is not None}
        attributes["jevlaya.event"] = event["event"]
        parent = self._runs.get(event["run_id"], self._calls.get(event["call_id"]))
        name = f"hook {event['hook']}"
        self._span(name, event["at_ms"], event["duration_ms"], attributes, parent, event)

    def _span(
        self,
        name: str,
        start_ms: float,
        elapsed_ms: float | None,
        attributes: Mapping[str, Any],
        parent: Any,
        failed: Row | None,
    ) -> Any:
        start = self._zero + round(start_ms * 1e6)
        end = start + round((elapsed_ms or 0.0) * 1e6)
        # A span that is under way where this is called is no parent of what is long over.
        context = self._api.set_span_in_context(
            self._api.INVALID_SPAN if parent is None else parent
        )
        span = self._tracer.start_span(
            _valid(name),
            context=context,
            kind=self._api.SpanKind.INTERNAL,
            attributes={key: _valid(value) for key, value in attributes.items()},
            start_time=start,
        )
        kind = failed["error_type"] if failed is not None else None
        if kind is not None:
            # The message may hold text of states; what is sent elsewhere says the type alone.
            kind = _valid(kind)
            span.set_attribute("error.type", kind)
            span.add_event("exception", {"exception.type": kind}, timestamp=end)
            span.set_status(self._api.Status(self._api.StatusCode.ERROR, kind))
        span.end(end_time=end)
        self.n_spans += 1
        return span


def _nanoseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1e6) * 1000


def _valid(value: Any) -> Any:
    """Text that the wire format can hold: without lone surrogates."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
