"""Traces for pictures: routers around agents that answer at once, and traces with much missing."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

import pandas as pd
from fakes import QUESTIONS, RecordingNetwork

from jevlaya_lab import Agent, BaseHook, Lab, Router
from jevlaya_lab.frames import Trace
from jevlaya_lab.system_one.models.instant import InstantNetwork

ENGLISH = "Where is my parcel, please tell me?"
GERMAN = "Wo bleibt mein Paket? Ich warte seit Montag darauf."


class Noisy(BaseHook):
    """Listens to everything."""

    def on_route(self, ctx: Any) -> None: ...

    def on_load(self, ctx: Any) -> None: ...

    def on_evict(self, ctx: Any) -> None: ...

    def on_predict_start(self, ctx: Any) -> None:
        ctx.max_len = 128

    def on_error(self, ctx: Any) -> None: ...

    def on_predict_end(self, ctx: Any) -> None: ...


class Hit(BaseHook):
    """Answers what says so itself."""

    def on_predict_start(self, ctx: Any) -> None:
        if "cached" in ctx.states[0]:
            answers = {"q": {"type": "noul", "noul": 0.5}}
            ctx.skip([{"model": "cache", "answers": answers, "usage": {"input_tokens": 5}}])


class InstantRouter(Router):
    """A router whose checkpoints are built at once and answer at once."""

    def _build(self, name: str, source: Any) -> Any:
        return Agent(name, network=InstantNetwork())


def attached(hooks: Any = (), failing: Any = None, own: Any = ()) -> Lab:
    """A Lab of a router with two agents; ``own`` are the hooks of the English one."""
    router = Router(hooks=list(hooks))
    network = RecordingNetwork(failing=failing)
    router.attach("english", Agent("en-net", network=network, hooks=list(own)))
    router.attach("multilingual", Agent("ml-net", network=InstantNetwork()))
    return Lab(router)


def asked(lab: Lab, *texts: str) -> Trace:
    """The trace after one call with these texts, also where that fails."""
    with contextlib.suppress(RuntimeError, LookupError):
        lab.predict(list(texts), QUESTIONS, progress=False, chunk_size=len(texts), dedupe=False)
    return lab.trace


def evicting() -> Trace:
    """A router that holds one checkpoint at a time: english, multilingual, english twice."""
    lab = Lab(InstantRouter(max_loaded=1, hooks=[Noisy()]))
    for model in ("english", "multilingual", "english", "english"):
        lab.predict("x", QUESTIONS, model=model)
    return lab.trace


def as_of_laya(trace: Trace) -> Trace:
    """The same without what a recorder alone cannot know over ``laya``'s objects."""
    runs = trace.runs.copy()
    gone = ["call_id", "parent_run_id", "entry", "thread", "skipped", "failed_step", "n_forwards"]
    gone += ["n_rows", "padded_tokens", "forward_tokens"]
    for name in gone:
        runs[name] = pd.Series(pd.NA, index=runs.index, dtype=runs[name].dtype)
    runs[[f"{step}_ms" for step in ("encode", "collate", "forward", "decode")]] = float("nan")
    events = trace.events[trace.events["hook"].isna()].reset_index(drop=True)
    events["call_id"] = pd.Series(pd.NA, index=events.index, dtype=events["call_id"].dtype)
    events["duration_ms"] = float("nan")
    return dataclasses.replace(trace, runs=runs, events=events, _calls=None)


def runs_of(trace: Trace, **values: Any) -> list[str]:
    """The ids of the runs that fit."""
    found: list[str] = trace.where(**values).runs["run_id"].tolist()
    return found
