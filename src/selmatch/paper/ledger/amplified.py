"""Amplified scalar losses and cross-entropy: section 4 and the cross-entropy appendix."""

from __future__ import annotations

import math

import numpy as np

import selmatch as sm
from selmatch.paper.ledger.entries import claim, found
from selmatch.paper.ledger.measuring import (
    DIFFERENCES,
    GRID,
    ROUNDING,
    agree,
    amplified,
    area,
    bend_of,
    deviation,
    gradient_of,
    many,
    near,
    plain,
    refuted,
    slope_of,
)
from selmatch.paper.records import CONDITION

CONVEX = (sm.Sinh(), sm.Exp(), sm.AntiExp(), sm.Sigmoid(), sm.Tanh(), sm.Identity(), sm.SmeLU(1.0), sm.Huber(1.0))


def entropy(scaling: sm.Curve) -> sm.CrossEntropy:
    return sm.CrossEntropy(sm.CompositeSigmoid(scaling))


@claim("C43", "Section 4, eq:matching_loss_sig_func", "Loss and gradient of the composite Sigmoid.")
def amplified_loss_and_gradient():
    loss = amplified(sm.Sinh(), gamma=0.7)
    pairs = [(2.0, -1.0), (-1.5, 1.0), (0.5, 0.2)]
    by_area = deviation([area(loss, t, s) for t, s in pairs], [loss(t, s) for t, s in pairs])
    by_formula = deviation([plain(loss.potential, t, s) for t, s in pairs], [loss(t, s) for t, s in pairs])
    gradient = deviation(
        [slope_of(lambda u, s=s: loss(u, s), t) for t, s in pairs], [loss.grad(t, s) for t, s in pairs]
    )
    return found(
        "quadrature differs by {by_area}, the printed formula by {by_formula}, the slope of the loss by {gradient}",
        max(by_area, by_formula) < ROUNDING,
        gradient < DIFFERENCES,
        by_area=by_area,
        by_formula=by_formula,
        gradient=gradient,
    )


@claim(
    "C44", "Section 4, theorem:scalar_matching_loss", "A convex Q suffices for a convex scalar loss, also with kinks."
)
def convex_q_suffices_for_one_class():
    curves = [sm.CompositeSigmoid(q, gamma) for q in CONVEX for gamma in (0.1, 1.0, 5.0)]
    proofs = [bool(sm.certify.convex(curve)) for curve in curves]
    least = min(float(np.min(curve.slope(GRID + 0.01))) for curve in curves)
    return found(
        "eight scalings, gamma .1, 1, 5: {proved:.0f} of 24 losses proved convex; least slope of a link {least}",
        proofs,
        least >= 0.0,
        proved=sum(proofs),
        least=least,
    )


@claim("C45", "Section 4, after theorem:scalar_matching_loss", "For one class a convex Q is not necessary.")
def convex_q_is_not_necessary_for_one_class():
    curve = sm.CompositeSigmoid(sm.Cosh(), gamma=1.0)
    z = np.linspace(-4.0, 4.0, 1601)
    least = curve.bracket(sm.Cosh().slope(z), curve.logit(z), sm.Cosh()(z)).min()
    return found(
        "Q = sinh, gamma = 1: Q is not convex, yet the factor that decides the sign of h' is at least {least}",
        refuted(sm.certify.convex_primitive(sm.Cosh(), (-4, 4))),
        near(least, 0.276, 2.0),
        least=least,
    )


@claim(
    "C46",
    "Section 4, fig:selective_scale_sensitivity",
    "As scalings, the unshifted Sigmoid breaks the symmetry of the loss and tanh keeps it.",
)
def tanh_keeps_the_symmetry():
    tanh, sigmoid, centre = amplified(sm.Tanh()), amplified(sm.Sigmoid()), math.log(2.0)
    odd = abs(tanh(2.0, 1.0) - tanh(-2.0, -1.0))
    broken = sigmoid(1.0, 0.0) - sigmoid(-1.0, 0.0)
    about = abs(sigmoid(centre + 1.0, centre) - sigmoid(centre - 1.0, centre))
    return found(
        "L(t, s) - L(-t, -s): tanh {odd}, sigmoid {broken}; about log 2 the latter is symmetric ({about})",
        max(odd, about) < ROUNDING,
        near(broken, 0.0228, 2.0),
        odd=odd,
        broken=broken,
        about=about,
    )


@claim("C47", "Section 4, fig:selective_scale_sensitivity", "Cross-entropy of a composite Sigmoid need not be convex.")
def cross_entropy_bends_down():
    cases = ((sm.Exp(), 1.0, -1.0), (sm.Tanh(), 1.0, 0.0), (sm.Sinh(), 2.0, 0.0), (sm.Sigmoid(), 2.0, -2.0))
    bends = [bend_of(lambda t, q=q, s=s: entropy(q)(t, s), at) for q, s, at in cases]
    return found(
        "second derivatives for q = exp, tanh, sinh, sigmoid: {bends}",
        near(bends, [-0.095, -0.107, -0.2462, -0.0344], 3.0),
        bends=bends,
    )


@claim(
    "C48",
    "Section 4; cross-entropy appendix",
    "The composite Sigmoid may not be injective; cross-entropy then has no meaning.",
)
def cross_entropy_confuses_signs():
    entropies = [entropy(sm.Sinh())(t, 2.0) for t in (2.0, -2.0)]
    matching = amplified(sm.Sinh())(-2.0, 2.0)
    return found(
        "Q = cosh, s = 2: CE at 2 and -2 is {entropies}; the matching loss at -2 is {matching}",
        agree(entropies[0], entropies[1]),
        refuted(sm.certify.monotone_probability(sm.CompositeSigmoid(sm.Sinh()))),
        near(matching, 14.18, 1.0),
        entropies=entropies,
        matching=matching,
    )


@claim("C49", "Cross-entropy appendix, eq:CE_loss_sig_grad", "Its gradient is q(t) [p(t) - p(s)].")
def cross_entropy_gradient():
    t, s = np.array([-1.0, 0.3, 1.7]), 0.6
    apart = 0.0
    for q in CONVEX[:6]:
        loss = entropy(q)
        printed = q(t) * (loss.potential.prob(t) - loss.potential.prob(s))
        apart = max(apart, deviation(slope_of(lambda u, loss=loss: loss(u, s, reduction="none"), t), printed))
    return found("six scalings: slope of CE and the formula differ by {apart}", apart < DIFFERENCES, apart=apart)


@claim(
    "C50",
    "Cross-entropy appendix, eq:CE_loss_soft_func",
    "For many classes: the gradient of cross-entropy, which differs from the matching one, and its lack of convexity.",
)
def cross_entropy_of_many_classes():
    t, s = np.array([1.0, -1.0, 0.5]), np.array([2.0, 0.0, -1.0])
    loss, matching = sm.CrossEntropy(sm.CompositeSoftmax(sm.Exp())), many(sm.Exp())
    slopes = gradient_of(lambda z: loss(z, s), t)
    p = loss.potential.prob
    printed = np.exp(t) * (p(t) - p(s))
    other = matching.grad(t, s)
    bend = bend_of(lambda u: loss(np.array([u, 0.0, 0.0]), s), -1.0)
    return found(
        "exponential scaling: CE gradient {slopes}, matching gradient {other}; second derivative of CE {bend}",
        agree(slopes, printed, DIFFERENCES),
        near(slopes, [-0.822, 0.024, 0.392], 20.0),
        near(other, [-5.48, 0.023, 0.393], 30.0),
        near(bend, -0.267, 3.0),
        slopes=slopes,
        other=other,
        bend=bend,
    )


@claim(
    "C51",
    "Cross-entropy appendix",
    '"Unless Q is linear, [...] a CE loss is no longer selective".',
    CONDITION,
    "It keeps the ranking part of the matching loss (the divergence of the probabilities) and loses the region part.",
)
def cross_entropy_keeps_the_ranking_part():
    t, s = np.array([1.0, -1.0, 0.5]), np.array([2.0, 0.0, -1.0])
    potential = sm.CompositeSoftmax(sm.Exp(), gamma=0.7)
    ranking, region = sm.MatchingLoss(potential).parts(t, s)
    excess = sm.CrossEntropy(potential)(t, s) - sm.CrossEntropy(potential)(s, s)
    return found(
        "the excess of CE is {excess}, the ranking part {ranking}; lost: {region}",
        agree(excess, ranking, 1e-10),
        region > 1.0,
        excess=excess,
        ranking=ranking,
        region=region,
    )


@claim(
    "C52", "Cross-entropy appendix, eq:loss_CE_scalar", "Three forms of the Sigmoid cross-entropy, and its gradient."
)
def three_forms_of_cross_entropy():
    alpha, beta = 0.7, 2.0
    t, s = (grid.ravel() for grid in np.meshgrid([-4.0, 1.0, 5.0], [-3.0, 0.0, 3.0]))
    link = sm.Sigmoid().affine(alpha, beta)
    p, ph, x = link(s), link(t), alpha * (t - beta)
    forms = [
        -(p * np.log(ph) + (1 - p) * np.log1p(-ph)) / alpha,
        (p * np.log1p(np.exp(-x)) + (1 - p) * np.log1p(np.exp(x))) / alpha,
        (np.log1p(np.exp(x)) - p * x) / alpha,
    ]
    ours = (
        sm.CrossEntropy(sm.CompositeSigmoid(sm.Constant(alpha), offset=-alpha * beta))(t, s, reduction="none") / alpha
    )
    apart = max(deviation(form, ours) for form in forms)
    least = -(p * np.log(p) + (1 - p) * np.log1p(-p)) / alpha
    gap = deviation(forms[0] - least, sm.MatchingLoss(link)(t, s, reduction="none"))
    return found(
        "the forms agree up to {apart}; cross-entropy minus entropy is the matching loss up to {gap}",
        max(apart, gap) < ROUNDING,
        apart=apart,
        gap=gap,
    )
