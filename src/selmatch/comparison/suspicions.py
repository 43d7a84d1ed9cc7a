"""What looks suspicious in a table: copies of the target, of columns and of rows, ids, and numbers for "not known".

Nothing is left out for it. Each finding is a sentence; those about what makes results worthless begin with WARNING.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Sequence

import numpy as np
import pandas

from selmatch.comparison.result import WARNING

#: a correlation, of values or of ranks, above which a column is the target in other words
_LEAK = 0.9999
#: log10 of how improbable an order without exception must be before it is no coincidence
_IMPROBABLE = -9.0
#: rows that a first look takes
_FIRST_LOOK = 2_000
#: share of the rows that may be repetitions without a word, and from which on they are warned of
_FEW_REPEATED, _MANY_REPEATED = 0.001, 0.05
#: an id has at least so many different values
_FEWEST_IDS = 20
_NAMED_ID = re.compile(r"(?:^|[\W_])(?i:id|uuid|guid)$|[a-z]I[dD]$")
#: a number for "not known" is made of nines, or is -1, and stands in so many cells at least
_NINES = re.compile(r"-?9{2,}(?:\.9+)?\Z")
_FEWEST_CELLS, _FEWEST_MINUS_ONES, _SHARE_OF_MINUS_ONES = 2, 5, 0.01
#: between other numbers these are told by how many times as often they occur as an ordinary one
_NINES_AMONG_OTHERS, _TIMES_AS_OFTEN = (-999.0, -9999.0, -99999.0, -999999.0, -999.9, -9999.9), 5
#: beside so many different values, itself included; -1 may be an honest number
_FEWEST_VALUES, _FEWEST_BESIDE_MINUS_ONE = 3, 6


def suspicions(
    names: Sequence[str],
    kinds: Sequence[str],
    matrix: np.ndarray,
    target: np.ndarray,
    scores: np.ndarray,
    *,
    name_of_target: str,
    time: np.ndarray | None = None,
    grouped: bool = False,
) -> list[str]:
    """What to know before results are believed, a sentence each.

    Parameters
    ----------
    names, kinds : sequence of str
        Of the features; "number", "category" or "date".
    matrix : array of shape (rows, features)
        Numbers and codes of categories; NaN is missing.
    target, scores : array of float
        What is predicted, and the score that stands for it.
    name_of_target : str
        Its column.
    time : array of float, optional
        Rows at different times are different rows.
    grouped : bool
        Whether there is a group already.
    """
    found = []
    if number := _for_nothing(target):
        found.append(
            f"{WARNING}the target column {name_of_target!r} has the number {number}. It counts as that number; rows "
            "with an empty target would be left out."
        )
    for name, kind, column in zip(names, kinds, matrix.T, strict=True):
        if how := _copies(column, kind, target, scores):
            found.append(
                f"{WARNING}column {name!r} is the target in other words ({how}). It is used, but no comparison means "
                "anything with it; drop it unless it is known before the target is."
            )
    found += _same_rows(matrix, target, time, grouped)
    found += _same_columns(names, kinds, matrix)
    numbers = {name: matrix[:, i] for i, (name, kind) in enumerate(zip(names, kinds, strict=True)) if kind == "number"}
    if ids := [f"{name!r} ({why})" for name, column in numbers.items() if (why := _id(name, column))]:
        found.append(
            f"Columns that look like ids or counters, whose size means nothing: {_some(ids)}. They are used as "
            "numbers. Drop what is an id; name it as the group if rows with the same id belong together, and as the "
            "time if it is one."
        )
    if unknown := [f"{name!r} ({number})" for name, column in numbers.items() if (number := _for_nothing(column))]:
        found.append(
            f"Columns with a number that may stand for unknown values: {_some(unknown)}. It counts as that "
            "number; write empty cells where a value is missing."
        )
    return found


def _some(words: Sequence[str], most: int = 8) -> str:
    """The first of many."""
    return ", ".join(words) if len(words) <= most else f"{', '.join(words[:most])} and {len(words) - most} more"


# --------------------------------------------------------------------------------------------- copies of the target


def _copies(column: np.ndarray, kind: str, target: np.ndarray, scores: np.ndarray) -> str:
    """How a column says what the target is; empty if it does not."""
    present = np.isfinite(column)
    if present.sum() < 3:
        return ""
    x, y = column[present], target[present]
    if kind != "category" and any(_correlation(x, z[present]) > _LEAK for z in (target, scores)):
        if _of_ranks(x, y) > 0.9:  # a single row far out can make the other one
            return f"correlation above {_LEAK}"
    step = max(1, len(x) // _FIRST_LOOK)
    if kind == "category":
        means = np.bincount(x.astype(int), weights=y) / np.maximum(1, np.bincount(x.astype(int)))
        x = means[x.astype(int)]
    for sign, word in ((1.0, "rises"), (-1.0, "falls")):
        if _never_against(sign * x[::step], y[::step]) and _never_against(sign * x, y):
            choices = math.lgamma(len(np.unique(x)) + 1.0) if kind == "category" else math.log(2.0)
            if (_log_chance(x, y) + choices) / math.log(10.0) < _IMPROBABLE:
                return "each category has targets of its own" if kind == "category" else f"it {word} with the target"
    if kind != "category" and _of_ranks(x[::step], y[::step]) > 0.999 and _of_ranks(x, y) > _LEAK:
        return f"correlation of the ranks above {_LEAK}"
    return ""


def _correlation(x: np.ndarray, y: np.ndarray) -> float:
    with np.errstate(all="ignore"):
        x, y = x - x.mean(), y - y.mean()
        size = float(np.sqrt(x @ x) * np.sqrt(y @ y))
        return abs(float(x @ y)) / size if 0.0 < size < np.inf else 0.0


def _of_ranks(x: np.ndarray, y: np.ndarray) -> float:
    return _correlation(*(pandas.Series(values).rank().to_numpy() for values in (x, y)))


def _never_against(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether no two rows are ordered one way by x and the other way by y."""
    return bool((np.diff(x[np.lexsort((x, y))]) >= 0.0).all())


def _log_chance(x: np.ndarray, y: np.ndarray) -> float:
    """The logarithm of the chance that a random order of x never goes against y.

    Values that occur often leave one table of counts with that property, whose chance is hypergeometric.
    """
    x, y = (np.unique(values, return_inverse=True)[1] for values in (x, y))
    pairs = np.unique(x * (int(y.max()) + 1) + y, return_counts=True)[1]
    factorial = np.cumsum(np.log(np.arange(1, len(x) + 1)))
    inside, both = (factorial[np.bincount(values) - 1].sum() for values in (x, y)), factorial[pairs - 1].sum()
    return float(sum(inside) - both - factorial[-1])


# ------------------------------------------------------------------------------------------------ repeated in the table


def _same_columns(names: Sequence[str], kinds: Sequence[str], matrix: np.ndarray) -> list[str]:
    found: dict[tuple[bool, bytes], list[str]] = {}
    for name, kind, column in zip(names, kinds, matrix.T, strict=True):
        category = kind == "category"
        # categories are the same whatever they are called; adding 0 makes -0 a plain 0
        values = pandas.factorize(column)[0] if category else np.where(np.isnan(column), np.nan, column) + 0.0
        digest = hashlib.blake2b(np.ascontiguousarray(values).tobytes(), digest_size=16).digest()
        found.setdefault((category, digest), []).append(name)
    same = [" = ".join(map(repr, group)) for group in found.values() if len(group) > 1]
    if not same:
        return []
    return [f"Columns with the same values: {_some(same)}. They are used, but all except one of each say nothing new."]


def _same_rows(matrix: np.ndarray, target: np.ndarray, time: np.ndarray | None, grouped: bool) -> list[str]:
    features = _marks(matrix.T)
    rows = len(target)
    if len(np.unique(features)) < 0.5 * rows:  # so few different rows that they meet without being copies
        return []
    whole = _marks([target] if time is None else [target, time], features)
    repeated = rows - len(np.unique(whole))
    if repeated < max(1.0, _FEW_REPEATED * rows):
        return []
    remedy = "" if grouped else ", or name a column whose rows stay together as the group"
    words = (
        f"{repeated:,} of {rows:,} rows {'has' if repeated == 1 else 'have'} the same features and the same target as "
        f"another row. Copies of trained rows among the tested ones make every number too good; remove them{remedy}."
    )
    return [f"{WARNING}{words}" if repeated >= _MANY_REPEATED * rows else words]


def _marks(columns: Iterable[np.ndarray], start: np.ndarray | None = None) -> np.ndarray:
    """A number for each row that two different rows hardly ever share (the mixer of SplitMix64)."""
    marks = np.uint64(0) if start is None else start
    for column in columns:
        bits = (np.where(np.isnan(column), np.nan, column) + 0.0).view(np.uint64)  # one NaN, and one zero
        marks = np.atleast_1d(marks) * np.uint64(0x9E3779B97F4A7C15) + bits
        marks = (marks ^ (marks >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        marks = (marks ^ (marks >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(marks)


# ------------------------------------------------------------------------------------------------------- single columns


def _id(name: str, column: np.ndarray) -> str:
    """Why whole numbers look like names of rows; empty if they do not."""
    values = column[~np.isnan(column)]
    if len(values) < _FEWEST_IDS or not (values == np.rint(values)).all():
        return ""
    different, rows = np.unique(values), len(values)
    if len(different) < _FEWEST_IDS:
        return ""
    steps, span = np.diff(values), float(different[-1] - different[0])
    if (steps > 0.0).all() or (steps < 0.0).all():
        return f"{'rises' if steps[0] > 0.0 else 'falls'} from row to row"
    alone = len(different) == rows == len(column)
    if alone and (span < 2.0 * rows or (span > 1000.0 * rows and _evenly_spread(different))):
        return "another whole number in each row"
    return f"by its name; {len(different):,} different whole numbers" if _NAMED_ID.search(name) else ""


def _evenly_spread(ordered: np.ndarray) -> bool:
    """Whether numbers fill their range as draws would that know no size, such as hashes (Kolmogorov and Smirnov)."""
    places = (ordered - ordered[0]) / (ordered[-1] - ordered[0])
    return bool(np.abs(places - np.linspace(0.0, 1.0, len(places))).max() < 1.95 / math.sqrt(len(places)))


def _for_nothing(column: np.ndarray) -> str:
    """The number of a column that is usual for "not known", and why; empty if there is none."""
    values, counts = np.unique(column[np.isfinite(column)], return_counts=True)
    if len(values) < _FEWEST_VALUES:
        return ""
    for end, neighbour, others in ((0, 1, values[1:]), (-1, -2, values[:-1])):
        value, cells = float(values[end]), int(counts[end])
        gap, spread = abs(value - float(values[neighbour])), float(others[-1] - others[0])
        told = f"{value:.10g} in {cells:,} cells"
        if value == -1.0 and others[0] >= 0.0 and (others == np.rint(others)).all():
            usual = cells >= max(_FEWEST_MINUS_ONES, _SHARE_OF_MINUS_ONES * len(column)) and cells > counts[neighbour]
            if usual and len(values) >= _FEWEST_BESIDE_MINUS_ONE:  # the tail of whole numbers becomes thinner
                return f"{told}, beside whole numbers from 0 on"
        elif _NINES.match(f"{value:.10g}") and cells >= _FEWEST_CELLS:
            if gap > (0.1 if value < 0.0 <= others[0] else 0.5) * spread:
                return f"{told}, far from all others"
    fewest = max(_FEWEST_MINUS_ONES, _SHARE_OF_MINUS_ONES * len(column), _TIMES_AS_OFTEN * float(np.median(counts)))
    for i in np.flatnonzero((counts >= fewest) & np.isin(values, _NINES_AMONG_OTHERS)):
        return f"{values[i]:.10g} in {counts[i]:,} cells, far more often than others"
    return ""
