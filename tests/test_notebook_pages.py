"""The notebooks as static pages, plain and sanitised, in a browser without a network."""

from __future__ import annotations

import importlib.util
import re
import shutil
from pathlib import Path

import nbformat
import pytest

CHROMIUM = shutil.which("chromium")
NOTEBOOKS = sorted((Path(__file__).resolve().parent.parent / "notebooks").glob("*.ipynb"))

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        CHROMIUM is None, reason="there is no chromium on the path; apt-get install chromium"
    ),
    pytest.mark.skipif(
        not all(importlib.util.find_spec(name) for name in ("playwright", "nbconvert")),
        reason="playwright or nbconvert is not installed; pip install -e '.[test]'",
    ),
]


@pytest.fixture(scope="module")
def context():
    from lab_page import FLAGS
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        context = browser.new_context(offline=True, viewport={"width": 1000, "height": 900})
        yield context
        browser.close()


@pytest.mark.filterwarnings("ignore")  # of nbconvert's own templates
@pytest.mark.parametrize("sanitised", [False, True], ids=["plain", "sanitised"])
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_page_shows_every_picture_and_table_without_a_network(path, sanitised, context, tmp_path):
    from nbconvert import HTMLExporter

    notebook = nbformat.read(path, as_version=4)
    outputs = [o for cell in notebook.cells for o in cell.get("outputs", [])]
    pictures = [o for o in outputs if "image/png" in o.get("data", {})]
    tables = [o for o in outputs if "<table" in o.get("data", {}).get("text/html", "")]
    body, _ = HTMLExporter(sanitize_html=sanitised).from_notebook_node(notebook)
    file = tmp_path / "page.html"
    file.write_text(body, encoding="utf-8")
    page = context.new_page()
    page.goto(file.as_uri())
    widths = page.eval_on_selector_all(
        ".jp-OutputArea img", "all => all.map(each => each.naturalWidth)"
    )
    text = page.inner_text("body")
    n_tables = page.locator(".jp-OutputArea table").count()
    overflow = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    page.close()

    assert len(widths) == len(pictures) > 0
    assert all(width > 400 for width in widths)
    assert n_tables >= len(tables)
    assert overflow <= 0
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            title = re.match(r"#+ (.*)", cell.source)
            assert title is None or title.group(1).replace("`", "") in text


def test_a_widget_is_one_line_on_a_page_and_keeps_no_state():
    for path in NOTEBOOKS:
        notebook = nbformat.read(path, as_version=4)
        assert "widgets" not in notebook.metadata
        for cell in notebook.cells:
            for output in cell.get("outputs", []):
                data = output.get("data", {})
                if "application/vnd.jupyter.widget-view+json" in data:
                    assert re.fullmatch(r"<.* need a running kernel>", data["text/plain"])
