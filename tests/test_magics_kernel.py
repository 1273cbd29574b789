"""The magics in a real kernel, whose event loop is running while a cell is."""

from __future__ import annotations

from pathlib import Path

import pytest

import jevlaya_lab

CELLS = (
    """
import asyncio, threading
from jevlaya_lab import Agent, Choice, Lab
from jevlaya_lab.system_one.models.instant import InstantNetwork
%load_ext jevlaya_lab
agent = Agent("<b>instant</b>", network=InstantNetwork())
lab = Lab(agent, capture="text")
q = {"team": Choice("Which?", ["alpha", "beta"])}
%jevlaya config --lab lab -o chosen
""",
    """
asked = asyncio.Event()
async def beside():
    while True:
        agent.predict("beside", q)
        asked.set()
        await asyncio.sleep(0.001)
task = asyncio.create_task(beside())
await asked.wait()
""",
    """%%jevlaya trace -o t
agent.predict("one", q)
await asyncio.sleep(0.05)
await asyncio.to_thread(agent.predict, "two", q)
thread = threading.Thread(target=agent.predict, args=("three", q))
thread.start()
thread.join()
lab.predict(["four"], q)["team"].item()
""",
    "task.cancel()\nt.runs['states'].tolist()",
    "%%jevlaya trace\nawait asyncio.sleep(0)\nagent.predict('five', q)\n1 / 0",
    "%%jevlaya ask -q q\naa\nbb",
    "%jevlaya ask hi",
)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")
def test_a_notebook_with_all_of_it(monkeypatch):
    import nbclient
    import nbformat

    monkeypatch.setenv("PYTHONPATH", str(Path(jevlaya_lab.__file__).parent.parent))
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(cell) for cell in CELLS]
    client = nbclient.NotebookClient(notebook, timeout=60, kernel_name="python3", allow_errors=True)
    client.execute()

    _, _, traced, states, failed, asked, refused = [cell.outputs for cell in notebook.cells]
    assert [output["data"]["text/plain"] for output in traced] == ["'alpha'"]
    assert states[0]["data"]["text/plain"].replace("\n", "") == (
        """['["one"]', '["two"]', '["three"]', '["four"]']"""
    )
    by_kind = {output["output_type"]: output for output in failed}
    assert by_kind["error"]["ename"] == "ZeroDivisionError"
    shown = by_kind["display_data"]["data"]
    assert shown["text/plain"] == "Trace(1 calls, 1 runs, 2 events)"
    assert "<bdi>&lt;b&gt;instant" in shown["text/html"]
    assert asked[0]["text"].startswith("read as text, one state per line: 2")
    assert "beta" in asked[1]["data"]["text/plain"]
    assert [output["text"] for output in refused] == [
        "UsageError: the following arguments are required: -q/--questions\n"
    ]
