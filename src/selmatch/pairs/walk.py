"""Formulas over the items of lists: on whole arrays, or, for a long list in NumPy, piece by piece on all cores.

Pieces fit into a processor's cache. How a list is cut depends on its own length alone, so that a list has the same
sums, bit for bit, whatever other lists come with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import numpy as np

from selmatch.kernels.pool import threads
from selmatch.lists import Groups

Array = Any

#: the number of items that are worked on together in NumPy
PIECE = 2**15
#: lists of more items are cut
LONG = 2**16


class Lists:
    """Lists whose formulas run on whole arrays."""

    def __init__(self, groups: Groups) -> None:
        self.groups = groups

    def run(
        self,
        formula: Callable[..., tuple[Array, ...]],
        items: Sequence[Array],
        values: Sequence[Array] = (),
        *,
        sums: int = 0,
        peaks: int = 0,
    ) -> list[Array]:
        """The results of a formula of items, and of numbers of their lists.

        Of its results the first are summed over each list, the next are its maxima, the others belong to items.
        """
        groups = self.groups
        results = formula(*items, *(groups.spread(value) for value in values))
        summed, highest, rest = results[:sums], results[sums : sums + peaks], results[sums + peaks :]
        return [*map(groups.sum, summed), *map(groups.max, highest), *rest]

    def together(self, *tasks: Callable[[], Any]) -> list[Any]:
        """The results of tasks that do not depend on each other."""
        return [task() for task in tasks]

    def sizes(self, like: Array) -> Array:
        return self.groups.sizes(like)


class LongList(Lists):
    """One list in NumPy, cut into pieces."""

    def __init__(self, groups: Groups, apply: Callable[..., Iterator[Any]] = map) -> None:
        super().__init__(groups)
        self.apply = apply
        self.pieces = [slice(start, start + PIECE) for start in range(0, len(groups.ids), PIECE)]

    def run(self, formula, items, values=(), *, sums=0, peaks=0):
        kept: list[np.ndarray] = []

        def piece(where: slice) -> tuple[list[float], list[float]]:
            with np.errstate(all="ignore"):
                results = formula(*(x[where] for x in items), *values)
            for whole, part in zip(kept, results[sums + peaks :], strict=True):
                whole[where] = part
            return [np.sum(x) for x in results[:sums]], [np.max(x) for x in results[sums : sums + peaks]]

        with np.errstate(all="ignore"):
            width = len(formula(*(x[:1] for x in items), *values)) - sums - peaks
        kept += [np.empty(len(items[0]), dtype=items[0].dtype) for _ in range(width)]
        parts = list(self.apply(piece, self.pieces))
        totals = [np.sum([part[0][i] for part in parts], keepdims=True) for i in range(sums)]
        return [*totals, *(np.max([part[1][i] for part in parts], keepdims=True) for i in range(peaks)), *kept]

    def together(self, *tasks):
        if threads() == 1:
            return [task() for task in tasks]

        def quiet(task: Callable[[], Any]) -> Any:
            with np.errstate(all="ignore"):  # does not reach other threads
                return task()

        # threads of their own: the others must be free to work on pieces
        with workers(len(tasks)) as pool:
            return list(pool.map(quiet, tasks))


def workers(count: int | None = None) -> ThreadPoolExecutor:
    """Threads, as many as kernels use: NumPy lets them compute at the same time.

    They are made for one call: a shared pool could wait for itself, since long lists start tasks within tasks.
    """
    return ThreadPoolExecutor(max_workers=threads() if count is None else count, thread_name_prefix="selmatch")


def over_parts(
    compute: Callable[..., Sequence[Array]], groups: Groups, items: Sequence[np.ndarray], kinds: Sequence[str]
) -> list[np.ndarray]:
    """Results of NumPy items, computed for long lists one by one and for short ones some thousand items at a time.

    ``compute(lists, *items)`` gives an array with a number for each list ("list" in kinds) or item ("item").
    """
    results = [np.zeros(groups.count if kind == "list" else len(groups.ids), dtype=items[0].dtype) for kind in kinds]
    long, short = _parts(groups)
    with workers() if len(groups.ids) > 2 * PIECE and threads() > 1 else nullcontext() as pool:
        apply = map if pool is None else pool.map

        def part(bounds: tuple[slice, slice], made: Callable[[Groups], Lists]) -> None:
            lists, where = bounds
            starts = groups.starts[lists.start : lists.stop + 1]
            inner = Groups(groups.ids[where] - lists.start, len(starts) - 1, None, starts - starts[0])
            with np.errstate(all="ignore"):
                found = compute(made(inner), *(x[where] for x in items))
            for kind, whole, own in zip(kinds, results, found, strict=True):
                whole[lists if kind == "list" else where] = own

        for _ in apply(lambda bounds: part(bounds, Lists), short):
            pass
        for bounds in long:
            part(bounds, lambda inner: LongList(inner, apply))
    return results


def _parts(groups: Groups) -> tuple[list[tuple[slice, slice]], list[tuple[slice, slice]]]:
    """Lists and items of each long list, and of each bundle of short ones."""
    starts = groups.starts
    long, short, first = [], [], 0
    lengthy = [*np.flatnonzero(np.diff(starts) > LONG), groups.count]
    for own in lengthy:
        while first < own:
            last = int(np.searchsorted(starts, starts[first] + PIECE, side="right")) - 1
            last = min(max(last, first + 1), own)
            short.append((slice(first, last), slice(int(starts[first]), int(starts[last]))))
            first = last
        if own < groups.count:
            long.append((slice(own, own + 1), slice(int(starts[own]), int(starts[own + 1]))))
            first = own + 1
    return long, short
