"""The examples of docs/hooks.md run as they stand, and print what stands beside them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from jevlaya_lab import contrib_hooks

PAGE = (Path(__file__).parents[2] / "docs" / "hooks.md").read_text(encoding="utf-8")


@pytest.mark.checkpoint
def test_the_examples_run_and_print_what_they_say(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.M | re.S)
    names: dict[str, object] = {"__name__": "page"}
    for block in blocks:
        exec(compile(block, "docs/hooks.md", "exec"), names)
    printed = capsys.readouterr().out.splitlines()
    said = [text for block in blocks for text in re.findall(r"print\(.*\)  # (.*)", block)]

    assert len(blocks) == 9
    assert len(said) == 7
    assert [text for text in said if text not in printed] == []
    assert "would read 500 tokens in 1 state, over its budget of 200" in "\n".join(printed)


def test_every_hook_has_its_section():
    hooks = [n for n in contrib_hooks.__all__ if hasattr(getattr(contrib_hooks, n), "on_error")]

    assert sorted(re.findall(r"^### (\w+)$", PAGE, flags=re.M)) == sorted(hooks)
    assert len(hooks) == 7
