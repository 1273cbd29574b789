"""Files that are there as a whole or as they were before; packages of an extra."""

from __future__ import annotations

import os
import sys

import pytest

from jevlaya_lab.system_one import files
from jevlaya_lab.system_one.errors import MissingExtra
from jevlaya_lab.system_one.extras import require
from jevlaya_lab.system_one.files import whole_file, whole_files


def write(paths, text="new", then=None):
    with whole_files(paths) as written:
        for file in written:
            file.write(text)
        if then is not None:
            raise then


def content(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a").write_text("old a")
    (tmp_path / "b").write_text("old b")
    return tmp_path


def test_files_that_belong_together_are_all_new(folder):
    with whole_files([folder / "a", folder / "b", folder / "new"]) as written:
        for i, file in enumerate(written):
            file.write(f"new {i}")
        assert content(folder)["a"] == "old a"
    assert content(folder) == {"a": "new 0", "b": "new 1", "new": "new 2"}


def mode(path):
    return os.stat(path).st_mode & 0o777


@pytest.mark.skipif(os.name == "nt", reason="no such permissions")
@pytest.mark.parametrize("umask", [0o077, 0o022, 0o002])
def test_files_have_the_permissions_that_they_had_or_those_of_any_new_file(folder, umask):
    os.chmod(folder / "a", 0o600)
    os.chmod(folder / "b", 0o664)
    before = os.umask(umask)
    try:
        with whole_files([folder / "a", folder / "b", folder / "new"]):
            written = {p.name.split("-")[0][1:]: mode(p) for p in folder.glob(".*-*")}
    finally:
        os.umask(before)
    expected = {"a": 0o600, "b": 0o664, "new": 0o666 & ~umask}
    assert {name: mode(folder / name) for name in expected} == expected
    assert written == expected  # nobody could read more of them meanwhile


def test_a_failure_in_the_block_leaves_all_as_they_were(folder):
    with pytest.raises(KeyboardInterrupt):
        write([folder / "a", folder / "new"], "half", then=KeyboardInterrupt())
    assert content(folder) == {"a": "old a", "b": "old b"}


@pytest.mark.parametrize("failing", [1, 2, 3])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_failure_at_any_rename_leaves_all_as_they_were(folder, monkeypatch, failing, moment):
    replace, n_calls = os.replace, 0

    def replacing(source, target):
        nonlocal n_calls
        n_calls += 1
        if n_calls == failing and moment == "before":
            raise KeyboardInterrupt
        replace(source, target)
        if n_calls == failing:
            raise KeyboardInterrupt

    monkeypatch.setattr(files.os, "replace", replacing)
    with pytest.raises(KeyboardInterrupt):
        write([folder / "a", folder / "new", folder / "b"])
    assert content(folder) == {"a": "old a", "b": "old b"}


def test_a_folder_in_the_place_of_a_file_leaves_all_as_they_were(folder):
    (folder / "sub").mkdir()
    with pytest.raises(OSError, match=r"sub|directory"):
        write([folder / "a", folder / "sub"])
    (folder / "sub").rmdir()
    assert content(folder) == {"a": "old a", "b": "old b"}


def test_one_file_may_take_bytes(tmp_path):
    with whole_file(tmp_path / "deep" / "f", binary=True) as file:
        file.write(b"\r\n\x00")
    assert (tmp_path / "deep" / "f").read_bytes() == b"\r\n\x00"


def test_a_package_that_is_there_is_given():
    assert require("json.decoder", "parquet", "this").JSONDecoder


def test_a_package_that_is_missing_is_named_with_its_install_line(monkeypatch):
    for name in ("pyarrow", "pyarrow.parquet"):  # which another test may have loaded
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(
        MissingExtra, match=r'that needs pyarrow, .*: pip install "jevlaya_lab\[parquet\]"'
    ):
        require("pyarrow.parquet", "parquet", "that")
