"""The standard Softmax: section 5 and its appendix."""

from __future__ import annotations

import numpy as np

import selmatch as sm
from selmatch.paper.ledger.composite import OTHERS, SCORES
from selmatch.paper.ledger.entries import claim, found
from selmatch.paper.ledger.measuring import (
    GRID,
    ROUNDING,
    agree,
    deltas,
    deviation,
    many,
    moved,
    near,
)
from selmatch.paper.records import CONDITION, ERRATUM

TOP_DOWN = np.array([3.0, 0.0, -3.0])


@claim("C60", "Section 5, standard Softmax", "Its sensitivity is p (1 - p): bounded, and largest at p = 1/2.")
def standard_sensitivity_is_bounded():
    z = np.column_stack([GRID, np.zeros_like(GRID)])
    potential = sm.CompositeSoftmax()
    p, sensitivity = potential.prob(z)[:, 0], sm.sensitivity(potential, z)[:, 0]
    return found(
        "p (1 - p) up to {apart}; the largest is {largest}, at p = {at}",
        agree(sensitivity, p * (1.0 - p)),
        agree(sensitivity.max(), 0.25),
        agree(p[sensitivity.argmax()], 0.5),
        apart=deviation(sensitivity, p * (1.0 - p)),
        largest=sensitivity.max(),
        at=p[sensitivity.argmax()],
    )


@claim(
    "C61",
    "Section 5, standard Softmax",
    "The standard Softmax is most sensitive at low score norms.",
    ERRATUM,
    "By shift invariance norms play no role: what counts is p (1 - p).",
)
def norms_play_no_role():
    zero, far = deltas(at=(0.0, 0.0, 0.0))[0], deltas(at=(100.0, 100.0, -500.0))[0]
    return found(
        "sensitivity at (0, 0, 0): {zero}; at (100, 100, -500): {far}",
        agree(zero, 2.0 / 9.0),
        agree(far, 0.25),
        far > zero,
        zero=zero,
        far=far,
    )


@claim(
    "C62",
    "Standard Softmax appendix",
    'With all generalisations, "the standard Softmax cannot have focus regions beyond high scores".',
    CONDITION,
    "alpha > 0. With alpha < 0 (Softmin) it is as convex, and looks at low scores.",
)
def softmin_looks_at_low_scores():
    softmax, softmin = (deltas(sm.Constant(alpha), at=TOP_DOWN) for alpha in (1.0, -1.0))
    return found(
        "Delta at (3, 0, -3): alpha = 1 {softmax}; alpha = -1 {softmin}",
        agree(softmax, softmin[::-1]),
        softmin[2] > softmin[1] > softmin[0],
        sm.certify.convex(sm.CompositeSoftmax(sm.Constant(-1.0))),
        softmax=softmax,
        softmin=softmin,
    )


@claim(
    "C63",
    "Standard Softmax appendix, eq:softmax_linear to eq:softmax_ce_loss",
    "Formulas with rho, gamma, alpha, beta.",
)
def generalised_standard_softmax():
    alpha, beta, gamma, rho = 0.8, 0.4, 0.6, np.array([0.5, 1.0, 2.0])
    loss = sm.MatchingLoss(sm.CompositeSoftmax(sm.Constant(alpha).affine(beta=beta), gamma, tuple(rho)))
    entropy = sm.CrossEntropy(loss.potential)

    def top(z):
        return gamma * np.log(np.sum(rho ** (1 / gamma) * np.exp(alpha * (z - beta) / gamma)))

    p = loss.potential.prob(OTHERS)
    printed = top(SCORES) - top(OTHERS) - alpha * (SCORES - OTHERS) @ p
    gradient = alpha * (loss.potential.prob(SCORES) - p)
    apart = max(
        deviation(loss(SCORES, OTHERS), printed),
        deviation(loss.grad(SCORES, OTHERS), gradient),
        deviation(entropy.grad(SCORES, OTHERS), gradient),
    )
    missing = top(SCORES) - alpha * (SCORES - beta) @ p - entropy(SCORES, OTHERS)
    return found(
        "loss and gradients differ by {apart}; the printed CE leaves out sum p_k(s) log rho_k = {missing}, a constant",
        apart < ROUNDING,
        agree(missing, p @ np.log(rho)),
        apart=apart,
        missing=missing,
    )


def projection(loss: sm.MatchingLoss, k: int, to: float, scores: np.ndarray = TOP_DOWN) -> float:
    """The loss when only the score of class k is predicted wrongly."""
    return loss(moved(scores, k, to), scores)


@claim(
    "C64",
    "Standard Softmax appendix, fig:softmax_invalid",
    "Links of the middle and low score overlap; the loss is sharp for underestimating the top and flat above it.",
)
def standard_softmax_figure():
    loss = many()
    z = np.linspace(-6.0, 6.0, 121)
    links = [loss.potential.link(np.stack([moved(TOP_DOWN, k, u) for u in z]))[:, k] for k in (1, 2)]
    overlap = float(np.abs(links[0] - links[1]).max())
    top = [projection(loss, 0, to) for to in (0.0, 6.0)]
    middle = [projection(loss, 1, to) for to in (3.0, -3.0)]
    low = [projection(loss, 2, to) for to in (3.0, 0.0, -6.0)]
    return found(
        "largest difference of the two links {overlap}; top: 3 -> 0, 6 costs {top}; middle: 0 -> 3, -3 costs {middle}; "
        "low: -3 -> 3, 0, -6 costs {low} (sharp only beyond the top)",
        overlap < 0.012,
        near(top, [0.518, 0.101], 5.0),
        near(middle, [0.502, 0.096], 5.0),
        near(low, [0.6527, 0.0369, 0.00483], 2.0),
        overlap=overlap,
        top=top,
        middle=middle,
        low=low,
    )


@claim("C65", "Standard Softmax appendix, fig:softmax_invalid", "The curves do not change with the shift.")
def shifts_change_nothing():
    losses = [many(sm.Constant().affine(beta=beta)) for beta in (0.0, 3.0, -3.0)]
    curves = [[projection(loss, k, to) for k in range(3) for to in (-6.0, -1.0, 2.0, 6.0)] for loss in losses]
    apart = max(deviation(curve, curves[0]) for curve in curves)
    return found("shifts by 0, 3, -3: projections differ by {apart}", apart < ROUNDING, apart=apart)
