"""What scores are, of the target: the target itself, or its logarithm."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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
_WORDS = {"identity": "the target itself", "log": "log(target)", "log1p": "log(1 + target)"}
#: scales that a loss can have
LOGARITHMS = ("log", "log1p")
_LOWEST = {"log": 0, "log1p": -1}
#: what to do where nobody takes the logarithms
TAKE_LOGARITHMS = "Give logarithms, and loss.with_scale(None)."


@dataclass(frozen=True)
class Scale:
    """An increasing map of numbers, known with the one that undoes it.

    Examples
    --------
    >>> from selmatch.scales import Scale
    >>> Scale("log1p").undone.undone
    Scale(name='log1p')
    """

    name: str = "identity"

    def __call__(self, values: Any) -> Any:
        with np.errstate(all="ignore"):  # ends of wishes may be infinite
            return _MAPS[self.name][0](values)

    @property
    def undone(self) -> Scale:
        """The map back."""
        return Scale(_MAPS[self.name][1])

    @property
    def words(self) -> str:
        """What a score is."""
        return _WORDS[self.name]


#: the scale on which scores stay what they are
UNCHANGED = Scale()


def scale_of(loss: Any) -> Scale:
    """From targets to the scores that a loss takes."""
    name = getattr(loss, "scale", None)
    return Scale(name) if isinstance(name, str) else UNCHANGED  # the scale of a curve is a number, and another thing


def scores_of(who: str, name: str, targets: Any, loss: Any) -> Any:
    """Targets as the scores that a loss takes; those that have no logarithm are an error."""
    scale = scale_of(loss)
    if scale == UNCHANGED:
        return targets
    targets = np.asarray(targets, dtype=float)
    wrong = targets <= _LOWEST[scale.name]
    if wrong.any():
        raise ValueError(
            f"{who}: {name} must be > {_LOWEST[scale.name]} for a loss of {scale.words}, got {targets[wrong][0]:g}. "
            "Clip or drop such values; if they are logarithms already, take loss.with_scale(None)."
        )
    _warn_of_logarithms(who, name, targets, loss, scale)
    return scale(targets)


#: so many values tell targets from logarithms
_MANY = 20


def _warn_of_logarithms(who: str, name: str, targets: np.ndarray, loss: Any, scale: Scale) -> None:
    """Targets that are all below the highest score of the loss, where half of its own targets were above."""
    wish = getattr(loss, "wish", None)
    if wish is not None and targets.size >= _MANY and targets.max() <= wish.highest < scale.undone(wish.median):
        warnings.warn(
            f"{who}: {name} looks like logarithms already; a loss of {scale.words} would take them again. "
            "Give targets, or take loss.with_scale(None).",
            stacklevel=3,
        )


def require_scores(who: str, loss: Any, remedy: str) -> None:
    """Refuse a loss of logarithms where nobody would take them."""
    scale = scale_of(loss)
    if scale != UNCHANGED:
        raise ValueError(f"{who}: loss must take scores as they are, got a loss of {scale.words}. {remedy}")
