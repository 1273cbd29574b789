"""Checkpoints on disk: find one, verify it, read it, write one.

A checkpoint is a folder with ``rl_agent_config.json``; its ``architecture`` says which network the
other files hold. The config may pin files by SHA-256 under ``sha256``; pins are checked before any
of these files is parsed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from jevlaya_lab.system_one.errors import CheckpointInvalid, CheckpointNotFound

__all__ = ["EMBEDDED", "Checkpoint", "find_checkpoint", "read_checkpoint", "write_checkpoint"]

CONFIG_FILE: Final = "rl_agent_config.json"
EMBEDDED: Final = Path(__file__).resolve().parent.parent / "checkpoints" / "embedded"
"""Folder of the checkpoint that comes with the package."""

_FILES: Final = {
    "bi_encoder": (
        "encoder/config.json",
        "encoder/tokenizer.json",
        "encoder/model.safetensors",
        "head.safetensors",
    ),
}


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint folder whose files are there and match their pins.

    Attributes:
        folder: Where it lies.
        config: Its ``rl_agent_config.json``.
        architecture: Which network it is for.
    """

    folder: Path
    config: dict[str, Any]
    architecture: str


def find_checkpoint(source: str | os.PathLike[str]) -> Path:
    """The folder that a name or path stands for.

    Args:
        source: ``"embedded"``, or the path of a folder.

    Raises:
        CheckpointNotFound: There is no such folder.
    """
    if source == "embedded":
        return EMBEDDED
    folder = Path(source).expanduser()
    if not folder.is_dir():
        raise CheckpointNotFound(
            f"checkpoint {os.fspath(source)!r}: there is no such folder; pass the folder that "
            f"holds {CONFIG_FILE}, or 'embedded' for the one that comes with the package (names on "
            "a model hub are not read by this version)"
        )
    return folder


def read_checkpoint(source: str | os.PathLike[str]) -> Checkpoint:
    """Find a checkpoint and check its files, without parsing any weights.

    Raises:
        CheckpointNotFound: The folder or one of its files is missing.
        CheckpointInvalid: The config is no JSON object, the architecture is unknown, or a file does
            not have the SHA-256 that the config pins.
    """
    folder = find_checkpoint(source)
    path = folder / CONFIG_FILE
    if not path.is_file():
        raise CheckpointNotFound(
            f"checkpoint {str(folder)!r}: {CONFIG_FILE} is missing, so this is no checkpoint folder"
        )
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as exc:
        raise CheckpointInvalid(f"checkpoint {str(folder)!r}: {CONFIG_FILE}: {exc}") from exc
    if not isinstance(config, dict):
        raise CheckpointInvalid(
            f"checkpoint {str(folder)!r}: {CONFIG_FILE} holds a {type(config).__name__} where an "
            "object belongs"
        )
    architecture = config.get("architecture", "cross_encoder")
    if not isinstance(architecture, str) or architecture not in _FILES:
        raise CheckpointInvalid(
            f"checkpoint {str(folder)!r}: architecture {architecture!r} is not known to this "
            f"version, which reads {', '.join(_FILES)}"
        )
    for name in _FILES[architecture]:
        if not (folder / name).is_file():
            raise CheckpointNotFound(
                f"checkpoint {str(folder)!r}: {name} is missing; fetch or copy the folder again"
            )
    _check_pins(folder, config.get("sha256") or {})
    return Checkpoint(folder, config, architecture)


def _check_pins(folder: Path, pins: Any) -> None:
    if not isinstance(pins, dict):
        raise CheckpointInvalid(
            f"checkpoint {str(folder)!r}: 'sha256' in {CONFIG_FILE} must map file names to digests"
        )
    for name, wanted in pins.items():
        path = folder / _inside(name)
        if not path.is_file():
            raise CheckpointNotFound(f"checkpoint {str(folder)!r}: the pinned {name} is missing")
        with path.open("rb") as file:
            digest = hashlib.sha256()
            while block := file.read(1 << 20):
                digest.update(block)
        if digest.hexdigest() != wanted:
            raise CheckpointInvalid(
                f"checkpoint {str(folder)!r}: {name} is damaged or was altered: its SHA-256 is "
                f"{digest.hexdigest()[:16]}…, pinned is {str(wanted)[:16]}…; fetch the folder again"
            )


def _inside(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise CheckpointInvalid(f"{name!r} is no file name inside a checkpoint folder")
    return path


def write_checkpoint(folder: str | os.PathLike[str], files: Mapping[str, bytes]) -> Path:
    """Write a checkpoint folder as a whole: it is there completely, or as it was before.

    Args:
        folder: Where it shall lie; an older one there is replaced.
        files: Content by name relative to the folder, such as ``encoder/config.json``.

    Returns:
        The folder.

    Raises:
        CheckpointInvalid: The config is missing, or a name leads out of the folder.
    """
    target = Path(folder).expanduser().resolve()
    if CONFIG_FILE not in files:
        raise CheckpointInvalid(f"a checkpoint needs {CONFIG_FILE}; got {sorted(files)}")
    places = {name: _inside(name) for name in files}
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        new, old = work / "new", work / "old"
        for name, content in files.items():
            path = new / places[name]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        if target.exists():
            target.rename(old)
        try:
            new.rename(target)
        except BaseException:  # an interrupt must not cost the old folder either
            if old.exists():
                old.rename(target)
            raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return target
