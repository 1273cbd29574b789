"""From logits to answers: numbers worked out by hand, and what holds for any numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jevlaya_lab.system_one.calibration import BUCKETS, Calibration, bucket
from jevlaya_lab.system_one.decoding import (
    apply_min_confidence,
    check_min_confidence,
    decode_answer,
    empty_result,
)
from jevlaya_lab.system_one.errors import InvalidOption, NonFiniteLogits
from jevlaya_lab.system_one.questions import Question, prepare

PLAIN = Calibration()


def question(kind: str, n: int = 2) -> Question:
    criteria: dict[str, Any] = {
        "choice": {"criteria": [f"option {i}" for i in range(n)]},
        "score": {"criteria": [f"level {i}" for i in range(n)]},
        "noul": {},
    }
    return prepare({"q": {"type": kind, "instructions": "?", **criteria[kind]}})[0]


def logits(*probabilities: float) -> Any:
    """Logits whose softmax is this."""
    return np.log(np.array(probabilities, dtype=np.float32))


# --- answers ---------------------------------------------------------------------------------


def test_a_choice_by_hand() -> None:
    answer = decode_answer(question("choice", 4), logits(0.5, 0.25, 0.125, 0.125), PLAIN, 0.31416)

    # H = 1.75 bits of at most 2, so the peakedness is 1 - 1.75 / 2.
    assert answer == {
        "type": "choice",
        "choice": "option 0",
        "probabilities": {
            "option 0": 0.5,
            "option 1": 0.25,
            "option 2": 0.125,
            "option 3": 0.125,
        },
        "confidence": 0.125,
        "answer_confidence": 0.5,
        "action": {"act_probability": 0.3142},
    }


def test_a_score_by_hand() -> None:
    answer = decode_answer(question("score", 4), logits(0.125, 0.125, 0.25, 0.5), PLAIN)

    assert answer == {
        "type": "score",
        "score": 2.125,  # 0.125 * 1 + 0.25 * 2 + 0.5 * 3
        "legend": {"0": "level 0", "1": "level 1", "2": "level 2", "3": "level 3"},
        "probabilities": {"0": 0.125, "1": 0.125, "2": 0.25, "3": 0.5},
        "confidence": 0.125,
        "answer_confidence": 0.5,
        "action": {"act_probability": None},
    }


@pytest.mark.parametrize(("yes", "confidence"), [(0.8, 0.8), (0.3, 0.7), (0.5, 0.5)])
def test_a_noul_by_hand(yes: float, confidence: float) -> None:
    answer = decode_answer(question("noul"), logits(1 - yes, yes), PLAIN)

    assert answer == {
        "type": "noul",
        "noul": yes,
        "confidence": confidence,
        "answer_confidence": confidence,
        "action": {"act_probability": None},
    }


@pytest.mark.parametrize("kind", ["choice", "score"])
def test_two_options_by_hand(kind: str) -> None:
    answer = decode_answer(question(kind), logits(0.25, 0.75), PLAIN)

    # H = 0.25 * 2 + 0.75 * log2(4 / 3) = 0.8113 bits of at most 1.
    assert answer["confidence"] == 0.1887
    assert answer["answer_confidence"] == 0.75


@pytest.mark.parametrize("kind", ["choice", "score"])
def test_a_single_option_is_certain(kind: str) -> None:
    answer = decode_answer(question(kind, 1), np.array([-7.5], dtype=np.float32), PLAIN)

    assert (answer["confidence"], answer["answer_confidence"]) == (1.0, 1.0)
    assert list(answer["probabilities"].values()) == [1.0]


def test_the_first_of_equal_options_is_chosen() -> None:
    answer = decode_answer(question("choice", 3), np.zeros(3, dtype=np.float32), PLAIN)

    assert answer["choice"] == "option 0"
    assert answer["confidence"] == 0.0
    assert answer["answer_confidence"] == 0.3333


def test_numbers_are_rounded_to_four_places() -> None:
    answer = decode_answer(question("choice", 2), logits(0.123456, 0.876544), PLAIN, 1 / 3)

    assert answer["probabilities"] == {"option 0": 0.1235, "option 1": 0.8765}
    assert answer["action"] == {"act_probability": 0.3333}


@given(st.lists(st.floats(-3, 3, width=32), min_size=2, max_size=2), st.floats(0, 1))
def test_every_number_has_four_places(values: list[float], act: float) -> None:
    for kind in ("choice", "score", "noul"):
        answer = decode_answer(question(kind), np.array(values, dtype=np.float32), PLAIN, act)
        for number in numbers_in(answer):
            assert number == round(number, 4)


def numbers_in(answer: dict[str, Any]) -> list[Any]:
    """All figures of an answer."""
    nested = [*answer.get("probabilities", {}).values(), *answer["action"].values()]
    return [value for value in answer.values() if not isinstance(value, (str, dict))] + nested


def test_numbers_are_plain_python_floats() -> None:
    """So that a payload can be written as JSON whatever dtype a network uses."""
    for kind in ("choice", "score", "noul"):
        answer = decode_answer(question(kind), np.array([0.1, 0.2], dtype=np.float16), PLAIN, 0.5)
        assert {type(number) for number in numbers_in(answer)} == {float}


@pytest.mark.parametrize("kind", ["choice", "score", "noul"])
def test_huge_logits_do_not_overflow(kind: str) -> None:
    answer = decode_answer(question(kind), np.array([-1e4, 3e4], dtype=np.float32), PLAIN)

    assert answer["answer_confidence"] == 1.0
    assert answer["confidence"] == 1.0


finite = st.floats(-1e4, 1e4, width=32)
some_logits = st.lists(finite, min_size=1, max_size=15).map(
    lambda values: np.array(values, dtype=np.float32)
)


@given(some_logits, st.floats(0.5, 5.0))
def test_probabilities_are_a_distribution(values: Any, temperature: float) -> None:
    calibration = Calibration((temperature, temperature, temperature))
    answer = decode_answer(question("choice", len(values)), values, calibration)

    p = list(answer["probabilities"].values())
    assert all(0.0 <= each <= 1.0 for each in p)
    assert sum(p) == pytest.approx(1.0, abs=1e-4 * len(p))
    assert 0.0 <= answer["confidence"] <= 1.0
    assert 1 / len(p) - 1e-4 <= answer["answer_confidence"] <= 1.0
    assert answer["answer_confidence"] == max(p)
    assert answer["probabilities"][answer["choice"]] == max(p)
    chosen = values[list(answer["probabilities"]).index(answer["choice"])]
    assert chosen == pytest.approx(values.max(), abs=1e-6)


@given(some_logits)
def test_a_score_lies_on_its_scale(values: Any) -> None:
    answer = decode_answer(question("score", len(values)), values, PLAIN)

    assert 0.0 <= answer["score"] <= len(values) - 1
    expected = sum(int(level) * p for level, p in answer["probabilities"].items())
    assert answer["score"] == pytest.approx(expected, abs=1e-4 * len(values) ** 2)


@given(st.lists(finite, min_size=2, max_size=10), st.floats(-1e3, 1e3, width=32))
def test_a_shift_of_all_logits_changes_nothing(values: list[float], shift: float) -> None:
    asked = question("choice", len(values))
    # Whole numbers, so that the shift itself is exact in float32.
    plain = np.round(np.array(values, dtype=np.float32))
    moved = plain + np.float32(round(shift))

    assert decode_answer(asked, plain, PLAIN) == decode_answer(asked, moved, PLAIN)


@given(some_logits, st.randoms())
def test_the_order_of_options_does_not_matter(values: Any, random: Any) -> None:
    order = list(range(len(values)))
    random.shuffle(order)
    asked = question("choice", len(values))

    straight = decode_answer(asked, values, PLAIN)
    shuffled = decode_answer(asked, values[order], PLAIN)

    by_option = list(straight["probabilities"].values())
    assert list(shuffled["probabilities"].values()) == pytest.approx(
        [by_option[i] for i in order], abs=1e-4
    )
    assert shuffled["confidence"] == pytest.approx(straight["confidence"], abs=1e-4)


@given(finite, finite)
def test_a_noul_and_a_choice_of_two_agree(no: float, yes: float) -> None:
    values = np.array([no, yes], dtype=np.float32)

    as_noul = decode_answer(question("noul"), values, PLAIN)
    as_choice = decode_answer(question("choice"), values, PLAIN)

    assert as_noul["noul"] == as_choice["probabilities"]["option 1"]
    assert as_noul["answer_confidence"] == as_choice["answer_confidence"]


@given(some_logits, st.floats(0.5, 5.0), st.floats(0.5, 5.0))
def test_a_higher_temperature_is_never_more_certain(values: Any, one: float, other: float) -> None:
    asked = question("choice", len(values))
    cool, warm = sorted([one, other])

    def certainty(temperature: float) -> Any:
        answer = decode_answer(asked, values, Calibration((temperature, 1.0, 1.0)))
        return answer["answer_confidence"], answer["confidence"]

    for less, more in zip(certainty(warm), certainty(cool), strict=True):
        assert less <= more + 1e-4


# --- temperatures ----------------------------------------------------------------------------


def test_logits_are_divided_by_the_temperature() -> None:
    values = np.array([0.0, 2.0], dtype=np.float32)

    answer = decode_answer(question("choice"), values, Calibration((2.0, 1.0, 1.0)))

    assert answer["answer_confidence"] == round(1 / (1 + math.exp(-1)), 4)


@pytest.mark.parametrize(("kind", "of"), [("choice", 1.5), ("score", 2.0), ("noul", 2.5)])
def test_each_type_has_its_temperature(kind: str, of: float) -> None:
    assert Calibration((1.5, 2.0, 2.5)).temperature_of(question(kind)) == of


def test_a_buckets_temperature_goes_before_the_types() -> None:
    calibration = Calibration((1.0, 1.0, 1.0), {"choice:3-5": 3.0, "score:2": 4.0})

    assert calibration.temperature_of(question("choice", 5)) == 3.0
    assert calibration.temperature_of(question("choice", 6)) == 1.0
    assert calibration.temperature_of(question("score", 2)) == 4.0
    assert calibration.temperature_of(question("score", 3)) == 1.0


@pytest.mark.parametrize(
    ("n", "size"),
    [(1, "2"), (2, "2"), (3, "3-5"), (5, "3-5"), (6, "6-10"), (10, "6-10"), (11, "11+")],
)
def test_buckets_go_by_the_number_of_options(n: int, size: str) -> None:
    assert bucket("choice", n) == f"choice:{size}"
    assert bucket("score", n) in BUCKETS


def test_a_config_without_temperatures_has_ones() -> None:
    assert Calibration.from_config({}) == Calibration((1.0, 1.0, 1.0), {})
    assert Calibration.from_config({"temperature": None}) == Calibration()


def test_temperatures_inside_the_range_are_taken_as_they_are() -> None:
    config = {"temperature": [0.5, 5, 1.25], "temperature_by_options": {"noul:2": 0.75}}

    calibration = Calibration.from_config(config)

    assert calibration == Calibration((0.5, 5.0, 1.25), {"noul:2": 0.75})


@pytest.mark.parametrize(
    ("given_value", "used"),
    [
        (0.1, 0.5),
        (0.0, 0.5),
        (-3.0, 0.5),
        (9, 5.0),
        (float("inf"), 1.0),
        (float("nan"), 1.0),
        (None, 1.0),
        ("2.0", 1.0),
        (True, 1.0),
    ],
)
def test_a_temperature_outside_the_range_is_replaced_with_a_warning(
    given_value: Any, used: float
) -> None:
    """A temperature of 0.1 once published 0.24 as 0.9999."""
    config = {
        "temperature": [given_value, 1.0, 1.0],
        "temperature_by_options": {"score:6-10": given_value, "score:2": 2.0},
    }

    with pytest.warns(RuntimeWarning) as caught:
        calibration = Calibration.from_config(config)

    (message,) = (str(warning.message) for warning in caught)
    assert f"choice={given_value!r} -> {used:g}" in message
    assert f"score:6-10={given_value!r} -> {used:g}" in message
    assert "noul" not in message
    assert "score:2=" not in message
    assert "outside 0.5 … 5" in message
    assert calibration == Calibration((used, 1.0, 1.0), {"score:6-10": used, "score:2": 2.0})


# --- the gate --------------------------------------------------------------------------------


def gated(answer: dict[str, Any], threshold: Any) -> dict[str, Any]:
    given = [{"answers": {"q": dict(answer)}}]
    (result,) = apply_min_confidence(given, check_min_confidence(threshold))
    assert given == [{"answers": {"q": answer}}], "what was given is not written into"
    return result["answers"]["q"]


def test_no_threshold_writes_nothing() -> None:
    assert gated({"answer_confidence": 0.1}, None) == {"answer_confidence": 0.1}


@pytest.mark.parametrize(("threshold", "passes"), [(0.6, True), (0.61, False), (0, True)])
def test_a_threshold_is_reached_by_what_is_equal_to_it(threshold: float, passes: bool) -> None:
    answer = gated({"answer_confidence": 0.6, "confidence": 0.1}, threshold)

    assert answer["abstention"] == ("passed" if passes else "abstained")
    assert answer.get("low_confidence") == (None if passes else True)
    assert answer["abstention_threshold"] == threshold


def test_confidence_stands_in_where_there_is_no_answer_confidence() -> None:
    assert gated({"confidence": 0.7}, 0.6)["abstention"] == "passed"
    assert gated({"answer_confidence": None, "confidence": 0.5}, 0.6)["abstention"] == "abstained"


@pytest.mark.parametrize("figure", [None, "0.9", True, float("nan")])
def test_an_answer_without_figures_is_not_evaluated(figure: Any) -> None:
    answer = gated({"answer_confidence": figure, "low_confidence": True}, 0.5)

    assert answer["abstention"] == "unevaluated"
    assert "low_confidence" not in answer


def test_a_second_gate_replaces_the_first() -> None:
    answer = gated(gated({"answer_confidence": 0.6}, 0.9), 0.5)

    assert answer == {
        "answer_confidence": 0.6,
        "abstention": "passed",
        "abstention_threshold": 0.5,
    }


def test_thresholds_by_bucket() -> None:
    thresholds = {"choice:3-5": 0.9, "noul:2": 0.8, "default": 0.3}
    three = {"type": "choice", "probabilities": {"a": 0.85, "b": 0.1, "c": 0.05}}

    assert gated({**three, "answer_confidence": 0.85}, thresholds)["abstention_threshold"] == 0.9
    noul = gated({"type": "noul", "noul": 0.1, "answer_confidence": 0.9}, thresholds)
    assert (noul["abstention"], noul["abstention_threshold"]) == ("passed", 0.8)
    two = {"type": "choice", "probabilities": {"a": 0.2, "b": 0.8}, "answer_confidence": 0.8}
    assert gated(dict(two), thresholds)["abstention_threshold"] == 0.3
    assert gated(dict(two), {"noul:2": 0.9})["abstention_threshold"] == 0.0


@pytest.mark.parametrize(
    "results", [["text"], [None], [{}], [{"answers": None}], [{"answers": {"q": "yes"}}], []]
)
def test_what_is_no_answer_is_left_alone(results: list[Any]) -> None:
    before = repr(results)

    assert repr(apply_min_confidence(results, 0.5)) == repr(results) == before


@given(st.floats(0, 1), st.floats(0, 1))
def test_whoever_passes_a_threshold_passes_a_lower_one(figure: float, threshold: float) -> None:
    passed = gated({"answer_confidence": figure}, threshold)["abstention"] == "passed"

    assert passed == (figure >= threshold)
    if passed:
        assert gated({"answer_confidence": figure}, threshold / 2)["abstention"] == "passed"


@pytest.mark.parametrize("value", [0, 1, 0.5])
def test_a_threshold_lies_between_0_and_1(value: float) -> None:
    assert check_min_confidence(value) == value
    assert check_min_confidence({"score:11+": value}) == {"score:11+": value}


@pytest.mark.parametrize("wrong", [-0.01, 1.01, float("nan"), True, "0.5", [0.5]])
def test_other_thresholds_are_refused(wrong: Any) -> None:
    with pytest.raises(InvalidOption, match=r"must lie in \[0, 1\], got"):
        check_min_confidence(wrong)
    with pytest.raises(InvalidOption, match=r"must lie in \[0, 1\], got"):
        check_min_confidence({"default": wrong})


@pytest.mark.parametrize("key", ["choice", "choice:3", "choice:3 - 5", "multi:2", 2])
def test_a_bucket_that_does_not_exist_is_refused(key: Any) -> None:
    with pytest.raises(InvalidOption, match=r"no bucket .*; use buckets such as 'choice:3-5'"):
        check_min_confidence({"choice:3-5": 0.5, key: 0.5})


def test_an_empty_map_of_thresholds_is_refused() -> None:
    with pytest.raises(InvalidOption, match="no entries"):
        check_min_confidence({})


def test_the_empty_payload() -> None:
    """L-36: it has only the two token counts."""
    assert empty_result("m") == {
        "model": "m",
        "answers": {},
        "usage": {"input_tokens": 0, "output_tokens": 0},
    }


# --- no answer at all ------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), float("-inf")])
def test_logits_that_are_no_numbers_are_no_answer(wrong: float) -> None:
    logits = np.array([0.0, wrong], dtype=np.float32)

    with pytest.raises(
        NonFiniteLogits, match=r"question 'q': the network gave \[0\.0, (nan|-?inf)"
    ):
        decode_answer(question("noul"), logits, Calibration())


def test_figures_of_other_kinds_of_number_are_taken() -> None:
    assert check_min_confidence(np.float32(0.5)) == 0.5
    assert gated({"answer_confidence": np.float32(0.9)}, 0.5)["abstention"] == "passed"
    probabilities = {"type": "choice", "probabilities": np.array([0.5, 0.5]), "confidence": 0.5}
    assert gated(probabilities, {"choice:2": 0.4})["abstention_threshold"] == 0.4
