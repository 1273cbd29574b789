"""Checkpoints on a model hub: how they are named, and fetching one into the shared cache.

The cache is huggingface_hub's own, so that nothing is fetched twice. A copy in it counts as whole
when every wanted file of the commit has the size and the hash that the hub lists; offline, a copy
that is not known to be whole is not used. The branch is moved to a new commit after its files are
verified, so that an update that fails leaves the old copy usable.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from jevlaya_lab.system_one.errors import CheckpointInvalid, CheckpointNotFound, InvalidOption
from jevlaya_lab.system_one.hub_client import ELSEWHERE, HubClient
from jevlaya_lab.system_one.hub_files import HubFile, Receipt, remove

__all__ = ["HubSource", "fetch", "parse_source"]

_NAME: Final = re.compile(r"\w(?:[\w.-]{0,94}\w)?/\w(?:[\w.-]{0,94}\w)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class HubSource:
    """Which checkpoint of a hub.

    Attributes:
        repo: ``org/name``.
        subfolder: The folder of the repository that is the checkpoint; None for its root.
        revision: Branch, tag or commit; None for ``main``.
    """

    repo: str
    subfolder: str | None = None
    revision: str | None = None

    def __str__(self) -> str:
        folder = f", sub-folder {self.subfolder!r}" if self.subfolder else ""
        revision = f", revision {self.revision!r}" if self.revision else ""
        return f"checkpoint {self.repo!r} on the hub{folder}{revision}"


def parse_source(text: str) -> HubSource | None:
    """The hub checkpoint that a string names, or None where it is to be read as a path.

    A hub's name is ``org/name``: exactly one slash, and letters, digits, ``-``, ``_``, ``.`` by the
    Hub's rules. A folder that exists under this path goes first.
    """
    if not _is_name(text) or Path(text).is_dir():
        return None
    return HubSource(text)


def fetch(
    repo: str,
    patterns: Sequence[str],
    *,
    subfolder: str | None = None,
    revision: str | None = None,
    token: str | None = None,
    endpoint: str | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
) -> Path:
    """The local folder of a hub's checkpoint; what the cache lacks is downloaded and verified.

    The hub is asked which commit the revision stands for, in one request when the cache is up to
    date. When it does not say (offline mode, no answer within 10 s, no access any more), the copy
    in the cache is used if it is known to be whole.

    Args:
        repo: ``org/name``.
        patterns: Which files of the checkpoint are wanted, such as ``tokenizer/*``; no others are
            downloaded.
        subfolder: The folder of the repository that is the checkpoint; None for its root.
        revision: Branch, tag or commit; None for ``main``.
        token: An access token; None for the one of ``HF_TOKEN`` or ``hf auth login``, if any.
        endpoint: URL of the hub; None for ``HF_ENDPOINT`` or https://huggingface.co.
        cache_dir: The cache; None for huggingface_hub's own.

    Returns:
        The snapshot's folder in the cache, or the sub-folder in it.

    Raises:
        CheckpointNotFound: No such repository, revision or sub-folder, no access, or the hub cannot
            be reached and the cache has no whole copy.
        CheckpointInvalid: The download broke off, or a file arrived with a wrong size or hash.
        InvalidOption: The token, the sub-folder or the revision is malformed.
    """
    source = HubSource(repo, subfolder, revision)
    if not _is_name(repo):
        raise CheckpointNotFound(
            f"{source}: this is no repository's name, which has the form org/name; correct it, or "
            f"{ELSEWHERE}"
        )
    root = _inside("subfolder", subfolder)
    _inside("revision", revision)
    client = HubClient(
        title=str(source),
        repo=repo,
        revision=revision or "main",
        patterns=tuple(glob.escape(root and f"{root}/") + pattern for pattern in patterns),
        token=_checked_token(token),
        endpoint=endpoint,
        cache=None if cache_dir is None else Path(cache_dir).expanduser(),
    )
    return _snapshot(client) / root


def _is_name(text: str) -> bool:
    if "--" in text or ".." in text or text.endswith(".git"):
        return False
    return _NAME.fullmatch(text) is not None


def _inside(option: str, value: str | None) -> str:
    """A path in the repository, or a name that the cache makes a path of, in its plain form."""
    path = PurePosixPath(value or "")
    if path.is_absolute() or ".." in path.parts or "\\" in str(path):
        raise InvalidOption(
            f"{option}={value!r} leads out of the repository; pass the name that the hub shows"
        )
    return "" if path == PurePosixPath() else str(path)


def _checked_token(token: str | None) -> str | None:
    token = (token or "").strip()
    if not (token.isascii() and token.isprintable()) or " " in token:
        # Refused here, as HTTP libraries quote a malformed header, token and all, in their errors.
        raise InvalidOption("token holds a character that no access token has; copy it again")
    return token or None


def _snapshot(client: HubClient) -> Path:
    """The folder of the whole copy, fetched if need be."""
    try:
        commit, listed = client.ask()
    except CheckpointNotFound:
        cached = _cached(client)
        if cached is None:
            raise
        return cached
    files = client.wanted(listed)
    if not files:
        folders = sorted({file.name.split("/")[0] for file in listed if "/" in file.name})
        raise CheckpointNotFound(
            f"{client.title}: none of the repository's files matches {', '.join(client.patterns)}; "
            f"check the sub-folder (it has {', '.join(folders) or 'none'}), or {ELSEWHERE}"
        )
    folder = client.snapshot(commit)
    receipt = _receipt(client, commit)
    if not receipt.holds(folder):
        _complete(client, commit, files)
        receipt.write(folder, files)
    client.move_branch(commit)
    return folder


def _receipt(client: HubClient, commit: str) -> Receipt:
    return Receipt.of(client.storage / "jevlaya_lab", commit, client.patterns)


def _cached(client: HubClient) -> Path | None:
    """The copy that the cache has of the revision, if it is known to be whole."""
    folder = client.cached_snapshot()
    if folder is None:
        return None
    receipt = _receipt(client, folder.name)
    if receipt.holds(folder):
        return folder
    files = client.wanted(client.cached_listing(folder.name))
    if not files or any(file.damage(folder) for file in files):
        return None
    receipt.write(folder, files)
    return folder


def _complete(client: HubClient, commit: str, files: Iterable[HubFile]) -> None:
    """Download the files that are missing or damaged in the cache, and verify them."""
    folder = client.snapshot(commit)
    for file in files:
        if file.damage(folder) is None:
            continue
        remove(folder / file.name)
        client.download(file.name, commit)
        if damage := file.damage(folder):
            remove(folder / file.name)
            raise CheckpointInvalid(
                f"{client.title}: {file.name} arrived damaged: {damage}; call again, and if it "
                f"recurs, the server or a proxy alters the file: {ELSEWHERE}"
            )
