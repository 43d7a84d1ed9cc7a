"""The ways in which the paper looks at a loss, each a row of its figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

import selmatch as sm
from selmatch import plots
from selmatch.paper.drawings.panels import Column, Row

#: by how much the other classes are off in the dotted lines
MISTAKE = 0.5
#: of lines that belong to no observed score
INK = "#1c1c1c"
#: colour, line and mark of the first and the second of two classes
CLASSES: tuple[tuple[str, Any, str], ...] = ((plots.COLOURS["blue"], "-", "o"), (plots.COLOURS["orange"], "--", "s"))
#: the losses that contours show, the same in all panels of a figure
LEVELS = (0.0, 0.02, 0.1, 0.3, 0.7, 1.3, 2.2, 3.5, 5.5, 8.5)
LOSS = r"$L(\hat{s}, s)$"
PREDICTED = r"$\hat{s}$"
PREDICTED_CLASS = r"$\hat{s}_k$"
PREDICTED_FIRST, PREDICTED_SECOND = r"$\hat{s}_1$", r"$\hat{s}_2$"
PREDICTED_TOGETHER = r"$\hat{s}_1 = \hat{s}_2 = \hat{s}_3$"


def points_of(line: Line2D) -> np.ndarray:
    """The points of a line, one in each row."""
    return np.asarray(line.get_xydata())


def end_at_confusion(ax: Axes, observed: Sequence[float]) -> None:
    """End the axis at the cost of confusing observed scores: beyond them, steep losses would hide all the others."""
    low, high = min(observed), max(observed)
    tops, bottoms = [], []
    for line in ax.lines:
        x, y = points_of(line).T
        inside = y[(x >= low) & (x <= high)]
        tops.append(np.nanmax(inside, initial=0.0))
        bottoms.append(np.nanmin(inside, initial=0.0))
    bottom, top = min(bottoms), max(tops)
    margin = 0.06 * (top - bottom)
    ax.set_ylim(bottom - margin, top + margin)


def show_overlaps(ax: Axes, by: float = 0.9) -> None:
    """Thicken lines that later ones cover over much of their way, so that they show on both sides."""
    bottom, top = ax.get_ylim()
    x = np.linspace(*ax.get_xlim(), 200)[1:-1]
    solid = [line for line in ax.lines if len(points_of(line)) > 1 and line.get_linestyle() == "-"]
    heights = [np.interp(x, *points_of(line).T) for line in solid]
    for i, line in enumerate(solid):
        seen = (heights[i] >= bottom) & (heights[i] <= top)
        hidden = [seen & (np.abs(heights[i] - other) < 0.012 * (top - bottom)) for other in heights[i + 1 :]]
        covers = sum(mask.sum() > 0.4 * max(seen.sum(), 1) for mask in hidden)
        line.set_linewidth(line.get_linewidth() + by * covers)


def _link(ax: Axes, column: Column) -> None:
    plots.link(column.loss, domain=column.domain, ax=ax, color=INK)


def _losses(ax: Axes, column: Column) -> None:
    plots.losses(column.loss, observed=column.observed, domain=column.domain, ax=ax)
    end_at_confusion(ax, column.observed)
    show_overlaps(ax)


def _losses_and_cross_entropy(ax: Axes, column: Column) -> None:
    _losses(ax, column)
    limits = ax.get_ylim()
    _cross_entropy(ax, column)
    ax.set_ylim(limits)


def _cross_entropy(ax: Axes, column: Column) -> None:
    cross_entropy = sm.CrossEntropy(column.loss.potential)
    plots.losses(cross_entropy, observed=column.observed, domain=column.domain, ax=ax, linestyle="--")


def _losses_around_zero(ax: Axes, column: Column) -> None:
    _losses(ax, column)
    ax.axhline(0.0, color=INK, linewidth=0.5)
    ax.set_ylim(bottom=-0.12 * ax.get_ylim()[1])


def _scalar_losses(ax: Axes, column: Column) -> None:
    _losses(ax, replace(column, loss=column.scalar))


def _scaling(ax: Axes, column: Column) -> None:
    plots.scaling(column.loss, domain=column.domain, ax=ax, color=INK)


def _probability(ax: Axes, column: Column) -> None:
    plots.probability(column.loss, domain=column.domain, ax=ax, color=INK)


def _along(ax: Axes, column: Column, linewidth: float = 1.4, **options: Any) -> None:
    plots.projections(column.loss, column.observed, domain=column.domain, ax=ax, linewidth=linewidth, **options)


def _class_probability(ax: Axes, column: Column) -> None:
    _along(ax, column, of="probability")
    show_overlaps(ax)
    ax.set_ylim(-0.04, 1.04)


def _class_link(ax: Axes, column: Column) -> None:
    _along(ax, column, of="link")
    show_overlaps(ax)
    _along(ax, column, of="slope", linewidth=0.9)


def _projections(ax: Axes, column: Column) -> None:
    _along(ax, column)
    end_at_confusion(ax, column.observed)
    show_overlaps(ax)


def _projections_beside_mistakes(ax: Axes, column: Column) -> None:
    _projections(ax, column)
    solid = len(ax.lines)
    for others in (-MISTAKE, MISTAKE):
        _along(ax, column, others=others, from_minimum=True, linestyle=":", linewidth=0.9)
    for mark in [line for line in ax.lines[solid:] if line.get_label() == "_mark"]:
        mark.remove()  # six more would hide the lines


def _together(ax: Axes, column: Column) -> None:
    """All classes move together: there the loss shows whether Q is convex, whatever the projections look like."""
    z = np.linspace(*column.domain, 241)
    for score in column.observed:
        predicted, observed = (np.repeat(np.atleast_1d(x)[:, None], 3, axis=1) for x in (z, score))
        ax.plot(z, column.loss(predicted, observed, reduction="none"), color=plots.colour_of(score))
        ax.plot([score], [0.0], plots.marker_of(score), color=plots.colour_of(score))
    ax.set_xlim(column.domain)
    end_at_confusion(ax, column.observed)
    show_overlaps(ax)


def _two_projections(ax: Axes, column: Column) -> None:
    """Colours are classes here, not scores: the same class must be found again in the next column."""
    _along(ax, column)
    end_at_confusion(ax, column.domain)
    for i, line in enumerate(ax.lines):
        colour, dashes, marker = CLASSES[i // 2]
        line.set(color=colour, marker=marker)
        if len(points_of(line)) > 1:
            line.set_linestyle(dashes)


def levels_of(levels: Sequence[float]) -> dict[str, Any]:
    """Options of contours: one step of colour for each level, however close they are; low losses are light."""
    return {"levels": levels, "norm": BoundaryNorm(levels, 256, extend="max"), "cmap": "Blues"}


def _contours(ax: Axes, column: Column) -> None:
    plots.contours(column.loss, observed=column.observed, domain=column.domain, ax=ax, **levels_of(LEVELS))


def _surface(ax: Any, column: Column) -> None:
    options = {"rasterized": True, "cmap": "Blues"}
    plots.surface(column.loss, observed=column.observed, domain=column.domain, ax=ax, **options)
    ax.set(xticks=(1, 5), yticks=(1, 5), zlabel="")
    for axis, label in ((ax.xaxis, PREDICTED_FIRST), (ax.yaxis, PREDICTED_SECOND)):
        axis.set_rotate_label(False)  # a turned label loses its hat
        axis.set_label_text(label)
        axis.labelpad = -11
    ax.text2D(0.98, 0.85, "$L$", transform=ax.transAxes, ha="center")  # on top of its axis, where nothing else stands
    ax.zaxis.set_major_locator(MaxNLocator(3))
    ax.tick_params(labelsize="xx-small", pad=-4)
    ax.grid(False)
    ax.set_box_aspect(None, zoom=1.05)
    first, second = column.observed
    ax.view_init(elev=42.0, azim=120.0 if second > first else -60.0)  # from the side of the valley


LINK = Row("link", "$h(z)$, $h'(z)$", "$z$", _link)
LOSSES = Row("losses", LOSS, PREDICTED, _losses)
LOSSES_AND_CROSS_ENTROPY = Row("losses", LOSS, PREDICTED, _losses_and_cross_entropy)
CROSS_ENTROPY = Row("cross-entropy", "cross-entropy", PREDICTED, _cross_entropy)
SCALAR_LOSSES = Row("scalar losses", f"one score\n{LOSS}", PREDICTED, _scalar_losses)
SCALING = Row("scaling", "$q(z)$", "$z$", _scaling)
PROBABILITY = Row("probability", "$p(z)$", "$z$", _probability)
CLASS_PROBABILITY = Row("probability", "$p_k(z)$", "$z_k$", _class_probability)
CLASS_LINK = Row("link", "$h_k(z)$, $h_k'(z)$", "$z_k$", _class_link)
PROJECTIONS = Row("projections", f"one of 3 moves\n{LOSS}", PREDICTED_CLASS, _projections)
PROJECTIONS_BESIDE_MISTAKES = replace(PROJECTIONS, draw=_projections_beside_mistakes)
TOGETHER = Row("together", f"all 3 move\n{LOSS}", PREDICTED_TOGETHER, _together)
LOSSES_AROUND_ZERO = Row("losses", LOSS, PREDICTED, _losses_around_zero)
TWO_PROJECTIONS = Row("projections", LOSS, PREDICTED_CLASS, _two_projections)
CONTOURS = Row("contours", PREDICTED_SECOND, PREDICTED_FIRST, _contours)
SURFACE = Row("surface", "", "", _surface, projection="3d")
