"""What the threads of a local provider do: encode, look at the numbers, and stop when abandoned."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jevlaya_lab.embedding.batches import padded_batches
from jevlaya_lab.embedding.errors import EmbeddingError, EncodeFailed, Where
from jevlaya_lab.embedding.jobs import Job
from jevlaya_lab.embedding.local_models import LocalModel, Row
from jevlaya_lab.embedding.metrics import Metrics
from jevlaya_lab.embedding.texts import Matrix, as_matrix, check_finite, check_shape, not_finite
from jevlaya_lab.embedding.workers import is_ending

__all__ = ["LocalWork"]


class _Abandoned(Exception):
    """Nobody waits for the result any more; never leaves this module."""


class LocalWork:
    """Encodes jobs with replicas of a model, one replica per thread at a time.

    Args:
        replicas: The model as often as jobs may run at once.
        where: For error messages.
        metrics: Where the work is timed.
        tokens_per_pass: Padded tokens of one forward pass.
        torch_threads: Threads that torch takes for each job; ``None`` leaves that alone.
    """

    def __init__(
        self,
        replicas: Sequence[LocalModel],
        where: Where,
        metrics: Metrics,
        tokens_per_pass: int,
        torch_threads: int | None,
    ) -> None:
        self._replicas = list(replicas)
        self._where = where
        self._metrics = metrics
        self._budget = tokens_per_pass
        self._torch_threads = torch_threads
        self._thread = threading.local()

    def __call__(self, jobs: Sequence[Job[Sequence[str]]]) -> list[Any]:
        """A matrix or an error for each job; more than one job share their forward passes."""
        replica = self._replicas.pop()  # there is one: as many as permits
        began = time.perf_counter()
        try:
            self._set_torch_threads()
            return self._together(replica, jobs) or [self._alone(replica, job) for job in jobs]
        finally:
            self._replicas.append(replica)
            self._metrics.observe("encode_ms", (time.perf_counter() - began) * 1e3)
            for job in jobs:
                self._metrics.observe("queue_wait_ms", job.queue_wait_ms)

    def _together(
        self, replica: LocalModel, jobs: Sequence[Job[Sequence[str]]]
    ) -> list[Matrix] | None:
        """One row for each job, or ``None`` where they must not share each other's fate."""
        if len(jobs) == 1:
            return None
        texts = [text for job in jobs for text in job.payload]
        try:
            matrix = self._encode(replica, texts, lambda: all(job.abandoned for job in jobs))
        except (EmbeddingError, _Abandoned):
            return None
        return [matrix[i : i + 1] for i in range(len(jobs))]

    def _alone(
        self, replica: LocalModel, job: Job[Sequence[str]]
    ) -> Matrix | EmbeddingError | None:
        try:
            return self._encode(replica, job.payload, lambda: job.abandoned)
        except EmbeddingError as exc:
            return exc
        except _Abandoned:
            return None

    def _encode(
        self, replica: LocalModel, texts: Sequence[str], given_up: Callable[[], bool]
    ) -> Matrix:
        parts: list[tuple[list[int], Matrix]] = []
        try:
            rows = replica.read(texts)
            for batch in padded_batches([row.n_tokens for row in rows], self._budget, len(rows)):
                if given_up() or is_ending():
                    raise _Abandoned
                parts.append((batch, self._pass(replica, [rows[i] for i in batch])))
        except (EmbeddingError, _Abandoned):
            raise
        except BaseException as exc:  # also SystemExit: the thread is ours, the code may not be
            raise EncodeFailed(
                f"the model raised {type(exc).__name__}: {exc}", self._where
            ) from exc
        dimension = parts[0][1].shape[1]
        matrix = np.empty((len(texts), dimension), np.float32)
        for batch, found in parts:
            check_shape(found, len(batch), dimension, self._where)
            matrix[batch] = found
        check_finite(matrix, self._where)
        if n_cut := sum(row.was_cut for row in rows):
            self._metrics.count("truncated_total", n_cut)
        return matrix

    def _pass(self, replica: LocalModel, rows: Sequence[Row]) -> Matrix:
        """One forward pass; a row that is not finite is computed again, alone and in float32."""
        found = as_matrix(replica.encode(rows), len(rows), self._where)
        if bad := not_finite(found):
            found = found.copy()
            for i in bad:
                found[i] = as_matrix(replica.encode_exactly(rows[i]), 1, self._where)[0]
        return found

    def _set_torch_threads(self) -> None:
        """Give this thread its share of the cores, once; other threads keep what they have."""
        torch: Any = sys.modules.get("torch")
        if torch is None or self._torch_threads is None or hasattr(self._thread, "is_set"):
            return
        before = torch.get_num_threads()
        torch.set_num_threads(self._torch_threads)
        # The number is kept per thread, but threads to come take the one that was set last.
        undo = threading.Thread(target=torch.set_num_threads, args=(before,))
        undo.start()
        undo.join()
        self._thread.is_set = True
