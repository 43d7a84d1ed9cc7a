"""Figures of losses of a single score."""

from __future__ import annotations

from dataclasses import replace

import matplotlib.figure

import selmatch as sm
from selmatch import plots
from selmatch.paper.drawings import rows, shapes
from selmatch.paper.drawings.panels import (
    Block,
    Column,
    Shape,
    as_link,
    as_scaling,
    drawn,
    grid,
    legend_of,
    lettered,
    stacked,
)
from selmatch.paper.records import Figure
from selmatch.paper.reweighting import reweighted

#: the link of the first figure, and a prediction too high and one too low
AREA_LINK = sm.Sigmoid()
AREAS = ((2.5, -1.5), (-2.5, 1.5))

REGIONS = (
    Shape(sm.Sigmoid()),
    Shape(sm.Sigmoid().affine(beta=5.0)),
    Shape(sm.Sigmoid().affine(beta=-5.0)),
    Shape(sm.Sinh().affine(alpha=0.5)),
)
AMPLIFIED = (
    Shape(sm.Sigmoid()),
    Shape(sm.Tanh()),
    Shape(sm.Sigmoid().affine(beta=4.0)),
    Shape(sm.Sigmoid().affine(beta=-4.0)),
    Shape(sm.Sinh().affine(alpha=0.5)),
)
WORDS = ("low norms", "high scores", "low scores", "high norms")
AMPLIFIED_WORDS = ("low norms", "low norms, odd", "high scores", "low scores", "high norms")

REWEIGHTED = (
    Column("weight by $s$", reweighted("observed")),
    Column(r"weight by $\hat{s}$", reweighted("predicted")),
    Column("weight by both", reweighted("both")),
    Column("matching loss of $e^z$", sm.MatchingLoss(sm.Exp())),
)


def titled(columns: list[Column], words: tuple[str, ...]) -> list[Column]:
    """The columns with words above their formulas."""
    return [replace(column, title=f"{word}\n{column.title}") for column, word in zip(columns, words, strict=True)]


@drawn
def area() -> matplotlib.figure.Figure:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(5.6, 2.3), sharey=True)
    for letter, ax, (s_hat, s) in zip("ab", axes, AREAS, strict=True):
        title = "a prediction too high" if s_hat > s else "a prediction too low"
        plots.area(AREA_LINK, s_hat, s, domain=(-4.0, 4.0), ax=ax)
        ax.set_label(f"area / {title}")
        ax.set_title(lettered(letter, title))
        ax.set_xlabel("$z$")
        ax.set_ylabel("$h(z)$" if ax is axes[0] else "")
    return figure


@drawn
def regions() -> matplotlib.figure.Figure:
    columns = titled([as_link(shape) for shape in REGIONS], WORDS)
    return grid((rows.LINK, rows.LOSSES), columns, legend=legend_of(dashed="sensitivity $h'$"))


@drawn
def amplified() -> matplotlib.figure.Figure:
    columns = titled([as_scaling(shape) for shape in AMPLIFIED], AMPLIFIED_WORDS)
    views = (rows.SCALING, rows.PROBABILITY, rows.LINK, rows.LOSSES_AND_CROSS_ENTROPY, rows.CROSS_ENTROPY)
    return grid(views, columns, width=8.2, legend=legend_of(dashed="sensitivity $h'$; cross-entropy"))


@drawn
def reweighting() -> matplotlib.figure.Figure:
    return grid((rows.LOSSES_AROUND_ZERO,), REWEIGHTED, height=2.0, legend=legend_of())


@drawn
def links() -> matplotlib.figure.Figure:
    blocks = [Block(title, tuple(map(as_link, found))) for title, found in shapes.LINKS.items()]
    return stacked(
        (rows.LINK, rows.LOSSES), blocks, width=10.5, height=1.3, legend=legend_of(dashed="sensitivity $h'$")
    )


@drawn
def scalings() -> matplotlib.figure.Figure:
    blocks = [Block(title, tuple(map(as_scaling, found))) for title, found in shapes.SCALINGS.items()]
    return stacked(
        (rows.LINK, rows.LOSSES), blocks, width=10.5, height=1.3, legend=legend_of(dashed="sensitivity $h'$")
    )


FIGURES = (
    Figure(
        "matching_loss_demo",
        "The matching loss is an area",
        "fig:matching_loss_demo",
        "The loss of a prediction is the area between the link and its level at the observed score; here the link "
        "is the Sigmoid with alpha = 1. Too high and too low predictions both cost, and a steep link makes the area "
        "grow quickly.",
        area,
    ),
    Figure(
        "selective_bin_loss_regions",
        "Four kinds of sensitivity",
        "fig:selective_bin_loss_regions",
        "Links (solid) and their slopes (dashed) above the losses they make. Sigmoid with alpha = 1 and beta = 0, 5 "
        "and -5, and sinh(z/2). A loss is sharp around observed scores where the link is steep and flat where it is "
        "flat; confusing a high score with a low one always costs. That the right-shifted Sigmoid punishes over- "
        "more than underestimation is true for scores below its centre 5 (C16).",
        regions,
    ),
    Figure(
        "selective_scale_sensitivity",
        "The same kinds from scalings and the composite Sigmoid",
        "fig:selective_scale_sensitivity",
        "Scaling q, probability p, link h = q p with its slope (dashed), and matching losses (solid) with the "
        "cross-entropy of the same probabilities (dashed); gamma = 1. With tanh the losses are symmetric, with the "
        "Sigmoid they are not (C46). Cross-entropies bend the wrong way in places (C47), and with sinh, whose p "
        "takes each value twice, they cannot tell 3 from -3 (C48). The bottom row, ours, shows them on their own "
        "scale.",
        amplified,
    ),
    Figure(
        "reweighting",
        "Re-weighted squared losses, and a matching loss beside them",
        "fig:reweighting",
        "Squared error times kappa (z - min s + delta), kappa = delta = 0.5, where z is the observed score, the "
        "predicted one, or both factors. By the observed score, predicting 3 for -3 costs 9, the opposite 117; by "
        "the predicted score the loss is not convex, and negative below -3.5 (C119, C120). The matching loss of exp "
        "(right) is convex, sharp for high scores, and does not let low ones be predicted as high.",
        reweighting,
    ),
    Figure(
        "scalar_all_examples",
        "Links for every region",
        "fig:scalar_all_examples",
        "Seven links for each of the four kinds: link (solid) and slope (dashed) above, losses below. The "
        "parameters are ours. In a flat piece (SmeLU, Huber, steps) observed scores share their loss curve (C26). "
        "The paper's table lists sign(z) log(1 + |z|) with the sinh shapes; its slope is largest at 0, so it stands "
        "with low norms here (C83).",
        links,
        errata=("C83",),
    ),
    Figure(
        "scalar_scale_examples",
        "Scalings for every region",
        "fig:scalar_scale_examples",
        "The same shapes as scalings of a composite Sigmoid (gamma = 1). Odd scalings keep symmetric losses, a "
        "Sigmoid does not. A straight scaling gives sensitivity to norms, which is largest near |z| = 2.8 and then "
        "falls to 0.5 (C104); cosh needs a tuned shift: alpha = 0.4, beta = 1.8, gamma = 1.3. It favours high "
        "norms only on [-3, 3]: further left its slope falls to 0 (C105). The signed logarithm stands with low "
        "norms again (C83).",
        scalings,
        errata=("C83",),
    ),
)
