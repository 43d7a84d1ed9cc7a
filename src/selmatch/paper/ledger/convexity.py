"""Losses for many classes and when they are convex: section 5 and its proof."""

from __future__ import annotations

import math

import numpy as np

import selmatch as sm
from selmatch.paper.ledger.composite import GAMMAS, OTHERS, SCALINGS, SCORES
from selmatch.paper.ledger.entries import claim, found
from selmatch.paper.ledger.measuring import (
    ROUNDING,
    agree,
    area,
    bend_of,
    deltas,
    deviation,
    least_eigenvalue,
    many,
    near,
    plain,
    refuted,
)
from selmatch.paper.records import CONDITION, ERRATUM, OURS


@claim("C53", "Section 5, eq:matching_loss_def_multi to eq:multi_matching_loss_sm_grad", "Loss and gradient.")
def loss_of_many_classes():
    by_area = by_formula = 0.0
    for q in SCALINGS:
        loss = many(q, 0.7)
        by_area = max(by_area, deviation(area(loss, SCORES, OTHERS), loss(SCORES, OTHERS)))
        by_formula = max(by_formula, deviation(plain(loss.potential, SCORES, OTHERS), loss(SCORES, OTHERS)))
    return found(
        "seven scalings: the line integral of the gradient differs by {by_area}, the printed formula by {by_formula}",
        by_area < 1e-9,
        by_formula < 1e-11,
        by_area=by_area,
        by_formula=by_formula,
    )


@claim(
    "C54",
    "Sensitivity appendix, eq:log_partition_hessian to eq:sensitivity_k; eq:quadratic_form",
    "Hessian, quadratic limit, its diagonal, and the variance form (for test vectors in R^K, with 1/gamma).",
)
def quadratic_form_is_a_variance():
    s, way = np.array([1.0, -0.5, 2.0]), np.array([1.0, -2.0, 0.5])
    limit = variance = 0.0
    for q, gamma in ((sm.Sinh(), 0.7), (sm.Exp(), 2.0), (sm.Tanh(), 1.0)):
        loss = many(q, gamma)
        p, product = loss.potential.prob(s), q(s) * way
        spread = p @ product**2 - (p @ product) ** 2
        form = way @ loss.potential.hessian(s) @ way
        variance = max(variance, deviation(p @ (q.slope(s) * way**2) + spread / gamma, form))
        limit = max(limit, abs(loss(s + 1e-6 * way, s) / (0.5e-12 * form) - 1.0))
    return found(
        "loss of a step of size 1e-6 over its quadratic form, minus 1: {limit}; variance form differs by {variance}",
        limit < 1e-4,
        variance < ROUNDING,
        limit=limit,
        variance=variance,
    )


@claim("C55", "Section 5, theorem:multiclass_matching_loss", "A convex Q suffices for many classes, also with kinks.")
def convex_q_suffices_for_many_classes():
    z = np.random.default_rng(5).uniform(-3.0, 3.0, (60, 4))
    potentials = [sm.CompositeSoftmax(q, gamma) for q in (*SCALINGS, sm.Step(), sm.SmeLU(1.0)) for gamma in GAMMAS]
    least = min(least_eigenvalue(potential, z) for potential in potentials)
    proofs = [bool(sm.certify.convex(potential)) for potential in potentials]
    return found(
        "nine scalings (also ReLU and SmeLU as Q), three gammas, 60 points: least eigenvalue {least} of the largest; "
        "{proved:.0f} of 27 proved convex",
        least > -ROUNDING,
        proofs,
        least=least,
        proved=sum(proofs),
    )


@claim(
    "C56",
    "Section 5, after theorem:multiclass_matching_loss; extensions appendix",
    "A convex Q is sufficient but not necessary for many classes.",
    ERRATUM,
    "It is necessary, for any gamma and class weights: where all scores are equal, H(z, ..., z) = gamma log K + Q(z), "
    "so the loss of two such points is the divergence of Q itself.",
)
def convex_q_is_necessary():
    def diagonal(q, a, b, classes, gamma):
        return many(q, gamma)(np.full(classes, a), np.full(classes, b))

    gammas = (0.1, 0.5, 1.0 / math.sqrt(2.0), 1.0)
    three = [diagonal(sm.Cosh(), 0.0, -2.0, 3, gamma) for gamma in gammas]
    two = [diagonal(sm.Cosh(), -3.0, -1.0, 2, gamma) for gamma in gammas]
    polynomial = diagonal(sm.AbsPower(1.0, 2.0), 0.0, -1.5, 3, 1.0)
    q_alone = float(plain(sm.Cosh(), 0.0, -2.0))
    return found(
        "q = cosh, gamma = .1, .5, .71, 1: the loss of (0, 0, 0) for (-2, -2, -2) is {three:.6f}, the divergence of Q "
        "{q_alone:.6f}; two classes, -3 for -1: {two:.6f}; q = |z| + 2, 0 for -1.5: {polynomial}",
        agree(three, q_alone, 1e-10),
        agree(three, -3.897530974, 1e-9),
        agree(two, -5.756512464, 1e-9),
        agree(polynomial, -1.125, 1e-10),
        refuted(sm.certify.convex(sm.CompositeSoftmax(sm.Cosh(), check=False))),
        three=three,
        q_alone=q_alone,
        two=two,
        polynomial=polynomial,
    )


def coordinates_stay_convex(gamma: float, classes: int, reach: float) -> bool:
    """Whether every section along one coordinate is convex on [-reach, reach] with q = cosh.

    The others at the low end leave the least probability to them, which is the worst case.
    """
    z = np.full((161, classes), -reach)
    z[:, 0] = np.linspace(-reach, reach, 161)
    return bool(np.all(sm.sensitivity(many(sm.Cosh(), gamma), z)[:, 0] >= 0.0))


@claim(
    "C57",
    "Extensions appendix, introduction",
    'For many classes, "decreasing gamma [...] can also ensure h\'(z) >= 0 for z in S".',
    CONDITION,
    "It can, on a bounded S, within a window of gammas that is open neither to 0 nor to infinity: for q = cosh it "
    "closes as S grows, later for more classes. And it makes the loss convex along each score, not jointly (C56).",
)
def a_smaller_gamma_can_straighten_single_scores():
    box = np.full((61, 10), -1.5)
    box[:, 0] = np.linspace(-1.5, 1.5, 61)
    ten = [float(sm.sensitivity(many(sm.Cosh(), gamma), box)[:, 0].min()) for gamma in (2.0, 1.0)]
    inside = np.random.default_rng(5).uniform(-1.5, 1.5, (2000, 10))
    anywhere = sm.sensitivity(many(sm.Cosh(), 1.0), inside)
    gammas = (0.3, 0.7, 1.0)
    low = [deltas(sm.Cosh(), gamma, at=(-1.0, -2.0))[0] for gamma in gammas]
    level = [deltas(sm.Cosh(), gamma, at=(-1.0, 0.0))[0] for gamma in gammas]
    steps = np.arange(1, 61) / 20.0
    window = [gamma for gamma in steps if coordinates_stay_convex(gamma, 2, 1.0)]
    wider = [gamma for gamma in steps if coordinates_stay_convex(gamma, 2, 1.5)]
    return found(
        "ten classes on [-1.5, 1.5], the others at the low end: the least Delta_1 is {ten} with gamma 2, 1. Two "
        "classes, gamma .3, .7, 1: Delta_1 at -1 is {low} with the other score at -2, {level} with it at 0; on "
        "[-1, 1] gamma may lie in [{start}, {stop}], on [-1.5, 1.5] {left:.0f} of 60 gammas remain",
        ten[0] < 0.0 < ten[1],
        anywhere > 0.0,
        np.array(low) < 0.0,
        np.array(level) > 0.0,
        near([window[0], window[-1]], [0.5, 0.65], 1.0),
        len(wider) == 0,
        ten=ten,
        low=low,
        level=level,
        start=window[0],
        stop=window[-1],
        left=len(wider),
    )


@claim(
    "C58",
    OURS,
    "Anchoring repairs cosh: with one extra class of constant log-score 0 and a small enough gamma, no negative "
    "curvature was found (evidence, not a proof).",
)
def an_anchor_repairs_cosh():
    random = np.random.default_rng(0)

    def least(classes, gamma):
        z = random.uniform(-4.0, 4.0, (3000, classes))
        z[:750] = random.uniform(-4.0, 4.0, (750, 1))
        potential = sm.CompositeSoftmax(sm.Cosh(), gamma, anchor=0.0, check=False)
        root = np.sqrt(potential.prob(z))
        return float(np.linalg.eigvalsh(potential.hessian(z) / (root[:, :, None] * root[:, None, :])).min())

    found_at = {(k, gamma): least(k, gamma) for k, gamma in ((1, 1.3), (2, 1.0), (2, 1.3), (3, 0.7), (3, 1.0))}
    return found(
        "least eigenvalue of the scaled Hessian over 3,000 points of [-4, 4]^K: K = 1, gamma 1.3: {a}; K = 2, gamma 1 "
        "and 1.3: {b}, {c}; K = 3, gamma .7 and 1: {d}, {e}",
        [found_at[key] > 0.0 for key in ((1, 1.3), (2, 1.0), (3, 0.7))],
        [found_at[key] < 0.0 for key in ((2, 1.3), (3, 1.0))],
        **dict(zip("abcde", found_at.values(), strict=True)),
    )


@claim(
    "C59",
    "Proof of theorem:multiclass_matching_loss",
    "A textbook example is quoted: the logarithm of a sum of convex functions is convex.",
    ERRATUM,
    "The exponentials are missing: the logarithm of a sum of EXPONENTIALS of convex functions is convex.",
)
def log_of_a_sum_needs_exponentials():
    quoted = bend_of(lambda z: np.log(1.0 + z**2), 2.0)
    proof = sm.certify.convex(sm.CompositeSigmoid(sm.Identity().affine(gain=2.0)))  # log(1 + e^(z^2))
    return found(
        "log(1 + z^2), a sum of two convex functions, has second derivative {quoted} at 2; log(e^0 + e^(z^2)) is "
        "proved convex",
        near(quoted, -0.24, 1.0),
        proof,
        quoted=quoted,
    )
