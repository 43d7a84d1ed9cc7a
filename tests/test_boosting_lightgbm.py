"""Objectives of LightGBM."""

import copy
import logging
import pickle

import lightgbm
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from boosting_data import DISASTER, STEEP_AND_FAR, lists, plain_objective, regression
from sklearn.base import clone

import selmatch as sm
from selmatch import boosting, ranking

QUIET = {
    "num_threads": 1, "num_leaves": 8, "min_data_in_leaf": 5, "learning_rate": 0.3, "verbosity": -1,
    "deterministic": True,
}  # fmt: skip
ESTIMATOR = {
    "n_jobs": 1, "num_leaves": 8, "min_child_samples": 5, "learning_rate": 0.3, "verbosity": -1, "n_estimators": 10,
    "deterministic": True,
}  # fmt: skip
SIGMOID = sm.MatchingLoss(sm.Sigmoid().affine(alpha=2.0, beta=0.5))


def train(objective, data, rounds=10, **options):
    return lightgbm.train({**QUIET, **objective.params(data)}, data, rounds, feval=objective.metric, **options)


def splits(booster):
    return booster.trees_to_dataframe()[["tree_index", "node_depth", "split_feature", "threshold", "count"]]


# ------------------------------------------------------------------------------------------------------------- parity


@pytest.mark.parametrize("link", [sm.Identity(), sm.Identity().affine(alpha=2.0, beta=1.0, gain=5.0)], ids=repr)
@pytest.mark.parametrize("curvature", ["secant", "newton"])
def test_an_identity_link_is_the_squared_error_of_lightgbm(link, curvature):
    X, y = regression(shift=3.0)
    objective = boosting.lightgbm(link, curvature=curvature, route="python")
    ours = train(objective, lightgbm.Dataset(X, y))
    theirs = lightgbm.train({**QUIET, "objective": "regression"}, lightgbm.Dataset(X, y), 10)
    pd.testing.assert_frame_equal(splits(ours), splits(theirs))
    np.testing.assert_allclose(objective.predict(ours, X), theirs.predict(X), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("curvature", ["secant", "newton"])
@pytest.mark.parametrize("way", ["train", "estimator"])
def test_weights_multiply_gradients_and_curvatures(curvature, way):
    X, y = regression()
    y = y.astype(np.float32)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(y)).astype(np.float32)
    scores = np.random.default_rng(2).normal(size=len(y))
    weighted = boosting.lightgbm(SIGMOID, curvature=curvature, route="python")
    weighted.params(y, weights)
    plain = boosting.lightgbm(SIGMOID, curvature=curvature, route="python")
    plain.start = weighted.start
    if way == "train":
        data = lightgbm.Dataset(X, y, weight=weights, params=QUIET).construct()
        got = weighted(scores, data)
        expected = plain(scores, lightgbm.Dataset(X, y, params=QUIET).construct())
    else:
        got, expected = weighted(y, scores, weights, None), plain(y, scores)
    for ours, theirs in zip(got, expected, strict=True):
        assert ours.dtype == np.float32
        np.testing.assert_allclose(ours, weights * theirs, rtol=1e-5, atol=1e-7)
    start = weighted.start.score + scores
    np.testing.assert_allclose(expected[0], weighted.start.scale * SIGMOID.grad(start, y), rtol=1e-4, atol=1e-5)


def test_weights_of_one_are_no_weights():
    X, y = regression()
    plain = train(boosting.lightgbm(SIGMOID), lightgbm.Dataset(X, y))
    ones = train(boosting.lightgbm(SIGMOID), lightgbm.Dataset(X, y, weight=np.ones(len(y))))
    np.testing.assert_array_equal(plain.predict(X), ones.predict(X))


@pytest.mark.parametrize("kind", ["secant", "newton"])
@pytest.mark.parametrize("link", STEEP_AND_FAR, ids=repr)
def test_steep_and_far_sigmoids_do_not_fail_from_the_default_start(link, kind):
    loss = sm.MatchingLoss(link)
    X, y = regression(shift=link.beta)
    y = y.astype(np.float32).astype(float)
    start = loss.minimiser(y)
    params = {**QUIET, "lambda_l2": 1.0, "objective": plain_objective(loss, y, start, kind)}
    default = lightgbm.train(params, lightgbm.Dataset(X, y), 30).predict(X)
    begin = np.full(len(y), start)
    right = start + lightgbm.train(params, lightgbm.Dataset(X, y, init_score=begin), 30).predict(X)
    objective = boosting.lightgbm(loss, curvature=kind, route="python")
    ours = objective.fit(X, y, rounds=30, params={**QUIET, "lambda_l2": 1.0}).predict(X)
    assert loss(default, y) > DISASTER[kind] * loss(right, y)
    assert loss(ours, y) == pytest.approx(loss(right, y), rel=0.01)


@pytest.mark.parametrize("form", ["pairwise", "listwise"])
@pytest.mark.parametrize("weighted", [False, True])
def test_ranking_gradients_are_those_of_selmatch_ranking(form, weighted):
    X, y, sizes = lists()
    y = y.astype(np.float32)
    weights = np.random.default_rng(2).integers(1, 4, len(sizes)) if weighted else None
    loss = sm.MatchingLoss(sm.Sinh() if form == "pairwise" else sm.CompositeSoftmax(sm.Sinh()))
    objective = boosting.lightgbm(loss, ranking=form)
    data = objective.dataset(X, y, weights=weights, groups=sizes, params=QUIET).construct()
    scores = np.random.default_rng(3).normal(size=len(y))
    shifted = scores + objective.start.score
    options = {"segments": ranking.Sizes(sizes), "weights": weights}
    expected = getattr(ranking, form).grad(shifted, y.astype(float), loss, reduction="sum", **options)
    of_rows = None if weights is None else np.repeat(weights, sizes).astype(np.float32)
    for gradient, curvature in (objective(scores, data), objective(y, scores, of_rows, sizes)):
        np.testing.assert_allclose(gradient, objective.start.scale * expected, rtol=1e-5, atol=1e-6)
        assert np.all(curvature >= 0)
    name, value, higher_is_better = objective.metric(scores, data)
    assert (name, higher_is_better) == (boosting.METRIC, False)
    assert value == pytest.approx(getattr(ranking, form)(shifted, y.astype(float), loss, **options), rel=1e-6)


def test_lists_are_trained_by_the_estimator_too():
    X, y, sizes = lists(60)
    loss = sm.MatchingLoss(sm.CompositeSoftmax(sm.Sinh()))
    weights = np.random.default_rng(2).integers(1, 4, len(sizes))
    model = boosting.lightgbm(loss, ranking="listwise").fit(
        X, y, groups=sizes, weights=weights, rounds=10, params=QUIET, validation=(X, y, weights, sizes)
    )
    objective = boosting.lightgbm(loss, ranking="listwise")
    ranker = lightgbm.LGBMRanker(**ESTIMATOR, **objective.params(y, weights, sizes))
    of_rows = np.repeat(weights, sizes)
    ranker.fit(
        X, y, group=sizes, sample_weight=of_rows, eval_X=X, eval_y=y, eval_group=[sizes], eval_metric=objective.metric,
        eval_sample_weight=[of_rows],
    )  # fmt: skip
    np.testing.assert_allclose(objective.predict(ranker, X), model.predict(X), rtol=1e-6, atol=1e-6)
    history = model.history[boosting.METRIC]
    (estimated,) = ranker.evals_result_.values()
    assert list(estimated) == [boosting.METRIC]
    np.testing.assert_allclose(estimated[boosting.METRIC], history, rtol=1e-5)
    assert history[-1] < 0.5 * history[0]


# ------------------------------------------------------------------------------------------------------ the start value


def test_predictions_have_the_start_value_and_trees_do_not():
    X, y = regression(shift=100.0)
    model = boosting.lightgbm(sm.Identity(), route="python").fit(X, y, rounds=10, params=QUIET)
    assert abs(np.mean(model.predict(X)) - np.mean(y)) < 0.01
    np.testing.assert_allclose(model.predict(X), model.objective.start.score + model.booster.predict(X), rtol=1e-12)


def test_an_init_score_of_the_data_set_replaces_the_start_value():
    X, y = regression(shift=100.0)
    loss = sm.Sigmoid().affine(alpha=2.0, beta=100.0)
    objective = boosting.lightgbm(loss)
    begin = np.full(len(y), 99.0)
    data = lightgbm.Dataset(X, y, init_score=begin, params=QUIET).construct()
    objective.params(y)
    gradient, _ = objective(begin, data)
    bare = boosting.lightgbm(loss)
    bare.start = boosting.Start(0.0, objective.start.scale)
    expected, _ = bare(begin, lightgbm.Dataset(X, y, params=QUIET).construct())
    np.testing.assert_array_equal(gradient, expected)


def test_a_start_value_that_is_given_twice_is_an_error():
    X, y = regression(shift=3.0)
    objective = boosting.lightgbm(SIGMOID)
    estimator = lightgbm.LGBMRegressor(**ESTIMATOR, **objective.params(y))
    for begin in (objective.start_scores(len(y)), np.full(len(y), 1.5)):
        with pytest.raises(ValueError, match=r"trees must be grown from 0, got an init_score of .* Leave init_score"):
            clone(estimator).fit(X, y, init_score=begin)
    objective.metric(y, np.full(len(y), 1.5))  # trees of one leaf are no mistake


def test_training_goes_on():
    X, y = regression(shift=3.0)
    objective = boosting.lightgbm(SIGMOID)
    whole = train(objective, lightgbm.Dataset(X, y), 10)
    half = train(objective, lightgbm.Dataset(X, y), 5)
    data = lightgbm.Dataset(X, y, free_raw_data=False)
    both = lightgbm.train({**QUIET, "objective": objective, "metric": "None"}, data, 5, init_model=half)
    np.testing.assert_allclose(objective.predict(both, X), objective.predict(whole, X), rtol=1e-6)


def test_an_objective_that_has_seen_no_labels_says_so():
    X, y = regression()
    with pytest.raises(ValueError, match=r"must see the training labels .* Merge params\(dataset\)"):
        lightgbm.train({**QUIET, "objective": boosting.lightgbm(SIGMOID)}, lightgbm.Dataset(X, y), 2)


# ----------------------------------------------------------------------------------------------------- ways to train


@pytest.mark.parametrize("weighted", [False, True])
def test_estimators_train_the_same(weighted):
    X, y = regression(shift=2.0)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(y)) if weighted else None
    objective = boosting.lightgbm(SIGMOID)
    estimator = lightgbm.LGBMRegressor(**ESTIMATOR, **objective.params(y, weights))
    estimator = pickle.loads(pickle.dumps(clone(estimator)))
    estimator.fit(X, y, sample_weight=weights, eval_X=X, eval_y=y, eval_sample_weight=[weights],
                  eval_metric=objective.metric)  # fmt: skip
    model = boosting.lightgbm(SIGMOID).fit(X, y, weights=weights, rounds=10, params=QUIET, validation=(X, y, weights))
    np.testing.assert_allclose(objective.predict(estimator, X), model.predict(X), rtol=1e-6, atol=1e-6)
    (history,) = estimator.evals_result_.values()
    assert list(history) == [boosting.METRIC]
    np.testing.assert_allclose(history[boosting.METRIC], model.history[boosting.METRIC], rtol=1e-5)
    assert history[boosting.METRIC][-1] == pytest.approx(SIGMOID(model.predict(X), y, weights=weights), rel=1e-4)


def test_data_sets_made_by_the_objective():
    X, y = regression(shift=2.0)
    objective = boosting.lightgbm(SIGMOID)
    data = objective.dataset(X[:200], y[:200])
    valid = objective.dataset(X[200:], y[200:], reference=data)
    history = {}
    booster = lightgbm.train(
        {**QUIET, "objective": objective, "metric": "None"}, data, 10, feval=objective.metric, valid_sets=[valid],
        callbacks=[lightgbm.record_evaluation(history)],
    )  # fmt: skip
    value = SIGMOID(objective.predict(booster, X[200:]), y[200:])
    assert history["valid_0"][boosting.METRIC][-1] == pytest.approx(value, rel=1e-4)


def test_early_stopping_follows_the_matching_loss():
    X, y = regression()
    objective = boosting.lightgbm(SIGMOID)
    options = {"rounds": 80, "params": QUIET, "validation": (X[200:], y[200:]), "early_stopping": 4}
    model = objective.fit(X[:200], y[:200], **options)
    history = model.history[boosting.METRIC]
    assert model.best_iteration == int(np.argmin(history)) < len(history) - 1 == model.best_iteration + 4
    assert SIGMOID(model.predict(X[200:]), y[200:]) == pytest.approx(min(history), rel=1e-4)
    np.testing.assert_array_equal(objective.predict(model.booster, X), model.predict(X))


def test_cross_validation():
    X, y = regression(shift=2.0)
    objective = boosting.lightgbm(SIGMOID)
    data = lightgbm.Dataset(X, y)
    result = lightgbm.cv(
        {**QUIET, **objective.params(data)}, data, 5, nfold=3, stratified=False, feval=objective.metric
    )
    means = result[f"valid {boosting.METRIC}-mean"]
    assert means[-1] < means[0] < SIGMOID(np.full(len(y), objective.start.score), y)


def test_categories_missing_values_and_sparse_matrices():
    X, y = regression()
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["a"] = pd.Categorical(np.where(X[:, 0] > 0, "up", "down"))
    frame.loc[::7, "b"] = np.nan
    options = {"rounds": 20, "params": QUIET}
    model = boosting.lightgbm(SIGMOID).fit(frame, y, **options, validation=(frame, y))
    assert SIGMOID(model.predict(frame), y) == pytest.approx(model.history[boosting.METRIC][-1], rel=1e-4)
    sparse = boosting.lightgbm(SIGMOID).fit(scipy.sparse.csr_matrix(X), y, **options)
    dense = boosting.lightgbm(SIGMOID).fit(X, y, **options)
    np.testing.assert_allclose(sparse.predict(scipy.sparse.csr_matrix(X)), dense.predict(X), rtol=1e-6)


def test_copies_carry_no_rows_and_models_keep_their_start():
    X, y = regression(1000)
    objective = boosting.lightgbm(SIGMOID)
    first = objective.fit(X, y, rounds=3, params=QUIET)
    before = first.predict(X)
    objective.fit(X, y + 5.0, rounds=3, params=QUIET)
    assert first.objective.start != objective.start
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(first)).predict(X), before)
    objective(np.zeros(len(y)), lightgbm.Dataset(X, y, params=QUIET).construct())
    assert len(objective._seen) == 1
    assert copy.deepcopy(objective)._seen == []
    assert len(pickle.dumps(objective)) < 2000


def test_one_log_line_says_what_runs(caplog):
    X, y = regression()
    with caplog.at_level(logging.INFO, logger="selmatch"):
        boosting.lightgbm(SIGMOID).fit(X, y, rounds=2, params=QUIET)
        boosting.lightgbm(SIGMOID, curvature="newton").fit(X, y, rounds=2, params=QUIET)
    lines = [record.getMessage() for record in caplog.records if record.name == "selmatch.boosting"]
    assert [line.split(",")[0] for line in lines] == ["LightGBM: python route", "LightGBM: native route"]


# ------------------------------------------------------------------------------------------------------------ bad input

BAD = {
    "NaN": ({"y": np.array([1.0, np.nan, 2.0])}, "labels must be finite numbers, got nan in row 1"),
    "domain": ({"y": np.array([1.0, 2.0, -1.0])}, "labels must lie in .* the domain of the link"),
    "negative": ({"weights": np.array([1.0, -1.0, 1.0])}, "weights must be finite and not negative, got -1 in row 1"),
    "rows of labels": ({"y": np.ones((3, 2))}, "LightGBM holds no rows of labels. Use XGBoost"),
    "objective": ({"params": {"objective": "other"}}, "params must not hold 'objective', got 'other'"),
    "stopping": ({"early_stopping": 3}, "validation must be given for early_stopping=3"),
    "validation": ({"validation": (np.ones((2, 1)), [1.0, np.nan])}, "labels must be finite numbers"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named_before_training(case, monkeypatch):
    monkeypatch.setattr(lightgbm, "train", None)
    changes, message = BAD[case]
    with pytest.raises(ValueError, match=rf"^selmatch\.boosting\.lightgbm: .*{message}"):
        boosting.lightgbm(sm.Log()).fit(np.ones((3, 1)), **{"y": np.array([1.0, 2.0, 3.0]), **changes})


def test_bad_lists_are_named_before_training():
    objective = boosting.lightgbm(sm.Sinh(), ranking="pairwise")
    X, y = np.ones((3, 1)), np.arange(3.0)
    with pytest.raises(ValueError, match="groups must add up to the number of rows, 3, got a sum of 4"):
        objective.fit(X, y, groups=[2, 2])
    with pytest.raises(ValueError, match="groups must be given"):
        objective.params(lightgbm.Dataset(X, y))
    with pytest.raises(ValueError, match="weights must be the same for all rows of a list, got 1 and 2"):
        objective.params(lightgbm.Dataset(X, y, group=[2, 1], weight=[1.0, 2.0, 2.0]))


def test_losses_of_rows_of_scores_are_for_xgboost():
    with pytest.raises(TypeError, match=r"LightGBM holds one label for each row\. Use XGBoost"):
        boosting.lightgbm(sm.MatchingLoss(sm.CompositeSoftmax()))
