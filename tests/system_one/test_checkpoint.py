"""Checkpoint folders: found, verified, written as a whole."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jevlaya_lab.system_one.agent import Agent
from jevlaya_lab.system_one.checkpoint import (
    CONFIG_FILE,
    EMBEDDED,
    find_checkpoint,
    read_checkpoint,
    write_checkpoint,
)
from jevlaya_lab.system_one.errors import CheckpointError, CheckpointInvalid, CheckpointNotFound

FILES: dict[str, bytes] = {
    "encoder/config.json": b"{}",
    "encoder/tokenizer.json": b"{}",
    "encoder/model.safetensors": b"weights",
    "head.safetensors": b"more weights",
}


def write(folder: Path, config: Any = None, files: dict[str, bytes] | None = None) -> Path:
    """A folder with these files and this config; a str or bytes config is written as it is."""
    config = {"architecture": "bi_encoder"} if config is None else config
    text = json.dumps(config) if isinstance(config, (dict, list)) else config
    everything = {CONFIG_FILE: text, **(FILES if files is None else files)}
    for name, content in everything.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def tree(folder: Path) -> dict[str, bytes]:
    """What a folder holds, by relative name."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def pins(**changed: str) -> dict[str, str]:
    return {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()} | changed


# --- reading ---------------------------------------------------------------------------------


def test_a_complete_folder_is_a_checkpoint(tmp_path: Path) -> None:
    config = {"architecture": "bi_encoder", "temperature": [1.0, 1.0, 1.0], "sha256": pins()}

    found = read_checkpoint(write(tmp_path, config))

    assert (found.folder, found.config, found.architecture) == (tmp_path, config, "bi_encoder")


def test_a_config_that_names_no_architecture_is_that_of_a_cross_encoder(tmp_path: Path) -> None:
    files = ("model.safetensors", "encoder/config.json", "tokenizer/tokenizer.json")

    found = read_checkpoint(write(tmp_path, {}, dict.fromkeys(files, b"")))

    assert found.architecture == "cross_encoder"


def test_a_source_may_be_text_or_a_path(tmp_path: Path) -> None:
    assert find_checkpoint(str(tmp_path)) == find_checkpoint(tmp_path) == tmp_path


def test_the_home_folder_may_be_abbreviated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    (tmp_path / "mine").mkdir()

    assert find_checkpoint("~/mine") == tmp_path / "mine"


def test_embedded_names_the_folder_that_comes_with_the_package() -> None:
    assert find_checkpoint("embedded") == EMBEDDED
    assert EMBEDDED.parts[-3:] == ("jevlaya_lab", "checkpoints", "embedded")


def test_a_missing_folder(tmp_path: Path) -> None:
    """An absolute path is never taken for the name of a repository."""
    name = str(tmp_path / "nowhere")

    with pytest.raises(CheckpointNotFound, match=f"{name}.*no such folder.*'embedded'") as caught:
        read_checkpoint(name)

    assert isinstance(caught.value, (CheckpointError, FileNotFoundError))


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(CheckpointNotFound, match="no such folder"):
        read_checkpoint(tmp_path / "file")


def test_a_folder_without_a_config(tmp_path: Path) -> None:
    with pytest.raises(CheckpointNotFound, match=f"{CONFIG_FILE} is missing, so this is no"):
        read_checkpoint(tmp_path)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("{", "Expecting property name"),
        ("", "Expecting value"),
        (b"\xff\xfe{}", "can't decode"),
        ("[]", "holds a list where an object belongs"),
        ('"text"', "holds a str where an object belongs"),
        ("null", "holds a NoneType where an object belongs"),
    ],
)
def test_a_config_that_is_no_json_object(tmp_path: Path, config: Any, message: str) -> None:
    with pytest.raises(CheckpointInvalid, match=f"{CONFIG_FILE}.*{message}") as caught:
        read_checkpoint(write(tmp_path, config))

    assert isinstance(caught.value, ValueError)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("architecture", ["tri_encoder", None, 7, ["bi_encoder"], {}, ""])
def test_an_unknown_architecture(tmp_path: Path, architecture: Any) -> None:
    with pytest.raises(CheckpointInvalid, match=r"architecture .* is not known.* reads bi_encoder"):
        read_checkpoint(write(tmp_path, {"architecture": architecture}))


@pytest.mark.parametrize("missing", FILES)
def test_a_missing_file(tmp_path: Path, missing: str) -> None:
    files = {name: content for name, content in FILES.items() if name != missing}

    with pytest.raises(CheckpointNotFound, match=f"{missing} is missing; fetch or copy"):
        read_checkpoint(write(tmp_path, files=files))


def test_a_file_that_does_not_match_its_pin(tmp_path: Path) -> None:
    wanted = pins(**{"head.safetensors": "0" * 64})
    config = {"architecture": "bi_encoder", "sha256": wanted}
    actual = hashlib.sha256(FILES["head.safetensors"]).hexdigest()

    with pytest.raises(CheckpointInvalid) as caught:
        read_checkpoint(write(tmp_path, config))

    message = str(caught.value)
    assert "head.safetensors is damaged or was altered" in message
    assert actual[:16] in message
    assert "0" * 16 in message


def test_every_pinned_file_is_checked(tmp_path: Path) -> None:
    """Also one that no network of this version reads, and one larger than a block."""
    large = bytes(range(256)) * 8192  # two blocks of a mebibyte
    files = {**FILES, "notes/large.bin": large}
    good = {"notes/large.bin": hashlib.sha256(large).hexdigest()}
    config = {"architecture": "bi_encoder", "sha256": good}

    read_checkpoint(write(tmp_path, config, files))
    (tmp_path / "notes/large.bin").write_bytes(large[:-1] + b"!")

    with pytest.raises(CheckpointInvalid, match=r"notes/large.bin is damaged"):
        read_checkpoint(tmp_path)


def test_a_pinned_file_that_is_missing(tmp_path: Path) -> None:
    config = {"architecture": "bi_encoder", "sha256": {"more.bin": "0" * 64}}

    with pytest.raises(CheckpointNotFound, match=r"the pinned more.bin is missing"):
        read_checkpoint(write(tmp_path, config))


@pytest.mark.parametrize(
    "name", ["../outside", "encoder/../../outside", "/etc/hostname", "", ".", ".."]
)
def test_a_pin_that_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "checkpoint"
    (tmp_path / "outside").write_bytes(b"secret")
    digest = hashlib.sha256(b"secret").hexdigest()
    config = {"architecture": "bi_encoder", "sha256": {name: digest}}

    with pytest.raises(CheckpointInvalid, match="is no file name inside a checkpoint folder"):
        read_checkpoint(write(folder, config))


@pytest.mark.parametrize("wrong", [["head.safetensors"], "0" * 64, 7])
def test_pins_map_names_to_digests(tmp_path: Path, wrong: Any) -> None:
    config = {"architecture": "bi_encoder", "sha256": wrong}

    with pytest.raises(CheckpointInvalid, match=r"must map file names to (SHA-256 )?digests"):
        read_checkpoint(write(tmp_path, config))


def test_the_caller_may_pin_files_before_the_config_is_read(tmp_path: Path) -> None:
    folder = write(tmp_path, "no json at all")
    digest = hashlib.sha256(b"no json at all").hexdigest()

    with pytest.raises(CheckpointInvalid, match=f"{CONFIG_FILE} is damaged or was altered"):
        read_checkpoint(folder, expected_sha256={CONFIG_FILE: "0" * 64})
    with pytest.raises(CheckpointInvalid, match=f"{CONFIG_FILE} is no JSON"):
        read_checkpoint(folder, expected_sha256={CONFIG_FILE: digest.upper()})
    with pytest.raises(CheckpointNotFound, match=r"the pinned more.bin is missing"):
        read_checkpoint(folder, expected_sha256={"more.bin": digest})


def test_a_checkpoint_may_be_a_folder_of_another(tmp_path: Path) -> None:
    write(tmp_path / "inner")

    assert read_checkpoint(tmp_path, subfolder="inner").folder == tmp_path / "inner"
    with pytest.raises(CheckpointNotFound, match="has no sub-folder 'other'"):
        read_checkpoint(tmp_path, subfolder="other")
    with pytest.raises(CheckpointInvalid, match="is no file name inside"):
        read_checkpoint(tmp_path / "inner", subfolder="../inner")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("max_len", 7),
        ("max_len", 512.0),
        ("head_max_len", True),
        ("head_layers", -1),
        ("act_costs", [1, 2]),
        ("option_layout", "diagonal"),
        ("amp_dtype", "int8"),
        ("temperature", [1.0]),
        ("temperature", 1.0),
        ("temperature_by_options", [1.0]),
    ],
)
def test_a_config_with_a_value_that_cannot_be(tmp_path: Path, key: str, value: Any) -> None:
    with pytest.raises(CheckpointInvalid, match=rf"{key} must .* got ") as caught:
        read_checkpoint(write(tmp_path, {"architecture": "bi_encoder", key: value}))

    assert repr(value) in str(caught.value)


def test_an_agent_names_the_checkpoint_that_it_could_not_load(tmp_path: Path) -> None:
    with pytest.raises(CheckpointNotFound, match=CONFIG_FILE):
        Agent(tmp_path)


# --- writing ---------------------------------------------------------------------------------

CONTENT: dict[str, bytes] = {
    CONFIG_FILE: b'{"architecture": "bi_encoder"}',
    **FILES,
}


def test_a_written_checkpoint_can_be_read(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "deep" / "inside" / "checkpoint", CONTENT)

    assert tree(folder) == CONTENT
    assert read_checkpoint(folder).architecture == "bi_encoder"
    assert [path.name for path in folder.parent.iterdir()] == ["checkpoint"]


def test_an_older_checkpoint_is_replaced_as_a_whole(tmp_path: Path) -> None:
    folder = write(tmp_path / "checkpoint", files={**FILES, "left-over.txt": b"old"})

    write_checkpoint(folder, CONTENT)

    assert tree(folder) == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]


def test_a_checkpoint_needs_a_config(tmp_path: Path) -> None:
    with pytest.raises(CheckpointInvalid, match=f"a checkpoint needs {CONFIG_FILE}"):
        write_checkpoint(tmp_path / "checkpoint", FILES)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["../outside", "/outside", "a/../../outside", ""])
def test_a_name_that_leads_out_of_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(CheckpointInvalid, match="is no file name inside"):
        write_checkpoint(tmp_path / "checkpoint", {**CONTENT, name: b""})

    assert list(tmp_path.iterdir()) == []


def failing_after(n: int, real: Callable[..., Any], error: BaseException) -> Callable[..., Any]:
    """Calls the real method n times, then raises, once."""
    calls = iter(range(n + 1))

    def method(*args: Any, **kwargs: Any) -> Any:
        if next(calls, None) == n:
            raise error
        return real(*args, **kwargs)

    return method


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
@pytest.mark.parametrize(
    ("method", "n"),
    [("write_bytes", 0), ("write_bytes", 2), ("rename", 0), ("rename", 1)],
    ids=["first file", "third file", "old folder aside", "new folder in place"],
)
@pytest.mark.parametrize("existing", [True, False])
def test_a_failure_half_way_leaves_what_was_there(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    existing: bool,
    method: str,
    n: int,
    error: BaseException,
) -> None:
    """The old folder is there, completely; nothing else is left lying about."""
    folder = tmp_path / "checkpoint"
    if existing:
        write(folder, files={**FILES, "head.safetensors": b"old"})
    elif method == "rename":
        n = 0  # there is no old folder to put aside
    before = tree(tmp_path)
    monkeypatch.setattr(Path, method, failing_after(n, getattr(Path, method), error))

    with pytest.raises(type(error)):
        write_checkpoint(folder, CONTENT)

    assert tree(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == (["checkpoint"] if existing else [])
