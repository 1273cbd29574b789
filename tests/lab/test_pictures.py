"""A Lab draws its trace and its answers."""

from __future__ import annotations

import pandas as pd
import pytest
from fakes import QUESTIONS
from traced import ENGLISH, GERMAN, attached

from jevlaya_lab.system_one.errors import InvalidInput
from jevlaya_lab.views.picture import Picture


def test_every_picture_is_of_what_this_lab_asked():
    lab = attached()
    answers = lab.predict([ENGLISH, GERMAN], QUESTIONS, detail=True, progress=False)
    call = lab.trace.calls["call_id"].iloc[0]
    truth = pd.Series([True, False], index=answers.index, name="q")
    pictures = {
        "Lifecycle of one run": lab.lifecycle(),
        "Lifecycle of a batch: 2 requests": lab.lifecycle(call),
        "Timeline. 4 runs": lab.timeline(),
        "Residency of checkpoints. 2": lab.residency(),
        f"Order of events and hooks. call {call[:8]}": lab.hook_order(),
        "Distributions": lab.distributions(),
        "Reliability": lab.reliability(truth),
    }
    for said, picture in pictures.items():
        assert isinstance(picture, Picture)
        assert picture.alt.startswith(said)
    assert lab.hook_order(call[:12]).alt == lab.hook_order().alt
    assert "q: mean" in lab.distributions().alt
    assert lab.reliability(truth, n_bins=4).layout.alt != ""


def test_before_the_first_call_there_is_nothing_to_draw():
    lab = attached()
    for picture in (lab.timeline(), lab.residency(), lab.distributions()):
        assert "no data" in picture.layout.texts
    for draw in (lab.lifecycle, lab.hook_order):
        with pytest.raises(InvalidInput, match="nothing was recorded yet"):
            draw()
    with pytest.raises(InvalidInput, match="there are no answers yet"):
        lab.reliability([True])
