"""Sums over pairs one by one, for any link: quadratic time, linear memory.

Item i of a list of n meets item i + k (around the end of the list) for k = 1 ... n // 2, which is every pair once. One
k is a handful of array operations over all lists together, however short they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from selmatch.curve import Curve
from selmatch.functions import abs, is_number, where
from selmatch.pairs.layout import Layout
from selmatch.pairs.libraries import tools_of
from selmatch.parameters import has_plain_numbers

Array = Any

#: how many pairs are looked at together
BLOCK = 2**14


class Terms(NamedTuple):
    """What a pair adds: to the value, to the gradient of the first (and takes from the second), to both curvatures."""

    value: Array
    gradient: Array
    curvature: Array


class PairTerms(NamedTuple):
    """The terms of a link, with weights by the observed gap."""

    curve: Curve
    gap: Callable[[Array], Array] | None
    need: tuple[str, ...]

    def __call__(self, x: Array, u: Array, xh: Array) -> Terms:
        value, gradient, curvature = self._one_way(x, u, xh)
        if self.curve.odd:
            terms = [t if t is None else 2.0 * t for t in (value, gradient, curvature)]
        else:
            back = self._one_way(-x, -u, -xh)
            signs = (1.0, -1.0, 1.0)
            both = zip((value, gradient, curvature), back, signs, strict=True)
            terms = [a if a is None else a + sign * b for a, b, sign in both]
        if self.gap is not None:
            weight = _weight(self.gap, abs(x))
            terms = [t if t is None else weight * t for t in terms]
        return Terms(*terms)

    def _one_way(self, x: Array, u: Array, xh: Array) -> tuple[Array, Array, Array]:
        value = gradient = curvature = None
        if "value" in self.need and "gradient" in self.need:
            value, gradient = self.curve.remainder_and_difference(x, u, xh)
        elif "value" in self.need:
            value = self.curve.remainder(x, u, xh)
        elif "gradient" in self.need:
            gradient = self.curve.difference(x, u, xh)
        if "newton" in self.need:
            curvature = self.curve.slope(xh)
        elif "secant" in self.need:
            curvature = self.curve.secant(x, u, xh)
        return value, gradient, curvature


def _weight(weigh: Callable[[Array], Array], gap: Array) -> Array:
    """The weights of pairs: else an error, or NaN outside of NumPy."""
    weight = weigh(gap)
    if not is_number(weight) and getattr(weight, "shape", None) not in ((), gap.shape):
        got = type(weight).__name__ if not hasattr(weight, "shape") else f"shape {tuple(weight.shape)}"
        raise ValueError(
            f"pairwise: pair_weights must give a number for every difference, here of shape {tuple(gap.shape)}, "
            f"got {got}. It is called with arrays of sizes of differences."
        )
    if not isinstance(gap, np.ndarray):
        return where(weight >= 0, weight, np.nan) if not is_number(weight) else weight
    fits = np.broadcast_to((weight >= 0) & np.isfinite(weight), gap.shape)
    if not fits.all():
        first, bad = gap[~fits][0], np.broadcast_to(weight, gap.shape)[~fits][0]
        raise ValueError(
            f"pairwise: pair_weights must be finite and >= 0, got {bad} for the size of difference {first}."
        )
    return weight


class HessianTerms(NamedTuple):
    """The product of the Hessian with a vector, whose differences stand for those of the moves, as a gradient."""

    curve: Curve
    gap: Callable[[Array], Array] | None
    need: tuple[str, ...] = ("gradient",)

    def __call__(self, x: Array, v: Array, xh: Array) -> Terms:
        return Terms(None, PairTerms(self.curve, self.gap, ("newton",))(x, v, xh).curvature * v, None)


AnyTerms = PairTerms | HessianTerms


def sums(terms: AnyTerms, s_hat: Array, s: Array, d: Array, layout: Layout) -> list[Array]:
    """Value, gradient and curvature of each item, as far as they are needed; items in the layout's order.

    A pair's value is credited to one of its items.
    """
    tools = tools_of(s_hat)
    if not tools.eager:
        return _in_a_trace(terms, s_hat, s, d, layout)
    totals: list[Any] = [0.0 * s_hat if part else None for part in _wanted(terms.need)]
    step, last = 1, layout.longest // 2
    while step <= last:
        active = _active(layout, step)
        rows = max(1, min(BLOCK // max(active, 1), last + 1 - step))
        steps = tools.arange(rows, s_hat)[:, None] + step
        parts = _meeting(terms, s_hat, s, d, layout, steps, active)
        for i, part in enumerate(parts):
            if part is not None:
                for row in part:  # one after the other, so that a list never feels its neighbours
                    totals[i] = _plus(totals[i], row, active)
        step += rows
    return totals


def _wanted(need: tuple[str, ...]) -> tuple[bool, bool, bool]:
    return "value" in need, "gradient" in need, "newton" in need or "secant" in need


def _active(layout: Layout, step: int) -> int:
    """How many items belong to lists in which anybody is so far away; long lists come first in NumPy."""
    if isinstance(layout.size, np.ndarray):
        return int(np.searchsorted(-layout.size, -2 * step, side="right"))
    return len(layout.size)


def _plus(total: Array, row: Array, active: int) -> Array:
    if isinstance(total, np.ndarray):
        total[:active] += row
        return total
    return total + row


def _meeting(
    terms: AnyTerms, s_hat: Array, s: Array, d: Array, layout: Layout, step: Array, active: int
) -> list[Array]:
    """What each item gets from the item ``step`` places on, and from the one ``step`` places back."""
    start, position, size = layout.start[:active], layout.position[:active], layout.size[:active]
    reaches = 2 * step <= size
    k = where(reaches, step, 0 * step)
    ahead = position + k
    ahead = start + where(ahead >= size, ahead - size, ahead)
    meets = reaches & ((2 * step < size) | (position < step))
    x, u, xh = (z[:active] - z[ahead] for z in (s, d, s_hat))
    value, gradient, curvature = (t if t is None else where(meets, t, 0.0) for t in terms(x, u, xh))
    if gradient is None and curvature is None:
        return [value, None, None]
    behind = position - k
    behind = start + where(behind < 0, behind + size, behind)
    if gradient is not None:
        gradient = gradient - _along(gradient, behind)
    if curvature is not None:
        curvature = curvature + _along(curvature, behind)
    return [value, gradient, curvature]


def _along(rows: Array, index: Array) -> Array:
    if rows.ndim == 1:
        return rows[index]
    return np.take_along_axis(rows, index, 1) if isinstance(rows, np.ndarray) else rows.gather(1, index)


def _in_a_trace(terms: AnyTerms, s_hat: Array, s: Array, d: Array, layout: Layout) -> list[Array]:
    wanted, tools = _wanted(terms.need), tools_of(s_hat)

    def parts(step: Any) -> list[Array]:
        return [part for part in _meeting(terms, s_hat, s, d, layout, step, len(s_hat)) if part is not None]

    trained = not has_plain_numbers(terms.curve)
    if trained:
        # a loop can be differentiated backwards if its length is fixed, and need not remember what it can repeat
        parts = tools.forgetful(parts)

    def body(step: Any, totals: tuple[Array, ...]) -> tuple[Array, ...]:
        return tuple(total + part for total, part in zip(totals, parts(step), strict=True))

    last = len(s_hat) // 2 if trained else layout.longest // 2
    totals = iter(tools.repeat(body, 1, last + 1, tuple(0.0 * s_hat for part in wanted if part)))
    return [next(totals) if part else None for part in wanted]
