"""What a certificate rests on, as plain data that can be checked again.

Formulas are lists of operations. :mod:`selmatch.checker` evaluates them, and needs nothing of the curve's class.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from selmatch.algebra import is_straight
from selmatch.arrays.trace import Step, run, steps, trace_exactly
from selmatch.curve import Curve, Interval
from selmatch.formula import Formula
from selmatch.structure import is_known, is_ours, parts_of, why_non_decreasing

#: a formula and the curve that it was traced from agree at so many scores, but for rounding; each eighth as a number
_SAMPLES, _SINGLE, _AGREEMENT = 65, 8, 1e-12
#: how far the checker looks beyond critical scores, in typical widths of a scaling
_BESIDE = 16.0


class Unverified(Exception):
    """A proof that the checker does not accept; says why."""


#: how many operations on pieces the checker may still do
_left: ContextVar[float] = ContextVar("_left", default=math.inf)


@contextmanager
def at_most(work: float) -> Iterator[None]:
    """A block in which the checker works for a bounded time: on proofs of strangers."""
    token = _left.set(work)
    try:
        yield
    finally:
        _left.reset(token)


def formula_of(function: Any, curve: Curve, low: float, high: float) -> tuple[Step, ...]:
    """The operations of a function of one score; what users write must compute the same on numbers and arrays."""
    try:
        formula = steps(trace_exactly(function))
    except Exception as error:  # a user's formula may do anything
        raise Unverified(f"the formula cannot be traced ({type(error).__name__}: {error})") from error
    if is_known(curve):
        return formula
    if any(step.name == "integral" for step in formula):  # it has no values; what it is made of has
        for part in parts_of(curve):
            formula_of(part, part, part.domain.low, part.domain.high)
        return formula
    scores = _samples(curve, low, high)
    with np.errstate(all="ignore"):
        traced = run(formula, scores)
        _require_same(traced, function(scores))
        _require_same(traced[::_SINGLE], [function(float(score)) for score in scores[::_SINGLE]])
    return formula


def _samples(curve: Curve, low: float, high: float) -> np.ndarray:
    ends = [(low, high), (max(low, curve.window()[0]), min(high, curve.window()[1]))]
    finite = [(a, b) for a, b in ends if math.isfinite(b - a) and a < b]
    inside = np.linspace(0.0, 1.0, _SAMPLES)[1:-1]
    return np.concatenate([a + (b - a) * inside for a, b in finite] or [np.array([curve.domain.point()])])


def _require_same(a: Any, found: Any) -> None:
    b = np.asarray(found, dtype=float)
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

        claim = checker.CLAIMS[self.claim](*self._parts())
        try:
            checker.require(claim, self.cuts, _left.get())
        except checker.Unverified as error:
            raise Unverified(str(error)) from error
        finally:
            _left.set(_left.get() - claim.shared.spent)

    def _parts(self) -> tuple[Any, ...]:
        return (self.formula,)


@dataclass(frozen=True)
class SigmoidPieces(Pieces):
    """The formula of a scaling q, and of Q / gamma: what of a composite Sigmoid never decreases."""

    logit: tuple[Step, ...] = ()
    gamma: float = 1.0

    def _parts(self) -> tuple[Any, ...]:
        return self.formula, self.logit, self.gamma


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
class Uncritical:
    """A composite Sigmoid of a built-in scaling that never decreases beyond the scores that are critical.

    The scaling says which these are; the checker looks at what is next to them.
    """

    curve: Any
    low: float
    high: float

    def check(self) -> None:
        """Raise :class:`Unverified` if the scaling does not say it again, or the checker does not see it."""
        q = self.curve.scaling
        critical = q.critical(self.curve.gamma, self.curve.offset) if is_known(q) else None
        if critical is None:
            raise Unverified("the scaling names no critical scores")
        reach = _BESIDE * q.scale
        below = max(self.low, critical.low - reach), min(self.high, critical.low)
        above = max(self.low, critical.high), min(self.high, critical.high + reach)
        for low, high in (below, above):
            if low < high:
                sigmoid_pieces(self.curve, (low, high))


@dataclass(frozen=True)
class Reflection:
    """A curve that half a turn about a score takes onto itself, as its parts say and its values do not deny."""

    curve: Curve
    about: float

    def check(self) -> None:
        """Raise :class:`Unverified` unless the parts say it again."""
        ours = is_known(self.curve) or (isinstance(self.curve, Formula) and is_ours(self.curve))
        if not (ours and (is_straight(self.curve) or self.curve.centre == self.about)):
            raise Unverified("its parts do not say that the curve is odd")
        try:
            from selmatch import checker
        except ImportError:
            return
        ends = [end for end in (self.curve.domain.low, self.curve.domain.high) if math.isfinite(end)]
        reach = min([math.fabs(end - self.about) for end in ends], default=self.curve.scale * 2.0**4)
        moves = [move for k in range(1, 9) if self._is_exact(move := math.ldexp(1.0, math.frexp(reach)[1] - k))]
        formula = formula_of(self.curve, self.curve, self.about - reach, self.about + reach)
        try:
            checker.refute_half_turn(formula, self.about, [move for move in moves if move < reach])
        except checker.Unverified as error:
            raise Unverified(str(error)) from error

    def _is_exact(self, move: float) -> bool:
        """Whether the scores beside the middle are floats: else they are no pair."""
        middle, step = Fraction(self.about), Fraction(move)
        return Fraction(self.about + move) == middle + step and Fraction(self.about - move) == middle - step


def pieces(function: Any, curve: Curve, cuts: Iterable[float], claim: str = "never decreases") -> Pieces:
    """Evidence for a claim about a function on the pieces between scores, checked."""
    cuts = _in_order(cuts)
    return _checked(Pieces(formula_of(function, curve, cuts[0], cuts[-1]), cuts, claim))


def sigmoid_pieces(curve: Any, cuts: Iterable[float]) -> SigmoidPieces:
    """Evidence that a composite Sigmoid never decreases on the pieces between scores, checked."""
    cuts, q = _in_order(cuts), curve.scaling
    formula, logit = formula_of(q, q, cuts[0], cuts[-1]), steps(trace_exactly(curve.logit))
    return _checked(SigmoidPieces(formula, cuts, "has a sigmoid link that never decreases", logit, float(curve.gamma)))


def _in_order(cuts: Iterable[float]) -> tuple[float, ...]:
    return tuple(sorted(set(map(float, cuts))))


def _checked(made: Any) -> Any:
    made.check()
    return made
