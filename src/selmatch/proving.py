"""Searches with rigorous intervals: does a link never decrease? Needs python-flint."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from selmatch.algebra import Affine, Capped, FromPrimitive, FromScoreTransform, Piecewise, Sum
from selmatch.arrays.branching import Verdict, certainly_rises, largest_fall, never_negative
from selmatch.arrays.dual import Dual, derivative
from selmatch.arrays.effort import Effort
from selmatch.arrays.interval import Undecided, box, hull, switches
from selmatch.composite import CompositeSigmoid
from selmatch.curve import Curve
from selmatch.functions import maximum, minimum, sigmoid, square
from selmatch.structure import is_known, why_non_decreasing

Array = Any


def search_fall(curve: Curve, low: float, high: float, effort: Effort) -> Verdict:
    """Look for a decrease of a curve between two scores."""
    if why_non_decreasing(curve, low, high):
        return Verdict()
    if isinstance(curve, Affine):
        low, high = (curve.alpha * (end - curve.beta) for end in (low, high))
        return _mapped(search_fall(curve.curve, low, high, effort), curve)
    if isinstance(curve, Capped):
        low = low if curve.low is None else max(low, curve.low)
        high = high if curve.high is None else min(high, curve.high)
        return search_fall(curve.curve, low, high, effort) if low < high else Verdict()
    if isinstance(curve, CompositeSigmoid):
        return _search_composite(curve, low, high, effort)
    return _with_jumps(curve, never_negative(lambda x: slope(curve, x), low, high, effort))


def _mapped(verdict: Verdict, curve: Affine) -> Verdict:
    """A verdict about x as one about z."""

    def back(x: float | None) -> Any:
        return None if x is None else curve.beta + x / curve.alpha

    return replace(
        verdict,
        negative=back(verdict.negative),
        left=[(back(a), back(b)) for a, b in verdict.left],
        jumps=set(map(back, verdict.jumps)),
        jump=back(verdict.jump),
    )


def _search_composite(curve: CompositeSigmoid, low: float, high: float, effort: Effort) -> Verdict:
    critical = curve.scaling.critical(curve.gamma, curve.offset) if is_known(curve.scaling) else None
    if critical is not None:
        low, high = max(low, critical.low), min(high, critical.high)
        if not low < high:
            return Verdict()
    if why_non_decreasing(curve.scaling, low, high):  # Q is convex
        return Verdict()
    verdict = never_negative(lambda x: bracket(curve, x), low, high, effort)
    # where q jumps upwards so does h; but of a q that is a derivative, Q itself may jump
    derived = isinstance(curve.scaling, (FromPrimitive, FromScoreTransform))
    return _with_jumps(curve if derived else curve.scaling, verdict)


def _with_jumps(curve: Curve, verdict: Verdict) -> Verdict:
    """What a jump within a formula leaves open; known curves jump upwards only."""
    if verdict.negative is None and not is_known(getattr(curve, "scaling", curve)):
        for point in sorted(verdict.jumps):
            if not certainly_rises(curve, point):
                return replace(verdict, jump=point, fall=largest_fall(curve, point))
    return verdict


def bracket(curve: CompositeSigmoid, x: Array) -> Array:
    """The factor that decides the sign of the link's slope: q' + (1 - p) q^2 / gamma."""
    q = curve.scaling
    return slope(q, x) + sigmoid(-curve.logit(x)) * square(q(x)) / curve.gamma


def slope(curve: Curve, x: Array) -> Array:
    """The slope of a curve on ranges (and dual numbers of them), from its formula where only that is known."""
    if isinstance(curve, Affine):
        return curve.gain * curve.alpha * slope(curve.curve, curve.alpha * (x - curve.beta))
    if isinstance(curve, Sum):
        first, *others = (slope(term, x) for term in curve.curves)
        return sum(others, first)
    if isinstance(curve, Capped):
        return _capped_slope(curve, x)
    return curve.slope(x) if is_known(curve) and not isinstance(curve, Piecewise) else derivative(curve, x)


def _capped_slope(curve: Capped, x: Array) -> Array:
    low = -math.inf if curve.low is None else curve.low
    high = math.inf if curve.high is None else curve.high
    below, above = x < low, x > high
    if below is True or above is True:
        return 0.0 * x
    inside = slope(curve.curve, minimum(maximum(x, low), high) if below is not False or above is not False else x)
    return inside if below is False and above is False else _or_zero(inside)


def _or_zero(x: Array) -> Array:
    """A slope that falls to 0 somewhere in the box: as a dual number it jumps."""
    return hull(x, 0.0) if not isinstance(x, Dual) else Dual(_or_zero(x.value), x.tangent + Undecided().any_slope)


def certainly_falls(curve: Any, a: float, b: float) -> bool:
    """Whether a function is certainly smaller at b than at a."""
    return bool((curve(box(b, b)) - curve(box(a, a))).high < 0)


def keeps_sign(curve: Curve, sign: float, low: float, high: float) -> Verdict:
    """Whether sign * curve is never negative between two scores."""
    return never_negative(lambda x: sign * curve(x), low, high, Effort())


def is_constant(curve: Curve, low: float, high: float) -> bool:
    """Whether the slope of a curve is exactly 0 between two scores, and no branch of its formula begins there."""
    score = box(low, high)
    try:
        steep = slope(curve, score)
    except Exception:  # a user's formula may do anything
        return False
    return not any(low < t < high for t in switches(score)) and bool(steep.low.is_zero() and steep.high.is_zero())
