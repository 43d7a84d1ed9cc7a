"""Curves made of curves, against their definitions and against integration with many digits."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import torch
from mpmath import mpf
from references import exact_difference, exact_remainder, formulas

import selmatch as sm
from conftest import LINKS, SMOOTH, points_inside

over = pytest.mark.parametrize
SHAPES = [sm.Sigmoid(), sm.Sinh(), sm.Arctan(), sm.Log(), sm.Arcsin(), sm.SignedPower(3.0), sm.SmeLU(c=1.0), sm.Step()]


def assert_close(got, expected, rtol=1e-13, atol=0.0):
    np.testing.assert_allclose(np.asarray(got), np.asarray(expected), rtol=rtol, atol=atol)


def moves_inside(curve: sm.Curve) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of scores: far apart, near and very near."""
    points = points_inside(curve, 7)
    x, xh = (t.ravel() for t in np.meshgrid(points, points))
    width = points[-1] - points[0]
    return np.concatenate([x, points, points]), np.concatenate([xh, points + 1e-4 * width, points - 1e-9 * width])


def assert_same(got: sm.Curve, expected: sm.Curve, rtol=1e-13, constant=False) -> None:
    """Two curves agree in every respect, up to the constant of the primitive where that is free."""
    x, xh = moves_inside(expected)
    assert_close(got(x), expected(x), rtol, 1e-15)
    assert_close(got.slope(x), expected.slope(x), rtol, 1e-15)
    shift = got.primitive(x[0]) - expected.primitive(x[0]) if constant else 0.0
    assert_close(got.primitive(x), expected.primitive(x) + shift, 10 * rtol, 1e-14)
    assert_close(got.difference(x, xh - x, xh), expected.difference(x, xh - x, xh), rtol, 1e-300)
    assert_close(got.remainder(x, xh - x, xh), expected.remainder(x, xh - x, xh), rtol, 1e-300)


def assert_exact(curve: sm.Curve, rtol=1e-13, points=None) -> None:
    """Difference and remainder agree with many digits."""
    x, xh = moves_inside(curve) if points is None else points
    moves = curve.difference(x, xh - x, xh), curve.remainder(x, xh - x, xh)
    together = curve.remainder_and_difference(x, xh - x, xh)
    assert_close(together[1], moves[0], 1e-15)
    assert_close(together[0], moves[1], 1e-15)
    exact = [
        (exact_difference(curve, a, b), exact_remainder(curve, a, b))
        for a, b in zip(x.tolist(), xh.tolist(), strict=True)
    ]
    for got, true in zip(moves, zip(*exact, strict=True), strict=True):
        assert_close(got, [float(t) for t in true], rtol, 1e-300)


# ------------------------------------------------------------------------------------------------------------- affine


@over("shape", SHAPES, ids=repr)
def test_affine_stretches_shifts_and_scales(shape):
    alpha, beta, gain = 2.0, 0.5, 3.0
    curve = shape.affine(alpha, beta, gain)
    z = beta + points_inside(shape) / alpha
    x = alpha * (z - beta)
    assert_close(curve(z), gain * shape(x))
    assert_close(curve.primitive(z), gain / alpha * shape.primitive(x))
    assert_close(curve.slope(z), gain * alpha * shape.slope(x))
    assert_exact(curve)
    assert curve.increasing is shape.increasing
    assert curve.continuous is shape.continuous
    assert (curve.domain.low, curve.range.high) == (beta + shape.domain.low / alpha, gain * shape.range.high)


@over("shape", [sm.Sigmoid(), sm.Sinh(), sm.Log(), sm.SmeLU()], ids=repr)
def test_affine_of_affine_is_affine(shape):
    nested = shape.affine(alpha=2.0, beta=0.5, gain=3.0).affine(alpha=4.0, beta=-1.0, gain=0.25)
    assert_same(nested, shape.affine(alpha=8.0, beta=-1.0 + 0.5 / 4.0, gain=0.75))


@over("shape", [sm.Sigmoid(), sm.Sinh(), sm.Arctan()], ids=repr)
def test_both_normalisations_of_the_paper(shape):
    alpha, beta = 2.5, -0.75
    main, appendix = shape.affine(alpha, beta), shape.affine(alpha, beta, gain=alpha)
    z = np.linspace(-2.0, 2.0, 5)
    x = alpha * (z - beta)
    assert_close(main(z), shape(x))  # h = g(x), H = G(x) / alpha
    assert_close(main.primitive(z), shape.primitive(x) / alpha)
    assert_close(appendix(z), alpha * shape(x))  # H = G(x)
    assert_close(appendix.primitive(z), shape.primitive(x))
    assert_close(appendix.remainder(z, 0.5 + 0 * z), alpha * main.remainder(z, 0.5 + 0 * z))


def test_affine_keeps_oddness_only_at_the_centre():
    assert sm.Sinh().affine(alpha=2.0, gain=3.0).odd
    assert not sm.Sinh().affine(beta=1.0).odd
    assert not sm.Exp().affine(alpha=2.0).odd


@over("number", [torch.tensor(2.0, dtype=torch.float64, requires_grad=True), jnp.asarray(2.0)], ids=["torch", "jax"])
def test_gradients_flow_through_alpha_beta_and_gain(number):
    def value(alpha, beta, gain):
        curve = sm.Tanh().affine(alpha, beta, gain)
        return curve.remainder(0.25, 0.5) + curve(0.75) + curve.difference(0.25, 0.5)

    step = 1e-6
    for place in range(3):
        numbers = [2.0, 0.5, 1.5]
        up, down = ([n + s * step * (i == place) for i, n in enumerate(numbers)] for s in (1.0, -1.0))
        expected = (value(*up) - value(*down)) / (2 * step)
        if isinstance(number, torch.Tensor):
            leaves = [torch.tensor(n, dtype=torch.float64, requires_grad=True) for n in numbers]
            zero = torch.zeros((), dtype=torch.float64)
            curve = sm.Tanh().affine(*leaves)
            x, u = zero + 0.25, zero + 0.5
            total = curve.remainder(x, u) + curve(zero + 0.75) + curve.difference(x, u)
            got = torch.autograd.grad(total, leaves[place])[0]
        else:
            got = jax.grad(value, argnums=place)(*map(jnp.asarray, numbers))
        assert float(got) == pytest.approx(expected, rel=1e-7)


# ----------------------------------------------------------------------------------------------------- sums, multiples


def test_sums_and_multiples_add_up():
    first, second = sm.Sinh().affine(alpha=0.5), sm.Arctan()
    total = 0.5 * first + second * 2.0 + 3.0
    x, xh = moves_inside(first)
    for method, args in (("slope", (x,)), ("difference", (x, xh - x, xh)), ("remainder", (x, xh - x, xh))):
        parts = (getattr(curve, method)(*args) for curve in (first, second))
        assert_close(getattr(total, method)(*args), np.dot([0.5, 2.0], np.array(list(parts))), 1e-14)
    assert_close(total(x), 0.5 * first(x) + 2.0 * second(x) + 3.0)
    assert_close(total.primitive(x), 0.5 * first.primitive(x) + 2.0 * second.primitive(x) + 3.0 * x)
    assert len(total.curves) == 3
    assert total.increasing is True
    assert not total.odd
    assert (0.5 * first + second).odd
    assert_exact(total)


def test_a_sum_lives_where_all_its_terms_live():
    total = sm.Log() + sm.NegLog1m()
    assert (total.domain.low, total.domain.high) == (0.0, 1.0)
    assert total.domain.open_low
    assert total.domain.open_high
    assert_same(total, sm.Logit(), constant=True)
    with pytest.raises(ValueError, match="Sum: curves must share a part of their domains"):
        _ = (sm.Log() + sm.NegLog1m().affine(beta=-5.0)).domain


def test_the_inverse_of_a_sum_is_found_by_bracketing():
    for total in (
        sm.Identity() + sm.Sinh(),
        sm.Log() + sm.Identity(),
        sm.Tan() + sm.Identity(),
        sm.NegLog1m() + sm.Exp(),
    ):
        x = points_inside(total)
        assert_close(total.inverse(total(x)), x, 1e-13, 1e-15)
        assert_close(total.inverse(float(total(x[2]))), x[2], 1e-13)
    assert (sm.Identity() + sm.Sinh()).inverse(0.0) == 0.0
    assert_close((sm.Sinh() + 2.0).inverse(np.array([2.0, 5.0])), np.arcsinh([0.0, 3.0]))


# ------------------------------------------------------------------------------------------------------------ inverses


PAIRS = [
    (sm.Sigmoid(), sm.Logit()), (sm.Tanh(), sm.Arctanh()), (sm.Sin(), sm.Arcsin()), (sm.Tan(), sm.Arctan()),
    (sm.Sinh(), sm.Arcsinh()), (sm.Exp(), sm.Log()), (sm.Power(2.0), sm.Power(0.5)),
    (sm.SignedPower(4.0), sm.SignedPower(0.25)), (sm.Identity(), sm.Identity()),
]  # fmt: skip


@over(("curve", "other"), PAIRS, ids=repr)
def test_closed_forms_know_their_inverse(curve, other):
    assert curve.inverted() == other
    assert other.inverted() == curve


@over(("curve", "other"), PAIRS, ids=repr)
def test_the_generic_inverse_equals_the_closed_form(curve, other):
    generic = sm.Inverse(curve)
    assert_same(generic, other, 1e-12, constant=True)
    assert generic.inverted() == curve
    assert generic.odd == other.odd
    assert generic.domain == curve.range
    assert generic.range == curve.domain
    x = points_inside(other, 5)
    for move in (1e-3, 1e-7, 1e-12):
        u = np.full(5, move)
        assert_close(generic.difference(x, u), other.difference(x, u), 1e-12)
        assert_close(generic.remainder(x, u), other.remainder(x, u), 1e-12)
        assert_close(generic.difference(float(x[1]), move), other.difference(float(x[1]), move), 1e-12)


def test_a_generic_inverse_of_a_sum_is_exact_for_small_moves_too():
    for curve in (sm.Inverse(sm.Identity() + sm.Sinh()), sm.Inverse(sm.Log() + sm.Identity())):
        x = points_inside(curve, 5)
        for move in (1.0, 1e-3, 1e-7, 1e-12):
            assert_exact(curve, 1e-12, (x, x + move))


def test_affine_and_shifted_curves_can_be_inverted():
    curve = sm.Sigmoid().affine(alpha=2.0, beta=1.5, gain=3.0)
    inverse = curve.inverted()
    z = points_inside(curve)
    assert_close(inverse(curve(z)), z, 1e-12)
    assert_close(inverse.slope(curve(z)), 1.0 / curve.slope(z), 1e-12)


def test_the_inverse_of_a_flat_curve_stays_within_its_ends():
    for curve in (sm.SmeLU(2.0), sm.Huber(1.0), sm.Staircase((0.0, 1.0), (1.0, 2.0)), sm.Sinh().capped(-1.0, 2.0)):
        y = np.linspace(curve.range.low, curve.range.high, 7)
        x = curve.inverse(y)
        assert np.isfinite(x).all()
        assert np.all(np.diff(x) >= 0)
        if curve.continuous:
            assert_close(curve(x), y, 1e-13, 1e-15)


def test_only_increasing_curves_have_an_inverse():
    with pytest.raises(ValueError, match=r"Inverse: curve must be known to increase, got Cosh\(\)\."):
        sm.Cosh().inverted()


# -------------------------------------------------------------------------------------------------------------- capped


FLAT = sm.Constant(1.0)
CAPPED = [
    sm.Sinh().capped(-1.0, 2.0), sm.Exp().capped(high=1.0), sm.AntiExp().capped(low=-1.0),
    sm.Arcsin().capped(-1.0, 1.0), sm.Sin().capped(-1.5, 1.5), sm.Tan().capped(-1.5, 1.5),
    sm.Logit().capped(0.125, 0.875), sm.Logit().capped(high=0.75),
    sm.Log().capped(low=0.25), sm.SignedPower(3.0).capped(0.5, 1.5), sm.Sinh().affine(2.0, 0.5).capped(-1.0, 1.0),
    sm.Cosh().capped(low=0.0), sm.Staircase((0.0, 1.0), (1.0, 1.0)).capped(-0.5, 0.5),
]  # fmt: skip


@over("curve", CAPPED, ids=repr)
def test_capping_clips_the_score(curve):
    low = -math.inf if curve.low is None else curve.low
    high = math.inf if curve.high is None else curve.high
    x = points_inside(curve, 21)
    assert_close(curve(x), curve.curve(np.clip(x, low, high)), 1e-15)
    inside = (x >= low) & (x <= high)
    assert_close(curve.slope(x), np.where(inside, curve.curve.slope(np.where(inside, x, curve.point())), 0.0))
    assert curve.increasing is True
    assert_exact(curve)


def test_caps_bound_losses_and_extend_domains():
    curve = sm.Logit().capped(0.125, 0.875)
    assert not curve.domain.bounded
    assert_close(curve.difference(np.array([-1e300]), np.array([2e300])), 2 * np.log(7.0))
    half_open = sm.Logit().capped(high=0.75)
    assert (half_open.domain.low, half_open.domain.high) == (0.0, math.inf)
    with np.errstate(all="ignore"):
        assert_close(half_open.remainder(np.array([0.5]), np.array([-0.5])), np.log(2.0))  # at the open end


@over(
    ("build", "message"),
    [
        (lambda: sm.Logit().capped(0.0, 0.5), "Capped: low must lie in (0, 1), the domain of Logit(), got 0.0."),
        (lambda: sm.Tan().capped(high=2), "Capped: high must lie in (-1.5708, 1.5708), the domain of Tan(), got 2.0."),
        (lambda: sm.Sinh().capped(), "Capped: low or high must be given, got None for both."),
        (lambda: sm.Sinh().capped(1.0, 1.0), "Capped: high must be > low = 1.0, got 1.0."),
        (lambda: sm.Sinh().capped(low=math.nan), "Capped: low must be finite, got nan."),
        (lambda: sm.Sinh().affine(alpha=0), "Affine: alpha must be > 0, got 0.0."),
        (lambda: sm.Sinh().affine(alpha=-1), "Affine: alpha must be > 0, got -1.0."),
        (lambda: sm.Sinh().affine(gain=0), "Affine: gain must be > 0, got 0.0."),
        (lambda: sm.Sinh().affine(beta=math.inf), "Affine: beta must be finite, got inf."),
        (lambda: -1.0 * sm.Sinh(), "Affine: gain must be > 0, got -1.0."),
        (lambda: sm.Piecewise((0, 1, 2), (FLAT, sm.Constant(0.0))), "must not fall at a knot, got a fall by 1 at 1.0."),
        (lambda: sm.Piecewise((0, 1), (FLAT, FLAT)), "pieces must have one entry per segment (1), got 2."),
        (lambda: sm.Piecewise((1.0, 0.0), (sm.Identity(),)), "knots must be strictly increasing, got (1.0, 0.0)."),
        (lambda: sm.Piecewise((0.0,), ()), "Piecewise: knots must have at least 2 entries, got 1."),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_wrong_numbers_are_named(build, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the message is compared below)
        build()
    assert message in str(caught.value)


@over(
    ("build", "message"),
    [
        (lambda: sm.Affine(sm.Sinh), "Affine: curve must be a curve, got <class 'selmatch.curves.Sinh'>. Try Sinh()."),
        (lambda: sm.Affine(3.0), "Affine: curve must be a curve, got 3.0."),
        (lambda: sm.Sinh().affine(alpha="2"), "Affine: alpha must be a number, got '2'."),
        (lambda: sm.Sum(sm.Sinh()), "Sum: curves must be a non-empty sequence of curves, got Sinh()."),
        (lambda: sm.Sum((sm.Sinh(), 1.0)), "Sum: each term must be a curve, got 1.0."),
        (lambda: sm.Piecewise((0.0, 1.0), (1.0,)), "Piecewise: each piece must be a curve, got 1.0."),
        (lambda: sm.Inverse(1.0), "Inverse: curve must be a curve, got 1.0."),
        (lambda: sm.FromLink(1.0), "FromLink: function must be callable, got 1.0."),
        (lambda: sm.FromPrimitive(1.0), "FromPrimitive: of must be a curve or a function, got 1.0."),
        (lambda: sm.Sinh() * sm.Sinh(), "unsupported operand"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_types_are_named(build, message):
    with pytest.raises(TypeError) as caught:
        build()
    assert message in str(caught.value)


def test_numpy_numbers_become_python_floats():
    curve = sm.Sinh().affine(np.float64(2), np.int32(1), np.float32(0.5)).capped(np.float64(-1), 2)
    assert all(type(v) is float for v in (curve.curve.alpha, curve.curve.beta, curve.curve.gain, curve.low, curve.high))
    x = np.ones(3, np.float32)
    assert curve.remainder(x, x).dtype == curve.difference(x, x).dtype == curve.inverse(x).dtype == np.float32


# ----------------------------------------------------------------------------------------------------------- piecewise


PIECEWISE = [
    sm.Piecewise((0.0, 1.0, 3.0), (sm.Identity(), sm.Polynomial((1.0, 5.0), origin=1.0))),
    sm.Piecewise((-1.0, 0.0, 2.0), (sm.Constant(-1.0), sm.Constant(2.0))),
    sm.Piecewise((-1.0, 0.5, 2.0), (sm.Polynomial((0.0, 0.0, 0.0, 1.0), -1.0), sm.Polynomial((4.0, 0.5), 0.5))),
    sm.Piecewise((-2.0, -1.0, 1.0, 2.5), (sm.Constant(-3.0), sm.Sinh(), sm.Polynomial((1.5, 0.0, 0.25), 1.0))),
    sm.Piecewise((0.5, 1.0, 2.0), (sm.Log(), sm.Exp().affine(alpha=0.5))),
    sm.Piecewise((0.0, 1.0, 2.0), (sm.Constant(0.0), sm.Polynomial((0.0, 0.0, 1.0), 1.0))),
]  # fmt: skip


@over("curve", PIECEWISE, ids=repr)
def test_piecewise_links_agree_with_integration(curve):
    knots = np.array(curve.knots)
    points = np.sort(np.concatenate([knots, 0.5 * (knots[1:] + knots[:-1]) + 0.01, [knots[0] - 1.0, knots[-1] + 2.0]]))
    x, xh = (t.ravel() for t in np.meshgrid(points, points))
    value = formulas(curve)[0]
    got = curve.remainder(x, xh - x, xh)
    for a, b, loss in zip(x.tolist(), xh.tolist(), got.tolist(), strict=True):
        path = sorted({mpf(a), mpf(b), *(mpf(t) for t in curve.knots if min(a, b) < t < max(a, b))}, reverse=b < a)
        true = mpmath.quad(lambda t, a=a: value(t) - value(mpf(a)), path) if a != b else 0
        assert loss == pytest.approx(float(true), rel=1e-12, abs=1e-14)
        assert loss >= 0
    assert_close(curve.difference(x, xh - x, xh), curve(xh) - curve(x), 1e-13, 1e-14)


@over("curve", PIECEWISE, ids=repr)
def test_piecewise_links_are_exact_and_increase(curve):
    x = points_inside(curve, 13)
    assert_exact(curve, points=(np.concatenate([x, x]), np.concatenate([x[::-1], x + 1e-7])))
    assert curve.increasing is True
    flat = np.array([curve.knots[0] - 3.0, curve.knots[-1] + 3.0])
    assert_close(curve.slope(flat), [0.0, 0.0])
    assert_close(curve(flat), [curve.range.low, curve.range.high], 1e-14)
    rising = x[curve.slope(x) > 0.0]
    assert_close(curve.inverse(curve(rising)), rising, 1e-12, 1e-14)
    assert type(curve.inverse(float(curve(x[3])))) is float


def test_a_piecewise_link_with_falling_pieces_says_so():
    assert sm.Piecewise((0.0, 1.0), (sm.Polynomial((0.0, -1.0)),)).increasing is False
    assert sm.Piecewise((1.0, 2.0), (sm.Cosh(),)).increasing is True  # cosh rises there
    assert sm.Piecewise((-1.0, 2.0), (sm.Cosh(),)).increasing is False


def test_polynomials_know_where_they_increase():
    cubic = sm.Polynomial((0.0, 0.0, 0.0, 1.0))
    assert cubic.increasing is True
    assert cubic.odd
    assert sm.Polynomial((1.0, 0.0, 1.0)).increasing is False
    assert sm.Polynomial((1.0, 0.0, 1.0)).increases_on(0.0, 5.0) is True
    assert sm.Polynomial((1.0, 0.0, 1.0), origin=2.0).increases_on(0.0, 5.0) is False
    assert sm.Polynomial((0.0, 1.0, -1.0, 1 / 3)).increasing is True  # the slope (x - 1)^2 touches 0
    assert sm.Polynomial((0.0, 1.0, -1.01, 1 / 3)).increasing is False
    assert sm.Polynomial((7.0,)).increasing is True


# -------------------------------------------------------------------------------- from Q to q, and curves from formulas


@over("curve", [c for c in SMOOTH if not isinstance(c, sm.Inverse)], ids=repr)
def test_the_derived_curve_has_the_curve_as_its_primitive(curve):
    derived = curve.derived()
    x = points_inside(curve)
    assert_close(derived(x), curve.slope(x), 1e-12, 1e-15)
    assert_close(np.diff(derived.primitive(x)), np.diff(curve(x)), 1e-12, 1e-14)


def test_derived_curves_know_closed_forms():
    assert sm.Sinh().derived() == sm.Cosh()
    assert sm.Cosh().derived() == sm.Sinh()
    assert sm.Exp().derived() == sm.Exp()
    assert sm.Identity().derived() == sm.Constant()
    assert sm.ReLU().derived() == sm.Step()
    assert sm.Polynomial((1.0, 2.0, 3.0)).derived() == sm.Polynomial((2.0, 6.0))
    assert sm.Sinh().affine(2.0, 1.0, 0.5).derived() == sm.Cosh().affine(2.0, 1.0, 1.0)


def test_a_scaling_from_its_primitive_or_score_transform():
    f = sm.functions
    for made in (sm.FromPrimitive(f.softplus), sm.FromScoreTransform(lambda z: 1.0 + f.exp(z))):
        x, xh = moves_inside(sm.Sigmoid())
        assert_close(made(x), sm.Sigmoid()(x), 1e-13)
        assert_close(made.primitive(x), sm.Sigmoid().primitive(x), 1e-13)
        assert_close(made.slope(x), sm.Sigmoid().slope(x), 1e-12)
        assert_close(made.difference(x, xh - x, xh), sm.Sigmoid().difference(x, xh - x, xh), 1e-11)
        assert_close(made.remainder(x, xh - x, xh), sm.Sigmoid().remainder(x, xh - x, xh), 1e-11)
        assert_close(made.score_transform(x), 1.0 + np.exp(x), 1e-13)


def test_a_link_from_a_formula():
    made = sm.FromLink(lambda z: z + sm.functions.tanh(z))
    assert_same(made, sm.Identity() + sm.Tanh(), 1e-12, constant=True)
    assert made.increasing is None
    x = torch.linspace(-2.0, 2.0, 5, dtype=torch.float64)
    assert_close(made.slope(x), (sm.Identity() + sm.Tanh()).slope(x), 1e-13)


@over("curve", LINKS, ids=repr)
def test_every_link_can_be_composed_and_written_back(curve):
    made = (0.5 * curve.affine(alpha=2.0, beta=0.25)) + sm.Identity()
    assert eval(repr(made), vars(sm)) == made
    assert hash(eval(repr(made), vars(sm))) == hash(made)
    assert (made.increasing is True) == (curve.increasing is True)


class Kinked(sm.Curve):
    """Only a formula, with a kink."""

    def __call__(self, x):
        return x + sm.functions.maximum(x, 0.5)


@pytest.mark.parametrize(
    ("curve", "places", "primitive", "link"),
    [
        (
            Kinked(),
            (0.5,),
            lambda z: z * z / 2 + (0.5 * z if z < 0.5 else z * z / 2 + 0.125),
            lambda z: z + max(z, 0.5),
        ),
        (
            sm.FromLink(lambda z: 2.0 * z + sm.functions.abs(z - 0.3) + sm.functions.where(z > 1.0, 0.5, 0.0)),
            (0.3, 1.0),
            lambda z: z * z + (z - 0.3) * abs(z - 0.3) / 2 + 0.5 * max(z - 1.0, 0.0),
            lambda z: 2.0 * z + abs(z - 0.3) + 0.5 * (z > 1.0),
        ),
    ],
)
@pytest.mark.parametrize("library", [np.asarray, torch.DoubleTensor])
def test_kinks_and_jumps_of_a_formula_of_a_user_are_found(curve, places, primitive, link, library):
    """Gauss nodes on the slope alone miss jumps, and are a percent off across kinks."""
    loss = sm.MatchingLoss(curve)
    assert curve.breaks == places
    for s_hat, s in ((2.0, -1.0), (-1.0, 2.0), (0.2, 0.9), (1.5, 0.4), (0.5, 0.3)):
        value, gradient = loss.value_and_grad(library([s_hat]), library([s]))
        exact = primitive(s_hat) - primitive(s) - (s_hat - s) * link(s)
        assert float(value[0]) == pytest.approx(exact, rel=1e-12)
        assert float(gradient[0]) == pytest.approx(link(s_hat) - link(s), rel=1e-12)
