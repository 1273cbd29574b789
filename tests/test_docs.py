"""The Python of the documentation runs as it stands, block after block."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def blocks(name: str) -> list[str]:
    text = (ROOT / name).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, flags=re.M | re.S)


@pytest.mark.checkpoint
@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        "docs/experiments.md",
        "docs/lab.md",
        "docs/pictures.md",
        "docs/traces.md",
        "docs/widgets.md",
    ],
)
def test_the_examples_of_a_page_run(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    found = blocks(name)
    assert found
    names: dict[str, object] = {"__name__": "page"}
    for block in found:
        exec(compile(block, name, "exec"), names)


def test_the_examples_with_await_run_and_print_what_they_say(tmp_path, monkeypatch, capsys):
    """As in a notebook, whose cells may await."""
    monkeypatch.chdir(tmp_path)
    found = blocks("docs/stores.md")
    names: dict[str, object] = {"__name__": "page"}

    async def page():
        for block in found:
            flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            result = eval(compile(block, "docs/stores.md", "exec", flags), names)
            if inspect.isawaitable(result):
                await result

    asyncio.run(page())
    printed = capsys.readouterr().out.splitlines()
    said = [text for block in found for text in re.findall(r"print\(.*\)  # (.*)", block)]

    assert said == printed
    assert len(said) == 3
