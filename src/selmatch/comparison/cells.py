"""One column of a table as numbers or categories, whatever it holds."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas
from pandas.api import types

from selmatch.comparison.reading import WHO
from selmatch.comparison.spellings import Reading, dates_as, dates_in, numbers_as, numbers_in

#: cells that mean "nothing here", besides those that pandas knows
_MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "nil", "-", "--", "?", "."})
#: share of the cells that must read as numbers (dates) before a text column counts as such
_ENOUGH = 0.9
#: text with more different cells than this share of the rows is a name of the row, not a property of it
_MOST_DIFFERENT = 0.9
_FEW_ROWS = 20
#: so few different words among so many different numbers say that a number is not known
_FEW_WORDS, _MANY_NUMBERS = 5, 10
#: numbers beyond it are none in single precision
_LARGEST = 1e38


@dataclass(frozen=True, eq=False)
class Column:
    """A feature: numbers, or codes of categories; NaN is missing.

    Attributes
    ----------
    values : array of float
        Numbers or codes.
    categories : tuple of str or None
        What the codes mean.
    kind : {"number", "category", "date", "name"}
        How it was read; names of rows have no values.
    note : str
        What was done to it, if there is something to say.
    text : bool
        Whether its cells are text.
    spelling, mark : str
        The pattern and the sign of its text, as for :class:`Reading`; the pattern "duration" for lengths of time.
    """

    values: np.ndarray
    categories: tuple[str, ...] | None = None
    kind: str = "number"
    note: str = ""
    text: bool = False
    spelling: str = ""
    mark: str = ""

    @property
    def missing(self) -> np.ndarray:
        return np.isnan(self.values)

    @property
    def constant(self) -> bool:
        """Whether it tells nothing: one value in all rows, or none."""
        missing = self.missing
        present = self.values[~missing]
        return not present.size or (not missing.any() and bool(present.min() == present.max()))


@dataclass(frozen=True)
class Known:
    """How a column was read, to read the same column of other rows in the same way.

    Attributes
    ----------
    name, kind, categories, text, spelling, mark
        As for :class:`Column`; the kind is "number", "category" or "date".
    """

    name: str
    kind: str
    categories: tuple[str, ...] | None = None
    text: bool = False
    spelling: str = ""
    mark: str = ""

    @classmethod
    def of(cls, name: str, column: Column) -> Known:
        """What is to be known of a column that was read."""
        return cls(name, column.kind, column.categories, column.text, column.spelling, column.mark)

    def frame_column(self, values: np.ndarray) -> Any:
        """Numbers, or words in place of codes."""
        if self.categories is None:
            return values
        codes = np.where(np.isnan(values), -1, values).astype(int)
        return pandas.Categorical.from_codes(codes, list(self.categories))


def numbers(role: str, name: str, column: pandas.Series) -> Column:
    """A column that must be numbers, with NaN for what is missing; the error names the first wrong cells."""
    if types.is_bool_dtype(column.dtype) or _is_real(column.dtype):
        return Column(_floats(column))
    if types.is_datetime64_any_dtype(column.dtype) or types.is_complex_dtype(column.dtype):
        raise ValueError(f"{WHO}: the {role} column {name!r} must be numbers, got {column.dtype}.")
    words, places = _words(column)
    found = numbers_in(words)
    wrong = ~found.read
    if found.doubtful:
        raise ValueError(
            f"{WHO}: the {role} column {name!r} must be numbers without doubt, got "
            f"{_named(words, places, ~wrong)}: thousands or decimals? {_WRITE}"
        )
    if wrong.any():
        remedy = _WRITE if words.loc[wrong].str.contains(r"\d[,.]\d").any() else ""
        raise ValueError(
            f"{WHO}: the {role} column {name!r} must be numbers, got {_named(words, places, wrong)}. Correct or remove "
            f"these cells; classes need numbers in their place. {remedy}".rstrip()
        )
    note = f"The {role} column {name!r} is text, read as numbers {found.words}." if found.words else ""
    return Column(_spread(found.values, places, len(column)), note=note)


#: what to do about commas
_WRITE = "Write a point before the decimals and nothing between thousands: 1234.5 for 1.234,5 or 1,234.5."


def moments(name: str, column: pandas.Series) -> Column:
    """A column of times as numbers that grow with time: numbers, dates, or text that reads as one of them."""
    found = feature(name, column)
    if found.kind in ("category", "name"):
        raise ValueError(
            f"{WHO}: the time column {name!r} must be numbers or dates such as 2024-05-31, got {column.dtype}"
            f"{_examples(column)}."
        )
    return found


def _examples(column: pandas.Series) -> str:
    words, _ = _words(column)
    return f" with cells such as {_quoted(words)}" if len(words) else ""


def feature(name: str, column: pandas.Series) -> Column:
    """A column as numbers or categories, or as names of rows, from which nothing can be learnt."""
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
        return Column(_seconds(column), spelling=DURATION)
    return _text(name, column)


#: the pattern of lengths of time, which are numbers of seconds
DURATION = "duration"


def _seconds(column: pandas.Series) -> np.ndarray:
    return (column / pandas.Timedelta(seconds=1)).to_numpy(dtype=float, na_value=np.nan)


def _is_real(dtype: object) -> bool:
    return types.is_numeric_dtype(dtype) and not types.is_complex_dtype(dtype)


def _floats(column: pandas.Series) -> np.ndarray:
    return column.to_numpy(dtype=float, na_value=np.nan)


def _finite(name: str, values: np.ndarray) -> Column:
    """Numbers; what single precision cannot hold is missing, since boosters have no more."""
    beyond = np.abs(values) > _LARGEST
    if not beyond.any():
        return Column(values)
    note = (
        f"Column {name!r} has {beyond.sum():,} cells that are infinite or beyond {_LARGEST:g}; they count as missing."
    )
    return Column(np.where(beyond, np.nan, values), note=note)


def _days(column: pandas.Series) -> np.ndarray:
    moments = pandas.to_datetime(column, utc=True).dt.as_unit("us")  # nanoseconds end in 2262, before 9999-12-31
    since = (moments - pandas.Timestamp(0, tz="UTC").as_unit("us")) / pandas.Timedelta(days=1)
    return since.to_numpy(dtype=float, na_value=np.nan)


# ----------------------------------------------------------------------------------------------------------------- text


def _words(column: pandas.Series) -> tuple[pandas.Series, np.ndarray]:
    """Cells that hold something, as text, and where they are."""
    places = np.flatnonzero(column.notna().to_numpy())
    words = column.iloc[places].map(str).astype(object)
    kept = np.flatnonzero(~words.str.strip().str.lower().isin(_MISSING).to_numpy())
    return words.iloc[kept], places[kept]


def _named(words: pandas.Series, places: np.ndarray, wrong: np.ndarray, most: int = 3) -> str:
    """The first wrong cells with the number of their row, counted from 1 below the header."""
    first = np.flatnonzero(wrong)[:most]
    cells = ", ".join(f"{_short(words.iloc[i])!r} (row {places[i] + 1:,})" for i in first)
    more = int(wrong.sum()) - len(first)
    return f"{cells} and {more:,} more" if more else cells


def _short(word: str, most: int = 40) -> str:
    return word if len(word) <= most else word[: most - 1] + "…"


def _quoted(words: pandas.Series, most: int = 3) -> str:
    return ", ".join(repr(_short(word)) for word in words.drop_duplicates().iloc[:most])


def _text(name: str, column: pandas.Series) -> Column:
    words, places = _words(column)
    if not len(words):
        return Column(np.full(len(column), np.nan))
    found = (
        _text_of_numbers(name, words, places, len(column))
        or _text_of_dates(name, words, places, len(column))
        or _text_of_words(name, words, places, len(column))
    )
    # true and false beside missing cells are no text, though their column is no column of truth values
    return dataclasses.replace(found, text=any(isinstance(cell, str) for cell in column.iloc[places]))


def _text_of_numbers(name: str, words: pandas.Series, places: np.ndarray, rows: int) -> Column | None:
    read = numbers_in(words)
    wrong = ~read.read
    others = _words_among_numbers(words, read)
    if wrong.mean() > 1.0 - _ENOUGH and not others:
        return None
    how = f" {read.words}" if read.words else ""
    note = f"Column {name!r} is text that reads as numbers{how}, and is used as numbers."
    if read.doubtful:
        note += (
            f" Cells such as {_quoted(words)} were read as thousands; as decimals they would be 1,000 times smaller."
        )
    if others:
        note += f" Words count as missing: {others}."
    elif wrong.any():
        note += f" Cells that do not read so count as missing: {_named(words, places, wrong)}."
    found = _finite(name, _spread(read.values, places, rows))
    return Column(
        found.values, note=" ".join(filter(None, (note, found.note))), text=True, spelling=read.spelling, mark=read.mark
    )


def _words_among_numbers(words: pandas.Series, read: Reading) -> str:
    """The few words, with their counts, that stand for nothing among many different numbers; empty if it is not so."""
    wrong = ~read.read
    if not wrong.any() or wrong.mean() > 0.5 or len(np.unique(read.values[~wrong])) < _MANY_NUMBERS:
        return ""
    counts = words.loc[wrong].value_counts()
    if len(counts) > _FEW_WORDS or counts.index.str.contains(r"\d").any():
        return ""
    return ", ".join(f"{_short(str(word))!r} ({count:,} cells)" for word, count in counts.items())


def _text_of_dates(name: str, words: pandas.Series, places: np.ndarray, rows: int) -> Column | None:
    read = dates_in(words)
    wrong = ~read.read
    if read.doubtful or wrong.mean() > 1.0 - _ENOUGH:
        return None
    how = f" {read.words}" if read.words else ""
    note = f"Column {name!r} holds dates{how}, used as numbers of days."
    if wrong.any():
        note += f" Cells that are none count as missing: {_named(words, places, wrong)}."
    values = _spread(_days(pandas.Series(read.values)), places, rows)
    return Column(values, kind="date", note=note, text=True, spelling=read.spelling)


def _text_of_words(name: str, words: pandas.Series, places: np.ndarray, rows: int) -> Column:
    """Categories, or the name of each row; a note where they might have been numbers or dates."""
    names = len(words) >= _FEW_ROWS and words.nunique() > _MOST_DIFFERENT * len(words)
    note = ""
    if words.str.match(r"\s*[+-]?\W?\d").mean() > 0.5 and (2 * words.str.count(r"\d") >= words.str.len()).mean() > 0.5:
        used = "left out, since each row has its own" if names else "used as categories"
        note = (
            f"Column {name!r} looks like numbers or dates, but cells such as {_quoted(words)} do not read as such; it "
            f"is {used}. Plain numbers (1234.5) and dates (2024-05-31) are read."
        )
    if names:
        return Column(np.full(rows, np.nan), kind="name", note=note)
    cells = np.full(rows, None, dtype=object)
    cells[places] = words.to_numpy()
    return dataclasses.replace(_categories(pandas.Series(cells, dtype=object)), note=note)


def _spread(values: np.ndarray, places: np.ndarray, rows: int) -> np.ndarray:
    """Numbers of some rows among all of them."""
    spread = np.full(rows, np.nan)
    spread[places] = values
    return spread


def _categories(cells: pandas.Series) -> Column:
    return _coded(pandas.Categorical(cells))


def _coded(found: pandas.Categorical) -> Column:
    codes = found.codes.astype(float)
    codes[codes < 0] = np.nan
    return Column(codes, tuple(map(str, found.categories)), kind="category")


# ------------------------------------------------------------------------------------------------------------ new rows


def again(known: Known, column: pandas.Series) -> np.ndarray:
    """Cells of new rows as numbers or codes, read as a column was before; NaN is missing.

    Nothing is inferred: a category that was not there before is missing, and so is text that did not read before. Text
    in a column that held no text is an error.
    """
    if known.kind == "category":
        return _codes(known, column)
    dtype = column.dtype
    if known.kind == "date" and isinstance(dtype, pandas.PeriodDtype):
        return _days(column.dt.to_timestamp())
    if known.kind == "date" and types.is_datetime64_any_dtype(dtype):
        return _days(column)
    if known.kind == "number" and types.is_timedelta64_dtype(dtype):
        return _seconds(column)
    if types.is_bool_dtype(dtype) or _is_real(dtype):
        values = _floats(column)
        if known.kind == "number" or np.isnan(values).all():
            return _finite(known.name, values).values
    words, places = _words(column)
    read = _read_again(known, words)
    wrong = np.isnan(read)
    if wrong.any() and not known.text:
        wanted = "dates" if known.kind == "date" else "numbers"
        raise ValueError(
            f"Columns: column {known.name!r} must hold {wanted}, as it did in the comparison, got "
            f"{_named(words, places, wrong)}. Correct these cells, or leave them empty."
        )
    return _finite(known.name, _spread(read, places, len(column))).values


def _read_again(known: Known, words: pandas.Series) -> np.ndarray:
    if known.kind == "date":
        return _days(pandas.Series(dates_as(words, known.spelling)))
    if known.spelling == DURATION:
        return _seconds(pandas.to_timedelta(words, errors="coerce"))
    return numbers_as(words, known.spelling, known.mark)


def _codes(known: Known, column: pandas.Series) -> np.ndarray:
    places = {word: float(code) for code, word in enumerate(known.categories or ())}
    truth = not known.text and places.keys() <= {"False", "True"}

    def code(cell: object) -> float:
        found = places.get(str(cell), np.nan)
        if truth and cell in (0, 1):  # as many databases write truth values
            return places.get(str(bool(cell)), np.nan)
        if np.isnan(found) and isinstance(cell, float) and cell.is_integer():
            return places.get(str(int(cell)), np.nan)  # whole numbers beside missing cells have become real ones
        return found

    cells = column.astype(object)
    return cells.where(column.notna(), None).map(lambda cell: np.nan if cell is None else code(cell)).to_numpy(float)
