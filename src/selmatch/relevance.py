"""Relevance labels and clicks as target scores, on a scale that is stated."""

from __future__ import annotations

import logging
import math
from typing import Any

import numpy as np

from selmatch.arrays.namespaces import NumPy
from selmatch.batch import Anywhere, Batch, prepare, require_inside
from selmatch.columns import to_numpy
from selmatch.functions import exp, expm1, is_number, log, namespace_of, where
from selmatch.parameters import number, numbers

Array = Any

logger = logging.getLogger(__name__)

_WHO = "labels_to_scores"
_LOG2 = 0.6931471805599453


def labels_to_scores(
    labels: Any,
    *,
    kind: str = "graded",
    scale: float = 1.0,
    highest: float | None = None,
    impressions: Any = None,
    prior: tuple[float, float] | None = None,
) -> Any:
    r"""Target scores for rankers from graded relevance or from clicks.

    A matching loss feels the scale of its targets: how far apart two grades are decides how steep a link is between
    them. Choose the scale here, and the loss for that scale (:func:`selmatch.focus` does it from the scores).

    Parameters
    ----------
    labels : array
        Relevance from 0 to ``highest``, or numbers of clicks. Others are an error in NumPy, and NaN in PyTorch and
        JAX.
    kind : {"graded", "gain", "clicks"}
        "graded": grades equally far apart, from -scale to scale. "gain": 2^label - 1, as in DCG, from -scale to
        scale, so that the best grades are far apart and the worst close together. "clicks": scale times the log-odds
        of the click rate; a difference of ``scale`` is a factor e in the odds.
    scale : float
        See kind; > 0.
    highest : float
        The best grade there can be, > 0, not the best that these data happen to have; default: 4. Binary labels need 1.
    impressions : array or number, optional
        For clicks, how often each item was shown; default: once.
    prior : (clicks, skips)
        For clicks, added to every item, > 0; default: (0.5, 0.5). Scores stay finite, and items that were rarely seen
        stay near the log-odds of the prior. For a click rate r that is usual on your site, (10 r, 10 (1 - r)) trusts it
        as much as ten impressions.

    Returns
    -------
    array or number
        Of the library and precision of the labels; integers give double precision, in PyTorch and JAX their default.

    Examples
    --------
    >>> from selmatch.ranking import labels_to_scores
    >>> labels_to_scores([0, 1, 2, 3, 4], scale=2.0)
    array([-2., -1.,  0.,  1.,  2.])
    >>> labels_to_scores([0, 1, 2], kind="gain", highest=2)
    array([-1.        , -0.33333333,  1.        ])
    >>> labels_to_scores([0, 3], kind="clicks", impressions=[0, 12]).round(2)
    array([ 0., -1.])
    """
    if kind not in ("graded", "gain", "clicks"):
        raise ValueError(f"{_WHO}: kind must be 'graded', 'gain' or 'clicks', got {kind!r}.")
    scale = number(_WHO, "scale", scale, above=0.0)
    options = {"impressions": impressions, "prior": prior} if kind != "clicks" else {"highest": highest}
    for name, given in options.items():
        if given is not None:
            raise ValueError(f"{_WHO}: {name} must be left out for kind={kind!r}, got some.")
    if kind == "clicks":
        return _log_odds(labels, impressions, scale, (0.5, 0.5) if prior is None else prior)
    highest = number(_WHO, "highest", 4.0 if highest is None else highest, above=0.0)
    batch = _batch("labels", labels)
    grades = batch.s
    inside = (grades >= 0) & (grades <= highest)
    if batch.space is NumPy:
        remedy = f" Say highest={float(grades.max(initial=0.0)):g}, or drop it." if (grades > highest).any() else ""
        require_inside(_WHO, "labels", grades, inside, None, f"lie in [0, {highest:g}]", remedy)
    # 2^label - 1 over 2^highest - 1, where neither may be finite
    gain = exp(_LOG2 * (grades - highest)) * expm1(-_LOG2 * grades) / math.expm1(-_LOG2 * highest)
    share = grades / highest if kind == "graded" else gain
    logger.info("%s: %s labels 0 to %g are scores %g to %g", _WHO, kind, highest, -scale, scale)
    return batch.finished(where(inside, scale * (2.0 * share - 1.0), math.nan))


def _batch(name: str, values: Any) -> Batch:
    """Numbers of any library; in NumPy finite."""
    if is_number(values) or isinstance(values, (list, tuple, np.ndarray)):
        array = np.asarray(values)
        if array.dtype.kind == "f":
            require_inside(_WHO, name, array, np.isfinite(array), None, "be finite", " Drop it: it says nothing.")
    elif hasattr(values, "dtype") and namespace_of(values).name in ("PyTorch", "JAX"):
        if not namespace_of(values).is_floating(values):  # type: ignore[attr-defined]
            values = 1.0 * values
    return prepare(_WHO, Anywhere, 0.0, values, observed=name)


def _log_odds(clicks: Any, impressions: Any, scale: float, prior: Any) -> Any:
    pseudo = numbers(_WHO, "prior", prior, above=0.0)
    if len(pseudo) != 2:
        raise ValueError(f"{_WHO}: prior must be a pair (clicks, skips), got {prior!r}.")
    good, bad = pseudo
    batch = _batch("labels", clicks)
    clicks, shown = batch.s, 1.0
    if is_number(impressions):
        shown = number(_WHO, "impressions", impressions, at_least=0.0)
    elif impressions is not None:
        shown = _impressions(impressions, batch)
        if shown.shape != clicks.shape:
            shape, given = tuple(clicks.shape), tuple(shown.shape)
            raise ValueError(f"{_WHO}: impressions must have the shape of the labels {shape}, got {given}.")
    inside = (clicks >= 0) & (clicks <= shown)
    if batch.space is NumPy:
        require_inside(_WHO, "labels", clicks, inside, None,
                       "be numbers of clicks, from 0 to the impressions", " Give impressions.")  # fmt: skip
    logger.info("%s: clicks are scores %g * log((clicks + %g) / (skips + %g))", _WHO, scale, good, bad)
    clicks = where(inside, clicks, math.nan)
    return batch.finished(scale * (log(clicks + good) - log(shown - clicks + bad)))


def _impressions(values: Any, batch: Batch) -> Array:
    """Numbers of impressions in the library of the labels."""
    if batch.space is NumPy:
        return _batch("impressions", values).s
    own = hasattr(values, "dtype") and namespace_of(values) is batch.space
    return batch.space.like(values if own else to_numpy(values), batch.s)  # type: ignore[attr-defined]
