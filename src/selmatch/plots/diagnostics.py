"""Pictures of predictions: calibration in link space, errors by decile, gains with their intervals."""

from __future__ import annotations

import math
import statistics
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from selmatch.columns import finite_column
from selmatch.plots.domains import FEW_VALUES
from selmatch.plots.style import COLOURS, axes_of, cycle_style, ink, legend_below
from selmatch.words import readable

#: rows of a forest plot that reach further than so many times the nearest one, and further than so many times the
#: middle one, are cut off at the edge: they would squeeze all others
FAR_OF_NEAREST, FAR_OF_MIDDLE = 8.0, 1.5


def reliability(
    observed: Any, predicted: Mapping[str, Any], loss: Any, ax: Any = None, weights: Any = None, **options: Any
) -> Any:
    """Reliability in link space: on the diagonal a model is calibrated for the loss.

    Drawn by :func:`selmatch.sklearn.plot_link_reliability`, that is by model-diagnostics.

    Parameters
    ----------
    observed : array of shape (n,)
        Observed scores.
    predicted : mapping of str to array of shape (n,)
        Predicted scores of each model, by its name.
    loss : MatchingLoss or Curve
        Its link is what is compared.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.
    weights : array of shape (n,), optional
        Weights of the rows.
    **options
        ``n_bootstrap``, ``confidence_level``, ``diagram_type``.

    Examples
    --------
    >>> y = np.arange(20.0)
    >>> axes = sm.plots.reliability(y, {"half": 0.5 * y, "exact": y}, sm.Identity())
    >>> [text.get_text() for text in axes.get_legend().get_texts()]
    ['half', 'exact']
    """
    from selmatch.sklearn import plot_link_reliability

    observed, columns = _columns("reliability", observed, predicted)
    ax = axes_of(ax)
    before, filled = len(ax.lines), len(ax.collections)
    plot_link_reliability(observed, columns, loss, weights, ax=ax, **options)
    _restyled(ax, ax.lines[before + 1 :], predicted, ax.collections[filled:])
    ax.lines[before].set(color=ink(), linewidth=0.8)
    ax.set(xlabel="link of the prediction", ylabel="mean link of the observation")
    return ax


def murphy(
    observed: Any, predicted: Mapping[str, Any], loss: Any, ax: Any = None, weights: Any = None, **options: Any
) -> Any:
    """A Murphy diagram in link space: does a model win under every loss that elicits the same, or only in places?

    Drawn by :func:`selmatch.sklearn.plot_link_murphy`, that is by model-diagnostics.

    Parameters
    ----------
    observed, predicted, loss, ax, weights
        As for :func:`reliability`.
    **options
        ``etas``.

    Examples
    --------
    >>> y = np.arange(20.0)
    >>> axes = sm.plots.murphy(y, {"half": 0.5 * y, "off by one": y + 1.0}, sm.Identity())
    """
    from selmatch.sklearn import plot_link_murphy

    observed, columns = _columns("murphy", observed, predicted)
    ax = axes_of(ax)
    before = len(ax.lines)
    plot_link_murphy(observed, columns, loss, weights, ax=ax, **options)
    _restyled(ax, ax.lines[before:], predicted)
    ax.set(xlabel="threshold, in units of the link", ylabel="elementary loss")
    ax.set_ylim(bottom=0.0)
    return ax


def link_bias(
    observed: Any,
    predicted: Mapping[str, Any],
    loss: Any,
    ax: Any = None,
    feature: Any = None,
    weights: Any = None,
    **options: Any,
) -> Any:
    """The bias in link space with its interval: a point for each model, or lines along a feature.

    Drawn by :func:`selmatch.sklearn.plot_link_bias`, that is by model-diagnostics.

    Parameters
    ----------
    observed, predicted, loss, ax, weights
        As for :func:`reliability`.
    feature : array of shape (n,), optional
        What to group by.
    **options
        ``n_bins``, ``bin_method``, ``confidence_level``.

    Examples
    --------
    >>> y = np.arange(20.0)
    >>> axes = sm.plots.link_bias(y, {"half": 0.5 * y, "off by one": y + 1.0}, sm.Identity())
    """
    from selmatch.sklearn import plot_link_bias

    observed, columns = _columns("link_bias", observed, predicted)
    ax = axes_of(ax)
    before, filled = len(ax.lines), len(ax.collections)
    with warnings.catch_warnings():
        # a bin with a single row has no standard error; the picture shows that by itself
        warnings.filterwarnings("ignore", "Some values of 'bias_stderr' are null", UserWarning)
        plot_link_bias(observed, columns, loss, feature, weights, ax=ax, **options)
    ax.lines[before].set(color=ink(), linewidth=0.8)
    ax.set(title="", ylabel="mean bias of the link")
    if feature is None:
        names = list(predicted)
        numbered = [int(tick.get_text()) for tick in ax.get_xticklabels()]  # columns, sorted as text
        ax.set_xticks(ax.get_xticks(), [names[column] for column in numbered], rotation=20, ha="right")
        ax.set(xlabel="")
    else:
        _restyled(ax, ax.lines[before + 1 :], predicted, ax.collections[filled:], markers=True)
    return ax


def error_by_decile(
    observed: Any,
    predicted: Mapping[str, Any],
    ax: Any = None,
    by: str = "prediction",
    measure: str = "absolute",
    weights: Any = None,
    bins: int = 10,
) -> Any:
    """Mean error in each tenth of the rows, sorted by what was predicted (each model its own) or by what was observed.

    Observations of few values, such as grades, are grouped by value instead: tenths would tear equal rows apart.

    Sorted by observation every honest model is too high at the bottom and too low at the top, and a constant that is
    added to all predictions looks like progress at the top: look at the prediction first.

    Parameters
    ----------
    observed : array of shape (n,)
        Observed scores.
    predicted : mapping of str to array of shape (n,)
        Predicted scores of each model, by its name.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.
    by : {"prediction", "observation"}
        What sorts the rows.
    measure : {"absolute", "bias"}
        The mean of abs(predicted - observed), or of predicted - observed.
    weights : array of shape (n,), optional
        Weights of the rows; each tenth has a tenth of the weight.
    bins : int
        How many parts; also the most values that are groups of their own.

    Examples
    --------
    >>> y = np.arange(20.0)
    >>> axes = sm.plots.error_by_decile(y, {"off by one": y + 1.0}, measure="bias")
    >>> axes.lines[0].get_ydata().tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    """
    who = "error_by_decile"
    if by not in ("prediction", "observation"):
        raise ValueError(f"{who}: by must be 'prediction' or 'observation', got {by!r}.")
    if measure not in ("absolute", "bias"):
        raise ValueError(f"{who}: measure must be 'absolute' or 'bias', got {measure!r}.")
    observed, columns = _columns(who, observed, predicted)
    share = np.ones_like(observed) if weights is None else finite_column(who, "weights", weights)
    if share.shape != observed.shape or (share < 0.0).any() or not share.any():
        raise ValueError(f"{who}: weights must be >= 0, not all 0, and one for each of the {observed.size} rows.")
    ax = axes_of(ax)
    by_value = by == "observation" and few_values(observed, bins)
    parts = np.unique(observed).size if by_value else bins
    for place, (name, scores) in enumerate(zip(predicted, columns.T, strict=True)):
        error = scores - observed if measure == "bias" else np.abs(scores - observed)
        if by_value:
            means = _means(np.unique(observed, return_inverse=True)[1], error, share, parts)
        else:
            means = _means_by_rank(scores if by == "prediction" else observed, error, share, bins)
        ax.plot(np.arange(1, parts + 1), means, label=str(name), **cycle_style(place))
    if measure == "bias":
        ax.axhline(0.0, color=ink(), linewidth=0.8, linestyle=":", zorder=1.0)
    else:
        ax.set_ylim(bottom=0.0)
    tenth = "decile" if bins == 10 else "part"
    ax.set_xticks(range(1, parts + 1), [readable(value, 6) for value in np.unique(observed)] if by_value else None)
    ax.set(
        xlabel="observed score" if by_value else f"{tenth} of the {by}, low to high",
        ylabel="mean of predicted - observed" if measure == "bias" else "mean absolute error",
    )
    legend_below(ax)
    return ax


def few_values(observed: np.ndarray, most: int = FEW_VALUES) -> bool:
    """Whether observations have so few values that many are equal, as grades are."""
    return np.unique(observed).size <= min(most, observed.size - 1)


def gains(estimates: Mapping[str, Any], ax: Any = None, xlabel: str = "gain", **point: Any) -> Any:
    """Values with their intervals, a row for each, and a line at zero: filled marks are clear of it.

    Rows that reach much further than the others are cut off at the edge, with an arrow and their value.

    Parameters
    ----------
    estimates : mapping of str to (value, low, high) or Estimate
        By title, from top to bottom. NaN leaves a row empty.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.
    xlabel : str
        What the values are.
    **point
        Of all marks and intervals: ``color``, ``marker`` ...

    Examples
    --------
    >>> axes = sm.plots.gains({"squared error": (0.12, 0.05, 0.2), "Huber": (0.01, -0.03, 0.04)})
    """
    if not estimates:
        raise ValueError("gains: estimates must hold at least one title, got none.")
    ax = axes_of(ax)
    rows = [_three(estimate) for estimate in estimates.values()]
    edges = _cut(ax, rows)
    for row, (value, low, high) in enumerate(rows):
        colour = COLOURS["blue"] if low > 0.0 else COLOURS["vermillion"] if high < 0.0 else ink()
        look = {"color": colour, "marker": "o", "markersize": 5.0, **point}
        clear = low > 0.0 or high < 0.0
        ax.plot([low, high], [row, row], color=look["color"], linewidth=1.2, solid_capstyle="butt")
        face = {} if clear else {"markerfacecolor": ax.get_facecolor()}
        ax.plot([value], [row], linestyle="none", **{**face, **look})
        for edge, inwards in edges:
            if any(inwards * end < inwards * edge for end in (value, low, high)):
                _arrow(ax, edge, row, inwards, look["color"], value)
    ax.axvline(0.0, color=ink(), linewidth=0.8, linestyle=":", zorder=1.0)
    ax.set_yticks(range(len(estimates)), [str(title) for title in estimates])
    ax.set(xlabel=xlabel, ylim=(len(estimates) - 0.5, -0.5))
    ax.tick_params(axis="y", length=0.0)
    ax.spines["left"].set_visible(False)
    return ax


def far_rows(estimates: Mapping[str, Any]) -> tuple[str, ...]:
    """The titles of those whose interval reaches so far that :func:`gains` cuts them off."""
    rows = [_three(estimate) for estimate in estimates.values()]
    most = _most(rows)
    return tuple(title for title, row in zip(estimates, rows, strict=True) if _reach(row) > most)


# ----------------------------------------------------------------------------------------------------------- the parts


def _three(estimate: Any) -> tuple[float, float, float]:
    return tuple(estimate) if isinstance(estimate, Sequence) else (estimate.value, estimate.low, estimate.high)


def _reach(row: tuple[float, float, float]) -> float:
    """How far from zero a row goes; 0 where there is nothing to draw."""
    return max((abs(end) for end in row if not math.isnan(end)), default=0.0)


def _most(rows: Sequence[tuple[float, float, float]]) -> float:
    """How far rows may reach before they are cut off."""
    reaches = [reach for row in rows if (reach := _reach(row)) > 0.0]
    if not reaches:
        return math.inf
    return max(FAR_OF_NEAREST * min(reaches), FAR_OF_MIDDLE * statistics.median_low(reaches))


def _cut(ax: Any, rows: Sequence[tuple[float, float, float]]) -> tuple[tuple[float, float], ...]:
    """Limits that show all of the rows that are not far, each with its sign inwards; none where no row is far."""
    most = _most(rows)
    ends = {far: [end for row in rows if (_reach(row) > most) == far for end in row if not math.isnan(end)]
            for far in (False, True)}  # fmt: skip
    if not ends[True]:
        return ()
    low, high = min([0.0, *ends[False]]), max([0.0, *ends[False]])
    room = 0.06 * (high - low)
    left = low - room * (5.0 if min(ends[True]) < low else 1.0)  # an arrow and a number take room
    right = high + room * (5.0 if max(ends[True]) > high else 1.0)
    ax.set_xlim(left, right)
    return (left, 1.0), (right, -1.0)


def _arrow(ax: Any, edge: float, row: int, inwards: float, colour: Any, value: float) -> None:
    """A row goes on beyond the edge: an arrow there, and the value where it is not seen itself."""
    head = "<" if inwards > 0.0 else ">"
    ax.plot([edge], [row], marker=head, color=colour, linestyle="none", clip_on=False, label="_far")
    if inwards * value < inwards * edge:
        # above the interval, which may come from within
        place = {"xytext": (3.0 * inwards, 3.0), "textcoords": "offset points", "va": "bottom"}
        ax.annotate(readable(value, 3), (edge, row), ha="left" if inwards > 0.0 else "right", color=colour, **place)


def _columns(who: str, observed: Any, predicted: Any) -> tuple[np.ndarray, np.ndarray]:
    """Observed scores, and predicted ones with a column for each model."""
    if not isinstance(predicted, Mapping) or not predicted:
        got = type(predicted).__name__ if not isinstance(predicted, Mapping) else "an empty one"
        raise TypeError(f'{who}: predicted must be a mapping from name to scores, got {got}. Try {{"model": scores}}.')
    observed = finite_column(who, "observed", observed)
    columns = [finite_column(who, f"predicted[{name!r}]", scores) for name, scores in predicted.items()]
    for name, column in zip(predicted, columns, strict=True):
        if column.shape != observed.shape:
            raise ValueError(f"{who}: predicted[{name!r}] must have {observed.size} scores, got {column.size}.")
    return observed, np.column_stack(columns)


def _means_by_rank(order: np.ndarray, error: np.ndarray, share: np.ndarray, bins: int) -> np.ndarray:
    """Weighted means of an error in parts of equal weight, in the order of some scores; NaN in empty parts."""
    ranked = np.argsort(order, kind="stable")
    middle = np.cumsum(share[ranked]) - 0.5 * share[ranked]
    part = np.minimum((bins * middle / share.sum()).astype(int), bins - 1)
    return _means(part, error[ranked], share[ranked], bins)


def _means(part: np.ndarray, error: np.ndarray, share: np.ndarray, parts: int) -> np.ndarray:
    """Weighted means of an error in each part; NaN in empty ones."""
    total = np.bincount(part, share, minlength=parts)
    summed = np.bincount(part, share * error, minlength=parts)
    return np.divide(summed, total, out=np.full(parts, np.nan), where=total > 0.0)


def _restyled(ax: Any, lines: Any, names: Any, filled: Any = (), markers: bool = False) -> None:
    """Lines of model-diagnostics in our colours and dashes, with the names of the models."""
    for place, (line, name) in enumerate(zip(lines, names, strict=True)):
        style = cycle_style(place)
        line.set(color=style["color"], linestyle=style["linestyle"], label=str(name))
        if markers:
            line.set(marker=style["marker"], markersize=4.0)
    for place, band in enumerate(filled):
        band.set(color=cycle_style(place)["color"], alpha=0.15)
    ax.set_title("")
    legend_below(ax)
