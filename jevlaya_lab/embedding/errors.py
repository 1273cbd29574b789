"""Every exception of the embedding room.

::

    JevlayaError
    └── EmbeddingError
        ├── InvalidText        (InvalidInput, ValueError)  no text, or an empty one; positions named
        ├── EmbeddingClosed    (RuntimeError)    called after it was closed
        ├── MissingExtra       (ImportError)     a package of an extra is not installed
        ├── ResultError                          vectors that must not be used
        │   ├── DimensionMismatch  (ValueError)      another number of vectors or of components
        │   ├── NonFiniteVector    (ArithmeticError) NaN or infinity; positions named
        │   └── IdentityMismatch   (ValueError)      vectors of different identities
        ├── StoreError                           a vector store cannot do what was asked
        ├── RemoteError                          the service
        │   ├── RemoteAuthFailed   (PermissionError)  the key is refused; terminal
        │   ├── QuotaExceeded                        nothing left to spend; terminal
        │   ├── RateLimited                          still limited when the time was up
        │   ├── RemoteTimeout      (TimeoutError)     no reply within the deadline
        │   ├── RemoteUnavailable  (ConnectionError)  not reached, or failing, also when retried
        │   ├── RemoteRejected     (ValueError)       the request is refused; positions named
        │   └── RemoteProtocolError                  a reply that is none
        └── LocalError                           this machine
            ├── ModelLoadFailed                      no model, so no embedding
            │   └── ModelLoadTimeout (TimeoutError)  still loading after load_timeout
            ├── EncodeFailed                         the model raised
            ├── QueueFull                            refused at once: max_queue calls wait
            └── LocalTimeout       (TimeoutError)
                ├── PermitTimeout        waited for a permit (the concurrency budget)
                ├── ExecutorQueueTimeout held a permit, waited for a thread
                └── EncodeTimeout        the model took too long; its thread runs on

Each carries ``provider``, ``model`` and ``resource``, so that a failed embedding is never mistaken
for a search that found nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jevlaya_lab.system_one.errors import InvalidInput, JevlayaError

__all__ = [
    "UNKNOWN",
    "DimensionMismatch",
    "EmbeddingClosed",
    "EmbeddingError",
    "EncodeFailed",
    "EncodeTimeout",
    "ExecutorQueueTimeout",
    "IdentityMismatch",
    "InvalidText",
    "LocalError",
    "LocalTimeout",
    "MissingExtra",
    "ModelLoadFailed",
    "ModelLoadTimeout",
    "NonFiniteVector",
    "PermitTimeout",
    "QueueFull",
    "QuotaExceeded",
    "RateLimited",
    "RemoteAuthFailed",
    "RemoteError",
    "RemoteProtocolError",
    "RemoteRejected",
    "RemoteTimeout",
    "RemoteUnavailable",
    "ResultError",
    "StoreError",
    "Where",
]


@dataclass(frozen=True, slots=True)
class Where:
    """What an embedding would have come from.

    Attributes:
        provider: ``remote:host``, ``local_transformer`` or ``hashing``.
        model: The model's name.
        resource: What its work takes: ``network``, ``cpu``, ``cuda:0``, ``event loop``.
    """

    provider: str
    model: str
    resource: str

    def __str__(self) -> str:
        return f"{self.provider} {self.model!r} ({self.resource})"


UNKNOWN: Final = Where("unknown", "unknown", "unknown")


class EmbeddingError(JevlayaError):
    """Root of the room's tree.

    Args:
        message: What was wrong and what to do.
        where: What the embedding would have come from.
        positions: Which of the call's texts it is about, if it is about some.
        retry_after: Seconds after which it may go better, where that is known.
    """

    def __init__(
        self,
        message: str,
        where: Where = UNKNOWN,
        *,
        positions: Sequence[int] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{where}: {message}" if where is not UNKNOWN else message)
        self.message = message
        self.where = where
        self.positions = tuple(positions)
        self.retry_after = retry_after

    @property
    def provider(self) -> str:
        """Which kind of provider."""
        return self.where.provider

    @property
    def model(self) -> str:
        """Which model."""
        return self.where.model

    @property
    def resource(self) -> str:
        """Which resource its work takes."""
        return self.where.resource

    def moved(self, positions: Sequence[int]) -> EmbeddingError:
        """The same error in a larger call; ``positions[i]`` is where its text ``i`` stands."""
        at = [positions[i] for i in self.positions]
        return _rebuild(type(self), self.message, self.where, at, self.retry_after)

    def __reduce__(self) -> tuple[Callable[..., EmbeddingError], tuple[Any, ...]]:
        return _rebuild, (
            type(self), self.message, self.where, self.positions, self.retry_after
        )  # fmt: skip


def _rebuild(
    kind: type[EmbeddingError],
    message: str,
    where: Where,
    positions: Sequence[int],
    retry_after: float | None,
) -> EmbeddingError:
    return kind(message, where, positions=positions, retry_after=retry_after)


class InvalidText(EmbeddingError, InvalidInput, ValueError):
    """Something that is no text to embed; ``positions`` says which ones."""


class EmbeddingClosed(EmbeddingError, RuntimeError):
    """The call came after ``aclose``, or was waiting when it was closed."""


class MissingExtra(EmbeddingError, ImportError):
    """A package that this needs is not installed; the message holds the command."""


class ResultError(EmbeddingError):
    """Vectors that must not be used."""


class DimensionMismatch(ResultError, ValueError):
    """Another number of vectors, or of components, than the contract says."""


class NonFiniteVector(ResultError, ArithmeticError):
    """A vector holds NaN or infinity, also when its text was embedded alone."""


class IdentityMismatch(ResultError, ValueError):
    """Vectors of two identities would have been compared or kept together."""


class StoreError(EmbeddingError):
    """A vector store cannot do what was asked; the message names the store and the remedy."""


class RemoteError(EmbeddingError):
    """The embedding service did not give vectors."""


class RemoteAuthFailed(RemoteError, PermissionError):
    """The service refuses the key (401, 403); never retried."""


class QuotaExceeded(RemoteError):
    """The account has nothing left to spend (``insufficient_quota``); never retried."""


class RateLimited(RemoteError):
    """Too many requests or tokens, and waiting longer would pass the deadline."""


class RemoteTimeout(RemoteError, TimeoutError):
    """No whole reply within the deadline, retries included."""


class RemoteUnavailable(RemoteError, ConnectionError):
    """The service cannot be reached, drops connections or fails, also after the retries."""


class RemoteRejected(RemoteError, ValueError):
    """The service refuses the request itself; ``positions`` names the text, if it is one.

    Attributes:
        about_texts: Whether the refusal may be due to some of the texts only.
    """

    about_texts = False


class RemoteProtocolError(RemoteError):
    """The reply does not say which vector belongs to which text, or is no reply at all."""


class LocalError(EmbeddingError):
    """This machine did not give vectors."""


class ModelLoadFailed(LocalError):
    """The model could not be loaded; a later call tries again after a while."""


class ModelLoadTimeout(ModelLoadFailed, TimeoutError):
    """The model was still loading after ``load_timeout`` seconds; loading goes on."""


class EncodeFailed(LocalError):
    """The model raised an exception, which is the cause of this one."""


class QueueFull(LocalError):
    """Refused at once: ``max_queue`` calls wait already."""


class LocalTimeout(LocalError, TimeoutError):
    """Local work that was not done in time."""


class PermitTimeout(LocalTimeout):
    """No permit within ``permit_timeout``: the concurrency budget is used up."""


class ExecutorQueueTimeout(LocalTimeout):
    """A permit, but no thread of the executor within ``queue_timeout``."""


class EncodeTimeout(LocalTimeout):
    """The model did not answer within ``encode_timeout``.

    The thread is not stopped (Python cannot); its permit comes back when it is done.
    """
