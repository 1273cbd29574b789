"""Readers of the sets, on tiny files."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from jevlaya_lab.training.__main__ import main
from jevlaya_lab.training.data import (
    HELD_OUT,
    SETS,
    InputMissing,
    Row,
    labels_of,
    read_rows,
    training_sets,
)


def write_set(folder: Path, name: str, rows: list[dict[str, Any]]) -> None:
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (folder / f"{name}.jsonl.gz").write_bytes(gzip.compress(text.encode()))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    labels = {"snips": {"labels": ["get weather", "play music"]}}
    (tmp_path / "labels.json").write_text(json.dumps(labels))
    return tmp_path


def test_reads_single_texts_and_pairs(folder: Path) -> None:
    write_set(
        folder,
        "snips",
        [
            {"text": "Spiel Musik, süß", "label": "play music", "split": "train"},
            {"premise": "p", "hypothesis": "h", "label": "yes", "score": 0.5, "split": "test"},
            {"premise": "p", "question": "q", "label": "no", "split": "test"},
        ],
    )
    assert list(read_rows(folder, "snips")) == [
        Row("Spiel Musik, süß", "", "play music", None, False),
        Row("p", "h", "yes", 0.5, True),
        Row("p", "q", "no", None, True),
    ]
    assert labels_of(folder, "snips") == ("get weather", "play music")


def test_a_missing_set_is_named(folder: Path) -> None:
    with pytest.raises(InputMissing, match=r"banking77\.jsonl\.gz: no such file"):
        list(read_rows(folder, "banking77"))


@pytest.mark.parametrize("command", [["train", "--out", "unused"], ["evaluate"]])
def test_a_missing_folder_ends_the_command_with_one_line(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "nowhere"
    assert main([*command, "--data", str(missing)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert str(missing) in error
    assert "jsonl.gz" in error


def test_a_missing_file_ends_the_command_with_its_path(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", "--data", str(folder)]) == 2
    assert "banking77.jsonl.gz" in capsys.readouterr().err


def test_no_held_out_set_is_trained_on() -> None:
    assert set(training_sets()) == set(SETS) - set(HELD_OUT)
    assert not any("multilingual" in name for name in SETS)
