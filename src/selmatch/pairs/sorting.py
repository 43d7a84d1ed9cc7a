"""Sums over pairs by sorting, for piecewise polynomial links: n log n time, linear memory.

In a sorted list, the partners of an item whose differences fall into one piece of the link are neighbours. Their sum is
a polynomial whose coefficients are differences of prefix sums of powers, taken about an item nearby.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from selmatch.functions import maximum, minimum, namespace_of, where
from selmatch.pairs.layout import Layout
from selmatch.pairs.libraries import placed, tools_of
from selmatch.pairs.odd import HalfLine
from selmatch.pairs.walk import Lists, LongList

Array = Any

#: by what factor sums of powers may exceed their differences
CANCELLATION = 1e3
#: how many numbers are added one after the other in a long list
ROW = 512


class Sorted:
    """Scores of lists that stand together, sorted within each."""

    def __init__(self, z: Array, layout: Layout) -> None:
        self.layout, self.tools = layout, tools_of(z)
        order = self.tools.stable_order(z)
        self.order = order[self.tools.stable_order(layout.start[order])]
        self.z = z[self.order]
        self.here = self.tools.arange(len(z), z)
        #: steps of halving that find a place in the longest list
        longest = layout.longest if self.tools.eager else len(z)
        self.halvings = int(longest).bit_length()

    def centred(self) -> Array:
        """Scores about the middle one of each list."""
        return self.z - self.z[self.layout.start + self.layout.size // 2]

    def prefix(self, x: Array) -> Array:
        """Sums from the start of each list up to each item, by doubling: a sum never meets another list's."""
        position, here = self.layout.position, self.here

        def doubled(i: Any, total: Array) -> Array:
            step = 2**i
            return total + where(position >= step, total[maximum(here - step, 0)], 0.0)

        return self.tools.repeat(doubled, 0, self.halvings, x)

    @staticmethod
    def at(prefix: Array, start: Array, count: Array) -> Array:
        """The sum of the first ``count`` items of the list that starts there."""
        return where(count > 0, prefix[start + maximum(count - 1, 0)], 0.0)

    def below(self, q: Array, included: bool = False) -> Array:
        """How many items of the own list are smaller than q (or equal to it); q must not exceed the own score."""
        start, z = self.layout.start, self.z

        def halved(_: Any, ends: tuple[Array, Array]) -> tuple[Array, Array]:
            low, high = ends
            middle = (low + high) // 2
            other = z[start + middle]
            smaller = (other <= q if included else other < q) & (low < high)
            return where(smaller, middle + 1, low), where(smaller, high, middle)

        # an item itself may count as included
        ends = 0 * self.layout.position, (self.layout.size if included else self.layout.position)
        return self.tools.repeat(halved, 0, self.halvings + 1, ends)[0]

    def above(self, below: Array) -> Array:
        """How many items of the own list do not have the item below them, from the numbers of items that each has."""
        keys = self.layout.start + below
        return self.tools.cumsum(self.tools.count_each(keys, len(self.here) + 1))[:-1] - self.layout.start

    def borders(self, t: float) -> tuple[Array, Array]:
        """How many items of the own list are further below than t, and how many are not further above."""
        below = self.below(self.z - t)
        return below, self.above(below)

    def exactly(self, t: float, below: Array, above: Array) -> Array:
        """How many items are exactly t below, minus how many are exactly t above."""
        included = self.below(self.z - t, included=True)
        return (included - below) - (above - self.above(included))

    def is_narrow(self, y: Array, width: float, degree: int) -> bool:
        """Whether powers of all centred scores are known not to cancel in pieces of this width."""
        return False

    def restored(self, x: Array) -> Array:
        """Sorted items in the layout's order."""
        return placed(x, self.order)


class SortedLong(Sorted):
    """One long list in NumPy, with the library's own functions."""

    def __init__(self, z: np.ndarray, layout: Layout) -> None:
        self.layout, self.tools = layout, tools_of(z)
        self.order = np.argsort(z)
        self.z = z[self.order]
        self.here = np.arange(len(z))

    def prefix(self, x):
        rows = -(-len(x) // ROW)
        table = np.zeros((rows, ROW), dtype=x.dtype)
        table.reshape(-1)[: len(x)] = x
        np.cumsum(table, axis=1, out=table)
        table[1:] += np.cumsum(table[:-1, -1])[:, None]
        return np.concatenate([[0.0], table.reshape(-1)[: len(x)]])

    @staticmethod
    def at(prefix, start, count):
        return prefix[count]

    def is_narrow(self, y, width, degree):
        return max(-y[0], y[-1]) ** degree <= CANCELLATION * width**degree

    def below(self, q, included=False):
        return np.searchsorted(self.z, q, side="right" if included else "left")


class Cells(NamedTuple):
    """Sorted lists cut into cells a little wider than the bounded pieces of the link reach.

    Sums of powers about a cell's first item do not cancel, however wide the list is; the partners of an item in the
    bounded pieces lie in its own cell and in the neighbours of that.
    """

    #: places in the own list where the own cell starts, and where the next one does
    start: Array
    stop: Array
    #: the distances of an item from the first items of its own cell, of the one before and of the one behind
    own: Array
    before: Array
    behind: Array

    @classmethod
    def of(cls, items: Sorted, width: float) -> Cells:
        z, start, position = items.z, items.layout.start, items.layout.position
        number = (z - z[start]) / (1.001 * width)
        number = number - number % 1.0
        same = (number == number[maximum(items.here - 1, 0)]) & (position > 0)
        index = items.tools.cumsum(where(same, 0 * position, 1 + 0 * position)) - 1
        sizes = items.tools.count_each(index, len(items.here))
        stops = items.tools.cumsum(sizes)
        first, last = (stops - sizes)[index], stops[index]
        previous = first[maximum(first - 1, 0)]
        following = minimum(last, len(items.here) - 1)
        return cls(first - start, last - start, z - z[first], z - z[previous], z - z[following])


def energy_and_force(pieces: HalfLine, lists: Lists, layout: Layout, z: Array, need: tuple[str, ...]) -> list[Array]:
    """For scores z of lists that stand together, and h the odd link with primitive H: the sum of H over the ordered
    pairs of each list; twice the sum of h(z_i - z_j) over j, and twice that of h', for each item.
    """
    items = (SortedLong if isinstance(lists, LongList) else Sorted)(z, layout)
    *bounded, last = [len(p) - 1 for p in (pieces.primitive if "value" in need else pieces.link)]
    y = items.centred()
    if bounded and not items.is_narrow(y, pieces.breaks[-1], max(bounded)):
        cells = Cells.of(items, pieces.breaks[-1])
        local = _power_sums(items, cells.own, max(bounded))
    else:
        cells, local, last = (), None, max(last, *bounded, 0)
    powers = _power_sums(items, y, last)
    borders = [items.borders(t) for t in pieces.breaks]
    exact = [items.exactly(t, *borders[k]) for k, t in enumerate(pieces.breaks) if pieces.excess[k]]

    def formula(y: Array, start: Array, size: Array, *others: Array) -> tuple[Array, ...]:
        cut, inner = len(pieces.breaks), others[: len(cells)]
        below, above = others[len(cells) :][:cut], others[len(cells) + cut :][:cut]
        counts = others[len(cells) + 2 * cut :]
        sums = _Sums(items, start)
        partners = _Partners(pieces.breaks)
        for k, t in enumerate(pieces.breaks[:-1]):
            if local is None:
                partners.add_narrow(sums, powers, k, y, below, above)
            else:
                partners.add_bounded(sums, local, k, t, below, above, Cells(*inner))
        partners.add_last(sums, powers, y, below[-1], above[-1], size)
        return _results(pieces, need, partners, counts, above[0] - below[0] - 1)

    arrays = (*cells, *(below for below, _ in borders), *(above for _, above in borders), *exact)
    found = iter(lists.run(formula, (y, layout.start, layout.size, *arrays), sums=int("value" in need)))
    value = next(found) if "value" in need else None
    return [value, *(items.restored(next(found)) if name in need else None for name in ("gradient", "newton"))]


def _results(
    pieces: HalfLine, need: tuple[str, ...], partners: _Partners, exact: tuple[Array, ...], ties: Array
) -> tuple[Array, ...]:
    results = []
    if "value" in need:
        results.append(2.0 * partners.below(pieces.primitive))
    if "gradient" in need:
        force = partners.below(pieces.link) - partners.above(pieces.link)
        jumps = (e for e in pieces.excess if e)
        results.append(2.0 * sum((e * count for e, count in zip(jumps, exact, strict=True)), force))
    if "newton" in need:
        slopes = tuple(tuple(r * c for r, c in enumerate(p))[1:] for p in pieces.link)
        bend = partners.below(slopes) + partners.above(slopes)
        results.append(2.0 * (bend + sum(slopes[0][:1]) * ties))
    return tuple(results)


def _power_sums(items: Sorted, y: Array, degree: int) -> list[Array]:
    """Prefix sums of the powers of y, from the first one on."""
    result, power = [], y
    for k in range(degree):
        power = power * y if k else y
        result.append(items.prefix(power))
    return result


class _Sums:
    """Sums of powers between places of the own list; neighbouring pieces share a place."""

    def __init__(self, items: Sorted, start: Array) -> None:
        self.items, self.start = items, start
        self._found: dict[tuple[int, int], tuple[Array, Array, Array]] = {}

    def _at(self, prefix: Array, count: Array) -> Array:
        key = id(prefix), id(count)
        if key not in self._found:  # with the keys themselves, whose addresses must not be used again
            self._found[key] = self.items.at(prefix, self.start, count), prefix, count
        return self._found[key][0]

    def between(self, powers: list[Array], low: Array, high: Array, like: Array) -> list[Array]:
        count = namespace_of(like).cast(high - low, like)
        return [count, *(self._at(p, high) - self._at(p, low) for p in powers)]


class _Partners:
    """The partners of each item whose differences fall into each piece: sums of powers, and the item's own score."""

    def __init__(self, breaks: tuple[float, ...]) -> None:
        self.lower: list[list[tuple[list[Array], Array]]] = [[] for _ in breaks]
        self.upper: list[list[tuple[list[Array], Array]]] = [[] for _ in breaks]
        self.breaks = breaks

    def add_bounded(
        self, sums: _Sums, powers: list[Array], k: int, t: float, below: Any, above: Any, cells: Cells
    ) -> None:
        """Those in a bounded piece, by the cells in which they are."""
        start, stop = cells.start, cells.stop
        low, high = below[k + 1], below[k]
        own = sums.between(powers, maximum(low, start), maximum(high, start), cells.own)
        before = sums.between(powers, minimum(low, start), minimum(high, start), cells.own)
        self.lower[k] = [(own, cells.own - t), (before, cells.before - t)]
        low, high = above[k], above[k + 1]
        own = sums.between(powers, minimum(low, stop), minimum(high, stop), cells.own)
        behind = sums.between(powers, maximum(low, stop), maximum(high, stop), cells.own)
        self.upper[k] = [(own, cells.own + t), (behind, cells.behind + t)]

    def add_narrow(self, sums: _Sums, powers: list[Array], k: int, y: Array, below: Any, above: Any) -> None:
        """Those in a bounded piece, where no cells are needed."""
        t = self.breaks[k]
        self.lower[k] = [(sums.between(powers, below[k + 1], below[k], y), y - t)]
        self.upper[k] = [(sums.between(powers, above[k], above[k + 1], y), y + t)]

    def add_last(self, sums: _Sums, powers: list[Array], y: Array, below: Array, above: Array, size: Array) -> None:
        """Those further away than all breaks."""
        t = self.breaks[-1]
        self.lower[-1] = [(sums.between(powers, 0 * below, below, y), y - t)]
        self.upper[-1] = [(sums.between(powers, above, size, y), y + t)]

    def below(self, polynomials: tuple[tuple[float, ...], ...]) -> Array:
        """The sum of piecewise polynomials of the differences to the partners below."""
        return sum(_summed(p, *part) for p, parts in zip(polynomials, self.lower, strict=True) for part in parts)

    def above(self, polynomials: tuple[tuple[float, ...], ...]) -> Array:
        """The same for the partners above, whose differences are taken the other way round."""
        mirrored = (tuple(c * (-1.0) ** k for k, c in enumerate(p)) for p in polynomials)
        return sum(_summed(p, *part) for p, parts in zip(mirrored, self.upper, strict=True) for part in parts)


def _summed(coefficients: tuple[float, ...], sums: list[Array], w: Array) -> Array:
    """The sum of p(w - y) over partners y with these sums of powers."""
    total = 0.0 * w
    for m in reversed(range(len(coefficients))):
        total = total * w if m + 1 < len(coefficients) else total
        for r in range(m, len(coefficients)):
            if coefficients[r]:
                total = total + (coefficients[r] * math.comb(r, m) * (-1.0) ** (r - m)) * sums[r - m]
    return total
