"""What every test gets."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

from jevlaya_lab.system_one.hooks import clear_default_hooks

# A time limit per example would fail on a busy machine.
settings.register_profile("tests", deadline=None)
settings.load_profile("tests")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--no-skips", action="store_true", help="fail when a test was skipped, as CI does"
    )


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter is not None else []
    if skipped and session.config.getoption("--no-skips") and exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        reporter.write_line(f"{len(skipped)} skipped, and --no-skips allows none", red=True)


@pytest.fixture(scope="session", autouse=True)
def _interrupts_arrive() -> Iterator[None]:
    """Ctrl-C interrupts, also where the tests run behind a shell's ``&``, which has it ignored."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def _no_process_wide_hooks() -> Iterator[None]:
    """No test sees the process-wide hooks of another."""
    clear_default_hooks()
    yield
    clear_default_hooks()
