"""Re-weighting, underspecification and stochasticity: the remaining appendices."""

from __future__ import annotations

import math

import numpy as np

import selmatch as sm
from selmatch.paper.ledger.entries import claim, found
from selmatch.paper.ledger.measuring import SOLVED, agree, bend_of, deviation, near
from selmatch.paper.records import CONDITION, WORDING
from selmatch.paper.reweighting import reweighted
from selmatch.paper.stochastic import exponential, for_one_large_score, for_two_scores
from selmatch.paper.underspecified import MOSTLY_HIGH, MOSTLY_HIGH_OTHER_KEPT, MOSTLY_LOW, Fit


@claim("C119", "Re-weighting appendix, fig:reweighting", "Squares weighted by kappa (z - min s + delta), three ways.")
def weighted_squares():
    pairs = ((3.0, -3.0), (-3.0, 3.0))
    costs = {by: [reweighted(by)(t, s) for t, s in pairs] for by in ("observed", "predicted", "both")}
    matching = [exponential(1.0)(t, s) for t, s in (*pairs, (-4.0, -3.0))]
    return found(
        "predicting 3 for -3 and -3 for 3 costs {observed} weighted by the observed score, {predicted} by the "
        "predicted one, {both} by both; with an exponential link {matching} (last: -4 for -3)",
        agree(costs["observed"], [9.0, 117.0]),
        agree(costs["predicted"], [117.0, 9.0]),
        agree(costs["both"], 29.25),
        near(matching, [19.7, 100.5, 0.0183], 5.0),
        **costs,
        matching=matching,
    )


@claim("C120", "Re-weighting appendix", "Weighted by the prediction the loss is not convex and punishes too little.")
def weighting_by_predictions():
    loss = reweighted("predicted")
    t = np.array([0.5, 0.8, 0.9, 2.0])
    bends = bend_of(lambda u: loss(u, 3.0, reduction="none"), t)
    values = [loss(u, 3.0) for u in (-3.0, -3.5, -4.0)]
    return found(
        "s = 3: second derivative at .5, .8, .9, 2: {bends} (negative below .833); loss at -3, -3.5, -4: {values}: "
        "zero, then negative without bound",
        np.sign(bends) == [-1, -1, 1, 1],
        agree(bends, 3.0 * t - 6.0 + 3.5, 1e-6),
        abs(values[1]) < SOLVED,
        near(values[2], -12.25, 1.0),
        bends=bends,
        values=values,
    )


@claim(
    "C121",
    "Underspecification appendix, rows 1 and 2",
    'High score sensitivity: the model "ignores feature x_2 for high scores"; it is "opposite" for low score '
    "sensitivity.",
    CONDITION,
    "alpha of about 1 or more.",
)
def shifted_sigmoids_choose_a_feature():
    settings = ((1.0, 8.0), (2.0, 8.0), (1.0, -6.0), (0.5, 8.0))
    fits = [Fit(MOSTLY_LOW, *setting).weights for setting in settings]
    return found(
        "weights of the two features: alpha 1, beta 8: {one}; alpha 2: {two}; alpha 1, beta -6: {low}; alpha .5, beta "
        "8: {weak}",
        agree(fits[0], [0.972, 0.111], 1e-3),
        agree(fits[1], [1.0, 0.0], 2e-3),
        agree(fits[2], [0.015, 1.005], 1e-3),
        fits[3][1] > 0.5,
        **dict(zip(("one", "two", "low", "weak"), fits, strict=True)),
    )


@claim(
    "C122",
    "Underspecification appendix, row 3",
    'With an unshifted Sigmoid, the prediction of the larger side "merges pairs of equal low score labels".',
    CONDITION,
    "Relatively: the pairs of the majority differ less than the others, never by nothing, and low predictions are "
    "stretched.",
)
def the_majority_is_merged_relatively():
    fits = [Fit(MOSTLY_LOW, alpha).weights for alpha in (1.0, 4.0)]
    apart = [(2.0 * w).tolist() for w in fits]
    return found(
        "alpha 1: weights {one}; alpha 4: {four}; low pairs differ by {low}, high pairs by {high}",
        agree(fits[0], [0.375, 1.388], 1e-3),
        agree(fits[1], [0.103, 1.232], 1e-3),
        [0.1 < low < high for low, high in apart],
        one=fits[0],
        four=fits[1],
        low=[row[0] for row in apart],
        high=[row[1] for row in apart],
    )


@claim(
    "C123",
    "Underspecification appendix, row 4",
    'With "more high score examples, giving the opposite behavior", the pairs of high scores are merged.',
    CONDITION,
    "For the mirrored data (the paper does not give the data of this row): with the uninformative feature still in "
    "{1, 3}, high pairs differ more than low ones.",
)
def the_opposite_needs_mirrored_data():
    sets = (MOSTLY_HIGH, MOSTLY_HIGH_OTHER_KEPT, MOSTLY_LOW)
    mirrored, kept, reference = (Fit(examples, alpha=1.0).weights for examples in sets)
    pairs = (2.0 * kept[::-1]).tolist()
    return found(
        "mirrored data: weights {mirrored}, the reverse of row 3; other feature in {{1, 3}}: {kept}, so that high "
        "pairs differ by {high}, low pairs by {low}",
        deviation(mirrored, reference[::-1]) < SOLVED,
        agree(kept, [0.520, 0.750], 1e-3),
        pairs[0] > pairs[1],
        mirrored=mirrored,
        kept=kept,
        high=pairs[0],
        low=pairs[1],
    )


@claim(
    "C124",
    "Underspecification appendix",
    '"High label values x in {6, ..., 10} match the value of x_1".',
    WORDING,
    "The labels are s: high labels s in {6, ..., 10} equal the feature x_1.",
)
def labels_are_s():
    (x1, x2), labels = MOSTLY_LOW.features.T, MOSTLY_LOW.labels
    high = labels > 0
    values = np.unique(labels[high])
    own = [float(np.abs(x1[high] - labels[high]).max()), float(np.abs(x2[~high] - labels[~high]).max())]
    other = [float(np.abs(x2[high] - labels[high]).min()), float(np.abs(x1[~high] - labels[~high]).min())]
    loss = Fit(MOSTLY_LOW, alpha=2.0, beta=8.0).loss
    costs = [loss(x[high], labels[high]) for x in (x1, x2)]
    return found(
        "high labels are {values}; they differ from x_1, low ones from x_2, by at most {own}, from the other feature "
        "by at least {other}: there is no x for all labels. For high labels predicting x_1 or x_2 costs {costs}",
        agree(values, np.arange(6.0, 11.0)),
        np.array(own) == 0.0,
        np.array(other) > 1.0,
        costs[0] == 0.0 < costs[1],
        values=values,
        own=own,
        other=other,
        costs=costs,
    )


@claim(
    "C125",
    "Stochasticity appendix, left panel",
    "One large score and k small ones of 0.05 with mean 0.1: the prediction grows with the large score and with alpha.",
)
def rare_large_scores_pull():
    large, _ = for_one_large_score(1.0)
    table = np.array([for_one_large_score(alpha)[1] for alpha in (1.0, 2.0, 5.0, 10.0, 20.0)])
    return found(
        "large score {ends}: from {first} to {last} for alpha 1, 2, 5, 10, 20",
        agree(large[[0, -1]], [0.15, 1.0]),
        np.diff(table, axis=1) > 0.0,
        np.diff(table, axis=0) > 0.0,
        near(table[[0, 3, 4], -1], [0.1302, 0.7057, 0.8528], 1.0),
        ends=large[[0, -1]],
        first=table[:, 0],
        last=table[:, -1],
    )


@claim(
    "C126",
    "Stochasticity appendix, right panel",
    "The bias depends neither on the mean nor on the shift, and grows with alpha.",
)
def bias_depends_on_alpha_only():
    def bias(alpha, mean, beta=0.0, d=1.5):
        return for_two_scores(alpha, mean, d, beta) - mean

    same = [bias(2.0, 0.0), bias(2.0, 7.0), bias(2.0, 7.0, beta=4.0)]
    growing = [bias(alpha, 0.0) for alpha in (0.5, 1.0, 2.0, 4.0)]
    return found(
        "alpha 2, deviation 1.5: {same:.7f} for two means and a shift, log cosh(alpha d)/alpha; alpha .5, 1, 2, 4: "
        "{growing}",
        agree(same, math.log(math.cosh(3.0)) / 2.0, SOLVED),
        np.diff(growing) > 0.0,
        same=same,
        growing=growing,
    )


@claim("C127", "Stochasticity appendix, right panel", "A shift of the exponential link changes the steepness only.")
def shifts_change_steepness():
    losses = [exponential(2.0, beta) for beta in (0.0, 1.0)]
    factor = losses[1](1.0, 0.3) / losses[0](1.0, 0.3)
    best = [loss.minimiser([0.0, 1.0]) for loss in losses]
    sigmoid = [sm.MatchingLoss(sm.Sigmoid().affine(2.0, beta)).minimiser([0.0, 1.0]) for beta in (0.0, 1.0)]
    return found(
        "a shift by 1 multiplies the loss by {factor} = e^(-alpha beta) and leaves the minimiser at {best}; a Sigmoid "
        "link would move it: {sigmoid}",
        agree(factor, math.exp(-2.0)),
        agree(best[0], best[1], SOLVED),
        abs(sigmoid[0] - sigmoid[1]) > 0.05,
        factor=factor,
        best=best,
        sigmoid=sigmoid,
    )


@claim(
    "C128",
    "Stochasticity appendix",
    'alpha is called "scaling factor (or temperature)".',
    CONDITION,
    "It is an inverse temperature: a large alpha picks the maximum, a small one the mean.",
)
def alpha_is_an_inverse_temperature():
    hot, cold = (exponential(alpha).minimiser([0.0, 1.0]) for alpha in (0.001, 100.0))
    return found(
        "scores 0 and 1: prediction {hot} with alpha = .001, {cold} with alpha = 100",
        agree(hot, 0.5, 1e-3),
        agree(cold, 1.0, 0.01),
        hot=hot,
        cold=cold,
    )


@claim("C129", "Stochasticity appendix", "The prediction is biased to the more sensitive region.")
def bias_follows_sensitivity():
    loss = sm.MatchingLoss(sm.Sigmoid())
    biases = [loss.minimiser([mean - 1.0, mean + 1.0]) - mean for mean in (-3.0, 0.0, 3.0)]
    slopes = sm.sensitivity(loss, np.array([[-4.0, -2.0], [-1.0, 1.0], [2.0, 4.0]]))
    return found(
        "Sigmoid link, two scores 1 below and above -3, 0, 3: bias {biases}, the sign of the change of slope",
        near([biases[0], biases[2]], [0.392, -0.392], 2.0),
        abs(biases[1]) < SOLVED,
        np.sign(np.round(slopes[:, 1] - slopes[:, 0], 9)) == [1, 0, -1],
        biases=biases,
    )
