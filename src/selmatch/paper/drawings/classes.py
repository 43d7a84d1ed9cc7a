"""Figures of losses of many classes."""

from __future__ import annotations

import matplotlib.figure

import selmatch as sm
from selmatch.paper.drawings import rows, shapes
from selmatch.paper.drawings.panels import Column, Shape, drawn, for_classes, grid, legend_of
from selmatch.paper.drawings.scalar import WORDS, titled
from selmatch.paper.records import Figure

SIGMOID = sm.MatchingLoss(sm.Sigmoid())
REGIONS = (
    Column(r"$h = \sigma(z)$, decomposed", sm.MatchingLoss(sm.Separable(sm.Sigmoid())), SIGMOID),
    for_classes(Shape(sm.Sinh().affine(alpha=0.5, beta=-4.0))),
    for_classes(Shape(sm.Sinh().affine(alpha=0.5, beta=4.0))),
    for_classes(Shape(sm.Sinh().affine(alpha=0.5))),
)

EXP = sm.Exp().affine(alpha=0.5, gain=0.5)
OTHER_SCORES = (1.0, 3.0, 5.0)
RELATIVE = tuple(
    Column(f"{name}\n$s = (3, {other:g})$", sm.MatchingLoss(potential), observed=(3.0, other), domain=(0.0, 6.5))
    for name, potential in (("decomposed", sm.Separable(EXP)), ("composite Softmax", sm.CompositeSoftmax(EXP)))
    for other in OTHER_SCORES
)

SHIFTS = {"no shift": 0.0, "right shift, 4": 4.0, "left shift, -4": -4.0}
SOFTMAX = tuple(
    Column(
        title,
        sm.MatchingLoss(sm.CompositeSoftmax(sm.Constant().affine(beta=beta))),
        sm.MatchingLoss(sm.Sigmoid().affine(beta=beta)),
    )
    for title, beta in SHIFTS.items()
)
NEGATED_WORDS = ("low norms?", "low scores?", "low norms?", "high scores?", "low scores?")


@drawn
def regions() -> matplotlib.figure.Figure:
    legend = legend_of(dashed="sensitivity $h_k'$", dotted="others off by 0.5")
    views = (rows.CLASS_LINK, rows.SCALAR_LOSSES, rows.PROJECTIONS_BESIDE_MISTAKES)
    return grid(views, titled(list(REGIONS), WORDS), height=1.4, legend=legend)


@drawn
def relative() -> matplotlib.figure.Figure:
    legend = [
        (f"class {k + 1}", {"color": colour, "linestyle": dashes, "marker": marker})
        for k, (colour, dashes, marker) in enumerate(rows.CLASSES)
    ]
    return grid((rows.TWO_PROJECTIONS, rows.CONTOURS, rows.SURFACE), RELATIVE, width=9.6, height=1.5, legend=legend)


@drawn
def softmax() -> matplotlib.figure.Figure:
    views = (rows.CLASS_LINK, rows.SCALAR_LOSSES, rows.PROJECTIONS)
    return grid(views, SOFTMAX, width=5.6, height=1.5, legend=legend_of(dashed="sensitivity $h_k'$"))


def _gallery(region: str) -> matplotlib.figure.Figure:
    views = (rows.SCALING, rows.CLASS_PROBABILITY, rows.CLASS_LINK, rows.PROJECTIONS, rows.TOGETHER)
    columns = [for_classes(shape) for shape in shapes.CLASSES[region]]
    return grid(views, columns, width=9.0, height=1.25, legend=legend_of(dashed="sensitivity $h_k'$"))


@drawn
def high() -> matplotlib.figure.Figure:
    return _gallery(shapes.HIGH)


@drawn
def low() -> matplotlib.figure.Figure:
    return _gallery(shapes.LOW)


@drawn
def high_norm() -> matplotlib.figure.Figure:
    return _gallery(shapes.HIGH_NORM)


@drawn
def negated() -> matplotlib.figure.Figure:
    columns = titled([for_classes(shape) for shape in shapes.NEGATED], NEGATED_WORDS)
    views = (rows.SCALING, rows.CLASS_PROBABILITY, rows.CLASS_LINK, rows.SCALAR_LOSSES, rows.PROJECTIONS)
    return grid(views, columns, width=8.0, height=1.25, legend=legend_of(dashed="sensitivity $h_k'$"))


FIGURES = (
    Figure(
        "multi_class_regions",
        "The four kinds for many classes",
        "fig:multi_class_regions",
        "Three classes observed at -3, 0 and 3; one score moves, the others stay. Decomposed Sigmoid links for low "
        "norms, a composite Softmax with q = sinh((z - beta)/2), beta = -4, 4 and 0 for the others. Links with "
        "their slopes (dashed), scalar losses, and losses of many classes; dotted: the other classes are off by 0.5 "
        "either way. A mistake in a class that matters moves the curves of those that do not, hardly the other way "
        "round (C70).",
        regions,
    ),
    Figure(
        "relative_sensitivity",
        "Sensitivity to rank: the same score as the higher and as the lower one",
        "fig:relative_sensitivity",
        "Two classes, s_1 = 3 and s_2 = 1, 3, 5, with 0.5 exp(z/2) as link of a decomposed loss (left three) and as "
        "scaling of a composite Softmax (right three): projections, contours, surfaces (c and f seen from the opposite "
        "side, where their valley is). Decomposed, class 1 looks "
        "the same in all three; with the Softmax it is sharp as the higher score, sharpest at the tie, and flat as "
        "the lower one (C69). This is not an exact invariance to shifts, which needs a constant q (C67).",
        relative,
        errata=("C67",),
    ),
    Figure(
        "softmax_invalid",
        "What the standard Softmax cannot do",
        "fig:softmax_invalid",
        "Standard Softmax for s = (3, 0, -3), with Q shifted by 0, 4 and -4. The scalar losses (middle) follow the "
        "shift, the losses of many classes (bottom) do not change at all (C65): sharp when the top score is "
        "underestimated or another overestimated beyond it, flat above the top score (C64).",
        softmax,
    ),
    Figure(
        "multi_select_exp",
        "Scalings for many classes: high scores",
        "fig:multi_select_exp",
        "Scaling q, probabilities, links with slopes (dashed), and losses, each along one class with the others at "
        "their observed scores; gamma = 1. The bottom row, ours, moves all classes together. Curves of -3 and 0 "
        "mostly overlap: the leading class silences both.",
        high,
    ),
    Figure(
        "multi_select_negexp",
        "Scalings for many classes: low scores",
        "fig:multi_select_negexp",
        "The mirror image: curves of 0 and 3 mostly overlap. Last column, erratum: with q = cosh (alpha = 0.2, beta "
        "= 4.5, gamma = 1) each section looks convex, but the loss is not. In the bottom row, ours, all classes "
        "move together: there the loss is that of Q = sinh alone, negative for every gamma (C56, C103). Built "
        "with check=False.",
        low,
        errata=("C56", "C103"),
    ),
    Figure(
        "multi_select_sinh",
        "Scalings for many classes: high norms",
        "fig:multi_select_sinh",
        "Curves of -3 and 3 overlap for odd scalings. Last column, erratum: q = cosh (alpha = 0.3, beta = 2, gamma "
        "= 4) is not convex as a loss of several classes, although its sections look it: where all classes move "
        "together (bottom row, ours) it is negative (C56, C103). Built with check=False.",
        high_norm,
        errata=("C56", "C103"),
    ),
    Figure(
        "select_invalid",
        "Scalings that the Softmax turns into something else",
        "fig:select_invalid",
        "Sigmoid with beta = 0 and -3, tanh with beta = 0, 3 and -3 (gamma = 1). As scalar losses (fourth row) they "
        "look where the heading asks; with several classes (last row) the Sigmoid looks at high scores, and tanh at "
        "high norms, low scores and high scores. This holds for gamma = 1 and amplitude 1: with larger gamma even "
        "tanh favours low norms (C72).",
        negated,
        errata=("C72",),
    ),
)
