"""Numbers and dates as people write them: 1,234 and 0,53, $12 and 12 %, 31.12.2020."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pandas

#: share of the cells that must follow one pattern, other than that of plain numbers, before a column is read by it
_CLEAR = 0.95

_MARKS = "[$€£¥%]"
_THOUSANDS = r"[+-]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?"
_COMMAS = r"[+-]?(?:\d+|\d{1,3}(?:\.\d{3})+)(?:,\d+(?:[eE][+-]?\d+)?)?"
_DAY = r"(?P<first>\d{1,2})(?P<mark>[./-])(?P<second>\d{1,2})(?P=mark)(?P<year>\d{4})"
_DATE = _DAY + r"(?:[ T](?P<clock>\d{1,2}:\d\d(?::\d\d)?))?"


@dataclass(frozen=True, eq=False)
class Reading:
    """How cells of text were read.

    Attributes
    ----------
    values : array
        Numbers with NaN, or moments with NaT, where a cell does not read so.
    words : str
        The pattern, if it is not the plain one.
    doubtful : bool
        Whether another pattern reads the same cells otherwise.
    spelling, mark : str
        The pattern by its name, empty for the plain one, and the sign of money or of percent: what reads other cells
        in the same way.
    """

    values: np.ndarray
    words: str = ""
    doubtful: bool = False
    spelling: str = ""
    mark: str = ""

    @property
    def read(self) -> np.ndarray:
        """Which cells were read."""
        return ~pandas.isna(self.values)


def numbers_in(words: pandas.Series) -> Reading:
    """Cells of text as numbers, by the pattern that reads most of them.

    Examples
    --------
    >>> import pandas
    >>> from selmatch.comparison.spellings import numbers_in
    >>> numbers_in(pandas.Series(["0,53", "12,1", "7"])).values.tolist()
    [0.53, 12.1, 7.0]
    >>> numbers_in(pandas.Series(["$1,250", "$980"])).words
    "with the sign '$' and commas between thousands"
    """
    codes, different = pandas.factorize(words)
    cells = pandas.Series(different, dtype=object)
    plain = _plain(cells)
    if np.isfinite(plain).all() or not cells.str.contains(r"\d").any():
        return Reading(plain[codes])
    bare, sign = _without_mark(cells.str.strip(), codes)
    commas = bare.str.contains(",", regex=False).to_numpy()
    tried = {name: read(bare) for name, read in NUMBERS.items()}
    counts = {name: int((~np.isnan(values[codes])).sum()) for name, values in tried.items()}
    best = max(counts, key=lambda name: counts[name])  # the first among equals
    if not (best or sign) or counts[best] < _CLEAR * len(codes):
        return Reading(plain[codes])
    said = " and ".join(filter(None, (f"the sign {sign!r}" if sign else "", best)))
    # where each cell has one comma with three digits behind it, nothing tells thousands from decimals
    alike = counts["commas between thousands"] == counts["a comma before the decimals"]
    doubtful = best == "commas between thousands" and alike and bool(commas[codes].all())
    return Reading(tried[best][codes], f"with {said}", doubtful, best, sign)


def numbers_as(words: pandas.Series, spelling: str, mark: str) -> np.ndarray:
    """Cells of text as numbers, by a known pattern; NaN where a cell does not read so.

    Examples
    --------
    >>> import pandas
    >>> from selmatch.comparison.spellings import numbers_as
    >>> numbers_as(pandas.Series(["1.250"]), "a comma before the decimals", "").tolist()
    [1250.0]
    """
    cells = words.astype(object)
    return NUMBERS[spelling](_bare(cells.str.strip(), mark) if spelling or mark else cells)


def _plain(cells: pandas.Series) -> np.ndarray:
    return np.asarray(pandas.to_numeric(cells, errors="coerce"), dtype=float)


def _without_mark(cells: pandas.Series, codes: np.ndarray) -> tuple[pandas.Series, str]:
    """Cells without a sign of money or of percent, where nearly all of them have the same."""
    marks = cells.str.extract(rf"(?:^[+-]?\s*|\s*)({_MARKS})(?:$|\s*[+-]?[\d.])", expand=False)
    found = marks.dropna().unique()
    if len(found) != 1 or marks.notna().to_numpy()[codes].mean() < _CLEAR:
        return cells, ""
    return _bare(cells, str(found[0])), str(found[0])


def _bare(cells: pandas.Series, mark: str) -> pandas.Series:
    """Cells without their sign of money or of percent."""
    if not mark:
        return cells
    sign = re.escape(mark)
    bare = cells.str.replace(rf"^([+-]?)\s*{sign}\s*", r"\1", regex=True)
    return bare.str.replace(rf"\s*{sign}$", "", regex=True)


def _thousands(cells: pandas.Series) -> np.ndarray:
    fits = cells.str.fullmatch(_THOUSANDS).to_numpy(dtype=bool)
    return np.where(fits, _plain(cells.str.replace(",", "", regex=False)), _plain(cells))


def _decimals(cells: pandas.Series) -> np.ndarray:
    fits = cells.str.fullmatch(_COMMAS).to_numpy(dtype=bool)
    pointed = cells.str.replace(".", "", regex=False).str.replace(",", ".", regex=False)
    return np.where(fits, _plain(pointed), np.nan)


#: patterns of numbers, by their names
NUMBERS = {"": _plain, "commas between thousands": _thousands, "a comma before the decimals": _decimals}
#: patterns of dates besides the standard one, by their names: which part is the day, and which the month
DATES = {"day before the month": ("first", "second"), "month before the day": ("second", "first")}


def dates_in(words: pandas.Series) -> Reading:
    """Cells of text as moments: 2020-12-31, with or without a time, else 31.12.2020, 31/12/2020 or 12/31/2020.

    Examples
    --------
    >>> import pandas
    >>> from selmatch.comparison.spellings import dates_in
    >>> dates_in(pandas.Series(["31/12/2020", "01/02/2021"])).words
    'with the day before the month'
    >>> dates_in(pandas.Series(["03/04/2020", "01/02/2021"])).doubtful
    True
    """
    codes, different = pandas.factorize(words)
    cells = pandas.Series(different, dtype=object)
    standard = _moments(cells)
    if standard.notna().to_numpy().all():
        return Reading(standard.to_numpy()[codes])
    read = {name: _written_dates(cells, name) for name in DATES}
    counts = {name: int(moments.notna().to_numpy()[codes].sum()) for name, moments in read.items()}
    best = max(counts, key=lambda name: counts[name])
    if counts[best] < _CLEAR * len(codes):
        return Reading(standard.to_numpy()[codes])
    return Reading(read[best].to_numpy()[codes], f"with the {best}", len(set(counts.values())) == 1, best)


def dates_as(words: pandas.Series, spelling: str) -> np.ndarray:
    """Cells of text as moments, by a known pattern, or by the standard one; NaT where a cell does not read so."""
    cells = words.astype(object)
    standard = _moments(cells)
    return (standard.fillna(_written_dates(cells, spelling)) if spelling else standard).to_numpy()


def _written_dates(cells: pandas.Series, name: str) -> pandas.Series:
    day, month = DATES[name]
    parts = cells.str.strip().str.extract(f"^{_DATE}$")
    text = parts["year"] + "-" + parts[month].str.zfill(2) + "-" + parts[day].str.zfill(2)
    found = _moments(text + " " + parts["clock"].fillna("0:00").str.zfill(5))
    # nobody puts points between a month and the day behind it
    return found.where((parts["mark"] != ".").to_numpy()) if month == "first" else found


def _moments(cells: pandas.Series) -> pandas.Series:
    found = pandas.to_datetime(cells, format="ISO8601", errors="coerce", utc=True)
    return found.dt.tz_localize(None)
