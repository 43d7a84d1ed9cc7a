"""Where the items of each list stand, when lists are neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from selmatch.functions import where
from selmatch.lists import Groups
from selmatch.pairs.libraries import placed, tools_of

Array = Any


@dataclass(frozen=True)
class Layout:
    """Items reordered so that each list stands together.

    Attributes
    ----------
    groups : Groups
        The lists of the items: in the new order, except where long NumPy lists come first, and sums over lists are
        taken after :meth:`restored`.
    order : array of integers or None
        Which items stand where; None for all as they are.
    start, position, size : arrays of integers
        For each item in the new order: where its list starts, its place in the list, and the length of the list.
        An item that does not count is a list of its own.
    longest : int, or an array inside a trace
        The length of the longest list.
    """

    groups: Groups
    order: Array
    start: Array
    position: Array
    size: Array
    longest: Any

    def arranged(self, x: Array) -> Array:
        """Items in the new order."""
        return x if self.order is None else x[self.order]

    def restored(self, x: Array) -> Array:
        """Items in the order of the user."""
        return x if self.order is None else placed(x, self.order)


def layout_of(groups: Groups, like: Array, falling: bool = False) -> Layout:
    """The layout of lists; with ``falling``, in NumPy long lists come first."""
    if groups.starts is not None:
        return _of_borders(groups, falling)
    tools = tools_of(like)
    here = tools.arange(len(groups.ids), like)
    keys = groups.ids if groups.present is None else where(groups.present, groups.ids, groups.count)
    order = tools.stable_order(keys)
    keys = keys[order]
    sizes = tools.count_each(keys, groups.count + 1)
    start, size = (tools.cumsum(sizes) - sizes)[keys], sizes[keys]
    counts = keys < groups.count
    start, size = where(counts, start, here), where(counts, size, 1 + 0 * size)
    arranged = Groups(groups.ids[order], groups.count, None if groups.present is None else groups.present[order])
    return Layout(arranged, order, start, here - start, size, tools.largest(size))


def _of_borders(groups: Groups, falling: bool) -> Layout:
    sizes, starts, order = np.diff(groups.starts), groups.starts[:-1], None
    if falling and np.any(sizes[1:] > sizes[:-1]):
        lists = np.argsort(-sizes, kind="stable")
        sizes, old_starts = sizes[lists], starts[lists]
        starts = np.cumsum(sizes) - sizes
        order = np.repeat(old_starts - starts, sizes) + np.arange(sizes.sum())
    start, size = np.repeat(starts, sizes), np.repeat(sizes, sizes)
    return Layout(groups, order, start, np.arange(len(start)) - start, size, int(sizes.max(initial=0)))
