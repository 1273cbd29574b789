"""The accessor ``jevlaya`` of Series and DataFrames, and the default Lab."""

from __future__ import annotations

import importlib
import subprocess
import sys
import warnings
from pathlib import Path

import pandas as pd
import pytest
from fakes import make_agent

import jevlaya_lab
from jevlaya_lab import Choice, Lab, Noul, default_lab, set_default_lab
from jevlaya_lab.lab import accessor
from jevlaya_lab.system_one.errors import InvalidInput, InvalidOption, InvalidState

ROOT = Path(jevlaya_lab.__file__).parent.parent


@pytest.fixture(autouse=True)
def lab():
    """The default Lab of each test answers at once."""
    lab = Lab(make_agent())
    set_default_lab(lab)
    yield lab
    set_default_lab(None)


@pytest.fixture
def texts():
    return pd.Series(["bbb", "aaa", "b"], index=["x", "y", "x"], name="text")


def test_a_choice_comes_back_on_the_same_index(texts):
    found = texts.jevlaya.choice("Which team?", {"alpha": "a", "beta": "b"})
    assert found.index.tolist() == ["x", "y", "x"]
    assert found.tolist() == ["beta", "alpha", "beta"]
    assert found.name == "choice"
    assert found.cat.categories.tolist() == ["alpha", "beta"]


def test_scores_and_probabilities_are_numbers(texts):
    score = texts.jevlaya.score("How much?", ["low", "mid", "high"])
    noul = texts.jevlaya.noul("Is it so?", labels={"false": "a", "true": "b"})
    assert score.dtype == noul.dtype == "float64"
    assert score.between(0, 2).all()
    assert noul["y"] < 0.5 < noul["x"].min()


def test_a_frame_says_which_column_is_the_state(texts):
    frame = pd.DataFrame({"text": texts, "n": range(3)})
    assert frame.jevlaya.choice("Which?", ["alpha", "beta"], state="text").index.equals(frame.index)
    both = frame.jevlaya.ask({"a": Noul("?"), "b": Choice("?", ["x"])}, state=["text", "n"])
    assert both.columns.tolist() == ["a", "b"]
    with pytest.raises(InvalidInput, match="state= is missing"):
        frame.jevlaya.noul("?")
    with pytest.raises(InvalidInput, match="names columns of a DataFrame"):
        texts.jevlaya.noul("?", state="text")


def test_options_reach_predict(texts, lab):
    seen = []
    texts.jevlaya.noul("?", on_predict_start=lambda ctx: seen.extend(ctx.states), dedupe=False)
    assert seen == ["bbb", "aaa", "b"]
    assert "q__confidence" in texts.jevlaya.ask({"q": Noul("?")}, detail=True)
    for option in ({"layout": "long"}, {"detail": True}):
        with pytest.raises(InvalidOption, match=r"write \.jevlaya\.ask\(\{'noul'"):
            texts.jevlaya.noul("?", **option)


def test_missing_states_are_refused_or_coerced():
    texts = pd.Series(["a", None])
    with pytest.raises(InvalidState, match="index 1 is missing"):
        texts.jevlaya.noul("?")
    assert texts.jevlaya.noul("?", errors="coerce").isna().tolist() == [False, True]


def test_the_lab_that_is_named_is_asked(texts, lab):
    other = Lab(make_agent())
    texts.jevlaya.noul("?", lab=other)
    assert (len(other.trace.runs), len(lab.trace.runs)) == (1, 0)
    with pytest.raises(InvalidInput, match=r"got a Agent; write Lab\(\.\.\.\) around it"):
        texts.jevlaya.noul("?", lab=make_agent())


def test_there_is_one_default_lab(lab):
    assert default_lab() is default_lab() is lab
    with pytest.raises(InvalidInput, match="a Lab belongs here, got a int"):
        set_default_lab(7)
    set_default_lab(None)
    assert default_lab() is not lab
    assert type(default_lab().agent).__name__ == "Router"


def test_registering_again_is_silent_and_keeps_what_is_there():
    before = pd.Series.jevlaya
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        accessor.register()
        importlib.reload(accessor)
        accessor.register()
    assert pd.Series.jevlaya is before


@pytest.mark.parametrize(
    ("program", "printed"),
    [
        ("import pandas as pd, jevlaya_lab", "True"),
        ("import jevlaya_lab, pandas as pd", "False"),
        ("import jevlaya_lab, pandas as pd; jevlaya_lab.Lab(jevlaya_lab.Router())", "True"),
        ("import pandas as pd; pd.Series.jevlaya = 1; import warnings; "
         "warnings.simplefilter('error', DeprecationWarning); "
         "warnings.simplefilter('ignore', UserWarning); import jevlaya_lab", "True"),
    ],
)  # fmt: skip
def test_when_it_is_registered(program, printed):
    program += "; import sys; print(hasattr(pd.Series(['a']), 'jevlaya'), 'torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [printed, "False"]
    assert done.stderr == ""
