"""Dual numbers: a value and its derivative, carried through any formula.

``Dual(x, t)`` stands for x + t e with e^2 = 0. The parts may be floats, arrays of any library, or dual numbers again
(second derivatives).
"""

from __future__ import annotations

import operator
from typing import Any

from selmatch import functions as f

Array = Any


class Dual:
    """A value with its derivative along one direction."""

    __slots__ = ("tangent", "value")

    def __init__(self, value: Array, tangent: Array) -> None:
        self.value = value
        self.tangent = tangent

    def __repr__(self) -> str:
        return f"Dual({self.value!r}, {self.tangent!r})"

    def __pos__(self) -> Dual:
        return self

    def __neg__(self) -> Dual:
        return Dual(-self.value, -self.tangent)

    def __add__(self, other: Any) -> Dual:
        v, t = _parts(other)
        return Dual(self.value + v, self.tangent + t)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Dual:
        v, t = _parts(other)
        return Dual(self.value - v, self.tangent - t)

    def __rsub__(self, other: Any) -> Dual:
        return -self + other

    def __mul__(self, other: Any) -> Dual:
        v, t = _parts(other)
        return Dual(self.value * v, self.tangent * v + self.value * t)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Dual:
        v, t = _parts(other)
        ratio = self.value / v
        return Dual(ratio, (self.tangent - ratio * t) / v)

    def __rtruediv__(self, other: Any) -> Dual:
        ratio = other / self.value
        return Dual(ratio, -ratio / self.value * self.tangent)

    def __pow__(self, d: Any) -> Dual:
        return f.power(self, d)

    def __rpow__(self, base: Any) -> Dual:
        return f.exp(self * f.log(base))

    def __abs__(self) -> Dual:
        return f.abs(self)

    def __lt__(self, other: Any) -> Array:
        return self.value < _parts(other)[0]

    def __le__(self, other: Any) -> Array:
        return self.value <= _parts(other)[0]

    def __gt__(self, other: Any) -> Array:
        return self.value > _parts(other)[0]

    def __ge__(self, other: Any) -> Array:
        return self.value >= _parts(other)[0]

    def __eq__(self, other: object) -> Array:
        return self.value == _parts(other)[0]

    def __ne__(self, other: object) -> Array:
        return self.value != _parts(other)[0]

    __hash__ = None  # type: ignore[assignment]

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Lets a user's formula say ``np.tanh(x)`` and makes NumPy arrays give way to dual numbers."""
        if method != "__call__" or kwargs:
            return NotImplemented
        name = str(ufunc.__name__)
        if name in _OPERATORS:
            return _OPERATORS[name](*inputs)
        function = _UFUNC_NAMES.get(name, name)
        return getattr(f, function)(*inputs) if hasattr(DualNamespace, function) else NotImplemented


def _parts(x: Any) -> tuple[Array, Array]:
    return (x.value, x.tangent) if isinstance(x, Dual) else (x, 0.0)


def _reflected(op: Any) -> Any:
    """An operator for two operands of which an array may come first; the array would not know the dual number."""

    def apply(a: Any, b: Any) -> Any:
        return op(a if isinstance(a, Dual) else Dual(a, 0.0 * a), b)

    return apply


_OPERATORS = {
    "add": _reflected(operator.add),
    "subtract": _reflected(operator.sub),
    "multiply": _reflected(operator.mul),
    "divide": _reflected(operator.truediv),
    "less": _reflected(operator.lt),
    "less_equal": _reflected(operator.le),
    "greater": _reflected(operator.gt),
    "greater_equal": _reflected(operator.ge),
    "equal": _reflected(operator.eq),
    "not_equal": _reflected(operator.ne),
    "negative": operator.neg,
    "reciprocal": lambda x: 1.0 / x,
    "positive": operator.pos,
}
_UFUNC_NAMES = {"absolute": "abs", "fabs": "abs", "float_power": "power"}


def _chain(name: str, derivative: Any) -> Any:
    """The rule f(x + t e) = f(x) + f'(x) t e; the derivative gets x and f(x)."""
    function = getattr(f, name)

    def apply(x: Dual) -> Dual:
        y = function(x.value)
        return Dual(y, derivative(x.value, y) * x.tangent)

    return staticmethod(apply)


class DualNamespace:
    """The functions of formulas on dual numbers."""

    name = "dual numbers"
    is_library = False

    exp = _chain("exp", lambda x, y: y)
    expm1 = _chain("expm1", lambda x, y: y + 1.0)
    log = _chain("log", lambda x, y: 1.0 / x)
    log1p = _chain("log1p", lambda x, y: 1.0 / (1.0 + x))
    sqrt = _chain("sqrt", lambda x, y: 0.5 / y)
    square = _chain("square", lambda x, y: 2.0 * x)
    sin = _chain("sin", lambda x, y: f.cos(x))
    cos = _chain("cos", lambda x, y: -f.sin(x))
    tan = _chain("tan", lambda x, y: 1.0 + f.square(y))
    sinh = _chain("sinh", lambda x, y: f.cosh(x))
    cosh = _chain("cosh", lambda x, y: f.sinh(x))
    tanh = _chain("tanh", lambda x, y: 1.0 / f.square(f.cosh(x)))
    arcsin = _chain("arcsin", lambda x, y: 1.0 / f.sqrt((1.0 - x) * (1.0 + x)))
    arctan = _chain("arctan", lambda x, y: 1.0 / (1.0 + f.square(x)))
    arcsinh = _chain("arcsinh", lambda x, y: 1.0 / f.hypot1(x))
    abs = _chain("abs", lambda x, y: f.sign(x))
    sign = _chain("sign", lambda x, y: 0.0)
    fold = _chain("fold", lambda x, y: f.where(x > 0, -1.0, 1.0 + 0.0 * x))
    positive_part = _chain("positive_part", lambda x, y: f.where(x > 0, 1.0, 0.0 * x))

    @staticmethod
    def side(x: Dual) -> Array:
        return f.side(x.value)

    @staticmethod
    def within(x: Dual, bound: float) -> Dual:
        return DualNamespace.where(f.abs(x.value) <= bound, x, 0.0)

    @staticmethod
    def double(x: Dual) -> Dual:
        return x

    @staticmethod
    def isfinite(x: Dual) -> Array:
        return f.isfinite(x.value)

    @staticmethod
    def where(condition: Array, a: Any, b: Any) -> Dual:
        (va, ta), (vb, tb) = _parts(a), _parts(b)
        like = va if f.is_number(vb) else vb
        zero = 0.0 if f.is_number(like) else 0.0 * like
        return Dual(f.where(condition, va, vb), f.where(condition, ta + zero, tb + zero))

    @staticmethod
    def minimum(a: Any, b: Any) -> Dual:
        a, b = (b, a) if f.is_number(a) else (a, b)
        return DualNamespace.where(_parts(a)[0] > _parts(b)[0], b, a)  # NaN stays

    @staticmethod
    def maximum(a: Any, b: Any) -> Dual:
        a, b = (b, a) if f.is_number(a) else (a, b)
        return DualNamespace.where(_parts(a)[0] < _parts(b)[0], b, a)

    @staticmethod
    def arctan2(y: Any, x: Any) -> Dual:
        (vy, ty), (vx, tx) = _parts(y), _parts(x)
        return Dual(f.arctan2(vy, vx), (ty * vx - tx * vy) / (f.square(vx) + f.square(vy)))

    @staticmethod
    def power(x: Any, d: Any) -> Dual:
        if isinstance(d, Dual):
            return f.exp(d * f.log(x))
        return Dual(f.power(x.value, d), d * f.power(x.value, d - 1.0) * x.tangent)

    @staticmethod
    def xlogy(x: Any, y: Any) -> Dual:
        (vx, tx), (vy, ty) = _parts(x), _parts(y)
        return Dual(f.xlogy(vx, vy), f.log(vy) * tx + vx / vy * ty)

    @staticmethod
    def is_single(x: Dual) -> bool:
        return f.namespace_of(x.value).is_single(x.value)

    @staticmethod
    def like(values: Any, x: Dual) -> Array:
        return f.like(values, x.value)


f.register(Dual, DualNamespace)


def derivative(function: Any, x: Array) -> Array:
    """The derivative of a function at x, exact to rounding."""
    ones = 1.0 + 0.0 * x
    result = function(Dual(1.0 * x, ones))
    return result.tangent * ones if isinstance(result, Dual) else 0.0 * ones
