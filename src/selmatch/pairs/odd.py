"""What of a link counts over all ordered pairs: its odd part, as sums that fast algorithms know.

The pairs (i, j) and (j, i) have opposite differences, so the even part of a link cancels. What is left is written as
multiples of ``sinh(alpha x)``, a polynomial, and a piecewise polynomial, wherever the curve is made of such parts.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple

from selmatch.algebra import Affine, Capped, Piecewise, Sum
from selmatch.curve import Curve
from selmatch.curves import (
    AntiExp,
    Constant,
    Cosh,
    Exp,
    Huber,
    Identity,
    Polynomial,
    ReLU,
    Sign,
    SignedPower,
    Sinh,
    SmeLU,
    Staircase,
    Step,
)
from selmatch.drawing import FromSensitivity
from selmatch.functions import cosh, exp, is_number, sinh
from selmatch.parameters import has_plain_numbers

#: the highest degree of polynomials that are summed by moments: beyond, the moments cancel
HIGHEST_DEGREE = 7

Coefficients = list[Any]


class Exponential(NamedTuple):
    """The term ``gain * sinh(alpha * x)``."""

    alpha: Any
    gain: Any


class HalfLine(NamedTuple):
    """A piecewise polynomial that is odd, given for x > 0.

    Piece k holds for breaks[k] < x <= breaks[k + 1], in powers of x - breaks[k].
    """

    #: from 0 upwards
    breaks: tuple[float, ...]
    #: of the link
    link: tuple[tuple[float, ...], ...]
    #: of its primitive, which is 0 at 0
    primitive: tuple[tuple[float, ...], ...]
    #: value at each break minus the limit from below: not 0 at some jumps
    excess: tuple[float, ...]


class OddPart(NamedTuple):
    """The odd part of a link as a sum."""

    exponentials: tuple[Exponential, ...]
    #: coefficients of x, x^3
    polynomial: tuple[Any, Any]
    pieces: HalfLine | None


class NotKnown(Exception):
    """A curve has parts that are no such sum."""


def odd_part(curve: Curve) -> OddPart | None:
    """The odd part of a curve, or None if it is no sum of exponentials and (piecewise) polynomials."""
    try:
        return _of_plain(curve) if has_plain_numbers(curve) else _odd_part(curve)
    except NotKnown:
        return None


# what torch.compiler.assume_constant_result does: the terms of a link are found before a graph is made of them
odd_part._dynamo_marked_constant = True  # type: ignore[attr-defined]


@functools.lru_cache(maxsize=256)
def _of_plain(curve: Curve) -> OddPart:
    return _odd_part(curve)


def _odd_part(curve: Curve) -> OddPart:
    exponentials: list[Exponential] = []
    straight: Coefficients = []
    kinked: list[Pieces] = []
    for placed in _terms(curve):
        rate = _RATES.get(type(placed.curve))
        if rate is not None:
            exponentials.append(Exponential(placed.alpha, placed.gain * rate(placed.alpha * placed.beta)))
            continue
        polynomial = _polynomial(placed.curve)
        if polynomial is not None:
            straight = _added(straight, placed.polynomial(polynomial))
        else:
            kinked.append(placed.pieces())
    if len(_trimmed(_odd(straight))) > 4:
        kinked.append(Pieces((), (straight,), ()))
        straight = []
    _, c1, _, c3 = [*_odd(straight), 0, 0, 0, 0][:4]
    pieces = functools.reduce(Pieces.plus, kinked).half_line() if kinked else None
    return OddPart(tuple(exponentials), (_as_float(c1), _as_float(c3)), pieces)


#: curve -> the factor of sinh(x) in the odd part of its shift by b
_RATES: dict[type, Callable[[Any], Any]] = {
    Sinh: cosh,
    Exp: lambda b: exp(-b),
    AntiExp: exp,
    Cosh: lambda b: -sinh(b),
}


class _Placed(NamedTuple):
    """The curve ``gain * g(alpha * (x - beta))``."""

    curve: Curve
    alpha: Any = 1.0
    beta: Any = 0.0
    gain: Any = 1.0

    def polynomial(self, coefficients: Coefficients) -> Coefficients:
        """A polynomial in g's argument, in powers of x."""
        alpha, beta, gain = self[1:]
        if all(map(is_number, self[1:])):
            alpha, beta, gain = Fraction(alpha), Fraction(beta), Fraction(gain)
        else:  # arrays of a framework do not know fractions
            coefficients = [_as_float(c) for c in coefficients]
        return [gain * c for c in _composed(coefficients, alpha, -alpha * beta)]

    def pieces(self) -> Pieces:
        if not all(map(is_number, self[1:])) or not has_plain_numbers(self.curve):
            raise NotKnown
        inner = _pieces(self.curve)
        alpha, beta, gain = (Fraction(v) for v in self[1:])
        return Pieces(
            tuple(beta + t / alpha for t in inner.breaks),
            tuple([gain * c for c in _composed(p, alpha, -alpha * beta)] for p in inner.polynomials),
            tuple(gain * value for value in inner.at),
        )


def _terms(curve: Curve) -> Iterator[_Placed]:
    """The terms of nested sums and affine maps."""
    if type(curve) is Sum:
        for term in curve.curves:
            yield from _terms(term)
    elif type(curve) is Affine:
        for inner in _terms(curve.curve):
            yield _Placed(
                inner.curve,
                inner.alpha * curve.alpha,
                curve.beta + inner.beta / curve.alpha,
                curve.gain * inner.gain,
            )
    else:
        yield _Placed(curve)


# -------------------------------------------------------------------------------------------------------- polynomials


def _composed(coefficients: Coefficients, slope: Any, start: Any) -> Coefficients:
    """Coefficients of p(slope * x + start)."""
    result: Coefficients = []
    for c in reversed(coefficients):
        result = _added([start * r for r in result], [c, *(slope * r for r in result)])
    return result


def _added(a: Coefficients, b: Coefficients) -> Coefficients:
    return [p + q for p, q in itertools.zip_longest(a, b, fillvalue=0)]


def _trimmed(coefficients: Coefficients) -> Coefficients:
    while coefficients and isinstance(coefficients[-1], (int, float, Fraction)) and coefficients[-1] == 0:
        coefficients = coefficients[:-1]
    return coefficients


def _odd(coefficients: Coefficients) -> Coefficients:
    return [c if k % 2 else 0 for k, c in enumerate(coefficients)]


def _value(coefficients: Coefficients, x: Any) -> Any:
    return functools.reduce(lambda total, c: total * x + c, reversed(coefficients), 0)


def _as_float(value: Any) -> Any:
    return float(value) if isinstance(value, (int, Fraction)) else value


def _polynomial(curve: Any) -> Coefficients | None:
    """Coefficients of a curve that is a polynomial by its type."""
    kind = type(curve)
    if kind is Identity:
        return [0, 1]
    if kind is Constant:
        return [_exact(curve.value)]
    if kind is SignedPower and curve.d % 2 == 1 and curve.d <= HIGHEST_DEGREE:
        return [0] * int(curve.d) + [1]
    if kind is Polynomial and len(curve.coefficients) <= HIGHEST_DEGREE + 1:
        return _composed([Fraction(c) for c in curve.coefficients], 1, -Fraction(curve.origin))
    return None


def _exact(value: Any) -> Any:
    return Fraction(value) if is_number(value) else value


# --------------------------------------------------------------------------------------------- piecewise polynomials


class Pieces(NamedTuple):
    """A piecewise polynomial in exact numbers: a polynomial before, between and behind the breaks, and values there."""

    breaks: tuple[Fraction, ...]
    polynomials: tuple[Coefficients, ...]
    at: tuple[Fraction, ...]

    def __call__(self, x: Fraction) -> Fraction:
        i = bisect.bisect_left(self.breaks, x)
        if i < len(self.breaks) and self.breaks[i] == x:
            return self.at[i]
        return Fraction(_value(self.polynomials[i], x))

    def behind(self, x: Fraction) -> Coefficients:
        """The polynomial just above x."""
        return self.polynomials[bisect.bisect_right(self.breaks, x)]

    def before(self, x: Fraction) -> Coefficients:
        """The polynomial just below x."""
        return self.polynomials[bisect.bisect_left(self.breaks, x)]

    def plus(self, other: Pieces) -> Pieces:
        breaks = tuple(sorted({*self.breaks, *other.breaks}))
        first = self.polynomials[0], other.polynomials[0]
        pairs = [first, *((self.behind(t), other.behind(t)) for t in breaks)]
        return Pieces(breaks, tuple(_added(a, b) for a, b in pairs), tuple(self(t) + other(t) for t in breaks))

    def restricted(self, low: Fraction | None, high: Fraction | None) -> Pieces:
        """Constant beyond low and high, where the values are those there."""
        inner = [t for t in self.breaks if (low is None or t > low) and (high is None or t < high)]
        breaks = [t for t in (low, *inner, high) if t is not None]
        polynomials = [self.polynomials[0] if low is None else [self(low)]]
        polynomials += [self.behind(t) for t in breaks]
        if high is not None:
            polynomials[-1] = [self(high)]
        return Pieces(tuple(breaks), tuple(polynomials), tuple(map(self, breaks)))

    def half_line(self) -> HalfLine:
        """The odd part, for x > 0, in floats."""
        breaks = sorted({Fraction(0), *map(abs, self.breaks)})
        links: list[Coefficients] = []
        excess = [Fraction(0)]
        for t in breaks:
            mirrored = [c if k % 2 else -c for k, c in enumerate(self.before(-t))]
            odd = [Fraction(c) / 2 for c in _added(self.behind(t), mirrored)]
            if links:
                excess.append((self(t) - self(-t)) / 2 - _value(links[-1], t))
            links.append(odd)
        local = [_trimmed(_composed(p, 1, t)) or [Fraction(0)] for p, t in zip(links, breaks, strict=True)]
        if max(map(len, local)) > HIGHEST_DEGREE + 1:
            raise NotKnown
        primitives, level = [], Fraction(0)
        for i, p in enumerate(local):
            primitives.append([level, *(c / (k + 1) for k, c in enumerate(p))])
            if i + 1 < len(breaks):
                level = Fraction(_value(primitives[-1], breaks[i + 1] - breaks[i]))
        return HalfLine(
            tuple(map(float, breaks)),
            tuple(tuple(map(float, p)) for p in local),
            tuple(tuple(map(float, p)) for p in primitives),
            tuple(map(float, excess)),
        )


def _clipped(low: float, high: float, slope: Any, start: Any) -> Pieces:
    """The line ``slope * x + start`` between low and high, constant beyond."""
    return Pieces((), ([start, slope],), ()).restricted(Fraction(low), Fraction(high))


def _stairs(thresholds: tuple[float, ...], levels: list[Fraction], at: list[Fraction]) -> Pieces:
    return Pieces(tuple(map(Fraction, thresholds)), tuple([level] for level in levels), tuple(at))


def _of_staircase(curve: Staircase) -> Pieces:
    levels = [*itertools.accumulate(map(Fraction, curve.jumps), initial=Fraction(curve.base))]
    return _stairs(curve.thresholds, levels, levels[:-1])


def _of_power(curve: SignedPower) -> Pieces:
    if curve.d % 1 or curve.d > HIGHEST_DEGREE:
        raise NotKnown
    up = [Fraction(0)] * int(curve.d) + [Fraction(1)]
    return Pieces((Fraction(0),), ([-c for c in up], up), (Fraction(0),))


def _of_capped(curve: Capped) -> Pieces:
    caps = (None if cap is None else Fraction(cap) for cap in (curve.low, curve.high))
    return _pieces(curve.curve).restricted(*caps)


def _of_piecewise(curve: Piecewise) -> Pieces:
    segments = zip(curve.pieces, curve.knots, curve.knots[1:], strict=False)
    first, *others = (_pieces(piece).restricted(Fraction(a), Fraction(b)) for piece, a, b in segments)
    for part in others:  # a knot belongs to the piece before it
        first = Pieces(
            (*first.breaks, *part.breaks[1:]),
            (*first.polynomials[:-1], *part.polynomials[1:]),
            (*first.at, *part.at[1:]),
        )
    return first


def _of_drawn(curve: FromSensitivity) -> Pieces:
    """The integral of the sensitivity, from Bernstein's form to powers."""
    breaks, polynomials, level = [], [], Fraction(0)
    for low, high, coefficients in curve._drawn:
        origin = Fraction(low if math.isfinite(low) else high)
        width = Fraction(high) - Fraction(low) if math.isfinite(low) and math.isfinite(high) else Fraction(1)
        slope = _from_bernstein([Fraction(c) for c in coefficients], width)
        local = [level, *(c / (k + 1) for k, c in enumerate(slope))]
        polynomials.append(_composed(local, 1, -origin))
        if math.isfinite(high):
            breaks.append(Fraction(high))
            level = Fraction(_value(polynomials[-1], breaks[-1]))
    return Pieces(tuple(breaks), tuple(polynomials), tuple(map(_value, polynomials, breaks)))


def _from_bernstein(coefficients: list[Fraction], width: Fraction) -> Coefficients:
    n = len(coefficients) - 1
    result: Coefficients = []
    for i, c in enumerate(coefficients):
        falling = [(-1) ** k * math.comb(n - i, k) for k in range(n - i + 1)]
        result = _added(result, [0] * i + [c * math.comb(n, i) * f for f in falling])
    return [c / width**k for k, c in enumerate(result)]


_PIECES: dict[type, Callable[[Any], Pieces]] = {
    Huber: lambda curve: _clipped(-curve.c, curve.c, Fraction(1), Fraction(0)),
    SmeLU: lambda curve: _clipped(-curve.c, curve.c, 1 / (2 * Fraction(curve.c)), Fraction(1, 2)),
    ReLU: lambda curve: Pieces((), ([Fraction(0), Fraction(1)],), ()).restricted(Fraction(0), None),
    Step: lambda curve: _stairs((0.0,), [Fraction(0), Fraction(1)], [Fraction(0)]),
    Sign: lambda curve: _stairs((0.0,), [Fraction(-1), Fraction(1)], [Fraction(0)]),
    Staircase: _of_staircase,
    SignedPower: _of_power,
    Capped: _of_capped,
    Piecewise: _of_piecewise,
    FromSensitivity: _of_drawn,
}


def _pieces(curve: Curve) -> Pieces:
    """A curve of plain numbers as a piecewise polynomial."""
    if type(curve) in (Sum, Affine):
        return functools.reduce(Pieces.plus, (term.pieces() for term in _terms(curve)))
    polynomial = _polynomial(curve)
    if polynomial is not None:
        return Pieces((), ([Fraction(c) for c in polynomial],), ())
    if type(curve) not in _PIECES:
        raise NotKnown
    return _PIECES[type(curve)](curve)
