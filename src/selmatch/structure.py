"""Proofs without computation: what is known of a curve from the parts it is made of."""

from __future__ import annotations

import dataclasses
import itertools
import math
from fractions import Fraction
from typing import Any

from selmatch.algebra import Affine, Capped, Inverse, Piecewise, Sum
from selmatch.composite import CompositeSigmoid
from selmatch.curve import Curve
from selmatch.curves import AbsPower, Constant, Cosh, Identity, Polynomial
from selmatch.formula import Formula


def is_ours(curve: Any) -> bool:
    """Whether the class of a curve is the library's own."""
    return type(curve).__module__.startswith("selmatch.")


def is_library(curve: Any) -> bool:
    """Whether a curve itself is the library's own, and not only a formula."""
    return is_ours(curve) and not curve.only_a_formula


def parts_of(curve: Any) -> tuple[Any, ...]:
    """The curves that a curve is made of."""
    values = [getattr(curve, field.name) for field in dataclasses.fields(curve)]
    parts = [part for value in values for part in (value if isinstance(value, tuple) else (value,))]
    return tuple(part for part in parts if isinstance(part, Curve))


def is_known(curve: Any) -> bool:
    """Whether what a curve declares of itself is the library's own, and so a proof; a user's declaration is none."""
    return is_library(curve) and all(map(is_known, parts_of(curve)))


def why_non_decreasing(curve: Curve, low: float, high: float) -> str | None:
    """Why a curve never decreases between two scores, or None if its parts do not say so."""
    if isinstance(curve, Formula) and is_ours(curve) and curve.increasing:
        return "a composition of functions that never decrease"
    if not is_library(curve):
        return None
    if isinstance(curve, Affine):
        return why_non_decreasing(curve.curve, *outwards(curve, low, high))
    if isinstance(curve, Capped):
        caps = (
            low if curve.low is None else max(low, curve.low),
            high if curve.high is None else min(high, curve.high),
        )
        return why_non_decreasing(curve.curve, *caps) if caps[0] < caps[1] else "constant beyond its cap"
    if isinstance(curve, Sum):
        reasons = [why_non_decreasing(term, low, high) for term in curve.curves]
        return f"a sum of curves that never decrease: {_names(curve.curves)}" if all(reasons) else None
    if isinstance(curve, Piecewise):
        segments = zip(curve.pieces, curve.knots, curve.knots[1:], strict=False)
        reasons = [why_non_decreasing(piece, a, b) for piece, a, b in segments]
        joints = zip(curve.knots[1:], curve.pieces, curve.pieces[1:], strict=False)
        joined = all(_joins(t, before, after) for t, before, after in joints)
        return "pieces that never decrease, joined without a fall" if joined and all(reasons) else None
    if isinstance(curve, CompositeSigmoid):
        return _why_composite(curve, low, high)
    if isinstance(curve, Polynomial):
        rises = polynomial_rises(curve, low, high)
        return "its derivative has no negative value, in exact rational arithmetic" if rises else None
    if isinstance(curve, Inverse):
        inner = curve.curve
        known = is_known(inner) and why_non_decreasing(inner, inner.domain.low, inner.domain.high)
        return "the inverse of a curve that increases" if known else None
    if curve.increases_on(low, high) is True:
        return f"{type(curve).__name__} never decreases" + ("" if curve.increasing is True else " there")
    return None


def _joins(t: float, before: Curve, after: Curve) -> bool:
    """Whether one piece certainly does not end above the start of the next."""
    exact = [_exactly(piece, t) for piece in (before, after)]
    if None not in exact:
        return exact[1] >= exact[0]  # type: ignore[operator]
    low, high = float(before(t)), float(after(t))
    return high - low > 1e-9 * (abs(low) + abs(high))  # more than rounding


def _exactly(piece: Curve, t: float) -> Fraction | None:
    """The value of a polynomial piece, as a fraction; None for other curves."""
    if type(piece) is Identity:
        return Fraction(t)
    if type(piece) is Constant:
        return Fraction(piece.value)
    if type(piece) is Polynomial:
        x = Fraction(t) - Fraction(piece.origin)
        return sum((Fraction(c) * x**k for k, c in enumerate(piece.coefficients)), Fraction(0))
    return None


def outwards(curve: Affine, low: float, high: float) -> tuple[float, float]:
    """Scores in the inner curve's x, rounded away from each other where they must be rounded."""
    domain = curve.curve.domain
    return max(_placed(curve, low, -math.inf), domain.low), min(_placed(curve, high, math.inf), domain.high)


def _placed(curve: Affine, z: float, towards: float) -> float:
    if math.isinf(z):
        return z
    exact = Fraction(curve.alpha) * (Fraction(z) - Fraction(curve.beta))
    try:
        x = float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf
    beyond = Fraction(x) <= exact if towards < 0 else Fraction(x) >= exact
    return x if beyond else math.nextafter(x, towards)


def _names(curves: Any) -> str:
    names = [_innermost(curve) for curve in curves]
    return ", ".join(dict.fromkeys(names))


def _innermost(curve: Curve) -> str:
    return _innermost(curve.curve) if isinstance(curve, (Affine, Capped)) else type(curve).__name__


def _why_composite(curve: CompositeSigmoid, low: float, high: float) -> str | None:
    reason = why_non_decreasing(curve.scaling, low, high)
    if reason:
        return f"Q is convex ({reason}), and a convex Q makes the composite Sigmoid convex"
    if curve.offset == 0.0 and _corollary_holds(curve.scaling, Fraction(curve.gamma)):
        return f"gamma = {curve.gamma:g} is small enough for {_innermost(curve.scaling)}, by a corollary of the paper"
    return None


def _corollary_holds(scaling: Curve, gamma: Fraction) -> bool:
    """Whether the paper proves that a scaling which is not increasing is convex up to this gamma, or a larger one."""
    if isinstance(scaling, Affine) and is_library(scaling):
        return _corollary_holds(scaling.curve, gamma * Fraction(scaling.alpha) / Fraction(scaling.gain))
    if type(scaling) is AbsPower and scaling.d >= 1.0:  # c >= max(sqrt(2 gamma d), gamma d - 1/2)
        c, d = Fraction(scaling.c), Fraction(scaling.d)
        return c * c >= 2 * gamma * d and c >= gamma * d - Fraction(1, 2)
    return type(scaling) is Cosh and 2 * gamma * gamma <= 1


# ----------------------------------------------------------------------------------------------------- polynomials


#: degrees up to which polynomials are decided by exact arithmetic, whose numbers grow with every step
MOST_DEGREE = 12
MOST_HALVINGS = 100


def polynomial_rises(curve: Polynomial, low: float, high: float) -> bool | None:
    """Whether a polynomial never decreases between two scores, in exact arithmetic; None if halving does not decide."""
    slope = _trimmed([k * Fraction(c) for k, c in enumerate(curve.coefficients)][1:])
    if not slope:
        return True
    if len(slope) > MOST_DEGREE:
        return None
    slope = _without_squares(slope)
    origin = Fraction(curve.origin)
    # beyond this all derivatives keep their sign
    reach = 1 + max((abs(c / slope[-1]) for c in slope[:-1]), default=Fraction(0))
    left = -reach if math.isinf(low) else Fraction(low) - origin
    right = reach if math.isinf(high) else Fraction(high) - origin
    if math.isinf(low) and min(_shifted(slope, left, -1)) < 0:
        return False
    if math.isinf(high) and min(_shifted(slope, right, 1)) < 0:
        return False
    return _bernstein_sign(slope, left, right) if left < right else True


def _trimmed(coefficients: list[Fraction]) -> list[Fraction]:
    while coefficients and coefficients[-1] == 0:
        coefficients = coefficients[:-1]
    return coefficients


def _divided(p: list[Fraction], q: list[Fraction]) -> tuple[list[Fraction], list[Fraction]]:
    """Quotient and rest of two polynomials."""
    rest, quotient = list(p), [Fraction(0)] * max(len(p) - len(q) + 1, 0)
    for i in reversed(range(len(quotient))):
        quotient[i] = rest[i + len(q) - 1] / q[-1]
        for j, c in enumerate(q):
            rest[i + j] -= quotient[i] * c
    return quotient, _trimmed(rest[: len(q) - 1])


def _without_squares(p: list[Fraction]) -> list[Fraction]:
    """A polynomial with the sign of p everywhere and no multiple factors: where p only touches 0 it does not."""
    derivative = _trimmed([k * c for k, c in enumerate(p)][1:])
    a, b = p, derivative
    while b:
        a, b = b, _divided(a, b)[1]
    if len(a) <= 1:  # no multiple roots
        return p
    # p = f1 f2^2 f3^3 ..., its gcd with p' is f2 f3^2 ...: p / gcd = f1 f2 f3 ..., and the sign is that of f1 f3 ...
    all_roots = _divided(p, a)[0]
    multiple = _without_squares(a)  # f2 f4 ...
    sign = _divided(all_roots, multiple)
    return sign[0] if not sign[1] else p


def _shifted(coefficients: list[Fraction], start: Fraction, way: int) -> list[Fraction]:
    """Coefficients of p(start + way * t) in powers of t."""
    c = list(coefficients)
    for first in range(len(c)):
        for i in range(len(c) - 2, first - 1, -1):
            c[i] += start * c[i + 1]
    return [value * way**k for k, value in enumerate(c)]


def _bernstein_sign(coefficients: list[Fraction], low: Fraction, high: Fraction) -> bool | None:
    """Whether a polynomial is never negative on [low, high]: its Bernstein coefficients say so."""
    n, width = len(coefficients) - 1, high - low
    power = [c * width**k for k, c in enumerate(_shifted(coefficients, low, 1))]
    bernstein: list[Any] = [
        sum(Fraction(math.comb(i, k), math.comb(n, k)) * power[k] for k in range(i + 1)) for i in range(n + 1)
    ]
    waiting, halvings = [bernstein], 0
    while waiting:
        b = waiting.pop()
        if b[0] < 0 or b[-1] < 0:
            return False
        if min(b) >= 0:
            continue
        halvings += 1
        if halvings > MOST_HALVINGS:
            return None
        left, right, row = [b[0]], [b[-1]], b
        while len(row) > 1:
            row = [(p + q) / 2 for p, q in itertools.pairwise(row)]
            left.append(row[0])
            right.append(row[-1])
        waiting += [left, right[::-1]]
    return True
