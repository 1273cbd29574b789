"""HTTP to an embedding service: one attempt at a time, one client per event loop."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncGenerator, Awaitable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar
from urllib.parse import urlsplit

from jevlaya_lab.embedding.errors import MissingExtra
from jevlaya_lab.embedding.workers import post
from jevlaya_lab.system_one.errors import InvalidOption

if TYPE_CHECKING:
    import httpx

__all__ = ["Endpoint", "Reply", "within"]

T = TypeVar("T")

_HIDDEN: Final = "[api key]"
_LEAST_SECRET: Final = 6


class Reply(NamedTuple):
    """An answer as it arrived."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Endpoint:
    """Where embeddings are asked for, with the key, which it never shows.

    A client's connections belong to the loop that made them, so each loop has a client, which is
    closed together with it (by ``shutdown_asyncgens``, as ``asyncio.run`` does).

    Args:
        base_url: Such as ``https://api.openai.com/v1``.
        api_key: Sent as bearer token; ``None`` for none.
        headers: Sent along.
        connect_timeout: Seconds for a connection.
        max_connections: Per loop.

    Raises:
        InvalidOption: The URL or the key is malformed.
        MissingExtra: httpx is not installed.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | None,
        headers: Mapping[str, str],
        connect_timeout: float,
        max_connections: int,
    ) -> None:
        try:
            import httpx
        except ImportError as exc:
            raise MissingExtra(
                "remote embeddings need a package that is not installed: "
                "pip install 'jevlaya_lab[remote]'"
            ) from exc
        self._httpx = httpx
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidOption("base_url must be a URL such as https://api.openai.com/v1")
        self.host = parts.hostname if parts.port is None else f"{parts.hostname}:{parts.port}"
        self._url = base_url.rstrip("/") + "/embeddings"
        key = (api_key or "").strip()
        if not (key.isascii() and key.isprintable()) or " " in key:
            # Refused here, since HTTP libraries quote a malformed header, key and all.
            raise InvalidOption("api_key holds a character that no key has; copy it again")
        self._secrets = [s for s in (key, parts.password or "") if len(s) >= _LEAST_SECRET]
        self._headers = {**headers, **({"Authorization": f"Bearer {key}"} if key else {})}
        self._limits = httpx.Limits(
            max_connections=max_connections, max_keepalive_connections=max_connections
        )
        self._timeout = httpx.Timeout(None, connect=connect_timeout)
        self._verify = httpx.create_ssl_context()  # takes milliseconds: not once per loop
        self._lock = threading.Lock()
        self._clients: dict[asyncio.AbstractEventLoop, _Client] = {}
        # One that is dropped without aclose() closes its connections all the same.
        weakref.finalize(self, _close_all, self._clients).atexit = False

    def scrubbed(self, text: str) -> str:
        """A text of the service without the secrets that it may have echoed."""
        for secret in self._secrets:
            text = text.replace(secret, _HIDDEN)
        return text

    async def post(self, body: bytes) -> Reply:
        """Send a request and read the whole answer, whatever its status.

        Raises:
            httpx.TransportError: There is no whole answer.
        """
        client = await self._client()
        response = await client.post(
            self._url, content=body, headers={"Content-Type": "application/json"}
        )
        return Reply(response.status_code, response.headers, response.content)

    async def aclose(self) -> None:
        """Close the clients of all loops: this one's now, others' when their loop comes to it."""
        with self._lock:
            here = self._clients.pop(asyncio.get_running_loop(), None)
        _close_all(self._clients)
        if here is not None:
            await here.aclose()

    async def _client(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        with self._lock:
            known = self._clients.get(loop)
            if known is None:
                known = self._clients[loop] = _Client(
                    self._httpx.AsyncClient(
                        headers=self._headers,
                        limits=self._limits,
                        timeout=self._timeout,
                        verify=self._verify,
                    ),
                    self._clients,
                )
        await known.tie_to_loop()
        return known.http

    def __repr__(self) -> str:
        return f"Endpoint({self.host!r})"


class _Client:
    """An HTTP client and what closes it when its loop ends.

    Args:
        http: The client.
        known: Where it is kept under its loop; it takes itself out when it is closed.
    """

    def __init__(
        self, http: httpx.AsyncClient, known: dict[asyncio.AbstractEventLoop, _Client]
    ) -> None:
        self.http = http
        self._known = known
        self._loop = asyncio.get_running_loop()
        self._closing: asyncio.Task[None] | None = None
        self._end: AsyncGenerator[None, None] | None = None

    async def tie_to_loop(self) -> None:
        """Make the loop close the client when it shuts down its asynchronous generators."""
        if self._end is None:
            for gone in [client for client in _OPEN if client._loop.is_closed()]:
                _OPEN.discard(gone)  # its loop was closed without shutting down its generators
                gone._known.pop(gone._loop, None)
            _OPEN.add(self)
            self._end = self._until_the_end()
            await anext(self._end)

    async def aclose(self) -> None:
        await asyncio.shield(self.close_soon())

    def close_soon(self) -> asyncio.Task[None]:
        """Begin to close it; called on its loop, by whoever comes first."""
        if self._closing is None:
            self._closing = self._loop.create_task(self._close())
        return self._closing

    async def _close(self) -> None:
        self._known.pop(self._loop, None)
        await self.http.aclose()
        _OPEN.discard(self)

    async def _until_the_end(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            await self.aclose()


_OPEN: Final[set[_Client]] = set()
"""What has to be closed before its loop ends, even where its endpoint is gone already."""


def _close_all(clients: dict[asyncio.AbstractEventLoop, _Client]) -> None:
    for loop, client in list(clients.items()):
        post(loop, client.close_soon)


async def within(work: Awaitable[T], seconds: float) -> T:
    """The result of some work, which is cancelled, and has ended, when this ends in any other way.

    ``asyncio.wait_for`` of Python 3.11 and older loses a cancellation that comes together with the
    result.

    Raises:
        asyncio.TimeoutError: It took longer.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=max(0.0, seconds))
        if task.done():
            return task.result()
        raise asyncio.TimeoutError
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})  # raises a further cancellation, and nothing of the task's
            if not task.cancelled():
                task.exception()  # seen, and of no interest any more
