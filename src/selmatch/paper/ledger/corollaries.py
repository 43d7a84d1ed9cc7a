"""Corollaries on scalings without a convex Q, and score-transforms that cannot be used."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import selmatch as sm
from selmatch import functions as F
from selmatch.certificates import Enclosure
from selmatch.paper import score_transforms
from selmatch.paper.ledger.entries import claim, found
from selmatch.paper.ledger.measuring import (
    DIFFERENCES,
    ROUNDING,
    agree,
    bend_of,
    bisect,
    deviation,
    falls,
    near,
    refuted,
    slope_of,
)
from selmatch.paper.records import CONDITION, ERRATUM, WORDING
from selmatch.paper.score_transforms import link_of

APPENDIX = "Extensions appendix"


def certificate(threshold: Callable[..., Enclosure], *arguments: Any, value: float) -> tuple[bool, str]:
    """Whether nothing speaks against a threshold found by sampling, and whether it is proved."""
    try:
        enclosure = threshold(*arguments)
    except ImportError:
        return True, "not certified, which needs python-flint"
    agrees = abs(value - enclosure.high) < 1e-6
    return agrees, "certified" if agrees else f"certified is {enclosure.high:.10g} instead"


def sign_factor(scaling: sm.Curve, gamma: float, z: np.ndarray) -> np.ndarray:
    """The left side of the paper's condition, q' + (1 - p) q^2 / gamma."""
    curve = sm.CompositeSigmoid(scaling, gamma, check=False)
    return curve.bracket(scaling.slope(z), curve.logit(z), scaling(z))


@claim(
    "C107", f"{APPENDIX}, cor:scalar_match_loss", "Convex in the prediction exactly where q' + (1 - p) q^2/gamma >= 0."
)
def condition_decides():
    z = np.linspace(-3.0, 3.0, 61)
    signs = []
    for q in (sm.Cosh(), sm.AbsPower(1.0, 0.5), sm.FromPrimitive(F.tanh), sm.Sinh()):
        for gamma in (0.3, 1.0, 2.0):
            curve = sm.CompositeSigmoid(q, gamma, check=False)
            factor, slopes = sign_factor(q, gamma, z), slope_of(curve, z)
            clear = (np.abs(factor) > 1e-3) & (np.abs(slopes) > 1e-9)  # differences cannot see smaller slopes
            signs.append(np.sign(factor[clear]) == np.sign(slopes[clear]))
    agreeing = np.concatenate(signs)
    both = [bool(sm.CompositeSigmoid(sm.Cosh(), 2.0, check=False).slope(-0.5) < 0.0), sm.Cosh().largest_gamma < 2.0]
    return found(
        "four scalings, three gammas: the condition and the slope of the link have one sign at {count:.0f} of "
        "{all:.0f} points",
        agreeing,
        both,
        count=agreeing.sum(),
        all=agreeing.size,
    )


@claim("C108", f"{APPENDIX}, cor:scalar_match_loss_f", "The same condition in terms of f = e^Q.")
def condition_in_f():
    z = np.array([-1.2, 0.4, 1.3])
    apart = simple = 0.0
    for q in (sm.Sinh(), sm.Exp(), sm.Tanh(), sm.Cosh()):
        f, first, second = q.score_transform(z), slope_of(q.score_transform, z), bend_of(q.score_transform, z)
        for gamma in (0.3, 1.0, 2.0):
            p = f ** (1 / gamma) / (1 + f ** (1 / gamma))
            printed = second + (1 / gamma - 1 - p / gamma) * first**2 / f
            apart = max(apart, deviation(printed / f, sign_factor(q, gamma, z)))
        simple = max(simple, deviation((second - first**2 / (1 + f)) / f, sign_factor(q, 1.0, z)))
    return found(
        "four scalings, three gammas: differs by {apart} (f'' by differences); the form for gamma = 1 by {simple}",
        max(apart, simple) < 1e-5,  # fourth order with derivatives of e^e^z
        apart=apart,
        simple=simple,
    )


@claim("C109", f"{APPENDIX}, cor:f_grad_condition", "With gamma = 1, f' must be non-decreasing.")
def f_must_be_convex():
    z = np.linspace(-3.0, 3.0, 120)  # no sample near 0, where |z| + .5 has a kink

    def bends(q, gamma, z):
        """(f^(1/gamma))'' by differences, as a share of f^(1/gamma), and the slope of the link."""

        def f(u):
            return q.score_transform(u) ** (1.0 / gamma)

        return bend_of(f, z) / f(z), sm.CompositeSigmoid(q, gamma, check=False).slope(z)

    cases = [
        bends(q, gamma, z) for q in (sm.Cosh(), sm.AbsPower(1.0, 0.5), sm.FromPrimitive(F.tanh)) for gamma in (0.5, 1.0)
    ]
    bent, slopes = (np.concatenate(values) for values in zip(*cases, strict=True))
    downward = bent < -1e-4
    tanh = bends(sm.FromPrimitive(F.tanh), 1.0, 1.0)
    converse = bends(sm.FromPrimitive(F.tanh), 1.0, 0.3)
    return found(
        "three scalings, gamma = .5, 1: f^(1/gamma) bends down at {count:.0f} of {all:.0f} scores, and the link falls "
        "at each of them; Q = tanh, gamma = 1, z = 1: f''/f and h' are {tanh}. Not conversely: at z = .3 they are "
        "{converse}",
        downward.any(),
        slopes[downward] < 0.0,
        bent[slopes >= 0.0] >= -1e-4,
        near(tanh, [-0.4633, -0.3978], 1.0),
        converse[0] > 0.3 > 0.0 > converse[1],
        count=downward.sum(),
        all=downward.size,
        tanh=tanh,
        converse=converse,
    )


@claim(
    "C110",
    f"{APPENDIX}, introduction",
    'For one class, "decreasing gamma [...] can also ensure h\'(z) >= 0 for z in S".',
    CONDITION,
    "It can, not always. Where q' < 0: with Q <= 0 and q not 0 every small enough gamma helps; with Q > 0 only the "
    "gammas of a window with two ends, if there is one; with q = 0 none. For many classes: C57.",
)
def a_smaller_gamma_can_help():
    gammas = (0.05, 0.2, 0.5, 1.0, 2.0)
    sinh_of_norm = [float(link_of(score_transforms.SINH_OF_NORM, gamma).slope(2.0)) for gamma in (10.0, 2.0, 0.5, 0.2)]
    q = sm.FromPrimitive(F.tanh)
    positive = [float(sign_factor(q, gamma, np.array([1.0]))[0]) for gamma in gammas]
    negative = [float(sign_factor(sm.Cosh(), gamma, np.array([-1.0]))[0]) for gamma in (2.0, 0.5)]
    zero, flat = (
        [float(sm.CompositeSigmoid(Q=Q, gamma=gamma, check=False).slope(0.0)) for gamma in (1.0, 0.2, 0.1)]
        for Q in (lambda z: z - F.square(z), lambda z: -1.0 - F.square(z))
    )
    return found(
        "Q = log sinh|z| at z = 2 (Q > 0): slope {sinh_of_norm} for gamma 10, 2, .5, .2; Q = tanh at z = 1 (Q > 0): "
        "{positive} for gamma .05, .2, .5, 1, 2; Q = sinh at -1 (Q < 0): {negative} for 2, "
        ".5; Q = z - z^2 at 0 (Q = 0, q = 1): slope {zero} for 1, .2, .1; Q = -1 - z^2 at 0 (q = 0): {flat}",
        near(sinh_of_norm, [-0.0136669, 0.0716128, 0.0706508, -0.0673551], 0.01),
        near(positive, [-0.640, -0.621, -0.577, -0.584, -0.604], 1.5),
        negative[0] < 0.0 < negative[1],
        agree(zero, [-0.75, 0.25, 1.5]),
        np.array(flat) < 0.0,
        sinh_of_norm=sinh_of_norm,
        positive=positive,
        negative=negative,
        zero=zero,
        flat=flat,
    )


@claim("C111", f"{APPENDIX}, cor:sinh", "Q = sinh: gamma <= 1/sqrt 2 suffices (not sharp: 1.3252813400 does).")
def sharp_gamma_for_sinh():
    exact = sm.Cosh().largest_gamma
    z = -np.arange(1600) / 400.0
    margins = [
        sign_factor(sm.Cosh(), gamma, z).min() for gamma in (1 / math.sqrt(2.0), 1.0, exact - 1e-3, exact + 1e-3)
    ]
    tripled = sm.Cosh().affine(gain=3.0).largest_gamma / exact
    proved, how = certificate(sm.certify.largest_gamma, sm.Cosh(), value=exact)
    return found(
        "least factor for gamma = .7071, 1, gamma* - .001, gamma* + .001: {margins}; gamma* = {exact:.10f} "
        f"({how}), "
        "and 3 times that with an amplitude of 3 ({tripled})",
        proved,
        agree(exact, 1.325281340017, 1e-11),
        np.sign(margins) == [1, 1, 1, -1],
        near(margins[2:], [0.00074, -0.00074], 10.0),
        agree(tripled, 3.0),
        margins=margins,
        exact=exact,
        tripled=tripled,
    )


@claim("C112", f"{APPENDIX}, before cor:poly", "q = |x|^d without a constant fails.")
def pure_powers_fail():
    z = -np.array([1e-2, 1e-4])
    factors = [sign_factor(sm.AbsPower(d, 0.0), gamma, z).max() for d in (1.0, 2.0, 3.0) for gamma in (0.01, 1.0)]
    return found(
        "just below 0 the factor is negative for d = 1, 2, 3 and gamma .01, 1: {factors}",
        np.array(factors) < 0.0,
        factors=factors,
    )


@claim("C113", f"{APPENDIX}, cor:poly", "c >= max(sqrt(2 gamma d), gamma d - 1/2) suffices (sharp only for d = 1).")
def sharp_constants_for_powers():
    cases = ((4.0, 1.0), (0.5, 2.0), (2.0, 3.0))
    z = -np.append(np.linspace(0.0, 3.0, 6001), 1e-12)  # for d = 1 the worst score is just below 0

    def smallest(gamma, d):
        low, high = 0.0, 5.0
        for _ in range(40):
            c = 0.5 * (low + high)
            low, high = (low, c) if sign_factor(sm.AbsPower(d, c), gamma, z).min() >= 0.0 else (c, high)
        return high

    needed = [smallest(gamma, d) for gamma, d in cases]
    paper = [max(math.sqrt(2 * gamma * d), gamma * d - 0.5) for gamma, d in cases]
    certificates = [
        certificate(sm.certify.smallest_c, d, gamma, value=c) for (gamma, d), c in zip(cases, needed, strict=True)
    ]
    return found(
        "(gamma, d) = (4, 1), (.5, 2), (2, 3): c = {needed:.6f} is needed "
        f"({', '.join(dict.fromkeys(how for _, how in certificates))}), "
        "{paper} is the paper's",
        agree(needed, [2.828427125, 0.634383384, 1.875819109], 1e-6),
        [proved for proved, _ in certificates],
        np.array(paper) >= needed,
        needed=needed,
        paper=paper,
    )


# ---------------------------------------------------------------------------------------- invalid score-transforms


@claim(
    "C114",
    f"{APPENDIX}, invalid score-transforms",
    "f = |z|^d always gives a decreasing link with a discontinuity.",
    ERRATUM,
    "For d > 1 the link is continuous, and increasing while |x|^d < d - 1 (gamma = 1). It is invalid on all scores, "
    "because its tail decreases; on a small S it can be used.",
)
def powers_as_score_transforms():
    square = link_of(score_transforms.SQUARE)
    z = np.array([0.5, 0.9, 1.0, 1.1])
    values, small = square(z), square(np.array([-1e-6, 1e-6]))
    absolute = link_of(score_transforms.NORM)(np.array([-1e-6, 1e-6]))
    return found(
        "d = 2: link at .5, .9, 1, 1.1: {values}, around 0: {small} (continuous); d = 1 jumps: {absolute}",
        near(values, [0.8, 0.9945, 1.0, 0.9955], 1.0),
        np.abs(small) < 1e-5,
        near(absolute, [-1.0, 1.0], 1.0),
        values=values,
        small=small,
        absolute=absolute,
    )


@claim(
    "C115",
    f"{APPENDIX}, invalid score-transforms",
    "f = e^sigmoid, e^tanh, Softplus, Sigmoid: links with decreasing parts.",
)
def links_that_fall():
    transforms = {
        score_transforms.EXP_SIGMOID: (-8.0, 8.0),
        score_transforms.EXP_TANH: (-6.0, 6.0),
        score_transforms.SOFTPLUS: (-8.0, 20.0),
        score_transforms.SIGMOID: (-8.0, 8.0),
    }
    first, all_fall = [], []
    for transform, (low, high) in transforms.items():
        z = np.linspace(low, high, 401)
        starts = [z[np.argmax(falls(link_of(transform, gamma)(z)))] for gamma in (0.1, 0.5, 1.0, 2.0)]
        all_fall += [start > low for start in starts]
        slope = link_of(transform).slope
        first.append(bisect(lambda z, slope=slope: slope(z) >= 0.0, starts[2] - 0.2, starts[2] + 0.2))
    return found(
        "with gamma .1, .5, 1, 2 all four fall somewhere; with gamma = 1 from {first} on (left of that they can be "
        "used)",
        all_fall,
        agree(first, [0.18244254, 0.21660227, 0.76369568, -0.5 * math.log(2.0)], 1e-8),
        refuted(sm.certify.convex(link_of(score_transforms.EXP_SIGMOID), (-8, 8))),
        first=first,
    )


@claim(
    "C116",
    f"{APPENDIX}, invalid score-transforms",
    "f = sinh|z| cannot be used.",
    ERRATUM,
    "Right for gamma = 1, where the link falls on (0, 0.881). With gamma = 1/2 it is tanh exactly, and it increases "
    "for gamma from 0.5 to 0.861446.",
)
def sinh_of_norm_can_be_used():
    z = np.linspace(0.01, 8.0, 800)
    falling = z[:-1][falls(link_of(score_transforms.SINH_OF_NORM)(z))]
    half = deviation(link_of(score_transforms.SINH_OF_NORM, 0.5)(z), np.tanh(z))
    grid = (0.45, 0.5, 0.6, 0.75, 0.8614, 0.8616, 1.0)
    increases = [not falls(link_of(score_transforms.SINH_OF_NORM, gamma)(z)).any() for gamma in grid]
    end = bisect(lambda z: link_of(score_transforms.SINH_OF_NORM).slope(z) < 0.0, 0.5, 1.5)
    around = np.linspace(0.42, 0.43, 101)  # where it begins to fall
    top = bisect(lambda gamma: bool(np.all(link_of(score_transforms.SINH_OF_NORM, gamma).slope(around) >= 0)), 0.8, 0.9)
    return found(
        "gamma = 1: falls on (0, {end:.6f}); gamma = 1/2: tanh up to {half}; it increases for {valid:.0f} of the "
        "gammas .45, .5, .6, .75, .8614, .8616, 1: the middle four, and up to {top:.6f}",
        agree(end, math.asinh(1.0), 1e-9),
        agree(falling.max(), end, 0.02),
        agree(top, 0.861446041, 1e-6),
        half < ROUNDING,
        increases == [False, True, True, True, True, False, False],
        end=end,
        top=top,
        half=half,
        valid=sum(increases),
    )


@claim("C117", f"{APPENDIX}, invalid score-transforms", "Decaying densities cannot be scalings (on all scores).")
def densities_fall():
    density = sm.FromLink(lambda z: F.exp(-0.5 * F.square(z)))
    curve = sm.CompositeSigmoid(density, check=False)
    values = curve(np.array([-6.0, 0.5, 6.0]))
    return found(
        "normal density as q: link at -6, .5, 6: {values}; left of 0, where the density rises, it never falls",
        values[1] > 0.1,
        values[[0, 2]] < 1e-6,
        not falls(curve(np.linspace(-6.0, 0.0, 200))).any(),
        values=values,
    )


@claim(
    "C118",
    f"{APPENDIX}, invalid score-transforms",
    'For f = exp(sigma), "Q(z) = sigma(z) and q(z) = d sigma(z)/dz = alpha sigma(z) (1 - sigma(z))".',
    WORDING,
    "The factor alpha belongs to Q = sigma(alpha z).",
)
def the_stray_alpha():
    alpha, z = 2.0, np.linspace(-3.0, 3.0, 13)
    with_alpha, without = sm.Sigmoid().affine(alpha), sm.Sigmoid()
    slopes = [
        deviation(slope_of(Q, z), factor * Q(z) * (1 - Q(z))) for Q, factor in ((with_alpha, alpha), (without, 1.0))
    ]
    wrong = deviation(slope_of(without, z), alpha * without(z) * (1 - without(z)))
    return found(
        "sigma(2 z) has slope 2 sigma (1 - sigma), sigma(z) has sigma (1 - sigma), up to {slopes}; as printed it is "
        "off by {wrong}",
        np.array(slopes) < DIFFERENCES,
        wrong > 0.2,
        slopes=slopes,
        wrong=wrong,
    )
