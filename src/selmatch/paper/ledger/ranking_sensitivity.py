"""Region and ranking sensitivity of many classes: section 5."""

from __future__ import annotations

import math

import numpy as np

import selmatch as sm
from selmatch.paper.ledger.composite import OTHERS, SCORES
from selmatch.paper.ledger.entries import claim, found
from selmatch.paper.ledger.measuring import (
    ROUNDING,
    THREE,
    agree,
    amplified,
    bisect,
    deltas,
    deviation,
    many,
    moved,
    near,
    scaled,
)
from selmatch.paper.records import CONDITION, ERRATUM


@claim("C66", "Section 5, eq:diag_matching_loss", "The decomposed loss, a sum over classes with a diagonal Hessian.")
def decomposed_loss():
    loss, single = sm.MatchingLoss(sm.Separable(sm.Sinh())), sm.MatchingLoss(sm.Sinh())
    apart = deviation(loss(SCORES, OTHERS), single(SCORES, OTHERS, reduction="sum"))
    hessian = sm.Separable(sm.Sinh()).hessian(SCORES)
    return found(
        "sum of the scalar losses up to {apart}; Hessian diagonal cosh: {diagonal}",
        apart < ROUNDING,
        agree(hessian, np.diag(np.cosh(SCORES))),
        apart=apart,
        diagonal=np.diag(hessian),
    )


CONSTELLATION = np.array([3.0, 1.0, -1.0])


SHIFTS = (-4.0, 0.0, 4.0)


def leading_shares(q: sm.Curve) -> list[float]:
    """The leading class's share of all sensitivity, as all scores move together."""
    rows = [deltas(q, at=CONSTELLATION + c) for c in SHIFTS]
    return [float(row[0] / row.sum()) for row in rows]


@claim(
    "C67",
    "Section 5, ranking sensitivity; tab:mc_requirements",
    "Where q and p agree, the sensitivities of a composite Softmax are constellation shift invariant.",
    ERRATUM,
    "Invariant means that the curvature of the loss stays the same as all scores move together: so only for a constant "
    "q. For q >= 0 with q and q' non-decreasing (exp, powers) the ORDER of the sensitivities is that of the scores "
    "under every shift; for sinh, linear and tanh not even that.",
)
def shifts_change_the_shares():
    half, sinh, sigmoid = (leading_shares(q) for q in (scaled(sm.Exp(), 0.5), scaled(sm.Sinh(), 0.5), sm.Sigmoid()))
    constant = [deltas(sm.Constant(), at=CONSTELLATION + c) for c in SHIFTS]
    moved_by = [deltas(scaled(q, 0.5), at=CONSTELLATION + 4.0)[0] for q in (sm.Exp(), sm.Sinh())]
    at_rest = [deltas(scaled(q, 0.5), at=CONSTELLATION)[0] for q in (sm.Exp(), sm.Sinh())]
    pair = np.array([deltas(sm.Tanh(), at=np.array([3.0, -1.0]) + c) for c in SHIFTS])
    orders = [np.argsort(deltas(scaled(sm.Exp(), 0.5), at=CONSTELLATION + c)).tolist() for c in SHIFTS]
    softmax, sharper = many(sm.Exp()).potential, many(sm.Exp(), math.exp(-2.0)).potential
    covariance = deviation(softmax.primitive(SCORES + 2.0), math.exp(2.0) * sharper.primitive(SCORES))
    return found(
        "Delta of the leader of (3, 1, -1), then of (7, 5, 3), for exp(z/2), sinh(z/2): {at_rest}, then {moved_by}; "
        "for a constant q the same up to {constant}. Its share for shifts by -4, 0, 4: exp(z/2) {half}; sinh(z/2) "
        "{sinh}; sigmoid {sigmoid}; tanh with two classes always {pair}, though Delta goes from {small} to {large}. "
        "For exp a shift by c is gamma -> gamma e^-c (up to {covariance})",
        np.array(moved_by) > 2.0 * np.array(at_rest),
        agree(pair[:, 0], pair[:, 1]),
        pair.max() > 5.0 * pair.min(),
        near(half, [0.781, 0.957, 1.0], 1.5),
        sinh[0] < 0.01 < 0.8 < sinh[1],
        near(sigmoid, [0.855, 0.625, 0.496], 2.0),
        agree(constant, constant[0]),
        [order == [2, 1, 0] for order in orders],
        covariance < ROUNDING,
        at_rest=at_rest,
        moved_by=moved_by,
        half=half,
        sinh=sinh,
        sigmoid=sigmoid,
        constant=deviation(constant, constant[0]),
        pair=float(pair[0, 0] / pair[0].sum()),
        small=pair.min(),
        large=pair.max(),
        covariance=covariance,
    )


@claim(
    "C68",
    "Section 5, ranking sensitivity; tab:mc_requirements",
    '"Decomposed losses, however, cannot support ranking sensitivity", which gives "constellation shift invariance".',
    CONDITION,
    "Invariant means the same as in C67. Of decomposed losses only squared error is, and it ranks nothing. Up to a "
    "common factor, those with an exponential or anti-exponential link are too, and no others.",
)
def decomposed_exponentials_are_invariant_up_to_a_factor():
    potential = sm.Separable(scaled(sm.Exp(), 0.5))
    shares = [potential.slope(CONSTELLATION + c) / potential.slope(CONSTELLATION + c).sum() for c in SHIFTS]
    loss = sm.MatchingLoss(potential)
    ratios = [loss(t + 2.0, s + 2.0) / loss(t, s) for t, s in ((SCORES, OTHERS), (OTHERS, SCORES))]
    alone = [potential.slope(np.array([3.0, other]))[0] for other in (1.0, 5.0)]
    sizes = [potential.slope(CONSTELLATION + c)[0] for c in SHIFTS]
    square = [sm.Separable(sm.Identity()).slope(CONSTELLATION + c) for c in SHIFTS]
    return found(
        "exp(z/2): Delta_1 at (3, 1, -1) + c is {sizes} for c = -4, 0, 4, the shares {shares} for every c; a shift by "
        "2 multiplies two losses by {ratios}; Delta_1 with another class at 1 and 5: {alone}; square: {square} always",
        agree(sizes, 0.25 * np.exp([-0.5, 1.5, 3.5])),
        agree(square, 1.0),
        [agree(row, shares[0]) for row in shares],
        near(shares[0], [0.665, 0.245, 0.090], 2.0),
        agree(ratios, math.e),
        agree(alone[0], alone[1]),
        sizes=sizes,
        shares=shares[0],
        ratios=ratios,
        alone=alone,
        square=square[0],
    )


@claim(
    "C69",
    "Section 5, fig:relative_sensitivity",
    "The same score 3 is sensitive as the higher of two and insensitive as the lower.",
)
def the_same_score_leads_or_trails():
    q = scaled(sm.Exp(), 0.5)
    loss = many(q)
    sensitivities = [deltas(q, at=(3.0, other))[0] for other in (1.0, 3.0, 5.0)]
    costs = [loss(np.array([2.0, other]), np.array([3.0, other])) for other in (1.0, 3.0, 5.0)]
    decomposed = float(q.slope(3.0))
    return found(
        "other score 1, 3, 5: Delta_1 = {sensitivities} (largest at the tie), loss of 3 -> 2: {costs}; decomposed "
        "Delta_1 = {decomposed} always",
        near(sensitivities, [1.322, 1.816, 0.00278], 2.0),
        near(costs, [0.591, 0.5855, 0.000639], 1.0),
        near(decomposed, 1.12, 1.0),
        sensitivities=sensitivities,
        costs=costs,
        decomposed=decomposed,
    )


@claim(
    "C70",
    "Section 5, fig:multi_class_regions",
    "Predicting the high class wrongly moves the curve of the low class, not conversely.",
)
def errors_of_the_leader_matter_to_the_others():
    loss, s = many(scaled(sm.Exp(), 0.5)), np.array([-3.0, 0.0, 3.0])

    def rise(move, error):
        return loss(s + move + error, s) - loss(s + error, s)

    low = [rise(np.array([4.0, 0.0, 0.0]), np.array([0.0, 0.0, off])) for off in (0.0, 0.5)]
    high = [rise(np.array([0.0, 0.0, 1.0]), np.array([off, 0.0, 0.0])) for off in (0.0, 0.5)]
    return found(
        "low class -3 -> 1: {low} without and with the high class 0.5 off; high class 3 -> 4: {high} without and with "
        "the low class 0.5 off",
        near(low, [0.0359, 0.0062], 10.0),
        near(high, [0.7213, 0.7205], 1.0),
        low=low,
        high=high,
    )


@claim("C71", "Section 5, two knobs", "q must agree with p; p need not be injective or monotone.")
def q_must_agree_with_p():
    agreeing, opposing = sm.classify(sm.Sinh(), role="softmax"), sm.classify(sm.Tanh(), role="softmax")
    scalar = sm.sensitivity(amplified(sm.Tanh()), THREE)
    sinh, tanh = deltas(sm.Sinh()), deltas(sm.Tanh())
    p = [many(q).potential.prob(THREE) for q in (sm.Sinh(), sm.Tanh())]
    twice = [many(sm.Sinh()).potential.prob(moved(THREE, 1, to))[1] for to in (-1.0, 1.0)]
    return found(
        "classes at -3, 0, 3. sinh: p is {p_sinh} and takes values twice ({twice} as the middle class goes to -1 and "
        "1), and high norms matter: {sinh}. tanh: q is steep at 0 (scalar {scalar}), p is {p_tanh}, so that low norms "
        "become high norms: {tanh}",
        agreeing.monotone is None,
        agree(twice[0], twice[1]),
        near(sinh, [30.12, 5.766e-5, 30.12], 1.0),
        near(tanh, [0.2517, 0.0473, 0.2517], 1.0),
        scalar[1] > 4.0 * max(scalar[0], scalar[2]),
        p[1][1] < 0.1 * p[1][0],
        [agreeing.focus == "high norms", opposing.focus == "high norms"],
        p_sinh=p[0],
        p_tanh=p[1],
        twice=twice,
        sinh=sinh,
        scalar=scalar,
        tanh=tanh,
    )


@claim(
    "C72",
    "Section 5; multi-class link appendix; tab:mc_requirements",
    "A composite Softmax cannot give low-norm sensitivity; decomposition is necessary.",
    ERRATUM,
    "It can, with a larger gamma or a small, steep q: tanh does from gamma = 1.9232 on. As gamma grows, the loss "
    "tends to the decomposed one divided by K. At gamma = 1 and amplitude 1 the statement is right.",
)
def composite_softmax_can_look_at_low_norms():
    ordinary, softer = deltas(sm.Tanh()), deltas(sm.Tanh(), 10.0)
    steep = deltas(sm.Tanh().affine(10.0, gain=0.5))
    threshold = bisect(lambda gamma: bool(np.diff(deltas(sm.Tanh(), gamma))[1] >= 0.0), 1.0, 10.0)
    t, s = np.array([1.0, -1.0, 2.0]), np.array([-1.0, 0.0, 1.0])
    limit = [many(sm.Tanh(), 1e6)(t, s), sm.MatchingLoss(sm.Separable(sm.Tanh()))(t, s) / 3.0]
    return found(
        "Delta at (-3, 0, 3): tanh {ordinary}, with gamma = 10 {softer}; 0.5 tanh(10 z) {steep}; the middle leads from "
        "gamma = {threshold:.7f}; loss at gamma = 1e6 and decomposed loss / 3: {limit:.6f}",
        ordinary[1] < ordinary[0],
        softer[1] > 5.0 * softer[0],
        near(steep, [0.062, 0.518, 0.062], 10.0),
        agree(threshold, 1.923178255, 1e-9),
        agree(limit[0], limit[1], 1e-6),
        ordinary=ordinary,
        softer=softer,
        steep=steep,
        threshold=threshold,
        limit=limit,
    )


@claim("C73", "Section 5, clipping", "With a SmeLU as Q, moves inside the clipped region cost nothing.")
def clipped_scores_cost_nothing():
    loss = many(sm.SmeLU(1.0))  # its link, which is the derivative of the SmeLU function
    s = np.array([-3.0, 1.0, 0.0])
    values = [loss(np.array([to, 2.0, 0.5]), s) for to in (-5.0, -9.0)]
    weight = loss.potential.prob(np.array([-5.0, 2.0, 0.5]))
    return found(
        "losses with the low class at -5 and -9: {values}; it keeps a weight of e^0 in the sum, here p = {weight}",
        values[0] == values[1],
        weight[0] > 0.05,
        values=values,
        weight=weight,
    )
