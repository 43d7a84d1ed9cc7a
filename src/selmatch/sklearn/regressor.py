"""A boosted regressor trained with a matching loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from selmatch.sklearn.base import Selective
from selmatch.sklearn.boosted import Boosted
from selmatch.sklearn.features import picked


class SelectiveRegressor(Boosted, Selective):
    """Boosted trees that are accurate where it matters.

    They predict h^-1(E[h(Y) | x]), not the mean. Training starts at the best constant, honours weights, and stops early
    on the loss itself, with every backend.

    Parameters
    ----------
    backend : {"hist_gradient_boosting", "lightgbm", "xgboost", "catboost"}
        Who grows the trees. The default needs nothing beyond scikit-learn; the others need their library.
    loss : MatchingLoss, potential or curve, optional
        What to train with. None makes a loss from the following four. A loss of logarithms (``loss.scale``) takes
        targets and predicts targets: the logarithms are taken and undone here.
    focus : {"high", "low", "middle", "extremes"}
        Which targets matter, as for :func:`selmatch.focus`.
    between : (low, high), optional
        The targets that matter, instead of a word.
    top : float
        The share of rows that a word means.
    strength : float
        How much more they matter.
    curvature : {"secant", "newton"}
        Gradient over distance, which is stable from any start; or the second derivative.
    route : {None, "python", "native"}
        As for :class:`selmatch.boosting.Objective`.
    n_estimators : int
        The number of rounds, or the largest with early stopping.
    learning_rate : float
        The share of each tree that counts, > 0.
    backend_params : dict, optional
        The backend's own parameters, by its own names: regularisation in the units of a loss with mean curvature 1.
        What this class has a parameter for is refused here.
    early_stopping : int, optional
        Stop after so many rounds without a better loss on rows that are held out.
    validation_fraction : float
        The share of rows to hold out for it, unless ``fit`` is given an ``eval_set``.
    random_state : int, RandomState instance or None
        For what is random in the backend, and for what is held out.
    n_jobs : int, optional
        Threads; None is the backend's default. "hist_gradient_boosting" ignores it and takes OMP_NUM_THREADS.

    Attributes
    ----------
    loss_ : MatchingLoss
        What it was trained with; ``loss_.wish`` says what came of the words.
    booster_ : object
        The backend's own: a Booster of XGBoost or LightGBM, a CatBoost, a HistGradientBoostingRegressor.
    model_ : selmatch.boosting.training.Model
        What predicts: ``booster_`` together with the start value, ``model_.objective``.
    feature_importances_ : array of shape (features,)
        The share of each feature in what the splits gained (CatBoost: in changes of predictions), with sum 1. Not with
        "hist_gradient_boosting", which keeps no gains: use :func:`sklearn.inspection.permutation_importance`.
    n_iter_ : int
        Rounds that predictions use.

    Notes
    -----
    Missing values and, in data frames, columns of categories are left to the backend; columns of categories in training
    must be categories in prediction. Names of columns in pandas frames are handed on. Grid search over ``strength`` or
    ``top`` needs one fixed loss to judge by: ``scoring=matching_loss_scorer(loss)``.

    Examples
    --------
    >>> from selmatch.sklearn import SelectiveRegressor
    >>> x = np.linspace(0.0, 3.0, 301)
    >>> model = SelectiveRegressor(focus="high", top=0.1, n_estimators=20).fit(x[:, None], np.exp(x))
    >>> model.score(x[:, None], np.exp(x)) > 0.95
    True
    """

    def __init__(
        self,
        backend: str = "hist_gradient_boosting",
        loss: Any = None,
        *,
        focus: Any = "high",
        between: Any = None,
        top: float = 0.1,
        strength: float = 8.0,
        curvature: str = "secant",
        route: str | None = None,
        n_estimators: int = 100,
        learning_rate: float = 0.1,
        backend_params: Mapping[str, Any] | None = None,
        early_stopping: int | None = None,
        validation_fraction: float = 0.1,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.backend = backend
        self.loss = loss
        self.focus = focus
        self.between = between
        self.top = top
        self.strength = strength
        self.curvature = curvature
        self.route = route
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.backend_params = backend_params
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, eval_set: Any = None) -> SelectiveRegressor:
        """Train.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n, features)
            Features; NaN is missing.
        y : array of shape (n,), or (n, targets) with a vector loss
            Observed scores.
        sample_weight : array of shape (n,), optional
            Weights of the rows.
        eval_set : tuple, optional
            (X, y) or (X, y, weights) to stop early on, instead of a fraction of the rows.
        """
        X, y = self._checked_features(X, y, reset=True)
        y = self._scores_of(self._checked_targets(y))
        weights = self._checked_weights(sample_weight, len(y))
        if weights is not None and not weights.all():  # such rows must not count in leaves either
            kept = weights > 0.0
            X, y, weights = picked(X, kept), y[kept], weights[kept]
        self.loss_ = self._chosen_loss(y, weights)
        objective = self._objective(self.loss_.with_scale(None), route=self.route)
        X, y, weights, validation = self._divided(X, y, weights, eval_set)
        self._train(objective, X, y, weights=weights, validation=validation)
        return self

    def _divided(self, X: Any, y: np.ndarray, weights: np.ndarray | None, eval_set: Any) -> tuple[Any, Any, Any, Any]:
        """What to train on, and what to validate on."""
        if eval_set is not None:
            self._require_one(eval_set)
            features, targets = self._checked_features(*eval_set[:2], reset=False)
            return X, y, weights, (features, self._scores_of(self._checked_targets(targets)), *eval_set[2:])
        if self.early_stopping is None:
            return X, y, weights, None
        held = self._held_out(len(y))
        parts = [(picked(X, rows), y[rows], None if weights is None else weights[rows]) for rows in (~held, held)]
        return *parts[0], parts[1]

    def _require_one(self, eval_set: Any) -> None:
        wanted = f"{type(self).__name__}: eval_set must be (X, y) or (X, y, weights)"
        if not isinstance(eval_set, (tuple, list)):
            raise ValueError(f"{wanted}, got {type(eval_set).__name__}.")
        pairs = [isinstance(part, (tuple, list)) and len(part) > 0 and _is_table(part[0]) for part in eval_set]
        if any(pairs):
            raise ValueError(f"{wanted}, got a list of {len(pairs)}. Give the one to stop early on, without a list.")
        if len(eval_set) not in (2, 3):
            raise ValueError(f"{wanted}, got {len(eval_set)} parts.")

    def _finished(self, scores: np.ndarray) -> np.ndarray:
        scores = self._predicted(scores)
        return scores.reshape(len(scores), -1) if self.loss_.vector else scores


def _is_table(X: Any) -> bool:
    return len(getattr(X, "shape", ())) == 2
