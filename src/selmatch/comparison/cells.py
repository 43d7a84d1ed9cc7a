"""One column of a table as numbers or categories, whatever it holds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas
from pandas.api import types

from selmatch.comparison.reading import WHO

#: cells that mean "nothing here", besides those that pandas knows
_MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "nil", "-", "--", "?", "."})
#: share of the cells that must read as numbers (dates) before a text column counts as such
_ENOUGH = 0.9
#: text with more different cells than this share of the rows is a name of the row, not a property of it
_MOST_DIFFERENT = 0.9
_FEW_ROWS = 20


@dataclass(frozen=True, eq=False)
class Column:
    """A feature: numbers, or codes of categories; NaN is missing.

    Attributes
    ----------
    values : array of float
        Numbers or codes.
    categories : tuple of str or None
        What the codes mean.
    kind : {"number", "category", "date"}
        How it was read.
    note : str
        What was done to it, if there is something to say.
    """

    values: np.ndarray
    categories: tuple[str, ...] | None = None
    kind: str = "number"
    note: str = ""

    @property
    def missing(self) -> np.ndarray:
        return np.isnan(self.values)

    @property
    def constant(self) -> bool:
        """Whether it tells nothing: one value in all rows, or none."""
        missing = self.missing
        present = self.values[~missing]
        return not present.size or (not missing.any() and bool(present.min() == present.max()))


def numbers(role: str, name: str, column: pandas.Series) -> np.ndarray:
    """A column that must be numbers, as float with NaN for what is missing; the error names the first wrong cells."""
    if types.is_bool_dtype(column.dtype) or _is_real(column.dtype):
        return _floats(column)
    if types.is_datetime64_any_dtype(column.dtype) or types.is_complex_dtype(column.dtype):
        raise ValueError(f"{WHO}: the {role} column {name!r} must be numbers, got {column.dtype}.")
    words, places = _words(column)
    read = _as_numbers(words)
    wrong = np.isnan(read)
    if wrong.any():
        raise ValueError(
            f"{WHO}: the {role} column {name!r} must be numbers, got {_named(words, places, wrong)}. Correct or remove "
            "these cells; classes need numbers in their place."
        )
    values = np.full(len(column), np.nan)
    values[places] = read
    return values


def moments(name: str, column: pandas.Series) -> np.ndarray:
    """A column of times as numbers that grow with time: numbers, dates, or text that reads as one of them."""
    found = feature(name, column)
    if found is None or found.kind == "category":
        raise ValueError(
            f"{WHO}: the time column {name!r} must be numbers or dates such as 2024-05-31, got {column.dtype}."
        )
    return found.values


def feature(name: str, column: pandas.Series) -> Column | None:
    """A column as numbers or categories; None for names of rows, from which nothing can be learnt."""
    dtype = column.dtype
    if types.is_bool_dtype(dtype):
        return _categories(column.astype(object).where(column.notna(), None))
    if isinstance(dtype, pandas.CategoricalDtype):
        return _coded(pandas.Categorical(column).remove_unused_categories())
    if _is_real(dtype):
        return _finite(name, _floats(column))
    if isinstance(dtype, pandas.PeriodDtype):
        return Column(_days(column.dt.to_timestamp()), kind="date")
    if types.is_datetime64_any_dtype(dtype):
        return Column(_days(column), kind="date")
    if types.is_timedelta64_dtype(dtype):
        return Column((column / pandas.Timedelta(seconds=1)).to_numpy(dtype=float, na_value=np.nan))
    return _text(name, column)


def _is_real(dtype: object) -> bool:
    return types.is_numeric_dtype(dtype) and not types.is_complex_dtype(dtype)


def _floats(column: pandas.Series) -> np.ndarray:
    return column.to_numpy(dtype=float, na_value=np.nan)


def _finite(name: str, values: np.ndarray) -> Column:
    """Numbers whose infinities are missing."""
    infinite = np.isinf(values)
    if not infinite.any():
        return Column(values)
    note = f"Column {name!r} has {infinite.sum():,} infinite cells; they count as missing."
    return Column(np.where(infinite, np.nan, values), note=note)


def _days(column: pandas.Series) -> np.ndarray:
    moments = pandas.to_datetime(column, utc=True)
    since = (moments - pandas.Timestamp(0, tz="UTC")) / pandas.Timedelta(days=1)
    return since.to_numpy(dtype=float, na_value=np.nan)


# ----------------------------------------------------------------------------------------------------------------- text


def _words(column: pandas.Series) -> tuple[pandas.Series, np.ndarray]:
    """Cells that hold something, as text, and where they are."""
    places = np.flatnonzero(column.notna().to_numpy())
    words = column.iloc[places].map(str).astype(object)
    kept = np.flatnonzero(~words.str.strip().str.lower().isin(_MISSING).to_numpy())
    return words.iloc[kept], places[kept]


def _as_numbers(words: pandas.Series) -> np.ndarray:
    return np.asarray(pandas.to_numeric(words, errors="coerce"), dtype=float)


def _named(words: pandas.Series, places: np.ndarray, wrong: np.ndarray, most: int = 3) -> str:
    """The first wrong cells with the number of their row, counted from 1 below the header."""
    first = np.flatnonzero(wrong)[:most]
    cells = ", ".join(f"{_short(words.iloc[i])!r} (row {places[i] + 1:,})" for i in first)
    more = int(wrong.sum()) - len(first)
    return f"{cells} and {more:,} more" if more else cells


def _short(word: str, most: int = 40) -> str:
    return word if len(word) <= most else word[: most - 1] + "…"


def _text(name: str, column: pandas.Series) -> Column | None:
    words, places = _words(column)
    if not len(words):
        return Column(np.full(len(column), np.nan))
    values = np.full(len(column), np.nan)
    read = _as_numbers(words)
    wrong = np.isnan(read)
    if wrong.mean() <= 1.0 - _ENOUGH:
        values[places] = read
        note = f"Column {name!r} is text that reads as numbers, and is used as numbers."
        if wrong.any():
            note += f" Cells that do not read so count as missing: {_named(words, places, wrong)}."
        found = _finite(name, values)
        return Column(found.values, note=" ".join(filter(None, (note, found.note))))
    dates = pandas.to_datetime(words, format="ISO8601", errors="coerce", utc=True)
    wrong = dates.isna().to_numpy()
    if wrong.mean() <= 1.0 - _ENOUGH:
        values[places] = _days(dates)
        note = f"Column {name!r} holds dates, used as numbers of days."
        if wrong.any():
            note += f" Cells that are none count as missing: {_named(words, places, wrong)}."
        return Column(values, kind="date", note=note)
    if len(words) >= _FEW_ROWS and words.nunique() > _MOST_DIFFERENT * len(words):
        return None
    return _categories(_spread(words, places, len(column)))


def _spread(words: pandas.Series, places: np.ndarray, rows: int) -> pandas.Series:
    cells = np.full(rows, None, dtype=object)
    cells[places] = words.to_numpy()
    return pandas.Series(cells, dtype=object)


def _categories(cells: pandas.Series) -> Column:
    return _coded(pandas.Categorical(cells))


def _coded(found: pandas.Categorical) -> Column:
    codes = found.codes.astype(float)
    codes[codes < 0] = np.nan
    return Column(codes, tuple(map(str, found.categories)), kind="category")
