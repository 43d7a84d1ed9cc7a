"""Linear models on one split: standardised numbers, categories one by one, and a ridge penalty for every contender."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.optimize import minimize
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from selmatch.analysis import sensitivity
from selmatch.comparison.contenders import Recipe
from selmatch.comparison.fitting import Part, outcome
from selmatch.comparison.journal import Outcome
from selmatch.sklearn import SelectiveLinearModel

#: categories that get a column of their own; the rarer ones share one
MOST_CATEGORIES = 32
#: how far the kink of the quantile loss is rounded, in units of the spread
_ROUNDED = 0.02


def features(numbers: list[Any], categories: list[Any]) -> ColumnTransformer:
    """Numbers with their median where they are missing, and a column that says so; categories one by one."""
    filled = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
    each = OneHotEncoder(handle_unknown="ignore", max_categories=MOST_CATEGORIES, sparse_output=False)
    return ColumnTransformer(
        [("numbers", make_pipeline(filled, StandardScaler()), numbers), ("categories", each, categories)]
    )


def penalty(loss: Any, scores: np.ndarray, alpha: float) -> float:
    """The penalty of a selective model that weighs as much as ``alpha`` does for squared error."""
    mean = float(np.mean(sensitivity(loss, scores)))
    return alpha * mean if np.isfinite(mean) and mean > 0.0 else alpha


class Trainer:
    """Linear models on one split.

    Parameters
    ----------
    part : Part
        The split.
    """

    def __init__(self, part: Part) -> None:
        self.part = part

    @functools.cached_property
    def _matrices(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rows = self.part.rows
        numbers = [i for i in range(rows.matrix.shape[1]) if i not in rows.categorical]
        made = features(numbers, list(rows.categorical))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a column without a cell in training has no median
            made.fit(self.part.matrix("train"))
            train, valid, test = (np.asarray(made.transform(self.part.matrix(p))) for p in ("train", "valid", "test"))
        return train, valid, test

    def fit(self, recipe: Recipe, setting: Mapping[str, Any]) -> Outcome:
        """Train with a setting, and predict."""
        part, (train, valid, test) = self.part, self._matrices
        weights, scores = part.training_weights(setting), part.scores("train")
        if recipe.objective == "selective":
            model = SelectiveLinearModel(part.loss, alpha=penalty(part.loss, scores, setting["alpha"]))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # the validation loss judges what came out
                model.fit(train, scores, sample_weight=weights)
            return outcome(part, model.predict(valid), model.predict(test), 0)
        labels = part.labels(recipe)
        y = labels(scores)
        if recipe.objective == "squared":
            ridge = Ridge(alpha=len(y) * setting["alpha"]).fit(train, y, sample_weight=weights)
            coefficients, constant = ridge.coef_, ridge.intercept_
        else:
            coefficients, constant = _robust(train, y, weights, setting)
        valid, test = (labels.scores(matrix @ coefficients + constant) for matrix in (valid, test))
        return outcome(part, valid, test, 0)


def _robust(
    X: np.ndarray, y: np.ndarray, weights: np.ndarray | None, setting: Mapping[str, Any]
) -> tuple[np.ndarray, float]:
    """Coefficients and intercept of the Huber or the (slightly rounded) quantile loss with a ridge penalty."""
    share = (np.ones(len(y)) if weights is None else weights) / len(y)
    level = setting.get("level", 0.5)
    delta = setting.get("delta", _ROUNDED)
    unit = 1.0 if "delta" in setting else 1.0 / delta  # a quantile loss grows by 1 for each unit of error
    alpha = setting["alpha"]

    def value_and_slope(theta: np.ndarray) -> tuple[float, np.ndarray]:
        residual = y - X @ theta[:-1] - theta[-1]
        pull = 2.0 * unit * share * np.where(residual > 0.0, level, 1.0 - level)
        size = np.minimum(np.abs(residual), delta)
        value = pull @ (size * (np.abs(residual) - 0.5 * size)) + 0.5 * alpha * theta[:-1] @ theta[:-1]
        slopes = pull * np.clip(residual, -delta, delta)
        return float(value), np.concatenate([alpha * theta[:-1] - slopes @ X, [-slopes.sum()]])

    start = np.append(np.zeros(X.shape[1]), np.median(y))
    found = minimize(value_and_slope, start, jac=True, method="L-BFGS-B", options={"maxiter": 500})
    return found.x[:-1], float(found.x[-1])
