"""Drawn links: exact against rational arithmetic, on every array library, at knots and jumps too."""

from __future__ import annotations

import itertools
import math
import pickle
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import selmatch as sm
from selmatch.arrays.dual import derivative
from selmatch.drawing import FromSensitivity

over = pytest.mark.parametrize
DRAWINGS = [
    FromSensitivity((0.0, 2.0, 5.0), (0.1, 1.0, 0.4)),
    FromSensitivity((-3.0, -1.0, -1.0, 0.5, 2.0), (0.0, 1.0, 0.2, 0.0, 0.0)),
    FromSensitivity((1.0, 1.0), (0.0, 2.0)),
    FromSensitivity((-2.0, -1.0, 1.0, 2.0), (0.25, 3.0, 3.0, 0.25)),
    FromSensitivity((99.0, 100.0, 101.0, 104.0), (0.0, 1.0, 0.0, 0.0)),
    FromSensitivity((0.0, 2.0, 5.0), (0.1, 1.0, 0.4), smooth=True),
    FromSensitivity((-4.0, -1.5, -1.0, -1.0, 0.5, 0.75, 3.0), (0.0, 0.2, 1.0, 0.5, 0.6, 2.0, 0.0), smooth=True),
]  # fmt: skip


# --------------------------------------------------------------------------------------------- the exact reference


def bernstein(curve: FromSensitivity, i: int) -> list[Fraction]:
    """Bernstein coefficients of the sensitivity between knots i and i + 1, by the rule of the harmonic mean."""
    knots, values = [Fraction(t) for t in curve.knots], [Fraction(v) for v in curve.values]
    if not curve.smooth:
        return [values[i], values[i + 1]]

    def rise(j: int) -> Fraction:
        if j in (0, len(knots) - 1) or knots[j] in (knots[j - 1], knots[j + 1]):
            return Fraction(0)
        a, b = knots[j] - knots[j - 1], knots[j + 1] - knots[j]
        left, right = (values[j] - values[j - 1]) / a, (values[j + 1] - values[j]) / b
        return 3 * (a + b) / ((2 * b + a) / left + (b + 2 * a) / right) if left * right > 0 else Fraction(0)

    third = (knots[i + 1] - knots[i]) / 3
    return [values[i], values[i] + third * rise(i), values[i + 1] - third * rise(i + 1), values[i + 1]]


def powers(coefficients: list[Fraction], low: Fraction, high: Fraction) -> list[Fraction]:
    """Coefficients of a Bernstein polynomial on [low, high], in powers of t - low."""
    d = len(coefficients) - 1
    forward = [
        sum((-1) ** (k - j) * math.comb(k, j) * coefficients[j] for j in range(k + 1)) * math.comb(d, k)
        for k in range(d + 1)
    ]
    return [c / (high - low) ** k for k, c in enumerate(forward)]


class Exact:
    """The sensitivity as polynomials with rational coefficients, integrated term by term."""

    def __init__(self, curve: FromSensitivity) -> None:
        knots = [Fraction(t) for t in curve.knots]
        huge = Fraction(10) ** 12
        self.pieces = [(-huge, knots[0], [Fraction(curve.values[0])])]
        for i, (low, high) in enumerate(itertools.pairwise(knots)):
            if low < high:
                self.pieces.append((low, high, powers(bernstein(curve, i), low, high)))
        self.pieces.append((knots[-1], huge, [Fraction(curve.values[-1])]))

    def _integral(self, x: float, xh: float, falling: bool) -> Fraction:
        """The integral of h'(t), or of (xh - t) h'(t), from x to xh."""
        start, stop = Fraction(x), Fraction(xh)
        total = Fraction(0)
        for low, high, c in self.pieces:
            a, b = max(min(start, stop), low), min(max(start, stop), high)
            if a < b:
                c = [*c, Fraction(0)]
                if falling:
                    c = [(stop - low) * p - q for p, q in zip(c, [Fraction(0), *c], strict=False)]
                total += sum(v * ((b - low) ** (k + 1) - (a - low) ** (k + 1)) / (k + 1) for k, v in enumerate(c))
        return total if start <= stop else -total

    def difference(self, x: float, xh: float) -> Fraction:
        return self._integral(x, xh, falling=False)

    def remainder(self, x: float, xh: float) -> Fraction:
        return self._integral(x, xh, falling=True)


def assert_exact(got: float, expected: Fraction, rtol: float) -> None:
    error = abs(Fraction(float(got)) - expected)
    tiny = 1e-300 if rtol < 1e-9 else 1e-37  # below the smallest normal numbers
    assert error <= Fraction(rtol) * abs(expected) + Fraction(tiny), (got, float(expected))


def points(curve: FromSensitivity) -> list[float]:
    """Knots, their neighbours, points between and far away, and 0."""
    inner = [t for k in curve.knots for t in (k, np.nextafter(k, -9e9), np.nextafter(k, 9e9), k + 1e-9, k - 0.3)]
    return sorted({0.0, -50.0, 1e4, *(float(t) for t in inner)})


@over("curve", DRAWINGS, ids=repr)
def test_difference_and_remainder_are_exact(curve):
    exact = Exact(curve)
    x, xh = map(np.array, zip(*itertools.product(points(curve), repeat=2), strict=True))
    got = curve.difference(x, xh - x, xh), curve.remainder(x, xh - x, xh)
    both = curve.remainder_and_difference(x, xh - x, xh)
    for i, (a, b) in enumerate(zip(x.tolist(), xh.tolist(), strict=True)):
        assert_exact(got[0][i], exact.difference(a, b), 1e-14)
        assert_exact(got[1][i], exact.remainder(a, b), 1e-14)
    assert np.array_equal(both[0], got[1])
    assert np.array_equal(both[1], got[0])
    assert np.all(got[1] >= 0)


@over("curve", DRAWINGS, ids=repr)
def test_single_precision(curve):
    exact = Exact(curve)  # the knots above are numbers of single precision
    grid = np.array([float(np.float32(z)) for z in points(curve)])
    x, xh = (a.astype(np.float32) for a in map(np.array, zip(*itertools.product(grid, repeat=2), strict=True)))
    rest, move = curve.remainder_and_difference(x, xh - x, xh)
    assert rest.dtype == move.dtype == curve.slope(x).dtype == curve.inverse(x).dtype == np.float32
    assert np.all(rest >= 0)
    single = FromSensitivity(curve.knots, tuple(float(np.float32(v)) for v in curve.values), curve.smooth)
    exact = Exact(single)
    for i, (a, b) in enumerate(zip(x.tolist(), xh.tolist(), strict=True)):
        assert_exact(move[i], exact.difference(a, b), 1e-6)
        assert_exact(rest[i], exact.remainder(a, b), 1e-6)


@st.composite
def drawings(draw):
    knots = sorted(draw(st.lists(st.integers(-64, 64), min_size=2, max_size=6)))
    knots = [t for i, t in enumerate(knots) if knots[i - 2 : i] != [t, t]]
    height = st.one_of(st.just(0.0), st.floats(1e-3, 1e3))
    values = draw(st.lists(height, min_size=len(knots), max_size=len(knots)).filter(any))
    return FromSensitivity(tuple(t / 8 for t in knots), tuple(values), draw(st.booleans()))


scores = st.one_of(st.floats(-12.0, 12.0), st.integers(-64, 64).map(lambda t: t / 8))


@given(curve=drawings(), s=scores, s_hat=scores)
def test_any_drawing_gives_a_divergence(curve, s, s_hat):
    loss, exact = sm.MatchingLoss(curve), Exact(curve)
    assert loss(s, s) == 0.0
    assert loss(s_hat, s) >= 0.0
    assert_exact(loss(s_hat, s), exact.remainder(s, s_hat), 1e-13)
    assert_exact(loss.grad(s_hat, s), exact.difference(s, s_hat), 1e-13)
    assert_exact(curve(s), exact.difference(0.0, s), 1e-13)
    assert_exact(curve.primitive(s), exact.remainder(0.0, s), 1e-13)
    assert curve.slope(s) >= 0.0


@given(curve=drawings(), x=scores)
def test_the_inverse_inverts(curve, x):
    y = curve(x)
    back = curve.inverse(y)
    assert curve(back) == pytest.approx(y, rel=1e-13, abs=1e-13 * max(curve.values))
    if curve.slope(x) > 1e-2 * max(curve.values) and back != pytest.approx(x, rel=1e-9, abs=1e-9):
        # only where a flat piece begins or ends
        assert curve.difference(min(x, back), abs(x - back)) <= 1e-12 * max(curve.values)


# ------------------------------------------------------------------------------------------------ shape and slopes


@over("curve", DRAWINGS, ids=repr)
def test_the_sensitivity_runs_through_the_values(curve):
    for i, t in enumerate(curve.knots):
        twins = [v for k, v in zip(curve.knots, curve.values, strict=True) if k == t]
        assert curve.slope(t) == max(twins)
        if i > 0 and curve.knots[i - 1] == t:
            sides = curve.slope(np.array([t - 1e-12, t + 1e-12]))
            np.testing.assert_allclose(sides, [curve.values[i - 1], curve.values[i]], atol=1e-10)
    assert curve.slope(-1e6) == curve.values[0]
    assert curve.slope(1e6) == curve.values[-1]
    for a, b in itertools.pairwise(range(len(curve.knots))):
        inside = curve.slope(np.linspace(curve.knots[a], curve.knots[b], 50)[1:-1])
        if curve.knots[a] < curve.knots[b]:
            low, high = sorted((curve.values[a], curve.values[b]))
            assert np.all((inside >= low * (1 - 1e-15)) & (inside <= high * (1 + 1e-15)))
            steps = np.diff(inside) * np.sign(curve.values[b] - curve.values[a])
            assert np.all(steps >= -1e-15 * high)


def test_smooth_drawings_have_no_corners():
    curve = DRAWINGS[-2]
    for t in curve.knots:
        sides = [derivative(curve.slope, t + side) for side in (-1e-9, 1e-9)]
        assert sides[0] == pytest.approx(sides[1], abs=1e-7)
    t = np.linspace(0.0, 1.0, 11)
    np.testing.assert_allclose(FromSensitivity((0, 1), (0, 1), smooth=True).slope(t), t * t * (3 - 2 * t), rtol=1e-14)


def test_smooth_drawings_keep_straight_lines():
    curve = FromSensitivity((0, 1, 3, 4, 6), (0, 1, 3, 4, 6), smooth=True)
    z = np.linspace(1.0, 4.0, 31)
    np.testing.assert_allclose(curve.slope(z), z, rtol=1e-14)


@over("curve", DRAWINGS, ids=repr)
def test_dual_numbers_agree(curve):
    z = np.array([t for t in np.linspace(-5.03, 6.0, 23) if t not in curve.knots] + [100.25])
    np.testing.assert_allclose(derivative(curve.primitive, z), curve(z), rtol=1e-13)
    np.testing.assert_allclose(derivative(curve, z), curve.slope(z), rtol=1e-13, atol=1e-15)


@over("curve", DRAWINGS, ids=repr)
def test_gradients_at_knots(curve):
    xh, x = map(np.array, zip(*itertools.product((*curve.knots, 0.3), (*curve.knots, -7.0)), strict=True))
    s, s_hat = torch.tensor(x), torch.tensor(xh, requires_grad=True)
    (gradient,) = torch.autograd.grad(sm.MatchingLoss(curve)(s_hat, s, reduction="sum"), s_hat)
    np.testing.assert_allclose(gradient, curve.difference(x, xh - x, xh), rtol=1e-13, atol=1e-14)
    continuous = np.array([curve.knots.count(t) < 2 for t in xh])
    (second,) = torch.autograd.grad(curve.difference(s, s_hat - s, s_hat).sum(), s_hat)
    np.testing.assert_allclose(second[continuous], curve.slope(xh)[continuous], rtol=1e-13, atol=1e-14)
    y = torch.tensor(curve(xh), requires_grad=True)
    (backward,) = torch.autograd.grad(curve.inverse(y).sum(), y)
    usual = continuous & (curve.slope(xh) > 0)
    np.testing.assert_allclose(backward[usual], 1 / curve.slope(xh)[usual], rtol=1e-12)


def test_libraries_agree(array):
    curve = DRAWINGS[-1]
    x, xh = np.linspace(-6, 5, 12), np.linspace(4.7, -5.5, 12)
    for method in ("__call__", "primitive", "slope", "inverse"):
        got = getattr(curve, method)(array(x))
        np.testing.assert_allclose(np.asarray(got), getattr(curve, method)(x), rtol=1e-13, atol=1e-15)
    got = curve.remainder(array(x), array(xh - x), array(xh))
    np.testing.assert_allclose(np.asarray(got), curve.remainder(x, xh - x, xh), rtol=1e-13)
    assert all(isinstance(f(0.7), float) for f in (curve, curve.primitive, curve.slope, curve.inverse))


def test_jax_compiles_and_rebuilds():
    curve = DRAWINGS[1]
    z = jnp.linspace(-4.0, 3.0, 8)
    value = jax.jit(lambda c, z: c.remainder(0.3, z - 0.3, z))(curve, z)
    np.testing.assert_allclose(value, curve.remainder(0.3, np.asarray(z) - 0.3, np.asarray(z)), rtol=1e-13)
    np.testing.assert_allclose(jax.vmap(jax.grad(curve))(z + 0.1), curve.slope(np.asarray(z) + 0.1), rtol=1e-13)


def test_not_a_number_stays():
    for curve in DRAWINGS:
        assert math.isnan(curve.slope(math.nan))
        assert math.isnan(curve.remainder(0.0, math.nan, math.nan))
        assert np.isnan(curve(np.array([math.nan]))).all()


# ----------------------------------------------------------------------------------------------------- as a curve


def test_inverse_of_flat_pieces_and_near_zero():
    curve = FromSensitivity((-1.0, 0.0, 0.0, 2.0, 2.0, 3.0), (1.0, 1.0, 0.0, 0.0, 1.0, 0.0))
    assert curve.inverse(0.0) in (0.0, 2.0)
    assert curve.inverse(0.125) == pytest.approx(2.0 + (1 - math.sqrt(0.75)), rel=1e-14)
    assert curve.inverse(9.0) == 3.0
    assert FromSensitivity((0.0, 0.0), (0.0, 1.0)).inverse(-1.0) == 0.0
    tiny = np.array([-1e-300, -1e-20, 1e-20, 1e-9])
    steep = FromSensitivity((-3.0, 5.0), (0.5, 2.5))
    np.testing.assert_allclose(steep.inverse(tiny) * 1.25, tiny, rtol=1e-8)
    np.testing.assert_allclose(steep(steep.inverse(tiny)), tiny, rtol=1e-14)


def test_what_a_drawing_knows_of_itself():
    first, partly, step, trapezoid, away, *_ = DRAWINGS
    assert all(curve.increasing is True and curve.continuous for curve in DRAWINGS)
    assert first.range == sm.Interval()
    assert partly.range == sm.Interval(float(partly(-3.0)), float(partly(0.5)))
    assert step.range == sm.Interval(0.0, math.inf)
    assert partly.flat_regions() == (sm.Interval(high=-3.0), sm.Interval(low=0.5))
    assert trapezoid.flat_regions() == ()
    assert (trapezoid.odd, trapezoid.centre, first.odd, first.centre) == (True, 0.0, False, None)
    shifted = FromSensitivity((1.0, 2.0, 4.0, 5.0), (0.0, 1.0, 1.0, 0.0))
    assert (shifted.odd, shifted.centre) == (False, 3.0)
    assert away.scale == 1.0
    for curve in DRAWINGS:
        low, high = curve.window()
        assert low < curve.knots[0] <= curve.point() <= curve.knots[-1] < high
        assert pickle.loads(pickle.dumps(curve)) == curve
        assert hash(FromSensitivity(list(curve.knots), np.array(curve.values), curve.smooth)) == hash(curve)
        assert eval(repr(curve)) == curve


def test_equal_to_known_curves():
    z, s = np.linspace(-3, 3, 13), np.linspace(2.5, -3.5, 13)
    for drawn, known in (
        (FromSensitivity((0, 1), (1, 1)), sm.Identity()),
        (FromSensitivity((0, 0), (0, 1)), sm.ReLU()),
        (FromSensitivity((-1, -1, 1, 1), (0, 1, 1, 0)), sm.Huber()),
    ):
        np.testing.assert_allclose(drawn.remainder(s, z - s, z), known.remainder(s, z - s, z), rtol=1e-15)
        np.testing.assert_allclose(drawn(z), known(z), rtol=1e-15)


def test_parts_of_other_curves():
    curve, s, s_hat = DRAWINGS[3], np.array([0.3, -1.7, 2.5]), np.array([1.2, -1.1, 0.4])
    stretched = curve.affine(alpha=2.0, beta=1.0, gain=0.5)
    moved = FromSensitivity(tuple(t / 2 + 1 for t in curve.knots), curve.values)
    np.testing.assert_allclose(
        sm.MatchingLoss(stretched)(s_hat, s, reduction="none"),
        sm.MatchingLoss(moved)(s_hat, s, reduction="none"),
        rtol=1e-14,
    )
    softmax = sm.MatchingLoss(sm.CompositeSoftmax(curve + 1.5, gamma=0.7))
    h = softmax.potential.primitive
    naive = h(s_hat) - h(s) - (s_hat - s) @ softmax.potential.link(s)
    assert softmax(s_hat, s) == pytest.approx(naive, rel=1e-12)
    assert sm.MatchingLoss(curve).minimiser([-1.5, 0.0, 4.0]) == pytest.approx(
        curve.inverse(np.mean(curve(np.array([-1.5, 0.0, 4.0])))), rel=1e-14
    )


@over(
    ("knots", "values", "message"),
    [
        ((0.0,), (1.0,), "knots must have at least 2 entries, got 1"),
        ((0.0, 1.0), (1.0,), r"values must have one entry per knot \(2\), got 1"),
        ((1.0, 0.0), (1.0, 1.0), "knots must not decrease, got 0.0 after 1.0. Sort"),
        ((0.0, 0.0, 0.0), (1.0, 2.0, 3.0), "knots must not repeat more than once, got 0.0 three times"),
        ((0.0, 1.0), (0.0, 0.0), "values must not all be 0"),
        ((0.0, 1.0), (1.0, -1.0), r"values\[1\] must be >= 0, got -1.0"),
        ((0.0, math.nan), (1.0, 1.0), r"knots\[1\] must be finite"),
        ((0.0, 1e200), (1.0, 1.0), "values times squared knots must be finite"),
    ],
)
def test_errors(knots, values, message):
    with pytest.raises(ValueError, match="^FromSensitivity: " + message):
        FromSensitivity(knots, values)
    with pytest.raises(TypeError, match=r"^FromSensitivity: knots must be a sequence of numbers, got 'ab'"):
        FromSensitivity("ab", values)  # type: ignore[arg-type]
