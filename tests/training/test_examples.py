"""Makers of training examples."""

from __future__ import annotations

import random

import pytest

from jevlaya_lab.training import examples as make
from jevlaya_lab.training.data import Row
from jevlaya_lab.training.examples import Example, LabelledSet
from jevlaya_lab.training.wordings import SCALES

LABELS = ("alarm", "balance", "card", "date", "email", "flight")


def source(also: dict[str, frozenset[str]] | None = None) -> LabelledSet:
    rows = [Row(f"{label} text {i}", "", label, None, False) for label in LABELS for i in range(3)]
    nearest = {label: [other for other in LABELS if other != label] for label in LABELS}
    return LabelledSet("made up", "intent", rows, LABELS, nearest, also or {})


def many(seed: int) -> list[Example | None]:
    rng, one = random.Random(seed), source()
    levels = SCALES["emobank_valence"].levels[0]
    rows = [Row("t", f"claim {i}", "supported", None, False) for i in range(9)]
    return [
        example
        for row in one.rows
        for example in (
            make.choice(rng, one, row),
            make.same_meaning(rng, one, row),
            make.label_noul(rng, one, row),
            make.pair_noul(rng, "fever_dev_pairs", rows[0]),
            make.retrieve(rng, "fever_dev_pairs", Row("u", "mine", "", None, False), rows),
            make.score(rng, "emobank_valence", Row("t", "", levels[3], 3.5, False), levels),
            make.statement_noul(rng, "sms_spam", Row("t", "", "spam", None, False)),
            make.statement_choice(rng, "sms_spam", Row("t", "", "spam", None, False)),
        )
    ]


def test_one_seed_gives_the_same_examples() -> None:
    assert many(3) == many(3)
    assert many(3) != many(4)


@pytest.mark.parametrize("example", [e for e in many(1) if e is not None])
def test_every_example_is_well_formed(example: Example) -> None:
    assert len(example.options) == len(example.target) == len(set(example.options))
    assert sum(example.target) == pytest.approx(1)
    assert example.state
    assert example.instructions
    assert "{" not in example.instructions
    assert example.type != make.NOUL_TYPE or len(example.options) == 2


def test_a_choice_has_the_wanted_number_of_options_and_the_true_one() -> None:
    one, rng = source(), random.Random(0)
    for n in (1, 2, 4, 6, 99):
        example = make.choice(rng, one, one.rows[0], n)
        assert len(example.options) == min(n, 6)
        assert example.options[example.target.index(1.0)] == "alarm"


def test_labels_that_also_hold_are_never_wrong_options() -> None:
    text = "alarm text 0"
    one, rng = source({text: frozenset(("alarm", "card", "date"))}), random.Random(0)
    row = next(row for row in one.rows if row.text == text)
    for _ in range(20):
        assert not {"card", "date"} & set(make.choice(rng, one, row, 6).options)


def test_option_counts_span_two_to_the_most() -> None:
    rng = random.Random(0)
    counts = [make.option_count(rng, 60) for _ in range(5000)]
    assert (min(counts), max(counts)) == (2, 60)
    assert sum(count <= 10 for count in counts) > 2000


def test_half_the_yes_no_questions_about_labels_are_true() -> None:
    one, rng = source(), random.Random(0)
    examples = [make.label_noul(rng, one, row) for row in one.rows for _ in range(50)]
    assert 0.42 < sum(example.target[1] for example in examples) / len(examples) < 0.58
    for example in examples:
        assert (example.state.split()[0] in example.instructions) == bool(example.target[1])


def test_a_denied_statement_turns_the_target_round() -> None:
    rng, row = random.Random(0), Row("win a prize", "", "spam", None, False)
    found = [make.statement_noul(rng, "sms_spam", row) for _ in range(60)]
    about_spam = {e.target for e in found if e is not None and "spam" in e.instructions}
    denying = {e.target for e in found if e is not None and "legitimate" in e.instructions}
    assert about_spam == {(0.0, 1.0)}
    assert denying == {(1.0, 0.0)}


def test_a_graded_statement_keeps_its_grade() -> None:
    row = Row("what is", "", "not well formed", 0.2, False)
    found = make.statement_noul(random.Random(0), "query_wellformedness", row)
    assert found is not None
    assert sorted(found.target) == pytest.approx([0.2, 0.8])


def test_levels_stay_in_order_when_a_part_of_a_scale_is_asked() -> None:
    levels = SCALES["emobank_arousal"].levels[0]
    row, rng, lengths = Row("t", "", levels[2], 3.0, False), random.Random(0), set()
    for _ in range(80):
        example = make.score(rng, "emobank_arousal", row, levels)
        if example is None:
            continue
        lengths.add(len(example.options))
        named = next(n for n in SCALES["emobank_arousal"].levels if set(example.options) <= set(n))
        places = [named.index(option) for option in example.options]
        assert places == sorted(places)
        assert example.options[example.target.index(1.0)] == named[2]
    assert {2, 5} <= lengths
