"""Losses of logarithms: whoever takes one applies its scale to targets, or refuses it."""

import inspect

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from comparison_data import QUICK, visits
from typer.testing import CliRunner

import selmatch as sm
import selmatch.boosting
import selmatch.jax
import selmatch.plots
import selmatch.sklearn
import selmatch.torch
from selmatch import spec
from selmatch.cli.app import app
from selmatch.scales import LOGARITHMS, Scale

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(80, 2))
TARGETS = np.exp(1.5 + X[:, 0] + 0.3 * RANDOM.normal(size=80))
PREDICTED = TARGETS * np.exp(0.2 * RANDOM.normal(size=80))


def pair(name):
    """A loss of logarithms, and the same loss of scores; with what turns targets into scores."""
    scale = Scale(name)
    plain = sm.focus("high", data=scale(TARGETS), top=0.2)
    return plain.with_scale(name), plain, scale


def drawn(made):
    """All points of a picture, and how its axes along scores are named and marked."""
    axes = made.axes if hasattr(made, "savefig") else [made]
    points = [line.get_xydata() for ax in axes for line in ax.lines]
    marks = [(ax.get_xlabel(), [text.get_text() for text in ax.get_xticklabels()]) for ax in axes]
    plt.close("all")
    return points, marks


#: what is done with a loss and targets; the numbers that come out are those of scores, or of targets where it says so
SKLEARN = {
    "matching_loss_score": lambda loss, y, p: selmatch.sklearn.matching_loss_score(y, p, loss),
    "d2_matching_score": lambda loss, y, p: selmatch.sklearn.d2_matching_score(y, p, loss),
    "matching_loss_scorer": lambda loss, y, p: selmatch.sklearn.matching_loss_scorer(loss)._score_func(y, p, loss=loss),
    "link_bias": lambda loss, y, p: selmatch.sklearn.link_bias(y, p, loss)["bias_mean"].to_numpy(),
    "plot_link_bias": lambda loss, y, p: drawn(selmatch.sklearn.plot_link_bias(y, p, loss, feature=X[:, 0]))[0],
    "plot_link_murphy": lambda loss, y, p: drawn(selmatch.sklearn.plot_link_murphy(y, p, loss))[0],
    "plot_link_reliability": lambda loss, y, p: drawn(selmatch.sklearn.plot_link_reliability(y, p, loss))[0],
}
MODELS = {
    "SelectiveLinearModel": lambda loss, y: selmatch.sklearn.SelectiveLinearModel(loss).fit(X, y),
    "SelectiveRegressor": lambda loss, y: selmatch.sklearn.SelectiveRegressor(
        loss=loss, n_estimators=5, early_stopping=3, random_state=0
    ).fit(X, y, eval_set=(X, y)),
}
PLOTS = {
    "area": lambda loss, y, p: selmatch.plots.area(loss, p[0], y[0], (y.min(), y.max())),
    "link": lambda loss, y, p: selmatch.plots.link(loss, (y.min(), y.max())),
    "sensitivity": lambda loss, y, p: selmatch.plots.sensitivity(loss, data=y),
    "losses": lambda loss, y, p: selmatch.plots.losses(loss, y[:3], (y.min(), y.max())),
    "overview": lambda loss, y, p: selmatch.plots.overview(loss, domain=(y.min(), y.max())),
}
OF_LINKS = {
    "reliability": lambda loss, y, p: selmatch.plots.reliability(y, {"a": p}, loss),
    "murphy": lambda loss, y, p: selmatch.plots.murphy(y, {"a": p}, loss),
    "link_bias": lambda loss, y, p: selmatch.plots.link_bias(y, {"a": p}, loss, feature=X[:, 0]),
}
REFUSED = {
    **{
        f"boosting.{name}": lambda loss, make=make: make(loss)
        for name in ("xgboost", "lightgbm", "catboost", "hist_gradient_boosting", "Objective")
        for make in [getattr(selmatch.boosting, name)]
    },
    "boosting.native_labels": lambda loss: selmatch.boosting.native_labels(loss, TARGETS),
    "boosting.native_scores": lambda loss: selmatch.boosting.native_scores(loss, TARGETS),
    "boosting.native_params": lambda loss: selmatch.boosting.native_params(loss, "xgboost", labels=TARGETS),
    "sklearn.SelectiveRanker": lambda loss: selmatch.sklearn.SelectiveRanker(loss=loss, ranking="pairwise").fit(
        X, TARGETS
    ),
    "bust": lambda loss: sm.bust(loss, 1.0, 1.0, (0, 5)),
    "blust": lambda loss: sm.blust(loss, 1.0, (0, 5)),
    "llust": lambda loss: sm.llust(loss, 1.0, (0, 5)),
    "prediction_shift": lambda loss: sm.prediction_shift(loss, TARGETS, 1.0),
    "region_report": lambda loss: sm.region_report(loss, data=TARGETS),
    "classify": sm.classify,
    "compare": lambda loss: sm.compare(visits(), target="seconds", loss=loss, model="linear", **QUICK),
}
#: they compute with scores, of a model or as given, and cannot tell; their words say what scores are
OF_SCORES = {
    "jax.fenchel_young_loss", "jax.matching_loss", "jax.trainable", "torch.MatchingLoss", "torch.matching_loss",
    "torch.linear_matching_loss", "sensitivity",
}  # fmt: skip
#: for many classes, or composite links, whose scores are no logarithms
OF_OTHERS = {"plots.contours", "plots.surface", "plots.projections", "plots.scaling", "plots.probability",
             "ranking_report"}  # fmt: skip


def test_everybody_who_takes_a_loss_is_looked_at():
    known = {f"sklearn.{name}" for name in (*SKLEARN, *MODELS)} | {f"plots.{name}" for name in (*PLOTS, *OF_LINKS)}
    known |= {*REFUSED, *OF_SCORES, *OF_OTHERS}
    for module in (sm, selmatch.plots, selmatch.sklearn, selmatch.boosting, selmatch.jax, selmatch.torch):
        parts = {name for name, home in sm._LAZY.items() if home == f"selmatch.{name}"} if module is sm else set()
        for name in set(module.__all__) - parts:
            value = getattr(module, name)
            if callable(value) and "loss" in inspect.signature(value).parameters:
                assert f"{module.__name__}.{name}".removeprefix("selmatch.") in known, (module, name)


@pytest.mark.parametrize("name", LOGARITHMS)
def test_who_takes_targets_takes_their_logarithms(name):
    loss, plain, scale = pair(name)
    y, p = scale(TARGETS), scale(PREDICTED)
    for what, applied in SKLEARN.items():
        both = (applied(loss, TARGETS, PREDICTED), applied(plain, y, p))
        for found, wanted in zip(*(each if isinstance(each, list) else [each] for each in both), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12, err_msg=what)
    for what, fitted in MODELS.items():
        model, usual = fitted(loss, TARGETS), fitted(plain, y)
        assert model.loss_ == loss
        np.testing.assert_allclose(model.predict(X), scale.undone(usual.predict(X)), rtol=1e-9, err_msg=what)
        np.testing.assert_allclose(model.score(X, TARGETS), usual.score(X, y), rtol=1e-9, err_msg=what)
    for what, draw in {**PLOTS, **OF_LINKS}.items():
        points, marks = drawn(draw(loss, TARGETS, PREDICTED))
        wanted, _ = drawn(draw(plain, y, p))
        if what != "overview":  # which chooses observations by their digits
            for found, line in zip(points, wanted, strict=True):
                np.testing.assert_allclose(found, line, rtol=1e-9, atol=1e-9, err_msg=what)
        for label, ticks in marks if what in PLOTS else ():
            if label:  # not that of a histogram
                assert label.endswith(f"target, along {scale.words}"), what
                assert 2 <= len(ticks) <= 8
                assert all(TARGETS.min() * 0.5 <= float(tick) <= TARGETS.max() * 2.0 for tick in ticks), (what, ticks)


@pytest.mark.parametrize("name", LOGARITHMS)
def test_an_explanation_is_in_units_of_the_target(name):
    loss, plain, scale = pair(name)
    found, wanted = loss.explain(TARGETS), plain.explain(scale(TARGETS))
    for field in ("profile", "mean", "elicited", "curvature", "limits", "certificate"):
        assert getattr(found, field) == getattr(wanted, field)
    start = scale.undone(loss.wish.regions[0][0])
    assert f"Scores are {scale.words}; accuracy matters for the target from {start:.4g} up." in str(found)
    for score, value in found.profile:
        assert f"  {scale.undone(score):>10.4g}  {value:>10.4g}" in str(found)
    assert f"one unit of {scale.words} weighs, by target" in str(found)
    assert f"{scale.undone(found.elicited):.4g} on the data, whose mean score is that of" in str(found)
    assert "along" not in str(wanted)
    assert "by target" not in str(wanted)


@pytest.mark.parametrize("what", REFUSED)
def test_who_takes_labels_as_they_are_refuses_logarithms(what):
    loss = sm.MatchingLoss(sm.Sigmoid(), scale="log")
    with pytest.raises(ValueError, match=r"a loss of log\(target\), got|got a loss of log\(target\)\. ") as refused:
        REFUSED[what](loss)
    assert what.rpartition(".")[2].replace("Objective", "boosting") in str(refused.value)
    assert ("with_scale(None)" in str(refused.value)) == (what != "compare")


def test_targets_without_a_logarithm_are_refused():
    loss, bad = sm.MatchingLoss(sm.Identity(), scale="log"), np.append(TARGETS[:-1], 0.0)
    calls = [*((apply, (loss, bad, PREDICTED)) for apply in SKLEARN.values()),
             *((fit, (loss, bad)) for fit in MODELS.values()), (loss.explain, (bad,)),
             (selmatch.plots.overview, (loss, bad)), (selmatch.plots.link, (loss, (-1.0, 2.0)))]  # fmt: skip
    for apply, arguments in calls:
        with pytest.raises(ValueError, match=r"must be > 0 for a loss of log\(target\), got -?[01]\. Clip or drop"):
            apply(*arguments)
    assert loss.with_scale("log1p").explain(bad).mean == np.log1p(bad).mean()


def test_logarithms_in_place_of_targets_are_noticed():
    seconds = 20.0 * TARGETS  # whose logarithms are positive
    loss = sm.focus("high", data=np.log(seconds), top=0.2).with_scale("log")
    for apply in (loss.explain, lambda y: selmatch.sklearn.SelectiveLinearModel(loss).fit(X, y)):
        with pytest.warns(UserWarning, match=r"(explain|SelectiveLinearModel): (data|y) looks like logarithms already"):
            apply(np.log(seconds))
        apply(seconds)
        apply(0.2 * seconds)


def test_scores_of_models_stay_what_they_are():
    loss, plain, _ = pair("log")
    s_hat, s = np.log(PREDICTED), np.log(TARGETS)
    assert loss(s_hat, s) == plain(s_hat, s)
    np.testing.assert_array_equal(loss.grad(s_hat, s), plain.grad(s_hat, s))
    np.testing.assert_array_equal(sm.sensitivity(loss, s), sm.sensitivity(plain, s))
    assert loss.minimiser(s) == plain.minimiser(s)
    module = selmatch.torch.MatchingLoss(loss)
    assert "scale='log'" in repr(module)
    assert "scale='log'" in repr(loss)
    assert module.loss == loss
    assert "scale" not in repr(selmatch.torch.MatchingLoss(plain))
    import jax
    import torch

    tensors = torch.tensor(s_hat), torch.tensor(s)
    assert float(module(*tensors)) == pytest.approx(float(plain(s_hat, s)), rel=1e-12)
    leaves, tree = jax.tree.flatten(loss)
    assert jax.tree.unflatten(tree, leaves).scale == "log"
    assert float(jax.jit(lambda loss: loss(2.0, 3.0))(loss)) == pytest.approx(plain(2.0, 3.0), rel=1e-6)


def test_a_scale_is_a_word_that_is_known():
    with pytest.raises(ValueError, match=r"MatchingLoss: scale must be None, 'log' or 'log1p', got 'sqrt'\."):
        sm.MatchingLoss(sm.Exp(), scale="sqrt")
    for many in (sm.CompositeSoftmax(), sm.Separable(sm.Exp()), sm.PerLabel({0.0: sm.Exp()})):
        with pytest.raises(TypeError, match="scale must be None for a potential without a single link"):
            sm.MatchingLoss(many, scale="log")
    loss = sm.MatchingLoss(sm.Exp(), scale="log")
    assert loss != loss.with_scale(None) == sm.MatchingLoss(sm.Exp())
    assert hash(loss) != hash(loss.with_scale("log1p"))


def test_a_comparison_on_logarithms_leaves_a_loss_that_says_so(tmp_path):
    options = {"target": "seconds", "model": "linear", **QUICK, "losses": ["squared"]}
    frame = visits()
    for add, name in ((0.0, "log"), (-frame["seconds"].min(), "log1p")):
        data = frame.assign(seconds=frame["seconds"] + add)
        found = sm.compare(data, scale="log", **options)
        assert found.loss.scale == name
        assert f"Scores are {Scale(name).words}" in found.data.notes[0]
        found.loss.save(tmp_path / "loss.toml")
        again = sm.compare(data, scale="log", loss=tmp_path / "loss.toml", **options)
        assert again.loss == found.loss
        np.testing.assert_array_equal(again.tested.predicted["selective"], found.tested.predicted["selective"])
        with pytest.raises(ValueError, match="compare: scale must be 'log' for a loss of log"):
            sm.compare(data, loss=tmp_path / "loss.toml", **options)
    # another logarithm than the one that fits best is taken, if it fits
    one = found.loss
    assert sm.compare(frame, scale="log", loss=one, **options).loss.scale == "log1p"
    with pytest.raises(ValueError, match=r"must be > 0 for a loss of log\(target\), got 0"):
        sm.compare(data, scale="log", loss=one.with_scale("log"), **options)
    assert sm.compare(frame, **options).loss.scale is None


def test_commands_take_columns_of_targets(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"seconds": TARGETS}).to_csv("visits.csv", index=False)
    loss, _, _ = pair("log")
    loss.save("loss.toml")

    def told(*words, code=0):
        found = CliRunner().invoke(app, list(words), prog_name="selmatch", env={"COLUMNS": "200"})
        assert found.exit_code == code, found.output
        return found.output

    column = ("--data", "visits.csv", "--column", "seconds")
    assert told("explain", "loss.toml", *column).strip() == str(loss.explain(TARGETS)).strip()
    assert '"scale": "log"' in told("explain", "loss.toml", "--json")
    told("plot", "loss.toml", *column, "--out", "loss.svg")
    assert (
        "log(target)" in (tmp_path / "loss.svg").read_text() or "target, along" in (tmp_path / "loss.svg").read_text()
    )
    assert "Scores are log(target)" in told("check", "loss.toml")
    assert f"on [0, {np.log(100.0):.6g}" in told("check", "loss.toml", "--domain", "1", "100")
    assert "must be > 0 for a loss of log(target), got -1" in told("check", "loss.toml", "--domain", "-1", "9", code=2)
    words = ("--target", "seconds", "--model", "linear", "--splits", "2", "--settings", "1", "--resamples", "20")
    assert "scale must be 'log'" in told("compare", "visits.csv", "--loss", "loss.toml", *words, code=2)


def test_files_say_what_scores_are():
    loss = sm.MatchingLoss(sm.Exp(), scale="log1p")
    text = spec.dumps(loss)
    assert 'scale = "log1p"' in text
    assert spec.loads(text) == loss
    assert "scale" not in spec.dumps(loss.with_scale(None))  # as before, for those who read files of this schema
    assert spec.to_dict(loss)["selmatch"] == 1
    assert spec.digest(loss) != spec.digest(loss.with_scale(None))
