"""Largest gamma and smallest c of scalar composite losses, as certified enclosures."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from selmatch.arrays.effort import Effort
from selmatch.certificates import Certificate, Enclosure, Proved, Refuted, Undecided
from selmatch.composite import CompositeSigmoid
from selmatch.curve import Curve, Interval
from selmatch.curves import AbsPower
from selmatch.parameters import number
from selmatch.sampling import evaluated, sample_points

#: relative distances from an estimate at which a proof and a refutation are tried, the closest first
DISTANCES = (1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2)
MOST_BOXES = 1000


def largest_gamma(scaling: Curve, domain: Interval, offset: float) -> Enclosure:
    """See :func:`selmatch.certify.largest_gamma`."""
    from selmatch import certify

    free = certify.convex_primitive(scaling, domain)
    if free:
        return Enclosure(math.inf, math.inf, free, free)
    estimate = _estimate(scaling, domain, offset)

    def at(gamma: float) -> Certificate:
        return certify.convex(
            CompositeSigmoid(scaling, gamma=gamma, offset=offset, check=False), domain, effort=Effort(boxes=MOST_BOXES)
        )

    if estimate == 0.0:
        tiny = at(1e-3)
        return Enclosure(0.0, 0.0, tiny, tiny)
    return _enclosed("certify.largest_gamma", estimate, at, holds_below=True)


def smallest_c(d: float, gamma: float) -> Enclosure:
    """See :func:`selmatch.certify.smallest_c`."""
    from selmatch import certify

    who = "certify.smallest_c"
    d, gamma = number(who, "d", d, at_least=1.0), number(who, "gamma", gamma, above=0.0)

    def at(c: float) -> Certificate:
        return certify.convex(
            CompositeSigmoid(AbsPower(d, c), gamma=gamma, check=False), effort=Effort(boxes=MOST_BOXES)
        )

    low, high = 1e-9, max(math.sqrt(2.0 * gamma * d), gamma * d - 0.5)  # the latter is always enough
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if AbsPower(d, middle).largest_gamma >= gamma else (middle, high)
    return _enclosed(who, high, at, holds_below=False)


def _enclosed(who: str, estimate: float, at: Callable[[float], Certificate], holds_below: bool) -> Enclosure:
    """The two closest neighbours of an estimate, the statement proved on one side and refuted on the other."""
    proved = refuted = None
    tried: Certificate | None = None
    for distance in DISTANCES:
        below, above = estimate * (1.0 - distance), estimate * (1.0 + distance)
        inside, outside = (below, above) if holds_below else (above, below)
        if proved is None and isinstance(tried := at(inside), Proved):
            proved = (inside, tried)
        if refuted is None and isinstance(tried := at(outside), Refuted):
            refuted = (outside, tried)
        if proved and refuted:
            (low, at_low), (high, at_high) = sorted((proved, refuted), key=lambda pair: pair[0])
            return Enclosure(low, high, at_low, at_high)
        if isinstance(tried, Undecided) and "python-flint" in tried.how:
            raise ImportError(f'{who} needs python-flint. Install it with: pip install "selmatch[proofs]".')
    raise ValueError(f"{who}: the threshold must be decidable near the estimate {estimate!r}, got {tried}.")


def _estimate(scaling: Curve, domain: Interval, offset: float) -> float:
    """The smallest over all scores of the largest gamma that each allows, in floats; 0 if some allows none."""
    critical = scaling.critical(1e3, offset)
    part = domain if critical is None else (domain.overlap(critical) or domain)
    points = sample_points(scaling, part, count=2001)
    allowed = _allowed(scaling, points, offset)
    if not np.isfinite(allowed).any():
        return math.inf
    i = int(np.argmin(allowed))
    low, high = points[max(i - 1, 0)], points[min(i + 1, len(points) - 1)]
    best = float(allowed[i])
    for _ in range(12):
        points = np.linspace(low, high, 33)
        allowed = _allowed(scaling, points, offset)
        i = int(np.argmin(allowed))
        best = min(best, float(allowed[i]))
        low, high = points[max(i - 1, 0)], points[min(i + 1, 32)]
    return best


def _allowed(scaling: Curve, z: np.ndarray, offset: float) -> np.ndarray:
    """The largest gamma with q' + sigma(-Q/gamma) q^2/gamma >= 0 at each score: infinite where q' >= 0, 0 if none."""
    q, steep = evaluated(scaling, z), evaluated(scaling.slope, z)
    level = evaluated(scaling.primitive, z) + offset
    with np.errstate(all="ignore"):
        need = -steep / q**2  # of t sigma(-Q t), with t = 1/gamma
    result = np.full(z.shape, math.inf)
    falls = np.isfinite(need) & (need > 0.0)
    result[(steep < 0.0) & ~falls] = 0.0
    for i in np.flatnonzero(falls):
        result[i] = 1.0 / _smallest_t(float(need[i]), float(level[i]))
    return result


def _smallest_t(need: float, level: float) -> float:
    """The smallest t with t sigma(-level t) >= need, or infinity."""
    # t sigma(-level t) rises for level <= 0; above that up to where level t = 1.278..., with the value 0.278.../level
    high = 2.0 * need if level <= 0.0 else 1.2784645427610738 / level

    def enough(t: float) -> bool:
        return t / (1.0 + math.exp(min(level * t, 700.0))) >= need

    if not enough(high):
        return math.inf
    low = need
    for _ in range(80):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
