"""Pictures of predictions: calibration in link space, errors by decile, gains with their intervals."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from selmatch.columns import finite_column
from selmatch.plots.style import COLOURS, axes_of, cycle_style, ink


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
        How many parts.

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
    for place, (name, scores) in enumerate(zip(predicted, columns.T, strict=True)):
        error = scores - observed if measure == "bias" else np.abs(scores - observed)
        means = _means_by_rank(scores if by == "prediction" else observed, error, share, bins)
        ax.plot(np.arange(1, bins + 1), means, label=str(name), **cycle_style(place))
    if measure == "bias":
        ax.axhline(0.0, color=ink(), linewidth=0.8, linestyle=":", zorder=1.0)
    else:
        ax.set_ylim(bottom=0.0)
    tenth = "decile" if bins == 10 else "part"
    ax.set_xticks(range(1, bins + 1))
    ax.set(
        xlabel=f"{tenth} of the {by}, low to high",
        ylabel="mean of predicted - observed" if measure == "bias" else "mean absolute error",
    )
    ax.legend()
    return ax


def gains(estimates: Mapping[str, Any], ax: Any = None, xlabel: str = "gain", **point: Any) -> Any:
    """Values with their intervals, a row for each, and a line at zero: filled marks are clear of it.

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
    for row, estimate in enumerate(estimates.values()):
        value, low, high = estimate if isinstance(estimate, Sequence) else (estimate.value, estimate.low, estimate.high)
        colour = COLOURS["blue"] if low > 0.0 else COLOURS["vermillion"] if high < 0.0 else ink()
        look = {"color": colour, "marker": "o", "markersize": 5.0, **point}
        clear = low > 0.0 or high < 0.0
        ax.plot([low, high], [row, row], color=look["color"], linewidth=1.2, solid_capstyle="butt")
        face = {} if clear else {"markerfacecolor": ax.get_facecolor()}
        ax.plot([value], [row], linestyle="none", **{**face, **look})
    ax.axvline(0.0, color=ink(), linewidth=0.8, linestyle=":", zorder=1.0)
    ax.set_yticks(range(len(estimates)), [str(title) for title in estimates])
    ax.set(xlabel=xlabel, ylim=(len(estimates) - 0.5, -0.5))
    ax.tick_params(axis="y", length=0.0)
    ax.spines["left"].set_visible(False)
    return ax


# ----------------------------------------------------------------------------------------------------------- the parts


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
    total = np.bincount(part, share[ranked], minlength=bins)
    summed = np.bincount(part, (share * error)[ranked], minlength=bins)
    return np.divide(summed, total, out=np.full(bins, np.nan), where=total > 0.0)


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
    ax.legend()
