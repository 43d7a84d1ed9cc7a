"""What the boosted estimators share: backends by name, features as boosters take them, a part to validate on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from joblib import effective_n_jobs
from scipy import sparse
from sklearn.utils import _safe_indexing, check_array, check_consistent_length, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from selmatch import boosting
from selmatch.losses import MatchingLoss
from selmatch.parameters import number


class _Backend(NamedTuple):
    """What a booster calls its seed and its number of threads."""

    seed: str
    threads: str | None


BACKENDS: dict[str, _Backend] = {
    "hist_gradient_boosting": _Backend("random_state", None),
    "lightgbm": _Backend("seed", "num_threads"),
    "xgboost": _Backend("seed", "nthread"),
    "catboost": _Backend("random_seed", "thread_count"),
}


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
        """Features (and targets): arrays checked, missing values allowed; frames with categories as they are."""
        if _has_categories(X):
            validate_data(self, X, y, reset=reset, skip_check_array=True)  # type: ignore[arg-type]
            if isinstance(y, str):
                return X
            y = check_array(y, ensure_2d=False, dtype="float64", input_name="y")
            check_consistent_length(X, y)
            return X, y
        options: dict[str, Any] = {"dtype": (np.float64, np.float32), "ensure_all_finite": "allow-nan"}
        options["accept_sparse"] = "csr" if self._takes_sparse() else False
        if isinstance(y, str):
            return _as_boosters_know(validate_data(self, X, reset=reset, **options))  # type: ignore[arg-type]
        X, y = validate_data(self, X, y, reset=reset, y_numeric=True, multi_output=True, **options)  # type: ignore[arg-type]
        return _as_boosters_know(X), y

    # -------------------------------------------------------------------------------------------------------- training

    def _objective(self, loss: MatchingLoss, **options: Any) -> Any:
        if self.backend not in self._backends:
            known = ", ".join(map(repr, self._backends))
            raise ValueError(f"{type(self).__name__}: backend must be one of {known}, got {self.backend!r}.")
        return getattr(boosting, self.backend)(loss, curvature=self.curvature, **options)

    def _train(self, objective: Any, X: Any, y: np.ndarray, **options: Any) -> None:
        """Train, and keep what was trained."""
        who, backend = type(self).__name__, BACKENDS[self.backend]
        params: dict[str, Any] = {"learning_rate": number(who, "learning_rate", self.learning_rate, above=0.0)}
        if self.random_state is not None:
            seed = self.random_state
            whole = isinstance(seed, (int, np.integer))
            params[backend.seed] = int(seed) if whole else int(check_random_state(seed).randint(2**31 - 1))
        if self.n_jobs is not None and backend.threads is not None:
            params[backend.threads] = effective_n_jobs(self.n_jobs)
        rounds = int(number(who, "n_estimators", self.n_estimators, at_least=1.0))
        params.update(self.backend_params or {})
        try:
            self.model_ = objective.fit(
                X, y, rounds=rounds, params=params, early_stopping=self.early_stopping, **options
            )
        except Exception as error:  # CatBoost's own class of errors, which is not imported here
            if self.backend == "catboost" and "All features are either constant or ignored" in str(error):
                raise ValueError(
                    f"{who}: X must have a feature that varies, got none in n_samples = {len(y)} rows. Other backends "
                    "would predict a constant."
                ) from error
            raise
        best = self.model_.best_iteration
        self.n_iter_ = rounds if best is None else best + 1

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


def picked(X: Any, rows: np.ndarray) -> Any:
    """Some rows of a frame, array or sparse matrix, by a mask or by positions."""
    return _safe_indexing(X, np.flatnonzero(rows) if rows.dtype == bool else rows)


def _as_boosters_know(X: Any) -> Any:
    """Sparse arrays as matrices with short indices: LightGBM and CatBoost know no others."""
    if not sparse.issparse(X):
        return X
    if X.nnz <= np.iinfo(np.int32).max:
        return sparse.csr_matrix((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape)
    return sparse.csr_matrix(X)


def _has_categories(X: Any) -> bool:
    """Whether X is a data frame with columns of categories, which boosters understand and arrays do not hold."""
    dtypes = getattr(X, "dtypes", None)
    if dtypes is None or not hasattr(X, "columns"):
        return False
    return any(str(dtype).startswith(("category", "Categorical", "Enum")) for dtype in dtypes)
