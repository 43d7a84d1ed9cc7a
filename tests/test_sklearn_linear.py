"""The linear model: it finds the minimum of every loss, honours weights, and says when it cannot."""

import pickle
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import PoissonRegressor, Ridge

import selmatch as sm
from conftest import KINKED, SMOOTH, VECTORS, points_inside
from selmatch.sklearn import SelectiveLinearModel, solving

_features, NOISE = np.split(np.random.default_rng(0).normal(size=320), [240])
X = _features.reshape(80, 3) * [1.0, 100.0, 0.01] + [0.0, 2000.0, 0.0]
SIGNAL = (X - X.mean(axis=0)) @ [1.0, 0.005, 50.0]


def targets(curve):
    """Scores inside the domain of a curve that depend on the features."""
    low, high = points_inside(curve)[[0, -1]]
    values = SIGNAL + NOISE
    return low + (high - low) * (0.5 + 0.25 * np.tanh(0.5 * values))


CONTINUOUS = [curve for curve in [*SMOOTH, *KINKED] if curve.continuous]


@pytest.mark.parametrize("curve", CONTINUOUS, ids=repr)
def test_the_gradient_vanishes_at_the_coefficients(curve):
    y, alpha = targets(curve), 1e-3
    model = SelectiveLinearModel(curve, alpha=alpha).fit(X, y)
    pulls = model.loss_.grad(model.predict(X), y)
    size = np.abs(pulls).mean()
    assert abs(pulls.mean()) <= 1e-12 * size
    gradient = (X - X.mean(axis=0)).T @ pulls / len(y) + alpha * model.coef_
    assert np.all(np.abs(gradient) <= 1e-11 * size * X.std(axis=0))


@pytest.mark.parametrize("potential", VECTORS, ids=repr)
def test_the_gradient_vanishes_for_many_classes(potential):
    y = 0.5 * np.column_stack([SIGNAL + NOISE, NOISE, -SIGNAL])
    model = SelectiveLinearModel(potential, alpha=1e-3).fit(X, y)
    assert model.predict(X).shape == y.shape
    assert model.coef_.shape == (3, 3)
    pulls = model.loss_.grad(model.predict(X), y)
    gradient = pulls.T @ (X - X.mean(axis=0)) / len(y) + 1e-3 * model.coef_
    assert np.all(np.abs(gradient) <= 1e-11 * X.std(axis=0))


def test_an_identity_link_is_ridge_regression():
    y = SIGNAL + NOISE
    ridge = Ridge(alpha=8.0).fit(X, y)
    model = SelectiveLinearModel(sm.Identity(), alpha=8.0 / len(y)).fit(X, y)
    np.testing.assert_allclose(model.coef_, ridge.coef_, rtol=1e-9)
    np.testing.assert_allclose(model.intercept_, ridge.intercept_, rtol=1e-9)
    assert model.score(X, y) == pytest.approx(ridge.score(X, y), rel=1e-12)


def test_an_exponential_link_with_targets_in_link_space_is_poisson_regression():
    y = np.exp(0.3 * (SIGNAL + NOISE))
    poisson = PoissonRegressor(alpha=0.1, tol=1e-10, solver="newton-cholesky").fit(X, y)
    model = SelectiveLinearModel(sm.Exp(), alpha=0.1).fit(X, np.log(y))
    np.testing.assert_allclose(np.exp(model.predict(X)), poisson.predict(X), rtol=1e-6)


@pytest.mark.parametrize("loss", [None, sm.Sigmoid()], ids=str)
def test_weights_are_repeated_rows(loss):
    y, repeats = SIGNAL + NOISE, np.random.default_rng(2).integers(0, 4, size=len(X))
    weighted = SelectiveLinearModel(loss).fit(X, y, sample_weight=repeats)
    repeated = SelectiveLinearModel(loss).fit(np.repeat(X, repeats, axis=0), np.repeat(y, repeats))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-10)
    np.testing.assert_allclose(weighted.intercept_, repeated.intercept_, rtol=1e-10)


def test_sparse_features_and_conjugate_gradients_give_the_same_coefficients(monkeypatch):
    narrow = np.maximum(np.random.default_rng(3).normal(size=(80, 5)), 0.0)
    y = narrow @ np.arange(5.0) + NOISE
    dense = SelectiveLinearModel().fit(narrow, y)
    for container in (sparse.csr_array, sparse.csc_matrix):
        found = SelectiveLinearModel().fit(container(narrow), y)
        np.testing.assert_allclose(found.coef_, dense.coef_, rtol=1e-10)
        np.testing.assert_allclose(found.predict(container(narrow)), dense.predict(narrow), rtol=1e-10)
    softmax, rows = sm.CompositeSoftmax(sm.Sinh().affine(alpha=0.5)), np.column_stack([y, NOISE])
    dense_softmax = SelectiveLinearModel(softmax).fit(narrow, rows)
    monkeypatch.setattr(solving, "DENSE", 1)
    np.testing.assert_allclose(SelectiveLinearModel().fit(narrow, y).coef_, dense.coef_, rtol=1e-10)
    np.testing.assert_allclose(SelectiveLinearModel(softmax).fit(narrow, rows).coef_, dense_softmax.coef_, rtol=1e-9)


def test_more_features_than_rows_fit_exactly():
    wide = np.random.default_rng(4).normal(size=(10, 30))
    model = SelectiveLinearModel(alpha=0.0).fit(wide, NOISE[:10])
    np.testing.assert_allclose(model.predict(wide), NOISE[:10], atol=1e-8)


def test_a_warm_start_continues():
    y = SIGNAL + NOISE
    model = SelectiveLinearModel(sm.Sinh(), warm_start=True).fit(X, y)
    cold, first = model.n_iter_, model.coef_
    assert model.fit(X, y).n_iter_ < cold
    np.testing.assert_allclose(model.coef_, first, rtol=1e-10)
    assert model.fit(X[:, :2], y).coef_.shape == (2,)  # other features: from the start


def test_words_make_the_loss_and_move_the_errors():
    y = np.exp(0.5 * SIGNAL)
    high = y >= np.quantile(y, 0.9)
    errors = {}
    for focus in ("high", "low"):
        model = SelectiveLinearModel(focus=focus, strength=50.0).fit(X, y)
        assert model.loss_.wish.word == focus
        errors[focus] = np.abs(model.predict(X) - y)[high].mean()
    assert errors["high"] < 0.7 * errors["low"]
    between = SelectiveLinearModel(between=(1.0, 2.0)).fit(X, y)
    assert between.loss_.wish.regions == ((1.0, 2.0, 1.0),)


def test_a_constant_target_is_predicted():
    model = SelectiveLinearModel().fit(X, np.full(len(X), 3.25))
    assert np.all(model.predict(X) == 3.25)
    assert model.score(X, np.full(len(X), 3.25)) == 1.0


@pytest.mark.parametrize("curve", [sm.Log(), sm.Logit(), sm.Power(1.5)], ids=repr)
def test_scores_stay_in_the_domain(curve):
    y = targets(curve)
    model = SelectiveLinearModel(curve, alpha=0.0).fit(X, y)
    low, high = curve.domain.low, curve.domain.high
    far = model.predict([[1e4, 2000.0, 0.0], [-1e4, 2000.0, 0.0]])
    assert np.all((far >= low) & (far <= high))
    assert low in far
    assert np.isfinite(model.score(X, y))


def test_it_warns_when_the_coefficients_do_not_settle():
    with pytest.warns(ConvergenceWarning, match="did not settle in 1 steps"):
        SelectiveLinearModel(sm.Sinh(), max_iter=1).fit(X, SIGNAL + NOISE)
    with pytest.warns(ConvergenceWarning, match="did not settle"):  # a jump has no gradient to vanish
        SelectiveLinearModel(sm.Staircase((-1.0, 1.0), (1.0, 2.0))).fit(X, SIGNAL + NOISE)


def test_large_scores_do_not_overflow_on_the_way():
    y = 20.0 * (SIGNAL + NOISE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = SelectiveLinearModel(sm.Exp()).fit(X, y)
    assert np.all(np.isfinite(model.predict(X)))
    with pytest.raises(ValueError, match=r"SelectiveLinearModel: the loss must be finite at a constant prediction"):
        SelectiveLinearModel(sm.Exp()).fit(X, 1000.0 * y)


def test_it_pickles():
    model = SelectiveLinearModel().fit(X, SIGNAL)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("options", "y", "error", "message"),
    [
        ({"alpha": -1.0}, SIGNAL, ValueError, "SelectiveLinearModel: alpha must be >= 0, got -1.0."),
        ({"tol": 0.0}, SIGNAL, ValueError, "SelectiveLinearModel: tol must be > 0, got 0.0."),
        ({"max_iter": 0}, SIGNAL, ValueError, "SelectiveLinearModel: max_iter must be >= 1, got 0.0."),
        ({"max_iter": 2.5}, SIGNAL, ValueError, "SelectiveLinearModel: max_iter must be a whole number, got 2.5."),
        ({"loss": "mse"}, SIGNAL, TypeError, "SelectiveLinearModel: loss must be a MatchingLoss"),
        ({"loss": sm.PerLabel({0.0: sm.Exp()})}, SIGNAL, TypeError, "SelectiveLinearModel: loss must have a single"),
        ({"loss": sm.Log()}, SIGNAL, ValueError, "SelectiveLinearModel: the labels must lie in (0, inf)"),
        ({}, np.column_stack([SIGNAL, NOISE]), ValueError, "y must be one score for each row, got shape (80, 2)."),
        ({"loss": sm.CompositeSoftmax()}, SIGNAL, ValueError, "the labels must be rows of scores"),
        (
            {"loss": sm.Log(), "fit_intercept": False},
            np.abs(NOISE) + 0.1,
            ValueError,
            "fit_intercept must be True for a link whose domain (0, inf) does not hold 0, got False.",
        ),
        ({"focus": "top"}, SIGNAL, ValueError, "high"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_errors_name_what_is_wrong(options, y, error, message):
    with pytest.raises(error) as raised:
        SelectiveLinearModel(**options).fit(X, y)
    assert message in str(raised.value)


@pytest.mark.parametrize("weights", [-np.ones(80), np.full(80, np.nan), np.zeros(80), np.ones(79), np.ones((80, 2))])
def test_bad_weights_are_refused(weights):
    with pytest.raises(ValueError, match=r"SelectiveLinearModel: weights must"):
        SelectiveLinearModel().fit(X, SIGNAL, sample_weight=weights)
