"""Ranges: everything a quantity can be when a score is only known to lie in a box. The arithmetic behind proofs.

A :class:`Range` has two ends, each a python-flint ``arb``: a number with a rigorous bound on its rounding error. Any
formula written with :mod:`selmatch.functions` runs on it, and its result holds every value that the formula takes. Ends
instead of balls, because a ball loses signs: the product of [0, 1] with itself, as balls, reaches -1/2.

A comparison may be true on one part of the box and false on the other: it is then :class:`Undecided`, and ``where``
answers with both. Comparisons with the score itself speak of the inside of a box, not of its ends. A :class:`Watch`
notes both, and poles: a search cuts where a choice changes, and trusts slopes only where the function is continuous.
"""

from __future__ import annotations

import contextlib
import functools
import math
import threading
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple

from selmatch import functions as f
from selmatch.arrays import ufuncs

try:
    from flint import arb, ctx
except ImportError as error:
    message = 'selmatch.arrays.interval needs python-flint. Install it with: pip install "selmatch[proofs]".'
    raise ImportError(message) from error

INFINITY = arb.pos_inf()
#: enough for 1e300 - 0.1
_BITS_OF_CONSTANTS = 1100
#: python-flint has one precision for all threads
one_precision = threading.RLock()
ZERO, ONE = arb(0), arb(1)
_EVERYTHING = (-INFINITY, INFINITY)


class Watch:
    """What happened during an evaluation on a box: is the function certainly continuous inside?

    Attributes
    ----------
    undecided : bool
        Whether a choice depended on a condition that holds on a part of the box only.
    singular : bool
        Whether a function may have been asked for a value that it does not have, or an infinite one.
    switches : set of float
        Where conditions change, as far as that is known: good places to cut.
    touched : set of float
        Ends of the box at which a condition changes: inside the box it is decided, at the end it is another one.
    """

    __slots__ = ("singular", "switches", "touched", "undecided")

    def __init__(self) -> None:
        self.undecided = self.singular = False
        self.switches: set[float] = set()
        self.touched: set[float] = set()


_watches = threading.local()


@contextlib.contextmanager
def watching() -> Iterator[Watch]:
    """Watch the evaluations of this thread."""
    before = getattr(_watches, "now", None)
    _watches.now = watch = Watch()
    try:
        yield watch
    finally:
        _watches.now = before


def _seen() -> Watch:
    return getattr(_watches, "now", None) or Watch()


class Undecided:
    """A condition that holds on one part of a box only, or may."""

    __slots__ = ()

    def __bool__(self) -> bool:
        raise TypeError("selmatch: a formula must not branch on values (if, and, or). Use where, minimum or maximum.")

    def __and__(self, other: Any) -> Any:
        return False if other is False else self

    def __or__(self, other: Any) -> Any:
        return True if other is True else self

    __rand__, __ror__ = __and__, __or__

    def __invert__(self) -> Undecided:
        return self

    def __eq__(self, other: object) -> Any:
        return self

    def __ne__(self, other: object) -> Any:
        return self

    __hash__ = None  # type: ignore[assignment]

    @property
    def any_slope(self) -> Range:
        """What the derivative of a choice can be where the choice changes: it may jump."""
        return Range(*_EVERYTHING)


UNDECIDED = Undecided()


class _Box(NamedTuple):
    """How a range depends on the score it comes from: by these operations with a number, one after the other.

    ``side`` says from where a box of no width is looked at: -1 from below, 1 from above, 0 not at all.
    """

    moves: tuple[tuple[str, float], ...]
    side: int

    def added(self, number: float) -> _Box:
        return _Box((*self.moves, ("add", number)), self.side)

    def multiplied(self, number: float, name: str = "multiply") -> _Box:
        return _Box((*self.moves, (name, number)), self.side if number > 0 else -self.side)

    def place(self, value: float) -> float:
        """Where the range has a value: exact, unless it lies between two floats."""
        exact = Fraction(value)
        for name, number in reversed(self.moves):
            if name == "add":
                exact -= Fraction(number)
            elif name == "multiply":
                exact /= Fraction(number)
            else:
                exact *= Fraction(number)
        try:
            return float(exact)
        except OverflowError:
            return math.inf if exact > 0 else -math.inf


class Range:
    """All numbers from low to high."""

    __slots__ = ("box", "high", "low")

    def __init__(self, low: Any, high: Any, box: _Box | None = None) -> None:
        low, high = low.lower(), high.upper()  # exact, so that comparisons of ends are certain
        self.low = -INFINITY if low.is_nan() else low
        self.high = INFINITY if high.is_nan() else high
        self.box = box

    def __repr__(self) -> str:
        low, high = bounds(self)
        return f"Range({low!r}, {high!r})"

    def __pos__(self) -> Range:
        return self

    def __neg__(self) -> Range:
        return Range(-self.high, -self.low, self.box and self.box.multiplied(-1.0))

    def __add__(self, other: Any) -> Range:
        if f.is_number(other):
            if not math.isfinite(other):
                return _undefined()
            return Range(self.low + other, self.high + other, self.box and self.box.added(other))
        if isinstance(other, Range):
            return Range(self.low + other.low, self.high + other.high)
        return NotImplemented

    __radd__ = __add__

    def __sub__(self, other: Any) -> Range:
        return self + (-other)

    def __rsub__(self, other: Any) -> Range:
        return -self + other

    def __mul__(self, other: Any) -> Range:
        if f.is_number(other):
            if other == 0:
                return Range(ZERO, ZERO)
            if not math.isfinite(other):
                return _undefined()
            low, high = sorted_ends(self.low * other, self.high * other, other > 0)
            return Range(low, high, self.box and self.box.multiplied(other))
        if isinstance(other, Range):
            return _product(self, other)
        return NotImplemented

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Range:
        if f.is_number(other):
            if other == 0 or not math.isfinite(other):
                return _undefined()
            low, high = sorted_ends(self.low / other, self.high / other, other > 0)
            return Range(low, high, self.box and self.box.multiplied(other, "divide"))
        return self * _reciprocal(other) if isinstance(other, Range) else NotImplemented

    def __rtruediv__(self, other: Any) -> Range:
        return _reciprocal(self) * other

    def __pow__(self, d: Any) -> Range:
        return f.power(self, d)

    def __rpow__(self, base: Any) -> Range:
        return f.power(base, self)

    def __abs__(self) -> Range:
        return f.abs(self)

    # the box is looked at from inside, so that an end counts for neither side; derived ranges may reach their ends

    def _compare(self, other: Any, strictly: bool) -> Any:
        """Is self < other (strictly), or self <= other?"""
        if isinstance(other, Range):
            return _ordered(self.low, self.high, other.low, other.high, strictly)
        if not f.is_number(other):
            return NotImplemented
        at = arb(float(other))
        decided = _ordered(self.low, self.high, at, at, strictly)
        if self.box is None or not math.isfinite(other):
            return decided
        watch, place = _seen(), self.box.place(float(other))
        inside = self.box.side or not _same(self.low, self.high)
        if inside and (self.high <= at if self.box.side <= 0 else self.high < at):
            decided = True
        elif inside and (self.low >= at if self.box.side >= 0 else self.low > at):
            decided = False
        elif decided is UNDECIDED:
            watch.switches.add(place)
        if _same(self.low, at) or _same(self.high, at):
            watch.touched.add(place)
        return decided

    def __lt__(self, other: Any) -> Any:
        return self._compare(other, True)

    def __le__(self, other: Any) -> Any:
        return self._compare(other, False)

    def __gt__(self, other: Any) -> Any:
        return _not(self._compare(other, False))

    def __ge__(self, other: Any) -> Any:
        return _not(self._compare(other, True))

    def __eq__(self, other: object) -> Any:
        return (self <= other) & (self >= other)

    def __ne__(self, other: object) -> Any:
        return _not(self == other)

    __hash__ = None  # type: ignore[assignment]


def _ordered(low: Any, high: Any, other_low: Any, other_high: Any, strictly: bool) -> Any:
    if high < other_low or (not strictly and high <= other_low):
        return True
    if low > other_high or (strictly and low >= other_high):
        return False
    return UNDECIDED


def _not(condition: Any) -> Any:
    return (not condition) if isinstance(condition, bool) else condition


def _same(a: Any, b: Any) -> bool:
    return bool(a == b)


def sorted_ends(a: Any, b: Any, upright: bool) -> tuple[Any, Any]:
    return (a, b) if upright else (b, a)


def box(low: float, high: float, side: int = 0) -> Range:
    """A score between two numbers, as the start of an evaluation."""
    return Range(_end(low), _end(high), _Box((), side))


def around(z: float) -> Range:
    """A score and its neighbours: what holds there holds not at a single score only."""
    return box(math.nextafter(z, -math.inf), math.nextafter(z, math.inf))


def bounds(x: Range) -> tuple[float, float]:
    """Two floats that hold a range between them."""
    low, high = x.low.lower(), x.high.upper()
    below = float(low) if low.is_finite() else math.inf if low > 0 else -math.inf
    above = float(high) if high.is_finite() else -math.inf if high < 0 else math.inf
    return (
        below if _end(below) <= low else math.nextafter(below, -math.inf),
        above if _end(above) >= high else math.nextafter(above, math.inf),
    )


def _end(value: float) -> Any:
    return arb(value) if math.isfinite(value) else (INFINITY if value > 0 else -INFINITY)


def _times(a: Any, b: Any) -> Any:
    return ZERO if a.is_zero() or b.is_zero() else a * b  # also for 0 times infinity: scores are finite


def _product(x: Range, y: Range) -> Range:
    a, b, c, d = x.low, x.high, y.low, y.high
    if a >= 0 and c >= 0:
        return Range(_times(a, c), _times(b, d))
    if b <= 0 and d <= 0:
        return Range(_times(b, d), _times(a, c))
    if a >= 0 and d <= 0:
        return Range(_times(b, c), _times(a, d))
    if b <= 0 and c >= 0:
        return Range(_times(a, d), _times(b, c))
    products = [_times(p, q) for p in (a, b) for q in (c, d)]
    return Range(functools.reduce(_minimum, products), functools.reduce(_maximum, products))


def _minimum(a: Any, b: Any) -> Any:
    return a if a.is_nan() else b if b.is_nan() else a if a <= b else b if b <= a else a.min(b)


def _maximum(a: Any, b: Any) -> Any:
    return a if a.is_nan() else b if b.is_nan() else a if a >= b else b if b >= a else a.max(b)


def _undefined() -> Range:
    """Anything: a function was, or may have been, asked for what it does not have."""
    _seen().singular = True
    return Range(*_EVERYTHING)


def _reciprocal(x: Range) -> Range:
    if x.low > 0 or x.high < 0:
        return Range(ONE / x.high, ONE / x.low)
    _seen().singular = True
    if x.low >= 0 and x.high > 0:
        return Range(ONE / x.high, INFINITY)
    if x.high <= 0 and x.low < 0:
        return Range(-INFINITY, ONE / x.low)
    return Range(*_EVERYTHING)


def hull(a: Any, b: Any) -> Range:
    """The smallest range that holds both."""
    a, b = _lifted(a), _lifted(b)
    return Range(_minimum(a.low, b.low), _maximum(a.high, b.high))


def _lifted(x: Any) -> Range:
    if isinstance(x, Range):
        return x
    if not math.isfinite(float(x)):
        _seen().singular = True
    return Range(*_EVERYTHING) if math.isnan(float(x)) else Range(_end(float(x)), _end(float(x)))


def _increasing(name: str) -> Any:
    def apply(x: Range) -> Range:
        return Range(getattr(x.low, name)(), getattr(x.high, name)())

    return staticmethod(apply)


def _defined_from(least: Any, function: Any, at_least: Any) -> Any:
    """An increasing function that exists from a point on, where it has a limit; below it, anything is possible."""

    def apply(x: Range) -> Range:
        if x.low < least:  # also when only a part of the range lies there
            return _undefined()
        if not at_least.is_finite() and not x.low > least:
            _seen().singular = True
        top = x.high.upper()
        return Range(function(x.low) if x.low > least else at_least, function(top) if top > least else at_least)

    return staticmethod(apply)


def _even(name: str) -> Any:
    """A function of |x| that increases with it."""

    def apply(x: Range) -> Range:
        size = RangeNamespace.abs(x)
        return Range(getattr(size.low, name)(), getattr(size.high, name)())

    return staticmethod(apply)


def _sigmoid(x: Any) -> Any:
    return ONE / (ONE + (-x).exp()) if x >= 0 else ONE - ONE / (ONE + x.exp()) if x > -30 else x.exp() / (ONE + x.exp())


def _softplus(x: Any) -> Any:
    return x + (-x).exp().log1p() if x > 0 else x.exp().log1p()


def _phi(x: Any) -> Any:
    value = x.expm1() - x
    # near 0 the sum of nearly opposite terms knows little: e^x - 1 - x lies between x^2/2 and x^2/2 e^|x|
    if x.abs_upper() < 1e-2:
        half = x * x / 2
        return half * (abs(x).exp().union(ONE).union((-abs(x)).exp()))
    return value


def _arcsine(x: Any) -> Any:
    return x.asin() if abs(x) < 1 else (arb.pi() / 2 if x >= 1 else -arb.pi() / 2 if x <= -1 else (x.asin()))


class RangeNamespace:
    """The functions of formulas on ranges."""

    name = "ranges"
    is_library = False

    exp = _increasing("exp")
    expm1 = _increasing("expm1")
    sinh = _increasing("sinh")
    tanh = _increasing("tanh")
    arctan = _increasing("atan")
    arcsinh = _increasing("asinh")
    cosh = _even("cosh")
    sqrt = _defined_from(ZERO, lambda x: x.sqrt(), ZERO)
    log = _defined_from(ZERO, lambda x: x.log(), -INFINITY)
    log1p = _defined_from(-ONE, lambda x: x.log1p(), -INFINITY)

    @staticmethod
    def abs(x: Range) -> Range:
        if x.low >= 0:
            return x
        if x.high <= 0:
            return -x
        return Range(ZERO, _maximum(-x.low, x.high))

    @staticmethod
    def square(x: Range) -> Range:
        size = RangeNamespace.abs(x)
        return Range(size.low * size.low, size.high * size.high)

    @staticmethod
    def fold(x: Range) -> Range:
        return -RangeNamespace.abs(x)

    @staticmethod
    def positive_part(x: Range) -> Range:
        return RangeNamespace.maximum(x, 0.0)

    @staticmethod
    def sign(x: Range) -> Range:
        return RangeNamespace.where(x > 0, 1.0, RangeNamespace.where(x < 0, -1.0, 0.0))

    @staticmethod
    def side(x: Range) -> Range:
        return RangeNamespace.where(x < 0, -1.0, 1.0)

    @staticmethod
    def where(condition: Any, a: Any, b: Any) -> Range:
        if condition is True or condition is False:
            return _lifted(a if condition else b)
        _seen().undecided = True
        return hull(a, b)

    @staticmethod
    def minimum(a: Any, b: Any) -> Range:
        a, b = _lifted(a), _lifted(b)
        if a.high <= b.low or b.high <= a.low:
            return a if a.high <= b.low else b
        return Range(_minimum(a.low, b.low), _minimum(a.high, b.high))

    @staticmethod
    def maximum(a: Any, b: Any) -> Range:
        return -RangeNamespace.minimum(-_lifted(a), -_lifted(b))

    @staticmethod
    def cos(x: Range) -> Range:
        if not (x.low.is_finite() and x.high.is_finite()) or x.high - x.low > 7:
            return Range(-ONE, ONE)
        turns = [(end / arb.pi()).floor() for end in (x.low, x.high)]
        first, last = (t.unique_fmpz() for t in turns)
        if first is None or last is None:  # too close to a peak to say on which side
            first = (x.low.lower() / arb.pi()).floor().lower().floor().unique_fmpz()
            last = (x.high.upper() / arb.pi()).floor().upper().floor().unique_fmpz()
            if first is None or last is None:
                return Range(-ONE, ONE)
        peaks = range(int(first) + 1, int(last) + 1)
        ends = [x.low.cos(), x.high.cos()]
        low = -ONE if any(k % 2 for k in peaks) else _minimum(*ends)
        high = ONE if any(k % 2 == 0 for k in peaks) else _maximum(*ends)
        return Range(low, high)

    @staticmethod
    def sin(x: Range) -> Range:
        if _same(x.low, x.high):  # a sine of 0 is 0
            return Range(x.low.sin(), x.low.sin())
        half = arb.pi() / 2
        return RangeNamespace.cos(Range(x.low - half, x.high - half))

    @staticmethod
    def tan(x: Range) -> Range:
        half = arb.pi() / 2
        if x.low > -half and x.high < half:
            return Range(x.low.tan(), x.high.tan())
        return RangeNamespace.sin(x) / RangeNamespace.cos(x)

    @staticmethod
    def arcsin(x: Range) -> Range:
        if x.low < -1 or x.high > 1:
            return _undefined()
        return Range(_arcsine(x.low), _arcsine(x.high))

    @staticmethod
    def arctan2(y: Any, x: Any) -> Range:
        y, x = _lifted(y), _lifted(x)
        if x.low > 0:
            return RangeNamespace.arctan(y / x)
        if not (y.low > 0 or y.high < 0):  # it jumps from -pi to pi
            _seen().singular = True
        return Range(-arb.pi(), arb.pi())

    @staticmethod
    def power(x: Any, d: Any) -> Range:
        if not f.is_number(d):
            x, d = _lifted(x), _lifted(d)
            if d.low > 0 and x.low.is_zero():  # 0^d = 0, and nothing is negative
                return Range(ZERO, ZERO if x.high.is_zero() else RangeNamespace.power(Range(x.high, x.high), d).high)
            return RangeNamespace.exp(d * RangeNamespace.log(x))
        if d < 0:
            return _reciprocal(RangeNamespace.power(x, -d))
        if d == 0:
            return Range(ONE, ONE)
        if float(d).is_integer():
            base = RangeNamespace.abs(x) if d % 2 == 0 else x
            return Range(base.low ** int(d), base.high ** int(d))
        if x.low < 0:
            return _undefined()
        top = x.high.upper()
        return Range(x.low ** arb(d) if x.low > 0 else ZERO, top ** arb(d) if top > 0 else ZERO)

    @staticmethod
    def xlogy(x: Any, y: Any) -> Range:
        x = _lifted(x)
        return Range(ZERO, ZERO) if x.low.is_zero() and x.high.is_zero() else x * f.log(_lifted(y))

    @staticmethod
    def within(x: Range, bound: float) -> Range:
        return RangeNamespace.minimum(RangeNamespace.maximum(x, -bound), bound)

    @staticmethod
    def isfinite(x: Range) -> bool:
        return bool(x.low.is_finite() and x.high.is_finite())

    @staticmethod
    def double(x: Range) -> Range:
        return x

    @staticmethod
    def cast(x: Range, like: Any) -> Range:
        return x

    @staticmethod
    def is_single(x: Range) -> bool:
        return False

    @staticmethod
    def fold_constants(x: Range, function: Any, constants: list[Any]) -> Any:
        """A function of a formula's constants, rounded by no float: a number, or where it is none a narrow range."""
        with one_precision, ctx.workprec(_BITS_OF_CONSTANTS):
            value = function(*(c if isinstance(c, bool | Undecided) else _lifted(c) for c in constants))
        exact = isinstance(value, Range) and _same(value.low, value.high) and _end(float(value.low)) == value.low
        return float(value.low) if exact else value

    # ------------------------------------------------------------------ functions whose branches a range would mix up

    @staticmethod
    def sigmoid(x: Range) -> Range:
        return Range(_sigmoid(x.low), _sigmoid(x.high))

    @staticmethod
    def sigmoid_times(x: Range, factor: Any) -> Any:
        return RangeNamespace.sigmoid(x) * factor

    @staticmethod
    def softplus(x: Range) -> Range:
        return Range(_softplus(x.low), _softplus(x.high))

    @staticmethod
    def hypot1(x: Range) -> Range:
        return RangeNamespace.sqrt(RangeNamespace.square(x) + 1.0)

    @staticmethod
    def phi(x: Range) -> Range:
        ends = [_phi(x.low), _phi(x.high)]
        low = _minimum(*ends) if x.low >= 0 or x.high <= 0 else ZERO
        return Range(low, _maximum(*ends))

    @staticmethod
    def sech_squared(x: Range) -> Range:
        return 1.0 / RangeNamespace.square(RangeNamespace.cosh(x))

    @staticmethod
    def omega(x: Range) -> Range:
        return Range(x.low - x.low.sin(), x.high - x.high.sin())

    @staticmethod
    def logit(x: Range) -> Range:
        if x.low > 0 and x.high < 1:
            low, high = ((end / (ONE - end)).log() for end in (x.low, x.high))
            return Range(low, high)
        return RangeNamespace.log(x) - RangeNamespace.log1p(-x)

    # -------------------------------------------------------------------- what a curve without closed forms asks for

    @staticmethod
    def integral(curve: Any, x: Range) -> Range:
        """The primitive of a curve that vanishes at its domain's point."""
        start = curve.domain.point()
        middle = _middle(x)
        step = 2.0 ** math.floor(math.log2(curve.scale)) / 32.0
        cells = math.floor((middle - start) / step)
        if abs(cells) > 20_000:
            return Range(*_EVERYTHING)
        total = Range(ZERO, ZERO)
        for k in range(min(cells, 0), max(cells, 0)):
            cell = _cell(_Same(curve), start + k * step, start + (k + 1) * step)
            total = total + cell if cells > 0 else total - cell
        total = total + _rectangle(curve, start + cells * step, middle)
        return total + (x - middle) * curve(hull(x, middle))

    @staticmethod
    def solve(curve: Any, y: Range) -> Range:
        """The scores at which an increasing curve takes the values y."""
        return Range(_below(curve, y.low, -1), _below(curve, y.high, 1))


def _middle(x: Range) -> float:
    low, high = bounds(x)
    if math.isinf(low) or math.isinf(high):
        return 0.0 if low < 0.0 < high else (low if math.isfinite(low) else high if math.isfinite(high) else 0.0)
    return 0.5 * low + 0.5 * high


class _Same:
    """A curve as a key by identity: two curves of a user may call themselves equal and differ."""

    __slots__ = ("curve",)

    def __init__(self, curve: Any) -> None:
        self.curve = curve

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.curve is self.curve

    def __hash__(self) -> int:
        return id(self.curve)


@functools.lru_cache(maxsize=20_000)
def _cell(curve: _Same, low: float, high: float) -> Range:
    return _rectangle(curve.curve, low, high)


def _rectangle(curve: Any, low: float, high: float) -> Range:
    """The integral of a curve over a short piece: the midpoint rule with its error, from the second derivative."""
    from selmatch.arrays.dual import derivative

    a, b = arb(low), arb(high)
    cell, middle = Range(*sorted_ends(a, b, low <= high)), (a + b) / 2
    width = Range(b - a, b - a)
    with watching() as watch:
        by_value = width * curve(cell)
    if watch.singular or watch.undecided:  # it may jump in the cell, which no derivative sees
        return by_value
    bend = derivative(lambda x: derivative(curve, x), cell)
    by_bend = width * curve(Range(middle, middle)) + width * width * width / 24.0 * bend
    return Range(_maximum(by_bend.low, by_value.low), _minimum(by_bend.high, by_value.high))


def _below(curve: Any, y: Any, way: int) -> Any:
    """A score below (way = -1) or above (way = 1) all that have the value y."""
    from selmatch.arrays.bracketing import solve_increasing

    if not y.is_finite():
        return INFINITY * way
    x = solve_increasing(curve, float(y), curve.domain)
    step = 1e-15 * (abs(x) + 1e-300)
    for _ in range(60):
        candidate = x + way * step
        if not curve.domain.holds(candidate):
            return INFINITY * way
        value = curve(Range(arb(candidate), arb(candidate)))
        if (way < 0 and value.high <= y) or (way > 0 and value.low >= y):
            return arb(candidate)
        step *= 4.0
    return INFINITY * way


def _from_ufunc(x: Any) -> Any:
    return x if isinstance(x, Range) else float(x)


Range.__array_ufunc__ = ufuncs.through(RangeNamespace, _from_ufunc)  # type: ignore[attr-defined]

f.register(Range, RangeNamespace)
f.register(Undecided, RangeNamespace)
