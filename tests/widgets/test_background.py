"""Work that widgets start: one piece at a time, or only the newest."""

from __future__ import annotations

import signal
import threading
import time

import pytest
from fakes import PATIENCE

from jevlaya_lab.widgets.background import Latest, Worker


def test_a_second_piece_of_work_is_refused_until_the_first_has_ended():
    gate, done = threading.Event(), []
    worker = Worker(done.append)

    assert worker.start(lambda: gate.wait(PATIENCE), "first")
    assert worker.busy
    assert not worker.start(lambda: done.append("second"), "second")
    assert not worker.wait(0.01)
    gate.set()
    assert worker.wait(PATIENCE)
    assert worker.start(lambda: done.append("third"), "third")
    assert worker.wait(PATIENCE)
    assert done == ["third"]


def test_what_the_work_raises_is_handed_on_and_its_end_is_said_each_time():
    told: list[object] = []
    worker = Worker(told.append, lambda: told.append("ended"))
    error = ValueError("x")

    def fail():
        raise error

    worker.start(fail, "failing")
    worker.wait(PATIENCE)
    worker.start(lambda: told.append("fine"), "fine")
    worker.wait(PATIENCE)

    assert told == [error, "ended", "fine", "ended"]


@pytest.mark.skipif(
    not hasattr(signal, "pthread_kill"), reason="a thread cannot be sent an interrupt here"
)
def test_an_interrupt_of_the_one_who_waits_leaves_the_work_as_it_is():
    gate, main = threading.Event(), threading.main_thread().ident
    worker = Worker(lambda error: None)

    def work():
        time.sleep(0.2)  # until the main thread waits
        signal.pthread_kill(main, signal.SIGINT)
        gate.wait(PATIENCE)

    worker.start(work, "interrupting")
    with pytest.raises(KeyboardInterrupt):
        worker.wait(PATIENCE)
    assert worker.busy
    assert not worker.start(gate.set, "another")
    gate.set()
    assert worker.wait(PATIENCE)


def test_stopping_is_forgotten_when_the_next_piece_begins():
    seen = []
    worker = Worker(seen.append)
    gate = threading.Event()
    worker.start(lambda: (gate.wait(PATIENCE), seen.append(worker.stopping)), "stopped")
    worker.stop()
    gate.set()
    worker.wait(PATIENCE)
    worker.start(lambda: seen.append(worker.stopping), "next")
    worker.wait(PATIENCE)

    assert seen == [True, False]


def test_only_the_newest_of_what_waits_is_done():
    gate, began, done = threading.Event(), threading.Event(), []
    latest = Latest(done.append)
    latest.submit(lambda: (began.set(), gate.wait(PATIENCE), done.append(0)))
    assert began.wait(PATIENCE)
    for i in range(1, 6):
        latest.submit(lambda i=i: done.append(i))
    assert not latest.wait(0.01)
    gate.set()

    assert latest.wait(PATIENCE)
    assert done == [0, 5]


def test_after_an_error_the_next_one_is_done():
    told = []
    latest = Latest(told.append)
    latest.submit(lambda: 1 / 0)
    assert latest.wait(PATIENCE)
    latest.submit(lambda: told.append("next"))
    assert latest.wait(PATIENCE)

    assert [type(told[0]), told[1]] == [ZeroDivisionError, "next"]
