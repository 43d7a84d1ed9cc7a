"""What is true of every curve, on every array library, at ordinary scores and at extreme ones."""

from __future__ import annotations

import copy
import math
import pickle
from dataclasses import dataclass

import array_api_strict
import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mpf
from references import exact_difference, exact_primitive, exact_remainder, exact_value, formulas, kinks

import selmatch as sm
from conftest import CURVES, JUMPING, LINKS, SCALINGS, points_inside
from selmatch.arrays.dual import derivative

COMPOSITE = [curve for curve in CURVES if isinstance(curve, sm.CompositeSigmoid)]
NOT_CONVEX = [curve for curve in COMPOSITE if not curve.scaling.increasing]
over = pytest.mark.parametrize
METHODS = ("__call__", "primitive", "slope", "difference", "remainder")


def assert_close(got, expected, rtol=1e-13, atol=0.0):
    np.testing.assert_allclose(np.asarray(got), np.asarray(expected), rtol=rtol, atol=atol)


def special_points(curve: sm.Curve) -> np.ndarray:
    """Where formulas branch (0, and pairs 1 and 2 apart), with others, inside the domain."""
    points = np.array([0.0, -0.5, 0.5, 1.0, -1.0, 2.0, -2.0, *points_inside(curve, 4)])
    with np.errstate(all="ignore"):
        inside = points[curve.holds(points, interior=True) & np.isfinite(curve.slope(points))]
    return np.resize(inside, len(points))  # JAX compiles for each shape


def smooth_points(curve: sm.Curve) -> np.ndarray:
    points = special_points(curve)
    return np.resize(points[~np.isin(points, kinks(curve))], len(points))


def pairs(points_x: np.ndarray, points_xh: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    x, xh = np.meshgrid(points_x, points_xh)
    return x.ravel(), xh.ravel()


def torch_gradient(values: torch.Tensor, x: torch.Tensor) -> np.ndarray:
    """The gradient of the sum; 0 where nothing depends on x."""
    if not values.requires_grad:
        return np.zeros(x.shape)
    (gradient,) = torch.autograd.grad(values.sum(), x, allow_unused=True, materialize_grads=True)
    return gradient.numpy(force=True)


def jax_gradient(function, *args: np.ndarray) -> np.ndarray:
    """The gradient of the sum with respect to the first argument."""
    return np.asarray(jax.grad(lambda *a: function(*a).sum())(*map(jnp.asarray, args)))


def call(curve: sm.Curve, method: str, x, u):
    return getattr(curve, method)(x, u) if method in ("difference", "remainder") else getattr(curve, method)(x)


# ------------------------------------------------------------------------------------------------------- derivatives


@over("curve", CURVES, ids=repr)
def test_the_curve_is_the_derivative_of_its_primitive(curve, array):
    x = array(points_inside(curve))
    assert_close(derivative(curve.primitive, x), curve(x), rtol=1e-13, atol=1e-14)


@over("curve", CURVES, ids=repr)
def test_the_slope_is_the_derivative_of_the_curve(curve, array):
    x = array(points_inside(curve))
    assert_close(derivative(curve, x), curve.slope(x), rtol=1e-12, atol=1e-15)


@over("curve", CURVES, ids=repr)
def test_values_on_floats_equal_those_on_arrays(curve):
    points = points_inside(curve, 5)
    with np.errstate(all="ignore"):
        for method in METHODS:
            on_array = call(curve, method, points, 0.01 + 0.0 * points)
            on_floats = [call(curve, method, x, 0.01) for x in points.tolist()]
            assert all(type(value) is float for value in on_floats), method
            assert_close(on_floats, on_array, rtol=1e-14)


@over("curve", CURVES, ids=repr)
def test_autodiff_of_value_and_primitive_is_exact_also_where_formulas_branch(curve):
    points = special_points(curve) if curve.continuous else smooth_points(curve)
    x = torch.tensor(points, requires_grad=True)
    assert_close(torch_gradient(curve.primitive(x), x), curve(points), rtol=1e-13, atol=1e-15)
    assert_close(jax_gradient(curve.primitive, points), curve(points), rtol=1e-13, atol=1e-15)
    x, points = torch.tensor(smooth_points(curve), requires_grad=True), smooth_points(curve)
    assert_close(torch_gradient(curve(x), x), curve.slope(points), rtol=1e-12, atol=1e-15)
    assert_close(jax_gradient(curve, points), curve.slope(points), rtol=1e-12, atol=1e-15)


@over("curve", CURVES, ids=repr)
def test_the_gradient_of_the_remainder_is_the_difference_also_where_formulas_branch(curve):
    # at a jump there is no gradient; at a kink there is
    points = smooth_points(curve) if curve in JUMPING or not curve.continuous else special_points(curve)
    x, xh = pairs(points, points)
    expected = curve.difference(x, xh - x, xh)
    y, yh = torch.tensor(x), torch.tensor(xh, requires_grad=True)
    assert_close(torch_gradient(curve.remainder(y, yh - y, yh), yh), expected, 1e-12, 1e-14)
    assert_close(jax_gradient(lambda b, a: curve.remainder(a, b - a, b), xh, x), expected, 1e-12, 1e-14)


@over("curve", CURVES, ids=repr)
def test_the_second_derivative_of_the_remainder_is_the_slope_also_where_formulas_branch(curve):
    x, xh = pairs(smooth_points(curve), smooth_points(curve))
    expected = curve.slope(xh)
    y, yh = torch.tensor(x), torch.tensor(xh, requires_grad=True)
    value = curve.remainder(y, yh - y, yh)
    (gradient,) = torch.autograd.grad(value.sum(), yh, create_graph=True)
    assert_close(torch_gradient(gradient, yh), expected, 1e-11, 1e-13)
    assert_close(torch_gradient(curve.difference(y, yh - y, yh), yh), expected, 1e-11, 1e-13)
    assert_close(jax_gradient(lambda b, a: curve.difference(a, b - a, b), xh, x), expected, 1e-11, 1e-13)


@over("curve", CURVES, ids=repr)
def test_the_gradient_with_respect_to_the_observed_score_is_minus_move_times_slope(curve):
    x, xh = pairs(smooth_points(curve), special_points(curve))
    expected = -(xh - x) * curve.slope(x)
    y, yh = torch.tensor(x, requires_grad=True), torch.tensor(xh)
    assert_close(torch_gradient(curve.remainder(y, yh - y, yh), y), expected, 1e-11, 1e-13)
    assert_close(jax_gradient(lambda a, b: curve.remainder(a, b - a, b), x, xh), expected, 1e-11, 1e-13)


STEEP_ENDS = [
    (sm.Arcsin(), (-1.0, 1.0)),
    (sm.Arcsin().capped(-1.0, 1.0), (-1.0, 1.0, -3.0, 2.0)),
    (sm.SignedPower(0.5), (0.0, -0.0)),
    (sm.Power(0.5), (0.0,)),
    (sm.Power(0.5).capped(low=0.0), (0.0, -2.0)),
]


@over(("curve", "ends"), STEEP_ENDS, ids=repr)
def test_the_gradient_of_the_remainder_is_finite_where_the_slope_is_not(curve, ends):
    x, xh = (np.resize(t, 121) for t in pairs(np.array([0.125, 0.5, 0.75]), np.array(ends)))
    expected = curve.difference(x, xh - x, xh)
    y, yh = torch.tensor(x), torch.tensor(xh, requires_grad=True)
    assert_close(torch_gradient(curve.remainder(y, yh - y, yh), yh), expected)
    assert_close(jax_gradient(lambda b, a: curve.remainder(a, b - a, b), xh, x), expected)


# ------------------------------------------------------------------------------------------------- what they declare


@over("curve", LINKS, ids=repr)
def test_the_inverse_undoes_a_link_where_it_rises(curve, array):
    points = points_inside(curve)
    with np.errstate(all="ignore"):
        rising = np.resize(points[curve.slope(points) > 1e-6], len(points)) if curve.continuous else points[:0]
        x = array(rising)
        y = curve(x)
        # rounding of the value, seen from the score
        blur = 4e-16 * (1.0 + np.abs(curve(rising)) / curve.slope(rising))
        assert np.all(np.abs(np.asarray(curve.inverse(y)) - rising) <= 1e-13 * np.abs(rising) + blur)
        assert_close(curve(curve.inverse(y)), y, rtol=1e-12, atol=1e-15)


@over("curve", CURVES, ids=repr)
def test_declared_shape_agrees_with_samples(curve):
    low, high = curve.window()
    x = np.linspace(low, high, 2001)
    x = x[curve.holds(x, interior=True)]
    y = curve(x)
    assert np.isfinite(y).all()
    assert np.all(curve.range.holds(y))
    if curve.increasing is True:
        assert np.all(np.diff(y) >= -1e-15 * np.abs(y[1:]))
    if curve.increasing is False:
        assert np.any(np.diff(y) < 0)
    mirrored = x[curve.holds(-x, interior=True)]
    if curve.odd:
        assert len(mirrored)
        assert_close(curve(-mirrored), -curve(mirrored))


@over("curve", LINKS, ids=repr)
def test_the_domain_ends_where_the_curve_does(curve):
    for end, is_open, inside in (
        (curve.domain.low, curve.domain.open_low, 1.0),
        (curve.domain.high, curve.domain.open_high, -1.0),
    ):
        if math.isfinite(end):
            with np.errstate(all="ignore"):
                value = curve(np.float64(end))
            if isinstance(curve, sm.Tan):  # pi/2 is not a float
                assert is_open
                assert abs(value) > 1e15
            else:
                assert is_open == bool(np.isinf(value))
            assert curve.holds(end)
            assert curve.holds(end, interior=True) != is_open
            assert curve.holds(end + 1e-9 * inside, interior=True)
            assert not curve.holds(end - 1e-9 * inside)


# ------------------------------------------------------------------------------------- difference and remainder, exact


def adversarial_pairs(curve: sm.Curve, dtype: str, count: int = 24) -> tuple[np.ndarray, np.ndarray]:
    """Scores of every size and next to the ends of the domain; moves from tiny to huge."""
    rng, info = np.random.default_rng(11), np.finfo(dtype)
    sizes = np.array([1e-30, 1e-8, 1e-3, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 8.0, 18.0, 37.0, 60.0, 85.0, 300.0, 700.0, 1e5])
    sizes = np.array([*sizes, 1e15, 1e30, float(info.max) ** 0.49, float(info.max) / 4])
    ends = [t for t in (curve.domain.low, curve.domain.high) if math.isfinite(t)]
    pool = np.concatenate(
        [sizes, -sizes, [0.0], *(t + s * np.array([*sizes, *info.eps * sizes]) for t in ends for s in (1, -1))]
    )
    ordinary = np.linspace(*curve.window(), 50)
    # the parts of a composite loss with a Q that is not convex cancel at extreme scores
    pool = ordinary if curve in NOT_CONVEX else np.concatenate([pool, ordinary])
    n = 8 * count
    with np.errstate(all="ignore"):
        x, xh = rng.choice(pool, n).astype(dtype), rng.choice(pool, n).astype(dtype)
        near = (x + (np.abs(x) + 1e-3) * rng.normal(size=n) * 10.0 ** rng.uniform(-10, 0, n)).astype(dtype)
        xh = np.where(rng.random(n) < 0.5, near, xh)
        inside = np.isfinite(xh) & curve.holds(x, interior=True) & curve.holds(xh, interior=True)
        tiny = info.smallest_normal
        normal = [np.abs(v) >= tiny for v in (curve(x), curve(xh))]
        representable = np.isfinite(curve.primitive(x)) & np.isfinite(curve.primitive(xh)) & np.isfinite(curve.slope(x))
        inside &= (normal[0] | (curve(x) == 0)) & (normal[1] | (curve(xh) == 0)) & representable
    return x[inside][:count], xh[inside][:count]


def error_scales(curve: sm.Curve, x: float, xh: float, difference: mpf, remainder: mpf) -> tuple[mpf, mpf]:
    """What errors are relative to: the value itself, or what the rule for composite losses and scalings says."""
    if isinstance(curve, sm.CompositeSigmoid):
        Q = formulas(curve.scaling)[1]
        largest = max(abs((Q(mpf(t)) + curve.offset) / curve.gamma) for t in (x, xh))
        wider = max(1, largest / 10)
        both = abs(exact_value(curve, x)) + abs(exact_value(curve, xh))
        region = exact_value(sm.Sigmoid(), (Q(mpf(x)) + curve.offset) / curve.gamma) * exact_remainder(
            curve.scaling, x, xh
        )
        return wider * both, wider * (abs(remainder - region) + abs(region))
    if curve in SCALINGS:
        return abs(difference), abs(remainder) + abs((mpf(xh) - mpf(x)) * difference)
    return abs(difference), abs(remainder)


@over("dtype", ["float64", "float32"])
@over("curve", CURVES, ids=repr)
def test_difference_and_remainder_agree_with_many_digits(curve, dtype):
    x, xh = adversarial_pairs(curve, dtype)
    assert len(x) >= 20
    wide = 100 if isinstance(curve, sm.Inverse) else 1  # its own score carries rounding, as large as the score
    rtol = (
        wide * 1e-13 if dtype == "float64" else 1e-5 if wide > 1 or isinstance(curve, sm.Tan | sm.SignedPower) else 3e-6
    )
    tiny, largest = float(np.finfo(dtype).smallest_normal), float(np.finfo(dtype).max)
    with np.errstate(all="ignore"):
        move, rest = curve.difference(x, xh - x, xh), curve.remainder(x, xh - x, xh)
    for a, b, got_move, got_rest in zip(x.tolist(), xh.tolist(), move.tolist(), rest.tolist(), strict=True):
        exact = exact_difference(curve, a, b), exact_remainder(curve, a, b)
        for got, true, scale in zip((got_move, got_rest), exact, error_scales(curve, a, b, *exact), strict=True):
            if abs(true) < largest / 100:
                assert abs(mpf(got) - true) <= rtol * scale + tiny, (
                    f"{a!r} -> {b!r}: {got!r}, not {mpmath.nstr(true, 17)}"
                )


@over("curve", CURVES, ids=repr)
def test_value_and_primitive_agree_with_many_digits(curve):
    constant = isinstance(curve, (sm.Piecewise, sm.Sum, sm.Inverse))  # the primitive's constant is free
    for x in points_inside(curve).tolist():
        assert_close(curve(x), float(exact_value(curve, x)), rtol=2e-14)
        if not constant:
            assert_close(curve.primitive(x), float(exact_primitive(curve, x)), rtol=1e-13)


@over("curve", CURVES, ids=repr)
def test_no_move_costs_exactly_nothing(curve, array):
    x = array(special_points(curve))
    for zero in (0.0 * x, -0.0 * x):
        assert np.all(np.asarray(curve.difference(x, zero)) == 0)
        assert np.all(np.asarray(curve.remainder(x, zero)) == 0)
        assert_close(curve.secant(x, zero), curve.slope(x))
    assert curve.difference(curve.point(), 0.0) == curve.remainder(curve.point(), 0.0) == 0.0


@over("curve", CURVES, ids=repr)
def test_what_is_computed_together_is_what_is_computed_alone(curve):
    x, xh = pairs(special_points(curve), special_points(curve))
    together = curve.remainder_and_difference(x, xh - x, xh)
    assert_close(together[0], curve.remainder(x, xh - x, xh))
    assert_close(together[1], curve.difference(x, xh - x, xh))
    assert_close(curve.secant(x, xh - x, xh) * (xh - x), together[1], atol=1e-300)
    scale = np.abs(curve.primitive(x)) + np.abs(curve.primitive(xh))
    direct = curve.primitive(xh) - curve.primitive(x)
    assert np.all(np.abs(curve.increment(x, xh - x, xh) - direct) <= 1e-14 * (scale + 1.0))


# --------------------------------------------------------------------------------------------------- extreme scores


def scores_in(curve: sm.Curve, width: int):
    """Any finite score in the domain up to a quarter of the largest float; often an extreme one."""
    largest = float(np.finfo(f"float{width}").max) / 4
    low, high = max(curve.domain.low, -largest), min(curve.domain.high, largest)
    if width == 32:
        low, high = (float(np.nextafter(np.float32(t), np.float32(0.0))) for t in (low, high))
    anything = st.floats(low, high, width=width)
    awkward = [0.0, -0.0, 1e-300, 1e-38, 1e-8, 1.0, -1.0, 2.0, 36.0, -88.0, 709.5, -745.0, 1e9, -1e19, 1e154, low, high]
    awkward = [float(np.dtype(f"float{width}").type(t)) for t in awkward if low <= t <= high]
    return st.one_of(anything, st.sampled_from(awkward))


def is_representable(curve: sm.Curve, x: float, xh: float, dtype: str) -> bool:
    """Whether link, loss and (for composite losses) scaling and Q have a place in the dtype, with some room."""
    largest = mpf(float(np.finfo(dtype).max)) / 100
    inner = formulas(curve.scaling) if isinstance(curve, sm.CompositeSigmoid) else ()
    try:
        if any(abs(f(mpf(t))) > largest for f in inner for t in (x, xh)):
            return False
        # e to the power 1e300 takes mpmath minutes
        if not inner and max(abs(x), abs(xh)) > 1e5 and not np.isfinite(curve(np.array([x, xh]))).all():
            return False
        values = [exact_value(curve, x), exact_value(curve, xh), exact_remainder(curve, x, xh, most=200)]
    except (ValueError, ZeroDivisionError):
        return False
    return all(mpmath.isfinite(v) and abs(v) <= largest for v in values)


ALSO_ON_TORCH = [sm.Sigmoid(), sm.Sinh(), sm.Arctan(), sm.Arcsin(), sm.Log(), sm.SignedPower(0.5), sm.SmeLU(c=2.0)]


def check_extreme_move(curve: sm.Curve, x: float, xh: float, dtype: str) -> None:
    for library in (np.asarray, torch.tensor) if curve in ALSO_ON_TORCH else (np.asarray,):
        a, b = (library([t], dtype=getattr(np if library is np.asarray else torch, dtype)) for t in (x, xh))
        rest, move = (np.asarray(v) for v in (curve.remainder(a, b - a, b), curve.difference(a, b - a, b)))
        values = np.concatenate([rest, move, np.asarray(curve(a)), np.asarray(curve(b))])
        if not np.isfinite(values).all():
            assert not is_representable(curve, x, xh, dtype), f"{x!r} -> {xh!r}: {values}"
        elif curve.increasing:
            assert rest >= 0
            assert np.sign(move) in (0.0, np.sign(xh - x))


@over("curve", CURVES, ids=repr)
def test_extreme_scores_give_finite_losses(curve):
    @given(data=st.data())
    def check(data):
        for width in (64, 32):
            scores = scores_in(curve, width)
            x, xh = data.draw(scores), data.draw(scores)
            if curve.holds(x, interior=True) and curve.holds(xh):
                with np.errstate(all="ignore"):
                    check_extreme_move(curve, x, xh, f"float{width}")

    check()


@over("dtype", ["float64", "float32"])
@over("curve", CURVES, ids=repr)
def test_extreme_scores_are_as_finite_on_jax_as_on_numpy(curve, dtype):
    x, xh = (np.resize(t, 121) for t in adversarial_pairs(curve, dtype))
    y, yh = jnp.asarray(x), jnp.asarray(xh)
    with np.errstate(all="ignore"):
        expected = curve.remainder_and_difference(x, xh - x, xh)
    for got, on_numpy in zip(curve.remainder_and_difference(y, yh - y, yh), expected, strict=True):
        assert got.dtype == dtype
        assert np.all(np.isfinite(got) | ~np.isfinite(on_numpy))


# ---------------------------------------------------------------------------------------------------- array libraries


LIBRARIES = {
    "numpy": np.asarray,
    "torch": lambda x, dtype: torch.tensor(x, dtype=getattr(torch, dtype)),
    "jax": jnp.asarray,
    "standard": lambda x, dtype: array_api_strict.asarray(x, dtype=getattr(array_api_strict, dtype)),
}


@over("library", LIBRARIES)
@over("dtype", ["float64", "float32"])
@over("curve", CURVES, ids=repr)
def test_dtype_in_is_dtype_out(curve, dtype, library):
    points = points_inside(curve)
    x = LIBRARIES[library](points, dtype=dtype)
    u = 0.01 * x
    with np.errstate(all="ignore"):
        expected = {method: call(curve, method, points, 0.01 * points) for method in METHODS}
        values = {method: call(curve, method, x, u) for method in METHODS}
        values |= {"inverse": curve.inverse(curve(x)), "secant": curve.secant(x, u), "increment": curve.increment(x, u)}
    for method, value in values.items():
        assert value.dtype == x.dtype, method
        assert type(value) is type(x), method
        if method in expected:
            scale = np.abs(expected["__call__"]) + np.abs(expected[method])
            got = np.asarray(value if library != "standard" else value._array)
            assert np.all(np.abs(got - expected[method]) <= (1e-12 if dtype == "float64" else 2e-3) * (scale + 1.0))


@over("curve", CURVES, ids=repr)
def test_integers_work(curve):
    one = 1 if curve.holds(1, interior=True) and curve.holds(2) else 0
    step = 1 if curve.holds(2) else 0
    with np.errstate(all="ignore"):
        for method in METHODS:
            if not (one == 0 and isinstance(curve, sm.Logit)):  # there is no integer inside (0, 1)
                assert call(curve, method, one, step) == call(curve, method, float(one), float(step))


@over("curve", CURVES, ids=repr)
def test_broadcasting_scores_against_labels(curve):
    x = points_inside(curve, 3)[:, None]
    u = (points_inside(curve, 4)[None, :] - x) * np.ones((3, 4))
    assert curve.remainder(x, u).shape == curve.difference(x, u).shape == (3, 4)
    assert_close(curve.remainder(x, u)[1, 2], curve.remainder(x[1, 0], u[1, 2]))


# ----------------------------------------------------------------------------------------------------------- identity


@over("curve", CURVES, ids=repr)
def test_a_curve_can_be_written_copied_and_compared(curve):
    assert eval(repr(curve), vars(sm)) == curve
    for other in (pickle.loads(pickle.dumps(curve)), copy.deepcopy(curve), copy.copy(curve)):
        assert other == curve
        assert hash(other) == hash(curve)
        assert_close(other(curve.point()), curve(curve.point()))
    assert curve != sm.Sinh().affine(alpha=0.123)
    assert jax.tree.unflatten(*jax.tree.flatten(curve)[::-1]) == curve


def test_curves_with_different_numbers_differ():
    assert sm.SmeLU(1.0) != sm.SmeLU(2.0)
    assert sm.SmeLU(1.0) != sm.Huber(1.0)
    assert sm.Power(2.0) != sm.SignedPower(2.0)
    assert len({sm.SmeLU(1.0), sm.SmeLU(1), sm.SmeLU(np.float32(1.0))}) == 1


WRONG = [
    (lambda: sm.SmeLU(-1), ValueError, "SmeLU: c must be > 0, got -1.0."),
    (lambda: sm.SmeLU(0), ValueError, "SmeLU: c must be > 0, got 0.0."),
    (lambda: sm.Power(0), ValueError, "Power: d must be > 0, got 0.0."),
    (lambda: sm.SignedPower(-0.5), ValueError, "SignedPower: d must be > 0, got -0.5."),
    (lambda: sm.AbsPower(1.0, -1.0), ValueError, "AbsPower: c must be >= 0, got -1.0."),
    (lambda: sm.AbsPower(math.inf, 1.0), ValueError, "AbsPower: d must be finite, got inf."),
    (lambda: sm.Huber("a"), TypeError, "Huber: c must be a number, got 'a'."),
    (lambda: sm.Huber(True), TypeError, "Huber: c must be a number, got True."),
    (lambda: sm.Huber(math.nan), ValueError, "Huber: c must be finite, got nan."),
    (lambda: sm.Constant(np.inf), ValueError, "Constant: value must be finite, got inf."),
    (lambda: sm.Constant([1.0]), TypeError, "Constant: value must be a number, got [1.0]."),
    (lambda: sm.Staircase((0.0, 1.0), (1.0,)), ValueError, "jumps must have one entry per threshold (2), got 1."),
    (lambda: sm.Staircase((1, 0), (1, 1)), ValueError, "thresholds must be strictly increasing, got (1.0, 0.0)."),
    (lambda: sm.Staircase((0.0,), (-1.0,)), ValueError, "Staircase: jumps[0] must be > 0, got -1.0."),
    (lambda: sm.Staircase(0.0, (1.0,)), TypeError, "thresholds must be a sequence of numbers, got 0.0."),
    (lambda: sm.Staircase((), ()), ValueError, "Staircase: thresholds must have at least 1 entries, got 0."),
    (lambda: sm.Polynomial(()), ValueError, "Polynomial: coefficients must have at least 1 entry, got 0."),
    (lambda: sm.Polynomial((1.0, math.nan)), ValueError, "Polynomial: coefficients[1] must be finite, got nan."),
]  # fmt: skip


@over(("build", "error", "message"), WRONG, ids=lambda value: value if isinstance(value, str) else "")
def test_wrong_parameters_are_named(build, error, message):
    with pytest.raises(error) as caught:
        build()
    assert message in str(caught.value)


def test_numbers_are_stored_as_python_floats():
    for curve in (sm.SmeLU(np.float64(2)), sm.Huber(2), sm.Power(np.float32(2)), sm.Constant(np.int64(2))):
        (value,) = vars(curve).values()
        assert type(value) is float
        assert curve(np.ones(2, np.float32)).dtype == np.float32
    stairs = sm.Staircase(np.array([0.0, 1.0]), np.array([1.0, 2.0], np.float32))
    assert all(type(value) is float for value in (*stairs.thresholds, *stairs.jumps))


# --------------------------------------------------------------------------------------------------- a user's own curve


class OwnTanh(sm.Curve):
    def __call__(self, x):
        return sm.functions.tanh(x)


class OwnNumPyTanh(sm.Curve):
    def __call__(self, x):
        return np.tanh(x)


@dataclass(frozen=True)
class OwnSinh(sm.Curve):
    increasing = True

    def __call__(self, x):
        return sm.functions.sinh(x)


class OwnTan(sm.Curve):
    domain = sm.Tan.domain
    scale = 0.25

    def __call__(self, x):
        return sm.functions.sin(x) / sm.functions.cos(x)


OWN = [
    (OwnTanh(), sm.Tanh(), 10.0),
    (OwnNumPyTanh(), sm.Tanh(), 10.0),
    (OwnSinh(), sm.Sinh(), 10.0),
    (OwnTan(), sm.Tan(), 1.2),
]


@over(("own", "closed", "reach"), OWN, ids=lambda value: repr(value))
def test_one_formula_makes_a_whole_curve(own, closed, reach):
    x, xh = pairs(np.linspace(-reach, reach, 9), np.linspace(-reach, reach, 7))
    u = xh - x
    assert_close(own.slope(x), closed.slope(x), 1e-12)
    constant = closed.primitive(0.0) - own.primitive(0.0)
    assert_close(own.primitive(x) + constant, closed.primitive(x), 1e-11, 1e-13)
    assert_close(own.difference(x, u), closed.difference(x, u, xh), 1e-11)
    assert_close(own.remainder(x, u), closed.remainder(x, u, xh), 1e-11)
    small = 1e-9 * np.ones_like(x)
    assert_close(own.difference(x, small), closed.difference(x, small), 1e-11)
    assert_close(own.remainder(x, small), closed.remainder(x, small), 1e-11)
    y = closed(np.linspace(-0.9, 0.9, 5))
    assert_close(own.inverse(y), closed.inverse(y), 1e-13)
    assert own.difference(0.5, 0.25) == pytest.approx(closed.difference(0.5, 0.25), rel=1e-13)
    assert type(own.inverse(0.5)) is float


@over(("own", "closed", "reach"), [OWN[0], OWN[2], OWN[3]], ids=lambda value: repr(value))
def test_one_formula_makes_a_whole_curve_in_torch_and_jax(own, closed, reach):
    x, xh = (np.resize(t, 16) for t in pairs(np.linspace(-reach, reach, 5), np.linspace(-reach, reach, 3) + 0.01))
    rtol = 1e-10 if reach > 2 else 1e-6  # inside a trace a long move is cut into 8 pieces, whatever its length
    y, yh = torch.tensor(x), torch.tensor(xh, requires_grad=True)
    value = own.remainder(y, yh - y, yh)
    assert_close(value.detach(), closed.remainder(x, xh - x, xh), rtol)
    assert_close(torch_gradient(value, yh), closed.difference(x, xh - x, xh), rtol)
    value, gradient = jax.jit(jax.value_and_grad(lambda b, a: own.remainder(a, b - a, b).sum()))(xh, x)
    assert_close(value, closed.remainder(x, xh - x, xh).sum(), rtol)
    assert_close(gradient, closed.difference(x, xh - x, xh), rtol)
    target = closed(torch.tensor([0.25, -0.5], dtype=torch.float64))
    assert_close(own.inverse(target), [0.25, -0.5], 1e-13)


def test_a_difference_of_two_arguments_is_called_with_two():
    class Own(sm.Curve):
        def __call__(self, x):
            return x + x**3

        def difference(self, x, u):
            return u * (1 + 3 * x**2 + 3 * x * u + u**2)

        def remainder(self, x, u):
            return u**2 * (0.5 + 1.5 * x**2 + x * u + 0.25 * u**2)

    own, closed = Own(), sm.Polynomial((0.0, 1.0, 0.0, 1.0))
    assert own.difference(0.5, 1e-9, 0.5) == pytest.approx(1.75e-9, rel=1e-8)
    shifted = own.affine(alpha=2.0, beta=0.5) + sm.Identity()
    expected = closed.affine(alpha=2.0, beta=0.5) + sm.Identity()
    assert_close(shifted.remainder(0.3, 1.1), expected.remainder(0.3, 1.1))
    assert_close(shifted.difference(0.3, 1.1), expected.difference(0.3, 1.1))


def test_a_curve_without_a_formula_says_so():
    with pytest.raises(NotImplementedError, match="Curve: write __call__"):
        sm.Curve()(1.0)
