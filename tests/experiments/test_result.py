"""What every experiment gives back: an outcome, words, a file and a picture."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

from jevlaya_lab.experiments import NAMES, Claim, ExperimentResult, find
from jevlaya_lab.frames import read_csv
from jevlaya_lab.system_one.errors import InvalidInput, InvalidOption
from jevlaya_lab.views.charts import bar_chart


@dataclass(frozen=True, kw_only=True)
class Result(ExperimentResult):
    def layout(self):
        return bar_chart(self.frame, x="name", y="n", title="A picture")


def make(*held):
    return Result(
        name="example",
        hypothesis="It is so.",
        claims=tuple(Claim(f"claim {i}", each, "seen", "L-2") for i, each in enumerate(held)),
        frame=pd.DataFrame({"name": ["a", "b"], "n": pd.array([1, None], "Int64")}),
        parameters={"sizes": [1, 2]},
        seed=7,
    )


@pytest.mark.parametrize(
    ("held", "outcome"),
    [
        ((True, True), True),
        ((True, None), None),
        ((None, False), False),
        ((np.True_, np.False_), False),
        ((np.True_,), True),
        ((), True),
    ],
)
def test_a_hypothesis_holds_when_all_its_claims_do(held, outcome):
    assert make(*held).held is outcome


def test_the_words_name_each_claim_with_its_rule_and_outcome():
    words = make(True, False, None).summary()

    assert words.splitlines()[0] == "example: It is so. It did not hold."
    assert [line.split()[0] for line in words.splitlines()[1:]] == ["held", "DID", "cannot"]
    assert words.count("L-2: claim") == 3


def test_the_file_gives_the_frame_back_and_says_with_what_it_was_made(tmp_path):
    result = make(np.True_, None)
    path = result.to_csv(tmp_path / "out" / "r.csv")
    said = json.loads(path.with_suffix(".schema.json").read_text())

    pd.testing.assert_frame_equal(read_csv(path), result.frame)
    assert (said["experiment"], said["seed"], said["held"]) == ("example", 7, None)
    assert said["parameters"] == {"sizes": [1, 2]}
    assert said["claims"][0] == {"rule": "L-2", "text": "claim 0", "held": True, "evidence": "seen"}
    assert {"python", "torch", "pandas", "jevlaya_lab"} <= set(said["versions"])


def test_a_notebook_shows_the_picture_and_the_words():
    data, _ = make(True)._repr_mimebundle_()

    assert data["image/png"][:4] == b"\x89PNG"
    assert data["text/plain"].startswith("example: It is so. It held.")
    assert "<Result: held, 2 rows>" in repr(make(True))


def test_every_name_has_its_experiment_with_a_seed_and_described_parameters():
    for name in NAMES:
        found = find(name)
        assert found.name == name
        assert found.title
        assert "seed" in {each.name for each in found.parameters}
        for each in found.parameters:
            assert each.option.help.endswith("."), (name, each.name)
            each.check(each.default)


def test_unknown_names_and_parameters_are_refused_with_what_there_is():
    with pytest.raises(InvalidOption, match="did you mean 'eviction'"):
        find("evictoin")
    with pytest.raises(InvalidOption, match="no parameter 'n_word'; did you mean 'n_words'"):
        find("embedding_hashing").run(n_word=[1])
    with pytest.raises(InvalidInput, match="predict_batch"):
        find("embedding_hashing").run(object())
