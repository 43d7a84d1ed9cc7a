"""What the paper's text says about vertical shifts, and about the figures of scalings."""

from __future__ import annotations

import math

import numpy as np

import selmatch as sm
from selmatch import functions as F
from selmatch.paper.ledger.composite import GAMMAS, SCORES
from selmatch.paper.ledger.entries import claim, found
from selmatch.paper.ledger.measuring import (
    GRID,
    ROUNDING,
    THREE,
    amplified,
    deltas,
    deviation,
    focus_of,
    many,
    moved,
    near,
    refuted,
    scaled,
)
from selmatch.paper.records import CONDITION, ERRATUM, REMARK


@claim(
    "C101",
    "Text after tab:mc_requirements",
    '"With gamma = 1, the log-score-transform is vertical shift invariant" (in a text on many classes).',
    REMARK,
    "True, and not only with gamma = 1: for the composite Softmax nothing changes with any gamma. For the composite "
    "Sigmoid, which the sentence is not about, something changes with every gamma (C31).",
)
def vertical_shifts_of_q():
    changes = [
        deviation(
            sm.CompositeSoftmax(Q=lambda z: F.cosh(z) - 2.0, gamma=gamma).link(SCORES),
            many(sm.Sinh(), gamma).potential.link(SCORES),
        )
        for gamma in GAMMAS
    ]
    gammas = (0.5, 1.0, 2.0)
    one = [
        amplified(sm.Sinh(), gamma, -2.0).potential.prob(1.0) - amplified(sm.Sinh(), gamma).potential.prob(1.0)
        for gamma in gammas
    ]
    return found(
        "Q = cosh to cosh - 2: Softmax links change by {changes} for gamma .3, 1, 2; Sigmoid p(1) by {one} for .5, 1, "
        "2",
        np.array(changes) < ROUNDING,
        near(one, [-0.67, -0.44, -0.24], 30.0),
        changes=changes,
        one=one,
    )


@claim("C102", "Text after tab:mc_requirements", "A vertical shift of q tilts p exponentially to high scores.")
def vertical_shifts_of_the_scaling_tilt():
    c, gamma = 2.0, 0.7
    tilted = sm.CompositeSoftmax(sm.Sinh() + sm.Constant(c), gamma).prob(SCORES)
    ratio = tilted / many(sm.Sinh(), gamma).potential.prob(SCORES)
    apart = deviation(ratio[0] / ratio[1] / math.exp(c * (SCORES[0] - SCORES[1]) / gamma), 1.0)
    return found("p ratios change by e^(c (z_1 - z_2)/gamma), up to {apart}", apart < 1e-10, apart=apart)


def cosh_settings(betas: np.ndarray) -> list[tuple[sm.Curve, float]]:
    return [
        (scaled(sm.Cosh(), alpha, beta), gamma)
        for alpha in np.arange(1, 21) / 10.0
        for beta in betas
        for gamma in (0.1, 0.3, 0.5, 1.0, 2.0)
    ]


@claim(
    "C103",
    "Multi-class link appendix, fig:multi_select_negexp and fig:multi_select_sinh",
    "A cosh scaling gives valid multi-class losses for low scores and for high norms.",
    ERRATUM,
    "Never as convex losses (C56), although projections can look convex. It is fine only with all scores to the right "
    "of beta, where it is one more exponential shape for high scores.",
)
def cosh_projections_deceive():
    line = np.stack([moved(THREE, k, to) for k in range(3) for to in np.linspace(-4.0, 4.0, 41)])
    own = np.repeat(np.arange(3), 41)
    looks_fine = indefinite = 0
    worst = 0.0
    with np.errstate(over="ignore", under="ignore"):
        for q, gamma in cosh_settings(np.arange(-6.0, 8.1, 1.0)):
            row = deltas(q, gamma)
            low, norms = row.argmax() == 0, min(row[0], row[2]) > row[1]
            if not (low or norms):
                continue
            potential = many(q, gamma).potential
            if np.min(potential.slope(line)[np.arange(line.shape[0]), own]) < -1e-12:
                continue
            looks_fine += 1
            indefinite += refuted(sm.certify.convex(potential, (-4, 4)))
            worst = min(worst, float(np.linalg.eigvalsh(potential.hessian(THREE))[0]))
    right = sm.certify.convex(sm.CompositeSoftmax(sm.Cosh().affine(beta=-4.0), check=False), (-3, 3))
    return found(
        "{looks_fine:.0f} settings of alpha, beta, gamma look at low scores or high norms with convex projections; "
        "{indefinite:.0f} of them are refuted as convex losses on [-4, 4] (least eigenvalue at (-3, 0, 3): {worst}). "
        "With all scores right of beta it is proved convex, and looks at high scores",
        looks_fine > 0,
        indefinite == looks_fine,
        worst < 0.0,
        right,
        focus_of(sm.Cosh().affine(beta=-4.0)) == "high scores",
        looks_fine=looks_fine,
        indefinite=indefinite,
        worst=worst,
    )


@claim(
    "C104",
    "Scalar scaling appendix, fig:scalar_scale_examples",
    'For one class, "high norm sensitivity can be obtained with a linear q(z)".',
    CONDITION,
    "Up to |z| of about 2; then the sensitivity falls again, to alpha^2.",
)
def linear_scaling_saturates():
    z = np.array([0.0, 1.0, 1.5, 2.0, 3.0, 6.0])
    row = sm.sensitivity(amplified(sm.Identity()), z)
    top = GRID[np.argmax(sm.sensitivity(amplified(sm.Identity()), GRID))]
    return found(
        "sensitivity at 0, 1, 1.5, 2, 3, 6: {row}; largest at |z| = {top}",
        near(row, [0.5, 0.857, 1.171, 1.301, 1.087, 1.0], 1.0),
        1.8 < abs(top) < 2.2,
        row=row,
        top=abs(top),
    )


@claim(
    "C105",
    "Scalar scaling appendix, fig:scalar_scale_examples",
    'For one class, "with q(z) ∝ cosh(x), it is also possible to obtain high norm sensitivity".',
    CONDITION,
    "Only with a tuned shift (as the paper says itself), inside a small part of the convex settings, and only on a "
    "range such as [-3, 3]: further left the slope falls to 0.",
)
def cosh_needs_a_tuned_shift():
    z = np.linspace(-3.0, 3.0, 61)

    def ratio(alpha, beta, gamma):
        slopes = sm.CompositeSigmoid(scaled(sm.Cosh(), alpha, beta), gamma, check=False).slope(z)
        if slopes.min() < 0.0:
            return math.nan
        return min(slopes[0], slopes[-1]) / slopes[np.abs(z) <= 1.0].max()

    settings = [
        (alpha, beta, gamma)
        for alpha in np.arange(2, 21, 2) / 10.0
        for beta in np.arange(-20, 21, 2) / 10.0
        for gamma in (0.2, 0.5, 0.7, 1.0, 1.3)
    ]
    ratios = np.array([ratio(*setting) for setting in settings])
    valid, good = np.isfinite(ratios), ratios > 1.0
    best, typical = ratio(0.4, 1.8, 1.3), ratio(0.5, 0.0, 0.7)
    left = sm.CompositeSigmoid(scaled(sm.Cosh(), 0.4, 1.8), 1.3, check=False).slope(np.array([-3.0, -6.0, -12.0]))
    return found(
        "{good:.0f} of {valid:.0f} convex settings have both ends above the middle; end over middle: {best} for alpha "
        "= .4, beta = 1.8, gamma = 1.3, {typical} for alpha = .5, beta = 0, gamma = .7. The "
        "former's slope at -3, -6, -12: {left}",
        0 < good.sum() < 0.05 * valid.sum(),
        near(best, 5.4, 10.0),
        typical < 1.0,
        near(left[:2], [0.0608, 0.00235], 2.0),
        left[2] < 1e-30,
        good=good.sum(),
        valid=valid.sum(),
        best=best,
        typical=typical,
        left=left,
    )


@claim(
    "C106",
    "Scalar scaling appendix, fig:scalar_scale_examples",
    '"Generally, a functional form applied to a scaling function produces similar sensitivity profile to that '
    'functional form applied as a link".',
    CONDITION,
    "True for Sigmoid, tanh, sinh and exp; a linear q, as the paper notes, is not uniform (C104).",
)
def scaling_behaves_as_link():
    shapes = [sm.Sigmoid(), sm.Tanh(), sm.Sinh(), sm.Exp()]
    same = [focus_of(q, "sigmoid") == focus_of(q, "link") for q in shapes]
    links = np.array([sm.sensitivity(q, THREE) for q in shapes])
    scalings = np.array([sm.sensitivity(amplified(q), THREE) for q in shapes])
    most = [[1], [1], [0, 2], [2]]  # of -3, 0, 3
    leads = [
        slopes[k, at].min() > 2.5 * np.delete(slopes[k], at).max()
        for slopes in (links, scalings)
        for k, at in enumerate(most)
    ]
    linear = sm.sensitivity(amplified(sm.Identity()), THREE)
    return found(
        "{same:.0f} of 4 shapes keep their class. Sensitivity at (-3, 0, 3) as scaling: Sigmoid {sigmoid}; tanh "
        "{tanh}; sinh {sinh}; exp {exp}. A linear link has slope 1, as scaling {linear}",
        same,
        leads,
        near(scalings[0], [0.0237, 0.2222, 0.0824], 2.0),
        near(scalings[1:, 1:], [[0.5, 0.0904], [0.7311, 10.071], [0.9277, 20.086]], 1.0),
        focus_of(sm.Identity(), "link") == "uniform",
        focus_of(sm.Identity(), "sigmoid") == "high norms",
        near(linear, [1.087, 0.5, 1.087], 1.0),
        same=sum(same),
        **dict(zip(("sigmoid", "tanh", "sinh", "exp"), scalings, strict=True)),
        linear=linear,
    )
