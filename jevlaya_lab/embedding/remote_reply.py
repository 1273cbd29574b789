"""What an embedding service answered: vectors in the right places, or what kind of failure."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any, Final

import numpy as np

from jevlaya_lab.embedding.errors import (
    DimensionMismatch,
    EmbeddingError,
    QuotaExceeded,
    RateLimited,
    RemoteAuthFailed,
    RemoteProtocolError,
    RemoteRejected,
    RemoteUnavailable,
    Where,
)
from jevlaya_lab.embedding.remote_http import Reply
from jevlaya_lab.embedding.texts import Matrix

__all__ = ["as_request", "failure", "message_of", "read_vectors", "retry_after"]

_PASSING: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_ABOUT_TEXTS: Final = frozenset({400, 413, 422})
_SHOWN: Final = 300


def read_vectors(reply: Reply, n: int, where: Where) -> Matrix:
    """The vectors of a reply, placed by their ``index``.

    Args:
        reply: A reply of status 200.
        n: How many texts were sent.
        where: For error messages.

    Returns:
        float32 [n, dimension]; may hold NaN.

    Raises:
        RemoteProtocolError: It is no embedding list, or an index is missing, twice or out of range.
        DimensionMismatch: Its vectors differ in length.
    """
    try:
        items = json.loads(reply.body)["data"]
        placed: dict[int, Any] = {}
        for item in items:
            index = item["index"]
            if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < n:
                raise _broken(f"index {index!r} for {n} texts", where)
            if index in placed:
                raise _broken(f"index {index} came twice", where)
            placed[index] = _numbers(item["embedding"])
    except (LookupError, TypeError, ValueError, OverflowError, RecursionError) as exc:
        what = f"{type(exc).__name__}: {exc}"[:_SHOWN]
        raise _broken(f"it is no list of embeddings ({what})", where) from exc
    if missing := [i for i in range(n) if i not in placed]:
        raise RemoteProtocolError(
            f"the reply lacks {len(missing)} of {n} vectors; nothing of it is used",
            where,
            positions=missing,
        )
    lengths = {len(row) for row in placed.values()}
    if len(lengths) > 1:
        raise DimensionMismatch(f"one reply has vectors of {sorted(lengths)} components", where)
    return np.stack([placed[i] for i in range(n)])


def _numbers(embedding: Any) -> Matrix:
    if isinstance(embedding, str):
        raw = base64.b64decode(embedding, validate=True)
        row = np.frombuffer(raw, dtype="<f4").astype(np.float32)
    else:
        row = np.array(embedding, dtype=np.float32)
    if row.ndim != 1 or not len(row):
        raise ValueError(f"an embedding of shape {list(row.shape)}")
    return row


def _broken(what: str, where: Where) -> RemoteProtocolError:
    return RemoteProtocolError(
        f"the reply cannot be used: {what}; a gateway in between may alter it", where
    )


def failure(reply: Reply, message: str, where: Where) -> EmbeddingError:
    """The error that a status stands for.

    Args:
        reply: A reply of another status than 200.
        message: What the service said, without secrets.
        where: For the error.
    """
    status = reply.status
    said = f"the service says {status}" + (f": {message[:_SHOWN]}" if message else "")
    if status in (401, 403):
        return RemoteAuthFailed(f"{said}; check api_key (or OPENAI_API_KEY)", where)
    if status == 402 or _code(reply) == "insufficient_quota":
        return QuotaExceeded(f"{said}; retrying does not help, check plan and billing", where)
    if status == 429:
        return RateLimited(said, where, retry_after=retry_after(reply.headers))
    if status in _PASSING or status >= 500:
        return RemoteUnavailable(said, where, retry_after=retry_after(reply.headers))
    if status in _ABOUT_TEXTS and _field(reply, "param") in (None, "", "input"):
        rejected = RemoteRejected(said, where)
        rejected.about_texts = True
        return rejected
    return RemoteRejected(f"{said}; check model, base_url and options", where)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait by ``retry-after-ms`` or ``Retry-After`` (seconds or a date), if it says."""
    try:
        if (milliseconds := headers.get("retry-after-ms")) is not None:
            return max(0.0, float(milliseconds) / 1e3)
        value = headers.get("retry-after")
        if value is None:
            return None
        if value.strip().replace(".", "", 1).isdigit():
            return float(value)
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError):
        return None


def message_of(reply: Reply) -> str:
    """What the service says about a failure, as it is."""
    said = _field(reply, "message")
    if said is None:
        said = reply.body[: 4 * _SHOWN].decode("utf-8", "replace")
    return " ".join(str(said).split())


def _code(reply: Reply) -> Any:
    return _field(reply, "code") or _field(reply, "type")


def _field(reply: Reply, name: str) -> Any:
    try:
        body = json.loads(reply.body)
    except ValueError:
        return None
    error = body.get("error", body) if isinstance(body, dict) else None
    if isinstance(error, str):
        return error if name == "message" else None
    return error.get(name) if isinstance(error, dict) else None


def as_request(
    model: str, texts: Sequence[str], encoding_format: str | None, dimensions: int | None
) -> bytes:
    """The body of a request; texts go as strings, since not all services take token ids."""
    body: dict[str, Any] = {"model": model, "input": list(texts)}
    if encoding_format is not None:
        body["encoding_format"] = encoding_format
    if dimensions is not None:
        body["dimensions"] = dimensions
    return json.dumps(body, ensure_ascii=False).encode("utf-8")
