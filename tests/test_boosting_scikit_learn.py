"""Objectives of scikit-learn's HistGradientBoostingRegressor."""

import importlib
import inspect
import logging
import pickle
import sys

import numpy as np
import pandas as pd
import pytest
from boosting_data import DISASTER, STEEP_AND_FAR, plain_objective, regression
from sklearn._loss.link import IdentityLink
from sklearn._loss.loss import BaseLoss
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import GridSearchCV
from threadpoolctl import threadpool_limits

import selmatch as sm
from selmatch import boosting

QUIET = {"max_leaf_nodes": 8, "min_samples_leaf": 5, "learning_rate": 0.3, "random_state": 0}
SIGMOID = sm.MatchingLoss(sm.Sigmoid().affine(alpha=2.0, beta=0.5))
WEIGHTS = np.random.default_rng(5).uniform(0.5, 2.0, 300)


@pytest.fixture(autouse=True)
def _one_thread():
    """Small data sets are slower on many threads."""
    with threadpool_limits(1, user_api="openmp"):
        yield


def estimator(loss, **params):
    return HistGradientBoostingRegressor(loss=loss, **{**QUIET, "max_iter": 10, "early_stopping": False, **params})


def objective_of(link, **options):
    return boosting.hist_gradient_boosting(link, **options)


def trees(trained):
    """Where each node of each tree cuts."""
    return [tree.nodes[["feature_idx", "bin_threshold", "count"]].tolist() for (tree,) in trained._predictors]


class ByHand(BaseLoss):
    """What a careful user writes without selmatch.boosting, from a start of choice."""

    def __init__(self, loss, labels, right, start, kind):
        super().__init__(closs=None, link=IdentityLink())
        self.start, self.derivatives = np.asarray(start), plain_objective(loss, labels, right, kind)

    def fit_intercept_only(self, y_true, sample_weight=None):
        return self.start

    def gradient_hessian(
        self, y_true, raw_prediction, sample_weight=None, gradient_out=None, hessian_out=None, n_threads=1
    ):
        gradient_out[...], hessian_out[...] = self.derivatives(raw_prediction.ravel(), None)
        return gradient_out, hessian_out


# ------------------------------------------------------------------------------------------------------------- parity


@pytest.mark.parametrize(
    ("link", "curvature"), [(sm.Identity(), "secant"), (sm.Identity().affine(alpha=2.0, beta=1.0, gain=5.0), "newton")]
)
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["unweighted", "weighted"])
@pytest.mark.parametrize("shift", [3.0, 1e7])
def test_an_identity_link_is_the_squared_error_of_scikit_learn(link, curvature, weights, shift):
    X, y = regression(shift=shift)
    params = {"l2_regularization": 0.7, "monotonic_cst": [1, 0, 0, 0]}
    ours = estimator(objective_of(link, curvature=curvature), **params).fit(X, y, sample_weight=weights)
    theirs = estimator("squared_error", **params).fit(X, y, sample_weight=weights)
    assert trees(ours) == trees(theirs)
    np.testing.assert_allclose(ours.predict(X) - shift, theirs.predict(X) - shift, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["secant", "newton"])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["unweighted", "weighted"])
def test_gradients_and_curvatures_are_those_of_the_loss_times_weights(kind, weights):
    _, y = regression()
    objective = objective_of(SIGMOID, curvature=kind)
    start = objective.fit_intercept_only(y, weights)
    assert start == pytest.approx(SIGMOID.minimiser(y, weights))
    scores = np.asfortranarray(start + np.random.default_rng(1).normal(size=(300, 1)))
    gradient, curvature = objective.init_gradient_and_hessian(300, dtype=np.float32)
    objective.gradient_hessian(y, scores, weights, gradient, curvature, n_threads=2)
    factor = objective.start.scale * (1.0 if weights is None else weights)
    np.testing.assert_allclose(gradient, factor * SIGMOID.grad(scores[:, 0], y), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(curvature, factor * SIGMOID.curvature(scores[:, 0], y, kind=kind), rtol=1e-4, atol=1e-5)
    assert objective(y, scores, weights) == pytest.approx(SIGMOID(scores[:, 0], y, weights=weights), rel=1e-5)
    made = objective.gradient_hessian(y, scores, weights)
    np.testing.assert_allclose(made, [gradient, curvature], rtol=1e-6)


@pytest.mark.parametrize("kind", ["secant", "newton"])
@pytest.mark.parametrize("link", STEEP_AND_FAR, ids=repr)
def test_steep_and_far_sigmoids_do_not_fail_from_the_default_start(link, kind):
    loss = sm.MatchingLoss(link)
    X, y = regression(shift=link.beta)
    start = loss.minimiser(y)
    default, right = (
        estimator(ByHand(loss, y, start, first, kind), max_iter=30, l2_regularization=1.0).fit(X, y).predict(X)
        for first in (0.0, start)
    )
    ours = objective_of(loss, curvature=kind).fit(X, y, rounds=30, params={**QUIET, "l2_regularization": 1.0})
    assert loss(default, y) > DISASTER[kind] * loss(right, y)
    assert loss(ours.predict(X), y) == pytest.approx(loss(right, y), rel=0.01)


# ------------------------------------------------------------------------------------------------- training and models


def test_fit_is_the_estimator_with_this_loss():
    X, y = regression()
    model = objective_of(SIGMOID).fit(X, y, weights=WEIGHTS, rounds=10, params=QUIET)
    direct = estimator(objective_of(SIGMOID)).fit(X, y, sample_weight=WEIGHTS)
    np.testing.assert_array_equal(model.predict(X), direct.predict(X))
    assert model.objective.start == direct.loss.start
    assert model.best_iteration is None


def test_early_stopping_goes_by_the_matching_loss_and_keeps_the_best_round():
    X, y = regression(rows=240)
    weights, rest = WEIGHTS[:80], slice(160, None)
    model = objective_of(SIGMOID).fit(
        X[:160], y[:160], rounds=200, params=QUIET, validation=(X[rest], y[rest], weights), early_stopping=5
    )
    history = model.history[boosting.METRIC]
    assert len(history) < 200
    assert model.best_iteration == int(np.argmin(history)) < len(history) - 1
    expected = SIGMOID(model.predict(X[rest]), y[rest], weights=weights)
    assert history[model.best_iteration] == pytest.approx(expected, rel=1e-5)
    watched = objective_of(SIGMOID).fit(X[:160], y[:160], rounds=60, params=QUIET, validation=(X[rest], y[rest]))
    assert len(watched.history[boosting.METRIC]) == 60


def test_the_estimators_own_early_stopping_goes_by_the_matching_loss():
    X, y = regression()
    trained = estimator(objective_of(SIGMOID), early_stopping=True, scoring="loss", max_iter=50).fit(X, y)
    assert trained.n_iter_ < 50
    whole = estimator(objective_of(SIGMOID), early_stopping=True, validation_fraction=None, max_iter=5).fit(X, y)
    assert -whole.train_score_[-1] == pytest.approx(SIGMOID(whole.predict(X), y), rel=1e-5)


def test_estimators_can_be_cloned_pickled_searched_and_warmed_up():
    X, y = regression()
    first = estimator(objective_of(SIGMOID)).fit(X, y)
    scores = first.predict(X)
    np.testing.assert_array_equal(clone(first).fit(X, y).predict(X), scores)
    again = pickle.loads(pickle.dumps(first))
    np.testing.assert_array_equal(again.predict(X), scores)
    assert again.loss._seen == []
    search = GridSearchCV(estimator(objective_of(SIGMOID)), {"max_leaf_nodes": [2, 8]}, cv=2).fit(X, y)
    assert search.best_params_ == {"max_leaf_nodes": 8}
    warm = estimator(objective_of(SIGMOID), max_iter=4, warm_start=True).fit(X, y)
    np.testing.assert_allclose(warm.set_params(max_iter=10).fit(X, y).predict(X), scores, rtol=1e-6)
    model = objective_of(SIGMOID).fit(X, y, rounds=10, params=QUIET)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), scores)


def test_an_objective_starts_anew_with_other_labels():
    X, y = regression()
    objective = objective_of(SIGMOID)
    estimator(objective).fit(X, y)
    shifted = estimator(objective).fit(X, y + 1.0)
    fresh = estimator(objective_of(SIGMOID)).fit(X, y + 1.0)
    np.testing.assert_array_equal(shifted.predict(X), fresh.predict(X))


def test_categories_and_missing_values():
    X, y = regression()
    frame = pd.DataFrame(X, columns=list("abcd")).assign(a=pd.Categorical(np.where(X[:, 0] > 0, "x", "y")))
    frame.loc[3, "a"], frame.loc[4, "b"] = np.nan, np.nan
    model = objective_of(SIGMOID).fit(frame, y, rounds=10, params=QUIET, validation=(frame, y))
    assert model.booster.is_categorical_.tolist() == [True, False, False, False]
    assert SIGMOID(model.predict(frame), y) == pytest.approx(model.history[boosting.METRIC][-1], rel=1e-5)


def test_a_loss_for_each_label_trains():
    X, y = regression()
    labels = (y > 0).astype(float)
    loss = sm.MatchingLoss(sm.PerLabel({0.0: sm.Sigmoid(), 1.0: sm.Sinh()}))
    model = objective_of(loss).fit(X, labels, rounds=20, params=QUIET)
    assert loss(model.predict(X), labels) < 0.5 * loss(np.full(len(y), model.objective.start.score), labels)


def test_the_log_says_which_route_runs_once(caplog):
    X, y = regression(rows=50)
    with caplog.at_level(logging.INFO, logger="selmatch.boosting"):
        objective_of(sm.Sinh()).fit(X, y, rounds=1, params=QUIET)
    assert [message.partition(",")[0] for message in caplog.messages] == ["HistGradientBoosting: python route"]


# -------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": [1.0, np.nan, 2.0]}, r"the labels must be finite numbers, got nan in row 1"),
        ({"y": [1.0, -1.0, 2.0]}, r"the labels must lie in .*, got -1 in row 1"),
        ({"y": np.ones((3, 2))}, r"the labels must be one for each row, got shape \(3, 2\)"),
        ({"weights": [1.0, -1.0, 2.0]}, r"weights must be finite and not negative, got -1 in row 1"),
        ({"groups": [3]}, r"groups must be None, got lists"),
        ({"early_stopping": 3}, r"validation must be given for early_stopping=3"),
        ({"validation": ([[0.0]], [np.nan])}, r"the labels must be finite numbers, got nan in row 0"),
    ],
)
def test_bad_input_is_named_before_training_starts(changes, message):
    given = {"y": [1.0, 2.0, 3.0], **changes}
    with pytest.raises(ValueError, match=r"selmatch\.boosting\.hist_gradient_boosting: " + message):
        objective_of(sm.Log()).fit(np.zeros((3, 1)), given.pop("y"), **given)


def test_estimators_name_bad_input_too():
    X, y = regression(rows=50)
    with pytest.raises(ValueError, match="the labels must lie in"):
        estimator(objective_of(sm.Log())).fit(X, y)
    with pytest.raises(ValueError, match="weights must be finite and not negative"):
        estimator(objective_of(SIGMOID)).fit(X, y, sample_weight=-np.ones(50))
    with pytest.raises(ValueError, match="the objective must see the training labels before training starts"):
        objective_of(SIGMOID).gradient_hessian(y, y)


@pytest.mark.parametrize("options", [{"ranking": "pairwise"}, {"route": "native"}])
def test_what_scikit_learn_cannot_do_is_refused(options):
    with pytest.raises((TypeError, ValueError), match=r"hist_gradient_boosting: .* must .*Use"):
        objective_of(sm.Sinh(), **options)
    with pytest.raises(TypeError, match="loss must compare one score with one label"):
        objective_of(sm.CompositeSoftmax())
    with pytest.raises(ValueError, match=r"route must be None or 'python', got 'native'\. Scikit-learn has no native"):
        objective_of(sm.Identity(), curvature="newton", route="native")


def test_a_hook_that_has_moved_is_named(monkeypatch):
    message = r"needs the private loss hook of scikit-learn, which version .* does not have as expected \({}"
    with monkeypatch.context() as patch:
        patch.setitem(HistGradientBoostingRegressor._parameter_constraints, "loss", [])
        with pytest.raises(ImportError, match=message.format("HistGradientBoostingRegressor takes no loss object")):
            objective_of(sm.Sinh())
    with monkeypatch.context() as patch:
        patch.setattr(BaseLoss, "gradient_hessian", lambda self, y_true, y_pred: None)
        with pytest.raises(ImportError, match=message.format("BaseLoss.gradient_hessian has changed")):
            objective_of(sm.Sinh())
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "sklearn._loss.loss", None)
        patch.delitem(sys.modules, "selmatch.boosting.for_scikit_learn")
        with pytest.raises(ImportError, match=message.format("import of sklearn._loss.loss halted")):
            objective_of(sm.Sinh())
    importlib.import_module("selmatch.boosting.for_scikit_learn")


def test_validation_needs_a_version_that_takes_it(monkeypatch):
    def old_fit(self, X, y, sample_weight=None):
        raise AssertionError

    monkeypatch.setattr(HistGradientBoostingRegressor, "fit", old_fit)
    assert "X_val" not in inspect.signature(HistGradientBoostingRegressor.fit).parameters
    X, y = regression(rows=30)
    with pytest.raises(ValueError, match=r"validation must be None with scikit-learn .* Update it to 1\.7"):
        objective_of(SIGMOID).fit(X, y, validation=(X, y))


def test_without_scikit_learn_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(ImportError, match=r'needs scikit-learn\. Install it with: pip install "selmatch\[boosting\]"'):
        boosting.hist_gradient_boosting(sm.Sinh())


def test_scores_at_which_the_link_overflows_are_named():
    objective = objective_of(sm.Exp())
    y = np.array([0.5, 1.0, 2.0])
    objective.fit_intercept_only(y)
    with pytest.raises(ValueError, match=r"scores must stay where .*, got scores from -1 to 10000"):
        objective.gradient_hessian(y, np.array([-1.0, 0.5, 1e4]))
