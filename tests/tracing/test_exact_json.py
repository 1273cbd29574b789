"""JSON that gives back what went in."""

from __future__ import annotations

import enum
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jevlaya_lab.tracing.exact_json import dumps, loads

texts = st.text(st.characters(codec=None, exclude_categories=()))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts | st.just("$"),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(texts | st.just("$"), inner)
        | st.dictionaries(st.integers() | st.booleans() | st.none() | st.tuples(texts), inner)
    ),
    max_leaves=12,
)


def kinds_of(value):
    """The value with the type of everything in it, since 1 == True == 1.0 and () != []."""
    if isinstance(value, (list, tuple)):
        return type(value), [kinds_of(each) for each in value]
    if isinstance(value, dict):
        return dict, [(kinds_of(key), kinds_of(each)) for key, each in value.items()]
    return type(value), repr(value)


@given(values)
def test_every_value_comes_back_as_it_was(value):
    text = dumps(value)
    assert kinds_of(loads(text)) == kinds_of(value)
    assert text.isascii()


@given(values)
def test_it_is_strict_json(value):
    def refuse(constant):
        raise AssertionError(constant)

    json.loads(dumps([value, math.nan, math.inf]), parse_constant=refuse)


def test_numbers_that_json_lacks_come_back():
    assert repr(loads(dumps([math.nan, math.inf, -math.inf, -0.0]))) == "[nan, inf, -inf, -0.0]"


def test_subclasses_of_plain_values_become_plain():
    class Team(str, enum.Enum):
        A = "a"

    assert kinds_of(loads(dumps([Team.A, np.float64(0.5), np.str_("x")]))) == kinds_of(
        ["a", 0.5, "x"]
    )


def test_what_is_no_plain_value_is_refused_by_its_type():
    with pytest.raises(TypeError, match=r"^a set cannot be written as JSON$"):
        dumps({"a": {"secret"}})


@pytest.mark.parametrize("text", ['{"$": "new", "v": 1}', '{"$": "tuple"}', "{"])
def test_what_it_did_not_write_is_refused(text):
    with pytest.raises(ValueError, match=r"no kind of value|Expecting"):
        loads(text)
