"""Intervals between exact binary numbers, rounded outwards by Arb."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

try:
    from flint import arb
except ImportError as error:
    raise ImportError(
        'selmatch.checker needs python-flint. Install it with: pip install "selmatch[proofs]".'
    ) from error

ZERO, ONE = arb(0), arb(1)
INFINITY = arb.pos_inf()


class Unverified(Exception):
    """What the checker could not see to be true."""


class TooLong(Exception):
    """More work than was allowed."""


class Span(NamedTuple):
    """All numbers between two exact binary numbers, or infinities."""

    low: Any
    high: Any


def outwards(low: Any, high: Any) -> Span:
    """Rounded outwards; what is not a number may be anything."""
    low, high = low.lower(), high.upper()
    return Span(-INFINITY if low.is_nan() else low, INFINITY if high.is_nan() else high)


def exactly(value: Any) -> Span:
    if isinstance(value, arb):
        return Span(value, value)
    if not float(value) == value:
        raise Unverified(f"{value!r} is no number that a double holds")
    at = arb(value) if math.isfinite(value) else INFINITY if value > 0 else -INFINITY
    return Span(at, at)


#: what is not known at all
EVERYTHING = Span(-INFINITY, INFINITY)
NOTHING = Span(ZERO, ZERO)


def is_nothing(x: Span) -> bool:
    return bool(x.low.is_zero() and x.high.is_zero())


def lowest(ends: Sequence[Any]) -> Any:
    result = ends[0]
    for end in ends[1:]:
        result = end if end < result else result
    return result


def greatest(ends: Sequence[Any]) -> Any:
    return -lowest([-end for end in ends])


def hull(x: Span, y: Span) -> Span:
    return Span(lowest([x.low, y.low]), greatest([x.high, y.high]))


def plus(x: Span, y: Span) -> Span:
    return outwards(x.low + y.low, x.high + y.high)


def minus(x: Span) -> Span:
    return Span(-x.high, -x.low)


def times(x: Span, y: Span) -> Span:
    if x.low >= 0:
        return outwards(
            _product(x.low if y.low >= 0 else x.high, y.low),
            _product(x.high if y.high >= 0 else x.low, y.high),
        )
    if x.high <= 0:
        return minus(times(minus(x), y))
    if y.low >= 0 or y.high <= 0:
        return times(y, x)
    lows = [_product(x.low, y.high).lower(), _product(x.high, y.low).lower()]
    highs = [_product(x.low, y.low).upper(), _product(x.high, y.high).upper()]
    return Span(lowest(lows), greatest(highs))


def _product(a: Any, b: Any) -> Any:
    """a b; 0 times an infinite bound is 0, since the numbers themselves are finite."""
    return ZERO if a.is_zero() or b.is_zero() else a * b


def inverse(x: Span) -> Span:
    """1 / x for numbers that are not 0, though 0 may be an end."""
    if x.low >= 0:
        return outwards(ZERO if x.high == INFINITY else ONE / x.high, INFINITY if x.low.is_zero() else ONE / x.low)
    if x.high <= 0:
        return minus(inverse(minus(x)))
    raise Unverified("a divisor changes its sign")


def scaled(x: Span, factor: float) -> Span:
    return times(x, exactly(factor))


def size_of(x: Span) -> Span:
    """|x|."""
    if x.low >= 0:
        return x
    return minus(x) if x.high <= 0 else Span(ZERO, greatest([-x.low, x.high]))


def rising(function: Callable[[Any], Any], x: Span, low: Any = None, high: Any = None) -> Span:
    """The values of an increasing function; ``low`` and ``high`` are its limits, which rounding must not pass."""

    def at(end: Any, limit: Any) -> Any:
        return limit if not end.is_finite() and limit is not None else function(end)

    found = outwards(at(x.low, low), at(x.high, high))
    return Span(
        found.low if low is None else greatest([found.low, low]),
        found.high if high is None else lowest([found.high, high]),
    )


def even(function: Callable[[Any], Any], x: Span, least: Any = ZERO) -> Span:
    """The values of a function that increases with |x|."""
    return rising(function, size_of(x), least, INFINITY)


def square(x: Span) -> Span:
    return even(lambda t: t * t, x)


def cube(x: Span) -> Span:
    return rising(lambda t: t * t * t, x, -INFINITY, INFINITY)
