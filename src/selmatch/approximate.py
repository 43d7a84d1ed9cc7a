"""Numbers that had to be rounded, with a bound of the error: rounding never decides a sign or a comparison."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any


class Undecidable(ArithmeticError):
    """A question to which the rounding of a number may be the answer."""


class Approximate:
    """A number between ``value - error`` and ``value + error``, both exact.

    Examples
    --------
    >>> root = approximated(math.sqrt, 2)
    >>> root > 1, float(3 * root)
    (True, 4.242640687119286)
    >>> bool(root - 1.4142135623730951)
    Traceback (most recent call last):
    ...
    selmatch.approximate.Undecidable: rounding would decide about a sign
    """

    __slots__ = ("error", "value")

    def __init__(self, value: Fraction, error: Fraction) -> None:
        self.value = value
        self.error = error

    def __repr__(self) -> str:
        return f"{type(self).__name__}({float(self.value)!r}, {float(self.error):.1g})"

    def __add__(self, other: Any) -> Approximate:
        other = _lifted(other)
        return Approximate(self.value + other.value, self.error + other.error)

    def __neg__(self) -> Approximate:
        return Approximate(-self.value, self.error)

    def __sub__(self, other: Any) -> Approximate:
        return self + -_lifted(other)

    def __rsub__(self, other: Any) -> Approximate:
        return -self + other

    def __mul__(self, other: Any) -> Approximate:
        other = _lifted(other)
        error = abs(self.value) * other.error + abs(other.value) * self.error + self.error * other.error
        return Approximate(self.value * other.value, error)

    def __truediv__(self, other: Any) -> Approximate:
        other = _lifted(other)
        if not other:
            raise ZeroDivisionError("division by an approximate 0")
        value = self.value / other.value
        error = (self.error + abs(value) * other.error) / (abs(other.value) - other.error)
        return Approximate(value, error)

    def __rtruediv__(self, other: Any) -> Approximate:
        return _lifted(other) / self

    __radd__, __rmul__ = __add__, __mul__

    def sign(self) -> int:
        """The sign, which no rounding has decided."""
        if abs(self.value) > self.error:
            return 1 if self.value > 0 else -1
        if self.error:
            raise Undecidable("rounding would decide about a sign")
        return 0

    def __bool__(self) -> bool:
        return self.sign() != 0

    def __abs__(self) -> Approximate:
        return self if self.sign() >= 0 else -self

    def __lt__(self, other: Any) -> bool:
        return (self - other).sign() < 0

    def __le__(self, other: Any) -> bool:
        return (self - other).sign() <= 0

    def __gt__(self, other: Any) -> bool:
        return (self - other).sign() > 0

    def __ge__(self, other: Any) -> bool:
        return (self - other).sign() >= 0

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Approximate) and (self.value, self.error) == (other.value, other.error):
            return True  # the same number, as far as anyone can tell
        return (self - other).sign() == 0

    def __hash__(self) -> int:
        return hash((self.value, self.error))

    def __float__(self) -> float:
        return float(self.value)

    def __round__(self) -> int:
        if math.floor(self.value - self.error + Fraction(1, 2)) != math.floor(self.value + self.error + Fraction(1, 2)):
            raise Undecidable("rounding would decide about an integer")
        return round(self.value)


def _lifted(x: Any) -> Approximate:
    if isinstance(x, Approximate):
        return x
    if isinstance(x, float) and not math.isfinite(x):
        raise Undecidable("an approximate number meets an infinite one")
    return Approximate(Fraction(x), Fraction(0))


#: errors of functions in double precision, relative and of the smallest numbers
_RELATIVE, _SMALLEST = Fraction(1, 2**46), Fraction(1, 2**1074)
#: error of an argument up to which the ends of where it may lie say what a function does between
_WIDEST = Fraction(1, 100)


def approximated(function: Callable[..., float], *arguments: Any) -> Approximate:
    """A function of numbers that are exact or approximate, evaluated in floats where these may lie."""
    ends = [_ends(_lifted(argument)) for argument in arguments]
    first, *others = (function(*corner) for corner in itertools.product(*ends))
    values = [Fraction(value) for value in (first, *others)]
    spread = max(values) - min(values)
    return Approximate(values[0], 2 * spread + max(map(abs, values)) * _RELATIVE + _SMALLEST)


def _ends(x: Approximate) -> tuple[float, ...]:
    """Floats around a number; only one where it is a float."""
    value = float(x.value)
    if not x.error and value == x.value:
        return (value,)
    if x.error > _WIDEST or math.ulp(value) > _WIDEST:
        raise Undecidable("a function of a number that is hardly known")
    return (
        math.nextafter(float(x.value - x.error), -math.inf),
        math.nextafter(float(x.value + x.error), math.inf),
    )
