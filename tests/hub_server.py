"""A stand-in for a model hub: a real HTTP server on loopback, with faults to switch on."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

REPO = "org/model"
COMMIT = "c0ffee" + "0" * 34
OLD_COMMIT = "01d" + "0" * 37
LFS_ABOVE = 1000
"""Files of more bytes are known by their SHA-256, as Git LFS does; others by git's hash."""

FILES: dict[str, bytes] = {
    "README.md": b"# A model\n",
    "rl_agent_config.json": b'{"encoder": "root"}',
    "model.safetensors": b"root weights " * 400,
    "tokenizer/tokenizer.json": b'{"root": 1}',
    "encoder/config.json": b'{"model_type": "root"}',
    "multilingual/rl_agent_config.json": b'{"encoder": "multilingual"}',
    "multilingual/model.safetensors": b"multilingual weights " * 400,
    "multilingual/tokenizer/tokenizer.json": b'{"multilingual": 1}',
    "multilingual/tokenizer/tokenizer_config.json": b'{"mask_token": "[MASK]"}',
    "multilingual/encoder/config.json": b'{"model_type": "multilingual"}',
    "other/rl_agent_config.json": b'{"encoder": "other"}',
    "other/model.safetensors": b"other weights " * 400,
}
"""Content of the repository's main branch."""

_ERRORS = {
    "no token": (401, ""),
    "hidden": (401, "RepoNotFound"),
    "gated": (403, "GatedRepo"),
    "forbidden": (403, ""),
    "no repo": (404, "RepoNotFound"),
    "no revision": (404, "RevisionNotFound"),
    "no entry": (404, "EntryNotFound"),
    "error": (500, ""),
}
"""Status and X-Error-Code of the faults that are plain answers."""


@dataclass(frozen=True)
class Request:
    """One request as it arrived."""

    kind: str
    """``info``, ``tree``, ``head``, ``file``, or ``unknown`` for all else."""
    path: str
    revision: str
    authorization: str | None


@dataclass
class HubServer:
    """The state of the stand-in: what it serves, what was asked, what is broken.

    Attributes:
        revisions: Files by revision name; a commit's name is its 40 hex digits.
        commits: Which commit a revision name stands for.
        faults: Kind of request → how it fails: a key of ``_ERRORS``; for any kind ``"silence"``
            (the request is never answered), ``"drip"`` (an answer whose header never ends) or
            ``"html"`` (a page that no hub sends); for ``file`` also ``"stall"`` (half of it, then
            nothing), ``"drop"`` (half of it, then the connection ends), ``"truncate"`` (half of it,
            announced as if that were all) or ``"corrupt"`` (as long as it should be, other bytes).
        only: The faults of ``file`` and ``head`` hit files whose name ends with this.
        plain: Whether it lists names only, without sizes and hashes, as some mirrors do.
        log: Every request, in order.
    """

    revisions: dict[str, dict[str, bytes]] = field(default_factory=lambda: {COMMIT: dict(FILES)})
    commits: dict[str, str] = field(default_factory=lambda: {"main": COMMIT})
    faults: dict[str, str] = field(default_factory=dict)
    only: str = ""
    plain: bool = False
    log: list[Request] = field(default_factory=list)
    url: str = ""
    closing: threading.Event = field(default_factory=threading.Event)
    _http: ThreadingHTTPServer | None = None

    def paths(self, kind: str) -> list[str]:
        """The files that were asked for by requests of one kind, sorted, each once."""
        return sorted({request.path for request in self.log if request.kind == kind})

    def start(self) -> None:
        handler = type("Handler", (_Handler,), {"hub": self})
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        """From now on connections to it are refused."""
        self.closing.set()
        if self._http is not None:
            self._http.shutdown()
            self._http.server_close()
            self._http = None


@contextmanager
def hub_server() -> Iterator[HubServer]:
    """A running stand-in."""
    server = HubServer()
    server.start()
    try:
        yield server
    finally:
        server.stop()


def git_hash(content: bytes) -> str:
    """The name that git gives a file of this content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def etag(content: bytes) -> str:
    if len(content) > LFS_ABOVE:
        return hashlib.sha256(content).hexdigest()
    return git_hash(content)


class _Handler(BaseHTTPRequestHandler):
    hub: HubServer
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._handle()

    def do_GET(self) -> None:
        self._handle()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing goes to stderr."""

    def _handle(self) -> None:
        self.close_connection = True  # so that a stopped server answers on no connection at all
        kind, revision, path = self._parse()
        self.hub.log.append(Request(kind, path, revision, self.headers.get("Authorization")))
        fault = self.hub.faults.get(kind)
        if fault and (kind in ("info", "tree") or path.endswith(self.hub.only)):
            if fault in _ERRORS:
                return self._refuse(*_ERRORS[fault])
            if fault in ("silence", "drip", "html"):
                return self._no_hub(fault)
        else:
            fault = None
        commit = self.hub.commits.get(revision, revision)
        files = self.hub.revisions.get(commit)
        if kind == "unknown":
            return self._refuse(404, "RepoNotFound")
        if files is None:
            return self._refuse(404, "RevisionNotFound")
        if kind == "info":
            return self._json(_info(commit, files, self.hub.plain))
        if kind == "tree":
            return self._json([_tree_entry(name, content) for name, content in files.items()])
        if path not in files:
            return self._refuse(404, "EntryNotFound")
        return self._file(commit, files[path], fault)

    def _parse(self) -> tuple[str, str, str]:
        parts = [unquote(part) for part in urlsplit(self.path).path.strip("/").split("/")]
        repo = REPO.split("/")
        if parts[:4] == ["api", "models", *repo]:
            if parts[4:5] == ["tree"]:
                return "tree", parts[5], ""
            return "info", parts[5] if parts[4:5] == ["revision"] else "main", ""
        if parts[:3] == [*repo, "resolve"]:
            kind = "head" if self.command == "HEAD" else "file"
            return kind, parts[3], "/".join(parts[4:])
        return "unknown", "", self.path

    def _begin(self, status: int, length: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(length)}.items():
            self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()

    def _refuse(self, status: int, code: str) -> None:
        headers = {"X-Error-Code": code} if code else {}
        self._begin(status, 0, headers | {"X-Error-Message": f"refused with {status}"})

    def _json(self, content: Any) -> None:
        body = json.dumps(content).encode()
        self._begin(200, len(body), {"Content-Type": "application/json"})
        self.wfile.write(body)

    def _no_hub(self, fault: str) -> None:
        if fault == "html":
            body = b"<html>Please accept the terms of this network</html>"
            self._begin(200, len(body), {"Content-Type": "text/html"})
            if self.command != "HEAD":
                self.wfile.write(body)
        elif fault == "silence":
            self.hub.closing.wait()
        else:
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
            with suppress(OSError):  # the client goes
                while not self.hub.closing.wait(0.05):
                    self.wfile.write(b".")

    def _file(self, commit: str, content: bytes, fault: str | None) -> None:
        start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").split("-")[0])
        headers = {"ETag": f'"{etag(content)}"', "X-Repo-Commit": commit, "Accept-Ranges": "bytes"}
        if len(content) > LFS_ABOVE:
            headers |= {
                "X-Linked-ETag": headers["ETag"],
                "X-Linked-Size": str(len(content)),
            }
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        body, length = content[start:], len(content) - start
        if fault == "corrupt":
            body = bytes(byte ^ 1 for byte in body)
        elif fault is not None:
            body = content[start : max(start, len(content) // 2)]
            length = len(body) if fault == "truncate" else length
        self._begin(206 if start else 200, length, headers)
        if self.command == "HEAD":
            return
        self.wfile.write(body)
        self.wfile.flush()
        if fault == "stall":
            self.hub.closing.wait()


def _info(commit: str, files: dict[str, bytes], plain: bool) -> dict[str, Any]:
    siblings: list[dict[str, Any]] = []
    for name, content in files.items():
        if plain:
            siblings.append({"rfilename": name})
            continue
        entry: dict[str, Any] = {"rfilename": name, "size": len(content), "blobId": "0" * 40}
        if len(content) > LFS_ABOVE:
            entry["lfs"] = {"sha256": etag(content), "size": len(content), "pointerSize": 130}
        else:
            entry["blobId"] = etag(content)
        siblings.append(entry)
    return {"id": REPO, "sha": commit, "siblings": siblings, "private": False, "downloads": 0}


def _tree_entry(name: str, content: bytes) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "type": "file",
        "path": name,
        "size": len(content),
        "oid": git_hash(content),
    }
    if len(content) > LFS_ABOVE:
        entry["lfs"] = {"oid": etag(content), "size": len(content), "pointerSize": 130}
    return entry
