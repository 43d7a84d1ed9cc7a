"""Maps between the target, the scores that a comparison is about, and the labels that a model learns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Map = Callable[[np.ndarray], np.ndarray]


def _same(values: np.ndarray) -> np.ndarray:
    return values


#: each map, and the name of the one that undoes it
_MAPS: dict[str, tuple[Map, str]] = {
    "identity": (_same, "identity"),
    "log": (np.log, "exp"),
    "log1p": (np.log1p, "expm1"),
    "exp": (np.exp, "log"),
    "expm1": (np.expm1, "log1p"),
}


@dataclass(frozen=True)
class Scale:
    """An increasing map of numbers, known with the one that undoes it.

    Examples
    --------
    >>> from selmatch.comparison.scales import Scale
    >>> Scale("log1p").undone.undone
    Scale(name='log1p')
    """

    name: str = "identity"

    def __call__(self, values: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):  # ends of wishes may be infinite
            return _MAPS[self.name][0](values)

    @property
    def undone(self) -> Scale:
        """The map back."""
        return Scale(_MAPS[self.name][1])


#: the scale on which scores stay what they are
UNCHANGED = Scale()


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
