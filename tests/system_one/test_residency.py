"""Loading, evicting, attaching and registering, with their events; registries and errors."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from fakes import (
    PATIENCE,
    QUESTIONS,
    RouterRecorder,
    StubAgent,
    StubRouter,
    fails_with,
    promptly,
    start_thread,
)
from tiny import make_checkpoint

from jevlaya_lab.system_one.context import PredictContext
from jevlaya_lab.system_one.errors import (
    CheckpointInvalid,
    CheckpointNotFound,
    InvalidInput,
    InvalidOption,
    UnknownCheckpoint,
)
from jevlaya_lab.system_one.registry import EMBEDDED, HUB, STANDALONE, Source
from jevlaya_lab.system_one.router import Router


def test_events_run_after_the_lock_is_released() -> None:
    """L-30: a hook of any of them may use the Router, also from another thread."""
    router = StubRouter(max_loaded=1)
    seen: list[Any] = []

    def look(ctx: PredictContext) -> None:
        def use() -> list[str]:
            router.load("typed" if ctx.model == "english" else str(ctx.model))
            return router.loaded

        thread_saw = promptly(use)
        seen.append((ctx.scope, ctx.model, thread_saw))

    router.add_hook(RouterRecorder(load=lambda ctx: ctx.model == "english" and look(ctx)))
    promptly(router.load, "english")

    assert seen == [("load", "english", ["typed-decisions"])]
    assert router.loaded == ["typed-decisions"]


def test_a_hook_can_unload_and_predict_from_within_an_event() -> None:
    """L-30: without deadlock, also where hooks run one at a time."""
    router = StubRouter(max_loaded=1, hooks_concurrent=False)
    hook = RouterRecorder(
        evict=lambda ctx: router.predict("s", QUESTIONS, model="typed") if len(log) < 9 else None,
        load=lambda ctx: router.unload("typed") if ctx.model == "multilingual" else None,
    )
    log = hook.log
    router.add_hook(hook)
    promptly(router.load, "english")
    promptly(router.load, "multilingual")

    assert router.loaded == []
    assert log.index("hook.evict english") < log.index("hook.load typed-decisions")


def test_evictions_are_announced_before_the_load_that_caused_them() -> None:
    """L-31: on_evict runs before on_load."""
    log: list[str] = []
    router = StubRouter(log, max_loaded=1, hooks=RouterRecorder(log))
    router.load("english")
    log.clear()

    router.load("multilingual")

    assert log == ["build multilingual", "hook.evict english", "hook.load multilingual"]


def test_the_least_recently_used_goes_first() -> None:
    """L-32: a prediction counts as use, and so does a load."""
    router = StubRouter()
    router.predict("s", QUESTIONS, model="english")
    router.load("multilingual")
    router.predict("s", QUESTIONS, model="english")
    assert router.loaded == ["multilingual", "english"]

    router.load("typed")

    assert router.loaded == ["english", "typed-decisions"]


def test_unload_takes_it_out_and_then_announces_it() -> None:
    """L-33: the hook sees it gone; without a name, all go."""
    seen: list[Any] = []
    router = StubRouter(max_loaded=3)
    router.add_hook(RouterRecorder(evict=lambda ctx: seen.append((ctx.model, router.loaded))))
    for name in ("english", "multilingual", "typed"):
        router.load(name)

    router.unload("ml")
    router.unload("ml")
    router.unload()

    assert seen == [
        ("multilingual", ["english", "typed-decisions"]),
        ("english", []),
        ("typed-decisions", []),
    ]
    with pytest.raises(UnknownCheckpoint):
        router.unload("nobody")


def test_attach_runs_no_load_event_and_raises_max_loaded() -> None:
    """L-34: what is resident always fits; nothing was built."""
    log: list[str] = []
    router = StubRouter(log, max_loaded=1, hooks=RouterRecorder(log))
    router.load("english")
    log.clear()
    mine = StubAgent("mine", log)

    assert router.attach("mine", mine) is mine
    assert router.load("Mine") is mine
    assert log == []
    assert (router.max_loaded, router.loaded) == (2, ["english", "mine"])
    assert router.predict("s", QUESTIONS, model="mine")["routing"]["repo"] is None
    assert router.registered["mine"] == {"source": None, "description": None, "stand_in": False}


def test_attach_under_a_resident_name_lets_the_former_agent_go() -> None:
    """L-30: on_evict when one is released; the same agent again changes nothing."""
    log: list[str] = []
    router = StubRouter(log, hooks=RouterRecorder(log))
    router.load("english")
    log.clear()
    mine = StubAgent()

    router.attach("en", mine)
    router.attach("english", mine)

    assert log == ["hook.evict english"]
    assert router.load("english") is mine


def test_preload_loads_all_or_some_and_raises_max_loaded() -> None:
    """L-34: none goes for another; each is announced."""
    log: list[str] = []
    router = StubRouter(log, max_loaded=1, hooks=RouterRecorder(log))

    assert router.preload(["ml"]) is router
    assert (router.max_loaded, router.loaded) == (1, ["multilingual"])
    router.preload()

    assert router.max_loaded == len(router.loaded) == 3
    assert [entry for entry in log if entry.startswith("hook")] == [
        *("hook.load multilingual", "hook.load english", "hook.load typed-decisions")
    ]
    assert StubRouter(preload=True).loaded == ["english", "multilingual", "typed-decisions"]
    assert StubRouter().preload("typed").loaded == ["typed-decisions"]


def test_concurrent_loads_of_one_checkpoint_build_it_once() -> None:
    """L-35: and only the one that built it announces it."""
    entered, go = threading.Event(), threading.Event()

    def wait() -> None:
        entered.set()
        assert go.wait(PATIENCE)

    log: list[str] = []
    router = StubRouter(log, {"english": wait}, hooks=RouterRecorder(log))
    agents: list[Any] = []
    threads = [start_thread(lambda: agents.append(router.load("en"))) for _ in range(6)]
    assert entered.wait(PATIENCE)
    assert router.loaded == []  # answers while the build goes on
    router.load("multilingual")
    go.set()
    for thread in threads:
        thread.join(PATIENCE)

    assert len(agents) == 6
    assert len(set(map(id, agents))) == 1
    assert log.count("build english") == log.count("hook.load english") == 1


def test_lowering_max_loaded_evicts_at_once() -> None:
    """L-32: oldest first, each announced."""
    log: list[str] = []
    router = StubRouter(max_loaded=3, hooks=RouterRecorder(log)).preload()
    log.clear()

    router.max_loaded = 1

    assert router.loaded == ["typed-decisions"]
    assert log == ["hook.evict english", "hook.evict multilingual"]


def test_a_failing_load_hook_reaches_the_caller_and_the_agent_stays() -> None:
    router = StubRouter(hooks=RouterRecorder(load=fails_with(RuntimeError("odd"))))

    with pytest.raises(RuntimeError, match="odd"):
        router.predict("s", QUESTIONS)

    assert router.loaded == ["english"]
    assert router.predict("s", QUESTIONS)["answers"] == {"of": "s"}


def test_register_adds_or_replaces_and_lets_the_old_agent_go() -> None:
    log: list[str] = []
    router = StubRouter(log, hooks=RouterRecorder(log))
    router.load("multilingual")
    log.clear()

    assert router.register("Papers", "org/papers", "for papers") == "papers"
    assert router.register("ml", ("org/all", "ml")) == "multilingual"

    assert log == ["hook.evict multilingual"]
    assert router.registered["papers"] == {
        "source": "org/papers",
        "description": "for papers",
        "stand_in": False,
    }
    assert router.models["multilingual"] == Source("org/all", "ml")
    decision = router.route("Guten Morgen, wie geht es Ihnen heute?")
    assert (decision.repo, decision.stand_in) == ("org/all/ml", False)
    assert "stand-in" not in decision.reason


def test_unregister_frees_what_is_the_users_own() -> None:
    log: list[str] = []
    router = StubRouter(log, hooks=RouterRecorder(log))
    router.register("papers", "org/papers")
    router.load("papers")

    router.unregister("papers")

    assert log[-1] == "hook.evict papers"
    with pytest.raises(UnknownCheckpoint, match="no checkpoint 'papers'"):
        router.load("papers")
    for name in ("en", "multilingual"):
        with pytest.raises(InvalidOption, match="cannot be unregistered; give it another source"):
            router.unregister(name)
    router.register("papers", "org/papers")
    router.default = "papers"
    with pytest.raises(InvalidOption, match="is the default and cannot be unregistered"):
        router.unregister("papers")


def test_the_default_is_any_known_name() -> None:
    router = StubRouter(default="ml")

    assert router.default == "multilingual"
    assert router.route("ok").model == "multilingual"
    with pytest.raises(UnknownCheckpoint, match="did you mean 'english'"):
        router.default = "englisch"
    with pytest.raises(UnknownCheckpoint):
        Router(default="nobody")
    assert router.default == "multilingual"


@pytest.mark.parametrize(
    ("models", "standalone", "sources", "default"),
    [
        ("embedded", False, EMBEDDED, "english"),
        (None, False, EMBEDDED, "english"),
        ("hub", False, HUB, "multilingual"),
        ("hub", True, STANDALONE, "multilingual"),
    ],
)
def test_the_registries(models: Any, standalone: bool, sources: Any, default: str) -> None:
    router = Router(models, standalone_repos=standalone)

    assert router.models == dict(sources)
    assert router.default == default
    assert router.loaded == []


def test_the_hub_registry_names_the_published_checkpoints() -> None:
    assert [str(source) for source in HUB.values()] == [
        "convaiinnovations/laya",
        "convaiinnovations/laya/multilingual",
        "convaiinnovations/laya/typed-decisions",
    ]


def test_a_dict_adds_to_the_embedded_ones_or_replaces_them(tmp_path: Path) -> None:
    router = Router({"ml": tmp_path, "Papers": ("org/papers", "v2")})

    assert list(router.registered) == ["english", "multilingual", "typed-decisions", "papers"]
    assert router.registered["english"]["stand_in"] is True
    assert router.registered["multilingual"]["source"] == str(tmp_path)
    assert router.registered["papers"]["source"] == "org/papers/v2"


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ("hubb", "'embedded', 'hub' or a dict.*did you mean 'hub'"),
        ("./folder", "For one checkpoint write"),
        (["english"], "got a list"),
        ({"english": None}, "a source is a folder"),
        ({"english": ""}, "a source is a folder"),
        ({"english": ("repo", 7)}, "a source is a folder"),
        ({"english": StubAgent()}, r"router.attach\('english', agent\)"),
        ({"org/name": "folder"}, "a checkpoint's name is made of letters.*'org/name'"),
    ],
)
def test_bad_models_are_refused(models: Any, message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        Router(models)


def test_standalone_repos_goes_with_the_hub() -> None:
    for models in ("embedded", {"english": "folder"}):
        with pytest.raises(InvalidOption, match="goes with models='hub'"):
            Router(models, standalone_repos=True)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"calibrate": 1}, "holds 'calibrate', which Agent does not take; it takes"),
        ({"device": "cpu"}, "cannot hold 'device'"),
        ({"hooks": []}, "cannot hold 'hooks'"),
    ],
)
def test_agent_kwargs_are_checked_when_the_router_is_made(
    kwargs: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidOption, match=message):
        Router(agent_kwargs=kwargs)


def test_revisions_and_digests_are_by_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, dict[str, Any]] = {}

    def make(source: str, device: Any, **kwargs: Any) -> StubAgent:
        given[f"{source}/{kwargs['subfolder']}"] = {"device": device, **kwargs}
        return StubAgent()

    router = Router(
        "hub",
        "cpu",
        "secret",
        "main",
        {"ml": "abc123", "typed": None},
        agent_kwargs={"expected_sha256": {"all": "0", "both": "1"}, "calibration": "file"},
        sha256_digests={"ml": {"both": "2"}, "typed": None},
    )
    monkeypatch.setattr("jevlaya_lab.system_one.residency.Agent", make)
    router.preload()

    common = {"device": "cpu", "token": "secret", "calibration": "file"}
    shared = {"all": "0", "both": "1"}
    rest = {
        "None": {"subfolder": None, "revision": "main", "expected_sha256": shared},
        "multilingual": {"revision": "abc123", "expected_sha256": {"all": "0", "both": "2"}},
        "typed-decisions": {"revision": "main", "expected_sha256": shared},
    }
    for name, options in rest.items():
        expected = {"subfolder": name, **common, **options}
        assert given[f"convaiinnovations/laya/{name}"] == expected
    assert router.agent_kwargs["expected_sha256"] == shared
    with pytest.raises(UnknownCheckpoint):
        Router(revisions={"nobody": "x"})
    with pytest.raises(UnknownCheckpoint):
        Router(sha256_digests={"nobody": {}})


def test_a_checkpoint_that_is_not_there_is_named_with_the_ways_out(tmp_path: Path) -> None:
    router = Router({"multilingual": tmp_path / "nowhere"})
    hook = RouterRecorder()

    with pytest.raises(CheckpointNotFound) as caught:
        router.predict("Guten Morgen, wie geht es Ihnen?", QUESTIONS, hooks=hook)

    message = str(caught.value)
    assert message.startswith(
        f"checkpoint 'multilingual' ({tmp_path / 'nowhere'}) cannot be loaded"
    )
    for way in ("router.register('multilingual'", "router.attach(", "default=", "lang='en'"):
        assert way in message
    assert caught.value.__cause__ is not None
    assert hook.log == ["hook.route"]
    assert router.loaded == []
    assert router.predict("Guten Morgen", QUESTIONS, lang="en")["routing"]["model"] == "english"


def test_a_damaged_checkpoint_keeps_its_kind_of_error(tmp_path: Path) -> None:
    folder = make_checkpoint(tmp_path / "c")
    router = Router(
        {"english": folder}, sha256_digests={"english": {"model.safetensors": "0" * 64}}
    )

    with pytest.raises(CheckpointInvalid, match=r"checkpoint 'english' .*cannot be loaded"):
        router.load("english")
    assert router.loaded == []


@pytest.mark.parametrize("thing", [StubAgent, object(), "agent", None])
def test_what_cannot_answer_is_not_attached(thing: Any) -> None:
    router = StubRouter()

    with pytest.raises(InvalidInput, match="attach takes an agent"):
        router.attach("mine", thing)
    assert "mine" not in router.registered


def test_an_attached_agent_is_no_stand_in() -> None:
    router = StubRouter()
    router.attach("multilingual", StubAgent())

    decision = router.route("Guten Morgen, wie geht es Ihnen heute?")

    assert (decision.repo, decision.stand_in) == (None, False)
    assert "stand-in" not in decision.reason
    assert router.registered["multilingual"]["stand_in"] is False
    router.unload("multilingual")
    assert router.route("Guten Morgen, wie geht es Ihnen heute?").stand_in is True


def test_the_name_of_an_attached_agent_stays_known_when_it_is_gone() -> None:
    router = StubRouter(max_loaded=1)
    router.attach("mine", StubAgent())
    router.default = "mine"
    router.load("english")

    assert router.route("ok").model == "mine"
    with pytest.raises(UnknownCheckpoint, match="'mine' was attached without a source and is gone"):
        router.predict("ok", QUESTIONS)
    router.default = "english"
    router.unregister("mine")
    with pytest.raises(UnknownCheckpoint, match="no checkpoint 'mine'"):
        router.load("mine")


def test_a_router_is_no_agent() -> None:
    with pytest.raises(InvalidInput, match="got a router"):
        StubRouter().attach("english", StubRouter())


def test_a_failing_hook_does_not_keep_the_other_events_from_being_announced() -> None:
    """L-28, L-31: all are announced, then the first error is raised."""
    hook = RouterRecorder(evict=fails_with(RuntimeError("odd")))
    router = StubRouter(max_loaded=1, hooks=hook)
    router.load("english")
    with pytest.raises(RuntimeError, match="odd"):
        router.load("multilingual")
    assert hook.log[1:] == ["hook.evict english", "hook.load multilingual"]

    router.max_loaded = 3
    router.preload()
    hook.log.clear()
    with pytest.raises(RuntimeError, match="odd"):
        router.unload()
    assert len(hook.log) == 3
    assert router.loaded == []


def test_a_failing_preload_leaves_max_loaded_as_it_was() -> None:
    router = StubRouter(first={"typed-decisions": lambda: 1 / 0}, max_loaded=1)

    with pytest.raises(ZeroDivisionError):
        router.preload()

    assert router.max_loaded == len(router.loaded) == 2
    router.unload()
    router.max_loaded = 1
    with pytest.raises(ZeroDivisionError):
        router.preload(["typed"])
    assert router.max_loaded == 1


def test_one_checkpoint_under_two_of_its_names_is_refused() -> None:
    with pytest.raises(InvalidOption, match="names 'english' twice: as 'english' and 'en'"):
        Router({"en": "a", "english": "b"})
