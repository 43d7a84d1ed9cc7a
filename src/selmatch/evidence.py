"""What a certificate rests on, as plain data that can be checked again.

Formulas are lists of operations. :mod:`selmatch.checker` evaluates them, and needs nothing of the curve's class.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from selmatch.algebra import is_straight
from selmatch.arrays.trace import Step, run, steps, trace_exactly
from selmatch.curve import Curve, Interval
from selmatch.structure import is_known, parts_of, why_non_decreasing

#: a formula and the curve that it was traced from agree at so many scores, but for rounding
_SAMPLES, _AGREEMENT = 65, 1e-12


class Unverified(Exception):
    """A proof that the checker does not accept; says why."""


def formula_of(function: Any, curve: Curve, low: float, high: float) -> tuple[Step, ...]:
    """The operations of a function of one score; what users write must compute the same on numbers and arrays."""
    try:
        formula = steps(trace_exactly(function))
    except Exception as error:  # a user's formula may do anything
        raise Unverified(f"the formula cannot be traced ({type(error).__name__}: {error})") from error
    if is_known(curve):
        return formula
    scores = _samples(curve, low, high)
    with np.errstate(all="ignore"):
        for score in scores:
            _require_same(run(formula, float(score)), function(float(score)), score)
        _require_same(run(formula, scores), function(scores), scores)
    return formula


def _samples(curve: Curve, low: float, high: float) -> np.ndarray:
    ends = [(low, high), (max(low, curve.window()[0]), min(high, curve.window()[1]))]
    finite = [(a, b) for a, b in ends if math.isfinite(b - a) and a < b]
    inside = np.linspace(0.0, 1.0, _SAMPLES)[1:-1]
    return np.concatenate([a + (b - a) * inside for a, b in finite] or [np.array([curve.domain.point()])])


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
class _Known:
    """Something about a curve between two scores that the checker sees in the formula, or that its parts say."""

    curve: Curve
    low: float
    high: float

    def check(self) -> None:
        """Raise :class:`Unverified` unless it is so."""
        try:
            self._see()
        except (Unverified, ImportError) as error:  # a search within the formula, or no python-flint
            if not self.is_structural():
                raise Unverified(f"neither the checker nor the parts of the curve say so ({error})") from error

    def is_structural(self) -> bool:
        """Whether the parts say so, in exact arithmetic."""
        raise NotImplementedError

    def _see(self) -> None:
        raise NotImplementedError

    def _cuts(self, *more: float) -> tuple[float, ...]:
        return self.low, *(place for place in (*self.curve.places, *more) if self.low < place < self.high), self.high


class Structure(_Known):
    """A curve of the library never decreases."""

    def is_structural(self) -> bool:
        return why_non_decreasing(self.curve, self.low, self.high) is not None

    def _see(self) -> None:
        pieces(self.curve, self.curve, self._cuts())


class Stillness(_Known):
    """A curve is constant."""

    def is_structural(self) -> bool:
        whole = Interval(self.low, self.high)
        return is_known(self.curve) and any(part.covers(whole) for part in self.curve.flat_regions())

    def _see(self) -> None:  # neither it nor its negative decreases
        pieces(self.curve, self.curve, self._cuts())
        pieces(lambda x: -self.curve(x), self.curve, self._cuts())


@dataclass(frozen=True)
class Sign(_Known):
    """A curve has a sign, or is 0."""

    sign: float
    cuts: tuple[float, ...] = ()

    def is_structural(self) -> bool:
        q = self.curve
        simple = is_known(q) and (why_non_decreasing(q, self.low, self.high) or not parts_of(q))
        return bool(simple) and min(self.sign * q.range.low, self.sign * q.range.high) >= 0.0

    def _see(self) -> None:
        pieces(lambda x: self.sign * self.curve(x), self.curve, self._cuts(*self.cuts), "is never negative")


@dataclass(frozen=True)
class Reflection:
    """A curve that half a turn about a score takes onto itself, as its parts say."""

    curve: Curve
    about: float

    def check(self) -> None:
        """Raise :class:`Unverified` unless the parts say it again."""
        if not (is_straight(self.curve) or self.curve.centre == self.about):
            raise Unverified("its parts do not say that the curve is odd")


def pieces(function: Any, curve: Curve, cuts: Sequence[float], claim: str = "never decreases") -> Pieces:
    """Evidence for a claim about a function on the pieces between scores, checked."""
    cuts = tuple(sorted(set(map(float, cuts))))
    made = Pieces(formula_of(function, curve, cuts[0], cuts[-1]), cuts, claim)
    made.check()
    return made
