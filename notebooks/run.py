"""Execute the notebooks of this folder, or check that what is committed is what they give.

    python notebooks/run.py                 execute all and write them with fresh outputs
    python notebooks/run.py 01_quickstart   only this one
    python notebooks/run.py --check         execute copies and compare; 1 if one is stale

A notebook is stale if its cells were changed after it was executed, if a cell raises, or if an
output differs. Texts are compared word by word; numbers may differ by ``TOLERANCE``, ids and paths
by anything; of pictures only that they are there.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).resolve().parent
TOLERANCE = 0.02
TIME_LIMIT = 300
HASH = "source_sha256"
WIDGET = "application/vnd.jupyter.widget-view+json"

_ID = re.compile(r"\b[0-9a-f]{8,64}\b|0x[0-9a-f]+|/(?:tmp|home|root)/\S*")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def source_hash(notebook: Any) -> str:
    """Of the sources of all cells, in order."""
    digest = hashlib.sha256()
    for cell in notebook.cells:
        digest.update(f"{cell.cell_type}\n{cell.source}\n\0".encode())
    return digest.hexdigest()


def execute(path: Path, folder: Path) -> Any:
    """A copy of the notebook, executed in a folder.

    Raises:
        CellExecutionError: A cell raised that is not marked with ``raises-exception``.
    """
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    NotebookClient(
        notebook,
        timeout=TIME_LIMIT,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
    ).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # when it ran: another time each time
    notebook.metadata[HASH] = source_hash(notebook)
    notebook.metadata["kernelspec"] = {
        "display_name": "Python 3",
        "language": "python",
        "name": "python3",
    }
    notebook.metadata.pop("widgets", None)
    notebook.metadata.pop("language_info", None)
    return notebook


def shown(cell: Any) -> list[tuple[str, str]]:
    """What a cell shows: kind and text; a picture has no text."""
    found: list[tuple[str, str]] = []
    for output in cell.get("outputs", []):
        if output.output_type == "stream":
            # A kernel sends what is printed in one piece or in several, as it comes.
            before = found.pop()[1] if found and found[-1][0] == output.name else ""
            found.append((output.name, before + output.text))
        elif output.output_type == "error":
            found.append(("error", f"{output.ename}: {output.evalue}"))
        elif WIDGET in output.data:
            found.append(("widget", output.data.get("text/plain", "")))
        else:
            data = output.data
            pictures = [(kind, "") for kind in sorted(data) if kind.startswith("image/")]
            found += pictures or [("text", data.get("text/plain", ""))]
    return found


def differences(old: Any, new: Any) -> Iterator[str]:
    """What differs between the outputs of two executions of the same cells."""
    for i, (before, after) in enumerate(zip(old.cells, new.cells, strict=True)):
        ours, theirs = shown(before), shown(after)
        if [kind for kind, _ in ours] != [kind for kind, _ in theirs]:
            yield f"cell {i} shows {[k for k, _ in theirs]}, committed are {[k for k, _ in ours]}"
            continue
        for (kind, one), (_, other) in zip(ours, theirs, strict=True):
            if not same_text(one, other):
                yield f"cell {i} shows another {kind}:\n--- committed\n{one}\n--- now\n{other}"


def same_text(one: str, other: str) -> bool:
    """Whether two texts agree, up to ids, blanks and small differences of numbers."""
    one, other = _ID.sub("<id>", one), _ID.sub("<id>", other)
    if _NUMBER.sub("#", one).split() != _NUMBER.sub("#", other).split():
        return False
    pairs = zip(_NUMBER.findall(one), _NUMBER.findall(other), strict=True)
    return all(abs(float(a) - float(b)) <= TOLERANCE for a, b in pairs)


def check(path: Path) -> list[str]:
    """Why a committed notebook is stale; empty where it is fresh."""
    committed = nbformat.read(path, as_version=4)
    if committed.metadata.get(HASH) != source_hash(committed):
        return ["its cells were changed and it was not executed since"]
    with copied_project() as folder:
        return list(differences(committed, execute(path, folder)))


@contextlib.contextmanager
def copied_project() -> Iterator[Path]:
    """An empty folder for a notebook to run and write in, with the project's ``data`` beside it."""
    with tempfile.TemporaryDirectory() as project:
        shutil.copytree(HERE.parent / "data", Path(project) / "data")
        folder = Path(project) / "notebooks"
        folder.mkdir()
        yield folder


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", help="names of notebooks; all without any")
    parser.add_argument("--check", action="store_true", help="compare and write nothing")
    asked = parser.parse_args(arguments)
    paths = sorted(HERE.glob("*.ipynb"))
    wanted = [p for p in paths if not asked.names or p.stem in asked.names]
    unknown = set(asked.names) - {p.stem for p in paths}
    if unknown or not wanted:
        print(f"no notebook {sorted(unknown)}; there are {[p.stem for p in paths]}")
        return 1
    stale = 0
    for path in wanted:
        if asked.check:
            found = check(path)
            print(f"{path.name}: {'stale' if found else 'fresh'}", *found, sep="\n  ")
            stale += bool(found)
        else:
            with copied_project() as folder:
                notebook = execute(path, folder)
            nbformat.write(notebook, path)
            print(f"{path.name}: executed")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
