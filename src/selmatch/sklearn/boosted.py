"""What the boosted estimators share: backends by name, features as boosters take them, a part to validate on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from joblib import effective_n_jobs
from sklearn.utils import check_array, check_consistent_length, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from selmatch import boosting
from selmatch.boosting.frames import NO_COLUMNS, Columns, category_columns, is_pandas
from selmatch.losses import MatchingLoss
from selmatch.parameters import number
from selmatch.sklearn.base import real_targets, whole
from selmatch.sklearn.features import as_boosters_know, nameable, named


class _Backend(NamedTuple):
    """What a booster calls its seed and its number of threads, and whether it refuses some names of columns."""

    seed: str
    threads: str | None
    particular: bool


BACKENDS: dict[str, _Backend] = {
    "hist_gradient_boosting": _Backend("random_state", None, False),
    "lightgbm": _Backend("seed", "num_threads", True),
    "xgboost": _Backend("seed", "nthread", True),
    "catboost": _Backend("random_seed", "thread_count", False),
}

#: parameters of the estimators, and what the boosters call them, aliases included
_SETTLED = {
    "learning_rate": ("learning_rate", "eta", "shrinkage_rate"),
    "n_estimators": (
        "n_estimators", "iterations", "num_iterations", "num_iteration", "n_iter", "max_iter", "num_trees", "num_tree",
        "num_rounds", "num_round", "nrounds", "num_boost_round",
    ),
    "early_stopping": (
        "early_stopping", "early_stopping_rounds", "early_stopping_round", "n_iter_no_change", "od_wait",
    ),
    "validation_fraction": ("validation_fraction",),
    "random_state": ("random_state", "random_seed", "seed"),
    "n_jobs": ("n_jobs", "nthread", "nthreads", "num_thread", "num_threads", "thread_count"),
}  # fmt: skip


class Boosted:
    """Parameters and methods of estimators that train a booster."""

    backend: str
    curvature: str
    n_estimators: int
    learning_rate: float
    backend_params: Mapping[str, Any] | None
    early_stopping: int | None
    validation_fraction: float
    random_state: Any
    n_jobs: int | None
    loss_: MatchingLoss

    #: of training; models that were saved before they were kept knew none
    _columns: Columns = NO_COLUMNS

    #: names of the backends that this estimator can use
    _backends: tuple[str, ...] = tuple(BACKENDS)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = self._takes_sparse()
        return tags

    def _takes_sparse(self) -> bool:
        return self.backend != "hist_gradient_boosting"

    # -------------------------------------------------------------------------------------------------------- features

    def _checked_features(self, X: Any, y: Any = "no_validation", *, reset: bool) -> Any:
        """Features (and targets) as the backend takes them: missing values allowed, categories and names kept."""
        categories = category_columns(X)
        if not reset:
            self._columns.require(type(self).__name__, X)
        options: dict[str, Any] = {"skip_check_array": True}
        if not categories:
            options = {"dtype": (np.float64, np.float32), "ensure_all_finite": "allow-nan"}
            options["accept_sparse"] = "csr" if self._takes_sparse() else False
        if isinstance(y, str):
            checked = validate_data(self, X, reset=reset, **options)  # type: ignore[arg-type]
        elif categories:
            validate_data(self, X, y, reset=reset, **options)  # type: ignore[arg-type]
            checked, y = X, check_array(y, ensure_2d=False, input_name="y")
            check_consistent_length(X, y)
        else:
            checked, y = validate_data(self, X, y, reset=reset, y_numeric=True, multi_output=True, **options)  # type: ignore[arg-type]
        if reset:
            self._known_backend()
            self._columns = Columns.of(X) if categories else NO_COLUMNS
            arrayed = isinstance(checked, np.ndarray) and is_pandas(X)
            self._named = arrayed and nameable(getattr(self, "feature_names_in_", [""]))
        features = self._for_backend(checked)
        return features if isinstance(y, str) else (features, real_targets(type(self).__name__, y))

    def _for_backend(self, X: Any) -> Any:
        who = type(self).__name__
        if self._named:
            return named(who, X, self.feature_names_in_)  # type: ignore[attr-defined]
        X = self._columns.align(who, X)
        if self._known_backend().particular and not nameable([str(name) for name in self._columns.names]):
            X = X.set_axis(range(X.shape[1]), axis=1)
        return as_boosters_know(X)

    # -------------------------------------------------------------------------------------------------------- training

    def _known_backend(self) -> _Backend:
        if self.backend not in self._backends:
            known = ", ".join(map(repr, self._backends))
            raise ValueError(f"{type(self).__name__}: backend must be one of {known}, got {self.backend!r}.")
        return BACKENDS[self.backend]

    def _objective(self, loss: MatchingLoss, **options: Any) -> Any:
        self._known_backend()
        return getattr(boosting, self.backend)(loss, curvature=self.curvature, **options)

    def _train(self, objective: Any, X: Any, y: np.ndarray, **options: Any) -> None:
        """Train, and keep what was trained."""
        who, backend = type(self).__name__, self._known_backend()
        params: dict[str, Any] = {"learning_rate": number(who, "learning_rate", self.learning_rate, above=0.0)}
        if self.random_state is not None:
            seed = self.random_state
            given = isinstance(seed, (int, np.integer))
            params[backend.seed] = int(seed) if given else int(check_random_state(seed).randint(2**31 - 1))
        if self.n_jobs is not None and backend.threads is not None:
            params[backend.threads] = effective_n_jobs(self.n_jobs)
        rounds = whole(who, "n_estimators", self.n_estimators)
        patience = None if self.early_stopping is None else whole(who, "early_stopping", self.early_stopping)
        params.update(self._own_params(objective))
        try:
            self.model_ = objective.fit(X, y, rounds=rounds, params=params, early_stopping=patience, **options)
        except Exception as error:  # CatBoost's own class of errors, which is not imported here
            if self.backend == "catboost" and "All features are either constant or ignored" in str(error):
                raise ValueError(
                    f"{who}: X must have a feature that varies, got none in n_samples = {len(y)} rows. Other backends "
                    "would predict a constant."
                ) from error
            raise
        best = self.model_.best_iteration
        self.n_iter_ = rounds if best is None else best + 1

    def _own_params(self, objective: Any) -> Mapping[str, Any]:
        """The backend's own parameters: all known to it, and none that the estimator has too."""
        who, given = type(self).__name__, {} if self.backend_params is None else self.backend_params
        if not isinstance(given, Mapping):
            raise TypeError(f"{who}: backend_params must be a mapping of names to values, got {given!r}.")
        for parameter, names in _SETTLED.items():
            for name in names:
                if name in given:
                    raise ValueError(
                        f"{who}: backend_params must not hold {name!r}, got {given[name]!r}. Use the parameter "
                        f"{parameter} of {who}."
                    )
        objective.require_known(who, "backend_params", given)
        return given

    def _held_out(self, count: int) -> np.ndarray:
        """Which of some rows or lists are kept for early stopping."""
        share = number(type(self).__name__, "validation_fraction", self.validation_fraction, above=0.0)
        held = min(max(round(share * count), 1), count - 1)
        if share >= 1.0 or count < 2:
            raise ValueError(
                f"{type(self).__name__}: validation_fraction must leave something to train on, got {share:g} of "
                f"{count}."
            )
        chosen = np.zeros(count, dtype=bool)
        chosen[check_random_state(self.random_state).permutation(count)[:held]] = True
        return chosen

    @property
    def booster_(self) -> Any:
        """The backend's own object."""
        check_is_fitted(self)
        return self.model_.booster

    @property
    def feature_importances_(self) -> np.ndarray:
        """What each feature contributed to the trees, with sum 1; zeros if no tree has split."""
        check_is_fitted(self)
        gains = self.model_.objective.importances(self.model_.booster, self.n_iter_)
        return gains / gains.sum() if gains.any() else gains

    def predict(self, X: Any) -> np.ndarray:
        """Scores, with the start value and after the best round.

        Parameters
        ----------
        X : array or data frame of shape (n, features)
            Features, as in training.

        Returns
        -------
        array of shape (n,), or (n, targets) for many
            Predicted scores.
        """
        check_is_fitted(self)
        scores = self.model_.predict(self._checked_features(X, reset=False))
        return self._finished(np.asarray(scores, dtype=np.float64))

    def _finished(self, scores: np.ndarray) -> np.ndarray:
        """Scores as users get them."""
        return scores
