"""Items that belong to lists: sums and maxima over each list, without padding.

Every form in which lists arrive (padded rows with a mask, ids, offsets, sizes) becomes one: flat items and a
:class:`Groups`. Where values may be looked at (NumPy, PyTorch on CPUs, JAX outside of traces) the items of a list are
neighbours and masked ones are gone, so that all forms of the same lists are the same arrays. Elsewhere sizes must not
depend on values: items stay where they are, and masked ones count for nothing. A sum over a list depends on its items
and their order alone, not on what stands between or behind them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from selmatch.arrays import pytrees
from selmatch.arrays.namespaces import NumPy
from selmatch.columns import to_numpy
from selmatch.functions import minimum, namespace_of, where
from selmatch.parameters import LEAF

Array = Any


@dataclass(frozen=True, eq=False)
class Groups:
    """Which list each item belongs to.

    Attributes
    ----------
    ids : array of integers
        The list of each item, from 0 to count - 1; in NumPy ascending.
    count : int
        The number of lists; lists may be empty.
    present : boolean array or None
        Which items count; None in NumPy, and where all do.
    starts : array or None
        In NumPy, where each list starts, and the number of items behind.

    Examples
    --------
    >>> from selmatch.lists import Groups
    >>> lists = Groups.from_sizes(np.array([2, 0, 3]))
    >>> lists.sum(np.array([1.0, 2.0, 3.0, 4.0, 5.0]))
    array([ 3.,  0., 12.])
    >>> lists.spread(np.array([10.0, 20.0, 30.0]))
    array([10., 10., 30., 30., 30.])
    """

    ids: Array
    count: int
    present: Array = None
    starts: Any = field(default=None, repr=False)

    @classmethod
    def from_sizes(cls, sizes: np.ndarray) -> Groups:
        """Lists of NumPy items, one behind the other."""
        starts = np.concatenate([[0], np.cumsum(sizes)])
        return cls(np.repeat(np.arange(len(sizes)), sizes), len(sizes), None, starts)

    def sum(self, x: Array) -> Array:
        """The sum of each list; 0 for an empty one."""
        if self.starts is not None:
            return self._reduced(np.add, x, 0.0)
        space = namespace_of(x)
        x = x if self.present is None else where(self.present, x, 0.0)
        # items are added one after the other, which single precision would feel in long lists
        return space.cast(space.segment_sum(space.double(x), self.ids, self.count), x)

    def max(self, x: Array) -> Array:
        """The maximum of each list, -inf for an empty one; a constant to automatic differentiation.

        Formulas subtract a maximum and add it again, so that no derivative is lost, and ties need none.
        """
        if self.starts is not None:
            return self._reduced(np.maximum, x, -np.inf)
        space = namespace_of(x)
        x = space.constant(x)
        return space.segment_max(x if self.present is None else where(self.present, x, -np.inf), self.ids, self.count)

    def spread(self, values: Array) -> Array:
        """A number of each list, at each of its items."""
        if self.starts is not None:
            return np.repeat(values, np.diff(self.starts))
        return values[self.ids]

    def ends(self, x: Array) -> tuple[Array, Array]:
        """The lowest and the highest number of the own list, at each item."""
        return -self.spread(self.max(-x)), self.spread(self.max(x))

    def sizes(self, like: Array) -> Array:
        """How many items of each list count, in the dtype of ``like``."""
        if self.starts is not None:
            return np.diff(self.starts).astype(like.dtype)
        return self.sum(namespace_of(like).cast(self.ids == self.ids, like))

    def chunks(self, length: int) -> Iterator[tuple[slice, Groups]]:
        """Whole lists of about ``length`` items in all, and where these items stand; NumPy only."""
        first = 0
        while first < self.count:
            last = int(np.searchsorted(self.starts, self.starts[first] + length, side="right")) - 1
            last = min(max(last, first + 1), self.count)
            starts = self.starts[first : last + 1]
            items = slice(int(starts[0]), int(starts[-1]))
            yield items, Groups(self.ids[items] - first, last - first, None, starts - starts[0])
            first = last

    def _reduced(self, ufunc: np.ufunc, x: np.ndarray, empty: float) -> np.ndarray:
        # reduceat would give the next list's first item for an empty list
        filled = np.flatnonzero(np.diff(self.starts))
        if len(filled) == self.count and self.count:
            return ufunc.reduceat(x, self.starts[:-1])
        result = np.full(self.count, empty, dtype=x.dtype)
        if len(filled):
            result[filled] = ufunc.reduceat(x, self.starts[:-1][filled])
        return result


# ----------------------------------------------------------------------------------------- how users say what a list is


@dataclass(frozen=True, eq=False)
class Offsets:
    """Lists by where they start: items ``values[i]`` to ``values[i + 1] - 1`` are list i, as in Arrow and SciPy.

    Parameters
    ----------
    values : array of integers
        From 0 to the number of items, not decreasing; one more than there are lists.

    Examples
    --------
    >>> from selmatch.ranking import Offsets, pointwise
    >>> pointwise([1.0, 2.0, 3.0], [0.0, 0.0, 0.0], Identity(), segments=Offsets([0, 2, 3]), reduction="none")
    array([1.25, 4.5 ])
    """

    values: Any = field(metadata=LEAF)


@dataclass(frozen=True, eq=False)
class Sizes:
    """Lists by their numbers of items, one list behind the other: the ``group`` of LightGBM and XGBoost.

    Parameters
    ----------
    values : array of integers
        Not negative; they add up to the number of items.

    Examples
    --------
    >>> from selmatch.ranking import Sizes, pointwise
    >>> pointwise([1.0, 2.0, 3.0], [0.0, 0.0, 0.0], Identity(), segments=Sizes([2, 1]), reduction="none")
    array([1.25, 4.5 ])
    """

    values: Any = field(metadata=LEAF)


for _cls in (Offsets, Sizes):
    pytrees.announce(_cls)


@dataclass(frozen=True, eq=False)
class Arrangement:
    """Where the items and the lists of a user's array went.

    Attributes
    ----------
    groups : Groups
        The lists of the flat items.
    shape, rows : tuple of int
        Of the user's scores, and of a result with one number per list.
    order : array of integers or None
        Which of the user's items, in one row, are the flat ones; None for all of them as they stand.
    filled : array of integers or None
        Which of the user's lists have items left and are in the groups; None for all of them.
    flaw : array or None
        A number to add to all scores: NaN where traced borders turn out not to fit the items, else 0.
    """

    groups: Groups
    shape: tuple[int, ...]
    rows: tuple[int, ...]
    order: Array = None
    filled: Array = None
    flaw: Array = None

    def items(self, x: Array) -> Array:
        """The user's array as flat items."""
        return _taken(x, self.order)

    def lists(self, x: Array) -> Array:
        """The user's numbers of lists as those of the groups."""
        return _taken(x, self.filled)

    def restored_items(self, items: Array) -> Array:
        """Flat items in the user's form; 0 for items that are gone."""
        return _placed(items, self.order, self.shape)

    def restored_lists(self, values: Array) -> Array:
        """Numbers of the groups in the user's form; 0 for lists without items."""
        return _placed(values, self.filled, self.rows)


def _taken(x: Array, positions: Array) -> Array:
    x = x.reshape(-1)
    return x if positions is None else x[positions]


def _placed(values: Array, positions: Array, shape: tuple[int, ...]) -> Array:
    if positions is not None:
        values = namespace_of(values).placed(values, positions, math.prod(shape))
    return values.reshape(shape)


def arrange(who: str, shape: tuple[int, ...], segments: Any, present: Array, space: type, like: Array) -> Arrangement:
    """Scores of a shape, with or without segments and mask, as flat items; or a clear error."""
    if segments is None:
        width, rows = shape[-1], shape[:-1]
        sizes = np.full(math.prod(rows), width)
        return _arranged(shape, rows, sizes, None, present, space, like, full=width > 0)
    if len(shape) != 1:
        raise ValueError(
            f"{who}: segments must come with flat scores (1 dimension), got scores of shape {shape}. Padded lists need "
            "none: each row is a list."
        )
    count = shape[0]
    if isinstance(segments, (Offsets, Sizes)):
        return _by_borders(who, segments, count, present, space, like)
    ids = _integers(who, "segments", segments, space)
    if tuple(ids.shape) != shape:
        raise ValueError(
            f"{who}: segments must have the id of the list of every item ({count}), got shape {tuple(ids.shape)}. For "
            "borders or sizes of lists say segments=Offsets(...) or Sizes(...)."
        )
    known = _known(ids, space)
    if known is None:
        ranks, lists = space.ranks(ids)  # type: ignore[attr-defined]
        return Arrangement(Groups(ranks, lists, present), shape, (lists,))
    unique, ranks = np.unique(known, return_inverse=True)
    ranks = ranks.reshape(-1)
    order = None if np.all(ranks[1:] >= ranks[:-1]) else np.argsort(ranks, kind="stable")
    sizes = np.bincount(ranks, minlength=len(unique))
    return _arranged(shape, (len(unique),), sizes, order, present, space, like)


def _by_borders(
    who: str, segments: Offsets | Sizes, count: int, present: Array, space: type, like: Array
) -> Arrangement:
    name = type(segments).__name__
    values = _integers(who, name, segments.values, space)
    least = 1 if name == "Offsets" else 0
    if values.ndim != 1:
        raise ValueError(f"{who}: {name} must have 1 dimension, got shape {tuple(values.shape)}.")
    if len(values) < least:
        raise ValueError(f"{who}: Offsets must have one entry more than there are lists, got none. Start with 0.")
    lists = len(values) - least
    known = _known(values, space)
    if known is None:
        return _by_traced_borders(values, name == "Offsets", lists, count, present, space)
    sizes = np.diff(known) if name == "Offsets" else known
    if (sizes < 0).any():
        i = int(np.argmax(sizes < 0))
        what = "not decrease" if name == "Offsets" else "be >= 0"
        raise ValueError(f"{who}: {name} must {what}, got {known[i + least]} at index {i + least}.")
    if name == "Offsets" and (known[0] != 0 or known[-1] != count):
        raise ValueError(
            f"{who}: Offsets must go from 0 to the number of items ({count}), got {known[0]} to {known[-1]}."
        )
    if sizes.sum() != count:
        raise ValueError(f"{who}: Sizes must add up to the number of items ({count}), got {sizes.sum()}.")
    return _arranged((count,), (lists,), sizes, None, present, space, like)


def _by_traced_borders(
    values: Array, offsets: bool, lists: int, count: int, present: Array, space: type
) -> Arrangement:
    """Lists whose borders nobody may look at: those that do not fit make all numbers NaN."""
    ends = values[1:] if offsets else values.cumsum(0)
    if not lists:
        return Arrangement(Groups(space.lists_of(ends, count), lists, present), (count,), (lists,))  # type: ignore[attr-defined]
    sizes = values[1:] - values[:-1] if offsets else values
    first = values[0] if offsets else 0 * ends[0]
    fits = (ends[-1] == count) & (first == 0) & (sizes >= 0).all()
    ids = minimum(space.lists_of(ends, count), lists - 1)  # type: ignore[attr-defined]
    return Arrangement(Groups(ids, lists, present), (count,), (lists,), flaw=where(fits, 0.0, math.nan))


def _integers(who: str, name: str, values: Any, space: type) -> Array:
    """Integers of the library of the scores, or of NumPy, whose arrays serve all."""
    if space is not NumPy and hasattr(values, "dtype") and namespace_of(values) is space:
        kind, array = str(values.dtype).rpartition(".")[2], values
    else:
        array = to_numpy(values)
        kind = str(array.dtype)
    if not kind.startswith(("int", "uint")) and not (isinstance(array, np.ndarray) and array.size == 0):
        raise TypeError(f"{who}: {name} must be integers, got dtype {kind}.")
    # ids above the range of int64 stay as they are: they are only compared
    keeps = not isinstance(array, np.ndarray) or (name == "segments" and array.size)
    return array if keeps else array.astype(np.int64)


def _known(values: Array, space: type) -> np.ndarray | None:
    return values if isinstance(values, np.ndarray) else space.known(values)  # type: ignore[attr-defined]


def _arranged(
    shape: tuple[int, ...],
    rows: tuple[int, ...],
    sizes: np.ndarray,
    order: np.ndarray | None,
    present: Array,
    space: type,
    like: Array,
    full: bool = False,
) -> Arrangement:
    """Lists of known sizes; masked items and empty lists go, where the mask is known too."""
    mask = None if present is None else _known(present, space)
    filled = None
    if present is None or mask is not None:
        if mask is not None:
            mask = mask.reshape(-1) if order is None else mask.reshape(-1)[order]
            kept = np.flatnonzero(mask)
            order = kept if order is None else order[kept]
            sizes = np.bincount(np.repeat(np.arange(len(sizes)), sizes)[kept], minlength=len(sizes))
        # without looking into an array where all rows are full, which torch.compile could not do
        if not (full and mask is None) and not sizes.all():
            filled = np.flatnonzero(sizes)
            sizes = sizes[filled]
    groups = Groups.from_sizes(sizes)
    if space is NumPy:
        return Arrangement(groups, shape, rows, order, filled)
    ids, order, filled = (None if x is None else space.integers(x, like) for x in (groups.ids, order, filled))  # type: ignore[attr-defined]
    flags = None if present is None or mask is not None else _taken(present, order)
    return Arrangement(Groups(ids, groups.count, flags), shape, rows, order, filled)
