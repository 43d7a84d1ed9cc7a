"""The checker of proofs accepts what is true of every curve, and nothing that is false."""

import itertools
import math
from fractions import Fraction
from pathlib import Path

import flint
import mpmath
import numpy as np
import pytest

import selmatch as sm
from conftest import LINKS, SOFTMAXES
from selmatch import certify, checker, evidence
from selmatch import functions as f
from selmatch.arrays.trace import Step, steps, trace, trace_exactly
from selmatch.checker import pieces, spans

INFINITY = math.inf


def accepts(function, *cuts, claim=checker.NeverFalls):
    try:
        checker.require(claim(steps(trace(function))), cuts)
    except checker.Unverified:
        return False
    return True


@pytest.mark.parametrize("potential", [*LINKS, *SOFTMAXES], ids=repr)
def test_what_is_proved_of_a_curve_of_the_library_verifies(potential):
    certificate = certify.convex(potential)
    assert not certificate or certificate.verify()


def everything():
    """Curves of the library and of users, and what can be made of them."""
    bases = {
        "Sinh": sm.Sinh(), "Cosh": sm.Cosh(), "AbsPower": sm.AbsPower(1.5, 1.2), "SmeLU": sm.SmeLU(),
        "formula": sm.parse("z+tanh(z)", lower=False), "hinge": sm.parse("max(z,0.2*z)", lower=False),
        "function": sm.FromLink(lambda z: 2.0 * z + f.sin(z)), "even": sm.parse("cosh(z)", lower=False),
    }  # fmt: skip
    made = {
        "itself": lambda curve: curve,
        "affine": lambda curve: curve.affine(1.5, 0.25, 2.0),
        "capped": lambda curve: curve.capped(-1.0, 2.0),
        "capped, then affine": lambda curve: curve.capped(-1.0, 2.0).affine(0.5, 1.0),
        "a sum": lambda curve: curve + sm.parse("z-0.5*sin(z)", lower=False),
        "inverse": lambda curve: sm.Inverse(curve),
        "composite Sigmoid": lambda curve: sm.CompositeSigmoid(curve, gamma=0.4, check=False),
        "affine composite Sigmoid": lambda curve: sm.CompositeSigmoid(curve, gamma=0.4, check=False).affine(2.0, 1.0),
        "composite Softmax": lambda curve: sm.CompositeSoftmax(curve, check=False),
        "primitive": lambda curve: sm.CompositeSigmoid(Q=curve, gamma=0.7, check=False),
    }
    return [pytest.param(base, make, id=f"{name}, {how}") for name, base in bases.items() for how, make in made.items()]


@pytest.mark.parametrize(("base", "make"), everything())
def test_whatever_is_proved_verifies(base, make):
    try:
        curve = make(base)
    except ValueError:  # of a curve that falls there is no inverse
        return
    for domain in (None, (-3.0, 3.0), (2.5, math.inf)):
        for ask in (certify.convex, certify.non_decreasing, certify.monotone_probability):
            try:
                certificate = ask(curve, domain, effort=certify.Effort(boxes=30))
            except (TypeError, ValueError):  # no such question about such a curve or domain
                continue
            assert not certificate or certificate.verify(), str(certificate)


@pytest.mark.parametrize(
    ("function", "cuts", "true"),
    [
        (lambda z: z - f.tanh(z), (-INFINITY, INFINITY), True),
        (lambda z: z - 1.001 * f.tanh(z), (-8.0, 8.0), False),
        (lambda z: f.where(z < 1.0, z, z + 1e-12), (-8.0, 1.0, 8.0), True),
        (lambda z: f.where(z < 1.0, z, z - 1e-12), (-8.0, 1.0, 8.0), False),
        (lambda z: f.where(z < 1.0, z, z - 1e-12), (-8.0, 8.0), False),
        (lambda z: z + f.where(3.0 * z > 1.0, -1e-9, 0.0), (-8.0, 1 / 3, 8.0), False),
        (lambda z: f.maximum(z, 0.2 * z) + f.abs(z), (-8.0, 0.0, 8.0), False),
        (lambda z: f.maximum(z, 0.2 * z) + 0.1 * f.abs(z), (-8.0, 0.0, 8.0), True),
        (lambda z: -1.0 / z, (0.0, INFINITY), True),
        (lambda z: -1.0 / z, (-1.0, 1.0), False),
        (lambda z: -1.0 / z, (-1.0, 0.0, 1.0), False),
        (lambda z: f.log(z), (0.0, INFINITY), True),
        (lambda z: f.sqrt(z) - 0.01 * z, (0.0, 2000.0), True),
        (lambda z: f.sqrt(z) - 0.01 * z, (0.0, 3000.0), False),
        (lambda z: z**3, (-INFINITY, INFINITY), True),
        (lambda z: z**2, (-1e-300, 1.0), False),
        (lambda z: 9.0 * z - 3e-9 * f.cos(1e9 * z), (-1.0, 1.0), True),
        (lambda z: f.where(f.isfinite(z), -z, z), (-INFINITY, INFINITY), False),
        (lambda z: f.tan(z), (-1.5, 1.5), True),
        (lambda z: f.tan(z), (1.0, 2.0), False),
        (lambda z: f.sign(z) + f.side(z), (-1.0, 0.0, 1.0), True),
        (lambda z: f.arctan2(z, 1.0 + 0.0 * z), (-1.0, 1.0), False),  # not known to it
        (lambda z: z**z, (0.1, 1.0), False),  # the exponent is one number at an end, but no constant
        (lambda z: z**z, (0.4, 1.0), True),
        (lambda z: z ** (1.0 + 0.5 * z), (0.1, 1.0), True),
        (lambda z: f.minimum(z * (2.0 + f.cos(9.0 * z)), 0.0) - 0.5 * z, (0.0, 1.0), False),  # both are 0 at an end
        (lambda z: 0.5 * z - f.maximum(0.0, -z * (2.0 + f.cos(9.0 * z))), (-1.0, 0.0), False),
        (lambda z: f.minimum(0.0, -z), (-1.0, 1.0), False),
        (lambda z: f.minimum(-z, 0.0), (-1.0, 1.0), False),
        (lambda z: f.maximum(0.0, -z), (-1.0, 1.0), False),
        (lambda z: f.maximum(-z, 0.0), (-1.0, 1.0), False),
        (lambda z: f.where(f.maximum(z - 0.5, 0.0) > 0.0, -1.0, _from_0(z)), (0.0, 1.0), False),  # 0 on half of it
        (lambda z: f.where(f.minimum(0.5 - z, 0.0) < 0.0, -1.0, _from_0(z)), (0.0, 1.0), False),
        (lambda z: f.where(-f.square(z) < 0.0, z, -5.0), (-1.0, 1.0), False),  # 0 at one score
        (lambda z: f.where(f.square(z) > 0.0, z, -5.0), (-1.0, 1.0), False),
        (lambda z: f.log1p(z), (-2.0, 1.0), False),
        (lambda z: f.sqrt(z), (-1.0, 1.0), False),
        (lambda z: f.log(f.maximum(z, 0.0)), (-1.0, 0.0), False),  # no value anywhere
        (lambda z: 1.0 / f.maximum(z, 0.0), (-1.0, 0.0), False),
        (lambda z: f.where(z < 1.0, _hazy(z), 5.0 * z), (0.9, 1.0, 1.1), False),  # falls by less than rounding
        (lambda z: f.where(z <= 1.0, _hazy(z), 5.0 * z), (0.9, 1.0, 1.1), False),
        (lambda z: f.where(z < 1.0, 5.0 * z, -_hazy(-z)), (0.9, 1.0, 1.1), False),
        (lambda z: f.where(z <= 1.0, 5.0 * z, -_hazy(-z)), (0.9, 1.0, 1.1), False),
    ],
)
def test_what_falls_is_refused_and_what_rises_is_accepted(function, cuts, true):
    assert accepts(function, *cuts) is true


def _from_0(z):
    return f.where(z <= 0.0, -2.0, 0.0)


def _hazy(z):
    """5 z + 1e-18, known to fewer digits."""
    return 5.0 * z + (f.exp(z) * f.exp(-z) - 1.0) + 1e-18


@pytest.mark.parametrize(
    ("function", "cuts", "falls", "negative"),
    [
        (lambda z: f.where(z <= -8.0, 9.0, z + 8.0), (-8.0, 8.0), True, False),
        (lambda z: f.where(z >= 8.0, -1.0, z + 8.0), (-8.0, 8.0), True, True),
        (lambda z: f.where(z <= -8.0, -1.0, z + 8.0), (-8.0, 8.0), False, True),
        (lambda z: f.where(z < -8.0, -1.0, z + 8.0), (-8.0, 8.0), False, False),
        (lambda z: f.where(z == 2.0, -1.0, z), (0.0, 2.0), True, True),
        (lambda z: f.where(z == 2.0, 2.5, z), (0.0, 2.0), False, False),
        (lambda z: z + f.sqrt(f.where(z == 1.0, -1.0, 1.0)), (0.5, 1.0, 2.0), True, True),  # no value at 1
        (lambda z: f.where(z == 0.0, 0.0, 1.0 / z), (0.0, 2.0), True, True),  # no value of both branches
        (lambda z: 2.0 - 1.0 / z, (0.5, INFINITY), False, False),
        (lambda z: f.where(z == 1.0, 5.0 - _hazy(z), z), (0.5, 1.0, 2.0), True, True),
        (lambda z: z - 1.0 / z + f.sqrt(z), (0.0, 1.0), False, True),  # no value at 0
    ],
)
def test_the_first_and_the_last_score_count(function, cuts, falls, negative):
    assert accepts(function, *cuts) is not falls
    assert accepts(function, *cuts, claim=checker.NeverNegative) is not negative


def test_the_slope_at_an_end_is_not_known_where_another_one_is_infinite():
    formula = steps(trace(lambda z: f.sqrt(z) * f.sqrt(2.0 * z)))
    found = pieces.Piece(formula, 0.0, 1.0).end(0).slope
    assert found.low <= math.sqrt(2.0) <= found.high


@pytest.mark.parametrize("swapped", [False, True])
def test_the_slope_at_an_end_is_that_of_either_part_where_both_meet(swapped):
    def both(z):
        return (z, z * (1.5 - 2.0 * z))[:: -1 if swapped else 1]

    for choose, slope in ((f.minimum, 1.0), (f.maximum, 1.5)):
        found = pieces.Piece(steps(trace(lambda z, choose=choose: choose(*both(z)))), 0.0, 1.0).end(0).slope
        assert found.low <= slope <= found.high


FUNCTIONS = {
    "exp": mpmath.exp, "expm1": mpmath.expm1, "sinh": mpmath.sinh, "cosh": mpmath.cosh, "tanh": mpmath.tanh,
    "arctan": mpmath.atan, "arcsinh": mpmath.asinh, "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "softplus": lambda x: mpmath.log1p(mpmath.exp(x)), "square": lambda x: x * x,
    "hypot1": lambda x: mpmath.sqrt(1 + x * x), "sin": mpmath.sin, "cos": mpmath.cos,
    "omega": lambda x: x - mpmath.sin(x), "phi": lambda x: mpmath.expm1(x) - x, "log": mpmath.log,
    "log1p": mpmath.log1p, "sqrt": mpmath.sqrt, "arcsin": mpmath.asin, "arctanh": mpmath.atanh,
    "logit": lambda x: mpmath.log(x / (1 - x)), "tan": mpmath.tan, "negative": lambda x: -x, "abs": abs,
    "fold": lambda x: -abs(x), "positive_part": lambda x: max(x, mpmath.mpf(0)), "side": lambda x: 1 - 2 * (x < 0),
    "signedlog": lambda x: mpmath.sign(x) * mpmath.log1p(abs(x)),
    "add": lambda x, y: x + y, "subtract": lambda x, y: x - y, "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y, "power": mpmath.power, "xlogy": lambda x, y: x * mpmath.log(y),
    "minimum": min, "maximum": max, "within": lambda x, bound: min(max(x, -bound), bound),
}  # fmt: skip
SECONDS = {"power": (-2.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0), "within": (0.6,)}
SHORT = (
    (-3.0, -1.0),
    (-1.0, 2.0),
    (0.0, 1.0),
    (0.25, 0.75),
    (2.0, 30.0),
    (-1e-9, 1e-9),
    (0.5, 0.5),
    (-0.7, -0.3),
    (-1.0, -0.5),
)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_enclosures_hold_values_slopes_and_bends(name):
    """Inside of a piece and at its ends, of a function of z and of one of z^2 - 1/5."""
    seen = 0
    for inner, second in itertools.product((False, True), SECONDS.get(name, (None, 2.0))):
        for low, high in SHORT:
            try:
                piece = pieces.Piece(_made(name, inner, second), low, high, bends=True)
            except checker.Unverified:
                continue
            seen += 1
            for share in (0.0, 0.1, 0.5, 0.9, 1.0):
                score = low + share * (high - low)
                jet = piece.end(int(share)) if share in (0.0, 1.0) and low < high else piece.whole
                for order, enclosure in enumerate(jet or ()):
                    exact = _derivative(
                        name, inner, second, score, order, (score == low < high) - (low < high == score)
                    )
                    slack = (1e-6 if order else 1e-13) * (1.0 + abs(exact))
                    assert enclosure.low <= exact + slack, (name, second, low, high, score, order)
                    assert enclosure.high >= exact - slack, (name, second, low, high, score, order)
    assert seen >= 3


def _made(name, inner, second):
    """A function of z or of z^2 - 1/5, and of a number or of z + 1/4."""
    number = ("number", 0.25 if second is None else second)
    first = [("variable", "x"), ("square", 0), ("number", -0.2), ("add", 1, 2), number, ("add", 0, 4)]
    arguments = (3 if inner else 0, 5 if second is None else 4)
    return _formula(*first, (name, *arguments[: 2 if _is_binary(name) else 1]))


def _is_binary(name):
    return name in ("add", "subtract", "multiply", "divide", "power", "xlogy", "minimum", "maximum", "within")


def _derivative(name, inner, second, score, order, side):
    """Of the same with 90 digits; ``side``: from which side the score is approached."""

    def function(z):
        x = z * z + mpmath.mpf(-0.2) if inner else z
        y = z + mpmath.mpf(0.25) if second is None else mpmath.mpf(second)
        return FUNCTIONS[name](x, y) if _is_binary(name) else FUNCTIONS[name](x)

    with mpmath.workdps(90):
        step = mpmath.mpf(10) ** -30
        z = mpmath.mpf(score) + 2 * side * step
        if order == 0:
            return function(z)
        if order == 1:
            return (function(z + step) - function(z - step)) / (2 * step)
        return (function(z + step) - 2 * function(z) + function(z - step)) / step**2


NAN = math.nan


@pytest.mark.parametrize(
    "formula",
    [
        [("number", INFINITY), ("isfinite", 0), ("variable", "x"), ("negative", 2), ("where", 1, 3, 2)],
        [("number", INFINITY), ("number", 0.0), ("multiply", 0, 1)],
        [("number", INFINITY), ("negative", 0), ("exp", 1)],
        [("number", -INFINITY), ("exp", 0)],
        [("number", INFINITY)],
        [("number", NAN), ("number", 1.0), ("maximum", 0, 1)],
        [("variable", "x"), ("number", INFINITY), ("power", 0, 1)],
        [("variable", "x"), ("number", -INFINITY), ("power", 0, 1)],
        [("number", 2**60 + 1), ("variable", "x"), ("add", 0, 1)],
    ],
)
def test_formulas_with_numbers_that_are_no_finite_doubles_are_refused(formula):
    formula = _formula(*formula)
    for claim in (checker.NeverFalls, checker.NeverNegative):
        with pytest.raises(checker.Unverified):
            checker.require(claim(formula), (0.5, 1.0))


def test_scores_may_be_compared_with_infinity():
    formula = _formula(("variable", "x"), ("number", INFINITY), ("minimum", 0, 1), ("less", 0, 1), ("where", 3, 2, 0))
    checker.require(checker.NeverFalls(formula), (-8.0, 8.0))


def _formula(*lines):
    """From the names of operations, with a number, or with the lines that they use."""
    return tuple(
        Step(name, (), rest[0]) if name in ("number", "variable") else Step(name, rest)
        for name, *rest in lines
        for rest in [tuple(rest)]
    )


@pytest.mark.parametrize(
    ("integrand", "start", "places", "cuts"),
    [
        (lambda t: 1.0 / t, 0.0, (), (0.5, 1.0)),
        (lambda t: 1.0 / t, 0.0, (0.0,), (-1.0, -0.5)),
        (lambda t: 1.0 / (t * t), -1.0, (), (0.5, 1.0)),
        (lambda t: 1.0 / (t * t), -1.0, (0.0,), (0.5, 1.0)),
        (lambda t: 1.0 + 0.0 * t, -INFINITY, (), (0.5, 1.0)),
        (lambda t: 1.0 + 0.0 * t, NAN, (), (0.5, 1.0)),
    ],
)
def test_integrals_that_do_not_exist_are_refused(integrand, start, places, cuts):
    formula = (Step("variable", (), "x"), Step("integral", (0,), (steps(trace(integrand)), start, places)))
    with pytest.raises(checker.Unverified):
        pieces.Piece(formula, *cuts)


@pytest.mark.parametrize("places", [(3.0, NAN, 1.0), (INFINITY, -INFINITY, NAN), (NAN, 2.0, 2.0, -7.0)])
def test_places_only_help_to_integrate(places):
    curve = sm.parse("where(z<2,z,5-z)-1", lower=False)
    found = pieces.Antiderivative(steps(trace(curve)), 0.0, places, pieces.Shared())._up_to(4.0)
    assert found.low <= 2.0 <= found.high


@pytest.mark.parametrize("digits", [8, 20, 120])
def test_the_precision_that_somebody_set_makes_nothing_true(digits, monkeypatch):
    monkeypatch.setattr(flint.ctx, "prec", digits)
    assert not accepts(lambda z: z - 1.0001 * f.tanh(z), -8.0, 8.0)
    assert not accepts(lambda z: f.where(z < 1.0, z, z - 1e-12), -8.0, 1.0, 8.0)
    assert not accepts(lambda z: 1.0000000000000002 * z - z - 1e-15 * z, 1.0, 2.0)
    assert accepts(lambda z: z**3 + f.sinh(z), -8.0, 8.0)


def test_values_are_not_negative_between_cuts_and_at_them():
    claim = checker.NeverNegative
    assert accepts(lambda z: f.square(z) - z + 0.26, -INFINITY, INFINITY, claim=claim)
    assert not accepts(lambda z: f.square(z) - z + 0.24, -INFINITY, INFINITY, claim=claim)
    assert not accepts(lambda z: f.where(z > 0.0, 1.0 + z, f.where(z < 0.0, 1.0 - z, -1.0 + 0.0 * z)), -1.0, 0.0, 1.0,
                       claim=claim)  # fmt: skip


def test_work_can_be_limited():
    formula = steps(trace_exactly(sm.CompositeSigmoid(sm.parse("cosh(z)", lower=False), check=False)))
    claim = checker.NeverFalls(formula)
    checker.require(claim, (-2.0, 2.0))
    assert claim.shared.spent > 100
    with pytest.raises(checker.Unverified, match="more than 100 operations"):
        checker.require(checker.NeverFalls(formula), (-2.0, 2.0), 100)


@pytest.mark.parametrize("cuts", [(), (1.0,), (1.0, 1.0), (0.0, 2.0, 1.0), (0.0, math.nan), (math.nan, 0.0)])
def test_cuts_must_increase(cuts):
    with pytest.raises(checker.Unverified, match="increasing"):
        checker.require(checker.NeverFalls(steps(trace(sm.Identity()))), cuts)


@pytest.mark.parametrize(("name", "whether"), [("and", all), ("or", any), ("not", lambda both: not both[0])])
def test_conditions_combine_as_they_are_named(name, whether):
    for both in itertools.product((True, False), repeat=2):
        made = [("greater" if holds else "less", 0, 1) for holds in both]
        joined = (name, 2, 3)[: 2 if name == "not" else 3]
        formula = _formula(("variable", "x"), ("number", 1.0), *made, joined, ("number", 2.0), ("where", 4, 5, 1))
        assert float(pieces.Piece(formula, 3.0, 4.0).whole.value.low) == (2.0 if whether(both) else 1.0)


def test_only_conditions_and_constants_decide():
    variable, zero, two = ("variable", "x"), ("number", 0.0), ("number", 2.0)
    assert float(pieces.Piece(_formula(zero, two, ("where", 0, 0, 1)), -1.0, 1.0).whole.value.low) == 2.0
    assert float(pieces.Piece(_formula(zero, two, ("where", 1, 0, 1)), -1.0, 1.0).whole.value.low) == 0.0
    for formula in (
        [variable, ("where", 0, 0, 0)],
        [variable, zero, ("less", 0, 1), ("exp", 2)],
        [variable, zero, ("less", 0, 1), ("equal", 2, 1)],
        [variable, two, ("less", 0, 1)],
    ):
        with pytest.raises(checker.Unverified):
            pieces.Piece(_formula(*formula), -1.0, 1.0)


@pytest.mark.parametrize(
    ("integrand", "start", "argument", "cuts", "accepted"),
    [
        (lambda t: 1.0 + 0.0 * t, 0.0, lambda z: z, (0.0, INFINITY), True),
        (lambda t: 1.0 + 0.0 * t, 0.0, lambda z: z, (-INFINITY, INFINITY), False),
        (lambda t: 1.0 + 0.0 * t, 0.0, lambda z: -z, (0.5, INFINITY), False),
        (lambda t: t, 0.0, lambda z: f.sinh(z), (-2.0, 0.0, 3.0), True),
        (lambda t: t, 1e-3, lambda z: f.sinh(z), (-2.0, 0.0, 3.0), False),
        (lambda t: t, -1.0, lambda z: f.sin(z), (-9.0, 9.0), False),  # at most 0
        (lambda t: -1.0 + 0.0 * t, 0.0, lambda z: 1e-200 * (1e-200 * z), (0.0, 1.0), False),  # no doubles
        (lambda t: 1.0 + 0.0 * t, 0.0, lambda z: 1e-200 * (1e-200 * z), (0.0, 1.0), True),
        (lambda t: -1.0 + 0.0 * t, 0.0, lambda z: 1e200 * (1e200 * z), (0.5, 1.0), False),
        (lambda t: f.where(t < 1.0, 1.0, -1.0), 0.0, lambda z: z, (0.0, 1.0, 2.0), True),
        (lambda t: f.where(t < 1.0, 1.0, -1.0), 0.0, lambda z: z, (0.0, 1.0, 2.001), False),
    ],
)
def test_integrals_have_the_signs_that_they_are_seen_to_have(integrand, start, argument, cuts, accepted):
    line = steps(trace(argument))
    formula = (*line, Step("integral", (len(line) - 1,), (steps(trace(integrand)), start, (1.0,))))
    if accepted:
        checker.require(checker.NeverNegative(formula), cuts)
    else:
        with pytest.raises(checker.Unverified):
            checker.require(checker.NeverNegative(formula), cuts)


class BySort(sm.Curve):
    """Another formula for numbers and arrays than for what is traced."""

    def __call__(self, x):
        return -x if isinstance(x, (float, np.ndarray)) else x


class Tries(sm.Curve):
    """A fall in a branch that a trace never sees."""

    def __call__(self, x):
        try:
            return x - 1.0 if abs(x - 5.6) < 1e-9 else x
        except Exception:
            return x


class Own(sm.Curve):
    """A loss that has nothing to do with its link."""

    def __call__(self, x):
        return f.sinh(x)

    def primitive(self, x):
        return -f.cosh(x)


@pytest.mark.parametrize("curve", [BySort(), Tries(), Own(), sm.CompositeSoftmax(Own(), check=False)], ids=repr)
def test_classes_that_trick_a_trace_are_not_proved(curve):
    assert not certify.convex(curve)


@pytest.mark.parametrize(
    "text",
    ["1e20*z-1000*z-1e20*z", "0.1*(sinh(3*z)-3.0000000000000004*z)", "1e300*(exp(tanh(z))-0.36787944117144233)^2",
     "-1e-200*(1e-200*z)", "-z*step((1e-300)^2)", "z-1.0000000000000002*z+1e-17*tanh(z)"],
)  # fmt: skip
def test_formulas_that_rounding_would_change_are_not_proved(text):
    assert not certify.convex(sm.parse(text))


FORMULAS = [
    "cosh(z)-0.3", "(cosh(z)+0.5)*(1+0.01*sin(z))", "|z|^1.5+1.2", "where(z>1,2*z-1,z)+exp(0.1*z)", "max(z,0.3*z^2)",
    "tanh(3*z)-0.2", "sign(z-0.5)+z", "1/(2+sin(z))", "sqrt(|z|)", "softplus(5*z)-1",
]  # fmt: skip


@pytest.mark.parametrize("text", FORMULAS)
def test_integrals_hold_what_they_are(text):
    curve = sm.parse(text, lower=False)
    integral = pieces.Antiderivative(steps(trace(curve)), 0.0, curve.places, pieces.Shared(2.0**-20))
    exact = mpmath.memoize(lambda end: _integral(curve, end))
    for low, high in ((0.0, 0.0), (-1.3, -1.3), (2.7, 2.7), (0.1, 0.2), (-3.0, 4.0), (2.0, 2.5)):
        try:
            inner = integral.on(low, high)
        except checker.Unverified:  # a condition changes inside
            continue
        score = pieces.Jet(spans.Span(spans.exactly(low).low, spans.exactly(high).high), spans.exactly(1.0), None)
        found = integral.through(score, inner).value
        for end in np.linspace(low, high, 7):
            value = exact(float(end))
            assert float(found.low) <= value + 1e-9 * (1 + abs(value))
            assert float(found.high) >= value - 1e-9 * (1 + abs(value))
        if low == high:
            assert float(found.high - found.low) <= 1e-4 * (1 + abs(value))


def _integral(curve, end):
    cuts = [0.0, *(place for place in (*curve.places, 10.0 / 3.0) if min(0.0, end) < place < max(0.0, end)), end]
    return float(mpmath.quad(lambda z: curve(float(z)), sorted(cuts) if end >= 0 else sorted(cuts)[::-1]))


COSH = {
    "built-in": sm.Cosh() + sm.Constant(0.0),
    "a formula": sm.parse("cosh(z)", lower=False),
    "a function": sm.FromLink(f.cosh),
    "a part": sm.parse("cosh(2*z)", lower=False).affine(0.5),
}


@pytest.mark.parametrize("share", [0.9, 0.999, 1.001, 1.1])
@pytest.mark.parametrize("scaling", COSH)
def test_composite_sigmoids_are_proved_up_to_their_threshold(scaling, share):
    """Of cosh, whose threshold is known to 16 digits."""
    scaling = COSH[scaling]
    curve = sm.CompositeSigmoid(scaling, gamma=share * 1.32528134001705, check=False)
    certificate = certify.convex(curve, (-6.0, 6.0))
    assert bool(certificate) is (share < 1.0)
    assert not certificate or certificate.verify()
    # the checker alone, whatever the search says
    q, y = steps(trace_exactly(scaling)), steps(trace_exactly(curve.logit))
    cuts = tuple(np.linspace(-6.0, 6.0, 41).tolist())
    try:
        checker.require(checker.SigmoidLinkNeverFalls(q, y, curve.gamma), cuts)
        assert share < 1.0
    except checker.Unverified:
        assert share > 1.0


@pytest.mark.parametrize("d", [1.0, 1.5, 2.0, 3.7])
def test_kinks_of_a_scaling_are_no_jumps_of_its_sigmoid_link(d):
    """|x|^d + c has a kink at 0, and so has its primitive as far as its formula tells."""
    curve = sm.CompositeSigmoid(sm.AbsPower(d, 1.05 * certify.smallest_c(d).high) + sm.Constant(0.0), check=False)
    assert certify.convex(curve, (-8.0, 8.0)).verify()


@pytest.mark.parametrize("step", [-1e-9, 1e-9])
def test_jumps_of_a_scaling_are_jumps_of_its_sigmoid_link(step):
    q = sm.FromLink(lambda z: f.where(z < 0.5, f.exp(z), f.exp(z) + step))
    curve = sm.CompositeSigmoid(q, check=False)
    y = steps(trace_exactly(curve.logit))
    claim = checker.SigmoidLinkNeverFalls(steps(trace_exactly(q)), y, 1.0)
    if step < 0:
        with pytest.raises(checker.Unverified, match=r"may fall at 0\.5"):
            checker.require(claim, (-1.0, 0.5, 2.0))
    else:
        checker.require(claim, (-1.0, 0.5, 2.0))


def test_an_exponent_that_is_not_known_exactly_is_no_exact_one():
    for number in range(1, 9):
        formula = _formula(("number", 2.0), ("number", float(number)), ("exp", 1), ("power", 0, 2))
        found = pieces.Piece(formula, 0.0, 1.0).whole.value
        with mpmath.workdps(60):
            exact = mpmath.power(2, mpmath.exp(number))
            low, high = (mpmath.ldexp(*map(int, end.man_exp())) for end in found)
            assert low <= exact <= high


def test_two_numbers_with_one_enclosure_may_be_two():
    y = steps(trace(lambda z: f.where(z < 0.5, f.tanh(200.0 * z), f.tanh(190.0 * z))))
    with pytest.raises(checker.Unverified, match=r"may jump at 0\.5"):
        checker.require(checker.SigmoidLinkNeverFalls(steps(trace(f.exp)), y, 1.0), (0.0, 0.5, 1.0))


@pytest.mark.parametrize("step", [-0.25, -(2.0**-50), 0.0, 2.0**-50])
@pytest.mark.parametrize("condition", [lambda z: z < 0.5, lambda z: z <= 0.5], ids=["after", "before"])
def test_integrals_of_a_scaling_do_not_jump(condition, step):
    q, y = f.exp, lambda z: f.where(condition(z), z, 2.0 * z + (step - 0.5))
    claim = checker.SigmoidLinkNeverFalls(steps(trace(q)), steps(trace(y)), 1.0)
    if step == 0.0:
        checker.require(claim, (0.0, 0.5, 1.0))
    else:
        with pytest.raises(checker.Unverified, match=r"may jump at 0\.5"):
            checker.require(claim, (0.0, 0.5, 1.0))


@pytest.mark.parametrize("gain", [1.0, 0.3])
def test_falls_at_joints_are_found_inside_of_other_curves(gain):
    pieces = (sm.Polynomial((5e14, 1.0)), sm.Polynomial((5e14 - 500.0, 1.0)))
    falls = sm.Piecewise((-5.0, 1.0, 5.0), pieces).affine(gain=gain)
    for curve in (falls, falls + sm.Sinh(), sm.CompositeSigmoid(falls + sm.Identity(), check=False)):
        assert not certify.convex(curve, (-5.0, 5.0))


@pytest.mark.parametrize(
    "link", [link for link in LINKS if certify.odd(link) and not isinstance(link, sm.Inverse)], ids=repr
)
def test_what_is_odd_verifies_and_something_else_does_not(link):
    assert certify.odd(link).verify()
    tilted = steps(trace(lambda z: link(z) + 1e-6 * f.exp(z)))
    moves = [0.5**k for k in range(-2, 4) if link.domain.holds(0.5**k, interior=True)]
    with pytest.raises(checker.Unverified, match="do not belong together"):
        checker.refute_half_turn(tilted, 0.0, moves)


class SaysOdd(sm.Curve):
    """Odd but for less than the checker sees, and says that it is odd."""

    odd = True

    def __call__(self, x):
        return f.sinh(x) + 1e-30 * f.square(x)


def test_what_a_class_says_of_itself_is_no_evidence():
    with pytest.raises(evidence.Unverified, match="do not say"):
        evidence.Reflection(SaysOdd(), 0.0).check()


def test_products_of_intervals_hold_all_products():
    rng = np.random.default_rng(0)
    ends = [0.0, INFINITY, -INFINITY, 1e-300, -1e-300, 2.0, -3.0, 1e50, -1e50]
    for _ in range(2000):
        (a, b), (c, d) = np.sort(rng.choice(ends, (2, 2)), axis=1).tolist()
        if INFINITY in (a, c) or -INFINITY in (b, d):
            continue
        x, y = (spans.Span(spans.exactly(low).low, spans.exactly(high).high) for low, high in ((a, b), (c, d)))
        product = spans.times(x, y)
        for p, q in zip(
            *(np.clip((low, high, 0.0), max(low, -1e60), min(high, 1e60)) for low, high in ((a, b), (c, d))),
            strict=False,
        ):
            exact = flint.arb(p) * flint.arb(q)
            assert product.low <= exact.upper()
            assert product.high >= exact.lower()


ENDS = (0.0, 5e-324, 1e-300, 0.1, 1.0, 1.0 / 3.0, 2.0, math.pi, 1e300, INFINITY)


def test_intervals_of_sums_products_and_inverses_are_rounded_outwards():
    rng = np.random.default_rng(0)
    for _ in range(600):
        x, y = (_ordered(rng.choice(ENDS, 2) * rng.choice([-1.0, 1.0], 2)) for _ in range(2))
        p, q = (
            [Fraction(end) for end in (*pair, 0.5) if abs(end) < 1e301 and pair[0] <= end <= pair[1]] for pair in (x, y)
        )
        a, b = (spans.Span(spans.exactly(low).low, spans.exactly(high).high) for low, high in (x, y))
        _require_inside(spans.plus(a, b), [s + t for s, t in itertools.product(p, q)])
        _require_inside(spans.times(a, b), [s * t for s, t in itertools.product(p, q)])
        _require_inside(spans.minus(a), [-s for s in p])
        _require_inside(spans.hull(a, b), [*p, *q])
        _require_inside(spans.size_of(a), [abs(s) for s in p])
        _require_inside(spans.square(a), [s * s for s in p])
        _require_inside(spans.cube(a), [s**3 for s in p])
        if x[0] >= 0.0 or x[1] <= 0.0:
            _require_inside(spans.inverse(a), [1 / s for s in p if s])
        else:
            with pytest.raises(checker.Unverified):
                spans.inverse(a)


def _ordered(ends):
    low, high = sorted(ends.tolist())
    return (-low, high) if low == INFINITY else (low, -high) if high == -INFINITY else (low, high)


def _require_inside(span, numbers):
    for end, sign in ((span.low, 1), (span.high, -1)):
        if not end.is_finite():
            continue
        mantissa, exponent = map(int, end.man_exp())
        bound = Fraction(mantissa) * Fraction(2) ** exponent
        assert all(sign * (number - bound) >= 0 for number in numbers)


def test_the_documentation_says_how_long_the_checker_is():
    files = Path(checker.__file__).parent.glob("*.py")
    lines = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)
    page = Path(__file__).parents[1] / "docs" / "certificates.md"
    assert f"`selmatch/checker` ({round(lines, -1)} lines)" in page.read_text(encoding="utf-8")
