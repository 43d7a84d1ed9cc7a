"""What analyses share: the losses they take, the scores that were observed, integrals over them, and the balance of a
model that cannot tell biased scores from others.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from selmatch.columns import finite_column
from selmatch.composite import CompositeSoftmax, Separable
from selmatch.curve import Curve, Interval
from selmatch.curves import Identity
from selmatch.losses import potential_of
from selmatch.parameters import has_plain_numbers, pair
from selmatch.scales import TAKE_LOGARITHMS, require_scores

Array = Any
Function = Callable[[Array], Array]
#: a sample, a density on the domain, or None for all scores of the domain alike
Observed = Any
Domain = Interval | Sequence[float] | None


# ------------------------------------------------------------------------------------------- what may be analysed


def link_of(who: str, loss: Any) -> Curve:
    """The scalar link of a loss of scores as they are given."""
    require_scores(who, loss, TAKE_LOGARITHMS)
    potential = potential_of(who, loss)
    if isinstance(potential, Separable):
        potential = potential.curve
    if not isinstance(potential, Curve):
        many = isinstance(potential, CompositeSoftmax)
        remedy = "Try ranking_report(loss, scores)." if many else "Give one of its curves."
        raise TypeError(f"{who}: loss must have a single link, got {potential!r}. {remedy}")
    if not has_plain_numbers(potential):
        raise TypeError(f"{who}: the parameters of the link must be numbers, got arrays in {potential!r}.")
    return potential


# ----------------------------------------------------------------------------------------------------- integration


def _rule() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gauss nodes on [0, 1], their shares, and the weights that extrapolate from the nodes to both ends."""
    t, share = np.polynomial.legendre.leggauss(16)
    t, share = 0.5 * (t + 1.0), 0.5 * share
    others = [np.delete(t, i) for i in range(len(t))]
    ends = [[np.prod((end - o) / (node - o)) for node, o in zip(t, others, strict=True)] for end in (0.0, 1.0)]
    return t, share, np.array(ends).T


_NODES, _SHARES, _TO_ENDS = _rule()
_TOLERANCE, _END_TOLERANCE = 1e-15, 1e-12
_FIRST_LEVELS, _LEVELS, _MOST_CELLS = 3, 100, 4096


class Rising(Protocol):
    """What an integral may be taken with respect to: the part of a curve that it needs."""

    def slope(self, x: Array) -> Array: ...

    def difference(self, x: Array, u: Array, xh: Array = None) -> Array: ...


@dataclass(frozen=True)
class Climb:
    """The function whose slope is h(z + u) - h(z), for a curve h: what a bias u pulls, summed over scores."""

    curve: Curve
    u: float

    def slope(self, x: Array) -> Array:
        return self.curve.difference(x, self.u + 0.0 * x, x + self.u)

    def difference(self, x: Array, u: Array, xh: Array = None) -> Array:
        """The integral of the slope over [x, x + u], as three losses and rises of the same sign: nothing cancels."""
        start = x + min(self.u, 0.0)
        short, gap = np.minimum(u, math.fabs(self.u)), np.abs(u - math.fabs(self.u))
        p = start + short
        q = p + gap
        ends = self.curve.remainder(p, -short, start) + self.curve.remainder(q, short, q + short)
        return math.copysign(1.0, self.u) * (ends + short * self.curve.difference(p, gap, q))


def integral(f: Function, start: float, length: float, curve: Rising | None = None) -> float:
    """The integral of f over [start, start + length], with respect to a curve (that is, of f times its slope) if given.

    Cells are halved until Gauss nodes agree with those of the halves, with f at the ends, and nodes on the slope with
    the curve's own rise; around kinks, jumps and infinite slopes until f is constant in the cell, where the rise alone
    decides.
    """

    def measure(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, ...]:
        """Of each cell [a, b] of [0, 1]: the integral by nodes, the rise, range and middle of f, two kinds of doubt."""
        width, left, right = length * (b - a), start + length * a, start + length * b
        z = left[:, None] + width[:, None] * _NODES
        values = f(z) + 0.0 * z
        ends = np.stack([f(left) + 0.0 * left, f(right) + 0.0 * right], axis=1)
        known = np.isfinite(ends)
        low = np.minimum(values.min(axis=1), np.where(known, ends, math.inf).min(axis=1))
        high = np.maximum(values.max(axis=1), np.where(known, ends, -math.inf).max(axis=1))
        slopes, rise, missed = 1.0, width, 0.0 * width
        if curve is not None:
            slopes, rise = curve.slope(z) + 0.0 * z, curve.difference(left, width, right) + 0.0 * width
            missed = np.abs(slopes @ _SHARES * width - rise) * np.maximum(np.abs(low), np.abs(high))
        bent = np.where(known, np.abs(values @ _TO_ENDS - ends), 0.0).sum(axis=1) * np.abs(rise)
        return (values * slopes) @ _SHARES * width, rise, high - low, 0.5 * (high + low), missed, bent

    accepted: list[float] = []
    a, b = np.zeros(1), np.ones(1)
    with np.errstate(all="ignore"):
        value = measure(a, b)[0]
        for level in range(_LEVELS):
            middle = 0.5 * (a + b)
            left, right = measure(a, middle), measure(middle, b)
            halves = left[0] + right[0]
            sizes = [np.abs(rise) * (np.abs(centre) + swing) for _, rise, swing, centre, *_ in (left, right)]
            size = math.fsum(np.abs(accepted)) + sum(float(x[np.isfinite(x)].sum()) for x in sizes)
            enough = _TOLERANCE * size
            agree = (np.abs(value - halves) <= enough) & (left[4] + right[4] <= enough)
            agree &= (left[5] + right[5] <= _END_TOLERANCE * size) & (level >= _FIRST_LEVELS)
            accepted.extend(halves[agree].tolist())
            a = np.concatenate([a[~agree], middle[~agree]])
            b = np.concatenate([middle[~agree], b[~agree]])
            value, rise, swing, centre = (
                np.concatenate([x[~agree], y[~agree]]) for x, y in zip(left[:4], right[:4], strict=True)
            )
            middle = 0.5 * (a + b)
            last = (middle <= a) | (middle >= b) | (level + 1 == _LEVELS) | (len(a) > _MOST_CELLS)
            constant = (np.abs(swing * rise) <= enough) & (level >= _FIRST_LEVELS) | last
            # at a pole of f the cell is too narrow to matter; at one of the curve the nodes see all there is
            settled = np.where(np.isinf(rise), value, np.where(np.isinf(centre), 0.0, centre * rise))
            accepted.extend(settled[constant].tolist())
            a, b, value = a[~constant], b[~constant], value[~constant]
            if not len(a):
                break
    return math.fsum(accepted)


# ------------------------------------------------------------------------------------------------- observed scores


@dataclass(frozen=True)
class Continuum:
    """Scores with a density on a domain (None: uniform)."""

    low: float
    high: float
    density: Function | None = None

    @property
    def length(self) -> float:
        return self.high - self.low

    @functools.cached_property
    def mass(self) -> float:
        return self.length if self.density is None else integral(self.density, self.low, self.length)

    def _weighted(self, f: Function) -> Function:
        density = self.density
        return f if density is None else lambda z: f(z) * density(z)

    def mean(self, f: Function) -> float:
        """E f(S)."""
        return integral(self._weighted(f), self.low, self.length) / self.mass

    def mean_move(self, curve: Curve, u: float, part: Interval | None = None) -> float:
        """E h(S + u) - h(S), or with a part E [h(S + u) - h(S)] 1[S in the part]."""
        return self.mean_slope(Climb(curve, u), part=part)

    def mean_slope(self, curve: Rising, f: Function | None = None, part: Interval | None = None) -> float:
        """E f(S) h'(S), jumps included; with a part only of the scores in it."""
        low, high = (self.low, self.high) if part is None else (part.low, part.high)
        if f is None and self.density is None:
            with np.errstate(all="ignore"):
                # NumPy's numbers divide by 0 without complaint
                return float(curve.difference(np.float64(low), np.float64(high - low), np.float64(high))) / self.mass
        return integral(self._weighted(f or np.ones_like), low, high - low, curve) / self.mass

    def share(self, part: Interval) -> float:
        """How many of the scores lie in a part."""
        return (part.high - part.low) / self.length if self.density is None else self.mean_slope(Identity(), part=part)


@dataclass(frozen=True)
class Everywhere(Continuum):
    """All scores of an unbounded domain alike, for a link that rises by a finite amount over all of it.

    Means of what the link does do not exist there, but their ratios do: everything is an integral over all scores.
    """

    curve: Any = None

    @property
    def length(self) -> float:
        return 1.0

    @property
    def rise(self) -> float:
        """How much the link rises over the whole domain."""
        domain, values = self.curve.domain, self.curve.range
        low = values.low if math.isinf(domain.low) else float(self.curve(domain.low))
        return (values.high if math.isinf(domain.high) else float(self.curve(domain.high))) - low

    def mean(self, f: Function) -> float:
        raise TypeError("llust: domain must be given with tau, got None. Try domain=(low, high).")

    def mean_move(self, curve: Curve, u: float, part: Interval | None = None) -> float:
        return u * self.rise if part is None else super().mean_move(curve, u, part)

    def mean_slope(self, curve: Rising, f: Function | None = None, part: Interval | None = None) -> float:
        if part is not None:
            return super().mean_slope(curve, f, part)
        return self.rise if f is None else self._over_all(f, curve)

    def share(self, part: Interval) -> float:
        return part.high - part.low

    def _over_all(self, f: Function, curve: Rising) -> float:
        """The integral of f with respect to the curve: rings about its window, each twice as wide, while they add."""
        start, end = (float(z) for z in self.curve.window())
        total, width = integral(f, start, end - start, curve), end - start
        for _ in range(MOST_RINGS):
            outer = max(start - width, self.low), min(end + width, self.high)
            ring = [(a, b) for a, b in ((outer[0], start), (end, outer[1])) if a < b]
            added = math.fsum(integral(f, a, b - a, curve) for a, b in ring)
            total, (start, end), width = total + added, outer, 2.0 * width
            if math.fabs(added) <= 1e-17 * math.fabs(total):
                return total
        return math.inf


#: rings, each twice as wide, after which an integral over all scores counts as infinite
MOST_RINGS = 60


@dataclass(frozen=True, eq=False)
class Sample:
    """Scores as they were observed, and the share of each."""

    low: float
    high: float
    scores: np.ndarray
    shares: np.ndarray

    @property
    def length(self) -> float:
        return self.high - self.low

    def _inside(self, part: Interval | None) -> tuple[np.ndarray, np.ndarray]:
        if part is None:
            return self.scores, self.shares
        inside = part.holds(self.scores, interior=True)
        return self.scores[inside], self.shares[inside]

    def mean(self, f: Function, part: Interval | None = None) -> float:
        scores, shares = self._inside(part)
        with np.errstate(all="ignore"):
            return float(np.sum(f(scores) * shares))

    def mean_move(self, curve: Curve, u: float, part: Interval | None = None) -> float:
        return self.mean(Climb(curve, u).slope, part)

    def mean_slope(self, curve: Rising, f: Function | None = None, part: Interval | None = None) -> float:
        return self.mean(lambda z: curve.slope(z) * (1.0 if f is None else f(z)), part)

    def share(self, part: Interval) -> float:
        return float(np.sum(self._inside(part)[1]))


def observed_scores(
    who: str, curve: Curve, domain: Domain, observed: Observed, weights: Any, *, everywhere: bool = False
) -> Continuum | Sample:
    """Domain and distribution of the observed scores, checked; ``everywhere`` allows unbounded domains of links that
    rise by a finite amount."""
    sample = None if observed is None or callable(observed) else finite_column(who, "observed", observed)
    if weights is not None and sample is None:
        raise TypeError(f"{who}: weights must come with a sample of observed scores, got observed={observed!r}.")
    if domain is not None:
        inside = Interval(*pair(who, "domain", domain))
    elif sample is not None:
        inside = Interval(float(sample.min()), float(sample.max()))
        if not inside.low < inside.high:
            raise ValueError(f"{who}: observed must hold two different scores at least, got only {inside.low:g}.")
    else:
        inside = curve.domain
        if not (math.isfinite(inside.low) and math.isfinite(inside.high)):
            if everywhere and observed is None:
                scores = Everywhere(float(inside.low), float(inside.high), curve=curve)
                if math.isfinite(scores.rise):
                    return scores
            raise TypeError(f"{who}: domain must be given for {curve!r}, got None. Try domain=(low, high).")
    low, high = float(inside.low), float(inside.high)
    for end in (low, high):
        if not curve.holds(end):
            raise ValueError(f"{who}: domain must lie in {curve.domain}, where {curve!r} is defined, got {end:g}.")
    if sample is None:
        if observed is None:
            return Continuum(low, high)
        _require_density(who, observed, low, high)
        made = Continuum(low, high, observed)
        if not 0.0 < made.mass < math.inf:
            raise ValueError(f"{who}: observed must be a density with a positive integral, got {made.mass:g}.")
        return made
    outside = (sample < low) | (sample > high)
    if outside.any():
        raise ValueError(
            f"{who}: observed scores must lie in the domain ({low:g}, {high:g}), got {sample[outside][0]:g}."
        )
    shares = np.ones_like(sample) if weights is None else finite_column(who, "weights", weights)
    if shares.shape != sample.shape or (shares < 0.0).any() or not shares.sum() > 0.0:
        raise ValueError(f"{who}: weights must be >= 0, not all 0, and one for each observed score.")
    return Sample(low, high, sample, shares / shares.sum())


def _require_density(who: str, density: Function, low: float, high: float) -> None:
    """Refuse what does not take arrays, or is negative somewhere, before it is integrated."""
    places = np.linspace(low, high, 65)
    try:
        with np.errstate(all="ignore"):
            values = np.asarray(density(places), dtype=float) + 0.0 * places
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{who}: observed must be a sample, or a density that takes a NumPy array, got one that fails: {error}. "
            "Write it with NumPy's functions."
        ) from error
    if (values < 0.0).any():
        wrong = int(np.argmax(values < 0.0))
        raise ValueError(f"{who}: observed must be a density >= 0, got {values[wrong]:g} at {places[wrong]:g}.")


# -------------------------------------------------------------------------------------------------------- balances


def shift_of(who: str, curve: Curve, scores: Continuum | Sample, part: Interval, bias: float) -> float:
    pull = scores.mean_move(curve, bias, part)
    # moving everybody by the whole bias is too much, or just enough when everybody is biased
    return balanced(who, curve, scores, pull, guess=bias * scores.share(part), stretch=False)


def reaches(curve: Curve, part: Interval, bias: float) -> bool:
    """Whether the link is defined and finite at the scores of an interval after a bias."""
    return all(curve.holds(end + bias, interior=True) for end in (part.low, part.high))


def require_reach(who: str, curve: Curve, part: Interval, bias: float) -> None:
    if not reaches(curve, part, bias):
        raise ValueError(
            f"{who}: scores plus bias must lie in {curve.domain}, where {curve!r} is defined, "
            f"got {part} plus {bias:g}. Choose a smaller bias."
        )


def balanced(who: str, curve: Curve, scores: Continuum | Sample, pull: float, guess: float, stretch: bool) -> float:
    """The delta at which the moved predictions balance the pull: E g(S) [h(S + g(S) delta) - h(S)] = pull."""
    if pull == 0.0 or guess == 0.0:
        return 0.0
    way = math.copysign(1.0, pull)

    def excess(size: float) -> float:
        delta = way * size
        moves = [delta * (end if stretch else 1.0) for end in (scores.low, scores.high)]
        if not all(curve.holds(end + move) for end, move in zip((scores.low, scores.high), moves, strict=True)):
            return math.inf

        if not stretch:
            return way * (scores.mean_move(curve, delta) - pull)
        return way * (scores.mean(lambda z: z * curve.difference(z, delta * z, z + delta * z)) - pull)

    return way * _root(who, excess, math.fabs(pull), math.fabs(guess))


def _root(who: str, f: Callable[[float], float], depth: float, guess: float) -> float:
    """The zero of an increasing f with f(0) = -depth < 0: secants, kept inside the bracket, with bisection at need."""
    below, above = 0.0, math.inf
    x_before, f_before, x = 0.0, -depth, guess
    for step in range(300):
        value = f(x)
        if value == 0.0:
            return x
        below, above = (x, above) if value < 0.0 else (below, x)
        lean = (value - f_before) / (x - x_before) if math.isfinite(value - f_before) else 0.0
        following = x - value / lean if lean > 0.0 else math.nan
        if below == 0.0 and math.isfinite(value):  # the secant through 0, accurate also for a root far below x
            following = x * (depth / (value + depth))
        stuck = step > 20 and step % 2 == 1 and math.isfinite(above)
        if not below < following < above or stuck:
            following = 2.0 * x if math.isinf(above) else 0.5 * (below + above)
        if math.fabs(following - x) <= 2e-16 * x or (above - below) / above <= 4e-16:
            return following
        x_before, f_before, x = x, value, following
    if math.isinf(above):
        raise ValueError(f"{who}: the link must rise far enough to balance the bias, got no balance at {x:g}.")
    return x
