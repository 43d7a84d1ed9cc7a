"""Pictures of losses for single scores: the area under the link, link and sensitivity, loss curves, scalings.

A loss whose scores are logarithms (``loss.scale``) takes all data, domains and observations in units of the target, and
its axis has those units, along the logarithm.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.collections import LineCollection

from selmatch.columns import finite_column
from selmatch.composite import CompositeSigmoid, CompositeSoftmax
from selmatch.losses import Loss, PerLabel
from selmatch.parameters import number, numbers
from selmatch.plots.domains import (
    drawable,
    jumps_in,
    name_scores,
    shown,
    single_curves,
    traced,
    traced_slope,
    typical_scores,
)
from selmatch.plots.style import COLOURS, PRIME, axes_of, colour_of, in_formula, ink, marker_of, short_numbers
from selmatch.scales import UNCHANGED, scale_of, scores_of
from selmatch.words import readable

PREDICTED = "predicted score $\\hat{s}$"


def area(loss: Any, s_hat: float, s: float, domain: Any = None, ax: Any = None, **line: Any) -> Any:
    """The loss of a prediction as an area: what the link covers beyond its level h(s), from s to s_hat.

    Parameters
    ----------
    loss : MatchingLoss or Curve
        With a link for single scores.
    s_hat, s : float
        The predicted and the observed score.
    domain : pair or Interval, optional
        The scores to show; by default what is typical of the link, and both scores.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.
    **line
        Of the link: ``color``, ``linestyle`` ...

    Examples
    --------
    >>> axes = sm.plots.area(sm.Sigmoid(), s_hat=2.0, s=-1.0)
    """
    who = "area"
    s_hat, s = number(who, "s_hat", s_hat), number(who, "s", s)
    curves = single_curves(who, loss)
    curve = curves[None] if None in curves else curves.get(s)
    if curve is None:
        raise ValueError(f"{who}: s must be one of the labels {tuple(curves)}, got {s}.")
    low, high = shown(who, loss, domain, around=(s, s_hat))
    s_hat, s = (float(scores_of(who, name, score, loss)) for name, score in (("s_hat", s_hat), ("s", s)))
    value = float(drawable(who, loss)(s_hat, s))
    ax = axes_of(ax)
    level, end = float(curve(s)), float(curve(s_hat))
    part = traced(curve, min(s, s_hat), max(s, s_hat))
    ax.fill_between(part[:, 0], part[:, 1], level, color=COLOURS["sky blue"], alpha=0.45, linewidth=0.0)
    ax.plot(*traced(curve, low, high, (s, s_hat)).T, **{"color": COLOURS["blue"], **line})
    ax.plot([s, s_hat], [level, level], color=ink(), linewidth=0.8, linestyle="--")
    ax.plot([s_hat, s_hat], [level, end], color=ink(), linewidth=0.8, linestyle=":")
    ax.plot([s], [level], "o", [s_hat], [end], "s", color=ink(), markersize=4.0)
    up = 1 if s_hat > s else -1
    for name, place, offset in (("$h(s)$", (s, level), (7, -8)), ("$h(\\hat{s})$", (s_hat, end), (-11, 8))):
        beside = (up * offset[0], up * offset[1])
        ax.annotate(name, place, xytext=beside, textcoords="offset points", ha="center", va="center")
    # a link increases, so this corner is free
    ax.text(0.03, 0.97, f"shaded area:\nloss {readable(value)}", transform=ax.transAxes, va="top")
    ax.set(xlabel="score $z$", ylabel="link $h(z)$", xlim=(low, high))
    name_scores(ax, loss)
    return ax


def link(
    loss: Any, domain: Any = None, ax: Any = None, sensitivity: bool = True, legend: bool = True, **line: Any
) -> Any:
    """The link as a solid line and its slope, the sensitivity, as a dashed one. PerLabel has a pair for each label.

    Parameters
    ----------
    loss : MatchingLoss, Curve or PerLabel
        With a link for single scores; for many classes see :func:`projections`.
    domain : pair or Interval, optional
        The scores to show; by default those of the wish of :func:`selmatch.focus`, or what is typical.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.
    sensitivity : bool
        Whether to draw the slope too.
    legend : bool
        Whether to name the lines.
    **line
        Of both lines: ``color``, ``linewidth`` ...; ``linestyle`` is that of the link.

    Examples
    --------
    >>> axes = sm.plots.link(sm.Sinh())
    >>> [drawn.get_linestyle() for drawn in axes.lines]
    ['-', '--']
    """
    who = "link"
    curves = single_curves(who, loss)
    low, high = shown(who, loss, domain)
    ax = axes_of(ax)
    for label, curve in curves.items():
        colour, dashed_colour, name = _of_label(label, tuple(curves))
        solid = {"color": colour, "label": f"$h(z)${name}", **line}
        ax.plot(*traced(curve, low, high).T, **solid)
        if sensitivity:
            dashed = {"color": dashed_colour, "label": f"$h{PRIME}(z)${name}", **line, "linestyle": "--"}
            ax.plot(*traced_slope(curve, low, high).T, **dashed)
    ax.set(xlabel="score $z$", ylabel="link and slope" if sensitivity else "link $h(z)$", xlim=(low, high))
    short_numbers(ax)
    name_scores(ax, loss)
    if legend and len(ax.lines) > 1:
        ax.legend()
    return ax


def sensitivity(loss: Any, domain: Any = None, data: Any = None, ax: Any = None, **line: Any) -> Any:
    """Where a loss looks: its sensitivity, over the histogram of the data, with the region of the wish shaded.

    Where the link jumps the sensitivity is infinite: an arrow marks the place.

    Parameters
    ----------
    loss : MatchingLoss, Curve or PerLabel
        With a link for single scores.
    domain : pair or Interval, optional
        The scores to show; by default those of the data (but half a percent at each end), of the wish, or typical ones.
    data : array, optional
        Observed scores; their histogram has no axis of its own, and is behind the line.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.
    **line
        Of the line.

    Examples
    --------
    >>> axes = sm.plots.sensitivity(sm.focus("high", data=np.arange(100.0)))
    """
    who = "sensitivity"
    curves = single_curves(who, loss)
    low, high = shown(who, loss, domain, data)
    ax = axes_of(ax)
    if data is not None:
        _histogram(ax, scores_of(who, "data", finite_column(who, "data", data), loss), low, high)
    _shade(ax, getattr(loss, "wish", None), low, high)
    lowest = 0.0
    for label, curve in curves.items():
        _, colour, name = _of_label(label, tuple(curves))
        points = traced_slope(curve, low, high)
        lowest = min(lowest, np.nanmin(points[:, 1], initial=0.0))
        ax.plot(*points.T, **{"color": colour, "label": f"sensitivity{name}", **line})
        for jump in [] if curve.continuous else jumps_in(traced(curve, low, high)):
            # all of the sensitivity is in one place, and no height would be right
            arrow = {"color": colour, "linestyle": ":", "marker": "^", "markevery": [1], "clip_on": False}
            ax.plot([jump, jump], [0.0, 1.0], label="_jump", transform=ax.get_xaxis_transform(), **arrow)
    ax.set(xlabel="score $z$", ylabel=f"sensitivity $h{PRIME}(z)$", xlim=(low, high))
    if lowest == 0.0:
        ax.set_ylim(bottom=0.0)
    short_numbers(ax)
    name_scores(ax, loss)
    if None not in curves:
        ax.legend()
    return ax


def losses(
    loss: Any,
    observed: Sequence[float] | None = None,
    domain: Any = None,
    ax: Any = None,
    legend: bool = True,
    **line: Any,
) -> Any:
    """Loss against the predicted score, a line for each observed score, with a mark where they agree.

    Parameters
    ----------
    loss : MatchingLoss, CrossEntropy, ReweightedSquare, Curve or PerLabel
        For single scores; for many classes see :func:`projections`.
    observed : sequence of float, optional
        Observed scores: -3, 0 and 3 where they fit, else a low, a middle and a high one; the labels of PerLabel.
    domain : pair or Interval, optional
        The predictions to show.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.
    legend : bool
        Whether to name the lines.
    **line
        Of all lines: ``linestyle="--"`` ...

    Examples
    --------
    >>> axes = sm.plots.losses(sm.Exp(), observed=(0.0, 1.0))
    >>> axes = sm.plots.losses(sm.ReweightedSquare(low=-3.0), ax=axes, linestyle=":")
    """
    who = "losses"
    found = drawable(who, loss)
    if found.vector:
        raise TypeError(f"{who}: loss must be for single scores, got {loss!r}. Use projections(loss, scores).")
    low, high = shown(who, found, domain, around=() if observed is None else tuple(observed))
    if observed is None:
        labelled = isinstance(found.potential, PerLabel)
        observed = found.potential.labels if labelled else _typical_targets(found, low, high)
    named = numbers(who, "observed", observed)
    observed = tuple(float(scores_of(who, "observed", score, found)) for score in named)
    name = "s" if scale_of(found) == UNCHANGED else "y"
    ax = axes_of(ax)
    for s, target in zip(observed, named, strict=True):
        points = traced(lambda z, s=s: found(z, np.full_like(z, s), reduction="none"), low, high, through=(s,))
        draw_marked(
            ax, points, s, float(found(s, s)), observed, **{"label": f"${name} = {in_formula(target)}$", **line}
        )
    ax.set(xlabel=PREDICTED, ylabel="loss", xlim=(low, high))
    short_numbers(ax)
    name_scores(ax, found, "predicted target")
    if legend:
        ax.legend(loc="upper center")
    return ax


def scaling(loss: Any, domain: Any = None, ax: Any = None, **line: Any) -> Any:
    """The scaling q of a composite Sigmoid or Softmax: which scores it amplifies.

    Parameters
    ----------
    loss : MatchingLoss, CrossEntropy, CompositeSigmoid or CompositeSoftmax
        With a scaling.
    domain : pair or Interval, optional
        The scores to show.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.
    **line
        Of the line.

    Examples
    --------
    >>> axes = sm.plots.scaling(sm.CompositeSigmoid(sm.Sinh()))
    """
    potential = _composite("scaling", loss, (CompositeSigmoid, CompositeSoftmax))
    low, high = shown("scaling", loss, domain)
    ax = axes_of(ax)
    ax.plot(*traced(potential.scaling, low, high).T, **{"color": COLOURS["reddish purple"], "label": "$q(z)$", **line})
    ax.set(xlabel="score $z$", ylabel="scaling $q(z)$", xlim=(low, high))
    name_scores(ax, loss)
    return ax


def probability(loss: Any, domain: Any = None, ax: Any = None, scores: Any = None, **line: Any) -> Any:
    """The probability p of a composite Sigmoid, or with ``scores`` those of a composite Softmax, one class at a time.

    Parameters
    ----------
    loss : MatchingLoss, CrossEntropy, CompositeSigmoid or CompositeSoftmax
        A composite loss.
    domain : pair or Interval, optional
        The scores to show.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.
    scores : sequence of float, optional
        For many classes: where the other classes stay, as in :func:`projections`.
    **line
        Of the lines.

    Examples
    --------
    >>> axes = sm.plots.probability(sm.CompositeSigmoid(sm.Sinh()))
    """
    if scores is not None:
        from selmatch.plots.classes import projections

        return projections(loss, scores, domain, ax, of="probability", **line)
    potential = _composite("probability", loss, (CompositeSigmoid,))
    low, high = shown("probability", loss, domain)
    ax = axes_of(ax)
    ax.plot(*traced(potential.prob, low, high).T, **{"color": COLOURS["bluish green"], "label": "$p(z)$", **line})
    ax.set(xlabel="score $z$", ylabel="probability $p(z)$", xlim=(low, high), ylim=(-0.03, 1.03))
    name_scores(ax, loss)
    return ax


# ----------------------------------------------------------------------------------------------------------- the parts


def draw_marked(
    ax: Any, points: np.ndarray, s: float, at: float, among: Sequence[float], mark: float | None = None, **line: Any
) -> None:
    """A line in the colour of a score, and the mark of the score on it."""
    style = {"color": colour_of(s, among), **line}
    marker = marker_of(s, among)
    (drawn,) = ax.plot(*points.T, **style, marker=marker, markevery=[])
    # the legend shows line and mark together; the mark itself is a point of its own, on top of all lines
    ax.plot(
        [s if mark is None else mark],
        [at],
        marker=marker,
        color=drawn.get_color(),
        linestyle="none",
        zorder=3.0,
        label="_mark",
    )


def _typical_targets(loss: Any, low: float, high: float) -> tuple[float, ...]:
    """A few observations of few digits between two scores, in units of the target."""
    scale = scale_of(loss)
    found = typical_scores(low, high)
    return found if scale == UNCHANGED else tuple(float(f"{scale.undone(score):.3g}") for score in found)


def _of_label(label: float | None, labels: tuple[Any, ...]) -> tuple[str, str, str]:
    """Colours of a link and of its slope, and what to add to their names."""
    if label is None:
        return COLOURS["blue"], COLOURS["vermillion"], ""
    own = colour_of(label, labels)
    return own, own, f", label {label:g}"


def _composite(who: str, loss: Any, kinds: tuple[type, ...]) -> Any:
    potential = loss.potential if isinstance(loss, Loss) else loss
    if not isinstance(potential, kinds):
        names = " or ".join(kind.__name__ for kind in kinds)
        more = " Give scores, where the other classes stay." if isinstance(potential, CompositeSoftmax) else ""
        raise TypeError(f"{who}: the potential must be a {names}, got {potential!r}.{more}")
    return potential


def _histogram(ax: Any, scores: np.ndarray, low: float, high: float) -> None:
    behind = ax.twinx()
    behind.set_zorder(ax.get_zorder() - 1.0)
    ax.patch.set_visible(False)
    behind.hist(scores, bins=40, range=(low, high), color=COLOURS["sky blue"], alpha=0.45, label="data")
    behind.set(yticks=[], ylabel="")
    behind.spines[:].set_visible(False)


def _shade(ax: Any, wish: Any, low: float, high: float) -> None:
    """Regions of a wish, each with a bar above it: of a narrow one the bar is what is seen."""
    for start, end, _ in () if wish is None else wish.regions:
        start, end = max(start, low), min(end, high)
        if start < end:
            ax.axvspan(start, end, color=COLOURS["orange"], alpha=0.14, linewidth=0.0, label="_region")
            bar = {"colors": COLOURS["orange"], "linewidths": 3.0, "capstyle": "projecting", "label": "_bar"}
            above = LineCollection([[(start, 1.0), (end, 1.0)]], transform=ax.get_xaxis_transform(), **bar)
            ax.add_collection(above, autolim=False)
            above.set_clip_on(False)
