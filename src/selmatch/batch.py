"""Scores as users pass them, made ready for a loss: converted, checked, masked, broadcast."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from selmatch.arrays.namespaces import NumPy, is_number
from selmatch.functions import namespace_of, quick_namespace_of, where

Array = Any


@dataclass
class Batch:
    """Checked arrays of one library and one shape.

    Attributes
    ----------
    s, s_hat : array
        Observed and predicted scores, in at least single precision.
    present : array or None
        Mask of the shape of the scores.
    weights : array or None
        Weights of the shape of the unreduced result, 0 where nothing is present.
    like : array
        The predictions as they came, for the dtype of unreduced results.
    space : type
        The namespace.
    plain : bool
        Whether the scores came as Python numbers.
    listed : bool
        Whether the scores came as Python numbers or lists, so that a reduced loss is a Python number.
    """

    s: Array
    s_hat: Array
    present: Array
    weights: Array
    like: Array
    space: type
    plain: bool
    listed: bool


def _converted(who: str, name: str, x: Any) -> Any:
    """Lists, tuples, pandas and polars objects as NumPy arrays; numbers and arrays as they are."""
    if is_number(x) or isinstance(x, np.ndarray):
        return x
    if isinstance(x, np.generic):
        return np.asarray(x)
    if isinstance(x, (list, tuple)) or hasattr(x, "to_numpy"):
        try:
            return np.asarray(x.to_numpy() if hasattr(x, "to_numpy") else x)
        except ValueError as error:
            raise ValueError(f"{who}: {name} must be rectangular, got {error}.") from None
    try:
        namespace_of(x)
    except TypeError:
        raise TypeError(
            f"{who}: {name} must be a number or an array, got {type(x).__name__}. Try numpy.asarray(...)."
        ) from None
    return x


def _common_space(who: str, given: dict[str, Any]) -> type:
    """The one array library of all arguments that are arrays."""
    found: dict[str, tuple[str, type]] = {}
    for name, x in given.items():
        if x is not None and not is_number(x):
            space = namespace_of(x)
            found.setdefault(space.name, (name, space))
    if len(found) > 1:
        mixture = " and ".join(f"{name} from {library}" for library, (name, _) in found.items())
        raise TypeError(f"{who}: arrays must come from one library, got {mixture}. Convert one of them.")
    return next(iter(found.values()))[1] if found else NumPy


def _as_float(who: str, name: str, x: Any, space: type, like: Array = None) -> Array:
    """Scores as floating point numbers of at least single precision."""
    if is_number(x):
        if like is not None:
            return space.like(x, like)
        if isinstance(x, bool) and space is not NumPy:
            raise TypeError(f"{who}: {name} must be floating point, got bool.")
        return np.asarray(float(x))
    if space is NumPy:
        if x.dtype.kind not in "fiub":
            remedy = " Try .astype(float)." if x.dtype.kind == "O" else ""
            raise TypeError(f"{who}: {name} must be real numbers, got dtype {x.dtype}.{remedy}")
        if x.dtype.kind != "f":
            return x.astype(np.float64 if like is None else like.dtype)
        return NumPy.widen(x)
    if "complex" in str(x.dtype):
        raise TypeError(f"{who}: {name} must be real numbers, got dtype {x.dtype}.")
    if space.is_floating(x):
        return space.widen(x)
    if like is None:
        raise TypeError(
            f"{who}: {name} must be floating point, got dtype {x.dtype}. Convert the predictions to float32 first."
        )
    return space.cast(x, like)


def _shape(who: str, **shapes: tuple[int, ...]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError:
        listed = ", ".join(f"{name} {tuple(shape)}" for name, shape in shapes.items())
        raise ValueError(f"{who}: shapes must broadcast together, got {listed}.") from None


def _refuse_class_indices(who: str, s_hat: Array, s: Array, was_integer: bool) -> None:
    looks_like_indices = was_integer and s.ndim < s_hat.ndim
    if looks_like_indices or (s_hat.ndim > 1 and tuple(s.shape) == tuple(s_hat.shape[:-1])):
        raise ValueError(
            f"{who}: s must be scores of the shape of s_hat {tuple(s_hat.shape)}, got shape {tuple(s.shape)}, which "
            "looks like class indices. Give a score for every class, or soft targets (one-hot rows) to fenchel_young."
        )


def _mask(who: str, mask: Any, shape: tuple[int, ...], space: type, like: Array) -> Array:
    if mask is None:
        return None
    if is_number(mask):
        mask = space.like(mask, like) != 0
    elif "bool" not in str(mask.dtype):
        raise TypeError(f"{who}: where must be boolean, got dtype {mask.dtype}.")
    if _shape(who, scores=shape, where=tuple(mask.shape)) != tuple(shape):
        raise ValueError(f"{who}: where must have the shape of the scores {tuple(shape)}, got {tuple(mask.shape)}.")
    return space.broadcast(mask, shape)


def _weights(who: str, weights: Any, rows: Array, shape: tuple[int, ...], space: type, like: Array) -> Array:
    """Weights of the rows that are there, 0 for the others."""
    if weights is None:
        return None if rows is None else where(rows, 1.0, space.cast(rows, like) * 0.0)
    weights = _as_float(who, "weights", weights, space, like)
    if _shape(who, result=shape, weights=tuple(weights.shape)) != tuple(shape):
        raise ValueError(
            f"{who}: weights must have the shape of the unreduced result {tuple(shape)}, got {tuple(weights.shape)}."
        )
    weights = space.broadcast(space.cast(weights, like), shape)
    if space is NumPy:
        require_inside(who, "weights", weights, (weights >= 0) & np.isfinite(weights), rows, "be finite and >= 0")
    return weights if rows is None else where(rows, weights, 0.0)


def _first(bad: np.ndarray, x: np.ndarray) -> str:
    index = tuple(int(i) for i in np.argwhere(bad)[0])
    place = "" if not index else f" at index {index[0] if len(index) == 1 else index}"
    return f"{x[index]}{place}"


def require_inside(who: str, name: str, x: np.ndarray, inside: np.ndarray, present: Array, condition: str) -> None:
    """Raise an error that names the first score outside; NumPy only, where looking is cheap."""
    bad = ~np.broadcast_to(inside, x.shape)
    if present is not None:
        bad &= present
    if bad.any():
        raise ValueError(f"{who}: {name} must {condition}, got {_first(bad, x)}.")


def _check_numpy(who: str, potential: Any, s: np.ndarray, s_hat: np.ndarray, present: Array) -> None:
    with np.errstate(all="ignore"):
        for name, x in (("s", s), ("s_hat", s_hat)):
            if not np.isfinite(np.sum(x)):  # a sum is quicker to check than every number
                require_inside(who, name, x, np.isfinite(x), present, "be finite")
        if potential is None:
            return
        per_label = hasattr(potential, "labels")
        if per_label:
            known = potential.holds(s, interior=True)
            require_inside(who, "s", s, known, present, f"be one of the labels {potential.labels}")
        if per_label or potential.bounded:
            domain = potential.domain
            if not per_label:
                inside = potential.holds(s, interior=True)
                require_inside(who, "s", s, inside, present, f"lie inside the domain {domain}")
            inside = potential.holds_prediction(s_hat, s) if per_label else potential.holds(s_hat)
            closed = f"[{domain.low:g}, {domain.high:g}]"
            require_inside(who, "s_hat", s_hat, inside, present, f"lie in the domain {closed}")


def is_ready(potential: Any, s_hat: Any, s: Any) -> bool:
    """Whether scores need no conversion: tensors of one dtype and shape, for a loss that takes all scores."""
    space = None if potential.bounded or hasattr(potential, "labels") else quick_namespace_of(s_hat)
    return space is not None and space.ready(s_hat, s)


def prepare(
    who: str,
    potential: Any,
    s_hat: Any,
    s: Any,
    mask: Any = None,
    weights: Any = None,
    *,
    vector: bool = False,
    targets: bool = False,
) -> Batch:
    """Everything that a loss computes with, or a clear error.

    With ``targets``, s holds link values, which the caller checks.
    """
    if mask is None and weights is None and is_ready(potential, s_hat, s):
        if not vector or s_hat.ndim > 0:
            return Batch(s, s_hat, None, None, s_hat, namespace_of(s_hat), False, False)
    listed = all(is_number(x) or isinstance(x, (list, tuple)) for x in (s_hat, s))
    s_hat, s = _converted(who, "s_hat", s_hat), _converted(who, "s", s)
    mask = None if mask is None else _converted(who, "where", mask)
    weights = None if weights is None else _converted(who, "weights", weights)
    space = _common_space(who, {"s_hat": s_hat, "s": s, "where": mask, "weights": weights})
    plain = is_number(s_hat) and is_number(s)
    like = s_hat if not is_number(s_hat) else s
    was_integer = vector and not is_number(s) and not space.is_floating(s)
    if is_number(s_hat) and not is_number(s):  # a number adapts to the array that it meets
        s = _as_float(who, "s", s, space)
        s_hat = _as_float(who, "s_hat", s_hat, space, s)
    else:
        s_hat = _as_float(who, "s_hat", s_hat, space)
        s = _as_float(who, "s", s, space, s_hat)
    if vector:
        if s_hat.ndim == 0:
            raise ValueError(f"{who}: s_hat must have the classes on its last axis, got a single number.")
        _refuse_class_indices(who, s_hat, s, was_integer)
    shape = _shape(who, s_hat=tuple(s_hat.shape), s=tuple(s.shape))
    s, s_hat = space.broadcast(s, shape), space.broadcast(s_hat, shape)
    present = _mask(who, mask, shape, space, s_hat)
    if vector and shape[-1] == 0:
        raise ValueError(f"{who}: s_hat must have at least one class on its last axis, got shape {shape}.")
    if space is NumPy:
        _check_numpy(who, None if targets else potential, s, s_hat, present)
    elif not targets and (hasattr(potential, "labels") or potential.bounded):
        inside = potential.holds(s, interior=True)
        predicted = potential.holds_prediction(s_hat, s) if hasattr(potential, "labels") else potential.holds(s_hat)
        s, s_hat = where(inside, s, math.nan), where(predicted, s_hat, math.nan)
    if present is not None:
        harmless = potential.point()
        if targets:
            s = where(present, s, 0.0 if vector else potential.link(harmless))
        else:
            s = where(present, s, harmless)
        s_hat = where(present, s_hat, harmless)
    rows = present if present is None or not vector else space.row_any(present)
    weights = _weights(who, weights, rows, shape[:-1] if vector else shape, space, s_hat)
    dtype = like if not is_number(like) and space.is_floating(like) else s_hat
    return Batch(s, s_hat, present, weights, dtype, space, plain, listed)
