"""Router: picks the checkpoint for each request, loads it, and lets its agent answer.

::

    predict        route (on_route) → load (on_evict, on_load) → start hooks → agent → end hooks
    predict_batch  route all → for each checkpoint: load → all start hooks → grouped forward passes
                   → all end hooks, in reverse order

The parts: :mod:`routing` decides, :mod:`residency` loads and evicts, :mod:`lifecycle` brackets,
:mod:`answering` asks the agent, in the groups of :mod:`grouping`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from jevlaya_lab.markup import safely
from jevlaya_lab.system_one import lifecycle
from jevlaya_lab.system_one.answering import Asked, answer_alone, answer_together, only_result
from jevlaya_lab.system_one.asking import ask_long, ask_one
from jevlaya_lab.system_one.call_tree import OneCall
from jevlaya_lab.system_one.calling import raise_again
from jevlaya_lab.system_one.context import PredictContext
from jevlaya_lab.system_one.decoding import apply_min_confidence, check_min_confidence
from jevlaya_lab.system_one.dispatch import ActiveHooks
from jevlaya_lab.system_one.encoding import check_count, state_text
from jevlaya_lab.system_one.errors import InvalidInput, InvalidOption, InvalidResult
from jevlaya_lab.system_one.eviction import EvictionPolicy
from jevlaya_lab.system_one.hooks import CallableArg, HookArg
from jevlaya_lab.system_one.questions import Questions, prepare
from jevlaya_lab.system_one.request import Request, check_request, numbered, read_requests
from jevlaya_lab.system_one.residency import Residency
from jevlaya_lab.system_one.routing import Hints, Policy, RouteDecision, decide
from jevlaya_lab.system_one.showing import router_html

__all__ = ["Router"]

Self = TypeVar("Self", bound="Router")
Result = TypeVar("Result")
Asks = Callable[[Any, Any, Any, Mapping[str, Any]], dict[str, Any]]


class Router(Residency):
    """Answers requests with the checkpoint that suits each; from many threads at once (L-38).

    >>> with Router() as router:
    ...     result = router.predict("I was charged twice.", {"refund": Noul("Asks for a refund.")})
    ...     result["routing"]["model"]
    'english'

    Args:
        models: ``"embedded"``: the checkpoint of this package stands in under all three names, so
            that everything works offline. ``"hub"``: the three published checkpoints. Or a dict
            ``{name: folder or org/name or (repo, subfolder)}``, added to the embedded ones.
        device: For every checkpoint: ``None`` for the best there is, or such as ``"cuda:1"``.
        token: Access token for the hub.
        revision: Branch, tag or commit for every checkpoint from a hub.
        revisions: The same by checkpoint; ``None`` falls back to ``revision``.
        max_loaded: How many checkpoints may be resident; the least recently used goes first.
        default: The checkpoint for states of which nothing can be told; ``None`` is ``"english"``,
            with ``"hub"`` ``"multilingual"``.
        auto_task_detection: Let question ids of a known workflow choose ``typed-decisions``.
        standalone_repos: With ``"hub"``: each checkpoint from a repository of its own.
        preload: Load all checkpoints now.
        lang_guess: A language code, or a function of the state that gives one or ``None``; asked
            before the built-in detection.
        hooks: Hooks to install, see ``HookRegistry`` for these and the following.
        on_predict_start: Functions to install as start hooks.
        on_predict_end: Functions to install as end hooks.
        hooks_raise: Whether a failing hook fails the call.
        hooks_concurrent: Whether hooks may run in several threads at once.
        hooks_timeout: Seconds that one hook call may take.
        agent_kwargs: Further arguments for every Agent that is built, such as
            ``lang_temperatures``.
        sha256_digests: By checkpoint, digests by file name, checked before a file is read.
        policy: Another eviction policy.

    Attributes:
        agent_kwargs: As given; read at each build.
        auto_task_detection: As given; may be changed.
        lang_guess: As given; may be changed.

    Raises:
        UnknownCheckpoint: ``default`` or a key of ``revisions`` or ``sha256_digests`` is unknown.
        InvalidOption: An argument is outside what it takes.
        InvalidHook: A hook is none.

    Source: rules L-11 to L-35; arguments and payload are those of ``laya`` 0.4.15.
    """

    def __init__(
        self,
        models: Any = "embedded",
        device: Any = None,
        token: str | None = None,
        revision: str | None = None,
        revisions: Mapping[str, str | None] | None = None,
        max_loaded: int = 2,
        default: str | None = None,
        auto_task_detection: bool = False,
        standalone_repos: bool = False,
        preload: bool = False,
        lang_guess: Any = None,
        hooks: HookArg = None,
        on_predict_start: CallableArg = None,
        on_predict_end: CallableArg = None,
        hooks_raise: bool = True,
        hooks_concurrent: bool = True,
        hooks_timeout: float | None = None,
        agent_kwargs: Mapping[str, Any] | None = None,
        sha256_digests: Mapping[str, Mapping[str, str] | None] | None = None,
        *,
        policy: EvictionPolicy | None = None,
    ) -> None:
        super().__init__(
            models,
            device=device,
            token=token,
            revision=revision,
            revisions=revisions,
            sha256_digests=sha256_digests,
            agent_kwargs=agent_kwargs,
            max_loaded=max_loaded,
            policy=policy,
            default=default,
            standalone_repos=standalone_repos,
            hooks=hooks,
            on_predict_start=on_predict_start,
            on_predict_end=on_predict_end,
            hooks_raise=hooks_raise,
            hooks_concurrent=hooks_concurrent,
            hooks_timeout=hooks_timeout,
        )
        check_request(Request("", {}, Hints(lang_guess=lang_guess)))
        self.auto_task_detection = bool(auto_task_detection)
        self.lang_guess = lang_guess
        if preload:
            self.preload()

    def route(
        self,
        state: Any,
        questions: Questions | None = None,
        model: str | None = None,
        task: str | None = None,
        lang: str | None = None,
        lang_guess: Any = None,
        hooks: HookArg = None,
        hooks_raise: bool | None = None,
        hooks_timeout: float | None = None,
        *,
        explain: bool = False,
    ) -> RouteDecision:
        """Decide which checkpoint would answer; nothing is loaded (L-12).

        Args:
            state: What the decision is about.
            questions: What is asked; needed only to recognise a workflow.
            model: A checkpoint's name or alias: it decides.
            task: The same, for ``"typed-decisions"``.
            lang: Code of the state's language; blank, ``C`` and ``und`` name none and are passed
                over.
            lang_guess: A code, or a function of the state that gives one or ``None``.
            hooks: Hooks for this call; ``on_route`` may replace ``ctx.decision``.
            hooks_raise: For this call instead of the Router's setting.
            hooks_timeout: For this call instead of the Router's setting, in seconds.
            explain: Add to ``detection`` what the detector saw: shares of scripts, letters, its
                reason.

        Returns:
            The decision, as the hooks left it.

        Raises:
            InvalidInput: The state is ``None``, a name is unknown, or a hint is of a wrong kind.
            InvalidResult: A hook left something that is no decision.
        """
        hints = Hints(model, task, lang, lang_guess)
        request = check_request(Request(state, {} if questions is None else questions, hints))
        active = self.active_hooks(hooks, hooks_raise=hooks_raise, hooks_timeout=hooks_timeout)
        with OneCall():
            return self._route(request, active, self._policy(), explain)

    def route_batch(
        self,
        requests: Iterable[Mapping[str, Any]],
        hooks_timeout: float | None = None,
        *,
        hooks: HookArg = None,
        hooks_raise: bool | None = None,
        explain: bool = False,
    ) -> list[RouteDecision]:
        """Decide for many requests, in order; nothing is loaded (L-19).

        Args:
            requests: As for :meth:`predict_batch`; all are checked before the first is routed.
            hooks_timeout: See :meth:`route`, like the other arguments.
            hooks: See :meth:`route`.
            hooks_raise: See :meth:`route`.
            explain: See :meth:`route`.

        Raises:
            InvalidInput: Naming the first bad request by its number, from 0.
        """
        read = read_requests(requests)
        active = self.active_hooks(hooks, hooks_raise=hooks_raise, hooks_timeout=hooks_timeout)
        with OneCall():
            return self._route_all(read, active, explain)

    def predict(
        self,
        state: Any,
        questions: Questions,
        model: str | None = None,
        task: str | None = None,
        lang: str | None = None,
        lang_guess: Any = None,
        hooks: HookArg = None,
        on_predict_start: CallableArg = None,
        on_predict_end: CallableArg = None,
        hooks_raise: bool | None = None,
        hooks_timeout: float | None = None,
        max_len: int | None = None,
        head_max_len: int | None = None,
        min_confidence: float | Mapping[str, float] | None = None,
    ) -> dict[str, Any]:
        """Route a request, load its checkpoint if need be, and answer (L-11).

        Args:
            state: Text, a JSON object, or a conversation as a list of turns.
            questions: ``{id: definition}``, plain dicts or ``Choice``, ``Score``, ``Noul``.
            model: See :meth:`route`, like the other hints.
            task: See :meth:`route`.
            lang: See :meth:`route`; also chooses the agent's temperatures of that language.
            lang_guess: See :meth:`route`.
            hooks: Hooks for this call, run after the installed ones; they wrap the whole call and
                are not passed to the agent, whose own hooks run as well (L-15).
            on_predict_start: Functions run as start hooks after those.
            on_predict_end: Functions run as end hooks after those.
            hooks_raise: For this call instead of the Router's setting.
            hooks_timeout: For this call instead of the Router's setting, in seconds.
            max_len: Token budget of the state with all that goes with it.
            head_max_len: Token budget of the question part.
            min_confidence: A threshold for ``answer_confidence``, see :meth:`Agent.predict_batch`.

        Returns:
            The agent's result with the decision under ``"routing"``, as the end hooks left it.

        Raises:
            InvalidInput: Something of it cannot be used; nothing was loaded for it.
            CheckpointError: The checkpoint cannot be fetched or read.
            BaseException: What a hook raised.
        """
        request = Request(
            state, questions, Hints(model, task, lang, lang_guess), max_len, head_max_len
        )
        active = self.active_hooks(
            hooks, on_predict_start, on_predict_end, hooks_raise, hooks_timeout
        )
        return self._answer(request, active, "predict", ask_one, {}, min_confidence)

    system_one = predict

    def predict_long(
        self,
        state: Any,
        questions: Questions,
        model: str | None = None,
        task: str | None = None,
        lang: str | None = None,
        lang_guess: Any = None,
        window: int | None = None,
        stride: int | None = None,
        aggregate: str = "auto",
        batch_size: int | None = None,
        hooks: HookArg = None,
        on_predict_start: CallableArg = None,
        on_predict_end: CallableArg = None,
        hooks_raise: bool | None = None,
        hooks_timeout: float | None = None,
        max_len: int | None = None,
        head_max_len: int | None = None,
        min_confidence: float | Mapping[str, float] | None = None,
    ) -> dict[str, Any]:
        """Route a long state and read it in windows: the agent's ``predict_long`` in ``predict``.

        Args:
            state: See :meth:`predict`, like all arguments that are not named below.
            questions: See :meth:`predict`.
            model: See :meth:`route`.
            task: See :meth:`route`.
            lang: See :meth:`route`.
            lang_guess: See :meth:`route`.
            window: State tokens per window, see :meth:`Agent.predict_long` for these four.
            stride: Tokens from the beginning of a window to that of the next.
            aggregate: How the windows' answers become one.
            batch_size: Windows per forward pass.
            hooks: See :meth:`predict`; they see the state as it was given.
            on_predict_start: See :meth:`predict`.
            on_predict_end: See :meth:`predict`.
            hooks_raise: See :meth:`predict`.
            hooks_timeout: See :meth:`predict`.
            max_len: See :meth:`predict`.
            head_max_len: See :meth:`predict`.
            min_confidence: See :meth:`predict`.

        Returns:
            One result; each answer has a ``window``, and ``usage["windows"]`` counts them.

        Raises:
            InvalidOption: The agent cannot read in windows, or an argument is out of range.
            JevlayaError: As :meth:`predict`.
        """
        request = Request(
            state, questions, Hints(model, task, lang, lang_guess), max_len, head_max_len
        )
        if aggregate != "auto":
            raise InvalidOption(f"aggregate is 'auto', got {aggregate!r}")
        numbers = {"window": window, "stride": stride, "batch_size": batch_size}
        options = {name: check_count(name, each) for name, each in numbers.items()}
        active = self.active_hooks(
            hooks, on_predict_start, on_predict_end, hooks_raise, hooks_timeout
        )
        given = {name: each for name, each in options.items() if each is not None}
        return self._answer(request, active, "predict_long", ask_long, given, min_confidence)

    def predict_batch(
        self,
        requests: Iterable[Mapping[str, Any]],
        batch_size: int | None = None,
        hooks_timeout: float | None = None,
        min_confidence: float | Mapping[str, float] | None = None,
        sort_by_length: bool | None = None,
        *,
        hooks: HookArg = None,
        on_predict_start: CallableArg = None,
        on_predict_end: CallableArg = None,
        hooks_raise: bool | None = None,
    ) -> list[dict[str, Any]]:
        """Answer many requests, checkpoint by checkpoint, sharing forward passes (L-18 to L-29).

        Args:
            requests: Dicts with ``state`` and ``questions``, and optionally ``model``, ``task``,
                ``lang``, ``lang_guess``, ``max_len``, ``head_max_len``; other keys are left alone.
            batch_size: States per forward pass; ``None`` fills each pass up to a token budget.
            hooks_timeout: See :meth:`predict`, like the hooks' other arguments.
            min_confidence: See :meth:`predict`.
            sort_by_length: See :meth:`Agent.predict_batch`.
            hooks: See :meth:`predict`; start and end hooks run once per request.
            on_predict_start: See :meth:`predict`.
            on_predict_end: See :meth:`predict`.
            hooks_raise: See :meth:`predict`.

        Returns:
            For each request, in order, what :meth:`predict` gives for it.

        Raises:
            InvalidInput: Naming the first bad request by its number, from 0; nothing was loaded.
            JevlayaError: As :meth:`predict`. Checkpoints that were done keep their ends (L-29).
        """
        read = read_requests(requests)
        active = self.active_hooks(
            hooks, on_predict_start, on_predict_end, hooks_raise, hooks_timeout
        )
        thresholds = check_min_confidence(min_confidence)
        options: dict[str, Any] = {"batch_size": check_count("batch_size", batch_size)}
        options["sort_by_length"] = sort_by_length
        given = {name: value for name, value in options.items() if value is not None}
        results: list[Any] = [None] * len(read)
        with OneCall():
            decisions = self._route_all(read, active, explain=False)
            for name, members in self._by_checkpoint(decisions).items():
                # A hook may have given one object to all; each request has a decision of its own.
                asked = [Asked(read[i], RouteDecision(decisions[i]), i) for i in members]
                found = self._answer_group(name, asked, active, given, thresholds)
                for i, result in zip(members, found, strict=True):
                    results[i] = result
        return results

    predict_many = predict_batch

    def _policy(self) -> Policy:
        return Policy(
            self._pool.resolve,
            self._pool.source_of,
            self._default,
            self.lang_guess,
            self.auto_task_detection,
        )

    def _route(
        self,
        request: Request,
        hooks: ActiveHooks,
        policy: Policy,
        explain: bool,
        number: int | None = None,
    ) -> RouteDecision:
        began = time.perf_counter()
        state, questions = request.state, request.questions
        decision = _of_request(number, decide, state, questions, request.hints, policy, explain)
        if not hooks.entries:
            return decision
        ctx = PredictContext(
            states=[state],
            questions=questions,
            decision=decision,
            router=self,
            started_at=began,
            elapsed_ms=(time.perf_counter() - began) * 1e3,
            scope="route",
            entry="route",
        )
        error = lifecycle.announce("on_route", ctx, hooks)
        if error is not None:
            raise_again(error)
        decision = ctx.decision
        if not isinstance(decision, (dict, Mapping)) or "model" not in decision:
            which = "" if number is None else f"request {number}: "
            raise InvalidResult(
                f"{which}the on_route hooks left {decision!r} where a decision belongs, "
                "a dict such as {'model': 'english'}"
            )
        return decision

    def _route_all(
        self, requests: Sequence[Request], hooks: ActiveHooks, explain: bool
    ) -> list[RouteDecision]:
        policy = self._policy()
        for i, request in enumerate(requests):
            for name in request.hints[:2]:
                if name is not None:
                    _of_request(i, policy.resolve, name)
        return [
            self._route(request, hooks, policy, explain, i) for i, request in enumerate(requests)
        ]

    def _by_checkpoint(self, decisions: Sequence[RouteDecision]) -> dict[str, list[int]]:
        """The requests of each checkpoint, in order of first appearance (L-20)."""
        groups: dict[str, list[int]] = {}
        for i, decision in enumerate(decisions):
            name = _of_request(i, self.resolve, decision["model"])
            groups.setdefault(name, []).append(i)
        return groups

    def _answer(
        self,
        request: Request,
        hooks: ActiveHooks,
        entry: str,
        ask: Asks,
        options: Mapping[str, Any],
        min_confidence: Any,
    ) -> dict[str, Any]:
        request = check_request(request)
        thresholds = check_min_confidence(min_confidence)
        with OneCall():
            decision = self._route(request, hooks, self._policy(), explain=False)
            asked = Asked(request, RouteDecision(decision) if hooks.entries else decision)
            name = self.resolve(asked.decision["model"])
            if not self._pool.is_loaded(name):
                self._check_before_build([(None, request)], hooks)
            agent = self.load(name)
            ctx = self._run_of(asked, name, agent, entry)

            def work(_: Sequence[PredictContext]) -> None:
                answer_alone(ctx, asked, agent, ask, options)
                ctx.results = apply_min_confidence(ctx.results, thresholds)

            lifecycle.run((ctx,), hooks, work)
        return only_result(ctx)  # type: ignore[no-any-return]  # an end hook may leave anything

    def _answer_group(
        self,
        name: str,
        asked: Sequence[Asked],
        hooks: ActiveHooks,
        options: Mapping[str, Any],
        thresholds: Any,
    ) -> list[dict[str, Any]]:
        """The results of all requests that go to one checkpoint, which nothing holds afterwards."""
        if not self._pool.is_loaded(name):
            self._check_before_build([(each.number, each.request) for each in asked], hooks)
        agent = self.load(name)
        started: list[PredictContext] = []

        def work(runs: Sequence[PredictContext]) -> None:
            started.extend(runs)
            answer_together(runs, asked, agent, options)
            for ctx in runs:
                ctx.results = apply_min_confidence(ctx.results, thresholds)

        contexts = (self._run_of(each, name, agent, "predict_batch") for each in asked)
        lifecycle.run(contexts, hooks, work)
        return [only_result(ctx) for ctx in started]

    def _check_before_build(
        self, requests: Sequence[tuple[int | None, Request]], hooks: ActiveHooks
    ) -> None:
        """Refuse what an agent would refuse before it is built, where no hook would hear of it."""
        if any(map(hooks.listens, ("on_predict_start", "on_error", "on_predict_end"))):
            return
        for i, request in requests:
            _of_request(i, prepare, request.questions)
            _of_request(i, state_text, request.state)

    def _run_of(self, asked: Asked, name: str, agent: Any, entry: str) -> PredictContext:
        request = asked.request
        return PredictContext(
            states=[request.state],
            questions=request.questions,
            decision=asked.decision,
            model=name,
            agent=agent,
            router=self,
            max_len=request.max_len,
            head_max_len=request.head_max_len,
            entry=entry,
            scope="router",
        )

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.unload()

    def _repr_html_(self) -> str:
        return safely(self, router_html)

    def __repr__(self) -> str:
        return (
            f"Router(loaded={self.loaded}, max_loaded={self.max_loaded}, "
            f"default={self.default!r}, hooks={self.hooks!r})"
        )


def _of_request(i: int | None, function: Callable[..., Result], *args: Any) -> Result:
    """Call a function; bad input that it refuses is said to be that of request ``i``."""
    try:
        return function(*args)
    except InvalidInput as exc:
        if i is None:
            raise
        raise numbered(i, exc) from None
