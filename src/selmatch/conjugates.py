"""Losses of targets in link space: H(s_hat) - s_hat y + H*(y), without cancellation."""

from __future__ import annotations

import math
from typing import Any

from selmatch import functions
from selmatch.algebra import constant_value
from selmatch.batch import Batch
from selmatch.composite import CompositeSoftmax, Separable
from selmatch.curve import Curve, Interval
from selmatch.functions import k_scaled, log, maximum, minimum, namespace_of, row_sum, where, xlogy
from selmatch.parameters import has_plain_numbers

Array = Any


def attainable(potential: Any, batch: Batch) -> tuple[Array, str, Array]:
    """Which targets are links of some (perhaps infinite) score, the condition in words, and the nearest such target."""
    y, single = batch.s, batch.space.is_single(batch.s)
    if isinstance(potential, CompositeSoftmax):
        value = constant_value(potential.scaling)
        if value is None or potential.anchor is not None:
            return y == y, "be numbers", y
        share = row_sum(y) / value
        # soft labels in half precision add up to 1 only roughly
        fits = functions.abs(share - 1.0) <= 0.01
        if batch.present is not None:  # a row of which all is masked has no targets
            fits = fits | (row_sum(where(batch.present, 1.0 + 0.0 * y, 0.0 * y)) == 0.0)
        factor = "" if value == 1.0 else f"{value:g} times "
        return fits & (y / value >= 0.0), f"be {factor}probabilities that sum to 1 over the classes", y
    values: Interval = (potential.curve if isinstance(potential, Separable) else potential).range
    ends = [abs(e) for e in (values.low, values.high) if abs(e) < math.inf]
    slack = (1e-6 if single else 1e-14) * max(ends, default=0.0)
    inside = (y >= values.low - slack) & (y <= values.high + slack)
    return inside, f"lie in {values}, the range of the link", minimum(maximum(y, values.low), values.high)


#: beyond it, links that have a limit are constant
_FAR = 1e15


def _finite(x: Array) -> Array:
    """x with infinite numbers replaced by finite ones."""
    return where(x == math.inf, _FAR, where(x == -math.inf, -_FAR, x))


def fenchel_young(potential: Any, s_hat: Array, y: Array, present: Array = None) -> Array:
    """H(s_hat) - s_hat y + H*(y) of each row."""
    if isinstance(potential, CompositeSoftmax):
        return _softmax_fenchel_young(potential, s_hat, y, present)
    if isinstance(potential, Separable):
        return row_sum(fenchel_young(potential.curve, s_hat, y))[..., 0]
    if potential.domain.open_low or potential.domain.open_high:
        # by duality in link space, where the scores near the open end are far apart
        y_hat = _finite(potential(s_hat))
        return potential.inverted().remainder(y_hat, y - y_hat, y)
    if has_plain_numbers(potential) or not hasattr(namespace_of(s_hat), "constant"):
        return _of_score(potential, s_hat, y, _finite(potential.inverse(y)))
    return _of_trained(potential, s_hat, y)


def _of_score(curve: Curve, s_hat: Array, y: Array, s: Array) -> Array:
    """The loss of targets y, which are links of scores s."""
    value = curve.remainder(s, s_hat - s, s_hat)
    return value if curve.continuous else value + (curve(s) - y) * (s_hat - s)


def _of_trained(curve: Curve, s_hat: Array, y: Array) -> Array:
    """The same, with derivatives with respect to the numbers of the curve that are finite at the ends of links too.

    H*(y) = s y - H(s) for the best s, so that its derivative is that of -H(s) at this s. It is taken that way where
    the inverse itself has none: where the slope is about 0 or infinite, and where s is infinite. Values are limits
    then, derivatives those of a target a rounding inside of the range, and second derivatives are not complete.
    """
    still = namespace_of(s_hat).constant

    def ordinary(x: Array) -> Array:
        slope = still(curve.slope(x))
        return (slope > 1e-6 * still(functions.abs(curve(x)))) & (slope < math.inf)

    s, middle = still(curve.inverse(y)), still(curve.point() + 0.0 * y)
    middle = where(ordinary(middle), middle, middle + 0.5)
    infinite = functions.abs(s) >= _FAR  # numerical inverses give such numbers
    at_end = infinite | ~ordinary(where(infinite, middle, s)) if curve.continuous else infinite
    inside = where(at_end, curve(middle), y)
    usual = _of_score(curve, s_hat, inside, curve.inverse(inside))
    rounding = 2.0**-22 if namespace_of(y).is_single(y) else 2.0**-51
    within = y - rounding * where(s > 0.0, 1.0, -1.0) * functions.abs(y - inside)
    near = still(where(infinite, _finite(curve.inverse(within)), s))
    direct = (curve.primitive(s_hat) - curve.primitive(near)) - (s_hat - near) * y
    value = still(_of_score(curve, s_hat, y, _finite(s)))
    return where(at_end, value + (direct - still(direct)), usual)


def fenchel_young_slope(potential: Any, s_hat: Array, y: Array, present: Array = None) -> Array:
    """link(s_hat) - y; without cancellation where y is the limit of a link, which s_hat may be close to."""
    if isinstance(potential, CompositeSoftmax):
        return potential.link(s_hat, where=present) - y
    curve: Curve = potential.curve if isinstance(potential, Separable) else potential
    plain = curve(s_hat) - y
    if not has_plain_numbers(curve) or curve.domain.open_low or curve.domain.open_high:
        return plain
    s = curve.inverse(y)
    infinite = functions.abs(s) == math.inf
    far = where(infinite, _finite(s), s_hat)
    return where(infinite, curve.difference(far, s_hat - far, s_hat), plain)


def without_conjugate(potential: Any, s_hat: Array, y: Array, present: Array = None) -> Array:
    """H(s_hat) - s_hat y of each row, where it can be had from the whole without cancellation."""
    if isinstance(potential, CompositeSoftmax):
        if constant_value(potential.scaling) is None or potential.anchor is not None:
            return potential.primitive(s_hat, where=present) - row_sum(s_hat * y)[..., 0]
        return _softmax_fenchel_young(potential, s_hat, y, present) - _softmax_conjugate(potential, y, present)
    if isinstance(potential, Separable):
        return row_sum(without_conjugate(potential.curve, s_hat, y))[..., 0]
    # the conjugate from any score, here a central one: H*(y) = FY(s_0, y) - H(s_0) + s_0 y
    centre = potential.point() + 0.0 * s_hat
    conjugate = (fenchel_young(potential, centre, y) - potential.primitive(centre)) + centre * y
    return fenchel_young(potential, s_hat, y) - conjugate


def _shares(softmax: CompositeSoftmax, y: Array) -> Array:
    """Link values of a standard Softmax as probabilities."""
    value = constant_value(softmax.scaling)
    if value is None or softmax.anchor is not None:
        raise TypeError(
            "MatchingLoss.fenchel_young: the scaling must be constant (the standard Softmax) and without anchor, got "
            f"{softmax!r}. Give scores instead of link values, or conjugate=False; for labels: label_loss."
        )
    return y / value


def _softmax_fenchel_young(softmax: CompositeSoftmax, s_hat: Array, y: Array, present: Array) -> Array:
    """gamma KL(y to p(s_hat)), each term >= 0."""
    term = divergence_terms(softmax._rows(s_hat, present), _shares(softmax, y))
    return softmax.gamma * row_sum(term if present is None else where(present, term, 0.0))[..., 0]


def divergence_terms(rows: Any, t: Array) -> Array:
    """t log(t / p) - t + p of each class, for the probabilities p of a point: none is negative."""
    rare = (rows.p < 1e-30) | (t == 0)
    p = where(rare, 1.0, rows.p)
    usual = k_scaled(p, where(rare, 0.0, t) - where(rare, 0.0, p), where(rare, 1.0, t))
    return where(rare, xlogy(t, t) - t * where(rare, rows.log_p, 0.0) - t + rows.p, usual)


def _softmax_conjugate(softmax: CompositeSoftmax, y: Array, present: Array) -> Array:
    """H*(y) of each row, for a standard Softmax."""
    t = _shares(softmax, y)
    term = softmax.gamma * xlogy(t, t) - t * softmax.scaling.primitive(0.0 * t)
    if softmax.rho is not None:
        term = term - t * log(functions.like(softmax.rho, t))
    return row_sum(term if present is None else where(present, term, 0.0))[..., 0]
