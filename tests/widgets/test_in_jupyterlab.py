"""The widgets in a real JupyterLab: clicked, typed into, and reached by the keyboard."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

import pytest

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
    from lab_page import Notebook, write_notebook

    opened = []

    def open_(*cells):
        name = f"{request.node.name}.ipynb".replace("[", "_").replace("]", "")
        write_notebook(folder / name, [SETUP, *cells])
        notebook = Notebook(browser, address, name)
        opened.append(notebook)
        notebook.run_all()
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
