"""The face: providers by name, synchronous twins wherever they are called, explain()."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from embedding_fakes import FakeModel, run
from fakes import PATIENCE, promptly
from jupyter_client.manager import KernelManager

import jevlaya_lab
from jevlaya_lab.embedding import (
    BoundedLocalEmbedding,
    EmbeddingGenerator,
    EmbeddingIdentity,
    EmbeddingStrategy,
)
from jevlaya_lab.embedding.errors import DimensionMismatch, EmbeddingClosed, Where
from jevlaya_lab.embedding.strategy import Explanation
from jevlaya_lab.embedding.sync import run_sync
from jevlaya_lab.embedding.workers import END_SECONDS
from jevlaya_lab.system_one.errors import InvalidOption

ROOT = Path(jevlaya_lab.__file__).parent.parent
TEXTS = ["one", "two and three"]


def fake() -> EmbeddingGenerator:
    return EmbeddingGenerator("local_transformer", FakeModel())


# --- providers ----------------------------------------------------------------------------------


def test_the_default_is_local_and_hashing_has_to_be_named() -> None:
    """E-7: no fallback gives vectors of another meaning behind the caller's back."""
    assert EmbeddingGenerator().explain().provider == "local_transformer"
    assert EmbeddingGenerator("hashing").explain().provider == "hashing"

    def broken() -> Any:
        raise OSError("no weights")

    with pytest.raises(jevlaya_lab.EmbeddingError, match="no weights"):
        EmbeddingGenerator("local_transformer", broken).generate_sync("text")


@pytest.mark.parametrize(
    ("args", "options"),
    [
        (("openai",), {}),
        ((["hashing"],), {}),
        (("hashing",), {"dimensions": 3}),
        (("remote",), {}),
        (("local_transformer", 7), {}),
        (("local_transformer",), {"dtype": "float16"}),
        (("local_transformer", "org/model"), {"dtype": "float16", "device": "cpu"}),
        (("local_transformer",), {"local_embedding_concurrency": 0}),
        (("local_transformer",), {"encode_timeout": 0}),
    ],
)
def test_what_is_no_provider_or_option_is_refused(args: Any, options: Any) -> None:
    """E-12: half precision on a CPU among it; before any model is loaded."""
    with pytest.raises(InvalidOption):
        EmbeddingGenerator(*args, **options)


class Custom(EmbeddingStrategy):
    """A strategy of one's own."""

    def __init__(self, dimension: int = 2) -> None:
        super().__init__(Where("custom", "mine", "nothing"))
        self.dimension = dimension

    @property
    def identity(self) -> EmbeddingIdentity:
        return EmbeddingIdentity("custom", "mine", dimension=2)

    def explain(self) -> Explanation:
        return Explanation("custom", "mine", "inline", "nothing", "ready", "It is a test.", {})

    async def _vectors(self, texts: Any) -> Any:
        return np.ones((len(texts), self.dimension), np.float32)


def test_a_strategy_object_is_a_provider() -> None:
    """E-5: and its results are judged as any other's."""
    generator = EmbeddingGenerator(Custom())

    assert generator.generate_batch_sync(TEXTS).tolist() == [[1, 1], [1, 1]]
    assert generator.metrics.snapshot()["texts_total"] == 2
    with pytest.raises(DimensionMismatch):
        EmbeddingGenerator(Custom(3)).generate_sync("text")
    with pytest.raises(InvalidOption):
        EmbeddingGenerator(Custom(), "model")


@pytest.mark.parametrize(
    ("generator", "runs", "resource"),
    [
        (EmbeddingGenerator(), "thread", "auto"),
        (EmbeddingGenerator("hashing"), "inline", "event loop"),
        (
            EmbeddingGenerator("remote", "m", base_url="http://h/v1", api_key=""),
            "async network I/O",
            "network",
        ),
    ],
)
def test_explain_says_where_a_call_would_run_and_why(
    generator: EmbeddingGenerator, runs: str, resource: str
) -> None:
    """E-1, E-6a, E-7: each provider by the resource that it really uses."""
    explained = generator.explain()

    assert (explained.runs, explained.resource) == (runs, resource)
    assert explained.why in str(explained)
    assert explained.to_dict()["limits"] == dict(explained.limits)


# --- synchronous twins --------------------------------------------------------------------------


def test_every_asynchronous_method_has_a_synchronous_twin() -> None:
    """E-5: with the same arguments."""
    for name, method in inspect.getmembers(EmbeddingGenerator, inspect.iscoroutinefunction):
        if name.startswith("_"):
            continue
        twin = getattr(EmbeddingGenerator, "close" if name == "aclose" else f"{name}_sync")
        assert inspect.signature(twin) == inspect.signature(method)


def test_the_twins_give_the_same() -> None:
    """E-5: from a plain script."""
    with fake() as generator:
        generator.preload_sync()
        np.testing.assert_array_equal(
            generator.generate_batch_sync(TEXTS), run(generator.generate_batch(TEXTS))
        )
        np.testing.assert_array_equal(
            generator.generate_sync("one"), run(generator.generate("one"))
        )
        assert generator.generate_sync("one").shape == (4,)
        embedded = generator.embed_sync(TEXTS)
        assert (len(embedded), embedded.identity) == (2, generator.identity)
    with pytest.raises(EmbeddingClosed):
        generator.generate_sync("one")


def test_the_twins_work_inside_of_a_running_loop() -> None:
    """E-5: as in a notebook's cell; asyncio is what it was."""
    before = {name: getattr(asyncio, name) for name in asyncio.__all__ if hasattr(asyncio, name)}
    loop_methods = dict(vars(asyncio.BaseEventLoop))

    async def cell() -> Any:
        with fake() as generator:
            first = generator.generate_sync("text")
            async with fake() as other:
                second = await other.generate("text")
        return first, second

    first, second = promptly(run, cell())

    np.testing.assert_array_equal(first, second)
    assert all(getattr(asyncio, name) is value for name, value in before.items())
    assert dict(vars(asyncio.BaseEventLoop)) == loop_methods
    assert "nest_asyncio" not in sys.modules


def test_a_twin_on_the_private_loop_itself_is_refused() -> None:
    """E-8: it would wait for itself for ever."""

    class Nested(Custom):
        async def _vectors(self, texts: Any) -> Any:
            return EmbeddingGenerator(Custom()).generate_batch_sync(texts)

    with pytest.raises(InvalidOption, match="await the asynchronous one"):
        promptly(EmbeddingGenerator(Nested()).generate_sync, "text")


def test_twins_of_many_threads_share_one_loop() -> None:
    """E-2: and the bounds of the strategy hold for them together."""
    model = FakeModel()
    generator = EmbeddingGenerator(BoundedLocalEmbedding(model))

    def call() -> None:
        for _ in range(20):
            generator.generate_sync("text")

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)

    assert model.peak == 1
    assert len(model.calls) == 160
    loops = [t for t in threading.enumerate() if t.name == "jevlaya-embedding-loop"]
    assert len(loops) == 1


def test_run_sync_hands_on_what_is_raised() -> None:
    """E-9: also a timeout of the work's own, which is none of the waiting."""

    async def late() -> None:
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        run_sync(late())


SLOW = """
    import sys, time
    from jevlaya_lab.embedding import EmbeddingGenerator
    class Slow:
        def encode(self, texts):
            if texts != ["warm up"]:
                print("encoding", flush=True)
                time.sleep(30)
            return [[1.0]] * len(texts)
    generator = EmbeddingGenerator("local_transformer", Slow())
"""


def test_an_interrupt_stops_a_script_within_a_second() -> None:
    """E-8: the call at once, and the interpreter does not wait for the encode either."""
    program = textwrap.dedent(SLOW) + textwrap.dedent("""
        try:
            generator.generate_sync("text")
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """)
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "encoding\n"
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
        took = time.monotonic() - began
        assert process.wait(PATIENCE) == 0
        ended = time.monotonic() - began
    finally:
        process.kill()
        process.wait()
        process.stdout.close()

    assert took < 1
    assert ended < END_SECONDS + 4  # the encode itself would take 30


@pytest.mark.slow
@pytest.mark.checkpoint
def test_a_script_that_ends_during_an_encode_ends_well() -> None:
    """E-8: after the pass under way, since native code in a thread would abort the process."""
    program = textwrap.dedent("""
        import threading
        from jevlaya_lab.embedding import EmbeddingGenerator
        from jevlaya_lab.embedding.embedded_model import EmbeddedModel
        encode, begun = EmbeddedModel.encode, threading.Event()
        def noted(model, rows):
            begun.set()
            return encode(model, rows)
        generator = EmbeddingGenerator(device="cpu", tokens_per_pass=1024)
        generator.preload_sync()
        EmbeddedModel.encode = noted
        texts = ["many words of a text " * 20] * 2000
        threading.Thread(target=generator.generate_batch_sync, args=(texts,), daemon=True).start()
        begun.wait()
    """)
    for _ in range(3):
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert time.monotonic() - began < PATIENCE  # the whole list would take minutes


@pytest.mark.slow
def test_an_interrupt_stops_a_cell_of_a_notebook_within_a_second() -> None:
    """E-8: in a real kernel, whose loop is running while the twin waits."""
    manager = KernelManager(kernel_name="python3")
    manager.kernel_spec.argv[0] = sys.executable
    manager.start_kernel(env={**os.environ, "PYTHONPATH": str(ROOT)})
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=PATIENCE * 2)
        assert _cell(client, textwrap.dedent(SLOW) + "generator.preload_sync()")["status"] == "ok"
        message = client.execute("generator.generate_sync('text')", stop_on_error=False)
        _output(client, "encoding")
        began = time.monotonic()
        manager.interrupt_kernel()
        reply = _reply(client, message)
        took = time.monotonic() - began
        again = _cell(client, "assert EmbeddingGenerator('hashing').generate_sync('x').size")
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)

    assert reply["ename"] == "KeyboardInterrupt"
    assert again["status"] == "ok"
    assert took < 1


def _cell(client: Any, code: str) -> dict[str, Any]:
    return _reply(client, client.execute(code))


def _reply(client: Any, message: str) -> dict[str, Any]:
    while True:
        reply = client.get_shell_msg(timeout=PATIENCE)
        if reply["parent_header"].get("msg_id") == message:
            content: dict[str, Any] = reply["content"]
            return content


def _output(client: Any, text: str) -> None:
    while text not in client.get_iopub_msg(timeout=PATIENCE)["content"].get("text", ""):
        continue


# --- the room ----------------------------------------------------------------------------------


def test_importing_the_room_loads_nothing_heavy() -> None:
    """E-1: torch, pandas and the rest come when they are needed, in the thread that needs them."""
    program = (
        "import sys, jevlaya_lab.embedding as e; e.EmbeddingGenerator(); "
        "e.EmbeddingGenerator('hashing').generate_sync('x'); "
        "print([m for m in ('torch', 'pandas', 'sentence_transformers', 'transformers', 'httpx',"
        " 'prometheus_client') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True
    )

    assert done.stdout.strip() == "[]"
