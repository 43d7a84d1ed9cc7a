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


def xgboost(loss: Any, **options: Any) -> XGBoostObjective:
    """A loss as objective of XGBoost; options are those of :class:`Objective`."""
    return _home("xgboost", "xgboost", "XGBoost").XGBoostObjective(loss, **options)


def from_xgboost(booster: Any) -> XGBoostObjective:
    """The objective with which a booster of XGBoost was trained, also after it was saved and loaded.

    It has the start value and the scale of that training: ready to predict and to train on.
    """
    return _home("from_xgboost", "xgboost", "XGBoost").from_xgboost(booster)


def lightgbm(loss: Any, **options: Any) -> LightGBMObjective:
    """A loss as objective of LightGBM; options are those of :class:`Objective`."""
    return _home("lightgbm", "lightgbm", "LightGBM").LightGBMObjective(loss, **options)


def catboost(loss: Any, **options: Any) -> CatBoostObjective:
    """A loss as objective of CatBoost; options are those of :class:`Objective`."""
    return _home("catboost", "catboost", "CatBoost").CatBoostObjective(loss, **options)


def hist_gradient_boosting(loss: Any, **options: Any) -> HistGradientBoostingObjective:
    """A loss for scikit-learn's HistGradientBoostingRegressor; options are those of :class:`Objective`."""
    home = _home("hist_gradient_boosting", "sklearn", "scikit-learn")
    return home.HistGradientBoostingObjective(loss, **options)
