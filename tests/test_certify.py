"""Certificates: the paper's theorems and corollaries, its invalid choices, and no false proof."""

import itertools
import json
import math
import os
import pathlib
import re
from dataclasses import dataclass

import mpmath
import numpy as np
import pytest

import selmatch as sm
from conftest import JUMPING, KINKED, LINKS, SMOOTH
from selmatch import certify
from selmatch import functions as f
from selmatch.certify import Proved, Refuted, Undecided
from selmatch.distillation import distillation_loss
from selmatch.pointwise import negative_slope

DOMAIN = (-8.0, 8.0)
FOLDER = pathlib.Path(os.environ.get("SELMATCH_GOLDEN", pathlib.Path(__file__).parent / "golden"))
THRESHOLDS = json.loads((FOLDER / "thresholds.json").read_text())


def unchecked(scaling, **options):
    return sm.CompositeSigmoid(scaling, check=False, **options)


def is_true(certificate: Refuted, curve) -> bool:
    """Whether the two scores of a witness do show a fall."""
    a, b = certificate.witness.scores
    return a < b and float(curve(a)) > float(curve(b))


# --------------------------------------------------------------------------------------------------------- structure


@pytest.mark.parametrize("link", LINKS, ids=repr)
def test_built_in_links_are_proved_without_computation(link):
    certificate = certify.convex(sm.MatchingLoss(link))
    assert isinstance(certificate, Proved), certificate
    assert certificate.boxes == 0


def test_a_declaration_of_a_user_is_no_proof():
    class Boaster(sm.Curve):
        increasing = True

        def __call__(self, x):
            return f.sin(x)

    assert isinstance(certify.non_decreasing(Boaster(), DOMAIN), Refuted)
    assert certify.non_decreasing(Boaster(), (-1.5, 1.5))


def test_reasons_speak_of_the_parts():
    link = 0.1 * sm.Identity() + sm.Sinh().capped(-3.0, 3.0)
    assert certify.convex(link).how == "a sum of curves that never decrease: Identity, Sinh"
    assert "convex Q" in certify.convex(sm.CompositeSigmoid(sm.Sinh())).how
    assert certify.convex(sm.CompositeSoftmax(sm.Exp())).how == "Q is convex: Exp never decreases"
    assert certify.convex(sm.Separable(sm.Tanh()))
    assert certify.convex(sm.MatchingLoss(sm.PerLabel({0.0: sm.Identity(), 1.0: sm.Exp()})))


def test_a_curve_may_increase_on_a_part_of_its_domain():
    assert isinstance(certify.convex_primitive(sm.Cosh()), Refuted)
    assert certify.convex_primitive(sm.Cosh(), (0.0, math.inf))
    assert certify.convex_primitive(sm.Cosh().affine(alpha=3.0, beta=-1.0), (-1.0, 8.0))
    assert certify.non_decreasing(sm.Sin(), (-1.5, 1.5))


@pytest.mark.parametrize(
    ("coefficients", "rises"),
    [
        ((0.0, 3.0, -3.0, 1.0), True),  # (x - 1)^3 + 1: the slope touches 0
        ((0.0, 2.999, -3.0, 1.0), False),
        ((0.0, 0.0, 0.0, 0.0, 0.0, 1.0), True),
        ((0.0, 1.0, 0.0, -0.1), False),
        ((5.0,), True),
        ((0.0, -1.0), False),
    ],
)
def test_polynomials_are_decided_exactly(coefficients, rises):
    certificate = certify.non_decreasing(sm.Polynomial(coefficients))
    assert isinstance(certificate, Proved if rises else Refuted), certificate


def test_touching_at_irrational_points_is_proved():
    slope = np.polynomial.Polynomial([-2.0, 0.0, 1.0]) ** 2  # 4 - 4 x^2 + x^4
    curve = sm.Polynomial(tuple(3.0 * 5.0 * slope.integ().coef))  # whole numbers
    assert certify.non_decreasing(curve)
    assert certify.non_decreasing(curve, DOMAIN)


# ----------------------------------------------------------------------------------------------------- no false proof

JUMP = sm.FromLink(lambda z: f.where(z > 0.31, z - 0.001, z))


class SaysItIncreases(sm.Curve):
    increasing = True

    def __call__(self, x):
        return f.cos(x)


class SaysItIsOdd(sm.Curve):
    odd = True

    def __call__(self, x):
        return f.exp(x)


class WrongSlope(sm.Curve):
    def __call__(self, x):
        return x - 0.01 * f.tanh(300.0 * (x - 0.03))

    def slope(self, x):
        return 1.0 + 0.0 * x


class WrongPrimitive(sm.Curve):
    def __call__(self, x):
        return 2.0 + 0.5 * f.tanh(x)

    def primitive(self, x):
        return 2.0 * x + 0.5 * f.log(f.cosh(x)) - 0.03 * f.tanh(300.0 * (x - 0.03))


class WrongInverse(sm.Sinh):
    def inverse(self, y):
        return -y


class OwnPrimitive(sm.FromLink):
    """A formula of the library with a primitive of the user's."""

    def primitive(self, x):
        return WrongPrimitive().primitive(x)


@dataclass(frozen=True)
class OnlyAFormula(sm.Curve):
    """A formula that FromLink refuses, since it takes no dual numbers."""

    function: object
    only_a_formula = True

    def __call__(self, x):
        return self.function(x)


class NotAffine(sm.Affine):
    def __call__(self, x):
        return f.where(x > 0.31, x - 0.001, x)


FALLING = {
    "where beside a line": sm.FromLink(lambda z: z + f.where(z > 0.31, -0.001, 0.0)),
    "sign": sm.FromLink(lambda z: z - 0.001 * f.sign(z - 0.31)),
    "side": sm.FromLink(lambda z: z - 0.001 * f.side(z - 0.31)),
    "a condition on a maximum": sm.FromLink(lambda z: f.where(f.maximum(z - 0.31, 0.0) > 0, z - 0.001, z)),
    "at a cap": sm.FromLink(lambda z: f.where(z >= 2, z - 0.001, z)).capped(-2.0, 2.0),
    "a third, which is no float": sm.FromLink(lambda z: f.where(3 * z > 1, z - 0.001, z)),
    "a bent condition": sm.FromLink(lambda z: f.where(f.sinh(z) > 0.3, z - 0.01, z)),
    "a pole": sm.FromLink(lambda z: -1.0 / z),
    "a faint pole": sm.FromLink(lambda z: z - 1e-9 * f.power(z - 0.31, -1)),
    "faint poles": sm.FromLink(lambda z: z + 1e-9 * f.tan(z)),
    "in a sum": sm.Sum((JUMP, 1e-9 * sm.Identity())),
    "in a piece": sm.Piecewise((-1.0, 1.0), (JUMP,)),
    "between pieces": sm.Piecewise((0.0, 1.0, 2.0), (sm.Identity(), sm.Polynomial((1.0 - 5e-13, 1.0), 1.0))),
    "in a scaling": unchecked(JUMP),
    "in a scaling in a sum": sm.Sum((unchecked(JUMP), 1e-9 * sm.Identity())),
    "in Q": unchecked(None, Q=lambda z: 0.5 * z * z - 0.001 * f.sign(z - 0.31)),
    "a wrong slope": sm.Sum((unchecked(WrongSlope()), 1e-9 * sm.Identity())),
    "a wrong primitive": unchecked(WrongPrimitive()),
    "a wrong primitive of a formula": unchecked(OwnPrimitive(lambda z: 2.0 + 0.5 * f.tanh(z))),
    "a wrong inverse": sm.Inverse(WrongInverse()),
    "a subclass": NotAffine(sm.Identity()),
    "an even power": sm.FromLink(lambda z: f.power(z, 1e17)).capped(-0.9999999999, -0.5),
}


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name == "a wrong slope" else name for name in FALLING]
)
def test_what_falls_is_never_proved(name):
    certificate = certify.convex(FALLING[name], DOMAIN)
    assert isinstance(certificate, Refuted), certificate


AT_A_SCORE = {
    "inside": sm.FromLink(lambda z: f.where(f.abs(z) > 0, z, 0.01)),
    "at the upper end": sm.FromLink(lambda z: f.where(z >= 8, 7.99, z)),
    "at the lower end": sm.FromLink(lambda z: f.where(z <= -8, 0.01, z)),
}


@pytest.mark.parametrize("name", AT_A_SCORE)
def test_a_fall_at_a_single_score_is_none_of_the_loss(name):
    link = AT_A_SCORE[name]
    assert isinstance(certify.non_decreasing(link, DOMAIN), Refuted)
    assert isinstance(certify.convex(link, DOMAIN), Undecided)
    assert isinstance(certify.convex_primitive(link, DOMAIN), Undecided)


OPEN = {
    "a pole at the first cut": sm.FromLink(lambda z: z - 1e-9 / (z - 1 / 64)),
    "a branch cut": sm.FromLink(lambda z: z - 0.001 * f.arctan2(z - 0.31, -1.0)),
    "another": sm.parse("0.5^(arctan2(z,-2))"),
    "no value on one side": sm.FromLink(f.log),
    "no value at all": sm.FromLink(lambda z: -f.log(-1.0 - z * z)),
    "a declaration": sm.Inverse(SaysItIncreases()),
    "None": sm.FromLink(lambda z: None),
    "text": sm.FromLink(lambda z: "z"),
    "NaN": sm.FromLink(lambda z: z + math.nan),
    "numbers only": OnlyAFormula(lambda z: math.sqrt(z + 9.0)),
}


@pytest.mark.parametrize("name", OPEN)
def test_what_cannot_be_looked_into_is_not_proved(name):
    certificate = certify.convex(OPEN[name], (-8.0, 8.0) if name != "a declaration" else (-0.5, 0.5))
    assert isinstance(certificate, Undecided), certificate


def test_other_statements_are_not_proved_from_declarations():
    for loss in (SaysItIsOdd().affine(2.0), SaysItIsOdd() + sm.Identity(), sm.CompositeSigmoid(SaysItIsOdd())):
        assert isinstance(certify.odd(loss), Refuted)
    dip = sm.FromLink(lambda z: 1.0 - 2.0 * f.exp(-1e6 * f.square(z - 0.0077))).capped(-1.0, 1.0)
    assert not certify.monotone_probability(unchecked(dip))
    for curve in (sm.Step(), sm.Sign(), sm.Staircase((0.0,), (1.0,))):  # the end belongs to the other side
        assert isinstance(certify.flat(curve, (0.0, 1.0)), Refuted)
        assert certify.flat(curve, (0.5, 1.0))
    assert not certify.flat(sm.FromLink(lambda z: 0.0 * z / (z - 0.01)), DOMAIN)
    assert not certify.monotone_probability(unchecked(sm.FromLink(lambda z: f.exp(z) - 1 - f.expm1(z))), DOMAIN)


def test_a_witness_has_values():
    curve = sm.parse("-(z+z)/z * 7.25/arcsinh(|z|)")  # rises from an infinite value that it does not have at 0
    assert not isinstance(certify.convex(curve, (0.0, 8.0)), Refuted)


def printed(witness):
    """The numbers of a witness, each with half a unit of its last digit."""
    found = re.findall(r"= (-?\d+(?:\.(\d+))?(?:e([+-]?\d+))?)", witness.text)
    return [(mpmath.mpf(text), mpmath.mpf(10) ** (int(e or 0) - len(digits)) / 2) for text, digits, e in found]


@pytest.mark.parametrize(
    ("text", "exact"),
    [
        ("-2e-160*(2e-160*sinh(z))", lambda z: -(mpmath.mpf(2e-160) ** 2) * mpmath.sinh(z)),
        ("2/ln(7.25/z)", lambda z: 2 / mpmath.log(mpmath.mpf(7.25) / z)),
        ("cos(1e300-0.1)*sinh(z-10)", lambda z: mpmath.cos(mpmath.mpf(1e300) - mpmath.mpf(0.1)) * mpmath.sinh(z - 10)),
        ("1e300*(z-0.1*z)-9e299*z-1e284*z", lambda z: mpmath.mpf(1e300) * (z - mpmath.mpf(0.1) * z)
         - mpmath.mpf(9e299) * z - mpmath.mpf(1e284) * z),
    ],
)  # fmt: skip
def test_a_witness_prints_no_false_digit(text, exact):
    certificate = certify.non_decreasing(sm.parse(text, lower=False), DOMAIN)
    assert isinstance(certificate, Refuted), certificate
    with mpmath.workdps(700):
        values = [exact(mpmath.mpf(z)) for z in certificate.witness.scores]
        assert values[0] > values[1]
        numbers = printed(certificate.witness)
        assert len(numbers) == 2 or "= " not in certificate.witness.text  # subnormal numbers have few digits
        for (shown, half), value in zip(numbers, values, strict=False):
            assert abs(shown - value) <= 1.0001 * half


MEETING = ("huber(z+z*-z,log(power(z,0)))", "clip(1-z,0,1-exp(0*z))", "max(min(z-z^2,0*z),0*z)")


@pytest.mark.parametrize("text", MEETING)
def test_where_branches_meet_a_slope_refutes_nothing(text):
    for lower in (True, False):
        assert not isinstance(certify.non_decreasing(sm.parse(text, lower=lower), DOMAIN), Refuted)


def test_a_change_of_sign_is_one_of_finite_values_next_to_scores_too():
    def asked(text):
        return certify.monotone_probability(sm.CompositeSoftmax(sm.parse(text), check=False), DOMAIN)

    assert not isinstance(asked("where(z==0,-1,1+z^2)"), Refuted)
    for text in ("log(logit(huber(z,z)))", "log((-z)^2)", "abs(z)-1", "1/z"):
        found = asked(text)
        if isinstance(found, Refuted):
            below, above = found.witness.values
            assert -math.inf < below < 0 < above < math.inf
    for only_numbers in (True, False):

        def single(x, only_numbers=only_numbers):
            return f.where(x == 0, -1.0, 1.0 + f.square(np.abs(float(x)) if only_numbers else x))

        potential = sm.CompositeSoftmax(OnlyAFormula(single), check=False)
        assert not isinstance(certify.monotone_probability(potential, DOMAIN), Refuted)
    assert isinstance(asked("abs(z)-1"), Refuted)
    assert isinstance(asked("log((-z)^2)"), Refuted)


ROUNDED = {
    "cos(153^30-5.53e-06)*sinh(z+6.25)": False, "(-1)^(153^30)*z": False, "sqrt(2)*z-1.4142135623730951*z": False,
    "sign(sqrt(2)-1.4142135623730951)*z": False,
    "sqrt(2)*sinh(z)": True, "(exp(1)-2.7)*sinh(z)": True,
}  # fmt: skip


@pytest.mark.parametrize("text", ROUNDED)
def test_no_rounded_constant_decides_a_sign(text):
    certificate = certify.non_decreasing(sm.parse(text), DOMAIN)
    assert isinstance(certificate, Proved) is ROUNDED[text]


def test_a_search_for_asymmetry_gives_up_where_losses_are_not_known():
    calls = []

    class Unsure(sm.Curve):
        def __call__(self, x):
            return x

        def remainder(self, x, u, xh=None):
            calls.append(x)
            raise RuntimeWarning("not known")

    assert isinstance(certify.odd(Unsure()), Undecided)
    assert len(calls) <= 8


def test_a_large_constant_hides_no_asymmetry_and_makes_none():
    curve = sm.parse("|expm1(z)-z-.5|*2^z+where(1e5==square(z),z,z-1e300)", lower=False)
    assert not isinstance(certify.odd(curve), Refuted)


def test_corollaries_hold_exactly():
    """c^2 < 2 gamma d by less than a rounding error."""
    c, gamma = 0.8677365962535178, 0.3764834002388203
    assert not certify.convex(unchecked(sm.AbsPower(1.0, c), gamma=gamma), effort=certify.Effort(boxes=100))
    assert certify.convex(unchecked(sm.AbsPower(1.0, c * (1 + 1e-15)), gamma=gamma)).boxes == 0


@pytest.mark.parametrize(
    "question",
    [
        lambda: certify.odd(OnlyAFormula(math.log)),
        lambda: certify.flat(sm.FromLink(lambda z: f.sqrt(-1.0 - z * z)), DOMAIN),
        lambda: certify.non_decreasing(sm.FromLink(lambda z: f.exp(f.exp(f.exp(z)))), DOMAIN),
        lambda: certify.non_decreasing(sm.FromLink(lambda z: 1e308 * z * 10), (-1.7e308, 1.7e308)),
        lambda: certify.smallest_c(100.0),
        lambda: certify.largest_gamma(sm.FromLink(lambda z: f.where(z > 0.31, 1.0, 1.5)), DOMAIN),
        lambda: certify.largest_gamma(sm.FromLink(lambda z: f.square(f.sin(z)) + f.square(f.cos(z))), (-1.0, 1.0)),
        lambda: certify.largest_gamma(OnlyAFormula(math.cosh), DOMAIN),
        lambda: certify.non_decreasing(sm.Polynomial((1.0,) * 30), DOMAIN),
    ],
)
def test_no_question_fails(question):
    assert isinstance(question(), (certify.Certificate, certify.Enclosure))


# ------------------------------------------------------------------------------------------ curves that are a formula

PROVABLE = {
    "z + tanh z": lambda z: z + f.tanh(z),
    "z + sin z": lambda z: z + f.sin(z),
    "z - 0.999 sin z": lambda z: z - 0.999 * f.sin(z),
    "z |z|": lambda z: z * f.abs(z),
    "z^3": lambda z: z**3,
    "max": lambda z: f.maximum(z, 0.0) + f.minimum(z, -1.0),
    "softplus of sinh": lambda z: f.softplus(f.sinh(z)),
    "two branches that meet": lambda z: f.where(z > 0.5, 2.0 * z, z + 0.5),
    "a jump upwards": lambda z: f.where(z > 0.5, z + 1.0, z),
    "sign": lambda z: 0.1 * z + f.sign(z),
    "numpy": lambda z: np.arctan(z) + np.float64(2.0) * z,
    "tanh of tanh": lambda z: f.tanh(3.0 * f.tanh(z)),
    "exp(z) + exp(-exp(-z))": lambda z: f.exp(z) + f.exp(-f.exp(-z)),
    "bumps": lambda z: z + 0.4 * f.tanh(4.0 * (z - 2.0)) - 0.4 * f.tanh(2.0 * (z + 1.0)),
}


@pytest.mark.parametrize("name", PROVABLE)
def test_formulas_are_proved_by_intervals(name):
    certificate = certify.convex(sm.FromLink(PROVABLE[name]), DOMAIN)
    assert isinstance(certificate, Proved), certificate
    assert certificate.boxes < 400  # each takes about 0.3 ms


FALSE_BY_LITTLE = {
    "z - 1.001 sin z": lambda z: z - 1.001 * f.sin(z),
    "z - 1.001 tanh z": lambda z: z - 1.001 * f.tanh(z),
    "z^3 - z/1000": lambda z: z**3 - 0.001 * z,
    "a dip": lambda z: 0.01 * z - 0.0101 * f.tanh(z - 3.3),
    "a narrow dip": lambda z: z - 0.01001 * f.tanh(100.0 * (z - math.pi)),
    "a jump downwards": lambda z: f.where(z > 0.3, z - 0.001, z),
    "a tiny jump": lambda z: f.where(z > 0.3, z - 1e-12, z),
    "at an end": lambda z: -z * (z - 15.9),
}


@pytest.mark.parametrize("name", FALSE_BY_LITTLE)
def test_what_is_false_by_a_thousandth_ends_with_a_witness(name):
    curve = sm.FromLink(FALSE_BY_LITTLE[name])
    certificate = certify.convex(curve, DOMAIN)
    assert isinstance(certificate, Refuted), certificate
    assert is_true(certificate, curve)
    assert -8.0 <= min(certificate.witness.scores) < max(certificate.witness.scores) <= 8.0


def test_parsed_formulas():
    composed = certify.convex(sm.parse("exp(tanh(z)) + z^3", lower=False))
    assert composed.how == "a composition of functions that never decrease"
    assert certify.convex(sm.parse("z + sin(z)/2"), DOMAIN).boxes >= 1
    falling = sm.parse("where(z > 0.3, z - 0.001, z)")
    assert is_true(certify.convex(falling, DOMAIN), falling)
    assert certify.odd(sm.parse("z*abs(z)*tanh(z^2)"))


def test_a_formula_that_does_not_run_on_ranges_is_undecided():
    certificate = certify.convex(OnlyAFormula(lambda z: z if isinstance(z, (float, np.ndarray)) else z.unknown), DOMAIN)
    assert isinstance(certificate, Undecided)
    assert "does not run on ranges" in str(certificate)


def test_a_search_can_be_cut_short():
    curve = unchecked(sm.FromLink(f.cosh), gamma=1.2)
    assert isinstance(certify.convex(curve, (-3.0, 3.0), effort=certify.Effort(boxes=2)), Undecided)
    assert isinstance(certify.convex(curve, (-3.0, 3.0), effort=certify.Effort(seconds=0.0)), Undecided)


def test_unbounded_domains():
    assert certify.convex(sm.FromLink(lambda z: z + f.tanh(z)))
    tail = certify.convex(sm.FromLink(lambda z: z - 1e-7 * z**3))
    assert isinstance(tail, Refuted)


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(n, marks=pytest.mark.slow) for n in range(4, 10))])
def test_certificates_agree_with_dense_sampling(seed):
    """100 random curves for each seed: no false proof, no false witness, few open ends."""
    rng = np.random.default_rng(seed)
    shapes = [f.tanh, f.sin, f.sigmoid, f.arctan, f.softplus, lambda x: f.exp(-f.square(x)), f.arcsinh, f.abs]
    z = np.linspace(-8.0, 8.0, 20_001)
    found = {Proved: 0, Refuted: 0, Undecided: 0}
    for _ in range(100):
        terms = [
            (float(rng.normal()), float(rng.uniform(0.2, 3.0)), float(rng.uniform(-6.0, 6.0)), shapes[rng.integers(8)])
            for _ in range(rng.integers(1, 5))
        ]
        lean = float(rng.uniform(0.0, 4.0))

        def formula(x, terms=terms, lean=lean):
            return lean * x + sum(c * shape(a * (x - b)) for c, a, b, shape in terms)

        curve = sm.FromLink(formula)
        certificate = certify.convex(curve, DOMAIN)
        found[type(certificate)] += 1
        values = formula(z)
        falls = np.diff(values) < -1e-13 * (1.0 + np.abs(values[1:]))
        if isinstance(certificate, Proved):
            assert not falls.any(), terms
            assert np.min(curve.slope(z)) >= -1e-12, terms
        elif isinstance(certificate, Refuted):
            assert is_true(certificate, curve), terms
        else:
            assert not falls.any(), terms  # a visible fall must be found
    assert found[Proved] >= 10
    assert found[Refuted] >= 10
    assert found[Undecided] <= 1, found


# ---------------------------------------------------------------------------- composite Sigmoid: theorems, corollaries


@pytest.mark.parametrize("scaling", [sm.Exp(), sm.Sinh(), sm.Sigmoid(), sm.SmeLU(), sm.Tanh(), sm.AntiExp()], ids=repr)
@pytest.mark.parametrize("gamma", [0.1, 1.0, 5.0])
def test_convex_q_suffices_for_one_class_and_for_many(scaling, gamma):
    assert certify.convex(unchecked(scaling, gamma=gamma))
    assert certify.convex(sm.CompositeSoftmax(scaling, gamma=gamma))


def test_convex_q_is_not_necessary_for_one_class():
    """C45: q = cosh with gamma = 1."""
    assert isinstance(certify.convex_primitive(sm.Cosh(), DOMAIN), Refuted)
    assert certify.convex(unchecked(sm.Cosh(), gamma=1.0))


@pytest.mark.parametrize("gamma", [0.1, 0.5, 0.707, 1.0])
def test_convex_q_is_necessary_for_many_classes(gamma):
    """C56: on the diagonal the loss is the divergence of Q, whatever gamma and the number of classes."""
    softmax = sm.CompositeSoftmax(sm.Cosh(), gamma=gamma, check=False)
    certificate = certify.convex(softmax)
    assert isinstance(certificate, Refuted)
    s, s_hat = certificate.witness.scores
    for classes in (2, 3, 10):
        loss = sm.MatchingLoss(softmax, check=False)(np.full(classes, s_hat), np.full(classes, s))
        assert loss == pytest.approx(certificate.witness.values[0], rel=1e-12)
        assert loss < 0
    polynomial = sm.CompositeSoftmax(sm.AbsPower(1.0, 2.0), gamma=gamma, check=False)
    assert isinstance(certify.convex(polynomial), Refuted)


def test_an_anchor_leaves_it_open():
    anchored = sm.CompositeSoftmax(sm.Cosh(), anchor=0.0, check=False)
    assert isinstance(certify.convex(anchored), Undecided)


def test_the_exact_gamma_of_cosh():
    """C111: sufficient in the paper 1/sqrt 2, exactly 1.3252813..."""
    exact = float(THRESHOLDS["sinh_gamma_max"])
    for alpha, beta, gain in ((1.0, 0.0, 1.0), (0.5, 1.0, 3.0)):
        enclosure = certify.largest_gamma(sm.Cosh().affine(alpha, beta, gain))
        assert exact * gain / alpha in enclosure
        assert enclosure.width < 1e-11
        assert isinstance(enclosure.at_low, Proved)
        assert isinstance(enclosure.at_high, Refuted)
    assert certify.convex(unchecked(sm.Cosh(), gamma=2.0**-0.5))
    for gamma, verdict in ((exact * 0.999, Proved), (exact * 1.001, Refuted)):
        certificate = certify.convex(unchecked(sm.Cosh() + sm.Constant(0.0), gamma=gamma), DOMAIN)
        assert isinstance(certificate, verdict), certificate


def test_the_smallest_c_of_the_polynomial_corollary():
    """C113: enclosures of the exact c, which the paper's c bounds from above."""
    for gamma, d, c_min, paper in THRESHOLDS["poly"]:
        enclosure = certify.smallest_c(d, gamma)
        assert float(c_min) in enclosure, (gamma, d)
        assert enclosure.width < 1e-9
        assert isinstance(enclosure.at_low, Refuted)
        assert isinstance(enclosure.at_high, Proved)
        assert enclosure.low <= float(paper) * (1 + 1e-12)
        assert certify.convex(unchecked(sm.AbsPower(d, float(paper) * (1 + 1e-15)), gamma=gamma))


def test_a_pure_power_has_no_gamma():
    """C112: q = |x|^d without a constant fails for every gamma."""
    for d, gamma in itertools.product((1.0, 2.0), (0.01, 0.5, 2.0)):
        certificate = certify.convex(unchecked(sm.AbsPower(d, 0.0), gamma=gamma), DOMAIN)
        assert isinstance(certificate, Refuted), (d, gamma)


def test_other_largest_gammas():
    assert certify.largest_gamma(sm.Sinh()).low == math.inf
    bounded = certify.largest_gamma(sm.Cosh(), (-0.3, 2.0))
    assert bounded.low > float(THRESHOLDS["sinh_gamma_max"])
    none = certify.largest_gamma(sm.FromPrimitive(f.tanh), DOMAIN)
    assert "with every gamma" in str(none.at_low)
    assert (none.low, none.high) == (0.0, 0.0)  # C110: where Q > 0 and q' < 0 no small gamma helps
    hyperbolic = certify.largest_gamma(sm.FromScoreTransform(lambda z: f.sinh(f.abs(z))), (0.05, 2.0))
    assert 0.861446 == pytest.approx(hyperbolic.low, abs=1e-5)  # C116: valid from 0.5 on, up to here
    square = certify.largest_gamma(sm.FromScoreTransform(f.square), (0.05, 3.0))
    assert "with every gamma" in str(square.at_high)
    assert square.high == 0.0
    shifted = certify.largest_gamma(sm.Cosh(), offset=1.0)
    assert shifted.high < float(THRESHOLDS["sinh_gamma_max"])


INVALID = {
    "sigma": f.sigmoid,
    "softplus": f.softplus,
    "exp(sigma)": lambda z: f.exp(f.sigmoid(z)),
    "exp(tanh)": lambda z: f.exp(f.tanh(z)),
    "a density": lambda z: f.exp(f.exp(-f.square(z))),  # C117: q' of a decaying Q
}


@pytest.mark.parametrize("name", INVALID)
@pytest.mark.parametrize("gamma", [0.1, 0.5, 1.0, 2.0])
def test_the_papers_invalid_score_transforms(name, gamma):
    """C115: decreasing regions for every gamma."""
    curve = unchecked(None, gamma=gamma, f=INVALID[name])
    certificate = certify.convex(curve, DOMAIN)
    assert isinstance(certificate, Refuted), certificate
    assert is_true(certificate, curve)


def test_invalid_transforms_are_valid_to_the_left():
    """C115, condition: on a bounded domain left of the decrease they may be used."""
    assert certify.convex(unchecked(None, gamma=1.0, f=f.softplus), (-8.0, 0.7))
    assert certify.convex(unchecked(None, gamma=1.0, f=f.sigmoid), (-8.0, -1.2))


def test_an_absolute_power_as_transform():
    """C114: for d = 2, gamma = 1 increasing for |x| < 1 and decreasing beyond, against the paper's 'always'."""
    curve = unchecked(None, gamma=1.0, f=lambda z: f.square(z))
    assert certify.convex(curve, (0.05, 0.99))
    assert isinstance(certify.convex(curve, (0.05, 1.5)), Refuted)


@pytest.mark.parametrize(
    ("gamma", "verdict"), [(0.52, Proved), (0.7, Proved), (0.8605, Proved), (0.863, Refuted), (1.0, Refuted)]
)
def test_the_hyperbolic_transform_depends_on_gamma(gamma, verdict):
    """C116: sinh |z| is invalid for gamma = 1, as the paper says, and valid for gamma in [0.5, 0.861446]."""
    curve = unchecked(None, gamma=gamma, f=lambda z: f.sinh(f.abs(z)))
    certificate = certify.convex(curve, (0.05, 2.0))
    assert isinstance(certificate, verdict), certificate


def test_a_scaling_that_is_a_formula():
    """Its Q is enclosed by quadrature with its error."""
    cosh = sm.FromLink(f.cosh)
    assert certify.convex(unchecked(cosh, gamma=1.2), (-3.0, 3.0))
    assert isinstance(certify.convex(unchecked(cosh, gamma=1.33), (-3.0, 3.0)), Refuted)


# --------------------------------------------------------------------------------------------- p, symmetry, flat parts


@pytest.mark.parametrize(
    ("scaling", "domain", "verdict"),
    [
        (sm.Exp(), None, Proved),  # C98
        (sm.Sigmoid().affine(beta=3.0), None, Proved),
        (sm.AntiExp(), None, Proved),  # decreasing, still injective
        (sm.Cosh(), None, Proved),
        (sm.Tanh(), DOMAIN, Refuted),  # C99: an odd q gives an even Q
        (sm.Sinh(), DOMAIN, Refuted),
        (sm.Sinh().affine(beta=-9.0), DOMAIN, Proved),  # ... unless all scores lie on one side
        (sm.FromLink(lambda z: f.exp(z) - 1e-4), DOMAIN, Proved),
        (sm.FromLink(lambda z: f.exp(z) - 1e-3), DOMAIN, Refuted),
    ],
)
def test_monotone_probabilities(scaling, domain, verdict):
    for composite in (unchecked(scaling), sm.CompositeSoftmax(scaling, check=False)):
        certificate = certify.monotone_probability(composite, domain)
        assert isinstance(certificate, verdict), certificate


@pytest.mark.parametrize(
    ("loss", "about", "verdict"),
    [
        (sm.Sinh(), 0.0, Proved),
        (sm.Sigmoid(), 0.0, Proved),  # not an odd link, but its loss does not care about signs
        (sm.Sigmoid().affine(alpha=2.0, beta=1.5), 1.5, Proved),
        (sm.Sigmoid().affine(beta=1.5), 0.0, Refuted),
        (sm.Identity() + sm.Sinh(), 0.0, Proved),
        (sm.Identity(), 7.0, Proved),
        (sm.Logit(), 0.5, Proved),
        (sm.Exp(), 0.0, Refuted),
        (sm.Sinh().capped(-1.0, 2.0), 0.0, Refuted),
        (sm.Sinh().capped(-2.0, 2.0), 0.0, Proved),
        (sm.CompositeSigmoid(sm.Tanh()), 0.0, Proved),  # C46
        (sm.CompositeSigmoid(sm.Sigmoid()), 0.0, Refuted),
        (sm.CompositeSoftmax(sm.Sinh()), 0.0, Proved),  # C100
        (sm.CompositeSoftmax(sm.Sigmoid()), 0.0, Refuted),
        (sm.CompositeSoftmax(sm.Sinh(), rho=(1.0, 2.0)), 0.0, Undecided),
        (sm.Separable(sm.Tanh()), 0.0, Proved),
        (sm.FromLink(f.sinh), 0.0, Undecided),
        (sm.FromLink(f.exp), 0.0, Refuted),
    ],
)
def test_symmetry(loss, about, verdict):
    certificate = certify.odd(loss, about)
    assert isinstance(certificate, verdict), certificate


@pytest.mark.parametrize("curve", [*KINKED, *JUMPING], ids=repr)
def test_flat_regions_are_flat_and_the_rest_is_not(curve):
    regions = certify.flat_regions(curve, (-20.0, 20.0))
    for region in regions:
        inner = np.linspace(region.domain.low, region.domain.high, 9)[1:-1]
        assert np.ptp([float(curve(z)) for z in inner]) == 0.0
    points = np.linspace(-19.97, 19.99, 797)
    covered = np.array([any(bool(r.domain.holds(z)) for r in regions) for z in points])
    steep = np.abs(np.asarray(curve.difference(points, np.full_like(points, 1e-7)))) > 0
    assert not (covered & steep & ~np.isin(points, [r.domain.high for r in regions])).any()
    assert (covered | steep).all()


@pytest.mark.parametrize("curve", SMOOTH, ids=repr)
def test_smooth_curves_have_no_flat_region(curve):
    assert certify.flat_regions(curve) == () or isinstance(curve, sm.Constant) or hasattr(curve, "curves")


def test_flat_regions_of_composites_and_formulas():
    clipped = sm.CompositeSoftmax(sm.SmeLU(c=1.0))  # C73: low scores are clipped, high ones are not
    assert [str(r.domain) for r in certify.flat_regions(clipped)] == ["(-inf, -1]"]
    assert [str(r.domain) for r in certify.flat_regions(sm.CompositeSigmoid(sm.SmeLU()))] == ["(-inf, -1]"]
    relu = sm.FromLink(lambda z: f.maximum(z, 0.0))
    assert [str(r.domain) for r in certify.flat_regions(relu, DOMAIN)] == ["[-8, 0]"]
    assert isinstance(certify.flat(sm.Sigmoid(), (800.0, 900.0)), Undecided)  # 1.0 in double precision, but not flat
    assert isinstance(certify.flat(sm.Sinh(), (0.0, 1.0)), Refuted)
    assert certify.flat(sm.Huber(c=1.0).affine(beta=2.0), (3.0, 5.0))


# --------------------------------------------------------------------------------------------- losses use certificates


def test_losses_refuse_with_the_witness():
    with pytest.raises(ValueError, match=r"^MatchingLoss: .* must not decrease, got h\(.*\) = .* > h\(.*\) = .*, so"):
        sm.MatchingLoss(sm.FromLink(lambda z: z - 1.001 * f.tanh(z)))
    with pytest.raises(ValueError, match=r"^CompositeSigmoid: the link of .* must not decrease, got h\("):
        sm.CompositeSigmoid(f=f.softplus)
    with pytest.raises(ValueError, match=r"^CompositeSoftmax: Q of .* must be convex for many classes, got [Lq]\("):
        sm.CompositeSoftmax(Q=f.sin)
    sm.MatchingLoss(sm.FromLink(lambda z: z - 0.999 * f.tanh(z)))


def test_the_inverse_of_a_proved_formula():
    curve = sm.FromLink(lambda z: z + f.tanh(z))
    assert sm.Inverse(curve)(curve(1.3)) == pytest.approx(1.3, rel=1e-12)
    with pytest.raises(ValueError, match="must be known to increase"):
        sm.Inverse(sm.FromLink(f.sin))


def test_witnesses_hold_in_fifty_digits():
    """The witness of gamma 0.1 % too large, recomputed from the definition."""
    gamma = 1.001 * float(THRESHOLDS["sinh_gamma_max"])
    certificate = certify.convex(unchecked(sm.Cosh(), gamma=gamma))
    with mpmath.workdps(50):
        h = [
            mpmath.cosh(z) / (1 + mpmath.exp(-mpmath.sinh(z) / gamma))
            for z in map(mpmath.mpf, certificate.witness.scores)
        ]
        assert h[0] > h[1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: certify.convex(3.0), "certify.convex: loss must be a MatchingLoss, a potential or a curve, got 3.0."),
        (lambda: certify.convex(sm.CrossEntropy(sm.CompositeSoftmax())), "certify.convex: loss must be a MatchingLoss"),
        (lambda: certify.non_decreasing(sm.CompositeSoftmax()), "certify.non_decreasing: its argument must be a curve"),
        (lambda: certify.convex(sm.Sinh), r"got <class .*>. Try Sinh\(\)."),
        (lambda: certify.convex(sm.Sinh(), (2, 1)), "certify.convex: domain must have its low end below its high end"),
        (lambda: certify.convex(sm.Log(), (-3, -1)), r"certify.convex: domain must share a part with \(0, inf\)"),
        (lambda: certify.monotone_probability(sm.Sinh()), "certify.monotone_probability: expected a composite Sigmoid"),
        (lambda: certify.smallest_c(0.5), "certify.smallest_c: d must be >= 1, got 0.5."),
    ],
)
def test_bad_questions_are_refused_in_words(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


# ----------------------------------------------------------------------------------------------------- students' logits

#: scalings q with their primitives Q in mpmath, of which distillation as log-probabilities is not convex
CURVED = {
    "exp": (sm.Exp().affine(beta=-3.0), lambda x: mpmath.exp(x + 3), lambda x: mpmath.exp(x + 3)),
    "identity": (sm.Identity(), lambda x: x, lambda x: x**2 / 2),
    "sinh": (sm.Sinh().affine(alpha=0.5), lambda x: mpmath.sinh(x / 2), lambda x: 2 * mpmath.cosh(x / 2)),
    "sigmoid": (
        sm.Sigmoid().affine(beta=-2.0),
        lambda x: 1 / (1 + mpmath.exp(-x - 2)),
        lambda x: mpmath.log1p(mpmath.exp(x + 2)),
    ),
    "smelu": (
        sm.SmeLU(c=1.0).affine(beta=-9.0),
        lambda x: min(max((x + 10) / 2, 0), 1),
        lambda x: x + 9 if x >= -8 else max(x + 10, 0) ** 2 / 4,
    ),
}


def exact_loss(q, Q, gamma, student, teacher):
    """From the definition: the potential's divergence between log-probabilities."""
    with mpmath.workdps(60):
        rows = [[mpmath.mpf(x) for x in row] for row in (student, teacher)]
        s_hat, s = ([x - mpmath.log(mpmath.fsum(map(mpmath.exp, row))) for x in row] for row in rows)
        sums = [mpmath.fsum(mpmath.exp(Q(x) / gamma) for x in row) for row in (s_hat, s)]
        links = [q(x) * mpmath.exp(Q(x) / gamma) / sums[1] for x in s]
        line = mpmath.fsum((a - b) * h for a, b, h in zip(s_hat, s, links, strict=True))
        return gamma * mpmath.log(sums[0] / sums[1]) - line


@pytest.mark.parametrize(
    ("name", "gamma"),
    [("exp", 0.3), ("smelu", 1.0), ("sigmoid", 1.0)]
    + [pytest.param(name, gamma, marks=pytest.mark.slow) for name in CURVED for gamma in (0.3, 1.0)],
)
def test_log_probabilities_are_not_convex_in_the_logits(name, gamma):
    scaling, q, Q = CURVED[name]
    loss = sm.MatchingLoss(sm.CompositeSoftmax(scaling, gamma=gamma))
    certificate = certify.convex(loss, canonicalise="log_probabilities")
    if (name, gamma) == ("sigmoid", 1.0):  # nobody knows
        assert isinstance(certificate, Undecided)
        return
    assert isinstance(certificate, Refuted)
    a, middle, b, teacher = certificate.witness.scores
    np.testing.assert_array_equal(middle, 0.5 * (np.array(a) + b))
    exact = [exact_loss(q, Q, gamma, z, teacher) for z in (a, middle, b)]
    assert exact[1] > 0.5 * (exact[0] + exact[2])
    np.testing.assert_allclose(certificate.witness.values, [float(x) for x in exact], rtol=1e-9, atol=1e-30)


def test_the_search_knows_biases_anchors_and_separable_links():
    for potential in (
        sm.CompositeSoftmax(sm.Exp(), gamma=0.3, rho=(1.0, 2.0, 0.5, 1.0, 3.0)),
        sm.CompositeSoftmax(gamma=0.2, anchor=-1.0),
        sm.Separable(sm.Identity()),
    ):
        certificate = certify.convex(potential, canonicalise="log_probabilities")
        assert isinstance(certificate, Refuted), potential
        a, middle, b, teacher = map(np.array, certificate.witness.scores)
        assert len(a) == len(potential.rho) if getattr(potential, "rho", None) else len(a) in (2, 3, 4)
        found = [
            distillation_loss(z, teacher, sm.MatchingLoss(potential), canonicalise="log_probabilities")
            for z in (a, middle, b)
        ]
        assert found[1] > 0.5 * (found[0] + found[2])


def test_what_sees_no_levels_stays_convex():
    for potential in (
        sm.CompositeSoftmax(),
        sm.CompositeSoftmax(sm.Constant(2.0), gamma=0.3, rho=(1.0, 2.0)),
        sm.CompositeSoftmax(sm.Exp().capped(0.0, 1.0)),  # log-probabilities are not positive
        sm.Separable(sm.ReLU()),
    ):
        assert isinstance(certify.convex(potential, canonicalise="log_probabilities"), Proved), potential
    assert isinstance(certify.convex(sm.CompositeSoftmax(sm.Tanh()), canonicalise="log_probabilities"), Undecided)


def test_a_linear_way_keeps_a_loss_convex():
    loss = sm.CompositeSoftmax(sm.Exp().affine(beta=-3.0), gamma=0.3)
    certificate = certify.convex(loss, canonicalise="teacher_maximum")
    assert certificate.how == "scores are linear in the logits; Q is convex: Exp never decreases"
    never = sm.CompositeSoftmax(sm.Cosh(), gamma=3.0, check=False)
    refuted = certify.convex(never, (-2, 2), canonicalise="teacher_maximum")
    assert isinstance(refuted, Refuted)
    assert all(-2 <= x <= 2 for row in refuted.witness.scores for x in row)


def test_a_module_brings_what_becomes_of_its_logits():
    potential = sm.CompositeSoftmax(sm.Exp(), gamma=0.3)
    assert certify.convex(sm.torch.MatchingLoss(potential))
    assert isinstance(certify.convex(sm.torch.MatchingLoss(potential, canonicalise=True)), Refuted)


def test_a_certificate_says_in_what_a_loss_is_convex():
    softmax, curved = sm.CompositeSoftmax(), sm.CompositeSoftmax(sm.Cosh(), check=False)
    potentials = (sm.Exp(), sm.Cosh(), sm.parse("z + tanh(z)"), sm.PerLabel({0: sm.Exp()}), sm.Separable(sm.Exp()))
    for potential in (*potentials, softmax, curved):
        assert certify.convex(potential, (-2, 2)).statement == "the loss is convex in the predicted scores", potential
    for how in ("log_probabilities", "teacher_maximum"):
        assert certify.convex(softmax, canonicalise=how).statement.startswith(
            "the loss is convex in the student's logits"
        )


def test_what_logits_cannot_be_asked_of():
    with pytest.raises(TypeError, match=r"certify.convex: canonicalise must be None for a loss of single scores"):
        certify.convex(sm.Exp(), canonicalise="log_probabilities")
    with pytest.raises(ValueError, match=r"certify.convex: canonicalise must be one of .*, got 'centred'"):
        certify.convex(sm.CompositeSoftmax(), canonicalise="centred")


def test_a_slope_says_nothing_where_a_condition_changes():
    """Both branches fall, and between them the curve jumps up."""
    curve = sm.parse("where(z<0,-z,10-z)", lower=False)
    found = certify.non_decreasing(curve, (-8.0, 8.0))
    assert isinstance(found, Refuted)
    assert found.witness.scores != (0.0,)
    assert negative_slope(curve, 0.0) is None
    assert negative_slope(curve, 0.5) == -1.0


@pytest.mark.parametrize("text", ["step(z^2)/10", "where(z==0,0,1)/10", "-step(z^2)/3", "where(z==0,1,sign(z)^2)/7"])
def test_a_constant_that_a_choice_makes_is_not_rounded(text):
    """Only at 0 has it another value, which no loss takes notice of."""
    assert not isinstance(certify.convex(sm.parse(text, lower=False), (-8.0, 8.0)), Refuted)
