"""Numbers as users hold them (lists, arrays, tensors, columns of data frames) as NumPy arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def to_numpy(values: Any) -> np.ndarray:
    """An array of any library, or lists, as a NumPy array."""
    if hasattr(values, "detach"):  # a tensor, which may be on a device or carry gradients
        values = values.detach().cpu()
        values = values.float() if str(values.dtype) == "torch.bfloat16" else values
    return np.asarray(values)


def real_array(who: str, name: str, values: Any, *, kinds: str = "iuf") -> np.ndarray:
    """An array of double precision, with NaN for what is missing; an error for what is no number."""
    try:
        array = to_numpy(values)
    except ValueError:
        raise ValueError(f"{who}: {name} must be a rectangular array of numbers, got lists of other lengths.") from None
    if array.dtype.kind == "O" and all(_is_real_or_missing(value) for value in array.flat):
        array = np.array([float(_missing_as_nan(value)) for value in array.flat]).reshape(array.shape)
    if array.dtype.kind == "V" and array.dtype.names is None:  # bfloat16, which NumPy does not know by itself
        array = array.astype(np.float64)
    if array.dtype.kind not in kinds:
        kind = type(values).__name__ if array.ndim == 0 else f"dtype {array.dtype}"
        raise TypeError(f"{who}: {name} must be real numbers, got {kind}. Give a list, an array or a column of them.")
    return array.astype(np.float64)


def finite_column(who: str, name: str, values: Any) -> np.ndarray:
    """All numbers of an array in one row; at least one, and all finite."""
    column = real_array(who, name, values, kinds="iufb").ravel()
    if not column.size:
        raise ValueError(f"{who}: {name} must hold at least one number, got none.")
    wrong = ~np.isfinite(column)
    if wrong.any():
        raise ValueError(
            f"{who}: {name} must be finite numbers, got {column[wrong][0]} (in {wrong.sum()} of {column.size}). "
            "Drop or impute them."
        )
    return column


def _missing_as_nan(value: Any) -> Any:
    return math.nan if value is None or type(value).__name__ == "NAType" else value


def _is_real_or_missing(value: Any) -> bool:
    if isinstance(value, (bool, np.bool_, str, bytes)):
        return False
    try:
        float(_missing_as_nan(value))
    except (TypeError, ValueError):
        return False
    return True
