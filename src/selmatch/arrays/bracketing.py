"""Solving g(x) = y for an increasing g without knowing more of it: bisection, then two Newton steps."""

from __future__ import annotations

import contextlib
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from selmatch.arrays.dual import Dual
from selmatch.functions import abs, exp, is_number, maximum, minimum, namespace_of, sinh, where

if TYPE_CHECKING:
    from selmatch.curve import Curve, Interval

Array = Any


def solve_increasing(curve: Curve, y: Array, domain: Interval) -> Array:
    """The x in the domain with curve(x) = y, or the end of the domain nearest to it."""
    if is_number(y):
        return float(solve_increasing(curve, np.float64(y), domain))
    with _without_warnings(y):
        return _solved(curve, y, domain)


def _without_warnings(y: Array) -> contextlib.AbstractContextManager[Any]:
    """Bracketing looks where curves overflow and are flat; only NumPy minds."""
    while isinstance(y, Dual):
        y = y.value
    return np.errstate(all="ignore") if isinstance(y, (np.ndarray, np.generic)) else contextlib.nullcontext()


def _solved(curve: Curve, y: Array, domain: Interval) -> Array:
    single = namespace_of(y).is_single(y)
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
    # a limit that is reached by rounding is found where it begins, as on the other side
    limit = (curve(position(below)) == y) & (not math.isfinite(domain.low))
    for _ in range(64 if single else 128):
        middle = 0.5 * (below + above)
        value = curve(position(middle))
        # far out a curve that falls to 0 may come as 0 times infinity
        up = (value < y) | (limit & (value == y)) | ((value != value) & (middle < 0.5 * low + 0.5 * high))
        below, above = where(up, middle, below), where(up, above, middle)
    x = position(0.5 * (below + above))
    if domain.low < 0.0 < domain.high:  # a solution at 0 is exact
        x = where(curve(0.0 * y) == y, 0.0 * y, x)
    width = position(above) - position(below)
    for _ in range(2):
        step = (y - curve(x)) / curve.slope(x)
        # Newton may only polish: by the width of the last bracket and of its rounding
        x = x + where(abs(step) <= width + (1e-6 if single else 1e-12) * abs(x), step, 0.0)
        x = minimum(maximum(x, domain.low), domain.high)
    return x
