"""Which device is chosen. Torch is played by a stand-in, so that any machine can be described."""

from __future__ import annotations

import re
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from jevlaya_lab.system_one.devices import choose_device
from jevlaya_lab.system_one.errors import InvalidOption


class Device:
    """As much of ``torch.device`` as is used."""

    def __init__(self, name: Any) -> None:
        if isinstance(name, Device):
            name = str(name)
        if not isinstance(name, str):
            raise TypeError("torch.device(): wrong argument")
        found = re.fullmatch(r"([a-z]+)(?::(\d+))?", name)
        if not found or found[1] not in ("cuda", "mps", "xpu", "cpu", "meta"):
            raise RuntimeError(f"Invalid device string: {name!r}")
        self.type = found[1]
        self.index = None if found[2] is None else int(found[2])

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Puts a torch in place that sees these devices: a number of each kind."""

    def install(cuda: int = 0, mps: int = 0, xpu: int = 0) -> None:
        def backend(n: int) -> SimpleNamespace:
            return SimpleNamespace(is_available=lambda: n > 0, device_count=lambda: n)

        torch = SimpleNamespace(
            device=Device,
            cuda=backend(cuda),
            xpu=backend(xpu),
            backends=SimpleNamespace(mps=backend(mps)),
        )
        monkeypatch.setitem(sys.modules, "torch", torch)

    return install


@pytest.mark.parametrize(
    ("found", "chosen"),
    [
        ({}, "cpu"),
        ({"xpu": 1}, "xpu"),
        ({"xpu": 1, "mps": 1}, "mps"),
        ({"cuda": 2, "mps": 1, "xpu": 1}, "cuda"),
    ],
)
@pytest.mark.parametrize("asked", [None, "auto", " Auto "])
def test_the_best_device_is_chosen(
    machine: Any, found: dict[str, int], chosen: str, asked: Any
) -> None:
    machine(**found)

    assert str(choose_device(asked)) == chosen


@pytest.mark.parametrize("asked", ["cpu", "cuda", "cuda:0", "cuda:1", "mps", "mps:0", "xpu:0"])
def test_a_device_that_is_there_is_taken(machine: Any, asked: str) -> None:
    machine(cuda=2, mps=1, xpu=1)

    assert str(choose_device(asked)) == asked


def test_a_device_object_is_taken_as_well(machine: Any) -> None:
    machine(cuda=1)
    asked = Device("cuda:0")

    assert str(choose_device(asked)) == "cuda:0"


@pytest.mark.parametrize("asked", ["cuda:2", "mps:1", "xpu"])
def test_one_that_is_not_there_gives_the_cpu_and_a_warning(machine: Any, asked: str) -> None:
    machine(cuda=2, mps=1)

    with pytest.warns(RuntimeWarning, match=f"'{asked}' is not available here; using the CPU"):
        assert str(choose_device(asked)) == "cpu"


@pytest.mark.parametrize("wrong", ["gpu", "", "cuda:x", "cuda:-1", 1.5, ["cpu"]])
def test_what_is_no_device_is_refused(machine: Any, wrong: Any) -> None:
    machine(cuda=1)

    with pytest.raises(InvalidOption, match=r"is not one; use one of cuda, mps, xpu, cpu"):
        choose_device(wrong)


def test_a_device_that_cannot_compute_is_refused(machine: Any) -> None:
    machine()

    with pytest.raises(InvalidOption, match="'meta' is not supported; use one of"):
        choose_device("meta")


@pytest.mark.slow
def test_the_real_torch_agrees_with_its_stand_in() -> None:
    torch = pytest.importorskip("torch")

    assert choose_device("cpu") == torch.device("cpu")
    assert choose_device(torch.device("cpu")).type == "cpu"
    assert choose_device().type in ("cuda", "mps", "xpu", "cpu")
    with pytest.raises(InvalidOption, match="is not supported"):
        choose_device("meta")
    with pytest.raises(InvalidOption, match="is not one"):
        choose_device("no such device")
    with pytest.warns(RuntimeWarning, match="is not available here"):
        assert choose_device("cuda:63").type == "cpu"
