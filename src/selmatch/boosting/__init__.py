"""Selective losses as objectives of XGBoost, LightGBM, CatBoost and scikit-learn's histogram boosting.

Each function takes a loss and gives an object that its library accepts. The object knows where to start, honours
weights, scales the loss so that the mean curvature at the start is 1, and reports the loss itself as metric.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from selmatch.boosting.native import native_labels, native_params, native_scores
from selmatch.boosting.objective import METRIC, Objective
from selmatch.boosting.rows import Start

if TYPE_CHECKING:
    from selmatch.boosting.for_catboost import CatBoostObjective
    from selmatch.boosting.for_lightgbm import LightGBMObjective
    from selmatch.boosting.for_scikit_learn import HistGradientBoostingObjective
    from selmatch.boosting.for_xgboost import XGBoostObjective

__all__ = [
    "METRIC",
    "Objective",
    "Start",
    "catboost",
    "from_xgboost",
    "hist_gradient_boosting",
    "lightgbm",
    "native_labels",
    "native_params",
    "native_scores",
    "xgboost",
]


def _home(module: str, package: str, title: str) -> Any:
    """The module that adapts a library, if that is installed."""
    try:
        importlib.import_module(package)
    except ImportError as error:
        raise ImportError(
            f'selmatch.boosting.{module} needs {title}. Install it with: pip install "selmatch[boosting]".'
        ) from error
    return importlib.import_module(f"selmatch.boosting.for_{'scikit_learn' if package == 'sklearn' else package}")


def xgboost(
    loss: Any, *, curvature: str = "secant", route: str | None = None, ranking: str | None = None
) -> XGBoostObjective:
    """A loss as objective of XGBoost.

    Parameters
    ----------
    loss, curvature, route, ranking
        As for :class:`Objective`.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 40).reshape(-1, 1)
    >>> model = sm.boosting.xgboost(Sinh()).fit(X, 2.0 * X[:, 0], rounds=50, params={"max_depth": 2})
    >>> bool(np.abs(model.predict(X) - 2.0 * X[:, 0]).mean() < 0.1)
    True
    """
    home = _home("xgboost", "xgboost", "XGBoost")
    return home.XGBoostObjective(loss, curvature=curvature, route=route, ranking=ranking)


def from_xgboost(booster: Any) -> XGBoostObjective:
    """The objective with which a booster of XGBoost was trained, also after it was saved and loaded.

    It has the start value and the scale of that training: ready to predict and to train on.

    Parameters
    ----------
    booster : Booster or estimator
        Trained by ``fit``, or saved by the objective.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 40).reshape(-1, 1)
    >>> model = sm.boosting.xgboost(Sinh()).fit(X, 2.0 * X[:, 0], rounds=5)
    >>> sm.boosting.from_xgboost(model.booster)
    selmatch.boosting.xgboost(MatchingLoss(Sinh()), curvature='secant', route='python')
    """
    return _home("from_xgboost", "xgboost", "XGBoost").from_xgboost(booster)


def lightgbm(
    loss: Any, *, curvature: str = "secant", route: str | None = None, ranking: str | None = None
) -> LightGBMObjective:
    """A loss as objective of LightGBM.

    Parameters
    ----------
    loss, curvature, route, ranking
        As for :class:`Objective`.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 200).reshape(-1, 1)
    >>> model = sm.boosting.lightgbm(Sinh()).fit(X, 2.0 * X[:, 0], rounds=50)
    >>> bool(np.abs(model.predict(X) - 2.0 * X[:, 0]).mean() < 0.1)
    True
    """
    home = _home("lightgbm", "lightgbm", "LightGBM")
    return home.LightGBMObjective(loss, curvature=curvature, route=route, ranking=ranking)


def catboost(
    loss: Any, *, curvature: str = "secant", route: str | None = None, ranking: str | None = None
) -> CatBoostObjective:
    """A loss as objective of CatBoost.

    Parameters
    ----------
    loss, curvature, route
        As for :class:`Objective`.
    ranking : None
        CatBoost hands no lists over to an objective.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 200).reshape(-1, 1)
    >>> model = sm.boosting.catboost(Sinh()).fit(X, 2.0 * X[:, 0], rounds=50, params={"learning_rate": 0.3})
    >>> bool(np.abs(model.predict(X) - 2.0 * X[:, 0]).mean() < 0.1)
    True
    """
    home = _home("catboost", "catboost", "CatBoost")
    return home.CatBoostObjective(loss, curvature=curvature, route=route, ranking=ranking)


def hist_gradient_boosting(
    loss: Any, *, curvature: str = "secant", route: str | None = None, ranking: str | None = None
) -> HistGradientBoostingObjective:
    """A loss for scikit-learn's HistGradientBoostingRegressor.

    Parameters
    ----------
    loss, curvature
        As for :class:`Objective`.
    route : {None, "python"}
        Scikit-learn has no native route.
    ranking : None
        Scikit-learn's boosters know no lists.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 200).reshape(-1, 1)
    >>> model = sm.boosting.hist_gradient_boosting(Sinh()).fit(X, 2.0 * X[:, 0], rounds=50)
    >>> bool(np.abs(model.predict(X) - 2.0 * X[:, 0]).mean() < 0.1)
    True
    """
    home = _home("hist_gradient_boosting", "sklearn", "scikit-learn")
    return home.HistGradientBoostingObjective(loss, curvature=curvature, route=route, ranking=ranking)
