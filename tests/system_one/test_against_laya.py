"""The Router beside laya 0.4.15: the same scenarios, checkpoints and hooks, event by event.

Every step of a scenario is done by both, and then compared: what it gave or raised, what each hook
saw, who is resident, and what attached agents were asked. Where the two differ on purpose, a test
below asserts both behaviours, and ``expected_here`` says how laya's log has to be read:

- ``laya`` makes the context of ``predict`` before routing, so that a route or a load that fails
  runs ``on_error`` and ``on_predict_end`` of a run that never started. Here nothing has started.
- ``ctx.model`` in ``predict`` is the resolved name here; there it is what a hook pinned.
- Replacing a resident agent with ``attach`` runs ``on_evict`` here.
- All requests of a batch are checked here before the first is routed.
- ``preload`` counts as a use here also of what was resident already.
- The usage of a batch that failed is summed here as in ``predict``, and not there.
- An agent's name for itself differs (``result["model"]``), and so do reasons and detections.
"""

from __future__ import annotations

import copy
import gc
import random
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from parity import Compared
from tiny import make_checkpoint

from jevlaya_lab.system_one.errors import InvalidQuestion, InvalidResult, UnknownCheckpoint
from jevlaya_lab.system_one.router import Router

LIMIT = 1e-3
NAMES = ("english", "multilingual", "typed-decisions")
EVENTS = (
    *("on_route", "on_load", "on_evict"),
    *("on_predict_start", "on_error", "on_predict_end"),
)
QUESTIONS: list[dict[str, Any]] = [
    {"q": {"type": "noul", "instructions": "Is it so?"}},
    {"team": {"type": "choice", "instructions": "Which team?", "criteria": {"a": "x", "b": "y"}}},
    {"team": {"type": "choice", "instructions": "Which team?", "criteria": {"b": "y", "a": "x"}}},
    {
        "u": {"type": "score", "instructions": "How urgent?", "criteria": ["low", "mid", "high"]},
        "q": {"type": "noul", "instructions": "Is it so?"},
    },
    {},
]
BAD_QUESTION = {"q": {"type": "riddle", "instructions": "Which kind is this?"}}
STATES: list[Any] = [
    "Please refund the second payment.",
    "The refund did not arrive.",
    "My parcel is late.",
    {"subject": "parcel", "days": 9},
    [{"role": "user", "content": "Cancel my contract"}],
]
CACHED = {"model": "cache", "answers": {}, "usage": {"input_tokens": 5, "output_tokens": 2}}


class Planned(RuntimeError):
    """What a hook was told to raise."""


def _skip(ctx: Any) -> None:
    ctx.skip([copy.deepcopy(CACHED)])


def _skip_routed(ctx: Any) -> None:
    ctx.skip([{**copy.deepcopy(CACHED), "routing": {"model": "of the cache"}}])


def _states(ctx: Any) -> None:
    ctx.states = [f"rewritten: {ctx.states[0]}"]


def _questions(ctx: Any) -> None:
    ctx.questions = copy.deepcopy(QUESTIONS[1])


def _mutate(ctx: Any) -> None:
    ctx.questions["added"] = {"type": "noul", "instructions": "Was this added?"}


def _budget(ctx: Any) -> None:
    ctx.max_len, ctx.head_max_len = 48, 24


def _annotate(ctx: Any) -> None:
    for result in ctx.results or ():
        result["note"] = str(ctx.states[0])


def _replace(ctx: Any) -> None:
    if ctx.results is not None:
        ctx.results = [{**result, "replaced": True} for result in ctx.results]


def _raise(ctx: Any) -> None:
    raise Planned("as planned")


def _interrupt(ctx: Any) -> None:
    raise KeyboardInterrupt


def _pin(name: str) -> Callable[[Any], None]:
    def pin(ctx: Any) -> None:
        ctx.decision = {"model": name, "reason": "pinned"}

    return pin


ACTIONS: dict[str, Callable[[Any], None]] = {
    "skip": _skip,
    "skip_routed": _skip_routed,
    "states": _states,
    "questions": _questions,
    "mutate": _mutate,
    "budget": _budget,
    "annotate": _annotate,
    "replace": _replace,
    "raise": _raise,
    "interrupt": _interrupt,
    "pin_ml": _pin("ml"),
    "pin_typed": _pin("typed-decisions"),
    "pin_unknown": _pin("nowhere"),
}


class Plan(NamedTuple):
    """A hook to be made on both sides: what it does in which event, where ``only`` is in sight."""

    name: str
    actions: dict[str, str] = {}  # noqa: RUF012
    only: str = ""


class Seen(NamedTuple):
    """What a hook saw of one event."""

    hook: str
    event: str
    checkpoint: str | None
    states: Any
    questions: Any
    budgets: tuple[int | None, int | None]
    decision: str | None
    has_error: bool
    n_results: int | None
    usage: dict[str, int] | None
    has_agent: bool
    run: str = ""


class Spy:
    """Writes down each event, then does what its plan says."""

    def __init__(self, plan: Plan, log: list[Seen], router: Any) -> None:
        self.plan = plan
        self.log = log
        self.router = router

    def _note(self, event: str, ctx: Any) -> None:
        assert ctx.router is self.router
        usage = None
        if ctx.usage is not None and ctx.error is None:
            usage = {key: ctx.usage[key] for key in ("input_tokens", "output_tokens")}
        seen = Seen(
            self.plan.name,
            event,
            ctx.model,
            copy.deepcopy(ctx.states),
            copy.deepcopy(ctx.questions),
            (ctx.max_len, ctx.head_max_len),
            None if ctx.decision is None else ctx.decision["model"],
            ctx.error is not None,
            None if ctx.results is None else len(ctx.results),
            usage,
            ctx.agent is not None,
            ctx.run_id,
        )
        self.log.append(seen)
        action = self.plan.actions.get(event)
        if action is not None and self.plan.only in f"{ctx.states}":
            ACTIONS[action](ctx)


def _note_of(event: str) -> Callable[[Spy, Any], None]:
    return lambda spy, ctx: spy._note(event, ctx)


for _event in EVENTS:
    setattr(Spy, _event, _note_of(_event))


class Echo:
    """An agent that answers with what it was asked, and keeps how it was asked."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.asked: list[Any] = []
        self.lang_temperatures = {"de": 2.0}

    def system_one(self, state: Any, questions: Any, **options: Any) -> dict[str, Any]:
        self.asked.append(self._kept("system_one", state, questions, options))
        return self._result(state)

    def predict_batch(self, states: Any, questions: Any, **options: Any) -> list[dict[str, Any]]:
        self.asked.append(self._kept("predict_batch", states, questions, options))
        return [self._result(state) for state in states]

    def _kept(self, entry: str, about: Any, questions: Any, options: Mapping[str, Any]) -> Any:
        given = {name: each for name, each in options.items() if each is not None}
        return entry, copy.deepcopy(about), copy.deepcopy(questions), given

    def _result(self, state: Any) -> dict[str, Any]:
        usage = {"input_tokens": len(str(state)), "output_tokens": 0}
        return {"answers": {"echo": f"{self.name}: {state}"}, "usage": usage}


class Outcome(NamedTuple):
    """What a step gave, or what it raised."""

    value: Any
    error: BaseException | None


Step = tuple[str, dict[str, Any]]


class Side:
    """One of the two routers with its hooks; does steps, which are plain data."""

    def __init__(self, router: Any, folders: Sequence[Path]) -> None:
        self.router = router
        self.folders = folders
        self.log: list[Seen] = []
        self.echoes: list[Echo] = []
        self.installed: dict[str, Spy] = {}

    def do(self, step: Step) -> Outcome:
        name, arguments = step
        del self.log[:]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return Outcome(getattr(self, name)(**copy.deepcopy(arguments)), None)
        except (Exception, KeyboardInterrupt) as exc:
            return Outcome(None, exc)

    def install(self, plan: Plan) -> None:
        self.installed[plan.name] = spy = Spy(plan, self.log, self.router)
        self.router.add_hook(spy)

    def remove(self, name: str) -> bool:
        return bool(self.router.remove_hook(self.installed.pop(name, None)))

    def route(self, request: dict[str, Any], plans: Sequence[Plan] = ()) -> Any:
        return dict(self.router.route(**request, hooks=self._spies(plans)))

    def predict(
        self, request: dict[str, Any], plans: Sequence[Plan] = (), hooks_raise: bool | None = None
    ) -> Any:
        return self.router.predict(**request, hooks=self._spies(plans), hooks_raise=hooks_raise)

    def predict_batch(
        self,
        requests: Sequence[dict[str, Any]],
        plans: Sequence[Plan] = (),
        hooks_raise: bool | None = None,
    ) -> Any:
        return self.router.predict_batch(
            requests, hooks=self._spies(plans), hooks_raise=hooks_raise
        )

    def load(self, name: str) -> None:
        self.router.load(name)

    def unload(self, name: str | None = None) -> None:
        self.router.unload(name)

    def attach(self, name: str) -> None:
        self.echoes.append(Echo(f"echo {len(self.echoes)}"))
        self.router.attach(name, self.echoes[-1])

    def preload(self, names: list[str] | None = None) -> None:
        self.router.preload(names)

    def register(self, name: str, folder: int) -> Any:
        return self.router.register(name, str(self.folders[folder]))

    def unregister(self, name: str) -> None:
        self.router.unregister(name)

    def _spies(self, plans: Sequence[Plan]) -> list[Spy]:
        return [Spy(plan, self.log, self.router) for plan in plans]


class Both:
    """The two sides in step."""

    def __init__(self, folders: Sequence[Path], max_loaded: int) -> None:
        import laya

        options: dict[str, Any] = {"device": "cpu", "max_loaded": max_loaded, "default": "english"}
        models = {name: str(folder) for name, folder in zip(NAMES, folders, strict=True)}
        self.here = Side(Router(models, **options), folders)
        self.there = Side(laya.Router(models, **options), folders)

    def do(self, name: str, /, **arguments: Any) -> Outcome:
        """Do a step on both sides, compare all that it did, and give our outcome."""
        resident = {each: self.here.router.load for each in self.here.router.loaded}
        here, there = self.here.do((name, arguments)), self.there.do((name, arguments))
        if name == "preload" and there.error is None:
            # There, what was resident already does not count as used.
            for each in arguments.get("names") or list(self.there.router.models):
                self.there.router.load(each)
        if name == "attach" and here.error is None and self._known(arguments["name"]) in resident:
            # Nobody hears of a replaced agent there.
            key = self._known(arguments["name"])
            assert self.there.log == []
            assert {(s.event, s.checkpoint) for s in self.here.log} == {("on_evict", key)}
            assert [s.hook for s in self.here.log] == list(self.here.installed)
        elif name == "predict_batch" and not self._all_known(arguments["requests"]):
            # There, the requests before the unknown one are routed first.
            assert isinstance(here.error, UnknownCheckpoint)
            assert self.here.log == []
            assert there.error is not None
            assert {s.event for s in self.there.log} <= {"on_route"}
        else:
            self._compare(here, there)
        assert self.here.router.loaded == self.there.router.loaded
        assert self.here.router.max_loaded == self.there.router.max_loaded
        asked_here = [echo.asked for echo in self.here.echoes]
        assert asked_here == [echo.asked for echo in self.there.echoes]
        return here

    def _compare(self, here: Outcome, there: Outcome) -> None:
        ours = [seen._replace(run="") for seen in self.here.log]
        assert ours == expected_here(self.there, there)
        assert no_end_without_start(self.here.log)
        if there.error is not None:
            assert here.error is not None, f"laya raised {there.error!r}"
            assert isinstance(here.error, type(there.error))
            return
        assert here.error is None, f"laya raised nothing, here {here.error!r}"
        assert_same(here.value, there.value)

    def _known(self, name: str) -> str | None:
        try:
            return self.here.router.resolve(name)
        except UnknownCheckpoint:
            return None

    def _all_known(self, requests: Sequence[dict[str, Any]]) -> bool:
        return all(r.get("model") is None or self._known(r["model"]) for r in requests)


def no_end_without_start(log: Sequence[Seen]) -> bool:
    started = {seen.run for seen in log if seen.event == "on_predict_start"}
    return started >= {s.run for s in log if s.event in ("on_error", "on_predict_end")}


def expected_here(there: Side, outcome: Outcome) -> list[Seen]:
    """What the seed expects where laya's log is this."""
    started = {seen.run for seen in there.log if seen.event == "on_predict_start"}
    expected = []
    for seen in there.log:
        if seen.event in ("on_error", "on_predict_end") and seen.run not in started:
            # The route or the load failed: there, the run ends although it never started.
            assert outcome.error is not None
            assert seen.has_error
            continue
        name = seen.checkpoint
        if name is not None and seen.decision == name:
            name = there.router.resolve(name)  # there, what was pinned
        expected.append(seen._replace(checkpoint=name, run=""))
    return expected


def assert_same(here: Any, there: Any) -> None:
    """Results, decisions or other values; numbers within the limit."""
    if isinstance(here, list):
        assert isinstance(there, list)
        assert len(here) == len(there)
        for ours, theirs in zip(here, there, strict=True):
            assert_same(ours, theirs)
        return
    found = Compared()
    found.add("", comparable(here), comparable(there))
    assert found.differences == []
    assert found.largest <= LIMIT


def comparable(value: Any) -> Any:
    """A result or a decision without what only one package says, or says in its own words."""
    if not isinstance(value, dict):
        return value
    kept = {key: each for key, each in value.items() if key != "routing"}
    if "routing" in value:
        kept["routing"] = value["routing"]["model"]
    if "answers" in value and value.get("model") != "cache":
        kept.pop("model", None)
    if "reason" in value:
        return {"model": value["model"]}
    return kept


@pytest.fixture(scope="module", autouse=True)
def _cheap_evictions() -> Iterator[None]:
    """Every eviction collects garbage: let it not go through all that was imported each time."""
    import laya.agent  # noqa: F401

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    root = tmp_path_factory.mktemp("checkpoints")
    return [make_checkpoint(root / f"c{seed}", seed=seed) for seed in range(3)]


@pytest.fixture
def both(folders: list[Path]) -> Iterator[Both]:
    return Both(folders, max_loaded=3)


def ask(state: Any = STATES[0], questions: int = 0, model: str | None = None, **more: Any) -> Any:
    request = {"state": state, "questions": QUESTIONS[questions], **more}
    return request if model is None else {**request, "model": model}


WATCH = Plan("watch")
MIXED = [
    ask(STATES[0], 1, "english"),
    ask(STATES[2], 0, "ml"),
    ask(STATES[0], 2, "en"),
    ask(STATES[0], 1, "english"),
    ask(STATES[1], 1, "english", max_len=48),
    ask(STATES[3], 3, "typed"),
    ask(STATES[4], 0, "multilingual", head_max_len=24),
    ask(STATES[1], 1, "english", max_len=48),
    ask(STATES[2], 4, "multi"),
    ask(STATES[1], 0, lang="en"),
    ask(STATES[1], 0, lang="de-AT"),
    ask(STATES[1], 0, task="typed_decisions"),
]
"""Duplicates, aliases, two orders of the same options, budgets, no questions, every hint."""

START, END, ERROR, ROUTE = "on_predict_start", "on_predict_end", "on_error", "on_route"
SCRIPTS: dict[str, list[Plan]] = {
    "nothing but watching": [],
    "skipping": [Plan("a", {START: "skip"}, only="refund")],
    "skipping all": [Plan("a", {START: "skip_routed"})],
    "rewriting states": [Plan("a", {START: "states"}, only="parcel")],
    "rewriting questions": [Plan("a", {START: "questions"}, only="refund")],
    "changing shared questions in place": [Plan("a", {START: "mutate"}, only="parcel")],
    "setting budgets": [Plan("a", {START: "budget"}, only="refund")],
    "pinning by an alias": [Plan("a", {ROUTE: "pin_ml"}, only="refund")],
    "pinning all, last one wins": [Plan("a", {ROUTE: "pin_ml"}), Plan("b", {ROUTE: "pin_typed"})],
    "pinning what is unknown": [Plan("a", {ROUTE: "pin_unknown"}, only="parcel")],
    "raising in on_route": [Plan("a", {ROUTE: "raise"}, only="parcel")],
    "raising in start": [Plan("a", {START: "raise"}, only="parcel")],
    "raising in end": [Plan("a", {END: "raise"}, only="refund"), Plan("b", {END: "annotate"})],
    "raising in start, error and end": [
        Plan("a", {START: "raise", ERROR: "raise", END: "raise"}, only="Cancel")
    ],
    "interrupted": [Plan("a", {START: "interrupt"}, only="late")],
    "interrupted in end": [Plan("a", {END: "interrupt"}, only="late")],
    "skipped, then refused": [Plan("a", {START: "skip"}), Plan("b", {START: "raise"}, "parcel")],
    "changing results": [Plan("a", {END: "annotate"}), Plan("b", {END: "replace"})],
}


@pytest.mark.parametrize("per_call", [False, True], ids=["installed", "per call"])
@pytest.mark.parametrize("script", SCRIPTS)
def test_a_batch_and_single_calls_go_as_in_laya(both: Both, script: str, per_call: bool) -> None:
    """L-11 to L-29: events, contexts, residency, results and exceptions."""
    both.do("install", plan=WATCH)
    plans = SCRIPTS[script]
    if not per_call:
        for plan in plans:
            both.do("install", plan=plan)
    given = {"plans": plans} if per_call else {}

    both.do("predict_batch", requests=MIXED, **given)
    assert any(seen.event == ROUTE for seen in both.here.log)
    for request in MIXED:
        both.do("predict", request=request, **given)
        both.do("route", request={k: v for k, v in request.items() if "max_len" not in k}, **given)
    both.do("predict_batch", requests=MIXED, hooks_raise=False, **given)
    both.do("predict_batch", requests=[], **given)


@pytest.mark.parametrize("max_loaded", [1, 2, 3])
def test_checkpoints_come_and_go_as_in_laya(folders: list[Path], max_loaded: int) -> None:
    """L-30 to L-34: residency after every step, and who heard of it in which order."""
    both = Both(folders, max_loaded)
    both.do("install", plan=WATCH)
    both.do("install", plan=Plan("second"))
    for name in ("english", "ML", "en", "typed", "english", "multilingual"):
        both.do("load", name=name)
    both.do("unload", name="en")
    both.do("unload", name="english")
    both.do("attach", name="typed")
    both.do("attach", name="typed")
    both.do("predict_batch", requests=MIXED)
    both.do("register", name="Extra", folder=1)
    both.do("predict", request=ask(model="extra"))
    both.do("register", name="extra", folder=1)
    assert not both.here.log
    both.do("register", name="extra", folder=2)
    both.do("predict", request=ask(model="extra"))
    both.do("preload", names=["en", "typed", "extra"])
    both.do("register", name="english", folder=2)
    both.do("predict", request=ask(model="english"))
    both.do("unregister", name="extra")
    both.do("predict", request=ask(model="extra"))
    both.do("unregister", name="english")
    both.do("preload")
    both.do("unload")
    assert both.here.log, "the last ones go as well"
    both.do("install", plan=Plan("fails in on_load", {"on_load": "raise"}))
    for name in NAMES:
        both.do("load", name=name)
        both.do("predict", request=ask(model=name))
    both.do("unload")


def test_attached_agents_are_asked_as_in_laya(both: Both) -> None:
    """L-15, L-23: the groups, budgets and languages that reach an agent."""
    both.do("install", plan=WATCH)
    for name in NAMES:
        both.do("attach", name=name)
    in_german = [{**request, "lang": "de"} for request in MIXED[:8]]

    both.do("predict_batch", requests=MIXED + in_german)
    for request in MIXED + in_german:
        both.do("predict", request=request)

    asked = [each for echo in both.here.echoes for each in echo.asked]
    assert any(entry == "predict_batch" and len(about) > 1 for entry, about, *_ in asked)
    assert any(options.get("lang") == "de" for *_, options in asked)


def random_plan(draw: random.Random, name: str) -> Plan:
    choices = {
        START: ("skip", "skip_routed", "states", "questions", "budget", "raise", "interrupt"),
        END: ("annotate", "replace", "raise"),
        ERROR: ("raise",),
        ROUTE: ("pin_ml", "pin_typed", "pin_typed", "pin_unknown", "raise"),
        "on_load": ("raise",),
    }
    events = draw.sample(sorted(choices), draw.choice((0, 1, 1, 2)))
    if "on_load" in events and draw.random() < 0.7:
        events.remove("on_load")
    only = draw.choice(("", "refund", "parcel", "Cancel"))
    return Plan(name, {event: draw.choice(choices[event]) for event in events}, only)


def random_request(draw: random.Random) -> dict[str, Any]:
    request: dict[str, Any] = {"state": draw.choice(STATES), "questions": draw.choice(QUESTIONS)}
    if draw.random() < 0.04:
        request["questions"] = BAD_QUESTION
    hint = draw.random()
    if hint < 0.7:
        request["model"] = draw.choice((*NAMES, "en", "ML ", "typed", "extra"))
    elif hint < 0.9:
        request["lang"] = draw.choice(("en", "en_US", "de", "hi"))
    else:
        request["task"] = "typed_decisions"
    if draw.random() < 0.2:
        request["max_len"] = draw.choice((32, 48))
    if draw.random() < 0.1:
        request["head_max_len"] = draw.choice((20, 32))
    return request


def random_step(draw: random.Random) -> Step:
    plans = [random_plan(draw, f"call {i}") for i in range(draw.choice((0, 0, 1, 2)))]
    raising = draw.choice((None, None, True, False))
    name = draw.choice(("a", "b"))
    known = draw.choice((*NAMES, "laya", "multi", "decisions"))
    steps: list[tuple[float, Callable[[], Step]]] = [
        (2, lambda: ("install", {"plan": random_plan(draw, name)})),
        (2, lambda: ("remove", {"name": name})),
        (
            4,
            lambda: (
                "predict",
                {"request": random_request(draw), "plans": plans, "hooks_raise": raising},
            ),
        ),
        (
            5,
            lambda: (
                "predict_batch",
                {
                    "requests": [random_request(draw) for _ in range(draw.randrange(7))] * 2,
                    "plans": plans,
                    "hooks_raise": raising,
                },
            ),
        ),
        (1, lambda: ("load", {"name": draw.choice((known, known, known, "extra"))})),
        (1, lambda: ("unload", {"name": draw.choice((known, None))})),
        (1, lambda: ("attach", {"name": known})),
        (0.5, lambda: ("register", {"name": "extra", "folder": draw.randrange(3)})),
        (0.3, lambda: ("register", {"name": draw.choice(NAMES), "folder": draw.randrange(3)})),
        (0.3, lambda: ("unregister", {"name": draw.choice(("extra", known))})),
        (0.3, lambda: ("preload", {"names": [known]})),
    ]
    weights = [weight for weight, _ in steps]
    return draw.choices([make for _, make in steps], weights)[0]()


@pytest.mark.parametrize("seed", range(24))
def test_random_scenarios_go_as_in_laya(folders: list[Path], seed: int) -> None:
    draw = random.Random(seed)
    both = Both(folders, max_loaded=1 + seed % 3)
    both.do("install", plan=WATCH)
    for _ in range(15):
        name, arguments = random_step(draw)
        if name == "install" and arguments["plan"].name in both.here.installed:
            continue
        both.do(name, **arguments)


def events(side: Side) -> list[str]:
    return [seen.event for seen in side.log]


def each_does(both: Both, name: str, /, **arguments: Any) -> tuple[Outcome, Outcome]:
    """A step whose outcomes differ: ours, then laya's."""
    return both.here.do((name, arguments)), both.there.do((name, arguments))


@pytest.mark.parametrize(
    ("plan", "request_"),
    [
        (Plan("a", {ROUTE: "raise"}), ask(model="english")),
        (Plan("a", {ROUTE: "pin_unknown"}), ask(model="english")),
        (Plan("a"), ask(model="nowhere")),
        (Plan("a", {"on_load": "raise"}), ask(model="english")),
    ],
    ids=["on_route raises", "on_route pins what is unknown", "model is unknown", "on_load raises"],
)
def test_a_route_or_load_that_fails_ends_no_run_here(
    both: Both, plan: Plan, request_: dict[str, Any]
) -> None:
    """L-11: there is no context before there is an agent. In laya there is one from the first."""
    both.do("install", plan=plan)

    both.do("predict", request=request_)

    assert not {START, ERROR, END} & set(events(both.here))
    assert events(both.there)[-2:] == [ERROR, END]


def test_the_context_of_predict_has_the_resolved_name_here(both: Both) -> None:
    """L-20: the same name as in a batch. In laya it is what the hook pinned."""
    both.do("install", plan=Plan("a", {ROUTE: "pin_ml"}))

    both.do("predict", request=ask(model="english"))

    assert [s.checkpoint for s in both.here.log if s.event == START] == ["multilingual"]
    assert [s.checkpoint for s in both.there.log if s.event == START] == ["ml"]


def test_a_replaced_agent_is_heard_of_here(both: Both) -> None:
    """L-30: on_evict when one is released."""
    both.do("install", plan=WATCH)
    both.do("load", name="english")

    both.do("attach", name="en")

    assert events(both.here) == ["on_evict"]
    assert events(both.there) == []


def test_all_requests_are_checked_before_the_first_is_routed_here(both: Both) -> None:
    both.do("install", plan=WATCH)

    both.do("predict_batch", requests=[ask(model="english"), ask(model="nowhere")])

    assert events(both.here) == []
    assert events(both.there) == [ROUTE]


def test_preloading_counts_as_use_here(folders: list[Path]) -> None:
    both = Both(folders, max_loaded=3)
    for name in ("english", "multilingual"):
        both.do("load", name=name)

    each_does(both, "preload", names=["english"])

    assert both.here.router.loaded == ["multilingual", "english"]
    assert both.there.router.loaded == ["english", "multilingual"]


def test_lowering_max_loaded_evicts_at_once_here(both: Both) -> None:
    for name in ("english", "multilingual"):
        both.do("load", name=name)
    both.do("install", plan=WATCH)

    both.here.router.max_loaded = both.there.router.max_loaded = 1

    assert (both.here.router.loaded, events(both.here)) == (["multilingual"], ["on_evict"])
    assert (both.there.router.loaded, events(both.there)) == (["english", "multilingual"], [])


def test_the_name_of_an_attached_agent_that_is_gone_stays_known(both: Both) -> None:
    """L-11: it is routed as in laya, and then the load says what became of it."""
    both.do("install", plan=WATCH)
    both.do("attach", name="mine")
    both.do("unload", name="mine")

    here, there = each_does(both, "predict", request=ask(model="mine"))

    assert isinstance(here.error, UnknownCheckpoint)
    assert isinstance(there.error, ValueError)
    assert events(both.here) == [ROUTE]
    assert events(both.there) == [ROUTE, ERROR, END]


def test_a_failing_hook_keeps_no_other_event_of_a_load_or_unload_from_running_here(
    both: Both,
) -> None:
    """L-28, L-31: in laya the first failure ends the announcements."""
    both.do("install", plan=Plan("fails", {"on_evict": "raise"}))
    both.do("load", name="english")
    both.do("load", name="multilingual")
    for side in (both.here, both.there):
        side.router.max_loaded = 2

    here, there = each_does(both, "load", name="typed")
    assert isinstance(here.error, Planned)
    assert isinstance(there.error, Planned)
    assert events(both.here) == ["on_evict", "on_load"]
    assert events(both.there) == ["on_evict"]

    each_does(both, "unload")
    assert (events(both.here), events(both.there)) == (["on_evict"] * 2, ["on_evict"])
    assert both.here.router.loaded == both.there.router.loaded == []


def test_usage_of_a_batch_that_failed_is_summed_here(both: Both) -> None:
    """L-25, L-27: what a cache hit used is known, whatever became of the others."""
    used: list[Any] = []

    class Usage:
        def on_predict_end(self, ctx: Any) -> None:
            used.append(ctx.usage)

    plans = [Plan("a", {START: "skip"}, only="refund"), Plan("b", {START: "raise"}, only="parcel")]
    for side in (both.here, both.there):
        side.router.add_hook(Usage())
        requests = [ask(STATES[0], model="english"), ask(STATES[2], model="english")]
        assert isinstance(
            side.do(("predict_batch", {"requests": requests, "plans": plans})).error, Planned
        )

    assert used == [None, CACHED["usage"], None, None]


def test_a_start_hook_that_changes_the_decision_in_place_changes_the_routing_here(
    both: Both,
) -> None:
    """L-14, L-15: the context and the result have one decision. In laya the context has a copy."""

    class Mark:
        def on_predict_start(self, ctx: Any) -> None:
            ctx.decision["mark"] = True

    results = []
    for side in (both.here, both.there):
        side.router.add_hook(Mark())
        results.append(side.do(("predict", {"request": ask(model="english")})).value)

    assert ["mark" in result["routing"] for result in results] == [True, False]


def test_a_decision_that_a_hook_assigns_again_and_again_is_each_requests_own(both: Both) -> None:
    """L-38: what a start hook notes on one request's decision does not show in another's."""

    class Pin:
        decision = {"model": "english"}  # noqa: RUF012

        def on_route(self, ctx: Any) -> None:
            ctx.decision = self.decision

        def on_predict_start(self, ctx: Any) -> None:
            ctx.decision["about"] = ctx.states[0]

    about: dict[Side, list[Any]] = {}
    for side in (both.there, both.here):
        side.router.add_hook(Pin())
        requests = [ask(STATES[0]), ask(STATES[1])]
        results = side.do(("predict_batch", {"requests": requests})).value
        about[side] = [result["routing"].get("about") for result in results]
        Pin.decision = {"model": "english"}

    assert about[both.there] == [None, None]
    assert about[both.here] in ([None, None], STATES[:2])


@pytest.mark.parametrize("left", ["just text", ["one", "two"]])
def test_a_start_hook_must_leave_one_state_here(both: Both, left: Any) -> None:
    """In laya the first of whatever it is, a letter of a text too, is answered."""

    class Leave:
        def on_predict_start(self, ctx: Any) -> None:
            ctx.states = left

    for side in (both.here, both.there):
        side.router.add_hook(Leave())

    here, there = each_does(both, "predict", request=ask(model="english"))

    assert isinstance(here.error, TypeError)
    assert there.error is None


@pytest.mark.parametrize("questions", [None, ["q"]])
def test_questions_of_the_wrong_kind_are_another_error_here(both: Both, questions: Any) -> None:
    """A ValueError here, as all that is wrong with questions; a TypeError in laya."""
    here, there = each_does(both, "predict", request={**ask(), "questions": questions})

    assert isinstance(here.error, InvalidQuestion)
    assert isinstance(there.error, TypeError)


@pytest.mark.parametrize("decision", [None, {"reason": "no model"}])
def test_what_is_no_decision_is_named_here(both: Both, decision: Any) -> None:
    class Leave:
        def on_route(self, ctx: Any) -> None:
            ctx.decision = decision

    for side in (both.here, both.there):
        side.router.add_hook(Leave())

    here, there = each_does(both, "predict", request=ask(model="english"))

    assert isinstance(here.error, InvalidResult)
    assert isinstance(there.error, (TypeError, KeyError))


@pytest.mark.parametrize("entry", ["predict", "predict_batch"])
def test_bad_questions_are_refused_before_a_build_where_nothing_listens_here(
    both: Both, entry: str
) -> None:
    """In laya the checkpoint is built, and may evict another, for a request that must fail."""
    bad = {**ask(model="english"), "questions": BAD_QUESTION}
    arguments = {"request": bad} if entry == "predict" else {"requests": [bad]}

    here, there = each_does(both, entry, **arguments)

    assert isinstance(here.error, InvalidQuestion)
    assert isinstance(there.error, ValueError)
    assert both.here.router.loaded == []
    assert both.there.router.loaded == ["english"]


@pytest.mark.parametrize("entry", ["predict", "predict_batch"])
def test_an_end_hook_hears_of_bad_questions_whether_or_not_the_agent_is_resident(
    both: Both, entry: str
) -> None:
    """L-17, L-27: on_error, then on_predict_end."""
    bad = {**ask(model="english"), "questions": BAD_QUESTION}
    heard: dict[Side, list[str]] = {both.here: [], both.there: []}

    class Audit:
        def __init__(self, log: list[str]) -> None:
            self.log = log

        def on_error(self, ctx: Any) -> None:
            self.log.append(ERROR)

        def on_predict_end(self, ctx: Any) -> None:
            self.log.append(END)

    for side, log in heard.items():
        side.router.add_hook(Audit(log))
        side.do((entry, {"request": bad} if entry == "predict" else {"requests": [bad]}))

    assert heard[both.there] == [ERROR, END]
    assert heard[both.here] == [ERROR, END]


def test_predict_and_a_batch_ask_the_same_agent(both: Both) -> None:
    """L-15, L-18: the loaded one, also where a start hook assigned another to the context."""

    class Swap:
        def on_predict_start(self, ctx: Any) -> None:
            ctx.agent = Echo("swapped in")

    answers = []
    for side in (both.there, both.here):
        side.router.add_hook(Swap())
        single = side.do(("predict", {"request": ask(model="english")})).value
        batch = side.do(("predict_batch", {"requests": [ask(model="english")]})).value
        answers.append([set(single["answers"]), set(batch[0]["answers"])])

    assert answers[0] == [{"q"}, {"q"}]
    assert answers[1] == [{"q"}, {"q"}]


def test_the_comparison_notices_what_differs(both: Both) -> None:
    """A hook on one side only, and an answer that is off by more than the limit."""
    both.here.install(WATCH)
    with pytest.raises(AssertionError):
        both.do("load", name="english")
    with pytest.raises(AssertionError):
        assert_same([{"answers": {"q": {"noul": 0.5}}}], [{"answers": {"q": {"noul": 0.502}}}])
    with pytest.raises(AssertionError):
        assert_same(
            {"answers": {}, "routing": {"model": "a"}}, {"answers": {}, "routing": {"model": "b"}}
        )
