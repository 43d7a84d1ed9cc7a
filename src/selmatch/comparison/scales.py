"""The logarithm that fits a target, and the labels that a model learns in place of scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from selmatch.scales import UNCHANGED, Scale


def log_scale(target: np.ndarray) -> Scale | None:
    """The logarithm that fits a target, if one does: log1p where there are zeros."""
    lowest = float(target.min())
    return Scale("log") if lowest > 0.0 else Scale("log1p") if lowest == 0.0 else None


@dataclass(frozen=True)
class Labels:
    """What a model learns instead of scores: mapped, then centred and scaled, so that every loss has numbers near 1.

    Predictions are mapped back from inside the range that was seen, where the map is not the identity: beyond it an
    exponential explodes and a logarithm is not defined.

    Attributes
    ----------
    scale : Scale
        From scores to what is learnt.
    centre, spread : float
        Of the training rows: median, and median absolute deviation times 1.4826, or the standard deviation where that
        is 0.
    low, high : float
        The range of the training rows.
    """

    scale: Scale
    centre: float
    spread: float
    low: float
    high: float

    @classmethod
    def of(cls, scale: Scale, scores: np.ndarray) -> Labels:
        """The labels that fit some training scores."""
        mapped = scale(scores)
        centre = float(np.median(mapped))
        spread = 1.4826 * float(np.median(np.abs(mapped - centre))) or float(np.std(mapped)) or 1.0
        return cls(scale, centre, spread, float(mapped.min()), float(mapped.max()))

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        return (self.scale(scores) - self.centre) / self.spread

    def scores(self, predicted: np.ndarray) -> np.ndarray:
        """Scores from predicted labels."""
        mapped = np.asarray(predicted, dtype=np.float64) * self.spread + self.centre
        if self.scale == UNCHANGED:
            return mapped
        return self.scale.undone(np.clip(mapped, self.low, self.high))
