"""Features as boosters take them: columns of categories, names of columns, sparse matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import _safe_indexing

#: what XGBoost or LightGBM refuse in the name of a feature
_REFUSED = frozenset('[]<>{}",:')


def picked(X: Any, rows: np.ndarray) -> Any:
    """Some rows of a frame, array or sparse matrix, by a mask or by positions."""
    return _safe_indexing(X, np.flatnonzero(rows) if rows.dtype == bool else rows)


def category_columns(X: Any) -> list[Any]:
    """The columns of categories of a data frame, which boosters understand and arrays do not hold."""
    if not hasattr(X, "dtypes") or not hasattr(X, "columns"):
        return []
    return [name for name, dtype in zip(X.columns, X.dtypes, strict=True) if _is_category(dtype)]


def _is_category(dtype: Any) -> bool:
    return str(dtype).startswith(("category", "Categorical", "Enum"))


def is_pandas(X: Any) -> bool:
    """Whether X is a data frame of pandas, or one that is used like it."""
    return hasattr(X, "iloc") and hasattr(X, "columns")


def nameable(names: Sequence[str]) -> bool:
    """Whether every booster takes these names of features."""
    return len(set(names)) == len(names) and not any(not name or _REFUSED & set(name) for name in names)


def named(who: str, X: Any, names: Sequence[str]) -> Any:
    """An array with names of its columns, by which boosters' parameters may speak of them."""
    # XGBoost would take the zeros of a sparse matrix for missing values, which they were not in training
    values = X.toarray() if sparse.issparse(X) else X
    return _pandas(who).DataFrame(values, columns=list(names), copy=False)


def as_pandas(who: str, X: Any) -> Any:
    """A polars frame of numbers and categories as one of pandas; Arrow is not needed for it."""
    pandas, columns = _pandas(who), {}
    for name, dtype in zip(X.columns, X.dtypes, strict=True):
        column = X[name]
        if _is_category(dtype):
            columns[name] = pandas.Categorical(column.cast(str).to_list())
        elif dtype.is_numeric() or str(dtype) == "Boolean":
            columns[name] = column.cast(float).to_numpy()  # null becomes NaN
        else:
            raise ValueError(
                f"{who}: X must hold numbers and categories, got {dtype} in column {name!r}. Cast it to one of them."
            )
    return pandas.DataFrame(columns)


def as_boosters_know(X: Any) -> Any:
    """Sparse arrays as matrices with short indices: LightGBM and CatBoost know no others."""
    if not sparse.issparse(X):
        return X
    if X.nnz <= np.iinfo(np.int32).max:
        return sparse.csr_matrix((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape)
    return sparse.csr_matrix(X)


def _pandas(who: str) -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ImportError(
            f"{who}: data frames for this backend need pandas. Install it with: pip install pandas."
        ) from error
    return pandas
