"""Checks of what a user passes when an object is made: numbers only, arrays inside a trace cannot be inspected."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

#: marks a field that JAX sees as part of the tree: a nested curve, or a number that a gradient may flow through
LEAF = {"leaf": True}
#: the same for a number, or numbers, that must stay positive while they are trained
POSITIVE = {"leaf": True, "positive": True}


def keep(instance: Any, **values: Any) -> None:
    """Store checked values in a frozen object while it is being made."""
    for name, value in values.items():
        object.__setattr__(instance, name, value)


def _is_real(value: Any) -> bool:
    if isinstance(value, (bool, np.bool_)):
        return False
    return isinstance(value, (int, float, np.integer, np.floating)) or (
        isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind in "iuf"
    )


def number(
    who: str,
    name: str,
    value: Any,
    *,
    above: float | None = None,
    at_least: float | None = None,
    infinite: bool = False,
) -> float:
    """A finite Python float (or an infinite one, if asked), so that no NumPy scalar ever widens a float32 array."""
    if not _is_real(value):
        raise TypeError(f"{who}: {name} must be a number, got {value!r}.")
    result = float(value)
    if result != result or (abs(result) == math.inf and not infinite):  # comparisons also take symbols of torch.compile
        raise ValueError(f"{who}: {name} must be finite, got {result}.")
    if above is not None and not result > above:
        raise ValueError(f"{who}: {name} must be > {above:g}, got {result}.")
    if at_least is not None and not result >= at_least:
        raise ValueError(f"{who}: {name} must be >= {at_least:g}, got {result}.")
    return result


def is_framework_array(value: Any) -> bool:
    """Whether a value is an array, but none of NumPy's."""
    # the type comes first: symbols of torch.compile, which are numbers, can be asked for nothing else
    return not isinstance(value, (int, float, np.ndarray, np.generic)) and hasattr(value, "dtype")


def parameter(who: str, name: str, value: Any, **bounds: Any) -> Any:
    """A number as in :func:`number`, or an array of a framework, through which gradients may flow.

    The values of an array are checked where they can be seen: outside of traces, and not on a device.
    """
    if isinstance(value, (int, float)):
        return number(who, name, value, **bounds)
    if is_framework_array(value):
        seen = _seen(value)
        for entry in () if seen is None or seen.dtype.kind not in "iuf" else seen.reshape(-1):
            number(who, name, entry, **bounds)
        return value
    if type(value) is object or hasattr(value, "expression"):  # a placeholder of jax.tree_util, a variable of a trace
        return value
    return number(who, name, value, **bounds)


def _seen(value: Any) -> np.ndarray | None:
    """The values of an array; None where looking at them would wait for a device, or stop a trace."""
    from selmatch.functions import namespace_of

    try:
        space: Any = namespace_of(value)
        if space.name == "JAX" and (space.is_traced(value) or any(d.platform != "cpu" for d in value.devices())):
            return None
        return space.known(space.widen(value)) if hasattr(space, "known") else None
    except (TypeError, RuntimeError):  # NumPy has no such dtype; a tensor without values
        return None


def numbers(who: str, name: str, values: Any, **bounds: Any) -> tuple[float, ...]:
    """A tuple of finite Python floats."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise TypeError(f"{who}: {name} must be a sequence of numbers, got {values!r}.")
    return tuple(number(who, f"{name}[{i}]", value, **bounds) for i, value in enumerate(values))


def pair(who: str, name: str, value: Any, *, infinite: bool = False) -> tuple[float, float]:
    """The ends low < high of an interval, or of a pair of numbers."""
    ends = (value.low, value.high) if hasattr(value, "open_low") else value
    if isinstance(ends, (str, bytes)) or not hasattr(ends, "__len__") or len(ends) != 2:
        raise TypeError(f"{who}: {name} must be a pair (low, high) or an Interval, got {value!r}.")
    low = number(who, f"the low end of {name}", ends[0], infinite=infinite)
    high = number(who, f"the high end of {name}", ends[1], infinite=infinite)
    if not low < high:
        raise ValueError(f"{who}: {name} must have its low end below its high end, got ({low}, {high}).")
    return low, high


def increasing_numbers(who: str, name: str, values: Any, at_least: int) -> tuple[float, ...]:
    """A tuple of strictly increasing numbers."""
    result = numbers(who, name, values)
    if len(result) < at_least:
        raise ValueError(f"{who}: {name} must have at least {at_least} entries, got {len(result)}.")
    if any(a >= b for a, b in itertools.pairwise(result)):
        raise ValueError(f"{who}: {name} must be strictly increasing, got {result}.")
    return result


def declared_numbers(instance: Any) -> tuple[str, ...]:
    """The numbers of a user's curve that its class names in the attributes ``trainable`` and ``positive``."""
    trainable, positive = _named(instance, "trainable"), _named(instance, "positive")
    return (*trainable, *(name for name in positive if name not in trainable))


def _named(instance: Any, attribute: str) -> tuple[str, ...]:
    names = getattr(type(instance), attribute, ())
    return (names,) if isinstance(names, str) else tuple(names)


def leaf_names(instance: Any) -> tuple[str, ...]:
    """The fields of an object that are part of the tree: those that are marked, or that a user's curve names."""
    declared = declared_numbers(instance)
    fields = dataclasses.fields(instance)  # of the object: torch.compile knows no fields of classes
    marked = tuple(field.name for field in fields if field.metadata.get("leaf") or field.name in declared)
    return (*marked, *(name for name in declared if name not in marked))


def positive_names(instance: Any) -> tuple[str, ...]:
    """The numbers of an object that must stay positive while they are trained."""
    marked = (field.name for field in dataclasses.fields(instance) if field.metadata.get("positive"))
    return (*marked, *_named(instance, "positive"))


def has_plain_numbers(value: Any) -> bool:
    """Whether all parameters in a tree of curves are numbers, so that the curve can be inspected."""
    if dataclasses.is_dataclass(value):
        return all(has_plain_numbers(getattr(value, name)) for name in leaf_names(value))
    if isinstance(value, tuple):
        return all(map(has_plain_numbers, value))
    return value is None or isinstance(value, (int, float))
