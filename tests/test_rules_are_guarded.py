"""The rules are guarded: breaking one makes a test that cites it fail."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import break_rules
import pytest


def test_every_rule_has_a_test_and_a_mutation_that_applies() -> None:
    """Quick to see after a change of the source: which mutations have to follow it."""
    assert list(break_rules.faults()) == []


@pytest.mark.slow
def test_every_broken_rule_is_noticed() -> None:
    script = Path(break_rules.__file__)

    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)

    assert done.returncode == 0, done.stdout + done.stderr
