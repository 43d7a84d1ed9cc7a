"""A quick look in double precision for scores at which a curve falls: witnesses, never proofs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from selmatch.arrays.effort import Effort
from selmatch.composite import CompositeSigmoid
from selmatch.curve import Curve, Interval
from selmatch.landmarks import landmarks

#: a fall in double precision must be this large, relative to the values, to be no rounding error
MARGIN = 1e-11
#: no score is looked at beyond
FAR = 1e300


def sample_points(curve: Curve, domain: Interval, count: int = 257) -> np.ndarray:
    """Scores across a domain: evenly where the curve shows what is typical, then further and further out."""
    low, high = curve.window()
    low, high = max(low, domain.low), min(high, domain.high)
    if not low < high or (math.isfinite(domain.low) and math.isfinite(domain.high)):
        low, high = domain.window()
    width = min(high - low, FAR)
    steps = width * 2.0 ** np.arange(-4.0, 6.0)
    points = [low + width * np.arange(count) / (count - 1.0)]
    if domain.low < low:
        points.append(np.maximum(low - steps, domain.low))
    if domain.high > high:
        points.append(np.minimum(high + steps, domain.high))
    everywhere = np.clip(np.unique(np.concatenate(points)), -FAR, FAR)
    inside = np.asarray(curve.holds(everywhere, interior=True))
    return everywhere[inside & np.asarray(domain.holds(everywhere, interior=True))]


def evaluated(function: Any, points: np.ndarray) -> np.ndarray:
    """The values of a function at points, NaN where it has none; a user's formula may know numbers only, or less."""
    with np.errstate(all="ignore"):
        try:
            return np.broadcast_to(np.asarray(function(points), dtype=float), points.shape)
        except Exception:
            return np.array([number_at(function, float(z)) for z in points])


def number_at(function: Any, z: Any) -> float:
    """The value of a function at a score, NaN where it has none."""
    try:
        with np.errstate(all="ignore"):
            return float(function(z))
    except Exception:  # a user's formula may do anything
        return math.nan


def steepness(curve: Curve, z: Any) -> Any:
    """The slope of a curve, or for a composite Sigmoid the factor of it that decides its sign."""
    if not isinstance(curve, CompositeSigmoid):
        return curve.slope(z)
    return curve.bracket(curve.scaling.slope(z), curve.logit(z), curve.scaling(z))


def sampled_fall(curve: Curve, domain: Interval, effort: Effort) -> tuple[float, float] | None:
    """Two scores a < b with curve(a) > curve(b), or None if sampling shows none."""
    points = sample_points(curve, domain)
    if len(points) < 2:
        return None
    low, high = curve.window()
    typical = points[(points >= low) & (points <= high)]
    # a witness among typical scores is easier to believe than one far out
    fall = _fall_among(curve, typical, domain, effort) if len(typical) >= 2 else None
    fall = fall or _fall_among(curve, points, domain, effort)
    return fall or _fall_among(curve, _with_landmarks(curve, points, domain), domain, effort)


def _with_landmarks(curve: Curve, points: np.ndarray, domain: Interval) -> np.ndarray:
    """Sampled scores and those that the parts of a curve name: a fall may be narrow."""
    named = landmarks(curve)
    inside = np.asarray(curve.holds(named, interior=True)) & np.asarray(domain.holds(named, interior=True))
    return np.union1d(points, named[inside & (np.abs(named) <= FAR)])


def _fall_among(curve: Curve, points: np.ndarray, domain: Interval, effort: Effort) -> tuple[float, float] | None:
    values = evaluated(curve, points)
    finite = np.isfinite(values)  # a pole is no fall, but its two sides are
    points, values = points[finite], values[finite]
    if len(points) < 2:
        return None
    with np.errstate(all="ignore"):
        drop = values[:-1] - values[1:]
        drop[~(drop > MARGIN * (np.abs(values[:-1]) + np.abs(values[1:])))] = 0.0
    if drop.any():
        i = int(np.argmax(drop))
        a, b = float(points[i]), float(points[i + 1])
        return fall_around(curve, 0.5 * (a + b), domain) or _plain(curve, a, b, domain)
    slopes = _finite(evaluated(lambda z: steepness(curve, z), points))
    for i in np.argsort(slopes)[:3]:
        if effort.is_over():
            break
        lowest = _lowest(curve, float(points[max(i - 1, 0)]), float(points[min(i + 1, len(points) - 1)]))
        fall = None if lowest is None else fall_around(curve, lowest, domain)
        if fall is not None:
            return fall
    return None


def _finite(slopes: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(slopes), slopes, math.inf)


def _lowest(curve: Curve, low: float, high: float) -> float | None:
    """A score with a negative slope, near the lowest one between two scores."""
    lowest, least = low, math.inf
    for _ in range(12):
        points = np.linspace(low, high, 9)
        slopes = _finite(evaluated(lambda z: steepness(curve, z), points))
        i = int(np.argmin(slopes))
        lowest, least = float(points[i]), float(slopes[i])
        low, high = float(points[max(i - 1, 0)]), float(points[min(i + 1, 8)])
    return lowest if least < 0.0 else None


def fall_around(curve: Curve, z: float, domain: Interval) -> tuple[float, float] | None:
    """The pair of scores around a point with the largest clear fall between them, or None."""
    low, high = curve.window()
    steps = (high - low) * 2.0 ** np.arange(-40.0, -3.0)
    pairs = [(z - step, z + step) for step in steps]
    pairs += [(math.nextafter(z, -math.inf), z), (z, math.nextafter(z, math.inf))]  # a jump
    best, fall = 0.0, None
    for a, b in ((max(a, domain.low), min(b, domain.high)) for a, b in pairs):
        if not a < b or not (curve.holds(a, interior=True) and curve.holds(b, interior=True)):
            continue
        values = number_at(curve, a), number_at(curve, b)
        drop = values[0] - values[1]
        if drop > max(best, 1e-14 * (math.fabs(values[0]) + math.fabs(values[1]))):
            best, fall = drop, (float(a), float(b))
    return None if fall is None else _plain(curve, *fall, domain)


def _plain(curve: Curve, a: float, b: float, domain: Interval) -> tuple[float, float]:
    """The same fall between scores with few digits, which are easier to check by hand."""
    drop = number_at(curve, a) - number_at(curve, b)
    for digits in range(1, 10):
        c, d = float(f"{a:.{digits}g}"), float(f"{b:.{digits}g}")
        inside = c < d and domain.holds(c) and domain.holds(d) and curve.holds(c, interior=True)
        if inside and curve.holds(d, interior=True) and number_at(curve, c) - number_at(curve, d) > 0.5 * drop:
            return c, d
    return a, b
