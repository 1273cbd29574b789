"""The files of a hub's snapshot: how the hub lists them, and whether a local copy is the same."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["HubFile", "Receipt", "note", "remove"]


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file as the hub lists it; what the hub does not say is None, and not checked.

    Attributes:
        name: Its path in the repository.
        size: In bytes.
        sha256: Of the content; only known for files that Git LFS keeps.
        git_hash: What git calls the content; None for files that Git LFS keeps.
    """

    name: str
    size: int | None
    sha256: str | None
    git_hash: str | None

    @classmethod
    def listed(cls, entries: Iterable[Any]) -> list[HubFile]:
        """From huggingface_hub's ``RepoSibling`` or ``RepoFile``; names that lead elsewhere go."""
        return [
            cls(
                entry.rfilename,
                entry.size,
                entry.lfs.sha256 if entry.lfs else None,
                None if entry.lfs else entry.blob_id,
            )
            for entry in entries
            if ".." not in entry.rfilename.split("/")
        ]

    def damage(self, snapshot: Path) -> str | None:
        """What is wrong with the copy in this folder, in words; None where it is as listed."""
        path = snapshot / self.name
        if not path.is_file():
            return "it is missing"
        size = path.stat().st_size
        if self.size not in (None, size):
            return f"it has {size} bytes, the hub lists {self.size}"
        wanted = self.sha256 or self.git_hash
        if wanted is None:
            return None
        digest = hashlib.sha256() if self.sha256 else hashlib.sha1(b"blob %d\0" % size)
        with path.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
        if digest.hexdigest() == wanted:
            return None
        return f"its hash is {digest.hexdigest()[:16]}…, the hub lists {wanted[:16]}…"


def remove(path: Path) -> None:
    """Remove a file, if there, and the blob that it links to, which would be linked again."""
    if path.is_file():
        blob = path.resolve()
        path.unlink(missing_ok=True)
        blob.unlink(missing_ok=True)


def note(path: Path, text: str) -> None:
    """Write a small file as a whole, or not at all where the cache cannot be written."""
    draft = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}")
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)


@dataclass(frozen=True, slots=True)
class Receipt:
    """A note that the wanted files of a commit were all there and verified, with their sizes.

    It spares hashing them again, and says offline which files there have to be.
    """

    path: Path

    @classmethod
    def of(cls, folder: Path, commit: str, patterns: Sequence[str]) -> Receipt:
        """The receipt for these files of this commit, which need not exist."""
        key = hashlib.sha256("\n".join(patterns).encode()).hexdigest()[:16]
        return cls(folder / f"{commit}-{key}.json")

    def holds(self, snapshot: Path) -> bool:
        """Whether the receipt exists and the files are still there in the same sizes."""
        try:
            sizes = json.loads(self.path.read_text(encoding="utf-8"))
            return all((snapshot / name).stat().st_size == size for name, size in sizes.items())
        except (OSError, ValueError, AttributeError):
            return False

    def write(self, snapshot: Path, files: Iterable[HubFile]) -> None:
        """Note these files; in a cache that cannot be written, they are verified each time."""
        sizes = {file.name: (snapshot / file.name).stat().st_size for file in files}
        note(self.path, json.dumps(sizes, indent=1))
