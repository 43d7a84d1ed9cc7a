"""Numbers and dates as people write them: 1,234 and 0,53, $12 and 12 %, 31.12.2020."""

from __future__ import annotations

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
    """

    values: np.ndarray
    words: str = ""
    doubtful: bool = False

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
    tried = {
        "": _plain(bare),
        "commas between thousands": _thousands(bare),
        "a comma before the decimals": _decimals(bare),
    }
    counts = {name: int((~np.isnan(values[codes])).sum()) for name, values in tried.items()}
    best = max(counts, key=lambda name: counts[name])  # the first among equals
    if not (best or sign) or counts[best] < _CLEAR * len(codes):
        return Reading(plain[codes])
    said = " and ".join(filter(None, (f"the sign {sign!r}" if sign else "", best)))
    # where each cell has one comma with three digits behind it, nothing tells thousands from decimals
    alike = counts["commas between thousands"] == counts["a comma before the decimals"]
    doubtful = best == "commas between thousands" and alike and bool(commas[codes].all())
    return Reading(tried[best][codes], f"with {said}", doubtful)


def _plain(cells: pandas.Series) -> np.ndarray:
    return np.asarray(pandas.to_numeric(cells, errors="coerce"), dtype=float)


def _without_mark(cells: pandas.Series, codes: np.ndarray) -> tuple[pandas.Series, str]:
    """Cells without a sign of money or of percent, where nearly all of them have the same."""
    marks = cells.str.extract(rf"(?:^[+-]?\s*|\s*)({_MARKS})(?:$|\s*[+-]?[\d.])", expand=False)
    found = marks.dropna().unique()
    if len(found) != 1 or marks.notna().to_numpy()[codes].mean() < _CLEAR:
        return cells, ""
    bare = cells.str.replace(rf"^([+-]?)\s*{_MARKS}\s*", r"\1", regex=True)
    return bare.str.replace(rf"\s*{_MARKS}$", "", regex=True), str(found[0])


def _thousands(cells: pandas.Series) -> np.ndarray:
    fits = cells.str.fullmatch(_THOUSANDS).to_numpy(dtype=bool)
    return np.where(fits, _plain(cells.str.replace(",", "", regex=False)), _plain(cells))


def _decimals(cells: pandas.Series) -> np.ndarray:
    fits = cells.str.fullmatch(_COMMAS).to_numpy(dtype=bool)
    pointed = cells.str.replace(".", "", regex=False).str.replace(",", ".", regex=False)
    return np.where(fits, _plain(pointed), np.nan)


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
    parts = cells.str.strip().str.extract(f"^{_DATE}$")
    read = {}
    for name, day, month in (("day before the month", "first", "second"), ("month before the day", "second", "first")):
        text = parts["year"] + "-" + parts[month].str.zfill(2) + "-" + parts[day].str.zfill(2)
        read[name] = _moments(text + " " + parts["clock"].fillna("0:00").str.zfill(5))
    # nobody puts points between a month and the day behind it
    read["month before the day"] = read["month before the day"].where((parts["mark"] != ".").to_numpy())
    counts = {name: int(moments.notna().to_numpy()[codes].sum()) for name, moments in read.items()}
    best = max(counts, key=lambda name: counts[name])
    if counts[best] < _CLEAR * len(codes):
        return Reading(standard.to_numpy()[codes])
    return Reading(read[best].to_numpy()[codes], f"with the {best}", len(set(counts.values())) == 1)


def _moments(cells: pandas.Series) -> pandas.Series:
    found = pandas.to_datetime(cells, format="ISO8601", errors="coerce", utc=True)
    return found.dt.tz_localize(None)
