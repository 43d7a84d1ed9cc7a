"""What scores are, of the target, and how to read their differences."""

from __future__ import annotations

import numpy as np

from selmatch import scales
from selmatch.comparison.result import Comparison
from selmatch.comparison.tabulate import shown
from selmatch.scales import UNCHANGED, Scale

#: said wherever errors or biases of scores on a logarithmic scale are read
LOG_UNITS = "log units: 0.1 is about 10 % of the target, 0.7 is a factor of 2"


def scale_of(comparison: Comparison) -> Scale:
    """From the target to scores."""
    return scales.scale_of(comparison.loss)


def score(comparison: Comparison) -> str:
    """What a score is, in words."""
    return {
        "identity": "the target itself",
        "log": "log(target), the natural logarithm of the target",
        "log1p": "log(1 + target), the natural logarithm of one more than the target, which has zeros",
    }[scale_of(comparison).name]


def of_target(comparison: Comparison, value: float) -> str:
    """A score for people, with the target that it stands for where that is another number."""
    scale = scale_of(comparison)
    if scale == UNCHANGED:
        return shown(value)
    return f"{shown(value)} (the target {shown(float(scale.undone(np.array(value))))})"
