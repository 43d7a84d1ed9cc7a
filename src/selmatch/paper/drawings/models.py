"""Figures of what models predict: underspecified ones, and single predictions for scores that vary."""

from __future__ import annotations

from string import ascii_lowercase

import matplotlib.figure
import numpy as np
from matplotlib.axes import Axes

from selmatch import plots
from selmatch.paper.drawings.panels import drawn, lettered
from selmatch.paper.drawings.rows import INK, levels_of
from selmatch.paper.records import Figure
from selmatch.paper.stochastic import MEAN_SCORE, for_one_large_score, for_two_scores
from selmatch.paper.underspecified import MOSTLY_HIGH, MOSTLY_LOW, Fit

# -------------------------------------------------------------------------------------------------- underspecification


#: title, and the model
FITS = (
    ("high scores", Fit(MOSTLY_LOW, alpha=2.0, beta=8.0)),
    ("low scores", Fit(MOSTLY_LOW, alpha=2.0, beta=-6.0)),
    ("low norms, mostly low labels", Fit(MOSTLY_LOW, alpha=2.0)),
    ("low norms, mostly high labels", Fit(MOSTLY_HIGH, alpha=2.0)),
)
LABELS = (-15.0, 15.0)
#: closer together where the loss is small: the valley along the diagonal is what matters
LEVELS = (0.0, 0.001, 0.01, 0.05, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0)


@drawn
def underspecification() -> matplotlib.figure.Figure:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(len(FITS), 3, figsize=(7.2, 8.4), width_ratios=(1.15, 1.0, 1.1))
    for letter, (data, link, predicted), (title, fit) in zip(ascii_lowercase, axes, FITS, strict=False):
        _draw_examples(data, fit)
        data.set_title(lettered(letter, title))
        plots.link(fit.loss, domain=LABELS, ax=link, color=INK, legend=False)
        link.set(xlabel="$z$", ylabel="$h(z)$, $h'(z)$", title="")
        _draw_predictions(predicted, fit)
        for ax, name in ((data, "examples"), (link, "link"), (predicted, "predictions")):
            ax.set_label(f"{name} / {title}")
    return figure


def _draw_examples(ax: Axes, fit: Fit) -> None:
    x1, x2 = fit.examples.features.T
    points = ax.scatter(x1, x2, c=fit.examples.labels, cmap="cividis", vmin=-10, vmax=10, s=14, edgecolors="none")
    ax.set(xlabel="$x_1$", ylabel="$x_2$")
    ax.figure.colorbar(points, ax=ax, label="label $s$", ticks=(-10, 0, 10), pad=0.02)


def _draw_predictions(ax: Axes, fit: Fit) -> None:
    plots.contours(fit.loss, domain=LABELS, ax=ax, **levels_of(LEVELS))
    labels, predictions = fit.examples.labels, fit.predictions
    ax.plot(labels, predictions, "o", color=plots.COLOURS["vermillion"], markersize=3.0, label="predictions")
    w1, w2 = fit.weights
    ax.set(xlabel="observed $s$", ylabel=r"predicted $\hat{s}$", title=f"$w = ({w1:.2f}, {w2:.2f})$")


# ------------------------------------------------------------------------------------------------------ stochasticity

LEFT_ALPHAS = (1.0, 5.0, 10.0, 20.0)
RIGHT_ALPHAS = (0.5, 1.0, 2.0, 5.0)
MEANS = (0.0, 2.0)


@drawn
def stochastic() -> matplotlib.figure.Figure:
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(7.2, 2.8))
    styles = [(plots.COLOURS[name], mark) for name, mark in zip(SERIES, "o^sD", strict=True)]
    for alpha, (colour, mark) in zip(LEFT_ALPHAS, styles, strict=True):
        large, best = for_one_large_score(alpha)
        left.plot(large, best, color=colour, marker=mark, markersize=3.0, label=rf"$\alpha = {alpha:g}$")
    left.axhline(MEAN_SCORE, color="0.4", linewidth=0.7, linestyle=":", label="mean")
    left.set(xlabel="large score", ylabel="best prediction", title=lettered("a", "one large score, 1 to 18 small ones"))
    left.legend(loc="upper left")
    deviations = np.linspace(0.0, 3.0, 31)
    for mean, line in zip(MEANS, ("-", "--"), strict=True):
        for alpha, (colour, _) in zip(RIGHT_ALPHAS, styles, strict=True):
            label = rf"$\alpha = {alpha:g}$" if mean == MEANS[0] else f"_mean {mean:g}, alpha {alpha:g}"
            best = [for_two_scores(alpha, mean, deviation) for deviation in deviations]
            right.plot(deviations, best, color=colour, linestyle=line, label=label)
    right.set(xlabel="deviation from the mean", title=lettered("b", "two scores, equally far from their mean"))
    right.set_ylim(top=6.4)  # room for the legend above the curves
    right.legend(loc="upper left", ncols=2, title="mean 0: solid, mean 2: dashed", title_fontsize="small")
    for ax, name in ((left, "one large score"), (right, "two scores")):
        ax.set_label(f"predictions / {name}")
    return figure


SERIES = ("bluish green", "blue", "orange", "vermillion")

FIGURES = (
    Figure(
        "underspecification",
        "An underspecified model believes where the loss looks",
        "fig:underspecification",
        "Low labels equal x2, high labels x1, the other feature says nothing; one linear model without intercept "
        "cannot satisfy both. Trained to the optimum with a Sigmoid link, alpha = 2, beta = 8, -6 and 0. Right: "
        "predictions over contours of the loss on the plane of observed and predicted scores. With beta = 8 the "
        "model believes x1, with beta = -6 it believes x2, if alpha is about 1 or more (C121). With beta = 0 the "
        "majority is served better, but its pairs never merge completely (C122). The paper does not give the data "
        "of its last row; these are the mirror image of the others, other data may not show it (C123). Where the "
        "paper writes high labels x it means s (C124).",
        underspecification,
    ),
    Figure(
        "match_stochastic",
        "The best prediction for scores that vary",
        "fig:match_stochastic",
        "Link exp(alpha z); the loss asks for the inverse link of the mean link, not for the mean. Left: one large "
        "score and k = 1 ... 18 scores of 0.05 with mean 0.1, alpha = 1, 5, 10, 20: predictions follow the large "
        "score. Right: two scores at equal distance from means 0 and 2, alpha = 0.5, 1, 2, 5: the bias grows with "
        "alpha (an inverse temperature, C128) and does not depend on the mean or on a shift of the link (C126).",
        stochastic,
    ),
)
