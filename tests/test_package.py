"""The package as a whole: what importing it costs, its names, and which part may import which."""

from __future__ import annotations

import ast
import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import jevlaya_lab

PACKAGE = Path(jevlaya_lab.__file__).parent
NAME = PACKAGE.name

# --- importing -------------------------------------------------------------------------------

HEAVY = ("torch", "transformers", "pandas", "matplotlib", "ipywidgets", "IPython")


def import_alone(statement: str) -> dict[str, Any]:
    """What a fresh interpreter says of one import: seconds, and which heavy modules it loaded."""
    program = (
        "import json, sys, time; began = time.perf_counter(); "
        f"{statement}; took = time.perf_counter() - began; "
        f"heavy = [m for m in {HEAVY!r} if m in sys.modules]; "
        "print(json.dumps({'seconds': took, 'heavy': heavy}))"
    )
    environment = {"PYTHONPATH": str(PACKAGE.parent), "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_importing_the_package_is_quick_and_loads_nothing_heavy() -> None:
    runs = [import_alone(f"import {NAME}") for _ in range(3)]

    assert [run["heavy"] for run in runs] == [[]] * 3
    assert min(run["seconds"] for run in runs) < 0.3


@pytest.mark.parametrize(
    "names", ["Agent, Choice, BaseHook, PredictContext", "TraceRecorder, set_default_hooks"]
)
def test_the_runtime_itself_loads_nothing_heavy(names: str) -> None:
    """An agent loads its network when it is built, not before."""
    assert import_alone(f"from {NAME} import {names}")["heavy"] == []


def test_the_public_names_are_sorted_and_unique() -> None:
    assert jevlaya_lab.__all__ == sorted(set(jevlaya_lab.__all__))


@pytest.mark.parametrize("name", jevlaya_lab.__all__)
def test_every_public_name_can_be_imported(name: str) -> None:
    value = getattr(jevlaya_lab, name)

    assert value is not None
    if isinstance(value, type):
        assert value.__name__ == name
        assert value.__module__ == f"{NAME}.{jevlaya_lab._HOMES[name]}"


def test_names_and_their_homes_agree() -> None:
    assert sorted(jevlaya_lab._HOMES) == [n for n in jevlaya_lab.__all__ if n != "__version__"]
    assert set(jevlaya_lab.__all__) <= set(dir(jevlaya_lab))


def test_a_name_that_does_not_exist() -> None:
    with pytest.raises(AttributeError, match="module 'jevlaya_lab' has no attribute 'Agnet'"):
        jevlaya_lab.Agnet  # noqa: B018


# --- which part may import which -------------------------------------------------------------

ROOMS = (
    "magics",
    "widgets",
    "experiments",
    "views",
    "lab",
    "analysis",
    "frames",
    "tracing",
    "contrib_hooks",
    "embedding",
    "system_one",
    "markup",
)
"""From top to bottom, as the architecture draws them; each may import what is below it.

Its other liberty: experiments stand above views, since each result draws its own picture.
"""

LAZY_UPWARD = {
    ("lab", "views"),
    ("lab", "experiments"),
    ("lab", "widgets"),
    ("tracing", "frames"),
}
"""Imports of a higher room that are allowed inside a function.

A Lab draws, experiments and shows its widgets on demand, and TraceRecorder.trace makes frames on
demand, since a recorder is used without the Lab as well.
"""

BESIDE = {"training": {"embedding", "system_one"}, "checkpoints": set[str]()}
"""Rooms that nothing imports, with what they may import."""

OWNERS = {
    "pandas": ROOMS[: ROOMS.index("frames") + 1],
    "matplotlib": ROOMS[: ROOMS.index("views") + 1],
    "IPython": ("magics", "widgets"),
    "ipywidgets": ("magics", "widgets"),
}
"""Libraries, and the rooms that may know them."""

DRAWN = (
    "router",
    "pool",
    "routing",
    "language",
    "agent",
    "lifecycle",
    "hooks",
    "decoding",
    "encoding",
    "models",
    "context",
    "checkpoint",
    "questions",
    "errors",
)
"""The modules of system_one that the architecture draws, from top to bottom.

A liberty: ``context`` stands below ``models``, since a network reports its forward passes in
the terms of the context. Modules that are not drawn go anywhere, as long as there is no ring.
"""


class Import(NamedTuple):
    """One import statement: where it stands, what it names, and whether it runs on import."""

    file: Path
    target: str
    lazy: bool
    typing_only: bool


def _imports_of(file: Path) -> Iterator[Import]:
    package = file.relative_to(PACKAGE.parent).parent.parts

    def walk(node: ast.AST, lazy: bool, typing_only: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(file, alias.name, lazy, typing_only)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*base, *([node.module] if node.module else [])))
            for alias in node.names:
                yield Import(file, f"{module}.{alias.name}", lazy, typing_only)
        else:
            lazy = lazy or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            guard = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
            for child in ast.iter_child_nodes(node):
                yield from walk(child, lazy, typing_only or guard)

    yield from walk(ast.parse(file.read_text(encoding="utf-8")), False, False)


IMPORTS = [found for file in sorted(PACKAGE.rglob("*.py")) for found in _imports_of(file)]


def _room(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def _target_room(target: str) -> str | None:
    parts = target.split(".")
    return parts[1] if parts[0] == NAME and len(parts) > 1 else None


def _show(found: Import) -> str:
    return f"{found.file.relative_to(PACKAGE)} imports {found.target}"


def test_imports_are_found() -> None:
    """The rules below would hold for an empty list as well."""
    shown = {_show(found) for found in IMPORTS}

    assert "system_one/agent.py imports jevlaya_lab.system_one.lifecycle" in shown
    assert "lab/lab.py imports jevlaya_lab.frames.Trace" in shown
    assert any(found.lazy for found in IMPORTS)
    assert any(found.typing_only for found in IMPORTS)


def test_every_room_has_its_place() -> None:
    parts = {_room(path) for path in PACKAGE.rglob("*.py")} - {"__init__"}

    assert parts <= {*ROOMS, *BESIDE}


def test_rooms_import_only_from_rooms_below() -> None:
    wrong = []
    for found in IMPORTS:
        here, there = _room(found.file), _target_room(found.target)
        if here == "__init__" or there is None or there == here or found.typing_only:
            continue
        if here in BESIDE:
            allowed = there in BESIDE[here]
        elif there not in ROOMS:
            # The package itself, for names such as __version__.
            allowed = there not in BESIDE
        else:
            allowed = ROOMS.index(there) > ROOMS.index(here)
            allowed = allowed or (found.lazy and (here, there) in LAZY_UPWARD)
        if not allowed:
            wrong.append(_show(found))

    assert wrong == []


def test_the_package_itself_imports_its_rooms_lazily() -> None:
    eager = [
        _show(found)
        for found in IMPORTS
        if _room(found.file) == "__init__"
        and _target_room(found.target)
        and not (found.lazy or found.typing_only)
    ]

    assert eager == []


@pytest.mark.parametrize("library", OWNERS)
def test_heavy_libraries_are_known_to_their_rooms_only(library: str) -> None:
    wrong = [
        _show(found)
        for found in IMPORTS
        if found.target.split(".")[0] == library
        and not found.typing_only
        and _room(found.file) not in OWNERS[library]
    ]

    assert wrong == []


def _runtime_imports() -> Iterator[tuple[str, str, Import]]:
    """Pairs of modules of system_one of which the first imports the second."""
    for found in IMPORTS:
        there = found.target.split(".")
        if _room(found.file) == "system_one" and there[:2] == [NAME, "system_one"]:
            here = found.file.relative_to(PACKAGE / "system_one").with_suffix("").parts[0]
            if here != there[2]:
                yield here, there[2], found


def test_inside_the_runtime_modules_import_in_the_drawn_order() -> None:
    wrong = [
        _show(found)
        for here, there, found in _runtime_imports()
        if here in DRAWN and there in DRAWN and DRAWN.index(there) < DRAWN.index(here)
    ]

    assert wrong == []


def test_inside_the_runtime_no_modules_import_each_other() -> None:
    needs: dict[str, set[str]] = {}
    for here, there, _ in _runtime_imports():
        needs.setdefault(here, set()).add(there)

    list(TopologicalSorter(needs).static_order())  # raises CycleError and names the ring


def test_only_networks_devices_and_training_know_torch() -> None:
    allowed = ("system_one/models/", "system_one/devices", "training/", "embedding/")
    wrong = [
        _show(found)
        for found in IMPORTS
        if found.target.split(".")[0] in ("torch", "transformers", "sentence_transformers")
        and not found.file.relative_to(PACKAGE).as_posix().startswith(allowed)
    ]

    assert wrong == []


def test_every_module_can_be_imported_by_itself() -> None:
    """Modules of the runtime that need no heavy library; an import ring would show here."""
    for name in ("lifecycle", "hooks", "context", "questions", "decoding", "encoding", "agent"):
        assert importlib.import_module(f"{NAME}.system_one.{name}")
