"""Calibration in link space, where it is right again: model-diagnostics on (h(y), h(prediction)).

A model trained with a matching loss predicts h^-1(E[h(Y) | x]). Measured as a mean it is biased, on purpose; the link
of its predictions is calibrated for the mean of h(Y). Each function here takes links and hands over.
"""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import numpy as np

from selmatch.curve import Curve
from selmatch.losses import loss_of
from selmatch.scales import scores_of


def link_bias(y_obs: Any, y_pred: Any, loss: Any, feature: Any = None, weights: Any = None, **options: Any) -> Any:
    """Whether predictions are calibrated for the loss that they were trained with, overall or along a feature.

    The mean of h(prediction) - h(observation) with standard errors and p-values: about 0 for a calibrated model, in
    every bin of the feature. Calls ``model_diagnostics.calibration.compute_bias``.

    Parameters
    ----------
    y_obs : array of shape (n,)
        Observed scores; targets for a loss of logarithms (``loss.scale``).
    y_pred : array of shape (n,) or (n, models), or a data frame
        Predicted scores, or targets.
    loss : MatchingLoss or curve
        Its link is what is compared.
    feature : array of shape (n,), optional
        What to group by.
    weights : array of shape (n,), optional
        Weights of the rows.
    **options
        ``n_bins``, ``bin_method``.

    Returns
    -------
    polars.DataFrame
        With the columns ``bias_mean``, ``bias_stderr``, ``p_value`` and others.

    Examples
    --------
    >>> from selmatch.sklearn import link_bias
    >>> y = np.array([0.0, 1.0, 2.0, 5.0])
    >>> best = MatchingLoss(Exp()).minimiser(y)
    >>> bool(best > y.mean())
    True
    >>> bool(abs(link_bias(y, np.full(4, best), Exp())["bias_mean"][0]) < 1e-12)
    True
    """
    return _delegated("link_bias", "calibration.compute_bias", y_obs, y_pred, loss, feature, weights, **options)


def plot_link_bias(y_obs: Any, y_pred: Any, loss: Any, feature: Any = None, weights: Any = None, **options: Any) -> Any:
    """A picture of :func:`link_bias` along a feature, by ``model_diagnostics.calibration.plot_bias``.

    Parameters
    ----------
    y_obs, y_pred, loss, feature, weights
        As for :func:`link_bias`.
    **options
        ``n_bins``, ``bin_method``, ``confidence_level``, ``ax``.
    """
    drawn = _delegated("plot_link_bias", "calibration.plot_bias", y_obs, y_pred, loss, feature, weights, **options)
    return _labelled(drawn, ylabel="mean of h(prediction) - h(observation)")


def plot_link_reliability(y_obs: Any, y_pred: Any, loss: Any, weights: Any = None, **options: Any) -> Any:
    """A reliability diagram of links, by ``model_diagnostics.calibration.plot_reliability_diagram``.

    Both axes are in units of the link; on the diagonal the model is calibrated for its loss.

    Parameters
    ----------
    y_obs, y_pred, loss, weights
        As for :func:`link_bias`.
    **options
        ``n_bootstrap``, ``confidence_level``, ``diagram_type``, ``ax``.
    """
    name = "calibration.plot_reliability_diagram"
    drawn = _delegated("plot_link_reliability", name, y_obs, y_pred, loss, weights, **options)
    return _labelled(drawn, xlabel="h(prediction)", ylabel="estimated mean of h(observation)")


def plot_link_murphy(y_obs: Any, y_pred: Any, loss: Any, weights: Any = None, **options: Any) -> Any:
    """A Murphy diagram of links: does one model win under every loss with this link, or only in some places?

    All losses that elicit h^-1(E h(Y)) are mixtures of the elementary ones on the x axis, which is in units of the
    link. Calls ``model_diagnostics.scoring.plot_murphy_diagram``.

    Parameters
    ----------
    y_obs, y_pred, loss, weights
        As for :func:`link_bias`.
    **options
        ``etas``, ``ax``.
    """
    drawn = _delegated("plot_link_murphy", "scoring.plot_murphy_diagram", y_obs, y_pred, loss, weights, **options)
    return _labelled(drawn, xlabel="eta, in units of the link")


def _labelled(drawn: Any, **labels: str) -> Any:
    """A picture whose axes say that they show links."""
    if hasattr(drawn, "set_xlabel"):  # plotly's figures keep their own
        drawn.set(**labels)
    return drawn


def _delegated(who: str, name: str, y_obs: Any, y_pred: Any, loss: Any, *others: Any, **options: Any) -> Any:
    """The answer of a function of model-diagnostics about links, for which the functional is the mean."""
    module, _, function = name.partition(".")
    try:
        home = importlib.import_module(f"model_diagnostics.{module}")
    except ImportError as error:
        raise ImportError(
            f'selmatch.sklearn.{who} needs model-diagnostics. Install it with: pip install "selmatch[compare]".'
        ) from error
    links = _links(who, y_obs, y_pred, loss)
    with warnings.catch_warnings():
        # model-diagnostics 1.5 uses a part of polars that is going away; who calls it from here cannot help that
        warnings.filterwarnings("ignore", "the string cache", DeprecationWarning)
        return getattr(home, function)(*links, *others, functional="mean", **options)


def _links(who: str, y_obs: Any, y_pred: Any, loss: Any) -> tuple[np.ndarray, Any]:
    """Links of observations and predictions; names of models in a data frame are kept."""
    loss = loss_of(who, loss)
    link = loss.potential
    if not isinstance(link, Curve):
        raise TypeError(f"{who}: loss must have a single link, got {link!r}.")
    observed, predicted = (
        scores_of(who, name, np.asarray(scores, dtype=np.float64), loss)
        for name, scores in (("y_obs", y_obs), ("y_pred", y_pred))
    )
    for name, scores in (("y_obs", observed), ("y_pred", predicted)):
        wrong = ~(np.isfinite(scores) & link.holds(scores, interior=True))
        if wrong.any():
            raise ValueError(
                f"{who}: {name} must lie in {link.domain}, the domain of the link, got {scores[wrong][0]:g}. Clip it."
            )
    links = link(predicted)
    if hasattr(y_pred, "columns"):
        return link(observed), type(y_pred)(dict(zip(map(str, y_pred.columns), links.T, strict=True)))
    return link(observed), links
