"""What the estimators share: a loss that is given or made of a wish, checked targets and weights, the score."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import column_or_1d

from selmatch.boosting.rows import checked_labels, checked_weights
from selmatch.columns import real_array
from selmatch.composite import CompositeSoftmax, Separable
from selmatch.curves import Identity
from selmatch.design import focus as make_focus
from selmatch.losses import MatchingLoss, PerLabel, loss_of
from selmatch.parameters import number
from selmatch.scales import scale_of, scores_of
from selmatch.sklearn.scoring import d2_matching_score


def wished_loss(model: Any, word: str, y: np.ndarray, weights: np.ndarray | None, **options: Any) -> MatchingLoss:
    """The loss that an estimator's word (by default the one given) or interval asks for."""
    who, focus, between = type(model).__name__, model.focus, _pair(model.between)
    if isinstance(_pair(focus), tuple):
        focus, between = word, _pair(focus)
        warnings.warn(
            f"{who}: focus must be a word, got an interval. Give between={between} instead; this will be an error.",
            DeprecationWarning,
            stacklevel=4,
        )
    if between is None:
        return make_focus(
            word if focus is None else focus, data=y, weights=weights, top=model.top, strength=model.strength, **options
        )
    if focus not in (None, word):
        raise ValueError(f"{who}: only one of focus and between must be given, got {focus!r} and {between!r}.")
    return make_focus(between=between, data=y, weights=weights, top=model.top, strength=model.strength, **options)


def _pair(interval: Any) -> Any:
    """An interval, which may be an array, as focus wants it; anything else as it is."""
    return tuple(interval) if hasattr(interval, "__len__") and not isinstance(interval, str) else interval


def real_targets(who: str, y: Any) -> np.ndarray:
    """Targets in double precision, also those that are true and false."""
    return real_array(who, "y", y, kinds="iufb")


def whole(who: str, name: str, value: Any) -> int:
    """A whole number of at least 1."""
    result = number(who, name, value, at_least=1.0)
    if not result.is_integer():
        raise ValueError(f"{who}: {name} must be a whole number, got {result}.")
    return int(result)


class Selective(RegressorMixin, BaseEstimator):
    """A regressor that trains with a matching loss and is judged by it."""

    loss: Any
    focus: Any
    between: Any
    top: float
    strength: float
    loss_: MatchingLoss

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = self._many_targets()
        tags.target_tags.single_output = not self._many_targets()
        return tags

    def _many_targets(self) -> bool:
        """Whether the loss wants rows of scores."""
        potential = self.loss.potential if isinstance(self.loss, MatchingLoss) else self.loss
        return isinstance(potential, (CompositeSoftmax, Separable))

    def _checked_targets(self, y: np.ndarray) -> np.ndarray:
        if self._many_targets():
            return y
        if y.ndim == 2 and y.shape[1] > 1:
            raise ValueError(
                f"{type(self).__name__}: y must be one score for each row, got shape {y.shape}. For several columns "
                "give a vector loss, such as MatchingLoss(Separable(curve))."
            )
        return column_or_1d(y, warn=True)

    def _checked_weights(self, sample_weight: Any, rows: int) -> np.ndarray | None:
        if sample_weight is None:
            return None
        return checked_weights(type(self).__name__, sample_weight, rows, False)

    def _scores_of(self, targets: np.ndarray) -> np.ndarray:
        """What a loss of logarithms takes in place of targets."""
        return scores_of(type(self).__name__, "y", targets, self.loss)

    def _chosen_loss(self, y: np.ndarray, weights: np.ndarray | None) -> MatchingLoss:
        if self.loss is None:
            if weights is not None:  # rows without weight must not move borders
                y, weights = y[weights > 0.0], weights[weights > 0.0]
            if not np.ptp(y) > 0.0:  # nothing to tell apart
                return MatchingLoss(Identity())
            return wished_loss(self, "high", y, weights)
        who = type(self).__name__
        made = loss_of(who, self.loss)
        if isinstance(made.potential, PerLabel):
            raise TypeError(f"{who}: loss must have a single link, got {made!r}.")
        checked_labels(who, made, y, None)
        return made

    def _predicted(self, scores: np.ndarray) -> np.ndarray:
        """Scores clipped to the domain of the link, where alone it has a value, in units of the target."""
        potential = self.loss_.potential
        scores = np.clip(scores, potential.domain.low, potential.domain.high) if potential.bounded else scores
        return scale_of(self.loss_).undone(scores)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of the loss of the best constant that the predictions save, :func:`d2_matching_score`.

        Not R^2, which asks for the mean: this model predicts h^-1(E[h(Y) | x]), and R^2 would punish it for that.
        Models with different losses cannot be compared by it; see :func:`matching_loss_scorer`.

        Parameters
        ----------
        X : array
            Features.
        y : array
            Observed scores.
        sample_weight : array, optional
            Weights of the rows.
        """
        return d2_matching_score(y, self.predict(X), self.loss_, sample_weight=sample_weight)  # type: ignore[attr-defined]
