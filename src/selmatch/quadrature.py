"""Integrals of slopes, for curves without closed forms: Gauss nodes between the places where they bend or jump."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from selmatch import functions
from selmatch.functions import maximum, where

if TYPE_CHECKING:
    from selmatch.curve import Curve

Array = Any

_LEGENDRE = np.polynomial.legendre.leggauss(16)
#: Gauss-Legendre nodes in [0, 1], and their weights
_NODES, _WEIGHTS = (0.5 * (_LEGENDRE[0] + 1.0)).tolist(), (0.5 * _LEGENDRE[1]).tolist()


def _gauss(piece: int, pieces: int, falling: bool) -> tuple[list[float], list[float]]:
    """The nodes in one piece of [0, 1], and their weights; ``falling`` ones carry a factor 1 - t."""
    nodes = [(piece + t) / pieces for t in _NODES]
    return nodes, [w / pieces * (1.0 - t if falling else 1.0) for t, w in zip(nodes, _WEIGHTS, strict=True)]


def _pieces(u: Array, scale: float) -> int:
    """Into how many pieces to cut a segment of length u, so that each is short on the curve's scale."""
    if not isinstance(u, (float, int, np.ndarray, np.generic)):
        return 8  # inside a trace the length is not known
    longest = float(np.max(np.abs(u), initial=0.0))
    return int(min(max(math.ceil(longest / scale), 1), 256)) if math.isfinite(longest) else 1


def integral(f: Any, x: Array, u: Array, scale: float, falling: bool = False) -> Array:
    """The mean of f over the segment from x to x + u, or of f times 1 - t at the position t in [0, 1]."""
    pieces = _pieces(u, scale)
    segments = [_gauss(i, pieces, falling) for i in range(pieces)]
    if not hasattr(u, "ndim"):  # a number or a dual number
        return sum(share * f(x + t * u) for nodes, shares in segments for t, share in zip(nodes, shares, strict=True))
    if getattr(x, "ndim", 0) > u.ndim:
        u = u + 0.0 * x
    # all nodes of a piece at once, on a new first axis: traces stay short
    total, across = 0.0 * u, (..., *(None,) * u.ndim)
    for nodes, shares in segments:
        t, share = functions.like(nodes, u)[across], functions.like(shares, u)[across]
        total = total + functions.layer_sum(share * f(x + t * u))
    return total


def difference(curve: Curve, x: Array, u: Array, xh: Array) -> Array:
    """``g(xh) - g(x)`` from the slope, and from the jumps."""
    if not curve.breaks:
        return u * integral(curve.slope, x, u, curve.scale)
    joints = curve.joints
    total = sum(step * integral(curve.slope, a, step, curve.scale) for a, step, _ in joints.moves(x, u, xh))
    return total + sum((jump.level(xh) - jump.level(x) for jump in joints.jumps), 0.0)


def remainder(curve: Curve, x: Array, u: Array, xh: Array) -> Array:
    """``G(xh) - G(x) - u g(x)`` from the slope, and from the jumps."""
    if not curve.breaks:
        return functions.square(u) * integral(curve.slope, x, u, curve.scale, falling=True)
    joints, total = curve.joints, 0.0 * u
    for a, step, b in joints.moves(x, u, xh):
        rise = step * integral(curve.slope, a, step, curve.scale)
        own = functions.square(step) * integral(curve.slope, a, step, curve.scale, falling=True)
        total = total + own + (xh - b) * rise
    return total + sum((jump.cost(x, u, xh) for jump in joints.jumps), 0.0)


# ------------------------------------------------------------------------------------------------------ kinks and jumps


class Jump(NamedTuple):
    """A jump of a curve: where, how high, and how much of it the value there has climbed."""

    place: float
    height: float
    reached: float

    def level(self, z: Array) -> Array:
        """How much of the jump a score has behind it."""
        above = where(z > self.place, self.height + 0.0 * z, 0.0 * z)
        return where(z == self.place, self.reached + 0.0 * z, above)

    def cost(self, x: Array, u: Array, xh: Array) -> Array:
        """The part of a matching loss that the jump makes."""
        upwards, downwards = self.height * maximum(xh - self.place, 0.0), self.height * maximum(self.place - xh, 0.0)
        here = self.height * maximum(u, 0.0) - self.reached * u
        return where(x < self.place, upwards, where(x > self.place, downwards, here))


class Joints(NamedTuple):
    """What lies between the breaks of a curve, and the jumps among them."""

    pieces: tuple[tuple[float, float], ...]
    jumps: tuple[Jump, ...]

    def moves(self, x: Array, u: Array, xh: Array) -> Iterator[tuple[Array, Array, Array]]:
        """The parts of a move between the breaks: where each starts, its length, where it ends."""
        for low, high in self.pieces:
            inside = (x >= low) & (x <= high) & (xh >= low) & (xh <= high)
            beside = ((x <= low) & (xh <= low)) | ((x >= high) & (xh >= high))
            a, b = (where(z <= low, low, where(z >= high, high, z)) for z in (x, xh))
            # a slope at a break may be infinite, and must not be asked for by those who are not there
            start = where(beside, _harmless(low, high) + 0.0 * x, a)
            step = where(beside, 0.0 * u, where(inside, u, b - a))
            yield start, step, where(beside, start, b)


def _harmless(low: float, high: float) -> float:
    if math.isfinite(low) and math.isfinite(high):
        return 0.5 * (low + high)
    return low + 1.0 if math.isfinite(low) else high - 1.0


def joints(curve: Curve) -> Joints:
    """The pieces of a curve between its breaks, and the jumps there, measured."""
    ends = (curve.domain.low, *curve.breaks, curve.domain.high)
    jumps = (_jump(curve, place) for place in curve.breaks)
    return Joints(tuple(itertools.pairwise(ends)), tuple(jump for jump in jumps if jump.height))


def _jump(curve: Curve, place: float) -> Jump:
    """What the value does at a break: a jump stays as high from a million times nearer, a slope does not."""
    near = 4.0 * math.ulp(place)
    with np.errstate(all="ignore"):
        far_below, below, at, above, far_above = (
            float(curve(np.float64(place + distance)))
            for distance in (-(2.0**20) * near, -near, 0.0, near, 2.0**20 * near)
        )
    height = above - below
    rounding = 1e-12 * (abs(above) + abs(below))
    if not (math.isfinite(height) and abs(height) > max(rounding, 0.5 * abs(far_above - far_below - height))):
        return Jump(place, 0.0, 0.0)
    return Jump(place, height, at - below if math.isfinite(at) else 0.0)


_FEW_NODES, _FEW_WEIGHTS = np.polynomial.legendre.leggauss(5)
_ON_THE_WAY = tuple(zip((0.5 + 0.5 * _FEW_NODES).tolist(), (0.5 * _FEW_WEIGHTS).tolist(), strict=True))


def mean_on_the_way(function: Callable[[Array], Array], x: Array, u: Array) -> Array:
    """The mean of a function from x to x + u, to a few digits: never negative where the function is not.

    A function that is high in narrow regions only may be missed: see :func:`at_least_the_quotient`.
    """
    return sum(share * function(x + t * u) for t, share in _ON_THE_WAY)


def at_least_the_quotient(curvature: Array, gradient: Array, u: Array, lowest: Array, highest: Array) -> Array:
    """A mean curvature that is not 0 where there is a gradient, even if all nodes have missed a steep region.

    It is at least the gradient over the longest move, of an item or against another one of its list, whose moves u go
    from ``lowest`` to ``highest``. The own move alone would not do: where an item stays and the others move, the
    quotient is as large as you like, and negative where they push it away.
    """
    reach = maximum(maximum(highest - u, u - lowest), functions.abs(u))
    return maximum(curvature, functions.abs(gradient) / where(reach > 0, reach, 1.0))
