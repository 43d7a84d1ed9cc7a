"""Scalar losses and their sensitivity: section 2 to LLUST, and the sensitivity appendix."""

from __future__ import annotations

import math

import numpy as np

import selmatch as sm
from selmatch.paper.ledger.entries import claim, found
from selmatch.paper.ledger.measuring import (
    DIFFERENCES,
    GRID,
    OBSERVED,
    PAIRS,
    PREDICTED,
    ROUNDING,
    SOLVED,
    agree,
    area,
    bend_of,
    deviation,
    every,
    near,
    plain,
    sigmoid_loss,
    slope_of,
)
from selmatch.paper.records import CONDITION, ERRATUM, REMARK


@claim("C01", "Section 2, eq:matching_loss_def", "The area between link and level h(s) is the Bregman divergence of H.")
def area_is_the_bregman_divergence():
    links = [sm.Sigmoid().affine(0.7, 2.0), sm.Exp().affine(0.5, 1.0), sm.Sinh(), sm.SignedLog(), sm.Step()]
    losses = [sm.MatchingLoss(link) for link in links]
    by_area = max(deviation([area(loss, t, s) for t, s in PAIRS], every(loss)) for loss in losses)
    by_formula = max(deviation(plain(loss.potential, PREDICTED, OBSERVED), every(loss)) for loss in losses)
    return found(
        "five links, 12 pairs each: quadrature of the area differs by {by_area}, H(t) - H(s) - (t - s) h(s) by "
        "{by_formula}",
        by_area < SOLVED,
        by_formula < ROUNDING,
        by_area=by_area,
        by_formula=by_formula,
    )


@claim(
    "C02",
    "Section 2, after eq:matching_loss_def",
    '"A monotonic non-decreasing h(z) gives convex H(z) and loss".',
    CONDITION,
    "Convex in the predicted score; not in the observed score, and not in both together.",
)
def convex_in_the_prediction_only():
    loss = sm.MatchingLoss(sm.Exp())
    by_prediction = bend_of(lambda t: loss(t, 0.0), 1.0)
    by_observation = bend_of(lambda s: loss(3.0, s), 0.0)
    return found(
        "exponential link: second derivative in the prediction {by_prediction}, in the observed score (at s = 0, "
        "prediction 3) {by_observation}",
        sm.certify.convex(loss),
        agree(by_prediction, math.e, DIFFERENCES),
        agree(by_observation, -2.0, DIFFERENCES),
        by_prediction=by_prediction,
        by_observation=by_observation,
    )


@claim("C03", "Section 2, eq:sigmoid_link to eq:loss_match_bin", "Sigmoid link, Softplus primitive, and their loss.")
def sigmoid_link_and_loss():
    alpha, beta = 0.7, 2.0
    link = sm.Sigmoid().affine(alpha, beta)

    def softplus(z):
        return np.log1p(np.exp(alpha * (z - beta))) / alpha

    def sigmoid(z):
        return 1.0 / (1.0 + np.exp(-alpha * (z - beta)))

    printed = softplus(PREDICTED) - softplus(OBSERVED) - (PREDICTED - OBSERVED) * sigmoid(OBSERVED)
    apart = max(
        deviation(link(GRID), sigmoid(GRID)),
        deviation(link.primitive(GRID), softplus(GRID)),
        deviation(every(sm.MatchingLoss(link)), printed),
    )
    return found("link, primitive and loss as printed, up to {apart}", apart < ROUNDING, apart=apart)


@claim(
    "C04", "Section 2, after eq:loss_match_bin", "Cross-entropy of the Sigmoid, divided by alpha, has that gradient."
)
def cross_entropy_has_the_gradient():
    alpha, beta = 0.7, 2.0
    entropy = sm.CrossEntropy(sm.CompositeSigmoid(sm.Constant(alpha), offset=-alpha * beta))
    apart = deviation(
        slope_of(lambda t: entropy(t, OBSERVED, reduction="none"), PREDICTED) / alpha,
        sigmoid_loss(alpha, beta).grad(PREDICTED, OBSERVED),
    )
    return found("the slope of CE / alpha and h(t) - h(s) differ by {apart}", apart < DIFFERENCES, apart=apart)


@claim(
    "C05", "Section 2, eq:identity_link", "An identity link gives squared error (times alpha/2), whatever the shift."
)
def identity_gives_squared_error():
    loss, shifted = (sm.MatchingLoss(sm.Identity().affine(2.0, beta)) for beta in (0.0, 5.0))
    apart = deviation(every(loss), (PREDICTED - OBSERVED) ** 2)
    change = deviation(every(shifted), every(loss))
    return found(
        "alpha = 2: the loss is the square up to {apart}; a shift by 5 changes it by {change}",
        apart < ROUNDING,
        change < ROUNDING,
        apart=apart,
        change=change,
    )


@claim("C06", "Section 2, eq:exp_link", "The exponential link and its primitive e^x / alpha.")
def exponential_link():
    alpha, beta = 0.5, 1.0
    link = sm.Exp().affine(alpha, beta)
    apart = deviation(link.primitive(GRID), np.exp(alpha * (GRID - beta)) / alpha)
    factor = every(sm.MatchingLoss(link)) / every(sm.MatchingLoss(sm.Exp().affine(alpha)))
    return found(
        "primitive as printed up to {apart}; a shift only multiplies the loss, by {factor} = e^(-alpha beta)",
        apart < ROUNDING,
        agree(factor, math.exp(-alpha * beta)),
        apart=apart,
        factor=factor[0],
    )


@claim("C07", "Section 2, after eq:exp_link", "The link may be multiplied by alpha instead of dividing H by it.")
def two_normalisations():
    alpha = 3.0
    loss, other = (sm.MatchingLoss(sm.Sinh().affine(alpha, 0.5, gain)) for gain in (1.0, alpha))
    t, s = PREDICTED / 4.0, OBSERVED / 4.0
    ratio = other(t, s, reduction="none") / loss(t, s, reduction="none")
    steps = other.grad(t, s) / loss.grad(t, s)
    return found(
        "alpha = 3: loss and gradient are both multiplied by {ratio}",
        agree(ratio, alpha),
        agree(steps, alpha),
        ratio=ratio[0],
    )


@claim(
    "C08",
    "Section 2, sensitivity",
    'For s_hat = s + delta with delta -> 0, the loss divided by delta^2 tends to "0.5 h\'(s)".',
    CONDITION,
    "The link is differentiable at s: at a kink the two sides differ.",
)
def small_moves_are_quadratic():
    def ratio(loss, s, d):
        return loss(s + d, s) / d**2 / (0.5 * sm.sensitivity(loss, s)) - 1.0

    smooth = [ratio(sigmoid_loss(0.7, 2.0), 1.0, d) for d in (1e-3, 1e-6)]
    kink = sm.MatchingLoss(sm.SmeLU(1.0))
    sides = [kink(1.0 + d, 1.0) / d**2 for d in (-1e-3, 1e-3)]
    return found(
        "sigmoid: relative deviation {smooth} for d = 1e-3, 1e-6; at the upper kink of SmeLU L/d^2 is {sides} from "
        "below and above",
        np.abs(smooth) < [1e-4, 1e-7],
        agree(sides, [0.25, 0.0], 1e-9),
        smooth=smooth,
        sides=sides,
    )


@claim(
    "C09",
    "Sensitivity appendix",
    "The loss of a small move is always quadratic.",
    ERRATUM,
    "It is quadratic where 0 < h'(s) < infinity. Otherwise the order differs: 4 for a cubic link at 0, 3/2 for a "
    "signed root at 0, 1 at a jump.",
)
def not_always_quadratic():
    def order(link):
        loss = sm.MatchingLoss(link)
        small, smaller = (max(loss(d, 0.0), loss(-d, 0.0)) for d in (1e-2, 1e-4))
        return math.log10(small / smaller) / 2.0

    orders = [order(link) for link in (sm.SignedPower(3.0), sm.SignedPower(0.5), sm.Step(), sm.Sinh())]
    cubic = [sm.MatchingLoss(sm.SignedPower(3.0))(d, 0.0) / d**2 for d in (1e-2, 1e-4)]
    return found(
        "order of the loss of a small move from 0: cubic, signed root, step, sinh: {orders}; cubic link: L/d^2 = "
        "{cubic} for d = 1e-2, 1e-4",
        agree(orders, [4.0, 1.5, 1.0, 2.0], 1e-4),
        orders=orders,
        cubic=cubic,
    )


@claim(
    "C10",
    "Section 2, theorem:bust",
    'If "a continuously differentiable h(z) [has] a compact range [h(S_m), h(S_M)]", BUST is [h(w_u + d) - h(w_u)] '
    "/ [h(S_M) - h(S_m)].",
    CONDITION,
    "h(S_M) > h(S_m), and h is defined at w_u + d and a little beyond S; the model is a pure shift.",
)
def bust_is_the_quotient():
    link, domain = sm.Sigmoid().affine(beta=3.0), (-5.0, 5.0)
    formula = (link(3.0) - link(2.0)) / (link(5.0) - link(-5.0))
    apart = [sm.bust(link, 2.0, 1.0, domain=domain, tau=tau) / formula - 1.0 for tau in (1e-2, 1e-4)]
    return found(
        "right-shifted Sigmoid, w = 2, d = 1: the balanced offset differs from {formula} by {apart} (relative) for "
        "tau = 1e-2, 1e-4: first order in tau",
        np.abs(apart) < [1e-3, 1e-5],
        0.5 < abs(apart[0] / apart[1]) / 100.0 < 2.0,
        formula=formula,
        apart=apart,
    )


@claim(
    "C11",
    "Proof of theorem:bust",
    'In the setting of the theorem, "the numerator of BUST is always bounded by the denominator".',
    REMARK,
    "The theorem takes scores in S, where h has its compact range: then it is so. A bias d that leads out of S can "
    "exceed the denominator; the theorem still holds, since continuity of h is enough for its proof.",
)
def bust_above_one():
    outside = sm.bust(sm.Exp(), 0.9, 2.0, domain=(0.0, 1.0))
    w = np.linspace(0.0, 1.0, 21)
    inside = max(np.abs(sm.bust(sm.Exp(), w, d - w, domain=(0.0, 1.0))).max() for d in (0.0, 0.5, 1.0))
    return found(
        "exponential link on S = [0, 1], w = 0.9, d = 2: BUST is {outside}; with w + d in S it is at most {inside}",
        outside > 1.0,
        near(outside, 9.145),
        inside <= 1.0 + ROUNDING,
        outside=outside,
        inside=inside,
    )


@claim("C12", "Section 2, theorem:bust", "BLUST is h'(w) / [h(S_M) - h(S_m)]; so it is a density on S.")
def blust_is_a_density():
    link, domain = sm.Sigmoid().affine(beta=3.0), (-5.0, 5.0)
    limit = sm.bust(link, 2.0, 1e-6, domain=domain) / 1e-6
    nodes, weights = np.polynomial.legendre.leggauss(60)
    total = 5.0 * weights @ sm.blust(link, 5.0 * nodes, domain=domain)
    value = sm.blust(link, 2.0, domain=domain)
    return found(
        "BLUST at 2 is {value}, the limit of BUST/d {limit}; its integral over S is {total:.9f}",
        agree(limit, value, 1e-6),
        agree(total, 1.0, 1e-9),
        value=value,
        limit=limit,
        total=total,
    )


@claim(
    "C13",
    "Section 2, theorem:bust",
    'The theorem on BUST asks for "a compact range [h(S_m), h(S_M)]".',
    CONDITION,
    "For a continuous link on a compact S it always has; the hypothesis only excludes infinite values at an end.",
)
def compact_range_is_automatic():
    links = [sm.Sigmoid(), sm.Sinh(), sm.Exp(), sm.SignedPower(0.5), sm.SmeLU(1.0)]
    values = np.array([link(np.linspace(-5.0, 5.0, 1001)) for link in links])
    outside = np.maximum(values.max(axis=1) - values[:, -1], values[:, 0] - values.min(axis=1))
    spans = values[:, -1] - values[:, 0]
    towards_1 = sm.Logit()(1.0 - np.array([1e-4, 1e-8, 1e-12]))
    with np.errstate(divide="ignore"):
        end = sm.Logit()(np.array([0.0, 1.0]))
    return found(
        "five continuous links on [-5, 5] stay between their values at the ends (outside: {outside}), which are "
        "{spans} apart; the logit at 1 - 1e-4, 1 - 1e-8, 1 - 1e-12 is {towards_1}, at 0 and 1 {end}",
        np.isfinite(values),
        outside <= 0.0,
        spans > 0.0,
        np.diff(towards_1) > 9.0,  # another log(10^4) each time, without end
        end.tolist() == [-math.inf, math.inf],
        outside=outside.max(),
        spans=spans,
        towards_1=towards_1,
        end=end,
    )


@claim(
    "C14",
    "Section 2, LLUST remark",
    '"Other sensitivity models can be applied, such as" LLUST, a multiplicative one (no formula is given).',
    CONDITION,
    "The balance carries a factor w; the limit is w h'(w) / integral of v^2 h'(v) over S.",
)
def llust_by_root_finding():
    link, domain = sm.Sigmoid().affine(beta=3.0), (-5.0, 5.0)
    formula = sm.llust(link, 2.0, domain=domain)
    root = sm.llust(link, 2.0, domain=domain, tau=1e-4)
    return found(
        "right-shifted Sigmoid at w = 2: {root:.8f} by root finding, {formula:.8f} by the formula",
        agree(root / formula, 1.0, 1e-3),
        near(formula, 0.05063),
        root=root,
        formula=formula,
    )
