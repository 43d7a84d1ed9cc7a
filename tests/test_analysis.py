"""Sensitivity, BUST, BLUST, LLUST, region and ranking reports, and the ledger's claims about them."""

import functools
import math

import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import selmatch as sm
from conftest import KINKED, LINKS, SMOOTH, VECTORS, points_inside
from selmatch.analysis import (
    blust,
    bust,
    llust,
    prediction_shift,
    ranking_report,
    region_report,
    sensitivity,
)
from selmatch.observed import integral


# ------------------------------------------------------------------------------------------------- sensitivity
@pytest.mark.parametrize("curve", LINKS, ids=repr)
def test_sensitivity_of_single_scores_is_the_slope(curve):
    z = points_inside(curve)
    assert sensitivity(curve, z) == pytest.approx(curve.slope(z), rel=1e-13, abs=0.0)
    assert type(sensitivity(sm.MatchingLoss(curve), float(z[4]))) is float


@pytest.mark.parametrize("curve", [sm.Sigmoid().affine(alpha=2.0, beta=1.5), sm.Huber(c=1.0)], ids=repr)
def test_sensitivity_on_arrays_of_every_library(curve, array):
    z = points_inside(curve)
    assert np.asarray(sensitivity(curve, array(z))) == pytest.approx(curve.slope(z), rel=1e-13, abs=0.0)


@pytest.mark.parametrize("potential", VECTORS, ids=repr)
def test_sensitivity_of_many_classes_is_the_diagonal_of_the_hessian(potential):
    z = np.array([[1.5, -0.5, 0.25], [0.0, 2.0, -3.0]])
    expected = np.diagonal(potential.hessian(z), axis1=-2, axis2=-1)
    assert sensitivity(sm.MatchingLoss(potential), z) == pytest.approx(expected, rel=1e-13, abs=0.0)


def test_sensitivity_keeps_the_library_and_the_dtype():
    z = torch.tensor([0.5, 1.0], dtype=torch.float32)
    found = sensitivity(sm.Sigmoid(), z)
    assert isinstance(found, torch.Tensor)
    assert found.dtype == torch.float32


@pytest.mark.parametrize("curve", SMOOTH[:12], ids=repr)
def test_a_small_move_costs_half_the_sensitivity_times_its_square(curve):
    # C08: the deviation is of first order in the move
    for z in points_inside(curve, 4).tolist():
        slope = sensitivity(curve, z)
        deviations = [abs(sm.MatchingLoss(curve)(z + d, z) / d**2 / slope - 0.5) for d in (1e-4, 1e-6)]
        assert deviations[0] < 1e-2
        assert deviations[1] < 1e-4 + 0.02 * deviations[0]


def test_a_small_move_need_not_be_quadratic():
    # C09: a cubic link is quartic at 0, a signed root of order 3/2, a step linear
    def ratio(curve, d):
        return sm.MatchingLoss(curve)(d, 0.0) / d**2

    assert [ratio(sm.SignedPower(3.0), d) for d in (1e-2, 1e-4)] == pytest.approx([2.5e-5, 2.5e-9])
    assert [ratio(sm.SignedPower(0.5), d) for d in (1e-2, 1e-4)] == pytest.approx([6.7, 66.7], rel=1e-2)
    assert [ratio(sm.Step(), d) for d in (1e-2, 1e-4)] == pytest.approx([1e2, 1e4])
    assert sensitivity(sm.SignedPower(3.0), 0.0) == 0.0
    assert sensitivity(sm.SignedPower(0.5), 0.0) == math.inf


# ---------------------------------------------------------------------------------------------------- integrals
def test_integrals_are_accurate_with_kinks_jumps_and_infinite_slopes():
    def square(z):
        return z * z

    assert integral(square, -1.0, 3.0) == pytest.approx(3.0, rel=1e-15, abs=0.0)
    assert integral(square, -1.0, 3.0, sm.Step().affine(beta=0.7)) == pytest.approx(0.49, rel=1e-14, abs=0.0)
    assert integral(square, -2.0, 4.0, sm.SignedPower(0.5)) == pytest.approx(0.4 * 2.0**2.5, rel=1e-14, abs=0.0)
    assert integral(square, -2.0, 3.5, sm.Huber(c=0.3)) == pytest.approx(0.018, rel=1e-14, abs=0.0)
    assert integral(square, 0.0, 1.0, sm.Log()) == pytest.approx(0.5, rel=1e-14, abs=0.0)
    assert integral(lambda z: np.where(z > 0.3, 1.0, 0.0), 0.0, 1.0) == pytest.approx(0.7, rel=1e-14, abs=0.0)
    assert integral(np.log, 0.0, 1.0) == pytest.approx(-1.0, rel=1e-13, abs=0.0)
    assert integral(lambda z: np.exp(-0.5 * (z / 0.01) ** 2), -1.0, 2.5) == pytest.approx(
        0.01 * math.sqrt(2 * math.pi), rel=1e-13
    )


@settings(max_examples=50)
@given(place=st.floats(0.0, 1.0))
def test_integrals_find_kinks_and_jumps_wherever_they_are(place):
    assert integral(lambda z: np.abs(z - place), 0.0, 1.0) == pytest.approx(
        0.5 * (place**2 + (1.0 - place) ** 2), rel=1e-13, abs=0.0
    )
    assert integral(lambda z: 1.0 + (z > place), 0.0, 1.0) == pytest.approx(2.0 - place, rel=1e-13, abs=0.0)
    assert integral(lambda z: 1.0 + z, 0.0, 1.0, sm.Step().affine(beta=place)) == pytest.approx(
        1.0 + place if place < 1.0 else 0.0, rel=1e-13, abs=0.0
    )


# --------------------------------------------------------------------------------------------- BUST and relatives
def test_bust_exceeds_one_only_outside_the_domain():
    # C11
    assert bust(sm.Exp(), 0.9, 2.0, (0.0, 1.0)) == pytest.approx(9.145, abs=5e-4)
    assert bust(sm.Exp(), 0.0, 1.0, (0.0, 1.0)) == pytest.approx(1.0, rel=1e-15, abs=0.0)
    assert 0.0 < bust(sm.Exp(), 0.2, 0.7, (0.0, 1.0)) < 1.0


@pytest.mark.parametrize("curve", [c for c in LINKS if not isinstance(c, sm.CompositeSigmoid)], ids=repr)
def test_blust_of_uniform_scores_is_a_density(curve):
    # C12; jumps count through BUST over them
    low, high = curve.window()
    low += 0.05 * (high - low) * curve.domain.open_low
    high -= 0.05 * (high - low) * curve.domain.open_high
    if curve.continuous:
        total = integral(lambda z: blust(curve, z, (low, high)), low, high - low)
        assert total == pytest.approx(1.0, rel=1e-7 if curve in (sm.SignedPower(0.5), sm.Arcsin()) else 1e-12, abs=0.0)
    assert bust(curve, low, high - low, (low, high)) == pytest.approx(1.0, rel=1e-13, abs=0.0)


@pytest.mark.parametrize("curve", [sm.Sigmoid(), sm.Sinh(), sm.Huber(), sm.Exp().affine(alpha=0.5)], ids=repr)
def test_an_interval_is_the_integral_of_its_scores(curve):
    whole = bust(curve, (-1.0, 2.5), 0.75, (-3.0, 4.0))
    assert whole == pytest.approx(integral(lambda z: bust(curve, z, 0.75, (-3.0, 4.0)), -1.0, 3.5), rel=1e-13, abs=0.0)
    # the primitives of the paper's proof
    parts = [curve.primitive(z + 0.75) - curve.primitive(z) for z in (-1.0, 2.5)]
    assert whole == pytest.approx((parts[1] - parts[0]) / (curve(4.0) - curve(-3.0)), rel=1e-12, abs=0.0)


def test_a_shift_is_bust_of_the_interval_to_first_order():
    for d in (1.0, 1e-2, 1e-4):
        exact = prediction_shift(sm.Exp(), (2.0, 3.0), d, (0.0, 4.0))
        # for the exponential link the balance has a closed form
        assert exact == pytest.approx(
            math.log1p(math.expm1(d) * (math.e**3 - math.e**2) / math.expm1(4.0)), rel=1e-14, abs=0.0
        )
        assert bust(sm.Exp(), (2.0, 3.0), d, (0.0, 4.0)) == pytest.approx(exact, rel=0.3 * d)


@given(
    curve=st.sampled_from([*SMOOTH[:10], *KINKED[:3], sm.Step(), sm.Sign()]),
    a=st.floats(-1.5, 1.0),
    length=st.floats(0.01, 0.5),
    bias=st.floats(-0.05, 0.05),
)
def test_a_shift_lies_between_nothing_and_the_bias(curve, a, length, bias):
    shift = prediction_shift(curve, (a, a + length), bias, (-1.5, 1.5))
    assert 0.0 <= math.copysign(1.0, bias) * shift <= abs(bias) * (1 + 1e-12)


def test_everybody_biased_is_shifted_by_the_bias():
    for curve in (sm.Sigmoid(), sm.Sinh(), sm.Huber(c=9.0)):
        assert prediction_shift(curve, (-2.0, 2.0), 0.5, (-2.0, 2.0)) == pytest.approx(0.5, rel=1e-13, abs=0.0)


def test_uniform_scores_as_density_and_as_sample():
    curve, domain = sm.Sinh().affine(alpha=0.5, beta=0.5), (-2.0, 3.0)
    points = np.linspace(-2.0, 3.0, 200_001)
    for value in (
        lambda **observed: bust(curve, 1.0, 0.5, domain, **observed),
        lambda **observed: blust(curve, 1.0, domain, **observed),
        lambda **observed: llust(curve, 1.0, domain, **observed),
        lambda **observed: bust(curve, (0.5, 1.5), 0.5, domain, **observed),
        lambda **observed: prediction_shift(curve, (0.5, 1.5), 0.5, domain, **observed),
        lambda **observed: bust(curve, 1.0, 0.5, domain, tau=0.25, **observed),
    ):
        assert value(observed=lambda z: 7.0 + 0.0 * z) == pytest.approx(value(), rel=1e-13, abs=0.0)
        assert value(observed=points) == pytest.approx(value(), rel=2e-5)


def bell(z):
    return np.exp(-0.5 * z * z)


@pytest.mark.parametrize("curve", [sm.Sigmoid(), sm.Exp().affine(alpha=0.5), sm.Huber(c=0.5)], ids=repr)
def test_a_density_and_a_sample_of_it_agree(curve):
    points = np.linspace(-4.0, 4.0, 80_001)
    for value in (
        lambda **observed: bust(curve, -0.3, 0.6, (-4.0, 4.0), **observed),
        lambda **observed: blust(curve, 0.25, (-4.0, 4.0), **observed),
        lambda **observed: prediction_shift(curve, (-0.5, 0.5), 0.5, (-4.0, 4.0), **observed),
    ):
        assert value(observed=points, weights=bell(points)) == pytest.approx(value(observed=bell), rel=1e-4)


def test_a_density_sees_jumps():
    # E h' is the density at the jump; the scores of a sample lie beside it
    expected = math.sqrt(2.0 * math.pi) * math.erf(math.sqrt(8.0)) / 8.0
    assert bust(sm.Step(), -0.3, 0.6, (-4.0, 4.0), observed=bell) == pytest.approx(expected, rel=1e-13, abs=0.0)


@pytest.mark.parametrize("bias", [0.03125, -0.2, 1e-3, -1e-7, 1e-12])
@pytest.mark.parametrize("observed", [None, bell], ids=["uniform", "density"])
def test_a_narrow_bias_at_a_jump_is_seen(bias, observed):
    # all that a step sees lies in the part, so that it must be made up for entirely
    shift = prediction_shift(sm.Step(), (-0.25, 0.3), bias, (-1.5, 1.6), observed=observed)
    # with a density the scores beside the jump are rounded
    assert shift == pytest.approx(bias, rel=1e-13, abs=0.0 if observed is None else 1e-15)


@pytest.mark.parametrize(
    "observed",
    [None, lambda z: 1.0 + z * z, np.array([-1.5, -0.5, 0.25, 0.75, 2.0, 2.0]), [-2.0, 0.5, 1.0, 3.0]],
    ids=["uniform", "density", "sample", "list"],
)
@pytest.mark.parametrize("curve", [sm.Sigmoid(), sm.Sinh().affine(alpha=0.5), sm.Arctan()], ids=repr)
def test_formulas_are_limits_of_the_definition(curve, observed):
    def limit(function):
        coarse, fine = (function(2.0**-k) for k in (40, 41))
        return 2.0 * fine - coarse

    domain = (-2.0, 3.0)
    whole = {"domain": domain, "observed": observed}
    assert limit(lambda tau: bust(curve, 0.5, 1.0, tau=tau, **whole)) == pytest.approx(
        bust(curve, 0.5, 1.0, **whole), rel=1e-12
    )
    for function, w in ((blust, 0.5), (llust, -1.5)):
        assert limit(lambda tau, f=function, w=w: f(curve, w, tau=tau, **whole)) == pytest.approx(
            function(curve, w, **whole), rel=1e-12
        )


def test_llust_against_many_digits():
    # C14: w h'(w) / int w^2 h'(w) dw
    with mp.workdps(30):
        total = mp.quad(lambda z: z**2 / (2 * mp.cosh(z / 2)) ** 2, [-5, 0, 5])
        expected = 2 / (2 * mp.cosh(1)) ** 2 / total
    assert llust(sm.Sigmoid(), 2.0, (-5.0, 5.0)) == pytest.approx(float(expected), rel=1e-14, abs=0.0)
    assert llust(sm.Sigmoid(), 0.0, (-5.0, 5.0)) == 0.0
    assert llust(sm.Step().affine(beta=2.0), 1.0, (-5.0, 5.0)) == 0.0


def test_biased_rows_of_a_sample():
    scores = np.array([0.0, 1.0, 2.0, 3.0])
    weights = np.array([1.0, 2.0, 1.0, 0.0])
    slopes, shares = np.exp(scores), weights / 4.0
    assert bust(sm.Exp(), (0.5, 2.0), 0.1, observed=scores, weights=weights) == pytest.approx(
        np.sum(shares[1:3] * slopes[1:3]) * math.expm1(0.1) / np.sum(shares * slopes), rel=1e-14
    )
    assert bust(sm.Exp(), 1.0, 0.1, observed=scores, weights=weights) == pytest.approx(
        math.e * math.expm1(0.1) / (3.0 * np.sum(shares * slopes)), rel=1e-14
    )


def test_arrays_of_every_library(array):
    w, d = np.array([-1.0, 0.5]), np.array([0.25, -0.5])
    for function, arguments in ((bust, (w, d)), (blust, (w,)), (llust, (w,))):
        expected = [function(sm.Sigmoid(), *map(float, row), (-5, 5)) for row in zip(*arguments, strict=True)]
        found = function(sm.Sigmoid(), *map(array, arguments), (-5, 5))
        assert type(found) is type(array(w))
        assert np.asarray(found) == pytest.approx(np.array(expected), rel=1e-14, abs=0.0)
    assert type(bust(sm.Sigmoid(), 1, 1, (-5, 5))) is float
    assert bust(sm.Sigmoid(), [0, 1], 1, (-5, 5)).shape == (2,)
    assert bust(sm.Sigmoid(), np.float32([0.0, 1.0]), 1.0, (-5, 5)).dtype == np.float32
    assert bust(sm.Sigmoid(), np.float64(0.5), 1.0, (-5, 5)) == bust(sm.Sigmoid(), np.array([0.5]), 1.0, (-5, 5))[0]


def test_scores_outside_the_link_are_nan_in_frameworks():
    assert torch.isnan(bust(sm.Sin(), torch.tensor([1.0, 0.0], dtype=torch.float64), 1.0)).tolist() == [True, False]
    assert jnp.isnan(bust(sm.Log(), jnp.array([0.5, 2.0]), -1.0, (1.0, 3.0))).tolist() == [True, False]


def test_a_bounded_link_needs_no_domain():
    assert bust(sm.Sin(), 0.0, math.pi / 2) == pytest.approx(0.5, rel=1e-15, abs=0.0)
    assert blust(sm.Arcsin(), 0.0) == pytest.approx(1.0 / math.pi, rel=1e-15, abs=0.0)


BOUNDED = [
    sm.Sigmoid().affine(2.0, 0.5, gain=3.0), sm.Tanh(), sm.Arctan(), sm.SmeLU(c=2.0), sm.Huber(),
    sm.Sigmoid() + sm.Tanh().affine(alpha=0.5, beta=-1.0), sm.Sinh().capped(-1.5, 2.0), sm.CompositeSigmoid(sm.Tanh()),
]  # fmt: skip


@pytest.mark.parametrize("curve", BOUNDED, ids=repr)
def test_a_bounded_range_needs_no_domain(curve):
    """BUST knows of the domain only how far the link rises over it; the limit of ever wider ones."""
    assert not (math.isfinite(curve.domain.low) and math.isfinite(curve.domain.high))
    w, d, wide = 0.3, 0.8, (-1e9, 1e9)
    close = functools.partial(pytest.approx, rel=1e-8, abs=0.0)
    assert bust(curve, w, d) == close(bust(curve, w, d, wide))
    assert blust(curve, w) == close(blust(curve, w, wide))
    assert bust(curve, (0.1, 0.7), d) == close(bust(curve, (0.1, 0.7), d, wide))
    assert bust(curve, w, d, tau=1e-4) == close(bust(curve, w, d, wide, tau=1e-4))
    assert prediction_shift(curve, (0.1, 0.7), d) == close(prediction_shift(curve, (0.1, 0.7), d, wide))


def test_llust_without_a_domain_where_its_integral_is_finite():
    w = 2.0  # the integral of v^2 h'(v) over all scores is pi^2/3 for the Sigmoid, pi^2/6 for tanh
    assert llust(sm.Sigmoid(), w) == pytest.approx(w * sm.Sigmoid().slope(w) / (math.pi**2 / 3), rel=1e-13, abs=0.0)
    assert llust(sm.Tanh(), w) == pytest.approx(w * sm.Tanh().slope(w) / (math.pi**2 / 6), rel=1e-13, abs=0.0)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: bust(sm.Sinh(), 0.0, 1.0), TypeError, "domain must be given"),
        (lambda: bust(sm.Sigmoid(), 0.0, 1.0, observed=lambda z: np.ones_like(z)), TypeError, "domain must be given"),
        (lambda: region_report(sm.Sigmoid()), TypeError, "domain must be given"),
        (lambda: llust(sm.Arctan(), 1.0), ValueError, "positive and finite, got inf"),
        (lambda: llust(sm.Sigmoid(), 1.0, tau=0.1), TypeError, "domain must be given with tau"),
        (lambda: bust(sm.Sigmoid, 0.0, 1.0, (0, 1)), TypeError, r"Try Sigmoid\(\)"),
        (lambda: bust(sm.CompositeSoftmax(), 0.0, 1.0, (0, 1)), TypeError, "ranking_report"),
        (lambda: bust(sm.Sigmoid(), 0.0, 1.0, (1, 0)), ValueError, "low end below its high end"),
        (lambda: bust(sm.Sigmoid(), 0.0, 1.0, 5.0), TypeError, "domain must be a pair"),
        (lambda: bust(sm.Log(), 1.0, -2.0, (1, 2)), ValueError, r"w \+ d must lie in"),
        (lambda: bust(sm.Log(), 1.0, 1.0, (-1, 2)), ValueError, "domain must lie in"),
        (lambda: bust(sm.Logit(), 0.5, 0.1), ValueError, "positive and finite"),
        (lambda: bust(sm.Step(), 0.5, 0.1, (1, 2)), ValueError, "positive and finite, got 0"),
        (lambda: bust(sm.Exp(), (0.0, 5.0), 0.1, (1, 2)), ValueError, "must lie in the domain"),
        (lambda: bust(sm.Exp(), (1.0, 2.0), 0.1, (1, 2), tau=0.1), TypeError, "tau must come with a single score"),
        (lambda: bust(sm.Exp(), 1.0, 0.1, (1, 2), weights=[1.0]), TypeError, "weights must come with a sample"),
        (lambda: bust(sm.Exp(), 1.0, 0.1, (1, 2), observed=[1.0, 3.0]), ValueError, "observed scores must lie in"),
        (lambda: bust(sm.Exp(), 1.0, 0.1, observed=[1.0, 1.0]), ValueError, "two different scores"),
        (lambda: bust(sm.Exp(), 1.0, 0.1, observed=[1.0, math.nan]), ValueError, "finite numbers"),
        (lambda: bust(sm.Exp(), 1.0, 0.1, observed=[]), ValueError, "at least one"),
        (lambda: bust(sm.Exp(), 1.0, 0.1, observed=["a"]), TypeError, "real numbers"),
        (lambda: bust(sm.Exp(), 1.0, 0.1, observed=[1.0, 2.0], weights=[1.0]), ValueError, "one for each"),
        (lambda: bust(sm.Exp(), 1.0, 0.1, (1, 2), observed=lambda z: 0.0 * z), ValueError, "positive integral"),
        (
            lambda: bust(sm.Exp(), 1.0, 0.1, (1, 2), observed=lambda z: z - 1.5),
            ValueError,
            "density >= 0, got -0.5 at 1",
        ),
        (lambda: bust(sm.Exp(), 1.0, 0.1, (1, 2), observed=lambda z: math.exp(z)), TypeError, "takes a NumPy array"),
        (lambda: bust(sm.Exp(), "1", 0.1, (1, 2)), TypeError, "bust: w must be a number or an array, got str"),
        (lambda: bust(sm.Exp(), torch.tensor([1, 2]), 1, (1, 2)), TypeError, "bust: w must be floating point"),
        (lambda: llust(sm.Exp(), torch.tensor([1, 2]), (1, 2)), TypeError, "llust: w must be floating point"),
        (lambda: prediction_shift(sm.Log(), (1.0, 2.0), -1.0, (1, 2)), ValueError, "Choose a smaller bias"),
        (lambda: sensitivity(sm.PerLabel({0.0: sm.Exp()}), 1.0), TypeError, "curvature"),
        (lambda: bust(sm.PerLabel({0.0: sm.Exp()}), 1.0, 1.0, (0, 1)), TypeError, "one of its curves"),
        (lambda: bust(sm.Exp().affine(alpha=torch.tensor(2.0)), 1.0, 1.0, (0, 1)), TypeError, "must be numbers"),
        (lambda: region_report(sm.Exp(), [], domain=(0, 1)), ValueError, "one region at least"),
        (lambda: region_report(sm.CompositeSoftmax(), domain=(0, 1)), TypeError, "ranking_report"),
        (lambda: ranking_report(sm.Exp(), [0.0, 1.0]), TypeError, "region_report"),
        (lambda: ranking_report(sm.CompositeSoftmax(), [0.0]), ValueError, "two classes"),
        (lambda: ranking_report(sm.CompositeSoftmax(), np.zeros((2, 3))), ValueError, r"one row, got shape \(2, 3\)"),
        (lambda: ranking_report(sm.CompositeSoftmax(sm.Log()), [-1.0, 1.0]), ValueError, "scores must lie in"),
    ],
)
def test_mistakes_are_explained(call, error, words):
    with pytest.raises(error, match=words):
        call()


# ------------------------------------------------------------------------------------------------ region reports
def test_region_report_without_data():
    report = region_report(sm.MatchingLoss(sm.Exp()), domain=(0.0, 3.0))
    assert [(r.low, r.high) for r in report.regions] == [(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)]
    assert sum(r.share for r in report.regions) == pytest.approx(1.0)
    assert sum(r.weight for r in report.regions) == pytest.approx(1.0)
    for r in report.regions:
        assert r.sensitivity == pytest.approx(math.exp(r.high) - math.exp(r.low))
        assert r.shift == prediction_shift(sm.Exp(), (r.low, r.high), 1.0, (0.0, 3.0))


def test_region_report_with_data():
    data = np.concatenate([np.full(5, 1.0), [2.0, 2.5, 3.0, 7.0, 9.0]])
    report = region_report(sm.Identity(), [(0.0, 2.0), (2.0, 3.0), (5.0, 6.0)], data=data)
    assert [r.share for r in report.regions] == pytest.approx([0.5, 0.3, 0.0])  # 2 belongs to the upper region
    assert [r.shift for r in report.regions] == pytest.approx([0.5, 0.3, 0.0])
    assert math.isnan(report.regions[2].sensitivity)
    text = str(report)
    assert "scores in [2, 3] (30% of all): one unit of bias among them moves every prediction by 0.3;" in text
    assert "[5, 6]: none were observed" in text
    assert "scores in [0, 2) (50% of all)" in text


def test_fifths_of_the_data_cover_everything():
    rng = np.random.default_rng(7)
    data = rng.normal(size=1001)
    report = region_report(sm.Sigmoid(), data=data)
    assert len(report.regions) == 5
    assert [r.share for r in report.regions] == pytest.approx([0.2] * 5, abs=2e-3)
    assert sum(r.share for r in report.regions) == pytest.approx(1.0)
    assert sum(r.weight for r in report.regions) == pytest.approx(1.0)
    # with many ties there are fewer regions, but still everybody is in one
    ratings = np.repeat([1.0, 2.0, 3.0, 4.0, 5.0], [1, 1, 2, 6, 20])
    report = region_report(sm.Sinh().affine(alpha=0.5, beta=3.0), data=ratings, weights=np.ones(30))
    assert sum(r.share for r in report.regions) == pytest.approx(1.0)


def test_small_weight_means_small_shift():
    # the share of the total sensitivity is the shift per unit of a small bias
    report = region_report(sm.Sigmoid().affine(beta=2.0), [(-3.0, 0.0), (0.0, 3.0)], domain=(-3.0, 3.0), bias=1e-7)
    for r in report.regions:
        assert r.shift / 1e-7 == pytest.approx(r.weight, rel=1e-6)
    assert "a bias of 1e-07" in str(report)


def test_the_bias_of_a_report_fits_the_link():
    assert region_report(sm.Logit(), domain=(0.1, 0.85)).bias == 0.1
    assert region_report(sm.Exp(), domain=(0.1, 0.85)).bias == 1.0
    assert region_report(sm.Logit(), data=[0.1, 0.5, 0.99995]).bias == 1e-5
    with pytest.raises(ValueError, match="Choose a smaller bias"):
        region_report(sm.Logit(), domain=(0.1, 0.85), bias=1.0)


def test_regions_beyond_the_domain_are_cut():
    report = region_report(sm.Exp(), [(-5.0, 1.0), (7.0, 9.0)], domain=(0.0, 2.0))
    assert report.regions[0].share == 0.5
    assert report.regions[1].share == 0.0


def test_a_region_may_be_a_single_pair_and_have_no_end():
    report = region_report(sm.Exp(), (1.0, math.inf), data=[0.0, 1.0, 2.0, 3.0])
    (region,) = report.regions
    assert (region.low, region.high, region.share) == (1.0, math.inf, 0.75)
    assert "scores in [1, inf) (75% of all)" in str(report)


def test_samples_of_every_library():
    expected = bust(sm.Sigmoid(), 0.0, 1.0, observed=[0.0, 1.0, 3.0])
    for sample in (
        torch.tensor([0.0, 1.0, 3.0], dtype=torch.bfloat16),
        torch.tensor([0.0, 1.0, 3.0], requires_grad=True),
        jnp.array([0, 1, 3]),
    ):
        assert bust(sm.Sigmoid(), 0.0, 1.0, observed=sample) == expected


# ----------------------------------------------------------------------------------------------- ranking reports
@pytest.mark.parametrize(
    "potential", [p for p in VECTORS if getattr(p, "rho", None) is None or len(p.rho) == 3], ids=repr
)
def test_parts_of_the_sensitivity_add_up(potential):
    z = np.array([1.25, -0.75, 0.5])
    report = ranking_report(sm.MatchingLoss(potential), z)
    delta = potential.slope(z)
    assert [c.sensitivity for c in report.classes] == pytest.approx(delta)
    assert [c.region + c.ranking for c in report.classes] == pytest.approx(delta, rel=1e-13, abs=0.0)
    assert sum(c.share for c in report.classes) == pytest.approx(1.0)
    assert report.ranks == isinstance(potential, sm.CompositeSoftmax)
    step = 1e-6
    for c in report.classes:
        up, down = z + step, z - step
        up[c.index] = down[c.index] = z[c.index]
        change = (potential.slope(up)[c.index] - potential.slope(down)[c.index]) / (2 * step)
        assert c.response == pytest.approx(change, rel=1e-6, abs=1e-9)


def test_pairs_and_order():
    report = ranking_report(sm.CompositeSoftmax(sm.Exp().affine(alpha=0.5, gain=0.5)), [1.0, 3.0, 2.0])
    deltas = [c.sensitivity for c in report.classes]
    assert report.order == (1, 2, 0)
    assert {(a, b) for a, b, _ in report.pairs} == {(1, 2), (1, 0), (2, 0)}
    for a, b, ratio in report.pairs:
        assert ratio == deltas[a] / deltas[b] > 1.0
    assert report.margin == 1.0


def test_the_same_score_matters_as_leader_and_not_as_runner_up():
    # C69: q = e^(z/2) / 2 at score 3, the other at 1, 3, 5; decomposed it is always the same
    potential = sm.CompositeSoftmax(sm.Exp().affine(alpha=0.5, gain=0.5))
    deltas = [sensitivity(potential, [3.0, other])[0] for other in (1.0, 3.0, 5.0)]
    assert deltas == pytest.approx([1.32, 1.82, 0.0028], rel=1e-2)
    first = ranking_report(potential, [3.0, 1.0]).classes[0]
    assert (first.as_leader, first.as_runner_up) == (deltas[0], deltas[2])
    assert first.response > 0.0
    losses = [sm.MatchingLoss(potential)([2.0, other], [3.0, other]) for other in (1.0, 3.0, 5.0)]
    assert losses == pytest.approx([0.591, 0.586, 0.0006], abs=5e-4)
    apart = ranking_report(sm.Separable(sm.Exp().affine(alpha=0.5, gain=0.5)), [3.0, 1.0])
    assert apart.classes[0].as_leader == apart.classes[0].as_runner_up == pytest.approx(1.12, abs=5e-3)
    assert "does not rank" in str(apart)


def test_scores_that_leave_the_domain_are_not_asked_for():
    first = ranking_report(sm.CompositeSoftmax(sm.Log()), [1.0, 3.0, 0.5], margin=2.5).classes[0]
    assert math.isnan(first.as_leader)
    assert first.as_runner_up > 0.0


def test_classes_apart_do_not_rank_where_the_others_cannot_be_moved():
    report = ranking_report(sm.Separable(sm.Logit()), [0.1, 0.9])
    assert math.isnan(report.classes[0].as_leader)
    assert not report.ranks
    assert "does not rank" in str(report)
    assert "costs as much as one of class" in str(report)


def test_a_class_that_is_clipped_costs_nothing():
    text = str(ranking_report(sm.CompositeSoftmax(sm.SmeLU()), [2.0, -4.0]))
    assert "A small move of class 0 costs something, one of class 1 nothing." in text


# ---------------------------------------------------------------------------------------------- claims of the ledger
def test_the_sigmoid_is_flat_outside_and_large_across():
    loss = sm.MatchingLoss(sm.Sigmoid())  # C15
    assert [loss(6.0, 3.0), loss(-6.0, -3.0)] == pytest.approx([0.096] * 2, abs=5e-4)
    assert [loss(0.0, 3.0), loss(-3.0, 3.0)] == pytest.approx([0.502, 2.715], abs=5e-4)


def test_the_shifted_sigmoid_penalises_overestimates_only_below_its_shift():
    # C16: at s = beta it is symmetric, above it reverses
    ratios = []
    for beta in (2.0, 3.0, 4.0, 5.0, 6.0):
        loss = sm.MatchingLoss(sm.Sigmoid().affine(beta=beta))
        ratios.append(loss(5.0, 3.0) / loss(1.0, 3.0))
    assert ratios == pytest.approx([0.59, 1.00, 1.69, 2.53, 3.20], abs=6e-3)
    loss = sm.MatchingLoss(sm.Sigmoid().affine(beta=5.0))
    assert loss(6.0, -3.0) == pytest.approx(1.31, abs=5e-3)
    assert loss(-6.0, -3.0) == pytest.approx(0.0007, abs=5e-5)


@given(beta=st.floats(-6.0, 6.0), t=st.floats(-8.0, 8.0), s=st.floats(-8.0, 8.0))
def test_a_left_shift_mirrors_a_right_shift(beta, t, s):
    # C17
    right, left = (sm.MatchingLoss(sm.Sigmoid().affine(beta=b)) for b in (beta, -beta))
    assert right(t, s) == pytest.approx(left(-t, -s), rel=1e-12, abs=0.0)


@given(z=st.lists(st.floats(-50.0, 50.0), min_size=2, max_size=5))
def test_the_standard_softmax_is_most_sensitive_at_one_half(z):
    # C60: Delta = p (1 - p) <= 1/4
    softmax = sm.CompositeSoftmax()
    p = softmax.prob(np.array(z))
    delta = sensitivity(softmax, z)
    assert delta == pytest.approx(p * (1 - p), rel=1e-9, abs=1e-15)
    assert delta.max() <= 0.25 * (1 + 1e-15)


def test_the_norm_plays_no_role_for_the_standard_softmax():
    softmax = sm.CompositeSoftmax()  # C61
    assert sensitivity(softmax, [0.0, 0.0, 0.0])[0] == pytest.approx(2 / 9)
    assert sensitivity(softmax, [100.0, 100.0, -500.0])[0] == pytest.approx(0.25)


def test_the_softmin_focuses_on_low_scores():
    # C62
    softmin = sm.CompositeSoftmax(sm.Constant(-1.0))
    assert sensitivity(softmin, [3.0, 0.0, -3.0]) == pytest.approx([0.0024, 0.0451, 0.0472], abs=6e-5)
    assert sensitivity(sm.CompositeSoftmax(), [-3.0, 0.0, 3.0]) == pytest.approx(
        sensitivity(softmin, [3.0, 0.0, -3.0]), rel=1e-13
    )


def shares(potential, shift):
    delta = sensitivity(potential, np.array([3.0, 1.0, -1.0]) + shift)
    return delta / delta.sum()


def test_composite_softmax_is_not_shift_invariant():
    # C67: the share of the leader under shifts of -4, 0, 4
    for curve, expected in (
        (sm.Exp().affine(alpha=0.5, gain=0.5), (0.781, 0.957, 1.0)),
        (sm.Sinh().affine(alpha=0.5, gain=0.5), (0.0013, 0.836, 1.0)),
        (sm.Sigmoid(), (0.855, 0.625, 0.496)),
    ):
        found = [shares(sm.CompositeSoftmax(curve), shift)[0] for shift in (-4.0, 0.0, 4.0)]
        assert found == pytest.approx(expected, abs=6e-4)
    standard = [shares(sm.CompositeSoftmax(), shift) for shift in (-4.0, 4.0)]
    assert standard[0] == pytest.approx(standard[1], rel=1e-13, abs=0.0)


@given(
    z=st.lists(st.integers(-16, 16).map(lambda i: i / 4), min_size=2, max_size=5, unique=True), shift=st.floats(-3, 3)
)
def test_exponential_scalings_order_classes_as_their_scores(z, shift):
    # C67: what does survive every shift, when q and q' are >= 0 and increase
    z = np.array(z) + shift
    delta = sensitivity(sm.CompositeSoftmax(sm.Exp().affine(alpha=0.5, gain=0.5)), z)
    assert bool(np.all(np.diff(delta[np.argsort(z)]) >= -1e-15 * delta.max()))


def test_decomposed_exponentials_are_shift_invariant():
    # C68: shares of Delta do not move, the loss grows by e^(alpha c)
    potential = sm.Separable(sm.Exp().affine(alpha=0.5))
    for shift in (-4.0, 0.0, 4.0):
        assert shares(potential, shift) == pytest.approx([0.665, 0.245, 0.090], abs=5e-4)
    loss, s, s_hat = sm.MatchingLoss(potential), np.array([3.0, 1.0, -1.0]), np.array([2.0, 2.0, 0.5])
    assert loss(s_hat + 4.0, s + 4.0) == pytest.approx(math.exp(2.0) * loss(s_hat, s), rel=1e-13, abs=0.0)
