"""What docs/embedding.md says of the tests is so."""

from __future__ import annotations

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
DOCS = HERE.parent.parent / "docs"
PAGE = (DOCS / "embedding.md").read_text(encoding="utf-8")
STORES = (DOCS / "stores.md").read_text(encoding="utf-8")
RULES = [*(f"E-{i}" for i in range(1, 7)), "E-6a", *(f"E-{i}" for i in range(7, 14))]


def cited() -> dict[str, tuple[str, set[str]]]:
    """Each test of the room: its file, and the rules that its docstring cites."""
    found = {}
    for file in sorted(HERE.glob("test_*.py")):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                rules = set(re.findall(r"E-\d+a?", ast.get_docstring(node) or ""))
                found[node.name] = (file.name, rules)
    return found


def test_the_table_of_rules_names_tests_that_cite_them() -> None:
    tests = cited()
    rows = re.findall(r"^\| (E-\d+a?) \|.*\| (.*) \|$", PAGE, re.MULTILINE)

    assert [rule for rule, _ in rows] == RULES
    for rule, cell in rows:
        names = re.findall(r"`(test_\w+)`", cell)
        assert names, rule
        assert [name for name in names if rule not in tests[name][1]] == [], rule


def test_links_go_to_the_file_that_has_the_test() -> None:
    tests = cited()
    links = re.findall(r"\[(test_\w+)\]\(\.\./tests/embedding/(test_\w+\.py)\)", PAGE + STORES)

    assert len(re.findall(r"^\d+\. \*", PAGE, re.MULTILINE)) == 10
    assert len(links) >= 10
    assert [(name, file) for name, file in links if tests[name][0] != file] == []


def test_every_test_that_is_named_exists() -> None:
    assert set(re.findall(r"\btest_[a-z_0-9]+(?!\.py)\b", PAGE)) - {
        "test_local", "test_remote", "test_hashing", "test_identity", "test_models",
        "test_generator", "test_stores",
    } <= set(cited())  # fmt: skip
