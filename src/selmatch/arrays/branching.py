"""Is a function never negative on an interval? By cutting it until ranges say so, or a point says no."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from selmatch.arrays.dual import derivative
from selmatch.arrays.effort import Effort
from selmatch.arrays.interval import Range, Watch, around, bounds, box, watching
from selmatch.functions import is_number

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
    cuts : set of float
        Ends of the boxes that were enough.
    evidence : tuple
        What the proof rests on, to be checked again.
    touched : set of float
        Ends of boxes at which a condition in the formula changes: the curve may jump there.
    jump, fall : float or None, float
        One of them at which the curve may fall, and by how much at most.
    unverified : str
        Why the checker does not accept the proof that was found.
    stored : bool
        Whether the cuts come from a file: nothing holds before the checker has looked at them.
    """

    negative: float | None = None
    at_most: float = 0.0
    left: list[tuple[float, float]] = field(default_factory=list)
    boxes: int = 0
    cuts: set[float] = field(default_factory=set)
    evidence: tuple[Any, ...] = ()
    touched: set[float] = field(default_factory=set)
    jump: float | None = None
    fall: float = 0.0
    unverified: str = ""
    stored: bool = False

    @property
    def holds(self) -> bool:
        return self.negative is None and self.jump is None and not self.left and not self.stored


def never_negative(
    function: Callable[[Any], Any], low: float, high: float, effort: Effort, curve: Callable[[Any], Any] | None = None
) -> Verdict:
    """Search [low, high] for a negative value of a function, with rigour.

    If the function is the slope of a curve of which nothing is known, give the curve: a slope says something only where
    the curve is continuous.
    """
    if effort.stored is not None:
        cuts = {low, high, *(cut for cut in effort.next_stored() if low < cut < high)}
        return Verdict(boxes=len(cuts) - 1, cuts=cuts, stored=True)
    verdict, waiting = Verdict(), [(low, high)]
    while waiting:
        a, b = waiting.pop()
        if verdict.boxes >= effort.boxes or effort.is_over():
            verdict.left.append((a, b))
            continue
        verdict.boxes += 1
        middle = _middle(a, b)
        if curve is not None and _watched(curve, middle, middle).singular:  # no value, or an infinite one
            verdict.left.append((a, b))
            continue
        here = _range(function(box(middle, middle)))
        if here.high < 0:  # a slope at a single score says nothing
            with watching() as beside:
                near = _range(function(around(middle)))
            if near.high < 0 and not beside.undecided:
                verdict.negative, verdict.at_most = middle, bounds(near)[1]
                return verdict
        values = Watch() if curve is None else _watched(curve, a, b)
        with watching() as slopes:
            proved = _is_never_negative(function, a, b, middle, here)
        if proved and not values.undecided and not values.singular:
            verdict.touched |= values.touched
            verdict.cuts |= {a, b}
            continue
        inner = [t for t in values.switches | slopes.switches if a < t < b]
        cut = min(inner, key=lambda t: abs(t - middle)) if inner else middle
        if not inner and _is_hopeless(a, b, cut, high - low):
            verdict.left.append((a, b))
            continue
        waiting += [(a, cut), (cut, b)]
    verdict.left = _joined(verdict.left)
    return verdict


def _watched(curve: Callable[[Any], Any], a: float, b: float) -> Watch:
    with watching() as watch:
        _range(curve(box(a, b)))
    return watch


def _is_never_negative(function: Any, a: float, b: float, middle: float, here: Range) -> bool:
    """From the values on a box, else from the slope on it and a value in the middle or at an end."""
    score = box(a, b)
    if _range(function(score)).low >= 0:
        return True
    if math.isinf(a) or math.isinf(b):
        return False
    slope = _range(derivative(function, score))
    if slope.low >= 0:
        return bool(_range(function(box(a, a, side=1))).low >= 0)
    if slope.high <= 0:
        return bool(_range(function(box(b, b, side=-1))).low >= 0)
    return bool((here + slope * (score - middle)).low >= 0)


def _is_hopeless(a: float, b: float, cut: float, width: float) -> bool:
    if math.isinf(a) or math.isinf(b):
        return abs(cut) > FARTHEST
    return b - a <= NARROWEST * max(abs(a), abs(b), 1e-6 * min(width, 1.0)) or not a < cut < b


def _range(x: Any) -> Range:
    if isinstance(x, Range):
        return x
    if not is_number(x) or not math.isfinite(x):
        raise TypeError(f"a formula must give a number or an array, got {x!r}.")
    return box(float(x), float(x))


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


def falls_at(curve: Callable[[Any], Any], point: float, low: float, high: float) -> float | None:
    """By how much a curve may fall at a point of [low, high] where it may jump; None if certainly not at all."""
    below, at, above = (_range(curve(box(point, point, side=side))) for side in (-1, 0, 1))
    steps = ([(below, at)] if point > low else []) + ([(at, above)] if point < high else [])
    if all(bool(before.high <= after.low) for before, after in steps):
        return None
    return max(0.0, *(-bounds(after - before)[0] for before, after in steps))
