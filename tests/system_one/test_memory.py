"""When memory runs out: passes are halved, then the CPU answers, and nothing is lost."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from fakes import QUESTIONS

from jevlaya_lab import Agent
from jevlaya_lab.system_one.devices import out_of_memory
from jevlaya_lab.system_one.models import Batch, Logits, Prepared
from jevlaya_lab.system_one.models.instant import InstantNetwork

STATES = [f"state number {i}" for i in range(9)]


class Small(InstantNetwork):
    """Takes a few states at once; with a twin, it stands for a network on an accelerator."""

    def __init__(self, room: int, twin: bool = False) -> None:
        self.room = room
        self.twin = InstantNetwork() if twin else None
        self.sizes: list[int] = []

    def forward(self, batch: Batch, prepared: Prepared) -> Logits:
        if batch.n_states > self.room:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        self.sizes.append(batch.n_states)
        return super().forward(batch, prepared)

    def on_cpu(self) -> InstantNetwork:
        return self.twin or self


def answers(network: InstantNetwork, **options: Any) -> tuple[Agent, list[Any]]:
    agent = Agent("small", network=network)
    return agent, agent.predict_batch(STATES, QUESTIONS, **options)


def test_a_pass_that_does_not_fit_is_halved_until_it_does() -> None:
    network = Small(room=2)

    agent, results = answers(network)

    assert results == answers_of_plenty()
    assert max(network.sizes) == 2
    assert sum(network.sizes) == len(STATES)
    assert agent.memory_split_count == 4, "9, 4, 5 and 3 states were too many"
    assert agent.cpu_fallback_count == 0
    assert agent.last_fallback_reason == (
        "OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
    )


def test_a_state_that_does_not_fit_alone_is_answered_on_the_cpu() -> None:
    agent, results = answers(Small(room=0, twin=True), batch_size=4)

    assert results == answers_of_plenty()
    assert agent.cpu_fallback_count == len(STATES)


def test_where_the_cpu_itself_is_full_the_error_comes_out() -> None:
    with pytest.raises(torch.OutOfMemoryError):
        answers(Small(room=0))


def test_other_errors_are_not_taken_for_a_lack_of_memory() -> None:
    class Broken(InstantNetwork):
        def forward(self, batch: Batch, prepared: Prepared) -> Logits:
            raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes do not match"):
        answers(Broken())


def test_no_lack_of_memory_counts_as_nothing() -> None:
    agent, _ = answers(InstantNetwork())

    assert (agent.memory_split_count, agent.cpu_fallback_count) == (0, 0)
    assert agent.last_fallback_reason is None


@pytest.mark.parametrize(
    ("error", "is_memory"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), True),
        (MemoryError(), True),
        (RuntimeError("MPS backend out of memory (MPS allocated: 17 GB)"), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (ValueError("out of memory"), False),
        (KeyboardInterrupt(), False),
    ],
)
def test_what_counts_as_a_lack_of_memory(error: BaseException, is_memory: bool) -> None:
    assert out_of_memory(error) is is_memory


def answers_of_plenty() -> list[Any]:
    return answers(InstantNetwork())[1]
