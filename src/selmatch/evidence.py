"""What a certificate rests on, as plain data that can be checked again.

Formulas are lists of operations. :mod:`selmatch.checker` evaluates them, and needs nothing of the curve's class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from selmatch.arrays.trace import Step, run, steps, trace
from selmatch.curve import Curve
from selmatch.structure import why_non_decreasing

#: a formula and the curve that it was traced from agree at so many scores, but for rounding
_SAMPLES, _AGREEMENT = 65, 1e-6


class Unverified(Exception):
    """A proof that the checker does not accept; says why."""


def formula_of(function: Any, curve: Curve, low: float, high: float) -> tuple[Step, ...]:
    """The operations of a function of one score, which must be those that arrays go through too."""
    try:
        formula = steps(trace(function))
    except Exception as error:  # a user's formula may do anything
        raise Unverified(f"the formula cannot be traced ({type(error).__name__}: {error})") from error
    scores = _samples(curve, low, high)
    with np.errstate(all="ignore"):
        for score in scores:
            _require_same(run(formula, float(score)), function(float(score)), score)
        _require_same(run(formula, scores), function(scores), scores)
    return formula


def _samples(curve: Curve, low: float, high: float) -> np.ndarray:
    typical = curve.window()
    low, high = max(low, typical[0]), min(high, typical[1])
    if not low < high:
        low = high = min(max(curve.domain.point(), low), high)
    scores = low + (high - low) * np.linspace(0.0, 1.0, _SAMPLES)[1:-1]
    return scores[np.isfinite(scores)]


def _require_same(traced: Any, found: Any, scores: Any) -> None:
    a, b = np.asarray(traced, dtype=float), np.asarray(found, dtype=float)
    rounding = _AGREEMENT * (1.0 + np.abs(a) + np.abs(b))
    same = (np.abs(a - b) <= rounding) | (a == b) | np.isnan(a) | np.isnan(b)
    if a.shape != b.shape or not np.all(same):
        raise Unverified("the class computes other values for numbers or arrays than when its formula is traced")


@dataclass(frozen=True)
class Pieces:
    """A formula that never decreases, or is never negative, on the pieces between scores."""

    formula: tuple[Step, ...]
    cuts: tuple[float, ...]
    claim: str = "never decreases"

    def check(self) -> None:
        """Raise :class:`Unverified` unless the checker sees that it is so."""
        from selmatch import checker

        require = {
            "never decreases": checker.require_no_fall,
            "is never negative": checker.require_never_negative,
        }[self.claim]
        operations = [checker.Operation(*step) for step in self.formula]
        try:
            require(operations, self.cuts)
        except checker.Unverified as error:
            raise Unverified(str(error)) from error


@dataclass(frozen=True)
class Structure:
    """A curve of the library that never decreases between two scores, as its parts say in exact arithmetic."""

    curve: Curve
    low: float
    high: float

    def check(self) -> None:
        """Raise :class:`Unverified` unless the checker sees it in the formula, or the parts say it again."""
        try:
            inner = [place for place in self.curve.places if self.low < place < self.high]
            pieces(self.curve, self.curve, (self.low, *inner, self.high))
        except (Unverified, ImportError):  # a search within the formula, or no python-flint
            if not why_non_decreasing(self.curve, self.low, self.high):
                raise Unverified("its parts do not say that the curve never decreases") from None


def pieces(function: Any, curve: Curve, cuts: Sequence[float], claim: str = "never decreases") -> Pieces:
    """Evidence for a claim about a function on the pieces between scores, checked."""
    cuts = tuple(sorted(set(map(float, cuts))))
    made = Pieces(formula_of(function, curve, cuts[0], cuts[-1]), cuts, claim)
    made.check()
    return made
