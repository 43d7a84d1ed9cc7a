"""Selective, norm and piecewise sensitivity, and properness: the rest of section 2."""

from __future__ import annotations

import math

import numpy as np

import selmatch as sm
from selmatch.paper.ledger.entries import claim, found
from selmatch.paper.ledger.measuring import (
    DIFFERENCES,
    GRID,
    OBSERVED,
    PREDICTED,
    ROUNDING,
    SOLVED,
    agree,
    deviation,
    every,
    near,
    sigmoid_loss,
    slope_of,
)
from selmatch.paper.records import CONDITION, ERRATUM, WORDING


@claim(
    "C15",
    "Section 2, fig:selective_bin_loss_regions, first column",
    "Unshifted Sigmoid: overestimating 3 and underestimating -3 cost little, mixing the sides costs much.",
)
def unshifted_sigmoid():
    loss = sigmoid_loss()
    little, much = [loss(6.0, 3.0), loss(-6.0, -3.0)], [loss(0.0, 3.0), loss(-3.0, 3.0)]
    return found(
        "L(6, 3) and L(-6, -3): {little}; L(0, 3) and L(-3, 3): {much}",
        agree(little[0], little[1]),
        near(much, [0.5023, 2.715], 1.0),
        max(little) < 0.1 < 0.5 < min(much),
        little=little,
        much=much,
    )


@claim(
    "C16",
    "Section 2, fig:selective_bin_loss_regions, second column",
    'A right-shifted Sigmoid has "steep losses on both sides of high observed scores, penalizing overestimation '
    'higher than underestimation".',
    CONDITION,
    "Only for s below the shift beta: at s = beta it is symmetric, above it reverses.",
)
def over_against_under():
    ratios = [sigmoid_loss(1.0, beta)(5.0, 3.0) / sigmoid_loss(1.0, beta)(1.0, 3.0) for beta in (2, 3, 4, 5, 6)]
    low = [sigmoid_loss(1.0, 5.0)(t, -3.0) for t in (6.0, -6.0)]
    return found(
        "s = 3, moves of +-2, beta = 2 ... 6: over/under = {ratios}; s = -3, beta = 5: L(6), L(-6) = {low}",
        ratios[0] < 1.0,
        agree(ratios[1], 1.0),
        np.diff(ratios) > 0.0,
        low[0] > 1000.0 * low[1],
        ratios=ratios,
        low=low,
    )


@claim(
    "C17",
    "Section 2, fig:selective_bin_loss_regions, third column",
    "A left-shifted Sigmoid mirrors the right-shifted one.",
)
def left_mirrors_right():
    mirrored = sigmoid_loss(1.0, -3.0)(-PREDICTED, -OBSERVED, reduction="none")
    apart = deviation(every(sigmoid_loss(1.0, 3.0)), mirrored)
    return found("L_beta(t, s) and L_-beta(-t, -s) differ by {apart}", apart < ROUNDING, apart=apart)


@claim(
    "C18",
    "Section 2, selective sensitivity",
    "Inverting a Sigmoid gives the high-norm shape; sinh, arcsin and the logit have it.",
)
def inverted_sigmoid_looks_at_norms():
    inverse = sm.Sigmoid().inverted()
    kinds = [
        sm.classify(sm.Sinh()).focus,
        sm.classify(sm.Arcsin(), domain=(-1, 1)).focus,
        sm.classify(inverse, domain=(0.02, 0.98)).focus,
    ]
    slopes = inverse.slope(np.array([0.05, 0.5, 0.95]))
    return found(
        "all three are classified as high norms; slope of the inverted Sigmoid at .05, .5, .95: {slopes}",
        [kind == "high norms" for kind in kinds],
        near(slopes, [21.05, 4.0, 21.05], 1.0),
        slopes=slopes,
    )


@claim(
    "C19",
    "Section 2, bijection links",
    "Links onto [0, 1] have the gradient of cross-entropy.",
    ERRATUM,
    "Only the logistic ones: equality needs h' = c h (1 - h).",
)
def only_the_logistic_matches_cross_entropy():
    def gradients(link, t=1.0, s=-1.0):
        p = link(s)
        by_entropy = slope_of(lambda z: -(p * np.log(link(z)) + (1.0 - p) * np.log1p(-link(z))), t)
        return by_entropy, sm.MatchingLoss(link).grad(t, s)

    cauchy = gradients(sm.Arctan().affine(gain=1.0 / math.pi) + sm.Constant(0.5))
    logistic = gradients(sm.Sigmoid())
    return found(
        "gradients at t = 1, s = -1 of cross-entropy and matching loss: {cauchy} for h = 1/2 + arctan(z)/pi, "
        "{logistic} for the logistic",
        near(cauchy, [0.4244, 0.5], 1.0),
        agree(logistic[0], logistic[1], DIFFERENCES),
        cauchy=cauchy,
        logistic=logistic,
    )


@claim("C20", "Section 2, bijection links", "The gradients of links onto [0, 1] are capped.")
def gradients_are_capped():
    z = np.linspace(-50.0, 50.0, 41)
    largest = np.abs(sigmoid_loss(2.0, 1.0).grad(*np.meshgrid(z, z))).max()
    uncapped = sm.MatchingLoss(sm.Sinh()).grad(50.0, 0.0)
    return found(
        "largest gradient for scores in [-50, 50]: {largest} (sinh link: {uncapped})",
        largest <= 1.0,
        uncapped > 1e20,
        largest=largest,
        uncapped=uncapped,
    )


@claim(
    "C21",
    "Section 2, norm sensitivity; tab:mc_requirements",
    '"Links, asymmetric around the origin, are robust to pair ordering".',
    WORDING,
    "What is meant is odd (antisymmetric), here, in the table and in the sentence about Huber: an odd link has that "
    "property, a merely asymmetric one has not.",
)
def odd_links_ignore_the_order():
    pairs = {link: [sm.MatchingLoss(link)(d, 0.0) for d in (1.0, -1.0)] for link in (sm.Sinh(), sm.Exp())}
    odd, asymmetric = pairs.values()
    return found(
        "losses of the moves 0 -> 1 and 0 -> -1: {odd} for sinh (odd), {asymmetric} for exp (asymmetric)",
        sm.certify.odd(sm.Sinh()),
        agree(odd[0], odd[1]),
        near(asymmetric, [0.7183, 0.3679], 1.0),
        odd=odd,
        asymmetric=asymmetric,
    )


@claim(
    "C22",
    "Section 2, norm sensitivity",
    'One side "can be enhanced over the other by shifting a sinh link, yet keeping lowest sensitivity for low norms".',
    CONDITION,
    "The lowest sensitivity moves with the shift: it sits at beta, not at 0.",
)
def shifted_sinh_is_calm_at_its_shift():
    link = sm.Sinh().affine(beta=1.5)
    slopes = sm.sensitivity(link, np.array([0.0, 1.5]))
    calmest = GRID[np.argmin(sm.sensitivity(link, GRID))]
    return found(
        "sinh(z - 1.5): sensitivity at 0 and 1.5 is {slopes}; the calmest score is {calmest}",
        near(slopes, [2.352, 1.0], 1.0),
        agree(calmest, 1.5),
        slopes=slopes,
        calmest=calmest,
    )


@claim("C23", "Section 2, piecewise", "Step and sign links have primitives ReLU and |z|, and a hinge-shaped loss.")
def step_gives_a_hinge():
    z = np.linspace(-2.0, 2.0, 41)
    hinges = {3.0: np.maximum(0.0, -z), -3.0: np.maximum(0.0, z)}
    step = max(deviation(sm.MatchingLoss(sm.Step())(z, s, reduction="none"), hinge) for s, hinge in hinges.items())
    sign = max(deviation(sm.MatchingLoss(sm.Sign())(z, s, reduction="none"), 2 * h) for s, h in hinges.items())
    primitives = max(
        deviation(sm.Step().primitive(z), np.maximum(z, 0.0)), deviation(sm.Sign().primitive(z), np.abs(z))
    )
    return found(
        "step: max(0, -t) for s > 0 and max(0, t) for s < 0, up to {step}; sign: twice that, up to {sign}; primitives "
        "up to {primitives}. There is no margin",
        max(step, sign, primitives) < ROUNDING,
        step=step,
        sign=sign,
        primitives=primitives,
    )


@claim("C24", "Section 2, eq:smelu", "SmeLU and its gradient: continuous, and h is the derivative of H.")
def smelu_formulas():
    c = 1.5
    curve = sm.SmeLU(c)
    z = np.linspace(-4.0, 4.0, 97) + 0.01
    printed = np.where(z <= -c, 0.0, np.where(z >= c, z, (z + c) ** 2 / (4 * c)))
    link = np.clip((z + c) / (2 * c), 0.0, 1.0)
    apart = max(deviation(curve.primitive(z), printed), deviation(curve(z), link))
    slope = deviation(slope_of(curve.primitive, z), link)
    sides = np.array([[-c - 1e-9, -c + 1e-9], [c - 1e-9, c + 1e-9]])
    jumps = [float(np.abs(np.diff(part(sides), axis=1)).max()) for part in (curve.primitive, curve)]
    joints = deviation([curve(-c), curve(c), curve.primitive(-c), curve.primitive(c)], [0.0, 1.0, 0.0, c])
    return found(
        "H and h as printed up to {apart}, at both joints up to {joints}; H' = h up to {slope}; jumps of H and h at "
        "the joints: {jumps}",
        max(apart, joints) < ROUNDING,
        slope < DIFFERENCES,
        np.array(jumps) < 1e-8,
        apart=apart,
        joints=joints,
        slope=slope,
        jumps=jumps,
    )


@claim("C25", "Section 2, after eq:smelu", "The Huber function has a similar link.")
def huber_is_two_c_smelu():
    c = 2.0
    huber, smelu = sm.MatchingLoss(sm.Huber(c)), sm.MatchingLoss(sm.SmeLU(c))
    apart = max(deviation(sm.Huber(c)(GRID), 2 * c * sm.SmeLU(c)(GRID) - c), deviation(every(huber), 4 * every(smelu)))
    return found(
        "Huber's link is 2c times SmeLU's minus c, its loss 2c times SmeLU's: they differ by {apart}",
        apart < ROUNDING,
        sm.certify.odd(sm.Huber(c)),
        apart=apart,
    )


@claim("C26", "Scalar link appendix", "Losses of observed scores in one flat region coincide.")
def flat_regions_share_their_loss():
    links = [sm.SmeLU(1.0), sm.Huber(1.0), sm.Staircase((-1.0, 1.0), (1.0, 2.0))]
    predicted, observed = np.meshgrid(GRID, [2.0, 3.0])
    curves = [sm.MatchingLoss(link)(predicted, observed, reduction="none") for link in links]
    apart = max(deviation(*pair) for pair in curves)
    outside = deviation(*sm.MatchingLoss(sm.SmeLU(4.0))(predicted, observed, reduction="none"))
    return found(
        "observed 2 and 3 in a flat piece of SmeLU, Huber, a staircase: losses differ by {apart}; on a slope by "
        "{outside}",
        apart < ROUNDING,
        outside > 0.01,
        apart=apart,
        outside=outside,
    )


@claim(
    "C27",
    "Section 2, prop:proper",
    'For S ~ P the expected loss "is minimized at s_hat = h^-1{E h(S)}".',
    CONDITION,
    "Unique if h is continuous and strictly increasing and E h(S) is finite. With a flat piece there is a set of "
    "minimisers, over a jump the minimiser is the jump; for many classes E h(S) must lie in the image of the link.",
)
def proper():
    scores = np.array([-1.0, 0.5, 2.0])
    links = [sm.Exp(), sm.Sinh(), sm.Sigmoid().affine(2.0, 1.0)]
    moments = max(deviation(link(sm.MatchingLoss(link).minimiser(scores)), link(scores).mean()) for link in links)
    flat = sm.MatchingLoss(sm.SmeLU(1.0))
    equal = [flat(t, np.array([2.0, 3.0])) for t in (1.5, 2.5, 10.0)]
    jump = sm.MatchingLoss(sm.Staircase((0.0,), (1.0,))).minimiser(np.array([-1.0, 1.0]))
    rows = np.array([[1.0, 0.0, -1.0], [0.0, 2.0, 0.5]])
    potential = sm.CompositeSoftmax(sm.Sinh())
    best = sm.MatchingLoss(potential).minimiser(rows)
    classes = deviation(potential.link(best), potential.link(rows).mean(axis=0))
    return found(
        "h(minimiser) = mean of h up to {moments} (three links) and {classes} (three classes); flat piece: expected "
        "losses {equal} at 1.5, 2.5, 10; jump at 0: minimiser {jump}",
        moments < SOLVED,
        classes < SOLVED,
        np.array(equal) == 0.0,
        abs(jump) < SOLVED,
        moments=moments,
        classes=classes,
        equal=equal,
        jump=jump,
    )
