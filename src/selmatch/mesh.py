"""The measured mesh of a curve without closed forms: pieces on which Gauss nodes see all that its slope does.

A curve is measured once, by halving pieces until the nodes on a piece agree with those on its halves, and the integral
of the slope with what the curve climbs. Integrals over many pieces are then looked up; :mod:`selmatch.quadrature` adds
the parts of a move that lie in its first and last piece.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from selmatch import functions
from selmatch.functions import abs, maximum, where

if TYPE_CHECKING:
    from selmatch.curve import Curve

Array = Any

_LEGENDRE = np.polynomial.legendre.leggauss(16)
#: Gauss-Legendre nodes in [0, 1], and their weights
NODES, WEIGHTS = (0.5 * (_LEGENDRE[0] + 1.0)).tolist(), (0.5 * _LEGENDRE[1]).tolist()
_SHARES = (
    WEIGHTS,
    [w * (1.0 - t) for t, w in zip(NODES, WEIGHTS, strict=True)],
    [w * t for t, w in zip(NODES, WEIGHTS, strict=True)],
)
#: pieces that a mesh has at most
MOST_PIECES = 4096
#: after so many pieces have been halved only a few are followed further: what no mesh can follow ends soon
_MOST_LOOKS, _FEW = 16 * MOST_PIECES, 64
#: relative error of a piece
PRECISE = 1e-12
#: rounding errors are taken to be this many units of precision
_UNITS = 16.0
#: below it numbers lose their digits
_SMALLEST = 1e-300
#: scores so close to an end of the domain, relative to where they lie, are at that end
_AT_AN_END = 2.0**-40
#: pieces into which the typical scores are cut before anything is known
_FIRST = 32
#: how often the length of the pieces is doubled beyond
_DOUBLINGS = 40
#: how often a place is halved until it is a single float, or next to nothing beside 0
_MOST_BISECTIONS = 128
#: jumps that a curve has at most
_MOST_JUMPS = 64


# ------------------------------------------------------------------------------------------------------- one panel


class Panel(NamedTuple):
    """Integrals of a slope over a move from a by w, and how they compare with the curve itself.

    Attributes
    ----------
    rise : array
        What the curve climbs: from the slope where that is known well enough, else from its values.
    ahead, behind : array
        Integrals of the slope times the distance to the end of the move, and to its start.
    missed : array
        What the nodes have missed of the climb, beyond rounding.
    """

    rise: Array
    ahead: Array
    behind: Array
    missed: Array


def panel(
    slope: Callable[[Array], Array], a: Array, w: Array, here: Array, there: Array, rounded: float = 0.0
) -> Panel:
    """The integrals over a move from a by w of a curve that has the values here and there at its ends.

    ``rounded`` is the size of what has been subtracted from these values.
    """
    space = functions.namespace_of(w)
    across = (..., *(None,) * w.ndim)
    scores = a + functions.like(NODES, w)[across] * w
    slopes = slope(scores)
    slopes = where(slopes == slopes, slopes, 0.0)  # NaN where a formula overflows on the way: its values will tell
    mean, ahead, behind = (functions.layer_sum(functions.like(share, w)[across] * slopes) for share in _SHARES)
    climb, rise, square = there - here, w * mean, functions.square(w)
    size = functions.layer_sum(functions.like(WEIGHTS, w)[across] * abs(scores * slopes))
    rounding = _UNITS * precision(space, w) * (abs(here) + abs(there) + size + rounded)
    gap = abs(rise - climb)
    known = functions.isfinite(climb)
    # where the curve is infinite, only what is negligible may be integrated without a check; where it is NaN, nothing
    unchecked = where(climb == climb, abs(w * ahead) + abs(w * behind), climb)
    missed = where(known, where(gap <= rounding, 0.0 * gap, gap), unchecked)
    return Panel(where((gap <= rounding) | ~known, rise, climb), square * ahead, square * behind, missed)


def precision(space: Any, like: Array) -> float:
    """The spacing of numbers near 1."""
    return 1.2e-7 if space.is_single(like) else 2.3e-16


# ------------------------------------------------------------------------------------------------- kinks and jumps


class Jump(NamedTuple):
    """A jump of a curve: where, how high, and how much of it the value there has climbed."""

    place: float
    height: float
    reached: float

    def level(self, z: Array) -> Array:
        """How much of the jump a score has behind it."""
        above = where(z > self.place, self.height + 0.0 * z, 0.0 * z)
        return where(z == self.place, self.reached + 0.0 * z, above)

    def cost(self, x: Array, u: Array, xh: Array) -> Array:
        """The part of a matching loss that the jump makes."""
        upwards, downwards = self.height * maximum(xh - self.place, 0.0), self.height * maximum(self.place - xh, 0.0)
        here = self.height * maximum(u, 0.0) - self.reached * u
        return where(x < self.place, upwards, where(x > self.place, downwards, here))


def _jump_at(value: Callable[[Array], Array], place: float) -> Jump | None:
    """What the value does at a break: a jump stays as high from a million times nearer, a slope does not."""
    near = 4.0 * math.ulp(place)
    steps = (-(2.0**20) * near, -near, 0.0, near, 2.0**20 * near)
    far_below, below, at, above, far_above = value(place + np.array(steps)).tolist()
    height = above - below
    rounding = 1e-12 * (math.fabs(above) + math.fabs(below))
    if not (
        math.isfinite(height) and math.fabs(height) > max(rounding, 0.5 * math.fabs(far_above - far_below - height))
    ):
        return None
    if math.isfinite(at) and 1e-6 < (at - below) / height < 1.0 - 1e-6:
        return Jump(place, height, at - below)
    return _jump_between(value, place - near, place + near)  # the place may be rounded


def _is_a_pole(curve: Curve, jump: Jump) -> bool:
    """Whether what looks like a jump is what a curve climbs between the last two scores of its domain."""
    ends = (end for end in (curve.domain.low, curve.domain.high) if functions.is_number(end) and math.isfinite(end))
    low, high = curve.window()
    return any(math.fabs(jump.place - end) <= _AT_AN_END * max(math.fabs(end), high - low) for end in ends)


def _jump_between(value: Callable[[Array], Array], a: float, b: float) -> Jump | None:
    """The jump that a curve makes between two scores so close that nothing else can explain what it climbs."""
    low, high = value(np.array([a, b])).tolist()
    climb = high - low
    for _ in range(_MOST_BISECTIONS):
        middle = 0.5 * (a + b)
        if not a < middle < b:
            break
        (at,) = value(np.array([middle])).tolist()
        a, b, low, high = (a, middle, low, at) if math.fabs(at - low) >= math.fabs(high - at) else (middle, b, at, high)
    height = high - low
    if not math.fabs(height) > max(0.5 * math.fabs(climb), 1e-12 * (math.fabs(low) + math.fabs(high))):
        return None
    return Jump(a, height, 0.0)


# -------------------------------------------------------------------------------------------------------- the mesh


class Mesh:
    """Knots between which a curve is smooth for Gauss nodes, its jumps, and its integrals between any two knots.

    Attributes
    ----------
    knots : array
        Where pieces end, in increasing order; none if nothing could be measured.
    jumps : tuple of Jump
        The curve without them is continuous.
    fine : bool
        Whether the pieces follow the curve over all typical scores.
    table : Table or None
        Integrals between knots; None if the numbers of the curve are arrays, which may change.
    """

    def __init__(self, knots: np.ndarray, jumps: tuple[Jump, ...], fine: bool, table: Table | None) -> None:
        self.knots, self.jumps, self.fine, self.table = knots, jumps, fine, table
        #: the sum of the sizes of the jumps
        self.heights = math.fsum(math.fabs(jump.height) for jump in jumps)
        #: the place of the highest binary digit of each number
        self.digits = np.maximum(np.frexp(np.arange(2 ** levels(len(knots))))[1] - 1, 0).astype(np.int64)
        self.layout = Layout.of(knots) if table is None and len(knots) else None
        self._tensors: Any = None
        if "torch" in sys.modules:
            self.tensors()

    def __reduce__(self) -> Any:
        return Mesh, (self.knots, self.jumps, self.fine, self.table)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mesh) or (self.table is None) is not (other.table is None):
            return False
        return self.jumps == other.jumps and np.array_equal(self.knots, other.knots)

    def __hash__(self) -> int:
        return hash((self.jumps, self.knots.tobytes()))

    def tensors(self) -> tuple[Any, Any, Any, Any]:
        """Knots, digits, table and layout as tensors, made before anything is compiled."""
        if self._tensors is None:
            from torch import as_tensor

            table = None if self.table is None else Table(*map(as_tensor, self.table))
            layout = None if self.layout is None else self.layout.mapped(as_tensor, as_tensor)
            self._tensors = as_tensor(self.knots), as_tensor(self.digits), table, layout
        return self._tensors

    def on(self, like: Array) -> tuple[Array, Array, Table | None, Layout | None]:
        """Knots, digits, table and layout as arrays of the library of ``like``."""
        space = functions.namespace_of(like)
        tensors = space.name == "PyTorch"
        knots, digits, table, layout = self.tensors() if tensors else (self.knots, self.digits, self.table, self.layout)

        def number(values: Any) -> Array:
            if tensors:
                return functions.like(values, like)
            with np.errstate(over="ignore"):
                return functions.like(values, like)

        def index(values: Any) -> Array:
            return space.integers(values, like)

        table = None if table is None else Table(*map(number, table))
        return number(knots), index(digits), table, None if layout is None else layout.mapped(number, index)

    @functools.cached_property
    def changeable(self) -> Mesh:
        """The same for other numbers in the curve: finer, since they may make it steeper."""
        if self.table is None or not len(self.knots):
            return self
        return Mesh(_finer(self.knots), self.jumps, self.fine, None)

    def without_jumps(self, z: Array, values: Array) -> Array:
        """The values of the curve at z without its jumps."""
        return values - sum(jump.level(z) for jump in self.jumps) if self.jumps else values


def _finer(knots: np.ndarray) -> np.ndarray:
    """Knots for a curve that may become steeper."""
    if 4 * len(knots) > MOST_PIECES:
        return knots
    parts = knots[:-1, None] + np.diff(knots)[:, None] * np.array([0.0, 0.25, 0.5, 0.75])
    return np.append(parts.reshape(-1), knots[-1:])


class Table(NamedTuple):
    """Integrals between any two knots i <= j without cancellation, as sums from a knot m between them.

    m is the one with most zeros at the end of its binary digits; for each of as many levels as knots have digits, the
    sums from all knots to their m are kept: what the curve climbs, its integrals with the distance to m and to the
    other end, and what the nodes have missed.
    """

    rise: Array
    near: Array
    far: Array
    missed: Array


def levels(count: int) -> int:
    """How many levels the table of so many knots has."""
    return max(count - 1, 1).bit_length()


@functools.lru_cache(maxsize=32)
def _outwards(count: int) -> list[tuple[np.ndarray, ...]]:
    """For each level: the pieces outwards from each m, those before each, sides, m itself, and how knots find them."""
    depth = levels(count)
    size = 2**depth
    nothing, result = size - 1, []  # the last piece is empty
    for level in range(depth):
        half = 2**level
        middles = np.arange(half, size, 2 * half)[:, None]
        below, above = middles - 1 - np.arange(half), middles - 1 + np.arange(half)
        above[:, 0] = nothing
        order = np.stack([below, above], axis=1)
        before = np.concatenate([np.full_like(order[..., :1], nothing), order[..., :-1]], axis=-1)
        left = np.zeros(order.shape, dtype=bool)
        left[:, 0] = True
        reached = np.concatenate([below, middles + np.arange(half)], axis=1).reshape(-1)
        result.append((order, before, left, np.full_like(order, middles[:, :, None]), np.argsort(reached)))
    return result


class Layout(NamedTuple):
    """The pieces of a mesh, as many as a table has: where they start, how wide they are, and what is summed."""

    starts: Array
    widths: Array
    levels: Any

    @classmethod
    def of(cls, knots: np.ndarray) -> Layout:
        """The layout of pieces between knots; those beyond the last knot are empty."""
        starts = np.append(knots, np.full(2 ** levels(len(knots)) - len(knots), knots[-1]))
        return cls(starts, np.append(np.diff(starts), 0.0), _outwards(len(knots)))

    def mapped(self, number: Callable[[Any], Array], index: Callable[[Any], Array]) -> Layout:
        """The same as arrays of another library."""
        placed = tuple(tuple(map(index, indices)) for indices in self.levels)
        return Layout(number(self.starts), number(self.widths), placed)


def table_of(layout: Layout, pieces: Panel) -> Table:
    """The table of the integrals over the pieces of a layout."""
    space = functions.namespace_of(pieces.rise)
    rows: list[tuple[Array, ...]] = []
    for order, before, left, middle, found in layout.levels:
        values = (*pieces, layout.widths, layout.starts)
        rise, ahead, behind, missed, width, start = (space.take(value, order) for value in values)
        below, centre = left != 0, space.take(layout.starts, middle)
        distance = where(width == 0, 0.0 * width, where(below, centre - (start + width), start - centre))
        climbed = space.running_sum(space.take(pieces.rise, before))
        near = where(below, ahead, behind) + distance * rise
        far = where(below, behind, ahead) + width * climbed
        sums = map(space.running_sum, (rise, near, far, missed * width))
        rows.append(tuple(space.take(part, found) for part in sums))
    return Table(*(space.stacked(parts) for parts in zip(*rows, strict=True)))


# ---------------------------------------------------------------------------------------------------------- measuring


class _Numbers(NamedTuple):
    """A curve and its slope as functions of NumPy arrays; plain unless its numbers are arrays of another library."""

    value: Callable[[Array], Array]
    slope: Callable[[Array], Array]
    plain: bool


def _as_numbers(curve: Curve) -> _Numbers | None:
    """The curve on NumPy arrays, in double precision; None if it cannot be computed there."""
    probe = np.array([curve.domain.point()])
    try:
        found = curve(probe)
        if isinstance(found, np.ndarray) and found.dtype == np.float64 and isinstance(curve.slope(probe), np.ndarray):
            return _Numbers(curve, curve.slope, plain=True)
    except Exception:  # a formula may hold tensors, or do anything
        pass
    if "torch" not in sys.modules:
        return None
    import torch

    def through(function: Callable[[Array], Array]) -> Callable[[Array], np.ndarray]:
        return lambda z: function(torch.from_numpy(z)).detach().numpy()

    numbers = _Numbers(through(curve), through(curve.slope), plain=False)
    try:
        return numbers if numbers.value(probe).dtype == np.float64 and numbers.slope(probe).size else None
    except Exception:
        return None


def prepare(instance: Any) -> None:
    """Measure all curves without closed forms that something is made of, before a trace needs that."""
    if isinstance(instance, tuple):
        for part in instance:
            prepare(part)
    elif dataclasses.is_dataclass(instance):
        if getattr(instance, "is_integrated", bool)():
            _ = instance.mesh  # type: ignore[attr-defined]
        for field in dataclasses.fields(instance):
            prepare(getattr(instance, field.name))


def measure(curve: Curve) -> Mesh:
    """The mesh of a curve, and the table of its integrals."""
    try:
        with np.errstate(all="ignore"):
            numbers = _as_numbers(curve)
            if numbers is not None:
                return _measured(curve, numbers)
    except Exception:  # a user's formula may do anything
        pass
    _require_a_formula(curve)
    return Mesh(_unmeasured(curve), (), True, None)


def _require_a_formula(curve: Curve) -> None:
    """Refuse functions of a single library, which have no slope: where neither NumPy nor PyTorch can compute it."""
    scores = np.full(2, curve.domain.point())  # of a single one an if can decide
    probes: list[Any] = [scores]
    if "torch" in sys.modules:
        from torch import as_tensor

        probes.append(as_tensor(scores))
    foreign: list[Exception] = []
    for probe in probes:
        try:
            curve.slope(probe)
        except Exception as error:
            if functions.is_foreign(error):
                foreign.append(error)
    if len(foreign) == len(probes):
        raise foreign[-1]


def _unmeasured(curve: Curve) -> np.ndarray:
    """Knots for a curve whose numbers are not known yet: evenly at first, then further and further apart."""
    domain, step = curve.domain, curve.scale if functions.is_number(curve.scale) else 1.0
    if not functions.is_number(domain.low) or not functions.is_number(domain.high):
        return np.zeros(0)
    point = domain.point()
    away = step * np.concatenate([np.arange(1.0, 33.0), 32.0 * 2.0 ** np.arange(1.0, 12.0)])
    knots = np.concatenate([point - away[::-1], [point], point + away])
    return knots[(knots > domain.low) & (knots < domain.high)]


def _first_knots(curve: Curve) -> np.ndarray:
    """Where to begin: typical scores, what the formula says about itself, and further and further out."""
    domain, (low, high) = curve.domain, curve.window()
    width = min(high - low, 1e300)
    away = width * 2.0 ** np.arange(-1.0, _DOUBLINGS)
    knots = [np.linspace(low, high, _FIRST + 1), curve.places]
    if domain.low < low:
        knots.append(np.maximum(low - away, domain.low))
    if domain.high > high:
        knots.append(np.minimum(high + away, domain.high))
    everywhere = np.unique(np.concatenate(knots))
    return everywhere[(everywhere >= domain.low) & (everywhere <= domain.high) & np.isfinite(everywhere)]


def _measured(curve: Curve, numbers: _Numbers) -> Mesh:
    found = [_jump_at(numbers.value, place) for place in curve.breaks]
    jumps = [jump for jump in found if jump and not _is_a_pole(curve, jump)]
    first = np.unique(np.append(_first_knots(curve), [jump.place for jump in jumps]))
    looks = 0
    while True:
        mesh = Mesh(np.zeros(0), tuple(jumps), True, None)

        def value(z: np.ndarray, mesh: Mesh = mesh) -> np.ndarray:
            return mesh.without_jumps(z, numbers.value(z))

        a, b, pieces, steep, fine, looked = _halved(value, numbers.slope, first, curve, mesh.heights)
        looks += looked
        if not fine and looks > _MOST_LOOKS:
            break
        known = {jump.place for jump in jumps}
        pairs = [(float(a[i]), float(b[i])) for i in steep] if len(jumps) < _MOST_JUMPS else []
        between = [_jump_between(numbers.value, *pair) for pair in pairs]
        new = [jump for jump in between if jump and jump.place not in known and not _is_a_pole(curve, jump)]
        if not new:
            break
        jumps += new
        first = np.unique(np.append(first, [jump.place for jump in new]))
    knots = np.append(a, b[-1:])
    if not len(knots):
        return Mesh(knots, tuple(jumps), fine, None)
    if not numbers.plain:  # they may change
        return Mesh(_finer(knots), tuple(jumps), fine, None)
    layout = Layout.of(knots)
    empty = np.zeros(len(layout.starts) - len(pieces.rise))
    table = table_of(layout, Panel(*(np.append(part, empty) for part in pieces)))
    return Mesh(knots, tuple(jumps), fine, table)


def _halved(
    value: Callable[[Array], Array], slope: Callable[[Array], Array], knots: np.ndarray, curve: Curve, rounded: float
) -> tuple[np.ndarray, np.ndarray, Panel, list[int], bool, int]:
    """Pieces on which the nodes see everything: ends, integrals, which are so steep that they may be jumps.

    They are the connected ones around typical scores. The last answers: whether they cover all of these, and how many
    pieces were looked at.
    """
    low, high = curve.window()
    middle, floor = 0.5 * low + 0.5 * high, 2.0**-60 * min(high - low, 1e300)
    a, b = knots[:-1], knots[1:]
    here, there = value(a), value(b)
    whole = panel(slope, a, b - a, here, there, rounded)
    done: list[tuple[np.ndarray, ...]] = []
    count, fine, looks = 0, True, 0
    while len(a):
        looks += 2 * len(a)
        room = max((MOST_PIECES - count) // 4, 0)
        if looks > _MOST_LOOKS:
            room = min(room, _FEW)
        if count + 2 * len(a) > MOST_PIECES or (looks > _MOST_LOOKS and len(a) > room):  # the nearest are followed
            distance = np.maximum(np.maximum(a - high, low - b), 0.0) + 1e-9 * np.abs(a - middle)
            near = np.sort(np.argsort(distance, kind="stable")[:room])
            fine = fine and len(near) > 0 and not (np.delete(distance, near) < 1e-6 * (high - low)).any()
            a, b, here, there = a[near], b[near], here[near], there[near]
            whole = Panel(*(part[near] for part in whole))
            if not len(a):
                break
        cut = 0.5 * a + 0.5 * b
        at = value(cut)
        pairs = ((a, cut), (cut - a, b - cut), (here, at), (at, there))
        both_halves = panel(slope, *map(np.concatenate, pairs), rounded)
        first, second = (Panel(*part) for part in zip(*(np.split(part, 2) for part in both_halves), strict=True))
        halves = joined(first, second, cut - a, b - cut)
        width, size = b - a, np.maximum(np.abs(a), np.abs(b))
        turn = np.abs(first.rise / (cut - a) - second.rise / (b - cut)) * size
        agrees = agreement(whole, halves, width, turn, np.abs(here) + np.abs(there) + rounded)
        tiny = (width <= 2.0**-46 * size) | (width <= floor)
        known = np.isfinite(halves.rise + halves.ahead + halves.behind + halves.missed)
        lost = np.isnan(here) & np.isnan(at) & np.isnan(there)
        over = (agrees & known) | tiny | lost | (~known & (width <= 2.0**-7 * size))
        kept = [a, b, *halves, agrees, tiny & known & ~agrees, known]
        done.append(tuple(part[over] for part in kept))
        count += int(over.sum())
        both = [(first, a, cut, here, at), (second, cut, b, at, there)]
        a, b, here, there = (np.concatenate([part[i][~over] for part in both]) for i in (1, 2, 3, 4))
        whole = Panel(*(np.concatenate([part[~over] for part in parts]) for parts in zip(first, second, strict=True)))
    parts = [np.concatenate(column) for column in zip(*done, strict=True)]
    order = np.argsort(parts[0])
    a, b, rise, ahead, behind, missed, agrees, steep, known = (part[order] for part in parts)
    start = int(np.argmin(np.where(known, np.abs(0.5 * a + 0.5 * b - middle), np.inf)))
    joint = known[:-1] & known[1:] & (b[:-1] == a[1:])
    after, before = np.flatnonzero(~joint[start:]), np.flatnonzero(~joint[:start])
    stop = start + int(after[0]) + 1 if len(after) else len(a)
    begin = int(before[-1]) + 1 if len(before) else 0
    near = slice(begin, stop if known[start] else begin)
    pieces = Panel(rise[near], ahead[near], behind[near], missed[near])
    return a[near], b[near], pieces, np.flatnonzero(steep[near])[:_MOST_JUMPS].tolist(), fine, looks


def joined(first: Panel, second: Panel, v: Array, w: Array) -> Panel:
    """The integrals over two moves by v and w, one after the other."""
    return Panel(
        first.rise + second.rise,
        first.ahead + w * first.rise + second.ahead,
        first.behind + v * second.rise + second.behind,
        first.missed + second.missed,
    )


def agreement(whole: Panel, halves: Panel, width: Array, turn: Array, values: Array) -> Array:
    """Whether the integrals over a piece agree with those over its halves, up to rounding.

    The slope is rounded where it turns by much, and where it is the difference of terms as large as the values.
    """
    gap = abs(whole.ahead - halves.ahead) + abs(whole.behind - halves.behind)
    size = abs(halves.rise) * width
    rounding = (2.3e-16 * (_UNITS * turn + values) + _SMALLEST) * width
    return (gap <= PRECISE * size + rounding) & (whole.missed <= PRECISE * abs(halves.rise) + _SMALLEST)
