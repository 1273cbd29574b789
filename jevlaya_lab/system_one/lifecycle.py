"""The lifecycle, written once: start → work → error → end, for one run or for several together.

``Agent.predict_batch`` is a group of one. A Router's batch is a group of requests that share
forward passes: all start before any ends, they end in reverse order, and they fail together.

::

    for each run, in order:   on_predict_start        may rewrite, skip, or raise
    work(runs)                                        sets ctx.results of those not skipped
    for each run, in reverse: [on_error if it failed] → elapsed_ms, usage → on_predict_end
    raise the failure, or the first that an end hook raised
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from jevlaya_lab.system_one.call_tree import CallScope, current_call, enter, leave
from jevlaya_lab.system_one.calling import raise_again
from jevlaya_lab.system_one.context import PredictContext, aggregate_usage, new_id
from jevlaya_lab.system_one.dispatch import ActiveHooks

__all__ = ["announce", "run"]


def announce(event: str, ctx: PredictContext, hooks: ActiveHooks) -> None:
    """Run the one event of a route, a load or an eviction, as a part of the current call.

    Raises:
        BaseException: What a hook raised.
    """
    outer = current_call()
    ctx.call_id = new_id() if outer is None else outer.call_id
    ctx.parent_run_id = None if outer is None else outer.run_id
    _dispatch(hooks, event, ctx)


def run(
    contexts: Iterable[PredictContext],
    hooks: ActiveHooks,
    work: Callable[[Sequence[PredictContext]], None],
) -> None:
    """Take runs that share their work through the whole lifecycle.

    Args:
        contexts: The runs in input order. Each is drawn just before its start hooks, so a
            generator may build them one by one.
        hooks: The hooks of this call.
        work: Called once with all runs after their start hooks; must set ``results`` of each one
            that does not have them yet.

    Raises:
        BaseException: The first failure: of a start hook, of ``work``, else of an end hook. What
            fails after it is chained behind it and hides nothing (L-44).
    """
    started: list[PredictContext] = []
    outer = current_call()
    call_id = new_id() if outer is None else outer.call_id
    parent = None if outer is None else outer.run_id
    routed = False
    try:
        for ctx in contexts:
            ctx.call_id, ctx.parent_run_id = call_id, parent
            routed = ctx.scope == "router"
            started.append(ctx)  # L-27: it counts as started before its first hook
            _dispatch(hooks, "on_predict_start", ctx)
            ctx.skipped = ctx.results is not None
        # What several runs share belongs to none of them.
        whose = started[0].run_id if len(started) == 1 else parent
        token = enter(CallScope(call_id, whose, defaults_ran=routed))
        try:
            work(started)
        finally:
            leave(token)
    except BaseException as failure:
        _finish(started, hooks, failure)
        raise
    first = _finish(started, hooks, None)
    if first is not None:
        raise_again(first)


def _finish(
    started: Sequence[PredictContext],
    hooks: ActiveHooks,
    failure: BaseException | None,
) -> BaseException | None:
    """End every started run, last one first; the first error of an end hook comes back."""
    stopped = time.perf_counter()
    for ctx in started:
        ctx.error = failure
    first: BaseException | None = None
    for ctx in reversed(started):
        own = 0.0
        if failure is not None:
            began = time.perf_counter()
            _chain(failure, _attempt(hooks, "on_error", ctx))
            own = time.perf_counter() - began
        # Another run's hooks are not part of this one's time.
        ctx.elapsed_ms = (stopped - ctx.started_at + own) * 1e3
        if isinstance(ctx.results, (list, tuple)) and ctx.results:  # a hook may leave anything
            ctx.usage = aggregate_usage(ctx.results)
        later = _attempt(hooks, "on_predict_end", ctx)
        if later is not None:
            if failure is not None:
                _chain(failure, later)
            elif first is None:
                first = later
            else:
                _chain(first, later)
    return first


def _dispatch(hooks: ActiveHooks, event: str, ctx: PredictContext) -> None:
    if not hooks.entries:
        return
    token = enter(CallScope(ctx.call_id, ctx.run_id))  # type: ignore[arg-type]  # set by now
    try:
        hooks.dispatch(event, ctx)
    finally:
        leave(token)


def _attempt(hooks: ActiveHooks, event: str, ctx: PredictContext) -> BaseException | None:
    try:
        _dispatch(hooks, event, ctx)
    except BaseException as exc:
        return exc
    return None


def _chain(first: BaseException, later: BaseException | None) -> None:
    """Show a later error in the first one's traceback, right behind it and without a ring.

    What the caller was handling already stays behind both of them, untouched.
    """
    behind: list[BaseException] = []
    link: BaseException | None = first
    while link is not None and not any(link is known for known in behind):
        behind.append(link)
        link = link.__context__
    if later is None or any(later is known for known in behind):
        return
    # Raised while `first` was handled, so Python linked `later` back to it, or to what is behind.
    step, seen = later, {id(later)}
    while step.__context__ is not None and id(step.__context__) not in seen:
        if any(step.__context__ is known for known in behind):
            break
        step = step.__context__
        seen.add(id(step))
    step.__context__ = first.__context__
    first.__context__ = later
