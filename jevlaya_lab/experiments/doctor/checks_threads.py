"""Whether a hook counts and collects in many threads what it does in one.

On the threads every instruction of the hook's own code that stores something, and every call in it,
is a place where another thread may get its turn. What is lost between reading and writing is lost
here in nearly every try, not once in a million.
"""

from __future__ import annotations

import dis
import itertools
import sys
import threading
import time
from collections.abc import Sequence
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

from jevlaya_lab.experiments.doctor.checks_visits import shown
from jevlaya_lab.experiments.doctor.patients import Patients, attributes, own_classes, totals
from jevlaya_lab.experiments.doctor.probe import Probe, said
from jevlaya_lab.experiments.doctor.report import FOUND, OK, UNKNOWN, Finding
from jevlaya_lab.experiments.doctor.situations import Caller, agent

__all__ = ["threads"]

_N_THREADS: Final = 6
_N_CALLS: Final = 4
_PAUSE_S: Final = 1e-4
_MOST_PAUSES: Final = 1_500
_MORE_ROUNDS: Final = 3
_SETTLING: Final = 50
_STORES: Final = frozenset(
    code
    for name, code in dis.opmap.items()
    if name.startswith(("STORE_ATTR", "STORE_SUBSCR", "DELETE_", "STORE_SLICE"))
)
_CALLS: Final = frozenset(code for name, code in dis.opmap.items() if name.startswith("CALL"))


class Round(NamedTuple):
    """What came of one round of calls.

    Attributes:
        grown: By how much each total of the hook rose.
        answers: By number of the state.
        errors: What calls raised.
    """

    grown: dict[str, int]
    answers: dict[int, Any]
    errors: list[str]


def threads(patients: Patients, caller: Caller, timeout_s: float) -> Finding:
    """Compare calls one after the other with the same calls from threads."""
    parts = itertools.count()
    itself = patients.way == "itself"

    def play(n_threads: int) -> Round:
        # The same states in every round of fresh hooks; of the same hook other ones each time.
        part = next(parts) if itself else 0
        return _round(patients.hook(), caller, part, n_threads, timeout_s)

    alone = [play(0), play(0)]
    if alone[0].errors:
        error = alone[0].errors[0]
        return Finding("threads", UNKNOWN, f"It raises in one thread as well: {error}.")
    together = play(_N_THREADS)
    others = _others(alone, together)
    if others:
        # What differs between rounds in one thread, as chance has it, says nothing of threads.
        alone += [play(0) for _ in range(_MORE_ROUNDS)]
        others = _others(alone, together)
    n_calls = _N_THREADS * _N_CALLS
    found = [
        f"{path}: {together.grown.get(path, 0):+d} in {_N_THREADS} threads, {n:+d} in one"
        for path, n in others.items()
    ]
    if together.errors:
        n, error = len(together.errors), together.errors[0]
        found.insert(0, f"{n} of {n_calls} calls raise in threads, such as {error}")
    elif not itself:
        first, *more = (each.answers for each in alone)
        same = [n for n in first if all(each.get(n) == first[n] for each in more)]
        wrong = sum(together.answers.get(n) != first[n] for n in same)
        if wrong:
            found.append(f"{wrong} of {n_calls} states get other answers than in one thread")
    if found:
        return Finding("threads", FOUND, f"{n_calls} calls: {shown(found)}.")
    n_sure = len(_sure(alone))
    counted = {0: "nothing of its own is counted", 1: "its one total is as in one thread"}.get(
        n_sure, f"all of its {n_sure} totals are as in one thread"
    )
    return Finding("threads", OK, f"{n_calls} calls in {_N_THREADS} threads; {counted}.")


def _sure(alone: Sequence[Round]) -> dict[str, int]:
    """Totals that rise by the same in all rounds in one thread."""
    first, *more = (each.grown for each in alone)
    return {p: n for p, n in first.items() if all(each.get(p) == n for each in more)}


def _others(alone: Sequence[Round], together: Round) -> dict[str, int]:
    """Of these totals the ones that rise by less in threads, or that should end as they were.

    One that rises by more, such as a peak of what goes on at once, has lost nothing.
    """
    grown = together.grown
    return {
        path: n
        for path, n in _sure(alone).items()
        if grown.get(path, 0) < n or (n <= 0 and grown.get(path, 0) != n)
    }


def _settled(hook: Any) -> dict[str, int]:
    """Totals when they rise no more: a hook may have a thread that works a queue off."""
    now = totals(hook)
    for _ in range(_SETTLING):
        time.sleep(0.01)
        before, now = now, totals(hook)
        if before == now:
            break
    return now


def _round(hook: Any, caller: Caller, part: int, n_threads: int, timeout_s: float) -> Round:
    """So many calls on one agent; 0 threads make them one after the other on this one."""
    one = agent([Probe(hook)])
    questions = caller.questions()
    answers: dict[int, Any] = {}
    errors: list[str] = []
    before = totals(hook)

    def call(number: int) -> None:
        try:
            result = one.predict(caller.text(1000 * part + number), questions)
            answers[number] = result.get("answers")
        except BaseException as error:  # reported, also what would end the thread
            errors.append(said(error))

    if n_threads:
        _together(call, _Switches(hook), n_threads, timeout_s)
    else:
        for number in range(_N_THREADS * _N_CALLS):
            call(number)
    after = _settled(hook)
    paths = {*before, *after}
    return Round({p: after.get(p, 0) - before.get(p, 0) for p in paths}, answers, errors)


def _together(call: Any, switches: _Switches, n_threads: int, timeout_s: float) -> None:
    barrier = threading.Barrier(n_threads)

    def work(mine: Sequence[int]) -> None:
        barrier.wait(timeout_s)
        sys.settrace(switches.trace)  # of this thread alone
        try:
            for number in mine:
                call(number)
        finally:
            sys.settrace(None)

    workers = [
        threading.Thread(
            target=work,
            args=(range(i * _N_CALLS, (i + 1) * _N_CALLS),),
            name=f"jevlaya-doctor-{i}",
            daemon=True,
        )
        for i in range(n_threads)
    ]
    was = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for each in workers:
            each.start()
        for each in workers:
            each.join(timeout_s)
            if each.is_alive():
                raise TimeoutError(f"threads are not back after {timeout_s:g} s")
    finally:
        sys.setswitchinterval(was)


class _Switches:
    """Lets other threads run inside of a hook's own code, wherever it stores or calls."""

    def __init__(self, hook: Any) -> None:
        self._files = _files(hook)
        self._places: dict[CodeType, dict[int, bool]] = {}
        self._n_pauses = 0

    def trace(self, frame: FrameType, event: str, _: Any) -> Any:
        """What ``sys.settrace`` takes: looks into the hook's own functions only."""
        if frame.f_code.co_filename not in self._files:
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return self._step

    def _step(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "opcode":
            places = self._places.get(frame.f_code)
            if places is None:
                places = self._places[frame.f_code] = _places(frame.f_code)
            stores = places.get(frame.f_lasti)
            if stores is not None and self._n_pauses < _MOST_PAUSES:
                self._n_pauses += stores
                time.sleep(_PAUSE_S if stores else 0)
        return self._step


def _places(code: CodeType) -> dict[int, bool]:
    """Offsets where a store begins or has just ended (True), and where a call begins (False)."""
    found = {}
    after_store = False
    for each in dis.get_instructions(code):
        is_store = each.opcode in _STORES
        if is_store or after_store:
            found[each.offset] = True
        elif each.opcode in _CALLS:
            found[each.offset] = False
        after_store = is_store
    return found


def _files(hook: Any) -> set[str]:
    """Where the code of a hook stands: its classes, and those of what it holds."""
    kinds = set(own_classes(hook))
    for value in attributes(hook).values():
        module = type(value).__module__.partition(".")[0]
        if module not in sys.stdlib_module_names and not type(value).__module__.startswith(
            "jevlaya_lab.system_one"
        ):
            kinds.update(own_classes(value))
    found = set()
    for kind in kinds:
        for member in vars(kind).values():
            function = getattr(member, "__func__", getattr(member, "fget", member))
            code = getattr(getattr(function, "__wrapped__", function), "__code__", None)
            if code is not None:
                found.add(code.co_filename)
    return found
