"""Prove that the rules are guarded: break each one in a copy, and see a test that cites it fail.

Run ``python tests/break_rules.py``; ``--rule L-39`` (repeatable) tries the mutations of one rule,
``--rule E`` those of all whose names begin so. L-rules are those of the lifecycle, E-rules those of
the embedding room (``docs/embedding.md``).
It copies the package and its tests into a temporary folder, checks that the tests pass there, then
applies one mutation at a time and runs the tests whose docstring begins with the rule's number.
It prints what broke each mutation, and exits with 1 if one survives.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from embedding_mutations import EMBEDDING

ROOT = Path(__file__).resolve().parent.parent
SOURCES = {"L": "jevlaya_lab/system_one", "E": "jevlaya_lab/embedding"}
"""Where the rules of a letter are kept."""

TESTS = tuple(
    f"tests/system_one/test_{name}.py"
    for name in (
        *("lifecycle", "hooks", "calling", "context", "questions", "agent", "encoding"),
        *("router", "router_batch", "residency", "pool", "routing", "grouping", "call_tree"),
    )
) + tuple(
    f"tests/embedding/test_{name}.py"
    for name in (
        *("local", "remote", "hashing", "identity", "texts", "metrics", "parts", "stores"),
    )
)
"""Those that need a kernel, or the weights, are left out: they take long."""

HELPERS = ("conftest", "fakes", "tiny", "embedding_fakes", "embedding_server", "pg_server")

GUARDED = (
    *(f"L-{number}" for number in range(1, 42)),
    *("L-41a", "L-42", "L-43", "L-43a", "L-44"),
    *(f"E-{number}" for number in range(1, 14)),
    "E-6a",
)
"""Rules of ``lifecycle.md`` and ``embedding.md``, all of them."""

PROCESSES = 2
TIME_LIMIT = 60.0
LIMIT_UNBROKEN = 300.0
"""Seconds for all tests of the package as it is."""


class Mutation(NamedTuple):
    """A change of the source that breaks a rule.

    ``old`` must occur exactly once in ``file``, which lies where the rules of its letter are kept.
    """

    rule: str
    breaks: str
    file: str
    old: str
    new: str

    @property
    def path(self) -> Path:
        """Of the file, in the project."""
        return Path(SOURCES[self.rule[0]], self.file)


# Each line is a whole piece of source, so that a mutation reads like a diff.
MUTATIONS = (
    Mutation(
        "L-1",
        "predict passes on something else than [state]",
        "agent.py",
        "            [state],\n",
        "            [str(state)],\n",
    ),
    Mutation(
        "L-1",
        "system_one goes past predict_batch",
        "agent.py",
        "    system_one = predict\n",
        "    def system_one(self, state, questions, **_):\n"
        "        return self._infer(PredictContext([state], questions), None, None)[0]\n",
    ),
    Mutation(
        "L-2",
        "per-call hooks run before the installed ones",
        "hooks.py",
        'defaults + self._installed + entries("call", hooks, on_predict_start, on_predict_end)',
        'defaults + entries("call", hooks, on_predict_start, on_predict_end) + self._installed',
    ),
    Mutation(
        "L-2",
        "classes are taken for hooks",
        "hooks.py",
        "    if isinstance(hook, type):\n        raise InvalidHook(",
        "    if hook is type:\n        raise InvalidHook(",
    ),
    Mutation(
        "L-3",
        "the context does not know its agent",
        "agent.py",
        "            agent=self,\n",
        "            agent=None,\n",
    ),
    Mutation(
        "L-4",
        "budgets that a start hook sets are ignored",
        "inference.py",
        "self._budget_of(ctx.max_len, ctx.head_max_len)",
        "self._budget_of(None, None)",
    ),
    Mutation(
        "L-4",
        "skip(None) undoes the skip of an earlier hook",
        "context.py",
        "            self.results = list(results)\n",
        "            self.results = list(results)\n"
        "        else:\n"
        "            self.results = None\n",
    ),
    Mutation(
        "L-5",
        "the network runs although a hook skipped",
        "agent.py",
        "            if ctx.results is None:\n                ctx.results = self._infer(",
        "            if True:\n                ctx.results = self._infer(",
    ),
    Mutation(
        "L-5",
        "skipping with an empty list is no skip",
        "agent.py",
        "            if ctx.results is None:\n                ctx.results = self._infer(",
        "            if not ctx.results:\n                ctx.results = self._infer(",
    ),
    Mutation(
        "L-6",
        "all states are encoded before the first forward pass",
        "inference.py",
        "ahead = batch_size if batch_size is not None and not by_length else LOOK_AHEAD",
        "ahead = LOOK_AHEAD",
    ),
    Mutation(
        "L-6",
        "a label that shows the same text twice gets through",
        "definitions.py",
        "if label in first or str(label) in shown:",
        "if label in first:",
    ),
    Mutation(
        "L-6",
        "one string is taken for a list of states",
        "encoding.py",
        "if isinstance(states, (str, bytes)) or not isinstance(states, (list, tuple)):",
        "if not isinstance(states, (list, tuple, str)):",
    ),
    Mutation(
        "L-7",
        "KeyboardInterrupt goes past on_error",
        "lifecycle.py",
        "    except BaseException as failure:\n",
        "    except Exception as failure:\n",
    ),
    Mutation(
        "L-8",
        "no end hook after a failure",
        "lifecycle.py",
        '    later = _attempt(hooks, "on_predict_end", ctx)\n',
        '    later = failure or _attempt(hooks, "on_predict_end", ctx)\n',
    ),
    Mutation(
        "L-8",
        "usage is set where there are no results",
        "lifecycle.py",
        "isinstance(ctx.results, (list, tuple)) and ctx.results:",
        "isinstance(ctx.results, (list, tuple)):",
    ),
    Mutation(
        "L-8",
        "the time of the error hooks is not counted",
        "lifecycle.py",
        "            own = time.perf_counter() - began\n",
        "            own = 0.0\n",
    ),
    Mutation(
        "L-9",
        "the error hook gets a context of its own",
        "lifecycle.py",
        '_attempt(hooks, "on_error", ctx)',
        '_attempt(hooks, "on_error", __import__("copy").copy(ctx))',
    ),
    Mutation(
        "L-9",
        "all runs have the same run_id",
        "context.py",
        "run_id: str = field(default_factory=new_id)",
        'run_id: str = field(default="run")',
    ),
    Mutation(
        "L-10",
        "the call returns a copy of what the end hooks left",
        "agent.py",
        "        return ctx.results  # type: ignore[return-value]",
        "        return list(ctx.results or ())  #",
    ),
    Mutation(
        "L-21",
        "all contexts are built before the first start hook",
        "lifecycle.py",
        "        for ctx in contexts:\n",
        "        for ctx in list(contexts):\n",
    ),
    Mutation(
        "L-22",
        "a run ends before the next one starts",
        "lifecycle.py",
        "            ctx.skipped = ctx.results is not None\n",
        "            ctx.skipped = ctx.results is not None\n"
        '            _attempt(hooks, "on_predict_end", ctx)\n',
    ),
    Mutation(
        "L-25",
        "a run's usage is that of its whole group",
        "lifecycle.py",
        "aggregate_usage(ctx.results)",
        "aggregate_usage([r for c, _ in started for r in c.results or ()])",
    ),
    Mutation(
        "L-26",
        "runs end in the order in which they started",
        "lifecycle.py",
        "    for ctx in reversed(started):\n",
        "    for ctx in started:\n",
    ),
    Mutation(
        "L-27",
        "a run counts as started after its start hooks only",
        "lifecycle.py",
        "            started.append(ctx)"
        "  # L-27: it counts as started before its first hook\n"
        '            _dispatch(hooks, "on_predict_start", ctx)\n',
        '            _dispatch(hooks, "on_predict_start", ctx)\n            started.append(ctx)\n',
    ),
    Mutation(
        "L-27",
        "runs that have results are not told of the failure",
        "lifecycle.py",
        "        ctx.error = failure\n",
        "        ctx.error = failure if ctx.results is None else None\n",
    ),
    Mutation(
        "L-27",
        "on_predict_end of the failed runs is skipped",
        "lifecycle.py",
        '    later = _attempt(hooks, "on_predict_end", ctx)\n',
        '    later = None if failure else _attempt(hooks, "on_predict_end", ctx)\n',
    ),
    Mutation(
        "L-28",
        "a failing end hook keeps the other runs from ending",
        "lifecycle.py",
        "    except BaseException as exc:\n        return exc\n",
        "    except KeyError as exc:\n        return exc\n",
    ),
    Mutation(
        "L-28",
        "the last error of an end hook is raised, not the first",
        "lifecycle.py",
        "            elif first is None:\n",
        "            elif first is not later:\n",
    ),
    Mutation(
        "L-36",
        "a call without questions reaches the network",
        "inference.py",
        "        if not texts or not questions:\n",
        "        if not texts:\n",
    ),
    Mutation(
        "L-37",
        "end hooks run in reverse order",
        "dispatch.py",
        "in enumerate(self.entries):",
        'in enumerate(self.entries[:: -1 if event == "on_predict_end" else 1]):',
    ),
    Mutation(
        "L-38",
        "the agent keeps the context of its last call",
        "agent.py",
        "        lifecycle.run((ctx,), active, work)\n        return ctx.results  #",
        "        self._last = ctx\n        lifecycle.run((ctx,), active, work)\n"
        "        return self._last.results  #",
    ),
    Mutation(
        "L-38",
        "hooks never run at once",
        "hooks.py",
        "lock=None if self.hooks_concurrent else self._chain_lock",
        "lock=self._chain_lock",
    ),
    Mutation(
        "L-39",
        "hooks_concurrent=False has no effect",
        "hooks.py",
        "lock=None if self.hooks_concurrent else self._chain_lock",
        "lock=None",
    ),
    Mutation(
        "L-39",
        "the lock is not re-entrant",
        "calling.py",
        "next((h for h in reversed(held) if h.of is self.of and h.active), None)",
        "None",
    ),
    Mutation(
        "L-39",
        "a chain that was given up still counts as holding the lock",
        "calling.py",
        "if h.of is self.of and h.active)",
        "if h.of is self.of)",
    ),
    Mutation(
        "L-39",
        "threads of one chain do not take turns",
        "calling.py",
        "self.of._lock if outer is None else outer.inner",
        "self.of._lock if outer is None else threading.Lock()",
    ),
    Mutation(
        "L-39",
        "a hook under a timeout does not belong to the chain",
        "calling.py",
        "context.run(method, ctx)",
        "method(ctx)",
    ),
    Mutation(
        "L-39",
        "an inner call's async hooks wait for the loop that waits for them",
        "calling.py",
        "_LEVEL.set(level + 1)",
        "_LEVEL.set(level)",
    ),
    Mutation(
        "L-40",
        "every run opens a call of its own",
        "lifecycle.py",
        "    call_id = new_id() if outer is None else outer.call_id",
        "    call_id = new_id()",
    ),
    Mutation(
        "L-40",
        "runs do not know their parent",
        "lifecycle.py",
        "    parent = None if outer is None else outer.run_id",
        "    parent = None",
    ),
    Mutation(
        "L-40",
        "what the work calls is not under the run",
        "lifecycle.py",
        "whose = started[0].run_id if len(started) == 1 else parent",
        "whose = parent",
    ),
    Mutation(
        "L-40",
        "a finished call leaves its scope behind",
        "lifecycle.py",
        "        hooks.dispatch(event, ctx)\n    finally:\n        leave(token)\n",
        "        hooks.dispatch(event, ctx)\n    finally:\n        pass\n",
    ),
    Mutation(
        "L-41",
        "collating counts as encoding",
        "inference.py",
        'with timings.during("collate"):',
        'with timings.during("encode"):',
    ),
    Mutation(
        "L-41",
        "embedding the questions is no forward time",
        "inference.py",
        "        timings.forward_ms += embedding_ms\n",
        "",
    ),
    Mutation(
        "L-41",
        "padding is not counted",
        "inference.py",
        "batch.n_tokens, batch.n_padding, elapsed_ms",
        "batch.n_tokens, 0, elapsed_ms",
    ),
    Mutation(
        "L-41a",
        "a hook's changes are put down to the hooks behind it as well",
        "dispatch.py",
        "                before = after\n",
        "",
    ),
    Mutation(
        "L-41a",
        "the notes keep the exception, and with it the agent",
        "dispatch.py",
        "                text = error_text(error)\n",
        "                text = error\n",
    ),
    Mutation(
        "L-41a",
        "waiting for the lock counts as the hook's time",
        "dispatch.py",
        "                    with self.lock.hold():\n                        began = now()\n",
        "                    with self.lock.hold():\n",
    ),
    Mutation(
        "L-42",
        "hooks_raise=False swallows an interrupt",
        "dispatch.py",
        "if self.raise_errors or not isinstance(error, Exception):",
        "if self.raise_errors:",
    ),
    Mutation(
        "L-42",
        "process-wide hooks run behind the installed ones",
        "hooks.py",
        "            defaults + self._installed + entries(",
        "            self._installed + defaults + entries(",
    ),
    Mutation(
        "L-42",
        "hooks_timeout has no effect",
        "dispatch.py",
        "                elif self.lock is None:\n"
        "                    call_method(method, ctx, self.timeout)\n",
        "                elif self.lock is None:\n"
        "                    call_method(method, ctx, None)\n",
    ),
    Mutation(
        "L-43",
        "async hooks are not awaited",
        "dispatch.py",
        "                        finish_call(result)\n",
        "                        result.close()\n",
    ),
    Mutation(
        "L-43",
        "async hooks need a thread without a running loop",
        "calling.py",
        "        return asyncio.run_coroutine_threadsafe(self._run(self._level), self._loop)\n",
        "        future = concurrent.futures.Future()\n"
        "        future.set_result(asyncio.run(self._run(self._level)))\n"
        "        return future\n",
    ),
    Mutation(
        "L-39",
        "a loop that some hook blocks holds up the hooks of other calls",
        "calling.py",
        "_result(future, deadline, patience)",
        "_result(future, deadline)",
    ),
    Mutation(
        "L-43a",
        "each async hook gets another loop",
        "calling.py",
        "        return _LOOPS[level].loop()\n",
        '        return _PrivateLoop("another").loop()\n',
    ),
    Mutation(
        "L-44",
        "a failing on_error hides the failure",
        "lifecycle.py",
        '_chain(failure, _attempt(hooks, "on_error", ctx))',
        '_dispatch(hooks, "on_error", ctx)',
    ),
    Mutation(
        "L-44",
        "a failing on_predict_end hides the failure",
        "lifecycle.py",
        "            if failure is not None:\n                _chain(failure, later)\n",
        "            if failure is not None:\n                raise later\n",
    ),
    Mutation(
        "L-44",
        "an exception that the caller was handling gets later errors chained onto it",
        "lifecycle.py",
        "    step.__context__ = first.__context__\n    first.__context__ = later\n",
        "    step.__context__ = None\n    behind[-1].__context__ = later\n",
    ),
    Mutation(
        "L-11",
        "a checkpoint is loaded before the route hooks have spoken",
        "router.py",
        "        began = time.perf_counter()\n        state, questions = request",
        "        self.load(self.default)\n"
        "        began = time.perf_counter()\n        state, questions = request",
    ),
    Mutation(
        "L-11",
        "start hooks run before the load",
        "router.py",
        "            agent = self.load(name)\n"
        "            ctx = self._run_of(asked, name, agent, entry)\n",
        "            ctx = self._run_of(asked, name, None, entry)\n"
        '            hooks.dispatch("on_predict_start", ctx)\n'
        "            agent = ctx.agent = self.load(name)\n",
    ),
    Mutation(
        "L-12",
        "what the route hooks leave is ignored",
        "router.py",
        "        decision = ctx.decision\n",
        "",
    ),
    Mutation(
        "L-12",
        "lang goes before model",
        "routing.py",
        "    if hints.model is not None:\n",
        "    if hints.model is not None and hints.lang is None:\n",
    ),
    Mutation(
        "L-13",
        "per-call hooks hear of loads",
        "router.py",
        "            ctx = self._run_of(asked, name, agent, entry)\n",
        "            ctx = self._run_of(asked, name, agent, entry)\n"
        '            hooks.dispatch("on_load", ctx)\n',
    ),
    Mutation(
        "L-13",
        "a resident checkpoint is announced as loaded",
        "residency.py",
        "        if loaded.built:\n            self._announce_load(loaded)\n",
        "        self._announce_load(loaded)\n",
    ),
    Mutation(
        "L-13",
        "a resident checkpoint is built again",
        "pool.py",
        "                self._agents[key] = agent\n"
        "                self._attached.pop(key, None)\n",
        "",
    ),
    Mutation(
        "L-14",
        "the context does not know its router",
        "router.py",
        "            model=name,\n            agent=agent,\n            router=self,\n",
        "            model=name,\n            agent=agent,\n",
    ),
    Mutation(
        "L-14",
        "the budgets of the call are not in the context",
        "router.py",
        "            head_max_len=request.head_max_len,\n            entry=entry,\n",
        "            entry=entry,\n",
    ),
    Mutation(
        "L-15",
        "the agent gets the request instead of what the hooks left",
        "answering.py",
        "    result = ask(agent, _only_state(ctx), ctx.questions, arguments)\n",
        "    result = ask(agent, asked.request.state, asked.request.questions, arguments)\n",
    ),
    Mutation(
        "L-15",
        "budgets that a hook set do not reach the agent",
        "answering.py",
        "    arguments = {**options, **_budgets(ctx)}\n",
        "    arguments = {**options}\n",
    ),
    Mutation(
        "L-15",
        "the agent's own routing stays in the result",
        "answering.py",
        '    return {**result, "routing": dict(decision)}\n',
        '    return {"routing": {}, **result}\n',
    ),
    Mutation(
        "L-16",
        "a cached routing is overwritten",
        "answering.py",
        'result.setdefault("routing", dict(decision))',
        "result.update(routing=dict(decision))",
    ),
    Mutation(
        "L-16",
        "a skipped result gets no routing",
        "answering.py",
        "        _keep_routing(ctx, asked.decision)\n        return\n",
        "        return\n",
    ),
    Mutation(
        "L-17",
        "predict returns what the agent gave, whatever the end hooks left",
        "router.py",
        "            lifecycle.run((ctx,), hooks, work)\n        return only_result(ctx)",
        "            kept = []\n"
        "            lifecycle.run((ctx,), hooks, lambda r: (work(r), kept.extend(ctx.results)))\n"
        "        return kept[0]",
    ),
    Mutation(
        "L-18",
        "results come in the order in which checkpoints were done",
        "router.py",
        "                    results[i] = result\n",
        "                    results[sum(r is not None for r in results)] = result\n",
    ),
    Mutation(
        "L-18",
        "a batch asks without the language of a state",
        "answering.py",
        "            left.append((ctx, _language(agent, each)))\n",
        "            left.append((ctx, None))\n",
    ),
    Mutation(
        "L-19",
        "a checkpoint is loaded while the batch is being routed",
        "router.py",
        "        policy = self._policy()\n        for i, request in enumerate(requests):\n",
        '        self.load("english")\n'
        "        policy = self._policy()\n        for i, request in enumerate(requests):\n",
    ),
    Mutation(
        "L-20",
        "requests are grouped by the name as it was given",
        "router.py",
        '            name = _of_request(i, self.resolve, decision["model"])\n',
        '            name = decision["model"]\n',
    ),
    Mutation(
        "L-21",
        "requests of a batch start without their budgets",
        "router.py",
        "            max_len=request.max_len,\n",
        '            max_len=None if entry == "predict_batch" else request.max_len,\n',
    ),
    Mutation(
        "L-23",
        "the order of options does not count",
        "grouping.py",
        'return ("[]", *map(signature, value))',
        'return ("[]", *sorted(map(signature, value), key=repr))',
    ),
    Mutation(
        "L-23",
        "budgets do not split a group",
        "grouping.py",
        "        key = (known, *budgets.items(), lang)\n",
        "        key = (known, lang)\n",
    ),
    Mutation(
        "L-23",
        "languages do not split a group",
        "grouping.py",
        "        key = (known, *budgets.items(), lang)\n",
        "        key = (known, *budgets.items())\n",
    ),
    Mutation(
        "L-23",
        "every request gets a pass of its own",
        "grouping.py",
        "        key = (known, *budgets.items(), lang)\n",
        "        key = id(ctx)\n",
    ),
    Mutation(
        "L-24",
        "what one request's hook assigns reaches the others",
        "answering.py",
        "    for questions, lang, budgets, members in group(left, _budgets):\n",
        "    for ctx, _ in left:\n"
        "        ctx.questions = left[1][0].questions if len(left) > 1 else ctx.questions\n"
        "    for questions, lang, budgets, members in group(left, _budgets):\n",
    ),
    Mutation(
        "L-24",
        "requests get copies, so that a change in place reaches nobody",
        "router.py",
        "            questions=request.questions,\n            decision=asked.decision,\n",
        "            questions=dict(request.questions),\n            decision=asked.decision,\n",
    ),
    Mutation(
        "L-29",
        "a group that fails takes the finished ones with it",
        "router.py",
        "            for name, members in self._by_checkpoint(decisions).items():\n",
        "            for name in self._by_checkpoint(decisions):\n"
        "                self.load(name)\n"
        "            for name, members in self._by_checkpoint(decisions).items():\n",
    ),
    Mutation(
        "L-30",
        "hooks hear of a load while the pool is locked",
        "residency.py",
        "            self._announce_load(loaded)\n",
        "            with self._pool._lock:\n                self._announce_load(loaded)\n",
    ),
    Mutation(
        "L-31",
        "on_load runs before on_evict",
        "residency.py",
        "        self._announce([*gone, ctx])\n",
        "        self._announce([ctx, *gone])\n",
    ),
    Mutation(
        "L-32",
        "the first loaded goes first, however often it is used",
        "eviction.py",
        "        self._names.pop(name, None)\n        self._names[name] = None\n",
        "        self._names.setdefault(name)\n",
    ),
    Mutation(
        "L-33",
        "unloading is not announced",
        "residency.py",
        "        self._announce_evictions(self._pool.unload(name), began)\n",
        "        self._pool.unload(name)\n",
    ),
    Mutation(
        "L-34",
        "attaching runs on_load",
        "residency.py",
        "        if replaced:\n            self._announce_evictions([key], began)\n",
        "        self._announce_load(Loaded(key, agent, True))\n"
        "        if replaced:\n            self._announce_evictions([key], began)\n",
    ),
    Mutation(
        "L-34",
        "attaching leaves max_loaded as it was",
        "pool.py",
        "            self._max_loaded = max(self._max_loaded, len(self._agents))\n",
        "",
    ),
    Mutation(
        "L-34",
        "preloading leaves max_loaded as it was",
        "pool.py",
        "            self._max_loaded = max(self._max_loaded, len({*wanted, *self._agents}))\n",
        "            pass\n",
    ),
    Mutation(
        "L-35",
        "everybody builds",
        "pool.py",
        "                under_way = self._builds.setdefault(key, build)\n",
        "                under_way = build\n",
    ),
    Mutation(
        "L-40",
        "routes have no time",
        "router.py",
        "            elapsed_ms=(time.perf_counter() - began) * 1e3,\n",
        "",
    ),
    Mutation(
        "L-40",
        "a load is a call of its own",
        "lifecycle.py",
        "    ctx.call_id = new_id() if outer is None else outer.call_id\n",
        "    ctx.call_id = new_id()\n",
    ),
    Mutation(
        "L-40",
        "route, load and run are three calls",
        "call_tree.py",
        "        outermost = current_call() is None\n",
        "        outermost = False\n",
    ),
    Mutation(
        "L-42",
        "the agent inside a router call runs the process-wide hooks again",
        "lifecycle.py",
        "defaults_ran=routed",
        "defaults_ran=False",
    ),
    *(Mutation(*each) for each in EMBEDDING),
)


class Verdict(NamedTuple):
    """What came of one mutation: the test that failed, or what is wrong with the proof."""

    mutation: Mutation
    failed_test: str | None
    problem: str | None


def cited_tests() -> dict[str, list[str]]:
    """The tests by the rule with which their docstring begins, as pytest's node ids."""
    found: dict[str, list[str]] = {}
    for module in TESTS:
        for node in ast.parse((ROOT / module).read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                cited = re.match(r"((?:[LE]-\d+[a-z]?(?:, )?)+): ", ast.get_docstring(node) or "")
                for rule in cited[1].split(", ") if cited else ():
                    found.setdefault(rule, []).append(f"{module}::{node.name}")
    return found


def faults() -> Iterator[str]:
    """What keeps the table of mutations from proving anything."""
    cited, broken = cited_tests(), {mutation.rule for mutation in MUTATIONS}
    for rule in GUARDED:
        if rule not in cited:
            yield f"no test cites {rule}"
        if rule not in broken:
            yield f"no mutation breaks {rule}"
    for mutation in MUTATIONS:
        text = (ROOT / mutation.path).read_text(encoding="utf-8")
        if (n := text.count(mutation.old)) != 1:
            yield (
                f"{mutation.rule} ({mutation.breaks}): its old text occurs {n} times "
                f"in {mutation.file}"
            )


def copy_project(target: Path) -> Path:
    """The package, with a link to its checkpoints, and the tests that are needed."""
    unwanted = shutil.ignore_patterns("checkpoints", "__pycache__")
    shutil.copytree(ROOT / "jevlaya_lab", target / "jevlaya_lab", ignore=unwanted)
    (target / "jevlaya_lab" / "checkpoints").symlink_to(ROOT / "jevlaya_lab" / "checkpoints")
    shutil.copy(ROOT / "pyproject.toml", target)
    for name in (*(f"tests/{helper}.py" for helper in HELPERS), *TESTS):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target / name)
    return target


def run_tests(folder: Path, tests: list[str], limit: float = TIME_LIMIT) -> tuple[int | None, str]:
    """Exit status and output of pytest in a copy; no status where it took too long."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "-rf"]
    command += ["-p", "no:randomly", "-p", "no:cacheprovider", *tests]
    # What hangs because of a mutation shall not hang for long.
    environment = {**os.environ, "PYTHONPATH": str(folder), "TEST_PATIENCE": "3"}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return None, f"still running after {limit:g} s"
    return done.returncode, done.stdout + done.stderr


def try_mutation(mutation: Mutation, original: Path, tests: list[str]) -> Verdict:
    """Break the rule in a copy and run the tests that cite it."""
    with tempfile.TemporaryDirectory(prefix="broken-rule-") as name:
        copy = Path(name) / "project"
        shutil.copytree(original, copy, symlinks=True, ignore=shutil.ignore_patterns(".hypothesis"))
        path = copy / mutation.path
        text = path.read_text(encoding="utf-8")
        assert text.count(mutation.old) == 1
        path.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
        status, output = run_tests(copy, tests)
    failed = re.search(r"^FAILED \S*?(test_\w+\.py::.+?)(?: - .*)?$", output, re.MULTILINE)
    if status == 0:
        return Verdict(mutation, None, "survived: every test that cites the rule passes")
    if status != 1 or failed is None:
        return Verdict(mutation, None, f"no test could be run: {output[-2000:]}")
    return Verdict(mutation, failed[1], None)


def asked_for(rule: str, rules: list[str] | None) -> bool:
    """Whether a rule is among those to try: all, some by name, or all of a letter."""
    return not rules or rule in rules or rule[0] in rules


def main(rules: list[str] | None = None) -> int:
    """Try all mutations, or those of some rules; print a table; 1 if one survives."""
    began = time.perf_counter()
    if found := list(faults()):
        print("\n".join(found))
        return 1
    wanted = [mutation for mutation in MUTATIONS if asked_for(mutation.rule, rules)]
    cited = cited_tests()
    with tempfile.TemporaryDirectory(prefix="rules-") as name:
        original = copy_project(Path(name))
        every_test = sorted(
            {test for rule, tests in cited.items() for test in tests if asked_for(rule, rules)}
        )
        status, output = run_tests(original, every_test, LIMIT_UNBROKEN)
        if status != 0:
            print(f"the tests fail on the unbroken package:\n{output}")
            return 1
        with ThreadPoolExecutor(PROCESSES) as pool:
            verdicts = list(pool.map(lambda m: try_mutation(m, original, cited[m.rule]), wanted))
    width = max(len(mutation.breaks) for mutation in wanted)
    print(f"{'rule':6} {'mutation':{width}} failing test")
    for mutation, failed_test, problem in verdicts:
        print(f"{mutation.rule:6} {mutation.breaks:{width}} {failed_test or problem}")
    survivors = [verdict for verdict in verdicts if verdict.problem]
    print(
        f"{len(verdicts)} mutations, {len(survivors)} of them not caught, "
        f"{len(every_test)} tests that cite a rule, {time.perf_counter() - began:.0f} s"
    )
    return 1 if survivors else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rule", action="append", help="try the mutations of this rule only")
    sys.exit(main(parser.parse_args().rule))
