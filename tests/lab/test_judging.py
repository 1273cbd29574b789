"""Answers against the truth: tables, and temperatures fitted on a user's own labels."""

from __future__ import annotations

import copy
import warnings

import laya
import laya.agent
import numpy as np
import pandas as pd
import pytest
from fakes import make_agent
from tiny import make_checkpoint

from jevlaya_lab import Agent, Choice, Lab, Noul, Router, Score, calibration, confusion
from jevlaya_lab.lab import fitting
from jevlaya_lab.system_one.calibration import Calibration
from jevlaya_lab.system_one.errors import InvalidInput

QUESTIONS = {
    "team": Choice("Which team?", ["alpha", "beta", "gamma"]),
    "level": Score("How much?", ["low", "mid", "high"]),
    "sure": Noul("Is it sure?"),
}


def texts(n, seed=0):
    """States whose letters decide: the more of a letter, the surer the network."""
    rng = np.random.default_rng(seed)
    return pd.Series(["".join(rng.choice(list("abgtf012"), 6)) for _ in range(n)]).map(
        lambda text: text + " " + text
    )


def drawn(answers, temperature, seed=1, agent_temperature=1.0):
    """True values drawn from the stated probabilities, as they would be at another temperature."""
    rng = np.random.default_rng(seed)
    truth = {}
    for name, labels in (("team", ["alpha", "beta", "gamma"]), ("level", [0, 1, 2])):
        p = answers[[f"{name}__p_{label}" for label in labels]].to_numpy()
        truth[name] = [
            labels[rng.choice(3, p=row)] for row in at(p, agent_temperature, temperature)
        ]
    p = np.column_stack([1 - answers["sure"], answers["sure"]])
    yes = at(p, agent_temperature, temperature)[:, 1]
    truth["sure"] = rng.random(len(yes)) < yes
    return pd.DataFrame(truth, index=answers.index)


def at(p, before, after):
    raised = np.clip(p, 5e-5, None) ** (before / after)
    return raised / raised.sum(axis=1, keepdims=True)


@pytest.fixture
def lab():
    return Lab(make_agent())


def answered(lab, n=400, **options):
    answers = lab.predict(texts(n), QUESTIONS, detail=True, dedupe=False, progress=False, **options)
    return answers, drawn(answers, 3.0)


# --- tables -------------------------------------------------------------------------------------


def test_tables_are_those_of_the_functions_on_the_last_answers(lab):
    answers, truth = answered(lab, 40)
    pd.testing.assert_frame_equal(lab.confusion(truth), confusion(answers, truth))
    pd.testing.assert_frame_equal(lab.confusion(truth["team"]), confusion(answers, truth))
    ours, theirs = lab.calibration(truth, n_bins=5), calibration(answers, truth, n_bins=5)
    pd.testing.assert_frame_equal(ours.summary, theirs.summary)
    pd.testing.assert_frame_equal(ours.reliability, theirs.reliability)
    alone = lab.calibration(truth["sure"], "sure").summary
    assert alone["question"].tolist() == ["sure"]


def test_without_answers_there_are_no_tables(lab):
    for method in (lab.confusion, lab.calibration):
        with pytest.raises(InvalidInput, match="no answers yet; call predict first"):
            method([True])
    lab.predict(["a"], QUESTIONS, layout="long")
    with pytest.raises(InvalidInput, match="long layout; ask with layout='wide'"):
        lab.confusion(["alpha"])


# --- temperatures -------------------------------------------------------------------------------


def test_temperatures_that_the_truth_was_drawn_at_are_found_and_used(lab):
    answers, truth = answered(lab)
    report = lab.fit_calibration(answers, truth)
    assert report["checkpoint"].tolist() == ["agent"] * 3
    assert report["bucket"].tolist() == ["choice:3-5", "score:3-5", "noul:2"]
    assert report["n"].tolist() == [400] * 3
    assert report["temperature_before"].tolist() == [1.0] * 3
    assert report["temperature"].between(2.3, 4.0).all()
    assert (report["log_loss"] < report["log_loss_before"]).all()
    assert (report["ece"] < report["ece_before"]).all()
    assert report["applied"].tolist() == [True] * 3
    assert report["note"].isna().all()
    used = lab.agent.calibration
    assert dict(used.by_options) == dict(zip(report["bucket"], report["temperature"], strict=True))
    assert used.temperature == (1.0, 1.0, 1.0)
    again = lab.predict(texts(400), QUESTIONS, detail=True, dedupe=False, progress=False)
    pd.testing.assert_series_equal(again["team"], answers["team"])
    assert again["team__answer_confidence"].mean() < answers["team__answer_confidence"].mean()
    assert lab.calibration(truth).summary["ece"].max() < 0.12


def test_fitting_the_same_answers_again_gives_the_same(lab):
    answers, truth = answered(lab)
    first = lab.fit_calibration(answers, truth)
    pd.testing.assert_frame_equal(lab.fit_calibration(answers, truth), first)
    pd.testing.assert_frame_equal(lab.fit_calibration(answers.copy(), truth), first)
    # New answers are made with the new temperatures, so little is left to fit.
    fresh = lab.predict(texts(400), QUESTIONS, detail=True, dedupe=False, progress=False)
    second = lab.fit_calibration(fresh, truth)
    assert second["temperature_before"].tolist() == first["temperature"].tolist()
    np.testing.assert_allclose(second["temperature"], first["temperature"], rtol=0.06)


def test_answers_that_lost_their_note_are_taken_as_made_with_the_temperatures_in_use(lab):
    answers, truth = answered(lab)
    plain = pd.DataFrame({name: answers[name] for name in answers})
    assert plain.attrs == {}
    noted, bare = (lab.fit_calibration(f, truth, apply=False) for f in (answers, plain))
    pd.testing.assert_frame_equal(noted, bare)
    assert noted["note"].tolist() == ["apply=False"] * 3
    assert not noted["applied"].any()
    assert lab.agent.calibration == Calibration()


def test_states_are_matched_by_index_and_may_be_chosen(lab):
    answers, truth = answered(lab)
    shuffled = truth.sample(frac=1, random_state=3)
    pd.testing.assert_frame_equal(
        lab.fit_calibration(answers, shuffled, apply=False),
        lab.fit_calibration(answers, truth, apply=False),
    )
    part = lab.fit_calibration(answers[answers.index < 100], truth["team"], apply=False)
    assert part[["bucket", "n"]].values.tolist() == [["choice:3-5", 100]]
    half = truth["sure"].astype(object).where(truth.index % 2 == 0, None)
    assert lab.fit_calibration(answers, half, apply=False)["n"].tolist() == [200]


def test_what_held_out_answers_do_not_gain_by_is_left_alone(lab):
    answers, _ = answered(lab)
    truth = drawn(answers, 1.0, seed=5)
    report = lab.fit_calibration(answers, truth)
    kept = report[~report["applied"]]
    assert (kept["log_loss"] >= kept["log_loss_before"]).all()
    assert kept["note"].eq("no better on answers that it was not fitted on").all()
    assert set(lab.agent.calibration.by_options) == set(report.loc[report["applied"], "bucket"])


def test_held_out_figures_do_not_flatter():
    """Labels drawn by chance: a fit to few rows looks better on these rows than it is."""
    gains = []
    for seed in range(8):
        lab = Lab(make_agent())
        answers = lab.predict(texts(30, seed), QUESTIONS, detail=True, dedupe=False, progress=False)
        truth = drawn(answers, 1.0, seed=seed)[["team"]]
        (row,) = lab.fit_calibration(answers, truth, apply=False).itertuples()
        gains.append(row.log_loss_before - row.log_loss)
    assert np.mean(gains) < 0.02
    assert min(gains) < 0


def test_temperatures_stay_in_their_range(lab):
    answers, _ = answered(lab, 100)
    wrong = {"alpha": "beta", "beta": "gamma", "gamma": "alpha"}
    never = answers["team"].astype(object).map(wrong).to_frame()
    assert lab.fit_calibration(answers, never)["temperature"].tolist() == [5.0]
    lab = Lab(make_agent(config={"temperature": [4.0, 1.0, 1.0]}))
    answers, _ = answered(lab, 100)
    always = answers["team"].astype(object).to_frame()
    report = lab.fit_calibration(answers, always)
    assert report["temperature_before"].tolist() == [4.0]
    assert report["temperature"].tolist() == [0.5]


def test_too_few_rows_are_refused_with_numbers(lab):
    answers, truth = answered(lab, 19)
    with pytest.raises(InvalidInput, match=r"agent choice:3-5: 19 of 20 labelled .* at least 20"):
        lab.fit_calibration(answers, truth)
    assert lab.agent.calibration == Calibration()
    answers, truth = answered(lab, 40)
    few = truth.astype({"team": object})
    few.loc[5:, "team"] = None
    report = lab.fit_calibration(answers, few).set_index("bucket")
    assert report.loc["choice:3-5", "note"] == "too few: 5 of 20 labelled answers, 5 of 5 states"
    assert pd.isna(report.loc["choice:3-5", "temperature"])
    assert "choice:3-5" not in lab.agent.calibration.by_options


@pytest.mark.parametrize("dedupe", [True, False])
def test_too_few_states_are_refused_with_numbers(lab, dedupe):
    options = {"detail": True, "dedupe": dedupe, "progress": False}
    answers = lab.predict(["It rains."] * 20, QUESTIONS, **options)
    truth = pd.Series([True] * 20, name="sure")
    few = r"noul:2: 20 of 20 labelled answers, 1 of 5 states\).* at least 5 different states"
    with pytest.raises(InvalidInput, match=few):
        lab.fit_calibration(answers, truth)
    assert lab.agent.calibration == Calibration()


def test_equal_states_are_never_fitted_on_and_judged_at_once(lab, monkeypatch):
    base, truth = answered(lab, 12)
    copies = pd.concat([base.assign(text=texts(12), row=i) for i in range(5)], ignore_index=True)
    copies = copies.sample(frac=1, random_state=1)
    labels = pd.concat([truth] * 5, ignore_index=True).loc[copies.index, ["team", "sure"]]
    texts_of, real, folds = copies["text"].to_numpy(), fitting._fitted, []

    def fitted(each, chosen):
        assert len(chosen) == 60
        if not chosen.all():
            folds.append((set(texts_of[chosen]), set(texts_of[~chosen])))
        return real(each, chosen)

    monkeypatch.setattr(fitting, "_fitted", fitted)
    report = lab.fit_calibration(copies, labels, apply=False)
    assert report["n"].tolist() == [60, 60]
    assert len(folds) == 10
    for used, held_out in folds:
        assert held_out
        assert not used & held_out


def test_a_histogram_of_a_refitted_bucket_goes():
    agent = make_agent()
    agent.calibration = Calibration(binning={"choice:3-5": (0.5, 0.5), "choice:2": (0.1, 0.9)})
    lab = Lab(agent)
    answers, truth = answered(lab)
    lab.fit_calibration(answers, truth[["team"]])
    assert agent.calibration.binning == {"choice:2": (0.1, 0.9)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a, t: (a, t["team"].tolist()), "takes an answers frame made with detail=True"),
        (lambda a, t: (a["team"], t), "takes an answers frame made with detail=True"),
        (lambda a, t: (a, t.rename(columns=str.upper)), "no question has a column in both"),
        (lambda a, t: (a[["team", "level", "sure"]], t), "'team' has no probabilities"),
        (lambda a, t: (a, t.assign(team="delta")), r"'team' at index 0 is none of its options \["),
        (lambda a, t: (a, t.assign(sure=7)), "not all true or false"),
        (lambda a, t: (a, t.set_axis(range(1, 31))), "different indexes"),
    ],
)
def test_what_cannot_be_fitted_is_refused(lab, change, message):
    answers, truth = answered(lab, 30)
    before = copy.copy(lab.agent.calibration)
    with pytest.raises(InvalidInput, match=message):
        lab.fit_calibration(*change(answers, truth))
    assert lab.agent.calibration == before


def test_temperatures_of_languages_are_not_guessed():
    agent = make_agent(lang_temperatures={"de": {"temperature": [2.0, 2.0, 2.0]}})
    lab = Lab(agent)
    answers, truth = answered(lab, 40)
    with pytest.raises(InvalidInput, match=r"has temperatures of languages \['de'\]"):
        lab.fit_calibration(answers, truth)


# --- routers ------------------------------------------------------------------------------------


def routed(agents):
    router = Router()
    for name, agent in agents.items():
        router.attach(name, agent)
    return Lab(router)


def test_each_checkpoint_gets_the_temperatures_of_what_it_answered():
    english = make_agent(config={"temperature": [2.0, 2.0, 2.0]})
    other = make_agent()
    lab = routed({"english": english, "multilingual": other})
    models = pd.Series(["english", "multilingual"] * 200)
    answers, _ = answered(lab, model=models)
    first = models == "english"
    truth = pd.concat(
        [drawn(answers[first], 1.0, agent_temperature=2.0), drawn(answers[~first], 3.0)]
    )
    report = lab.fit_calibration(answers, truth).set_index(["checkpoint", "bucket"])
    assert report["n"].tolist() == [200] * 6
    assert report.loc["english", "temperature_before"].tolist() == [2.0] * 3
    assert report.loc["english", "temperature"].between(0.7, 1.4).all()
    assert report.loc["multilingual", "temperature"].between(2.0, 4.6).all()
    assert report["applied"].all()
    assert (
        english.calibration.by_options["noul:2"] == report.loc[("english", "noul:2"), "temperature"]
    )
    assert other.calibration.by_options != english.calibration.by_options


def test_an_agent_that_was_evicted_meanwhile_gets_nothing_and_the_report_says_so():
    lab = routed({"english": make_agent(config={"temperature": [2.0, 1.0, 1.0]})})
    answers, truth = answered(lab, 60, model="english")
    lab.agent.unload("english")
    report = lab.fit_calibration(answers, truth)
    assert report["temperature_before"].tolist() == [2.0, 1.0, 1.0]
    assert report["temperature"].notna().all()
    assert not report["applied"].any()
    assert "the checkpoint is not resident" in report["note"].tolist()
    assert lab.agent.loaded == []
    answers.attrs.clear()
    with pytest.raises(InvalidInput, match="temperatures that 'english' answered with are not"):
        lab.fit_calibration(answers, truth)


def test_a_saved_agent_comes_back_with_what_was_fitted(tmp_path):
    """The way that the docstring names for agents that are evicted."""
    source = make_checkpoint(tmp_path / "c", temperature=[1.0, 1.0, 1.0], temperature_by_options={})
    router = Router({"mine": str(source)}, device="cpu", default="mine")
    lab = Lab(router)
    data = texts(60)
    answers = lab.predict(data, {"sure": QUESTIONS["sure"]}, detail=True, model="mine")
    truth = (answers["sure"] < 0.5).rename("sure")
    (row,) = lab.fit_calibration(answers, truth).itertuples()
    assert row.applied
    router.unload("mine")
    assert router.load("mine").calibration.by_options == {}
    lab.fit_calibration(answers, truth)
    router.register("mine", str(router.load("mine").save(tmp_path / "fitted")))
    assert router.loaded == []
    assert router.load("mine").calibration.by_options == {"noul:2": row.temperature}


def test_one_agent_under_two_names_is_fitted_once():
    agent = make_agent()
    lab = routed({"english": agent, "multilingual": agent})
    models = pd.Series(["english", "multilingual"] * 30)
    answers, truth = answered(lab, 60, model=models)
    report = lab.fit_calibration(answers, truth[["sure"]])
    assert report[["checkpoint", "n"]].values.tolist() == [["english, multilingual", 60]]


def test_answers_of_a_router_must_say_who_gave_them():
    lab = routed({"english": make_agent()})
    answers, truth = answered(lab, 30, model="english")
    with pytest.raises(InvalidInput, match="no column 'routing_model', which says who answered"):
        lab.fit_calibration(answers.drop(columns="routing_model"), truth)


# --- laya ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("routes", [False, True])
def test_an_agent_of_laya_answers_with_the_fitted_temperatures_too(tmp_path, routes):
    folder = str(make_checkpoint(tmp_path / "c"))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        if routes:
            lab = Lab(laya.Router({"english": folder}, device="cpu", default="english"))
            agent = lab.agent.load("english")
        else:
            agent = laya.agent.Agent(folder, device="cpu")
            lab = Lab(agent)
        options = {"model": "english"} if routes else {}
        answers = lab.predict(texts(60), QUESTIONS, detail=True, progress=False, **options)
        truth = (answers["sure"] < 0.5).rename("sure")
        (row,) = lab.fit_calibration(answers, truth).itertuples()
    assert row.checkpoint == ("english" if routes else "agent")
    assert row.temperature_before == pytest.approx(1.1)
    assert row.applied
    assert agent.temperature_by_options["noul:2"] == row.temperature
    assert agent.temperature_by_options["choice:3-5"] == 1.5
    ours = Agent(folder, device="cpu")
    theirs = Lab(ours).predict(texts(60), QUESTIONS, detail=True, progress=False)
    again = lab.predict(texts(60), QUESTIONS, detail=True, progress=False, **options)
    np.testing.assert_allclose(again["team__p_alpha"], theirs["team__p_alpha"], atol=5e-3)
    assert (again["sure"] - 0.5).abs().mean() < (answers["sure"] - 0.5).abs().mean()


def test_an_agent_that_takes_no_temperatures_is_left_alone():
    class Fixed:
        temperature = (1.0, 1.0, 1.0)

        def __init__(self):
            self.inner = make_agent()

        def predict_batch(self, *args, **options):
            return self.inner.predict_batch(*args, **options)

    lab = Lab(Fixed())
    answers, truth = answered(lab, 60)
    report = lab.fit_calibration(answers, truth)
    assert not report["applied"].any()
    assert "Fixed takes no temperatures" in report["note"].tolist()


def test_a_named_series_says_which_question_is_meant():
    lab = Lab(make_agent())
    lab.predict(["a b", "b a"], {"c": Noul("x"), "t": Choice("x", ["a", "b"])}, detail=True)

    assert lab.confusion(pd.Series(["a", "b"], name="t")).columns.tolist() == ["a", "b"]
    table = lab.confusion(pd.Series([True, False], name="c"))
    assert set(table.index) | set(table.columns) <= {True, False}
    assert table.to_numpy().sum() == 2
    found = lab.calibration(pd.Series([True, False], name="c")).summary
    assert found[["question", "n"]].to_numpy().tolist() == [["c", 2]]
