"""Which questions count as the same for a shared forward pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jevlaya_lab.system_one.grouping import signature
from jevlaya_lab.system_one.questions import Choice

ONE = {"q": {"type": "choice", "instructions": "x", "criteria": {"a": None, "b": "text"}}}


def test_equal_definitions_have_one_signature() -> None:
    again = {"q": {"type": "choice", "instructions": "x", "criteria": {"a": None, "b": "text"}}}

    assert signature(ONE) == signature(again)
    assert signature({"q": Choice("x", {"a": None, "b": "text"})}) == signature(ONE)
    assert hash(signature(ONE)) == hash(signature(again))


@pytest.mark.parametrize(
    "other",
    [
        {"q": {"type": "choice", "instructions": "x", "criteria": {"b": "text", "a": None}}},
        {"q": {"type": "choice", "instructions": "x", "criteria": {"a": None, "b": "other"}}},
        {"q": {"type": "choice", "instructions": "x", "criteria": ["a", "b"]}},
        {"q": {"instructions": "x", "type": "choice", "criteria": {"a": None, "b": "text"}}},
        {"p": ONE["q"]},
        {},
    ],
)
def test_another_order_or_wording_is_another_question(other: Any) -> None:
    """L-23: the order of options counts."""
    assert signature(other) != signature(ONE)


def test_values_that_read_differently_differ() -> None:
    labels = [1, 1.0, True, "1", None, "None", (1,), [[1]]]
    signatures = [signature([label]) for label in labels]

    assert len(set(signatures)) == len(labels)
    assert signature((1, "a")) == signature([1, "a"])  # both are a list of options


def test_what_is_no_plain_value_equals_only_itself() -> None:
    array = np.arange(2000)

    assert signature({"a": array}) == signature({"a": array})
    assert signature({"a": array}) != signature({"a": array.copy()})
