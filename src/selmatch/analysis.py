"""How sensitive a loss is, where, and what that does to a model: sensitivity, BUST, BLUST, LLUST and reports in words.

All of them answer one question: some scores carry a bias that the model has no features for; how far does that pull all
of its predictions? Where the link is steep, far; where it is flat, hardly.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from selmatch.arrays.namespaces import NumPy, is_number
from selmatch.batch import as_float, converted
from selmatch.curve import Curve, Interval
from selmatch.functions import namespace_of, where
from selmatch.losses import MatchingLoss, PerLabel, potential_of
from selmatch.observed import (
    Climb,
    Continuum,
    Domain,
    Observed,
    Sample,
    balanced,
    integral,
    link_of,
    observed_scores,
    require_reach,
    shift_of,
)
from selmatch.parameters import number, pair
from selmatch.reports import RankedClass, RankingReport, Region, RegionReport, ranking_report, region_report

__all__ = [
    "RankedClass", "RankingReport", "Region", "RegionReport", "blust", "bust", "llust", "prediction_shift",
    "ranking_report", "region_report", "sensitivity",
]  # fmt: skip

Array = Any


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
    try:
        return MatchingLoss(potential, check=False).curvature(z)
    except (TypeError, ValueError) as error:
        raise type(error)(str(error).replace("MatchingLoss.curvature: s_hat", "sensitivity: z")) from None


def _normaliser(who: str, curve: Curve, scores: Continuum | Sample, f: Any = None) -> float:
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
        That may be unbounded where the range of the link is not (Sigmoid, Tanh ...): h(S_m) and h(S_M) are its ends.
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
    >>> bust(Sigmoid(), 0.0, 1.0)  # over all scores, where the link rises from 0 to 1
    0.23105...
    """
    who = "bust"
    curve = link_of(who, loss)
    scores = observed_scores(who, curve, domain, observed, weights, everywhere=True)
    if isinstance(w, (tuple, Interval)):
        if tau is not None:
            raise TypeError(f"{who}: tau must come with a single score w, got the interval {w!r}.")
        part, bias = _part(who, curve, scores, w, d)
        rise = scores.mean_move(curve, bias, part)
        return rise * scores.length / _normaliser(who, curve, scores)
    if tau is not None:
        return _offset_near(who, curve, scores, w, d, tau) / tau
    w, d = _array(who, "w", w), _array(who, "d", d)
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
    return _local("blust", loss, w, domain, observed, weights, tau, stretch=False)


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
    return _local("llust", loss, w, domain, observed, weights, tau, stretch=True)


def _local(
    who: str, loss: Any, w: Any, domain: Domain, observed: Observed, weights: Any, tau: float | None, stretch: bool
) -> Any:
    """The offset per unit of a small bias, of a model that can only move all predictions, or only stretch them."""
    curve = link_of(who, loss)
    scores = observed_scores(who, curve, domain, observed, weights, everywhere=True)
    if tau is not None:
        return _offset_near(who, curve, scores, w, tau, tau, stretch) / tau / tau
    w = _array(who, "w", w)
    pull = sensitivity(curve, w) * (w if stretch else 1.0)
    return _finished(pull / _normaliser(who, curve, scores, np.square if stretch else None), w)


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
    curve = link_of(who, loss)
    all_scores = observed_scores(who, curve, domain, observed, weights, everywhere=True)
    part, bias = _part(who, curve, all_scores, scores, bias)
    return shift_of(who, curve, all_scores, part, bias)


def _part(who: str, curve: Curve, scores: Continuum | Sample, interval: Any, d: Any) -> tuple[Interval, float]:
    """The interval of biased scores, which must not leave the domain, nor with the bias that of the link."""
    ends = pair(who, "the interval of biased scores", interval)
    part = interval if isinstance(interval, Interval) else Interval(*ends)
    bias = number(who, "the bias", d)
    if part.low < scores.low or part.high > scores.high:
        raise ValueError(
            f"{who}: the interval of biased scores must lie in the domain ({scores.low:g}, {scores.high:g}), "
            f"got {part}."
        )
    require_reach(who, curve, part, bias)
    return part, bias


def _offset_near(
    who: str, curve: Curve, scores: Continuum | Sample, w: Any, d: Any, tau: float, stretch: bool = False
) -> float:
    """The offset that a share tau / |S| of scores around w causes, which carry the bias d."""
    w, d, tau = number(who, "w", w), number(who, "d", d), number(who, "tau", tau, above=0.0)
    near = Interval(w - 0.5 * tau, w + 0.5 * tau)
    for bias in (0.0, d):
        require_reach(who, curve, near, bias)

    # by start and length: the end w + tau/2 would be rounded
    mean = integral((lambda z: z) if stretch else np.ones_like, near.low, tau, Climb(curve, d)) / tau
    first = mean / _normaliser(who, curve, scores, np.square if stretch else None)
    return balanced(who, curve, scores, tau * mean / scores.length, guess=tau * first, stretch=stretch)


def _array(who: str, name: str, x: Any) -> Any:
    """Lists, columns and integers as floating point numbers; arrays of other libraries as they are."""
    if is_number(x):
        return float(x)
    array = converted(who, name, x)
    return as_float(who, name, array, namespace_of(array))


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
