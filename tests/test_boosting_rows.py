"""What all boosting objectives share: start value, scale, weights, checks."""

import logging

import numpy as np
import pytest

import selmatch as sm
from conftest import LINKS
from selmatch.boosting import Objective
from selmatch.boosting.rows import Rows


def numbers():
    """Random numbers, the same in every test."""
    return np.random.default_rng(0)


def labels_for(curve, count=40):
    """Random scores well inside the domain of a curve."""
    low, high = curve.window()
    return low + (high - low) * np.random.default_rng(1).uniform(0.1, 0.9, count)


STEEP = [curve for curve in LINKS if not isinstance(curve, (sm.Step, sm.Sign))]


@pytest.mark.parametrize("curve", STEEP, ids=repr)
@pytest.mark.parametrize("kind", ["secant", "newton"])
def test_the_mean_curvature_at_the_start_is_one(curve, kind):
    labels, weights = labels_for(curve), numbers().uniform(0.5, 2.0, 40)
    rows = Rows("test", sm.MatchingLoss(curve), labels, weights)
    start = rows.start(kind)
    _, curvature = rows.gradient_and_curvature(np.full(40, start.score), start.scale, kind)
    if kind == "secant" or np.all(curvature > 0):  # a flat place has no second derivative to go by
        assert np.sum(curvature) / np.sum(weights) == pytest.approx(1.0, rel=1e-5)


@pytest.mark.parametrize("curve", [curve for curve in STEEP if curve.continuous], ids=repr)
def test_the_start_is_where_weighted_gradients_balance(curve):
    labels, weights = labels_for(curve), numbers().uniform(0.5, 2.0, 40)
    loss = sm.MatchingLoss(curve)
    start = Rows("test", loss, labels, weights).start("secant")
    gradient = loss.grad(np.full(40, start.score), labels)
    assert abs(np.sum(weights * gradient)) <= 1e-12 * np.sum(weights * np.abs(gradient)) + 1e-13


@pytest.mark.parametrize("kind", ["secant", "newton"])
@pytest.mark.parametrize("curve", [sm.Sinh(), sm.Sigmoid().affine(alpha=2.0, beta=1.5), sm.Huber(c=1.0)], ids=repr)
def test_gradients_and_curvatures_are_those_of_the_loss(curve, kind):
    rng = numbers()
    loss, labels = sm.MatchingLoss(curve), labels_for(curve)
    scores, weights = labels + rng.normal(size=40), rng.uniform(0.0, 2.0, 40)
    gradient, curvature = Rows("test", loss, labels, weights).gradient_and_curvature(scores, 3.0, kind)
    np.testing.assert_allclose(gradient, 3.0 * weights * loss.grad(scores, labels), rtol=1e-4, atol=1e-5)
    expected = loss.curvature(scores, labels, kind=kind)
    np.testing.assert_allclose(curvature, 3.0 * weights * expected, rtol=6e-3, atol=1e-5)


def test_the_metric_is_the_weighted_mean_loss():
    rng = numbers()
    labels, weights = rng.normal(size=50), rng.uniform(0.5, 2.0, 50)
    loss, scores = sm.MatchingLoss(sm.Sinh()), rng.normal(size=50)
    value = Rows("test", loss, labels, weights).value(scores)
    assert value == pytest.approx(loss(scores, labels, weights=weights), rel=1e-5)


def test_huge_links_are_computed_in_double_precision():
    labels = np.array([0.0, 50.0, 120.0])
    rows = Rows("test", sm.MatchingLoss(sm.Exp()), labels)
    start = rows.start("secant")
    gradient, curvature = rows.gradient_and_curvature(np.full(3, start.score), start.scale, "secant")
    assert np.all(np.isfinite(gradient))
    assert np.all(np.isfinite(curvature))
    assert start.score == pytest.approx(120.0 - np.log(3.0))


def test_a_saturated_link_still_starts_between_the_labels():
    labels = np.array([40.0, 50.0, 60.0])  # the sigmoid is 1 to rounding at all of them
    start = Rows("test", sm.MatchingLoss(sm.Sigmoid()), labels).start("newton")
    assert 40.0 <= start.score <= 41.0 + np.log(3.0)


def test_several_targets_have_a_start_each():
    labels = numbers().normal(size=(30, 2)) + np.array([0.0, 5.0])
    start = Rows("test", sm.MatchingLoss(sm.Sinh()), labels).start("secant")
    for column, score in zip(labels.T, start.score, strict=True):
        assert score == pytest.approx(sm.MatchingLoss(sm.Sinh()).minimiser(column))


def test_a_loss_of_many_classes_starts_at_its_minimiser():
    labels, loss = numbers().normal(size=(30, 3)), sm.MatchingLoss(sm.CompositeSoftmax(sm.Sinh()))
    rows = Rows("test", loss, labels)
    start = rows.start("newton")
    np.testing.assert_allclose(start.score, loss.minimiser(labels))
    gradient, curvature = rows.gradient_and_curvature(np.broadcast_to(start.score, (30, 3)), 1.0, "newton")
    np.testing.assert_allclose(gradient.sum(axis=0), 0.0, atol=1e-12)
    assert np.all(curvature > 0)


def test_a_link_for_each_label_balances_too():
    labels = np.array([0.0, 0.0, 1.0, 2.0])
    loss = sm.MatchingLoss(sm.PerLabel({0.0: sm.Identity(), 1.0: sm.Exp(), 2.0: sm.Sinh()}))
    start = Rows("test", loss, labels).start("secant")
    assert abs(np.sum(loss.grad(np.full(4, start.score), labels))) < 1e-12


@pytest.mark.parametrize("kind", ["secant", "newton"])
def test_lists_start_at_the_best_constant(kind):
    labels, sizes = numbers().normal(size=12) + 1.0, [5, 4, 3]
    weights = np.array([1.0, 2.0, 0.5])
    loss = sm.MatchingLoss(sm.CompositeSoftmax(sm.Sinh()))
    rows = Rows("test", loss, labels, weights, form=sm.ranking.listwise, groups=sizes)
    start = rows.start(kind)
    assert start.score != 0.0
    gradient, curvature = rows.gradient_and_curvature(np.full(12, start.score), start.scale, kind)
    assert abs(gradient.sum()) < 1e-12 * np.abs(gradient).sum() + 1e-13
    assert curvature.sum() / np.sum(weights * sizes) == pytest.approx(1.0)


def test_pairs_start_at_zero():
    rows = Rows("test", sm.MatchingLoss(sm.Sinh()), numbers().normal(size=6), form=sm.ranking.pairwise, groups=[3, 3])
    assert rows.start("newton").score == 0.0


BAD = [
    (sm.Sinh(), {"labels": [1.0, np.nan]}, r"labels must be finite numbers, got nan in row 1"),
    (sm.Sinh(), {"labels": [1.0, np.inf]}, r"labels must be finite numbers, got inf in row 1"),
    (sm.Log(), {"labels": [1.0, -2.0]}, r"labels must lie in \(0, inf\), the domain of the link, got -2 in row 1"),
    (sm.Sinh(), {"labels": []}, "labels must be one for each row, got shape"),
    (sm.Sinh(), {"labels": ["a", "b"]}, "labels must be real numbers"),
    (sm.Sinh(), {"labels": [1.0, 2.0], "weights": [1.0, -1.0]}, "not negative, got -1 in row 1"),
    (sm.Sinh(), {"labels": [1.0, 2.0], "weights": [1.0]}, r"one for each row, shape \(2,\), got shape \(1,\)"),
    (sm.Sinh(), {"labels": [1.0, 2.0], "weights": [0.0, 0.0]}, "weights must not all be 0"),
    (sm.ReLU(), {"labels": [-3.0, -2.0]}, r"steep somewhere between the labels, got MatchingLoss\(ReLU\(\)\)"),
]


@pytest.mark.parametrize(("curve", "given", "message"), BAD)
def test_bad_input_is_named_before_training(curve, given, message):
    with pytest.raises((ValueError, TypeError), match=message):
        Rows("test", sm.MatchingLoss(curve), **given).start("secant")


@pytest.mark.parametrize(
    ("groups", "message"),
    [([2, 2], "must add up to the number of rows, 3, got a sum of 4"), ([1.5, 1.5], "whole numbers"), (None, "given")],
)
def test_bad_groups_are_named(groups, message):
    with pytest.raises(ValueError, match=message):
        Rows("test", sm.MatchingLoss(sm.Sinh()), [1.0, 2.0, 3.0], form=sm.ranking.pairwise, groups=groups)


def test_one_line_says_which_route_runs(caplog):
    with caplog.at_level(logging.INFO, logger="selmatch"):
        Objective(sm.Sinh()).prepare([0.0, 1.0])
    (line,) = [record.getMessage() for record in caplog.records if record.name == "selmatch.boosting"]
    assert "python route, secant curvature" in line


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"curvature": "hessian"}, "curvature must be 'secant' or 'newton', got 'hessian'"),
        ({"route": "c++"}, "route must be None or 'python' or 'native', got 'c"),
        ({"ranking": "lambdarank"}, "ranking must be None or 'pairwise' or 'listwise'"),
        ({"route": "native"}, "must have a link that the booster knows"),
    ],
)
def test_unknown_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        Objective(sm.Sinh(), **options)


def test_forms_of_lists_need_their_losses():
    with pytest.raises(TypeError, match="must have a CompositeSoftmax"):
        Objective(sm.Sinh(), ranking="listwise")
    with pytest.raises(TypeError, match="must have a single link"):
        Objective(sm.CompositeSoftmax(), ranking="pairwise")


def test_the_start_of_a_saturated_link_is_accurate():
    labels = np.array([34.0, 36.0, 38.0])
    loss = sm.MatchingLoss(sm.Sigmoid())
    # far out the sigmoid is 1 - e^-z
    exact = -np.log(np.mean(np.exp(-labels)))
    assert Rows("test", loss, labels).start("secant").score == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("scaling", [sm.ReLU(), sm.Sinh().capped(-1.0, 4.0)], ids=repr)
def test_lists_start_where_the_scaling_is_steep_though_it_is_flat_elsewhere(scaling):
    labels = np.array([2.9, 3.0, 3.2, 2.5, 3.5])
    loss = sm.MatchingLoss(sm.CompositeSoftmax(scaling))
    rows = Rows("test", loss, labels, form=sm.ranking.listwise, groups=[3, 2])
    start = rows.start("secant")
    assert 2.5 <= start.score <= 3.5
    gradient, _ = rows.gradient_and_curvature(np.full(5, start.score), start.scale, "secant")
    assert abs(gradient.sum()) < 1e-12


def test_lists_on_a_flat_piece_start_between_the_labels():
    labels = np.array([2.9, 3.0, 3.2, 2.5, 3.5])
    for scaling in (sm.Sinh().capped(-1.0, 1.0), sm.Huber(c=1.0)):
        loss = sm.MatchingLoss(sm.CompositeSoftmax(scaling))
        start = Rows("test", loss, labels, form=sm.ranking.listwise, groups=[3, 2]).start("secant")
        assert 2.5 <= start.score <= 3.5


def test_lists_with_a_constant_scaling_start_at_zero():
    rows = Rows("test", sm.MatchingLoss(sm.CompositeSoftmax()), [3.0, 4.0], form=sm.ranking.listwise, groups=[2])
    assert rows.start("secant").score == 0.0


@pytest.mark.parametrize("kind", ["secant", "newton"])
def test_the_mean_curvature_of_huge_links_is_one(kind):
    labels = np.array([100.0, 110.0, 120.0])  # exponentials beyond single precision
    rows = Rows("test", sm.MatchingLoss(sm.Exp()), labels)
    start = rows.start(kind)
    _, curvature = rows.gradient_and_curvature(np.full(3, start.score), start.scale, kind)
    assert np.mean(curvature) == pytest.approx(1.0, rel=1e-5)


def test_scores_beyond_single_precision_warn_of_nothing():
    rows = Rows("test", sm.MatchingLoss(sm.Sigmoid()), [0.0, 1.0])
    assert not rows.value(np.array([1e300, 0.0])) < 1e30
    gradient, _ = rows.gradient_and_curvature(np.array([1e300, 0.0]), 1.0, "secant")
    assert gradient[0] == 0.5


@pytest.mark.parametrize("weight", [1e200, 1e-200])
def test_weights_that_boosters_cannot_keep_are_named(weight):
    with pytest.raises(ValueError, match=r"weights must be numbers in single precision, .* Divide them by their mean"):
        Rows("test", sm.MatchingLoss(sm.Sinh()), [0.0, 1.0], [weight, weight])
