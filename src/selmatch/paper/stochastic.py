"""The best single prediction for scores that vary, with an exponential link: for the figure and for the claims."""

from __future__ import annotations

import numpy as np

import selmatch as sm

#: k low scores and a large one, which keeps the mean where it is; k = 1 ... MOST
LOW_SCORE, MEAN_SCORE, MOST = 0.05, 0.1, 18


def exponential(alpha: float, beta: float = 0.0) -> sm.MatchingLoss:
    return sm.MatchingLoss(sm.Exp().affine(alpha, beta))


def for_one_large_score(alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """The large score, and the best prediction: k low scores keep the mean where it is."""
    k = np.arange(1, MOST + 1)
    large = MEAN_SCORE + k * (MEAN_SCORE - LOW_SCORE)
    loss = exponential(alpha)
    best = [loss.minimiser([score, LOW_SCORE], weights=[1.0, float(n)]) for score, n in zip(large, k, strict=True)]
    return large, np.array(best)


def for_two_scores(alpha: float, mean: float, deviation: float, beta: float = 0.0) -> float:
    """The best prediction for two scores, equally far from their mean."""
    return exponential(alpha, beta).minimiser([mean - deviation, mean + deviation])
