"""What every test gets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from jevlaya_lab.system_one.hooks import clear_default_hooks

# A time limit per example would fail on a busy machine.
settings.register_profile("tests", deadline=None)
settings.load_profile("tests")


@pytest.fixture(autouse=True)
def _no_process_wide_hooks() -> Iterator[None]:
    """No test sees the process-wide hooks of another."""
    clear_default_hooks()
    yield
    clear_default_hooks()
