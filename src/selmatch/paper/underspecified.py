"""The data and the models of the underspecification appendix, for its figure and for its claims."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

import selmatch as sm


@dataclass(frozen=True)
class Examples:
    """Labels that depend on one feature only: low labels are the second feature, high labels the first.

    Each label stands there twice, with two values of the other feature, which says nothing about it.
    """

    low: range
    high: range
    other: tuple[float, float]

    @cached_property
    def rows(self) -> np.ndarray:
        """Features x1 and x2, and the label."""
        low = [(other, label, label) for label in self.low for other in self.other]
        high = [(label, other, label) for label in self.high for other in self.other]
        return np.array(low + high, dtype=float)

    @property
    def features(self) -> np.ndarray:
        return self.rows[:, :2]

    @property
    def labels(self) -> np.ndarray:
        return self.rows[:, 2]


#: of the first three rows of the figure
MOSTLY_LOW = Examples(low=range(-10, 0), high=range(6, 11), other=(1.0, 3.0))
#: the mirror image; the paper does not say which data its last row has
MOSTLY_HIGH = Examples(low=range(-10, -5), high=range(1, 11), other=(-1.0, -3.0))
#: the other reading of that row: more high labels, and the other feature as it was
MOSTLY_HIGH_OTHER_KEPT = Examples(low=range(-10, -5), high=range(1, 11), other=(1.0, 3.0))


@dataclass(frozen=True)
class Fit:
    """A linear model without intercept, trained to the optimum of a loss with a Sigmoid link."""

    examples: Examples
    alpha: float
    beta: float = 0.0

    @property
    def loss(self) -> sm.MatchingLoss:
        return sm.MatchingLoss(sm.Sigmoid().affine(self.alpha, self.beta))

    @cached_property
    def weights(self) -> np.ndarray:
        """Of the two features."""
        from selmatch.sklearn import SelectiveLinearModel

        model = SelectiveLinearModel(self.loss, alpha=0.0, fit_intercept=False)
        return model.fit(self.examples.features, self.examples.labels).coef_

    @property
    def predictions(self) -> np.ndarray:
        return self.examples.features @ self.weights
