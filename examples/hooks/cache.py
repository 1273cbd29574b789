"""A cache as a hook: answers a call from memory when it was asked the same before.

Run it from the project's folder: python examples/hooks/cache.py
"""

from __future__ import annotations

import copy
import json
import threading
from collections import OrderedDict
from typing import Any

from jevlaya_lab import Agent, BaseHook, Noul, PredictContext


class Cache(BaseHook):
    """Keeps the results of the last calls, by model, states, questions and budgets.

    A start hook looks up, an end hook stores; both may run in several threads. Results are
    copied on the way in and out, since whoever gets them may change them. ``predict_long`` is left
    alone: its end hooks see results of windows, and a skip there needs one for the whole state.
    """

    def __init__(self, capacity: int = 1000) -> None:
        self.capacity = capacity
        self.hits = 0
        self._kept: OrderedDict[str, list[dict[str, Any]]] = OrderedDict()
        self._keys: dict[str, str] = {}
        self._lock = threading.Lock()

    def on_predict_start(self, ctx: PredictContext) -> None:
        if ctx.entry == "predict_long":
            return
        # The key is taken here: hooks behind this one may still rewrite the states.
        asked = [ctx.model, ctx.states, list(ctx.questions.items()), ctx.max_len, ctx.head_max_len]
        key = json.dumps(asked, default=repr)
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                self._keys[ctx.run_id] = key
                return
            self._kept.move_to_end(key)
            self.hits += 1
            ctx.skip(copy.deepcopy(found))

    def on_predict_end(self, ctx: PredictContext) -> None:
        with self._lock:
            key = self._keys.pop(ctx.run_id, None)
            if key is not None and ctx.error is None and ctx.results:
                self._kept[key] = copy.deepcopy(ctx.results)
                while len(self._kept) > self.capacity:
                    self._kept.popitem(last=False)


def main() -> None:
    cache = Cache()
    agent = Agent(hooks=[cache])
    asked = {"refund": Noul("The customer asks for a refund.")}
    for state in ("Please give me my money back.", "Where is my parcel?") * 2:
        result = agent.predict(
            state, asked, on_predict_end=lambda ctx: print(f"{ctx.elapsed_ms:7.2f} ms", end="  ")
        )
        print(f"P(refund) = {result['answers']['refund']['noul']:.2f}  {state}")
    print(f"{cache.hits} of 4 calls came from the cache")


if __name__ == "__main__":
    main()
