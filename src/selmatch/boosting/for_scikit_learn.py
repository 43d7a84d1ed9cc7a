"""Objectives of scikit-learn's HistGradientBoostingRegressor, through the hook that its own losses use."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from itertools import islice
from typing import Any

import numpy as np
import sklearn

from selmatch.boosting.objective import METRIC
from selmatch.boosting.rows import Rows
from selmatch.boosting.training import Model, RoundObjective, Table
from selmatch.losses import MatchingLoss

__all__ = ["HistGradientBoostingObjective"]

_MOVED = (
    "selmatch.boosting.hist_gradient_boosting needs the private loss hook of scikit-learn, which version "
    f"{sklearn.__version__} does not have as expected ({{}}). Known to work: 1.9; 1.5 to 1.8 should. Use XGBoost or "
    "LightGBM."
)

try:
    from sklearn._loss.link import IdentityLink
    from sklearn._loss.loss import BaseLoss
    from sklearn.ensemble import HistGradientBoostingRegressor
except ImportError as error:
    raise ImportError(_MOVED.format(error)) from error


class HistGradientBoostingObjective(RoundObjective, BaseLoss):
    """A loss for ``HistGradientBoostingRegressor(loss=...)``; see :class:`selmatch.boosting.Objective` for the options.

    The estimator asks it for the start value, for gradients and curvatures, and, with ``scoring="loss"``, for the loss
    to stop early on; sample weights, monotonic constraints, ``clone`` and pickle work as with a loss by name.
    ``l2_regularization`` is in the units of a loss with mean curvature 1.

    Scikit-learn keeps this hook for itself: a new version may move it, and then says so here.

    Examples
    --------
    >>> import selmatch.boosting
    >>> from sklearn.ensemble import HistGradientBoostingRegressor
    >>> X = np.linspace(-1.0, 1.0, 200).reshape(-1, 1)
    >>> objective = selmatch.boosting.hist_gradient_boosting(Sigmoid().affine(alpha=2.0, beta=5.0))
    >>> estimator = HistGradientBoostingRegressor(loss=objective).fit(X, 5.0 + X[:, 0])
    >>> bool(np.abs(estimator.predict(X) - 5.0 - X[:, 0]).max() < 0.1)
    True
    """

    library, booster = "HistGradientBoosting", "hist_gradient_boosting"

    #: hides a method of scikit-learn's losses that its boosters do not call
    loss: MatchingLoss  # type: ignore[assignment]

    def __init__(self, loss: Any, **options: Any) -> None:
        require_hook()
        RoundObjective.__init__(self, loss, **options)
        if self.loss.vector or self.ranking is not None:
            raise TypeError(
                f"{self._who}: loss must compare one score with one label, got {self!r}: scikit-learn's boosters have "
                "neither rows of labels nor lists. Use XGBoost or LightGBM."
            )
        BaseLoss.__init__(self, closs=None, link=IdentityLink())
        self.approx_hessian = self.curvature == "secant"

    def rows(self, labels: Any, weights: Any = None, groups: Any = None) -> Rows:
        """A data set, checked and with its links cached."""
        if groups is not None:
            raise ValueError(f"{self._who}: groups must be None, got lists: scikit-learn's boosters have none.")
        found = super().rows(labels, weights)
        if found.labels.ndim > 1:
            raise ValueError(
                f"{self._who}: the labels must be one for each row, got shape {found.labels.shape}. Use XGBoost, or "
                "train one model for each target."
            )
        return found

    # ----------------------------------------------------------------------------------------- what scikit-learn calls

    def fit_intercept_only(self, y_true: Any, sample_weight: Any = None) -> Any:
        """The start value, from the labels that are trained on."""
        table = Table(y_true, sample_weight)
        rows = self.prepare(*table)
        self._seen = []
        self.seen(table, rows)
        return np.asarray(self._ready("Call fit.").score, dtype=np.float64)

    def gradient_hessian(
        self, y_true: Any, raw_prediction: Any, sample_weight: Any = None, gradient_out: Any = None,
        hessian_out: Any = None, n_threads: int = 1,
    ) -> tuple[Any, Any]:  # fmt: skip
        """Gradients and curvatures of all rows, written where scikit-learn wants them."""
        start = self._ready("Call fit_intercept_only(y_true, sample_weight) first.")
        rows = self.seen(Table(y_true, sample_weight)).rows
        places = [np.empty(len(y_true)) if place is None else place for place in (gradient_out, hessian_out)]
        self._derivatives(rows, raw_prediction, start, out=(places[0].ravel(), places[1].ravel()))
        return places[0], places[1]

    def __call__(self, y_true: Any, raw_prediction: Any, sample_weight: Any = None, n_threads: int = 1) -> float:
        """The mean matching loss, which early stopping goes by."""
        return self.seen(Table(y_true, sample_weight)).rows.value(raw_prediction)

    # -------------------------------------------------------------------------------------------------------- training

    def fit(
        self, X: Any, y: Any, *, weights: Any = None, groups: Any = None, rounds: int = 100,
        params: Mapping[str, Any] | None = None, validation: Any = None, early_stopping: int | None = None,
    ) -> Model:  # fmt: skip
        """Train from the right start, with the right metric.

        Parameters
        ----------
        X : array or data frame
            Features, as scikit-learn takes them; columns of categories are used as such.
        y : array
            Targets.
        weights : array, optional
            Of rows.
        groups : None
            There are no lists here.
        rounds : int
            How many.
        params : mapping, optional
            Parameters of HistGradientBoostingRegressor; ``l2_regularization`` in the units of a loss with mean
            curvature 1.
        validation : tuple, optional
            (X, y) or (X, y, weights); needs scikit-learn 1.7.
        early_stopping : int, optional
            Stop after so many rounds without a better matching loss on the validation set.

        Returns
        -------
        Model
        """
        rows = self.rows(y, weights, groups)
        validated = self._validation_rows(validation, early_stopping)
        stopping, held_out = self._plan(validated, early_stopping, rounds)
        trained = copy.copy(self)
        settings: dict[str, Any] = {"loss": trained, "max_iter": rounds, **stopping, **(params or {})}
        booster = HistGradientBoostingRegressor(**settings)
        booster.fit(X, rows.labels, sample_weight=rows.weights, **held_out)
        trained._seen, self.start = [], trained.start
        # the first of the scores is that of the start
        losses = [] if validated is None else [-float(score) for score in booster.validation_score_[1:]]
        best = None if early_stopping is None else int(np.argmin(losses))
        return Model(trained, booster, best, {METRIC: losses} if losses else {})

    def _plan(
        self, validated: tuple[Any, Rows] | None, early_stopping: int | None, rounds: int
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Parameters about stopping, and the validation set as ``fit`` takes it."""
        if validated is None:
            return {"early_stopping": False}, {}
        if "X_val" not in inspect.signature(HistGradientBoostingRegressor.fit).parameters:
            raise ValueError(
                f"{self._who}: validation must be None with scikit-learn {sklearn.__version__}, got rows. Update it to "
                "1.7, or give params={'early_stopping': True, 'validation_fraction': 0.1}."
            )
        X, rows = validated
        patience = rounds + 1 if early_stopping is None else early_stopping
        stopping = {"early_stopping": True, "scoring": "loss", "n_iter_no_change": patience, "tol": 0.0}
        return stopping, {"X_val": X, "y_val": rows.labels, "sample_weight_val": rows.weights}

    def predict(self, booster: Any, X: Any, *, rounds: int | None = None) -> np.ndarray:
        """Scores from an estimator that this objective has trained.

        Parameters
        ----------
        booster : HistGradientBoostingRegressor
            The estimator.
        X : array or data frame
            Features.
        rounds : int, optional
            How many rounds to use; all by default.
        """
        if rounds is None or rounds >= booster.n_iter_:
            return booster.predict(X)
        return next(islice(booster.staged_predict(X), rounds - 1, None)).copy()


def require_hook() -> None:
    """Raise unless scikit-learn takes our losses, and calls them with the arguments that we know."""
    if BaseLoss not in HistGradientBoostingRegressor._parameter_constraints.get("loss", []):
        raise ImportError(_MOVED.format("HistGradientBoostingRegressor takes no loss object"))
    for name in ("fit_intercept_only", "gradient_hessian", "__call__"):
        theirs = getattr(BaseLoss, name, None)
        known = inspect.signature(getattr(HistGradientBoostingObjective, name)).parameters
        if theirs is None or list(inspect.signature(theirs).parameters) != list(known):
            raise ImportError(_MOVED.format(f"BaseLoss.{name} has changed"))
