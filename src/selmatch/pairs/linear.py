"""Sums over pairs in linear time: links sinh(alpha x), x and x^3.

Values are sums of terms that are not negative, so that nothing cancels, however small the moves are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from selmatch.functions import abs, exp, expm1, hyperbolic, log1p, maximum, minimum, namespace_of, where, within
from selmatch.pairs.walk import Lists

Array = Any

#: moves up to which phi is a series
NEAR = 2.0
#: moves up to which e^u is finite in any precision; beyond, its product with e^s is formed in the exponent
FAR = 40.0
#: by how much an item may fall short of the heaviest one and still be taken for it
HEAVIEST = 1e-3


def exponential(lists: Lists, s: Array, d: Array, need: tuple[str, ...]) -> list[Array]:
    r"""Value and gradient for the link sinh, and the curvature at s + d.

    With P and M the sums of e^s and e^-s, and c any number, the value is M sum e^s phi(d - c) + P sum e^-s phi(c - d) +
    (sum e^s expm1(d - c)) (sum e^-s expm1(c - d)). With c1 = log(sum e^(s + d) / P) one factor of the last product is 0
    but for rounding. The gradient is e^s M expm1(d - c2) - e^-s P expm1(c1 - d), with c2 = -log(sum e^(-s - d) / M).
    Items that move like the heaviest one do not feel it: theirs is written with what the others move against that.
    The factors e^(max s) and e^(-min s) are taken out.
    """
    if "newton" in need:
        return [None, None, _exponential_curvature(lists, s + d)]
    top, bottom = _ends(lists, s)
    sum_a, sum_b, highest, lowest, up, down, a, b = lists.run(_shares, (s, d), (top, bottom), sums=2, peaks=2)
    items, sums, anchors = (d, up, down, a, b), (sum_a, sum_b), (constant(highest), constant(lowest))
    pulls = lists.run(_growths, items, anchors, sums=2)
    c1, c2 = _levels(anchors, pulls, sums)
    # each step holds for any start, so that derivatives flow through the second one only
    c1, c2 = _levels((c1, c2), lists.run(_growths, items, (constant(c1), constant(c2)), sums=2), sums)
    spread = _spread(top, bottom)
    value = gradient = None
    if "value" in need:
        bend_a, bend_b, rise_a, rise_b = lists.run(_bends, items, (constant(c1),), sums=4)
        value = _times_exp(sum_b * bend_a + sum_a * bend_b + rise_a * rise_b, spread)
    if "gradient" in need:
        (gradient,) = lists.run(_slopes, items, (*anchors, *pulls, c1, c2, *sums, spread))
    return [value, gradient, None]


def _ends(lists: Lists, s: Array) -> tuple[Array, Array]:
    top, bottom = lists.run(lambda s: (s, -s), (s,), peaks=2)
    return top, -bottom


def _spread(top: Array, bottom: Array) -> Array:
    return where(top >= bottom, top - bottom, 0.0)  # an empty list has none


def _shares(s: Array, d: Array, top: Array, bottom: Array) -> tuple[Array, ...]:
    """e^s and e^-s without their factors, the moves of the highest and of the lowest item, and the logarithms."""
    up, down = s - top, bottom - s
    a, b = exp(up), exp(down)
    # not exactly at the ends: compilers may have rounded those otherwise
    highest, lowest = where(up >= -HEAVIEST, d, -np.inf), where(down >= -HEAVIEST, d, -np.inf)
    return a, b, highest, lowest, up, down, a, b


def _levels(starts: Sequence[Array], growths: Sequence[Array], totals: Sequence[Array]) -> tuple[Array, Array]:
    """c1 and c2, from any starts and what the items move against them."""
    (c1, c2), (growth, decay) = map(constant, starts), growths
    return c1 + log1p(growth / maximum(totals[0], 1.0)), c2 - log1p(decay / maximum(totals[1], 1.0))


def _growths(d: Array, up: Array, down: Array, a: Array, b: Array, c1: Array, c2: Array) -> tuple[Array, ...]:
    return _times_expm1(a, up, d - c1), _times_expm1(b, down, c2 - d)


def _bends(d: Array, up: Array, down: Array, a: Array, b: Array, c: Array) -> tuple[Array, ...]:
    """a phi(d - c), b phi(c - d), a expm1(d - c), b expm1(c - d)."""
    u = d - c
    even, odd = hyperbolic(within(u, NEAR))
    v = within(u, FAR)
    rise, fall = expm1(v), expm1(-v)
    near = abs(u) <= NEAR
    bend_a, bend_b = where(near, even + odd, rise - v), where(near, even - odd, fall + v)
    results = a * bend_a, b * bend_b, a * rise, b * fall
    far = abs(u) > FAR
    if _none(far):
        return results
    grown, shrunk = exp(where(far, up + u, 0.0)), exp(where(far, down - u, 0.0))
    distant = grown - a * (1.0 + u), shrunk - b * (1.0 - u), grown - a, shrunk - b
    return tuple(where(far, x, y) for x, y in zip(distant, results, strict=True))


def _slopes(d: Array, up: Array, down: Array, a: Array, b: Array, *values: Array) -> tuple[Array]:
    highest, lowest, growth, decay, c1, c2, sum_a, sum_b, spread = values
    rise = _pulled(a, up, d - lowest, d - c2, sum_b, decay)
    fall = _pulled(b, down, highest - d, c1 - d, sum_a, growth)
    gradient = _times_exp(rise - fall, spread)
    # so far from both ends that neither share is left, while the gradient is infinite, or would be if anybody moved
    lost = maximum(a, b) < (1e-37 if namespace_of(a).is_single(a) else 1e-300)
    return (gradient if _none(lost) else where(lost, np.nan, gradient),)


def _pulled(share: Array, log_share: Array, near: Array, far: Array, total: Array, pull: Array) -> Array:
    """share times the sum of what others pull: total * expm1(far), but for items close to the heaviest one."""
    close = abs(near) <= 1.0
    risen = _times_expm1(share, log_share, where(close, near, far))
    return where(close, risen * (total + pull) + share * pull, risen * total)


def _times_expm1(share: Array, log_share: Array, u: Array) -> Array:
    """share * expm1(u), also where e^u alone would overflow."""
    near = share * expm1(within(u, FAR))
    far = abs(u) > FAR
    if _none(far):
        return near
    return where(far, exp(where(far, log_share + u, 0.0)) - share, near)


def _none(condition: Array) -> bool:
    """Whether a condition is known to hold nowhere: then NumPy need not compute what it would choose."""
    return isinstance(condition, np.ndarray) and not condition.any()


def _times_exp(x: Array, power: Array) -> Array:
    """x * e^power; the product may be finite where e^power is not."""
    # so large that whatever is not 0 overflows
    root = exp(minimum(0.25 * power, 88.0 if namespace_of(x).is_single(x) else 700.0))
    return ((x * root) * root) * root * root


def _exponential_curvature(lists: Lists, z: Array) -> Array:
    """Twice the sum of cosh over the other items."""
    top, bottom = _ends(lists, z)
    sums = lists.run(lambda z, top, bottom: (exp(z - top), exp(bottom - z)), (z,), (top, bottom), sums=2)

    def formula(z: Array, top: Array, bottom: Array, sum_a: Array, sum_b: Array, spread: Array) -> tuple[Array]:
        both = sum_b * exp(z - top) + sum_a * exp(bottom - z)
        return (_times_exp(both, spread) - 2.0,)

    return lists.run(formula, (z,), (top, bottom, *sums, _spread(top, bottom)))[0]


# -------------------------------------------------------------------------------------------------------- polynomials


def polynomial(lists: Lists, s: Array, d: Array, c1: Any, c3: Any, need: tuple[str, ...]) -> list[Array]:
    """Value and gradient for the link c1 x + c3 x^3, and the curvature at s + d.

    With X and U the differences of s and d, the loss of x^3 is U^2 ((2 X + U)^2 + 2 X^2) / 4. Summed over pairs, the
    product of two squared differences is a sum of squares of centred moments.
    """
    n = lists.sizes(s)
    mean_s, mean_d = (total / maximum(n, 1.0) for total in lists.run(lambda s, d: (s, d), (s, d), sums=2))
    s, d = lists.run(lambda s, d, mean_s, mean_d: (s - mean_s, d - mean_d), (s, d), (mean_s, mean_d))
    value = gradient = curvature = None
    if "newton" in need:
        curvature = _polynomial_curvature(lists, s + d, n, c1, c3)
    if "value" in need:
        value = _polynomial_value(lists, s, d, n, c1, c3)
    if "gradient" in need:
        gradient = _polynomial_gradient(lists, s, d, n, c1, c3)
    return [value, gradient, curvature]


def _polynomial_value(lists: Lists, s: Array, d: Array, n: Array, c1: Any, c3: Any) -> Array:
    def moments(s: Array, d: Array) -> tuple[Array, ...]:
        t, d2 = 2.0 * s + d, d * d
        return d2, s * s, t * t, d * s, d * t, d2 * (s * s), d2 * (t * t)

    d2, s2, t2, ds, dt, d2s2, d2t2 = lists.run(moments, (s, d), sums=7)
    # sums over pairs of U^2 X^2 and of U^2 (2 X + U)^2
    plain, doubled = 2.0 * (n * d2s2 + d2 * s2 + 2.0 * ds * ds), 2.0 * (n * d2t2 + d2 * t2 + 2.0 * dt * dt)
    return c1 * n * d2 + c3 * (0.25 * doubled + 0.5 * plain)


def _polynomial_gradient(lists: Lists, s: Array, d: Array, n: Array, c1: Any, c3: Any) -> Array:
    """Moments of the moves, counted from an anchor, and of the places, counted from where such moves are.

    Any anchor would do but for rounding: items that move alike do not feel each other, and those that move like the
    anchor count for exactly nothing. So it is the move of one of the ends, of the one that leaves the smaller moments:
    that of an outlier, or that of the many which move against one.
    """
    top, bottom = _ends(lists, s)

    def at_ends(s: Array, d: Array, top: Array, bottom: Array) -> tuple[Array, ...]:
        near = HEAVIEST * (top - bottom)
        return where(s >= top - near, d, -np.inf), where(s <= bottom + near, d, -np.inf)

    ends = lists.run(at_ends, (s, d), (top, bottom), peaks=2)

    def left(s: Array, d: Array, highest: Array, lowest: Array) -> tuple[Array, ...]:
        return abs(d - highest) * (s * s), abs(d - lowest) * (s * s)

    by_highest, by_lowest = lists.run(left, (s, d), ends, sums=2)
    anchor = where(by_highest <= by_lowest, *ends)

    def places(s: Array, d: Array, anchor: Array) -> tuple[Array, ...]:
        d, t = d - anchor, 2.0 * s + d
        return abs(d), abs(d) * t, d, t

    weight, place, d, t = lists.run(places, (s, d), (anchor,), sums=2)
    centre = place / where(weight > 0.0, weight, 1.0)

    def moments(d: Array, t: Array, centre: Array) -> tuple[Array, ...]:
        t, d2 = t - centre, d * d
        return d, d2, d2 * d, t, t * t, d * t, d * (t * t)

    def formula(d: Array, t: Array, centre: Array, n: Array, *sums: Array) -> tuple[Array]:
        t = t - centre
        d1, d2, d3, t1, t2, dt, dt2 = sums
        # sums over the others of U, of U (2 X + U)^2 and of U^3
        plain = n * d - d1
        mixed = d * (n * (t * t) - 2.0 * t * t1 + t2) - d1 * (t * t) + 2.0 * t * dt - dt2
        cubes = d * (n * (d * d) - 3.0 * d * d1 + 3.0 * d2) - d3
        return (2.0 * c1 * plain + c3 * (1.5 * mixed + 0.5 * cubes),)

    return lists.run(formula, (d, t), (centre, n, *lists.run(moments, (d, t), (centre,), sums=7)))[0]


def _polynomial_curvature(lists: Lists, z: Array, n: Array, c1: Any, c3: Any) -> Array:
    (squares,) = lists.run(lambda z: (z * z,), (z,), sums=1)

    def formula(z: Array, n: Array, squares: Array) -> tuple[Array]:
        return (2.0 * c1 * (n - 1.0) + 6.0 * c3 * (n * (z * z) + squares),)

    return lists.run(formula, (z,), (n, squares))[0]


def constant(x: Array) -> Array:
    """x without derivatives."""
    own = getattr(namespace_of(x), "constant", None)
    return x if own is None else own(x)
