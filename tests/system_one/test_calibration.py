"""Temperatures: by bucket and by language, and as a file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from jevlaya_lab import Agent
from jevlaya_lab.system_one.calibration import Calibration, read_calibration, write_calibration
from jevlaya_lab.system_one.errors import CheckpointInvalid, CheckpointNotFound
from jevlaya_lab.system_one.models.instant import InstantNetwork
from jevlaya_lab.system_one.questions import prepare

(TWO,) = prepare({"q": {"type": "choice", "instructions": "?", "criteria": ["a", "b"]}})
(YES,) = prepare({"q": {"type": "noul", "instructions": "?"}})
HERE: dict[str, Any] = {"model": "m", "config": {"encoder": "e", "temperature": [9, 9, 9]}}


def write(path: Path, payload: Any) -> Path:
    path.write_text(payload if isinstance(payload, str) else json.dumps(payload))
    return path


def test_a_language_goes_before_the_bucket_and_the_bucket_before_the_type() -> None:
    calibration = Calibration((1.5, 1.0, 2.0), {"choice:2": 3.0}).with_languages(
        {"de": {"temperature": [4.0, 4.0, 4.0]}, "pt-BR": None}
    )

    assert calibration.temperature_of(TWO) == 3.0
    assert calibration.temperature_of(YES) == 2.0
    assert calibration.temperature_of(TWO, "de") == 4.0
    assert calibration.temperature_of(TWO, "DE_at") == 4.0
    assert calibration.temperature_of(TWO, "pt") == 1.5, "inherits the types, not the buckets"
    assert calibration.temperature_of(TWO, "xx") == 3.0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"de": 2.0}, r"lang_temperatures\['de'\]: must be an object"),
        ({3: {}}, r"lang_temperatures\[3\]: the key must be a language code"),
        ({"de": {"temperature": [1.0]}}, r"\['de'\]: temperature must be a list of three"),
        ({"de": {"temperature_by_options": [1]}}, r"\['de'\]: temperature_by_options must map"),
    ],
)
def test_other_shapes_of_language_temperatures_are_refused(given: Any, message: str) -> None:
    with pytest.raises(CheckpointInvalid, match=message):
        Calibration().with_languages(given)


def test_a_temperature_of_a_language_that_was_replaced_is_named() -> None:
    with pytest.warns(RuntimeWarning, match=r"lang_temperatures\['de'\].*choice=0.01 -> 0.5"):
        Calibration().with_languages({"de": {"temperature": [0.01, 1.0, 1.0]}})


def test_a_file_gives_back_what_was_written(tmp_path: Path) -> None:
    calibration = Calibration((1.5, 1.0, 2.0), {"choice:2": 3.0}, {}, {"noul:2": (0.25, 0.75)})

    path = write_calibration(calibration, tmp_path / "new" / "c.json", **HERE)

    assert read_calibration(path, **HERE) == calibration
    assert json.loads(path.read_text())["config"] == {"encoder": "e"}


def test_a_file_for_another_checkpoint_is_taken_with_a_warning(tmp_path: Path) -> None:
    path = write_calibration(Calibration((2.0, 2.0, 2.0)), tmp_path / "c.json", **HERE)

    with pytest.warns(UserWarning, match="was fitted for 'm', this is 'other'"):
        found = read_calibration(path, model="other", config=HERE["config"])

    assert found.temperature == (2.0, 2.0, 2.0)


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ("{", "is no JSON"),
        ([], "holds a list, not an object"),
        ({}, "temperature is missing"),
        ({"temperature": [1, 2]}, "list of three numbers"),
        ({"temperature": [1, 1, 1], "version": 1.5}, "version must be a whole number, got 1.5"),
        (
            {"temperature": [1, 1, 1], "temperature_by_options": 3},
            "temperature_by_options must map",
        ),
        ({"temperature": [1, 1, 1], "binning_map": []}, "binning_map must be an object"),
        (
            {"temperature": [1, 1, 1], "binning_map": {"noul:2": {"bins": 2, "values": [0.5]}}},
            r"binning_map\['noul:2'\] must be",
        ),
        (
            {"temperature": [1, 1, 1], "binning_map": {"noul:2": {"bins": 1, "values": [1.5]}}},
            r"binning_map\['noul:2'\] must be",
        ),
        (
            {"temperature": [1, 1, 1], "binning_map": {"noul:2": {"bins": 1, "values": [True]}}},
            r"binning_map\['noul:2'\] must be",
        ),
    ],
)
def test_files_of_other_shapes_are_refused_and_nothing_changes(
    tmp_path: Path, payload: Any, message: str
) -> None:
    agent = Agent("x", network=InstantNetwork(), config={"temperature": [2.0, 2.0, 2.0]})

    with pytest.raises(CheckpointInvalid, match=message) as caught:
        agent.load_calibration(write(tmp_path / "bad.json", payload))

    assert "bad.json" in str(caught.value)
    assert agent.calibration == Calibration((2.0, 2.0, 2.0))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointNotFound, match=r"calibration file .*none\.json': No such file"):
        Agent("x", network=InstantNetwork(), calibration=tmp_path / "none.json")


def test_loading_a_file_keeps_the_languages(tmp_path: Path) -> None:
    languages = {"de": {"temperature": [4.0, 4.0, 4.0]}}
    agent = Agent("m", network=InstantNetwork(), lang_temperatures=languages)

    agent.load_calibration(write(tmp_path / "c.json", {"temperature": [2.0, 2.0, 2.0]}))

    assert agent.calibration.temperature_of(TWO) == 2.0
    assert agent.calibration.temperature_of(TWO, "de") == 4.0


def test_a_failure_while_saving_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_calibration(Calibration(), tmp_path / "c.json", **HERE)
    before = path.read_bytes()

    def fail(*_: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_calibration(Calibration((2.0, 2.0, 2.0)), path, **HERE)

    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["c.json"]
