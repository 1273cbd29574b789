"""What is asked of huggingface_hub, in bounded time, and its failures in plain words.

Files come one by one through ``hf_hub_download`` and not through ``snapshot_download``, which lists
the repository without any timeout, and draws a progress bar where there is no terminal.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout  # the built-in one from 3.11 on
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import urlsplit

import huggingface_hub as hf  # loads its parts, and an HTTP library, only when they are used
from huggingface_hub import constants

from jevlaya_lab.system_one.errors import CheckpointError, CheckpointInvalid, CheckpointNotFound
from jevlaya_lab.system_one.hub_files import HubFile, note

__all__ = ["ELSEWHERE", "HubClient"]

T = TypeVar("T")

ELSEWHERE: Final = "copy the checkpoint folder here and pass its path, or use 'embedded'"
_CONNECT: Final = f"the cache has no whole copy of it; connect once, or {ELSEWHERE}"
_TOKEN: Final = f"pass token= or set HF_TOKEN, or {ELSEWHERE}"
_ANSWER_SECONDS: Final = 10.0
"""How long the hub may take for an answer that holds no file: huggingface_hub's own figure."""


@dataclass(frozen=True, slots=True)
class HubClient:
    """One revision of one repository, and the cache for it.

    Attributes:
        title: What messages call it.
        repo: ``org/name``.
        revision: Branch, tag or commit.
        patterns: Which of its files are wanted.
        token: Access token; None for the user's own.
        endpoint: URL of the hub; None for the user's own.
        cache: Folder of the cache; None for the user's own.
    """

    title: str
    repo: str
    revision: str
    patterns: tuple[str, ...]
    token: str | None = field(repr=False)
    endpoint: str | None = field(repr=False)  # may hold credentials
    cache: Path | None

    @property
    def storage(self) -> Path:
        """The repository's folder in the cache."""
        cache = Path(constants.HF_HUB_CACHE) if self.cache is None else self.cache
        return cache / f"models--{self.repo.replace('/', '--')}"

    def snapshot(self, commit: str) -> Path:
        """Where the cache keeps the files of a commit."""
        return self.storage / "snapshots" / commit

    def wanted(self, files: Iterable[HubFile]) -> list[HubFile]:
        """Those of the files that are asked for."""
        return [file for file in files if any(fnmatchcase(file.name, p) for p in self.patterns)]

    def ask(self) -> tuple[str, list[HubFile]]:
        """The commit that the revision stands for now, and all its files.

        Raises:
            CheckpointNotFound: The hub says no, or nothing.
        """
        api = hf.HfApi(endpoint=self.endpoint, token=self.token)  # imports much: not on the clock

        def ask() -> tuple[str, list[HubFile]]:
            info = api.model_info(
                self.repo, revision=self.revision, files_metadata=True, timeout=_ANSWER_SECONDS
            )
            if not re.fullmatch("[0-9a-f]{40}", info.sha or ""):
                raise ValueError(f"the hub gives {info.sha!r} as the name of a commit")
            return str(info.sha), HubFile.listed(info.siblings or ())

        return self._bounded(ask)

    def move_branch(self, commit: str) -> None:
        """Let the cache say that the revision stands for this commit, for when the hub is away."""
        branch = self.storage / "refs" / self.revision
        if self.revision != commit and not (branch.is_file() and branch.read_text() == commit):
            note(branch, commit)

    def download(self, name: str, commit: str) -> None:
        """Have a file in the cache.

        Raises:
            CheckpointNotFound: The hub says no, or cannot be reached.
            CheckpointInvalid: The download was cut short.
        """
        url = hf.hf_hub_url(self.repo, name, revision=commit, endpoint=self.endpoint)
        self._bounded(  # asked beforehand, as hf_hub_download would wait for minutes
            lambda: hf.get_hf_file_metadata(url, token=self.token, timeout=_ANSWER_SECONDS)
        )
        try:
            hf.hf_hub_download(
                self.repo,
                name,
                revision=commit,
                token=self.token,
                endpoint=self.endpoint,
                cache_dir=self.cache,
                etag_timeout=_ANSWER_SECONDS,
            )
        except Exception as exc:  # of whichever HTTP library this huggingface_hub uses
            raise self._download_error(name, exc) from exc

    def cached_snapshot(self) -> Path | None:
        """The folder that the cache has for the revision, whole or not."""
        try:
            folder = hf.snapshot_download(
                self.repo,
                revision=self.revision,
                cache_dir=self.cache,
                allow_patterns=list(self.patterns),
                local_files_only=True,
            )
        except OSError:  # nothing there, known to be in parts, or not to be read
            return None
        return Path(folder)

    def cached_listing(self, commit: str) -> list[HubFile]:
        """The commit's files as snapshot_download noted them; huggingface_hub 2 and later do."""
        try:
            tree = hf.get_cached_repo_tree(self.repo, revision=commit, cache_dir=self.cache)
        except Exception:  # its class is as new as the function
            return []
        return HubFile.listed(tree)

    def _bounded(self, call: Callable[[], T]) -> T:
        try:
            return _within(_ANSWER_SECONDS, call)
        except Exception as exc:  # of whichever HTTP library this huggingface_hub uses
            cause, remedy = _explain(exc, self._host())
            raise CheckpointNotFound(f"{self.title}: {cause}; {remedy}") from exc

    def _download_error(self, name: str, exc: Exception) -> CheckpointError:
        from huggingface_hub import errors

        if isinstance(exc, errors.LocalEntryNotFoundError) or _status(exc) is not None:
            cause, remedy = _explain(exc, self._host())
            return CheckpointNotFound(f"{self.title}: {name}: {cause}; {remedy}")
        if isinstance(exc, OSError) and exc.filename:
            return CheckpointNotFound(
                f"{self.title}: the cache cannot be written ({exc.filename}: {exc.strerror}); make "
                "room or give access there, or pass another cache_dir= or set HF_HOME"
            )
        return CheckpointInvalid(
            f"{self.title}: the download of {name} was cut short ({type(exc).__name__}); call "
            f"again, which fetches only what is missing, or {ELSEWHERE}"
        )

    def _host(self) -> str:
        address = urlsplit(self.endpoint or constants.ENDPOINT).netloc
        return address.rpartition("@")[2] or "the hub"


def _within(seconds: float, call: Callable[[], T]) -> T:
    """The call's result, or TimeoutError.

    The timeout of an HTTP library starts anew with each address that is tried and with each byte
    that arrives, and does not bound the look-up of the name.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as exc:
            future.set_exception(exc)

    threading.Thread(target=run, name="jevlaya-hub", daemon=True).start()
    try:
        return future.result(seconds)
    except FutureTimeout as exc:
        raise TimeoutError(f"no answer within {seconds:g} s") from exc


def _status(exc: BaseException) -> int | None:
    """The status of the answer that an exception carries, of any HTTP library; None without one."""
    return getattr(getattr(exc, "response", None), "status_code", None)


def _explain(exc: BaseException, host: str) -> tuple[str, str]:
    """Cause and remedy of a failure, whose own text is not quoted: it may hold a signed address."""
    from huggingface_hub import errors

    if isinstance(exc, errors.LocalEntryNotFoundError) and exc.__cause__ is not None:
        exc = exc.__cause__  # what stopped the download
    if isinstance(exc, errors.OfflineModeIsEnabled):
        return "offline mode is on (HF_HUB_OFFLINE)", _CONNECT
    if isinstance(exc, errors.GatedRepoError):
        return "its owner grants access on request (gated)", f"ask on its page, then {_TOKEN}"
    if isinstance(exc, errors.RepositoryNotFoundError):
        return (
            f"{host} has no such repository, or it is private",
            f"check the name (or the path, if a folder was meant); if it is private, {_TOKEN}",
        )
    if isinstance(exc, errors.RevisionNotFoundError):
        return "it has no such revision", "check the name of the branch, tag or commit"
    status = _status(exc)
    if status in (401, 403):
        return f"{host} refused access (HTTP {status})", f"check the token: {_TOKEN}"
    if status is not None:
        return f"{host} answered with HTTP {status}", f"try again later; {_CONNECT}"
    if isinstance(exc, (ValueError, KeyError, TypeError)):  # no JSON, or not the fields
        return (
            f"what {host} answers is not what a hub answers",
            f"check HF_ENDPOINT or endpoint=, and whether this network wants a login; {_CONNECT}",
        )
    name = type(exc).__name__
    failed = "did not answer in time" if "Timeout" in name else "could not be reached"
    return f"{host} {failed} ({name})", _CONNECT
