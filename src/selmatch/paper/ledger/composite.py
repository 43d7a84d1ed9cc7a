"""Composite Softmax and Sigmoid: section 3 and the composite appendix."""

from __future__ import annotations

import math

import numpy as np

import selmatch as sm
from selmatch import functions as F
from selmatch.paper.ledger.entries import claim, found
from selmatch.paper.ledger.measuring import (
    DIFFERENCES,
    GRID,
    ROUNDING,
    agree,
    amplified,
    deviation,
    gradient_of,
    many,
    near,
    plain,
    scaled,
    slope_of,
)
from selmatch.paper.records import CONDITION, OURS, REMARK, WORDING

SCORES, OTHERS = np.array([1.0, -2.0, 0.5]), np.array([3.0, 0.0, -3.0])
SCALINGS = (sm.Sinh(), sm.Exp(), sm.AntiExp(), sm.Sigmoid(), sm.Tanh(), sm.Identity(), sm.Constant())
GAMMAS = (0.3, 1.0, 2.0)


@claim("C28", "Section 3, eq:standard_softmax", "The standard Softmax does not notice a shift of all scores.")
def standard_softmax_is_shift_invariant():
    loss = many()
    change = deviation(loss(SCORES + 7.0, OTHERS + 7.0), loss(SCORES, OTHERS))
    contrast = deviation(
        many(sm.Exp().affine(0.5))(SCORES + 1.0, OTHERS + 1.0), many(sm.Exp().affine(0.5))(SCORES, OTHERS)
    )
    return found(
        "a shift by 7 changes the loss by {change}; an exponential scaling changes by {contrast} under a shift by 1",
        change < ROUNDING,
        contrast > 0.1,
        change=change,
        contrast=contrast,
    )


@claim(
    "C29", "Section 3, after eq:standard_softmax", "Mixing Softmax and Softmin does not help: shifts stay unnoticed."
)
def mixtures_stay_shift_invariant():
    softmax, softmin = many(sm.Constant(1.0)), many(sm.Constant(-1.0))

    def mixture(share, c):
        return share * softmax(SCORES + c, OTHERS + c) + (1.0 - share) * softmin(SCORES + c, OTHERS + c)

    change = max(deviation(mixture(share, 7.0), mixture(share, 0.0)) for share in (0.0, 0.3, 0.5, 1.0))
    return found("four mixtures: a shift by 7 changes the loss by {change}", change < ROUNDING, change=change)


@claim("C30", "Section 3, theorem:scaling", "The link is the scaling times the probability, h_k = q(z_k) p_k.")
def link_is_q_times_p():
    potentials = [sm.CompositeSoftmax(q, gamma) for q in SCALINGS for gamma in GAMMAS]
    apart = max(
        deviation(gradient_of(each.primitive, SCORES), each.scaling(SCORES) * each.prob(SCORES)) for each in potentials
    )
    return found(
        "seven scalings, three gammas: the gradient of H and q p differ by {apart}", apart < DIFFERENCES, apart=apart
    )


@claim(
    "C31",
    "Section 3, eq:scoring_scaling_solution",
    'The constant c in log f = Q + c "gives flexibility to normalize f for stability with no effect on the link".',
    REMARK,
    "The sentence speaks of the Softmax, where it is true for every gamma. The composite Sigmoid, which comes next, "
    "does change, because its other class stays at 0.",
)
def constant_of_q_matters_for_one_class():
    lowered = max(
        deviation(
            sm.CompositeSoftmax(Q=lambda z: F.cosh(z) - 2.0, gamma=gamma).link(SCORES),
            sm.CompositeSoftmax(sm.Sinh(), gamma=gamma).link(SCORES),
        )
        for gamma in GAMMAS
    )
    losses = [amplified(sm.Sinh(), offset=offset) for offset in (0.0, -2.0)]
    links, values = [loss.potential(1.0) for loss in losses], [loss(2.0, 1.0) for loss in losses]
    return found(
        "Q = cosh against cosh - 2: Softmax link changes by {lowered}; Sigmoid link at 1: {links}, L(2, 1): {values}",
        lowered < ROUNDING,
        near(links, [0.968, 0.456], 1.5),
        near(values, [1.080, 0.974], 1.0),
        lowered=lowered,
        links=links,
        values=values,
    )


@claim(
    "C32",
    "Section 3, after theorem:scaling",
    'The scaling q "can determine loss sensitivity, uniquely defining a selective loss".',
    CONDITION,
    "For many classes. For one class the constant of Q must be fixed as well.",
)
def q_defines_the_loss_of_many_classes():
    one = [amplified(sm.Exp(), offset=offset)(1.0, 0.0) for offset in (0.0, -2.0)]
    lifted = many(rho=(math.exp(-2.0),) * 3, scaling=sm.Exp())(SCORES, OTHERS - 1.0)
    change = deviation(lifted, many(sm.Exp())(SCORES, OTHERS - 1.0))
    return found(
        "q = exp, Q and Q - 2: L(1, 0) of the composite Sigmoid {one}; the Softmax changes by {change}",
        abs(one[0] - one[1]) > 0.1,
        change < ROUNDING,
        one=one,
        change=change,
    )


@claim("C33", "Section 3, eq:composite_sigmoid and eq:sigmoid_sensitivity", "p, H, h and h' of the composite Sigmoid.")
def composite_sigmoid_formulas():
    z = np.array([-2.0, 0.1, 2.0])
    apart = slopes = 0.0
    for q in SCALINGS:
        for gamma in GAMMAS:
            curve = sm.CompositeSigmoid(scaled(q, 0.8, 0.3), gamma)
            scaling, p = curve.scaling, curve.prob(z)
            printed = p * (scaling.slope(z) + (1.0 - p) * scaling(z) ** 2 / gamma)
            apart = max(apart, deviation(p, 1 / (1 + np.exp(-scaling.primitive(z) / gamma))))
            apart = max(apart, deviation(curve(z), scaling(z) * p), deviation(curve.slope(z), printed))
            slopes = max(
                slopes, deviation(slope_of(curve.primitive, z), curve(z)), deviation(slope_of(curve, z), printed)
            )
    return found(
        "seven scalings, three gammas: formulas (with 1/gamma at the second term of h') differ by {apart}, derivatives "
        "by {slopes}",
        apart < ROUNDING,
        slopes < DIFFERENCES,
        apart=apart,
        slopes=slopes,
    )


@claim("C34", "Section 3, end", "The values of p are only a part of [0, 1].")
def p_is_confined():
    least = [sm.CompositeSigmoid(q).prob(np.linspace(-30, 6, 3001)).min() for q in (sm.Sinh(), sm.Exp(), sm.Sigmoid())]
    return found(
        "least p for q = sinh, exp, sigmoid: {least}",
        agree(least[0], 1.0 / (1.0 + math.exp(-1.0)), 1e-5),
        np.array(least[1:]) >= 0.5,
        least=least,
    )


@claim(
    "C35", "Composite appendix, eq:standard_softmax_maximization", "Softmax solves an entropy-regularised maximisation."
)
def softmax_is_a_maximiser():
    gamma, z = 0.7, np.array([0.3, -1.0, 2.0])
    potential = sm.CompositeSoftmax(gamma=gamma)

    def objective(w):
        return w @ z - gamma * np.sum(w * np.log(w), axis=-1)

    top = float(potential.primitive(z))
    gap = float(objective(potential.prob(z))) - top
    random = np.random.default_rng(5).random((3000, 3))
    best = float(objective(random / random.sum(-1, keepdims=True)).max()) - top
    soft, hard = (sm.CompositeSoftmax(gamma=g).prob(np.array([3.0, 1.0, 0.0])) for g in (1000.0, 0.05))
    return found(
        "objective at p minus H: {gap}; best of 3,000 random points: {best}; gamma = 1000: {soft}; gamma = 0.05: "
        "{hard}",
        abs(gap) < ROUNDING,
        best < 0.0,
        agree(soft, 1 / 3, 1e-3),
        agree(hard, [1.0, 0.0, 0.0], 1e-9),
        gap=gap,
        best=best,
        soft=soft,
        hard=hard,
    )


@claim(
    "C36",
    "Composite appendix; standard Softmax appendix",
    '"A reduced version fixes a score at 1 (Sigmoid for K = 2)".',
    WORDING,
    "It fixes a score at 0; what equals 1 is the exponential of that score.",
)
def the_fixed_score_is_zero():
    softmax = sm.CompositeSoftmax()
    fixed = [softmax.prob(np.array([0.5, level]))[0] for level in (0.0, 1.0)]
    sigmoid = sm.Sigmoid()(0.5)
    return found(
        "z = 0.5: with the other score fixed at 0 and at 1 the probability is {fixed}; Sigmoid: {sigmoid}",
        agree(fixed[0], sigmoid),
        abs(fixed[1] - sigmoid) > 0.2,
        fixed=fixed,
        sigmoid=sigmoid,
    )


@claim(
    "C37", "Composite appendix, eq:composite_softmax to eq:sensitivity_multi_class", "p, H, h_k and Delta_k with gamma."
)
def softmax_formulas_with_gamma():
    hessian = diagonal = 0.0
    for q in SCALINGS:
        for gamma in GAMMAS:
            potential = sm.CompositeSoftmax(q, gamma)
            p = potential.prob(SCORES)
            printed = p * (q.slope(SCORES) + (1.0 - p) * q(SCORES) ** 2 / gamma)
            diagonal = max(diagonal, deviation(sm.sensitivity(potential, SCORES), printed))
            hessian = max(hessian, deviation(gradient_of(potential.link, SCORES), potential.hessian(SCORES)))
    return found(
        "seven scalings, three gammas: Delta_k as printed up to {diagonal}; Hessian against differences {hessian}",
        diagonal < ROUNDING,
        hessian < DIFFERENCES,
        diagonal=diagonal,
        hessian=hessian,
    )


@claim(
    "C38", "Composite appendix, eq:softmax_double_exp to eq:softcosh", "Double exponential, add-one and SoftCosh forms."
)
def closed_forms_of_composites():
    # that appendix shifts by z + beta, so its beta = 1 is ours = -1
    z, alpha, beta = np.array([0.5, -1.0]), 2.0, -1.0
    x = alpha * (z - beta)
    forms = {sm.Exp(): np.exp(np.exp(x)), sm.Sigmoid(): 1.0 + np.exp(x), sm.Tanh(): np.cosh(x)}
    apart = max(
        deviation(sm.CompositeSoftmax(scaled(q, alpha, beta)).prob(z), form / form.sum()) for q, form in forms.items()
    )
    one = deviation(sm.CompositeSigmoid(scaled(sm.Sigmoid(), alpha, beta)).prob(z), (1 + np.exp(x)) / (2 + np.exp(x)))
    return found(
        "three Softmax forms differ by {apart}, the Sigmoid one by {one}",
        max(apart, one) < ROUNDING,
        apart=apart,
        one=one,
    )


@claim("C39", "Composite appendix, after eq:sigmoid_of_softplus1", "Any constant c > 0 can replace the 1.")
def any_constant_can_be_added():
    c = 5.0
    softmax = sm.CompositeSoftmax(Q=lambda z: F.log(c + F.exp(z)))
    same = sm.CompositeSoftmax(sm.Sigmoid().affine(beta=math.log(c)))
    apart = deviation(softmax.prob(SCORES), same.prob(SCORES))
    return found("c = 5 is the add-one form shifted by log 5, up to {apart}", apart < ROUNDING, apart=apart)


@claim(
    "C40",
    OURS,
    "With gamma = 1 the Sigmoid scaling is nothing new: for one class a Sigmoid link shifted by log 2, for K classes a "
    "standard Softmax with one extra class of constant score log K.",
)
def sigmoid_scaling_is_a_shifted_sigmoid():
    one = deviation(sm.CompositeSigmoid(sm.Sigmoid())(GRID), sm.Sigmoid().affine(beta=math.log(2.0))(GRID))
    potential = sm.CompositeSoftmax(sm.Sigmoid())
    top = deviation(potential.primitive(SCORES), math.log(3.0 + np.exp(SCORES).sum()))
    links = deviation(potential.link(SCORES), np.exp(SCORES) / (3.0 + np.exp(SCORES).sum()))
    return found(
        "link differs by {one}; three classes: H - log(3 + sum e^z) = {top}, links differ by {links}",
        max(one, top, links) < ROUNDING,
        one=one,
        top=top,
        links=links,
    )


@claim(
    "C41",
    "Section 5; standard Softmax appendix",
    'The Sigmoid has three sensitivity types; "with K > 2, reducing Softmax is not sufficient to gain as much '
    'flexibility".',
    REMARK,
    "Right: whatever score is fixed, it looks at high scores or at none in particular. That one kind is worth having: "
    "the right-shifted Sigmoid scaling, which the paper recommends for high scores, is exactly a reduced Softmax whose "
    "fixed class has the score beta + log(K)/alpha.",
)
def recommended_scaling_is_a_reduced_softmax():
    reached = {sm.classify(sm.CompositeSoftmax(anchor=float(score))).focus for score in range(-6, 9)}
    sigmoids = [sm.classify(sm.Sigmoid().affine(beta=beta)).focus for beta in (-3.0, 0.0, 3.0)]
    recommended = many(sm.Sigmoid().affine(beta=2.0))
    reduced = many(sm.Constant(), anchor=2.0 + math.log(3.0))
    apart = max(
        deviation(recommended(SCORES, OTHERS), reduced(SCORES, OTHERS)),
        deviation(recommended.potential.link(SCORES), reduced.potential.link(SCORES)),
    )
    standard = abs(many()(SCORES, OTHERS) - reduced(SCORES, OTHERS))
    return found(
        f"a Softmax with a score fixed at -6, ..., 8 looks at: {', '.join(sorted(reached))}; Sigmoid links with "
        f"beta = -3, 0, 3 at {', '.join(sigmoids)}. "
        "sigma(z - 2), three classes, and a standard Softmax with a fixed fourth score: loss and links differ by "
        "{apart} (without the fixed class by {standard})",
        reached == {"uniform", "high scores"},
        sigmoids == ["low scores", "low norms", "high scores"],
        apart < ROUNDING,
        standard > 0.01,
        apart=apart,
        standard=standard,
    )


@claim(
    "C42",
    OURS,
    "The loss is gamma KL(p(s) to p(t)) + sum_k p_k(s) D_Q(t_k, s_k): a ranking part and a region part.",
)
def loss_is_ranking_plus_region():
    random, least = np.random.default_rng(5), math.inf
    apart = of_loss = of_parts = 0.0
    for q, gamma in ((sm.Sinh(), 0.3), (sm.Exp(), 1.0), (sm.Tanh(), 2.0), (sm.Sigmoid(), 0.7)):
        potential = sm.CompositeSoftmax(q, gamma)
        t, s = random.uniform(-3, 3, (2, 20, 4))
        p, log_ratio = potential.prob(s), potential.logits(s) - potential.logits(t)
        log_ratio = log_ratio + (potential.primitive(t) - potential.primitive(s))[:, None] / gamma
        ranking, region = gamma * (p * log_ratio).sum(-1), (p * plain(q, t, s)).sum(-1)
        apart = max(apart, deviation(ranking + region, plain(potential, t, s)))
        least = min(least, ranking.min(), region.min())
        loss = sm.MatchingLoss(potential)
        of_loss = max(of_loss, deviation(loss(t, s, reduction="none"), ranking + region))
        of_parts = max(of_parts, deviation(loss.parts(t, s, reduction="none"), (ranking, region)))
    return found(
        "80 random cases: the sum differs from the paper's formula by {apart}, from the loss of the library by "
        "{of_loss}, each part from its own by {of_parts}; smallest part {least}",
        max(apart, of_loss, of_parts) < 1e-10,  # the plain formulas cancel
        least >= -1e-12,
        apart=apart,
        of_loss=of_loss,
        of_parts=of_parts,
        least=least,
    )
