"""Curves made of curves, or of one formula."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from selmatch.arrays.bracketing import solve_increasing
from selmatch.arrays.dual import derivative
from selmatch.curve import Curve, Interval
from selmatch.curves import Constant, Identity, Step, clipped_move
from selmatch.functions import (
    abs,
    apply_formula,
    end,
    is_number,
    log,
    maximum,
    minimum,
    namespace_of,
    reciprocal,
    where,
)
from selmatch.parameters import LEAF, POSITIVE, has_plain_numbers, increasing_numbers, keep, number, parameter

Array = Any


def require_curve(who: str, name: str, value: Any) -> None:
    """Raise unless a value is a curve."""
    if not isinstance(value, Curve):
        hint = f" Try {value.__name__}()." if isinstance(value, type) and issubclass(value, Curve) else ""
        raise TypeError(f"{who}: {name} must be a curve, got {value!r}.{hint}")


@dataclass(frozen=True, repr=False)
class Affine(Curve):
    r"""A curve stretched and shifted: put the sensitive region where the scores are.

    .. math:: h(z) = \text{gain} \cdot g(x), \qquad x = \alpha (z - \beta)

    Usually written ``curve.affine(alpha=..., beta=...)``. The numbers may be PyTorch or JAX scalars, through which
    gradients flow.

    Parameters
    ----------
    curve : Curve
        The curve g.
    alpha : float
        Steepness, > 0.
    beta : float
        Centre.
    gain : float
        Factor in front, > 0. ``gain=1`` is the normalisation of the paper's main text, ``gain=alpha`` the one of its
        composite appendix.

    Examples
    --------
    >>> Affine(Sigmoid(), alpha=2.0, beta=1.5)
    Sigmoid().affine(alpha=2.0, beta=1.5)
    """

    curve: Curve = field(metadata=LEAF)
    alpha: Any = field(default=1.0, metadata=POSITIVE)
    beta: Any = field(default=0.0, metadata=LEAF)
    gain: Any = field(default=1.0, metadata=POSITIVE)

    def __post_init__(self):
        require_curve("Affine", "curve", self.curve)
        keep(
            self,
            alpha=parameter("Affine", "alpha", self.alpha, above=0.0),
            beta=parameter("Affine", "beta", self.beta),
            gain=parameter("Affine", "gain", self.gain, above=0.0),
        )

    def __repr__(self):
        given = [
            f"{name}={value!r}"
            for name, value, default in (("alpha", self.alpha, 1.0), ("beta", self.beta, 0.0), ("gain", self.gain, 1.0))
            if not (is_number(value) and value == default)
        ]
        return f"{self.curve!r}.affine({', '.join(given)})"

    def _x(self, z: Array) -> Array:
        return self.alpha * (z - self.beta)

    def _z(self, x: Array) -> Array:
        return self.beta + x / self.alpha

    @property
    def domain(self):
        d = self.curve.domain
        low, high = (end if is_number(end) and math.isinf(end) else self._z(end) for end in (d.low, d.high))
        return Interval(low, high, d.open_low, d.open_high)

    @property
    def bounded(self):
        return self.curve.bounded

    @property
    def range(self):
        r = self.curve.range
        low, high = (end if is_number(end) and math.isinf(end) else self.gain * end for end in (r.low, r.high))
        return Interval(low, high, r.open_low, r.open_high)

    @property
    def odd(self):
        return self.curve.odd and is_number(self.beta) and self.beta == 0.0

    @property
    def increasing(self):
        return self.curve.increasing

    @property
    def continuous(self):
        return self.curve.continuous

    @property
    def scale(self):
        return self.curve.scale / self.alpha

    @property
    def largest_gamma(self):
        return self.curve.largest_gamma * self.gain / self.alpha

    def holds(self, z, *, interior=False):
        return self.curve.holds(self._x(z), interior=interior)

    def increases_on(self, low, high):
        return self.curve.increases_on(self._x(low), self._x(high))

    @property
    def centre(self):
        centre = self.curve.centre
        return None if centre is None else self._z(centre)

    def _onto_scores(self, part: Interval) -> Interval:
        return Interval(self._z(part.low), self._z(part.high), part.open_low, part.open_high)

    def flat_regions(self):
        return tuple(map(self._onto_scores, self.curve.flat_regions()))

    def critical(self, gamma, offset):
        amplitude = self.gain / self.alpha
        part = self.curve.critical(gamma / amplitude, offset / amplitude)
        return None if part is None else self._onto_scores(part)

    def point(self):
        return self._z(self.curve.point())

    def window(self):
        low, high = self.curve.window()
        return self._z(low), self._z(high)

    def __call__(self, x):
        return self.gain * self.curve(self._x(x))

    def primitive(self, x):
        return self.gain / self.alpha * self.curve.primitive(self._x(x))

    def slope(self, x):
        return self.gain * self.alpha * self.curve.slope(self._x(x))

    def inverse(self, y):
        return self._z(self.curve.inverse(y / self.gain))

    def difference(self, x, u, xh=None):
        return self.gain * self.curve.difference(*self._move(x, u, xh))

    def remainder(self, x, u, xh=None):
        return self.gain / self.alpha * self.curve.remainder(*self._move(x, u, xh))

    def remainder_and_difference(self, x, u, xh=None):
        rest, move = self.curve.remainder_and_difference(*self._move(x, u, xh))
        return self.gain / self.alpha * rest, self.gain * move

    def increment(self, x, u, xh=None):
        return self.gain / self.alpha * self.curve.increment(*self._move(x, u, xh))

    def _move(self, z: Array, u: Array, zh: Array) -> tuple[Array, Array, Array]:
        return self._x(z), self.alpha * u, self._x(end(z, u, zh))

    def inverted(self):
        inverse = self.curve.inverted().affine(alpha=1.0 / self.gain, gain=1.0 / self.alpha)
        return inverse if is_number(self.beta) and self.beta == 0.0 else inverse + Constant(self.beta)

    def derived(self):
        return self.curve.derived().affine(self.alpha, self.beta, self.gain * self.alpha)


@dataclass(frozen=True, repr=False)
class Sum(Curve):
    r"""A sum of curves: mix sensitivities, for example a floor of squared error under a steep curve.

    .. math:: h(z) = \sum_i h_i(z)

    Usually written ``a + b``; multiples are ``0.1 * a``.

    Parameters
    ----------
    curves : sequence of Curve
        The terms, at least one.

    Examples
    --------
    >>> 0.1 * Identity() + Sinh()
    Sum((Identity().affine(gain=0.1), Sinh()))
    """

    curves: tuple[Curve, ...] = field(metadata=LEAF)

    def __post_init__(self):
        if isinstance(self.curves, Curve) or not isinstance(self.curves, Sequence) or not self.curves:
            raise TypeError(f"Sum: curves must be a non-empty sequence of curves, got {self.curves!r}.")
        for curve in self.curves:
            require_curve("Sum", "each term", curve)
        keep(self, curves=tuple(self.curves))
        if has_plain_numbers(self):
            _common_part([curve.domain for curve in self.curves])

    def __repr__(self):
        return f"Sum({self.curves!r})"

    @property
    def domain(self):
        return _common_part([curve.domain for curve in self.curves])

    @property
    def range(self):
        ranges = [curve.range for curve in self.curves]
        return Interval(
            sum(r.low for r in ranges),
            sum(r.high for r in ranges),
            any(r.open_low for r in ranges),
            any(r.open_high for r in ranges),
        )

    @property
    def bounded(self):
        return any(curve.bounded for curve in self.curves)

    @property
    def odd(self):
        return all(curve.odd for curve in self.curves)

    @property
    def increasing(self):
        return self.increases_on(-math.inf, math.inf)

    def increases_on(self, low, high):
        return True if all(curve.increases_on(low, high) is True for curve in self.curves) else None

    @property
    def centre(self):
        centres = {curve.centre for curve in self.curves if not is_straight(curve)}
        return centres.pop() if len(centres) == 1 else (None if centres else 0.0)

    def flat_regions(self):
        parts: tuple[Interval, ...] = (Interval(),)
        for curve in self.curves:
            parts = tuple(both for a in parts for b in curve.flat_regions() if (both := a.overlap(b)) is not None)
        return parts

    @property
    def continuous(self):
        return all(curve.continuous for curve in self.curves)

    @property
    def scale(self):
        return min(curve.scale for curve in self.curves)

    def holds(self, z, *, interior=False):
        inside = self.curves[0].holds(z, interior=interior)
        for curve in self.curves[1:]:
            inside = inside & curve.holds(z, interior=interior)
        return inside

    def point(self):
        return self.domain.point()

    def window(self):
        windows = [curve.window() for curve in self.curves]
        low, high = min(w[0] for w in windows), max(w[1] for w in windows)
        return max(low, self.domain.low), min(high, self.domain.high)

    def _total(self, method: str, *args: Array) -> Array:
        return _add(getattr(curve, method)(*args) for curve in self.curves)

    def __call__(self, x):
        return self._total("__call__", x)

    def primitive(self, x):
        return self._total("primitive", x)

    def slope(self, x):
        return self._total("slope", x)

    def difference(self, x, u, xh=None):
        return self._total("difference", x, u, xh)

    def remainder(self, x, u, xh=None):
        return self._total("remainder", x, u, xh)

    def remainder_and_difference(self, x, u, xh=None):
        both = [curve.remainder_and_difference(x, u, xh) for curve in self.curves]
        return _add(rest for rest, _ in both), _add(move for _, move in both)

    def inverse(self, y):
        shifts = [curve for curve in self.curves if isinstance(curve, Constant)]
        others = [curve for curve in self.curves if not isinstance(curve, Constant)]
        if len(others) == 1:
            return others[0].inverse(y - _add(curve.value for curve in shifts)) if shifts else others[0].inverse(y)
        return super().inverse(y)

    def derived(self):
        return Sum(tuple(curve.derived() for curve in self.curves))


def is_straight(curve: Curve) -> bool:
    """Whether a curve is a line by construction: half a turn about any of its points takes it onto itself."""
    if isinstance(curve, Affine):
        return is_straight(curve.curve)
    return isinstance(curve, (Identity, Constant))


def _add(terms: Any) -> Array:
    total = None
    for term in terms:
        total = term if total is None else total + term
    return total


def _common_part(intervals: Sequence[Interval]) -> Interval:
    if not all(is_number(end) for interval in intervals for end in (interval.low, interval.high)):
        low = functools.reduce(maximum, [interval.low for interval in intervals])
        high = functools.reduce(minimum, [interval.high for interval in intervals])
        return Interval(low, high, any(i.open_low for i in intervals), any(i.open_high for i in intervals))
    part: Interval | None = Interval()
    for interval in intervals:
        part = None if part is None else part.overlap(interval)
    if part is None:
        raise ValueError(f"Sum: curves must share a part of their domains, got {', '.join(map(str, intervals))}.")
    return part


def added(curve: Curve, other: Any) -> Curve:
    """``curve + other`` for curves and numbers."""
    if not isinstance(other, Curve):
        other = Constant(other)
    terms = [*(c.curves if isinstance(c, Sum) else (c,) for c in (curve, other))]
    return Sum(tuple(term for group in terms for term in group))


@dataclass(frozen=True)
class Inverse(Curve):
    r"""The inverse of an increasing curve: sensitive where the curve is flat.

    .. math:: h(y) = g^{-1}(y)

    Usually written ``curve.inverted()``, which knows closed forms.

    Parameters
    ----------
    curve : Curve
        The increasing curve g.

    Examples
    --------
    >>> Sinh().inverted()
    Arcsinh()
    >>> steep = Inverse(Identity() + Sinh())
    >>> round(steep(Sinh()(1.0) + 1.0), 12)
    1.0
    """

    curve: Curve = field(metadata=LEAF)

    increasing = True

    def __post_init__(self):
        require_curve("Inverse", "curve", self.curve)
        if self.curve.increasing is not True:
            from selmatch import certify
            from selmatch.composite import quickly

            if self.curve.increasing is False or not certify.non_decreasing(self.curve, effort=quickly()):
                raise ValueError(f"Inverse: curve must be known to increase, got {self.curve!r}.")

    @property
    def domain(self):
        return self.curve.range

    @property
    def range(self):
        return self.curve.domain

    @property
    def odd(self):
        return self.curve.odd

    def window(self):
        low, high = self.curve.window()
        margin = 0.05 * (high - low)  # a curve is infinite at the open ends of its domain
        low += margin * self.curve.domain.open_low
        high -= margin * self.curve.domain.open_high
        return float(self.curve(float(low))), float(self.curve(float(high)))

    def point(self):
        point = self.curve(self.curve.point())
        return float(point) if has_plain_numbers(self) else point

    def __call__(self, x):
        return self.curve.inverse(x)

    def primitive(self, x):
        root = self.curve.inverse(x)
        return x * root - self.curve.primitive(root)

    def slope(self, x):
        return reciprocal(self.curve.slope(self.curve.inverse(x)))

    def inverse(self, y):
        return self.curve(y)

    def difference(self, x, u, xh=None):
        return self._move(x, u, xh)[0]

    def remainder(self, x, u, xh=None):
        return self.remainder_and_difference(x, u, xh)[0]

    def remainder_and_difference(self, x, u, xh=None):
        move, root, root_h = self._move(x, u, xh)
        return self.curve.remainder(root_h, -move, root), move

    def _move(self, x: Array, u: Array, xh: Array) -> tuple[Array, Array, Array]:
        """The move w of the curve's own score, with g(root + w) - g(root) = u, and both its ends."""
        root, root_h = self.curve.inverse(x), self.curve.inverse(end(x, u, xh))
        move = subtracted = root_h - root
        slack = (1e-5 if namespace_of(move).is_single(move) else 1e-12) * (abs(root) + abs(root_h))
        for _ in range(3):  # Newton's method: a small difference of two inverses is wrong, but close
            step = (u - self.curve.difference(root, move)) * reciprocal(self.curve.slope(root + move))
            move = move + where(abs(step) <= slack, step, 0.0)
        # far away the rounding of u weighs more than that of the inverses; at an open end the slope is 0
        near = abs(u) <= (abs(root) + abs(root_h)) * self.curve.slope(root_h)
        return where(near, move, subtracted), root, root_h

    def inverted(self):
        return self.curve


@dataclass(frozen=True, repr=False)
class Capped(Curve):
    r"""A curve with its argument clipped: scores beyond the caps cost no more than their side.

    .. math:: h(x) = g(\min(\max(x, \text{low}), \text{high}))

    Usually written ``curve.capped(low, high)``. It bounds the gradients of unbounded links such as :class:`Sinh`, and
    extends links with a bounded domain to all scores.

    Parameters
    ----------
    curve : Curve
        The curve g, which must be finite at the caps.
    low, high : float or None
        The caps; None leaves a side open.

    Examples
    --------
    >>> MatchingLoss(Sinh().capped(-3.0, 3.0)).grad(100.0, 0.0)
    10.01787...
    """

    curve: Curve = field(metadata=LEAF)
    low: float | None = None
    high: float | None = None

    def __post_init__(self):
        require_curve("Capped", "curve", self.curve)
        low = None if self.low is None else number("Capped", "low", self.low)
        high = None if self.high is None else number("Capped", "high", self.high)
        if low is None and high is None:
            raise ValueError("Capped: low or high must be given, got None for both.")
        if low is not None and high is not None and not low < high:
            raise ValueError(f"Capped: high must be > low = {low}, got {high}.")
        keep(self, low=low, high=high)
        domain = self.curve.domain
        for name, cap in (("low", low), ("high", high)):
            if cap is not None and is_number(domain.low) and not domain.holds(cap, interior=True):
                raise ValueError(f"Capped: {name} must lie in {domain}, the domain of {self.curve!r}, got {cap}.")

    def __repr__(self):
        return f"{self.curve!r}.capped({self.low!r}, {self.high!r})"

    @property
    def _caps(self) -> tuple[float, float]:
        return (-math.inf if self.low is None else self.low), (math.inf if self.high is None else self.high)

    def _clip(self, x: Array) -> Array:
        if self.low is not None:
            x = maximum(x, self.low)
        return x if self.high is None else minimum(x, self.high)

    @property
    def domain(self):
        d = self.curve.domain
        return Interval(
            d.low if self.low is None else -math.inf,
            d.high if self.high is None else math.inf,
            self.low is None and d.open_low,
            self.high is None and d.open_high,
        )

    @property
    def range(self):
        r = self.curve.range
        return Interval(
            r.low if self.low is None else float(self.curve(self.low)),
            r.high if self.high is None else float(self.curve(self.high)),
            self.low is None and r.open_low,
            self.high is None and r.open_high,
        )

    @property
    def odd(self):
        return self.curve.odd and self.low is not None and self.high is not None and self.low == -self.high

    @property
    def increasing(self):
        return self.curve.increases_on(*self._caps)

    @property
    def continuous(self):
        return self.curve.continuous

    @property
    def scale(self):
        return self.curve.scale

    @property
    def centre(self):
        middle = None if self.low is None or self.high is None else 0.5 * (self.low + self.high)
        if middle is not None and is_straight(self.curve):
            return middle
        return middle if middle == self.curve.centre else None

    def flat_regions(self):
        low, high = self._caps
        inner = [part.overlap(Interval(low, high)) for part in self.curve.flat_regions()]
        beyond = [None if self.low is None else Interval(high=low), None if self.high is None else Interval(low=high)]
        return tuple(part for part in (*inner, *beyond) if part is not None)

    def holds(self, z, *, interior=False):
        return self.curve.holds(self._clip(z), interior=interior)

    def point(self):
        point = self._clip(self.curve.point())
        return float(point) if has_plain_numbers(self) else point

    def window(self):
        low, high = self.curve.window()
        low, high = (low if self.low is None else self.low), (high if self.high is None else self.high)
        margin = 0.25 * (high - low)
        return low - (self.low is not None) * margin, high + (self.high is not None) * margin

    def __call__(self, x):
        return self.curve(self._clip(x))

    def primitive(self, x):
        inside = self._clip(x)
        return self.curve.primitive(inside) + (x - inside) * self.curve(inside)

    def slope(self, x):
        inside = self._clip(x) == x
        return where(inside, self.curve.slope(where(inside, x, self.curve.point())), 0.0 * x)

    def inverse(self, y):
        return self._clip(self.curve.inverse(y))

    def difference(self, x, u, xh=None):
        a, b, step = clipped_move(x, u, end(x, u, xh), *self._caps)
        return self.curve.difference(a, step, b)

    def remainder(self, x, u, xh=None):
        return self.remainder_and_difference(x, u, xh)[0]

    def remainder_and_difference(self, x, u, xh=None):
        xh = end(x, u, xh)
        a, b, step = clipped_move(x, u, xh, *self._caps)
        rest, move = self.curve.remainder_and_difference(a, step, b)
        beyond = xh - b
        out = beyond != 0
        # inside the caps no move is asked for: at an end of the domain it may be infinite, or its derivative
        climb = self.curve.difference(a, where(out, step, 0.0), where(out, b, a))
        return rest + beyond * climb, move


@dataclass(frozen=True)
class Piecewise(Curve):
    r"""Segments of curves, joined: say exactly where accuracy matters, region by region.

    Segment i holds between knots i and i+1; beyond the outer knots the curve is constant. Jumps at inner knots are
    allowed, decreases are not.

    Parameters
    ----------
    knots : sequence of float
        Strictly increasing, at least two.
    pieces : sequence of Curve
        One per segment, for example ``Constant(1.0)`` or ``Polynomial((c0, c1), origin=knot)``.

    Examples
    --------
    >>> link = Piecewise(knots=(0.0, 1.0, 3.0), pieces=(Identity(), Polynomial((1.0, 5.0), origin=1.0)))
    >>> [link(z) for z in (-1.0, 0.5, 2.0, 9.0)]
    [0.0, 0.5, 6.0, 11.0]
    """

    knots: tuple[float, ...]
    pieces: tuple[Curve, ...] = field(metadata=LEAF)

    def __post_init__(self):
        knots = increasing_numbers("Piecewise", "knots", self.knots, at_least=2)
        pieces = tuple(self.pieces)
        if len(pieces) != len(knots) - 1:
            raise ValueError(
                f"Piecewise: pieces must have one entry per segment ({len(knots) - 1}), got {len(pieces)}."
            )
        for piece in pieces:
            require_curve("Piecewise", "each piece", piece)
        keep(self, knots=knots, pieces=pieces)
        for (t, jump), piece in zip(self._jumps(), pieces, strict=False):
            if is_number(jump) and jump < -1e-12 * (1.0 + math.fabs(piece(t))):
                raise ValueError(f"Piecewise: pieces must not fall at a knot, got a fall by {-jump:g} at {t}.")
        keep(self, _made=self._make())

    def _jumps(self) -> list[tuple[float, Any]]:
        joints = zip(self.knots[1:-1], self.pieces, self.pieces[1:], strict=False)
        return [(t, after(t) - before(t)) for t, before, after in joints]

    @property
    def _sum(self) -> Sum:
        return self.__dict__.get("_made") or self._make()  # JAX rebuilds without the constructor

    def _make(self) -> Sum:
        """The first segment, the rise over each later one, and a step for each jump."""
        capped = [Capped(p, a, b) for p, a, b in zip(self.pieces, self.knots, self.knots[1:], strict=False)]
        shifts = [Constant(-p(t)) for p, t in zip(self.pieces[1:], self.knots[1:], strict=False)]
        jumps = [(t, jump) for t, jump in self._jumps() if not is_number(jump) or jump > 0.0]
        return Sum((*capped, *shifts, *(Step().affine(beta=t, gain=jump) for t, jump in jumps)))

    @property
    def range(self):
        return Interval(float(self(self.knots[0])), float(self(self.knots[-1])))

    @property
    def increasing(self):
        segments = zip(self.pieces, self.knots, self.knots[1:], strict=False)
        known = [piece.increases_on(a, b) for piece, a, b in segments]
        return True if all(k is True for k in known) else (False if any(k is False for k in known) else None)

    @property
    def continuous(self):
        return self._sum.continuous

    def flat_regions(self):
        segments = zip(self.pieces, self.knots, self.knots[1:], strict=False)
        inner = [part.overlap(Interval(a, b)) for piece, a, b in segments for part in piece.flat_regions()]
        return Interval(high=self.knots[0]), *(part for part in inner if part is not None), Interval(low=self.knots[-1])

    def window(self):
        margin = 0.25 * (self.knots[-1] - self.knots[0])
        return self.knots[0] - margin, self.knots[-1] + margin

    def point(self):
        return 0.5 * (self.knots[0] + self.knots[1])

    def __call__(self, x):
        total = self.pieces[0](minimum(maximum(x, self.knots[0]), self.knots[1]))
        for piece, a, b in zip(self.pieces[1:], self.knots[1:], self.knots[2:], strict=False):
            total = where(x > a, piece(minimum(maximum(x, a), b)), total)
        return total

    def primitive(self, x):
        return self._sum.primitive(x)

    def slope(self, x):
        total = 0.0 * x
        for piece, a, b in zip(self.pieces, self.knots, self.knots[1:], strict=False):
            total = where((x > a) & (x <= b), piece.slope(minimum(maximum(x, a), b)), total)
        return total

    def inverse(self, y):
        return solve_increasing(self, y, Interval(self.knots[0], self.knots[-1]))

    def difference(self, x, u, xh=None):
        return self._sum.difference(x, u, xh)

    def remainder(self, x, u, xh=None):
        return self._sum.remainder(x, u, xh)

    def remainder_and_difference(self, x, u, xh=None):
        return self._sum.remainder_and_difference(x, u, xh)


@dataclass(frozen=True)
class FromLink(Curve):
    """A curve from a formula alone, without writing a class.

    Everything else (slope, primitive, inverse, difference, remainder) is computed from it, on pieces that are measured
    when the curve is made; its monotonicity is not known, so losses sample it before they accept it.

    Parameters
    ----------
    function : callable
        The formula, written with :mod:`selmatch.functions`. Functions of a single library, such as ``torch.tanh`` or
        ``numpy.where``, do not take the dual numbers from which the slope comes, and are an error. NumPy's elementary
        functions are translated.

    Examples
    --------
    >>> MatchingLoss(FromLink(lambda z: z + functions.tanh(z)))(1.0, 0.0)
    0.93378...
    """

    function: Callable[[Array], Array]

    only_a_formula = True

    def __post_init__(self):
        if not callable(self.function):
            raise TypeError(f"FromLink: function must be callable, got {self.function!r}.")
        _ = self.mesh  # measured before a trace needs it

    def __call__(self, x):
        return apply_formula(self.function, x)


def _as_curve(who: str, of: Any) -> Curve:
    if not callable(of):
        raise TypeError(f"{who}: of must be a curve or a function, got {of!r}.")
    return of if isinstance(of, Curve) else FromLink(of)


@dataclass(frozen=True)
class FromPrimitive(Curve):
    r"""The scaling q of a given Q: its derivative.

    .. math:: q(z) = Q'(z)

    Usually written ``Q.derived()``, which knows closed forms.

    Parameters
    ----------
    of : Curve or callable
        The function Q, written with :mod:`selmatch.functions`.

    Examples
    --------
    >>> round(FromPrimitive(functions.softplus)(0.0), 12)
    0.5
    """

    of: Any = field(metadata=LEAF)

    only_a_formula = True

    def __post_init__(self):
        keep(self, of=_as_curve("FromPrimitive", self.of))

    @property
    def domain(self):
        return self.of.domain

    def _found_in(self, formula):
        return super()._found_in(self.of)

    def primitive(self, x):
        return self.of(x)

    def __call__(self, x):
        return self.of.slope(x)


@dataclass(frozen=True)
class FromScoreTransform(Curve):
    r"""The scaling q of a given score-transform f: the derivative of its logarithm.

    .. math:: q(z) = f'(z) / f(z), \qquad Q(z) = \log f(z)

    Parameters
    ----------
    of : Curve or callable
        The positive function f, written with :mod:`selmatch.functions`.

    Examples
    --------
    >>> round(FromScoreTransform(lambda z: 1.0 + functions.exp(z))(0.0), 12)
    0.5
    """

    of: Any = field(metadata=LEAF)

    only_a_formula = True

    def __post_init__(self):
        keep(self, of=_as_curve("FromScoreTransform", self.of))

    @property
    def domain(self):
        return self.of.domain

    def _found_in(self, formula):
        return super()._found_in(self.of)

    def primitive(self, x):
        return log(self.of(x))

    def __call__(self, x):
        return derivative(self.primitive, x)

    def score_transform(self, z):
        return self.of(z)


def constant_value(curve: Curve) -> Any:
    """The value of a curve that is constant by construction, else None."""
    if isinstance(curve, Affine):
        value = constant_value(curve.curve)
        return None if value is None else curve.gain * value
    return curve.value if isinstance(curve, Constant) else None


def scaling_from(who: str, scaling: Curve | None, Q: Any, f: Any) -> Curve:
    """The scaling q from whichever of q, Q and f is given."""
    given = [name for name, value in (("scaling", scaling), ("Q", Q), ("f", f)) if value is not None]
    if len(given) != 1:
        raise TypeError(f"{who}: exactly one of scaling, Q and f must be given, got {' and '.join(given) or 'none'}.")
    if Q is not None:
        return Q.derived() if isinstance(Q, Curve) else FromPrimitive(Q)
    if f is not None:
        return FromScoreTransform(f)
    require_curve(who, "scaling", scaling)
    return scaling  # type: ignore[return-value]
