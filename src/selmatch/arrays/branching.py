"""Is a function never negative on an interval? By cutting it until ranges say so, or a point says no."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from selmatch.arrays.dual import derivative
from selmatch.arrays.effort import Effort
from selmatch.arrays.interval import Range, bounds, box, jumps, switches

#: boxes narrower than this, relative to where they lie, are left alone: rounding decides there
NARROWEST = 1e-13
#: an unbounded box is halved geometrically up to here
FARTHEST = 2.0**40


@dataclass
class Verdict:
    """What a search found.

    Attributes
    ----------
    negative : float or None
        A point at which the function is certainly negative.
    at_most : float
        What the function is there, at most.
    left : list of pairs
        Intervals on which nothing could be said.
    boxes : int
        How many were looked at.
    jumps : set of float
        Points at which a condition in the formula changes, so that it may jump.
    jump, fall : float or None, float
        One of them at which a curve may fall, and by how much at most.
    """

    negative: float | None = None
    at_most: float = 0.0
    left: list[tuple[float, float]] = field(default_factory=list)
    boxes: int = 0
    jumps: set[float] = field(default_factory=set)
    jump: float | None = None
    fall: float = 0.0

    @property
    def holds(self) -> bool:
        return self.negative is None and self.jump is None and not self.left


def never_negative(function: Callable[[Any], Any], low: float, high: float, effort: Effort) -> Verdict:
    """Search [low, high] for a negative value of a function, with rigour."""
    verdict, waiting = Verdict(), [(low, high)]
    while waiting:
        a, b = waiting.pop()
        if verdict.boxes >= effort.boxes or effort.is_over():
            verdict.left.append((a, b))
            continue
        verdict.boxes += 1
        middle = _middle(a, b)
        here = _range(function(box(middle, middle)))
        if here.high < 0:
            verdict.negative, verdict.at_most = middle, bounds(here)[1]
            return verdict
        score, again = box(a, b), box(a, b)
        if _is_never_negative(function, score, again, middle, here):
            continue
        verdict.jumps.update(t for t in jumps(score) if a < t < b)
        inner = [t for t in switches(score) | switches(again) if a < t < b]
        cut = min(inner, key=lambda t: abs(t - middle)) if inner else middle
        if not inner and _is_hopeless(a, b, cut):
            verdict.left.append((a, b))
            continue
        waiting += [(a, cut), (cut, b)]
    verdict.left = _joined(verdict.left)
    return verdict


def _is_never_negative(function: Any, score: Range, again: Range, middle: float, here: Range) -> bool:
    """From the values on a box, else from its slope (on the same box again) and a value in the middle or at an end."""
    if _range(function(score)).low >= 0:
        return True
    if not (score.low.is_finite() and score.high.is_finite()):
        return False
    slope = _range(derivative(function, again))
    if slope.low >= 0:
        return bool(_range(function(_point(score.low, 1))).low >= 0)
    if slope.high <= 0:
        return bool(_range(function(_point(score.high, -1))).low >= 0)
    return bool((here + slope * (again - middle)).low >= 0)


def _point(end: Any, side: int) -> Range:
    return box(float(end), float(end), side)


def _is_hopeless(a: float, b: float, cut: float) -> bool:
    if math.isinf(a) or math.isinf(b):
        return abs(cut) > FARTHEST
    return b - a <= NARROWEST * max(abs(a), abs(b), 1e-3)


def _range(x: Any) -> Range:
    return x if isinstance(x, Range) else box(float(x), float(x))


def _middle(a: float, b: float) -> float:
    if math.isinf(a) and math.isinf(b):
        return 0.0
    if math.isinf(b):
        return max(2.0 * a, a + 8.0)
    if math.isinf(a):
        return min(2.0 * b, b - 8.0)
    return 0.5 * a + 0.5 * b


def _joined(pieces: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Neighbouring intervals as one."""
    result: list[tuple[float, float]] = []
    for a, b in sorted(pieces):
        if result and a <= result[-1][1]:
            result[-1] = (result[-1][0], max(b, result[-1][1]))
        else:
            result.append((a, b))
    return result


def side_values(function: Callable[[Any], Any], point: float) -> tuple[Range, Range, Range]:
    """The values of a function just below a point, at it, and just above it."""
    below, at, above = (_range(function(box(point, point, side=side))) for side in (-1, 0, 1))
    return below, at, above


def certainly_rises(function: Callable[[Any], Any], point: float) -> bool:
    """Whether a function does not fall at a point where it may jump."""
    below, at, above = side_values(function, point)
    return bool(below.high <= at.low and at.high <= above.low)


def largest_fall(function: Callable[[Any], Any], point: float) -> float:
    """A bound on the fall at a point where a function may jump."""
    below, at, above = side_values(function, point)
    return max(0.0, -bounds(at - below)[0], -bounds(above - at)[0])
