"""Numbers against laya 0.4.15, from the same checkpoint folders."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import parity
import pytest
from tiny import KINDS, make_checkpoint

from jevlaya_lab import Agent

LIMIT = 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_answers_and_usage_are_those_of_laya(tmp_path: Path, kind: str) -> None:
    found = parity.compare(make_checkpoint(tmp_path / kind, kind, max_len=256), quick=True)

    assert found.rows >= 100
    assert found.differences == []
    assert found.largest <= LIMIT


def test_the_answers_compared_are_not_all_alike(tmp_path: Path) -> None:
    agent = Agent(make_checkpoint(tmp_path / "c"))

    results = agent.predict_batch(parity.STATES, parity.QUESTIONS)

    answers = [result["answers"] for result in results]
    tops = [answer["answer_confidence"] for each in answers for answer in each.values()]
    assert max(tops) - min(tops) > 0.3, "questions differ"
    billing = [each["team"]["probabilities"]["billing"] for each in answers]
    assert max(billing) - min(billing) > 10 * LIMIT, "states differ"


def test_a_comparison_notices_a_small_difference() -> None:
    found = parity.Compared()
    found.add("x", {"p": 0.5, "n": 3}, {"p": 0.502, "n": 3})
    found.add("x", {"choice": "a"}, {"choice": "b"})
    found.add("x", {"a": 1}, {"b": 1})

    assert found.largest == pytest.approx(0.002)
    assert len(found.differences) == 2


def laya_agent(folder: Path, **options: Any) -> Any:
    import laya.agent

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return laya.agent.Agent(str(folder), device="cpu", **options)


def test_a_calibration_written_here_is_read_by_laya_and_the_reverse(tmp_path: Path) -> None:
    folder = make_checkpoint(tmp_path / "c")
    ours = Agent(folder, device="cpu")
    ours.load_calibration(write(tmp_path / "given.json", temperature=[2.0, 0.7, 3.0], version=1))
    theirs = laya_agent(folder)

    theirs.load_calibration(str(ours.save_calibration(tmp_path / "ours.json")))

    assert theirs.temperature == [2.0, 0.7, 3.0]
    theirs.save_calibration(str(tmp_path / "theirs.json"))
    again = Agent(folder, device="cpu", calibration=tmp_path / "theirs.json")
    assert again.calibration.temperature == (2.0, 0.7, 3.0)
    question = {"q": parity.QUESTIONS["team"]}
    assert again.predict("a", question)["answers"] == ours.predict("a", question)["answers"]
    assert theirs.system_one("a", question)["answers"]["q"]["probabilities"] == pytest.approx(
        ours.predict("a", question)["answers"]["q"]["probabilities"], abs=LIMIT
    )


def test_a_histogram_on_top_is_applied_as_laya_does(tmp_path: Path) -> None:
    folder = make_checkpoint(tmp_path / "c")
    bins = {"choice:3-5": {"bins": 4, "values": [0.1, 0.4, 0.6, 0.9]}}
    path = write(tmp_path / "binned.json", temperature=[1.0, 1.0, 1.0], binning_map=bins)
    ours, theirs = Agent(folder, device="cpu"), laya_agent(folder)
    ours.load_calibration(path)
    theirs.load_calibration(str(path))

    for state in parity.STATES:
        mine = ours.predict(state, parity.QUESTIONS)["answers"]
        other = theirs.system_one(state, parity.QUESTIONS)["answers"]
        for qid in parity.QUESTIONS:
            assert mine[qid]["answer_confidence"] == other[qid]["answer_confidence"]


def test_temperatures_of_a_language_are_applied_as_laya_does(tmp_path: Path) -> None:
    folder = make_checkpoint(tmp_path / "c")
    given = {
        "de": {"temperature": [3.0, 3.0, 3.0]},
        "fr": {"temperature_by_options": {"noul:2": 4}},
    }
    ours = Agent(folder, device="cpu", lang_temperatures=given)
    theirs = laya_agent(folder, lang_temperatures=given)

    for lang in (None, "de", "de-AT", "FR", "it"):
        mine = ours.predict("Wo ist mein Paket?", parity.QUESTIONS, lang=lang)["answers"]
        other = theirs.system_one("Wo ist mein Paket?", parity.QUESTIONS, lang=lang)["answers"]
        for qid, answer in mine.items():
            assert answer["answer_confidence"] == pytest.approx(
                other[qid]["answer_confidence"], abs=LIMIT
            ), (lang, qid)


def write(path: Path, **payload: Any) -> Path:
    path.write_text(json.dumps(payload))
    return path


def same_answers(folder: Path, other: Path) -> None:
    """What laya answers from one folder is what is answered here from the other."""
    theirs, ours = laya_agent(folder), Agent(other, device="cpu")
    found = parity.Compared()
    mine = ours.predict_batch(parity.STATES, parity.QUESTIONS)
    for a, b in zip(mine, theirs.predict_batch(parity.STATES, parity.QUESTIONS), strict=True):
        found.add("answers", a["answers"], b["answers"])
    assert found.differences == []
    assert found.largest <= LIMIT


def test_a_checkpoint_saved_here_loads_in_laya(tmp_path: Path) -> None:
    agent = Agent(make_checkpoint(tmp_path / "c"), device="cpu")
    agent.load_calibration(write(tmp_path / "c.json", temperature=[2.0, 0.7, 3.0]))

    saved = agent.save(tmp_path / "deep" / "saved")

    same_answers(saved, saved)
    assert Agent(saved).calibration.temperature == (2.0, 0.7, 3.0)
    assert (
        agent.predict("a", parity.QUESTIONS)["answers"]
        == (Agent(saved).predict("a", parity.QUESTIONS)["answers"])
    )


def test_a_checkpoint_saved_by_laya_loads_here(tmp_path: Path) -> None:
    from laya.train import save_checkpoint

    theirs = laya_agent(make_checkpoint(tmp_path / "c"))

    save_checkpoint(theirs.model, theirs.tok, theirs.cfg, str(tmp_path / "saved"))

    same_answers(tmp_path / "saved", tmp_path / "saved")


def test_the_embedded_checkpoint_can_be_saved_as_well(tmp_path: Path) -> None:
    agent = Agent()

    again = Agent(agent.save(tmp_path / "saved"))

    question = {"q": parity.QUESTIONS["team"]}
    assert again.predict("a", question)["answers"] == agent.predict("a", question)["answers"]


def test_an_agent_without_files_says_how_to_write_them(tmp_path: Path) -> None:
    from jevlaya_lab.system_one.models.instant import InstantNetwork

    with pytest.raises(ValueError, match="no files to copy; write them with"):
        Agent("x", network=InstantNetwork()).save(tmp_path / "saved")
