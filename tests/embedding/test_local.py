"""The local provider: threads, bounds, loading, parity."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from embedding_fakes import FakeModel, Heartbeat, run, until, vector_of
from fakes import PATIENCE

from jevlaya_lab.embedding import BoundedLocalEmbedding
from jevlaya_lab.embedding.errors import (
    DimensionMismatch,
    EmbeddingClosed,
    EncodeFailed,
    EncodeTimeout,
    ExecutorQueueTimeout,
    ModelLoadFailed,
    ModelLoadTimeout,
    NonFiniteVector,
    PermitTimeout,
    QueueFull,
)
from jevlaya_lab.system_one.errors import InvalidOption

TEXTS = ["one", "twenty-two", "three", "a much longer text than the others", "5"]


def local(model: Any, **options: Any) -> BoundedLocalEmbedding:
    return BoundedLocalEmbedding(model, **options)


async def settled(strategy: BoundedLocalEmbedding) -> None:
    """Until no work is left, whether or not anybody waits for it."""
    lane = strategy._lane
    await until(lambda: lane.free == lane.limits.concurrency and not lane.waiting)


# --- E-1: where it runs -------------------------------------------------------------------------


def test_encoding_runs_on_another_thread_and_the_heart_goes_on() -> None:
    """E-1: thread identity and heartbeat while an encode blocks."""
    model = FakeModel()

    async def scenario() -> float:
        strategy = local(model)
        await strategy.preload()
        model.hold()
        async with Heartbeat() as heart:
            call = asyncio.ensure_future(strategy.embed(["text"]))
            await until(model.entered.is_set)
            began = len(heart.beats)
            await until(lambda: len(heart.beats) > began + 20)  # the loop runs, the encode does not
            assert not call.done()
            model.gate.set()
            await call
        return heart.longest_ms

    longest_ms = run(scenario())

    assert threading.get_ident() not in model.threads
    assert longest_ms < 150


def test_construction_warm_up_and_probing_run_on_another_thread() -> None:
    """E-1: also what comes before the first encode, even inside of the first call."""
    seen: dict[str, int] = {}
    gate = threading.Event()

    class Slow:
        def __init__(self) -> None:
            seen["built"] = threading.get_ident()
            assert gate.wait(PATIENCE)

        def encode(self, texts: list[str]) -> Any:
            seen["warm up" if texts == ["warm up"] else "encode"] = threading.get_ident()
            return [vector_of(text) for text in texts]

    async def scenario() -> None:
        strategy = local(Slow)
        async with Heartbeat() as heart:
            call = asyncio.ensure_future(strategy.embed(["text"]))
            began = len(heart.beats)
            await until(lambda: len(heart.beats) > began + 10)
            assert strategy.state == "loading"
            gate.set()
            await call

    run(scenario())

    assert set(seen) == {"built", "warm up", "encode"}
    assert threading.get_ident() not in seen.values()


# --- E-2: how many run --------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 3])
def test_never_more_encodes_than_the_limit(limit: int) -> None:
    """E-2: the cap is reached and never passed."""
    model = FakeModel()

    async def scenario() -> None:
        strategy = local(lambda: model, local_embedding_concurrency=limit)
        await strategy.preload()
        model.hold()
        calls = [asyncio.ensure_future(strategy.embed([f"t{i}"])) for i in range(20)]
        await until(lambda: model.running == limit and strategy._lane.waiting == 20 - limit)
        model.gate.set()
        await asyncio.gather(*calls)

    run(scenario())

    assert model.peak == limit


def test_a_caller_that_gives_up_does_not_give_the_permit_away() -> None:
    """E-2: after timeouts and cancellations the thread runs on, and nothing else begins."""
    model = FakeModel()

    async def scenario() -> None:
        strategy = local(model, encode_timeout=0.3)
        await strategy.preload()
        model.hold()
        with pytest.raises(EncodeTimeout):
            await strategy.embed(["times out"])
        cancelled = asyncio.ensure_future(strategy.embed(["cancelled"]))
        await until(lambda: strategy._lane.waiting == 1)
        cancelled.cancel()
        await asyncio.wait({cancelled})
        later = asyncio.ensure_future(strategy.embed(["later"]))
        await until(lambda: strategy._lane.waiting == 1)
        assert (model.running, strategy._lane.free) == (1, 0)
        model.gate.set()
        await later
        await settled(strategy)

    run(scenario())

    assert model.peak == 1
    assert model.calls == [["times out"], ["later"]]


def test_one_object_is_one_encode_at_a_time() -> None:
    """E-2: more at once need replicas, which an object does not give."""
    with pytest.raises(InvalidOption, match="pass a function that makes such objects"):
        local(FakeModel(), local_embedding_concurrency=2)


def test_each_thread_has_a_replica_of_its_own() -> None:
    """E-2: N means N replicas, and no replica has two threads at once."""
    made: list[FakeModel] = []

    def build() -> FakeModel:
        made.append(FakeModel())
        return made[-1]

    async def scenario() -> None:
        strategy = local(build, local_embedding_concurrency=3)
        await strategy.preload()
        for model in made:
            model.hold()
        calls = [asyncio.ensure_future(strategy.embed([f"t{i}"])) for i in range(9)]
        await until(lambda: sum(model.running for model in made) == 3)
        for model in made:
            model.gate.set()
        await asyncio.gather(*calls)

    run(scenario())

    assert [model.peak for model in made] == [1, 1, 1]


# --- E-3: how many wait, and how long -----------------------------------------------------------


def test_past_max_queue_a_call_is_refused_at_once() -> None:
    """E-3: limited queueing."""
    model = FakeModel()

    async def scenario() -> None:
        strategy = local(model, max_queue=2)
        await strategy.preload()
        model.hold()
        calls = [asyncio.ensure_future(strategy.embed([f"t{i}"])) for i in range(3)]
        await until(lambda: strategy._lane.waiting == 2)
        with pytest.raises(QueueFull, match="max_queue") as caught:
            await strategy.embed(["one too many"])
        model.gate.set()
        await asyncio.gather(*calls)
        await strategy.embed(["room again"])
        assert (caught.value.provider, caught.value.model) == ("local_transformer", "FakeModel")

    run(scenario())

    assert ["one too many"] not in model.calls


def test_the_queue_is_limited_while_the_model_loads() -> None:
    """E-3: also before there is a model, and also for lists that take several encodes."""
    gate = threading.Event()

    def build() -> FakeModel:
        assert gate.wait(PATIENCE)
        return FakeModel()

    async def scenario() -> None:
        strategy = local(build, max_queue=1)
        calls = [asyncio.ensure_future(strategy.embed(["t"] * 2000)) for _ in range(2)]
        await until(lambda: strategy._lane.waiting == 2)
        with pytest.raises(QueueFull):
            await strategy.embed(["one too many"])
        gate.set()
        await asyncio.gather(*calls)

    run(scenario())


def test_a_stray_encode_keeps_its_place_in_the_count() -> None:
    """E-3: work that nobody waits for any more still is work."""
    model = FakeModel()

    async def scenario() -> None:
        strategy = local(model, max_queue=1)
        await strategy.preload()
        model.hold()
        stray = asyncio.ensure_future(strategy.embed(["stray"]))
        await until(model.entered.is_set)
        stray.cancel()
        await asyncio.wait({stray})
        waits = asyncio.ensure_future(strategy.embed(["waits"]))
        await until(lambda: strategy._lane.waiting == 1)
        with pytest.raises(QueueFull):
            await strategy.embed(["one too many"])
        model.gate.set()
        await waits

    run(scenario())


def test_each_wait_has_its_own_timeout_and_error() -> None:
    """E-3: permit, executor queue and encode."""
    model = FakeModel()
    busy = ThreadPoolExecutor(1)
    free = threading.Event()

    async def scenario() -> None:
        waits = local(model, permit_timeout=0.02)
        await waits.preload()
        model.hold()
        first = asyncio.ensure_future(waits.embed(["first"]))
        await until(model.entered.is_set)
        with pytest.raises(PermitTimeout, match=r"permit_timeout=0.02 s"):
            await waits.embed(["second"])
        model.gate.set()
        await first

        queues = local(FakeModel(), queue_timeout=0.3, executor=busy)
        await queues.preload()
        busy.submit(free.wait, PATIENCE)
        with pytest.raises(ExecutorQueueTimeout, match=r"queue_timeout=0.3 s"):
            await queues.embed(["third"])
        assert queues._lane.free == 1
        free.set()
        await queues.embed(["fourth"])

        slow = FakeModel()
        encodes = local(slow, encode_timeout=0.02)
        await encodes.preload()
        slow.hold()
        with pytest.raises(EncodeTimeout, match=r"encode_timeout=0.02 s"):
            await encodes.embed(["fifth"])
        slow.gate.set()
        await settled(encodes)
        assert encodes.metrics.snapshot()["timeout_total"] == {"EncodeTimeout": 1}

    try:
        run(scenario())
    finally:
        free.set()
        busy.shutdown()


def test_a_short_encode_timeout_counts_from_the_start_of_the_encode() -> None:
    """E-3: time in the queue is not time of the encode."""
    model = FakeModel()

    async def scenario() -> None:
        strategy = local(model, encode_timeout=0.4, permit_timeout=PATIENCE)
        await strategy.preload()
        model.hold()
        first = asyncio.ensure_future(strategy.embed(["first"]))
        await until(model.entered.is_set)
        second = asyncio.ensure_future(strategy.embed(["second"]))
        with pytest.raises(EncodeTimeout):
            await first
        assert not second.done()  # it has waited for as long, but only for its permit
        model.gate.set()
        assert (await second).shape == (1, 4)

    run(scenario())


# --- E-4: loading -------------------------------------------------------------------------------


def test_many_first_calls_construct_one_model() -> None:
    """E-4: single flight across threads and loops."""
    built: list[int] = []
    gate = threading.Event()

    def build() -> FakeModel:
        built.append(1)
        assert gate.wait(PATIENCE)
        return FakeModel()

    strategy = local(build)

    async def some() -> None:
        await asyncio.gather(*(strategy.embed(["text"]) for _ in range(8)))

    threads = [threading.Thread(target=asyncio.run, args=(some(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    run(until(lambda: strategy._lane.waiting == 32))
    gate.set()
    for thread in threads:
        thread.join(PATIENCE)

    assert built == [1]
    assert strategy.metrics.snapshot()["texts_total"] == 32


def test_a_failed_load_leaves_nothing_half_made() -> None:
    """E-4: every waiter gets the error, nothing counts as ready, and a later call tries again."""
    models: list[weakref.ref[FakeModel]] = []
    healthy = False

    class Broken(FakeModel):
        def encode(self, texts: Any) -> Any:
            if not healthy:
                raise RuntimeError("no memory for the warm-up")
            return super().encode(texts)

    def build() -> FakeModel:
        model = Broken()
        models.append(weakref.ref(model))
        return model

    now = [100.0]
    strategy = local(build)
    strategy._loader._clock = lambda: now[0]

    async def scenario() -> None:
        nonlocal healthy
        found = await asyncio.gather(
            *(strategy.embed(["text"]) for _ in range(5)), return_exceptions=True
        )
        assert [type(error) for error in found] == [ModelLoadFailed] * 5
        assert len({id(error) for error in found}) == 5
        assert all("no memory for the warm-up" in str(error) for error in found)
        assert strategy.state == "failed"
        assert strategy.identity.dimension is None
        del found
        gc.collect()
        assert [ref() for ref in models] == [None]
        with pytest.raises(ModelLoadFailed) as caught:
            await strategy.embed(["too soon"])
        assert caught.value.retry_after == pytest.approx(1.0)
        assert len(models) == 1
        healthy = True
        now[0] += 1.0
        assert (await strategy.embed(["now"])).shape == (1, 4)
        assert strategy.state == "ready"

    run(scenario())


def test_loading_is_retried_not_forever_and_not_never() -> None:
    """E-4: the pauses grow, five failures in a row end it, and preload() begins anew."""
    attempts: list[float] = []
    now = [0.0]

    def build() -> FakeModel:
        attempts.append(now[0])
        raise OSError("disk on fire")

    strategy = local(build)
    strategy._loader._clock = lambda: now[0]

    async def scenario() -> None:
        for _ in range(400):
            with pytest.raises(ModelLoadFailed):
                await strategy.embed(["text"])
            now[0] += 0.25
        assert attempts == [0.0, 1.0, 3.0, 7.0, 15.0]
        with pytest.raises(ModelLoadFailed, match="only by preload"):
            await strategy.embed(["text"])
        with pytest.raises(ModelLoadFailed, match="disk on fire"):
            await strategy.preload()

    run(scenario())

    assert len(attempts) == 6


def test_preload_is_the_other_strategy() -> None:
    """E-4: load, warm up, ready; before any call."""
    model = FakeModel()

    async def scenario() -> None:
        strategy = local(lambda: model, preload=True)
        assert strategy.state in ("loading", "ready")
        await strategy.preload()
        assert strategy.state == "ready"
        assert strategy.identity.dimension == 4
        assert strategy.metrics.snapshot()["model_load_ms"]["count"] == 1

    run(scenario())


def test_a_load_that_takes_too_long_is_not_waited_for() -> None:
    """E-4: the caller stops waiting; the load goes on, once."""
    gate = threading.Event()
    built: list[int] = []

    def build() -> FakeModel:
        built.append(1)
        assert gate.wait(PATIENCE)
        return FakeModel()

    async def scenario() -> None:
        strategy = local(build, load_timeout=0.05)
        with pytest.raises(ModelLoadTimeout):
            await strategy.embed(["text"])
        with pytest.raises(ModelLoadTimeout):
            await strategy.preload()
        gate.set()
        await until(lambda: strategy.state == "ready")
        assert (await strategy.embed(["text"])).shape == (1, 4)

    run(scenario())

    assert built == [1]


def test_a_model_of_another_dimension_is_not_made_ready() -> None:
    """E-4: nothing half-made, and E-10: the dimension is part of the contract."""

    async def scenario() -> None:
        strategy = local(lambda: FakeModel(768), dimension=384)
        with pytest.raises(ModelLoadFailed) as caught:
            await strategy.embed(["text"])
        assert isinstance(caught.value.__cause__, DimensionMismatch)
        assert "768 components where the contract says 384" in str(caught.value)
        assert strategy.state == "failed"

    run(scenario())


# --- E-5: nothing changes in the result ---------------------------------------------------------


def test_offloading_changes_nothing_in_the_result() -> None:
    """E-5: order, count, dimension and values are those of the model called directly."""
    model = FakeModel()
    texts = [f"{text} {i}" for i, text in enumerate(TEXTS * 300)]

    vectors = run(local(model).embed(texts))

    np.testing.assert_array_equal(vectors, FakeModel().encode(texts))
    assert vectors.dtype == np.float32
    assert len(model.calls) > 2
    assert all(max(map(len, call)) * len(call) // 4 < 3 * 4096 for call in model.calls), (
        "a batch is larger than its budget"
    )


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        (np.zeros((3, 4)), DimensionMismatch),
        (np.zeros(4), DimensionMismatch),
        (np.zeros((2, 5)), DimensionMismatch),
        ("no numbers", EncodeFailed),
        (None, DimensionMismatch),
    ],
)
def test_what_a_model_may_not_give(raw: Any, error: type[Exception]) -> None:
    """E-5: a result that breaks the contract is an error, not a vector."""

    class Odd(FakeModel):
        def encode(self, texts: Any) -> Any:
            return super().encode(texts) if texts == ["warm up"] else raw

    with pytest.raises(error):
        run(local(Odd()).embed(["one", "two"]))


# --- E-8: giving up -----------------------------------------------------------------------------


def test_cancelling_stops_the_wait_at_once_and_the_work_between_passes() -> None:
    """E-8: the caller is free, the pass under way finishes, those after it are not begun."""
    model = FakeModel()

    async def scenario() -> None:
        strategy = local(model, tokens_per_pass=16)
        await strategy.preload()
        model.hold()
        call = asyncio.ensure_future(strategy.embed(["a text of some length"] * 20))
        await until(model.entered.is_set)
        call.cancel()
        await asyncio.wait({call}, timeout=PATIENCE)
        assert call.cancelled()
        assert model.running == 1
        model.gate.set()
        await settled(strategy)
        assert strategy.metrics.snapshot()["cancelled_total"] == 1
        assert (await strategy.embed(["later"])).shape == (1, 4)

    run(scenario())

    assert len(model.calls) == 2


def test_a_loop_that_ends_while_its_calls_wait_leaks_no_permit() -> None:
    """E-8: neither a cancelled loop nor one that is closed under its calls."""
    model = FakeModel()
    strategy = local(model)
    run(strategy.preload())
    model.hold()

    async def abandon() -> None:
        for i in range(3):
            asyncio.ensure_future(strategy.embed([f"t{i}"])).add_done_callback(lambda _: None)
        await until(model.entered.is_set)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(abandon())
    asyncio.run(abandon())  # its calls are cancelled when it ends
    for task in asyncio.all_tasks(loop):
        task._log_destroy_pending = False  # type: ignore[attr-defined]
    del task
    loop.close()
    model.gate.set()

    run(settled(strategy))
    gc.collect()
    assert run(strategy.embed(["later"])).shape == (1, 4)
    assert (strategy._lane.free, strategy._lane.waiting, strategy._lane._calls) == (1, 0, 0)


def test_closing_fails_those_that_wait() -> None:
    """E-8: what runs is finished, what waits gets its error, what comes is refused."""
    model = FakeModel()

    async def scenario() -> None:
        strategy = local(model)
        await strategy.preload()
        model.hold()
        running = asyncio.ensure_future(strategy.embed(["running"]))
        await until(model.entered.is_set)
        waiting = asyncio.ensure_future(strategy.embed(["waiting"]))
        await until(lambda: strategy._lane.waiting == 1)
        await strategy.aclose()
        with pytest.raises(EmbeddingClosed):
            await waiting
        model.gate.set()
        assert (await running).shape == (1, 4)
        with pytest.raises(EmbeddingClosed):
            await strategy.embed(["later"])
        with pytest.raises(EmbeddingClosed):
            await strategy.preload()

    run(scenario())


def test_an_executor_that_was_shut_down_takes_no_permit_with_it() -> None:
    """E-2, E-8: it is the caller's, and may end before the strategy does."""
    executor = ThreadPoolExecutor(1)

    async def scenario() -> None:
        strategy = local(FakeModel(), executor=executor)
        await strategy.embed(["text"])
        executor.shutdown()
        for _ in range(3):
            with pytest.raises(EmbeddingClosed):
                await strategy.embed(["later"])
        assert (strategy._lane.free, strategy._lane._strays, strategy._lane._calls) == (1, 0, 0)

    run(scenario())


@pytest.mark.parametrize("while_loading", [False, True])
def test_closing_lets_go_of_the_model(while_loading: bool) -> None:
    """E-8: also of one that is loaded only then."""
    models: list[weakref.ref[FakeModel]] = []
    gate = threading.Event()

    def build() -> FakeModel:
        model = FakeModel()
        models.append(weakref.ref(model))
        assert gate.wait(PATIENCE)
        return model

    async def scenario() -> None:
        strategy = local(build, preload=True)
        if while_loading:
            await strategy.aclose()
        gate.set()
        await until(lambda: strategy.state == "ready")
        if not while_loading:
            await strategy.embed(["text"])
            await strategy.aclose()

        def is_gone() -> bool:
            gc.collect()
            return [ref() for ref in models] == [None]

        await until(is_gone)
        with pytest.raises(EmbeddingClosed):
            await strategy.embed(["later"])

    run(scenario())


# --- E-9, E-12: failures ------------------------------------------------------------------------


@pytest.mark.parametrize("error", [RuntimeError("CUDA error"), SystemExit(3), StopIteration()])
def test_what_a_model_raises_becomes_an_encode_failure(error: BaseException) -> None:
    """E-9: with its cause, and without harm to the thread or to later calls."""
    model = FakeModel()
    model.failing = {"bad": error}

    async def scenario() -> None:
        strategy = local(model, name="my-model")
        with pytest.raises(EncodeFailed, match=f"{type(error).__name__}: ") as caught:
            await strategy.embed(["bad"])
        assert caught.value.__cause__ is error
        assert (caught.value.model, caught.value.resource) == ("my-model", "object")
        assert (await strategy.embed(["good"])).shape == (1, 4)

    run(scenario())


def test_a_nan_row_is_tried_alone_before_it_is_an_error() -> None:
    """E-12: alone, and then named by its position in the caller's list."""
    model = FakeModel()
    model.spoilt = {"three"}

    async def scenario() -> None:
        strategy = local(model)
        np.testing.assert_array_equal(await strategy.embed(TEXTS), FakeModel().encode(TEXTS))
        assert ["three"] in model.calls
        model.hopeless = {"three"}
        with pytest.raises(NonFiniteVector, match="text 2 is") as caught:
            await strategy.embed(TEXTS)
        assert caught.value.positions == (2,)
        many = ["fill in"] * 900 + ["three"] + ["a longer one to fill in"] * 900
        with pytest.raises(NonFiniteVector) as caught:
            await strategy.embed(many)
        assert caught.value.positions == (900,)

    run(scenario())


# --- E-13: micro-batching -----------------------------------------------------------------------


@pytest.mark.parametrize("micro_batching", [False, True])
def test_waiting_single_texts_may_share_a_pass(micro_batching: bool) -> None:
    """E-13: off unless asked for; the first is dispatched at once, the rest go together."""
    model = FakeModel()

    async def scenario() -> list[Any]:
        strategy = local(model, micro_batching=micro_batching)
        await strategy.preload()
        model.hold()
        calls = [asyncio.ensure_future(strategy.embed([f"t{i}"])) for i in range(5)]
        await until(lambda: model.entered.is_set() and strategy._lane.waiting == 4)
        model.gate.set()
        return await asyncio.gather(*calls)

    vectors = run(scenario())

    assert model.calls[0] == ["t0"]
    assert len(model.calls) == (2 if micro_batching else 5)
    np.testing.assert_array_equal(
        np.concatenate(vectors), FakeModel().encode([f"t{i}" for i in range(5)])
    )


def test_sharing_a_pass_is_not_sharing_its_failure() -> None:
    """E-13: of five that share, one fails, one is cancelled, and three get their vectors."""
    model = FakeModel()
    model.failing = {"t2": ValueError("cannot read this")}

    async def scenario() -> list[Any]:
        strategy = local(model, micro_batching=True)
        await strategy.preload()
        model.hold()
        first = asyncio.ensure_future(strategy.embed(["first"]))
        await until(model.entered.is_set)
        calls = [asyncio.ensure_future(strategy.embed([f"t{i}"])) for i in range(5)]
        await until(lambda: strategy._lane.waiting == 5)
        calls[3].cancel()
        model.gate.set()
        await first
        found = await asyncio.gather(*calls, return_exceptions=True)
        await settled(strategy)
        return found

    found = run(scenario())

    kinds = [type(one) for one in found]
    assert kinds == [np.ndarray, np.ndarray, EncodeFailed, asyncio.CancelledError, np.ndarray]


# --- the storm ----------------------------------------------------------------------------------


@pytest.mark.parametrize("micro_batching", [False, True])
def test_storm(micro_batching: bool) -> None:
    """E-2, E-3, E-8: thousands of callers that wait, time out, give up and fail.

    ``running <= limit`` always holds, and every permit returns.
    """
    limit = 3

    class Weather(FakeModel):
        def _work(self, texts: Any) -> None:
            with self._lock:
                self.running += 1
                self.peak = max(self.peak, self.running)
            try:
                time.sleep(0.0005 * (len(texts[0]) % 7))  # the work itself, which takes time
                if any("bad" in text for text in texts):
                    raise RuntimeError("bad weather")
            finally:
                with self._lock:
                    self.running -= 1

    model = Weather()
    strategy = local(
        lambda: model,
        local_embedding_concurrency=limit,
        max_queue=200,
        permit_timeout=0.05,
        encode_timeout=0.0021,
        micro_batching=micro_batching,
    )
    outcomes: dict[str, int] = {}

    async def caller(i: int) -> None:
        text = "x" * (i % 13) + ("bad" if i % 17 == 0 else "good")
        texts = [text] if i % 5 else [text, text + "y", text + "zz"]
        call = asyncio.ensure_future(strategy.embed(texts))
        if i % 7 == 0:
            await asyncio.wait({call}, timeout=0.001 * (i % 4))
            call.cancel()
        try:
            vectors = await call
        except BaseException as exc:
            kind = type(exc).__name__
        else:
            assert vectors[0, 0] == len(text)
            kind = "vectors"
        outcomes[kind] = outcomes.get(kind, 0) + 1

    async def storm(seed: int) -> None:
        for wave in range(10):
            await asyncio.gather(*(caller(seed + wave * 131 + i) for i in range(150)))

    threads = [threading.Thread(target=asyncio.run, args=(storm(s * 7919),)) for s in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE * 3)
    run(settled(strategy))

    assert sum(outcomes.values()) == 3000
    assert {"vectors", "EncodeFailed", "EncodeTimeout", "CancelledError"} <= set(outcomes), outcomes
    assert {"QueueFull", "PermitTimeout"} & set(outcomes), outcomes
    assert model.peak == limit == strategy._lane.peak
    lane = strategy._lane
    assert (lane.free, lane.running, lane.waiting) == (limit, 0, 0)
    assert (lane._calls, lane._strays) == (0, 0)
    assert run(strategy.embed(["fine"])).shape == (1, 4)
