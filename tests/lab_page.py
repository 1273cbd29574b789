"""A real JupyterLab on loopback, and a page of it in Chromium, for tests."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import nbformat
from fakes import PATIENCE

import jevlaya_lab

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
LOCAL = ("127.0.0.1", "localhost")

_BEGUN = """() => [...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')]
    .some(each => /[\\d*]/.test(each.textContent))"""

_ALL_RAN = """() => {
    const cells = [...document.querySelectorAll('.jp-CodeCell')]
        .filter(cell => cell.querySelector('.cm-content')?.textContent.trim())
    return cells.length > 0 && cells.every(
        cell => /^\\[\\d+\\]:?$/.test(cell.querySelector('.jp-InputPrompt').textContent.trim()))
}"""
"""Every cell of code that has code bears a number."""


def free_port() -> int:
    with socket.socket() as each:
        each.bind(("127.0.0.1", 0))
        return int(each.getsockname()[1])


@contextlib.contextmanager
def jupyterlab(folder: Path) -> Iterator[str]:
    """The address of a JupyterLab that serves a folder; its process group is ended at the end."""
    port = free_port()
    environment = dict(os.environ)
    environment["PYTHONPATH"] = str(Path(jevlaya_lab.__file__).parent.parent)
    for name in ("CONFIG", "DATA", "RUNTIME"):
        environment[f"JUPYTER_{name}_DIR"] = str(folder / ".jupyter" / name.lower())
    environment["IPYTHONDIR"] = str(folder / ".ipython")
    # The kernels of this environment, whatever the data folder says.
    environment["JUPYTER_PREFER_ENV_PATH"] = "1"
    settings = folder / ".jupyter" / "settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    (settings / "notification.jupyterlab-settings").write_text('{"fetchNews": "false"}')
    environment["JUPYTERLAB_SETTINGS_DIR"] = str(folder / ".jupyter" / "settings")
    log = open(folder / "server.log", "wb")  # noqa: SIM115  # closed below
    server = subprocess.Popen(
        [
            *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"),
            *(f"--port={port}", "--ip=127.0.0.1", "--IdentityProvider.token="),
            *("--ServerApp.password=", f"--ServerApp.root_dir={folder}"),
            *(
                "--LabApp.news_url=",
                "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
            ),
        ],
        cwd=folder,
        env=environment,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    address = f"http://127.0.0.1:{port}"
    try:
        until = time.monotonic() + 3 * PATIENCE
        while True:
            try:
                urllib.request.urlopen(f"{address}/api/status", timeout=2).read()
                break
            except OSError:
                if server.poll() is not None or time.monotonic() > until:
                    text = (folder / "server.log").read_text(errors="replace")
                    raise RuntimeError(f"JupyterLab did not start:\n{text}") from None
                time.sleep(0.2)
        yield address
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait(10)
        log.close()


class Notebook:
    """A notebook that is open in JupyterLab.

    Attributes:
        page: The page, of Playwright.
        problems: Errors of the page, and requests that left loopback.
    """

    def __init__(self, browser: Any, address: str, name: str) -> None:
        self.page = browser.new_page(viewport={"width": 1400, "height": 1800})
        self.problems: list[str] = []
        self.page.on("pageerror", lambda error: self.problems.append(f"page: {error}"))
        self.page.on("console", self._console)
        self.page.on("request", self._request)
        self.page.goto(f"{address}/lab/tree/{quote(name)}?reset")
        self.page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=60_000)

    def _console(self, message: Any) -> None:
        if message.type == "error":
            self.problems.append(f"console: {message.text} {message.location}")

    def _request(self, request: Any) -> None:
        url = request.url
        if url.startswith(("data:", "blob:", "about:")):
            return
        if url.split("/")[2].rpartition(":")[0] not in LOCAL:
            self.problems.append(f"request: {url}")

    def run_all(self, timeout: float = 120.0) -> None:
        """Run all cells by the menu and wait until each one has its number.

        Before the kernel's channel is connected the command is lost without a word, so it is given
        again until a cell begins.
        """
        page = self.page
        for _ in range(20):
            # Asked for where the kernel takes long to start.
            choose = page.locator(".jp-Dialog button", has_text="Select")
            if choose.count():
                choose.first.click()
            with contextlib.suppress(Exception):
                page.get_by_text("| Idle").first.wait_for(timeout=3000)
            with contextlib.suppress(Exception):
                page.get_by_role("menuitem", name="Run", exact=True).click(timeout=2000)
                page.get_by_text("Run All Cells", exact=True).click(timeout=2000)
                page.wait_for_function(_BEGUN, timeout=3000)
                break
        page.wait_for_function(_ALL_RAN, timeout=timeout * 1000)

    def cell(self, number: int) -> Any:
        """The output of the cell of code that stands there, from 1 on."""
        cells = self.page.locator(".jp-CodeCell")
        return cells.nth(number - 1).locator(".jp-Cell-outputWrapper")

    def picture(self, output: Any) -> str:
        """The source of the first picture in an output, waited for."""
        source: str = output.locator("img").first.get_attribute("src", timeout=30_000)
        return source

    def other_picture(self, output: Any, before: str) -> str:
        """The picture after it has changed.

        Raises:
            TimeoutError: It stays as it was.
        """
        until = time.monotonic() + 2 * PATIENCE
        while (now := self.picture(output)) == before:
            if time.monotonic() > until:
                raise TimeoutError("the picture did not change")
            self.page.wait_for_timeout(100)
        return now

    def close(self) -> None:
        self.page.close()


def cleared(source: Path, path: Path) -> None:
    """A copy of a notebook without outputs and numbers."""
    notebook = nbformat.read(source, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    nbformat.write(notebook, path)


def write_notebook(path: Path, cells: Sequence[str]) -> None:
    """A notebook with these cells of code, for the kernel ``python3``."""
    notebook = nbformat.v4.new_notebook()
    notebook.metadata["kernelspec"] = {
        "name": "python3",
        "display_name": "Python 3",
        "language": "python",
    }
    notebook.cells = [nbformat.v4.new_code_cell(cell.strip()) for cell in cells]
    nbformat.write(notebook, path)
