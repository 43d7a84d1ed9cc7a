"""Every figure of the paper, redrawn with selmatch."""

from __future__ import annotations

from selmatch import plots  # noqa: F401  (first: it says what to install if matplotlib is missing)
from selmatch.paper.drawings import classes, models, scalar, transforms

#: in the order of the paper
_ORDER = (
    "matching_loss_demo",
    "selective_bin_loss_regions",
    "selective_scale_sensitivity",
    "multi_class_regions",
    "relative_sensitivity",
    "reweighting",
    "softmax_invalid",
    "underspecification",
    "invalid_transforms",
    "scalar_all_examples",
    "scalar_scale_examples",
    "multi_select_exp",
    "multi_select_negexp",
    "multi_select_sinh",
    "select_invalid",
    "match_stochastic",
)
FIGURES = tuple(
    sorted(
        (*scalar.FIGURES, *classes.FIGURES, *models.FIGURES, *transforms.FIGURES),
        key=lambda figure: _ORDER.index(figure.name),
    )
)
