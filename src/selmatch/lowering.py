"""From an expression to the curves of the library, which have closed forms and known monotonicity.

An expression is lowered when it is a sum of positive multiples of curves of affine arguments, perhaps capped; any
other stays what it is. Lowering never changes the function or its domain; only rounding may differ.
"""

from __future__ import annotations

import functools
import math
import operator
from contextvars import ContextVar
from fractions import Fraction
from typing import Any

import numpy as np

from selmatch import curves
from selmatch.algebra import Sum
from selmatch.approximate import Approximate, approximated
from selmatch.arrays.trace import (
    Call,
    Expression,
    Number,
    Variable,
    apply,
    call,
    combine,
    is_call,
    substitute,
    walk,
)
from selmatch.curve import REALS, Curve

#: a polynomial of higher degree stays a formula
_HIGHEST_DEGREE = 64
#: each cap of a value asks for an inverse
_MOST_CAPS = 3


class _NotLowered(Exception):
    """No curve of the library is this expression."""


def lowered(expression: Expression) -> Curve | None:
    """The expression in one variable as a curve of the library, or None.

    Examples
    --------
    >>> from selmatch.arrays.trace import trace
    >>> lowered(trace(lambda z: 2.0 * functions.sinh(3.0 * z + 6.0) - functions.exp(-z)))
    Sum((Sinh().affine(alpha=3.0, beta=-2.0, gain=2.0), AntiExp()))
    >>> lowered(trace(lambda z: z * functions.tanh(z))) is None
    True
    """
    try:
        with np.errstate(all="ignore"):  # huge coefficients
            token = _inexact.set(False)
            try:
                curve = _Lowering().lower(expression)
            finally:
                _inexact.reset(token)
            # a sum whose terms are never defined together has no domain, and raises
            return curve if curve.domain.low < curve.domain.high else None
    except (_NotLowered, ValueError, ArithmeticError):
        return None


# -------------------------------------------------------------------------------------------------- affine functions


class Line:
    """``rise * (z - root)``, or a constant when the rise is 0."""

    __slots__ = ("constant", "rise", "root")

    def __init__(self, rise: Any, root: Any = 0, constant: Any = 0) -> None:
        self.rise = rise
        self.root = root if rise else 0
        self.constant = 0 if rise else constant

    def plus(self, other: Line) -> Line:
        if not self.rise:
            return other._shifted(self.constant)
        if not other.rise:
            return self._shifted(other.constant)
        rise = self.rise + other.rise
        if self.root == other.root:
            return Line(rise, self.root)
        level = -self.rise * self.root - other.rise * other.root
        return Line(rise, -level / rise) if rise else Line(0, constant=level)

    def _shifted(self, constant: Any) -> Line:
        if not self.rise:
            return Line(0, constant=self.constant + constant)
        return Line(self.rise, self.root - constant / self.rise) if constant else self

    def times(self, factor: Any) -> Line:
        rise = self.rise * factor
        return Line(rise, self.root) if rise else Line(0, constant=self.constant * factor)

    def at_zero(self) -> float:
        return -self.rise * self.root if self.rise else self.constant


def _line(node: Expression, *parts: Line | None) -> Line | None:
    if isinstance(node, Number):
        return Line(0, constant=_exact(node.value))
    if isinstance(node, Variable):
        return Line(1)
    if any(part is None for part in parts):
        return None
    known: list[Line] = [part for part in parts if part is not None]
    name = node._key()
    if name == "add":
        return known[0].plus(known[1])
    if name == "subtract":
        return known[0].plus(known[1].times(-1))
    if name == "negative":
        return known[0].times(-1)
    if all(not part.rise for part in known):
        return _constant(name, [part.constant for part in known])
    if name == "multiply" and not (known[0].rise and known[1].rise):
        line, factor = known if known[0].rise else reversed(known)
        return line.times(factor.constant)
    if name == "divide" and not known[1].rise and known[1].constant:
        return Line(known[0].rise / known[1].constant, known[0].root)
    return None


def _exact(value: float) -> Any:
    """A number as a fraction; infinite ones stay as they are."""
    return Fraction(value) if math.isfinite(value) else value


def _constant(name: str, arguments: list[Any]) -> Line | None:
    """A function of numbers: exact for the four operations, else approximate."""
    exact = _EXACT.get(name)
    if exact is not None and not any(isinstance(argument, float) for argument in arguments):
        return Line(0, constant=exact(*arguments)) if name != "divide" or arguments[1] else None
    value = apply(name, *map(float, arguments))
    if isinstance(value, bool) or (value == 0.0 and name in _NEVER_0 and arguments[0]):  # underflow
        return None
    if not math.isfinite(value):
        return Line(0, constant=float(value))
    _inexact.set(True)
    return Line(0, constant=approximated(functools.partial(apply, name), *arguments))


_NEVER_0 = frozenset("power exp sigmoid softplus sqrt".split())
_EXACT: dict[str, Any] = {
    "multiply": operator.mul, "divide": operator.truediv, "square": lambda a: a * a, "abs": abs,
    "minimum": min, "maximum": max,
}  # fmt: skip

#: whether a number of the curve that is being made had to be rounded
_inexact: ContextVar[bool] = ContextVar("inexact", default=False)


#: relative error of a number that a curve may hold
_COARSEST = Fraction(1, 10**12)


def _rounded(value: Any) -> float:
    """A number of a curve, as a float; noted if that is another number."""
    result = float(value)
    if isinstance(value, Approximate) and value.error > _COARSEST * abs(value.value):
        raise _NotLowered
    if isinstance(value, Approximate) or result != value:
        _inexact.set(True)
        if result == 0.0:  # underflow
            raise _NotLowered
    return result


def line_of(expression: Expression, known: dict[Expression, Line | None] | None = None) -> Line | None:
    """An expression as an affine function of the variable, in floats, or None; answers are kept in ``known``."""
    try:
        line = combine(expression, _line, known)
        return line and Line(*map(float, (line.rise, line.root, line.constant)))
    except ArithmeticError:
        return None


# --------------------------------------------------------------------------------------------------------------- sums


class _Terms:
    """A sum while it is taken apart: a constant, a multiple of z, powers of shifted z, and curves."""

    def __init__(self) -> None:
        self.constant = 0
        self.powers: dict[float, list[float]] = {}
        self.curves: dict[tuple[Any, float, float], float] = {}
        self.lines: list[Line] = []

    def add_line(self, line: Line) -> None:
        if line.rise:
            self.lines.append(line)
        else:
            self.constant += line.constant

    def add_powers(self, origin: float, coefficients: list[float]) -> None:
        held = self.powers.setdefault(origin, [])
        held.extend([0] * (len(coefficients) - len(held)))
        for k, c in enumerate(coefficients):
            held[k] += c

    def add_curve(self, curve: Curve, gain: float, alpha: float = 1, beta: float = 0) -> None:
        """gain * curve(alpha * (z - beta))."""
        key = (curve, alpha, beta)
        self.curves[key] = self.curves.get(key, 0) + gain

    # ---------------------------------------------------------------------------------------------- back to one curve

    def curve(self) -> Curve:
        line = Line(0)
        for term in self.lines:
            line = line.plus(term)
        restricted = (curves.Sin, curves.Tan)
        if len(self.curves) + len(self.powers) + bool(line.rise) > 1 and any(
            isinstance(curve, restricted) for curve, _, _ in self.curves
        ):
            raise _NotLowered  # as a term a sine is not confined to its increasing part
        parts = self._straight(line) + [
            _placed(curve, alpha, beta, gain) for (curve, alpha, beta), gain in self.curves.items()
        ]
        if self.constant:
            parts = self._with_constant(parts)
        if not parts:
            return curves.Constant(_rounded(self.constant))
        if len(parts) == 1:
            return parts[0]
        if _inexact.get() and not all(part.increasing is True for part in parts):
            raise _NotLowered  # where terms balance, rounding decides about slopes
        return Sum(tuple(parts))

    def _with_constant(self, parts: list[Curve]) -> list[Curve]:
        if len(self.curves) == 1 and len(parts) == 1 and self.constant > 0:
            (((curve, alpha, beta), gain),) = self.curves.items()
            if isinstance(curve, curves.AbsPower):
                return [_placed(curves.AbsPower(curve.d, _rounded(self.constant / gain)), alpha, beta, gain)]
        return [*parts, curves.Constant(_rounded(self.constant))]

    def _straight(self, line: Line) -> list[Curve]:
        """The polynomial part; its constant is taken from the sum where a curve can hold it."""
        if not self.powers:
            alone = not self.curves
            self.constant += line.constant
            if not line.rise:
                return []
            if line.rise < 0:
                coefficients = (self.constant + line.at_zero(), line.rise)
                self.constant = 0
                return [curves.Polynomial(tuple(map(_rounded, coefficients)))]
            if alone:
                line = line.plus(Line(0, constant=self.constant))
                self.constant = 0
                return [_placed(curves.Identity(), 1, line.root, line.rise)]
            self.constant += line.at_zero()
            return [_placed(curves.Identity(), 1, 0, line.rise)]
        parts: list[Curve] = []
        for i, (origin, coefficients) in enumerate(self.powers.items()):
            held = list(coefficients)
            if i == 0:
                held[0] += self.constant + line.constant
                if line.rise:
                    held[0] += line.rise * (origin - line.root)
                    held[1] += line.rise
                self.constant = 0
            parts.append(_polynomial(origin, held))
        return parts


def _polynomial(origin: float, coefficients: list[float]) -> Curve:
    degree = len(coefficients) - 1
    while degree and not coefficients[degree]:
        degree -= 1
    held = coefficients[: degree + 1]
    if degree == 0:
        return curves.Constant(_rounded(held[0]))
    if degree % 2 == 1 and degree > 1 and held[-1] > 0 and not any(held[:-1]):
        return _placed(curves.SignedPower(float(degree)), 1, origin, held[-1])
    return curves.Polynomial(tuple(map(_rounded, held)), _rounded(origin))


def _placed(curve: Curve, alpha: float, beta: float, gain: float) -> Curve:
    alpha, beta, gain = map(_rounded, (alpha, beta, gain))
    if not (alpha > 0.0 and gain > 0.0 and math.isfinite(alpha) and math.isfinite(gain) and math.isfinite(beta)):
        raise _NotLowered
    return curve if (alpha, beta, gain) == (1.0, 0.0, 1.0) else curve.affine(alpha, beta, gain)


# -------------------------------------------------------------------------------------------------------------- terms


def _logarithm(base: Any) -> Approximate:
    _inexact.set(True)
    return approximated(math.log, base or 1)


_ODD = {
    "sinh": curves.Sinh(), "tanh": curves.Tanh(), "arctan": curves.Arctan(), "arcsinh": curves.Arcsinh(),
    "arcsin": curves.Arcsin(), "arctanh": curves.Arctanh(), "sin": curves.Sin(), "tan": curves.Tan(),
    "sign": curves.Sign(), "signedlog": curves.SignedLog(),
}  # fmt: skip


class _Lowering:
    """What is known about the parts of one expression, and how they become curves."""

    def __init__(self) -> None:
        self._lines: dict[Expression, Line | None] = {}
        self._powers: dict[Expression, Powers | None] = {}
        self._caps = 0

    def line(self, expression: Expression) -> Line | None:
        """An expression as an affine function of the variable, or None."""
        return combine(expression, _line, self._lines)

    def constant(self, expression: Expression) -> float | None:
        """The value of an expression without the variable, or None."""
        line = self.line(expression)
        return None if line is None or line.rise else line.constant

    def slanted(self, expression: Expression) -> Line:
        """An affine function that is not constant."""
        line = self.line(expression)
        if line is None or not line.rise:
            raise _NotLowered
        return line

    def powers(self, expression: Expression) -> Powers | None:
        """An expression as a polynomial of degree 2 or more: its origin and coefficients, or None."""
        powers = combine(expression, _powers, self._powers)
        return powers if powers is not None and len(powers[1]) > 2 and all(map(math.isfinite, powers[1])) else None

    def lower(self, expression: Expression) -> Curve:
        capped = self._common_cap(expression)
        if capped is not None:
            return capped
        terms = _Terms()
        stack: list[tuple[Any, Expression]] = [(1, expression)]
        while stack:
            factor, node = stack.pop()
            line = self.line(node)
            if line is not None:
                terms.add_line(line.times(factor))
            elif is_call(node, "add", "subtract"):
                a, b = node.arguments
                stack.append((-factor if is_call(node, "subtract") else factor, b))
                stack.append((factor, a))
            elif is_call(node, "negative"):
                stack.append((-factor, node.arguments[0]))
            else:
                scale, factors = self.factors(node)
                if len(factors) == 1 and is_call(factors[0], "add", "subtract", "negative"):
                    stack.append((factor * scale, factors[0]))
                else:
                    self._add_term(terms, factor * scale, factors)
            if not math.isfinite(factor):
                raise _NotLowered
        return terms.curve()

    def factors(self, node: Expression) -> tuple[float, list[Expression]]:
        """A product as a number and the factors that depend on the variable."""
        scale, factors, stack = 1, [], [node]
        while stack:
            part = stack.pop()
            value = self.constant(part)
            if value is not None:
                scale *= value
            elif is_call(part, "multiply"):
                stack.extend(reversed(part.arguments))
            elif is_call(part, "negative"):
                scale = -scale
                stack.append(part.arguments[0])
            elif is_call(part, "divide") and self.constant(part.arguments[1]):
                scale /= self.constant(part.arguments[1])  # type: ignore[operator]
                stack.append(part.arguments[0])
            else:
                factors.append(part)
        return scale, factors

    def _add_term(self, terms: _Terms, gain: float, factors: list[Expression]) -> None:
        """Add gain times a product to a sum."""
        product = factors[0]
        for factor in factors[1:]:
            product = Call("multiply", (product, factor))
        powers = self.powers(product)
        if powers is not None:
            origin, coefficients = powers
            terms.add_powers(origin, [gain * c for c in coefficients])
        elif len(factors) == 1:
            self._add_single(terms, gain, factors[0])
        elif len(factors) == 2:
            self._add_signed(terms, gain, *factors)
        else:
            raise _NotLowered

    def _add_single(self, terms: _Terms, gain: float, node: Expression) -> None:
        name, arguments = node._key(), node.arguments
        if name in _ODD:
            line = self.slanted(arguments[0])
            terms.add_curve(_ODD[name], gain if line.rise > 0 else -gain, abs(line.rise), line.root)
        elif name == "exp" or (name == "power" and (self.constant(arguments[0]) or 0) > 0):
            line = self.slanted(arguments[-1])
            if name == "power":
                line = line.times(_logarithm(self.constant(arguments[0])))
            self._add_exponential(terms, gain, line)
        elif name == "expm1":
            self._add_exponential(terms, gain, self.slanted(arguments[0]))
            terms.constant -= gain
        elif name == "cosh":
            line = self.slanted(arguments[0])
            terms.add_curve(curves.Cosh(), gain, abs(line.rise), line.root)
        elif name == "sigmoid":
            line = self.slanted(arguments[0])
            if line.rise < 0:  # sigmoid(-x) = 1 - sigmoid(x)
                terms.constant += gain
                gain = -gain
            terms.add_curve(curves.Sigmoid(), gain, abs(line.rise), line.root)
        elif name == "logit":
            line = self.slanted(arguments[0])
            if line.rise < 0:  # logit(1 - x) = -logit(x)
                gain, line = -gain, Line(0, constant=1).plus(line.times(-1))
            terms.add_curve(curves.Logit(), gain, line.rise, line.root)
        elif name in ("log", "log1p"):
            line = self.slanted(arguments[0])
            line = line.plus(Line(0, constant=1)) if name == "log1p" else line
            if line.rise > 0:
                terms.add_curve(curves.Log(), gain, line.rise, line.root)
            else:  # log(w) = log(1 - x) for x = 1 - w
                x = Line(0, constant=1).plus(line.times(-1))
                if name == "log1p":
                    x = self.slanted(arguments[0]).times(-1)
                terms.add_curve(curves.NegLog1m(), -gain, x.rise, x.root)
        elif name in ("power", "sqrt", "abs"):
            self._add_power(terms, gain, node)
        elif name in ("minimum", "maximum"):
            self._add_capped(terms, gain, node)
        elif name == "where":
            self._add_step(terms, gain, node)
        else:
            raise _NotLowered

    def _add_exponential(self, terms: _Terms, gain: float, line: Line) -> None:
        if not line.rise:
            raise _NotLowered
        if line.rise > 0:
            terms.add_curve(curves.Exp(), gain, line.rise, line.root)
        else:
            terms.add_curve(curves.AntiExp(), -gain, -line.rise, line.root)

    def _power_of(self, node: Expression) -> tuple[Expression, float]:
        """The base and the exponent of ``u^d``, ``sqrt(u)`` or u itself."""
        if is_call(node, "sqrt"):
            base, d = self._power_of(node.arguments[0])
            return (base, d / 2) if d == 1 else (node.arguments[0], 0.5)
        if is_call(node, "square"):
            return node.arguments[0], 2
        if is_call(node, "power"):
            d = self.constant(node.arguments[1])
            if d is None:
                raise _NotLowered
            return node.arguments[0], d
        return node, 1

    def _add_power(self, terms: _Terms, gain: float, node: Expression) -> None:
        """u^d on its domain u >= 0, or |u|^d."""
        base, d = self._power_of(node)
        if d <= 0:
            raise _NotLowered
        if is_call(base, "abs"):
            line = self.slanted(base.arguments[0])
            terms.add_curve(curves.AbsPower(float(d), 0.0), gain, abs(line.rise), line.root)
            return
        line = self.slanted(base)
        if d == round(d) or line.rise < 0:
            raise _NotLowered
        terms.add_curve(curves.Power(float(d)), gain, line.rise, line.root)

    def _add_signed(self, terms: _Terms, gain: float, a: Expression, b: Expression) -> None:
        """sign(u) |u|^d, u |u|^d and sign(u) log(1 + |u|)."""
        if not is_call(a, "sign", "side") and self.line(a) is None:
            a, b = b, a
        signed = is_call(a, "sign", "side")
        outer = self.slanted(a.arguments[0] if signed else a)
        gain = gain if outer.rise > 0 else -gain
        if signed and is_call(b, "log1p") and is_call(b.arguments[0], "abs"):
            inner = self.slanted(b.arguments[0].arguments[0])
            curve: Curve = curves.SignedLog()
        else:
            base, d = self._power_of(b)
            if not is_call(base, "abs") or d <= 0:
                raise _NotLowered
            inner = self.slanted(base.arguments[0])
            curve = curves.SignedPower(_rounded(d if signed else d + 1))
            if not signed:  # r (z - o) |s (z - o)|^d = r / |s| times a signed power of s (z - o)
                gain *= abs(outer.rise) / abs(inner.rise)
        if inner.root != outer.root:
            raise _NotLowered
        terms.add_curve(curve, gain, abs(inner.rise), inner.root)

    def _add_step(self, terms: _Terms, gain: float, node: Expression) -> None:
        """``where(u > v, a, b)`` with numbers a and b."""
        condition, first, second = node.arguments
        above, below = self.constant(first), self.constant(second)
        if above is None or below is None or not is_call(condition, "greater", "less", "greater_equal", "less_equal"):
            raise _NotLowered
        u, v = condition.arguments
        if is_call(condition, "less", "less_equal"):
            u, v = v, u
        line = self.line(call("subtract", u, v))
        if line is None or not line.rise:
            raise _NotLowered
        strict = is_call(condition, "greater", "less")
        if line.rise < 0:  # u > v means z < root: the other side holds its end if this one does not
            strict, above, below = not strict, below, above
        if not strict:
            raise _NotLowered
        terms.constant += gain * below
        terms.add_curve(curves.Step(), gain * (above - below), 1, line.root)

    def _cap(self, node: Expression) -> tuple[Expression, float, float]:
        """What is inside of minima and maxima with numbers, and the interval that it is clipped to."""
        low, high = -math.inf, math.inf
        while is_call(node, "minimum", "maximum"):
            inner, bound = node.arguments
            value = self.constant(bound)
            if value is None:
                inner, value = bound, self.constant(inner)
            if value is None or math.isnan(value):
                break
            if is_call(node, "maximum"):
                if value > high:
                    raise _NotLowered
                low = max(low, value)
            else:
                if value < low:
                    raise _NotLowered
                high = min(high, value)
            node = inner
        if not low < high or (math.isinf(low) and math.isinf(high)):
            raise _NotLowered
        return node, low, high

    def _add_capped(self, terms: _Terms, gain: float, node: Expression) -> None:
        inside, low, high = self._cap(node)
        line = self.line(inside)
        if line is None:
            if gain < 0:  # -clip(u, a, b) = clip(-u, -b, -a)
                gain, inside, low, high = -gain, call("negative", inside), -high, -low
            self._caps += 1
            if self._caps > _MOST_CAPS:
                raise _NotLowered
            terms.add_curve(_capped_values(self.lower(inside), float(low), float(high)), gain)
            return
        if line.rise < 0:
            gain, line, low, high = -gain, line.times(-1), -high, -low
        if math.isinf(high):
            terms.constant += gain * low
            terms.add_curve(curves.ReLU(), gain * line.rise, 1, line.root + low / line.rise)
        elif math.isinf(low):
            capped = curves.Identity().capped(high=0.0)
            terms.constant += gain * high
            terms.add_curve(capped, gain * line.rise, 1, line.root + high / line.rise)
        elif low == 0 and high == 1:
            c = 1 / (2 * line.rise)
            terms.add_curve(curves.SmeLU(_rounded(c)), gain, 1, line.root + c)
        else:
            centre, c = (low + high) / 2, (high - low) / 2
            terms.constant += gain * centre
            terms.add_curve(curves.Huber(_rounded(c)), gain, line.rise, line.root + centre / line.rise)

    def _common_cap(self, expression: Expression) -> Curve | None:
        """A curve of a capped score: an expression in which the variable appears only as clip(z, low, high)."""
        clips: dict[Expression, tuple[Expression, float, float]] = {}
        for node in walk(expression):
            if is_call(node, "minimum", "maximum"):
                try:
                    inside, low, high = self._cap(node)
                    self.slanted(inside)
                except _NotLowered:
                    continue
                for part in node.arguments:  # only the outermost counts
                    clips.pop(part, None)
                clips[node] = inside, low, high
        if len(clips) != 1 or expression in clips:
            return None
        ((clip, (inside, low, high)),) = clips.items()
        place = Variable("inside")
        rest = substitute(expression, {clip: place})
        if any(isinstance(node, Variable) and node != place for node in walk(rest)):
            return None
        curve = self.lower(substitute(rest, {place: inside}))
        line = self.slanted(inside)
        ends = [line.root + bound / line.rise for bound in (low, high)]
        if line.rise < 0:
            ends.reverse()
        for end in ends:
            cap = float(end)
            # rounding may put a cap beyond the end of the domain, or next to it where the curve is infinitely steep
            if not (math.isinf(cap) or cap == end or curve.domain.low < cap < curve.domain.high):
                raise _NotLowered
            if math.isfinite(cap) and not math.isfinite(float(curve(cap))):
                raise _NotLowered
        low_cap, high_cap = (None if math.isinf(end) else _rounded(end) for end in ends)
        return curve.capped(low_cap, high_cap)


def _capped_values(curve: Curve, low: float, high: float) -> Curve:
    """min(max(curve, low), high) as a curve with capped scores."""
    if curve.increasing is not True or not curve.continuous or curve.domain != REALS:
        raise _NotLowered
    caps: list[float | None] = []
    for bound, inside in ((low, curve.range.low < low), (high, high < curve.range.high)):
        if not inside:
            caps.append(None)
            continue
        cap = float(curve.inverse(bound))
        if not abs(float(curve(cap)) - bound) <= 1e-14 * (1 + abs(bound)):
            raise _NotLowered
        caps.append(cap)
    if low >= curve.range.high or high <= curve.range.low:
        raise _NotLowered
    return curve if caps == [None, None] else curve.capped(*caps)


# -------------------------------------------------------------------------------------------------------- polynomials

Powers = tuple[float, list[float]]


def _rebased(powers: Powers, origin: float) -> list[float]:
    """A polynomial of degree 0 or 1 about another origin."""
    old, coefficients = powers
    if len(coefficients) == 1 or old == origin:
        return coefficients
    return [coefficients[0] + coefficients[1] * (origin - old), coefficients[1]]


def _about_one_origin(a: Powers, b: Powers, *, product: bool) -> tuple[float, list[float], list[float]] | None:
    """Two polynomials about a common origin, unless shifting one would lose digits."""
    short_a, short_b = len(a[1]) <= 2, len(b[1]) <= 2
    if a[0] == b[0] or len(b[1]) == 1:
        return a[0], a[1], b[1]
    if len(a[1]) == 1:
        return b[0], a[1], b[1]
    if product and len(a[1]) + len(b[1]) - 2 > 3:
        return None
    if short_a and short_b:
        return 0, _rebased(a, 0), _rebased(b, 0)
    if short_b:
        return a[0], a[1], _rebased(b, a[0])
    return (b[0], _rebased(a, b[0]), b[1]) if short_a else None


def _product(a: list[float], b: list[float]) -> list[float]:
    result: list[Any] = [0] * (len(a) + len(b) - 1)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            result[i + j] += x * y
    return result


def _powers(node: Expression, *parts: Powers | None) -> Powers | None:
    line = _line(node, *(_as_line(part) for part in parts))
    if line is not None:
        return (line.root, [0, line.rise]) if line.rise else (0, [line.constant])
    if any(part is None for part in parts):
        return None
    known: list[Powers] = [part for part in parts if part is not None]
    name = node._key()
    if name == "negative":
        return known[0][0], [-c for c in known[0][1]]
    if name in ("add", "subtract"):
        a, b = known
        if name == "subtract":
            b = (b[0], [-c for c in b[1]])
        common = _about_one_origin(a, b, product=False)
        if common is None:
            return None
        origin, x, y = common
        size = max(len(x), len(y))
        padded = [held + [0] * (size - len(held)) for held in (x, y)]
        return origin, [p + q for p, q in zip(*padded, strict=True)]
    if name == "multiply":
        common = _about_one_origin(*known, product=True)
        if common is None or len(common[1]) + len(common[2]) - 2 > _HIGHEST_DEGREE:
            return None
        return common[0], _product(common[1], common[2])
    if name == "divide" and len(known[1][1]) == 1 and known[1][1][0]:
        return known[0][0], [c / known[1][1][0] for c in known[0][1]]
    if name in ("square", "power"):
        n = 2 if name == "square" else known[1][1][0]
        origin, coefficients = known[0]
        if (name == "power" and len(known[1][1]) > 1) or n != round(n) or not 2 <= n <= _HIGHEST_DEGREE:
            return None
        if (len(coefficients) - 1) * n > _HIGHEST_DEGREE:
            return None
        result = coefficients
        for _ in range(int(n) - 1):
            result = _product(result, coefficients)
        return origin, result
    return None


def _as_line(powers: Powers | None) -> Line | None:
    if powers is None or len(powers[1]) > 2:
        return None
    origin, coefficients = powers
    if len(coefficients) == 1:
        return Line(0, constant=coefficients[0])
    return Line(coefficients[1], origin).plus(Line(0, constant=coefficients[0]))
