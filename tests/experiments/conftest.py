"""What the tests of experiments share."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def _small_heap() -> Iterator[None]:
    """Evictions collect garbage; what other tests left alive need not be looked at each time."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
