"""A dense search with 60 digits for what a certificate denies, and a second look at what a witness claims."""

from __future__ import annotations

import functools
import itertools
import math
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from flint import arb, ctx

from fuzzing.exact import PRECISIONS, Exact, Function, listening, negative_slope_at, precisely, value_at
from selmatch.curve import Interval

#: distances from a special place at which a function is looked at, relative to the place where that is more than 1
DISTANCES = tuple(10.0**-k for k in (30, 24, *range(20, 1, -1)))
#: how many switches of a condition are located, and how closely
MOST_SWITCHES, SWITCH_STEPS = 4, 110
MOST_PLACES = 12
#: how many values that look equal are compared with more digits
MOST_DOUBTS = 12


class Sample(NamedTuple):
    """A score, the value there, and how the comparisons on the way came out."""

    z: Any
    value: Any
    decisions: tuple[Any, ...]


# --------------------------------------------------------------------------------------------------------------- scores


def around(place: float) -> Iterator[Any]:
    """A place, its neighbours among floats, points between them, and some further and further away."""
    p, unit = precisely(place), precisely(max(math.fabs(place), 1.0))
    yield p
    for way in (-math.inf, math.inf):
        neighbour = precisely(math.nextafter(place, way))
        yield neighbour
        yield p + (neighbour - p) / 4
        yield precisely(math.nextafter(float(neighbour), way))
    for distance in DISTANCES:
        yield p - unit * distance
        yield p + unit * distance
    for factor in (0.5, 0.999, 1.001, 2.0) if 0.0 < math.fabs(place) < 1e-3 else ():
        yield p * factor


def scores(domain: Interval, places: Iterable[float], count: int = 65) -> list[Any]:
    """Where a function is looked at, in order: across the domain, at its ends and about special places."""
    rng = random.Random(f"{domain.low!r} {domain.high!r}")
    low, high = max(domain.low, -8.0), min(domain.high, 8.0)
    if not low < high or (math.isfinite(domain.low) and math.isfinite(domain.high)):
        low, high = max(domain.low, -1e300), min(domain.high, 1e300)
    width = high - low
    floats = [low + width * (i / (count - 1)) for i in range(count)] + [
        rng.uniform(low, high) for _ in range(count // 4)
    ]
    if math.isinf(domain.low) or math.isinf(domain.high):
        floats += [way * 2.0**k for way in (-1.0, 1.0) for k in range(-40, 60, 4)]
    inner = [p for p in dict.fromkeys(map(float, places)) if domain.low <= p <= domain.high][:MOST_PLACES]
    with ctx.workprec(PRECISIONS[-1]):
        found = [precisely(t) for t in floats]
        for place in (*inner, *(end for end in (domain.low, domain.high) if math.isfinite(end))):
            found += around(place)
        return sorted((z for z in found if holds(domain, z)), key=_Order)


class _Order:
    """Sorts balls without radius."""

    __slots__ = ("z",)

    def __init__(self, z: Any) -> None:
        self.z = z

    def __lt__(self, other: _Order) -> bool:
        return bool(self.z < other.z)


def holds(domain: Interval, z: Any) -> bool:
    above = math.isinf(domain.low) or (z > domain.low if domain.open_low else z >= domain.low)
    below = math.isinf(domain.high) or (z < domain.high if domain.open_high else z <= domain.high)
    return bool(above and below)


def sampled(function: Function, points: Iterable[Any]) -> list[Sample]:
    """The values where there are any."""
    found = (sample_at(function, z) for z in points)
    return [sample for sample in found if sample.value is not None]


def sample_at(function: Function, z: Any) -> Sample:
    with listening() as decisions:
        value = value_at(function, z)
    return Sample(z, value, tuple(decisions))


def middle(a: Any, b: Any) -> Any:
    with ctx.workprec(PRECISIONS[-1]):
        return (a + b) / 2


# ---------------------------------------------------------------------------------------------------------------- falls


def find_fall(function: Function, domain: Interval, places: Sequence[float] = ()) -> tuple[Any, Any] | None:
    """Two scores a < b with function(a) > function(b), certainly; None if the search shows none."""
    samples = sampled(function, scores(domain, places))
    return (
        fall_among(function, samples)
        or _fall_at_a_switch(function, samples, domain)
        or _fall_where_slopes_are_least(function, samples, domain)
    )


def fall_among(function: Function, samples: Sequence[Sample]) -> tuple[Any, Any] | None:
    if not samples:
        return None
    highest, doubts = samples[0], 0
    for sample in samples[1:]:
        rise = int(sample.value > highest.value) - int(sample.value < highest.value)
        if rise == 0 and doubts < MOST_DOUBTS and not (sample.value.is_exact() and highest.value.is_exact()):
            doubts += 1
            rise = order(function, highest.z, sample.z)
        if rise < 0:
            return highest.z, sample.z
        if rise > 0:
            highest = sample
    return None


def _fall_at_a_switch(function: Function, samples: Sequence[Sample], domain: Interval) -> tuple[Any, Any] | None:
    changes = [i for i, pair in enumerate(itertools.pairwise(samples)) if _decided_otherwise(*pair)]
    for i in changes[:MOST_SWITCHES]:
        a, b = samples[i].z, samples[i + 1].z
        for _ in range(SWITCH_STEPS):
            half = middle(a, b)
            same = sample_at(function, half).decisions == samples[i].decisions
            a, b = (half, b) if same else (a, half)
        with ctx.workprec(PRECISIONS[-1]):
            near = [samples[i].z, a, b, samples[i + 1].z, *around(float(a)), *around(float(b))]
        fall = fall_among(function, sampled(function, sorted((z for z in near if holds(domain, z)), key=_Order)))
        if fall is not None:
            return fall
    return None


def _decided_otherwise(a: Sample, b: Sample) -> bool:
    return a.decisions != b.decisions


def _rise(a: Sample, b: Sample) -> float:
    """A difference quotient; only a hint."""
    with ctx.workprec(PRECISIONS[0]):
        quotient = (b.value - a.value) / (b.z - a.z)
    return float(quotient.mid()) if quotient.is_finite() else math.inf


def _fall_where_slopes_are_least(
    function: Function, samples: Sequence[Sample], domain: Interval
) -> tuple[Any, Any] | None:
    slopes = [_rise(a, b) for a, b in itertools.pairwise(samples)]
    for i in sorted(range(len(slopes)), key=slopes.__getitem__)[:3]:
        low, high = samples[max(i - 1, 0)].z, samples[min(i + 2, len(samples) - 1)].z
        for _ in range(4):
            with ctx.workprec(PRECISIONS[-1]):
                points = [low + (high - low) * k / 8 for k in range(9)]
            inner = sampled(function, points)
            fall = fall_among(function, inner)
            if fall is not None or len(inner) < 3:
                return fall
            rises = [_rise(a, b) for a, b in itertools.pairwise(inner)]
            least = min(range(len(rises)), key=rises.__getitem__)
            low, high = inner[max(least - 1, 0)].z, inner[min(least + 2, len(inner) - 1)].z
    return None


def find_dent(primitive: Function, domain: Interval, places: Sequence[float] = ()) -> tuple[Any, Any] | None:
    """The ends of an interval in whose middle a function lies above its chord: it is not convex."""
    samples = sampled(primitive, scores(domain, places))
    for a, b, c in zip(samples, samples[1:], samples[2:], strict=False):
        with ctx.workprec(PRECISIONS[-1]):
            if (b.value - a.value) * (c.z - b.z) > (c.value - b.value) * (b.z - a.z):
                return a.z, c.z
    return None


def find_difference(function: Function, domain: Interval, places: Sequence[float] = ()) -> tuple[Any, Any] | None:
    """Two scores with certainly different values."""
    samples = sampled(function, scores(domain, places))
    for sample in samples[1:]:
        if sample.value != samples[0].value:
            return samples[0].z, sample.z
    return None


def find_both_signs(function: Function, domain: Interval, places: Sequence[float] = ()) -> tuple[Any, Any] | None:
    """A score with a negative value and one with a positive one."""
    samples = sampled(function, scores(domain, places))
    below = next((sample.z for sample in samples if sample.value < 0), None)
    above = next((sample.z for sample in samples if sample.value > 0), None)
    return None if below is None or above is None else (below, above)


def find_asymmetry(function: Function, domain: Interval, about: float, places: Sequence[float] = ()) -> Any:
    """Two distances from a centre whose values add up to different sums."""
    reach = min(about - domain.low, domain.high - about, 8.0)
    first = None
    for z in scores(Interval(about, about + reach), [abs(p - about) + about for p in places], count=17):
        with ctx.workprec(PRECISIONS[-1]):
            mirrored = 2 * precisely(about) - z
        here, there = value_at(function, z), value_at(function, mirrored)
        if here is None or there is None:
            continue
        with ctx.workprec(PRECISIONS[-1]):
            total = here + there
        if first is not None and total != first[1]:
            return first[0], z
        first = first or (z, total)
    return None


# ------------------------------------------------------------------------------------------------------------ integrals


def divergence(curve: Any, s: float, s_hat: float, places: Sequence[float] = ()) -> Any:
    """``Q(s_hat) - Q(s) - (s_hat - s) q(s)``; without Q an integral, in a ball of ten times its changes."""
    start, end = precisely(s), precisely(s_hat)
    if getattr(curve, "primitive", None) is not None:
        values = [value_at(curve.primitive, z) for z in (end, start)]
        here = value_at(curve, start)
        if here is None or None in values:
            return None
        with ctx.workprec(PRECISIONS[-1]):
            return values[0] - values[1] - (end - start) * here
    cuts = sorted({s, s_hat, *(p for p in places if min(s, s_hat) < p < max(s, s_hat))}, reverse=s_hat < s)
    totals: list[Any] = []
    for pieces in (1, 2, 4, 8, 16, 32, 64):
        total = _integral(lambda x: curve(x) - curve(Exact(start)), cuts, pieces)
        if total is None:
            return None
        totals.append(total.mid())
        changes = [abs(total - totals[-1]) for total in totals[-3:-1]]  # one alone may be small by chance
        if len(changes) > 1 and max(changes) < 1e-15 * abs(totals[-1]):
            return arb(totals[-1], 10 * max(changes))
    spread = max(abs(total - totals[-1]) for total in totals[-3:])
    return arb(totals[-1], 10 * spread) if spread < 1e-2 * abs(totals[-1]) else None


def _integral(function: Function, cuts: Sequence[float], pieces: int) -> Any:
    total = arb(0)
    with ctx.workprec(PRECISIONS[0]):
        for a, b in itertools.pairwise(cuts):
            width = (precisely(b) - precisely(a)) / pieces
            for k in range(pieces):
                for node, weight in _gauss_nodes():
                    value = value_at(function, (precisely(a) + width * (k + (node + 1) / 2)).mid())
                    if value is None or not is_known(value):
                        return None
                    total += weight * value * width / 2
    return total


@functools.cache
def _gauss_nodes(count: int = 10) -> list[tuple[Any, Any]]:
    found = []
    with ctx.workprec(PRECISIONS[0]):
        for k in range(count):
            node, weight = arb.legendre_p_root(count, k, weight=True)
            found.append((node.mid(), weight.mid()))
    return found


# ------------------------------------------------------------------------------------------------------------ witnesses

#: bits of a value that this oracle knows at least
_KNOWN = 30
_SHOWN = re.compile(r"= (-?(?:inf|nan|\d+\.?\d*(?:e[+-]?\d+)?))")


def is_known(value: Any) -> bool:
    """Whether a value has digits."""
    return bool(value.is_exact() or value.rel_accuracy_bits() > _KNOWN or abs(value) < 1e-300)


def printed_wrongly(text: str, values: Sequence[Any]) -> str:
    """What is wrong with the numbers of a witness, by more than half of the last digit and the rounding of doubles."""
    shown = _SHOWN.findall(text)[: len(values)]
    largest = max((abs(float(value.mid())) for value in values), default=0.0)
    for number, value in zip(shown, values, strict=False):
        digits, _, exponent = number.partition("e")
        unit = 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]))
        with ctx.workprec(PRECISIONS[0]):
            off = float(abs(value - arb(number)).lower()) if math.isfinite(float(number)) else math.inf
        if not off <= min(0.5 * unit, 1e-5 * largest) + 1e-14 * largest:
            return f"{number} is printed for {value.str(12, radius=False)}"
    return ""


def falls(function: Function, a: Any, b: Any) -> bool:
    """Whether a function is certainly larger at a than at b, which lies above."""
    return bool(a < b) and order(function, a, b) < 0


def order(function: Function, a: Any, b: Any) -> int:
    """1 if a function is certainly larger at b than at a, -1 if smaller; 0 if no precision tells."""
    for bits in PRECISIONS:
        values = value_at(function, a, bits), value_at(function, b, bits)
        if None in values:
            return 0
        if values[0] != values[1]:
            return 1 if values[1] > values[0] else -1
    return 0


def falls_about(function: Function, z: float, domain: Interval) -> bool:
    """Whether a function falls over some short distance about a score, or its slope says so."""
    if holds(domain, precisely(z)) and negative_slope_at(function, precisely(z)):
        return True
    with ctx.workprec(PRECISIONS[-1]):
        p, near = precisely(z), (*DISTANCES, 1e-40, 1e-60, 1e-100, 1e-200)
        steps = [precisely(unit) * d for unit in {max(math.fabs(z), 1e-3), math.fabs(z) or 1e-300} for d in near]
        pairs = [(p - step, p + step) for step in steps]
    return any(holds(domain, a) and holds(domain, b) and falls(function, a, b) for a, b in pairs)


def falls_beside(function: Function, a: Any, b: Any) -> bool:
    """Whether a function falls from next to a to next to b: at a single score its integral takes no notice."""
    return any(falls(function, c, d) for c in beside(a) for d in beside(b))


def has_sign(function: Function, z: Any, sign: int) -> bool:
    """Whether a function has a sign next to a score."""
    values = (value_at(function, t) for t in beside(z))
    return any(value is not None and bool(sign * value > 0) for value in values)


def has_values_beside(function: Function, z: Any) -> bool:
    """Whether there is a value on either side: at the score itself rounding may have hidden a 0."""
    return any(value_at(function, t) is not None for t in beside(z))


def beside(z: Any) -> tuple[Any, Any]:
    with ctx.workprec(PRECISIONS[-1]):
        step = abs(z) * arb(2) ** -200 + arb(2) ** -1200
        return z - step, z + step


def shown_at(function: Function, points: Sequence[float]) -> list[Any] | None:
    """The values at the scores of a witness."""
    values = [value_at(function, precisely(float(z))) for z in points]
    return None if None in values else values
