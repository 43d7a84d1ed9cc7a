"""How sensitive a loss is, where, and what that does to a model: sensitivity, BUST, BLUST, LLUST and reports in words.

All of them answer one question: some scores carry a bias that the model has no features for; how far does that pull all
of its predictions? Where the link is steep, far; where it is flat, hardly.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from selmatch.arrays.namespaces import NumPy, is_number
from selmatch.composite import CompositeSoftmax, Separable, _others
from selmatch.curve import Curve, Interval
from selmatch.curves import Identity
from selmatch.functions import namespace_of, where
from selmatch.losses import MatchingLoss, PerLabel
from selmatch.parameters import has_plain_numbers, number

__all__ = [
    "RankedClass", "RankingReport", "Region", "RegionReport", "blust", "bust", "llust", "prediction_shift",
    "ranking_report", "region_report", "sensitivity",
]  # fmt: skip

Array = Any
Function = Callable[[Array], Array]
#: the scores that were observed: a sample, a density on the domain, or None for all scores of the domain alike
Observed = Any
Domain = Interval | Sequence[float] | None


# ------------------------------------------------------------------------------------------- what may be analysed


def potential_of(who: str, loss: Any) -> Any:
    """The potential of a matching loss; curves and potentials are their own."""
    potential = loss.potential if isinstance(loss, MatchingLoss) else loss
    if isinstance(potential, (Curve, CompositeSoftmax, Separable, PerLabel)):
        return potential
    hint = f" Try {potential.__name__}()." if isinstance(potential, type) and issubclass(potential, Curve) else ""
    raise TypeError(f"{who}: loss must be a MatchingLoss, a potential or a curve, got {loss!r}.{hint}")


def _link_of(who: str, loss: Any) -> Curve:
    """The scalar link of a loss."""
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


def sensitivity(loss: Any, z: Any) -> Any:
    r"""How much a small move from the score z costs: the curvature of the loss at its minimum.

    .. math:: \Delta(z) = h'(z), \qquad L(z + \delta, z) \approx \tfrac12 \Delta(z) \delta^2

    For many classes (scores on the last axis) it is Delta_k, the diagonal of the Hessian. Where h' is 0 or infinite (a
    cubic or a signed root at 0, a jump) the loss of a small move is not quadratic and this number says only that.

    Parameters
    ----------
    loss : MatchingLoss, potential or Curve
        What to look at.
    z : number or array
        The scores.

    Examples
    --------
    >>> from selmatch.analysis import sensitivity
    >>> sensitivity(MatchingLoss(Sigmoid()), 0.0)
    0.25
    >>> sensitivity(CompositeSoftmax(), [0.0, 0.0])
    array([0.25, 0.25])
    """
    potential = potential_of("sensitivity", loss)
    if isinstance(potential, PerLabel):
        raise TypeError(
            "sensitivity: the potential must not depend on the label, got PerLabel. Use loss.curvature(z, s)."
        )
    return MatchingLoss(potential, check=False).curvature(z)


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


class _Rising(Protocol):
    """What an integral may be taken with respect to: the part of a curve that it needs."""

    def slope(self, x: Array) -> Array: ...

    def difference(self, x: Array, u: Array, xh: Array = None) -> Array: ...


@dataclass(frozen=True)
class _Climb:
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


def _integral(f: Function, start: float, length: float, curve: _Rising | None = None) -> float:
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
class _Continuum:
    """Scores with a density on a domain (None: uniform)."""

    low: float
    high: float
    density: Function | None = None

    @property
    def length(self) -> float:
        return self.high - self.low

    @functools.cached_property
    def mass(self) -> float:
        return self.length if self.density is None else _integral(self.density, self.low, self.length)

    def _weighted(self, f: Function) -> Function:
        density = self.density
        return f if density is None else lambda z: f(z) * density(z)

    def mean(self, f: Function) -> float:
        """E f(S)."""
        return _integral(self._weighted(f), self.low, self.length) / self.mass

    def mean_move(self, curve: Curve, u: float, part: Interval | None = None) -> float:
        """E h(S + u) - h(S), or with a part E [h(S + u) - h(S)] 1[S in the part]."""
        return self.mean_slope(_Climb(curve, u), part=part)

    def mean_slope(self, curve: _Rising, f: Function | None = None, part: Interval | None = None) -> float:
        """E f(S) h'(S), jumps included; with a part only of the scores in it."""
        low, high = (self.low, self.high) if part is None else (part.low, part.high)
        if f is None and self.density is None:
            with np.errstate(all="ignore"):
                # NumPy's numbers divide by 0 without complaint
                return float(curve.difference(np.float64(low), np.float64(high - low), np.float64(high))) / self.mass
        return _integral(self._weighted(f or np.ones_like), low, high - low, curve) / self.mass

    def share(self, part: Interval) -> float:
        """How many of the scores lie in a part."""
        return (part.high - part.low) / self.length if self.density is None else self.mean_slope(Identity(), part=part)


@dataclass(frozen=True, eq=False)
class _Sample:
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
        return self.mean(_Climb(curve, u).slope, part)

    def mean_slope(self, curve: _Rising, f: Function | None = None, part: Interval | None = None) -> float:
        return self.mean(lambda z: curve.slope(z) * (1.0 if f is None else f(z)), part)

    def share(self, part: Interval) -> float:
        return float(np.sum(self._inside(part)[1]))


def _column(who: str, name: str, values: Any) -> np.ndarray:
    """Numbers of any library as one NumPy column."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
    try:
        column = np.asarray(values, dtype=float).ravel()
    except (TypeError, ValueError) as error:
        raise TypeError(f"{who}: {name} must be an array of numbers, got {type(values).__name__}.") from error
    if not column.size or not np.isfinite(column).all():
        found = "none" if not column.size else str(column[~np.isfinite(column)][0])
        raise ValueError(f"{who}: {name} must be finite numbers, at least one, got {found}.")
    return column


def _pair(who: str, name: str, pair: Any) -> Interval:
    """Two numbers, or an interval, as a bounded interval."""
    if isinstance(pair, Interval):
        ends: Any = (pair.low, pair.high)
    else:
        ends = pair
    if isinstance(ends, (str, bytes)) or not hasattr(ends, "__len__") or len(ends) != 2:
        raise TypeError(f"{who}: {name} must be a pair (low, high) or an Interval, got {pair!r}.")
    low, high = (
        number(who, f"the {end} of {name}", value) for end, value in zip(("low end", "high end"), ends, strict=True)
    )
    if not low < high:
        raise ValueError(f"{who}: {name} must have its low end below its high end, got ({low}, {high}).")
    return pair if isinstance(pair, Interval) else Interval(low, high)


def _observed(who: str, curve: Curve, domain: Domain, observed: Observed, weights: Any) -> _Continuum | _Sample:
    """Domain and distribution of the observed scores, checked."""
    sample = None if observed is None or callable(observed) else _column(who, "observed", observed)
    if weights is not None and sample is None:
        raise TypeError(f"{who}: weights must come with a sample of observed scores, got observed={observed!r}.")
    if domain is not None:
        inside = _pair(who, "domain", domain)
    elif sample is not None:
        inside = Interval(float(sample.min()), float(sample.max()))
        if not inside.low < inside.high:
            raise ValueError(f"{who}: observed must hold two different scores at least, got only {inside.low:g}.")
    else:
        inside = curve.domain
        if not (math.isfinite(inside.low) and math.isfinite(inside.high)):
            raise TypeError(f"{who}: domain must be given for {curve!r}, got None. Try domain=(low, high).")
    low, high = float(inside.low), float(inside.high)
    for end in (low, high):
        if not curve.holds(end):
            raise ValueError(f"{who}: domain must lie in {curve.domain}, where {curve!r} is defined, got {end:g}.")
    if sample is None:
        if observed is None:
            return _Continuum(low, high)
        made = _Continuum(low, high, observed)
        if not 0.0 < made.mass < math.inf:
            raise ValueError(f"{who}: observed must be a density with a positive integral, got {made.mass:g}.")
        return made
    outside = (sample < low) | (sample > high)
    if outside.any():
        raise ValueError(
            f"{who}: observed scores must lie in the domain ({low:g}, {high:g}), got {sample[outside][0]:g}."
        )
    shares = np.ones_like(sample) if weights is None else _column(who, "weights", weights)
    if shares.shape != sample.shape or (shares < 0.0).any() or not shares.sum() > 0.0:
        raise ValueError(f"{who}: weights must be >= 0, not all 0, and one for each observed score.")
    return _Sample(low, high, sample, shares / shares.sum())


def _normaliser(who: str, curve: Curve, scores: _Continuum | _Sample, f: Any = None) -> float:
    """|S| E f(S) h'(S), which offsets are relative to; for uniform scores the integral of f h' over the domain."""
    mean = scores.length * scores.mean_slope(curve, f)
    if not 0.0 < mean < math.inf:
        raise ValueError(
            f"{who}: the mean sensitivity of the observed scores must be positive and finite, got {mean:g} for "
            f"{curve!r} on ({scores.low:g}, {scores.high:g}). Choose another domain."
        )
    return mean


# ---------------------------------------------------------------------------------------------- underspecification


def bust(
    loss: Any,
    w: Any,
    d: Any,
    domain: Domain = None,
    *,
    observed: Observed = None,
    weights: Any = None,
    tau: float | None = None,
) -> Any:
    r"""How far a bias d of a few scores at w pulls all predictions (bias underspecification sensitivity, BUST).

    The model predicts w + delta, with one delta for all scores, because it has no feature that tells the biased ones
    from the others. The best delta balances them, E[h(S + delta) - h(S)] = share [h(w + d) - h(w)]; when the share of
    biased scores is tau / |S| and tau tends to 0, delta / tau tends to

    .. math:: \frac{h(w + d) - h(w)}{|S| \, E \, h'(S)}, \qquad
              \text{for uniform scores} \quad \frac{h(w + d) - h(w)}{h(S_M) - h(S_m)}.

    Values above 1 occur when w + d lies outside the domain. For an interval w = (a, b) all scores observed in it are
    biased and the value is E[h(S + d) - h(S); a <= S <= b] / E h'(S), the integral of the above over the interval when
    scores are uniform; :func:`prediction_shift` gives the same without the approximation for small shifts.

    Parameters
    ----------
    loss : MatchingLoss, potential or Curve
        With a single link h.
    w : number, array, pair or Interval
        Score of the biased observations, or the interval of their scores (a tuple of two numbers or an Interval).
    d : number or array
        Their bias.
    domain : pair or Interval, optional
        The scores S = [S_m, S_M]; by default from the least to the greatest observed score, or the link's own domain.
    observed : array or callable, optional
        A sample of scores, or a density on the domain (it need not integrate to 1); None: uniform.
    weights : array, optional
        Of the sample.
    tau : float, optional
        For checks, from the definition: delta / tau by root finding, with a share tau / |S| of biased scores spread
        evenly over [w - tau/2, w + tau/2].

    Examples
    --------
    >>> from selmatch.analysis import bust
    >>> bust(Sigmoid(), 0.0, 1.0, domain=(-5, 5))
    0.23419...
    >>> bust(Sigmoid(), 0.0, 1.0, domain=(-5, 5), tau=1e-6)
    0.23419...
    >>> bust(Exp(), 0.9, 2.0, domain=(0, 1))
    9.145...
    """
    who = "bust"
    curve = _link_of(who, loss)
    scores = _observed(who, curve, domain, observed, weights)
    if isinstance(w, (tuple, Interval)):
        if tau is not None:
            raise TypeError(f"{who}: tau must come with a single score w, got the interval {w!r}.")
        part, bias = _part(who, curve, scores, w, d)
        rise = scores.mean_move(curve, bias, part)
        return rise * scores.length / _normaliser(who, curve, scores)
    if tau is not None:
        return _offset_near(who, curve, scores, w, d, tau) / tau
    w, d = _array(w), _array(d)
    return _finished(_move(who, curve, w, d) / _normaliser(who, curve, scores), w, d)


def blust(
    loss: Any,
    w: Any,
    domain: Domain = None,
    *,
    observed: Observed = None,
    weights: Any = None,
    tau: float | None = None,
) -> Any:
    r"""How far a small bias of a few scores at w pulls all predictions, per unit of bias (local BUST).

    .. math:: \frac{h'(w)}{|S| \, E \, h'(S)}, \qquad
              \text{for uniform scores} \quad \frac{h'(w)}{h(S_M) - h(S_m)}

    For uniform scores it is a probability density on the domain: where the predictions are decided.

    Parameters
    ----------
    loss, w, domain, observed, weights
        As for :func:`bust`.
    tau : float, optional
        For checks, from the definition: delta / tau^2 by root finding with the bias d = tau.

    Examples
    --------
    >>> from selmatch.analysis import blust
    >>> blust(Sigmoid(), 0.0, domain=(-5, 5))
    0.25339...
    """
    who = "blust"
    curve = _link_of(who, loss)
    scores = _observed(who, curve, domain, observed, weights)
    if tau is not None:
        return _offset_near(who, curve, scores, w, tau, tau) / tau / tau
    w = _array(w)
    return _finished(sensitivity(curve, w) / _normaliser(who, curve, scores), w)


def llust(
    loss: Any,
    w: Any,
    domain: Domain = None,
    *,
    observed: Observed = None,
    weights: Any = None,
    tau: float | None = None,
) -> Any:
    r"""As :func:`blust` for a model that can only stretch: it predicts w (1 + delta) instead of w + delta.

    The balance then carries a factor w, E[S (h(S + S delta) - h(S))] = share w [h(w + d) - h(w)], and

    .. math:: \frac{w h'(w)}{|S| \, E \, S^2 h'(S)}, \qquad
              \text{for uniform scores} \quad \frac{w h'(w)}{\int_S v^2 h'(v) \, dv}.

    Parameters
    ----------
    loss, w, domain, observed, weights
        As for :func:`bust`.
    tau : float, optional
        For checks, from the definition: delta / tau^2 by root finding with the bias d = tau.

    Examples
    --------
    >>> from selmatch.analysis import llust
    >>> llust(Sigmoid(), 2.0, domain=(-5, 5))
    0.07515...
    """
    who = "llust"
    curve = _link_of(who, loss)
    scores = _observed(who, curve, domain, observed, weights)
    if tau is not None:
        return _offset_near(who, curve, scores, w, tau, tau, stretch=True) / tau / tau
    w = _array(w)
    return _finished(w * sensitivity(curve, w) / _normaliser(who, curve, scores, np.square), w)


def prediction_shift(
    loss: Any, scores: Any, bias: float, domain: Domain = None, *, observed: Observed = None, weights: Any = None
) -> float:
    r"""How far all predictions move when every observed score in an interval carries a bias: the exact delta of

    .. math:: E[h(S + \delta) - h(S)] = E[h(S + d) - h(S); \; a \le S \le b].

    It lies between 0 and d. :func:`bust` of the interval is the approximation for small shifts.

    Parameters
    ----------
    loss, domain, observed, weights
        As for :func:`bust`.
    scores : pair or Interval
        The interval [a, b] of biased scores.
    bias : float
        The bias d.

    Examples
    --------
    >>> from selmatch.analysis import prediction_shift
    >>> prediction_shift(Identity(), (2, 3), 1.0, domain=(0, 4))
    0.25
    >>> prediction_shift(Exp(), (2, 3), 1.0, domain=(0, 4))
    0.34148...
    """
    who = "prediction_shift"
    curve = _link_of(who, loss)
    all_scores = _observed(who, curve, domain, observed, weights)
    part, bias = _part(who, curve, all_scores, scores, bias)
    return _shift(who, curve, all_scores, part, bias)


def _shift(who: str, curve: Curve, scores: _Continuum | _Sample, part: Interval, bias: float) -> float:
    pull = scores.mean_move(curve, bias, part)
    # moving everybody by the whole bias is too much, or just enough when everybody is biased
    return _balanced(who, curve, scores, pull, guess=bias * scores.share(part), stretch=False)


def _part(who: str, curve: Curve, scores: _Continuum | _Sample, pair: Any, d: Any) -> tuple[Interval, float]:
    """The interval of biased scores, which must not leave the domain, nor with the bias that of the link."""
    part, bias = _pair(who, "the interval of biased scores", pair), number(who, "the bias", d)
    if part.low < scores.low or part.high > scores.high:
        raise ValueError(
            f"{who}: the interval of biased scores must lie in the domain ({scores.low:g}, {scores.high:g}), "
            f"got {part}."
        )
    _require_reach(who, curve, part, bias)
    return part, bias


def _reaches(curve: Curve, part: Interval, bias: float) -> bool:
    """Whether the link is defined and finite at the scores of an interval after a bias."""
    return all(curve.holds(end + bias, interior=True) for end in (part.low, part.high))


def _require_reach(who: str, curve: Curve, part: Interval, bias: float) -> None:
    if not _reaches(curve, part, bias):
        raise ValueError(
            f"{who}: scores plus bias must lie in {curve.domain}, where {curve!r} is defined, "
            f"got {part} plus {bias:g}. Choose a smaller bias."
        )


def _offset_near(
    who: str, curve: Curve, scores: _Continuum | _Sample, w: Any, d: Any, tau: float, stretch: bool = False
) -> float:
    """The offset that a share tau / |S| of scores around w causes, which carry the bias d."""
    w, d, tau = number(who, "w", w), number(who, "d", d), number(who, "tau", tau, above=0.0)
    near = Interval(w - 0.5 * tau, w + 0.5 * tau)
    for bias in (0.0, d):
        _require_reach(who, curve, near, bias)

    # by start and length: the end w + tau/2 would be rounded
    mean = _integral((lambda z: z) if stretch else np.ones_like, near.low, tau, _Climb(curve, d)) / tau
    first = mean / _normaliser(who, curve, scores, np.square if stretch else None)
    return _balanced(who, curve, scores, tau * mean / scores.length, guess=tau * first, stretch=stretch)


def _balanced(who: str, curve: Curve, scores: _Continuum | _Sample, pull: float, guess: float, stretch: bool) -> float:
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


def _array(x: Any) -> Any:
    """Lists and integers as floating point numbers; arrays of other libraries as they are."""
    if is_number(x):
        return float(x)
    if isinstance(x, (list, tuple, np.generic)) or hasattr(x, "to_numpy"):
        x = np.asarray(x)
    return x.astype(float) if isinstance(x, np.ndarray) and x.dtype.kind in "iub" else x


def _finished(value: Any, *inputs: Any) -> Any:
    """Python numbers for Python numbers."""
    return float(value) if all(is_number(x) for x in inputs) else value


def _move(who: str, curve: Curve, w: Any, d: Any) -> Any:
    """h(w + d) - h(w), refused (NaN in PyTorch and JAX) where the link is not defined."""
    inside = curve.holds(w, interior=True) & curve.holds(w + d, interior=True)
    if is_number(inside) or namespace_of(inside) is NumPy:
        if not np.all(inside):
            raise ValueError(
                f"{who}: w and w + d must lie in {curve.domain}, where {curve!r} is defined, got w = {w}, d = {d}."
            )
        with np.errstate(all="ignore"):
            return curve.difference(w, d, w + d)
    return where(inside, curve.difference(w, d, w + d), math.nan)


# -------------------------------------------------------------------------------------------------------- regions


@dataclass(frozen=True)
class Region:
    """What a loss does with the scores of one region.

    Attributes
    ----------
    low, high : float
        The region.
    share : float
        Share of the observed scores in it (of the domain's length when there are no data).
    sensitivity : float
        Their mean sensitivity; NaN when there are none.
    weight : float
        Their share of the total sensitivity: by how much all predictions follow a small bias of the region.
    shift : float
        By how much all predictions move when every score in the region carries the report's bias.
    """

    low: float
    high: float
    share: float
    sensitivity: float
    weight: float
    shift: float


@dataclass(frozen=True)
class RegionReport:
    """Where a loss is sensitive, region by region; made by :func:`region_report`, printed in plain words."""

    link: str
    bias: float
    regions: tuple[Region, ...]

    def __str__(self) -> str:
        amount = "one unit of bias" if self.bias == 1.0 else f"a bias of {self.bias:g}"
        lines = [f"Sensitivity of {self.link} by region:"]
        for region in self.regions:
            place = f"scores in [{region.low:g}, {region.high:g}]"
            if region.share == 0.0:
                lines.append(f"  {place}: none were observed.")
                continue
            lines.append(
                f"  {place} ({region.share:.0%} of all): {amount} among them moves every prediction by "
                f"{region.shift:.2g}; mean sensitivity {region.sensitivity:.3g}, {region.weight:.0%} of the total."
            )
        return "\n".join(lines)


def region_report(
    loss: Any,
    regions: Sequence[Any] | None = None,
    data: Any = None,
    domain: Domain = None,
    *,
    weights: Any = None,
    bias: float | None = None,
) -> RegionReport:
    """Where a loss is sensitive, in numbers and plain words: print it.

    Parameters
    ----------
    loss : MatchingLoss, potential or Curve
        With a single link.
    regions : sequence of pairs, optional
        Regions of scores, in any order; None: fifths of the data, or thirds of the domain when there are no data. A
        score on the border of two regions belongs to the upper one.
    data : array, optional
        Observed scores; without them all scores of the domain count alike.
    domain : pair or Interval, optional
        As for :func:`bust`.
    weights : array, optional
        Of the data.
    bias : float, optional
        The bias whose effect is reported; by default 1, or a tenth, hundredth or thousandth of it where the link is not
        defined that far.

    Examples
    --------
    >>> from selmatch.analysis import region_report
    >>> print(region_report(Exp(), [(0, 2), (2, 3)], domain=(0, 4)))
    Sensitivity of Exp() by region:
      scores in [0, 2] (50% of all): one unit of bias among them moves every prediction by 0.19; mean sensitivity 3.19,
      12% of the total.
      scores in [2, 3] (25% of all): one unit of bias among them moves every prediction by 0.34; mean sensitivity 12.7,
      24% of the total.
    """
    who = "region_report"
    curve = _link_of(who, loss)
    scores = _observed(who, curve, domain, data, weights)
    total = scores.mean_slope(curve)
    if not 0.0 < total < math.inf:
        raise ValueError(
            f"{who}: the mean sensitivity of the observed scores must be positive and finite, got {total:g}."
        )
    pairs = _default_regions(scores) if regions is None else [_pair(who, "each region", pair) for pair in regions]
    if not pairs:
        raise ValueError(f"{who}: regions must hold one region at least, got none.")
    starts = {part.low for part in pairs}
    parts = [_common(part, scores, open_high=part.high in starts) for part in pairs]
    inner = [part for part in parts if part is not None and scores.share(part) > 0.0]
    if bias is None:
        sizes = (1.0, 0.1, 0.01, 0.001)
        fitting = [size for size in sizes if all(_reaches(curve, part, size) for part in inner)]
        bias = fitting[0] if fitting else sizes[-1]
    bias = number(who, "bias", bias)
    for part in inner:
        _require_reach(who, curve, part, bias)

    def look(pair: Interval, part: Interval | None) -> Region:
        share = 0.0 if part is None else scores.share(part)
        if part is None or share == 0.0:
            return Region(pair.low, pair.high, 0.0, math.nan, 0.0, 0.0)
        rise = scores.mean_slope(curve, part=part)
        return Region(pair.low, pair.high, share, rise / share, rise / total, _shift(who, curve, scores, part, bias))

    return RegionReport(repr(curve), bias, tuple(map(look, pairs, parts)))


def _common(part: Interval, scores: _Continuum | _Sample, open_high: bool) -> Interval | None:
    """What a region has in common with the domain."""
    low, high = max(part.low, scores.low), min(part.high, scores.high)
    return Interval(low, high, False, open_high and high == part.high) if low < high else None


def _default_regions(scores: _Continuum | _Sample) -> list[Interval]:
    if isinstance(scores, _Sample):
        order = np.argsort(scores.scores, kind="stable")
        reached = np.cumsum(scores.shares[order])
        places = np.searchsorted(reached, np.arange(1, 5) / 5 - 1e-12)
        inner = [float(scores.scores[order][i]) for i in places]
    else:
        inner = [scores.low + scores.length * i / 3 for i in (1, 2)]
    edges = sorted({scores.low, *inner, scores.high})
    return [Interval(a, b) for a, b in itertools.pairwise(edges)]


# -------------------------------------------------------------------------------------------------------- ranking


@dataclass(frozen=True)
class RankedClass:
    """What a loss for many classes does with one of them.

    Attributes
    ----------
    index : int
        Which class.
    score, probability : float
        z_k and p_k (NaN for losses without probabilities).
    sensitivity, share : float
        Delta_k, and its share of the sum over all classes.
    region, ranking : float
        Its two parts: p_k q'(z_k), from where the score lies, and p_k (1 - p_k) q(z_k)^2 / gamma, from the competition.
    response : float
        The derivative of Delta_k when all other scores rise together.
    as_leader, as_runner_up : float
        Delta_k after all other scores have moved together so that the best of them is the report's margin below, or
        above, this one; NaN where they would leave the domain.
    """

    index: int
    score: float
    probability: float
    sensitivity: float
    share: float
    region: float
    ranking: float
    response: float
    as_leader: float
    as_runner_up: float


@dataclass(frozen=True)
class RankingReport:
    """Which class's score matters, and why; made by :func:`ranking_report`, printed in plain words."""

    potential: str
    margin: float
    classes: tuple[RankedClass, ...]

    @property
    def order(self) -> tuple[int, ...]:
        """The classes, the most sensitive first."""
        return tuple(c.index for c in sorted(self.classes, key=lambda c: -c.sensitivity))

    @property
    def pairs(self) -> tuple[tuple[int, int, float], ...]:
        """Of every two classes the one whose move costs more, the other, and how many times more."""
        ranked = [self.classes[i] for i in self.order]
        return tuple(
            (a.index, b.index, a.sensitivity / b.sensitivity if b.sensitivity else math.inf)
            for i, a in enumerate(ranked)
            for b in ranked[i + 1 :]
        )

    @property
    def ranks(self) -> bool:
        """Whether the sensitivity of any class depends on the scores of the others."""
        return any(c.response != 0.0 or c.as_leader != c.as_runner_up for c in self.classes)

    def __str__(self) -> str:
        lines = [f"Sensitivity of {self.potential} at ({', '.join(f'{c.score:g}' for c in self.classes)}):"]
        for i in self.order:
            c = self.classes[i]
            lines.append(
                f"  class {c.index} (score {c.score:g}): {c.sensitivity:.3g}, {c.share:.0%} of the total; "
                f"{c.region:.3g} from its region, {c.ranking:.3g} from its rank."
            )
            if c.as_leader == c.as_leader and c.as_runner_up == c.as_runner_up and self.ranks:
                lines.append(
                    f"    With the best of the others {self.margin:g} below it: {c.as_leader:.3g}; "
                    f"{self.margin:g} above it: {c.as_runner_up:.3g}."
                )
        if not self.ranks:
            lines.append("  It does not rank: no class's sensitivity depends on the other scores.")
        for a, b in itertools.pairwise(self.order):
            less = self.classes[b].sensitivity
            times = f"{self.classes[a].sensitivity / less:.3g} times as much as" if less else "something,"
            lines.append(f"  A small move of class {a} costs {times} one of class {b}{'' if less else ' nothing'}.")
        return "\n".join(lines)


def ranking_report(loss: Any, scores: Any, *, margin: float | None = None) -> RankingReport:
    """Which of many classes a loss is sensitive to at given scores, and whether because of region or of rank.

    The same score may matter much as the highest and not at all as a lower one: compare ``as_leader`` with
    ``as_runner_up``.

    Parameters
    ----------
    loss : MatchingLoss, CompositeSoftmax or Separable
        A loss for many classes.
    scores : sequence of float
        The scores of one row, at least two.
    margin : float, optional
        Distance to the best other score in the questions "as leader" and "as runner-up"; by default that of the two
        best scores, or 1 for a tie.

    Examples
    --------
    >>> from selmatch.analysis import ranking_report
    >>> softmax = CompositeSoftmax(Exp().affine(alpha=0.5, gain=0.5))
    >>> print(ranking_report(softmax, [3.0, 1.0]))
    Sensitivity of CompositeSoftmax(Exp().affine(alpha=0.5, gain=0.5)) at (3, 1):
      class 0 (score 3): 1.32, 96% of the total; 1.06 from its region, 0.264 from its rank.
        With the best of the others 2 below it: 1.32; 2 above it: 0.00278.
      class 1 (score 1): 0.0586, 4% of the total; 0.0229 from its region, 0.0357 from its rank.
        With the best of the others 2 below it: 0.436; 2 above it: 0.0586.
      A small move of class 0 costs 22.6 times as much as one of class 1.
    """
    who = "ranking_report"
    potential = potential_of(who, loss)
    if not isinstance(potential, (CompositeSoftmax, Separable)):
        raise TypeError(f"{who}: loss must be one for many classes, got {potential!r}. Try region_report(loss).")
    z = _column(who, "scores", scores)
    if len(z) < 2:
        raise ValueError(f"{who}: scores must hold two classes at least, got {len(z)}.")
    if not np.all(potential.holds(z, interior=True)):
        raise ValueError(f"{who}: scores must lie in {potential.domain}, got {z.tolist()}.")
    best = np.sort(z)[::-1]
    margin = float(best[0] - best[1]) or 1.0 if margin is None else number(who, "margin", margin, above=0.0)
    with np.errstate(all="ignore"):
        delta = potential.slope(z)
        p, region, ranking, response = _parts_of_sensitivity(potential, z, delta)
        total = delta.sum()
        share = delta / total if total else np.full_like(delta, math.nan)
        moved = {
            way: [_with_best_other_at(potential, z, k, z[k] + way * margin) for k in range(len(z))] for way in (-1, 1)
        }
    columns = (z, p, delta, share, region, ranking, response, moved[-1], moved[1])
    rows = zip(*(np.asarray(column, dtype=float).tolist() for column in columns), strict=True)
    return RankingReport(repr(potential), margin, tuple(RankedClass(k, *row) for k, row in enumerate(rows)))


def _parts_of_sensitivity(potential: Any, z: np.ndarray, delta: np.ndarray) -> tuple[np.ndarray, ...]:
    """p_k, the region and the ranking part of Delta_k, and its derivative in the scores of all others together."""
    if isinstance(potential, Separable):
        return np.full_like(z, math.nan), delta, 0.0 * z, 0.0 * z
    rows, q, bend = potential._rows(z), potential.scaling(z), potential.scaling.slope(z)
    region, ranking = rows.times(bend), rows.times(_others(rows) * q * q / potential.gamma)
    flow = rows.times(q) / potential.gamma
    others = np.array([np.delete(flow, k).sum() for k in range(len(z))])
    response = -others * rows.times(bend + (1.0 - 2.0 * rows.p) * q * q / potential.gamma)
    return rows.p, region, ranking, response


def _with_best_other_at(potential: Any, z: np.ndarray, k: int, place: float) -> float:
    """Delta_k after all other scores have moved together so that the best of them is at a place."""
    moved = z + (place - np.delete(z, k).max())
    moved[k] = z[k]
    return float(potential.slope(moved)[k]) if np.all(potential.holds(moved, interior=True)) else math.nan
