"""A stand-in for an embedding service: a real HTTP server on loopback, with faults to switch on."""

from __future__ import annotations

import base64
import json
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from embedding_fakes import vector_of

KEY = "sk-test-0123456789abcdef"


@dataclass(frozen=True)
class Request:
    """One request as it arrived, and from which of the client's ports."""

    body: dict[str, Any]
    authorization: str | None
    port: int

    @property
    def texts(self) -> list[str]:
        found: list[str] = self.body["input"]
        return found


@dataclass(frozen=True)
class Refusal:
    """An answer that is no success."""

    status: int
    message: str = "refused"
    code: str | None = None
    param: str | None = None
    headers: dict[str, str] = field(default_factory=dict)


def error(status: int, message: str = "refused", **more: Any) -> Refusal:
    """A refusal with a body as OpenAI writes it."""
    return Refusal(status, message, **more)


@dataclass
class EmbeddingServer:
    """The state of the stand-in.

    Attributes:
        plan: What happens to the next requests, first to last: a ``Refusal``, ``""`` for nothing,
            or a fault: ``"silence"`` (no answer), ``"drip"`` (a body that never ends),
            ``"drip header"``, ``"drop"`` (half of the body), ``"hang up"`` (no answer, connection
            closed), ``"html"``, ``"no data"``, ``"reversed"``, ``"missing"``, ``"twice"``,
            ``"out of range"``, ``"ragged"``.
        always: The same for requests that are not planned.
        poison: A request with one of these texts is refused with 400.
        most_texts: A request with more texts is refused with 413.
        nan: Texts whose vector has a NaN as long as they are not alone.
        hopeless: Texts whose vector has a NaN in any case.
        dimension: Of the vectors, where the request names none.
        base64_for_all: Whether it answers in base64 whatever was asked for.
        log: Every request, in order.
        hung_up: Set when a client closes the connection of a request that is not answered.
    """

    plan: deque[Refusal | str] = field(default_factory=deque)
    always: Refusal | str = ""
    poison: set[str] = field(default_factory=set)
    most_texts: int = 10_000
    nan: set[str] = field(default_factory=set)
    hopeless: set[str] = field(default_factory=set)
    dimension: int = 4
    base64_for_all: bool = False
    log: list[Request] = field(default_factory=list)
    hung_up: threading.Event = field(default_factory=threading.Event)
    closing: threading.Event = field(default_factory=threading.Event)
    url: str = ""

    def start(self) -> ThreadingHTTPServer:
        http = ThreadingHTTPServer(
            ("127.0.0.1", 0), type("Handler", (_Handler,), {"service": self})
        )
        http.daemon_threads = True
        self.url = f"http://127.0.0.1:{http.server_address[1]}/v1"
        threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
        return http


@contextmanager
def embedding_server() -> Iterator[EmbeddingServer]:
    """A running stand-in."""
    service = EmbeddingServer()
    http = service.start()
    try:
        yield service
    finally:
        service.closing.set()
        http.shutdown()
        http.server_close()


class _Handler(BaseHTTPRequestHandler):
    service: EmbeddingServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        request = Request(
            json.loads(raw), self.headers.get("Authorization"), self.client_address[1]
        )
        service = self.service
        service.log.append(request)
        fault = service.plan.popleft() if service.plan else service.always
        if self.path != "/v1/embeddings":
            fault = error(404, f"no route {self.path}")
        elif set(request.texts) & service.poison:
            fault = error(400, "one of the inputs cannot be embedded")
        elif len(request.texts) > service.most_texts:
            fault = error(413, "too many inputs")
        if isinstance(fault, Refusal):
            return self._refuse(fault)
        if fault in ("silence", "drip", "drip header", "hang up"):
            return self._stall(fault)
        return self._answer(request, fault)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing goes to stderr."""

    def _refuse(self, refusal: Refusal) -> None:
        said = refusal.message.replace("{authorization}", self.headers.get("Authorization") or "")
        body = {"error": {"message": said, "code": refusal.code, "param": refusal.param}}
        self._send(refusal.status, json.dumps(body).encode(), refusal.headers)

    def _answer(self, request: Request, fault: str) -> None:
        if fault == "html":
            return self._send(200, b"<html>Please log in to this network</html>")
        if fault == "no data":
            return self._send(200, b'{"object": "list"}')
        data = [self._item(request, i) for i in range(len(request.texts))]
        if fault == "reversed":
            data.reverse()
        elif fault == "missing":
            del data[1]
        elif fault == "twice":
            data[1] = data[0]
        elif fault == "out of range":
            data[1]["index"] = len(data)
        elif fault == "ragged":
            data[1]["embedding"] = [1.0]
        body = json.dumps({"object": "list", "data": data}).encode()
        if fault == "drop":
            self._begin(200, len(body))
            self.wfile.write(body[: len(body) // 2])
            self.close_connection = True
            return None
        return self._send(200, body)

    def _item(self, request: Request, i: int) -> dict[str, Any]:
        service, text = self.service, request.texts[i]
        vector = vector_of(text, request.body.get("dimensions") or service.dimension)
        if text in service.hopeless or (text in service.nan and len(request.texts) > 1):
            vector[0] = float("nan")
        embedding: Any = [float(x) for x in vector]
        if service.base64_for_all or request.body.get("encoding_format") == "base64":
            embedding = base64.b64encode(vector.astype("<f4").tobytes()).decode()
        return {"object": "embedding", "index": i, "embedding": embedding}

    def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self._begin(status, len(body), headers)
        self.wfile.write(body)

    def _begin(self, status: int, length: int, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(length)}.items():
            self.send_header(name, value)
        self.end_headers()

    def _stall(self, fault: str) -> None:
        self.close_connection = True
        if fault == "hang up":
            return
        if fault == "drip":
            self._begin(200, 10_000_000)
        elif fault == "drip header":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        self.connection.settimeout(0.01)
        while not self.service.closing.is_set():
            if fault != "silence":
                with suppress(OSError):
                    self.wfile.write(b" " if fault == "drip" else b".")
            try:
                if self.connection.recv(1) == b"":
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        self.service.hung_up.set()
