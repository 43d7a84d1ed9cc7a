"""Objectives of scikit-learn's HistGradientBoostingRegressor, through the hook that its own losses use."""

from __future__ import annotations

import copy
import inspect
from itertools import islice
from typing import Any

import numpy as np
import sklearn

from selmatch.boosting.objective import METRIC
from selmatch.boosting.rows import Rows
from selmatch.boosting.training import LibraryObjective, Model, Plan, Table
from selmatch.losses import MatchingLoss

__all__ = ["HistGradientBoostingObjective"]

_MOVED = (
    "selmatch.boosting.hist_gradient_boosting needs the private loss hook of scikit-learn, which version "
    f"{sklearn.__version__} does not have as expected ({{}}). Known to work: 1.9; 1.6 to 1.8 should. Use XGBoost or "
    "LightGBM."
)

try:
    from sklearn._loss.link import IdentityLink
    from sklearn._loss.loss import BaseLoss
    from sklearn.ensemble import HistGradientBoostingRegressor
except ImportError as error:
    raise ImportError(_MOVED.format(error)) from error


class HistGradientBoostingObjective(LibraryObjective, BaseLoss):
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

    settled = ("loss", "scoring", "max_iter")
    many_targets = False

    def __init__(
        self, loss: Any, *, curvature: str = "secant", route: str | None = None, ranking: str | None = None
    ) -> None:
        require_hook()
        if route == "native":
            raise ValueError(
                f"selmatch.boosting.{self.booster}: route must be None or 'python', got 'native'. Scikit-learn has no "
                "native route. Use XGBoost or LightGBM for one."
            )
        LibraryObjective.__init__(self, loss, curvature=curvature, route=route, ranking=ranking)
        if self.loss.vector or self.ranking is not None:
            raise TypeError(
                f"{self._who}: loss must compare one score with one label, got {self!r}: scikit-learn's boosters have "
                "neither rows of labels nor lists. Use XGBoost or LightGBM."
            )
        BaseLoss.__init__(self, closs=None, link=IdentityLink())
        self.approx_hessian = self.curvature == "secant"

    # ----------------------------------------------------------------------------------------- what scikit-learn calls

    def fit_intercept_only(self, y_true: Any, sample_weight: Any = None) -> Any:
        """The start value, from the labels that are trained on."""
        table = Table(y_true, sample_weight)
        self.seen(table, self.prepare(*table))
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

    def _training_rows(self, labels: Any, weights: Any, groups: Any) -> Rows:
        return self.rows(labels, weights, groups)  # the estimator asks for the start value by itself

    def _train(self, plan: Plan) -> Model:
        stopping, held_out = self._plan(plan.validation, plan.early_stopping, plan.rounds)
        given = self._given(plan.params, *(stopping if plan.validation is not None else ()))
        trained = copy.copy(self)
        settings: dict[str, Any] = {"loss": trained, "max_iter": plan.rounds, **stopping, **given}
        booster = HistGradientBoostingRegressor(**settings)
        booster.fit(plan.X, plan.rows.labels, sample_weight=plan.rows.weights, **held_out)
        trained._seen, self.start = [], trained.start
        # the first of the scores is that of the start
        losses = [] if plan.validation is None else [-float(score) for score in booster.validation_score_[1:]]
        best = None if plan.early_stopping is None else int(np.argmin(losses))
        if best is not None:
            _cut(booster, best + 1)
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
            return self.inside(booster.predict(X))
        return self.inside(next(islice(booster.staged_predict(X), rounds - 1, None))).copy()

    def importances(self, booster: Any, rounds: int | None = None) -> np.ndarray:
        """Scikit-learn's histogram boosters keep none."""
        raise AttributeError(
            "HistGradientBoostingRegressor keeps no importances of features. Use "
            "sklearn.inspection.permutation_importance(model, X, y), or another backend."
        )

    def _known_params(self) -> frozenset[str]:
        return frozenset(HistGradientBoostingRegressor().get_params())


def _cut(booster: HistGradientBoostingRegressor, rounds: int) -> None:
    """Leave an estimator only its first rounds: after early stopping it keeps, and uses, those that did not help."""
    del booster._predictors[rounds:]
    for name in ("train_score_", "validation_score_"):  # the first of the scores is that of the start
        setattr(booster, name, getattr(booster, name)[: rounds + 1])


def require_hook() -> None:
    """Raise unless scikit-learn takes our losses, and calls them with the arguments that we know."""
    if BaseLoss not in HistGradientBoostingRegressor._parameter_constraints.get("loss", []):
        raise ImportError(_MOVED.format("HistGradientBoostingRegressor takes no loss object"))
    for name in ("fit_intercept_only", "gradient_hessian", "__call__"):
        theirs = getattr(BaseLoss, name, None)
        known = inspect.signature(getattr(HistGradientBoostingObjective, name)).parameters
        if theirs is None or list(inspect.signature(theirs).parameters) != list(known):
            raise ImportError(_MOVED.format(f"BaseLoss.{name} has changed"))
