"""The widgets in a real JupyterLab: clicked, typed into, and reached by the keyboard."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
CHROMIUM = shutil.which("chromium")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(
        CHROMIUM is None, reason="there is no chromium on the path; apt-get install chromium"
    ),
    pytest.mark.skipif(
        importlib.util.find_spec("playwright") is None
        or not importlib.util.find_spec("jupyterlab"),
        reason="playwright or jupyterlab is not installed; pip install -e '.[test]'",
    ),
]

SETUP = """
from jevlaya_lab import Agent, BaseHook, Choice, Lab, Router
from jevlaya_lab.system_one.models.instant import InstantNetwork
router = Router()
for name in ("english", "multilingual"):
    router.attach(name, Agent(name, network=InstantNetwork()))
lab = Lab(router, capture="text")
questions = {"team": Choice("Which team?", ["alpha", "beta"])}

class Loud(BaseHook):
    def on_predict_start(self, ctx):
        if "boom" in str(ctx.states):
            raise ValueError("<b>loud</b>")

try:
    lab.predict(["boom"], questions, hooks=Loud(), model="english")
except ValueError:
    pass
lab.predict(["Where is my parcel?", "Wo ist mein Paket?"], questions, progress=False)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("lab")


@pytest.fixture(scope="module")
def address(folder):
    from lab_page import jupyterlab

    with jupyterlab(folder) as address:
        yield address


@pytest.fixture(scope="module")
def browser():
    from lab_page import FLAGS
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def open_notebook(browser, address, folder, request):
    from lab_page import Notebook, cleared, write_notebook

    opened = []

    def open_(*cells, committed=None):
        name = f"{request.node.name}.ipynb"
        if committed is None:
            write_notebook(folder / name, [SETUP, *cells])
        else:
            shutil.copytree(PROJECT / "data", folder / "data", dirs_exist_ok=True)
            name = f"notebooks/{committed}.ipynb"
            (folder / "notebooks").mkdir(exist_ok=True)
            cleared(PROJECT / name, folder / name)
        notebook = Notebook(browser, address, name)
        opened.append(notebook)
        notebook.run_all(timeout=240)
        return notebook

    yield open_
    for notebook in opened:
        kept = os.environ.get("SCREENSHOTS")
        if kept:
            Path(kept).mkdir(parents=True, exist_ok=True)
            notebook.page.screenshot(path=f"{kept}/{request.node.name}.png")
        notebook.close()
    for notebook in opened:
        assert notebook.problems == []


def test_the_playground_runs_shows_errors_and_is_reached_by_keys(open_notebook):
    notebook = open_notebook("lab.playground(hooks=Loud())")
    output = notebook.cell(2)
    first = notebook.picture(output)
    output.locator("button", has_text="Run").focus()
    notebook.page.keyboard.press("Enter")
    second = notebook.other_picture(output, first)
    assert output.get_by_text("done; the frame is playground.answers").is_visible()
    assert output.get_by_text("billing").last.is_visible()
    output.locator("textarea").first.fill("boom")
    output.locator("button", has_text="Run").click()
    notebook.other_picture(output, second)
    assert output.get_by_text("<b>loud</b>").first.is_visible()
    output.locator("button", has_text="Down").first.press("Space")
    assert output.get_by_text("Loud").first.is_visible()


def one_is_listed(notebook):
    count = "document.querySelectorAll('.jp-OutputArea select option').length"
    notebook.page.wait_for_function(f"{count} == 1")


def test_the_explorer_filters_and_a_click_changes_the_picture(open_notebook):
    notebook = open_notebook("lab.explorer()")
    output = notebook.cell(2)
    listed = output.locator("select option")
    assert listed.count() == 3
    first = notebook.picture(output)
    listed.nth(2).click()
    second = notebook.other_picture(output, first)
    assert output.get_by_text("ValueError").first.is_visible()
    output.locator("button", has_text="Previous").press("Enter")
    third = notebook.other_picture(output, second)
    output.locator("button", has_text="failed").click()
    one_is_listed(notebook)
    notebook.other_picture(output, third)
    output.locator("button", has_text="any").press("Space")
    output.get_by_placeholder("part of an id, a reason, an error, a hook's name").fill("loud")
    one_is_listed(notebook)


def test_a_panel_runs_stops_and_keeps_the_kernel_free(open_notebook):
    notebook = open_notebook(
        "panel = Lab(Router()).panel('eviction')\npanel",
        "panel.result.frame['loads'].tolist() if panel.result else 'nothing yet'",
    )
    output = notebook.cell(2)
    fields = output.locator("input[type=text]")
    before = notebook.picture(output)
    fields.first.fill("1 x")
    output.locator("button", has_text="Run").click()
    output.get_by_text("numbers with spaces between them").first.wait_for()
    fields.first.fill("1 2 3")
    output.locator("button", has_text="Run").click()
    output.get_by_text("step").first.wait_for()
    output.locator("button", has_text="Stop").click()
    output.get_by_text("was stopped after").first.wait_for()
    assert notebook.picture(output) == before
    output.locator("button", has_text="Run").click()
    output.get_by_text("done; the result is panel.result").wait_for(timeout=90_000)
    notebook.other_picture(output, before)


def test_a_committed_notebook_runs_and_its_widgets_answer(open_notebook):
    notebook = open_notebook(committed="02_lifecycle")
    cells = notebook.page.locator(".jp-CodeCell")
    explorer = cells.filter(has_text="routed.explorer()").locator(".jp-Cell-outputWrapper")
    playground = cells.filter(has_text="playground(questions").locator(".jp-Cell-outputWrapper")
    explorer.scroll_into_view_if_needed()
    first = notebook.picture(explorer)
    explorer.locator("button", has_text="load").first.click()
    second = notebook.other_picture(explorer, first)
    explorer.locator("select option").nth(2).click()
    notebook.other_picture(explorer, second)
    playground.scroll_into_view_if_needed()
    before = notebook.picture(playground)
    playground.locator("button", has_text="Run").click()
    notebook.other_picture(playground, before)
    playground.get_by_text("done; the frame is playground.answers").wait_for()
    assert notebook.page.locator(".jp-RenderedText[data-mime-type*=error]").count() == 0
