"""Pictures of losses for many classes: one class moves, the others stay; planes of two scores."""

from __future__ import annotations

from typing import Any

import matplotlib
import numpy as np

from selmatch.composite import CompositeSoftmax
from selmatch.landmarks import telling_scores
from selmatch.parameters import numbers
from selmatch.plots.domains import curve_of, drawable, shown, traced
from selmatch.plots.lines import PREDICTED, draw_marked
from selmatch.plots.style import axes_of, in_formula, ink, short_numbers

_OF = {
    "loss": (PREDICTED.replace("{s}", "{s}_k"), "loss"),
    "link": ("score $z_k$", "link $h_k(z)$"),
    "slope": ("score $z_k$", "slope $\\partial h_k / \\partial z_k$"),
    "probability": ("score $z_k$", "probability $p_k(z)$"),
}
#: points along each side of a plane
GRID = 121


def projections(
    loss: Any,
    scores: Any,
    domain: Any = None,
    ax: Any = None,
    of: str = "loss",
    others: Any = 0.0,
    from_minimum: bool = False,
    legend: bool = True,
    **line: Any,
) -> Any:
    """Many classes, one at a time: the score of class k moves, the others stay; a line for each class.

    Each line has its mark where the class is at its own score (at its minimum, where the others were moved).

    Parameters
    ----------
    loss : MatchingLoss, CrossEntropy, CompositeSoftmax or Separable
        For many classes.
    scores : sequence of float
        The observed scores, one for each class.
    domain : pair or Interval, optional
        The scores to show.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.
    of : {"loss", "link", "slope", "probability"}
        What to draw for class k.
    others : float or sequence of float
        By how much the predictions of the classes that stay are off; a sequence has an entry for each class.
    from_minimum : bool
        Whether to shift each line so that its minimum is 0, to compare shapes.
    legend : bool
        Whether to name the lines.
    **line
        Of all lines; slopes are dashed by default.

    Examples
    --------
    >>> axes = sm.plots.projections(sm.CompositeSoftmax(sm.Exp()), scores=(-3.0, 0.0, 3.0), of="link")
    """
    who = "projections"
    found = drawable(who, loss)
    if not found.vector:
        raise TypeError(f"{who}: loss must be for many classes, got {loss!r}. Use losses(loss) or link(loss).")
    if of not in _OF:
        raise ValueError(f"{who}: of must be one of {', '.join(map(repr, _OF))}, got {of!r}.")
    if of == "probability" and not isinstance(found.potential, CompositeSoftmax):
        raise TypeError(f"{who}: the potential must be a CompositeSoftmax to have probabilities, got {loss!r}.")
    scores = np.array(numbers(who, "scores", scores))
    moved = scores + np.broadcast_to(np.asarray(others, dtype=float), scores.shape)
    low, high = shown(who, found, domain, around=tuple(scores))
    ax = axes_of(ax)
    dashes = {"linestyle": "--"} if of == "slope" else {}
    curve = curve_of(found.potential)
    places = [] if curve is None else telling_scores(curve, low, high).tolist()
    # lines of insensitive classes lie on each other: the later the thinner, so that all are seen
    widths = matplotlib.rcParams["lines.linewidth"] * np.linspace(1.6, 0.8, len(scores))
    for k, s in enumerate(scores.tolist()):

        def along(z: np.ndarray, k: int = k) -> np.ndarray:
            rows = np.repeat(moved[None, :], z.size, axis=0)
            rows[:, k] = z
            if of == "loss":
                return found(rows, np.broadcast_to(scores, rows.shape), reduction="none")
            method = {"link": "link", "slope": "slope", "probability": "prob"}[of]
            return getattr(found.potential, method)(rows)[:, k]

        points = traced(along, low, high, through=(s, *places))
        mark = s
        if of == "loss" and (from_minimum or (moved != scores).any()):
            lowest = int(np.nanargmin(points[:, 1]))
            mark = float(points[lowest, 0])
            points[:, 1] -= points[lowest, 1] if from_minimum else 0.0
        at = float(points[np.argmin(np.abs(points[:, 0] - mark)), 1])
        draw_marked(
            ax,
            points,
            s,
            at,
            scores.tolist(),
            mark=mark,
            **{"label": f"$s_{{{k + 1}}} = {in_formula(s)}$", "linewidth": widths[k], **dashes, **line},
        )
    xlabel, ylabel = _OF[of]
    ax.set(xlabel=xlabel, ylabel=ylabel, xlim=(low, high))
    short_numbers(ax)
    if legend:
        ax.legend(loc="upper center" if of == "loss" else "best")
    return ax


def contours(
    loss: Any, observed: Any = None, domain: Any = None, ax: Any = None, levels: Any = 9, **options: Any
) -> Any:
    """Lines of equal loss: over both predictions of two classes, or over observed and predicted single scores.

    Parameters
    ----------
    loss : MatchingLoss, CrossEntropy, ReweightedSquare, potential or Curve
        For two classes, or for single scores.
    observed : pair of float, optional
        The observed scores of the two classes; None for single scores, whose observed score is the horizontal axis.
    domain : pair or Interval, optional
        The scores to show, on both axes.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.
    levels : int or sequence of float
        The losses to draw; a number gives that many, closer together where the loss is small.
    **options
        For ``Axes.contourf``: ``cmap`` ...

    Examples
    --------
    >>> axes = sm.plots.contours(sm.Sigmoid(), domain=(-6, 6))
    """
    across, up, values, low, high = _plane("contours", loss, observed, domain)
    ax = axes_of(ax)
    if np.ndim(levels) == 0:
        levels = _levels(values, int(levels))
    ax.contourf(across, up, values, levels=levels, **{"extend": "max", "alpha": 0.85, **options})
    ax.contour(across, up, values, levels=levels, colors=ink(), linewidths=0.4, alpha=0.6)
    if observed is None:
        ax.plot([low, high], [low, high], color=ink(), linewidth=0.9, linestyle="--")
        ax.set(xlabel="observed score $s$", ylabel=PREDICTED)
    else:
        ax.plot(*observed, marker="*", markersize=9.0, color="white", markeredgecolor="black", linestyle="none")
        ax.set(xlabel="prediction $\\hat{s}_1$", ylabel="prediction $\\hat{s}_2$")
    ax.set(xlim=(low, high), ylim=(low, high), aspect="equal")
    return ax


def surface(loss: Any, observed: Any = None, domain: Any = None, ax: Any = None, **options: Any) -> Any:
    """The loss as a surface over both predictions of two classes, or over observed and predicted single scores.

    Parameters
    ----------
    loss, observed, domain
        As for :func:`contours`.
    ax : mpl_toolkits.mplot3d.Axes3D, optional
        Where to draw, made with ``projection="3d"``; by default a new figure.
    **options
        For ``Axes3D.plot_surface``: ``cmap`` ...

    Examples
    --------
    >>> axes = sm.plots.surface(sm.CompositeSoftmax(sm.Exp()), observed=(1.0, 0.0), domain=(-2, 2))
    """
    who = "surface"
    if ax is not None and not hasattr(ax, "plot_surface"):
        raise TypeError(f'{who}: ax must be three-dimensional, got {type(ax).__name__}. Make it with projection="3d".')
    across, up, values, low, high = _plane(who, loss, observed, domain)
    ax = axes_of(ax, subplot_kw={"projection": "3d"})
    thin = slice(None, None, 3)
    look = {"cmap": matplotlib.rcParams["image.cmap"], "linewidth": 0.15, "edgecolor": ink(), **options}
    ax.plot_surface(across[thin, thin], up[thin, thin], values[thin, thin], rstride=1, cstride=1, **look)
    names = ("$s$", "$\\hat{s}$") if observed is None else ("$\\hat{s}_1$", "$\\hat{s}_2$")
    ax.set(xlabel=names[0], ylabel=names[1], zlabel="loss", xlim=(low, high), ylim=(low, high))
    return ax


@np.errstate(all="ignore")
def _plane(who: str, loss: Any, observed: Any, domain: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, float, float]:
    """A grid of two scores, the loss on it, and the ends of the grid."""
    found = drawable(who, loss)
    if found.vector == (observed is None):
        need = "a pair, one for each of two classes" if found.vector else "left out for single scores"
        raise ValueError(f"{who}: observed must be {need}, got {observed!r}.")
    if observed is not None:
        observed = numbers(who, "observed", observed)
        if len(observed) != 2:
            raise ValueError(f"{who}: observed must have two scores, got {len(observed)}. Use projections for more.")
    low, high = shown(who, found, domain, around=observed or ())
    across, up = np.meshgrid(np.linspace(low, high, GRID), np.linspace(low, high, GRID))
    if observed is None:
        values = found(up, across, reduction="none")
    else:
        predicted = np.stack([across, up], axis=-1)
        values = found(predicted, np.broadcast_to(np.array(observed), predicted.shape), reduction="none")
    return across, up, np.where(np.isfinite(values), values, np.nan), low, high


def _levels(values: np.ndarray, count: int) -> np.ndarray:
    """Losses from the least to nearly the greatest, in steps that grow: flat valleys get lines too."""
    least, most = float(np.nanmin(values)), float(np.nanquantile(values, 0.97))
    if not least < most:
        most = least + 1.0
    return least + (most - least) * np.linspace(0.0, 1.0, count + 1) ** 2
