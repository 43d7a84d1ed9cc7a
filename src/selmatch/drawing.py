"""Links that are drawn: the sensitivity as a polygon or a smooth line, the link and its primitive exact."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from selmatch.arrays.bracketing import solve_increasing
from selmatch.curve import Curve, Interval
from selmatch.functions import end, maximum, minimum, sqrt, where
from selmatch.parameters import keep, numbers

Array = Any


class _Piece(NamedTuple):
    """A polynomial piece of the sensitivity; Bernstein coefficients, so that nothing is ever subtracted."""

    low: float
    high: float
    coefficients: tuple[float, ...]

    def clip(self, x: Array) -> Array:
        """x moved into the piece, which owns its upper end and not its lower one: derivatives count once at a knot."""
        if self.low > -math.inf:
            x = where(x <= self.low, self.low, x)
        return where(x > self.high, self.high, x) if self.high < math.inf else x

    def owns(self, x: Array) -> Array:
        return (x > self.low) & (x <= self.high)

    def shares(self, x: Array) -> tuple[Array, Array]:
        """Distances of a point inside from the upper and the lower end, as shares of the piece."""
        width = self.high - self.low
        return (self.high - x) / width, (x - self.low) / width

    def restricted(self, a: Array, b: Array) -> list[Array]:
        """Bernstein coefficients of the same polynomial between two points of the piece."""
        degree = len(self.coefficients) - 1
        if degree == 0:
            return [self.coefficients[0]]
        at_a, at_b = self.shares(a), self.shares(b)
        return [_blossom(self.coefficients, [at_a] * (degree - i) + [at_b] * i) for i in range(degree + 1)]

    def __call__(self, x: Array) -> Array:
        """The sensitivity at a point inside."""
        degree = len(self.coefficients) - 1
        return _blossom(self.coefficients, [self.shares(x)] * degree if degree else [])


def _blossom(coefficients: Sequence[Array], shares: list[tuple[Array, Array]]) -> Array:
    """The polar form of a polynomial: mixtures of neighbouring coefficients, one for each argument."""
    for before, after in shares:
        coefficients = [before * c + after * d for c, d in itertools.pairwise(coefficients)]
    return coefficients[0]


def _weighted(weights: Iterator[float], values: Sequence[Array]) -> Array:
    return sum((w * v for w, v in zip(weights, values, strict=False)), 0.0)


class _Move(NamedTuple):
    """The part of a move that lies in one piece: its length, the way from its end to the move's, the sensitivity."""

    step: Array
    beyond: Array
    coefficients: list[Array]

    @property
    def difference(self) -> Array:
        """The integral of the sensitivity."""
        count = len(self.coefficients)
        return self.step * _weighted(itertools.repeat(1.0 / count), self.coefficients)

    @property
    def remainder(self) -> Array:
        """The integral of the sensitivity times the distance to the end of the whole move."""
        count = len(self.coefficients)
        falling = ((count - i) / (count * (count + 1)) for i in range(count))
        return self.step * (self.step * _weighted(falling, self.coefficients)) + self.beyond * self.difference


def _pieces(knots: tuple[float, ...], values: tuple[float, ...], smooth: bool) -> tuple[_Piece, ...]:
    """The sensitivity from left to right, with the constant pieces beyond the outer knots."""
    rises = _rises(knots, values) if smooth else (0.0,) * len(knots)
    inner = []
    for i, ((a, b), (p, q)) in enumerate(zip(itertools.pairwise(knots), itertools.pairwise(values), strict=True)):
        if a == b:
            continue
        coefficients = (p, q)
        if smooth:
            low, high, third = min(p, q), max(p, q), (b - a) / 3.0
            controls = (p + third * rises[i], q - third * rises[i + 1])
            coefficients = (p, *(min(max(c, low), high) for c in controls), q)
        inner.append(_Piece(a, b, (p,) if p == q else coefficients))
    return _Piece(-math.inf, knots[0], values[:1]), *inner, _Piece(knots[-1], math.inf, values[-1:])


def _rises(knots: tuple[float, ...], values: tuple[float, ...]) -> tuple[float, ...]:
    """Derivatives at the knots that keep a cubic monotone: a harmonic mean, 0 at summits, jumps and outer knots."""
    rises = [0.0] * len(knots)
    for i in range(1, len(knots) - 1):
        before, after = knots[i] - knots[i - 1], knots[i + 1] - knots[i]
        if before == 0.0 or after == 0.0:
            continue
        left, right = (values[i] - values[i - 1]) / before, (values[i + 1] - values[i]) / after
        if left * right > 0.0:
            weights = (2.0 * after + before, after + 2.0 * before)
            rises[i] = (weights[0] + weights[1]) / (weights[0] / left + weights[1] / right)
    return tuple(rises)


@dataclass(frozen=True)
class FromSensitivity(Curve):
    r"""A link drawn by its sensitivity: say how much accuracy matters at some scores, get the loss exactly.

    .. math:: h(z) = \int_0^z h', \qquad H(z) = \int_0^z h

    The sensitivity h' runs from knot to knot in straight lines, or smoothly, and stays constant beyond the outer
    knots. :func:`selmatch.design.focus` draws one from words and data.

    Parameters
    ----------
    knots : sequence of float
        Scores, in ascending order, at least two. A score that appears twice is a jump of the sensitivity.
    values : sequence of float
        The sensitivity at each knot, >= 0 and not all 0. At a jump the larger of the two values holds.
    smooth : bool
        Whether monotone cubics replace the straight lines; the sensitivity then has no corners (but keeps its jumps),
        and still stays between the values of neighbouring knots.

    Examples
    --------
    >>> from selmatch.drawing import FromSensitivity
    >>> link = FromSensitivity(knots=(0.0, 2.0, 5.0), values=(0.1, 1.0, 0.4))
    >>> link.slope(np.array([-3.0, 1.0, 2.0, 9.0]))
    array([0.1 , 0.55, 1.  , 0.4 ])
    >>> round(MatchingLoss(link)(2.0, 0.0), 12)
    0.8
    """

    knots: tuple[float, ...]
    values: tuple[float, ...]
    smooth: bool = False

    increasing = True

    def __post_init__(self):
        who = type(self).__name__
        knots, values = numbers(who, "knots", self.knots), numbers(who, "values", self.values, at_least=0.0)
        if len(knots) < 2:
            raise ValueError(f"{who}: knots must have at least 2 entries, got {len(knots)}.")
        if len(values) != len(knots):
            raise ValueError(f"{who}: values must have one entry per knot ({len(knots)}), got {len(values)}.")
        for a, b in itertools.pairwise(knots):
            if a > b:
                raise ValueError(f"{who}: knots must not decrease, got {b} after {a}. Sort them with their values.")
        for a, b in zip(knots, knots[2:], strict=False):
            if a == b:
                raise ValueError(f"{who}: knots must not repeat more than once, got {a} three times.")
        if not any(values):
            raise ValueError(f"{who}: values must not all be 0, got no sensitivity anywhere.")
        reach = max(knots[-1] - knots[0], *map(math.fabs, knots))
        if not math.isfinite(max(values) * reach * reach):
            raise ValueError(f"{who}: values times squared knots must be finite, got {max(values)} and {reach}.")
        keep(self, knots=knots, values=values, smooth=bool(self.smooth))
        keep(self, _made=_pieces(self.knots, self.values, self.smooth))

    @property
    def _drawn(self) -> tuple[_Piece, ...]:
        # JAX rebuilds without the constructor
        return self.__dict__.get("_made") or _pieces(self.knots, self.values, self.smooth)

    @property
    def range(self):
        return Interval(
            -math.inf if self.values[0] > 0.0 else float(self(self.knots[0])),
            math.inf if self.values[-1] > 0.0 else float(self(self.knots[-1])),
        )

    @property
    def centre(self):
        sums = {Fraction(a) + Fraction(b) for a, b in zip(self.knots, reversed(self.knots), strict=True)}
        middle = float(max(sums) / 2)
        return middle if sums == {2 * Fraction(middle)} and self.values[::-1] == self.values else None

    @property
    def odd(self):
        return self.centre == 0.0

    def flat_regions(self):
        flat = [(piece.low, piece.high) for piece in self._drawn if not any(piece.coefficients)]
        joints = {low for low, _ in flat} & {high for _, high in flat}
        ends = sorted(t for part in flat for t in part if t not in joints)
        return tuple(Interval(low, high) for low, high in zip(ends[::2], ends[1::2], strict=True))

    @property
    def scale(self):
        return min((b - a for a, b in itertools.pairwise(self.knots) if b > a), default=1.0)

    def window(self):
        span = self.knots[-1] - self.knots[0]
        margin = 0.25 * span if span > 0.0 else 1.0
        return self.knots[0] - margin, self.knots[-1] + margin

    def point(self):
        return 0.5 * (self.knots[0] + self.knots[-1])

    # --------------------------------------------------------------------------------------------------- one point

    def __call__(self, x):
        return self.difference(0.0, x, x)

    def primitive(self, x):
        return self.remainder(0.0, x, x)

    def slope(self, x):
        first, *others = self._drawn
        total = first(x) + 0.0 * x
        for before, piece in itertools.pairwise((first, *others)):
            larger = piece.coefficients[0] > before.coefficients[-1]
            inside = minimum(maximum(x, piece.low), piece.high)
            total = where(x >= piece.low if larger else x > piece.low, piece(inside), total)
        return total

    def inverse(self, y):
        if any(len(piece.coefficients) > 2 for piece in self._drawn):
            x = solve_increasing(self, y, Interval(self.knots[0], self.knots[-1]))
            for ray, knot, side in ((self._drawn[0], self.knots[0], -1.0), (self._drawn[-1], self.knots[-1], 1.0)):
                rise = side * (y - float(self(knot)))
                x = where(rise > 0, _Side(knot, side * math.inf, *ray.coefficients * 2).reached(rise), x)
            return x
        x = where(y == 0, y / (self.slope(0.0) or 1.0), 0.0 * y)  # a quotient for its derivative
        for direction in (1.0, -1.0):
            base = 0.0
            for side in self._sides(direction):
                rise = direction * y - base
                x = where(rise > 0, side.reached(rise), x)
                base += side.height
        return x

    def _sides(self, direction: float) -> Iterator[_Side]:
        """The straight pieces on one side of 0, from 0 outwards; those without sensitivity are passed over."""
        for piece in self._drawn if direction > 0 else reversed(self._drawn):
            near, far = (piece.low, piece.high) if direction > 0 else (piece.high, piece.low)
            if direction * far > 0.0 and any(piece.coefficients):
                near = direction * max(direction * near, 0.0)
                at_far = piece.coefficients[-1 if direction > 0 else 0]
                yield _Side(near, far, float(piece(near)), at_far)

    # -------------------------------------------------------------------------------------------------- two points

    def _moves(self, x: Array, u: Array, xh: Array) -> Iterator[_Move]:
        """The parts of a move in each piece; all have the direction of the move, so that sums do not cancel."""
        for piece in self._drawn:
            if any(piece.coefficients):
                a, b = piece.clip(x), piece.clip(xh)
                step = where(piece.owns(x) & piece.owns(xh), u, b - a)
                yield _Move(step, xh - b, piece.restricted(a, b))

    def difference(self, x, u, xh=None):
        return sum(move.difference for move in self._moves(x, u, end(x, u, xh)))

    def remainder(self, x, u, xh=None):
        return sum(move.remainder for move in self._moves(x, u, end(x, u, xh)))

    def remainder_and_difference(self, x, u, xh=None):
        moves = list(self._moves(x, u, end(x, u, xh)))
        return sum(move.remainder for move in moves), sum(move.difference for move in moves)


class _Side(NamedTuple):
    """A piece of linear sensitivity, seen from one of its ends: where does the link reach a given rise?"""

    near: float
    far: float
    at_near: float
    at_far: float

    @property
    def height(self) -> float:
        return 0.5 * (self.at_near + self.at_far) * math.fabs(self.far - self.near)

    def reached(self, rise: Array) -> Array:
        """The score at which the link has risen so much beyond the near end; the far end when it never does."""
        direction = 1.0 if self.far > self.near else -1.0
        if self.height == 0.0 or math.isinf(self.far):
            return self.near + direction * rise / self.at_near if self.at_near > 0.0 else self.near + 0.0 * rise
        largest = max(self.at_near, self.at_far)
        p, q, height = self.at_near / largest, self.at_far / largest, self.height / largest
        reachable = (rise > 0) & (rise <= self.height)
        # a branch that is not taken must have a finite derivative too
        rise_inside = where(reachable, rise, 0.5 * self.height) / largest
        there = sqrt((p * p * (height - rise_inside) + q * q * rise_inside) / height)
        inside = self.near + direction * (2.0 * rise_inside / (p + there))
        return where(rise <= self.height, inside, self.far)
