"""Solving g(x) = y for an increasing g without knowing more of it: bisection, then two Newton steps."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from selmatch.functions import abs, exp, is_number, isfinite, maximum, minimum, namespace_of, sinh, where

if TYPE_CHECKING:
    from selmatch.curve import Curve, Interval

Array = Any


def solve_increasing(curve: Curve, y: Array, domain: Interval) -> Array:
    """The x in the domain with curve(x) = y, or the end of the domain nearest to it."""
    single = (not is_number(y)) and namespace_of(y).is_single(y)
    reach = 80.0 if single else 700.0
    if math.isfinite(domain.low) and math.isfinite(domain.high):
        position, low, high = (lambda t: t), domain.low, domain.high
    elif math.isfinite(domain.low):
        position, low, high = (lambda t: domain.low + exp(t)), -reach, reach
    elif math.isfinite(domain.high):
        position, low, high = (lambda t: domain.high - exp(-t)), -reach, reach
    else:
        position, low, high = sinh, -reach, reach
    below, above = low + 0.0 * y, high + 0.0 * y
    for _ in range(64 if single else 128):
        middle = 0.5 * (below + above)
        up = curve(position(middle)) < y
        below, above = where(up, middle, below), where(up, above, middle)
    x = position(0.5 * (below + above))
    near, far = position(below), position(above)
    for _ in range(2):
        step = (y - curve(x)) / curve.slope(x)
        moved = x + where(isfinite(step), step, 0.0)
        # Newton may only polish: within the last bracket, widened by its rounding
        slack = 1e-6 * (1.0 + abs(x)) if single else 1e-12 * (1.0 + abs(x))
        x = minimum(maximum(moved, near - slack), far + slack)
    return x
