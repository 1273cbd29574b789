"""Choices among hundreds of options: the nearest, or a tournament."""

from __future__ import annotations

import json
import math
import warnings

import laya
import laya.agent
import numpy as np
import pandas as pd
import pytest
from embedding_fakes import FakeModel
from fakes import make_agent
from tiny import make_checkpoint

from jevlaya_lab import Choice, EmbeddingGenerator, Lab, Noul, Router, Score
from jevlaya_lab.embedding.errors import InvalidText
from jevlaya_lab.lab.shortlist import OptionVectors
from jevlaya_lab.system_one.errors import InvalidInput, InvalidOption, InvalidQuestion, InvalidState

WORDS = ["refund", "parcel", "invoice", "login", "password"]
OPTIONS = [f"topic {i}" for i in range(100)] + WORDS
HASHING = EmbeddingGenerator("hashing", 128)


class Clerk:
    """An agent of another make: the option whose words stand in the state, and what it was asked.

    Where none does, the first one. A state with ``fail`` in it raises.
    """

    def __init__(self):
        self.asked = []

    def predict_batch(self, states, questions, *, hooks, on_predict_start, on_predict_end):
        ((qid, question),) = questions.items()
        labels = list(question["criteria"])
        results = []
        for state in states:
            if "fail" in state:
                raise LookupError("the clerk cannot read this")
            self.asked.append((state, labels))
            points = [1 + 20 * sum(w in state.lower() for w in one.split()) for one in labels]
            p = [each / sum(points) for each in points]
            best = max(range(len(labels)), key=lambda i: p[i])
            answer = {
                "type": "choice",
                "choice": labels[best],
                "probabilities": dict(zip(labels, p, strict=True)),
                "confidence": p[best],
                "answer_confidence": p[best],
            }
            results.append({"model": "clerk", "answers": {qid: answer}, "usage": {}})
        return results


@pytest.fixture
def clerk():
    return Clerk()


@pytest.fixture
def lab(clerk):
    return Lab(clerk)


def ask(lab, data, question=None, **options):
    options = {"embedding": HASHING, "keep": 8, "progress": False, **options}
    if options.get("method") == "tournament":
        del options["embedding"]
    return lab.shortlist(data, question or Choice("What about?", OPTIONS), **options)


def test_each_state_is_asked_about_the_options_nearest_to_it(lab, clerk):
    texts = pd.Series(["my parcel", "the invoice", "my parcel"], index=["x", "y", "x"])
    found = ask(lab, texts)

    assert found.index.tolist() == ["x", "y", "x"]
    assert found["answer"].tolist() == ["parcel", "invoice", "parcel"]
    assert found["answer"].dtype == "category"
    assert found["answer"].cat.categories.tolist() == OPTIONS
    assert [len(labels) for _, labels in clerk.asked] == [8, 8]
    for state, labels in clerk.asked:
        similar = HASHING.embed_sync([state]).similarity(HASHING.embed_sync(OPTIONS))[0]
        figures = dict(zip(OPTIONS, similar.tolist(), strict=True))
        kept = json.loads(found["kept"][[s == state for s in texts]].iloc[0])
        assert labels == [label for label in OPTIONS if label in kept]
        falling = [figures[label] for label in kept]
        assert falling == pytest.approx(sorted(falling, reverse=True), abs=1e-6)
        assert falling[-1] >= max(figures[one] for one in OPTIONS if one not in kept) - 1e-6
    assert found["rank"].tolist() == [1, 1, 1]
    one = HASHING.embed_sync(["my parcel"]).similarity(HASHING.embed_sync(["parcel"]))[0, 0]
    assert found["similarity"].iloc[0] == pytest.approx(float(one))
    assert found["confidence"].iloc[0] == found["answer_confidence"].iloc[0] == 21 / 28
    assert found.dtypes.astype(str).to_dict() == {
        "answer": "category",
        "confidence": "float64",
        "answer_confidence": "float64",
        "rank": "Int64",
        "similarity": "float64",
        "n_asked": "Int64",
        "kept": "string",
    }


def test_it_says_what_was_saved(lab):
    found = ask(lab, ["my parcel", "the invoice", "my parcel"], keep=5)
    account = found.attrs["jevlaya_shortlist"]

    assert (account["states"], account["options"]) == (2, 105)
    assert (account["asked"], account["saved"]) == (10, 200)
    assert account["says"] == "asked about 10 pairs of state and option, of 210: 200 (95%) saved"
    assert found["n_asked"].tolist() == [5, 5, 5]
    every = ask(lab, ["my parcel", "my parcel"], dedupe=False)
    assert every.attrs["jevlaya_shortlist"]["states"] == 2


def test_a_tournament_asks_winners_again_until_one_is_left(lab, clerk):
    found = ask(lab, ["my parcel", "nothing of it"], method="tournament", keep=10)

    assert found["answer"].tolist() == ["parcel", "topic 0"]
    # 105 options: eleven groups, their winners in two, the two winners in one.
    assert found["rounds"].tolist() == [3, 3]
    assert found["n_asked"].tolist() == [105 + 11 + 2] * 2
    assert max(len(labels) for _, labels in clerk.asked) == 10
    first = [labels for state, labels in clerk.asked if state == "my parcel"][:11]
    assert sorted(label for labels in first for label in labels) == sorted(OPTIONS)
    last = clerk.asked[-1][1]
    assert len(last) == 2
    kept = json.loads(found["kept"].iloc[0])
    assert kept[0] == "parcel"
    assert found["confidence"].iloc[0] == 21 / 22
    account = found.attrs["jevlaya_shortlist"]
    assert account["saved"] == -26
    assert account["says"].endswith("26 more")
    assert "rank" not in found


@pytest.mark.parametrize("n", [1, 2, 3, 7, 50, 51])
def test_a_tournament_of_any_size_has_one_winner(lab, clerk, n):
    options = [f"w{i}w" for i in range(n)]
    found = ask(lab, [f"it is {options[-1]}"], Choice("?", options), method="tournament", keep=2)

    assert found["answer"].tolist() == [options[-1]]
    assert found["rounds"].tolist() == [max(1, math.ceil(math.log2(n)))]
    assert all(len(labels) == 2 for _, labels in clerk.asked) or n == 1


def test_options_are_embedded_once_and_those_of_another_model_apart():
    """E-10: other options, or another model, are never answered with kept vectors."""
    model, other = FakeModel(), FakeModel()
    generator = EmbeddingGenerator("local_transformer", model, name="one")
    lab = Lab(Clerk())
    for _ in range(2):
        ask(lab, ["my parcel"], embedding=generator)
    embedded = [text for call in model.calls for text in call]
    assert embedded.count("parcel") == 1
    assert embedded.count("my parcel") == 2
    ask(lab, ["my parcel"], embedding=EmbeddingGenerator("local_transformer", other, name="two"))
    assert [text for call in other.calls for text in call].count("parcel") == 1
    described = {"parcel": "a box that was sent", **dict.fromkeys(OPTIONS[:9])}
    ask(lab, ["my parcel"], Choice("?", described), embedding=generator)
    assert "parcel: a box that was sent" in [text for call in model.calls for text in call]


def test_only_a_few_lists_of_options_are_kept():
    kept = OptionVectors()
    for i in range(30):
        kept.of([f"a {i}", "b"], HASHING)
    assert len(kept._kept) == 8


def test_descriptions_go_along_with_the_options(lab, clerk):
    criteria = {label: f"it is about {label}" for label in OPTIONS}
    seen = []

    class Watch(Clerk):
        def predict_batch(self, states, questions, **hooks):
            seen.append(dict(questions["topic"]["criteria"]))
            return super().predict_batch(states, questions, **hooks)

    found = ask(Lab(Watch()), ["my parcel"], {"topic": Choice("?", criteria)})
    assert found["answer"].tolist() == ["parcel"]
    assert all(criteria[label] == said for label, said in seen[0].items())


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"question": Noul("?")}, InvalidQuestion, "is a noul"),
        ({"question": Score("?", ["a", "b"])}, InvalidQuestion, "is a score"),
        ({"question": {"a": Choice("?", ["x"]), "b": Noul("?")}}, InvalidQuestion, "got 2"),
        ({"question": {}}, InvalidQuestion, "got 0"),
        ({"question": {"type": "choice", "criteria": []}}, InvalidQuestion, "answer"),
        ({"question": Choice("?", ["a", "b"], option_order=[1, 0])}, InvalidQuestion, "leave it"),
        ({"keep": 1}, InvalidOption, "keep must be"),
        ({"method": "nearest"}, InvalidOption, "'embed' or 'tournament'"),
        ({"errors": "ignore"}, InvalidOption, "'raise' or 'coerce'"),
        ({"embedding": "hashing"}, InvalidOption, "embedding is an EmbeddingGenerator"),
        ({"chunk_size": 0}, InvalidOption, "chunk_size"),
        ({"max_len": 5}, InvalidOption, "no option 'max_len'"),
        ({"hooks": [3]}, InvalidInput, "hook"),
        ({"data": ["a", None]}, InvalidState, "index 1 is missing"),
        ({"state": "text"}, InvalidInput, "names columns"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_before_anything_is_embedded_or_asked(options, error, said):
    clerk, model = Clerk(), FakeModel()
    generator = EmbeddingGenerator("local_transformer", model)
    given = {"data": ["a"], "question": Choice("?", OPTIONS), "embedding": generator, **options}
    with pytest.raises(error, match=said):
        Lab(clerk).shortlist(progress=False, **given)
    assert model.calls == []
    assert generator.explain().state.startswith("unloaded")
    assert clerk.asked == []


def test_a_tournament_takes_no_embedding(lab):
    with pytest.raises(InvalidOption, match="embeds nothing"):
        lab.shortlist(["a"], Choice("?", OPTIONS), method="tournament", embedding=HASHING)


@pytest.mark.parametrize("method", ["embed", "tournament"])
def test_rows_that_fail_are_named_or_coerced(lab, method):
    data = pd.Series(["my parcel", "fail here", None, "the login"], index=list("abcd"))
    found = ask(lab, data, method=method, errors="coerce")
    assert found.index.tolist() == list("abcd")
    assert found["answer"].isna().tolist() == [False, True, True, False]
    assert found["answer"].dropna().tolist() == ["parcel", "login"]
    assert "LookupError: the clerk cannot read this" in found["error"].iloc[1]
    assert "index 'c' is missing" in found["error"].iloc[2]
    assert found["error"].isna().tolist() == [True, False, False, True]
    with pytest.raises(LookupError, match="cannot read"):
        ask(lab, data.drop("c"), method=method)


def test_a_blank_state_cannot_be_embedded_but_compete(lab):
    with pytest.raises(InvalidText, match="index 1 is blank"):
        ask(lab, ["my parcel", " "])
    found = ask(lab, ["my parcel", " "], errors="coerce")
    assert found["answer"].isna().tolist() == [False, True]
    assert ask(lab, [" "], method="tournament")["answer"].tolist() == ["topic 0"]


def test_an_option_that_cannot_be_embedded_is_named(lab):
    model = FakeModel()
    model.hopeless.add("parcel")
    with pytest.raises(ArithmeticError, match=r"the options \['parcel'\]"):
        ask(lab, ["a"], embedding=EmbeddingGenerator("local_transformer", model))


def test_what_was_done_before_a_failure_is_in_last(lab):
    with pytest.raises(LookupError):
        ask(lab, pd.Series(["my parcel", "the login", "fail"], index=list("abc")), chunk_size=1)
    assert lab.last["answer"].tolist() == ["parcel", "login"]
    assert lab.last.index.tolist() == ["a", "b"]
    assert lab.answers is None


def test_states_of_the_same_options_share_a_call():
    calls = []

    class Counting(Clerk):
        def predict_batch(self, states, questions, **hooks):
            calls.append(len(states))
            return super().predict_batch(states, questions, **hooks)

    states = [f"about {i}" for i in range(10)]
    ask(Lab(Counting()), states, method="tournament", keep=200, chunk_size=4)
    assert calls == [4, 4, 2]
    calls.clear()
    ask(Lab(Counting()), states, keep=500)
    assert calls == [10]


def test_nothing_and_more_than_there_are(lab, clerk):
    empty = ask(lab, pd.Series([], dtype=object))
    assert len(empty) == 0
    assert empty["answer"].cat.categories.tolist() == OPTIONS
    every = ask(lab, ["my parcel"], keep=1000)
    assert every["n_asked"].tolist() == [105]


def test_hooks_run_and_the_trace_has_the_calls():
    lab = Lab(make_agent())
    seen = []
    found = ask(
        lab,
        pd.DataFrame({"text": ["bbb", "aaa"]}, index=[4, 2]),
        Choice("Which?", {"alpha": "a", "beta": "b", "gamma": "c"}),
        state="text",
        keep=2,
        on_predict_start=lambda ctx: seen.extend(ctx.states),
    )
    assert found.index.tolist() == [4, 2]
    assert sorted(seen) == ["aaa", "bbb"]
    assert lab.trace.runs["n_states"].sum() == 2


def test_an_agent_takes_one_option_for_all_rows_and_a_router_each_its_own():
    texts = pd.Series(["bbb", "aaa"])
    each = pd.Series(["en", "de"])
    with pytest.raises(InvalidInput, match="lang= is a Series"):
        ask(Lab(make_agent()), texts, lang=each)
    router = Router()
    router.attach("english", make_agent())
    seen = []
    found = ask(
        Lab(router),
        texts,
        model=pd.Series(["english", "english"]),
        on_predict_start=lambda ctx: seen.append(ctx.states),
    )
    assert found["answer"].notna().all()
    assert sorted(seen) == [["aaa"], ["bbb"]]


def test_the_same_frame_comes_from_laya(tmp_path):
    folder = str(make_checkpoint(tmp_path / "one", seed=1))
    texts = ["my parcel", "the invoice", "no login"]
    frames = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from jevlaya_lab import Agent

        for agent in (Agent(folder, device="cpu"), laya.agent.Agent(folder, device="cpu")):
            frames.append(ask(Lab(agent), texts, Choice("?", OPTIONS[-20:]), keep=4))
            frames.append(
                ask(Lab(agent), texts, Choice("?", OPTIONS[-20:]), keep=4, method="tournament")
            )
    for ours, theirs in (frames[::2], frames[1::2]):
        figures = ["confidence", "answer_confidence"]
        pd.testing.assert_frame_equal(ours.drop(columns=figures), theirs.drop(columns=figures))
        assert np.allclose(ours[figures], theirs[figures], atol=2e-3)
