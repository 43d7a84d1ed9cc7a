"""No false proof, refutation or witness; and the 60 digits that certificates are held against are right themselves."""

import itertools
import math
import random

import mpmath
import pytest
from flint import arb
from fuzzing import exact, oracle, proofs
from fuzzing.proofs import Case, Outcome

import selmatch as sm
from selmatch.certificates import Proved, Refuted, Witness
from selmatch.curve import Interval

DOMAIN = Interval(-8.0, 8.0)


def number(ball):
    return mpmath.mpf(ball.mid().str(60, radius=False))


# ---------------------------------------------------------------------------------------------------------- definitions

FORMULAS = {
    "-z^2+2*z/4-1": lambda z: -(z * z) + z / 2 - 1,
    "2^-z^2": lambda z: mpmath.mpf(2) ** -(z * z),
    "2^3^2*z": lambda z: 512 * z,
    "z-1-2-3": lambda z: z - 6,
    "z/2/5*3": lambda z: z * 3 / 10,
    "|z-1|*|z|": lambda z: abs(z - 1) * abs(z),
    "0.1*z": lambda z: mpmath.mpf(0.1) * z,
    "e^z+exp(1)": lambda z: mpmath.exp(z) + mpmath.e,
    "sigmoid(z)+softplus(-z)": lambda z: 1 / (1 + mpmath.exp(-z)) + mpmath.log(1 + mpmath.exp(-z)),
    "signedlog(-z)": lambda z: -mpmath.sign(z) * mpmath.log(1 + abs(z)),
    "where(z<0 and z>-1 or z==3,1,2)": lambda z: 1 if -1 < z < 0 or z == 3 else 2,
    "clip(z,-1,2)+huber(z,0.5)+smelu(z,2)": lambda z: (
        min(max(z, -1), 2) + min(max(z, -0.5), 0.5) + min(max((z + 2) / mpmath.mpf(4), 0), 1)
    ),
    "sign(z)+side(z)+step(z)": lambda z: mpmath.sign(z) + (-1 if z < 0 else 1) + (1 if z > 0 else 0),
    "min(z,1,-2)-max(z,1)": lambda z: min(z, 1, -2) - max(z, 1),
    "arctan2(z,-2)+atan(z)": lambda z: mpmath.atan2(z, -2) + mpmath.atan(z),
    "(z^2)^(1/3)+(-2)^3": lambda z: mpmath.mpf(z * z) ** (mpmath.mpf(1) / 3) - 8,
    "logit(0.3+z/100)": lambda z: mpmath.log(
        (mpmath.mpf(0.3) + z / mpmath.mpf(100)) / (1 - mpmath.mpf(0.3) - z / mpmath.mpf(100))
    ),
}


@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_means_what_it_says(text):
    function = exact.formula(text)
    with mpmath.workdps(60):
        for z in (-2.5, -0.75, 0.25, 3.0):
            found, expected = number(exact.value_at(function, exact.precisely(z))), FORMULAS[text](mpmath.mpf(z))
            assert abs(found - expected) <= mpmath.mpf(10) ** -50 * (1 + abs(expected))


SOURCES = (
    "Identity()", "Constant(2.0)", "Sigmoid()", "Tanh()", "Sinh()", "Cosh()", "Exp()", "AntiExp()", "Arctan()",
    "Arcsinh()", "ReLU()", "Step()", "Polynomial((1.0, -2.0, 0.5), 0.3)", "AbsPower(1.5, 0.4)",
    "Piecewise((-1.0, 0.5, 2.0), (Identity(), Sinh()))", "2.0 * Tanh() + Exp() + 1.0", "Sinh().capped(-1.0, None)",
    "Cosh().affine(2.0, -0.3, 0.7)", "CompositeSigmoid(Sinh().affine(0.5, 0.2), 0.7, 0.1)",
    "own(lambda x: f.where(x > 0.1, f.tanh(x), f.square(x)))",
)  # fmt: skip


@pytest.mark.parametrize("source", SOURCES)
def test_a_source_means_the_same_curve_to_both_readers(source):
    curve, definition = proofs.library_curve(source), proofs.exact_curve(source)
    for z in (-1.75, -0.5, 0.0, 0.625, 3.0):
        assert float(exact.value_at(definition, exact.precisely(z)).mid()) == pytest.approx(float(curve(z)), rel=1e-13)
        if definition.primitive is not None:
            found = float(exact.value_at(definition.primitive, exact.precisely(z)).mid())
            assert found == pytest.approx(float(curve.primitive(z)), rel=1e-13, abs=1e-15)


@pytest.mark.parametrize("text", FORMULAS)
def test_a_slope_is_the_derivative(text):
    function = exact.formula(text)
    with mpmath.workdps(40):
        for z in (-2.5, -0.75, 0.25, 3.5):
            slope = function(exact.Exact(exact.precisely(z), arb(1))).slope
            expected = mpmath.diff(FORMULAS[text], mpmath.mpf(z))
            assert abs((0 if slope is None else number(slope)) - expected) <= 1e-12 * (1 + abs(expected))


@pytest.mark.parametrize(
    ("text", "negative"),
    [("z-1e-30*exp(-(1e9*(z+1))^2)", False), ("max(z,9)+exp(-(1e9*(z+1))^2)", True), ("max(z,1)-z", None),
     ("abs(z-1)", None), ("clip(1-z,0,1-exp(0*z))", None), ("where(z>=1,-z,z)", None), ("z-2*max(1,z)+step(z-2)", None),
     ("2-z", True), ("max(1.5,log(z))/z", True)],
)  # fmt: skip
def test_a_slope_says_nothing_where_branches_meet(text, negative):
    found = exact.negative_slope_at(exact.formula(text), exact.precisely(1.0))
    assert found is bool(negative)
    if negative is not None:
        assert oracle.falls_about(exact.formula(text), 1.0, DOMAIN) is negative


# ----------------------------------------------------------------------------------------------------------- the search

FALLING = (
    "-z", "sin(z)", "1e20*z-1000*z-1e20*z", "0.1*(sinh(3*z)-3.0000000000000004*z)", "z-1e-3*sign(z-0.31)",
    "max(z,0.40625)+where(1.3*(z-0.40625)<0,1e-15,0)", "where(3*z>1,z-1e-18,z)", "where(z==0.1,z+1e-40,z)",
    "z-2e-12*exp(-((z-1.23456)*1e12)^2)", "where(z>=8,7.99,z)", "where(z<=-8,0,z)", "1e-300*(abs(z)-z/2)+1",
    "where(sinh(z)>0.3,z-1e-9,z)", "where(z!=2,z,2+1e-25)", "-1e-200*(1e-200*z)",
)  # fmt: skip
RISING = (
    "z", "1", "1e20*z+1000*z-1e20*z", "0.1*(sinh(3*z)-2.9999999999999996*z)", "z+1e-3*sign(z-0.31)", "z+sin(z)", "z^3",
    "z-0.5e-12*exp(-((z-1.23456)*1e12)^2)", "where(z==0,-z,z)", "1e-300*(abs(z)+z)+1", "tanh(1e20*z)",
    "max(z,0.40625)+where(1.3*(z-0.40625)<0,-1e-15,0)", "9*z-3e-9*cos(1e9*z)", "sinh(z)-(exp(z)-exp(-z))/2",
    "(z-2)^3/3",
)  # fmt: skip


def places(text):
    return proofs._places(Case("", "non_decreasing", text))


@pytest.mark.parametrize("text", FALLING)
def test_the_search_finds_falls(text):
    function = exact.formula(text)
    fall = oracle.find_fall(function, DOMAIN, places(text))
    assert fall is not None
    a, b = fall
    assert oracle.falls(function, a, b)
    assert not oracle.falls(function, b, a)


@pytest.mark.parametrize("text", RISING)
def test_the_search_invents_no_falls(text):
    assert oracle.find_fall(exact.formula(text), DOMAIN, places(text)) is None


def test_a_fall_at_a_single_score_is_none_of_the_integral():
    for text, lasting in (("where(z==2,0,z)", False), ("where(z>2,z-1,z)", True)):
        function = exact.formula(text)
        fall = oracle.find_fall(function, DOMAIN, (2.0,))
        assert fall is not None
        assert oracle.falls_beside(function, *fall) is lasting


def test_differences_signs_asymmetries_and_dents_are_found():
    def made(text):
        return exact.formula(text)

    assert oracle.find_difference(made("z/3*3-z"), DOMAIN) is None
    assert oracle.find_difference(made("where(z==0.1,1e-60,0)"), DOMAIN, (0.1,))
    assert oracle.find_both_signs(made("z^2"), DOMAIN) is None
    assert oracle.find_both_signs(made("z^2-1e-18"), DOMAIN, (0.0,))
    assert oracle.find_asymmetry(made("sinh(z)"), DOMAIN, 0.0) is None
    assert oracle.find_asymmetry(made("sinh(z-1)+7"), Interval(-7.0, 9.0), 1.0) is None
    assert oracle.find_asymmetry(made("sinh(z)+1e-30*z^2"), DOMAIN, 0.0)
    assert oracle.find_dent(made("z^4"), DOMAIN) is None
    assert oracle.find_dent(made("z^4-z^2"), DOMAIN)


@pytest.mark.parametrize(
    "source", ["Sinh()", "Tanh().affine(2.0, 0.5)", "AbsPower(1.5, 0.4)", "Exp().capped(-1.0, 1.0)"]
)
def test_divergences_agree_with_and_without_an_antiderivative(source):
    curve = proofs.exact_curve(source)
    for s, s_hat in itertools.permutations((-2.0, 0.25, 1.5), 2):
        known = oracle.divergence(curve, s, s_hat)
        integral = oracle.divergence(exact.ExactCurve(curve), s, s_hat, (0.0, -1.0, 1.0))
        assert float(abs(known - integral).mid()) < 1e-6 * float(abs(known).mid())


@pytest.mark.parametrize(("s", "s_hat", "places"), [(-2.8, 3.6, (49.3,)), (2.8, -3.6, (0.0,)), (1.0, 1.5, ())])
def test_the_integral_of_a_faint_wave_lies_within_its_error(s, s_hat, places):
    size, pace = 6.5799999999999994e-08, 49.3
    found = oracle.divergence(exact.formula(f"z+{size}*cos({pace}*z)+1e300"), s, s_hat, places)
    with mpmath.workdps(60):
        a, k, x, y = map(mpmath.mpf, (size, pace, s, s_hat))
        true = (y - x) ** 2 / 2 + a * (mpmath.sin(k * y) - mpmath.sin(k * x)) / k - (y - x) * a * mpmath.cos(k * x)
        assert abs(number(found) - true) <= mpmath.mpf(float(found.rad()))
        assert float(found.rad()) < 1e-8 * abs(true)


def test_gammas_and_cs_of_the_paper():
    gamma, c = 1.325281340017050, math.sqrt(2.0)
    cosh = Case("", "largest_gamma", "Cosh().affine(1.0, 0.0, 1.0)", (-math.inf, math.inf))
    assert not proofs._composite_falls(cosh, gamma * (1.0 - 1e-13))
    assert proofs._composite_falls(cosh, gamma * (1.0 + 1e-13))
    scaled = cosh._replace(source="Cosh().affine(2.0, 0.7, 3.0)")
    assert not proofs._composite_falls(scaled, 1.5 * gamma * (1.0 - 1e-13))
    assert proofs._composite_falls(scaled, 1.5 * gamma * (1.0 + 1e-13))
    power = Case("", "smallest_c", "(1.0, 1.0)")
    assert proofs._composite_falls(power, c * (1.0 - 1e-13))
    assert not proofs._composite_falls(power, c * (1.0 + 1e-13))


# ----------------------------------------------------------------------------------------------------------- judgements


def judged(source, answer, question="non_decreasing"):
    return proofs._judged(Case("", question, source), answer).fault


def refuted(text, scores, values=()):
    return Refuted("the curve never decreases", DOMAIN, "by hand", witness=Witness(text, scores, values))


def test_false_certificates_are_noticed_and_true_ones_are_not():
    proved = sm.certify.non_decreasing(sm.Tanh(), DOMAIN)
    assert judged("Tanh()", proved) == ""
    assert judged("Cosh()", proved) == "false proof"
    rise = refuted("h(-1) = -1.29193 > h(-0.9) = -1.2864", (-1.0, -0.9))
    assert judged("parse('z-cos(z)^2')", rise) == "false witness"
    good = refuted("h(-1) = 1.54308 > h(0) = 1", (-1.0, 0.0))
    assert judged("Cosh()", good) == ""
    assert judged("Tanh()", good) == "false witness"
    assert judged("Cosh()", refuted("h(-1) = 1.54309 > h(0) = 1", (-1.0, 0.0))) == "false witness"  # a wrong digit
    assert judged("Cosh()", refuted("h(0) = 1 > h(-1) = 1.54308", (0.0, -1.0))) == "false witness"  # a wrong order
    assert judged("Cosh()", refuted("h(-9) = 4051.54 > h(0) = 1", (-9.0, 0.0))) == "false witness"  # outside
    assert judged("Cosh()", refuted("at -1 the slope is at most -1.18", (-1.0,), (-1.18,))) == ""
    assert judged("Cosh()", refuted("at 1 the slope is at most -1.18", (1.0,), (-1.18,))) == "false witness"
    assert judged("parse('z^-3')", refuted("h(-1) = -1 > h(0) = inf", (-1.0, 0.0))) == "false witness"
    assert judged("parse('1.7e-322*z^2')", refuted("h(-1) = 2e-322 > h(0) = 0", (-1.0, 0.0))) == "false witness"
    assert judged("parse('1.7e-322*z^2')", refuted("h(-1) > h(0)", (-1.0, 0.0))) == ""
    assert judged("parse('where(z==-1,1,0)')", refuted("h(-1) = 1 > h(0) = 0", (-1.0, 0.0))) == ""
    assert (
        judged("parse('where(z==-1,1,0)')", refuted("h(-1) = 1 > h(0) = 0", (-1.0, 0.0)), "convex") == "false witness"
    )
    assert judged("parse('log(z-9)')", refuted("h(-1) = 0 > h(0) = -1", (-1.0, 0.0))) == "false witness"
    wave = "parse('9*z-3e-6*cos(1e9*z)')"
    assert judged(wave, refuted("D_Q(2; 1) = -112 < 0", (1.0, 2.0)), "convex_primitive") == "false witness"
    assert judged("Cosh()", refuted("D_Q(-2; -1) = -0.90858 < 0", (-1.0, -2.0)), "convex_primitive") == ""
    jump = "parse('where(3./z>(z)^0.5,|z|,asin(0))')"  # no place that the source names
    assert judged(jump, refuted("D_Q(2.082; 2.074) = -0.00395564 < 0", (2.074, 2.082)), "convex_primitive") == ""
    odd = refuted("L(1, 0) = 0.718282, but L(-1, 0) = 0.367879", (0.0, 1.0))
    assert judged("Exp()", odd, "odd") == ""
    assert judged("Tanh()", odd, "odd") == "false witness"
    slight = refuted("L(1.2, 2.8) = 1.280000001, but L(-1.2, -2.8) = 1.279999999", (2.8, 1.2))
    assert judged("parse('z+9.08e-10*cos(85.2*z)')", slight, "odd") == ""
    assert judged("Identity()", slight, "odd") == "false witness"


def test_what_raises_or_does_not_verify_is_noticed(monkeypatch):
    case = Case("", "non_decreasing", "Tanh()")
    monkeypatch.setattr(Proved, "verify", lambda self: False, raising=False)
    assert proofs.check(case).fault == "unverified"
    monkeypatch.setattr(sm.certify, "non_decreasing", lambda *arguments, **options: 1 / 0)
    assert proofs.check(case).fault == "exception"
    assert proofs.check(case._replace(source="parse('no formula')")).verdict == "refused"


def test_a_case_is_reproduced_by_its_one_line():
    for case in itertools.islice(proofs.cases(random.Random(5)), 50):
        assert eval(repr(case), {"Case": Case, "inf": math.inf}) == case
        assert "\n" not in repr(case)


# --------------------------------------------------------------------------------------------------------- certificates


@pytest.mark.parametrize("case", proofs.NAMED, ids=lambda case: case.source[:60])
def test_named_questions_are_answered_rightly_or_not_at_all(case):
    assert proofs.check(case).fault == ""


@pytest.mark.slow
def test_waves_too_quick_for_quadrature_have_no_false_witness():
    assert proofs.check(proofs.QUICK_WAVES).fault == ""


@pytest.mark.parametrize("seed", range(5))
def test_random_questions_are_answered_rightly_or_not_at_all(seed):
    """Make fuzz-proofs asks many more."""
    questions = itertools.islice(proofs.cases(random.Random(seed)), 100)
    tallies = proofs.tallied(proofs.tried(questions, boxes=100))
    assert not any(tally.faults for tally in tallies.values()), f"\n{proofs.report(tallies)}"


def test_the_report_names_families_faults_and_examples():
    case = Case("jumps", "convex", "Tanh()")
    outcomes = Outcome("proved", "false proof", "because"), Outcome("undecided")
    tallies = proofs.tallied((case, outcome, 0.1) for outcome in outcomes)
    text = proofs.report(tallies)
    assert "jumps" in text
    assert repr(case) in text
    assert "because" in text
