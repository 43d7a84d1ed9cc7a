"""Scores of predictions under a matching loss, in the order and with the names of scikit-learn's metrics."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import make_scorer

from selmatch.columns import real_array
from selmatch.losses import MatchingLoss, loss_of
from selmatch.scales import scores_of


def matching_loss_score(y_true: Any, y_pred: Any, loss: Any, *, sample_weight: Any = None) -> float:
    """The mean matching loss; smaller is better.

    It is smallest, for predictions that may not know more than x, at h^-1(E[h(Y) | x]), not at the mean. Values under
    different losses cannot be compared.

    Parameters
    ----------
    y_true, y_pred : array of shape (n,), or (n, classes) for many classes
        Observed and predicted scores: in scikit-learn's order, the other way round than ``loss(s_hat, s)``. One column
        is as good as a row of n. For a loss of logarithms (``loss.scale``) these are targets, which must be positive.
    loss : MatchingLoss, potential or curve
        What to score with.
    sample_weight : array of shape (n,), optional
        Weights of the rows.

    Examples
    --------
    >>> from selmatch.sklearn import matching_loss_score
    >>> matching_loss_score([0.0, 1.0], [0.0, 3.0], Identity())
    1.0
    """
    made = loss_of("matching_loss_score", loss)
    s_hat, s = _scores("matching_loss_score", made, y_true, y_pred)
    return float(made(s_hat, s, weights=sample_weight))


def d2_matching_score(y_true: Any, y_pred: Any, loss: Any, *, sample_weight: Any = None) -> float:
    """The share of the matching loss of the best constant that the predictions save: 1 is perfect, 0 is a constant.

    ``1 - L(y_pred) / L(best constant)``, as R^2 does for squared error, which it is for ``Identity()``. The best
    constant is h^-1 of the mean of h(y_true), known only after the fact, so that worse than 0 is possible.

    Parameters
    ----------
    y_true, y_pred, loss, sample_weight
        As for :func:`matching_loss_score`.

    Examples
    --------
    >>> from selmatch.sklearn import d2_matching_score
    >>> d2_matching_score([1.0, 2.0, 3.0], [1.0, 2.0, 4.0], Identity())
    0.5
    """
    made = loss_of("d2_matching_score", loss)
    s_hat, s = _scores("d2_matching_score", made, y_true, y_pred)
    if len(s) < 2:
        warnings.warn("d2_matching_score is not defined for less than two rows.", UndefinedMetricWarning, stacklevel=2)
        return math.nan
    constant = np.broadcast_to(made.minimiser(s, sample_weight), s.shape)
    left, whole = (float(made(scores, s, weights=sample_weight)) for scores in (s_hat, constant))
    if whole == 0.0:
        return 1.0 if left == 0.0 else 0.0
    return 1.0 - left / whole


def matching_loss_scorer(loss: Any, *, relative: bool = False) -> Callable[..., float]:
    """A scorer for cross-validation and grid search: the loss with its sign turned, so that greater is better.

    Fix the loss by which you judge before you search over losses to train with: scores under different losses cannot
    be compared.

    Parameters
    ----------
    loss : MatchingLoss, potential or curve
        What to judge with.
    relative : bool
        Whether to give :func:`d2_matching_score` instead, which has no unit.

    Examples
    --------
    >>> from sklearn.dummy import DummyRegressor
    >>> from selmatch.sklearn import matching_loss_scorer
    >>> scorer = matching_loss_scorer(Identity())
    >>> scorer(DummyRegressor().fit([[0.0], [0.0]], [0.0, 2.0]), [[0.0]], [4.0])
    -4.5
    """
    made = loss_of("matching_loss_scorer", loss)
    if relative:
        return make_scorer(d2_matching_score, loss=made)
    return make_scorer(matching_loss_score, greater_is_better=False, loss=made)


def _scores(who: str, loss: MatchingLoss, y_true: Any, y_pred: Any) -> tuple[np.ndarray, np.ndarray]:
    """Predicted and observed scores, of one shape: a column beside a row would compare each with all."""
    s_hat, s = (
        scores_of(who, name, _flat(loss, real_array(who, name, scores, kinds="iufb")), loss)
        for name, scores in (("y_pred", y_pred), ("y_true", y_true))
    )
    if s_hat.shape != s.shape:
        raise ValueError(f"{who}: y_pred must have the shape of y_true, {s.shape}, got {s_hat.shape}.")
    return s_hat, s


def _flat(loss: MatchingLoss, scores: np.ndarray) -> np.ndarray:
    return scores[:, 0] if not loss.vector and scores.ndim == 2 and scores.shape[1] == 1 else scores
