"""The parameters of an experiment: read from its signature, checked before it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import pytest

from jevlaya_lab.experiments.options import Option, checked, parameters_of
from jevlaya_lab.system_one.errors import InvalidOption


def run(
    agent: Any = None,
    *,
    n: Annotated[int, Option("How many.", low=1, high=9)] = 3,
    sizes: Annotated[Sequence[int], Option("Which.", low=1)] = (1, 2),
    share: Annotated[float, Option("Share.", low=0, high=1)] = 0.5,
    order: Annotated[str, Option("Order.", choices=("zipf", "burst"))] = "zipf",
    slow: Annotated[bool, Option("Slowly.")] = False,
    progress: bool = True,
) -> None: ...


PARAMETERS = parameters_of(run)


def test_parameters_stand_in_the_signature_alone():
    assert [(p.name, p.kind, p.many, p.default) for p in PARAMETERS] == [
        ("n", int, False, 3),
        ("sizes", int, True, (1, 2)),
        ("share", float, False, 0.5),
        ("order", str, False, "zipf"),
        ("slow", bool, False, False),
    ]


def test_what_is_not_given_has_its_default_and_lists_become_tuples():
    values = checked(PARAMETERS, {"sizes": [4], "share": 1})

    assert values == {"n": 3, "sizes": (4,), "share": 1.0, "order": "zipf", "slow": False}
    assert isinstance(values["share"], float)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"n": 0}, "n=0 is not between 1 and 9"),
        ({"n": True}, "n: int expected, got True"),
        ({"n": "3"}, "n: int expected, got '3'"),
        ({"sizes": 3}, r"sizes takes several values, such as \[1, 2\]; got 3"),
        ({"sizes": []}, "sizes is empty"),
        ({"sizes": [0]}, "sizes=0 is not at least 1"),
        ({"sizes": "12"}, "sizes takes several values"),
        ({"share": float("nan")}, "share=nan is not a finite number"),
        ({"order": "zip"}, "order='zip' is not known; did you mean 'zipf'?; there are zipf, burst"),
        ({"slow": 1}, "slow: bool expected"),
        ({"size": [1]}, "there is no parameter 'size'; did you mean 'sizes'?; there are n, sizes"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(given, said):
    with pytest.raises(InvalidOption, match=said.replace("?", r"\?")):
        checked(PARAMETERS, given)


def test_a_parameter_without_a_description_is_a_mistake_of_the_experiment():
    def bare(agent: Any = None, *, n: int = 3) -> None: ...

    with pytest.raises(TypeError, match="n has no default or no Option"):
        parameters_of(bare)
