"""The notebooks are executed afresh, and give what is committed; and the comparison notices."""

from __future__ import annotations

import copy
import importlib.util
from pathlib import Path
from typing import Any

import nbformat
import pytest

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))

_spec = importlib.util.spec_from_file_location("run_notebooks", FOLDER / "run.py")
assert _spec is not None
assert _spec.loader is not None
run = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(run)


@pytest.fixture
def committed() -> Any:
    return nbformat.read(NOTEBOOKS[0], as_version=4)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_gives_what_is_committed(path: Path) -> None:
    assert run.check(path) == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_was_executed_as_it_stands_and_shows_no_error(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]

    assert notebook.metadata[run.HASH] == run.source_hash(notebook)
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    kinds = {kind for cell in code for kind, _ in run.shown(cell)}
    assert "error" not in kinds
    assert "stderr" not in kinds
    assert "image/png" in kinds


def test_the_quickstart_is_short(committed: Any) -> None:
    assert len(committed.cells) < 15


def test_a_changed_cell_makes_it_stale(tmp_path: Path, committed: Any) -> None:
    committed.cells[0].source += " "
    nbformat.write(committed, tmp_path / "changed.ipynb")

    assert run.check(tmp_path / "changed.ipynb") == [
        "its cells were changed and it was not executed since"
    ]


def test_another_output_is_noticed(committed: Any) -> None:
    assert list(run.differences(committed, committed)) == []
    answers = next(i for i, cell in enumerate(committed.cells) if "answers.round" in cell.source)
    other = copy.deepcopy(committed)
    text = other.cells[answers].outputs[0].data["text/plain"]
    other.cells[answers].outputs[0].data["text/plain"] = text.replace("billing", "shipping", 1)
    assert any("shows another text" in found for found in run.differences(committed, other))
    other.cells[answers].outputs.clear()
    assert any("committed are ['text']" in found for found in run.differences(committed, other))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("a  1.00 b", "a 1.01  b", True),
        ("a 1.00", "a 1.10", False),
        ("a 1.00", "b 1.00", False),
        ("a 1", "a 1 2", False),
        ("run 8c9d68ca96b1", "run 32e2182dc608", True),
        ("at /tmp/x/out", "at /tmp/y/out", True),
    ],
)
def test_texts_agree_up_to_small_differences_of_numbers(one: str, other: str, same: bool) -> None:
    assert run.same_text(one, other) is same


def test_prints_in_one_piece_or_in_several_are_the_same(committed: Any) -> None:
    cell = next(cell for cell in committed.cells if cell.cell_type == "code")
    picture = nbformat.v4.new_output("display_data", {"image/png": "", "text/plain": "p"})

    def streams(*texts: str) -> list[Any]:
        return [nbformat.v4.new_output("stream", name="stdout", text=text) for text in texts]

    cell.outputs = [*streams("a\n", "b\n"), picture, *streams("c\n")]
    assert run.shown(cell) == [("stdout", "a\nb\n"), ("image/png", ""), ("stdout", "c\n")]
