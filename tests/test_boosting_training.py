"""What ``fit`` promises for all boosters alike."""

import logging

import lightgbm
import numpy as np
import pytest
from boosting_data import regression
from sklearn.ensemble import HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

import selmatch as sm
from selmatch import boosting, kernels
from selmatch.boosting import for_catboost
from selmatch.boosting.rows import ends, inwards
from selmatch.boosting.training import Table

#: parameters with which steps are long
HASTY = {
    "xgboost": {"nthread": 1, "max_depth": 3, "learning_rate": 1.0},
    "lightgbm": {"num_threads": 1, "num_leaves": 8, "min_data_in_leaf": 5, "learning_rate": 1.0},
    "catboost": {"thread_count": 1, "depth": 3, "learning_rate": 1.0, "random_seed": 1},
    "hist_gradient_boosting": {"max_leaf_nodes": 8, "min_samples_leaf": 5, "learning_rate": 1.0},
}
each_booster = pytest.mark.parametrize("booster", HASTY)


@pytest.fixture(autouse=True)
def _one_thread():
    """Small data sets are slower on many threads."""
    with threadpool_limits(1, user_api="openmp"):
        yield


def objective_of(booster, loss, **options):
    return getattr(boosting, booster)(loss, **options)


# ------------------------------------------------------------------------------------------------- links that end


@each_booster
@pytest.mark.parametrize("curvature", ["secant", "newton"])
@pytest.mark.parametrize("link", [sm.Log(), sm.Logit()], ids=repr)
def test_scores_stay_where_the_link_is_defined(booster, curvature, link):
    X, y = regression()
    labels = np.exp(y) if link == sm.Log() else sm.Sigmoid()(3.0 * y)
    loss = sm.MatchingLoss(link)
    rest = slice(200, None)
    model = objective_of(booster, loss, curvature=curvature).fit(
        X[:200], labels[:200], rounds=15, params=HASTY[booster], validation=(X[rest], labels[rest])
    )
    scores = model.predict(X)
    assert np.all(link.holds(scores, interior=True))
    low, _ = ends(loss, model.objective.start)
    assert np.any(scores == low)  # some trees lead beyond
    history = model.history[boosting.METRIC]
    assert np.all(np.isfinite(history))
    assert history[-1] == pytest.approx(loss(scores[rest], labels[rest]), rel=1e-4)
    assert history[-1] < loss(np.full(100, model.objective.start.score), labels[rest])


def test_many_targets_stay_where_the_link_is_defined():
    X, y = regression(rows=80)
    labels = np.exp(np.stack([y, 3.0 - y], axis=1))
    for booster in ("xgboost", "catboost"):
        options = {"rounds": 5, "params": HASTY[booster], "validation": (X, labels)}
        model = objective_of(booster, sm.Log()).fit(X, labels, **options)
        scores, start = model.predict(X), np.asarray(model.objective.start.score)
        assert np.all(scores >= 1e-6 * start)
        assert np.all(np.isfinite(model.history[boosting.METRIC]))


def test_bounds_are_those_of_the_last_training_labels():
    X, y = regression()
    objective = objective_of("xgboost", sm.Log())
    for factor in (1.0, 1e-4):
        labels = factor * np.exp(y)
        reused = objective.fit(X, labels, rounds=3, params=HASTY["xgboost"], validation=(X, labels))
        fresh = objective_of("xgboost", sm.Log()).fit(X, labels, rounds=3, params=HASTY["xgboost"])
        np.testing.assert_array_equal(reused.predict(X), fresh.predict(X))
    objective.params(np.exp(y))
    assert objective.seen(Table(labels)).rows.bounds == objective.bounds


@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_bounds_are_rounded_inwards(precision):
    start = boosting.Start(1000.0 - 1e-5, 1.0)
    curve = sm.Logit().affine(alpha=1e-3)
    low, high = inwards(ends(sm.MatchingLoss(curve), start), precision)
    assert low.dtype == high.dtype == precision
    assert np.isfinite(curve(float(low)))
    assert np.isfinite(curve(float(high)))
    assert inwards((-np.inf, np.inf), precision) == (-np.inf, np.inf)


def test_links_without_ends_have_no_bounds():
    for loss in (sm.Sinh(), sm.Log().capped(0.1, None), sm.PerLabel({0.0: sm.Identity(), 1.0: sm.Sinh()})):
        objective = boosting.Objective(loss)
        objective.prepare([0.0, 1.0])
        assert objective.bounds is None


# ------------------------------------------------------------------------------------------------------ bad arguments

SETTLED = [
    ("xgboost", "objective"), ("xgboost", "eval_metric"), ("xgboost", "base_score"), ("xgboost", "n_estimators"),
    ("xgboost", "num_boost_round"), ("lightgbm", "application"), ("lightgbm", "loss"), ("lightgbm", "metrics"),
    ("lightgbm", "num_iterations"), ("lightgbm", "n_estimators"), ("lightgbm", "early_stopping_rounds"),
    ("catboost", "loss_function"), ("catboost", "objective"), ("catboost", "eval_metric"), ("catboost", "iterations"),
    ("catboost", "n_estimators"), ("catboost", "od_wait"), ("hist_gradient_boosting", "loss"),
    ("hist_gradient_boosting", "scoring"), ("hist_gradient_boosting", "max_iter"),
]  # fmt: skip


@pytest.mark.parametrize(("booster", "name"), SETTLED)
def test_parameters_that_the_objective_settles_are_refused(booster, name):
    with pytest.raises(ValueError, match=rf"{booster}: params must not hold '{name}', got 7\. The objective settles"):
        objective_of(booster, sm.Sinh()).fit(np.zeros((3, 1)), np.arange(3.0), params={name: 7})


def test_all_names_that_lightgbm_knows_are_settled():
    known = lightgbm.basic._ConfigAliases.get(
        "objective", "metric", "num_class", "num_iterations", "early_stopping_round"
    )
    assert known == set(objective_of("lightgbm", sm.Sinh()).settled)


def test_stopping_of_scikit_learn_is_settled_where_validation_is_given():
    X, y = regression(rows=60)
    objective = objective_of("hist_gradient_boosting", sm.Sinh())
    with pytest.raises(ValueError, match="params must not hold 'early_stopping', got False"):
        objective.fit(X, y, params={"early_stopping": False}, validation=(X, y), early_stopping=3)
    own = objective.fit(X, y, rounds=5, params={"early_stopping": True, "validation_fraction": 0.2})
    assert isinstance(own.booster, HistGradientBoostingRegressor)
    assert own.booster.do_early_stopping_


@each_booster
@pytest.mark.parametrize("name", ["rounds", "early_stopping"])
@pytest.mark.parametrize("value", [0, -3, 2.7, True, "5"])
def test_rounds_are_whole_numbers(booster, name, value):
    X, y = np.zeros((3, 1)), np.arange(3.0)
    with pytest.raises(ValueError, match=rf"{booster}: {name} must be a whole number >= 1, got {value!r}\."):
        objective_of(booster, sm.Sinh()).fit(X, y, validation=(X, y), **{name: value})


def test_whole_numbers_of_numpy_are_rounds():
    X, y = regression(rows=60)
    model = objective_of("xgboost", sm.Sinh()).fit(X, y, rounds=np.int64(2), params=HASTY["xgboost"])
    assert model.booster.num_boosted_rounds() == 2


@each_booster
def test_groups_need_a_ranking_loss(booster):
    with pytest.raises(ValueError, match=rf"{booster}: groups must be None, got lists: .* ranking='pairwise'"):
        objective_of(booster, sm.Sinh()).fit(np.zeros((3, 1)), np.arange(3.0), groups=[2, 1])


@each_booster
def test_links_that_overflow_at_the_labels_are_not_called_flat(booster):
    with pytest.raises(ValueError, match=r"the link must be finite at the labels.*Cap it, or stretch it by a smaller"):
        objective_of(booster, sm.Exp()).fit(np.zeros((3, 1)), np.array([1e5, 2e5, 5e5]))


@each_booster
def test_constant_labels_train(booster):
    X, _ = regression(rows=60)
    model = objective_of(booster, sm.Sinh()).fit(X, np.full(60, 2.0), rounds=3, params=HASTY[booster])
    np.testing.assert_allclose(model.predict(X), 2.0, rtol=1e-6)


def test_errors_of_a_loss_for_each_label_name_no_domain():
    objective = objective_of("xgboost", sm.PerLabel({0.0: sm.Identity(), 1.0: sm.Sinh()}))
    assert "None" not in str(objective._outside(np.array([1.0, np.nan])))


# ------------------------------------------------------------------------------------------------------------ the log


@pytest.mark.parametrize("few", [0, 10**9])
def test_the_log_names_the_kernel_that_runs(few, caplog, monkeypatch):
    monkeypatch.setattr(for_catboost, "_MANY", few)
    objective = objective_of("catboost", sm.Sinh())
    with caplog.at_level(logging.INFO, logger="selmatch.boosting"):
        objective.prepare(np.arange(5.0))
        objective_of("catboost", sm.Identity(), curvature="newton").prepare(np.arange(5.0))
    ours, native = caplog.messages
    assert f"{objective._backend} kernel" in ours
    assert objective._backend == ("numpy" if few else kernels.elementwise(sm.Sinh()).backend)
    assert "the booster's kernel" in native
