"""Data frames: columns in the order of training, and categories matched by name.

Libraries keep categories as codes, which depend on the frame: on the order of its categories, on those that it does not
use, on whether it is one of pandas or of polars. Here each frame gets the codes of the frame of training.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Columns:
    """The columns of a data frame of training.

    Attributes
    ----------
    names : tuple
        All names, in order; empty for arrays, which have none.
    categories : mapping
        For each column of categories these, in the order of their codes.
    """

    names: tuple[Any, ...]
    categories: Mapping[Any, tuple[Any, ...]]

    @classmethod
    def of(cls, X: Any) -> Columns:
        """The columns of a frame, or of anything else, which has none."""
        if not is_frame(X):
            return NO_COLUMNS
        return cls(tuple(X.columns), {name: _categories(X[name]) for name in category_columns(X)})

    def require(self, who: str, X: Any) -> None:
        """Raise unless X has the columns of categories of training: their codes would be taken for numbers."""
        found = category_columns(X)
        if set(found) != set(self.categories):
            raise ValueError(
                f"{who}: the columns of categories must be those of training, {list(self.categories) or 'none'}, got "
                f"{found or 'none'}. Give X the same dtypes."
            )

    def align(self, who: str, X: Any) -> Any:
        """A frame with these columns and the codes of training; arrays, which say nothing, as they are."""
        self.require(who, X)
        if not is_frame(X) or not self.names:
            return X
        if tuple(X.columns) != self.names:
            X = self._ordered(who, X)
        if not self.categories:
            return X
        numbers = _numbers(who, X, self.categories)
        for name, categories in self.categories.items():
            numbers[name] = _coded(who, X[name], categories)
        return numbers[list(self.names)]

    def _ordered(self, who: str, X: Any) -> Any:
        for wanted, got, what in ((self.names, X.columns, "lacks"), (X.columns, self.names, "has also")):
            odd = [name for name in wanted if name not in set(got)]
            if odd:
                raise ValueError(f"{who}: X must have the columns of training, got a frame that {what} {odd}.")
        return X[list(self.names)]


#: those of arrays
NO_COLUMNS = Columns((), {})


def is_frame(X: Any) -> bool:
    """Whether X is a data frame of pandas or polars, or one that is used like them."""
    return hasattr(X, "dtypes") and hasattr(X, "columns")


def is_pandas(X: Any) -> bool:
    """Whether X is a data frame of pandas, or one that is used like it."""
    return hasattr(X, "iloc") and hasattr(X, "columns")


def category_columns(X: Any) -> list[Any]:
    """The columns of categories of a data frame, which boosters understand and arrays do not hold."""
    if not is_frame(X):
        return []
    return [name for name, dtype in zip(X.columns, X.dtypes, strict=True) if _is_category(dtype)]


def _is_category(dtype: Any) -> bool:
    return str(dtype).startswith(("category", "Categorical", "Enum"))


def pandas_of(who: str) -> Any:
    """The library pandas, which categories need."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError(f"{who}: columns of categories need pandas. Install it with: pip install pandas.") from error
    return pandas


def _categories(column: Any) -> tuple[Any, ...]:
    """Those that a column may hold; a Categorical of polars, which shares its list with others, those that it holds."""
    if hasattr(column, "cat") and hasattr(column.cat, "categories"):
        return tuple(column.cat.categories)
    if str(column.dtype).startswith("Enum"):
        return tuple(column.dtype.categories)
    return tuple(sorted(set(column.cast(str).drop_nulls().to_list())))


def _numbers(who: str, X: Any, categories: Collection[Any]) -> Any:
    """A frame of pandas whose columns, but those of categories, are numbers with NaN for what is missing."""
    if is_pandas(X):
        X = X.copy(deep=False)
        for name, dtype in zip(X.columns, X.dtypes, strict=True):
            if dtype == np.dtype(bool) or (not isinstance(dtype, np.dtype) and getattr(dtype, "_is_numeric", False)):
                X[name] = X[name].to_numpy(dtype=np.float64, na_value=np.nan)
        return X
    columns = {}
    for name, dtype in zip(X.columns, X.dtypes, strict=True):
        if name not in categories:
            if not dtype.is_numeric() and str(dtype) != "Boolean":
                raise ValueError(
                    f"{who}: X must hold numbers and categories, got {dtype} in column {name!r}. Cast it to one of "
                    "them."
                )
            columns[name] = X[name].cast(float).to_numpy()  # null becomes NaN
    return pandas_of(who).DataFrame(columns, index=range(len(X)))


def _coded(who: str, column: Any, categories: tuple[Any, ...]) -> Any:
    """A column with the codes that its categories had in training; others count as missing, with a warning."""
    pandas = pandas_of(who)
    held = column.array if hasattr(column, "array") else pandas.Categorical(column.cast(str).to_list())
    codes = {str(category): code for code, category in enumerate(categories)}  # polars has words alone
    codes |= {category: code for code, category in enumerate(categories)}
    known = np.array([codes.get(name, codes.get(str(name), -1)) for name in held.categories] + [-1])
    coded = known[held.codes]
    unseen = np.unique(held.codes[(coded < 0) & (held.codes >= 0)])
    if unseen.size:
        names = ", ".join(repr(held.categories[code]) for code in unseen[:5])
        more = f" and {unseen.size - 5} more" if unseen.size > 5 else ""
        warnings.warn(
            f"{who}: column {column.name!r} holds categories that were not known in training and count as missing: "
            f"{names}{more}.",
            UserWarning,
            stacklevel=4,
        )
    return pandas.Categorical.from_codes(coded, categories=list(categories))
