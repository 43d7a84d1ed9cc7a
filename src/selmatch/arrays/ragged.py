"""Ragged lists: one number for each item, or for each list, with formulas that were written for rows of an array.

``Ragged(values, groups)`` stands for lists of different lengths. Elementwise functions pass through to the array
beneath. ``row_sum`` and ``row_max`` give one number per list, which spreads over the items of its list as soon as it
meets them, as an axis of length 1 does; ``[..., 0]`` takes that axis away. A composite Softmax thus runs on lists
without padding, in any library, as it is written.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from selmatch import functions as f
from selmatch.lists import Groups

Array = Any


class Ragged:
    """Numbers of the items of lists (or of the lists themselves)."""

    __slots__ = ("groups", "of_lists", "values")
    __array_ufunc__ = None  # NumPy leaves operators to this class

    def __init__(self, values: Array, groups: Groups, of_lists: bool = False) -> None:
        self.values = values
        self.groups = groups
        self.of_lists = of_lists

    def __repr__(self) -> str:
        return f"Ragged({self.values!r}, of {'lists' if self.of_lists else 'items'})"

    def __getitem__(self, key: Any) -> Array:
        if not self.of_lists or key != (..., 0):
            raise TypeError(f"Ragged: the index must be [..., 0] of numbers of lists, got {key!r} of {self!r}.")
        return self.values

    def __pos__(self) -> Ragged:
        return self

    __hash__ = None  # type: ignore[assignment]


def lifted(function: Callable[..., Array]) -> Callable[..., Ragged]:
    """A function of arrays as a function of ragged lists, numbers and arrays that fit either."""

    def apply(*args: Any) -> Ragged:
        ragged = [x for x in args if isinstance(x, Ragged)]
        groups, of_lists = ragged[0].groups, all(x.of_lists for x in ragged)
        plain = [x if not isinstance(x, Ragged) else _values(x, of_lists) for x in args]
        return Ragged(function(*plain), groups, of_lists)

    return apply


def _values(x: Ragged, of_lists: bool) -> Array:
    return x.groups.spread(x.values) if x.of_lists and not of_lists else x.values


def _reflected(function: Callable[..., Array]) -> Callable[..., Ragged]:
    return lambda self, other: lifted(function)(other, self)


for _name in ("add", "sub", "mul", "truediv", "pow", "and", "or"):
    _function = getattr(operator, _name if _name not in ("and", "or") else _name + "_")
    setattr(Ragged, f"__{_name}__", lifted(_function))
    setattr(Ragged, f"__r{_name}__", _reflected(_function))
for _name in ("lt", "le", "gt", "ge", "eq", "ne", "neg", "invert", "abs"):
    setattr(Ragged, f"__{_name}__", lifted(getattr(operator, _name)))


class RaggedNamespace:
    """The functions of formulas on ragged lists."""

    name = "ragged lists"
    is_library = False

    @staticmethod
    def row_sum(x: Ragged) -> Ragged:
        return Ragged(x.groups.sum(x.values), x.groups, of_lists=True)

    @staticmethod
    def row_max(x: Ragged) -> Ragged:
        return Ragged(x.groups.max(x.values), x.groups, of_lists=True)

    @staticmethod
    def is_single(x: Ragged) -> bool:
        return f.namespace_of(x.values).is_single(x.values)

    @staticmethod
    def double(x: Ragged) -> Ragged:
        return Ragged(f.namespace_of(x.values).double(x.values), x.groups, x.of_lists)

    @staticmethod
    def cast(x: Ragged, like: Ragged) -> Ragged:
        return Ragged(f.namespace_of(x.values).cast(x.values, like.values), x.groups, x.of_lists)

    @staticmethod
    def like(values: Any, x: Ragged) -> Array:
        return f.like(values, x.values)


for _name in (
    "abs", "arcsin", "arcsinh", "arctan", "arctan2", "cos", "cosh", "exp", "expm1", "fold", "isfinite", "log", "log1p",
    "maximum", "minimum", "positive_part", "power", "side", "sign", "sin", "sinh", "sqrt", "square", "tan", "tanh",
    "where", "within", "xlogy",
):  # fmt: skip
    setattr(RaggedNamespace, _name, staticmethod(lifted(getattr(f, _name))))

f.register(Ragged, RaggedNamespace)
