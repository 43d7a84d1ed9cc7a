"""The functions that formulas are written with, dispatched on the type of their argument.

One line of mathematics runs on Python floats, NumPy, PyTorch, JAX, anything with ``__array_namespace__`` and on the
library's own dual numbers. Other array types join with :func:`register`.

Smooth functions that are computed in branches stay smooth under automatic differentiation: each branch is a formula
that also holds beyond the branching point, arguments of the branch not taken are replaced by harmless ones with
:func:`where` (never clipped, which would halve or drop derivatives), and ``-|x|`` is spelled :func:`fold`.
"""

from __future__ import annotations

import functools
import math
from math import factorial
from typing import Any

import numpy as np

from selmatch.arrays import namespaces
from selmatch.arrays.namespaces import is_number, loaded

__all__ = [
    "abs", "arcsin", "arcsinh", "arctan", "arctan2", "cos", "cosh", "end", "exp", "expm1", "falling", "far_phi", "fold",
    "half_exponentials", "helper", "hyperbolic", "hypot1", "isfinite", "k_scaled", "layer_sum", "like", "log",
    "log1p", "log_ratio", "logit", "maximum", "minimum", "mirror", "namespace_of", "not_negative", "omega",
    "overflowing", "phi", "positive_part", "power", "psi", "psi_series", "quotient", "reciprocal", "register",
    "rounded_once", "row_max", "row_sum", "scaled_expm1", "scaled_phi", "sech_squared", "side", "sigmoid",
    "sigmoid_times", "sign", "sin", "sinh", "softplus", "sqrt", "square", "tan", "tanh", "where", "within", "xlogy",
]  # fmt: skip

Array = Any

_namespaces: dict[type, type] = {
    float: namespaces.Float,
    int: namespaces.Float,
    bool: namespaces.Float,
    np.ndarray: namespaces.NumPy,
    np.float64: namespaces.NumPy,
    np.float32: namespaces.NumPy,
    np.float16: namespaces.NumPy,
}
_frameworks: dict[str, type] = {}


def register(array_type: type, namespace: type) -> None:
    """Teach formulas a new array type.

    Parameters
    ----------
    array_type : type
        Instances of exactly this type are recognised.
    namespace : type
        A class whose static methods carry the names of ``selmatch.arrays.namespaces.NumPy``. Its ``is_library`` is
        False for types that hold arrays, such as dual numbers: they may meet the arrays of any library.
    """
    _namespaces[array_type] = namespace


def register_loaded_frameworks() -> None:
    """Make PyTorch and JAX known, as far as the user has imported them."""
    if "torch" not in _frameworks and loaded("torch"):
        import torch

        if hasattr(torch, "Tensor"):  # False while PyTorch itself is still being imported
            from selmatch.arrays.torch_functions import Torch

            _frameworks["torch"] = Torch
            register(torch.Tensor, _frameworks["torch"])
            register(torch.nn.Parameter, _frameworks["torch"])
    if "jax" not in _frameworks and loaded("jax"):
        import jax

        if hasattr(jax, "Array") and hasattr(jax, "numpy"):
            from selmatch.arrays import pytrees
            from selmatch.arrays.jax_functions import Jax

            _frameworks["jax"] = Jax
            pytrees.register_all()


def _find(x: Array) -> type:
    """The namespace of a type that is seen for the first time."""
    register_loaded_frameworks()
    found = _namespaces.get(type(x))
    if found is None and "jax" in _frameworks:
        import jax

        if isinstance(x, jax.Array):  # tracers too
            found = _frameworks["jax"]
    if found is None and "torch" in _frameworks:
        import torch

        if isinstance(x, torch.Tensor):
            found = _frameworks["torch"]
    if found is None and isinstance(x, np.generic):
        found = namespaces.NumPy
    library = getattr(x, "__array_namespace__", None)
    if found is None and library is not None:
        found = namespaces.standard_namespace(library())
    if found is None:
        remedy = " Try numpy.asarray(...)." if isinstance(x, (list, tuple)) else ""
        raise TypeError(f"selmatch: expected a number or an array, got {type(x).__name__}.{remedy}")
    register(type(x), found)
    return found


def quick_namespace_of(x: Any) -> type | None:
    """The namespace of a type that has been seen before, else None."""
    return _namespaces.get(type(x))


def namespace_of(x: Array) -> type:
    """The namespace class that computes with x."""
    return _namespaces.get(type(x)) or _find(x)


def _common(*args: Array) -> type:
    """The namespace of the arguments that are no plain numbers; dual numbers and their like go before arrays."""
    found = None
    for x in args:
        if not is_number(x):
            space = namespace_of(x)
            if found is None:
                found = space
            elif space is not found and not getattr(found, "wraps_any", False):
                if not space.is_library:
                    found = space
                elif found.is_library:
                    raise TypeError(
                        f"selmatch: arrays must come from one library, got {found.name} and {space.name}. "
                        "Convert one of them."
                    )
    return namespaces.Float if found is None else found


_FORMULA = "selmatch: a formula must be made of selmatch.functions"


def is_foreign(error: Exception) -> bool:
    """Whether an error says that a formula uses functions of a single library."""
    return str(error).startswith(_FORMULA)


def apply_formula(function: Any, x: Array) -> Array:
    """A user's formula at x. Where it uses functions of a single library, the error names those that take any array."""
    try:
        return function(x)
    except (AttributeError, RuntimeError, TypeError, ValueError) as error:
        what, kinds = (
            str(error),
            {type(x).__name__, type(getattr(x, "value", x)).__name__, "ambiguous", "Python scalars"},
        )
        if is_foreign(error) or not any(kind in what for kind in kinds):
            raise
        raise TypeError(
            f"{_FORMULA}, which take the arrays of every library and the dual numbers of its slope, got "
            f"{' '.join(what.split())[:160]!r}. Write selmatch.functions.tanh for torch.tanh or jnp.tanh, "
            "selmatch.functions.where for if; a network cannot be a link."
        ) from error


# -------------------------------------------------------------------------------------------- elementary functions


def exp(x: Array) -> Array:
    return namespace_of(x).exp(x)


def expm1(x: Array) -> Array:
    return namespace_of(x).expm1(x)


def log(x: Array) -> Array:
    return namespace_of(x).log(x)


def log1p(x: Array) -> Array:
    return namespace_of(x).log1p(x)


def sqrt(x: Array) -> Array:
    return namespace_of(x).sqrt(x)


def sin(x: Array) -> Array:
    return namespace_of(x).sin(x)


def cos(x: Array) -> Array:
    return namespace_of(x).cos(x)


def tan(x: Array) -> Array:
    return namespace_of(x).tan(x)


def sinh(x: Array) -> Array:
    return namespace_of(x).sinh(x)


def cosh(x: Array) -> Array:
    return namespace_of(x).cosh(x)


def tanh(x: Array) -> Array:
    return namespace_of(x).tanh(x)


def arcsin(x: Array) -> Array:
    return namespace_of(x).arcsin(x)


def arctan(x: Array) -> Array:
    return namespace_of(x).arctan(x)


def arcsinh(x: Array) -> Array:
    return namespace_of(x).arcsinh(x)


def abs(x: Array) -> Array:
    return namespace_of(x).abs(x)


def sign(x: Array) -> Array:
    return namespace_of(x).sign(x)


def side(x: Array) -> Array:
    """-1 for negative x, else 1: a sign that is never 0."""
    return namespace_of(x).side(x)


def isfinite(x: Array) -> Array:
    return namespace_of(x).isfinite(x)


def arctan2(y: Array, x: Array) -> Array:
    return _common(y, x).arctan2(y, x)


def minimum(a: Array, b: Array) -> Array:
    return _common(a, b).minimum(a, b)


def maximum(a: Array, b: Array) -> Array:
    return _common(a, b).maximum(a, b)


def where(condition: Array, a: Array, b: Array) -> Array:
    return _common(a, b, condition).where(condition, a, b)


def power(x: Array, d: Array) -> Array:
    return _common(x, d).power(x, d)


def xlogy(x: Array, y: Array) -> Array:
    """``x log y``, and 0 where x is 0."""
    return _common(x, y).xlogy(x, y)


def square(x: Array) -> Array:
    """``x**2``; unlike ``x * x`` an interval knows that it is not negative."""
    return namespace_of(x).square(x)


def reciprocal(x: Array) -> Array:
    """``1 / x``, infinite at 0 on Python floats too."""
    if is_number(x):
        return 1.0 / x if x else math.inf
    return 1.0 / x


def fold(x: Array) -> Array:
    """``-|x|`` with derivative 1 at 0: for smooth even functions written in one half."""
    return namespace_of(x).fold(x)


def mirror(x: Array) -> Array:
    """``|x|`` with derivative 1 at 0."""
    return -fold(-x)


def positive_part(x: Array) -> Array:
    """``max(x, 0)`` with derivative 0 at 0, the companion of :func:`fold`."""
    return namespace_of(x).positive_part(x)


def row_sum(x: Array) -> Array:
    """Sum over the last axis, which is kept."""
    return namespace_of(x).row_sum(x)


def layer_sum(x: Array) -> Array:
    """Sum over the first axis."""
    return namespace_of(x).layer_sum(x)


def row_max(x: Array) -> Array:
    """Maximum over the last axis, which is kept."""
    return namespace_of(x).row_max(x)


def rounded_once(x: Array) -> Array:
    """x itself, which no compiler may compute again in another place, with another rounding error."""
    own = getattr(namespace_of(x), "rounded_once", None)
    return x if own is None else own(x)


def like(values: Any, x: Array) -> Array:
    """Values as an array of the same library, dtype and device as x."""
    return namespace_of(x).like(values, x)


# --------------------------------------------------------------------------------- functions without cancellation


def _special(function: Any) -> Any:
    """A function of one argument that a namespace may know by itself: intervals its range, dual numbers its slope."""
    name = function.__name__

    @functools.wraps(function)
    def apply(x: Array) -> Array:
        own = getattr(_namespaces.get(type(x)), name, None)
        return function(x) if own is None else own(x)

    return apply


def helper(function: Any) -> Any:
    """A series or a pair of functions that formulas share; a trace may keep it as it is, for who knows it already."""
    name = function.__name__

    @functools.wraps(function)
    def apply(*args: Array) -> Any:
        own = getattr(_namespaces.get(type(args[0])), "helper", None)
        known = None if own is None else own(name, *args)
        return function(*args) if known is None else known

    return apply


@_special
def sigmoid(x: Array) -> Array:
    """``1 / (1 + e^-x)``, accurate in relative terms in both tails."""
    e = exp(fold(x))
    return where(x > 0, 1.0, e) / (1.0 + e)


def sigmoid_times(x: Array, factor: Array) -> Array:
    """``sigmoid(x) * factor``, also where the sigmoid alone would underflow."""
    own = getattr(_namespaces.get(type(x)), "sigmoid_times", None)
    if own is not None:
        return own(x, factor)
    root = exp(0.5 * fold(x))
    product = where(root > 0.0, root * (root * factor), 0.0)  # nothing is left of any factor
    return where(x > 0, factor, product) / (1.0 + root * root)


@_special
def softplus(x: Array) -> Array:
    """``log(1 + e^x)``."""
    return positive_part(x) + log1p(exp(fold(x)))


@_special
def sech_squared(x: Array) -> Array:
    """``1 / cosh(x)^2``, the slope of tanh, also where cosh would overflow."""
    e = exp(fold(x))
    return square(2.0 * e / (1.0 + e * e))


@_special
def hypot1(x: Array) -> Array:
    """``sqrt(1 + x^2)`` without overflow."""
    big = abs(x) > 1e9
    return where(big, abs(x), sqrt(1.0 + square(where(big, 0.0, x))))


def _horner(x: Array, coefficients: tuple[float, ...]) -> Array:
    total = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        total = total * x + c
    return total


_COSH = tuple(1.0 / factorial(2 * n + 2) for n in range(9))
_SINH = tuple(1.0 / factorial(2 * n + 3) for n in range(9))
_PSI = tuple(2.0 / (2 * n + 3) for n in range(16))
_OMEGA = tuple((-1.0) ** n / factorial(2 * n + 3) for n in range(9))


def _terms(coefficients: tuple[float, ...], single: int, x: Array) -> tuple[float, ...]:
    """As many terms of a series as the precision of x needs."""
    return coefficients[:single] if namespace_of(x).is_single(x) else coefficients


@helper
def hyperbolic(u: Array) -> tuple[Array, Array]:
    """``cosh u - 1`` and ``sinh u - u`` for |u| <= 2, the even and the odd part of phi."""
    v = 0.5 * u
    v2 = square(v)
    c = v2 * _horner(v2, _terms(_COSH, 5, u))
    t = v * v2 * _horner(v2, _terms(_SINH, 5, u))
    s = v + t
    return 2.0 * square(s), 2.0 * (t + s * c)


def within(x: Array, bound: float) -> Array:
    """x where |x| <= bound; elsewhere a harmless number, for a branch that is not taken there."""
    return namespace_of(x).within(x, bound)


@_special
def phi(u: Array) -> Array:
    """``e^u - 1 - u``, never negative."""
    even, odd = hyperbolic(within(u, 2.0))
    return where(abs(u) <= 2.0, even + odd, expm1(u) - u)


@helper
def half_exponentials(x: Array) -> tuple[Array, Array]:
    """``e^x / 2`` and ``e^-x / 2``, also where e^x itself would overflow."""
    root, root_down = exp(0.5 * x), exp(-0.5 * x)  # not 1 / root, whose derivative overflows where this does not
    return 0.5 * root * root, 0.5 * root_down * root_down


@helper
def psi_series(a: Array) -> Array:
    """``a - log(1 + a)`` for -1/2 <= a <= 1, never negative."""
    r = a / (2.0 + a)
    r2 = square(r)
    return r * (a - r2 * _horner(r2, _terms(_PSI, 7, a)))


def psi(a: Array, one_plus_a: Array) -> Array:
    """``a - log(1 + a)``, never negative; 1 + a is given because the caller knows it better than the sum does."""
    small = abs(a) <= 0.5
    return where(small, psi_series(within(a, 0.5)), a - log(where(small, 1.0, one_plus_a)))


@_special
def omega(u: Array) -> Array:
    """``u - sin u``."""
    v = within(u, 1.0)
    v2 = square(v)
    return where(abs(u) <= 1.0, v * v2 * _horner(v2, _terms(_OMEGA, 5, u)), u - sin(u))


def log_ratio(x: Array, u: Array, xh: Array) -> Array:
    """``log(xh / x)`` for xh = x + u, both positive."""
    near = abs(u) <= 0.5 * x
    return where(near, log1p(where(near, u, 0.0) / x), 2.0 * log(sqrt(xh) / sqrt(x)))


@_special
def logit(x: Array) -> Array:
    """``log(x / (1 - x))``, accurate in relative terms around 1/2 too."""
    middle = abs(x - 0.5) <= 0.25
    y = where(middle, x, 0.5)
    return where(middle, log1p((2.0 * y - 1.0) / (1.0 - y)), log(x) - log1p(-x))


def k_scaled(x: Array, u: Array, xh: Array) -> Array:
    """``xh log(xh / x) - u`` for xh = x + u, x > 0, xh >= 0: the loss of the log link, never negative."""
    near = abs(u) <= 0.5 * x
    v = where(near, u, 0.0)
    r = v / x
    far = 2.0 * xh * log(sqrt(where(xh == 0.0, x, xh)) / sqrt(x)) - u
    return where(near, v * log1p(r) - x * psi(r, 1.0 + r), falling(far, xh))


def falling(value: Array, x: Array) -> Array:
    """A value that falls infinitely steeply in x where x is 0, as x log x does, for libraries that differentiate."""
    own = getattr(namespace_of(x), "falling", None)
    return value if own is None else own(value, x)


@helper
def scaled_phi(e: Array, eh: Array, u: Array) -> Array:
    """``e * phi(u)`` for eh = e * exp(u), without overflow of phi."""
    even, odd = hyperbolic(within(u, 2.0))
    return overflowing(where(abs(u) <= 2.0, e * (even + odd), far_phi(e, eh, u)), u)


def far_phi(e: Array, eh: Array, u: Array) -> Array:
    """``e * phi(u)`` for eh = e * exp(u) and |u| > 2."""
    return abs(eh - e * (1.0 + u))  # never negative: a product may overflow where a compiler's e^xh does not


def overflowing(value: Array, u: Array, signed: bool = False) -> Array:
    """A value, or infinity (``signed`` as the move u) where numbers too large have made it NaN: 0 without a move.

    Moves that are NaN themselves, from scores that are none, stay NaN.
    """
    own = getattr(_namespaces.get(type(value)), "has_no_nan", None)
    if own is not None and own(value):
        return value
    still = 0.0 * u
    return where(value == value, value, where(u == 0.0, still, still + (math.inf * side(u) if signed else math.inf)))


@helper
def scaled_expm1(e: Array, eh: Array, u: Array) -> Array:
    """``e * expm1(u)`` for eh = e * exp(u), without overflow of expm1."""
    return overflowing(where(abs(u) <= 2.0, e * expm1(within(u, 2.0)), eh - e), u, signed=True)


def end(x: Array, u: Array, xh: Array) -> Array:
    """The end point xh of a move by u from x, unless the caller knows it already."""
    return x + u if xh is None else xh


def quotient(rise: Array, u: Array, limit: Array) -> Array:
    """``rise / u``, and its limit where u is 0."""
    still = u == 0
    return where(still, limit, rise / where(still, 1.0, u))


def not_negative(x: Array) -> Array:
    """x with the rounding errors below 0 taken away; the derivative at 0 stays."""
    return where(x < 0, 0.0, x)
