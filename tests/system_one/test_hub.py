"""Fetching checkpoints from a hub, against a stand-in on loopback that can be broken."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest
from hub_server import COMMIT, FILES, OLD_COMMIT, REPO, HubServer, hub_server
from huggingface_hub import constants, file_download
from tiny import make_checkpoint

from jevlaya_lab import Agent
from jevlaya_lab.system_one import hub_client
from jevlaya_lab.system_one.errors import (
    CheckpointError,
    CheckpointInvalid,
    CheckpointNotFound,
    InvalidOption,
)
from jevlaya_lab.system_one.hub import HubSource, fetch, parse_source

PATTERNS = ["rl_agent_config.json", "model.safetensors", "tokenizer/*", "encoder/*"]
"""The files of a checkpoint."""

WANTED = {
    name: content
    for name, content in FILES.items()
    if not name.startswith(("multilingual/", "other/", "README"))
}
MULTILINGUAL = {
    name.removeprefix("multilingual/"): content
    for name, content in FILES.items()
    if name.startswith("multilingual/")
}
TOKEN = "hf_VerySecret"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    """A stand-in hub, and waits that are cut to fractions of a second."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 0.2)
    monkeypatch.setattr(file_download, "time", SimpleNamespace(sleep=lambda seconds: None))
    monkeypatch.setattr(hub_client, "_ANSWER_SECONDS", 5.0)
    with hub_server() as running:
        yield running


@pytest.fixture
def fetch_from(server: HubServer, tmp_path: Path) -> Any:
    """``fetch`` of the stand-in's repository into a cache of the test's own."""

    def call(subfolder: str | None = None, **options: Any) -> Path:
        options = {"endpoint": server.url, "cache_dir": tmp_path / "cache"} | options
        return fetch(REPO, PATTERNS, subfolder=subfolder, **options)

    return call


def content_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


# Which files come


def test_a_checkpoint_at_the_root_comes_without_the_rest_of_the_repository(
    server: HubServer, fetch_from: Any
) -> None:
    assert content_of(fetch_from()) == WANTED
    assert server.paths("file") == sorted(WANTED)


def test_a_subfolder_comes_alone_and_its_own_folder_is_returned(
    server: HubServer, fetch_from: Any
) -> None:
    folder = fetch_from("multilingual")
    assert folder.name == "multilingual"
    assert content_of(folder) == MULTILINGUAL
    assert server.paths("file") == sorted(f"multilingual/{name}" for name in MULTILINGUAL)


def test_root_and_subfolder_share_one_snapshot(fetch_from: Any) -> None:
    root = fetch_from()
    assert fetch_from("multilingual/") == root / "multilingual"
    assert content_of(root / "multilingual") == MULTILINGUAL


@pytest.mark.parametrize("revision", ["v1", "feature/x", OLD_COMMIT])
def test_a_revision_is_a_tag_a_branch_or_a_commit(
    server: HubServer, fetch_from: Any, revision: str
) -> None:
    old = WANTED | {"model.safetensors": b"old weights"}
    server.revisions[OLD_COMMIT] = old
    server.commits |= {"v1": OLD_COMMIT, "feature/x": OLD_COMMIT}
    assert content_of(fetch_from(revision=revision)) == old
    assert server.log[0].revision == revision
    server.stop()
    assert content_of(fetch_from(revision=revision)) == old
    with pytest.raises(CheckpointNotFound):
        fetch_from()


def test_the_token_goes_with_every_request(server: HubServer, fetch_from: Any) -> None:
    fetch_from(token=f" {TOKEN}\n")
    assert {request.authorization for request in server.log} == {f"Bearer {TOKEN}"}


def test_two_threads_may_fetch_the_same_checkpoint(fetch_from: Any) -> None:
    folders: list[Path] = []
    threads = [
        threading.Thread(target=lambda: folders.append(fetch_from("multilingual")))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(folders) == 2
    assert content_of(folders[0]) == MULTILINGUAL


def test_a_mirror_that_lists_names_only_is_taken_at_its_word(
    server: HubServer, fetch_from: Any
) -> None:
    server.plain = True
    assert content_of(fetch_from()) == WANTED


def test_a_file_name_that_leads_out_of_the_snapshot_is_left_out(
    server: HubServer, fetch_from: Any
) -> None:
    server.revisions[COMMIT]["encoder/../../../evil"] = b"evil"
    assert content_of(fetch_from()) == WANTED
    assert not any("evil" in path for path in server.paths("head"))


# What the cache spares


def test_a_second_fetch_asks_once_and_downloads_nothing(server: HubServer, fetch_from: Any) -> None:
    folder = fetch_from("multilingual")
    server.log.clear()
    assert fetch_from("multilingual") == folder
    assert [request.kind for request in server.log] == ["info"]


def test_a_new_commit_brings_only_the_files_that_changed(
    server: HubServer, fetch_from: Any
) -> None:
    server.revisions[OLD_COMMIT] = WANTED | {"model.safetensors": b"old weights"}
    server.commits["main"] = OLD_COMMIT
    fetch_from()
    server.commits["main"] = COMMIT
    server.log.clear()
    assert content_of(fetch_from()) == WANTED
    assert server.paths("file") == ["model.safetensors"]


def test_a_file_that_went_missing_or_was_cut_is_fetched_again_and_no_other(
    server: HubServer, fetch_from: Any
) -> None:
    folder = fetch_from()
    (folder / "encoder/config.json").unlink()
    (folder / "model.safetensors").resolve().write_bytes(b"cut")
    server.log.clear()
    assert content_of(fetch_from()) == WANTED
    assert set(server.paths("file")) <= {"encoder/config.json", "model.safetensors"}


def test_files_of_another_program_are_verified_before_they_are_used(
    server: HubServer, fetch_from: Any, tmp_path: Path
) -> None:
    server.faults, server.only = {"file": "corrupt"}, "encoder/config.json"
    huggingface_hub.hf_hub_download(
        REPO, "encoder/config.json", endpoint=server.url, cache_dir=tmp_path / "cache"
    )
    server.faults.clear()
    assert content_of(fetch_from()) == WANTED


# Offline


def test_a_fetched_checkpoint_is_there_when_the_server_is_not(
    server: HubServer, fetch_from: Any
) -> None:
    folder = fetch_from("multilingual")
    server.stop()
    assert fetch_from("multilingual") == folder


@pytest.mark.parametrize("fault", ["error", "no token", "forbidden", "gated", "no repo", "html"])
def test_a_fetched_checkpoint_is_there_when_the_hub_gives_no_answer_or_a_no(
    server: HubServer, fetch_from: Any, fault: str
) -> None:
    folder = fetch_from()
    server.faults["info"] = fault
    assert fetch_from() == folder


def test_a_subfolder_that_was_not_fetched_is_not_there_offline(
    server: HubServer, fetch_from: Any
) -> None:
    fetch_from()
    server.stop()
    with pytest.raises(CheckpointNotFound, match="sub-folder 'multilingual'"):
        fetch_from("multilingual")


@pytest.mark.parametrize("last", ["model.safetensors", "encoder/config.json"])
def test_half_a_snapshot_is_not_used_offline(server: HubServer, fetch_from: Any, last: str) -> None:
    server.faults, server.only = {"file": "drop"}, last
    with pytest.raises(CheckpointInvalid):
        fetch_from()
    server.stop()
    with pytest.raises(CheckpointNotFound, match="the cache has no whole copy"):
        fetch_from()


def test_a_snapshot_that_lost_a_file_is_not_used_offline(
    server: HubServer, fetch_from: Any
) -> None:
    (fetch_from() / "tokenizer/tokenizer.json").unlink()
    server.stop()
    with pytest.raises(CheckpointNotFound, match="the cache has no whole copy"):
        fetch_from()


def test_a_snapshot_of_which_nothing_tells_that_it_is_whole_is_not_used_offline(
    server: HubServer, fetch_from: Any, tmp_path: Path
) -> None:
    for name in WANTED.keys() - {"tokenizer/tokenizer.json"}:
        huggingface_hub.hf_hub_download(
            REPO, name, endpoint=server.url, cache_dir=tmp_path / "cache"
        )
    server.stop()
    with pytest.raises(CheckpointNotFound, match="the cache has no whole copy"):
        fetch_from()


@pytest.mark.skipif(
    not hasattr(huggingface_hub, "get_cached_repo_tree"), reason="huggingface_hub 2 keeps listings"
)
@pytest.mark.parametrize("damaged", [False, True])
def test_a_snapshot_of_another_program_is_used_offline_if_its_listing_is_kept_and_fits(
    server: HubServer, fetch_from: Any, tmp_path: Path, damaged: bool
) -> None:
    if damaged:
        server.faults, server.only = {"file": "corrupt"}, "model.safetensors"
    folder = huggingface_hub.snapshot_download(
        REPO,
        allow_patterns=PATTERNS,
        endpoint=server.url,
        cache_dir=tmp_path / "cache",
    )
    server.stop()
    if damaged:
        with pytest.raises(CheckpointNotFound, match="the cache has no whole copy"):
            fetch_from()
    else:
        assert fetch_from() == Path(folder)


def test_an_update_that_fails_leaves_the_old_copy_usable(
    server: HubServer, fetch_from: Any
) -> None:
    server.revisions[OLD_COMMIT] = WANTED | {"model.safetensors": b"old weights"}
    server.commits["main"] = OLD_COMMIT
    old = fetch_from()
    server.commits["main"] = COMMIT
    server.faults, server.only = {"file": "drop"}, "model.safetensors"
    with pytest.raises(CheckpointInvalid):
        fetch_from()
    server.stop()
    assert fetch_from() == old
    assert (old / "model.safetensors").read_bytes() == b"old weights"


# Failures

NOT_FOUND = {
    "repository missing": ("info", "no repo", "no such repository", "check the name"),
    "private": ("info", "hidden", "no such repository, or it is private", "HF_TOKEN"),
    "token refused": ("info", "no token", "refused access .HTTP 401", "check the token"),
    "gated": ("info", "gated", r"\(gated\)", "HF_TOKEN"),
    "gated files": ("head", "gated", r"\(gated\)", "HF_TOKEN"),
    "forbidden": ("info", "forbidden", "refused access .HTTP 403", "HF_TOKEN"),
    "forbidden files": ("head", "forbidden", "refused access .HTTP 403", "HF_TOKEN"),
    "revision missing": ("info", "no revision", "no such revision", "check the name"),
    "server error": ("info", "error", "HTTP 500", "try again later"),
    "server error at files": ("head", "error", "HTTP 500", "try again later"),
    "server error at a download": ("file", "error", "HTTP 500", "try again later"),
    "listed file missing": ("head", "no entry", "HTTP 404", "'embedded'"),
    "a network's own page": ("info", "html", "not what a hub answers", "HF_ENDPOINT"),
    "silence": ("info", "silence", "did not answer in time", "connect once"),
    "an endless header": ("info", "drip", "did not answer in time", "connect once"),
    "silence at files": ("head", "silence", "did not answer in time", "connect once"),
}
INVALID = {
    "stalled": ("file", "stall", "model.safetensors was cut short", "call again"),
    "no body": ("file", "silence", "model.safetensors was cut short", "call again"),
    "dropped": ("file", "drop", "model.safetensors was cut short", "call again"),
    "too short": ("file", "truncate", "model.safetensors was cut short", "call again"),
    "altered": ("file", "corrupt", "model.safetensors arrived damaged: its hash is", "call again"),
}
FAILURES = [
    *(pytest.param(CheckpointNotFound, *case, id=name) for name, case in NOT_FOUND.items()),
    *(pytest.param(CheckpointInvalid, *case, id=name) for name, case in INVALID.items()),
]


@pytest.mark.parametrize(("error", "kind", "fault", "cause", "remedy"), FAILURES)
def test_a_failure_says_what_why_and_what_to_do_and_leaves_nothing_broken_behind(
    server: HubServer,
    fetch_from: Any,
    monkeypatch: pytest.MonkeyPatch,
    error: type[CheckpointError],
    kind: str,
    fault: str,
    cause: str,
    remedy: str,
) -> None:
    if fault in ("silence", "drip"):
        monkeypatch.setattr(hub_client, "_ANSWER_SECONDS", 0.5)
    server.faults = {kind: fault}
    server.only = "model.safetensors" if kind in ("head", "file") else ""
    with pytest.raises(error, match=cause) as caught:
        fetch_from("multilingual", revision="main", token=TOKEN)
    message = str(caught.value)
    assert message.startswith(
        f"checkpoint '{REPO}' on the hub, sub-folder 'multilingual', revision 'main': "
    )
    assert remedy in message
    assert TOKEN not in message + repr(caught.value) + repr(caught.value.__cause__)
    assert (caught.value.__cause__ is None) == (fault == "corrupt")  # there we found out ourselves

    server.faults.clear()
    monkeypatch.setattr(hub_client, "_ANSWER_SECONDS", 5.0)
    assert content_of(fetch_from("multilingual")) == MULTILINGUAL


def test_a_damaged_file_does_not_stay_in_the_cache_for_other_programs(
    server: HubServer, fetch_from: Any, tmp_path: Path
) -> None:
    server.faults, server.only = {"file": "corrupt"}, "model.safetensors"
    with pytest.raises(CheckpointInvalid, match="arrived damaged"):
        fetch_from()
    assert not list((tmp_path / "cache").rglob("model.safetensors"))
    digest = hashlib.sha256(WANTED["model.safetensors"]).hexdigest()
    assert not list((tmp_path / "cache").rglob(digest))


def test_a_refused_connection_names_the_server(server: HubServer, fetch_from: Any) -> None:
    server.stop()
    address = server.url.removeprefix("http://")
    with pytest.raises(CheckpointNotFound, match="connect once") as caught:
        fetch_from(endpoint=f"http://user:{TOKEN}@{address}")
    assert f"{address} could not be reached" in str(caught.value)
    assert TOKEN not in str(caught.value)


@pytest.mark.slow
def test_a_silent_hub_is_given_up_after_ten_seconds(
    server: HubServer, fetch_from: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    server.faults["info"] = "silence"
    start = time.perf_counter()
    with pytest.raises(CheckpointNotFound, match="did not answer in time"):
        fetch_from()
    assert time.perf_counter() - start < 15


def test_a_missing_subfolder_names_those_that_are_there(fetch_from: Any) -> None:
    with pytest.raises(CheckpointNotFound, match="it has encoder, multilingual, other, tokenizer"):
        fetch_from("multilingal")


def test_a_cache_that_cannot_be_written_is_named(fetch_from: Any, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointNotFound, match=r"cache cannot be written .*cache_dir="):
        fetch_from(cache_dir=tmp_path / "file")


@pytest.mark.parametrize("token", ["hf_Secret\nX: y", "hf_ Secret", "hf_Secr\u00e9t"])
def test_a_malformed_token_is_refused_unsaid_and_unsent(
    server: HubServer, fetch_from: Any, token: str
) -> None:
    with pytest.raises(InvalidOption, match="token") as caught:
        fetch_from(token=token)
    assert "Secr" not in str(caught.value)
    assert server.log == []


@pytest.mark.parametrize("option", ["subfolder", "revision"])
@pytest.mark.parametrize("value", ["../other", "/multilingual", "a/../../b", "a\\b"])
def test_a_subfolder_or_revision_that_leads_elsewhere_is_refused(
    server: HubServer, fetch_from: Any, option: str, value: str
) -> None:
    with pytest.raises(InvalidOption, match=f"{option}=.* leads out of the repository"):
        fetch_from(**{option: value})
    assert server.log == []


@pytest.mark.parametrize("repo", ["model", "a/b/c", "../b", "org/", "org/a--b", ""])
def test_what_is_no_repository_name_is_refused_without_a_request(
    server: HubServer, repo: str
) -> None:
    with pytest.raises(CheckpointNotFound, match="form org/name"):
        fetch(repo, PATTERNS, endpoint=server.url)
    assert server.log == []


def test_no_repr_shows_a_token() -> None:
    client = hub_client.HubClient(
        title="",
        repo=REPO,
        revision="main",
        patterns=(),
        token=TOKEN,
        endpoint=f"http://user:{TOKEN}@hub",
        cache=None,
    )
    assert TOKEN not in repr(client)


# Names


@pytest.mark.parametrize("text", ["convaiinnovations/laya", "org/a.b-c_d", "0/1"])
def test_org_and_name_are_a_hub_name(text: str) -> None:
    assert parse_source(text) == HubSource(text)


@pytest.mark.parametrize(
    "text",
    [
        "embedded",
        "laya",
        "",
        "/",
        "/tmp",
        "a/b/c",
        "./model",
        "../model",
        "~/model",
        ".hidden/model",
        "org/.model",
        "org/model/",
        "org/",
        "org\\model",
        "C:/model",
        "org/mo del",
        "org/modèle",
        "org/a--b",
        "org/a..b",
        "org/model.git",
        "org/model\n",
    ],
)
def test_everything_else_is_a_path(text: str) -> None:
    assert parse_source(text) is None


def test_a_folder_that_exists_goes_before_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "org/model").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert parse_source("org/model") is None
    assert parse_source("org/other") is not None


# As users have it: settings from the environment, read when huggingface_hub is imported


def run_fetch(home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    program = (
        "import sys; from jevlaya_lab.system_one.hub import fetch; "
        f"print(fetch({REPO!r}, {PATTERNS!r}, subfolder='multilingual'))"
    )
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env=clean | {"HF_HOME": str(home)} | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_environment_says_which_hub_cache_and_token_and_nothing_is_drawn_off_a_terminal(
    server: HubServer, tmp_path: Path
) -> None:
    online = run_fetch(tmp_path, HF_ENDPOINT=server.url, HF_TOKEN=TOKEN)
    assert online.stderr == ""
    folder = Path(online.stdout.strip())
    assert folder.is_relative_to(tmp_path / "hub")
    assert content_of(folder) == MULTILINGUAL
    sent = {request.authorization for request in server.log if request.kind != "unknown"}
    assert sent == {f"Bearer {TOKEN}"}

    server.log.clear()
    offline = run_fetch(tmp_path, HF_ENDPOINT=server.url, HF_HUB_OFFLINE="1")
    assert (offline.stdout, offline.stderr) == (online.stdout, "")
    assert server.log == []


def test_offline_mode_with_an_empty_cache_says_so(server: HubServer, tmp_path: Path) -> None:
    done = run_fetch(tmp_path, HF_ENDPOINT=server.url, HF_HUB_OFFLINE="1")
    last = done.stderr.splitlines()[-1]
    assert "CheckpointNotFound: checkpoint 'org/model' on the hub, sub-folder" in last
    assert "offline mode is on (HF_HUB_OFFLINE); the cache has no whole copy of it" in last
    assert server.log == []


def test_importing_the_module_loads_no_http_library() -> None:
    program = "import sys, jevlaya_lab.system_one.hub as h; print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    names = done.stdout.decode()
    assert "'huggingface_hub'" in names
    assert not any(f"'{name}'" in names for name in ("httpx", "httpx2", "requests", "torch"))


_ASK = """
import sys
from jevlaya_lab import Agent
agent = Agent("org/model", subfolder="multilingual", device="cpu")
answer = agent.predict("some text", {"q": {"type": "noul", "instructions": "Is it so?"}})
print(agent.model_id, answer["answers"]["q"]["noul"])
"""


def test_an_agent_answers_from_a_hubs_checkpoint_and_from_the_cache_offline(
    tmp_path: Path,
) -> None:
    """From the name alone to an answer; the second time without any hub, and the same answer."""
    made = make_checkpoint(tmp_path / "made")
    files = {
        f"multilingual/{path.relative_to(made).as_posix()}": path.read_bytes()
        for path in made.rglob("*")
        if path.is_file()
    }
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}

    def ask(**environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", _ASK],
            env=clean | {"HF_HOME": str(tmp_path / "home")} | environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    with hub_server() as server:
        server.revisions[COMMIT].update(files)
        online = ask(HF_ENDPOINT=server.url)
    offline = ask(HF_HUB_OFFLINE="1")
    nothing = ask(HF_HUB_OFFLINE="1", HF_HOME=str(tmp_path / "empty"))

    expected = Agent(made, device="cpu").predict(
        "some text", {"q": {"type": "noul", "instructions": "Is it so?"}}
    )
    assert online.stdout.split() == ["org/model", str(expected["answers"]["q"]["noul"])]
    assert offline.stdout == online.stdout
    assert nothing.returncode == 1
    assert "CheckpointNotFound: checkpoint 'org/model' on the hub" in nothing.stderr
    assert "offline mode is on" in nothing.stderr
    assert "no folder of that name here either" in nothing.stderr
