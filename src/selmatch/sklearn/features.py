"""Features as boosters take them: names of columns, sparse matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import _safe_indexing

from selmatch.boosting.frames import pandas_of

#: what XGBoost or LightGBM refuse in the name of a feature
_REFUSED = frozenset('[]<>{}",:')


def picked(X: Any, rows: np.ndarray) -> Any:
    """Some rows of a frame, array or sparse matrix, by a mask or by positions."""
    return _safe_indexing(X, np.flatnonzero(rows) if rows.dtype == bool else rows)


def nameable(names: Sequence[str]) -> bool:
    """Whether every booster takes these names of features."""
    return len(set(names)) == len(names) and not any(not name or _REFUSED & set(name) for name in names)


def named(who: str, X: Any, names: Sequence[str]) -> Any:
    """An array with names of its columns, by which boosters' parameters may speak of them."""
    # XGBoost would take the zeros of a sparse matrix for missing values, which they were not in training
    values = X.toarray() if sparse.issparse(X) else X
    return pandas_of(who).DataFrame(values, columns=list(names), copy=False)


def as_boosters_know(X: Any) -> Any:
    """Sparse arrays as matrices with short indices: LightGBM and CatBoost know no others."""
    if not sparse.issparse(X):
        return X
    if X.nnz <= np.iinfo(np.int32).max:
        return sparse.csr_matrix((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape)
    return sparse.csr_matrix(X)
