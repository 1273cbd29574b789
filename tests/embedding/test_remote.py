"""The remote provider, against a real HTTP server on loopback that fails in all known ways."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from typing import Any

import numpy as np
import pytest
from embedding_fakes import FakeModel, run, until, vector_of
from embedding_server import KEY, EmbeddingServer, Refusal, embedding_server, error
from fakes import PATIENCE

from jevlaya_lab.embedding import AsyncRemoteEmbedding, BoundedLocalEmbedding
from jevlaya_lab.embedding.errors import (
    DimensionMismatch,
    EmbeddingClosed,
    EmbeddingError,
    NonFiniteVector,
    QuotaExceeded,
    RateLimited,
    RemoteAuthFailed,
    RemoteProtocolError,
    RemoteRejected,
    RemoteTimeout,
    RemoteUnavailable,
)
from jevlaya_lab.embedding.remote_http import within
from jevlaya_lab.system_one.errors import InvalidOption

TEXTS = ["one", "twenty-two", "three", "four and a bit"]
EXPECTED = np.stack([vector_of(text) for text in TEXTS])
DEADLINE = 5.0


@pytest.fixture
def service() -> Iterator[EmbeddingServer]:
    with embedding_server() as server:
        yield server


def remote(service: EmbeddingServer, **options: Any) -> AsyncRemoteEmbedding:
    settings: dict[str, Any] = {
        "base_url": service.url,
        "api_key": KEY,
        "deadline": DEADLINE,
        "backoff": 0.001,
        **options,
    }
    return AsyncRemoteEmbedding("small-model", **settings)


def embed(service: EmbeddingServer, texts: list[str] = TEXTS, **options: Any) -> Any:
    return run(remote(service, **options).embed(texts))


def fails(service: EmbeddingServer, texts: list[str] = TEXTS, **options: Any) -> EmbeddingError:
    began = time.monotonic()
    with pytest.raises(EmbeddingError) as caught:
        embed(service, texts, **options)
    assert time.monotonic() - began < options.get("deadline", DEADLINE) + 1
    return caught.value


# --- what comes back ----------------------------------------------------------------------------


@pytest.mark.parametrize("encoding_format", ["float", "base64", None])
@pytest.mark.parametrize("base64_for_all", [False, True])
def test_vectors_come_back_whatever_the_encoding(
    service: EmbeddingServer, encoding_format: Any, base64_for_all: bool
) -> None:
    """E-6: the format is configurable, and replies of either form are read."""
    service.base64_for_all = base64_for_all

    vectors = embed(service, encoding_format=encoding_format)

    np.testing.assert_array_equal(vectors, EXPECTED)
    assert vectors.dtype == np.float32
    body = service.log[0].body
    assert body.get("encoding_format") == encoding_format
    assert (body["model"], body["input"]) == ("small-model", TEXTS)
    assert service.log[0].authorization == f"Bearer {KEY}"


def test_results_are_placed_by_index(service: EmbeddingServer) -> None:
    """E-6: a service may answer in any order."""
    service.always = "reversed"

    np.testing.assert_array_equal(embed(service), EXPECTED)


@pytest.mark.parametrize("fault", ["missing", "twice", "out of range", "html", "no data"])
def test_a_reply_with_gaps_or_duplicates_is_rejected(service: EmbeddingServer, fault: str) -> None:
    """E-6: half of a reply is no reply."""
    service.always = fault

    failed = fails(service)

    assert type(failed) is RemoteProtocolError
    assert failed.positions == ((1,) if fault == "missing" else ())
    assert len(service.log) == 1


def test_a_service_that_changes_its_dimension_is_noticed(service: EmbeddingServer) -> None:
    """E-10: within a reply, between two replies, and against what was asked for."""
    service.plan.append("ragged")
    assert isinstance(fails(service), DimensionMismatch)
    assert isinstance(fails(service, dimension=768), DimensionMismatch)

    strategy = remote(service)
    run(strategy.embed(TEXTS))
    assert strategy.identity.dimension == 4
    service.dimension = 8
    with pytest.raises(DimensionMismatch, match="8 components where the contract says 4"):
        run(strategy.embed(TEXTS))
    assert embed(service, dimensions=6).shape == (4, 6)
    assert service.log[-1].body["dimensions"] == 6


def test_a_nan_row_is_asked_for_alone(service: EmbeddingServer) -> None:
    """E-12: and is an error with its position if that does not help."""
    service.nan = {"three"}
    np.testing.assert_array_equal(embed(service), EXPECTED)
    assert [request.texts for request in service.log] == [TEXTS, ["three"]]

    service.hopeless = {"three"}
    failed = fails(service)
    assert isinstance(failed, NonFiniteVector)
    assert failed.positions == (2,)


# --- what is refused for good -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("refusal", "kind"),
    [
        (error(401, "Incorrect API key"), RemoteAuthFailed),
        (error(403, "no access to this model"), RemoteAuthFailed),
        (error(429, "You exceeded your quota", code="insufficient_quota"), QuotaExceeded),
        (error(402, "no credits"), QuotaExceeded),
        (error(404, "no such model"), RemoteRejected),
        (error(400, "bad dimensions", param="dimensions"), RemoteRejected),
        (error(302, "elsewhere", headers={"Location": "http://127.0.0.1:9/"}), RemoteRejected),
    ],
)
def test_terminal_refusals_are_not_retried(
    service: EmbeddingServer, refusal: Refusal, kind: type[EmbeddingError]
) -> None:
    """E-6: one request, and the right error, which carries what the service said (E-9)."""
    service.always = refusal

    failed = fails(service)

    assert type(failed) is kind
    assert refusal.message in str(failed)
    assert len(service.log) == 1
    assert failed.provider == f"remote:{service.url.split('/')[2]}"
    assert (failed.model, failed.resource) == ("small-model", "network")


@pytest.mark.parametrize("status", [401, 429, 500, 400])
def test_no_error_ever_shows_the_key(service: EmbeddingServer, status: int) -> None:
    """E-9: also where the service echoes it, in no message, repr, cause or traceback."""
    service.always = error(status, "you sent {authorization}, which is wrong")

    strategy = remote(service, max_retries=0)
    with pytest.raises(EmbeddingError) as caught:
        run(strategy.embed(TEXTS))

    shown = "".join(traceback.format_exception(caught.value))
    shown += f"{caught.value!r} {strategy!r} {strategy._endpoint!r} {strategy.explain()}"
    shown += f"{strategy.identity} {strategy.metrics.records()}"
    assert "you sent Bearer [api key], which is wrong" in shown
    assert KEY not in shown


@pytest.mark.parametrize("key", ["sk-secret\nline", "sk-secret-\u00e9", "sk secret"])
def test_a_malformed_key_is_refused_without_showing_it(key: str) -> None:
    """E-9: HTTP libraries would quote it."""
    with pytest.raises(InvalidOption) as caught:
        AsyncRemoteEmbedding("m", api_key=key)

    assert "secret" not in "".join(traceback.format_exception(caught.value))


def test_credentials_in_the_url_are_not_shown() -> None:
    """E-9: neither in the name of the provider nor in an error."""
    strategy = AsyncRemoteEmbedding(
        "m", base_url="http://user:password-1@127.0.0.1:9/v1", api_key="", max_retries=0
    )
    with pytest.raises(RemoteUnavailable) as caught:
        run(strategy.embed(["x"]))

    shown = "".join(traceback.format_exception(caught.value)) + repr(strategy)
    assert "password-1" not in shown
    assert "remote:127.0.0.1:9" in shown


# --- what passes --------------------------------------------------------------------------------


def test_passing_failures_are_retried_by_one_owner(service: EmbeddingServer) -> None:
    """E-6: exactly max_retries more requests, whatever the kinds of failure."""
    service.plan.extend([error(500), "drop", "hang up", error(503), error(429)])

    np.testing.assert_array_equal(embed(service, max_retries=5), EXPECTED)
    assert len(service.log) == 6

    service.log.clear()
    service.always = error(500, "server on fire")
    strategy = remote(service, max_retries=3)
    with pytest.raises(RemoteUnavailable, match="500: server on fire"):
        run(strategy.embed(TEXTS))
    assert len(service.log) == 4
    snapshot = strategy.metrics.snapshot()
    assert (snapshot["retries_total"], snapshot["error_total"]) == (3, {"RemoteUnavailable": 1})


def test_pauses_grow_and_vary(service: EmbeddingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """E-6: exponential backoff with jitter."""
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def noted(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    monkeypatch.setattr("jevlaya_lab.embedding.remote_request.asyncio.sleep", noted)
    service.always = error(500)

    fails(service, max_retries=6, backoff=0.1, max_backoff=1.0)

    pauses = [pause for pause in pauses if pause > 0]
    for pause, most in zip(pauses, [0.1, 0.2, 0.4, 0.8, 1.0, 1.0], strict=True):
        assert most / 2 <= pause <= most
    assert len(set(pauses[4:])) == 2


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("form", ["seconds", "date", "milliseconds"])
def test_retry_after_is_honoured(service: EmbeddingServer, status: int, form: str) -> None:
    """E-6: in seconds, as a date and in milliseconds; it goes before the backoff."""
    when = datetime.now(timezone.utc) + timedelta(seconds=2)
    headers = {
        "seconds": {"Retry-After": "1"},
        "date": {"Retry-After": format_datetime(when, usegmt=True)},
        "milliseconds": {"retry-after-ms": "600", "Retry-After": "77"},
    }[form]
    service.plan.append(error(status, headers=headers))
    began = time.monotonic()

    np.testing.assert_array_equal(embed(service, backoff=0.001), EXPECTED)

    assert time.monotonic() - began >= 0.59
    assert len(service.log) == 2


@pytest.mark.parametrize("as_date", [False, True])
def test_a_retry_after_beyond_the_deadline_is_not_waited_for(
    service: EmbeddingServer, as_date: bool
) -> None:
    """E-6: the error comes at once and says when."""
    when = format_datetime(datetime.now(timezone.utc) + timedelta(hours=1), usegmt=True)
    service.always = error(429, headers={"Retry-After": when if as_date else "3600"})
    began = time.monotonic()

    failed = fails(service)

    assert isinstance(failed, RateLimited)
    assert time.monotonic() - began < 2
    assert failed.retry_after == pytest.approx(3600, abs=30)
    assert len(service.log) == 1


@pytest.mark.parametrize("fault", ["silence", "drip", "drip header"])
def test_a_slow_answer_ends_at_the_deadline(service: EmbeddingServer, fault: str) -> None:
    """E-6: also one whose every byte comes in time."""
    service.always = fault
    began = time.monotonic()

    failed = fails(service, deadline=0.5, attempt_timeout=0.2)

    assert isinstance(failed, RemoteTimeout)
    assert 0.15 < time.monotonic() - began < 1.0
    assert len(service.log) >= 2


def test_a_service_that_is_not_there(service: EmbeddingServer) -> None:
    """E-6, E-9: a connection that is refused is retried, and then says so."""
    failed = fails(service, base_url="http://127.0.0.1:9/v1", max_retries=2)

    assert isinstance(failed, RemoteUnavailable)
    assert isinstance(failed, ConnectionError)
    assert "ConnectError" in str(failed)


# --- batches ------------------------------------------------------------------------------------


def test_lists_are_split_to_the_limits_of_the_service(service: EmbeddingServer) -> None:
    """E-6: by texts and by tokens, in order."""
    texts = [f"text {i}" for i in range(25)]

    vectors = embed(service, texts, max_batch_texts=10)
    np.testing.assert_array_equal(vectors, np.stack([vector_of(text) for text in texts]))
    assert sorted(len(request.texts) for request in service.log) == [5, 10, 10]

    service.log.clear()
    embed(service, ["x" * 300] * 6, max_batch_tokens=250)
    assert [len(request.texts) for request in service.log] == [2, 2, 2]


def test_a_batch_that_is_too_large_is_halved(service: EmbeddingServer) -> None:
    """E-6: until the service takes it."""
    service.most_texts = 30
    texts = [f"text {i}" for i in range(100)]

    vectors = embed(service, texts)

    np.testing.assert_array_equal(vectors, np.stack([vector_of(text) for text in texts]))
    assert sorted(len(r.texts) for r in service.log) == [25, 25, 25, 25, 50, 50, 100]


@pytest.mark.parametrize("position", [0, 137, 199])
def test_one_poisoned_text_names_itself(service: EmbeddingServer, position: int) -> None:
    """E-6: among 200, in a number of requests that grows with their logarithm."""
    texts = [f"text {i}" for i in range(200)]
    service.poison = {texts[position]}

    failed = fails(service, texts, max_batch_texts=200)

    assert isinstance(failed, RemoteRejected)
    assert failed.positions == (position,)
    assert "cannot be embedded" in str(failed)
    assert len(service.log) <= 2 * 9


def test_a_poisoned_text_in_one_of_several_requests(service: EmbeddingServer) -> None:
    """E-6: its position is that in the caller's list."""
    texts = [f"text {i}" for i in range(200)]
    service.poison = {texts[137]}

    assert fails(service, texts, max_batch_texts=64).positions == (137,)


def test_rates_are_kept_by_waiting_and_never_beyond_the_deadline(service: EmbeddingServer) -> None:
    """E-6: requests and tokens per minute."""
    strategy = remote(service, requests_per_minute=600, max_batch_texts=1)
    began = time.monotonic()
    run(strategy.embed([f"t{i}" for i in range(16)]))  # ten at once, then one each 0.1 s
    assert 0.4 < time.monotonic() - began < 2

    strategy = remote(service, tokens_per_minute=60, deadline=0.5)
    run(strategy.embed(["a text of about a hundred letters " * 3]))
    began = time.monotonic()
    with pytest.raises(RateLimited, match="tokens_per_minute") as caught:
        run(strategy.embed(["another"]))
    assert time.monotonic() - began < 0.4
    assert caught.value.retry_after is not None


# --- loops, threads, cancelling -----------------------------------------------------------------


def test_connections_are_reused(service: EmbeddingServer) -> None:
    """E-6: one connection for calls that follow each other."""

    async def scenario() -> None:
        strategy = remote(service)
        for _ in range(5):
            await strategy.embed(TEXTS)

    run(scenario())

    assert len({request.port for request in service.log}) == 1


def test_one_strategy_serves_many_loops(service: EmbeddingServer) -> None:
    """E-6: loops that follow each other, and loops in several threads; no client outlives its."""
    strategy = remote(service)

    for _ in range(3):
        np.testing.assert_array_equal(run(strategy.embed(TEXTS)), EXPECTED)
    threads = [
        threading.Thread(target=lambda: run(strategy.embed(TEXTS)), daemon=True) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)

    assert len(service.log) == 6
    assert strategy._endpoint._clients == {}


def test_closing_is_for_good(service: EmbeddingServer) -> None:
    """E-9: a call after it has an error of its own."""

    async def scenario() -> None:
        strategy = remote(service)
        await strategy.embed(TEXTS)
        await strategy.aclose()
        assert strategy._endpoint._clients == {}
        with pytest.raises(EmbeddingClosed):
            await strategy.embed(TEXTS)

    run(scenario())


def test_cancelling_closes_the_request_and_starts_no_retry(service: EmbeddingServer) -> None:
    """E-8: the service sees the connection end."""
    service.always = "silence"

    async def scenario() -> None:
        strategy = remote(service)
        call = asyncio.ensure_future(strategy.embed(TEXTS))
        await until(lambda: service.log)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await asyncio.to_thread(service.hung_up.wait, PATIENCE)
        assert strategy.metrics.snapshot()["concurrency_inflight"] == 0

    run(scenario())

    assert len(service.log) == 1


def test_cancelling_a_pause_starts_no_retry(service: EmbeddingServer) -> None:
    """E-8: also while it waits to try again."""
    service.always = error(503, headers={"Retry-After": "4"})

    async def scenario() -> None:
        strategy = remote(service)
        call = asyncio.ensure_future(strategy.embed(TEXTS))
        await until(lambda: service.log)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    run(scenario())

    assert len(service.log) == 1


def test_one_failure_ends_the_other_requests_of_its_call(service: EmbeddingServer) -> None:
    """E-8: nothing goes on in the background when the error is out."""
    service.plan.extend(["silence", error(401)])

    async def scenario() -> None:
        strategy = remote(service, max_batch_texts=2)
        with pytest.raises(RemoteAuthFailed):
            await strategy.embed(TEXTS)
        assert len(asyncio.all_tasks()) <= 2  # this one and the guard's
        assert await asyncio.to_thread(service.hung_up.wait, PATIENCE)

    run(scenario())


def test_work_within_a_time_loses_no_cancellation() -> None:
    """E-8: not even one that comes together with the result."""

    async def scenario() -> None:
        result: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        call = asyncio.ensure_future(within(result, 10))
        await asyncio.sleep(0)
        result.set_result(1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    run(scenario())


def test_the_remote_path_enters_no_thread_and_waits_for_no_permit(
    service: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E-6a: also while local encodes use up all of theirs."""
    model = FakeModel()
    entered: list[Any] = []

    class NoThreads(ThreadPoolExecutor):
        def submit(self, *args: Any, **kwargs: Any) -> Any:
            entered.append(args)
            raise AssertionError("the remote path went into an executor")

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(NoThreads(1))
        local = BoundedLocalEmbedding(model)
        await local.preload()
        model.hold()
        held = [asyncio.ensure_future(local.embed([f"t{i}"])) for i in range(5)]
        await until(lambda: model.running == 1 and local._lane.waiting == 4)
        strategy = remote(service)

        def no_thread(self: threading.Thread) -> None:
            if not self.name.startswith("Thread-"):  # the server's own, one per connection
                entered.append(self.name)
            start(self)

        start = threading.Thread.start
        monkeypatch.setattr(threading.Thread, "start", no_thread)
        found = await asyncio.gather(*(strategy.embed(TEXTS) for _ in range(20)))
        monkeypatch.undo()
        assert len(found) == 20
        assert local._lane.waiting == 4
        model.gate.set()
        await asyncio.gather(*held)

    run(scenario())

    assert entered == []


def test_a_missing_extra_is_answered_by_the_command(tmp_path: Any) -> None:
    """E-9: for httpx and for prometheus_client."""
    program = (
        "import sys; sys.modules['httpx'] = sys.modules['prometheus_client'] = None\n"
        "from jevlaya_lab.embedding import *\n"
        "from jevlaya_lab.embedding.errors import MissingExtra\n"
        "for call in (lambda: AsyncRemoteEmbedding('m'), prometheus_registry):\n"
        "    try: call()\n"
        "    except MissingExtra as exc: print(exc)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert "pip install 'jevlaya_lab[remote]'" in done.stdout, done.stderr
    assert "pip install 'jevlaya_lab[prometheus]'" in done.stdout


@pytest.mark.parametrize(
    "options",
    [
        {"base_url": "ftp://host/"},
        {"base_url": "no url"},
        {"encoding_format": "int8"},
        {"deadline": 0},
        {"max_batch_texts": 0},
        {"requests_per_minute": -1},
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption):
        AsyncRemoteEmbedding("m", **options)


def test_texts_go_as_strings(service: EmbeddingServer) -> None:
    """E-6: not as token ids, and unharmed."""
    texts = ["naïve 日本語 😀", 'quotes " and \\ and \n lines']

    embed(service, texts, prompt="query: ")

    assert service.log[0].texts == [f"query: {text}" for text in texts]
    assert json.dumps(service.log[0].body)
