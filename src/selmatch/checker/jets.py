"""Enclosures of value, slope and bend of functions, and how they combine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from flint import arb

from selmatch.checker.spans import (
    EVERYTHING,
    INFINITY,
    NOTHING,
    ONE,
    ZERO,
    Span,
    Unverified,
    cube,
    even,
    exactly,
    greatest,
    hull,
    inverse,
    is_nothing,
    lowest,
    minus,
    outwards,
    plus,
    rising,
    scaled,
    size_of,
    square,
    times,
)


class Jet(NamedTuple):
    """Value, slope and, where it is wanted, bend of a part of the formula on a piece."""

    value: Span
    slope: Span
    bend: Span | None

    def plus(self, other: Jet) -> Jet:
        bend = None if self.bend is None or other.bend is None else plus(self.bend, other.bend)
        return Jet(plus(self.value, other.value), plus(self.slope, other.slope), bend)

    def minus(self) -> Jet:
        return Jet(minus(self.value), minus(self.slope), self.bend and minus(self.bend))

    def times(self, other: Jet) -> Jet:
        if self is other:
            return self.through(*SMOOTH["square"](self.value))
        slope = plus(times(self.value, other.slope), times(self.slope, other.value))
        if self.bend is None or other.bend is None:
            return Jet(times(self.value, other.value), slope, None)
        outer = plus(times(self.value, other.bend), times(self.bend, other.value))
        cross = scaled(times(self.slope, other.slope), 2.0)
        return Jet(times(self.value, other.value), slope, plus(outer, cross))

    def through(self, value: Span, first: Span, second: Callable[[], Span]) -> Jet:
        """A function of it, from the function's own value, slope and bend there."""
        slope = times(first, self.slope)
        if self.bend is None:
            return Jet(value, slope, None)
        return Jet(value, slope, plus(times(second(), square(self.slope)), times(first, self.bend)))


def constant(value: Span) -> Jet:
    return Jet(value, NOTHING, NOTHING)


def _exp(x: Span) -> Span:
    return rising(arb.exp, x, ZERO, INFINITY)


def _bell(x: Span) -> Span:
    """1 / cosh(x)^2, which falls with |x|."""
    return minus(rising(lambda t: -(t.sech() * t.sech()), size_of(x), -ONE, ZERO))


def _tanh(x: Span) -> Span:
    return rising(arb.tanh, x, -ONE, ONE)


def _sigmoid(x: Span) -> Span:
    return rising(lambda t: ONE / (ONE + (-t).exp()), x, ZERO, ONE)


def _ball(x: Span) -> Any:
    return x.low.union(x.high) if x.low.is_finite() and x.high.is_finite() else None


def _wave(function: Callable[[Any], Any], x: Span) -> Span:
    ball = _ball(x)
    if ball is None:
        return Span(-ONE, ONE)
    found = function(ball)
    return Span(greatest([found.lower(), -ONE]), lowest([found.upper(), ONE]))


def _root(x: Span) -> Span:
    return rising(arb.sqrt, x, ZERO, INFINITY)


def _one_plus_square(x: Span) -> Span:
    return plus(square(x), exactly(1.0))


def _hypot(x: Span) -> Span:
    return _root(_one_plus_square(x))


Smooth = tuple[Span, Span, Callable[[], Span]]


def _smooth_functions() -> dict[str, Callable[[Span], Smooth]]:
    """Functions that are smooth everywhere, with their slopes and bends."""

    def tanh(x: Span) -> Smooth:
        value, slope = _tanh(x), _bell(x)
        return value, slope, lambda: scaled(times(value, slope), -2.0)

    def sigmoid(x: Span) -> Smooth:
        half = scaled(x, 0.5)
        slope = scaled(_bell(half), 0.25)
        return _sigmoid(x), slope, lambda: minus(times(slope, _tanh(half)))

    def softplus(x: Span) -> Smooth:
        value = rising(lambda t: t.exp().log1p() if t < 0 else t + (-t).exp().log1p(), x, ZERO, INFINITY)
        slope, bend, _ = sigmoid(x)
        return value, slope, lambda: bend

    def arctan(x: Span) -> Smooth:
        slope = inverse(_one_plus_square(x))
        half = arb.pi() / 2
        value = rising(arb.atan, x) if _ball(x) is not None else outwards(-half, half)
        return value, slope, lambda: scaled(times(x, square(slope)), -2.0)

    def arcsinh(x: Span) -> Smooth:
        slope = inverse(_hypot(x))
        return rising(arb.asinh, x, -INFINITY, INFINITY), slope, lambda: minus(times(x, cube(slope)))

    def hypot(x: Span) -> Smooth:
        value = _hypot(x)
        slope = rising(lambda t: t / (t * t + 1).sqrt(), x, -ONE, ONE)
        return value, slope, lambda: cube(inverse(value))

    def phi(x: Span) -> Smooth:
        slope = rising(arb.expm1, x, -ONE, INFINITY)
        ends = [rising(lambda t: t.expm1() - t, Span(end, end)) if end.is_finite() else EVERYTHING for end in x]
        value = hull(*ends)
        least = greatest([ZERO, value.low]) if x.low > 0 or x.high < 0 else ZERO
        return Span(least, value.high), slope, lambda: _exp(x)

    def exp(x: Span) -> Smooth:
        value = _exp(x)
        return value, value, lambda: value

    def expm1(x: Span) -> Smooth:
        slope = _exp(x)
        return rising(arb.expm1, x, -ONE, INFINITY), slope, lambda: slope

    def either(function: Callable[[Span], Span], slope: Callable[[Span], Span]) -> Callable[[Span], Smooth]:
        """Of two functions that are each other's slope."""

        def smooth(x: Span) -> Smooth:
            value = function(x)
            return value, slope(x), lambda: value

        return smooth

    def sinh(x: Span) -> Span:
        return rising(arb.sinh, x, -INFINITY, INFINITY)

    def cosh(x: Span) -> Span:
        return even(arb.cosh, x, ONE)

    def sine(x: Span) -> Smooth:
        value = _wave(arb.sin, x)
        return value, _wave(arb.cos, x), lambda: minus(value)

    def cosine(x: Span) -> Smooth:
        value = _wave(arb.cos, x)
        return value, minus(_wave(arb.sin, x)), lambda: minus(value)

    def omega(x: Span) -> Smooth:
        value, slope, _ = sine(x)
        return plus(x, minus(value)), plus(exactly(1.0), minus(slope)), lambda: value

    return {
        "exp": exp,
        "expm1": expm1,
        "sinh": either(sinh, cosh),
        "cosh": either(cosh, sinh),
        "tanh": tanh,
        "arctan": arctan,
        "arcsinh": arcsinh,
        "sigmoid": sigmoid,
        "softplus": softplus,
        "square": lambda x: (square(x), scaled(x, 2.0), lambda: exactly(2.0)),
        "hypot1": hypot,
        "sin": sine,
        "cos": cosine,
        "omega": omega,
        "phi": phi,
    }


SMOOTH = _smooth_functions()


def function_of(name: str) -> Callable[..., Jet]:
    """A function of jets; its first argument requires that a jet is positive."""
    smooth = SMOOTH.get(name)
    if smooth is not None:
        return lambda _, x: x.through(*smooth(x.value))
    found = PARTIAL.get(name)
    if found is None:
        raise Unverified(f"the checker does not know {name}")
    return found


def _reciprocal(positive: Any, x: Jet) -> Jet:
    if x.value.high <= 0 and x.value.low < 0:
        return _reciprocal(positive, x.minus()).minus()
    positive(x)
    value = inverse(x.value)
    return x.through(value, minus(square(value)), lambda: scaled(cube(value), 2.0))


def _log(positive: Any, x: Jet) -> Jet:
    positive(x)
    slope = inverse(x.value)
    value = outwards(-INFINITY if x.value.low.is_zero() else x.value.low.log(),
                  INFINITY if x.value.high == INFINITY else x.value.high.log())  # fmt: skip
    return x.through(value, slope, lambda: minus(square(slope)))


def _log1p(positive: Any, x: Jet) -> Jet:
    shifted = x.plus(constant(exactly(1.0)))
    positive(shifted)
    slope = inverse(Span(greatest([shifted.value.low, ZERO]), shifted.value.high))
    low = -INFINITY if not x.value.low > -1 else x.value.low.log1p()
    value = outwards(low, INFINITY if x.value.high == INFINITY else x.value.high.log1p())
    return x.through(value, slope, lambda: minus(square(slope)))


def _sqrt(positive: Any, x: Jet) -> Jet:
    positive(x, zero=True)
    value = _root(x.value)
    slope = scaled(inverse(value), 0.5)
    return x.through(value, slope, lambda: scaled(times(inverse(x.value), slope), -0.5))


def _power(positive: Any, x: Jet, d: Jet) -> Jet:
    if not (d.value.low == d.value.high and is_nothing(d.slope) and is_nothing(d.bend or NOTHING)):
        return smoothly("exp", d.times(_log(positive, x)))
    exponent = d.value.low
    if exponent < 0:
        return _reciprocal(positive, _power(positive, x, d.minus()))
    n = exponent.unique_fmpz()
    if n is None:
        positive(x, zero=True)

    def power(k: int) -> Span:
        return _to_the(exponent - k, x.value) if n is None else _whole_power(max(int(n) - k, 0), x.value)

    factor, second = exponent, exponent * (exponent - 1)
    return x.through(
        power(0), times(outwards(factor, factor), power(1)), lambda: times(outwards(second, second), power(2))
    )


def _to_the(exponent: Any, x: Span) -> Span:
    """x^d for a score that is not negative."""
    if exponent < 0:
        return inverse(_to_the(-exponent, x))
    return rising(lambda t: ZERO if t.is_zero() else t**exponent, x, ZERO, INFINITY)


def _whole_power(n: int, x: Span) -> Span:
    if n % 2 == 0:
        return even(lambda t: t**n, x, ONE if n == 0 else ZERO)
    return rising(lambda t: t**n, x, -INFINITY, INFINITY)


def smoothly(name: str, x: Jet) -> Jet:
    return x.through(*SMOOTH[name](x.value))


def _arcsin(positive: Any, x: Jet) -> Jet:
    one = constant(exactly(1.0))
    room = one.plus(x.times(x).minus())
    positive(room)
    root = _root(room.value)
    slope = inverse(root)
    half = arb.pi() / 2
    value = outwards(
        x.value.low.asin() if x.value.low > -1 else -half, x.value.high.asin() if x.value.high < 1 else half
    )
    return x.through(value, slope, lambda: times(x.value, cube(slope)))


def _logit(positive: Any, x: Jet) -> Jet:
    return _log(positive, x).plus(_log1p(positive, x.minus()).minus())


def _arctanh(positive: Any, x: Jet) -> Jet:
    double = _log1p(positive, x).plus(_log1p(positive, x.minus()).minus())
    return double.times(constant(exactly(0.5)))


def _tan(positive: Any, x: Jet) -> Jet:
    return smoothly("sin", x).times(_reciprocal(positive, smoothly("cos", x)))


PARTIAL: dict[str, Callable[..., Jet]] = {
    "add": lambda _, x, y: x.plus(y),
    "subtract": lambda _, x, y: x.plus(y.minus()),
    "negative": lambda _, x: x.minus(),
    "multiply": lambda _, x, y: x.times(y),
    "divide": lambda positive, x, y: x.times(_reciprocal(positive, y)),
    "log": _log,
    "log1p": _log1p,
    "sqrt": _sqrt,
    "power": _power,
    "arcsin": _arcsin,
    "arctanh": _arctanh,
    "logit": _logit,
    "tan": _tan,
    "xlogy": lambda positive, x, y: x.times(_log(positive, y)),
}
