"""Any library that follows the Python array API standard works: values equal NumPy's, results are its own arrays."""

import array_api_strict as xp
import numpy as np
import pytest
from score_pairs import curve_of, generic_pairs, special_pairs

import selmatch as sm
from conftest import CURVES, LOSSES, VECTORS, points_inside
from selmatch import functions


@pytest.fixture(autouse=True)
def quiet():
    """array_api_strict computes with NumPy, which warns of overflow; other libraries and the losses on NumPy do not."""
    with np.errstate(all="ignore"):
        yield


def strict(*arrays, dtype=None):
    return tuple(xp.asarray(np.asarray(x), dtype=dtype) for x in arrays)


def assert_same(actual, expected, rtol=1e-13):
    assert isinstance(actual, xp.asarray(0.0).__class__)
    values = np.from_dlpack(actual)
    assert values.shape == np.shape(expected)
    np.testing.assert_allclose(values, expected, rtol=rtol, atol=1e-2 * rtol * np.max(np.abs(expected), initial=1e-300))


X = np.linspace(-0.95, 0.9, 12)
ONE = ["exp", "expm1", "log1p", "sin", "cos", "tan", "sinh", "cosh", "tanh", "arcsin", "arctan", "arcsinh", "abs"]
ONE += ["sign", "side", "isfinite", "square", "fold", "mirror", "positive_part", "row_sum", "row_max"]
ONE += ["sigmoid", "softplus", "hypot1", "phi", "psi_series", "omega", "not_negative"]


@pytest.mark.parametrize("name", ONE)
def test_functions_of_one_argument(name):
    function, (x,) = getattr(functions, name), strict(X)
    assert_same(function(x), function(X))


def test_functions_of_positive_numbers():
    (x,) = strict(X + 1.0)
    assert_same(functions.log(x), np.log(X + 1.0))
    assert_same(functions.sqrt(x), np.sqrt(X + 1.0))
    assert_same(functions.power(x, 1.5), (X + 1.0) ** 1.5)
    assert_same(functions.xlogy(x, x), (X + 1.0) * np.log(X + 1.0))


def test_functions_of_several_arguments():
    x, y = strict(X, X[::-1])
    assert_same(functions.arctan2(x, y), np.arctan2(X, X[::-1]))
    for other, plain in ((y, X[::-1]), (0.25, 0.25)):
        assert_same(functions.minimum(x, other), np.minimum(X, plain))
        assert_same(functions.maximum(x, other), np.maximum(X, plain))
        assert_same(functions.maximum(other, x), np.maximum(X, plain))
        assert_same(functions.where(x > 0, x, other), np.where(X > 0, X, plain))
        assert_same(functions.where(x > 0, other, x), np.where(X > 0, plain, X))
    assert_same(functions.where(x > 0, 1.0, 0.0), np.where(X > 0, 1.0, 0.0))
    assert_same(functions.like((1.0, 2.0), x), np.array([1.0, 2.0]))


@pytest.mark.parametrize("curve", CURVES, ids=repr)
def test_curves(curve):
    z = points_inside(curve)
    (x,) = strict(z)
    for method in (curve, curve.primitive, curve.slope):
        assert_same(method(x), method(z))
    u = z[::-1] - z
    (v,) = strict(u)
    for method in (curve.difference, curve.remainder, curve.increment, curve.secant):
        assert_same(method(x, v), method(z, u), rtol=1e-12)


@pytest.mark.parametrize("curve", [loss.potential for loss in LOSSES if not loss.vector], ids=repr)
def test_inverses(curve):
    z = points_inside(curve)
    (y,) = strict(curve(z))
    assert_same(curve.inverse(y), curve.inverse(curve(z)))


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("pairs", [generic_pairs, special_pairs])
def test_losses(loss, pairs):
    s_hat, s = pairs(loss)
    a, b = strict(s_hat, s)
    for options in ({}, {"reduction": "sum"}, {"reduction": "none"}):
        assert_same(loss(a, b, **options), loss(s_hat, s, **options))
    assert_same(loss.grad(a, b), loss.grad(s_hat, s))
    assert_same(loss.hvp(a, b - a), loss.hvp(s_hat, s - s_hat))


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_single_precision_stays_single(loss):
    s_hat, s = generic_pairs(loss)
    a, b = strict(s_hat, s, dtype=xp.float32)
    expected = loss.value_and_grad(np.from_dlpack(a), np.from_dlpack(b))
    for actual, values in zip(loss.value_and_grad(a, b), expected, strict=True):
        assert actual.dtype == xp.float32
        assert_same(actual, values, rtol=1e-5)


@pytest.mark.parametrize("loss", [sm.MatchingLoss(p) for p in (sm.Sigmoid(), sm.Log(), *VECTORS)], ids=repr)
def test_masks_and_weights(loss):
    s_hat, s = generic_pairs(loss)
    mask = np.arange(s.size).reshape(s.shape) % 5 != 0
    weights = np.linspace(0.0, 2.0, len(s))
    a, b, present, w = strict(np.where(mask, s_hat, np.nan), s, mask, weights)
    for options in ({}, {"reduction": "none"}):
        expected = loss(s_hat, s, where=mask, weights=weights, **options)
        assert_same(loss(a, b, where=present, weights=w, **options), expected)
    assert_same(loss.grad(a, b, where=present), loss.grad(s_hat, s, where=mask))
    assert_same(loss(a, b, where=present, num_items=5), loss(s_hat, s, where=mask, num_items=5))


def test_scores_outside_the_domain_give_nan():
    a, b = strict([1.0, -1.0, 2.0], [1.5, 1.0, 0.0])
    values = sm.MatchingLoss(sm.Log())(a, b, reduction="none")
    assert np.isnan(np.from_dlpack(values)).tolist() == [False, True, True]


def test_other_libraries_are_not_mixed():
    s_hat, s = generic_pairs(sm.MatchingLoss(sm.Sigmoid()))
    with pytest.raises(TypeError, match=r"must come from one library.*NumPy"):
        sm.MatchingLoss(sm.Sigmoid())(strict(s_hat)[0], s)


def test_every_loss_of_the_suite_has_scores():
    assert all(curve_of(loss).holds(generic_pairs(loss)[0]).all() for loss in LOSSES)
