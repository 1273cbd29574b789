"""What happens between the start hooks and the end hooks: checks, then four steps.

``_encode_state → collate → _forward → _decode_answers`` are the same for every network; the network
decides what a row is.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from jevlaya_lab.system_one.calibration import Calibration
from jevlaya_lab.system_one.context import ForwardPass, PredictContext, Timings
from jevlaya_lab.system_one.decoding import decode_answer, empty_result
from jevlaya_lab.system_one.devices import out_of_memory
from jevlaya_lab.system_one.encoding import LOOK_AHEAD, check_count, check_states, chunks
from jevlaya_lab.system_one.models import Batch, Budget, EncodedState, Logits, Network, Prepared
from jevlaya_lab.system_one.questions import Question, prepare

__all__ = ["FourSteps"]


class FourSteps:
    """The part of an Agent that turns states and questions into results with its network."""

    model_id: str
    network: Network
    calibration: Calibration
    memory_split_count = 0
    cpu_fallback_count = 0
    last_fallback_reason: str | None = None

    def _infer(
        self,
        ctx: PredictContext,
        batch_size: int | None,
        sort_by_length: bool | None,
        lang: str | None,
    ) -> list[dict[str, Any]]:
        """Everything between the start hooks and the end hooks: checks, then the four steps."""
        texts = check_states(ctx.states)
        questions = prepare(ctx.questions)
        budget = self._budget_of(ctx.max_len, ctx.head_max_len)
        if not texts or not questions:
            return [empty_result(self.model_id) for _ in texts]
        keep_end = [isinstance(state, (list, tuple)) for state in ctx.states]
        by_length = batch_size is None if sort_by_length is None else sort_by_length
        timings = ctx.timings = Timings()
        prepared = self._prepare(questions, budget, timings)
        ahead = batch_size if batch_size is not None and not by_length else LOOK_AHEAD
        encoded: list[EncodedState] = []
        found: dict[int, tuple[Logits, int]] = {}
        for first in range(0, len(texts), ahead):
            with timings.during("encode"):
                window = [
                    self._encode_state(texts[i], keep_end[i], prepared)
                    for i in range(first, min(first + ahead, len(texts)))
                ]
            lengths, rows = [e.longest for e in window], [len(e.rows) for e in window]
            for chunk in chunks(lengths, rows, batch_size, by_length):
                for i, logits, row in self._run(chunk, window, prepared, timings):
                    found[first + i] = (logits, row)
            encoded.extend(window)
        with timings.during("decode"):
            return [
                self._decode_answers(*found[i], state, prepared, lang)
                for i, state in enumerate(encoded)
            ]

    def _budget_of(self, max_len: Any, head_max_len: Any) -> Budget:
        max_len = check_count("max_len", max_len, least=8)
        head_max_len = check_count("head_max_len", head_max_len, least=8)
        return Budget(
            self.network.max_len if max_len is None else max_len,
            self.network.head_max_len if head_max_len is None else head_max_len,
        )

    def _prepare(
        self, questions: tuple[Question, ...], budget: Budget, timings: Timings
    ) -> Prepared:
        with timings.during("encode"):
            prepared = self.network.prepare(questions, budget)
        timings.forwards += prepared.forwards
        embedding_ms = sum(forward.elapsed_ms for forward in prepared.forwards)
        timings.encode_ms -= embedding_ms
        timings.forward_ms += embedding_ms
        return prepared

    def _encode_state(self, text: str, keep_end: bool, prepared: Prepared) -> EncodedState:
        return self.network.encode_state(text, keep_end=keep_end, prepared=prepared)

    def _run(
        self,
        chunk: Sequence[int],
        window: Sequence[EncodedState],
        prepared: Prepared,
        timings: Timings,
    ) -> Iterator[tuple[int, Logits, int]]:
        """Collate and forward some states of a window; where memory runs out, in halves.

        Yields:
            Index in the window, the logits of the pass it was in, and its place there.
        """
        try:
            with timings.during("collate"):
                batch = self.collate([window[i] for i in chunk], prepared)
            with timings.during("forward"):
                logits = self._forward(batch, prepared, timings)
        except Exception as exc:
            if not out_of_memory(exc):
                raise
            self.last_fallback_reason = f"{type(exc).__name__}: {exc}"
            if len(chunk) == 1:
                twin = self.network.on_cpu()
                if twin is self.network:
                    raise
                self.cpu_fallback_count += 1
                with timings.during("forward"):
                    yield chunk[0], self._on_cpu(twin, window[chunk[0]], prepared, timings), 0
                return
        else:
            for row, i in enumerate(chunk):
                yield i, logits, row
            return
        # Outside of the handler, which would keep what the failed pass had allocated.
        self.memory_split_count += 1
        middle = len(chunk) // 2
        for half in (chunk[:middle], chunk[middle:]):
            yield from self._run(half, window, prepared, timings)

    def _on_cpu(
        self, twin: Network, state: EncodedState, prepared: Prepared, timings: Timings
    ) -> Logits:
        there = twin.prepare(prepared.questions, prepared.budget)
        timings.forwards += there.forwards
        return self._forward(twin.collate([state], there), there, timings, twin)

    def collate(self, states: Sequence[EncodedState], prepared: Prepared) -> Batch:
        """Pad encoded states into the batch of one forward pass."""
        return self.network.collate(states, prepared)

    def _forward(
        self, batch: Batch, prepared: Prepared, timings: Timings, network: Network | None = None
    ) -> Logits:
        began = time.perf_counter()
        logits = (network or self.network).forward(batch, prepared)
        elapsed_ms = (time.perf_counter() - began) * 1e3
        timings.forwards.append(
            ForwardPass("states", batch.n_rows, batch.n_tokens, batch.n_padding, elapsed_ms)
        )
        return logits

    def _decode_answers(
        self,
        logits: Logits,
        row: int,
        state: EncodedState,
        prepared: Prepared,
        lang: str | None = None,
    ) -> dict[str, Any]:
        acts = logits.act[row] if logits.act is not None else [None] * len(prepared.questions)
        answers = {
            question.id: decode_answer(question, values, self.calibration, act, lang)
            for question, values, act in zip(
                prepared.questions, logits.options[row], acts, strict=True
            )
        }
        usage: dict[str, Any] = {
            "input_tokens": state.input_tokens,
            "output_tokens": 0,
            "state_tokens": state.state_tokens,
            "state_tokens_dropped": state.state_tokens_dropped,
            "truncated": state.state_tokens_dropped > 0,
            "truncated_questions": list(state.truncated_questions),
        }
        if prepared.collapsed:
            usage["options"] = {qid: dict(found) for qid, found in prepared.collapsed.items()}
        return {"model": self.model_id, "answers": answers, "usage": usage}
