"""How each array library spells the functions that formulas use.

A namespace is a class that is never instantiated; :mod:`selmatch.functions` finds it by the type of the argument.
Those of PyTorch and JAX are in modules of their own, which are imported only when a user has imported the framework.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

#: what the namespaces of PyTorch, JAX and the array API standard share, spelled as in NumPy
SAME_NAME = (
    "exp",
    "expm1",
    "log",
    "log1p",
    "sqrt",
    "sin",
    "cos",
    "tan",
    "tanh",
    "sinh",
    "cosh",
    "sign",
    "square",
    "isfinite",
)
#: NumPy's name -> the name in PyTorch and in the array API standard
STANDARD_NAME = {"arcsin": "asin", "arctan": "atan", "arctan2": "atan2", "arcsinh": "asinh", "power": "pow"}


def is_number(x: Any) -> bool:
    """Whether x is a plain number, which adapts to whatever array it meets."""
    return isinstance(x, (int, float)) and not isinstance(x, np.generic)


def copy_names(namespace: type, library: Any, names: dict[str, str]) -> type:
    """Put the library's functions into the namespace under our names."""
    for ours, theirs in names.items():
        setattr(namespace, ours, staticmethod(getattr(library, theirs)))
    return namespace


def standard_names(*written_out: str) -> dict[str, str]:
    return {ours: theirs for ours, theirs in STANDARD_NAME.items() if ours not in written_out}


_BITS: dict[Any, type] = {np.dtype(np.float32): np.int32, np.dtype(np.float64): np.int64}


class NumPy:
    """NumPy arrays and scalars."""

    name = "NumPy"
    is_library = True
    abs = staticmethod(np.abs)
    minimum = staticmethod(np.minimum)
    maximum = staticmethod(np.maximum)

    @staticmethod
    def where(condition, a, b):
        """np.where takes 4 ns an element where the condition changes often; a choice by bits takes 1 ns."""
        dtype = a.dtype if isinstance(a, np.ndarray) else getattr(b, "dtype", None)
        bits = _BITS.get(dtype)
        if dtype is None or bits is None or not isinstance(condition, np.ndarray) or condition.size < 1024:
            return np.where(condition, a, b)
        if is_number(a):
            a = dtype.type(a)
        if is_number(b):
            b = dtype.type(b)
        if a.dtype != dtype or b.dtype != dtype:
            return np.where(condition, a, b)
        mask = condition.astype(bits)
        np.negative(mask, out=mask)  # all bits set, or none
        a, b = a.view(bits), b.view(bits)
        return (((a ^ b) & mask) ^ b).view(dtype)

    @staticmethod
    def fold(x):
        return -np.abs(x)

    @staticmethod
    def positive_part(x):
        return np.maximum(x, 0)

    @staticmethod
    def side(x):
        return np.copysign(x.dtype.type(1), x + 0)  # 0 is added to lose the sign of -0.0

    @staticmethod
    def within(x, bound):
        return np.clip(x, -bound, bound)

    @staticmethod
    def double(x):
        return x.astype(np.float64, copy=False)

    @staticmethod
    def has_no_nan(x):
        """A sum is quicker than a look at every number; False if in doubt."""
        total = np.sum(x)
        return total == total

    @staticmethod
    def xlogy(x, y):
        return x * np.log(np.where(x == 0, 1, y))

    @staticmethod
    def row_sum(x):
        return np.sum(x, axis=-1, keepdims=True)

    @staticmethod
    def layer_sum(x):
        return np.sum(x, axis=0)

    @staticmethod
    def running_sum(x):
        return np.cumsum(x, axis=-1)

    @staticmethod
    def position(knots, x):
        return np.searchsorted(knots, x, side="right")

    @staticmethod
    def integers(values, like):
        return np.asarray(values)

    @staticmethod
    def take(x, places):
        return np.take(x, places)

    stacked = staticmethod(np.concatenate)

    @staticmethod
    def row_max(x):
        return np.max(x, axis=-1, keepdims=True)

    @staticmethod
    def like(values, x):
        return np.asarray(values, dtype=x.dtype)

    @staticmethod
    def is_single(x):
        return x.dtype.itemsize <= 4

    @staticmethod
    def is_floating(x):
        return x.dtype.kind == "f"

    @staticmethod
    def widen(x):
        return x.astype(np.float32) if x.dtype == np.float16 else x

    @staticmethod
    def cast(x, like):
        return x.astype(like.dtype, copy=False)

    @staticmethod
    def ready(s_hat, s):
        return False  # NumPy scores are always looked at

    @staticmethod
    def total(x):
        return np.sum(x, dtype=np.float64)

    @staticmethod
    def mean(x):
        return np.mean(x, dtype=np.float64)

    @staticmethod
    def row_any(x):
        return np.any(x, axis=-1)

    @staticmethod
    def class_numbers(x):
        return np.arange(x.shape[-1])

    @staticmethod
    def broadcast(x, shape):
        return x if x.shape == shape else np.broadcast_to(x, shape)

    @staticmethod
    def placed(items, positions, count):
        whole = np.zeros(count, dtype=items.dtype)
        whole[positions] = items
        return whole

    @staticmethod
    def outer(x, y):
        return x[..., :, None] * y[..., None, :]

    @staticmethod
    def diagonal_matrix(x):
        return x[..., :, None] * np.eye(x.shape[-1], dtype=x.dtype)


copy_names(NumPy, np, {name: name for name in (*SAME_NAME, *STANDARD_NAME)})


def _on_float(name: str, function: Any) -> Any:
    """A function on Python floats: as in :mod:`math`, with NumPy's infinities and NaN instead of exceptions."""
    quick = getattr(math, _MATH_NAME.get(name, name))

    def careful(*args):
        with np.errstate(all="ignore"):
            return float(function(*args))

    def apply(*args):
        try:
            return quick(*args)
        except (OverflowError, ValueError):
            return careful(*args)

    return apply


_MATH_NAME = {"arcsin": "asin", "arctan": "atan", "arctan2": "atan2", "arcsinh": "asinh", "power": "pow", "abs": "fabs"}


class Float(NumPy):
    """Python numbers: NumPy's values, as Python floats."""

    name = "Python numbers"

    @staticmethod
    def where(condition, a, b):
        return a if condition else b

    @staticmethod
    def isfinite(x):
        return math.isfinite(x)

    @staticmethod
    def side(x):
        return -1.0 if x < 0 else 1.0

    @staticmethod
    def square(x):
        return x * x

    @staticmethod
    def sign(x):
        return float((x > 0) - (x < 0)) if x == x else x

    @staticmethod
    def minimum(a, b):
        return float(b if b < a or b != b else a)  # NaN stays

    @staticmethod
    def maximum(a, b):
        return float(b if b > a or b != b else a)

    @staticmethod
    def fold(x):
        return -math.fabs(x)

    @staticmethod
    def positive_part(x):
        return x if x > 0 else 0.0 * x

    @staticmethod
    def has_no_nan(x):
        return x == x

    @staticmethod
    def xlogy(x, y):
        return x * (Float.log(y) if x != 0 else 0.0)  # type: ignore[attr-defined]

    @staticmethod
    def within(x, bound):
        return min(max(x, -bound), bound)

    @staticmethod
    def double(x):
        return x

    @staticmethod
    def cast(x, like):
        return x

    @staticmethod
    def like(values, x):
        return np.asarray(values, dtype=float)

    @staticmethod
    def is_single(x):
        return False


for _name in (*SAME_NAME, *STANDARD_NAME, "abs"):
    if _name not in vars(Float):
        setattr(Float, _name, staticmethod(_on_float(_name, getattr(NumPy, _name))))


def standard_namespace(library: Any) -> type:
    """A namespace from any library that follows the Python array API standard (CuPy, dpnp, ...)."""

    class Standard:
        name = getattr(library, "__name__", "array API")
        is_library = True
        abs = staticmethod(library.abs)

        @staticmethod
        def _array(value, other):
            return library.full_like(other, value) if is_number(value) else value

        @staticmethod
        def where(condition, a, b):
            like = b if is_number(a) else a
            if is_number(like):
                return library.where(condition, library.asarray(float(a)), library.asarray(float(b)))
            return library.where(condition, Standard._array(a, like), Standard._array(b, like))

        @staticmethod
        def minimum(a, b):
            a, b = (b, a) if is_number(a) else (a, b)
            return Standard.where(a > b, b, a)  # NaN stays

        @staticmethod
        def maximum(a, b):
            a, b = (b, a) if is_number(a) else (a, b)
            return Standard.where(a < b, b, a)

        @staticmethod
        def power(x, d):
            x = Standard._array(x, d)
            return library.pow(x, Standard._array(d, x))

        @staticmethod
        def arctan2(y, x):
            y = Standard._array(y, x)
            return library.atan2(y, Standard._array(x, y))

        @staticmethod
        def fold(x):
            return -library.abs(x)

        @staticmethod
        def positive_part(x):
            return Standard.where(x > 0, x, 0.0)

        @staticmethod
        def side(x):
            return Standard.where(x < 0, -1.0, library.ones_like(x))

        @staticmethod
        def within(x, bound):
            return Standard.where(library.abs(x) <= bound, x, 0.0)

        @staticmethod
        def double(x):
            return library.astype(x, library.float64)

        @staticmethod
        def xlogy(x, y):
            return x * library.log(Standard.where(x == 0, 1.0, y))

        @staticmethod
        def row_sum(x):
            return library.sum(x, axis=-1, keepdims=True)

        @staticmethod
        def layer_sum(x):
            return library.sum(x, axis=0)

        @staticmethod
        def running_sum(x):
            return library.cumulative_sum(x, axis=-1)

        @staticmethod
        def position(knots, x):
            return library.searchsorted(knots, x, side="right")

        @staticmethod
        def integers(values, like):
            return library.asarray(values, dtype=library.int64)

        @staticmethod
        def take(x, places):
            flat = library.take(library.reshape(x, (-1,)), library.reshape(places, (-1,)), axis=0)
            return library.reshape(flat, places.shape)

        stacked = staticmethod(library.concat)

        @staticmethod
        def row_max(x):
            return library.max(x, axis=-1, keepdims=True)

        @staticmethod
        def like(values, x):
            return library.asarray(values, dtype=x.dtype)

        @staticmethod
        def is_single(x):
            return library.finfo(x.dtype).bits <= 32

        @staticmethod
        def is_floating(x):
            return library.isdtype(x.dtype, "real floating")

        @staticmethod
        def widen(x):
            return x

        @staticmethod
        def cast(x, like):
            return library.astype(x, like.dtype)

        @staticmethod
        def ready(s_hat, s):
            return False

        @staticmethod
        def total(x):
            return library.sum(x)

        @staticmethod
        def mean(x):
            return library.mean(x)

        @staticmethod
        def row_any(x):
            return library.any(x, axis=-1)

        @staticmethod
        def class_numbers(x):
            return library.arange(x.shape[-1])

        @staticmethod
        def broadcast(x, shape):
            return library.broadcast_to(x, shape)

        @staticmethod
        def outer(x, y):
            return x[..., :, None] * y[..., None, :]

        @staticmethod
        def diagonal_matrix(x):
            return x[..., :, None] * library.eye(x.shape[-1], dtype=x.dtype)

    return copy_names(Standard, library, {**{name: name for name in SAME_NAME}, **standard_names("power", "arctan2")})


def loaded(library: str) -> bool:
    """Whether the user has imported a library already; selmatch never imports a framework on its own."""
    return library in sys.modules
