"""Checkpoints: find one on disk or on a hub, verify it, read it, write one.

A checkpoint is a folder with ``rl_agent_config.json``; its ``architecture`` says which network the
other files hold (none means laya's cross-encoder). Files may be pinned by SHA-256, by the caller or
in the config under ``sha256``; a pinned file is checked before any byte of it is parsed.
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

from jevlaya_lab.system_one.calibration import Calibration
from jevlaya_lab.system_one.errors import CheckpointInvalid, CheckpointNotFound

__all__ = [
    "EMBEDDED",
    "Checkpoint",
    "copy_checkpoint",
    "find_checkpoint",
    "read_checkpoint",
    "write_checkpoint",
]

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
    "cross_encoder": ("model.safetensors", "encoder/config.json", "tokenizer/tokenizer.json"),
}
_ON_A_HUB: Final = (
    CONFIG_FILE,
    "model.safetensors",
    "head.safetensors",
    "tokenizer/*",
    "encoder/*",
)
_LAYOUTS: Final = ("sequential", "parallel")
_AMP_DTYPES: Final = ("bf16", "bfloat16", "fp16", "float16", "fp32", "float32")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint folder whose files are there and match their pins.

    Attributes:
        folder: Where it lies.
        config: Its ``rl_agent_config.json``, checked.
        architecture: Which network it is for.
        calibration: Its temperatures.
    """

    folder: Path
    config: dict[str, Any]
    architecture: str
    calibration: Calibration


def find_checkpoint(
    source: str | os.PathLike[str],
    *,
    subfolder: str | None = None,
    revision: str | None = None,
    token: str | None = None,
) -> Path:
    """The folder that a name or path stands for; a hub's files are fetched where need be.

    Args:
        source: ``"embedded"``, the path of a folder, or ``org/name`` on a Hugging Face Hub.
        subfolder: The folder inside of it that is the checkpoint.
        revision: Branch, tag or commit on the hub.
        token: Access token for the hub; ``None`` for the one of ``HF_TOKEN`` or ``hf auth login``.

    Raises:
        CheckpointNotFound: There is no such folder or repository, or it cannot be reached.
        CheckpointInvalid: A download broke off or arrived damaged.
    """
    from jevlaya_lab.system_one.hub import fetch, parse_source

    if source == "embedded":
        return EMBEDDED
    folder = Path(source).expanduser()
    if folder.is_dir():
        found = folder / _inside(subfolder) if subfolder else folder
        if not found.is_dir():
            raise CheckpointNotFound(
                f"checkpoint {os.fspath(source)!r}: it has no sub-folder {subfolder!r}"
            )
        return found
    on_hub = parse_source(source) if isinstance(source, str) else None
    if on_hub is None:
        raise CheckpointNotFound(
            f"checkpoint {os.fspath(source)!r}: there is no such folder; pass the folder that "
            f"holds {CONFIG_FILE}, org/name on a hub, or 'embedded' for the one that comes with "
            "the package"
        )
    try:
        return fetch(on_hub.repo, _ON_A_HUB, subfolder=subfolder, revision=revision, token=token)
    except CheckpointNotFound as exc:
        raise CheckpointNotFound(f"{exc} (there is no folder of that name here either)") from exc


def read_checkpoint(
    source: str | os.PathLike[str],
    *,
    subfolder: str | None = None,
    revision: str | None = None,
    token: str | None = None,
    expected_sha256: Mapping[str, str] | None = None,
) -> Checkpoint:
    """Find a checkpoint and check its files and its config, without parsing any weights.

    Args:
        source: See :func:`find_checkpoint`, also for the following three.
        subfolder: The folder inside of it that is the checkpoint.
        revision: Branch, tag or commit on the hub.
        token: Access token for the hub.
        expected_sha256: Digests by file name; each must be there and match.

    Raises:
        CheckpointNotFound: The folder or one of its files is missing.
        CheckpointInvalid: A file does not have the digest it is pinned to, or the config is no JSON
            object, of an unknown architecture, or has a value that cannot be.
    """
    folder = find_checkpoint(source, subfolder=subfolder, revision=revision, token=token)
    where = f"checkpoint {str(folder)!r}"
    _check_pins(folder, dict(expected_sha256 or {}), where)
    config = _read_config(folder, where)
    architecture = config.get("architecture", "cross_encoder")
    if not isinstance(architecture, str) or architecture not in _FILES:
        raise CheckpointInvalid(
            f"{where}: architecture {architecture!r} is not known to this version, which reads "
            f"{', '.join(_FILES)}"
        )
    for name in _FILES[architecture]:
        if not (folder / name).is_file():
            raise CheckpointNotFound(f"{where}: {name} is missing; fetch or copy the folder again")
    _check_pins(folder, config.get("sha256") or {}, where)
    _check_config(config, where)
    return Checkpoint(folder, config, architecture, Calibration.from_config(config, where))


def _read_config(folder: Path, where: str) -> dict[str, Any]:
    path = folder / CONFIG_FILE
    if not path.is_file():
        raise CheckpointNotFound(
            f"{where}: {CONFIG_FILE} is missing, so this is no checkpoint folder"
        )
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as exc:
        raise CheckpointInvalid(f"{where}: {CONFIG_FILE} is no JSON: {exc}") from exc
    if not isinstance(config, dict):
        raise CheckpointInvalid(
            f"{where}: {CONFIG_FILE} holds a {type(config).__name__} where an object belongs"
        )
    return config


def _check_config(config: Mapping[str, Any], where: str) -> None:
    for key, least in (("max_len", 8), ("head_max_len", 8), ("head_layers", 0)):
        value = config.get(key, least)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise CheckpointInvalid(
                f"{where}: {key} must be a whole number of at least {least}, got {value!r}"
            )
    if not isinstance(config.get("act_costs", {}), Mapping):
        raise CheckpointInvalid(
            f"{where}: act_costs must be an object, got {config['act_costs']!r}"
        )
    for key, known in (("option_layout", _LAYOUTS), ("amp_dtype", _AMP_DTYPES)):
        if config.get(key, known[0]) not in known:
            raise CheckpointInvalid(
                f"{where}: {key} must be one of {', '.join(known)}, got {config[key]!r}"
            )


def _check_pins(folder: Path, pins: Any, where: str) -> None:
    if not isinstance(pins, dict):
        raise CheckpointInvalid(f"{where}: pins must map file names to SHA-256 digests")
    for name, wanted in pins.items():
        path = folder / _inside(name)
        if not path.is_file():
            raise CheckpointNotFound(f"{where}: the pinned {name} is missing")
        with path.open("rb") as file:
            digest = hashlib.sha256()
            while block := file.read(1 << 20):
                digest.update(block)
        if digest.hexdigest() != str(wanted).lower():
            raise CheckpointInvalid(
                f"{where}: {name} is damaged or was altered: its SHA-256 is "
                f"{digest.hexdigest()[:16]}…, pinned is {str(wanted)[:16]}…; fetch the folder again"
            )


def _inside(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise CheckpointInvalid(f"{name!r} is no file name inside a checkpoint folder")
    return path


def copy_checkpoint(checkpoint: Checkpoint, folder: str | os.PathLike[str]) -> Path:
    """Write a checkpoint again, with the config and the temperatures that it has now.

    Args:
        checkpoint: Its folder gives the files, its config and calibration what the new config says.
        folder: Where the copy shall lie; an older one there is replaced as a whole.

    Returns:
        The folder.
    """
    files = {
        path.relative_to(checkpoint.folder).as_posix(): path.read_bytes()
        for path in sorted(checkpoint.folder.rglob("*"))
        if path.is_file() and path.name != CONFIG_FILE
    }
    config = {
        **checkpoint.config,
        "temperature": list(checkpoint.calibration.temperature),
        "temperature_by_options": dict(checkpoint.calibration.by_options),
    }
    return write_checkpoint(folder, {CONFIG_FILE: json.dumps(config, indent=2).encode(), **files})


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
        try:
            if target.exists():
                target.rename(old)
            new.rename(target)
        except BaseException:  # an interrupt must not cost the old folder either
            if old.exists() and not target.exists():
                old.rename(target)
            raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return target
