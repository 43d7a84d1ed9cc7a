"""Ranges hold every value of a formula, and say no more than they know."""

import itertools
import math
import subprocess
import sys

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import selmatch as sm
from conftest import CURVES, points_inside
from selmatch import functions as f
from selmatch.arrays.dual import Dual, derivative
from selmatch.arrays.interval import Range, Undecided, bounds, box, hull, watching

UNARY = {
    "exp": (mpmath.exp, -20, 20),
    "expm1": (mpmath.expm1, -20, 20),
    "log": (mpmath.log, 1e-6, 20),
    "log1p": (mpmath.log1p, -0.99, 20),
    "sqrt": (mpmath.sqrt, 0, 20),
    "square": (lambda x: x * x, -20, 20),
    "sin": (mpmath.sin, -20, 20),
    "cos": (mpmath.cos, -20, 20),
    "tan": (mpmath.tan, -1.5, 1.5),
    "sinh": (mpmath.sinh, -20, 20),
    "cosh": (mpmath.cosh, -20, 20),
    "tanh": (mpmath.tanh, -20, 20),
    "arcsin": (mpmath.asin, -1, 1),
    "arctan": (mpmath.atan, -20, 20),
    "arcsinh": (mpmath.asinh, -20, 20),
    "abs": (abs, -20, 20),
    "sign": (mpmath.sign, -20, 20),
    "fold": (lambda x: -abs(x), -20, 20),
    "positive_part": (lambda x: max(x, mpmath.mpf(0)), -20, 20),
    "sigmoid": (lambda x: 1 / (1 + mpmath.exp(-x)), -60, 60),
    "softplus": (lambda x: mpmath.log1p(mpmath.exp(x)), -60, 60),
    "hypot1": (lambda x: mpmath.sqrt(1 + x * x), -20, 20),
    "phi": (lambda x: x * x / 2 * mpmath.hyp1f1(1, 3, x), -20, 20),
    "omega": (lambda x: x - mpmath.sin(x), -20, 20),
    "logit": (lambda x: mpmath.log(x / (1 - x)), 1e-6, 1 - 1e-6),
}


def holds(result: Range, value) -> bool:
    low, high = bounds(result)
    return low <= value <= high


@pytest.mark.parametrize("name", UNARY)
@given(data=st.data())
def test_a_range_holds_the_exact_values(name, data):
    exact, low, high = UNARY[name]
    a, b, t = (data.draw(st.floats(low, high)) for _ in range(3))
    a, t, b = sorted((a, t, b))
    assume(name != "sign" or a < t < b)  # a box is looked at from inside
    with mpmath.workdps(40):
        assert holds(getattr(f, name)(box(a, b)), exact(mpmath.mpf(t)))


@pytest.mark.parametrize("name", [name for name in UNARY if name not in ("sign", "fold", "positive_part", "abs")])
def test_a_point_stays_almost_a_point(name):
    exact, low, high = UNARY[name]
    for t in np.linspace(low, high, 9)[1:-1]:
        a, b = bounds(getattr(f, name)(box(float(t), float(t))))
        with mpmath.workdps(40):
            value = float(exact(mpmath.mpf(float(t))))
        assert b - a <= 4e-15 * max(abs(value), abs(float(t)), 1.0)


@given(st.floats(-9, 9), st.floats(-9, 9), st.floats(-9, 9), st.floats(-9, 9), st.floats(0, 1), st.floats(0, 1))
def test_arithmetic_holds_every_result(a, b, c, d, s, t):
    (a, b), (c, d) = sorted((a, b)), sorted((c, d))
    x, y = min(a + s * (b - a), b), min(c + t * (d - c), d)
    left, right = box(a, b), box(c, d)
    with mpmath.workdps(40):
        x, y = mpmath.mpf(x), mpmath.mpf(y)
        assert holds(left + right, x + y)
        assert holds(left - right, x - y)
        assert holds(left * right, x * y)
        assert holds(2.5 * left - 1.25, mpmath.mpf(2.5) * x - mpmath.mpf(1.25))
        assert holds(f.minimum(left, right), min(x, y))
        assert holds(f.maximum(left, right), max(x, y))
        assert holds(f.power(left, 3), x**3)
        assert holds(f.power(left, 2), x**2)
        if y:
            assert holds(left / right, x / y)


def test_ends_keep_the_signs_that_balls_lose():
    assert bounds(box(0.0, 1.0) * box(0.0, 1.0)) == (0.0, 1.0)
    assert bounds(f.square(box(-2.0, 1.0))) == (0.0, 4.0)
    assert bounds(1.0 / box(2.0, 4.0)) == (0.25, 0.5)
    assert bounds(1.0 / box(0.0, 4.0)) == (0.25, math.inf)
    assert bounds(1.0 / box(-1.0, 4.0)) == (-math.inf, math.inf)
    assert bounds(f.power(box(0.0, 4.0), 0.5)) == (0.0, 2.0)
    low, high = bounds(f.power(2.0, box(8.0, 8.0)))
    assert low <= 256.0 <= high
    assert bounds(box(-math.inf, -math.inf)) == (-math.inf, -math.inf)


@pytest.mark.parametrize("call", ["log", "sqrt", "arcsin"])
def test_outside_its_domain_a_function_can_be_anything(call):
    assert bounds(getattr(f, call)(box(-2.0, 0.5))) == (-math.inf, math.inf)


@pytest.mark.parametrize("curve", CURVES, ids=repr)
def test_every_curve_runs_on_ranges(curve):
    """Value, slope and primitive on a box hold those of the points inside."""
    points = np.sort(points_inside(curve))
    for a, b in itertools.pairwise(points):
        inner = np.linspace(a, b, 5)
        score = box(float(a), float(b))
        for method in ("__call__", "slope", "primitive"):
            low, high = bounds(getattr(curve, method)(score))
            with np.errstate(all="ignore"):
                values = np.array([float(getattr(curve, method)(float(t))) for t in inner[1:-1]])
            slack = 1e-13 * np.max(np.abs(values), initial=1.0)
            assert np.all(values >= low - slack), (method, a, b)
            assert np.all(values <= high + slack), (method, a, b)


def test_comparisons_know_when_they_do_not_know():
    x = box(0.0, 2.0)
    assert (x > -1.0) is True
    assert (x < -1.0) is False
    with watching() as watch:
        assert isinstance(x > 1.0, Undecided)
    assert watch.switches == {1.0}
    assert ((x > 1.0) & (x < -1.0)) is False
    assert ((x > 1.0) | (x > -1.0)) is True
    with pytest.raises(TypeError, match="must not branch on values"):
        bool(x > 1.0)


def test_a_box_is_looked_at_from_inside():
    with watching() as watch:
        assert (box(0.0, 2.0) > 0.0) is True
        assert (box(-2.0, 0.0) >= 0.0) is False
    assert watch.touched == {0.0}
    assert (box(0.0, 0.0) > 0.0) is False
    assert (box(0.0, 0.0, side=1) > 0.0) is True
    assert (box(0.0, 0.0, side=-1) >= 0.0) is False
    assert (-box(0.0, 0.0, side=1) > 0.0) is False
    assert isinstance(f.abs(box(-1.0, 1.0)) > 0.0, Undecided)  # 0 is inside


def test_switches_are_found_through_straight_lines():
    with watching() as watch:
        x = box(-4.0, 4.0)
        f.where(2.0 * (x - 0.5) > 1.0, x, 0.0)
    assert watch.switches == {1.0}
    assert watch.undecided


@pytest.mark.parametrize(
    ("formula", "undecided", "singular"),
    [
        (lambda z: f.abs(z - 1.0) + f.maximum(z, 2.0), False, False),  # kinks do not jump
        (lambda z: f.where((z > 1.0) & (z < 3.0), z, 0.0), True, False),
        (f.sign, True, False),
        (lambda z: f.where(f.sinh(z) > 0.3, z, 0.0), True, False),
        (lambda z: f.where(~(z < 5.0), z, 0.0), True, False),  # not a condition at all
        (lambda z: 1.0 / (z - 1.0), False, True),
        (lambda z: f.tan(z), False, True),
        (lambda z: f.power(z, -1.0), False, True),
        (lambda z: f.log(z), False, True),
        (lambda z: f.arctan2(z, -1.0), False, True),
        (lambda z: z + math.nan, False, True),
        (lambda z: f.exp(1e3 * z) - f.exp(1e3 * z), False, False),
    ],
)
def test_what_may_not_be_continuous_is_noticed(formula, undecided, singular):
    with watching() as watch:
        formula(box(-4.0, 4.0))
    assert (watch.undecided, watch.singular) == (undecided, singular)


def test_watches_do_not_mix():
    with watching() as outer:
        with watching() as inner:
            f.where(box(-1.0, 1.0) > 0.0, 1.0, 0.0)
        assert not outer.undecided
    assert inner.undecided


def test_a_choice_is_both():
    assert bounds(f.where(box(-1.0, 1.0) > 0.0, 5.0, 2.0)) == (2.0, 5.0)
    assert bounds(hull(1.0, box(3.0, 4.0))) == (1.0, 4.0)


@pytest.mark.parametrize(
    "formula",
    [lambda x: f.where(x > 0.25, x - 1.0, x), f.sign, lambda x: f.side(x) * 1.0, lambda x: x * f.sign(x)],
)
def test_a_jump_has_any_slope(formula):
    assert bounds(derivative(formula, box(-1.0, 1.0))) == (-math.inf, math.inf)


@pytest.mark.parametrize("formula", [f.abs, f.positive_part, lambda x: f.minimum(x, 0.5), lambda x: f.maximum(x, 0.5)])
def test_a_kink_has_the_slopes_of_both_sides(formula):
    low, high = bounds(derivative(formula, box(-1.0, 1.0)))
    assert -1.0 <= low <= high <= 1.0


def test_dual_numbers_hold_ranges():
    slope = derivative(lambda x: f.exp(x) * f.tanh(x), box(0.0, 0.5))
    low, high = bounds(slope)
    for t in (0.1, 0.25, 0.4):
        assert low <= derivative(lambda x: f.exp(x) * f.tanh(x), t) <= high
    assert isinstance(f.minimum(Dual(box(0.0, 1.0), box(1.0, 1.0)), box(2.0, 3.0)), Dual)


@pytest.mark.parametrize("formula", [f.tanh, f.cosh, lambda z: z + f.sin(z), lambda z: f.exp(-f.square(z))])
def test_the_primitive_of_a_formula_is_enclosed(formula):
    curve = sm.FromLink(formula)
    for t in (-3.0, -0.37, 0.0, 1.0, 2.71):
        low, high = bounds(curve.primitive(box(t, t)))
        assert low <= curve.primitive(t) <= high
        assert high - low < 1e-3 * max(1.0, abs(high))


def test_the_primitive_of_a_jump_is_enclosed():
    low, high = bounds(sm.FromLink(lambda z: f.where(z > 0.01, 1.0, 0.0)).primitive(box(1.0, 1.0)))
    assert low <= 0.99 <= high


def test_an_inverse_without_a_formula_is_enclosed():
    curve = sm.Identity() + sm.Sinh()
    low, high = bounds(curve.inverse(box(0.5, 3.0)))
    assert low <= curve.inverse(0.5) < curve.inverse(3.0) <= high
    assert high - low < curve.inverse(3.0) - curve.inverse(0.5) + 1e-12


def test_numpy_functions_and_numbers_work_on_ranges():
    low, high = bounds(np.tanh(box(0.0, 1.0)) * np.float64(2.0) + np.float64(1.0))
    assert low == 1.0
    assert high == pytest.approx(1.0 + 2.0 * math.tanh(1.0), abs=1e-12)


def test_equal_curves_of_a_user_do_not_share_integrals():
    class Mine(sm.Curve):
        def __init__(self, factor):
            object.__setattr__(self, "factor", factor)

        def __call__(self, x):
            return self.factor * f.tanh(x)

    one, two = Mine(1.0), Mine(2.0)
    assert one == two  # a dataclass without fields of its own
    assert bounds(two.primitive(box(2.0, 2.0)))[0] > 1.5 * bounds(one.primitive(box(2.0, 2.0)))[1]


def test_without_python_flint_the_extra_is_named():
    code = (
        "import sys; sys.modules['flint'] = None\n"
        "import selmatch as sm\n"
        "print(sm.certify.convex(sm.Sinh() + sm.Sigmoid()))\n"
        "print(sm.certify.convex(sm.FromLink(lambda z: z + sm.functions.tanh(z)), (-8, 8)))\n"
        "print(sm.certify.convex(sm.FromLink(lambda z: z - sm.functions.tanh(2.0 * z)), (-8, 8)))\n"
        "sm.MatchingLoss(sm.FromLink(lambda z: z + sm.functions.tanh(z)))\n"
        "try:\n    import selmatch.arrays.interval\nexcept ImportError as error:\n    print(error)\n"
        "try:\n    sm.certify.largest_gamma(sm.Cosh())\nexcept ImportError as error:\n    print(error)\n"
    )
    lines = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.splitlines()
    assert lines[0].startswith("Proved: the loss is convex")
    assert lines[1].startswith("Undecided: ")
    assert 'pip install "selmatch[proofs]"' in lines[1]
    assert lines[2].startswith("Refuted: ")
    assert lines[3] == 'selmatch.arrays.interval needs python-flint. Install it with: pip install "selmatch[proofs]".'
    assert lines[4] == 'certify.largest_gamma needs python-flint. Install it with: pip install "selmatch[proofs]".'
