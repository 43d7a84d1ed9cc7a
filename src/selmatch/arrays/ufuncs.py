"""Lets a formula say ``np.tanh(x)`` and put NumPy scalars left of an operator, for the library's own types."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from selmatch import functions as f

#: how Python spells NumPy's functions of two and one arguments
OPERATORS = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "equal": operator.eq,
    "not_equal": operator.ne,
    "negative": operator.neg,
    "positive": operator.pos,
    "reciprocal": lambda x: 1.0 / x,
}
_NAMES = {"absolute": "abs", "fabs": "abs", "float_power": "power"}


def through(namespace: type, lift: Callable[[Any], Any]) -> Callable[..., Any]:
    """An ``__array_ufunc__`` that sends NumPy's functions to a namespace; lift makes operands of NumPy's numbers."""

    def array_ufunc(self: Any, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__" or kwargs:
            return NotImplemented
        name = str(ufunc.__name__)
        if name in OPERATORS:
            return OPERATORS[name](*map(lift, inputs))
        function = _NAMES.get(name, name)
        return getattr(f, function)(*map(lift, inputs)) if hasattr(namespace, function) else NotImplemented

    return array_ufunc
