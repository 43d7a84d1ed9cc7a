"""The checker of interval proofs: a second, small path that shares no code with the search.

A proof is a list of operations (a formula as it was traced) and scores that cut an interval into pieces. On each piece
the checker encloses value, slope and bend of the formula between exact binary numbers, rounded outwards by Arb, and
accepts only what these enclosures show. It may cut pieces further, never join them. Whatever it does not know it
refuses. It needs python-flint and nothing else of this library.
"""

from __future__ import annotations

import itertools
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
#: how many pieces are looked at for each one that was given
_MOST_PIECES = 64


class Unverified(Exception):
    """What the checker could not see to be true."""


# ----------------------------------------------------------------------------------------------------------- intervals


class Span(NamedTuple):
    """All numbers between two exact binary numbers, or infinities."""

    low: Any
    high: Any


def _span(low: Any, high: Any) -> Span:
    """Rounded outwards; what is not a number may be anything."""
    low, high = low.lower(), high.upper()
    return Span(-INFINITY if low.is_nan() else low, INFINITY if high.is_nan() else high)


def _number(value: float) -> Span:
    if math.isnan(value):
        raise Unverified("the formula holds a number that is none")
    at = arb(value) if math.isfinite(value) else INFINITY if value > 0 else -INFINITY
    return Span(at, at)


EVERYTHING = Span(-INFINITY, INFINITY)
NOTHING = Span(ZERO, ZERO)


def _least(ends: Sequence[Any]) -> Any:
    result = ends[0]
    for end in ends[1:]:
        result = end if end < result else result
    return result


def _greatest(ends: Sequence[Any]) -> Any:
    return -_least([-end for end in ends])


def _hull(x: Span, y: Span) -> Span:
    return Span(_least([x.low, y.low]), _greatest([x.high, y.high]))


def _plus(x: Span, y: Span) -> Span:
    return _span(x.low + y.low, x.high + y.high)


def _minus(x: Span) -> Span:
    return Span(-x.high, -x.low)


def _times(x: Span, y: Span) -> Span:
    if x.low >= 0:
        return _span(
            _product(x.low if y.low >= 0 else x.high, y.low),
            _product(x.high if y.high >= 0 else x.low, y.high),
        )
    if x.high <= 0:
        return _minus(_times(_minus(x), y))
    if y.low >= 0 or y.high <= 0:
        return _times(y, x)
    lows = [_product(x.low, y.high).lower(), _product(x.high, y.low).lower()]
    highs = [_product(x.low, y.low).upper(), _product(x.high, y.high).upper()]
    return Span(_least(lows), _greatest(highs))


def _product(a: Any, b: Any) -> Any:
    """a b; 0 times an infinite bound is 0, since the numbers themselves are finite."""
    return ZERO if a.is_zero() or b.is_zero() else a * b


def _inverse(x: Span) -> Span:
    """1 / x for numbers that are not 0, though 0 may be an end."""
    if x.low >= 0:
        return _span(ZERO if x.high == INFINITY else ONE / x.high, INFINITY if x.low.is_zero() else ONE / x.low)
    if x.high <= 0:
        return _minus(_inverse(_minus(x)))
    raise Unverified("a divisor changes its sign")


def _scaled(x: Span, factor: float) -> Span:
    return _times(x, _number(factor))


def _size(x: Span) -> Span:
    """|x|."""
    if x.low >= 0:
        return x
    return _minus(x) if x.high <= 0 else Span(ZERO, _greatest([-x.low, x.high]))


def _rising(function: Callable[[Any], Any], x: Span, low: Any = None, high: Any = None) -> Span:
    """The values of an increasing function; ``low`` and ``high`` are its limits, which rounding must not pass."""

    def at(end: Any, limit: Any) -> Any:
        return limit if not end.is_finite() and limit is not None else function(end)

    found = _span(at(x.low, low), at(x.high, high))
    return Span(
        found.low if low is None else _greatest([found.low, low]),
        found.high if high is None else _least([found.high, high]),
    )


def _even(function: Callable[[Any], Any], x: Span, least: Any = ZERO) -> Span:
    """The values of a function that increases with |x|."""
    return _rising(function, _size(x), least, INFINITY)


def _square(x: Span) -> Span:
    return _even(lambda t: t * t, x)


# ---------------------------------------------------------------------------------------------------------------- jets


class Jet(NamedTuple):
    """Value, slope and bend of a part of the formula on a piece."""

    value: Span
    slope: Span
    bend: Span

    def plus(self, other: Jet) -> Jet:
        return Jet(*(_plus(a, b) for a, b in zip(self, other, strict=True)))

    def minus(self) -> Jet:
        return Jet(*map(_minus, self))

    def times(self, other: Jet) -> Jet:
        cross = _scaled(_times(self.slope, other.slope), 2.0)
        if self is other:
            return Jet(_square(self.value), _scaled(_times(self.value, self.slope), 2.0),
                       _scaled(_plus(_square(self.slope), _times(self.value, self.bend)), 2.0))  # fmt: skip
        return Jet(
            _times(self.value, other.value),
            _plus(_times(self.value, other.slope), _times(self.slope, other.value)),
            _plus(_plus(_times(self.value, other.bend), _times(self.bend, other.value)), cross),
        )

    def through(self, value: Span, first: Span, second: Span) -> Jet:
        """A function of it, from the function's own value, slope and bend there."""
        bend = _plus(_times(second, _square(self.slope)), _times(first, self.bend))
        return Jet(value, _times(first, self.slope), bend)


def _is_zero(x: Jet) -> bool:
    return bool(x.value.low.is_zero() and x.value.high.is_zero())


def _constant(value: Span) -> Jet:
    return Jet(value, NOTHING, NOTHING)


def _exp(x: Span) -> Span:
    return _rising(arb.exp, x, ZERO, INFINITY)


def _bell(x: Span) -> Span:
    """1 / cosh(x)^2, which falls with |x|."""
    return _minus(_rising(lambda t: -(t.sech() * t.sech()), _size(x), -ONE, ZERO))


def _tanh(x: Span) -> Span:
    return _rising(arb.tanh, x, -ONE, ONE)


def _sigmoid(x: Span) -> Span:
    return _rising(lambda t: ONE / (ONE + (-t).exp()), x, ZERO, ONE)


def _ball(x: Span) -> Any:
    return x.low.union(x.high) if x.low.is_finite() and x.high.is_finite() else None


def _wave(function: Callable[[Any], Any], x: Span) -> Span:
    ball = _ball(x)
    if ball is None:
        return Span(-ONE, ONE)
    found = function(ball)
    return Span(_greatest([found.lower(), -ONE]), _least([found.upper(), ONE]))


def _root(x: Span) -> Span:
    return _rising(arb.sqrt, x, ZERO, INFINITY)


def _one_plus_square(x: Span) -> Span:
    return _plus(_square(x), _number(1.0))


def _hypot(x: Span) -> Span:
    return _root(_one_plus_square(x))


def _cube(x: Span) -> Span:
    return _rising(lambda t: t * t * t, x, -INFINITY, INFINITY)


def _smooth_functions() -> dict[str, Callable[[Span], tuple[Span, Span, Span]]]:
    """Functions that are smooth everywhere, with their slopes and bends."""

    def tanh(x: Span) -> tuple[Span, Span, Span]:
        return _tanh(x), _bell(x), _scaled(_times(_tanh(x), _bell(x)), -2.0)

    def sigmoid(x: Span) -> tuple[Span, Span, Span]:
        half = _scaled(x, 0.5)
        slope = _scaled(_bell(half), 0.25)
        return _sigmoid(x), slope, _minus(_times(slope, _tanh(half)))

    def softplus(x: Span) -> tuple[Span, Span, Span]:
        value = _rising(lambda t: t.exp().log1p() if t < 0 else t + (-t).exp().log1p(), x, ZERO, INFINITY)
        return value, *sigmoid(x)[:2]

    def arctan(x: Span) -> tuple[Span, Span, Span]:
        slope = _inverse(_one_plus_square(x))
        half = arb.pi() / 2
        value = _rising(arb.atan, x) if _ball(x) is not None else _span(-half, half)
        return value, slope, _scaled(_times(x, _square(slope)), -2.0)

    def arcsinh(x: Span) -> tuple[Span, Span, Span]:
        slope = _inverse(_hypot(x))
        return _rising(arb.asinh, x, -INFINITY, INFINITY), slope, _minus(_times(x, _cube(slope)))

    def hypot(x: Span) -> tuple[Span, Span, Span]:
        value = _hypot(x)
        slope = _rising(lambda t: t / (t * t + 1).sqrt(), x, -ONE, ONE)
        return value, slope, _cube(_inverse(value))

    def phi(x: Span) -> tuple[Span, Span, Span]:
        slope = _rising(arb.expm1, x, -ONE, INFINITY)
        ends = [_rising(lambda t: t.expm1() - t, Span(end, end)) if end.is_finite() else EVERYTHING for end in x]
        value = _hull(*ends)
        return Span(_greatest([ZERO, value.low]) if x.low > 0 or x.high < 0 else ZERO, value.high), slope, _exp(x)

    sinh, cosh = (lambda x: _rising(arb.sinh, x, -INFINITY, INFINITY)), (lambda x: _even(arb.cosh, x, ONE))
    sine, cosine = (lambda x: _wave(arb.sin, x)), (lambda x: _wave(arb.cos, x))
    return {
        "exp": lambda x: (_exp(x), _exp(x), _exp(x)),
        "expm1": lambda x: (_rising(arb.expm1, x, -ONE, INFINITY), _exp(x), _exp(x)),
        "sinh": lambda x: (sinh(x), cosh(x), sinh(x)),
        "cosh": lambda x: (cosh(x), sinh(x), cosh(x)),
        "tanh": tanh,
        "arctan": arctan,
        "arcsinh": arcsinh,
        "sigmoid": sigmoid,
        "softplus": softplus,
        "square": lambda x: (_square(x), _scaled(x, 2.0), _number(2.0)),
        "hypot1": hypot,
        "sin": lambda x: (sine(x), cosine(x), _minus(sine(x))),
        "cos": lambda x: (cosine(x), _minus(sine(x)), _minus(cosine(x))),
        "omega": lambda x: (_plus(x, _minus(sine(x))), _plus(_number(1.0), _minus(cosine(x))), sine(x)),
        "phi": phi,
    }


_SMOOTH = _smooth_functions()
_COMPARED = {
    "less": (-1, True), "less_equal": (-1, True), "greater": (1, True), "greater_equal": (1, True),
    "equal": (0, False), "not_equal": (0, True),
}  # fmt: skip


class Operation(NamedTuple):
    """One line of a formula: "number" and "variable", or a function of earlier lines."""

    name: str
    arguments: tuple[int, ...]
    value: Any = None


class Piece:
    """A formula between two scores: on the whole piece, and continued from its inside to both of its ends.

    Conditions are decided inside of the piece. ``closed`` says for each end whether they are decided the same there, so
    that the formula is continuous up to and including that end.
    """

    def __init__(self, formula: Sequence[Operation], low: float, high: float) -> None:
        self.low, self.high = low, high
        self.closed = [True, True]
        whole = Span(_number(low).low, _number(high).high)
        places = [whole, *(_number(end) if math.isfinite(end) else None for end in (low, high))]
        self.results: list[Any] = []
        for operation in formula:
            if operation.name == "number":
                self.results.append([_constant(_number(operation.value))] * 3)
            elif operation.name == "variable":
                self.results.append([place and Jet(place, _number(1.0), NOTHING) for place in places])
            else:
                self.results.append(self._called(operation.name, [self.results[i] for i in operation.arguments]))
        if not isinstance(self.results[-1], list):
            raise Unverified("the formula is a condition")
        self.whole, self.first, self.last = self.results[-1]

    # a result is a list of three jets (whole piece, low end, high end), or a condition: True or False

    def _called(self, name: str, given: list[Any]) -> Any:
        if name == "where":
            condition, a, b = given
            return a if self._truth(condition) else b
        if name in ("and", "or"):
            a, b = map(self._truth, given)
            return (a and b) if name == "and" else (a or b)
        if name == "not":
            return not self._truth(given[0])
        if any(not isinstance(lanes, list) for lanes in given):
            raise Unverified(f"{name} of a condition")
        if name in _COMPARED:
            return self._compared(name, *given)
        if name == "isfinite":
            return True  # a formula has a finite value wherever its parts have one, and others are refused below
        if name in ("minimum", "maximum"):
            return self._chosen(name, *given)
        composed = _COMPOSED.get(name)
        if composed is not None:
            return composed(self, *given)
        return self._lanes(_function(name), given)

    def _lanes(self, function: Callable[..., Jet], given: list[Any]) -> list[Any]:
        whole = function(self._inside, *(lanes[0] for lanes in given))
        ends = []
        for i in (1, 2):
            jets = [lanes[i] for lanes in given]
            try:
                ends.append(None if any(jet is None for jet in jets) else function(self._at_end, *jets))
            except Unverified:  # no value at the end, or an infinite one
                ends.append(None)
                self.closed[i - 1] = False
        return [whole, *ends]

    def _inside(self, x: Jet, zero: bool = False) -> None:
        """Raise unless x is positive at all scores inside of the piece; ``zero``: whether there is a value at 0."""
        if x.value.low > 0:
            return
        if x.value.low >= 0 and (x.slope.low > 0 or x.slope.high < 0):  # 0 is reached at an end of the piece at most
            if not zero:
                self.closed[0 if x.slope.low > 0 else 1] = False
            return
        raise Unverified("a logarithm, root or divisor is not seen to be positive")

    def _at_end(self, x: Jet, zero: bool = False) -> None:
        if not (x.value.low > 0 or (zero and x.value.low >= 0)):
            raise Unverified("no value at the end of a piece")

    def _sign(self, lanes: list[Any]) -> int:
        """The sign that a part of the formula has everywhere inside of the piece; 0 if that is not seen."""
        whole, first, last = lanes
        if whole.value.low > 0 or whole.value.high < 0:
            return 1 if whole.value.low > 0 else -1
        rises, falls = whole.slope.low > 0, whole.slope.high < 0
        if not (rises or falls):
            return 0
        for sign in (1, -1):
            # strictly monotone: inside it lies beyond its value at one end
            end = first if rises == (sign > 0) else last
            if end is not None and (end.value.low >= 0 if sign > 0 else end.value.high <= 0):
                return sign
        return 0

    def _note_ends(self, gap: list[Any], sign: int, same_at_0: bool) -> None:
        """Note the ends at which a condition is not seen to be what it is inside."""
        for i in (1, 2):
            end = gap[i]
            same = end is not None and (end.value.low > 0 if sign > 0 else end.value.high < 0)
            if not (same or (same_at_0 and end is not None and _is_zero(end))):
                self.closed[i - 1] = False

    def _compared(self, name: str, a: list[Any], b: list[Any]) -> bool:
        gap = self._lanes(lambda _, x, y: x.plus(y.minus()), [a, b])
        at_0 = name in ("less_equal", "greater_equal", "equal")
        if all(jet is not None and _is_zero(jet) for jet in gap):
            return at_0
        sign = self._sign(gap)
        if sign == 0:
            raise Unverified("a condition changes inside of a piece")
        wanted, answer = _COMPARED[name]
        inside = answer if wanted == 0 else sign == wanted
        self._note_ends(gap, sign, inside is at_0)
        return inside

    def _truth(self, condition: Any) -> bool:
        if isinstance(condition, bool):
            return condition
        whole = condition[0].value
        if whole.low == whole.high:  # a number as a condition
            return not whole.low.is_zero()
        raise Unverified("a condition that is none")

    def _chosen(self, name: str, a: list[Any], b: list[Any]) -> list[Any]:
        """The smaller or the larger of two continuous parts, which is continuous."""
        smaller = name == "minimum"

        def choose(_: Any, x: Jet, y: Jet) -> Jet:
            if x.value.high <= y.value.low:
                return x if smaller else y
            if y.value.high <= x.value.low:
                return y if smaller else x
            pick = _least if smaller else _greatest
            value = Span(pick([x.value.low, y.value.low]), pick([x.value.high, y.value.high]))
            return Jet(value, _hull(x.slope, y.slope), EVERYTHING)

        gap = self._lanes(lambda _, x, y: x.plus(y.minus()), [a, b])
        sign = self._sign(gap)
        if sign:  # decided inside; the other one has the same value where they meet
            return a if (sign < 0) == smaller else b
        return self._lanes(choose, [a, b])


def _function(name: str) -> Callable[..., Jet]:
    """A function of jets; its first argument requires that a jet is positive."""
    smooth = _SMOOTH.get(name)
    if smooth is not None:
        return lambda _, x: x.through(*smooth(x.value))
    found = _PARTIAL.get(name)
    if found is None:
        raise Unverified(f"the checker does not know {name}")
    return found


def _reciprocal(positive: Any, x: Jet) -> Jet:
    if x.value.high <= 0 and x.value.low < 0:
        return _reciprocal(positive, x.minus()).minus()
    positive(x)
    value = _inverse(x.value)
    return x.through(value, _minus(_square(value)), _scaled(_cube(value), 2.0))


def _log(positive: Any, x: Jet) -> Jet:
    positive(x)
    slope = _inverse(x.value)
    value = _span(-INFINITY if x.value.low.is_zero() else x.value.low.log(),
                  INFINITY if x.value.high == INFINITY else x.value.high.log())  # fmt: skip
    return x.through(value, slope, _minus(_square(slope)))


def _log1p(positive: Any, x: Jet) -> Jet:
    shifted = x.plus(_constant(_number(1.0)))
    positive(shifted)
    slope = _inverse(Span(_greatest([shifted.value.low, ZERO]), shifted.value.high))
    low = -INFINITY if not x.value.low > -1 else x.value.low.log1p()
    value = _span(low, INFINITY if x.value.high == INFINITY else x.value.high.log1p())
    return x.through(value, slope, _minus(_square(slope)))


def _sqrt(positive: Any, x: Jet) -> Jet:
    positive(x, zero=True)
    value = _root(x.value)
    slope = _scaled(_inverse(value), 0.5)
    return x.through(value, slope, _scaled(_times(_inverse(x.value), slope), -0.5))


def _power(positive: Any, x: Jet, d: Jet) -> Jet:
    if not d.value.low == d.value.high:
        return _smoothly("exp", d.times(_log(positive, x)))
    exponent = d.value.low
    if not exponent.is_finite() or exponent < 0:
        return _reciprocal(positive, _power(positive, x, d.minus()))
    n = exponent.unique_fmpz()
    if n is None:
        positive(x, zero=True)
        value, slope, bend = (_to_the(exponent - k, x.value) for k in range(3))
    else:
        value, slope, bend = (_whole_power(max(int(n) - k, 0), x.value) for k in range(3))
    factor = _span(exponent, exponent)
    second = _span(exponent * (exponent - 1), exponent * (exponent - 1))
    return x.through(value, _times(factor, slope), _times(second, bend))


def _to_the(exponent: Any, x: Span) -> Span:
    """x^d for a score that is not negative."""
    if exponent < 0:
        return _inverse(_to_the(-exponent, x))
    return _rising(lambda t: ZERO if t.is_zero() else t**exponent, x, ZERO, INFINITY)


def _whole_power(n: int, x: Span) -> Span:
    if n % 2 == 0:
        return _even(lambda t: t**n, x, ONE if n == 0 else ZERO)
    return _rising(lambda t: t**n, x, -INFINITY, INFINITY)


def _smoothly(name: str, x: Jet) -> Jet:
    return x.through(*_SMOOTH[name](x.value))


def _arcsin(positive: Any, x: Jet) -> Jet:
    one = _constant(_number(1.0))
    room = one.plus(x.times(x).minus())
    positive(room)
    root = _root(room.value)
    slope = _inverse(root)
    half = arb.pi() / 2
    value = _span(x.value.low.asin() if x.value.low > -1 else -half, x.value.high.asin() if x.value.high < 1 else half)
    return x.through(value, slope, _times(x.value, _cube(slope)))


def _logit(positive: Any, x: Jet) -> Jet:
    return _log(positive, x).plus(_log1p(positive, x.minus()).minus())


def _arctanh(positive: Any, x: Jet) -> Jet:
    double = _log1p(positive, x).plus(_log1p(positive, x.minus()).minus())
    return Jet(*(_scaled(part, 0.5) for part in double))


def _tan(positive: Any, x: Jet) -> Jet:
    return _smoothly("sin", x).times(_reciprocal(positive, _smoothly("cos", x)))


_PARTIAL: dict[str, Callable[..., Jet]] = {
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

Lanes = list[Any]


def _negative(piece: Piece, x: Lanes) -> Lanes:
    return piece._called("negative", [x])


def _absolute(piece: Piece, x: Lanes) -> Lanes:
    return piece._called("maximum", [x, _negative(piece, x)])


def _with_number(piece: Piece, name: str, x: Lanes, value: float) -> Any:
    return piece._called(name, [x, [_constant(_number(value))] * 3])


def _step(piece: Piece, x: Lanes, at_zero: float) -> Lanes:
    above = _with_number(piece, "greater", x, 0.0)
    below = False if above else _with_number(piece, "less", x, 0.0)
    return [_constant(_number(1.0 if above else -1.0 if below else at_zero))] * 3


#: functions that are made of others
_COMPOSED: dict[str, Callable[..., Any]] = {
    "abs": _absolute,
    "mirror": _absolute,
    "fold": lambda piece, x: _negative(piece, _absolute(piece, x)),
    "positive_part": lambda piece, x: _with_number(piece, "maximum", x, 0.0),
    "sign": lambda piece, x: _step(piece, x, 0.0),
    "side": lambda piece, x: _step(piece, x, 1.0),
    "signedlog": lambda piece, x: piece._called(
        "multiply", [_step(piece, x, 1.0), piece._called("log1p", [_absolute(piece, x)])]
    ),
    "within": lambda piece, x, bound: piece._called(
        "minimum", [piece._called("maximum", [x, _negative(piece, bound)]), bound]
    ),
}


# ------------------------------------------------------------------------------------------------------- the statements


def _never_falls_inside(formula: Sequence[Operation], low: float, high: float) -> Piece:
    """The piece, if the slope of the formula is nowhere negative inside of it."""
    piece = Piece(formula, low, high)
    slope, bend = piece.whole.slope, piece.whole.bend
    if slope.low >= 0:
        return piece
    # the slope is least at an end, or not far from the one in the middle
    for end, rises in ((piece.first, bend.low >= 0), (piece.last, bend.high <= 0)):
        if rises and end is not None and end.slope.low >= 0:
            return piece
    if math.isfinite(low) and math.isfinite(high) and bend.low.is_finite() and bend.high.is_finite():
        middle = Piece(formula, 0.5 * low + 0.5 * high, 0.5 * low + 0.5 * high).whole.slope
        half = (arb(high) - arb(low)) / 2
        reach = _times(bend, _span(-half, half))
        if (middle.low + reach.low).lower() >= 0:
            return piece
    raise Unverified("the slope may be negative")


def _joins(formula: Sequence[Operation], at: float, before: Piece, after: Piece) -> None:
    """Raise unless the formula does not fall where two pieces meet."""
    here = None if before.closed[1] and after.closed[0] else Piece(formula, at, at).whole.value
    if not before.closed[1] and not (before.last is not None and before.last.value.high <= here.low):  # type: ignore[union-attr]
        raise Unverified(f"the formula may fall at {at!r}")
    if not after.closed[0] and not (after.first is not None and here.high <= after.first.value.low):  # type: ignore[union-attr]
        raise Unverified(f"the formula may fall at {at!r}")


def require_no_fall(formula: Sequence[Operation], cuts: Sequence[float]) -> int:
    """Raise :class:`Unverified` unless a formula never decreases from the first to the last of increasing scores.

    Returns
    -------
    int
        How many pieces it took.
    """
    return _require(formula, cuts, _never_falls_inside, _joins)


def _require(formula: Sequence[Operation], cuts: Sequence[float], inside: Any, joins: Any) -> int:
    if len(cuts) < 2 or any(not a < b for a, b in itertools.pairwise(cuts)):
        raise Unverified("the cuts must be increasing scores")
    waiting = [(a, b) for a, b in itertools.pairwise(cuts)][::-1]
    looks, before = 0, None
    while waiting:
        a, b = waiting.pop()
        looks += 1
        if looks > _MOST_PIECES * len(cuts):
            raise Unverified("too many pieces would be needed")
        try:
            piece = inside(formula, a, b)
        except Unverified:
            middle = _middle(a, b)
            if not a < middle < b:
                raise
            waiting += [(middle, b), (a, middle)]
            continue
        if before is not None:
            joins(formula, a, before, piece)
        before = piece
    return looks


def _middle(a: float, b: float) -> float:
    if math.isinf(a) and math.isinf(b):
        return 0.0
    if math.isinf(a) or math.isinf(b):
        end = b if math.isinf(a) else a
        return math.copysign(max(8.0, 2.0 * abs(end)), b if math.isinf(b) else a) if abs(end) < 1e300 else end
    return 0.5 * a + 0.5 * b


def _never_negative_inside(formula: Sequence[Operation], low: float, high: float) -> Piece:
    piece = Piece(formula, low, high)
    value, slope = piece.whole.value, piece.whole.slope
    if value.low >= 0:
        return piece
    for end, rises in ((piece.first, slope.low >= 0), (piece.last, slope.high <= 0)):
        if rises and end is not None and end.value.low >= 0:
            return piece
    raise Unverified("the value may be negative")


def _not_negative_at(formula: Sequence[Operation], at: float, before: Piece, after: Piece) -> None:
    """Raise unless the value is not negative where two pieces meet."""
    if not (before.closed[1] or after.closed[0]) and not Piece(formula, at, at).whole.value.low >= 0:
        raise Unverified(f"the value may be negative at {at!r}")


def require_never_negative(formula: Sequence[Operation], cuts: Sequence[float]) -> int:
    """Raise :class:`Unverified` unless a formula is nowhere negative from the first to the last of the cuts."""
    return _require(formula, cuts, _never_negative_inside, _not_negative_at)
