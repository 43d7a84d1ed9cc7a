"""Formulas and curves evaluated on balls of at least 60 digits: what the fuzzer of proofs holds certificates against.

This is a second definition of the grammar and of the curves, on python-flint's ``arb`` alone: none of the library's
parsing, simplification or interval arithmetic is used. A comparison of two balls that says yes is a proof.
"""

from __future__ import annotations

import functools
import math
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from flint import arb, ctx

#: bits of working precision, from 60 digits on; the last is enough for 1e300 + 1e-300
PRECISIONS = (212, 1100, 4600)
#: bits that a value must have before a higher precision is not tried
WANTED = 180

Function = Callable[[Any], Any]


class Unclear:
    """A comparison that the precision does not decide."""

    def __and__(self, other: Any) -> Any:
        return False if other is False else self

    def __or__(self, other: Any) -> Any:
        return True if other is True else self

    __rand__, __ror__ = __and__, __or__

    def __bool__(self) -> bool:
        raise ArithmeticError("a condition is not clear")


UNCLEAR = Unclear()
#: the outcome of each comparison, while somebody listens
_heard: list[list[Any]] = []
#: not empty while slopes count
_heeded: list[bool] = []


class Exact:
    """A real number in a ball and, where that is asked for, how fast it changes with the score; None for a constant."""

    __slots__ = ("ball", "slope")

    def __init__(self, ball: Any, slope: Any = None) -> None:
        self.ball = ball
        self.slope = slope

    def __neg__(self) -> Exact:
        return Exact(-self.ball, None if self.slope is None else -self.slope)

    def __pos__(self) -> Exact:
        return self

    def __abs__(self) -> Exact:
        if self.slope is None:
            return Exact(abs(self.ball))
        return -self if _is_larger(0, self) else self

    def __add__(self, other: Any) -> Exact:
        return Exact(self.ball + ball_of(other), _changed((self, lambda: arb(1)), (other, lambda: arb(1))))

    def __sub__(self, other: Any) -> Exact:
        return self + -_number(other)

    def __rsub__(self, other: Any) -> Exact:
        return _number(other) - self

    def __mul__(self, other: Any) -> Exact:
        a, b = self.ball, ball_of(other)
        return Exact(a * b, _changed((self, lambda: b), (other, lambda: a)))

    def __truediv__(self, other: Any) -> Exact:
        a, b = self.ball, ball_of(other)
        return Exact(a / b, _changed((self, lambda: 1 / b), (other, lambda: -a / b**2)))

    def __rtruediv__(self, other: Any) -> Exact:
        return _number(other) / self

    def __pow__(self, other: Any) -> Exact:
        return _power(self, other)

    def __rpow__(self, other: Any) -> Exact:
        return _power(other, self)

    __radd__, __rmul__ = __add__, __mul__

    def __lt__(self, other: Any) -> Any:
        return _compared(operator.lt, operator.ge, self, other)

    def __le__(self, other: Any) -> Any:
        return _compared(operator.le, operator.gt, self, other)

    def __gt__(self, other: Any) -> Any:
        return _compared(operator.gt, operator.le, self, other)

    def __ge__(self, other: Any) -> Any:
        return _compared(operator.ge, operator.lt, self, other)

    def __eq__(self, other: object) -> Any:
        return _compared(operator.eq, operator.ne, self, other)

    def __ne__(self, other: object) -> Any:
        return _compared(operator.ne, operator.eq, self, other)

    __hash__ = None  # type: ignore[assignment]


class Literal(Exact):
    """A number that is written in a formula."""

    __slots__ = ()


def ball_of(x: Any) -> Any:
    return x.ball if isinstance(x, Exact) else arb(x)


def _number(x: Any) -> Exact:
    return x if isinstance(x, Exact) else Exact(arb(x))


def _changes(*parts: Any) -> bool:
    return any(getattr(part, "slope", None) is not None for part in parts)


def _changed(*parts: tuple[Any, Callable[[], Any]]) -> Any:
    """The slope of something, from its parts and its derivatives by each; None if all are constant."""
    slopes = [part.slope * by_part() for part, by_part in parts if _changes(part)]
    return sum(slopes[1:], slopes[0]) if slopes else None


def _compared(yes: Any, no: Any, x: Any, y: Any) -> Any:
    a, b = ball_of(x), ball_of(y)
    answer = True if yes(a, b) else False if no(a, b) else UNCLEAR
    if _changes(x, y) and not (a < b or a > b):  # next to the score it may be otherwise
        answer = UNCLEAR
    if _heard:
        _heard[-1].append(answer)
    return answer


# ------------------------------------------------------------------------------------------------------------ functions


def _where(condition: Any, a: Any, b: Any) -> Exact:
    if not isinstance(condition, Unclear):
        return _number(a if condition else b)
    if _heeding_slopes():
        raise ArithmeticError("a condition is not clear, so that the slope is not")
    return Exact(ball_of(a).union(ball_of(b)))


def _power(base: Any, exponent: Any) -> Exact:
    x, d = ball_of(base), ball_of(exponent)
    if d.is_zero() and not _changes(exponent):
        return Exact(arb(1))
    if isinstance(base, (Literal, float)) and x == arb(math.e):
        return _of("exp")(exponent)
    value = x**d
    return Exact(value, _changed((base, lambda: d * x ** (d - 1)), (exponent, lambda: x.log() * value)))


def _is_larger(a: Any, b: Any) -> bool:
    """Which of two numbers is larger, where slopes count: not known where they meet."""
    answer = _number(a) > b
    if answer is UNCLEAR:
        raise ArithmeticError("two branches meet")
    return answer


def _least(a: Any, b: Any) -> Exact:
    if _changes(a, b):
        return _number(b if _is_larger(a, b) else a)
    return Exact(ball_of(a).min(ball_of(b)))


def _most(a: Any, b: Any) -> Exact:
    return -_least(-_number(a), -_number(b))


def _clip(x: Any, low: Any, high: Any) -> Exact:
    return _least(_most(x, low), high)


#: derivatives of functions with one argument
_SLOPES: dict[str, Callable[[Any], Any]] = {
    "exp": lambda x: x.exp(), "expm1": lambda x: x.exp(), "log": lambda x: 1 / x, "log1p": lambda x: 1 / (1 + x),
    "sqrt": lambda x: 1 / (2 * x.sqrt()), "sin": lambda x: x.cos(), "cos": lambda x: -x.sin(),
    "tan": lambda x: 1 / x.cos() ** 2, "sinh": lambda x: x.cosh(), "cosh": lambda x: x.sinh(),
    "tanh": lambda x: x.sech() ** 2, "asin": lambda x: 1 / (1 - x**2).sqrt(), "atan": lambda x: 1 / (1 + x**2),
    "asinh": lambda x: 1 / (1 + x**2).sqrt(), "atanh": lambda x: 1 / (1 - x**2),
}  # fmt: skip


def _of(name: str) -> Function:
    return lambda x: Exact(getattr(ball_of(x), name)(), _changed((x, lambda: _SLOPES[name](ball_of(x)))))


def _sigmoid_of(ball: Any) -> Any:
    return 1 / (1 + (-ball).exp()) if ball >= 0 else ball.exp() / (1 + ball.exp())


def _sigmoid(x: Any) -> Exact:
    ball = ball_of(x)
    return Exact(_sigmoid_of(ball), _changed((x, lambda: (ball / 2).sech() ** 2 / 4)))


def _softplus(x: Any) -> Exact:
    ball = ball_of(x)
    value = ball.max(arb(0)) + (-abs(ball)).exp().log1p()
    return Exact(value, _changed((x, lambda: _sigmoid_of(ball))))


def _sign(x: Any) -> Exact:
    x = _number(x)
    return _where(x > 0, 1, _where(x < 0, -1, 0))


def _side(x: Any) -> Exact:
    return _where(_number(x) < 0, -1, 1)


def _square(x: Any) -> Exact:
    return Exact(ball_of(x) ** 2, _changed((x, lambda: 2 * ball_of(x))))


def _signedlog(x: Any) -> Exact:
    return _sign(x) * _of("log1p")(abs(_number(x)))


def _logit(x: Any) -> Exact:
    ball = ball_of(x)
    value = arb(0) if ball == arb(0.5) else ball.log() - (-ball).log1p()
    return Exact(value, _changed((x, lambda: 1 / (ball * (1 - ball)))))


def _arctan2(y: Any, x: Any) -> Exact:
    v, u = ball_of(y), ball_of(x)
    return Exact(arb.atan2(v, u), _changed((y, lambda: u / (u**2 + v**2)), (x, lambda: -v / (u**2 + v**2))))


def _huber(x: Any, c: Any = 1.0) -> Exact:
    return _clip(x, -_number(c), c)


def _smelu(x: Any, c: Any = 1.0) -> Exact:
    x, c = _number(x), _number(c)
    return _clip((x + c) / (2 * c), 0, 1)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: _of(name) for name in ("exp", "expm1", "log", "log1p", "sqrt", "sin", "cos", "tan", "sinh", "cosh")},
    **{name: _of(name) for name in ("tanh", "asin", "atan", "asinh", "atanh")},
    **{f"arc{name}": _of(f"a{name}") for name in ("sin", "tan", "sinh", "tanh")},
    "ln": _of("log"), "arsinh": _of("asinh"), "artanh": _of("atanh"), "abs": lambda x: abs(_number(x)),
    "sigmoid": _sigmoid, "σ": _sigmoid, "softplus": _softplus, "sign": _sign, "side": _side, "square": _square,
    "signedlog": _signedlog, "logit": _logit,
    "relu": lambda x: _most(x, 0), "step": lambda x: _where(_number(x) > 0, 1, 0),
    "huber": _huber, "smelu": _smelu, "power": _power, "pow": _power, "clip": _clip, "where": _where,
    "arctan2": _arctan2,
    **{name: lambda *parts: functools.reduce(_least, parts) for name in ("min", "minimum")},
    **{name: lambda *parts: functools.reduce(_most, parts) for name in ("max", "maximum")},
    "isfinite": lambda x: True,
}  # fmt: skip

# ------------------------------------------------------------------------------------------------------------- formulas

_TOKEN = re.compile(r"\s*([0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?|\w+|\*\*|[<>=!]=|\S)")
_SAME = {"**": "^", "−": "-", "×": "*", "·": "*"}
_OPERATORS: dict[str, tuple[int, int, Callable[[Any, Any], Any]]] = {
    "or": (1, 2, operator.or_), "and": (3, 4, operator.and_), "<": (5, 6, operator.lt), "<=": (5, 6, operator.le),
    ">": (5, 6, operator.gt), ">=": (5, 6, operator.ge), "==": (5, 6, operator.eq), "!=": (5, 6, operator.ne),
    "+": (7, 8, operator.add), "-": (7, 8, operator.sub), "*": (9, 10, operator.mul), "/": (9, 10, operator.truediv),
    "^": (13, 11, _power),
}  # fmt: skip


class _Reader:
    """A formula as a function of an exact number; the text is known to be in the grammar."""

    def __init__(self, text: str) -> None:
        self.tokens: list[str] = [*(_SAME.get(token) or token for token in _TOKEN.findall(text)), "end"]

    def take(self, expected: str = "") -> str:
        token: str = self.tokens.pop(0)
        if expected and token != expected:
            raise ValueError(f"expected {expected}, got {token}")
        return token

    def read(self, binding: int = 0) -> Function:
        left = self.operand()
        while (found := _OPERATORS.get(self.tokens[0])) and found[0] > binding:
            self.take()
            left = self.joined(found[2], left, self.read(found[1] - 1))
        return left

    @staticmethod
    def joined(operation: Any, left: Function, right: Function) -> Function:
        return lambda x: operation(left(x), right(x))

    def operand(self) -> Function:
        token = self.take()
        if token in ("-", "+"):
            inner = self.read(11)
            return (lambda x: -inner(x)) if token == "-" else inner
        if token in ("(", "|"):
            inner = self.read()
            self.take(")" if token == "(" else "|")
            return inner if token == "(" else lambda x: abs(inner(x))
        if token[0].isdigit() or token[0] == ".":
            value = float(token)
            return lambda x: Literal(arb(value))
        if token in ("z", "x", "s"):
            return lambda x: x
        if token in ("pi", "π", "e"):
            constant = math.e if token == "e" else math.pi
            return lambda x: Literal(arb(constant))
        self.take("(")
        parts = [self.read()]
        while self.tokens[0] == ",":
            self.take()
            parts.append(self.read())
        self.take(")")
        function = FUNCTIONS[token]
        return lambda x: function(*(part(x) for part in parts))


def formula(text: str) -> Function:
    """A text of the grammar as a function of an exact number; every number in it is the double that is meant."""
    reader = _Reader(text)
    found = reader.read()
    reader.take("end")
    return found


# --------------------------------------------------------------------------------------------------------------- curves


class ExactCurve:
    """A function and, where one is known, its antiderivative."""

    def __init__(self, function: Function, primitive: Function | None = None) -> None:
        self.function = function
        self.primitive = primitive

    def __call__(self, x: Any) -> Any:
        return self.function(x)

    def affine(self, alpha: float = 1.0, beta: float = 0.0, gain: float = 1.0) -> ExactCurve:
        def place(x: Any) -> Any:
            return alpha * (x - beta)

        own = self.primitive
        factor = Exact(arb(gain))
        return ExactCurve(lambda x: gain * self(place(x)), own and (lambda x: factor / alpha * own(place(x))))

    def capped(self, low: float | None = None, high: float | None = None) -> ExactCurve:
        def inside(x: Any) -> Any:
            x = x if low is None else _most(x, low)
            return x if high is None else _least(x, high)

        own = self.primitive
        return ExactCurve(
            lambda x: self(inside(x)), own and (lambda x: own(inside(x)) + (x - inside(x)) * self(inside(x)))
        )

    def __add__(self, other: Any) -> ExactCurve:
        return _sum((self, other if isinstance(other, ExactCurve) else _constant(other)))

    __radd__ = __add__

    def __mul__(self, factor: float) -> ExactCurve:
        return self.affine(gain=factor)

    __rmul__ = __mul__


def _sum(curves: Sequence[ExactCurve]) -> ExactCurve:
    def total(parts: Iterator[Any]) -> Any:
        return functools.reduce(operator.add, parts)

    primitives = [curve.primitive for curve in curves if curve.primitive is not None]
    whole = len(primitives) == len(curves)
    return ExactCurve(
        lambda x: total(curve(x) for curve in curves),
        (lambda x: total(part(x) for part in primitives)) if whole else None,
    )


def _constant(value: float = 1.0) -> ExactCurve:
    return ExactCurve(lambda x: Exact(arb(value)), lambda x: value * x)


def _polynomial(coefficients: Sequence[float], origin: float = 0.0) -> ExactCurve:
    def summed(x: Any, weights: list[Any]) -> Any:
        return functools.reduce(lambda total, c: total * (x - origin) + c, reversed(weights), Exact(arb(0)))

    def primitive(x: Any) -> Any:
        return summed(x, [Exact(arb(0)), *(Exact(arb(c)) / (k + 1) for k, c in enumerate(coefficients))])

    return ExactCurve(lambda x: summed(x, list(coefficients)), primitive)


def _piecewise(knots: Sequence[float], pieces: Sequence[ExactCurve]) -> ExactCurve:
    def value(x: Any) -> Any:
        total = pieces[0](_clip(x, knots[0], knots[1]))
        for piece, a, b in zip(pieces[1:], knots[1:], knots[2:], strict=False):
            total = _where(x > a, piece(_clip(x, a, b)), total)
        return total

    return ExactCurve(value)


def _abs_power(d: float, c: float = 1.0) -> ExactCurve:
    def primitive(x: Any) -> Any:
        return _sign(x) * _power(abs(x), Exact(arb(d)) + 1) / (Exact(arb(d)) + 1) + c * x

    return ExactCurve(lambda x: _power(abs(x), d) + c, primitive)


def _composite_sigmoid(scaling: ExactCurve, gamma: float = 1.0, offset: float = 0.0, check: bool = True) -> ExactCurve:
    Q = scaling.primitive
    if Q is None:
        raise LookupError("no antiderivative")
    return ExactCurve(lambda x: scaling(x) * _sigmoid((Q(x) + offset) / gamma))


def _log_cosh(x: Any) -> Any:
    return abs(x) + _of("log1p")(_of("exp")(-2 * abs(x))) - _of("log")(2)


def _made(function: Function, primitive: Function | None = None) -> Callable[[], ExactCurve]:
    return lambda: ExactCurve(function, primitive)


F = FUNCTIONS
#: what the names in the source of a curve mean here
CURVES: dict[str, Any] = {
    "Identity": _made(lambda x: x, lambda x: _square(x) / 2),
    "Constant": _constant,
    "Sigmoid": _made(_sigmoid, _softplus),
    "Tanh": _made(F["tanh"], _log_cosh),
    "Sinh": _made(F["sinh"], F["cosh"]),
    "Cosh": _made(F["cosh"], F["sinh"]),
    "Exp": _made(F["exp"], F["exp"]),
    "AntiExp": _made(lambda x: -F["exp"](-x), lambda x: F["exp"](-x)),
    "Arctan": _made(F["arctan"]),
    "Arcsinh": _made(F["arcsinh"]),
    "ReLU": _made(F["relu"], lambda x: _square(F["relu"](x)) / 2),
    "Step": _made(F["step"], F["relu"]),
    "Polynomial": _polynomial,
    "Piecewise": _piecewise,
    "AbsPower": _abs_power,
    "Sum": _sum,
    "CompositeSigmoid": _composite_sigmoid,
    "FromLink": ExactCurve,
    "parse": lambda text, **options: ExactCurve(formula(text)),
    "f": SimpleNamespace(**FUNCTIONS),
}

# ----------------------------------------------------------------------------------------------------------- evaluation


@contextmanager
def _heeding() -> Iterator[None]:
    _heeded.append(True)
    try:
        yield
    finally:
        _heeded.pop()


def _heeding_slopes() -> bool:
    return bool(_heeded)


@contextmanager
def listening() -> Iterator[list[Any]]:
    """Collect the outcomes of comparisons."""
    outcomes: list[Any] = []
    _heard.append(outcomes)
    try:
        yield outcomes
    finally:
        _heard.pop()


def negative_slope_at(function: Function, z: Any) -> bool:
    """Whether the slope at a score is certainly negative, and every condition certainly the same on both sides."""
    for bits in PRECISIONS:
        with ctx.workprec(bits), _heeding():
            try:
                slope = function(Exact(z, arb(1))).slope
            except ArithmeticError:
                continue
        if slope is not None and slope.is_finite() and not slope.contains(0):
            return bool(slope < 0)
    return False


def precisely(z: float) -> Any:
    """A score as a ball without radius."""
    return arb(z)


def value_at(function: Function, z: Any, least: int = PRECISIONS[0]) -> Any:
    """The value at a score in a small ball, or None where none can be formed."""
    found = None
    for bits in (bits for bits in PRECISIONS if bits >= least):
        if _heard:
            _heard[-1].clear()
        with ctx.workprec(bits):
            try:
                found = ball_of(function(Exact(z)))
            except ArithmeticError:
                continue
            if found.is_finite() and (found.is_exact() or found.rel_accuracy_bits() >= WANTED):
                return found
            if found.is_nan() and bits >= PRECISIONS[1]:
                return None
    return found if found is not None and found.is_finite() else None
