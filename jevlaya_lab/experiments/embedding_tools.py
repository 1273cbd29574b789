"""What the experiments on embedding share: texts, a loop of their own, a heart, a watched model."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Collection, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from jevlaya_lab.embedding.local_models import LocalModel
from jevlaya_lab.embedding.local_sources import find_source
from jevlaya_lab.experiments.texts import tickets
from jevlaya_lab.system_one.errors import InvalidOption

__all__ = [
    "Encodes",
    "Heart",
    "Watched",
    "build",
    "check_model",
    "model_name",
    "needs_replicas",
    "run_alone",
    "texts",
]

T = TypeVar("T")


def texts(n: int, seed: int) -> list[str]:
    """So many texts of support tickets; more than there are begin again from the first."""
    all_of_them = [ticket.text for ticket in tickets(seed=seed)]
    return [all_of_them[i % len(all_of_them)] for i in range(n)]


def check_model(model: Any) -> Any:
    """A model to embed with, as it was given; ``None`` is the embedded encoder.

    Raises:
        InvalidOption: It is none.
    """
    _source(model)
    return model


def _source(model: Any) -> Any:
    """Where a model comes from; nothing is loaded."""
    chosen = "embedded" if model is None else model
    none = dict.fromkeys(("name", "revision", "device", "prompt", "token"))
    return find_source(chosen, dtype="float32", **none)


def model_name(model: Any) -> str:
    """What the model is called, for the parameters of a result."""
    return str(_source(model).facts.model)


def run_alone(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a loop and in a thread of its own; also where a loop is running.

    An interrupt cancels it.
    """
    found: list[T] = []
    failed: list[BaseException] = []
    task: asyncio.Task[T] | None = None
    loop = asyncio.new_event_loop()
    ended = threading.Event()  # an interrupted join takes the thread for ended, and waits no more

    async def main() -> T:
        nonlocal task
        task = asyncio.ensure_future(work)
        return await task

    def target() -> None:
        try:
            found.append(loop.run_until_complete(main()))
        except BaseException as error:  # raised again by the caller's thread
            failed.append(error)
        finally:
            try:
                loop.run_until_complete(_leave_none(asyncio.all_tasks(loop)))
                loop.run_until_complete(loop.shutdown_asyncgens())
                loop.run_until_complete(loop.shutdown_default_executor())
            finally:
                loop.close()
                ended.set()

    thread = threading.Thread(target=target, name="jevlaya-experiment", daemon=True)
    thread.start()
    try:
        while not ended.wait(0.2):
            pass
    except BaseException:
        with contextlib.suppress(RuntimeError):  # the loop may just have been closed
            if task is not None:
                loop.call_soon_threadsafe(task.cancel)
        ended.wait()
        raise
    if failed:
        raise failed[0]
    return found[0]


async def _leave_none(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel what still runs, and wait until it has ended."""
    for each in tasks:
        each.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@dataclass
class Heart:
    """Beats on the running loop, and notes how late each beat was.

    Attributes:
        late_ms: Milliseconds by which each beat came after it was due.
    """

    late_ms: list[float] = field(default_factory=list)

    @classmethod
    @contextlib.asynccontextmanager
    async def beating(cls, every_ms: float) -> AsyncIterator[Heart]:
        """A heart that beats for as long as the block runs."""
        heart = cls()
        loop = asyncio.get_running_loop()

        async def beat() -> None:
            while True:
                due = loop.time() + every_ms / 1e3
                await asyncio.sleep(every_ms / 1e3)
                heart.late_ms.append((loop.time() - due) * 1e3)

        task = asyncio.ensure_future(beat())
        await asyncio.sleep(2 * every_ms / 1e3)
        heart.late_ms.clear()
        try:
            yield heart
            await asyncio.sleep(2 * every_ms / 1e3)  # a beat that was held up comes now
        finally:
            task.cancel()


class Encodes:
    """What was seen of all encodes of some models.

    Attributes:
        n_encodes: Forward passes, or calls of ``encode``.
        peak: The most that ran at once.
        threads: Idents of the threads they ran in.
        built: How many models were made.
    """

    def __init__(self) -> None:
        self.n_encodes = 0
        self.running = 0
        self.peak = 0
        self.built = 0
        self.threads: set[int] = set()
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def encode(self) -> Any:
        """Around one encode."""
        with self._lock:
            self.n_encodes += 1
            self.running += 1
            self.peak = max(self.peak, self.running)
            self.threads.add(threading.get_ident())
        try:
            yield
        finally:
            with self._lock:
                self.running -= 1


class Watched:
    """A model as an object with ``encode(texts)``, watched.

    Args:
        model: What encodes.
        watch: Where it is noted.
    """

    def __init__(self, model: LocalModel, watch: Encodes) -> None:
        self._model = model
        self._watch = watch

    def encode(self, texts: Sequence[str]) -> Any:
        """The vectors of some texts: float32 [n, dimension]."""
        with self._watch.encode():
            return self._model.encode(self._model.read(texts))


def build(model: Any) -> LocalModel:
    """Load the model, here and now.

    Raises:
        InvalidOption: It is none.
    """
    found: LocalModel = _source(model).build()
    return found


def needs_replicas(model: Any, concurrency: Sequence[int]) -> None:
    """Refuse one object where several have to encode at once.

    Raises:
        InvalidOption: There is one object only.
    """
    if max(concurrency) > 1 and not _source(model).replicable:
        raise InvalidOption(
            f"concurrency up to {max(concurrency)}, but the model is one object, which encodes one "
            "batch at a time; give a function that makes such objects, or concurrency (1,)"
        )
