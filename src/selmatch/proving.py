"""Searches with rigorous intervals: does a link never decrease? Needs python-flint."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from selmatch import evidence
from selmatch.algebra import Affine, Capped, FromPrimitive, FromScoreTransform, Inverse, Piecewise, Sum
from selmatch.arrays.branching import Verdict, falls_at, never_negative
from selmatch.arrays.dual import Dual, derivative
from selmatch.arrays.effort import Effort
from selmatch.arrays.interval import UNDECIDED, box, hull
from selmatch.composite import CompositeSigmoid
from selmatch.curve import Curve
from selmatch.functions import maximum, minimum, sigmoid
from selmatch.structure import is_known, is_library, is_ours, outwards, parts_of, why_non_decreasing

Array = Any


def search_fall(curve: Curve, low: float, high: float, effort: Effort) -> Verdict:
    """Look for a decrease of a curve between two scores."""
    if why_non_decreasing(curve, low, high):
        return _by_structure(curve, low, high)
    own = is_library(curve)
    if own and isinstance(curve, Affine):
        return _mapped(search_fall(curve.curve, *outwards(curve, low, high), effort=effort), curve)
    if own and isinstance(curve, Capped):
        inner_low = low if curve.low is None else max(low, curve.low)
        inner_high = high if curve.high is None else min(high, curve.high)
        if not inner_low < inner_high:
            return _by_structure(curve, low, high)
        return search_fall(curve.curve, inner_low, inner_high, effort)
    if own and isinstance(curve, CompositeSigmoid):
        return _search_composite(curve, low, high, effort)
    if own and isinstance(curve, Inverse):
        return _search_inverse(curve, low, high, effort)
    unknown = None if is_known(curve) and not _has_pieces(curve) else curve
    verdict = never_negative(lambda x: slope(curve, x), low, high, effort, unknown)
    verdict = verdict if unknown is None else _with_jumps(curve, verdict, low, high)
    return _checked(verdict, curve, low, high)


def _has_pieces(curve: Any) -> bool:
    """Whether a curve of the library may fall at a knot."""
    return isinstance(curve, Piecewise) or any(map(_has_pieces, parts_of(curve)))


def _checked(verdict: Verdict, curve: Curve, low: float, high: float) -> Verdict:
    return _with_evidence(verdict, lambda cuts: evidence.pieces(curve, curve, cuts), low, high)


def _with_evidence(verdict: Verdict, found: Callable[[Iterable[float]], Any], low: float, high: float) -> Verdict:
    """A verdict that the checker accepts, with its evidence; otherwise nothing is known."""
    if not (verdict.holds or verdict.stored):
        return verdict
    try:
        proof = found((low, *verdict.cuts, high))
    except evidence.Unverified as error:
        return replace(verdict, left=[(low, high)], unverified=str(error))
    return replace(verdict, evidence=(*verdict.evidence, proof), stored=False)


def _mapped(verdict: Verdict, curve: Affine) -> Verdict:
    """A verdict about x as one about z."""

    def back(x: float | None) -> Any:
        return None if x is None else curve.beta + x / curve.alpha

    return replace(
        verdict,
        negative=back(verdict.negative),
        at_most=curve.gain * curve.alpha * verdict.at_most,
        left=[(back(a), back(b)) for a, b in verdict.left],
        touched=set(map(back, verdict.touched)),
        jump=back(verdict.jump),
        fall=curve.gain * verdict.fall,
    )


def _by_structure(curve: Curve, low: float, high: float) -> Verdict:
    return Verdict(evidence=(evidence.Structure(curve, low, high),))


def _search_composite(curve: CompositeSigmoid, low: float, high: float, effort: Effort) -> Verdict:
    q = curve.scaling
    critical = q.critical(curve.gamma, curve.offset) if is_known(q) else None
    if critical is None:
        return _search_bracket(curve, low, high, effort)
    inner_low, inner_high = max(low, critical.low), min(high, critical.high)
    verdict = _search_bracket(curve, inner_low, inner_high, effort) if inner_low < inner_high else Verdict()
    if not verdict.holds or (inner_low, inner_high) == (low, high):
        return verdict
    return replace(verdict, evidence=(*verdict.evidence, evidence.Uncritical(curve, low, high)))


def _search_bracket(curve: CompositeSigmoid, low: float, high: float, effort: Effort) -> Verdict:
    q = curve.scaling
    if why_non_decreasing(q, low, high):  # Q is convex
        return _by_structure(q, low, high)
    if not is_integrated(q):  # Q is a user's, and need not belong to q
        verdict = never_negative(lambda x: derivative(curve, x), low, high, effort, curve)
        return _checked(_with_jumps(curve, verdict, low, high), curve, low, high)
    known = is_known(q) and not _has_pieces(q)
    verdict = never_negative(lambda x: bracket(curve, x), low, high, effort, None if known else curve)
    if not known:
        # where q jumps upwards so does h; but of a q that is a derivative, Q itself may jump
        verdict = _with_jumps(q if _is_continuous_integral(q) else curve, verdict, low, high)
    return _with_evidence(verdict, lambda cuts: evidence.sigmoid_pieces(curve, cuts), low, high)


def _search_inverse(curve: Inverse, low: float, high: float, effort: Effort) -> Verdict:
    """An inverse increases if its curve does, and if the library, which solves for it, made it."""
    inner = curve.curve
    verdict = search_fall(inner, inner.domain.low, inner.domain.high, effort)
    trusted = type(inner).inverse is Curve.inverse or is_known(inner)
    left = [] if trusted and verdict.holds else [(low, high)]
    return Verdict(boxes=verdict.boxes, left=left, evidence=verdict.evidence)


def is_integrated(curve: Curve) -> bool:
    """Whether the primitive of a curve is the library's own, and so an integral of it."""
    mine = is_ours(curve) or type(curve).primitive is Curve.primitive
    return mine and all(map(is_integrated, parts_of(curve)))


def _is_continuous_integral(curve: Curve) -> bool:
    parts = parts_of(curve)
    return not isinstance(curve, (FromPrimitive, FromScoreTransform)) and all(map(_is_continuous_integral, parts))


def _with_jumps(curve: Curve, verdict: Verdict, low: float, high: float) -> Verdict:
    """What a jump within a formula leaves open; slopes do not see it."""
    if verdict.negative is None:
        for point in sorted(t for t in verdict.touched if low <= t <= high):
            fall = falls_at(curve, point, low, high)
            if fall is not None:
                return replace(verdict, jump=point, fall=fall)
    return verdict


def bracket(curve: CompositeSigmoid, x: Array) -> Array:
    """The factor that decides the sign of the link's slope: q' + (1 - p) q^2 / gamma."""
    q = curve.scaling
    return curve.bracket(slope(q, x), curve.logit(x), q(x))


def slope(curve: Curve, x: Array) -> Array:
    """The slope of a curve on ranges (and dual numbers of them), from its formula where only that is known."""
    own = is_library(curve)
    if own and isinstance(curve, Affine):
        return curve.gain * curve.alpha * slope(curve.curve, curve.alpha * (x - curve.beta))
    if own and isinstance(curve, Sum):
        first, *others = (slope(term, x) for term in curve.curves)
        return sum(others, first)
    if own and isinstance(curve, Capped):
        return _capped_slope(curve, x)
    if own and isinstance(curve, CompositeSigmoid) and is_integrated(curve.scaling):
        return sigmoid(curve.logit(x)) * bracket(curve, x)
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
    return hull(x, 0.0) if not isinstance(x, Dual) else Dual(_or_zero(x.value), x.tangent + UNDECIDED.any_slope)


def keeps_sign(curve: Curve, sign: float, low: float, high: float, effort: Effort) -> Verdict:
    """Whether sign * curve is never negative between two scores."""
    unknown = None if is_known(curve) else curve
    verdict = never_negative(lambda x: sign * curve(x), low, high, effort, unknown)
    for point in sorted(verdict.touched):  # at a jump the value itself counts
        if verdict.negative is None and not (sign * curve(box(point, point))).low >= 0:
            return replace(verdict, jump=point)
    return verdict
