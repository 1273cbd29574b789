"""AuditLog: what a line holds, that lines are whole, rotation, and a disk that fails."""

from __future__ import annotations

import errno
import json
import os
import stat

import laya
import pytest
from fakes import (
    QUESTIONS,
    SKIPPED,
    Recorder,
    RecordingNetwork,
    StubAgent,
    make_agent,
    start_thread,
)

from jevlaya_lab import Router
from jevlaya_lab.contrib_hooks import AuditLog
from jevlaya_lab.system_one.errors import InvalidOption

CHOICE = {"t": {"type": "choice", "instructions": "Which?", "criteria": ["aa", "bb"]}}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "audit.jsonl"


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_line_says_what_was_asked_and_what_came_out_but_not_the_text(path):
    with AuditLog(path) as log:
        agent = make_agent(hooks=[log])
        agent.predict_batch(["a secret", "b"], {**CHOICE, **QUESTIONS})
    (line,) = lines(path)

    assert line["scope"] == "agent"
    assert line["entry"] == "predict_batch"
    assert line["model"] == "test"
    assert line["n_states"] == 2
    assert line["questions"] == ["t", "q"]
    assert [set(answers) for answers in line["answers"]] == [{"t", "q"}] * 2
    assert line["answers"][0]["t"] == "aa"
    assert line["usage"]["input_tokens"] > 0
    assert line["error"] is None
    assert line["skipped"] is False
    assert line["elapsed_ms"] >= 0
    assert line["time"].endswith("+00:00")
    assert "secret" not in path.read_text(encoding="utf-8")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_failed_run_has_its_line_and_messages_only_where_text_is_wanted(path):
    for text in (False, True):
        log = AuditLog(path, text=text, answers=False)
        network = RecordingNetwork(failing={"forward": LookupError("a secret")})
        with log, pytest.raises(LookupError):
            make_agent(network, hooks=[log]).predict({"k": "ä"}, QUESTIONS)
    without, with_text = lines(path)

    assert without["error"] == with_text["error"] == "LookupError"
    assert "states" not in without
    assert "answers" not in without
    assert with_text["states"] == [{"k": "ä"}]
    assert with_text["message"] == "a secret"


def test_states_that_are_no_json_are_named_by_their_kind(path):
    ring: list[object] = []
    ring.append(ring)
    for state in (object(), {(1, 2): 3}, ring, "half \udcff"):
        with AuditLog(path, text=True) as log, pytest.raises(TypeError):
            make_agent(hooks=[log]).predict(state, QUESTIONS)

    found = [line["states"] for line in lines(path)]
    assert found == [["<object>"], ["<dict>"], ["<list>"], ["half \udcff"]]


@pytest.mark.parametrize("make", [Router, laya.Router])
@pytest.mark.parametrize("together", [True, False])
def test_routers_of_both_makes(make, together, path):
    log = AuditLog(path, fsync=True)
    router = make(hooks=[log], hooks_concurrent=together)
    router.attach("english", StubAgent())
    asked = {"state": "a", "questions": QUESTIONS, "model": "english"}
    router.predict_batch([asked, asked])
    router.predict(
        "a", QUESTIONS, model="english", hooks=[Recorder(start=lambda c: c.skip([SKIPPED]))]
    )
    log.close()
    found = lines(path)

    assert [line["scope"] for line in found] == ["router"] * 3
    assert {line["routing"]["model"] for line in found} == {"english"}
    assert found[2]["usage"] == {"input_tokens": 5, "output_tokens": 2}
    assert found[2]["skipped"] is (True if make is Router else None)


def test_lines_of_many_threads_and_two_logs_are_whole(path):
    logs = [AuditLog(path), AuditLog(path)]
    agents = [make_agent(hooks=[log]) for log in logs]
    threads = [
        start_thread(lambda a=agent: [a.predict("a" * 50, CHOICE) for _ in range(50)])
        for agent in agents * 3
    ]
    for thread in threads:
        thread.join(60)
    for log in logs:
        log.close()

    assert len({line["run_id"] for line in lines(path)}) == 300
    assert sum(log.n_written for log in logs) == 300


def test_rotation_keeps_the_newest_and_loses_no_line_in_between(path):
    log = AuditLog(path, max_bytes=2000, keep=2)
    agent = make_agent(hooks=[log])
    ids = []
    for _ in range(30):
        agent.predict("a", QUESTIONS, on_predict_end=lambda ctx: ids.append(ctx.run_id))
    log.close()
    files = [path.with_name(path.name + end) for end in (".2", ".1", "")]
    kept = [line["run_id"] for file in files for line in lines(file)]

    assert sorted(path.parent.iterdir()) == sorted(files)
    assert all(file.stat().st_size <= 2000 for file in files)
    assert kept == ids[-len(kept) :]
    assert len(kept) > 6


def test_a_line_that_a_crash_cut_does_not_spoil_the_next(path):
    path.parent.mkdir()
    path.write_text('{"cut": ', encoding="utf-8")
    with AuditLog(path) as log:
        make_agent(hooks=[log]).predict("a", QUESTIONS)
    first, second = path.read_text(encoding="utf-8").splitlines()

    assert first == '{"cut": '
    assert json.loads(second)["model"] == "test"


def full(written):
    def write(file, data):
        if written:
            return real(file, data[: written.pop()])
        raise OSError(errno.ENOSPC, "No space left on device")

    real = os.write
    return write


def test_a_full_disk_fails_the_call_and_leaves_no_half_line(path, monkeypatch):
    log = AuditLog(path)
    agent = make_agent(hooks=[log])
    agent.predict("a", QUESTIONS)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full([10]))
        with pytest.raises(OSError, match="No space"):
            agent.predict("a", QUESTIONS)
    agent.predict("a", QUESTIONS)
    log.close()

    assert len(lines(path)) == 2
    assert (log.n_written, log.n_lost) == (2, 1)


def test_a_full_disk_may_be_only_a_warning(path, monkeypatch):
    log = AuditLog(path, failures="warn")
    agent = make_agent(hooks=[log])
    monkeypatch.setattr(os, "write", full([]))
    with pytest.warns(RuntimeWarning, match="could not be written"):
        assert agent.predict("a", QUESTIONS)["model"] == "test"
    log.close()

    assert log.n_lost == 1


def test_a_path_that_is_a_folder_fails(tmp_path):
    with pytest.raises(OSError, match="directory"):
        make_agent(hooks=[AuditLog(tmp_path)]).predict("a", QUESTIONS)


def test_bad_options_are_refused(path):
    with pytest.raises(InvalidOption, match="failures"):
        AuditLog(path, failures="ignore")
    with pytest.raises(InvalidOption, match="max_bytes"):
        AuditLog(path, max_bytes=0)
