"""Scores as users pass them made ready for a loss: converted, checked, masked, broadcast; and results for users."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from selmatch.arrays import pytrees
from selmatch.arrays.namespaces import NumPy, is_number
from selmatch.functions import namespace_of, quick_namespace_of, where
from selmatch.parameters import is_framework_array, parameter

Array = Any

#: bytes of one array in a chunk of NumPy work: all temporaries stay in the second-level cache
CHUNK_BYTES = 1 << 16


@dataclass(slots=True)
class Batch:
    """Checked arrays of one library and one shape, and how to reduce the losses computed from them.

    Attributes
    ----------
    s, s_hat : array
        Observed and predicted scores, in one dtype of at least single precision.
    space : type
        The namespace.
    like, wide : array
        Their dtypes are those of unreduced results and of sums.
    vector : bool
        Whether the last axis holds the scores of one row.
    reduction, num_items
        As the user gave them, checked.
    present : array or None
        Mask of the shape of the scores.
    weights : array or None
        Weights of the shape of the unreduced result, 0 where nothing is present.
    plain, listed : bool
        Whether the scores came as Python numbers; whether as numbers or lists, so that a sum is a Python number.
    """

    s: Array
    s_hat: Array
    space: type
    like: Array
    wide: Array
    vector: bool = False
    reduction: str = "none"
    num_items: Any = None
    present: Array = None
    weights: Array = None
    plain: bool = False
    listed: bool = False

    @property
    def rows(self) -> tuple[int, ...]:
        """The shape of an unreduced loss."""
        return tuple(self.s.shape[:-1] if self.vector else self.s.shape)

    def evaluate(self, function: Callable[..., tuple[Array, ...]]) -> tuple[Array, ...]:
        """Results of function(s, s_hat - s, s_hat, present); NumPy works in chunks that fit the cache."""
        if self.space is not NumPy:
            return function(self.s, self.s_hat - self.s, self.s_hat, self.present)
        with np.errstate(all="ignore"):
            if self.s.nbytes <= CHUNK_BYTES:
                return function(self.s, self.s_hat - self.s, self.s_hat, self.present)
            return self._evaluate_in_chunks(function)

    def _evaluate_in_chunks(self, function: Callable[..., tuple[Array, ...]]) -> tuple[np.ndarray, ...]:
        shape = self.s.shape
        flat = (-1, shape[-1]) if self.vector else (-1,)
        s, s_hat = self.s.reshape(flat), self.s_hat.reshape(flat)
        present = None if self.present is None else self.present.reshape(flat)
        step = max(1, CHUNK_BYTES // s[:1].nbytes)
        results: list[np.ndarray] = []
        for start in range(0, len(s), step):
            part = slice(start, start + step)
            x, xh = s[part], s_hat[part]
            for i, piece in enumerate(function(x, xh - x, xh, None if present is None else present[part])):
                if start == 0:
                    results.append(np.empty((len(s), *piece.shape[1:]), dtype=piece.dtype))
                results[i][part] = piece
        return tuple(r.reshape(shape if r.ndim == s.ndim else self.rows) for r in results)

    def finished(self, value: Array) -> Any:
        """An unreduced result as the user expects it: a Python number for numbers, else the dtype that came in."""
        if self.plain:
            return float(value)
        if self.space is not NumPy:
            return self.space.cast(value, self.like)
        with np.errstate(over="ignore"):
            return NumPy.cast(value, self.like)[()]

    def reduced(self, value: Array) -> Any:
        """Losses of the rows, weighted, and summed or averaged."""
        if self.weights is not None:  # 0 times an infinite loss would be NaN
            value = where(self.weights == 0, 0.0, value) * self.weights
        if self.reduction == "none":
            return self.finished(value)
        if self.reduction == "mean" and self.weights is None and self.num_items is None and 0 not in self.rows:
            return self.summed(self.space.mean(value))
        total = self.space.total(value)
        if self.reduction == "mean":
            total = total / self._denominator()
        return self.summed(total)

    def summed(self, total: Array) -> Any:
        """A single number as the user expects it."""
        if self.listed:
            return float(total)
        if self.space is not NumPy:
            return self.space.cast(total, self.wide)
        with np.errstate(over="ignore"):
            return self.wide.dtype.type(total)

    def scaled(self, gradient: Array) -> Any:
        """The gradient of the weighted and reduced losses, from the gradients of the rows."""
        factor = self.weights
        if factor is not None:
            factor = factor[..., None] if self.vector else factor
            gradient = where(factor == 0, 0.0, gradient) * factor
        if self.reduction == "mean":
            gradient = gradient / self._denominator()
        return self.finished(gradient)

    def scale(self) -> Any:
        """What the loss of each row is multiplied by before losses are summed: a number, or an array of the rows."""
        factor = 1.0 if self.weights is None else self.weights
        return factor / self._denominator() if self.reduction == "mean" else factor

    def _denominator(self) -> Any:
        if self.num_items is not None:
            return self.num_items
        if self.weights is None:
            return max(math.prod(self.rows), 1)
        total = self.space.total(self.weights)
        return where(total == 0, 1.0, total)


class Anywhere:
    """The domain of scores that only have to be finite."""

    bounded = False

    @staticmethod
    def point() -> float:
        return 0.0


# --------------------------------------------------------------------------------------------- conversion of arguments


def converted(who: str, name: str, x: Any) -> Any:
    """Lists, tuples, pandas and polars objects as NumPy arrays; numbers and arrays as they are."""
    if is_number(x) or type(x) is np.ndarray or (x is None and name in ("where", "weights")):
        return x
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError(
            f"{who}: {name} must be a plain array, got a masked one. Give {name}.data and where=~{name}.mask."
        )
    if isinstance(x, (np.ndarray, np.generic)):
        return np.asarray(x)
    to_numpy = getattr(x, "to_numpy", None)
    if isinstance(x, (list, tuple)) or to_numpy is not None:
        try:
            return np.asarray(x if to_numpy is None else to_numpy())
        except (ValueError, TypeError) as error:
            message = f"{who}: {name} must be a rectangular array of numbers, got another {type(x).__name__}."
            raise type(error)(message) from error
    try:
        namespace_of(x)
    except TypeError:
        raise TypeError(
            f"{who}: {name} must be a number or an array, got {type(x).__name__}. Try numpy.asarray(...)."
        ) from None
    return x


def common_space(who: str, given: dict[str, Any]) -> type:
    """The one array library of all arguments that are arrays."""
    found: dict[str, tuple[str, type]] = {}
    for name, x in given.items():
        if x is not None and not is_number(x):
            space = namespace_of(x)
            found.setdefault(space.name, (name, space))
    if found.keys() == {"NumPy", "JAX"}:
        return found["JAX"][1]  # JAX users mix them freely
    if len(found) > 1:
        mixture = " and ".join(f"{name} from {library}" for library, (name, _) in found.items())
        raise TypeError(f"{who}: arrays must come from one library, got {mixture}. Convert one of them.")
    return next(iter(found.values()))[1] if found else NumPy


def as_float(who: str, name: str, x: Any, space: type, like: Array = None) -> Array:
    """Floating point numbers of at least single precision; integers become like ``like``."""
    if is_number(x):
        return np.asarray(float(x)) if like is None else space.like((x,), like)[0]
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
        raise TypeError(f"{who}: {name} must be floating point, got dtype {x.dtype}. Convert to float32 first.")
    return space.cast(x, like)


def _as_floats(
    who: str, s_hat: Any, s: Any, observed: str, space: type, own: Array = None
) -> tuple[Array, Array, Array]:
    """Predictions and observations in one dtype, and an array with the dtype of sums: the predictions'.

    Where both are numbers, arrays are made like ``own``.
    """
    if is_number(s_hat) and not is_number(s):  # a number adapts to the array that it meets
        s = as_float(who, observed, s, space)
        return as_float(who, "s_hat", s_hat, space, s), s, s
    s_hat = as_float(who, "s_hat", s_hat, space, own if is_number(s_hat) else None)
    s = as_float(who, observed, s, space, s_hat)
    if space.is_single(s_hat) and not space.is_single(s):
        return space.cast(s_hat, s), s, s_hat
    return s_hat, space.cast(s, s_hat), s_hat


def _fits(shape: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    """Whether an array broadcasts to a shape; NumPy's function would fix sizes that torch.export leaves open."""
    return len(shape) <= len(whole) and all(
        own == size or own == 1 for own, size in zip(reversed(shape), reversed(whole), strict=False)
    )


def paired_shape(who: str, space: Any, **shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of two arrays together: that of one of them.

    A column against a row would compare every entry with every other, which costs a model its training in silence.
    """
    (_, first), (_, second) = shapes.items()
    if first == second or _fits(second, first):
        return first
    if _fits(first, second):
        return second
    listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
    try:
        whole = np.broadcast_shapes(first, second)
    except ValueError:
        raise ValueError(f"{who}: shapes must broadcast together, got {listed}.") from None
    pairing = _PAIRING.get(space.name, "numpy.broadcast_arrays")
    raise ValueError(
        f"{who}: one shape must broadcast to the other, got {listed}, which make {whole} only together. "
        f"Reshape one of them; to compare all with all, use {pairing} first."
    )


#: how each library says that all entries are compared with all
_PAIRING = {"PyTorch": "torch.broadcast_tensors", "JAX": "jax.numpy.broadcast_arrays"}


def _require_classes(who: str, s_hat: Array) -> None:
    if s_hat.ndim == 0 or s_hat.shape[-1] == 0:
        raise ValueError(f"{who}: s_hat must have at least one class on its last axis, got shape {tuple(s_hat.shape)}.")


def _refuse_class_indices(who: str, name: str, s_hat: Array, s: Any, space: type, potential: Any) -> None:
    """Integers that would broadcast along the classes, or one number for each row of scores."""
    shape: tuple[int, ...] = tuple(s_hat.shape)
    given: tuple[int, ...] = () if is_number(s) else tuple(s.shape)
    integers = isinstance(s, int) if is_number(s) else not space.is_floating(s)
    for_each_row = len(shape) > 1 and given == shape[:-1]
    if for_each_row or (integers and (len(given) < len(shape) or given[-1:] != shape[-1:])):
        from selmatch.labels import advice

        raise ValueError(
            f"{who}: {name} must hold a number for every class, as s_hat of shape {shape} does, got shape {given}, "
            f"which looks like class indices. {advice(who, potential)}"
        )


def aligned_mask(who: str, mask: Array, shape: tuple[int, ...], rows: bool) -> Array:
    """A mask with the axes of the scores; where the last axis makes a row, a mask without that axis masks rows.

    The number of axes decides, not their lengths: a mask of T rows does not turn into one of classes when there happen
    to be T classes.
    """
    given = tuple(mask.shape)
    of_rows = rows and len(given) == len(shape) - 1
    if not _fits(given, shape[:-1] if of_rows else shape) or (rows and 0 < len(given) < len(shape) - 1):
        either = f" or of their rows {shape[:-1]}" if rows and len(shape) > 1 else ""
        remedy = " One of the last axis is where[None]." if rows and len(shape) == 2 and given == shape[-1:] else ""
        raise ValueError(f"{who}: where must have the shape of the scores {shape}{either}, got {given}.{remedy}")
    return mask[..., None] if of_rows else mask


def mask_of_rows(mask: Array, rows: tuple[int, ...]) -> Array:
    """A mask for functions that know whole rows only, which may come with an axis for the classes."""
    given = tuple(mask.shape)
    return mask[..., 0] if len(given) == len(rows) + 1 and given[-1] == 1 else mask


def mask_of(who: str, mask: Any, shape: tuple[int, ...], space: type, like: Array, rows: bool) -> Array:
    if mask is None:
        return None
    if isinstance(mask, bool):
        mask = space.like((float(mask),), like)[0] != 0
    elif is_number(mask) or "bool" not in str(mask.dtype):
        raise TypeError(f"{who}: where must be boolean, got {mask if is_number(mask) else f'dtype {mask.dtype}'}.")
    return space.broadcast(aligned_mask(who, mask, shape, rows), shape)


def _weights(who: str, weights: Any, rows: Array, shape: tuple[int, ...], space: type, like: Array) -> Array:
    """Weights of the rows that are there, 0 for the others."""
    if weights is None:
        return None if rows is None else space.cast(rows, like)
    weights = space.cast(as_float(who, "weights", weights, space, like), like)
    given = tuple(weights.shape)
    if not _fits(given, shape):
        raise ValueError(f"{who}: weights must have the shape of the unreduced result {shape}, got {given}.")
    weights = space.broadcast(weights, shape)
    if space is NumPy:
        require_inside(who, "weights", weights, (weights >= 0) & np.isfinite(weights), rows, "be finite and >= 0")
    else:
        weights = where(weights >= 0, weights, math.nan)
    return weights if rows is None else where(rows, weights, 0.0)


# ------------------------------------------------------------------------------------------------- checks of the values


def require_inside(
    who: str, name: str, x: np.ndarray, inside: np.ndarray, present: Array, condition: str, remedy: str = ""
) -> None:
    """Raise an error that names the first value outside; NumPy only, where looking is cheap."""
    bad = ~inside
    if present is not None:
        bad &= present
    if bad.any():
        index = tuple(int(i) for i in np.argwhere(bad)[0])
        place = f" at index {index[0] if len(index) == 1 else index}" if index else ""
        raise ValueError(f"{who}: {name} must {condition}, got {x[index]}{place}.{remedy}")


def _legal(potential: Any, s_hat: Array, s: Array, observed: str) -> dict[str, Array]:
    """Elementwise: which observed and predicted scores does a loss take?"""
    if hasattr(potential, "labels"):
        return {observed: potential.holds(s), "s_hat": potential.holds_prediction(s_hat, s)}
    if observed != "s":
        return {"s_hat": potential.holds(s_hat)}
    return {observed: potential.holds(s, interior=True), "s_hat": potential.holds(s_hat)}


def _condition(potential: Any, name: str) -> tuple[str, str]:
    """What legal scores must do, and the remedy for others, in words."""
    if hasattr(potential, "labels"):
        if name == "s_hat":
            return "lie in the domain of its label's curve", " Clip it."
        labels = ", ".join(f"{label:g}" for label in potential.labels)
        return f"be one of the labels {labels}", " Add it to PerLabel, or mask it."
    domain = potential.domain
    interval = f"in the domain [{domain.low:g}, {domain.high:g}]" if name == "s_hat" else f"inside the domain {domain}"
    return f"lie {interval}", " Clip it, or mask it."


def _checked(
    who: str, potential: Any, s_hat: Array, s: Array, observed: str, space: type, present: Array
) -> tuple[Array, Array]:
    """Scores that are finite and in the domain: else an error (NumPy), or NaN (where values cannot be looked at)."""
    scores = {observed: s, "s_hat": s_hat}
    if space is NumPy:
        with np.errstate(all="ignore"):
            for name, x in scores.items():
                if not np.isfinite(np.sum(x)):  # a sum is quicker to check than every number
                    require_inside(who, name, x, np.isfinite(x), present, "be finite", " Impute it, or mask it.")
    if potential.bounded:
        for name, inside in _legal(potential, s_hat, s, observed).items():
            if space is NumPy:
                require_inside(who, name, scores[name], inside, present, *_condition(potential, name))
            else:  # added, so that derivatives are NaN too
                scores[name] = scores[name] + space.cast(where(inside, 0.0, math.nan), scores[name])
    return scores["s_hat"], scores[observed]


# ---------------------------------------------------------------------------------------------------------- all of it


def check_reduction(who: str, reduction: Any, num_items: Any) -> Any:
    """The denominator of the mean that the user wants, checked."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{who}: reduction must be 'mean', 'sum' or 'none', got {reduction!r}.")
    if num_items is None:
        return None
    if reduction != "mean":
        raise ValueError(f"{who}: num_items must go with reduction='mean', got reduction={reduction!r}.")
    # a count on a device, or of nothing, is for the caller to see to
    return num_items if is_framework_array(num_items) else parameter(who, "num_items", num_items, above=0.0)


def prepare(
    who: str,
    potential: Any,
    s_hat: Any,
    s: Any,
    mask: Any = None,
    weights: Any = None,
    reduction: str = "none",
    num_items: Any = None,
    *,
    vector: bool = False,
    lists: bool = False,
    observed: str = "s",
    numbers_of: Any = None,
) -> Batch:
    """Everything that a loss computes with, or a clear error.

    ``observed`` is what the caller's second argument is called; unless it is "s", it holds no scores but link values
    ("y") or a direction ("v"), which the caller checks. ``lists`` says that rows are lists, which a mask may leave out
    whole, as it may rows of classes. ``numbers_of`` has the numbers of the loss, unless it is the potential.
    """
    num_items = check_reduction(who, reduction, num_items)
    if mask is None and weights is None and not potential.bounded:
        space = quick_namespace_of(s_hat)  # tensors of one dtype and shape need no conversion
        if space is not None and space.ready(s_hat, s) and (not vector or (s_hat.ndim > 0 and s_hat.shape[-1] > 0)):
            return Batch(s, s_hat, space, s_hat, s_hat, vector, reduction, num_items)
    listed = all(is_number(x) or isinstance(x, (list, tuple)) for x in (s_hat, s))
    given = {"s_hat": s_hat, observed: s, "where": mask, "weights": weights}
    s_hat, s, mask, weights = (converted(who, name, x) for name, x in given.items())
    arguments = dict(zip(given, (s_hat, s, mask, weights), strict=True))
    space = common_space(who, arguments)
    own = pytrees.array_among(numbers_of or potential) if space.name == "NumPy" else None
    if own is not None:  # JAX takes scores of NumPy along
        space, listed = common_space(who, {**arguments, "a number of the loss": own}), False
    if space.name == "JAX":
        s_hat, s, mask, weights = (
            space.adopt(x) if isinstance(x, np.ndarray) else x for x in (s_hat, s, mask, weights)
        )
    like = s_hat if not is_number(s_hat) else s
    given_s = s
    s_hat, s, wide = _as_floats(who, s_hat, s, observed, space, own)
    if vector:
        _require_classes(who, s_hat)
        if observed != "v":
            _refuse_class_indices(who, observed, s_hat, given_s, space, potential)
    shape = paired_shape(who, space, s_hat=tuple(s_hat.shape), **{observed: tuple(s.shape)})
    s, s_hat = space.broadcast(s, shape), space.broadcast(s_hat, shape)
    present = mask_of(who, mask, shape, space, s_hat, vector or lists)
    s_hat, s = _checked(who, potential, s_hat, s, observed, space, present)
    rows = present if present is None or not vector else space.row_any(present)
    weights = _weights(who, weights, rows, shape[:-1] if vector else shape, space, s_hat)
    counted = present
    if weights is not None and space is not NumPy:  # their gradient may be infinite, and 0 times that is NaN
        weighty = (weights != 0)[..., None] if vector else weights != 0
        counted = weighty if present is None else present & weighty
    if counted is not None:
        harmless = potential.point()
        s_hat = where(counted, s_hat, harmless)
        s = where(counted, s, harmless if observed == "s" else 0.0 if vector else potential.link(harmless))
    return Batch(
        s,
        s_hat,
        space,
        like if not is_number(like) and space.is_floating(like) else wide,
        wide,
        vector,
        reduction,
        num_items,
        present,
        weights,
        plain=own is None and is_number(given["s_hat"]) and is_number(given[observed]),
        listed=listed,
    )


def prepare_untouched(
    who: str,
    s_hat: Array,
    s: Array,
    wide: Array,
    mask: Any = None,
    weights: Any = None,
    reduction: str = "none",
    num_items: Any = None,
    *,
    vector: bool = False,
    potential: Any = None,
) -> Batch:
    """A batch whose scores keep their dtypes and what is behind the mask, for kernels, which see to that by themselves.

    ``wide`` has the dtype of weights and sums.
    """
    num_items = check_reduction(who, reduction, num_items)
    space = common_space(who, {"s_hat": s_hat, "s": s, "where": mask, "weights": weights})
    if vector:
        _require_classes(who, s_hat)
        _refuse_class_indices(who, "s", s_hat, s, space, potential)
    shape = paired_shape(who, space, s_hat=tuple(s_hat.shape), s=tuple(s.shape))
    present = mask_of(who, mask, shape, space, wide, vector)
    rows = present if present is None or not vector else space.row_any(present)
    weights = _weights(who, weights, rows, shape[:-1] if vector else shape, space, wide)
    s, s_hat = space.broadcast(s, shape), space.broadcast(s_hat, shape)
    return Batch(s, s_hat, space, s_hat, wide, vector, reduction, num_items, present, weights)
