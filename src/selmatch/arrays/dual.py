"""Dual numbers: a value and its derivative, carried through any formula.

``Dual(x, t)`` stands for x + t e with e^2 = 0. The parts may be floats, arrays of any library, or dual numbers again
(second derivatives).
"""

from __future__ import annotations

from typing import Any

from selmatch import functions as f
from selmatch.arrays import ufuncs
from selmatch.parameters import declared_numbers

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
        return f.power(base, self)

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

    def __array_function__(self, *_: Any) -> Any:
        return NotImplemented  # numpy.where would make an array of objects, whose slope is lost


def _parts(x: Any) -> tuple[Array, Array]:
    return (x.value, x.tangent) if isinstance(x, Dual) else (x, 0.0)


def _chain(name: str, derivative: Any) -> Any:
    """The rule f(x + t e) = f(x) + f'(x) t e; the derivative gets x and f(x)."""
    function = getattr(f, name)

    def apply(x: Dual) -> Dual:
        y = function(x.value)
        return Dual(y, derivative(x.value, y) * x.tangent)

    return staticmethod(apply)


def _chosen(condition: Array, a: Any, b: Any) -> Dual:
    """A choice that does not jump where the condition changes."""
    (va, ta), (vb, tb) = _parts(a), _parts(b)
    if f.is_number(ta) and f.is_number(tb):  # not of infinite values: that would be NaN
        like = va if f.is_number(vb) else vb
        ta = ta if f.is_number(like) else ta + 0.0 * like
    return Dual(f.where(condition, va, vb), f.where(condition, ta, tb))


def _jump(condition: Array) -> Any:
    """What a jump adds to a derivative: something only where a condition on a range of numbers is undecided."""
    return getattr(condition, "any_slope", 0.0)


class DualNamespace:
    """The functions of formulas on dual numbers."""

    name = "dual numbers"
    is_library = False
    wraps_any = True  # of dual numbers and ranges the former hold the latter

    exp = _chain("exp", lambda x, y: y)
    expm1 = _chain("expm1", lambda x, y: f.exp(x))
    log = _chain("log", lambda x, y: f.reciprocal(x))
    log1p = _chain("log1p", lambda x, y: f.reciprocal(1.0 + x))
    sqrt = _chain("sqrt", lambda x, y: 0.5 * f.reciprocal(y))
    square = _chain("square", lambda x, y: 2.0 * x)
    sin = _chain("sin", lambda x, y: f.cos(x))
    cos = _chain("cos", lambda x, y: -f.sin(x))
    tan = _chain("tan", lambda x, y: 1.0 + f.square(y))
    sinh = _chain("sinh", lambda x, y: f.cosh(x))
    cosh = _chain("cosh", lambda x, y: f.sinh(x))
    tanh = _chain("tanh", lambda x, y: f.sech_squared(x))
    arcsin = _chain("arcsin", lambda x, y: f.reciprocal(f.sqrt((1.0 - x) * (1.0 + x))))
    arctan = _chain("arctan", lambda x, y: 1.0 / (1.0 + f.square(x)))
    arcsinh = _chain("arcsinh", lambda x, y: 1.0 / f.hypot1(x))
    sigmoid = _chain("sigmoid", lambda x, y: y * f.sigmoid(-x))
    softplus = _chain("softplus", lambda x, y: f.sigmoid(x))
    hypot1 = _chain("hypot1", lambda x, y: x / y)
    phi = _chain("phi", lambda x, y: f.expm1(x))
    omega = _chain("omega", lambda x, y: 2.0 * f.square(f.sin(0.5 * x)))
    logit = _chain("logit", lambda x, y: f.reciprocal(x * (1.0 - x)))
    abs = _chain("abs", lambda x, y: f.sign(x))
    fold = _chain("fold", lambda x, y: f.where(x > 0, -1.0, 1.0 + 0.0 * x))
    positive_part = _chain("positive_part", lambda x, y: f.where(x > 0, 1.0, 0.0 * x))

    @staticmethod
    def sign(x: Dual) -> Dual:
        return Dual(f.sign(x.value), 0.0 * x.tangent + _jump(x.value > 0) + _jump(x.value < 0))

    @staticmethod
    def side(x: Dual) -> Array:
        jump = _jump(x.value < 0)
        return f.side(x.value) if f.is_number(jump) else Dual(f.side(x.value), jump)

    @staticmethod
    def within(x: Dual, bound: float) -> Dual:
        return _chosen(f.abs(x.value) <= bound, x, 0.0)

    @staticmethod
    def double(x: Dual) -> Dual:
        return x

    @staticmethod
    def isfinite(x: Dual) -> Array:
        return f.isfinite(x.value)

    @staticmethod
    def where(condition: Array, a: Any, b: Any) -> Dual:
        choice = _chosen(condition, a, b)
        return Dual(choice.value, choice.tangent + _jump(condition))

    @staticmethod
    def minimum(a: Any, b: Any) -> Dual:
        a, b = (b, a) if f.is_number(a) else (a, b)
        return _chosen(_parts(a)[0] > _parts(b)[0], b, a)  # NaN stays

    @staticmethod
    def maximum(a: Any, b: Any) -> Dual:
        a, b = (b, a) if f.is_number(a) else (a, b)
        return _chosen(_parts(a)[0] < _parts(b)[0], b, a)

    @staticmethod
    def arctan2(y: Any, x: Any) -> Dual:
        (vy, ty), (vx, tx) = _parts(y), _parts(x)
        square = f.square(vx) + f.square(vy)
        return Dual(f.arctan2(vy, vx), ty * (vx / square) - tx * (vy / square))

    @staticmethod
    def power(x: Any, d: Any) -> Dual:
        if isinstance(x, Dual) and isinstance(d, Dual):
            return f.exp(d * f.log(x))
        if isinstance(d, Dual):
            y = f.power(x, d.value)
            return Dual(y, f.log(x + 0.0 * d.value) * y * d.tangent)  # of x as an array, or a range
        if f.is_number(d) and d - (d - 1.0) != 1.0:  # d - 1 is rounded
            y = f.power(x.value, d)
            return Dual(y, d * y / x.value * x.tangent)
        return Dual(f.power(x.value, d), d * f.power(x.value, d - 1.0) * x.tangent)

    @staticmethod
    def xlogy(x: Any, y: Any) -> Dual:
        (vx, tx), (vy, ty) = _parts(x), _parts(y)
        return Dual(f.xlogy(vx, vy), f.log(vy) * tx + vx / vy * ty)

    @staticmethod
    def is_single(x: Dual) -> bool:
        return f.namespace_of(x.value).is_single(x.value)

    @staticmethod
    def fold_constants(x: Dual, function: Any, numbers: list[Any]) -> Any:
        fold = getattr(f.namespace_of(x.value), "fold_constants", None)
        return function(*numbers) if fold is None else fold(x.value, function, numbers)

    @staticmethod
    def like(values: Any, x: Dual) -> Array:
        return f.like(values, x.value)

    @staticmethod
    def integral(curve: Any, x: Dual) -> Dual:
        return Dual(curve.primitive(x.value), curve(x.value) * x.tangent)


def _lifted(x: Any) -> Dual:
    return x if isinstance(x, Dual) or f.is_number(x) else Dual(x, 0.0 * x)


Dual.__array_ufunc__ = ufuncs.through(DualNamespace, _lifted)  # type: ignore[attr-defined]

f.register(Dual, DualNamespace)


def _with_dual_numbers(curve: Any, learned: tuple[str, ...]) -> Any:
    """A curve whose numbers to train are dual numbers: compiled code of PyTorch cannot multiply these by tensors."""
    copied = object.__new__(type(curve))
    for name, value in vars(curve).items():
        lifted = name in learned and not f.is_number(value)
        object.__setattr__(copied, name, Dual(value, 0.0) if lifted else value)
    return copied


def derivative(function: Any, x: Array) -> Array:
    """The derivative of a function at x, exact to rounding."""
    ones = 1.0 + 0.0 * x
    learned = declared_numbers(function)
    if learned:
        function = _with_dual_numbers(function, learned)
    result = f.apply_formula(function, Dual(1.0 * x, ones))
    if isinstance(result, Dual):
        return result.tangent * ones
    f.namespace_of(result)  # a constant, or else no number at all
    return 0.0 * ones
