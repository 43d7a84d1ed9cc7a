"""What is certain of a curve at single scores: witnesses stand on it. Needs python-flint.

Working precision rises until the digits are enough; a proof on boxes never needs that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from flint import arb, ctx

from selmatch.arrays.interval import INFINITY, Range, around, bounds, box, one_precision, watching
from selmatch.composite import CompositeSigmoid
from selmatch.curve import Curve, Interval
from selmatch.proving import bracket, is_integrated, slope
from selmatch.structure import is_library

#: bits of working precision, until one shows what is asked; the last is enough for 1e300 - 0.1
_MORE_BITS = (212, 1100)


def _sharply(function: Callable[[], Range], enough: Callable[[Range], Any], *, one_branch: bool = False) -> Range:
    """A range, computed with more and more digits until they are enough; anything if the function has no value.

    With ``one_branch`` it is anything, too, where a condition of the function changes.
    """
    found = _valued(function, one_branch)
    for bits in _MORE_BITS:
        if enough(found):
            break
        with one_precision, ctx.workprec(bits):
            found = _valued(function, one_branch)
    return found


def _valued(function: Callable[[], Range], one_branch: bool) -> Range:
    with watching() as watch:
        found = function()
    unknown = watch.singular or (one_branch and watch.undecided)
    return Range(-INFINITY, INFINITY) if unknown else found


def _is_narrow(x: Range) -> bool:
    return bool(x.high - x.low <= arb(2) ** -60 * abs(x.low))


def certainly_falls(curve: Any, a: float, b: float) -> bool:
    """Whether a function is certainly smaller at b than at a, and has values at both."""
    rise = _sharply(lambda: curve(box(b, b)) - curve(box(a, a)), lambda rise: rise.low > 0 or rise.high < 0)
    return bool(rise.high < 0)


def falls_beside(curve: Any, a: float, b: float, domain: Interval) -> bool:
    """Whether a function is certainly larger next to a than next to b: no integral takes notice of a single score."""
    before = box(math.nextafter(a, -math.inf), a) if a > domain.low else box(a, math.nextafter(a, math.inf))
    beyond = box(b, math.nextafter(b, math.inf)) if b < domain.high else box(math.nextafter(b, -math.inf), b)
    rise = _sharply(lambda: curve(beyond) - curve(before), lambda rise: rise.low > 0 or rise.high < 0)
    return bool(rise.high < 0)


def value_range(curve: Any, z: float) -> tuple[float, float]:
    """Bounds of the value of a function at a score; infinite where it has none, or no ranges."""
    try:
        return bounds(_sharply(lambda: curve(box(z, z)), _is_narrow))
    except Exception:  # a user's formula may do anything
        return -math.inf, math.inf


def negative_slope(curve: Any, z: float) -> float | None:
    """What the slope of a curve is at most about a score, if negative; of a composite Sigmoid the factor with its sign.

    About it, since where two branches meet the slope at the score itself says nothing.
    """
    composite = isinstance(curve, CompositeSigmoid) and is_library(curve) and is_integrated(curve.scaling)
    steepness: Any = bracket if composite else slope
    try:
        found = _sharply(lambda: steepness(curve, around(z)), lambda found: found.high < 0, one_branch=True)
    except Exception:  # a user's formula may do anything
        return None
    return bounds(found)[1] if found.high < 0 else None


def divergence(curve: Curve, s: float, s_hat: float) -> tuple[float, float]:
    """Bounds of Q(s_hat) - Q(s) - (s_hat - s) q(s), from the primitive itself; infinite where it has no ranges."""
    start, end = box(s, s), box(s_hat, s_hat)
    try:
        return bounds(curve.primitive(end) - curve.primitive(start) - (end - start) * curve(start))
    except Exception:  # a primitive may need arrays
        return -math.inf, math.inf


def certain_sign(function: Any, z: float) -> int:
    """The sign of a function at a score and its neighbours; 0 if that is not certain, or there are no values."""
    value = _sharply(lambda: function(around(z)), lambda value: value.low > 0 or value.high < 0)
    return (int(value.low > 0) - int(value.high < 0)) if value.low.is_finite() and value.high.is_finite() else 0
