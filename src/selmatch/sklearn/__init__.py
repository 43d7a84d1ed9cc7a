"""Estimators, scores and calibration for scikit-learn users.

Everything here trains or judges with matching losses, which elicit h^-1(E[h(Y) | x]), not the mean: predictions are
meant to be biased as means are measured, and unbiased in link space (:func:`link_bias`).
"""

try:
    import sklearn as _sklearn  # noqa: F401
except ImportError as error:
    raise ImportError(
        'selmatch.sklearn needs scikit-learn. Install it with: pip install "selmatch[boosting]".'
    ) from error

from selmatch.sklearn.calibration import (
    link_bias,
    plot_link_bias,
    plot_link_murphy,
    plot_link_reliability,
)
from selmatch.sklearn.linear import SelectiveLinearModel
from selmatch.sklearn.ranker import SelectiveRanker
from selmatch.sklearn.regressor import SelectiveRegressor
from selmatch.sklearn.scoring import d2_matching_score, matching_loss_score, matching_loss_scorer

__all__ = [
    "SelectiveLinearModel",
    "SelectiveRanker",
    "SelectiveRegressor",
    "d2_matching_score",
    "link_bias",
    "matching_loss_score",
    "matching_loss_scorer",
    "plot_link_bias",
    "plot_link_murphy",
    "plot_link_reliability",
]
