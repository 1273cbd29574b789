"""The Python of the documentation runs as it stands, block after block."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def blocks(name: str) -> list[str]:
    text = (ROOT / name).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, flags=re.M | re.S)


@pytest.mark.checkpoint
@pytest.mark.parametrize("name", ["README.md", "docs/lab.md", "docs/traces.md", "docs/pictures.md"])
def test_the_examples_of_a_page_run(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    found = blocks(name)
    assert found
    names: dict[str, object] = {"__name__": "page"}
    for block in found:
        exec(compile(block, name, "exec"), names)
