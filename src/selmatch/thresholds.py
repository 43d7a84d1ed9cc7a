"""Largest gamma and smallest c of scalar composite losses, as certified enclosures."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from selmatch.arrays.effort import Effort
from selmatch.certificates import NEEDS_PROOFS, Certificate, Enclosure, Proved, Refuted, Undecided, Witness
from selmatch.composite import CompositeSigmoid
from selmatch.curve import Curve, Interval
from selmatch.curves import AbsPower
from selmatch.parameters import number
from selmatch.sampling import evaluated, sample_points

#: relative distances from an estimate at which a proof and a refutation are tried, the closest first
DISTANCES = (1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2, 0.1, 0.3, 0.9)
MOST_BOXES = 1000


def largest_gamma(scaling: Curve, domain: Interval, offset: float) -> Enclosure:
    """See :func:`selmatch.certify.largest_gamma`."""
    from selmatch import certify

    free = certify.convex_primitive(scaling, domain)
    if free:
        return Enclosure(math.inf, math.inf, free, free)
    estimate, contradiction = _estimate(scaling, domain, offset)
    if math.isinf(estimate):  # nothing falls in floats, but that is no proof
        return Enclosure(0.0, math.inf, free, free)
    if contradiction is not None:
        statement, how = "some gamma makes the loss convex", "evaluated in double precision"
        none = Refuted(statement, domain, how, witness=contradiction)
        return Enclosure(0.0, 0.0, none, none)

    def at(gamma: float) -> Certificate:
        return certify.convex(
            CompositeSigmoid(scaling, gamma=gamma, offset=offset, check=False), domain, effort=Effort(boxes=MOST_BOXES)
        )

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
    """The closest neighbours of an estimate with the statement proved on one side and refuted on the other."""
    certified: dict[int, tuple[float, Certificate]] = {}
    wanted = {-1: Proved if holds_below else Refuted, 1: Refuted if holds_below else Proved}
    open_ends: dict[int, tuple[float, Certificate]] = {}
    for distance in DISTANCES:
        for side in {-1, 1} - set(certified):
            place = estimate * (1.0 + side * distance)
            found = at(place)
            if isinstance(found, wanted[side]):
                certified[side] = (place, found)
            open_ends[side] = (0.0 if side < 0 else math.inf, _open(found))
            if isinstance(found, Undecided) and found.how == NEEDS_PROOFS:
                raise ImportError(f'{who} needs python-flint. Install it with: pip install "selmatch[proofs]".')
    low, high = certified.get(-1, open_ends[-1]), certified.get(1, open_ends[1])
    return Enclosure(low[0], high[0], low[1], high[1])


def _open(found: Certificate) -> Certificate:
    """What is known of an end that could not be certified: nothing."""
    if isinstance(found, Undecided):
        return found
    remains = f"the estimate was wrong: near it the statement is {'proved' if found else 'refuted'}"
    return Undecided(found.statement, found.domain, found.how, remains=remains)


def _estimate(scaling: Curve, domain: Interval, offset: float) -> tuple[float, Witness | None]:
    """The smallest over all scores of the largest gamma that each allows, in floats; or scores that no gamma suits."""
    critical = scaling.critical(1e3, offset)
    part = domain if critical is None else (domain.overlap(critical) or domain)
    points = sample_points(scaling, part, count=2001)
    least, most = _allowed(scaling, points, offset)
    i, j = int(np.argmax(least)), int(np.argmin(most))
    if least[i] > most[j]:
        return 0.0, _contradiction(float(points[i]), float(least[i]), float(points[j]), float(most[j]))
    if not np.isfinite(most).any():
        return math.inf, None
    best = math.inf
    for _ in range(12):
        i = int(np.argmin(most))
        best = min(best, float(most[i]))
        points = np.linspace(points[max(i - 1, 0)], points[min(i + 1, len(points) - 1)], 33)
        _, most = _allowed(scaling, points, offset)
    return min(best, float(np.min(most))), None


def _contradiction(z: float, least: float, other: float, most: float) -> Witness:
    if math.isinf(least):
        return Witness(f"at {z:.6g} the link decreases with every gamma", (z,), (0.0,))
    text = f"at {z:.6g} gamma must be at least {least:.6g}, at {other:.6g} at most {most:.6g}"
    return Witness(text, (z, other), (least, most))


def _allowed(scaling: Curve, z: np.ndarray, offset: float) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest gamma with q' + sigma(-Q/gamma) q^2/gamma >= 0 at each score: any where q' >= 0."""
    q, steep = evaluated(scaling, z), evaluated(scaling.slope, z)
    level = evaluated(scaling.primitive, z) + offset
    least, most = np.zeros(z.shape), np.full(z.shape, math.inf)
    for i in np.flatnonzero(steep < 0.0):
        with np.errstate(all="ignore"):
            need = float(-steep[i] / q[i] ** 2)  # of t sigma(-Q t), with t = 1/gamma
        low, high = _inverse_gammas(need, float(level[i])) if math.isfinite(need) else (math.inf, 0.0)
        least[i], most[i] = 1.0 / high if high else math.inf, 1.0 / low
    return least, most


def _inverse_gammas(need: float, level: float) -> tuple[float, float]:
    """The smallest and the largest t with t sigma(-level t) >= need; (inf, 0) if there is none."""

    def enough(t: float) -> bool:
        return t / (1.0 + math.exp(min(level * t, 700.0))) >= need

    if level <= 0.0:  # it rises for ever, and reaches half of t at least
        return _crossing(enough, need, 2.0 * need), math.inf
    peak = 1.2784645427610738 / level  # where level t = 1 + e^(-level t)
    if not enough(peak):
        return math.inf, 0.0
    return _crossing(enough, need, peak), _crossing(enough, 800.0 / level, peak)


def _crossing(enough: Callable[[float], bool], outside: float, inside: float) -> float:
    """The border between a t that is not enough and one that is."""
    for _ in range(80):
        middle = 0.5 * (outside + inside)
        outside, inside = (outside, middle) if enough(middle) else (middle, inside)
    return inside
